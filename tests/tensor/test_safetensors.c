/*
 * test_safetensors.c: files that safetensors and PyTorch wrote are read to the last bit, and regard
 * writes the bytes that they would write. A file with any fault is refused, with a sentence that
 * says why.
 */
#include "tests/faults.h"
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/files/safetensors.h"
#include "tensor/scope.h"

#include <stdio.h>
#include <unistd.h>

/* Returns the path of a file in tests/golden/files. */
static const char *golden_path(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/../files/%s.safetensors", golden_folder(), name);
    return path;
}

static rg_tensor *tensor_of(rg_named_list all, const char *name) {
    for (int i = 0; i < all.n; i++)
        if (!strcmp(all.v[i].name, name))
            return all.v[i].tensor;
    ck_abort_msg("no tensor %s", name);
}

/* Returns whether both have the same dtype, shape and bytes. */
static bool same_bits(rg_tensor *a, rg_tensor *b) {
    if (!a || !b || a->dtype != b->dtype || !rgi_same_shape(a, b))
        return false;
    const size_t n = rgi_bytes_of(a);
    char *x = malloc(n + 1), *y = malloc(n + 1);
    bool same = rg_copy_out(a, x, n) && rg_copy_out(b, y, n) && !memcmp(x, y, n);
    free(x);
    free(y);
    return same;
}

/* ---- what safetensors writes -------------------------------------------------------- */

static void check_golden(golden_file *g, const char *words, rg_tensor *t) {
    char *at = (char *)(uintptr_t)words;
    golden_word(&at);
    ck_assert_int_eq(t->dtype, golden_dtype(golden_word(&at)));
    rg_dims shape = golden_dims(golden_word(&at));
    ck_assert_int_eq(t->ndim, shape.n);
    for (int d = 0; d < shape.n; d++)
        ck_assert_int_eq(t->size[d], shape.v[d]);
    char *line = golden_field(g, ':');
    for (int64_t i = 0; i < t->numel; i++) {
        double expected = golden_number(&line);
        double got = rgi_load_f64(t->data + (size_t)i * rgi_sizeof((rg_dtype)t->dtype),
                                  (rg_dtype)t->dtype);
        ck_assert_msg(got == expected && signbit(got) == signbit(expected), "%s: %g, not %g", words,
                      got, expected);
    }
}

START_TEST(test_types) {
    rg_safe_file *file = rg_safe_open(golden_path("types"));
    rg_named_list all = rg_load_file(golden_path("types"));
    ck_assert_msg(file && all.n > 0, "%s", rg_error());
    golden_file g = golden_open("safetensors");
    int n = 0;
    for (char *words; (words = golden_case(&g)); n++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(words, " "), words);
        rg_tensor *lazy = rg_safe_get_tensor(file, name);
        ck_ok(lazy);
        ck_assert(same_bits(lazy, tensor_of(all, name)));
        check_golden(&g, words, lazy);
    }
    golden_close(&g);
    ck_assert_int_eq(n, all.n);
    rg_safe_close(file);
}
END_TEST

START_TEST(test_keys_and_metadata) {
    rg_safe_file *file = rg_safe_open(golden_path("types"));
    rg_names keys = rg_safe_keys(file);
    rg_metadata metadata = rg_safe_metadata(file);
    ck_assert_int_eq(metadata.n, 1);
    rg_safe_close(file); /* The scope owns the texts, so they outlive the file. */
    ck_assert_str_eq(metadata.v[0].key, "made by");
    ck_assert_str_eq(metadata.v[0].value, "safetensors \xe2\x9c\x93");
    ck_assert_int_eq(keys.n, 19);
    for (int i = 1; i < keys.n; i++)
        ck_assert(strcmp(keys.v[i - 1], keys.v[i]) < 0);
    file = rg_safe_open(golden_path("nothing"));
    ck_assert_int_eq(rg_safe_keys(file).n, 0);
    ck_assert_int_eq(rg_safe_metadata(file).n, 0);
    rg_safe_close(file);
    ck_assert_int_eq(rg_load_file(golden_path("nothing")).n, 0);
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

/* ---- what regard writes ------------------------------------------------------------- */

#define AWKWARD_NAMES                                                     \
    "", "b", "a.weight", "\xc3\xbc\xe6\x97\xa5\xf0\x9f\x98\x80", "\"\\/", \
        "\n\t\b\f\r\x01\x1f\x7f", NULL

/* Returns the tensors of write_awkward in safetensors_files.py. */
static rg_named_list awkward(void) {
    static const char *const names[] = { AWKWARD_NAMES };
    static const char *const ends[] = { "", "!", "#", "?" };
    static char name[RG_COUNT(names)][4][304];
    rg_named *v = rgi_scope_alloc(sizeof *v * (RG_COUNT(names) * 4 + 1));
    int n = 0;
    for (int64_t i = 0; i < RG_COUNT(names); i++)
        for (int k = 0; k < 4; k++) {
            static const rg_dtype dtypes[] = { RG_FLOAT32, RG_INT64, RG_FLOAT64, RG_BOOL };
            char *text = name[i][k];
            memset(text, 'x', 300);
            strcpy(text + (names[i] ? 0 : 300), names[i] ? names[i] : "");
            strcat(text, ends[k]);
            rg_dims shape = k ? RG_DIMS(i) : RG_DIMS(2, i);
            rg_tensor *t = rg_zeros_dims(shape, dtypes[k]);
            for (int64_t at = 0; at < t->numel; at++)
                rgi_store_f64(t->data + (size_t)at * rgi_sizeof(dtypes[k]), dtypes[k],
                              k == 0   ? (double)at / 4
                              : k == 1 ? (double)at - 1
                              : k == 2 ? (double)at
                                       : (double)(at % 2 == 0));
            v[n++] = (rg_named){ text, t };
        }
    v[n++] = (rg_named){ "number", rg_scalar_dtype(7, RG_INT64) };
    return (rg_named_list){ n, v };
}

/* The bytes don't depend on the order of the list. */
START_TEST(test_awkward) {
    scratch_begin();
    rg_named_list all = awkward();
    rg_named turned[64];
    for (int i = 0; i < all.n; i++)
        turned[i] = all.v[all.n - 1 - i];
    rg_named_list other = { all.n, turned };
    const rg_metadata_pair pairs[] = { { "\"key\"\n", "v\xc3\xa4lue\\" } };
    ck_ok(rg_save_file(all, scratch("a"), .metadata = { 1, pairs }));
    ck_ok(rg_save_file(other, scratch("b"), .metadata = { 1, pairs }));
    ck_assert(same_files(scratch("a"), golden_path("awkward")));
    ck_assert(same_files(scratch("b"), golden_path("awkward")));
    rg_named_list back = rg_load_file(scratch("a"));
    ck_assert_int_eq(back.n, all.n);
    for (int i = 0; i < all.n; i++)
        ck_assert(same_bits(all.v[i].tensor, tensor_of(back, all.v[i].name)));
    /* RG_NAMED_LIST may be an argument of a macro. */
    rg_tensor *x = rg_arange(3);
    ck_ok(rg_save_file(RG_NAMED_LIST({ "x", x }, { "y", rg_ones(2) }), scratch("d")));
    ck_ok(rg_load_file(scratch("d")).n == 2);
    ck_ok(rg_save_file(rg_named_list_of(1, &(rg_named){ "x", x }), scratch("d")));
    ck_ok(rg_equal(rg_load_file(scratch("d")).v[0].tensor, x));
    ck_ok(rg_save_file((rg_named_list){ 0 }, scratch("c")));
    ck_assert(same_files(scratch("c"), golden_path("nothing")));
    scratch_end();
}
END_TEST

/* A view is written like any tensor of its elements. A tensor with two names is written twice. */
START_TEST(test_views) {
    scratch_begin();
    rg_tensor *x = rg_randn(6, 4), *turned = rgi_own(rgi_alias(x));
    RG_SWAP(turned->size[0], turned->size[1]);
    RG_SWAP(turned->stride[0], turned->stride[1]);
    rgi_update_flags(turned);
    const rg_named tensors[] = { { "x", x }, { "same", x }, { "turned", turned } };
    rg_named_list all = { 3, tensors };
    ck_ok(rg_save_file(all, scratch("f")));
    rg_named_list back = rg_load_file(scratch("f"));
    ck_assert_int_eq(back.n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(same_bits(tensor_of(back, tensors[i].name), tensors[i].tensor));
    ck_assert(rg_is_contiguous(tensor_of(back, "turned")));
    scratch_end();
}
END_TEST

/* All bits of NaNs, infinities and other numbers are kept. */
START_TEST(test_random_bits) {
    scratch_begin();
    static const rg_dtype dtypes[] = { RG_INT64, RG_FLOAT32, RG_FLOAT64 };
    uint64_t state = 1;
    for (int i = 0; i < 30; i++) {
        RG_SCOPE();
        rg_named tensors[8];
        char names[8][16];
        for (int k = 0; k < 8; k++) {
            rg_tensor *t = rg_empty_dims(RG_DIMS((k + 1) * i % 7, 1 + k), dtypes[(i + k) % 3]);
            for (size_t at = 0; at < rgi_bytes_of(t); at++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                t->data[at] = (char)(state >> 56);
            }
            snprintf(names[k], sizeof names[k], "t%d", k);
            tensors[k] = (rg_named){ names[k], t };
        }
        rg_named_list all = { 8, tensors };
        ck_ok(rg_save_file(all, scratch("f")));
        rg_named_list back = rg_load_file(scratch("f"));
        for (int k = 0; k < 8; k++)
            ck_assert(same_bits(tensor_of(back, names[k]), tensors[k].tensor));
    }
    scratch_end();
}
END_TEST

START_TEST(test_what_cannot_be_written) {
    scratch_begin();
    const char *path = scratch("f");
    rg_tensor *x = rg_ones(2);
    const struct {
        rg_named tensors[2];
        rg_metadata_pair pairs[2];
        rg_code code;
        const char *sentence;
    } rows[] = {
        { { { "a", x }, { "a", x } }, { { 0 } }, RG_VALUE_ERROR, "tensor \"a\" comes twice" },
        { { { "a", x }, { NULL, x } }, { { 0 } }, RG_TYPE_ERROR, "expected a name but got NULL" },
        { { { "a", x }, { "b", NULL } }, { { 0 } }, RG_TYPE_ERROR, "but got NULL" },
        { { { "a", x }, { "b", RG_NONE } }, { { 0 } }, RG_TYPE_ERROR, "but got RG_NONE" },
        { { { "a", x }, { "\xff", x } }, { { 0 } }, RG_VALUE_ERROR, "its name is no UTF-8" },
        { { { "a", x }, { "__metadata__", x } },
          { { 0 } },
          RG_VALUE_ERROR,
          "no tensor can have the name \"__metadata__\"" },
        { { { "a", x }, { "b", x } },
          { { "k", "v" }, { "k", "w" } },
          RG_VALUE_ERROR,
          "metadata \"k\" comes twice" },
        { { { "a", x }, { "b", x } },
          { { "k", "v" }, { "l", NULL } },
          RG_TYPE_ERROR,
          "expected a text but got NULL" },
        { { { "a", x }, { "b", x } },
          { { "k", "v" }, { NULL, "w" } },
          RG_TYPE_ERROR,
          "expected a name but got NULL" },
        { { { "a", x }, { "b", x } },
          { { "k", "v" }, { "l", "\xc3" } },
          RG_VALUE_ERROR,
          "metadata \"l\": its text is no UTF-8" },
        { { { "a", x }, { "b", x } },
          { { "\xc3", "v" }, { "l", "" } },
          RG_VALUE_ERROR,
          "metadata \"..\": its name is no UTF-8" },
    };
    for (int i = 0; i < RG_COUNT(rows); i++) {
        rg_named_list all = { 2, rows[i].tensors };
        rg_metadata metadata = { rows[i].pairs[0].key ? 2 : 0, rows[i].pairs };
        ck_fails(rg_save_file(all, path, .metadata = metadata), rows[i].code, rows[i].sentence);
    }
    const rg_named one[] = { { "a", x } };
    rg_named_list all = { 1, one };
    all.n = -1;
    ck_fails(rg_save_file(all, path), RG_TYPE_ERROR,
             "save_file: expected a list but got one that failed: its n is -1");
    all = (rg_named_list){ 1, NULL };
    ck_fails(rg_save_file(all, path), RG_TYPE_ERROR, "expected a list but got NULL");
    all.n = 0;
    ck_fails(rg_save_file(all, path, .metadata = { 1, NULL }), RG_TYPE_ERROR, "expected a list");
    ck_fails(rg_save_file(all, scratch("no/f")), RG_IO_ERROR, "[Errno 2] No such file");
    ck_assert_int_eq(scratch_files(), 0);
    scratch_end();
}
END_TEST

/* No reader accepts a header of more than 100,000,000 bytes. */
START_TEST(test_header_too_long) {
    enum { LONG = 100000001 };
    if (rg_slow())
        return;
    scratch_begin();
    char *text = malloc(LONG + 1);
    memset(text, 'x', LONG);
    text[LONG] = 0;
    rg_metadata_pair pair = { "k", text };
    rg_named_list none = { 0 };
    ck_fails(rg_save_file(none, scratch("f"), .metadata = { 1, &pair }), RG_VALUE_ERROR,
             "metadata \"k\": a text of 100000001 bytes is too long for a header");
    text[LONG - 12] = 0;
    ck_fails(rg_save_file(none, scratch("f"), .metadata = { 1, &pair }), RG_VALUE_ERROR,
             "the header would have more than 100000000 bytes");
    text[LONG - 40] = 0;
    ck_ok(rg_save_file(none, scratch("f"), .metadata = { 1, &pair }));
    rg_safe_file *f = rg_safe_open(scratch("f"));
    rg_metadata back = rg_safe_metadata(f);
    ck_assert(back.n == 1 && !strcmp(back.v[0].value, text));
    rg_safe_close(f);
    free(text);
    scratch_end();
}
END_TEST

/* ---- the lazy reader ---------------------------------------------------------------- */

START_TEST(test_lazy) {
    scratch_begin();
    const rg_named tensors[] = { { "b", rg_ones(3) }, { "a", rg_zeros(2, 2) } };
    rg_named_list all = { 2, tensors };
    ck_ok(rg_save_file(all, scratch("f")));
    rg_safe_file *f = rg_safe_open(scratch("f"));
    ck_ok(f);
    ck_ok(same_bits(rg_safe_get_tensor(f, "a"), tensors[1].tensor));
    ck_fails(rg_safe_get_tensor(f, "c"), RG_INDEX_ERROR, "f': File does not contain tensor c");
    ck_fails(rg_safe_get_tensor(f, "__metadata__"), RG_INDEX_ERROR, "File does not contain");
    ck_fails(rg_safe_get_tensor(f, NULL), RG_TYPE_ERROR, "expected a name but got NULL");
    /* If another file takes the path of an open one, the open one is still read. If the open one is
     * cut short, reading fails. */
    ck_ok(rg_save_file((rg_named_list){ 0 }, scratch("f")));
    ck_ok(same_bits(rg_safe_get_tensor(f, "b"), tensors[0].tensor));
    rg_safe_close(f);
    ck_ok(rg_save_file(all, scratch("f")));
    f = rg_safe_open(scratch("f"));
    rg_safetensors opened;
    ck_ok(rgi_safetensors_open(&opened, "load", scratch("f")));
    const rg_safetensors_entry *b = rgi_safetensors_find(&opened, "b");
    char sentence[80];
    snprintf(sentence, sizeof sentence, "f': it was cut short at byte %d while it was read",
             (int)b->begin + 7);
    ck_assert(truncate(scratch("f"), (off_t)b->begin + 7) == 0);
    rgi_safetensors_close(&opened);
    ck_fails(rg_safe_get_tensor(f, "b"), RG_IO_ERROR, sentence);
    ck_fails(rg_safe_get_tensor(f, "b"), RG_IO_ERROR, "safe_get_tensor: '");
    const rg_named bad_and_good[] = { { NULL, rg_ones(3) }, { "a", rg_ones(3) } };
    const rg_named_list nameless = { 2, bad_and_good };
    ck_fails(rg_save_file(nameless, scratch("g")), RG_TYPE_ERROR, "expected a name but got NULL");
    rg_safe_close(f);
    rg_safe_close(NULL);
    ck_assert_int_eq(rg_error_code(), RG_OK);
    ck_fails(rg_load_file(scratch("g")).n != -1, RG_IO_ERROR,
             "load_file: [Errno 2] No such file or directory: '");
    scratch_end();
}
END_TEST

/* An index lists several files, whose tensors are read as if they were in one file. */
START_TEST(test_shards) {
    static const char index[] = "{\"metadata\": {\"total_size\": 44}, \"weight_map\": {"
                                "\"a\": \"2.safetensors\", \"b\": \"1.safetensors\","
                                "\"c\": \"2.safetensors\"}}";
    scratch_begin();
    const rg_named b = { "b", rg_ones(3) };
    const rg_named others[] = { { "a", rg_zeros(2, 2) }, { "c", rg_arange(2) } };
    ck_ok(rg_save_file(((rg_named_list){ 1, &b }), scratch("1.safetensors")));
    ck_ok(rg_save_file(((rg_named_list){ 2, others }), scratch("2.safetensors")));
    const char *path = scratch_write("x.index.json", index, sizeof index - 1);
    const rg_named_list all = rg_load_file(path);
    ck_assert_int_eq(all.n, 3);
    rg_safe_file *f = rg_safe_open(path);
    const rg_names keys = rg_safe_keys(f);
    for (int i = 0; i < 3; i++) {
        ck_assert(keys.v[i][0] == "abc"[i]);
        ck_ok(same_bits(rg_safe_get_tensor(f, all.v[i].name), all.v[i].tensor));
    }
    ck_ok(same_bits(rg_safe_get_tensor(f, "b"), b.tensor));
    ck_fails(rg_safe_get_tensor(f, "d"), RG_INDEX_ERROR, "x.index.json': File does not contain");
    rg_safe_close(f);
    ck_ok(rg_save_file(((rg_named_list){ 1, others }), scratch("1.safetensors")));
    ck_fails(rg_load_file(path).n >= 0, RG_IO_ERROR, "1.safetensors': it lacks tensor \"b\"");
    const rg_named twice[] = { b, others[0] };
    ck_ok(rg_save_file(((rg_named_list){ 2, twice }), scratch("1.safetensors")));
    ck_fails(rg_safe_open(path), RG_IO_ERROR, "safetensors': tensor \"a\" comes twice");
    ck_ok(rg_save_file(((rg_named_list){ 1, &b }), scratch("1.safetensors")));
    remove(scratch("2.safetensors"));
    ck_fails(rg_load_file(path).n >= 0, RG_IO_ERROR, "load_file: [Errno 2]");
    scratch_end();
}
END_TEST

/* Tensors that have more bytes than max_shard_size are written into several files and an index. */
START_TEST(test_save_shards) {
    scratch_begin();
    rg_named tensors[] = { { "a", rg_arange(3) }, { "b", rg_ones(2, 3) }, { "c", rg_rand(40) },
                           { "d", rg_zeros(0) },  { "e", rg_rand(5) },    { "f\"", rg_rand(5) } };
    const rg_named_list all = { 6, tensors };
    const char *path = scratch("m.safetensors");
    ck_ok(rg_save_file(all, path, .max_shard_size = 1000));
    ck_assert_int_eq(scratch_files(), 1);
    remove(path);
    ck_ok(rg_save_file(all, path, .max_shard_size = 48));
    ck_assert_int_eq(scratch_files(), 4);
    ck_assert_int_eq(rg_load_file(scratch("m-00001-of-00003.safetensors")).n, 2);
    rg_named_list back = rg_load_file(scratch("m.safetensors.index.json"));
    ck_assert_int_eq(back.n, 6);
    rg_safe_file *f = rg_safe_open(scratch("m.safetensors.index.json"));
    for (int i = 0; i < 6; i++)
        ck_ok(same_bits(rg_safe_get_tensor(f, tensors[i].name), tensors[i].tensor));
    rg_safe_close(f);
    ck_fails(rg_save_file(all, scratch("m"), .max_shard_size = 48), RG_VALUE_ERROR,
             "m' doesn't end with .safetensors, as the path of several files must");
    ck_fails(rg_save_file(all, path, .max_shard_size = -1), RG_VALUE_ERROR,
             "save_file: max_shard_size -1 is negative");
    tensors[5].name = "a";
    ck_fails(rg_save_file(all, path, .max_shard_size = 48), RG_VALUE_ERROR, "save_file:");
    ck_assert_int_eq(scratch_files(), 4);
    scratch_end();
}
END_TEST

/* A file may have no tensors at all. */
START_TEST(test_no_tensors) {
    RG_SCOPE();
    scratch_begin();
    const rg_named_list none = { 0, NULL };
    ck_ok(rg_save_file(none, scratch("f")));
    ck_assert_int_eq(rg_load_file(scratch("f")).n, 0);
    rg_safe_file *f = rg_safe_open(scratch("f"));
    ck_ok(f);
    ck_assert_int_eq(rg_safe_keys(f).n, 0);
    ck_assert_int_eq(rg_safe_metadata(f).n, 0);
    ck_fails(rg_safe_get_tensor(f, "a"), RG_INDEX_ERROR, "File does not contain tensor a");
    rg_safe_close(f);
    scratch_end();
}
END_TEST

/* ---- bad files ---------------------------------------------------------------------- */

/* A bad file: its header, the number of its bytes of data, and the expected sentence. */
typedef struct {
    const char *header;
    size_t data;
    const char *sentence;
} bad_file;

/* A header with one tensor, "a", of this description. */
#define A(description) "{\"a\":" description "}"
#define OF(dtype, shape, offsets) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define F32(shape, offsets) OF("\"F32\"", shape, offsets)

static const bad_file bad_files[] = {
#include "bad_safetensors.def"
};

/* Writes a file in which the header's length is given as n. */
static const char *write_file(const char *header, uint64_t n, size_t data) {
    size_t bytes = 8 + strlen(header) + data;
    char *all = calloc(bytes + 1, 1);
    for (int i = 0; i < 8; i++)
        all[i] = (char)(n >> 8 * i);
    memcpy(all + 8, header, strlen(header));
    const char *path = scratch_write("f", all, bytes);
    free(all);
    return path;
}

static void check_refused(const char *path, const char *sentence) {
    char expected[512];
    snprintf(expected, sizeof expected, "load_file: '%s': %s", path, sentence);
    RG_SCOPE();
    const int64_t before = rg_memory_stats().now;
    rg_error_clear();
    {
        RG_SCOPE();
        ck_assert_msg(rg_load_file(path).n == -1, "this isn't refused: %s", sentence);
    }
    ck_assert_msg(!strcmp(rg_error(), expected), "'%s' instead of '%s'", rg_error(), expected);
    ck_assert_int_eq(rg_error_code(), RG_IO_ERROR);
    ck_assert_int_eq(rg_memory_stats().now, before);
    rg_error_clear();
}

START_TEST(test_bad_files) {
    scratch_begin();
    for (int i = 0; i < RG_COUNT(bad_files); i++) {
        RG_SCOPE();
        const bad_file *bad = &bad_files[i];
        const char *path = write_file(bad->header, strlen(bad->header), bad->data);
        check_refused(path, bad->sentence);
        ck_fails(rg_safe_open(path), RG_IO_ERROR, bad->sentence);
    }
    scratch_end();
}
END_TEST

START_TEST(test_bad_lengths) {
    static const struct {
        uint64_t n;
        const char *header;
        size_t data;
        const char *sentence;
    } rows[] = {
        { 0, "", 0, "its header doesn't begin with {" },
        { 0, "{}", 0, "its header doesn't begin with {" },
        { 1, "{}", 0, "its header doesn't end with } and blanks" },
        { 3, "{}", 0, "its header would have 3 bytes, and 2 follow" },
        { 100000000, "{}", 6, "its header would have 100000000 bytes, and 8 follow" },
        { 100000001, "{}", 6, "its header would have 100000001 bytes, and 100000000 are the most" },
        { 1ull << 32, "{}", 0,
          "its header would have 4294967296 bytes, and 100000000 are the most" },
        { UINT64_MAX, "{}", 0,
          "its header would have 18446744073709551615 bytes, and 100000000 are the most" },
        { UINT64_MAX - 7, "{}", 0,
          "its header would have 18446744073709551608 bytes, and 100000000 are the most" },
        { 1ull << 63, "{}", 0,
          "its header would have 9223372036854775808 bytes, and 100000000 are the most" },
        { 2, "{}", 1, "the last 1 bytes of data are no tensor's" },
        { 2, "{}", 8, "the last 8 bytes of data are no tensor's" },
        { 2, "{}{}", 0, "the last 2 bytes of data are no tensor's" },
    };
    scratch_begin();
    for (int i = 0; i < RG_COUNT(rows); i++)
        check_refused(write_file(rows[i].header, rows[i].n, rows[i].data), rows[i].sentence);
    for (size_t n = 0; n < 8; n++) {
        char sentence[80];
        snprintf(sentence, sizeof sentence, "it has %zu bytes, and the length of a header has 8",
                 n);
        check_refused(scratch_write("f", "\2\0\0\0\0\0\0\0", n), sentence);
    }
    scratch_end();
}
END_TEST

/* A file that is cut at any place is refused, and so is one with a byte more. */
START_TEST(test_cut_anywhere) {
    scratch_begin();
    size_t n;
    char *bytes = file_bytes(golden_path("types"), &n);
    bytes = realloc(bytes, n + 1);
    bytes[n] = 0;
    for (size_t cut = 0; cut <= n + 1; cut++) {
        if (cut == n)
            continue;
        rg_error_clear();
        ck_assert(rg_load_file(scratch_write("f", bytes, cut)).n == -1);
        ck_assert_int_eq(rg_error_code(), RG_IO_ERROR);
    }
    rg_error_clear();
    ck_assert(rg_load_file(scratch_write("f", bytes, n)).n == 19);
    free(bytes);
    scratch_end();
}
END_TEST

/* Each byte of a file takes every value in turn. The file is read, or refused with RG_IO_ERROR. */
START_TEST(test_any_byte) {
    scratch_begin();
    size_t n;
    const char *header = A(F32("[2]", "[0,8]"));
    const char *path = write_file(header, strlen(header), 8);
    char *bytes = file_bytes(path, &n);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 256; c += rg_slow() ? 17 : 1) {
            RG_SCOPE();
            const char before = bytes[i];
            bytes[i] = (char)c;
            rg_error_clear();
            rg_named_list all = rg_load_file(scratch_write("f", bytes, n));
            ck_assert_int_eq(rg_error_code(), all.n < 0 ? RG_IO_ERROR : RG_OK);
            bytes[i] = before;
        }
    rg_error_clear();
    free(bytes);
    scratch_end();
}
END_TEST

/* An element that int64 can't hold is named in the error. */
START_TEST(test_bad_elements) {
    scratch_begin();
    const char *header = A(OF("\"U64\"", "[3]", "[0,24]"));
    size_t n;
    char *bytes = file_bytes(write_file(header, strlen(header), 24), &n);
    bytes[n - 1] = (char)0x80;
    check_refused(scratch_write("f", bytes, n), "tensor \"a\": element 2 is 9223372036854775808, "
                                                "which int64 can't hold");
    free(bytes);
    scratch_end();
}
END_TEST

static const struct {
    const char *header;
    size_t data;
    int n;
} good_files[] = {
    { "{}", 0, 0 },
    { "{}                 ", 0, 0 },
    { "{\n\t\"a\" : { \"shape\" : [ 2 ] , \"data_offsets\":[0,8],\"dtype\":\"F32\"}\r\n}", 8, 1 },
    { "{\"__metadata__\":{}}", 0, 0 },
    { "{\"__metadata__\":{\"\":\"\",\"a\":\"\\u00e9\"}}", 0, 0 },
    { A(F32("[]", "[0,4]")), 4, 1 },
    { A(F32("[0]", "[0,0]")), 0, 1 },
    { A(F32("[0,4294967296,4]", "[0,0]")), 0, 1 },
    { A(F32("[1,1,1,1,1,1,1,1]", "[0,4]")), 4, 1 },
    { "{\"\":" F32("[2]", "[0,8]") "}", 8, 1 },
    { "{\"\\u0061\\ud83d\\ude00\":" F32("[2]", "[0,8]") "}", 8, 1 },
    { "{\"b\":" F32("[1]", "[4,8]") ",\"a\":" F32("[1]", "[0,4]") "}", 8, 2 },
    { "{\"b\":" F32("[0]", "[4,4]") ",\"a\":" F32("[1]", "[0,4]") "}", 4, 2 },
    { "{\"b\":" F32("[0]", "[0,0]") ",\"a\":" F32("[1]", "[0,4]") "}", 4, 2 },
    { "{\"b\":" F32("[0]", "[4,4]") ",\"a\":" F32("[1]", "[0,4]") ",\"c\":" F32("[1]", "[4,8]") "}",
      8, 3 },
    { "{\"a\":" F32("[1]", "[0,4]") ",\"b\":" F32("[0]", "[0,0]") "}", 4, 2 },
    { "{\"x\":" OF("\"U8\"", "[3]", "[0,3]") ",\"y\":" F32("[1]", "[3,7]") "}", 7, 2 },
};

START_TEST(test_good_files) {
    scratch_begin();
    for (int i = 0; i < RG_COUNT(good_files); i++) {
        const char *header = good_files[i].header;
        const char *path = write_file(header, strlen(header), good_files[i].data);
        ck_assert_msg(rg_load_file(path).n == good_files[i].n, "%s: %s", header, rg_error());
    }
    scratch_end();
}
END_TEST

/* ---- short reads, and denied memory and files --------------------------------------- */

/* A file that is read in small parts, with signals in between, gives the same tensors. */
START_TEST(test_slowly) {
    faults_begin();
    faults.most = 3;
    faults.interrupts = true;
    rg_named_list slow = rg_load_file(golden_path("types"));
    faults_end();
    rg_named_list quick = rg_load_file(golden_path("types"));
    ck_assert_int_eq(slow.n, 19);
    for (int i = 0; i < quick.n; i++)
        ck_assert(same_bits(slow.v[i].tensor, quick.v[i].tensor));
}
END_TEST

/* Loads, looks at and saves a file. Returns whether all went well. */
static bool use_everything(void) {
    rg_named_list all = rg_load_file(golden_path("types"));
    rg_safe_file *f = all.n < 0 ? NULL : rg_safe_open(golden_path("types"));
    rg_metadata metadata = f ? rg_safe_metadata(f) : (rg_metadata){ .n = -1 };
    bool ok = metadata.n >= 0 && rg_safe_keys(f).n >= 0 && rg_safe_get_tensor(f, "f16")
              && rg_save_file(all, scratch("f"), .metadata = metadata);
    rg_safe_close(f);
    return ok;
}

static bool look_at_metadata(void) {
    rg_safe_file *f = rg_safe_open(golden_path("types"));
    const bool ok = f && rg_safe_metadata(f).n >= 0;
    rg_safe_close(f);
    return ok;
}

static bool look_at_keys(void) {
    rg_safe_file *f = rg_safe_open(golden_path("types"));
    const bool ok = f && rg_safe_keys(f).n >= 0;
    rg_safe_close(f);
    return ok;
}

static bool save_shards(void) {
    const rg_named tensors[] = { { "a", rg_ones(3) }, { "b", rg_ones(3) } };
    return tensors[0].tensor && tensors[1].tensor
           && rg_save_file(((rg_named_list){ 2, tensors }), scratch("f.safetensors"),
                           .max_shard_size = 12)
           && rg_load_file(scratch("f.safetensors.index.json")).n == 2;
}

/* The old file is whole, and there is no other. */
static void check_saved(bool done) {
    RG_SCOPE();
    (void)done;
    ck_assert_int_eq(scratch_files(), 1);
    ck_assert_int_eq(rg_load_file(scratch("f")).n, 19);
}

/* Denies each request for memory in turn, and makes each call of the file system fail. */
START_TEST(test_denied) {
    scratch_begin();
    ck_assert_int_gt(deny_in_turn(use_everything, check_saved), 50);
    ck_assert_int_gt(fail_in_turn(use_everything, check_saved), 20);
    ck_assert_int_gt(deny_in_turn(look_at_metadata, NULL), 5);
    ck_assert_int_gt(deny_in_turn(look_at_keys, NULL), 5);
    ck_assert_int_gt(deny_in_turn(save_shards, NULL), 20);
    ck_assert_int_gt(fail_in_turn(save_shards, NULL), 20);
    scratch_end();
}
END_TEST

/* ---- functions that nn/ calls ------------------------------------------------------- */

START_TEST(test_inside) {
    rg_safetensors s;
    ck_ok(rgi_safetensors_open(&s, "load", golden_path("types")));
    ck_assert_str_eq(rgi_safetensors_text(&s, "made by"), "safetensors \xe2\x9c\x93");
    ck_assert_ptr_null(rgi_safetensors_text(&s, "none"));
    const rg_safetensors_entry *e = rgi_safetensors_find(&s, "i8");
    ck_assert(e && e->type == RG_FILE_I8 && e->numel == 8 && e->end - e->begin == 8);
    ck_assert_ptr_null(rgi_safetensors_find(&s, "i9"));
    ck_ok(rgi_safetensors_read(&s, e));
    for (int i = 0; i < s.n; i++) {
        ck_assert(rgi_safetensors_find(&s, s.v[i].name) == &s.v[i]);
        ck_assert(i == 0 || s.v[i].begin == s.v[i - 1].end);
    }
    rgi_safetensors_close(&s);
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

RG_TESTS(safetensors, test_types, test_keys_and_metadata, test_awkward, test_views,
         test_random_bits, test_what_cannot_be_written, test_header_too_long, test_lazy,
         test_shards, test_save_shards, test_no_tensors, test_bad_files,
         test_bad_lengths, test_cut_anywhere, test_any_byte, test_bad_elements, test_good_files,
         test_slowly, test_denied, test_inside)

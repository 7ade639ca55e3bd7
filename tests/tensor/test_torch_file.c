/*
 * test_torch_file.c: files of torch.save are read as torch.load reads them, and written so that
 * torch opens them. Files that torch can't have written are refused, each mistake with its own
 * sentence.
 */
#include "tensor/files/files.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"
#include "tensor/files/torch/pickle.h"
#include "tensor/files/torch/torch_value.h"
#include "tensor/files/zip.h"
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/memory_file.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <stdio.h>
#include <unistd.h>

static const char *files_folder(void) {
    const char *folder = getenv("REGARD_FILES");
    return folder ? folder : "tests/golden/files";
}

static const char *file_of(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", files_folder(), name);
    return path;
}

/* ---- golden files --------------------------------------------------------------------- */

enum { STORAGES_MOST = 64 };

/* Requires that a tensor lies in memory as the golden data say. `known` has the storage for each
 * number of a storage. */
static void check_place(const char *file, rg_named got, char *words, rg_storage **known) {
    int64_t number = golden_integer(&words), offset = golden_integer(&words);
    rg_tensor *t = got.tensor;
    ck_assert_int_lt(number, STORAGES_MOST);
    if (!known[number])
        known[number] = t->storage;
    ck_assert_msg(known[number] == t->storage, "%s: %s is in another storage", file, got.name);
    for (int64_t i = 0; i < number; i++)
        ck_assert_msg(known[i] != t->storage, "%s: %s shares its storage", file, got.name);
    int64_t at = (t->data - (char *)t->storage->data) / (int64_t)rgi_sizeof((rg_dtype)t->dtype);
    ck_assert_msg(at == offset, "%s: %s is at %d", file, got.name, (int)at);
}

static void check_elements(const char *file, rg_named got, char *numbers) {
    rg_tensor *t = got.tensor;
    RG_SCOPE();
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t rest = i, at = 0;
        for (int d = t->ndim - 1; d >= 0; d--) {
            at += rest % t->size[d] * t->stride[d];
            rest /= t->size[d];
        }
        bool same = false;
        if (rgi_is_integer((rg_dtype)t->dtype)) {
            const int64_t bytes = (int64_t)rgi_sizeof((rg_dtype)t->dtype);
            const int64_t v = rgi_load_i64(t->data + at * bytes, (rg_dtype)t->dtype);
            same = v == golden_integer(&numbers);
        } else {
            double want = golden_number(&numbers);
            const int64_t bytes = (int64_t)rgi_sizeof((rg_dtype)t->dtype);
            double is = rgi_load_f64(t->data + at * bytes, (rg_dtype)t->dtype);
            same = memcmp(&want, &is, sizeof is) == 0 || is == want;
        }
        ck_each(same, "%s: %s: element %d", file, got.name, (int)i);
    }
    ck_assert(golden_at_end(numbers));
}

/* Requires that an entry is what the golden data say; returns whether it has a tensor. */
static bool check_torch_entry(golden_file *f, const char *file, rg_named got, rg_storage **known) {
    char *words = golden_field(f, '-');
    ck_assert_str_eq(got.name, golden_quoted(&words));
    char *dtype = golden_word(&words);
    if (strcmp(dtype, "none") == 0) {
        ck_assert_msg(got.tensor == RG_NONE, "%s: %s has a tensor", file, got.name);
        return false;
    }
    if (strcmp(dtype, "beyond") == 0) {
        rg_error_clear();
        ck_assert(rg_numel(got.tensor) == -1 && strstr(rg_error(), got.name)
                  && strstr(rg_error(), "it is an integer that int64 can't hold"));
        rg_error_clear();
        return false;
    }
    rg_dims size = golden_dims(golden_word(&words)), stride = golden_dims(golden_word(&words));
    ck_assert_msg(got.tensor->dtype == golden_dtype(dtype), "%s: %s", file, got.name);
    ck_assert_int_eq(got.tensor->ndim, size.n);
    for (int d = 0; d < size.n; d++) {
        ck_assert_int_eq(got.tensor->size[d], size.v[d]);
        ck_assert_int_eq(got.tensor->stride[d], stride.v[d]);
    }
    check_place(file, got, words, known);
    check_elements(file, got, golden_field(f, ':'));
    return true;
}

static void check_list(golden_file *f, const char *file, rg_named_list list, int64_t n) {
    rg_storage *known[STORAGES_MOST] = { 0 };
    ck_assert_msg(list.n == n, "%s: %d entries: %s", file, list.n, rg_error());
    for (int i = 0; i < list.n; i++)
        check_torch_entry(f, file, list.v[i], known);
}

START_TEST(test_torch_golden) {
    golden_file f = golden_open("torch_files");
    int files = 0;
    for (char *words; (words = golden_case(&f)); files++) {
        RG_SCOPE();
        char *name = golden_word(&words);
        int64_t n = golden_integer(&words);
        rg_error_clear();
        rg_named_list list = rg_torch_load(file_of(name));
        if (n < 0) {
            const char *sentence = golden_text(&f);
            ck_assert_msg(list.n == -1 && rg_error_code() == RG_IO_ERROR, "%s is read", name);
            ck_assert_msg(strstr(rg_error(), sentence) && strstr(rg_error(), name), "%s: %s", name,
                          rg_error());
            continue;
        }
        check_list(&f, name, list, n);
    }
    golden_close(&f);
    ck_assert_int_gt(files, 20);
}
END_TEST

/* A list that is written and read again is the same. */
START_TEST(test_torch_again) {
    golden_file f = golden_open("torch_files");
    memory_file_begin();
    for (char *words; (words = golden_case(&f));) {
        RG_SCOPE();
        char *name = golden_word(&words);
        int64_t n = golden_integer(&words);
        if (n < 0) {
            golden_text(&f);
            continue;
        }
        rg_system memory = rgi_system;
        rgi_system = memory_file.before;
        rg_named_list list = rg_torch_load(file_of(name));
        rgi_system = memory;
        /* A file with an integer that int64 can't hold is read, but can't be written. */
        const bool large = strcmp(name, "large.pt") == 0;
        if (large)
            ck_fails(rg_torch_save(list, "folder/again.pt"), RG_RUNTIME_ERROR, "\"seed\"");
        else
            ck_assert_msg(rg_torch_save(list, "folder/again.pt"), "%s: %s", name, rg_error());
        check_list(&f, name, large ? list : rg_torch_load("again.pt"), n);
    }
    memory_file_end();
    golden_close(&f);
}
END_TEST

/* A pickle from torch is written again with the same bytes. */
START_TEST(test_torch_pickle) {
    RG_SCOPE();
    rg_zip z;
    rg_named_list list = rg_torch_load(file_of("views.pt"));
    ck_assert(rgi_zip_open(&z, "test", file_of("views.pt")));
    const rg_zip_member *m = rgi_zip_find(&z, "views/data.pkl");
    size_t n = (size_t)m->bytes;
    char *want = rgi_scope_alloc(n), *got = rgi_scope_alloc(n);
    ck_assert(rgi_zip_read(&z, m, want));
    rgi_zip_close(&z);
    memory_file_begin();
    /* The last tensor had another dtype in torch. */
    list.n--;
    ck_ok(rg_torch_save(list, "views.pt"));
    ck_assert(rgi_zip_open(&z, "test", "views.pt"));
    m = rgi_zip_find(&z, "views/data.pkl");
    ck_assert(m && m->bytes < n);
    ck_assert(rgi_zip_read(&z, m, got));
    const char *rest = got + m->bytes - 2;
    ck_assert(memcmp(got, want, (size_t)m->bytes - 2) == 0 && memcmp(rest, "u.", 2) == 0);
    ck_assert_ptr_nonnull(rgi_zip_find(&z, "views/data/3"));
    ck_assert_ptr_null(rgi_zip_find(&z, "views/data/4"));
    for (size_t i = 0; i < z.n; i++)
        ck_assert_int_eq(z.v[i].data % 64, 0);
    /* The other members are torch's, too, in the same order. */
    static const char *const beside[][2] = {
        { "data.pkl", NULL },      { ".format_version", "1" }, { ".storage_alignment", "64" },
        { "byteorder", "little" }, { "data/0", NULL },
    };
    for (int i = 0; i < RG_COUNT(beside); i++) {
        char text[32] = "";
        ck_assert_str_eq(z.v[i].name + strlen("views/"), beside[i][0]);
        ck_assert(!beside[i][1] || rgi_zip_read(&z, &z.v[i], text));
        ck_assert_str_eq(text, beside[i][1] ? beside[i][1] : "");
    }
    ck_assert_str_eq(z.v[z.n - 1].name, "views/version");
    rgi_zip_close(&z);
    memory_file_end();
}
END_TEST

/* ---- lists ---------------------------------------------------------------------------- */

START_TEST(test_named_below) {
    RG_SCOPE();
    rg_named_list all = rg_torch_load(file_of("checkpoint.pt"));
    rg_named_list model = rg_named_below(all, "model");
    ck_assert_int_eq(model.n, 9);
    ck_assert_str_eq(model.v[0].name, "0.weight");
    ck_assert_ptr_eq(model.v[0].tensor, all.v[0].tensor);
    ck_assert_int_eq(rg_named_below(model, "1").n, 5);
    ck_assert_int_eq(rg_named_below(all, "mode").n, 0);
    ck_assert_int_eq(rg_named_below(all, "epoch").n, 0);
    ck_assert_int_eq(rg_named_below(all, "").n, 0);
    ck_fails(rg_named_below(all, NULL).n != -1, RG_TYPE_ERROR, "named_below: expected a name");
    rg_named nameless = { NULL, RG_NONE };
    ck_fails(rg_named_below((rg_named_list){ 1, &nameless }, "a").n != -1, RG_TYPE_ERROR, "a name");
    ck_fails(rg_named_below((rg_named_list){ -1, NULL }, "a").n != -1, RG_TYPE_ERROR, "a list");
    const rg_named no_tensors[] = { { "a.b", NULL }, { "a.c", RG_NONE } };
    ck_fails(rg_named_below((rg_named_list){ 2, no_tensors }, "a").n != -1, RG_TYPE_ERROR,
             "named_below: expected a tensor");
}
END_TEST

START_TEST(test_torch_saved) {
    RG_SCOPE();
    memory_file_begin();
    rg_tensor *t = rg_ones(2);
    rg_named v[] = { { "a", t }, { "a", t }, { "\xff", t }, { NULL, t }, { "b", NULL } };
    ck_ok(rg_torch_save((rg_named_list){ 1, v }, "x"));
    ck_fails(rg_torch_save((rg_named_list){ 2, v }, "x"), RG_VALUE_ERROR,
             "torch_save: the name \"a\" comes twice");
    ck_fails(rg_torch_save((rg_named_list){ 1, v + 2 }, "x"), RG_VALUE_ERROR,
             "torch_save: name 0 of the list is no UTF-8");
    ck_fails(rg_torch_save((rg_named_list){ 1, v + 3 }, "x"), RG_TYPE_ERROR, "expected a name");
    ck_fails(rg_torch_save((rg_named_list){ 1, v + 4 }, "x"), RG_TYPE_ERROR, "expected a tensor");
    ck_fails(rg_torch_save((rg_named_list){ -1, v }, "x"), RG_TYPE_ERROR, "expected a list");
    ck_fails(rg_torch_save((rg_named_list){ 1, v }, NULL), RG_TYPE_ERROR, "expected a path");
    ck_fails(rg_torch_load(NULL).n != -1, RG_TYPE_ERROR, "torch_load: expected a path");
    memory_file_end();
    ck_fails(rg_torch_load("no such file").n != -1, RG_IO_ERROR,
             "torch_load: [Errno 2] No such file or directory: 'no such file'");
    ck_fails(rg_torch_save((rg_named_list){ 1, v }, "no such folder/x"), RG_IO_ERROR, "[Errno 2]");
}
END_TEST

/* Lists of many lengths, also with more pairs than Python pickles at a time. */
START_TEST(test_torch_many) {
    static rg_named v[2003];
    static char names[2003][16];
    RG_SCOPE();
    memory_file_begin();
    for (int n = 1; n <= 2003; n = n * 2 + 1) {
        for (int i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "n%d", i);
            v[i] = (rg_named){ names[i], rg_scalar_dtype(i, RG_FLOAT64) };
        }
        ck_ok(rg_torch_save((rg_named_list){ n, v }, "many.pt"));
        rg_named_list back = rg_torch_load("many.pt");
        ck_assert_int_eq(back.n, n);
        for (int i = 0; i < n; i++)
            ck_each(strcmp(back.v[i].name, names[i]) == 0 && rg_item(back.v[i].tensor) == i,
                    "%d of %d", i, n);
    }
    v[0].tensor = rg_rand(70001);
    ck_ok(rg_torch_save((rg_named_list){ 1, v }, "large.pt"));
    rg_named_list back = rg_torch_load("large.pt");
    ck_assert(back.n == 1 && rg_equal(back.v[0].tensor, v[0].tensor));
    memory_file_end();
}
END_TEST

/* Returns the place of the bytes `part` in `in`, or NULL. */
static const char *find_bytes(const char *in, size_t n, const char *part, size_t bytes) {
    for (size_t i = 0; i + bytes <= n; i++)
        if (memcmp(in + i, part, bytes) == 0)
            return in + i;
    return NULL;
}

/* Integers are written in as few bytes as Python takes, and read again. The integers are sizes of
 * expanded tensors, which have one element in memory. */
START_TEST(test_pickled_sizes) {
    static const struct {
        int64_t size;
        const char *pickled;
        size_t n;
    } rows[] = {
#define SIZE(size, pickled) { size, pickled, sizeof(pickled) - 1 }
        SIZE(1, "K\1\x85"),
        SIZE(255, "K\xff\x85"),
        SIZE(256, "M\0\1\x85"),
        SIZE(65535, "M\xff\xff\x85"),
        SIZE(65536, "J\0\0\1\0\x85"),
        SIZE(INT32_MAX, "J\xff\xff\xff\x7f\x85"),
        SIZE((int64_t)1 << 31, "\x8a\5\0\0\0\x80\0\x85"),
        SIZE(((int64_t)1 << 39) - 1, "\x8a\5\xff\xff\xff\xff\x7f\x85"),
        SIZE((int64_t)1 << 39, "\x8a\6\0\0\0\0\x80\0\x85"),
        SIZE((int64_t)1 << 55, "\x8a\10\0\0\0\0\0\0\x80\0\x85"),
    };
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(rows); i++) {
        RG_SCOPE();
        rg_tensor *t = rgi_own(rgi_alias(rg_ones(1)));
        t->size[0] = rows[i].size;
        t->stride[0] = 0;
        rgi_update_flags(t);
        ck_ok(rg_torch_save((rg_named_list){ 1, &(rg_named){ "w", t } }, "sizes.pt"));
        ck_assert_msg(find_bytes(memory_file.v, memory_file.n, rows[i].pickled, rows[i].n),
                      "%lld is written otherwise", (long long)rows[i].size);
        rg_named_list back = rg_torch_load("sizes.pt");
        ck_assert_msg(back.n == 1, "%s", rg_error());
        ck_assert_int_eq(rg_size(back.v[0].tensor, 0), rows[i].size);
        ck_assert_int_eq(rg_stride(back.v[0].tensor, 0), 0);
    }
    /* A shape of more than three sizes is pickled in another way. */
    for (int ndim = 0; ndim <= RG_MAX_DIMS; ndim++) {
        RG_SCOPE();
        rg_dims shape = { .n = ndim };
        for (int d = 0; d < ndim; d++)
            shape.v[d] = 1 + (d % 2);
        rg_tensor *t = rg_rand_dims(shape, RG_FLOAT32, rg_default_generator());
        ck_ok(rg_torch_save((rg_named_list){ 1, &(rg_named){ "w", t } }, "dims.pt"));
        rg_named_list back = rg_torch_load("dims.pt");
        ck_assert_msg(back.n == 1 && rg_equal(back.v[0].tensor, t), "%s", rg_error());
    }
    memory_file_end();
}
END_TEST

/* Negative integers, and the largest integers, are also written in as few bytes as Python takes. */
START_TEST(test_pickled_integers) {
    static const struct {
        int64_t whole;
        const char *pickled;
        size_t n;
    } rows[] = {
#define WHOLE(whole, pickled) { whole, pickled, sizeof(pickled) - 1 }
        WHOLE(-1, "J\xff\xff\xff\xff"),
        WHOLE(INT32_MIN, "J\0\0\0\x80"),
        WHOLE((int64_t)INT32_MIN - 1, "\x8a\5\xff\xff\xff\x7f\xff"),
        WHOLE(-((int64_t)1 << 39), "\x8a\5\0\0\0\0\x80"),
        WHOLE(-((int64_t)1 << 39) - 1, "\x8a\6\xff\xff\xff\xff\x7f\xff"),
        WHOLE(INT64_MIN, "\x8a\10\0\0\0\0\0\0\0\x80"),
        WHOLE(INT64_MAX, "\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7f"),
    };
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(rows); i++) {
        RG_SCOPE();
        rg_py p = { 0 };
        rgi_py_begin(&p, RG_PY_DICT);
        rgi_py_int(&p, "whole", rows[i].whole);
        rgi_py_end(&p);
        ck_ok(rgi_torch_write("save", &p, "integers.pt"));
        rgi_py_free(&p);
        ck_assert_msg(find_bytes(memory_file.v, memory_file.n, rows[i].pickled, rows[i].n),
                      "%lld is written otherwise", (long long)rows[i].whole);
        rg_named_list back = rg_torch_load("integers.pt");
        ck_assert_msg(back.n == 1, "%s", rg_error());
        ck_assert_int_eq(rg_item_int(back.v[0].tensor), rows[i].whole);
    }
    memory_file_end();
}
END_TEST

/* If the file's name is plain text, it is the name of the members' folder. */
START_TEST(test_folders) {
    static const char *const rows[][2] = {
        { "model.pt", "model" },   { "a.b/model", "model" }, { "a/model.v2.pt", "model.v2" },
        { ".pt", "archive" },      { "a/.pt", "archive" },   { "m\u00e4.pt", "archive" },
        { " .pt", " " },           { "~.pt", "~" },          { "a\x1f.pt", "archive" },
        { "a\x7f.pt", "archive" }, { "\ra.pt", "archive" },  { "a b~.pt", "a b~" },
    };
    RG_SCOPE();
    rg_named_list list = { 1, &(rg_named){ "w", rg_ones(2) } };
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(rows); i++) {
        rg_zip z;
        char member[64];
        snprintf(member, sizeof member, "%s/data.pkl", rows[i][1]);
        ck_ok(rg_torch_save(list, rows[i][0]));
        ck_ok(rgi_zip_open(&z, "test", rows[i][0]));
        ck_assert_msg(rgi_zip_find(&z, member), "%s has no %s", rows[i][0], member);
        rgi_zip_close(&z);
        ck_assert_int_eq(rg_torch_load(rows[i][0]).n, 1);
    }
    memory_file_end();
}
END_TEST

/* A list of one tensor without a name is saved as torch.save(t, f) saves it, and is read again as
 * such a list. */
START_TEST(test_nameless) {
    static const char alone[] = "\x80\2ctorch._utils\n_rebuild_tensor_v2\n";
    RG_SCOPE();
    rg_named v[] = { { "", rg_ones(2) }, { "w", rg_ones(2) } };
    memory_file_begin();
    for (int n = 1; n <= 2; n++) {
        ck_ok(rg_torch_save((rg_named_list){ n, v }, "x.pt"));
        const bool is_alone = find_bytes(memory_file.v, memory_file.n, alone, sizeof alone - 1);
        ck_assert_int_eq(is_alone, n == 1);
        rg_named_list back = rg_torch_load("x.pt");
        ck_assert_msg(back.n == n && !*back.v[0].name, "%s", rg_error());
        ck_assert(rg_equal(back.v[0].tensor, v[0].tensor));
    }
    memory_file_end();
}
END_TEST

/* Objects that a pickle uses again are found by numbers of one byte or of four. Each name before
 * the tensors takes a number. */
START_TEST(test_many_memos) {
    enum { MOST = 260 };
    static char names[MOST][8];
    static rg_named v[MOST + 6];
    memory_file_begin();
    for (int before = 225; before < MOST; before++) {
        RG_SCOPE();
        int n = 0;
        for (; n < before; n++) {
            snprintf(names[n], sizeof names[n], "n%d", n);
            v[n] = (rg_named){ names[n], RG_NONE };
        }
        rg_tensor *flags = rg_literal([ true, false ]), *doubles = rg_scalar_dtype(0.1, RG_FLOAT64);
        v[n++] = (rg_named){ "a", flags };
        v[n++] = (rg_named){ "b", doubles };
        v[n++] = (rg_named){ "c", rgi_own(rgi_alias(flags)) };
        v[n++] = (rg_named){ "d", rgi_own(rgi_alias(doubles)) };
        v[n++] = (rg_named){ "e", rg_scalar_dtype(0.2, RG_FLOAT64) };
        ck_ok(rg_torch_save((rg_named_list){ n, v }, "x.pt"));
        rg_named_list back = rg_torch_load("x.pt");
        ck_assert_msg(back.n == n, "%d: %s", before, rg_error());
        for (int i = before; i < n; i++)
            ck_assert(rg_equal(back.v[i].tensor, v[i].tensor));
        ck_assert_ptr_eq(back.v[before].tensor->storage, back.v[before + 2].tensor->storage);
        ck_assert_ptr_eq(back.v[before + 1].tensor->storage, back.v[before + 3].tensor->storage);
    }
    memory_file_end();
}
END_TEST

/* ---- nested values ------------------------------------------------------------------------ */

/* The names of the parts of a nested value, which has a value of each kind inside others of each
 * kind. */
static const char *const value_names[] = {
    "whole",    "real",     "flag",      "text",   "nothing",   "w",         "list.0",  "list.1.0",
    "list.1.1", "list.2.k", "list.2.-5", "list.3", "ordered.7", "counter.a", "tuple.0", "last",
};

static void make_value(rg_py *p, rg_tensor *w) {
    rgi_py_begin(p, RG_PY_DICT);
    rgi_py_int(p, "whole", 1000);
    rgi_py_float(p, "real", -0.5);
    rgi_py_bool(p, "flag", true);
    rgi_py_text(p, "text", "two words");
    rgi_py_none(p, "nothing");
    rgi_py_tensor(p, "w", w);
    rgi_py_begin_at(p, "list", RG_PY_LIST);
    rgi_py_int(p, NULL, -3);
    rgi_py_begin(p, RG_PY_TUPLE);
    rgi_py_float(p, NULL, 1e300);
    rgi_py_none(p, NULL);
    rgi_py_end(p);
    rgi_py_begin(p, RG_PY_DICT);
    rgi_py_bool(p, "k", false);
    rgi_py_int_key(p, -5);
    rgi_py_int(p, NULL, 70000);
    rgi_py_end(p);
    rgi_py_tensor(p, NULL, w);
    rgi_py_end(p);
    rgi_py_begin_at(p, "ordered", RG_PY_ORDERED_DICT);
    rgi_py_int_key(p, 7);
    rgi_py_tensor(p, NULL, w);
    rgi_py_end(p);
    rgi_py_begin_at(p, "counter", RG_PY_COUNTER);
    rgi_py_int(p, "a", 2);
    rgi_py_end(p);
    rgi_py_begin_at(p, "nobody", RG_PY_LIST);
    rgi_py_end(p);
    rgi_py_begin_at(p, "tuple", RG_PY_TUPLE);
    rgi_py_text(p, NULL, "x");
    rgi_py_end(p);
    rgi_py_int(p, "last", 255);
    rgi_py_end(p);
}

/* Requires that a value that is written and read again becomes the list with these names. */
static void check_value(rg_py *p, int n, const char *const *names) {
    RG_SCOPE();
    rg_named_list flat = rgi_py_flat(p);
    ck_assert_msg(flat.n == n, "%d names: %s", flat.n, rg_error());
    ck_ok(rgi_torch_write("save", p, "x.pt"));
    rg_named_list back = rg_torch_load("x.pt");
    ck_assert_msg(back.n == n, "%d names: %s", back.n, rg_error());
    for (int i = 0; i < n; i++) {
        rg_tensor *a = flat.v[i].tensor, *b = back.v[i].tensor;
        ck_assert_str_eq(flat.v[i].name, names[i]);
        ck_assert_str_eq(back.v[i].name, names[i]);
        ck_assert_msg((a == RG_NONE) == (b == RG_NONE), "%s", names[i]);
        ck_assert_msg(a == RG_NONE || (a->dtype == b->dtype && rg_equal(a, b)), "%s", names[i]);
    }
    rgi_py_free(p);
}

START_TEST(test_values) {
    RG_SCOPE();
    rg_tensor *w = rg_rand(2, 3);
    memory_file_begin();
    rg_py p = { 0 };
    make_value(&p, w);
    check_value(&p, RG_COUNT(value_names), value_names);
    ck_assert(find_bytes(memory_file.v, memory_file.n, "\x80\2}(X\5\0\0\0whole", 14));
    rg_named_list back = rg_torch_load("x.pt");
    ck_assert(rg_item_int(back.v[0].tensor) == 1000 && rg_item(back.v[1].tensor) == -0.5);
    ck_assert_ptr_eq(back.v[5].tensor->storage, back.v[12].tensor->storage);
    /* The whole value may be a list, a tuple or a single tensor. */
    for (int tuple = 0; tuple < 2; tuple++) {
        p = (rg_py){ 0 };
        rgi_py_begin(&p, tuple ? RG_PY_TUPLE : RG_PY_LIST);
        rgi_py_int(&p, NULL, 5);
        rgi_py_begin(&p, RG_PY_LIST);
        rgi_py_tensor(&p, NULL, w);
        rgi_py_end(&p);
        rgi_py_end(&p);
        check_value(&p, 2, (const char *const[]){ "0", "1.0" });
    }
    p = (rg_py){ 0 };
    rgi_py_tensor(&p, NULL, w);
    check_value(&p, 1, (const char *const[]){ "" });
    /* The whole value may be a text, for which the list has no tensor. */
    p = (rg_py){ 0 };
    rgi_py_text(&p, NULL, "two words");
    ck_ok(rgi_torch_write("save", &p, "x.pt"));
    ck_assert_ptr_nonnull(find_bytes(memory_file.v, memory_file.n, "X\11\0\0\0two words", 14));
    rgi_py_free(&p);
    /* A tensor that is NULL makes the whole value fail. */
    p = (rg_py){ 0 };
    rgi_py_begin(&p, RG_PY_LIST);
    rgi_py_tensor(&p, NULL, NULL);
    rgi_py_end(&p);
    ck_assert(p.failed && rgi_py_flat(&p).n == -1 && !rgi_torch_write("save", &p, "x.pt"));
    rgi_py_free(&p);
    p = (rg_py){ 0 };
    rgi_py_begin(&p, RG_PY_DICT);
    rgi_py_int(&p, "\xff", 1);
    rgi_py_end(&p);
    ck_fails(rgi_torch_write("save", &p, "x.pt"), RG_VALUE_ERROR, "save: a name is no UTF-8");
    rgi_py_free(&p);
    memory_file_end();
}
END_TEST

static bool flatten_value(void) {
    rg_tensor *w = rg_ones(2, 3);
    rg_py p = { 0 };
    if (w)
        make_value(&p, w);
    const bool ok = w && rgi_py_flat(&p).n >= 0;
    rgi_py_free(&p);
    return ok;
}

static bool write_value(void) {
    rg_tensor *w = rg_ones(2, 3);
    rg_py p = { 0 };
    if (w)
        make_value(&p, w);
    const bool ok = w && rgi_torch_write("save", &p, "x.pt");
    rgi_py_free(&p);
    return ok;
}

START_TEST(test_values_denied) {
    memory_file_begin();
    ck_assert_int_gt(deny_in_turn(flatten_value, NULL), 20);
    ck_assert_int_gt(deny_in_turn(write_value, NULL), 20);
    memory_file_end();
}
END_TEST

/* ---- bad pickles ------------------------------------------------------------------------ */

/* A member of an archive that a test makes. */
typedef struct {
    const char *name;
    const void *bytes;
    size_t n;
} member;

static const char elements[24];

static void write_archive(int n, const member *m) {
    rg_zip_writer z;
    ck_assert(rgi_zip_begin(&z, "test", "x.pt"));
    for (int i = 0; i < n; i++) {
        rgi_zip_member_begin(&z, m[i].name, m[i].n, 64);
        rgi_zip_put(&z, m[i].bytes, m[i].n);
    }
    ck_assert_msg(rgi_zip_end(&z), "%s", rg_error());
}

/* Reads an archive with this pickle. */
static rg_named_list load_pickle(const void *pickle, size_t n) {
    const member m[] = { { "archive/data.pkl", pickle, n },
                         { "archive/data/0", elements, sizeof elements },
                         { "archive/version", "3\n", 2 } };
    write_archive(RG_COUNT(m), m);
    return rg_torch_load("x.pt");
}

/* Requires that reading the list failed with an error that contains the sentence. */
static void check_refused(rg_named_list list, const char *sentence, const char *what) {
    bool named = strncmp(rg_error(), "torch_load: 'x.pt': ", 20) == 0;
    ck_assert_msg(list.n == -1 && rg_error_code() == RG_IO_ERROR && named
                      && strstr(rg_error(), sentence),
                  "%s: wanted '%s', got '%s'", what, sentence, rg_error());
    rg_error_clear();
}

#define FLOATS      STORAGE("Float", "0", "K\6")
#define TWO_THREE   "K\2K\3\x86"
#define THREE_ONE   "K\3K\1\x86"
#define SIZE_MOST   "\x8a\10\xff\xff\xff\xff\xff\xff\xff\7"
#define HUGE_HUGE   "\x8a\10\0\0\0\0\0\0\0\7\x8a\10\0\0\0\0\0\0\0\7\x86"
#define REBUILD     "ctorch._utils\n_rebuild_tensor_v2\n"
#define FROM_TYPE   "ctorch._tensor\n_rebuild_from_type_v2\n"
#define DICT(value) "}X\1\0\0\0w" value "s."
#define ONE_TENSOR  TENSOR(FLOATS, "K\0", TWO_THREE, THREE_ONE)
#define STORAGE(type, key, numel) \
    "(X\7\0\0\0storagectorch\n" type "Storage\nX\1\0\0\0" key "X\3\0\0\0cpu" numel "tQ"
#define TENSOR(storage, offset, size, stride) REBUILD "(" storage offset size stride "\x89}tR"
#define V3(dtype, offset, size, stride)                                            \
    "ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE("storage.Untyped", "0", "K\30") \
        offset size stride "\x89}ctorch\n" dtype "\ntR"

static const struct {
    const char *pickle;
    size_t n;
    const char *sentence;
} bad_pickles[] = {
#define BAD(pickle, sentence) { pickle, sizeof(pickle) - 1, sentence },
#include "bad_pickles.def"
};

START_TEST(test_bad_pickles) {
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(bad_pickles); i++) {
        RG_SCOPE();
        rg_named_list list = load_pickle(bad_pickles[i].pickle, bad_pickles[i].n);
        check_refused(list, bad_pickles[i].sentence, bad_pickles[i].pickle);
    }
    memory_file_end();
}
END_TEST

/* A long text is cut off, but never within a character. */
START_TEST(test_shown) {
    char text[200], want[200];
    for (int n = 110; n < 130; n++) {
        memset(text, 'a', sizeof text);
        memcpy(text + n, "\u4e2d", 4);
        bool whole = n + 3 <= 120;
        int kept = whole ? n + 3 : RG_MIN(n, 120);
        snprintf(want, sizeof want, "%.*s%s", kept, text, whole ? "" : "..");
        ck_assert_str_eq(RG_SHOWN_BYTES(text, (size_t)n + 3), want);
    }
    ck_assert_str_eq(RG_SHOWN_BYTES("a\x1f \x7f~", 5), "a? ?~");
}
END_TEST

/* Each opcode is refused by its name, except for those that torch's weights-only reader accepts. */
START_TEST(test_bad_opcodes) {
    static const char taken[] = "(.GJKMNQRUXabcehjqrstu]})\x80\x81\x85\x86\x87\x88\x89\x8a\x8f";
    static const struct {
        char op;
        const char *name;
    } named[] = {
        { '0', "POP" },
        { '2', "DUP" },
        { 'i', "INST" },
        { 'o', "OBJ" },
        { '\x82', "EXT1" },
        { '\x93', "STACK_GLOBAL" },
        { '\x92', "NEWOBJ_EX" },
        { '\x95', "FRAME" },
        { '\x8c', "SHORT_BINUNICODE" },
        { 'B', "BINBYTES" },
        { '\x97', "NEXT_BUFFER" },
        { '\x8b', "LONG4" },
        { '\xff', "no opcode" },
        { 'Z', "no opcode" },
    };
    int refused = 0;
    memory_file_begin();
    for (int op = 0; op < 256; op++) {
        RG_SCOPE();
        char pickle[] = { '\x80', 2, 'N', (char)op, '.' }, sentence[64];
        if (op && strchr(taken, (char)op))
            continue;
        snprintf(sentence, sizeof sentence, "Unsupported operand %d (", op);
        for (int i = 0; i < RG_COUNT(named); i++)
            if (named[i].op == (char)op)
                snprintf(sentence, sizeof sentence, "before byte 4: Unsupported operand %d (%s)",
                         op, named[i].name);
        check_refused(load_pickle(pickle, sizeof pickle), sentence, "an opcode");
        refused++;
    }
    ck_assert_int_eq(refused, 256 - 34);
    memory_file_end();
}
END_TEST

/* Pickles that are accepted. They use the same macros, and some are forms that torch itself doesn't
 * write. */
static const struct {
    const char *pickle;
    size_t n;
    int entries;
} good_pickles[] = {
#define GOOD(pickle, entries) \
    { pickle, sizeof(pickle) - 1, entries }
#define EIGHT_ONES     "K\1K\1K\1K\1K\1K\1K\1K\1"
#define NEGATED(truth) "}X\3\0\0\0neg" truth "s"
    GOOD(DICT(ONE_TENSOR), 1),
    GOOD(DICT(FLOATS), 1),
    GOOD(DICT(V3("uint16", "K\1", "K\3\x85", "K\4\x85")), 1),
    GOOD(DICT(TENSOR(FLOATS, "K\0", "](K\2K\3e", "](K\3K\1e")), 1),
    GOOD(DICT(TENSOR(FLOATS, "K\0", "ctorch\nSize\n" TWO_THREE "\x85R", THREE_ONE)), 1),
    GOOD(DICT(TENSOR(FLOATS, "J\0\0\0\7", "K\0K\3\x86", THREE_ONE)), 1),
    GOOD(DICT(TENSOR(FLOATS, "K\0", SIZE_MOST "\x85", "K\0\x85")), 1),
    GOOD(DICT(TENSOR(FLOATS, "K\0", "K\1\x85", SIZE_MOST "\x85")), 1),
    GOOD(DICT("ctorch.nn.parameter\nParameter\n" ONE_TENSOR "\x88\x86\x81"), 1),
    GOOD(DICT(REBUILD "(" FLOATS "K\0))\x89}" NEGATED("\x89") "tR"), 1),
    GOOD(DICT(REBUILD "(" FLOATS "K\0))\x89}NtR"), 1),
    GOOD(DICT(REBUILD "(" FLOATS "K\0))\x89}}tR"), 1),
    GOOD(DICT(FROM_TYPE "(" REBUILD "ctorch\nTensor\n(" FLOATS "K\0))\x89}tNtR"), 1),
    GOOD(DICT(FROM_TYPE "(" REBUILD "ctorch.nn.parameter\nParameter\n(" FLOATS "K\0))\x89}tNtR"),
         1),
    /* The second argument of encode may be bytes. */
    GOOD(DICT("(c_codecs\nencode\nX\7\0\0\0storageX\6\0\0\0latin1\x86Rctorch\nFloatStorage\n"
              "X\1\0\0\0000X\3\0\0\0cpuK\6tQ"),
         1),
    GOOD(DICT("(c_codecs\nencode\nX\7\0\0\0storage\x85Rctorch\nFloatStorage\n"
              "X\1\0\0\0000X\3\0\0\0cpuK\6tQ"),
         1),
    GOOD("ccollections\nOrderedDict\n)\x81U\1aK\1s}b.", 1),
    GOOD("ccollections\nCounter\n}(U\1aK\1U\1bK\2U\1cK\3u\x85R.", 3),
    GOOD("c__builtin__\nset\n)R.", 1),
    GOOD("c__builtin__\nset\n)\x81.", 1),
    GOOD("cbuiltins\nset\n](K\1K\2e\x85R.", 1),
    GOOD("ctorch\nSize\nK\1K\2\x86\x85\x81.", 2),
    GOOD("ctorch\nSize\n(" EIGHT_ONES EIGHT_ONES EIGHT_ONES EIGHT_ONES EIGHT_ONES EIGHT_ONES
             EIGHT_ONES EIGHT_ONES "t\x85R.",
         64),
    GOOD("ctorch\ndevice\nX\4\0\0\0cudaK\1\x86R.", 1),
    GOOD("\x80\5\x8f.", 1),
    GOOD("c_codecs\nencode\n)R.", 1),
    GOOD("ctorch.serialization\n_get_layout\nX\0\0\0\0\x85R.", 1),
    GOOD("\x8a\0.", 1),
    GOOD("N(NN.", 1),
    GOOD("Nq\3.", 1),
};

START_TEST(test_good_pickles) {
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(good_pickles); i++) {
        RG_SCOPE();
        rg_error_clear();
        rg_named_list list = load_pickle(good_pickles[i].pickle, good_pickles[i].n);
        ck_assert_msg(list.n == good_pickles[i].entries, "%d: %d entries: %s", i, list.n,
                      rg_error());
    }
    memory_file_end();
}
END_TEST

/* In memory, true is a byte of 1. */
START_TEST(test_pickled_bools) {
    RG_SCOPE();
    memory_file_begin();
    rg_named_list list = load_pickle("](\x88\x89"
                                     "e.",
                                     6);
    ck_assert_msg(list.n == 2, "%s", rg_error());
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rg_dtype_of(list.v[i].tensor), RG_BOOL);
        ck_assert_int_eq(*list.v[i].tensor->data, !i);
    }
    memory_file_end();
}
END_TEST

/* A tensor without elements has the strides of a new tensor, whatever the pickle says. */
START_TEST(test_strides_of_nothing) {
    static const char pickle[] = DICT(TENSOR(FLOATS, "K\1", "K\0K\3\x86", "K\7K\x9\x86"));
    RG_SCOPE();
    memory_file_begin();
    rg_named_list list = load_pickle(pickle, sizeof pickle - 1);
    ck_assert_msg(list.n == 1, "%s", rg_error());
    const rg_tensor *t = list.v[0].tensor;
    ck_assert(t->numel == 0 && t->stride[0] == 3 && t->stride[1] == 1);
    ck_assert(t->data == t->storage->data);
    memory_file_end();
}
END_TEST

static bool load_again(void) { return rg_torch_load("x.pt").n >= 0; }

/* Denies each request for memory to the reading of each accepted pickle, in turn. */
START_TEST(test_good_pickles_denied) {
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(good_pickles); i++) {
        {
            RG_SCOPE();
            load_pickle(good_pickles[i].pickle, good_pickles[i].n);
        }
        ck_assert_int_gt(deny_in_turn(load_again, NULL), 5);
    }
    memory_file_end();
}
END_TEST

/* The tables of the pickle machine have room for 64 entries at first, and may grow at any step of a
 * call. The number of values before the call decides at which step they grow. */
START_TEST(test_calls_denied) {
    static const struct {
        const char *pickle;
        size_t n;
    } calls[] = {
#define CALL(pickle) { pickle, sizeof(pickle) - 1 }
        CALL("ccollections\nCounter\n}(U\1aK\1U\1bK\2u\x85R."),
        CALL("cbuiltins\nset\n]\x85R."),
        CALL("ctorch\ndevice\nX\4\0\0\0cudaK\1\x86R."),
        CALL("c_codecs\nencode\nU\1a\x85R."),
        CALL(FLOATS "."),
        CALL(ONE_TENSOR "."),
    };
    char pickle[512];
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(calls); i++)
        for (size_t before = 45; before < 70; before++) {
            RG_SCOPE();
            memcpy(pickle, "](", 2);
            memset(pickle + 2, 'N', before);
            pickle[2 + before] = 'e';
            memcpy(pickle + before + 3, calls[i].pickle, calls[i].n);
            ck_assert_int_gt(load_pickle(pickle, before + 3 + calls[i].n).n, 0);
            ck_assert_int_gt(deny_in_turn(load_again, NULL), 5);
        }
    memory_file_end();
}
END_TEST

/* Integers of each length, in Python's bytes. */
START_TEST(test_pickled_longs) {
    static const struct {
        const char *pickle;
        size_t n;
        int64_t value;
    } longs[] = {
#define LONG(pickle, value) { pickle ".", sizeof(pickle), value }
        LONG("\x8a\0", 0),
        LONG("\x8a\1\xff", -1),
        LONG("\x8a\2\xff\0", 255),
        LONG("\x8a\2\0\xff", -256),
        LONG("\x8a\5\0\0\0\x80\0", 2147483648),
        LONG("\x8a\10\0\0\0\0\0\0\0\x80", INT64_MIN),
        LONG("\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7f", INT64_MAX),
        LONG("\x8a\12\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff", -2),
        LONG("\x8a\12\2\0\0\0\0\0\0\0\0\0", 2),
        LONG("J\0\0\0\x80", INT32_MIN),
        LONG("M\xff\xff", 65535),
        LONG("K\xff", 255),
    };
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(longs); i++) {
        RG_SCOPE();
        rg_named_list list = load_pickle(longs[i].pickle, longs[i].n);
        ck_assert_msg(list.n == 1, "%d: %s", i, rg_error());
        ck_assert(rg_item_int(list.v[0].tensor) == longs[i].value);
    }
    memory_file_end();
}
END_TEST

/* An integer that int64 can't hold is read as an entry. Only using its tensor fails, with the
 * entry's name. rg_named_below and the other entries work as usual. */
START_TEST(test_large_integers) {
    static const struct {
        const char *v;
        size_t n;
    } pickles[] = {
#define LARGE(integer)                                                     \
    { "}(X\1\0\0\0aK\7X\1\0\0\0b}(X\1\0\0\0c" integer "X\1\0\0\0dK\10uu.", \
      sizeof("}(X\1\0\0\0aK\7X\1\0\0\0b}(X\1\0\0\0c" integer "X\1\0\0\0dK\10uu.") - 1 }
        LARGE("\x8a\11\0\0\0\0\0\0\0\x80\0"),
        LARGE("\x8a\11\xff\xff\xff\xff\xff\xff\xff\x7f\xff"),
        LARGE("\x8a\12\0\0\0\0\0\0\0\0\0\1"),
    };
    const char *sentence = "entry \"b.c\" of 'x.pt': it is an integer that int64 can't hold";
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(pickles); i++) {
        RG_SCOPE();
        rg_error_clear();
        const rg_named_list list = load_pickle(pickles[i].v, pickles[i].n);
        ck_assert_msg(list.n == 3 && rg_error_code() == RG_OK, "%s", rg_error());
        ck_assert(rg_item_int(list.v[0].tensor) == 7 && rg_item_int(list.v[2].tensor) == 8);
        const rg_named_list below = rg_named_below(list, "b");
        ck_assert(below.n == 2 && rg_error_code() == RG_OK);
        rg_tensor *large = below.v[0].tensor;
        ck_fails(rg_item(large) == 0, RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_ndim(large) >= 0, RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_repr(large), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_keep(large), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_set_name(large, "x"), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_torch_save(list, "x.pt"), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_save_file(below, "x.safetensors"), RG_RUNTIME_ERROR, sentence);
    }
    memory_file_end();
}
END_TEST

/* ---- pickles that are much shorter than their values -------------------------------------- */

typedef struct {
    char v[1 << 16];
    size_t n;
} growing;

static void add(growing *g, const char *bytes, size_t n) {
    ck_assert(g->n + n <= sizeof g->v);
    memcpy(g->v + g->n, bytes, n);
    g->n += n;
}
#define ADD(g, text) add(g, text, sizeof(text) - 1)

/* Makes a pickle of a list of n values, whose name has this number of letters. */
static void make_named_list(growing *g, uint32_t letters, int n) {
    g->n = 0;
    ADD(g, "}X");
    for (int i = 0; i < 4; i++)
        add(g, &(char){ (char)(letters >> 8 * i) }, 1);
    for (uint32_t i = 0; i < letters; i++)
        ADD(g, "a");
    ADD(g, "](");
    for (int i = 0; i < n; i++)
        ADD(g, "N");
    ADD(g, "es.");
}

/* Returns the sum of the lengths of all names but the last of n. A name has the letters, a dot, a
 * number and a 0. */
static size_t place_of_last_name(uint32_t letters, int n) {
    size_t at = 0;
    for (int i = 0; i < n - 1; i++)
        at += letters + 1 + (size_t)snprintf(NULL, 0, "%d", i) + 1;
    return at;
}

/* The names of all entries may have 256 letters for each byte of the pickle, and no more. */
static void check_letters(growing *g) {
    RG_SCOPE();
    uint32_t letters = 4000;
    int n = 1;
    for (; n < 400; n++) {
        if (n == 399) {
            letters++;
            n = 1;
        }
        make_named_list(g, letters, n);
        if (place_of_last_name(letters, n) / 256 == g->n)
            break;
    }
    rg_named_list list = load_pickle(g->v, g->n);
    ck_assert_msg(list.n == n, "%s", rg_error());
    make_named_list(g, letters, n + 1);
    check_refused(load_pickle(g->v, g->n), "the names are longer than the pickle's bytes can say",
                  "one name more");
}

/* An error about an element shows a name of 110 letters in full. */
static void check_long_name(growing *g) {
    RG_SCOPE();
    static const char value[] = V3("uint64", "K\0", "K\3\x85", "K\1\x85");
    char sentence[200], name[111] = "";
    memset(name, 'n', 110);
    g->n = 0;
    ADD(g, "}X\x6e\0\0\0");
    add(g, name, 110);
    add(g, value, sizeof value - 1);
    ADD(g, "s.");
    static const char large[] = "\xff\xff\xff\xff\xff\xff\xff\xff--------========";
    const member m[] = { { "archive/data.pkl", g->v, g->n },
                         { "archive/data/0", large, sizeof large - 1 },
                         { "archive/version", "3\n", 2 } };
    write_archive(RG_COUNT(m), m);
    snprintf(sentence, sizeof sentence, "tensor \"%s\": element 0 is 18446744073709551615", name);
    check_refused(rg_torch_load("x.pt"), sentence, "a long name");
}

/* The containers of a pickle may have four items for each of its bytes, and no more. Here a dict of
 * 1000 pairs is copied 8 times, and each copy makes a tuple of one item. */
static void check_copies(growing *g) {
    for (int more = 0; more < 2; more++) {
        RG_SCOPE();
        const int items = 2000 * 9 + 8;
        g->n = 0;
        ADD(g, "}q\0(");
        for (int i = 0; i < 1000; i++)
            ADD(g, "K\0N");
        ADD(g, "u");
        for (int i = 0; i < 8; i++)
            ADD(g, "ccollections\nCounter\nh\0\x85R");
        while (4 * (g->n + (size_t)more + 1) < (size_t)items)
            ADD(g, "N");
        ck_assert_uint_eq(4 * (g->n + (size_t)more + 1), (size_t)items);
        if (more)
            ADD(g, "\x85");
        ADD(g, ".");
        rg_named_list list = load_pickle(g->v, g->n);
        if (more)
            check_refused(list, "it makes more than 4 items a byte", "one item more");
        else
            ck_assert_msg(list.n == 1, "%s", rg_error());
    }
}

/* A pickle of n bytes may have 4 (n + 1) values, and no more. A list of ten values that occurs 29
 * times counts 320 values in 79 bytes. */
static void check_visits(growing *g) {
    for (int times = 29; times < 31; times++) {
        RG_SCOPE();
        g->n = 0;
        ADD(g, "\x80\2]q\0(NNNNNNNNNNe](");
        for (int i = 0; i < times; i++)
            ADD(g, "h\0");
        ADD(g, "e.");
        rg_named_list list = load_pickle(g->v, g->n);
        if (times == 29)
            ck_assert_msg(g->n == 79 && list.n == 290, "%zu, %d: %s", g->n, list.n, rg_error());
        else
            check_refused(list, "more values than the pickle's bytes can say", "one list more");
    }
}

START_TEST(test_limits) {
    static growing g;
    memory_file_begin();
    /* Lists are nested too deeply. */
    for (int depth = 250; depth <= 1100; depth += depth < 260 ? 1 : 420) {
        RG_SCOPE();
        g.n = 0;
        for (int i = 0; i < depth; i++)
            ADD(&g, "]");
        ADD(&g, "N");
        for (int i = 0; i < depth; i++)
            ADD(&g, "a");
        ADD(&g, ".");
        rg_named_list list = load_pickle(g.v, g.n);
        if (depth <= 256)
            ck_assert_msg(list.n == 1, "%s", rg_error());
        else
            check_refused(list, "it lies in more than 256 others", "lists in lists");
    }
    /* Lists are nested too deeply. Each is put into the list around it while it is still empty. */
    for (int depth = 250; depth <= 2000; depth += 350) {
        RG_SCOPE();
        g.n = 0;
        ADD(&g, "]q\1q\0");
        for (int i = 1; i < depth; i++)
            ADD(&g, "h\0]q\0a");
        ADD(&g, "h\0Nah\1.");
        rg_named_list list = load_pickle(g.v, g.n);
        if (depth <= 256)
            ck_assert_msg(list.n == 1, "%s", rg_error());
        else
            check_refused(list, "it lies in more than 256 others", "lists into lists");
    }
    /* Each list contains the previous list twice. */
    g.n = 0;
    ADD(&g, "]q\0Na");
    for (int i = 0; i < 40; i++)
        ADD(&g, "]q\1(h\0h\0eq\0");
    ADD(&g, ".");
    check_refused(load_pickle(g.v, g.n), "there are more values than the pickle's bytes can say",
                  "lists of lists");
    check_visits(&g);
    check_long_name(&g);
    /* A dict is copied again and again. */
    g.n = 0;
    ADD(&g, "}q\0(");
    for (int i = 0; i < 1000; i++)
        ADD(&g, "K\0N");
    ADD(&g, "u");
    for (int i = 0; i < 1000; i++)
        ADD(&g, "ccollections\nCounter\nh\0\x85R");
    ADD(&g, ".");
    check_refused(load_pickle(g.v, g.n), "it makes more than 4 items a byte", "copies");
    check_copies(&g);
    /* A long name is the begin of the names of many values. */
    g.n = 0;
    ADD(&g, "}X\0\x20\0\0");
    for (int i = 0; i < 0x2000; i++)
        ADD(&g, "a");
    ADD(&g, "](");
    for (int i = 0; i < 20000; i++)
        ADD(&g, "N");
    ADD(&g, "es.");
    check_refused(load_pickle(g.v, g.n), "the names are longer than the pickle's bytes can say",
                  "names");
    check_letters(&g);
    /* A shape of too many dims is refused before it is read. */
    g.n = 0;
    ADD(&g, "ctorch\nSize\n(");
    for (int i = 0; i < 65; i++)
        ADD(&g, "K\1");
    ADD(&g, "t\x85R.");
    check_refused(load_pickle(g.v, g.n), "argument 1 must be a tuple of ints", "a long shape");
    /* The metadata of a tensor with more than 32 pairs are refused, too. */
    for (int pairs = 31; pairs <= 33; pairs++) {
        RG_SCOPE();
        g.n = 0;
        ADD(&g, REBUILD "(" FLOATS "K\0))\x89}}(");
        for (int i = 0; i < pairs; i++)
            ADD(&g, "K\1\x89");
        ADD(&g, "utR.");
        rg_named_list list = load_pickle(g.v, g.n);
        if (pairs <= 32)
            ck_assert_msg(list.n == 1, "%s", rg_error());
        else
            check_refused(list, "argument 7 must be a dict of a few items", "metadata");
    }
    memory_file_end();
}
END_TEST

/* ---- bad archives -------------------------------------------------------------------------- */

START_TEST(test_bad_archives) {
    const member pickle = { "archive/data.pkl", "}.", 2 },
                 version = { "archive/version", "3\n", 2 };
    const struct {
        member m[4];
        const char *sentence;
    } bad[] = {
        { { { "data.pkl", "}.", 2 } }, "file not in a subdirectory" },
        { { { "weight.npy", "", 0 } }, "but not one of torch.save's" },
        { { version }, "failed locating file data.pkl" },
        { { version, { "other/data.pkl", "}.", 2 } }, "failed locating file data.pkl" },
        { { pickle }, "its version is '', and 1 to 10 are known" },
        { { pickle, { "archive/version", "\n", 1 } }, "its version is '?', and 1 to 10" },
        { { pickle, { "archive/.data/version", "00000000000000000000000000000003", 32 } },
          "its member '.data/version' has 32 bytes" },
        { { pickle, { "archive/version", "0\n", 2 } }, "its version is '0?', and 1 to 10" },
        { { pickle, { "archive/version", "11", 2 } },
          "its version is '11', and 1 to 10 are known" },
        { { pickle, { "archive/version", "three", 5 } }, "its version is 'three'" },
        { { pickle, { "archive/version", "3 or so", 7 } }, "its version is '3 or so'" },
        { { pickle, { "archive/version", "00000000000000000000000000000003", 32 } },
          "its member 'version' has 32 bytes" },
        { { pickle, version, { "archive/byteorder", "middle", 6 } },
          "Unknown endianness type: middle" },
        { { pickle, version, { "archive/byteorder", "bigger", 6 } },
          "Unknown endianness type: bigger" },
        { { pickle, version, { "archive/constants.pkl", "", 0 } }, "it is a TorchScript archive" },
    };
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(bad); i++) {
        RG_SCOPE();
        int n = 0;
        while (n < 4 && bad[i].m[n].name)
            n++;
        write_archive(n, bad[i].m);
        check_refused(rg_torch_load("x.pt"), bad[i].sentence, bad[i].sentence);
    }
    const char *const versions[] = { "1", "1\n", "10", "10\n" };
    for (int i = 0; i < RG_COUNT(versions); i++) {
        const member said = { "archive/.data/version", versions[i], strlen(versions[i]) };
        write_archive(2, (member[]){ pickle, said });
        ck_assert_msg(rg_torch_load("x.pt").n == 0, "%s: %s", versions[i], rg_error());
    }
    /* This file begins as an archive does, and has no members. */
    memory_file_set("PK\3\4PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0", 26);
    check_refused(rg_torch_load("x.pt"), "file not in a subdirectory", "no members");
    write_archive(0, NULL);
    ck_assert_int_eq(rg_torch_load("x.pt").n, -1);
    memory_file_end();
}
END_TEST

/* A file that is no archive is refused with a sentence that says what it is. */
START_TEST(test_no_archives) {
    static const char other[] = "it isn't what torch.save writes: it is no archive";
    static const char old[] = "it is in torch's old format: save it again with a torch of 1.6 or "
                              "later, as torch.save(torch.load(f, weights_only=True), f)";
    static const struct {
        const char *text;
        size_t n;
        const char *sentence;
    } bad[] = {
#define TEXT(text, sentence) { text, sizeof(text) - 1, sentence }
        TEXT("", other),
        TEXT("hello, world", other),
        TEXT("\x93NUMPY\1\0v\0{'descr': '<f4'}", other),
        TEXT("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x18.}.", other),
        TEXT("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19,M\xe9\3.}.N.].", other),
        TEXT("\x81\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.M\xe9\3.}.N.].", other),
        TEXT("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.M\xe9\3.}.N.].", old),
        TEXT("\x80\3\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", old),
    };
    memory_file_begin();
    for (int i = 0; i < RG_COUNT(bad); i++) {
        RG_SCOPE();
        memory_file_set(bad[i].text, bad[i].n);
        check_refused(rg_torch_load("x.pt"), bad[i].sentence, bad[i].sentence);
    }
    char tar[512] = { 0 };
    memcpy(tar + 257, "ustar", 5);
    memory_file_set(tar, sizeof tar);
    check_refused(rg_torch_load("x.pt"), "it is in torch's old .tar format", "tar");
    memcpy(tar + 257, "ustar  ", 8);
    memory_file_set(tar, sizeof tar);
    check_refused(rg_torch_load("x.pt"), "it is in torch's old .tar format", "GNU's tar");
    for (int i = 0; i < 5; i++) {
        tar[257 + i] ^= 1;
        memory_file_set(tar, sizeof tar);
        check_refused(rg_torch_load("x.pt"), "it is no archive", "a letter that isn't tar's");
        tar[257 + i] ^= 1;
    }
    memory_file_end();
}
END_TEST

/* All bytes of a storage are read and compared with the archive's CRC, even if the last ones are
 * too few for an element. */
START_TEST(test_storage_bytes) {
    static const char pickle[] = DICT("ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE(
        "storage.Untyped", "0", "K\33") "K\0K\6\x85K\1\x85\x89}ctorch\nint32\ntR");
    const char bytes[27] = { 1 };
    const member m[] = { { "archive/data.pkl", pickle, sizeof pickle - 1 },
                         { "archive/data/0", bytes, sizeof bytes },
                         { "archive/version", "3\n", 2 } };
    rg_zip z;
    memory_file_begin();
    write_archive(RG_COUNT(m), m);
    ck_assert_int_gt(fail_in_turn(load_again, NULL), 10);
    ck_ok(rgi_zip_open(&z, "test", "x.pt"));
    const uint64_t first = z.v[1].data;
    rgi_zip_close(&z);
    for (size_t i = 0; i < sizeof bytes; i++) {
        RG_SCOPE();
        memory_file.v[first + i] ^= 1;
        check_refused(rg_torch_load("x.pt"), "its bytes have the CRC", "another byte");
        memory_file.v[first + i] ^= 1;
    }
    ck_ok(load_again());
    memory_file_end();
}
END_TEST

/* A pickle of more than 2^29 bytes is refused before it is read. */
START_TEST(test_largest_pickle) {
    const rg_file f = { .op = "torch_load", .path = "x.pt" };
    rg_pickle p = { .file = &f, .what = "data.pkl", .bytes = "N.", .n = (size_t)1 << 29 };
    ck_ok(rgi_pickle_read(&p));
    rgi_pickle_free(&p);
    p = (rg_pickle){ .file = &f, .what = "data.pkl", .bytes = "N.", .n = ((size_t)1 << 29) + 1 };
    ck_fails(rgi_pickle_read(&p), RG_IO_ERROR,
             "it has 536870913 bytes, and 536870912 are the most");
    rgi_pickle_free(&p);
}
END_TEST

/* ---- files that are cut short -------------------------------------------------------------- */

/* Returns the bytes of a golden file, which the caller frees. */
static char *bytes_of(const char *name, size_t *n) {
    RG_SCOPE();
    char *text = rgi_file_text("test", file_of(name), n);
    ck_assert_msg(text, "%s", rg_error());
    char *copy = malloc(*n + 1);
    memcpy(copy, text, *n);
    return copy;
}

/* A file that is cut off at any byte is refused. */
START_TEST(test_cut) {
    static const char *const names[] = { "checkpoint.pt", "types.pt", "fields.pt" };
    for (int k = 0; k < RG_COUNT(names); k++) {
        size_t n;
        char *whole = bytes_of(names[k], &n);
        memory_file_begin();
        for (size_t cut = 0; cut < n; cut++) {
            RG_SCOPE();
            memory_file_set(whole, cut);
            rg_error_clear();
            ck_each(rg_torch_load("x.pt").n == -1 && rg_error_code() == RG_IO_ERROR,
                    "%s, cut at byte %d", names[k], (int)cut);
        }
        memory_file_end();
        free(whole);
    }
}
END_TEST

/* A pickle that is cut off at any byte is refused. */
START_TEST(test_cut_pickle) {
    rg_zip z;
    RG_SCOPE();
    ck_assert(rgi_zip_open(&z, "test", file_of("checkpoint.pt")));
    const rg_zip_member *m = rgi_zip_find(&z, "checkpoint/data.pkl");
    char *text = rgi_scope_alloc((size_t)m->bytes);
    const size_t n = (size_t)m->bytes;
    ck_assert(rgi_zip_read(&z, m, text));
    rgi_zip_close(&z);
    for (size_t cut = 0; cut <= n; cut++) {
        rg_file f = { .op = "torch_load", .path = "x.pt" };
        rg_pickle p = { .file = &f, .what = "data.pkl", .bytes = text, .n = cut };
        rg_error_clear();
        ck_each(rgi_pickle_read(&p) == (cut == n), "cut at byte %d", (int)cut);
        ck_each(cut == n || strstr(rg_error(), "ends too early"), "%d: %s", (int)cut, rg_error());
        rgi_pickle_free(&p);
    }
}
END_TEST

/* ---- denied memory, and failing calls of the file system ----------------------------------- */

static const char *loaded;
static rg_named_list saved;

/* Loads a golden file. Returns whether it was read, or was refused because it has a sparse
 * tensor. */
static bool load_file(void) {
    if (rg_torch_load(file_of(loaded)).n >= 0)
        return true;
    if (!strstr(rg_error(), "it makes a sparse tensor"))
        return false;
    rg_error_clear();
    return true;
}
static bool save_file(void) { return rg_torch_save(saved, scratch("f.pt")); }

/* The old file is whole, and there is no other. */
static void check_saved(bool done) {
    RG_SCOPE();
    (void)done;
    ck_assert_int_eq(scratch_files(), 1);
    ck_assert_int_eq(rg_torch_load(scratch("f.pt")).n, saved.n);
}

/* Denies each request for memory in turn, and makes each call of the file system fail. */
START_TEST(test_denied) {
    static const char *const names[] = {
        "checkpoint.pt", "types.pt",  "fields.pt",     "untyped.pt",
        "views.pt",      "sparse.pt", "state_dict.pt",
    };
    RG_SCOPE();
    scratch_begin();
    for (int i = 0; i < RG_COUNT(names); i++) {
        loaded = names[i];
        ck_assert_int_gt(deny_in_turn(load_file, NULL), 10);
        ck_assert_int_gt(fail_in_turn(load_file, NULL), 5);
    }
    saved = rg_torch_load(file_of("views.pt"));
    ck_assert_int_gt(deny_in_turn(save_file, check_saved), 10);
    ck_assert_int_gt(fail_in_turn(save_file, check_saved), 5);
    rg_memory_fail_at(1);
    ck_assert(rg_named_below(saved, "a").n == -1 && rg_error_code() == RG_OUT_OF_MEMORY);
    rg_memory_fail_at(0);
    scratch_end();
}
END_TEST

/* The list of the scope grows only at the end of a load, and its request for memory may be
 * denied. */
START_TEST(test_first_list_denied) {
    enum { NUMBERS = 150 };
    static growing g;
    ADD(&g, "](");
    for (int i = 0; i < NUMBERS; i++)
        ADD(&g, "K\1");
    ADD(&g, "e.");
    memory_file_begin();
    write_archive(2, (member[]){ { "archive/data.pkl", g.v, g.n }, { "archive/version", "3", 1 } });
    for (long request = 1;; request++) {
        RG_SCOPE();
        rg_memory_fail_at(request);
        rg_named_list list = rg_torch_load("x.pt");
        rg_memory_fail_at(0);
        if (rg_error_code() == RG_OK) {
            ck_assert_int_eq(list.n, NUMBERS);
            break;
        }
        ck_assert(list.n == -1 && rg_error_code() == RG_OUT_OF_MEMORY);
        rg_error_clear();
    }
    memory_file_end();
}
END_TEST

RG_TESTS(torch_file, test_torch_golden, test_torch_again, test_torch_pickle, test_named_below,
         test_torch_saved, test_torch_many, test_pickled_sizes, test_pickled_integers, test_folders,
         test_nameless, test_many_memos, test_values, test_values_denied, test_bad_pickles,
         test_shown, test_bad_opcodes, test_good_pickles, test_pickled_bools,
         test_strides_of_nothing, test_good_pickles_denied, test_calls_denied, test_pickled_longs,
         test_large_integers, test_limits, test_bad_archives, test_no_archives, test_storage_bytes,
         test_largest_pickle, test_cut, test_cut_pickle, test_denied, test_first_list_denied)

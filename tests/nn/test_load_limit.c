/*
 * test_load_limit.c: a load takes no more memory than rg_set_load_limit allows, whatever the file
 * asks for. A load that would take more fails, says how much it would take, and leaves nothing
 * behind. If the limit is raised to that number, the load succeeds. Each function that loads a file
 * has a row in one table, with a file that takes many times its own size.
 */
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/files/crc32.h"
#include "tensor/files/file.h"
#include "tensor/load.h"
#include "regard.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- files --------------------------------------------------------------------------- */

/* The contents of the file that a test builds: the first n bytes of v. */
static struct {
    unsigned char v[1 << 20];
    size_t n;
} made;

static void put(const void *bytes, size_t n) {
    ck_assert(n <= sizeof made.v - made.n);
    memcpy(made.v + made.n, bytes, n);
    made.n += n;
}

static void put_text(const char *text) { put(text, strlen(text)); }

static void put_number(uint64_t v, size_t bytes) {
    ck_assert(bytes <= sizeof made.v - made.n);
    for (size_t i = 0; i < bytes; i++)
        made.v[made.n++] = i < sizeof v ? (unsigned char)(v >> 8 * i) : 0;
}

static void put_times(const char *text, size_t times) {
    while (times-- > 0)
        put_text(text);
}

static const char *write_made(const char *name) { return scratch_write(name, made.v, made.n); }

/* Puts a .npy's header for n bytes of int8. */
static void put_npy(size_t n) {
    char dict[120];
    const int bytes = snprintf(dict, sizeof dict,
                               "{'descr': '|i1', 'fortran_order': False, 'shape': (%zu,), }\n", n);
    put("\x93NUMPY\1\0", 8);
    put_number((uint64_t)bytes, 2);
    put_text(dict);
}

/* ---- archives ------------------------------------------------------------------------ */

/* Bits of a deflated stream that don't make up a byte yet. */
static uint32_t waiting;
static int n_waiting;

static void put_bits(uint32_t bits, int n) {
    waiting |= bits << n_waiting;
    for (n_waiting += n; n_waiting >= 8; n_waiting -= 8) {
        put_number(waiting & 0xFF, 1);
        waiting >>= 8;
    }
}

/* Puts a Huffman code, whose highest bit comes first. */
static void put_code(uint32_t code, int n) {
    for (int i = n - 1; i >= 0; i--)
        put_bits(code >> i & 1, 1);
}

static void put_literal(unsigned char c) {
    if (c < 144)
        put_code(0x30u + c, 8);
    else
        put_code(0x190u + c - 144, 9);
}

/* A member consists of the n bytes of `head`, of `times` copies of `unit`, and of `tail`. */
typedef struct {
    const char *name, *head;
    size_t n;
    const char *unit;
    size_t times;
    const char *tail;
} member;

/* Returns a member's CRC, or 0 if the member is so large that reading it must fail. */
static uint32_t crc_of(const member *m) {
    const size_t unit = strlen(m->unit) + !*m->unit;
    if (m->times > 1 << 24)
        return 0;
    uint32_t crc = rgi_crc32(0, m->head, m->n);
    for (size_t i = 0; i < m->times; i++)
        crc = rgi_crc32(crc, m->unit, unit);
    return rgi_crc32(crc, m->tail, strlen(m->tail));
}

/* Deflates a member. The unit is written once. Each repetition is coded as a copy of earlier bytes.
 * An empty unit stands for one zero byte. */
static size_t put_deflated(const member *m) {
    const size_t begin = made.n, unit = strlen(m->unit) + !*m->unit;
    const size_t most = 258, copied = m->times ? (m->times - 1) * unit : 0;
    put_bits(3, 3);
    for (size_t i = 0; i < m->n; i++)
        put_literal((unsigned char)m->head[i]);
    for (size_t i = 0; m->times && i < unit; i++)
        put_literal((unsigned char)m->unit[i]);
    for (size_t left = copied / most; left > 0; left--) {
        put_code(0xC5, 8);                    /* The length is 258, */
        put_code((uint32_t)(unit - 1), 5);    /* and the distance 1 or 2. */
    }
    for (size_t i = copied / most * most; i < copied; i++)
        put_literal((unsigned char)m->unit[i % unit]);
    for (const char *c = m->tail; *c; c++)
        put_literal((unsigned char)*c);
    put_code(0, 7);
    put_bits(0, (8 - n_waiting) % 8);
    return made.n - begin;
}

static const char *write_archive(const char *name, const member *v, int n) {
    size_t at[4], packed[4];
    made.n = 0;
    for (int i = 0; i < n; i++) {
        const size_t bytes = v[i].n + v[i].times * (strlen(v[i].unit) + !*v[i].unit)
                             + strlen(v[i].tail);
        at[i] = made.n;
        put("PK\3\4\x14\0\0\0\x08\0\0\0\0\0", 14);
        put_number(crc_of(&v[i]), 4);
        const size_t place = made.n;
        put_number(0, 4);
        put_number(bytes, 4);
        put_number(strlen(v[i].name), 2);
        put_number(0, 2);
        put_text(v[i].name);
        packed[i] = put_deflated(&v[i]);
        for (int k = 0; k < 4; k++)
            made.v[place + (size_t)k] = (unsigned char)(packed[i] >> 8 * k);
    }
    const size_t directory = made.n;
    for (int i = 0; i < n; i++) {
        put("PK\1\2\x14\0\x14\0\0\0\x08\0\0\0\0\0", 16);
        put_number(crc_of(&v[i]), 4);
        put_number(packed[i], 4);
        put_number(v[i].n + v[i].times * (strlen(v[i].unit) + !*v[i].unit) + strlen(v[i].tail), 4);
        put_number(strlen(v[i].name), 2);
        put_number(0, 12);
        put_number(at[i], 4);
        put_text(v[i].name);
    }
    const size_t end = made.n;
    put("PK\5\6\0\0\0\0", 8);
    put_number((uint64_t)n, 2);
    put_number((uint64_t)n, 2);
    put_number(end - directory, 4);
    put_number(directory, 4);
    put_number(0, 2);
    return write_made(name);
}

/* Writes an .npz of n zeros of int8. */
static const char *write_zeros(const char *name, size_t n) {
    static char header[128];
    made.n = 0;
    put_npy(n);
    const size_t bytes = made.n;
    memcpy(header, made.v, bytes);
    return write_archive(name, &(member){ "x.npy", header, bytes, "", n, "" }, 1);
}

/* Writes an archive of a pickle as torch.save does, but with deflated members. */
static const char *write_pickle(const char *name, const char *head, const char *unit, size_t times,
                                const char *tail) {
    const member v[] = { { "a/data.pkl", head, strlen(head), unit, times, tail },
                         { "a/version", "3", 1, "", 0, "" } };
    return write_archive(name, v, 2);
}

/* ---- the table ----------------------------------------------------------------------- */

static rg_module *net;
static rg_safe_file *opened;

static void make_net(void) {
    if (!net)
        net = (rg_module *)rg_nn_linear(40, 30);
}

static const char *empty_tensors(void) {
    made.n = 8;
    for (int i = 0; i < 400; i++) {
        char entry[100];
        snprintf(entry, sizeof entry,
                 "%c\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? ',' : '{',
                 i);
        put_text(entry);
    }
    put_text("}");
    const size_t n = made.n;
    made.n = 0;
    put_number(n - 8, 8);
    made.n = n;
    return write_made("empty.safetensors");
}

/* The file stays open, so that only the load of one tensor is measured. */
static const char *bytes_in_safetensors(void) {
    const char *header = "{\"x\":{\"dtype\":\"I8\",\"shape\":[20000],\"data_offsets\":[0,20000]}}";
    made.n = 0;
    put_number(strlen(header), 8);
    put_text(header);
    memset(made.v + made.n, 1, 20000);
    made.n += 20000;
    const char *path = write_made("bytes.safetensors");
    opened = rg_safe_open(path);
    ck_ok(opened);
    return path;
}

static const char *bytes_in_npy(void) {
    made.n = 0;
    put_npy(20000);
    memset(made.v + made.n, 1, 20000);
    made.n += 20000;
    return write_made("bytes.npy");
}

static const char *bytes_in_npz(void) { return write_zeros("zeros.npz", 500000); }
static const char *ints_in_pickle(void) {
    return write_pickle("ints.pt", "](", "K\1", 3000, "e.");
}

static const char *one_line(void) {
    made.n = 0;
    put_times("1,", 20000);
    put_text("1");
    return write_made("line.csv");
}

static const char *one_array(void) {
    made.n = 0;
    put_text("[");
    put_times("1,", 20000);
    put_text("1]");
    return write_made("array.json");
}

static const char *quoted_cells(void) {
    made.n = 0;
    put_text("\"a,\"\"b\",c\n");
    put_times("\n\"1\",2\n", 2000);
    return write_made("quoted.csv");
}

static const char *empty_lines(void) {
    made.n = 0;
    put_times("\n", 20000);
    return write_made("lines.txt");
}

static const char *gpt_folder(void) {
    static char path[600];
    snprintf(path, sizeof path, "%s/../files/gpt2", golden_folder());
    return path;
}

static const char *gpt_tokenizer(void) {
    static char path[600];
    snprintf(path, sizeof path, "%s/../files/gpt2/tokenizer.json", golden_folder());
    return path;
}

static const char *saved_module(void) {
    make_net();
    ck_ok(rg_module_save(net, scratch("module.safetensors")));
    return scratch("module.safetensors");
}

static const char *saved_run(void) {
    make_net();
    ck_ok(rg_save_checkpoint(scratch("run.safetensors"), (rg_training){ .model = net }));
    return scratch("run.safetensors");
}

static bool load_file(const char *path) { return rg_load_file(path).n > 0; }
static bool load_tensor(const char *path) { return path && rg_safe_get_tensor(opened, "x"); }
static bool load_json(const char *path) { return rg_json_load(path); }
static bool load_npy(const char *path) { return rg_load_npy(path); }
static bool load_npz(const char *path) { return rg_load_npz(path).n == 1; }
static bool load_torch(const char *path) { return rg_torch_load(path).n > 0; }
static bool load_csv(const char *path) { return rg_load_csv(path); }
static bool load_whole(const char *path) { return rg_load_csv(path, .dtype = RG_INT64); }
static bool load_lines(const char *path) { return rg_load_lines(path).n > 0; }
static bool load_net(const char *path) { return rg_module_load(net, path); }

static bool load_quoted(const char *path) {
    return rg_load_csv(path, .dtype = RG_FLOAT64, .header = true);
}

static bool load_open(const char *path) {
    rg_safe_file *f = rg_safe_open(path);
    rg_safe_close(f);
    return f;
}

static bool load_tokens(const char *path) {
    rg_tokens *t = rg_tokens_open(path);
    rg_tokens_close(t);
    return t;
}

static bool load_gpt(const char *path) {
    rg_gpt *m = rg_gpt_from_folder(path);
    rg_module_free(m);
    return m;
}

static bool load_tokenizer(const char *path) {
    rg_tokenizer *t = rg_tokenizer_from_file(path);
    rg_tokenizer_free(t);
    return t;
}

static bool load_tokenizer_folder(const char *path) {
    rg_tokenizer *t = rg_tokenizer_from_folder(path);
    rg_tokenizer_free(t);
    return t;
}

static bool load_run(const char *path) {
    return rg_load_checkpoint(path, (rg_training){ .model = net });
}

static const struct {
    const char *op;
    const char *(*make)(void);
    bool (*load)(const char *path);
} loaders[] = {
    { "load_file", empty_tensors, load_file },
    { "load_file", bytes_in_safetensors, load_file },
    { "safe_open", empty_tensors, load_open },
    { "safe_get_tensor", bytes_in_safetensors, load_tensor },
    { "json_load", one_array, load_json },
    { "load_npy", bytes_in_npy, load_npy },
    { "load_npz", bytes_in_npz, load_npz },
    { "torch_load", ints_in_pickle, load_torch },
    { "load_csv", one_line, load_csv },
    { "load_csv", one_line, load_whole },
    { "load_csv", quoted_cells, load_quoted },
    { "load_lines", empty_lines, load_lines },
    { "tokens_open", bytes_in_npy, load_tokens },
    { "gpt_from_folder", gpt_folder, load_gpt },
    { "tokenizer_from_file", gpt_tokenizer, load_tokenizer },
    { "tokenizer_from_folder", gpt_folder, load_tokenizer_folder },
    { "module_load", saved_module, load_net },
    { "load_checkpoint", saved_run, load_run },
};

/* ---- the rule ------------------------------------------------------------------------ */

/* The system's function that opens files. open_counted replaces it, and asserts that a file is
 * opened for reading only while a load is under way. Otherwise the memory for the file wouldn't
 * count. */
static int (*open_before)(const char *path, int flags, mode_t mode);
static int files_read;
static int open_counted(const char *path, int flags, mode_t mode) {
    files_read++;
    ck_assert_msg(rgi_this.load != NULL, "'%s' is read, and no load is under way", path);
    return open_before(path, flags, mode);
}

/* Begins a test. Lengthens the thread's lists of scopes and of tensors first, so that no load
 * lengthens them. */
static void begin(void) {
    const size_t outer = rg_scope_begin();
    scratch_begin();
    for (int i = 0; i < 30; i++)
        rg_scope_begin();
    for (int i = 0; i < 5000; i++)
        rg_zeros(1);
    rg_scope_end(outer);
}

/* Loads the file. Returns the largest number of bytes in use, minus those in use before. */
static int64_t peak_of(bool (*load)(const char *path), const char *path, bool *ok) {
    const rg_memory before = rg_memory_stats();
    const int64_t live = rg_live_tensors();
    rg_memory_reset_peak();
    rg_error_clear();
    {
        RG_SCOPE();
        *ok = load(path);
    }
    ck_assert(rgi_this.load == NULL && !rgi_this.watched);
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_msg(rg_memory_stats().now == before.now, "'%s' leaves memory behind", path);
    return rg_memory_stats().peak - before.now;
}

/* Asserts that a load fails if the limit is this one, and takes no more memory than the limit. */
static void check_too_low(const char *op, bool (*load)(const char *path), const char *path,
                          int64_t limit) {
    char begins[700], ends[120];
    bool ok;
    ck_assert(rg_set_load_limit(limit));
    const int64_t peak = peak_of(load, path, &ok);
    const char *said = rg_error();
    /* If the path is a folder, the error names one of its files. */
    snprintf(begins, sizeof begins, "%s: '%s", op, path);
    snprintf(ends, sizeof ends, ", and the limit is %lld; rg_set_load_limit sets another",
             (long long)limit);
    ck_assert_msg(!ok, "%s: '%s' is loaded in %lld bytes", op, path, (long long)limit);
    ck_assert_msg(peak <= limit, "%s: '%s' takes %lld bytes of %lld", op, path, (long long)peak,
                  (long long)limit);
    ck_assert_msg(rg_error_code() == RG_IO_ERROR && !strncmp(said, begins, strlen(begins))
                      && strstr(said, "': loading it takes at least ") && strstr(said, ends),
                  "%s, not %s", said, begins);
}

START_TEST(test_each_loader) {
    open_before = rgi_system.open;
    rgi_system.open = open_counted;
    begin();
    for (int i = 0; i < RG_COUNT(loaders); i++) {
        char path[600];
        bool ok;
        RG_SCOPE();
        ck_assert(rg_set_load_limit(0));
        rgi_system.open = open_before;
        snprintf(path, sizeof path, "%s", loaders[i].make());
        rgi_system.open = open_counted;
        files_read = 0;
        const int64_t peak = peak_of(loaders[i].load, path, &ok);
        ck_assert_msg(ok, "'%s': %s", path, rg_error());
        ck_assert(files_read > 0 || loaders[i].load == load_tensor);
        const int64_t low[] = { 1, peak / 16, peak / 4, peak / 2, peak - 1 };
        for (int k = 0; k < RG_COUNT(low); k++)
            check_too_low(loaders[i].op, loaders[i].load, path, RG_MAX(low[k], 1));
        ck_assert(rg_set_load_limit(peak));
        ck_assert_int_eq(peak_of(loaders[i].load, path, &ok), peak);
        ck_assert_msg(ok, "'%s': %s", path, rg_error());
        rg_safe_close(opened);
        opened = NULL;
    }
    rgi_system.open = open_before;
    rg_set_load_limit(0);
    rg_module_free(net);
    net = NULL;
    scratch_end();
}
END_TEST

/* ---- the default --------------------------------------------------------------------- */

/* The file has a thousandth of the bytes that it inflates to. */
START_TEST(test_default) {
    const int64_t most = (int64_t)1 << 30;
    bool ok;
    begin();
    ck_assert_int_eq(rg_get_load_limit(), 0);
    const char *path = write_zeros("zeros.npz", 150000000);
    char limit[40];
    snprintf(limit, sizeof limit, "the limit is %lld;", (long long)(most + 9 * (int64_t)made.n));
    ck_assert_int_le(peak_of(load_npz, path, &ok), 1 << 20);
    ck_assert_msg(!ok && rg_error_code() == RG_IO_ERROR && strstr(rg_error(), limit)
                      && strstr(rg_error(), "loading it takes at least 1"),
                  "%s", rg_error());
    scratch_end();
}
END_TEST

START_TEST(test_setting) {
    ck_fails(rg_set_load_limit(-1), RG_VALUE_ERROR,
             "set_load_limit: expected at least 0 bytes but got -1");
    ck_assert_int_eq(rg_get_load_limit(), 0);
    ck_assert(rg_set_load_limit(INT64_MAX));
    ck_assert_int_eq(rg_get_load_limit(), INT64_MAX);
    begin();
    bool ok;
    peak_of(load_npz, bytes_in_npz(), &ok);
    ck_assert(ok);
    scratch_end();
    rg_set_load_limit(0);
}
END_TEST

/* ---- loads in several threads ---------------------------------------------------------- */

/* Loads the file many times. The limit of a load doesn't count memory that the thread took before
 * it, or that other threads take. */
static void *load_often(void *path) {
    rg_tensor *before = rg_keep(rg_zeros(1 << 20));
    for (int i = 0; i < 20; i++) {
        RG_SCOPE();
        ck_assert(rg_load_npz(path).n == 1);
    }
    rg_drop(before);
    return NULL;
}

START_TEST(test_threads) {
    pthread_t threads[4];
    bool ok;
    begin();
    char path[600];
    snprintf(path, sizeof path, "%s", bytes_in_npz());
    /* A new thread takes some bytes more, for its own lists. */
    rg_set_load_limit(peak_of(load_npz, path, &ok) + 4096);
    for (int i = 0; i < RG_COUNT(threads); i++)
        ck_assert(!pthread_create(&threads[i], NULL, load_often, path));
    for (int i = 0; i < RG_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    rg_set_load_limit(0);
    scratch_end();
}
END_TEST

/* ---- small files that ask for much memory ---------------------------------------------- */

/* Pickles that repeat a unit a million times. Each is refused with the sentence `says`, and takes
 * at most `most` bytes. */
static const struct {
    const char *head, *unit;
    size_t times;
    const char *tail, *says;
    int64_t most;
} pickles[] = {
    { "", "]", 1000000, ".", "more than 65536 lists and dicts are empty", 10000000 },
    { "", "}", 1000000, ".", "more than 65536 lists and dicts are empty", 10000000 },
    { ")", "\x85", 1000000, ".", "lies in more than 256 others", 2000000 },
};

START_TEST(test_deep_pickles) {
    bool ok;
    begin();
    for (int i = 0; i < RG_COUNT(pickles); i++) {
        const char *path = write_pickle("deep.pt", pickles[i].head, pickles[i].unit,
                                        pickles[i].times, pickles[i].tail);
        const int64_t peak = peak_of(load_torch, path, &ok);
        ck_assert_msg(!ok && strstr(rg_error(), pickles[i].says), "%s", rg_error());
        ck_assert_msg(peak <= pickles[i].most, "%lld bytes: %s", (long long)peak, rg_error());
    }
    scratch_end();
}
END_TEST

/* A pickle may have at most 65,536 lists and dicts that are empty. A list that is filled later
 * doesn't count. Neither does a list inside another one. */
START_TEST(test_many_lists) {
    bool ok;
    begin();
    const char *path = write_pickle("lists.pt", "](", "]", 65535, "e.");
    peak_of(load_torch, path, &ok);
    ck_assert_msg(rg_error_code() == RG_OK, "%s", rg_error());
    path = write_pickle("lists.pt", "]", "]a", 200000, ".");
    peak_of(load_torch, path, &ok);
    ck_assert_msg(rg_error_code() == RG_OK, "%s", rg_error());
    scratch_end();
}
END_TEST

/* Loading a table takes little more memory than its text and its numbers. */
START_TEST(test_table) {
    bool ok;
    begin();
    const char *path = one_line();
    const int64_t n = (int64_t)made.n, cells = n / 2 + 1;
    ck_assert_int_le(peak_of(load_csv, path, &ok), (n + 4 * cells) * 5 / 4 + 4096);
    ck_assert_int_le(peak_of(load_whole, path, &ok), (n + 8 * cells) * 5 / 4 + 4096);
    scratch_end();
}
END_TEST

RG_TESTS(load_limit, test_each_loader, test_default, test_setting, test_threads, test_deep_pickles,
         test_many_lists, test_table)

/* test_parallel.c: work that is divided among threads. Every part is done once, whatever the number
 * of threads, and also if the work is a part of other divided work. A kernel gives the same bits at
 * 1 to 16 threads. test_workers.c tests the threads themselves. */
#include "tests/test.h"
#include "tensor/system/system.h"
#include "tensor/threads/workers.h"
#include "tensor/shape.h"
#include "tensor/kernels/kernels.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* n items are done in parts of `grain` items. times[i] counts how often item i was done, and
 * `wrong` counts the parts that aren't as they should be. */
typedef struct {
    int64_t n, grain;
    atomic_int *times, wrong;
    int workers;
    bool nested;
} counted;

static void count_again(void *context, int64_t begin, int64_t end, int worker) {
    counted *c = context;
    if (worker != 0 || begin >= end)
        atomic_fetch_add(&c->wrong, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&c->times[i], 1);
}

static void count_part(void *context, int64_t begin, int64_t end, int worker) {
    counted *c = context;
    if (begin % c->grain || begin >= c->n || end != RG_MIN(begin + c->grain, c->n) || worker < 0
        || worker >= c->workers)
        atomic_fetch_add(&c->wrong, 1);
    if (rgi_in_job() != (c->workers > 1))
        atomic_fetch_add(&c->wrong, 1);
    if (c->nested && c->workers > 1 && rgi_workers(1000, 1) != 1)
        atomic_fetch_add(&c->wrong, 1);
    if (c->nested)
        rgi_parallel(c->n, 3, 1, count_again, c);
    else
        for (int64_t i = begin; i < end; i++)
            atomic_fetch_add(&c->times[i], 1);
}

static void check_parts(int64_t n, int64_t grain, bool nested) {
    atomic_int times[1000] = { 0 };
    counted c = {
        .n = n, .grain = grain, .times = times, .workers = rgi_workers(n, grain), .nested = nested
    };
    rgi_parallel(n, grain, c.workers, count_part, &c);
    ck_assert_int_eq(c.wrong, 0);
    for (int64_t i = 0; i < n; i++)
        ck_assert_int_eq(times[i], nested ? (n + grain - 1) / grain : 1);
}

static const int counts[] = { 1, 2, 3, 16 };

START_TEST(test_parts) {
    for (int k = 0; k < 2 * RG_COUNT(counts); k++) {
        rgi_gather_workers = k % 2;
        ck_assert(rg_set_num_threads(counts[k / 2]));
        for (int64_t n = 0; n <= 1000; n += n < 20 ? 1 : 89)
            for (int64_t grain = 1; grain <= n + 1; grain += 1 + grain) {
                check_parts(n, grain, false);
                check_parts(n, grain, true);
            }
    }
    rg_set_num_threads(100); /* There are fewer parts than these. */
    check_parts(1000, 1, false);
    ck_fails(rg_set_num_threads(0), RG_RUNTIME_ERROR, "set_num_threads expects a positive integer");
}
END_TEST

/* ---- bits ------------------------------------------------------------------------ */

/* Returns random numbers of this shape. If `turned`, their memory is that of the transposed
 * shape. */
static rg_tensor *numbers(rg_dtype dtype, rg_dims shape, bool turned) {
    if (turned)
        RG_SWAP(shape.v[shape.n - 1], shape.v[shape.n - 2]);
    rg_tensor *t = rg_randn_dims(shape, rgi_is_float(dtype) ? dtype : RG_FLOAT32,
                                 rg_default_generator());
    if (!rgi_is_float(dtype)) {
        rg_tensor *whole = rg_empty_dims(shape, dtype);
        for (int64_t i = 0; i < t->numel; i++)
            ((float *)t->data)[i] *= 100;
        rgi_copy_elements(whole, t);
        t = whole;
    }
    if (turned) {
        const int last = t->ndim - 1;
        RG_SWAP(t->size[last], t->size[last - 1]);
        RG_SWAP(t->stride[last], t->stride[last - 1]);
        rgi_update_flags(t);
    }
    return t;
}

typedef bool compute(rg_tensor *y, rg_tensor *const in[]);

/* Checks that 1 to 16 threads compute the same bits. If that would take long, only 1, 2, 3 and 16
 * threads are tried. */
static void check_bits(const char *what, compute *f, rg_tensor *y, rg_tensor *const in[]) {
    size_t bytes = (size_t)y->numel * rgi_sizeof(y->dtype);
    bool large = rg_slow() || y->dtype != RG_FLOAT32 || y->numel > 10000000
                 || in[0]->numel > 10000000;
    char *first = malloc(bytes);
    /* All threads must take part, also on a machine with few cores. */
    rgi_gather_workers = true;
    for (int threads = 1; threads <= 16; threads += large && threads == 3 ? 13 : 1) {
        rg_set_num_threads(threads);
        memset(y->data, 0x5a, bytes);
        ck_assert(f(y, in));
        if (threads == 1)
            memcpy(first, y->data, bytes);
        else
            ck_assert_msg(memcmp(first, y->data, bytes) == 0, "%s: other bits at %d threads", what,
                          threads);
    }
    free(first);
}

static bool add(rg_tensor *y, rg_tensor *const in[]) { return k_run_with(&k_add, y, in, NULL); }
/* Adds in[0] to y in place. If two threads computed the same element, in[0] would be added
 * twice. */
static bool add_in_place(rg_tensor *y, rg_tensor *const in[]) {
    rgi_copy_elements(y, in[1]);
    return add(y, (rg_tensor *[]){ in[0], y });
}
static bool gelu(rg_tensor *y, rg_tensor *const in[]) { return k_run_with(&k_gelu, y, in, NULL); }
static bool copy(rg_tensor *y, rg_tensor *const in[]) {
    rgi_copy_elements(y, in[0]);
    return true;
}

static bool cross_entropy(rg_tensor *y, rg_tensor *const in[]) {
    RG_SCOPE();
    rg_tensor *losses = rg_empty_dims(RG_DIMS(y->size[0]), y->dtype),
              *shifts = rg_empty_dims(RG_DIMS(y->size[0], 2), y->dtype);
    const k_nll_targets z = { in[1], NULL, y->size[1], 1, 0, NULL };
    k_cross_entropy(&z, losses, shifts, in[0]);
    return k_cross_entropy_backward(&z, y, shifts, in[0], losses);
}

static bool softmax(rg_tensor *y, rg_tensor *const in[]) {
    return k_softmax(y, in[0], 1, K_SOFTMAX_PLAIN);
}
static bool softmax_gradient(rg_tensor *y, rg_tensor *const in[]) {
    return k_softmax_backward(y, in[0], in[2], 1, K_LOG_SOFTMAX);
}
static bool group_norm(rg_tensor *y, rg_tensor *const in[]) {
    const k_norm_rows z = { y->numel / 8, 8, 7, 2, 1e-5, true };
    return k_normalize(&z, y, in[0], in[3], NULL);
}

/* Checks that the last row is the same as when it is computed alone. The last row belongs to
 * another part than the first row. */
static void check_rows(const char *what, compute *f, rg_tensor *y, rg_tensor *const in[], int n) {
    rg_tensor last[4], *alone[4], *y_alone = rg_empty(1, y->size[1]);
    for (int i = 0; i < n; i++) {
        last[i] = *in[i];
        alone[i] = &last[i];
        if (last[i].size[0] != y->size[0])
            continue;
        last[i].data += (y->size[0] - 1) * last[i].stride[0] * (int64_t)rgi_sizeof(last[i].dtype);
        last[i].size[0] = 1;
        rgi_update_flags(&last[i]);
    }
    check_bits(what, f, y, in);
    ck_assert(f(y_alone, alone));
    ck_assert_msg(
        memcmp(rg_data(y_alone), y->data + (y->numel - y->size[1]) * 4, (size_t)y->size[1] * 4)
            == 0,
        "%s: other bits by itself", what);
}

START_TEST(test_rows) {
    RG_SCOPE();
    rg_tensor *in[] = { rg_randn(301, 1013), rg_randint(0, 1013, 301), rg_randn(301, 1013),
                        rg_randn(28) };
    rg_tensor *y = rg_empty(301, 1013), *short_y = rg_empty(100000, 3);
    check_rows("cross_entropy", cross_entropy, y, in, 4);
    check_rows("softmax", softmax, y, in, 4);
    check_rows("log_softmax's gradient", softmax_gradient, y, in, 4);
    check_rows("softmax of short rows", softmax, short_y, (rg_tensor *[]){ rg_randn(100000, 3) },
               1);
    in[0] = rg_randn(5600, 56);
    check_rows("group_norm", group_norm, rg_empty(5600, 56), in, 4);
}
END_TEST

START_TEST(test_elements) {
    for (int turned = 0; turned < 2; turned++) {
        RG_SCOPE();
        rg_dims shape = RG_DIMS(301, 1013);
        rg_tensor *y = rg_empty_dims(shape, RG_FLOAT32), *wide = rg_empty_dims(shape, RG_FLOAT64),
                  *row = rg_randn(1013);
        rg_tensor *in[] = { numbers(RG_FLOAT32, shape, turned), numbers(RG_FLOAT32, shape, false) };
        check_bits("add", add, y, in);
        check_bits("add in place", add_in_place, y, in);
        check_bits("add of a row", add, y, (rg_tensor *[]){ in[0], row });
        check_bits("gelu", gelu, y, in);
        check_bits("copy", copy, wide, in);
        for (int64_t i = 0; i < 301; i += 50)
            for (int64_t j = 0; j < 1013; j++)
                ck_assert(rg_at(wide, i, j) == rg_at(in[0], i, j));
    }
}
END_TEST

static int reduced; /* The dim that is reduced. */
static bool sum(rg_tensor *y, rg_tensor *const in[]) {
    return k_reduce(&k_sums, y, in[0], 1u << reduced);
}
static bool greatest(rg_tensor *y, rg_tensor *const in[]) {
    return k_reduce(&k_greatest, y, in[0], 1u << reduced);
}
static bool place(rg_tensor *y, rg_tensor *const in[]) {
    return k_max_dim(in[1], y, in[0], reduced, false);
}

/* Each dim is reduced in turn. The order in which a sum adds its elements may depend on the number
 * of the tensor's columns, but not on the number of columns that one thread computes. */
START_TEST(test_reductions) {
    static const int64_t shapes[][3] = {
        { 1, 768, 128 }, { 1, 1000, 1003 }, { 64, 333, 47 }, { 8, 2, 50003 }, { 3, 37, 1037 }
    };
    for (int s = 0; s < RG_COUNT(shapes); s++)
        for (int k = 0; k < 12; k++) {
            RG_SCOPE();
            rg_dtype dtype = k / 6 ? RG_FLOAT64 : RG_FLOAT32;
            rg_dims shape = { 3, { shapes[s][0], shapes[s][1], shapes[s][2] } };
            rg_tensor *x = numbers(dtype, shape, k / 3 % 2);
            reduced = k % 3;
            shape.v[reduced] = 1;
            rg_tensor *y = rg_empty_dims(shape, dtype), *in[] = { x, y };
            check_bits("sum", sum, y, in);
            check_bits("greatest", greatest, y, in);
            check_bits("its place", place, rg_empty_dims(shape, RG_INT64), in);
        }
}
END_TEST

/* Computes y = 2 a b + 1 over batches. */
static bool product(rg_tensor *y, rg_tensor *const in[]) {
    rgi_fill_number(y, 1, 1);
    return k_matmul_with(y, NULL, in[0], false, in[1], false, 2, 1);
}

static bool plain_product(rg_tensor *y, rg_tensor *const in[]) { return k_matmul(y, in[0], in[1]); }
static bool biased_product(rg_tensor *y, rg_tensor *const in[]) {
    return k_matmul_with(y, rg_ones_dims(RG_DIMS(y->size[y->ndim - 1]), y->dtype), in[0], false,
                         in[1], false, 1, 1);
}

/* Products of these sizes are divided into tiles in different ways. */
START_TEST(test_products) {
    static const int64_t sizes[][4] = {
        /* A row has the number of batches, m, k and n. */
        { 48, 64, 32, 64 },   { 48, 64, 64, 32 },   { 5, 6, 3, 3 },       { 3000, 6, 7, 5 },
        { 1, 768, 128, 512 }, { 1, 768, 512, 128 }, { 1, 128, 768, 512 }, { 1, 256, 768, 768 },
        { 1, 768, 256, 768 }, { 1, 1, 768, 768 },   { 1, 1, 768, 3072 },  { 1, 1, 128, 50257 },
        { 1, 768, 768, 1 },   { 2, 300, 301, 302 }, { 1, 2, 3000, 2000 }, { 1, 50257, 20, 33 },
        { 1, 16, 300, 7000 },
    };
    for (int dtype = RG_INT64; dtype <= RG_FLOAT64; dtype++)
        for (int s = 0; s < (rg_emulated() ? 4 : RG_COUNT(sizes)); s++)
            for (int turned = 0; turned < 3; turned++) {
                RG_SCOPE();
                const int64_t *z = sizes[s];
                rg_tensor *y = rg_empty_dims(RG_DIMS(z[0], z[1], z[3]), (rg_dtype)dtype);
                rg_tensor *in[] = {
                    numbers((rg_dtype)dtype, RG_DIMS(z[0], z[1], z[2]), turned == 1),
                    numbers((rg_dtype)dtype, RG_DIMS(z[0], z[2], z[3]), turned == 2)
                };
                char what[192];
                snprintf(what, sizeof what, "%s product of %s %d", rg_dtype_name((rg_dtype)dtype),
                         RG_SHAPE_TEXT(y), turned);
                check_bits(what, product, y, in);
            }
}
END_TEST

/* The products of the benchmark's layers, given as (rows, in, out): x w^T + bias, g w and g^T x. */
START_TEST(test_layers) {
    static const int64_t layers[][3] = {
        { 6, 3, 2 },         { 6, 3, 4 },          { 768, 128, 65 },   { 768, 128, 128 },
        { 768, 128, 384 },   { 768, 128, 512 },    { 768, 512, 128 },  { 1, 768, 768 },
        { 1, 768, 2304 },    { 1, 768, 3072 },     { 1, 3072, 768 },   { 1, 768, 50257 },
        { 256, 768, 768 },   { 256, 768, 2304 },   { 256, 768, 3072 }, { 256, 3072, 768 },
        { 256, 768, 50257 }, { 1024, 1024, 1024 },
    };
    for (int l = 0; l < (rg_slow() ? 4 : RG_COUNT(layers)); l++) {
        RG_SCOPE();
        int64_t rows = layers[l][0], in = layers[l][1], out = layers[l][2];
        rg_tensor *x = numbers(RG_FLOAT32, RG_DIMS(rows, in), false),
                  *w = numbers(RG_FLOAT32, RG_DIMS(out, in), false);
        rg_tensor *straight = numbers(RG_FLOAT32, RG_DIMS(in, out), false);
        rg_tensor *g = numbers(RG_FLOAT32, RG_DIMS(rows, out), false), wt = k_turned(w),
                  gt = k_turned(g);
        rg_tensor *y = rg_empty(rows, out), *gx = rg_empty(rows, in), *gw = rg_empty(out, in);
        check_bits("x w^T + bias", biased_product, y, (rg_tensor *[]){ x, &wt });
        check_bits("x w^T", plain_product, y, (rg_tensor *[]){ x, &wt });
        check_bits("x w", plain_product, y, (rg_tensor *[]){ x, straight });
        check_bits("g w", plain_product, gx, (rg_tensor *[]){ g, w });
        check_bits("g^T x", plain_product, gw, (rg_tensor *[]){ &gt, x });
    }
}
END_TEST

static const char *const variables[] = { "REGARD_THREADS", "REGARD_NUM_THREADS",
                                         "OMP_NUM_THREADS" };

/* Returns the number of threads of a process in which variables[i] has the value `asked`. Variables
 * after it have the value 5, and those before it aren't set. If `asked` is NULL, no variable is
 * set. */
static int threads_for(int i, const char *asked) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        for (int k = 0; k < RG_COUNT(variables); k++)
            unsetenv(variables[k]);
        for (int k = i; asked && k < RG_COUNT(variables); k++)
            setenv(variables[k], k == i ? asked : "5", 1);
        rg_on_warning(NULL);
        _exit(rg_get_num_threads());
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A value that isn't a number above 0 counts as not set. Each value is tried in a new process,
 * since a process reads the variables only once. */
START_TEST(test_threads_of_the_environment) {
    static const char *const others[] = { "0", "-3", "", "many", "2147483648", "99999999999" };
    const char *fork_mode = getenv("CK_FORK");
    if (fork_mode && strcmp(fork_mode, "no") == 0)
        return;
    const int last = RG_COUNT(variables) - 1;
    ck_assert_int_eq(threads_for(0, NULL), RG_MIN(rgi_cores(), 255));
    for (int i = 0; i <= last; i++) {
        ck_assert_int_eq(threads_for(i, "1"), 1);
        ck_assert_int_eq(threads_for(i, "7"), 7);
        /* The largest int becomes 255, the last eight bits of the exit status. */
        ck_assert_int_eq(threads_for(i, "2147483647"), 255);
        for (int k = 0; k < RG_COUNT(others); k++)
            ck_assert_int_eq(threads_for(i, others[k]),
                             i < last ? 5 : threads_for(0, NULL));
    }
    ck_assert_int_eq(threads_for(last, "3,2"), 3); /* OpenMP's list, a number for each level */
}
END_TEST

static int warnings;
static char warning[256];

static void note_warning(const char *message) {
    warnings++;
    snprintf(warning, sizeof warning, "%s", message);
    rg_set_num_threads(rg_get_num_threads()); /* A handler may call the library. */
}

/* Runs a process in which `variable` has this value and the other ones of `variables` aren't set.
 * The process calls all functions that read the environment. Returns the number of its warnings,
 * and copies the last one to `text`. */
static int warnings_for(const char *variable, const char *value, char text[256]) {
    int out[2], status;
    ck_assert_int_eq(pipe(out), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        for (int k = 0; k < RG_COUNT(variables); k++)
            unsetenv(variables[k]);
        setenv(variable, value, 1);
        rg_on_warning(note_warning);
        for (int i = 0; i < 3; i++) {
            rg_get_num_threads();
            rg_zeros(2, 3);
        }
        _exit(write(out[1], warning, sizeof warning) == sizeof warning ? warnings : 255);
    }
    close(out[1]);
    ck_assert_int_eq(read(out[0], text, 256), 256);
    close(out[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A value that isn't accepted causes one warning, with the variable, the value, and the values that
 * are accepted. */
START_TEST(test_warnings_of_the_environment) {
    static const char *const wrong[] = { "0", "-3", "many", "2147483648", "7x", "1.5", " " };
    const char *fork_mode = getenv("CK_FORK");
    char text[256], want[256];
    if (fork_mode && strcmp(fork_mode, "no") == 0)
        return;
    for (int i = 0; i < RG_COUNT(variables); i++) {
        for (int k = 0; k < RG_COUNT(wrong); k++) {
            ck_assert_int_eq(warnings_for(variables[i], wrong[k], text), 1);
            snprintf(want, sizeof want,
                     "%s: '%s' is not a number from 1 to 2147483647; the number of threads is %d",
                     variables[i], wrong[k], rgi_cores());
            ck_assert_str_eq(text, want);
        }
        ck_assert_int_eq(warnings_for(variables[i], "", text), 0);
        ck_assert_int_eq(warnings_for(variables[i], " 3 ", text), 0);
    }
    ck_assert_int_eq(warnings_for("REGARD_POOL", "no", text), 1);
    ck_assert(strstr(text, "REGARD_POOL: 'no' is not 0 or 1; ") == text);
    ck_assert_int_eq(warnings_for("REGARD_POOL", "1", text), 0);
    ck_assert_int_eq(warnings_for("REGARD_POOL", "0", text), 0);
}
END_TEST

RG_TESTS_UNGUARDED(parallel, test_threads_of_the_environment, test_warnings_of_the_environment,
                   test_parts, test_elements, test_rows, test_reductions, test_products,
                   test_layers)

/*
 * fuzz_ops.c: every public function with arguments that make no sense: shapes that
 * don't fit, dims out of range, extreme numbers, NaN, other dtypes, views, NULL,
 * RG_NONE, tensors whose scope has ended, failing memory. Each call gives a result
 * or an error with a message, and in the end nothing is alive.
 *
 *     build/tests/fuzz/fuzz_ops [calls] [seed]
 */
#include "regard.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What asks for more than this is refused, as by a system without that much. */
const char *__asan_default_options(void) { return "allocator_may_return_null=1:max_allocation_size_mb=256"; }
static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_AS, &(struct rlimit){ 1 << 30, 1 << 30 });
#endif
}

enum { POOL = 32, LISTED = 4 };

static uint64_t state;
static rg_tensor *pool[POOL], *released;
static long results, refusals;

static uint64_t any(uint64_t n)                         /* in [0, n) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static int64_t odd_integer(void)
{
    static const int64_t extremes[] = { INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, (int64_t)1 << 40, -100 };
    return any(24) == 0 ? extremes[any(sizeof extremes / sizeof extremes[0])] : (int64_t)any(8) - 2;
}

static double odd_number(void)
{
    static const double odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0, 1e308, -1e-320 };
    return any(6) == 0 ? odd[any(sizeof odd / sizeof odd[0])] : (double)any(400) / 100 - 2;
}

static rg_dims odd_dims(void)
{
    rg_dims d = { .n = any(40) == 0 ? (int)odd_integer() : (int)any(4) };
    for (int i = 0; i < RG_MAX_DIMS; i++) d.v[i] = odd_integer();
    return d;
}

/* A new tensor for the pool: small, of any dtype and layout. */
static rg_tensor *odd_tensor(void)
{
    rg_dims shape = { .n = (int)any(4) };
    for (int d = 0; d < shape.n; d++) shape.v[d] = (int64_t)any(4) + (any(8) != 0);
    rg_tensor *t = rg_empty_dims(shape, any(3) ? RG_FLOAT64 - any(2) : any(2) ? RG_INT64 : RG_BOOL);
    for (int64_t i = 0; t && i < rg_numel(t); i++) {
        switch (rg_dtype_of(t)) {
        case RG_BOOL:    ((bool *)rg_data(t))[i] = any(2); break;
        case RG_INT64:   ((int64_t *)rg_data(t))[i] = odd_integer(); break;
        case RG_FLOAT32: ((float *)rg_data(t))[i] = (float)odd_number(); break;
        default:         ((double *)rg_data(t))[i] = odd_number(); break;
        }
    }
    if (any(3) == 0 && rg_is_floating_point(t)) rg_requires_grad_(t, true);
    if (any(4) == 0 && rg_ndim(t) > 1) t = rg_transpose(t, 0, 1);
    if (any(8) == 0) t = rg_unsqueeze(t, 0);
    return t;
}

static rg_tensor *tensor(void)
{
    uint64_t kind = any(60);
    return kind == 0 ? NULL : kind == 1 ? RG_NONE : kind == 2 ? released : kind < 8 ? rg_wrap_float(odd_number())
           : kind < 12 ? rg_wrap_int(odd_integer()) : pool[any(POOL)];
}

static rg_list list(void)
{
    static rg_tensor *v[LISTED];
    int n = any(30) == 0 ? (int)odd_integer() % (LISTED + 1) : (int)any(LISTED + 1);
    for (int i = 0; i < n; i++) v[i] = tensor();
    return (rg_list){ n, v };
}

static const char *text(void)
{
    static const char *const texts[] = { "ij,jk->ik", "ii->i", "...i,i...->...", "i,j", "ij->ji", "->", "", "i,,j", "ijj", "%s",
                                         "1:3, None", "::2", "...", "-1", ":,0", "0:-1:0", "[", "9999999999999999999" };
    return texts[any(sizeof texts / sizeof texts[0])];
}

/* ---- one function a row, from the golden test's table ------------------------------- */

#define T(k)    tensor()
#define I(k)    (int)odd_integer()
#define L(k)    odd_integer()
#define X(k)    odd_number()
#define D(k)    odd_dims()
#define Y(k)    (rg_dtype)(any(20) ? any(4) : (uint64_t)odd_integer())
#define S(k)    text()
#define LIST(k) list()
#define ITEMS(k) n_items, items()
#define LOSS_OPTIONS (rg_loss_options){ (rg_reduction)any(5), tensor(), tensor(), odd_integer(), odd_number(), \
                                        odd_number(), odd_number(), any(2) }

static int n_items;
static const rg_item_index *items(void)
{
    static rg_item_index v[5];
    for (int i = 0; i < n_items; i++) {
        switch (any(5)) {
        case 0:  v[i] = rg_index_text(text()); break;
        case 1:  v[i] = rg_index_tensor(tensor()); break;
        case 2:  v[i] = rg_index_slice(odd_integer(), odd_integer(), odd_integer()); break;
        case 3:  v[i] = rg_index_bool(any(2)); break;
        default: v[i] = rg_index_number(odd_integer()); break;
        }
    }
    return v;
}

#define ONE(name)                 TENSOR(name, T(0))
#define TWO(name)                 TENSOR(name, T(0), T(1))

static rg_tensor *first_of(rg_list l) { return l.n < 0 ? NULL : l.n == 0 ? RG_NONE : l.v[any((uint64_t)l.n)]; }

#define CALL(name, ...)           static rg_tensor *fuzz_##name(void) { return __VA_ARGS__; }
#define TENSOR(name, ...)         CALL(name, (rg_##name)(__VA_ARGS__))
#define VALUES_INDICES(name, ...) CALL(name, (rg_##name)(__VA_ARGS__).values)
#define UNIQUE(name, ...)         CALL(name, (rg_##name)(__VA_ARGS__).values)
#define TENSORS(name, ...)        CALL(name, first_of((rg_##name)(__VA_ARGS__)))
#define NUMBER(name, ...)         CALL(name, ((rg_##name)(__VA_ARGS__), rg_error_code() == RG_OK ? RG_NONE : NULL))
#include "tests/autograd/golden.def"
#undef CALL

static const struct { const char *name; rg_tensor *(*call)(void); } functions[] = {
#define CALL(name, ...)           { #name, fuzz_##name },
#include "tests/autograd/golden.def"
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static void require(bool truth, const char *name, const char *what)
{
    if (truth) return;
    fprintf(stderr, "%s: %s: '%s'\n", name, what, rg_error());
    abort();
}

static void replace(int slot, rg_tensor *t)
{
    if (!t || t == RG_NONE || t == pool[slot] || rg_numel(t) > 4096) return;
    rg_keep(t);
    if (pool[slot]) rg_drop(pool[slot]);
    pool[slot] = t;
}

static void one_call(void)
{
    RG_SCOPE();
    size_t f = any(FUNCTIONS);
    n_items = (int)any(5);
    rg_error_clear();
    if (any(20) == 0) rg_memory_fail_at(1 + (int64_t)any(12));
    rg_tensor *y = functions[f].call();
    rg_memory_fail_at(0);
    require((y != NULL) == (rg_error_code() == RG_OK), functions[f].name, y ? "an error in spite of a result" : "no error");
    require(y || *rg_error(), functions[f].name, "no message");
    *(y ? &results : &refusals) += 1;
    if (!y || y == RG_NONE) return;
    if (rg_requires_grad(y) && any(2)) {
        rg_error_clear();
        if (any(20) == 0) rg_memory_fail_at(1 + (int64_t)any(30));
        bool ok = rg_backward_with(y, (rg_backward_options){ .gradient = rg_ones_like(y), .create_graph = any(4) == 0 });
        rg_memory_fail_at(0);
        require(ok == (rg_error_code() == RG_OK), functions[f].name, "backward's error");
    }
    replace((int)any(POOL), any(8) ? y : odd_tensor());
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    limit_memory();
    int64_t live = rg_live_tensors();
    {
        RG_SCOPE();
        released = rg_zeros(2);
    }
    size_t mark = rg_scope_begin();
    for (int i = 0; i < POOL; i++) replace(i, odd_tensor());
    for (long i = 0; i < calls; i++) {
        one_call();
        if (i % 64 == 0) {                              /* fresh ones: a pool of NaN finds nothing */
            RG_SCOPE();
            rg_error_clear();
            replace((int)any(POOL), odd_tensor());
        }
    }
    for (int i = 0; i < POOL; i++)
        if (pool[i]) rg_drop(pool[i]);
    rg_error_clear();
    rg_scope_end(mark);
    printf("fuzz_ops: %d functions, %ld results, %ld refusals; %ld tensors alive\n", FUNCTIONS, results, refusals,
           (long)(rg_live_tensors() - live));
    return rg_live_tensors() == live && rg_memory_stats().nodes == 0 ? 0 : 1;
}

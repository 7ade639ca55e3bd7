/*
 * random.c: the public functions that fill tensors with random numbers, and those that return new
 * tensors of random numbers. Both kinds call the fill functions in distributions.c. Permutations
 * and draws by given probabilities are in sample.c.
 */
#include "random.h"
#include "tensor/handle.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/storage.h"
#include "tensor/thread.h"
#include "tensor/kernels/limits.h"

#include <float.h>
#include <string.h>

/* ---- reporting to an observer ------------------------------------------------------- */

/* A fill function (see random.h) and the arguments of a call of it, so that a replay can repeat the
 * call. */
typedef struct {
    rg_tensor *t;
    random_fill *fill;
    double p[4];
    rg_generator *g;
    const char *op;
} filling;

static bool fill_again(void *context) {
    const filling *f = context;
    rgi_count_write(f->t, f->op);
    return f->fill(f->t, f->p, f->g, f->op);
}

/* The only block of memory that a fill uses besides its tensor is the generator's stream. */
static void *filling_block(void *context, size_t i, size_t *bytes) {
    const filling *f = context;
    if (i > 0 || !rgi_handle_given(f->g, f->op, RG_HANDLE_GENERATOR))
        return NULL;
    *bytes = sizeof f->g->stream;
    return &f->g->stream;
}

/* Reports to the observer how t was filled, so that a replay can fill it again. The replay draws
 * new numbers. */
static void observe_fill(rg_tensor *t, random_fill *fill, const double p[4], rg_generator *g,
                         const char *op) {
    if (RG_LIKELY(!rgi_this.observer))
        return;
    filling f = { t, fill, { p[0], p[1], p[2], p[3] }, g, op };
    const rg_operation operation = {
        .redo = fill_again, .context = &f, .bytes = sizeof f, .state = filling_block
    };
    rgi_observe_operation(t, op, &operation);
}

/* ---- filling tensors in place ---------------------------------------------------- */

static rg_tensor *fill_in_place(rg_tensor *t, random_fill *fill, const double p[4], rg_generator *g,
                                const char *op) {
    if (!rgi_may_write(t, op))
        return NULL;
    if (!fill(t, p, g, op))
        return NULL;
    observe_fill(t, fill, p, g, op);
    rgi_count_write(t, op);
    return t;
}

rg_tensor *(rg_uniform_with_)(rg_tensor *t, double low, double high, rg_generator *g) {
    return fill_in_place(t, rgi_fill_uniform, (double[4]){ low, high }, g, "uniform_");
}

rg_tensor *(rg_normal_with_)(rg_tensor *t, double mean, double std, rg_generator *g) {
    return fill_in_place(t, rgi_fill_normal, (double[4]){ mean, std }, g, "normal_");
}

rg_tensor *(rg_trunc_normal_with_)(rg_tensor *t, double mean, double std, double low, double high,
                                   rg_generator *g) {
    return fill_in_place(t, rgi_fill_trunc_normal, (double[4]){ mean, std, low, high }, g,
                         "trunc_normal_");
}

rg_tensor *(rg_exponential_with_)(rg_tensor *t, double rate, rg_generator *g) {
    return fill_in_place(t, rgi_fill_exponential, (double[4]){ rate }, g, "exponential_");
}

rg_tensor *(rg_bernoulli_with_)(rg_tensor *t, double p, rg_generator *g) {
    return fill_in_place(t, rgi_fill_bernoulli, (double[4]){ p }, g, "bernoulli_");
}

/* ---- making tensors of random numbers -------------------------------------------- */

/* Fills the new tensor t with `fill` and the parameters 0 and 1: for rgi_fill_uniform these are the
 * bounds, for rgi_fill_normal the mean and the standard deviation. The scope owns the result.
 * Returns NULL if the fill fails, or if t is NULL because its allocation has failed. */
static rg_tensor *random_made(rg_tensor *t, random_fill *fill, rg_generator *g, const char *op) {
    if (!t)
        return NULL;
    observe_fill(t, fill, (double[4]){ 0, 1 }, g, op);
    if (fill(t, (double[]){ 0, 1 }, g, op))
        return rgi_own(t);
    rgi_release(t);
    return NULL;
}

static rg_tensor *random_like(rg_tensor *x, random_fill *fill, const char *op) {
    return random_made(rgi_new_like_given(op, x), fill, rg_default_generator(), op);
}

rg_tensor *(rg_rand_dims)(rg_dims shape, rg_dtype dtype, rg_generator *g) {
    return random_made(rgi_new_dims("rand", &shape, (int)dtype), rgi_fill_uniform, g, "rand");
}

rg_tensor *(rg_randn_dims)(rg_dims shape, rg_dtype dtype, rg_generator *g) {
    return random_made(rgi_new_dims("randn", &shape, (int)dtype), rgi_fill_normal, g, "randn");
}

rg_tensor *rg_rand_like(rg_tensor *x) { return random_like(x, rgi_fill_uniform, "rand_like"); }

rg_tensor *rg_randn_like(rg_tensor *x) { return random_like(x, rgi_fill_normal, "randn_like"); }

/* Returns the bound that torch uses in the place of `limit` when integers are drawn into a floating
 * dtype. If sign is 1, `limit` is the lower bound of the range, and v is limit + 1. If sign is -1,
 * `limit` is the upper bound, which is excluded, and v is limit - 1. If the dtype rounds v to a
 * number outside the range, returns the nearest number of the dtype that is inside. Otherwise
 * returns `limit`. */
static int64_t random_integer_bound(rg_dtype dtype, int64_t v, int64_t limit, int sign) {
    double element;
    rgi_store_i64(&element, dtype, v);
    int64_t rounded = rgi_load_i64(&element, dtype);
    if (sign > 0 ? rounded >= limit : rounded < limit)
        return limit;
    uint64_t magnitude = v < 0 ? -(uint64_t)v : (uint64_t)v;
    uint64_t step = 1ull << (64 - rgi_mantissa_bits(dtype) - __builtin_clzll(magnitude));
    return (int64_t)((uint64_t)rounded + (sign > 0 ? step : -step));
}

/* Returns whether v lies in the range of the dtype. */
static bool random_integer_fits(int64_t v, rg_dtype dtype) {
    return rgi_is_float(dtype) ? fabs((double)v) <= rgi_limit(dtype)
                               : rgi_nearest_integer(v, dtype) == v;
}

rg_tensor *(rg_randint_dims)(int64_t low, int64_t high, rg_dims shape, rg_dtype dtype,
                             rg_generator *g) {
    const char *op = "randint";
    const char *casted = "";
    RG_SCOPE();
    rg_tensor *t = rgi_own(rgi_new_dims(op, &shape, (int)dtype));
    if (!t)
        return NULL;
    const bool low_fits = random_integer_fits(low, dtype);
    const bool high_fits = low < high && random_integer_fits(high - 1, dtype);
    if (low_fits && high_fits && rgi_is_float(dtype)) {
        low = random_integer_bound(dtype, low + 1, low, 1);
        high = random_integer_bound(dtype, high - 1, high, -1);
        casted = " casted to dtype";
    }
    RG_FAIL_IF(low >= high, op,
               "random_ expects 'from'%s to be less than 'to'%s, but got from=%lld >= to=%lld",
               casted, casted, (long long)low, (long long)high);
    RG_FAIL_IF(!low_fits || !high_fits, op, "%s is out of bounds for %s",
               low_fits ? "to - 1" : "from", rgi_c_name(dtype));
    random_range range = { (uint64_t)high - (uint64_t)low, low };
    double p[4] = { 0 };
    memcpy(p, &range, sizeof range);
    observe_fill(t, rgi_fill_integers, p, g, op);
    return rgi_fill_integers(t, p, g, op) ? rg_escape(t) : NULL;
}

/*
 * moments.c: what is made of sums and extremes: means, variances, norms, logsumexp, any and all.
 * The sums themselves are in reduce.c.
 */
#include "reduce.h"
#include "copy.h"
#include "tensor/storage.h"

#include <tgmath.h>

#define K_LOOPS "loops/moments.h"
#define K_TYPES_FLOATS
#define K_BASE_ONLY
#include "sets.h"

/* ---- every element of a result ----------------------------------------------------------- */

typedef void moments_loop(void *y, int64_t n, double number, const void *other);

static moments_loop *const divide_loops[K_DTYPES] = K_BASE_FLOATS(moments_divide);
static moments_loop *const root_loops[K_DTYPES] = K_BASE_FLOATS(moments_root);
static moments_loop *const power_loops[K_DTYPES] = K_BASE_FLOATS(moments_power);
static moments_loop *const finite_loops[K_DTYPES] = K_BASE_FLOATS(moments_finite);
static moments_loop *const log_loops[K_DTYPES] = K_BASE_FLOATS(moments_log);

/* Changes every element of y, which is contiguous, by a number or by another tensor. Returns
 * whether there is a loop for the dtype. */
static bool moments_each(moments_loop *const loops[K_DTYPES], rg_tensor *y, double number,
                         const rg_tensor *other) {
    moments_loop *loop = K_BASE_LOOP_OF(loops, y->dtype, "reduce");
    if (loop)
        loop(y->data, y->numel, number, other ? other->data : NULL);
    return loop;
}

/* Returns how many elements of x make one of y. */
static double moments_count(const rg_tensor *y, const rg_tensor *x) {
    return (double)x->numel / (double)y->numel;
}

/* ---- mean, any, var ------------------------------------------------------------------------ */

bool k_mean(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    return k_reduce(K_SUM, y, x, dims) && moments_each(divide_loops, y, moments_count(y, x), NULL);
}

bool k_any(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool all) {
    rg_tensor *count = rgi_new_like(y, RG_INT64);
    if (!count)
        return false;
    bool ok = k_reduce(K_COUNT, count, x, dims);
    int64_t needed = all && y->numel ? x->numel / y->numel : 1;
    for (int64_t i = 0; ok && i < y->numel; i++)
        ((bool *)y->data)[i] = ((int64_t *)count->data)[i] >= needed;
    rgi_release(count);
    return ok;
}

/* m2 = the sums of (x - mean)^2. */
static bool moments_spread(rg_tensor *m2, const rg_tensor *mean, const rg_tensor *x,
                           uint32_t dims) {
    static rg_loop *const loops[K_DTYPES] = K_BASE_FLOATS(spread);
    rg_loop *loop = K_BASE_LOOP_OF(loops, x->dtype, "var");
    if (!loop)
        return false;
    rg_tensor around = k_reduce_kept(mean, x, dims);
    rg_tensor to = k_reduce_kept(m2, x, dims);
    rg_tensor *t[] = { (rg_tensor *)x, &to, &around };
    rgi_fill_zero(m2);
    rgi_each(3, t, loop, NULL);
    return true;
}

bool k_var(rg_tensor *y, const rg_tensor *x, uint32_t dims, double correction, bool root) {
    const double n = moments_count(y, x);
    rg_tensor *mean = rgi_new_like(y, RG_FLOAT64);
    rg_tensor *m2 = rgi_new_like(y, RG_FLOAT64);
    bool ok = mean && m2 && k_reduce(K_SUM_WIDE, mean, x, dims)
              && moments_each(divide_loops, mean, n, NULL) && moments_spread(m2, mean, x, dims)
              && moments_each(divide_loops, m2, RG_MAX(0, n - correction), NULL)
              && (!root || moments_each(root_loops, m2, 0, NULL));
    if (ok)
        rgi_copy_elements(y, m2);
    rgi_release(mean);
    rgi_release(m2);
    return ok;
}

/* ---- norm, logsumexp ------------------------------------------------------------------------- */

/* Returns the reduction that gives a norm of order p, or K_SUM for one that sums up powers. */
static k_reduction moments_norm_kind(double p, bool one_number) {
    if (p == 0)
        return K_NORM_0;
    if (p == 1)
        return K_NORM_1;
    /* The norm of one number alone is its size, whose power may be out of range. */
    if (one_number)
        return K_NORM_MAX;
    if (p == 2)
        return K_NORM_2;
    if (p == INFINITY)
        return K_NORM_MAX;
    return p == -INFINITY ? K_NORM_MIN : K_SUM;
}

/* y = sum(|x|^p)^(1/p) */
static bool moments_norm_of_powers(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p) {
    rg_tensor *powers = rgi_new_like(x, x->dtype);
    if (!powers)
        return false;
    double room;
    rgi_store_f64(&room, x->dtype, p);
    rg_tensor order = RG_NUMBER(x->dtype, &room);
    k_run(k_abs, powers, (rg_tensor *)x);
    k_run(k_pow, powers, powers, &order);
    bool ok = k_reduce(K_SUM, y, powers, dims) && moments_each(power_loops, y, 1 / p, NULL);
    rgi_release(powers);
    return ok;
}

bool k_norm(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p) {
    const k_reduction how = moments_norm_kind(p, x->numel == y->numel);
    if (how == K_SUM)
        return moments_norm_of_powers(y, x, dims, p);
    return k_reduce(how, y, x, dims) && (how != K_NORM_2 || moments_each(root_loops, y, 0, NULL));
}

/* The greatest is subtracted before, and added after, unless it is infinite. */
bool k_logsumexp(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    rg_tensor *most = rgi_new_like(y, y->dtype);
    rg_tensor *powers = rgi_new_like(x, x->dtype);
    bool ok = most && powers && k_reduce(K_MAX, most, x, dims)
              && moments_each(finite_loops, most, 0, NULL);
    if (ok) {
        rg_tensor kept = k_reduce_kept(most, x, dims);
        k_run(k_sub, powers, (rg_tensor *)x, &kept);
        k_run(k_exp, powers, powers);
        ok = k_reduce(K_SUM, y, powers, dims) && moments_each(log_loops, y, 0, most);
    }
    rgi_release(most);
    rgi_release(powers);
    return ok;
}

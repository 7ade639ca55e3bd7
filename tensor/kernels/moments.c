/*
 * moments.c: means, variances and standard deviations over dims, computed from sums.
 */
#include "reduce.h"
#include "copy.h"
#include "tensor/storage.h"

#define K_LOOPS "loops/moments.h"
#define K_TYPES_FLOATS
#define K_BASE_ONLY
#include "sets.h"

static finish_loop *const moments_divide_loops[K_DTYPES] = K_BASE_FLOATS(moments_divide);

/* Returns how many elements of x are reduced to one element of y. */
static double moments_count(const rg_tensor *y, const rg_tensor *x) {
    return (double)x->numel / (double)y->numel;
}

bool k_mean(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    return k_reduce(&k_sums, y, x, dims)
           && k_finish(K_FINISH_LOOP(moments_divide_loops, y), y, moments_count(y, x), NULL);
}

/* Computes m2 = sum((x - mean)^2) over the dims. Returns false if there is no loop for x's
 * dtype. */
static bool moments_spread(rg_tensor *m2, const rg_tensor *mean, const rg_tensor *x,
                           uint32_t dims) {
    static rg_loop *const spread_loops[K_DTYPES] = K_BASE_FLOATS(spread);
    rg_loop *loop = K_BASE_LOOP_OF(spread_loops, x->dtype, "var");
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
    const double divisor = n > 0 ? RG_MAX(0, n - correction) : 0;
    rg_tensor *mean = rgi_new_like(y, RG_FLOAT64);
    rg_tensor *m2 = rgi_new_like(y, RG_FLOAT64);
    bool ok = mean && m2 && k_reduce(&k_wide_sums, mean, x, dims)
              && k_finish(K_FINISH_LOOP(moments_divide_loops, mean), mean, n, NULL)
              && moments_spread(m2, mean, x, dims)
              && k_finish(K_FINISH_LOOP(moments_divide_loops, m2), m2, divisor, NULL)
              && (!root || k_run(k_sqrt, m2, m2));
    if (ok)
        rgi_copy_elements(y, m2);
    rgi_release(mean);
    rgi_release(m2);
    return ok;
}

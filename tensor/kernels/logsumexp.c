/*
 * logsumexp.c: the logarithm of the sum of exponentials over dims.
 */
#include "reduce.h"
#include "tensor/storage.h"

#define K_LOOPS "loops/logsumexp.h"
#define K_TYPES_FLOATS
#define K_BASE_ONLY
#include "sets.h"

static finish_loop *const logsumexp_finite_loops[K_DTYPES] = K_BASE_FLOATS(logsumexp_finite);
static finish_loop *const logsumexp_log_loops[K_DTYPES] = K_BASE_FLOATS(logsumexp_log);

/* y = max + ln sum(e^(x - max)), where max is the maximum of x over the dims. If max is infinite, 0
 * is used in its place. */
bool k_logsumexp(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    rg_tensor *most = rgi_new_like(y, y->dtype);
    rg_tensor *powers = rgi_new_like(x, x->dtype);
    bool ok = most && powers && k_reduce(&k_greatest, most, x, dims)
              && k_finish(K_FINISH_LOOP(logsumexp_finite_loops, most), most, 0, NULL);
    if (ok) {
        rg_tensor kept = k_reduce_kept(most, x, dims);
        k_run(k_sub, powers, (rg_tensor *)x, &kept);
        k_run(k_exp, powers, powers);
        ok = k_reduce(&k_sums, y, powers, dims)
             && k_finish(K_FINISH_LOOP(logsumexp_log_loops, y), y, 0, most);
    }
    rgi_release(most);
    rgi_release(powers);
    return ok;
}

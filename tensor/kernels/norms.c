/*
 * norms.c: norms of any order p, such as 2 or infinity, over dims.
 */
#include "reduce.h"
#include "tensor/storage.h"

#define K_LOOPS "loops/norms.h"
#define K_TYPES_FLOATS
#include "sets.h"

#define K_LOOPS "loops/norm_finish.h"
#define K_TYPES_FLOATS
#define K_BASE_ONLY
#include "sets.h"

const k_reduction k_norms_0 = { "norm0", 0, 0, K_TABLE_FLOATS(norm0) };
const k_reduction k_norms_1 = { "norm1", 0, 0, K_TABLE_FLOATS(norm1) };
const k_reduction k_norms_2 = { "norm2", 0, 0, K_TABLE_FLOATS(norm2) };
const k_reduction k_norms_max = { "max_norm", 0, 0, K_TABLE_FLOATS(max_norm) };
const k_reduction k_norms_min = { "min_norm", INFINITY, 0, K_TABLE_FLOATS(min_norm) };

/* Returns the reduction that computes the norm of order p; if it is k_norms_2, which sums squares,
 * k_norm takes the root of the sum afterwards. Returns NULL if there is no such reduction; then the
 * norm is computed in passes. `one_number` says whether each norm is that of a single number. */
static const k_reduction *norm_kind(double p, bool one_number) {
    if (p == 0)
        return &k_norms_0;
    if (p == 1)
        return &k_norms_1;
    /* The norm of a single number is its absolute value. Computing it by powers might overflow. */
    if (one_number)
        return &k_norms_max;
    if (p == 2)
        return &k_norms_2;
    if (p == INFINITY)
        return &k_norms_max;
    return p == -INFINITY ? &k_norms_min : NULL;
}

/* Returns the reduction of |x|, or of a power of |x|, by which k_norm_in_passes computes a norm. */
static const k_reduction *pass_kind(double p, bool one_number) {
    if (p == 0)
        return &k_norms_0;
    if (p == INFINITY || (one_number && p != 1))
        return &k_greatest;
    return p == -INFINITY ? &k_least : &k_sums;
}

bool k_norm_in_passes(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p) {
    static finish_loop *const norm_power_loops[K_DTYPES] = K_BASE_FLOATS(norm_power);
    const k_reduction *kind = pass_kind(p, x->numel == y->numel);
    const bool of_powers = kind == &k_sums && p != 1;
    rg_tensor *powers = rgi_new_like(x, x->dtype);
    if (!powers)
        return false;
    k_run(k_abs, powers, (rg_tensor *)x);
    if (of_powers && p == 2) {
        k_run(k_mul, powers, powers, powers);
    } else if (of_powers) {
        double room;
        rgi_store_f64(&room, x->dtype, p);
        rg_tensor order = RG_NUMBER(x->dtype, &room);
        k_run(k_pow, powers, powers, &order);
    }
    bool ok = k_reduce(kind, y, powers, dims);
    rgi_release(powers);
    if (!ok || !of_powers)
        return ok;
    return p == 2 ? k_run(k_sqrt, y, y)
                  : k_finish(K_FINISH_LOOP(norm_power_loops, y), y, 1 / p, NULL);
}

bool k_norm(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p) {
    const k_reduction *kind = norm_kind(p, x->numel == y->numel);
    if (!kind)
        return k_norm_in_passes(y, x, dims, p);
    return k_reduce(kind, y, x, dims) && (kind != &k_norms_2 || k_run(k_sqrt, y, y));
}

/*
 * extremes.c: maxima and minima over dims, and their indices along one dim.
 */
#include "plans.h"
#include "reduce.h"

#define K_LOOPS "loops/extremes.h"
#define K_TYPES_ALL
#include "sets.h"

const k_reduction k_greatest = { "max", -INFINITY, INT64_MIN, K_TABLE_ALL(max) };
const k_reduction k_least = { "min", INFINITY, INT64_MAX, K_TABLE_ALL(min) };

bool k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest) {
    static reduce_loop *const place_loops[K_DTYPES][K_COLUMNS] = K_TABLE_ALL(place);
    reduce_loop *loop = K_LOOP_OF(place_loops, x->dtype, "max");
    if (!loop)
        return false;
    const place_context c = { .values = values->data,
                              .indices = (int64_t *)indices->data,
                              .smallest = smallest };
    k_reduce_blocks(values, x, 1u << dim, loop, &c);
    return true;
}

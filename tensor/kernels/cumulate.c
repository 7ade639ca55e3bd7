/*
 * cumulate.c: running sums, products and recurrences along one dim.
 */
#include "plans.h"

#include <math.h>

#include <stdlib.h>

/* The number of adjacent lines (see below) that are computed together. */
enum { CUMULATE_COLUMNS = 1024 };

#define K_LOOPS "loops/cumulate.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "sets.h"

bool k_cumulate(rg_tensor *y, const rg_tensor *x, const rg_tensor *z, int dim, bool reverse,
                k_running what) {
    static rg_loop *const loops[][K_DTYPES] = {
        [K_CUMSUM] = K_BASE_ALL(cumsum),
        [K_CUMPROD] = K_BASE_ALL(cumprod),
        [K_RECUR] = K_BASE_ALL(recur),
        [K_LOGCUMSUMEXP] = K_BASE_FLOATS(logcumsumexp),
    };
    static const char *const names[] = {
        [K_CUMSUM] = "cumsum_loops",
        [K_CUMPROD] = "cumprod_loops",
        [K_RECUR] = "recur_loops",
        [K_LOGCUMSUMEXP] = "logcumsumexp_loops",
    };
    rg_loop *loop = K_BASE_LOOP_NAMED(loops[what], names[what], x->dtype, "cumulate");
    if (!loop)
        return false;
    cumulate_along along = { .n = y->ndim ? y->size[dim] : 1 };
    rg_tensor *t[] = { y, (rg_tensor *)x, (rg_tensor *)z };
    k_lines(3, t, dim, reverse, along.step, loop, &along);
    return true;
}

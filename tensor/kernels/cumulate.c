/*
 * cumulate.c: running sums, products and recurrences along one dim.
 */
#include "kernels.h"

#include <math.h>

#include <stdlib.h>

/* The number of adjacent lines (see below) that are computed together. */
enum { CUMULATE_COLUMNS = 1024 };

/* A line is the n elements along the dim. step[0], step[1] and step[2] are the distances in bytes
 * from one element of a line to the next in y, x and z. They are negative if the elements are read
 * in reverse order. */
typedef struct {
    int64_t n, step[3];
} cumulate_along;

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
    rg_loop *loop = K_BASE_LOOP_OF(loops[what], x->dtype, "cumulate");
    if (!loop)
        return false;
    cumulate_along along = { .n = y->ndim ? y->size[dim] : 1 };
    rg_tensor *t[] = { y, (rg_tensor *)x, (rg_tensor *)z };
    k_lines(3, t, dim, reverse, along.step, loop, &along);
    return true;
}

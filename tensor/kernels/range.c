/*
 * range.c: writes evenly spaced numbers, for arange and linspace.
 */
#include "kernels.h"
#include "tensor/storage.h"

#include <tgmath.h>

typedef void range_loop(void *to, int64_t n, double start, double step_or_end);
typedef void range_whole_loop(void *to, int64_t n, int64_t start, int64_t step);

#define K_LOOPS "loops/range.h"
#define K_TYPES_NUMBERS
#define K_NARROW
#include "sets.h"

/* Copies `wide`, if it was filled, to y, and releases it. Returns `filled`. */
static bool range_narrowed(rg_tensor *y, rg_tensor *wide, bool filled) {
    if (filled)
        rgi_copy_elements(y, wide);
    rgi_release(wide);
    return filled;
}

/* Fills y, whose elements are widened, by a function for the wide dtype. */
static bool range_widened(bool (*fill)(rg_tensor *y, double a, double b), rg_tensor *y, double a,
                          double b) {
    rg_tensor *wide = rgi_new_like(y, rgi_widened(y->dtype));
    return range_narrowed(y, wide, wide && fill(wide, a, b));
}

bool k_arange(rg_tensor *y, double start, double step) {
    if (rgi_is_widened(y->dtype))
        return range_widened(k_arange, y, start, step);
    static range_loop *const loops[K_DTYPES][K_COLUMNS] = K_NARROW_FLOATS(arange);
    range_loop *loop = K_LOOP_OF(loops, y->dtype, "arange");
    if (loop)
        loop(y->data, y->numel, start, step);
    return loop != NULL;
}

bool k_arange_integers(rg_tensor *y, int64_t start, int64_t step) {
    if (rgi_is_widened(y->dtype)) {
        rg_tensor *wide = rgi_new_like(y, rgi_widened(y->dtype));
        return range_narrowed(y, wide, wide && k_arange_integers(wide, start, step));
    }
    static range_whole_loop *const loops[K_DTYPES][K_COLUMNS] = K_NARROW_INTEGERS(arange_whole);
    range_whole_loop *loop = K_LOOP_OF(loops, y->dtype, "arange");
    if (loop)
        loop(y->data, y->numel, start, step);
    return loop != NULL;
}

bool k_linspace(rg_tensor *y, double start, double end) {
    if (rgi_is_widened(y->dtype))
        return range_widened(k_linspace, y, start, end);
    static range_loop *const loops[K_DTYPES][K_COLUMNS] = K_NARROW_NUMBERS(linspace);
    range_loop *loop = K_LOOP_OF(loops, y->dtype, "linspace");
    if (loop)
        loop(y->data, y->numel, start, end);
    return loop != NULL;
}

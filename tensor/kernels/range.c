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

/* Fills y, whose elements have 16 bits, by a function for float32 tensors. */
static bool range_in_float(bool (*fill)(rg_tensor *y, double a, double b), rg_tensor *y, double a,
                           double b) {
    rg_tensor *wide = rgi_new_like(y, RG_FLOAT32);
    const bool ok = wide && fill(wide, a, b);
    if (ok)
        rgi_copy_elements(y, wide);
    rgi_release(wide);
    return ok;
}

bool k_arange(rg_tensor *y, double start, double step) {
    if (rgi_is_half(y->dtype))
        return range_in_float(k_arange, y, start, step);
    static range_loop *const loops[K_DTYPES][K_COLUMNS] = K_NARROW_FLOATS(arange);
    range_loop *loop = K_LOOP_OF(loops, y->dtype, "arange");
    if (loop)
        loop(y->data, y->numel, start, step);
    return loop != NULL;
}

bool k_arange_integers(rg_tensor *y, int64_t start, int64_t step) {
    static range_whole_loop *const loops[K_DTYPES][K_COLUMNS] = K_NARROW_INTEGERS(arange_whole);
    range_whole_loop *loop = K_LOOP_OF(loops, y->dtype, "arange");
    if (loop)
        loop(y->data, y->numel, start, step);
    return loop != NULL;
}

bool k_linspace(rg_tensor *y, double start, double end) {
    if (rgi_is_half(y->dtype))
        return range_in_float(k_linspace, y, start, end);
    static range_loop *const loops[K_DTYPES][K_COLUMNS] = K_NARROW_NUMBERS(linspace);
    range_loop *loop = K_LOOP_OF(loops, y->dtype, "linspace");
    if (loop)
        loop(y->data, y->numel, start, end);
    return loop != NULL;
}

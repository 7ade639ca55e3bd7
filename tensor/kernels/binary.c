/*
 * binary.c: functions of two elements whose result has their type.
 */
#include "kernels.h"

#include "smooth.h"

#define K_LOOPS "loops/binary.h"
#define K_TYPES_ALL
#include "sets.h"

K_LIGHT_KERNEL(add, 2, ALL)
K_LIGHT_KERNEL(add_alpha, 2, ALL)
K_LIGHT_KERNEL(sub, 2, ALL)
K_LIGHT_KERNEL(mul, 2, ALL)
K_LIGHT_KERNEL(div, 2, FLOATS)
K_LIGHT_KERNEL(div_floor, 2, ALL)
K_LIGHT_KERNEL(div_trunc, 2, ALL)
K_LIGHT_KERNEL(remainder, 2, ALL)
K_LIGHT_KERNEL(fmod, 2, ALL)
K_LIGHT_KERNEL(pow, 2, ALL)
K_KERNEL(atan2, 2, FLOATS)
K_KERNEL(xlogy, 2, FLOATS)
K_KERNEL(logaddexp, 2, FLOATS)
K_KERNEL(logaddexp2, 2, FLOATS)
K_LIGHT_KERNEL(maximum, 2, ALL)
K_LIGHT_KERNEL(minimum, 2, ALL)
K_LIGHT_KERNEL(fmax, 2, ALL)
K_LIGHT_KERNEL(fmin, 2, ALL)

static void any_zero_loop(char *const p[], const int64_t s[], int64_t n, const void *context) {
    bool *found = (bool *)context;
    for (int64_t i = 0; i < n; i++)
        if (*(const int64_t *)(p[0] + i * s[0]) == 0)
            *found = true;
}

bool k_has_zero(const rg_tensor *integers) {
    bool found = false;
    rgi_each(1, (rg_tensor *[]){ (rg_tensor *)integers }, any_zero_loop, &found);
    return found;
}

/*
 * binary.c: the kernels of elementwise functions of two operands that the gradients of other
 * functions use. The result has the operands' dtype. Other functions of two operands are in
 * special.c, so that small programs don't link them.
 */
#include "kernels.h"

#include "smooth.h"

#define K_LOOPS "loops/binary.h"
#define K_TYPES_ALL
#include "sets.h"

#define BINARY(name, Node, formula, weight, dtypes, ...) K_KERNEL_OF_ROW(name, 2, weight, dtypes)
#include "elementwise.def"

K_LIGHT_KERNEL(add_alpha, 2, ALL)
K_LIGHT_KERNEL(sub, 2, ALL)
K_LIGHT_KERNEL(pow, 2, ALL)

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

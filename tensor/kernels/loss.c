/*
 * loss.c: elementwise losses and their derivatives. This file selects a loop; the loops are in
 * loops/loss.h. Losses of classes are in nll.c.
 */
#include "lanes.h"

/* The position of each operand in the loop's array of operands. */
enum { LOSS_Y, LOSS_X, LOSS_TARGET, LOSS_WEIGHT, LOSS_BY, LOSS_OPERANDS };

#define K_LOOPS "loops/loss.h"
#define K_TYPES_FLOATS
#include "sets.h"

static rg_loop *const loss_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(loss);
static rg_loop *const loss_slope_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(loss_slope);

/* The number 1 in each floating dtype, for operands that are NULL. */
#define ONE(NAME, suffix, type, ...) [RG_##NAME] = RG_NUMBER(RG_##NAME, &(const type){ 1 }),
static rg_tensor ones[K_DTYPES] = { RG_FLOAT_DTYPES(ONE, ) };

bool k_loss(k_loss_kind kind, bool slope, rg_tensor *y, rg_tensor *x, rg_tensor *t,
            const rg_tensor *weight, const rg_tensor *by, double c, double scale) {
    rg_loop *loop = slope ? K_LOOP_OF(loss_slope_loops, y->dtype, "loss")
                          : K_LOOP_OF(loss_loops, y->dtype, "loss");
    if (!loop)
        return false;
    rg_tensor *one = &ones[y->dtype];
    rg_tensor *all[LOSS_OPERANDS] = {
        [LOSS_Y] = y,
        [LOSS_X] = x,
        [LOSS_TARGET] = t,
        [LOSS_WEIGHT] = weight ? (rg_tensor *)weight : one,
        [LOSS_BY] = by ? (rg_tensor *)by : one,
    };
    rgi_each_apart(LOSS_OPERANDS, all, loop,
                   &(k_loss_context){ .kind = kind, .c = c, .scale = scale });
    return true;
}

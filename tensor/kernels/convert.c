/*
 * convert.c: the table of the loops that copy elements from one dtype to another or to the same.
 */
#include "copy.h"

#include "kernels.h"

#define K_LOOPS "loops/convert.h"
#define K_TYPES_PAIRS
#define K_BASE_ONLY
#include "sets.h"

/* The name of the table of loops that convert elements to a dtype, as trace.c knows it. */
#define CONVERT_NAME(NAME, suffix, ...) [RG_##NAME] = "convert_" #suffix "_loops",

rg_loop *rgi_copy_loop(rg_dtype to, rg_dtype from) {
    static rg_loop *const loops[][K_DTYPES] = K_BASE_PAIRS(convert);
    static const char *const names[] = { RG_LOOP_DTYPES(CONVERT_NAME, ) };
    if (RG_UNLIKELY(rgi_is_widened(to) || rgi_is_widened(from)))
        return k_widened_copy_loop(to, from);
    if (RG_UNLIKELY(k_set_now() == K_TRACED))
        return (rg_loop *)k_other_loop(&loops[to][from], false, names[to], NULL, from);
    return loops[to][from];
}

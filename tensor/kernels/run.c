/*
 * run.c: which of the compiled loops runs: the processor's best set, and what is said where there
 * is no loop for a dtype.
 */
#include "kernels.h"

#define K_LOOPS "loops/stream.h"
#define K_TYPES_NONE
#include "sets.h"

/* Limits of the exponential functions; smooth.h says why they are variables. */
const float k_exp_least = -132.4f, k_exp_most = 89, k_exp_flush = -88.03f;

int k_set;

#define IF_PRESENT(set, suffix, ...) \
    if (k_has_##suffix())            \
        k_set = set;

/* Chooses the last of the sets that this processor has, for each is better than those before it. */
__attribute__((constructor)) static void choose_set(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    K_EACH_SET(IF_PRESENT)
}

void k_not_implemented(const char *name, rg_dtype dtype) {
    rgi_fail(RG_NOT_IMPLEMENTED, NULL, "\"%s\" not implemented for '%s'", name,
             rgi_scalar_name(dtype));
}

rg_loop *k_past_loop(void) {
    static rg_loop *const loops[K_SETS] = K_BY_SET(stream_loop);
    return loops[k_set];
}

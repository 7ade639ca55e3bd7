/*
 * sets.c: what the macros of sets.h call if a table has no loop, or if a thread traces its loops
 * (trace.h).
 */
#include <stdatomic.h>
#include "sets.h"
#include "tensor/error.h"

int k_set;

void k_not_implemented(const char *name, rg_dtype dtype) {
    rgi_fail(RG_NOT_IMPLEMENTED, NULL, "\"%s\" not implemented for '%s'", name,
             rgi_scalar_name(dtype));
}

/* ---- tracing ---------------------------------------------------------------------------- */

/* The set in which the loops of other threads run while k_set is K_TRACED. */
static atomic_int untraced_set;
/* The set whose loops the tracer is given. */
static int traced_set;
static _Thread_local k_tracer *tracer;

int k_widest_vectors(void) { return tracer && traced_set == 0 ? 16 : 64; }

void k_trace_by(k_tracer *by, bool in_own_set) {
    if (by)
        untraced_set = k_set;
    traced_set = in_own_set ? untraced_set : 0;
    tracer = by;
    __atomic_store_n(&k_set, by ? K_TRACED : untraced_set, __ATOMIC_RELEASE);
}

k_function *k_other_loop(const void *row, bool by_set, const char *table, const char *name,
                         int dtype) {
    k_function *const *loops = row;
    if (!loops[0]) {
        k_not_implemented(name, (rg_dtype)dtype);
        return NULL;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* for untraced_set */
    if (!tracer)
        return loops[by_set ? untraced_set : 0];
    return tracer(row, loops[by_set ? traced_set : 0], table, dtype);
}

/*
 * places.c: rg_move_places tells a module that registered fields have moved with a block of memory.
 */
#include "nn/registry.h"
#include "tensor/threads/lock.h"

bool(rg_move_places)(rg_module *m, const void *from, void *to, size_t bytes) {
    if (!rgi_module_given(m, "move_places") || (bytes && !rgi_given(to, "move_places", "a block")))
        return false;
    rgi_lock(RG_LOCK_MODULES);
    for (RG_EACH_ENTRY(e, m)) {
        uintptr_t at = (uintptr_t)e->place - (uintptr_t)from;
        if (at < bytes)
            e->place = (void **)((char *)to + at);
    }
    rgi_unlock(RG_LOCK_MODULES);
    return true;
}

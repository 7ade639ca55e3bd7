/*
 * stack.h: tells whether the thread's stack is nearly used up. Private.
 */
#pragma once

#include "tensor/base.h"

#include <stdbool.h>
#include <stdint.h>

/* Enough of the stack is left if the current stack frame isn't below this address. The address is
 * UINTPTR_MAX until the thread has measured its stack, so that the first check measures the
 * stack. */
extern __thread uintptr_t rgi_stack_floor __attribute__((tls_model("initial-exec")));
bool rgi_stack_is_short_below(uintptr_t here);

/* Returns whether the rest of the thread's stack may be too small for another forward. Returns
 * false if the thread runs on a stack that the program allocated itself (as for coroutines), since
 * its size isn't known. */
static inline bool rgi_stack_is_short(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return RG_UNLIKELY(here < rgi_stack_floor) && rgi_stack_is_short_below(here);
}

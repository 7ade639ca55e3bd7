/*
 * stack.h: the rest of the thread's stack. Private.
 */
#pragma once

#include "tensor/base.h"

#include <stdbool.h>
#include <stdint.h>

/* Below this address the stack is short, or hasn't been measured yet. */
extern __thread uintptr_t rgi_stack_floor __attribute__((tls_model("initial-exec")));
bool rgi_stack_is_short_below(uintptr_t here);

/* Returns whether the rest of the thread's stack may be too small for another forward. Returns
 * false on a stack that the program has made itself. */
static inline bool rgi_stack_is_short(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return RG_UNLIKELY(here < rgi_stack_floor) && rgi_stack_is_short_below(here);
}

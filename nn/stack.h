/*
 * stack.h: how much of the thread's stack is left. Private.
 */
#pragma once

#include "tensor/base.h"

#include <stdbool.h>
#include <stdint.h>

/* Below this address the thread's stack is short, or nobody has asked yet. */
extern __thread uintptr_t rgi_stack_floor __attribute__((tls_model("initial-exec")));
bool rgi_stack_is_short_below(uintptr_t here);

/* Returns whether so little of the thread's stack is left that another forward might not fit. On a
 * stack that a program made for itself this isn't known, and the answer is no. */
static inline bool rgi_stack_is_short(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return RG_UNLIKELY(here < rgi_stack_floor) && rgi_stack_is_short_below(here);
}

/*
 * stack.c: how much of the thread's stack is left, so that a recursion without end is an error.
 */
#define _GNU_SOURCE
#include "stack.h"
#include "tensor/base.h"

#include <pthread.h>
#include <stdint.h>

/* So much is left for a forward and all that it calls but modules. */
static const size_t STACK_RESERVE = 256 << 10;

/* The thread's stack lies from `low` on, and grows down to there; below `floor` it is short. Until
 * the first question, every place is below it. */
static __thread uintptr_t stack_low __attribute__((tls_model("initial-exec")));
static __thread uintptr_t stack_floor __attribute__((tls_model("initial-exec"))) = UINTPTR_MAX;

static void find_stack(void) {
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &bytes))
            bytes = 0;
        pthread_attr_destroy(&attributes);
    }
    stack_low = (uintptr_t)low;
    stack_floor = stack_low + RG_MIN(STACK_RESERVE, bytes / 4);
}

bool rgi_stack_is_short(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (RG_LIKELY(here >= stack_floor))
        return false;
    if (stack_floor == UINTPTR_MAX)
        find_stack();
    return here >= stack_low && here < stack_floor;
}

/*
 * stack.c: tells whether the thread's stack is nearly used up, so that an endless recursion of
 * forwards ends with an error, not with a crash.
 */
#include "stack.h"

#include "system.h"

/* The number of bytes of stack that must be left before a forward runs. A forward itself needs less
 * than that, and each forward that it calls is checked separately. If a quarter of the stack is
 * less than this number, only a quarter must be left. */
static const size_t STACK_RESERVE = 256 << 10;

/* The lowest address that the thread's stack, which grows downwards, may reach. */
static __thread uintptr_t stack_low __attribute__((tls_model("initial-exec")));
__thread uintptr_t rgi_stack_floor __attribute__((tls_model("initial-exec"))) = UINTPTR_MAX;

static void find_stack(void) {
    size_t bytes;
    rgi_find_stack(&stack_low, &bytes);
    rgi_stack_floor = stack_low + RG_MIN(STACK_RESERVE, bytes / 4);
}

bool rgi_stack_is_short_below(uintptr_t here) {
    if (rgi_stack_floor == UINTPTR_MAX)
        find_stack();
    return here >= stack_low && here < rgi_stack_floor;
}

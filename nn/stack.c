/*
 * stack.c: tells whether the thread's stack is nearly used up, so that an endless recursion of
 * forwards ends with an error, not with a crash.
 */
#define _GNU_SOURCE
#include "stack.h"

#include <pthread.h>
#ifndef __GLIBC__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* The number of bytes of stack that must be left before a forward runs. One forward needs less,
 * apart from the forwards that it calls. */
static const size_t STACK_RESERVE = 256 << 10;

/* The lowest address that the thread's stack, which grows downwards, may reach. */
static __thread uintptr_t stack_low __attribute__((tls_model("initial-exec")));
__thread uintptr_t rgi_stack_floor __attribute__((tls_model("initial-exec"))) = UINTPTR_MAX;

/* Corrects what pthread_attr_getstack told about the main thread's stack. musl only tells the part
 * in use; the stack may grow up to the limit that the program was started with. */
static void grow_to_limit(uintptr_t *low, size_t *bytes) {
#ifdef __GLIBC__
    (void)low;
    (void)bytes;
#else
    struct rlimit limit;
    if (syscall(SYS_gettid) != getpid() || getrlimit(RLIMIT_STACK, &limit))
        return;
    uintptr_t high = *low + *bytes;
    *bytes = (size_t)RG_MIN(limit.rlim_cur, high);
    *low = high - *bytes;
#endif
}

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
    grow_to_limit(&stack_low, &bytes);
    rgi_stack_floor = stack_low + RG_MIN(STACK_RESERVE, bytes / 4);
}

bool rgi_stack_is_short_below(uintptr_t here) {
    if (rgi_stack_floor == UINTPTR_MAX)
        find_stack();
    return here >= stack_low && here < rgi_stack_floor;
}

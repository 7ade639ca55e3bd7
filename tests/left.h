/*
 * left.h: asserts how many tensors, and how much memory, a call leaves to its caller's scope and to
 * the thread.
 */
#pragma once

#include "autograd/engine.h"
#include "regard.h"
#include "tensor/thread.h"
#include "tests/test.h"

typedef struct {
    size_t tensors, scopes;
    const void *memory;
    const char *applying, *named_as;
    bool observed, in_rule, grad;
} left_behind;

static left_behind look_behind(void) {
    return (left_behind){ rgi_this.depth, rgi_this.scopes,     rgi_this.blocks,
                          rgi_applying,   rgi_named_as,        rgi_this.observer != NULL,
                          rgi_in_rule,    rg_is_grad_enabled() };
}

static void check_left(const char *call, left_behind before, size_t tensors, bool memory) {
    const left_behind now = look_behind();
    ck_assert_msg(now.tensors - before.tensors == tensors, "%s: %d tensors are left, not %d (%s)",
                  call, (int)(now.tensors - before.tensors), (int)tensors, rg_error());
    ck_assert_msg(memory || now.memory == before.memory, "%s: memory is left", call);
    ck_assert_msg(now.scopes == before.scopes && now.applying == before.applying
                      && now.named_as == before.named_as && now.observed == before.observed
                      && now.in_rule == before.in_rule && now.grad == before.grad,
                  "%s: the thread is in another state", call);
}

#define CK_GIVES(n, memory, call)              \
    do {                                       \
        const left_behind was = look_behind(); \
        ck_ok(call);                           \
        check_left(#call, was, n, memory);     \
    } while (0)
/* Asserts that the call succeeds, and leaves n tensors to the scope. */
#define ck_gives(n, call) CK_GIVES(n, false, call)
/* Asserts the same of a call whose result is a text or a list. The scope owns the memory of the
 * result. */
#define ck_gives_memory(n, call) CK_GIVES(n, true, call)
/* Asserts that the call fails, and leaves no tensor. */
#define ck_gives_none(call)                          \
    do {                                             \
        const left_behind was = look_behind();       \
        ck_assert_msg(!(call), "%s went on", #call); \
        check_left(#call, was, 0, true);             \
        rg_error_clear();                            \
    } while (0)

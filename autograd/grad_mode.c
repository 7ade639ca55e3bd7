/*
 * grad_mode.c: grad mode and inference mode, which decide whether a thread records its ops.
 */
#include "op.h"
#include "tensor/thread.h"

__thread bool rgi_grad_off __attribute__((tls_model("initial-exec")));

/* True if the program has switched grad mode off, whether inference mode is on or not. */
static __thread bool grad_set_off __attribute__((tls_model("initial-exec")));

bool rg_is_grad_enabled(void) { return !grad_set_off; }

RG_HOT bool(rg_set_grad_enabled)(bool on) {
    bool before = !grad_set_off;
    grad_set_off = !on;
    rgi_grad_off = !on || rgi_this.inference;
    return before;
}

rg_grad_guard(rg_grad_guard_open)(bool on) { return (rg_grad_guard){ rg_set_grad_enabled(on) }; }
void rg_grad_guard_close(rg_grad_guard *guard) { rg_set_grad_enabled(guard->before); }

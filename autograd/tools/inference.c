/*
 * inference.c: inference mode. A thread that is in it records nothing, and marks the storages that
 * it makes; the marks stay. Once some thread was in it, an observer looks for marked values in what
 * is recorded and added to.
 */
#include "autograd/graph_observer.h"

/* ---- the observer ------------------------------------------------------------------ */

static bool is_inference(const rg_tensor *t) { return t->storage && t->storage->inference; }

/* Nothing is recorded of a call whose inputs are all inference tensors, as in torch. */
static bool records_some_input(rg_graph_observer *o, const rg_call *c) {
    (void)o;
    for (int i = 0; i < c->n_in; i++)
        if (!rgi_is_none(c->in[i]) && !is_inference(c->in[i]))
            return true;
    return false;
}

static bool refuse_to_save(rg_graph_observer *o, const rg_call *c, uint32_t needs) {
    (void)o;
    for (int i = 0; i < c->n_in && i < RG_INPUTS; i++)
        RG_FAIL_IF(needs & RG_IN(i) && is_inference(c->in[i]), c->op->name,
                   "Inference tensors cannot be saved for backward. Please do not use Tensors "
                   "created in inference mode in computation tracked by autograd. To work around "
                   "this, you can make a clone to get a normal tensor and use it in autograd, or "
                   "use `torch.no_grad()` instead of `torch.inference_mode()`.");
    return true;
}

static bool may_add_to(rg_graph_observer *o, rg_tensor *grad) {
    (void)o;
    return rgi_may_touch(grad, "backward");
}

static rg_graph_observer inference = { .records = records_some_input,
                                       .may_save = refuse_to_save,
                                       .may_add = may_add_to };

/* ---- the mode ---------------------------------------------------------------------- */

bool rg_is_inference_mode_enabled(void) { return rgi_this.inference; }

bool rg_is_inference(rg_tensor *t) { return rgi_check(t, "is_inference") && is_inference(t); }

/* Setting grad mode asks for the thread's inference mode, so that comes first. */
static void set_modes(bool on, bool grad) {
    rgi_thread_get()->inference = on;
    if (on && !rgi_is_in_force(&inference))
        rgi_set_graph_observer(&inference, true);
    rg_set_grad_enabled(grad);
}

rg_inference_guard rg_inference_guard_open(bool on) {
    const rg_inference_guard before = { rgi_this.inference, rg_is_grad_enabled() };
    set_modes(on, !on);
    return before;
}

void rg_inference_guard_close(rg_inference_guard *guard) {
    set_modes(guard->inference, guard->grad);
}

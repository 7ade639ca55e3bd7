/*
 * inference.c: inference mode. A thread in this mode records no graph, and the storages that it
 * allocates are marked for good as inference storages. Once any thread has used the mode, an
 * observer watches all threads. The observer refuses to save values in inference storages for
 * backward. In a thread outside of the mode, it also refuses to add in place to a gradient in such
 * a storage.
 */
#include "autograd/graph_observer.h"

/* ---- the observer of inference mode ------------------------------------------------ */

static bool is_inference(const rg_tensor *t) { return t->storage && t->storage->inference; }

/* Returns whether the call is to be recorded. As in torch, it isn't recorded if all its inputs are
 * inference tensors or absent. */
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

/* ---- switching inference mode on and off ------------------------------------------- */

bool rg_is_inference_mode_enabled(void) { return rgi_this.inference; }

bool rg_is_inference(rg_tensor *t) { return rgi_check(t, "is_inference") && is_inference(t); }

/* Sets the thread's inference mode and its grad mode. The inference mode comes first, because
 * rg_set_grad_enabled reads it. */
static void set_modes(bool on, bool grad) {
    rgi_thread_get()->inference = on;
    if (on && !rgi_is_in_force(&inference))
        rgi_set_graph_observer(&inference, true);
    rg_set_grad_enabled(grad);
}

rg_inference_guard(rg_inference_guard_open)(bool on) {
    const rg_inference_guard before = { rgi_this.inference, rg_is_grad_enabled() };
    set_modes(on, !on);
    return before;
}

void rg_inference_guard_close(rg_inference_guard *guard) {
    set_modes(guard->inference, guard->grad);
}

/*
 * function_backward.c: the backward step of a user's op. It calls the class's backward with the
 * values that forward saved, and checks the gradients before the engine gets them.
 */
#include "function_parts.h"
#include "autograd/graph_observer.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"

/* ---- repetitions of recorded steps ----------------------------------------------------- */

bool rgi_took_another_way(const rg_op *op) {
    return rgi_fail(RG_RUNTIME_ERROR, op->name, "the recorded step has taken another way");
}

bool rgi_function_same(const rg_op *op, rg_tensor *to, rg_tensor *from) {
    if (to->data == from->data)
        return true;
    if (to->dtype != from->dtype || !rgi_same_shape(to, from))
        return rgi_took_another_way(op);
    rgi_copy_elements(to, from);
    return true;
}

/* ---- calling backward --------------------------------------------------------------- */

/* The op of a node whose only purpose is to fail when it is differentiated. Gradients of a
 * once_differentiable class get such a node as their history if a graph is created. Without a
 * history these gradients would count as constants, and a second derivative would silently be
 * wrong. */
static const rg_op rg_op_differentiated_once = {
    .name = "once_differentiable",
    .node = "DelayedError",
    .no_grad = "trying to differentiate twice a function that was marked with @once_differentiable",
};

/* Returns g, the gradient of input i, with a node of rg_op_differentiated_once as its history. An
 * attempt to differentiate this gradient again then fails. Returns NULL if memory ran out. */
static rg_tensor *gradient_made_once(const rg_step *s, rg_tensor *g, int i) {
    const rg_edge *e = &s->node->edge[i];
    rg_tensor *input = rgi_join(g, e->node, e->output);
    rg_call c = { .op = &rg_op_differentiated_once, .n_in = 1, .n_out = 1, .in = &input };
    c.out[0] = rgi_own(rgi_alias(g));
    return input && c.out[0] && rgi_record_needing(&c, 0, 0) ? c.out[0] : NULL;
}

/* Fails unless the gradient that backward returned for input i is floating point and can be summed
 * to the input's shape. The error message for a wrong shape is torch's. */
static bool gradient_fits(const rg_step *s, rg_tensor *g, int i) {
    if (!rgi_check(g, s->op->name))
        return false;
    RG_FAIL_IF(!rgi_is_float(g->dtype), s->op->name,
               "backward made a gradient of %s for input %d: gradients are floating point",
               rg_dtype_name((rg_dtype)g->dtype), i);
    const rg_edge *e = &s->node->edge[i];
    const rg_meta *m = &e->node->meta[e->output];
    const rg_dims want = rgi_meta_dims(m);
    RG_FAIL_IF(!rgi_may_sum_to(g, m), s->op->name,
               "Function %s returned an invalid gradient at index %d - got %s but expected shape "
               "compatible with %s",
               s->op->node, i, RG_SHAPE_TEXT(g), RG_DIMS_TEXT(&want));
    return true;
}

/* Returns g, the gradient that backward returned for input i, with a reference for the engine, or
 * NULL on failure. `observer` isn't NULL if a step is being recorded or repeated and no graph is
 * created. Then g is copied to a tensor that the observer provides, the same one in each
 * repetition. This tensor is returned in place of g. */
static rg_tensor *gradient_of(const rg_step *s, rg_tensor *g, int i, rg_observer *observer) {
    const rg_function_row *row = (const rg_function_row *)s->op;
    if (!gradient_fits(s, g, i))
        return NULL;
    if (s->create_graph && row->cls.once_differentiable)
        g = gradient_made_once(s, g, i);
    if (observer) {
        rgi_set_observer(observer);
        rg_tensor *same = rgi_new_like(g, (rg_dtype)g->dtype);
        rgi_set_observer(NULL);
        if (same && rgi_function_same(s->op, same, g))
            return same;
        rgi_release(same);
        return NULL;
    }
    if (g)
        rgi_retain(g);
    return g;
}

/* Calls the class's backward with the gradients of the outputs. Backward stores the gradients of
 * the inputs in made[]. Fails if backward fails. */
static bool run_backward(rg_function_context *ctx, rg_tensor *made[]) {
    const rg_step *s = ctx->step;
    const rg_function_class *cls = &ctx->row->cls;
    rg_tensor *g[RG_MAX_OUTPUTS] = { NULL };
    for (int k = 0; k < s->node->n_out; k++) {
        bool absent = cls->unmaterialized_grads && !s->g[k];
        g[k] = absent ? RG_NONE : rgi_step_g(s, k);
        if (!g[k])
            return false;
    }
    const int64_t failures = rgi_failures();
    bool inside = rgi_in_rule;
    rgi_in_rule = true;
    RG_AUTOCAST_AS(ctx->attr->autocast);
    bool before = rg_set_grad_enabled(s->create_graph && !cls->once_differentiable);
    bool ok = cls->backward(ctx, g, made);
    rg_set_grad_enabled(before);
    rgi_in_rule = inside;
    ok = rgi_called(ok, failures, RG_RUNTIME_ERROR, cls->name, "backward failed, and said nothing");
    if (!ok)
        rgi_failed_inside(failures, ctx->row->node);
    return ok;
}

static bool backward_in_scope(rg_function_context *ctx, rg_tensor *gin[], rg_observer *observer) {
    RG_SCOPE();
    const rg_step *s = ctx->step;
    const int n = ctx->attr->n_user;
    rg_tensor *made[RG_FUNCTION_INPUTS];
    for (int i = 0; i < RG_FUNCTION_INPUTS; i++)
        made[i] = RG_NONE;
    if (ctx->row->cls.state_bytes) {
        ctx->state = rgi_saved(s, s->n_in - 1);
        if (!ctx->state)
            return false;
    }
    if (!run_backward(ctx, made))
        return false;
    for (int i = 0; i < n; i++) {
        if (!rgi_wants(s, i) || made[i] == RG_NONE)
            continue;
        gin[i] = gradient_of(s, made[i], i, observer);
        if (!gin[i])
            return false;
    }
    return true;
}

/* Computes all gradients of a step. If a graph is created while a training step is recorded, the
 * recorder sees the calls inside backward, but not what backward reads from the state or computes
 * on the data directly. Therefore the step fails then if the class has a state or is
 * once_differentiable. */
bool rgi_function_backward(const rg_step *s, rg_tensor *gin[]) {
    const rg_function_row *row = (const rg_function_row *)s->op;
    rg_function_context ctx = {
        .row = row, .attr = (rg_function_attr *)s->attr, .step = s, .wanted = s->wanted
    };
    bool apart = row->cls.state_bytes || row->cls.once_differentiable;
    if (s->create_graph)
        return (!apart || rgi_may_do_once(row->op.name)) && backward_in_scope(&ctx, gin, NULL);
    rg_observer *observer = rgi_set_observer(NULL);
    bool ok = backward_in_scope(&ctx, gin, observer);
    rgi_set_observer(observer);
    return ok;
}

/*
 * backward_hooks.c: full backward hooks of modules. For each call of such a module, two ops are put
 * into the graph, as torch's BackwardHook does: one gets the call's inputs, the other its result.
 * The ops return their inputs unchanged; their backward functions call the hooks. The functions
 * that register hooks, and the calls of modules, are in call.c.
 */
#include "autograd/checks.h"
#include "autograd/tools/function.h"
#include "autograd/tools/saved.h"
#include "registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/messages/warning.h"
#include "tensor/refs.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MOST_HOOKED = 8 };

/* The hooks of one call, with the gradient of the call's result. The call holds one reference to
 * this struct until it returns. Each of the two nodes in the graph holds one as long as the node
 * exists. In a backward run the node of the result stores the result's gradient here, and the node
 * of the inputs reads it. */
struct rg_backward_call {
    atomic_int refs;
    rg_module *m;
    int n; /* The number of inputs. */
    /* The number of inputs of the op that gets the call's inputs. An input of the call that is
     * RG_NONE isn't an input of the op. The number is 0, and there is no such op, if no input
     * requires grad or grad mode is off. */
    int n_hooked;
    /* place[j] is the index of that op's input j among the call's inputs. */
    int place[MOST_HOOKED];
    /* The gradient of the result. The result's node sets it. It is NULL again once the hooks were
     * called. */
    rg_tensor *grad_output;
    size_t n_hooks;
    rg_hook hooks[];
};

/* ---- a call's state: making and releasing ---------------------------------------------- */

static bool is_backward_hook(const rg_hook *h) {
    return h->kind == RG_HOOK_BACKWARD || h->kind == RG_HOOK_BACKWARD_PRE;
}

static size_t backward_call_bytes(size_t hooks) {
    return sizeof(rg_backward_call) + hooks * sizeof(rg_hook);
}

/* If the module has backward hooks, sets *call to a new struct that holds copies of them. Otherwise
 * leaves *call unchanged. Returns false if memory runs out. */
static bool backward_call_new(rg_module *m, rg_backward_call **call) {
    const rg_hook_list *hooks = &m->registry->hooks;
    size_t n = 0;
    for (size_t i = 0; i < hooks->n; i++)
        n += is_backward_hook(&hooks->v[i]);
    if (!n)
        return true;
    rg_backward_call *c = rgi_alloc(backward_call_bytes(n), RG_MEM_OTHER);
    if (!c)
        return false;
    memset(c, 0, backward_call_bytes(n));
    c->refs = 1;
    c->m = m;
    for (size_t i = 0; i < hooks->n; i++)
        if (is_backward_hook(&hooks->v[i]))
            c->hooks[c->n_hooks++] = hooks->v[i];
    *call = c;
    return true;
}

static void backward_call_let_go(rg_backward_call *c) {
    if (!RG_COUNT_DOWN(&c->refs, 1))
        return;
    rgi_release(c->grad_output);
    rgi_free(c, backward_call_bytes(c->n_hooks), RG_MEM_OTHER);
}

/* The nodes must own the call's struct, but an op can save only tensors. So the op saves a
 * placeholder tensor, and this pack hook puts a reference to the struct in its place. When the node
 * is freed, placeholder_drop releases the reference. */
static void *placeholder_pack(rg_tensor *t, void *context) {
    rg_backward_call *c = context;
    (void)t;
    RG_COUNT_UP(&c->refs, 1);
    return c;
}

static rg_tensor *placeholder(void) { return rg_zeros_dims(RG_DIMS(1), RG_INT64); }

static rg_tensor *placeholder_unpack(void *packed, void *context) {
    (void)packed;
    (void)context;
    return placeholder();
}

static void placeholder_drop(void *packed, void *context) {
    (void)context;
    backward_call_let_go(packed);
}

/* ---- calling the hooks in a backward run ----------------------------------------------- */

static rg_backward_call *backward_call_of(rg_function_context *ctx) {
    return *(rg_backward_call *const *)rg_function_args(ctx);
}

/* Calls the hooks that take the gradients of the inputs. Calls none if the result has no gradient.
 * Fails if a hook fails. */
static bool run_full_hooks(const rg_backward_call *c, rg_tensor *grad_input[]) {
    for (size_t k = 0; k < c->n_hooks; k++) {
        const rg_hook *h = &c->hooks[k];
        rg_full_backward_hook *function = (rg_full_backward_hook *)h->function;
        rg_tensor *g = h->kind == RG_HOOK_BACKWARD ? rgi_lend(c->grad_output) : NULL;
        const int64_t before = rgi_failures();
        const bool ok = !g || function(c->m, c->n, grad_input, g, h->context);
        if (!rgi_called(ok, before, RG_RUNTIME_ERROR, "full_backward_hook",
                        "the hook failed, and said nothing"))
            return false;
    }
    return true;
}

/* Returns true if the hook's result `made` is a tensor or RG_NONE, and the hook has set no error.
 * Otherwise fails and returns false. `before` is the number of failures before the hook was
 * called. */
static bool has_made(const rg_tensor *made, int64_t before, const char *op) {
    return rgi_called(made, before, RG_TYPE_ERROR, op,
                      "expected a gradient of the hook but got NULL");
}

/* Calls the hooks when no input requires grad. A hook gets the result's gradient, and RG_NONE for
 * each input. Fails if a hook puts something else in the place of an RG_NONE. */
static bool run_without_inputs(const rg_backward_call *c) {
    rg_tensor *none[MOST_HOOKED];
    rgi_warn(c->m->cls->name,
             "Full backward hook is firing when gradients are computed with respect to module "
             "outputs since no inputs require gradients. See "
             "https://docs.pytorch.org/docs/main/generated/"
             "torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more details.");
    for (int i = 0; i < MOST_HOOKED; i++)
        none[i] = RG_NONE;
    const int64_t before = rgi_failures();
    if (!run_full_hooks(c, none))
        return false;
    for (int i = 0; i < MOST_HOOKED; i++) {
        if (!has_made(none[i], before, "full_backward_hook"))
            return false;
        RG_FAIL_IF(none[i] != RG_NONE, c->m->cls->name,
                   "Backward hook for Modules where no input requires gradient should always "
                   "return None or None for all gradients.");
    }
    return true;
}

static void forget_grad_output(rg_backward_call *c) {
    rgi_release(c->grad_output);
    c->grad_output = NULL;
}

/* Returns whether a hook's result `made` can replace the gradient: whether it is RG_NONE, or a
 * tensor with the shape and dtype of the gradient. Fails if not. */
static bool is_gradient_like(rg_tensor *made, const rg_tensor *grad, const char *op) {
    char hook[64];
    snprintf(hook, sizeof hook, "hook '%s'", op);
    return made == RG_NONE || (rgi_check(made, op) && rgi_want_replacement(op, hook, made, grad));
}

/* The backward function of the result's node. Calls the pre-hooks, and stores the gradient that
 * they return, which the inputs' node reads. If there is no inputs' node (n_hooked is 0), also
 * calls the other hooks. */
static bool result_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_backward_call *c = backward_call_of(ctx);
    rg_tensor *grad = g[0];
    for (size_t k = 0; k < c->n_hooks; k++) {
        const rg_hook *h = &c->hooks[k];
        rg_full_backward_pre_hook *function = (rg_full_backward_pre_hook *)h->function;
        rg_tensor *other = RG_NONE;
        const int64_t before = rgi_failures();
        if (h->kind == RG_HOOK_BACKWARD_PRE)
            other = function(c->m, grad, h->context);
        if (!has_made(other, before, "full_backward_pre_hook")
            || !is_gradient_like(other, g[0], "full_backward_pre_hook"))
            return false;
        if (other != RG_NONE)
            grad = other;
    }
    forget_grad_output(c);
    rgi_retain(grad);
    c->grad_output = grad;
    gin[0] = grad;
    if (c->n_hooked)
        return true;
    const bool ok = run_without_inputs(c);
    forget_grad_output(c);
    return ok;
}

/* The backward function of the inputs' node: calls the hooks with the gradients of the inputs and
 * of the result. In the backward run of a second derivative, this node may get gradients although
 * the result's node got none; then no hook is called. */
static bool inputs_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_backward_call *c = backward_call_of(ctx);
    rg_tensor *grad_input[MOST_HOOKED];
    for (int i = 0; i < MOST_HOOKED; i++)
        grad_input[i] = RG_NONE;
    for (int j = 0; j < c->n_hooked; j++)
        grad_input[c->place[j]] = g[j];
    const int64_t before = rgi_failures();
    const bool ok = run_full_hooks(c, grad_input);
    forget_grad_output(c);
    for (int j = 0; ok && j < c->n_hooked; j++) {
        gin[j] = grad_input[c->place[j]];
        if (!has_made(gin[j], before, "full_backward_hook")
            || !is_gradient_like(gin[j], g[j], "full_backward_hook"))
            return false;
    }
    return ok;
}

/* ---- the two ops, over a call's result and over its inputs ----------------------------- */

/* Sets out[] to aliases of the inputs. If an input requires no grad (a tensor of indices, for
 * example), its alias doesn't require grad either. Also saves the placeholder by which the node
 * owns the call (see placeholder_pack). */
static bool pass_through(rg_function_context *ctx, int n, rg_tensor *const in[], rg_tensor *out[]) {
    for (int i = 0; i < n; i++) {
        out[i] = rg_detach(in[i]);
        if (!rg_needs_input_grad(ctx, i))
            rg_mark_non_differentiable(ctx, out[i]);
    }
    return rg_save_for_backward(ctx, placeholder());
}

static bool result_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    return pass_through(ctx, 1, in, out);
}

static bool inputs_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    return pass_through(ctx, backward_call_of(ctx)->n_hooked, in, out);
}

#define HOOK_OP(n, part)                                                                        \
    {                                                                                           \
        .name = "BackwardHookFunction", .forward = part##_forward, .backward = part##_backward, \
        .outputs = n, .args_bytes = sizeof(rg_backward_call *)                                  \
    }
static rg_function_class result_op = HOOK_OP(1, result);
static rg_function_class inputs_ops[MOST_HOOKED] = {
    HOOK_OP(1, inputs), HOOK_OP(2, inputs), HOOK_OP(3, inputs), HOOK_OP(4, inputs),
    HOOK_OP(5, inputs), HOOK_OP(6, inputs), HOOK_OP(7, inputs), HOOK_OP(8, inputs),
};

static bool apply_hook_op(rg_function_class *op, rg_backward_call *c, rg_list in,
                          rg_tensor *out[]) {
    const rg_saved_hooks hooks = { placeholder_pack, placeholder_unpack, placeholder_drop, c };
    if (!rg_push_saved_hooks(hooks))
        return false;
    const bool ok = rg_function_apply_many(op, &c, in, out);
    rg_pop_saved_hooks();
    return ok;
}

/* ---- a call of a module with backward hooks -------------------------------------------- */

static bool hook_inputs(rg_backward_call *c, rg_tensor *inputs[]) {
    rg_tensor *in[MOST_HOOKED], *out[MOST_HOOKED];
    bool any = false;
    RG_FAIL_VALUE_IF(c->n > MOST_HOOKED, c->m->cls->name,
                     "a module with full backward hooks takes up to %d inputs, but got %d",
                     MOST_HOOKED, c->n);
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        if (inputs[i] == RG_NONE)
            continue;
        any = any || rgi_is_in_graph(inputs[i]);
        c->place[n] = i;
        in[n++] = inputs[i];
    }
    if (!any || !rg_is_grad_enabled())
        return true;
    c->n_hooked = n;
    if (!apply_hook_op(&inputs_ops[n - 1], c, (rg_list){ n, in }, out))
        return false;
    for (int j = 0; j < n; j++)
        inputs[c->place[j]] = out[j];
    return true;
}

bool rgi_backward_call_begin(rg_module *m, int n, rg_tensor *inputs[], rg_backward_call **call) {
    if (!backward_call_new(m, call))
        return false;
    if (!*call)
        return true;
    (*call)->n = n;
    if (hook_inputs(*call, inputs))
        return true;
    backward_call_let_go(*call);
    return false;
}

rg_tensor *rgi_backward_call_end(rg_backward_call *call, rg_tensor *y) {
    if (!call)
        return y;
    if (y && y != RG_NONE && rg_is_grad_enabled() && rgi_is_in_graph(y)) {
        rg_tensor *alias = NULL;
        apply_hook_op(&result_op, call, (rg_list){ 1, &y }, &alias);
        y = alias;
    }
    backward_call_let_go(call);
    return y;
}

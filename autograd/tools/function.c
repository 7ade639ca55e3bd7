/*
 * function.c: ops that users define. The library makes an rg_op for each class, and each recorded
 * call of the op becomes a node, as with regard's own ops. The node saves values of three kinds:
 * inputs and outputs, intermediate results that forward saved, and the state, which is a tensor of
 * bytes. The thread's observer, such as the recorder of a replay, sees forward as one operation and
 * backward as another, but no calls inside them (unless backward creates a graph).
 */
#include "function_parts.h"
#include "autograd/graph_observer.h"
#include "autograd/rebase.h"
#include "tensor/threads/lock.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"

#include <stdio.h>
#include <string.h>

/* ---- making the row of a class ------------------------------------------------------ */

static bool function_again(rg_call *c);

static rg_function_row *row_new(const rg_function_class *cls) {
    const size_t name = strlen(cls->name);
    rg_function_row *row = rgi_alloc(sizeof *row + name + sizeof "Backward", RG_MEM_OTHER);
    if (!row)
        return NULL;
    memcpy(row->node, cls->name, name);
    memcpy(row->node + name, "Backward", sizeof "Backward");
    row->cls = *cls;
    row->cls.outputs = RG_MAX(cls->outputs, 1);
    row->op = (rg_op){
        .name = cls->name,
        .doc = "an op that the program defines",
        .node = row->node,
        .n_out = (uint8_t)row->cls.outputs,
        .forward = function_again,
        .together = rgi_function_backward,
        .no_grad = cls->backward ? NULL
                                 : "You must implement either the backward or vjp method for your "
                                   "custom autograd.Function to use it with backward mode AD.",
    };
    return row;
}

/* Fails unless the class is as it was at its first use, when `row` was made. The op works with the
 * copy in `row`, so a change of the class would silently have no effect. */
static bool is_as_before(const rg_function_class *cls, const rg_function_row *row) {
    const rg_function_class *was = &row->cls;
    const bool same = cls->name == was->name && cls->forward == was->forward
                      && cls->backward == was->backward
                      && RG_MAX(cls->outputs, 1) == was->outputs
                      && cls->args_bytes == was->args_bytes
                      && cls->state_bytes == was->state_bytes
                      && cls->once_differentiable == was->once_differentiable
                      && cls->unmaterialized_grads == was->unmaterialized_grads;
    RG_FAIL_VALUE_IF(!same, was->name, "the class has changed since its first use");
    return true;
}

/* Returns the library's data for a class (see function_parts.h). The first call for a class makes
 * these data. Returns NULL if the class isn't valid or memory ran out. */
static const rg_function_row *row_of_class(rg_function_class *cls) {
    static rg_function_row *rows __attribute__((used));
    if (!rgi_given(cls, "function_apply", "a class"))
        return NULL;
    rg_function_row *row = __atomic_load_n(&cls->row, __ATOMIC_ACQUIRE);
    if (RG_LIKELY(row != NULL))
        return is_as_before(cls, row) ? row : NULL;
    RG_FAIL_VALUE_IF(!cls->name || !cls->forward, "function_apply",
                     "a class needs a name and a forward");
    RG_FAIL_VALUE_IF(cls->outputs < 0 || cls->outputs > RG_MAX_OUTPUTS, cls->name,
                     "a class has up to %d outputs, but this says %lld", RG_MAX_OUTPUTS,
                     (long long)cls->outputs);
    const size_t bytes = RG_MAX(cls->args_bytes, cls->state_bytes);
    RG_FAIL_VALUE_IF(bytes > PTRDIFF_MAX / 2, cls->name,
                     "args or a state of %zu bytes are too large", bytes);
    rgi_lock(RG_LOCK_FUNCTIONS);
    row = cls->row;
    if (!row) {
        row = row_new(cls);
        if (row) {
            row->next = rows;
            rows = row;
        }
        __atomic_store_n(&cls->row, row, __ATOMIC_RELEASE);
    }
    rgi_unlock(RG_LOCK_FUNCTIONS);
    return row;
}

/* ---- reading the context of a call -------------------------------------------------- */

const void *rg_function_args(rg_function_context *ctx) {
    return rgi_given(ctx, "function_args", "a context") && ctx->row->cls.args_bytes
               ? ctx->attr->args
               : NULL;
}

void *rg_function_state(rg_function_context *ctx) {
    return rgi_given(ctx, "function_state", "a context") && ctx->state ? ctx->state->data : NULL;
}

bool(rg_needs_input_grad)(rg_function_context *ctx, int i) {
    if (!rgi_given(ctx, "needs_input_grad", "a context"))
        return false;
    RG_FAIL_INDEX_IF(i < 0 || i >= ctx->attr->n_user, ctx->row->op.name,
                     "needs_input_grad: there is no input %d of %d", i, ctx->attr->n_user);
    return ctx->wanted >> i & 1;
}

/* Returns the index of t among the n tensors v, or -1 if it isn't one of them. */
static int index_among(const rg_tensor *t, rg_tensor *const v[], int n) {
    for (int i = 0; i < n; i++)
        if (v[i] == t)
            return i;
    return -1;
}

bool rg_mark_non_differentiable(rg_function_context *ctx, rg_tensor *output) {
    if (!rgi_given(ctx, "mark_non_differentiable", "a context")
        || !rgi_check(output, ctx->row->op.name))
        return false;
    int k = ctx->out ? index_among(output, ctx->out, (int)ctx->row->cls.outputs) : -1;
    RG_FAIL_VALUE_IF(k < 0, ctx->row->op.name,
                     "mark_non_differentiable takes an output, in forward, where out[] has it");
    ctx->attr->apart |= 1u << k;
    return true;
}

bool rg_save_for_backward_list(rg_function_context *ctx, rg_list tensors) {
    if (!rgi_given(ctx, "save_for_backward", "a context"))
        return false;
    const char *op = ctx->row->op.name;
    if (!rgi_given_list(tensors.n, tensors.v, op))
        return false;
    RG_FAIL_IF(!ctx->out || ctx->attr->has_saved, op,
               "save_for_backward is to be called once, in forward");
    RG_FAIL_VALUE_IF(tensors.n > RG_FUNCTION_SAVED, op, "saves up to %d tensors, but got %d",
                     RG_FUNCTION_SAVED, tensors.n);
    for (int j = 0; j < tensors.n; j++)
        if (!rgi_is_none(tensors.v[j]) && !rgi_check(tensors.v[j], op))
            return false;
    for (int j = 0; j < tensors.n; j++) {
        ctx->saved[j] = tensors.v[j];
        ctx->version[j] = rgi_is_none(tensors.v[j]) ? 0 : tensors.v[j]->storage->version;
    }
    ctx->attr->n_saved = (uint8_t)tensors.n;
    ctx->attr->has_saved = true;
    return true;
}

rg_tensor *(rg_saved_tensor)(rg_function_context *ctx, int i) {
    if (!rgi_given(ctx, "saved_tensor", "a context"))
        return NULL;
    const char *op = ctx->row->op.name;
    RG_FAIL_IF(!ctx->step, op, "saved_tensor is for backward");
    RG_FAIL_INDEX_IF(i < 0 || i >= ctx->attr->n_saved, op,
                     "saved_tensor: there is no tensor %d of %d that were saved", i,
                     ctx->attr->n_saved);
    int slot = ctx->attr->slot[i];
    if (slot == RG_SLOT_ABSENT)
        return RG_NONE;
    if (slot < RG_INPUTS)
        return rgi_saved(ctx->step, slot);
    return rgi_saved_output_at(ctx->step, slot - RG_INPUTS);
}

/* ---- calling forward ---------------------------------------------------------------- */

static bool shares_memory_with(const rg_tensor *t, rg_tensor *const others[], int n) {
    bool shares = false;
    for (int i = 0; i < n; i++)
        shares = shares || (others[i] != RG_NONE && others[i]->storage == t->storage);
    return shares;
}

/* Returns whether two of the outputs share a storage that isn't an input's. A write to one of them
 * could change the other, and the other's history wouldn't show it. (An output that shares an
 * input's storage is a view of the input, and refuses such a write.) */
static bool outputs_share_memory(const rg_function_context *ctx, int outputs) {
    for (int k = 1; k < outputs; k++)
        if (ctx->out[k]->numel > 0 && shares_memory_with(ctx->out[k], ctx->out, k)
            && !shares_memory_with(ctx->out[k], ctx->in, ctx->attr->n_user))
            return true;
    return false;
}

/* Fails if forward has written to a value after it was saved. Backward would read the new value. */
static bool saved_are_unchanged(const rg_function_context *ctx) {
    for (int j = 0; j < ctx->attr->n_saved; j++) {
        const rg_tensor *t = ctx->saved[j];
        RG_FAIL_IF(!rgi_is_none(t) && t->storage->version != ctx->version[j], ctx->row->op.name,
                   "forward has written to the tensor %d that it had saved for backward; save it "
                   "after the last write, or save a clone. The last write was by %s.",
                   j, t->storage->mutation);
    }
    return true;
}

/* Calls the class's forward function. Fails if that function fails, doesn't set an output, sets
 * outputs that share memory, or writes to a value that it has saved. */
static bool run_class_forward(rg_function_context *ctx) {
    const rg_function_class *cls = &ctx->row->cls;
    const int64_t failures = rgi_failures();
    bool before = rg_set_grad_enabled(false);
    bool ok = cls->forward(ctx, ctx->in, ctx->out);
    rg_set_grad_enabled(before);
    if (!rgi_called(ok, failures, RG_RUNTIME_ERROR, cls->name, "forward failed, and said nothing"))
        return false;
    for (int k = 0; k < cls->outputs; k++) {
        RG_FAIL_IF(!ctx->out[k], cls->name, "forward made no output %d", k);
        if (!rgi_check(ctx->out[k], cls->name))
            return false;
    }
    RG_FAIL_IF(outputs_share_memory(ctx, (int)cls->outputs), cls->name,
               "two outputs of forward share memory; return a clone of one of them (rg_clone)");
    return saved_are_unchanged(ctx);
}

/* Finds a slot of the node for each value that forward saved (see rg_function_attr). A value that
 * is neither an input nor an output becomes a further input of the node, and is appended to in[].
 * Returns the new number of inputs, or -1 if memory ran out. */
static int place_saved(rg_function_context *ctx, rg_tensor *in[], int n) {
    rg_function_attr *a = ctx->attr;
    for (int j = 0; j < a->n_saved; j++) {
        rg_tensor *t = ctx->saved[j];
        int i = index_among(t, in, a->n_user);
        int k = index_among(t, ctx->out, (int)ctx->row->cls.outputs);
        if (rgi_is_none(t)) {
            a->slot[j] = RG_SLOT_ABSENT;
            continue;
        }
        if (i < 0 && k >= 0) {
            a->slot[j] = (int8_t)(RG_INPUTS + k);
            a->needs |= RG_OUT(k);
            continue;
        }
        if (i < 0) {
            i = n++;
            in[i] = rgi_own(rgi_alias(t));
            if (!in[i])
                return -1;
        }
        a->slot[j] = (int8_t)i;
        a->needs |= RG_IN(i);
    }
    return n;
}

/* Returns a tensor, owned by the scope, with the values of an output that forward made, and without
 * a history. If the output shares memory with an input, the returned tensor is a view of that
 * input, marked so that a recorded write to it fails. Such a write would give the view a new
 * history that leads directly to the input and leaves out this op. Returns NULL if memory ran
 * out. */
static rg_tensor *output_of(rg_tensor *made, rg_tensor *const in[], int n) {
    rg_tensor *y = rgi_own(rgi_alias(made));
    for (int i = 0; i < n && y; i++) {
        if (rgi_is_none(in[i]) || in[i]->storage != y->storage)
            continue;
        rgi_view_join(y, in[i]);
        y->flags = (uint8_t)((y->flags & ~RG_OF_LIST) | RG_UNTRACKED);
        break;
    }
    return y;
}

/* Fails if forward has written to an input whose gradient is wanted. */
static bool inputs_untouched(const rg_function_context *ctx, const uint32_t version[]) {
    for (int i = 0; i < ctx->attr->n_user; i++)
        RG_FAIL_IF(ctx->wanted >> i & 1 && ctx->in[i]->storage->version != version[i],
                   ctx->row->op.name,
                   "forward wrote to input %d in place, whose gradient is asked for: write to a "
                   "copy (rg_clone)",
                   i);
    return true;
}

/* If the class has a state, fills the state's tensor with zeros, and makes that tensor first if
 * there is none. Returns false if memory ran out. */
static bool begin_state(rg_function_context *ctx) {
    const size_t bytes = ctx->row->cls.state_bytes;
    if (bytes == 0)
        return true;
    if (!ctx->state)
        ctx->state = rgi_own(rgi_new(RG_INT64, 1, (int64_t[]){ (int64_t)(bytes + 7) / 8 }));
    if (!ctx->state)
        return false;
    rgi_fill_zero(ctx->state);
    return true;
}

static bool forward_unobserved(rg_function_context *ctx) {
    uint32_t version[RG_FUNCTION_INPUTS];
    for (int i = 0; i < ctx->attr->n_user; i++)
        version[i] = rgi_is_none(ctx->in[i]) ? 0 : ctx->in[i]->storage->version;
    rg_observer *observer = rgi_set_observer(NULL);
    bool ok = begin_state(ctx) && run_class_forward(ctx) && inputs_untouched(ctx, version);
    rgi_set_observer(observer);
    return ok;
}

/* Makes the context of a call with the inputs in[], and calls forward, which stores its outputs in
 * made[]. Afterwards c->in has all tensors that the node may save, and c->out the outputs of the
 * op. Returns false on failure. */
static bool apply_forward(rg_function_context *ctx, const void *args, rg_call *c, rg_tensor *in[],
                          rg_tensor *made[]) {
    const rg_function_class *cls = &ctx->row->cls;
    ctx->attr = rgi_scope_alloc(sizeof *ctx->attr + cls->args_bytes);
    if (!ctx->attr)
        return false;
    *ctx->attr = (rg_function_attr){ .n_user = (uint8_t)c->n_in, .autocast = rgi_autocast_now() };
    if (cls->args_bytes)
        memcpy(ctx->attr->args, args, cls->args_bytes);
    ctx->in = in;
    ctx->out = made;
    for (int i = 0; i < c->n_in && !rgi_grad_off; i++)
        ctx->wanted |= in[i]->history ? RG_IN(i) : 0;
    ctx->attr->wanted = ctx->wanted;
    if (!forward_unobserved(ctx))
        return false;
    int n = place_saved(ctx, in, c->n_in);
    if (n < 0)
        return false;
    RG_FAIL_VALUE_IF(ctx->state && n == RG_INPUTS, cls->name,
                     "its inputs, intermediate results and state are up to %d together, but got %d",
                     RG_INPUTS, n + 1);
    if (ctx->state) {
        ctx->attr->needs |= RG_IN(n);
        in[n++] = ctx->state;
    }
    c->n_in = n;
    c->attr = ctx->attr;
    for (int k = 0; k < c->n_out; k++) {
        c->out[k] = output_of(made[k], in, ctx->attr->n_user);
        if (!c->out[k])
            return false;
    }
    return true;
}

/* ---- applying the op ---------------------------------------------------------------- */

/* Records the call if an input requires grad and an output is differentiable. Then removes the
 * history of the outputs that were marked as not differentiable. Returns false on failure. */
static bool record_application(const rg_function_context *ctx, const rg_call *c, size_t attr_size) {
    const rg_op *op = c->op;
    rg_graph_observer *o = rgi_graph_observer();
    if (o && o->computed && !o->computed(o, c, attr_size, false))
        return false;
    if (!ctx->wanted)
        return !rgi_is_observed(RG_SEES_CALLS) || rgi_applied(c, NULL);
    bool any = false;
    for (int k = 0; k < c->n_out; k++)
        any = any || (rgi_is_float(c->out[k]->dtype) && !(ctx->attr->apart >> k & 1));
    if (!any)
        return true;
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, op->no_grad, op->name, "%s", op->no_grad);
    const uint32_t needs = ctx->attr->needs;
    if (rgi_is_observed(RG_SEES_RECORDING) && !rgi_may_save(c, needs))
        return false;
    if (!rgi_record_needing(c, attr_size, needs))
        return false;
    for (int k = 0; k < c->n_out; k++)
        if (ctx->attr->apart >> k & 1)
            rgi_forget_history(c->out[k]);
    return true;
}

static bool class_takes_inputs(const rg_function_class *cls, const void *args, rg_list inputs) {
    const char *op = cls->name;
    RG_FAIL_VALUE_IF(inputs.n > RG_FUNCTION_INPUTS, op, "takes up to %d inputs, but got %d",
                     RG_FUNCTION_INPUTS, inputs.n);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, cls->args_bytes && !args, op, "expected args but got NULL");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, args && !cls->args_bytes, op,
                  "got args, but its class has no args_bytes, which says how many bytes to copy");
    for (int i = 0; i < inputs.n; i++)
        if (!rgi_is_none(inputs.v[i])
            && (!rgi_check(inputs.v[i], op) || !rgi_renew(inputs.v[i], op)))
            return false;
    return true;
}

static bool apply_in_scope(const rg_function_row *row, const void *args, rg_list inputs,
                           rg_tensor *out[]) {
    RG_SCOPE();
    rg_tensor *in[RG_INPUTS] = { NULL }, *made[RG_MAX_OUTPUTS] = { NULL };
    for (int i = 0; i < inputs.n; i++)
        in[i] = inputs.v[i];
    rg_function_context ctx = { .row = row };
    rg_call c = { .op = &row->op, .n_in = inputs.n, .n_out = row->op.n_out, .in = in };
    rg_span span;
    const bool spanned = rgi_is_observed(RG_SEES_SPANS);
    if (spanned)
        rgi_begin_span(&span);
    bool ok = apply_forward(&ctx, args, &c, in, made)
              && record_application(&ctx, &c, sizeof *ctx.attr + row->cls.args_bytes);
    if (spanned && ok)
        rgi_end_call(&span, &c);
    for (int k = 0; k < c.n_out && ok; k++)
        out[k] = rg_escape(c.out[k]);
    return ok;
}

bool rg_function_apply_many(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_tensor *out[]) {
    const rg_function_row *row = row_of_class(cls);
    if (!row || !rgi_given_list(inputs.n, inputs.v, cls->name)
        || !rgi_given(out, cls->name, "room for the outputs"))
        return false;
    const char *outer = rgi_applying;
    rgi_applying = cls->name;
    bool ok = class_takes_inputs(&row->cls, args, inputs) && apply_in_scope(row, args, inputs, out);
    rgi_applying = outer;
    for (int k = 0; k < row->op.n_out && !ok; k++)
        out[k] = NULL;
    return ok;
}

rg_tensor *rg_function_apply_list(rg_function_class *cls, const void *args, rg_list inputs) {
    rg_tensor *out[RG_MAX_OUTPUTS];
    return rg_function_apply_many(cls, args, inputs, out) ? out[0] : NULL;
}

/* ---- forward in a repetition of a recorded step ------------------------------------- */

static bool same_saved(const rg_function_context *ctx, const rg_call *c,
                       const rg_function_attr *was) {
    if (ctx->attr->n_saved != was->n_saved)
        return rgi_took_another_way(c->op);
    for (int j = 0; j < was->n_saved; j++) {
        int slot = was->slot[j];
        bool apart = slot >= was->n_user && slot < RG_INPUTS;
        if (apart && rgi_is_none(ctx->saved[j]))
            return rgi_took_another_way(c->op);
        if (apart && !rgi_function_same(c->op, c->in[slot], ctx->saved[j]))
            return false;
    }
    return true;
}

/* Calls the class's forward again when a recorded step is repeated. Fails if forward saves another
 * number of values than when it was recorded, or if the shape or dtype of a value has changed. The
 * new values of the outputs and of saved intermediate results are copied to the tensors of the
 * recording, and the state stays the same tensor. */
static bool function_again(rg_call *c) {
    RG_SCOPE();
    const rg_function_attr *was = c->attr;
    const rg_function_row *row = (const rg_function_row *)c->op;
    const size_t bytes = sizeof *was + row->cls.args_bytes;
    rg_tensor *made[RG_MAX_OUTPUTS] = { NULL };
    rg_function_context ctx = { .row = row, .in = c->in, .out = made, .wanted = was->wanted };
    ctx.attr = rgi_scope_alloc(bytes);
    if (!ctx.attr)
        return false;
    memcpy(ctx.attr, was, bytes);
    ctx.attr->n_saved = 0;
    ctx.attr->has_saved = false;
    if (row->cls.state_bytes)
        ctx.state = c->in[c->n_in - 1];
    bool ok = forward_unobserved(&ctx) && same_saved(&ctx, c, was);
    for (int k = 0; k < c->n_out && ok; k++)
        ok = rgi_function_same(c->op, c->out[k], made[k]);
    return ok;
}

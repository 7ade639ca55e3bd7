/*
 * record.c: applying an op: check and convert the inputs, find the shape, run
 * the forward, and, where a gradient may be wanted, record a node.
 */
#include "op.h"

#include <stdio.h>

const rg_op *const rgi_ops[] = {
#define OP(name) &rg_op_##name,
#include "ops.def"
#undef OP
};
const int rgi_n_ops = RG_COUNT(rgi_ops);

atomic_int rgi_watching;

static __thread struct {
    bool grad_off;
    uint64_t clock;
    rg_node *pending;
    bool draining;
} recorder __attribute__((tls_model("initial-exec")));

/* ---- grad mode ------------------------------------------------------------------ */

bool rg_is_grad_enabled(void) { return !recorder.grad_off; }

bool rg_set_grad_enabled(bool on) {
    bool before = !recorder.grad_off;
    recorder.grad_off = !on;
    return before;
}

rg_grad_guard rg_grad_guard_open(bool on) { return (rg_grad_guard){ rg_set_grad_enabled(on) }; }
void rg_grad_guard_close(rg_grad_guard *guard) { rg_set_grad_enabled(guard->before); }

/* ---- nodes ------------------------------------------------------------------------ */

/* References count in the low half; those that headers hold also in the high half. */
static const int64_t HEADER_REF = ((int64_t)1 << 32) + 1;
static inline void node_let_go(rg_node *n, int64_t what);

static const char *node_history_name(const rg_history *h) {
    const rg_node *n = (const rg_node *)h;
    return n->op ? rgi_node_name(n) : NULL;
}

static __attribute__((noinline)) void node_forget_grad(rg_node *n) {
    rg_tensor *grad = n->grad;
    n->grad = NULL;
    for (rg_hook *k = n->hooks; k; k = k->next) {
        rgi_release(k->grad);
        k->grad = NULL;
    }
    rgi_release(grad);
}

/* A header lets go. With the last one goes the gradient that only a header can ask
 * for; the graph of that gradient may lead back here, and would never be released. */
static void node_history_release(rg_history *h) {
    rg_node *n = (rg_node *)h;
    if (RG_UNLIKELY(n->grad || n->hooks)
        && atomic_load_explicit(&n->refs, memory_order_relaxed) >> 32 == 1)
        node_forget_grad(n);
    node_let_go(n, HEADER_REF);
}

static const rg_history_class node_class = { node_history_name, node_history_release };

const char *rgi_node_name(const rg_node *n) {
    const char *name = n->op && n->op->node_of ? n->op->node_of(n->attr) : NULL;
    return name ? name : n->op ? n->op->node : "AccumulateGrad";
}

rg_node *rgi_node_of(const rg_tensor *t) { return (rg_node *)t->history; }

void rgi_node_retain(rg_node *n) { RG_COUNT_UP(&n->refs, 1); }

void rgi_node_attach(rg_tensor *t, rg_node *n, uint32_t output) {
    RG_COUNT_UP(&n->refs, HEADER_REF);
    t->history = &n->base;
    t->output = (uint8_t)output;
}

bool rgi_node_has_headers(const rg_node *n) { return n->refs >> 32; }

/* One block: the node, edges, metas, attributes, where saved tensors are (room for n_saved), their
 * versions, and n_values headers of theirs, from *values on. ndim: of the last output. Only what is
 * not set by whoever makes it is cleared. */
static inline __attribute__((always_inline)) rg_node *node_new(const rg_op *op, int n_in, int n_out,
                                                               int ndim, size_t attr_size,
                                                               int n_saved, int n_values,
                                                               rg_tensor **headers) {
    size_t edges = sizeof(rg_node), metas = edges + (size_t)n_in * sizeof(rg_edge);
    /* no more of it than is used */
    size_t last = offsetof(rg_meta, size) + (size_t)ndim * sizeof(int64_t);
    size_t attrs = metas + (size_t)(n_out - 1) * sizeof(rg_meta) + last;
    size_t saved = attrs + (attr_size + 7) / 8 * 8;
    size_t values = saved + (size_t)n_saved * sizeof(rg_tensor *)
                    + (size_t)(n_saved + 1) / 2 * 2 * sizeof(uint32_t);
    size_t bytes = values + (size_t)n_values * sizeof(rg_tensor);
    rg_node *n = rgi_alloc_fast(bytes, RG_MEM_NODE);
    if (!n)
        return NULL;
    n->base = (rg_history){ &node_class, NULL };
    n->op = op;
    n->n_in = (uint16_t)n_in;
    n->n_out = (uint16_t)n_out;
    n->n_saved = (uint16_t)n_saved;
    n->freed = n->held = false;
    n->attr_size = (uint32_t)attr_size;
    n->wanted = 0;
    n->bytes = bytes;
    n->grad = NULL;
    n->cleared = 0;
    n->hooks = NULL;
    n->trace = NULL;
    atomic_store_explicit(&n->run, 0, memory_order_relaxed);
    n->edge = (rg_edge *)((char *)n + edges);
    n->meta = (rg_meta *)((char *)n + metas);
    n->attr = (char *)n + attrs;
    n->saved = (rg_tensor **)((char *)n + saved);
    n->version = (uint32_t *)(n->saved + n_saved);
    for (int i = 0; i < n_saved; i++)
        n->saved[i] = NULL;
    *headers = (rg_tensor *)((char *)n + values);
    return n;
}

static void set_meta(rg_meta *m, const rg_tensor *t) {
    m->dtype = t->dtype;
    m->ndim = t->ndim;
    for (int d = 0; d < t->ndim; d++)
        m->size[d] = t->size[d];
}

void rgi_node_free_saved(rg_node *n) {
    for (rg_tensor **s = n->saved, **end = s + n->n_saved; s < end; s++)
        if (*s) {
            rgi_storage_release((*s)->storage);
            *s = NULL;
            n->freed = true;
        }
}

static void node_destroy(rg_node *n) {
    if (!n->freed)
        rgi_node_free_saved(n);
    for (int i = 0; i < n->n_in; i++)
        if (n->edge[i].node)
            rgi_node_release(n->edge[i].node);
    while (n->hooks) {
        rg_hook *h = n->hooks;
        n->hooks = h->next;
        rgi_release(h->grad);
        rgi_free(h, sizeof *h, RG_MEM_NODE);
    }
    rgi_release(n->grad);
    if (n->base.name)
        rgi_rename(&n->base.name, NULL);
    if (n->trace)
        rgi_trace_free(n->trace);
    rgi_free_fast(n, n->bytes, RG_MEM_NODE);
}

/* A long history is released in a loop: what a release would release joins a list. */
static __attribute__((noinline)) void node_gone(rg_node *n) {
    n->pending = recorder.pending;
    recorder.pending = n;
    if (recorder.draining)
        return;
    recorder.draining = true;
    while ((n = recorder.pending)) {
        recorder.pending = n->pending;
        node_destroy(n);
    }
    recorder.draining = false;
}

static inline void node_let_go(rg_node *n, int64_t what) {
    if (RG_COUNT_DOWN(&n->refs, what))
        node_gone(n);
}

void rgi_node_release(rg_node *n) { node_let_go(n, 1); }

/* ---- shapes that many ops share -------------------------------------------------- */

bool rgi_shape_same(rg_call *c) {
    for (int k = 0; k < c->n_out; k++)
        rgi_copy_shape(c->out[k], c->in[0]);
    return true;
}

bool rgi_shape_broadcast(rg_call *c) {
    rg_tensor *y = c->out[0];
    rgi_copy_shape(y, c->in[0]);
    for (int i = 1; i < c->n_in; i++)
        if (!rgi_is_none(c->in[i]) && !rgi_same_shape(y, c->in[i])
            && !rgi_broadcast_shapes(c->op->name, y, c->in[i], y))
            return false;
    return true;
}

bool rgi_shape_broadcast_bool(rg_call *c) {
    c->out[0]->dtype = RG_BOOL;
    return rgi_shape_broadcast(c);
}

bool rgi_view_begin(rg_call *c) {
    rg_tensor *y = c->out[0], *x = c->in[0];
    RG_COUNT_UP(&x->storage->refs, 1);
    y->storage = x->storage;
    y->data = x->data;
    y->flags |= RG_VIEW;
    y->rebased = x->storage->rebased;
    y->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        y->size[i] = x->size[i];
        y->stride[i] = x->stride[i];
    }
    return true;
}

bool rgi_view_end(rg_call *c) {
    rgi_update_flags(c->out[0]);
    return true;
}

rg_tensor *rgi_rule_same(const rg_step *s, rg_tensor *g) {
    (void)s;
    return g;
}

/* ---- inputs ---------------------------------------------------------------------- */

static bool input_check(const rg_op *op, int i, rg_tensor *t) {
    if (t == RG_NONE && (op->optional >> i & 1))
        return true;
    if (!rgi_check(t, op->name))
        return false;
    if (RG_UNLIKELY(t->flags & RG_VIEW && t->rebased != t->storage->rebased)) {
        rgi_fail(RG_RUNTIME_ERROR, op->name,
                 "a view is used after its base was modified by %s with gradients recorded; "
                 "take the view again",
                 t->storage->mutation);
        return false;
    }
    return true;
}

/* The inputs in their common dtype. converted[i]: a reference to give back; typed:
 * room for n. */
static bool convert_inputs(const rg_op *op, int n, rg_tensor *in[], rg_tensor *converted[],
                           rg_tensor *typed[]) {
    int m = 0;
    bool differ = false;
    for (int i = 0; i < n; i++) {
        if ((op->typed && !(op->typed >> i & 1)) || rgi_is_none(in[i]))
            continue;
        typed[m++] = in[i];
        differ |= in[i]->dtype != typed[0]->dtype;
    }
    if (m == 0)
        return true;
    rg_dtype dtype = differ || typed[0]->flags & RG_WEAK ? rgi_promote(m, typed) : typed[0]->dtype;
    if (op->typing == RG_FLOATED && !rgi_is_float(dtype))
        dtype = rg_default_dtype();
    for (int i = 0; i < n; i++) {
        if ((op->typed && !(op->typed >> i & 1)) || rgi_is_none(in[i]) || in[i]->dtype == dtype)
            continue;
        if (in[i]->history && rg_is_grad_enabled()) {
            RG_AS(op->name);
            rg_tensor *to = rg_to(in[i], dtype);
            if (!to)
                return false;
            in[i] = to;
        } else {
            converted[i] = rgi_new_like(in[i], dtype);
            if (!converted[i])
                return false;
            if (in[i]->flags & RG_WEAK && in[i]->dtype == RG_FLOAT64)
                rgi_store_f64(converted[i]->data, dtype, *(double *)in[i]->data);
            else
                rgi_copy_elements(converted[i], in[i]);
            if (rgi_noting() && !(in[i]->flags & RG_WEAK))
                rgi_note_copy(converted[i], in[i]);
            in[i] = converted[i];
        }
    }
    return true;
}

/* ---- recording ------------------------------------------------------------------- */

/* The value alone, in the node's own block: its history would lead back to the node. */
static void save(rg_node *n, int slot, rg_tensor *value, rg_tensor *t) {
    if (!t->storage)
        return; /* RG_NONE's */
    rgi_alias_begin(value, t);
    /* in a rule it has its dtype's full precision */
    value->flags &= (uint8_t)~RG_WEAK;
    n->saved[slot] = value;
    n->version[slot] = t->storage->version;
}

static bool record(const rg_call *c, size_t attr_size) {
    const rg_op *op = c->op;
    uint32_t needs = 0;
    int n_values = 0;
    const rg_gradient *rule = op->grad;
    for (int i = 0; i < c->n_in; i++, rule += op->n_in != 0)
        if (c->in[i]->history)
            needs |= rule->needs;
    for (uint32_t left = needs; left; left &= left - 1)
        n_values++;
    rg_tensor *value;
    rg_node *n = node_new(op, c->n_in, c->n_out, c->out[c->n_out - 1]->ndim, attr_size,
                          needs ? c->n_in + c->n_out : 0, n_values, &value);
    if (!n)
        return false;
    if (attr_size)
        memcpy(n->attr, c->attr, attr_size);
    uint64_t order = recorder.clock;
    for (int i = 0; i < c->n_in; i++) {
        rg_node *from = rgi_node_of(c->in[i]);
        n->edge[i] = (rg_edge){ from, c->in[i]->output };
        if (!from)
            continue;
        rgi_node_retain(from);
        if (i < RG_INPUTS)
            n->wanted |= RG_IN(i);
        if (from->order > order)
            order = from->order;
    }
    n->order = recorder.clock = order + 1;
    for (int k = 0; k < c->n_out; k++)
        set_meta(&n->meta[k], c->out[k]);
    for (uint32_t left = needs; left; left &= left - 1) {
        int i = __builtin_ctz(left), k = i - RG_INPUTS;
        if (k >= 0)
            save(n, c->n_in + k, value++, c->out[k]);
        else if (i < c->n_in)
            save(n, i, value++, c->in[i]);
    }
    int64_t refs = 0; /* the headers' alone */
    for (int k = 0; k < c->n_out; k++) {
        if (!rgi_is_float(c->out[k]->dtype))
            continue;
        c->out[k]->history = &n->base;
        c->out[k]->output = (uint8_t)k;
        refs += HEADER_REF;
    }
    atomic_store_explicit(&n->refs, refs, memory_order_relaxed);
    return RG_LIKELY(!rgi_watching) || rgi_watch_forward(c, n);
}

/* ---- applying -------------------------------------------------------------------- */

/* Has it a kernel for what is_alike: contiguous, and of in[0]'s dtype and shape, or one number for
 * all of it? */
static inline bool by_kernel(const rg_op *op) {
    return op->kernel && (op->shape == rgi_shape_broadcast || op->shape == rgi_shape_same);
}
static inline bool is_alike(const rg_tensor *t, rg_tensor *const in[], int i) {
    return t->flags & RG_CONTIGUOUS && t->dtype == in[0]->dtype
           && (i == 0 || t->ndim == 0 || rgi_same_shape(t, in[0]));
}

/* Makes c->out from c->in; alike: all of them, for its kernel; `over`: write into this instead of a
 * new out[0]. */
static inline __attribute__((always_inline)) bool compute(rg_call *c, rg_tensor *over, bool alike) {
    const rg_op *op = c->op;
    if (alike && !rgi_this.recording && (!over || (op->inplace && over == c->in[0]))) {
        if (over)
            rgi_retain(c->out[0] = over);
        else if (!(c->out[0] = rgi_new_beside(c->in[0])))
            return false;
        rgi_run_alike(c);
        return true;
    }
    for (int k = 0; k < c->n_out; k++) {
        if (!(c->out[k] = rgi_header_new()))
            return false;
        c->out[k]->dtype = c->n_in ? c->in[0]->dtype : RG_FLOAT32;
    }
    if (op->view)
        return op->view(c);
    if (!op->shape(c))
        return false;
    if (over && op->inplace && c->out[0]->dtype == over->dtype && rgi_same_shape(c->out[0], over)) {
        rgi_release(c->out[0]);
        rgi_retain(over);
        c->out[0] = over;
    }
    for (int k = 0; k < c->n_out; k++)
        if (c->out[k] != over && !rgi_allocate(c->out[k]))
            return false;
    if (op->kernel)
        return k_run_with(op->kernel, c->out[0], c->in, NULL), true;
    /* what a forward applies is done again with it */
    rgi_this.inside++;
    bool ok = op->forward(c);
    rgi_this.inside--;
    return ok;
}

static inline __attribute__((always_inline)) bool finish(rg_call *c, size_t attr_size,
                                                         bool wants_grad, rg_tensor *over,
                                                         bool alike) {
    bool any_float = false;
    if (!compute(c, wants_grad ? NULL : over, alike))
        return false;
    if (rgi_noting() && !rgi_note_call(c, attr_size, alike))
        return false;
    if (!wants_grad)
        return RG_LIKELY(!rgi_watching) || rgi_watch_forward(c, NULL);
    for (int k = 0; k < c->n_out; k++)
        any_float |= rgi_is_float(c->out[k]->dtype);
    return !any_float || record(c, attr_size);
}

/* With inputs that want a closer look: numbers, what is absent, what must be converted. */
static __attribute__((noinline)) bool apply_prepared(rg_call *c, size_t attr_size, rg_tensor *over,
                                                     const rg_timing *timing) {
    int n = c->n_in;
    rg_tensor *few[3 * RG_MAX_RULES], **in = few, **converted;
    bool wants_grad = false, ok = true, alike = by_kernel(c->op);
    if (RG_UNLIKELY(n > RG_MAX_RULES)) {
        if (n > RG_MAX_INPUTS)
            return rgi_fail(RG_RUNTIME_ERROR, c->op->name, "at most %d tensors, but got %d",
                            RG_MAX_INPUTS, n);
        in = rgi_alloc(3 * (size_t)n * sizeof *in, RG_MEM_OTHER);
        if (!in)
            return false;
    }
    converted = in + n;
    for (int i = 0; i < n; i++) {
        in[i] = c->in[i];
        converted[i] = NULL;
        ok = ok && input_check(c->op, i, in[i]);
        if (ok && in[i]->history)
            wants_grad = true;
    }
    c->in = in;
    ok = ok
         && (c->op->typing == RG_AS_GIVEN || convert_inputs(c->op, n, in, converted, in + 2 * n));
    for (int i = 0; i < n && ok; i++)
        alike = alike && is_alike(in[i], in, i);
    ok = ok && finish(c, attr_size, wants_grad && rg_is_grad_enabled(), over, alike);
    if (ok && timing)
        rgi_timing_of_call(timing, c); /* while its inputs are there */
    for (int i = 0; i < n; i++)
        if (converted[i])
            rgi_release(converted[i]);
    if (in != few)
        rgi_free(in, 3 * (size_t)n * sizeof *in, RG_MEM_OTHER);
    return ok;
}

static inline __attribute__((always_inline)) bool apply(rg_call *c, size_t attr_size,
                                                        rg_tensor *over) {
    const rg_op *op = c->op;
    rg_tensor *const *in = c->in;
    int n = c->n_in;
    bool plain = n <= RG_MAX_RULES, wants_grad = false, alike = by_kernel(op);
    for (int i = 0; i < n && plain; i++) {
        const rg_tensor *t = in[i];
        plain = t && t->state == RG_ALIVE && t->storage /* which RG_NONE hasn't */
                && (RG_LIKELY(!(t->flags & (RG_WEAK | RG_VIEW)))
                    || (!(t->flags & RG_WEAK) && t->rebased == t->storage->rebased))
                && (op->typing == RG_AS_GIVEN || t->dtype == in[0]->dtype);
        if (!plain)
            break;
        wants_grad |= t->history != NULL;
        alike = alike && is_alike(t, in, i);
    }
    if (op->typing == RG_FLOATED && plain)
        plain = rgi_is_float(in[0]->dtype);
    const char *outer = rgi_applying;
    rgi_applying = op->name;
    rg_timing timing;
    bool timed = RG_UNLIKELY(rgi_watching & RG_WATCH_COST);
    if (timed)
        rgi_timing_begin(&timing);
    bool ok = RG_LIKELY(plain)
                  ? finish(c, attr_size, wants_grad && rg_is_grad_enabled(), over, alike)
                  : apply_prepared(c, attr_size, over, timed ? &timing : NULL);
    rgi_applying = outer;
    if (timed && ok && plain)
        rgi_timing_of_call(&timing, c);
    for (int k = 0; RG_UNLIKELY(!ok) && k < c->n_out; k++)
        rgi_release(c->out[k]);
    return ok;
}

#define CALL(op_, attr_, n, in_) \
    { .op = op_, .attr = attr_, .n_in = n, .n_out = op_->n_out ? op_->n_out : 1, .in = in_ }

rg_tensor *rgi_apply(const rg_op *op, const void *attr, size_t attr_size, int n,
                     rg_tensor *const in[]) {
    rg_call c = CALL(op, attr, n, in);
    return apply(&c, attr_size, NULL) ? rgi_own(c.out[0]) : NULL;
}

bool rgi_apply_outputs(const rg_op *op, const void *attr, size_t attr_size, int n,
                       rg_tensor *const in[], rg_tensor *out[]) {
    rg_call c = CALL(op, attr, n, in);
    bool applied = apply(&c, attr_size, NULL), ok = applied;
    for (int k = 0; k < c.n_out; k++)
        ok &= (out[k] = applied ? rgi_own(c.out[k]) : NULL) != NULL;
    for (int k = 0; k < c.n_out && !ok; k++)
        out[k] = NULL;
    return ok;
}

/* ---- in place -------------------------------------------------------------------- */

static bool guard_write(rg_tensor *t, const char *op, bool recorded) {
    rg_node *n = rgi_node_of(t);
    if (!n || !rg_is_grad_enabled())
        return true;
    bool view = t->flags & RG_VIEW, of_leaf = n->n_in && n->edge[0].node && !n->edge[0].node->op;
    RG_FAIL_IF(!n->op || (view && of_leaf), op,
               "a %sleaf Variable that requires grad is being used in an in-place "
               "operation.",
               n->op ? "view of a " : "");
    RG_FAIL_IF(view, op,
               "Output %d of %s is a view and is being modified inplace. Write to its base with "
               "rg_set_item instead.",
               t->output, rgi_node_name(n));
    return recorded
           || rgi_fail(RG_RUNTIME_ERROR, op,
                       "a result of %s would be overwritten, which is not recorded. "
                       "Use rg_detach or RG_NO_GRAD.",
                       rgi_node_name(n));
}

__attribute__((constructor)) static void install_write_guard(void) {
    rgi_write_guard = guard_write;
}

/* Does writing to t spoil what the op still has to read? Not if they are one and
 * the same, element by element, or have no storage in common. */
static bool collides(const rg_tensor *t, int n, rg_tensor *const in[]) {
    for (int i = 1; i < n; i++) {
        const rg_tensor *x = in[i];
        if (!x || x == RG_NONE || x->storage != t->storage)
            continue;
        if (x->data != t->data || !rgi_same_shape(x, t)
            || memcmp(x->stride, t->stride, t->ndim * sizeof x->stride[0]))
            return true;
    }
    return false;
}

/* Does a rule want to read the value that is written over? */
static bool reads_overwritten(const rg_op *op, int n, rg_tensor *const in[]) {
    for (int i = 0; i < n && i < RG_MAX_RULES && rg_is_grad_enabled(); i++)
        if (in[i] && in[i] != RG_NONE && in[i]->history && rgi_gradient_of(op, i)->needs & RG_IN(0))
            return true;
    return false;
}

/* A copy of t in t's place in the graph. */
static rg_tensor *copy_with_history(rg_tensor *t) {
    rg_tensor *copy = rgi_new_like(t, t->dtype);
    if (!copy)
        return NULL;
    rgi_copy_elements(copy, t);
    if (rgi_noting())
        rgi_note_copy(copy, t);
    if (t->history)
        rgi_node_attach(copy, rgi_node_of(t), t->output);
    return rgi_own(copy);
}

/* y's values, and its place in the graph, become t's. */
static bool take_over(const char *name, rg_tensor *t, rg_tensor *y) {
    bool to_bool = t->dtype == RG_BOOL && y->dtype != RG_BOOL;
    RG_FAIL_IF(!rgi_same_shape(y, t), name,
               "output with shape %s doesn't match the broadcast shape %s", RG_SHAPE_TEXT(t),
               RG_SHAPE_TEXT(y));
    RG_FAIL_IF(to_bool || (rgi_is_float(y->dtype) && !rgi_is_float(t->dtype)), name,
               "result type %s can't be cast to "
               "the desired output type %s",
               rgi_scalar_name(y->dtype), rgi_scalar_name(t->dtype));
    RG_FAIL_IF(y->history && t->flags & RG_VIEW, name,
               "the view of a tensor is written to with a value that "
               "requires grad. Write to its base with rg_set_item instead.");
    if (y->history)
        y = rgi_to_as(rgi_node_name(rgi_node_of(y)), y, t->dtype);
    if (!y)
        return false;
    rgi_copy_elements(t, y);
    if (rgi_noting())
        rgi_note_copy(t, y);
    if (!y->history)
        return true;
    rg_history *before = t->history;
    rgi_node_attach(t, rgi_node_of(y), y->output);
    t->rebased = ++t->storage->rebased;
    if (before)
        before->cls->release(before);
    return true;
}

rg_tensor *rgi_apply_inplace(const char *name, const rg_op *op, const void *attr, size_t attr_size,
                             int n, rg_tensor *const in[]) {
    rg_tensor *t = in[0], *apart[RG_MAX_RULES];
    if (!rgi_may_write(t, name, true))
        return NULL;
    if (RG_UNLIKELY(rgi_is_constant(t)) && !rgi_not_again(name))
        return NULL;
    bool direct = op->inplace && !collides(t, n, in);
    RG_SCOPE();
    if (reads_overwritten(op, n, in)) {
        for (int i = 1; i < n; i++)
            apart[i] = in[i];
        if (!(apart[0] = copy_with_history(t)))
            return NULL;
        in = apart;
    }
    rg_call c = CALL(op, attr, n, in);
    if (!apply(&c, attr_size, direct ? t : NULL))
        return NULL;
    if (c.out[0] == t)
        rgi_release(t);
    else if (!rgi_own(c.out[0]) || !take_over(name, t, c.out[0]))
        return NULL;
    rgi_count_write(t, name);
    return t;
}

/* ---- leaves, detaching ----------------------------------------------------------- */

static rg_tensor *forget_history(rg_tensor *t) {
    rg_history *before = t->history;
    t->history = NULL;
    if (before)
        before->cls->release(before);
    return t;
}

rg_tensor *rg_requires_grad_(rg_tensor *t, bool on) {
    if (!rgi_check(t, "requires_grad_"))
        return NULL;
    rg_node *n = rgi_node_of(t);
    rg_tensor *none;
    if (on && n)
        return t;
    RG_FAIL_IF(
        n && n->op, "requires_grad_",
        "you can only change requires_grad flags of leaf variables. If you want "
        "to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = "
        "var.detach().");
    if (!on)
        return forget_history(t);
    RG_FAIL_IF(!rgi_is_float(t->dtype), "requires_grad_",
               "only Tensors of floating point dtype can require "
               "gradients");
    if (!(n = node_new(NULL, 0, 1, t->ndim, 0, 0, 0, &none)))
        return NULL;
    n->order = 0;
    set_meta(&n->meta[0], t);
    atomic_store_explicit(&n->refs, 1, memory_order_relaxed);
    if (!t->name || rgi_rename(&n->base.name, t->name))
        rgi_node_attach(t, n, 0);
    rgi_node_release(n);
    if (!t->history)
        return NULL;
    t->flags &= (uint8_t)~RG_WEAK;
    return t;
}

bool rg_requires_grad(rg_tensor *t) { return rgi_check(t, "requires_grad") && t->history; }
bool rg_is_leaf(rg_tensor *t) {
    return rgi_check(t, "is_leaf") && !(t->history && rgi_node_of(t)->op);
}

const char *rg_grad_fn(rg_tensor *t) {
    if (!rgi_check(t, "grad_fn"))
        return NULL;
    return rg_is_leaf(t) ? "" : rgi_node_name(rgi_node_of(t));
}

rg_tensor *rg_detach(rg_tensor *t) { return rgi_check(t, "detach") ? rgi_own(rgi_alias(t)) : NULL; }

rg_tensor *rg_detach_(rg_tensor *t) {
    if (!rgi_check(t, "detach_"))
        return NULL;
    RG_FAIL_IF(t->history && t->flags & RG_VIEW, "detach_",
               "Can't detach views in-place. Use detach() instead.");
    return forget_history(t);
}

/* A leaf keeps its identity, and takes over data of its shape. */
bool rg_set_data(rg_tensor *t, rg_tensor *data) {
    if (!rgi_not_again("set_data") || !rgi_check(t, "set_data") || !rgi_check(data, "set_data"))
        return false;
    rg_node *n = rgi_node_of(t);
    RG_FAIL_IF((n && n->op) || t->flags & RG_VIEW || !rgi_same_shape(t, data)
                   || (n && !rgi_is_float(data->dtype)),
               "set_data", "expects a leaf that is no view, and data of its shape and kind");
    rg_tensor *alias = rgi_alias(data);
    if (!alias)
        return false;
    rg_storage *before = t->storage;
    t->storage = alias->storage;
    alias->storage = before; /* goes with the alias */
    t->data = data->data;
    t->dtype = data->dtype;
    memcpy(t->stride, data->stride, sizeof t->stride);
    rgi_update_flags(t);
    if (n && n->meta[0].dtype != data->dtype) {
        n->meta[0].dtype = data->dtype;
        rgi_release(n->grad);
        n->grad = NULL;
    }
    rgi_release(alias);
    return true;
}

/* ---- in a rule ------------------------------------------------------------------- */

rg_tensor *rgi_join(rg_tensor *value, rg_node *n, uint32_t output) {
    rg_tensor *t = rgi_alias(value);
    if (!t)
        return NULL;
    rgi_node_attach(t, n, output);
    return rgi_own(t);
}

/* Why a saved value isn't there, or not to be used. */
static __attribute__((noinline)) rg_tensor *saved_unusable(const rg_step *s, int slot,
                                                           rg_node *from, const rg_tensor *t) {
    rg_node *n = s->node;
    if (!t && !n->freed && slot < n->n_in)
        return RG_NONE;
    RG_FAIL_IF(
        !t, s->op->name,
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed when you call "
        "rg_backward or rg_grad. Specify .retain_graph = true if you need to backward through the graph a "
        "second time.");
    return rgi_fail(
        RG_RUNTIME_ERROR, s->op->name,
        "one of the variables needed for gradient computation has been "
        "modified by an inplace operation: [torch.%sTensor %s]%s%s, which is %s %d of %s, is at version %u; "
        "expected version %u instead. The last write was by %s.",
        rgi_scalar_name(t->dtype), RG_SHAPE_TEXT(t), from && from->base.name ? " named " : "",
        from && from->base.name ? from->base.name : "", slot < n->n_in ? "input" : "output",
        slot < n->n_in ? slot : slot - n->n_in, rgi_node_name(n), t->storage->version,
        n->version[slot], t->storage->mutation);
}

static inline rg_tensor *saved_at(const rg_step *s, int slot, rg_node *from, uint32_t output) {
    rg_node *n = s->node;
    rg_tensor *t = slot < n->n_saved ? n->saved[slot] : NULL;
    if (RG_UNLIKELY(!t || (!rgi_this.again && t->storage->version != n->version[slot])))
        return saved_unusable(s, slot, from, t);
    if (RG_UNLIKELY(s->create_graph) && from && rgi_is_float(t->dtype))
        return rgi_join(t, from, output);
    /* a rule may return it, and the node's own doesn't last */
    return rgi_in_rule ? rgi_own(rgi_alias(t)) : t;
}

rg_tensor *rgi_saved(const rg_step *s, int input) {
    return saved_at(s, input, s->node->edge[input].node, s->node->edge[input].output);
}

rg_tensor *rgi_saved_output_at(const rg_step *s, int output) {
    return saved_at(s, s->n_in + output, s->node, (uint32_t)output);
}

rg_tensor *rgi_saved_output(const rg_step *s) { return rgi_saved_output_at(s, 0); }

rg_dims rgi_meta_dims(const rg_meta *m) {
    rg_dims d = { .n = m->ndim };
    for (int i = 0; i < m->ndim; i++)
        d.v[i] = m->size[i];
    return d;
}

rg_tensor *rgi_step_g(const rg_step *s, int output) {
    if (s->g[output])
        return s->g[output];
    const rg_meta *m = &s->node->meta[output];
    rg_tensor *zero = rgi_own(rgi_new(m->dtype, m->ndim, m->size));
    if (zero)
        rgi_fill_zero(zero);
    return zero;
}

/*
 * node.c: makes the nodes of the graph, counts the references to them, and releases them. apply.c
 * applies ops, and engine.c goes back through the nodes.
 */
#include "graph_observer.h"
#include "node.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

/* `clock` is the field `order` of the thread's newest node. `pending` is a list of released nodes
 * that are to be destroyed. `draining` is set while the loop in node_gone destroys them. */
static __thread struct {
    uint64_t clock;
    rg_node *pending;
    bool draining;
} graph_thread __attribute__((tls_model("initial-exec")));

/* A tensor header's reference, as `refs` counts it: 1 in the low half, 1 in the high half. */
static const int64_t HEADER_REF = ((int64_t)1 << 32) + 1;

/* ---- a node as a tensor's history -------------------------------------------------- */

static inline void node_let_go(rg_node *n, int64_t refs);

static __attribute__((noinline)) void node_forget_grad(rg_node *n) {
    rg_tensor *grad = n->grad;
    n->grad = NULL;
    rgi_notes_lost_headers(n);
    rgi_release(grad);
}

/* Releases the reference that a tensor header holds. When the last header lets go of the node, the
 * node's gradient is released as well, since only a header gives access to it. If it were kept, a
 * gradient whose graph leads back to the node would keep the node alive, and neither would ever be
 * released. */
RG_HOT static void node_history_release(rg_history *h) {
    rg_node *n = (rg_node *)h;
    if (RG_UNLIKELY(n->grad || n->notes)
        && atomic_load_explicit(&n->refs, memory_order_relaxed) >> 32 == 1)
        node_forget_grad(n);
    node_let_go(n, HEADER_REF);
}

rg_history_class rgi_node_class = { .release = node_history_release };

const char *rgi_node_name(const rg_node *n) {
    if (!n->op)
        return "AccumulateGrad";
    const char *name = n->op->node_of ? n->op->node_of(n->attr) : NULL;
    return name ? name : n->op->node;
}

void rgi_node_attach(rg_tensor *t, rg_node *n, uint32_t output) {
    RG_COUNT_UP(&n->refs, HEADER_REF);
    t->history = &n->base;
    t->output = (uint8_t)output;
}

rg_tensor *rgi_forget_history(rg_tensor *t) {
    rg_history *before = t->history;
    t->history = NULL;
    if (before)
        before->cls->release(before);
    return t;
}

rg_tensor *rgi_join(rg_tensor *value, rg_node *n, uint32_t output) {
    rg_tensor *t = rgi_alias(value);
    if (!t)
        return NULL;
    rgi_node_attach(t, n, output);
    return rgi_own(t);
}

rg_dims rgi_meta_dims(const rg_meta *m) {
    rg_dims d = { .n = m->ndim };
    for (int i = 0; i < m->ndim; i++)
        d.v[i] = m->size[i];
    return d;
}

/* ---- making nodes ------------------------------------------------------------------ */

/* Returns a new node in one block of memory. The block has n_saved pointers to saved values, and
 * room for n_values headers; *headers is set to the first header. ndim is the number of dims of the
 * last output: the last meta has room for that many sizes and no more. The caller sets the other
 * fields. */
RG_INLINED rg_node *node_new(const rg_op *op, int n_in, int n_out, int ndim, size_t attr_size,
                             int n_saved, int n_values, rg_tensor **headers) {
    size_t edges = sizeof(rg_node);
    size_t metas = edges + (size_t)n_in * sizeof(rg_edge);
    size_t last = offsetof(rg_meta, size) + (size_t)ndim * sizeof(int64_t);
    size_t attrs = metas + (size_t)(n_out - 1) * sizeof(rg_meta) + last;
    size_t saved = attrs + (attr_size + 7) / 8 * 8;
    size_t versions = saved + (size_t)n_saved * sizeof(rg_tensor *);
    size_t values = versions + (size_t)(n_saved + 1) / 2 * 2 * sizeof(uint32_t);
    size_t bytes = values + (size_t)n_values * sizeof(rg_tensor);
    rg_node *n = rgi_alloc_fast(bytes, RG_MEM_NODE);
    if (!n)
        return NULL;
    n->base = (rg_history){ &rgi_node_class, NULL };
    n->op = op;
    n->n_in = (uint16_t)n_in;
    n->n_out = (uint16_t)n_out;
    n->n_saved = (uint16_t)n_saved;
    n->freed = false;
    n->held = false;
    n->attr_size = (uint32_t)attr_size;
    n->wanted = 0;
    n->bytes = bytes;
    n->grad = NULL;
    n->notes = NULL;
    atomic_store_explicit(&n->run, 0, memory_order_relaxed);
    n->edge = (rg_edge *)((char *)n + edges);
    n->meta = (rg_meta *)((char *)n + metas);
    n->attr = (char *)n + attrs;
    n->saved = (rg_tensor **)((char *)n + saved);
    n->version = (uint32_t *)((char *)n + versions);
    for (int i = 0; i < n_saved; i++) {
        n->saved[i] = NULL;
        RG_FEW();
    }
    *headers = (rg_tensor *)((char *)n + values);
    return n;
}

static void set_meta(rg_meta *m, const rg_tensor *t) {
    m->dtype = t->dtype;
    m->ndim = t->ndim;
    for (int d = 0; d < t->ndim; d++)
        m->size[d] = t->size[d];
}

/* Stores t's strides in leaf->attr, since a leaf has no attributes. Stores none if t is contiguous
 * or isn't dense, since t's gradient is then contiguous. */
void rgi_leaf_lie_as(rg_node *leaf, const rg_tensor *t) {
    const size_t bytes = t->ndim * sizeof t->stride[0];
    leaf->attr_size = t->flags & RG_CONTIGUOUS || !rgi_is_dense(t) ? 0 : (uint32_t)bytes;
    memcpy(leaf->attr, t->stride, leaf->attr_size);
}

rg_node *rgi_leaf_new(const rg_tensor *t) {
    rg_tensor *none;
    rg_node *n = node_new(NULL, 0, 1, t->ndim, t->ndim * sizeof t->stride[0], 0, 0, &none);
    if (!n)
        return NULL;
    rgi_leaf_lie_as(n, t);
    n->order = 0;
    n->frozen = false;
    n->given = false;
    set_meta(&n->meta[0], t);
    atomic_store_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

/* Sets the node's edges to the nodes of its inputs. Gives the node an order greater than theirs. */
static inline void join_inputs(rg_node *n, const rg_call *c) {
    uint64_t order = graph_thread.clock;
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
    graph_thread.clock = order + 1;
    n->order = order + 1;
}

/* Saves t's value in a header of the node's block. t's history isn't saved, since it may lead back
 * to the node. RG_NONE has no storage, and nothing is saved for it. Clears RG_WEAK, the flag of a
 * number, so that a rule sees the number as an ordinary tensor of its dtype. */
static inline void save(rg_node *n, int slot, rg_tensor *value, rg_tensor *t) {
    if (!t->storage)
        return;
    rgi_alias_begin(value, t);
    value->flags &= (uint8_t)~RG_WEAK;
    n->saved[slot] = value;
    n->version[slot] = t->storage->version;
}

static inline void save_values(rg_node *n, const rg_call *c, uint32_t needs, rg_tensor *value) {
    for (uint32_t left = needs; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        int output = i - RG_INPUTS;
        if (output >= 0)
            save(n, c->n_in + output, value++, c->out[output]);
        else if (i < c->n_in)
            save(n, i, value++, c->in[i]);
    }
}

/* Makes the node the history of its floating-point outputs. The outputs' headers hold the only
 * references to the node. */
static inline void join_outputs(rg_node *n, const rg_call *c) {
    int64_t refs = 0;
    for (int k = 0; k < c->n_out; k++) {
        if (!rgi_is_float(c->out[k]->dtype))
            continue;
        c->out[k]->history = &n->base;
        c->out[k]->output = (uint8_t)k;
        refs += HEADER_REF;
    }
    atomic_store_explicit(&n->refs, refs, memory_order_relaxed);
}

RG_INLINED bool record(const rg_call *c, size_t attr_size, uint32_t needs) {
    int n_values = 0;
    for (uint32_t left = needs; left; left &= left - 1)
        n_values++;
    int n_saved = needs ? c->n_in + c->n_out : 0;
    rg_tensor *value;
    rg_node *n = node_new(c->op, c->n_in, c->n_out, c->out[c->n_out - 1]->ndim, attr_size, n_saved,
                          n_values, &value);
    if (!n)
        return false;
    if (attr_size)
        memcpy(n->attr, c->attr, attr_size);
    join_inputs(n, c);
    for (int k = 0; k < c->n_out; k++)
        set_meta(&n->meta[k], c->out[k]);
    n->half = rgi_is_half(c->out[0]->dtype) && !c->op->view;
    save_values(n, c, needs, value);
    join_outputs(n, c);
    return !rgi_is_observed(RG_SEES_CALLS) || rgi_applied(c, n);
}

RG_HOT bool rgi_record(const rg_call *c, size_t attr_size) {
    return record(c, attr_size, rgi_needs_of(c));
}

bool rgi_record_needing(const rg_call *c, size_t attr_size, uint32_t needs) {
    return record(c, attr_size, needs);
}

void rgi_node_save_instead(rg_node *n, rg_tensor *t) {
    int slot = n->n_in;
    rg_tensor *value = n->n_saved ? n->saved[slot] : NULL;
    if (!value)
        return;
    rgi_storage_release(value->storage);
    save(n, slot, value, t);
}

/* ---- releasing nodes --------------------------------------------------------------- */

static inline void free_saved(rg_node *n) {
    rg_tensor **end = n->saved + n->n_saved;
    for (rg_tensor **s = n->saved; s < end; s++)
        if (*s) {
            rgi_storage_release((*s)->storage);
            *s = NULL;
            n->freed = true;
        }
    if (RG_UNLIKELY(n->notes != NULL))
        rgi_notes_freed_saved(n);
}

RG_HOT void rgi_node_free_saved(rg_node *n) { free_saved(n); }

/* Releases the contents of fields that only few nodes use. */
static __attribute__((noinline)) void free_rarities(rg_node *n) {
    rgi_release(n->grad);
    if (n->base.name)
        rgi_rename(&n->base.name, NULL);
    rgi_notes_free(n);
}

static inline void node_destroy(rg_node *n) {
    if (!n->freed)
        free_saved(n);
    for (int i = 0; i < n->n_in; i++)
        if (n->edge[i].node)
            rgi_node_release(n->edge[i].node);
    uintptr_t rarities = (uintptr_t)n->grad | (uintptr_t)n->base.name | (uintptr_t)n->notes;
    if (RG_UNLIKELY(rarities))
        free_rarities(n);
    rgi_free_fast(n, n->bytes, RG_MEM_NODE);
}

/* Destroys a node. If this releases further nodes, they are put into a list. So a long history is
 * released by a loop, without recursion. */
RG_HOT static __attribute__((noinline)) void node_gone(rg_node *n) {
    n->pending = graph_thread.pending;
    graph_thread.pending = n;
    if (graph_thread.draining)
        return;
    graph_thread.draining = true;
    while (graph_thread.pending) {
        n = graph_thread.pending;
        graph_thread.pending = n->pending;
        node_destroy(n);
    }
    graph_thread.draining = false;
}

static inline void node_let_go(rg_node *n, int64_t refs) {
    if (RG_COUNT_DOWN(&n->refs, refs))
        node_gone(n);
}

RG_HOT void rgi_node_release(rg_node *n) { node_let_go(n, 1); }

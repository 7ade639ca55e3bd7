/*
 * engine.c: a backward run. It collects the nodes that the roots lead to, walks
 * them from the newest to the oldest, and hands each its gradient; sums,
 * un-broadcasting and skipping happen here and nowhere else. What belongs to
 * leaves is kept aside until the end and then committed at once, so that a run
 * that fails leaves every .grad as it was.
 */
#include "op.h"

#include <pthread.h>

typedef struct {
    rg_node *leaf;
    rg_tensor *grad;
} leaf_slot;

/* for a node's first output; for the one that is asked for */
enum { LEADS = 1, ASKED = 2 };

enum { FEW = 24, FEW_LEAVES = 16 }; /* what a small run needs is on the C stack */

typedef struct {
    const char *op;
    bool create_graph, retain, capturing;
    rg_node **node; /* what the roots lead to, newest first; no leaves */
    size_t n, node_room;
    rg_tensor **grad; /* for each output of each node */
    size_t n_grads;
    uint8_t *needed; /* when only some inputs are asked for: see mark_needed */
    /* a few: one after the other; more: by address, a power of two of places */
    leaf_slot *leaves;
    size_t n_leaves, leaf_room;
    rg_node *few_nodes[FEW];
    rg_tensor *few_grads[FEW];
    leaf_slot few_leaves[FEW_LEAVES];
} run;

static void run_begin(run *r) {
    memset(r, 0, offsetof(run, few_nodes));
    r->node = r->few_nodes;
    r->leaves = r->few_leaves;
    r->node_room = FEW;
    r->leaf_room = FEW_LEAVES;
    r->few_leaves[0] = (leaf_slot){ NULL, NULL }; /* the end of those there are */
}

__thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));
static pthread_mutex_t commit_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- collecting ------------------------------------------------------------------- */

/* Takes a node into the run, unless it is there already; a leaf has no steps. */
static inline bool visit(run *r, rg_node *n) {
    uintptr_t id = (uintptr_t)r, owner = atomic_load_explicit(&n->run, memory_order_relaxed);
    if (!n->op || owner == id)
        return true;
    if (RG_UNLIKELY(r->n == r->node_room)) {
        rg_node **more = rgi_alloc(2 * r->n * sizeof *more, RG_MEM_OTHER);
        if (!more)
            return false;
        memcpy(more, r->node, r->n * sizeof *more);
        if (r->node != r->few_nodes)
            rgi_free(r->node, r->n * sizeof *more, RG_MEM_OTHER);
        r->node = more;
        r->node_room *= 2;
    }
    if (owner == 0 && RG_ALONE)
        atomic_store_explicit(&n->run, id, memory_order_relaxed);
    else if (owner != 0 || !atomic_compare_exchange_strong(&n->run, &owner, id))
        return rgi_fail(RG_RUNTIME_ERROR, "backward",
                        "the graph is being differentiated already, by another thread or by "
                        "the run that calls this hook");
    n->slot = r->n_grads;
    r->n_grads += n->n_out;
    r->node[r->n++] = n;
    return true;
}

static bool collect(run *r) {
    bool ok = true;
    for (size_t i = 0; i < r->n && ok; i++) {
        const rg_edge *e = r->node[i]->edge, *end = e + r->node[i]->n_in;
        for (; e < end && ok; e++)
            if (e->node)
                ok = visit(r, e->node);
    }
    return ok;
}

/* The oldest first: with a root may go what it leads to. */
static void let_go(run *r) {
    for (size_t i = r->n; i-- > 0;) {
        rg_node *n = r->node[i];
        bool held = n->held;
        n->held = false;
        atomic_store_explicit(&n->run, 0, memory_order_release);
        if (held)
            rgi_node_release(n);
    }
    if (r->node != r->few_nodes)
        rgi_free(r->node, r->node_room * sizeof *r->node, RG_MEM_OTHER);
}

/* Newest first, as a chain is collected; else by Shell's method, which needs no memory. */
static void sort_nodes(run *r) {
    size_t sorted = 1;
    while (sorted < r->n && r->node[sorted]->order < r->node[sorted - 1]->order)
        sorted++;
    if (sorted >= r->n)
        return;
    for (size_t gap = r->n > FEW ? r->n / 2 : 1; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (size_t i = gap; i < r->n; i++) {
            rg_node *n = r->node[i];
            size_t j = i;
            for (; j >= gap && r->node[j - gap]->order < n->order; j -= gap)
                r->node[j] = r->node[j - gap];
            r->node[j] = n;
        }
}

bool rgi_nodes_of(const rg_tensor *y, rg_node_list *list) {
    run r;
    run_begin(&r);
    bool ok = visit(&r, rgi_node_of(y)) && collect(&r);
    sort_nodes(&r);
    for (size_t i = 0; i < r.n; i++)
        r.node[i]->slot = i;
    *list = (rg_node_list){ rgi_alloc(RG_MAX(r.n, 1) * sizeof *r.node, RG_MEM_OTHER), r.n };
    if (list->v)
        memcpy(list->v, r.node, r.n * sizeof *r.node);
    let_go(&r);
    if (!ok && list->v)
        rgi_node_list_free(list);
    return ok && list->v;
}

void rgi_node_list_free(rg_node_list *list) {
    rgi_free(list->v, RG_MAX(list->n, 1) * sizeof *list->v, RG_MEM_OTHER);
    *list = (rg_node_list){ NULL, 0 };
}

/* ---- gradients on their way ------------------------------------------------------ */

/* To be written to: if a step is recorded, then only where a run makes it anew. */
static bool sole_owner(const rg_tensor *t) {
    return t->refs == 1 && t->storage->refs == 1 && t->flags & RG_CONTIGUOUS && !t->history
           && (RG_LIKELY(!rgi_this.recording) || t->flags & RG_HELD);
}

/* *to += g, in place where nobody else can see it. */
static bool accumulate(run *r, rg_tensor **to, rg_tensor *g) {
    if (!*to) {
        rgi_retain(g);
        *to = g;
        return true;
    }
    if (!r->create_graph && sole_owner(*to) && rgi_same_shape(*to, g)) {
        if (RG_UNLIKELY(rgi_this.recording))
            return rg_add_(*to, g);
        k_run(k_add, *to, *to, g);
        return true;
    }
    rg_tensor *sum = rg_add(*to, g);
    if (!sum)
        return false;
    rgi_retain(sum);
    rgi_release(*to);
    *to = sum;
    return true;
}

static leaf_slot *leaf_find(leaf_slot *slots, size_t room, const rg_node *leaf) {
    size_t at = room == FEW_LEAVES ? 0 : ((uintptr_t)leaf >> 6) * 0x9E3779B97F4A7C15u >> 20;
    for (;; at++)
        if (slots[at & (room - 1)].leaf == leaf || !slots[at & (room - 1)].leaf)
            return &slots[at & (room - 1)];
}

/* Behind this many there are no leaves. */
static size_t leaf_end(const run *r) {
    return r->leaf_room == FEW_LEAVES ? r->n_leaves : r->leaf_room;
}

static leaf_slot *leaf_slot_of(run *r, rg_node *leaf) {
    if (r->n_leaves >= (r->leaf_room == FEW_LEAVES ? FEW_LEAVES - 1 : r->leaf_room / 2)) {
        size_t room = r->leaf_room * 2;
        leaf_slot *slots = rgi_alloc(room * sizeof *slots, RG_MEM_OTHER);
        if (!slots)
            return NULL;
        memset(slots, 0, room * sizeof *slots);
        for (size_t i = 0; i < leaf_end(r); i++)
            if (r->leaves[i].leaf)
                *leaf_find(slots, room, r->leaves[i].leaf) = r->leaves[i];
        if (r->leaves != r->few_leaves)
            rgi_free(r->leaves, r->leaf_room * sizeof *slots, RG_MEM_OTHER);
        r->leaves = slots;
        r->leaf_room = room;
    }
    leaf_slot *s = leaf_find(r->leaves, r->leaf_room, leaf);
    if (!s->leaf) {
        s->leaf = leaf;
        r->n_leaves++;
        /* of a few the last place is never taken */
        if (r->leaf_room == FEW_LEAVES)
            s[1] = (leaf_slot){ NULL, NULL };
    }
    return s;
}

/* Where the gradient of an edge's target is gathered. */
static rg_tensor **place_of(run *r, rg_edge e) {
    if (e.node->op)
        return &r->grad[e.node->slot + e.output];
    leaf_slot *s = leaf_slot_of(r, e.node);
    return s ? &s->grad : NULL;
}

static inline bool fits(const rg_tensor *g, const rg_meta *meta) {
    if (g->ndim != meta->ndim || g->dtype != meta->dtype)
        return false;
    for (int d = 0; d < g->ndim; d++)
        if (g->size[d] != meta->size[d])
            return false;
    return true;
}

rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta) {
    if (!g || fits(g, meta))
        return g;
    int shift = g->ndim - meta->ndim;
    bool same = shift == 0;
    rg_dims sum = { 0 };
    for (int d = 0; d < shift; d++)
        sum.v[sum.n++] = d;
    for (int d = 0; d < meta->ndim && shift >= 0; d++) {
        if (g->size[d + shift] == meta->size[d])
            continue;
        same = false;
        if (meta->size[d] == 1)
            sum.v[sum.n++] = d + shift;
        else
            shift = -1;
    }
    RG_FAIL_IF(shift < 0, NULL,
               "returned an invalid gradient: got %s but expected shape compatible with %s",
               RG_SHAPE_TEXT(g), RG_SHAPE_TEXT(meta));
    if (!same)
        g = rg_sum_dims(g, sum, true);
    if (g && shift)
        g = rg_reshape_dims(g, rgi_meta_dims(meta));
    if (g && g->dtype != meta->dtype)
        g = rg_to(g, meta->dtype);
    return g;
}

/* ---- hooks ----------------------------------------------------------------------- */

/* The hook that comes after number id; a hook may add others, and take itself away. */
static rg_hook *hook_after(const rg_node *n, int id) {
    rg_hook *h = n->hooks;
    while (h && h->id <= id)
        h = h->next;
    return h;
}

/* Kept for nobody, the graph of the gradient would keep the node: see node_history_release. */
static bool hook_keep(rg_hook *h, rg_tensor *grad) {
    rg_tensor *kept = h->grad ? rg_add(h->grad, grad) : rg_clone(grad);
    if (!kept)
        return false;
    rgi_retain(kept);
    rgi_release(h->grad);
    h->grad = kept;
    return true;
}

/* Lets the hooks see, and replace, a gradient that is complete. */
static bool run_hooks(rg_node *n, int output, rg_tensor **grad) {
    if (!rgi_not_again("a hook"))
        return false;
    int last = -1;
    for (const rg_hook *h = n->hooks; h; h = h->next)
        last = h->id;
    for (rg_hook *h = hook_after(n, -1); *grad && h && h->id <= last;) {
        int id = h->id;
        if (h->output == output && !h->function) {
            if (rgi_node_has_headers(n) && !hook_keep(h, *grad))
                return false;
        } else if (h->output == output) {
            rg_tensor *g = rgi_lend(*grad);
            if (g)
                g = h->function(g, h->context); /* h may be gone */
            if (!rgi_is_none(g)
                && (!rgi_check(g, "hook") || !(g = rgi_sum_to(g, &n->meta[output]))))
                return false;
            if (g != RG_NONE) {
                rgi_retain(g);
                rgi_release(*grad);
                *grad = g;
            }
        }
        h = hook_after(n, id);
    }
    return true;
}

/* ---- the walk -------------------------------------------------------------------- */

static bool is_needed(const run *r, const rg_edge *e) {
    if (!e->node)
        return false;
    if (!r->capturing)
        return true;
    if (e->node->op)
        return r->needed[e->node->slot] & LEADS;
    return leaf_find(r->leaves, r->leaf_room, e->node)->leaf != NULL;
}

/* own: where a reference to g is held that may be taken over. */
static bool pass(run *r, rg_step *s, int i, rg_tensor *g, rg_tensor **own) {
    rg_edge e = s->node->edge[i];
    const rg_meta *meta = &e.node->meta[e.output];
    if (RG_UNLIKELY(!fits(g, meta)) && !(g = rgi_sum_to(g, meta)))
        return false;
    rg_tensor **place = place_of(r, e);
    if (!place)
        return false;
    if (*place || *own != g)
        return accumulate(r, place, g);
    *place = g;
    *own = NULL;
    return true;
}

/* Adds a slice's gradient into its input's one buffer, which it makes if need be. */
static bool pass_into(run *r, rg_step *s, int i, const rg_gradient *rule) {
    rg_edge e = s->node->edge[i];
    rg_tensor **place = place_of(r, e);
    if (!place)
        return false;
    if (!*place || !sole_owner(*place)) {
        const rg_meta *m = &e.node->meta[e.output];
        rgi_this.logging = rgi_noting();
        rg_tensor *buffer = rgi_new(m->dtype, m->ndim, m->size);
        rgi_this.logging = false;
        if (!buffer)
            return false;
        if (*place)
            rgi_copy_elements(buffer, *place);
        else
            rgi_fill_zero(buffer);
        if (rgi_noting())
            rgi_note_copy(buffer, *place);
        rgi_release(*place);
        *place = buffer;
    }
    if (rgi_noting())
        return rgi_note_step(s, NULL, rule, *place);
    return rule->into(s, rgi_step_g(s, 0), *place);
}

static bool step(run *r, rg_node *n) {
    rg_tensor *fused[RG_MAX_RULES + 1] = { NULL }; /* the last: of what has no place */
    rg_step s = { .node = n,
                  .op = n->op,
                  .attr = n->attr,
                  .n_in = n->n_in,
                  .g = &r->grad[n->slot],
                  .create_graph = r->create_graph,
                  .wanted = n->wanted };
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, n->op->no_grad, n->op->name,
                  "the derivative is not implemented: %s", n->op->no_grad);
    for (int i = 0; r->capturing && i < n->n_in && i < RG_INPUTS; i++)
        if (!is_needed(r, &n->edge[i]))
            s.wanted &= ~RG_IN(i);
    bool ok = true, timed = RG_UNLIKELY(rgi_watching & RG_WATCH_COST);
    rg_timing timing;
    if (timed)
        rgi_timing_begin(&timing);
    if (n->op->fused && !r->create_graph)
        ok = rgi_noting() ? rgi_note_step(&s, fused, NULL, NULL) : n->op->fused(&s, fused);
    uint32_t made = 0;
    for (int i = 0; i < RG_MAX_RULES && timed; i++)
        made |= fused[i] ? RG_IN(i) : 0;
    for (int i = 0; i < n->n_in && ok; i++) {
        if (!(i < RG_INPUTS ? s.wanted >> i & 1 : is_needed(r, &n->edge[i])))
            continue;
        rg_tensor **own = &fused[RG_MIN(i, RG_MAX_RULES)], *g = *own;
        if (!g) {
            const rg_gradient *rule = rgi_gradient_of(n->op, i);
            if (rule->into && !r->create_graph) {
                ok = pass_into(r, &s, i, rule);
                continue;
            }
            if (!rule->rule) {
                ok = rgi_fail(RG_NOT_IMPLEMENTED, n->op->name,
                              "the derivative for input %d is not implemented", i);
                continue;
            }
            s.input = i;
            rg_tensor *first = rgi_step_g(&s, 0);
            bool inside = rgi_in_rule;
            rgi_in_rule = true;
            g = first ? rule->rule(&s, first) : NULL;
            rgi_in_rule = inside;
            if (!g)
                ok = false;
            if (!g || g == RG_NONE)
                continue;
        }
        if (RG_UNLIKELY(rgi_watching) && !rgi_watch_backward(&s, g, i))
            ok = false;
        else
            ok = pass(r, &s, i, g, own);
    }
    if (timed && ok)
        rgi_timing_of_step(&timing, &s, made);
    for (int i = 0; i < RG_MAX_RULES; i++)
        rgi_release(fused[i]);
    return ok;
}

/* Leaves: what a leaf may keep is made first, so that committing can't fail. */
static bool leaves_prepare(run *r) {
    for (size_t i = 0; i < leaf_end(r); i++) {
        leaf_slot *s = &r->leaves[i];
        if (!s->grad)
            continue;
        if (s->leaf->hooks && !run_hooks(s->leaf, 0, &s->grad))
            return false;
        if (r->capturing)
            continue;
        bool sum = r->create_graph && s->leaf->grad;
        if (sum && !rgi_not_again("backward"))
            return false;
        rg_tensor *own = sum                   ? rg_add(s->leaf->grad, s->grad)
                         : sole_owner(s->grad) ? s->grad
                                               : rgi_copied(s->grad);
        if (own && rgi_noting())
            own = rgi_note_leaf(s->leaf, own);
        if (!own)
            return false;
        if (own == s->grad)
            continue;
        rgi_retain(own);
        rgi_release(s->grad);
        s->grad = own;
    }
    return true;
}

static bool walk(run *r) {
    rg_scope_guard scope __attribute__((cleanup(rg_scope_close))) = rg_scope_open();
    for (size_t i = 0; i < r->n; i++, rg_scope_restart(&scope)) {
        rg_node *n = r->node[i];
        rg_tensor **g = &r->grad[n->slot];
        bool any = false, ok = true;
        if (r->capturing && !r->needed[n->slot])
            continue;
        for (int k = 0; n->hooks && k < n->n_out && ok; k++)
            ok = run_hooks(n, k, &g[k]);
        for (int k = 0; k < n->n_out && !any; k++)
            any = g[k] != NULL;
        if (ok && any) {
            /* an input asked for may be where it ends */
            bool leads = !r->capturing;
            for (int e = 0; e < n->n_in && !leads; e++)
                leads = is_needed(r, &n->edge[e]);
            if (leads) {
                rgi_applying = n->op->name;
                ok = step(r, n);
                rgi_applying = r->op;
                if (ok && !r->retain)
                    rgi_node_free_saved(n);
            }
        }
        for (int k = 0; k < n->n_out; k++)
            if (!r->capturing || !ok || !(r->needed[n->slot + k] & ASKED)) {
                rgi_release(g[k]);
                g[k] = NULL;
            }
        if (!ok)
            return false;
    }
    return leaves_prepare(r);
}

/* ---- the end of a run ------------------------------------------------------------ */

static void leaves_commit(run *r) {
    bool alone = RG_ALONE;
    if (!alone)
        pthread_mutex_lock(&commit_lock);
    for (size_t i = 0; i < leaf_end(r); i++) {
        leaf_slot *s = &r->leaves[i];
        if (!s->grad || !rgi_node_has_headers(s->leaf))
            continue;
        if (s->leaf->grad && !r->create_graph) {
            k_run(k_add, s->leaf->grad, s->leaf->grad, s->grad);
            rgi_count_write(s->leaf->grad, "backward");
        } else {
            rgi_release(s->leaf->grad);
            s->leaf->grad = s->grad;
            s->grad = NULL;
        }
    }
    if (!alone)
        pthread_mutex_unlock(&commit_lock);
}

static void run_end(run *r, bool ok) {
    /* else they are gone */
    for (size_t i = 0; r->grad && (!ok || r->capturing) && i < r->n_grads; i++)
        rgi_release(r->grad[i]);
    for (size_t i = 0; i < leaf_end(r); i++)
        rgi_release(r->leaves[i].grad);
    if (r->grad != r->few_grads)
        rgi_free(r->grad, r->n_grads * sizeof *r->grad, RG_MEM_OTHER);
    if (r->needed)
        rgi_free(r->needed, r->n_grads * sizeof *r->needed, RG_MEM_OTHER);
    if (r->leaves != r->few_leaves)
        rgi_free(r->leaves, r->leaf_room * sizeof *r->leaves, RG_MEM_OTHER);
    let_go(r);
}

/* ---- roots and results ----------------------------------------------------------- */

static bool root_gradient(run *r, const char *op, rg_tensor *y, rg_tensor *gradient) {
    rg_node *n = rgi_node_of(y);
    RG_SCOPE();
    if (gradient == RG_NONE) {
        RG_FAIL_IF(y->numel != 1, op, "grad can be implicitly created only for scalar outputs");
        if (!(gradient = rgi_own(rgi_new_like(y, y->dtype))))
            return false;
        rgi_store_f64(gradient->data, gradient->dtype, 1);
    }
    if (!rgi_check(gradient, op))
        return false;
    RG_FAIL_IF(!rgi_same_shape(gradient, y), op,
               "Mismatch in shape: grad_output[0] has a shape of torch.Size(%s) "
               "and output[0] has a shape of torch.Size(%s).",
               RG_SHAPE_TEXT(gradient), RG_SHAPE_TEXT(y));
    if (gradient->dtype != y->dtype && !(gradient = rg_to(gradient, y->dtype)))
        return false;
    rg_tensor **place = place_of(r, (rg_edge){ n, y->output });
    return place && accumulate(r, place, gradient);
}

/* Which nodes lead to one of the inputs asked for, or are one themselves? */
static bool mark_needed(run *r, int m, rg_tensor *const x[]) {
    r->needed = rgi_alloc(r->n_grads * sizeof *r->needed, RG_MEM_OTHER);
    if (!r->needed)
        return false;
    memset(r->needed, 0, r->n_grads * sizeof *r->needed);
    for (int j = 0; j < m; j++) {
        rg_node *n = rgi_node_of(x[j]);
        if (!n->op) {
            if (!leaf_slot_of(r, n))
                return false;
        } else if (n->run == (uintptr_t)r) {
            r->needed[n->slot + x[j]->output] |= ASKED;
            r->needed[n->slot] |= LEADS;
        }
    }
    for (size_t i = r->n; i-- > 0;)
        for (int e = 0; e < r->node[i]->n_in; e++)
            if (is_needed(r, &r->node[i]->edge[e]))
                r->needed[r->node[i]->slot] |= LEADS;
    return true;
}

static rg_tensor *result_of(run *r, rg_tensor *x, bool allow_unused) {
    rg_node *n = rgi_node_of(x);
    rg_tensor *g = NULL;
    if (!n->op)
        g = leaf_find(r->leaves, r->leaf_room, n)->grad;
    else if (n->run == (uintptr_t)r)
        g = r->grad[n->slot + x->output];
    RG_FAIL_IF(!g && !allow_unused, "grad",
               "One of the differentiated Tensors appears to not have been used in the "
               "graph. Set .allow_unused = true if this is the desired behavior.");
    return g ? rgi_lend(g) : RG_NONE;
}

/* sentence: what to say of the i-th, if it doesn't */
static bool require_grad(const char *op, rg_tensor *t, const char *sentence, int i) {
    return rgi_check(t, op) && (t->history || rgi_fail(RG_RUNTIME_ERROR, op, sentence, i));
}

static bool differentiate(const char *op, int n, rg_tensor *const y[], rg_tensor *const gradients[],
                          int m, rg_tensor *const x[], rg_tensor *results[],
                          rg_backward_options o) {
    run r;
    run_begin(&r);
    r.create_graph = o.create_graph;
    r.retain = o.retain_graph || o.create_graph;
    r.capturing = results != NULL;
    const char *outer = rgi_applying;
    rgi_applying = r.op = op;
    bool ok = true, before = rg_set_grad_enabled(o.create_graph);
    if (!rgi_given_list(n, y, op))
        ok = false;
    if (ok && results && (m < 1 || !x))
        ok = rgi_fail(RG_RUNTIME_ERROR, op, "`inputs` argument to `grad()` cannot be empty.");
    for (int i = 0; i < n && ok; i++)
        ok = require_grad(
            op, y[i], "element %d of tensors does not require grad and does not have a grad_fn", i);
    for (int j = 0; j < m && ok; j++)
        ok = require_grad(op, x[j], "One of the differentiated Tensors does not require grad", j);
    for (int i = 0; i < n && ok; i++)
        ok = visit(&r, rgi_node_of(y[i]));
    /* A hook may drop a root, whose header holds all that it leads to: the run does, too. */
    for (size_t i = 0; i < r.n; i++)
        rgi_node_retain(r.node[i]), r.node[i]->held = true;
    ok = ok && collect(&r);
    sort_nodes(&r);
    if (ok && r.n_grads) {
        r.grad = r.n_grads <= FEW ? r.few_grads
                                  : rgi_alloc(r.n_grads * sizeof *r.grad, RG_MEM_OTHER);
        ok = r.grad != NULL;
        if (ok)
            memset(r.grad, 0, r.n_grads * sizeof *r.grad);
    }
    ok = ok && (!r.capturing || mark_needed(&r, m, x));
    for (int i = 0; i < n && ok; i++)
        ok = root_gradient(&r, op, y[i], gradients ? gradients[i] : RG_NONE);
    ok = ok && walk(&r);
    if (ok && !r.capturing)
        leaves_commit(&r);
    for (int j = 0; j < m && ok; j++)
        ok = (results[j] = result_of(&r, x[j], o.allow_unused)) != NULL;
    for (int j = 0; j < m && !ok; j++)
        results[j] = NULL;
    run_end(&r, ok);
    rg_set_grad_enabled(before);
    rgi_applying = outer;
    return ok;
}

bool rg_backward_many(int n, rg_tensor *const y[], rg_tensor *const gradients[],
                      rg_backward_options options) {
    return differentiate("backward", n, y, gradients, 0, NULL, NULL, options);
}

bool rg_grad_many(int n, rg_tensor *const y[], rg_tensor *const gradients[], int m,
                  rg_tensor *const x[], rg_tensor *results[], rg_backward_options options) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !results, "grad", "there is no room for results: got NULL");
    return differentiate("grad", n, y, gradients, m, x, results, options);
}

bool rg_backward_with(rg_tensor *y, rg_backward_options options) {
    return differentiate("backward", 1, &y, &options.gradient, 0, NULL, NULL, options);
}

rg_tensor *rg_grad_with(rg_tensor *y, rg_tensor *x, rg_backward_options options) {
    rg_tensor *result;
    return differentiate("grad", 1, &y, &options.gradient, 1, &x, &result, options) ? result : NULL;
}

/* ---- .grad and hooks ------------------------------------------------------------- */

static rg_hook *retained(const rg_tensor *t) {
    rg_hook *h = t->history ? rgi_node_of(t)->hooks : NULL;
    while (h && (h->function || h->output != t->output))
        h = h->next;
    return h;
}

/* Where t's gradient is kept, or NULL if nowhere. */
static rg_tensor **grad_place(rg_tensor *t) {
    rg_node *n = rgi_node_of(t);
    rg_hook *h = retained(t);
    return n && !n->op ? &n->grad : h ? &h->grad : NULL;
}

rg_tensor *rg_grad_of(rg_tensor *t) {
    if (!rgi_check(t, "grad_of"))
        return NULL;
    rg_tensor **place = grad_place(t);
    if (rgi_noting() && place)
        rgi_lend_anew(*place);
    return place && *place ? rgi_lend(*place) : RG_NONE;
}

bool rg_set_grad(rg_tensor *t, rg_tensor *grad) {
    if (!rgi_check(t, "set_grad") || (grad != RG_NONE && !rgi_check(grad, "set_grad")))
        return false;
    rg_tensor **place = grad_place(t);
    if (!place && grad == RG_NONE)
        return true;
    RG_FAIL_IF(!place, "set_grad",
               "the tensor neither is a leaf that requires grad nor retains its grad");
    RG_FAIL_IF(grad == t, "set_grad", "can't assign Variable as its own grad");
    if (grad != RG_NONE) {
        if (!rgi_not_again("set_grad"))
            return false;
        RG_FAIL_IF(!rgi_same_shape(grad, t), "set_grad",
                   "assigned grad has data of a different size: %s, expected "
                   "%s",
                   RG_SHAPE_TEXT(grad), RG_SHAPE_TEXT(t));
        RG_FAIL_AS_IF(RG_TYPE_ERROR, grad->dtype != t->dtype, "set_grad",
                      "assigned grad has data of a different "
                      "type");
        if (!rgi_overlaps_itself(grad))
            rgi_retain(grad);
        /* later ones are added in place */
        else if (!(grad = rgi_contiguous_copy(grad, grad->dtype)))
            return false;
    }
    if (RG_UNLIKELY(rgi_this.recording))
        rgi_note_leaf(rgi_node_of(t), NULL);
    rgi_release(*place);
    *place = grad == RG_NONE ? NULL : grad;
    return true;
}

static rg_hook *hook_new(rg_tensor *t, rg_hook_function *function, void *context) {
    rg_node *n = rgi_node_of(t);
    rg_hook *h = rgi_alloc(sizeof *h, RG_MEM_NODE), **end = &n->hooks;
    if (!h)
        return NULL;
    int id = 0;
    for (; *end; end = &(*end)->next)
        id = RG_MAX(id, (*end)->id + 1);
    *h = (rg_hook){ .id = id, .output = t->output, .function = function, .context = context };
    *end = h;
    return h;
}

bool rg_retain_grad(rg_tensor *t) {
    if (!rgi_check(t, "retain_grad"))
        return false;
    RG_FAIL_IF(!t->history, "retain_grad",
               "can't retain_grad on Tensor that has requires_grad=False");
    if (!rgi_node_of(t)->op || retained(t))
        return true;
    return hook_new(t, NULL, NULL) != NULL;
}

int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context) {
    if (!rgi_check(t, "register_hook"))
        return -1;
    if (!t->history || !function)
        return rgi_fail(RG_RUNTIME_ERROR, "register_hook",
                        "cannot register a hook on a tensor that doesn't require "
                        "gradient"),
               -1;
    rg_hook *h = hook_new(t, function, context);
    return h ? h->id : -1;
}

bool rg_remove_hook(rg_tensor *t, int id) {
    if (!rgi_check(t, "remove_hook"))
        return false;
    rg_hook **h = t->history ? &rgi_node_of(t)->hooks : NULL;
    while (h && *h && ((*h)->id != id || (*h)->output != t->output))
        h = &(*h)->next;
    RG_FAIL_IF(!h || !*h || !(*h)->function, "remove_hook", "the tensor has no hook %d", id);
    rg_hook *gone = *h;
    *h = gone->next;
    rgi_free(gone, sizeof *gone, RG_MEM_NODE);
    return true;
}

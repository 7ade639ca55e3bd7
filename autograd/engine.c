/*
 * engine.c: a backward run. It collects the nodes that the roots lead to, walks
 * them from the newest to the oldest, and hands each its gradient; sums,
 * un-broadcasting and skipping happen here and nowhere else. Gradients of leaves
 * are kept aside until the end and then committed at once, so that a run that
 * fails leaves every .grad as it was. What a rule sees is step.c's, hooks are
 * hooks.c's, and the table of leaves is leaf_table.c's business.
 */
#include "engine.h"
#include "graph_observer.h"
#include "hooks.h"
#include "leaf_table.h"
#include "watch.h"

#include <pthread.h>

__thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));
static pthread_mutex_t commit_lock = PTHREAD_MUTEX_INITIALIZER;

/* A caller asks for the gradients of n tensors y, times `gradients` (NULL, or RG_NONE for one
 * element), and, where `results` isn't NULL, for those of m tensors x only. */
typedef struct {
    const char *op;
    int n, m;
    rg_tensor *const *y, *const *gradients, *const *x;
    rg_tensor **results;
    rg_backward_options options;
} request;

/* Where only some inputs are asked for, a mark on a node's first output says that the node leads to
 * one of them, and a mark on any output that it is asked for itself. */
enum { LEADS = 1, ASKED = 2 };

/* A small run finds what it needs on the C stack. */
enum { FEW = 24 };

/* The nodes are those that the roots lead to, newest first, without leaves. There is a gradient,
 * and a mark, for each output of each node. */
typedef struct {
    const char *op;
    bool create_graph, retain, capturing;
    rg_node **node;
    size_t n, node_room;
    rg_tensor **grad;
    size_t n_grads;
    uint8_t *marks;
    rg_leaf_table leaves;
    rg_node *few_nodes[FEW];
    rg_tensor *few_grads[FEW];
} run;

static void run_init(run *r) {
    memset(r, 0, offsetof(run, leaves));
    r->node = r->few_nodes;
    r->node_room = FEW;
    rgi_leaf_table_begin(&r->leaves);
}

/* ---- collecting ------------------------------------------------------------------- */

static bool make_room(run *r) {
    size_t bytes = r->n * sizeof *r->node;
    rg_node **more = rgi_alloc(2 * bytes, RG_MEM_OTHER);
    if (!more)
        return false;
    memcpy(more, r->node, bytes);
    if (r->node != r->few_nodes)
        rgi_free(r->node, bytes, RG_MEM_OTHER);
    r->node = more;
    r->node_room *= 2;
    return true;
}

/* Makes n this run's own, unless another run has it. */
static bool claim(run *r, rg_node *n) {
    uintptr_t id = (uintptr_t)r, nobody = 0;
    if (RG_ALONE && atomic_load_explicit(&n->run, memory_order_relaxed) == nobody) {
        atomic_store_explicit(&n->run, id, memory_order_relaxed);
        return true;
    }
    RG_FAIL_IF(!atomic_compare_exchange_strong(&n->run, &nobody, id), "backward",
               "the graph is being differentiated already, by another thread or by "
               "the run that calls this hook");
    return true;
}

/* Takes a node into the run, unless it is there already; a leaf has no steps. */
static inline bool visit(run *r, rg_node *n) {
    if (!n->op || atomic_load_explicit(&n->run, memory_order_relaxed) == (uintptr_t)r)
        return true;
    if (RG_UNLIKELY(r->n == r->node_room) && !make_room(r))
        return false;
    if (!claim(r, n))
        return false;
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

/* Gives the nodes free, the oldest first: with a root may go all that it leads to. */
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

/* Sorts the newest first. A chain is collected in that order; other graphs are sorted by Shell's
 * method, which needs no memory. */
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
    run_init(&r);
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

/* ---- gradients on their way ------------------------------------------------------- */

/* Returns whether t may be written to because nobody else can see it. An observer may have
 * references of its own, and knows better. */
static bool sole_owner(const rg_tensor *t) {
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->is_sole_owner)
        return o->is_sole_owner(o, t);
    return t->refs == 1 && t->storage->refs == 1 && t->flags & RG_CONTIGUOUS && !t->history;
}

/* *to += g, in place where nobody else can see *to; an empty place takes g itself. */
static bool accumulate_into(run *r, rg_tensor **to, rg_tensor *g) {
    if (!*to) {
        rgi_retain(g);
        *to = g;
        return true;
    }
    if (!r->create_graph && sole_owner(*to) && rgi_same_shape(*to, g)) {
        if (RG_UNLIKELY(rgi_this.observer != NULL))
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

/* Returns where the gradient of an edge's target is gathered; NULL: out of memory. */
static rg_tensor **place_of(run *r, rg_edge e) {
    if (e.node->op)
        return &r->grad[e.node->slot + e.output];
    rg_leaf_slot *s = rgi_leaf_add(&r->leaves, e.node);
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

/* Finds the dims of g to sum over so that meta's shape remains; false: there are none such. */
static bool dims_to_sum(const rg_tensor *g, const rg_meta *meta, rg_dims *sum) {
    int more = g->ndim - meta->ndim;
    if (more < 0)
        return false;
    sum->n = 0;
    for (int d = 0; d < more; d++)
        sum->v[sum->n++] = d;
    for (int d = 0; d < meta->ndim; d++) {
        if (g->size[d + more] == meta->size[d])
            continue;
        if (meta->size[d] != 1)
            return false;
        sum->v[sum->n++] = d + more;
    }
    return true;
}

rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta) {
    if (!g || fits(g, meta))
        return g;
    rg_dims sum;
    RG_FAIL_IF(!dims_to_sum(g, meta, &sum), NULL,
               "returned an invalid gradient: got %s but expected shape compatible with %s",
               RG_SHAPE_TEXT(g), RG_SHAPE_TEXT(meta));
    bool reshapes = g->ndim != meta->ndim;
    if (sum.n)
        g = rg_sum_dims(g, sum, true);
    if (g && reshapes)
        g = rg_reshape_dims(g, rgi_meta_dims(meta));
    if (g && g->dtype != meta->dtype)
        g = rg_to(g, meta->dtype);
    return g;
}

/* ---- a step ------------------------------------------------------------------------ */

static bool is_needed(const run *r, const rg_edge *e) {
    if (!e->node)
        return false;
    if (!r->capturing)
        return true;
    if (e->node->op)
        return r->marks[e->node->slot] & LEADS;
    return rgi_leaf_find(&r->leaves, e->node)->leaf != NULL;
}

/* Passes the gradient g of input i on to the input's node. Where own isn't NULL, a reference lies
 * there, which is taken over if that saves an addition. */
static bool pass(run *r, const rg_step *s, int i, rg_tensor *g, rg_tensor **own) {
    if (RG_UNLIKELY(rgi_watching) && !rgi_watch_backward(s, g, i))
        return false;
    rg_edge e = s->node->edge[i];
    const rg_meta *meta = &e.node->meta[e.output];
    if (RG_UNLIKELY(!fits(g, meta))) {
        g = rgi_sum_to(g, meta);
        if (!g)
            return false;
    }
    rg_tensor **place = place_of(r, e);
    if (!place)
        return false;
    if (*place || !own || *own != g)
        return accumulate_into(r, place, g);
    *place = g;
    *own = NULL;
    return true;
}

/* Puts a buffer that may be written to in place of *place: with its values, or with zeros. */
static bool make_buffer(rg_tensor **place, const rg_meta *m) {
    rg_tensor *buffer = rgi_new_output(m->dtype, m->ndim, m->size);
    if (!buffer)
        return false;
    if (*place)
        rgi_copy_elements(buffer, *place);
    else
        rgi_fill_zero(buffer);
    bool ok = rgi_observe_copy(buffer, *place, "backward");
    rgi_release(*place);
    *place = buffer;
    return ok;
}

/* Adds a slice's gradient into its input's one buffer, which it makes if need be. */
static bool pass_into(run *r, rg_step *s, int i, const rg_gradient *rule) {
    rg_edge e = s->node->edge[i];
    rg_tensor **place = place_of(r, e);
    if (!place)
        return false;
    bool usable = *place && sole_owner(*place);
    if (!usable && !make_buffer(place, &e.node->meta[e.output]))
        return false;
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->step)
        return o->step(o, s, NULL, rule, *place);
    return rule->into(s, rgi_step_g(s, 0), *place);
}

/* Makes the gradient of input i by its rule, and passes it on; RG_NONE stands for zero. */
static bool pass_by_rule(run *r, rg_step *s, int i) {
    const rg_gradient *rule = rgi_gradient_of(s->op, i);
    if (rule->into && !r->create_graph)
        return pass_into(r, s, i, rule);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !rule->rule, s->op->name,
                  "the derivative for input %d is not implemented", i);
    s->input = i;
    rg_tensor *first = rgi_step_g(s, 0);
    bool inside = rgi_in_rule;
    rgi_in_rule = true;
    rg_tensor *g = first ? rule->rule(s, first) : NULL;
    rgi_in_rule = inside;
    if (!g)
        return false;
    return g == RG_NONE || pass(r, s, i, g, NULL);
}

/* Passes all gradients of a step on: those that `fused` holds, the others by their rules. */
static bool pass_all(run *r, rg_step *s, rg_tensor *fused[]) {
    const rg_node *n = s->node;
    bool ok = true;
    for (int i = 0; i < n->n_in && ok; i++) {
        bool wanted = i < RG_INPUTS ? rgi_wants(s, i) : is_needed(r, &n->edge[i]);
        if (!wanted)
            continue;
        if (i < RG_MAX_RULES && fused[i])
            ok = pass(r, s, i, fused[i], &fused[i]);
        else
            ok = pass_by_rule(r, s, i);
    }
    return ok;
}

static bool make_fused(const rg_step *s, rg_tensor *fused[]) {
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->step)
        return o->step(o, s, fused, NULL, NULL);
    return s->op->fused(s, fused);
}

/* Returns the mask of the gradients that are there. */
static uint32_t mask_of(rg_tensor *const gradients[]) {
    uint32_t mask = 0;
    for (int i = 0; i < RG_MAX_RULES; i++)
        if (gradients[i])
            mask |= RG_IN(i);
    return mask;
}

static bool step(run *r, rg_node *n) {
    rg_tensor *fused[RG_MAX_RULES] = { NULL };
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
        ok = make_fused(&s, fused);
    uint32_t made = timed ? mask_of(fused) : 0;
    ok = ok && pass_all(r, &s, fused);
    if (timed && ok)
        rgi_timing_of_step(&timing, &s, made);
    for (int i = 0; i < RG_MAX_RULES; i++)
        rgi_release(fused[i]);
    return ok;
}

/* ---- the walk ---------------------------------------------------------------------- */

/* Runs the hooks of a node whose gradients are complete, and its step, if that leads anywhere: an
 * input that is asked for may be where the walk ends. */
static bool walk_node(run *r, rg_node *n, rg_tensor **g) {
    for (int k = 0; n->hooks && k < n->n_out; k++)
        if (!rgi_run_hooks(n, k, &g[k]))
            return false;
    bool any = false, leads = !r->capturing;
    for (int k = 0; k < n->n_out && !any; k++)
        any = g[k] != NULL;
    for (int e = 0; e < n->n_in && any && !leads; e++)
        leads = is_needed(r, &n->edge[e]);
    if (!any || !leads)
        return true;
    rgi_applying = n->op->name;
    bool ok = step(r, n);
    rgi_applying = r->op;
    if (ok && !r->retain)
        rgi_node_free_saved(n);
    return ok;
}

/* Gives back the gradients of a node that has been walked, but those that are asked for. */
static void drop_gradients(const run *r, const rg_node *n, rg_tensor **g, bool ok) {
    for (int k = 0; k < n->n_out; k++) {
        if (r->capturing && ok && r->marks[n->slot + k] & ASKED)
            continue;
        rgi_release(g[k]);
        g[k] = NULL;
    }
}

/* Makes the gradient that a leaf is to keep from the one that was gathered for it, and which others
 * may hold, too. It is a reference of the scope's, or the gathered gradient itself. */
static rg_tensor *leaf_gradient(const run *r, const rg_leaf_slot *s) {
    bool sum = r->create_graph && s->leaf->grad;
    if (sum && !rgi_may_do_once("backward"))
        return NULL;
    rg_tensor *own = s->grad;
    if (sum)
        own = rg_add(s->leaf->grad, s->grad);
    else if (!sole_owner(s->grad))
        own = rgi_copied(s->grad);
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && own && o->gradient)
        own = o->gradient(o, s->leaf, own);
    return own;
}

/* Makes first what leaves are to keep, so that committing can't fail. */
static bool leaves_prepare(run *r) {
    for (size_t i = 0; i < rgi_leaf_slots(&r->leaves); i++) {
        rg_leaf_slot *s = &r->leaves.slots[i];
        if (!s->grad)
            continue;
        if (s->leaf->hooks && !rgi_run_hooks(s->leaf, 0, &s->grad))
            return false;
        if (r->capturing)
            continue;
        rg_tensor *own = leaf_gradient(r, s);
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
    for (size_t i = 0; i < r->n; i++) {
        rg_node *n = r->node[i];
        rg_tensor **g = &r->grad[n->slot];
        if (r->capturing && !r->marks[n->slot])
            continue;
        bool ok = walk_node(r, n, g);
        drop_gradients(r, n, g, ok);
        if (!ok)
            return false;
        rg_scope_restart(&scope);
    }
    return leaves_prepare(r);
}

/* ---- the beginning ----------------------------------------------------------------- */

static bool root_gradient(run *r, rg_tensor *y, rg_tensor *gradient) {
    RG_SCOPE();
    if (gradient == RG_NONE) {
        RG_FAIL_IF(y->numel != 1, r->op, "grad can be implicitly created only for scalar outputs");
        gradient = rgi_own(rgi_new_like(y, y->dtype));
        if (!gradient)
            return false;
        rgi_store_f64(gradient->data, gradient->dtype, 1);
    }
    if (!rgi_check(gradient, r->op))
        return false;
    RG_FAIL_IF(!rgi_same_shape(gradient, y), r->op,
               "Mismatch in shape: grad_output[0] has a shape of torch.Size(%s) "
               "and output[0] has a shape of torch.Size(%s).",
               RG_SHAPE_TEXT(gradient), RG_SHAPE_TEXT(y));
    if (gradient->dtype != y->dtype) {
        gradient = rg_to(gradient, y->dtype);
        if (!gradient)
            return false;
    }
    rg_tensor **place = place_of(r, (rg_edge){ rgi_node_of(y), y->output });
    return place && accumulate_into(r, place, gradient);
}

/* Marks the nodes that are asked for, or lead to what is. */
static bool mark_needed(run *r, int m, rg_tensor *const x[]) {
    r->marks = rgi_alloc(r->n_grads * sizeof *r->marks, RG_MEM_OTHER);
    if (!r->marks)
        return false;
    memset(r->marks, 0, r->n_grads * sizeof *r->marks);
    for (int j = 0; j < m; j++) {
        rg_node *n = rgi_node_of(x[j]);
        if (!n->op) {
            if (!rgi_leaf_add(&r->leaves, n))
                return false;
        } else if (n->run == (uintptr_t)r) {
            r->marks[n->slot + x[j]->output] |= ASKED;
            r->marks[n->slot] |= LEADS;
        }
    }
    for (size_t i = r->n; i-- > 0;)
        for (int e = 0; e < r->node[i]->n_in; e++)
            if (is_needed(r, &r->node[i]->edge[e]))
                r->marks[r->node[i]->slot] |= LEADS;
    return true;
}

/* The sentence is said of the i-th tensor, if it doesn't require grad. */
static bool require_grad(const char *op, rg_tensor *t, const char *sentence, int i) {
    return rgi_check(t, op) && (t->history || rgi_fail(RG_RUNTIME_ERROR, op, sentence, i));
}

static bool request_check(const request *q) {
    if (!rgi_given_list(q->n, q->y, q->op))
        return false;
    RG_FAIL_IF(q->results && (q->m < 1 || !q->x), q->op,
               "`inputs` argument to `grad()` cannot be empty.");
    bool ok = true;
    for (int i = 0; i < q->n && ok; i++)
        ok = require_grad(q->op, q->y[i],
                          "element %d of tensors does not require grad and does not have a grad_fn",
                          i);
    for (int j = 0; j < q->m && ok; j++)
        ok = require_grad(q->op, q->x[j], "One of the differentiated Tensors does not require grad",
                          j);
    return ok;
}

static bool make_gradients(run *r) {
    r->grad = r->few_grads;
    if (r->n_grads > FEW)
        r->grad = rgi_alloc(r->n_grads * sizeof *r->grad, RG_MEM_OTHER);
    if (!r->grad)
        return false;
    memset(r->grad, 0, r->n_grads * sizeof *r->grad);
    return true;
}

/* Collects the nodes and gives the roots their gradients. The run holds the roots' nodes, since a
 * hook may drop a root, whose header holds all that it leads to. */
static bool run_begin(run *r, const request *q) {
    bool ok = request_check(q);
    for (int i = 0; i < q->n && ok; i++)
        ok = visit(r, rgi_node_of(q->y[i]));
    for (size_t i = 0; i < r->n; i++) {
        rgi_node_retain(r->node[i]);
        r->node[i]->held = true;
    }
    ok = ok && collect(r);
    sort_nodes(r);
    ok = ok && (!r->n_grads || make_gradients(r));
    ok = ok && (!r->capturing || mark_needed(r, q->m, q->x));
    for (int i = 0; i < q->n && ok; i++)
        ok = root_gradient(r, q->y[i], q->gradients ? q->gradients[i] : RG_NONE);
    return ok;
}

/* ---- the end ----------------------------------------------------------------------- */

static void leaf_commit(const run *r, rg_leaf_slot *s) {
    rg_node *leaf = s->leaf;
    if (leaf->grad && !r->create_graph) {
        k_run(k_add, leaf->grad, leaf->grad, s->grad);
        rgi_count_write(leaf->grad, "backward");
    } else {
        rgi_release(leaf->grad);
        leaf->grad = s->grad;
        s->grad = NULL;
    }
}

static void leaves_commit(run *r) {
    bool alone = RG_ALONE;
    if (!alone)
        pthread_mutex_lock(&commit_lock);
    for (size_t i = 0; i < rgi_leaf_slots(&r->leaves); i++) {
        rg_leaf_slot *s = &r->leaves.slots[i];
        if (s->grad && rgi_node_has_headers(s->leaf))
            leaf_commit(r, s);
    }
    if (!alone)
        pthread_mutex_unlock(&commit_lock);
}

static rg_tensor *result_of(const run *r, rg_tensor *x, bool allow_unused) {
    rg_node *n = rgi_node_of(x);
    rg_tensor *g = NULL;
    if (!n->op)
        g = rgi_leaf_find(&r->leaves, n)->grad;
    else if (n->run == (uintptr_t)r)
        g = r->grad[n->slot + x->output];
    RG_FAIL_IF(!g && !allow_unused, "grad",
               "One of the differentiated Tensors appears to not have been used in the "
               "graph. Set .allow_unused = true if this is the desired behavior.");
    return g ? rgi_lend(g) : RG_NONE;
}

/* Commits, or hands over, what the walk has made. */
static bool run_finish(run *r, const request *q) {
    if (!r->capturing)
        leaves_commit(r);
    bool ok = true;
    for (int j = 0; j < q->m && ok; j++) {
        q->results[j] = result_of(r, q->x[j], q->options.allow_unused);
        ok = q->results[j] != NULL;
    }
    return ok;
}

/* Gives everything back. A walk that went well has left only the gradients that are asked for. */
static void run_free(run *r, bool ok) {
    if (r->grad && (!ok || r->capturing))
        for (size_t i = 0; i < r->n_grads; i++)
            rgi_release(r->grad[i]);
    if (r->grad != r->few_grads)
        rgi_free(r->grad, r->n_grads * sizeof *r->grad, RG_MEM_OTHER);
    if (r->marks)
        rgi_free(r->marks, r->n_grads * sizeof *r->marks, RG_MEM_OTHER);
    rgi_leaf_table_end(&r->leaves);
    let_go(r);
}

static bool differentiate(const request *q) {
    run r;
    run_init(&r);
    r.op = q->op;
    r.create_graph = q->options.create_graph;
    r.retain = q->options.retain_graph || q->options.create_graph;
    r.capturing = q->results != NULL;
    const char *outer = rgi_applying;
    rgi_applying = q->op;
    bool before = rg_set_grad_enabled(r.create_graph);
    bool ok = run_begin(&r, q) && walk(&r) && run_finish(&r, q);
    for (int j = 0; j < q->m && !ok; j++)
        q->results[j] = NULL;
    run_free(&r, ok);
    rg_set_grad_enabled(before);
    rgi_applying = outer;
    return ok;
}

/* ---- the public functions ---------------------------------------------------------- */

bool rg_backward_many(int n, rg_tensor *const y[], rg_tensor *const gradients[],
                      rg_backward_options options) {
    return differentiate(
        &(request){ .op = "backward", .n = n, .y = y, .gradients = gradients, .options = options });
}

bool rg_grad_many(int n, rg_tensor *const y[], rg_tensor *const gradients[], int m,
                  rg_tensor *const x[], rg_tensor *results[], rg_backward_options options) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !results, "grad", "there is no room for results: got NULL");
    return differentiate(&(request){ .op = "grad",
                                     .n = n,
                                     .y = y,
                                     .gradients = gradients,
                                     .m = m,
                                     .x = x,
                                     .results = results,
                                     .options = options });
}

bool rg_backward_with(rg_tensor *y, rg_backward_options options) {
    return rg_backward_many(1, &y, &options.gradient, options);
}

rg_tensor *rg_grad_with(rg_tensor *y, rg_tensor *x, rg_backward_options options) {
    rg_tensor *result;
    bool ok = rg_grad_many(1, &y, &options.gradient, 1, &x, &result, options);
    return ok ? result : NULL;
}

/*
 * engine.c: a backward run. It begins at one or several tensors, the roots. It collects the nodes
 * that the roots lead to (collect.c), visits them from the newest to the oldest, and has each
 * compute the gradients of its inputs (gradients.c). The gradients of leaves are kept in a table
 * until the end (leaf_table.c). Then they are all committed at once, so that a run that fails
 * before this changes no leaf's .grad.
 *
 * This file is long because all functions of a run work on the state of that run.
 */
#include "graph_observer.h"
#include "tensor/threads/lock.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/thread.h"
#include "tensor/messages/warning.h"
#include "hooks.h"
#include "rebase.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of a backward run from n tensors y. gradients[k] is the gradient of y[k]. If
 * gradients[k] is RG_NONE, or `gradients` is NULL, the gradient is 1, and y[k] must have one
 * element. If x isn't NULL, only the gradients of the m tensors x are computed. If `results` isn't
 * NULL, these gradients are stored in it. Otherwise gradients are added to .grad. */
typedef struct {
    const char *op;
    int n, m;
    rg_tensor *const *y, *const *gradients, *const *x;
    rg_tensor **results;
    const rg_backward_options *options;
} request;

/* ---- visiting the nodes ------------------------------------------------------------ */

/* Computes the gradients of the inputs of a node that has notes of observers. Calls the notes'
 * functions for the beginning and the end of the step. */
static __attribute__((noinline)) bool run_noted_step(rg_run *r, rg_node *n) {
    bool ok = rgi_notes_begin_step(n) && rgi_run_step(r, n);
    rgi_notes_end_step(n);
    return ok;
}

/* Calls the hooks of a node, whose gradients are complete, and then computes the gradients of the
 * node's inputs. This step is skipped if no gradient reached the node. It is also skipped if no
 * input's gradient is needed, because only gradients of the node's own outputs were asked for. */
static bool walk_node(rg_run *r, rg_node *n, rg_tensor **g) {
    for (int k = 0; rgi_has_hooks(n) && k < n->n_out; k++)
        if (!rgi_run_hooks(n, k, &g[k]))
            return false;
    bool any = false;
    bool leads = !r->capturing;
    for (int k = 0; k < n->n_out && !any; k++)
        any = g[k] != NULL;
    for (int e = 0; e < n->n_in && !leads; e++)
        leads = rgi_run_needs(r, &n->edge[e]);
    if (!any || !leads)
        return true;
    rgi_applying = n->op->name;
    bool ok = RG_LIKELY(!n->notes) ? rgi_run_step(r, n) : run_noted_step(r, n);
    rgi_applying = r->op;
    if (ok && !r->retain)
        rgi_node_free_saved(n);
    return ok;
}

/* Releases the gradients of a node's outputs after the visit of the node. If the visit succeeded
 * (`ok`), keeps the gradients that were asked for. */
static void drop_gradients(const rg_run *r, const rg_node *n, rg_tensor **g, bool ok) {
    for (int k = 0; k < n->n_out; k++) {
        if (r->capturing && ok && r->marks[n->slot + k] & RG_ASKED)
            continue;
        rgi_release(g[k]);
        g[k] = NULL;
    }
}

/* Returns whether the gradient has the strides that the leaf's gradient is to have: the leaf's own
 * strides or, if the leaf has gaps, contiguous strides. */
static inline bool lies_as_leaf(const rg_node *leaf, const rg_tensor *g) {
    const int64_t *stride = rgi_leaf_strides(leaf);
    if (RG_LIKELY(!stride))
        return g->flags & RG_CONTIGUOUS;
    for (int d = 0; d < g->ndim; d++)
        if (g->size[d] != 1 && g->stride[d] != stride[d])
            return false;
    return true;
}

/* Returns the gradient that a leaf will keep. Usually this is s->grad itself. If somebody else may
 * hold s->grad, or if its strides aren't those that the leaf's gradient is to have, returns a copy,
 * which the scope owns. If a graph is created and the leaf has a gradient already, returns the sum
 * of that gradient and s->grad. */
static rg_tensor *leaf_gradient(const rg_run *r, const rg_leaf_slot *s) {
    bool sum = r->create_graph && s->leaf->grad;
    if (sum && !rgi_may_do_once("backward"))
        return NULL;
    rg_tensor *own = s->grad;
    if (sum)
        own = rg_add(s->leaf->grad, s->grad);
    else if (!rgi_is_sole_owner(s->grad) || !lies_as_leaf(s->leaf, s->grad))
        own = rgi_copied(s->grad, rgi_leaf_strides(s->leaf));
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && own)
        own = o->gradient(o, s->leaf, own);
    return own;
}

/* Calls the leaves' hooks that haven't been called yet. If the run is to commit gradients, also
 * prepares the gradients that the leaves will keep. All this is done before any gradient is
 * committed, so that committing can't fail. */
static bool leaves_prepare(rg_run *r) {
    rg_leaf_slot *end = rgi_leaf_slots_end(&r->leaves);
    for (rg_leaf_slot *s = r->leaves.slots; s < end; s++) {
        if (!s->grad)
            continue;
        bool hooks_wait = rgi_has_hooks(s->leaf) && s->awaited != RG_LEAF_SEEN;
        if (hooks_wait && !rgi_run_hooks(s->leaf, 0, &s->grad))
            return false;
        if (!r->commits)
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

/* Returns the slot of the leaf to which an edge leads, or NULL if the edge leads to no leaf with
 * hooks. If the leaf's gradient isn't wanted, or the hooks were added during the run, the slot is
 * empty or its `awaited` is 0. */
static rg_leaf_slot *awaiting_slot(rg_run *r, const rg_edge *e) {
    bool hooked = e->node && !e->node->op && rgi_has_hooks(e->node);
    return hooked ? rgi_leaf_find(&r->leaves, e->node) : NULL;
}

/* Called after each node was visited or skipped. For each leaf that the node leads to, lowers the
 * number of steps that may still add to its gradient. Calls the leaf's hooks if the gradient is
 * complete now. */
static bool leaves_arrive(rg_run *r, const rg_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        rg_leaf_slot *s = awaiting_slot(r, &n->edge[i]);
        if (!s || s->awaited == 0 || --s->awaited > 0 || !s->grad)
            continue;
        s->awaited = RG_LEAF_SEEN;
        if (!rgi_run_hooks(s->leaf, 0, &s->grad))
            return false;
    }
    return true;
}

/* Prefetches the block of a node (node.h), or most of it. The nodes of a long graph lie beyond the
 * caches, and a step reads most lines of its node. */
static inline void fetch_node(const rg_node *n) {
    enum { LINE = 64, MOST = 512 };
    for (int at = 0; at < MOST; at += LINE)
        __builtin_prefetch((const char *)n + at);
}

static bool walk(rg_run *r) {
    enum { AHEAD = 2 };
    rg_scope_guard scope __attribute__((cleanup(rg_scope_close))) = rg_scope_open();
    for (size_t i = 0; i < r->n_nodes; i++) {
        rg_node *n = r->nodes[i];
        rg_tensor **g = &r->grads[n->slot];
        if (i + AHEAD < r->n_nodes)
            fetch_node(r->nodes[i + AHEAD]);
        if (r->capturing && !r->marks[n->slot])
            continue;
        bool ok = walk_node(r, n, g);
        drop_gradients(r, n, g, ok);
        if (!ok || (RG_UNLIKELY(r->awaits) && !leaves_arrive(r, n)))
            return false;
        rg_scope_restart(&scope);
    }
    return leaves_prepare(r);
}

/* ---- the beginning of a run -------------------------------------------------------- */

/* Adds 1 to the gradient of the root y. Fails unless y has one element. */
static bool root_one(rg_run *r, rg_tensor *y) {
    RG_FAIL_IF(y->numel != 1, r->op, "grad can be implicitly created only for scalar outputs");
    const rg_edge root = { rgi_node_of(y), y->output };
    if (!rgi_run_needs(r, &root))
        return true;
    rg_tensor **place = rgi_run_place(r, root);
    rg_tensor *one = place ? rgi_new_like(y, y->dtype) : NULL;
    if (!one)
        return false;
    rgi_store_f64(one->data, one->dtype, 1);
    if (RG_LIKELY(!*place)) {
        *place = one;
        return true;
    }
    RG_SCOPE();
    bool ok = rgi_accumulate_into(r, place, one);
    rgi_release(one);
    return ok;
}

static bool root_gradient(rg_run *r, rg_tensor *y, rg_tensor *gradient) {
    if (gradient == RG_NONE)
        return root_one(r, y);
    RG_SCOPE();
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
    const rg_edge root = { rgi_node_of(y), y->output };
    if (!rgi_run_needs(r, &root))
        return true;
    rg_tensor **place = rgi_run_place(r, root);
    return place && rgi_accumulate_into(r, place, gradient);
}

/* Marks the outputs whose gradients are asked for, and the nodes that lead to such an output or to
 * a leaf whose gradient is asked for. */
static bool mark_needed(rg_run *r, int m, rg_tensor *const x[]) {
    r->marks = rgi_alloc(r->n_grads * sizeof *r->marks, RG_MEM_OTHER);
    if (!r->marks)
        return false;
    memset(r->marks, 0, r->n_grads * sizeof *r->marks);
    return rgi_run_ask(r, m, x);
}

/* Fails if t doesn't require grad. `sentence` is the error message, a format for the number i. */
RG_HOT static bool require_grad(const char *op, rg_tensor *t, const char *sentence, int i) {
    return rgi_check(t, op) && rgi_renew(t, op)
           && (t->history || rgi_fail(RG_RUNTIME_ERROR, op, sentence, i));
}

static bool request_check(const request *q) {
    if (!rgi_given_list(q->n, q->y, q->op))
        return false;
    RG_FAIL_IF(q->results && (q->m < 1 || !q->x), q->op,
               "`inputs` argument to `grad()` cannot be empty.");
    RG_FAIL_IF(q->m == 0 && q->x, q->op, "`inputs` argument to `backward()` cannot be empty.");
    bool ok = true;
    for (int i = 0; i < q->n && ok; i++)
        ok = require_grad(q->op, q->y[i],
                          "element %d of tensors does not require grad and does not have a grad_fn",
                          i);
    for (int j = 0; j < q->m && ok && !q->results; j++)
        ok = rgi_check(q->x[j], q->op) && rg_retain_grad(q->x[j]);
    for (int j = 0; j < q->m && ok; j++)
        ok = require_grad(q->op, q->x[j], "One of the differentiated Tensors does not require grad",
                          j);
    return ok;
}

/* Counts, for each leaf with hooks, the steps that may add to its gradient. */
static bool await_leaves(rg_run *r) {
    r->awaits = true;
    for (size_t i = 0; i < r->n_nodes; i++) {
        const rg_node *n = r->nodes[i];
        for (const rg_edge *e = n->edge; e < n->edge + n->n_in; e++) {
            if (!e->node || e->node->op || !rgi_has_hooks(e->node) || !rgi_run_needs(r, e))
                continue;
            rg_leaf_slot *s = rgi_leaf_add(&r->leaves, e->node);
            if (!s)
                return false;
            s->awaited++;
        }
    }
    return true;
}

static bool make_gradients(rg_run *r) {
    r->grads = r->few_grads;
    if (r->n_grads > RG_FEW_NODES)
        r->grads = rgi_alloc(r->n_grads * sizeof *r->grads, RG_MEM_OTHER);
    if (!r->grads)
        return false;
    memset(r->grads, 0, r->n_grads * sizeof *r->grads);
    return true;
}

/* Checks the request, collects the nodes, and gives the roots their gradients. The run retains the
 * roots' nodes, since a hook that releases a root could otherwise destroy nodes of the run. */
static bool run_begin(rg_run *r, const request *q) {
    bool ok = request_check(q);
    for (int i = 0; i < q->n && ok; i++)
        ok = rgi_run_visit(r, rgi_node_of(q->y[i]));
    for (size_t i = 0; i < r->n_nodes; i++) {
        rgi_node_retain(r->nodes[i]);
        r->nodes[i]->held = true;
    }
    ok = ok && rgi_run_collect(r);
    ok = ok && (!r->n_grads || make_gradients(r));
    ok = ok && (!r->capturing || mark_needed(r, q->m, q->x));
    ok = ok && (!rgi_were_leaves_hooked() || await_leaves(r));
    for (int i = 0; i < q->n && ok; i++)
        ok = root_gradient(r, q->y[i], q->gradients ? q->gradients[i] : RG_NONE);
    return ok;
}

/* ---- the end of a run -------------------------------------------------------------- */

static void leaf_commit(const rg_run *r, rg_leaf_slot *s) {
    rg_node *leaf = s->leaf;
    if (leaf->grad && !r->create_graph) {
        k_run(k_add, leaf->grad, leaf->grad, s->grad);
        rgi_count_write(leaf->grad, "backward");
        rgi_gradient_was_added_to(leaf->grad);
    } else {
        rgi_release(leaf->grad);
        leaf->grad = s->grad;
        s->grad = NULL;
        if (leaf->grad->flags & RG_VIEW)
            rgi_view_leave(leaf->grad);
    }
}

/* Asks the observers about each leaf's .grad that the run will add to in place. Returns false if an
 * observer refuses. */
static bool leaves_may_commit(const rg_run *r) {
    if (!rgi_is_observed(RG_SEES_COMMITS) || r->create_graph)
        return true;
    const rg_leaf_slot *end = rgi_leaf_slots_end(&r->leaves);
    for (const rg_leaf_slot *s = r->leaves.slots; s < end; s++) {
        if (s->grad && s->leaf->grad && !rgi_may_add(s->leaf->grad))
            return false;
    }
    return true;
}

static void leaves_commit(rg_run *r) {
    bool alone = RG_ALONE;
    if (!alone)
        rgi_lock(RG_LOCK_GRADIENTS);
    rg_leaf_slot *end = rgi_leaf_slots_end(&r->leaves);
    for (rg_leaf_slot *s = r->leaves.slots; s < end; s++)
        if (s->grad && rgi_leaf_is_open(s->leaf))
            leaf_commit(r, s);
    if (!alone)
        rgi_unlock(RG_LOCK_GRADIENTS);
}

static rg_tensor *result_of(const rg_run *r, rg_tensor *x, int index, bool allow_unused) {
    rg_node *n = rgi_node_of(x);
    rg_tensor *g = NULL;
    if (!n->op)
        g = rgi_leaf_find(&r->leaves, n)->grad;
    else if (n->run == (uintptr_t)r)
        g = r->grads[n->slot + x->output];
    RG_FAIL_IF(!g && !allow_unused, "grad",
               "The differentiated Tensor at index %d appears to not have been used in the graph. "
               "Set allow_unused=True if this is the desired behavior.",
               index);
    return g ? rgi_lend(g) : RG_NONE;
}

/* Commits the gradients to the leaves, or stores the results that were asked for. */
static bool run_finish(rg_run *r, const request *q) {
    if (r->commits && !leaves_may_commit(r))
        return false;
    if (r->commits)
        leaves_commit(r);
    bool ok = true;
    for (int j = 0; j < q->m && ok && q->results; j++) {
        q->results[j] = result_of(r, q->x[j], j, q->options->allow_unused);
        ok = q->results[j] != NULL;
    }
    return ok;
}

/* ---- hooks that are called after the gradients were committed ---------------------- */

/* The leaves that have post-accumulate-grad hooks and get a gradient in this run. The list holds a
 * reference to each leaf's node. */
typedef struct {
    rg_leaf_slot *v;
    size_t n, room;
} leaves_hooked;

static int by_completion(const void *a, const void *b) {
    const uint32_t x = ((const rg_leaf_slot *)a)->last, y = ((const rg_leaf_slot *)b)->last;
    return (x > y) - (x < y);
}

/* Returns whether the slot has a gradient, and its leaf has post-accumulate-grad hooks. */
static inline bool is_hooked(const rg_leaf_slot *s) {
    return s->grad && rgi_has_hooks(s->leaf) && rgi_has_hooks_after(s->leaf);
}

/* Lists the leaves whose hooks will be called after the commit. The list is made before any
 * gradient is committed, because memory may run out. While a training step is being recorded, the
 * list is empty: leaves_prepare fails if a leaf has hooks. */
static bool list_hooked(const rg_run *r, leaves_hooked *l) {
    const rg_leaf_slot *end = rgi_leaf_slots_end(&r->leaves);
    size_t most = 0;
    for (const rg_leaf_slot *s = r->leaves.slots; s < end; s++)
        most += is_hooked(s);
    if (RG_LIKELY(!most) || !r->commits)
        return true;
    if (!rgi_grow((void **)&l->v, &l->room, most, sizeof *l->v))
        return false;
    for (const rg_leaf_slot *s = r->leaves.slots; s < end; s++)
        if (is_hooked(s)) {
            l->v[l->n++] = *s;
            rgi_node_retain(s->leaf);
        }
    return true;
}

/* Calls the hooks of the leaves in the list if the run succeeded (`ok`). Releases the leaves, and
 * frees the list. */
static bool run_hooked(const leaves_hooked *l, bool ok) {
    if (RG_LIKELY(!l->n))
        return ok;
    qsort(l->v, l->n, sizeof *l->v, by_completion);
    for (size_t i = 0; i < l->n; i++) {
        ok = ok && rgi_run_hooks_after(l->v[i].leaf);
        rgi_node_release(l->v[i].leaf);
    }
    rgi_free(l->v, l->room * sizeof *l->v, RG_MEM_OTHER);
    return ok;
}

/* Frees the run. `ok` says whether the visits of all nodes succeeded. If they did, r->grads has
 * only gradients that were asked for. */
static void run_free(rg_run *r, bool ok) {
    if (r->grads && (!ok || r->capturing))
        for (size_t i = 0; i < r->n_grads; i++)
            rgi_release(r->grads[i]);
    if (r->grads != r->few_grads)
        rgi_free(r->grads, r->n_grads * sizeof *r->grads, RG_MEM_OTHER);
    if (r->marks)
        rgi_free(r->marks, r->n_grads * sizeof *r->marks, RG_MEM_OTHER);
    rgi_leaf_table_end(&r->leaves);
    rgi_run_let_go(r);
}

RG_HOT static bool differentiate(const request *q) {
    rg_run r;
    leaves_hooked hooked = { 0 };
    rgi_run_init(&r);
    r.op = q->op;
    r.create_graph = q->options->create_graph;
    r.retain = q->options->retain_graph || q->options->create_graph;
    r.capturing = q->x;
    r.commits = !q->results;
    const char *outer = rgi_applying;
    rgi_applying = q->op;
    bool before = rg_set_grad_enabled(r.create_graph);
    bool ok = run_begin(&r, q);
    const size_t reached = rgi_null_reached_bytes();
    ok = ok && walk(&r) && list_hooked(&r, &hooked) && run_finish(&r, q);
    for (int j = 0; j < q->m && !ok && q->results; j++)
        q->results[j] = NULL;
    run_free(&r, ok);
    ok = run_hooked(&hooked, ok);
    rg_set_grad_enabled(before);
    rgi_applying = outer;
    if (!ok)
        rgi_null_stayed_inside(reached);
    return ok || rgi_halt_training();
}

/* ---- the public functions ---------------------------------------------------------- */

bool(rg_backward_many)(int n, rg_tensor *const y[], rg_tensor *const gradients[],
                       rg_backward_options options) {
    const rg_list x = options.inputs;
    if (!rgi_given_list(x.n, x.v, "backward"))
        return rgi_halt_training();
    return differentiate(&(request){ .op = "backward",
                                     .n = n,
                                     .y = y,
                                     .gradients = gradients,
                                     .m = x.n,
                                     .x = x.v,
                                     .options = &options });
}

bool(rg_grad_many)(int n, rg_tensor *const y[], rg_tensor *const gradients[], int m,
                   rg_tensor *const x[], rg_tensor *results[], rg_backward_options options) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !results, "grad", "there is no room for results: got NULL");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, options.inputs.v, "grad",
                  "grad() got multiple values for argument 'inputs'");
    return differentiate(&(request){ .op = "grad",
                                     .n = n,
                                     .y = y,
                                     .gradients = gradients,
                                     .m = m,
                                     .x = x,
                                     .results = results,
                                     .options = &options });
}

/* Returns whether y is a tensor with one element, as a loss is, and its value is NaN. */
static bool is_nan_loss(const rg_tensor *y) {
    return y && y != RG_NONE && y->state == RG_ALIVE && y->numel == 1
           && isnan(rgi_load_f64(y->data, (rg_dtype)y->dtype));
}

RG_HOT bool rg_backward_with(rg_tensor *y, rg_backward_options options) {
    const bool is_nan = is_nan_loss(y);
    if (!rg_backward_many(1, &y, &options.gradient, options))
        return false;
    if (RG_UNLIKELY(is_nan))
        rgi_warn("backward", "the loss is nan, and so are most gradients: "
                             "rg_set_detect_anomaly(true) finds the op that made the first nan");
    return true;
}

rg_tensor *rg_grad_with(rg_tensor *y, rg_tensor *x, rg_backward_options options) {
    rg_tensor *result;
    bool ok = rg_grad_many(1, &y, &options.gradient, 1, &x, &result, options);
    return ok ? result : NULL;
}

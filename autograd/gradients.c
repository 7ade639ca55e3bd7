/*
 * gradients.c: the gradients of a backward run. The step of a node computes the gradients of the
 * node's inputs, by the op's fused derivative or by its rules, and adds them to the gradients of
 * the nodes and leaves that the edges lead to. Only this file adds the gradients of one run to each
 * other, and sums them over broadcast dims. engine.c decides in which order the nodes are visited,
 * and step.c gives a rule its values.
 */
#include "graph_observer.h"
#include "tensor/observer.h"
#include "tensor/thread.h"
#include "run.h"

/* ---- summing gradients ------------------------------------------------------------- */

/* Returns whether only the caller holds references to t, to its storage and to its base, and t has
 * no history and no gaps. The references of the thread's observer, if there is one, don't count. */
RG_HOT bool rgi_is_sole_owner(const rg_tensor *t) {
    rg_graph_observer *o = rgi_graph_observer();
    const int observed = RG_UNLIKELY(o != NULL) ? o->references(o, t) : 0;
    bool only = t->storage->refs == 1 + observed;
    if (t->flags & RG_VIEW)
        only = t->storage->refs == 2 + observed && rgi_base_of(t)->refs == 1 + observed;
    return t->refs == 1 + observed && only && !t->history && rgi_is_dense(t);
}

/* Adds g to *to. Requires that *to isn't NULL. */
static __attribute__((noinline)) bool add_to(const rg_run *r, rg_tensor **to, rg_tensor *g) {
    if (!r->create_graph && rgi_is_sole_owner(*to)) {
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

static inline bool accumulate_into(const rg_run *r, rg_tensor **to, rg_tensor *g) {
    if (*to)
        return add_to(r, to, g);
    rgi_retain(g);
    *to = g;
    return true;
}

bool rgi_accumulate_into(const rg_run *r, rg_tensor **to, rg_tensor *g) {
    return accumulate_into(r, to, g);
}

RG_HOT rg_tensor **rgi_run_place(rg_run *r, rg_edge e) {
    if (e.node->op)
        return &r->grads[e.node->slot + e.output];
    rg_leaf_slot *s = rgi_leaf_add(&r->leaves, e.node);
    if (!s)
        return NULL;
    s->last = ++r->contributions;
    return &s->grad;
}

static inline bool fits(const rg_tensor *g, const rg_meta *meta) {
    if (g->ndim != meta->ndim || g->dtype != meta->dtype)
        return false;
    for (int d = 0; d < g->ndim; d++)
        if (g->size[d] != meta->size[d])
            return false;
    return true;
}

/* Sets *sum to the dims of g over which it must be summed to get the shape in `meta`. The sum may
 * have further leading dims of size 1. Returns false if g can't be summed to that shape. */
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

bool rgi_may_sum_to(const rg_tensor *g, const rg_meta *meta) {
    rg_dims sum;
    return dims_to_sum(g, meta, &sum);
}

rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta) {
    rg_dims sum;
    RG_FAIL_IF(!dims_to_sum(g, meta, &sum), NULL,
               "returned an invalid gradient: got %s but expected shape compatible with %s",
               RG_SHAPE_TEXT(g), RG_SHAPE_TEXT(meta));
    bool reshapes = g->ndim != meta->ndim;
    if (sum.n)
        g = rg_sum_dims(g, sum, true);
    if (reshapes)
        g = rg_reshape_dims(g, rgi_meta_dims(meta));
    if (g && g->dtype != meta->dtype)
        g = rg_to(g, meta->dtype);
    return g;
}

/* ---- the step of a node ------------------------------------------------------------ */

RG_HOT bool rgi_run_needs(const rg_run *r, const rg_edge *e) {
    if (!e->node)
        return false;
    if (!r->capturing)
        return true;
    if (e->node->op)
        return r->marks[e->node->slot] & RG_LEADS;
    return rgi_leaf_find(&r->leaves, e->node)->leaf != NULL;
}

/* Returns the gradient g of input i in the shape and the dtype of the input. Observers see g before
 * it is summed or converted. */
static inline rg_tensor *finished_gradient(const rg_step *s, int i, rg_tensor *g) {
    if (rgi_is_observed(RG_SEES_GRADIENTS) && !rgi_made_gradient(s, g, i))
        return NULL;
    const rg_edge *e = &s->node->edge[i];
    const rg_meta *meta = &e->node->meta[e->output];
    return RG_LIKELY(fits(g, meta)) ? g : rgi_sum_to(g, meta);
}

/* Adds the gradient g of input i to the gradient of the node or leaf that edge i leads to. */
static bool pass(rg_run *r, const rg_step *s, int i, rg_tensor *g) {
    g = finished_gradient(s, i, g);
    rg_tensor **place = g ? rgi_run_place(r, s->node->edge[i]) : NULL;
    return place && accumulate_into(r, place, g);
}

/* Does the same as `pass` for *own, the gradient of input i, to which the step holds a reference.
 * If the target of edge i has no gradient yet, and *own needn't be summed or converted, *own
 * becomes its gradient. The gradient takes over the step's reference, and *own is set to NULL. */
static bool pass_own(rg_run *r, const rg_step *s, int i, rg_tensor **own) {
    rg_tensor *g = finished_gradient(s, i, *own);
    rg_tensor **place = g ? rgi_run_place(r, s->node->edge[i]) : NULL;
    if (!place)
        return false;
    if (*place || g != *own)
        return rgi_accumulate_into(r, place, g);
    *place = g;
    *own = NULL;
    return true;
}

/* Replaces *place by a new buffer that may be written to. The buffer gets the values of *place, or
 * zeros if *place is NULL. */
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

/* Lets the rule's `into` add the gradient of input i to the gradient at the end of edge i. If that
 * gradient is missing, or may not be written to, it is first replaced by a buffer. */
static bool pass_into(rg_run *r, rg_step *s, int i, const rg_gradient *rule) {
    rg_edge e = s->node->edge[i];
    rg_tensor **place = rgi_run_place(r, e);
    if (!place)
        return false;
    bool usable = *place && (*place)->flags & RG_CONTIGUOUS && rgi_is_sole_owner(*place);
    if (!usable && !make_buffer(place, &e.node->meta[e.output]))
        return false;
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL))
        return o->step(o, s, NULL, rule, *place);
    return rule->into(s, rgi_step_g(s, 0), *place);
}

/* Computes the gradient of input i by its rule, and adds it to the gradient at the end of edge i. A
 * rule returns RG_NONE if the input has no gradient. */
RG_HOT static bool pass_by_rule(rg_run *r, rg_step *s, int i) {
    const rg_gradient *rule = rgi_gradient_of(s->op, i);
    if (rule->into && !r->create_graph && !s->node->half)
        return pass_into(r, s, i, rule);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !rule->rule, s->op->name,
                  "the derivative for input %d is not implemented", i);
    s->input = i;
    rg_tensor *first = RG_LIKELY(s->g[0] != NULL) ? s->g[0] : rgi_step_g(s, 0);
    bool inside = rgi_in_rule;
    rgi_in_rule = true;
    rg_tensor *g = first ? rule->rule(s, first) : NULL;
    rgi_in_rule = inside;
    if (!g)
        return false;
    return g == RG_NONE || pass(r, s, i, g);
}

/* Adds each input gradient that is wanted to the gradient of the node or leaf to which the input's
 * edge leads. If `fused` and fused[i] aren't NULL, fused[i] is the gradient of input i. The
 * gradients of the other inputs are computed here, by their rules. */
RG_INLINED bool pass_all(rg_run *r, rg_step *s, rg_tensor *fused[]) {
    const rg_node *n = s->node;
    bool ok = true;
    for (int i = 0; i < n->n_in && ok; i++) {
        bool wanted = i < RG_INPUTS ? rgi_wants(s, i) : rgi_run_needs(r, &n->edge[i]);
        if (!wanted)
            continue;
        if (fused && i < RG_MAX_RULES && fused[i])
            ok = pass_own(r, s, i, &fused[i]);
        else
            ok = pass_by_rule(r, s, i);
    }
    return ok;
}

static bool make_fused(const rg_step *s, rg_tensor *fused[]) {
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL))
        return o->step(o, s, fused, NULL, NULL);
    return s->op->fused(s, fused);
}

/* Returns a mask with a bit for each gradient that isn't NULL. */
static uint32_t mask_of(rg_tensor *const gradients[]) {
    uint32_t mask = 0;
    for (int i = 0; i < RG_MAX_RULES; i++)
        if (gradients[i])
            mask |= RG_IN(i);
    return mask;
}

/* Computes input gradients by the op's fused derivative. A gradient that the fused derivative
 * leaves NULL is computed by a rule. Adds all gradients, as pass_all does. If an observer is told
 * of steps (RG_SEES_SPANS), sets *made to the mask of the gradients that the fused derivative
 * computed. */
RG_HOT static __attribute__((noinline)) bool pass_fused(rg_run *r, rg_step *s, uint32_t *made) {
    rg_tensor *fused[RG_MAX_RULES] = { NULL };
    bool ok = make_fused(s, fused);
    if (rgi_is_observed(RG_SEES_SPANS))
        *made = mask_of(fused);
    ok = ok && pass_all(r, s, fused);
    for (int i = 0; i < RG_MAX_RULES && i < s->n_in; i++)
        rgi_release(fused[i]);
    return ok;
}

/* Computes the gradients of an op that a user has defined, and adds them. Sets, in the mask *made,
 * the bits of the inputs whose gradients were computed. */
static __attribute__((noinline)) bool pass_together(rg_run *r, const rg_step *s, uint32_t *made) {
    rg_tensor *gin[RG_INPUTS] = { NULL };
    rg_graph_observer *o = rgi_graph_observer();
    bool ok;
    if (o && !s->create_graph)
        ok = o->step(o, s, gin, NULL, NULL);
    else
        ok = s->op->together(s, gin);
    for (int i = 0; i < s->n_in && ok; i++) {
        if (!gin[i])
            continue;
        *made |= RG_IN(i);
        ok = pass_own(r, s, i, &gin[i]);
    }
    for (int i = 0; i < s->n_in; i++)
        rgi_release(gin[i]);
    return ok;
}

/* Fills wide[] with the gradients of the outputs, then the saved values, for the step to compute
 * with. Copies in float32 take the place of tensors of 16 bits. Returns false on failure. */
static __attribute__((noinline)) bool widen_step(rg_step *s, rg_tensor *wide[]) {
    rg_node *n = s->node;
    for (int i = 0; i < n->n_out + n->n_saved; i++) {
        const int slot = i - n->n_out, output = slot - n->n_in;
        wide[i] = slot < 0 ? s->g[i] : n->saved[slot];
        if (!wide[i] || !rgi_is_half(wide[i]->dtype))
            continue;
        rg_edge e = { slot < 0 ? NULL : n, (uint32_t)output };
        if (slot >= 0 && output < 0)
            e = n->edge[slot];
        if (s->create_graph && e.node)
            wide[i] = rgi_join(wide[i], e.node, e.output);
        wide[i] = rg_to(wide[i], RG_FLOAT32);
        if (!wide[i])
            return false;
    }
    s->g = wide;
    s->wide = wide + n->n_out;
    return true;
}

RG_HOT bool rgi_run_step(rg_run *r, rg_node *n) {
    rg_tensor *wide[2 * RG_MAX_OUTPUTS + RG_INPUTS];
    rg_step s = { .node = n,
                  .op = n->op,
                  .attr = n->attr,
                  .n_in = n->n_in,
                  .g = &r->grads[n->slot],
                  .create_graph = r->create_graph,
                  .wanted = n->wanted };
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, n->op->no_grad, n->op->name, "%s", n->op->no_grad);
    for (int i = 0; r->capturing && i < n->n_in && i < RG_INPUTS; i++)
        if (!rgi_run_needs(r, &n->edge[i]))
            s.wanted &= ~RG_IN(i);
    if (RG_UNLIKELY(n->half) && !n->op->moves && !n->op->together && !widen_step(&s, wide))
        return false;
    bool ok;
    const bool spanned = rgi_is_observed(RG_SEES_SPANS);
    rg_span span;
    uint32_t made = 0;
    if (spanned)
        rgi_begin_span(&span);
    if (RG_UNLIKELY(n->op->together != NULL))
        ok = pass_together(r, &s, &made);
    else if (n->op->fused && !r->create_graph)
        ok = pass_fused(r, &s, &made);
    else
        ok = pass_all(r, &s, NULL);
    if (spanned && ok)
        rgi_end_step(&span, &s, made);
    return ok;
}

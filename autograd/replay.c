/*
 * replay.c: what a recording (tensor/replay.c) notes of applications, of backward
 * steps and of leaves' gradients.
 */
#include "node.h"

/* ---- an application: the forward, on the same inputs and outputs; a view stays as it is ---- */
typedef struct {
    rg_call call;
    bool alike;
    rg_tensor *in[];
} noted_call;

static bool call_again(void *context) {
    noted_call *n = context;
    rg_call *c = &n->call;
    if (!c->op->kernel)
        return c->op->forward(c);
    bool alike = n->alike && c->out[0]->flags & RG_CONTIGUOUS;
    /* it may have other data */
    for (int i = 0; i < c->n_in; i++)
        alike &= c->in[i]->flags & RG_CONTIGUOUS;
    if (alike)
        return rgi_run_alike(c);
    return k_run_with(c->op->kernel, c->out[0], c->in, NULL);
}

bool rgi_note_call(const rg_call *c, size_t attr_size, bool alike) {
    for (int i = 0; i < c->n_in; i++)
        rgi_hold(c->in[i]);
    for (int k = 0; k < c->n_out; k++)
        rgi_hold(c->out[k]);
    if (c->op->by_value)
        return rgi_not_again(c->op->name);
    noted_call *n = c->op->view ? NULL
                                : rgi_note(call_again, NULL,
                                           sizeof *n + (size_t)c->n_in * sizeof *n->in + attr_size);
    if (!n)
        return true;
    n->call = *c;
    n->alike = alike;
    n->call.in = n->in;
    n->call.attr = n->in + c->n_in;
    memcpy(n->in, c->in, (size_t)c->n_in * sizeof *n->in);
    if (attr_size)
        memcpy(n->in + c->n_in, c->attr, attr_size);
    return true;
}

/* ---- a backward step: its fused gradients, which rgi_new makes in the order in which it made them; or one that is
 *      added into its input's buffer ---- */
typedef struct {
    /* and a copy, with saved values of the recording's own */
    rg_node *of, node;
    rg_step step;
    const rg_gradient *rule;
    rg_replay *replay;
    size_t first;
    rg_tensor *buffer, *g[RG_MAX_OUTPUTS], *saved[];
} noted_step;

/* Of what begins with its node. */
static void node_drop(void *context) { rgi_node_release(*(rg_node **)context); }

static bool step_again(void *context) {
    noted_step *n = context;
    rg_tensor *gin[RG_MAX_RULES] = { NULL };
    rgi_this.again = n->replay->held + n->first; /* rgi_new gives what it gave then */
    rgi_this.again_end = n->replay->held + n->replay->n_held;
    bool ok = n->buffer ? n->rule->into(&n->step, rgi_step_g(&n->step, 0), n->buffer)
                        : n->step.op->fused(&n->step, gin);
    rgi_this.again = NULL;
    for (int i = 0; i < RG_MAX_RULES; i++)
        rgi_release(gin[i]);
    return ok;
}

/* buffer NULL: fused. */
bool rgi_note_step(const rg_step *s, rg_tensor *gin[], const rg_gradient *rule, rg_tensor *buffer) {
    rg_thread *me = &rgi_this;
    const rg_node *node = s->node;
    noted_step *n = rgi_note(step_again, node_drop, sizeof *n + node->n_saved * sizeof *n->saved);
    if (!n)
        return false;
    *n = (noted_step){ .step = *s,
                       .of = s->node,
                       .node = *node,
                       .buffer = buffer,
                       .rule = rule,
                       .replay = me->recording };
    n->step.node = &n->node;
    n->step.g = n->g;
    n->node.saved = n->saved;
    rgi_node_retain(n->of);
    for (int k = 0; k < node->n_out; k++)
        rgi_hold(n->g[k] = s->g[k]);
    rgi_hold(buffer);
    for (int i = 0; i < node->n_saved; i++) {
        rgi_hold(n->saved[i] = node->saved[i] ? rgi_alias(node->saved[i]) : NULL);
        rgi_release(n->saved[i]);
    }
    n->first = me->recording->n_held;
    me->logging = true;
    me->inside++;
    bool ok = buffer ? rule->into(s, rgi_step_g(s, 0), buffer) : s->op->fused(s, gin);
    me->inside--;
    me->logging = false;
    return ok;
}

/* ---- a leaf's gradient: g, if the step has taken away what was there; else g is added to it. g NULL: it is taken away.
 *      The sum is one tensor in all runs, since the step may read it ---- */
typedef struct {
    rg_node *leaf;
    rg_tensor *g, *sum;
} noted_leaf;

static bool leaf_again(void *context) {
    noted_leaf *n = context;
    rg_tensor **grad = &n->leaf->grad, *now = n->sum ? n->sum : n->g;
    if (n->sum && *grad)
        return k_run(k_add, *grad, *grad, n->g), true;
    if (n->sum)
        rgi_copy_elements(n->sum, n->g);
    if (*grad == now)
        return true;
    if (now)
        rgi_retain(now);
    rgi_release(*grad);
    *grad = now;
    return true;
}

rg_tensor *rgi_note_leaf(rg_node *leaf, rg_tensor *g) {
    uint64_t id = rgi_this.recording->id, before = leaf->cleared;
    leaf->cleared = g ? ~id : id; /* a second backward of the step adds */
    noted_leaf *n = g || before == ~id ? rgi_note(leaf_again, node_drop, sizeof *n) : NULL;
    if (!n)
        return NULL;
    *n = (noted_leaf){ leaf, g, NULL };
    rgi_node_retain(leaf);
    rgi_hold(g);
    if (!g || before == id)
        return g;
    rgi_lend_anew(leaf->grad);
    if (leaf->grad)
        return rgi_hold(n->sum = leaf->grad), g;
    if (!(n->sum = rgi_own(rgi_new_like(g, g->dtype))))
        return NULL;
    rgi_copy_elements(n->sum, g);
    rgi_made_again(n->sum, "backward");
    rgi_hold(n->sum);
    return n->sum;
}

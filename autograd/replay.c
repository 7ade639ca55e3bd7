/*
 * replay.c: what a recording (tensor/replay.c) notes of applications, of backward
 * steps and of leaves' gradients.
 */
#include "op.h"

/* ---- an application: the forward, on the same inputs and outputs; a view stays as it is ------------ */
typedef struct { rg_call call; rg_tensor *in[]; } noted_call;

static bool call_again(void *context) {
    rg_call *c = &((noted_call *)context)->call;
    if (!c->op->kernel) return c->op->forward(c);
    k_run_with(c->op->kernel, c->out[0], c->in, NULL);
    return true;
}

bool rg_note_call(const rg_call *c, size_t attr_size) {
    for (int i = 0; i < c->n_in; i++) rg_hold(c->in[i]);
    for (int k = 0; k < c->n_out; k++) rg_hold(c->out[k]);
    if (c->op->by_value) return rg_not_again(c->op->name);
    noted_call *n = c->op->view ? NULL : rg_note(call_again, NULL, sizeof *n + (size_t)c->n_in * sizeof *n->in + attr_size);
    if (!n) return true;
    n->call = *c;
    n->call.in = n->in;
    n->call.attr = n->in + c->n_in;
    memcpy(n->in, c->in, (size_t)c->n_in * sizeof *n->in);
    if (attr_size) memcpy(n->in + c->n_in, c->attr, attr_size);
    return true;
}

/* ---- a backward step: its fused gradients, which rg_new makes in the order in which it made them; or one that is
 *      added into its input's buffer. Saved values are the recording's own, since the node's end with the step ---- */
typedef struct {
    rg_step            step;
    rg_node            node, *of;                       /* a copy, and what it was made of */
    const rg_gradient *rule;
    rg_replay         *replay;
    size_t             first;
    rg_tensor         *buffer, *g[RG_MAX_OUTPUTS], *saved[];
} noted_step;

static void step_drop(void *context) { rg_node_release(((noted_step *)context)->of); }

static bool step_again(void *context) {
    noted_step *n = context;
    rg_tensor *gin[RG_MAX_RULES] = { NULL };
    rg_this.again = n->replay->held + n->first;         /* rg_new gives what it gave then */
    rg_this.again_end = n->replay->held + n->replay->n_held;
    bool ok = n->buffer ? n->rule->into(&n->step, rg_step_g(&n->step, 0), n->buffer) : n->step.op->fused(&n->step, gin);
    rg_this.again = NULL;
    for (int i = 0; i < RG_MAX_RULES; i++) rg_release(gin[i]);
    return ok;
}

/* buffer NULL: fused. */
bool rg_note_step(const rg_step *s, rg_tensor *gin[], const rg_gradient *rule, rg_tensor *buffer) {
    rg_thread *me = &rg_this;
    const rg_node *node = s->node;
    noted_step *n = rg_note(step_again, step_drop, sizeof *n + node->n_saved * sizeof *n->saved);
    if (!n) return false;
    *n = (noted_step){ .step = *s, .of = s->node, .buffer = buffer, .rule = rule, .replay = me->recording };
    memcpy(&n->node, node, sizeof *node);
    n->step.node = &n->node, n->step.g = n->g, n->node.saved = n->saved;
    rg_node_retain(n->of);
    for (int k = 0; k < node->n_out; k++) rg_hold(n->g[k] = s->g[k]);
    rg_hold(buffer);
    for (int i = 0; i < node->n_saved; i++) {
        rg_hold(n->saved[i] = node->saved[i] ? rg_alias(node->saved[i]) : NULL);
        rg_release(n->saved[i]);
    }
    n->first = me->recording->n_held;
    me->logging = true;
    me->inside++;
    bool ok = buffer ? rule->into(s, rg_step_g(s, 0), buffer) : s->op->fused(s, gin);
    me->inside--;
    me->logging = false;
    return ok;
}

/* ---- a leaf's gradient: g, if the step has taken away what was there; else g is added to it ------------- */
typedef struct { rg_node *leaf; rg_tensor *g; bool add; } noted_leaf;

static void leaf_drop(void *context) {
    rg_node_release(((noted_leaf *)context)->leaf);
    rg_release(((noted_leaf *)context)->g);
}

static bool leaf_again(void *context) {
    noted_leaf *n = context;
    RG_REFUSE(n->add && !n->leaf->grad, "replay_run", "a gradient that the step adds to has been taken away");
    if (n->add) {
        k_run(k_add, n->leaf->grad, n->leaf->grad, n->g);
    } else if (n->leaf->grad != n->g) {
        rg_retain(n->g);
        rg_release(n->leaf->grad);
        n->leaf->grad = n->g;
    }
    return true;
}

rg_tensor *rg_note_leaf(rg_node *leaf, rg_tensor *g) {
    noted_leaf *n = rg_note(leaf_again, leaf_drop, sizeof *n);
    if (!n) return NULL;
    *n = (noted_leaf){ leaf, g, leaf->cleared != rg_this.recording->id };
    leaf->cleared = 0;                                  /* a second backward of the step adds */
    rg_node_retain(leaf);
    rg_retain(g);                                       /* as a run finds it, .grad is it to the end */
    rg_hold(g);
    if (n->add) rg_lend_anew(leaf->grad);
    if (!n->add || leaf->grad) return g;
    rg_tensor *first = rg_new_like(g, g->dtype);        /* g is written to in every run */
    if (first) rg_copy_elements(first, g);
    return rg_own(first);
}

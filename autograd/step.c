/*
 * step.c: functions by which a gradient rule reads its step: saved values, the gradients of the
 * outputs, and the shapes of the inputs. engine.c and gradients.c call the rules.
 */
#include "engine.h"

__thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));

/* ---- reading saved values ---------------------------------------------------------- */

/* Fails with torch's error message for the value t in `slot`, which was freed (t is NULL) or was
 * written to after it was saved. */
static void fail_for_saved(const rg_step *s, int slot, const rg_node *from, const rg_tensor *t) {
    const rg_node *n = s->node;
    if (!t) {
        rg_fail(RG_RUNTIME_ERROR, s->op->name,
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Saved intermediate values of the "
                "graph are freed when you call rg_backward or rg_grad. Specify .retain_graph = "
                "true if you need to backward through the graph a second time.");
        return;
    }
    const char *name = from ? from->base.name : NULL;
    const char *named = name ? " named " : "";
    bool input = slot < n->n_in;
    const char *what = input ? "input" : "output";
    int number = input ? slot : slot - n->n_in;
    rg_fail(RG_RUNTIME_ERROR, s->op->name,
            "one of the variables needed for gradient computation has been modified by an inplace "
            "operation: [torch.%sTensor %s]%s%s, which is %s %d of %s, is at version %u; expected "
            "version %u instead. The last write was by %s.",
            rgi_scalar_name(t->dtype), RG_SHAPE_TEXT(t), named, name ? name : "", what, number,
            rgi_node_name(n), t->storage->version, n->version[slot], t->storage->mutation);
}

/* Called if the step's node has no usable value in `slot`. Returns RG_NONE if the value belongs to
 * an absent input. Otherwise fails and returns NULL. If the rule goes on and reads further values
 * that can't be used, they add no further failures. */
static __attribute__((noinline)) rg_tensor *saved_unusable(const rg_step *s, int slot,
                                                           rg_node *from, const rg_tensor *t) {
    static __thread const rg_step *failed;
    static __thread int64_t failures;
    if (!t && !s->node->freed)
        return RG_NONE;
    const bool is_same_failure = failed == s && failures == rgi_this.failures.all;
    if (!is_same_failure || !rgi_this.failure.unread)
        fail_for_saved(s, slot, from, t);
    failed = s;
    failures = rgi_this.failures.all;
    return NULL;
}

/* Returns the value that the step's node saved in `slot`. The value is output number `output` of
 * the node `from`, or has no node if `from` is NULL. A rule gets an alias of the value. The rule
 * may return this alias as a gradient; the header in `saved` is freed with the step's node. */
static inline rg_tensor *saved_at(const rg_step *s, int slot, rg_node *from, uint32_t output) {
    rg_node *n = s->node;
    rg_tensor *t = slot < n->n_saved ? n->saved[slot] : NULL;
    if (RG_UNLIKELY(!t || (n->version && t->storage->version != n->version[slot])))
        return saved_unusable(s, slot, from, t);
    if (RG_UNLIKELY(s->wide != NULL) && s->wide[slot] != t)
        return s->wide[slot];
    if (RG_UNLIKELY(s->create_graph) && from && rgi_is_float(t->dtype))
        return rgi_join(t, from, output);
    return rgi_in_rule ? rgi_own(rgi_alias(t)) : t;
}

RG_HOT rg_tensor *rgi_saved(const rg_step *s, int input) {
    return saved_at(s, input, s->node->edge[input].node, s->node->edge[input].output);
}

rg_tensor *rgi_saved_output_at(const rg_step *s, int output) {
    return saved_at(s, s->n_in + output, s->node, (uint32_t)output);
}

RG_HOT rg_tensor *rgi_saved_output(const rg_step *s) { return rgi_saved_output_at(s, 0); }

/* ---- gradients of outputs, and shapes of inputs ------------------------------------ */

rg_tensor *rgi_step_g(const rg_step *s, int output) {
    if (s->g[output])
        return s->g[output];
    const rg_meta *m = &s->node->meta[output];
    rg_tensor *zero = rgi_own(rgi_new(s->wide ? RG_FLOAT32 : m->dtype, m->ndim, m->size));
    if (zero)
        rgi_fill_zero(zero);
    return zero;
}

static const rg_meta *input_meta(const rg_step *s, int input) {
    const rg_edge *e = &s->node->edge[input];
    return &e->node->meta[e->output];
}

RG_HOT const int64_t *rgi_input_size(const rg_step *s, int input) {
    return input_meta(s, input)->size;
}
rg_dims rgi_input_dims(const rg_step *s, int input) { return rgi_meta_dims(input_meta(s, input)); }
RG_HOT int rgi_input_ndim(const rg_step *s, int input) { return input_meta(s, input)->ndim; }
rg_dtype rgi_input_dtype(const rg_step *s, int input) {
    const rg_dtype dtype = input_meta(s, input)->dtype;
    return s->wide ? rgi_computed_in(dtype) : dtype;
}

rg_tensor *rgi_input_zeros(const rg_step *s) {
    return rg_zeros_dims(rgi_input_dims(s, s->input), rgi_input_dtype(s, s->input));
}

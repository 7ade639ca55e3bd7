/*
 * attention.c: scaled dot product attention, softmax(scale q k^T + mask) v. Two ops compute it
 * without storing the attention weights. Where neither op can be used, attention is composed of
 * other functions. In the formulas, g is the gradient of y, and gq, gk and gv are the gradients of
 * q, k and v.
 *
 * This file is long because the two ops share the functions of their derivatives.
 */
#include "autocast.h"
#include "autograd/checks.h"

#include <math.h>

/* ---- attention: y = p v, with p = softmax(z) and z = scale q k^T + mask. The weights p are not
 *      stored. Instead the op has a second output, lse = ln(sum(e^z)) for each row of z, which has
 *      float32 if q has 16 bits: the gradients need its digits behind the point. With s =
 *      scale * p * (g v^T - sum(p * (g v^T)) + g_lse), the gradients are gq = s k, gk = s^T q and
 *      gv = p^T g. Here g_lse is the gradient of lse, * is elementwise, the other products are
 *      matrix products, and each sum is over a row ------------------------------ */

struct attention_attr {
    k_attention how;
};

static bool attention_shape(rg_call *c) {
    rgi_copy_shape(c->out[0], c->in[0]);
    rgi_copy_shape(c->out[1], c->in[0]);
    c->out[0]->size[3] = c->in[2]->size[3];
    c->out[1]->ndim = 3;
    c->out[1]->dtype = rgi_computed_in((rg_dtype)c->in[0]->dtype);
    return true;
}

/* x has the shape (batch, heads, n, size). If its elements lie in memory in the order (batch, n,
 * heads, size), gives the new tensor t the same memory order. Such an x is usually a transposed
 * tensor, and the program transposes the result back. The transposed result is contiguous, as in
 * torch. */
static void attention_lay_like(rg_tensor *t, const rg_tensor *x) {
    if (x->size[1] == 1 || x->size[2] == 1 || x->stride[1] >= x->stride[2])
        return;
    t->stride[1] = t->size[3];
    t->stride[2] = t->size[1] * t->size[3];
    rgi_update_flags(t);
}

static bool attention_forward(rg_call *c) {
    attention_lay_like(c->out[0], c->in[0]);
    return k_attend(&RG_ATTR(c, attention)->how, c->out[0], c->out[1], NULL, NULL, NULL, c->in,
                    rgi_is_none(c->in[3]) ? NULL : c->in[3]);
}

/* Returns a bool mask of the shape (rows, keys) that is true where the key's index isn't above the
 * row's index. */
static rg_tensor *attention_causal(const rg_tensor *scores) {
    int64_t rows = scores->size[scores->ndim - 2];
    int64_t columns = scores->size[scores->ndim - 1];
    return rg_tril(rg_ones_dims(RG_DIMS(rows, columns), RG_BOOL), 0);
}

/* Converts a bool mask to a mask that is added to the scores: 0 where the mask is true, else
 * -inf. */
static rg_tensor *attention_added(rg_tensor *mask, rg_dtype dtype) {
    return rg_where(mask, rg_scalar_dtype(0, dtype), rg_scalar_dtype(-INFINITY, dtype));
}

/* The attributes and the saved inputs of a call. From these attention_p computes the attention
 * weights p, and attention_s computes s, the gradient of the matrix product q k^T. k and v are
 * without the last keys, `unseen` in number, which no query of a causal attention sees. */
typedef struct {
    k_attention how;
    rg_tensor *q, *k, *v, *mask;
    int64_t unseen;
} attention_parts;

static rg_tensor *attention_p(const attention_parts *a) {
    rg_tensor *scores = rg_matmul(rg_mul(a->q, a->how.scale), rg_mT(a->k));
    if (!rgi_is_none(a->mask))
        scores = rg_add(scores, a->mask);
    if (a->how.causal && scores)
        scores = rg_add(scores, attention_added(attention_causal(scores), scores->dtype));
    return rgi_safe_softmax(scores, -1);
}

static rg_tensor *attention_s(const attention_parts *a, rg_tensor *g, rg_tensor *g_lse) {
    rg_tensor *p = attention_p(a);
    rg_tensor *gp = rg_mul(rg_matmul(g, rg_mT(a->v)), p);
    rg_tensor *lost = rg_sub(rg_sum_dim(gp, -1, true), rg_unsqueeze(g_lse, -1));
    return rg_mul(rg_sub(gp, rg_mul(p, lost)), a->how.scale);
}

static attention_parts attention_saved(const rg_step *s) {
    attention_parts a = { .how = RG_ATTR(s, attention)->how,
                          .q = rgi_saved(s, 0),
                          .k = rgi_saved(s, 1),
                          .v = rgi_saved(s, 2),
                          .mask = rgi_saved(s, 3) };
    if (!a.q || !a.k)
        return a;
    const int64_t rows = a.q->size[2], keys = a.k->size[2];
    if (a.how.causal && keys > rows) {
        a.unseen = keys - rows;
        a.k = rg_narrow(a.k, 2, 0, rows);
        a.v = rg_narrow(a.v, 2, 0, rows);
    }
    return a;
}

/* Returns the gradient of all keys or values for g, the gradient of those that are seen. */
static rg_tensor *attention_of_all(const attention_parts *a, rg_tensor *g) {
    return a->unseen ? rg_pad(g, 0, 0, 0, a->unseen) : g;
}

static rg_tensor *attention_rule_q(const rg_step *s, rg_tensor *g) {
    attention_parts a = attention_saved(s);
    return rg_matmul(attention_s(&a, g, rgi_step_g(s, 1)), a.k);
}

static rg_tensor *attention_rule_k(const rg_step *s, rg_tensor *g) {
    attention_parts a = attention_saved(s);
    return attention_of_all(&a, rg_matmul(rg_mT(attention_s(&a, g, rgi_step_g(s, 1))), a.q));
}

static rg_tensor *attention_rule_v(const rg_step *s, rg_tensor *g) {
    attention_parts a = attention_saved(s);
    return a.v ? attention_of_all(&a, rg_matmul(rg_mT(attention_p(&a)), g)) : NULL;
}

/* Sets *g_lse to a contiguous copy of lse's gradient, which the caller releases, or to NULL if no
 * gradient reached lse. Returns false if memory ran out. */
static bool attention_lse_gradient(const rg_step *s, const rg_tensor *lse, rg_tensor **g_lse) {
    *g_lse = s->g[1] ? rgi_contiguous_copy(s->g[1], (rg_dtype)lse->dtype) : NULL;
    return *g_lse || !s->g[1];
}

static bool attention_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *in[] = { rgi_saved(s, 0), rgi_saved(s, 1), rgi_saved(s, 2), rgi_saved(s, 3) };
    rg_tensor *y = rgi_saved_output(s);
    rg_tensor *lse = rgi_saved_output_at(s, 1);
    rg_tensor *g = rgi_step_g(s, 0);
    rg_tensor *g_lse;
    if (!in[0] || !in[1] || !in[2] || !in[3] || !y || !lse || !g
        || !attention_lse_gradient(s, lse, &g_lse))
        return false;
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        if (!rgi_wants(s, i))
            continue;
        gin[i] = rgi_new(in[i]->dtype, 4, in[i]->size);
        if (gin[i])
            attention_lay_like(gin[i], in[i]);
        ok = ok && gin[i];
    }
    rg_tensor *mask = rgi_is_none(in[3]) ? NULL : in[3];
    ok = ok && k_attend(&RG_ATTR(s, attention)->how, y, lse, g, g_lse, gin, in, mask);
    rgi_release(g_lse);
    return ok;
}

/* Returns the factor for the profiler (rg_terms): the fraction of the keys to which a query attends
 * on average. It is 1 unless the attention is causal. `rows` is the number of queries, and `terms`
 * the number of keys. In causal attention, query i attends to keys 0 to i. If there are more keys
 * than queries, only the first `rows` keys count, since no query attends to the others. The
 * attributes of joint_attention begin with those of attention, so this function can read the
 * attributes of both ops. */
static double attention_share(const void *attr, int64_t rows, int64_t terms) {
    double seen = (double)RG_MIN(rows, terms);
    if (!((const struct attention_attr *)attr)->how.causal)
        return 1;
    return ((seen + 1) / 2 + (double)rows - seen) / (double)rows;
}

#define ATTENTION_NEEDS (RG_IN(0) | RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_OUT(0) | RG_OUT(1))
RG_OP(attention, RG_WITH(attention),
      .terms = { .times = 2,
                 .input = 1,
                 .from_last = 2,
                 .gradients = RG_IN(0) | RG_IN(1) | RG_IN(2),
                 .extra = 2,
                 .share = attention_share },
      .doc = "softmax(scale q k^T + mask) v, of (batch, heads, n, size); log sum exp",
      .node = "ScaledDotProductFlashAttentionForCpuBackward0", .n_in = 4, .n_out = 2,
      .optional = RG_IN(3), .typing = RG_PROMOTED, RG_MADE(attention), .fused = attention_fused,
      .grad = { RG_RULE(ATTENTION_NEEDS, attention_rule_q),
                RG_RULE(ATTENTION_NEEDS, attention_rule_k),
                RG_RULE(ATTENTION_NEEDS, attention_rule_v), RG_NO_RULE },
      RG_SAMPLES({ "(2,2,3,4) (2,2,5,4) (2,2,5,4) -", RG_A(attention, { .scale = 0.5 }) },
                 { "(1,2,3,2) (1,2,3,2) (1,2,3,2) -",
                   RG_A(attention, { .scale = 1, .causal = true }) },
                 { "(1,1,2,3) (1,1,5,3) (1,1,5,3) -",
                   RG_A(attention, { .scale = 1, .causal = true }) },
                 { "(2,1,3,4) (2,1,2,4) (2,1,2,4) i3(3,2)", RG_A(attention, { .scale = -0.3 }) },
                 { "(1,2,2,3) (1,2,4,3) (1,2,4,3) i3(1,1,4)", RG_A(attention, { .scale = 1 }) },
                 { "(0,2,3,4) (0,2,5,4) (0,2,5,4) -", RG_A(attention, { .scale = 1 }) },
                 { "(1,1,2,3) (1,1,0,3) (1,1,0,3) -", RG_A(attention, { .scale = 1 }) }));

/* ---- joint_attention: attention of q, k and v that lie side by side in one tensor, as one
 *      linear layer computes them. x is (batch, n, 3 * heads * size): all heads of q, then of k,
 *      then of v. y is (batch, n, heads * size). Nothing is split or joined by copying: the kernels
 *      read and write inside these tensors. ------------------------------------- */

struct joint_attention_attr {
    k_attention how;
    int64_t heads;
};

/* Returns a header (an rg_tensor that shares t's elements) for part i of t. The last dim of t,
 * which is (batch, n, parts * heads * size), consists of `parts` equal parts. The header has the
 * shape (batch, heads, n, size). */
static rg_tensor joint_part(const rg_tensor *t, int i, int parts, int64_t heads) {
    rg_tensor part = rgi_header_of(t);
    int64_t size = t->size[2] / parts / heads;
    int64_t row = t->stride[1];
    int64_t col = t->stride[2];
    part.data += i * heads * size * col * (int64_t)rgi_sizeof(t->dtype);
    part.ndim = 4;
    part.size[1] = heads;
    part.size[2] = t->size[1];
    part.size[3] = size;
    part.stride[1] = size * col;
    part.stride[2] = row;
    part.stride[3] = col;
    rgi_update_flags(&part);
    return part;
}

/* The headers of q, k and v, and pointers to them, since the kernel takes pointers. */
typedef struct {
    rg_tensor header[3];
    rg_tensor *v[3];
} joint_parts;

static void joint_cut(joint_parts *parts, const rg_tensor *t, int64_t heads) {
    for (int i = 0; i < 3; i++) {
        parts->header[i] = joint_part(t, i, 3, heads);
        parts->v[i] = &parts->header[i];
    }
}

static bool joint_attention_shape(rg_call *c) {
    rgi_copy_shape(c->out[0], c->in[0]);
    c->out[0]->size[2] /= 3;
    rgi_copy_shape(c->out[1], c->in[0]);
    c->out[1]->size[1] = RG_ATTR(c, joint_attention)->heads;
    c->out[1]->size[2] = c->in[0]->size[1];
    c->out[1]->dtype = rgi_computed_in((rg_dtype)c->in[0]->dtype);
    return true;
}

static bool joint_attention_forward(rg_call *c) {
    const struct joint_attention_attr *attr = RG_ATTR(c, joint_attention);
    rg_tensor y = joint_part(c->out[0], 0, 1, attr->heads);
    joint_parts in;
    joint_cut(&in, c->in[0], attr->heads);
    return k_attend(&attr->how, &y, c->out[1], NULL, NULL, NULL, in.v, NULL);
}

/* The gradient of x. Permutes x so that q, k and v lie along its first dim, computes the gradients
 * of these three, stacks them, and permutes the result back. */
static rg_tensor *joint_attention_rule(const rg_step *s, rg_tensor *g) {
    const struct joint_attention_attr *attr = RG_ATTR(s, joint_attention);
    rg_tensor *x = rg_unflatten(rgi_saved(s, 0), 2, RG_DIMS(3, attr->heads, -1));
    x = rg_permute(x, 2, 0, 3, 1, 4);
    rg_tensor *q = rg_select(x, 0, 0);
    rg_tensor *k = rg_select(x, 0, 1);
    rg_tensor *v = rg_select(x, 0, 2);
    attention_parts a = { attr->how, q, k, v, RG_NONE, 0 };
    g = rg_transpose(rg_unflatten(g, 2, RG_DIMS(attr->heads, -1)), 1, 2);
    rg_tensor *scores = attention_s(&a, g, rgi_step_g(s, 1));
    rg_tensor *gq = rg_matmul(scores, k);
    rg_tensor *gk = rg_matmul(rg_mT(scores), q);
    rg_tensor *gv = rg_matmul(rg_mT(attention_p(&a)), g);
    return rg_flatten(rg_permute(rg_stack(RG_LIST(gq, gk, gv), 0), 1, 3, 0, 2, 4), 2, 4);
}

static bool joint_attention_fused(const rg_step *s, rg_tensor *gin[]) {
    const struct joint_attention_attr *attr = RG_ATTR(s, joint_attention);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    rg_tensor *lse = rgi_saved_output_at(s, 1);
    rg_tensor *g = rgi_step_g(s, 0);
    rg_tensor *g_lse;
    if (!x || !y || !lse || !g || !attention_lse_gradient(s, lse, &g_lse))
        return false;
    gin[0] = rgi_new(x->dtype, 3, x->size);
    bool ok = gin[0] != NULL;
    if (ok) {
        rg_tensor of_y = joint_part(y, 0, 1, attr->heads);
        rg_tensor of_g = joint_part(g, 0, 1, attr->heads);
        joint_parts in, to;
        joint_cut(&in, x, attr->heads);
        joint_cut(&to, gin[0], attr->heads);
        ok = k_attend(&attr->how, &of_y, lse, &of_g, g_lse, to.v, in.v, NULL);
    }
    rgi_release(g_lse);
    return ok;
}

/* JOINT expands to a test sample (rg_sample). */
#define JOINT(inputs, scale_, causal_, heads_) \
    { inputs, RG_A(joint_attention, { .scale = scale_, .causal = causal_ }, .heads = heads_) }
RG_OP(joint_attention, RG_WITH(joint_attention),
      .terms = { .times = 2,
                 .input = 0,
                 .from_last = 2,
                 .gradients = RG_IN(0),
                 .extra = 4,
                 .share = attention_share },
      .doc = "softmax(scale q k^T) v, of q, k, v side by side; log sum exp",
      .node = "ViewBackward0", .n_in = 1, .n_out = 2, RG_MADE(joint_attention),
      .fused = joint_attention_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_OUT(0) | RG_OUT(1), joint_attention_rule) },
      RG_SAMPLES(JOINT("(2,3,12)", 0.5, true, 2), JOINT("(1,4,6)", 1, false, 1),
                 JOINT("(2,1,9)", -0.3, true, 3), JOINT("(0,3,6)", 1, true, 2)));

rg_tensor *(rg_joint_attention)(rg_tensor *qkv, int64_t heads, bool is_causal) {
    RG_AUTOCASTS(RG_LOWER, (rg_joint_attention)(in[0], heads, is_causal), qkv);
    const char *op = "joint_attention";
    if (!rgi_check(qkv, op))
        return NULL;
    RG_FAIL_IF(qkv->ndim != 3 || !rgi_is_float(qkv->dtype), op,
               "expected floats of (batch, n, 3 * heads * size), but got %s of %s",
               RG_SHAPE_TEXT(qkv), rg_dtype_name(qkv->dtype));
    RG_FAIL_IF(heads < 1 || heads > qkv->size[2] || qkv->size[2] % (3 * heads), op,
               "a width of %lld isn't three times that of %lld heads", (long long)qkv->size[2],
               (long long)heads);
    RG_SCOPE();
    rg_tensor *out[2];
    int64_t size = qkv->size[2] / heads / 3;
    const struct joint_attention_attr attr = { { 1 / sqrt((double)size), is_causal }, heads };
    bool ok = rgi_apply_outputs(&rg_op_joint_attention, &attr, sizeof attr, 1, &qkv, out);
    return ok ? rg_escape(out[0]) : NULL;
}

/* ---- the public function: it applies the op attention where torch would use its flash attention,
 *      and otherwise calls other functions ------------------------------------- */

#define ATTENTION "scaled_dot_product_attention"

/* Returns whether the op attention can be applied. q, k and v must have four dims, and must not be
 * empty. Only their lengths (dim 2) may differ, and k and v must have the same length. There must
 * be no dropout. The mask must be absent, or be a tensor of two or four dims that broadcasts to the
 * shape of the scores and doesn't require grad. */
static bool attention_is_plain(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                               const rg_attention_options *o) {
    const rg_tensor *const all[] = { q, k, v };
    const rg_tensor *mask = o->attn_mask;
    for (int i = 0; i < 3; i++) {
        const rg_tensor *t = all[i];
        if (t->ndim != 4 || t->numel == 0 || t->size[0] != q->size[0] || t->size[1] != q->size[1]
            || t->size[3] != q->size[3])
            return false;
    }
    if (k->size[2] != v->size[2] || o->dropout_p > 0)
        return false;
    if (rgi_is_none(mask))
        return true;
    rg_tensor scores = { .ndim = 4, .size = { q->size[0], q->size[1], q->size[2], k->size[2] } };
    return (mask->ndim == 2 || mask->ndim == 4) && !rgi_is_in_graph(mask)
           && rgi_expandable(mask, &scores);
}

static bool attention_check_mask(const rg_tensor *q, const rg_attention_options *o) {
    const rg_tensor *mask = o->attn_mask;
    if (rgi_is_none(mask))
        return true;
    /* torch allows a float32 mask with a query of any dtype. */
    bool fits = rgi_is_bool(mask->dtype) || mask->dtype == RG_FLOAT32 || mask->dtype == q->dtype;
    RG_FAIL_IF(!fits, ATTENTION,
               "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
               "attn_mask.dtype: %s and  query.dtype: %s instead.",
               rgi_c_name(mask->dtype), rgi_c_name(q->dtype));
    RG_FAIL_IF(o->is_causal, ATTENTION,
               "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
               "is_causal=True");
    return true;
}

static bool attention_check(rg_tensor *q, rg_tensor *k, rg_tensor *v,
                            const rg_attention_options *o) {
    if (!rgi_check(q, ATTENTION) || !rgi_check(k, ATTENTION) || !rgi_check(v, ATTENTION)
        || !rgi_check_optional(o->attn_mask, ATTENTION))
        return false;
    if (!rgi_want_dims(ATTENTION, "query", q, 2, RG_MAX_DIMS)
        || !rgi_want_dims(ATTENTION, "key", k, 2, RG_MAX_DIMS)
        || !rgi_want_dims(ATTENTION, "value", v, 2, RG_MAX_DIMS)
        || !rgi_want_same_dtype(ATTENTION, "query", q, "key", k)
        || !rgi_want_same_dtype(ATTENTION, "query", q, "value", v) || !attention_check_mask(q, o))
        return false;
    RG_FAIL_IF(!rgi_is_float(q->dtype), ATTENTION, "expected scalar type Float but found %s",
               rgi_scalar_name(q->dtype));
    return true;
}

static bool attention_check_heads(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v) {
    RG_FAIL_INDEX_IF(q->ndim < 3 || k->ndim < 3 || v->ndim < 3, ATTENTION,
                     "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
    int64_t heads = q->size[q->ndim - 3];
    int64_t of_k = k->size[k->ndim - 3];
    int64_t of_v = v->size[v->ndim - 3];
    RG_FAIL_IF(of_k == 0 || of_v == 0 || heads % of_k || heads % of_v, ATTENTION,
               "Number of heads in key and value must divide the number of heads in ");
    return true;
}

/* Returns t, which is k or v, with each head repeated, so that the result has q's number of
 * heads. */
static rg_tensor *attention_heads(rg_tensor *t, int64_t heads) {
    int dim = t->ndim - 3;
    int64_t times = heads / t->size[dim];
    if (times == 1)
        return t;
    rg_dims shape = rg_shape(t);
    rg_dims wide = shape;
    shape.v[dim] = heads;
    wide.n++;
    for (int d = wide.n - 1; d > dim + 1; d--)
        wide.v[d] = wide.v[d - 1];
    wide.v[dim + 1] = times;
    return rg_reshape_dims(rg_expand_dims(rg_unsqueeze(t, dim + 1), wide), shape);
}

/* Returns whether the heads of q that share a head of k and v can be the queries of one head, so
 * that k and v needn't be copied for each of them. That is so if each head has a single query, as
 * where a model writes one token after the other, and all heads see the same keys. Not while a
 * graph is recorded: the result would have another node than in torch. */
static bool attention_is_grouped(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                                 const rg_attention_options *o) {
    const rg_tensor *mask = o->attn_mask;
    if (rg_is_grad_enabled() || o->is_causal || q->ndim != 4 || k->ndim != 4 || v->ndim != 4
        || q->size[2] != 1 || q->size[0] != k->size[0] || k->size[1] != v->size[1])
        return false;
    if (rgi_is_none(mask))
        return true;
    return mask->ndim == 4 ? mask->size[1] == 1 && mask->size[2] == 1
                           : mask->ndim == 2 && mask->size[0] == 1;
}

/* Returns the given scale or, if it is 0, 1 / sqrt(the size of q's last dim). */
static double attention_scale(const rg_tensor *q, double given) {
    return given != 0 ? given : 1 / sqrt((double)q->size[q->ndim - 1]);
}

/* Returns the same as the op attention, composed of other functions, and with dropout if the
 * options ask for it. q and k are each multiplied by the square root of |scale| before their
 * product, so that the product doesn't grow too large. If scale is negative, q also changes its
 * sign. */
static rg_tensor *attention_of_parts(rg_tensor *q, rg_tensor *k, rg_tensor *v, rg_tensor *mask,
                                     double scale, const rg_attention_options *o) {
    double half = sqrt(fabs(scale));
    rg_tensor *scores = rg_matmul(rg_mul(q, scale < 0 ? -half : half), rg_mul(rg_mT(k), half));
    if (!scores)
        return NULL;
    if (o->is_causal)
        mask = attention_added(attention_causal(scores), q->dtype);
    if (!rgi_is_none(mask))
        scores = rg_add(scores, mask);
    rg_tensor *weights = rgi_safe_softmax(scores, -1);
    if (o->dropout_p > 0)
        weights = rg_dropout(weights, o->dropout_p, true);
    return rg_matmul(weights, v);
}

/* Returns the same. As in torch, attention of elements of 16 bits is computed in float32, so that
 * the result is rounded and the scores are not. */
static rg_tensor *attention_composed(rg_tensor *q, rg_tensor *k, rg_tensor *v, rg_tensor *mask,
                                     double scale, const rg_attention_options *o) {
    if (RG_LIKELY(!rgi_is_half(q->dtype)))
        return attention_of_parts(q, k, v, mask, scale, o);
    rg_tensor *x[] = { rg_float(q), rg_float(k), rg_float(v) };
    if (!x[0] || !x[1] || !x[2])
        return NULL;
    rg_tensor *y = attention_of_parts(x[0], x[1], x[2], mask, scale, o);
    return y ? rg_to(y, q->dtype) : NULL;
}

/* Computes attention where q has as many heads as k and v. */
static rg_tensor *attention_apply(rg_tensor *q, rg_tensor *k, rg_tensor *v,
                                  rg_attention_options o) {
    if (!q || !k || !v)
        return NULL;
    double scale = attention_scale(q, o.scale);
    if (!rgi_is_none(o.attn_mask) && rgi_is_bool(o.attn_mask->dtype))
        o.attn_mask = attention_added(o.attn_mask, q->dtype);
    if (!o.attn_mask)
        return NULL;
    if (!attention_is_plain(q, k, v, &o))
        return attention_composed(q, k, v, o.attn_mask, scale, &o);
    rg_tensor *mask = rgi_is_none(o.attn_mask) ? RG_NONE : rg_to(o.attn_mask, q->dtype);
    rg_tensor *in[] = { q, k, v, mask };
    rg_tensor *out[2] = { NULL };
    const struct attention_attr a = { { scale, o.is_causal } };
    rgi_apply_outputs(&rg_op_attention, &a, sizeof a, 4, in, out);
    return out[0];
}

static rg_tensor *attention_of_casts(rg_tensor *const in[], rg_attention_options o) {
    o.attn_mask = in[3];
    return rg_scaled_dot_product_attention_with(in[0], in[1], in[2], o);
}

rg_tensor *rg_scaled_dot_product_attention_with(rg_tensor *q, rg_tensor *k, rg_tensor *v,
                                                rg_attention_options o) {
    RG_AUTOCASTS(RG_LOWER, attention_of_casts(in, o), q, k, v, o.attn_mask);
    if (!attention_check(q, k, v, &o))
        return NULL;
    RG_AS(ATTENTION);
    RG_SCOPE();
    if (!o.enable_gqa)
        return rg_escape(attention_apply(q, k, v, o));
    if (!attention_check_heads(q, k, v))
        return NULL;
    const rg_dims shape = rg_shape(q);
    const int64_t heads = shape.v[shape.n - 3];
    if (attention_is_grouped(q, k, v, &o)) {
        q = rg_reshape(q, shape.v[0], k->size[1], heads / k->size[1], shape.v[3]);
        rg_tensor *y = attention_apply(q, k, v, o);
        return rg_escape(rg_reshape(y, shape.v[0], heads, 1, v->size[3]));
    }
    k = attention_heads(k, heads);
    v = attention_heads(v, heads);
    return rg_escape(attention_apply(q, k, v, o));
}

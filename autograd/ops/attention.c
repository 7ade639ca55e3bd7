/*
 * attention.c: softmax(scale q k^T + mask) v.
 */
#include "autograd/op.h"

#include <math.h>

#define ATTENTION_FAIL(code, ...) rg_fail(code, "scaled_dot_product_attention", __VA_ARGS__)

static bool attention_check(rg_tensor *q, rg_tensor *k, rg_tensor *v, const rg_attention_options *o)
{
    static const char *const ctype[] = { "bool", "long int", "float", "double" };
    rg_tensor *const all[] = { q, k, v, o->attn_mask };
    for (int i = 0; i < 4; i++)
        if ((i < 3 || !rg_is_none(all[i])) && !rg_check(all[i], "scaled_dot_product_attention")) return false;
    if (q->dtype != k->dtype || k->dtype != v->dtype)
        return ATTENTION_FAIL(RG_RUNTIME_ERROR, "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: "
                              "%s and value.dtype: %s instead.", ctype[q->dtype], ctype[k->dtype], ctype[v->dtype]);
    if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        return ATTENTION_FAIL(RG_RUNTIME_ERROR, "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
                              "%d key.dim: %d and value.dim: %d instead.", q->ndim, k->ndim, v->ndim);
    if (!rg_is_none(o->attn_mask)) {
        if (o->attn_mask->dtype != RG_BOOL && o->attn_mask->dtype != RG_FLOAT32 && o->attn_mask->dtype != q->dtype)
            return ATTENTION_FAIL(RG_RUNTIME_ERROR, "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                                  "attn_mask.dtype: %s and  query.dtype: %s instead.", ctype[o->attn_mask->dtype], ctype[q->dtype]);
        if (o->is_causal)
            return ATTENTION_FAIL(RG_RUNTIME_ERROR, "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
    }
    if (!rg_is_float(q->dtype))
        return ATTENTION_FAIL(RG_RUNTIME_ERROR, "expected scalar type Float but found %s", rg_scalar_name(q->dtype));
    return true;
}

/* k or v with each head as often as q has heads for it. */
static rg_tensor *attention_heads(rg_tensor *t, int64_t heads)
{
    int dim = t->ndim - 3;
    int64_t times = t->size[dim] ? heads / t->size[dim] : 0;
    rg_dims wide = rg_shape(t), shape = wide;
    if (times == 1) return t;
    shape.v[dim] = heads;
    wide.n++;
    for (int d = wide.n - 1; d > dim + 1; d--) wide.v[d] = wide.v[d - 1];
    wide.v[dim + 1] = times;
    return rg_reshape_dims(rg_expand_dims(rg_unsqueeze(t, dim + 1), wide), shape);
}

rg_tensor *rg_scaled_dot_product_attention_with(rg_tensor *q, rg_tensor *k, rg_tensor *v, rg_attention_options o)
{
    if (!attention_check(q, k, v, &o)) return NULL;
    RG_SCOPE();
    if (o.enable_gqa) {
        int least = RG_MIN(q->ndim, RG_MIN(k->ndim, v->ndim));
        if (least < 3)
            return ATTENTION_FAIL(RG_INDEX_ERROR, "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
        int64_t heads = q->size[q->ndim - 3], of_k = k->size[k->ndim - 3], of_v = v->size[v->ndim - 3];
        if (of_k == 0 || of_v == 0 || heads % of_k || heads % of_v)
            return ATTENTION_FAIL(RG_RUNTIME_ERROR, "Number of heads in key and value must divide the number of heads in ");
        k = attention_heads(k, heads);
        v = attention_heads(v, heads);
    }
    /* Half of the scale for each, so that neither grows too large. */
    double size = (double)q->size[q->ndim - 1], scale = o.scale != 0 ? o.scale : size > 0 ? 1 / sqrt(size) : 1, half = sqrt(fabs(scale));
    rg_tensor *scores = rg_matmul(rg_mul(q, scale < 0 ? -half : half), rg_mul(rg_mT(k), half));
    if (o.is_causal && scores) {
        int64_t rows = scores->size[scores->ndim - 2], columns = scores->size[scores->ndim - 1];
        o.attn_mask = rg_tril(rg_ones_dims(RG_DIMS(rows, columns), RG_BOOL), 0);
    }
    if (o.attn_mask && o.attn_mask->dtype == RG_BOOL && !rg_is_none(o.attn_mask))
        o.attn_mask = rg_where(o.attn_mask, rg_scalar_dtype(0, q->dtype), rg_scalar_dtype(-INFINITY, q->dtype));
    if (!rg_is_none(o.attn_mask)) scores = rg_add(scores, o.attn_mask);
    rg_tensor *weights = rg_safe_softmax(scores, -1);
    if (o.dropout_p > 0) weights = rg_dropout(weights, o.dropout_p, true);
    rg_tensor *y = rg_matmul(weights, v);
    return y ? rg_escape(y) : NULL;
}

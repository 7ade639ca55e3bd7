/*
 * attention.c: softmax(scale q k^T + mask) v, one head at a time, so that no
 * more than one head's weights are alive; backward makes them again.
 */
#include "kernels.h"

#include <math.h>

/* The matrix of one batch and head; t may have one for all of them. */
static rg_tensor attention_part(const rg_tensor *t, int64_t batch, int64_t head) {
    rg_tensor m = *t;
    int n = t->ndim;
    int64_t offset = (n > 3 && t->size[n - 4] != 1 ? batch * t->stride[n - 4] : 0) + (n > 2 && t->size[n - 3] != 1 ? head * t->stride[n - 3] : 0);
    m.data += offset * (int64_t)rg_sizeof(t->dtype);
    m.ndim = 2;
    for (int d = 0; d < 2; d++) m.size[d] = t->size[n - 2 + d], m.stride[d] = t->stride[n - 2 + d];
    rg_update_flags(&m);
    return m;
}

/* p = softmax(scale q k^T + mask), with scores as room. */
static bool attention_weights(const k_attention *a, rg_tensor *p, rg_tensor *scores, const rg_tensor *q, const rg_tensor *k, rg_tensor *mask) {
    rg_tensor kt = k_turned(k);
    if (!k_addmatmul(scores, q, &kt, a->scale, 0)) return false;
    if (mask) k_run(k_add, scores, scores, (rg_tensor *)mask);
    for (int64_t i = 0; a->causal && i < scores->size[0]; i++)
        for (int64_t j = i + 1; j < scores->size[1]; j++)
            rg_store_f64(scores->data + (i * scores->size[1] + j) * (int64_t)rg_sizeof(scores->dtype), scores->dtype, -INFINITY);
    k_softmax(p, scores, 1, K_SAFE_SOFTMAX);
    return true;
}

/* The part of `to`, unless that is NULL, is scale x y. */
static bool attention_product(rg_tensor *to, int64_t batch, int64_t head, const rg_tensor *x, const rg_tensor *y, double scale) {
    if (!to) return true;
    rg_tensor part = attention_part(to, batch, head);
    return k_addmatmul(&part, x, y, scale, 0);
}

bool k_attend(const k_attention *a, rg_tensor *y, const rg_tensor *g, rg_tensor *const gin[], rg_tensor *const in[], const rg_tensor *mask) {
    const rg_tensor *q = in[0], *k = in[1], *v = in[2];
    int64_t size[] = { q->size[2], k->size[2] };
    rg_tensor *p = rg_new(q->dtype, 2, size), *scores = rg_new(q->dtype, 2, size), *s = g ? rg_new(q->dtype, 2, size) : NULL;
    bool ok = p && scores && (s || !g);
    for (int64_t b = 0; b < q->size[0] && ok; b++)
        for (int64_t h = 0; h < q->size[1] && ok; h++) {
            rg_tensor qh = attention_part(q, b, h), kh = attention_part(k, b, h), vh = attention_part(v, b, h), mh;
            if (mask) mh = attention_part(mask, b, h);
            ok = attention_weights(a, p, scores, &qh, &kh, mask ? &mh : NULL) && attention_product(y, b, h, p, &vh, 1);
            if (!g || !ok) continue;
            rg_tensor gh = attention_part(g, b, h), vt = k_turned(&vh), pt = k_turned(p), st = k_turned(s);
            ok = attention_product(gin[2], b, h, &pt, &gh, 1) && k_matmul(scores, &gh, &vt);
            if (ok) k_softmax_backward(s, scores, p, 1, K_SAFE_SOFTMAX);
            ok = ok && attention_product(gin[0], b, h, s, &kh, a->scale) && attention_product(gin[1], b, h, &st, &qh, a->scale);
        }
    rg_release(p);
    rg_release(scores);
    rg_release(s);
    return ok;
}

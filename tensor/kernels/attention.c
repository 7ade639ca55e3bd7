/*
 * attention.c: softmax(scale q k^T + mask) v, one head at a time, so that no
 * more than one head's weights are alive; backward makes them again.
 */
#include "kernels.h"

#include <math.h>

/* The matrix of one batch and head; t may have one for all of them. */
static rg_tensor attention_part(const rg_tensor *t, int64_t batch, int64_t head)
{
    rg_tensor m = *t;
    int n = t->ndim;
    int64_t offset = (n > 3 && t->size[n - 4] != 1 ? batch * t->stride[n - 4] : 0) + (n > 2 && t->size[n - 3] != 1 ? head * t->stride[n - 3] : 0);
    m.data += offset * (int64_t)rg_sizeof(t->dtype);
    m.ndim = 2;
    for (int d = 0; d < 2; d++) m.size[d] = t->size[n - 2 + d], m.stride[d] = t->stride[n - 2 + d];
    rg_update_flags(&m);
    return m;
}

static rg_tensor attention_turned(const rg_tensor *m)
{
    rg_tensor t = *m;
    for (int d = 0; d < 2; d++) t.size[d] = m->size[1 - d], t.stride[d] = m->stride[1 - d];
    rg_update_flags(&t);
    return t;
}

/* p = softmax(scale q k^T + mask), with scores as room. */
static bool attention_weights(const k_attention *a, rg_tensor *p, rg_tensor *scores, const rg_tensor *q, const rg_tensor *k, rg_tensor *mask)
{
    rg_tensor kt = attention_turned(k);
    if (!k_addmatmul(scores, q, &kt, a->scale, 0)) return false;
    if (mask) k_add(scores, (rg_tensor *[]){ scores, mask });
    for (int64_t i = 0; a->causal && i < scores->size[0]; i++)
        for (int64_t j = i + 1; j < scores->size[1]; j++)
            rg_store_f64(scores->data + (i * scores->size[1] + j) * (int64_t)rg_sizeof(scores->dtype), scores->dtype, -INFINITY);
    k_softmax(p, scores, 1, K_SAFE_SOFTMAX);
    return true;
}

/* g NULL: y = p v. Else the gradients by q, k and v, those that aren't NULL. */
static bool attention_run(const k_attention *a, rg_tensor *y, const rg_tensor *g, rg_tensor *const gin[], rg_tensor *const in[], const rg_tensor *mask)
{
    const rg_tensor *q = in[0], *k = in[1], *v = in[2];
    int64_t size[] = { q->size[2], k->size[2] };
    rg_tensor *room[3] = { NULL };
    bool ok = true;
    for (int i = 0; i < (g ? 3 : 2) && ok; i++) ok = (room[i] = rg_new(q->dtype, 2, size)) != NULL;
    for (int64_t b = 0; b < q->size[0] && ok; b++)
        for (int64_t h = 0; h < q->size[1] && ok; h++) {
            rg_tensor qh = attention_part(q, b, h), kh = attention_part(k, b, h), vh = attention_part(v, b, h), mh;
            if (mask) mh = attention_part(mask, b, h);
            ok = attention_weights(a, room[0], room[1], &qh, &kh, mask ? &mh : NULL);
            if (!g && ok) {
                rg_tensor yh = attention_part(y, b, h);
                ok = k_matmul(&yh, room[0], &vh);
            }
            if (!g || !ok) continue;
            rg_tensor gh = attention_part(g, b, h), vt = attention_turned(&vh), pt = attention_turned(room[0]), st = attention_turned(room[2]);
            if (gin[2]) {
                rg_tensor out = attention_part(gin[2], b, h);
                ok = k_matmul(&out, &pt, &gh);
            }
            if (!gin[0] && !gin[1]) continue;
            ok = ok && k_matmul(room[1], &gh, &vt);
            if (ok) k_softmax_backward(room[2], room[1], room[0], 1, K_SAFE_SOFTMAX);
            if (ok && gin[0]) {
                rg_tensor out = attention_part(gin[0], b, h);
                ok = k_addmatmul(&out, room[2], &kh, a->scale, 0);
            }
            if (ok && gin[1]) {
                rg_tensor out = attention_part(gin[1], b, h);
                ok = k_addmatmul(&out, &st, &qh, a->scale, 0);
            }
        }
    for (int i = 0; i < 3; i++) rg_release(room[i]);
    return ok;
}

bool k_attend(const k_attention *a, rg_tensor *y, rg_tensor *const in[], const rg_tensor *mask)
{
    return attention_run(a, y, NULL, NULL, in, mask);
}

bool k_attend_backward(const k_attention *a, rg_tensor *const gin[], const rg_tensor *g, rg_tensor *const in[], const rg_tensor *mask)
{
    return attention_run(a, NULL, g, gin, in, mask);
}

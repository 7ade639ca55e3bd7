/*
 * test_attention.c: compares attention by tiles and by lanes, and its gradients, with sums in
 * double that the test writes out. Lengths, sizes and numbers of heads are chosen around the sizes
 * of tiles and vectors. The rows of one head may lie between those of another. Some cases are
 * causal, some have masks for all heads or for each batch, and some rows see no key. The bits must
 * be the same at any number of threads.
 */
#include "tests/test.h"
#include "tensor/threads/workers.h"
#include "tensor/shape.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

/* LSE is the logarithm of the sum of a row's exponentials. G and G_LSE are the gradients of Y and
 * LSE; GQ, GK and GV are those of Q, K and V. */
enum { Q, K, V, Y, LSE, G, G_LSE, GQ, GK, GV, TENSORS };

typedef struct {
    rg_dtype dtype;
    int64_t batch, heads, queries, keys, size, size_v;
    bool causal, masked, between;
} attention_case;

/* Returns a tensor (batch, heads, n, size). If c->between, it is a part of a tensor (batch, n,
 * heads, 2 size), so that the rows of one head lie between those of another. */
static rg_tensor *heads(const attention_case *c, int64_t n, int64_t size) {
    if (!c->between)
        return rg_randn_dims(RG_DIMS(c->batch, c->heads, n, size), c->dtype,
                             rg_default_generator());
    rg_tensor *t = rg_randn_dims(RG_DIMS(c->batch, n, c->heads, 2 * size), c->dtype,
                                 rg_default_generator());
    t->size[3] = size;
    RG_SWAP(t->size[1], t->size[2]);
    RG_SWAP(t->stride[1], t->stride[2]);
    rgi_update_flags(t);
    return t;
}

static double of(rg_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t place = b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3];
    return rgi_load_f64(t->data + place * (int64_t)rgi_sizeof(t->dtype), t->dtype);
}

static void make(const attention_case *c, rg_tensor *t[], rg_tensor **mask) {
    rg_generator *g = rg_default_generator();
    for (int i = 0; i < TENSORS; i++) {
        bool of_keys = i == K || i == V || i == GK || i == GV;
        bool of_values = i == V || i == Y || i == G || i == GV;
        if (i == LSE || i == G_LSE)
            t[i] = rg_randn_dims(RG_DIMS(c->batch, c->heads, c->queries), c->dtype, g);
        else
            t[i] = heads(c, of_keys ? c->keys : c->queries, of_values ? c->size_v : c->size);
    }
    *mask = NULL;
    rg_dims of_batches = RG_DIMS(c->batch, 1, c->queries, c->keys);
    rg_dims of_all = RG_DIMS(c->queries, c->keys);
    if (c->masked)
        *mask = rg_randn_dims(c->batch > 1 ? of_batches : of_all, c->dtype, g);
    for (int64_t j = 0; c->masked && j < c->keys; j++)
        rgi_store_f64((*mask)->data + j * (int64_t)rgi_sizeof(c->dtype), c->dtype, -INFINITY);
}

/* Returns the mask's number for the score of query i and key k. */
static double of_mask(rg_tensor *mask, int64_t b, int64_t i, int64_t k) {
    if (!mask)
        return 0;
    return mask->ndim == 2 ? rg_at(mask, i, k) : of(mask, b, 0, i, k);
}

static bool attend(const attention_case *c, rg_tensor *t[], rg_tensor *mask) {
    k_attention how = { 0.3, c->causal };
    return k_attend(&how, t[Y], t[LSE], NULL, NULL, NULL, t, mask)
           && k_attend(&how, t[Y], t[LSE], t[G], t[G_LSE], t + GQ, t, mask);
}

static void check_near(const attention_case *c, const char *what, double got, double expected) {
    if (!(fabs(got - expected)
          <= (c->dtype == RG_FLOAT32 ? 1e-5 : 1e-12) * RG_MAX(1, fabs(expected))))
        ck_abort_msg("%s: %g, not %g, of %lld queries, %lld keys, sizes %lld and %lld", what, got,
                     expected, (long long)c->queries, (long long)c->keys, (long long)c->size,
                     (long long)c->size_v);
}

/* Checks the queries of one head one after another, and then gk and gv, which are sums over the
 * queries. */
static void check_head(const attention_case *c, rg_tensor *t[], rg_tensor *mask, int64_t b,
                       int64_t h) {
    double *p = calloc((size_t)c->keys, sizeof *p);
    double *gk = calloc((size_t)(c->keys * c->size), sizeof *gk);
    double *gv = calloc((size_t)(c->keys * c->size_v), sizeof *gv);
    for (int64_t i = 0; i < c->queries; i++) {
        double most = -INFINITY, total = 0, lost = 0;
        for (int64_t k = 0; k < c->keys; k++) {
            p[k] = of_mask(mask, b, i, k);
            for (int64_t j = 0; j < c->size; j++)
                p[k] += 0.3 * of(t[Q], b, h, i, j) * of(t[K], b, h, k, j);
            if (c->causal && k > i)
                p[k] = -INFINITY;
            most = fmax(most, p[k]);
        }
        for (int64_t k = 0; k < c->keys; k++) {
            p[k] = most == -INFINITY ? 0 : exp(p[k] - most);
            total += p[k];
        }
        check_near(c, "lse", rg_at(t[LSE], b, h, i), total == 0 ? 0 : most + log(total));
        for (int64_t k = 0; k < c->keys; k++)
            p[k] /= total == 0 ? 1 : total;
        for (int64_t j = 0; j < c->size_v; j++) {
            double y = 0;
            for (int64_t k = 0; k < c->keys; k++) {
                y += p[k] * of(t[V], b, h, k, j);
                gv[k * c->size_v + j] += p[k] * of(t[G], b, h, i, j);
            }
            check_near(c, "y", of(t[Y], b, h, i, j), y);
            lost += y * of(t[G], b, h, i, j);
        }
        for (int64_t k = 0; k < c->keys; k++) {
            double s = 0;
            for (int64_t j = 0; j < c->size_v; j++)
                s += of(t[G], b, h, i, j) * of(t[V], b, h, k, j);
            p[k] *= 0.3 * (s - lost + rg_at(t[G_LSE], b, h, i));
            for (int64_t j = 0; j < c->size; j++)
                gk[k * c->size + j] += p[k] * of(t[Q], b, h, i, j);
        }
        for (int64_t j = 0; j < c->size; j++) {
            double gq = 0;
            for (int64_t k = 0; k < c->keys; k++)
                gq += p[k] * of(t[K], b, h, k, j);
            check_near(c, "gq", of(t[GQ], b, h, i, j), gq);
        }
    }
    for (int64_t k = 0; k < c->keys; k++) {
        for (int64_t j = 0; j < c->size; j++)
            check_near(c, "gk", of(t[GK], b, h, k, j), gk[k * c->size + j]);
        for (int64_t j = 0; j < c->size_v; j++)
            check_near(c, "gv", of(t[GV], b, h, k, j), gv[k * c->size_v + j]);
    }
    free(p);
    free(gk);
    free(gv);
}

START_TEST(test_values) {
    /* A row has batches, heads, queries, keys, size, and size of v. */
    static const int64_t sizes[][6] = {
        { 1, 1, 1, 1, 1, 1 },      { 2, 3, 6, 6, 2, 4 },      { 1, 2, 64, 64, 32, 32 },
        { 1, 1, 65, 129, 16, 8 },  { 1, 2, 130, 63, 40, 33 }, { 1, 1, 200, 300, 5, 64 },
        { 2, 1, 3, 257, 17, 1 },   { 1, 1, 257, 2, 64, 3 },   { 16, 4, 8, 8, 4, 4 },
        { 3, 11, 7, 9, 5, 3 },     { 1, 17, 33, 31, 8, 7 },   { 5, 5, 1, 20, 12, 13 },
        { 1, 16, 64, 64, 16, 16 }, { 1, 8, 1, 1, 3, 2 },      { 4, 4, 12, 5, 9, 32 },
        { 2, 8, 3, 300, 3, 1 },    { 1, 15, 6, 2, 6, 6 },
    };
    for (int s = 0; s < RG_COUNT(sizes); s++)
        for (int form = 0; form < 16; form++) {
            RG_SCOPE();
            const int64_t *z = sizes[s];
            attention_case c = { form & 1 ? RG_FLOAT32 : RG_FLOAT64,
                                 z[0],
                                 z[1],
                                 z[2],
                                 z[3],
                                 z[4],
                                 z[5],
                                 form & 2,
                                 form & 4,
                                 form & 8 };
            rg_tensor *t[TENSORS], *mask;
            make(&c, t, &mask);
            ck_assert(attend(&c, t, mask));
            for (int64_t b = 0; b < c.batch; b++)
                for (int64_t h = 0; h < c.heads; h++)
                    check_head(&c, t, mask, b, h);
        }
}
END_TEST

START_TEST(test_bits) {
    static const int counts[] = { 1, 2, 3, 16 };
    for (int form = 0; form < 8; form++) {
        RG_SCOPE();
        rg_dtype dtype = form & 1 ? RG_FLOAT32 : RG_FLOAT64;
        attention_case by_tiles = { dtype, 2, 3, 200, 210, 24, 24, form & 2, false, false };
        attention_case by_lanes = { dtype, 41, 4, 16, 17, 8, 8, form & 2, false, false };
        attention_case c = form & 4 ? by_lanes : by_tiles;
        rg_tensor *t[TENSORS], *mask, *first[TENSORS];
        make(&c, t, &mask);
        /* All threads must take part, also on a machine with few cores. */
        rgi_gather_workers = true;
        for (int k = 0; k < RG_COUNT(counts); k++) {
            rg_set_num_threads(counts[k]);
            ck_assert(attend(&c, t, mask));
            for (int i = 0; i < TENSORS; i++) {
                size_t bytes = (size_t)t[i]->numel * rgi_sizeof(c.dtype);
                if (k == 0) {
                    first[i] = rg_empty_like(t[i]);
                    rgi_copy_elements(first[i], t[i]);
                }
                ck_assert_msg(memcmp(first[i]->data, t[i]->data, bytes) == 0,
                              "other bits of tensor %d", i);
            }
        }
    }
}
END_TEST

RG_TESTS_UNGUARDED(attention, test_values, test_bits)

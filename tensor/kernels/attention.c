/*
 * attention.c: softmax(scale q k^T + mask) v by tiles of queries and keys, so that
 * memory grows with their number and not with its square; backward makes the
 * weights again from the logarithm of each query's sum of exponentials.
 */
#include "loops.h"

/* the scores of a tile: side by side in vectors; one after the other */
enum { ATTENTION_SIDE = 64, ATTENTION_ALONG = 128 };
/* of a tile that the diagonal cuts, those that are left out together */
enum { ATTENTION_BLOCK = 16 };

/* One matrix of a batch and head, in elements. */
typedef struct {
    const char *data;
    int64_t row, col, size;
} attention_matrix;

typedef struct {
    rg_tensor *const *in, *const *gin;
    const rg_tensor *y, *lse, *g, *g_lse, *mask;
    int64_t queries, keys, heads, tiles; /* tiles: of queries, to a head */
    double scale;
    bool causal;
    k_product *product;
    k_turn *turn;
    char *room; /* `bytes` for each worker */
    size_t bytes;
} attention_plan;

/* t may have one for all of them; or be NULL. */
static attention_matrix attention_part(const rg_tensor *t, int64_t head,
                                       const attention_plan *plan) {
    if (!t)
        return (attention_matrix){ 0 };
    int n = t->ndim;
    int64_t at[] = { head / plan->heads, head % plan->heads }, offset = 0;
    for (int d = RG_MAX(0, n - 4); d < n - 2; d++)
        if (t->size[d] != 1)
            offset += at[d - (n - 4)] * t->stride[d];
    return (attention_matrix){ .data = t->data + offset * (int64_t)rgi_sizeof(t->dtype),
                               .row = t->size[n - 2] == 1 ? 0 : t->stride[n - 2],
                               .col = t->size[n - 1] == 1 ? 0 : t->stride[n - 1],
                               .size = t->size[n - 1] };
}

/* y = a b, or y += a b, of m rows, n columns and k steps. */
static void attention_product(const attention_plan *plan, int64_t m, int64_t n, int64_t k,
                              const void *a, int64_t a_row, int64_t a_col, const void *b,
                              int64_t b_row, void *y, int64_t y_row, bool add) {
    plan->product(&(k_product_sizes){ m, n, k, y_row, 1, a_row, a_col, b_row, 1, y_row }, y, a, b,
                  add);
}

#define K_FILE "attention_tile.h"
#include "sets.h"

bool k_attend(const k_attention *a, rg_tensor *y, rg_tensor *lse, const rg_tensor *g,
              const rg_tensor *g_lse, rg_tensor *const gin[], rg_tensor *const in[],
              const rg_tensor *mask) {
    static rg_work *const works[][2][K_SET_COUNT] = {
        { K_SETS(attention_forward_float), K_SETS(attention_forward_double) },
        { K_SETS(attention_backward_float), K_SETS(attention_backward_double) }
    };
    const rg_tensor *q = in[0];
    attention_plan plan = { .in = in,
                            .gin = gin,
                            .y = y,
                            .lse = lse,
                            .g = g,
                            .g_lse = g_lse,
                            .mask = mask,
                            .queries = q->size[2],
                            .keys = in[1]->size[2],
                            .heads = q->size[1],
                            .scale = a->scale,
                            .causal = a->causal,
                            .product = k_direct_product(q->dtype),
                            .turn = k_direct_turn(q->dtype) };
    plan.tiles = (plan.queries - 1) / ATTENTION_SIDE + 1;
    int64_t parts = q->size[0] * q->size[1] * (g ? 1 : plan.tiles),
            along = ATTENTION_SIDE + ATTENTION_ALONG;
    if (q->numel == 0 || y->numel == 0)
        return true;
    int64_t wide = q->size[3] + in[2]->size[3] + 32,
            steps = (g ? plan.queries : ATTENTION_SIDE) * plan.keys * wide;
    int64_t grain = 1 + (1 << 19) / RG_MAX(1, steps);
    int workers = rgi_workers(parts, grain);
    plan.bytes = (size_t)(wide * (2 * along + (g ? 3 * plan.queries : 0))
                          + 2 * ATTENTION_ALONG * ATTENTION_SIDE)
                 * rgi_sizeof(q->dtype);
    if (!(plan.room = rgi_alloc(plan.bytes * (size_t)workers, RG_MEM_OTHER)))
        return false;
    rgi_parallel(parts, grain, workers, works[g != NULL][q->dtype == RG_FLOAT64][k_set], &plan);
    rgi_free(plan.room, plan.bytes * (size_t)workers, RG_MEM_OTHER);
    return true;
}

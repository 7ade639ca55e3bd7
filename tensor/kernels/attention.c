/*
 * attention.c: softmax(scale q k^T + mask) v by tiles of queries and keys, so that memory grows
 * with the number of queries and keys, and not with their product. Backward computes the weights
 * again from lse, the logarithm of each query's sum of exponentials. loops/attention.h computes a
 * tile; loops/attention_lanes.h handles short and narrow heads, one head per vector lane.
 */
#include "kernels.h"
#include "tensor/memory.h"
#include "smooth.h"

/* A tile is a matrix of ATTENTION_ALONG rows of ATTENTION_SIDE scores; the scores of a row are the
 * lanes of vectors. Where the diagonal of a causal mask crosses a tile, scores are left out in
 * blocks of ATTENTION_BLOCK by ATTENTION_BLOCK. */
enum { ATTENTION_SIDE = 64, ATTENTION_ALONG = 128, ATTENTION_BLOCK = 16 };

/* If heads are in lanes, a tile has ATTENTION_ROWS queries: their sums with two keys fill half of
 * the registers. The queries and keys of a group of heads are rounded up to a multiple of
 * ATTENTION_ROWS. A task is ATTENTION_LANES heads, the number of lanes of the widest vectors. */
enum { ATTENTION_ROWS = 4, ATTENTION_LANES = 16 };

/* The matrix of one batch and head, whose rows have `size` elements; row and col are the
 * distances of its rows and columns in elements. */
typedef struct {
    const char *data;
    int64_t row, col, size;
} attention_matrix;

/* The plan of a call, which all its tasks share: the tensors of k_attend, their sizes, and
 * matmul.c's functions for their dtype. */
typedef struct {
    rg_tensor *const *in, *const *gin;
    const rg_tensor *y, *lse, *g, *g_lse, *mask;
    /* The queries and keys of a head, and the heads of a batch. A head's queries are split into
     * `tiles` tiles. */
    int64_t queries, keys, heads, tiles;
    int64_t all_heads; /* The number of heads in all batches. */
    double scale;
    bool causal;
    k_product *product;
    k_turn *turn;
    /* The workers' scratch memory, `bytes` bytes each. */
    char *room;
    size_t bytes;
} attention_plan;

/* A stretch: n keys (forward) or queries (backward) from `from` on, which are combined with a tile
 * of queries or keys. `ahead` is the position of the first query minus that of the first key. With
 * a causal mask, a query sees the keys up to its own position. Masked scores are skipped in blocks
 * of `block` by `block`. */
typedef struct {
    int64_t from, n, ahead, block;
} attention_stretch;

/* Returns the stretch of n keys or queries from `from` on. Its blocks are small only if the
 * diagonal crosses the `keys` keys of the stretch or the tile. */
static inline attention_stretch attention_cut(const attention_plan *plan, int64_t from, int64_t n,
                                              int64_t ahead, int64_t keys) {
    const bool cuts = plan->causal && ahead < keys;
    return (attention_stretch){
        .from = from, .n = n, .ahead = ahead, .block = cuts ? ATTENTION_BLOCK : ATTENTION_ALONG
    };
}

/* Returns the number of keys, at most n, that are visible to the queries of the block that contains
 * the i-th query. */
static inline int64_t attention_seen(const attention_plan *plan, const attention_stretch *stretch,
                                     int64_t n, int64_t i) {
    if (!plan->causal)
        return n;
    const int64_t end = stretch->ahead + i / stretch->block * stretch->block + stretch->block;
    return RG_MIN(n, end);
}

/* Returns t's matrix for a head. t may have one matrix for all heads or batches. Returns an empty
 * matrix if t is NULL. */
static attention_matrix attention_part(const rg_tensor *t, int64_t head,
                                       const attention_plan *plan) {
    if (!t)
        return (attention_matrix){ 0 };
    const int n = t->ndim;
    const int64_t at[] = { head / plan->heads, head % plan->heads };
    int64_t offset = 0;
    for (int d = RG_MAX(0, n - 4); d < n - 2; d++)
        if (t->size[d] != 1)
            offset += at[d - (n - 4)] * t->stride[d];
    return (attention_matrix){ .data = t->data + offset * (int64_t)rgi_sizeof(t->dtype),
                               .row = t->size[n - 2] == 1 ? 0 : t->stride[n - 2],
                               .col = t->size[n - 1] == 1 ? 0 : t->stride[n - 1],
                               .size = t->size[n - 1] };
}

/* The matrices of the heads in the lanes of a vector. */
typedef struct {
    const char *data[ATTENTION_LANES];
    int64_t row, col, size;
} attention_lanes;

/* Returns t's matrices for `heads` heads from `first` on. Unused lanes repeat the first one. */
static attention_lanes attention_find_lanes(const attention_plan *plan, const rg_tensor *t,
                                            int64_t first, int heads, int lanes) {
    const attention_matrix from = attention_part(t, first, plan);
    const int n = t->ndim;
    const int64_t item = (int64_t)rgi_sizeof(t->dtype);
    const int64_t of_head = n > 2 && t->size[n - 3] != 1 ? t->stride[n - 3] * item : 0;
    const int64_t of_batch = n > 3 && t->size[n - 4] != 1 ? t->stride[n - 4] * item : 0;
    attention_lanes found = { .row = from.row, .col = from.col, .size = from.size };
    int64_t head = first % plan->heads;
    const char *data = from.data;
    for (int l = 0; l < lanes; l++) {
        found.data[l] = l < heads ? data : from.data;
        data += of_head;
        head++;
        if (head == plan->heads) {
            head = 0;
            data += of_batch - plan->heads * of_head;
        }
    }
    return found;
}

/* Rounds n up to a multiple of ATTENTION_ROWS. */
static inline int64_t attention_whole_rows(int64_t n) {
    return (n + ATTENTION_ROWS - 1) / ATTENTION_ROWS * ATTENTION_ROWS;
}

/* y = a b, or y += a b. The caller sets m, n, k, a_row, a_col, b_row and y_row. */
static void attention_product(const attention_plan *plan, k_product_sizes sizes, void *y,
                              const void *a, const void *b, bool add) {
    sizes.y_col = 1;
    sizes.b_col = 1;
    sizes.c_row = sizes.y_row;
    plan->product(&sizes, y, a, b, add);
}

#define K_LOOPS "loops/attention.h"
#define K_TYPES_FLOATS
#include "sets.h"

#define K_LOOPS "loops/attention_lanes.h"
#define K_TYPES_FLOATS
#include "sets.h"

/* ---- attention by tiles ---------------------------------------------------------------------- */

/* Returns the cost of a task: a tile of queries forward, a head backward. A score costs `wide`
 * steps. */
static int64_t attention_steps(const attention_plan *plan, int64_t wide) {
    return (plan->g ? plan->queries : ATTENTION_SIDE) * plan->keys * wide;
}

/* Returns the size of a worker's tiles in bytes. */
static size_t attention_room(const attention_plan *plan, int64_t wide) {
    const int64_t rows = 2 * (ATTENTION_SIDE + ATTENTION_ALONG) + (plan->g ? 3 * plan->queries : 0);
    const int64_t scores = 2 * ATTENTION_ALONG * ATTENTION_SIDE;
    return (size_t)(wide * rows + scores) * rgi_sizeof(plan->in[0]->dtype);
}

/* ---- attention by lanes ---------------------------------------------------------------------- */

/* Returns whether heads go in lanes. Tiles of long and wide heads fill vectors better: by
 * measurement, lanes are faster if the used fraction of lanes is at least sqrt(length * width) /
 * 32. */
static bool attention_by_lanes(const attention_plan *plan) {
    const int64_t length = RG_MAX(plan->queries, plan->keys);
    const int64_t width = RG_MAX(plan->in[0]->size[3], plan->in[2]->size[3]);
    const int64_t at_once = 64 / (int64_t)rgi_sizeof(plan->in[0]->dtype);
    const double lanes = (double)((plan->all_heads - 1) / at_once + 1) * (double)at_once;
    const double filled = (double)plan->all_heads / lanes;
    return (double)length * (double)width <= 1024 * filled * filled;
}

/* Returns the size of a worker's group of heads in bytes. */
static size_t attention_lanes_room(const attention_plan *plan) {
    const int64_t wide = attention_whole_rows(plan->in[0]->size[3])
                         + attention_whole_rows(plan->in[2]->size[3]);
    const int64_t rows = attention_whole_rows(plan->queries) + attention_whole_rows(plan->keys);
    return (size_t)(rows * (wide * (plan->g ? 2 : 1) + 2 * ATTENTION_ROWS + 2)) * 64;
}

/* Runs the loop on this many tasks of `steps` steps each, with `bytes` bytes for each worker.
 * Returns false if there is no memory. */
static bool attention_run(attention_plan *plan, rg_work *work, int64_t parts, int64_t steps,
                          size_t bytes) {
    const int64_t grain = 1 + (1 << 19) / RG_MAX(1, steps);
    const int workers = rgi_workers(parts, grain);
    plan->bytes = bytes;
    plan->room = rgi_alloc(bytes * (size_t)workers, RG_MEM_OTHER);
    if (!plan->room)
        return false;
    rgi_parallel(parts, grain, workers, work, plan);
    rgi_free(plan->room, bytes * (size_t)workers, RG_MEM_OTHER);
    return true;
}

bool k_attend(const k_attention *a, rg_tensor *y, rg_tensor *lse, const rg_tensor *g,
              const rg_tensor *g_lse, rg_tensor *const gin[], rg_tensor *const in[],
              const rg_tensor *mask) {
    static rg_work *const forward[K_DTYPES][K_SETS] = K_TABLE_FLOATS(attention_forward);
    static rg_work *const backward[K_DTYPES][K_SETS] = K_TABLE_FLOATS(attention_backward);
    static rg_work *const lanes[K_DTYPES][K_SETS] = K_TABLE_FLOATS(attention_lanes_forward);
    static rg_work *const lanes_back[K_DTYPES][K_SETS] = K_TABLE_FLOATS(attention_lanes_backward);
    const rg_tensor *q = in[0];
    if (q->numel == 0 || y->numel == 0)
        return true;
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
                            .all_heads = q->size[0] * q->size[1],
                            .tiles = (q->size[2] - 1) / ATTENTION_SIDE + 1,
                            .scale = a->scale,
                            .causal = a->causal,
                            .product = k_direct_product(q->dtype),
                            .turn = k_direct_turn(q->dtype) };
    const int64_t wide = q->size[3] + in[2]->size[3] + 32;
    if (attention_by_lanes(&plan)) {
        rg_work *work = K_LOOP_OF(g ? lanes_back : lanes, q->dtype, "attention");
        return work
               && attention_run(&plan, work, (plan.all_heads - 1) / ATTENTION_LANES + 1,
                                ATTENTION_LANES * plan.queries * plan.keys * wide,
                                attention_lanes_room(&plan));
    }
    rg_work *work = K_LOOP_OF(g ? backward : forward, q->dtype, "attention");
    if (!work || !plan.product || !plan.turn)
        return false;
    return attention_run(&plan, work, plan.all_heads * (g ? 1 : plan.tiles),
                         attention_steps(&plan, wide), attention_room(&plan, wide));
}

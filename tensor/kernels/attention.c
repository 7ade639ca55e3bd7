/*
 * attention.c: computes y = softmax(scores) v, where scores = scale * q k^T + mask. The scores are
 * computed by tiles of queries and keys. So memory grows with the number of queries plus the number
 * of keys, not with the product of these numbers. For each query, forward stores lse: the logarithm
 * of the sum of the exponentials of the query's scores. Backward computes the softmax weights again
 * from lse. loops/attention.h computes a tile; loops/attention_lanes.h handles short and narrow
 * heads, one head in each vector lane.
 */
#include "exchange.h"
#include "plans.h"
#include "tensor/memory.h"
#include "smooth.h"

/* Scores are computed as matrices of at most ATTENTION_ALONG rows and ATTENTION_SIDE columns. In
 * forward, the columns are a tile of queries, and the rows are a stretch of keys. In backward, the
 * columns are a tile of keys, and the rows are a stretch of queries (see attention_stretch).
 * Vectors hold consecutive scores of a row. If the diagonal of a causal mask crosses a matrix,
 * masked scores are skipped in blocks of ATTENTION_BLOCK rows and columns. */
enum { ATTENTION_SIDE = 64, ATTENTION_ALONG = 128, ATTENTION_BLOCK = 16 };

/* Constants of attention by lanes. A tile has ATTENTION_ROWS queries; the dot products of these
 * queries and two keys fill half of the registers. Memory for the queries and keys of a head is
 * rounded up to a multiple of ATTENTION_ROWS rows. A task has ATTENTION_LANES heads, as many as the
 * widest vectors have lanes. */
enum { ATTENTION_ROWS = 4, ATTENTION_LANES = 16 };

/* The matrix of one head in one item of the batch. Its rows have `size` elements. row and col are
 * the strides of rows and columns, in elements. */
typedef struct {
    const char *data;
    int64_t row, col, size;
} attention_matrix;

/* In forward, a tile of queries is combined with one stretch of keys after the other. In backward,
 * a tile of keys is combined with stretches of queries. A stretch has n keys or queries, beginning
 * at `from`. `ahead` is the position of the first query (of the tile or the stretch) minus the
 * position of the first key. A causal mask needs `ahead`, because with such a mask a query sees
 * only the keys up to its own position. Masked scores are skipped in blocks of `block` rows and
 * columns. */
typedef struct {
    int64_t from, n, ahead, block;
} attention_stretch;

/* Returns the stretch of n keys or queries that begins at `from`. `keys` is the number of keys in
 * the stretch (forward) or in the tile (backward). The blocks are small only if the diagonal of a
 * causal mask crosses these keys. */
static inline attention_stretch attention_cut(const attention_plan *plan, int64_t from, int64_t n,
                                              int64_t ahead, int64_t keys) {
    const bool cuts = plan->causal && ahead < keys;
    return (attention_stretch){
        .from = from, .n = n, .ahead = ahead, .block = cuts ? ATTENTION_BLOCK : ATTENTION_ALONG
    };
}

/* Returns the number of keys for which query i needs scores; they are the first of the n keys.
 * Without a causal mask, query i needs all n keys. With a causal mask, it needs the keys that the
 * last query of its block sees; a block has stretch->block queries. i counts from the first query
 * of the tile or stretch. */
static inline int64_t attention_seen(const attention_plan *plan, const attention_stretch *stretch,
                                     int64_t n, int64_t i) {
    if (!plan->causal)
        return n;
    const int64_t end = stretch->ahead + i / stretch->block * stretch->block + stretch->block;
    return RG_MIN(n, end);
}

/* Returns the operand's matrix for head number `head`; the heads of all items of the batch are
 * numbered one after the other. */
static attention_matrix attention_part(const attention_operand *t, int64_t head,
                                       const attention_plan *plan) {
    const int64_t item = head / plan->heads;
    return (attention_matrix){
        .data = t->data ? t->data + item * t->item + (head - item * plan->heads) * t->head : NULL,
        .row = t->row,
        .col = t->col,
        .size = t->size
    };
}

/* The matrices of the heads that are in the lanes of a vector: one address for each lane. All
 * matrices have the same strides and the same size. */
typedef struct {
    const char *data[ATTENTION_LANES];
    int64_t row, col, size;
} attention_lanes;

/* Returns the operand's matrices for `heads` heads, beginning at head `first`. Lanes without a head
 * get the matrix of the first head. */
static attention_lanes attention_find_lanes(const attention_plan *plan, const attention_operand *t,
                                            int64_t first, int heads, int lanes) {
    const attention_matrix from = attention_part(t, first, plan);
    attention_lanes found = { .row = from.row, .col = from.col, .size = from.size };
    int64_t head = first % plan->heads;
    const char *data = from.data;
    for (int l = 0; l < lanes; l++) {
        found.data[l] = l < heads ? data : from.data;
        data += t->head;
        head++;
        if (head == plan->heads) {
            head = 0;
            data += t->item - plan->heads * t->head;
        }
    }
    return found;
}

/* Rounds n up to a multiple of ATTENTION_ROWS. */
static inline int64_t attention_whole_rows(int64_t n) {
    return (n + ATTENTION_ROWS - 1) / ATTENTION_ROWS * ATTENTION_ROWS;
}

/* Computes the matrix product y = a b, or y += a b if `add` is true. The caller sets m, n, k,
 * a_row, a_col, b_row and y_row in `sizes`. Requires that the rows of y and b are contiguous. */
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

/* Returns the cost of a task, as a number of elementary operations. A task is a tile of queries in
 * forward, and a head in backward. Each score costs `wide` operations. */
static int64_t attention_steps(const attention_plan *plan, int64_t wide) {
    return (plan->g.data ? plan->queries : ATTENTION_SIDE) * plan->keys * wide;
}

/* Returns the number of bytes that a worker needs for its tiles, whose elements have `item`
 * bytes. */
static size_t attention_room(const attention_plan *plan, int64_t wide, size_t item) {
    const int64_t of_queries = plan->g.data ? 3 * plan->queries : 0;
    const int64_t rows = 2 * (ATTENTION_SIDE + ATTENTION_ALONG) + of_queries;
    const int64_t scores = 2 * ATTENTION_ALONG * ATTENTION_SIDE;
    return (size_t)(wide * rows + scores) * item;
}

/* ---- attention by lanes ---------------------------------------------------------------------- */

/* Returns whether to compute attention by lanes, with a head in each lane. Lanes are wasted if
 * there are too few heads. The tiles of long and wide heads fill vectors better. As measured, lanes
 * are faster if the fraction of lanes that are used is at least sqrt(length * width) / 32. Here,
 * length is the number of queries or of keys, whichever is larger, and width is the size of a row
 * of q or of v, whichever is larger. Elements have `item` bytes. */
static bool attention_by_lanes(const attention_plan *plan, int64_t item) {
    const int64_t length = RG_MAX(plan->queries, plan->keys);
    const int64_t width = RG_MAX(plan->in[0].size, plan->in[2].size);
    const int64_t at_once = 64 / item;
    const double lanes = (double)((plan->all_heads - 1) / at_once + 1) * (double)at_once;
    const double filled = (double)plan->all_heads / lanes;
    return (double)length * (double)width <= 1024 * filled * filled;
}

/* Returns the number of bytes that a worker needs for a group of heads. */
static size_t attention_lanes_room(const attention_plan *plan) {
    const int64_t wide = attention_whole_rows(plan->in[0].size)
                         + attention_whole_rows(plan->in[2].size);
    const int64_t rows = attention_whole_rows(plan->queries) + attention_whole_rows(plan->keys);
    return (size_t)(rows * (wide * (plan->g.data ? 2 : 1) + 2 * ATTENTION_ROWS + 2)
                    * k_widest_vectors());
}

/* Runs `work` for tasks 0 to parts - 1, on several threads. `steps` is the cost of a task in
 * elementary operations, and `bytes` the size of the scratch memory of each worker. Returns false
 * if memory runs out. */
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

/* Returns t as an operand. If t has no dim of heads, or size 1 in this dim, all heads of an item
 * share a matrix. If t has no dim of the batch, or size 1 in this dim, all items share their
 * matrices. */
static attention_operand attention_operand_of(const rg_tensor *t) {
    if (!t)
        return (attention_operand){ .data = NULL };
    const int n = t->ndim;
    const int64_t bytes = (int64_t)rgi_sizeof(t->dtype);
    return (attention_operand){ .data = t->data,
                                .item = n > 3 && t->size[n - 4] != 1 ? t->stride[n - 4] * bytes : 0,
                                .head = n > 2 && t->size[n - 3] != 1 ? t->stride[n - 3] * bytes : 0,
                                .row = t->size[n - 2] == 1 ? 0 : t->stride[n - 2],
                                .col = t->size[n - 1] == 1 ? 0 : t->stride[n - 1],
                                .size = t->size[n - 1] };
}

typedef rg_work *attention_table[K_DTYPES][K_COLUMNS];
static attention_table const attention_forward_loops = K_TABLE_FLOATS(attention_forward);
static attention_table const attention_backward_loops = K_TABLE_FLOATS(attention_backward);
static attention_table const attention_lanes_forward_loops =
    K_TABLE_FLOATS(attention_lanes_forward);
static attention_table const attention_lanes_backward_loops =
    K_TABLE_FLOATS(attention_lanes_backward);

bool k_attend(const k_attention *a, rg_tensor *y, rg_tensor *lse, const rg_tensor *g,
              const rg_tensor *g_lse, rg_tensor *const gin[], rg_tensor *const in[],
              const rg_tensor *mask) {
    const rg_tensor *q = in[0];
    if (q->numel == 0 || y->numel == 0)
        return true;
    attention_plan plan = { .y = attention_operand_of(y),
                            .g = attention_operand_of(g),
                            .mask = attention_operand_of(mask),
                            .lse = lse->data,
                            .g_lse = g_lse ? g_lse->data : NULL,
                            .queries = q->size[2],
                            .keys = in[1]->size[2],
                            .heads = q->size[1],
                            .all_heads = q->size[0] * q->size[1],
                            .tiles = (q->size[2] - 1) / ATTENTION_SIDE + 1,
                            .scale = a->scale,
                            .causal = a->causal,
                            .product = k_direct_product(q->dtype),
                            .turn = k_direct_turn(q->dtype) };
    for (int i = 0; i < 3; i++) {
        plan.in[i] = attention_operand_of(in[i]);
        if (g)
            plan.gin[i] = attention_operand_of(gin[i]);
    }
    const int64_t wide = q->size[3] + in[2]->size[3] + 32;
    const size_t item = rgi_sizeof(q->dtype);
    if (attention_by_lanes(&plan, (int64_t)item)) {
        rg_work *work = g ? K_LOOP_OF(attention_lanes_backward_loops, q->dtype, "attention")
                          : K_LOOP_OF(attention_lanes_forward_loops, q->dtype, "attention");
        return work
               && attention_run(&plan, work, (plan.all_heads - 1) / ATTENTION_LANES + 1,
                                ATTENTION_LANES * plan.queries * plan.keys * wide,
                                attention_lanes_room(&plan));
    }
    rg_work *work = g ? K_LOOP_OF(attention_backward_loops, q->dtype, "attention")
                      : K_LOOP_OF(attention_forward_loops, q->dtype, "attention");
    if (!work || !plan.product || !plan.turn)
        return false;
    return attention_run(&plan, work, plan.all_heads * (g ? 1 : plan.tiles),
                         attention_steps(&plan, wide), attention_room(&plan, wide, item));
}

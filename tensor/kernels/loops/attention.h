/*
 * loops/attention.h: attention of one head, tile by tile, compiled for each element type and
 * instruction set (see sets.h). The lanes of a vector are consecutive queries in forward, and
 * consecutive keys in backward. So the maxima and sums over scores needn't combine the lanes of a
 * vector. Forward has to transpose only q, and backward only k and v. matmul.c computes the matrix
 * products. attention.c explains tiles and stretches.
 */
K_SUMS_IN_T;

#define SIDE    ATTENTION_SIDE
#define VECTOR  K_NAME(attention_vector)
#define LANES   ((int)(K_VECTOR_BYTES / sizeof(T)))
#define PARTIAL ((int)(64 / sizeof(T)))

typedef T VECTOR __attribute__((vector_size(K_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

/* Returns n, rounded up to a multiple of LANES. */
K_INLINE int64_t K_NAME(attention_whole)(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* ---- reading and writing rows ---------------------------------------------------------------- */

/* Returns n rows of t, beginning at row `from`. Each row is filled up with zeros to a whole number
 * of vectors. If t's rows are contiguous and fill whole vectors, the result points into t's own
 * memory, otherwise to a copy in `room`. Sets *row to the distance from one row of the result to
 * the next, in elements. */
static const T *K_NAME(attention_rows)(const attention_matrix *t, int64_t from, int64_t n, T *room,
                                       int64_t *row) {
    const T *p = (const T *)t->data + from * t->row;
    if (t->col == 1 && t->size % LANES == 0) {
        *row = t->row;
        return p;
    }
    const int64_t wide = K_NAME(attention_whole)(t->size);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < wide; j++)
            room[i * wide + j] = j < t->size ? p[i * t->row + j * t->col] : 0;
    *row = wide;
    return room;
}

/* Transposes n rows of t, beginning at row `from`, into the columns of `to`, and multiplies them by
 * `scale`. Each row of `to` is filled up with zeros to a whole number of vectors. */
static void K_NAME(attention_turn)(const attention_plan *plan, const attention_matrix *t,
                                   int64_t from, int64_t n, double scale, T *to) {
    if (n % LANES)
        memset(to, 0, (size_t)(t->size * SIDE) * sizeof(T));
    plan->turn(to, SIDE, (const T *)t->data + from * t->row, t->row, t->col, n, t->size, scale);
}

/* Multiplies n rows, which are `wide` elements apart, by `scale`, and writes them to t's matrix for
 * this head, beginning at row `from`. Does nothing if t has no elements. */
static void K_NAME(attention_write)(const attention_plan *plan, const attention_operand *t,
                                    int64_t head, int64_t from, int64_t n, const T *rows,
                                    int64_t wide, T scale) {
    if (!t->data)
        return;
    const attention_matrix to = attention_part(t, head, plan);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < to.size; j++)
            ((T *)to.data)[(from + i) * to.row + j * to.col] = scale * rows[i * wide + j];
}

/* Returns the next n elements of the scratch memory *room, and moves *room behind them, to the next
 * multiple of 64 bytes. */
static T *K_NAME(attention_take)(char **room, int64_t n) {
    T *p = (T *)*room;
    *room += (n * (int64_t)sizeof(T) + 63) / 64 * 64;
    return p;
}

/* ---- forward: y and lse -------------------------------------------------------------------- */

/* A tile of queries. The tile reads the keys stretch by stretch, and keeps these numbers for each
 * query:
 *
 *     most     the largest score among the keys that were read up to now
 *     total    the sum of the weights of these keys, where a weight is e^(score - most)
 *     out      the sum of the rows of v, times their weights
 *     shift    the same as `most`, but 0 if `most` is -infinity
 *     fade     when `most` rises, the factor by which `total` and `out` are multiplied
 *
 * `scores` has the scores of the current stretch, which are replaced by the weights. */
typedef struct {
    const attention_plan *plan;
    attention_matrix q, k, v, mask;
    /* The tile has the n queries that begin at query `first`; `lanes` is n rounded up to whole
     * vectors. `turned` is q^T, multiplied by the scale. Rows of `out` have wide_v elements. */
    int64_t head, first, n, lanes, wide_v;
    T *turned, *scores, *out, *v_room;
    /* The arrays are aligned, because a vector that crosses two cache lines is slow to read. */
    T most[SIDE] __attribute__((aligned(64)));
    T total[SIDE] __attribute__((aligned(64)));
    T shift[SIDE] __attribute__((aligned(64)));
    T fade[SIDE] __attribute__((aligned(64)));
} K_NAME(attention_queries);

#define QUERIES K_NAME(attention_queries)

/* scores = scale * k q^T. If the attention is causal, a block of keys skips the queries that see
 * none of the block's keys. */
static void K_NAME(attention_scores)(const QUERIES *tile, const attention_stretch *stretch) {
    const attention_plan *plan = tile->plan;
    for (int64_t j = 0; j < stretch->n; j += stretch->block) {
        const int64_t unseen = plan->causal ? RG_MAX(0, j - stretch->ahead) : 0;
        const T *keys = (const T *)tile->k.data + (stretch->from + j) * tile->k.row;
        const k_product_sizes sizes = { .m = RG_MIN(stretch->block, stretch->n - j),
                                        .n = tile->lanes - unseen,
                                        .k = tile->q.size,
                                        .a_row = tile->k.row,
                                        .a_col = tile->k.col,
                                        .b_row = SIDE,
                                        .y_row = SIDE };
        attention_product(plan, sizes, tile->scores + j * SIDE + unseen, keys,
                          tile->turned + unseen, false);
    }
}

/* Adds the mask to the scores. If the attention is causal, also sets the scores of keys that come
 * after the query to -infinity. */
static void K_NAME(attention_hide)(const QUERIES *tile, const attention_stretch *stretch) {
    const attention_matrix *mask = &tile->mask;
    const T *hidden = (const T *)mask->data;
    T *scores = tile->scores;
    for (int64_t j = 0; hidden && j < stretch->n; j++)
        for (int64_t i = 0; i < tile->n; i++)
            scores[j * SIDE + i] +=
                hidden[(tile->first + i) * mask->row + (stretch->from + j) * mask->col];
    for (int64_t j = RG_MAX(0, stretch->ahead); tile->plan->causal && j < stretch->n; j++) {
        const int64_t before = j - stretch->ahead;
        for (int64_t i = before / stretch->block * stretch->block; i < RG_MIN(tile->n, before); i++)
            scores[j * SIDE + i] = -(T)INFINITY;
    }
}

/* For each query, sets `shift` to the new maximum: the larger of `most` and the query's largest
 * score in this stretch. */
static void K_NAME(attention_maxima)(QUERIES *tile, const attention_stretch *stretch) {
    for (int64_t i = 0; i < tile->lanes; i += LANES) {
        const int64_t seen = attention_seen(tile->plan, stretch, stretch->n, i);
        VECTOR greatest = *(VECTOR *)(tile->most + i);
        for (int64_t j = 0; j < seen; j++) {
            VECTOR x = *(VECTOR *)(tile->scores + j * SIDE + i);
            __typeof__(x > greatest) more = x > greatest;
            greatest = (VECTOR)((more & (__typeof__(more))x)
                                | (~more & (__typeof__(more))greatest));
        }
        *(VECTOR *)(tile->shift + i) = greatest;
    }
}

/* Sets `most` to the new maxima, which attention_maxima has left in `shift`; then replaces
 * -infinity in `shift` by 0. Sets `fade` to e^(old most - shift), and multiplies `total` by `fade`.
 * Returns whether any maximum has risen; if so, the caller must multiply `out` by `fade`. */
static bool K_NAME(attention_fade)(QUERIES *tile) {
    bool fades = false;
    for (int64_t i = 0; i < tile->lanes; i++) {
        const T greatest = tile->shift[i];
        tile->shift[i] = greatest == -(T)INFINITY ? 0 : greatest;
        tile->fade[i] = K_TYPED(k_exp_below)(tile->most[i] - tile->shift[i]);
        fades |= tile->most[i] != greatest;
        tile->most[i] = greatest;
        tile->total[i] *= tile->fade[i];
    }
    return fades;
}

/* Replaces the scores by the weights exp(scores - shift), and adds the weights to `total`. */
static void K_NAME(attention_weights)(T *restrict scores, T *restrict total,
                                      const T *restrict shift, int64_t lanes, bool causal,
                                      const attention_stretch *stretch) {
    for (int64_t j = 0; j < stretch->n; j++) {
        const int64_t blocks = (j - stretch->ahead) / stretch->block;
        const int64_t unseen = causal ? RG_MAX(0, blocks * stretch->block) : 0;
        for (int64_t i = unseen; i < lanes; i++) {
            scores[j * SIDE + i] = K_TYPED(k_exp_below)(scores[j * SIDE + i] - shift[i]);
            total[i] += scores[j * SIDE + i];
        }
    }
}

/* out += weights^T v, for a stretch of keys. */
static void K_NAME(attention_values)(const QUERIES *tile, const attention_stretch *stretch) {
    int64_t v_row;
    const T *v = K_NAME(attention_rows)(&tile->v, stretch->from, stretch->n, tile->v_room, &v_row);
    for (int64_t i = 0; i < tile->n; i += stretch->block) {
        const int64_t seen = attention_seen(tile->plan, stretch, stretch->n, i);
        const k_product_sizes sizes = { .m = RG_MIN(stretch->block, tile->n - i),
                                        .n = tile->wide_v,
                                        .k = seen,
                                        .a_row = 1,
                                        .a_col = SIDE,
                                        .b_row = v_row,
                                        .y_row = tile->wide_v };
        attention_product(tile->plan, sizes, tile->out + i * tile->wide_v, tile->scores + i, v,
                          true);
    }
}

/* Adds a stretch of keys to the sums `total` and `out` of the tile. */
static void K_NAME(attention_forward_stretch)(QUERIES *tile, const attention_stretch *stretch) {
    K_NAME(attention_scores)(tile, stretch);
    K_NAME(attention_hide)(tile, stretch);
    K_NAME(attention_maxima)(tile, stretch);
    const bool fades = K_NAME(attention_fade)(tile);
    const bool causal = tile->plan->causal;
    K_NAME(attention_weights)(tile->scores, tile->total, tile->shift, tile->lanes, causal, stretch);
    for (int64_t i = 0; fades && i < tile->n; i++)
        for (int64_t j = 0; j < tile->wide_v; j++)
            tile->out[i * tile->wide_v + j] *= tile->fade[i];
    K_NAME(attention_values)(tile, stretch);
}

/* Initialises a tile of queries before any key is read. */
static void K_NAME(attention_forward_begin)(QUERIES *tile, int64_t head, int64_t first) {
    const attention_plan *plan = tile->plan;
    tile->head = head;
    tile->first = first;
    tile->n = RG_MIN(plan->queries - first, SIDE);
    tile->lanes = K_NAME(attention_whole)(tile->n);
    tile->q = attention_part(&plan->in[0], head, plan);
    tile->k = attention_part(&plan->in[1], head, plan);
    tile->v = attention_part(&plan->in[2], head, plan);
    tile->mask = attention_part(&plan->mask, head, plan);
    K_NAME(attention_turn)(plan, &tile->q, first, tile->n, plan->scale, tile->turned);
    memset(tile->out, 0, (size_t)(SIDE * tile->wide_v) * sizeof(T));
    for (int i = 0; i < SIDE; i++) {
        tile->most[i] = -(T)INFINITY;
        tile->total[i] = 0;
    }
}

/* Writes y = out / total and lse = most + log(total). Both are 0 for a query for which all weights
 * are 0. */
static void K_NAME(attention_forward_end)(const QUERIES *tile) {
    const attention_plan *plan = tile->plan;
    const int64_t wide = tile->wide_v;
    T *lse = (T *)plan->lse + tile->head * plan->queries + tile->first;
    for (int64_t i = 0; i < tile->n; i++) {
        const T total = tile->total[i];
        const T share = total == 0 ? 0 : 1 / total;
        for (int64_t j = 0; j < wide; j++)
            tile->out[i * wide + j] *= share;
        lse[i] = total == 0 ? 0 : tile->most[i] + K_TYPED(k_log)(total);
    }
    K_NAME(attention_write)(plan, &plan->y, tile->head, tile->first, tile->n, tile->out, wide, 1);
}

/* Computes y and lse of tiles begin to end - 1. */
static void K_NAME(attention_forward)(void *context, int64_t begin, int64_t end, int worker) {
    const attention_plan *plan = context;
    char *room = plan->room + (size_t)worker * plan->bytes;
    QUERIES tile = { .plan = plan, .wide_v = K_NAME(attention_whole)(plan->in[2].size) };
    tile.turned = K_NAME(attention_take)(&room, plan->in[0].size * SIDE);
    tile.scores = K_NAME(attention_take)(&room, ATTENTION_ALONG * SIDE);
    tile.out = K_NAME(attention_take)(&room, SIDE * tile.wide_v);
    tile.v_room = K_NAME(attention_take)(&room, ATTENTION_ALONG * tile.wide_v);
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part % plan->tiles * SIDE;
        K_NAME(attention_forward_begin)(&tile, part / plan->tiles, first);
        const int64_t reach = plan->causal ? RG_MIN(plan->keys, first + tile.n) : plan->keys;
        for (int64_t from = 0; from < reach; from += ATTENTION_ALONG) {
            const int64_t n = RG_MIN(reach - from, ATTENTION_ALONG);
            const attention_stretch stretch = attention_cut(plan, from, n, first - from, n);
            K_NAME(attention_forward_stretch)(&tile, &stretch);
        }
        K_NAME(attention_forward_end)(&tile);
    }
}

#undef QUERIES

/* ---- backward: the gradients --------------------------------------------------------------- */

/* The state of backward for one head. g and g_lse are the gradients of the outputs y and lse. For
 * each stretch of queries and tile of keys, two matrices are computed: the attention weights p =
 * exp(scale * q k^T + mask - lse), and the gradients of the scores s = p * (g v^T - lost). Here *
 * is elementwise; products without a sign are matrix products. In a first step,
 * attention_two_scores stores scale * q k^T in `weights` and g v^T in `slopes`. Then
 * attention_slopes turns `weights` into p, and `slopes` into s. `lost` has one number for each
 * query: sum(g * y) - g_lse, with the sum over the query's row. gq, gk and gv are sums of the
 * products s k, s^T q and p^T g over all stretches and tiles. gq and gk are multiplied by scale
 * when they are written to the results. */
typedef struct {
    const attention_plan *plan;
    attention_matrix q, k, v, g, y, mask;
    int64_t head, wide, wide_v;
    /* q_rows and g_rows hold all rows of the head; tile_rows holds the rows of the tile. Their rows
     * are q_row, g_row and k_row elements apart. */
    const T *q_rows, *g_rows, *tile_rows;
    int64_t q_row, g_row, k_row;
    const T *lse;
    T *keys_turned, *values_turned, *weights, *slopes, *lost;
    T *gq, *gk, *gv;
    T *q_room, *k_room, *g_room;
} K_NAME(attention_head);

#define HEAD K_NAME(attention_head)

/* Initialises a head: finds its matrices, divides the scratch memory `room` into arrays, reads the
 * rows of q and g, and sets gq to 0. */
static void K_NAME(attention_head_begin)(HEAD *h, char *room) {
    const attention_plan *plan = h->plan;
    const int64_t queries = plan->queries;
    h->q = attention_part(&plan->in[0], h->head, plan);
    h->k = attention_part(&plan->in[1], h->head, plan);
    h->v = attention_part(&plan->in[2], h->head, plan);
    h->g = attention_part(&plan->g, h->head, plan);
    h->y = attention_part(&plan->y, h->head, plan);
    h->mask = attention_part(&plan->mask, h->head, plan);
    h->wide = K_NAME(attention_whole)(h->q.size);
    h->wide_v = K_NAME(attention_whole)(h->v.size);
    h->keys_turned = K_NAME(attention_take)(&room, h->q.size * SIDE);
    h->values_turned = K_NAME(attention_take)(&room, h->v.size * SIDE);
    h->weights = K_NAME(attention_take)(&room, ATTENTION_ALONG * SIDE);
    h->slopes = K_NAME(attention_take)(&room, ATTENTION_ALONG * SIDE);
    h->gk = K_NAME(attention_take)(&room, SIDE * h->wide);
    h->gv = K_NAME(attention_take)(&room, SIDE * h->wide_v);
    h->k_room = K_NAME(attention_take)(&room, SIDE * h->wide);
    h->lost = K_NAME(attention_take)(&room, queries);
    h->gq = K_NAME(attention_take)(&room, queries * h->wide);
    h->q_room = K_NAME(attention_take)(&room, queries * h->wide);
    h->g_room = K_NAME(attention_take)(&room, queries * h->wide_v);
    h->lse = (const T *)plan->lse + h->head * queries;
    h->q_rows = K_NAME(attention_rows)(&h->q, 0, queries, h->q_room, &h->q_row);
    h->g_rows = K_NAME(attention_rows)(&h->g, 0, queries, h->g_room, &h->g_row);
    memset(h->gq, 0, (size_t)(queries * h->wide) * sizeof(T));
}

/* Computes lost = sum(g * y) - g_lse for each query. The array gv, which isn't in use yet, is
 * scratch memory for a row of y. In every set the sum is made of as many partial sums as fit into
 * 64 bytes. */
static void K_NAME(attention_lost)(HEAD *h) {
    const attention_plan *plan = h->plan;
    const T *g_lse = plan->g_lse ? (const T *)plan->g_lse + h->head * plan->queries : NULL;
    for (int64_t i = 0; i < plan->queries; i++) {
        int64_t y_row;
        const T *y = K_NAME(attention_rows)(&h->y, i, 1, h->gv, &y_row);
        const T *g = h->g_rows + i * h->g_row;
        VECTOR sums[64 / K_VECTOR_BYTES] = { 0 };
        T sum = 0;
        for (int64_t j = 0; j < h->wide_v; j += LANES)
            sums[j % PARTIAL / LANES] += *(const VECTOR *)(g + j) * *(const VECTOR *)(y + j);
        for (int k = 0; k < PARTIAL; k++)
            sum += sums[k / LANES][k % LANES];
        h->lost[i] = sum - (g_lse ? g_lse[i] : 0);
    }
}

/* The first step for a stretch of queries and the tile's keys: stores scale * q k^T in `weights`
 * and g v^T in `slopes`. attention_slopes turns them into p and s. `lanes` is the number of keys,
 * rounded up to whole vectors. */
static void K_NAME(attention_two_scores)(const HEAD *h, const attention_stretch *stretch,
                                         int64_t lanes) {
    for (int64_t i = 0; i < stretch->n; i += stretch->block) {
        const int64_t rows = RG_MIN(stretch->block, stretch->n - i);
        const int64_t seen = attention_seen(h->plan, stretch, lanes, i);
        const T *q = h->q_rows + (stretch->from + i) * h->q_row;
        const T *g = h->g_rows + (stretch->from + i) * h->g_row;
        k_product_sizes sizes = { .m = rows,
                                  .n = seen,
                                  .k = h->q.size,
                                  .a_row = h->q_row,
                                  .a_col = 1,
                                  .b_row = SIDE,
                                  .y_row = SIDE };
        attention_product(h->plan, sizes, h->weights + i * SIDE, q, h->keys_turned, false);
        sizes.k = h->v.size;
        sizes.a_row = h->g_row;
        attention_product(h->plan, sizes, h->slopes + i * SIDE, g, h->values_turned, false);
    }
}

/* For one query and n keys: p = exp(p - lse), and then s = p * (s - lost). Before the call, p has
 * the scores, and s has the query's row of g v^T. */
K_INLINE void K_NAME(attention_row_slopes)(T *restrict p, T *restrict s, T lse, T lost, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        p[j] = K_TYPED(k_exp_below)(p[j] - lse);
        s[j] = p[j] * (s[j] - lost);
    }
}

/* Computes p and s of a stretch in place of the products that attention_two_scores has left in
 * `weights` and `slopes`. */
static void K_NAME(attention_slopes)(const HEAD *h, const attention_stretch *stretch,
                                     int64_t first_key, int64_t n, int64_t lanes) {
    const attention_matrix *mask = &h->mask;
    const T *hidden = (const T *)mask->data;
    for (int64_t i = 0; i < stretch->n; i++) {
        const int64_t query = stretch->from + i;
        const int64_t seen = attention_seen(h->plan, stretch, lanes, i);
        T *p = h->weights + i * SIDE;
        for (int64_t j = 0; hidden && j < n; j++)
            p[j] += hidden[query * mask->row + (first_key + j) * mask->col];
        for (int64_t j = RG_MAX(0, stretch->ahead + i + 1); h->plan->causal && j < seen; j++)
            p[j] = -(T)INFINITY;
        K_NAME(attention_row_slopes)(p, h->slopes + i * SIDE, h->lse[query], h->lost[query], seen);
    }
}

/* gv += p^T g and gk += s^T q, for a stretch of queries and the tile's n keys. */
static void K_NAME(attention_key_gradients)(const HEAD *h, const attention_stretch *stretch,
                                            int64_t n) {
    const attention_plan *plan = h->plan;
    for (int64_t j = 0; j < n; j += stretch->block) {
        const int64_t unseen = plan->causal ? RG_MAX(0, j - stretch->ahead) : 0;
        if (unseen >= stretch->n)
            break;
        const int64_t at = unseen * SIDE + j;
        const T *g = h->g_rows + (stretch->from + unseen) * h->g_row;
        const T *q = h->q_rows + (stretch->from + unseen) * h->q_row;
        k_product_sizes sizes = { .m = RG_MIN(stretch->block, n - j),
                                  .n = h->wide_v,
                                  .k = stretch->n - unseen,
                                  .a_row = 1,
                                  .a_col = SIDE,
                                  .b_row = h->g_row,
                                  .y_row = h->wide_v };
        if (plan->gin[2].data)
            attention_product(plan, sizes, h->gv + j * h->wide_v, h->weights + at, g, true);
        sizes.n = h->wide;
        sizes.b_row = h->q_row;
        sizes.y_row = h->wide;
        if (plan->gin[1].data)
            attention_product(plan, sizes, h->gk + j * h->wide, h->slopes + at, q, true);
    }
}

/* gq += s k, for a stretch of queries and the tile's n keys. */
static void K_NAME(attention_query_gradient)(const HEAD *h, const attention_stretch *stretch,
                                             int64_t n, int64_t lanes) {
    for (int64_t i = 0; h->plan->gin[0].data && i < stretch->n; i += stretch->block) {
        const int64_t seen = attention_seen(h->plan, stretch, lanes, i);
        T *gq = h->gq + (stretch->from + i) * h->wide;
        const k_product_sizes sizes = { .m = RG_MIN(stretch->block, stretch->n - i),
                                        .n = h->wide,
                                        .k = RG_MIN(n, seen),
                                        .a_row = SIDE,
                                        .a_col = 1,
                                        .b_row = h->k_row,
                                        .y_row = h->wide };
        attention_product(h->plan, sizes, gq, h->slopes + i * SIDE, h->tile_rows, true);
    }
}

/* Computes gk and gv of the n keys that begin at key `from`, and adds to gq what these keys
 * contribute. */
static void K_NAME(attention_backward_tile)(HEAD *h, int64_t from, int64_t n) {
    const attention_plan *plan = h->plan;
    const int64_t lanes = K_NAME(attention_whole)(n);
    const T scale = (T)plan->scale;
    K_NAME(attention_turn)(plan, &h->k, from, n, plan->scale, h->keys_turned);
    K_NAME(attention_turn)(plan, &h->v, from, n, 1, h->values_turned);
    h->tile_rows = K_NAME(attention_rows)(&h->k, from, n, h->k_room, &h->k_row);
    memset(h->gk, 0, (size_t)(SIDE * h->wide) * sizeof(T));
    memset(h->gv, 0, (size_t)(SIDE * h->wide_v) * sizeof(T));
    for (int64_t first = plan->causal ? from : 0; first < plan->queries; first += ATTENTION_ALONG) {
        const int64_t m = RG_MIN(plan->queries - first, ATTENTION_ALONG);
        const attention_stretch stretch = attention_cut(plan, first, m, first - from, n);
        K_NAME(attention_two_scores)(h, &stretch, lanes);
        K_NAME(attention_slopes)(h, &stretch, from, n, lanes);
        K_NAME(attention_key_gradients)(h, &stretch, n);
        K_NAME(attention_query_gradient)(h, &stretch, n, lanes);
    }
    K_NAME(attention_write)(plan, &plan->gin[1], h->head, from, n, h->gk, h->wide, scale);
    K_NAME(attention_write)(plan, &plan->gin[2], h->head, from, n, h->gv, h->wide_v, 1);
}

/* Computes the gradients of heads begin to end - 1. */
static void K_NAME(attention_backward)(void *context, int64_t begin, int64_t end, int worker) {
    const attention_plan *plan = context;
    const T scale = (T)plan->scale;
    for (int64_t head = begin; head < end; head++) {
        HEAD h = { .plan = plan, .head = head };
        K_NAME(attention_head_begin)(&h, plan->room + (size_t)worker * plan->bytes);
        K_NAME(attention_lost)(&h);
        for (int64_t from = 0; from < plan->keys; from += SIDE)
            K_NAME(attention_backward_tile)(&h, from, RG_MIN(plan->keys - from, SIDE));
        K_NAME(attention_write)(plan, &plan->gin[0], head, 0, plan->queries, h.gq, h.wide, scale);
    }
}

#undef HEAD
#undef SIDE
#undef VECTOR
#undef LANES
#undef PARTIAL

/*
 * loops/attention_lanes.h: attention of short and narrow heads, compiled for each element type and
 * instruction set (see sets.h). Each lane of a vector belongs to a different head. So even small
 * heads fill vectors, and no operation combines the lanes of a vector. A tile is ATTENTION_ROWS
 * queries. All queries of a tile read the keys that its last query may attend to.
 */

#define VECTOR K_NAME(lanes_vector)
#define LANES  ((int)(K_VECTOR_BYTES / sizeof(T)))
#define ROWS   ATTENTION_ROWS

typedef T VECTOR __attribute__((vector_size(K_VECTOR_BYTES), may_alias));

/* sum += a * b in each lane */
K_INLINE void K_NAME(lanes_step)(VECTOR *sum, const VECTOR *a, const VECTOR *b) {
    K_NAME(k_multiply_add)(sum, a, b);
}

/* ---- reading and writing lanes --------------------------------------------------------------- */

/* lanes_turn transposes a square of SIDE rows, each of SIDE elements or 16 bytes: four rows of four
 * floats, or two rows of two doubles. */
enum { K_NAME(lanes_side) = 16 / sizeof(T) };
#define SIDE K_NAME(lanes_side)

#ifdef K_X86
K_INLINE void K_NAME(lanes_turn)(T *const to[], const T *const from[]) {
#if K_SIZE == 4
    __m128 a = _mm_loadu_ps(from[0]);
    __m128 b = _mm_loadu_ps(from[1]);
    __m128 c = _mm_loadu_ps(from[2]);
    __m128 d = _mm_loadu_ps(from[3]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to[0], a);
    _mm_storeu_ps(to[1], b);
    _mm_storeu_ps(to[2], c);
    _mm_storeu_ps(to[3], d);
#else
    const __m128d a = _mm_loadu_pd(from[0]);
    const __m128d b = _mm_loadu_pd(from[1]);
    _mm_storeu_pd(to[0], _mm_unpacklo_pd(a, b));
    _mm_storeu_pd(to[1], _mm_unpackhi_pd(a, b));
#endif
}
#elif defined(K_SET_IS_NEON)
K_INLINE void K_NAME(lanes_turn)(T *const to[], const T *const from[]) {
#if K_SIZE == 4
    k_quarter_lanes v[4];
    for (int i = 0; i < 4; i++)
        v[i] = *(const k_quarter_lanes *)from[i];
    k_transpose_quarter(v);
    for (int i = 0; i < 4; i++)
        *(k_quarter_lanes *)to[i] = v[i];
#else
    const float64x2_t a = vld1q_f64(from[0]);
    const float64x2_t b = vld1q_f64(from[1]);
    vst1q_f64(to[0], vtrn1q_f64(a, b));
    vst1q_f64(to[1], vtrn2q_f64(a, b));
#endif
}
#else
K_INLINE void K_NAME(lanes_turn)(T *const to[], const T *const from[]) {
    T square[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        memcpy(square[i], from[i], sizeof square[i]);
    for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < SIDE; i++)
            to[j][i] = square[i][j];
}
#endif

/* Reads n rows of the matrices t, one matrix for each lane. In the matrix of lane l, element j of
 * row i becomes lane l of the vector to[i * wide + j]. The vectors from t->size to wide - 1 of each
 * row become 0. */
static void K_NAME(lanes_read)(const attention_lanes *t, int64_t n, int64_t wide, VECTOR *to) {
    const int64_t size = t->size;
    const int64_t whole = t->col == 1 ? size / SIDE * SIDE : 0;
    for (int64_t i = 0; i < n; i++, to += wide) {
        for (int64_t j = 0; j < whole; j += SIDE)
            for (int l = 0; l < LANES; l += SIDE) {
                T *columns[SIDE];
                const T *rows[SIDE];
                for (int s = 0; s < SIDE; s++) {
                    columns[s] = (T *)(to + j + s) + l;
                    rows[s] = (const T *)t->data[l + s] + i * t->row + j;
                }
                K_NAME(lanes_turn)(columns, rows);
            }
        for (int64_t j = whole; j < size; j++)
            for (int l = 0; l < LANES; l++)
                ((T *)(to + j))[l] = ((const T *)t->data[l])[i * t->row + j * t->col];
        for (int64_t j = size; j < wide; j++)
            to[j] = (VECTOR){ 0 };
    }
}

/* The reverse of lanes_read: writes n rows to the matrices t of the first `heads` lanes. The other
 * lanes have no head. */
static void K_NAME(lanes_write)(const attention_lanes *t, int64_t n, int64_t wide, int heads,
                                const VECTOR *from) {
    const int64_t size = t->size;
    const int64_t whole = t->col == 1 ? size / SIDE * SIDE : 0;
    const int full = heads / SIDE * SIDE;
    for (int64_t i = 0; i < n; i++, from += wide) {
        for (int64_t j = 0; j < whole; j += SIDE)
            for (int l = 0; l < full; l += SIDE) {
                T *rows[SIDE];
                const T *columns[SIDE];
                for (int s = 0; s < SIDE; s++) {
                    columns[s] = (const T *)(from + j + s) + l;
                    rows[s] = (T *)t->data[l + s] + i * t->row + j;
                }
                K_NAME(lanes_turn)(rows, columns);
            }
        for (int64_t j = 0; j < size; j++)
            for (int l = j < whole ? full : 0; l < heads; l++)
                ((T *)t->data[l])[i * t->row + j * t->col] = ((const T *)(from + j))[l];
    }
}

/* ---- products in every lane ---------------------------------------------------------------- */

/* s[j][i] = the sum over d of a[i][d] * b[j][d], for all rows i of a tile and n rows j of b. Two
 * rows of b are processed at once; if n is odd, row n of b and s[n] must exist as well. */
K_INLINE void K_NAME(lanes_dots)(VECTOR *s, const VECTOR *a, const VECTOR *b, int64_t n,
                                 int64_t size, int64_t wide) {
    for (int64_t j = 0; j < n; j += 2) {
        VECTOR sum[2][ROWS] = { 0 };
        for (int64_t d = 0; d < size; d++)
            for (int i = 0; i < ROWS; i++) {
                K_NAME(lanes_step)(&sum[0][i], a + i * wide + d, b + j * wide + d);
                K_NAME(lanes_step)(&sum[1][i], a + i * wide + d, b + (j + 1) * wide + d);
            }
        for (int i = 0; i < ROWS; i++) {
            s[j * ROWS + i] = sum[0][i];
            s[(j + 1) * ROWS + i] = sum[1][i];
        }
    }
}

/* y[i][d] = the sum over j of s[j][i] * x[j][d], for all rows i of a tile and n rows j of x. Two
 * columns are computed at once, so `wide` must be even. */
K_INLINE void K_NAME(lanes_mix)(VECTOR *y, const VECTOR *s, const VECTOR *x, int64_t n,
                                int64_t wide) {
    for (int64_t d = 0; d < wide; d += 2) {
        VECTOR sum[ROWS][2] = { 0 };
        for (int64_t j = 0; j < n; j++)
            for (int i = 0; i < ROWS; i++) {
                K_NAME(lanes_step)(&sum[i][0], s + j * ROWS + i, x + j * wide + d);
                K_NAME(lanes_step)(&sum[i][1], s + j * ROWS + i, x + j * wide + d + 1);
            }
        for (int i = 0; i < ROWS; i++) {
            y[i * wide + d] = sum[i][0];
            y[i * wide + d + 1] = sum[i][1];
        }
    }
}

/* y[j][d] += the sum of s[j][i] * x[i][d] over all rows i of a tile, for n rows j of y. */
K_INLINE void K_NAME(lanes_spread)(VECTOR *y, const VECTOR *s, const VECTOR *x, int64_t n,
                                   int64_t wide) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t d = 0; d < wide; d++) {
            VECTOR sum = y[j * wide + d];
            for (int i = 0; i < ROWS; i++)
                K_NAME(lanes_step)(&sum, s + j * ROWS + i, x + i * wide + d);
            y[j * wide + d] = sum;
        }
}

/* ---- forward: y and lse -------------------------------------------------------------------- */

/* A group: heads that are computed together, each in one lane of the vectors. `scores` has a tile's
 * scores, which are replaced by the weights; the scores of all the tile's queries for one key are
 * contiguous. */
typedef struct {
    const attention_plan *plan;
    /* The group's first head and its number of heads. */
    int64_t first;
    int heads;
    /* A row of q or k has `wide` vectors, and a row of v has wide_v vectors. */
    int64_t wide, wide_v;
    attention_lanes mask;
    VECTOR *q, *k, *v, *y, *lse;
    VECTOR *scores;
    /* The following fields are used only in backward. */
    VECTOR *g, *g_lse, *slopes, *gq, *gk, *gv;
} K_NAME(attention_group);

#define GROUP K_NAME(attention_group)

/* Returns the next n vectors of the scratch memory *room, and moves *room behind them. */
static VECTOR *K_NAME(lanes_take)(char **room, int64_t n) {
    VECTOR *p = (VECTOR *)(void *)*room;
    *room += n * (int64_t)sizeof(VECTOR);
    return p;
}

/* Returns t's matrices for the group's heads. Lanes without a head get the matrix of the first
 * head. */
static attention_lanes K_NAME(lanes_of)(const GROUP *group, const attention_operand *t) {
    return attention_find_lanes(group->plan, t, group->first, group->heads, LANES);
}

/* Reads n rows of t into `to` (see lanes_read), and adds rows of zeros up to a multiple of
 * ATTENTION_ROWS. */
static void K_NAME(lanes_load)(const GROUP *group, const attention_operand *t, int64_t n,
                               int64_t wide, VECTOR *to) {
    const attention_lanes from = K_NAME(lanes_of)(group, t);
    K_NAME(lanes_read)(&from, n, wide, to);
    for (int64_t at = n * wide; at < attention_whole_rows(n) * wide; at++)
        to[at] = (VECTOR){ 0 };
}

/* Writes n rows of each of the group's heads to t. Does nothing if t has no elements. */
static void K_NAME(lanes_save)(const GROUP *group, const attention_operand *t, int64_t n,
                               int64_t wide, const VECTOR *from) {
    if (!t->data)
        return;
    const attention_lanes to = K_NAME(lanes_of)(group, t);
    K_NAME(lanes_write)(&to, n, wide, group->heads, from);
}

/* Returns how many keys the tile that begins at query i must read: all keys or, if the attention is
 * causal, those up to the tile's last query. */
static int64_t K_NAME(lanes_reach)(const attention_plan *plan, int64_t i) {
    return plan->causal ? RG_MIN(plan->keys, RG_MIN(plan->queries, i + ROWS)) : plan->keys;
}

/* Adds the mask, if there is one, to the scores of the tile that begins at query `first`. If the
 * attention is causal, also sets the scores of keys that come after the query to -infinity. */
static void K_NAME(lanes_hide)(const GROUP *group, int64_t first, int64_t reach) {
    const attention_plan *plan = group->plan;
    const attention_lanes *mask = &group->mask;
    const int64_t rows = RG_MIN(ROWS, plan->queries - first);
    VECTOR *scores = group->scores;
    for (int64_t j = 0; plan->mask.data && j < reach; j++)
        for (int64_t i = 0; i < rows; i++)
            for (int l = 0; l < LANES; l++)
                ((T *)(scores + j * ROWS + i))[l] +=
                    ((const T *)mask->data[l])[(first + i) * mask->row + j * mask->col];
    for (int64_t j = first + 1; plan->causal && j < reach; j++)
        for (int64_t i = 0; i < RG_MIN(ROWS, j - first); i++)
            scores[j * ROWS + i] = (VECTOR){ 0 } - (T)INFINITY;
}

/* Returns the greater of x and `least` in each lane, or `least` in lanes where one of them is
 * NaN. */
K_INLINE VECTOR K_NAME(lanes_greater)(VECTOR x, VECTOR least) {
    const __typeof__(x > least) more = x > least;
    return (VECTOR)((more & (__typeof__(more))x) | (~more & (__typeof__(more))least));
}

/* x = exp(x - shift), for the scores x of n keys and all queries of a tile. Requires that no x -
 * shift is 88 or more (see k_exp_below in smooth.h). */
K_INLINE void K_NAME(attention_powers)(T *x, const T *shift, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        K_INDEPENDENT
        for (int i = 0; i < ROWS * LANES; i++)
            x[j * ROWS * LANES + i] = K_TYPED(k_exp_below)(x[j * ROWS * LANES + i] - shift[i]);
    }
}

/* Replaces the scores by the weights exp(scores - shift). For each query i of the tile, sets
 * most[i] to the maximum of its `reach` scores, ignoring NaN, and total[i] to the sum of its
 * weights. A query's shift is its maximum, except as explained below. */
static void K_NAME(lanes_weights)(VECTOR *scores, int64_t reach, VECTOR most[ROWS],
                                  VECTOR total[ROWS]) {
    VECTOR shift[ROWS];
    for (int i = 0; i < ROWS; i++) {
        most[i] = (VECTOR){ 0 } - (T)INFINITY;
        for (int64_t j = 0; j < reach; j++)
            most[i] = K_NAME(lanes_greater)(scores[j * ROWS + i], most[i]);
        /* If all scores of a query are -infinity or NaN, its maximum is -infinity. With this shift,
         * e^(score - shift) would be NaN, so the shift is 0. */
        const __typeof__(most[i] > most[i]) seen = most[i] > (VECTOR){ 0 } - (T)INFINITY;
        shift[i] = (VECTOR)(seen & (__typeof__(seen))most[i]);
        total[i] = (VECTOR){ 0 };
    }
    K_NAME(attention_powers)((T *)scores, (const T *)shift, reach);
    for (int64_t j = 0; j < reach; j++)
        for (int i = 0; i < ROWS; i++)
            total[i] += scores[j * ROWS + i];
}

/* y = y / total and lse = most + log(total), for the tile that begins at query `first`. Both
 * results are 0 for a query whose weights are all 0. */
static void K_NAME(lanes_divide)(const GROUP *group, int64_t first, const VECTOR most[ROWS],
                                 const VECTOR total[ROWS]) {
    VECTOR share[ROWS];
    T *shares = (T *)share;
    T *lse = (T *)(group->lse + first);
    const T *sums = (const T *)total;
    const T *greatest = (const T *)most;
    for (int i = 0; i < ROWS * LANES; i++) {
        shares[i] = sums[i] == 0 ? 0 : 1 / sums[i];
        lse[i] = sums[i] == 0 ? 0 : greatest[i] + K_TYPED(k_log)(sums[i]);
    }
    for (int i = 0; i < ROWS; i++)
        for (int64_t d = 0; d < group->wide_v; d++)
            group->y[(first + i) * group->wide_v + d] *= share[i];
}

/* Returns the group whose first head is `first`: divides the worker's scratch memory into arrays,
 * and reads q (multiplied by scale), k and v. */
static GROUP K_NAME(lanes_begin)(const attention_plan *plan, int64_t first, int worker) {
    char *room = plan->room + (size_t)worker * plan->bytes;
    GROUP group = { .plan = plan,
                    .first = first,
                    .heads = (int)RG_MIN(LANES, plan->all_heads - first),
                    .wide = attention_whole_rows(plan->in[0].size),
                    .wide_v = attention_whole_rows(plan->in[2].size) };
    const int64_t queries = attention_whole_rows(plan->queries);
    const int64_t keys = attention_whole_rows(plan->keys);
    group.q = K_NAME(lanes_take)(&room, queries * group.wide);
    group.k = K_NAME(lanes_take)(&room, keys * group.wide);
    group.v = K_NAME(lanes_take)(&room, keys * group.wide_v);
    group.lse = K_NAME(lanes_take)(&room, queries);
    group.scores = K_NAME(lanes_take)(&room, keys * ROWS);
    if (plan->g.data) {
        group.g = K_NAME(lanes_take)(&room, queries * group.wide_v);
        group.g_lse = K_NAME(lanes_take)(&room, queries);
        group.slopes = K_NAME(lanes_take)(&room, keys * ROWS);
        group.gq = K_NAME(lanes_take)(&room, queries * group.wide);
        group.gk = K_NAME(lanes_take)(&room, keys * group.wide);
        group.gv = K_NAME(lanes_take)(&room, keys * group.wide_v);
    } else {
        group.y = K_NAME(lanes_take)(&room, queries * group.wide_v);
    }
    K_NAME(lanes_load)(&group, &plan->in[0], plan->queries, group.wide, group.q);
    K_NAME(lanes_load)(&group, &plan->in[1], plan->keys, group.wide, group.k);
    K_NAME(lanes_load)(&group, &plan->in[2], plan->keys, group.wide_v, group.v);
    for (int64_t at = 0; at < queries * group.wide; at++)
        group.q[at] *= (T)plan->scale;
    if (plan->mask.data)
        group.mask = K_NAME(lanes_of)(&group, &plan->mask);
    return group;
}

/* Computes y and lse of the group whose first head is `first`. */
static void K_NAME(lanes_forward)(const attention_plan *plan, int64_t first, int worker) {
    GROUP group = K_NAME(lanes_begin)(plan, first, worker);
    const int64_t size = plan->in[0].size;
    for (int64_t i = 0; i < plan->queries; i += ROWS) {
        const int64_t reach = K_NAME(lanes_reach)(plan, i);
        const VECTOR *q = group.q + i * group.wide;
        VECTOR most[ROWS];
        VECTOR total[ROWS];
        K_NAME(lanes_dots)(group.scores, q, group.k, reach, size, group.wide);
        K_NAME(lanes_hide)(&group, i, reach);
        K_NAME(lanes_weights)(group.scores, reach, most, total);
        K_NAME(lanes_mix)(group.y + i * group.wide_v, group.scores, group.v, reach, group.wide_v);
        K_NAME(lanes_divide)(&group, i, most, total);
    }
    K_NAME(lanes_save)(&group, &plan->y, plan->queries, group.wide_v, group.y);
    T *lse = (T *)plan->lse + first * plan->queries;
    for (int l = 0; l < group.heads; l++)
        for (int64_t i = 0; i < plan->queries; i++)
            lse[l * plan->queries + i] = ((const T *)(group.lse + i))[l];
}

static void K_NAME(attention_lanes_forward)(void *context, int64_t begin, int64_t end, int worker) {
    const attention_plan *plan = context;
    const int64_t last = RG_MIN(end * ATTENTION_LANES, plan->all_heads);
    for (int64_t first = begin * ATTENTION_LANES; first < last; first += LANES)
        K_NAME(lanes_forward)(plan, first, worker);
}

/* ---- backward: the gradients --------------------------------------------------------------- */

/* Reads the group's numbers from t into `to`, or sets them to 0 if t is NULL. t has one number for
 * each query of each head. */
static void K_NAME(lanes_numbers)(const GROUP *group, const char *t, VECTOR *to) {
    const int64_t n = group->plan->queries;
    for (int64_t i = 0; i < attention_whole_rows(n); i++)
        to[i] = (VECTOR){ 0 };
    if (!t)
        return;
    const T *from = (const T *)t + group->first * n;
    for (int l = 0; l < LANES; l++)
        for (int64_t i = 0; i < n; i++)
            ((T *)(to + i))[l] = from[(l < group->heads ? l : 0) * n + i];
}

/* Replaces group->scores by the weights p = exp(scores - lse). Replaces group->slopes, which holds
 * g v^T, by the gradients of the scores, s = p * (slopes - lost). Here lost = sum(p * slopes) /
 * sum(p) - g_lse, with sums over the keys of each query.
 *
 * The division by sum(p), which is 1 in theory, is for accuracy. The rounding error of lse
 * multiplies all p of a query by one factor near 1. Without the division, `lost` would contain that
 * factor. If one weight is nearly 1, its element of g v^T is nearly `lost`, so the difference of
 * the two would mostly be this error. */
static void K_NAME(lanes_slopes)(const GROUP *group, int64_t first, int64_t reach) {
    VECTOR *p = group->scores;
    VECTOR *s = group->slopes;
    VECTOR lost[ROWS] = { 0 };
    VECTOR total[ROWS] = { 0 };
    K_NAME(attention_powers)((T *)p, (const T *)(group->lse + first), reach);
    for (int64_t j = 0; j < reach; j++)
        for (int i = 0; i < ROWS; i++) {
            total[i] += p[j * ROWS + i];
            K_NAME(lanes_step)(&lost[i], p + j * ROWS + i, s + j * ROWS + i);
        }
    for (int i = 0; i < ROWS; i++) {
        /* total is nearly 1, so one step of Newton's method, from 2 - total, computes 1 / total. */
        const VECTOR inverse = 2 - total[i];
        lost[i] = lost[i] * (inverse * (2 - total[i] * inverse)) - group->g_lse[first + i];
    }
    for (int64_t j = 0; j < reach; j++)
        for (int i = 0; i < ROWS; i++)
            s[j * ROWS + i] = p[j * ROWS + i] * (s[j * ROWS + i] - lost[i]);
    /* The last tile may have rows without a query. Their q is 0, so that an infinite key gives them
     * NaN as a score, and they must add nothing to the gradients of keys and values. */
    for (int64_t j = 0; j < reach; j++)
        for (int64_t i = group->plan->queries - first; i < ROWS; i++)
            p[j * ROWS + i] = s[j * ROWS + i] = (VECTOR){ 0 };
}

/* Computes gq of the tile that begins at query `first`, and adds to gk and gv what this tile
 * contributes. */
static void K_NAME(lanes_gradients)(const GROUP *group, int64_t first) {
    const attention_plan *plan = group->plan;
    const int64_t reach = K_NAME(lanes_reach)(plan, first);
    const int64_t wide = group->wide;
    const int64_t wide_v = group->wide_v;
    const VECTOR *q = group->q + first * wide;
    const VECTOR *g = group->g + first * wide_v;
    VECTOR *gq = group->gq + first * wide;
    K_NAME(lanes_dots)(group->scores, q, group->k, reach, plan->in[0].size, wide);
    K_NAME(lanes_dots)(group->slopes, g, group->v, reach, plan->in[2].size, wide_v);
    K_NAME(lanes_hide)(group, first, reach);
    K_NAME(lanes_slopes)(group, first, reach);
    if (plan->gin[0].data)
        K_NAME(lanes_mix)(gq, group->slopes, group->k, reach, wide);
    if (plan->gin[1].data)
        K_NAME(lanes_spread)(group->gk, group->slopes, q, reach, wide);
    if (plan->gin[2].data)
        K_NAME(lanes_spread)(group->gv, group->scores, g, reach, wide_v);
}

/* Computes the gradients of the group whose first head is `first`. */
static void K_NAME(lanes_backward)(const attention_plan *plan, int64_t first, int worker) {
    GROUP group = K_NAME(lanes_begin)(plan, first, worker);
    K_NAME(lanes_load)(&group, &plan->g, plan->queries, group.wide_v, group.g);
    K_NAME(lanes_numbers)(&group, plan->lse, group.lse);
    K_NAME(lanes_numbers)(&group, plan->g_lse, group.g_lse);
    memset(group.gk, 0, (size_t)(plan->keys * group.wide) * sizeof(VECTOR));
    memset(group.gv, 0, (size_t)(plan->keys * group.wide_v) * sizeof(VECTOR));
    for (int64_t i = 0; i < plan->queries; i += ROWS)
        K_NAME(lanes_gradients)(&group, i);
    for (int64_t at = 0; at < plan->queries * group.wide; at++)
        group.gq[at] *= (T)plan->scale;
    K_NAME(lanes_save)(&group, &plan->gin[0], plan->queries, group.wide, group.gq);
    K_NAME(lanes_save)(&group, &plan->gin[1], plan->keys, group.wide, group.gk);
    K_NAME(lanes_save)(&group, &plan->gin[2], plan->keys, group.wide_v, group.gv);
}

static void K_NAME(attention_lanes_backward)(void *context, int64_t begin, int64_t end,
                                             int worker) {
    const attention_plan *plan = context;
    const int64_t last = RG_MIN(end * ATTENTION_LANES, plan->all_heads);
    for (int64_t first = begin * ATTENTION_LANES; first < last; first += LANES)
        K_NAME(lanes_backward)(plan, first, worker);
}

#undef GROUP
#undef SIDE
#undef ROWS
#undef VECTOR
#undef LANES

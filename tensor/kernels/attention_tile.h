/*
 * attention_tile.h: attention of one head, tile by tile, for one type and one set of
 * instructions. Scores stand with queries (forward) or keys (backward) side by side
 * in vectors, so that no maximum or sum crosses a vector; and only that side is ever
 * transposed. attention.c includes it by sets.h, and it itself for each type.
 */
#ifndef T
#define T float
#include "attention_tile.h"
#define T double
#include "attention_tile.h"
#else

#define V                 K_SET(RG_PASTE(attention_vector_, T))
#define NAME(x)           K_SET(RG_PASTE(attention_##x##_, T))
#define W                 ((int)(K_BITS / 8 / sizeof(T)))
#define WHOLE(n)          (((n) + W - 1) / W * W) /* vectors of n elements */
/* How many of n keys the queries of the block of the i-th see, which are `ahead` of the first key.
 */
#define SEEN(n, ahead, i) (plan->causal ? RG_MIN(n, (ahead) + (i) / block * block + block) : (n))

typedef T V __attribute__((vector_size(K_BITS / 8), aligned(sizeof(T)), may_alias));

/* n rows of whole vectors: as they lie, if they do, else copied to `room`. */
static const T *NAME(rows)(const attention_matrix *t, int64_t from, int64_t n, T *room,
                           int64_t *row) {
    const T *p = (const T *)t->data + from * t->row;
    if (t->col == 1 && t->size % W == 0)
        return *row = t->row, p;
    *row = WHOLE(t->size);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < *row; j++)
            room[i * *row + j] = j < t->size ? p[i * t->row + j * t->col] : 0;
    return room;
}

/* The n rows from `from` on as columns, of which there are whole vectors. */
static void NAME(turn)(const attention_plan *plan, const attention_matrix *t, int64_t from,
                       int64_t n, double scale, T *to) {
    if (n % W)
        memset(to, 0, (size_t)(t->size * ATTENTION_SIDE) * sizeof(T));
    plan->turn(to, ATTENTION_SIDE, (const T *)t->data + from * t->row, t->row, t->col, n, t->size,
               scale);
}

/* Rows of t, unless that is NULL, from `from` on. */
static void NAME(write)(const attention_plan *plan, const rg_tensor *t, int64_t head, int64_t from,
                        int64_t n, const T *rows, int64_t wide, T scale) {
    attention_matrix to = attention_part(t, head, plan);
    for (int64_t i = 0; t && i < n; i++)
        for (int64_t j = 0; j < to.size; j++)
            ((T *)to.data)[(from + i) * to.row + j * to.col] = scale * rows[i * wide + j];
}

static T *NAME(take)(char **room, int64_t n) {
    T *p = (T *)*room;
    *room += (n * (int64_t)sizeof(T) + 63) / 64 * 64;
    return p;
}

/* y and log sum exp of some tiles of queries. While it walks over the keys, p has the weights but
 * for their common factor, by the largest score so far; o is their sum of v, and total that of the
 * weights. */
static void NAME(forward)(void *plan_, int64_t begin, int64_t end, int worker) {
    const attention_plan *plan = plan_;
    char *room = plan->room + (size_t)worker * plan->bytes;
    attention_matrix q, k, v, mask;
    int64_t size = plan->in[0]->size[3], size_v = plan->in[2]->size[3], wide_v = WHOLE(size_v),
            keys = plan->keys, v_row;
    T *qt = NAME(take)(&room, size * ATTENTION_SIDE),
      *p = NAME(take)(&room, ATTENTION_ALONG * ATTENTION_SIDE);
    T *o = NAME(take)(&room, ATTENTION_SIDE * wide_v),
      *v_room = NAME(take)(&room, ATTENTION_ALONG * wide_v);
    T most[ATTENTION_SIDE], total[ATTENTION_SIDE], shift[ATTENTION_SIDE], fade[ATTENTION_SIDE];
    for (int64_t part = begin; part < end; part++) {
        int64_t head = part / plan->tiles, first = part % plan->tiles * ATTENTION_SIDE;
        int64_t n = RG_MIN(plan->queries - first, ATTENTION_SIDE);
        q = attention_part(plan->in[0], head, plan);
        k = attention_part(plan->in[1], head, plan);
        v = attention_part(plan->in[2], head, plan);
        mask = attention_part(plan->mask, head, plan);
        NAME(turn)(plan, &q, first, n, plan->scale, qt);
        memset(o, 0, (size_t)(ATTENTION_SIDE * wide_v) * sizeof(T));
        for (int i = 0; i < ATTENTION_SIDE; i++)
            most[i] = -(T)INFINITY, total[i] = 0;
        int64_t reach = plan->causal ? RG_MIN(keys, first + n) : keys;
        for (int64_t from = 0; from < reach; from += ATTENTION_ALONG) {
            int64_t m = RG_MIN(reach - from, ATTENTION_ALONG), lanes = WHOLE(n);
            int64_t ahead = first - from,
                    block = plan->causal && ahead < m ? ATTENTION_BLOCK : ATTENTION_ALONG;
            /* of a tile on the diagonal: no queries before a block of keys */
            for (int64_t j = 0; j < m; j += block) {
                int64_t unseen = plan->causal ? RG_MAX(0, j - ahead) : 0;
                attention_product(plan, RG_MIN(block, m - j), lanes - unseen, size,
                                  (const T *)k.data + (from + j) * k.row, k.row, k.col, qt + unseen,
                                  ATTENTION_SIDE, p + j * ATTENTION_SIDE + unseen, ATTENTION_SIDE,
                                  false);
            }
            for (int64_t j = 0; plan->mask && j < m; j++)
                for (int64_t i = 0; i < n; i++)
                    p[j * ATTENTION_SIDE + i] +=
                        ((const T *)mask.data)[(first + i) * mask.row + (from + j) * mask.col];
            for (int64_t j = RG_MAX(0, ahead); plan->causal && j < m; j++)
                for (int64_t i = (j - ahead) / block * block; i < RG_MIN(n, j - ahead); i++)
                    p[j * ATTENTION_SIDE + i] = -(T)INFINITY;
            for (int64_t i = 0; i < lanes; i += W) {
                V greatest = *(V *)(most + i);
                for (int64_t j = 0; j < SEEN(m, ahead, i); j++) {
                    V x = *(V *)(p + j * ATTENTION_SIDE + i);
                    __auto_type more = x > greatest;
                    greatest = (V)((more & (__typeof__(more))x)
                                   | (~more & (__typeof__(more))greatest));
                }
                *(V *)(shift + i) = greatest;
            }
            bool fades = false;
            for (int64_t i = 0; i < lanes; i++) {
                T greatest = shift[i];
                shift[i] = greatest == -(T)INFINITY ? 0 : greatest;
                fade[i] = EXP_BELOW(most[i] - shift[i]);
                fades |= most[i] != greatest;
                most[i] = greatest;
                total[i] *= fade[i];
            }
            for (int64_t j = 0; j < m; j++)
                for (int64_t i = plan->causal ? RG_MAX(0, (j - ahead) / block * block) : 0;
                     i < lanes; i++) {
                    p[j * ATTENTION_SIDE + i] = EXP_BELOW(p[j * ATTENTION_SIDE + i] - shift[i]);
                    total[i] += p[j * ATTENTION_SIDE + i];
                }
            for (int64_t i = 0; fades && i < n; i++)
                for (int64_t j = 0; j < wide_v; j++)
                    o[i * wide_v + j] *= fade[i];
            const T *of_v = NAME(rows)(&v, from, m, v_room, &v_row);
            for (int64_t i = 0; i < n; i += block)
                attention_product(plan, RG_MIN(block, n - i), wide_v, SEEN(m, ahead, i), p + i, 1,
                                  ATTENTION_SIDE, of_v, v_row, o + i * wide_v, wide_v, true);
        }
        for (int64_t i = 0; i < n; i++) {
            T share = total[i] == 0 ? 0 : 1 / total[i];
            for (int64_t j = 0; j < wide_v; j++)
                o[i * wide_v + j] *= share;
            ((T *)plan->lse->data)[head * plan->queries + first + i] =
                total[i] == 0 ? 0 : most[i] + LOG(total[i]);
        }
        NAME(write)(plan, plan->y, head, first, n, o, wide_v, 1);
    }
}

/* The gradients of some heads: with p the weights of a tile again and s = p (g v^T - lost), lost =
 * sum(g y) less the gradient of log sum exp, gv = p^T g, gq = scale s k, gk = scale s^T q. */
static void NAME(backward)(void *plan_, int64_t begin, int64_t end, int worker) {
    const attention_plan *plan = plan_;
    int64_t size = plan->in[0]->size[3], size_v = plan->in[2]->size[3], wide = WHOLE(size),
            wide_v = WHOLE(size_v);
    int64_t queries = plan->queries, keys = plan->keys, q_row, g_row, k_row, y_row;
    T scale = (T)plan->scale;
    for (int64_t head = begin; head < end; head++) {
        char *room = plan->room + (size_t)worker * plan->bytes;
        T *kt = NAME(take)(&room, size * ATTENTION_SIDE),
          *vt = NAME(take)(&room, size_v * ATTENTION_SIDE);
        T *p = NAME(take)(&room, ATTENTION_ALONG * ATTENTION_SIDE),
          *s = NAME(take)(&room, ATTENTION_ALONG * ATTENTION_SIDE);
        T *gk = NAME(take)(&room, ATTENTION_SIDE * wide),
          *gv = NAME(take)(&room, ATTENTION_SIDE * wide_v);
        T *k_room = NAME(take)(&room, ATTENTION_SIDE * wide), *lost = NAME(take)(&room, queries),
          *gq = NAME(take)(&room, queries * wide);
        T *q_room = NAME(take)(&room, queries * wide),
          *g_room = NAME(take)(&room, queries * wide_v);
        attention_matrix q = attention_part(plan->in[0], head, plan),
                         k = attention_part(plan->in[1], head, plan);
        attention_matrix v = attention_part(plan->in[2], head, plan),
                         g = attention_part(plan->g, head, plan);
        attention_matrix y = attention_part(plan->y, head, plan),
                         mask = attention_part(plan->mask, head, plan);
        const T *lse = (const T *)plan->lse->data + head * queries,
                *of_q = NAME(rows)(&q, 0, queries, q_room, &q_row);
        const T *of_g = NAME(rows)(&g, 0, queries, g_room, &g_row);
        memset(gq, 0, (size_t)(queries * wide) * sizeof(T));
        for (int64_t i = 0; i < queries; i++) {
            const T *of_y = NAME(rows)(&y, i, 1, gv, &y_row);
            V sums = { 0 };
            T sum = 0;
            for (int64_t j = 0; j < wide_v; j += W)
                sums += *(const V *)(of_g + i * g_row + j) * *(const V *)(of_y + j);
            for (int l = 0; l < W; l++)
                sum += sums[l];
            lost[i] = sum - (plan->g_lse ? ((const T *)plan->g_lse->data)[head * queries + i] : 0);
        }
        for (int64_t from = 0; from < keys; from += ATTENTION_SIDE) {
            int64_t n = RG_MIN(keys - from, ATTENTION_SIDE), lanes = WHOLE(n);
            NAME(turn)(plan, &k, from, n, scale, kt);
            NAME(turn)(plan, &v, from, n, 1, vt);
            const T *of_k = NAME(rows)(&k, from, n, k_room, &k_row);
            memset(gk, 0, (size_t)(ATTENTION_SIDE * wide) * sizeof(T));
            memset(gv, 0, (size_t)(ATTENTION_SIDE * wide_v) * sizeof(T));
            for (int64_t first = plan->causal ? from : 0; first < queries;
                 first += ATTENTION_ALONG) {
                int64_t m = RG_MIN(queries - first, ATTENTION_ALONG), ahead = first - from;
                int64_t block = plan->causal && ahead < n ? ATTENTION_BLOCK : ATTENTION_ALONG;
                for (int64_t i = 0; i < m; i += block) {
                    int64_t rows = RG_MIN(block, m - i), seen = SEEN(lanes, ahead, i);
                    attention_product(plan, rows, seen, size, of_q + (first + i) * q_row, q_row, 1,
                                      kt, ATTENTION_SIDE, p + i * ATTENTION_SIDE, ATTENTION_SIDE,
                                      false);
                    attention_product(plan, rows, seen, size_v, of_g + (first + i) * g_row, g_row,
                                      1, vt, ATTENTION_SIDE, s + i * ATTENTION_SIDE, ATTENTION_SIDE,
                                      false);
                }
                for (int64_t i = 0; i < m; i++) {
                    T *pi = p + i * ATTENTION_SIDE, *si = s + i * ATTENTION_SIDE,
                      off = lost[first + i], shift = lse[first + i];
                    int64_t seen = SEEN(lanes, ahead, i);
                    for (int64_t j = 0; plan->mask && j < n; j++)
                        pi[j] +=
                            ((const T *)mask.data)[(first + i) * mask.row + (from + j) * mask.col];
                    for (int64_t j = RG_MAX(0, ahead + i + 1); plan->causal && j < seen; j++)
                        pi[j] = -(T)INFINITY;
                    for (int64_t j = 0; j < seen; j++) {
                        pi[j] = EXP_BELOW(pi[j] - shift);
                        si[j] = pi[j] * (si[j] - off);
                    }
                }
                for (int64_t j = 0; j < n; j += block) {
                    int64_t unseen = plan->causal ? RG_MAX(0, j - ahead) : 0,
                            rows = RG_MIN(block, n - j), at = unseen * ATTENTION_SIDE + j;
                    if (unseen >= m)
                        break;
                    if (plan->gin[2])
                        attention_product(plan, rows, wide_v, m - unseen, p + at, 1, ATTENTION_SIDE,
                                          of_g + (first + unseen) * g_row, g_row, gv + j * wide_v,
                                          wide_v, true);
                    if (plan->gin[1])
                        attention_product(plan, rows, wide, m - unseen, s + at, 1, ATTENTION_SIDE,
                                          of_q + (first + unseen) * q_row, q_row, gk + j * wide,
                                          wide, true);
                }
                for (int64_t i = 0; plan->gin[0] && i < m; i += block)
                    attention_product(plan, RG_MIN(block, m - i), wide,
                                      RG_MIN(n, SEEN(lanes, ahead, i)), s + i * ATTENTION_SIDE,
                                      ATTENTION_SIDE, 1, of_k, k_row, gq + (first + i) * wide, wide,
                                      true);
            }
            NAME(write)(plan, plan->gin[1], head, from, n, gk, wide, scale);
            NAME(write)(plan, plan->gin[2], head, from, n, gv, wide_v, 1);
        }
        NAME(write)(plan, plan->gin[0], head, 0, queries, gq, wide, scale);
    }
}

#undef T
#undef V
#undef W
#undef NAME
#undef WHOLE
#undef SEEN
#endif

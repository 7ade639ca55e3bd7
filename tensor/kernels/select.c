/*
 * select.c: the k-th smallest element along one dim, and the median. (Whole lines are sorted by
 * sort.c.)
 */
#include "plans.h"
#include "tensor/storage.h"

/* ---- the k-th smallest of n items ------------------------------------------------------------ */

/* Compares the first, the middle and the last item. Their median moves to the front, the least of
 * the three to the second place, and the greatest to the last place. (The item that was in the
 * second place goes to the middle.) */
static void select_pivot(k_ranked *first, k_ranked *last) {
    k_ranked *second = first + 1;
    RG_SWAP(first[(last - first) / 2], *second);
    if (second->key > last->key)
        RG_SWAP(*second, *last);
    if (first->key > last->key)
        RG_SWAP(*first, *last);
    if (second->key > first->key)
        RG_SWAP(*second, *first);
}

/* Partitions the items around the first one, the pivot. Returns the pivot's new place, and sets
 * *beyond to the first item of the upper part. */
static k_ranked *select_partition(k_ranked *first, k_ranked *last, k_ranked **beyond) {
    const int64_t pivot = first->key;
    k_ranked *i = first + 1;
    k_ranked *j = last;
    for (;;) {
        do
            i++;
        while (i->key < pivot);
        do
            j--;
        while (j->key > pivot);
        if (j < i)
            break;
        RG_SWAP(*i, *j);
    }
    RG_SWAP(*first, *j);
    *beyond = i;
    return j;
}

/* Moves the k-th smallest item, counted from 1, to its place in sorted order. The algorithm is
 * exactly the quickselect of torch.kthvalue, so that it finds the same one of several equal
 * items. */
static void select_kth(k_ranked *q, int64_t n, int64_t k) {
    k_ranked *first = q;
    k_ranked *last = q + n - 1;
    k_ranked *const wanted = q + k - 1;
    while (last - first > 1) {
        select_pivot(first, last);
        k_ranked *beyond;
        k_ranked *middle = select_partition(first, last, &beyond);
        if (middle >= wanted)
            last = middle - 1;
        if (middle <= wanted)
            first = beyond;
    }
    if (last - first == 1 && first->key > last->key)
        RG_SWAP(*first, *last);
}

/* ---- the lines along a dim ------------------------------------------------------------------- */

/* Returns the index of the first NaN among n ranked items, or -1 if there is none. The key of a NaN
 * is INT64_MAX. */
static int64_t select_nan(const k_ranked *q, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (q[i].key == INT64_MAX)
            return i;
    return -1;
}

/* Returns the index of the item that a stable sort would move to the k-th place, counted from 1.
 * `key` is the key of that item. Requires that the items are still in the order of the elements. */
static int64_t select_stable(const k_ranked *q, int64_t n, int64_t k, int64_t key) {
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++)
        k -= q[i].key < key;
    while (k > 0)
        k -= q[++at].key == key;
    return at;
}

/* Returns the index of the median of a line. If n is even, the median is the lower one of the two
 * middle elements. If the line has a NaN, its first NaN is the median. */
static int64_t select_median(const select_context *c, const char *x) {
    k_ranked *q = c->room;
    const int64_t half = (c->n + 1) / 2;
    const int64_t nan = c->floats ? select_nan(q, c->n) : -1;
    if (nan >= 0)
        return nan;
    select_kth(q, c->n, half);
    const int64_t key = q[half - 1].key;
    c->rank(q, x, c->step[2], c->n, false);
    return select_stable(q, c->n, half, key);
}

/* Returns the index of a line's k-th smallest element, or of its median if k is 0. */
static int64_t select_place(const select_context *c, const char *x) {
    c->rank(c->room, x, c->step[2], c->n, false);
    if (c->k == 0)
        return select_median(c, x);
    select_kth(c->room, c->n, c->k);
    return c->room[c->k - 1].index;
}

#define K_LOOPS "loops/select_lines.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

static bool select_run(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim,
                       int64_t k) {
    select_context c = { .n = x->ndim ? x->size[dim] : 1, .k = k };
    c.bytes = rgi_sizeof(x->dtype);
    c.floats = rgi_is_float(x->dtype);
    c.rank = k_ranks_of(x->dtype);
    if (!c.rank)
        return false;
    if (values->numel == 0)
        return true;
    /* The buffer has two int64 numbers for each element. n is limited so that 2 * n can't overflow,
     * since x may be an expanded view with more elements than fit into memory. */
    int64_t numbers = 2 * RG_MIN(c.n, INT64_MAX / 64);
    rg_tensor *room = rgi_new(RG_INT64, 1, &numbers);
    if (!room)
        return false;
    c.room = (k_ranked *)(void *)room->data;
    rg_tensor *t[] = { values, indices, (rg_tensor *)x };
    k_lines(3, t, dim, false, c.step, K_BASE_LOOP(select_lines), &c);
    rgi_release(room);
    return true;
}

bool k_kth(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, int64_t k) {
    return select_run(values, indices, x, dim, k);
}

bool k_median(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim) {
    return select_run(values, indices, x, dim, 0);
}

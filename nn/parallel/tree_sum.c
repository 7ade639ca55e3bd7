/*
 * tree_sum.c: computes the messages (hops) of a sum over all ranks, and sends one after the other.
 */
#include "tree_sum.h"

#include <stddef.h>

/* ---- the messages of each rank --------------------------------------------------------- */

/* Returns the largest k with 2^k <= n. */
static int log_of(int n) {
    int k = 0;
    while (n >> (k + 1))
        k++;
    return k;
}

int rgi_hops(int size, int rank) {
    const int levels = log_of(size), first = 1 << levels, more = size - first;
    if (rank >= first)
        return 2;
    return 2 * levels + (rank < more ? 2 : 0);
}

/* The elements from `from` to `end` - 1 of an array. */
typedef struct {
    int64_t from, end;
} stretch;

static int64_t middle_of(stretch s) { return s.end - (s.end - s.from) / 2; }

/* Returns the elements that a rank still sums after `level` levels. At level i it keeps one half of
 * its elements. Bit i of the rank's number selects which half. */
static stretch stretch_at(int64_t n, int rank, int level) {
    stretch s = { 0, n };
    for (int i = 0; i < level; i++) {
        if (rank >> i & 1)
            s.from = middle_of(s);
        else
            s.end = middle_of(s);
    }
    return s;
}

rg_hop rgi_hop(int size, int rank, int64_t n, int i) {
    const int levels = log_of(size), first = 1 << levels, more = size - first;
    const bool adds = i == 0;
    if (rank >= first)
        return (rg_hop){ rank - first, 0, adds ? n : 0, 0, adds ? 0 : n, false };
    if (rank < more && (adds || i == 2 * levels + 1))
        return (rg_hop){ rank + first, 0, adds ? 0 : n, 0, adds ? n : 0, adds };
    i -= rank < more;
    const bool up = i < levels;
    const int level = up ? i : 2 * levels - 1 - i, peer = rank ^ 1 << level;
    const stretch mine = stretch_at(n, rank, level + 1), other = stretch_at(n, peer, level + 1);
    const stretch out = up ? other : mine, in = up ? mine : other;
    return (rg_hop){ peer, out.from, out.end - out.from, in.from, in.end - in.from, up };
}

int64_t rgi_hops_send(int size, int rank, int64_t n) {
    int64_t sum = 0;
    for (int i = 0; i < rgi_hops(size, rank); i++)
        sum += rgi_hop(size, rank, n, i).n_out;
    return sum;
}

int64_t rgi_hops_room(int size, int rank, int64_t n) {
    int64_t most = 0;
    for (int i = 0; i < rgi_hops(size, rank); i++) {
        const rg_hop h = rgi_hop(size, rank, n, i);
        if (h.adds && h.n_in > most)
            most = h.n_in;
    }
    return most;
}

/* ---- making progress with a sum -------------------------------------------------------- */

static char *at(void *array, int64_t i, size_t size) { return (char *)array + (size_t)i * size; }

static void begin_hop(rg_tree_sum *r, const rg_hop *h) {
    const size_t size = rgi_element_size(r->dtype);
    const rg_parcel out = { at(r->data, h->out, size), h->n_out };
    const rg_parcel in = { h->adds ? r->room : at(r->data, h->in, size), h->n_in };
    rgi_exchange_begin(&r->exchange, r->channel, h->peer, r->tag % RG_TAGS, size, out, in);
    r->busy = true;
}

/* Ends a hop: if the hop adds, adds the received elements to this rank's own. The elements of the
 * lower rank are the left operand, so that both ranks compute the same bits. */
static void end_hop(rg_tree_sum *r, const rg_hop *h) {
    void *mine = at(r->data, h->in, rgi_element_size(r->dtype));
    const bool left = rgi_transport_rank() < h->peer;
    if (h->adds)
        rgi_combine(r->op, r->dtype, mine, left ? mine : r->room, left ? r->room : mine, h->n_in);
    r->busy = false;
    r->hop++;
}

bool rgi_tree_sum_advance(rg_tree_sum *r) {
    const int size = rgi_transport_size(), rank = rgi_transport_rank(), n = rgi_hops(size, rank);
    while (r->hop < n) {
        const rg_hop h = rgi_hop(size, rank, r->n, r->hop);
        if (!r->busy)
            begin_hop(r, &h);
        if (!rgi_exchange_done(&r->exchange))
            return false;
        end_hop(r, &h);
    }
    return true;
}

/*
 * plan.c: plans the memory of the results of a recorded step, and carries the plan out.
 * recording.c decides which tensors are results, and when the program has released them.
 *
 * To place lives with the fewest bytes is NP-hard. The lives are placed one after the other, each
 * at the lowest offset where it fits between those that are placed already. Large ones are placed
 * first, because small ones then fit into the gaps. If the block has become larger than the largest
 * sum of bytes in use at one time, other orders are tried, and the best one is taken.
 */
#include "plan.h"
#include "tensor/memory.h"

#include <stdlib.h>

/* ---- the storages that are in use -------------------------------------------------- */

/* Returns the plan's element for the storage, or NULL. The search goes from the newest storage to
 * the oldest. */
static rg_plan_storage *find_planned(const rg_plan *p, const rg_storage *s) {
    for (size_t i = p->n_in_use; i-- > 0;)
        if (p->in_use[i].storage == s)
            return &p->in_use[i];
    return NULL;
}

bool rgi_plan_has(const rg_plan *p, const rg_storage *s) { return find_planned(p, s); }

bool rgi_plan_computes(const rg_plan *p, const rg_storage *s) {
    const rg_plan_storage *planned = find_planned(p, s);
    return planned && !planned->alone;
}

bool rgi_plan_add(rg_plan *p, rg_storage *s, size_t first, bool own) {
    if (!rgi_grow((void **)&p->in_use, &p->in_use_room, p->n_in_use + 1, sizeof *p->in_use))
        return false;
    RG_COUNT_UP(&s->refs, 1);
    p->in_use[p->n_in_use++] = (rg_plan_storage){ s, first, first, own, own };
    return true;
}

bool rgi_plan_use(rg_plan *p, const rg_storage *s, size_t entry) {
    rg_plan_storage *found = find_planned(p, s);
    if (found)
        found->last = RG_MAX(found->last, entry);
    return found;
}

void rgi_plan_use_all(rg_plan *p, size_t entry) {
    for (size_t i = 0; i < p->n_in_use; i++)
        p->in_use[i].last = RG_MAX(p->in_use[i].last, entry);
}

void rgi_plan_keep(rg_plan *p, const rg_storage *s) {
    rg_plan_storage *found = find_planned(p, s);
    if (found)
        *found = (rg_plan_storage){ found->storage, found->first, found->last, true, true };
}

void rgi_plan_keep_alone(rg_plan *p, const rg_storage *s) {
    rg_plan_storage *found = find_planned(p, s);
    if (found)
        found->alone = true;
}

/* ---- tensors that the program has released ----------------------------------------- */

bool rgi_plan_make_room(rg_plan *p, size_t n) {
    return rgi_grow((void **)&p->released, &p->released_room, p->n_released + n,
                    sizeof *p->released)
           && rgi_grow((void **)&p->lives, &p->life_room, p->n_lives + p->n_in_use,
                       sizeof *p->lives);
}

void rgi_plan_release(rg_plan *p, rg_tensor *t) {
    rgi_forget_history(t);
    if (t->flags & RG_VIEW)
        rgi_view_leave(t);
    t->state = RG_DEAD;
    rgi_storage_release(t->storage);
    p->released[p->n_released++] = (rg_plan_tensor){ t, 0 };
}

/* Returns the bytes of a storage, rounded up, since each storage begins at a multiple of 64. */
static size_t bytes_of(const rg_storage *s) { return RG_ROUND_UP(s->bytes, 64); }

/* Notes the life of a storage that is about to be freed. Its released tensors lose the storage, and
 * move to the first n_placed elements of released[], which are the tensors with a life. */
static void end_life(rg_plan *p, const rg_plan_storage *it) {
    const rg_storage *s = it->storage;
    p->lives[p->n_lives] = (rg_plan_life){ .first = it->first,
                                           .last = it->last,
                                           .bytes = bytes_of(s) };
    for (size_t i = p->n_placed; i < p->n_released; i++) {
        rg_tensor *t = p->released[i].t;
        if (t->storage != s)
            continue;
        t->data = (char *)(uintptr_t)(t->data - (char *)s->data);
        t->storage = NULL;
        p->released[i] = p->released[p->n_placed];
        p->released[p->n_placed++] = (rg_plan_tensor){ t, p->n_lives };
    }
    p->n_lives++;
}

void rgi_plan_end_lives(rg_plan *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->n_in_use; i++) {
        const rg_plan_storage it = p->in_use[i];
        if (it.own || it.storage->refs > 1) {
            p->in_use[n++] = it;
            continue;
        }
        end_life(p, &it);
        rgi_storage_release(it.storage);
    }
    p->n_in_use = n;
}

/* ---- the largest sum of bytes ------------------------------------------------------ */

/* A change of the bytes that are in use. Either a life begins at the entry number `entry`, and
 * `bytes` are added, or a life has ended before this entry, and `bytes` are subtracted. */
typedef struct {
    size_t entry;
    bool begins;
    size_t bytes;
} life_event;

/* Orders events by their entries. Lives that have ended come before those that begin. */
static int compare_events(const void *a, const void *b) {
    const life_event *x = a, *y = b;
    if (x->entry != y->entry)
        return x->entry < y->entry ? -1 : 1;
    return (int)x->begins - (int)y->begins;
}

size_t rgi_plan_most(const rg_plan_life *lives, size_t n) {
    if (n == 0)
        return 0;
    const size_t room = 2 * n * sizeof(life_event);
    life_event *events = rgi_alloc(room, RG_MEM_OTHER);
    if (!events)
        return SIZE_MAX;
    size_t n_events = 0, sum = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const rg_plan_life *life = &lives[i];
        if (life->host)
            continue;
        events[n_events++] = (life_event){ life->first, true, life->bytes };
        events[n_events++] = (life_event){ life->last + 1, false, life->bytes };
    }
    qsort(events, n_events, sizeof *events, compare_events);
    for (size_t i = 0; i < n_events; i++) {
        sum = events[i].begins ? sum + events[i].bytes : sum - events[i].bytes;
        most = RG_MAX(most, sum);
    }
    rgi_free(events, room, RG_MEM_OTHER);
    return most;
}

/* ---- placing lives ----------------------------------------------------------------- */

/* A search for a small block. order[] has the n lives in the order in which they are placed.
 * sorted[] has those that are placed already, from the lowest offset to the highest. best[k] is the
 * offset of lives[k] in the smallest block that was found, which has `least` bytes. */
typedef struct {
    rg_plan_life *lives, **order, **sorted;
    size_t n, *best, least;
} placing;

/* Returns the lowest offset where the life fits. The first n elements of sorted[] are the lives
 * that are placed already. */
static size_t lowest_offset(const placing *p, size_t n, const rg_plan_life *life) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const rg_plan_life *other = p->sorted[i];
        if (other->last < life->first || life->last < other->first)
            continue;
        if (other->offset >= at + life->bytes)
            break;
        at = RG_MAX(at, other->offset + other->bytes);
    }
    return at;
}

/* Inserts a life, which has an offset, into the first n elements of sorted[]. */
static void insert_sorted(const placing *p, size_t n, rg_plan_life *life) {
    for (; n > 0 && p->sorted[n - 1]->offset > life->offset; n--)
        p->sorted[n] = p->sorted[n - 1];
    p->sorted[n] = life;
}

/* Places all lives in the order order[]. Returns the index, in this order, of the first life that
 * ends at the end of the block. If the block is the smallest one up to now, keeps its offsets. */
static size_t place_all(placing *p) {
    size_t bytes = 0, at_the_end = 0;
    for (size_t i = 0; i < p->n; i++) {
        rg_plan_life *life = p->order[i];
        life->offset = lowest_offset(p, i, life);
        insert_sorted(p, i, life);
        if (life->offset + life->bytes > bytes) {
            bytes = life->offset + life->bytes;
            at_the_end = i;
        }
    }
    if (bytes < p->least) {
        p->least = bytes;
        for (size_t i = 0; i < p->n; i++)
            p->best[p->order[i] - p->lives] = p->order[i]->offset;
    }
    return at_the_end;
}

static size_t length_of(const rg_plan_life *life) { return life->last - life->first + 1; }

/* Compares two lives for qsort. The life with the greater key comes first; of two lives with one
 * key, the life that begins first. */
static int compare_keys(const void *a, const void *b, size_t key_a, size_t key_b) {
    const rg_plan_life *x = *(rg_plan_life *const *)a, *y = *(rg_plan_life *const *)b;
    if (key_a != key_b)
        return key_a > key_b ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int largest_first(const void *a, const void *b) {
    const rg_plan_life *x = *(rg_plan_life *const *)a, *y = *(rg_plan_life *const *)b;
    return compare_keys(a, b, x->bytes, y->bytes);
}

static int greatest_first(const void *a, const void *b) {
    const rg_plan_life *x = *(rg_plan_life *const *)a, *y = *(rg_plan_life *const *)b;
    return compare_keys(a, b, x->bytes * length_of(x), y->bytes * length_of(y));
}

static int longest_first(const void *a, const void *b) {
    const rg_plan_life *x = *(rg_plan_life *const *)a, *y = *(rg_plan_life *const *)b;
    return compare_keys(a, b, length_of(x), length_of(y));
}

/* Places all lives up to `tries` times, until the block is almost as small as possible. After each
 * time, the life that ends at the end of the block moves forward in order[]: in turn to the front,
 * and halfway to the front. */
static void search_orders(placing *p, size_t enough, size_t tries) {
    for (size_t i = 0; i < tries && p->least > enough; i++) {
        const size_t from = place_all(p), to = i % 2 ? 0 : from / 2;
        rg_plan_life *life = p->order[from];
        memmove(p->order + to + 1, p->order + to, (from - to) * sizeof *p->order);
        p->order[to] = life;
    }
}

/* Sets order[] to the lives without a host, in the order of a comparison. */
static void set_order(placing *p, size_t n_lives, int (*compare)(const void *, const void *)) {
    p->n = 0;
    for (size_t i = 0; i < n_lives; i++)
        if (!p->lives[i].host)
            p->order[p->n++] = &p->lives[i];
    qsort(p->order, p->n, sizeof *p->order, compare);
}

/* Searches with orders that begin with the largest life, with the life that has the largest product
 * of bytes and length, and with the longest life. WORK limits the steps of lowest_offset. */
static void search_all(placing *p, size_t n_lives, size_t most) {
    enum { WORK = 1 << 24, TRIES = 100 };
    static int (*const orders[])(const void *, const void *) = { largest_first, greatest_first,
                                                                 longest_first };
    for (int k = 0; k < RG_COUNT(orders); k++) {
        set_order(p, n_lives, orders[k]);
        const size_t possible = p->n ? WORK / (p->n * p->n) : 1;
        search_orders(p, most + most / 64, RG_MAX(1, RG_MIN(possible, TRIES)));
    }
}

/* Places lives in in_use[host - 1], the largest first: those that fit, that end before the first
 * entry that writes to the storage, and that have no host yet. */
static void place_in_host(placing *p, const rg_plan_storage *it, size_t host) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        rg_plan_life *life = p->order[i];
        if (life->host || life->last >= it->first || life->bytes > it->storage->bytes)
            continue;
        life->offset = lowest_offset(p, n, life);
        if (life->offset + life->bytes > it->storage->bytes)
            continue;
        life->host = host + 1;
        insert_sorted(p, n++, life);
    }
}

/* Orders storages by their bytes. */
static int compare_storages(const void *a, const void *b) {
    const rg_plan_storage *x = a, *y = b;
    if (x->storage->bytes != y->storage->bytes)
        return x->storage->bytes < y->storage->bytes ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Places lives in the storages that are still in use, from the smallest storage to the largest. */
static void place_in_hosts(placing *p, rg_plan *plan) {
    if (plan->n_in_use == 0)
        return;
    set_order(p, plan->n_lives, largest_first);
    qsort(plan->in_use, plan->n_in_use, sizeof *plan->in_use, compare_storages);
    for (size_t i = 0; i < plan->n_in_use; i++)
        if (!plan->in_use[i].alone)
            place_in_host(p, &plan->in_use[i], i);
}

/* Gives each life without a host an offset in the block. Returns false if memory ran out. */
static bool place_in_block(placing *p, size_t n_lives) {
    const size_t most = rgi_plan_most(p->lives, n_lives);
    if (most == SIZE_MAX)
        return false;
    search_all(p, n_lives, most);
    for (size_t i = 0; i < n_lives; i++)
        if (!p->lives[i].host)
            p->lives[i].offset = p->best[i];
    return true;
}

size_t rgi_plan_place(rg_plan *plan) {
    const size_t n = plan->n_lives;
    if (n == 0)
        return 0;
    const size_t room = n * (sizeof(size_t) + 2 * sizeof(rg_plan_life *));
    void *memory = rgi_alloc(room, RG_MEM_OTHER);
    if (!memory)
        return SIZE_MAX;
    placing p = { .lives = plan->lives, .order = memory, .least = SIZE_MAX };
    p.sorted = p.order + n;
    p.best = (size_t *)(void *)(p.sorted + n);
    place_in_hosts(&p, plan);
    const bool ok = place_in_block(&p, n);
    rgi_free(memory, room, RG_MEM_OTHER);
    return ok ? p.least : SIZE_MAX;
}

/* ---- carrying out the plan --------------------------------------------------------- */

/* Allocates a storage. Returns NULL if memory ran out. */
static rg_storage *new_block(size_t bytes) {
    rg_storage *s = rgi_alloc(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    rg_tensor whole;
    if (s)
        rgi_storage_begin(&whole, s, bytes);
    return s;
}

/* Marks the released tensors as alive again. Those that have a life get their part of the block or
 * of the host, or no memory if `block` is NULL. */
static void revive(const rg_plan *p, rg_storage *block) {
    for (size_t i = 0; i < p->n_released; i++) {
        rg_tensor *t = p->released[i].t;
        t->state = RG_ALIVE;
        if (i < p->n_placed && block) {
            const rg_plan_life *life = &p->lives[p->released[i].life];
            t->storage = life->host ? p->in_use[life->host - 1].storage : block;
            t->data = (char *)t->storage->data + life->offset + (uintptr_t)t->data;
        }
        if (t->storage)
            RG_COUNT_UP(&t->storage->refs, 1);
    }
}

static void free_lists(rg_plan *p) {
    rgi_free(p->in_use, p->in_use_room * sizeof *p->in_use, RG_MEM_OTHER);
    rgi_free(p->lives, p->life_room * sizeof *p->lives, RG_MEM_OTHER);
    rgi_free(p->released, p->released_room * sizeof *p->released, RG_MEM_OTHER);
    p->in_use = NULL;
    p->lives = NULL;
    p->released = NULL;
}

bool rgi_plan_settle(rg_plan *p) {
    p->most_bytes = rgi_plan_most(p->lives, p->n_lives);
    p->block_bytes = p->most_bytes == SIZE_MAX ? SIZE_MAX : rgi_plan_place(p);
    rg_storage *block = p->block_bytes == SIZE_MAX ? NULL : new_block(p->block_bytes);
    revive(p, block);
    for (size_t i = 0; i < p->n_in_use; i++) {
        p->own_bytes += bytes_of(p->in_use[i].storage);
        rgi_storage_release(p->in_use[i].storage);
    }
    p->most_bytes += p->own_bytes;
    free_lists(p);
    if (!block)
        return false;
    rgi_storage_release(block);
    return true;
}

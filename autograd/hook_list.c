/*
 * hook_list.c: adds, finds and removes hooks. It doesn't call them: the list's owner does.
 */
#include "graph_observer.h"
#include "tensor/memory.h"

void rgi_observe_hooks(rg_hook_list *list) {
    rg_graph_observer *o = rgi_graph_observer();
    if (o->called)
        o->called(o, list);
}

rg_hook_count *rgi_hook_count_of(rg_hook_list *list) {
    rg_hook_count *count = list->count;
    if (!count) {
        rg_hook_count *made = rgi_alloc(sizeof *made, RG_MEM_OTHER);
        if (!made)
            return NULL;
        *made = (rg_hook_count){ .refs = 1 };
        /* Another thread may be recording a call of the same module. The first to get here stores
         * the count. */
        if (atomic_compare_exchange_strong(&list->count, &count, made))
            count = made;
        else
            rgi_hook_count_release(made);
    }
    RG_COUNT_UP(&count->refs, 1);
    return count;
}

void rgi_count_hooks(rg_hook_count *count, int by) {
    if (count)
        count->hooks += by;
    rgi_count_change();
}

void rgi_hook_count_release(rg_hook_count *count) {
    if (count && RG_COUNT_DOWN(&count->refs, 1))
        rgi_free(count, sizeof *count, RG_MEM_OTHER);
}

static void count_hooks(rg_hook_list *list, int by) {
    list->live += (size_t)by;
    rgi_count_hooks(list->count, by);
}

int rgi_hook_add(rg_hook_list *list, int kind, rg_any_function *function, void *context) {
    if (!rgi_grow((void **)&list->v, &list->room, list->n + 1, sizeof *list->v))
        return -1;
    list->v[list->n++] = (rg_hook){ list->next_id, kind, function, context };
    count_hooks(list, 1);
    return list->next_id++;
}

/* Returns the index of the first hook whose id is at least `id`, or list->n if there is none. */
static size_t hook_place(const rg_hook_list *list, int id) {
    size_t low = 0;
    size_t high = list->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->v[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

rg_hook *rgi_hook_find(const rg_hook_list *list, int id) {
    const size_t at = hook_place(list, id);
    rg_hook *h = at < list->n ? &list->v[at] : NULL;
    return h && h->id == id && h->kind != RG_HOOK_REMOVED ? h : NULL;
}

const rg_hook *rgi_hook_from(const rg_hook_list *list, int id, int end, int kind) {
    for (size_t i = hook_place(list, id); i < list->n && list->v[i].id < end; i++)
        if (list->v[i].kind == kind)
            return &list->v[i];
    return NULL;
}

/* Removed hooks leave gaps in the list. Closes the gaps once they are at least half of the list. */
static void close_gaps(rg_hook_list *list) {
    size_t n = 0;
    if (list->n < 2 * list->live)
        return;
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i].kind != RG_HOOK_REMOVED)
            list->v[n++] = list->v[i];
    list->n = n;
}

void rgi_hook_remove(rg_hook_list *list, rg_hook *hook) {
    hook->kind = RG_HOOK_REMOVED;
    count_hooks(list, -1);
    close_gaps(list);
}

void rgi_hook_list_free(rg_hook_list *list) {
    rgi_count_hooks(list->count, -(1 << 30));
    rgi_hook_count_release(list->count);
    rgi_free(list->v, list->room * sizeof *list->v, RG_MEM_OTHER);
    *list = (rg_hook_list){ 0 };
}

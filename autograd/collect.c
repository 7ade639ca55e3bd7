/*
 * collect.c: the nodes that the roots of a backward run lead to, collected with the run's
 * own list as the stack and sorted from the newest to the oldest. The walk over them is
 * engine.c's.
 */
#include "run.h"
#include "tensor/memory.h"

void rgi_run_init(rg_run *r) {
    memset(r, 0, offsetof(rg_run, leaves));
    r->node = r->few_nodes;
    r->node_room = RG_FEW_NODES;
    rgi_leaf_table_begin(&r->leaves);
}

/* ---- collecting ------------------------------------------------------------------- */

static bool make_room(rg_run *r) {
    size_t bytes = r->n * sizeof *r->node;
    rg_node **more = rgi_alloc(2 * bytes, RG_MEM_OTHER);
    if (!more)
        return false;
    memcpy(more, r->node, bytes);
    if (r->node != r->few_nodes)
        rgi_free(r->node, bytes, RG_MEM_OTHER);
    r->node = more;
    r->node_room *= 2;
    return true;
}

/* Makes n this run's own; fails if another run has it. */
static bool claim(rg_run *r, rg_node *n) {
    uintptr_t id = (uintptr_t)r, nobody = 0;
    if (RG_ALONE && atomic_load_explicit(&n->run, memory_order_relaxed) == nobody) {
        atomic_store_explicit(&n->run, id, memory_order_relaxed);
        return true;
    }
    RG_FAIL_IF(!atomic_compare_exchange_strong(&n->run, &nobody, id), "backward",
               "the graph is being differentiated already, by another thread or by "
               "the run that calls this hook");
    return true;
}

/* Takes a node into the run, unless it is there already or is a leaf, which has no step. */
static inline bool visit(rg_run *r, rg_node *n) {
    if (!n->op || atomic_load_explicit(&n->run, memory_order_relaxed) == (uintptr_t)r)
        return true;
    if (RG_UNLIKELY(r->n == r->node_room) && !make_room(r))
        return false;
    if (!claim(r, n))
        return false;
    n->slot = r->n_grads;
    r->n_grads += n->n_out;
    r->node[r->n++] = n;
    return true;
}

/* Sorts nodes that lie `gap` apart from each other by insertion. */
static void insert_at_distance(rg_run *r, size_t gap) {
    for (size_t i = gap; i < r->n; i++) {
        rg_node *n = r->node[i];
        size_t j = i;
        for (; j >= gap && r->node[j - gap]->order < n->order; j -= gap)
            r->node[j] = r->node[j - gap];
        r->node[j] = n;
    }
}

/* Sorts the newest first. A chain is collected in that order; other graphs are sorted by Shell's
 * method, which needs no memory. */
static void sort_nodes(rg_run *r) {
    size_t sorted = 1;
    while (sorted < r->n && r->node[sorted]->order < r->node[sorted - 1]->order)
        sorted++;
    if (sorted >= r->n)
        return;
    size_t gap = r->n > RG_FEW_NODES ? r->n / 2 : 1;
    while (gap > 0) {
        insert_at_distance(r, gap);
        gap = gap == 2 ? 1 : gap * 5 / 11;
    }
}

bool rgi_run_visit(rg_run *r, rg_node *n) { return visit(r, n); }

bool rgi_run_collect(rg_run *r) {
    bool ok = true;
    for (size_t i = 0; i < r->n && ok; i++) {
        const rg_edge *e = r->node[i]->edge, *end = e + r->node[i]->n_in;
        for (; e < end && ok; e++)
            if (e->node)
                ok = visit(r, e->node);
    }
    sort_nodes(r);
    return ok;
}

/* The oldest node is let go of first, since all that a root leads to may be released with it. */
void rgi_run_let_go(rg_run *r) {
    for (size_t i = r->n; i-- > 0;) {
        rg_node *n = r->node[i];
        bool held = n->held;
        n->held = false;
        atomic_store_explicit(&n->run, 0, memory_order_release);
        if (held)
            rgi_node_release(n);
    }
    if (r->node != r->few_nodes)
        rgi_free(r->node, r->node_room * sizeof *r->node, RG_MEM_OTHER);
}

bool rgi_nodes_of(const rg_tensor *y, rg_node_list *list) {
    rg_run r;
    rgi_run_init(&r);
    bool ok = visit(&r, rgi_node_of(y)) && rgi_run_collect(&r);
    for (size_t i = 0; i < r.n; i++)
        r.node[i]->slot = i;
    *list = (rg_node_list){ rgi_alloc(RG_MAX(r.n, 1) * sizeof *r.node, RG_MEM_OTHER), r.n };
    if (list->v)
        memcpy(list->v, r.node, r.n * sizeof *r.node);
    rgi_run_let_go(&r);
    if (!ok && list->v)
        rgi_node_list_free(list);
    return ok && list->v;
}

void rgi_node_list_free(rg_node_list *list) {
    rgi_free(list->v, RG_MAX(list->n, 1) * sizeof *list->v, RG_MEM_OTHER);
    *list = (rg_node_list){ NULL, 0 };
}

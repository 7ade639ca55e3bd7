/*
 * collect.c: collects the nodes that the roots of a backward run lead to, and sorts them from the
 * newest to the oldest. During the collection, the list of nodes is also the queue of nodes whose
 * edges are still to be followed. engine.c goes through the list.
 */
#include "run.h"
#include "tensor/memory.h"

RG_HOT void rgi_run_init(rg_run *r) {
    memset(r, 0, offsetof(rg_run, leaves));
    r->nodes = r->few_nodes;
    r->node_room = RG_FEW_NODES;
    rgi_leaf_table_begin(&r->leaves);
}

/* ---- collecting nodes ------------------------------------------------------------- */

static bool make_room(rg_run *r) {
    size_t bytes = r->n_nodes * sizeof *r->nodes;
    rg_node **more = rgi_alloc(2 * bytes, RG_MEM_OTHER);
    if (!more)
        return false;
    memcpy(more, r->nodes, bytes);
    if (r->nodes != r->few_nodes)
        rgi_free(r->nodes, bytes, RG_MEM_OTHER);
    r->nodes = more;
    r->node_room *= 2;
    return true;
}

/* Marks n as a node of this run. Fails if n belongs to another run. */
static bool claim(rg_run *r, rg_node *n) {
    uintptr_t id = (uintptr_t)r;
    uintptr_t nobody = 0;
    if (RG_ALONE && atomic_load_explicit(&n->run, memory_order_relaxed) == nobody) {
        atomic_store_explicit(&n->run, id, memory_order_relaxed);
        return true;
    }
    RG_FAIL_IF(!atomic_compare_exchange_strong(&n->run, &nobody, id), "backward",
               "the graph is being differentiated already, by another thread or by "
               "the run that calls this hook");
    return true;
}

/* Adds a node to the run, unless it is in the run already or is a leaf, which has no step. */
static inline bool visit(rg_run *r, rg_node *n) {
    if (!n->op || atomic_load_explicit(&n->run, memory_order_relaxed) == (uintptr_t)r)
        return true;
    if (RG_UNLIKELY(r->n_nodes == r->node_room) && !make_room(r))
        return false;
    if (!claim(r, n))
        return false;
    n->slot = r->n_grads;
    r->n_grads += n->n_out;
    r->nodes[r->n_nodes++] = n;
    return true;
}

/* One pass of Shell sort: sorts by insertion each sequence of nodes that are `gap` places apart. */
static void insert_at_distance(rg_run *r, size_t gap) {
    for (size_t i = gap; i < r->n_nodes; i++) {
        rg_node *n = r->nodes[i];
        size_t j = i;
        for (; j >= gap && r->nodes[j - gap]->order < n->order; j -= gap)
            r->nodes[j] = r->nodes[j - gap];
        r->nodes[j] = n;
    }
}

/* Sorts the nodes from the newest to the oldest. The nodes of a chain are in that order already.
 * Other lists are sorted by Shell sort, which needs no memory. */
static void sort_nodes(rg_run *r) {
    size_t sorted = 1;
    while (sorted < r->n_nodes && r->nodes[sorted]->order < r->nodes[sorted - 1]->order)
        sorted++;
    if (sorted >= r->n_nodes)
        return;
    size_t gap = r->n_nodes > RG_FEW_NODES ? r->n_nodes / 2 : 1;
    while (gap > 0) {
        insert_at_distance(r, gap);
        gap = gap == 2 ? 1 : gap * 5 / 11;
    }
}

RG_HOT bool rgi_run_visit(rg_run *r, rg_node *n) { return visit(r, n); }

RG_HOT bool rgi_run_collect(rg_run *r) {
    bool ok = true;
    for (size_t i = 0; i < r->n_nodes && ok; i++) {
        const rg_edge *edge = r->nodes[i]->edge;
        const rg_edge *end = edge + r->nodes[i]->n_in;
        for (const rg_edge *e = edge; e < end && ok; e++)
            if (e->node)
                ok = visit(r, e->node);
    }
    sort_nodes(r);
    return ok;
}

bool rgi_run_ask(rg_run *r, int m, rg_tensor *const x[]) {
    for (int j = 0; j < m; j++) {
        rg_node *n = rgi_node_of(x[j]);
        if (!n->op) {
            if (!rgi_leaf_add(&r->leaves, n))
                return false;
        } else if (n->run == (uintptr_t)r) {
            r->marks[n->slot + x[j]->output] |= RG_ASKED;
            r->marks[n->slot] |= RG_LEADS;
        }
    }
    for (size_t i = r->n_nodes; i-- > 0;)
        for (int e = 0; e < r->nodes[i]->n_in; e++)
            if (rgi_run_needs(r, &r->nodes[i]->edge[e]))
                r->marks[r->nodes[i]->slot] |= RG_LEADS;
    return true;
}

/* Releases the nodes from the oldest to the newest. A root is among the newest. If a root were
 * released first, that could destroy older nodes in the list, which this loop still reads. */
RG_HOT void rgi_run_let_go(rg_run *r) {
    for (size_t i = r->n_nodes; i-- > 0;) {
        rg_node *n = r->nodes[i];
        bool held = n->held;
        n->held = false;
        atomic_store_explicit(&n->run, 0, memory_order_release);
        if (held)
            rgi_node_release(n);
    }
    if (r->nodes != r->few_nodes)
        rgi_free(r->nodes, r->node_room * sizeof *r->nodes, RG_MEM_OTHER);
}

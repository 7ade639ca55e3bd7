/*
 * graphviz.c: draws the graph of a tensor, as a string in Graphviz's language. Leaves are boxes
 * with their names and shapes, ops are ellipses, and arrows point from inputs to outputs.
 */
#include "graphviz.h"
#include "autograd/rebase.h"
#include "autograd/run.h"
#include "tensor/files/file.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"
#include "tensor/observer.h"

#include <stdio.h>
#include <string.h>

void rgi_add_label(rg_text *t, const char *text) {
    const size_t most = 2 * strlen(text);
    t->failed = t->failed || !rgi_grow((void **)&t->v, &t->room, t->n + most + 1, 1);
    if (t->failed)
        return;
    const char *end = text + strlen(text);
    while (text < end) {
        uint32_t code;
        const size_t valid = rgi_utf8_read(text, end, &code), wide = RG_MAX(valid, 1);
        if (*text == '"' || *text == '\\')
            t->v[t->n++] = '\\';
        if (wide > 1)
            memcpy(t->v + t->n, text, wide);
        else
            t->v[t->n] = !valid ? '?' : (char)RG_MAX(*text, ' ');
        t->n += wide;
        text += wide;
    }
    t->v[t->n] = 0;
}

static void graph_node(rg_text *d, const rg_node *n, size_t number) {
    char shape[192];
    const char *size = rgi_shape_text(n->meta[0].ndim, n->meta[0].size, shape);
    rg_text label = { 0 };
    if (n->base.name)
        rgi_add_label(&label, n->base.name);
    d->failed = d->failed || label.failed;
    const char *name = label.v ? label.v : "";
    if (n->op)
        rgi_text_add(d, "    n%zu [label=\"%s%s%s\\n%s\"]\n", number, name,
                     n->base.name ? "\\n" : "", rgi_node_name(n), size);
    else
        rgi_text_add(
            d, "    leaf%zu [shape=box, style=filled, fillcolor=lightblue, label=\"%s\\n%s\"]\n",
            number, n->base.name ? name : "leaf", size);
    rgi_text_free(&label);
}

/* The leaves that have been drawn. A leaf's number is its index in v. */
typedef struct {
    const rg_node **v;
    size_t n, room;
} drawn_leaves;

/* Draws an arrow from a leaf to node number i. If the leaf hasn't been drawn yet, draws it
 * first. */
static void graph_leaf(rg_text *d, drawn_leaves *leaves, const rg_node *leaf, size_t i) {
    size_t k = 0;
    while (k < leaves->n && leaves->v[k] != leaf)
        k++;
    if (k == leaves->n) {
        if (!rgi_grow((void **)&leaves->v, &leaves->room, k + 1, sizeof *leaves->v)) {
            d->failed = true;
            return;
        }
        leaves->v[leaves->n++] = leaf;
        graph_node(d, leaf, k);
    }
    rgi_text_add(d, "    leaf%zu -> n%zu\n", k, i);
}

/* Draws the nodes of a backward run (run.h) that isn't carried out, and the leaves that their edges
 * lead to. If `root` is a leaf, the run has no nodes, and only `root` is drawn. During the drawing
 * the field `slot` of a node holds the node's number. */
static void graph_of(rg_text *d, const rg_run *run, const rg_node *root) {
    drawn_leaves leaves = { 0 };
    rgi_text_add(d, "digraph regard {\n    rankdir=BT\n    node [fontname=\"sans-serif\"]\n");
    if (!root->op)
        graph_node(d, root, 0);
    for (size_t i = 0; i < run->n_nodes; i++)
        run->nodes[i]->slot = i;
    for (size_t i = 0; i < run->n_nodes; i++) {
        const rg_node *n = run->nodes[i];
        graph_node(d, n, i);
        for (int e = 0; e < n->n_in; e++) {
            const rg_node *from = n->edge[e].node;
            if (!from)
                continue;
            if (from->op)
                rgi_text_add(d, "    n%zu -> n%zu\n", from->slot, i);
            else
                graph_leaf(d, &leaves, from, i);
        }
    }
    rgi_text_add(d, "}\n");
    rgi_free((void *)leaves.v, leaves.room * sizeof *leaves.v, RG_MEM_OTHER);
}

static const char *graph_dot(rg_tensor *y) {
    rg_text d = { 0 };
    rg_run run;
    if (!rgi_check(y, "graph_dot") || !rgi_renew(y, "graph_dot"))
        return NULL;
    RG_FAIL_IF(!y->history, "graph_dot",
               "the tensor does not require grad: there is no graph behind it");
    rgi_run_init(&run);
    const bool ok = rgi_run_visit(&run, rgi_node_of(y)) && rgi_run_collect(&run);
    if (ok)
        graph_of(&d, &run, rgi_node_of(y));
    rgi_run_let_go(&run);
    return ok ? rgi_text_own(&d) : NULL;
}

const char *rg_graph_dot(rg_tensor *y) { return rgi_told(graph_dot(y)); }

bool rg_graph_save(rg_tensor *y, const char *path) {
    RG_AS("graph_save");
    RG_SCOPE();
    const char *text = rgi_may_do_once("graph_save") ? graph_dot(y) : NULL;
    if (!text)
        return false;
    rg_writer w;
    if (!rgi_writer_begin(&w, "graph_save", path))
        return false;
    rgi_write(&w, text, strlen(text));
    return rgi_writer_end(&w);
}

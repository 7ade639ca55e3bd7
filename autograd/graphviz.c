/*
 * graphviz.c: the graph behind a tensor, as text in Graphviz's language: leaves
 * as boxes with their names and shapes, ops as ellipses, arrows the way that the
 * values went.
 */
#include "op.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct { char *text; size_t at, room; bool failed; } dot;

static void dot_put(dot *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void dot_put(dot *d, const char *format, ...)
{
    char piece[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n >= (int)sizeof piece) n = sizeof piece - 1;
    if (d->failed || !rg_grow((void **)&d->text, &d->room, d->at + (size_t)n + 1, 1)) {
        d->failed = true;
        return;
    }
    memcpy(d->text + d->at, piece, (size_t)n + 1);
    d->at += (size_t)n;
}

/* A name as Graphviz takes it in quotes. */
static const char *quoted(const char *name, char text[128])
{
    size_t n = 0;
    for (; *name && n < 125; name++) {
        if (*name == '"' || *name == '\\') text[n++] = '\\';
        text[n++] = *name < ' ' && *name >= 0 ? ' ' : *name;
    }
    text[n] = 0;
    return text;
}

static void dot_node(dot *d, const rg_node *n, size_t number)
{
    char shape[192], name[128];
    const char *size = rg_shape_text(n->meta[0].ndim, n->meta[0].size, shape);
    if (n->op) dot_put(d, "    n%zu [label=\"%s%s%s\\n%s\"]\n", number, n->base.name ? quoted(n->base.name, name) : "",
                       n->base.name ? "\\n" : "", rg_node_name(n), size);
    else dot_put(d, "    leaf%zu [shape=box, style=filled, fillcolor=lightblue, label=\"%s\\n%s\"]\n", number,
                 n->base.name ? quoted(n->base.name, name) : "leaf", size);
}

static void dot_graph(dot *d, const rg_node_list *nodes, const rg_node *root)
{
    const rg_node **leaves = NULL;
    size_t n_leaves = 0, room = 0;
    dot_put(d, "digraph regard {\n    rankdir=BT\n    node [fontname=\"sans-serif\"]\n");
    if (!root->op) dot_node(d, root, 0);
    for (size_t i = 0; i < nodes->n; i++) {
        const rg_node *n = nodes->v[i];
        dot_node(d, n, i);
        for (int e = 0; e < n->n_in; e++) {
            const rg_node *from = n->edge[e].node;
            size_t k = 0;
            if (!from) continue;
            if (from->op) {
                dot_put(d, "    n%zu -> n%zu\n", from->slot, i);
                continue;
            }
            while (k < n_leaves && leaves[k] != from) k++;
            if (k == n_leaves) {
                if (!rg_grow((void **)&leaves, &room, n_leaves + 1, sizeof *leaves)) d->failed = true;
                if (d->failed) break;
                leaves[n_leaves++] = from;
                dot_node(d, from, k);
            }
            dot_put(d, "    leaf%zu -> n%zu\n", k, i);
        }
    }
    dot_put(d, "}\n");
    rg_free((void *)leaves, room * sizeof *leaves, RG_MEM_OTHER);
}

const char *rg_graph_dot(rg_tensor *y)
{
    dot d = { .text = NULL };
    rg_node_list nodes;
    char *text = NULL;
    if (!rg_check(y, "graph_dot")) return NULL;
    if (!y->history) return rg_fail(RG_RUNTIME_ERROR, "graph_dot", "the tensor does not require grad: there is no graph behind it");
    if (!rg_nodes_of(y, &nodes)) return NULL;
    dot_graph(&d, &nodes, rg_node_of(y));
    if (!d.failed && (text = rg_own_string(d.at + 1))) memcpy(text, d.text, d.at + 1);
    rg_free(d.text, d.room, RG_MEM_OTHER);
    rg_node_list_free(&nodes);
    return text;
}

bool rg_graph_save(rg_tensor *y, const char *path)
{
    RG_SCOPE();
    const char *text = rg_graph_dot(y);
    if (!text) return false;
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return rg_fail(RG_IO_ERROR, "graph_save", "can't write to '%s'", path ? path : "");
    bool ok = fputs(text, file) >= 0;
    ok = fclose(file) == 0 && ok;
    return ok || rg_fail(RG_IO_ERROR, "graph_save", "can't write to '%s'", path);
}

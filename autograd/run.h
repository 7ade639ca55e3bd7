/*
 * run.h: a backward run, for collect.c, gradients.c and engine.c, and for tools/paths.c and
 * tools/graphviz.c, which use its list of nodes for other purposes.
 */
#pragma once

#include "engine.h"
#include "leaf_table.h"

/* Marks of outputs, in a run that computes the gradients of given tensors. RG_ASKED: the output is
 * one of these tensors. RG_LEADS, on a node's first output: the node has such an output, or leads
 * to such a tensor. */
enum { RG_LEADS = 1, RG_ASKED = 2 };

/* A run of up to RG_FEW_NODES nodes has all its arrays on the stack. */
enum { RG_FEW_NODES = 24 };

/* `op` is the function that the user called. If `capturing` is set, the run computes only the
 * gradients of given tensors: they are returned or, if `commits` is set, added to their leaves. If
 * `retain` is set, the nodes keep their saved values. `nodes` lists the nodes that the roots lead
 * to, the newest first, without leaves. `grads` and, if capturing, `marks` have an element for each
 * output of each node; those of a node begin at its slot. */
typedef struct rg_run {
    const char *op;
    bool create_graph, retain, capturing, commits;
    bool awaits;            /* True if leaves have hooks, which wait for complete gradients. */
    uint32_t contributions; /* The number of gradients that have reached leaves. */
    rg_node **nodes;
    size_t n_nodes, node_room;
    rg_tensor **grads;
    size_t n_grads;
    uint8_t *marks;
    rg_leaf_table leaves;
    rg_node *few_nodes[RG_FEW_NODES];
    rg_tensor *few_grads[RG_FEW_NODES];
} rg_run;

/* ---- collect.c ---------------------------------------------------------------------- */
void rgi_run_init(rg_run *r);
/* Adds a root's node to the run. */
bool rgi_run_visit(rg_run *r, rg_node *n);
/* Adds to the run all nodes behind the nodes in it, and sorts them. */
bool rgi_run_collect(rg_run *r);
/* Marks the outputs that are asked for, and the nodes that lead to them. */
bool rgi_run_ask(rg_run *r, int m, rg_tensor *const x[]);
/* Releases the run's nodes, and its list of them. */
void rgi_run_let_go(rg_run *r);

/* ---- gradients.c -------------------------------------------------------------------- */
/* Returns the place where the gradient for an edge's target is gathered, or NULL if memory ran
 * out. */
rg_tensor **rgi_run_place(rg_run *r, rg_edge e);
/* Adds g, of the same shape, to *to: in place if nobody else can see *to. A *to that is NULL
 * becomes g itself. */
bool rgi_accumulate_into(const rg_run *r, rg_tensor **to, rg_tensor *g);
/* Returns whether nobody else can see t, so that it may be written to. */
bool rgi_is_sole_owner(const rg_tensor *t);
/* Returns whether the gradient for an edge's target is wanted. */
bool rgi_run_needs(const rg_run *r, const rg_edge *e);
/* Makes the gradients of a node's inputs, and adds them to the inputs' gradients. */
bool rgi_run_step(rg_run *r, rg_node *n);

/*
 * run.h: a backward run, as collect.c, gradients.c and engine.c see it. tools/paths.c walks the
 * nodes in another way, and tools/graphviz.c draws them.
 */
#pragma once

#include "engine.h"
#include "leaf_table.h"

/* These marks are for a run that is asked for the gradients of some tensors only. RG_LEADS, on a
 * node's first output, says that the node has one of these tensors among its outputs or leads to
 * one; RG_ASKED says that an output itself is one. */
enum { RG_LEADS = 1, RG_ASKED = 2 };

/* A small run finds all that it needs on the C stack. */
enum { RG_FEW_NODES = 24 };

/* `op` is the function that was called. A run that is capturing returns the gradients that it was
 * asked for or, if it `commits`, adds them to those of the leaves that were asked for; one that is
 * to `retain` leaves the graph its saved values. `nodes`
 * lists the nodes that the roots lead to, newest first, without leaves. `grads` and, if the run is
 * capturing, `marks` have a place for each output of each node; those of a node begin at its
 * slot. */
typedef struct rg_run {
    const char *op;
    bool create_graph, retain, capturing, commits;
    bool awaits; /* Some leaves have hooks, which wait for their gradients to be complete. */
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
/* Takes a root's node into the run. */
bool rgi_run_visit(rg_run *r, rg_node *n);
/* Takes all nodes into the run that those in it lead to, and sorts them. */
bool rgi_run_collect(rg_run *r);
/* Marks the outputs that are asked for, and the nodes that lead to them. */
bool rgi_run_ask(rg_run *r, int m, rg_tensor *const x[]);
/* Releases the run's nodes, and its list of them. */
void rgi_run_let_go(rg_run *r);

/* ---- gradients.c -------------------------------------------------------------------- */
/* Returns where the gradient of an edge's target is gathered, or NULL if memory ran out. */
rg_tensor **rgi_run_place(rg_run *r, rg_edge e);
/* Adds g to *to, of the same shape, in place where nobody else can see *to; an empty place takes g
 * itself. */
bool rgi_accumulate_into(const rg_run *r, rg_tensor **to, rg_tensor *g);
/* Returns whether t may be written to because nobody else can see it. */
bool rgi_is_sole_owner(const rg_tensor *t);
/* Returns whether the gradient of an edge's target is wanted. */
bool rgi_run_needs(const rg_run *r, const rg_edge *e);
/* Makes the gradients of a node's inputs, and passes them on. */
bool rgi_run_step(rg_run *r, rg_node *n);

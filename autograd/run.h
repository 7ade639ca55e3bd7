/*
 * run.h: a backward run, as collect.c, gradients.c and engine.c see it. No other file
 * includes this one.
 */
#pragma once

#include "engine.h"
#include "leaf_table.h"

/* Where only some inputs are asked for, a mark on a node's first output says that the node leads to
 * one of them, and a mark on any output that it is asked for itself. */
enum { RG_LEADS = 1, RG_ASKED = 2 };

/* A small run finds all that it needs on the C stack. */
enum { RG_FEW_NODES = 24 };

/* The nodes are those that the roots lead to, newest first, without leaves. There is a gradient,
 * and a mark, for each output of each node. `op` is the function that was called. Where the run is
 * capturing, it returns gradients and commits none. */
typedef struct rg_run {
    const char *op;
    bool create_graph, retain, capturing;
    rg_node **node;
    size_t n, node_room;
    rg_tensor **grad;
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
/* Gives the nodes free. */
void rgi_run_let_go(rg_run *r);

/* ---- gradients.c -------------------------------------------------------------------- */
/* Returns where the gradient of an edge's target is gathered; NULL: out of memory. */
rg_tensor **rgi_run_place(rg_run *r, rg_edge e);
/* *to += g, in place where nobody else can see *to; an empty place takes g itself. */
bool rgi_accumulate_into(const rg_run *r, rg_tensor **to, rg_tensor *g);
/* Returns whether t may be written to because nobody else can see it. */
bool rgi_is_sole_owner(const rg_tensor *t);
/* Returns whether the gradient of an edge's target is wanted. */
bool rgi_run_needs(const rg_run *r, const rg_edge *e);
/* Makes the gradients of a node's inputs, and passes them on. */
bool rgi_run_step(rg_run *r, rg_node *n);

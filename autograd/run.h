/*
 * run.h: declares the state of a backward run (rg_run), and its functions in collect.c and
 * gradients.c, for engine.c and tools/paths.c. (tools/graphviz.c uses only the list of nodes.)
 */
#pragma once

#include "engine.h"
#include "leaf_table.h"

/* Bits of the field `marks` of rg_run, for a run that computes the gradients of given tensors.
 * RG_ASKED: the output of a node is a given tensor. RG_LEADS marks a whole node, and is stored with
 * the node's first output. It says that a given tensor is one of the node's outputs, or can be
 * reached from the node along edges. */
enum { RG_LEADS = 1, RG_ASKED = 2 };

/* The size of few_nodes and few_grads, which a small run uses in place of allocated arrays. */
enum { RG_FEW_NODES = 24 };

/* A backward run. `op` is the name of the function that the user called. If `capturing` is set, the
 * run computes only the gradients of given tensors: they are returned or, if `commits` is set,
 * added to the .grad of these tensors. If `retain` is set, the nodes keep their saved values.
 * `nodes` lists the nodes of the tensors from which the run begins, and all nodes that these lead
 * to, but no leaves; rgi_run_collect sorts the list from the newest to the oldest node. `grads` has
 * an element for each output of each node: the sum of the gradients that have reached this output.
 * If `capturing` is set, `marks` has as many elements, with RG_LEADS and RG_ASKED. In both arrays,
 * the elements for the outputs of a node begin at index node->slot. */
typedef struct rg_run {
    const char *op;
    bool create_graph, retain, capturing, commits;
    bool awaits;            /* True if a leaf has a hook for its complete gradient. */
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

/* ---- collect.c: the nodes of a run -------------------------------------------------- */
void rgi_run_init(rg_run *r);
/* Adds the node of a tensor from which the run begins. Does nothing if the node is a leaf. Fails if
 * another run works on the node. Returns false if memory ran out. */
bool rgi_run_visit(rg_run *r, rg_node *n);
/* Adds to the run all nodes that its nodes lead to, and sorts all its nodes from new to old. */
bool rgi_run_collect(rg_run *r);
/* Marks the outputs that are among the m tensors x (RG_ASKED), and the nodes that lead to x
 * (RG_LEADS). A leaf among x joins r->leaves. Returns false if memory ran out. */
bool rgi_run_ask(rg_run *r, int m, rg_tensor *const x[]);
/* Releases the nodes of the run, so that another run may use them, and frees the list of them. */
void rgi_run_let_go(rg_run *r);

/* ---- gradients.c: the step of a node ------------------------------------------------ */
/* Returns the address of the pointer to the sum of gradients for the edge's target, which is a
 * node's output or a leaf. Returns NULL if memory ran out. */
rg_tensor **rgi_run_place(rg_run *r, rg_edge e);
/* Adds g to *to, which has the same shape. Adds in place if *to may be written to
 * (rgi_is_sole_owner) and the run doesn't create a graph; otherwise *to becomes a new tensor. If
 * *to is NULL, *to becomes g itself. Returns false on failure. */
bool rgi_accumulate_into(const rg_run *r, rg_tensor **to, rg_tensor *g);
/* Returns whether t may be written to. Only the caller and the thread's observer may hold
 * references to t and its storage, and t must be dense and have no history. */
bool rgi_is_sole_owner(const rg_tensor *t);
/* Returns whether the run needs a gradient for the edge's target. */
bool rgi_run_needs(const rg_run *r, const rg_edge *e);
/* Computes the gradients of a node's inputs, and adds them to the gradients of the nodes and leaves
 * that the edges lead to. */
bool rgi_run_step(rg_run *r, rg_node *n);

/*
 * engine.h: what the rest of autograd/ asks of the engine. Users ask by the functions
 * in autograd.h.
 */
#pragma once

#include "node.h"

/* A list has n nodes in v. rgi_nodes_of makes a list of all nodes that y depends on, newest first,
 * and makes each node's slot its place there. */
typedef struct rg_node_list {
    rg_node **v;
    size_t n;
} rg_node_list;
bool rgi_nodes_of(const rg_tensor *y, rg_node_list *list);
void rgi_node_list_free(rg_node_list *list);

/* Returns g summed down to the shape of meta, if that was broadcast, and in its dtype. */
rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta);
/* Returns whether it can be summed so. */
bool rgi_may_sum_to(const rg_tensor *g, const rg_meta *meta);

/* While a rule runs, anomaly mode looks at the gradient that it returns, not at each op in it. */
extern __thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));

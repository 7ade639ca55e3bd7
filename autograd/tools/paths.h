/*
 * paths.h: the paths that paths.c finds and explain.c describes. Private.
 */
#pragma once

#include "explain.h"
#include "autograd/node.h"

/* The steps of all paths form a tree, in which paths with the same beginning share it. A step is
 * one op of a path, and `before` is the index of the step before it. Step 0 is the loss. */
typedef struct {
    int before;
    char op[96];
} path_step;

/* The gradient by the path that ends with this step. RG_REST in place of a step stands for all
 * paths that were merged. */
enum { RG_REST = -1, RG_MOST_PATHS = 24 };
typedef struct {
    int step;
    rg_tensor *g;
    double norm;
} path_part;

/* The parts for one output of a node. The last element has room for the rest. */
typedef struct {
    int n;
    path_part v[RG_MOST_PATHS + 1];
} path_parts;

typedef struct {
    path_step *step;
    size_t n_steps, room;
    path_parts of_w;
    char zero[128], not_finite[128], huge[128];
} rg_paths;

/* Finds the paths from the loss to w. Requires that grad mode is off. The caller frees *p, also if
 * it fails. */
bool rgi_find_paths(rg_paths *p, rg_tensor *loss, rg_tensor *w, double huge);
void rgi_paths_free(rg_paths *p);

/* Returns t's elements as doubles, which the scope owns, or NULL. */
const double *rgi_doubles(rg_tensor *t);
double rgi_inner_product(int64_t n, const double *a, const double *b);

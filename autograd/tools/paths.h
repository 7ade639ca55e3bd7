/*
 * paths.h: what paths.c finds and explain.c tells. Private.
 */
#pragma once

#include "explain.h"
#include "autograd/node.h"

/* Paths that share their beginning share it here, too: each step is an op behind the one that is
 * `before` it. Step 0 is the loss. */
typedef struct {
    int before;
    char op[96];
} path_step;

/* The gradient that came by the path that ends with this step or, where that is RG_REST, by all
 * paths that go on together. */
enum { RG_REST = -1, RG_MOST_PATHS = 24 };
typedef struct {
    int step;
    rg_tensor *g;
    double norm;
} path_part;

/* The parts for one output of a node. The last place is for the rest. */
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

/* Finds the paths from the loss to w. Requires that grad mode is off. What it has found is to be
 * freed, also where it fails. */
bool rgi_find_paths(rg_paths *p, rg_tensor *loss, rg_tensor *w, double huge);
void rgi_paths_free(rg_paths *p);

/* Returns t's elements as doubles, which the scope owns, or NULL. */
const double *rgi_doubles(rg_tensor *t);
double rgi_inner_product(int64_t n, const double *a, const double *b);

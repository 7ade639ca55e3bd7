/*
 * paths.h: the paths of a gradient, which paths.c finds and explain.c describes. Not a public
 * header.
 */
#pragma once

#include "explain.h"
#include "autograd/node.h"

/* One step of a path: the backward step of a node. `op` is the name of the node's op, followed by
 * the node's own name if it has one. `before` is the index of the step that comes before this one
 * on the path, nearer to the loss. Step 0 is the loss. The steps of all paths form a tree, because
 * paths that begin with the same steps share these. */
typedef struct {
    int before;
    char op[96];
} path_step;

/* A part of the gradient of an output: the gradient g that comes along one path, and its norm.
 * `step` is the index of the path's last step. If more than RG_MOST_PATHS paths meet at an output,
 * the parts with the smallest norms are added up in one part, whose `step` is RG_REST. */
enum { RG_REST = -1, RG_MOST_PATHS = 24 };
typedef struct {
    int step;
    rg_tensor *g;
    double norm;
} path_part;

/* The gradients of all paths that end at one output of a node. There is room for the parts of
 * RG_MOST_PATHS paths, and for the part whose step is RG_REST. */
typedef struct {
    int n;
    path_part v[RG_MOST_PATHS + 1];
} path_parts;

/* The paths from a loss to w: the tree of their steps, with n_steps elements, and the gradients of
 * the paths, which end at w. zero, not_finite and huge describe the first step that computed such a
 * gradient (see rg_explanation); they are "" if there was none. `zero` leaves out the gradients of
 * values that an op in place wrote over. `overwritten` describes the first of these that was zero,
 * and is "" if a step that `zero` describes came before it. */
typedef struct {
    path_step *step;
    size_t n_steps, room;
    path_parts of_w;
    char zero[128], overwritten[128], not_finite[128], huge[128];
} rg_paths;

/* Finds the paths from the loss to w. Requires that grad mode is off. The caller frees *p
 * (rgi_paths_free), even if rgi_find_paths fails. */
bool rgi_find_paths(rg_paths *p, rg_tensor *loss, rg_tensor *w, double huge);
void rgi_paths_free(rg_paths *p);

/* Returns t's elements as doubles in row-major order. The scope owns them. Returns NULL if memory
 * ran out. */
const double *rgi_doubles(rg_tensor *t);
double rgi_inner_product(int64_t n, const double *a, const double *b);

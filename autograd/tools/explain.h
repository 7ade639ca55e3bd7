/*
 * explain.h: explains a gradient: the paths that contributed to it, the step that made it zero,
 * infinite or NaN, and whether finite differences agree.
 *
 *     rg_explanation e = rg_explain(loss, w);
 *     puts(e.text);
 *
 * A path is the list of ops from the loss back to w. The gradient G of w is the sum of a
 * contribution c for each path; paths of the same ops, such as the heads of one layer, count as
 * one. A path has
 *
 *     share = <c, G> / <G, G>        size = |c| / |G|
 *
 * so that the shares of all paths add up to 1, and a path that works against the gradient has a
 * share below 0. Paths that cancel each other have sizes above their shares. If G is 0 or not
 * finite, the shares are NAN. If more than 24 paths meet at one node, the smallest are joined, and
 * count in `rest`.
 *
 * Hooks on gradients aren't called, and the graph stays as it is.
 */
#pragma once

#include "../autograd.h"

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_explain_options {
    RG_BY_NAME;
    /* The number of paths to describe, the largest first. */
    int paths RG_DEFAULT(8);
    /* The bound above which an element makes a gradient huge. */
    double huge RG_DEFAULT(1e6);
    /* Computes the loss again from the inputs, as for rg_gradcheck. It gives a verdict if w is
     * float64. f gets w as one of its inputs, or reaches it by the context; w is changed in place,
     * and gets its values back. Without .inputs, w is the only input. If f doesn't read w, there is
     * no verdict. */
    rg_function *f RG_DEFAULT(NULL);
    void *context RG_DEFAULT(NULL);
    rg_list inputs RG_DEFAULT({});
} rg_explain_options;

/* "cross_entropy <- linear <- tanh <- linear" */
typedef struct rg_gradient_path {
    const char *ops;
    double share, size;
} rg_gradient_path;

typedef struct rg_explanation {
    int n; /* The number of paths in v; -1 means failure. */
    const rg_gradient_path *v;
    double rest;         /* The share of all other paths. */
    rg_tensor *gradient; /* The sum of the gradients of all paths. */
    /* The first step on the way back whose gradient was all zeros, not finite, or huge, though the
     * step got a gradient that wasn't: "relu, input 0 of [3, 4]". NULL if there was none. */
    const char *first_zero, *first_not_finite, *first_huge;
    /* The greatest distance of the gradient from central differences of f, along its own direction
     * and four random ones, relative to its norm. Below 1e-6 they agree. NAN if there is no
     * verdict. */
    double off;
    bool agrees;
    const char *text; /* All of this in words. */
    const char *dot;  /* A drawing of it in Graphviz's language. */
} rg_explanation;
/* The scope owns the texts, the paths and the gradient. */
rg_explanation rg_explain_with(rg_tensor *loss, rg_tensor *w, rg_explain_options options);
#define rg_explain(loss, w, ...) \
    rg_explain_with(loss, w,     \
                    RG_KEYWORDS(rg_explain_options, (.paths = 8, .huge = 1e6), __VA_ARGS__))

RG_PUBLIC_END

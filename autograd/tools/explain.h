/*
 * explain.h: explains a gradient: the paths that contributed to it, the step that made it zero,
 * infinite or NaN, and whether finite differences agree with it.
 *
 *     rg_explanation e = rg_explain(loss, w);
 *     puts(e.text);
 *
 * A path is the list of ops from the loss back to w. The gradient G of w is the sum of
 * contributions c, one for each path. Paths with the same ops, such as those through the heads of
 * one layer, count as one path. A path has
 *
 *     share = <c, G> / <G, G>        size = |c| / |G|
 *
 * so that the shares of all paths add up to 1. A path that works against the gradient has a share
 * below 0. Paths that cancel each other have sizes above their shares. If G is 0 or not finite,
 * shares and sizes are NAN. If the norms |c| add up to over 1000 |G|, the text says that the paths
 * cancel, and the text and the drawing have the norms in place of the shares. If more than 24 paths
 * meet at one output of a node, the smallest are merged: they aren't listed, and their share is
 * part of the field `rest`.
 *
 * rg_explain calls no hooks on gradients, and the graph keeps its saved values.
 */
#pragma once

#include "../autograd.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_explain_options {
    RG_BY_NAME;
    /* The number of paths to describe, beginning with the largest. */
    int64_t paths RG_DEFAULT(8);
    /* A gradient counts as huge if the absolute value of an element is above this bound. */
    double huge RG_DEFAULT(1e6);
    /* A function that computes the loss again from the inputs, as for rg_gradcheck. If it is given,
     * and w is float64 and contiguous, the gradient is compared with finite differences. f gets w
     * as one of its inputs, or reaches w through the context. w is changed in place, and gets its
     * values back. Without .inputs, w is the only input. If f doesn't read w, there is no
     * verdict. */
    rg_function *f RG_DEFAULT(NULL);
    void *context RG_DEFAULT(NULL);
    rg_list inputs RG_DEFAULT({});
} rg_explain_options;

/* One path. `ops` is a string such as "cross_entropy <- linear <- tanh <- linear". */
typedef struct rg_gradient_path {
    const char *ops;
    double share, size;
} rg_gradient_path;

typedef struct rg_explanation {
    int n; /* The number of paths in v, or -1 on failure. */
    const rg_gradient_path *v;
    double rest;         /* The share of all paths that aren't in v. */
    rg_tensor *gradient; /* The gradient of w: the sum over all paths. */
    /* The first step on the way back from the loss that computed a gradient of all zeros, one that
     * isn't finite, or a huge one. Each field is a string such as "relu, input 0 of [3, 4]", or
     * NULL if there was no such step. The gradient of values that were later overwritten in place
     * is zero. first_zero names such a step only if w's whole gradient is zero. The step's op is
     * then "replace", "copy_slices" or "set_item". */
    const char *first_zero, *first_not_finite, *first_huge;
    /* The largest difference between the gradient and central differences of f. They are compared
     * along the gradient's own direction and four random ones. The difference is divided by the
     * gradient's norm, or by 1e-3 if the norm is smaller. If `off` is below 1e-6, `agrees` is true.
     * If there is no verdict, `off` is NAN and `agrees` is false. */
    double off;
    bool agrees;
    const char *text; /* The whole explanation in words or, on failure, the error's message. */
    const char *dot;  /* A drawing of it in Graphviz's language; "" on failure. */
} rg_explanation;
/* The scope owns the strings, the paths and the gradient in the result. */
rg_explanation rg_explain_with(rg_tensor *loss, rg_tensor *w, rg_explain_options options);
static inline rg_explanation rgi_explain(rg_tensors_in_order t, rg_explain_options options) {
    return rg_explain_with(t.a, t.b, options);
}
#define rg_explain(loss, w, ...)               \
    rgi_explain(RG_PAIR(__COUNTER__, loss, w), \
                RG_KEYWORDS(rg_explain_options, (.paths = 8, .huge = 1e6), __VA_ARGS__))

RG_PUBLIC_END

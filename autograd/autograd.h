/*
 * autograd.h: derivatives of what ops.h computes.
 *
 *   recording     requires_grad_, detach, no_grad
 *   backward      gradients into leaves, or returned
 *   hooks         to see or change a gradient on its way
 *   checking      gradcheck, gradgradcheck, anomaly mode
 *   looking       graph drawing
 */
#pragma once

#include "../tensor/tensor.h"
#include "replay.h"

RG_PUBLIC_BEGIN

/* ---- recording ----------------------------------------------------------------
 * Operations are recorded while grad mode is on and an input requires grad. */
rg_tensor *rg_requires_grad_(rg_tensor *t, bool on);
bool rg_requires_grad(rg_tensor *t); /* false on failure */
bool rg_is_leaf(rg_tensor *t);       /* false on failure */
rg_tensor *rg_detach(rg_tensor *t);  /* the same storage, no history */
rg_tensor *rg_detach_(rg_tensor *t);
/* t.data = data: the same leaf, other storage (and dtype) */
bool rg_set_data(rg_tensor *t, rg_tensor *data);
const char *rg_grad_fn(rg_tensor *t); /* "MulBackward0"; "" for a leaf */

bool rg_is_grad_enabled(void);
bool rg_set_grad_enabled(bool on); /* returns what it was */
typedef struct rg_grad_guard {
    bool before;
} rg_grad_guard;
rg_grad_guard rg_grad_guard_open(bool on);
void rg_grad_guard_close(rg_grad_guard *guard);
#define RG_GRAD_GUARD_(on)                        \
    rg_grad_guard RG_PASTE(rg_grad_, __COUNTER__) \
        __attribute__((cleanup(rg_grad_guard_close), unused)) = rg_grad_guard_open(on)
#define RG_NO_GRAD()     RG_GRAD_GUARD_(false) /* to the end of the C block */
#define RG_ENABLE_GRAD() RG_GRAD_GUARD_(true)

/* ---- backward ------------------------------------------------------------------
 * rg_backward(loss) adds to .grad of every leaf it depends on, and frees what
 * the graph saved. A run that fails leaves every .grad as it was. */
typedef struct rg_backward_options {
    /* of y; needed unless y has one element */
    rg_tensor *gradient RG_DEFAULT(RG_NONE);
    bool retain_graph RG_DEFAULT(false);
    /* record the run itself; keeps the graph, too */
    bool create_graph RG_DEFAULT(false);
    /* rg_grad: RG_NONE for what y doesn't depend on */
    bool allow_unused RG_DEFAULT(false);
} rg_backward_options;

bool rg_backward_with(rg_tensor *y, rg_backward_options options);
rg_tensor *rg_grad_with(rg_tensor *y, rg_tensor *x, rg_backward_options options);
#define RG_BACKWARD_(...)   RG_KEYWORDS(rg_backward_options, (.gradient = RG_NONE), __VA_ARGS__)
#define rg_backward(y, ...) rg_backward_with(y, RG_BACKWARD_(__VA_ARGS__))
#define rg_grad(y, x, ...)  rg_grad_with(y, x, RG_BACKWARD_(__VA_ARGS__)) /* dy/dx, returned */
/* Several outputs and inputs. gradients: NULL, or one for each y (RG_NONE: of
 * one element). options.gradient is not used. */
bool rg_backward_many(int n, rg_tensor *const y[], rg_tensor *const gradients[],
                      rg_backward_options options);
bool rg_grad_many(int n, rg_tensor *const y[], rg_tensor *const gradients[], int m,
                  rg_tensor *const x[], rg_tensor *results[], rg_backward_options options);

rg_tensor *rg_grad_of(rg_tensor *t);             /* t.grad; RG_NONE if it has none */
bool rg_set_grad(rg_tensor *t, rg_tensor *grad); /* RG_NONE: takes it away */
bool rg_retain_grad(rg_tensor *t);               /* keep .grad though t is no leaf */

/* ---- hooks -----------------------------------------------------------------------
 * Called with the gradient of t; returns the one to go on with, RG_NONE: the same. */
typedef rg_tensor *rg_hook_function(rg_tensor *grad, void *context);
int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context); /* an id; -1 */
bool rg_remove_hook(rg_tensor *t, int id);

/* ---- checking --------------------------------------------------------------------
 * Compares the gradients of a function with finite differences, in float64; false
 * where they differ, and rg_error() names the worst element and both values. A module's
 * parameters may be among the inputs: they are changed where they lie. */
typedef rg_tensor *rg_function(rg_tensor *const inputs[], void *context);
typedef struct rg_gradcheck_options {
    double eps RG_DEFAULT(1e-6);
    double atol RG_DEFAULT(1e-5);
    double rtol RG_DEFAULT(1e-3);
} rg_gradcheck_options;
bool rg_gradcheck_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                       rg_gradcheck_options options);
bool rg_gradgradcheck_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                           rg_gradcheck_options options);
#define RG_GRADCHECK_(...) \
    RG_KEYWORDS(rg_gradcheck_options, (.eps = 1e-6, .atol = 1e-5, .rtol = 1e-3), __VA_ARGS__)
#define rg_gradcheck(f, context, n, inputs, ...) \
    rg_gradcheck_with(f, context, n, inputs, RG_GRADCHECK_(__VA_ARGS__))
#define rg_gradgradcheck(f, context, n, inputs, ...) \
    rg_gradgradcheck_with(f, context, n, inputs, RG_GRADCHECK_(__VA_ARGS__))

/* Anomaly mode: the first NaN or infinity that an op makes out of finite numbers,
 * forward or backward, fails there, and the error names the op, its shapes and
 * where the forward call was made (as functions, if linked with -rdynamic; else
 * as addresses for addr2line). */
bool rg_set_detect_anomaly(bool on); /* returns what it was */
bool rg_is_anomaly_enabled(void);

/* What each op costs: calls, time, bytes, floating point operations. REGARD_PROFILE=1 in the
 * environment prints the table when the program ends; REGARD_PROFILE=FILE.json also writes each
 * call there, for chrome://tracing. */
bool rg_set_profiling(bool on);     /* returns what it was */
const char *rg_profile_table(void); /* so far; the scope's */
typedef struct rg_cost {
    int64_t calls;
    double ns, bytes, flops;
} rg_cost;
/* of a row of it: "matmul", "matmul, backward"; NULL: of all */
rg_cost rg_profile_cost(const char *row);

/* ---- looking ----------------------------------------------------------------------
 * The graph behind y in Graphviz's language, with the names of rg_set_name. */
const char *rg_graph_dot(rg_tensor *y);
bool rg_graph_save(rg_tensor *y, const char *path);

RG_PUBLIC_END

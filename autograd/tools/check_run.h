/*
 * check_run.h: declares rg_check_run, a user's op with the inputs to test it with. Also declares
 * functions that apply the op, and functions that compare two applications (called runs). Only
 * check_run.c, function_check.c and rule_checks.c include this file.
 */
#pragma once

#include "function_parts.h"

/* The op and its inputs. `plain` has contiguous copies of the inputs without history;
 * floating-point inputs are float64. `wanted` is a mask of the inputs that require grad in runs,
 * called the wanted inputs. */
typedef struct rg_check_run {
    rg_function_class *cls;
    const void *args;
    int n, n_out;
    rg_tensor *plain[RG_FUNCTION_INPUTS];
    uint32_t wanted;
    rg_function_check_options options;
} rg_check_run;

/* The outputs of one run, and the gradients of the inputs. A gradient is RG_NONE if it isn't
 * wanted, or if the run didn't compute it. */
typedef struct rg_check_result {
    rg_tensor *y[RG_MAX_OUTPUTS], *g[RG_FUNCTION_INPUTS];
} rg_check_result;

/* The layout of a copy. RG_LAID_PLAIN: contiguous. RG_LAID_STRIDED: with a gap after each element,
 * and with the first and the last dim exchanged in memory. RG_LAID_EXPANDED: one slice is repeated
 * along a dim with stride 0. (A tensor that has no dims, or for RG_LAID_EXPANDED no dim of size 2
 * or more, is copied contiguously.) rgi_layout_text[layout] describes the layout in an error
 * message. */
typedef enum { RG_LAID_PLAIN, RG_LAID_STRIDED, RG_LAID_EXPANDED } rg_check_layout;
extern const char *const rgi_layout_text[];

/* The tolerance with which float64 results are compared (see rgi_check_run_same). Even two right
 * results can differ a little, because terms may be added in another order. */
#define RG_RUNS_SAME 1e-9

static inline bool rgi_check_run_wants(const rg_check_run *s, int i) { return s->wanted >> i & 1; }

/* Fails with an error message that names the class. If memory ran out, keeps that error. */
bool rgi_check_run_wrong(const rg_check_run *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fails with the message of the current error, preceded by `when`. */
bool rgi_check_run_failed(const rg_check_run *s, const char *when);

/* Returns a copy of t without history, in the layout `as`, that requires grad if require_grad is
 * true. If t is RG_NONE, returns RG_NONE. RG_LAID_STRIDED and RG_LAID_EXPANDED require that t is
 * floating point. */
rg_tensor *rgi_check_run_copy(rg_tensor *t, rg_check_layout as, bool require_grad);
/* Stores contiguous copies of all inputs in to[], in which the wanted inputs require grad. Returns
 * false on failure. */
bool rgi_check_run_inputs(const rg_check_run *s, rg_tensor *to[]);
/* Returns the gradient that tests use for y, which is output k: fixed numbers of both signs, with
 * absolute values from 0.3 to 1.3. Returns NULL if memory ran out. */
rg_tensor *rgi_check_run_weights(const rg_tensor *y, int k);

bool rgi_check_run_apply(const rg_check_run *s, rg_tensor *in[], rg_tensor *y[]);
/* Computes the gradients of the wanted inputs, by a backward run from the outputs that have a
 * history. The outputs are in r->y, and the gradients are stored in r->g. given[k] is the gradient
 * of output k. If `given` or given[k] is NULL, output k gets rgi_check_run_weights as its gradient.
 * If `only` isn't negative, only output number `only` gets a gradient. */
bool rgi_check_run_gradients(const rg_check_run *s, rg_tensor *const in[], rg_tensor *const given[],
                             int only, bool create_graph, rg_check_result *r);
/* Applies the op, and computes the gradients. Returns false on failure. */
bool rgi_check_run_forward_backward(const rg_check_run *s, rg_tensor *in[], rg_check_result *r);

/* Returns whether a and b have the same shape and the same values, within the tolerance. Where |b|
 * is above 1, the tolerance is multiplied by |b|. NaN equals NaN. RG_NONE stands for zeros. Also
 * returns false if memory ran out. */
bool rgi_check_run_same(rg_tensor *a, rg_tensor *b, double tolerance);
/* Fails unless the two runs have the same outputs and gradients, within the tolerance. `when`
 * describes run b in the error message. */
bool rgi_check_run_agree(const rg_check_run *s, const rg_check_result *a, const rg_check_result *b,
                         double tolerance, const char *when);

/* ---- rule_checks.c: checks that compare runs under some condition with a plain run ---- */
bool rgi_check_layouts(const rg_check_run *s);
/* Checks that a gradient stays the same if only its input requires grad, and that the gradients are
 * right if only one output gets a gradient. */
bool rgi_check_partly(const rg_check_run *s);
/* rgi_check_backward_writes checks that backward doesn't write to the inputs, the outputs or the
 * gradients of the outputs. rgi_check_inputs_later releases or changes inputs between forward and
 * backward. It checks that backward computes the right gradients after the wanted inputs were
 * released. After a write to an input, backward must either fail or compute the right gradients. */
bool rgi_check_backward_writes(const rg_check_run *s);
bool rgi_check_inputs_later(const rg_check_run *s);
bool rgi_check_replay(const rg_check_run *s);
/* Checks that the op leaks no memory, and that it survives the failure of each allocation in
 * turn. */
bool rgi_check_memory(const rg_check_run *s);

/*
 * check_run.h: a user's op and the inputs to test it with, how to run it, and how to compare
 * two runs. Only check_run.c, function_check.c and rule_checks.c include this file.
 */
#pragma once

#include "function_parts.h"

/* `plain` has contiguous float64 copies of the inputs, without history. `wanted` is a mask of the
 * inputs that require grad. */
typedef struct rg_check_run {
    rg_function_class *cls;
    const void *args;
    int n, n_out;
    rg_tensor *plain[RG_FUNCTION_INPUTS];
    uint32_t wanted;
    rg_function_check_options options;
} rg_check_run;

/* The outputs of a run, and the gradients of the inputs. A gradient that isn't wanted, or that is
 * missing, is RG_NONE. */
typedef struct rg_check_result {
    rg_tensor *y[RG_MAX_OUTPUTS], *g[RG_FUNCTION_INPUTS];
} rg_check_result;

/* The layout of a copy: contiguous; strided, with a gap after each element and the dims in reverse
 * order; or expanded, where one slice along a dim is repeated with stride 0.
 * rgi_layout_text[layout] describes it in an error. */
typedef enum { RG_LAID_PLAIN, RG_LAID_STRIDED, RG_LAID_EXPANDED } rg_check_layout;
extern const char *const rgi_layout_text[];

/* The largest relative difference of equal results in float64: sums may be added in another
 * order. */
#define RG_RUNS_SAME 1e-9

static inline bool rgi_check_run_wants(const rg_check_run *s, int i) { return s->wanted >> i & 1; }

/* Fails with a sentence about the class. */
bool rgi_check_run_wrong(const rg_check_run *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fails with the current error's sentence, after `when`. */
bool rgi_check_run_failed(const rg_check_run *s, const char *when);

/* Returns a copy of t without history. RG_LAID_STRIDED and RG_LAID_EXPANDED require floating
 * point. */
rg_tensor *rgi_check_run_copy(rg_tensor *t, rg_check_layout as, bool require_grad);
/* Makes copies of all inputs. */
bool rgi_check_run_inputs(const rg_check_run *s, rg_tensor *to[]);
/* Returns the gradient of output k for tests: fixed numbers between -1.3 and 1.3, none close to
 * 0. */
rg_tensor *rgi_check_run_weights(const rg_tensor *y, int k);

bool rgi_check_run_apply(const rg_check_run *s, rg_tensor *in[], rg_tensor *y[]);
/* Computes the gradients of the inputs that require grad, from the outputs that have a history.
 * given[k] is the gradient of output k; if given or given[k] is NULL, rgi_check_run_weights makes
 * it. If `only` is 0 or more, only that output gets a gradient. */
bool rgi_check_run_gradients(const rg_check_run *s, rg_tensor *const in[], rg_tensor *const given[],
                             int only, bool create_graph, rg_check_result *r);
/* Applies the op, and computes the gradients. */
bool rgi_check_run_forward_backward(const rg_check_run *s, rg_tensor *in[], rg_check_result *r);

/* Returns whether a and b have the same shape and the same values, within the tolerance relative to
 * values of b larger than 1. RG_NONE stands for zeros. */
bool rgi_check_run_same(rg_tensor *a, rg_tensor *b, double tolerance);
/* Compares two runs, and fails if they differ. `when` describes the second run. */
bool rgi_check_run_agree(const rg_check_run *s, const rg_check_result *a, const rg_check_result *b,
                         double tolerance, const char *when);

/* ---- rule_checks.c: checks of all but values and derivatives ------------------------- */
bool rgi_check_layouts(const rg_check_run *s);
/* Checks gradients of some inputs, and from some outputs. */
bool rgi_check_partly(const rg_check_run *s);
/* Check that the op writes to no tensor of others, and that tensors may be written to or released
 * before backward. */
bool rgi_check_backward_writes(const rg_check_run *s);
bool rgi_check_inputs_later(const rg_check_run *s);
bool rgi_check_replay(const rg_check_run *s);
/* Checks for leaks, and denies each request for memory in turn. */
bool rgi_check_memory(const rg_check_run *s);

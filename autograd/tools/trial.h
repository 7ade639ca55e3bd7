/*
 * trial.h: what function_check.c and promises.c share: a user's op, the inputs to try it with, and
 * how one run of it is compared with another. No other file includes this one.
 */
#pragma once

#include "function_parts.h"

/* `plain` has contiguous float64 copies of the inputs, without history. `wanted` is a mask of the
 * inputs that require grad. */
typedef struct rg_trial {
    rg_function_class *cls;
    const void *args;
    int n, n_out;
    rg_tensor *plain[RG_FUNCTION_INPUTS];
    uint32_t wanted;
    rg_function_check_options options;
} rg_trial;

/* The results of a run: outputs, and gradients of inputs. A gradient that didn't arrive, or wasn't
 * asked for, is RG_NONE. */
typedef struct rg_trial_result {
    rg_tensor *y[RG_MAX_OUTPUTS], *g[RG_FUNCTION_INPUTS];
} rg_trial_result;

/* How a copy lies in memory: without gaps; with another element between any two, and its dims the
 * other way round; or with one slice in place of all those along a dim. rgi_layout_text says so of
 * what comes before it. */
typedef enum { RG_LAID_PLAIN, RG_LAID_STRIDED, RG_LAID_EXPANDED } rg_trial_layout;
extern const char *const rgi_layout_text[];

/* Float64 results of the same numbers may differ by so much, since sums may go in another order. */
#define RG_TRIAL_SAME 1e-9

static inline bool rgi_trial_wants(const rg_trial *s, int i) { return s->wanted >> i & 1; }

/* Fails with a sentence about the class. */
bool rgi_trial_wrong(const rg_trial *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fails with the error that stands, and says when it happened. */
bool rgi_trial_failed(const rg_trial *s, const char *when);

/* Returns a copy of t without history. A layout other than RG_LAID_PLAIN is for floating point. */
rg_tensor *rgi_trial_copy(rg_tensor *t, rg_trial_layout as, bool require_grad);
/* Makes copies of all inputs. */
bool rgi_trial_inputs(const rg_trial *s, rg_tensor *to[]);
/* Returns the gradient of output k: numbers between -1.3 and 1.3, none of them small. */
rg_tensor *rgi_trial_weights(const rg_tensor *y, int k);

bool rgi_trial_apply(const rg_trial *s, rg_tensor *in[], rg_tensor *y[]);
/* Takes the gradients of the inputs that require grad from those outputs that have a history;
 * given[k] is the gradient of output k, or NULL for the usual one. With `only` of 0 or more, only
 * that output counts. */
bool rgi_trial_gradients(const rg_trial *s, rg_tensor *const in[], rg_tensor *const given[],
                         int only, bool create_graph, rg_trial_result *r);
/* Does both. */
bool rgi_trial_run(const rg_trial *s, rg_tensor *in[], rg_trial_result *r);

/* Returns whether a and b have the same shape, and values that differ by no more than the
 * tolerance, relative to those of b that are larger than 1. RG_NONE stands for zeros. */
bool rgi_trial_same(rg_tensor *a, rg_tensor *b, double tolerance);
/* Compares two runs, and fails where they differ; `when` says how the second differs from the
 * first. */
bool rgi_trial_agree(const rg_trial *s, const rg_trial_result *a, const rg_trial_result *b,
                     double tolerance, const char *when);

/* ---- promises.c: what else an op must keep to, beside its values and derivatives ----- */
bool rgi_check_layouts(const rg_trial *s);
/* The gradients of some inputs, from some outputs. */
bool rgi_check_partly(const rg_trial *s);
/* Tensors that aren't the op's own: those that it may not write to, and those that may change or go
 * before backward. */
bool rgi_check_backward_writes(const rg_trial *s);
bool rgi_check_inputs_later(const rg_trial *s);
bool rgi_check_replay(const rg_trial *s);
/* Leaks, and each request for memory denied in turn. */
bool rgi_check_memory(const rg_trial *s);

/*
 * watch.h: how anomaly.c and profile.c look on while ops are applied and gradients computed. They
 * are rare guests, as are hooks on saved tensors (packed.h): while rgi_watching is 0, nothing else
 * here is called.
 */
#pragma once

#include "op.h"

enum { RG_WATCH_VALUES = 1, RG_WATCH_COST = 2, RG_WATCH_SAVED = 4 };
extern atomic_int rgi_watching;

/* ---- anomaly.c: values -------------------------------------------------------------- */
/* Looks at the outputs of an application, and has its node n (or NULL) remember where it was
 * called. False means that an error stands. */
bool rgi_watch_forward(const rg_call *c, rg_node *n);
/* Looks at the gradient g that a step made for that input. */
bool rgi_watch_backward(const rg_step *s, rg_tensor *g, int input);
void rgi_trace_free(void *trace);

/* ---- profile.c: cost ---------------------------------------------------------------- */
/* A timing began at the time `began`. By then calls inside the call around this one had taken the
 * time `outer`. All times are in nanoseconds. */
typedef struct rg_timing {
    double began, outer;
} rg_timing;
void rgi_timing_begin(rg_timing *t);
void rgi_timing_of_call(const rg_timing *t, const rg_call *c);
/* Counts a step's cost; `made` is an RG_IN mask of the gradients that it made itself, not by a
 * rule. */
void rgi_timing_of_step(const rg_timing *t, const rg_step *s, uint32_t made);

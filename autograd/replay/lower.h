/*
 * lower.h: a recorded step as a list of calls of loops.
 */
#pragma once

#include "replay.h"
#include "tensor/kernels/trace.h"

/* A lowered step. `trace` has its calls of loops. The trace's first n regions are the storages of
 * the tensors that the recording holds; the others are temporary blocks. storages[i] is the storage
 * of region i, and computed[i] is set if the region needs no values at the beginning of the step.
 * The two arrays have room for `room` elements. */
typedef struct rg_lowered {
    k_trace trace;
    const rg_storage **storages;
    bool *computed;
    size_t n, room;
} rg_lowered;

/* Lowers the step. `inputs` are the tensors that the program writes to between the steps. To find
 * the calls, repeats the step on the recording's tensors, and gives them their old elements again.
 * Fails and returns false if an operation of the step can't be lowered. */
bool rgi_replay_lower(rg_replay *r, rg_list inputs, rg_lowered *to);
/* Returns the number of the storage's region, or -1 if the step doesn't use the storage. */
int rgi_lowered_region(const rg_lowered *l, const rg_storage *s);
void rgi_lowered_free(rg_lowered *l);

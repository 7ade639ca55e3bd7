/*
 * parts.h: the calls of loops of those operations of a recorded step that can be compiled.
 */
#pragma once

#include "lower.h"

/* The step's operations, and their calls in the loops of the running instruction set. computes[i]
 * is set if a run of entry i does nothing but compute outputs from inputs. is_lowered[i] is set if
 * it does that by its calls alone, and if it is so small that compiling it is worth it. */
typedef struct rg_parts {
    rg_lowered lowered;
    bool *computes, *is_lowered;
    size_t n;
} rg_parts;

/* Lowers those operations of the step that can be lowered. The trace then has the calls of no
 * others. Returns false if memory ran out. */
bool rgi_parts_lower(rg_replay *r, rg_parts *to);

/* Removes the calls of entries that are no longer marked as lowered. */
void rgi_parts_remove_calls(rg_parts *p);

/* Compares ranges of lowered entries with `run`. A range begins at each entry i for which begins[i]
 * is set, and ends before the next entry that isn't lowered or begins a range. Sets equal[i] to
 * whether `run` computes for the range that begins at i what its entries compute, also after the
 * elements of the step's inputs have changed. Runs the other entries that compute, and none else.
 * Gives all tensors their old elements again. Returns false if memory ran out. */
bool rgi_parts_compare(rg_replay *r, const rg_parts *p, const bool begins[], rg_run_range *run,
                       void *context, bool equal[]);
void rgi_parts_free(rg_parts *p);

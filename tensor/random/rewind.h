/*
 * rewind.h: puts random generators back to earlier states, so that a function that draws random
 * numbers can be called a second time with the same draws. Private.
 *
 * A rewind keeps the state that each generator had before the thread first used it between
 * rgi_rewind_begin and rgi_rewind_end. Rewinds may be nested; then the generators that an inner one
 * keeps are kept by the outer ones, too.
 */
#pragma once

#include "tensor/tensor.h"

/* A generator with its earlier state. */
typedef struct rg_rewound rg_rewound;

/* `first` is the list of the generators that were used. `outer` is the rewind around this one. */
typedef struct rg_rewind {
    rg_rewound *first;
    struct rg_rewind *outer;
} rg_rewind;

/* Begins an empty rewind, which stays at its address until its end. */
void rgi_rewind_begin(rg_rewind *r);
/* Ends the rewind that was begun last. It keeps the states until rgi_rewind_release. */
void rgi_rewind_end(rg_rewind *r);
void rgi_rewind_release(rg_rewind *r);

/* Puts the generators back to the states that the rewind keeps. Leaves out those that were freed
 * since. Returns false on failure. */
bool rgi_rewind_generators(const rg_rewind *r);

/* ---- for generator.c ------------------------------------------------------------------ */

/* Keeps the state of g, which must be locked, in the thread's rewinds that don't have it yet.
 * Returns false on failure. */
bool rgi_rewind_note(rg_generator *g);
/* Removes g, which is about to be freed, from the thread's rewinds. */
void rgi_rewind_forget(const rg_generator *g);

/*
 * rewind.h: puts random generators back to earlier states, so that a function that draws random
 * numbers can be called a second time with the same draws. Private.
 *
 * A rewind belongs to a thread. If the thread uses a generator between rgi_rewind_begin and
 * rgi_rewind_end, the rewind keeps the state that the generator had before the first use. Rewinds
 * may be nested; then the outer rewinds also keep the state of each generator that is used in an
 * inner one.
 */
#pragma once

#include "tensor/tensor.h"

/* A generator with its earlier state. */
typedef struct rg_rewound rg_rewound;

/* `first` begins the list of the generators that were used. `outer` is the thread's rewind inside
 * which this one has begun, or NULL if there is none. */
typedef struct rg_rewind {
    rg_rewound *first;
    struct rg_rewind *outer;
} rg_rewind;

/* Begins the rewind *r, which is empty. Requires that *r isn't moved before rgi_rewind_end. */
void rgi_rewind_begin(rg_rewind *r);
/* Ends the rewind, which must be the one that was begun last. The rewind's states stay until
 * rgi_rewind_release. */
void rgi_rewind_end(rg_rewind *r);
void rgi_rewind_release(rg_rewind *r);

/* Puts the generators back to the states that the rewind keeps. Leaves out generators that were
 * freed since. Returns false on failure. Fails if memory runs out. Also fails while a step is being
 * recorded, unless the rewind keeps no state. */
bool rgi_rewind_generators(const rg_rewind *r);

/* ---- functions for generator.c only --------------------------------------------------- */

/* Keeps the state of g, which must be locked, in each rewind of the thread that hasn't ended and
 * has no state of g yet. Returns false if memory ran out. */
bool rgi_rewind_note(rg_generator *g);
/* Removes g, which is about to be freed, from the thread's rewinds that haven't ended. */
void rgi_rewind_forget(const rg_generator *g);

/*
 * internal.h: all headers of tensor/'s rooms at once, for files that don't include
 * each the rooms that it uses.
 */
#pragma once

#include "base.h"
#include "copy.h"
#include "dtype.h"
#include "error.h"
#include "c_locale.h"
#include "memory.h"
#include "parallel.h"
#include "refs.h"
#include "scope.h"
#include "shape.h"
#include "storage.h"
#include "structs.h"
#include "text.h"
#include "thread.h"
#include "walk.h"

#include <locale.h>
#include <stdatomic.h>
#include <string.h>

/* replay.c, while rgi_this.recording; false: the run fails */
typedef bool rg_again(void *context);
struct rg_replay {
    uint64_t id;
    struct rg_replay_entry *entries;
    size_t n, room;
    /* what entries work on; and what rgi_new made, in order */
    rg_tensor **held;
    size_t n_held, held_room;
    /* anew: what is lent was never lent before */
    bool failed, anew;
};
/* room for the context; NULL: the recording has failed */
void *rgi_note(rg_again *run, void (*drop)(void *context), size_t bytes);
void rgi_note_copy(rg_tensor *to, rg_tensor *from); /* NULL: zeros */
void rgi_hold(rg_tensor *t);
/* every run writes to all of t; false: but it was read before */
bool rgi_made_again(rg_tensor *t, const char *op);
/* refuses what a recording can't contain; true: there is none */
bool rgi_not_again(const char *op);
/* A recording's memory goes round: what nobody has any more is lent to what it makes later, as in
 * the step itself. No list of free blocks takes a storage of so many bytes. */
#define RG_LENT ((size_t)1 << 48)
bool rgi_lend_storage(rg_tensor *t, size_t bytes);
/* the step reads it; NULL: there is none yet */
void rgi_lend_anew(const rg_tensor *grad);

/* Is what is done now to be noted? Not while nothing is recorded, nor inside what is noted as a
 * whole. */
static inline bool rgi_noting(void) {
    return RG_UNLIKELY(rgi_this.recording != NULL) && !rgi_this.inside;
}
/* Made by the step that is being recorded, and by nothing that a run does again. */
static inline bool rgi_is_constant(const rg_tensor *t) {
    return RG_UNLIKELY(rgi_this.recording != NULL)
           && t->storage->constant == (uint32_t)rgi_this.recording->id;
}

/*
 * group.h: what the rest of nn/parallel/ asks of the process group. Private. The library is one of
 * its own, which sees of regard what any program sees: failures are rg_fail's, and its memory is
 * that of tensors.
 */
#pragma once

#include "transport.h"

/* A claim says what a rank is about to do. All ranks go on where all claims are the same. */
typedef struct rg_claim {
    char op[32];
    int64_t dtype; /* RG_NO_DTYPE where the rank has no tensor. */
    rg_dims shape;
    int64_t number;    /* A number that must be the same on all ranks. */
    char failure[200]; /* The rank's sentence, where it can't go on. */
} rg_claim;
/* Both return what a rank claims: that it has this tensor, or none; and where it has none though it
 * should, or isn't ok, that it has failed. */
rg_claim rgi_claim_tensor(const char *op, rg_tensor *t, int64_t number);
rg_claim rgi_claim_number(const char *op, bool ok, int64_t number);
/* Returns whether all ranks claim the same, and none has failed; else all of them fail. `what` is
 * how a sentence calls the number. */
bool rgi_all_agree(const rg_claim *mine, const char *what);
/* Returns whether `ok` is true on all ranks; where it isn't, all fail. */
bool rgi_all_ok(const char *op, bool ok);
/* Returns whether there is a group. */
bool rgi_group_given(const char *op);

/* Returns memory of zeros that the scope owns, or NULL. */
void *rgi_scope_room(size_t bytes);
/* Returns memory of zeros, and gives *holder the tensor that it belongs to, which is to be dropped;
 * or returns NULL. */
void *rgi_room(rg_tensor **holder, size_t bytes);
/* Drops it, if there is one. */
void rgi_room_drop(rg_tensor **holder);
size_t rgi_element_size(rg_dtype dtype);

/*
 * group.h: functions on the process group that several files of nn/parallel/ use. Private. The
 * library in this folder uses only public functions of regard. So it sets errors by rg_fail, and
 * allocates memory as tensors.
 */
#pragma once

#include "transport.h"

/* A rank's claim says what the rank is about to do. Before a collective operation the ranks compare
 * their claims, and they go on only if all claims are equal. */
typedef struct rg_claim {
    char op[32];
    int64_t dtype; /* The dtype of the tensor. RG_NO_DTYPE if there is no tensor. */
    rg_dims shape;
    int64_t number;    /* A number that must be the same on all ranks. */
    char failure[200]; /* The error message of this rank, or "" if it hasn't failed. */
} rg_claim;
/* rgi_claim_tensor makes this rank's claim about a tensor, and rgi_claim_number a claim without a
 * tensor. If t is NULL or `ok` is false, the claim says that this rank has failed, with the message
 * of its error. */
rg_claim rgi_claim_tensor(const char *op, rg_tensor *t, int64_t number);
rg_claim rgi_claim_number(const char *op, bool ok, int64_t number);
/* Returns whether all ranks have made the same claim and none has failed. Otherwise fails on all
 * ranks. `what` names the claims' number in the error message. Each rank must call this
 * function. */
bool rgi_all_agree(const rg_claim *mine, const char *what);
/* Returns whether `ok` is true on all ranks. Otherwise fails on all ranks. Each rank must call this
 * function. */
bool rgi_all_ok(const char *op, bool ok);
/* Returns whether the process group has been started. Fails if not. */
bool rgi_group_given(const char *op);

/* Allocates memory that the scope owns, and clears it. Returns NULL on failure. */
void *rgi_scope_room(size_t bytes);
/* Allocates memory and clears it. Sets *holder to a tensor that owns it; rgi_room_drop(holder)
 * frees it. Returns NULL on failure. */
void *rgi_room(rg_tensor **holder, size_t bytes);
/* Frees the memory that the tensor *holder owns. Does nothing if *holder is NULL. */
void rgi_room_drop(rg_tensor **holder);
size_t rgi_element_size(rg_dtype dtype);
/* Returns whether tensors of t's dtype can be summed over ranks. Fails and returns false if they
 * can't. */
bool rgi_group_sums(const char *op, rg_tensor *t);

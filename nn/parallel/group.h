/*
 * group.h: the process group for the other files of nn/parallel/. Private. This library uses only
 * regard's public functions: errors are set by rg_fail, and memory is that of tensors.
 */
#pragma once

#include "transport.h"

/* A claim describes what a rank is about to do. Ranks continue if all claims are equal. */
typedef struct rg_claim {
    char op[32];
    int64_t dtype; /* RG_NO_DTYPE if there is no tensor. */
    rg_dims shape;
    int64_t number;    /* A number that all ranks must share. */
    char failure[200]; /* The rank's error message, or "". */
} rg_claim;
/* A rank's claim about a tensor, and one without a tensor. The claim is a failure if the tensor is
 * NULL, or if `ok` is false. */
rg_claim rgi_claim_tensor(const char *op, rg_tensor *t, int64_t number);
rg_claim rgi_claim_number(const char *op, bool ok, int64_t number);
/* Returns whether all ranks claim the same and none has failed; otherwise all fail. `what` names
 * the number in the error. */
bool rgi_all_agree(const rg_claim *mine, const char *what);
/* Returns whether `ok` is true on all ranks; otherwise all fail. */
bool rgi_all_ok(const char *op, bool ok);
/* Returns whether there is a group; fails if not. */
bool rgi_group_given(const char *op);

/* Returns zeroed memory that the scope owns, or NULL. */
void *rgi_scope_room(size_t bytes);
/* Returns zeroed memory, and sets *holder to the tensor that owns it, for rgi_room_drop; or NULL.
 */
void *rgi_room(rg_tensor **holder, size_t bytes);
/* Frees the memory, if there is any. */
void rgi_room_drop(rg_tensor **holder);
size_t rgi_element_size(rg_dtype dtype);

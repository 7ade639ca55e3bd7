/*
 * saved.h: tables of the saved fields of structs. A row has the field's name, its type in PyTorch's
 * files, and its offset. Optimizers' options, schedules and LBFGS have such tables. Private.
 */
#pragma once

#include "optimizer.h"
#include "tensor/files/torch/torch_value.h"

typedef enum rg_saved_kind {
    RG_SAVED_FLOAT,  /* A double; a float in PyTorch. */
    RG_SAVED_COUNT,  /* A double without a fraction; an int in PyTorch. */
    RG_SAVED_FLAG,   /* A double, 0 or 1; a bool in PyTorch. */
    RG_SAVED_TEXT,   /* A double, 0 or 1; None or the row's name in PyTorch. */
    RG_SAVED_PAIR,   /* The first of two doubles; a tuple in PyTorch. */
    RG_SAVED_TRIPLE, /* The first of three doubles; a tuple in PyTorch. */
    RG_SAVED_BEHIND, /* A further double of a tuple, saved with the first. */
    RG_SAVED_SCALAR, /* A double; a 0-d tensor in PyTorch. */
    RG_SAVED_TENSOR, /* A pointer to a tensor. */
    RG_SAVED_INT,    /* An int64_t; an int in PyTorch. */
    RG_SAVED_BOOL,   /* A bool. */
} rg_saved_kind;

typedef struct rg_saved {
    const char *name;
    rg_saved_kind kind;
    size_t offset;   /* The field's offset in its struct. */
    const char *key; /* PyTorch's key if it isn't `name`, else NULL. */
} rg_saved;

/* Writes the field of the struct at `base`, after its key if `with_key`. A SCALAR is written as a
 * tensor of this dtype. */
void rgi_saved_add(rg_py *p, const rg_saved *row, const void *base, bool with_key, rg_dtype dtype);
/* Returns whether the struct has the field now: a tensor that isn't NULL, or a number that isn't
 * RG_UNSET. */
bool rgi_saved_is_there(const rg_saved *row, const void *base);
/* Sets *number to the value of a dictionary's entry; fails if it isn't a number. */
bool rgi_saved_number(const rg_named *e, double *number, const char *op);
/* Sets *whole to the value of an entry; fails if it isn't an integer. */
bool rgi_saved_whole(const rg_named *e, int64_t *whole, const char *op);
/* Reads an entry into the struct at `base`. Fails like the two functions above. A tensor's pointer
 * is stored without a reference. */
bool rgi_saved_read(const rg_saved *row, void *base, const rg_named *e, const char *op);
/* Returns a contiguous copy of a tensor in this dtype, which the scope owns. Requires that no
 * gradient is recorded. */
rg_tensor *rgi_saved_copy(rg_tensor *t, rg_dtype dtype);
/* Returns the index in a name of a list, such as 2 for "base_lrs.2", or -1 if the name isn't in
 * this list. */
int64_t rgi_place_in_list(const char *name, const char *list);

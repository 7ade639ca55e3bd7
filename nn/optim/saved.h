/*
 * saved.h: fields of structs that files have. A table has a row for each: its name, how PyTorch
 * saves it, and where it lies. Optimizers' options, schedules and LBFGS have such tables. Private.
 */
#pragma once

#include "optimizer.h"
#include "tensor/files/torch/torch_value.h"

typedef enum rg_saved_kind {
    RG_SAVED_FLOAT,  /* A double, which is a float in PyTorch. */
    RG_SAVED_COUNT,  /* A double without a fraction, which is an int in PyTorch. */
    RG_SAVED_FLAG,   /* A double, 0 or 1, which is a bool in PyTorch. */
    RG_SAVED_TEXT,   /* A double, 0 or 1, which is None or the row's name in PyTorch. */
    RG_SAVED_PAIR,   /* The first of two doubles, which are a tuple in PyTorch. */
    RG_SAVED_TRIPLE, /* The first of three such doubles. */
    RG_SAVED_BEHIND, /* Another double of a tuple, which is saved with the first one. */
    RG_SAVED_SCALAR, /* A double, which is a tensor without dims in PyTorch. */
    RG_SAVED_TENSOR, /* A pointer to a tensor. */
    RG_SAVED_INT,    /* An int64_t, which is an int in PyTorch. */
    RG_SAVED_BOOL,   /* A bool. */
} rg_saved_kind;

typedef struct rg_saved {
    const char *name;
    rg_saved_kind kind;
    size_t offset;   /* The field begins at this byte of its struct. */
    const char *key; /* PyTorch's key where it isn't the name, or NULL. */
} rg_saved;

/* Adds the field of the struct at `base`, behind its key if `with_key`. A SCALAR becomes a tensor
 * of this dtype. */
void rgi_saved_add(rg_py *p, const rg_saved *row, const void *base, bool with_key, rg_dtype dtype);
/* Sets *number to the value of an entry of a dictionary, or fails where that is no number. */
bool rgi_saved_number(const rg_named *e, double *number, const char *op);
/* Sets *whole to the value of an entry, or fails where that is no whole number. */
bool rgi_saved_whole(const rg_named *e, int64_t *whole, const char *op);
/* Reads a number of the struct at `base` from an entry. Fails as the two above do. */
bool rgi_saved_read(const rg_saved *row, void *base, const rg_named *e, const char *op);

/*
 * saved.h: describes the fields of structs that are saved to files, and reads and writes them. An
 * rg_saved holds a field's name, the type of its value in PyTorch's files, and its offset in the
 * struct. There are tables of rg_saved for the options of optimizers, for schedules and for LBFGS.
 * Private.
 */
#pragma once

#include "optimizer.h"
#include "tensor/files/torch/torch_value.h"

typedef enum rg_saved_kind {
    RG_SAVED_FLOAT,  /* A double here, a float in PyTorch. */
    RG_SAVED_COUNT,  /* A double here (a whole number), an int in PyTorch. */
    RG_SAVED_FLAG,   /* A double here (0 or 1), a bool in PyTorch. */
    RG_SAVED_TEXT,   /* A double here; in PyTorch None if it is 0, else the string `name`. */
    RG_SAVED_PAIR,   /* The first of two doubles here; together they are a tuple in PyTorch. */
    RG_SAVED_TRIPLE, /* The first of three doubles here; together they are a tuple in PyTorch. */
    RG_SAVED_BEHIND, /* The second or third double of a tuple. It is written with the first one. */
    RG_SAVED_SCALAR, /* A double here, a tensor without dims in PyTorch. */
    RG_SAVED_TENSOR, /* A pointer to a tensor here, a tensor in PyTorch. */
    RG_SAVED_INT,    /* An int64_t here, an int in PyTorch. */
    RG_SAVED_BOOL,   /* An rg_flag here, a bool in PyTorch. */
} rg_saved_kind;

typedef struct rg_saved {
    const char *name;
    rg_saved_kind kind;
    size_t offset;   /* The offset of the field in its struct. */
    const char *key; /* The key in PyTorch's files, or NULL if it is `name`. */
} rg_saved;

/* Writes to p the field that `row` describes, of the struct at `base`. If `with_key`, writes its
 * key first. An RG_SAVED_SCALAR is written as a tensor of `dtype`; other kinds ignore `dtype`. For
 * an RG_SAVED_BEHIND nothing is written. */
void rgi_saved_add(rg_py *p, const rg_saved *row, const void *base, bool with_key, rg_dtype dtype);
/* Returns whether the field has a value: a tensor that isn't NULL, or a double that isn't RG_UNSET.
 * An RG_SAVED_INT or RG_SAVED_BOOL always has one. */
bool rgi_saved_is_there(const rg_saved *row, const void *base);
/* Sets *number to the value of the dictionary entry `e`. Fails unless the value is a tensor with
 * one element. */
bool rgi_saved_number(const rg_named *e, double *number, const char *op);
/* Sets *whole to the value of the dictionary entry `e`. Fails unless the value is a tensor with one
 * element, which is a whole number between -1e15 and 1e15. */
bool rgi_saved_whole(const rg_named *e, int64_t *whole, const char *op);
/* Stores the value of the entry `e` in the field that `row` describes, of the struct at `base`. An
 * RG_SAVED_INT or RG_SAVED_COUNT is read as by rgi_saved_whole, other numbers as by
 * rgi_saved_number; both can fail. If the field is an RG_SAVED_TENSOR, stores the pointer without
 * adding a reference. */
bool rgi_saved_read(const rg_saved *row, void *base, const rg_named *e, const char *op);
/* Returns a contiguous copy of the tensor, converted to this dtype. The scope owns the copy.
 * Returns NULL on failure. Grad mode must be off, so that the copy gets no history. */
rg_tensor *rgi_saved_copy(rg_tensor *t, rg_dtype dtype);
/* Returns the index that follows the name of a list: 2 if `list` is "base_lrs" and `name` is
 * "base_lrs.2". Returns -1 if `name` isn't of this form. */
int64_t rgi_place_in_list(const char *name, const char *list);

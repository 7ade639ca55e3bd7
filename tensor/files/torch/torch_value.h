/*
 * torch_value.h: a Python value of nested dicts and lists, stored as a list of parts. torch_write.c
 * writes such a value to a file. rgi_py_flat turns it into the list of named tensors that
 * rg_torch_load would return for that file. Private.
 */
#pragma once

#include "tensor/files/files.h"

typedef enum {
    /* The beginnings of containers, which end with RG_PY_END. */
    RG_PY_DICT,
    RG_PY_ORDERED_DICT,
    RG_PY_COUNTER,
    RG_PY_LIST,
    RG_PY_TUPLE,
    RG_PY_END,
    /* A key, which comes before each value of a dict. */
    RG_PY_KEY,
    RG_PY_INT_KEY,
    /* Values that aren't containers. */
    RG_PY_TENSOR,
    RG_PY_INT,
    RG_PY_FLOAT,
    RG_PY_BOOL,
    RG_PY_TEXT,
    RG_PY_NONE
} rg_py_kind;

/* The greatest depth of nested containers. */
enum { RG_PY_DEPTH = 16 };

/* A part of a value. The string `text` must live as long as the value. */
typedef struct {
    rg_py_kind kind;
    union {
        const char *text;
        int64_t whole;
        double real;
        rg_tensor *tensor;
    };
} rg_py_part;

/* A value, which is initialised with { 0 }. `failed` is set if memory runs out, or if rgi_py_tensor
 * gets NULL; then nothing more is added. */
typedef struct {
    rg_py_part *v;
    size_t n, room;
    bool failed;
} rg_py;
void rgi_py_free(rg_py *p);

void rgi_py_begin(rg_py *p, rg_py_kind kind);
void rgi_py_end(rg_py *p);
/* Append a value. In a dict, `key` is the key of the value. In a list, `key` must be NULL. An
 * integer key is appended by rgi_py_int_key, and `key` of the next value must then be NULL. *p
 * holds a reference to each tensor until rgi_py_free. */
void rgi_py_begin_at(rg_py *p, const char *key, rg_py_kind kind);
void rgi_py_tensor(rg_py *p, const char *key, rg_tensor *t);
void rgi_py_int(rg_py *p, const char *key, int64_t whole);
void rgi_py_float(rg_py *p, const char *key, double real);
void rgi_py_bool(rg_py *p, const char *key, bool flag);
void rgi_py_text(rg_py *p, const char *key, const char *text);
void rgi_py_none(rg_py *p, const char *key);
void rgi_py_int_key(rg_py *p, int64_t key);

/* Returns the value as the list that rg_torch_load would return for the file that rgi_torch_write
 * makes. The innermost scope owns the list and its tensors. A list with .n == -1 means failure, and
 * then the scope owns no new tensor. */
rg_named_list rgi_py_flat(const rg_py *p);
/* Writes the value to a file, as torch.save would. Returns false on failure. */
bool rgi_torch_write(const char *op, const rg_py *p, const char *path);

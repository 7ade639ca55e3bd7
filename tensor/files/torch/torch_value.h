/*
 * torch_value.h: a value of Python's, in which dicts and lists lie in each other, as a list of its
 * parts: what torch_write.c writes, and the names with dots that rg_torch_load would give it.
 * Private.
 */
#pragma once

#include "tensor/files/files.h"

typedef enum {
    /* Beginnings of containers, which RG_PY_END ends. */
    RG_PY_DICT,
    RG_PY_ORDERED_DICT,
    RG_PY_COUNTER,
    RG_PY_LIST,
    RG_PY_TUPLE,
    RG_PY_END,
    /* In what is a dict, each value stands behind one of these. */
    RG_PY_KEY,
    RG_PY_INT_KEY,
    /* Values by themselves. */
    RG_PY_TENSOR,
    RG_PY_INT,
    RG_PY_FLOAT,
    RG_PY_BOOL,
    RG_PY_TEXT,
    RG_PY_NONE
} rg_py_kind;

/* The greatest number of values around a value. */
enum { RG_PY_DEPTH = 16 };

/* A text must live as long as the value. */
typedef struct {
    rg_py_kind kind;
    union {
        const char *text;
        int64_t whole;
        double real;
        rg_tensor *tensor;
    };
} rg_py_part;

/* It begins as { 0 }; where memory failed it, it takes nothing more. */
typedef struct {
    rg_py_part *v;
    size_t n, room;
    bool failed;
} rg_py;
void rgi_py_free(rg_py *p);

void rgi_py_begin(rg_py *p, rg_py_kind kind);
void rgi_py_end(rg_py *p);
/* Add a value; with a key before it, unless the key is NULL. */
void rgi_py_begin_at(rg_py *p, const char *key, rg_py_kind kind);
void rgi_py_tensor(rg_py *p, const char *key, rg_tensor *t);
void rgi_py_int(rg_py *p, const char *key, int64_t whole);
void rgi_py_float(rg_py *p, const char *key, double real);
void rgi_py_bool(rg_py *p, const char *key, bool flag);
void rgi_py_text(rg_py *p, const char *key, const char *text);
void rgi_py_none(rg_py *p, const char *key);
void rgi_py_int_key(rg_py *p, int64_t key);

/* Returns the value as rg_torch_load would, in a list that the scope owns. */
rg_named_list rgi_py_flat(const rg_py *p);
/* Writes the value as torch.save would. */
bool rgi_torch_write(const char *op, const rg_py *p, const char *path);

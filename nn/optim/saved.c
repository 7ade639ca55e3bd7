/*
 * saved.c: writes fields of structs as values of PyTorch's files, and reads them.
 */
#include "saved.h"

#include "autograd/ops/ops.h"
#include "tensor/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_tuple(rg_py *p, const char *key, int n, const double *numbers) {
    rgi_py_begin_at(p, key, RG_PY_TUPLE);
    for (int i = 0; i < n; i++)
        rgi_py_float(p, NULL, numbers[i]);
    rgi_py_end(p);
}

static void add_text(rg_py *p, const char *key, bool on, const char *text) {
    if (on)
        rgi_py_text(p, key, text);
    else
        rgi_py_none(p, key);
}

static void add_scalar(rg_py *p, const char *key, double number, rg_dtype dtype) {
    RG_SCOPE();
    rgi_py_tensor(p, key, rg_scalar_dtype(number, dtype));
}

void rgi_saved_add(rg_py *p, const rg_saved *row, const void *base, bool with_key, rg_dtype dtype) {
    const void *at = (const char *)base + row->offset;
    const double *number = at;
    const char *key = row->key ? row->key : row->name;
    if (!with_key)
        key = NULL;
    switch (row->kind) {
    case RG_SAVED_FLOAT: rgi_py_float(p, key, *number); break;
    case RG_SAVED_COUNT: rgi_py_int(p, key, (int64_t)*number); break;
    case RG_SAVED_FLAG: rgi_py_bool(p, key, *number != 0); break;
    case RG_SAVED_TEXT: add_text(p, key, *number != 0, row->name); break;
    case RG_SAVED_PAIR: add_tuple(p, key, 2, number); break;
    case RG_SAVED_TRIPLE: add_tuple(p, key, 3, number); break;
    case RG_SAVED_BEHIND: break;
    case RG_SAVED_SCALAR: add_scalar(p, key, *number, dtype); break;
    case RG_SAVED_TENSOR: rgi_py_tensor(p, key, *(rg_tensor *const *)at); break;
    case RG_SAVED_INT: rgi_py_int(p, key, *(const int64_t *)at); break;
    case RG_SAVED_BOOL: rgi_py_bool(p, key, *(const rg_flag *)at); break;
    }
}

bool rgi_saved_is_there(const rg_saved *row, const void *base) {
    const void *at = (const char *)base + row->offset;
    switch (row->kind) {
    case RG_SAVED_TENSOR: return *(rg_tensor *const *)at != NULL;
    case RG_SAVED_INT:
    case RG_SAVED_BOOL: return true;
    default: return *(const double *)at != RG_UNSET;
    }
}

bool rgi_saved_number(const rg_named *e, double *number, const char *op) {
    RG_FAIL_IF(e->tensor == RG_NONE || rg_numel(e->tensor) != 1, op,
               "\"%s\" in state_dict is no number", e->name);
    *number = rg_item(e->tensor);
    return true;
}

bool rgi_saved_whole(const rg_named *e, int64_t *whole, const char *op) {
    double number;
    if (!rgi_saved_number(e, &number, op))
        return false;
    RG_FAIL_IF(number != floor(number) || fabs(number) > 1e15, op,
               "\"%s\" in state_dict is no whole number", e->name);
    *whole = (int64_t)number;
    return true;
}

bool rgi_saved_read(const rg_saved *row, void *base, const rg_named *e, const char *op) {
    void *at = (char *)base + row->offset;
    double number;
    int64_t whole;
    switch (row->kind) {
    case RG_SAVED_INT: return rgi_saved_whole(e, at, op);
    case RG_SAVED_COUNT:
        if (!rgi_saved_whole(e, &whole, op))
            return false;
        *(double *)at = (double)whole;
        return true;
    case RG_SAVED_BOOL:
        if (!rgi_saved_number(e, &number, op))
            return false;
        *(rg_flag *)at = number != 0;
        return true;
    case RG_SAVED_TENSOR: *(rg_tensor **)at = e->tensor; return true;
    default: return rgi_saved_number(e, at, op);
    }
}

rg_tensor *rgi_saved_copy(rg_tensor *t, rg_dtype dtype) {
    return rg_contiguous(rg_to(rg_clone(t), dtype));
}

int64_t rgi_place_in_list(const char *name, const char *list) {
    const size_t n = strlen(list);
    if (strncmp(name, list, n) != 0 || name[n] != '.' || name[n + 1] < '0')
        return -1;
    /* A character below '0' was refused above, because strtoll would skip blanks and accept a
     * sign. */
    char *end;
    const long long place = strtoll(name + n + 1, &end, 10);
    return *end ? -1 : place;
}

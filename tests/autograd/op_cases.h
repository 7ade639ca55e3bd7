/*
 * op_cases.h: reads the cases that ops.py wrote into tests/golden/data/ops/, and layouts.py into
 * tests/golden/data/layouts/: a function, its arguments, and PyTorch's results. The heads of both
 * scripts, in tests/golden/make/, explain the letters of the lines.
 */
#pragma once

#include "regard.h"
#include "tensor/base.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tests/golden.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OP_ARGUMENTS = 16, OP_LIST = 32, OP_OUTPUTS = 32 };

typedef struct op_argument {
    /* The first letter of the argument's line. It names the field below that has the argument: t
     * for a tensor, i for an integer, a bool or a dtype, x for a double, s for a text. */
    char kind;
    rg_tensor *t;
    int64_t i;
    double x;
    rg_dims dims;
    char *s;
    rg_list list;
    rg_tensor *item[OP_LIST];
} op_argument;

typedef struct op_expected_tensor {
    bool none; /* torch has no gradient here. */
    bool view; /* The tensor shares the storage of the first argument. */
    char dtype[8], node[64];
    rg_dims shape, stride; /* Without strides, stride.n is -1. */
    size_t step;    /* Only every step-th value is given. */
    double largest; /* If step > 1, the largest of all values. */
    char *values;
} op_expected_tensor;

typedef struct op_error {
    const char *kind, *text;
} op_error;

typedef struct op_case {
    char function[64];
    int line;
    double factor; /* The usual tolerance is multiplied by this. */
    bool single;   /* An argument has the dtype float32. */
    bool direct;   /* The call writes to the argument itself, not to a clone of it. */
    rg_dtype autocast; /* The dtype of the autocast that is on during the call, or 0. */
    int n_args, n_leaves, n_outs, n_first, n_second;
    op_argument arg[OP_ARGUMENTS];
    rg_tensor *leaf[OP_LIST];
    op_expected_tensor out[OP_OUTPUTS], first[OP_LIST], second[OP_LIST];
    rg_dims *stride; /* The next line of strides is read into this. */
    op_error error, backward_error;
    double largest; /* The largest magnitude of a finite argument, at least 100. */
} op_case;

/* ---- tensors --------------------------------------------------------------------- */

/* ruled_numbers_begin(k) and ruled_numbers_next generate the k-th sequence of small numbers, which
 * fills a tensor row by row. numbers() in ops_cases.py generates the same sequences. */
typedef struct ruled_numbers {
    uint32_t state;
} ruled_numbers;
static ruled_numbers ruled_numbers_begin(unsigned k) { return (ruled_numbers){ k * 7919 + 12345 }; }

static double ruled_numbers_next(ruled_numbers *r) {
    r->state = r->state * 1664525 + 1013904223;
    return ((r->state >> 22) - 511.5) / 512;
}

static rg_tensor *op_cotangent(unsigned k, rg_tensor *like) {
    rg_tensor *t = rg_zeros_dims(rg_shape(like), (rg_dtype)rg_dtype_of(like));
    ruled_numbers r = ruled_numbers_begin(k);
    int64_t n = rg_numel(t);
    for (int64_t i = 0; i < n; i++) {
        double v = ruled_numbers_next(&r);
        const rg_dtype dtype = (rg_dtype)rg_dtype_of(t);
        rgi_store_f64((char *)rg_data(t) + i * (int64_t)rgi_sizeof(dtype), dtype, v);
    }
    return t;
}

/* Returns zeros with these strides, as a view. */
static rg_tensor *op_strided(rg_dims shape, rg_dims stride, rg_dtype dtype) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++)
        n += RG_MAX(shape.v[d] - 1, 0) * stride.v[d];
    rg_tensor *t = rg_expand_dims(rg_select(rg_zeros_dims(RG_DIMS(n), dtype), 0, 0), shape);
    if (!t)
        return NULL;
    memcpy(t->stride, stride.v, (size_t)shape.n * sizeof stride.v[0]);
    rgi_update_flags(t);
    return t;
}

/* Fills t with the values or, if they are "r k", with the k-th sequence of ruled_numbers. */
static void op_fill(rg_tensor *t, op_case *c, bool ruled, char *values) {
    ruled_numbers r = ruled_numbers_begin((unsigned)(ruled ? atoi(values) : 0));
    rg_dims shape = rg_shape(t);
    int64_t n = rg_numel(t);
    char *data = rg_data(t), *p = values;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, left = i;
        for (int d = shape.n - 1; d >= 0; d--) {
            at += left % shape.v[d] * rg_stride(t, d);
            left /= shape.v[d];
        }
        const rg_dtype dtype = (rg_dtype)rg_dtype_of(t);
        if (!rgi_is_float(dtype)) {
            rgi_store_i64(data + at * (int64_t)rgi_sizeof(dtype), dtype, strtoll(p, &p, 10));
            continue;
        }
        double v = ruled ? ruled_numbers_next(&r) : strtod(p, &p);
        if (isfinite(v))
            c->largest = fmax(c->largest, fmin(fabs(v), 100));
        rgi_store_f64(data + at * (int64_t)rgi_sizeof(dtype), dtype, v);
    }
}

static rg_tensor *op_argument_tensor(op_case *c, char *rest) {
    rg_dtype dtype = golden_dtype(golden_word(&rest));
    bool grad = *golden_word(&rest) == 'g';
    c->single |= dtype == RG_FLOAT32;
    rg_dims shape = golden_dims(golden_word(&rest));
    char *strides = golden_word(&rest);
    rg_tensor *t = *strides == 'c' ? rg_zeros_dims(shape, dtype)
                                   : op_strided(shape, golden_dims(strides), dtype);
    if (!t)
        return NULL;
    bool ruled = *golden_word(&rest) == 'r';
    op_fill(t, c, ruled, rest);
    if (grad)
        c->leaf[c->n_leaves++] = rg_requires_grad_(t, true);
    return t;
}

static rg_tensor *op_number(op_case *c, char *rest) {
    char kind = *golden_word(&rest);
    if (kind == 'b')
        return rg_wrap_bool(*rest == '1');
    if (kind == 'i')
        return rg_wrap_int(strtoll(rest, NULL, 10));
    double v = strtod(rest, NULL);
    if (isfinite(v))
        c->largest = fmax(c->largest, fmin(fabs(v), 100));
    return rg_wrap_float(v);
}

/* Reads an expected tensor from the rest of a line, such as "2,3 : 0.5 1 ..". */
static void op_expected(op_expected_tensor *e, char *rest) {
    char *word = golden_word(&rest);
    e->none = *word == '-';
    e->stride.n = -1;
    if (e->none)
        return;
    e->shape = golden_dims(word);
    e->step = 1;
    if (*rest == '/') {
        e->step = (size_t)strtoll(rest + 1, &rest, 10);
        e->largest = strtod(rest, &rest);
    }
    golden_word(&rest);
    e->values = rest;
}

/* ---- cases ------------------------------------------------------------------------ */

static rg_tensor *op_any(op_case *c, char kind, char *rest) {
    if (kind == 't')
        return op_argument_tensor(c, rest);
    return kind == 'n' ? op_number(c, rest) : RG_NONE;
}

/* Reads the first line of a case, such as "softmax x100 direct # OpInfo". */
static void op_read_head(op_case *c, char *words) {
    snprintf(c->function, sizeof c->function, "%s", golden_word(&words));
    c->factor = 1;
    for (char *word = golden_word(&words); *word && *word != '#'; word = golden_word(&words)) {
        if (*word == 'x')
            c->factor = strtod(word + 1, NULL);
        else if (strcmp(word, "direct") == 0)
            c->direct = true;
        else if (strncmp(word, "in=", 3) == 0)
            c->autocast = golden_dtype(word + 3);
    }
}

/* Reads a line of expected results. `kind` is the line's letter: > or v for an output, g for a
 * first gradient, h for a second gradient, ~ for the strides of the tensor in the line before. */
static void op_read_expected(op_case *c, char kind, char *rest) {
    if (kind == '~') {
        *c->stride = golden_dims(rest);
        return;
    }
    if (kind == 'g') {
        c->stride = &c->first[c->n_first].stride;
        op_expected(&c->first[c->n_first++], rest);
        return;
    }
    if (kind == 'h') {
        c->stride = &c->second[c->n_second].stride;
        op_expected(&c->second[c->n_second++], rest);
        return;
    }
    c->stride = &c->out[c->n_outs].stride;
    op_expected_tensor *e = &c->out[c->n_outs++];
    e->view = kind == 'v';
    snprintf(e->dtype, sizeof e->dtype, "%s", golden_word(&rest));
    snprintf(e->node, sizeof e->node, "%s", golden_word(&rest));
    op_expected(e, rest);
}

/* Reads an argument. The items of a list are on the next lines. */
static void op_read_argument(op_case *c, golden_file *f, char kind, char *rest) {
    op_argument *a = &c->arg[c->n_args++];
    a->kind = kind;
    switch (kind) {
    case 'i':
    case 'B': a->i = strtoll(rest, NULL, 10); break;
    case 'x': a->x = strtod(rest, NULL); break;
    case 'L': a->dims = golden_dims(rest); break;
    case 'y':
        a->i = golden_dtype(rest);
        /* A function with "_as" in its name computes in the dtype that is passed to it, even if its
         * tensors are float64. */
        c->single |= a->i == RG_FLOAT32 && strstr(c->function, "_as");
        break;
    case 's': a->s = rest; break;
    case 'l':
        a->list = (rg_list){ atoi(rest), a->item };
        for (int i = 0; i < a->list.n; i++) {
            char *line = golden_line(f);
            a->item[i] = op_any(c, *line, line + 1);
        }
        break;
    default: a->t = op_any(c, kind, rest);
    }
}

/* Reads the next case of the file and makes its tensors in the innermost scope. Returns false if
 * there is none. */
static bool op_case_next(golden_file *f, op_case *c) {
    char *head = golden_case(f);
    if (!head)
        return false;
    memset(c, 0, sizeof *c);
    c->line = f->line;
    op_read_head(c, head);
    while (golden_peek(f) && golden_peek(f) != '=') {
        char *line = golden_line(f);
        char *rest = line + 1 + (line[1] == ' ');
        if (strchr(">vgh~", *line)) {
            op_read_expected(c, *line, rest);
        } else if (*line == '!' || *line == '?') {
            op_error *e = *line == '!' ? &c->error : &c->backward_error;
            e->kind = golden_word(&rest);
            e->text = rest;
        } else {
            op_read_argument(c, f, *line, rest);
        }
    }
    return true;
}

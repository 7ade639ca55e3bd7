/*
 * print_cases.h: reads the cases of print.txt: tensors, given by their bits, and the texts that
 * PyTorch, Python and NumPy print for them. The head of print.py explains the words of a case.
 */
#pragma once

#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <stdio.h>

static const rg_printoptions print_standard = {
    .precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80, .sci_mode = -1
};

typedef struct print_case {
    const char *kind; /* repr, str, numpy or tf. */
    rg_tensor *t;
    rg_dtype default_dtype;
    rg_printoptions options;
    int line;
    const char *text; /* The printed text. */
} print_case;

/* A history for tests. It has only the name of an op, or stands for a leaf. */
typedef struct named_history {
    rg_history base;
    char name[128];
} named_history;

static const char *named_history_name(rg_tensor *t) {
    const char *name = ((const named_history *)t->history)->name;
    return strcmp(name, "leaf") == 0 ? NULL : name;
}

static void named_history_release(rg_history *h) { free(h); }

static const rg_history_class named_history_class = { named_history_name, named_history_release };

static rg_history *named_history_new(const char *name) {
    named_history *h = malloc(sizeof *h);
    h->base.cls = &named_history_class;
    snprintf(h->name, sizeof h->name, "%s", name);
    return &h->base;
}

/* Fills a tensor with the bits of its elements. They are repeated until it is full. */
static void print_case_fill(rg_tensor *t, char *bits) {
    size_t item = rgi_sizeof(t->dtype);
    int64_t n = 0;
    for (char *end; n < t->numel; bits = end, n++) {
        uint64_t v = strtoull(bits, &end, 16);
        if (end == bits)
            break;
        memcpy(t->data + (size_t)n * item, &v, item);
    }
    for (int64_t i = n; i < t->numel; i++)
        memcpy(t->data + (size_t)i * item, t->data + (size_t)(i - n) * item, item);
}

static rg_tensor *print_case_tensor(rg_dtype dtype, rg_dims shape, bool transposed, char *bits) {
    rg_tensor *t = rgi_own(rgi_new(dtype, shape.n, shape.v));
    print_case_fill(t, bits);
    if (transposed) {
        int64_t n = t->size[0], step = t->stride[0];
        t->size[0] = t->size[1];
        t->stride[0] = t->stride[1];
        t->size[1] = n;
        t->stride[1] = step;
        rgi_update_flags(t);
    }
    return t;
}

static int print_case_option(char **words) { return (int)golden_integer(words); }

/* Reads the next case of print.txt, and returns false if there is none. The caller's scope owns the
 * case's tensor. Its texts lie in the file's memory. */
static bool print_case_next(golden_file *f, print_case *c) {
    char *words = golden_case(f);
    if (!words)
        return false;
    c->line = f->line;
    c->kind = golden_word(&words);
    rg_dtype dtype = golden_dtype(golden_word(&words));
    c->default_dtype = golden_dtype(golden_word(&words));
    const char *history = golden_word(&words);
    c->options.precision = print_case_option(&words);
    c->options.threshold = print_case_option(&words);
    c->options.edgeitems = print_case_option(&words);
    c->options.linewidth = print_case_option(&words);
    c->options.sci_mode = print_case_option(&words);
    bool transposed = *golden_word(&words) == 'T';
    rg_dims shape = golden_dims(golden_word(&words));
    c->t = print_case_tensor(dtype, shape, transposed, golden_field(f, ':'));
    if (strcmp(history, "-") != 0)
        c->t->history = named_history_new(history);
    c->text = golden_text(f);
    return true;
}

static void print_reset(void) {
    rg_set_printoptions_with(print_standard);
    rg_set_default_dtype(RG_FLOAT32);
}

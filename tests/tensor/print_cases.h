/*
 * print_cases.h: reads the cases that tests/golden/print.py made: tensors by
 * their bits, and the text that PyTorch, Python and NumPy make of them.
 */
#pragma once

#include "tests/test.h"
#include "tensor/internal.h"

#include <stdio.h>

static const rg_printoptions print_standard = { 4, 1000, 3, 80, -1 };

typedef struct print_case {
    char kind[16];
    rg_tensor *t;
    rg_dtype default_dtype;
    rg_printoptions options;
    int line;
    char text[1 << 20];
} print_case;

/* A past that knows only its name, or is a leaf's. */
typedef struct named_history {
    rg_history base;
    char name[128];
} named_history;

static const char *named_history_name(const rg_history *h) {
    const char *name = ((const named_history *)h)->name;
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

static rg_dtype print_case_dtype(const char *name) {
    return name[0] == 'b'   ? RG_BOOL
           : name[0] == 'i' ? RG_INT64
           : name[1] == '3' ? RG_FLOAT32
                            : RG_FLOAT64;
}

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

static rg_tensor *print_case_tensor(rg_dtype dtype, char *shape, const char *flags, char *bits) {
    int64_t size[RG_MAX_DIMS];
    int ndim = 0;
    if (*shape != '.')
        for (char *s = strtok(shape, ","); s; s = strtok(NULL, ","))
            size[ndim++] = atoll(s);
    rg_tensor *t = rgi_own(rgi_new(dtype, ndim, size));
    print_case_fill(t, bits);
    if (strchr(flags, 'T')) {
        int64_t n = t->size[0], step = t->stride[0];
        t->size[0] = t->size[1];
        t->stride[0] = t->stride[1];
        t->size[1] = n;
        t->stride[1] = step;
        rgi_update_flags(t);
    }
    return t;
}

/* The next case of the file, or false; its tensor belongs to the caller's scope. */
static bool print_case_next(FILE *f, print_case *c) {
    static char line[1 << 16];
    static int at;
    if (ftell(f) == 0)
        at = 0;
    if (!fgets(line, sizeof line, f))
        return false;
    char dtype[8], def[8], grad[128], flags[8], shape[64];
    int bits = 0;
    rg_printoptions *o = &c->options;
    int got = sscanf(line, "%15s %7s %7s %127s %d %d %d %d %d %7s %63s :%n", c->kind, dtype, def,
                     grad, &o->precision, &o->threshold, &o->edgeitems, &o->linewidth, &o->sci_mode,
                     flags, shape, &bits);
    ck_assert_int_eq(got, 11);
    c->line = ++at;
    c->default_dtype = print_case_dtype(def);
    c->t = print_case_tensor(print_case_dtype(dtype), shape, flags, line + bits);
    if (strcmp(grad, "-") != 0)
        c->t->history = named_history_new(grad);

    size_t n = 0;
    for (int ch = fgetc(f);; ch = fgetc(f)) {
        if (ch != '>') {
            if (ch != EOF)
                ungetc(ch, f);
            break;
        }
        if (n)
            c->text[n++] = '\n';
        ck_assert_ptr_nonnull(fgets(c->text + n, (int)(sizeof c->text - n), f));
        n += strlen(c->text + n) - 1;
        at++;
    }
    c->text[n] = 0;
    return true;
}

static void print_reset(void) {
    rg_set_printoptions(print_standard);
    rg_set_default_dtype(RG_FLOAT32);
}

static FILE *print_cases_open(void) {
    const char *path = getenv("REGARD_PRINT_CASES");
    FILE *f = fopen(path ? path : "tests/golden/print.txt", "r");
    ck_assert_msg(f != NULL,
                  "no cases of tests/golden/print.py: run the tests from the top folder");
    return f;
}

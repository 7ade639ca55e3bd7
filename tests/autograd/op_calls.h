/*
 * op_calls.h: calls every public function of autograd/ops/ops.h with the arguments of a golden
 * case, by the table in golden.def.
 */
#pragma once

#include "op_cases.h"

typedef struct op_result {
    int n; /* The number of tensors; -1 means that the call failed. */
    rg_tensor *t[OP_OUTPUTS];
    bool list; /* The tensors are in a list, which has memory of its own. */
} op_result;
typedef struct op_call {
    const char *name;
    op_result (*call)(const op_argument *a);
} op_call;

#define T(k)    a[k].t
#define I(k)    (int)a[k].i
#define L(k)    a[k].i
#define X(k)    a[k].x
#define D(k)    a[k].dims
#define Y(k)    (rg_dtype) a[k].i
#define S(k)    a[k].s
#define LIST(k) a[k].list

static op_result op_one(rg_tensor *t) { return (op_result){ .n = t ? 1 : -1, .t = { t } }; }

static op_result op_pair(rg_values_indices r) {
    return (op_result){ .n = r.values && r.indices ? 2 : -1, .t = { r.values, r.indices } };
}

static op_result op_three(rg_unique_result r) {
    return (op_result){ .n = r.values && r.inverse && r.counts ? 3 : -1,
                        .t = { r.values, r.inverse, r.counts } };
}

static op_result op_many(rg_list list) {
    op_result r = { .n = list.n, .list = true };
    for (int i = 0; i < list.n && i < OP_OUTPUTS; i++)
        r.t[i] = list.v[i];
    return r;
}

static op_result op_whole(int64_t number) {
    return rg_error_code() ? op_one(NULL) : op_one(rg_scalar_dtype((double)number, RG_INT64));
}

static int op_count_items(const op_argument *a) {
    int n = 0;
    while (a[n].kind)
        n++;
    return n;
}

static rg_item_index op_item(const op_argument *a) {
    switch (a->kind) {
    case 's': return rg_index_text(a->s);
    case 'B': return rg_index_bool(a->i != 0);
    case 'i': return rg_index_number(a->i);
    default: return rg_index_tensor(a->t);
    }
}

static const rg_item_index *op_items(const op_argument *a) {
    static rg_item_index items[OP_ARGUMENTS];
    for (int i = 0; a[i].kind; i++)
        items[i] = op_item(&a[i]);
    return items;
}

#define ITEMS(k) op_count_items(a + k), op_items(a + k)
#define LOSS_OPTIONS                                                                               \
    (rg_loss_options) {                                                                            \
        .reduction = (rg_reduction)I(2), .weight = T(3), .pos_weight = T(4), .ignore_index = L(5), \
        .label_smoothing = X(6), .beta = X(7), .delta = X(8), .log_target = I(9)                   \
    }

#define CONV_OPTIONS                                                                  \
    (rg_conv_options) {                                                               \
        .stride = 1, .padding = L(4), .dilation = 1, .groups = L(7), .strides = D(3), \
        .paddings = D(5), .dilations = D(6)                                           \
    }
#define MAX_POOL_OPTIONS                                                                          \
    (rg_max_pool_options) {                                                                       \
        .stride = RG_KERNEL, .dilation = 1, .ceil_mode = I(5), .strides = D(2), .paddings = D(3), \
        .dilations = D(4)                                                                         \
    }
#define AVG_POOL_OPTIONS                                                               \
    (rg_avg_pool_options) {                                                            \
        .stride = RG_KERNEL, .ceil_mode = I(4), .count_include_pad = I(5),             \
        .divisor_override = L(6) ? L(6) : RG_WINDOW, .strides = D(2), .paddings = D(3) \
    }
#define MARGIN_OPTIONS(type, k) \
    (type) { .reduction = (rg_reduction)I(k), .margin = X(k + 1) }

#define ONE(name)                 TENSOR(name, T(0))
#define TWO(name)                 TENSOR(name, T(0), T(1))
#define VALUES_INDICES(name, ...) GOLDEN(name, op_pair, __VA_ARGS__)
#define TENSOR(name, ...)         GOLDEN(name, op_one, __VA_ARGS__)
#define TENSORS(name, ...)        GOLDEN(name, op_many, __VA_ARGS__)
#define UNIQUE(name, ...)         GOLDEN(name, op_three, __VA_ARGS__)
#define NUMBER(name, ...)         GOLDEN(name, op_whole, __VA_ARGS__)

#define GOLDEN(name, result, ...) \
    static op_result call_##name(const op_argument *a) { return result((rg_##name)(__VA_ARGS__)); }
#include "golden.def"
#undef GOLDEN

static const op_call op_calls[] = {
#define GOLDEN(name, result, ...) { #name, call_##name },
#include "golden.def"
};

/* Calls the function with the arguments of the case, under its autocast. */
static inline op_result op_called(const op_call *f, const op_case *c) {
    RG_AUTOCAST(c->autocast ? c->autocast : RG_BFLOAT16, .enabled = c->autocast != 0);
    return f->call(c->arg);
}

/* ---- functions that the command line names ------------------------------------------------- */

static char **op_named;
static int op_n_named;

/* Notes the arguments of main, which name functions. */
static void op_note_named(int argc, char **argv) {
    op_n_named = argc - 1;
    op_named = argv + 1;
}

/* Returns whether the function is named, or none is. */
static bool op_is_asked(const op_call *f) {
    bool asked = op_n_named == 0;
    for (int i = 0; i < op_n_named; i++)
        asked |= strcmp(op_named[i], f->name) == 0;
    return asked;
}

/*
 * trace_structs.c: describes the structs that loops read, a row for each field.
 */
#include "trace_structs.h"
#include "lanes.h"
#include "plans.h"
#include "reduce.h"

/* The kind of a field is found by its type; an enum is an unsigned int, and any other type is an
 * address. */
#define KIND(type, field)                \
    _Generic(((type *)0)->field, int64_t \
             : K_INT64, size_t           \
             : K_INT64, int              \
             : K_INT, unsigned           \
             : K_INT, bool               \
             : K_BOOL, double            \
             : K_DOUBLE, default         \
             : K_PLACE)
#define ROW(type, field, kind, n, of) \
    { kind, offsetof(type, field), sizeof(((type *)0)->field) / (n), n, of },

/* A number or the address of elements; n whole numbers; the address of a struct; n structs
 * inside this one; the address of a loop. */
#define FIELD(type, field)        ROW(type, field, KIND(type, field), 1, NULL)
#define WHOLES(type, field, n)    ROW(type, field, K_INT64, n, NULL)
#define POINTS(type, field, of)   ROW(type, field, K_PLACE, 1, of)
#define PARTS(type, field, n, of) ROW(type, field, K_BEGIN, n, of)
#define CALLS(type, field)        ROW(type, field, K_FUNCTION, 1, NULL)

#define STRUCT(name, type, list) const k_struct name = { type, RG_COUNT(list), list };

static const k_field number_fields[] = { { K_DOUBLE, 0, sizeof(double), 1, NULL },
                                         { K_DOUBLE, sizeof(double), sizeof(double), 1, NULL },
                                         { K_DOUBLE, 2 * sizeof(double), sizeof(double), 1,
                                           NULL } };
STRUCT(k_numbers_struct, "double", number_fields)

static const k_field step_fields[] = { { K_INT64, 0, sizeof(int64_t), 1, NULL } };
STRUCT(k_step_struct, "int64_t", step_fields)

static const k_field reduce_block_fields[] = {
    FIELD(reduce_block, n0) FIELD(reduce_block, step0) FIELD(reduce_block, n1)
        FIELD(reduce_block, step1) FIELD(reduce_block, y_step) FIELD(reduce_block, context)
};
STRUCT(k_reduce_block_struct, "const reduce_block", reduce_block_fields)

static const k_field product_sizes_fields[] = {
    FIELD(k_product_sizes, m) FIELD(k_product_sizes, n) FIELD(k_product_sizes, k)
        FIELD(k_product_sizes, y_row) FIELD(k_product_sizes, y_col) FIELD(k_product_sizes, a_row)
            FIELD(k_product_sizes, a_col) FIELD(k_product_sizes, b_row)
                FIELD(k_product_sizes, b_col) FIELD(k_product_sizes, c_row)
};
STRUCT(k_product_sizes_struct, "const k_product_sizes", product_sizes_fields)

static const k_field loss_context_fields[] = { FIELD(k_loss_context, kind) FIELD(k_loss_context, c)
                                                   FIELD(k_loss_context, scale) };
STRUCT(k_loss_context_struct, "const k_loss_context", loss_context_fields)

static const k_field softmax_rows_fields[] = { FIELD(softmax_rows, n) FIELD(softmax_rows, step)
                                                   FIELD(softmax_rows, kind)
                                                       FIELD(softmax_rows, last)
                                                           FIELD(softmax_rows, stream) };
STRUCT(k_softmax_rows_struct, "const softmax_rows", softmax_rows_fields)

static const k_field nll_rows_fields[] = {
    FIELD(k_nll_rows, y) FIELD(k_nll_rows, shifts) FIELD(k_nll_rows, x) FIELD(k_nll_rows, g)
        FIELD(k_nll_rows, own_g) FIELD(k_nll_rows, target) FIELD(k_nll_rows, weight)
            FIELD(k_nll_rows, weight_step) FIELD(k_nll_rows, classes) FIELD(k_nll_rows, inner)
                FIELD(k_nll_rows, ignore) FIELD(k_nll_rows, total)
};
STRUCT(k_nll_rows_struct, "const k_nll_rows", nll_rows_fields)

static const k_field norm_rows_fields[] = { FIELD(k_norm_rows, rows) FIELD(k_norm_rows, n)
                                                FIELD(k_norm_rows, groups) FIELD(k_norm_rows, per)
                                                    FIELD(k_norm_rows, eps)
                                                        FIELD(k_norm_rows, centred) };
static STRUCT(norm_rows_struct, "const k_norm_rows", norm_rows_fields)

    static const k_field norm_work_fields[] = {
        POINTS(norm_work, z, &norm_rows_struct) FIELD(norm_work, y) FIELD(norm_work, x)
            FIELD(norm_work, weight) FIELD(norm_work, bias) FIELD(norm_work, stream)
    };
STRUCT(k_norm_work_struct, "norm_work", norm_work_fields)

static const k_field norm_slopes_fields[] = {
    POINTS(norm_slopes, z, &norm_rows_struct) FIELD(norm_slopes, gx) FIELD(norm_slopes, gweight)
        FIELD(norm_slopes, gbias) FIELD(norm_slopes, g) FIELD(norm_slopes, x)
            FIELD(norm_slopes, weight) FIELD(norm_slopes, grain) FIELD(norm_slopes, stream)
};
STRUCT(k_norm_slopes_struct, "norm_slopes", norm_slopes_fields)

static const k_field batch_norm_fields[] = { FIELD(k_batch_norm, batch) FIELD(
    k_batch_norm, channels) FIELD(k_batch_norm, per) FIELD(k_batch_norm, eps)
                                                 FIELD(k_batch_norm, training) };
static STRUCT(batch_norm_struct, "const k_batch_norm", batch_norm_fields)

    static const k_field batch_work_fields[] = {
        POINTS(batch_work, z, &batch_norm_struct) FIELD(batch_work, y) FIELD(batch_work, gweight)
            FIELD(batch_work, gbias) FIELD(batch_work, x) FIELD(batch_work, g)
                FIELD(batch_work, weight) FIELD(batch_work, bias) FIELD(batch_work, mean)
                    FIELD(batch_work, var) FIELD(batch_work, mean_made) FIELD(batch_work, var_made)
    };
STRUCT(k_batch_work_struct, "batch_work", batch_work_fields)

static const k_field attention_operand_fields[] = {
    FIELD(attention_operand, data) FIELD(attention_operand, item) FIELD(attention_operand, head)
        FIELD(attention_operand, row) FIELD(attention_operand, col) FIELD(attention_operand, size)
};
static STRUCT(attention_operand_struct, "attention_operand", attention_operand_fields)

    static const k_field attention_plan_fields[] = {
        PARTS(attention_plan, in, 3, &attention_operand_struct) PARTS(attention_plan, gin, 3,
                                                                      &attention_operand_struct)
            PARTS(attention_plan, y, 1, &attention_operand_struct) PARTS(attention_plan, g, 1,
                                                                         &attention_operand_struct)
                PARTS(attention_plan, mask, 1, &attention_operand_struct) FIELD(attention_plan, lse)
                    FIELD(attention_plan, g_lse) FIELD(attention_plan, queries)
                        FIELD(attention_plan, keys) FIELD(attention_plan, heads)
                            FIELD(attention_plan, tiles) FIELD(attention_plan, all_heads)
                                FIELD(attention_plan, scale) FIELD(attention_plan, causal)
                                    CALLS(attention_plan, product) CALLS(attention_plan, turn)
                                        FIELD(attention_plan, room) FIELD(attention_plan, bytes)
    };
STRUCT(k_attention_plan_struct, "attention_plan", attention_plan_fields)

/*
 * trace_structs.c: describes the structs that loops read, a row for each field.
 */
#include "trace_structs.h"
#include "lanes.h"
#include "plans.h"
#include "reduce.h"

/* clang-format would put several types and several fields in a line. */
/* clang-format off */

/* The kind of a field, which is found by its type. An enum is an unsigned int. A field of any other
 * type than these is an address. */
#define KIND(type, field)           \
    _Generic(((type *)0)->field,    \
        int64_t: K_INT64,           \
        size_t: K_INT64,            \
        int: K_INT,                 \
        unsigned: K_INT,            \
        bool: K_BOOL,               \
        double: K_DOUBLE,           \
        default: K_PLACE)

#define ROW(type, field, kind, n, of) \
    { kind, offsetof(type, field), sizeof(((type *)0)->field) / (n), n, of }

/* The rows for fields. FIELD is a number or the address of elements, WHOLES an array of n whole
 * numbers, POINTS the address of a struct, PARTS an array of n structs inside this one, UNUSED an
 * address that is noted as NULL, and CALLS the address of a loop. */
#define FIELD(type, field)        ROW(type, field, KIND(type, field), 1, NULL)
#define WHOLES(type, field, n)    ROW(type, field, K_INT64, n, NULL)
#define POINTS(type, field, of)   ROW(type, field, K_PLACE, 1, of)
#define PARTS(type, field, n, of) ROW(type, field, K_BEGIN, n, of)
#define UNUSED(type, field)       ROW(type, field, K_NULL, 1, NULL)
#define CALLS(type, field)        ROW(type, field, K_FUNCTION, 1, NULL)

/* The description of a struct, whose type in C is `type`, by its list of fields. */
#define STRUCT(type, fields) \
    { type, RG_COUNT(fields), fields }

static const k_field number_fields[] = {
    { K_DOUBLE, 0, sizeof(double), 1, NULL },
    { K_DOUBLE, sizeof(double), sizeof(double), 1, NULL },
    { K_DOUBLE, 2 * sizeof(double), sizeof(double), 1, NULL },
};
const k_struct k_numbers_struct = STRUCT("double", number_fields);

static const k_field step_fields[] = {
    { K_INT64, 0, sizeof(int64_t), 1, NULL },
};
const k_struct k_step_struct = STRUCT("int64_t", step_fields);

static const k_field clearing_fields[] = {
    FIELD(clearing, to),
};
const k_struct k_clearing_struct = STRUCT("clearing", clearing_fields);

static const k_field reduce_block_fields[] = {
    FIELD(reduce_block, n0),
    FIELD(reduce_block, step0),
    FIELD(reduce_block, n1),
    FIELD(reduce_block, step1),
    FIELD(reduce_block, y_step),
    FIELD(reduce_block, context),
};
const k_struct k_reduce_block_struct = STRUCT("const reduce_block", reduce_block_fields);

static const k_field product_sizes_fields[] = {
    FIELD(k_product_sizes, m),
    FIELD(k_product_sizes, n),
    FIELD(k_product_sizes, k),
    FIELD(k_product_sizes, y_row),
    FIELD(k_product_sizes, y_col),
    FIELD(k_product_sizes, a_row),
    FIELD(k_product_sizes, a_col),
    FIELD(k_product_sizes, b_row),
    FIELD(k_product_sizes, b_col),
    FIELD(k_product_sizes, c_row),
};
const k_struct k_product_sizes_struct = STRUCT("const k_product_sizes", product_sizes_fields);

static const k_field loss_context_fields[] = {
    FIELD(k_loss_context, kind),
    FIELD(k_loss_context, c),
    FIELD(k_loss_context, scale),
};
const k_struct k_loss_context_struct = STRUCT("const k_loss_context", loss_context_fields);

static const k_field softmax_rows_fields[] = {
    FIELD(softmax_rows, n),
    FIELD(softmax_rows, step),
    FIELD(softmax_rows, kind),
    FIELD(softmax_rows, last),
    FIELD(softmax_rows, stream),
};
const k_struct k_softmax_rows_struct = STRUCT("const softmax_rows", softmax_rows_fields);

static const k_field nll_rows_fields[] = {
    FIELD(k_nll_rows, y),
    FIELD(k_nll_rows, shifts),
    FIELD(k_nll_rows, x),
    FIELD(k_nll_rows, g),
    FIELD(k_nll_rows, own_g),
    FIELD(k_nll_rows, target),
    FIELD(k_nll_rows, weight),
    FIELD(k_nll_rows, weight_step),
    FIELD(k_nll_rows, classes),
    FIELD(k_nll_rows, inner),
    FIELD(k_nll_rows, ignore),
    FIELD(k_nll_rows, total),
};
const k_struct k_nll_rows_struct = STRUCT("const k_nll_rows", nll_rows_fields);

static const k_field norm_rows_fields[] = {
    FIELD(k_norm_rows, rows),
    FIELD(k_norm_rows, n),
    FIELD(k_norm_rows, groups),
    FIELD(k_norm_rows, per),
    FIELD(k_norm_rows, eps),
    FIELD(k_norm_rows, centred),
};
static const k_struct norm_rows_struct = STRUCT("const k_norm_rows", norm_rows_fields);

static const k_field norm_work_fields[] = {
    POINTS(norm_work, z, &norm_rows_struct),
    FIELD(norm_work, y),
    FIELD(norm_work, x),
    FIELD(norm_work, weight),
    FIELD(norm_work, bias),
    FIELD(norm_work, stream),
};
const k_struct k_norm_work_struct = STRUCT("norm_work", norm_work_fields);

static const k_field norm_slopes_fields[] = {
    POINTS(norm_slopes, z, &norm_rows_struct),
    FIELD(norm_slopes, gx),
    FIELD(norm_slopes, gweight),
    FIELD(norm_slopes, gbias),
    FIELD(norm_slopes, g),
    FIELD(norm_slopes, x),
    FIELD(norm_slopes, weight),
    FIELD(norm_slopes, grain),
    FIELD(norm_slopes, stream),
};
const k_struct k_norm_slopes_struct = STRUCT("norm_slopes", norm_slopes_fields);

static const k_field batch_norm_fields[] = {
    FIELD(k_batch_norm, batch),
    FIELD( k_batch_norm, channels),
    FIELD(k_batch_norm, per),
    FIELD(k_batch_norm, eps),
    FIELD(k_batch_norm, training),
};
static const k_struct batch_norm_struct = STRUCT("const k_batch_norm", batch_norm_fields);

static const k_field batch_work_fields[] = {
    POINTS(batch_work, z, &batch_norm_struct),
    FIELD(batch_work, y),
    FIELD(batch_work, gweight),
    FIELD(batch_work, gbias),
    FIELD(batch_work, x),
    FIELD(batch_work, g),
    FIELD(batch_work, weight),
    FIELD(batch_work, bias),
    FIELD(batch_work, mean),
    FIELD(batch_work, var),
    FIELD(batch_work, mean_made),
    FIELD(batch_work, var_made),
};
const k_struct k_batch_work_struct = STRUCT("batch_work", batch_work_fields);

static const k_field attention_operand_fields[] = {
    FIELD(attention_operand, data),
    FIELD(attention_operand, item),
    FIELD(attention_operand, head),
    FIELD(attention_operand, row),
    FIELD(attention_operand, col),
    FIELD(attention_operand, size),
};
static const k_struct attention_operand_struct =
    STRUCT("attention_operand", attention_operand_fields);

static const k_field attention_plan_fields[] = {
    PARTS(attention_plan, in, 3, &attention_operand_struct),
    PARTS(attention_plan, gin, 3, &attention_operand_struct),
    PARTS(attention_plan, y, 1, &attention_operand_struct),
    PARTS(attention_plan, g, 1, &attention_operand_struct),
    PARTS(attention_plan, mask, 1, &attention_operand_struct),
    FIELD(attention_plan, lse),
    FIELD(attention_plan, g_lse),
    FIELD(attention_plan, queries),
    FIELD(attention_plan, keys),
    FIELD(attention_plan, heads),
    FIELD(attention_plan, tiles),
    FIELD(attention_plan, all_heads),
    FIELD(attention_plan, scale),
    FIELD(attention_plan, causal),
    CALLS(attention_plan, product),
    CALLS(attention_plan, turn),
    FIELD(attention_plan, room),
    FIELD(attention_plan, bytes),
};
const k_struct k_attention_plan_struct = STRUCT("attention_plan", attention_plan_fields);

static const k_field window_fields[] = {
    WHOLES(k_window, size, 2),
    WHOLES(k_window, to, 2),
    WHOLES(k_window, kernel, 2),
    WHOLES(k_window, stride, 2),
    WHOLES(k_window, padding, 2),
    WHOLES(k_window, dilation, 2),
};
static const k_struct window_struct = STRUCT("k_window", window_fields);

static const k_field conv_fields[] = {
    FIELD(k_conv, batch),
    FIELD(k_conv, groups),
    FIELD(k_conv, in),
    FIELD(k_conv, out),
    PARTS(k_conv, window, 1, &window_struct),
};
static const k_struct conv_struct = STRUCT("const k_conv", conv_fields);

static const k_field conv_plan_fields[] = {
    POINTS(conv_plan, z, &conv_struct),
    FIELD(conv_plan, y),
    FIELD(conv_plan, x),
    FIELD(conv_plan, w),
    FIELD(conv_plan, bias),
    FIELD(conv_plan, taps),
    FIELD(conv_plan, terms),
    FIELD(conv_plan, pixels),
    FIELD(conv_plan, stretch),
    FIELD(conv_plan, stretches),
    FIELD(conv_plan, rows),
    FIELD(conv_plan, width),
    FIELD(conv_plan, plane),
    FIELD(conv_plan, at),
    FIELD(conv_plan, channels),
    FIELD(conv_plan, blocks),
    FIELD(conv_plan, shares),
    FIELD(conv_plan, wide),
    CALLS(conv_plan, product),
    CALLS(conv_plan, turn),
    FIELD(conv_plan, room),
    FIELD(conv_plan, bytes),
};
const k_struct k_conv_plan_struct = STRUCT("conv_plan", conv_plan_fields);

static const k_field conv_whole_fields[] = {
    POINTS(conv_whole, z, &conv_struct),
    FIELD(conv_whole, y),
    FIELD(conv_whole, x),
    FIELD(conv_whole, w),
    FIELD(conv_whole, bias),
};
const k_struct k_conv_whole_struct = STRUCT("conv_whole", conv_whole_fields);

static const k_field conv_turning_fields[] = {
    CALLS(conv_turning, turn),
    FIELD(conv_turning, to),
    FIELD(conv_turning, from),
    FIELD(conv_turning, to_group),
    FIELD(conv_turning, from_group),
    FIELD(conv_turning, to_row),
    FIELD(conv_turning, row),
    FIELD(conv_turning, col),
    FIELD(conv_turning, n),
    FIELD(conv_turning, k),
};
const k_struct k_conv_turning_struct = STRUCT("conv_turning", conv_turning_fields);

static const k_field conv_taps_fields[] = {
    POINTS(conv_taps, z, &conv_struct),
    FIELD(conv_taps, to),
    FIELD(conv_taps, from),
};
const k_struct k_conv_taps_struct = STRUCT("conv_taps", conv_taps_fields);

static const k_field pool_fields[] = {
    FIELD(k_pool, planes),
    PARTS(k_pool, window, 1, &window_struct),
    FIELD(k_pool, adaptive),
    FIELD(k_pool, count_padding),
    FIELD(k_pool, divisor),
};
static const k_struct pool_struct = STRUCT("const k_pool", pool_fields);

static const k_field pool_work_fields[] = {
    POINTS(pool_work, p, &pool_struct),
    FIELD(pool_work, y),
    FIELD(pool_work, x),
    FIELD(pool_work, indices),
};
const k_struct k_pool_work_struct = STRUCT("pool_work", pool_work_fields);

static const k_field recurrent_fields[] = {
    FIELD(k_recurrent, kind),
    FIELD(k_recurrent, steps),
    FIELD(k_recurrent, batch),
    FIELD(k_recurrent, hidden),
    FIELD(k_recurrent, from),
    FIELD(k_recurrent, reverse),
};
static const k_struct recurrent_struct = STRUCT("const k_recurrent", recurrent_fields);

static const k_field recur_plan_fields[] = {
    POINTS(recur_plan, z, &recurrent_struct),
    FIELD(recur_plan, gates_in),
    FIELD(recur_plan, bias),
    FIELD(recur_plan, h_0),
    FIELD(recur_plan, c_0),
    FIELD(recur_plan, weight),
    FIELD(recur_plan, y),
    FIELD(recur_plan, c),
    FIELD(recur_plan, gates),
    FIELD(recur_plan, g_y),
    FIELD(recur_plan, g_c),
    FIELD(recur_plan, g_in),
    FIELD(recur_plan, g_hidden),
    FIELD(recur_plan, g_h_0),
    FIELD(recur_plan, g_c_0),
    FIELD(recur_plan, gates_wide),
    FIELD(recur_plan, from_wide),
    CALLS(recur_plan, product),
    FIELD(recur_plan, room),
    FIELD(recur_plan, bytes),
};
const k_struct k_recur_plan_struct = STRUCT("recur_plan", recur_plan_fields);

static const k_field distance_fields[] = {
    FIELD(distance_context, rows),
    FIELD(distance_context, others),
    FIELD(distance_context, n),
    FIELD(distance_context, p),
    FIELD(distance_context, turned),
    FIELD(distance_context, a),
    FIELD(distance_context, b),
    FIELD(distance_context, g),
    FIELD(distance_context, y),
    FIELD(distance_context, to),
};
const k_struct k_distance_struct = STRUCT("distance_context", distance_fields);

static const k_field cumulate_along_fields[] = {
    FIELD(cumulate_along, n),
    WHOLES(cumulate_along, step, 3),
};
const k_struct k_cumulate_along_struct = STRUCT("const cumulate_along", cumulate_along_fields);

static const k_field place_context_fields[] = {
    FIELD(place_context, values),
    FIELD(place_context, indices),
    FIELD(place_context, smallest),
};
static const k_struct place_context_struct = STRUCT("const place_context", place_context_fields);

static const k_field place_block_fields[] = {
    FIELD(reduce_block, n0),
    FIELD(reduce_block, step0),
    FIELD(reduce_block, n1),
    FIELD(reduce_block, step1),
    FIELD(reduce_block, y_step),
    POINTS(reduce_block, context, &place_context_struct),
};
const k_struct k_place_block_struct = STRUCT("const reduce_block", place_block_fields);

static const k_field sort_fields[] = {
    FIELD(sort_context, room),
    CALLS(sort_context, rank),
    FIELD(sort_context, n),
    FIELD(sort_context, k),
    WHOLES(sort_context, step, 3),
    FIELD(sort_context, bytes),
    FIELD(sort_context, descending),
    FIELD(sort_context, sorted),
    FIELD(sort_context, top),
};
const k_struct k_sort_struct = STRUCT("const sort_context", sort_fields);

static const k_field select_fields[] = {
    FIELD(select_context, room),
    CALLS(select_context, rank),
    FIELD(select_context, n),
    FIELD(select_context, k),
    WHOLES(select_context, step, 3),
    FIELD(select_context, bytes),
    FIELD(select_context, floats),
};
const k_struct k_select_struct = STRUCT("const select_context", select_fields);

static const k_field triangle_fields[] = {
    FIELD(triangle_rows, y),
    FIELD(triangle_rows, rows),
    FIELD(triangle_rows, columns),
    FIELD(triangle_rows, bytes),
    FIELD(triangle_rows, diagonal),
    FIELD(triangle_rows, above),
};
const k_struct k_triangle_struct = STRUCT("triangle_rows", triangle_fields);

static const k_field pad_positions_fields[] = {
    FIELD(pad_positions, to),
    FIELD(pad_positions, n),
    FIELD(pad_positions, left),
    FIELD(pad_positions, right),
    FIELD(pad_positions, kind),
};
const k_struct k_pad_positions_struct = STRUCT("pad_positions", pad_positions_fields);

static const k_field index_dim_fields[] = {
    FIELD(k_index_dim, dim),
    FIELD(k_index_dim, size),
    FIELD(k_index_dim, stride),
    UNUSED(k_index_dim, bad),
};
const k_struct k_index_dim_struct = STRUCT("const k_index_dim", index_dim_fields);

/* clang-format on */

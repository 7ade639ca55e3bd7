/*
 * trace_structs.h: the fields of the structs and arrays that loops read, for trace.c.
 */
#pragma once

#include "trace.h"

typedef struct k_struct k_struct;

/* A field of `count` elements, each of `size` bytes. Its kind is one of k_value_kind: K_PLACE is an
 * address, of a struct if `of` isn't NULL; K_BEGIN is a struct inside the struct; and K_NULL is a
 * pointer that is always noted as NULL. */
typedef struct k_field {
    k_value_kind kind;
    short offset, size, count;
    const k_struct *of;
} k_field;

/* The name of a C type and its n fields, in their order. The loop's argument is a pointer to this
 * type. */
struct k_struct {
    const char *type;
    int n;
    const k_field *fields;
};

extern const k_struct k_numbers_struct, k_step_struct, k_reduce_block_struct;
extern const k_struct k_product_sizes_struct, k_loss_context_struct, k_softmax_rows_struct;
extern const k_struct k_nll_rows_struct, k_norm_work_struct, k_norm_slopes_struct;
extern const k_struct k_batch_work_struct, k_attention_plan_struct;
extern const k_struct k_clearing_struct;
extern const k_struct k_conv_plan_struct;
extern const k_struct k_conv_whole_struct;
extern const k_struct k_conv_turning_struct;
extern const k_struct k_conv_taps_struct;
extern const k_struct k_pool_work_struct;
extern const k_struct k_recur_plan_struct;
extern const k_struct k_distance_struct;
extern const k_struct k_cumulate_along_struct;
extern const k_struct k_place_block_struct;
extern const k_struct k_sort_struct;
extern const k_struct k_select_struct;
extern const k_struct k_triangle_struct;
extern const k_struct k_pad_positions_struct;
extern const k_struct k_index_dim_struct;

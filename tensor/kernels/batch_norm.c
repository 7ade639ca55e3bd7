/*
 * batch_norm.c: batch norm of contiguous tensors of shape (batch, channels, per): each image of the
 * batch has `per` elements in each channel. loops/batch_norm.h computes the tasks; a task is
 * BATCH_CHANNELS channels.
 */
#include "plans.h"

#include <math.h>

/* BATCH_CHANNELS is the number of channels of a task. BATCH_LANES is the number of partial sums
 * into which each sum is split. */
enum { BATCH_CHANNELS = 16, BATCH_LANES = 16 };

#define K_LOOPS "loops/batch_norm.h"
#define K_TYPES_FLOATS
#include "sets.h"

static char *batch_data(const rg_tensor *t) { return t ? t->data : NULL; }

static bool batch_run(const k_batch_norm *z, rg_work *loop, batch_work *work) {
    const int64_t parts = (z->channels + BATCH_CHANNELS - 1) / BATCH_CHANNELS;
    const int64_t elements = z->batch * z->per * BATCH_CHANNELS;
    const int64_t grain = RG_MAX(1, RG_LARGE / 4 / RG_MAX(1, elements));
    if (loop && parts)
        rgi_parallel(parts, grain, rgi_workers(parts, grain), loop, work);
    return loop;
}

bool k_batch_normalize(const k_batch_norm *z, rg_tensor *y, rg_tensor *mean, rg_tensor *var,
                       const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias) {
    static rg_work *const batch_forward_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(batch_forward);
    batch_work work = { .z = z,
                        .y = y->data,
                        .x = x->data,
                        .weight = batch_data(weight),
                        .bias = batch_data(bias),
                        .mean = mean->data,
                        .var = var->data,
                        .mean_made = mean->data,
                        .var_made = var->data };
    return batch_run(z, K_LOOP_OF(batch_forward_loops, y->dtype, "batch_norm"), &work);
}

bool k_batch_normalize_backward(const k_batch_norm *z, rg_tensor *gx, rg_tensor *gweight,
                                rg_tensor *gbias, const rg_tensor *g, const rg_tensor *x,
                                const rg_tensor *weight, const rg_tensor *mean,
                                const rg_tensor *var) {
    static rg_work *const batch_backward_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(batch_backward);
    batch_work work = { .z = z,
                        .y = batch_data(gx),
                        .gweight = batch_data(gweight),
                        .gbias = batch_data(gbias),
                        .g = g->data,
                        .x = x->data,
                        .weight = batch_data(weight),
                        .mean = mean->data,
                        .var = var->data };
    return batch_run(z, K_LOOP_OF(batch_backward_loops, g->dtype, "batch_norm"), &work);
}

/*
 * batch_norm.c: BatchNorm1d and BatchNorm2d. The running mean, the running variance and the number
 * of batches are buffers. (The norms without buffers are in norm.c.)
 */
#include "layers.h"
#include "tensor/text/python_text.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/observer.h"
#include "tensor/structs.h"

#include <stdio.h>

/* Counts one more batch, and returns the weight that this batch gets in the running mean and
 * variance: the momentum or, if the momentum is NAN, 1 / number of batches. Returns NaN on
 * failure. */
static double batch_norm_momentum(rg_batch_norm_module *self) {
    RG_NO_GRAD();
    RG_SCOPE();
    const bool averages = isnan(self->o.momentum);
    if (averages
        && !rgi_may_do_once_or("batch_norm", ", since the batches that it has seen are counted; "
                                             "give it a momentum other than NAN"))
        return NAN;
    if (!rg_add_(self->num_batches_tracked, 1))
        return NAN;
    if (!averages)
        return self->o.momentum;
    return 1 / rg_item(self->num_batches_tracked);
}

static rg_tensor *batch_norm_module_forward(rg_module *m, rg_tensor *x) {
    rg_batch_norm_module *self = (rg_batch_norm_module *)m;
    if (!rgi_check(x, m->cls->name))
        return NULL;
    const bool tracks = self->running_mean != RG_NONE;
    const bool updates = m->training && tracks && self->o.track_running_stats;
    const bool fits = self->dims == 1 ? x->ndim == 2 || x->ndim == 3 : x->ndim == 4;
    RG_FAIL_VALUE_IF(!fits, NULL, "expected %s input (got %dD input)",
                     self->dims == 1 ? "2D or 3D" : "4D", x->ndim);
    rg_batch_norm_options o = { .weight = self->weight,
                                .bias = self->bias,
                                .training = m->training || !tracks,
                                .momentum = 0,
                                .eps = self->o.eps };
    if (updates) {
        o.momentum = batch_norm_momentum(self);
        if (isnan(o.momentum))
            return NULL;
    }
    if (m->training && !updates)
        return rg_batch_norm_with(x, RG_NONE, RG_NONE, o);
    return rg_batch_norm_with(x, self->running_mean, self->running_var, o);
}

static void batch_norm_module_repr(rg_module *m, char *text, size_t room) {
    rg_batch_norm_module *self = (rg_batch_norm_module *)m;
    const rg_batch_norm_module_options *o = &self->o;
    int at = snprintf(text, room, "%lld, eps=%s", (long long)self->num_features,
                      rgi_python_float(o->eps));
    at += snprintf(text + at, room - (size_t)at, ", momentum=%s",
                   isnan(o->momentum) ? "None" : rgi_python_float(o->momentum));
    snprintf(text + at, room - (size_t)at, ", affine=%s, bias=%s, track_running_stats=%s",
             rgi_python_bool(o->affine), rgi_python_bool(self->bias != RG_NONE),
             rgi_python_bool(o->track_running_stats));
}

static const rg_module_class batch_norm1d_module_class = { .name = "BatchNorm1d",
                                                           .forward = batch_norm_module_forward,
                                                           .extra_repr = batch_norm_module_repr };
static const rg_module_class batch_norm2d_module_class = { .name = "BatchNorm2d",
                                                           .forward = batch_norm_module_forward,
                                                           .extra_repr = batch_norm_module_repr };

static rg_batch_norm_module *batch_norm_new(const rg_module_class *cls, int dims, int64_t n,
                                            rg_batch_norm_module_options o) {
    RG_AS(cls->name);
    RG_SCOPE();
    const bool tracks = o.track_running_stats;
    rg_batch_norm_module *self = RG_MODULE(rg_batch_norm_module, cls, .dims = dims,
                                           .num_features = n, .o = o);
    RG_PARAMETER(self, weight, o.affine ? rg_ones(n) : RG_NONE);
    RG_PARAMETER(self, bias, o.affine && o.bias ? rg_zeros(n) : RG_NONE);
    RG_BUFFER(self, running_mean, tracks ? rg_zeros(n) : RG_NONE);
    RG_BUFFER(self, running_var, tracks ? rg_ones(n) : RG_NONE);
    RG_BUFFER(self, num_batches_tracked,
              tracks ? rg_zeros_dims((rg_dims){ 0 }, RG_INT64) : RG_NONE);
    rg_entry *count = self ? rgi_entry_named(&self->base, "num_batches_tracked") : NULL;
    if (count)
        count->optional = true;
    return RG_READY(self);
}

rg_batch_norm_module *(rg_nn_batch_norm1d_with)(int64_t n, rg_batch_norm_module_options o) {
    return batch_norm_new(&batch_norm1d_module_class, 1, n, o);
}

rg_batch_norm_module *(rg_nn_batch_norm2d_with)(int64_t n, rg_batch_norm_module_options o) {
    return batch_norm_new(&batch_norm2d_module_class, 2, n, o);
}

/*
 * embedding.c: Embedding, a table of rows that are looked up by index.
 */
#include "layers.h"
#include "undrawn.h"
#include "tensor/text/python_text.h"
#include "tensor/error.h"

#include <stdio.h>

static rg_tensor *embedding_module_forward(rg_module *m, rg_tensor *index) {
    rg_embedding_module *self = (rg_embedding_module *)m;
    return rg_embedding(index, self->weight, .padding_idx = self->padding_idx,
                        .max_norm = self->max_norm, .norm_type = self->norm_type,
                        .scale_grad_by_freq = self->scale_grad_by_freq);
}

/* Writes the module's repr. Options are shown only if they differ from torch's defaults. */
static void embedding_module_repr(rg_module *m, char *text, size_t room) {
    rg_embedding_module *self = (rg_embedding_module *)m;
    int at = snprintf(text, room, "%lld, %lld", (long long)self->num_embeddings,
                      (long long)self->embedding_dim);
    if (self->padding_idx != INT64_MIN)
        at += snprintf(text + at, room - (size_t)at, ", padding_idx=%lld",
                       (long long)self->padding_idx);
    if (self->max_norm != 0)
        at += snprintf(text + at, room - (size_t)at, ", max_norm=%s",
                       rgi_python_float(self->max_norm));
    if (self->norm_type != 2)
        at += snprintf(text + at, room - (size_t)at, ", norm_type=%s",
                       rgi_python_float(self->norm_type));
    if (self->scale_grad_by_freq)
        snprintf(text + at, room - (size_t)at, ", scale_grad_by_freq=True");
}

static const rg_module_class embedding_module_class = { .name = "Embedding",
                                                        .forward = embedding_module_forward,
                                                        .extra_repr = embedding_module_repr };

/* Draws the table from N(0, 1). If padding_idx is given, then sets that row to zero, as torch
 * does. */
rg_embedding_module *(rg_nn_embedding_with)(int64_t n, int64_t dim, rg_embedding_options o) {
    RG_AS("Embedding");
    RG_SCOPE();
    bool padded = o.padding_idx != INT64_MIN;
    RG_FAIL_VALUE_IF(padded && (o.padding_idx >= n || o.padding_idx < -n), "Embedding",
                     "Padding_idx must be within num_embeddings");
    if (padded && o.padding_idx < 0)
        o.padding_idx += n;
    rg_embedding_module *self =
        RG_MODULE(rg_embedding_module, &embedding_module_class, .num_embeddings = n,
                  .embedding_dim = dim, .padding_idx = o.padding_idx, .max_norm = o.max_norm,
                  .norm_type = o.norm_type, .scale_grad_by_freq = o.scale_grad_by_freq);
    rg_tensor *table = rgi_undrawn ? rg_empty(n, dim) : rg_randn(n, dim);
    if (padded && !rg_zero_(rg_select(table, 0, o.padding_idx)))
        table = NULL;
    RG_PARAMETER(self, weight, table);
    return RG_READY(self);
}

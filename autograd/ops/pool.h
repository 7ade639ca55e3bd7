/*
 * pool.h: the sizes of windows, and what torch says of them. Pooling is in pool.c; torch's
 * sentences are in pool_torch.c.
 */
#pragma once

#include "autograd/op.h"

/* Each of these makes the sizes of windows over a tensor of planes, or fails with torch's
 * sentence. The adaptive ones complete `size` where a dim is to stay as it is. */
bool rgi_max_pool_sizes(const char *name, const rg_tensor *x, const rg_dims *kernel,
                        const rg_max_pool_options *o, k_pool *p);
bool rgi_avg_pool_sizes(const char *name, const rg_tensor *x, const rg_dims *kernel,
                        const rg_avg_pool_options *o, k_pool *p);
bool rgi_adaptive_avg_pool_sizes(const char *name, const rg_tensor *x, rg_dims *size, k_pool *p);
bool rgi_adaptive_max_pool_sizes(const char *name, const rg_tensor *x, rg_dims *size, k_pool *p);

/* Returns whether x may be pooled over one dim; else fails with torch's sentence. */
bool rgi_pool_allows_row(const char *name, const rg_tensor *x);
/* Returns whether torch's max_pool1d without indices takes these; else fails with its sentence. */
bool rgi_max_pool1d_allows(const rg_tensor *x, const rg_dims *kernel, const rg_max_pool_options *o);
/* Returns whether no dim but the batch of `batched` dims is empty; else fails likewise. */
bool rgi_adaptive_pool_sees(const char *name, const rg_tensor *x, int dims);

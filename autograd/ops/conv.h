/*
 * conv.h: the options of a convolution, and what torch says of convolutions. The convolutions are
 * in conv.c; torch's sentences are in conv_torch.c.
 */
#pragma once

#include "autograd/op.h"

/* Options for one or two dims. `more` is the padding at the far end of a dim less that at the near
 * end, which differ where padding is "same". */
typedef struct conv_options {
    int64_t stride[2], padding[2], dilation[2], more[2], groups;
} conv_options;

/* Returns whether x may be a batch, or one of it, and the bias has its dtype; else fails with
 * torch's sentence. */
bool rgi_conv_allows_rank(const char *name, int dims, const rg_tensor *x, const rg_tensor *bias);
/* Makes *o of what was given. Fails with torch's sentence where a list has the wrong length, or
 * where padding can't be "same". */
bool rgi_conv_options(const char *name, int dims, const rg_tensor *x, const rg_tensor *weight,
                      const rg_conv_options *given, conv_options *o);
/* Returns whether a batch x can be convolved; else fails with torch's sentence. */
bool rgi_conv_allows(const char *name, int dims, const rg_tensor *x, const rg_tensor *weight,
                     const rg_tensor *bias, const conv_options *o);
/* Returns the sizes of a convolution that is allowed. */
k_conv rgi_conv_sizes(const rg_tensor *x, const rg_tensor *weight, const conv_options *o, int dims);

/*
 * sampling.h: draws tokens from logits, in the ways that Hugging Face's transformers knows.
 *
 *     rg_tensor *token = rg_sample_logits(logits, .temperature = 0.8, .top_p = 0.95);
 */
#pragma once

#include "../../autograd/ops/ops.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_sample_options {
    RG_BY_NAME;
    /* The number by which the logits are divided. A negative number is an error. If it is 0, the
     * most likely token is always chosen. */
    double temperature RG_DEFAULT(1);
    /* Draw only from the top_k most likely tokens. 0 means all tokens. */
    int64_t top_k RG_DEFAULT(0);
    /* Draw only from the most likely tokens whose probabilities together reach top_p. */
    double top_p RG_DEFAULT(1);
    /* Draw only tokens whose probability is at least min_p times that of the most likely token. */
    double min_p RG_DEFAULT(0);
    /* The logit of each token in `previous`, an int64 tensor (batch, n) or (n), is divided by this
     * number if it is positive, and multiplied by it otherwise. */
    double repetition_penalty RG_DEFAULT(1);
    rg_tensor *previous       RG_DEFAULT(RG_NONE);
    /* The source of random numbers. NULL means the default generator. */
    rg_generator *generator RG_DEFAULT(0);
} rg_sample_options;
/* Draws a token from each row of the logits, (batch, vocabulary) or (vocabulary), and returns them
 * as int64, (batch, 1) or (1). The options are applied in this order: repetition_penalty,
 * temperature, top_k, top_p, min_p. The most likely token can always be drawn. Logits of 16 bits
 * are converted to float32 first. */
rg_tensor *rg_sample_logits_with(rg_tensor *logits, rg_sample_options o);
#define rg_sample_logits(logits, ...)                                                         \
    rg_sample_logits_with(logits,                                                             \
                          RG_KEYWORDS(rg_sample_options,                                      \
                                      (.temperature = 1, .top_p = 1, .repetition_penalty = 1, \
                                       .previous = RG_NONE),                                  \
                                      __VA_ARGS__))

RG_PUBLIC_END

/*
 * optim.h: the steps of optimizers, each in one pass over parameter, gradient and state; and
 * averages of parameters.
 */
#pragma once

#include "sets.h"

typedef enum k_optimizer {
    K_SGD,
    K_ADAM,
    K_RMSPROP,
    K_ADAGRAD,
    K_LION,
    K_NADAM,
    K_RADAM,
    K_MUON,
    K_MUON_UPDATE,
    K_ROUND_TO_BFLOAT16,
    K_COMBINE_TO_BFLOAT16,
    K_LERP,
    K_MEAN
} k_optimizer;

/* The numbers of one step. Where something "enters" a mean, the rest of the mean is
 * "kept". */
typedef struct k_optimizer_numbers {
    /* The gradient is multiplied by this: -1 to go up the gradient (maximize), else 1. */
    double sign;
    /* The share of the parameter that is added to the gradient, and in Lion to the update. */
    double weight_decay;
    /* The update is multiplied by this: minus the learning rate, which some optimizers correct. */
    double rate;
    union {
        /* t[2], where there is a momentum, is its buffer. */
        struct {
            double momentum; /* The share of the buffer that is kept. */
            double entering; /* The share of the gradient that enters: 1 - dampening. */
            bool first;      /* The buffer doesn't count yet and becomes the gradient. */
            bool nesterov;
            bool has_buffer;
        } sgd;
        /* t[2] is the gradient's mean, t[3] the mean of its square, t[4], with amsgrad, the
         * greatest that this has been. */
        struct {
            double mean_entering;                /* 1 - beta1 */
            double square_kept, square_entering; /* beta2, 1 - beta2 */
            double root_correction;              /* sqrt(1 - beta2^step) */
            double eps;
            double shrink; /* The parameter is multiplied by this: AdamW's 1 - lr weight_decay. */
            bool amsgrad;
        } adam;
        /* t[2] is the mean of the gradient's square. After it comes, with a momentum, its buffer,
         * and then, if centered, the gradient's mean. */
        struct {
            double square_kept, square_entering; /* alpha, 1 - alpha */
            double momentum;
            double eps;
            bool has_buffer, centered;
        } rmsprop;
        /* t[2] is the sum of the gradient's squares. */
        struct {
            double eps;
        } adagrad;
        /* t[2] is the gradient's mean. */
        struct {
            double update_kept, update_entering; /* beta1, 1 - beta1: the mean whose sign counts */
            double mean_kept, mean_entering;     /* beta2, 1 - beta2: the mean that stays */
        } lion;
        /* t[2] is the gradient's mean, t[3] the mean of its square. */
        struct {
            double mean_entering;                /* 1 - beta1 */
            double square_kept, square_entering; /* beta2, 1 - beta2 */
            double square_correction;            /* 1 - beta2^step */
            double eps;
            double gradient_rate, mean_rate; /* The factors of both in the parameter. */
            double shrink;                   /* The parameter is multiplied by this. */
        } nadam;
        struct {
            double mean_entering, mean_correction; /* 1 - beta1, 1 - beta1^step */
            double square_kept, square_entering;   /* beta2, 1 - beta2 */
            double root_correction;                /* sqrt(1 - beta2^step) */
            double rectification;
            double eps;
            double shrink;
            bool rectified; /* The step is divided by the square's root. */
        } radam;
        /* t[2] is the buffer, and t[3] the orthogonal update. The first step of that is
         * K_MUON_UPDATE's, whose t[0] becomes the update, rounded to bfloat16; it leaves the buffer
         * as it is. */
        struct {
            double entering, momentum; /* 1 - momentum, momentum */
            double shrink;
            bool nesterov;
        } muon;
        /* K_ROUND_TO_BFLOAT16 rounds t[0], and K_COMBINE_TO_BFLOAT16 makes it
         * alpha t[0] + beta t[1], rounded. */
        struct {
            double alpha, beta;
        } combined;
        /* K_LERP lets so much of t[1] enter t[0], and K_MEAN makes t[0] the mean of `count`
         * tensors, the last of which is t[1]. */
        struct {
            double entering, count;
        } averaged;
    };
} k_optimizer_numbers;

/* Works on n elements that lie side by side: at[0] is the parameter, at[1] its gradient, at[2] ..
 * its state. */
typedef void k_optimizer_loop(char *const at[], int64_t n, const k_optimizer_numbers *z);
/* Returns the loop of this dtype, or NULL if there is none. */
k_optimizer_loop *k_optimizer_loop_of(k_optimizer which, rg_dtype dtype);

/* Moves the parameter t[0] by its gradient t[1], and brings its state, t[2] .. t[n - 1], up to
 * date. Requires that all have the parameter's shape, and the loop's dtype. */
void k_optimizer_step(k_optimizer_loop *loop, int n, rg_tensor *const t[],
                      const k_optimizer_numbers *z);

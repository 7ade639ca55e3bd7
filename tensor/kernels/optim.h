/*
 * optim.h: the steps of optimizers, each in one pass over parameter, gradient and state, and
 * averages of parameters.
 */
#pragma once

#include "tensor/tensor.h"

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

/* The numbers of one step. In a moving average, average = kept * average + entering * x. */
typedef struct k_optimizer_numbers {
    /* The factor of the gradient: -1 to go up the gradient (maximize), else 1. */
    double sign;
    /* The factor of the parameter that is added to the gradient, and in Lion to the update. */
    double weight_decay;
    /* The factor of the update: minus the learning rate, which some optimizers correct. */
    double rate;
    union {
        /* SGD. t[2] is the momentum's buffer, if has_buffer. */
        struct {
            double momentum; /* The factor of the buffer that is kept. */
            double entering; /* The factor of the gradient: 1 - dampening. */
            bool first;      /* The buffer becomes the gradient. */
            bool nesterov;
            bool has_buffer;
        } sgd;
        /* Adam and AdamW. t[2] is the mean of the gradient, t[3] the mean of its square, and t[4],
         * with amsgrad, the greatest value of t[3]. */
        struct {
            double mean_entering;                /* 1 - beta1 */
            double square_kept, square_entering; /* beta2, 1 - beta2 */
            double root_correction;              /* sqrt(1 - beta2^step) */
            double eps;
            double shrink; /* The factor of the parameter: AdamW's 1 - lr weight_decay. */
            bool amsgrad;
        } adam;
        /* RMSprop. t[2] is the mean of the gradient's square. Behind it are, if has_buffer, the
         * momentum's buffer, and then, if centered, the mean of the gradient. */
        struct {
            double square_kept, square_entering; /* alpha, 1 - alpha */
            double momentum;
            double eps;
            bool has_buffer, centered;
        } rmsprop;
        /* Adagrad. t[2] is the sum of the gradient's squares. */
        struct {
            double eps;
        } adagrad;
        /* Lion. t[2] is the mean of the gradient. */
        struct {
            /* beta1, 1 - beta1: for the mean whose sign is the update */
            double update_kept, update_entering;
            double mean_kept, mean_entering; /* beta2, 1 - beta2: for the mean that is stored */
        } lion;
        /* NAdam. t[2] is the mean of the gradient, and t[3] the mean of its square. */
        struct {
            double mean_entering;                /* 1 - beta1 */
            double square_kept, square_entering; /* beta2, 1 - beta2 */
            double square_correction;            /* 1 - beta2^step */
            double eps;
            /* The factors of the gradient and of the mean in the update. */
            double gradient_rate, mean_rate;
            double shrink; /* The factor of the parameter. */
        } nadam;
        /* RAdam. t[2] is the mean of the gradient, and t[3] the mean of its square. */
        struct {
            double mean_entering, mean_correction; /* 1 - beta1, 1 - beta1^step */
            double square_kept, square_entering;   /* beta2, 1 - beta2 */
            double root_correction;                /* sqrt(1 - beta2^step) */
            double rectification;
            double eps;
            double shrink;
            bool rectified; /* The update is divided by the root of the square. */
        } radam;
        /* Muon. t[2] is the buffer, and t[3] the orthogonalised update. K_MUON_UPDATE writes the
         * update before that to t[0], rounded to bfloat16, and doesn't change the buffer. */
        struct {
            double entering, momentum; /* 1 - momentum, momentum */
            double shrink;
            bool nesterov;
        } muon;
        /* K_ROUND_TO_BFLOAT16 rounds t[0]. K_COMBINE_TO_BFLOAT16 sets t[0] to alpha t[0] + beta
         * t[1], rounded. */
        struct {
            double alpha, beta;
        } combined;
        /* K_LERP sets t[0] to t[0] + entering (t[1] - t[0]). K_MEAN sets t[0] to the mean of
         * `count` tensors, of which t[1] is the last and t[0] the mean of the others. */
        struct {
            double entering, count;
        } averaged;
    };
} k_optimizer_numbers;

/* Runs a step for n contiguous elements: at[0] is the parameter, at[1] its gradient, and at[2] and
 * on its state. */
typedef void k_optimizer_loop(char *const at[], int64_t n, const k_optimizer_numbers *z);
/* Returns the loop of this dtype, or NULL if there is none. */
k_optimizer_loop *k_optimizer_loop_of(k_optimizer which, rg_dtype dtype);

/* Updates the parameter t[0] from its gradient t[1], and its state t[2] .. t[n - 1]. Requires that
 * all have the parameter's shape and the loop's dtype. */
void k_optimizer_step(k_optimizer_loop *loop, int n, rg_tensor *const t[],
                      const k_optimizer_numbers *z);

/*
 * optim.h: the steps of optimizers, each in one pass over the parameter, its gradient and its
 * state; and averages of parameters.
 */
#pragma once

#include "tensor/tensor.h"

/* The loops of a step, for each dtype and instruction set. A program links only the loops of the
 * steps that it names. */
typedef struct k_optimizer k_optimizer;
extern const k_optimizer k_sgd, k_adam, k_rmsprop, k_adagrad, k_lion, k_nadam, k_radam, k_muon;
extern const k_optimizer k_muon_update, k_round_to_bfloat16, k_combine_to_bfloat16;
extern const k_optimizer k_average_lerp, k_average_mean;

/* The numbers of one step, which are the same for all elements of the parameter. Below, t[] are the
 * tensors that k_optimizer_step is given: the parameter, its gradient and its state.
 *
 * A moving average is updated as average = kept * average + entering * x. The names of the fields
 * for these two factors end with `kept` and `entering`. If there is only a field for `entering`,
 * the factor `kept` is 1 - entering. In SGD, the factor `kept` is the momentum. */
typedef struct k_optimizer_numbers {
    /* The options that the loops of k_steps read. `decay` is Adagrad's lr_decay or NAdam's
     * momentum_decay. An option that the optimizer doesn't have is 0. */
    double beta1, beta2, decay;
    /* The factor of the gradient: -1 if the objective is maximized, otherwise 1. */
    double sign;
    /* The factor of the parameter in the term that is added to the gradient; in Lion that term is
     * added to the update instead. */
    double weight_decay;
    /* The update is multiplied by this number and added to the parameter. It is minus the learning
     * rate, which some optimizers correct by the step number. */
    double rate;
    union {
        /* SGD. t[2] is the momentum buffer, if has_buffer is set. */
        struct {
            double momentum; /* The factor of the old buffer. */
            double entering; /* The factor with which the gradient enters the buffer: 1 -
                              * dampening. */
            bool first;      /* Set in the first step, in which the buffer becomes the gradient. */
            bool nesterov;
            bool has_buffer;
        } sgd;
        /* Adam and AdamW. t[2] is the mean of the gradient, and t[3] the mean of its square. With
         * amsgrad, t[4] is the greatest value that t[3] has had. */
        struct {
            double mean_entering;                /* 1 - beta1 */
            double square_kept, square_entering; /* beta2, 1 - beta2 */
            double root_correction;              /* sqrt(1 - beta2^step) */
            double eps;
            double shrink; /* The factor by which the parameter is multiplied first: 1 - lr *
                            * weight_decay in AdamW. */
            bool amsgrad;
        } adam;
        /* RMSprop. t[2] is the mean of the gradient's square. After it come the momentum buffer, if
         * has_buffer is set, and the mean of the gradient, if centered is set. */
        struct {
            double square_kept, square_entering; /* alpha, 1 - alpha */
            double momentum;
            double eps;
            bool has_buffer, centered;
        } rmsprop;
        /* Adagrad. t[2] is the sum of the squares of all gradients. */
        struct {
            double eps;
        } adagrad;
        /* Lion. t[2] is the mean of the gradient. */
        struct {
            /* beta1 and 1 - beta1, for the mean whose sign is the update. */
            double update_kept, update_entering;
            double mean_kept, mean_entering; /* beta2 and 1 - beta2, for the mean that is stored. */
        } lion;
        /* NAdam. t[2] is the mean of the gradient, and t[3] the mean of its square. */
        struct {
            double mean_entering;                /* 1 - beta1 */
            double square_kept, square_entering; /* beta2, 1 - beta2 */
            double square_correction;            /* 1 - beta2^step */
            double eps;
            /* The factors of the gradient and of its mean in the update. */
            double gradient_rate, mean_rate;
            double shrink; /* The factor by which the parameter is multiplied first. */
        } nadam;
        /* RAdam. t[2] is the mean of the gradient, and t[3] the mean of its square. */
        struct {
            double mean_entering, mean_correction; /* 1 - beta1, 1 - beta1^step */
            double square_kept, square_entering;   /* beta2, 1 - beta2 */
            double root_correction;                /* sqrt(1 - beta2^step) */
            double rectification;
            double eps;
            double shrink;
            bool rectified; /* Set if the update is divided by the root of the mean square. */
        } radam;
        /* Muon. k_muon_update runs first: it writes the update to t[0], rounded to bfloat16 and not
         * yet orthogonalised. t[1] is the gradient, and t[2] is the momentum buffer, which isn't
         * changed. Then k_muon changes the parameter t[0] and the buffer t[2]; t[3] is the
         * orthogonalised update. */
        struct {
            double entering, momentum; /* 1 - momentum, momentum */
            double shrink;
            bool nesterov;
        } muon;
        /* k_round_to_bfloat16 rounds t[0] to bfloat16. k_combine_to_bfloat16 sets t[0] to alpha *
         * t[0] + beta * t[1], rounded to bfloat16. */
        struct {
            double alpha, beta;
        } combined;
        /* k_average_lerp sets t[0] to t[0] + entering * (t[1] - t[0]). k_average_mean sets t[0] to
         * the mean of `count` tensors: t[1] is the last of them, and t[0] is at first the mean of
         * the others. */
        struct {
            double entering, count;
        } averaged;
    };
} k_optimizer_numbers;

/* The number of steps that an optimizer has made with a parameter, and the product of NAdam's
 * momenta in all of these steps. `step` is a whole number. */
typedef struct k_optimizer_count {
    double step, product;
} k_optimizer_count;

/* The loops that count an optimizer's steps, and that compute the numbers of a step from the count.
 * RMSprop's count is only saved. */
typedef struct k_steps k_steps;
extern const k_steps k_sgd_steps, k_adam_steps, k_adagrad_steps, k_nadam_steps, k_radam_steps,
    k_rmsprop_steps;

/* Counts a step. NAdam's loop reads beta1 and the momentum_decay, and rounds its product to float32
 * if `in_float`. */
typedef void k_count_loop(k_optimizer_count *count, double beta1, double decay, bool in_float);
k_count_loop *k_count_loop_of(const k_steps *which);
/* Sets *z to the numbers of step count->step: those in *given, and those that depend on the count.
 * `given` can be z. */
typedef void k_numbers_loop(k_optimizer_numbers *z, const k_optimizer_count *count,
                            const k_optimizer_numbers *given);
void k_step_numbers(const k_steps *which, k_optimizer_numbers *z, const k_optimizer_count *count,
                    const k_optimizer_numbers *given);
/* Returns the name of the loop that counts, or that computes numbers, in whose array by set `row`
 * is. */
const char *k_count_loop_name(const void *row);
const char *k_numbers_loop_name(const void *row);

/* Computes a step for n contiguous elements. at[] are the addresses of these elements in the
 * tensors t[], which k_optimizer_numbers explains. */
typedef void k_optimizer_loop(char *const at[], int64_t n, const k_optimizer_numbers *z);
/* Returns the name of the loops in whose table `row` is the row of this dtype, such as "sgd". */
const char *k_optimizer_name(const void *row, rg_dtype dtype);
/* Updates the parameter t[0] and its state t[2] .. t[n - 1] from its gradient t[1]. Requires that
 * all tensors have the parameter's shape and dtype, which is a floating one. */
void k_optimizer_step(const k_optimizer *which, int n, rg_tensor *const t[],
                      const k_optimizer_numbers *z);

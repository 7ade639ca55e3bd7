/*
 * steps.c: compiles the loops that count the steps of optimizers, and that compute the numbers of a
 * step from this count.
 */
#include "optim.h"
#include "kernels.h"
#include "smooth.h"

#include <math.h>

#define K_LOOPS "loops/steps.h"
#define K_TYPES_NONE
#define K_NARROW
#include "sets.h"

struct k_steps {
    const char *count_name, *numbers_name;
    k_count_loop *count[K_COLUMNS];
    k_numbers_loop *numbers[K_COLUMNS];
};
const k_steps k_sgd_steps = { "step_count", "sgd_numbers", K_BY_NARROW_SET(step_count),
                              K_BY_NARROW_SET(sgd_numbers) };
const k_steps k_adam_steps = { "step_count", "adam_numbers", K_BY_NARROW_SET(step_count),
                               K_BY_NARROW_SET(adam_numbers) };
const k_steps k_adagrad_steps = { "step_count", "adagrad_numbers", K_BY_NARROW_SET(step_count),
                                  K_BY_NARROW_SET(adagrad_numbers) };
const k_steps k_nadam_steps = { "nadam_count", "nadam_numbers", K_BY_NARROW_SET(nadam_count),
                                K_BY_NARROW_SET(nadam_numbers) };
const k_steps k_radam_steps = { "step_count", "radam_numbers", K_BY_NARROW_SET(step_count),
                                K_BY_NARROW_SET(radam_numbers) };

const k_steps k_rmsprop_steps = { "step_count", "rmsprop_numbers", K_BY_NARROW_SET(step_count),
                                  K_BY_NARROW_SET(rmsprop_numbers) };

k_count_loop *k_count_loop_of(const k_steps *which) { return K_LOOP_OF_SET(which->count); }

void k_step_numbers(const k_steps *which, k_optimizer_numbers *z, const k_optimizer_count *count,
                    const k_optimizer_numbers *given) {
    K_LOOP_OF_SET(which->numbers)(z, count, given);
}

const char *k_count_loop_name(const void *row) {
    return K_HOLDER(k_steps, count, row, 0)->count_name;
}

const char *k_numbers_loop_name(const void *row) {
    return K_HOLDER(k_steps, numbers, row, 0)->numbers_name;
}

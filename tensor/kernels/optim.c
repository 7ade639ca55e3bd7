/*
 * optim.c: one step of an optimizer for one parameter. If the parameter is large, several threads
 * compute the step.
 */
#include "optim.h"
#include "kernels.h"

#include <tgmath.h>

/* K_NARROW makes these loops faster: they read and write up to five tensors, and with vectors of 64
 * bytes Adam takes up to 1.3 times as long on Zen 5. */
#define K_LOOPS "loops/optim.h"
#define K_TYPES_FLOATS
#define K_NARROW
#include "sets.h"

struct k_optimizer {
    const char *name;
    k_optimizer_loop *loops[K_DTYPES][K_COLUMNS];
};
const k_optimizer k_sgd = { "sgd", K_NARROW_FLOATS(sgd) };
const k_optimizer k_adam = { "adam", K_NARROW_FLOATS(adam) };
const k_optimizer k_rmsprop = { "rmsprop", K_NARROW_FLOATS(rmsprop) };
const k_optimizer k_adagrad = { "adagrad", K_NARROW_FLOATS(adagrad) };
const k_optimizer k_lion = { "lion", K_NARROW_FLOATS(lion) };
const k_optimizer k_nadam = { "nadam", K_NARROW_FLOATS(nadam) };
const k_optimizer k_radam = { "radam", K_NARROW_FLOATS(radam) };
const k_optimizer k_muon = { "muon", K_NARROW_FLOATS(muon) };
const k_optimizer k_muon_update = { "muon_update", K_NARROW_FLOATS(muon_update) };
const k_optimizer k_round_to_bfloat16 = { "round_to_bfloat16", K_NARROW_FLOATS(round_to_bfloat16) };
const k_optimizer k_combine_to_bfloat16 = { "combine_to_bfloat16",
                                            K_NARROW_FLOATS(combine_to_bfloat16) };
const k_optimizer k_average_lerp = { "average_lerp", K_NARROW_FLOATS(average_lerp) };
const k_optimizer k_average_mean = { "average_mean", K_NARROW_FLOATS(average_mean) };

const char *k_optimizer_name(const void *row, rg_dtype dtype) {
    return K_HOLDER(k_optimizer, loops, row, dtype)->name;
}

typedef struct optimizer_part {
    k_optimizer_loop *loop;
    int n;
    int64_t element_bytes;
    const k_optimizer_numbers *numbers;
    rg_dtype dtype;
} optimizer_part;

/* Runs an optimizer's loop on n elements: all at once if they are contiguous in all tensors,
 * otherwise one by one. */
static void optimizer_run(char *const p[], const int64_t step[], int64_t n, const void *context) {
    const optimizer_part *part = context;
    bool dense = true;
    for (int k = 0; k < part->n; k++)
        dense &= step[k] == part->element_bytes;
    if (dense) {
        part->loop(p, n, part->numbers);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        char *at[RG_MAX_OPERANDS];
        for (int k = 0; k < part->n; k++)
            at[k] = p[k] + i * step[k];
        part->loop(at, 1, part->numbers);
    }
}

static bool all_contiguous(int n, rg_tensor *const t[]) {
    for (int k = 0; k < n; k++)
        if (!(t[k]->flags & RG_CONTIGUOUS))
            return false;
    return true;
}

/* Runs an optimizer's loop for float on n elements of 16 bits: on copies in float, block by block,
 * of which all but the gradient are written back. */
static __attribute__((cold)) void optimizer_run_in_float(char *const p[], const int64_t step[],
                                                         int64_t n, const void *context) {
    enum { BLOCK = 256, GRADIENT = 1 };
    const optimizer_part *part = context;
    float room[RG_MAX_OPERANDS][BLOCK];
    char *at[RG_MAX_OPERANDS];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = RG_MIN(n - i, BLOCK);
        for (int k = 0; k < part->n; k++) {
            at[k] = (char *)room[k];
            rgi_copy_loop(RG_FLOAT32, part->dtype)((char *[]){ at[k], p[k] + i * step[k] },
                                                   (int64_t[]){ sizeof(float), step[k] }, m, NULL);
        }
        part->loop(at, m, part->numbers);
        for (int k = 0; k < part->n; k++)
            if (k != GRADIENT)
                rgi_copy_loop(part->dtype, RG_FLOAT32)((char *[]){ p[k] + i * step[k], at[k] },
                                                       (int64_t[]){ step[k], sizeof(float) }, m,
                                                       NULL);
    }
}

RG_HOT void k_optimizer_step(const k_optimizer *which, int n, rg_tensor *const t[],
                             const k_optimizer_numbers *z) {
    const rg_dtype dtype = t[0]->dtype;
    k_optimizer_loop *loop = K_LOOP_OF(which->loops, rgi_computed_in(dtype), which->name);
    if (RG_UNLIKELY(rgi_is_half(dtype))) {
        optimizer_part part = { loop, n, 0, z, dtype };
        rgi_each_apart(n, t, optimizer_run_in_float, &part);
        return;
    }
    if (t[0]->numel >= RG_LARGE || !all_contiguous(n, t)) {
        optimizer_part part = { loop, n, (int64_t)rgi_sizeof(dtype), z, dtype };
        rgi_each_apart(n, t, optimizer_run, &part);
        return;
    }
    char *at[RG_MAX_OPERANDS];
    for (int k = 0; k < n; k++)
        at[k] = t[k]->data;
    loop(at, t[0]->numel, z);
}

/*
 * checkpoint.h: the whole state of a training run in one file, from which it can resume as if it
 * had never stopped.
 *
 *     double step = 0, best = INFINITY;
 *     rg_training run = { .model = model, .optim = adam,
 *                           .numbers = RG_NUMBERS({ "step", &step }, { "best", &best }) };
 *     if (resuming && !rg_load_checkpoint("run.safetensors", run))
 *         return puts(rg_error());
 *     while (step < 1000) {
 *         ...
 *         step++;
 *         rg_save_checkpoint("run.safetensors", run);
 *     }
 *
 * The program counts a step before it saves, so that a resumed run doesn't repeat it. The file is
 * one of safetensors: "model.fc.weight", "optim.state.0.exp_avg", "tensors.mask", "numbers.step",
 * "loader.order", and "random", the state of the generator.
 */
#pragma once

#include "../module.h"
#include "../optim/optim.h"

RG_PUBLIC_BEGIN

/* A number of the program, which is saved, and set when it is loaded. */
typedef struct rg_number {
    const char *name;
    double *value;
} rg_number;
typedef struct rg_number_list {
    int n;
    const rg_number *v;
} rg_number_list;

struct rg_data_loader;

/* The parts of a run. A part that is NULL is neither saved nor loaded; but a NULL generator stands
 * for the default one. */
typedef struct rg_training {
    void *model RG_EMPTY;             /* Its parameters and its persistent buffers are saved. */
    rg_optim *optim RG_EMPTY;         /* Its state, its options and its schedules are saved. */
    rg_generator *generator RG_EMPTY; /* Its state is saved. */
    rg_named_list tensors RG_EMPTY; /* The program's own tensors get the file's values in place. */
    rg_number_list numbers RG_EMPTY;
    /* The order of the current epoch and the position in it are saved. */
    struct rg_data_loader *loader RG_EMPTY;
} rg_training;

/* Writes a new file in the same folder, syncs it and renames it, so that a kill at any moment
 * leaves the old file or the new one. Tied weights are written once. The metadata name the kinds of
 * the optimizer and of its schedules. Returns false on failure. */
bool rg_save_checkpoint(const char *path, rg_training run);
/* Loads a file that rg_save_checkpoint wrote from a run of the same parts. An entry that is missing
 * in the file or in the run, and an optimizer or a schedule of another kind, are errors, which name
 * the file. Returns false on failure, and then nothing was loaded. */
bool rg_load_checkpoint(const char *path, rg_training run);

/* Writes the run as PyTorch's programs do, for torch.load(f, weights_only=True): a dict with
 * "model", "optimizer" and "scheduler", each for its load_state_dict, with "loader", and with the
 * program's own tensors and numbers under their names. If the optimizer has several schedules that
 * no SequentialLR steps, there is a list "schedulers" instead. The generator's state isn't written,
 * since torch's has another form. To load such a file of PyTorch's, use rg_torch_load and
 * rg_named_below for each part. Returns false on failure. */
bool rg_torch_save_checkpoint(const char *path, rg_training run);

/* A list of RG_NUMBERS lives to the end of its block, and in C++ as long as the innermost scope. */
#ifndef __cplusplus
#define RG_NUMBERS(...)                                                                 \
    ((rg_number_list){ (int)(sizeof((rg_number[]){ __VA_ARGS__ }) / sizeof(rg_number)), \
                       (const rg_number[]){ __VA_ARGS__ } })
#endif

RG_PUBLIC_END

#ifdef __cplusplus
static inline rg_number_list rg_number_list_of(std::initializer_list<rg_number> l) {
    return rg_list_in_scope<rg_number_list>(l);
}
#define RG_NUMBERS(...) rg_number_list_of({ __VA_ARGS__ })
#endif

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
 * The program counts a step before it saves, so that a resumed run doesn't repeat it. The file has
 * the format of safetensors, with entries such as "model.fc.weight", "optim.state.0.exp_avg",
 * "tensors.mask", "numbers.step", "loader.order", and "random", the state of the generator.
 */
#pragma once

#include "../module.h"
#include "../optim/optim.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* A number of the program. Its value is saved, and loading sets it. */
typedef struct rg_number {
    const char *name;
    double *value;
} rg_number;
typedef struct rg_number_list {
    int n;
    const rg_number *v;
} rg_number_list;

struct rg_data_loader;

/* The parts of a training run. A part that is NULL, or an empty list, is neither saved nor loaded.
 * But if `generator` is NULL, the state of the default generator is saved and loaded. */
typedef struct rg_training {
    /* The parameters and persistent buffers of this module are saved. */
    void *model RG_EMPTY;
    /* The state, the options and the schedules of this optimizer are saved. */
    rg_optim *optim RG_EMPTY;
    rg_generator *generator RG_EMPTY; /* The state of this generator is saved. */
    /* Tensors of the program. Loading copies the file's values into them. */
    rg_named_list tensors RG_EMPTY;
    rg_number_list numbers RG_EMPTY;
    /* The order of the current epoch, and the position in it, are saved. */
    struct rg_data_loader *loader RG_EMPTY;
} rg_training;

/* Writes the run to a new file in the same folder, flushes the new file to the disk, and renames it
 * to `path`. So if the program is killed at any time, either the old file or the new one is there.
 * Tied weights are written once. The names of the optimizer's class and of its schedules' classes
 * are saved as well, so that loading can check them. Returns false on failure. */
bool rg_save_checkpoint(const char *path, rg_training run);
/* Loads a file that rg_save_checkpoint wrote. The run must have the same parts as the run that was
 * saved. Fails, with an error message that names the file, if an entry is missing in the file or in
 * the run, or has another shape in the run. Also fails if the optimizer or a schedule is of another
 * class, or if the file has two tensors that the run's model ties. Returns false on failure; then
 * nothing was loaded. */
bool rg_load_checkpoint(const char *path, rg_training run);

/* Writes the run as programs with PyTorch usually do, so that torch.load(f, weights_only=True) can
 * read it. The file is a dict. Its entries "model", "optimizer" and "scheduler" are what the
 * load_state_dict of a model, optimizer and scheduler takes. Further entries are "loader", and the
 * program's tensors and numbers under their own names. Such a name mustn't begin with the name of
 * another entry and a dot. If the optimizer has several schedules, apart from those that another
 * schedule steps, there is a list "schedulers" in place of "scheduler". The generator's state isn't
 * written, because torch's has another form. Returns false on failure. To load such a file, use
 * rg_torch_load, and rg_named_below for each part. */
bool rg_torch_save_checkpoint(const char *path, rg_training run);

/* The list that RG_NUMBERS makes lives until the end of the C block, in C++ as long as the
 * innermost scope. */
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

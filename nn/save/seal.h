/*
 * seal.h: a file by which anyone can check a training run. It has the hashes of all tensors of the
 * run, as they were after each 1000th step. Whoever runs the program again, on any machine, learns
 * at which step, and in which tensor, the two runs first differ.
 *
 *     rg_training run = { .model = model, .optim = adam };
 *     rg_seal *seal = check ? rg_seal_check("run.seal") : rg_seal_begin("run.seal", .every = 100);
 *     for (int64_t step = 1; step <= 1000; step++) {
 *         ...
 *         if (!rg_seal_step(seal, step, run))
 *             break;
 *     }
 *     printf("%s\n", rg_seal_hash(seal));
 *     rg_seal_end(seal);
 *
 * The file is a text. Its first part tells the library's version and the run's settings. Each other
 * part is a step: the line "step 100", then, for each entry that a checkpoint of the run would
 * have, the SHA-256 hash of the tensor's bytes, its dtype, its shape, and its name. The bytes are
 * those of a safetensors file. A part ends with two lines: "state" and the hash of the part's lines
 * before it, and "chain" and the hash of the 64 digits of the previous chain followed by those of
 * the state. So the last chain stands for the whole file: a program that publishes it can't change
 * a step afterwards.
 *
 * To check a part of a run only, load a checkpoint, and go on from its step.
 *
 * A sealed step costs about 20 microseconds, and for each byte of the run's tensors 0.7 ns if the
 * processor has instructions for SHA-256, or else 5 ns. With .every = 1000 that is less than a
 * thousandth of the time of training a GPT, and half a percent with a layer whose step takes 4
 * microseconds.
 */
#pragma once

#include "checkpoint.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_seal rg_seal;

typedef struct RG_OPTIONS rg_seal_options {
    RG_BY_NAME;
    /* The number of steps from one sealed step to the next. */
    int64_t every RG_DEFAULT(1000);
    /* Continue the file that is at the path, if there is one. Its steps are compared when the run
     * makes them again, and later steps are appended. */
    rg_flag resume RG_DEFAULT(false);
} rg_seal_options;
/* Creates the file, and writes its first part. A file that is at the path is replaced, unless
 * o.resume is true; then it must be a seal with the same o.every. Returns a seal, which rg_seal_end
 * releases, or NULL on failure. */
rg_seal *rg_seal_begin_with(const char *path, rg_seal_options o);
#define rg_seal_begin(path, ...) \
    rg_seal_begin_with(path, RG_KEYWORDS(rg_seal_options, (.every = 1000), __VA_ARGS__))
/* Reads a file that rg_seal_begin wrote, and checks its hashes. Returns a seal with which
 * rg_seal_step compares, and writes nothing. Returns NULL on failure. A file that ends in the
 * middle of a step, because its program was killed, is a failure: o.resume above removes such a
 * part. */
rg_seal *rg_seal_check(const char *path);

/* Seals the state of the run after this step, if the step is a multiple of .every; otherwise does
 * nothing. If the file has the step already, compares instead: fails, with an error message that
 * names the step and the first tensor that differs. A seal of rg_seal_check fails if the file lacks
 * the step. Steps are sealed in ascending order. Returns false on failure. */
bool rg_seal_step(rg_seal *s, int64_t step, rg_training run);
/* Returns the chain after the step that was sealed or compared last, 64 hexadecimal digits. Before
 * the first of these steps it is the chain of the file's first part. A run that stops before the
 * file's last step therefore has another hash than the whole. The seal owns the string, which
 * changes with the next step. Returns NULL on failure. */
const char *rg_seal_hash(rg_seal *s);
/* Closes the file and releases the seal. Returns false if that fails, if a step has failed, or if a
 * seal of rg_seal_check has compared no step. */
bool rg_seal_end(rg_seal *s);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_seal_step(s, step, run) rg_seal_step(s, RG_WHOLE(step), run)

RG_PUBLIC_END

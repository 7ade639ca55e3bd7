/*
 * replay.h: recordings of a training step that runs often. A recording is the list of kernels that
 * the step called; replaying it calls them again, without dispatch, without allocations, and with
 * the same bits. A step whose inputs differ in shape, as texts do, is recorded once for each shape.
 */
#pragma once

#include "../../tensor/tensor.h"

RG_PUBLIC_BEGIN

/* rg_record runs a training step once and records it; rg_replay_run does the same again, with the
 * same bits as the step itself, on the same tensors. Write new inputs into the tensors that were
 * recorded (rg_copy_), and keep the results that you want to read (the loss), since all others are
 * written over. Random numbers are drawn anew. A step is refused if it reads values (rg_item,
 * rg_str, rg_repr), takes a loader's next batch, reaches an optimizer's options (rg_optim_group),
 * or does anything else that can't be repeated; rg_print in a step prints once, while it is
 * recorded. The step's modules and its optimizer must outlive the replay. The step must not be left
 * by longjmp (see rg_error_handler). */
typedef struct rg_replay rg_replay;
/* Returns NULL if the step failed or was refused. */
rg_replay *rg_record(void (*step)(void *context), void *context);
bool rg_replay_run(rg_replay *r);
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 * NULL is left alone. */
void rg_replay_free(rg_replay *r);

/* The recordings of one step, one for each shape of its inputs:
 *
 *     rg_replays *replays = rg_replays_new(step, &model);
 *     RG_FOR (int i = 0; i < steps; i++)
 *         printf("%f\n", rg_item(rg_replays_run(replays, 1, &text[i])));
 *     rg_replays_free(replays);
 *
 * rg_replays_run(r, n, inputs) returns step(inputs, context), with the same bits. The first call
 * with inputs of these dtypes and sizes records the step, as rg_record does; a later call copies
 * its inputs over those of that recording, and replays it. All recordings work on the same
 * parameters and the same optimizer: they count its steps together, and see a learning rate that is
 * set between them. Anything else that the step depends on, such as a number in its context, or
 * whether a module is in training mode, stays in each recording as it was when it was made.
 *
 * The step gets contiguous copies of the inputs, which must not require grad; an absent input is
 * RG_NONE. The step returns one tensor, such as the loss, or RG_NONE; the caller gets a copy of it
 * without history. Each recording takes the memory of a step, with its gradients, until
 * rg_replays_free. */
typedef struct rg_replays rg_replays;
rg_replays *rg_replays_new(rg_tensor *(*step)(rg_tensor *const inputs[], void *context),
                           void *context);
/* Takes up to 64 inputs. Returns NULL if the step failed or was refused, as rg_record does; the
 * next call with such inputs records it anew. */
rg_tensor *rg_replays_run(rg_replays *r, int n, rg_tensor *const inputs[]);
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 * NULL is left alone. */
void rg_replays_free(rg_replays *r);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_replays_run(r, n, ...) rg_replays_run(r, RG_WHOLE(n), __VA_ARGS__)

RG_PUBLIC_END

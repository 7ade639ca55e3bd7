/*
 * replay.h: a step that runs often is recorded once, and then done again as the list
 * of what it did: without dispatch, without memory, and with the same bits. Where its inputs
 * differ in shape, as texts do, it is recorded once for each shape.
 */
#pragma once

#include "../../tensor/tensor.h"

RG_PUBLIC_BEGIN

/* rg_record runs a training step once and records it; rg_replay_run does the same
 * again, with the same bits as the step itself, on the same tensors: write new inputs
 * into the old ones (rg_copy_), and keep those that you want to read (the loss), since
 * every other result is written over. Random draws are fresh. A step that looks at
 * values (rg_item, rg_str, rg_repr), takes a loader's next batch, reaches an optimizer's
 * options (rg_optim_group), or does what can't be done again, is refused; what it prints
 * with rg_print is printed once. The step's modules and its optimizer must outlive the replay. The
 * step must not be left by longjmp (see rg_error_handler). */
typedef struct rg_replay rg_replay;
/* Returns NULL where the step failed or was refused. */
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
 * rg_replays_run(r, n, inputs) returns step(inputs, context), with the same bits. Inputs of a
 * number, dtypes and sizes that haven't come before are recorded, and what holds for rg_record
 * holds for them; later ones are copied to where that recording has its own, and it runs. All
 * recordings work on the same parameters and the same optimizer: its steps count on from one to the
 * next, and a learning rate that is set between them is seen. What else the step goes by, such as a
 * number in its context, or whether a module trains, is in each recording as it was then.
 *
 * The step is given contiguous copies of the inputs, which must not require grad; RG_NONE, for one
 * that is absent, is handed on. What it returns, a loss say, or RG_NONE, is copied for the caller:
 * the copy is nobody else's, and has no history. Each shape takes the memory of a step, with its
 * gradients, until rg_replays_free. */
typedef struct rg_replays rg_replays;
rg_replays *rg_replays_new(rg_tensor *(*step)(rg_tensor *const inputs[], void *context),
                           void *context);
/* Returns NULL where the step failed or was refused, as rg_record does; it is recorded anew when
 * such inputs come again. There are up to 64 inputs. */
rg_tensor *rg_replays_run(rg_replays *r, int n, rg_tensor *const inputs[]);
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 * NULL is left alone. */
void rg_replays_free(rg_replays *r);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_replays_run(r, n, ...) rg_replays_run(r, RG_WHOLE(n), __VA_ARGS__)

RG_PUBLIC_END

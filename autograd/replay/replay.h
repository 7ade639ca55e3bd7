/*
 * replay.h: recordings of a training step that is repeated often. A recording is the list of
 * kernels that the step called. Replaying it calls these kernels again: without dispatch, almost
 * without allocations, and with results that are equal bit by bit. If the shapes of the step's
 * inputs change, for example with the lengths of sentences, the step is recorded once for each
 * shape.
 */
#pragma once

#include "../../tensor/tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* rg_record calls the function `step` once and records it. rg_replay_run repeats the recorded step
 * on the same tensors, with the same bits as a call of `step` would give. Write new inputs, by
 * rg_copy_, into the tensors that `step` read when it was recorded. Keep references to the results
 * that you want to read, such as the loss; the memory of all other results is used again. Each run
 * writes over the results that you keep. If a graph outside of the step has saved such a result,
 * the run counts as an in-place write, and backward through that graph fails. Random numbers are
 * drawn anew. Grad mode and inference mode have no effect on a run.
 *
 * A run fails, before it has changed anything, if one of four properties of a tensor of the step
 * has changed since the step was recorded; then record the step again. First, its dtype
 * (rg_set_data, rg_module_to). Second, its strides (rg_set_data): sums would be added in another
 * order. Third, its data, if the step also uses the old data, in a view or for a gradient, or if
 * the new data are those of a result of the step, such as a gradient. Fourth, whether it requires
 * grad (rg_requires_grad_). A run also checks each gradient that the step reads before it makes one
 * (rg_grad_of, rg_clip_grad_norm_). The run fails unless this gradient is the tensor that it was
 * when the step was recorded, or is absent if it was absent then.
 *
 * Between two runs, the program may remove gradients, write to them and set others (rg_set_grad).
 * If the step adds to a gradient that was set, a run fails in two cases. In the first, the gradient
 * shares memory with a tensor of the step, such as the gradient of another parameter. In the
 * second, the step reads the sum, and the program also uses the gradient elsewhere. A run fails,
 * too, if an optimizer of the step has a parameter whose gradient was set to a result of the step.
 * It also fails in anomaly mode, and while there is a hook that the step would call.
 *
 * A step is refused if it does anything that can't be repeated. It must not read values (rg_item,
 * rg_str, rg_repr, and rg_full or rg_index with a tensor in place of a number), make a tensor of
 * the program's memory or of a text's tokens (rg_from, rg_encode), take a loader's next batch,
 * read or write a file, or ask for an optimizer's options (rg_optim_group). It must not set data,
 * or a gradient but to RG_NONE (rg_set_data, rg_set_grad), copy a module, seed a generator, draw
 * by probabilities (rg_multinomial, rg_sample_logits), append to a rg_kv_cache, or step a schedule
 * or an averaged model. It must not differentiate rg_prod and rg_cumprod, nor average a
 * cross_entropy with label smoothing, whose ops read values. Numbers and literals in a step
 * (rg_full, rg_literal), the default dtype, and whether a module is in training mode, stay as they
 * were when it was recorded. Nor may a step write in place to a tensor that it makes by rg_zeros,
 * rg_ones, rg_full, rg_arange or rg_empty, since a run doesn't make this tensor anew; let it write
 * to a clone (rg_clone). Functions that set all elements, such as rg_fill_ and rg_uniform_, are
 * allowed until the step has read the tensor. Most ops on bfloat16, float16 and uint8 are refused.
 * rg_print in a step prints only once, while the step is recorded. The profiler counts nothing of
 * a run.
 *
 * Runs fail once a module that the step calls has been freed or replaced by another, and once an
 * optimizer of the step has got another group of parameters. If a parameter of such a module is
 * replaced, runs go on with the old one, and an optimizer of the step warns. If a container of the
 * step gets more modules, runs go on without them. In all these cases, record the step again. An
 * optimizer that the program frees lives as long as the recording. The step must not be left by
 * longjmp (see rg_error_handler). */
typedef struct rg_replay rg_replay;
/* rg_record returns NULL if the step failed or was refused. rg_replay_run returns false if the run
 * failed. */
rg_replay *rg_record(void (*step)(void *context), void *context);
bool rg_replay_run(rg_replay *r);
/* Frees the recording r, which may be NULL. A function that is given r after that fails with
 * RG_RELEASED, unless the memory is already used for something else. */
void rg_replay_free(rg_replay *r);

/* rg_replay_bytes returns the bytes of memory that the recording r holds. They are those of the
 * results of the step, of constants that the step made, of the entries, and of headers of released
 * tensors. A result that the program may hold longer, such as the loss or a gradient that the step
 * leaves to a parameter, has memory of its own. The other results are in one block, in which
 * results that aren't in use at the same time share room, or in the memory of a result of the
 * former kind that the step computes later. What existed before the step, such as weights and
 * inputs, doesn't count, nor does the graph.
 *
 * rg_replay_live_bytes returns the largest sum of bytes of results that are in use at one time. A
 * result is in use from the call that computes it to the last call that reads it. One that the
 * program may hold longer is in use all the time. The results take hardly more than this sum.
 *
 * Both return -1 if they fail. */
int64_t rg_replay_bytes(const rg_replay *r);
int64_t rg_replay_live_bytes(const rg_replay *r);

/* The recordings of one step, one for each shape of its inputs:
 *
 *     rg_replays *replays = rg_replays_new(step, &model);
 *     RG_FOR (int i = 0; i < steps; i++)
 *         printf("%f\n", rg_item(rg_replays_run(replays, 1, &text[i])));
 *     rg_replays_free(replays);
 *
 * rg_replays_run(r, n, inputs) returns what step(inputs, context) would return for contiguous
 * inputs, with the same bits. The first call with inputs of certain dtypes and sizes records the
 * step, as rg_record does. A later call with such inputs copies them over the inputs of that
 * recording, and replays it. If the recording can't be replayed because requires_grad, data or
 * gradients have changed since (see rg_replay_run), the call records the step again. All
 * recordings work on the same parameters and the same optimizer: the optimizer counts the steps of
 * all of them together, and a learning rate that is set between two calls is used by all of them.
 * Anything else on which the step depends, such as a number in its context, or whether a module is
 * in training mode, stays in each recording as it was when the recording was made.
 *
 * The step gets contiguous copies of the inputs, which must not require grad. An absent input is
 * RG_NONE. The step returns one tensor, such as the loss, or RG_NONE. The caller gets a copy of
 * this tensor, without history. Each recording keeps the memory of a step, including its gradients,
 * until rg_replays_free. */
typedef struct rg_replays rg_replays;
rg_replays *rg_replays_new(rg_tensor *(*step)(rg_tensor *const inputs[], void *context),
                           void *context);
/* Takes up to 64 inputs. Returns NULL if the step can't be recorded, or if a repetition fails. If
 * the step wasn't recorded, the next call with inputs of these shapes tries to record it again. */
rg_tensor *rg_replays_run(rg_replays *r, int n, rg_tensor *const inputs[]);
/* Frees all recordings, and r, which may be NULL. A function that is given r after that fails with
 * RG_RELEASED, unless the memory is already used for something else. */
void rg_replays_free(rg_replays *r);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_replays_run(r, n, ...) rg_replays_run(r, RG_INT(n), __VA_ARGS__)

RG_PUBLIC_END

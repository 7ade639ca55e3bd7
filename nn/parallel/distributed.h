/*
 * distributed.h: training with many ranks, as torch's DistributedDataParallel does it.
 *
 *     rg_distributed *all = rg_nn_distributed(model, .shards = 4);
 *     RG_FOR (int step = 0; step < steps; step++) {
 *         rg_pair batch = rg_get_batch(text, 32, 128);
 *         rg_optim_zero_grad(optimizer);
 *         RG_FOR (int i = 0; i < all->local; i++) {
 *             rg_tensor *x = rg_distributed_part(all, batch.first);
 *             rg_tensor *y = rg_distributed_part(all, batch.second);
 *             rg_backward(rg_call(all, x, y));
 *         }
 *         rg_clip_grad_norm_(rg_parameters(model), 1);
 *         rg_optim_step(optimizer);
 *     }
 *
 * A batch is cut into `shards` equal parts, whatever the number of ranks, and each shard has a
 * backward run of its own. A rank takes its shards one after the other, adds their gradients up,
 * and sends no gradients before its last shard. This is gradient accumulation, without torch's
 * no_sync. During the last backward run the sums are sent to the other ranks, in buckets. At the
 * end of that run the mean of the gradients over all shards has been added to each parameter's
 * .grad, on all ranks. All sums follow one binary tree over the shards. Therefore the weights are
 * the same to the last bit on every number of ranks that is a power of two and divides the number
 * of shards, including 1.
 *
 * All ranks begin with the same seed and draw the same batches. Random numbers in a shard's
 * forward, such as dropout's, come from a stream of that shard. The seeds of these streams are made
 * from one number, which is drawn from the default generator once for each batch. So the
 * generator's state is the same on all ranks and for any number of ranks. Buffers that a forward
 * changes, such as batch norm's, have the values from before the batch when each shard begins.
 * After the batch those of floating point are the mean of the shards' new values. A call with
 * gradients disabled changes no buffers, since only this rank's rows would change them.
 */
#pragma once

#include "../module.h"
#include "process_group.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_distributed {
    rg_module base;
    rg_module *module; /* The model itself, a child of this module. */
    const int shards;  /* The number of shards into which a batch is cut. */
    /* This rank's shards: the index of the first one, and how many there are. */
    const int first, local;
    int64_t bytes_sent; /* The number of bytes that this rank has sent to sum gradients. */
    /* Private: the reducer of the gradients, and the tensor that holds its memory. */
    struct rg_reducer *reducer;
    rg_tensor *reducer_room;
} rg_distributed;

typedef struct RG_OPTIONS rg_distributed_options {
    RG_BY_NAME;
    /* The number of shards of a batch. 0 means one for each rank. */
    int64_t shards RG_DEFAULT(0);
    /* The largest size of a bucket in MiB, the same on all ranks. A gradient that is larger has a
     * bucket of its own. */
    double bucket_cap_mb RG_DEFAULT(25.0);
} rg_distributed_options;
/* Returns a module whose forward is that of the model. It owns the model; on failure the model is
 * freed. On all ranks the parameters and buffers are set to those of rank 0. Gradients are summed
 * for the parameters that require grad now, which must not have 16 bits. Later, the dtype of a
 * parameter must not change, and a call fails if the model has other parameters that require grad.
 * If a shard's backward run doesn't reach a parameter, the shard's gradient counts as 0. If no
 * shard reaches it, the parameter keeps its .grad.
 *
 * Each shard has one or several calls of the module and then one backward run, which reaches at
 * least one parameter. A call fails if a shard before it had no such run: if a part was taken since
 * the last call, or a parameter has changed since the batch began. Call the module under RG_NO_GRAD
 * if no backward run follows.
 *
 * If the program calls the model directly, that call isn't a part of the training. A backward run
 * of such a call, or a second run of a shard, fails if it adds to the gradients of a batch: in the
 * middle of the batch, and after it until a step has changed the parameters or the .grad is
 * removed. Add the second loss to the shard's loss. For rg_grad of a parameter, call the model
 * directly: rg_grad of a parameter through this module uses up the shard's run, and the module then
 * refuses to go on. A call of the module can't be part of a recorded step. */
rg_distributed *rg_nn_distributed_with(void *model, rg_distributed_options o);
#define rg_nn_distributed(model, ...) \
    rg_nn_distributed_with(           \
        model, RG_KEYWORDS(rg_distributed_options, (.bucket_cap_mb = 25), __VA_ARGS__))
/* Returns the rows of the batch that belong to this rank's current shard. The index of the shard is
 * the number of backward runs that the batch has had. So a loop over the shards has one run in each
 * turn, and takes all parts of a shard in its turn; two runs, for example of real and of generated
 * rows, need two loops. Fails if a shard doesn't take parts of the same tensors, in the same order,
 * as the first shard of the batch did on this rank (at most 64 elements of each are compared); if
 * it takes fewer parts, its backward run fails. Also fails if this rank has several shards, but no
 * parameter has a backward run, and if the number of rows isn't a multiple of the number of shards.
 * Parts for a model that isn't trained are taken by the module that is trained. If rows are
 * expensive to make, such as windows of a file, let `batch` be a tensor of their indices, and make
 * only the rows of the returned indices. */
rg_tensor *rg_distributed_part(const rg_distributed *d, rg_tensor *batch);
/* Returns whether all ranks have the same parameters and buffers, to the last bit. If they haven't,
 * fails on all ranks. */
bool rg_distributed_check(const rg_distributed *d);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_distributed_with(model, ...) rg_nn_distributed_with(RG_A_MODULE_(model), __VA_ARGS__)

RG_PUBLIC_END

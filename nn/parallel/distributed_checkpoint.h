/*
 * distributed_checkpoint.h: checkpoints of training with many ranks, in the file format of
 * checkpoint.h. Any number of ranks can resume from such a file, and so can a program without a
 * process group. Under the conditions of distributed.h, the results are the same to the last bit.
 */
#pragma once

#include "../save/checkpoint.h"
#include "process_group.h"

RG_PUBLIC_BEGIN

/* Rank 0 writes the file with rg_save_checkpoint, and the other ranks wait until it is written.
 * Only rank 0's generator is saved, so call this between batches, when the generators of all ranks
 * have the same state. If writing fails, or if rank 0 lacks the state of a parameter of the
 * optimizer, or has an older one (see rg_sharded_optim_gather), this function fails on all
 * ranks. */
bool rg_distributed_save_checkpoint(const char *path, rg_training run);
/* Each rank reads the file, so each must be able to open it. If one rank fails, or if the states of
 * the generator or the numbers in the ranks' files differ, this function fails on all ranks. Some
 * ranks may have loaded the file by then. */
bool rg_distributed_load_checkpoint(const char *path, rg_training run);

RG_PUBLIC_END

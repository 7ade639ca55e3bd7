/*
 * distributed_checkpoint.h: a checkpoint of many ranks, in a file of checkpoint.h. Any number of
 * ranks can resume from it, with the same bits under the conditions of distributed.h, and so can a
 * program without a process group.
 */
#pragma once

#include "../save/checkpoint.h"
#include "process_group.h"

RG_PUBLIC_BEGIN

/* Rank 0 writes the file with rg_save_checkpoint while the others wait. The file has rank 0's
 * generator, so call this between batches. If it fails, all ranks fail. */
bool rg_distributed_save_checkpoint(const char *path, rg_training run);
/* All ranks read the file, which each of them must be able to open. If one fails, or if files
 * differ, all ranks fail, and some may have loaded it. */
bool rg_distributed_load_checkpoint(const char *path, rg_training run);

RG_PUBLIC_END

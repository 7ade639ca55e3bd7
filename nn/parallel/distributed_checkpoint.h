/*
 * distributed_checkpoint.h: a checkpoint of many ranks. The file is the one of checkpoint.h: any
 * number of ranks goes on from it, to the same bits as far as distributed.h promises them, and so
 * does a program without a process group.
 */
#pragma once

#include "../save/checkpoint.h"
#include "process_group.h"

RG_PUBLIC_BEGIN

/* Rank 0 writes the file, as rg_save_checkpoint does, while the others wait. It has rank 0's
 * generator, so this is for between two batches. If it fails, all ranks fail. */
bool rg_distributed_save_checkpoint(const char *path, rg_training run);
/* All ranks read the file, which each of them must see. If it fails on one of them, or if they see
 * different files, all fail, and a rank may have loaded it. */
bool rg_distributed_load_checkpoint(const char *path, rg_training run);

RG_PUBLIC_END

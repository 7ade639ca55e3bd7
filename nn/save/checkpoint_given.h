/*
 * checkpoint_given.h: a question about checkpoints, which those of PyTorch ask, too. Private.
 */
#pragma once

#include "checkpoint.h"

/* Returns whether a program's checkpoint is whole: nothing that it names is NULL. */
bool rgi_checkpoint_given(const rg_training *run, const char *op);

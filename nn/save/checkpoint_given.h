/*
 * checkpoint_given.h: a check of a checkpoint's parts, shared with PyTorch's checkpoints. Private.
 */
#pragma once

#include "checkpoint.h"

/* Returns whether no part that the program names is NULL. */
bool rgi_checkpoint_given(const rg_training *run, const char *op);

/*
 * checkpoint_given.h: functions on the parts of a run that checkpoints share with seals, and with
 * checkpoints in PyTorch's form. Private.
 */
#pragma once

#include "checkpoint.h"

/* Fails and returns false unless all parts of the run that are given can be used: handles are
 * valid, and each tensor and number has a name and isn't NULL. */
bool rgi_checkpoint_given(const rg_training *run, const char *op);
/* Returns the tensors that a checkpoint of the run has, with their names in the file. The innermost
 * scope owns the list. Requires that rgi_checkpoint_given returned true. On failure .n is -1. */
rg_named_list rgi_checkpoint_tensors(const rg_training *run);

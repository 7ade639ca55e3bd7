/*
 * checkpoint_given.h: a check of the parts of a run, for regard's checkpoints and those in
 * PyTorch's form. Private.
 */
#pragma once

#include "checkpoint.h"

/* Fails and returns false unless all parts of the run that are given can be used: handles are
 * valid, and each tensor and number has a name and isn't NULL. */
bool rgi_checkpoint_given(const rg_training *run, const char *op);

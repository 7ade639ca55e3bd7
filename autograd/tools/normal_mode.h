/*
 * normal_mode.h: switches inference mode off for a block of C, for functions that must record ops,
 * or make normal tensors, in whatever mode they are called. Private.
 */
#pragma once

#include "autograd/autograd.h"

/* Switches inference mode off and grad mode on until the end of the block. */
#define RG_NORMAL_MODE()                   \
    rg_inference_guard rgi_normal_mode     \
        __attribute__((cleanup(rg_inference_guard_close), unused)) = rg_inference_guard_open(false)

/*
 * c_memory.h: plans the memory of a step that is written as C.
 */
#pragma once

#include "to_c.h"
#include "autograd/replay/lower.h"

/* The plan. offset[i] is the offset of region i of the lowered step in the memory, or -1 if the
 * step doesn't use the region. `bytes` is the size of the memory. Its first `parameters` bytes are
 * the parameters. `most` is the largest number of bytes that are in use at one time. */
typedef struct c_memory {
    int64_t *offset, bytes, parameters, most;
} c_memory;

/* Sets the plan. m->offset has room for an offset of each region. The tensors of the options must
 * be in regions of the step. Returns false if memory ran out. */
bool rgi_c_memory_plan(c_memory *m, const rg_lowered *l, const rg_replay_to_c_options *o);

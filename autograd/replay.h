/*
 * replay.h: a step that runs often is recorded once, and then done again as the list
 * of what it did: without dispatch, without memory, and with the same bits.
 */
#pragma once

#include "../tensor/tensor.h"

RG_PUBLIC_BEGIN

/* rg_record runs a training step once and records it; rg_replay_run does the same
 * again, with the same bits as the step itself, on the same tensors: write new inputs
 * into the old ones (rg_copy_), and keep those that you want to read (the loss), since
 * every other result is written over. Random draws are fresh. A step that looks at
 * values (rg_item), or does what can't be done again, is refused; text that it prints
 * is printed once. The step's modules and its optimizer must outlive the replay. The
 * step must not be left by longjmp (see rg_error_handler). */
typedef struct rg_replay rg_replay;
/* Returns NULL where the step failed or was refused. */
rg_replay *rg_record(void (*step)(void *context), void *context);
bool rg_replay_run(rg_replay *r);
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 * NULL is left alone. */
void rg_replay_free(rg_replay *r);

RG_PUBLIC_END

/*
 * compile.h: compiles a recorded step with the system's C compiler.
 */
#pragma once

#include "../replay/replay.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Compiles the recorded step r with the command cc. From then on rg_replay_run runs the compiled
 * step on the same tensors, and computes the same bits as before. Some operations stay as they are:
 * large ones, whose time is that of their loops; those that draw random numbers, set gradients or
 * update parameters; and those that can't be written as calls of loops. Before the compiled step is
 * used, it is compared with the recorded one three times, the last two with changed inputs.
 *
 * Compiling takes 0.5 s for the step of an attention layer, 3 s for that of a small GPT, and 10 s
 * for 2,000 layers of 4 operations and their gradients, almost all of it in the compiler. Only one
 * thread at a time may compile a step or write one (rg_replay_to_c); another call fails meanwhile.
 *
 * The files are kept in $XDG_CACHE_HOME/regard, or in ~/.cache/regard if the variable isn't set,
 * and used again for an equal step.
 *
 * Returns false if the step can't be compiled; then it runs as before. If memory runs out, an
 * argument is wrong or a file can't be written, there is an error. In all other cases, such as a
 * missing compiler, there is a warning. */
bool rg_replay_compile(rg_replay *r);

RG_PUBLIC_END

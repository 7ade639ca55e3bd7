/*
 * compile.h: compiles a recorded step with the system's C compiler.
 */
#pragma once

#include "../replay/replay.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Compiles the recorded step r with the command cc. From then on rg_replay_run runs the compiled
 * step on the same tensors, and computes the same bits as before. Operations for which this doesn't
 * pay stay as they are: large ones, whose time is that of their loops, and those that draw random
 * numbers, set gradients or update parameters. Before the compiled step is used, it is compared
 * with the recorded one, three times and with changed inputs.
 *
 * Compiling takes about a second. The files are kept in $XDG_CACHE_HOME/regard, or in
 * ~/.cache/regard if the variable isn't set, and used again for an equal step.
 *
 * If there is no compiler, or if it fails, the function warns and returns false, and the step runs
 * as before. Returns false and sets an error in other cases. */
bool rg_replay_compile(rg_replay *r);

RG_PUBLIC_END

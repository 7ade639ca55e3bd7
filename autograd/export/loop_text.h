/*
 * loop_text.h: the text of the loops of tensor/kernels/, which the library carries with it, for
 * files in C that are written from recorded steps. The script `loops` beside this file makes the
 * archive of the text when the library is built.
 */
#pragma once

#include "tensor/text/text.h"

/* Appends to `to` the text that a file in C99 needs to call these loops: the head, then each
 * function, type, constant and table that the loops need, once, in an order in which C can compile
 * them. A name may end with the plain set's suffix, which no name in the text has: the name
 * "softmax_float_plain" adds the function softmax_float. Fails and returns false if the archive has
 * no loop of that name, or if memory runs out. `op` is the function's name in the failure. */
bool rgi_loop_text(rg_text *to, const char *op, int count, const char *const names[]);

/* Sets found[i] to whether the archive has a loop with the name names[i], which may end as above.
 * Returns false if memory runs out. */
bool rgi_loops_find(const char *op, int count, const char *const names[], bool found[]);

/* Appends the names of all loops to `to`, each with a newline. Fails and returns false if memory
 * runs out. */
bool rgi_loop_names(rg_text *to, const char *op);

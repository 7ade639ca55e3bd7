/*
 * unread.h: failures that nobody has looked at. A program may go on without looking, so each of
 * them is told once on standard error, in a line that begins with "regard: ". The variable
 * REGARD_ERRORS of the environment tells them otherwise: `quiet` not at all, `trace` with the
 * functions that were being called, and `abort` at once, as the program is stopped for a debugger.
 */
#pragma once

#include "thread.h"

/* Notes where the failure that begins to stand happened, and stops the program if REGARD_ERRORS
 * says so. */
void rgi_unread_begin(rg_thread *me);

/* Notes that NULL has reached the function `op` because of the failure that stands. */
void rgi_null_reached(const char *op);
/* Forgets the names that were noted. A function inside which the failure began calls this, since
 * what it calls is of no interest to the program. */
void rgi_null_stayed_inside(void);

/* Tells the failure that stands, if it is unread and wasn't told, and returns false. Whatever gives
 * the program no result that it could check calls this where NULL has reached it, and so does a
 * thread that ends. */
bool rgi_tell_unread(void) __attribute__((cold));

/*
 * unread.h: failures that the program hasn't looked at. Since a program may go on without a check,
 * each of them is reported once on standard error, in a line that begins with "regard: ". The
 * environment variable REGARD_ERRORS changes this: `quiet` reports nothing, `trace` adds the
 * functions that were being called, and `abort` reports at once and aborts the program, for a
 * debugger.
 */
#pragma once

#include "thread.h"

/* Prepares the report of the failure that has just become the thread's error, and aborts the
 * program if REGARD_ERRORS says so. */
void rgi_unread_begin(rg_thread *me);

/* Records that the function `op` was called with NULL because of the thread's failure. */
void rgi_null_reached(const char *op);
/* Forgets the recorded names. A function calls this if the failure began inside it, since the
 * functions that it calls are of no interest to the program. */
void rgi_null_stayed_inside(void);

/* Reports the thread's failure, if it is unread and wasn't reported, and returns false. Functions
 * without a result that the program could check call this if NULL has reached them; so does a
 * thread that ends. */
bool rgi_tell_unread(void) __attribute__((cold));

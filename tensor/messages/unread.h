/*
 * unread.h: failures that the program hasn't read. Because a program may go on without checking for
 * an error, each such failure is reported once on standard error, in a line that begins with
 * "regard: ". The environment variable REGARD_ERRORS changes this. With `quiet` nothing is
 * reported. With `trace` reports and warnings also list the functions that were being called. With
 * `abort` the failure is reported at once and the program is aborted, so that a debugger stops
 * there. Without the variable, the first report of the process has a second line, which mentions
 * `trace`.
 */
#pragma once

#include "tensor/thread.h"

#include <string.h>

/* Prepares the report of the failure that has just become the thread's error, and calls
 * rgi_abort_if_asked. */
void rgi_unread_begin(rg_thread *me);
/* Sets the calls that the report of the thread's failure lists: those at these n addresses, which
 * rgi_find_calls found earlier, for example when the forward op was called. If this function isn't
 * called, the report lists the calls that were in progress at the failure. */
void rgi_unread_came_from(void *const address[], int n);
/* If REGARD_ERRORS is `abort`, and the thread has an unread failure that wasn't reported and isn't
 * part of an attempt (rgi_set_failure_aside), reports it and aborts the program. */
void rgi_abort_if_asked(void);

/* Counts the failure with the message `line`, which was made from `format` while the thread's error
 * was unread. A failure that is probably a consequence of that error isn't counted. The report of
 * the error is followed by a line with the number of the counted failures and the message of the
 * first one. rgi_forget_later forgets these failures. */
void rgi_count_later(rg_thread *me, const char *line, const char *format);
void rgi_forget_later(void);

/* Records that the function `op` was called with a NULL that is a consequence of the thread's
 * failure, and counts that call as a failure. */
void rgi_null_reached(const char *op);
/* rgi_null_reached records the names of functions. A function that calls other functions of the
 * library may forget the names that these calls recorded, if they are of no interest to the
 * program. Before the calls, rgi_null_reached_bytes returns the length of the recorded names. After
 * the calls, rgi_null_stayed_inside with that length forgets the names that were added. */
static inline size_t rgi_null_reached_bytes(void) {
    return RG_UNLIKELY(rgi_this.failure.unread) ? strlen(rgi_this.failure.reached) : 0;
}
void rgi_null_stayed_inside(size_t bytes);

/* If REGARD_ERRORS is `trace`, writes the functions that are being called to standard error. */
void rgi_tell_calls(void);

/* Reports the thread's failure if it is unread and hasn't been reported. Always returns false. A
 * function whose result few programs check calls this if it was given NULL. */
bool rgi_tell_unread(void) __attribute__((cold));
/* Reports all failures of the thread t that are unread and haven't been reported. */
void rgi_tell_all_unread(rg_thread *t) __attribute__((cold));
/* From now on, the failures that the thread t has had count as reported. */
void rgi_unread_is_told(rg_thread *t) __attribute__((cold));

/* rgi_failed_count returns -1, and rgi_failed_number NaN: the results of failed functions that
 * return a number. After such a call, a later failure whose message contains -1 or NaN is taken for
 * a consequence of the thread's error. */
static inline int rgi_failed_count(void) {
    rgi_this.failure.has_number = true;
    return -1;
}
static inline double rgi_failed_number(void) {
    rgi_this.failure.has_number = true;
    return __builtin_nan("");
}

/*
 * callback.h: judges calls of functions of the program. Such a function has failed if its result
 * says so. It has also failed if a call of the library inside it failed and the function hasn't
 * read the error, because in that case its result is probably wrong. A function that has read the
 * error has handled the failure.
 *
 *     const int64_t before = rgi_failures();
 *     const bool ok = cls->forward(ctx, in, out);
 *     if (!rgi_called(ok, before, RG_RUNTIME_ERROR, cls->name, "forward failed, and said nothing"))
 *         return false;
 */
#pragma once

#include "tensor/error.h"

/* Turns the thread's error, if there is one, into a new failure: counts the error once more, and
 * marks it as unread unless the program has an error handler. A function of the library calls
 * rgi_unread_again after it has called a function of the program, and that function has failed. The
 * program's function may have read the error, but the caller of the library's function hasn't. */
void rgi_unread_again(void);

/* Returns the number of the thread's failures, for rgi_called. */
static inline int64_t rgi_failures(void) { return rgi_this.failures.all; }

/* rgi_called returns whether a function of the program succeeded. `ok` is false if the function's
 * result says that it failed. `before` is what rgi_failures returned before the call. If the
 * function failed, the thread has an error afterwards. It is the error that the function left, or
 * an earlier error that the program hasn't read, or a new error with this code and sentence.
 * rgi_judge_call is the part of rgi_called for calls in which something failed. */
bool rgi_judge_call(bool ok, int64_t before, rg_code code, const char *op, const char *sentence)
    __attribute__((cold));
static inline bool rgi_called(bool ok, int64_t before, rg_code code, const char *op,
                              const char *sentence) {
    return RG_LIKELY(ok && rgi_failures() == before)
           || rgi_judge_call(ok, before, code, op, sentence);
}
/* Does the same as rgi_called for a function whose result can't say that it failed. */
static inline bool rgi_left_no_failure(int64_t before, const char *op) {
    return rgi_called(true, before, RG_RUNTIME_ERROR, op, "");
}
/* Does the same as rgi_called for a function that has returned the tensor t. Also fails unless t
 * passes rgi_check. */
bool rgi_returned(rg_tensor *t, int64_t before, const char *op);

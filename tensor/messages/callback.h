/*
 * callback.h: calls of functions of the program. Such a function fails if its result says so. It
 * also fails if a function of the library failed in it and it hasn't read the error, because its
 * result is then probably wrong. If it has read the error, it has handled the failure.
 *
 *     const int64_t before = rgi_failures();
 *     const bool ok = cls->forward(ctx, in, out);
 *     if (!rgi_called(ok, before, RG_RUNTIME_ERROR, cls->name, "forward failed, and said nothing"))
 *         return false;
 */
#pragma once

#include "tensor/error.h"

/* Passes on the thread's error as one more failure, which is unread unless the program's handler
 * got it. A call does this if a function of the program has failed in it, which may have read the
 * error. */
void rgi_unread_again(void);

/* Returns the number of the thread's failures, for rgi_called. */
static inline int64_t rgi_failures(void) { return rgi_this.failures.all; }

/* Returns whether a function of the program succeeded. `ok` says whether its result did. `before`
 * is what rgi_failures returned before the call. If the function failed, the thread has an error
 * afterwards: one that the function left, or an earlier one that the program hasn't read, or a new
 * one with this code and sentence. */
bool rgi_judge_call(bool ok, int64_t before, rg_code code, const char *op, const char *sentence)
    __attribute__((cold));
static inline bool rgi_called(bool ok, int64_t before, rg_code code, const char *op,
                              const char *sentence) {
    return RG_LIKELY(ok && rgi_failures() == before)
           || rgi_judge_call(ok, before, code, op, sentence);
}
/* The same for a function whose result can't say that it failed. */
static inline bool rgi_left_no_failure(int64_t before, const char *op) {
    return rgi_called(true, before, RG_RUNTIME_ERROR, op, "");
}
/* The same for a function that has returned the tensor t. Also fails unless t passes rgi_check. */
bool rgi_returned(rg_tensor *t, int64_t before, const char *op);

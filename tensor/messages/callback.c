/*
 * callback.c: judges whether a function of the program failed. rg_fail (error.c) counts the
 * failures of a thread, and so does each call that fails because it is given NULL.
 */
#include "callback.h"

bool rgi_judge_call(bool ok, int64_t before, rg_code code, const char *op, const char *sentence) {
    const rg_thread *me = &rgi_this;
    const bool failed_inside = me->failures.all > before;
    if (ok && (!failed_inside || me->failures.read == me->failures.all))
        return true;
    if (failed_inside && rgi_failed()) {
        rgi_unread_again();
        return false;
    }
    /* An earlier failure is mostly the cause if the program hasn't read it yet. */
    if (me->failure.unread)
        return false;
    /* If the result is no failure, the program's error handler has cleared the error. */
    return rgi_fail(code, op, "%s", ok ? "the error handler cleared a failure in it" : sentence);
}

bool rgi_returned(rg_tensor *t, int64_t before, const char *op) {
    return rgi_called(t, before, RG_TYPE_ERROR, op, "expected a tensor but got NULL")
           && rgi_given_tensor(t, op);
}

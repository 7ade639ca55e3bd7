/*
 * callback.c: judges whether a function of the program failed. A thread's failures are counted by
 * rg_fail (error.c) and by each call that fails because it is given NULL (unread.c).
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
    /* An unread failure before the call is probably the cause, and stays the thread's error. */
    if (me->failure.unread)
        return false;
    /* If `ok` is true here, a call inside the program's function failed, and the program's error
     * handler has cleared the error. */
    return rgi_fail(code, op, "%s", ok ? "the error handler cleared a failure in it" : sentence);
}

bool rgi_returned(rg_tensor *t, int64_t before, const char *op) {
    return rgi_called(t, before, RG_TYPE_ERROR, op, "expected a tensor but got NULL")
           && rg_check_tensor(t, op);
}

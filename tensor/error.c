/*
 * error.c: what a failed call leaves behind: a code and one line, kept by the
 * thread until the next root failure or rg_error_clear().
 */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>

static _Atomic(rg_error_handler *) on_error;
__thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
__thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
__thread const char *rgi_inside __attribute__((tls_model("initial-exec")));

void rgi_fail_(rg_code code, const char *op, const char *format, ...) {
    rg_thread *me = rgi_thread_get();
    /* the arguments may quote the message before */
    char line[sizeof me->message];
    const char *as = rgi_named_as;
    va_list args;
    va_start(args, format);
    {
        RG_C_NUMBERS();
        op = as ? as : op ? op : rgi_applying;
        int at = op ? snprintf(line, sizeof line, "%s: ", op) : 0;
        at = RG_MIN(at, (int)sizeof line - 1);
        vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    }
    va_end(args);
    memcpy(me->message, line, sizeof line);
    me->code = code;
    rg_error_handler *handler = on_error;
    rgi_named_as = NULL; /* what it calls has names of its own */
    if (handler)
        handler(code, me->message);
    rgi_named_as = as;
    if (me->code == RG_OK)
        return; /* it cleared the error */
    /* a failure of its own doesn't replace the root one */
    memcpy(me->message, line, sizeof line);
    me->code = code;
}

bool rgi_given(const void *it, const char *op, const char *what) {
    return it
           || (rgi_this.code == RG_OK
               && rgi_fail(RG_TYPE_ERROR, op, "expected %s but got NULL", what));
}

const char *rg_error(void) { return rgi_this.code == RG_OK ? "" : rgi_this.message; }

rg_code rg_error_code(void) { return rgi_this.code; }

void rg_error_clear(void) {
    rgi_this.code = RG_OK;
    rgi_this.message[0] = 0;
}

rg_error_handler *rg_on_error(rg_error_handler *handler) {
    return atomic_exchange(&on_error, handler);
}

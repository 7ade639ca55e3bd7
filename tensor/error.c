/*
 * error.c: what a failed call leaves behind: a code and one line, kept by the
 * thread until the next root failure or rg_error_clear().
 */
#include "error.h"

#include "text/c_locale.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Atomic(rg_error_handler *) on_error;

/* A failure inside the handler doesn't replace the root failure, but the handler may clear the
 * error. What it calls fails under its own names, not under that of RG_AS. */
static void call_handler(rg_thread *me, rg_code code, const char *line) {
    rg_error_handler *handler = on_error;
    const char *as = rgi_named_as;
    if (!handler)
        return;
    rgi_named_as = NULL;
    handler(code, me->message);
    rgi_named_as = as;
    if (me->code == RG_OK)
        return;
    memcpy(me->message, line, sizeof me->message);
    me->code = code;
}

/* Returns whether the line, "op: sentence" with the sentence at `at`, names op twice: some of
 * torch's sentences begin with "op(): ", and a _ more or less or "torch." makes no other name. */
static bool names_op_twice(const char *line, size_t at) {
    const char *again = line + at;
    if (strncmp(again, "torch.", 6) == 0)
        again += 6;
    again += strspn(again, "_");
    const char *op = line + strspn(line, "_");
    size_t n = strcspn(op, ":");
    while (n > 0 && op[n - 1] == '_')
        n--;
    if (n == 0 || strncmp(again, op, n) != 0)
        return false;
    again += n;
    again += strspn(again, "_");
    if (strncmp(again, "()", 2) == 0)
        again += 2;
    return again[0] == ':' && again[1] == ' ';
}

void rgi_fail_(rg_code code, const char *op, const char *format, ...) {
    rg_thread *me = rgi_thread_get();
    char line[sizeof me->message]; /* The arguments may quote me->message. */
    if (!op)
        op = rgi_applying;
    if (rgi_named_as)
        op = rgi_named_as;
    va_list args;
    va_start(args, format);
    {
        RG_C_NUMBERS();
        int at = op ? snprintf(line, sizeof line, "%s: ", op) : 0;
        at = RG_MIN(at, (int)sizeof line - 1);
        vsnprintf(line + at, sizeof line - (size_t)at, format, args);
        if (at && names_op_twice(line, (size_t)at))
            memmove(line, line + at, strlen(line + at) + 1);
    }
    va_end(args);
    memcpy(me->message, line, sizeof line);
    me->code = code;
    call_handler(me, code, line);
}

rg_tensor *rg_fail(rg_code code, const char *op, const char *format, ...) {
    char sentence[sizeof rgi_this.message];
    va_list args;
    va_start(args, format);
    sentence[0] = 0;
    if (format)
        vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return rgi_fail(code == RG_OK ? RG_RUNTIME_ERROR : code, op, "%s", sentence);
}

bool rgi_given(const void *it, const char *op, const char *what) {
    if (!it && rgi_this.code == RG_OK)
        rgi_fail(RG_TYPE_ERROR, op, "expected %s but got NULL", what);
    return it;
}

bool rgi_given_path(const char *path, const char *op) {
    return path || rgi_fail(RG_TYPE_ERROR, op, "expected a path but got NULL");
}

bool rgi_given_list(int64_t n, const void *v, const char *op) {
    if (n < 0 && rgi_this.code == RG_OK)
        rgi_fail(RG_TYPE_ERROR, op, "expected a list but got one that failed: its n is %lld",
                 (long long)n);
    return n >= 0 && (n == 0 || rgi_given(v, op, "a list"));
}

const char *rg_error(void) { return rgi_this.code == RG_OK ? "" : rgi_this.message; }

rg_code rg_error_code(void) { return rgi_this.code; }

void rg_error_clear(void) { rgi_this.code = RG_OK; }

rg_error_handler *rg_on_error(rg_error_handler *handler) {
    return atomic_exchange(&on_error, handler);
}

/*
 * error.c: the error of a thread. An error is a code and a message. It stays until
 * rg_error_clear(), or until another failure follows after the program has read it.
 */
#include "error.h"

#include "text/c_locale.h"
#include "messages/callback.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Atomic(rg_error_handler *) on_error;

static void look_at_failure(rg_thread *me) {
    if (!me->failure.unread)
        return;
    me->failure.unread = false;
    me->failure.halts = false;
}

/* Marks the error as read, and sets failures.read, by which callback.c knows that the program
 * itself has read the error. A call of the program's handler leaves failures.read as it is. */
static void read_by_program(rg_thread *me) {
    look_at_failure(me);
    if (me->failures.read != me->failures.all)
        me->failures.read = me->failures.all;
}

/* Returns whether the program has a handler that is called for a failure now. A failure inside the
 * handler doesn't call it, nor does one inside an attempt (rgi_set_failure_aside). */
static bool has_handler(const rg_thread *me) { return on_error && !me->handling && !me->aside; }

/* Calls the program's handler, if it has set one, with the message `line`. A failure inside the
 * handler neither calls the handler again nor replaces the thread's error. But the handler may
 * clear the error. Functions that the handler calls fail under their own names, even inside an
 * RG_AS (error.h) of the failed function. `stands` says whether `line` has become the thread's
 * error. If it has, the error counts as read afterwards, since the handler got it. */
static void call_handler(rg_thread *me, rg_code code, const char *line, bool stands) {
    rg_error_handler *handler = on_error;
    const rg_failure failure = me->failure;
    const rg_failure_count failures = me->failures;
    const char *as = rgi_named_as;
    if (!handler || !has_handler(me))
        return;
    rgi_named_as = NULL;
    me->failure.told = true; /* Set before the call, since the handler may end the program. */
    me->handling = true;
    handler(code, line);
    me->handling = false;
    rgi_named_as = as;
    me->failures = failures;
    if (me->failure.code == RG_OK)
        return;
    const rg_failure left = me->failure;
    me->failure = failure;
    if (left.unread && strcmp(left.message, failure.message) != 0)
        rgi_count_later(me, left.message, "");
    if (stands || !left.unread)
        look_at_failure(me);
}

/* Returns whether the sentence in a line "op: sentence" names the op again. Some of torch's
 * messages do so; they begin with "op(): " or "op: ". `at` is the index of the sentence in the
 * line. A leading "torch." and underscores around a name are ignored when the names are
 * compared. */
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

/* Fails, as rgi_fail in error.h says. Every failure of the library, and of ops that a program
 * defines, goes through this function: in a debugger, `break rg_fail` stops at each of them. */
rg_tensor *rg_fail(rg_code code, const char *op, const char *format, ...) {
    rg_thread *me = rgi_thread_get();
    char line[sizeof me->failure.message]; /* The new message isn't written into the thread's error
                                            * directly, since the arguments may contain the old
                                            * message. */
    if (!op)
        op = rgi_applying;
    if (rgi_named_as)
        op = rgi_named_as;
    if ((unsigned)code - 1 >= RG_IO_ERROR)
        code = RG_RUNTIME_ERROR;
    va_list args;
    va_start(args, format);
    {
        RG_C_NUMBERS();
        int at = op ? snprintf(line, sizeof line, "%s: ", op) : 0;
        at = RG_MIN(at, (int)sizeof line - 1);
        line[at] = 0;
        if (format)
            vsnprintf(line + at, sizeof line - (size_t)at, format, args);
        if (at && names_op_twice(line, (size_t)at))
            memmove(line, line + at, strlen(line + at) + 1);
    }
    va_end(args);
    const bool stands = !me->failure.unread;
    me->failures.all++;
    if (stands) {
        me->failure.code = code;
        me->failure.unread = true;
        me->failure.halts = false;
        me->failure.number = me->failures.all;
        me->failure.length = strlen(line);
        memcpy(me->failure.message, line, sizeof line);
        rgi_unread_begin(me);
    } else if (!has_handler(me)) {
        rgi_count_later(me, line, format ? format : "");
    }
    call_handler(me, code, line, stands);
    return NULL;
}

void rgi_failed_inside(int64_t before, const char *place) {
    rg_failure *f = &rgi_this.failure;
    const bool has_place = f->message[f->length];
    const bool is_mistake = f->code != RG_OK && f->code != RG_OUT_OF_MEMORY;
    if (is_mistake && f->number > before && !has_place)
        snprintf(f->message + f->length, sizeof f->message - f->length, " (in %s)", place);
}

void rgi_forget_failure(void) {
    look_at_failure(&rgi_this);
    if (rgi_failed())
        rgi_this.failure.code = RG_OK;
}

void rgi_save_failure(rg_failure *saved) {
    rg_thread *me = rgi_thread_get();
    saved->code = me->failure.code;
    if (saved->code == RG_OK)
        return;
    *saved = me->failure;
    rgi_forget_failure();
}

void rgi_restore_failure(const rg_failure *saved) {
    rg_thread *me = &rgi_this;
    if (saved->code == RG_OK || (rgi_failed() && !saved->unread))
        return;
    const rg_failure since = me->failure;
    me->failure = *saved;
    if (since.code != RG_OK && since.unread)
        rgi_count_later(me, since.message, "");
}

void rgi_set_failure_aside(rg_failure *aside) {
    rgi_save_failure(aside);
    aside->count = rgi_this.failures;
    rgi_this.aside++;
}

void rgi_bring_failure_back(const rg_failure *aside) {
    if (!rgi_failed())
        rgi_this.failures = aside->count;
    rgi_this.aside--;
    if (rgi_failed() && rgi_this.failure.unread)
        call_handler(&rgi_this, rgi_this.failure.code, rgi_this.failure.message, true);
    rgi_restore_failure(aside);
    rgi_abort_if_asked();
}

bool rgi_attempt_had_memory(const rg_failure *aside) {
    const bool had_memory = rgi_this.failure.code != RG_OUT_OF_MEMORY;
    if (had_memory)
        rgi_forget_failure();
    rgi_bring_failure_back(aside);
    return had_memory;
}

void rgi_unread_again(void) {
    rg_thread *me = &rgi_this;
    if (!rgi_failed())
        return;
    me->failures.all++;
    if (!has_handler(me))
        me->failure.unread = true;
}

bool rgi_halt_training(void) {
    rg_failure *f = &rgi_this.failure;
    rgi_unread_again();
    if (f->unread)
        f->halts = true;
    if (f->reached[0])
        rgi_tell_unread();
    return false;
}

RG_HOT bool rg_training_halted(void) { return rgi_training_halted(); }

bool rg_halt_training(void) { return rgi_halt_training(); }

RG_HOT bool rgi_given(const void *it, const char *op, const char *what) {
    if (!it && rgi_null_is_explained())
        rgi_null_reached(op);
    else if (!it)
        rgi_fail(RG_TYPE_ERROR, op, "expected %s but got NULL", what);
    return it;
}

bool rgi_given_path(const char *path, const char *op) {
    return path || rgi_fail(RG_TYPE_ERROR, op, "expected a path but got NULL");
}

RG_HOT bool rgi_given_list(int64_t n, const void *v, const char *op) {
    if (n < 0 && !rgi_null_is_explained())
        rgi_fail(RG_TYPE_ERROR, op, "expected a list but got one that failed: its n is %lld",
                 (long long)n);
    return n >= 0 && (n == 0 || rgi_given(v, op, "a list"));
}

const char *rg_error_peek(void) { return rgi_failed() ? rgi_this.failure.message : ""; }

const char *rg_error(void) {
    read_by_program(&rgi_this);
    return rg_error_peek();
}

rg_code rg_error_code(void) {
    read_by_program(&rgi_this);
    return rgi_this.failure.code;
}

void rg_error_clear(void) {
    read_by_program(&rgi_this);
    rgi_forget_failure();
    rgi_forget_later();
}

rg_error_handler *rg_on_error(rg_error_handler *handler) {
    return atomic_exchange(&on_error, handler);
}

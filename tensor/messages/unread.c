/*
 * unread.c: reports on standard error the failures that the program hasn't read.
 */
#include "unread.h"

#include "tensor/system/system.h"
#include "tensor/text/ascii.h"
#include "warning.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the choice of REGARD_ERRORS ------------------------------------------------------------- */

typedef enum { TELL_UNKNOWN, TELL_LINE, TELL_QUIET, TELL_TRACE, TELL_ABORT } tell_mode;

static tell_mode mode_of(const char *value) {
    static const char *const names[] = { [TELL_LINE] = "",
                                         [TELL_QUIET] = "quiet",
                                         [TELL_TRACE] = "trace",
                                         [TELL_ABORT] = "abort" };
    for (tell_mode mode = TELL_LINE; mode <= TELL_ABORT; mode++)
        if (strcmp(value, names[mode]) == 0)
            return mode;
    return TELL_UNKNOWN;
}

/* Returns the mode that the environment variable REGARD_ERRORS chooses. The variable is read at the
 * first call, and the mode is kept. */
static tell_mode told_mode(void) {
    static _Atomic(tell_mode) chosen;
    const tell_mode before = chosen;
    if (before)
        return before;
    const char *value = getenv("REGARD_ERRORS");
    const tell_mode asked = mode_of(value ? value : "");
    chosen = asked ? asked : TELL_LINE;
    if (!asked)
        rgi_warn_of_variable("REGARD_ERRORS", value, "quiet, trace or abort",
                             "a failure that nobody has looked at is told in a line");
    return chosen;
}

/* ---- printing the stack of calls ------------------------------------------------------ */

/* Writes one line for a return address to standard error. Returns whether the address is in main:
 * the callers of main aren't part of the program, and aren't reported. */
static bool tell_address(const void *address) {
    char text[1600];
    if (!rgi_find_call(address, text, sizeof text))
        return false;
    rgi_write_error("    %s\n", text);
    return strncmp(text, "main at ", 8) == 0;
}

/* Writes the functions that were being called, from the innermost to main. The first `own` of the n
 * addresses are left out, since they belong to the functions that collect the addresses. */
static void tell_stack(void *const address[], int own, int n) {
    for (int i = own; i < n; i++)
        if (tell_address(address[i]))
            return;
}

void rgi_tell_calls(void) {
    enum { OWN = 2 }; /* The calls of rgi_find_calls and of this function. */
    void *address[RG_STACK_DEPTH];
    if (told_mode() == TELL_TRACE)
        tell_stack(address, OWN, rgi_find_calls(address, RG_STACK_DEPTH));
}

/* Writes a hint, once in a process: with REGARD_ERRORS=trace, a report names the program's lines.
 * Writes nothing if the system can't find the calls in progress. */
static void tell_of_trace(void) {
    static atomic_bool told;
    void *address;
    if (rgi_find_calls(&address, 1) > 0 && !atomic_exchange(&told, true))
        rgi_write_error("regard: with REGARD_ERRORS=trace in the environment, the report names the "
                        "program's lines (if it is compiled with -g)\n");
}

/* ---- reports of failures --------------------------------------------------------------------- */

static void tell_line(const char *line, const char *reached, int64_t times) {
    const bool any = *reached;
    char repeated[40] = "";
    if (times > 1)
        snprintf(repeated, sizeof repeated, " (%lld times)", (long long)times);
    fflush(stdout);
    rgi_write_error("regard: %s%s%s%s%s\n", line, repeated, any ? " (NULL then reached " : "",
                    reached, any ? ")" : "");
}

static void tell_failure(rg_failure *f) {
    enum { OWN = 3 }; /* The calls of rgi_find_calls, rgi_unread_begin and rg_fail. */
    f->told = true;
    tell_line(f->message, f->reached, f->times);
    tell_stack(f->stack, OWN, f->depth);
    if (f->depth == 0 && told_mode() == TELL_LINE)
        tell_of_trace();
}

static void tell_later(rg_thread *me) {
    const long long n = me->later.count;
    if (n == 1)
        rgi_write_error("regard: a later failure: %s\n", me->later.first);
    else if (n)
        rgi_write_error("regard: the first of %lld later failures: %s\n", n, me->later.first);
    me->later.count = 0;
}

void rgi_unread_begin(rg_thread *me) {
    rg_failure *f = &me->failure;
    const tell_mode mode = told_mode();
    f->told = false;
    f->has_number = false;
    f->named_call = rgi_named_calls;
    f->times = 1;
    f->depth = 0;
    f->reached[0] = 0;
    if (mode != TELL_TRACE && mode != TELL_ABORT)
        return;
    f->depth = rgi_find_calls(f->stack, RG_STACK_DEPTH);
    rgi_abort_if_asked();
}

void rgi_unread_came_from(void *const address[], int n) {
    rg_failure *f = &rgi_this.failure;
    f->depth = RG_MIN(n, RG_STACK_DEPTH);
    memcpy(f->stack, address, (size_t)f->depth * sizeof *address);
}

void rgi_abort_if_asked(void) {
    const rg_thread *me = &rgi_this;
    if (told_mode() == TELL_ABORT && me->failure.unread && !me->failure.told && !me->aside) {
        tell_failure(&rgi_this.failure);
        abort();
    }
}

/* Returns whether `op` is the last function that was called with NULL after the failure. If no
 * function was called with NULL yet, returns whether `op` is the function that failed. */
static bool is_last_reached(const rg_failure *f, const char *op) {
    const char *blank = strrchr(f->reached, ' ');
    const size_t n = strlen(op);
    if (f->reached[0])
        return strcmp(blank ? blank + 1 : f->reached, op) == 0;
    return strncmp(f->message, op, n) == 0 && f->message[n] == ':';
}

void rgi_null_reached(const char *op) {
    rg_failure *f = &rgi_this.failure;
    const size_t n = strlen(f->reached);
    rgi_this.failures.all++;
    if (rgi_named_as)
        op = rgi_named_as;
    /* A function may check an argument more than once, and may go on after it has failed. */
    if (!f->unread || !op || is_last_reached(f, op))
        return;
    if (n + strlen(op) + sizeof ", .." < sizeof f->reached)
        snprintf(f->reached + n, sizeof f->reached - n, "%s%s", n ? ", " : "", op);
    else if (n && f->reached[n - 1] != '.')
        snprintf(f->reached + n, sizeof f->reached - n, ", ..");
}

void rgi_null_stayed_inside(size_t bytes) { rgi_this.failure.reached[bytes] = 0; }

static void tell_unread_of(rg_thread *t) {
    if (t->failure.unread && !t->failure.told && !t->aside && told_mode() != TELL_QUIET) {
        tell_failure(&t->failure);
        tell_later(t);
    }
}

bool rgi_tell_unread(void) {
    tell_unread_of(&rgi_this);
    return false;
}

void rgi_tell_all_unread(rg_thread *t) {
    tell_unread_of(t);
    if (told_mode() != TELL_QUIET)
        tell_later(t);
}

void rgi_unread_is_told(rg_thread *t) {
    t->failure.told = true;
    t->later.count = 0;
}

/* ---- failures that follow an unread one ----------------------------------------------- */

/* Returns how often the text contains -1 or nan as a whole word. A failed call returns these
 * numbers. The lower end of a range of dims, as in "range of [-1, 0]", doesn't count. */
static int failed_numbers(const char *text) {
    static const char range[] = "range of [";
    const size_t before = sizeof range - 1;
    int n = 0;
    for (const char *at = text; *at; at++) {
        const size_t bytes = strncmp(at, "-1", 2) == 0 ? 2 : strncmp(at, "nan", 3) == 0 ? 3 : 0;
        if (!bytes || (at > text && rgi_is_in_name(at[-1])) || rgi_is_in_name(at[bytes]))
            continue;
        if (at < text + before || strncmp(at - before, range, before) != 0)
            n++;
    }
    return n;
}

/* Returns whether a new failure is probably a consequence of the thread's error. That is so if a
 * function has failed since the error and returned -1 or NaN, and the new failure's message
 * contains -1 or nan. A message counts as well if it refuses negative numbers and doesn't say which
 * number was given. (For NULL no guess is needed: while an error is unread, a call that is given
 * NULL reports no failure.) */
static bool is_consequence(const rg_failure *error, const char *line, const char *format) {
    const bool plain = !strchr(format, '%');
    return error->has_number
           && (failed_numbers(line) > failed_numbers(format)
               || (plain && (strstr(format, "negative") || strstr(format, "can be inferred"))));
}

/* Returns whether the failure with the message `line` comes from the same call as the thread's
 * error. A function named by RG_AS can fail several times in one call; other functions can't. */
static bool is_same_call(const rg_failure *error, const char *line) {
    const size_t n = strcspn(line, ":");
    const bool same_function = line[n] && strncmp(line, error->message, n + 1) == 0;
    return same_function && rgi_named_as && error->named_call == rgi_named_calls;
}

/* A failure that repeats the error's message is counted in error->times, which the error's report
 * shows. Any other failure is counted in me->later.count, unless its message is me->later.first,
 * the message of the first failure that was counted there. */
void rgi_count_later(rg_thread *me, const char *line, const char *format) {
    rg_failure *error = &me->failure;
    if (me->aside || is_same_call(error, line) || is_consequence(error, line, format))
        return;
    if (strncmp(line, error->message, error->length) == 0 && !line[error->length]) {
        error->times++;
        return;
    }
    if (strncmp(line, me->later.first, sizeof me->later.first - 1) == 0)
        return;
    if (me->later.count++ == 0)
        snprintf(me->later.first, sizeof me->later.first, "%s", line);
}

void rgi_forget_later(void) {
    rg_thread *me = &rgi_this;
    if (!me->later.first[0])
        return;
    me->later.count = 0;
    me->later.first[0] = 0;
}

/* ---- ready-made error handlers -------------------------------------------------------- */

void rg_print_error(rg_code code, const char *message) {
    rg_failure *f = &rgi_this.failure;
    if (f->code == code && strcmp(f->message, message) == 0)
        tell_failure(f);
    else
        tell_line(message, "", 1);
}

void rg_abort_on_error(rg_code code, const char *message) {
    rg_print_error(code, message);
    abort();
}

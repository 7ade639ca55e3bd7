/*
 * unread.c: reports on standard error the failures that the program hasn't read.
 */
#include "unread.h"

#include "system/system.h"
#include "warning.h"

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

/* Returns the mode that the environment variable REGARD_ERRORS chooses. The variable is read only
 * once. */
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

/* Writes the functions that were being called, from the failed one to main. The first addresses are
 * left out: they belong to this file and to rg_fail. */
static void tell_stack(const rg_failure *f) {
    enum { OWN = 3 };
    for (int i = OWN; i < f->depth; i++)
        if (tell_address(f->stack[i]))
            return;
}

/* ---- reports of failures --------------------------------------------------------------------- */

static void tell_line(const char *line, const char *reached) {
    const bool any = *reached;
    fflush(stdout);
    rgi_write_error("regard: %s%s%s%s\n", line, any ? " (NULL then reached " : "", reached,
                    any ? ")" : "");
}

static void tell_failure(rg_failure *f) {
    f->told = true;
    tell_line(f->message, f->reached);
    tell_stack(f);
}

void rgi_unread_begin(rg_thread *me) {
    rg_failure *f = &me->failure;
    const tell_mode mode = told_mode();
    f->told = false;
    f->depth = 0;
    f->reached[0] = 0;
    if (mode != TELL_TRACE && mode != TELL_ABORT)
        return;
    f->depth = rgi_find_calls(f->stack, RG_STACK_DEPTH);
    rgi_abort_if_asked();
}

void rgi_abort_if_asked(void) {
    const rg_thread *me = &rgi_this;
    if (told_mode() == TELL_ABORT && me->failure.unread && !me->failure.told && !me->aside) {
        tell_failure(&rgi_this.failure);
        abort();
    }
}

void rgi_null_reached(const char *op) {
    rg_failure *f = &rgi_this.failure;
    const size_t n = strlen(f->reached);
    if (rgi_named_as)
        op = rgi_named_as;
    if (!f->unread || !op)
        return;
    /* Doesn't add the same name twice in a row, since a function may check an argument more than
     * once. */
    const size_t bytes = strlen(op);
    if (n >= bytes && strcmp(f->reached + n - bytes, op) == 0)
        return;
    if (n + bytes + sizeof ", .." < sizeof f->reached)
        snprintf(f->reached + n, sizeof f->reached - n, "%s%s", n ? ", " : "", op);
    else if (n && f->reached[n - 1] != '.')
        snprintf(f->reached + n, sizeof f->reached - n, ", ..");
}

void rgi_null_stayed_inside(void) { rgi_this.failure.reached[0] = 0; }

bool rgi_tell_unread(void) {
    rg_thread *me = &rgi_this;
    if (me->failure.unread && !me->failure.told && !me->aside && told_mode() != TELL_QUIET)
        tell_failure(&me->failure);
    return false;
}

/* ---- ready-made error handlers -------------------------------------------------------- */

void rg_print_error(rg_code code, const char *message) {
    rg_failure *f = &rgi_this.failure;
    if (f->code == code && strcmp(f->message, message) == 0)
        tell_failure(f);
    else
        tell_line(message, "");
}

void rg_abort_on_error(rg_code code, const char *message) {
    rg_print_error(code, message);
    abort();
}

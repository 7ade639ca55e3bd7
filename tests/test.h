/*
 * test.h: what every test program shares. A program is a list of cases:
 *
 *     RG_TESTS(scope, test_early_return, test_nested)
 *
 * defines main, which runs each in a process of its own (CK_FORK=no: in one).
 */
#pragma once

#include <check.h>
#include <stdlib.h>

#define RG_TESTS(name, ...)                                                \
    int main(void) {                                                       \
        const TTest *cases[] = { __VA_ARGS__ };                            \
        return rg_run_tests(#name, sizeof cases / sizeof cases[0], cases); \
    }
int rg_run_tests(const char *name, size_t n, const TTest *const cases[]);
/* under valgrind: fifty times as slow, and on one thread */
int rg_emulated(void);
int rg_slow(void); /* there, or under a sanitizer */

/* As ck_assert_msg, which writes to a pipe each time, for what is asserted of many elements. */
#define ck_each(condition, ...)        \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

/* The call fails with this code and a message that holds the text. */
#define ck_fails(call, code, text)                                                  \
    do {                                                                            \
        rg_error_clear();                                                           \
        ck_assert_msg(!(call), "%s did not fail", #call);                           \
        ck_assert_msg(rg_error_code() == (code) && strstr(rg_error(), text),        \
                      "%s: got error %d '%s'", #call, rg_error_code(), rg_error()); \
        rg_error_clear();                                                           \
    } while (0)

/* The call succeeds: not NULL, and no error stands. */
#define ck_ok(call) ck_assert_msg((call) && rg_error_code() == RG_OK, "%s: %s", #call, rg_error())

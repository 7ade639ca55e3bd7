/*
 * test.h: every test program includes it. A program is a list of cases:
 *
 *     RG_TESTS(scope, test_early_return, test_nested)
 *
 * This line defines main, which runs each case in a process of its own, or all in one process if
 * the environment has CK_FORK=no.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#define RG_TESTS(name, ...) RG_TESTS_WITH(#name, 1, __VA_ARGS__)
/* Does the same as RG_TESTS, but without guards around blocks of memory (see tensor/memory.h).
 * Guards would bypass the code that such a program tests, or take too long. */
#define RG_TESTS_UNGUARDED(name, ...) RG_TESTS_WITH(#name, 0, __VA_ARGS__)
#define RG_TESTS_WITH(name, guarded, ...)                                          \
    int main(void) {                                                               \
        const TTest *cases[] = { __VA_ARGS__ };                                    \
        return rg_run_tests(name, guarded, sizeof cases / sizeof cases[0], cases); \
    }
int rg_run_tests(const char *name, int guarded, size_t n, const TTest *const cases[]);
/* A program that has a main of its own adds its tests to rg_tcase(), and then calls rg_run, which
 * returns the number of tests that failed. Most failures of the library are expected in tests, so
 * rg_tcase lets them go unreported. */
TCase *rg_tcase(const char *name);
int rg_run(const char *name, TCase *tcase);
/* A test that leaves memory behind fails. A program whose memory stays until its end sets this
 * variable, and then such tests pass. */
extern int rg_memory_may_stay;
/* Returns whether valgrind runs the program, one thread at a time and fifty times as slowly. */
int rg_emulated(void);
/* Returns whether valgrind, a sanitizer or an emulator slows the program down. EMULATED in the
 * environment stands for an emulator. */
int rg_slow(void);

/* Asserts a condition for each of many elements. ck_assert_msg would write to a pipe each time. */
#define ck_each(condition, ...)        \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

/* Returns whether an error message begins with a name, such as "softmax: " or "a hook: ", and not
 * with a sentence. */
bool rg_begins_with_name(const char *message);

/* Asserts that the call fails with this code and a message that begins with a name and holds the
 * text. */
#define ck_fails(call, code, text)                                                      \
    do {                                                                                \
        rg_error_clear();                                                               \
        ck_assert_msg(!(call), "%s did not fail", #call);                               \
        ck_assert_msg(rg_error_code() == (code) && strstr(rg_error(), text)             \
                          && rg_begins_with_name(rg_error()),                           \
                      "%s: got error %d '%s'", #call, rg_error_code(), rg_error());     \
        rg_error_clear();                                                               \
    } while (0)

/* Calls the function in a scope of its own, and asserts that the error is this whole sentence. */
#define ck_says(call, sentence)                                                          \
    do {                                                                                 \
        RG_SCOPE();                                                                      \
        rg_error_clear();                                                                \
        (void)(call);                                                                    \
        ck_assert_msg(strcmp(rg_error(), sentence) == 0, "%s: '%s'", #call, rg_error()); \
        rg_error_clear();                                                                \
    } while (0)

/* Asserts that the call succeeds: it does not return NULL, and no error stands. */
#define ck_ok(call) ck_assert_msg((call) && rg_error_code() == RG_OK, "%s: %s", #call, rg_error())

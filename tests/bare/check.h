/*
 * check.h: the part of Check's interface that the tests use, for targets without Check, such as
 * musl: Debian compiles Check only for its own C library. With BARE=1 the Makefile uses this
 * header, and the tests stay as they are. Names and meanings are Check's, and test programs print
 * nearly the same.
 */
#pragma once

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* A test is a function of the loop's index, which is 0 without a loop. */
typedef struct {
    const char *name;
    void (*run)(int i);
} TTest;

#define START_TEST(test)                                  \
    static void test##_run(int i);                        \
    static const TTest test##_is = { #test, test##_run }; \
    static const TTest *const test = &test##_is;          \
    static void test##_run(int _i __attribute__((unused)))
#define END_TEST

typedef struct Suite Suite;
typedef struct TCase TCase;
typedef struct SRunner SRunner;
enum print_output { CK_NORMAL };
/* The exit status of a test's process that leaves the test out, as some do on Windows. */
enum { BARE_LEFT_OUT = 44 };

TCase *tcase_create(const char *name);
/* A test that takes longer than this many seconds is ended. */
void tcase_set_timeout(TCase *tcase, double seconds);
/* Calls `setup` before each test. There is no teardown, for each test has a process of its own. */
void tcase_add_checked_fixture(TCase *tcase, void (*setup)(void), void (*teardown)(void));
void tcase_add_test(TCase *tcase, const TTest *test);
void tcase_add_loop_test(TCase *tcase, const TTest *test, int begin, int end);

/* A suite has one case. */
Suite *suite_create(const char *name);
void suite_add_tcase(Suite *suite, TCase *tcase);

/* Runs each test in a process of its own. */
SRunner *srunner_create(Suite *suite);
void srunner_run_all(SRunner *runner, enum print_output mode);
int srunner_ntests_failed(SRunner *runner);
/* Frees the suite and its case, too. */
void srunner_free(SRunner *runner);

/* Prints the sentence and ends the test, which has failed. */
_Noreturn void bare_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns whether x and y are equal strings. NULL equals nothing, not even NULL. */
static inline int bare_same(const char *x, const char *y) { return x && y && strcmp(x, y) == 0; }

#define ck_abort_msg(...)             bare_fail(__FILE__, __LINE__, __VA_ARGS__)
#define ck_assert_msg(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))
#define ck_assert(condition)          ck_assert_msg(condition, "'%s' is false", #condition)

/* Asserts a comparison of two values, each of which is evaluated once. */
#define BARE_COMPARE(type, format, x, op, y)                                                    \
    do {                                                                                        \
        const type ck_x = (x);                                                                  \
        const type ck_y = (y);                                                                  \
        ck_assert_msg(ck_x op ck_y, "'%s %s %s' is false: " format " and " format, #x, #op, #y, \
                      ck_x, ck_y);                                                              \
    } while (0)
#define ck_assert_int_eq(x, y)    BARE_COMPARE(intmax_t, "%jd", x, ==, y)
#define ck_assert_int_ne(x, y)    BARE_COMPARE(intmax_t, "%jd", x, !=, y)
#define ck_assert_int_lt(x, y)    BARE_COMPARE(intmax_t, "%jd", x, <, y)
#define ck_assert_int_le(x, y)    BARE_COMPARE(intmax_t, "%jd", x, <=, y)
#define ck_assert_int_gt(x, y)    BARE_COMPARE(intmax_t, "%jd", x, >, y)
#define ck_assert_int_ge(x, y)    BARE_COMPARE(intmax_t, "%jd", x, >=, y)
#define ck_assert_uint_eq(x, y)   BARE_COMPARE(uintmax_t, "%ju", x, ==, y)
#define ck_assert_float_eq(x, y)  BARE_COMPARE(float, "%.9g", x, ==, y)
#define ck_assert_double_eq(x, y) BARE_COMPARE(double, "%.17g", x, ==, y)
#define ck_assert_double_ne(x, y) BARE_COMPARE(double, "%.17g", x, !=, y)
#define ck_assert_double_le(x, y) BARE_COMPARE(double, "%.17g", x, <=, y)
#define ck_assert_double_lt(x, y) BARE_COMPARE(double, "%.17g", x, <, y)
#define ck_assert_double_gt(x, y) BARE_COMPARE(double, "%.17g", x, >, y)
#define ck_assert_double_ge(x, y) BARE_COMPARE(double, "%.17g", x, >=, y)
#define ck_assert_ptr_eq(x, y)    BARE_COMPARE(void *, "%p", (void *)(x), ==, (void *)(y))
#define ck_assert_ptr_null(x)     ck_assert_msg((x) == NULL, "%s is not NULL", #x)
#define ck_assert_ptr_nonnull(x)  ck_assert_msg((x) != NULL, "%s is NULL", #x)

#define ck_assert_double_eq_tol(x, y, tolerance)                                                  \
    do {                                                                                          \
        const double ck_x = (x);                                                                  \
        const double ck_y = (y);                                                                  \
        ck_assert_msg(fabs(ck_x - ck_y) < (tolerance), "%s is %.17g, and %s %.17g", #x, ck_x, #y, \
                      ck_y);                                                                      \
    } while (0)
/* On failure, (null) is printed for NULL. */
#define ck_assert_str_eq(x, y)                                                               \
    do {                                                                                     \
        const char *ck_x = (x);                                                              \
        const char *ck_y = (y);                                                              \
        ck_assert_msg(bare_same(ck_x, ck_y), "%s is '%s', and %s '%s'", #x, ck_x, #y, ck_y); \
    } while (0)

/*
 * wrong.c: one test that passes, and then tests that must not: one for each assertion of check.h,
 * and one for each other way in which a test can end. It shows that the runner notices all of them.
 */
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static bool begun;
static void begin(void) { begun = true; }

START_TEST(test_right) {
    int once = 0;
    ck_assert(begun);
    ck_assert_msg(true, "%s", "true");
    ck_assert_int_eq(once++, 0);
    ck_assert_int_eq(once, 1);
    ck_assert_uint_eq(UINTMAX_MAX, UINTMAX_MAX);
    ck_assert_double_eq(0.1, 0.1);
    ck_assert_double_eq_tol(1, 1.5, 0.6);
    ck_assert_str_eq("text", "text");
    ck_assert_ptr_eq(&once, &once);
    ck_assert_ptr_null(NULL);
    ck_assert_ptr_nonnull(&once);
}
END_TEST

/* A different assertion fails for each loop index _i. */
START_TEST(test_wrong) {
    const char *volatile none = NULL;
    const int x = 1;
    if (_i == 0)
        ck_assert(x == 2);
    if (_i == 1)
        ck_assert_msg(x == 2, "%d%%", x);
    if (_i == 2)
        ck_abort_msg("no");
    if (_i == 3)
        ck_assert_int_eq(x, 2);
    if (_i == 4)
        ck_assert_int_ne(x, 1);
    if (_i == 5)
        ck_assert_int_lt(x, 1);
    if (_i == 6)
        ck_assert_int_le(x, 0);
    if (_i == 7)
        ck_assert_int_gt(x, 1);
    if (_i == 8)
        ck_assert_int_ge(x, 2);
    if (_i == 9)
        ck_assert_uint_eq(UINTMAX_MAX, UINTMAX_MAX - 1);
    if (_i == 10)
        ck_assert_float_eq(1, nextafterf(1, 2));
    if (_i == 11)
        ck_assert_double_eq(NAN, NAN);
    if (_i == 12)
        ck_assert_double_lt(1, 1);
    if (_i == 13)
        ck_assert_double_gt(1, 1);
    if (_i == 14)
        ck_assert_double_eq_tol(1, 1.5, 0.4);
    if (_i == 15)
        ck_assert_double_eq_tol(1, NAN, 0.4);
    if (_i == 16)
        ck_assert_ptr_eq(&x, &none);
    if (_i == 17)
        ck_assert_ptr_null(&x);
    if (_i == 18)
        ck_assert_ptr_nonnull(none);
    if (_i == 19)
        ck_assert_str_eq("text", "Text");
    if (_i == 20)
        ck_assert_str_eq(none, none);
    if (_i == 21)
        ck_assert_double_ne(1, 1);
    if (_i == 22)
        ck_assert_double_le(1, 0.5);
}
END_TEST
enum { WRONG = 23 };

/* For each loop index _i, the test ends in a different way before its last line. */
START_TEST(test_exits) {
    if (_i == 0)
        exit(0);
    if (_i == 1)
        abort();
    pause();
}
END_TEST
enum { EXITS = 3 };

int main(void) {
    Suite *suite = suite_create("wrong");
    TCase *tcase = tcase_create("wrong");
    tcase_set_timeout(tcase, 1);
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, test_right);
    tcase_add_loop_test(tcase, test_wrong, 0, WRONG);
    tcase_add_loop_test(tcase, test_exits, 0, EXITS);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == WRONG + EXITS ? EXIT_SUCCESS : EXIT_FAILURE;
}

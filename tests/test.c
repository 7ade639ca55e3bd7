/* test.c: the runner behind test.h. */
#include "test.h"
#include "sanitized.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/tensor.h"
#include "tensor/thread.h"

#include <stdio.h>
#include <string.h>

int rg_emulated(void) {
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
}

bool rg_begins_with_name(const char *message) {
    const char *end = strstr(message, ": ");
    return end && end > message && end - message < 40 && strchr(end + 2, ' ');
}

int rg_slow(void) { return ASAN || TSAN || rg_emulated() || getenv("EMULATED"); }

int rg_memory_may_stay;

/* The number of bytes that were left at the end of the last test. */
static int64_t bytes;

/* Resets the error and the default dtype, which the previous test may have changed in the same
 * process. */
static void begin_anew(void) {
    rg_error_clear();
    rg_set_default_dtype(RG_FLOAT32);
}

/* Requires that a test has freed all its memory, except the root scope's, and has passed each
 * block's size to the function that frees it; that no call still observes the thread; and that each
 * failure that was set aside was brought back. */
static void end_clean(void) {
    rgi_scope_end_thread(rgi_me);
    ck_assert_msg(!rgi_this.observer, "the thread is still observed");
    ck_assert_msg(rgi_this.aside == 0, "%d failures are still set aside", rgi_this.aside);
    int64_t more = rg_memory_stats().now - bytes;
    bytes += more;
    ck_assert_msg(rgi_memory_spoilt == 0, "%ld blocks were written to behind their ends",
                  (long)rgi_memory_spoilt);
    ck_assert_msg(more == 0 || rg_memory_may_stay, "%lld bytes are left behind", (long long)more);
}

TCase *rg_tcase(const char *name) {
    setenv("REGARD_ERRORS", "quiet", 0);
    TCase *tcase = tcase_create(name);
    /* The limit catches a hang and measures nothing, since valgrind is slow. */
    tcase_set_timeout(tcase, 1800);
    return tcase;
}

int rg_run(const char *name, TCase *tcase) {
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed;
}

int rg_run_tests(const char *name, int guarded, size_t n, const TTest *const cases[]) {
    /* Lines are written at once, since a child may die before it would flush them. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    rgi_memory_guarded = guarded;
    TCase *tcase = rg_tcase(name);
    tcase_add_checked_fixture(tcase, begin_anew, end_clean);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tcase, cases[i]);
    return rg_run(name, tcase) ? EXIT_FAILURE : EXIT_SUCCESS;
}

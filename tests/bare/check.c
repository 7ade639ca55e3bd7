/*
 * check.c: the runner behind tests/bare/check.h. It prints Check's summary. Before the summary it
 * prints a line for each test that failed, or whose process ended before the test's last line.
 */
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _WIN32
#include <process.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of a test's process, if it isn't BARE_LEFT_OUT. A test that calls exit(0) has not
 * passed. */
enum { PASSED = 42, FAILED = 43 };

enum { MOST = 4096 };

struct TCase {
    void (*setup)(void), (*teardown)(void);
    double timeout;
    int n;
    struct {
        const TTest *test;
        int i;
    } tests[MOST];
};

struct Suite {
    const char *name;
    TCase *tcase;
};

struct SRunner {
    Suite *suite;
    int failures, errors;
};

static void *zeroed(size_t size) {
    void *p = calloc(1, size);
    if (!p)
        abort();
    return p;
}

/* ---- suites and tests ------------------------------------------------------------------------ */

TCase *tcase_create(const char *name) {
    (void)name;
    return zeroed(sizeof(TCase));
}

void tcase_set_timeout(TCase *tcase, double seconds) { tcase->timeout = seconds; }

void tcase_add_checked_fixture(TCase *tcase, void (*setup)(void), void (*teardown)(void)) {
    tcase->setup = setup;
    tcase->teardown = teardown;
}

void tcase_add_loop_test(TCase *tcase, const TTest *test, int begin, int end) {
    for (int i = begin; i < end; i++) {
        if (tcase->n == MOST)
            abort();
        tcase->tests[tcase->n].test = test;
        tcase->tests[tcase->n++].i = i;
    }
}

void tcase_add_test(TCase *tcase, const TTest *test) { tcase_add_loop_test(tcase, test, 0, 1); }

Suite *suite_create(const char *name) {
    Suite *suite = zeroed(sizeof *suite);
    suite->name = name;
    return suite;
}

void suite_add_tcase(Suite *suite, TCase *tcase) {
    if (suite->tcase)
        abort();
    suite->tcase = tcase;
}

SRunner *srunner_create(Suite *suite) {
    SRunner *runner = zeroed(sizeof *runner);
    runner->suite = suite;
    return runner;
}

void srunner_free(SRunner *runner) {
    free(runner->suite->tcase);
    free(runner->suite);
    free(runner);
}

/* ---- running --------------------------------------------------------------------------------- */

void bare_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d:F: ", file, line);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    fflush(NULL);
    _exit(FAILED);
}

/* Runs a test in this process, and then ends the process. */
static _Noreturn void run_here(const TCase *tcase, int which) {
    alarm((unsigned)tcase->timeout);
    if (tcase->setup)
        tcase->setup();
    tcase->tests[which].test->run(tcase->tests[which].i);
    if (tcase->teardown)
        tcase->teardown();
    exit(PASSED);
}

/* Runs a test in a process of its own, and returns how it ended. */
#ifdef _WIN32
/* Starts this program again, which finds the test's index in the environment variable BARE_TEST.
 * Wine sometimes can't start a process on a busy machine (CreateProcess fails with
 * ERROR_INTERNAL_ERROR). The test hasn't begun then, and is started again. */
static int run_apart(const Suite *suite, int which) {
    enum { ATTEMPTS = 20 };
    const char *test = suite->tcase->tests[which].test->name;
    const char *reason = bare_reason_to_leave_out(suite->name, test);
    if (reason) {
        printf("%s: ", reason);
        return BARE_LEFT_OUT;
    }
    char index[16];
    snprintf(index, sizeof index, "%d", which);
    setenv("BARE_TEST", index, 1);
    intptr_t status;
    int attempts = 0;
    do {
        errno = 0;
        status = _spawnl(_P_WAIT, _pgmptr, "test", NULL);
    } while (status == -1 && errno && ++attempts < ATTEMPTS);
    return (int)status;
}
#else
static int run_apart(const Suite *suite, int which) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        run_here(suite->tcase, which);
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    return status;
}
#endif

/* Counts a test that has ended. If it hasn't passed, prints how it ended. */
static void count(SRunner *runner, int which, int status) {
    const TCase *tcase = runner->suite->tcase;
    if (WIFEXITED(status) && WEXITSTATUS(status) == PASSED)
        return;
    printf("%s, %d: ", tcase->tests[which].test->name, tcase->tests[which].i);
    if (WIFEXITED(status) && WEXITSTATUS(status) == FAILED) {
        runner->failures++;
        puts("failed");
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == BARE_LEFT_OUT) {
        puts("left out");
        return;
    }
    runner->errors++;
    if (WIFSIGNALED(status))
        printf("ended by signal %d\n", WTERMSIG(status));
    else
        printf("ended with status %d\n", WEXITSTATUS(status));
}

void srunner_run_all(SRunner *runner, enum print_output mode) {
    const Suite *suite = runner->suite;
    const int n = suite->tcase->n;
    (void)mode;
    if (getenv("BARE_TEST"))
        run_here(suite->tcase, atoi(getenv("BARE_TEST")));
    printf("Running suite(s): %s\n", suite->name);
    for (int which = 0; which < n; which++) {
        /* A child would print buffered output a second time. */
        fflush(NULL);
        count(runner, which, run_apart(suite, which));
    }
    const int bad = srunner_ntests_failed(runner);
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n", n ? 100 * (n - bad) / n : 100, n,
           runner->failures, runner->errors);
}

int srunner_ntests_failed(SRunner *runner) { return runner->failures + runner->errors; }

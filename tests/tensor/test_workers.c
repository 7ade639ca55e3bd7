/* test_workers.c: the pool's threads, for any number of them. All that are free take part. Many
 * callers may use them at once, and so may the child of a fork. The system may grant fewer threads.
 * A caller doesn't wait for a busy thread, and a program may end while threads work. */
#include "tests/test.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/workers.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
enum { TSAN = 1 }; /* ThreadSanitizer allows no threads in the child of a fork. */
#else
enum { TSAN = 0 };
#endif

/* Counts how often each thread was called. */
typedef struct {
    rg_job job;
    atomic_int calls[RG_MOST_THREADS];
} counting;

static void count_call(rg_job *job, int me) {
    atomic_fetch_add(&((counting *)job)->calls[me], 1);
}

/* Returns the number of threads that took part, or -1 if a thread was called twice. */
static int threads_that_help(int threads) {
    static counting c;
    memset(&c, 0, sizeof c);
    c.job = (rg_job){ .help = count_call, .threads = threads };
    rgi_run_job(&c.job);
    int called = 0;
    for (int i = 0; i < RG_MOST_THREADS; i++) {
        if (c.calls[i] > 1)
            return -1;
        called += c.calls[i];
    }
    return called;
}

/* Counts how often each part of a job was done. */
typedef struct {
    atomic_int times[300];
    bool nested;
} parts;

/* Inside a job, worker 0 must do all parts of a nested job. A part that another worker does counts
 * as 100. */
static void nested_part(void *context, int64_t begin, int64_t end, int worker) {
    parts *p = context;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&p->times[i], worker == 0 ? 1 : 100);
}

static void do_part(void *context, int64_t begin, int64_t end, int worker) {
    parts *p = context;
    const int n = RG_COUNT(p->times);
    (void)worker;
    if (p->nested && begin == 0)
        rgi_parallel(n, 7, rgi_workers(n, 7), nested_part, p);
    else if (!p->nested)
        nested_part(context, begin, end, 0);
}

static bool does_each_part_once(bool nested) {
    parts p = { .nested = nested };
    const int n = RG_COUNT(p.times);
    rgi_parallel(n, 4, rgi_workers(n, 4), do_part, &p);
    for (int i = 0; i < n; i++)
        if (p.times[i] != 1)
            return false;
    return true;
}

START_TEST(test_all_take_part) {
    static const int counts[] = { 2, 1, 16, 3, 40, 7, 2 };
    rgi_gather_workers = true;
    for (int times = 0; times < 20; times++)
        for (int k = 0; k < RG_COUNT(counts); k++)
            ck_assert_int_eq(threads_that_help(counts[k]), counts[k]);
}
END_TEST

/* If there are more threads than cores, the pool measures whether the threads' help pays, and goes
 * on with the better way. */
START_TEST(test_some_take_part) {
    for (int times = 0; times < (rg_slow() ? 200 : 20000); times++) {
        const int threads = 2 + times % 31;
        const int helped = threads_that_help(threads);
        ck_assert(helped >= 1 && helped <= threads);
        rg_set_num_threads(threads);
        ck_assert(does_each_part_once(times % 2));
    }
}
END_TEST

/* ---- many callers ------------------------------------------------------------------------ */

static atomic_int wrong;
static void *call_often(void *nested) {
    for (int times = 0; times < (rg_slow() ? 300 : 5000); times++)
        if (!does_each_part_once(nested && times % 2))
            atomic_fetch_add(&wrong, 1);
    return NULL;
}

START_TEST(test_many_callers) {
    pthread_t callers[8];
    for (int threads = 2; threads <= 5; threads += 3) {
        rg_set_num_threads(threads);
        for (int i = 0; i < RG_COUNT(callers); i++)
            ck_assert(!pthread_create(&callers[i], NULL, call_often, i % 2 ? callers : NULL));
        for (int times = 0; times < 100; times++)
            rg_set_num_threads(1 + times % 6);
        for (int i = 0; i < RG_COUNT(callers); i++)
            pthread_join(callers[i], NULL);
    }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

/* A job whose threads count themselves in `here`, and then wait for `released`. */
typedef struct {
    rg_job job;
    atomic_int here;
    atomic_bool released;
} holding;

static void hold(rg_job *job, int me) {
    holding *h = (holding *)job;
    (void)me;
    atomic_fetch_add(&h->here, 1);
    while (!h->released)
        usleep(100);
}

static void *run_job(void *job) {
    rgi_run_job(job);
    return NULL;
}

/* If another caller holds all workers, this caller works alone. */
START_TEST(test_nobody_waits_for_who_has_not_begun) {
    static holding h = { .job = { .help = hold, .threads = 4 } };
    pthread_t other;
    rgi_gather_workers = true;
    ck_assert(!pthread_create(&other, NULL, run_job, &h.job));
    while (h.here < 4)
        usleep(100);
    ck_assert_int_eq(threads_that_help(4), 1);
    ck_assert_int_eq(threads_that_help(6), 3); /* The pool starts two more threads. */
    rg_set_num_threads(4);
    ck_assert(does_each_part_once(false));
    h.released = true;
    pthread_join(other, NULL);
    ck_assert_int_eq(threads_that_help(4), 4);
}
END_TEST

/* ---- signals and cancellation ------------------------------------------------------------ */

typedef struct {
    rg_job job;
    atomic_int open; /* The number of workers with a wrong mask. */
} masked;

static void look_at_mask(rg_job *job, int me) {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (me > 0 && (!sigismember(&set, SIGUSR1) || !sigismember(&set, SIGINT)
                   || !sigismember(&set, SIGALRM) || sigismember(&set, SIGSEGV)))
        atomic_fetch_add(&((masked *)job)->open, 1);
}

/* The workers block signals, so the program's threads get them. The mask of the caller stays the
 * same. */
START_TEST(test_signals_are_for_the_program) {
    masked m = { .job = { .help = look_at_mask, .threads = 4 } };
    rgi_gather_workers = true;
    rgi_run_job(&m.job);
    ck_assert_int_eq(m.open, 0);
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    ck_assert(!sigismember(&set, SIGUSR1));
}
END_TEST

typedef struct {
    rg_job job;
    pthread_t caller;
    atomic_bool ended;
} cancelling;

/* Cancels the caller, and works until the caller waits asleep. */
static void cancel_caller(rg_job *job, int me) {
    cancelling *c = (cancelling *)job;
    if (me == 0)
        return;
    pthread_cancel(c->caller);
    usleep(20000);
    c->ended = true;
}

static atomic_bool ended_first;
static void *be_cancelled(void *unused) {
    cancelling c = { .job = { .help = cancel_caller, .threads = 2 }, .caller = pthread_self() };
    rgi_run_job(&c.job);
    ended_first = c.ended;
    pthread_testcancel();
    return unused;
}

START_TEST(test_a_caller_is_cancelled_after_its_job) {
    pthread_t caller;
    void *result;
    if (rg_slow() && !TSAN) /* AddressSanitizer fails when a cancelled thread ends. */
        return;
    rgi_gather_workers = true;
    ck_assert(!pthread_create(&caller, NULL, be_cancelled, NULL));
    pthread_join(caller, &result);
    ck_assert(ended_first && result == PTHREAD_CANCELED);
}
END_TEST

/* ---- forks, ends, and denied threads ----------------------------------------------------- */

static void succeeds(pid_t child) {
    int status;
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ends with %x", status);
}

/* Returns whether forked children can't be tested. valgrind counts the blocks of the parent's
 * threads as leaks of the child, and QEMU can't fork a program with threads. */
static bool forks_badly(void) { return rg_emulated() || getenv("EMULATED"); }

/* The child of a fork starts its own threads, even if other threads of the parent are in jobs. With
 * sanitizers this isn't tested, because their locks may stay taken in the child. */
START_TEST(test_fork) {
    pthread_t other;
    rg_set_num_threads(3);
    if (rg_slow())
        return;
    ck_assert(!pthread_create(&other, NULL, call_often, NULL));
    for (int times = 0; times < 10; times++) {
        rgi_gather_workers = false;
        ck_assert(does_each_part_once(false));
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            rgi_gather_workers = true;
            _exit(threads_that_help(4) != 4 || !does_each_part_once(false));
        }
        succeeds(child);
    }
    pthread_join(other, NULL);
}
END_TEST

static void *call_forever(void *unused) {
    for (;;)
        does_each_part_once(false);
    return unused;
}

/* A program may end while another thread runs jobs. A function that atexit registered then works
 * alone. */
static void run_at_the_end(void) {
    if (threads_that_help(4) < 1)
        _exit(1);
}

START_TEST(test_a_program_ends) {
    if (forks_badly())
        return;
    for (int times = 0; times < 20; times++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t other;
            alarm(60);
            rg_set_num_threads(3);
            if (pthread_create(&other, NULL, call_forever, NULL))
                _exit(1);
            atexit(run_at_the_end);
            does_each_part_once(false);
            exit(0);
        }
        succeeds(child);
    }
}
END_TEST

/* If the system grants no threads, the caller does the work. Later the system may grant some. */
static int child_without_threads(void) {
    struct rlimit all, none;
    rgi_gather_workers = true;
    if (threads_that_help(2) != 2 || getrlimit(RLIMIT_AS, &all))
        return 1;
    none = all;
    none.rlim_cur = 1 << 20;
    if (setrlimit(RLIMIT_AS, &none))
        return 2;
    if (threads_that_help(30) != 2 || threads_that_help(30) != 2)
        return 3;
    rg_set_num_threads(30);
    if (!does_each_part_once(false) || setrlimit(RLIMIT_AS, &all))
        return 4;
    if (threads_that_help(5) != 2)
        return 5;
    rg_set_num_threads(30);
    return threads_that_help(5) == 5 ? 0 : 6;
}

/* The test is left out with a sanitizer, which needs memory itself. It is also left out in one
 * process with other tests, where new threads would get the stacks of ended threads. */
START_TEST(test_denied_threads) {
    const char *fork_mode = getenv("CK_FORK");
    if (rg_slow() || forks_badly() || (fork_mode && strcmp(fork_mode, "no") == 0))
        return;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(child_without_threads());
    }
    succeeds(child);
}
END_TEST

RG_TESTS_UNGUARDED(workers, test_all_take_part, test_some_take_part, test_many_callers,
                   test_nobody_waits_for_who_has_not_begun, test_signals_are_for_the_program,
                   test_a_caller_is_cancelled_after_its_job, test_fork, test_a_program_ends,
                   test_denied_threads)

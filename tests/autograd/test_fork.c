/*
 * test_fork.c: a child of fork can use the whole library, whatever the parent's other threads were
 * doing. No lock of the library is held by a thread that the child doesn't have.
 */
#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "tensor/threads/lock.h"
#include "tensor/random/random.h"
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns whether a child could be made and did the work within ten seconds. */
static bool child_does(void (*work)(int), int i) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        work(i);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
           && WEXITSTATUS(status) == 0;
}

/* Returns false if CK_FORK=no says that tests must not fork. It also returns false under the
 * sanitizers, where a child may hang in malloc, or ends with an error because it lacks its parent's
 * threads. */
static bool may_fork(void) {
    const char *mode = getenv("CK_FORK");
    return !(mode && strcmp(mode, "no") == 0) && !rg_slow();
}

/* ---- each lock ------------------------------------------------------------------------- */

static rg_generator *generators[2];
enum { HELD = RG_LOCKS + RG_COUNT(generators) };

static void hold(int i) {
    if (i < RG_LOCKS)
        rgi_lock(i);
    else
        rgi_generator_lock(generators[i - RG_LOCKS], "a test");
}

static void let_go(int i) {
    if (i < RG_LOCKS)
        rgi_unlock(i);
    else
        rgi_generator_unlock(generators[i - RG_LOCKS]);
}

static void hold_and_let_go(int i) {
    hold(i);
    let_go(i);
}

static atomic_bool held;

static void *hold_for_a_while(void *i) {
    hold((int)(intptr_t)i);
    atomic_store(&held, true);
    usleep(30000);
    let_go((int)(intptr_t)i);
    return NULL;
}

START_TEST(test_each_lock) {
    if (!may_fork())
        return;
    generators[0] = rg_default_generator();
    generators[1] = rg_generator_new(3);
    for (int i = 0; i < HELD; i++) {
        pthread_t thread;
        atomic_store(&held, false);
        pthread_create(&thread, NULL, hold_for_a_while, (void *)(intptr_t)i);
        while (!atomic_load(&held))
            usleep(100);
        ck_assert_msg(child_does(hold_and_let_go, i), "lock %d is held in the child", i);
        hold_and_let_go(i);
        pthread_join(thread, NULL);
    }
    rg_generator_free(generators[1]);
}
END_TEST

/* ---- work ------------------------------------------------------------------------------ */

static atomic_bool over;

static void work(int i) {
    rg_generator *own = rg_generator_new((uint64_t)i);
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(20, 20), true);
    rg_tensor *x = rg_rand_dims(RG_DIMS(300, 20), RG_FLOAT32, own);
    rg_tensor *view = rg_select(x, 0, 1);
    rg_mul_(x, 2);
    rg_backward(rg_sum(rg_add(rg_matmul(x, w), rg_sum(view))));
    rg_generator_free(own);
    if (rg_error_code() || !rg_grad_of(w))
        abort();
}

static void *work_on(void *i) {
    while (!atomic_load(&over))
        work((int)(intptr_t)i);
    return NULL;
}

static void *work_once(void *i) {
    work((int)(intptr_t)i);
    return NULL;
}

static void *begin_and_end(void *unused) {
    while (!atomic_load(&over)) {
        pthread_t thread;
        pthread_create(&thread, NULL, work_once, unused);
        pthread_join(thread, NULL);
    }
    return unused;
}

START_TEST(test_while_others_work) {
    enum { THREADS = 3, FORKS = 100 };
    pthread_t thread[THREADS];
    if (!may_fork())
        return;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, i ? work_on : begin_and_end, (void *)(intptr_t)i);
    bool all = true;
    for (int i = 0; i < FORKS && all; i++)
        all = child_does(work, i);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ck_assert_msg(all, "a child hung");
}
END_TEST

RG_TESTS_UNGUARDED(fork, test_each_lock, test_while_others_work)

/*
 * workers.c: workers, the threads that help a caller with a job. workers.h explains jobs, and
 * parallel.c makes them of loops.
 *
 * Every worker has an atomic word, in which callers offer it their jobs. A caller never waits for a
 * worker that hasn't begun: when no part of the job is left, it withdraws the offers that weren't
 * accepted, and waits for the workers that have begun. So a worker that gets no core costs nothing.
 *
 * After a job a worker spins for a moment, since the next job is often close, and then sleeps. On a
 * busy machine it sleeps at once, and a job is helped only if that pays; busy.c decides both.
 */
#define _GNU_SOURCE
#include "workers.h"

#include "busy.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* The values of a worker's word, besides the address of a job. The address alone is an offer;
 * POOL_BEGUN is added when the worker has begun, and POOL_AWAITED when the caller sleeps until the
 * worker has ended. ABSENT means that the worker has no thread, and OVER that it won't have one
 * again. */
enum {
    POOL_BEGUN = 1,
    POOL_AWAITED = 2,
    POOL_ABSENT = 0,
    POOL_FREE = 8,
    POOL_ASLEEP = 16,
    POOL_OVER = 24,
};

/* A worker. It sleeps until `called` is signalled, and its caller until `ended` is, both with the
 * mutex. */
typedef struct {
    _Alignas(128) _Atomic uintptr_t word;
    pthread_mutex_t mutex;
    pthread_cond_t called, ended;
    pthread_t thread;
} pool_worker;

/* Worker 0 is the caller, and its entry isn't used. */
static pool_worker workers[RG_MOST_THREADS];
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* The pool. `present` is the number of threads, including the caller. `most` is the number of
 * threads that the system allows, as far as is known. When `over` is set, no more threads are
 * started. The mutex guards these three. `crowded` is set while a job has more threads than there
 * are `cores`. */
static struct {
    pthread_mutex_t mutex;
    atomic_int present, most;
    bool over;
    atomic_int cores;
    atomic_bool crowded;
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .present = 1, .most = RG_MOST_THREADS };

bool rgi_gather_workers;

bool rgi_in_job(void) { return inside; }

int rgi_cores(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return RG_MAX(1, CPU_COUNT(&set));
#endif
    return (int)RG_MAX(1, sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- waiting ----------------------------------------------------------------------------- */

static inline void pool_pause(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb");
#endif
}

/* Returns whether other threads compete for the core. */
static bool pool_is_busy(int64_t now) {
    return rgi_machine_is_busy(now)
           || atomic_load_explicit(&pool.crowded, memory_order_relaxed);
}

/* Times in nanoseconds. A thread spins for POOL_SPIN before it sleeps, or for POOL_SPIN_BUSY on a
 * busy machine. If POOL_LOST passes between two reads of the clock, it has lost its core. */
enum { POOL_SPIN = 200000, POOL_SPIN_BUSY = 4000, POOL_LOST = 300000 };

/* Spins until the word isn't `value`, or the time is over. Returns the word. */
static uintptr_t pool_spin(_Atomic uintptr_t *word, uintptr_t value) {
    enum { LOOKS = 32 }; /* The number of reads of the word for each read of the clock. */
    int64_t began = 0, last = 0;
    for (;;) {
        for (int i = 0; i < LOOKS; i++) {
            const uintptr_t seen = atomic_load_explicit(word, memory_order_acquire);
            if (seen != value)
                return seen;
            pool_pause();
        }
        const int64_t now = rgi_now();
        if (!began)
            began = now;
        else if (now - last > POOL_LOST)
            rgi_note_busy(now);
        if (now - began > (pool_is_busy(now) ? POOL_SPIN_BUSY : POOL_SPIN))
            return value;
        last = now;
    }
}

/* ---- a worker ---------------------------------------------------------------------------- */

static uintptr_t pool_word(pool_worker *w) {
    return atomic_load_explicit(&w->word, memory_order_acquire);
}

static bool pool_change(pool_worker *w, uintptr_t from, uintptr_t to) {
    return atomic_compare_exchange_strong_explicit(&w->word, &from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Offers the job to a worker, and wakes it if it sleeps. Returns false if the worker isn't free. If
 * its mutex is locked, it is falling asleep or waking, and counts as not free. */
static bool pool_offer(pool_worker *w, rg_job *job) {
    const uintptr_t word = pool_word(w);
    if (word == POOL_FREE)
        return pool_change(w, POOL_FREE, (uintptr_t)job);
    if (word != POOL_ASLEEP || pthread_mutex_trylock(&w->mutex))
        return false;
    const bool offered = pool_change(w, POOL_ASLEEP, (uintptr_t)job);
    pthread_mutex_unlock(&w->mutex);
    if (offered)
        pthread_cond_signal(&w->called);
    return offered;
}

/* Offers the job to the workers 2 i + 1 and 2 i + 2 from thread i, so that no thread has to call
 * all others. If one of the two isn't free, the two workers that it would call are called instead.
 */
static void pool_call(rg_job *job, int i) {
    for (int k = 2 * i + 1; k <= 2 * i + 2 && k < job->threads; k++)
        if (!pool_offer(&workers[k], job))
            pool_call(job, k);
}

/* Sleeps until the worker is called. */
static void pool_sleep(pool_worker *w) {
    pthread_mutex_lock(&w->mutex);
    if (pool_change(w, POOL_FREE, POOL_ASLEEP))
        while (pool_word(w) == POOL_ASLEEP)
            pthread_cond_wait(&w->called, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
}

static void pool_help(pool_worker *w, rg_job *job) {
    const int i = (int)(w - workers);
    if (!rgi_gather_workers)
        pool_call(job, i);
    const int64_t began = job->timed ? rgi_clock(CLOCK_THREAD_CPUTIME_ID) : 0;
    job->help(job, i);
    if (job->timed)
        atomic_fetch_add_explicit(&job->helped, rgi_clock(CLOCK_THREAD_CPUTIME_ID) - began,
                                  memory_order_relaxed);
    if (atomic_exchange_explicit(&w->word, POOL_FREE, memory_order_acq_rel) & POOL_AWAITED) {
        pthread_mutex_lock(&w->mutex);
        pthread_cond_signal(&w->ended);
        pthread_mutex_unlock(&w->mutex);
    }
}

static void *worker_main(void *worker) {
    pool_worker *w = worker;
    inside = true;
    for (;;) {
        const uintptr_t word = pool_spin(&w->word, POOL_FREE);
        if (word == POOL_OVER)
            return NULL;
        if (word == POOL_FREE)
            pool_sleep(w);
        else if (pool_change(w, word, word | POOL_BEGUN))
            pool_help(w, (rg_job *)word);
    }
}

/* ---- the threads ------------------------------------------------------------------------- */

/* Starts the thread. It blocks all signals except those that it causes itself, and the profiler's:
 * the others are for the program's own threads. */
static int pool_create(pool_worker *w) {
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF };
    pthread_attr_t attributes;
    sigset_t blocked, before;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, 1 << 20);
    sigfillset(&blocked);
    for (int i = 0; i < RG_COUNT(own); i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(&w->thread, &attributes, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

static bool pool_start(pool_worker *w) {
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->called, NULL);
    pthread_cond_init(&w->ended, NULL);
    atomic_store_explicit(&w->word, POOL_FREE, memory_order_release);
    if (pool_create(w) == 0)
        return true;
    atomic_store_explicit(&w->word, POOL_ABSENT, memory_order_release);
    return false;
}

/* Handle forks. A child has no workers; its next job starts them. */
static void pool_before_fork(void) { pthread_mutex_lock(&pool.mutex); }
static void pool_in_parent(void) { pthread_mutex_unlock(&pool.mutex); }
static void pool_in_child(void) {
    pthread_mutex_unlock(&pool.mutex);
    const int n = atomic_exchange_explicit(&pool.present, 1, memory_order_relaxed);
    for (int i = 1; i < n; i++)
        atomic_store_explicit(&workers[i].word, POOL_ABSENT, memory_order_relaxed);
    rgi_retry_workers();
}

/* lock.c registers its handlers later, and says why. */
__attribute__((constructor(101))) static void pool_expect_forks(void) {
    pthread_atfork(pool_before_fork, pool_in_parent, pool_in_child);
}

/* Starts threads until there are `threads` of them, or as many as the system allows. */
static void pool_grow(int threads) {
    pthread_mutex_lock(&pool.mutex);
    int n = atomic_load_explicit(&pool.present, memory_order_relaxed);
    while (n < threads && !pool.over && pool_start(&workers[n])) {
        n++;
        atomic_store_explicit(&pool.present, n, memory_order_relaxed);
    }
    if (n < threads)
        atomic_store_explicit(&pool.most, n, memory_order_relaxed);
    atomic_store_explicit(&pool.cores, rgi_cores(), memory_order_relaxed);
    pthread_mutex_unlock(&pool.mutex);
}

/* Sets `crowded` for a job of this number of threads. */
static void pool_note_crowd(int threads) {
    const bool crowded = threads > atomic_load_explicit(&pool.cores, memory_order_relaxed);
    if (crowded != atomic_load_explicit(&pool.crowded, memory_order_relaxed))
        atomic_store_explicit(&pool.crowded, crowded, memory_order_relaxed);
}

void rgi_retry_workers(void) {
    atomic_store_explicit(&pool.most, RG_MOST_THREADS, memory_order_relaxed);
}

/* Tells a worker to end if it is free. Returns whether it was. */
static bool pool_dismiss(pool_worker *w) {
    pthread_mutex_lock(&w->mutex);
    const bool dismissed = pool_change(w, POOL_FREE, POOL_OVER)
                           || pool_change(w, POOL_ASLEEP, POOL_OVER);
    pthread_cond_signal(&w->called);
    pthread_mutex_unlock(&w->mutex);
    return dismissed;
}

/* Ends the workers when the process ends. A worker that is doing a job isn't ended, because its
 * caller is another thread, which runs until the process is gone. */
__attribute__((destructor)) static void pool_end(void) {
    pthread_mutex_lock(&pool.mutex);
    pool.over = true;
    const int n = atomic_load_explicit(&pool.present, memory_order_relaxed);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 1; i < n; i++)
        if (pool_dismiss(&workers[i]))
            pthread_join(workers[i].thread, NULL);
}

/* ---- a caller ---------------------------------------------------------------------------- */

/* Sleeps until the worker has ended the job. The job is on the caller's stack, so that cancelling
 * the caller is put off until then. */
static void pool_await(pool_worker *w, uintptr_t job) {
    const uintptr_t awaited = job | POOL_BEGUN | POOL_AWAITED;
    int cancel;
    if (!pool_change(w, job | POOL_BEGUN, awaited))
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&w->mutex);
    while (pool_word(w) == awaited)
        pthread_cond_wait(&w->ended, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    pthread_setcancelstate(cancel, NULL);
}

/* Withdraws the job from the workers that haven't begun, and waits for the others. Workers are
 * visited in ascending order, since each was offered the job by a thread with a lower number, which
 * has ended by then and makes no more offers. */
static void pool_collect(rg_job *job) {
    const uintptr_t offer = (uintptr_t)job;
    for (int i = 1; i < job->threads; i++) {
        pool_worker *w = &workers[i];
        if (pool_word(w) == offer && pool_change(w, offer, POOL_FREE))
            continue;
        if (pool_spin(&w->word, offer | POOL_BEGUN) == (offer | POOL_BEGUN))
            pool_await(w, offer);
    }
}

/* Offers the job to all workers, and waits for those that are free to begin. */
static void pool_gather(rg_job *job) {
    for (int i = 1; i < job->threads; i++) {
        pool_worker *w = &workers[i];
        while (!pool_offer(w, job) && (pool_word(w) == POOL_FREE || pool_word(w) == POOL_ASLEEP))
            sched_yield();
    }
    for (int i = 1; i < job->threads; i++)
        while (pool_word(&workers[i]) == (uintptr_t)job)
            sched_yield();
}

static void pool_do(rg_job *job) {
    inside = true;
    job->help(job, 0);
    inside = false;
}

/* Runs the job on a busy machine, with help if that pays, and reports its processor time. */
static void pool_run_timed(rg_job *job, int64_t began) {
    const bool helped = rgi_help_pays(began);
    if (helped)
        pool_call(job, 0);
    const int64_t before = rgi_clock(CLOCK_THREAD_CPUTIME_ID);
    pool_do(job);
    const int64_t own = rgi_clock(CLOCK_THREAD_CPUTIME_ID) - before;
    if (helped)
        pool_collect(job);
    const int64_t workers_time = atomic_load_explicit(&job->helped, memory_order_relaxed);
    rgi_count_job(helped, own + workers_time, rgi_now() - began);
}

void rgi_run_job(rg_job *job) {
    const int present = atomic_load_explicit(&pool.present, memory_order_relaxed);
    if (job->threads > present && present < atomic_load_explicit(&pool.most, memory_order_relaxed))
        pool_grow(job->threads);
    pool_note_crowd(job->threads);
    const int64_t now = rgi_now();
    rgi_watch_machine(now);
    job->timed = pool_is_busy(now) && !rgi_gather_workers;
    if (job->timed) {
        pool_run_timed(job, now);
        return;
    }
    if (rgi_gather_workers)
        pool_gather(job);
    else
        pool_call(job, 0);
    pool_do(job);
    pool_collect(job);
}

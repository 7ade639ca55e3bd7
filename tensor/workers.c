/*
 * workers.c: the threads that help a caller with its work. workers.h says what a job is, and
 * parallel.c makes jobs of loops.
 *
 * Every worker has an atomic word of its own, in which callers offer their jobs to it. A caller
 * never waits for a worker that hasn't begun: when it finds no part left to do, it takes its offers
 * back, and waits for those who have begun. A worker that gets no core therefore costs nothing.
 *
 * After a job a worker spins for a moment, since the next job is often close, and then sleeps. When
 * a thread notices that others want its core, the machine counts as busy for a while. Then callers
 * try whether spinning pays, and whether help does.
 *
 * This file is long because what threads do on a quiet machine and on a busy one is the same
 * waiting: the two halves share the clock, the words and the jobs.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* A worker's word is one of these, or the address of a job. The address alone is an offer;
 * POOL_BEGUN is added when the worker has begun, and POOL_AWAITED when the caller sleeps until it
 * has ended. A worker that is ABSENT has no thread, and one that is OVER never will again. */
enum {
    POOL_BEGUN = 1,
    POOL_AWAITED = 2,
    POOL_ABSENT = 0,
    POOL_FREE = 8,
    POOL_ASLEEP = 16,
    POOL_OVER = 24,
};

/* The worker sleeps until `called`, and its caller until `ended`, both with the mutex. */
typedef struct {
    _Alignas(128) _Atomic uintptr_t word;
    pthread_mutex_t mutex;
    pthread_cond_t called, ended;
    pthread_t thread;
} pool_worker;

/* The worker 0 stands for the caller, and isn't used. */
static pool_worker workers[RG_MOST_THREADS];
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* `present` counts the threads, with the caller. The system refused to start more than `most`. With
 * `over` no thread is started any more. The mutex guards the three. The machine counts as busy
 * until `busy_until`, for `busy_for` nanoseconds at a time, and always while a job has more threads
 * than there are `cores`, which makes it `crowded`. */
static struct {
    pthread_mutex_t mutex;
    atomic_int present, most;
    bool over;
    atomic_int cores;
    atomic_bool crowded;
    _Atomic int64_t busy_until, busy_for;
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

/* The counters of this file order nothing: what one thread hands another goes by the words. */
static int64_t pool_get(const _Atomic int64_t *x) {
    return atomic_load_explicit(x, memory_order_relaxed);
}
static void pool_set(_Atomic int64_t *x, int64_t value) {
    atomic_store_explicit(x, value, memory_order_relaxed);
}
static void pool_add(_Atomic int64_t *x, int64_t more) {
    atomic_fetch_add_explicit(x, more, memory_order_relaxed);
}

/* ---- quiet and busy machines ------------------------------------------------------------- */

/* Times are in nanoseconds. A thread spins for POOL_SPIN before it sleeps, and for POOL_SPIN_BUSY
 * where spinning doesn't pay. A machine gets busy when a thread finds that POOL_LOST has passed
 * between two looks at the clock, or that it had to leave its core POOL_OFTEN times within about
 * POOL_WATCH. It stays so for POOL_BUSY, and for up to POOL_BUSY_MOST if it gets busy again and
 * again. */
enum {
    POOL_SPIN = 200000,
    POOL_SPIN_BUSY = 4000,
    POOL_LOST = 300000,
    POOL_OFTEN = 4,
    POOL_WATCH = 16000000,
    POOL_BUSY = 100000000,
    POOL_BUSY_MOST = 1600000000,
};

static int64_t pool_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int64_t pool_now(void) { return pool_clock(CLOCK_MONOTONIC); }

static bool pool_is_busy(int64_t now) {
    return now < pool_get(&pool.busy_until)
           || atomic_load_explicit(&pool.crowded, memory_order_relaxed);
}

static void pool_note_busy(int64_t now) {
    const int64_t until = pool_get(&pool.busy_until);
    int64_t length = RG_MAX(POOL_BUSY, pool_get(&pool.busy_for));
    if (now > until + length)
        length = POOL_BUSY;
    else if (now > until)
        length = RG_MIN(2 * length, POOL_BUSY_MOST);
    pool_set(&pool.busy_for, length);
    pool_set(&pool.busy_until, now + length);
}

/* Looks every POOL_WATCH how often the system has taken the thread's core away. */
static void pool_watch(int64_t now) {
#ifdef RUSAGE_THREAD
    static __thread long before __attribute__((tls_model("initial-exec")));
    static __thread int64_t next __attribute__((tls_model("initial-exec")));
    struct rusage usage;
    if (now < next || getrusage(RUSAGE_THREAD, &usage))
        return;
    if (now < next + POOL_WATCH && usage.ru_nivcsw - before >= POOL_OFTEN)
        pool_note_busy(now);
    before = usage.ru_nivcsw;
    next = now + POOL_WATCH;
#else
    (void)now;
#endif
}

/* ---- what pays on a busy machine --------------------------------------------------------- */

/* On a busy machine a worker that loses its core in the midst of a part keeps its caller waiting,
 * and one that spins may take its caller's core. A trial therefore runs jobs in each of three ways
 * for TRIAL_TIME. The way that did the most work a second is then used for TRIAL_CHOSEN_TIME. That
 * time doubles, up to TRIAL_CHOSEN_MOST, whenever the same way is chosen again, because each trial
 * moves threads between the cores. Processor time is the measure. Helped work
 * takes more of it, since its data move between the caches, and so help must bring TRIAL_HELP
 * times as much as the caller alone; for the sake of other programs spinning must bring TRIAL_SPIN
 * times as much as sleeping. */
enum { TRIAL_SPINNING, TRIAL_SLEEPING, TRIAL_ALONE, TRIAL_WAYS };
enum { TRIAL_TIME = 16000000, TRIAL_CHOSEN_TIME = 300000000, TRIAL_CHOSEN_MOST = 2000000000 };
#define TRIAL_HELP 1.3
#define TRIAL_SPIN 1.2

/* The stage, which lasts until `until`, is one of the ways, or TRIAL_WAYS while the chosen one is
 * in use. work[w] is the processor time of the jobs that were done in way w, and time[w] the time
 * that they took. */
static struct {
    atomic_int stage, chosen;
    _Atomic int64_t until, length, work[TRIAL_WAYS], time[TRIAL_WAYS];
} trial = { .stage = TRIAL_WAYS };

static double trial_rate(int way) {
    return (double)pool_get(&trial.work[way]) / (double)RG_MAX(1, pool_get(&trial.time[way]));
}

static int trial_best(void) {
    const double spinning = trial_rate(TRIAL_SPINNING), sleeping = trial_rate(TRIAL_SLEEPING);
    if (RG_MAX(spinning, sleeping) < TRIAL_HELP * trial_rate(TRIAL_ALONE))
        return TRIAL_ALONE;
    return spinning > TRIAL_SPIN * sleeping ? TRIAL_SPINNING : TRIAL_SLEEPING;
}

/* Chooses a way, and returns for how long. */
static int64_t trial_choose(void) {
    const int best = trial_best();
    const bool again =
        atomic_exchange_explicit(&trial.chosen, best, memory_order_relaxed) == best;
    const int64_t twice = RG_MIN(2 * pool_get(&trial.length), TRIAL_CHOSEN_MOST);
    const int64_t length = again ? RG_MAX(twice, TRIAL_CHOSEN_TIME) : TRIAL_CHOSEN_TIME;
    pool_set(&trial.length, length);
    return length;
}

static void trial_begin_stage(int stage, int64_t now) {
    int64_t length = TRIAL_TIME;
    if (stage < TRIAL_WAYS) {
        pool_set(&trial.work[stage], 0);
        pool_set(&trial.time[stage], 0);
    } else {
        length = trial_choose();
    }
    atomic_store_explicit(&trial.stage, stage, memory_order_relaxed);
    pool_set(&trial.until, now + length);
}

/* Returns the way in which jobs are done now. */
static int trial_way(void) {
    const int stage = atomic_load_explicit(&trial.stage, memory_order_relaxed);
    return stage < TRIAL_WAYS ? stage
                              : atomic_load_explicit(&trial.chosen, memory_order_relaxed);
}

/* Returns the way in which a job that begins now is done. A trial that nobody went on with, because
 * the machine was quiet meanwhile, begins anew. */
static int trial_go_on(int64_t now) {
    const int64_t until = pool_get(&trial.until);
    if (now > until) {
        const int stage = atomic_load_explicit(&trial.stage, memory_order_relaxed);
        const bool anew = stage == TRIAL_WAYS || now > until + TRIAL_TIME;
        trial_begin_stage(anew ? 0 : stage + 1, now);
    }
    return trial_way();
}

/* ---- waiting ----------------------------------------------------------------------------- */

static inline void pool_pause(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb");
#endif
}

/* Returns whether a thread may spin for long. */
static bool pool_may_spin(int64_t now) {
    return !atomic_load_explicit(&pool.crowded, memory_order_relaxed)
           && (!pool_is_busy(now) || trial_way() == TRIAL_SPINNING);
}

/* Waits for a while for the word to be another than `value`, and returns what it is then. */
static uintptr_t pool_spin(_Atomic uintptr_t *word, uintptr_t value) {
    enum { LOOKS = 32 }; /* This many come between two looks at the clock. */
    int64_t began = 0, last = 0;
    for (;;) {
        for (int i = 0; i < LOOKS; i++) {
            const uintptr_t seen = atomic_load_explicit(word, memory_order_acquire);
            if (seen != value)
                return seen;
            pool_pause();
        }
        const int64_t now = pool_now();
        if (!began)
            began = now;
        else if (now - last > POOL_LOST)
            pool_note_busy(now);
        if (now - began > (pool_may_spin(now) ? POOL_SPIN : POOL_SPIN_BUSY))
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

/* Returns the core that the thread is on, or -1. */
static int pool_core(void) {
#ifdef CPU_CLR
    return sched_getcpu();
#else
    return -1;
#endif
}

/* Offers the job to a worker, and wakes it if it sleeps. Returns false if it isn't free. A worker
 * whose mutex is taken is just falling asleep or waking, and counts as not free. */
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

/* Thread i offers the job to the workers 2 i + 1 and 2 i + 2, so that no thread has to call all
 * others. If one of the two isn't free, that worker's two are called instead. */
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

/* Moves the worker to another core if it is on its caller's, where the two would only take turns.
 * The system does that by itself, but on a busy machine it may take a tenth of a second. */
static void pool_leave_core(int core) {
#ifdef CPU_CLR
    cpu_set_t all, others;
    if (core < 0 || pool_core() != core || sched_getaffinity(0, sizeof all, &all))
        return;
    others = all;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
#else
    (void)core;
#endif
}

static void pool_help(pool_worker *w, rg_job *job) {
    const int i = (int)(w - workers);
    if (job->timed)
        pool_leave_core(job->core);
    if (!rgi_gather_workers)
        pool_call(job, i);
    const int64_t began = job->timed ? pool_clock(CLOCK_THREAD_CPUTIME_ID) : 0;
    job->help(job, i);
    if (job->timed)
        pool_add(&job->helped, pool_clock(CLOCK_THREAD_CPUTIME_ID) - began);
    if (atomic_exchange_explicit(&w->word, POOL_FREE, memory_order_acq_rel) & POOL_AWAITED) {
        pthread_mutex_lock(&w->mutex);
        pthread_cond_signal(&w->ended);
        pthread_mutex_unlock(&w->mutex);
    }
}

static void *pool_work(void *worker) {
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

/* Starts the thread with all signals blocked but those that it causes itself, and the profiler's:
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
    error = pthread_create(&w->thread, &attributes, pool_work, w);
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

/* Threads don't come along in a fork: the child's next job starts its own. */
static void pool_before_fork(void) { pthread_mutex_lock(&pool.mutex); }
static void pool_in_parent(void) { pthread_mutex_unlock(&pool.mutex); }
static void pool_in_child(void) {
    pthread_mutex_init(&pool.mutex, NULL);
    const int n = atomic_exchange_explicit(&pool.present, 1, memory_order_relaxed);
    for (int i = 1; i < n; i++)
        atomic_store_explicit(&workers[i].word, POOL_ABSENT, memory_order_relaxed);
    rgi_retry_workers();
}

static void pool_expect_forks(void) {
    pthread_atfork(pool_before_fork, pool_in_parent, pool_in_child);
}

/* Starts what is missing of this many threads, or as many as the system grants. */
static void pool_grow(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, pool_expect_forks);
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

/* Notes whether a job of this many threads crowds the cores. */
static void pool_note_crowd(int threads) {
    const bool crowded = threads > atomic_load_explicit(&pool.cores, memory_order_relaxed);
    if (crowded != atomic_load_explicit(&pool.crowded, memory_order_relaxed))
        atomic_store_explicit(&pool.crowded, crowded, memory_order_relaxed);
}

void rgi_retry_workers(void) {
    atomic_store_explicit(&pool.most, RG_MOST_THREADS, memory_order_relaxed);
}

/* Returns whether the worker was free, and lets it end. */
static bool pool_dismiss(pool_worker *w) {
    pthread_mutex_lock(&w->mutex);
    const bool dismissed = pool_change(w, POOL_FREE, POOL_OVER)
                           || pool_change(w, POOL_ASLEEP, POOL_OVER);
    pthread_cond_signal(&w->called);
    pthread_mutex_unlock(&w->mutex);
    return dismissed;
}

/* When the process ends, the workers end first. One that is at a job is left alone, because its
 * caller is another thread, which goes on until the process is gone. */
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

/* Sleeps until the worker has ended the job, which is on the caller's stack: hence a caller that is
 * cancelled meanwhile ends only after that. */
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

/* Takes the job back from the workers that haven't begun, and waits for the others. A worker
 * was offered the job by a thread with a lower number, which has ended by the time that the worker
 * is looked at. */
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

/* Does the job, and counts it in the trial. */
static void pool_run_timed(rg_job *job, int64_t began) {
    const int way = trial_go_on(began);
    job->core = way == TRIAL_SPINNING ? pool_core() : -1;
    if (way != TRIAL_ALONE)
        pool_call(job, 0);
    const int64_t used = pool_clock(CLOCK_THREAD_CPUTIME_ID);
    pool_do(job);
    const int64_t work = pool_clock(CLOCK_THREAD_CPUTIME_ID) - used;
    if (way != TRIAL_ALONE)
        pool_collect(job);
    pool_add(&trial.work[way], work + pool_get(&job->helped));
    pool_add(&trial.time[way], pool_now() - began);
}

void rgi_run_job(rg_job *job) {
    const int present = atomic_load_explicit(&pool.present, memory_order_relaxed);
    if (job->threads > present && present < atomic_load_explicit(&pool.most, memory_order_relaxed))
        pool_grow(job->threads);
    pool_note_crowd(job->threads);
    const int64_t now = pool_now();
    pool_watch(now);
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

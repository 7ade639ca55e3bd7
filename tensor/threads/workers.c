/*
 * workers.c: workers, the threads that help a caller with a job. workers.h explains jobs, and
 * parallel.c makes jobs from loops.
 *
 * Every worker has an atomic word, in which a caller offers it a job. A caller never waits for a
 * worker that hasn't begun. When all parts of the job have been begun, the caller withdraws the
 * offers that weren't accepted, and waits only for the workers that have begun. So a worker that
 * gets no core costs nothing.
 *
 * After a job a worker first spins for a moment (reads its word again and again), because the next
 * job often comes soon, and then sleeps. On a busy machine a worker spins for a much shorter time,
 * and workers help with a job only if that pays; busy.c decides whether the machine is busy and
 * whether help pays.
 */
#include "workers.h"

#include "busy.h"
#include "tensor/system/system.h"

#include <pthread.h>
#include <sched.h>

/* A worker's word is the address of a job or one of these values. The address alone is an offer of
 * the job. POOL_BEGUN is added to the address when the worker has begun the job, and POOL_AWAITED
 * when the job's caller sleeps until the worker has ended. Without a job, the word is POOL_FREE
 * while the worker spins and POOL_ASLEEP while it sleeps. POOL_ABSENT means that the worker has no
 * thread. POOL_OVER tells the worker's thread to end, and no other thread is started for it. */
enum {
    POOL_BEGUN = 1,
    POOL_AWAITED = 2,
    POOL_ABSENT = 0,
    POOL_FREE = 8,
    POOL_ASLEEP = 16,
    POOL_OVER = 24,
};

/* A worker. A worker without a job sleeps until `called` is signalled. A caller that waits for the
 * worker sleeps until `ended` is signalled. Both waits use the same mutex. */
typedef struct {
    _Alignas(128) _Atomic uintptr_t word;
    pthread_mutex_t mutex;
    pthread_cond_t called, ended;
    pthread_t thread;
} pool_worker;

/* The workers. Index 0 stands for the caller of a job, and its entry isn't used. */
static pool_worker workers[RG_MOST_THREADS];
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* The pool. `present` is the number of threads that a job can have now, including its caller.
 * `most` is the greatest number of threads that the system allows, as far as is known. If `over` is
 * set, no more threads are started. The mutex is locked while threads are started and while `over`
 * is written. `cores` is the number of cores that the process may use. `crowded` is set if the
 * latest job had more threads than there are cores. */
static struct {
    pthread_mutex_t mutex;
    atomic_int present, most;
    bool over;
    atomic_int cores;
    atomic_bool crowded;
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .present = 1, .most = RG_MOST_THREADS };

bool rgi_gather_workers;

bool rgi_in_job(void) { return inside; }

void rgi_work_alone(bool alone) { inside = alone; }

/* ---- waiting ----------------------------------------------------------------------------- */

static inline void pool_pause(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb");
#endif
}

/* Returns whether other threads probably compete for the cores. */
static bool pool_is_busy(int64_t now) {
    return rgi_machine_is_busy(now)
           || atomic_load_explicit(&pool.crowded, memory_order_relaxed);
}

/* Times in nanoseconds. A thread spins for POOL_SPIN before it sleeps, or for POOL_SPIN_BUSY if the
 * machine is busy. If two consecutive reads of the clock are more than POOL_LOST apart, the thread
 * has lost its core between them. */
enum { POOL_SPIN = 1000000, POOL_SPIN_BUSY = 4000, POOL_LOST = 300000 };

/* Spins until the word isn't `value`, or the time for spinning is over. Returns the word. */
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

/* Offers the job to a worker, and wakes the worker if it sleeps. Returns false if the worker isn't
 * free. A worker whose mutex is locked is just falling asleep or waking up, and counts as not
 * free. */
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

/* Offers the job to the workers 2 * i + 1 and 2 * i + 2. A worker that begins the job calls this
 * function with its own index as i, so no single thread has to wake all others. If one of the two
 * workers isn't free, this call instead offers the job to the workers to which that worker would
 * offer it. */
static void pool_call(rg_job *job, int i) {
    for (int k = 2 * i + 1; k <= 2 * i + 2 && k < job->threads; k++)
        if (!pool_offer(&workers[k], job))
            pool_call(job, k);
}

/* Sleeps until a job has been offered to the worker, or the worker is to end. */
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

/* ---- starting and ending the threads ----------------------------------------------------- */

static bool pool_start(pool_worker *w) {
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->called, NULL);
    pthread_cond_init(&w->ended, NULL);
    atomic_store_explicit(&w->word, POOL_FREE, memory_order_release);
    if (rgi_start_thread(&w->thread, 1 << 20, worker_main, w) == 0)
        return true;
    atomic_store_explicit(&w->word, POOL_ABSENT, memory_order_release);
    return false;
}

/* The handlers for fork: one is called before it, one after it in the parent, and one after it in
 * the child. A child has no workers; its next job starts new ones. */
static void pool_before_fork(void) { pthread_mutex_lock(&pool.mutex); }
static void pool_in_parent(void) { pthread_mutex_unlock(&pool.mutex); }
static void pool_in_child(void) {
    pthread_mutex_unlock(&pool.mutex);
    const int n = atomic_exchange_explicit(&pool.present, 1, memory_order_relaxed);
    for (int i = 1; i < n; i++)
        atomic_store_explicit(&workers[i].word, POOL_ABSENT, memory_order_relaxed);
    rgi_retry_workers();
}

/* Registers the handlers for fork. lock.c must register its own handlers after these; expect_forks
 * in lock.c explains why. */
__attribute__((constructor(101))) static void pool_expect_forks(void) {
    rgi_expect_fork(pool_before_fork, pool_in_parent, pool_in_child);
}

/* Starts threads until there are `threads` of them, including the caller, or as many as the system
 * allows. Updates pool.present, pool.most and pool.cores. */
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

/* Sets pool.crowded to whether a job with this many threads has more threads than cores. */
static void pool_note_crowd(int threads) {
    const bool crowded = threads > atomic_load_explicit(&pool.cores, memory_order_relaxed);
    if (crowded != atomic_load_explicit(&pool.crowded, memory_order_relaxed))
        atomic_store_explicit(&pool.crowded, crowded, memory_order_relaxed);
}

void rgi_retry_workers(void) {
    atomic_store_explicit(&pool.most, RG_MOST_THREADS, memory_order_relaxed);
}

/* Tells a worker to end, if it is free. Returns whether it was free. */
static bool pool_dismiss(pool_worker *w) {
    pthread_mutex_lock(&w->mutex);
    const bool dismissed = pool_change(w, POOL_FREE, POOL_OVER)
                           || pool_change(w, POOL_ASLEEP, POOL_OVER);
    pthread_cond_signal(&w->called);
    pthread_mutex_unlock(&w->mutex);
    return dismissed;
}

/* Ends the free workers when the process ends. A worker that is in the middle of a job isn't ended:
 * the job's caller is a thread other than this one, and continues until the process is gone. */
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

/* Sleeps until the worker has ended the job. Because the job is on the caller's stack, the caller
 * must not be cancelled before that; so cancelling is disabled until then. */
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

/* Withdraws the job from the workers that haven't begun it, and waits until the other workers have
 * ended it. The workers are visited in ascending order. Only threads with lower numbers offer the
 * job to a worker. These threads have ended the job when the worker is visited, so they make no
 * more offers. */
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

/* Offers the job to the workers 1 to threads - 1, and waits until those that took the offer have
 * begun. Only for tests (see rgi_gather_workers). */
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

/* Runs a job on a busy machine, with the help of workers if rgi_help_pays says so. Then reports the
 * processor time and the elapsed time of the job (rgi_count_job). */
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

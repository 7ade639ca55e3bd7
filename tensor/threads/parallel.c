/*
 * parallel.c: splits work among threads. No result depends on the number of threads. For some work
 * this is so because the parts into which it is split depend only on the amount of work. For other
 * work, such as matrix products and functions of single rows, the result has the same bits whatever
 * the parts are. The threads are in workers.c.
 */
#include "parallel.h"

#include "tensor/error.h"
#include "tensor/messages/warning.h"
#include "workers.h"
#include "tensor/system/system.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the number of threads ------------------------------------------------------------------- */

static atomic_int wanted_threads; /* The number of threads; 0 until the number is first needed or
                                   * the program sets it. */

static const char *const thread_variables[] = { "REGARD_THREADS", "REGARD_NUM_THREADS",
                                                "OMP_NUM_THREADS" };

/* Returns the number of threads that the string gives, or 0 if it gives none. The string must be a
 * number from 1 to INT32_MAX, or a list that begins with such a number and a comma. The first
 * number of a list is used. (OpenMP's variable may have a number for each level of nesting.) */
static int threads_of(const char *text) {
    char *end;
    const long n = strtol(text, &end, 10);
    end += strspn(end, " \t\n");
    return n > 0 && n <= INT32_MAX && (!*end || *end == ',') ? (int)n : 0;
}

/* Warns of each environment variable for the number of threads that has an invalid value. `threads`
 * is the number that is used, which the warning mentions. Stops at the first variable with a valid
 * number, because the variables after that one aren't used. An empty variable counts as not set. */
static void warn_of_thread_variables(int threads) {
    char taken[64];
    snprintf(taken, sizeof taken, "the number of threads is %d", threads);
    for (int i = 0; i < RG_COUNT(thread_variables); i++) {
        const char *text = getenv(thread_variables[i]);
        if (text && threads_of(text))
            return;
        if (text && *text)
            rgi_warn_of_variable(thread_variables[i], text, "a number from 1 to 2147483647", taken);
    }
}

/* Determines the default number of threads, stores it in wanted_threads, and returns it. If several
 * threads do this at the same time, only the first one stores its number and warns, and all return
 * the number that is stored. */
static int choose_threads(void) {
    int n = 0, nobody = 0;
    for (int i = 0; i < RG_COUNT(thread_variables) && !n; i++) {
        const char *text = getenv(thread_variables[i]);
        n = text ? threads_of(text) : 0;
    }
    if (!n)
        n = rgi_cores();
    if (!atomic_compare_exchange_strong(&wanted_threads, &nobody, n))
        return nobody;
    warn_of_thread_variables(n);
    return n;
}

int rg_get_num_threads(void) {
    const int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    return n ? n : choose_threads();
}

bool(rg_set_num_threads)(int n) {
    RG_FAIL_IF(n < 1, "set_num_threads", "set_num_threads expects a positive integer");
    atomic_store_explicit(&wanted_threads, n, memory_order_relaxed);
    rgi_retry_workers();
    return true;
}

int rgi_workers(int64_t n, int64_t grain) {
    if (n <= grain || rgi_in_job())
        return 1;
    return (int)RG_MIN((n - 1) / grain + 1, RG_MIN(rg_get_num_threads(), RG_MOST_THREADS));
}

/* ---- splitting the work ------------------------------------------------------------ */

/* A share is the parts that are meant for one worker; the caller counts as a worker. Each worker
 * first computes its own share, and then helps with the other workers' shares. So if the same work
 * is repeated, the same worker gets the same parts, and its caches may still have the data. `next`
 * is the first part of a share that no worker has taken yet. */
enum { PARALLEL_SHARES = 64 };

typedef struct parallel_work {
    rg_job job;
    int64_t n, grain, parts, shares;
    rg_work *work;
    void *context;
    struct {
        _Alignas(64) _Atomic int64_t next;
    } share[PARALLEL_SHARES];
} parallel_work;

static int64_t share_begin(const parallel_work *p, int64_t share) {
    return p->parts * share / p->shares;
}

/* Computes the parts of a share that haven't been taken yet. */
static void do_share(parallel_work *p, int64_t share, int worker) {
    const int64_t end = share_begin(p, share + 1);
    for (;;) {
        int64_t part = atomic_fetch_add_explicit(&p->share[share].next, 1, memory_order_relaxed);
        if (part >= end)
            return;
        int64_t begin = part * p->grain;
        p->work(p->context, begin, RG_MIN(p->n, begin + p->grain), worker);
    }
}

static void do_shares(rg_job *job, int me) {
    parallel_work *p = (parallel_work *)job;
    for (int64_t s = me; s < me + p->shares; s++)
        do_share(p, s % p->shares, me);
}

static void do_in_parallel(parallel_work *p) {
    p->parts = (p->n - 1) / p->grain + 1;
    p->shares = RG_MIN(p->job.threads, PARALLEL_SHARES);
    for (int64_t s = 0; s < p->shares; s++)
        atomic_init(&p->share[s].next, share_begin(p, s));
    rgi_run_job(&p->job);
}

RG_HOT void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context) {
    if (workers > 1) {
        parallel_work p;
        p.job = (rg_job){ .help = do_shares, .threads = workers };
        p.n = n;
        p.grain = grain;
        p.work = work;
        p.context = context;
        do_in_parallel(&p);
        return;
    }
    for (int64_t begin = 0; begin < n; begin += grain)
        work(context, begin, RG_MIN(n, begin + grain), 0);
}

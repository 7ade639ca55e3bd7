/*
 * parallel.c: work that is spread over threads. No result changes with their
 * number: either the parts depend only on how much work there is, or, as in
 * products and rows, no bit depends on the parts. workers.c has the threads.
 */
#include "parallel.h"

#include "error.h"
#include "workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- how many ---------------------------------------------------------------------- */

static atomic_int wanted_threads; /* 0 until the first question, or until the program sets it. */

/* Returns the number of this variable of the environment, or 0 if it has none above 0. */
static int threads_of(const char *variable) {
    const char *asked = getenv(variable);
    long n = asked ? strtol(asked, NULL, 10) : 0;
    return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

static void choose_threads(void) {
    static const char *const variables[] = { "REGARD_THREADS", "REGARD_NUM_THREADS",
                                             "OMP_NUM_THREADS" };
    int n = 0;
    for (int i = 0; i < RG_COUNT(variables) && !n; i++)
        n = threads_of(variables[i]);
    atomic_compare_exchange_strong(&wanted_threads, &(int){ 0 }, n ? n : rgi_cores());
}

int rg_get_num_threads(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    if (n)
        return n;
    pthread_once(&once, choose_threads);
    return atomic_load_explicit(&wanted_threads, memory_order_relaxed);
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

/* ---- the work ---------------------------------------------------------------------- */

/* Each worker begins with a share of the parts that is its own, and then helps with the others'.
 * Work that comes again falls to the same workers, whose caches may still hold its data. `next` is
 * the first part of a share that nobody has taken yet. */
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

/* Does what is left of a share. */
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

void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context) {
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

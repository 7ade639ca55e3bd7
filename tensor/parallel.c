/*
 * parallel.c: work that is spread over threads. No result changes with their
 * number: either the parts depend only on how much work there is, or, as in
 * products and rows, no bit depends on the parts. The threads are OpenMP's; a
 * library built without it has one. After a fork the child has one, since
 * OpenMP's threads stay behind.
 */
#include "parallel.h"

#include "error.h"

#include <stdatomic.h>

static atomic_int wanted_threads; /* 0 leaves the number to OpenMP. */

/* ---- how many ---------------------------------------------------------------------- */

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

static atomic_bool forked;

static void note_fork(void) { atomic_store_explicit(&forked, true, memory_order_relaxed); }

static void prepare_threads(void) {
    const char *asked = getenv("REGARD_NUM_THREADS");
    long n = asked ? strtol(asked, NULL, 10) : 0;
    if (n > 0 && n <= INT32_MAX)
        atomic_compare_exchange_strong(&wanted_threads, &(int){ 0 }, (int)n);
    pthread_atfork(NULL, NULL, note_fork);
}

int rg_get_num_threads(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_threads);
    int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    return n ? n : omp_get_max_threads();
}

int rgi_workers(int64_t n, int64_t grain) {
    if (n <= grain || omp_in_parallel() || atomic_load_explicit(&forked, memory_order_relaxed))
        return 1;
    return (int)RG_MIN((n - 1) / grain + 1, rg_get_num_threads());
}
#else
int rg_get_num_threads(void) { return 1; }

int rgi_workers(int64_t n, int64_t grain) {
    (void)n;
    (void)grain;
    return 1;
}
#endif

bool rg_set_num_threads(int n) {
    RG_FAIL_IF(n < 1, "set_num_threads", "set_num_threads expects a positive integer");
    atomic_store_explicit(&wanted_threads, n, memory_order_relaxed);
    return true;
}

/* ---- the work ---------------------------------------------------------------------- */

#ifdef _OPENMP
/* Each worker begins with a share of the parts that is its own, and then helps with the others'.
 * Work that comes again falls to the same workers, whose caches may still hold its data. `next` is
 * the first part of a share that nobody has taken yet. */
enum { PARALLEL_SHARES = 64 };

typedef struct parallel_work {
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

static void do_in_parallel(parallel_work *p, int workers) {
    p->parts = (p->n - 1) / p->grain + 1;
    p->shares = RG_MIN(workers, PARALLEL_SHARES);
    for (int64_t s = 0; s < p->shares; s++)
        atomic_init(&p->share[s].next, share_begin(p, s));
#pragma omp parallel num_threads(workers)
    {
        int me = omp_get_thread_num();
        for (int64_t s = me; s < me + p->shares; s++)
            do_share(p, s % p->shares, me);
    }
}
#endif

void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context) {
#ifdef _OPENMP
    if (workers > 1) {
        parallel_work p;
        p.n = n;
        p.grain = grain;
        p.work = work;
        p.context = context;
        do_in_parallel(&p, workers);
        return;
    }
#endif
    (void)workers;
    for (int64_t begin = 0; begin < n; begin += grain)
        work(context, begin, RG_MIN(n, begin + grain), 0);
}

/*
 * parallel.c: work spread over threads. No result changes with their number: what
 * is one part depends on how much there is and on nothing else, or, as in products
 * and rows, no bit depends on the parts. The threads are OpenMP's; built without it,
 * there is one. After a fork there is one in the child, since OpenMP's own don't
 * come along.
 */
#include "internal.h"

static atomic_int wanted; /* 0: as many as OpenMP would take */

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

static atomic_bool forked;

static void in_the_child(void) { atomic_store_explicit(&forked, true, memory_order_relaxed); }

static void look_around(void) {
    const char *asked = getenv("REGARD_NUM_THREADS");
    long n = asked ? strtol(asked, NULL, 10) : 0;
    if (n > 0 && n <= INT32_MAX)
        atomic_compare_exchange_strong(&wanted, &(int){ 0 }, (int)n);
    pthread_atfork(NULL, NULL, in_the_child);
}

int rg_get_num_threads(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_around);
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);
    return n ? n : omp_get_max_threads();
}

int rgi_workers(int64_t n, int64_t grain) {
    if (n <= grain || omp_in_parallel() || atomic_load_explicit(&forked, memory_order_relaxed))
        return 1;
    return (int)RG_MIN((n - 1) / grain + 1, rg_get_num_threads());
}
#else
int rg_get_num_threads(void) { return 1; }
int rgi_workers(int64_t n, int64_t grain) { return (void)n, (void)grain, 1; }
#endif

bool rg_set_num_threads(int n) {
    RG_FAIL_IF(n < 1, "set_num_threads", "set_num_threads expects a positive integer");
    return atomic_store_explicit(&wanted, n, memory_order_relaxed), true;
}

/* Every worker begins with a share of its own, the same of what is next as of what was before,
 * whose lines its caches hold; then it helps with the others'. */
void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context) {
#ifdef _OPENMP
    if (workers > 1) {
        enum { SHARES = 64 };
        struct {
            _Alignas(64) _Atomic int64_t next;
        } share[SHARES];
        int64_t parts = (n - 1) / grain + 1, shares = RG_MIN(workers, SHARES);
        for (int64_t s = 0; s < shares; s++)
            atomic_init(&share[s].next, parts * s / shares);
#pragma omp parallel num_threads(workers)
        for (int64_t me = omp_get_thread_num(), s = me; s < me + shares; s++)
            for (int64_t of = s % shares, end = parts * (of + 1) / shares, part;
                 (part = atomic_fetch_add_explicit(&share[of].next, 1, memory_order_relaxed))
                 < end;)
                work(context, part * grain, RG_MIN(n, part * grain + grain), (int)me);
        return;
    }
#endif
    (void)workers;
    for (int64_t begin = 0; begin < n; begin += grain)
        work(context, begin, RG_MIN(n, begin + grain), 0);
}

/*
 * busy.c: measures whether other programs use the cores. workers.c decides by this whether threads
 * wait, and whether workers help.
 *
 * A waiting thread costs nothing on a quiet machine, and a worker that helps saves time. On a busy
 * machine a waiting thread takes a core from another program, and a worker that loses its core
 * during a part keeps its caller waiting. Whether help pays then depends on how the system divides
 * the cores, which no program is told. So it is measured.
 */
#define _GNU_SOURCE
#include "busy.h"

#include <stdatomic.h>
#include <sys/resource.h>

/* The counters of this file order nothing, and so all accesses are relaxed. */
static int64_t busy_get(const _Atomic int64_t *x) {
    return atomic_load_explicit(x, memory_order_relaxed);
}
static void busy_set(_Atomic int64_t *x, int64_t value) {
    atomic_store_explicit(x, value, memory_order_relaxed);
}
static void busy_add(_Atomic int64_t *x, int64_t more) {
    atomic_fetch_add_explicit(x, more, memory_order_relaxed);
}

/* ---- quiet or busy ------------------------------------------------------------------------ */

/* The machine becomes busy when a thread has lost its core BUSY_SWITCHES times within about
 * BUSY_WATCH. It stays busy for BUSY_LENGTH, and for up to BUSY_LONGEST if it becomes busy again
 * soon. */
enum {
    BUSY_SWITCHES = 4,
    BUSY_WATCH = 16000000,
    BUSY_LENGTH = 100000000,
    BUSY_LONGEST = 1600000000,
};

/* The end of the time in which the machine counts as busy, and the length of that time. */
static _Atomic int64_t busy_until, busy_length;

bool rgi_machine_is_busy(int64_t now) { return now < busy_get(&busy_until); }

void rgi_note_busy(int64_t now) {
    const int64_t until = busy_get(&busy_until);
    int64_t length = RG_MAX(BUSY_LENGTH, busy_get(&busy_length));
    if (now > until + length)
        length = BUSY_LENGTH;
    else if (now > until)
        length = RG_MIN(2 * length, BUSY_LONGEST);
    busy_set(&busy_length, length);
    busy_set(&busy_until, now + length);
}

void rgi_watch_machine(int64_t now) {
#ifdef RUSAGE_THREAD
    static __thread long before __attribute__((tls_model("initial-exec")));
    static __thread int64_t next __attribute__((tls_model("initial-exec")));
    struct rusage usage;
    if (now < next || getrusage(RUSAGE_THREAD, &usage))
        return;
    if (now < next + BUSY_WATCH && usage.ru_nivcsw - before >= BUSY_SWITCHES)
        rgi_note_busy(now);
    before = usage.ru_nivcsw;
    next = now + BUSY_WATCH;
#else
    (void)now;
#endif
}

/* ---- whether help pays -------------------------------------------------------------------- */

/* Jobs run with help for MEASURE_TIME, and then alone for the same time. The way that got more
 * processor time per time is then used for KEEP_TIME. That time doubles, up to KEEP_LONGEST, each
 * time the same way wins again, because each measurement moves threads between the cores. Alone
 * must win by the factor MEASURE_MARGIN: the system's placement of threads changes a single
 * measurement by more than help does, and sleeping workers, which yield to other programs, disturb
 * most of them little. */
enum { MEASURE_HELPED, MEASURE_ALONE, MEASURE_WAYS };
enum { MEASURE_TIME = 50000000, KEEP_TIME = 300000000, KEEP_LONGEST = 2000000000 };
#define MEASURE_MARGIN 1.15

/* The current stage, which lasts until `until`: one of the ways, which is measured, or MEASURE_WAYS
 * while the winner is used. processor[w] is the processor time of the jobs that ran in way w, and
 * time[w] their time. `keep` is the length of the last stage in which a winner was used. */
static struct {
    atomic_int stage;
    atomic_bool alone_won;
    _Atomic int64_t until, keep, processor[MEASURE_WAYS], time[MEASURE_WAYS];
} measure = { .stage = MEASURE_WAYS };

/* Returns the mean number of cores of the jobs in this way. */
static double measure_cores(int way) {
    return (double)busy_get(&measure.processor[way])
           / (double)RG_MAX(1, busy_get(&measure.time[way]));
}

/* Chooses the way that won, and returns the time for which it is used. */
static int64_t measure_choose(void) {
    const bool alone =
        measure_cores(MEASURE_ALONE) > MEASURE_MARGIN * measure_cores(MEASURE_HELPED);
    const bool again =
        atomic_exchange_explicit(&measure.alone_won, alone, memory_order_relaxed) == alone;
    const int64_t twice = RG_MIN(2 * busy_get(&measure.keep), KEEP_LONGEST);
    const int64_t keep = again ? RG_MAX(twice, KEEP_TIME) : KEEP_TIME;
    busy_set(&measure.keep, keep);
    return keep;
}

static void measure_begin_stage(int stage, int64_t now) {
    int64_t length = MEASURE_TIME;
    if (stage < MEASURE_WAYS) {
        busy_set(&measure.processor[stage], 0);
        busy_set(&measure.time[stage], 0);
    } else {
        length = measure_choose();
    }
    atomic_store_explicit(&measure.stage, stage, memory_order_relaxed);
    busy_set(&measure.until, now + length);
}

/* Ends the stage if its time is over. A measurement begins again if no job continued it because the
 * machine was quiet. Among several callers, the one that sets `until` to a time that never comes
 * begins the next stage. */
static void measure_go_on(int64_t now) {
    int64_t until = busy_get(&measure.until);
    if (now <= until
        || !atomic_compare_exchange_strong_explicit(&measure.until, &until, INT64_MAX,
                                                    memory_order_relaxed, memory_order_relaxed))
        return;
    const int stage = atomic_load_explicit(&measure.stage, memory_order_relaxed);
    const bool anew = stage == MEASURE_WAYS || now > until + MEASURE_TIME;
    measure_begin_stage(anew ? 0 : stage + 1, now);
}

bool rgi_help_pays(int64_t now) {
    measure_go_on(now);
    const int stage = atomic_load_explicit(&measure.stage, memory_order_relaxed);
    return stage == MEASURE_WAYS
               ? !atomic_load_explicit(&measure.alone_won, memory_order_relaxed)
               : stage == MEASURE_HELPED;
}

void rgi_count_job(bool helped, int64_t processor_time, int64_t time) {
    const int way = helped ? MEASURE_HELPED : MEASURE_ALONE;
    busy_add(&measure.processor[way], processor_time);
    busy_add(&measure.time[way], time);
}

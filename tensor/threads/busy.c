/*
 * busy.c: measures whether other programs use the cores. This tells workers.c how long threads
 * should spin before they sleep, and whether workers should help with a job.
 *
 * On a quiet machine a spinning thread costs nothing, and a worker that helps saves time. On a busy
 * machine a spinning thread takes a core away from another program. And if a worker loses its core
 * while it computes a part of a job, the job's caller has to wait for that worker. Whether help
 * pays then depends on how the system divides the cores among programs. A program can't ask the
 * system for that, so this file measures whether help pays.
 */
#include "busy.h"

#include "tensor/system/system.h"

#include <stdatomic.h>

/* Read and write one of this file's counters. The order of these accesses doesn't matter, so all
 * of them are relaxed. */
static int64_t busy_get(const _Atomic int64_t *x) {
    return atomic_load_explicit(x, memory_order_relaxed);
}
static void busy_set(_Atomic int64_t *x, int64_t value) {
    atomic_store_explicit(x, value, memory_order_relaxed);
}
static void busy_add(_Atomic int64_t *x, int64_t more) {
    atomic_fetch_add_explicit(x, more, memory_order_relaxed);
}

/* ---- whether the machine is quiet or busy ------------------------------------------------- */

/* The machine begins to count as busy when a thread has lost its core BUSY_SWITCHES times within
 * about BUSY_WATCH nanoseconds, or when a spinning thread loses its core (pool_spin in workers.c).
 * It counts as busy for BUSY_LENGTH nanoseconds. If it becomes busy again soon after such a period,
 * the next period is twice as long, up to BUSY_LONGEST. */
enum {
    BUSY_SWITCHES = 4,
    BUSY_WATCH = 16000000,
    BUSY_LENGTH = 100000000,
    BUSY_LONGEST = 1600000000,
};

/* busy_until is the time until which the machine counts as busy. busy_length is the length of the
 * period that ends, or has ended, at that time. */
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
    static __thread long before __attribute__((tls_model("initial-exec")));
    static __thread int64_t next __attribute__((tls_model("initial-exec")));
    long losses;
    if (now < next || !rgi_core_losses(&losses))
        return;
    if (now < next + BUSY_WATCH && losses - before >= BUSY_SWITCHES)
        rgi_note_busy(now);
    before = losses;
    next = now + BUSY_WATCH;
}

/* ---- whether help pays -------------------------------------------------------------------- */

/* On a busy machine, jobs run with help for MEASURE_TIME, and then without help for MEASURE_TIME.
 * The way in which jobs got more processor time per unit of time wins, and is used for KEEP_TIME;
 * then both ways are measured again. If the same way wins again, it is used twice as long as the
 * last time, up to KEEP_LONGEST, because each measurement moves threads between cores. Running
 * alone wins only if it is better by the factor MEASURE_MARGIN, for two reasons. The system's
 * placement of threads changes a single measurement by more than help does. And workers disturb
 * other programs only a little, because they sleep when there is no job. */
enum { MEASURE_HELPED, MEASURE_ALONE, MEASURE_WAYS };
enum { MEASURE_TIME = 50000000, KEEP_TIME = 300000000, KEEP_LONGEST = 2000000000 };
#define MEASURE_MARGIN 1.15

/* `stage` is the way that is being measured, or MEASURE_WAYS while the winner is used. The stage
 * lasts until the time `until`. alone_won is set if MEASURE_ALONE is the last winner. `keep` is how
 * long the last winner is used. processor[w] is the processor time of the jobs that ran in way w,
 * and time[w] is the time that these jobs took. */
static struct {
    atomic_int stage;
    atomic_bool alone_won;
    _Atomic int64_t until, keep, processor[MEASURE_WAYS], time[MEASURE_WAYS];
} measure = { .stage = MEASURE_WAYS };

/* Returns how many cores the jobs used on average in one of the two ways: MEASURE_HELPED or
 * MEASURE_ALONE. */
static double measure_cores(int way) {
    return (double)busy_get(&measure.processor[way])
           / (double)RG_MAX(1, busy_get(&measure.time[way]));
}

/* Determines which way has won, and returns for how many nanoseconds it is to be used. */
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

/* Begins the next stage if the time of the current one is over. If a measurement should have ended
 * more than MEASURE_TIME ago, it is out of date: the machine was quiet, and no job continued the
 * measurement. Then both ways are measured again. If several threads call this at the same time,
 * the one that sets `until` to INT64_MAX, a time that never comes, begins the next stage. */
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

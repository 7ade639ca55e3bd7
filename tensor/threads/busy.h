/*
 * busy.h: measures whether other programs use the cores, and whether help by workers then makes
 * jobs faster. Times are in nanoseconds.
 */
#pragma once

#include "tensor/base.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t rgi_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline int64_t rgi_now(void) { return rgi_clock(CLOCK_MONOTONIC); }

/* Returns whether the machine counts as busy. It becomes busy when a thread calls rgi_note_busy, or
 * when rgi_watch_machine, which every job calls, finds that the thread often loses its core. */
bool rgi_machine_is_busy(int64_t now);
void rgi_note_busy(int64_t now);
void rgi_watch_machine(int64_t now);

/* rgi_help_pays returns whether workers should help with a job that begins now, on a busy machine.
 * rgi_count_job reports the result later: the processor time of all threads of the job together,
 * and the time from its beginning to its end. */
bool rgi_help_pays(int64_t now);
void rgi_count_job(bool helped, int64_t processor_time, int64_t time);

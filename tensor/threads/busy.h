/*
 * busy.h: measures whether other programs use the cores, and whether a job (see workers.h) is then
 * faster with the help of workers. Times are in nanoseconds.
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

/* rgi_machine_is_busy returns whether the machine counts as busy. rgi_note_busy makes the machine
 * count as busy from now on for a while. Every job calls rgi_watch_machine, which calls
 * rgi_note_busy if the calling thread has lost its core several times lately. `now` is the current
 * time. */
bool rgi_machine_is_busy(int64_t now);
void rgi_note_busy(int64_t now);
void rgi_watch_machine(int64_t now);

/* For jobs on a busy machine. rgi_help_pays returns whether workers should help with a job that
 * begins now. rgi_count_job is called when the job has ended. `helped` says whether workers helped,
 * `processor_time` is the processor time of all threads of the job together, and `time` is the time
 * from its beginning to its end. */
bool rgi_help_pays(int64_t now);
void rgi_count_job(bool helped, int64_t processor_time, int64_t time);

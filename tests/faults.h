/*
 * faults.h: a file system that fails as a test specifies. From faults_begin to faults_end the
 * library calls it, and it calls the real file system.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    long calls;         /* The number of calls. */
    long fail_at;       /* The index of the call that fails, from 1; 0 means none. */
    int number;         /* The errno of the call that fails. */
    bool nothing;       /* If call fail_at is a read or write, it moves nothing. No call fails. */
    long kill_at;       /* The index of the call that kills the process, before it acts. */
    bool kill_after;    /* The process is killed after the call has acted. */
    size_t most;        /* The maximum bytes of a read or write; 0 means no maximum. */
    bool interrupts;    /* Every other read, write and sync is interrupted by a signal. */
    bool ends;          /* Each read finds the end of the file. */
    bool full;          /* Each write moves nothing, and reports no error. */
    bool exists;        /* The next file to be made exists already. */
    int open;           /* The number of open files. */
    const char *failed; /* The call that failed. */
    bool renamed;       /* A file was renamed. */
} faulty;
extern faulty faults;

void faults_begin(void);
void faults_end(void);

/*
 * faults.h: a file system that fails as a test wants it. It stands between the library and the real
 * one, from faults_begin to faults_end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    long calls;         /* So many calls were made. */
    long fail_at;       /* This one, counted from 1, fails; 0 stands for none. */
    int number;         /* The error's number. */
    bool nothing;       /* If it is a read or a write it moves nothing, and else it doesn't fail. */
    long kill_at;       /* This one kills the process, before it does anything. */
    bool kill_after;    /* If true, afterwards. */
    size_t most;        /* A read or a write moves so many bytes at most; 0 stands for all. */
    bool interrupts;    /* Every other read, write and sync is interrupted by a signal. */
    bool ends;          /* A read finds the end of the file. */
    bool full;          /* A write takes nothing, and doesn't say why. */
    bool exists;        /* The next file that is made is there already. */
    int open;           /* So many files are open. */
    const char *failed; /* The call that failed. */
    bool renamed;       /* A file was renamed. */
} faulty;
extern faulty faults;

void faults_begin(void);
void faults_end(void);

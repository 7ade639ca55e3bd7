/*
 * profile_file.h: the profiler's file, which lists every call in the format of chrome://tracing and
 * ui.perfetto.dev. Times are in nanoseconds of CLOCK_MONOTONIC, so that the files of several
 * processes on one machine can be compared. Only one thread at a time may call these functions.
 * They allocate no memory from the library, since the profiler is also called during such
 * allocations.
 */
#pragma once

#include "tensor/base.h"

/* Begins the file. %p in the path stands for the process ID. If the file can't be written,
 * prints a message to standard error. */
void rgi_profile_file_begin(const char *path);
/* Ends and closes the file, if this process has begun one. If a write has failed, prints a message
 * to standard error. */
void rgi_profile_file_end(void);

/* The next two functions do nothing if this process hasn't begun a file. */
/* Writes a call that the current thread made. Calls may be nested. */
void rgi_profile_file_call(const char *name, const char *kind, double began, double took);
/* Writes work that was measured by rg_profile_begin and rg_profile_end. A viewer of the file shows
 * it on a line of its own. */
void rgi_profile_file_beside(const char *name, double began, double took, double bytes);

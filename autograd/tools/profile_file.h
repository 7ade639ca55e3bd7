/*
 * profile_file.h: the profiler's file, which lists every call in the format of chrome://tracing and
 * ui.perfetto.dev. Times are in nanoseconds of CLOCK_MONOTONIC, so that the files of several
 * processes on a machine can be compared. One thread at a time may write. These functions request
 * no memory from the library, since the profiler is called during such requests.
 */
#pragma once

#include "tensor/base.h"

/* Begins the file. %p in its path stands for the process's number. If the file can't be written, a
 * message goes to standard error. */
void rgi_profile_file_begin(const char *path);
/* Completes and closes the file, if there is one. */
void rgi_profile_file_end(void);

/* The next two functions do nothing if this process hasn't begun a file. */
/* Writes a call of the thread. Calls may be nested. */
void rgi_profile_file_call(const char *name, const char *kind, double began, double took);
/* Writes work that ran beside the calls of threads, on a line of its own. */
void rgi_profile_file_beside(const char *name, double began, double took, double bytes);

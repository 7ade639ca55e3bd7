/*
 * profile_file.h: the profiler's file, in which every call stands, as chrome://tracing and
 * ui.perfetto.dev read it. Times are in nanoseconds of CLOCK_MONOTONIC, so that the files of a
 * machine's processes can be laid side by side. One thread at a time may write. Nothing here asks
 * the library for memory, since the profiler looks on while others do.
 */
#pragma once

#include "tensor/base.h"

/* Begins the file. %p in its path stands for the process's number. If the file can't be written, a
 * message goes to standard error. */
void rgi_profile_file_begin(const char *path);
/* Ends the file, if there is one. */
void rgi_profile_file_end(void);

/* These two do nothing if this process hasn't begun a file. */
/* Writes a call of the thread. Calls nest. */
void rgi_profile_file_call(const char *name, const char *kind, double began, double took);
/* Writes work that ran beside the calls of threads, on a line of its own. */
void rgi_profile_file_beside(const char *name, double began, double took, double bytes);

/* sys/mman.h: memory that processes share, and memory that can't be read. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { PROT_NONE, PROT_READ, PROT_WRITE };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_ANONYMOUS = 4 };
#define MAP_FAILED ((void *)-1)

/* With MAP_SHARED, mmap returns memory that a program shares with the processes that it starts for
 * its tests. */
void *mmap(void *where, size_t bytes, int may, int flags, int file, off_t at);
int mprotect(void *block, size_t bytes, int may);

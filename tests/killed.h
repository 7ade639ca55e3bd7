/*
 * killed.h: kills a process while it saves.
 */
#pragma once

#include <stdbool.h>

/* Calls save(1), save(2) and so on in a process of its own, and kills it after this number of
 * microseconds. Requires that no save fails. */
void killed_after(int microseconds, bool (*save)(int version));

/* Calls save(1) in a process of its own, which is killed before or after this call of the file
 * system, counted from 1. Returns false if there are fewer calls. */
bool killed_at(long call, bool after, bool (*save)(int version));

/* Kills a save before and after each of its calls of the file system, and calls check after each
 * kill. Returns the number of calls. */
long killed_at_each_call(bool (*save)(int version), void (*check)(void));

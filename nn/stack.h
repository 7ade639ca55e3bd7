/*
 * stack.h: how much of the thread's stack is left. Private.
 */
#pragma once

#include <stdbool.h>

/* Returns whether so little of the thread's stack is left that another forward might not fit. On a
 * stack that a program made for itself this isn't known, and the answer is no. */
bool rgi_stack_is_short(void);

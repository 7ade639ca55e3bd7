/*
 * pool.h: the check that the pooling ops (pool.c) share with the modules that call them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Fails if the padding of a dim is more than half of the kernel's size there: a window could then
 * have no element of the input. */
bool rgi_pool_padding_fits(const char *op, int64_t padding, int64_t kernel);

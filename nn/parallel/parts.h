/*
 * parts.h: the parts of batches that shards take (see parts.c). Private.
 */
#pragma once

#include "hash.h"
#include "reducer.h"

/* Extends `hash` by the tensor's dtype and shape and by at most 64 of its elements. */
uint64_t rgi_fingerprint(uint64_t hash, rg_tensor *t);
/* Fails if a step is being recorded (see replay.h): a repetition would send no gradients. */
bool rgi_not_recorded(const rg_distributed *d, const char *op);
/* Called when the shard's backward run ends. Fails if the shard hasn't taken as many parts as the
 * batch's first shard on this rank. */
bool rgi_parts_end(rg_reducer *s);

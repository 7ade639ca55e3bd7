/*
 * past.c: what is written past the caches, since they wouldn't hold it until it is
 * read: a line that is written in the usual way is read first, and drives another
 * out. A loop does it by blocks, of which the copies go past.
 */
#ifndef K_BITS
#include "loops.h"

#define K_FILE "past.c"
#include "sets.h"

rg_loop *k_past_loop(void) { return ((rg_loop *const[])K_SETS(past_loop))[k_set]; }

#else
static void K_SET(past_loop)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    enum { BLOCK = 1024 };
    const k_past *c = context;
    char block[BLOCK] __attribute__((aligned(64))), *q[RG_MAX_OPERANDS];
    int64_t line = 64 / s[0], step;
    memcpy(q, p, (size_t)c->n * sizeof *q);
    for (; n >= line && (uintptr_t)q[0] % 64 == 0; n -= step) {
        step = RG_MIN(BLOCK / s[0], n / line * line);
        char *to = q[0];
        q[0] = block;
        c->inner(q, s, step, c->context);
        for (int k = 1; k < c->n; k++)
            q[k] += step * s[k];
        /* what is read next comes meanwhile */
        for (int64_t at = 0; at < step * s[0]; at += 64) {
            for (int k = 1; k < c->n; k++)
                __builtin_prefetch(q[k] + at * (s[k] == s[0]));
            K_PAST(to + at, block + at);
        }
        q[0] = to + step * s[0];
    }
    if (n)
        c->inner(q, s, n, c->context);
}
#endif

/*
 * loops/stream.h: runs another loop block by block, with a small buffer as its output, and copies
 * each block to the result past the caches. This is for results so large that they would be evicted
 * from the caches before they are read. An ordinary write would also load each cache line before
 * overwriting it.
 */

static void K_IN_SET(stream_loop)(char *const p[], const int64_t s[], int64_t n,
                                  const void *context) {
    enum { BLOCK = 1024 };
    const k_stream *c = context;
    char block[BLOCK] __attribute__((aligned(64)));
    char *q[RG_MAX_OPERANDS];
    const int64_t line = 64 / s[0];
    int64_t step;
    memcpy(q, p, (size_t)c->n * sizeof *q);
    for (; n >= line && (uintptr_t)q[0] % 64 == 0; n -= step) {
        step = RG_MIN(BLOCK / s[0], n / line * line);
        char *to = q[0];
        q[0] = block;
        c->loop(q, s, step, c->context);
        for (int k = 1; k < c->n; k++)
            q[k] += step * s[k];
        /* The operands of the next block are prefetched while the current block is written. The
         * pragma keeps compilers from unrolling the loop over the operands: the branches of the
         * unrolled loop would take more time than the prefetches. */
        for (int64_t at = 0; at < step * s[0]; at += 64) {
            _Pragma("GCC unroll 1") for (int k = 1; k < c->n; k++) {
                __builtin_prefetch(q[k] + at * (s[k] == s[0]));
            }
            K_IN_SET(k_stream_line)(to + at, block + at);
        }
        q[0] = to + step * s[0];
    }
    if (n)
        c->loop(q, s, n, c->context);
}

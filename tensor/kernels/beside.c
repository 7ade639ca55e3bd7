/*
 * beside.c: runs a loop that requires contiguous operands on operands of any strides. Operands that
 * aren't contiguous are copied block by block to buffers, the loop reads and writes the buffers,
 * and its results are copied back.
 */
#include "kernels.h"

/* Returns the loop that copies elements of this size in bytes. */
static rg_loop *copy_loop_of(int bytes) {
    const rg_dtype dtype = rgi_dtype_of_size((size_t)bytes);
    return rgi_copy_loop(dtype, dtype);
}

/* An input k that is a single number (s[k] is 0) is copied to its buffer only for the first block.
 * No later block is longer, so all blocks can use this copy. */
void k_run_beside(rg_loop *loop, int count, const int bytes[], char *const p[], const int64_t s[],
                  int64_t n, const void *context) {
    enum { BLOCK = 256 };
    int64_t room[RG_MAX_OPERANDS][BLOCK];
    int64_t step[RG_MAX_OPERANDS];
    char *q[RG_MAX_OPERANDS];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = RG_MIN(n - i, BLOCK);
        for (int k = 0; k < count; k++) {
            const bool beside = s[k] == bytes[k];
            step[k] = bytes[k];
            q[k] = beside ? p[k] + i * s[k] : (char *)room[k];
            if (k && !beside && (s[k] || !i))
                copy_loop_of(bytes[k])((char *[]){ q[k], p[k] + i * s[k] },
                                       (int64_t[]){ bytes[k], s[k] }, m, NULL);
        }
        loop(q, step, m, context);
        if (s[0] != bytes[0])
            copy_loop_of(bytes[0])((char *[]){ p[0] + i * s[0], q[0] },
                                   (int64_t[]){ s[0], bytes[0] }, m, NULL);
    }
}

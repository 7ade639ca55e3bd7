/*
 * counts.c: the number of elements that aren't 0, and whether any or all elements aren't 0. The
 * reduction that counts is in sums.c.
 */
#include "reduce.h"
#include "tensor/storage.h"

#define K_LOOPS "loops/counts_reach.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

int64_t k_count(const rg_tensor *x) {
    int64_t n = 0;
    rg_tensor y = { .dtype = RG_INT64, .flags = RG_CONTIGUOUS, .numel = 1, .data = (char *)&n };
    k_reduce(&k_counts, &y, x, UINT32_MAX);
    return n;
}

bool k_any(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool all) {
    rg_tensor *count = rgi_new_like(y, RG_INT64);
    if (!count)
        return false;
    bool ok = k_reduce(&k_counts, count, x, dims);
    const int64_t needed = all && y->numel ? x->numel / y->numel : 1;
    ok = ok && k_finish(K_BASE_LOOP(counts_reach), y, (double)needed, count);
    rgi_release(count);
    return ok;
}

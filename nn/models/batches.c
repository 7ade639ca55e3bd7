/*
 * batches.c: splits a long encoded text, and draws random windows of it.
 */
#include "batches.h"
#include "tensor/error.h"
#include "tensor/text/digits.h"
#include "autograd/ops/ops.h"

static const rg_pair no_pair;

rg_pair(rg_split_text)(rg_tensor *data, double fraction) {
    RG_AS("split_text");
    if (!(fraction >= 0 && fraction <= 1)) {
        rg_fail(RG_VALUE_ERROR, "split_text", "the fraction %s is not from 0 to 1",
                rgi_number(fraction));
        return no_pair;
    }
    int64_t all = rg_size(data, 0), n = (int64_t)(fraction * (double)all);
    rg_pair p = { rg_narrow(data, 0, 0, n), rg_narrow(data, 0, n, all - n) };
    return p.first && p.second ? p : no_pair;
}

rg_pair(rg_get_batch_with)(rg_tensor *data, int64_t batch_size, int64_t block_size,
                           rg_generator *g) {
    RG_AS("get_batch");
    RG_SCOPE();
    int64_t n = rg_size(data, 0);
    if (n < 0)
        return no_pair;
    if (block_size < 0) {
        rg_fail(RG_VALUE_ERROR, "get_batch", "block_size %lld is negative", (long long)block_size);
        return no_pair;
    }
    rg_tensor *start = rg_randint_dims(0, n - block_size, RG_DIMS(batch_size), RG_INT64, g);
    if (!start)
        return no_pair;
    rg_tensor *at = rg_add(rg_unsqueeze(start, 1), rg_arange(block_size));
    rg_tensor *x = rg_index(data, at), *y = rg_index(data, rg_add(at, 1));
    return x && y ? (rg_pair){ rg_escape(x), rg_escape(y) } : no_pair;
}

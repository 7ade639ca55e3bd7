/* The first k of n: of equal values those that torch shows. */
#include "tests/test.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

static const struct golden_top {
    int64_t n, k, distinct;
    int shape; /* 0: a congruential sequence; 1: it rises and falls */
    bool largest, sorted;
    uint64_t bits; /* of the indices */
} rows[] = {
#include "tests/golden/top.inc"
};

START_TEST(test_ties_are_torchs) {
    static k_ranked q[3000];
    for (int r = 0; r < RG_COUNT(rows); r++) {
        const struct golden_top *row = &rows[r];
        uint64_t s = 1, h = 0xcbf29ce484222325;
        for (int64_t i = 0; i < row->n; i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            int64_t v = row->shape ? RG_MIN(i, row->n - i) % row->distinct
                                   : (int64_t)((s >> 33) % (uint64_t)row->distinct);
            q[i] = (k_ranked){ k_rank((double)v - 3, row->largest), i };
        }
        k_top(q, row->n, row->k, row->sorted);
        for (int64_t i = 0; i < row->k; i++)
            for (int b = 0; b < 8; b++)
                h = (h ^ ((uint8_t *)&q[i].index)[b]) * 0x100000001b3;
        ck_assert_msg(h == row->bits, "row %d: n %d, k %d: other indices than torch's", r,
                      (int)row->n, (int)row->k);
    }
}
END_TEST

START_TEST(test_ranks) {
    const double rising[] = { -INFINITY, -1e300, -1, -1e-310, 0, 1e-310, 1, 1e300, INFINITY, NAN };
    for (int i = 0; i + 1 < RG_COUNT(rising); i++) {
        ck_assert(k_rank(rising[i], false) < k_rank(rising[i + 1], false));
        ck_assert(k_rank(rising[i], true) > k_rank(rising[i + 1], true));
    }
    ck_assert(k_rank(-0.0, false) == k_rank(0.0, false) && k_rank(-NAN, true) == k_rank(NAN, true));
    k_top(NULL, 0, 0, true);
}
END_TEST

RG_TESTS(top, test_ties_are_torchs, test_ranks)

/* test_top.c: topk gives the same k of n values as torch, with the same indices among equal
 * values. */
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

/* Returns the i-th of n values: a congruential sequence, or one that rises and falls. */
static int64_t next_value(uint64_t *s, int64_t i, int64_t n, int64_t distinct, bool falls) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    if (falls)
        return RG_MIN(i, n - i) % distinct;
    return (int64_t)((*s >> 33) % (uint64_t)distinct);
}

START_TEST(test_ties_are_torchs) {
    static k_ranked q[3000];
    golden_file f = golden_open("top");
    int cases = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        int64_t n = golden_integer(&words);
        int64_t k = golden_integer(&words);
        int64_t distinct = golden_integer(&words);
        bool falls = golden_integer(&words);
        bool largest = golden_integer(&words);
        bool sorted = golden_integer(&words);
        uint64_t s = 1, h = 0xcbf29ce484222325;
        for (int64_t i = 0; i < n; i++) {
            int64_t v = next_value(&s, i, n, distinct, falls);
            q[i] = (k_ranked){ k_rank((double)v - 3, largest), i };
        }
        k_top(q, n, k, sorted);
        for (int64_t i = 0; i < k; i++)
            for (int b = 0; b < 8; b++)
                h = (h ^ ((uint8_t *)&q[i].index)[b]) * 0x100000001b3;
        ck_assert_msg(h == golden_bits(&words), "line %d: n %d, k %d: other indices than torch's",
                      f.line, (int)n, (int)k);
        cases++;
    }
    ck_assert_int_gt(cases, 0);
    golden_close(&f);
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

/* test_reduce.c: sums have torch's bits, whatever the layout. Sorting keeps equal elements in
 * order. */
#include "tests/golden.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tests/test.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

/* Returns the next number of the sequence that values() in sums.py makes. */
static double next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 40) / 2097152 - 4;
}

/* Returns the hash of a contiguous tensor's bytes. */
static uint64_t hash_of(const rg_tensor *t) {
    uint64_t h = 0xcbf29ce484222325;
    for (size_t b = 0; b < (size_t)t->numel * rgi_sizeof(t->dtype); b++)
        h = (h ^ ((uint8_t *)t->data)[b]) * 0x100000001b3;
    return h;
}

static rg_tensor *filled(rg_dtype dtype, rg_dims shape) {
    uint64_t s = 1;
    rg_tensor *t = rgi_own(rgi_new(dtype, shape.n, shape.v));
    for (int64_t i = 0; i < t->numel; i++)
        rgi_store_f64(t->data + (size_t)i * rgi_sizeof(dtype), dtype, next(&s));
    return t;
}

START_TEST(test_sums_have_torchs_bits) {
    golden_file f = golden_open("sums");
    int cases = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        RG_SCOPE();
        rg_dtype dtype = golden_dtype(golden_word(&words));
        rg_dims shape = golden_dims(golden_word(&words));
        rg_dims order = golden_dims(golden_word(&words));
        int64_t last_step = golden_integer(&words);
        uint32_t dims = (uint32_t)golden_integer(&words);
        uint64_t bits = golden_bits(&words);
        rg_tensor *all = filled(dtype, shape);
        rg_tensor x = *all, y = *all;
        for (int d = 0; d < shape.n; d++) {
            x.size[d] = all->size[order.v[d]];
            x.stride[d] = all->stride[order.v[d]];
        }
        int last = shape.n - 1;
        x.size[last] = (x.size[last] + last_step - 1) / last_step;
        x.stride[last] *= last_step;
        rgi_update_flags(&x);
        for (int d = 0; d < shape.n; d++)
            y.size[d] = dims >> d & 1 ? 1 : x.size[d];
        rg_tensor *out = rgi_own(rgi_new_like(&y, dtype));
        for (int nan = 0; nan < 2; nan++) {
            k_reduce(nan ? &k_nansums : &k_sums, out, &x, dims);
            ck_assert_msg(hash_of(out) == bits, "line %d: other bits than torch's", f.line);
        }
        cases++;
    }
    ck_assert_int_gt(cases, 0);
    golden_close(&f);
}
END_TEST

/* Each loop finds a NaN wherever it is. Without one, the index is that of the first maximum. */
START_TEST(test_extremes_see_every_place) {
    enum { N = 150, M = 9 };
    for (int64_t at = 0; at < N; at++)
        for (int kind = 0; kind < 8; kind++) {
            RG_SCOPE();
            bool nan = kind & 1, smallest = kind & 2, across = kind & 4;
            rg_tensor *x = rg_zeros_dims(across ? RG_DIMS(N, M) : RG_DIMS(M, N), RG_FLOAT32);
            rg_tensor *value = rg_zeros_dims(RG_DIMS(M), RG_FLOAT32),
                      *index = rg_zeros_dims(RG_DIMS(M), RG_INT64);
            float found = smallest ? -1 : 1;
            if (nan)
                found = NAN;
            for (int64_t j = 0; j < M; j++)
                for (int64_t i = at; i < N; i += 7)
                    ((float *)x->data)[across ? i * M + j : j * N + i] = found;
            k_max_dim(value, index, x, across ? 0 : 1, smallest);
            for (int64_t j = 0; j < M; j++) {
                ck_assert_int_eq(((int64_t *)index->data)[j], at);
                float v = ((float *)value->data)[j];
                ck_assert(nan ? isnan(v) : v == (smallest ? -1 : 1));
            }
            k_reduce(smallest ? &k_least : &k_greatest, value, x, across ? 1 : 2);
            for (int64_t j = 0; j < M; j++)
                ck_assert(nan ? isnan(((float *)value->data)[j]) : ((float *)value->data)[j] != 0);
        }
}
END_TEST

/* A norm that is computed in several passes has the same bits as one in a single pass. */
START_TEST(test_norms_in_passes_have_the_same_bits) {
    static const double orders[] = { 0, 1, 2, 3, 0.5, -1, -2, 2.5, INFINITY, -INFINITY };
    static const int64_t columns[] = { 1, 2, 7, 33, 300 };
    uint64_t s = 1;
    for (rg_dtype dtype = RG_FLOAT32; dtype <= RG_FLOAT64; dtype++)
        for (size_t c = 0; c < RG_COUNT(columns); c++) {
            RG_SCOPE();
            rg_tensor *x = rg_zeros_dims(RG_DIMS(9, columns[c]), dtype);
            for (int64_t i = 0; i < x->numel; i++)
                rgi_store_f64(x->data + (size_t)i * rgi_sizeof(dtype), dtype, next(&s) - 0.5);
            for (size_t p = 0; p < RG_COUNT(orders); p++) {
                rg_tensor *one = rg_zeros_dims(RG_DIMS(9, 1), dtype),
                          *passes = rg_zeros_dims(RG_DIMS(9, 1), dtype);
                ck_assert(k_norm(one, x, 1u << 1, orders[p]));
                ck_assert(k_norm_in_passes(passes, x, 1u << 1, orders[p]));
                ck_assert(memcmp(one->data, passes->data, 9 * rgi_sizeof(dtype)) == 0);
            }
        }
}
END_TEST

START_TEST(test_sorting_is_stable) {
    for (int64_t n = 1; n < 3000; n = n * 3 / 2 + 1)
        for (int kind = 0; kind < 6; kind++) {
            RG_SCOPE();
            rg_dtype dtype = (rg_dtype)(RG_INT64 + kind % 3);
            bool descending = kind >= 3;
            uint64_t s = (uint64_t)n;
            rg_tensor *x = rg_zeros_dims(RG_DIMS(n), dtype), *v = rg_zeros_dims(RG_DIMS(n), dtype),
                      *at = rg_zeros_dims(RG_DIMS(n), RG_INT64);
            for (int64_t i = 0; i < n; i++) {
                /* There are few distinct values, and NaN. */
                double e = floor(next(&s) * 4);
                rgi_store_f64(x->data + (size_t)i * rgi_sizeof(dtype), dtype,
                              e == 3 && rgi_is_float(dtype) ? NAN : e);
            }
            ck_assert(k_sort(v, at, x, 0, descending));
            for (int64_t i = 1; i < n; i++) {
                int64_t a = ((int64_t *)at->data)[i - 1], b = ((int64_t *)at->data)[i];
                double p = rgi_load_f64(x->data + (size_t)a * rgi_sizeof(dtype), dtype),
                       q = rgi_load_f64(x->data + (size_t)b * rgi_sizeof(dtype), dtype);
                double shown = rgi_load_f64(v->data + (size_t)i * rgi_sizeof(dtype), dtype);
                ck_assert(isnan(q) ? isnan(shown) : shown == q);
                int64_t before = k_rank(p, descending), after = k_rank(q, descending);
                ck_assert(before < after || (before == after && a < b));
            }
        }
}
END_TEST

RG_TESTS(reduce, test_sums_have_torchs_bits, test_extremes_see_every_place,
         test_norms_in_passes_have_the_same_bits, test_sorting_is_stable)

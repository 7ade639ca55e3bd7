/* test_pool.c: compares the maxima of windows and their indices with a search through every window,
 * for random windows in each instruction set. The maximum is the last NaN if there is one, and else
 * the first of equal elements. */
#include "drawn.h"
#include "tests/test.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

/* Returns small numbers, of which many are equal, and with some_nan a few are NaN. */
static rg_tensor *numbers(rg_dtype dtype, int64_t n, bool some_nan) {
    rg_tensor *t = rgi_own(rgi_new(dtype, 1, (int64_t[]){ n }));
    ck_assert(t);
    for (int64_t i = 0; i < n; i++) {
        const double v = some_nan && draw(0, 30) == 0 ? NAN : (double)draw(-3, 3);
        rgi_store_f64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype, v);
    }
    return t;
}

/* Returns the index, in its plane, of the maximum of a window. */
static int64_t place_of_greatest(const k_window *z, const rg_tensor *x, int64_t plane,
                                 int64_t pixel) {
    int64_t place = -1;
    for (int64_t h = 0; h < z->kernel[0]; h++)
        for (int64_t w = 0; w < z->kernel[1]; w++) {
            const int64_t row = pixel / z->to[1] * z->stride[0] - z->padding[0]
                                + h * z->dilation[0];
            const int64_t col = pixel % z->to[1] * z->stride[1] - z->padding[1]
                                + w * z->dilation[1];
            if (row < 0 || row >= z->size[0] || col < 0 || col >= z->size[1])
                continue;
            const int64_t at = row * z->size[1] + col;
            const int64_t first = plane * z->size[0] * z->size[1];
            const double v = get(x, first + at);
            if (place < 0 || v > get(x, first + place) || isnan(v))
                place = at;
        }
    return place;
}

static void check_pool(const k_pool *p, rg_dtype dtype) {
    RG_SCOPE();
    const k_window *z = &p->window;
    const int64_t pixels = z->to[0] * z->to[1];
    const int64_t inputs = z->size[0] * z->size[1];
    rg_tensor *x = numbers(dtype, p->planes * inputs, dtype != RG_INT64);
    rg_tensor *y = numbers(dtype, p->planes * pixels, false);
    rg_tensor *indices = numbers(RG_INT64, p->planes * pixels, false);
    ck_assert(k_max_pool(p, y, indices, x));
    for (int64_t i = 0; i < y->numel; i++) {
        const int64_t place = place_of_greatest(z, x, i / pixels, i % pixels);
        const double greatest = get(x, i / pixels * inputs + place);
        ck_each(get(indices, i) == (double)place && (get(y, i) == greatest || isnan(greatest))
                    && !isnan(get(y, i)) == !isnan(greatest),
                "element %lld is %g of %g, not %g of %lld: (%lld, %lld) to (%lld, %lld), set %d",
                (long long)i, get(y, i), get(indices, i), greatest, (long long)place,
                (long long)z->size[0], (long long)z->size[1], (long long)z->to[0],
                (long long)z->to[1], k_set);
    }
}

/* Draws windows, each of which has an element. Returns false if they don't fit. */
static bool draw_windows(k_window *z, int64_t most) {
    for (int d = 0; d < 2; d++) {
        z->size[d] = draw(1, most);
        z->kernel[d] = draw(1, 4);
        z->stride[d] = draw(1, 3);
        z->dilation[d] = draw(0, 2) ? 1 : 2;
        z->padding[d] = draw(0, z->kernel[d] / 2);
        const int64_t room = z->size[d] + 2 * z->padding[d] - z->dilation[d] * (z->kernel[d] - 1);
        z->to[d] = (room - 1) / z->stride[d] + 1;
        /* With dilation, a window at the edge might have no element. */
        if (room < 1 || (z->dilation[d] > 1 && z->size[d] < z->kernel[d] * z->dilation[d]))
            return false;
    }
    return true;
}

static void check_random(int times, int64_t most) {
    static const rg_dtype dtypes[] = { RG_FLOAT32, RG_FLOAT64, RG_INT64 };
    const int best = k_set;
    for (int k = 0; k < times; k++) {
        k_pool p = { .planes = draw(1, 4) };
        if (!draw_windows(&p.window, most))
            continue;
        k_set = (int)draw(0, best);
        check_pool(&p, dtypes[draw(0, 2)]);
    }
    k_set = best;
}

START_TEST(test_small_planes) { check_random(rg_slow() ? 100 : 2000, 9); }
END_TEST

START_TEST(test_wide_planes) { check_random(rg_slow() ? 20 : 400, 70); }
END_TEST

/* A row has more windows than are computed at once. */
START_TEST(test_long_rows) {
    for (int64_t wide = 1020; wide < 1040; wide++) {
        const k_pool p = { .planes = 2,
                           .window = { .size = { 2, wide },
                                       .to = { 1, (wide - 2) / 2 + 1 },
                                       .kernel = { 2, 2 },
                                       .stride = { 2, 2 },
                                       .dilation = { 1, 1 } } };
        check_pool(&p, RG_FLOAT32);
    }
}
END_TEST

/* The least integer divided by -1 is itself, since integers wrap around. */
START_TEST(test_mean_of_least) {
    for (int64_t wide = 1; wide <= 40; wide += 39) {
        RG_SCOPE();
        const k_pool p = { .planes = 1,
                           .window = { .size = { 1, wide },
                                       .to = { 1, wide },
                                       .kernel = { 1, 1 },
                                       .stride = { 1, 1 },
                                       .dilation = { 1, 1 } },
                           .divisor = -1 };
        rg_tensor *x = numbers(RG_INT64, wide, false), *y = numbers(RG_INT64, wide, false);
        ((int64_t *)x->data)[wide - 1] = INT64_MIN;
        ck_assert(k_mean_pool(&p, y, x));
        for (int64_t i = 0; i < wide - 1; i++)
            ck_assert_int_eq(((int64_t *)y->data)[i], -((int64_t *)x->data)[i]);
        ck_assert(((int64_t *)y->data)[wide - 1] == INT64_MIN);
    }
}
END_TEST

RG_TESTS(pool, test_small_planes, test_wide_planes, test_long_rows, test_mean_of_least)

/* test_conv.c: compares convolutions and both of their gradients with sums over every tap, for
 * random windows in each instruction set. The elements are small integers, so every sum is
 * exact. */
#include "drawn.h"
#include "tests/test.h"
#include "tests/in_turn.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rg_tensor *integers(rg_dtype dtype, int64_t n) {
    rg_tensor *t = rgi_own(rgi_new(dtype, 1, (int64_t[]){ n }));
    ck_assert(t);
    for (int64_t i = 0; i < n; i++)
        rgi_store_f64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype, (double)draw(-4, 4));
    return t;
}

/* ---- the reference ------------------------------------------------------------------- */

/* The indices of the elements of x, of w and of y that take part in one product of a convolution. x
 * is -1 if the element lies in the padding. */
typedef struct {
    int64_t x, w, y;
} product;

/* Returns the index, in its plane, of the element of x that the tap reads for this output. Returns
 * -1 if the tap reads the padding. */
static int64_t seen(const k_window *z, int64_t pixel, int64_t tap) {
    const int64_t row = pixel / z->to[1] * z->stride[0] - z->padding[0]
                        + tap / z->kernel[1] * z->dilation[0];
    const int64_t col = pixel % z->to[1] * z->stride[1] - z->padding[1]
                        + tap % z->kernel[1] * z->dilation[1];
    const bool inside = row >= 0 && row < z->size[0] && col >= 0 && col < z->size[1];
    return inside ? row * z->size[1] + col : -1;
}

/* Calls f for each product of the convolution. */
static void for_each_product(const k_conv *z, void (*f)(const product *p, void *context),
                             void *context) {
    const k_window *window = &z->window;
    const int64_t pixels = window->to[0] * window->to[1];
    const int64_t plane = window->size[0] * window->size[1];
    const int64_t taps = window->kernel[0] * window->kernel[1];
    for (int64_t image = 0; image < z->batch * z->groups; image++)
        for (int64_t o = 0; o < z->out; o++)
            for (int64_t i = 0; i < z->in; i++)
                for (int64_t tap = 0; tap < taps; tap++)
                    for (int64_t pixel = 0; pixel < pixels; pixel++) {
                        const int64_t at = seen(window, pixel, tap);
                        const int64_t group = image % z->groups;
                        const product p = {
                            .x = at < 0 ? -1 : (image * z->in + i) * plane + at,
                            .w = ((group * z->out + o) * z->in + i) * taps + tap,
                            .y = (image * z->out + o) * pixels + pixel,
                        };
                        f(&p, context);
                    }
}

/* The tensors, and the expected sums for y, for the gradient of x and for that of w. */
typedef struct {
    const rg_tensor *x, *w, *g;
    double *y, *gx, *gw;
} expected;

static void add_product(const product *p, void *context) {
    expected *e = context;
    if (p->x < 0)
        return;
    const double g = get(e->g, p->y);
    e->y[p->y] += get(e->x, p->x) * get(e->w, p->w);
    e->gx[p->x] += g * get(e->w, p->w);
    e->gw[p->w] += g * get(e->x, p->x);
}

/* ---- a case -------------------------------------------------------------------------- */

static void check_elements(const rg_tensor *t, const double *e, const k_conv *z, const char *what) {
    const k_window *w = &z->window;
    for (int64_t i = 0; i < t->numel; i++)
        ck_each(get(t, i) == e[i],
                "%s, element %lld: %g, not %g: batch %lld, groups %lld, %lld to %lld channels, "
                "(%lld, %lld) by (%lld, %lld), padding (%lld, %lld), stride (%lld, %lld), dilation "
                "(%lld, %lld), set %d",
                what, (long long)i, get(t, i), e[i], (long long)z->batch, (long long)z->groups,
                (long long)z->in, (long long)z->out, (long long)w->size[0], (long long)w->size[1],
                (long long)w->kernel[0], (long long)w->kernel[1], (long long)w->padding[0],
                (long long)w->padding[1], (long long)w->stride[0], (long long)w->stride[1],
                (long long)w->dilation[0], (long long)w->dilation[1], k_set);
}

/* Returns a tensor for a result, filled with NaN, which the kernel must overwrite. */
static rg_tensor *result_of(rg_dtype dtype, int64_t n) {
    rg_tensor *t = integers(dtype, n);
    for (int64_t i = 0; i < n; i++)
        rgi_store_f64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype, NAN);
    return t;
}

static void check_conv(const k_conv *z, rg_dtype dtype, bool with_bias) {
    RG_SCOPE();
    const k_window *w = &z->window;
    const int64_t pixels = w->to[0] * w->to[1];
    const int64_t outputs = z->batch * z->groups * z->out * pixels;
    rg_tensor *x = integers(dtype, z->batch * z->groups * z->in * w->size[0] * w->size[1]);
    rg_tensor *weight = integers(dtype, z->groups * z->out * z->in * w->kernel[0] * w->kernel[1]);
    rg_tensor *g = integers(dtype, outputs);
    rg_tensor *bias = integers(dtype, z->groups * z->out);
    expected e = { .x = x, .w = weight, .g = g };
    e.y = calloc((size_t)(outputs + x->numel + weight->numel), sizeof *e.y);
    e.gx = e.y + outputs;
    e.gw = e.gx + x->numel;
    for_each_product(z, add_product, &e);
    for (int64_t i = 0; with_bias && i < outputs; i++)
        e.y[i] += get(bias, i / pixels % bias->numel);
    rg_tensor *y = result_of(dtype, outputs);
    rg_tensor *gx = result_of(dtype, x->numel);
    rg_tensor *gw = result_of(dtype, weight->numel);
    ck_assert(k_convolve(z, y, x, weight, with_bias ? bias : NULL));
    ck_assert(k_convolve_input(z, gx, g, weight));
    ck_assert(k_convolve_weight(z, gw, x, g));
    check_elements(y, e.y, z, "y");
    check_elements(gx, e.gx, z, "the gradient of x");
    check_elements(gw, e.gw, z, "the gradient of w");
    free(e.y);
}

/* Draws windows over up to `most` elements a dim. Returns false if they don't fit. */
static bool draw_windows(k_window *z, bool two_dims, int64_t most, bool by_one) {
    for (int d = 0; d < 2; d++) {
        const bool flat = d == 0 && !two_dims;
        z->size[d] = flat ? 1 : draw(1, most);
        z->kernel[d] = flat ? 1 : draw(1, 5);
        z->stride[d] = flat || by_one ? 1 : draw(1, 3);
        z->dilation[d] = flat ? 1 : draw(0, 3) ? 1 : draw(1, 3);
        z->padding[d] = flat ? 0 : draw(0, 1) ? 0 : draw(0, 6);
        const int64_t room = z->size[d] + 2 * z->padding[d] - z->dilation[d] * (z->kernel[d] - 1);
        z->to[d] = (room - 1) / z->stride[d] + 1;
        if (room < 1)
            return false;
    }
    return true;
}

/* Checks random windows in each set. */
static void check_random(int times, bool two_dims, int64_t most, bool by_one) {
    const int best = k_set;
    for (int k = 0; k < times; k++) {
        k_conv z = { .batch = draw(1, 4), .groups = draw(0, 2) ? 1 : draw(1, 3) };
        z.in = draw(1, 5);
        z.out = draw(1, 19);
        if (!draw_windows(&z.window, two_dims, most, by_one))
            continue;
        k_set = (int)draw(0, best);
        rg_set_num_threads((int)draw(1, 3));
        check_conv(&z, draw(0, 1) ? RG_FLOAT32 : RG_FLOAT64, draw(0, 1));
    }
    k_set = best;
}

START_TEST(test_windows_that_move_by_one) { check_random(rg_slow() ? 20 : 300, true, 20, true); }
END_TEST

START_TEST(test_any_windows) { check_random(rg_slow() ? 20 : 300, true, 14, false); }
END_TEST

START_TEST(test_one_dim) { check_random(rg_slow() ? 20 : 300, false, 90, true); }
END_TEST

/* These images are computed in several strips, and the sums for these weights take several
 * vectors. */
START_TEST(test_strips) {
    for (int wide = 60; wide <= 64; wide++) {
        const k_conv z = { .batch = 2,
                           .groups = 1,
                           .in = 12,
                           .out = 21,
                           .window = { .size = { 41, wide },
                                       .to = { 41, wide - 2 },
                                       .kernel = { 5, 3 },
                                       .stride = { 1, 1 },
                                       .padding = { 2, 0 },
                                       .dilation = { 1, 1 } } };
        check_conv(&z, RG_FLOAT64, true);
    }
}
END_TEST

/* A NaN reaches the results that read it, and no others. */
START_TEST(test_not_a_number) {
    RG_SCOPE();
    const k_conv z = { .batch = 1,
                       .groups = 1,
                       .in = 2,
                       .out = 9,
                       .window = { .size = { 18, 18 },
                                   .to = { 18, 18 },
                                   .kernel = { 3, 3 },
                                   .stride = { 1, 1 },
                                   .padding = { 1, 1 },
                                   .dilation = { 1, 1 } } };
    enum { PIXELS = 18 * 18 };
    rg_tensor *x = integers(RG_FLOAT32, 2 * PIXELS), *w = integers(RG_FLOAT32, 9 * 18);
    rg_tensor *y = integers(RG_FLOAT32, 9 * PIXELS), *gw = integers(RG_FLOAT32, 9 * 18);
    rg_tensor *g = integers(RG_FLOAT32, 9 * PIXELS), *gx = integers(RG_FLOAT32, 2 * PIXELS);
    ((float *)x->data)[17] = NAN; /* This is the last element of the first row. */
    ((float *)g->data)[17] = NAN;
    ck_assert(k_convolve(&z, y, x, w, NULL) && k_convolve_input(&z, gx, g, w));
    for (int64_t i = 0; i < PIXELS; i++) {
        const bool near = i / 18 <= 1 && i % 18 >= 16;
        for (int64_t o = 0; o < 9; o++)
            ck_each(!isnan(get(y, o * PIXELS + i)) == !near, "y, element %lld", (long long)i);
        for (int64_t c = 0; c < 2; c++)
            ck_each(!isnan(get(gx, c * PIXELS + i)) == !near, "gx, element %lld", (long long)i);
    }
    ck_assert(k_convolve_weight(&z, gw, integers(RG_FLOAT32, 2 * PIXELS), g));
    for (int64_t i = 0; i < gw->numel; i++)
        ck_each(!isnan(get(gw, i)) == (i >= 18), "gw, element %lld", (long long)i);
    ck_assert(k_convolve_weight(&z, gw, x, integers(RG_FLOAT32, 9 * PIXELS)));
    for (int64_t i = 0; i < gw->numel; i++) {
        const int64_t tap = i % 9;
        const bool sees = i / 9 % 2 == 0 && tap / 3 <= 1 && tap % 3 >= 1;
        ck_each(!isnan(get(gw, i)) == !sees, "gw, element %lld", (long long)i);
    }
}
END_TEST

/* ---- without memory ------------------------------------------------------------------ */

static struct {
    k_conv z;
    rg_tensor *x, *w, *g, *y, *gx, *gw;
} call;

static bool convolve_all(void) {
    return k_convolve(&call.z, call.y, call.x, call.w, NULL)
           && k_convolve_input(&call.z, call.gx, call.g, call.w)
           && k_convolve_weight(&call.z, call.gw, call.x, call.g);
}

/* Denies each request for memory in turn. */
START_TEST(test_denied) {
    for (int64_t stride = 1; stride <= 2; stride++) {
        RG_SCOPE();
        call.z = (k_conv){ .batch = 2,
                           .groups = 1,
                           .in = 2,
                           .out = 3,
                           .window = { .size = { 1, 35 },
                                       .to = { 1, 32 / stride },
                                       .kernel = { 1, 4 },
                                       .stride = { 1, stride },
                                       .dilation = { 1, 1 } } };
        const int64_t outputs = 2 * 3 * call.z.window.to[1];
        call.x = integers(RG_FLOAT32, 2 * 2 * 35);
        call.gx = integers(RG_FLOAT32, 2 * 2 * 35);
        call.w = integers(RG_FLOAT32, 3 * 2 * 4);
        call.gw = integers(RG_FLOAT32, 3 * 2 * 4);
        call.y = integers(RG_FLOAT32, outputs);
        call.g = integers(RG_FLOAT32, outputs);
        ck_assert_int_ge(deny_in_turn(convolve_all, NULL), 5);
    }
}
END_TEST

RG_TESTS(conv, test_windows_that_move_by_one, test_any_windows, test_one_dim, test_strips,
         test_not_a_number, test_denied)

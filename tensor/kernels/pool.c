/*
 * pool.c: max pooling and mean pooling, which compute the maximum or the mean of windows that slide
 * over planes, and their gradients. loops/pool.h computes a row of windows.
 */
#include "plans.h"
#include "tensor/error.h"
#include "window.h"

#include <math.h>

/* POOL_RUN neighbouring windows of a row are computed at once. In any instruction set, POOL_ROUND
 * windows fill whole vectors. Windows are computed one by one in two cases: a row has fewer than
 * POOL_FEW windows and there is no dilation, or the sizes of windows differ (adaptive pooling). */
enum { POOL_RUN = 256, POOL_ROUND = 16, POOL_FEW = 4 };

/* The elements of a window along one dim: begin to end - 1, for dilation 1. `counted` is the number
 * of positions along this dim that a mean counts. If k_pool's `divisor` is 0, a sum is divided by
 * the product of the counts of both dims. */
typedef struct {
    int64_t begin, end, counted;
} pool_span;

static inline pool_span pool_span_of(const k_pool *p, int d, int64_t o) {
    const k_window *z = &p->window;
    if (p->adaptive) {
        const int64_t begin = o * z->size[d] / z->to[d];
        const int64_t end = ((o + 1) * z->size[d] - 1) / z->to[d] + 1;
        return (pool_span){ begin, end, end - begin };
    }
    const int64_t from = o * z->stride[d] - z->padding[d];
    const int64_t to = RG_MIN(from + z->kernel[d], z->size[d] + z->padding[d]);
    pool_span s = { RG_MAX(from, 0), RG_MIN(to, z->size[d]), 0 };
    s.counted = p->count_padding ? to - from : s.end - s.begin;
    return s;
}

/* Returns whether windows are computed one by one, not POOL_RUN at a time. */
static inline bool pool_one_by_one(const k_pool *p) {
    const k_window *z = &p->window;
    return p->adaptive || (z->to[1] < POOL_FEW && z->dilation[0] == 1 && z->dilation[1] == 1);
}

#define K_LOOPS "loops/pool.h"
#define K_TYPES_NUMBERS
#include "sets.h"

/* Returns the greatest number of elements of x that a window can have along dim d. */
static int64_t pool_taps(const k_window *z, int d) { return RG_MIN(z->kernel[d], z->size[d]); }

static bool pool_run(const k_pool *p, rg_work *loop, rg_tensor *y, const rg_tensor *indices,
                     const rg_tensor *x) {
    const k_window *z = &p->window;
    pool_work work = { p, y->data, x->data, indices ? (int64_t *)(void *)indices->data : NULL };
    const int64_t outputs = z->to[0] * z->to[1];
    const int64_t taps = p->adaptive ? 1 : pool_taps(z, 0) * pool_taps(z, 1);
    if (loop && p->planes)
        k_rows(p->planes, RG_MAX(z->size[0] * z->size[1], outputs * taps), loop, &work);
    return loop;
}

bool k_max_pool(const k_pool *p, rg_tensor *y, rg_tensor *indices, const rg_tensor *x) {
    const double plane = (double)p->window.size[0] * (double)p->window.size[1];
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, rgi_sizeof(y->dtype) == 4 && plane > INT32_MAX, NULL,
                  "a plane of %.0f elements is too large", plane);
    static rg_work *const pool_max_loops[K_DTYPES][K_COLUMNS] = K_TABLE_NUMBERS(pool_max);
    return pool_run(p, K_LOOP_OF(pool_max_loops, y->dtype, "max_pool2d"), y, indices, x);
}

bool k_max_pool_backward(const k_pool *p, rg_tensor *gx, const rg_tensor *indices,
                         const rg_tensor *g) {
    static rg_work *const pool_max_backward_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_NUMBERS(pool_max_backward);
    return pool_run(p, K_LOOP_OF(pool_max_backward_loops, gx->dtype, "max_pool2d"), gx, indices, g);
}

bool k_mean_pool(const k_pool *p, rg_tensor *y, const rg_tensor *x) {
    static rg_work *const pool_mean_loops[K_DTYPES][K_COLUMNS] = K_TABLE_NUMBERS(pool_mean);
    return pool_run(p, K_LOOP_OF(pool_mean_loops, y->dtype, "avg_pool2d"), y, NULL, x);
}

bool k_mean_pool_backward(const k_pool *p, rg_tensor *gx, const rg_tensor *g) {
    static rg_work *const pool_mean_backward_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_NUMBERS(pool_mean_backward);
    return pool_run(p, K_LOOP_OF(pool_mean_backward_loops, gx->dtype, "avg_pool2d"), gx, NULL, g);
}

/*
 * conv.c: convolutions over one or two dims of contiguous tensors, and the gradients of x and of w.
 * A task is a matrix product for a part of an image, so that scratch memory doesn't grow with the
 * batch. There are two methods. With stride 1, if the windows fill vectors well, a strip of x's
 * rows is copied with its padding, and the product reads the windows from the copy (loops/slide.h).
 * Otherwise the elements that a window covers are copied to a column of the "columns matrix"
 * (im2col), for a stretch of pixels of y at a time (loops/conv.h). A tap is a position in the
 * convolution's kernel.
 */
#include "plans.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "window.h"

enum {
    /* CONV_TERMS is the greatest number of rows of the columns matrix (see im2col above) that are
     * written at once. CONV_ROWS is the greatest number of rows of weights that are multiplied with
     * those rows. The rows of both kinds together fit into the L2 cache. */
    CONV_TERMS = 384,
    CONV_ROWS = 128,
    /* CONV_STRETCH is the largest size of a stretch of pixels in bytes. The number of pixels of a
     * stretch is a multiple of CONV_ROUND. */
    CONV_STRETCH = 1024,
    CONV_ROUND = 32,
    /* The number of bytes that may be written beyond the end of a row of the columns matrix. */
    CONV_SLACK = 64,
    /* The gradient of w is a sum over the batch. CONV_SHARES is the number of parts of the batch
     * that are summed separately; there are fewer parts if their sums would take more than
     * CONV_SUM_BYTES. */
    CONV_SHARES = 16,
    CONV_SUM_BYTES = 16 << 20,
    /* SLIDE_BYTES is the approximate size of the copy of a strip, which fits into the L2 cache.
     * SLIDE_WINDOWS is the approximate number of windows that the gradient of w processes at once,
     * which fit into the L1 cache. */
    SLIDE_BYTES = 1 << 17,
    SLIDE_WINDOWS = 192,
    /* The number of elements that may be read or written beyond the end of a copy. */
    SLIDE_SLACK = 32,
    /* The greatest number of output channels that the method for stride 1 computes at once. Each
     * instruction set computes K_TILE_ROWS channels at once; this is the largest K_TILE_ROWS. */
    SLIDE_TILE = 8
};

#define K_LOOPS "loops/conv.h"
#define K_TYPES_FLOATS
#include "sets.h"

#define K_LOOPS "loops/slide.h"
#define K_TYPES_FLOATS
#include "sets.h"

#define K_LOOPS "loops/conv_turn.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

#define K_LOOPS "loops/conv_taps.h"
#define K_TYPES_SIZES
#define K_BASE_ONLY
#include "sets.h"

static rg_work *const conv_turn_taps_loops[K_DTYPES] = K_BASE_SIZES(conv_turn_taps);

/* Returns a plan with the fields that both methods have in common. */
static conv_plan conv_plan_begin(const k_conv *z, rg_dtype dtype) {
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    return (conv_plan){ .z = z,
                        .taps = taps,
                        .terms = z->in * taps,
                        .pixels = z->window.to[0] * z->window.to[1],
                        .turn = k_direct_turn(dtype) };
}

/* Returns a plan for im2col. Its stretches are so short that `rows` rows of the columns matrix take
 * at most about 512 KB. But no stretch is shorter than CONV_ROUND pixels. */
static conv_plan conv_plan_of(const k_conv *z, rg_dtype dtype, int64_t rows) {
    conv_plan p = conv_plan_begin(z, dtype);
    p.product = k_direct_product(dtype);
    const int64_t item = (int64_t)rgi_sizeof(dtype);
    const int64_t most = RG_MIN(CONV_STRETCH / item, (1 << 19) / RG_MAX(1, rows * item));
    const int64_t longest = RG_MAX(most, CONV_ROUND);
    p.stretches = (p.pixels - 1) / longest + 1;
    const int64_t even = (p.pixels - 1) / p.stretches + 1;
    p.stretch = (even + CONV_ROUND - 1) / CONV_ROUND * CONV_ROUND;
    p.stretches = (p.pixels - 1) / p.stretch + 1;
    return p;
}

/* Runs `work` for all tasks on several threads. `parts` is the number of tasks, `steps` the cost of
 * a task in multiplications, and `items` the number of elements of scratch memory for each worker.
 * Returns false if memory runs out. */
static bool conv_run(conv_plan *p, rg_dtype dtype, int64_t parts, double steps, int64_t items,
                     rg_work *work) {
    const int64_t grain = RG_MAX(1, (int64_t)(0x1p17 / RG_MAX(1, steps)));
    const int workers = rgi_workers(parts, grain);
    p->bytes = ((size_t)items * rgi_sizeof(dtype) + CONV_SLACK + 63) / 64 * 64;
    const size_t bytes = p->bytes * (size_t)workers;
    p->room = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!p->room)
        return false;
    rgi_parallel(parts, grain, workers, work, p);
    rgi_free(p->room, bytes, RG_MEM_OTHER);
    return true;
}

/* Returns the cost of all products together, as a number of multiplications. */
static double conv_steps(const conv_plan *p) {
    const k_conv *z = p->z;
    return (double)(z->batch * z->groups * z->out) * (double)p->terms * (double)p->pixels;
}

/* ---- the method for stride 1 ----------------------------------------------------------------- */

/* Returns whether to use the method for stride 1. The stride must be 1. Each window takes one lane
 * of a vector, and at least three quarters of the lanes must be in use. The lanes are counted for
 * vectors of 16 lanes, in the better of two layouts. In the first layout, each row of windows
 * begins with a new vector. In the second layout, all rows are joined, and the lanes between two
 * rows hold no window. */
static bool slide_pays(const k_conv *z) {
    enum { LANES = 16 };
    const k_window *w = &z->window;
    if (w->stride[0] != 1 || w->stride[1] != 1)
        return false;
    const int64_t width = w->to[1] + (w->kernel[1] - 1) * w->dilation[1];
    const int64_t each = w->to[0] * ((w->to[1] + LANES - 1) / LANES);
    const int64_t joined = ((w->to[0] - 1) * width + w->to[1] + LANES - 1) / LANES;
    return w->to[0] * w->to[1] * 4 >= RG_MIN(each, joined) * LANES * 3;
}

/* Returns a plan for stride 1. Its strips have at most `windows` windows, and their copies take at
 * most SLIDE_BYTES, not counting the lines that a strip shares with the next one. But a strip has
 * at least one row of windows. */
static conv_plan slide_plan_of(const k_conv *z, rg_dtype dtype, int64_t windows) {
    const k_window *w = &z->window;
    conv_plan p = conv_plan_begin(z, dtype);
    p.width = w->to[1] + (w->kernel[1] - 1) * w->dilation[1];
    p.channels = z->in;
    p.blocks = 1;
    const int64_t fit = SLIDE_BYTES / (p.width * z->in * (int64_t)rgi_sizeof(dtype));
    const int64_t most = RG_MAX(1, RG_MIN(fit, windows / w->to[1]));
    p.stretches = (w->to[0] - 1) / most + 1;
    p.rows = (w->to[0] - 1) / p.stretches + 1;
    p.stretches = (w->to[0] - 1) / p.rows + 1;
    p.plane = (p.rows + (w->kernel[0] - 1) * w->dilation[0]) * p.width;
    return p;
}

/* Computes the offset p->at[l] of each term l, and then runs all tasks with conv_run. Returns false
 * if memory runs out. */
static bool slide_run(conv_plan *p, rg_dtype dtype, int64_t parts, int64_t items, rg_work *work) {
    const size_t bytes = (size_t)p->terms * sizeof *p->at;
    p->at = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!p->at)
        return false;
    K_BASE_LOOP(slide_offsets)(p, 0, p->terms, 0);
    bool ok = conv_run(p, dtype, parts, conv_steps(p) / (double)parts, items, work);
    rgi_free(p->at, bytes, RG_MEM_OTHER);
    return ok;
}

static bool slide_convolve(const k_conv *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *w,
                           const rg_tensor *bias) {
    static rg_work *const slide_forward_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(slide_forward);
    const rg_dtype dtype = (rg_dtype)y->dtype;
    conv_plan p = slide_plan_of(z, dtype, INT64_MAX);
    p.y = y->data;
    p.x = x->data;
    p.w = w->data;
    p.bias = bias ? bias->data : NULL;
    const int64_t items = SLIDE_TILE * (p.rows * p.width + SLIDE_SLACK) + z->in * p.plane
                          + SLIDE_SLACK;
    return slide_run(&p, dtype, z->batch * z->groups * p.stretches, items,
                     K_LOOP_OF(slide_forward_loops, dtype, "conv"));
}

/* ---- convolutions of integers ---------------------------------------------------------- */

#define K_LOOPS "loops/conv_whole.h"
#define K_TYPES_INTEGERS
#define K_BASE_ONLY
#include "sets.h"

static void whole_convolve(const k_conv *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *w,
                           const rg_tensor *bias) {
    static rg_work *const whole_forward_loops[K_DTYPES] = K_BASE_INTEGERS(whole_forward);
    conv_whole p = {
        .z = z, .y = y->data, .x = x->data, .w = w->data, .bias = bias ? bias->data : NULL
    };
    const int64_t parts = z->batch * z->groups * z->out;
    const double steps = (double)w->numel / (double)(z->groups * z->out) * (double)y->numel
                         / (double)parts;
    const int64_t grain = RG_MAX(1, (int64_t)(0x1p17 / RG_MAX(1, steps)));
    rgi_parallel(parts, grain, rgi_workers(parts, grain),
                 K_BASE_LOOP_OF(whole_forward_loops, y->dtype, "conv"), &p);
}

/* ---- convolutions and their gradients --------------------------------------------------- */

bool k_convolve(const k_conv *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *w,
                const rg_tensor *bias) {
    static rg_work *const conv_forward_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(conv_forward);
    const rg_dtype dtype = (rg_dtype)y->dtype;
    const bool whole = rgi_is_integer(dtype);
    if (whole && y->numel > 0)
        whole_convolve(z, y, x, w, bias);
    if (whole)
        return true;
    rg_work *work = K_LOOP_OF(conv_forward_loops, dtype, "conv");
    if (!work || y->numel == 0)
        return work;
    if (slide_pays(z))
        return slide_convolve(z, y, x, w, bias);
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    conv_plan p = conv_plan_of(z, dtype, RG_MIN(z->in * taps, CONV_TERMS));
    p.y = y->data;
    p.x = x->data;
    p.w = w->data;
    p.bias = bias ? bias->data : NULL;
    const int64_t parts = z->batch * z->groups * p.stretches;
    const int64_t items = RG_MIN(p.terms, CONV_TERMS) * p.stretch + z->out * CONV_ROUND;
    return conv_run(&p, dtype, parts, conv_steps(&p) / (double)parts, items, work);
}

/* Sets p->channels and p->blocks: cuts the channels of x in a group into blocks that take at most
 * `rows` rows of the columns matrix. A channel takes p->taps rows; if these are more than `rows`,
 * each block is one channel. */
static void conv_cut_channels(conv_plan *p, int64_t rows) {
    p->channels = RG_MIN(RG_MAX(1, rows / p->taps), p->z->in);
    p->blocks = (p->z->in - 1) / p->channels + 1;
    p->channels = (p->z->in - 1) / p->blocks + 1;
}

/* Computes the gradient of x as a convolution of g, the gradient of y. Requires stride 1. */
static bool conv_of_gradient(const k_conv *z, rg_tensor *gx, const rg_tensor *g,
                             const rg_tensor *w) {
    k_conv turned = *z;
    turned.in = z->out;
    turned.out = z->in;
    for (int d = 0; d < 2; d++) {
        const k_window *window = &z->window;
        turned.window.size[d] = window->to[d];
        turned.window.to[d] = window->size[d];
        turned.window.padding[d] = (window->kernel[d] - 1) * window->dilation[d]
                                   - window->padding[d];
    }
    rg_tensor *weights = rgi_new(w->dtype, 1, (int64_t[]){ w->numel });
    if (!weights)
        return false;
    conv_taps taps = { z, weights->data, w->data };
    K_BASE_LOOP_OF(conv_turn_taps_loops, w->dtype, "conv")(&taps, 0, z->groups, 0);
    const bool ok = slide_convolve(&turned, gx, g, weights, NULL);
    rgi_release(weights);
    return ok;
}

bool k_convolve_input(const k_conv *z, rg_tensor *gx, const rg_tensor *g, const rg_tensor *w) {
    static rg_work *const conv_backward_input_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(conv_backward_input);
    const rg_dtype dtype = (rg_dtype)gx->dtype;
    rg_work *work = K_LOOP_OF(conv_backward_input_loops, dtype, "conv");
    if (!work || gx->numel == 0)
        return work;
    if (slide_pays(z) && g->numel > 0)
        return conv_of_gradient(z, gx, g, w);
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    conv_plan p = conv_plan_of(z, dtype, RG_MAX(CONV_ROWS, taps));
    conv_cut_channels(&p, CONV_ROWS);
    const size_t item = rgi_sizeof(dtype);
    const size_t bytes = (size_t)w->numel * item;
    char *turned = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!turned)
        return false;
    const int64_t step = z->out * p.terms * (int64_t)item;
    conv_turning weights = { .turn = p.turn,
                             .to = turned,
                             .from = w->data,
                             .to_group = step,
                             .from_group = step,
                             .to_row = z->out,
                             .row = p.terms,
                             .col = 1,
                             .n = z->out,
                             .k = p.terms };
    K_BASE_LOOP(conv_turn)(&weights, 0, z->groups, 0);
    p.y = gx->data;
    p.x = g->data;
    p.w = turned;
    const int64_t parts = z->batch * z->groups * p.blocks;
    const int64_t items = (p.channels * p.taps + z->out) * p.stretch;
    const bool ok = conv_run(&p, dtype, parts, conv_steps(&p) / (double)parts, items, work);
    rgi_free(turned, bytes, RG_MEM_OTHER);
    return ok;
}

/* Adds the sums of all parts of the batch, and writes the totals to gw. In `sums`, the total of a
 * group is a matrix (terms, wide), which is transposed into the rows of gw. */
static void conv_join_shares(const conv_plan *p, rg_tensor *gw, rg_tensor *sums) {
    const k_conv *z = p->z;
    const size_t item = rgi_sizeof(gw->dtype);
    rg_tensor sum = rgi_header_of(sums);
    sum.size[0] /= p->shares;
    rgi_update_flags(&sum);
    for (int64_t share = 1; share < p->shares; share++) {
        rg_tensor more = sum;
        more.data += (size_t)(share * sum.numel) * item;
        k_run(k_add, &sum, &sum, &more);
    }
    conv_turning turning = { .turn = p->turn,
                             .to = gw->data,
                             .from = p->y,
                             .to_group = z->out * p->terms * (int64_t)item,
                             .from_group = p->terms * p->wide * (int64_t)item,
                             .to_row = p->terms,
                             .row = p->wide,
                             .col = 1,
                             .n = p->terms,
                             .k = z->out };
    K_BASE_LOOP(conv_turn)(&turning, 0, z->groups, 0);
}

bool k_convolve_weight(const k_conv *z, rg_tensor *gw, const rg_tensor *x, const rg_tensor *g) {
    static rg_work *const conv_backward_weight_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(conv_backward_weight);
    static rg_work *const slide_weight_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(slide_weight);
    const rg_dtype dtype = (rg_dtype)gw->dtype;
    rg_work *work = K_LOOP_OF(conv_backward_weight_loops, dtype, "conv");
    if (!work || gw->numel == 0)
        return work;
    if (g->numel == 0) {
        rgi_fill_zero(gw);
        return true;
    }
    const bool slides = slide_pays(z);
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    conv_plan p = slides ? slide_plan_of(z, dtype, SLIDE_WINDOWS)
                         : conv_plan_of(z, dtype, RG_MAX(CONV_TERMS, taps));
    if (!slides)
        conv_cut_channels(&p, CONV_TERMS);
    p.wide = (z->out + CONV_ROUND / 2 - 1) / (CONV_ROUND / 2) * (CONV_ROUND / 2);
    const int64_t items = z->groups * p.terms * p.wide;
    const int64_t most = CONV_SUM_BYTES / (items * (int64_t)rgi_sizeof(dtype));
    const int64_t wanted = CONV_SHARES / (z->groups * p.blocks);
    p.shares = RG_MAX(1, RG_MIN(z->batch, RG_MIN(wanted, most)));
    rg_tensor *sums = rgi_new(dtype, 1, (int64_t[]){ p.shares * items });
    if (!sums)
        return false;
    p.y = sums->data;
    p.x = x->data;
    p.w = g->data;
    const int64_t parts = z->groups * p.blocks * p.shares;
    bool ok;
    if (slides)
        ok = slide_run(&p, dtype, parts,
                       p.wide * p.rows * z->window.to[1] + p.channels * p.plane + SLIDE_SLACK,
                       K_LOOP_OF(slide_weight_loops, dtype, "conv"));
    else
        ok = conv_run(&p, dtype, parts, conv_steps(&p) / (double)parts,
                      (p.channels * p.taps + p.wide) * p.stretch, work);
    if (ok)
        conv_join_shares(&p, gw, sums);
    rgi_release(sums);
    return ok;
}

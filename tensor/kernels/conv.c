/*
 * conv.c: convolutions over one or two dims of contiguous tensors, and both of their gradients, as
 * products of a piece of an image at a time: what the taps of a kernel see is written out as the
 * columns of a matrix for a stretch of pixels, so that memory doesn't grow with the batch. How a
 * piece is done is in loops/conv.h.
 */
#include "kernels.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "window.h"

enum {
    /* So many rows of columns are written out at once, and multiplied by so many rows of weights:
     * they stay in the second cache. */
    CONV_TERMS = 384,
    CONV_ROWS = 128,
    /* A stretch of pixels has at most so many bytes. Its length is a multiple of CONV_ROUND. */
    CONV_STRETCH = 1024,
    CONV_ROUND = 32,
    /* A row of columns may be written this far beyond its end. */
    CONV_SLACK = 64,
    /* The weights' gradient is summed over so many shares of the batch, or fewer if the sums would
     * take more than so many bytes. */
    CONV_SHARES = 16,
    CONV_SUM_BYTES = 16 << 20
};

/* A plan is what all parts of one call share. */
typedef struct {
    const k_conv *z;
    /* They are the tensors' elements. In the gradient by x, w is turned: (groups, terms, out). The
     * gradient by w is summed in y: (shares, groups, terms, wide). */
    char *y;
    const char *x, *w, *bias;
    /* A kernel has so many taps, and an output is the sum of so many terms, which are a group's
     * channels times the taps. An image of y has so many pixels. */
    int64_t taps, terms, pixels;
    /* A stretch of an image has so many pixels; an image has so many of them. */
    int64_t stretch, stretches;
    /* The gradients are made in blocks of so many channels of x, of which a group has `blocks`. */
    int64_t channels, blocks;
    int64_t shares, wide;
    k_product *product;
    k_turn *turn;
    /* Each worker has `bytes` bytes of the room. */
    char *room;
    size_t bytes;
} conv_plan;

#define K_LOOPS "loops/conv.h"
#define K_TYPES_FLOATS
#include "sets.h"

/* Makes a plan whose stretches, of which a worker's room holds `rows` rows, aren't large. */
static conv_plan conv_plan_of(const k_conv *z, rg_dtype dtype, int64_t rows) {
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    conv_plan p = { .z = z,
                    .taps = taps,
                    .terms = z->in * taps,
                    .pixels = z->window.to[0] * z->window.to[1],
                    .product = k_direct_product(dtype),
                    .turn = k_direct_turn(dtype) };
    const int64_t item = (int64_t)rgi_sizeof(dtype);
    const int64_t most = RG_MIN(CONV_STRETCH / item, (1 << 19) / RG_MAX(1, rows * item));
    const int64_t longest = RG_MAX(most, CONV_ROUND);
    p.stretches = (p.pixels - 1) / longest + 1;
    const int64_t even = (p.pixels - 1) / p.stretches + 1;
    p.stretch = (even + CONV_ROUND - 1) / CONV_ROUND * CONV_ROUND;
    p.stretches = (p.pixels - 1) / p.stretch + 1;
    return p;
}

/* Does all parts, each of which takes so many steps, with room for `items` elements a worker. */
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

/* Returns how many steps all of the products take. */
static double conv_steps(const conv_plan *p) {
    const k_conv *z = p->z;
    return (double)(z->batch * z->groups * z->out) * (double)p->terms * (double)p->pixels;
}

bool k_convolve(const k_conv *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *w,
                const rg_tensor *bias) {
    static rg_work *const loops[K_DTYPES][K_SETS] = K_TABLE_FLOATS(conv_forward);
    const rg_dtype dtype = (rg_dtype)y->dtype;
    rg_work *work = K_LOOP_OF(loops, dtype, "conv");
    if (!work || y->numel == 0)
        return work;
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

/* Chooses blocks of channels that make `rows` rows or, if a channel has more, one of them. */
static void conv_cut_channels(conv_plan *p, int64_t rows) {
    p->channels = RG_MIN(RG_MAX(1, rows / p->taps), p->z->in);
    p->blocks = (p->z->in - 1) / p->channels + 1;
    p->channels = (p->z->in - 1) / p->blocks + 1;
}

bool k_convolve_input(const k_conv *z, rg_tensor *gx, const rg_tensor *g, const rg_tensor *w) {
    static rg_work *const loops[K_DTYPES][K_SETS] = K_TABLE_FLOATS(conv_backward_input);
    const rg_dtype dtype = (rg_dtype)gx->dtype;
    rg_work *work = K_LOOP_OF(loops, dtype, "conv");
    if (!work || gx->numel == 0)
        return work;
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    conv_plan p = conv_plan_of(z, dtype, RG_MAX(CONV_ROWS, taps));
    conv_cut_channels(&p, CONV_ROWS);
    const size_t item = rgi_sizeof(dtype);
    const size_t bytes = (size_t)w->numel * item;
    char *turned = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!turned)
        return false;
    for (int64_t i = 0; i < z->groups; i++) {
        const size_t at = (size_t)(i * z->out * p.terms) * item;
        p.turn(turned + at, z->out, w->data + at, p.terms, 1, z->out, p.terms, 1);
    }
    p.y = gx->data;
    p.x = g->data;
    p.w = turned;
    const int64_t parts = z->batch * z->groups * p.blocks;
    const int64_t items = (p.channels * p.taps + z->out) * p.stretch;
    const bool ok = conv_run(&p, dtype, parts, conv_steps(&p) / (double)parts, items, work);
    rgi_free(turned, bytes, RG_MEM_OTHER);
    return ok;
}

/* gw = the sum over the shares, with rows of w in place of columns. */
static void conv_join_shares(const conv_plan *p, rg_tensor *gw, rg_tensor *sums) {
    const k_conv *z = p->z;
    const size_t item = rgi_sizeof(gw->dtype);
    rg_tensor sum = *sums;
    sum.size[0] /= p->shares;
    rgi_update_flags(&sum);
    for (int64_t share = 1; share < p->shares; share++) {
        rg_tensor more = sum;
        more.data += (size_t)(share * sum.numel) * item;
        k_run(k_add, &sum, &sum, &more);
    }
    for (int64_t i = 0; i < z->groups; i++) {
        char *to = gw->data + (size_t)(i * z->out * p->terms) * item;
        const char *from = p->y + (size_t)(i * p->terms * p->wide) * item;
        p->turn(to, p->terms, from, p->wide, 1, p->terms, z->out, 1);
    }
}

bool k_convolve_weight(const k_conv *z, rg_tensor *gw, const rg_tensor *x, const rg_tensor *g) {
    static rg_work *const loops[K_DTYPES][K_SETS] = K_TABLE_FLOATS(conv_backward_weight);
    const rg_dtype dtype = (rg_dtype)gw->dtype;
    rg_work *work = K_LOOP_OF(loops, dtype, "conv");
    if (!work || gw->numel == 0)
        return work;
    if (g->numel == 0) {
        rgi_fill_zero(gw);
        return true;
    }
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    conv_plan p = conv_plan_of(z, dtype, RG_MAX(CONV_TERMS, taps));
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
    const bool ok = conv_run(&p, dtype, parts, conv_steps(&p) / (double)parts,
                             (p.channels * p.taps + p.wide) * p.stretch, work);
    if (ok)
        conv_join_shares(&p, gw, sums);
    rgi_release(sums);
    return ok;
}

/*
 * roll.c: functions that move elements along dims. flip reverses their order. roll shifts them, and
 * elements that leave at one end enter at the other end. In the formulas, g is the gradient of the
 * result, and gx the gradient of x.
 */
#include "autograd/checks.h"

/* ---- flip: x with its elements in reverse order along some dims; gx is g flipped along the
 *      same dims ---------------------------------------------------------------- */

struct flip_attr {
    uint32_t dims;
};

static bool flip_forward(rg_call *c) {
    rg_tensor x = rgi_header_of(c->in[0]);
    for (int d = 0; d < x.ndim && x.numel; d++) {
        rg_part backwards = { RG_PART_RANGE(d, x.size[d] - 1, x.size[d], -1) };
        if (RG_ATTR(c, flip)->dims >> d & 1)
            rgi_take_part(&x, &backwards);
    }
    rgi_copy_elements(c->out[0], &x);
    return true;
}

static rg_tensor *flip_rule(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(flip, RG_ATTR(s, flip), g);
}

RG_OP(flip, RG_WITH(flip), .moves = true, .doc = "x backwards along some dims",
      .node = "FlipBackward0", .n_in = 1, .shape = rgi_shape_kept, .forward = flip_forward,
      .grad = { RG_RULE(0, flip_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(flip, 1) }, { "(2,3,4)", RG_A(flip, 6) }, { "()", RG_A(flip, 0) },
                 { "(0,3)", RG_A(flip, 3) }));

rg_tensor *rg_flip_dims(rg_tensor *x, rg_dims dims) {
    struct flip_attr a;
    if (!rgi_check(x, "flip") || !rgi_check_dims("flip", dims.n)
        || !rgi_wrap_dims("flip", &dims, x->ndim, &a.dims,
                          "dim %d appears multiple times in the list of dims"))
        return NULL;
    return RG_APPLY(flip, &a, x);
}

/* ---- roll: y[(i + shift) mod n] = x[i] along some dims; gx is g rolled back by the same
 *      shifts ------------------------------------------------------------------- */

/* The attributes of roll. shift[d] is the shift along dim d, from 0 to the dim's size - 1 (0 if the
 * size is 0). If `flat` is set, the flattened tensor is rolled instead, by shift[0]. */
struct roll_attr {
    bool flat;
    int64_t shift[RG_MAX_DIMS];
};

/* Copies one block of x to its place in y. If bit d of `wraps` is set, the block has the indices
 * along dim d that wrap around to the other end. Otherwise it has the indices along dim d that
 * don't wrap around. */
static void roll_block(const rg_tensor *y, const rg_tensor *x, const int64_t shift[],
                       unsigned wraps) {
    rg_tensor to = rgi_header_of(y);
    rg_tensor from = rgi_header_of(x);
    for (int d = 0; d < x->ndim; d++) {
        int64_t k = shift[d];
        int64_t stays = x->size[d] - k;
        bool wrapped = wraps >> d & 1;
        int64_t length = wrapped ? k : stays;
        rgi_take_part(&from, &(rg_part){ RG_PART_RANGE(d, wrapped ? stays : 0, length, 1) });
        rgi_take_part(&to, &(rg_part){ RG_PART_RANGE(d, wrapped ? 0 : k, length, 1) });
    }
    rgi_copy_elements(&to, &from);
}

static bool roll_forward(rg_call *c) {
    const struct roll_attr *a = RG_ATTR(c, roll);
    rg_tensor y = rgi_header_of(c->out[0]);
    rg_tensor x = rgi_header_of(c->in[0]);
    RG_SCOPE();
    if (a->flat) {
        rg_tensor *whole = rgi_own(rgi_contiguous_copy(c->in[0], (rg_dtype)y.dtype));
        if (!whole)
            return false;
        x = rgi_flat(whole);
        y = rgi_flat(&y);
    }
    if (x.numel == 0)
        return true;
    for (unsigned wraps = 0; wraps < 1u << x.ndim; wraps++)
        roll_block(&y, &x, a->shift, wraps);
    return true;
}

static rg_tensor *roll_rule(const rg_step *s, rg_tensor *g) {
    struct roll_attr a = *RG_ATTR(s, roll);
    for (int d = 0; d < g->ndim; d++) {
        int64_t size = a.flat ? g->numel : g->size[d];
        if (a.shift[d])
            a.shift[d] = size - a.shift[d];
    }
    return RG_APPLY(roll, &a, g);
}

RG_OP(roll, RG_WITH(roll), .moves = true, .doc = "y[(i + shift) mod n] = x[i] along some dims",
      .node = "RollBackward0", .n_in = 1, .shape = rgi_shape_same, .forward = roll_forward,
      .grad = { RG_RULE(0, roll_rule) },
      RG_SAMPLES({ "(2,3,4)", RG_A(roll, .shift = { 1, 0, 3 }) },
                 { "(2,3)", RG_A(roll, .flat = true, .shift = { 4 }) },
                 { "()", RG_A(roll, .flat = true) }, { "(0,3)", RG_A(roll, .shift = { 0, 1 }) }));

static bool roll_check(rg_tensor *x, const rg_dims *shifts, const rg_dims *dims, bool flat) {
    if (!rgi_check(x, "roll") || !rgi_check_dims("roll", dims->n)
        || !rgi_check_dims("roll", shifts->n))
        return false;
    RG_FAIL_IF(shifts->n == 0, "roll", "`shifts` required");
    RG_FAIL_IF(shifts->n != dims->n && !flat, "roll",
               "shifts and dimensions must align. shifts: %d, dims:%d", shifts->n, dims->n);
    return true;
}

/* Returns (a + b) mod n, or 0 if n is 0. Requires that a is from 0 to n - 1. */
static int64_t roll_sum(int64_t a, int64_t b, int64_t n) { return n ? (a + b % n + n) % n : 0; }

/* Rolls x along the dims. As in torch, if x has no elements and only one dim is given, this dim
 * isn't checked. */
rg_tensor *rg_roll_dims(rg_tensor *x, rg_dims shifts, rg_dims dims) {
    struct roll_attr a = { .flat = dims.n == 0 && shifts.n == 1 };
    if (!roll_check(x, &shifts, &dims, a.flat))
        return NULL;
    if (a.flat)
        a.shift[0] = roll_sum(0, shifts.v[0], x->numel);
    if (a.flat || (x->numel == 0 && dims.n == 1))
        return RG_APPLY(roll, &a, x);
    for (int i = 0; i < shifts.n; i++) {
        int d;
        if (!rgi_want_any_dim("roll", x, dims.v[i])
            || !rgi_wrap_dim("roll", dims.v[i], x->ndim, &d))
            return NULL;
        a.shift[d] = roll_sum(a.shift[d], shifts.v[i], x->size[d]);
    }
    return RG_APPLY(roll, &a, x);
}

rg_tensor *(rg_roll)(rg_tensor *x, int64_t shift, int dim) {
    return rg_roll_dims(x, RG_DIMS(shift), RG_DIMS(dim));
}

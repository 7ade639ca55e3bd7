/*
 * pad.c: pad, which adds elements at the ends of the last dims, or removes some there.
 */
#include "autocast.h"
#include "elementwise.h"

#include "autograd/checks.h"

#include <stdio.h>

/* ---- pad: more, or fewer, elements at the ends of the last dims -------------------
 * The added elements are a constant or, in the other modes, elements of x. The position before the
 * first element, for example, gets element 1 (reflect), element 0 (replicate) or the last element
 * (circular). */

struct pad_attr {
    const char *node;
    rg_dims padding;
    rg_pad_mode mode;
    double value;
};

/* Returns the padding at the beginning of dim d, or at its end if `end`. A negative number means
 * that elements are removed. */
static int64_t pad_at(const struct pad_attr *a, int ndim, int d, bool end) {
    int at = 2 * (ndim - 1 - d) + end;
    return at < a->padding.n ? a->padding.v[at] : 0;
}

static bool pad_mirrors(const struct pad_attr *a) {
    return a->mode == RG_REFLECT || a->mode == RG_REPLICATE;
}

/* Sets *sum to size + left + right. Returns whether the sum overflows; if so, *sum is the sum
 * modulo 2^64. Requires that size isn't negative. If both additions overflow, they do so in
 * opposite directions, and the sum doesn't overflow. */
static bool pad_sum_overflows(int64_t size, int64_t left, int64_t right, int64_t *sum) {
    bool first = __builtin_add_overflow(size, left, sum);
    bool second = __builtin_add_overflow(*sum, right, sum);
    return first != second;
}

/* Sets y's size along dim d to the sum of x's size and both paddings. Fails if this padding is
 * impossible. In the modes reflect and replicate, this function doesn't refuse a negative
 * size, even after an overflow: pad_shape reports it, as torch does. */
static bool pad_size(const struct pad_attr *a, rg_tensor *y, const rg_tensor *x, int d) {
    int64_t left = pad_at(a, x->ndim, d, false);
    int64_t right = pad_at(a, x->ndim, d, true);
    int64_t size = x->size[d];
    int64_t *sum = &y->size[d];
    bool overflows = pad_sum_overflows(size, left, right, sum);
    RG_FAIL_IF(overflows && (a->mode == RG_CONSTANT || (pad_mirrors(a) && *sum >= 0)), NULL,
               "The input size %lld, plus negative padding %lld and %lld resulted in a negative "
               "output size, which is invalid. Check dimension %d of your input.",
               (long long)size, (long long)left, (long long)right, d);
    RG_FAIL_IF(a->mode == RG_REFLECT && (left >= size || right >= size), NULL,
               "Argument #%d: Padding size should be less than the corresponding input dimension, "
               "but got: padding (%lld, %lld) at dimension %d of input %s",
               4 + 2 * (x->ndim - 1 - d), (long long)left, (long long)right, d, RG_SHAPE_TEXT(x));
    RG_FAIL_IF(a->mode == RG_CIRCULAR && (left > size || right > size), NULL,
               "Padding value causes wrapping around more than once.");
    int64_t kept = overflows ? -1 : size + RG_MIN(left, 0) + RG_MIN(right, 0);
    RG_FAIL_IF(a->mode == RG_CIRCULAR && (overflows || *sum < 0 || (kept <= 0 && *sum > 0)), NULL,
               "Negative padding value is resulting in an empty dimension");
    RG_FAIL_IF(a->mode == RG_CONSTANT && kept < 0, NULL, "narrow(): length must be non-negative.");
    return true;
}

/* Returns a header of the part of x that a pad of mode constant keeps. */
static rg_tensor pad_kept(const rg_tensor *x, const struct pad_attr *a) {
    rg_tensor part = rgi_header_of(x);
    for (int d = 0; d < x->ndim; d++) {
        int64_t left = pad_at(a, x->ndim, d, false);
        int64_t right = pad_at(a, x->ndim, d, true);
        int64_t kept = x->size[d] + RG_MIN(left, 0) + RG_MIN(right, 0);
        rgi_take_part(&part, &(rg_part){ RG_PART_RANGE(d, RG_MAX(-left, 0), kept, 1) });
    }
    return part;
}

/* Sets the strides of y, whose shape is known. As in torch, y's dims have the order of x's dims in
 * memory if the pad adds nothing to x. Otherwise y is contiguous. */
static void pad_lay_out(const struct pad_attr *a, rg_tensor *y, const rg_tensor *x) {
    if (a->mode != RG_CONSTANT)
        return;
    for (int i = 0; i < a->padding.n; i++)
        if (a->padding.v[i] > 0)
            return;
    const rg_tensor part = pad_kept(x, a);
    rgi_lay_out_as(y, &part);
}

/* Sets the shape of the output. Fails if x can't be padded in this way. As in torch, the modes
 * reflect and replicate fail if a dim of x other than the batch is empty, and if all padded dims
 * would become empty. */
static bool pad_shape(rg_call *c) {
    const struct pad_attr *a = RG_ATTR(c, pad);
    rg_tensor *y = c->out[0];
    rg_tensor *x = c->in[0];
    int n = a->padding.n / 2;
    if (pad_mirrors(a) && !rgi_want_elements(NULL, "input", x, x->ndim == n + 2))
        return false;
    rgi_copy_shape(y, x);
    bool small = n > 0;
    for (int d = x->ndim - 1; d >= x->ndim - n; d--) {
        if (!pad_size(a, y, x, d))
            return false;
        small = small && y->size[d] < 1;
    }
    RG_FAIL_IF(pad_mirrors(a) && small, NULL, "input %s is too small. Calculated output %s",
               RG_SHAPE_TEXT(x), RG_SHAPE_TEXT(y));
    rg_dims size = rg_shape(y);
    if (!rgi_check_sizes(NULL, &size))
        return false;
    pad_lay_out(a, y, x);
    return true;
}

/* Returns a vector with the index in x for each position of the padded dim d, whose size in x is
 * n. */
static rg_tensor *pad_indices(const struct pad_attr *a, int ndim, int d, int64_t n) {
    int64_t left = pad_at(a, ndim, d, false);
    int64_t right = pad_at(a, ndim, d, true);
    int64_t size = n + (left + right);
    static const k_pad_kind kinds[] = { [RG_REFLECT] = K_PAD_REFLECT,
                                        [RG_REPLICATE] = K_PAD_REPLICATE,
                                        [RG_CIRCULAR] = K_PAD_CIRCULAR };
    rg_tensor *index = rgi_new(RG_INT64, 1, &size);
    if (index)
        k_pad_indices(index, kinds[a->mode], n, left, right);
    return index;
}

static bool pad_constant(rg_tensor *y, const rg_tensor *whole, const struct pad_attr *a) {
    rg_tensor to = rgi_header_of(y);
    rg_tensor from = pad_kept(whole, a);
    bool integer = rgi_is_integer(y->dtype);
    rgi_fill_number(y, a->value, integer ? (int64_t)a->value : a->value != 0);
    for (int d = 0; d < from.ndim; d++) {
        int64_t left = RG_MAX(pad_at(a, from.ndim, d, false), 0);
        rgi_take_part(&to, &(rg_part){ RG_PART_RANGE(d, left, from.size[d], 1) });
    }
    rgi_copy_elements(&to, &from);
    return true;
}

/* Computes the output. RG_CONSTANT pads all dims at once; the other modes pad one dim after the
 * other. */
static bool pad_forward(rg_call *c) {
    const struct pad_attr *a = RG_ATTR(c, pad);
    rg_tensor *y = c->out[0];
    rg_tensor *x = c->in[0];
    if (a->mode == RG_CONSTANT)
        return pad_constant(y, x, a);
    if (y->numel == 0)
        return true;
    RG_SCOPE();
    for (int d = x->ndim - a->padding.n / 2; d < y->ndim; d++) {
        rg_tensor *index = rgi_own(pad_indices(a, y->ndim, d, x->size[d]));
        rg_tensor shape = rgi_header_of(x);
        shape.size[d] = y->size[d];
        rg_tensor *next = d == y->ndim - 1 ? y : rgi_own(rgi_new_like(&shape, (rg_dtype)y->dtype));
        if (!index || !next || !k_index_slices(K_GET, next, x, d, index))
            return false;
        x = next;
    }
    return true;
}

/* The gradient of x in the modes other than RG_CONSTANT: each element of g is added to the gradient
 * of the element of x that pad copied to its place. If g is empty, the zeros are added to its sum,
 * so that they have a history, as in torch. */
static rg_tensor *pad_back(const rg_step *s, rg_tensor *g) {
    const struct pad_attr *a = RG_ATTR(s, pad);
    rg_dims shape = rgi_input_dims(s, 0);
    if (g->numel == 0)
        return rg_add(rg_zeros_dims(shape, (rg_dtype)g->dtype), rg_sum(g));
    for (int d = shape.n - 1; d >= shape.n - a->padding.n / 2 && g; d--) {
        rg_dims part = rg_shape(g);
        part.v[d] = shape.v[d];
        rg_tensor *index = rgi_own(pad_indices(a, shape.n, d, shape.v[d]));
        g = rg_index_add(rg_zeros_dims(part, (rg_dtype)g->dtype), d, index, g, 1);
    }
    return g;
}

/* The gradient of x. For RG_CONSTANT, g is padded by the negated padding, which removes the
 * elements that pad added. As in torch, the gradients of RG_REFLECT and RG_REPLICATE have a history
 * in which their derivative with respect to x is 0. */
static rg_tensor *pad_rule(const rg_step *s, rg_tensor *g) {
    const struct pad_attr *a = RG_ATTR(s, pad);
    if (a->mode != RG_CONSTANT)
        return pad_mirrors(a) ? rgi_flat_in_input(s, pad_back(s, g)) : pad_back(s, g);
    rg_dims back = a->padding;
    for (int i = 0; i < back.n; i++)
        back.v[i] = -back.v[i];
    return rg_pad_with(g, back, RG_CONSTANT, 0);
}

/* PAD expands to the initializer of a test sample (rg_sample). */
#define PAD(inputs, mode, ...) \
    { inputs, RG_A(pad, NULL, RG_D(__VA_ARGS__), mode, 0) }
RG_OP(pad, RG_NAMED(pad), .moves = true,
      .doc = "more, or fewer, elements at the ends of the last dims",
      .node = "ConstantPadNdBackward0", .n_in = 1, RG_MADE(pad), .grad = { RG_RULE(0, pad_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(pad, NULL, RG_D(1, 2), RG_CONSTANT, 0.5) },
                 PAD("(2,3,4)", RG_CONSTANT, -1, 2, 1, -2), PAD("()", RG_CONSTANT),
                 PAD("(1,2,1,2)", RG_CONSTANT, 1, 0, 0, 1, 1, 1, 0, 1),
                 PAD("(2,0)", RG_CONSTANT, 1, 1), PAD("(2,4)", RG_REFLECT, 3, 2),
                 PAD("(2,3,4)", RG_REFLECT, -1, 2, 1, -1),
                 PAD("(2,3,2,3)", RG_REPLICATE, 1, 2, 1, 1, 2, 1),
                 PAD("(2,3)", RG_REPLICATE, -2, 3), PAD("(2,3,4)", RG_CIRCULAR, 4, -1, 2, 1),
                 PAD("(0,2,3)", RG_REFLECT, 1, 1)));

/* Torch's names of the node, by mode and number of padded dims. */
static const char *const pad_nodes[4][4] = {
    [RG_CIRCULAR] = { NULL, "CopySlices", "CopySlices", "CopySlices" },
    [RG_REFLECT] = { NULL, "ReflectionPad1DBackward0", "ReflectionPad2DBackward0",
                     "ReflectionPad3DBackward0" },
    [RG_REPLICATE] = { NULL, "ReplicationPad1DBackward0", "ReplicationPad2DBackward0",
                       "ReplicationPad3DBackward0" }
};

static bool pad_check(const rg_tensor *x, const rg_dims *padding, rg_pad_mode mode) {
    int n = padding->n / 2;
    RG_FAIL_IF(padding->n % 2, "pad", "Padding length must be divisible by 2");
    RG_FAIL_IF(n > x->ndim, "pad",
               "Padding length should be less than or equal to two times the input dimension but "
               "got padding length %d and input of dimension %d",
               padding->n, x->ndim);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, (unsigned)mode > RG_CIRCULAR, "pad",
                  "Unrecognised padding mode %d", (int)mode);
    bool fits = n >= 1 && n <= 3 && (x->ndim == n + 1 || x->ndim == n + 2);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, mode != RG_CONSTANT && !fits, "pad",
                  "Padding size %d is not supported for %dD input tensor. Supported combinations "
                  "for non-constant padding: - 2D or 3D input: padding size = 2 (pads last "
                  "dimension) - 3D or 4D input: padding size = 4 (pads last 2 dimensions) - 4D or "
                  "5D input: padding size = 6 (pads last 3 dimensions)",
                  padding->n, x->ndim);
    return mode != RG_REPLICATE || rgi_want_no_bool("pad", x);
}

rg_tensor *(rg_pad_with)(rg_tensor *x, rg_dims padding, rg_pad_mode mode, double value) {
    if (mode == RG_REFLECT || mode == RG_REPLICATE)
        RG_AUTOCASTS(RG_WIDER, (rg_pad_with)(in[0], padding, mode, value), x);
    if (!rgi_check(x, "pad") || !rgi_check_dims("pad", padding.n) || !pad_check(x, &padding, mode))
        return NULL;
    if (mode == RG_CONSTANT && !rgi_number_fits("pad", value, (rg_dtype)x->dtype))
        return NULL;
    const char *node = mode == RG_CONSTANT ? NULL : pad_nodes[mode][padding.n / 2];
    return RG_APPLY(pad, RG_A(pad, node, padding, mode, value), x);
}

/*
 * product.c: products of vectors and matrices, such as matmul, addmm and linear. (tensordot.c
 * composes others from these.) In the formulas, g is the gradient of y, and ga the gradient of a.
 * This file is long because all products share the functions for their operands.
 */
#include "autocast.h"
#include "autograd/checks.h"
#include "elementwise.h"
#include "half_linear.h"

/* ---- functions for the operands of all products -------------------------------- */

/* Returns t's header (a struct that shares t's elements) with a new dim of size 1 at index `at`. */
static rg_tensor product_raise(const rg_tensor *t, int at) {
    rg_tensor raised = rgi_header_of(t);
    rgi_take_part(&raised, &(rg_part){ RG_PART_NEW(at) });
    return raised;
}

/* Returns the number of vectors along a dim of t: the product of the other sizes. */
static int64_t product_vectors(const rg_tensor *t, int dim) {
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= d == dim ? 1 : t->size[d];
    return n;
}

/* Returns the header of a contiguous tensor as a matrix: all dims but the last are joined. */
static rg_tensor product_folded(const rg_tensor *t) {
    rg_tensor y = rgi_header_of(t);
    y.ndim = 2;
    y.size[0] = product_vectors(t, t->ndim - 1);
    y.size[1] = t->size[t->ndim - 1];
    y.stride[0] = y.size[1];
    y.stride[1] = 1;
    return y;
}

/* Returns a header with only the batch dims of t: all dims but the last two. */
static rg_tensor product_batch(const rg_tensor *t) {
    rg_tensor batch = rgi_header_of(t);
    batch.ndim = (uint8_t)RG_MAX(t->ndim - 2, 0);
    return batch;
}

/* Sets the shape of y = a b. Fails if a or b has no dims, or if their batch dims don't broadcast.
 * If a is a vector, y lacks the dim of rows; if b is a vector, y lacks the dim of columns. */
static bool product_shape(const char *op, rg_tensor *y, const rg_tensor *a, const rg_tensor *b) {
    if (a->ndim == 2 && b->ndim == 2) {
        y->ndim = 2;
        y->size[0] = a->size[0];
        y->size[1] = b->size[1];
        return true;
    }
    if (!rgi_want_dims(op, "mat1", a, 1, RG_MAX_DIMS)
        || !rgi_want_dims(op, "mat2", b, 1, RG_MAX_DIMS))
        return false;
    rg_tensor batch_a = product_batch(a);
    rg_tensor batch_b = product_batch(b);
    if (!rgi_broadcast_shapes(op, &batch_a, &batch_b, y))
        return false;
    if (a->ndim > 1)
        y->size[y->ndim++] = a->size[a->ndim - 2];
    if (b->ndim > 1)
        y->size[y->ndim++] = b->size[b->ndim - 1];
    return true;
}

/* Returns true only if product_wants allows a and b. `terms` must be the number of b's rows. */
static inline bool product_is_plain(const rg_tensor *a, const rg_tensor *b, int64_t terms) {
    return a->size[a->ndim - 1] == terms && a->dtype == b->dtype && !rgi_is_bool(a->dtype);
}

/* Fails unless a has as many columns as b has rows, and both have the same dtype. Bools are allowed
 * only if the product has no terms or no elements, and a or b has more than one dim. */
static __attribute__((noinline)) bool product_wants(const char *op, const rg_tensor *a,
                                                    const rg_tensor *b) {
    const int row = b->ndim == 1 ? 0 : b->ndim - 2;
    const int64_t terms = a->size[a->ndim - 1];
    if (!rgi_want_product(op, a, b, terms, b->size[row])
        || !rgi_want_same_dtype(op, "mat1", a, "mat2", b))
        return false;
    const bool vectors = a->ndim == 1 && b->ndim == 1;
    const bool empty = product_vectors(a, a->ndim - 1) == 0 || product_vectors(b, row) == 0
                       || terms == 0;
    return rgi_want_dtype(op, !rgi_is_bool(a->dtype) || (empty && !vectors), a->dtype);
}

/* Sets *gin to the product of a and b. turn_a and turn_b say whether the last two dims of a and of
 * b are exchanged first. Requires that neither a nor b is a vector. Returns false on failure. */
static bool product_gradient(rg_tensor **gin, const rg_tensor *a, bool turn_a, const rg_tensor *b,
                             bool turn_b) {
    if (a->ndim == 2 && b->ndim == 2) {
        *gin = rgi_new(a->dtype, 2, (int64_t[]){ a->size[turn_a], b->size[!turn_b] });
        return *gin && k_matmul_with(*gin, NULL, a, turn_a, b, turn_b, 1, 0);
    }
    rg_tensor left = turn_a ? k_turned(a) : rgi_header_of(a);
    rg_tensor right = turn_b ? k_turned(b) : rgi_header_of(b);
    rg_tensor y = { 0 };
    if (!product_shape("matmul", &y, &left, &right))
        return false;
    *gin = rgi_new(left.dtype, y.ndim, y.size);
    return *gin && k_matmul(*gin, &left, &right);
}

/* Sets *gin to a^T b, summed over batches: one product of the rows of all batches. If there are
 * batches and a or b isn't contiguous, *gin stays NULL, and the rule computes the gradient. */
static bool product_gradient_of_rows(rg_tensor **gin, const rg_tensor *a, const rg_tensor *b) {
    if (a->ndim == 2)
        return product_gradient(gin, a, true, b, false);
    if (!(a->flags & b->flags & RG_CONTIGUOUS))
        return true;
    rg_tensor rows_of_a = product_folded(a);
    rg_tensor rows_of_b = product_folded(b);
    return product_gradient(gin, &rows_of_a, true, &rows_of_b, false);
}

/* ---- matmul: y = a b on the last two dims. A vector a counts as a row, and a vector b as a
 *      column; ga = g b^T, gb = a^T g ------------------------------------------- */

struct matmul_attr {
    const char *name, *node;
};

static bool matmul_shape(rg_call *c) {
    const char *name = RG_ATTR(c, matmul)->name;
    const rg_tensor *a = c->in[0];
    const rg_tensor *b = c->in[1];
    if (!product_shape(name, c->out[0], a, b))
        return false;
    const int64_t rows = b->size[b->ndim == 1 ? 0 : b->ndim - 2];
    return RG_LIKELY(product_is_plain(a, b, rows)) || product_wants(name, a, b);
}

static bool matmul_forward(rg_call *c) {
    const rg_tensor *a = c->in[0], *b = c->in[1];
    /* Bools are allowed only if there are no terms or no elements. Then every element is false. */
    if (RG_UNLIKELY(rgi_is_bool(c->out[0]->dtype))) {
        rgi_fill_zero(c->out[0]);
        return true;
    }
    if (RG_LIKELY(a->ndim > 1 && b->ndim > 1))
        return k_matmul(c->out[0], a, b);
    rg_tensor y = rgi_header_of(c->out[0]);
    rg_tensor row, column;
    if (a->ndim == 1) {
        row = product_raise(a, 0);
        y = product_raise(&y, b->ndim == 1 ? 0 : y.ndim - 1);
        a = &row;
    }
    if (b->ndim == 1) {
        column = product_raise(b, 1);
        y = product_raise(&y, y.ndim);
        b = &column;
    }
    return k_matmul(&y, a, b);
}

/* The gradient of a. If b is a vector, b and g get a last dim of size 1. If a is a vector, its
 * gradient is computed as a matrix with one row, and then dim -2 is removed. */
static rg_tensor *matmul_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *b = rgi_saved(s, 1);
    if (!b)
        return NULL;
    if (b->ndim == 1) {
        b = rg_unsqueeze(b, -1);
        g = rg_unsqueeze(g, -1);
    }
    if (rgi_input_ndim(s, 0) > 1)
        return rg_matmul(g, rg_mT(b));
    return rg_squeeze_dim(rg_matmul(rg_unsqueeze(g, -2), rg_mT(b)), -2);
}

/* The gradient of b. A vector a becomes a matrix with one row, and the gradient of a vector b is
 * first a matrix with one column. If only a has batches, one product covers all rows of a. */
static rg_tensor *matmul_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    int ndim = rgi_input_ndim(s, 1);
    if (ndim == 1)
        g = rg_unsqueeze(g, -1);
    if (a && a->ndim == 1) {
        a = rg_unsqueeze(a, 0);
        g = rg_unsqueeze(g, -2);
    }
    if (!a || !g)
        return NULL;
    if (a->ndim > 2 && ndim <= 2) {
        int64_t rows = product_vectors(a, a->ndim - 1);
        a = rg_reshape(a, rows, a->size[a->ndim - 1]);
        g = rg_reshape(g, rows, g->size[g->ndim - 1]);
    }
    g = rg_matmul(rg_mT(a), g);
    return ndim == 1 ? rg_squeeze_dim(g, -1) : g;
}

/* Computes the wanted gradients. The rules compute them if a or b is a vector. The rule of b
 * computes b's gradient if a has batches, b has none, and a or g isn't contiguous. */
static bool matmul_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *a = rgi_wants(s, 1) ? rgi_saved(s, 0) : RG_NONE;
    rg_tensor *b = rgi_wants(s, 0) ? rgi_saved(s, 1) : RG_NONE;
    rg_tensor *g = s->g[0];
    if (!a || !b)
        return false;
    if (!rgi_is_none(b) && b->ndim > 1 && g->ndim >= b->ndim
        && !product_gradient(&gin[0], g, false, b, true))
        return false;
    if (rgi_is_none(a) || a->ndim == 1 || g->ndim < a->ndim)
        return true;
    if (a->ndim > 2 && rgi_input_ndim(s, 1) == 2)
        return product_gradient_of_rows(&gin[1], a, g);
    return product_gradient(&gin[1], a, true, g, false);
}

static const char *matmul_node(const void *attr) {
    return ((const struct matmul_attr *)attr)->node;
}

/* MATMUL expands to the initializer of a test sample (rg_sample). */
#define MATMUL(a, b) \
    { a " " b, RG_A(matmul, "matmul", "") }
RG_OP(matmul, RG_WITH(matmul),
      .terms = { .times = 1, .input = 0, .from_last = 1, .gradients = RG_IN(0) | RG_IN(1) },
      .doc = "a b, on the last two dims", .node_of = matmul_node, .n_in = 2, RG_MADE(matmul),
      .grad = { RG_RULE(RG_IN(1), matmul_rule_a), RG_RULE(RG_IN(0), matmul_rule_b) },
      .fused = matmul_fused,
      RG_SAMPLES(MATMUL("(2,3)", "(3,4)"), MATMUL("(2,2,3)", "(3,2)"),
                 MATMUL("(2,1,2,3)", "(4,3,1)"), MATMUL("(2,3)", "(2,3,2)"), MATMUL("(3)", "(3)"),
                 MATMUL("(2,3)", "(3)"), MATMUL("(3)", "(3,2)"), MATMUL("(2,2,3)", "(3)"),
                 MATMUL("(3)", "(2,3,2)"), MATMUL("(2,2,3)", "(2,3,1)"), MATMUL("(0,3)", "(3,2)"),
                 MATMUL("(2,0)", "(0,2)"), MATMUL("(2,2,0)", "(0)"), MATMUL("(0)", "(0)"),
                 MATMUL("(0,2,3)", "(3,2)")));

/* Returns torch's node name for a matmul in which one operand has no batch: the last function that
 * torch's matmul calls gives the name. `swapped` is set if torch computes b^T a^T. */
static const char *matmul_node_of_one(const rg_tensor *a, const rg_tensor *b, bool swapped) {
    if (!swapped)
        return a->ndim >= 3 ? "UnsafeViewBackward0" : "SqueezeBackward4";
    const bool thin = a->size[a->ndim - 2] <= 1 || b->size[b->ndim - 1] <= 1 || b->numel == 0;
    return thin ? "TransposeBackward0" : "CloneBackward0";
}

/* Returns the name that torch gives to the result's node if a or b isn't a matrix. */
static const char *matmul_node_for(const rg_tensor *a, const rg_tensor *b) {
    if (a->ndim == 1 && b->ndim == 1)
        return "DotBackward0";
    if (a->ndim == 2 && b->ndim == 1)
        return "MvBackward0";
    const bool batches = a->ndim == 3 && b->ndim == 3;
    const bool one_a = batches && a->size[0] == 1 && b->size[0] != 1;
    const bool one_b = b->ndim <= 2
                       || (b->history && batches && b->size[0] == 1 && a->size[0] != 1);
    const bool empty = a->ndim == 1 && b->numel == 0;
    const bool swapped = b->ndim > 2 && (empty || (a->history && (a->ndim <= 2 || one_a)));
    const bool vector = a->ndim == 0 || b->ndim <= 1 || (a->ndim == 1 && swapped);
    if (vector || !(one_b || swapped))
        return "UnsafeViewBackward0";
    return matmul_node_of_one(a, b, swapped);
}

rg_tensor *(rg_matmul)(rg_tensor *a, rg_tensor *b) {
    RG_AUTOCASTS(RG_LOWER, (rg_matmul)(in[0], in[1]), a, b);
    if (!rgi_check(a, "matmul") || !rgi_check(b, "matmul"))
        return NULL;
    struct matmul_attr how = { "matmul", "MmBackward0" };
    if (RG_UNLIKELY(a->ndim != 2 || b->ndim != 2))
        how.node = matmul_node_for(a, b);
    return RG_APPLY(matmul, &how, a, b);
}

/* ---- dot, mv, mm, bmm: matmul, but each operand must have a fixed number of dims ---- */

rg_tensor *(rg_dot)(rg_tensor *a, rg_tensor *b) {
    RG_AS("dot");
    if (!rgi_check(a, NULL) || !rgi_check(b, NULL) || !rgi_want_dims(NULL, "self", a, 1, 1)
        || !rgi_want_dims(NULL, "tensor", b, 1, 1))
        return NULL;
    return RG_APPLY(matmul, RG_A(matmul, "dot", "DotBackward0"), a, b);
}

rg_tensor *(rg_mv)(rg_tensor *a, rg_tensor *b) {
    RG_AS("mv");
    if (!rgi_check(a, NULL) || !rgi_check(b, NULL) || !rgi_want_any_dim(NULL, a, 0)
        || !rgi_want_dims(NULL, "self", a, 2, 2) || !rgi_want_dims(NULL, "vec", b, 1, 1))
        return NULL;
    return RG_APPLY(matmul, RG_A(matmul, "mv", "MvBackward0"), a, b);
}

rg_tensor *(rg_mm)(rg_tensor *a, rg_tensor *b) {
    RG_AUTOCASTS(RG_LOWER, (rg_mm)(in[0], in[1]), a, b);
    RG_AS("mm");
    if (!rgi_check(a, NULL) || !rgi_check(b, NULL) || !rgi_want_dims(NULL, "self", a, 2, 2)
        || !rgi_want_dims(NULL, "mat2", b, 2, 2))
        return NULL;
    return RG_APPLY(matmul, RG_A(matmul, "mm", "MmBackward0"), a, b);
}

/* Fails unless a and b have three dims and the same number of matrices. */
static bool product_wants_batches(const char *op, const rg_tensor *a, const rg_tensor *b) {
    return rgi_want_dims(op, "batch1", a, 3, 3) && rgi_want_dims(op, "batch2", b, 3, 3)
           && rgi_want_size(op, "batch2", b, 0, a->size[0]);
}

rg_tensor *(rg_bmm)(rg_tensor *a, rg_tensor *b) {
    RG_AUTOCASTS(RG_LOWER, (rg_bmm)(in[0], in[1]), a, b);
    RG_AS("bmm");
    if (!rgi_check(a, NULL) || !rgi_check(b, NULL) || !product_wants_batches(NULL, a, b))
        return NULL;
    return RG_APPLY(matmul, RG_A(matmul, "bmm", "BmmBackward0"), a, b);
}

/* ---- addmm, baddbmm: y = beta c + alpha a b; gc = beta g, ga = alpha g b^T, gb = alpha a^T g */

struct addmm_attr {
    const char *node;
    double beta, alpha;
    bool batched;
};

static bool addmm_wants_ranks(const char *op, bool batched, const rg_tensor *a,
                              const rg_tensor *b) {
    if (batched)
        return product_wants_batches(op, a, b);
    return rgi_want_dims(op, "mat1", a, 2, 2) && rgi_want_dims(op, "mat2", b, 2, 2);
}

static bool addmm_shape(rg_call *c) {
    const struct addmm_attr *how = RG_ATTR(c, addmm);
    const char *op = how->batched ? "baddbmm" : "addmm";
    const rg_tensor *bias = c->in[0];
    const rg_tensor *a = c->in[1];
    const rg_tensor *b = c->in[2];
    rg_tensor *y = c->out[0];
    if (!addmm_wants_ranks(op, how->batched, a, b)
        || !rgi_want_product(op, a, b, a->size[a->ndim - 1], b->size[b->ndim - 2]))
        return false;
    rgi_copy_shape(y, a);
    y->size[a->ndim - 1] = b->size[a->ndim - 1];
    return rgi_may_expand(op, bias, rg_shape(y)) && rgi_want_same_dtype(op, "mat1", a, "mat2", b)
           && rgi_want_same_dtype(op, "self", bias, "mat2", b) && rgi_want_no_bool(op, a)
           && rgi_factor_fits(op, how->beta, a->dtype) && rgi_factor_fits(op, how->alpha, a->dtype);
}

static bool addmm_forward(rg_call *c) {
    const struct addmm_attr *how = RG_ATTR(c, addmm);
    return k_matmul_with(c->out[0], c->in[0], c->in[1], false, c->in[2], false, how->alpha,
                         how->beta);
}

static rg_tensor *addmm_scaled(rg_tensor *g, double by) { return by == 1 ? g : rg_mul(g, by); }

static rg_tensor *addmm_rule_c(const rg_step *s, rg_tensor *g) {
    return addmm_scaled(g, RG_ATTR(s, addmm)->beta);
}

static rg_tensor *addmm_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *b = rgi_saved(s, 2);
    return addmm_scaled(rg_matmul(g, rg_mT(b)), RG_ATTR(s, addmm)->alpha);
}

static rg_tensor *addmm_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 1);
    return addmm_scaled(rg_matmul(rg_mT(a), g), RG_ATTR(s, addmm)->alpha);
}

/* ADDMM expands to the initializer of a test sample (rg_sample). */
#define ADDMM(inputs, beta_, alpha_, batched_) \
    { inputs, RG_A(addmm, .beta = beta_, .alpha = alpha_, .batched = batched_) }
RG_OP(addmm, RG_NAMED(addmm),
      .terms = { .times = 1, .input = 1, .from_last = 1, .gradients = RG_IN(1) | RG_IN(2) },
      .doc = "beta c + alpha a b", .node = "AddmmBackward0", .n_in = 3, RG_MADE(addmm),
      .grad = { RG_RULE(0, addmm_rule_c), RG_RULE(RG_IN(2), addmm_rule_a),
                RG_RULE(RG_IN(1), addmm_rule_b) },
      RG_SAMPLES(ADDMM("(2,4) (2,3) (3,4)", 1, 1, false), ADDMM("(4) (2,3) (3,4)", 0.5, 2, false),
                 ADDMM("() (2,3) (3,4)", 0, -1, false), ADDMM("(2,1) (2,0) (0,4)", 3, 1, false),
                 ADDMM("(3) (0,2) (2,3)", 1, 1, false),
                 ADDMM("(2,1,4) (2,3,2) (2,2,4)", 2, 0.5, true),
                 ADDMM("(3,4) (0,3,2) (0,2,4)", 1, 1, true)));

rg_tensor *(rg_addmm)(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha) {
    RG_AUTOCASTS(RG_LOWER, (rg_addmm)(in[0], in[1], in[2], beta, alpha), c, a, b);
    return RG_APPLY(addmm, RG_A(addmm, "AddmmBackward0", beta, alpha, false), c, a, b);
}

rg_tensor *(rg_baddbmm)(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha) {
    RG_AUTOCASTS(RG_LOWER, (rg_baddbmm)(in[0], in[1], in[2], beta, alpha), c, a, b);
    RG_AS("baddbmm");
    return RG_APPLY(addmm, RG_A(addmm, "BaddbmmBackward0", beta, alpha, true), c, a, b);
}

/* ---- linear: y = x w^T + bias; gx = g w, gw = g^T x and gbias = g, where gw and gbias are
 *      summed over all rows of x ------------------------------------------------ */

struct linear_attr {
    const char *node;
};

static bool linear_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2];
    rg_tensor *y = c->out[0];
    rgi_copy_shape(y, x);
    y->size[y->ndim - 1] = w->size[0];
    if (RG_UNLIKELY(!product_is_plain(x, w, w->size[1]))) {
        const rg_tensor turned = k_turned(w);
        if (!product_wants("linear", x, &turned))
            return false;
    }
    if (rgi_is_none(bias))
        return true;
    const rg_dims rows = { 2, { product_vectors(x, x->ndim - 1), w->size[0] } };
    return rgi_may_expand("linear", bias, rows)
           && rgi_want_same_dtype("linear", "bias", bias, "weight", w)
           && rgi_want_no_bool("linear", x);
}

static bool linear_forward(rg_call *c) {
    const rg_tensor *bias = c->in[2];
    if (RG_UNLIKELY(c->in[1]->dtype & RG_WIDENED_BIT))
        return rgi_is_half(c->in[1]->dtype) ? rgi_half_linear(c) : rgi_run_widened(c);
    rg_tensor y = rgi_header_of(c->out[0]);
    rg_tensor x = rgi_header_of(c->in[0]);
    rg_tensor turned = k_turned(c->in[1]);
    if (x.ndim == 1) {
        x = product_raise(&x, 0);
        y = product_raise(&y, 0);
    }
    return k_matmul_with(&y, bias, &x, false, &turned, false, 1, !rgi_is_none(bias));
}

static rg_tensor *linear_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *w = rgi_saved(s, 1);
    return rg_matmul(g, w);
}

static rg_tensor *linear_rule_w(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    if (!x)
        return NULL;
    int64_t rows = product_vectors(x, x->ndim - 1);
    rg_tensor *rows_of_g = rg_reshape(g, rows, g->size[g->ndim - 1]);
    return rg_matmul(rg_mT(rows_of_g), rg_reshape(x, rows, x->size[x->ndim - 1]));
}

/* Computes the wanted gradients of x and w. The rules compute them if x is a vector, or in 16 bits.
 * That of w is left to its rule if x has batches, and x or g isn't contiguous. */
static bool linear_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *x = rgi_wants(s, 1) ? rgi_saved(s, 0) : RG_NONE;
    rg_tensor *w = rgi_wants(s, 0) ? rgi_saved(s, 1) : RG_NONE;
    rg_tensor *g = s->g[0];
    if (!x || !w)
        return false;
    if (g->ndim < 2 || rgi_is_half(g->dtype))
        return true;
    if (!rgi_is_none(w) && !product_gradient(&gin[0], g, false, w, false))
        return false;
    return rgi_is_none(x) || product_gradient_of_rows(&gin[1], g, x);
}

RG_OP(linear, RG_NAMED(linear),
      .terms = { .times = 1, .input = 0, .from_last = 1, .gradients = RG_IN(0) | RG_IN(1) },
      .moves = true, .doc = "x w^T + bias", .n_in = 3, .optional = RG_IN(2), RG_MADE(linear),
      .grad = { RG_RULE(RG_IN(1), linear_rule_x), RG_RULE(RG_IN(0), linear_rule_w),
                RG_RULE(0, rgi_rule_same) },
      .fused = linear_fused,
      RG_SAMPLES({ "(2,3) (4,3) (4)", RG_A(linear, "") }, { "(3) (4,3) (4)", RG_A(linear, "") },
                 { "(2,2,3) (4,3) (4)", RG_A(linear, "") }, { "(2,2,3) (4,3) -", RG_A(linear, "") },
                 { "(2,3) (4,3) (1)", RG_A(linear, "") }, { "(0,3) (2,3) (2)", RG_A(linear, "") },
                 { "(2,0) (2,0) (2)", RG_A(linear, "") }));

/* Returns x w^T + bias for a weight that is a vector, or a bias that doesn't have one dim. */
static rg_tensor *linear_composed(rg_tensor *x, rg_tensor *weight, rg_tensor *bias) {
    RG_AS("linear");
    RG_SCOPE();
    rg_tensor *y = weight->ndim == 1 ? rg_matmul(x, weight) : rg_linear(x, weight, RG_NONE);
    if (!y || rgi_is_none(bias))
        return rg_escape(y);
    rg_tensor wide;
    if (!rgi_broadcast_shapes("linear", y, bias, &wide))
        return NULL;
    return rgi_want_no_wider("linear", y, &wide) ? rg_escape(rg_add(y, bias)) : NULL;
}

/* Fails unless x has at least one dim, and the weight has one or two. A weight that is a vector is
 * allowed only if x is a vector as well, or if there is no bias. */
static bool linear_wants_ranks(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias) {
    const bool matrix = x->ndim > 1 && !rgi_is_none(bias);
    return rgi_want_dims("linear", "input", x, 1, RG_MAX_DIMS)
           && rgi_want_dims("linear", "weight", weight, matrix ? 2 : 1, 2);
}

/* Returns the name that torch gives to the result's node. */
static const char *linear_node(const rg_tensor *x, const rg_tensor *bias) {
    if (rgi_is_none(bias) && x->ndim == 1)
        return "SqueezeBackward4";
    if (rgi_is_none(bias))
        return x->ndim == 2 ? "MmBackward0" : "UnsafeViewBackward0";
    if (x->ndim == 2)
        return "AddmmBackward0";
    return x->flags & RG_CONTIGUOUS ? "ViewBackward0" : "AddBackward0";
}

rg_tensor *(rg_linear)(rg_tensor *x, rg_tensor *weight, rg_tensor *bias) {
    RG_AUTOCASTS(RG_LOWER, (rg_linear)(in[0], in[1], in[2]), x, weight, bias);
    if (!rgi_check(x, "linear") || !rgi_check(weight, "linear")
        || !rgi_check_optional(bias, "linear") || !linear_wants_ranks(x, weight, bias))
        return NULL;
    if (weight->ndim == 1 || !(rgi_is_none(bias) || bias->ndim == 1 || x->ndim == 2))
        return linear_composed(x, weight, bias);
    return RG_APPLY(linear, RG_A(linear, linear_node(x, bias)), x, weight, bias);
}

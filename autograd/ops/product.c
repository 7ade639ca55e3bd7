/*
 * product.c: products of vectors and matrices, and what is made of them.
 */
#include "autograd/op.h"

#define PRODUCT_FAIL(...) rgi_fail(RG_RUNTIME_ERROR, __VA_ARGS__)

static bool product_mismatch(const char *op, int64_t n, int64_t k, int64_t k2, int64_t m) {
    return PRODUCT_FAIL(op, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                        (long long)n, (long long)k, (long long)k2, (long long)m);
}

static bool product_batch_mismatch(const char *op, int64_t batch, int64_t k, int64_t batch2,
                                   int64_t k2) {
    return PRODUCT_FAIL(
        op,
        "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
        (long long)batch, (long long)k, (long long)batch2, (long long)k2);
}

/* t with a dim of size 1 more at `at`: a vector as a matrix. */
static rg_tensor product_raise(rg_tensor t, int at) {
    return rgi_take_part(&t, &(rg_part){ RG_PART_NEW(at) }), t;
}

/* How many vectors t consists of, if they lie along `dim`. */
static int64_t product_vectors(const rg_tensor *t, int dim) {
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= d == dim ? 1 : t->size[d];
    return n;
}

/* Contiguous batches of matrices as one matrix with all the rows. */
static rg_tensor product_folded(const rg_tensor *t) {
    rg_tensor y = *t;
    y.ndim = 2;
    y.size[0] = product_vectors(t, t->ndim - 1);
    y.size[1] = y.stride[0] = t->size[t->ndim - 1];
    y.stride[1] = 1;
    return y;
}

/* y's shape: the batches broadcast; a vector has no rows or columns. */
static bool product_shape(const char *op, rg_tensor *y, const rg_tensor *a, const rg_tensor *b) {
    if (a->ndim == 2 && b->ndim == 2) {
        y->ndim = 2;
        y->size[0] = a->size[0];
        y->size[1] = b->size[1];
        return true;
    }
    rg_tensor batch_a = *a, batch_b = *b;
    batch_a.ndim = (uint8_t)RG_MAX(a->ndim - 2, 0);
    batch_b.ndim = (uint8_t)RG_MAX(b->ndim - 2, 0);
    if (!rgi_broadcast_shapes(op, &batch_a, &batch_b, y))
        return false;
    if (a->ndim > 1)
        y->size[y->ndim++] = a->size[a->ndim - 2];
    if (b->ndim > 1)
        y->size[y->ndim++] = b->size[b->ndim - 1];
    return true;
}

/* Makes *gin a^T b or a b or a b^T, of matrices; with folding, of all their rows, which is left to
 * the rule if they aren't contiguous. */
static bool product_gradient(rg_tensor **gin, const rg_tensor *a, bool turn_a, const rg_tensor *b,
                             bool turn_b, bool fold) {
    if (a->ndim == 2 && b->ndim == 2) {
        *gin = rgi_new(a->dtype, 2, (int64_t[]){ a->size[turn_a], b->size[!turn_b] });
        return *gin && k_matmul_with(*gin, NULL, a, turn_a, b, turn_b, 1, 0);
    }
    rg_tensor l = *a, r = *b, y = { 0 };
    if (fold && !(a->flags & b->flags & RG_CONTIGUOUS))
        return true;
    if (fold)
        l = product_folded(&l), r = product_folded(&r);
    if (turn_a)
        l = k_turned(&l);
    if (turn_b)
        r = k_turned(&r);
    return product_shape("matmul", &y, &l, &r) && (*gin = rgi_new(l.dtype, y.ndim, y.size))
           && k_matmul(*gin, &l, &r);
}

/* ---- matmul: y = a b on the last two dims, a vector being a row on the left and a column on the
 *      right; ga = g b^T, gb = a^T g -------------------------------------------------------------
 */

/* torch makes a product of two matrices of it if one operand has no batch; the transposed one if
 * that is the left one. */
typedef enum { MATMUL_DOT, MATMUL_MV, MATMUL_MM, MATMUL_BMM } matmul_kind;

struct matmul_attr {
    const char *name, *node;
    matmul_kind kind;
    bool swapped;
};

static const char *matmul_node(const void *attr) {
    return ((const struct matmul_attr *)attr)->node;
}

static bool matmul_check(const struct matmul_attr *how, const rg_tensor *a, const rg_tensor *b,
                         const rg_tensor *y) {
    const char *name = how->name;
    if (a->size[a->ndim - 1] == b->size[b->ndim == 1 ? 0 : b->ndim - 2] && a->dtype == b->dtype
        && a->dtype != RG_BOOL)
        return true;
    rg_tensor row = a->ndim == 1 ? product_raise(*a, 0) : *a,
              column = b->ndim == 1 ? product_raise(*b, 1) : *b;
    const rg_tensor turned[] = { k_turned(&column), k_turned(&row) };
    const rg_tensor *l = how->swapped ? &turned[0] : &row, *r = how->swapped ? &turned[1] : &column;
    long long n = product_vectors(l, l->ndim - 1), k = l->size[l->ndim - 1],
              k2 = r->size[r->ndim - 2], m = r->size[r->ndim - 1];
    const char *type_l = rgi_scalar_name(l->dtype), *type_r = rgi_scalar_name(r->dtype);
    long long batches = 1;
    for (int d = 0; d < RG_MAX(a->ndim, b->ndim) - 2; d++)
        batches *= y->size[d];
    static const char *const unready[] = { "dot", "addmv_impl_cpu", "addmm_impl_cpu_", "bmm" };
    bool same = l->dtype == r->dtype;
    switch (how->kind) {
    case MATMUL_DOT:
        RG_FAIL_IF(!same, name,
                   "dot : expected both vectors to have same dtype, but found %s and %s", type_l,
                   type_r);
        RG_FAIL_IF(k != k2, name,
                   "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have "
                   "the same number of elements, but got %lld and %lld elements respectively",
                   k, k2, k, k2);
        break;
    case MATMUL_MV:
        RG_FAIL_IF(k != k2, name, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)", n,
                   n, k, k2);
        RG_FAIL_IF(!same, name,
                   "addmv input tensors must have the same dtype, but got %s, %s, and %s", type_r,
                   type_l, type_r);
        break;
    case MATMUL_MM:
        if (k != k2)
            return product_mismatch(name, n, k, k2, m);
        RG_FAIL_IF(!same, name, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                   rgi_c_name(l->dtype), rgi_c_name(r->dtype));
        break;
    default:
        if (k != k2)
            return product_batch_mismatch(name, batches, k, batches, k2);
        RG_FAIL_IF(!same && a->dtype != RG_BOOL, name, "expected scalar type %s but found %s",
                   type_l, type_r);
    }
    bool empty = how->kind != MATMUL_DOT && (n == 0 || product_vectors(r, r->ndim - 2) == 0);
    return a->dtype != RG_BOOL || empty
           || rgi_fail(RG_NOT_IMPLEMENTED, name, "\"%s\" not implemented for 'Bool'",
                       unready[how->kind]);
}

static bool matmul_shape(rg_call *c) {
    const struct matmul_attr *how = RG_ATTR(c, matmul);
    const rg_tensor *a = c->in[0], *b = c->in[1];
    RG_FAIL_IF(a->ndim == 0 || b->ndim == 0, how->name,
               "both arguments to matmul need to be at least 1D, but "
               "they are %dD and %dD",
               a->ndim, b->ndim);
    return product_shape(how->name, c->out[0], a, b) && matmul_check(how, a, b, c->out[0]);
}

static bool matmul_forward(rg_call *c) {
    const rg_tensor *a = c->in[0], *b = c->in[1];
    if (RG_LIKELY(a->ndim > 1 && b->ndim > 1))
        return k_matmul(c->out[0], a, b);
    rg_tensor y = *c->out[0], row, column;
    if (a->ndim == 1) {
        row = product_raise(*a, 0);
        y = product_raise(y, b->ndim == 1 ? 0 : y.ndim - 1);
        a = &row;
    }
    if (b->ndim == 1) {
        column = product_raise(*b, 1);
        y = product_raise(y, y.ndim);
        b = &column;
    }
    return k_matmul(&y, a, b);
}

/* Vectors become matrices, and g one of their shape. */
static rg_tensor *matmul_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *b = rgi_saved(s, 1);
    bool row = rgi_input_ndim(s, 0) == 1;
    if (!b)
        return NULL;
    if (b->ndim == 1)
        b = rg_unsqueeze(b, -1), g = rg_unsqueeze(g, -1);
    if (!row)
        return rg_matmul(g, rg_mT(b));
    return rg_squeeze_dim(rg_matmul(rg_unsqueeze(g, -2), rg_mT(b)), -2);
}

static rg_tensor *matmul_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    int ndim = rgi_input_ndim(s, 1);
    if (ndim == 1)
        g = rg_unsqueeze(g, -1);
    if (a && a->ndim == 1)
        a = rg_unsqueeze(a, 0), g = rg_unsqueeze(g, -2);
    if (!a || !g)
        return NULL;
    /* one b for all: the sum over batches is part of the product */
    if (a->ndim > 2 && ndim <= 2) {
        int64_t rows = product_vectors(a, a->ndim - 1);
        a = rg_reshape(a, rows, a->size[a->ndim - 1]);
        g = rg_reshape(g, rows, g->size[g->ndim - 1]);
    }
    g = rg_matmul(rg_mT(a), g);
    return ndim == 1 ? rg_squeeze_dim(g, -1) : g;
}

static bool matmul_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *a = rgi_wants(s, 1) ? rgi_saved(s, 0) : RG_NONE,
              *b = rgi_wants(s, 0) ? rgi_saved(s, 1) : RG_NONE, *g = s->g[0];
    if (!a || !b)
        return false;
    if (!rgi_is_none(b) && b->ndim > 1 && rgi_input_ndim(s, 0) > 1
        && !product_gradient(&gin[0], g, false, b, true, false))
        return false;
    if (rgi_is_none(a) || a->ndim == 1)
        return true;
    int ndim = rgi_input_ndim(s, 1);
    return ndim == 1 || product_gradient(&gin[1], a, true, g, false, a->ndim > 2 && ndim == 2);
}

#define MATMUL(a, b) \
    { a " " b, RG_A(matmul, "matmul", "", MATMUL_BMM, false) }
RG_OP(matmul, RG_WITH(matmul), .terms = { 1, 0, 1, RG_IN(0) | RG_IN(1), 0, NULL },
      .doc = "a b, on the last two dims", .node_of = matmul_node, .n_in = 2, RG_MADE(matmul),
      .grad = { RG_RULE(RG_IN(1), matmul_rule_a), RG_RULE(RG_IN(0), matmul_rule_b) },
      .fused = matmul_fused,
      RG_SAMPLES(MATMUL("(2,3)", "(3,4)"), MATMUL("(2,2,3)", "(3,2)"),
                 MATMUL("(2,1,2,3)", "(4,3,1)"), MATMUL("(2,3)", "(2,3,2)"), MATMUL("(3)", "(3)"),
                 MATMUL("(2,3)", "(3)"), MATMUL("(3)", "(3,2)"), MATMUL("(2,2,3)", "(3)"),
                 MATMUL("(3)", "(2,3,2)"), MATMUL("(2,2,3)", "(2,3,1)"), MATMUL("(0,3)", "(3,2)"),
                 MATMUL("(2,0)", "(0,2)"), MATMUL("(2,2,0)", "(0)"), MATMUL("(0)", "(0)"),
                 MATMUL("(0,2,3)", "(3,2)")));

rg_tensor *(rg_matmul)(rg_tensor *a, rg_tensor *b) {
    struct matmul_attr how = { "matmul", "UnsafeViewBackward0", MATMUL_BMM, false };
    if (!rgi_check(a, "matmul") || !rgi_check(b, "matmul"))
        return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return RG_APPLY(matmul, &how, a, b); /* which fails */
    bool both = a->ndim == 3 && b->ndim == 3, one_a = both && a->size[0] == 1 && b->size[0] != 1;
    bool one_b = b->ndim <= 2 || (b->history && both && b->size[0] == 1 && a->size[0] != 1);
    how.swapped = a->history && b->ndim > 2 && (a->ndim <= 2 || one_a);
    if (a->ndim == 1 && b->ndim == 1)
        how.kind = MATMUL_DOT, how.node = "DotBackward0";
    else if (b->ndim == 1 || (a->ndim == 1 && how.swapped)) {
        how.kind = MATMUL_MV;
        if (a->ndim == 2)
            how.node = "MvBackward0";
    } else if (one_b || how.swapped) {
        bool thin = how.swapped
                    && (a->size[a->ndim - 2] <= 1 || b->size[b->ndim - 1] <= 1 || b->numel == 0);
        how.kind = MATMUL_MM;
        if (how.swapped)
            how.node = thin ? "TransposeBackward0" : "CloneBackward0";
        else if (a->ndim < 3)
            how.node = a->ndim == 1 ? "SqueezeBackward4" : "MmBackward0";
    }
    return RG_APPLY(matmul, &how, a, b);
}

#define PRODUCT(name, node, kind, check)                                       \
    rg_tensor *(rg_##name)(rg_tensor * a, rg_tensor * b) {                     \
        if (!rgi_check(a, #name) || !rgi_check(b, #name))                      \
            return NULL;                                                       \
        check;                                                                 \
        return RG_APPLY(matmul, RG_A(matmul, #name, node, kind, false), a, b); \
    }
PRODUCT(dot, "DotBackward0", MATMUL_DOT,
        RG_FAIL_IF(a->ndim != 1 || b->ndim != 1, "dot",
                   "1D tensors expected, but got %dD and %dD tensors", a->ndim, b->ndim))
PRODUCT(mv, "MvBackward0", MATMUL_MV,
        RG_FAIL_INDEX_IF(a->ndim == 0, "mv",
                         "Dimension specified as 0 but tensor has no dimensions");
        RG_FAIL_IF(a->ndim != 2 || b->ndim != 1, "mv",
                   "vector + matrix @ vector expected, got 1, %d, %d", a->ndim, b->ndim))
PRODUCT(mm, "MmBackward0", MATMUL_MM,
        RG_FAIL_IF(a->ndim != 2 || b->ndim != 2, "mm", "%s must be a matrix",
                   a->ndim != 2 ? "self" : "mat2"))

static bool bmm_check(const char *op, const rg_tensor *a, const rg_tensor *b) {
    RG_FAIL_IF(a->ndim != 3 || b->ndim != 3, op, "batch%d must be a 3D tensor",
               a->ndim != 3 ? 1 : 2);
    return (a->size[0] == b->size[0] && a->size[2] == b->size[1])
           || product_batch_mismatch(op, a->size[0], a->size[2], b->size[0], b->size[1]);
}
PRODUCT(bmm, "BmmBackward0", MATMUL_BMM, if (!bmm_check("bmm", a, b)) return NULL)

/* ---- addmm, baddbmm: y = beta c + alpha a b; gc = beta g, ga = alpha g b^T, gb = alpha a^T g ---- */
struct addmm_attr {
    const char *node;
    double beta, alpha;
    bool batched;
};
static bool addmm_same_dtype(const char *op, const rg_tensor *c, const rg_tensor *a,
                             const rg_tensor *b) {
    const char *const name[] = { rgi_scalar_name(c->dtype), rgi_scalar_name(a->dtype),
                                 rgi_scalar_name(b->dtype) };
    RG_FAIL_IF(c->dtype != b->dtype, op,
               "self and mat2 must have the same dtype, but got %s and %s", name[0], name[2]);
    RG_FAIL_IF(a->dtype != b->dtype, op,
               "mat1 and mat2 must have the same dtype, but got %s and %s", name[1], name[2]);
    return a->dtype != RG_BOOL
           || rgi_fail(RG_NOT_IMPLEMENTED, op, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
}

static bool baddbmm_same_dtype(const rg_tensor *c, const rg_tensor *a, const rg_tensor *b) {
    RG_FAIL_IF(a->dtype != b->dtype, "baddbmm", "expected scalar type %s but found %s",
               rgi_scalar_name(a->dtype), rgi_scalar_name(b->dtype));
    RG_FAIL_IF(c->dtype != a->dtype, "baddbmm",
               "Input dtypes must be the same, got: input %s, batch1: %s, "
               "batch2: %s",
               rgi_c_name(c->dtype), rgi_c_name(a->dtype), rgi_c_name(b->dtype));
    return a->dtype != RG_BOOL
           || rgi_fail(RG_NOT_IMPLEMENTED, "baddbmm", "\"baddbmm\" not implemented for 'Bool'");
}

static bool addmm_shape(rg_call *c) {
    const struct addmm_attr *attr = RG_ATTR(c, addmm);
    const char *op = attr->batched ? "baddbmm" : "addmm";
    const rg_tensor *bias = c->in[0], *a = c->in[1], *b = c->in[2];
    if (attr->batched && !bmm_check(op, a, b))
        return false;
    RG_FAIL_IF(!attr->batched && (a->ndim != 2 || b->ndim != 2), op,
               "mat%d must be a matrix, got %d-D tensor", a->ndim != 2 ? 1 : 2,
               a->ndim != 2 ? a->ndim : b->ndim);
    if (!attr->batched && a->size[1] != b->size[0])
        return product_mismatch(op, a->size[0], a->size[1], b->size[0], b->size[1]);
    rgi_copy_shape(c->out[0], a);
    c->out[0]->size[a->ndim - 1] = b->size[a->ndim - 1];
    if (!rgi_may_expand(op, bias, rg_shape(c->out[0])))
        return false;
    if (!(attr->batched ? baddbmm_same_dtype(bias, a, b) : addmm_same_dtype(op, bias, a, b)))
        return false;
    bool fits = attr->alpha >= -0x1p63 && attr->alpha < 0x1p63 && attr->beta >= -0x1p63
                && attr->beta < 0x1p63;
    return rgi_is_float(a->dtype) || fits
           || PRODUCT_FAIL(op, "value cannot be converted to type int64_t without overflow");
}

static bool addmm_forward(rg_call *c) {
    const struct addmm_attr *attr = RG_ATTR(c, addmm);
    return k_matmul_with(c->out[0], c->in[0], c->in[1], false, c->in[2], false, attr->alpha,
                         attr->beta);
}

static rg_tensor *addmm_scaled(rg_tensor *g, double by) { return by == 1 ? g : rg_mul(g, by); }
RULE(addmm_rule_c, g, addmm_scaled(g, RG_ATTR(s, addmm)->beta))
RULE(addmm_rule_a, c, addmm_scaled(rg_matmul(g, rg_mT(c)), RG_ATTR(s, addmm)->alpha))
RULE(addmm_rule_b, b, addmm_scaled(rg_matmul(rg_mT(b), g), RG_ATTR(s, addmm)->alpha))
RG_OP(addmm, RG_NAMED(addmm), .terms = { 1, 1, 1, RG_IN(1) | RG_IN(2), 0, NULL },
      .doc = "beta c + alpha a b", .node = "AddmmBackward0", .n_in = 3, RG_MADE(addmm),
      .grad = { RULED(addmm_rule_c), RULED(addmm_rule_a), RULED(addmm_rule_b) },
      RG_SAMPLES({ "(2,4) (2,3) (3,4)", RG_A(addmm, NULL, 1, 1, false) },
                 { "(4) (2,3) (3,4)", RG_A(addmm, NULL, 0.5, 2, false) },
                 { "() (2,3) (3,4)", RG_A(addmm, NULL, 0, -1, false) },
                 { "(2,1) (2,0) (0,4)", RG_A(addmm, NULL, 3, 1, false) },
                 { "(3) (0,2) (2,3)", RG_A(addmm, NULL, 1, 1, false) },
                 { "(2,1,4) (2,3,2) (2,2,4)", RG_A(addmm, NULL, 2, 0.5, true) },
                 { "(3,4) (0,3,2) (0,2,4)", RG_A(addmm, NULL, 1, 1, true) }));

#define ADDMM(name, node, batched)                                                              \
    rg_tensor *rg_##name(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha) { \
        RG_AS(#name);                                                                           \
        return RG_APPLY(addmm, RG_A(addmm, node, beta, alpha, batched), c, a, b);               \
    }
ADDMM(addmm, "AddmmBackward0", false)
ADDMM(baddbmm, "BaddbmmBackward0", true)

/* ---- linear: y = x w^T + bias; gx = g w, gw = g^T x, gbias = g, summed over all but the last dim ---- */
struct linear_attr {
    const char *node;
};
static bool linear_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2];
    rg_dims rows = { 2, { product_vectors(x, x->ndim - 1), w->size[0] } };
    rg_tensor *y = c->out[0];
    rgi_copy_shape(y, x);
    y->size[y->ndim - 1] = w->size[0];
    if (rgi_is_none(bias) || x->size[x->ndim - 1] != w->size[1]) {
        rg_tensor t = k_turned(w);
        return matmul_check(&(struct matmul_attr){ "linear", "", MATMUL_MM, false }, x, &t, y);
    }
    return rgi_may_expand("linear", bias, rows) && addmm_same_dtype("linear", bias, x, w);
}

static bool linear_forward(rg_call *c) {
    rg_tensor y = *c->out[0], x = *c->in[0], w = k_turned(c->in[1]);
    if (x.ndim == 1)
        x = product_raise(x, 0), y = product_raise(y, 0);
    return k_matmul_with(&y, c->in[2], &x, false, &w, false, 1, !rgi_is_none(c->in[2]));
}
RULE(linear_rule_x, b, rg_matmul(g, b))

static rg_tensor *linear_rule_w(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    if (!x)
        return NULL;
    int64_t rows = product_vectors(x, x->ndim - 1);
    return rg_matmul(rg_mT(rg_reshape(g, rows, g->size[g->ndim - 1])),
                     rg_reshape(x, rows, x->size[x->ndim - 1]));
}

static bool linear_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *x = rgi_wants(s, 1) ? rgi_saved(s, 0) : RG_NONE,
              *w = rgi_wants(s, 0) ? rgi_saved(s, 1) : RG_NONE, *g = s->g[0];
    if (!x || !w)
        return false;
    return g->ndim < 2
           || ((rgi_is_none(w) || product_gradient(&gin[0], g, false, w, false, false))
               && (rgi_is_none(x) || product_gradient(&gin[1], g, true, x, false, true)));
}
RG_OP(linear, RG_NAMED(linear), .terms = { 1, 0, 1, RG_IN(0) | RG_IN(1), 0, NULL },
      .doc = "x w^T + bias", .n_in = 3, .optional = RG_IN(2), RG_MADE(linear),
      .grad = { RULED(linear_rule_x), RG_RULE(RG_IN(0), linear_rule_w), RG_RULE(0, rgi_rule_same) },
      .fused = linear_fused,
      RG_SAMPLES({ "(2,3) (4,3) (4)", RG_A(linear, "") }, { "(3) (4,3) (4)", RG_A(linear, "") },
                 { "(2,2,3) (4,3) (4)", RG_A(linear, "") }, { "(2,2,3) (4,3) -", RG_A(linear, "") },
                 { "(2,3) (4,3) (1)", RG_A(linear, "") }, { "(0,3) (2,3) (2)", RG_A(linear, "") },
                 { "(2,0) (2,0) (2)", RG_A(linear, "") }));

rg_tensor *(rg_linear)(rg_tensor *x, rg_tensor *weight, rg_tensor *bias) {
    if (!rgi_check(x, "linear") || !rgi_check(weight, "linear")
        || !rgi_check_optional(bias, "linear"))
        return NULL;
    RG_FAIL_IF(x->ndim == 0 || weight->ndim == 0, "linear",
               "both arguments to linear need to be at least 1D, "
               "but they are %dD and %dD",
               x->ndim, weight->ndim);
    RG_FAIL_IF(weight->ndim > 2, "linear",
               "t() expects a tensor with <= 2 dimensions, but self is %dD", weight->ndim);
    RG_FAIL_IF(weight->ndim == 1 && x->ndim > 1 && !rgi_is_none(bias), "linear",
               "mat2 must be a matrix, got "
               "1-D tensor");
    bool fused = weight->ndim == 2 && (rgi_is_none(bias) || bias->ndim == 1 || x->ndim == 2);
    const char *node = rgi_is_none(bias)          ? x->ndim == 1   ? "SqueezeBackward4"
                                                    : x->ndim == 2 ? "MmBackward0"
                                                                   : "UnsafeViewBackward0"
                       : x->ndim == 2             ? "AddmmBackward0"
                       : x->flags & RG_CONTIGUOUS ? "ViewBackward0"
                                                  : "AddBackward0";
    if (fused)
        return RG_APPLY(linear, RG_A(linear, node), x, weight, bias);
    RG_AS("linear");
    RG_SCOPE();
    rg_tensor *y = weight->ndim == 1 ? rg_matmul(x, weight) : rg_linear(x, weight, RG_NONE), wide;
    if (y && !rgi_is_none(bias)) {
        if (!rgi_broadcast_shapes("linear", y, bias, &wide))
            return NULL;
        RG_FAIL_IF(!rgi_same_shape(&wide, y), "linear",
                   "output with shape %s doesn't match the broadcast "
                   "shape %s",
                   RG_SHAPE_TEXT(y), RG_SHAPE_TEXT(&wide));
        y = rg_add(y, bias);
    }
    return rg_escape(y);
}

/* ---- what is made of them -------------------------------------------------------- */
rg_tensor *(rg_outer)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "outer") || !rgi_check(b, "outer"))
        return NULL;
    RG_FAIL_IF(a->ndim != 1 || b->ndim != 1, "outer",
               "outer: Expected 1-D argument %s, but got %d-D", a->ndim != 1 ? "self" : "vec2",
               a->ndim != 1 ? a->ndim : b->ndim);
    return RG_COMPOSITE("outer", rg_mul(rg_unsqueeze(a, 1), b));
}

rg_tensor *(rg_inner)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "inner") || !rgi_check(b, "inner"))
        return NULL;
    RG_AS("inner");
    if (a->ndim == 0 || b->ndim == 0)
        return rg_mul(a, b);
    RG_FAIL_IF(a->size[a->ndim - 1] != b->size[b->ndim - 1], "inner",
               "inner() the last dimension must match "
               "on both input tensors but got shapes %s and %s",
               RG_SHAPE_TEXT(a), RG_SHAPE_TEXT(b));
    if (a->dtype == b->dtype && a->ndim == 1 && b->ndim == 1)
        return RG_COMPOSITE("inner", rg_reshape_dims(rg_dot(a, b), (rg_dims){ 0 }));
    return rg_tensordot_dims(a, b, RG_DIMS(-1), RG_DIMS(-1));
}

rg_tensor *rg_tensordot(rg_tensor *a, rg_tensor *b, int n) {
    rg_dims in_a = { .n = n }, in_b = { .n = n };
    if (!rgi_check(a, "tensordot") || !rgi_check(b, "tensordot"))
        return NULL;
    RG_FAIL_IF(n < 0, "tensordot", "tensordot expects dims >= 0, but got dims=%d", n);
    RG_FAIL_IF(n > RG_MIN(a->ndim, b->ndim), "tensordot",
               "tensordot expects dims < ndim_a or ndim_b, but got "
               "dims=%d",
               n);
    for (int d = 0; d < n; d++)
        in_a.v[d] = d - n, in_b.v[d] = d;
    return rg_tensordot_dims(a, b, in_a, in_b);
}

/* t as a matrix, its named dims last or first; shape gets the others' sizes. */
static rg_tensor *tensordot_matrix(rg_tensor *t, const rg_dims *named, bool named_first,
                                   rg_dims *shape) {
    uint32_t mask = 0;
    int others = t->ndim - named->n, at = named_first ? named->n : 0,
        last = named_first ? 0 : others;
    int64_t n = 1, k = 1;
    rg_dims order = { .n = t->ndim };
    for (int i = 0; i < named->n; i++) {
        int d;
        if (!rgi_wrap_dim("tensordot", named->v[i], t->ndim, &d))
            return NULL;
        RG_FAIL_IF(mask >> d & 1, "tensordot", "dim %d appears multiple times in the list of dims",
                   d);
        RG_FAIL_INDEX_IF(t->ndim == 0, "tensordot",
                         "Dimension specified as %d but tensor has no dimensions", d);
        mask |= 1u << d;
        order.v[last + i] = d;
        k *= t->size[d];
    }
    for (int d = 0; d < t->ndim; d++)
        if (!(mask >> d & 1))
            order.v[at++] = d, n *= shape->v[shape->n++] = t->size[d];
    t = rg_permute_dims(t, order);
    return named_first ? rg_reshape(t, k, n) : rg_reshape(t, n, k);
}

rg_tensor *rg_tensordot_dims(rg_tensor *a, rg_tensor *b, rg_dims in_a, rg_dims in_b) {
    rg_dims shape = { 0 };
    if (!rgi_check(a, "tensordot") || !rgi_check(b, "tensordot")
        || !rgi_check_dims("tensordot", in_a.n) || !rgi_check_dims("tensordot", in_b.n))
        return NULL;
    RG_FAIL_IF(in_a.n != in_b.n, "tensordot", "both dimension lists should have same length");
    RG_FAIL_IF(a->dtype != b->dtype, "tensordot", "both inputs should have same dtype");
    if (!rgi_check_dims("tensordot", a->ndim + b->ndim - 2 * in_a.n))
        return NULL;
    RG_AS("tensordot");
    RG_SCOPE();
    /* a dim of size 1 against a larger one: that one's sum */
    for (int i = 0; i < in_a.n && a && b; i++) {
        int da, db;
        if (!rgi_wrap_dim("tensordot", in_a.v[i], a->ndim, &da)
            || !rgi_wrap_dim("tensordot", in_b.v[i], b->ndim, &db))
            return NULL;
        int64_t sa = a->ndim ? a->size[da] : 1, sb = b->ndim ? b->size[db] : 1;
        RG_FAIL_IF(sa != sb && sa != 1 && sb != 1, "tensordot",
                   "contracted dimensions need to match, but "
                   "first has size %lld in dim %lld and second has size %lld in dim %lld",
                   (long long)sa, (long long)in_a.v[i], (long long)sb, (long long)in_b.v[i]);
        if (sa == sb || a->ndim == 0 || b->ndim == 0)
            continue;
        if (sa == 1)
            b = rg_sum_dim(b, db, true);
        else
            a = rg_sum_dim(a, da, true);
    }
    if (!a || !b || !(a = tensordot_matrix(a, &in_a, false, &shape))
        || !(b = tensordot_matrix(b, &in_b, true, &shape)))
        return NULL;
    return rg_escape(rg_reshape_dims(rg_mm(a, b), shape));
}

/*
 * product.c: products of vectors and matrices, and what is made of them.
 */
#include "autograd/op.h"

/* C's names for the dtypes, which torch uses in some of its sentences. */
static const char *const product_ctype[] = { "bool", "long int", "float", "double" };

/* t with a dim of size 1 more at `at`: a vector as a matrix. */
static rg_tensor product_raise(const rg_tensor *t, int at)
{
    rg_tensor y = *t;
    for (int d = y.ndim++; d > at; d--) y.size[d] = t->size[d - 1], y.stride[d] = t->stride[d - 1];
    y.size[at] = y.stride[at] = 1;
    return y;
}

/* How many vectors t consists of, if they lie along `dim`. */
static int64_t product_vectors(const rg_tensor *t, int dim)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++) n *= d == dim ? 1 : t->size[d];
    return n;
}

/* ---- matmul: y = a b on the last two dims, a vector being a row on the left and a column on the
 *      right; ga = g b^T, gb = a^T g ------------------------------------------------------------- */

struct matmul_attr { const char *name, *node; };

static const char *matmul_node(const void *attr) { return ((const struct matmul_attr *)attr)->node; }

/* torch makes a product of two matrices of it if one operand has no batch. */
typedef enum { MATMUL_DOT, MATMUL_MV, MATMUL_MM, MATMUL_BMM } matmul_kind;

static matmul_kind matmul_kind_of(const rg_tensor *a, const rg_tensor *b, bool *swapped)
{
    bool vector_a = a->ndim == 1, vector_b = b->ndim == 1;
    *swapped = a->history && b->ndim > 2 && (a->ndim <= 2 || (a->ndim == 3 && b->ndim == 3 && a->size[0] == 1 && b->size[0] != 1));
    bool one_b = b->ndim <= 2 || (b->history && a->ndim == 3 && b->ndim == 3 && b->size[0] == 1 && a->size[0] != 1);
    if (vector_a && vector_b) return MATMUL_DOT;
    return vector_b || (vector_a && *swapped) ? MATMUL_MV : one_b || *swapped ? MATMUL_MM : MATMUL_BMM;
}

static bool matmul_check(const char *name, matmul_kind kind, bool swapped, const rg_tensor *a, const rg_tensor *b,
                         const rg_tensor *y)
{
    int64_t k = a->size[a->ndim - 1], k2 = b->size[b->ndim == 1 ? 0 : b->ndim - 2], m = b->size[b->ndim - 1], batches = 1;
    int64_t n = product_vectors(a, a->ndim - 1), nb = b->ndim > 1 ? product_vectors(b, b->ndim - 2) : 1;
    const char *type_a = rg_scalar_name(a->dtype), *type_b = rg_scalar_name(b->dtype);
    static const char *const unready[] = { "dot", "addmv_impl_cpu", "addmm_impl_cpu_", "bmm" };
    switch (kind) {
    case MATMUL_DOT:
        if (a->dtype != b->dtype)
            return rg_fail(RG_RUNTIME_ERROR, name, "dot : expected both vectors to have same dtype, but found %s and %s", type_a, type_b);
        if (k != k2)
            return rg_fail(RG_RUNTIME_ERROR, name, "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the "
                           "same number of elements, but got %lld and %lld elements respectively", (long long)k, (long long)k2,
                           (long long)k, (long long)k2);
        break;
    case MATMUL_MV:
        if (k != k2)
            return rg_fail(RG_RUNTIME_ERROR, name, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                           (long long)(swapped ? nb : n), (long long)(swapped ? nb : n), (long long)(swapped ? k2 : k),
                           (long long)(swapped ? k : k2));
        if (a->dtype != b->dtype)
            return rg_fail(RG_RUNTIME_ERROR, name, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                           swapped ? type_a : type_b, swapped ? type_b : type_a, swapped ? type_a : type_b);
        break;
    case MATMUL_MM:
        if (k != k2 && swapped)
            return rg_fail(RG_RUNTIME_ERROR, name, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                           (long long)nb, (long long)k2, (long long)k, (long long)n);
        if (k != k2)
            return rg_fail(RG_RUNTIME_ERROR, name, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                           (long long)n, (long long)k, (long long)k2, (long long)m);
        if (a->dtype != b->dtype)
            return rg_fail(RG_RUNTIME_ERROR, name, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                           product_ctype[swapped ? b->dtype : a->dtype], product_ctype[swapped ? a->dtype : b->dtype]);
        break;
    default:
        for (int d = 0; d < RG_MAX(a->ndim, b->ndim) - 2; d++) batches *= y->size[d];
        if (k != k2)
            return rg_fail(RG_RUNTIME_ERROR, name, "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] "
                           "but got: [%lld, %lld].", (long long)batches, (long long)k, (long long)batches, (long long)k2);
        if (a->dtype != b->dtype && a->dtype != RG_BOOL)
            return rg_fail(RG_RUNTIME_ERROR, name, "expected scalar type %s but found %s", type_a, type_b);
        break;
    }
    bool empty = kind != MATMUL_DOT && (product_vectors(a, a->ndim - 1) == 0 || product_vectors(b, b->ndim == 1 ? 0 : b->ndim - 2) == 0);
    if (a->dtype == RG_BOOL && !empty)
        return rg_fail(RG_NOT_IMPLEMENTED, name, "\"%s\" not implemented for 'Bool'", unready[kind]);
    return true;
}

static bool matmul_shape(rg_call *c)
{
    const rg_tensor *a = c->in[0], *b = c->in[1];
    const char *name = RG_ATTR(c, matmul)->name;
    rg_tensor *y = c->out[0];
    if (a->ndim == 0 || b->ndim == 0)
        return rg_fail(RG_RUNTIME_ERROR, name, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                       a->ndim, b->ndim);
    rg_tensor batch_a = *a, batch_b = *b;
    bool swapped;
    matmul_kind kind = matmul_kind_of(a, b, &swapped);
    batch_a.ndim = (uint8_t)RG_MAX(a->ndim - 2, 0);
    batch_b.ndim = (uint8_t)RG_MAX(b->ndim - 2, 0);
    if (!rg_broadcast_shapes(name, &batch_a, &batch_b, y)) return false;
    if (a->ndim > 1) y->size[y->ndim++] = a->size[a->ndim - 2];
    if (b->ndim > 1) y->size[y->ndim++] = b->size[b->ndim - 1];
    return matmul_check(name, kind, swapped, a, b, y);
}

static bool matmul_forward(rg_call *c)
{
    const rg_tensor *a = c->in[0], *b = c->in[1];
    rg_tensor y = *c->out[0], row, column;
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

static rg_tensor *matmul_rule_a(const rg_step *s, rg_tensor *g)
{
    rg_tensor *b = rg_saved(s, 1);
    int ndim = rg_input_dims(s, 0).n;
    if (!b) return NULL;
    if (b->ndim == 1) {
        if (ndim == 1) return rg_mul(g, b);
        g = rg_unsqueeze(g, -1);
        b = rg_unsqueeze(b, -1);
    }
    if (ndim > 1) return rg_matmul(g, rg_mT(b));
    return rg_squeeze_dim(rg_matmul(rg_unsqueeze(g, -2), rg_mT(b)), -2);
}

static rg_tensor *matmul_rule_b(const rg_step *s, rg_tensor *g)
{
    rg_tensor *a = rg_saved(s, 0);
    int ndim = rg_input_dims(s, 1).n;
    if (!a) return NULL;
    if (a->ndim == 1) {
        if (ndim == 1) return rg_mul(g, a);
        g = rg_unsqueeze(g, -2);
        a = rg_unsqueeze(a, 0);
        if (!g || !a) return NULL;
    }
    if (a->ndim > 2 && ndim <= 2) {                     /* one b for all: the sum over batches is part of the product */
        int64_t rows = product_vectors(a, a->ndim - 1);
        a = rg_reshape(a, rows, a->size[a->ndim - 1]);
        g = ndim == 1 ? rg_reshape(g, rows) : rg_reshape(g, rows, g->size[g->ndim - 1]);
    }
    if (ndim > 1) return rg_matmul(rg_mT(a), g);
    return rg_squeeze_dim(rg_matmul(rg_mT(a), rg_unsqueeze(g, -1)), -1);
}

/* t with its last two dims exchanged. */
static rg_tensor product_transposed(const rg_tensor *t)
{
    rg_tensor y = *t;
    int r = t->ndim - 2, c = t->ndim - 1;
    y.size[r] = t->size[c], y.stride[r] = t->stride[c];
    y.size[c] = t->size[r], y.stride[c] = t->stride[r];
    rg_update_flags(&y);
    return y;
}

/* Contiguous batches of matrices as one matrix with all the rows. */
static rg_tensor product_folded(const rg_tensor *t)
{
    rg_tensor y = *t;
    y.ndim = 2;
    y.size[0] = product_vectors(t, t->ndim - 1);
    y.size[1] = y.stride[0] = t->size[t->ndim - 1];
    y.stride[1] = 1;
    return y;
}

/* A new a b, of matrices. */
static rg_tensor *product_new(const rg_tensor *a, const rg_tensor *b)
{
    rg_tensor batch_a = *a, batch_b = *b, y = { .dtype = a->dtype };
    batch_a.ndim -= 2;
    batch_b.ndim -= 2;
    if (!rg_broadcast_shapes("matmul", &batch_a, &batch_b, &y)) return NULL;
    y.size[y.ndim++] = a->size[a->ndim - 2];
    y.size[y.ndim++] = b->size[b->ndim - 1];
    rg_tensor *p = rg_new(a->dtype, y.ndim, y.size);
    if (p && !k_matmul(p, a, b)) {
        rg_release(p);
        return NULL;
    }
    return p;
}

static bool matmul_fused(const rg_step *s, rg_tensor *gin[])
{
    const rg_tensor *g = s->g[0];
    if (rg_wants(s, 0)) {
        rg_tensor *b = rg_saved(s, 1);
        if (!b) return false;
        if (b->ndim > 1 && rg_input_dims(s, 0).n > 1) {
            rg_tensor t = product_transposed(b);
            if (!(gin[0] = product_new(g, &t))) return false;
        }
    }
    if (rg_wants(s, 1)) {
        rg_tensor *a = rg_saved(s, 0);
        int ndim = rg_input_dims(s, 1).n;
        if (!a) return false;
        if (a->ndim > 1 && ndim > 1 && (a->ndim == 2 || ndim > 2 || (a->flags & g->flags & RG_CONTIGUOUS))) {
            bool fold = a->ndim > 2 && ndim == 2;
            rg_tensor left = fold ? product_folded(a) : *a, right = fold ? product_folded(g) : *g, t = product_transposed(&left);
            if (!(gin[1] = product_new(&t, &right))) return false;
        }
    }
    return true;
}

RG_OP(matmul, .attr_size = sizeof(struct matmul_attr), .doc = "a b, on the last two dims", .node_of = matmul_node, .n_in = 2,
      .shape = matmul_shape, .forward = matmul_forward,
      .grad = { RG_RULE(RG_IN(1), matmul_rule_a), RG_RULE(RG_IN(0), matmul_rule_b) }, .fused = matmul_fused,
      RG_SAMPLES({ "(2,3) (3,4)", RG_A(matmul, "mm", "MmBackward0") }, { "(2,2,3) (3,2)", RG_A(matmul, "matmul", "") },
                 { "(2,1,2,3) (4,3,1)", RG_A(matmul, "matmul", "") }, { "(2,3) (2,3,2)", RG_A(matmul, "matmul", "") },
                 { "(3) (3)", RG_A(matmul, "dot", "") }, { "(2,3) (3)", RG_A(matmul, "mv", "") }, { "(3) (3,2)", RG_A(matmul, "matmul", "") },
                 { "(2,2,3) (3)", RG_A(matmul, "matmul", "") }, { "(3) (2,3,2)", RG_A(matmul, "matmul", "") },
                 { "(2,2,3) (2,3,1)", RG_A(matmul, "bmm", "") }, { "(0,3) (3,2)", RG_A(matmul, "mm", "") },
                 { "(2,0) (0,2)", RG_A(matmul, "mm", "") }, { "(2,2,0) (0)", RG_A(matmul, "matmul", "") },
                 { "(0) (0)", RG_A(matmul, "dot", "") }, { "(0,2,3) (3,2)", RG_A(matmul, "matmul", "") }));

rg_tensor *rg_matmul(rg_tensor *a, rg_tensor *b)
{
    struct matmul_attr attr = { "matmul", "UnsafeViewBackward0" };
    bool swapped;
    if (!rg_check(a, "matmul") || !rg_check(b, "matmul")) return NULL;
    if (a->ndim && b->ndim) {
        matmul_kind kind = matmul_kind_of(a, b, &swapped);
        if (kind == MATMUL_DOT) attr.node = "DotBackward0";
        else if (kind == MATMUL_MV && a->ndim == 2) attr.node = "MvBackward0";
        else if (kind == MATMUL_MM && a->ndim == 1) attr.node = "SqueezeBackward4";
        else if (kind == MATMUL_MM && a->ndim == 2 && !swapped) attr.node = "MmBackward0";
        else if (kind == MATMUL_MM && swapped) {
            bool thin = a->size[a->ndim - 2] <= 1 || b->size[b->ndim - 1] <= 1 || b->numel == 0;
            attr.node = thin ? "TransposeBackward0" : "CloneBackward0";
        }
    }
    return RG_APPLY(matmul, &attr, a, b);
}

rg_tensor *rg_dot(rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(a, "dot") || !rg_check(b, "dot")) return NULL;
    if (a->ndim != 1 || b->ndim != 1)
        return rg_fail(RG_RUNTIME_ERROR, "dot", "1D tensors expected, but got %dD and %dD tensors", a->ndim, b->ndim);
    return RG_APPLY(matmul, RG_A(matmul, "dot", "DotBackward0"), a, b);
}

rg_tensor *rg_mv(rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(a, "mv") || !rg_check(b, "mv")) return NULL;
    if (a->ndim == 0) return rg_fail(RG_INDEX_ERROR, "mv", "Dimension specified as 0 but tensor has no dimensions");
    if (a->ndim != 2 || b->ndim != 1)
        return rg_fail(RG_RUNTIME_ERROR, "mv", "vector + matrix @ vector expected, got 1, %d, %d", a->ndim, b->ndim);
    return RG_APPLY(matmul, RG_A(matmul, "mv", "MvBackward0"), a, b);
}

rg_tensor *rg_mm(rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(a, "mm") || !rg_check(b, "mm")) return NULL;
    if (a->ndim != 2 || b->ndim != 2)
        return rg_fail(RG_RUNTIME_ERROR, "mm", "%s must be a matrix", a->ndim != 2 ? "self" : "mat2");
    return RG_APPLY(matmul, RG_A(matmul, "mm", "MmBackward0"), a, b);
}

static bool bmm_check(const char *op, const rg_tensor *a, const rg_tensor *b)
{
    if (a->ndim != 3 || b->ndim != 3)
        return rg_fail(RG_RUNTIME_ERROR, op, "batch%d must be a 3D tensor", a->ndim != 3 ? 1 : 2);
    if (a->size[0] == b->size[0] && a->size[2] == b->size[1]) return true;
    return rg_fail(RG_RUNTIME_ERROR, op, "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: "
                   "[%lld, %lld].", (long long)a->size[0], (long long)a->size[2], (long long)b->size[0], (long long)b->size[1]);
}

rg_tensor *rg_bmm(rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(a, "bmm") || !rg_check(b, "bmm") || !bmm_check("bmm", a, b)) return NULL;
    return RG_APPLY(matmul, RG_A(matmul, "bmm", "BmmBackward0"), a, b);
}

/* ---- addmm, baddbmm: y = beta c + alpha a b; gc = beta g, ga = alpha g b^T, gb = alpha a^T g ----- */

struct addmm_attr { double beta, alpha; bool batched; };

static const char *addmm_name(const void *attr) { return ((const struct addmm_attr *)attr)->batched ? "baddbmm" : "addmm"; }

static const char *addmm_node(const void *attr)
{
    return ((const struct addmm_attr *)attr)->batched ? "BaddbmmBackward0" : "AddmmBackward0";
}

/* Does c expand to y's shape? */
static bool addmm_expands(const char *op, const rg_tensor *c, const rg_tensor *y)
{
    int shift = y->ndim - c->ndim;
    char from[192], to[192];
    if (shift < 0)
        return rg_fail(RG_RUNTIME_ERROR, op, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater "
                       "or equal to the number of dimensions in the tensor (%d)", rg_scalar_name(c->dtype),
                       rg_shape_text(c->ndim, c->size, from), rg_shape_text(y->ndim, y->size, to), y->ndim, c->ndim);
    for (int d = y->ndim - 1; d >= shift; d--)
        if (c->size[d - shift] != 1 && c->size[d - shift] != y->size[d])
            return rg_fail(RG_RUNTIME_ERROR, op, "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
                           "non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s", (long long)y->size[d],
                           (long long)c->size[d - shift], d, rg_shape_text(y->ndim, y->size, to),
                           rg_shape_text(c->ndim, c->size, from));
    return true;
}

static bool addmm_same_dtype(const char *op, const rg_tensor *c, const rg_tensor *a, const rg_tensor *b)
{
    const char *const name[] = { rg_scalar_name(c->dtype), rg_scalar_name(a->dtype), rg_scalar_name(b->dtype) };
    if (c->dtype != b->dtype)
        return rg_fail(RG_RUNTIME_ERROR, op, "self and mat2 must have the same dtype, but got %s and %s", name[0], name[2]);
    if (a->dtype != b->dtype)
        return rg_fail(RG_RUNTIME_ERROR, op, "mat1 and mat2 must have the same dtype, but got %s and %s", name[1], name[2]);
    return a->dtype != RG_BOOL || rg_fail(RG_NOT_IMPLEMENTED, op, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
}

static bool addmm_shape(rg_call *c)
{
    const struct addmm_attr *attr = RG_ATTR(c, addmm);
    const char *op = addmm_name(attr);
    const rg_tensor *bias = c->in[0], *a = c->in[1], *b = c->in[2];
    rg_tensor *y = c->out[0];
    if (attr->batched) {
        if (!bmm_check(op, a, b)) return false;
    } else {
        if (a->ndim != 2 || b->ndim != 2)
            return rg_fail(RG_RUNTIME_ERROR, op, "mat%d must be a matrix, got %d-D tensor", a->ndim != 2 ? 1 : 2,
                           a->ndim != 2 ? a->ndim : b->ndim);
        if (a->size[1] != b->size[0])
            return rg_fail(RG_RUNTIME_ERROR, op, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                           (long long)a->size[0], (long long)a->size[1], (long long)b->size[0], (long long)b->size[1]);
    }
    rg_copy_shape(y, a);
    y->size[y->ndim - 1] = b->size[b->ndim - 1];
    if (!addmm_expands(op, bias, y)) return false;
    if (attr->batched && a->dtype == RG_BOOL && bias->dtype == RG_BOOL)
        return rg_fail(RG_NOT_IMPLEMENTED, op, "\"baddbmm\" not implemented for 'Bool'");
    if (attr->batched && (bias->dtype != a->dtype || a->dtype != b->dtype)) {
        if (a->dtype == b->dtype)
            return rg_fail(RG_RUNTIME_ERROR, op, "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
                           product_ctype[bias->dtype], product_ctype[a->dtype], product_ctype[b->dtype]);
        return rg_fail(RG_RUNTIME_ERROR, op, "expected scalar type %s but found %s", rg_scalar_name(a->dtype), rg_scalar_name(b->dtype));
    }
    if (!addmm_same_dtype(op, bias, a, b)) return false;
    bool fits = attr->alpha >= -0x1p63 && attr->alpha < 0x1p63 && attr->beta >= -0x1p63 && attr->beta < 0x1p63;
    return rg_is_float(a->dtype) || fits
        || rg_fail(RG_RUNTIME_ERROR, op, "value cannot be converted to type int64_t without overflow");
}

static bool addmm_forward(rg_call *c)
{
    const struct addmm_attr *attr = RG_ATTR(c, addmm);
    if (attr->beta != 0) rg_copy_elements(c->out[0], c->in[0]);
    return k_addmatmul(c->out[0], c->in[1], c->in[2], attr->alpha, attr->beta);
}

static rg_tensor *addmm_scaled(rg_tensor *g, double by) { return by == 1 ? g : rg_mul(g, by); }
static rg_tensor *addmm_rule_c(const rg_step *s, rg_tensor *g) { return addmm_scaled(g, RG_ATTR(s, addmm)->beta); }

static rg_tensor *addmm_rule_a(const rg_step *s, rg_tensor *g)
{
    return addmm_scaled(rg_matmul(g, rg_mT(rg_saved(s, 2))), RG_ATTR(s, addmm)->alpha);
}

static rg_tensor *addmm_rule_b(const rg_step *s, rg_tensor *g)
{
    return addmm_scaled(rg_matmul(rg_mT(rg_saved(s, 1)), g), RG_ATTR(s, addmm)->alpha);
}

RG_OP(addmm, .attr_size = sizeof(struct addmm_attr), .doc = "beta c + alpha a b", .node_of = addmm_node, .n_in = 3,
      .shape = addmm_shape, .forward = addmm_forward,
      .grad = { RG_RULE(0, addmm_rule_c), RG_RULE(RG_IN(2), addmm_rule_a), RG_RULE(RG_IN(1), addmm_rule_b) },
      RG_SAMPLES({ "(2,4) (2,3) (3,4)", RG_A(addmm, 1, 1, false) }, { "(4) (2,3) (3,4)", RG_A(addmm, 0.5, 2, false) },
                 { "() (2,3) (3,4)", RG_A(addmm, 0, -1, false) }, { "(2,1) (2,0) (0,4)", RG_A(addmm, 3, 1, false) },
                 { "(3) (0,2) (2,3)", RG_A(addmm, 1, 1, false) }, { "(2,1,4) (2,3,2) (2,2,4)", RG_A(addmm, 2, 0.5, true) },
                 { "(3,4) (0,3,2) (0,2,4)", RG_A(addmm, 1, 1, true) }));

rg_tensor *rg_addmm(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha)
{
    return RG_APPLY(addmm, RG_A(addmm, beta, alpha, false), c, a, b);
}

rg_tensor *rg_baddbmm(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha)
{
    return RG_APPLY(addmm, RG_A(addmm, beta, alpha, true), c, a, b);
}

/* ---- linear: y = x w^T + bias; gx = g w, gw = g^T x, gbias = g, summed over all but the last dim ----- */

struct linear_attr { const char *node; };

static const char *linear_node(const void *attr) { return ((const struct linear_attr *)attr)->node; }

static bool linear_shape(rg_call *c)
{
    const rg_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2];
    rg_tensor *y = c->out[0], rows = { .dtype = x->dtype, .ndim = 2 };
    rows.size[0] = product_vectors(x, x->ndim - 1);
    rows.size[1] = w->size[0];
    if (x->size[x->ndim - 1] != w->size[1])
        return rg_fail(RG_RUNTIME_ERROR, "linear", "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                       (long long)rows.size[0], (long long)x->size[x->ndim - 1], (long long)w->size[1], (long long)w->size[0]);
    rg_copy_shape(y, x);
    y->size[y->ndim - 1] = w->size[0];
    if (!rg_is_none(bias))
        return addmm_expands("linear", bias, &rows) && addmm_same_dtype("linear", bias, x, w);
    rg_tensor t = product_transposed(w);
    return matmul_check("linear", MATMUL_MM, false, x, &t, y);
}

static bool linear_forward(rg_call *c)
{
    rg_tensor y = *c->out[0], x = *c->in[0], w = product_transposed(c->in[1]);
    bool biased = !rg_is_none(c->in[2]);
    if (biased) rg_copy_elements(&y, c->in[2]);
    if (x.ndim == 1) x = product_raise(&x, 0), y = product_raise(&y, 0);
    return k_addmatmul(&y, &x, &w, 1, biased);
}

static rg_tensor *linear_rule_x(const rg_step *s, rg_tensor *g) { return rg_matmul(g, rg_saved(s, 1)); }

static rg_tensor *linear_rule_w(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0);
    if (!x) return NULL;
    int64_t rows = product_vectors(x, x->ndim - 1);
    return rg_matmul(rg_mT(rg_reshape(g, rows, g->size[g->ndim - 1])), rg_reshape(x, rows, x->size[x->ndim - 1]));
}

static rg_tensor *linear_rule_bias(const rg_step *s, rg_tensor *g) { (void)s; return g; }

static bool linear_fused(const rg_step *s, rg_tensor *gin[])
{
    const rg_tensor *g = s->g[0];
    if (g->ndim < 2 || !(g->flags & RG_CONTIGUOUS)) return true;
    if (rg_wants(s, 0)) {
        rg_tensor *w = rg_saved(s, 1);
        if (!w || !(gin[0] = product_new(g, w))) return false;
    }
    if (rg_wants(s, 1)) {
        rg_tensor *x = rg_saved(s, 0);
        if (!x) return false;
        if (x->flags & RG_CONTIGUOUS) {
            rg_tensor left = product_folded(g), right = product_folded(x), t = product_transposed(&left);
            if (!(gin[1] = product_new(&t, &right))) return false;
        }
    }
    return true;
}

RG_OP(linear, .attr_size = sizeof(struct linear_attr), .doc = "x w^T + bias", .node_of = linear_node, .n_in = 3,
      .optional = RG_IN(2), .shape = linear_shape, .forward = linear_forward,
      .grad = { RG_RULE(RG_IN(1), linear_rule_x), RG_RULE(RG_IN(0), linear_rule_w), RG_RULE(0, linear_rule_bias) },
      .fused = linear_fused,
      RG_SAMPLES({ "(2,3) (4,3) (4)", RG_A(linear, "") }, { "(3) (4,3) (4)", RG_A(linear, "") },
                 { "(2,2,3) (4,3) (4)", RG_A(linear, "") }, { "(2,2,3) (4,3) -", RG_A(linear, "") },
                 { "(2,3) (4,3) (1)", RG_A(linear, "") }, { "(0,3) (2,3) (2)", RG_A(linear, "") },
                 { "(2,0) (2,0) (2)", RG_A(linear, "") }));

rg_tensor *rg_linear(rg_tensor *x, rg_tensor *weight, rg_tensor *bias)
{
    if (!rg_check(x, "linear") || !rg_check(weight, "linear") || (!rg_is_none(bias) && !rg_check(bias, "linear"))) return NULL;
    if (x->ndim == 0 || weight->ndim == 0)
        return rg_fail(RG_RUNTIME_ERROR, "linear", "both arguments to linear need to be at least 1D, but they are %dD and %dD",
                       x->ndim, weight->ndim);
    if (weight->ndim > 2)
        return rg_fail(RG_RUNTIME_ERROR, "linear", "t() expects a tensor with <= 2 dimensions, but self is %dD", weight->ndim);
    if (weight->ndim == 1 && x->ndim > 1 && !rg_is_none(bias))
        return rg_fail(RG_RUNTIME_ERROR, "linear", "mat2 must be a matrix, got 1-D tensor");
    bool fused = weight->ndim == 2 && (rg_is_none(bias) || bias->ndim == 1 || x->ndim == 2);
    const char *node = rg_is_none(bias) ? x->ndim == 1 ? "SqueezeBackward4" : x->ndim == 2 ? "MmBackward0" : "UnsafeViewBackward0"
                                        : x->ndim == 2 ? "AddmmBackward0"
                                        : x->flags & RG_CONTIGUOUS ? "ViewBackward0" : "AddBackward0";
    if (fused) return RG_APPLY(linear, RG_A(linear, node), x, weight, bias);
    RG_SCOPE();
    rg_tensor *y = weight->ndim == 1 ? rg_matmul(x, weight) : rg_linear(x, weight, RG_NONE);
    if (rg_is_none(bias) || !y) return y ? rg_escape(y) : NULL;
    char a[192], b[192];
    rg_tensor wide = { 0 };
    if (!rg_broadcast_shapes("linear", y, bias, &wide)) return NULL;
    if (!rg_same_shape(&wide, y))
        return rg_fail(RG_RUNTIME_ERROR, "linear", "output with shape %s doesn't match the broadcast shape %s",
                       rg_shape_text(y->ndim, y->size, a), rg_shape_text(wide.ndim, wide.size, b));
    y = rg_add(y, bias);
    return y ? rg_escape(y) : NULL;
}

/* ---- what is made of them ------------------------------------------------------------------------ */

rg_tensor *rg_outer(rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(a, "outer") || !rg_check(b, "outer")) return NULL;
    if (a->ndim != 1 || b->ndim != 1)
        return rg_fail(RG_RUNTIME_ERROR, "outer", "outer: Expected 1-D argument %s, but got %d-D", a->ndim != 1 ? "self" : "vec2",
                       a->ndim != 1 ? a->ndim : b->ndim);
    return RG_COMPOSITE(rg_mul(rg_unsqueeze(a, 1), b));
}

rg_tensor *rg_inner(rg_tensor *a, rg_tensor *b)
{
    char sa[192], sb[192];
    if (!rg_check(a, "inner") || !rg_check(b, "inner")) return NULL;
    if (a->ndim == 0 || b->ndim == 0) return rg_mul(a, b);
    if (a->size[a->ndim - 1] != b->size[b->ndim - 1])
        return rg_fail(RG_RUNTIME_ERROR, "inner", "inner() the last dimension must match on both input tensors but got shapes "
                       "%s and %s", rg_shape_text(a->ndim, a->size, sa), rg_shape_text(b->ndim, b->size, sb));
    if (a->dtype == b->dtype && a->ndim == 1 && b->ndim == 1) return RG_COMPOSITE(rg_reshape_dims(rg_dot(a, b), (rg_dims){ 0 }));
    return rg_tensordot_dims(a, b, RG_DIMS(-1), RG_DIMS(-1));
}

rg_tensor *rg_tensordot(rg_tensor *a, rg_tensor *b, int n)
{
    rg_dims in_a = { .n = n }, in_b = { .n = n };
    if (!rg_check(a, "tensordot") || !rg_check(b, "tensordot")) return NULL;
    if (n < 0) return rg_fail(RG_RUNTIME_ERROR, "tensordot", "tensordot expects dims >= 0, but got dims=%d", n);
    if (n > RG_MIN(a->ndim, b->ndim))
        return rg_fail(RG_RUNTIME_ERROR, "tensordot", "tensordot expects dims < ndim_a or ndim_b, but got dims=%d", n);
    for (int d = 0; d < n; d++) in_a.v[d] = d - n, in_b.v[d] = d;
    return rg_tensordot_dims(a, b, in_a, in_b);
}

/* The dims of t in the order (others, named) or (named, others); shape gets the others' sizes. */
static bool tensordot_order(const rg_tensor *t, const rg_dims *named, bool named_first, rg_dims *order, rg_dims *shape)
{
    uint32_t mask = 0;
    int at = named_first ? named->n : 0, last = named_first ? 0 : t->ndim - named->n;
    order->n = t->ndim;
    for (int i = 0; i < named->n; i++) {
        int d;
        if (!rg_wrap_dim("tensordot", named->v[i], t->ndim, &d)) return false;
        if (mask >> d & 1) return rg_fail(RG_RUNTIME_ERROR, "tensordot", "dim %d appears multiple times in the list of dims", d);
        if (t->ndim == 0) return rg_fail(RG_INDEX_ERROR, "tensordot", "Dimension specified as %d but tensor has no dimensions", d);
        mask |= 1u << d;
        order->v[last + i] = d;
    }
    for (int d = 0; d < t->ndim; d++)
        if (!(mask >> d & 1)) order->v[at++] = d, shape->v[shape->n++] = t->size[d];
    return true;
}

rg_tensor *rg_tensordot_dims(rg_tensor *a, rg_tensor *b, rg_dims in_a, rg_dims in_b)
{
    rg_dims order_a, order_b, shape = { 0 };
    if (!rg_check(a, "tensordot") || !rg_check(b, "tensordot") || !rg_check_dims("tensordot", in_a.n)
        || !rg_check_dims("tensordot", in_b.n)) return NULL;
    if (in_a.n != in_b.n) return rg_fail(RG_RUNTIME_ERROR, "tensordot", "both dimension lists should have same length");
    if (a->dtype != b->dtype) return rg_fail(RG_RUNTIME_ERROR, "tensordot", "both inputs should have same dtype");
    if (!rg_check_dims("tensordot", a->ndim + b->ndim - 2 * in_a.n)) return NULL;
    int64_t n = 1, k = 1, m = 1;
    for (int i = 0; i < in_a.n; i++) {
        int da, db;
        if (!rg_wrap_dim("tensordot", in_a.v[i], a->ndim, &da) || !rg_wrap_dim("tensordot", in_b.v[i], b->ndim, &db)) return NULL;
        int64_t sa = a->ndim ? a->size[da] : 1, sb = b->ndim ? b->size[db] : 1;
        if (sa != sb && sa != 1 && sb != 1)
            return rg_fail(RG_RUNTIME_ERROR, "tensordot", "contracted dimensions need to match, but first has size %lld in dim %lld "
                           "and second has size %lld in dim %lld", (long long)sa, (long long)in_a.v[i], (long long)sb,
                           (long long)in_b.v[i]);
    }
    RG_SCOPE();
    for (int i = 0; i < in_a.n && a && b; i++) {        /* a dim of size 1 against a larger one: that one's sum */
        int64_t da = in_a.v[i] + (in_a.v[i] < 0 ? a->ndim : 0), db = in_b.v[i] + (in_b.v[i] < 0 ? b->ndim : 0);
        if (a->ndim == 0 || b->ndim == 0 || a->size[da] == b->size[db]) continue;
        if (a->size[da] == 1) b = rg_sum_dim(b, (int)db, true);
        else a = rg_sum_dim(a, (int)da, true);
    }
    if (!a || !b || !tensordot_order(a, &in_a, false, &order_a, &shape) || !tensordot_order(b, &in_b, true, &order_b, &shape)) return NULL;
    for (int d = 0; d < a->ndim; d++)
        if (d < a->ndim - in_a.n) n *= a->size[order_a.v[d]];
        else k *= a->size[order_a.v[d]];
    for (int d = in_b.n; d < b->ndim; d++) m *= b->size[order_b.v[d]];
    rg_tensor *y = rg_reshape_dims(rg_mm(rg_reshape(rg_permute_dims(a, order_a), n, k),
                                         rg_reshape(rg_permute_dims(b, order_b), k, m)), shape);
    return y ? rg_escape(y) : NULL;
}

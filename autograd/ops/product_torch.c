/*
 * product_torch.c: what torch says of products: which of its functions would compute one, what it
 * names the node, and the sentence with which it refuses operands. (The products are in product.c.)
 */
#include "product.h"

/* ---- names --------------------------------------------------------------------- */

/* Returns the node's name of a product that torch makes of two matrices. */
static const char *matmul_node_of_matrices(const rg_tensor *a, const rg_tensor *b, bool swapped) {
    if (swapped) {
        bool thin = a->size[a->ndim - 2] <= 1 || b->size[b->ndim - 1] <= 1 || b->numel == 0;
        return thin ? "TransposeBackward0" : "CloneBackward0";
    }
    return a->ndim >= 3 ? "UnsafeViewBackward0" : "SqueezeBackward4";
}

struct matmul_attr rgi_matmul_as_torch(const rg_tensor *a, const rg_tensor *b) {
    struct matmul_attr how = { "matmul", "UnsafeViewBackward0", MATMUL_BMM, false };
    if (a->ndim == 0 || b->ndim == 0)
        return how;
    bool batches = a->ndim == 3 && b->ndim == 3;
    bool one_a = batches && a->size[0] == 1 && b->size[0] != 1;
    bool one_b = b->ndim <= 2 || (b->history && batches && b->size[0] == 1 && a->size[0] != 1);
    const bool empty = a->ndim == 1 && b->numel == 0;
    how.swapped = b->ndim > 2 && (empty || (a->history && (a->ndim <= 2 || one_a)));
    if (a->ndim == 1 && b->ndim == 1) {
        how.kind = MATMUL_DOT;
        how.node = "DotBackward0";
    } else if (b->ndim == 1 || (a->ndim == 1 && how.swapped)) {
        how.kind = MATMUL_MV;
        if (a->ndim == 2)
            how.node = "MvBackward0";
    } else if (one_b || how.swapped) {
        how.kind = MATMUL_MM;
        how.node = matmul_node_of_matrices(a, b, how.swapped);
    }
    return how;
}

const char *rgi_linear_node(const rg_tensor *x, const rg_tensor *bias) {
    if (!rgi_is_none(bias)) {
        if (x->ndim == 2)
            return "AddmmBackward0";
        return x->flags & RG_CONTIGUOUS ? "ViewBackward0" : "AddBackward0";
    }
    if (x->ndim == 1)
        return "SqueezeBackward4";
    return x->ndim == 2 ? "MmBackward0" : "UnsafeViewBackward0";
}

/* ---- sentences about operands as torch would multiply them: l with r ----------- */

static long long product_columns(const rg_tensor *t) { return t->size[t->ndim - 1]; }
static long long product_rows(const rg_tensor *t) { return t->size[t->ndim - 2]; }

static bool dot_allows(const char *op, const rg_tensor *l, const rg_tensor *r) {
    long long k = product_columns(l);
    long long k2 = product_rows(r);
    RG_FAIL_IF(l->dtype != r->dtype, op,
               "dot : expected both vectors to have same dtype, but found %s and %s",
               rgi_scalar_name(l->dtype), rgi_scalar_name(r->dtype));
    RG_FAIL_IF(k != k2, op,
               "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same "
               "number of elements, but got %lld and %lld elements respectively",
               k, k2, k, k2);
    return true;
}

static bool mv_allows(const char *op, const rg_tensor *l, const rg_tensor *r) {
    long long n = rgi_product_vectors(l, l->ndim - 1);
    long long k = product_columns(l);
    long long k2 = product_rows(r);
    const char *type = rgi_scalar_name(r->dtype);
    RG_FAIL_IF(k != k2, op, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)", n, n, k,
               k2);
    RG_FAIL_IF(l->dtype != r->dtype, op,
               "addmv input tensors must have the same dtype, but got %s, %s, and %s", type,
               rgi_scalar_name(l->dtype), type);
    return true;
}

static bool mm_allows_sizes(const char *op, long long n, long long k, long long k2, long long m) {
    RG_FAIL_IF(k != k2, op, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
               n, k, k2, m);
    return true;
}

static bool mm_allows(const char *op, const rg_tensor *l, const rg_tensor *r) {
    long long n = rgi_product_vectors(l, l->ndim - 1);
    if (!mm_allows_sizes(op, n, product_columns(l), product_rows(r), product_columns(r)))
        return false;
    RG_FAIL_IF(l->dtype != r->dtype, op,
               "expected m1 and m2 to have the same dtype, but got: %s != %s", rgi_c_name(l->dtype),
               rgi_c_name(r->dtype));
    return true;
}

static bool bmm_allows_sizes(const char *op, long long batch, long long k, long long batch2,
                             long long k2) {
    RG_FAIL_IF(batch != batch2 || k != k2, op,
               "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but "
               "got: [%lld, %lld].",
               batch, k, batch2, k2);
    return true;
}

/* Bool is refused later, by rgi_matmul_allows. */
static bool bmm_allows(const char *op, const rg_tensor *l, const rg_tensor *r, long long batches,
                       bool of_bool) {
    if (!bmm_allows_sizes(op, batches, product_columns(l), batches, product_rows(r)))
        return false;
    RG_FAIL_IF(l->dtype != r->dtype && !of_bool, op, "expected scalar type %s but found %s",
               rgi_scalar_name(l->dtype), rgi_scalar_name(r->dtype));
    return true;
}

/* Returns the product of the sizes of y's batch dims, where y has the shape of a b. */
static long long matmul_batches(const rg_tensor *a, const rg_tensor *b, const rg_tensor *y) {
    long long batches = 1;
    for (int d = 0; d < RG_MAX(a->ndim, b->ndim) - 2; d++)
        batches *= y->size[d];
    return batches;
}

static bool matmul_allows_as(const struct matmul_attr *how, const rg_tensor *l, const rg_tensor *r,
                             long long batches, bool of_bool) {
    switch (how->kind) {
    case MATMUL_DOT: return dot_allows(how->name, l, r);
    case MATMUL_MV: return mv_allows(how->name, l, r);
    case MATMUL_MM: return mm_allows(how->name, l, r);
    case MATMUL_BMM: return bmm_allows(how->name, l, r, batches, of_bool);
    }
    return true;
}

/* torch multiplies bools only where there is nothing to multiply or to add, and never in dot. */
bool rgi_matmul_allows(const struct matmul_attr *how, const rg_tensor *a, const rg_tensor *b,
                       const rg_tensor *y) {
    static const char *const cpu[] = { [MATMUL_DOT] = "dot",
                                       [MATMUL_MV] = "addmv_impl_cpu",
                                       [MATMUL_MM] = "addmm_impl_cpu_",
                                       [MATMUL_BMM] = "bmm" };
    if (RG_LIKELY(rgi_product_fits(a, b)))
        return true;
    rg_tensor row = a->ndim == 1 ? rgi_product_raise(*a, 0) : *a;
    rg_tensor column = b->ndim == 1 ? rgi_product_raise(*b, 1) : *b;
    rg_tensor l = how->swapped ? k_turned(&column) : row;
    rg_tensor r = how->swapped ? k_turned(&row) : column;
    bool of_bool = a->dtype == RG_BOOL;
    if (!matmul_allows_as(how, &l, &r, matmul_batches(a, b, y), of_bool))
        return false;
    bool empty = rgi_product_vectors(&l, l.ndim - 1) == 0
                 || rgi_product_vectors(&r, r.ndim - 2) == 0 || l.size[l.ndim - 1] == 0;
    RG_FAIL_DTYPE_IF(of_bool && (how->kind == MATMUL_DOT || !empty), how->name, cpu[how->kind],
                     RG_BOOL);
    return true;
}

bool rgi_bmm_allows(const char *op, const rg_tensor *a, const rg_tensor *b) {
    RG_FAIL_IF(a->ndim != 3, op, "batch1 must be a 3D tensor");
    RG_FAIL_IF(b->ndim != 3, op, "batch2 must be a 3D tensor");
    return bmm_allows_sizes(op, a->size[0], a->size[2], b->size[0], b->size[1]);
}

/* ---- sentences about addmm and baddbmm ----------------------------------------- */

bool rgi_addmm_allows_shapes(const struct addmm_attr *how, const rg_tensor *a, const rg_tensor *b) {
    if (how->batched)
        return rgi_bmm_allows("baddbmm", a, b);
    RG_FAIL_IF(a->ndim != 2, "addmm", "mat1 must be a matrix, got %d-D tensor", a->ndim);
    RG_FAIL_IF(b->ndim != 2, "addmm", "mat2 must be a matrix, got %d-D tensor", b->ndim);
    return mm_allows_sizes("addmm", a->size[0], a->size[1], b->size[0], b->size[1]);
}

static bool addmm_allows_dtypes(const char *op, const rg_tensor *c, const rg_tensor *a,
                                const rg_tensor *b) {
    RG_FAIL_IF(c->dtype != b->dtype, op,
               "self and mat2 must have the same dtype, but got %s and %s",
               rgi_scalar_name(c->dtype), rgi_scalar_name(b->dtype));
    RG_FAIL_IF(a->dtype != b->dtype, op,
               "mat1 and mat2 must have the same dtype, but got %s and %s",
               rgi_scalar_name(a->dtype), rgi_scalar_name(b->dtype));
    RG_FAIL_DTYPE_IF(a->dtype == RG_BOOL, op, "addmm_impl_cpu_", RG_BOOL);
    return true;
}

static bool baddbmm_allows_dtypes(const rg_tensor *c, const rg_tensor *a, const rg_tensor *b) {
    RG_FAIL_IF(a->dtype != b->dtype, "baddbmm", "expected scalar type %s but found %s",
               rgi_scalar_name(a->dtype), rgi_scalar_name(b->dtype));
    RG_FAIL_IF(c->dtype != a->dtype, "baddbmm",
               "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
               rgi_c_name(c->dtype), rgi_c_name(a->dtype), rgi_c_name(b->dtype));
    RG_FAIL_DTYPE_IF(a->dtype == RG_BOOL, "baddbmm", "baddbmm", RG_BOOL);
    return true;
}

bool rgi_addmm_allows(const struct addmm_attr *how, const rg_tensor *c, const rg_tensor *a,
                      const rg_tensor *b) {
    const char *op = how->batched ? "baddbmm" : "addmm";
    bool allowed = how->batched ? baddbmm_allows_dtypes(c, a, b) : addmm_allows_dtypes(op, c, a, b);
    if (!allowed)
        return false;
    return rgi_number_fits(op, how->beta, a->dtype) && rgi_number_fits(op, how->alpha, a->dtype);
}

/* ---- sentences about linear ---------------------------------------------------- */

bool rgi_linear_allows_ranks(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias) {
    RG_FAIL_IF(x->ndim == 0 || weight->ndim == 0, "linear",
               "both arguments to linear need to be at least 1D, but they are %dD and %dD", x->ndim,
               weight->ndim);
    RG_FAIL_IF(weight->ndim > 2, "linear",
               "t() expects a tensor with <= 2 dimensions, but self is %dD", weight->ndim);
    RG_FAIL_IF(weight->ndim == 1 && x->ndim > 1 && !rgi_is_none(bias), "linear",
               "mat2 must be a matrix, got 1-D tensor");
    return true;
}

/* torch computes linear as matmul where there is no bias, or x doesn't fit, and as addmm else. */
bool rgi_linear_allows(const rg_tensor *x, const rg_tensor *w, const rg_tensor *bias,
                       const rg_tensor *y) {
    if (rgi_is_none(bias) || x->size[x->ndim - 1] != w->size[1]) {
        rg_tensor turned = k_turned(w);
        const struct matmul_attr as = { "linear", "", MATMUL_MM, false };
        return rgi_matmul_allows(&as, x, &turned, y);
    }
    rg_dims rows = { 2, { rgi_product_vectors(x, x->ndim - 1), w->size[0] } };
    return rgi_may_expand("linear", bias, rows) && addmm_allows_dtypes("linear", bias, x, w);
}

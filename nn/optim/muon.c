/*
 * muon.c: computes the Newton-Schulz iteration in a step of Muon. Its matrix products make the
 * update nearly orthogonal. As in torch, its matrices are rounded to bfloat16. They are stored as
 * float32, in which products of two bfloat16 numbers are exact. The elementwise part of the step is
 * in tensor/kernels/.
 */
#include "optimizer_structs.h"
#include "tensor/kernels/copy.h"
#include "tensor/kernels/kernels.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <math.h>

static void round_to_bfloat16(rg_tensor *t) { k_optimizer_step(&k_round_to_bfloat16, 1, &t, NULL); }

/* Divides x by its Frobenius norm, so that no singular value is above 1, apart from rounding. If
 * eps is larger than the norm, divides by eps. */
static void divide_by_norm(rg_tensor *x, double eps) {
    float *v = (float *)x->data;
    double squares = 0;
    for (int64_t i = 0; i < x->numel; i++)
        squares += (double)v[i] * (double)v[i];
    float norms[] = { (float)sqrt(squares), (float)eps };
    rg_tensor both = { .dtype = RG_FLOAT32,
                       .ndim = 1,
                       .size = { 2 },
                       .stride = { 1 },
                       .numel = 2,
                       .data = (char *)norms,
                       .flags = RG_CONTIGUOUS };
    round_to_bfloat16(&both);
    const float norm = norms[0] < norms[1] ? norms[1] : norms[0];
    for (int64_t i = 0; i < x->numel; i++)
        v[i] /= norm;
    round_to_bfloat16(x);
}

/* ---- products of a matrix and its transpose -------------------------------------------- */

enum { PANEL_ROWS = 128, MOST_PANELS = 8, TURN_EDGE = 32 };

/* Returns a view of `rows` rows of the matrix, from `row` on, with the first `columns` columns. */
static rg_tensor matrix_part(const rg_tensor *t, int64_t row, int64_t rows, int64_t columns) {
    rg_tensor part = rgi_header_of(t);
    part.data += row * t->stride[0] * (int64_t)sizeof(float);
    part.size[0] = rows;
    part.size[1] = columns;
    part.numel = rows * columns;
    if (columns != t->size[1])
        part.flags &= (uint8_t)~RG_CONTIGUOUS;
    return part;
}

/* Copies the triangle of y below the diagonal to the triangle above it. Works in square blocks, so
 * that the block that is read and the block that is written both stay in the cache. */
static void mirror(rg_tensor *y) {
    const int64_t n = y->size[0];
    float *v = (float *)y->data;
    for (int64_t rows = 0; rows < n; rows += TURN_EDGE)
        for (int64_t columns = rows; columns < n; columns += TURN_EDGE)
            for (int64_t i = rows; i < RG_MIN(rows + TURN_EDGE, n); i++)
                for (int64_t j = RG_MAX(columns, i + 1); j < RG_MIN(columns + TURN_EDGE, n); j++)
                    v[i * n + j] = v[j * n + i];
}

/* Computes y = x x^T. As y is symmetric, each panel (a range of rows) is computed only up to the
 * diagonal, and the rest is copied from below the diagonal. Returns false on failure. */
static bool symmetric_product(rg_tensor *y, const rg_tensor *x) {
    const int64_t n = x->size[0];
    const int64_t rows = RG_MAX(PANEL_ROWS, (n / MOST_PANELS + 15) / 16 * 16);
    for (int64_t row = 0; row < n; row += rows) {
        const int64_t end = RG_MIN(row + rows, n);
        rg_tensor to = matrix_part(y, row, end - row, end);
        const rg_tensor left = matrix_part(x, row, end - row, x->size[1]);
        const rg_tensor right = matrix_part(x, 0, end, x->size[1]);
        if (!k_matmul_with(&to, NULL, &left, false, &right, true, 1, 0))
            return false;
    }
    mirror(y);
    return true;
}

/* Computes y = alpha y + beta c, where `alpha` and `beta` are numbers, and rounds it to bfloat16
 * once at the end, as torch.addmm does. */
static void combine(rg_tensor *y, rg_tensor *c, double alpha, double beta) {
    const k_optimizer_numbers z = { .combined = { .alpha = alpha, .beta = beta } };
    k_optimizer_step(&k_combine_to_bfloat16, 2, (rg_tensor *[]){ y, c }, &z);
}

/* Makes ns_steps steps. Each replaces x by a x + (b x x^T + c (x x^T)^2) x, where x x^T and the
 * other products of x are matrix products. `a`, `b` and `c` are numbers, the ns_coefficients.
 * Returns the result, which can be x itself or another tensor. Returns NULL on failure. */
static rg_tensor *orthogonalised(rg_tensor *x, const rg_param_group *g) {
    const double *k = g->ns_coefficients;
    const int64_t rows = x->size[0], square[] = { rows, rows };
    rg_tensor *gram = rgi_own(rgi_new_output(RG_FLOAT32, 2, square));
    rg_tensor *factor = rgi_own(rgi_new_output(RG_FLOAT32, 2, square));
    rg_tensor *next = rgi_own(rgi_new_output(RG_FLOAT32, 2, x->size));
    if (!gram || !factor || !next)
        return NULL;
    for (int step = 0; step < g->ns_steps; step++) {
        if (!symmetric_product(gram, x))
            return NULL;
        round_to_bfloat16(gram);
        if (!symmetric_product(factor, gram))
            return NULL;
        combine(factor, gram, k[2], k[1]);
        if (!k_matmul(next, factor, x))
            return NULL;
        combine(next, x, 1, k[0]);
        rg_tensor *before = x;
        x = next;
        next = before;
    }
    return x;
}

/* Returns t in this dtype or, if `turned`, its transpose. The transpose is always copied: its
 * header is on the stack, so nothing may keep it. */
static rg_tensor *laid_out(rg_tensor *t, bool turned, rg_dtype dtype) {
    if (!turned)
        return rgi_own(rgi_contiguous_copy(t, dtype));
    const rg_tensor from = k_turned(t);
    rg_tensor *copy = rgi_own(rgi_new_like(&from, dtype));
    if (copy)
        rgi_copy_elements(copy, &from);
    return copy;
}

rg_tensor *rgi_muon_update(const rg_param_group *g, const rg_optim_slot *slot,
                           const k_optimizer_numbers *z) {
    RG_SCOPE();
    RG_FAIL_VALUE_IF(!(g->ns_steps < RG_MUON_STEPS_MAX), "Muon", RG_TOO_MANY_MUON_STEPS);
    const bool tall = slot->operand[0]->size[0] > slot->operand[0]->size[1];
    rg_tensor *update = rgi_own(rgi_new_like(slot->operand[0], slot->operand[0]->dtype));
    if (!update || !update->numel)
        return update ? rg_escape(update) : NULL;
    rg_tensor *operands[] = { update, slot->operand[1], slot->operand[2] };
    k_optimizer_step(&k_muon_update, 3, operands, z);
    rg_tensor *x = laid_out(update, tall, RG_FLOAT32);
    if (!x)
        return NULL;
    divide_by_norm(x, g->eps);
    x = orthogonalised(x, g);
    return x ? rg_escape(laid_out(x, tall, slot->operand[0]->dtype)) : NULL;
}

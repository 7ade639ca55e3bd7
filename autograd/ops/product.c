/*
 * product.c: products of vectors and matrices, and what is made of them.
 */
#include "autograd/op.h"

/* ---- matmul: y = a b on the last two dims; ga = g b^T, gb = a^T g -------------------- */

static bool matmul_shape(rg_call *c)
{
    const rg_tensor *a = c->in[0], *b = c->in[1];
    rg_tensor *y = c->out[0];
    int64_t n = a->size[a->ndim - 2], k = a->size[a->ndim - 1], k2 = b->size[b->ndim - 2], m = b->size[b->ndim - 1];
    if (k != k2)
        return rg_fail(RG_RUNTIME_ERROR, "matmul", "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                       (long long)n, (long long)k, (long long)k2, (long long)m);
    rg_tensor batch_a = *a, batch_b = *b;
    batch_a.ndim -= 2;
    batch_b.ndim -= 2;
    if (!rg_broadcast_shapes("matmul", &batch_a, &batch_b, y)) return false;
    y->size[y->ndim++] = n;
    y->size[y->ndim++] = m;
    return true;
}

static bool matmul_forward(rg_call *c) { return k_matmul(c->out[0], c->in[0], c->in[1]); }

static rg_tensor *matmul_rule_a(const rg_step *s, rg_tensor *g) { return rg_matmul(g, rg_mT(rg_saved(s, 1))); }
static rg_tensor *matmul_rule_b(const rg_step *s, rg_tensor *g) { return rg_matmul(rg_mT(rg_saved(s, 0)), g); }

RG_OP(matmul, .doc = "a b, on the last two dims", .node = "MmBackward0", .n_in = 2,
      .shape = matmul_shape, .forward = matmul_forward,
      .grad = { RG_RULE(RG_IN(1), matmul_rule_a), RG_RULE(RG_IN(0), matmul_rule_b) },
      RG_SAMPLES({ "(2,3) (3,4)", NULL }, { "(2,2,3) (3,2)", NULL }, { "(2,1,2,3) (4,3,1)", NULL },
                 { "(0,3) (3,2)", NULL }, { "(2,0) (0,2)", NULL }));

rg_tensor *rg_matmul(rg_tensor *a, rg_tensor *b) { return RG_APPLY(matmul, RG_NO_ATTR, a, b); }

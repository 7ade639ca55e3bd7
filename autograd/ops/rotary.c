/*
 * rotary.c: rotary_embedding, which turns pairs of elements by angles. It has no loops of its own:
 * each half of the result is a product and a product that is added to it.
 */
#include "autocast.h"
#include "autograd/checks.h"

/* ---- rotary_embedding: (a cos - b sin, b cos + a sin), where a pair (a, b) is an element of each
 *      half of x's last dim, or two neighbours if `interleaved` is set; with (ga, gb) for the pair
 *      of g: gx = (ga cos + gb sin, gb cos - ga sin), gcos = ga a + gb b, gsin = gb a - ga b -----
 */

struct rotary_embedding_attr {
    bool interleaved;
};

/* Returns the part of x that has the first (which = 0) or the second elements of all pairs. */
static rg_part rotary_half(const struct rotary_embedding_attr *a, const rg_tensor *x, int which) {
    const int dim = x->ndim - 1;
    const int64_t n = x->size[dim] / 2;
    return a->interleaved ? (rg_part){ RG_PART_RANGE(dim, which, n, 2) }
                          : (rg_part){ RG_PART_RANGE(dim, which * n, n, 1) };
}

static bool rotary_embedding_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *cosines = c->in[1], *sines = c->in[2];
    if (!rgi_want_float(NULL, x) || !rgi_want_dims(NULL, "x", x, 1, RG_MAX_DIMS)
        || !rgi_want_same_dtype(NULL, "x", x, "cos", cosines)
        || !rgi_want_same_dtype(NULL, "x", x, "sin", sines))
        return false;
    rg_dims half = rg_shape(c->in[0]);
    RG_FAIL_IF(half.v[half.n - 1] % 2, NULL, "the last dim of x must be even, but x is of shape %s",
               rg_repr_shape(c->in[0]));
    half.v[half.n - 1] /= 2;
    return rgi_may_expand(NULL, cosines, half) && rgi_may_expand(NULL, sines, half)
           && rgi_shape_same(c);
}

static bool rotary_embedding_forward(rg_call *c) {
    const struct rotary_embedding_attr *attr = RG_ATTR(c, rotary_embedding);
    rg_tensor *x = c->in[0], *y = c->out[0], *cosines = c->in[1], *sines = c->in[2];
    const rg_part first = rotary_half(attr, x, 0), second = rotary_half(attr, x, 1);
    RG_PART_HEADER(a, x, &first);
    RG_PART_HEADER(b, x, &second);
    RG_PART_HEADER(ya, y, &first);
    RG_PART_HEADER(yb, y, &second);
    return k_run(k_mul, &ya, &a, cosines) && k_run(k_mul, &yb, &b, cosines)
           && k_run_with(&k_addcmul, &ya, (rg_tensor *[]){ &ya, &b, sines }, (double[3]){ -1 })
           && k_run_with(&k_addcmul, &yb, (rg_tensor *[]){ &yb, &a, sines }, (double[3]){ 1 });
}

static rg_tensor *rotary_rule_x(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(rotary_embedding, RG_ATTR(s, rotary_embedding), g, rgi_saved(s, 1),
                    rg_neg(rgi_saved(s, 2)));
}

/* Stores the first elements of the pairs of x and g in v[0] and v[1], and the second elements in
 * v[2] and v[3], as views. Returns false on failure. */
static bool rotary_pairs(const rg_step *s, rg_tensor *g, rg_tensor *v[4]) {
    const struct rotary_embedding_attr *attr = RG_ATTR(s, rotary_embedding);
    rg_tensor *x = rgi_saved(s, 0);
    if (!x || !g)
        return false;
    for (int i = 0; i < 4; i++) {
        const rg_part half = rotary_half(attr, x, i / 2);
        v[i] = rgi_part_of(i % 2 ? g : x, &half);
    }
    return v[0] && v[1] && v[2] && v[3];
}

static rg_tensor *rotary_rule_cos(const rg_step *s, rg_tensor *g) {
    rg_tensor *v[4];
    if (!rotary_pairs(s, g, v))
        return NULL;
    return rg_add(rg_mul(v[1], v[0]), rg_mul(v[3], v[2]));
}

static rg_tensor *rotary_rule_sin(const rg_step *s, rg_tensor *g) {
    rg_tensor *v[4];
    if (!rotary_pairs(s, g, v))
        return NULL;
    return rg_sub(rg_mul(v[3], v[0]), rg_mul(v[1], v[2]));
}

#define HALVES RG_A(rotary_embedding, false)
#define PAIRS  RG_A(rotary_embedding, true)
RG_OP(rotary_embedding, .doc = "pairs (a, b) of x as (a cos - b sin, b cos + a sin)",
      .node = "RotaryEmbeddingBackward", .n_in = 3, RG_WITH(rotary_embedding),
      RG_MADE(rotary_embedding),
      .grad = { RG_RULE(RG_IN(1) | RG_IN(2), rotary_rule_x), RG_RULE(RG_IN(0), rotary_rule_cos),
                RG_RULE(RG_IN(0), rotary_rule_sin) },
      RG_SAMPLES({ "(2,4) (2,2) (2,2)", HALVES }, { "(2,3,4) (3,2) (3,2)", HALVES },
                 { "(2,4) (2,2) (2,2)", PAIRS }, { "(2,3,6) (3,3) (1,3)", PAIRS },
                 { "(4) (2) ()", PAIRS }, { "(0,4) (2) (2)", HALVES },
                 { "(3,0) (0) (0)", HALVES }));

rg_tensor *(rg_rotary_embedding)(rg_tensor *x, rg_tensor *cos, rg_tensor *sin, bool interleaved) {
    RG_AUTOCASTS(RG_WIDEST, (rg_rotary_embedding)(in[0], in[1], in[2], interleaved), x, cos, sin);
    return RG_APPLY(rotary_embedding, RG_A(rotary_embedding, interleaved), x, cos, sin);
}

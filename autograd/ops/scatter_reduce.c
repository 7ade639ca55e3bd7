/*
 * scatter_reduce.c: scatter_reduce, which combines the elements of a source with the elements of x
 * at indices along a dim: by a sum, a product, a mean, a maximum or a minimum. (gather.c writes and
 * adds elements.)
 */
#include "elementwise.h"
#include "gather.h"

#include "autograd/checks.h"
#include "tensor/observer.h"

#include <math.h>
#include <string.h>

enum scatter_reduce_how { JOIN_SUM, JOIN_PROD, JOIN_MEAN, JOIN_AMAX, JOIN_AMIN, JOINS };

/* The attributes of scatter_reduce. If include_self is set, the elements of x take part in the
 * reductions. */
struct scatter_reduce_attr {
    int dim;
    enum scatter_reduce_how how;
    bool include_self;
};

/* ---- undoubled: a copy of x that can't be differentiated. scatter_reduce_others applies it to a
 *      gradient whose own derivative would be wrong: a second backward then fails ------ */

static bool undoubled_forward(rg_call *c) {
    rgi_copy_elements(c->out[0], c->in[0]);
    return true;
}

RG_OP(undoubled, .doc = "x, without a derivative", .n_in = 1, .shape = rgi_shape_same,
      .forward = undoubled_forward,
      .no_grad = "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src "
                 "are scattered to the same position in self",
      RG_SAMPLES({ "(2,3)", NULL }, { "(0,3)", NULL }));

/* ---- scatter_reduce: y = x, then each source[i][j] is reduced into y[index[i][j]][j] (for
 *      dim 0) ------------------------------------------------------------------- */

static bool scatter_reduce_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    const rg_tensor *index = c->in[1];
    const struct scatter_reduce_attr *a = RG_ATTR(c, scatter_reduce);
    if (a->how == JOIN_MEAN && !rgi_want_no_bool(NULL, x))
        return false;
    rgi_copy_shape(c->out[0], x);
    return index->numel == 0 || rgi_index_in_range(index, x, a->dim);
}

/* A number in two forms: `integer` is used if the dtype is an integer, and `number` if the dtype is
 * floating point or bool. */
typedef struct {
    double number;
    int64_t integer;
} scatter_reduce_any;

/* For each element of the index, combines the number `joined` with the element of t at that index.
 * `how` says in which way: K_PUT writes the number there, for example, and K_ADD adds it. */
static bool scatter_reduce_number(k_index_how how, const rg_tensor *t, int dim,
                                  const rg_tensor *index, scatter_reduce_any joined) {
    int64_t room;
    rg_tensor row = rgi_header_of(index);
    row.dtype = t->dtype;
    row.data = (char *)&room;
    memset(row.stride, 0, sizeof row.stride);
    if (rgi_is_integer(t->dtype))
        rgi_store_i64(&room, t->dtype, rgi_nearest_integer(joined.integer, t->dtype));
    else
        rgi_store_f64(&room, t->dtype, joined.number);
    return k_index_along(how, &row, t, dim, index);
}

/* Returns the number that doesn't change a sum, product or extreme in which it takes part. */
static scatter_reduce_any scatter_reduce_neutral(enum scatter_reduce_how how, rg_dtype dtype) {
    double least = rgi_is_bool(dtype) ? 0 : -INFINITY;
    switch (how) {
    case JOIN_PROD: return (scatter_reduce_any){ 1, 1 };
    case JOIN_AMAX: return (scatter_reduce_any){ least, INT64_MIN };
    case JOIN_AMIN: return (scatter_reduce_any){ 1 - least, INT64_MAX };
    default: return (scatter_reduce_any){ 0, 0 };
    }
}

/* Divides each element of y that the index names by the number of elements that were summed into
 * it, including x's element if a->include_self. */
static bool scatter_reduce_divide(rg_tensor *y, const struct scatter_reduce_attr *a,
                                  const rg_tensor *index) {
    RG_SCOPE();
    rg_tensor *count = rgi_own(rgi_new_like(y, y->dtype));
    if (!count)
        return false;
    const scatter_reduce_any none = { 0, 0 };
    const scatter_reduce_any one = { 1, 1 };
    rgi_fill_number(count, 1, 1);
    if (!a->include_self && !scatter_reduce_number(K_PUT, count, a->dim, index, none))
        return false;
    return scatter_reduce_number(K_ADD, count, a->dim, index, one)
           && k_run_with(rgi_is_float(y->dtype) ? &k_div : &k_div_floor, y,
                         (rg_tensor *[]){ y, count }, NULL);
}

static bool scatter_reduce_forward(rg_call *c) {
    static const k_index_how join[JOINS] = { K_ADD, K_MULTIPLY, K_ADD, K_GREATER, K_LESSER };
    const struct scatter_reduce_attr *a = RG_ATTR(c, scatter_reduce);
    rg_tensor *y = c->out[0];
    const rg_tensor *index = c->in[1];
    if (y != c->in[0])
        rgi_copy_elements(y, c->in[0]);
    if (index->numel == 0)
        return true;
    if (!a->include_self
        && !scatter_reduce_number(K_PUT, y, a->dim, index,
                                  scatter_reduce_neutral(a->how, y->dtype)))
        return false;
    return k_index_along(join[a->how], c->in[2], y, a->dim, index)
           && (a->how != JOIN_MEAN || scatter_reduce_divide(y, a, index));
}

/* ---- the gradients of scatter_reduce; the formulas are torch's ------------------ */

/* Returns the part of the source that is used: its sizes are those of the index. */
static rg_tensor *scatter_reduce_part(rg_tensor *source, const rg_tensor *index) {
    if (source && source->ndim != index->ndim)
        return rg_reshape_dims(source, rg_shape((rg_tensor *)index));
    for (int d = 0; d < index->ndim && source; d++)
        if (source->size[d] != index->size[d])
            source = rg_narrow(source, d, 0, index->size[d]);
    return source;
}

/* Returns, for each element of y, the number of elements that are averaged to it. Returns 1 if
 * there are none, so that nothing is divided by 0. */
static rg_tensor *scatter_reduce_count(const struct scatter_reduce_attr *a, rg_tensor *g,
                                       rg_tensor *index) {
    rg_tensor *ones = rg_ones_dims(rg_shape(index), g->dtype);
    rg_tensor *start = a->include_self ? rg_ones_like(g) : rg_zeros_like(g);
    rg_tensor *count = rg_scatter_add(start, a->dim, index, ones);
    return rg_masked_fill(count, rg_eq(count, 0), 1);
}

/* Returns g divided by the number of elements that equal the extreme y. If include_self isn't set,
 * an element of x that the index names isn't counted. (torch also counts such an element if it
 * equals y.) */
static rg_tensor *scatter_reduce_share(const rg_step *s, rg_tensor *g, rg_tensor *index,
                                       rg_tensor *part) {
    const struct scatter_reduce_attr *a = RG_ATTR(s, scatter_reduce);
    rg_tensor *y = rgi_saved_output(s);
    rg_tensor *mine = rg_to(rg_eq(rgi_saved(s, 0), y), g->dtype);
    rg_tensor *theirs = rg_to(rg_eq(part, rg_gather(y, a->dim, index)), g->dtype);
    if (!a->include_self)
        mine = rg_scatter(mine, a->dim, index, 0);
    return rg_div(g, rg_scatter_add(mine, a->dim, index, theirs));
}

static rg_tensor *scatter_reduce_again(const struct scatter_reduce_attr *a, rg_tensor *x,
                                       rg_tensor *index, rg_tensor *source) {
    return RG_APPLY(scatter_reduce, a, x, index, source);
}

/* The gradient of x: g for a sum; g / n for a mean of n elements; g times the product of the other
 * elements for a product. For an extreme, g is divided among the elements that equal it. If
 * include_self isn't set, the gradient is 0 for the elements of x that the index names. */
static rg_tensor *scatter_reduce_rule_x(const rg_step *s, rg_tensor *g) {
    const struct scatter_reduce_attr *a = RG_ATTR(s, scatter_reduce);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *index = rgi_saved(s, 1);
    rg_tensor *source = rgi_saved(s, 2);
    if (!x || !index || !source)
        return NULL;
    if (index->numel == 0)
        return a->how == JOIN_PROD ? rgi_flat_in_input(s, g) : g;
    if (a->how == JOIN_PROD) {
        rg_tensor *others = rg_masked_fill(x, rg_eq(x, 0), 1);
        g = rg_div(rg_mul(g, scatter_reduce_again(a, others, index, source)), others);
    } else if (a->how == JOIN_MEAN) {
        g = rg_div(g, scatter_reduce_count(a, g, index));
    } else if (a->how != JOIN_SUM) {
        g = scatter_reduce_share(s, g, index, scatter_reduce_part(source, index));
        g = rg_mul(rg_to(rg_eq(x, rgi_saved_output(s)), x->dtype), g);
    }
    return a->include_self ? g : rg_scatter(g, a->dim, index, 0);
}

/* Returns, for each element of the source, g times the product of all other elements that are
 * reduced to the same result. If the element is the only 0 of the source in this result, the
 * product is computed with a 1 in place of the 0. If the source has several zeros in this result,
 * the value computed here, 0, is right, but the derivative of this computation would be wrong. In
 * that case the op undoubled makes a second backward fail, as in torch. */
static rg_tensor *scatter_reduce_others(const rg_step *s, rg_tensor *g, rg_tensor *index,
                                        rg_tensor *part) {
    const struct scatter_reduce_attr *a = RG_ATTR(s, scatter_reduce);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *zero = rg_eq(part, 0);
    rg_tensor *zeros = rg_scatter_add(rg_zeros_like(rg_detach(x)), a->dim, index,
                                      rg_to(zero, part->dtype));
    zeros = rg_gather(zeros, a->dim, index);
    rg_tensor *alone = rg_logical_and(zero, rg_eq(zeros, 1));
    rg_tensor *product = scatter_reduce_again(a, x, index, rg_masked_fill(part, alone, 1));
    rg_tensor *with_one = rg_gather(rg_mul(g, product), a->dim, index);
    rg_tensor *whole = rg_gather(rg_mul(g, rgi_saved_output(s)), a->dim, index);
    g = rg_where(alone, with_one, rg_div(whole, rg_masked_fill(part, zero, 1)));
    if (!s->create_graph)
        return g;
    rg_tensor *several = rg_gt(zeros, 1);
    if (!several || !rgi_may_do_once("the gradient of scatter_reduce"))
        return NULL;
    return k_count(several) ? RG_APPLY(undoubled, RG_NO_ATTR, g) : g;
}

/* The gradient of the source. The formulas are those that scatter_reduce_rule_x has for x if
 * include_self is set. The elements of the source outside the index's shape get 0. */
static rg_tensor *scatter_reduce_rule_source(const rg_step *s, rg_tensor *g) {
    const struct scatter_reduce_attr *a = RG_ATTR(s, scatter_reduce);
    rg_tensor *index = rgi_saved(s, 1);
    rg_tensor *source = rgi_saved(s, 2);
    if (!index || !source)
        return NULL;
    if (index->numel == 0 && a->how == JOIN_PROD)
        return rgi_flat_in_input(s, rgi_input_zeros(s));
    if (index->numel == 0)
        return rgi_input_zeros(s);
    rg_tensor *part = scatter_reduce_part(source, index);
    if (!part)
        return NULL;
    if (a->how == JOIN_PROD) {
        g = scatter_reduce_others(s, g, index, part);
    } else if (a->how == JOIN_MEAN) {
        g = rg_gather(rg_div(g, scatter_reduce_count(a, g, index)), a->dim, index);
    } else if (a->how == JOIN_SUM) {
        g = rg_gather(g, a->dim, index);
    } else {
        rg_tensor *value = rg_gather(rgi_saved_output(s), a->dim, index);
        rg_tensor *share = rg_gather(scatter_reduce_share(s, g, index, part), a->dim, index);
        g = rg_mul(rg_to(rg_eq(part, value), part->dtype), share);
    }
    return rgi_scatter_widen(s, g);
}

#define SCATTER_REDUCE_NEEDS (RG_IN(0) | RG_IN(1) | RG_IN(2) | RG_OUTPUT)
/* JOIN expands to the initializer of a test sample (rg_sample). */
#define JOIN(inputs, ...) \
    { inputs, RG_A(scatter_reduce, __VA_ARGS__) }
RG_OP(scatter_reduce, .doc = "x joined by source at index along dim",
      .node = "ScatterReduceBackward0", RG_WITH(scatter_reduce), .n_in = 3, .inplace = true,
      RG_MADE(scatter_reduce), .refuses_values = true,
      .grad = { RG_RULE(SCATTER_REDUCE_NEEDS, scatter_reduce_rule_x), RG_NO_RULE,
                RG_RULE(SCATTER_REDUCE_NEEDS, scatter_reduce_rule_source) },
      RG_SAMPLES(JOIN("(5,3) i5(2,3) (2,3)", 0, JOIN_SUM, true),
                 JOIN("(2,3) i2(4,3) (4,3)", 0, JOIN_SUM, false),
                 JOIN("(3) i3(1) ()", 0, JOIN_SUM, true), JOIN("(3) i3() (1)", 0, JOIN_MEAN, true),
                 JOIN("z(2,3,4) i3(2,5,3) z(3,5,3)", 1, JOIN_PROD, true),
                 JOIN("z(2,3) i2(4,3) z(4,3)", 0, JOIN_PROD, false),
                 JOIN("(2,3) i3(2,4) (2,4)", 1, JOIN_MEAN, true),
                 JOIN("(3,3) i3(4,3) (4,3)", 0, JOIN_MEAN, false),
                 JOIN("d(2,3) i3(2,4) z(2,4)", 1, JOIN_AMAX, true),
                 JOIN("d(2,3) i3(2,4) d(2,4)", 1, JOIN_AMAX, false),
                 JOIN("d(2,3) i3(2,4) z(2,4)", 1, JOIN_AMIN, true),
                 JOIN("() i1(3) d(3)", 0, JOIN_AMIN, false),
                 JOIN("(0,3) i1(0,3) (2,3)", 0, JOIN_MEAN, true)));

/* Sets a->how to the reduction of that name. Fails if there is no such reduction. */
static bool scatter_reduce_read(struct scatter_reduce_attr *a, const char *name) {
    static const char *const names[JOINS] = { "sum", "prod", "mean", "amax", "amin" };
    int how = 0;
    while (how < JOINS && strcmp(names[how], name) != 0)
        how++;
    RG_FAIL_IF(how == JOINS, NULL,
               "reduce argument must be either sum, prod, mean, amax or amin, got %s", name);
    a->how = (enum scatter_reduce_how)how;
    return true;
}

static bool scatter_reduce_check(struct scatter_reduce_attr *a, rg_tensor *x, int dim,
                                 rg_tensor *index, rg_tensor *source, const char *reduce) {
    return rgi_check(x, NULL) && rgi_check(index, NULL) && rgi_check(source, NULL)
           && rgi_given(reduce, NULL, "a text") && rgi_wrap_dim(NULL, dim, x->ndim, &a->dim)
           && rgi_scatter_fits(x, index, source, a->dim) && scatter_reduce_read(a, reduce);
}

rg_tensor *(rg_scatter_reduce_with)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source,
                                    const char *reduce, rg_scatter_reduce_options o) {
    struct scatter_reduce_attr a = { .include_self = o.include_self };
    RG_AS("scatter_reduce");
    if (!scatter_reduce_check(&a, x, dim, index, source, reduce))
        return NULL;
    return scatter_reduce_again(&a, x, index, source);
}

rg_tensor *(rg_scatter_reduce_with_)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source,
                                     const char *reduce, rg_scatter_reduce_options o) {
    struct scatter_reduce_attr a = { .include_self = o.include_self };
    RG_AS("scatter_reduce_");
    if (!scatter_reduce_check(&a, x, dim, index, source, reduce)
        || !rgi_scatter_apart(x, index) || !rgi_scatter_apart(x, source))
        return NULL;
    return RG_APPLY_(scatter_reduce, &a, x, index, source);
}

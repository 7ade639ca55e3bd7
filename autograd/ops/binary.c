/*
 * binary.c: elementwise functions of two tensors that broadcast: arithmetic, and the larger or
 * smaller of two elements. Functions without special rules are rows of
 * tensor/kernels/elementwise.def. (Comparisons are in compare.c.) In the formulas, g is the
 * gradient of the result, and ga and gb are the gradients of a and b.
 */
#include "elementwise.h"

#include "tensor/observer.h"

/* ---- functions that are rows of tensor/kernels/elementwise.def ------------------- */

/* Returns part / (a^2 + b^2), but 0 where a^2 + b^2 is 0. */
static rg_tensor *over_square(rg_tensor *part, rg_tensor *a, rg_tensor *b) {
    rg_tensor *square = rg_add(rg_square(a), rg_square(b));
    return rg_mul(part, rg_masked_fill(rg_reciprocal(square), rg_eq(square, 0), 0));
}

/* Returns the gradient of one input of maximum or minimum: g where this input was chosen, g / 2
 * where both inputs are equal, and 0 where the other input was chosen. */
static rg_tensor *chosen_gradient(rg_tensor *g, rg_tensor *equal, rg_tensor *other_chosen) {
    return rg_masked_fill(rg_where(equal, rg_div(g, 2), g), other_chosen, 0);
}

/* fmax_chooses_a and fmin_chooses_a return for each element whether fmax or fmin chooses `a`. fmax
 * does so where a >= b, and fmin where a <= b. Both choose `a` where `b` is NaN. */
static rg_tensor *fmax_chooses_a(rg_tensor *a, rg_tensor *b) {
    return rg_logical_or(rg_ge(a, b), rg_isnan(b));
}

static rg_tensor *fmin_chooses_a(rg_tensor *a, rg_tensor *b) {
    return rg_logical_or(rg_le(a, b), rg_isnan(b));
}

/* In a row of elementwise.def, the name `a`, `b` or `ab` says which inputs a gradient reads.
 * NEEDS_ab, for example, is the mask of the inputs to save, and VALUE_ab declares variables for the
 * saved inputs. */
#define NEEDS_a  RG_IN(0)
#define NEEDS_b  RG_IN(1)
#define NEEDS_ab NEEDS_a | NEEDS_b
#define VALUE_a  rg_tensor *a = rgi_saved(s, 0)
#define VALUE_b  rg_tensor *b = rgi_saved(s, 1)
#define VALUE_ab \
    VALUE_a;     \
    VALUE_b

/* The names with which a row says which dtypes it allows. */
#define BOTH_FLOATED .typing = RG_FLOATED, .shape = rgi_shape_broadcast
#define BOTH_FLOATS  .typing = RG_PROMOTED, .shape = rgi_shape_broadcast_floats
#define BOTH_ALL     .typing = RG_PROMOTED, .shape = rgi_shape_broadcast

#define BINARY(name, ...)                                     \
    BINARY_ALONE(name, __VA_ARGS__)                           \
    rg_tensor *(rg_##name##_)(rg_tensor * a, rg_tensor * b) { \
        return RG_APPLY_(name, RG_NO_ATTR, a, b);             \
    }
#define BINARY_ALONE(name, Node, formula, weight, dtypes, samples_a, samples_b, values_a, \
                     gradient_a, values_b, gradient_b)                                    \
    RULE_OF_ROW(name##_rule_a, values_a, gradient_a)                                      \
    RULE_OF_ROW(name##_rule_b, values_b, gradient_b)                                      \
    RG_OP(name, .doc = formula, .node = #Node "Backward0", .n_in = 2, BOTH_##dtypes,      \
          RG_ELEMENTWISE, .kernel = &k_##name,                                            \
          .grad = { RG_RULE(NEEDS_##values_a, name##_rule_a),                             \
                    RG_RULE(NEEDS_##values_b, name##_rule_b) },                           \
          SAMPLES_2(samples_a, samples_b, NULL));                                         \
    FUNCTION_OF_BINARY_ROW(name)
#include "tensor/kernels/elementwise.def"

/* ---- sub: a - b; ga = g, gb = -g ----------------------------------------------- */

static rg_tensor *sub_rule_b(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_neg(g);
}

RG_OP(sub, .doc = "a - b", .node = "SubBackward0", .n_in = 2, .typing = RG_PROMOTED, RG_ELEMENTWISE,
      .shape = rgi_shape_broadcast, .kernel = &k_sub,
      .grad = { RG_RULE(0, rgi_rule_same), RG_RULE(0, sub_rule_b) }, SAMPLES_2("", "", NULL));

/* Fails with torch's error message if `a` or `b` is bool. */
static bool sub_allows(const char *op, rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, op) || !rgi_check(b, op))
        return false;
    if (RG_LIKELY(!rgi_is_bool(a->dtype) && !rgi_is_bool(b->dtype)))
        return true;
    RG_FAIL_IF(a->dtype == b->dtype, op,
               "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
               "`^` or `logical_xor()` operator instead.");
    return rgi_fail(
        RG_RUNTIME_ERROR, op,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
}

rg_tensor *(rg_sub)(rg_tensor *a, rg_tensor *b) {
    return sub_allows("sub", a, b) ? RG_APPLY(sub, RG_NO_ATTR, a, b) : NULL;
}

rg_tensor *(rg_sub_)(rg_tensor *a, rg_tensor *b) {
    return sub_allows("sub_", a, b) ? RG_APPLY_(sub, RG_NO_ATTR, a, b) : NULL;
}

/* ---- add_alpha: a + alpha b; ga = g, gb = alpha g. rg_sub_alpha applies it with -alpha ---- */

/* The attributes of add and sub with alpha. The field `alpha` holds the number as a double, and
 * `integer` holds it truncated to an integer. `dtype` is the dtype in which the caller gave the
 * number. */
struct add_alpha_attr {
    const char *node;
    double alpha;
    int64_t integer;
    rg_dtype dtype;
};

static bool add_alpha_shape(rg_call *c) {
    const struct add_alpha_attr *a = RG_ATTR(c, add_alpha);
    const rg_dtype result = c->in[0]->dtype;
    if (!rgi_shape_broadcast(c))
        return false;
    RG_FAIL_IF(rgi_is_bool(a->dtype) && !rgi_is_bool(result), "add",
               "Boolean alpha only supported for Boolean results.");
    RG_FAIL_IF(rgi_is_float(a->dtype) && !rgi_is_float(result), "add",
               "For integral input tensors, argument alpha must not be a floating point number.");
    return rgi_is_float(a->dtype) ? rgi_number_fits("add", a->alpha, result)
                                  : rgi_whole_fits("add", a->integer, result);
}

static bool add_alpha_forward(rg_call *c) {
    const struct add_alpha_attr *a = RG_ATTR(c, add_alpha);
    double k[3] = { a->alpha };
    if (rgi_is_integer(c->in[0]->dtype))
        memcpy(k, &a->integer, sizeof a->integer);
    return k_run_with(&k_add_alpha, c->out[0], c->in, k);
}

static rg_tensor *add_alpha_rule_b(const rg_step *s, rg_tensor *g) {
    return rg_mul(g, RG_ATTR(s, add_alpha)->alpha);
}

RG_OP(add_alpha, .doc = "a + alpha b", .n_in = 2, RG_NAMED(add_alpha), .typing = RG_PROMOTED,
      RG_ELEMENTWISE, RG_MADE(add_alpha),
      .grad = { RG_RULE(0, rgi_rule_same), RG_RULE(0, add_alpha_rule_b) },
      SAMPLES_2("", "",
                RG_A(add_alpha, "AddBackward0", .alpha = 2.5, .integer = 2, .dtype = RG_FLOAT64)));

/* Reads alpha into the attributes, with its sign changed if `minus`. Fails with torch's error
 * message unless alpha is a number or a tensor with one element that doesn't require grad. */
static bool add_alpha_read(struct add_alpha_attr *a, const char *op, rg_tensor *alpha, bool minus) {
    if (!rgi_check(alpha, op))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, alpha->numel != 1 || rgi_history_of(alpha), op,
                  "argument 'alpha' must be Number, not Tensor");
    if (!elementwise_is_number(alpha) && !rgi_may_read_number(op))
        return false;
    double number = rgi_load_f64(alpha->data, alpha->dtype);
    uint64_t integer = (uint64_t)rgi_load_i64(alpha->data, alpha->dtype);
    a->node = minus ? "SubBackward0" : "AddBackward0";
    a->alpha = minus ? -number : number;
    a->integer = (int64_t)(minus ? -integer : integer);
    a->dtype = alpha->dtype;
    return true;
}

rg_tensor *(rg_add_alpha)(rg_tensor *a, rg_tensor *b, rg_tensor *alpha) {
    struct add_alpha_attr attr = { 0 };
    RG_AS("add");
    return add_alpha_read(&attr, "add", alpha, false) ? RG_APPLY(add_alpha, &attr, a, b) : NULL;
}

rg_tensor *(rg_add_alpha_)(rg_tensor *a, rg_tensor *b, rg_tensor *alpha) {
    struct add_alpha_attr attr = { 0 };
    RG_AS("add_");
    return add_alpha_read(&attr, "add_", alpha, false) ? RG_APPLY_(add_alpha, &attr, a, b) : NULL;
}

rg_tensor *(rg_sub_alpha)(rg_tensor *a, rg_tensor *b, rg_tensor *alpha) {
    struct add_alpha_attr attr = { 0 };
    RG_AS("sub");
    if (!sub_allows("sub", a, b) || !add_alpha_read(&attr, "sub", alpha, true))
        return NULL;
    return RG_APPLY(add_alpha, &attr, a, b);
}

/* ---- over: a / b, with a node named "DivBackward1". Torch gives this name to the node if one of
 *      its own functions divides by a number. (cross_entropy uses this op to divide by the number
 *      of rows) ----------------------------------------------------------------- */

RG_OP(over, .doc = "a / b", .node = "DivBackward1", .n_in = 2, .typing = RG_FLOATED, RG_ELEMENTWISE,
      .shape = rgi_shape_broadcast, .kernel = &k_div,
      .grad = { RG_RULE(RG_IN(1), div_rule_a), RG_RULE(RG_IN(0) | RG_IN(1), div_rule_b) },
      SAMPLES_2("", "z", NULL));

/* ---- division with a rounded quotient ------------------------------------------ */

/* Computes the output with a kernel that divides. Fails if the inputs are integers, `b` has a 0 and
 * the output isn't empty. */
static bool divided_forward(rg_call *c, const rg_kernel *kernel) {
    const rg_tensor *b = c->in[1];
    RG_FAIL_IF(rgi_is_integer(b->dtype) && c->out[0]->numel && k_count(b) < b->numel, c->op->name,
               "ZeroDivisionError");
    return k_run_with(kernel, c->out[0], c->in, NULL);
}

static rg_tensor *divided_rule(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_zeros_like(g);
}

/* ---- div_floor: floor(a / b); ga = gb = 0 -------------------------------------- */

static bool div_floor_forward(rg_call *c) { return divided_forward(c, &k_div_floor); }

RG_OP(div_floor, .doc = "floor(a / b)", .node = "DivBackward2", .n_in = 2, .typing = RG_PROMOTED,
      .exact_divisor = true, RG_ELEMENTWISE, .shape = rgi_shape_broadcast_numbers,
      .forward = div_floor_forward, .grad = { RG_RULE(0, divided_rule), RG_RULE(0, divided_rule) },
      SAMPLES_2("", "z", NULL));

rg_tensor *(rg_div_floor)(rg_tensor *a, rg_tensor *b) {
    return RG_APPLY(div_floor, RG_NO_ATTR, a, b);
}

/* ---- div_trunc: trunc(a / b); ga = gb = 0 -------------------------------------- */

static bool div_trunc_forward(rg_call *c) { return divided_forward(c, &k_div_trunc); }

RG_OP(div_trunc, .doc = "trunc(a / b)", .node = "DivBackward2", .n_in = 2, .typing = RG_PROMOTED,
      .exact_divisor = true, RG_ELEMENTWISE, .shape = rgi_shape_broadcast_numbers,
      .forward = div_trunc_forward, .grad = { RG_RULE(0, divided_rule), RG_RULE(0, divided_rule) },
      SAMPLES_2("", "z", NULL));

rg_tensor *(rg_div_trunc)(rg_tensor *a, rg_tensor *b) {
    return RG_APPLY(div_trunc, RG_NO_ATTR, a, b);
}

/* ---- floor_divide: floor(a / b), without a derivative -------------------------- */

RG_OP(floor_divide, .doc = "floor(a / b)", .node = "NotImplemented", .n_in = 2,
      .typing = RG_PROMOTED, .exact_divisor = true, RG_ELEMENTWISE,
      .shape = rgi_shape_broadcast_numbers, .forward = div_floor_forward,
      .no_grad = "derivative for aten::floor_divide is not implemented: a quotient rounded down "
                 "is flat almost everywhere; rg_div_floor gives zeros",
      SAMPLES_2("", "z", NULL));

rg_tensor *(rg_floor_divide)(rg_tensor *a, rg_tensor *b) {
    return RG_APPLY(floor_divide, RG_NO_ATTR, a, b);
}

rg_tensor *(rg_floor_divide_)(rg_tensor *a, rg_tensor *b) {
    return RG_APPLY_(floor_divide, RG_NO_ATTR, a, b);
}

/* ---- operands: whether the caller gave a or b as a number -------------------------
 * Torch's name of the node of remainder, fmod, pow and xlogy depends on whether an operand is a
 * number. The derivatives of pow and remainder depend on it as well. */

enum operands { TENSOR_NUMBER, TENSOR_TENSOR, NUMBER_TENSOR };

/* The attributes of remainder, fmod, pow and xlogy. If the caller gave b as a number, `number` is
 * its value, and otherwise 0. */
struct operands_attr {
    const char *node;
    enum operands are;
    double number;
};

/* Returns the attributes for a and b. nodes[] holds torch's name of the node for each value of enum
 * operands. */
static struct operands_attr operands_of(const char *const nodes[], const rg_tensor *a,
                                        const rg_tensor *b) {
    enum operands are = TENSOR_TENSOR;
    double number = 0;
    if (elementwise_is_number(b)) {
        are = TENSOR_NUMBER;
        number = rgi_load_f64(b->data, b->dtype);
    } else if (elementwise_is_number(a)) {
        are = NUMBER_TENSOR;
    }
    return (struct operands_attr){ nodes[are], are, number };
}

/* ---- remainder: a - b floor(a / b); ga = g, gb = -g floor(a / b) --------------- */

static bool remainder_forward(rg_call *c) { return divided_forward(c, &k_remainder); }

static rg_tensor *remainder_rule_b(const rg_step *s, rg_tensor *g) {
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, RG_ATTR(s, operands)->are == NUMBER_TENSOR, "remainder",
                  "derivative for aten::remainder is not implemented: torch has none for a "
                  "number's remainder");
    return rg_mul(rg_neg(g), rg_div_floor(rgi_saved(s, 0), rgi_saved(s, 1)));
}

RG_OP(remainder, .doc = "a - b floor(a / b)", RG_NAMED(operands), .n_in = 2, .typing = RG_PROMOTED,
      RG_ELEMENTWISE, .shape = rgi_shape_broadcast_numbers, .forward = remainder_forward,
      .grad = { RG_RULE(0, rgi_rule_same), RG_RULE(RG_IN(0) | RG_IN(1), remainder_rule_b) },
      SAMPLES_2("z", "z", RG_A(operands, "RemainderBackward1", TENSOR_TENSOR, 0)));

static const char *const remainder_nodes[] = { "RemainderBackward0", "RemainderBackward1",
                                               "NotImplemented" };

rg_tensor *(rg_remainder)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(remainder_nodes, a, b);
    return RG_APPLY(remainder, &attr, a, b);
}

rg_tensor *(rg_remainder_)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(remainder_nodes, a, b);
    return RG_APPLY_(remainder, &attr, a, b);
}

/* ---- fmod: a - b trunc(a / b); ga = g, gb = -g trunc(a / b) -------------------- */

static bool fmod_forward(rg_call *c) { return divided_forward(c, &k_fmod); }

static rg_tensor *fmod_rule_b(const rg_step *s, rg_tensor *g) {
    return rg_mul(rg_neg(g), rg_div_trunc(rgi_saved(s, 0), rgi_saved(s, 1)));
}

RG_OP(fmod, .doc = "a - b trunc(a / b)", RG_NAMED(operands), .n_in = 2, .typing = RG_PROMOTED,
      RG_ELEMENTWISE, .shape = rgi_shape_broadcast_numbers, .forward = fmod_forward,
      .grad = { RG_RULE(0, rgi_rule_same), RG_RULE(RG_IN(0) | RG_IN(1), fmod_rule_b) },
      SAMPLES_2("z", "z", RG_A(operands, "FmodBackward1", TENSOR_TENSOR, 0)));

static const char *const fmod_nodes[] = { "FmodBackward0", "FmodBackward1", "FmodBackward1" };

rg_tensor *(rg_fmod)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(fmod_nodes, a, b);
    return RG_APPLY(fmod, &attr, a, b);
}

rg_tensor *(rg_fmod_)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(fmod_nodes, a, b);
    return RG_APPLY_(fmod, &attr, a, b);
}

/* ---- pow: a^b; ga = g b a^(b-1), but 0 where b == 0;
 *      gb = g y ln a, but g 0 where a == 0 and b >= 0 --------------------------- */

static bool pow_shape(rg_call *c) {
    const struct operands_attr *o = RG_ATTR(c, operands);
    if (!rgi_shape_broadcast(c))
        return false;
    if (o->are != TENSOR_NUMBER && !rgi_want_no_bool("pow", c->in[0]))
        return false;
    const rg_dtype dtype = c->in[0]->dtype;
    if (o->are != TENSOR_NUMBER)
        return true;
    RG_FAIL_IF(rgi_is_integer(dtype) && o->number < 0, "pow",
               "Integers to negative integer powers are not allowed.");
    return !rgi_is_widened(dtype) || rgi_number_fits("pow", o->number, dtype);
}

/* Returns the kernel that is made for this exponent, such as k_square for 2, or k_pow if there is
 * none. */
static const rg_kernel *pow_kernel(double exponent) {
    static const struct {
        double exponent;
        const rg_kernel *kernel;
    } own[] = { { 2, &k_square },   { 3, &k_cube },        { 0.5, &k_sqrt },
                { -0.5, &k_rsqrt }, { -1, &k_reciprocal }, { -2, &k_reciprocal_square } };
    for (int i = 0; i < RG_COUNT(own); i++)
        if (exponent == own[i].exponent)
            return own[i].kernel;
    return &k_pow;
}

static bool pow_forward(rg_call *c) {
    const struct operands_attr *o = RG_ATTR(c, operands);
    const rg_kernel *kernel = &k_pow;
    if (o->are == TENSOR_NUMBER && o->number == 1) {
        rgi_copy_elements(c->out[0], c->in[0]);
        return true;
    }
    if (o->are == TENSOR_NUMBER && rgi_is_float(c->out[0]->dtype))
        kernel = pow_kernel(o->number);
    return k_run_with(kernel, c->out[0], c->in, NULL);
}

static rg_tensor *pow_rule_a(const rg_step *s, rg_tensor *g) {
    const struct operands_attr *o = RG_ATTR(s, operands);
    rg_tensor *a = rgi_saved(s, 0);
    if (o->are != TENSOR_NUMBER) {
        rg_tensor *b = rgi_saved(s, 1);
        return rg_where(rg_eq(b, 0), 0, rg_mul(g, rg_mul(rg_pow(a, rg_sub(b, 1)), b)));
    }
    if (o->number == 0)
        return a ? rg_zeros_like(g) : NULL;
    return rg_mul(g, rg_mul(rg_pow(a, o->number - 1), o->number));
}

static rg_tensor *pow_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    rg_tensor *y = rgi_saved_output(s);
    rg_tensor *constant = rg_logical_and(rg_eq(a, 0), rg_ge(b, 0));
    return rg_mul(g, rg_where(constant, 0, rg_mul(y, rg_log(a))));
}

RG_OP(pow, .doc = "a^b", .n_in = 2, RG_NAMED(operands), .typing = RG_PROMOTED, RG_ELEMENTWISE,
      RG_MADE(pow),
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), pow_rule_a),
                RG_RULE(RG_IN(0) | RG_IN(1) | RG_OUTPUT, pow_rule_b) },
      SAMPLES_2("p", "", RG_A(operands, "PowBackward1", TENSOR_TENSOR, 0)));

static const char *const pow_nodes[] = { "PowBackward0", "PowBackward1", "PowBackward2" };

rg_tensor *(rg_pow)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(pow_nodes, a, b);
    return RG_APPLY(pow, &attr, a, b);
}

rg_tensor *(rg_pow_)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(pow_nodes, a, b);
    return RG_APPLY_(pow, &attr, a, b);
}

/* ---- xlogy: a ln b, but 0 where a == 0; ga = g ln b, but 0 where a == 0 and b <= 0;
 *      gb = g a / b ------------------------------------------------------------- */

static rg_tensor *xlogy_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return rg_masked_fill(rg_xlogy(g, b), rg_logical_and(rg_eq(a, 0), rg_le(b, 0)), 0);
}

static rg_tensor *xlogy_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return rg_div(rg_mul(g, a), b);
}

RG_OP(xlogy, .doc = "a ln b, but 0 where a is 0", RG_NAMED(operands), .n_in = 2,
      .typing = RG_FLOATED, RG_ELEMENTWISE, .shape = rgi_shape_broadcast, .kernel = &k_xlogy,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), xlogy_rule_a),
                RG_RULE(RG_IN(0) | RG_IN(1), xlogy_rule_b) },
      SAMPLES_2("", "p", RG_A(operands, "XlogyBackward0", TENSOR_TENSOR, 0)));

static const char *const xlogy_nodes[] = { "XlogyBackward2", "XlogyBackward0", "XlogyBackward1" };

rg_tensor *(rg_xlogy)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(xlogy_nodes, a, b);
    return RG_APPLY(xlogy, &attr, a, b);
}

rg_tensor *(rg_xlogy_)(rg_tensor *a, rg_tensor *b) {
    struct operands_attr attr = operands_of(xlogy_nodes, a, b);
    return RG_APPLY_(xlogy, &attr, a, b);
}

/*
 * test_function.c: ops that a program defines: their features, and the errors for wrong uses.
 * test_rule_checks.c plants mistakes, which rg_function_check must name.
 */
#include "autograd/tools/function.h"
#include "tensor/base.h"
#include "keeps.h"
#include "tests/in_turn.h"
#include "tests/test.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static rg_tensor *input(int64_t n, int64_t m) {
    rg_tensor *x = rg_zeros_dims(RG_DIMS(n, m), RG_FLOAT64);
    for (int64_t i = 0; i < n * m; i++)
        ((double *)rg_data(x))[i] = 0.37 * (double)i - 0.7;
    return rg_requires_grad_(x, true);
}

/* ---- y = x^3 ------------------------------------------------------------------------ */

static bool cube_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_pow(in[0], 3);
    return rg_save_for_backward(ctx, in[0]);
}

static bool cube_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *x = rg_saved_tensor(ctx, 0);
    gin[0] = rg_mul(g[0], rg_mul(3, rg_square(x)));
    return gin[0] != NULL;
}

static rg_function_class cube = { .name = "Cube",
                                  .forward = cube_forward,
                                  .backward = cube_backward };

/* ---- y0 = scale e^x w, y1 = sum x w, y2 = the number of positive x; w may be absent ---- */

typedef struct {
    double scale;
} blend_args;

typedef struct {
    double scale;
    bool weighted;
} blend_state;

static bool blend_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    const blend_args *args = rg_function_args(ctx);
    blend_state *state = rg_function_state(ctx);
    state->scale = args->scale;
    state->weighted = in[1] != RG_NONE;
    rg_tensor *e = rg_mul(rg_exp(in[0]), args->scale);
    rg_tensor *x = in[0];
    out[0] = state->weighted ? rg_mul(e, in[1]) : e;
    out[1] = rg_sum(state->weighted ? rg_mul(x, in[1]) : x);
    out[2] = rg_sum(rg_gt(x, 0));
    return rg_save_for_backward(ctx, in[0], in[1], out[0]);
}

static bool blend_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const blend_state *state = rg_function_state(ctx);
    rg_tensor *x = rg_saved_tensor(ctx, 0);
    rg_tensor *w = rg_saved_tensor(ctx, 1);
    rg_tensor *y = rg_saved_tensor(ctx, 2);
    if (rg_needs_input_grad(ctx, 0)) {
        rg_tensor *of_sum = state->weighted ? rg_mul(g[1], w) : rg_expand_as(g[1], x);
        gin[0] = rg_add(rg_mul(g[0], y), of_sum);
    }
    if (state->weighted && rg_needs_input_grad(ctx, 1))
        gin[1] = rg_add(rg_mul(g[0], rg_mul(rg_exp(x), state->scale)), rg_mul(g[1], x));
    return true;
}

static rg_function_class blend = { .name = "Blend",
                                   .forward = blend_forward,
                                   .backward = blend_backward,
                                   .outputs = 3,
                                   .args_bytes = sizeof(blend_args),
                                   .state_bytes = sizeof(blend_state) };

/* ---- y = x |x|, computed on the elements in memory, as by a program's own loops ------- */

static void square_with_sign(rg_tensor *y, rg_tensor *x, rg_tensor *g) {
    const int64_t n = rg_numel(x);
    for (int64_t i = 0; i < n; i++) {
        if (rg_dtype_of(x) == RG_FLOAT64) {
            const double v = ((double *)rg_data(x))[i];
            ((double *)rg_data(y))[i] = g ? 2 * fabs(v) * ((double *)rg_data(g))[i] : v * fabs(v);
        } else {
            const float v = ((float *)rg_data(x))[i];
            ((float *)rg_data(y))[i] = g ? 2 * fabsf(v) * ((float *)rg_data(g))[i] : v * fabsf(v);
        }
    }
}

static bool by_data_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    rg_tensor *x = rg_contiguous(in[0]);
    out[0] = rg_empty_like(x);
    if (!out[0])
        return false;
    square_with_sign(out[0], x, NULL);
    return rg_save_for_backward(ctx, in[0]);
}

static bool by_data_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *x = rg_contiguous(rg_saved_tensor(ctx, 0));
    rg_tensor *gy = rg_contiguous(g[0]);
    ck_assert(!rg_is_grad_enabled());
    rg_tensor *gx = rg_empty_like(x);
    if (!x || !gy || !gx)
        return false;
    square_with_sign(gx, x, gy);
    gin[0] = gx;
    return true;
}

static rg_function_class by_data = { .name = "ByData",
                                     .forward = by_data_forward,
                                     .backward = by_data_backward,
                                     .once_differentiable = true };

/* y = round(x), whose gradient is zeros that have no history. */
static bool steps_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_round(in[0]);
    return rg_save_for_backward(ctx, in[0]) && out[0];
}

static bool steps_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)g;
    gin[0] = rg_zeros_like(rg_saved_tensor(ctx, 0));
    return gin[0];
}

static rg_function_class steps = { .name = "Steps",
                                   .forward = steps_forward,
                                   .backward = steps_backward };

/* ---- honest ops pass ---------------------------------------------------------------- */

START_TEST(test_honest_ops_pass) {
    ck_ok(rg_function_check(&cube, NULL, RG_LIST(input(2, 3))));
    ck_ok(rg_function_check(&cube, NULL,
                            RG_LIST(rg_requires_grad_(rg_scalar_dtype(1.3, RG_FLOAT64), true))));
    ck_ok(rg_function_check(&cube, NULL, RG_LIST(rg_zeros(0, 3))));
    const blend_args args = { 0.7 };
    ck_ok(rg_function_check(&blend, &args, RG_LIST(input(2, 3), rg_neg(input(2, 3)))));
    ck_ok(rg_function_check(&blend, &args, RG_LIST(input(3, 2), RG_NONE)));
    ck_ok(rg_function_check(&by_data, NULL, RG_LIST(input(4, 2))));
    ck_ok(rg_function_check(&steps, NULL, RG_LIST(input(4, 2))));
}
END_TEST

/* ---- errors -------------------------------------------------------------------------- */

/* The mistake that an op of this file makes in its next calls. */
typedef enum {
    HONEST,
    FAILS_SILENTLY,
    FAILS_ALOUD,
    NO_RESULT,
    WRONG_DTYPE,
    RELEASED_GRADIENT,
    NAN_IN_RESULT,
    DIVIDES_BY_0,
    GIVES_A_PART
} mistake;

static mistake planted;

static bool two_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_sin(in[0]);
    out[1] = rg_cos(in[0]);
    return rg_save_for_backward(ctx, out[0], out[1]);
}

static bool two_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *sin = rg_saved_tensor(ctx, 0), *cos = rg_saved_tensor(ctx, 1);
    if (g[0] != RG_NONE)
        gin[0] = rg_mul(g[0], cos);
    if (g[1] != RG_NONE)
        gin[0] = rg_sub(gin[0] == RG_NONE ? rg_zeros_like(cos) : gin[0], rg_mul(g[1], sin));
    return true;
}

/* ---- the functions of a context ----------------------------------------------------- */

static const char *asked;

static bool asking_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    ck_assert_ptr_null(rg_function_args(ctx));
    ck_assert_ptr_null(rg_function_state(ctx));
    ck_assert(rg_is_grad_enabled() == false);
    ck_fails(rg_needs_input_grad(ctx, 2), RG_INDEX_ERROR, "there is no input 2 of 2");
    ck_fails(rg_saved_tensor(ctx, 0), RG_RUNTIME_ERROR, "saved_tensor is for backward");
    ck_fails(rg_mark_non_differentiable(ctx, in[0]), RG_VALUE_ERROR, "takes an output");
    ck_fails(rg_mark_non_differentiable(ctx, NULL), RG_TYPE_ERROR, "expected a tensor");
    ck_fails(
        rg_save_for_backward(ctx, in[0], in[0], in[0], in[0], in[0], in[0], in[0], in[0], in[0]),
        RG_VALUE_ERROR, "saves up to 8 tensors, but got 9");
    out[0] = rg_mul(in[0], in[1]);
    ck_fails(rg_save_for_backward_list(ctx, (rg_list){ .n = -1 }), RG_TYPE_ERROR,
             "expected a list");
    ck_ok(rg_save_for_backward(ctx, in[1], RG_NONE));
    ck_fails(rg_save_for_backward(ctx, in[0]), RG_RUNTIME_ERROR, "to be called once");
    asked = rg_needs_input_grad(ctx, 0) ? rg_needs_input_grad(ctx, 1) ? "both" : "first" : "other";
    return true;
}

static bool asking_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    ck_assert(rg_needs_input_grad(ctx, 0) && !rg_needs_input_grad(ctx, 1));
    ck_assert(rg_saved_tensor(ctx, 1) == RG_NONE);
    ck_fails(rg_saved_tensor(ctx, 2), RG_INDEX_ERROR, "no tensor 2 of 2 that were saved");
    ck_fails(rg_saved_tensor(ctx, -1), RG_INDEX_ERROR, "no tensor -1 of 2");
    ck_fails(rg_save_for_backward(ctx, g[0]), RG_RUNTIME_ERROR, "in forward");
    ck_fails(rg_mark_non_differentiable(ctx, g[0]), RG_VALUE_ERROR, "in forward");
    gin[0] = rg_mul(g[0], rg_saved_tensor(ctx, 0));
    return true;
}

START_TEST(test_contexts) {
    static rg_function_class asking = { .name = "Asking",
                                        .forward = asking_forward,
                                        .backward = asking_backward };
    rg_tensor *x = input(2, 2), *w = rg_detach(input(2, 2));
    rg_tensor *y = rg_function_apply(&asking, NULL, x, w);
    ck_ok(y);
    ck_assert_str_eq(asked, "first");
    ck_assert_str_eq(rg_grad_fn(y), "AskingBackward");
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert(rg_equal(rg_grad_of(x), w));
    /* NULL in place of a context is refused. */
    ck_fails(rg_saved_tensor(NULL, 0), RG_TYPE_ERROR, "expected a context but got NULL");
    ck_fails(rg_save_for_backward(NULL, x), RG_TYPE_ERROR, "expected a context but got NULL");
    ck_fails(rg_needs_input_grad(NULL, 0), RG_TYPE_ERROR, "expected a context but got NULL");
    ck_fails(rg_mark_non_differentiable(NULL, x), RG_TYPE_ERROR, "expected a context");
    ck_fails(rg_function_args(NULL), RG_TYPE_ERROR, "expected a context but got NULL");
    ck_fails(rg_function_state(NULL), RG_TYPE_ERROR, "expected a context but got NULL");
}
END_TEST

static bool failing_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    if (planted == FAILS_SILENTLY)
        return false;
    if (planted == FAILS_ALOUD)
        return rg_fail(RG_VALUE_ERROR, "Failing", "expected %d rows", 3);
    if (planted != NO_RESULT)
        out[0] = rg_matmul(in[0], rg_ones(7));
    return true;
}

static bool failing_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    if (planted == WRONG_DTYPE)
        gin[0] = rg_to(g[0], RG_INT64);
    if (planted == RELEASED_GRADIENT) {
        RG_SCOPE();
        gin[0] = rg_mul(g[0], 2);
    }
    return planted == WRONG_DTYPE || planted == RELEASED_GRADIENT;
}

/* A class is copied at its first use, so that a backward that is set later is never called. */
START_TEST(test_class_that_changes) {
    static rg_function_class changing = { .name = "Changing",
                                          .forward = failing_forward,
                                          .backward = failing_backward };
    rg_tensor *x = input(2, 3);
    planted = FAILS_SILENTLY;
    rg_function_class first = changing;
    ck_fails(rg_function_apply(&changing, NULL, x), RG_RUNTIME_ERROR, "forward failed");
    first.row = changing.row;
    changing.backward = NULL;
    ck_fails(rg_function_apply(&changing, NULL, x), RG_VALUE_ERROR,
             "Changing: the class has changed since its first use");
    changing = first;
    changing.once_differentiable = true;
    ck_fails(rg_function_check(&changing, NULL, RG_LIST(x)), RG_VALUE_ERROR, "has changed");
    changing = first;
    ck_fails(rg_function_apply(&changing, NULL, x), RG_RUNTIME_ERROR, "forward failed");
}
END_TEST

START_TEST(test_no_check_in_inference_mode) {
    rg_tensor *x = input(2, 3);
    RG_INFERENCE_MODE();
    ck_fails(rg_function_check(&cube, NULL, RG_LIST(x)), RG_RUNTIME_ERROR,
             "function_check: can't check gradients in inference mode");
}
END_TEST

START_TEST(test_failures) {
    static rg_function_class failing = { .name = "Failing",
                                         .forward = failing_forward,
                                         .backward = failing_backward };
    static rg_function_class nameless = { .forward = failing_forward };
    static rg_function_class many = { .name = "Many", .forward = cube_forward, .outputs = 9 };
    static rg_function_class half_made = { .name = "HalfMade",
                                           .forward = cube_forward,
                                           .outputs = 2 };
    rg_tensor *x = input(2, 3), *out[8];
    planted = FAILS_SILENTLY;
    ck_fails(rg_function_apply(&failing, NULL, x), RG_RUNTIME_ERROR,
             "Failing: forward failed, and said nothing");
    planted = FAILS_ALOUD;
    ck_fails(rg_function_apply(&failing, NULL, x), RG_VALUE_ERROR, "Failing: expected 3 rows");
    planted = NO_RESULT;
    ck_fails(rg_function_apply(&failing, NULL, x), RG_RUNTIME_ERROR, "forward made no output 0");
    ck_fails(rg_function_apply_many(&half_made, NULL, RG_LIST(x), out), RG_RUNTIME_ERROR,
             "HalfMade: forward made no output 1");
    ck_assert(!out[0] && !out[1]);
    planted = HONEST;
    ck_fails(rg_function_apply(&failing, NULL, x), RG_RUNTIME_ERROR, "cannot be multiplied");
    ck_fails(rg_function_apply(&nameless, NULL, x), RG_VALUE_ERROR, "a class needs a name");
    ck_fails(rg_function_apply(&many, NULL, x), RG_VALUE_ERROR,
             "a class has up to 8 outputs, but this says 9");
    ck_fails(rg_function_apply(NULL, NULL, x), RG_TYPE_ERROR, "expected a class but got NULL");
    ck_fails(rg_function_apply(&blend, NULL, x, x), RG_TYPE_ERROR, "expected args but got NULL");
    ck_fails(rg_function_apply(&cube, &(int){ 1 }, x), RG_TYPE_ERROR,
             "Cube: got args, but its class has no args_bytes");
    ck_fails(rg_function_apply(&cube, NULL, rg_reshape(x, 7)), RG_RUNTIME_ERROR, "reshape");
    ck_fails(rg_function_apply_many(&cube, NULL, (rg_list){ 1, NULL }, out), RG_TYPE_ERROR,
             "expected a list");
    ck_fails(rg_function_apply_many(&cube, NULL, (rg_list){ 1, &x }, NULL), RG_TYPE_ERROR,
             "room for the outputs");
    rg_tensor *lots[17];
    for (int i = 0; i < 17; i++)
        lots[i] = x;
    ck_fails(rg_function_apply_list(&cube, NULL, (rg_list){ 17, lots }), RG_VALUE_ERROR,
             "takes up to 16 inputs, but got 17");
    ck_fails(rg_function_check(NULL, NULL, RG_LIST(x)), RG_TYPE_ERROR, "expected a class");
    ck_fails(rg_function_check(&cube, NULL, RG_LIST(rg_arange(3))), RG_VALUE_ERROR,
             "at least one input of floating point");
}
END_TEST

/* An output that shares memory with an input, and views of the output, refuse writes. The error is
 * torch's, and names the cause. */
static bool given_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = in[0];
    return true;
}
static bool part_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_narrow(in[0], 0, 0, 1);
    return out[0] != NULL;
}
START_TEST(test_writes_to_an_input_as_output) {
    static rg_function_class ops[] = {
        { .name = "Given", .forward = given_forward, .backward = cube_backward },
        { .name = "Part", .forward = part_forward, .backward = cube_backward }
    };
    static const char cause[] = "This view was created inside a custom Function (or because an "
                                "input was returned as-is)";
    for (int i = 0; i < 2; i++) {
        char of_op[100], of_view[100];
        snprintf(of_op, sizeof of_op, "mul_: Output 0 of %s is a view and is being", ops[i].name);
        snprintf(of_view, sizeof of_view, "mul_: Output 0 of View is a view and is being");
        rg_tensor *x = input(2, 3), *y = rg_function_apply(&ops[i], NULL, x);
        ck_fails(rg_mul_(y, 2), RG_RUNTIME_ERROR, of_op);
        ck_fails(rg_mul_(y, 2), RG_RUNTIME_ERROR, cause);
        ck_fails(rg_mul_(rg_view(y, -1), 2), RG_RUNTIME_ERROR, of_view);
        ck_fails(rg_mul_(rg_view(y, -1), 2), RG_RUNTIME_ERROR, cause);
        rg_tensor *base = rg_mul(x, 1);
        y = rg_function_apply(&ops[i], NULL, base);
        ck_ok(rg_mul_(base, 2));
        ck_fails(rg_sum(y), RG_RUNTIME_ERROR, "its base or another view of its base has been");
        ck_fails(rg_sum(y), RG_RUNTIME_ERROR, cause);
    }
}
END_TEST

/* The forward counts its runs in its state, which must be 0 at the beginning of each call. */
static bool counting_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    int64_t *state = rg_function_state(ctx);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(state[i], 0);
    state[4] = ++state[0];
    out[0] = rg_mul(in[0], (double)state[0]);
    return out[0];
}
static bool counting_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(g[0], (double)*(int64_t *)rg_function_state(ctx));
    return true;
}
static rg_function_class counting = { .name = "Counting",
                                      .forward = counting_forward,
                                      .backward = counting_backward,
                                      .state_bytes = 5 * sizeof(int64_t) };

/* ---- the graph ---------------------------------------------------------------------- */

START_TEST(test_failures_in_backward) {
    static rg_function_class failing = { .name = "Failing",
                                         .forward = cube_forward,
                                         .backward = failing_backward };
    static rg_function_class forward_only = { .name = "ForwardOnly", .forward = cube_forward };
    rg_tensor *x = input(2, 3);
    planted = HONEST;
    ck_fails(rg_backward(rg_sum(rg_function_apply(&failing, NULL, x))), RG_RUNTIME_ERROR,
             "Failing: backward failed, and said nothing");
    planted = WRONG_DTYPE;
    ck_fails(rg_backward(rg_sum(rg_function_apply(&failing, NULL, x))), RG_RUNTIME_ERROR,
             "backward made a gradient of torch.int64 for input 0");
    planted = RELEASED_GRADIENT;
    ck_fails(rg_backward(rg_sum(rg_function_apply(&failing, NULL, x))), RG_RELEASED,
             "Failing: tensor released with its scope");
    ck_assert(rg_grad_of(x) == RG_NONE);
    ck_fails(rg_function_apply(&forward_only, NULL, x), RG_NOT_IMPLEMENTED,
             "You must implement either the backward or vjp method");
    ck_ok(rg_function_apply(&forward_only, NULL, rg_detach(x)));
    /* Saved tensors are released by the first backward, and must not be written to before it. */
    rg_tensor *y = rg_function_apply(&cube, NULL, x);
    ck_ok(rg_backward(rg_sum(y)));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "backward through the graph a second time");
    y = rg_function_apply(&counting, NULL, x);
    ck_ok(rg_backward(rg_sum(y)));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "backward through the graph a second time");
    rg_tensor *z = rg_mul(x, 2);
    y = rg_function_apply(&cube, NULL, z);
    ck_ok(rg_add_(z, 1));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "modified by an inplace operation");
}
END_TEST

/* Returns the gradient without its first dim. */
static bool lesser_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_select(g[0], 0, 0);
    return gin[0] != NULL;
}

/* A gradient may have more dims than its input, but not fewer, whatever the sizes are. */
START_TEST(test_gradients_of_fewer_dims) {
    static rg_function_class lesser = { .name = "Lesser",
                                        .forward = cube_forward,
                                        .backward = lesser_backward };
    static const char *const said[] = { "got [3] but expected shape compatible with [1, 3]",
                                        "got [1] but expected shape compatible with [1, 1]",
                                        "got [3] but expected shape compatible with [3, 3]",
                                        "got [1, 2] but expected shape compatible with [1, 1, 2]" };
    rg_tensor *x[] = { input(1, 3), input(1, 1), input(3, 3), rg_reshape(input(1, 2), 1, 1, 2) };
    for (int i = 0; i < 4; i++)
        ck_fails(rg_backward(rg_sum(rg_function_apply(&lesser, NULL, x[i]))), RG_RUNTIME_ERROR,
                 said[i]);
}
END_TEST

START_TEST(test_differentiated_once) {
    rg_tensor *x = input(2, 3);
    rg_tensor *y = rg_function_apply(&by_data, NULL, x);
    rg_tensor *g = rg_grad(rg_sum(y), x, .create_graph = true);
    ck_ok(g);
    ck_fails(rg_grad(rg_sum(g), x), RG_NOT_IMPLEMENTED,
             "trying to differentiate twice a function that was marked with @once_differentiable");
}
END_TEST

static bool apart_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_square(in[0]);
    out[1] = rg_neg(in[0]);
    return rg_save_for_backward(ctx, in[0]) && rg_mark_non_differentiable(ctx, out[1]);
}

static bool apart_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(rg_mul(g[0], 2), rg_saved_tensor(ctx, 0));
    return true;
}

START_TEST(test_outputs_without_gradient) {
    static rg_function_class apart = {
        .name = "Apart", .forward = apart_forward, .backward = apart_backward, .outputs = 2
    };
    rg_tensor *x = input(2, 3), *y[2];
    ck_ok(rg_function_apply_many(&apart, NULL, RG_LIST(x), y));
    ck_assert(rg_requires_grad(y[0]) && !rg_requires_grad(y[1]));
    ck_ok(rg_function_check(&apart, NULL, RG_LIST(x)));
    const blend_args args = { 2 };
    rg_tensor *three[3];
    ck_ok(rg_function_apply_many(&blend, &args, RG_LIST(x, RG_NONE), three));
    ck_assert(rg_requires_grad(three[1]) && !rg_requires_grad(three[2]));
}
END_TEST

static bool same_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = planted == HONEST ? in[0] : rg_select(in[0], 0, 1);
    return true;
}

static bool same_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = planted == HONEST ? rg_neg(g[0]) : rg_mul(rg_ones_like(g[0]), 3);
    return true;
}

/* Forward may return an input or a view of one. The history of the output is the op nevertheless,
 * and the output can't be written to. */
START_TEST(test_inputs_as_outputs) {
    static rg_function_class same = { .name = "Reverse",
                                      .forward = same_forward,
                                      .backward = same_backward };
    planted = HONEST;
    rg_tensor *x = input(2, 3);
    rg_tensor *y = rg_function_apply(&same, NULL, x);
    ck_assert(y != x && rg_data(y) == rg_data(x));
    ck_assert_str_eq(rg_grad_fn(y), "ReverseBackward");
    ck_assert_str_eq(rg_grad_fn(x), "");
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert(rg_equal(rg_grad_of(x), rg_neg(rg_ones_like(x))));
    rg_tensor *z = rg_mul(x, 2);
    y = rg_function_apply(&same, NULL, z);
    ck_fails(rg_mul_(y, 2), RG_RUNTIME_ERROR, "");
    planted = GIVES_A_PART;
    y = rg_function_apply(&same, NULL, z);
    ck_assert_int_eq(rg_ndim(y), 1);
    ck_fails(rg_mul_(y, 2), RG_RUNTIME_ERROR, "");
}
END_TEST

/* ---- ops, hooks and observers ------------------------------------------------------- */

static rg_tensor *twice(rg_tensor *g, void *context) {
    *(int *)context += 1;
    return rg_mul(g, 2);
}

static bool odd_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_clone(in[0]);
    if (planted == NAN_IN_RESULT)
        ((double *)rg_data(out[0]))[1] = NAN;
    return true;
}

static bool odd_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_clone(g[0]);
    ((double *)rg_data(gin[0]))[1] = INFINITY;
    return true;
}

START_TEST(test_those_who_look_on) {
    static rg_function_class odd = { .name = "Odd",
                                     .forward = odd_forward,
                                     .backward = odd_backward };
    rg_tensor *x = input(2, 3);
    int calls = 0;
    rg_tensor *y = rg_function_apply(&cube, NULL, x);
    ck_assert(rg_register_hook(y, twice, &calls) >= 0);
    ck_ok(rg_retain_grad(y));
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert_int_eq(calls, 1);
    ck_assert(rg_equal(rg_grad_of(y), rg_full_like(y, 2.)));
    ck_assert(rg_allclose(rg_grad_of(x), rg_mul(rg_square(x), 6.), 1e-12, 0));
    ck_assert_ptr_nonnull(
        strstr(rg_graph_dot(rg_function_apply(&cube, NULL, x)), "CubeBackward\\n[2, 3]"));
    rg_set_profiling(true);
    ck_ok(rg_backward(rg_sum(rg_function_apply(&cube, NULL, x))));
    rg_set_profiling(false);
    ck_assert_int_eq(rg_profile_cost("Cube").calls, 1);
    ck_assert_int_eq(rg_profile_cost("Cube, backward").calls, 1);
    rg_set_detect_anomaly(true);
    planted = NAN_IN_RESULT;
    ck_fails(rg_function_apply(&odd, NULL, x), RG_RUNTIME_ERROR, "Odd");
    planted = HONEST;
    ck_fails(rg_backward(rg_sum(rg_function_apply(&odd, NULL, x))), RG_RUNTIME_ERROR, "Odd");
    rg_set_detect_anomaly(false);
}
END_TEST

/* A hook of one output is called once, with that output's gradient. */
static rg_tensor *sees_once(rg_tensor *g, void *context) {
    rg_tensor **seen = context;
    ck_assert_ptr_null(*seen);
    *seen = rg_keep(rg_clone(g));
    return RG_NONE;
}

static void forget(rg_tensor *seen[]) {
    for (int k = 0; k < 2; k++) {
        rg_drop(seen[k]);
        seen[k] = NULL;
    }
}

/* The gradient of each of several outputs may be requested, alone and with others. */
START_TEST(test_gradients_of_outputs) {
    static rg_function_class two = {
        .name = "Two", .forward = two_forward, .backward = two_backward, .outputs = 2
    };
    planted = HONEST;
    rg_tensor *x = input(2, 3), *y[2], *g[3];
    ck_ok(rg_function_apply_many(&two, NULL, RG_LIST(x), y));
    rg_tensor *seen[] = { NULL, NULL };
    for (int k = 0; k < 2; k++)
        ck_assert_int_ge(rg_register_hook(y[k], sees_once, &seen[k]), 0);
    rg_tensor *z = rg_sum(rg_mul(rg_mul(y[0], 2), rg_mul(y[1], 3)));
    ck_ok(rg_grad(z, x, .retain_graph = true));
    for (int k = 0; k < 2; k++) {
        ck_assert(rg_equal(seen[k], rg_mul(rg_detach(y[1 - k]), 6)));
    }
    for (int k = 1; k >= 0; k--) {
        forget(seen);
        ck_assert(rg_equal(rg_grad(z, y[k], .retain_graph = true), rg_mul(rg_detach(y[1 - k]), 6)));
    }
    rg_tensor *both[] = { y[1], x, y[0] };
    forget(seen);
    ck_ok(rg_grad_many(1, &z, NULL, 3, both, g, (rg_backward_options){ .gradient = RG_NONE }));
    ck_assert(rg_equal(g[0], rg_mul(rg_detach(y[0]), 6)));
    ck_assert(rg_equal(g[2], rg_mul(rg_detach(y[1]), 6)));
    forget(seen);
}
END_TEST

/* ---- the largest numbers of inputs and outputs -------------------------------------- */

enum { MOST_IN = 16, MOST_SAVED = 8, MOST_OUT = 8 };

typedef struct {
    int kept;
    double factor;
} most_state;

/* The number of saved intermediate results, and whether the class has a state. */
typedef struct {
    int saved, has_state;
} most_args;

/* y[k] = factor x[2 k]^2 x[2 k + 1], with x[2 k] x[2 k + 1] saved as an intermediate result */
static bool most_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    most_state *state = rg_function_state(ctx);
    rg_tensor *saved[MOST_SAVED + 1];
    const most_args *args = rg_function_args(ctx);
    if (state)
        *state = (most_state){ 77, 3 };
    for (int k = 0; k < MOST_OUT; k++) {
        saved[k] = rg_mul(in[2 * k], in[2 * k + 1]);
        out[k] = rg_mul(rg_mul(in[2 * k], saved[k]), 3);
    }
    saved[MOST_SAVED] = in[0];
    ck_fails(rg_save_for_backward_list(ctx, (rg_list){ MOST_SAVED + 1, saved }), RG_VALUE_ERROR,
             "saves up to 8 tensors, but got 9");
    return rg_save_for_backward_list(ctx, (rg_list){ args->saved, saved });
}

static bool most_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const most_state *state = rg_function_state(ctx);
    const most_args *args = rg_function_args(ctx);
    char said[80];
    ck_assert(!args->has_state == !state && (!state || state->kept == 77));
    const double factor = args->has_state ? state->factor : 3;
    snprintf(said, sizeof said, "saved_tensor: there is no tensor %d of %d that were saved",
             args->saved, args->saved);
    ck_fails(rg_saved_tensor(ctx, args->saved), RG_INDEX_ERROR, said);
    for (int k = 0; k < args->saved; k++)
        gin[2 * k] = rg_mul(rg_mul(g[k], rg_saved_tensor(ctx, k)), 2 * factor);
    return true;
}

typedef struct {
    rg_function_class *cls;
    most_args args;
    rg_tensor *in[MOST_IN];
} most_step;

static void apply_most(void *context) {
    most_step *s = context;
    rg_tensor *out[MOST_OUT], *sum = rg_scalar_dtype(0, RG_FLOAT64);
    for (int i = 0; i < MOST_IN; i++)
        rg_set_grad(s->in[i], RG_NONE);
    ck_ok(rg_function_apply_many(s->cls, &s->args, (rg_list){ MOST_IN, s->in }, out));
    for (int k = 0; k < s->args.saved; k++)
        sum = rg_add(sum, rg_mul(rg_sum(out[k]), k + 1));
    ck_ok(rg_backward(sum));
}

/* There are 16 inputs, 8 outputs and 8 intermediate results. A state counts as an intermediate
 * result, so the class with a state has only 7 others. */
START_TEST(test_most_of_everything) {
    static rg_function_class classes[2] = {
        { .name = "Most",
          .forward = most_forward,
          .backward = most_backward,
          .outputs = MOST_OUT,
          .args_bytes = sizeof(most_args),
          .once_differentiable = true },
        { .name = "MostWithState",
          .forward = most_forward,
          .backward = most_backward,
          .outputs = MOST_OUT,
          .args_bytes = sizeof(most_args),
          .state_bytes = sizeof(most_state),
          .once_differentiable = true },
    };
    for (int c = 0; c < 2; c++) {
        most_step s = { .cls = &classes[c], .args = { MOST_SAVED - c, c } };
        for (int i = 0; i < MOST_IN; i++)
            s.in[i] = rg_requires_grad_(rg_add(rg_detach(input(2, 2)), 0.1 * i + 1), i % 2 == 0);
        rg_replay *replay = rg_record(apply_most, &s);
        ck_ok(replay);
        for (int run = 0; run < 3; run++) {
            RG_NO_GRAD();
            for (int i = 0; i < MOST_IN; i++) {
                rg_tensor *slope = rg_mul(rg_mul(s.in[i], s.in[i | 1]), 6 * (i / 2 + 1));
                rg_tensor *g = rg_grad_of(s.in[i]);
                if (i / 2 >= s.args.saved)
                    continue;
                ck_assert(i % 2 ? g == RG_NONE : rg_allclose(g, slope, 1e-12, 0));
            }
            for (int i = 0; i < MOST_IN; i++)
                ck_ok(rg_mul_(s.in[i], 1.1));
            ck_ok(rg_replay_run(replay));
        }
        rg_replay_free(replay);
        s.args.saved = MOST_SAVED;
        rg_tensor *out[MOST_OUT];
        if (c == 1)
            ck_fails(rg_function_apply_many(s.cls, &s.args, (rg_list){ MOST_IN, s.in }, out),
                     RG_VALUE_ERROR,
                     "MostWithState: its inputs, intermediate results and state are up to 24 "
                     "together, but got 25");
    }
}
END_TEST

/* ---- replay ------------------------------------------------------------------------- */

typedef struct {
    rg_tensor *x, *w, *loss;
    bool second_order;
} replayed;

static rg_replay *run_in_turn;

static void replayed_step(void *context) {
    replayed *r = context;
    const blend_args args = { 0.5 };
    rg_tensor *y[3];
    rg_function_apply_many(&blend, &args, RG_LIST(rg_function_apply(&cube, NULL, r->x), r->w), y);
    rg_tensor *loss = rg_add(rg_sum(rg_square(y[0])), y[1]);
    rg_set_grad(r->w, RG_NONE);
    if (r->second_order)
        loss = rg_sum(rg_square(
            rg_grad(rg_sum(rg_function_apply(&cube, NULL, r->w)), r->w, .create_graph = true)));
    rg_backward(loss);
    r->loss = rg_keep(loss);
}

START_TEST(test_replay) {
    for (int second_order = 0; second_order < 2; second_order++) {
        replayed r = { rg_detach(input(2, 3)), rg_requires_grad_(rg_detach(input(2, 3)), true),
                       NULL, second_order };
        rg_replay *replay = rg_record(replayed_step, &r);
        ck_ok(replay);
        rg_tensor *loss = r.loss;
        for (int run = 0; run < 3; run++) {
            RG_SCOPE();
            RG_NO_GRAD();
            ck_ok(rg_mul_(r.x, 0.9));
            ck_ok(rg_mul_(r.w, 1.1));
            ck_ok(rg_replay_run(replay));
            rg_tensor *g = rg_clone(rg_grad_of(r.w));
            const double replayed_loss = rg_item(loss);
            {
                RG_ENABLE_GRAD();
                replayed_step(&r);
            }
            ck_assert_double_eq(rg_item(r.loss), replayed_loss);
            ck_assert(rg_equal(g, rg_grad_of(r.w)));
            rg_drop(r.loss);
        }
        rg_replay_free(replay);
        rg_drop(loss);
    }
}
END_TEST

/* A step with create_graph can't be recorded if the op's backward reads numbers from a state or
 * from elements in memory. */
static void second_of_state(void *context) {
    const blend_args args = { 0.5 };
    rg_tensor *x = context;
    rg_tensor *y = rg_function_apply(&blend, &args, x, RG_NONE);
    rg_grad(rg_sum(y), x, .create_graph = true);
}

/* An op does otherwise in a repetition than in the recording: it makes or saves a tensor of another
 * shape or dtype, saves more or fewer tensors, or returns a gradient of another shape. */
typedef enum {
    GROWS,
    WIDENS,
    SAVES_MORE,
    SAVES_NONE,
    SAVES_LONGER,
    SAVES_NO_FLAG, /* A flag and RG_NONE are both 0-d bools, but a repetition tells them apart. */
    SAVES_NOTHING,
    SHRINKS_BACK,
    N_WAYS
} another_way;

static another_way way;
static int forwards, backwards;

static bool turns_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    const bool again = forwards++ > 0;
    rg_tensor *x = in[0];
    out[0] = rg_mul(x, 2);
    switch (way) {
    case GROWS: out[0] = rg_ones(forwards); break;
    case WIDENS: out[0] = rg_to(x, again ? RG_FLOAT32 : RG_FLOAT64); break;
    case SAVES_MORE:
        return again ? rg_save_for_backward(ctx, x, rg_mul(x, 3)) : rg_save_for_backward(ctx, x);
    case SAVES_NONE: return rg_save_for_backward(ctx, again ? RG_NONE : rg_mul(x, 3));
    case SAVES_LONGER: return rg_save_for_backward(ctx, rg_ones(forwards));
    case SAVES_NO_FLAG: return rg_save_for_backward(ctx, again ? RG_NONE : rg_gt(rg_sum(x), 0));
    case SAVES_NOTHING: return again || rg_save_for_backward(ctx, x);
    default: break;
    }
    return rg_save_for_backward(ctx, x);
}

static bool turns_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = backwards++ ? rg_unsqueeze(g[0], 0) : rg_mul(g[0], 2);
    return gin[0] != NULL;
}

static void turning(void *x) {
    static rg_function_class turns = { .name = "Turns",
                                       .forward = turns_forward,
                                       .backward = turns_backward };
    rg_tensor *y = rg_function_apply(&turns, NULL, (rg_tensor *)x);
    if (way == SHRINKS_BACK)
        rg_grad(rg_sum(y), x);
}

static void second_by_data(void *x) {
    rg_grad(rg_sum(rg_function_apply(&by_data, NULL, (rg_tensor *)x)), x, .create_graph = true);
}

START_TEST(test_replay_refuses) {
    rg_tensor *x = input(2, 3);
    ck_fails(rg_record(second_by_data, x), RG_NOT_IMPLEMENTED,
             "ByData: can't be part of a recorded step");
    ck_fails(rg_record(second_of_state, x), RG_NOT_IMPLEMENTED,
             "Blend: can't be part of a recorded step");
    rg_tensor *const inputs[] = { x, rg_detach(x) };
    for (way = 0; way < N_WAYS; way++)
        for (int i = 0; i < (way == SHRINKS_BACK ? 1 : 2); i++) {
            const int64_t live = rg_live_tensors();
            forwards = 0;
            backwards = 0;
            rg_replay *replay = rg_record(turning, inputs[i]);
            ck_ok(replay);
            ck_fails(rg_replay_run(replay), RG_RUNTIME_ERROR,
                     "the recorded step has taken another way");
            rg_replay_free(replay);
            ck_assert_int_eq(rg_live_tensors(), live);
        }
}
END_TEST

/* Forward returns its input, so the output of a recording lies in the input's memory. */
static void same_step(void *context) {
    static rg_function_class same = { .name = "Same",
                                      .forward = same_forward,
                                      .backward = same_backward };
    replayed *r = context;
    rg_set_grad(r->w, RG_NONE);
    r->loss = rg_keep(rg_sum(rg_function_apply(&same, NULL, r->w)));
    rg_backward(r->loss);
}

/* The result depends on whether a gradient is wanted, also in a run of a recording. */
static bool wanting_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_mul(in[0], rg_needs_input_grad(ctx, 0) ? 2 : 3);
    return out[0] != NULL;
}

static bool wanting_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 2);
    return gin[0] != NULL;
}

static void wanting_step(void *context) {
    static rg_function_class wanting = { .name = "Wanting",
                                         .forward = wanting_forward,
                                         .backward = wanting_backward };
    replayed *r = context;
    r->loss = rg_keep(rg_sum(rg_function_apply(&wanting, NULL, r->w)));
    r->x = rg_keep(rg_sum(rg_function_apply(&wanting, NULL, rg_detach(r->w))));
}

static void cube_and_drop(void *x) { rg_function_apply(&cube, NULL, x); }

/* A run of a recording writes to results that no tensor of the program holds. */
START_TEST(test_recordings_hold_results) {
    rg_tensor *x = rg_detach(input(2, 3)), *others[40];
    rg_replay *replay = rg_record(cube_and_drop, x);
    ck_ok(replay);
    for (int i = 0; i < RG_COUNT(others); i++)
        others[i] = rg_ones_like(x);
    ck_ok(rg_replay_run(replay));
    for (int i = 0; i < RG_COUNT(others); i++)
        ck_assert_msg(rg_equal(others[i], rg_ones_like(x)), "tensor %d", i);
    rg_replay_free(replay);
}
END_TEST

START_TEST(test_replay_of_what_is_wanted) {
    replayed r = { .w = input(2, 3) };
    rg_replay *replay = rg_record(wanting_step, &r);
    ck_ok(replay && rg_replay_run(replay));
    const double sum = rg_item(rg_sum(rg_detach(r.w)));
    ck_assert_double_eq_tol(rg_item(r.loss), 2 * sum, 1e-12);
    ck_assert_double_eq_tol(rg_item(r.x), 3 * sum, 1e-12);
    rg_drop(r.loss);
    rg_drop(r.x);
    rg_replay_free(replay);
}
END_TEST

static bool run_again(void) { return rg_replay_run(run_in_turn); }

static bool second_alone_forward(rg_function_context *ctx, rg_tensor *const in[],
                                 rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_add(rg_floor(in[0]), in[1]);
    return out[0] != NULL;
}

static bool second_alone_backward(rg_function_context *ctx, rg_tensor *const g[],
                                  rg_tensor *gin[]) {
    (void)ctx;
    gin[1] = g[0];
    return true;
}

/* y = sum a b; its gradients are the inputs themselves. */
static bool bare_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_sum(rg_mul(in[0], in[1]));
    return rg_save_for_backward(ctx, in[0], in[1]);
}

static bool bare_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)g;
    if (planted == DIVIDES_BY_0)
        gin[0] = rg_div(rg_saved_tensor(ctx, 1), rg_zeros_like(rg_saved_tensor(ctx, 1)));
    for (int i = planted == DIVIDES_BY_0; i < 2; i++)
        gin[i] = rg_saved_tensor(ctx, 1 - i);
    return true;
}

/* Backward may return a saved tensor as a gradient, which outlives the graph. If an op that
 * backward calls makes infinity, anomaly mode reports the class. */
START_TEST(test_saved_values_as_gradients) {
    static rg_function_class bare = { .name = "Bare",
                                      .forward = bare_forward,
                                      .backward = bare_backward };
    rg_tensor *a = input(2, 3), *b = rg_requires_grad_(rg_add(rg_detach(a), 3), true);
    rg_tensor *was_a = rg_clone(rg_detach(a)), *was_b = rg_clone(rg_detach(b));
    planted = HONEST;
    for (int times = 1; times <= 3; times++) {
        RG_SCOPE();
        ck_ok(rg_backward(rg_function_apply(&bare, NULL, a, b)));
        ck_assert(rg_allclose(rg_grad_of(a), rg_mul(was_b, times), 1e-12, 0));
        ck_assert(rg_allclose(rg_grad_of(b), rg_mul(was_a, times), 1e-12, 0));
    }
    ck_assert(rg_equal(rg_detach(a), was_a) && rg_equal(rg_detach(b), was_b));
    rg_tensor *y = rg_function_apply(&bare, NULL, a, b);
    planted = DIVIDES_BY_0;
    rg_set_detect_anomaly(true);
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "Bare: the first inf arose backward in");
    rg_set_detect_anomaly(false);
    planted = HONEST;
}
END_TEST

/* After a write to one of an op's outputs, the write is the history of that output. */
START_TEST(test_writes_to_outputs) {
    const blend_args args = { 0.5 };
    rg_tensor *x = input(2, 3), *w = input(2, 3), *y[3], *want;
    ck_ok(rg_function_apply_many(&blend, &args, RG_LIST(x, w), y));
    want = rg_grad(rg_mul(rg_sum(y[1]), 7), w, .retain_graph = true);
    ck_ok(rg_mul_(y[1], 7));
    ck_assert_str_eq(rg_grad_fn(y[1]), "MulBackward0");
    ck_assert(rg_allclose(rg_grad(rg_sum(y[1]), w), want, 1e-12, 0));
}
END_TEST

/* A retained gradient belongs to the output's new value after a write. The gradient of the old
 * value isn't retained any longer. */
START_TEST(test_kept_gradients_of_outputs) {
    const blend_args args = { 0.5 };
    int64_t kept[2];
    for (int written = 0; written < 2; written++) {
        RG_SCOPE();
        rg_tensor *x = input(2, 3), *w = input(2, 3), *y[3];
        ck_ok(rg_function_apply_many(&blend, &args, RG_LIST(x, w), y));
        ck_ok(rg_retain_grad(y[1]));
        rg_tensor *z = written ? rg_mul_(y[1], 7) : rg_mul(y[1], 7);
        rg_tensor *loss = rg_add(rg_sum(y[0]), z);
        const int64_t live = rg_live_tensors();
        ck_ok(rg_backward(loss, .retain_graph = true));
        kept[written] = rg_live_tensors() - live;
        ck_assert_double_eq(rg_item(rg_grad_of(y[1])), written ? 1 : 7);
    }
    ck_assert_int_eq(kept[0], kept[1]);
}
END_TEST

/* If backward gives no gradient to an input, the leaf behind the input has no gradient, whether its
 * node is older or newer than that of the other input. */
START_TEST(test_no_gradient_comes_by) {
    static rg_function_class second_alone = { .name = "SecondAlone",
                                              .forward = second_alone_forward,
                                              .backward = second_alone_backward };
    for (int turn = 0; turn < 4; turn++) {
        rg_tensor *v[] = { input(2, 3), input(2, 3) }, *h[2];
        for (int i = 0; i < 2; i++)
            h[i ^ (turn & 1)] = rg_mul(v[i ^ (turn & 1)], 2);
        rg_tensor *y = rg_function_apply(&second_alone, NULL, h[0], h[1]);
        if (turn & 2)
            y = rg_add(rg_mul(h[1], 3), y);
        ck_ok(rg_backward(rg_sum(y)));
        ck_assert(rg_grad_of(v[0]) == RG_NONE);
        ck_assert(rg_equal(rg_grad_of(v[1]), rg_mul(rg_ones_like(v[1]), turn & 2 ? 8 : 2)));
    }
}
END_TEST

/* rg_grad gives an output of the function the right gradient, whether it is requested alone or
 * together with that of another output. */
START_TEST(test_gradients_by_outputs) {
    const blend_args args = { 0.5 };
    rg_tensor *x = input(2, 3), *w = input(2, 3), *y[3];
    ck_ok(rg_function_apply_many(&blend, &args, RG_LIST(x, w), y));
    rg_tensor *loss = rg_add(rg_mul(rg_sum(y[0]), 3), rg_mul(rg_sum(y[1]), 5));
    for (int turn = 0; turn < 2; turn++) {
        rg_tensor *g, *want = rg_mul(rg_ones_like(y[turn]), turn ? 5 : 3);
        ck_ok(g = rg_grad(loss, y[turn], .retain_graph = true));
        ck_assert(rg_equal(g, want));
        rg_tensor *both[] = { y[1 - turn], y[turn] }, *r[2];
        ck_ok(rg_grad_many(1, &loss, NULL, 2, both, r,
                           (rg_backward_options){ .retain_graph = true }));
        ck_assert(rg_equal(r[1], want)
                  && !rg_equal(r[0], rg_mul(rg_ones_like(r[0]), turn ? 5 : 3)));
    }
}
END_TEST

static void counting_step(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_backward(rg_sum(rg_function_apply(&counting, NULL, w)));
}

/* The state is 0 whenever forward begins, and in each run of a recording. */
START_TEST(test_state_begins_at_0) {
    rg_tensor *w = input(2, 3);
    for (int i = 0; i < 3; i++)
        counting_step(w);
    rg_replay *r = rg_record(counting_step, w);
    ck_ok(r);
    for (int i = 0; i < 3; i++) {
        ck_ok(rg_replay_run(r));
        ck_assert(rg_equal(rg_grad_of(w), rg_ones_like(w)));
    }
    rg_replay_free(r);
}
END_TEST

/* y = x^3, whose gradient is made by a backward run of its own */
static bool inner_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_mul(in[0], rg_square(in[0]));
    return rg_save_for_backward(ctx, in[0]);
}
static bool inner_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    RG_ENABLE_GRAD();
    rg_tensor *x = rg_requires_grad_(rg_clone(rg_detach(rg_saved_tensor(ctx, 0))), true);
    rg_tensor *first = rg_sum(rg_mul(rg_mul(x, rg_square(x)), 0.5));
    rg_tensor *second = rg_sum(rg_mul(rg_mul(x, rg_square(x)), 0.5));
    if (!rg_backward(first) || !rg_backward(second))
        return false;
    gin[0] = rg_mul(g[0], rg_grad_of(x));
    return gin[0];
}
static rg_function_class inner = { .name = "Inner",
                                   .forward = inner_forward,
                                   .backward = inner_backward,
                                   .once_differentiable = true };
static void inner_step(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_backward(rg_sum(rg_function_apply(&inner, NULL, w)));
}

/* A backward may run another backward, in a recording and outside of it. */
START_TEST(test_a_backward_inside_a_backward) {
    rg_tensor *w = input(2, 3);
    inner_step(w);
    ck_assert(rg_allclose(rg_grad_of(w), rg_mul(rg_square(rg_detach(w)), 3), 1e-12, 0));
    rg_replay *r = rg_record(inner_step, w);
    ck_ok(r);
    for (int i = 0; i < 3; i++) {
        RG_NO_GRAD();
        ck_ok(rg_mul_(w, 1.1) && rg_replay_run(r));
        ck_assert(rg_allclose(rg_grad_of(w), rg_mul(rg_square(w), 3), 1e-12, 0));
    }
    rg_replay_free(r);
}
END_TEST

static bool nothing_back(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    (void)g;
    (void)gin;
    return true;
}
static rg_tensor *counts_gradient(rg_tensor *g, void *context) {
    ck_assert_ptr_nonnull(g);
    ++*(int *)context;
    return RG_NONE;
}

/* If no gradient comes to a leaf, its hooks aren't called. */
START_TEST(test_hooks_of_leaves_without_gradient) {
    static rg_function_class nothing = { .name = "Nothing",
                                         .forward = inner_forward,
                                         .backward = nothing_back };
    int calls = 0;
    rg_tensor *x = input(2, 3), *other = input(2, 3);
    ck_assert_int_ge(rg_register_hook(x, counts_gradient, &calls), 0);
    ck_ok(rg_backward(rg_sum(rg_function_apply(&nothing, NULL, x))));
    ck_assert(calls == 0 && rg_grad_of(x) == RG_NONE);
    ck_ok(rg_backward(
        rg_add(rg_sum(rg_function_apply(&nothing, NULL, x)), rg_sum(rg_mul(x, other)))));
    ck_assert(calls == 1 && rg_equal(rg_grad_of(x), rg_detach(other)));
}
END_TEST

static bool passing_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = in[0];
    out[1] = rg_mul(in[1], 2);
    return rg_save_for_backward(ctx, in[0], in[1]);
}
/* y0 = a and y1 = 2 b, with gradients as if they were a^3 / 3 and a b^2 */
static bool passing_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *a = rg_saved_tensor(ctx, 0), *b = rg_saved_tensor(ctx, 1);
    gin[0] = rg_mul(g[0], rg_mul(a, a));
    gin[1] = rg_mul(g[1], rg_mul(rg_mul(a, b), 2));
    return gin[0] && gin[1];
}

/* Second derivatives go through a saved input to that input, even if the input is also an
 * output. */
START_TEST(test_saved_inputs_that_are_outputs) {
    static rg_function_class passing = {
        .name = "Passing", .forward = passing_forward, .backward = passing_backward, .outputs = 2
    };
    rg_tensor *a = input(2, 3), *b = input(2, 3), *y[2], *g[2], *h[2];
    ck_ok(rg_function_apply_many(&passing, NULL, RG_LIST(a, b), y));
    rg_tensor *sum = rg_add(rg_sum(y[0]), rg_sum(y[1])), *leaves[] = { a, b };
    ck_ok(rg_grad_many(1, &sum, NULL, 2, leaves, g,
                       (rg_backward_options){ .gradient = RG_NONE, .create_graph = true }));
    sum = rg_add(rg_sum(g[0]), rg_sum(g[1]));
    ck_ok(rg_grad_many(1, &sum, NULL, 2, leaves, h, (rg_backward_options){ .gradient = RG_NONE }));
    a = rg_detach(a);
    b = rg_detach(b);
    ck_assert(rg_allclose(h[0], rg_add(rg_mul(a, 2), rg_mul(b, 2)), 1e-12, 0));
    ck_assert(rg_allclose(h[1], rg_mul(a, 2), 1e-12, 0));
}
END_TEST

START_TEST(test_replay_of_odd_ops) {
    replayed r = { .w = input(2, 3) };
    planted = HONEST;
    rg_replay *same = rg_record(same_step, &r);
    ck_ok(same);
    {
        RG_NO_GRAD();
        ck_ok(rg_mul_(r.w, 2));
    }
    ck_ok(rg_replay_run(same));
    ck_assert_double_eq(rg_item(r.loss), rg_item(rg_sum(rg_detach(r.w))));
    ck_assert(rg_equal(rg_grad_of(r.w), rg_neg(rg_ones_like(r.w))));
    rg_drop(r.loss);
    rg_replay_free(same);
    r = (replayed){ input(2, 3), input(2, 3), NULL, false };
    run_in_turn = rg_record(replayed_step, &r);
    ck_ok(run_in_turn);
    deny_in_turn(run_again, NULL);
    rg_replay_free(run_in_turn);
    rg_drop(r.loss);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------- */

static rg_tensor *leaf_of_memory(void) {
    rg_tensor *x = rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64);
    return x ? rg_requires_grad_(x, true) : NULL;
}

static bool differentiate_once(void) {
    rg_tensor *x = leaf_of_memory(), *y = x ? rg_function_apply(&by_data, NULL, x) : NULL;
    return y && rg_grad(rg_sum(y), x, .create_graph = true);
}

/* After a write to its base, a view gets a new history when it is used. */
static bool apply_to_stale_view(void) {
    rg_tensor *x = leaf_of_memory(), *base = x ? rg_mul(x, 1) : NULL;
    rg_tensor *view = base ? rg_select(base, 0, 1) : NULL;
    if (!view || !rg_mul_(base, 2))
        return false;
    rg_tensor *y = rg_function_apply(&cube, NULL, view);
    return y && rg_backward(rg_sum(y));
}

static bool apply_with_state(void) {
    const blend_args args = { 0.5 };
    rg_tensor *x = leaf_of_memory(), *y[3];
    return x && rg_function_apply_many(&blend, &args, RG_LIST(x, RG_NONE), y)
           && rg_backward(rg_sum(y[0]));
}

static bool record_counting(void) {
    rg_tensor *x = leaf_of_memory();
    rg_replay *r = x ? rg_record(counting_step, x) : NULL;
    rg_replay_free(r);
    return r != NULL;
}

static bool record_forward(void) {
    rg_tensor *x = rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64);
    rg_replay *r = x ? rg_record(cube_and_drop, x) : NULL;
    rg_replay_free(r);
    return r != NULL;
}

START_TEST(test_denied_in_turn) {
    bool (*const calls[])(void) = { differentiate_once, apply_to_stale_view, apply_with_state,
                                    record_counting, record_forward };
    for (int i = 0; i < RG_COUNT(calls); i++)
        ck_assert_int_gt(deny_in_turn(calls[i], NULL), 3);
    RG_SAVED_HOOKS(keeps);
    deny_in_turn(apply_with_state, NULL);
}
END_TEST

/* If there was no memory for the row of a class, the next use makes the row. */
START_TEST(test_first_use_without_memory) {
    static rg_function_class fresh = { .name = "FirstUse",
                                       .forward = cube_forward,
                                       .backward = cube_backward };
    rg_tensor *x = input(2, 3);
    rg_memory_fail_at(1);
    ck_fails(rg_function_apply(&fresh, NULL, x), RG_OUT_OF_MEMORY, "out of memory");
    rg_memory_fail_at(0);
    rg_tensor *y = rg_function_apply(&fresh, NULL, x);
    ck_assert(y && rg_equal(y, rg_pow(rg_detach(x), 3)));
}
END_TEST

static bool plain_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_mul(in[0], 2);
    return out[0] != NULL;
}

static const void *made_at;
static bool noting_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 2);
    made_at = gin[0] ? rg_data(gin[0]) : NULL;
    return gin[0] != NULL;
}
static bool constant_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    (void)in;
    out[0] = rg_ones(3);
    return out[0] != NULL;
}

/* The gradient that backward returns isn't copied. An op may have no inputs. */
START_TEST(test_plain_ops) {
    static rg_function_class noting = { .name = "Noting",
                                        .forward = plain_forward,
                                        .backward = noting_backward };
    static rg_function_class constant = { .name = "Constant", .forward = constant_forward };
    rg_tensor *x = input(2, 3);
    for (int graph = 0; graph < 2; graph++) {
        rg_tensor *g = rg_grad(rg_sum(rg_function_apply(&noting, NULL, x)), x,
                               .create_graph = graph);
        ck_assert(g && rg_data(g) == made_at);
    }
    rg_tensor *y = rg_function_apply_list(&constant, NULL, (rg_list){ 0, NULL });
    ck_assert_msg(y && rg_equal(y, rg_ones(3)) && !rg_requires_grad(y), "%s", rg_error());
}
END_TEST

/* ---- threads ------------------------------------------------------------------------ */

static void *apply_often(void *context) {
    rg_function_class *cls = context;
    rg_tensor *x = input(2, 3);
    for (int i = 0; i < 200; i++) {
        RG_SCOPE();
        rg_set_grad(x, RG_NONE);
        rg_backward(rg_sum(rg_function_apply(cls, NULL, x)));
    }
    return rg_allclose(rg_grad_of(x), rg_mul(rg_square(x), 3.), 1e-12, 0) ? context : NULL;
}

START_TEST(test_threads_share_a_class) {
    rg_function_class fresh = { .name = "Fresh",
                                .forward = cube_forward,
                                .backward = cube_backward };
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, apply_often, &fresh), 0);
    for (int i = 0; i < 4; i++) {
        void *right;
        pthread_join(thread[i], &right);
        ck_assert_ptr_nonnull(right);
    }
}
END_TEST

enum { FRESH = 300 };
static rg_function_class shared_classes[FRESH];
static atomic_int arrived[FRESH];

/* Applies each class at the same moment as another thread. */
static void *apply_first(void *context) {
    rg_tensor *x = rg_detach(input(1, 1));
    for (int i = 0; i < FRESH; i++) {
        RG_SCOPE();
        atomic_fetch_add(&arrived[i], 1);
        for (int turns = 0; atomic_load(&arrived[i]) < 2; turns++)
            if (turns > 1000)
                sched_yield();
        if (!rg_function_apply(&shared_classes[i], NULL, x))
            return NULL;
    }
    return context;
}

/* A class has one row, even if two threads apply it first at the same time. */
START_TEST(test_first_use_by_two_threads) {
    static rg_function_class alone[2] = { { .name = "Row", .forward = plain_forward },
                                          { .name = "Row", .forward = plain_forward } };
    rg_tensor *x = rg_detach(input(1, 1));
    ck_ok(rg_function_apply(&alone[0], NULL, x));
    const int64_t before = rg_memory_stats().other;
    ck_ok(rg_function_apply(&alone[1], NULL, x));
    const int64_t row = rg_memory_stats().other - before;
    for (int i = 0; i < FRESH; i++)
        shared_classes[i] = (rg_function_class){ .name = "Row", .forward = plain_forward };
    pthread_t thread[2];
    void *right[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, apply_first, &right), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], &right[i]);
    ck_assert(right[0] && right[1]);
    ck_assert_int_eq(rg_memory_stats().other - before, (1 + FRESH) * row);
}
END_TEST

/* The row that is made for a class stays until the program ends. */
__attribute__((constructor)) static void rows_stay(void) { rg_memory_may_stay = 1; }

/* The gradient that backward returns for one input is a view of the gradient for the other input.
 * Adding to one of these gradients must not change the other. */
static bool sum_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_add(in[0], in[1]);
    return out[0];
}

static int given_as;
static bool sum_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    rg_tensor *both = rg_mul(g[0], 5), *view = rg_view(both, 3, 2);
    gin[given_as & 1] = given_as & 2 ? rg_view(view, 6) : rg_view(rg_view(both, 1, 6), 6);
    gin[!(given_as & 1)] = rg_detach(both);
    return true;
}

static rg_function_class sum_class = { .name = "SumOfTwo",
                                       .forward = sum_forward,
                                       .backward = sum_backward };

START_TEST(test_a_view_and_its_memory) {
    for (given_as = 0; given_as < 4; given_as++)
        for (int more = 0; more < 2; more++) {
            RG_SCOPE();
            rg_tensor *w[] = { rg_requires_grad_(rg_ones(6), true),
                               rg_requires_grad_(rg_ones(6), true) };
            rg_tensor *before = rg_mul(w[more], 3);
            rg_tensor *y = rg_function_apply(&sum_class, NULL, w[0], w[1]);
            ck_ok(rg_backward(rg_add(rg_sum(y), rg_sum(before))));
            for (int i = 0; i < 2; i++)
                ck_assert_msg(rg_equal(rg_grad_of(w[i]), rg_full(RG_DIMS(6), i == more ? 8. : 5.)),
                              "%d, %d: %s", given_as, i, rg_repr(rg_grad_of(w[i])));
        }
}
END_TEST

/* The lists of inputs and of gradients of outputs end with NULL. */
static bool forward_beyond(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_function_args(ctx) ? rg_mul(in[0], in[1]) : rg_mul(in[0], 2);
    return out[0];
}
static bool backward_beyond(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    ck_assert_ptr_eq(gin[15], RG_NONE);
    return rg_mul(g[0], g[1]);
}

START_TEST(test_what_reads_too_far) {
    static rg_function_class reads_inputs = { .name = "ReadsInputs",
                                              .forward = forward_beyond,
                                              .backward = backward_beyond,
                                              .args_bytes = sizeof(int) };
    static rg_function_class reads_gradients = { .name = "ReadsGradients",
                                                 .forward = forward_beyond,
                                                 .backward = backward_beyond };
    rg_tensor *x = rg_requires_grad_(rg_ones(2), true);
    ck_fails(rg_function_apply_list(&reads_inputs, &(int){ 1 }, RG_LIST(x)), RG_TYPE_ERROR,
             "expected a tensor but got NULL");
    rg_tensor *y = rg_function_apply_list(&reads_gradients, NULL, RG_LIST(x));
    ck_fails(rg_backward(rg_sum(y)), RG_TYPE_ERROR, "expected a tensor but got NULL");
}
END_TEST

static bool make_shared(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_mul(in[0], 2);
    out[1] = rg_view(out[0], -1);
    return out[1];
}

static bool shared_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(rg_add(g[0], rg_reshape(g[1], 2, 2)), 2);
    return gin[0];
}

/* A write to one of two outputs that share memory would change the other one unnoticed. */
START_TEST(test_outputs_that_share_memory) {
    static rg_function_class shared = {
        .name = "Shared", .forward = make_shared, .backward = shared_backward, .outputs = 2
    };
    rg_tensor *x = rg_requires_grad_(rg_ones_dims(RG_DIMS(2, 2), RG_FLOAT64), true), *out[2];
    ck_fails(rg_function_apply_many(&shared, NULL, RG_LIST(x), out), RG_RUNTIME_ERROR,
             "Shared: two outputs of forward share memory");
    rg_tensor *empty = rg_requires_grad_(rg_ones_dims(RG_DIMS(0, 2), RG_FLOAT64), true);
    ck_ok(rg_function_apply_many(&shared, NULL, RG_LIST(empty), out));
}
END_TEST

/* y = tanh(x) / 2. Forward saves an intermediate result, or the output, before its last write to
 * it. */
static bool early_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    const bool *of_output = rg_function_args(ctx);
    rg_tensor *y = rg_tanh(in[0]);
    if (!rg_save_for_backward(ctx, y))
        return false;
    out[0] = *of_output ? y : rg_clone(y);
    return rg_mul_(rg_view(y, -1), 0.5) && (*of_output || rg_mul_(out[0], 0.5));
}

static bool early_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(g[0], rg_saved_tensor(ctx, 0));
    return gin[0];
}

/* A write to a value that forward has saved already would give backward another value. */
START_TEST(test_writes_after_saving) {
    static rg_function_class early = { .name = "Early",
                                       .forward = early_forward,
                                       .backward = early_backward,
                                       .args_bytes = sizeof(bool) };
    for (int i = 0; i < 2; i++) {
        const bool of_output = i;
        ck_fails(rg_function_apply(&early, &of_output, input(2, 3)), RG_RUNTIME_ERROR,
                 "Early: forward has written to the tensor 0 that it had saved for backward; save "
                 "it after the last write, or save a clone. The last write was by mul_.");
    }
}
END_TEST

/* y[i] = a x[i] + b x[m[i]], of n elements. */
RG_FUNCTION_LOOP(mixed_rows, (float, float, int64_t, bool), {
    float *y = (float *)p[0];
    const float *from = (const float *)p[1];
    const int64_t *m = (const int64_t *)p[2];
    const bool *is_wanted = (const bool *)p[3];
    for (int64_t i = 0; i < n[0]; i++)
        y[i] = is_wanted[i] ? (float)x[0] * from[i] + (float)x[1] * from[m[i]] : 0;
})
RG_FUNCTION_LOOP(ones, (double), {
    for (int64_t i = 0; i < n[0]; i++)
        ((double *)p[0])[i] = 1;
})
RG_FUNCTION_LOOP(of_bytes, (char), {})

static void run_ones(void *t) {
    rg_run_function_loop(&ones, RG_LIST((rg_tensor *)t), RG_DIMS(2), 0, NULL);
}

START_TEST(test_loops_with_a_text) {
    rg_tensor *y = rg_zeros(3), *x = rg_literal([1., 2., 3.]), *m = rg_literal([2, 0, 1]);
    rg_tensor *is_wanted = rg_literal([True, False, True]);
    const double ab[] = { 10, 1 };
    ck_ok(rg_run_function_loop(&mixed_rows, RG_LIST(y, x, m, is_wanted), RG_DIMS(3), 2, ab));
    ck_assert(rg_equal(y, rg_literal([13., 0., 32.])));
    rg_tensor *d = rg_zeros_dims(RG_DIMS(2), RG_FLOAT64);
    rg_tensor *matrix = rg_zeros_dims(RG_DIMS(2, 3), RG_FLOAT64);
    ck_ok(rg_run_function_loop(&ones, RG_LIST(d), RG_DIMS(2), 0, NULL));
    ck_assert(rg_equal(d, rg_ones_dims(RG_DIMS(2), RG_FLOAT64)));
    rg_tensor *empty = rg_zeros_dims(RG_DIMS(0), RG_FLOAT64);
    ck_ok(rg_run_function_loop(&ones, RG_LIST(empty), RG_DIMS(0), 0, NULL));

    const rg_list all = RG_LIST(y, x, m, is_wanted);
    rg_tensor *many[17];
    for (int i = 0; i < 17; i++)
        many[i] = y;
    const rg_list too_many = { 17, many };
    ck_fails(rg_run_function_loop(&mixed_rows, RG_LIST(y, x, m), RG_DIMS(3), 2, ab),
             RG_VALUE_ERROR,
             "run_function_loop: loop mixed_rows takes tensors of the types (float, float, "
             "int64_t, bool), but got 3 tensors");
    ck_fails(rg_run_function_loop(&mixed_rows, RG_LIST(y, x, x, is_wanted), RG_DIMS(3), 2, ab),
             RG_VALUE_ERROR, "but tensor 2 has the dtype Float");
    ck_fails(rg_run_function_loop(&ones, RG_LIST(d, d), RG_DIMS(2), 0, NULL), RG_VALUE_ERROR,
             "but tensor 1 has the dtype Double");
    ck_fails(rg_run_function_loop(&of_bytes, RG_LIST(is_wanted), RG_DIMS(2), 0, NULL),
             RG_VALUE_ERROR, "but tensor 0 has the dtype Bool");
    ck_fails(rg_run_function_loop(&ones, RG_LIST(rg_T(matrix)), RG_DIMS(6), 0, NULL),
             RG_VALUE_ERROR, "tensor 0 isn't contiguous; rg_contiguous returns a copy that is");
    ck_fails(rg_run_function_loop(&ones, too_many, RG_DIMS(6), 0, NULL),
             RG_VALUE_ERROR, "takes up to 16 tensors and up to 16 numbers, but got 17 and 0");
    ck_fails(rg_run_function_loop(&mixed_rows, all, RG_DIMS(3), 17, ab), RG_VALUE_ERROR,
             "but got 4 and 17");
    ck_fails(rg_run_function_loop(&mixed_rows, all, RG_DIMS(3), -1, ab), RG_VALUE_ERROR,
             "but got 4 and -1");
    ck_fails(rg_run_function_loop(&mixed_rows, all, RG_DIMS(3), 2, NULL), RG_TYPE_ERROR, "NULL");
    ck_fails(rg_run_function_loop(NULL, all, RG_DIMS(3), 2, ab), RG_TYPE_ERROR, "NULL");
    rg_dims failed = { .n = -1 };
    ck_fails(rg_run_function_loop(&ones, RG_LIST(d), failed, 0, NULL), RG_VALUE_ERROR,
             "got a list of -1 whole numbers");
    failed.n = 9;
    ck_fails(rg_run_function_loop(&ones, RG_LIST(d), failed, 0, NULL), RG_VALUE_ERROR,
             "got a list of 9 whole numbers");
    ck_fails(rg_record(run_ones, d), RG_NOT_IMPLEMENTED,
             "run_function_loop: can't be part of a recorded step");
    ck_fails(rg_run_function_loop(&ones, RG_LIST(rg_matmul(y, matrix)), RG_DIMS(3), 0, NULL),
             RG_RUNTIME_ERROR, "matmul");
}
END_TEST

RG_TESTS(function, test_loops_with_a_text, test_writes_after_saving, test_outputs_that_share_memory,
         test_what_reads_too_far, test_a_view_and_its_memory, test_state_begins_at_0,
         test_a_backward_inside_a_backward, test_hooks_of_leaves_without_gradient,
         test_saved_inputs_that_are_outputs, test_no_check_in_inference_mode, test_honest_ops_pass,
         test_contexts, test_class_that_changes, test_failures, test_failures_in_backward,
         test_writes_to_an_input_as_output, test_differentiated_once, test_outputs_without_gradient,
         test_inputs_as_outputs, test_those_who_look_on, test_gradients_of_outputs,
         test_most_of_everything, test_replay, test_replay_refuses, test_replay_of_odd_ops,
         test_replay_of_what_is_wanted, test_recordings_hold_results, test_gradients_by_outputs,
         test_writes_to_outputs, test_kept_gradients_of_outputs, test_gradients_of_fewer_dims,
         test_saved_values_as_gradients, test_no_gradient_comes_by, test_threads_share_a_class,
         test_denied_in_turn, test_first_use_without_memory, test_plain_ops,
         test_first_use_by_two_threads)

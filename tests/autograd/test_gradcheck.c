/*
 * test_gradcheck.c: gradcheck, gradgradcheck, anomaly mode and the drawing of graphs, with what
 * they must accept and what they must reject.
 */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "autograd/tools/function.h"
#include "autograd/op.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static rg_tensor *input(int64_t n, int64_t m) {
    rg_tensor *x = rg_zeros_dims(RG_DIMS(n, m), RG_FLOAT64);
    for (int64_t i = 0; i < n * m; i++)
        ((double *)rg_data(x))[i] = 0.3 * (double)i - 0.7;
    return rg_requires_grad_(x, true);
}

/* ---- an op with planted mistakes --------------------------------------------------
 * y = x * x * w, with w broadcast over the rows. Its derivative is wrong in one way at
 * a time. */

typedef enum { HONEST, FLIPPED, SCALED, WRONG_DIM, WRONG_SECOND, NOT_SUMMED } planted;
static planted plant;

static rg_tensor *square_times_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0), *w = rgi_saved(s, 1);
    if (plant == WRONG_SECOND)
        x = rg_detach(x);
    rg_tensor *gx = rg_mul(rg_mul(rg_mul(g, x), w), 2);
    if (plant == FLIPPED)
        return rg_mul(gx, -1);
    return plant == SCALED ? rg_mul(gx, 1.001) : gx;
}

static rg_tensor *square_times_rule_w(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0), *gw = rg_mul(rg_mul(g, x), x);
    if (plant == WRONG_DIM)
        return rg_sum_dim(gw, 1, false);
    /* One row is returned in place of the sum over all rows. */
    return plant == NOT_SUMMED ? rg_select(gw, 0, 0) : gw;
}

static bool square_times_forward(rg_call *c) {
    k_run(k_mul, c->out[0], c->in[0], c->in[0]);
    k_run(k_mul, c->out[0], c->out[0], c->in[1]);
    return true;
}

static RG_OP(square_times, .doc = "x x w", .node = "SquareTimesBackward0", .n_in = 2,
             .shape = rgi_shape_same, .forward = square_times_forward,
             .grad = { RG_RULE(RG_IN(0) | RG_IN(1), square_times_rule_x),
                       RG_RULE(RG_IN(0), square_times_rule_w) });

static rg_tensor *square_times(rg_tensor *const in[], void *context) {
    (void)context;
    return rgi_apply(&rg_op_square_times, NULL, 0, 2, in);
}

static rg_list square_times_list(rg_tensor *const in[], void *context) {
    static rg_tensor *y;
    y = square_times(in, context);
    return (rg_list){ y ? 1 : -1, &y };
}

/* Sets `ok` to whether each of the four checks accepts the planted op, with grad mode on or off
 * around the checks. */
static void check_in_mode(bool grad, bool ok[4]) {
    RG_SCOPE();
    const bool before = rg_set_grad_enabled(grad);
    rg_tensor *in[] = { input(3, 3), rg_detach(rg_select(input(3, 3), 0, 1)) };
    rg_requires_grad_(in[1], true);
    ok[0] = rg_gradcheck(square_times, NULL, 2, in);
    ok[1] = rg_gradcheck_list(square_times_list, NULL, 2, in);
    ok[2] = rg_gradgradcheck(square_times, NULL, 2, in);
    ok[3] = rg_gradgradcheck_list(square_times_list, NULL, 2, in);
    ck_assert(rg_set_grad_enabled(before) == grad);
    rg_error_clear();
}

/* The checks turn grad mode on for the function, since without it nothing would require grad.
 * (torch's gradcheck finds no gradient there, and fails.) */
START_TEST(test_within_no_grad) {
    for (plant = HONEST; plant <= NOT_SUMMED; plant++) {
        bool with[4], without[4];
        check_in_mode(true, with);
        check_in_mode(false, without);
        ck_assert_msg(memcmp(with, without, sizeof with) == 0, "fault %d", plant);
        ck_assert(with[0] == with[1] && with[2] == with[3]);
        ck_assert(plant != HONEST || (with[0] && with[2]));
        ck_assert(plant != FLIPPED || !with[0]);
        ck_assert(plant != WRONG_SECOND || !with[2]);
    }
}
END_TEST

START_TEST(test_planted_faults_are_rejected) {
    for (plant = HONEST; plant <= NOT_SUMMED; plant++) {
        RG_SCOPE();
        rg_tensor *x = input(3, 3),
                  *w = rg_requires_grad_(rg_detach(rg_clone(rg_select(input(3, 3), 0, 1))), true);
        rg_tensor *in[] = { x, w };
        bool first = rg_gradcheck(square_times, NULL, 2, in, .atol = 1e-7, .rtol = 1e-7);
        bool second = rg_gradgradcheck(square_times, NULL, 2, in, .atol = 1e-7, .rtol = 1e-7);
        ck_assert_msg(first == (plant == HONEST || plant == WRONG_SECOND),
                      "fault %d: first order %d, %s", plant, first, rg_error());
        ck_assert_msg((first && second) == (plant == HONEST), "fault %d: second order %d, %s",
                      plant, second, rg_error());
        rg_error_clear();
    }
}
END_TEST

START_TEST(test_the_report_names_the_worst_element) {
    rg_tensor *x = input(3, 3),
              *w = rg_requires_grad_(rg_detach(rg_clone(rg_select(input(3, 3), 0, 1))), true);
    plant = FLIPPED;
    ck_assert(!rg_gradcheck(square_times, NULL, 2, ((rg_tensor *[]){ x, w })));
    /* The error is largest where x[2,2] = 1.7 and w[2] = 0.8. */
    const char *said = rg_error();
    ck_assert_msg(strstr(said, "with respect to input 0: at output [2, 2] and input [2, 2]")
                      && strstr(said, "-2.72") && strstr(said, "2.72")
                      && strstr(said, "SquareTimesBackward0"),
                  "%s", said);
}
END_TEST

static rg_tensor *constant(rg_tensor *const in[], void *context) {
    (void)in;
    return context;
}
static rg_tensor *hidden(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(rg_detach(in[0]), 2);
}
static rg_tensor *half_hidden(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(rg_detach(in[0]), in[0]);
}
static rg_tensor *fails(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_matmul(in[0], in[0]);
}

/* The gradient of the product can't be computed, because the saved x is written over. */
static rg_tensor *writes_over(rg_tensor *const in[], void *context) {
    (void)context;
    rg_tensor *x = rg_mul(in[0], 1), *y = rg_mul(x, x);
    rg_add_(rg_detach(x), 1);
    return y;
}
static rg_tensor *first_gradient(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_grad(rg_sum(rg_mul(in[0], in[0])), in[0]);
}
static rg_tensor *sum_of_all(rg_tensor *const in[], void *context) {
    return rg_sum(rg_cat((rg_list){ *(int *)context, (rg_tensor **)(uintptr_t)in }, 0));
}

/* If a backward run fails, the check fails with the run's error. */
START_TEST(test_failing_backward) {
    rg_tensor *x = input(2, 3);
    ck_fails(rg_gradcheck(writes_over, NULL, 1, &x), RG_RUNTIME_ERROR,
             "modified by an inplace operation");
    ck_fails(rg_gradgradcheck(writes_over, NULL, 1, &x), RG_RUNTIME_ERROR,
             "modified by an inplace operation");
    ck_fails(rg_gradgradcheck(first_gradient, NULL, 1, &x), RG_RUNTIME_ERROR,
             "gradgradcheck: Numerical gradient for function expected to be zero");
}
END_TEST

/* The cotangents for second derivatives have either sign, and none is near 0. */
static double least_seen, most_seen;
static bool plain_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_square(in[0]);
    return rg_save_for_backward(ctx, in[0]);
}
static bool seeing_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    for (int64_t i = 0; i < rg_numel(g[0]); i++) {
        const double v = ((const double *)rg_data(rg_contiguous(rg_detach(g[0]))))[i];
        least_seen = fmin(least_seen, v);
        most_seen = fmax(most_seen, v);
        ck_assert(fabs(v) > 0.4);
    }
    gin[0] = rg_mul(g[0], rg_mul(rg_saved_tensor(ctx, 0), 2));
    return true;
}
static rg_function_class seeing = { .name = "Seeing",
                                    .forward = plain_forward,
                                    .backward = seeing_backward };
static rg_tensor *seeing_function(rg_tensor *const in[], void *unused) {
    (void)unused;
    return rg_function_apply(&seeing, NULL, in[0]);
}

START_TEST(test_gradients_of_either_sign) {
    rg_memory_may_stay = 1;
    rg_tensor *x = rg_requires_grad_(rg_full_dims(RG_DIMS(5), 0.5, RG_FLOAT64), true);
    ck_ok(rg_gradgradcheck(seeing_function, NULL, 1, &x));
    ck_assert(least_seen < -0.4 && most_seen > 0.4);
}
END_TEST

static bool detaching_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(rg_detach(g[0]), rg_mul(rg_saved_tensor(ctx, 0), 2));
    return gin[0] != NULL;
}
static rg_function_class detaching = { .name = "Detaching",
                                       .forward = plain_forward,
                                       .backward = detaching_backward };
static rg_tensor *detaching_function(rg_tensor *const in[], void *unused) {
    (void)unused;
    return rg_function_apply(&detaching, NULL, in[0]);
}

/* An input that has a name, such as a module's parameter, is named. */
START_TEST(test_mismatch_names_its_input) {
    rg_tensor *x = input(2, 3);
    ck_ok(rg_set_name(x, "fc.weight"));
    ck_fails(rg_gradcheck(half_hidden, NULL, 1, &x), RG_RUNTIME_ERROR,
             "with respect to input 0, fc.weight: at output [1, 2] and input [1, 2]");
}
END_TEST

/* gradgradcheck also checks the derivative of a gradient by the output's gradient, which this op
 * cuts off. */
START_TEST(test_gradients_that_are_cut_off) {
    rg_memory_may_stay = 1;
    rg_tensor *x = input(2, 3);
    ck_ok(rg_gradcheck(detaching_function, NULL, 1, &x));
    ck_fails(rg_gradgradcheck(detaching_function, NULL, 1, &x), RG_RUNTIME_ERROR,
             "Jacobian mismatch for output 0 with respect to input 1");
    rg_gradgradcheck(detaching_function, NULL, 1, &x);
    ck_assert(strstr(rg_error(), "(the outputs are the gradients of the inputs)"));
    rg_error_clear();
}
END_TEST

/* x^2. The gradient of the element to which the context points is halved. */
static rg_tensor *half_of_one(rg_tensor *const in[], void *place) {
    rg_tensor *flat = rg_reshape(in[0], -1), *parts[6];
    for (int i = 0; i < 6; i++) {
        rg_tensor *x = rg_narrow(flat, 0, i, 1);
        parts[i] = rg_mul(x, i == *(int *)place ? rg_detach(x) : x);
    }
    return rg_reshape(rg_cat(rg_list_of(6, parts), 0), 2, 3);
}

/* Each element is checked. The error names the wrong one. */
START_TEST(test_each_element_is_checked) {
    rg_tensor *x = input(2, 3);
    for (int place = 0; place < 6; place++) {
        char said[80];
        snprintf(said, sizeof said, "at output [%d, %d] and input [%d, %d] the analytical",
                 place / 3, place % 3, place / 3, place % 3);
        ck_fails(rg_gradcheck(half_of_one, &place, 1, &x), RG_RUNTIME_ERROR, said);
    }
}
END_TEST

/* The checks take RG_MAX_INPUTS inputs at most, and leave no tensors to their scope. */
START_TEST(test_many_inputs) {
    rg_tensor *in[RG_MAX_INPUTS + 1];
    int n;
    for (int i = 0; i <= RG_MAX_INPUTS; i++)
        in[i] = rg_requires_grad_(rg_full_dims(RG_DIMS(1), 0.5, RG_FLOAT64), true);
    int64_t live = rg_live_tensors();
    n = RG_MAX_INPUTS;
    ck_ok(rg_gradcheck(sum_of_all, &n, n, in));
    ck_assert_int_eq(rg_live_tensors(), live);
    n = RG_MAX_INPUTS + 1;
    char said[64];
    snprintf(said, sizeof said, "takes up to %d inputs, but got %d", RG_MAX_INPUTS, n);
    ck_fails(rg_gradcheck(sum_of_all, &n, n, in), RG_VALUE_ERROR, said);
    n = RG_MAX_INPUTS - 1;
    ck_ok(rg_gradgradcheck(sum_of_all, &n, n, in));
    ck_assert_int_eq(rg_live_tensors(), live);
    n = RG_MAX_INPUTS;
    snprintf(said, sizeof said, "takes up to %d inputs, but got %d", n - 1, n);
    ck_fails(rg_gradgradcheck(sum_of_all, &n, n, in), RG_VALUE_ERROR, said);
    ck_fails(rg_gradcheck(sum_of_all, &n, -1, in), RG_VALUE_ERROR, "but got -1");
}
END_TEST

START_TEST(test_what_gradcheck_asks_for) {
    rg_tensor *x = input(2, 3), *plain = rg_detach(x),
              *single = rg_requires_grad_(rg_zeros(2), true);
    ck_fails(rg_gradcheck(constant, x, 1, &plain), RG_VALUE_ERROR,
             "at least one input tensor to require gradient");
    ck_fails(rg_gradcheck(constant, x, 1, &single), RG_VALUE_ERROR, "not a float64 tensor");
    ck_fails(rg_gradcheck(constant, x, 0, &x), RG_VALUE_ERROR,
             "at least one input tensor to require gradient");
    ck_fails(rg_gradcheck(constant, x, -1, &x), RG_VALUE_ERROR, "inputs, but got -1");
    ck_fails(rg_gradgradcheck(constant, x, -1, &x), RG_VALUE_ERROR, "inputs, but got -1");
    ck_fails(rg_gradcheck(fails, NULL, 1, &x), RG_RUNTIME_ERROR, "cannot be multiplied");
    ck_fails(rg_gradcheck(hidden, NULL, 1, &x), RG_RUNTIME_ERROR,
             "the analytical value is 0 but the numerical one is 2");
    ck_assert(rg_gradcheck(constant, rg_ones(2), 1, &x));
    ck_assert(rg_gradgradcheck(constant, rg_ones(2), 1, &x));
    ck_fails(rg_gradgradcheck(constant, rg_ones(2), 1, &plain), RG_VALUE_ERROR,
             "at least one input tensor to require gradient");
    ck_fails(rg_gradgradcheck(hidden, NULL, 1, &x), RG_RUNTIME_ERROR,
             "gradgradcheck: Numerical gradient for function expected to be zero");
    rg_tensor *before = rg_clone(plain);
    plant = HONEST;
    ck_assert(rg_gradcheck(
        square_times, NULL, 2,
        ((rg_tensor *[]){ x, rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true) })));
    /* The inputs are as they were before. */
    ck_assert(rg_equal(before, plain) && rg_grad_of(x) == RG_NONE);
}
END_TEST

/* ---- several outputs, and what is likely wrong ----------------------------------------- */

/* Returns x^2, the index of the largest element, and x w. */
static rg_list several(rg_tensor *const in[], void *context) {
    rg_tensor **y = context;
    y[0] = rg_argmax_dim(in[0], 1, false);
    y[1] = rg_square(in[0]);
    y[2] = rg_mul(in[0], in[1]);
    return (rg_list){ 3, y };
}

static rg_list whole(rg_tensor *const in[], void *context) {
    rg_tensor **y = context;
    y[0] = rg_long(in[0]);
    y[1] = rg_gt(in[0], 0);
    return (rg_list){ 2, y };
}

static rg_list without_last_history(rg_tensor *const in[], void *context) {
    rg_list y = several(in, context);
    ((rg_tensor **)context)[1] = rg_mul(y.v[1], rg_detach(in[0]));
    return y;
}

static rg_list without_first_history(rg_tensor *const in[], void *context) {
    rg_list y = several(in, context);
    ((rg_tensor **)context)[0] = rg_detach(y.v[1]);
    return y;
}

/* Returns the list of a call that fails. */
static rg_list refused_list(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_split(in[0], -1, 0);
}

START_TEST(test_several_outputs) {
    rg_tensor *in[] = { input(2, 3), input(2, 3) }, *y[3];
    int64_t live = rg_live_tensors();
    ck_assert_msg(rg_gradcheck_list(several, y, 2, in), "%s", rg_error());
    ck_assert_msg(rg_gradgradcheck_list(several, y, 2, in), "%s", rg_error());
    ck_assert_msg(rg_gradcheck_list(whole, y, 1, in), "%s", rg_error());
    ck_assert(rg_gradgradcheck_list(whole, y, 1, in));
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_ok(rg_gradcheck_list(without_first_history, y, 2, in));
    ck_fails(rg_gradcheck_list(without_last_history, y, 2, in), RG_RUNTIME_ERROR,
             "Jacobian mismatch for output 1 with respect to input 0");
    ck_fails(rg_gradcheck_list(refused_list, NULL, 2, in), RG_RUNTIME_ERROR,
             "split expects split_size be non-negative, but got split_size=-1");
    ck_fails(rg_gradcheck_list(NULL, y, 2, in), RG_TYPE_ERROR, "gradcheck: expected a function");
    /* Here the whole number changes with x, so it has a slope. */
    ((double *)rg_data(in[0]))[1] = 1;
    ck_fails(rg_gradcheck_list(whole, y, 1, in), RG_RUNTIME_ERROR,
             "Numerical gradient for function expected to be zero");
}
END_TEST

static rg_tensor *grows(rg_tensor *grad, void *calls) { return rg_mul(grad, ++*(int *)calls); }
static rg_tensor *unsteady_backward(rg_tensor *const in[], void *calls) {
    rg_tensor *y = rg_mul(in[0], 2);
    rg_register_hook(y, grows, calls);
    return rg_mul(y, 1);
}
static rg_tensor *drops_out(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_dropout(in[0], 0.5, true);
}
static rg_tensor *writes(rg_tensor *const in[], void *context) {
    (void)context;
    rg_add_(rg_detach(in[1]), 1);
    return rg_mul(in[0], in[1]);
}
static rg_tensor *changes_dtype(rg_tensor *const in[], void *calls) {
    return ++*(int *)calls == 1 ? rg_mul(in[0], 2) : rg_float(in[0]);
}
static rg_tensor *changes_shape(rg_tensor *const in[], void *calls) {
    return rg_narrow(rg_mul(in[0], 2), 0, 0, ++*(int *)calls == 1 ? 2 : 1);
}

/* One output has a wrong gradient by the first input, and the other one depends on the second
 * input. */
static rg_list wrong_and_other(rg_tensor *const in[], void *context) {
    static rg_tensor *y[2];
    y[*(int *)context] = rg_mul(rg_detach(in[0]), in[0]);
    y[1 - *(int *)context] = rg_mul(in[1], 2);
    return (rg_list){ 2, y };
}

/* Returns as many outputs as the context says. Output k is (k + 1) x. */
static rg_list multiples(rg_tensor *const in[], void *context) {
    static rg_tensor *y[70];
    const int n = *(int *)context;
    for (int k = 0; k < n; k++)
        y[k] = rg_mul(in[0], k + 1);
    return (rg_list){ n, y };
}

/* Returns one output less in each call. */
static rg_list fewer(rg_tensor *const in[], void *context) {
    rg_list y = multiples(in, context);
    --*(int *)context;
    return y;
}

/* The last output is missing, and no error is set. */
static rg_list without_last(rg_tensor *const in[], void *context) {
    static rg_tensor *y[3];
    (void)context;
    y[0] = y[1] = rg_mul(in[0], 2);
    return (rg_list){ 3, y };
}

/* The output of the second call has no history. */
static rg_tensor *sometimes_detached(rg_tensor *const in[], void *calls) {
    rg_tensor *y = rg_mul(in[0], 2);
    return ++*(int *)calls == 2 ? rg_detach(y) : y;
}

static rg_tensor *product_of_some(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(rg_index_select(in[0], 0, in[2]), rg_exp(in[3]));
}

START_TEST(test_outputs_and_inputs_of_all_kinds) {
    rg_tensor *in[] = { input(2, 1), input(2, 1) };
    for (int wrong = 0; wrong < 2; wrong++) {
        ck_assert(!rg_gradcheck_list(wrong_and_other, &wrong, 2, in));
        ck_assert_msg(!strstr(rg_error(), "No gradient reaches"), "%s", rg_error());
        rg_error_clear();
    }
    int n = 64;
    ck_ok(rg_gradcheck_list(multiples, &n, 1, in));
    ck_ok(rg_gradgradcheck_list(multiples, &n, 1, in));
    n = 65;
    ck_fails(rg_gradcheck_list(multiples, &n, 1, in), RG_VALUE_ERROR,
             "takes up to 64 outputs, but got 65");
    n = 3;
    ck_fails(rg_gradcheck_list(without_last, &n, 1, in), RG_TYPE_ERROR,
             "gradcheck: expected a tensor but got NULL");
    ck_fails(rg_gradcheck_list(fewer, &n, 1, in), RG_RUNTIME_ERROR,
             "Expected `func` to return as many outputs in each call, but got 3 and 2");
    n = 0;
    ck_fails(rg_gradgradcheck(sometimes_detached, &n, 1, in), RG_RUNTIME_ERROR,
             "gradgradcheck: the function had 1 outputs that require grad, and now has 0");
    /* Inputs may be absent, or whole numbers, or lie in memory with gaps. */
    rg_tensor *turned = rg_requires_grad_(rg_T(rg_detach(input(2, 3))), true);
    rg_tensor *mixed[] = { turned, RG_NONE, rg_arange(2),
                           rg_requires_grad_(rg_T(rg_detach(input(2, 2))), true) };
    rg_tensor *was = rg_clone(rg_detach(turned));
    mixed[3] = rg_requires_grad_(rg_select(rg_detach(input(2, 2)), 1, 1), true);
    ck_ok(rg_gradcheck(product_of_some, NULL, 4, mixed));
    ck_ok(rg_gradgradcheck(product_of_some, NULL, 4, mixed));
    ck_assert(rg_equal(rg_detach(turned), was));
    ck_fails(rg_gradcheck(half_hidden, NULL, 3, mixed), RG_RUNTIME_ERROR, "Jacobian mismatch");
}
END_TEST

/* The first call returns the first input, and later calls return the second input. */
static rg_tensor *another_leaf(rg_tensor *const in[], void *calls) {
    return in[++*(int *)calls > 1];
}

START_TEST(test_leaves_as_outputs) {
    rg_tensor *in[] = { input(2, 1), input(2, 1), NULL };
    int calls = 1;
    ck_ok(rg_gradcheck(another_leaf, &calls, 2, in));
    calls = 0;
    ck_fails(rg_gradcheck(another_leaf, &calls, 2, in), RG_RUNTIME_ERROR,
             "the analytical value is 1 but the numerical one is 0 (AccumulateGrad)");
    ck_fails(rg_gradcheck(another_leaf, &calls, 3, in), RG_TYPE_ERROR,
             "gradcheck: expected a tensor but got NULL");
}
END_TEST

/* A function that computes in float32. */
static rg_tensor *rounds_to_float(rg_tensor *const in[], void *unused) {
    (void)unused;
    return rg_double(rg_sin(rg_float(in[0])));
}

/* y = x^2, with a backward that doesn't multiply by the gradient of y. */
static bool square_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_square(in[0]);
    return rg_save_for_backward(ctx, in[0]);
}
static bool square_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = g[0] ? rg_mul(rg_saved_tensor(ctx, 0), 2) : NULL;
    return gin[0];
}
static rg_tensor *without_gradient(rg_tensor *const in[], void *unused) {
    static rg_function_class square = { .name = "Square",
                                        .forward = square_forward,
                                        .backward = square_backward };
    (void)unused;
    return rg_function_apply(&square, NULL, in[0]);
}

START_TEST(test_likely_causes) {
    rg_tensor *in[] = { input(2, 3), rg_detach(input(2, 3)) };
    int calls = 0;
    ck_fails(
        rg_gradcheck(unsteady_backward, &calls, 1, in), RG_RUNTIME_ERROR,
        "Backward is not reentrant, i.e., running backward with same input and grad_output "
        "multiple times gives different values, although analytical gradient matches numerical "
        "gradient.The tolerance for nondeterminism was 0.0.");
    calls = 0;
    ck_fails(rg_gradcheck(unsteady_backward, &calls, 1, in, .nondet_tol = 1e-60), RG_RUNTIME_ERROR,
             "The tolerance for nondeterminism was 1e-60.");
    calls = 0;
    ck_fails(rg_gradcheck(unsteady_backward, &calls, 1, in, .nondet_tol = 1e3), RG_RUNTIME_ERROR,
             "Jacobian mismatch");
    ck_fails(rg_gradcheck(drops_out, NULL, 1, in), RG_RUNTIME_ERROR,
             "The function isn't deterministic");
    ck_fails(rg_gradcheck(hidden, NULL, 1, in), RG_RUNTIME_ERROR,
             "Numerical gradient for function expected to be zero");
    ck_fails(rg_gradcheck(hidden, NULL, 1, in), RG_RUNTIME_ERROR, "No gradient reaches that input");
    ck_fails(rg_gradcheck(rounds_to_float, NULL, 1, in), RG_RUNTIME_ERROR,
             "The values have the precision of float32: does a loop compute in float?");
    ck_fails(rg_gradcheck(without_gradient, NULL, 1, in), RG_RUNTIME_ERROR,
             "does a backward function leave out g[0]?");
    rg_memory_may_stay = 1; /* The class of an op stays. */
    /* For a gradient that is wrong but isn't 0, the error names neither a missing gradient nor
     * float32 as the cause. */
    ck_assert(!rg_gradcheck(half_hidden, NULL, 1, in));
    ck_assert_msg(!strstr(rg_error(), "No gradient reaches"), "%s", rg_error());
    ck_assert_msg(!strstr(rg_error(), "float32"), "%s", rg_error());
    calls = 0;
    ck_fails(rg_gradcheck(changes_shape, &calls, 1, in), RG_RUNTIME_ERROR,
             "Expected `func` to return outputs with the same shape when inputs are perturbed by "
             "1e-06, but got: shapes torch.Size([2, 3]) and torch.Size([1, 3]).");
    calls = 0;
    ck_fails(rg_gradcheck(changes_dtype, &calls, 1, in), RG_RUNTIME_ERROR,
             "with the same dtype when inputs are perturbed by 1e-06, but got: dtypes "
             "torch.float64 and torch.float32.");
    ck_fails(rg_gradcheck(writes, NULL, 2, in), RG_RUNTIME_ERROR,
             "The function writes to one of its inputs in place");
    /* In the next check the input isn't written to. */
    rg_error_clear();
    ck_assert(!rg_gradcheck(half_hidden, NULL, 2, in));
    ck_assert_msg(strstr(rg_error(), "mismatch") && !strstr(rg_error(), "in place"), "%s",
                  rg_error());
    rg_error_clear();
}
END_TEST

/* The factor by which the gradient of `scaled` is wrong, and the first element that has it. */
static double factor;
static int first_scaled;
static bool scaled_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *slope = rg_mul(rg_saved_tensor(ctx, 0), 2);
    rg_tensor *f = rg_full_dims(rg_shape(slope), factor, RG_FLOAT64);
    for (int i = 0; f && i < first_scaled; i++)
        ((double *)rg_data(f))[i] = 1;
    gin[0] = rg_mul(rg_mul(g[0], slope), f);
    return gin[0];
}
static rg_tensor *scaled(rg_tensor *const in[], void *unused) {
    static rg_function_class square = { .name = "Scaled",
                                        .forward = square_forward,
                                        .backward = scaled_backward };
    (void)unused;
    return rg_function_apply(&square, NULL, in[0]);
}

START_TEST(test_wrong_factors) {
    static const struct {
        double factor;
        int rows, first;
        const char *words;
    } cases[] = {
        { 2, 3, 0, "Each analytical value for this output and input is 2 times the numerical one" },
        { 1. / 3, 3, 0, "input is 0.333333 times the numerical one" },
        { -1, 3, 0, "input is the numerical one with the wrong sign" },
        { -1, 1, 0, "input is the numerical one with the wrong sign" },
        { 2, 1, 0, NULL }, /* Any two single values differ by a factor. */
        { 2, 3, 1, NULL },
        { -1, 3, 1, NULL },
        { 0, 3, 0, NULL },
    };
    rg_memory_may_stay = 1; /* The class of an op stays. */
    for (int i = 0; i < RG_COUNT(cases); i++) {
        rg_tensor *x = input(cases[i].rows, 1);
        factor = cases[i].factor;
        first_scaled = cases[i].first;
        ck_fails(rg_gradcheck(scaled, NULL, 1, &x), RG_RUNTIME_ERROR, "Jacobian mismatch");
        rg_error_clear();
        ck_assert(!rg_gradcheck(scaled, NULL, 1, &x));
        const char *said = rg_error();
        const bool found = strstr(said, cases[i].words ? cases[i].words : "numerical one with")
                           || (!cases[i].words && strstr(said, "times the numerical"));
        ck_assert_msg(found == (cases[i].words != NULL), "%d: %s", i, said);
    }
    rg_error_clear();
}
END_TEST

/* y = x1 x2, with a backward that computes with a loop. */
static bool looping_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_mul(in[0], in[1]);
    return rg_save_for_backward(ctx, in[0], in[1]);
}
static bool looping_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const double *from = rg_data(rg_contiguous(g[0]));
    for (int k = 0; k < 2; k++) {
        const double *factors = rg_data(rg_saved_tensor(ctx, 1 - k));
        gin[k] = rg_empty_like(g[0]);
        double *to = rg_data(gin[k]);
        if (!from || !factors || !to)
            return false;
        for (int64_t i = 0; i < rg_numel(g[0]); i++)
            to[i] = from[i] * factors[i];
    }
    return true;
}
static rg_tensor *loops(rg_tensor *const in[], void *unused) {
    static rg_function_class product = { .name = "Product",
                                         .forward = looping_forward,
                                         .backward = looping_backward };
    (void)unused;
    return rg_function_apply(&product, NULL, in[0], in[1]);
}

/* In gradgradcheck's error message the outputs are the gradients. As in torch, only inputs that
 * require grad are counted. An element's indices are those in the input. */
START_TEST(test_a_backward_with_loops) {
    rg_tensor *in[] = { input(2, 3), input(2, 3) };
    rg_memory_may_stay = 1; /* The class of an op stays. */
    ck_assert_msg(rg_gradcheck(loops, NULL, 2, in), "%s", rg_error());
    ck_assert(!rg_gradgradcheck(loops, NULL, 2, in));
    const char *said = rg_error();
    ck_assert_msg(strstr(said, "No gradient reaches that input: does the backward of an op of your "
                               "own compute with loops?"),
                  "%s", said);
    ck_assert_msg(strstr(said, "for output 1 with respect to input 0: at output [1, 1] and input "
                               "[1, 1] the analytical value is 0"),
                  "%s", said);
    /* The only gradient is that of input 1. */
    in[0] = rg_detach(in[0]);
    ck_assert(!rg_gradgradcheck(loops, NULL, 2, in));
    ck_assert_msg(strstr(rg_error(), "for output 0 with respect to input 2: at output [1, 2]"),
                  "%s", rg_error());
    rg_error_clear();
}
END_TEST

/* The gradient is half of the right one. The call to which the context counts down fails. */
static rg_tensor *half_hidden_and_failing(rg_tensor *const in[], void *left) {
    if (--*(int *)left == 0)
        return rg_fail(RG_VALUE_ERROR, "failing", "this call has no value");
    return rg_mul(rg_detach(in[0]), in[0]);
}

/* If the function fails while gradcheck looks for the cause of a mismatch, it isn't called again.
 * The error is still the mismatch. */
START_TEST(test_failure_while_the_cause_is_looked_for) {
    rg_tensor *x = input(1, 2);
    int calls = 0;
    ck_fails(rg_gradcheck(half_hidden_and_failing, &calls, 1, &x), RG_RUNTIME_ERROR,
             "Jacobian mismatch");
    calls = -calls;
    for (int failing = 1; failing <= calls; failing++) {
        int left = failing;
        rg_error_clear();
        ck_assert(!rg_gradcheck(half_hidden_and_failing, &left, 1, &x));
        const char *said = rg_error();
        ck_assert_int_eq(left, 0);
        if (failing <= calls - 7)
            ck_assert_msg(strcmp(said, "failing: this call has no value") == 0, "%s", said);
        else
            ck_assert_msg(strstr(said, "Jacobian mismatch") && !strstr(said, "deterministic"), "%s",
                          said);
    }
    rg_error_clear();
}
END_TEST

/* ---- anomaly mode ---------------------------------------------------------------- */

#if __has_include(<execinfo.h>)
#define FRAME "test_gradcheck+0x"
#else
#define FRAME "not recorded"
#endif

START_TEST(test_anomaly_forward) {
    rg_tensor *big = rg_requires_grad_(rg_full_dims(RG_DIMS(2, 3), 1e200, RG_FLOAT64), true);
    ck_assert(!rg_set_detect_anomaly(true));
    rg_tensor *fine = rg_mul(big, 2);
    ck_ok(fine);
    ck_assert(rg_mul(fine, fine) == NULL);
    ck_assert_msg(strstr(rg_error(), "mul: the first inf arose forward in mul of [2, 3] [2, 3]"),
                  "%s", rg_error());
    /* A sanitizer's frames may come first. */
    const char *trace = strstr(rg_error(), "; forward call: ");
    ck_assert_msg(trace && strstr(trace, FRAME), "%s", rg_error());
    /* At most this number of frames is shown. */
    int frames = 1;
    for (const char *at = trace; (at = strstr(at, " < ")); at++)
        frames++;
    ck_assert_int_le(frames, 8);
    /* Files are named without their folders. */
    ck_assert_msg(!strchr(trace, '/'), "%s", rg_error());
    rg_error_clear();
    /* The infinity came in as an input, so no op is to blame. */
    ck_ok(rg_mul(rg_full_dims(RG_DIMS(2), INFINITY, RG_FLOAT64), 2));
    ck_assert(rg_set_detect_anomaly(false));
    ck_ok(rg_mul(fine, fine));
}
END_TEST

/* An op in place that makes NaN fails before it writes. The softmax of a row of -infinity, which a
 * mask may make, is NaN. */
START_TEST(test_anomaly_in_place) {
    rg_set_detect_anomaly(true);
    rg_tensor *x = rg_ones(2), *wide = rg_full_dims(RG_DIMS(2), 1e300, RG_FLOAT64);
    ck_fails(rg_div_(x, 0), RG_RUNTIME_ERROR, "the first inf arose forward in div of [2]");
    ck_fails(rg_log_(rg_zeros(2)), RG_RUNTIME_ERROR, "the first -inf arose forward in log");
    ck_fails(rg_sqrt_(rg_neg(x)), RG_RUNTIME_ERROR, "nan arose forward in sqrt");
    ck_fails(rg_copy_(x, wide), RG_RUNTIME_ERROR, "the first inf arose forward in");
    ck_assert(rg_equal(x, rg_ones(2)));
    ck_ok(rg_mul_(x, 3));
    ck_assert(rg_equal(x, rg_full(RG_DIMS(2), 3.)));
    rg_tensor *masked = rg_masked_fill(rg_ones(2, 2), rg_literal([ True, False ]), -INFINITY);
    ck_ok(rg_softmax(masked, -1));
    ck_fails(rg_softmax(rg_sub(masked, INFINITY), -1), RG_RUNTIME_ERROR,
             "nan arose forward in softmax of [2, 2]");
    rg_set_detect_anomaly(false);
}
END_TEST

/* The gradient of a distance that is NaN is the same by both ways, also where a difference is 0. */
START_TEST(test_slopes_of_nan_distances) {
    static const double orders[] = { 0.5, 1, 1.5, 2, 3, INFINITY };
    rg_tensor *b = rg_literal([[ 0., 1. ]]);
    for (int i = 0; i < RG_COUNT(orders); i++) {
        rg_tensor *a = rg_requires_grad_(rg_literal([[ nan, 1. ]]), true);
        rg_tensor *y = rg_cdist(a, b, .p = orders[i]);
        rg_tensor *g = rg_grad(y, a, .retain_graph = true);
        rg_tensor *h = rg_grad(y, a, .create_graph = true);
        ck_assert_str_eq(rg_repr(g), rg_repr(rg_detach(h)));
    }
}
END_TEST

/* An operand that overflows when it is converted to the op's dtype was finite. */
START_TEST(test_anomaly_of_converted_operands) {
    rg_tensor *h = rg_to(rg_ones(2), RG_FLOAT16), *wide = rg_literal([1, 70000]), *x = rg_ones(2);
    rg_tensor *first = rg_literal([ True, False ]), *huge = rg_scalar_dtype(1e300, RG_FLOAT64);
    rg_set_detect_anomaly(true);
    ck_fails(rg_add(h, wide), RG_RUNTIME_ERROR, "the first inf arose forward in add of [2] [2]");
    ck_fails(rg_add_(h, wide), RG_RUNTIME_ERROR, "the first inf arose forward in add of [2] [2]");
    ck_fails(rg_maximum(h, 70000), RG_RUNTIME_ERROR, "the first inf arose forward in maximum");
    ck_fails(rg_where(first, h, wide), RG_RUNTIME_ERROR, "the first inf arose forward in where");
    ck_fails(rg_cat(RG_LIST(h, wide), 0), RG_RUNTIME_ERROR, "the first inf arose forward in cat");
    ck_fails(rg_mul(x, 1e300), RG_RUNTIME_ERROR, "the first inf arose forward in mul of [2] []");
    ck_fails(rg_mul_(x, huge), RG_RUNTIME_ERROR, "the first inf arose forward in mul of [2] []");
    ck_ok(rg_add(h, 1000));
    ck_ok(rg_add(rg_float(h), wide));
    ck_ok(rg_add(h, rg_scalar_dtype(INFINITY, RG_FLOAT64)));
    rg_set_detect_anomaly(false);
}
END_TEST

START_TEST(test_anomaly_backward) {
    rg_tensor *x = rg_requires_grad_(rg_scalar_dtype(1e-200, RG_FLOAT64), true),
              *w = rg_scalar_dtype(1e200, RG_FLOAT64);
    rg_set_detect_anomaly(true);
    /* y is finite, but its gradient would be 1e390. */
    rg_tensor *y = rg_mul(rg_mul(rg_mul(x, w), 1e-10), w);
    ck_ok(y);
    ck_assert(!rg_backward(y));
    ck_assert_msg(
        strstr(rg_error(),
               "the first inf arose backward in MulBackward0, in the gradient of its input 0"),
        "%s", rg_error());
    ck_assert(rg_grad_of(x) == RG_NONE);
    rg_set_detect_anomaly(false);
}
END_TEST

/* After a backward run, with or without create_graph, forward calls are watched as before. */
START_TEST(test_anomaly_after_backward) {
    rg_tensor *x = input(2, 2);
    rg_set_detect_anomaly(true);
    ck_ok(rg_backward(rg_sum(rg_mul(rg_sin(x), x)), .retain_graph = true, .create_graph = true));
    ck_fails(rg_div(x, rg_zeros_like(x)), RG_RUNTIME_ERROR, "arose forward in div of");
    rg_set_detect_anomaly(false);
    rg_set_grad(x, RG_NONE);
}
END_TEST

/* An absent input is named "none", since it has no shape. */
START_TEST(test_anomaly_with_absent_inputs) {
    rg_tensor *big = rg_full_dims(RG_DIMS(1, 1, 3, 2), 1e200, RG_FLOAT64);
    rg_set_detect_anomaly(true);
    ck_fails(rg_scaled_dot_product_attention(big, big, big), RG_RUNTIME_ERROR,
             "arose forward in attention of [1, 1, 3, 2] [1, 1, 3, 2] [1, 1, 3, 2] none; ");
    rg_set_detect_anomaly(false);
}
END_TEST

/* An op isn't to blame for a NaN that came in with its input. */
START_TEST(test_anomaly_of_what_comes_in) {
    rg_tensor *x = input(2, 2);
    rg_set_detect_anomaly(true);
    rg_tensor *y = rg_mul(rg_mul(x, 2), 3);
    rg_tensor *g = rg_full_dims(RG_DIMS(2, 2), NAN, RG_FLOAT64);
    ck_ok(rg_backward(y, .gradient = g));
    rg_set_detect_anomaly(false);
    ck_assert(isnan(rg_at(rg_grad_of(x), 0, 0)));
}
END_TEST

static rg_tensor *tanh_of_both(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_tanh(rg_mul(in[0], in[1]));
}

/* The outputs aren't contiguous. */
static rg_list turned_list(rg_tensor *const in[], void *context) {
    static rg_tensor *y[2];
    (void)context;
    y[0] = rg_T(rg_mul(in[0], in[1]));
    y[1] = rg_T(rg_exp(in[0]));
    return (rg_list){ 2, y };
}

static rg_tensor *checked[2];
static bool check_both_orders(void) {
    RG_SCOPE();
    return rg_gradcheck(tanh_of_both, NULL, 2, checked)
           && rg_gradgradcheck(tanh_of_both, NULL, 2, checked)
           && rg_gradcheck_list(turned_list, NULL, 2, checked)
           && rg_gradgradcheck_list(turned_list, NULL, 2, checked);
}

static bool draw_graph(void) {
    RG_SCOPE();
    return rg_graph_dot(rg_sum(rg_mul(rg_sin(checked[0]), checked[1])));
}

/* After a write to its base, a view gets a new history when it is drawn. */
static bool draw_stale_view(void) {
    RG_SCOPE();
    rg_tensor *base = rg_mul(checked[0], 2), *view = base ? rg_select(base, 0, 0) : NULL;
    return view && rg_mul_(base, 2) && rg_graph_dot(view);
}

/* The output repeats one element, and isn't contiguous. */
static rg_tensor *two_squares(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_expand(rg_square(in[0]), 2, 1);
}

static bool check_two_squares(void) {
    RG_SCOPE();
    return rg_gradcheck(two_squares, NULL, 1, checked);
}

START_TEST(test_checks_without_memory) {
    for (int i = 0; i < 2; i++)
        checked[i] = input(1, 2);
    ck_ok(check_both_orders());
    deny_in_turn(check_both_orders, NULL);
    deny_in_turn(draw_graph, NULL);
    rg_set_name(checked[1], "a name that is longer than what the drawing has room for at first, "
                            "and needs memory of its own");
    deny_in_turn(draw_graph, NULL);
    deny_in_turn(draw_stale_view, NULL);
    checked[0] = input(1, 1);
    deny_in_turn(check_two_squares, NULL);
}
END_TEST

static bool run_watched(void) {
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(rg_ones(2), true);
    return x && rg_backward(rg_sum(rg_mul(rg_exp(x), x)));
}

START_TEST(test_anomaly_without_memory) {
    rg_set_detect_anomaly(true);
    ck_ok(run_watched());
    deny_in_turn(run_watched, NULL);
    rg_set_detect_anomaly(false);
}
END_TEST

/* A graph that grew before anomaly mode was on has no traces. */
START_TEST(test_anomaly_without_traces) {
    rg_tensor *x = input(1, 2), *y = rg_sum(rg_sqrt(rg_mul(x, 0)));
    rg_set_detect_anomaly(true);
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "; forward call: not recorded");
    rg_set_detect_anomaly(false);
}
END_TEST

/* q is NaN, so all gradients of attention are NaN. The gradient of the logarithms of sums is also
 * NaN, though the logarithms aren't used. */
START_TEST(test_anomaly_of_several_outputs) {
    rg_tensor *q = rg_requires_grad_(rg_full_dims(RG_DIMS(1, 1, 3, 4), NAN, RG_FLOAT64), true);
    rg_tensor *y = rg_sum(rg_scaled_dot_product_attention(q, q, q));
    rg_set_detect_anomaly(true);
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "the first nan arose backward in ");
    rg_set_detect_anomaly(false);
}
END_TEST

/* ---- where there is no slope ------------------------------------------------------- */

static rg_tensor *root_of_nothing(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_sqrt(rg_mul(in[0], 0));
}

static rg_tensor *nothing_at_all(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_reshape(in[0], 77);
}

/* A slope of NaN isn't the 0 that differences give, however large the tolerance is. */
START_TEST(test_slopes_of_nan) {
    rg_tensor *x = input(2, 2);
    ck_fails(rg_gradcheck(root_of_nothing, NULL, 1, &x), RG_RUNTIME_ERROR, "Jacobian mismatch");
    ck_fails(rg_gradcheck(root_of_nothing, NULL, 1, &x, .atol = 1e300), RG_RUNTIME_ERROR,
             "Jacobian mismatch");
    ck_fails(rg_gradcheck(nothing_at_all, NULL, 1, &x), RG_RUNTIME_ERROR, "reshape: ");
    ck_fails(rg_gradgradcheck(nothing_at_all, NULL, 1, &x), RG_RUNTIME_ERROR, "reshape: ");
}
END_TEST

static rg_tensor *times_nan(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(in[0], NAN);
}

/* If both slopes are NaN, they can't be compared, and the check fails. */
START_TEST(test_slopes_that_are_nan_by_both_ways) {
    rg_tensor *x = input(2, 2);
    ck_fails(rg_gradcheck(times_nan, NULL, 1, &x), RG_RUNTIME_ERROR, "Jacobian mismatch");
    ck_fails(rg_gradcheck(times_nan, NULL, 1, &x, .atol = INFINITY), RG_RUNTIME_ERROR,
             "Jacobian mismatch");
}
END_TEST

/* The op leaps over 0 by more than a double can hold. Its rule says that the slope is infinite. */
static bool leap_forward(rg_call *c) {
    const double *x = (const double *)(void *)c->in[0]->data;
    double *y = (double *)(void *)c->out[0]->data;
    for (int64_t i = 0; i < c->in[0]->numel; i++)
        y[i] = x[i] > 0 ? DBL_MAX : -DBL_MAX;
    return true;
}

static rg_tensor *leap_rule(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_masked_fill(g, rg_ne(g, 0), INFINITY);
}

static RG_OP(leap, .doc = "a leap over 0", .node = "LeapBackward0", .n_in = 1,
             .shape = rgi_shape_same, .forward = leap_forward, .grad = { RG_RULE(0, leap_rule) });

static rg_tensor *leap(rg_tensor *const in[], void *context) {
    (void)context;
    return rgi_apply(&rg_op_leap, NULL, 0, 1, in);
}

/* If both slopes are infinite, they agree. */
START_TEST(test_infinite_slopes) {
    rg_tensor *x = rg_requires_grad_(rg_zeros_dims(RG_DIMS(2), RG_FLOAT64), true);
    ck_ok(rg_gradcheck(leap, NULL, 1, &x));
}
END_TEST

/* ---- drawing --------------------------------------------------------------------- */

START_TEST(test_graph_dot) {
    rg_tensor *x = rg_set_name(input(2, 3), "x"),
              *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true);
    rg_set_name(w, "a \"quoted\"\nname");
    rg_tensor *y = rg_sum(rg_mul(rg_add(x, w), x));
    const char *dot = rg_graph_dot(y);
    ck_ok(dot);
    ck_assert_str_eq(
        dot, "digraph regard {\n    rankdir=BT\n    node [fontname=\"sans-serif\"]\n"
             "    n0 [label=\"SumBackward0\\n[]\"]\n    n1 -> n0\n"
             "    n1 [label=\"MulBackward0\\n[2, 3]\"]\n    n2 -> n1\n"
             "    leaf0 [shape=box, style=filled, fillcolor=lightblue, label=\"x\\n[2, 3]\"]\n"
             "    leaf0 -> n1\n"
             "    n2 [label=\"AddBackward0\\n[2, 3]\"]\n    leaf0 -> n2\n"
             "    leaf1 [shape=box, style=filled, fillcolor=lightblue, "
             "label=\"a \\\"quoted\\\" name\\n[3]\"]\n"
             "    leaf1 -> n2\n"
             "}\n");
    /* A long name is drawn whole. */
    char name[200] = "";
    memset(name, 'n', sizeof name - 1);
    rg_set_name(w, name);
    ck_assert(strstr(rg_graph_dot(y), name));
    /* Drawing has left the graph as it was. */
    ck_ok(rg_backward(y));
    /* A node with several outputs is one node, and edges count nodes, not outputs. */
    rg_tensor *most = rg_max_dim(rg_exp(x), 1, false).values;
    const char *of_two = rg_graph_dot(rg_mul(most, rg_select(x, 1, 0)));
    for (int i = 1; i < 5; i++) {
        char edge[24];
        snprintf(edge, sizeof edge, "    n%d -> n", i);
        ck_assert_msg((strstr(of_two, edge) != NULL) == (i < 4), "'%s' in %s", edge, of_two);
    }
    ck_fails(rg_graph_dot(rg_ones(2)), RG_RUNTIME_ERROR, "no graph behind it");
    ck_fails(rg_graph_save(y, "/nowhere/at/all.dot"), RG_IO_ERROR,
             "No such file or directory: '/nowhere/at/all.dot'");
    ck_fails(rg_graph_save(y, NULL), RG_TYPE_ERROR, "path");
}
END_TEST

START_TEST(test_graph_save) {
    char path[] = "/tmp/graphXXXXXX", text[1024];
    const int made = mkstemp(path);
    ck_assert_int_ge(made, 0);
    close(made);
    rg_tensor *y = rg_sum(rg_exp(input(2, 3)));
    ck_ok(rg_graph_save(y, path));
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_str_eq(text, rg_graph_dot(y));
    /* If rg_graph_save can't write the whole drawing, the old file stays. */
    const struct rlimit small = { .rlim_cur = 64, .rlim_max = RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_fails(rg_graph_save(rg_neg(y), path), RG_IO_ERROR, "File too large");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
    char after[sizeof text] = "";
    file = fopen(path, "r");
    after[fread(after, 1, sizeof after - 1, file)] = 0;
    fclose(file);
    remove(path);
    ck_assert_str_eq(after, text);
}
END_TEST

/* The nodes of each drawing are numbered from 0, even if the graph was a part of another
 * drawing. */
START_TEST(test_drawn_numbers) {
    rg_tensor *y = rg_cos(input(2, 3)), *z = rg_sin(y);
    const char *alone = rg_graph_dot(y);
    ck_assert(alone && strstr(alone, "n0 ") && rg_graph_dot(z));
    ck_assert_str_eq(rg_graph_dot(y), alone);
}
END_TEST

/* Names of any length fit, however many of their characters must be escaped. */
START_TEST(test_drawn_names_of_all_lengths) {
    char name[200];
    for (int n = 1; n < 150; n++) {
        RG_SCOPE();
        memset(name, '"', (size_t)n);
        name[n] = 0;
        rg_tensor *x = rg_set_name(input(2, 3), name);
        const char *dot = rg_graph_dot(rg_mul(x, 2));
        ck_assert(dot && strstr(dot, "\\\""));
    }
}
END_TEST

START_TEST(test_drawn_names) {
    char name[200], want[240];
    memset(name, 'a', sizeof name);
    name[199] = 0;
    rg_tensor *x = rg_set_name(input(2, 1), name), *unnamed = input(2, 1);
    rg_tensor *y = rg_set_name(rg_mul(x, unnamed), "a\tb\\c"), *one = rg_set_name(input(3, 1), "x");
    const char *dot = rg_graph_dot(y);
    snprintf(want, sizeof want, "label=\"%s\\n[2, 1]\"", name);
    ck_assert_msg(strstr(dot, want), "%s", dot);
    ck_assert_msg(strstr(dot, "label=\"leaf\\n[2, 1]\""), "%s", dot);
    ck_assert_msg(strstr(dot, "n0 [label=\"a b\\\\c\\nMulBackward0\\n[2, 1]\"]"), "%s", dot);
    ck_assert_str_eq(
        rg_graph_dot(one),
        "digraph regard {\n    rankdir=BT\n    node [fontname=\"sans-serif\"]\n"
        "    leaf0 [shape=box, style=filled, fillcolor=lightblue, label=\"x\\n[3, 1]\"]\n}\n");
    /* Each of many leaves is drawn once. */
    rg_tensor *leaves[100];
    for (int i = 0; i < 100; i++)
        leaves[i] = i < 70 ? input(1, 1) : leaves[i - 70];
    dot = rg_graph_dot(rg_cat(rg_list_of(100, leaves), 0));
    ck_assert(strstr(dot, "leaf69 -> n0") && !strstr(dot, "leaf70"));
    /* Absent inputs aren't drawn. */
    dot = rg_graph_dot(rg_layer_norm(x, RG_DIMS(1), RG_NONE, RG_NONE, 1e-5));
    int arrows = 0;
    for (const char *at = dot; (at = strstr(at, "->")); at++)
        arrows++;
    ck_assert_int_eq(arrows, 1);
}
END_TEST

RG_TESTS(gradcheck, test_within_no_grad, test_mismatch_names_its_input,
         test_gradients_that_are_cut_off, test_each_element_is_checked,
         test_gradients_of_either_sign, test_drawn_names_of_all_lengths, test_drawn_numbers,
         test_planted_faults_are_rejected, test_the_report_names_the_worst_element,
         test_what_gradcheck_asks_for, test_failing_backward, test_many_inputs,
         test_several_outputs, test_leaves_as_outputs, test_outputs_and_inputs_of_all_kinds,
         test_drawn_names, test_likely_causes, test_wrong_factors,
         test_a_backward_with_loops, test_failure_while_the_cause_is_looked_for,
         test_graph_save, test_anomaly_forward, test_anomaly_backward, test_anomaly_in_place,
         test_slopes_of_nan_distances, test_anomaly_of_converted_operands,
         test_anomaly_after_backward, test_anomaly_of_what_comes_in,
         test_anomaly_with_absent_inputs, test_checks_without_memory, test_anomaly_without_memory,
         test_graph_dot, test_anomaly_without_traces, test_anomaly_of_several_outputs,
         test_slopes_of_nan, test_slopes_that_are_nan_by_both_ways, test_infinite_slopes)

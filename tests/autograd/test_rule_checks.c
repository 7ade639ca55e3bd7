/*
 * test_rule_checks.c: rg_function_check names the rule that an op breaks, and the input or output
 * at which the op breaks the rule. The op has two inputs and two outputs. Each mistake is planted
 * at the first input or output, and then at the second.
 */
#include "autograd/tools/function.h"
#include "tensor/base.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rg_tensor *wave(int64_t n, int64_t m, double from) {
    rg_tensor *x = rg_zeros_dims(RG_DIMS(n, m), RG_FLOAT64);
    for (int64_t i = 0; i < n * m; i++)
        ((double *)rg_data(x))[i] = from + 0.37 * (double)i;
    return rg_requires_grad_(x, true);
}

/* ---- y0 = a^2 b, y1 = a b^2 --------------------------------------------------------------- */

typedef enum {
    HONEST,
    NAN_AT_FIRST,
    OTHER_AGAIN,
    OTHER_SHAPE_AGAIN,
    FAILS_AGAIN,
    OTHER_UNGRAPHED,
    FAILS_UNGRAPHED,
    ONE_DTYPE,
    ONE_NARROW_DTYPE,
    FEW_DIGITS,
    FEW_DIGITS_BACK,
    FAILS_IN_FLOAT32,
    OTHER_IN_FLOAT32,
    WRITES_INPUT,
    WRITES_INPUT_IN_PLACE,
    WRITES_GRADIENT,
    WRITES_GRADIENT_IN_PLACE,
    WRITES_OUTPUT,
    WRITES_INPUT_BACK,
    OTHER_ALONE,
    FAILS_ALONE,
    OTHER_OUTPUT_ALONE,
    FAILS_OUTPUT_ALONE,
    NO_GRADIENT,
    WRONG_FACTOR,
    WRONG_SHAPE,
    NEEDS_ROWS,
    REFUSES_STRIDES,
    REFUSES_ZERO_STRIDES,
    NEEDS_ROWS_BACK,
    REFUSES_STRIDES_BACK,
    REFUSES_ZERO_STRIDES_BACK,
    READS_WRITTEN,
    READS_RELEASED,
    NO_HISTORY,
    FAILS_WITH_GRAPH,
    WRONG_SECOND,
    OTHER_IN_REPLAY,
    OTHER_GRADIENT_IN_REPLAY,
    FAILS_IN_REPLAY,
    LEAKS,
    LEAKS_WHERE_DENIED,
    ANOTHER_ERROR,
    GOES_ON,
    N_MISTAKES
} mistake;

/* The planted mistake, the number of its input or output, and the number of calls of forward. */
static mistake planted;
static int at, calls;
/* The call of forward that fails, or 0. */
static int fails_at;

typedef struct {
    int runs;
} twin_args;
typedef struct {
    bool replayed;
    rg_tensor *input;
} twin_state;

static bool is_at(mistake m, int i) { return planted == m && at == i; }

/* Returns t with the elements read in the order of memory, as if t were contiguous. */
static rg_tensor *by_rows(rg_tensor *t) {
    rg_tensor *copy = rg_empty_like(t);
    if (copy)
        memcpy(rg_data(copy), rg_data(t),
               (size_t)rg_numel(t) * (rg_dtype_of(t) == RG_FLOAT64 ? 8 : 4));
    return copy;
}

static bool has_zero_stride(rg_tensor *t) {
    for (int d = 0; d < rg_ndim(t); d++)
        if (rg_stride(t, d) == 0)
            return true;
    return false;
}

static bool refuses(rg_tensor *t, bool strided, bool expanded) {
    return (strided && !rg_is_contiguous(t)) || (expanded && has_zero_stride(t));
}

/* Changes an element of a tensor in memory, which its version doesn't show. */
static void scribble(rg_tensor *t) {
    if (rg_dtype_of(t) == RG_FLOAT64)
        ((double *)rg_data(t))[1] += 1;
    else
        ((float *)rg_data(t))[1] += 1;
}

static rg_tensor *with_few_digits(rg_tensor *t) {
    return rg_to(rg_to(t, RG_FLOAT32), (rg_dtype)rg_dtype_of(t));
}

static rg_tensor *leaked[4000];
static int n_leaked;

static bool keeps_memory(rg_tensor *const y[]) {
    if (planted == LEAKS) {
        ck_assert_int_lt(n_leaked, RG_COUNT(leaked));
        leaked[n_leaked++] = rg_keep(rg_ones(1000));
    }
    if (planted == ANOTHER_ERROR && (!y[0] || !y[1]))
        rg_error_clear();
    return y[0] && y[1];
}

/* Returns whether forward is to fail. */
static bool fails(rg_function_context *ctx, rg_tensor *const in[], bool replayed) {
    const bool ungraphed = !rg_needs_input_grad(ctx, 0) && !rg_needs_input_grad(ctx, 1);
    return (planted == FAILS_AGAIN && calls == 2) || (planted == FAILS_UNGRAPHED && ungraphed)
           || calls == fails_at || (planted == FAILS_IN_FLOAT32 && rg_dtype_of(in[0]) == RG_FLOAT32)
           || (planted == FAILS_IN_REPLAY && replayed)
           || refuses(in[at], planted == REFUSES_STRIDES, planted == REFUSES_ZERO_STRIDES);
}

/* Returns output number `at` with the mistake in it. */
static rg_tensor *mistaken(rg_function_context *ctx, rg_tensor *y, bool replayed) {
    const bool ungraphed = !rg_needs_input_grad(ctx, 0) && !rg_needs_input_grad(ctx, 1);
    if ((planted == OTHER_AGAIN && calls == 2) || (planted == OTHER_UNGRAPHED && ungraphed)
        || (planted == OTHER_IN_REPLAY && replayed)
        || (planted == OTHER_IN_FLOAT32 && rg_dtype_of(y) == RG_FLOAT32))
        return rg_mul(y, 1.01);
    if (planted == NAN_AT_FIRST && calls == 1)
        return rg_mul(y, NAN);
    if (planted == OTHER_SHAPE_AGAIN && calls == 2)
        return rg_unsqueeze(y, 0);
    if (planted == ONE_DTYPE)
        return rg_to(y, RG_FLOAT64);
    if (planted == ONE_NARROW_DTYPE)
        return rg_to(y, RG_FLOAT32);
    return planted == FEW_DIGITS ? with_few_digits(y) : y;
}

static bool twin_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    /* Forward must only read the args. A forward that writes to them finds the changed args in a
     * replay. */
    const bool replayed = ++((twin_args *)rg_function_args(ctx))->runs > 1;
    twin_state *state = rg_function_state(ctx);
    calls++;
    state->replayed = replayed;
    state->input = in[at];
    if (fails(ctx, in, replayed))
        return false;
    rg_tensor *x[] = { in[0], in[1] };
    if (planted == NEEDS_ROWS)
        x[at] = by_rows(x[at]);
    if (planted == LEAKS_WHERE_DENIED) {
        rg_tensor *kept = rg_keep(rg_ones(100));
        if (!kept)
            return false;
        leaked[n_leaked++] = kept;
    }
    out[0] = rg_mul(rg_square(x[0]), x[1]);
    out[1] = rg_mul(x[0], rg_square(x[1]));
    if (planted == GOES_ON && (!out[0] || !out[1])) {
        rg_error_clear();
        out[0] = rg_zeros_like(x[0]);
        out[1] = rg_zeros_like(x[1]);
    }
    if (!keeps_memory(out))
        return false;
    if (planted == LEAKS_WHERE_DENIED)
        rg_drop(leaked[--n_leaked]);
    out[at] = mistaken(ctx, out[at], replayed);
    if (planted == WRITES_INPUT)
        scribble(in[at]);
    if (planted == WRITES_INPUT_IN_PLACE)
        rg_mul_(in[at], 2);
    if (planted == READS_WRITTEN)
        return rg_save_for_backward(ctx, at == 0 ? RG_NONE : in[0], at == 1 ? RG_NONE : in[1],
                                    out[0], out[1]);
    return rg_save_for_backward(ctx, in[0], in[1], out[0], out[1]);
}

/* Returns whether backward is to fail. */
static bool fails_back(rg_function_context *ctx, rg_tensor *const g[]) {
    const bool alone = planted == FAILS_ALONE && !rg_needs_input_grad(ctx, 1 - at);
    const bool output_alone = planted == FAILS_OUTPUT_ALONE && g[1 - at] == RG_NONE;
    return alone || output_alone || (planted == FAILS_WITH_GRAPH && rg_is_grad_enabled())
           || (g[at] != RG_NONE
               && refuses(g[at], planted == REFUSES_STRIDES_BACK,
                          planted == REFUSES_ZERO_STRIDES_BACK));
}

/* Returns the gradient of input number `at` with the mistake in it. */
static rg_tensor *mistaken_back(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gx) {
    const twin_state *state = rg_function_state(ctx);
    if (planted == NO_GRADIENT)
        return RG_NONE;
    if (planted == WRONG_FACTOR || (planted == OTHER_GRADIENT_IN_REPLAY && state->replayed)
        || (planted == OTHER_ALONE && !rg_needs_input_grad(ctx, 1 - at))
        || (planted == OTHER_OUTPUT_ALONE && g[1 - at] == RG_NONE))
        return rg_mul(gx, 1.01);
    if (planted == NO_HISTORY)
        return rg_detach(gx);
    if (planted == WRONG_SHAPE)
        return rg_sum(gx);
    return planted == FEW_DIGITS_BACK ? with_few_digits(gx) : gx;
}

static bool twin_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const twin_state *state = rg_function_state(ctx);
    rg_tensor *x[] = { rg_saved_tensor(ctx, 0), rg_saved_tensor(ctx, 1) };
    rg_tensor *gy[2];
    if (planted == READS_WRITTEN)
        x[at] = state->input;
    if (!x[0] || !x[1] || fails_back(ctx, g))
        return false;
    for (int k = 0; k < 2; k++) {
        gy[k] = g[k] == RG_NONE ? rg_zeros_like(x[0]) : g[k];
        if (is_at(NEEDS_ROWS_BACK, k))
            gy[k] = by_rows(gy[k]);
    }
    if (planted == WRONG_SECOND)
        x[at] = rg_detach(x[at]);
    rg_tensor *both = rg_mul(rg_mul(x[0], x[1]), 2);
    gin[0] = rg_add(rg_mul(gy[0], both), rg_mul(gy[1], rg_square(x[1])));
    gin[1] = rg_add(rg_mul(gy[0], rg_square(x[0])), rg_mul(gy[1], both));
    if (!gin[0] || !gin[1])
        return false;
    /* The released input is only used for its shape. */
    if (planted == READS_RELEASED)
        gin[at] = rg_mul(gin[at], rg_ones_like(state->input));
    if (!gin[at])
        return false;
    gin[at] = mistaken_back(ctx, g, gin[at]);
    if (planted == WRITES_GRADIENT && g[at] != RG_NONE)
        scribble(g[at]);
    if (planted == WRITES_GRADIENT_IN_PLACE && g[at] != RG_NONE)
        rg_mul_(g[at], 1.5);
    if (planted == WRITES_OUTPUT)
        scribble(rg_saved_tensor(ctx, 2 + at));
    if (planted == WRITES_INPUT_BACK)
        scribble(x[at]);
    return gin[at] != NULL;
}

/* ---- error messages ----------------------------------------------------------------------- */

/* %d stands for the number of the input or output with the mistake, and $ for the other one. */
static const char *const sentence_of[N_MISTAKES] = {
    [NAN_AT_FIRST] = "Twin: output %d has other values in a second call with the same inputs",
    [OTHER_AGAIN] = "Twin: output %d has other values in a second call with the same inputs: "
                    "forward isn't deterministic, or leaves elements without a value",
    [OTHER_SHAPE_AGAIN] = "Twin: output %d has other values in a second call",
    [FAILS_AGAIN] = "Twin: in a second call: Twin: forward failed, and said nothing",
    [OTHER_UNGRAPHED] = "Twin: output %d has other values without grad mode",
    [FAILS_UNGRAPHED] = "Twin: without grad mode: Twin: forward failed",
    [ONE_DTYPE] = "Twin: output %d is torch.float64 for inputs of float32 and of float64",
    [ONE_NARROW_DTYPE] = "Twin: output %d is torch.float32 for inputs of float32 and of float64",
    [FEW_DIGITS] = "Twin: output %d has the precision of float32 for inputs of float64",
    [FEW_DIGITS_BACK] = "Twin: the gradient of input %d has the precision of float32 for inputs "
                        "of float64",
    [FAILS_IN_FLOAT32] = "Twin: with float32 inputs: Twin: forward failed",
    [OTHER_IN_FLOAT32] = "Twin: output %d has other values in float32 than in float64",
    [WRITES_INPUT] = "Twin: forward writes to input %d",
    [WRITES_INPUT_IN_PLACE] = "Twin: forward wrote to input %d in place",
    [WRITES_GRADIENT] = "Twin: backward writes to the gradient of output %d",
    [WRITES_GRADIENT_IN_PLACE] = "Twin: backward writes to the gradient of output %d",
    [WRITES_OUTPUT] = "Twin: backward writes to output %d",
    [WRITES_INPUT_BACK] = "Twin: backward writes to input %d",
    [OTHER_ALONE] = "Twin: the gradient of input %d has other values where only input %d requires "
                    "grad",
    [FAILS_ALONE] = "Twin: where only input %d requires grad: Twin: backward failed",
    [OTHER_OUTPUT_ALONE] = "has other values where a gradient reaches output %d alone",
    [FAILS_OUTPUT_ALONE] = "Twin: where a gradient reaches output %d alone: Twin: backward failed",
    [NO_GRADIENT] = "Twin: backward makes no gradient of input %d, on which the outputs depend",
    [WRONG_FACTOR] = "with respect to input %d: at output",
    [WRONG_SHAPE] = "Function TwinBackward returned an invalid gradient at index %d - got [] but "
                    "expected shape compatible with [2, 3]",
    [NEEDS_ROWS] = "Twin: output 0 has other values where input %d isn't contiguous",
    [REFUSES_STRIDES] = "Twin: where input %d isn't contiguous: Twin: forward failed",
    [REFUSES_ZERO_STRIDES] = "Twin: where input %d is expanded, and has a stride of 0: Twin: "
                             "forward failed",
    [NEEDS_ROWS_BACK] = "Twin: the gradient of input 0 has other values where the gradient of "
                        "output %d isn't contiguous",
    [REFUSES_STRIDES_BACK] = "Twin: where the gradient of output %d isn't contiguous: Twin: "
                             "backward failed",
    [REFUSES_ZERO_STRIDES_BACK] = "Twin: where the gradient of output %d is expanded, and has a "
                                  "stride of 0: Twin: backward failed",
    [READS_WRITTEN] = "has other values where input %d was written to before backward, which "
                      "nobody noticed: keep what backward reads by rg_save_for_backward",
    [READS_RELEASED] = "Twin: backward reads a tensor that is gone: keep what it reads by "
                       "rg_save_for_backward: ones_like: tensor released by rg_drop",
    [NO_HISTORY] = "Twin: the gradient of input %d has no history",
    [FAILS_WITH_GRAPH] = "Twin: where a graph of the gradients is created: Twin: backward failed",
    [WRONG_SECOND] = "Twin: second derivatives don't agree with finite differences: ",
    [OTHER_IN_REPLAY] = "Twin: output %d has other values in a run of a recorded step",
    [OTHER_GRADIENT_IN_REPLAY] = "Twin: the gradient of input %d has other values in a run of a "
                                 "recorded step",
    [FAILS_IN_REPLAY] = "Twin: in a run of a recorded step: Twin: forward failed",
    [LEAKS] = "Twin: each forward and backward leaks ",
    [LEAKS_WHERE_DENIED] = "bytes where memory runs out",
    [ANOTHER_ERROR] = "Twin: where memory runs out it fails with another error: Twin: forward "
                      "failed, and said nothing",
    [GOES_ON] = "Twin: it goes on where memory runs out",
};

/* A class has one row, which is made at its first use, so each mistake needs a class of its own. */
static bool twin_passes(rg_function_class *twin, rg_tensor *a, rg_tensor *b) {
    *twin = (rg_function_class){ .name = "Twin",
                                 .forward = twin_forward,
                                 .backward = twin_backward,
                                 .outputs = 2,
                                 .unmaterialized_grads = true,
                                 .args_bytes = sizeof(twin_args),
                                 .state_bytes = sizeof(twin_state) };
    const twin_args args = { 0 };
    calls = 0;
    return rg_function_check(twin, &args, RG_LIST(a, b));
}

START_TEST(test_each_rule_at_each_place) {
    static rg_function_class twins[N_MISTAKES][2];
    rg_tensor *a = wave(2, 3, 0.3), *b = wave(2, 3, 0.9);
    for (planted = HONEST; planted < N_MISTAKES; planted++)
        for (at = 0; at < 2; at++) {
            /* An error from before the check, which was read, doesn't change the outcome. If the
             * check fails, its own error replaces the old one. */
            rg_error_clear();
            rg_fail(at ? RG_OUT_OF_MEMORY : RG_VALUE_ERROR, "test", "it stands from before");
            ck_assert(*rg_error());
            const bool passed = twin_passes(&twins[planted][at], a, b);
            if (planted == HONEST) {
                ck_assert(passed && strstr(rg_error(), "it stands from before"));
                continue;
            }
            char said[300];
            snprintf(said, sizeof said, sentence_of[planted], at, at);
            ck_assert_msg(!passed, "not noticed at %d: %s", at, said);
            ck_assert_msg(strstr(rg_error(), said), "%s, not %s", rg_error(), said);
        }
    rg_error_clear();
    while (n_leaked > 0)
        rg_drop(leaked[--n_leaked]);
}
END_TEST

/* Inputs that require grad are differentiated, and no others. All inputs are copied. */
START_TEST(test_what_is_asked_for) {
    static rg_function_class twins[4];
    rg_tensor *a = wave(2, 3, 0.3), *b = wave(2, 3, 0.9);
    rg_tensor *was_a = rg_clone(a), *was_b = rg_clone(b);
    planted = WRONG_FACTOR;
    for (at = 0; at < 2; at++) {
        ck_ok(twin_passes(&twins[at], at == 0 ? rg_detach(a) : a, at == 1 ? rg_detach(b) : b));
        ck_assert(
            !twin_passes(&twins[2 + at], at == 1 ? rg_detach(a) : a, at == 0 ? rg_detach(b) : b));
        rg_error_clear();
    }
    ck_assert(rg_equal(a, was_a) && rg_equal(b, was_b));
    ck_assert(rg_grad_of(a) == RG_NONE && rg_grad_of(b) == RG_NONE);
}
END_TEST

/* The message has the number of leaked bytes. */
START_TEST(test_leaks_are_counted) {
    static rg_function_class twin;
    char said[100];
    at = 0;
    leaked[n_leaked++] = rg_keep(rg_ones(1000));
    const int64_t before = rg_memory_stats().now;
    leaked[n_leaked++] = rg_keep(rg_ones(1000));
    snprintf(said, sizeof said, "leaks %lld bytes", (long long)(rg_memory_stats().now - before));
    planted = LEAKS;
    ck_assert(!twin_passes(&twin, wave(2, 3, 0.3), wave(2, 3, 0.9)));
    ck_assert_msg(strstr(rg_error(), said), "%s, not %s", rg_error(), said);
    while (n_leaked > 0)
        rg_drop(leaked[--n_leaked]);
}
END_TEST

/* ---- ops that are honest, though they look odd ----------------------------------------------- */

/* y = x rounded down. Even if x has many digits, the result and the gradient have few. */
static bool floor_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_floor(in[0]);
    return out[0] != NULL;
}

static bool floor_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_zeros_like(g[0]);
    return gin[0] != NULL;
}

/* y = the sum of all inputs */
static bool sum_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    const int n = *(const int *)rg_function_args(ctx);
    out[0] = rg_clone(in[0]);
    for (int i = 1; i < n; i++)
        out[0] = rg_add(out[0], in[i]);
    return out[0] != NULL;
}

static bool sum_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const int n = *(const int *)rg_function_args(ctx);
    for (int i = 0; i < n; i++)
        gin[i] = g[0];
    return true;
}

/* y = how many of a are positive, a whole number */
static bool count_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_sum(rg_to(rg_gt(in[0], 0), RG_INT64));
    return out[0] != NULL;
}

/* y = floor(a) + floor(b). The gradients are 0: backward returns no gradients, or zeros. If
 * `wrong`, it returns ones where a alone needs a gradient. */
static bool floors_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_add(rg_floor(in[0]), rg_floor(in[1]));
    return out[0] != NULL;
}

static bool floors_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const bool both = rg_needs_input_grad(ctx, 0) && rg_needs_input_grad(ctx, 1);
    const bool wrong = *(const int *)rg_function_args(ctx);
    for (int i = 0; i < 2 && !both; i++)
        gin[i] = wrong ? rg_ones_like(g[0]) : rg_zeros_like(g[0]);
    return both || (gin[0] && gin[1]);
}

/* y = x / 4. If x has few digits, so has y. */
static bool quarter_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_mul(in[0], 0.25);
    return out[0] != NULL;
}

static bool quarter_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 0.25);
    return gin[0] != NULL;
}

/* y = x / 4, with few digits in the first element alone; the other elements are 1 */
static bool first_narrow_forward(rg_function_context *ctx, rg_tensor *const in[],
                                 rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_to(rg_to(rg_mul(in[0], 0.25), RG_FLOAT32), (rg_dtype)rg_dtype_of(in[0]));
    return out[0] && rg_fill_(rg_slice(out[0], 0, 1, rg_size(out[0], 0), 1), 1);
}

/* y = the sum of n, times a. n has whole numbers, so the check doesn't call forward with an n that
 * has gaps in memory. Backward reads n itself, not a saved copy. */
static bool times_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    *(rg_tensor **)rg_function_state(ctx) = in[1];
    if (!rg_is_contiguous(in[1]) || has_zero_stride(in[1]))
        return false;
    out[0] = rg_mul(in[0], rg_sum(in[1]));
    return out[0] != NULL;
}

static bool times_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(g[0], rg_sum(*(rg_tensor **)rg_function_state(ctx)));
    return gin[0] != NULL;
}

/* y = x^3. The square is computed again in backward, or is saved as an intermediate result, which
 * has no history. */
static bool cubed_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    rg_tensor *square = rg_square(in[0]);
    out[0] = rg_mul(square, in[0]);
    return out[0] && rg_save_for_backward(ctx, in[0], planted == HONEST ? RG_NONE : square);
}

static bool cubed_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *x = rg_saved_tensor(ctx, 0), *square = rg_saved_tensor(ctx, 1);
    gin[0] = rg_mul(g[0], rg_mul(square == RG_NONE ? rg_square(rg_detach(x)) : square, 3));
    return gin[0] != NULL;
}

/* y = x^3, and a whole number */
static bool cubed_and_one_forward(rg_function_context *ctx, rg_tensor *const in[],
                                  rg_tensor *out[]) {
    out[1] = rg_arange(3);
    return out[1] && cubed_forward(ctx, in, out);
}

/* The message suggests an intermediate result as the cause only if backward reads one. */
START_TEST(test_what_leads_second_derivatives_on) {
    static rg_function_class cubed[4] = {
        { .name = "Cubed", .forward = cubed_forward, .backward = cubed_backward },
        { .name = "Cubed", .forward = cubed_forward, .backward = cubed_backward },
        { .name = "CubedAndOne",
          .forward = cubed_and_one_forward,
          .backward = cubed_backward,
          .outputs = 2 },
        { .name = "CubedWithAByte",
          .forward = cubed_forward,
          .backward = cubed_backward,
          .state_bytes = 1 }
    };
    planted = WRONG_SECOND;
    ck_fails(rg_function_check(&cubed[0], NULL, RG_LIST(wave(2, 3, 0.3))), RG_RUNTIME_ERROR,
             "Cubed: second derivatives don't agree with finite differences; backward reads an "
             "intermediate result, but only what is an input or an output leads them on: ");
    planted = HONEST;
    ck_fails(rg_function_check(&cubed[1], NULL, RG_LIST(wave(2, 3, 0.3))), RG_RUNTIME_ERROR,
             "Cubed: second derivatives don't agree with finite differences: ");
    ck_fails(rg_function_check(&cubed[2], NULL, RG_LIST(wave(2, 3, 0.3))), RG_RUNTIME_ERROR,
             "CubedAndOne: second derivatives don't agree with finite differences: ");
    ck_fails(rg_function_check(&cubed[3], NULL, RG_LIST(wave(2, 3, 0.3))), RG_RUNTIME_ERROR,
             "CubedWithAByte: second derivatives don't agree with finite differences: ");
}
END_TEST

START_TEST(test_whole_numbers_are_asked_nothing) {
    static rg_function_class times = { .name = "Times",
                                       .forward = times_forward,
                                       .backward = times_backward,
                                       .state_bytes = sizeof(rg_tensor *) };
    rg_tensor *a = wave(2, 3, 0.3), *n = rg_reshape(rg_arange(6), 2, 3);
    ck_ok(rg_function_check(&times, NULL, RG_LIST(a, n)));
    ck_ok(rg_function_check(&times, NULL, RG_LIST(a, n, RG_NONE)));
}
END_TEST

/* y = a^2, but each run of a recorded step gives the result that was computed while recording. */
typedef struct {
    rg_tensor *made;
} remembers_args;

static bool remembers_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    remembers_args *args = (remembers_args *)rg_function_args(ctx);
    out[0] = args->made ? rg_clone(args->made) : rg_square(in[0]);
    if (!args->made) {
        ck_assert_int_lt(n_leaked, RG_COUNT(leaked));
        args->made = leaked[n_leaked++] = rg_keep(rg_clone(out[0]));
    }
    return rg_save_for_backward(ctx, in[0]);
}

static bool square_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(rg_mul(g[0], 2), rg_saved_tensor(ctx, 0));
    return gin[0] != NULL;
}

/* y = floor(a) + b^2, with a wrong gradient of b */
static bool half_wrong_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_add(rg_floor(in[0]), rg_square(in[1]));
    return out[0] && rg_save_for_backward(ctx, in[1]);
}

static bool half_wrong_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    if (rg_needs_input_grad(ctx, 1))
        gin[1] = rg_mul(rg_mul(g[0], 3), rg_saved_tensor(ctx, 0));
    return true;
}

/* A mistake at one input isn't reported at another. */
START_TEST(test_each_input_is_told_apart) {
    static rg_function_class remembers = { .name = "Remembers",
                                           .forward = remembers_forward,
                                           .backward = square_backward,
                                           .args_bytes = sizeof(remembers_args) };
    static rg_function_class half_wrong = { .name = "HalfWrong",
                                            .forward = half_wrong_forward,
                                            .backward = half_wrong_backward };
    static rg_function_class twins[2];
    const remembers_args args = { NULL };
    rg_tensor *a = wave(2, 3, 0.3), *b = wave(2, 3, 0.9);
    ck_fails(rg_function_check(&remembers, &args, RG_LIST(a)), RG_RUNTIME_ERROR,
             "Remembers: output 0 has other values in a run of a recorded step");
    while (n_leaked > 0)
        rg_drop(leaked[--n_leaked]);
    ck_fails(rg_function_check(&half_wrong, NULL, RG_LIST(a, b)), RG_RUNTIME_ERROR,
             "HalfWrong: backward doesn't agree with finite differences: gradcheck: Jacobian "
             "mismatch for output 0 with respect to input 1");
    /* Each input may be float32. The check converts it to float64. */
    planted = HONEST;
    for (at = 0; at < 2; at++) {
        rg_tensor *narrow = rg_requires_grad_(rg_float(rg_detach(at ? b : a)), true);
        ck_ok(twin_passes(&twins[at], at ? a : narrow, at ? narrow : b));
        ck_assert(rg_dtype_of(narrow) == RG_FLOAT32);
    }
}
END_TEST

static bool rows_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_index_select(in[0], 0, in[1]);
    return rg_save_for_backward(ctx, in[0], in[1]);
}
static bool rows_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *none = rg_mul(rg_saved_tensor(ctx, 0), 0);
    gin[0] = rg_index_add(none, 0, rg_saved_tensor(ctx, 1), g[0], 1);
    return true;
}

/* Inputs of whole numbers and bools aren't converted. */
START_TEST(test_whole_inputs) {
    static rg_function_class rows = { .name = "Rows",
                                      .forward = rows_forward,
                                      .backward = rows_backward };
    rg_tensor *index = rg_arange(2);
    ck_ok(rg_function_check(&rows, NULL, RG_LIST(wave(3, 2, 0.3), index)));
    ck_assert(rg_dtype_of(index) == RG_INT64);
}
END_TEST

START_TEST(test_ops_without_slope) {
    static rg_function_class counts = { .name = "Count", .forward = count_forward };
    static rg_function_class floors = { .name = "Floors",
                                        .forward = floors_forward,
                                        .backward = floors_backward,
                                        .args_bytes = sizeof(int) };
    static rg_function_class wrong = { .name = "Wrong",
                                       .forward = floors_forward,
                                       .backward = floors_backward,
                                       .args_bytes = sizeof(int) };
    static rg_function_class quarters = { .name = "Quarter",
                                          .forward = quarter_forward,
                                          .backward = quarter_backward };
    rg_tensor *a = wave(2, 3, 0.3), *b = wave(2, 3, 0.4);
    int args = 0;
    ck_ok(rg_function_check(&counts, NULL, RG_LIST(a)));
    ck_ok(rg_function_check(&floors, &args, RG_LIST(a, b)));
    args = 1;
    ck_fails(rg_function_check(&wrong, &args, RG_LIST(a, b)), RG_RUNTIME_ERROR,
             "Wrong: the gradient of input 0 has other values where only input 0 requires grad");
    /* One element is enough to find that digits are lost. */
    static rg_function_class narrow = { .name = "Narrow",
                                        .forward = first_narrow_forward,
                                        .backward = quarter_backward };
    ck_fails(rg_function_check(&narrow, NULL, RG_LIST(wave(2, 1, 0.3))), RG_RUNTIME_ERROR,
             "Narrow: output 0 has the precision of float32 for inputs of float64");
    /* If the inputs have few digits, so may the output. NaN doesn't count as a number with few
     * digits. */
    rg_tensor *halves = rg_requires_grad_(rg_mul(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), 1.5), true);
    ck_ok(rg_function_check(&quarters, NULL, RG_LIST(halves)));
    ((double *)rg_data(halves))[1] = NAN;
    ck_fails(
        rg_function_check(&quarters, NULL, RG_LIST(halves)), RG_RUNTIME_ERROR,
        "Quarter: backward doesn't agree with finite differences: gradcheck: Jacobian mismatch "
        "for output 0 with respect to input 0: at output [1] and input [0]");
    /* Two infinities are the same result. */
    ((double *)rg_data(halves))[1] = INFINITY;
    ck_fails(rg_function_check(&quarters, NULL, RG_LIST(halves)), RG_RUNTIME_ERROR,
             "Quarter: backward doesn't agree with finite differences: gradcheck: Jacobian "
             "mismatch");
}
END_TEST

/* y = x^2. The gradient is right for a single gradient of 1, and for no other. */
static bool square_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_square(in[0]);
    return rg_save_for_backward(ctx, in[0]);
}
static bool bent_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const int *squares = rg_function_args(ctx);
    rg_tensor *bent = *squares ? rg_square(g[0]) : rg_abs(g[0]);
    gin[0] = rg_mul(bent, rg_mul(rg_saved_tensor(ctx, 0), 2));
    return true;
}

START_TEST(test_gradients_that_are_not_linear) {
    static rg_function_class bent = { .name = "Bent",
                                      .forward = square_forward,
                                      .backward = bent_backward,
                                      .once_differentiable = true,
                                      .args_bytes = sizeof(int) };
    for (int squares = 0; squares < 2; squares++)
        ck_fails(rg_function_check(&bent, &squares, RG_LIST(wave(2, 3, 0.3))), RG_RUNTIME_ERROR,
                 "Bent: the gradient of input 0 isn't linear in the gradients of the outputs");
}
END_TEST

/* y0 = x, y1 = 2 x, .. */
static bool multiples_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    for (int k = 0; k < 8; k++) {
        out[k] = rg_mul(in[0], k + 1);
        if (!out[k])
            return false;
    }
    return true;
}

static bool multiples_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_clone(g[0]);
    for (int k = 1; k < 8; k++)
        gin[0] = rg_add(gin[0], rg_mul(g[k], k + 1));
    return gin[0] != NULL;
}

START_TEST(test_most_outputs) {
    static rg_function_class multiples = { .name = "Multiples",
                                           .forward = multiples_forward,
                                           .backward = multiples_backward,
                                           .outputs = 8 };
    ck_ok(rg_function_check(&multiples, NULL, RG_LIST(wave(2, 1, 0.3))));
}
END_TEST

static void hear_nothing(rg_code code, const char *message) {
    (void)code;
    (void)message;
}

/* A dim of size 2 is large enough for the check to expand it. After the check the program's error
 * handler is in force again. */
START_TEST(test_small_inputs) {
    static rg_function_class twins[2];
    planted = REFUSES_ZERO_STRIDES;
    for (at = 0; at < 2; at++)
        ck_fails(twin_passes(&twins[at], wave(2, 1, 0.3), wave(2, 1, 0.9)), RG_RUNTIME_ERROR,
                 "is expanded, and has a stride of 0: Twin: forward failed");
    static rg_function_class quarters = { .name = "Quarter",
                                          .forward = quarter_forward,
                                          .backward = quarter_backward };
    rg_on_error(hear_nothing);
    ck_assert(rg_function_check(&quarters, NULL, RG_LIST(wave(2, 1, 0.3))));
    ck_assert(rg_on_error(NULL) == hear_nothing);
}
END_TEST

/* y = 2 x0, whatever x1 is */
static bool doubles_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    ck_assert_ptr_null(rg_function_state(ctx));
    out[0] = rg_mul(in[0], 2);
    return out[0] != NULL;
}

static bool doubles_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 2);
    return gin[0] != NULL;
}

/* An input that needs no gradient doesn't count when the check asks how many digits an output must
 * have. The check releases the tensors that it makes. */
START_TEST(test_digits_of_others) {
    static rg_function_class doubles = { .name = "Doubles",
                                         .forward = doubles_forward,
                                         .backward = doubles_backward };
    rg_tensor *few = rg_mul(rg_to(rg_arange(6), RG_FLOAT64), 0.125);
    rg_requires_grad_(few, true);
    for (int turn = 0; turn < 2; turn++) {
        const int64_t live = rg_live_tensors();
        ck_ok(rg_function_check(&doubles, NULL, RG_LIST(few, rg_detach(wave(2, 3, 0.3)))));
        ck_assert_int_eq(rg_live_tensors() - live, 2);
    }
}
END_TEST

START_TEST(test_odd_ops_pass) {
    static rg_function_class floors = { .name = "Floor",
                                        .forward = floor_forward,
                                        .backward = floor_backward };
    static rg_function_class sums = {
        .name = "Sum", .forward = sum_forward, .backward = sum_backward, .args_bytes = sizeof(int)
    };
    rg_tensor *in[17];
    for (int i = 0; i < RG_COUNT(in); i++)
        in[i] = wave(1, 2, i);
    ck_ok(rg_function_check(&floors, NULL, RG_LIST(wave(2, 3, 0.3))));
    for (int n = 1; n < RG_COUNT(in); n += 15)
        ck_ok(rg_function_check(&sums, &n, ((rg_list){ n, in })));
    /* An input of one element can't be expanded. */
    const int one = 1;
    ck_ok(rg_function_check(&sums, &one, RG_LIST(wave(1, 1, 0.3))));
    ck_ok(rg_function_check(&sums, &one, RG_LIST(wave(1, 0, 0.3))));
    ck_ok(rg_function_check(&sums, &one,
                            RG_LIST(rg_reshape(wave(1, 1, 0.3), 1, 1, 1, 1, 1, 1, 1, 1))));
    const int most = RG_COUNT(in);
    ck_fails(rg_function_check(&sums, &most, ((rg_list){ most, in })), RG_VALUE_ERROR,
             "function_check: takes up to 16 inputs, but got 17");
    ck_fails(rg_function_apply_list(&sums, &most, ((rg_list){ most, in })), RG_VALUE_ERROR,
             "Sum: takes up to 16 inputs, but got 17");
    rg_tensor *whole = rg_arange(3);
    ck_fails(rg_function_check(&floors, NULL, RG_LIST(whole)), RG_VALUE_ERROR,
             "function_check: expected at least one input of floating point, to differentiate it");
    in[1] = NULL;
    ck_fails(rg_function_check(&sums, &most, ((rg_list){ 2, in })), RG_TYPE_ERROR,
             "function_check: expected a tensor but got NULL");
    ck_fails(rg_function_check(&sums, &one, ((rg_list){ 1, NULL })), RG_TYPE_ERROR,
             "function_check: expected a list");
    ck_fails(rg_function_check(&sums, &one, ((rg_list){ -1, NULL })), RG_TYPE_ERROR,
             "function_check: expected a list but got one that failed");
}
END_TEST

/* y = x / 2, made in one way or another */
typedef enum { HALF_LARGER_IN_FLOAT32, HALF_WITH_SPARE_MEMORY, HALF_WITH_AN_ERROR_LEFT } half_way;

static bool half_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    const half_way way = *(const half_way *)rg_function_args(ctx);
    out[0] = rg_mul(in[0], 0.5);
    if (!out[0])
        return false;
    if (way == HALF_LARGER_IN_FLOAT32)
        out[0] = rg_dtype_of(in[0]) == RG_FLOAT32 ? rg_add(out[0], 0.25) : out[0];
    else if (!rg_ones(100) && rg_error_code() && way == HALF_WITH_SPARE_MEMORY)
        rg_error_clear();
    return out[0] != NULL;
}

static bool half_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 0.5);
    return gin[0] != NULL;
}

static const rg_function_class half = { .name = "Half",
                                        .forward = half_forward,
                                        .backward = half_backward,
                                        .args_bytes = sizeof(half_way) };

/* Results in float32 may differ by the tolerance, and by no more. */
START_TEST(test_tolerance_of_float32) {
    static rg_function_class halves[2];
    halves[0] = halves[1] = half;
    const half_way way = HALF_LARGER_IN_FLOAT32;
    rg_tensor *x = rg_requires_grad_(rg_full_dims(RG_DIMS(3), 1, RG_FLOAT64), true);
    ck_ok(rg_function_check(&halves[0], &way, RG_LIST(x), .float32_tol = 0.25));
    ck_fails(rg_function_check(&halves[1], &way, RG_LIST(x), .float32_tol = 0.2499),
             RG_RUNTIME_ERROR, "Half: output 0 has other values in float32 than in float64");
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

/* An op may succeed without some of its memory if it leaves no error. */
START_TEST(test_spare_memory) {
    static rg_function_class halves[2];
    halves[0] = halves[1] = half;
    half_way way = HALF_WITH_SPARE_MEMORY;
    ck_ok(rg_function_check(&halves[0], &way, RG_LIST(wave(2, 3, 0.3))));
    way = HALF_WITH_AN_ERROR_LEFT;
    ck_fails(rg_function_check(&halves[1], &way, RG_LIST(wave(2, 3, 0.3))), RG_RUNTIME_ERROR,
             "Half: it goes on where memory runs out");
}
END_TEST

/* A check calls forward many times. The check fails if forward fails in any one of these calls for
 * another reason than memory, even in a call that is denied memory. */
START_TEST(test_failure_in_each_call) {
    static rg_function_class twins[2];
    rg_tensor *a = wave(2, 3, 0.3), *b = wave(2, 3, 0.9);
    planted = HONEST;
    at = 0;
    ck_ok(twin_passes(&twins[0], a, b));
    ck_ok(twin_passes(&twins[1], a, b));
    const int last = calls;
    for (fails_at = 1; fails_at <= last; fails_at++) {
        RG_SCOPE();
        rg_error_clear();
        const bool passed = twin_passes(&twins[1], a, b);
        ck_each(!passed && strstr(rg_error(), "Twin: forward failed, and said nothing"),
                "call %d: %d %s", fails_at, passed, rg_error());
    }
    rg_error_clear();
    fails_at = 0;
}
END_TEST

/* Denies each request for memory of a check in turn. A check that is denied memory fails. The last
 * runs of a check deny memory themselves, which cancels the denial of this function. A check that
 * reaches these runs passes. If `wrong` isn't NULL, the check fails with that error, or for lack
 * of memory. */
static void deny_to_check(rg_function_class *cls, const void *args, rg_list inputs,
                          const char *wrong) {
    rg_function_check(cls, args, inputs);
    for (int64_t n = 1, spared = 0; spared < 40; n++) {
        rg_error_clear();
        const int64_t before = rg_memory_stats().now;
        rg_memory_fail_at(n);
        const bool passed = rg_function_check(cls, args, inputs);
        rg_memory_fail_at(0);
        ck_each(rg_memory_stats().now <= before, "request %d leaks %d: %s", (int)n,
                (int)(rg_memory_stats().now - before), rg_error());
        const bool done = wrong ? !passed && strstr(rg_error(), wrong) : passed;
        const bool refused = !passed && rg_error_code() == RG_OUT_OF_MEMORY;
        ck_each(done || (refused && (wrong || spared == 0)), "%s: request %d: %s", cls->name,
                (int)n, rg_error());
        spared = done ? spared + 1 : 0;
    }
    rg_error_clear();
}

/* y0 = 2 x^T, which isn't contiguous, and y1 = the number of positive x */
static bool turned_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_T(rg_mul(in[0], 2));
    out[1] = rg_sum(rg_to(rg_gt(in[0], 0), RG_INT64));
    return out[0] && out[1];
}

static bool turned_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_T(rg_mul(g[0], 2));
    return gin[0] != NULL;
}

START_TEST(test_memory_denied_to_checks) {
    static rg_function_class classes[] = {
        { .name = "Sum",
          .forward = sum_forward,
          .backward = sum_backward,
          .args_bytes = sizeof(int) },
        { .name = "Floor", .forward = floor_forward, .backward = floor_backward },
        { .name = "Floors",
          .forward = floors_forward,
          .backward = floors_backward,
          .args_bytes = sizeof(int) },
        { .name = "Turned", .forward = turned_forward, .backward = turned_backward, .outputs = 2 },
        { .name = "Cubed", .forward = cubed_forward, .backward = cubed_backward },
    };
    rg_tensor *a = wave(2, 2, 0.3), *b = wave(2, 2, 0.9);
    const int none = 0, one = 1;
    deny_to_check(&classes[0], &one, RG_LIST(a), NULL);
    deny_to_check(&classes[1], NULL, RG_LIST(a), NULL);
    deny_to_check(&classes[2], &none, RG_LIST(a, b), NULL);
    deny_to_check(&classes[3], NULL, RG_LIST(a), NULL);
    planted = WRONG_SECOND;
    deny_to_check(&classes[4], NULL, RG_LIST(wave(2, 1, 0.3)),
                  "Cubed: second derivatives don't agree with finite differences; backward reads");
    planted = HONEST;
}
END_TEST

/* A check that is denied memory fails. The last runs of a check deny memory themselves, which
 * cancels the denial of this test. */
START_TEST(test_memory_denied) {
    static rg_function_class twin;
    const twin_args args = { 0 };
    rg_tensor *a = wave(2, 1, 0.3), *b = wave(2, 1, 0.9);
    planted = HONEST;
    at = 0;
    ck_ok(twin_passes(&twin, a, b));
    /* In runs that the check expects to fail, a denial may have no effect. The loop ends after 40
     * checks that pass. */
    for (int64_t n = 1, spared = 0; spared < 40; n++) {
        rg_error_clear();
        const int64_t before = rg_memory_stats().now;
        rg_memory_fail_at(n);
        calls = 0;
        const bool passed = rg_function_check(&twin, &args, RG_LIST(a, b));
        rg_memory_fail_at(0);
        ck_each(rg_memory_stats().now <= before, "request %d leaks %d: %s", (int)n,
                (int)(rg_memory_stats().now - before), rg_error());
        const bool done = passed && rg_error_code() == RG_OK;
        spared = done ? spared + 1 : 0;
        ck_each(done || (!passed && rg_error_code() == RG_OUT_OF_MEMORY), "request %d: %d %s",
                (int)n, passed, rg_error());
    }
    rg_error_clear();
}
END_TEST

/* The row that is made for a class stays until the program ends. */
__attribute__((constructor)) static void rows_stay(void) { rg_memory_may_stay = 1; }

RG_TESTS(rule_checks, test_most_outputs, test_small_inputs, test_whole_inputs,
         test_each_rule_at_each_place, test_what_is_asked_for, test_leaks_are_counted,
         test_odd_ops_pass, test_digits_of_others, test_whole_numbers_are_asked_nothing,
         test_what_leads_second_derivatives_on, test_each_input_is_told_apart,
         test_ops_without_slope, test_memory_denied, test_tolerance_of_float32, test_spare_memory,
         test_failure_in_each_call, test_memory_denied_to_checks,
         test_gradients_that_are_not_linear)

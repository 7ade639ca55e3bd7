/*
 * test_left.c: what calls of autograd/ leave behind. A call that succeeds gives its results to the
 * caller's scope, and nothing else. A call that fails gives it no tensor. The thread's state is as
 * before. Here are functions that call a function of the program; fuzz_ops.c does the same with
 * ops.
 */
#include "regard.h"
#include "keeps.h"
#include "tests/left.h"
#include "tests/test.h"

#include <string.h>

static rg_tensor *leaf(int64_t n) {
    rg_tensor *x = rg_zeros_dims(RG_DIMS(n), RG_FLOAT64);
    for (int64_t i = 0; i < n; i++)
        ((double *)rg_data(x))[i] = 0.3 + 0.25 * (double)i;
    return rg_requires_grad_(x, true);
}

/* If `fails` is true, the functions below fail. */
typedef struct {
    bool fails;
} how;

static rg_tensor *cubes(rg_tensor *const in[], void *context) {
    const how *h = context;
    rg_tensor *y = rg_mul(rg_square(in[0]), rg_mul(in[0], 2));
    return h && h->fails ? rg_mul(y, rg_ones(7, 7)) : y;
}

static rg_tensor *sum_of_cubes(rg_tensor *const in[], void *context) {
    return rg_sum(cubes(in, context));
}

static rg_list two_outputs(rg_tensor *const in[], void *context) {
    static rg_tensor *y[2];
    y[0] = cubes(in, context);
    y[1] = rg_sin(in[0]);
    return (rg_list){ 2, y };
}

/* ---- ranges -------------------------------------------------------------------------------- */

static rg_tensor *range_of_kind(int kind, rg_tensor *end, rg_dtype dtype) {
    return kind ? rg_linspace(0, 4, 5, dtype) : rg_arange_as(end, dtype);
}

/* A range in a dtype that is widened needs memory after its tensor was made. */
START_TEST(test_ranges_without_memory) {
    static const rg_dtype dtypes[] = { RG_INT64, RG_FLOAT32, RG_BFLOAT16, RG_FLOAT16, RG_UINT8 };
    rg_tensor *end = rg_scalar(5);
    for (int i = 0; i < 2 * RG_COUNT(dtypes); i++) {
        bool made = false;
        for (int64_t request = 1; !made; request++) {
            const int64_t before = rg_live_tensors();
            rg_memory_fail_at(request);
            made = range_of_kind(i % 2, end, dtypes[i / 2]);
            rg_memory_fail_at(0);
            rg_error_clear();
            ck_assert_int_eq(rg_live_tensors(), before + made);
        }
    }
}
END_TEST

/* ---- derivatives --------------------------------------------------------------------------- */

START_TEST(test_backward) {
    rg_tensor *x = leaf(3), *e = rg_exp(x), *y = rg_sum(e), *other = leaf(2), *g;
    ck_gives(0, rg_backward(y, .retain_graph = true));
    ck_gives(0, rg_backward(y, .create_graph = true));
    ck_gives(0, rg_backward(y, .retain_graph = true, .inputs = RG_LIST(x)));
    ck_gives(1, g = rg_grad(y, x, .create_graph = true));
    rg_tensor *slope = rg_sum(g);
    ck_gives(1, rg_grad(slope, x, .retain_graph = true));
    ck_gives(1, rg_grad_of(x));
    ck_gives(0, rg_retain_grad(y));
    ck_gives_none(rg_backward(e));
    ck_gives_none(rg_grad(y, other));
    ck_gives_none(rg_grad(y, x, .gradient = other));
    ck_gives(0, rg_set_grad(x, RG_NONE));
}
END_TEST

START_TEST(test_derivatives_of_functions) {
    rg_tensor *x = rg_detach(leaf(3)), *v = rg_detach(leaf(3)),
              *m = rg_ones_dims(RG_DIMS(4, 2), RG_FLOAT64);
    rg_tensor *r, *short_v = rg_ones(2);
    for (int create = 0; create < 2; create++) {
        const bool c = create;
        ck_gives(1, rg_jacrev(cubes, NULL, 1, &x, .create_graph = c));
        ck_gives(1, rg_jacfwd(cubes, NULL, 1, &x, .create_graph = c));
        ck_gives(1, rg_hessian(sum_of_cubes, NULL, 1, &x, .create_graph = c));
        ck_gives(2, rg_vjp(cubes, NULL, 1, &x, v, &r, .create_graph = c));
        ck_gives(2, rg_jvp(cubes, NULL, 1, &x, &v, &r, .create_graph = c));
        ck_gives(2, rg_hvp(sum_of_cubes, NULL, 1, &x, &v, &r, .create_graph = c));
    }
    ck_gives(1, rg_vmap(cubes, NULL, 1, &m));
    ck_gives(0, rg_gradcheck(cubes, NULL, 1, (rg_tensor *[]){ rg_requires_grad_(x, true) }));
    ck_gives(0, rg_gradgradcheck(cubes, NULL, 1, &x));
    ck_gives(0, rg_gradcheck_list(two_outputs, NULL, 1, &x));
    ck_gives(0, rg_gradgradcheck_list(two_outputs, NULL, 1, &x));
    how h = { .fails = true };
    ck_gives_none(rg_jacrev(cubes, &h, 1, &x));
    ck_gives_none(rg_jacfwd(cubes, &h, 1, &x));
    ck_gives_none(rg_hessian(sum_of_cubes, &h, 1, &x));
    ck_gives_none(rg_vjp(cubes, &h, 1, &x, v, &r));
    ck_gives_none(rg_jvp(cubes, &h, 1, &x, &v, &r));
    ck_gives_none(rg_hvp(sum_of_cubes, &h, 1, &x, &v, &r));
    ck_gives_none(rg_vmap(cubes, &h, 1, &m));
    ck_gives_none(rg_gradcheck(cubes, &h, 1, &x));
    ck_gives_none(rg_gradgradcheck(cubes, &h, 1, &x));
    ck_gives_none(rg_vjp(cubes, NULL, 1, &x, short_v, &r));
    ck_gives_none(rg_jvp(cubes, NULL, 1, &x, &short_v, &r));
    ck_gives_none(rg_hvp(cubes, NULL, 1, &x, &v, &r));
}
END_TEST

START_TEST(test_checkpoints) {
    rg_tensor *x = leaf(3), *y, *loss;
    how h = { .fails = false };
    ck_gives(1, y = rg_checkpoint(cubes, &h, 1, &x));
    loss = rg_sum(y);
    ck_gives(0, rg_backward(loss, .retain_graph = true));
    h.fails = true;
    ck_gives_none(rg_backward(loss));
    ck_gives_none(rg_checkpoint(cubes, &h, 1, &x));
    rg_set_grad(x, RG_NONE);
}
END_TEST

START_TEST(test_saved_values) {
    rg_tensor *x = leaf(3), *y, *loss;
    RG_SAVED_HOOKS(keeps);
    ck_gives(1, y = rg_exp(x));
    ck_gives(1, y = rg_mul(y, x));
    loss = rg_sum(y);
    ck_gives(0, rg_backward(loss));
    ck_gives(0, rg_set_grad(x, RG_NONE));
}
END_TEST

START_TEST(test_pictures) {
    rg_tensor *x = leaf(3), *y = rg_sum(rg_exp(x)), *whole = rg_arange(3);
    ck_gives_memory(0, rg_graph_dot(y));
    ck_gives_none(rg_graph_dot(whole));
    ck_gives_memory(1, rg_explain(y, x).n >= 0);
    ck_gives_memory(1, rg_explain(y, x, .f = sum_of_cubes).n >= 0);
    ck_gives_none(rg_explain(y, whole).n >= 0);
}
END_TEST

/* ---- writes ---------------------------------------------------------------------------------- */

START_TEST(test_writes) {
    rg_tensor *x = leaf(4), *y = rg_mul(x, 2), *view = rg_narrow(y, 0, 1, 2), *two = rg_ones(2);
    rg_tensor *of_x = rg_narrow(x, 0, 1, 2), *three = rg_ones(3);
    ck_gives(0, rg_mul_(y, y));
    ck_gives(0, rg_mul_(view, two));
    ck_gives(0, rg_exp_(view));
    ck_gives(0, rg_exp_(y));
    ck_gives(0, rg_copy_(view, two));
    ck_gives_none(rg_mul_(x, x));
    ck_gives_none(rg_mul_(of_x, two));
    ck_gives_none(rg_mul_(y, three));
    ck_gives(0, rg_detach_(y));
    RG_NO_GRAD();
    ck_gives(0, rg_mul_(x, x));
    ck_gives(0, rg_exp_(of_x));
}
END_TEST

/* ---- ops of a program's own ----------------------------------------------------------- */

static bool twice(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    const how *h = rg_function_args(ctx);
    rg_tensor *half = rg_mul(in[0], 0.5);
    out[0] = rg_mul(half, h->fails ? rg_ones(7, 7) : rg_full_like(in[0], 4));
    return out[0] && rg_save_for_backward(ctx, half, in[0]);
}

static bool twice_back(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(g[0], rg_add(rg_mul(rg_zeros_like(rg_saved_tensor(ctx, 0)), 3), 2));
    return gin[0] != NULL;
}

static rg_function_class twice_class = {
    .name = "Twice", .forward = twice, .backward = twice_back, .args_bytes = sizeof(how)
};

static void step(void *context) {
    const how h = { .fails = false };
    rg_tensor *x = context;
    rg_backward(rg_sum(rg_mul(rg_function_apply(&twice_class, &h, x), x)));
}

START_TEST(test_own_ops) {
    rg_tensor *x = leaf(3), *y, *loss;
    how h = { .fails = false };
    ck_gives(1, y = rg_function_apply(&twice_class, &h, x));
    loss = rg_sum(y);
    ck_gives(0, rg_backward(loss));
    ck_gives(0, rg_function_check(&twice_class, &h, RG_LIST(x)));
    h.fails = true;
    ck_gives_none(rg_function_apply(&twice_class, &h, x));
    ck_gives_none(rg_function_check(&twice_class, &h, RG_LIST(x)));
    rg_set_grad(x, RG_NONE);
}
END_TEST

START_TEST(test_recordings) {
    rg_tensor *x = leaf(3), *wrong = leaf(3);
    rg_replay *r;
    ck_gives(0, r = rg_record(step, x));
    ck_gives(0, rg_replay_run(r));
    rg_replay_free(r);
    ck_gives_none(rg_record(NULL, x));
    rg_mul(wrong, 2);
    rg_set_grad(x, RG_NONE);
}
END_TEST

/* ---- anomalies ------------------------------------------------------------------------------- */

/* The message of an anomaly belongs to the caller's scope. The texts that it is made of are
 * released. */
START_TEST(test_anomalies) {
    rg_tensor *x = leaf(3), *zero = rg_sub(x, x), *root = rg_sum(rg_sqrt(zero));
    rg_set_detect_anomaly(true);
    const left_behind before = look_behind();
    ck_fails(rg_log(zero), RG_RUNTIME_ERROR, "log: the first -inf arose forward");
    check_left("log", before, 0, false);
    ck_gives_none(rg_backward(root));
    rg_set_detect_anomaly(false);
    rg_error_clear();
    rg_set_grad(x, RG_NONE);
}
END_TEST

/* The row that is made for a class stays until the program ends. */
__attribute__((constructor)) static void rows_stay(void) { rg_memory_may_stay = 1; }

RG_TESTS(left, test_ranges_without_memory, test_backward, test_derivatives_of_functions,
         test_checkpoints, test_saved_values, test_pictures, test_writes, test_own_ops,
         test_recordings, test_anomalies)

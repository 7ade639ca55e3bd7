/*
 * test_autocast.c: autocast's settings, the casts of parameters that are kept, and autocast beside
 * backward runs, checkpoints, functions of the program, recordings and threads. test_golden.c
 * compares all functions under autocast with PyTorch.
 */
#include "autograd/op.h"
#include "autograd/replay/replay.h"
#include "autograd/tools/autocast.h"
#include "autograd/tools/function.h"
#include "autograd/tools/saved.h"
#include "tests/test.h"

#include <pthread.h>
#include <string.h>

static rg_tensor *leaf(int64_t n, int64_t m) {
    rg_manual_seed((uint64_t)(n * 100 + m));
    return rg_requires_grad_(rg_randn(n, m), true);
}

static int product_dtype(rg_dtype a, rg_dtype b) {
    rg_tensor *y = rg_mm(rg_zeros_dims(RG_DIMS(2, 2), a), rg_zeros_dims(RG_DIMS(2, 2), b));
    return y ? rg_dtype_of(y) : -1;
}

static int float_product(void) { return product_dtype(RG_FLOAT32, RG_FLOAT32); }

/* ---- settings ------------------------------------------------------------------------- */

START_TEST(test_settings) {
    ck_assert(!rg_is_autocast_enabled() && rg_get_autocast_dtype() == RG_BFLOAT16);
    ck_assert_int_eq(float_product(), RG_FLOAT32);
    {
        RG_AUTOCAST(RG_FLOAT16);
        ck_assert(rg_is_autocast_enabled() && rg_get_autocast_dtype() == RG_FLOAT16);
        ck_assert_int_eq(float_product(), RG_FLOAT16);
        {
            RG_AUTOCAST(RG_BFLOAT16, .enabled = false);
            ck_assert(!rg_is_autocast_enabled());
            ck_assert_int_eq(float_product(), RG_FLOAT32);
            RG_AUTOCAST(RG_BFLOAT16);
            ck_assert_int_eq(float_product(), RG_BFLOAT16);
        }
        ck_assert_int_eq(float_product(), RG_FLOAT16);
        ck_assert(rg_is_autocast_cache_enabled());
        RG_AUTOCAST(RG_FLOAT16, .cache_enabled = false);
        ck_assert(!rg_is_autocast_cache_enabled());
    }
    ck_assert(!rg_is_autocast_enabled() && rg_is_autocast_cache_enabled());
    ck_assert_int_eq(float_product(), RG_FLOAT32);
}
END_TEST

/* A dtype that isn't of 16 bits is refused, and nothing is cast. */
START_TEST(test_wrong_dtype) {
    RG_AUTOCAST(RG_BFLOAT16);
    {
        RG_AUTOCAST(RG_FLOAT32);
        ck_assert(rg_error_code() == RG_VALUE_ERROR && strstr(rg_error(), "bfloat16 and float16"));
        ck_assert(!rg_is_autocast_enabled());
        ck_assert_int_eq(float_product(), RG_FLOAT32);
    }
    ck_assert_int_eq(float_product(), RG_BFLOAT16);
    ck_assert_int_eq(rg_get_autocast_dtype(), RG_BFLOAT16);
}
END_TEST

/* Padding that repeats elements is computed in float32, and padding with a number isn't cast. */
START_TEST(test_padding) {
    static const rg_dtype made[] = { [RG_CONSTANT] = RG_BFLOAT16,
                                     [RG_REFLECT] = RG_FLOAT32,
                                     [RG_REPLICATE] = RG_FLOAT32,
                                     [RG_CIRCULAR] = RG_BFLOAT16 };
    RG_AUTOCAST(RG_BFLOAT16);
    rg_tensor *x = rg_zeros_dims(RG_DIMS(1, 2, 3), RG_BFLOAT16);
    for (int mode = RG_CONSTANT; mode <= RG_CIRCULAR; mode++) {
        rg_tensor *y = rg_pad_with(x, RG_DIMS(1, 1), (rg_pad_mode)mode, 0);
        ck_assert_int_eq(rg_dtype_of(y), made[mode]);
    }
}
END_TEST

/* Float64, whole numbers and numbers of the program aren't cast. */
START_TEST(test_what_is_cast) {
    RG_AUTOCAST(RG_BFLOAT16);
    ck_assert_int_eq(product_dtype(RG_FLOAT64, RG_FLOAT64), RG_FLOAT64);
    ck_assert_int_eq(product_dtype(RG_INT64, RG_INT64), RG_INT64);
    ck_assert_int_eq(product_dtype(RG_FLOAT16, RG_FLOAT32), RG_BFLOAT16);
    ck_fails(rg_mm(rg_zeros_dims(RG_DIMS(2, 2), RG_FLOAT64), rg_ones(2, 2)), RG_RUNTIME_ERROR,
             "same dtype");
    rg_tensor *product = rg_einsum("ij,jk->ik", rg_ones(2, 3), rg_ones(3, 4));
    ck_assert_int_eq(rg_dtype_of(product), RG_BFLOAT16);
    /* Sums and products by elements aren't cast. */
    ck_assert_int_eq(rg_dtype_of(rg_einsum("i,j->i", rg_ones(2), rg_ones(3))), RG_FLOAT32);
    ck_fails(rg_mm(NULL, rg_ones(2, 2)), RG_TYPE_ERROR, "mm");
    rg_tensor *gone = rg_keep(rg_ones(2, 2));
    rg_drop(gone);
    ck_fails(rg_mm(gone, rg_ones(2, 2)), RG_RELEASED, "mm");
    rg_tensor *wide = rg_ones_dims(RG_DIMS(3), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_mse_loss(rg_to(wide, RG_BFLOAT16), wide)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_add(rg_ones(2), rg_to(rg_ones(2), RG_BFLOAT16))), RG_FLOAT32);
}
END_TEST

/* ---- casts that are kept ---------------------------------------------------------------- */

/* The tensors that are kept for a parameter: the cast, and an alias of the parameter. */
enum { CAST = 2 };

/* Returns how many tensors a product leaves behind besides its result. */
static int64_t kept_by_product(rg_tensor *x, rg_tensor *w) {
    const int64_t before = rg_live_tensors();
    return rg_mm(x, w) ? rg_live_tensors() - before - 1 : -1;
}

START_TEST(test_cache) {
    const int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *w = leaf(3, 3), *x = rg_ones(3, 3);
        const int64_t made = rg_live_tensors();
        {
            RG_AUTOCAST(RG_BFLOAT16);
            RG_NO_GRAD();
            ck_assert_int_eq(kept_by_product(x, w), CAST);
            ck_assert_int_eq(kept_by_product(x, w), 0);
            {
                RG_AUTOCAST(RG_BFLOAT16);
                ck_assert_int_eq(kept_by_product(x, w), 0);
            }
            ck_assert_int_eq(kept_by_product(x, w), 0);
            ck_assert_int_eq(kept_by_product(w, rg_t(w)), 0); /* A view isn't kept. */
            rg_clear_autocast_cache();
            ck_assert_int_eq(kept_by_product(x, w), CAST);
            {
                RG_AUTOCAST(RG_BFLOAT16, .cache_enabled = false);
                rg_clear_autocast_cache();
                ck_assert_int_eq(kept_by_product(x, w), 0);
            }
        }
        ck_assert(rg_live_tensors() >= made);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

/* A cast that was made with grad mode off has a history when grad mode is on. */
START_TEST(test_cache_and_grad_mode) {
    RG_SCOPE();
    rg_tensor *w = leaf(3, 3), *x = rg_ones(3, 3);
    RG_AUTOCAST(RG_BFLOAT16);
    {
        RG_NO_GRAD();
        ck_assert(!rg_requires_grad(rg_mm(x, w)));
    }
    {
        RG_INFERENCE_MODE();
        ck_assert(!rg_requires_grad(rg_mm(x, w)));
    }
    ck_ok(rg_backward(rg_sum(rg_mm(x, w))));
    ck_assert_int_eq(rg_dtype_of(rg_grad_of(w)), RG_FLOAT32);
    ck_assert(rg_equal(rg_grad_of(w), rg_full_like(rg_detach(w), 3)));
    /* Several losses share the cast. */
    rg_tensor *one = rg_sum(rg_mm(x, w)), *two = rg_sum(rg_mm(x, w));
    ck_ok(rg_backward(one) && rg_backward(two));
    ck_assert(rg_equal(rg_grad_of(w), rg_full_like(rg_detach(w), 9)));
    {
        RG_INFERENCE_MODE();
        ck_assert(rg_mm(x, w) != NULL);
    }
}
END_TEST

/* A parameter that was written to, or got other data, is cast again, and so is one that is used in
 * another dtype. (In torch the old cast is used.) */
START_TEST(test_cache_is_current) {
    RG_SCOPE();
    rg_tensor *w = leaf(2, 2), *x = rg_ones(2, 2);
    RG_AUTOCAST(RG_BFLOAT16);
    ck_assert(rg_mm(x, w) != NULL);
    {
        RG_NO_GRAD();
        rg_fill_(w, 2);
    }
    ck_assert(rg_at(rg_detach(rg_mm(x, w)), 0, 0) == 4);
    ck_ok(rg_set_data(w, rg_full(RG_DIMS(2, 2), 3.0)));
    ck_assert(rg_at(rg_detach(rg_mm(x, w)), 0, 0) == 6);
    for (int i = 0; i < 20; i++) {
        RG_SCOPE();
        ck_ok(rg_set_data(w, rg_full(RG_DIMS(2, 2), (double)i)));
        ck_ok(i % 2 || rg_at(rg_detach(rg_mm(x, w)), 0, 0) == 2 * i);
    }
    {
        RG_AUTOCAST(RG_FLOAT16);
        ck_assert_int_eq(rg_dtype_of(rg_mm(x, w)), RG_FLOAT16);
    }
    ck_assert_int_eq(rg_dtype_of(rg_mm(x, w)), RG_BFLOAT16);
    rg_requires_grad_(w, false);
    ck_assert(!rg_requires_grad(rg_mm(x, w)));
}
END_TEST

/* ---- backward runs -------------------------------------------------------------------- */

static rg_tensor *loss_of(rg_tensor *x, rg_tensor *w) {
    return rg_mse_loss(rg_tanh(rg_linear(x, w, RG_NONE)), rg_zeros(4, 3));
}

/* A backward run has the same bits under autocast and without it, whether its graph is of 16 bits
 * or of float32, and with create_graph, too. */
START_TEST(test_backward) {
    for (int cast = 0; cast < 2; cast++)
        for (int graph = 0; graph < 2; graph++) {
            RG_SCOPE();
            rg_tensor *x = leaf(4, 5), *w = leaf(3, 5), *g[2], *loss;
            {
                RG_AUTOCAST(RG_BFLOAT16, .enabled = cast);
                loss = loss_of(x, w);
            }
            ck_assert_int_eq(rg_dtype_of(loss), RG_FLOAT32);
            for (int i = 0; i < 2; i++) {
                RG_AUTOCAST(RG_BFLOAT16, .enabled = i);
                g[i] = rg_grad(loss, w, .retain_graph = true, .create_graph = graph);
                ck_assert(g[i] && rg_dtype_of(g[i]) == RG_FLOAT32);
            }
            ck_assert(rg_equal(rg_detach(g[0]), rg_detach(g[1])));
            if (graph)
                ck_assert(rg_grad(rg_sum(g[1]), x) != NULL);
        }
}
END_TEST

static int dtype_in_hook;
static rg_tensor *look(rg_tensor *grad, void *context) {
    (void)context;
    dtype_in_hook = float_product();
    return grad;
}

/* A hook runs under the autocast of the call of backward. */
START_TEST(test_hook) {
    RG_SCOPE();
    rg_tensor *x = leaf(4, 5), *w = leaf(3, 5);
    rg_register_hook(w, look, NULL);
    for (int i = 0; i < 2; i++) {
        rg_tensor *loss = loss_of(x, w);
        RG_AUTOCAST(RG_FLOAT16, .enabled = i);
        ck_ok(rg_backward(loss));
        ck_assert_int_eq(dtype_in_hook, i ? RG_FLOAT16 : RG_FLOAT32);
    }
}
END_TEST

/* ---- functions of the program ----------------------------------------------------------- */

static rg_tensor *part(rg_tensor *const in[], void *context) {
    int *dtype = context;
    rg_tensor *y = rg_mm(in[0], in[1]);
    *dtype = y ? rg_dtype_of(y) : -1;
    return rg_tanh(y);
}

/* The second call of a checkpoint's function runs under the autocast of the first. */
START_TEST(test_checkpoint) {
    for (int first = 0; first < 2; first++)
        for (int second = 0; second < 2; second++) {
            RG_SCOPE();
            rg_tensor *x = leaf(4, 5), *w = leaf(5, 3), *y, *z;
            int dtype;
            {
                RG_AUTOCAST(RG_FLOAT16, .enabled = first);
                y = rg_checkpoint(part, &dtype, 2, RG_LIST(x, w).v);
                z = part(RG_LIST(x, w).v, &dtype);
            }
            dtype = -1;
            rg_tensor *plain = rg_grad(rg_sum(z), w), *again;
            {
                RG_AUTOCAST(RG_BFLOAT16, .enabled = second);
                again = rg_grad(rg_sum(y), w);
            }
            ck_assert_int_eq(dtype, first ? RG_FLOAT16 : RG_FLOAT32);
            ck_assert(again && rg_equal(plain, again));
        }
}
END_TEST

static int dtype_in_forward, dtype_in_backward;

static bool product_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_mm(in[0], in[1]);
    dtype_in_forward = out[0] ? rg_dtype_of(out[0]) : -1;
    return rg_save_for_backward(ctx, in[0], in[1]);
}

static bool product_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mm(g[0], rg_t(rg_saved_tensor(ctx, 1)));
    gin[1] = rg_mm(rg_t(rg_saved_tensor(ctx, 0)), g[0]);
    dtype_in_backward = gin[0] ? rg_dtype_of(gin[0]) : -1;
    return gin[0] && gin[1];
}

static rg_function_class product = { .name = "Product",
                                     .forward = product_forward,
                                     .backward = product_backward };

/* The backward of a class runs under the autocast of its forward. */
START_TEST(test_function) {
    for (int first = 0; first < 2; first++)
        for (int second = 0; second < 2; second++) {
            RG_SCOPE();
            rg_tensor *x = leaf(4, 5), *w = leaf(5, 3), *y;
            {
                RG_AUTOCAST(RG_FLOAT16, .enabled = first);
                y = rg_function_apply(&product, NULL, x, w);
            }
            RG_AUTOCAST(RG_BFLOAT16, .enabled = second);
            ck_ok(rg_backward(rg_sum(y)));
            ck_assert_int_eq(dtype_in_forward, first ? RG_FLOAT16 : RG_FLOAT32);
            ck_assert_int_eq(dtype_in_backward, dtype_in_forward);
            ck_assert_int_eq(rg_dtype_of(rg_grad_of(w)), RG_FLOAT32);
        }
}
END_TEST

/* ---- recordings and threads --------------------------------------------------------------- */

static struct {
    rg_tensor *x, *w, *y;
    bool casts;
} step;

static void record_step(void *context) {
    (void)context;
    RG_AUTOCAST(RG_BFLOAT16, .enabled = step.casts);
    step.y = rg_mm(step.x, step.w);
    if (step.y)
        rg_keep(step.y);
}

/* A step in 16 bits can't be recorded. One that was recorded without autocast is replayed so. */
START_TEST(test_recording) {
    RG_SCOPE();
    step.x = rg_ones(2, 2);
    step.w = rg_ones(2, 2);
    step.casts = true;
    ck_fails(rg_record(record_step, NULL), RG_NOT_IMPLEMENTED, "16");
    step.casts = false;
    rg_replay *r = rg_record(record_step, NULL);
    RG_AUTOCAST(RG_BFLOAT16);
    rg_fill_(step.w, 1.0 + 1.0 / 1024);
    ck_ok(rg_replay_run(r));
    ck_assert(rg_at(step.y, 0, 0) == 2 + 2.0 / 1024);
    rg_replay_free(r);
    rg_drop(step.y);
}
END_TEST

static void *in_thread(void *context) {
    const bool off = float_product() == RG_FLOAT32;
    RG_AUTOCAST(RG_FLOAT16);
    *(bool *)context = off && float_product() == RG_FLOAT16;
    return NULL;
}

/* Each thread has its own settings. */
START_TEST(test_threads) {
    RG_AUTOCAST(RG_BFLOAT16);
    bool right = false;
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &right);
    pthread_join(thread, NULL);
    ck_assert(right);
    ck_assert_int_eq(float_product(), RG_BFLOAT16);
}
END_TEST

/* A call that runs out of memory leaves autocast on, and its casts to nobody. */
START_TEST(test_without_memory) {
    const int64_t before = rg_live_tensors();
    for (int64_t i = 1, failed = 1; failed; i++) {
        RG_SCOPE();
        rg_tensor *w = leaf(3, 3), *x = rg_ones(3, 3);
        RG_AUTOCAST(RG_BFLOAT16);
        rg_memory_fail_at(i);
        rg_tensor *y = rg_mm(x, w);
        rg_memory_fail_at(0);
        failed = !y;
        ck_assert(y || rg_error_code() == RG_OUT_OF_MEMORY);
        rg_error_clear();
        ck_assert_int_eq(float_product(), RG_BFLOAT16);
        ck_assert(rg_mm(x, w) != NULL);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

/* The row that is made for a class stays until the program ends. */
__attribute__((constructor)) static void rows_stay(void) { rg_memory_may_stay = 1; }

RG_TESTS(autocast, test_settings, test_wrong_dtype, test_padding, test_what_is_cast, test_cache,
         test_cache_and_grad_mode, test_cache_is_current, test_backward, test_hook, test_checkpoint,
         test_function, test_recording, test_threads, test_without_memory)

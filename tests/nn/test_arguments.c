/*
 * test_arguments.c: calls with a function that is NULL, and with objects that an earlier failure
 * left unfinished, are refused. The refusal has its own error message, even while the thread has an
 * older error that the program has read.
 */
#include "regard.h"
#include "tensor/error.h"
#include "tests/test.h"

/* ---- functions that are NULL ---------------------------------------------------------- */

static rg_tensor *x;
static rg_linear_module *linear;
static rg_optim *sgd;

static bool applied(void) {
    rg_apply_to_modules(linear, NULL, NULL);
    return strcmp(rg_error(), "apply_to_modules: expected a function but got NULL") != 0;
}

/* tests/fuzz/covers fails if a public function that takes a function has no row here. */
#define EACH_CALL(ROW)                                                                     \
    ROW(rg_register_hook(x, NULL, NULL) >= 0)                                              \
    ROW(rg_register_hook(rg_ones(2), NULL, NULL) >= 0)                                     \
    ROW(rg_register_post_accumulate_grad_hook(x, NULL, NULL) >= 0)                         \
    ROW(rg_register_forward_hook(&linear->base, NULL, NULL) >= 0)                          \
    ROW(rg_register_forward_pre_hook(&linear->base, NULL, NULL) >= 0)                      \
    ROW(rg_register_full_backward_hook(&linear->base, NULL, NULL) >= 0)                    \
    ROW(rg_register_full_backward_pre_hook(&linear->base, NULL, NULL) >= 0)                \
    ROW(rg_gradcheck_with(NULL, NULL, 1, &x, (rg_gradcheck_options){ .eps = 1e-6 }))       \
    ROW(rg_gradgradcheck_with(NULL, NULL, 1, &x, (rg_gradcheck_options){ .eps = 1e-6 }))   \
    ROW(rg_gradcheck_list_with(NULL, NULL, 1, &x, (rg_gradcheck_options){ .eps = 1e-6 }))

#define MORE_CALLS(ROW)                                                                      \
    ROW(rg_gradgradcheck_list_with(NULL, NULL, 1, &x, (rg_gradcheck_options){ .eps = 1e-6 })) \
    ROW(rg_jacrev_with(NULL, NULL, 1, &x, (rg_derivative_options){ .argnum = 0 }))           \
    ROW(rg_jacfwd_with(NULL, NULL, 1, &x, (rg_derivative_options){ .argnum = 0 }))           \
    ROW(rg_hessian_with(NULL, NULL, 1, &x, (rg_derivative_options){ .argnum = 0 }))          \
    ROW(rg_vjp_with(NULL, NULL, 1, &x, RG_NONE, &y, (rg_derivative_options){ .argnum = 0 })) \
    ROW(rg_jvp_with(NULL, NULL, 1, &x, &x, &y, (rg_derivative_options){ .argnum = 0 }))      \
    ROW(rg_hvp_with(NULL, NULL, 1, &x, &x, &y, (rg_derivative_options){ .argnum = 0 }))      \
    ROW(rg_vmap_with(NULL, NULL, 1, &x, (rg_vmap_options){ .out_dim = 0 }))                  \
    ROW(rg_checkpoint_with(NULL, NULL, 1, &x, (rg_checkpoint_options){ .preserve_rng_state = 1 }))

#define LAST_CALLS(ROW)                            \
    ROW(rg_optim_step_closure(sgd, NULL, NULL))    \
    ROW(rg_record(NULL, NULL))                     \
    ROW(rg_replays_new(NULL, NULL))                \
    ROW(applied())

/* Asserts that the call failed, and that the error is about this call. The thread may have had an
 * older error, which the program has read. */
static void expect_own_sentence(const char *call, bool done) {
    const char *said = rg_error();
    ck_assert_msg(!done, "%s", call);
    ck_assert_msg(strstr(said, "expected a function") || strstr(said, "there is no step"),
                  "%s says '%s'", call, said);
}

#define CHECK(call) expect_own_sentence(#call, call);

START_TEST(test_functions_that_are_null) {
    rg_tensor *y = NULL;
    linear = rg_nn_linear(2, 3);
    sgd = rg_optim_sgd(rg_parameters(linear), .lr = 0.1);
    x = rg_requires_grad_(rg_ones(2), true);
    for (int turn = 0; turn < 2; turn++) {
        EACH_CALL(CHECK)
        MORE_CALLS(CHECK)
        LAST_CALLS(CHECK)
        ck_assert_ptr_null(rg_matmul(rg_ones(2, 3), rg_ones(2, 3)));
        ck_assert(strstr(rg_error(), "matmul"));
    }
    rg_optim_free(sgd);
    rg_module_free(linear);
    rg_error_clear();
}
END_TEST

/* ---- objects that an earlier failure left unfinished ------------------------------------ */

typedef struct {
    rg_module base;
    rg_tensor *a, *b;
    rg_linear_module *child;
} Unfinished;

static const rg_module_class unfinished_class = { .name = "Unfinished" };

/* Returns a module in which a registration has failed, and clears the error. */
static Unfinished *new_unfinished(void) {
    Unfinished *self = RG_MODULE(Unfinished, &unfinished_class);
    ck_assert(!rg_register_parameter(&self->base, "a.b", &self->a, rg_ones(2)));
    ck_assert(strstr(rg_error(), "can't contain"));
    rg_error_clear();
    return self;
}

START_TEST(test_unfinished_modules) {
    static const char says[] = "an earlier registration in this Unfinished failed";
    Unfinished *self = new_unfinished();
    ck_assert(!rg_register_parameter(&self->base, "a", &self->a, rg_ones(2)));
    ck_assert(strstr(rg_error(), says));
    rg_error_clear();
    ck_assert(!rg_register_buffer(&self->base, "b", &self->b, rg_ones(2),
                                  (rg_buffer_options){ .persistent = true }));
    ck_assert(strstr(rg_error(), says));
    rg_error_clear();
    ck_assert(!rg_register_child(&self->base, "child", (rg_module **)(void *)&self->child,
                                 (rg_module *)rg_nn_linear(2, 3)));
    ck_assert(strstr(rg_error(), says));
    rg_error_clear();
    ck_assert_ptr_null(RG_READY(self));
    ck_assert_str_eq(rg_error(), "Unfinished: an earlier registration in this Unfinished failed");
    rg_error_clear();
}
END_TEST

START_TEST(test_failed_average) {
    rg_linear_module *m = rg_nn_linear(2, 3);
    const rg_multi_avg_fn average = rg_get_ema_multi_avg_fn(2);
    rg_error_clear();
    ck_assert_ptr_null(rg_optim_averaged_model(m, .multi_avg_fn = average));
    ck_assert_str_eq(rg_error(), "averaged_model: its multi_avg_fn has failed before");
    rg_error_clear();
    rg_module_free(m);
}
END_TEST

static void refused_step(void *context) {
    rg_item(context);
    rg_error_clear();
}

START_TEST(test_step_that_clears_its_error) {
    ck_assert_ptr_null(rg_record(refused_step, rg_ones(1)));
    ck_assert_str_eq(rg_error(),
                     "record: a call in the step failed, and the step cleared its error");
    rg_error_clear();
}
END_TEST

/* ---- sizes ------------------------------------------------------------------------------ */

static bool copy_out(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_clone(in[0]);
    return true;
}

/* A program may give sizes near SIZE_MAX. Calculations with such a size don't overflow. The size is
 * in a volatile variable, since the compiler warns of such large constants. */
START_TEST(test_sizes_that_overflow) {
    static const size_t extremes[] = { SIZE_MAX,      SIZE_MAX - 7,     SIZE_MAX / 2 + 1,
                                       SIZE_MAX - 63, SIZE_MAX - 4095, SIZE_MAX / 8 * 7 };
    rg_tensor *t = rg_ones(2);
    const Unfinished fields = { .base = { .training = true } };
    char to[64];
    for (int i = 0; i < RG_COUNT(extremes); i++) {
        volatile size_t bytes = extremes[i];
        rg_function_class state = { .name = "State", .forward = copy_out, .state_bytes = bytes };
        rg_function_class args = { .name = "Args", .forward = copy_out, .args_bytes = bytes };
        ck_fails(rg_function_apply_list(&state, NULL, RG_LIST(t)), RG_VALUE_ERROR, "State: args");
        ck_fails(rg_function_apply_list(&args, to, RG_LIST(t)), RG_VALUE_ERROR, "Args: args");
        ck_fails(rg_module_new(bytes, &unfinished_class, &fields), RG_VALUE_ERROR, "Unfinished: ");
        ck_fails(rg_scope_copy(to, bytes), RG_OUT_OF_MEMORY, "out of memory");
    }
    ck_fails(rg_module_new(8, &unfinished_class, &fields), RG_VALUE_ERROR, "Unfinished: ");
    ck_fails(rg_module_new(sizeof fields, &unfinished_class, NULL), RG_VALUE_ERROR, "Unfinished: ");
}
END_TEST

/* A number that is too large for an int parameter is refused: its lower 32 bits aren't used. */
START_TEST(test_numbers_that_are_no_int) {
    static const int64_t far[] = { 0x100000000, 0x100000001, -0xffffffffLL, INT64_MAX, INT64_MIN };
    rg_tensor *t = rg_ones(2, 3);
    for (int i = 0; i < RG_COUNT(far); i++) {
        ck_fails(rg_sum_dim(t, far[i], false), RG_INDEX_ERROR, "Dimension out of range");
        ck_fails(rg_softmax(t, far[i]), RG_INDEX_ERROR, "Dimension out of range");
        ck_fails(rg_transpose(t, 0, far[i]), RG_INDEX_ERROR, "Dimension out of range");
        ck_fails(rg_select(t, far[i], 0), RG_INDEX_ERROR, "Dimension out of range");
        ck_assert_int_eq(rg_size(t, far[i]), -1);
        ck_assert_int_eq(rg_error_code(), RG_INDEX_ERROR);
        rg_error_clear();
    }
    ck_assert_int_eq(rg_size(t, (int64_t)1), 3);
    ck_assert_int_eq(rg_size(t, (int64_t)-2), 2);
}
END_TEST

/* The code and the message stay until the error is cleared. */
START_TEST(test_code_and_message_stay) {
    rg_matmul(rg_ones(2, 3), rg_ones(2, 3));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR);
        ck_assert(strstr(rg_error(), "matmul"));
        ck_assert_ptr_nonnull(rg_ones(2));
    }
    rg_error_clear();
    ck_assert_int_eq(rg_error_code(), RG_OK);
    ck_assert_str_eq(rg_error(), "");
}
END_TEST

RG_TESTS(arguments, test_functions_that_are_null, test_unfinished_modules, test_failed_average,
         test_step_that_clears_its_error, test_sizes_that_overflow, test_numbers_that_are_no_int,
         test_code_and_message_stay)

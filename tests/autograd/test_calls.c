/*
 * test_calls.c: how calls behave as C: arguments are evaluated from left to right,
 * failed lists are empty, and guards may stand on one line.
 */
#include "tests/test.h"
#include "regard.h"

#include <string.h>

START_TEST(test_arguments_are_evaluated_in_order) {
    rg_manual_seed(1);
    rg_tensor *a = rg_rand(3, 2), *b = rg_randn(2, 3), *c = rg_rand(3);
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_matmul(rg_rand(3, 2), rg_randn(2, 3)), rg_matmul(a, b)));
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_mm(rg_rand(3, 2), rg_randn(2, 3)), rg_mm(a, b)));
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_linear(rg_rand(3, 2), rg_t(rg_randn(2, 3)), rg_rand(3)),
                       rg_linear(a, rg_t(b), c)));
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_add(rg_rand(3, 2), rg_t(rg_randn(2, 3))), rg_add(a, rg_t(b))));
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_mse_loss(rg_rand(3, 2), rg_t(rg_randn(2, 3)), .reduction = RG_SUM),
                       rg_mse_loss(a, rg_t(b), .reduction = RG_SUM)));
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_scaled_dot_product_attention(rg_rand(3, 2), rg_t(rg_randn(2, 3)), a),
                       rg_scaled_dot_product_attention(a, rg_t(b), a)));
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_cat(RG_LIST(rg_rand(3, 2), rg_t(rg_randn(2, 3))), 0),
                       rg_cat(RG_LIST(a, rg_t(b)), 0)));
}
END_TEST

/* The chunks of a product that failed are NULL, as the product is, so one check at the end is
 * enough. */
START_TEST(test_a_failed_list_can_be_looked_into) {
    rg_error_clear();
    rg_list qkv = rg_chunk(rg_matmul(rg_ones(2, 3), rg_ones(2, 3)), 3, -1);
    ck_assert_int_eq(qkv.n, -1);
    ck_assert(rg_matmul(qkv.v[0], qkv.v[2]) == NULL);
    ck_assert_msg(strstr(rg_error(), "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
                  "%s", rg_error());
    ck_fails(rg_split(rg_ones(2), -1, 0).v[0], RG_RUNTIME_ERROR, "split");
    ck_fails(rg_index_items(rg_ones(2), 1, NULL), RG_TYPE_ERROR, "expected 1 items but got NULL");
}
END_TEST

START_TEST(test_guards_on_one_line) {
    RG_NO_GRAD();
    RG_ENABLE_GRAD();
    RG_SCOPE();
    RG_SCOPE();
    ck_assert(rg_is_grad_enabled());
    RG_FOR (int i = 0; i < 2; i++)
        RG_FOR (int k = 0; k < 2; k++)
            ck_assert(rg_ones(1));
}
END_TEST

RG_TESTS(calls, test_arguments_are_evaluated_in_order, test_a_failed_list_can_be_looked_into,
         test_guards_on_one_line)

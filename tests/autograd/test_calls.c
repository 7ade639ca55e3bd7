/*
 * test_calls.c: calls of functions as C sees them. Arguments are evaluated from left to right,
 * a list from a failed call has NULL for each tensor, and several guards may stand in one line.
 */
#include "autograd/graph_observer.h"
#include "tensor/scope.h"
#include "tests/test.h"
#include "regard.h"

#include <stdio.h>
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

/* If the query lies in memory as the transpose of a contiguous tensor, so do the result and the
 * gradients. Neither forward nor backward copies anything. */
START_TEST(test_attention_lies_as_its_query_does) {
    rg_tensor *x = rg_requires_grad_(rg_randn(2, 5, 3, 4), true);
    rg_tensor *q = rg_transpose(x, 1, 2);
    rg_tensor *k = rg_detach(q);
    rg_tensor *laid = rg_contiguous(q);
    rg_tensor *y = rg_scaled_dot_product_attention(q, k, k, .is_causal = true);
    ck_assert(rg_is_contiguous(rg_transpose(y, 1, 2)));
    ck_assert(!rg_is_contiguous(y));
    rg_tensor *same = rg_scaled_dot_product_attention(laid, k, k, .is_causal = true);
    ck_assert(rg_is_contiguous(same));
    ck_assert(rg_equal(y, same));
    rg_tensor *g = rg_randn(2, 3, 5, 4);
    rg_tensor *gq = rg_grad(y, q, .gradient = g);
    ck_assert(rg_is_contiguous(rg_transpose(gq, 1, 2)));
    ck_assert(rg_equal(gq, rg_grad(same, laid, .gradient = g)));
    rg_tensor *wide = rg_expand(rg_randn(2, 1, 1, 4), 2, 3, 5, 4);
    ck_assert(rg_is_contiguous(rg_scaled_dot_product_attention(wide, k, k)));
}
END_TEST

/* torch reads beyond k and v for some of these shapes, and refuses other shapes for an odd reason.
 * regard broadcasts batches and heads as rg_matmul does, and masks as rg_add does. It refuses k and
 * v of different lengths. */
START_TEST(test_attention_broadcasts) {
    rg_tensor *q = rg_randn(2, 3, 5, 4), *k = rg_randn(2, 3, 6, 4), *v = rg_randn(2, 3, 6, 4);
    rg_tensor *first_k = rg_narrow(k, 0, 0, 1), *first_v = rg_narrow(v, 0, 0, 1);
    rg_tensor *first_q = rg_narrow(q, 0, 0, 1), *head_q = rg_narrow(q, 1, 0, 1);
    rg_tensor *wide_k = rg_clone(rg_expand(first_k, 2, 3, 6, 4));
    rg_tensor *wide_v = rg_clone(rg_expand(first_v, 2, 3, 6, 4));
    rg_tensor *wide_q = rg_clone(rg_expand(first_q, 2, 3, 5, 4));
    rg_tensor *heads_q = rg_clone(rg_expand(head_q, 2, 3, 5, 4));
    static const double close = 1e-5;
#define ATTEND rg_scaled_dot_product_attention
    ck_assert(rg_allclose(ATTEND(q, first_k, first_v), ATTEND(q, wide_k, wide_v), close, close));
    ck_assert(rg_allclose(ATTEND(first_q, k, v), ATTEND(wide_q, k, v), close, close));
    ck_assert(rg_allclose(ATTEND(head_q, k, v), ATTEND(heads_q, k, v), close, close));
    ck_assert(rg_allclose(ATTEND(q, k, rg_narrow(v, 3, 1, 2)), rg_narrow(ATTEND(q, k, v), 3, 1, 2),
                          close, close));
    rg_tensor *row = rg_randn(6), *masks = rg_randn(2, 1, 5, 6);
    ck_assert(rg_allclose(ATTEND(q, k, v, .attn_mask = row),
                          ATTEND(q, k, v, .attn_mask = rg_clone(rg_expand(row, 5, 6))), close,
                          close));
    ck_assert(rg_allclose(ATTEND(first_q, first_k, first_v, .attn_mask = masks),
                          ATTEND(wide_q, wide_k, wide_v, .attn_mask = masks), close, close));
    ck_fails(ATTEND(q, k, rg_randn(2, 3, 7, 4)), RG_RUNTIME_ERROR, "scaled_dot_product_attention");
    ck_fails(ATTEND(q, k, rg_randn(2, 3, 5, 4)), RG_RUNTIME_ERROR, "scaled_dot_product_attention");
#undef ATTEND
}
END_TEST

/* Returns how many calls of ops a call makes, as the profiler counts them. */
#define CALLS(call)                                         \
    __extension__({                                         \
        const int64_t before = rg_profile_cost(NULL).calls; \
        rg_set_profiling(true);                             \
        ck_ok(call);                                        \
        rg_set_profiling(false);                            \
        rg_profile_cost(NULL).calls - before;               \
    })

/* Inputs that have the wanted shape and scale need no ops that expand, scale or join them. */
START_TEST(test_nothing_is_done_twice) {
    rg_tensor *x = rg_requires_grad_(rg_randn(3, 4), true), *y = rg_randn(3, 4);
    rg_tensor *row = rg_randn(1, 4), *i = rg_zeros_dims(RG_DIMS(3, 4), RG_INT64);
    ck_assert_int_eq(CALLS(rg_cdist(x, y)), 1);
    rg_tensor *heads = rg_randn(1, 2, 3, 4);
    ck_assert_int_eq(CALLS(rg_scaled_dot_product_attention(heads, heads, heads)), 1);
    ck_assert_int_eq(
        CALLS(rg_scaled_dot_product_attention(heads, heads, heads, .enable_gqa = true)), 1);
    rg_tensor *z = rg_randn(3, 4), *large = rg_mul(y, 1e20);
    const int64_t cosine = CALLS(rg_cosine_similarity(z, y, 1, 1e-8));
    ck_assert_int_eq(CALLS(rg_cosine_similarity(z, row, 1, 1e-8)), cosine + 1);
    ck_assert_int_eq(CALLS(rg_cosine_similarity(row, z, 1, 1e-8)), cosine + 1);
    ck_assert_int_eq(CALLS(rg_cosine_similarity(x, y, 1, 1e-8)), cosine + 1);
    ck_assert_int_gt(CALLS(rg_cosine_similarity(z, large, 1, 1e-8)), cosine + 1);
    rg_tensor *sum = rg_mse_loss(x, y, .reduction = RG_SUM), *mean = rg_mse_loss(x, y);
    const int64_t of_sum = CALLS(rg_grad(sum, x, .create_graph = true));
    ck_assert_int_eq(CALLS(rg_grad(mean, x, .create_graph = true)), of_sum + 1);
    ck_assert_int_eq(CALLS(rg_cross_entropy(y, rg_zeros_dims(RG_DIMS(3), RG_INT64))), 1);
    rg_tensor *from_end = rg_sub(i, 1);
    ck_assert_int_eq(CALLS(rg_take_along_dim(y, i, 1)) + 1,
                     CALLS(rg_take_along_dim(y, from_end, 1)));
    rg_tensor *by_2 = rg_sum(rg_cdist(x, y)), *by_3 = rg_sum(rg_cdist(x, y, .p = 3));
    ck_assert_int_lt(CALLS(rg_grad(by_2, x, .create_graph = true)),
                     CALLS(rg_grad(by_3, x, .create_graph = true)));
    rg_tensor *shares = rg_softmax(y, 1);
    ck_assert_int_eq(CALLS(rg_cross_entropy(y, shares)) + 2,
                     CALLS(rg_cross_entropy(y, shares, .label_smoothing = 0.1)));
    rg_tensor *once = rg_sum(rg_repeat(x, 1, 3)), *twice = rg_sum(rg_repeat(x, 2, 3));
    const int64_t of_once = CALLS(rg_grad(once, x));
    ck_assert_int_eq(CALLS(rg_grad(twice, x)), of_once + 2);
    rg_tensor *whole = rg_sum(rg_scatter(y, 0, i, x));
    rg_tensor *part = rg_sum(rg_scatter(y, 0, rg_narrow(i, 0, 0, 1), x));
    const int64_t of_whole = CALLS(rg_grad(whole, x, .create_graph = true));
    ck_assert_int_eq(CALLS(rg_grad(part, x, .create_graph = true)), of_whole + 1);
}
END_TEST

/* The gradient of a sum of at most 4096 elements has an element for each of them in memory. The
 * gradient of a longer sum is one number, expanded. */
START_TEST(test_gradients_of_sums) {
    for (int64_t n = 4095; n <= 4097; n++) {
        rg_tensor *x = rg_requires_grad_(rg_zeros(n), true), *y = rg_mul(x, 1);
        rg_tensor *g = rg_grad(rg_sum(y), y);
        ck_assert(g && rg_equal(g, rg_ones(n)));
        ck_assert_int_eq(rg_stride(g, 0), n <= 4096);
    }
}
END_TEST

/* In eval mode batch_norm reads the running mean and variance, and doesn't change them. */
START_TEST(test_batch_norm_leaves_what_it_reads) {
    rg_tensor *x = rg_randn(4, 3), *mean = rg_randn(3), *var = rg_add(rg_rand(3), 0.5);
    rg_tensor *mean_was = rg_clone(mean), *var_was = rg_clone(var);
    const int64_t versions = rg_version(mean) + rg_version(var);
    ck_ok(rg_batch_norm(x, mean, var));
    ck_assert(rg_equal(mean, mean_was) && rg_equal(var, var_was));
    ck_assert(rg_version(mean) + rg_version(var) == versions);
    ck_ok(rg_batch_norm(x, mean, var, .training = true));
    ck_assert(!rg_equal(mean, mean_was) && !rg_equal(var, var_was));
}
END_TEST

/* If rg_matmul fails, rg_chunk of its result gives a list in which each tensor is NULL. A program
 * needs only one check at the end. */
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

/* Lists of more tensors than an op takes are joined in groups. */
START_TEST(test_long_lists) {
    enum { N = 300 };
    rg_tensor *v[N], *x = rg_requires_grad_(rg_reshape(rg_arange(2.0 * N), N, 2), true);
    for (int i = 0; i < N; i++)
        v[i] = rg_narrow(x, 0, i, 1);
    rg_tensor *joined = rg_cat((rg_list){ N, v }, 0), *beside = rg_cat((rg_list){ N, v }, 1);
    ck_assert(rg_equal(joined, x));
    ck_assert(rg_equal(rg_reshape(beside, N, 2), x));
    ck_assert(rg_equal(rg_reshape(rg_stack((rg_list){ N, v }, 1), N, 2), x));
    rg_backward(rg_sum(rg_mul(joined, x)));
    ck_assert(rg_equal(rg_grad_of(x), rg_mul(rg_detach(x), 2)));
    v[N - 1] = rg_ones(2, 3);
    ck_fails(rg_cat((rg_list){ N, v }, 0), RG_RUNTIME_ERROR, "cat: Sizes of tensors must match");
}
END_TEST

/* Long lists are joined in groups. An error names the first tensor of the whole list that doesn't
 * fit, whichever group has it. */
START_TEST(test_long_lists_that_fail) {
    enum { N = RG_MAX_INPUTS + 10 };
    static rg_tensor *v[N];
    for (int i = 0; i < N; i++)
        v[i] = rg_ones(1, 2);
    v[7] = rg_ones(1, 3);
    v[N - 1] = rg_ones(1, 1, 2);
    ck_fails(rg_cat((rg_list){ N, v }, 0), RG_RUNTIME_ERROR,
             "Expected size 2 but got size 3 for tensor number 7 in the list.");
    ck_fails(rg_stack((rg_list){ N, v }, 0), RG_RUNTIME_ERROR,
             "stack expects each tensor to be equal size, but got [1, 2] at entry 0 and [1, 3] at "
             "entry 7");
}
END_TEST

/* As in torch, index_add along the first and the last dim has the error of scatter. */
START_TEST(test_indices_to_add_at) {
    static const char *const sentences[] = {
        "index 5 is out of bounds for dimension 0 with size 2",
        "index 5 is out of bounds for dimension 1 with size 3",
        "index 5 is out of bounds for dimension 2 with size 4",
    };
    rg_tensor *x = rg_zeros(2, 3, 4), *index = rg_literal([ 0, 5 ]);
    for (int dim = 0; dim < 3; dim++) {
        rg_tensor *source = rg_ones_dims(RG_DIMS(2, dim == 1 ? 2 : 3, dim == 2 ? 2 : 4),
                                         RG_FLOAT32);
        ck_fails(rg_index_add(x, dim, index, source, 1),
                 dim == 1 ? RG_INDEX_ERROR : RG_RUNTIME_ERROR, sentences[dim]);
    }
}
END_TEST

/* Functions take tensors with the largest number of dims. */
START_TEST(test_all_dims) {
    rg_tensor *x = rg_reshape(rg_sub(rg_arange(6.0), 3), 1, 2, 1, 1, 1, 1, 1, 3);
    rg_tensor *two = rg_literal([ 0.5, 0.25 ]), *near = rg_reshape(x, 1, 2, 3), *v[RG_MAX_DIMS];
#define NEAR(y) rg_reshape(y, 1, 2, 3)
    ck_assert(rg_equal(NEAR(rg_prelu(x, two)), rg_prelu(near, two)));
    ck_assert(rg_equal(NEAR(rg_batch_norm(x, two, two, .weight = two)),
                       rg_batch_norm(near, two, two, .weight = two)));
    ck_assert(rg_equal(rg_cross_entropy(x, rg_softmax(x, 1), .weight = two),
                       rg_cross_entropy(near, rg_softmax(near, 1), .weight = two)));
    ck_assert(rg_equal(rg_index(x, rg_gt(x, 0)), rg_literal([ 1.0, 2.0 ])));
    ck_assert(rg_equal(rg_einsum("abcdefgh->bh", x), rg_reshape(x, 2, 3)));
    ck_assert(rg_equal(rg_einsum("aacdbfgh->bh", rg_transpose(x, 1, 4)), rg_reshape(x, 2, 3)));
    ck_assert(rg_equal(NEAR(rg_quantile(x, rg_literal([0.5]), .dim = 0)), near));
    /* Two heads of one row attend to one head of two rows. */
    rg_tensor *q = rg_reshape(near, 1, 1, 1, 1, 2, 1, 3), *k = rg_reshape(q, 1, 1, 1, 1, 1, 2, 3);
    rg_tensor *y = rg_scaled_dot_product_attention(q, k, k, .enable_gqa = true);
    rg_tensor *heads = rg_reshape(q, 2, 1, 3), *rows = rg_expand(near, 2, 2, 3);
    ck_assert(rg_allclose(rg_reshape(y, 2, 1, 3),
                          rg_scaled_dot_product_attention(heads, rows, rows), 1e-6, 1e-6));
    static const char too_many[] = "a tensor has at most 8 dimensions, but 9 were asked for";
    ck_assert(rg_equal(rg_quantile(x, 0.5, .dim = 0, .keepdim = true), x));
    ck_fails(rg_quantile(x, rg_literal([0.5]), .dim = 0, .keepdim = true), RG_RUNTIME_ERROR,
             too_many);
    ck_fails(rg_one_hot(rg_to(x, RG_INT64), 3), RG_RUNTIME_ERROR, too_many);
    ck_fails(rg_unflatten(rg_squeeze_dim(x, 0), 0, RG_DIMS(1, 1, -1)), RG_RUNTIME_ERROR, too_many);
#undef NEAR
    for (int i = 0; i < RG_MAX_DIMS; i++)
        v[i] = rg_arange(1 + (i == 2));
    rg_list grids = rg_meshgrid(rg_list_of(RG_MAX_DIMS, v));
    ck_assert_int_eq(grids.n, RG_MAX_DIMS);
    for (int i = 0; i < RG_MAX_DIMS; i++)
        ck_assert(rg_equal(rg_reshape(grids.v[i], 2),
                           i == 2 ? rg_arange(2) : rg_zeros_dims(RG_DIMS(2), RG_INT64)));
}
END_TEST

/* A recurrent state of size 0 has gradients without elements. */
START_TEST(test_a_state_of_nothing) {
    rg_tensor *gates = rg_requires_grad_(rg_zeros(3, 2, 0), true);
    rg_tensor *weight = rg_requires_grad_(rg_zeros(0, 0), true), *h = rg_zeros(2, 0);
    ck_ok(rg_backward(rg_sum(rg_rnn_scan(gates, weight, h, false, false))));
    ck_assert(rg_equal(rg_grad_of(weight), rg_zeros(0, 0)));
    ck_assert(rg_equal(rg_grad_of(gates), rg_zeros(3, 2, 0)));
}
END_TEST

/* The product of matrices of bools fails, unless the result has no elements, or each element is a
 * sum of no terms. */
START_TEST(test_products_of_truths) {
    static const struct {
        rg_dims a, b;
        bool refused;
    } products[] = {
        { { 2, { 2, 3 } }, { 2, { 3, 2 } }, true },
        { { 2, { 2, 3 } }, { 1, { 3 } }, true },
        { { 3, { 2, 2, 3 } }, { 3, { 2, 3, 2 } }, true },
        { { 2, { 0, 3 } }, { 2, { 3, 2 } }, false },
        { { 2, { 2, 3 } }, { 2, { 3, 0 } }, false },
        { { 2, { 2, 0 } }, { 2, { 0, 2 } }, false },
        { { 2, { 0, 3 } }, { 1, { 3 } }, false },
        { { 3, { 2, 0, 3 } }, { 3, { 2, 3, 2 } }, false },
        { { 3, { 0, 2, 3 } }, { 3, { 0, 3, 2 } }, false },
        { { 3, { 2, 2, 3 } }, { 3, { 2, 3, 0 } }, false },
        { { 3, { 2, 2, 0 } }, { 3, { 2, 0, 2 } }, false },
    };
    for (int i = 0; i < (int)(sizeof products / sizeof *products); i++) {
        rg_tensor *a = rg_zeros_dims(products[i].a, RG_BOOL);
        rg_tensor *b = rg_zeros_dims(products[i].b, RG_BOOL);
        if (products[i].refused)
            ck_fails(rg_matmul(a, b), RG_NOT_IMPLEMENTED, "matmul: not implemented for 'Bool'");
        else
            ck_ok(rg_matmul(a, b));
    }
}
END_TEST

/* No tensor has these sizes, but some of these calls have a result without elements. */
START_TEST(test_absurd_sizes) {
    static const int64_t offsets[] = { INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX };
    for (int i = 0; i < 4; i++)
        ck_fails(rg_diag_embed(rg_ones(2), offsets[i], 0, 1), RG_RUNTIME_ERROR,
                 "diag_embed: Storage size calculation overflowed with "
                 "sizes=[9223372036854775807, 9223372036854775807]");
    const int64_t large = (int64_t)1 << 40;
    rg_tensor *flat = rg_flatten(rg_expand(rg_zeros(0, 1, 1, 3), 0, large, large, 3), 1, 2);
    ck_ok(flat);
    ck_assert(rg_ndim(flat) == 3 && rg_size(flat, 0) == 0 && rg_size(flat, 1) == 0);
    ck_assert(rg_size(flat, 2) == 3);
    flat = rg_flatten(rg_expand(rg_zeros(0, 1, 1, 3), 0, large + 1, large + 1, 3), 1, 2);
    ck_assert(flat && rg_size(flat, 1) == 0);
    rg_tensor *wide = rg_expand(rg_zeros(0, 1), 0, large + 1);
    rg_tensor *row = rg_expand(rg_ones(1, 1), 1, large + 1);
    rg_tensor *product = rg_kron(wide, row);
    ck_assert(product && rg_size(product, 0) == 0 && rg_size(product, 1) == INT64_MAX);
}
END_TEST

/* A call's peak of memory is the memory of its result, and of what it converts or saves. PEAK
 * asserts that the peak is `blocks` blocks, each of which is the memory of side x side elements of
 * float32. */
#define PEAK(blocks, call)                                                                         \
    do {                                                                                           \
        RG_SCOPE();                                                                                \
        rg_memory_reset_peak();                                                                    \
        const int64_t before = rg_memory_stats().now;                                              \
        ck_ok(call);                                                                               \
        const int64_t bytes = rg_memory_stats().peak - before;                                     \
        const double taken = (double)bytes / (double)(4 * side * side);                            \
        ck_assert_msg(taken >= (blocks) && taken <= 1.26 * (blocks) + 0.1, "%s takes %.2f blocks", \
                      #call, taken);                                                               \
    } while (0)

static rg_tensor *chain_of(rg_tensor *x, int n) {
    for (int i = 0; i < n; i++)
        x = rg_sin(x);
    return x;
}

/* Returns a sum over the rows of x, each of which is selected by an op of its own. */
static rg_tensor *by_rows(rg_tensor *x) {
    rg_tensor *sum = rg_sum(rg_sin(rg_select(x, 0, 0)));
    for (int i = 1; i < 32; i++)
        sum = rg_add(sum, rg_sum(rg_sin(rg_select(x, 0, i))));
    return sum;
}

START_TEST(test_what_calls_take) {
    /* Each thread of a product takes memory, so only one thread is used. */
    const int threads = rg_get_num_threads();
    rg_set_num_threads(1);
    const int64_t side = rg_slow() ? 320 : 512;
    rg_tensor *x = rg_randn(side, side), *w = rg_requires_grad_(rg_randn(side, side), true);
    rg_tensor *wide = rg_to(rg_randn(side, side), RG_FLOAT64), *whole = rg_to(x, RG_INT64);
    rg_tensor *y = rg_mul(w, 1), *z = rg_mul(w, 1), *row = rg_randn(side);
    PEAK(1, rg_add(x, x));
    PEAK(1, rg_add(x, row));
    PEAK(1, rg_add(x, 2));
    PEAK(1, rg_mul(w, x));
    PEAK(4, rg_add(x, wide));
    PEAK(4, rg_add(w, wide));
    PEAK(2, rg_add(x, whole));
    PEAK(2, rg_exp(whole));
    PEAK(1, rg_exp(x));
    PEAK(1, rg_softmax(x, 1));
    PEAK(1, rg_matmul(x, x));
    PEAK(1, rg_matmul(x, rg_T(x)));
    PEAK(0, rg_add_(x, 1));
    PEAK(0, rg_add_(x, row));
    PEAK(1, rg_add_(y, x));
    PEAK(1, rg_add_(y, z));
    PEAK(1, rg_mul_(y, 3));
    PEAK(2, rg_mul_(y, z));
    PEAK(1, rg_copy_(z, y));
    PEAK(0, rg_T(x));
    PEAK(0, rg_reshape(x, side / 2, side * 2));
    PEAK(1, rg_reshape(rg_T(x), side / 2, side * 2));
    PEAK(0, rg_contiguous(x));
    PEAK(0, rg_to(x, RG_FLOAT32));
    PEAK(0, rg_sum(x));
    PEAK(0, rg_mean_dim(x, 0, false));
    PEAK(1, rg_where(rg_expand(rg_gt(row, 0), side, side), x, x));
    /* If the value or the index is a part of the tensor that is written to, only that part is
     * copied. */
    rg_tensor *zeros = rg_zeros_dims(RG_DIMS(side, side), RG_INT64), *some = rg_select(zeros, 0, 1);
    PEAK(0, rg_set_item_(x, rg_narrow(x, 0, 1, 1), 0));
    PEAK(0, rg_set_item_(zeros, 0, rg_narrow(some, 0, 0, 4)));
    /* Backward releases the gradient of an op's output as soon as it has computed the gradients of
     * the op's inputs. The gradients of all slices of a tensor are summed in a single tensor. */
    rg_tensor *far = rg_sum(chain_of(w, 8)), *rows = by_rows(w);
    PEAK(3, rg_grad(far, w, .retain_graph = true));
    PEAK(3, rg_backward(far, .retain_graph = true));
    rg_set_grad(w, RG_NONE);
    PEAK(1, rg_grad(rows, w, .retain_graph = true));
    PEAK(1, rg_backward(rows, .retain_graph = true));
    rg_tensor *top = rg_narrow(x, 0, 0, side / 2), *rest = rg_narrow(x, 0, side / 2, side / 2);
    PEAK(1, rg_cat(RG_LIST(top, rest), 0));
    rg_set_num_threads(threads);
}
END_TEST

/* The target of one row of scores may be a number or have one dim. */
START_TEST(test_one_row_of_scores) {
    rg_tensor *x = rg_literal([ 1.0, 2.0, 4.0 ]), *target = rg_literal([2]);
    rg_tensor *loss = rg_nll_loss(x, target, .reduction = RG_EACH);
    ck_assert(loss && rg_ndim(loss) == 0 && rg_item(loss) == -4);
    loss = rg_nll_loss(x, rg_scalar(2), .reduction = RG_EACH);
    ck_assert(loss && rg_ndim(loss) == 0 && rg_item(loss) == -4);
}
END_TEST

/* The golden cases call the functions behind these macros, so the macros are tested here. */
START_TEST(test_options_by_name) {
    rg_tensor *x = rg_literal([ [ 3.0, 1.0 ], [ 2.0, 4.0 ] ]), *i = rg_literal([ 0, -1 ]);
    ck_assert(rg_equal(rg_repeat_interleave(rg_literal([ 1, 2 ]), 2), rg_literal([ 1, 1, 2, 2 ])));
    ck_assert(rg_equal(rg_repeat_interleave(x, rg_literal([ 0, 1 ]), .dim = 1, .output_size = 1),
                       rg_literal([ [1.0], [4.0] ])));
    ck_assert(rg_equal(rg_meshgrid(RG_LIST(i, rg_literal([ 5, 6, 7 ]))).v[0],
                       rg_literal([ [ 0, 0, 0 ], [ -1, -1, -1 ] ])));
    ck_assert(rg_equal(rg_meshgrid(RG_LIST(i, i), .indexing = "xy").v[1],
                       rg_literal([ [ 0, 0 ], [ -1, -1 ] ])));
    ck_assert(rg_equal(rg_nan_to_num(rg_literal([ nan, -inf ]), .neginf = -2),
                       rg_literal([ 0.0, -2.0 ])));
    ck_assert(rg_equal(rg_nan_to_num_(rg_literal([ nan, 1.0 ])), rg_literal([ 0.0, 1.0 ])));
    ck_assert_double_eq(rg_item(rg_quantile(x, 0.5)), 2.5);
    ck_fails(rg_quantile(x, 0.5, .interpolation = NULL), RG_TYPE_ERROR, "expected a text");
    ck_assert(
        rg_equal(rg_quantile(x, 1, .dim = 0, .interpolation = "lower"), rg_literal([ 3.0, 4.0 ])));
    ck_assert(
        rg_equal(rg_bincount(rg_literal([ 0, 2 ]), .minlength = 4), rg_literal([ 1, 0, 1, 0 ])));
    ck_assert(rg_equal(rg_bincount(rg_literal([1]), .weights = rg_literal([0.5])),
                       rg_literal([ 0.0, 0.5 ])));
    ck_assert(rg_equal(rg_searchsorted(rg_literal([ 1, 3 ]), rg_literal([ 2, 3 ]), true),
                       rg_literal([ 1, 2 ])));
    ck_assert(
        rg_equal(rg_searchsorted(rg_literal([ 3, 1 ]), 3, false, .sorter = rg_literal([ 1, 0 ])),
                 rg_scalar(1)));
    ck_assert(rg_equal(rg_cdist(x, x, .p = 1), rg_literal([ [ 0.0, 4.0 ], [ 4.0, 0.0 ] ])));
    ck_assert(rg_equal(rg_cdist(x, x, .compute_mode = "donot_use_mm_for_euclid_dist"),
                       rg_sqrt(rg_literal([ [ 0.0, 10.0 ], [ 10.0, 0.0 ] ]))));
    rg_tensor *at = rg_literal([ 0, 0 ]), *source = rg_literal([ 5.0, 7.0 ]);
    ck_assert(rg_equal(rg_scatter_reduce(source, 0, at, source, "mean", .include_self = false),
                       rg_literal([ 6.0, 7.0 ])));
    ck_assert(
        rg_equal(rg_scatter_reduce_(rg_zeros(2), 0, at, source, "sum"), rg_literal([ 12.0, 0.0 ])));
}
END_TEST

/* Indices that count from the end are used, and the tensor of indices doesn't change. */
START_TEST(test_indices_stay) {
    rg_tensor *i = rg_literal([ 0, -1 ]);
    ck_assert(rg_equal(rg_index_fill(rg_zeros(3), 0, i, 1), rg_literal([ 1.0, 0.0, 1.0 ])));
    ck_assert(rg_equal(rg_take(rg_arange(3.), i), rg_literal([ 0.0, 2.0 ])));
    ck_assert(rg_equal(i, rg_literal([ 0, -1 ])));
}
END_TEST

/* A write is refused if an index or a source shares memory with the tensor that is written to. */
START_TEST(test_overlapping_writes_are_refused) {
    static const char sentence[] = "refer to a single memory location";
    rg_tensor *x = rg_arange(4.), *i = rg_literal([ 1, 0, 3, 2 ]);
    ck_fails(rg_scatter_(x, 0, i, x), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_scatter_add_(x, 0, i, x), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_index_add_(x, 0, i, x, 2), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_index_copy_(x, 0, i, x), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_scatter_reduce_(x, 0, i, x, "sum"), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_index_copy_(rg_narrow(x, 0, 0, 2), 0, rg_literal([ 0, 1 ]), rg_narrow(x, 0, 1, 2)),
             RG_RUNTIME_ERROR, sentence);
    ck_assert(rg_equal(x, rg_arange(4.)));
    rg_tensor *five = rg_literal([ 5, 1, 2, 3, 4, 0 ]), *values = rg_literal([ 9, 8, 7, 6 ]);
    rg_tensor *to[] = { i, rg_view(i, 4), rg_narrow(five, 0, 0, 4) };
    rg_tensor *at[] = { i, i, rg_narrow(five, 0, 1, 4) };
    for (int k = 0; k < RG_COUNT(to); k++) {
        ck_fails(rg_scatter_(to[k], 0, at[k], values), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_scatter_(to[k], 0, at[k], 3), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_scatter_add_(to[k], 0, at[k], values), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_index_add_(to[k], 0, at[k], values, 1), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_index_copy_(to[k], 0, at[k], values), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_index_fill_(to[k], 0, at[k], 2), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_scatter_reduce_(to[k], 0, at[k], values, "prod"), RG_RUNTIME_ERROR, sentence);
    }
    ck_assert(rg_equal(i, rg_literal([ 1, 0, 3, 2 ])));
    ck_assert(rg_equal(five, rg_literal([ 5, 1, 2, 3, 4, 0 ])));
    ck_assert(
        rg_index_copy_(rg_narrow(x, 0, 0, 2), 0, rg_literal([ 0, 1 ]), rg_narrow(x, 0, 2, 2)));
    ck_assert(rg_equal(x, rg_literal([ 2.0, 3.0, 2.0, 3.0 ])));
    /* Parts that lie side by side don't share memory. */
    rg_tensor *first = rg_narrow(x, 0, 0, 2), *last = rg_narrow(x, 0, 2, 2);
    rg_tensor *turned = rg_literal([ 1, 0 ]);
    ck_ok(rg_scatter_(last, 0, turned, first));
    ck_assert(rg_equal(x, rg_literal([ 2.0, 3.0, 3.0, 2.0 ])));
    ck_ok(rg_scatter_(first, 0, turned, last));
    ck_assert(rg_equal(x, rg_literal([ 2.0, 3.0, 3.0, 2.0 ])));
    rg_tensor *pairs = rg_reshape(rg_arange(4.), 2, 2);
    ck_ok(rg_scatter_(rg_select(pairs, 1, 0), 0, turned, rg_select(pairs, 1, 1)));
    ck_assert(rg_equal(pairs, rg_literal([ [ 3.0, 1.0 ], [ 1.0, 3.0 ] ])));
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

/* The dims of an ellipsis get labels of their own, even if the equation uses the last letters. */
START_TEST(test_einsum_of_all_letters) {
    rg_tensor *x = rg_rand(2, 3, 4), *y = rg_rand(3, 4, 5);
    rg_tensor *want = rg_einsum("abc,bcd->abcd", x, y);
    ck_assert(rg_equal(rg_einsum("X...,...Z->X...Z", x, y), want));
    ck_assert(rg_equal(rg_einsum("x...,...z->x...z", x, y), want));
    ck_assert(rg_equal(rg_einsum("XY...,Y...Z->XY...Z", x, y), want));
    ck_assert(rg_equal(rg_einsum("wx...,x...z->wx...z", x, y), want));
}
END_TEST

/* An option that int can't hold is refused, although its lower 32 bits are a valid dim. */
START_TEST(test_options_of_64_bits) {
    rg_tensor *x = rg_ones(2, 3);
    static const int64_t beyond[] = { 1ll << 32, -(1ll << 32), INT64_MAX, INT64_MIN };
    for (int i = 0; i < 4; i++) {
        ck_fails(rg_quantile(x, 0.5, .dim = beyond[i]), RG_INDEX_ERROR, "quantile: Dimension out");
        ck_fails(rg_repeat_interleave(x, 2, .dim = beyond[i]), RG_INDEX_ERROR,
                 "repeat_interleave: Dimension out");
    }
}
END_TEST

/* A dim of an unsigned type that an int64_t can't hold is refused: it isn't taken for a negative
 * one. */
START_TEST(test_unsigned_dims) {
    rg_tensor *x = rg_ones(2, 3);
    const size_t least = 0;
    const unsigned long long most = UINT64_MAX;
    const unsigned int small = 1;
    ck_fails(rg_softmax(x, least - 1), RG_INDEX_ERROR, "softmax: Dimension out");
    ck_fails(rg_sum_dim(x, most, false), RG_INDEX_ERROR, "sum: Dimension out");
    ck_fails(rg_softmax(x, (1ull << 63) + 1), RG_INDEX_ERROR, "softmax: Dimension out");
    ck_fails(rg_softmax(x, 4294967295u), RG_INDEX_ERROR, "softmax: Dimension out");
    ck_assert(rg_size(x, small) == 3 && rg_size(x, least) == 2 && rg_size(x, -1ll) == 3);
    rg_error_clear();
}
END_TEST

/* Without an output in the equation, the result's dims are the labels that occur once, in the order
 * of their letters, capitals first. */
START_TEST(test_einsum_without_an_output) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    rg_tensor *x = rg_rand(2, 3), *turned = rg_t(x);
    for (const char *first = letters; *first; first++)
        for (const char *second = first + 1; *second; second++) {
            const char in_order[] = { *first, *second, '\0' };
            const char not_in_order[] = { *second, *first, '\0' };
            ck_each(rg_equal(rg_einsum(in_order, x), x), "%s: %s", in_order, rg_error());
            ck_each(rg_equal(rg_einsum(not_in_order, x), turned), "%s: %s", not_in_order,
                    rg_error());
        }
}
END_TEST

/* A product of two operands that sums over no label is a plain rg_mul, without copies of the
 * operands. An intermediate product may have at most RG_MAX_DIMS dims, like any tensor. */
START_TEST(test_einsum_of_products) {
    rg_tensor *x = rg_requires_grad_(rg_rand(2, 3), true), *v = rg_rand(4);
    rg_tensor *y = rg_einsum("ij,k->kji", x, v);
    ck_assert_str_eq(rg_grad_fn(y), "MulBackward0");
    ck_assert(rg_equal(y, rg_mul(rg_reshape(v, 4, 1, 1), rg_t(x))));
    ck_assert_str_eq(rg_grad_fn(rg_einsum("i,j,ij->ji", rg_ones(2), rg_ones(3), x)),
                     "MulBackward0");
    rg_tensor *four = rg_ones(1, 2, 1, 2), *five = rg_ones(1, 1, 2, 1, 2);
    rg_tensor *eight = rg_ones(1, 2, 1, 2, 1, 2, 1, 2);
    ck_assert(rg_item(rg_einsum("abcd,efgh,abcdefgh->", four, four, eight)) == 16);
    rg_tensor *wide = rg_ones(2, 2, 2, 2, 2), *broad = rg_ones(2, 2, 2, 2);
    rg_tensor *all = rg_ones(2, 2, 2, 2, 2, 2, 2, 2);
    ck_assert(rg_item(rg_einsum("abcde,fghi,abcdfghi->", five, broad, all)) == 512);
    ck_assert(rg_equal(rg_einsum("abcdx,xefgh->abcdefgh", wide, wide), rg_mul(all, 2)));
    ck_fails(rg_einsum("abcde,fghi->abcdefghi", wide, broad), RG_RUNTIME_ERROR,
             "einsum: a tensor has at most 8 dimensions, but 9 were asked for");
    ck_fails(rg_einsum("abcde,fghi,abcdfghi->e", wide, broad, all), RG_RUNTIME_ERROR,
             "einsum: a tensor has at most 8 dimensions, but 9 were asked for");
}
END_TEST

/* split takes a size of 0 only if the dim has size 0, whatever the other dims are. */
START_TEST(test_parts_of_no_size) {
    ck_fails(rg_split(rg_zeros(0, 3), 0, 1).n >= 0, RG_RUNTIME_ERROR,
             "split_size can only be 0 if dimension size is 0, but got dimension size of 3");
    ck_assert_int_eq(rg_split(rg_zeros(3, 0), 0, 1).n, 1);
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

/* As in torch, the error has the shape to which the input is reshaped, and not the input's own
 * shape. */
START_TEST(test_group_norm_of_one_value) {
    ck_fails(rg_group_norm(rg_zeros(2, 1), 2, RG_NONE, RG_NONE, 1e-5), RG_VALUE_ERROR,
             "Expected more than 1 value per channel when training, got input size [1, 2]");
}
END_TEST

/* From 26 rows on, cdist computes distances from a matrix product. Digits that are small beside the
 * squares are lost. */
START_TEST(test_distances_by_products) {
    rg_tensor *many = rg_add(rg_mul(rg_reshape(rg_arange(78), 26, 3), 1e-3), 1e3);
    rg_tensor *few = rg_narrow(many, 0, 0, 25), *one = rg_narrow(many, 0, 3, 1);
    rg_tensor *exact = rg_cdist(many, one, .compute_mode = "donot_use_mm_for_euclid_dist");
    ck_assert(!rg_allclose(rg_cdist(many, one), exact, 1e-3, 0));
    ck_assert(!rg_allclose(rg_cdist(one, many), rg_mT(exact), 1e-3, 0));
    ck_assert(rg_equal(rg_cdist(few, one), rg_narrow(exact, 0, 0, 25)));
    ck_assert(rg_equal(rg_cdist(one, few), rg_mT(rg_narrow(exact, 0, 0, 25))));
}
END_TEST

/* Losses refuse numbers that are no reduction. Only kl_div takes the mean over the batch. */
START_TEST(test_no_reduction) {
    typedef rg_tensor *loss(rg_tensor * x, rg_tensor * target, rg_loss_options o);
    static loss *const losses[] = { rg_kl_div_with,
                                    rg_mse_loss_with,
                                    rg_l1_loss_with,
                                    rg_smooth_l1_loss_with,
                                    rg_huber_loss_with,
                                    rg_binary_cross_entropy_with,
                                    rg_binary_cross_entropy_with_logits_with,
                                    rg_nll_loss_with,
                                    rg_cross_entropy_with };
    rg_tensor *x = rg_full(RG_DIMS(2, 3), 0.5), *class = rg_literal([ 0, 2 ]);
    for (int i = 0; i < (int)(sizeof losses / sizeof losses[0]); i++) {
        rg_tensor *target = i < 7 ? x : class;
        rg_loss_options o = { .weight = RG_NONE, .pos_weight = RG_NONE, .beta = 1, .delta = 1 };
        for (int wrong = -1; wrong < 7; wrong++) {
            if (wrong == RG_MEAN || wrong == RG_SUM || wrong == RG_EACH)
                continue;
            o.reduction = (rg_reduction)wrong;
            if (wrong == RG_BATCHMEAN && i == 0)
                ck_ok(losses[i](x, target, o));
            else
                ck_fails(losses[i](x, target, o), RG_VALUE_ERROR,
                         "is not a valid value for reduction");
        }
        o.reduction = RG_EACH;
        ck_ok(losses[i](x, target, o));
    }
}
END_TEST

/* Long lists are joined in groups. Each tensor keeps its place, also at the ends of groups. */
START_TEST(test_lists_at_their_limits) {
    static const int lengths[] = { 1023, 1024, 1025, 2046, 2047, 2048, 2049 };
    static rg_tensor *v[2100];
    rg_tensor *all = rg_arange(2100);
    for (int i = 0; i < 2100; i++)
        v[i] = rg_narrow(all, 0, i, 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int n = lengths[i];
        rg_tensor *cat = rg_cat((rg_list){ n, v }, 0), *stack = rg_stack((rg_list){ n, v }, 0);
        ck_assert_msg(cat && rg_equal(cat, rg_narrow(all, 0, 0, n)), "%d: %s", n, rg_error());
        ck_assert_msg(stack && rg_equal(rg_reshape(stack, n), cat), "%d: %s", n, rg_error());
    }
}
END_TEST

/* ---- observers of all threads ---------------------------------------------------------- */

/* An observer counts what it is told of, and refuses the event whose bit is in `refuses`. */
static struct {
    int begun, calls, steps, asked, saves, applied, gradients, adds, notes_freed;
    int refuses;
} told;

static bool refuse_if(int event) {
    return !(told.refuses & event) || rgi_fail(RG_RUNTIME_ERROR, "observer", "it refuses");
}
static void told_begin(rg_graph_observer *o, rg_span *span) {
    (void)o;
    told.begun++;
    span->notes[0] = 7;
}
static void told_call(rg_graph_observer *o, const rg_span *span, const rg_call *c) {
    (void)o;
    (void)c;
    told.calls += span->notes[0] == 7;
}
static void told_step(rg_graph_observer *o, const rg_span *span, const rg_step *s, uint32_t made) {
    (void)o;
    (void)s;
    (void)made;
    told.steps += span->notes[0] == 7;
}
static bool told_records(rg_graph_observer *o, const rg_call *c) {
    (void)o;
    (void)c;
    told.asked++;
    return !(told.refuses & RG_SEES_RECORDING);
}
static bool told_may_save(rg_graph_observer *o, const rg_call *c, uint32_t needs) {
    (void)o;
    (void)c;
    told.saves += needs != 0;
    return true;
}
static void told_free(rg_note *note) {
    told.notes_freed++;
    rgi_free(note, sizeof *note, RG_MEM_OTHER);
}
static const rg_note_class told_class = { .free = told_free };
static bool told_applied(rg_graph_observer *o, const rg_call *c, rg_node *n) {
    (void)o;
    (void)c;
    told.applied++;
    rg_note *note = n ? rgi_alloc(sizeof *note, RG_MEM_OTHER) : NULL;
    if (note)
        rgi_note_add(n, note, &told_class);
    ck_assert(!n || rgi_note_of(n, &told_class) == note);
    return refuse_if(RG_SEES_CALLS);
}
static bool told_gradient(rg_graph_observer *o, const rg_step *s, rg_tensor *g, int input) {
    (void)o;
    (void)s;
    (void)g;
    (void)input;
    told.gradients++;
    return refuse_if(RG_SEES_GRADIENTS);
}
static bool told_add(rg_graph_observer *o, rg_tensor *grad) {
    (void)o;
    (void)grad;
    told.adds++;
    return refuse_if(RG_SEES_COMMITS);
}

static bool square_and_back(rg_tensor *x) {
    RG_SCOPE();
    return rg_backward(rg_sum(rg_square(x)));
}

START_TEST(test_an_observer_of_all_threads) {
    static rg_graph_observer teller = { .begin_span = told_begin,
                                        .end_call = told_call,
                                        .end_step = told_step,
                                        .records = told_records,
                                        .may_save = told_may_save,
                                        .applied = told_applied,
                                        .made_gradient = told_gradient,
                                        .may_add = told_add };
    rg_tensor *x = rg_requires_grad_(rg_rand(3), true);
    ck_assert(square_and_back(x) && !told.begun && !told.applied);
    ck_assert(!rgi_set_graph_observer(&teller, true));
    ck_assert(square_and_back(x));
    ck_assert_int_eq(told.calls + told.steps, told.begun);
    ck_assert_int_eq(told.steps, 2);
    ck_assert_int_eq(told.asked, 2);
    ck_assert_int_eq(told.saves, 1);
    ck_assert(told.applied >= 2 && told.applied == told.calls);
    ck_assert_int_eq(told.gradients, 2);
    ck_assert_int_eq(told.adds, 1);
    ck_assert_int_eq(told.notes_freed, 2);
    const int events[] = { RG_SEES_CALLS, RG_SEES_GRADIENTS, RG_SEES_COMMITS };
    for (int i = 0; i < 3; i++) {
        told.refuses = events[i];
        ck_assert(!square_and_back(x) && strstr(rg_error(), "it refuses"));
    }
    told.refuses = RG_SEES_RECORDING;
    ck_assert(!rg_requires_grad(rg_square(x)));
    told.refuses = 0;
    ck_assert(rgi_set_graph_observer(&teller, false));
    const int applied = told.applied;
    ck_assert(square_and_back(x));
    ck_assert_int_eq(told.applied, applied);
    rgi_count_graph_observer(&teller, 1);
    rgi_count_graph_observer(&teller, 1);
    rgi_count_graph_observer(&teller, -1);
    ck_assert(rgi_is_in_force(&teller) && rgi_is_observed(RG_SEES_COMMITS));
    rgi_count_graph_observer(&teller, -1);
    ck_assert(!rgi_is_in_force(&teller) && !rgi_is_observed(~0));
}
END_TEST

/* An observer whose functions are all NULL changes nothing. */
START_TEST(test_an_observer_of_nothing) {
    rg_tensor *w = rg_requires_grad_(rg_literal([ 1., 2., 3. ]), true), *seen[2][4];
    for (int watched = 0; watched < 2; watched++) {
        rg_graph_observer nothing = { 0 };
        rg_observer *before = rgi_set_observer(watched ? &nothing.tensors : NULL);
        rg_tensor **v = seen[watched];
        v[0] = rg_add_(rg_mul(w, rg_full(RG_DIMS(3), 2)), rg_cat(RG_LIST(w), 0));
        v[1] = rg_mul_(rg_narrow(rg_exp(w), 0, 1, 2), rg_to(rg_ones(2), RG_FLOAT64));
        bool set = rg_set_grad(w, rg_detach(v[0]));
        v[2] = rg_grad_of(w);
        v[3] = rg_copy_(rg_fill_(rg_zeros(3), 2), rg_sum_dim(rg_reshape(w, 3, 1), 1, false));
        rgi_set_observer(before);
        ck_assert_msg(set && rg_error_code() == RG_OK, "%s", rg_error());
    }
    for (int i = 0; i < 4; i++)
        ck_assert_msg(rg_equal(seen[0][i], seen[1][i]), "%d: %s", i, rg_repr(seen[1][i]));
    ck_assert_str_eq(rg_grad_fn(seen[1][0]), "AddBackward0");
}
END_TEST

/* The op writes element i before it reads the elements at the other end, so it can't write over its
 * input. */
static bool turned_forward(rg_call *c) {
    const rg_tensor *x = c->in[0];
    for (int64_t i = 0; i < x->numel; i++)
        ((float *)c->out[0]->data)[i] = ((float *)x->data)[x->numel - 1 - i];
    return true;
}
static rg_tensor *turned_rule(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_flip(g, 0);
}
static const rg_op turned = { .name = "turned",
                              .node = "TurnedBackward0",
                              .n_in = 1,
                              .shape = rgi_shape_same,
                              .forward = turned_forward,
                              .grad = { RG_RULE(0, turned_rule) } };

/* If `inplace` is false, an op isn't computed in place: its result is copied over the input. */
START_TEST(test_an_op_that_is_not_direct) {
    rg_tensor *plain = rg_literal([ 1., 2., 3. ]), *want = rg_literal([ 3., 2., 1. ]);
    ck_assert(rgi_apply_inplace("turned_", &turned, NULL, 0, 1, &plain) == plain);
    ck_assert(rg_equal(plain, want));
    rg_tensor *w = rg_requires_grad_(rg_clone(plain), true);
    rg_tensor *y = rg_mul(w, rg_literal([ 1., 2., 3. ]));
    ck_ok(rgi_apply_inplace("turned_", &turned, NULL, 0, 1, &y));
    ck_assert_str_eq(rg_grad_fn(y), "TurnedBackward0");
    ck_assert(rg_equal(y, rg_literal([ 3., 4., 3. ])));
    ck_ok(rg_backward(rg_sum(rg_mul(y, rg_literal([ 1., 10., 100. ])))));
    ck_assert(rg_equal(rg_grad_of(w), rg_literal([ 100., 20., 3. ])));
}
END_TEST

/* rgi_apply_outputs writes nothing behind the end of the list of outputs, whether the op fails or
 * not. */
static bool makes_two;
static bool pair_shape(rg_call *c) {
    RG_FAIL_VALUE_IF(!makes_two, "pair", "there is none");
    return rgi_shape_same(c);
}
static bool pair_forward(rg_call *c) {
    for (int k = 0; k < 2; k++)
        rgi_fill_zero(c->out[k]);
    return true;
}
static const rg_op pair = {
    .name = "pair", .n_in = 1, .n_out = 2, .shape = pair_shape, .forward = pair_forward
};

START_TEST(test_outputs_and_no_more) {
    rg_tensor *x = rg_ones(3);
    for (int two = 0; two < 2; two++) {
        rg_tensor *out[] = { x, x, x };
        makes_two = two;
        ck_assert(rgi_apply_outputs(&pair, NULL, 0, 1, &x, out) == makes_two);
        for (int k = 0; k < 2; k++)
            ck_assert(two ? rg_equal(out[k], rg_zeros(3)) : !out[k]);
        ck_assert(out[2] == x);
    }
    rg_error_clear();
}
END_TEST

/* A call that fails returns no output, even if the scope has room for its first output. */
START_TEST(test_all_outputs_or_none) {
    rg_tensor *x = rg_ones(2, 3);
    for (int fill = 0; fill < 140; fill++) {
        bool done = false;
        for (int64_t n = 1; !done; n++) {
            RG_SCOPE();
            for (int i = 0; i < fill; i++)
                rgi_lend(x);
            rg_error_clear();
            rg_memory_fail_at(n);
            rg_values_indices most = rg_max_dim(x, 1, false);
            rg_memory_fail_at(0);
            done = rg_error_code() == RG_OK;
            ck_each(!most.values == !done && !most.indices == !done, "%d before, request %d: %s",
                    fill, (int)n, rg_error());
        }
    }
    rg_error_clear();
}
END_TEST

RG_TESTS(calls, test_what_calls_take, test_arguments_are_evaluated_in_order,
         test_attention_lies_as_its_query_does, test_a_failed_list_can_be_looked_into,
         test_options_by_name, test_long_lists, test_one_row_of_scores, test_absurd_sizes,
         test_indices_to_add_at, test_indices_stay, test_overlapping_writes_are_refused,
         test_guards_on_one_line, test_einsum_of_all_letters, test_parts_of_no_size,
         test_group_norm_of_one_value, test_distances_by_products, test_no_reduction,
         test_lists_at_their_limits, test_all_outputs_or_none, test_attention_broadcasts,
         test_nothing_is_done_twice, test_batch_norm_leaves_what_it_reads, test_all_dims,
         test_options_of_64_bits, test_unsigned_dims,
         test_einsum_without_an_output, test_einsum_of_products, test_long_lists_that_fail,
         test_an_observer_of_all_threads, test_an_observer_of_nothing,
         test_an_op_that_is_not_direct, test_outputs_and_no_more, test_gradients_of_sums,
         test_a_state_of_nothing, test_products_of_truths)

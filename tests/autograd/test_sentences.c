/*
 * test_sentences.c: whole error messages of ops. The numbers in a call are all different if
 * possible, so that no number can stand for another.
 */
#include "autograd/tools/functional.h"
#include "autograd/checks.h"
#include "tests/test.h"

#include <string.h>

#define T(...) rg_zeros_dims(RG_DIMS(__VA_ARGS__), RG_FLOAT32)
#define I(...) rg_zeros_dims(RG_DIMS(__VA_ARGS__), RG_INT64)

START_TEST(test_shapes) {
    ck_says(rg_index(T(2, 5), I(2, 3), I(2, 4)),
            "index: shape mismatch: indexing tensors could not be broadcast together with "
            "shapes [2, 3], [2, 4]");
    ck_says(rg_set_item_(T(2, 5), 1, I(4, 3), I(2, 3)),
            "set_item_: shape mismatch: indexing tensors could not be broadcast together with "
            "shapes [4, 3], [2, 3]");
    ck_says(rg_select(T(2, 5), 1, 6),
            "select(): index 6 out of range for tensor of size [2, 5] at dimension 1");
    ck_says(rg_select(T(2, 5), 0, -3),
            "select(): index -3 out of range for tensor of size [2, 5] at dimension 0");
    ck_says(rg_median_dim(T(3, 0), 1, false).values,
            "median: Expected reduction dim 1 to have non-zero size.");
    ck_says(rg_rms_norm(I(2, 3), RG_DIMS(3), RG_NONE, 1e-5),
            "rms_norm: not implemented for 'Long'");
    ck_says(rg_einsum("i,i,i->i", T(3), T(1), T(4)),
            "einsum(): subscript i has size 4 for operand 2 which does not broadcast with "
            "previously seen size 3");
    ck_says(rg_einsum("i->.", T(3)),
            "einsum(): found '.' for output that is not part of any ellipsis (...)");
    ck_says(rg_einsum("i.,j->ij", T(3), T(2)),
            "einsum(): found '.' for operand 0 that is not part of any ellipsis");
    ck_says(rg_triplet_margin_loss(T(1, 2), T(3, 1), T(5, 4), .swap = true),
            "triplet_margin_loss: The size of tensor a (2) must match the size of tensor b (4) at "
            "non-singleton dimension 1");
    ck_says(rg_scaled_dot_product_attention(T(1, 4, 3, 2), T(1, 2, 3, 2), T(1, 3, 3, 2),
                                            .enable_gqa = true),
            "scaled_dot_product_attention: Number of heads in key and value must divide the number "
            "of heads in ");
    ck_says(rg_scaled_dot_product_attention(T(1, 4, 3, 2), T(1, 3, 3, 2), T(1, 2, 3, 2),
                                            .enable_gqa = true),
            "scaled_dot_product_attention: Number of heads in key and value must divide the number "
            "of heads in ");
    for (int n = 1; n < 4; n++) {
        ck_says(rg_tensordot_dims(T(n), T(), RG_DIMS(0), RG_DIMS(0)),
                "tensordot: Dimension specified as 0 but tensor has no dimensions");
        ck_says(rg_tensordot_dims(T(), T(n), RG_DIMS(0), RG_DIMS(0)),
                "tensordot: Dimension specified as 0 but tensor has no dimensions");
    }
}
END_TEST

START_TEST(test_paddings) {
    ck_says(rg_pad_with(T(2, 3), RG_DIMS(-1, -4), RG_REPLICATE, 0),
            "pad: input [2, 3] is too small. Calculated output [2, -2]");
    ck_says(rg_pad_with(T(2, 4, 3), RG_DIMS(-1, -4, -2, -3), RG_REFLECT, 0),
            "pad: input [2, 4, 3] is too small. Calculated output [2, -1, -2]");
}
END_TEST

/* For two of these, torch's message has another form. */
START_TEST(test_paddings_of_volumes) {
    ck_says(rg_pad_with(T(2, 4, 3), RG_DIMS(-1, -4, -2, -3), RG_REPLICATE, 0),
            "pad: input [2, 4, 3] is too small. Calculated output [2, -1, -2]");
    ck_says(rg_pad_with(T(2, 5, 4, 3), RG_DIMS(-1, -4, -2, -3, -6, -2), RG_REPLICATE, 0),
            "pad: input [2, 5, 4, 3] is too small. Calculated output [2, -3, -1, -2]");
    ck_says(rg_pad_with(T(2, 5, 4, 3), RG_DIMS(-1, -4, -2, -3, -6, -2), RG_REFLECT, 0),
            "pad: input [2, 5, 4, 3] is too small. Calculated output [2, -3, -1, -2]");
}
END_TEST

START_TEST(test_indices) {
    ck_says(rg_gather(T(2, 3), 1, I(3, 2)),
            "gather: Size does not match at dimension 0 expected index [3, 2] to be no "
            "larger than self [2, 3] apart from dimension 1");
    ck_says(rg_scatter(T(2, 3), 1, I(3, 2), T(4, 4)),
            "scatter: Expected index [3, 2] to be no larger than self [2, 3] apart from "
            "dimension 1 and to be no larger size than src [4, 4]");
    ck_says(rg_scatter(T(2, 3), 1, I(2, 3), T(1, 4)),
            "scatter: Expected index [2, 3] to be no larger than self [2, 3] apart from "
            "dimension 1 and to be no larger size than src [1, 4]");
    ck_says(rg_index_select(T(), 0, I(2)),
            "index_select(): Index to scalar can have only 1 value, got 2 value(s)");
    ck_says(rg_index_add(T(3, 4), 0, I(2), T(3, 4), 1),
            "index_add: Number of indices (2) should be equal to source.size(dim): (3), for "
            "dim: 0");
    ck_says(rg_index_add(T(3, 4), 1, I(2), T(3), 1),
            "index_add: Indexing dim 1 is out of bounds of the source tensor with dim 1");
    ck_says(rg_index_copy(T(3, 4), 1, I(2), T(2, 2)),
            "index_copy: Source/destination tensor must have same slice shapes. "
            "Destination slice shape: 3 at dimension 1 and source slice shape: 2 at "
            "dimension 0.");
    ck_says(rg_index_copy(T(3, 4), 0, I(2), T(5, 4)),
            "index_copy: Number of indices (2) should be equal to source.size(dim) (5)");
    ck_says(rg_bincount(rg_add(I(2), INT64_MAX)),
            "bincount: maximum value of input overflowed, it should be < "
            "9223372036854775807 but got 9223372036854775807");
}
END_TEST

START_TEST(test_products) {
    ck_says(rg_tensordot_dims(T(3, 4), T(5, 6), RG_DIMS(1), RG_DIMS(0)),
            "tensordot: contracted dimensions need to match, but first has size 4 in dim 1 "
            "and second has size 5 in dim 0");
    ck_says(rg_tensordot_dims(T(3, 4), T(4, 3), RG_DIMS(1, 1), RG_DIMS(0, 1)),
            "tensordot: contracted dimensions need to match, but first has size 4 in dim 1 "
            "and second has size 3 in dim 1");
    ck_says(rg_einsum("i%,jk->ik", T(2, 3), T(3, 4)),
            "einsum(): invalid subscript given at index 1 in the equation string, "
            "subscripts must be in [a-zA-Z]");
    ck_says(rg_einsum("ijk,jk->ik", T(2, 3), T(3, 4)),
            "einsum(): the number of subscripts in the equation (3) does not match the "
            "number of dimensions (2) for operand 0 and no ellipsis was given");
    ck_says(rg_einsum("ij,jkl...->ik", T(2, 3), T(3, 4)),
            "einsum(): the number of subscripts in the equation (3) is more than the "
            "number of dimensions (2) for operand 1");
    ck_says(rg_einsum("ij,kk->ik", T(2, 3), T(3, 4)),
            "einsum(): subscript k is repeated for operand 1 but the sizes don't match, 4 != 3");
    ck_says(rg_einsum("ij,jk->ik", T(2, 3), T(5, 4)),
            "einsum(): subscript j has size 5 for operand 1 which does not broadcast with "
            "previously seen size 3");
    ck_says(rg_einsum("...i,...i->...", T(2, 3), T(4, 3)),
            "einsum(): dimension 0 covered by ellipsis in operand 1has size 4 which does "
            "not broadcast with previously seen ellipsis with size 2 for the respective "
            "dimension");
    ck_says(rg_bmm(T(2, 3, 5), T(2, 4, 6)),
            "bmm: mat1 and mat2 shapes cannot be multiplied (2x3x5 and 2x4x6)");
}
END_TEST

START_TEST(test_layers) {
    ck_says(rg_nll_loss(T(3, 4), rg_add(I(3), 7)), "nll_loss: Target 7 is out of bounds.");
    ck_says(rg_nll_loss(T(3, 4), I(3), .weight = T(5)),
            "nll_loss: Expected weight to have shape [4], but got [5]");
    ck_says(rg_cross_entropy(T(3, 4), I(3), .weight = T(5)),
            "cross_entropy: Expected weight to have shape [4], but got [5]");
    ck_says(rg_cross_entropy(T(3, 4), rg_add(I(3), -9)),
            "cross_entropy: Target -9 is out of bounds.");
    ck_says(rg_layer_norm(T(3), RG_DIMS(3, 4), RG_NONE, RG_NONE, 1e-5),
            "layer_norm: Given normalized_shape=[3, 4], expected input with shape [*, 3, "
            "4], but got input of size[3]");
    ck_fails(rg_batch_norm(T(3, 5), T(5), T(5), .training = true, .eps = -(double)NAN),
             RG_VALUE_ERROR, "batch_norm eps must be positive during training, but got nan");
    ck_says(rg_pad(T(2, 3), -2, -3), "pad: narrow(): length must be non-negative.");
    ck_says(rg_pad_with(T(1, 2, 3), RG_DIMS(1, 2, 3, 4), RG_REFLECT, 0),
            "pad: Argument #6: Padding size should be less than the corresponding input "
            "dimension, but got: padding (3, 4) at dimension 1 of input [1, 2, 3]");
    ck_says(rg_pad_with(T(1, 2, 3), RG_DIMS(4, 1), RG_REFLECT, 0),
            "pad: Argument #4: Padding size should be less than the corresponding input "
            "dimension, but got: padding (4, 1) at dimension 2 of input [1, 2, 3]");
    ck_says(rg_pad_with(T(1, 2, 3), RG_DIMS(4, 1), RG_CIRCULAR, 0),
            "pad: Padding value causes wrapping around more than once.");
    ck_says(rg_pad_with(T(1, 2, 3), RG_DIMS(-3, 1), RG_CIRCULAR, 0),
            "pad: Negative padding value is resulting in an empty dimension");
    ck_says(rg_conv2d(T(2, 3, 5, 5), T(4, 2, 2, 2), RG_NONE),
            "conv2d: Given groups=1, weight of size [4, 2, 2, 2], expected input[2, 3, 5, "
            "5] to have 2 channels, but got 3 channels instead");
    ck_says(rg_conv2d(T(2, 3, 5, 5), T(5, 1, 2, 2), RG_NONE, .groups = 3),
            "conv2d: Given groups=3, expected weight to be divisible by 3 at dimension 0, but got "
            "weight of size [5, 1, 2, 2] instead");
    ck_says(rg_conv2d(T(2, 3, 5, 5), T(2, 1, 2, 2), RG_NONE, .groups = 3),
            "conv2d: Given groups=3, expected weight to be divisible by 3 at dimension 0, but got "
            "weight of size [2, 1, 2, 2] instead");
    ck_says(rg_conv2d(T(2, 3, 5, 5), T(4, 3, 2, 2), T(5)),
            "conv2d: Expected bias to have shape [4], but got [5]");
    ck_says(rg_conv2d(T(2, 3, 5, 5), T(4, 3, 6, 7), RG_NONE),
            "conv2d: Calculated padded input size per channel: [5, 5]. Kernel size: [6, 7]. Kernel "
            "size can't be greater than actual input size");
    ck_says(rg_conv2d(T(2, 3, 5, 5), T(4, 3, 2, 2), RG_NONE, .padding = -2),
            "conv2d: padding must be non-negative, but got [-2, -2]");
    ck_says(
        rg_max_pool2d(T(1, 5, 6), RG_DIMS(7, 3)),
        "max_pool2d: Given planes of size [5, 6], calculated output size [0, 2]. Output size is "
        "too small");
    ck_says(rg_max_pool1d(T(1, 5), RG_DIMS(7)),
            "max_pool1d: Given planes of size [5], calculated output size [0]. Output size is too "
            "small");
    ck_says(
        rg_max_pool1d(T(1, 5), RG_DIMS(3), .padding = 2),
        "max_pool1d: pad should be at most half of kernel size, but got pad=2 and kernel_size=3");
    ck_says(rg_max_pool1d(T(1, 5), RG_DIMS(3), .padding = -2),
            "max_pool1d: padding must be non-negative, but got -2");
    ck_says(rg_conv1d(rg_gt(T(1, 1, 5), 0), rg_gt(T(1, 1, 2), 0), RG_NONE),
            "conv1d: not implemented for 'Bool'");
    ck_says(rg_conv1d(I(1, 1, 5), T(1, 1, 2), RG_NONE),
            "conv1d: input and weight must have the same dtype, but got Long and Float");
    ck_says(rg_conv1d(I(1, 1, 5), I(1, 1, 2), T(1)),
            "conv1d: input and bias must have the same dtype, but got Long and Float");
    ck_says(rg_adaptive_max_pool2d(T(1, 0, 6), RG_DIMS(3, 2)),
            "adaptive_max_pool2d: Expected input to have non-zero size for non-batch dimensions, "
            "but got shape [1, 0, 6]");
    ck_says(rg_embedding(I(2), T(3), .max_norm = 2),
            "embedding: Expected weight to be 2D, but got 1D of shape [3]");
    ck_says(rg_binary_cross_entropy(T(3, 4), T(3, 4), .weight = T(5)),
            "binary_cross_entropy: Attempting to broadcast a dimension of length 5 at -1! "
            "Mismatching argument at index 1 had torch.Size([5]); but expected shape "
            "should be broadcastable to [3, 4]");
}
END_TEST

/* A tensor has up to 8 dims. */
START_TEST(test_dims) {
    static const char many[] = "a tensor has at most 8 dimensions, but 9 were asked for";
    rg_tensor *x = T(1, 1, 1, 1, 1, 1, 1, 1), *half = T(1, 1, 1, 1, 1);
    rg_tensor *i = I(1, 1, 1, 1, 1, 1, 1, 1), *q = T(2);
    ck_fails(rg_one_hot(i, 3), RG_RUNTIME_ERROR, many);
    ck_fails(rg_diag_embed(x, 0, 0, 1), RG_RUNTIME_ERROR, many);
    ck_fails(rg_quantile(x, q, .dim = 0, .keepdim = true), RG_RUNTIME_ERROR, many);
    /* A dim in which one of kron's operands has size 1 needs no second dim. */
    rg_tensor *twos = T(2, 2, 2, 2, 2);
    rg_tensor *row = rg_reshape(rg_arange(6.0), 1, 2, 1, 1, 3, 1, 1, 1);
    rg_tensor *pair = rg_literal([ 3, 5.0 ]);
    ck_fails(rg_kron(twos, twos), RG_RUNTIME_ERROR, "at most 8 dimensions, but 10 were asked for");
    ck_fails(rg_kron(row, twos), RG_RUNTIME_ERROR, many);
    ck_assert(rg_equal(rg_kron(row, rg_ones(1, 1, 1, 1, 1)), row));
    ck_assert(rg_equal(rg_kron(row, pair), rg_reshape(rg_kron(rg_view(row, 6), pair), 1, 2, 1, 1, 3,
                                                      1, 1, 2)));
    ck_fails(rg_einsum("abcde,fghij->abcdefghij", half, half), RG_RUNTIME_ERROR, many);
    ck_fails(rg_tensordot(half, half, 0), RG_RUNTIME_ERROR,
             "at most 8 dimensions, but 10 were asked for");
    ck_fails(rg_index(x, "None"), RG_RUNTIME_ERROR, many);
    ck_fails(rg_unsqueeze(x, 0), RG_RUNTIME_ERROR, many);
    ck_fails(rg_stack(RG_LIST(x, x), 0), RG_RUNTIME_ERROR, many);
    ck_fails(rg_unfold(x, 0, 1, 1), RG_RUNTIME_ERROR, "unfold: a tensor has at most 8 dimensions");
    ck_fails(rg_unflatten(x, 3, RG_DIMS(1, 1)), RG_RUNTIME_ERROR,
             "unflatten: a tensor has at most 8 dimensions");
    ck_fails(rg_index(x, I(1, 2)), RG_RUNTIME_ERROR, "index: a tensor has at most 8 dimensions");
    ck_fails(rg_set_item_(x, 1, I(1, 2)), RG_RUNTIME_ERROR, "set_item_: a tensor has at most 8");
    rg_tensor *wide = T(2, 2, 2, 2, 2);
    ck_fails(rg_einsum("...a,b...->ab...", x, q), RG_RUNTIME_ERROR, "einsum");
    ck_ok(rg_einsum("abcd,efgh->abcdefgh", rg_select(wide, 0, 0), rg_select(wide, 0, 1)));
    ck_fails(rg_einsum("abcde,fghij,af,bg,ch,di,ej->", wide, wide, T(2, 2), T(2, 2), T(2, 2),
                       T(2, 2), T(2, 2)),
             RG_RUNTIME_ERROR, "einsum: a tensor has at most 8 dimensions");
}
END_TEST

/* NULL in place of a text or of a list of sizes is refused. */
START_TEST(test_nothing_given) {
    rg_tensor *x = T(2, 3), *i = I(2, 3);
    ck_says(rg_cdist(x, x, .compute_mode = NULL), "cdist: expected a text but got NULL");
    ck_says(rg_meshgrid(RG_LIST(T(2), T(3)), .indexing = NULL).n,
            "meshgrid: expected a text but got NULL");
    ck_says(rg_scatter_reduce(x, 0, i, x, NULL), "scatter_reduce: expected a text but got NULL");
    ck_ok(rg_split_sizes(T(0, 3), 0, NULL, 0).n == 0);
}
END_TEST

/* The products or sums of these sizes exceed int64. */
START_TEST(test_sizes) {
    rg_tensor *one = T(1), *huge = rg_expand_dims(one, RG_DIMS(INT64_MAX / 2));
    rg_tensor *wide = rg_expand_dims(T(1, 1), RG_DIMS(3, INT64_MAX / 4));
    rg_tensor *times = rg_from_int64((int64_t[]){ INT64_MAX, 5, INT64_MAX }, RG_DIMS(3));
    ck_assert_ptr_null(rg_cat(RG_LIST(huge, huge, huge), 0));
    rg_error_clear();
    ck_assert_ptr_null(rg_kron(huge, huge));
    rg_error_clear();
    ck_assert_ptr_null(rg_repeat_interleave(T(3), times));
    rg_error_clear();
    ck_assert_ptr_null(rg_repeat_interleave(wide, 9));
    rg_error_clear();
    const int64_t half = (int64_t)1 << 32, most = INT64_MAX;
    ck_says(rg_reshape(T(0), half, half),
            "reshape: shape '[4294967296, 4294967296]' is invalid for input of size 0");
    ck_says(rg_reshape(T(2), half, half, 2),
            "reshape: shape '[4294967296, 4294967296, 2]' is invalid for input of size 2");
    ck_ok(rg_reshape(T(0), half, half, 0));
    ck_fails(rg_split_sizes(T(3), 4, (int64_t[]){ most, most, 2, 3 }, 0).n >= 0, RG_RUNTIME_ERROR,
             "split: split_with_sizes expects split_sizes to sum exactly to 3");
}
END_TEST

/* An op on bools may write its result over its input if the result is also a bool. */
START_TEST(test_bools_in_place) {
    rg_tensor *x = rg_gt(rg_arange(6), 2), *shifted = rg_narrow(x, 0, 1, 5);
    ck_ok(rg_mul_(shifted, rg_narrow(x, 0, 0, 5)));
    ck_assert(rg_dtype_of(x) == RG_BOOL && rg_item_int(rg_sum(rg_long(x))) == 2);
    ck_ok(rg_mul_(x, rg_zeros_dims(RG_DIMS(6), RG_BOOL)));
    ck_assert_int_eq(rg_item_int(rg_sum(rg_long(x))), 0);
}
END_TEST

START_TEST(test_numbers) {
    ck_says(rg_copy_(I(2), 1e30),
            "copy_: value cannot be converted to type int64_t without overflow");
    ck_says(rg_quantile(T(3), 0.5, .interpolation = NULL),
            "quantile: expected a text but got NULL");
    ck_says(rg_nll_loss(T(3, 4), I(3), .weight = I(4)),
            "nll_loss: input and weight must have the same dtype, but got Float and Long");
    ck_says(rg_index(T(), "::2"), "index: slice() cannot be applied to a 0-dim tensor.");
    ck_says(rg_scatter(T(2, 3), 0, I(2, 3), T(2, 1)),
            "scatter: Expected index [2, 3] to be no larger than self [2, 3] apart from dimension "
            "0 and to be no larger size than src [2, 1]");
    ck_says(rg_bmm(T(2, 3, 4), rg_zeros_dims(RG_DIMS(2, 4, 3), RG_FLOAT64)),
            "bmm: mat1 and mat2 must have the same dtype, but got Float and Double");
    ck_says(rg_max_pool1d(T(1, 5), RG_DIMS(3), .dilation = 7),
            "max_pool1d: Given planes of size [5], calculated output size [-3]. Output size is too "
            "small");
    rg_tensor *whole = rg_ones_dims(RG_DIMS(2, 3, 3), RG_INT64), *first = rg_select(whole, 0, 0);
    ck_says(rg_baddbmm(whole, whole, whole, 1e30, 1),
            "baddbmm: value cannot be converted to type int64_t without overflow");
    ck_says(rg_addmm(first, first, first, 1, INFINITY),
            "addmm: value cannot be converted to type int64_t without overflow");
    static const char huge[] = " is too large", low[] = "should be greater than zero, but got";
    rg_tensor *x = T(1, 5, 5);
    ck_ok(rg_max_pool2d(x, 2, .stride = INT32_MAX));
    ck_ok(rg_avg_pool2d(x, RG_DIMS(2, 2), .strides = RG_DIMS(INT32_MAX, 1)));
    ck_fails(rg_max_pool2d(x, 2, .stride = (int64_t)INT32_MAX + 1), RG_RUNTIME_ERROR, huge);
    ck_fails(rg_max_pool2d(x, RG_DIMS(INT64_MAX, 2)), RG_RUNTIME_ERROR, huge);
    ck_fails(rg_max_pool2d(x, RG_DIMS(2, 2), .strides = RG_DIMS(1, INT64_MAX)), RG_RUNTIME_ERROR,
             huge);
    ck_fails(rg_max_pool2d(x, 2, .dilation = INT64_MAX), RG_RUNTIME_ERROR, huge);
    ck_fails(rg_avg_pool2d(x, RG_DIMS(2, INT64_MAX)), RG_RUNTIME_ERROR, huge);
    ck_fails(rg_max_pool2d(x, INT64_MIN, .dilation = 0), RG_RUNTIME_ERROR, low);
    ck_fails(rg_max_pool2d(x, 2, .dilation = (int64_t)INT32_MIN - 1), RG_RUNTIME_ERROR, low);
    rg_tensor *all = rg_avg_pool2d(rg_ones(1, 5, 5), INT32_MAX, .padding = INT32_MAX / 2);
    const double area = (double)INT32_MAX * INT32_MAX;
    ck_assert(rg_numel(all) == 1);
    ck_assert_double_eq_tol(rg_item(all) * area, 25, 1e-5);
    ck_fails(rg_max_pool2d(x, 2, .padding = INT64_MIN), RG_RUNTIME_ERROR, "must be non-negative");
    rg_tensor *row = T(1, 5);
    ck_fails(rg_max_pool1d(row, 2, .stride = (int64_t)INT32_MAX + 1), RG_RUNTIME_ERROR,
             "max_pool1d: stride is too large");
    ck_fails(rg_max_pool1d(row, INT64_MAX), RG_RUNTIME_ERROR, huge);
    ck_fails(rg_max_pool1d(row, 2, .dilation = INT64_MAX), RG_RUNTIME_ERROR, huge);
    ck_ok(rg_max_pool1d(row, 2, .stride = INT32_MAX));
    static const char absurd[] = "a stride, padding or dilation is too large";
    rg_tensor *kernel = T(1, 1, 2), *signal = T(1, 1, 5);
    ck_ok(rg_conv1d(signal, kernel, RG_NONE, .stride = RG_NUMEL_MAX));
    ck_fails(rg_conv1d(signal, kernel, RG_NONE, .stride = RG_NUMEL_MAX + 1), RG_RUNTIME_ERROR,
             absurd);
    ck_fails(rg_conv1d(signal, kernel, RG_NONE, .dilation = RG_NUMEL_MAX), RG_RUNTIME_ERROR,
             absurd);
    ck_fails(rg_conv1d(signal, T(1, 1, 40), RG_NONE, .dilation = RG_NUMEL_MAX), RG_RUNTIME_ERROR,
             absurd);
    ck_fails(rg_conv1d(signal, kernel, RG_NONE, .dilation = RG_NUMEL_MAX / 2), RG_RUNTIME_ERROR,
             "Kernel size can't be greater than actual input size");
    ck_says(rg_take_along_dim(T(0, 3), I(1, 3), 0),
            "take_along_dim: index 0 is out of bounds for dimension 0 with size 0");
}
END_TEST

/* If the base of a view was written to and the view's history can't be renewed, the error names the
 * function that used the view, even if that function is made of others. */
START_TEST(test_views_left_behind) {
    rg_tensor *y = rg_mul(rg_requires_grad_(T(2, 6), true), 1);
    rg_list parts = rg_split(y, 1, 0);
    ck_ok(rg_mul_(y, 2));
    ck_fails(rg_flatten(parts.v[0], 0, 1), RG_RUNTIME_ERROR,
             "flatten: Output 0 of Split is a view");
    ck_fails(rg_unflatten(parts.v[1], 1, RG_DIMS(2, 3)), RG_RUNTIME_ERROR,
             "unflatten: Output 1 of Split is a view");
    ck_fails(rg_movedim(parts.v[0], 0, 1), RG_RUNTIME_ERROR, "movedim: Output 0 of Split is a");
    ck_fails(rg_mT(parts.v[0]), RG_RUNTIME_ERROR, "mT: Output 0 of Split is a view");
    ck_fails(rg_T(parts.v[0]), RG_RUNTIME_ERROR, "T: Output 0 of Split is a view");
}
END_TEST

static rg_tensor *scores, *classes;
static void record_smoothed(void *unused) {
    (void)unused;
    rg_cross_entropy(scores, classes, .label_smoothing = 0.1);
}
static void record_twice(void *reduce) {
    rg_tensor *x = rg_requires_grad_(rg_detach(scores), true);
    rg_tensor *y = strcmp(reduce, "cumprod") ? rg_scatter_reduce(
                       rg_ones(2, 3), 0, rg_zeros_dims(RG_DIMS(2, 3), RG_INT64), x, reduce)
                                             : rg_cumprod(x, 0);
    rg_grad(rg_sum(y), x, .create_graph = true);
}

/* A decision that depends on values can't be recorded, since a recording would repeat it for other
 * values. */
START_TEST(test_decided_by_values) {
    static const char refused[] = "can't be part of a recorded step";
    scores = rg_ones(2, 3);
    classes = I(2);
    ck_fails(rg_record(record_smoothed, NULL), RG_NOT_IMPLEMENTED, refused);
    ck_fails(rg_record(record_twice, (void *)"cumprod"), RG_NOT_IMPLEMENTED, refused);
    ck_fails(rg_record(record_twice, (void *)"prod"), RG_NOT_IMPLEMENTED, refused);
    rg_replay *r = rg_record(record_twice, (void *)"sum");
    ck_ok(r);
    rg_replay_free(r);
}
END_TEST

static rg_tensor *same_of(rg_tensor *const in[], void *unused) {
    (void)unused;
    return rg_mul(in[0], 2);
}

/* These refusals are rare: only a mistake in the program leads to them. */
START_TEST(test_rare_refusals) {
    rg_tensor *x = rg_requires_grad_(rg_full_dims(RG_DIMS(2), 1, RG_FLOAT64), true);
    rg_tensor *wide = rg_requires_grad_(rg_expand(rg_detach(rg_narrow(x, 0, 0, 1)), 3), true);
    ck_fails(rg_gradcheck(same_of, NULL, 1, &wide), RG_RUNTIME_ERROR,
             "The 0th input has a dimension with stride 0. gradcheck only supports");
    ck_fails(rg_set_grad(rg_mul(x, 2), rg_detach(x)), RG_RUNTIME_ERROR,
             "the tensor neither is a leaf nor retains its grad");
    ck_fails(rg_add_alpha(x, x, rg_select(x, 0, 0)), RG_TYPE_ERROR,
             "argument 'alpha' must be Number, not Tensor");

    ck_fails(rg_scaled_dot_product_attention(I(2, 3), I(2, 3), I(2, 3)), RG_RUNTIME_ERROR,
             "expected scalar type Float but found Long");

    ck_fails(rg_batch_norm(T(3), RG_NONE, RG_NONE, .training = true), RG_INDEX_ERROR,
             "batch_norm: Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    rg_tensor *mean = rg_requires_grad_(T(3), true), *var = rg_ones(3);
    ck_fails(rg_batch_norm(T(2, 3), mean, var), RG_RUNTIME_ERROR,
             "with respect to argument 'running_mean'. This input cannot have requires_grad True.");
    ck_fails(rg_batch_norm(T(2, 3), rg_detach(mean), rg_requires_grad_(rg_ones(3), true)),
             RG_RUNTIME_ERROR, "argument 'running_var'. This input cannot have");

    ck_fails(rg_conv2d(T(1, 1, 5, 5), T(1, 1, 2, 2), RG_NONE, .strides = RG_DIMS(1, 2, 3)),
             RG_RUNTIME_ERROR,
             "conv2d: Expected stride to be a single integer value or a list of 2 values, but got "
             "[1, 2, 3]");
    ck_fails(rg_conv2d(T(1, 1, 5, 5), T(1, 1, 2, 2), RG_NONE, .stride = INT64_MAX),
             RG_RUNTIME_ERROR, "a stride, padding or dilation is too large");
    ck_fails(rg_conv2d(T(1, 1, 5, 5), T(1, 1, 2, 2), RG_NONE, .dilation = INT64_MAX),
             RG_RUNTIME_ERROR, "a stride, padding or dilation is too large");
    ck_fails(rg_conv2d(T(1, 1, 5, 5), T(1, 1, 2, 2), RG_NONE, .padding = RG_NUMEL_MAX + 1),
             RG_RUNTIME_ERROR, "a stride, padding or dilation is too large");
    ck_fails(rg_conv2d(T(1, 1, 0, 5), T(1, 1, 2, 2), RG_NONE, .padding = 2), RG_RUNTIME_ERROR,
             "conv2d: Expected input to have non-zero size for non-batch dimensions, but got shape "
             "[1, 1, 0, 5]");
    ck_fails(rg_adaptive_avg_pool2d(T(5), RG_AS_IT_IS), RG_RUNTIME_ERROR,
             "adaptive_avg_pool2d: Expected input to be 3D or 4D, but got 1D of shape [5]");
    ck_fails(rg_adaptive_avg_pool2d(T(5, 4), RG_AS_IT_IS), RG_RUNTIME_ERROR,
             "adaptive_avg_pool2d: Expected input to be 3D or 4D, but got 2D of shape [5, 4]");

    ck_fails(rg_nll_loss(T(2, 3, 4, 5), I(2, 4), .reduction = RG_MEAN), RG_RUNTIME_ERROR,
             "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
             "2");
    ck_fails(rg_smooth_l1_loss(T(2), T(2), .weight = T(2)), RG_TYPE_ERROR,
             "smooth_l1_loss() got an unexpected keyword argument 'weight'");
    rg_tensor *weight = rg_requires_grad_(rg_ones(3), true), *p = rg_full(RG_DIMS(3), 0.5);
    ck_fails(rg_binary_cross_entropy(p, p, .weight = weight), RG_RUNTIME_ERROR,
             "binary_cross_entropy: not differentiable with respect to argument 'weight'. This "
             "input cannot have requires_grad True.");

    ck_fails(rg_index_select(T(0, 3), 0, I(2)), RG_RUNTIME_ERROR,
             "index_select(): self indexing axis dim should be positive");
    ck_fails(rg_unique_dim(T(0, 0), 0).values, RG_RUNTIME_ERROR,
             "Number of zero sized dimensions is more than one");
    ck_fails(rg_einsum_list(NULL, RG_LIST(x)), RG_TYPE_ERROR, "the equation must be a string");
    ck_fails(rg_pad_with(rg_to(T(2, 3), RG_BOOL), RG_DIMS(1, 1), RG_REPLICATE, 0),
             RG_NOT_IMPLEMENTED, "pad: not implemented for 'Bool'");
    ck_fails(rg_gru_scan(T(1, 2, 9), T(9, 4), T(9), T(2, 4), false), RG_RUNTIME_ERROR,
             "expected h_0 as wide as h, 3, but got 4");
}
END_TEST

/* Each checker has one message, whichever op calls it. It accepts what fits and what is absent. */
START_TEST(test_checkers) {
    rg_tensor *x = T(2, 3), *row = T(3), *index = I(2), *leaf = rg_requires_grad_(T(2), true);
    rg_tensor *y = rg_exp(leaf);
    const int64_t low[] = { 1, -2 };
    int64_t to[2];
    ck_says(rgi_want_float("op", index), "op: not implemented for 'Long'");
    ck_says(rgi_want_no_bool("op", rg_gt(x, 0)), "op: not implemented for 'Bool'");
    ck_says(rgi_want_integers("op", "index", x), "op: Expected index of dtype Long, but got Float");
    ck_says(rgi_want_bools("op", "mask", x), "op: Expected mask of dtype Bool, but got Float");
    ck_says(rgi_want_same_dtype("op", "a", x, "b", index),
            "op: a and b must have the same dtype, but got Float and Long");
    ck_says(rgi_want_cast("op", false, RG_FLOAT64, RG_INT64),
            "op: result type Double can't be cast to the desired output type Long");
    ck_says(rgi_want_tracked("op", y, RG_INT64), "op: Autograd not support dtype: Long");
    ck_says(rgi_want_dims("op", "x", x, 3, 3),
            "op: Expected x to be 3D, but got 2D of shape [2, 3]");
    ck_says(rgi_want_dims("op", "x", x, 0, 1),
            "op: Expected x to be 0D or 1D, but got 2D of shape [2, 3]");
    ck_says(rgi_want_dims("op", "x", x, 3, 5),
            "op: Expected x to be 3D to 5D, but got 2D of shape [2, 3]");
    ck_says(rgi_want_dims("op", "x", x, 4, RG_MAX_DIMS),
            "op: Expected x to be at least 4D, but got 2D of shape [2, 3]");
    ck_says(rgi_want_any_dim("op", T(), -4),
            "op: Dimension specified as -4 but tensor has no dimensions");
    ck_says(rgi_want_reducible("op", T(2, 0), 1),
            "op: Expected reduction dim 1 to have non-zero size.");
    ck_says(rgi_want_size("op", "x", x, 1, 4),
            "op: Expected x to have size 4 at dimension 1, but got shape [2, 3]");
    ck_says(rgi_want_shape("op", "x", x, RG_DIMS(2, 4)),
            "op: Expected x to have shape [2, 4], but got [2, 3]");
    ck_says(rgi_want_vector("op", "x", row, 4), "op: Expected x to have shape [4], but got [3]");
    ck_says(rgi_want_elements("op", "x", T(2, 0, 3), 1),
            "op: Expected x to have non-zero size for non-batch dimensions, but got shape "
            "[2, 0, 3]");
    ck_says(rgi_want_no_wider("op", row, x),
            "op: output with shape [3] doesn't match the broadcast shape [2, 3]");
    ck_says(rgi_want_product("op", x, T(4, 5), 3, 4),
            "op: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    ck_says(rgi_want_indices(RG_INDEX_ERROR, "op", rg_add(index, 5), -5, 5, 1),
            "op: index 5 is out of bounds for dimension 1 with size 5");
    ck_says(rgi_want_positive("op", "n", 2, low),
            "op: n should be greater than zero, but got [1, -2]");
    ck_says(rgi_want_non_negative("op", "n", 1, low + 1), "op: n must be non-negative, but got -2");
    ck_says(rgi_want_option("op", "n", 2, 1, 1, &RG_DIMS(1, 2, 3), to),
            "op: Expected n to be a single integer value or a list of 2 values, but got [1, 2, 3]");
    ck_says(rgi_want_given("op", "x", RG_NONE, "in evaluation mode"),
            "op: x must be defined in evaluation mode");
    ck_says(rgi_want_no_grad("op", "x", leaf),
            "op: not differentiable with respect to argument 'x'. This input cannot have "
            "requires_grad True.");
    ck_ok(rgi_want_dims("op", "x", RG_NONE, 1, 1) && rgi_want_shape("op", "x", RG_NONE, RG_DIMS(9))
          && rgi_want_size("op", "x", RG_NONE, 0, 9) && rgi_want_integers("op", "x", RG_NONE)
          && rgi_want_float("op", RG_NONE) && rgi_want_no_bool("op", RG_NONE)
          && rgi_want_same_dtype("op", "a", x, "b", RG_NONE));
    ck_ok(rgi_want_indices(RG_INDEX_ERROR, "op", rg_add(index, 4), -5, 5, 1)
          && rgi_want_given("op", "x", x, "") && rgi_want_tracked("op", y, RG_FLOAT64)
          && rgi_want_no_grad("op", "x", x) && rgi_want_no_wider("op", x, x)
          && rgi_want_elements("op", "x", T(0, 2), 1) && rgi_want_positive("op", "n", 1, low)
          && rgi_want_option("op", "n", 2, 7, 0, &(rg_dims){ 0 }, to));
    ck_assert(to[0] == 7 && to[1] == 7);
}
END_TEST

RG_TESTS(sentences, test_checkers, test_shapes, test_paddings, test_paddings_of_volumes,
         test_indices, test_products, test_layers, test_dims, test_nothing_given, test_sizes,
         test_bools_in_place, test_numbers, test_views_left_behind, test_rare_refusals,
         test_decided_by_values)

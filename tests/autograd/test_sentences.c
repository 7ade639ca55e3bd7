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

static rg_tensor *same_gradient(rg_tensor *grad, void *none) {
    (void)none;
    return grad;
}

START_TEST(test_shapes) {
    ck_says(rg_cat(RG_LIST(T(2, 3), T(2, 3, 4)), 0),
            "cat: Tensors must have same number of dimensions: got 2 and 3");
    ck_says(rg_cat(RG_LIST(T(2, 3), T(2, 3), T(5, 4)), 0),
            "cat: Sizes of tensors must match except in dimension 0. Expected size 3 but "
            "got size 4 for tensor number 2 in the list.");
    ck_says(rg_cat(RG_LIST(T(2, 3), T()), 0),
            "cat: zero-dimensional tensor (at position 1) cannot be concatenated");
    ck_says(rg_stack(RG_LIST(T(2, 3), T(2, 3), T(2, 4)), 0),
            "stack: stack expects each tensor to be equal size, but got [2, 3] at entry 0 "
            "and [2, 4] at entry 2");
    ck_says(rg_index(T(2, 5), I(2, 3), I(2, 4)),
            "index: shape mismatch: indexing tensors could not be broadcast together with "
            "shapes [2, 3], [2, 4]");
    ck_says(rg_set_item_(T(2, 5), 1, I(4, 3), I(2, 3)),
            "set_item_: shape mismatch: indexing tensors could not be broadcast together with "
            "shapes [4, 3], [2, 3]");
    ck_says(rg_narrow(T(2, 5), 1, 7, 1),
            "narrow: start out of range (expected to be in range of [-5, 5], but got 7)");
    ck_says(rg_narrow(T(2, 5), 1, 3, 4),
            "narrow: start (3) + length (4) exceeds dimension size (5).");
    ck_says(rg_narrow(T(2, 5), 1, -6, 4),
            "narrow: start out of range (expected to be in range of [-5, 5], but got -6)");
    ck_says(rg_select(T(2, 5), 1, 6),
            "select(): index 6 out of range for tensor of size [2, 5] at dimension 1");
    ck_says(rg_select(T(2, 5), 0, -3),
            "select(): index -3 out of range for tensor of size [2, 5] at dimension 0");
    ck_says(rg_diagonal(T(2, 5), 0, 1, 1),
            "diagonal: diagonal dimensions cannot be identical 1, 1");
    ck_says(rg_diagonal(T(2, 5), 0, 0, 3),
            "diagonal: Dimension out of range (expected to be in range of [-2, 1], but got 3)");
    ck_says(rg_diag(T(2, 5, 3), 0),
            "diag: Expected input to be 1D or 2D, but got 3D of shape [2, 5, 3]");
    ck_says(rg_trace(T(2, 5, 3)), "trace: Expected input to be 2D, but got 3D of shape [2, 5, 3]");
    ck_says(rg_permute(T(2, 5, 3), 1, 0),
            "permute: number of dimensions in the tensor input does not match the length of the "
            "desired ordering of dimensions: input.dim() = 3 is not equal to len(dims) = 2");
    ck_says(rg_permute(T(2, 5, 3), 1, 0, 1), "permute(): duplicate dims are not allowed.");
    ck_says(rg_mT(T(3)), "mT: Expected input to be at least 2D, but got 1D of shape [3]");
    ck_says(rg_t(T(2, 5, 3)), "t: Expected input to be 0D to 2D, but got 3D of shape [2, 5, 3]");
    ck_says(rg_expand(T(2, 3), 3),
            "expand: expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes "
            "provided (1) must be greater or equal to the number of dimensions in the "
            "tensor (2)");
    ck_says(rg_expand(T(2, 3), 2, 4),
            "expand: The expanded size of the tensor (4) must match the existing size (3) "
            "at non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]");
    ck_says(rg_expand(T(2, 3), -1, 2, 3),
            "expand: The expanded size of the tensor (-1) isn't allowed in a leading, "
            "non-existing dimension 0");
    ck_says(rg_reshape(T(2, 3), 4, -2),
            "reshape: invalid shape dimension -2 at index 1 of shape [4, -2]");
    ck_says(rg_reshape(T(2, 3), 4, 5), "reshape: shape '[4, 5]' is invalid for input of size 6");
    ck_says(rg_unflatten(T(2, 6), 1, RG_DIMS(4, 5)),
            "unflatten: Provided sizes [4, 5] don't multiply up to the size of dim 1 (6) "
            "in the input tensor");
    ck_says(rg_squeeze_dims(T(2, 1, 1), RG_DIMS(1, 2, 1)),
            "squeeze: dim 1 appears multiple times in the list of dims");
    ck_says(rg_sum_dims(T(2, 3, 4), RG_DIMS(1, 2, 1), false),
            "sum: dim 1 appears multiple times in the list of dims");
    ck_says(rg_roll_dims(T(2, 3), RG_DIMS(1, 2, 3), RG_DIMS(0, 1)),
            "roll: shifts and dimensions must align. shifts: 3, dims:2");
    ck_says(rg_flip(T(2, 3), 1, 1), "flip: dim 1 appears multiple times in the list of dims");
    ck_says(rg_unfold(T(3, 4), 1, 6, 2),
            "unfold: maximum size for tensor at dimension 1 is 4 but size is 6");
    ck_says(rg_unfold(T(3, 4), 1, -2, 2), "unfold: size is -2 but must be >= 0");
    ck_says(rg_unfold(T(3, 4), 1, 2, -3), "unfold: step is -3 but must be > 0");
    ck_says(rg_chunk(T(3, 4), -2, 1).n,
            "chunk: chunk expects `chunks` to be greater than 0, got: -2");
    ck_says(rg_quantile(T(3, 4), 1.5),
            "quantile: quantile() q must be in the range [0, 1] but got 1.5");
    ck_says(rg_max_dim(T(3, 0), 1, false).values,
            "max: Expected reduction dim 1 to have non-zero size.");
    ck_says(rg_median_dim(T(3, 0), 1, false).values,
            "median: Expected reduction dim 1 to have non-zero size.");
    ck_says(rg_kthvalue(T(3, 4), 5, 1, false).values,
            "kthvalue: selected number k out of range for dimension 1");
    ck_says(rg_topk(T(3, 4), 5, 1, true, true).values, "topk: selected index k out of range");
    ck_says(rg_softmax(T(3, 4), 2),
            "softmax: Dimension out of range (expected to be in range of [-2, 1], but got 2)");
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
    ck_says(rg_zeros(2, -3), "zeros: Dimension size must be non-negative.");
    ck_says(rg_register_hook(T(3), same_gradient, NULL) >= 0,
            "register_hook: cannot register a hook on a tensor that doesn't require gradient");
    ck_says(rg_remove_hook(rg_requires_grad_(T(3), true), 17),
            "remove_hook: the tensor has no hook 17");
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
    ck_says(rg_gather(T(2, 3), 0, I(3)),
            "gather: Index tensor must have the same number of dimensions as input tensor");
    ck_says(rg_scatter(T(2, 3), 1, I(3, 2), T(4, 4)),
            "scatter: Expected index [3, 2] to be no larger than self [2, 3] apart from "
            "dimension 1 and to be no larger size than src [4, 4]");
    ck_says(rg_scatter(T(2, 3), 1, I(2, 3), T(1, 4)),
            "scatter: Expected index [2, 3] to be no larger than self [2, 3] apart from "
            "dimension 1 and to be no larger size than src [1, 4]");
    ck_says(rg_take_along_dim(T(2, 3), I(2), 1),
            "take_along_dim: Expected indices to be 2D, but got 1D of shape [2]");
    ck_says(rg_index_select(T(), 0, I(2)),
            "index_select(): Index to scalar can have only 1 value, got 2 value(s)");
    ck_says(rg_index_select(T(3, 4), 0, rg_add(I(2), 5)),
            "index_select: index 5 is out of bounds for dimension 0 with size 3");
    ck_says(rg_index_select(T(3, 4), 1, I(2, 2)), "index_select: Index is supposed to be a vector");
    ck_says(rg_index_add(T(3, 4), 0, I(2, 2), T(2, 4), 1),
            "index_add: Index is supposed to be a vector, but got dim: 2 with type: Long and "
            "size: [2, 2]");
    ck_says(rg_index_add(T(3, 4), 0, I(2), T(3, 4), 1),
            "index_add: Number of indices (2) should be equal to source.size(dim): (3), for "
            "dim: 0");
    ck_says(rg_index_add(T(3, 4), 1, I(2), T(3), 1),
            "index_add: Indexing dim 1 is out of bounds of the source tensor with dim 1");
    ck_says(rg_index_copy(T(3, 4), 0, I(2, 2), T(2, 4)),
            "index_copy: Index should have dimension 1 or 0 (got 2)");
    ck_says(rg_index_copy(T(3, 4), 0, I(2), T()),
            "index_copy: When source is scalar, index should have one element (got 2)");
    ck_says(rg_index_copy(T(3, 4), 0, I(2), T(4)),
            "index_copy: When source and destination are not scalars, their dimensionality "
            "must match. Source dimensionality (1), destination dimensionality (2)");
    ck_says(rg_index_copy(T(3, 4), 1, I(2), T(2, 2)),
            "index_copy: Source/destination tensor must have same slice shapes. "
            "Destination slice shape: 3 at dimension 1 and source slice shape: 2 at "
            "dimension 0.");
    ck_says(rg_index_copy(T(3, 4), 0, I(2), T(5, 4)),
            "index_copy: Number of indices (2) should be equal to source.size(dim) (5)");
    ck_says(rg_index_fill(T(3, 4), 0, I(2), T(3)),
            "index_fill: Expected value to be 0D, but got 1D of shape [3]");
    ck_says(rg_take(T(3, 4), rg_add(I(2), 12)),
            "take: out of range: tried to access index 12 on a tensor of 12 elements.");
    ck_says(rg_masked_fill(T(3, 4), rg_gt(T(3, 4), 0), T(2, 2, 2)),
            "masked_fill: masked_fill_ only supports a 0-dimensional value tensor, but got "
            "tensor with 3 dimension(s).");
    ck_says(rg_fill_(T(3, 4), T(2, 2)),
            "fill_: Expected value to be 0D, but got 2D of shape [2, 2]");
    ck_says(rg_repeat_interleave(T(3, 4), I(2), .dim = 0),
            "repeat_interleave: repeats must have the same size as input along dim, but "
            "got repeats.size(0) = 2 and input.size(0) = 3");
    ck_says(rg_repeat_interleave(T(3), rg_add(I(3), 2), .output_size = 5),
            "repeat_interleave: allocated size does not match required size");
    ck_says(rg_searchsorted(T(3, 4), rg_scalar(1), false),
            "searchsorted: Expected boundaries to be 1D, but got 2D of shape [3, 4]");
    ck_says(rg_bucketize(T(3), T(3, 4), false),
            "bucketize: Expected boundaries to be 1D, but got 2D of shape [3, 4]");
    ck_says(rg_bincount(rg_add(I(2), INT64_MAX)),
            "bincount: maximum value of input overflowed, it should be < "
            "9223372036854775807 but got 9223372036854775807");
}
END_TEST

START_TEST(test_products) {
    ck_says(rg_outer(T(3, 4), T(2)), "outer: Expected self to be 1D, but got 2D of shape [3, 4]");
    ck_says(rg_outer(T(3), T(2, 4, 1)),
            "outer: Expected vec2 to be 1D, but got 3D of shape [2, 4, 1]");
    ck_says(rg_tensordot(T(3, 4), T(4), -2),
            "tensordot: tensordot expects dims >= 0, but got dims=-2");
    ck_says(rg_tensordot(T(3, 4), T(4), 2),
            "tensordot: tensordot expects dims < ndim_a or ndim_b, but got dims=2");
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
    ck_says(rg_cdist(T(3), T(3, 4)),
            "cdist: Expected X1 to be at least 2D, but got 1D of shape [3]");
    ck_says(rg_cdist(T(3, 4), T()), "cdist: Expected X2 to be at least 2D, but got 0D of shape []");
    ck_says(rg_cdist(T(3, 4), T(3, 5)),
            "cdist: Expected X2 to have size 4 at dimension 1, but got shape [3, 5]");
    ck_says(rg_dot(T(3, 4), T(4)), "dot: Expected self to be 1D, but got 2D of shape [3, 4]");
    ck_says(rg_dot(T(3), T(4)), "dot: mat1 and mat2 shapes cannot be multiplied (3 and 4)");
    ck_says(rg_mv(T(3), T(4, 2)), "mv: Expected self to be 2D, but got 1D of shape [3]");
    ck_says(rg_mv(T(3, 5), T(4)), "mv: mat1 and mat2 shapes cannot be multiplied (3x5 and 4)");
    ck_says(rg_mm(T(3, 5), T(4)), "mm: Expected mat2 to be 2D, but got 1D of shape [4]");
    ck_says(rg_mm(T(5), T(4, 2)), "mm: Expected self to be 2D, but got 1D of shape [5]");
    ck_says(rg_mm(T(3, 5), T(4, 2)), "mm: mat1 and mat2 shapes cannot be multiplied (3x5 and 4x2)");
    ck_says(rg_matmul(T(), T(4)),
            "matmul: Expected mat1 to be at least 1D, but got 0D of shape []");
    ck_says(rg_bmm(T(2, 3, 5), T(2, 4, 6)),
            "bmm: mat1 and mat2 shapes cannot be multiplied (2x3x5 and 2x4x6)");
    ck_says(rg_bmm(T(2, 3), T(2, 4, 6)),
            "bmm: Expected batch1 to be 3D, but got 2D of shape [2, 3]");
    ck_says(rg_linear(T(), T(3, 4), RG_NONE),
            "linear: Expected input to be at least 1D, but got 0D of shape []");
    ck_says(rg_linear(T(2, 5), T(3, 4), RG_NONE),
            "linear: mat1 and mat2 shapes cannot be multiplied (2x5 and 4x3)");
    ck_says(rg_linear(T(2, 4), T(3, 4, 1), RG_NONE),
            "linear: Expected weight to be 1D or 2D, but got 3D of shape [3, 4, 1]");
}
END_TEST

START_TEST(test_layers) {
    ck_says(rg_nll_loss(T(3, 4), I(2)),
            "nll_loss: Expected input batch_size (3) to match target batch_size (2).");
    ck_says(rg_nll_loss(T(3, 4), rg_add(I(3), 7)), "nll_loss: Target 7 is out of bounds.");
    ck_says(rg_nll_loss(T(4), I(3)),
            "nll_loss: For 1D input, 1D target must have size 1, but got target size: 3");
    ck_says(rg_nll_loss(T(3, 4), I(3), .weight = T(5)),
            "nll_loss: Expected weight to have shape [4], but got [5]");
    ck_says(rg_cross_entropy(T(3, 4), I(2)),
            "cross_entropy: Expected input batch_size (3) to match target batch_size (2).");
    ck_says(rg_cross_entropy(T(3, 4), I(3), .weight = T(5)),
            "cross_entropy: Expected weight to have shape [4], but got [5]");
    ck_says(rg_cross_entropy(T(3, 4), I(3), .label_smoothing = 1.5),
            "cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: 1.5");
    ck_says(rg_cross_entropy(T(3, 4), rg_add(I(3), -9)),
            "cross_entropy: Target -9 is out of bounds.");
    ck_says(rg_prelu(T(3, 4), T(5)),
            "prelu: Mismatch of parameter numbers and input channel size. Found parameter "
            "numbers = 5 and channel size = 4.");
    ck_says(rg_prelu(T(3, 4), T(5, 2)),
            "prelu: Mismatch of parameter numbers and input channel size. Found parameter "
            "numbers = 10 and channel size = 4.");
    ck_says(rg_glu(T(3, 5), 1), "glu: Halving dimension must be even, but dimension 1 is size 5");
    ck_says(rg_rotary_embedding(T(2, 3), T(2, 1), T(2, 1), false),
            "rotary_embedding: the last dim of x must be even, but x is of shape "
            "torch.Size([2, 3])");
    ck_says(rg_rotary_embedding(T(2, 4), T(2, 4), T(2, 2), false),
            "rotary_embedding: The expanded size of the tensor (2) must match the existing size "
            "(4) at non-singleton dimension 1.  Target sizes: [2, 2].  Tensor sizes: [2, 4]");
    ck_says(rg_softshrink(T(3), -2.5),
            "softshrink: lambda must be in range [0, 3.40282e+38] for input dtype Float, "
            "but found -2.5");
    ck_says(rg_triplet_margin_loss(T(3), T(3, 4), T(2, 3, 4)),
            "triplet_margin_loss: The anchor, positive, and negative tensors are expected "
            "to have the same number of dimensions, but got: anchor 1D, positive 2D, and "
            "negative 3D inputs");
    ck_says(rg_cosine_embedding_loss(T(3, 4), T(3, 4), T(3, 4)),
            "cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported");
    ck_says(rg_layer_norm(T(3), RG_DIMS(3, 4), RG_NONE, RG_NONE, 1e-5),
            "layer_norm: Given normalized_shape=[3, 4], expected input with shape [*, 3, "
            "4], but got input of size[3]");
    ck_says(rg_group_norm(T(3, 5), 2, RG_NONE, RG_NONE, 1e-5),
            "group_norm: Expected number of channels in input to be divisible by "
            "num_groups, but got input of shape [3, 5] and num_groups=2");
    ck_fails(rg_batch_norm(T(3, 5), T(5), T(5), .training = true, .eps = -(double)NAN),
             RG_VALUE_ERROR, "batch_norm eps must be positive during training, but got nan");
    ck_fails(rg_batch_norm(T(3, 5), T(5), T(5), .eps = -1e-5), RG_VALUE_ERROR,
             "batch_norm eps must be non-negative, but got -1e-05");
    ck_says(rg_batch_norm(T(3, 5), T(4), T(5)),
            "batch_norm: running_mean should contain 5 elements not 4");
    ck_says(rg_batch_norm(T(3, 5), T(5), T(6)),
            "batch_norm: running_var should contain 5 elements not 6");
    ck_says(rg_pad(T(2, 3), -2, -3), "pad: narrow(): length must be non-negative.");
    ck_fails(rg_pad_with(T(2, 2, 2, 2, 2), RG_DIMS(1, 1, 1, 1, 1, 1, 1, 1), RG_REFLECT, 0),
             RG_NOT_IMPLEMENTED, "pad: Padding size 8 is not supported for 5D input tensor.");
    ck_says(rg_pad(T(2, 3), 1, 2, 3, 4, 5, 6),
            "pad: Padding length should be less than or equal to two times the input "
            "dimension but got padding length 6 and input of dimension 2");
    ck_says(rg_pad_with(T(1, 2, 3), RG_DIMS(1, 2, 3, 4), RG_REFLECT, 0),
            "pad: Argument #6: Padding size should be less than the corresponding input "
            "dimension, but got: padding (3, 4) at dimension 1 of input [1, 2, 3]");
    ck_says(rg_pad_with(T(1, 2, 3), RG_DIMS(4, 1), RG_REFLECT, 0),
            "pad: Argument #4: Padding size should be less than the corresponding input "
            "dimension, but got: padding (4, 1) at dimension 2 of input [1, 2, 3]");
    ck_says(rg_conv1d(T(2, 3), T(4, 3, 2, 1), RG_NONE),
            "conv1d: Expected weight to be 3D, but got 4D of shape [4, 3, 2, 1]");
    ck_says(rg_conv1d(T(2, 3, 5, 5), T(4, 3, 2), RG_NONE),
            "conv1d: Expected input to be 2D or 3D, but got 4D of shape [2, 3, 5, 5]");
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
        rg_max_pool2d(T(1, 5, 6), RG_DIMS(2, 3), .padding = 2),
        "max_pool2d: pad should be at most half of kernel size, but got pad=2 and kernel_size=2");
    ck_says(rg_max_pool2d(T(1, 5, 6), RG_DIMS(0, 3)),
            "max_pool2d: kernel_size should be greater than zero, but got [0, 3]");
    ck_says(rg_max_pool2d(T(1, 5, 6), RG_DIMS(2, 3), .stride = -4),
            "max_pool2d: stride should be greater than zero, but got [-4, -4]");
    ck_says(rg_max_pool2d(T(1, 5, 6), RG_DIMS(2, 3), .dilation = -4),
            "max_pool2d: dilation should be greater than zero, but got [-4, -4]");
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
    ck_says(rg_max_pool1d(T(5), RG_DIMS(3)),
            "max_pool1d: Expected input to be 2D or 3D, but got 1D of shape [5]");
    ck_says(
        rg_avg_pool2d(T(1, 5, 6), RG_DIMS(2, 3), .padding = 2),
        "avg_pool2d: pad should be at most half of kernel size, but got pad=2 and kernel_size=2");
    ck_says(rg_cosine_similarity(T(2, 3), T(2, 3), 1, -0.5),
            "cosine_similarity: eps must be non-negative, got: -0.5");
    ck_says(rg_avg_pool2d(T(1, 5, 6), 2, .divisor_override = 0),
            "avg_pool2d: divisor must be not zero");
    ck_says(rg_conv1d(rg_gt(T(1, 1, 5), 0), rg_gt(T(1, 1, 2), 0), RG_NONE),
            "conv1d: not implemented for 'Bool'");
    ck_says(rg_conv1d(I(1, 1, 5), T(1, 1, 2), RG_NONE),
            "conv1d: input and weight must have the same dtype, but got Long and Float");
    ck_says(rg_conv1d(I(1, 1, 5), I(1, 1, 2), T(1)),
            "conv1d: input and bias must have the same dtype, but got Long and Float");
    ck_says(
        rg_avg_pool2d(T(1, 5, 6), RG_DIMS(2, 8)),
        "avg_pool2d: Given planes of size [5, 6], calculated output size [2, 0]. Output size is "
        "too small");
    ck_says(rg_adaptive_avg_pool2d(T(1, 5, 6), RG_DIMS(3, -2)),
            "adaptive_avg_pool2d: output_size must be non-negative, but got [3, -2]");
    ck_says(rg_adaptive_max_pool2d(T(1, 0, 6), RG_DIMS(3, 2)),
            "adaptive_max_pool2d: Expected input to have non-zero size for non-batch dimensions, "
            "but got shape [1, 0, 6]");
    ck_says(rg_embedding(I(2), T(3, 4, 5)),
            "embedding: Expected weight to be 2D, but got 3D of shape [3, 4, 5]");
    ck_says(rg_embedding(I(2), T(3), .max_norm = 2),
            "embedding: Expected weight to be 2D, but got 1D of shape [3]");
    ck_says(rg_embedding(rg_add(I(2), 3), T(3, 4)),
            "embedding: index 3 is out of bounds for dimension 0 with size 3");
    ck_says(rg_nll_loss(T(3, 4, 2), I(3, 5)),
            "nll_loss: Expected target to have shape [3, 2], but got [3, 5]");
    ck_says(rg_scaled_dot_product_attention(T(3), T(4, 5), T(2, 4, 5)),
            "scaled_dot_product_attention: Expected query to be at least 2D, but got 1D of "
            "shape [3]");
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
    ck_fails(rg_kron(half, half), RG_RUNTIME_ERROR, "at most 8 dimensions, but 10 were asked for");
    ck_fails(rg_kron(half, q), RG_RUNTIME_ERROR, "at most 8 dimensions, but 10 were asked for");
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
    ck_fails(rg_einsum("abcdefgha", x), RG_RUNTIME_ERROR, "einsum");
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
    ck_fails(rg_split_sizes(x, 2, NULL, 0).n >= 0, RG_RUNTIME_ERROR,
             "split: split_with_sizes expects split_sizes to sum exactly to 2");
    ck_fails(rg_split_sizes(x, -1, (int64_t[]){ 2 }, 0).n >= 0, RG_RUNTIME_ERROR,
             "split: split_with_sizes expects split_sizes to sum exactly to 2");
    ck_fails(rg_split_sizes(T(0, 3), -1, (int64_t[]){ 0 }, 0).n >= 0, RG_RUNTIME_ERROR,
             "split: split_with_sizes expects split_sizes to sum exactly to 0");
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
    ck_says(rg_mul_(x, I(6)),
            "mul_: result type Long can't be cast to the desired output type Bool");
    ck_says(rg_mul_(x, T(6)),
            "mul_: result type Float can't be cast to the desired output type Bool");
    ck_says(rg_mul_(I(6), T(6)),
            "mul_: result type Float can't be cast to the desired output type Long");
    ck_ok(rg_mul_(shifted, rg_narrow(x, 0, 0, 5)));
    ck_assert(rg_dtype_of(x) == RG_BOOL && rg_item_int(rg_sum(rg_long(x))) == 2);
    ck_ok(rg_mul_(x, rg_zeros_dims(RG_DIMS(6), RG_BOOL)));
    ck_assert_int_eq(rg_item_int(rg_sum(rg_long(x))), 0);
}
END_TEST

START_TEST(test_numbers) {
    ck_fails(rg_eq_(T(2, 3), T(4)), RG_RUNTIME_ERROR, "eq_: The size of tensor a (3) must match");
    ck_fails(rg_ge_(T(2, 3), T(4)), RG_RUNTIME_ERROR, "ge_: The size of tensor a (3) must match");
    ck_says(rg_copy_(I(2), 1e30),
            "copy_: value cannot be converted to type int64_t without overflow");
    ck_says(rg_quantile(T(3), 0.5, .interpolation = NULL),
            "quantile: expected a text but got NULL");
    ck_says(rg_linear(T(2, 3), T(4, 3), T(5)),
            "linear: The expanded size of the tensor (4) must match the existing size (5) at "
            "non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [5]");
    ck_says(rg_nll_loss(T(3, 4), I(3), .weight = I(4)),
            "nll_loss: input and weight must have the same dtype, but got Float and Long");
    ck_says(rg_index(T(), "::2"), "index: slice() cannot be applied to a 0-dim tensor.");
    ck_says(rg_scatter(T(2, 3), 0, I(2, 3), T(2)),
            "scatter: Dimension out of range (expected to be in range of [-1, 0], but got 1)");
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
    ck_fails(rg_add_alpha(x, x, rg_ones(2)), RG_TYPE_ERROR,
             "argument 'alpha' must be Number, not Tensor");
    ck_fails(rg_add_alpha(x, x, rg_select(x, 0, 0)), RG_TYPE_ERROR,
             "argument 'alpha' must be Number, not Tensor");

    ck_fails(rg_joint_attention(T(2, 6), 1, false), RG_RUNTIME_ERROR,
             "expected floats of (batch, n, 3 * heads * size), but got [2, 6] of torch.float32");
    ck_fails(rg_joint_attention(I(2, 3, 6), 1, false), RG_RUNTIME_ERROR, "of torch.int64");
    ck_fails(rg_joint_attention(T(2, 3, 6), 4, false), RG_RUNTIME_ERROR,
             "a width of 6 isn't three times that of 4 heads");
    ck_fails(rg_joint_attention(T(2, 3, 6), 0, false), RG_RUNTIME_ERROR, "that of 0 heads");
    ck_fails(rg_joint_attention(T(2, 3, 6), 7, false), RG_RUNTIME_ERROR, "that of 7 heads");
    ck_fails(rg_scaled_dot_product_attention(I(2, 3), I(2, 3), I(2, 3)), RG_RUNTIME_ERROR,
             "expected scalar type Float but found Long");
    ck_fails(rg_scaled_dot_product_attention(T(2, 3), T(2, 3), T(2, 3), .enable_gqa = true),
             RG_INDEX_ERROR, "expected to be in range of [-2, 1], but got -3)");

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
    ck_fails(rg_max_pool2d(T(1, 5, 5), RG_DIMS(1, 2, 3)), RG_RUNTIME_ERROR,
             "max_pool2d: Expected kernel_size to be a single integer value or a list of 2 values, "
             "but got [1, 2, 3]");
    ck_fails(
        rg_max_pool2d(T(1, 9, 9), RG_DIMS(2, 3), .paddings = RG_DIMS(1, 2), .dilation = 3),
        RG_RUNTIME_ERROR,
        "max_pool2d: pad should be at most half of kernel size, but got pad=2 and kernel_size=3");
    ck_fails(
        rg_max_pool2d(T(1, 9, 9), RG_DIMS(2, 2), .paddings = RG_DIMS(2, 0), .dilation = 3),
        RG_RUNTIME_ERROR,
        "max_pool2d: pad should be at most half of kernel size, but got pad=2 and kernel_size=2");
    ck_fails(rg_adaptive_avg_pool2d(T(1, 5, 5), RG_DIMS(1, 2, 3)), RG_RUNTIME_ERROR,
             "output_size must be 2");
    ck_fails(rg_adaptive_avg_pool2d(T(5), RG_AS_IT_IS), RG_RUNTIME_ERROR,
             "adaptive_avg_pool2d: Expected input to be 3D or 4D, but got 1D of shape [5]");
    ck_fails(rg_adaptive_avg_pool2d(T(5, 4), RG_AS_IT_IS), RG_RUNTIME_ERROR,
             "adaptive_avg_pool2d: Expected input to be 3D or 4D, but got 2D of shape [5, 4]");

    ck_fails(rg_cross_entropy(T(2, 3), T(2, 3), .ignore_index = 1), RG_RUNTIME_ERROR,
             "ignore_index is not supported for floating point target");
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
    ck_fails(rg_einsum_list("ij", (rg_list){ 0, NULL }), RG_VALUE_ERROR,
             "einsum(): must specify the equation string and at least one operand");
    ck_fails(rg_einsum_list(NULL, RG_LIST(x)), RG_TYPE_ERROR, "the equation must be a string");
    ck_fails(rg_pad_with(T(2, 3), RG_DIMS(1, 1), (rg_pad_mode)9, 0), RG_NOT_IMPLEMENTED,
             "Unrecognised padding mode 9");
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

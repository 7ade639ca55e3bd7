/*
 * ops.h: every differentiable function, one line each, with its formula: the
 * manual. Where a tensor is expected in arithmetic, a number may stand. dim may
 * be negative. Ops that only look (comparisons, argmax) stand here too.
 *
 *   element by element    one tensor; two; three
 *   reductions            sum, mean, max, norm, cumsum
 *   products              matmul, einsum
 *   shapes                views first, then copies
 *   indexing              Python's x[...], gather, sort
 *   neural                softmax, norms, attention, losses
 *   in place              what ends in _
 */
#pragma once

#include "../tensor/tensor.h"

#ifdef __cplusplus
#include <initializer_list>
#endif

RG_PUBLIC_BEGIN

/* ---- one tensor, element by element -------------------------------------------- */
rg_tensor *rg_neg(rg_tensor *x);   /* -x */
rg_tensor *rg_abs(rg_tensor *x);   /* |x| */
rg_tensor *rg_exp(rg_tensor *x);   /* e^x */
rg_tensor *rg_exp2(rg_tensor *x);  /* 2^x */
rg_tensor *rg_expm1(rg_tensor *x); /* e^x - 1 */
rg_tensor *rg_log(rg_tensor *x);   /* ln x */
rg_tensor *rg_log1p(rg_tensor *x); /* ln(1 + x) */
rg_tensor *rg_log2(rg_tensor *x);
rg_tensor *rg_log10(rg_tensor *x);
rg_tensor *rg_sqrt(rg_tensor *x);
rg_tensor *rg_rsqrt(rg_tensor *x);      /* 1 / sqrt(x) */
rg_tensor *rg_square(rg_tensor *x);     /* x^2 */
rg_tensor *rg_reciprocal(rg_tensor *x); /* 1 / x */
rg_tensor *rg_sin(rg_tensor *x);
rg_tensor *rg_cos(rg_tensor *x);
rg_tensor *rg_tan(rg_tensor *x);
rg_tensor *rg_sinh(rg_tensor *x);
rg_tensor *rg_cosh(rg_tensor *x);
rg_tensor *rg_tanh(rg_tensor *x);
rg_tensor *rg_asin(rg_tensor *x);
rg_tensor *rg_acos(rg_tensor *x);
rg_tensor *rg_atan(rg_tensor *x);
rg_tensor *rg_sigmoid(rg_tensor *x); /* 1 / (1 + e^-x) */
rg_tensor *rg_erf(rg_tensor *x);
rg_tensor *rg_erfc(rg_tensor *x);                              /* 1 - erf x */
rg_tensor *rg_relu(rg_tensor *x);                              /* max(x, 0) */
rg_tensor *rg_relu6(rg_tensor *x);                             /* min(max(x, 0), 6) */
rg_tensor *rg_leaky_relu(rg_tensor *x, double negative_slope); /* x > 0 ? x : slope x */
rg_tensor *rg_elu(rg_tensor *x, double alpha);                 /* x > 0 ? x : alpha (e^x - 1) */
rg_tensor *rg_selu(rg_tensor *x);               /* scale (x > 0 ? x : alpha (e^x - 1)) */
rg_tensor *rg_celu(rg_tensor *x, double alpha); /* x > 0 ? x : alpha (e^(x/alpha) - 1) */
rg_tensor *rg_gelu(rg_tensor *x);               /* x (1 + erf(x / sqrt 2)) / 2 */
/* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 */
rg_tensor *rg_gelu_tanh(rg_tensor *x);
rg_tensor *rg_silu(rg_tensor *x); /* x sigmoid(x) */
rg_tensor *rg_mish(rg_tensor *x); /* x tanh(softplus(x)) */
/* ln(1 + e^(beta x)) / beta; x above threshold/beta */
rg_tensor *rg_softplus(rg_tensor *x, double beta, double threshold);
rg_tensor *rg_softsign(rg_tensor *x); /* x / (1 + |x|) */
rg_tensor *rg_hardtanh(rg_tensor *x, double min, double max);
rg_tensor *rg_hardswish(rg_tensor *x);   /* x min(max(x + 3, 0), 6) / 6 */
rg_tensor *rg_hardsigmoid(rg_tensor *x); /* min(max(x + 3, 0), 6) / 6 */
rg_tensor *rg_logsigmoid(rg_tensor *x);  /* ln sigmoid(x) */
rg_tensor *rg_floor(rg_tensor *x);
rg_tensor *rg_ceil(rg_tensor *x);
rg_tensor *rg_round(rg_tensor *x); /* half to even */
rg_tensor *rg_round_decimals(rg_tensor *x, int decimals);
rg_tensor *rg_trunc(rg_tensor *x);
rg_tensor *rg_frac(rg_tensor *x); /* x - trunc(x) */
rg_tensor *rg_sign(rg_tensor *x);
rg_tensor *rg_isnan(rg_tensor *x);
rg_tensor *rg_isinf(rg_tensor *x);
rg_tensor *rg_isfinite(rg_tensor *x);
rg_tensor *rg_logical_not(rg_tensor *x);

/* ---- two, which broadcast ---------------------------------------------------------- */
rg_tensor *rg_add(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_sub(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_mul(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_div(rg_tensor *a, rg_tensor *b);
/* a + alpha b; alpha a number */
rg_tensor *rg_add_alpha(rg_tensor *a, rg_tensor *b, rg_tensor *alpha);
rg_tensor *rg_sub_alpha(rg_tensor *a, rg_tensor *b, rg_tensor *alpha);
rg_tensor *rg_div_floor(rg_tensor *a, rg_tensor *b);    /* rounding_mode='floor' */
rg_tensor *rg_div_trunc(rg_tensor *a, rg_tensor *b);    /* rounding_mode='trunc' */
rg_tensor *rg_floor_divide(rg_tensor *a, rg_tensor *b); /* a // b */
rg_tensor *rg_remainder(rg_tensor *a, rg_tensor *b);    /* a % b, with b's sign */
rg_tensor *rg_fmod(rg_tensor *a, rg_tensor *b);         /* with a's sign */
rg_tensor *rg_pow(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_atan2(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_maximum(rg_tensor *a, rg_tensor *b); /* NaN if either is */
rg_tensor *rg_minimum(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_fmax(rg_tensor *a, rg_tensor *b); /* the other where one is NaN */
rg_tensor *rg_fmin(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_eq(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_ne(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_lt(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_le(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_gt(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_ge(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_logical_and(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_logical_or(rg_tensor *a, rg_tensor *b);
rg_tensor *rg_logical_xor(rg_tensor *a, rg_tensor *b);

/* ---- three ------------------------------------------------------------------------- */
/* condition ? a : b */
rg_tensor *rg_where(rg_tensor *condition, rg_tensor *a, rg_tensor *b);
rg_tensor *rg_masked_fill(rg_tensor *x, rg_tensor *mask, rg_tensor *value); /* mask ? value : x */
/* either may be RG_NONE */
rg_tensor *rg_clamp(rg_tensor *x, rg_tensor *min, rg_tensor *max);
rg_tensor *rg_clamp_min(rg_tensor *x, rg_tensor *min);
rg_tensor *rg_clamp_max(rg_tensor *x, rg_tensor *max);
/* a + weight (b - a) */
rg_tensor *rg_lerp(rg_tensor *a, rg_tensor *b, rg_tensor *weight);
/* x + value a b */
rg_tensor *rg_addcmul(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value);
/* x + value a / b */
rg_tensor *rg_addcdiv(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value);

/* ---- reductions ---------------------------------------------------------------------
 * Over everything; over one dim; over several (RG_DIMS(0, 2); RG_DIMS(): all, but for
 * any and all none, as torch has it). */
/* NULL, NULL: failed */
typedef struct rg_values_indices {
    rg_tensor *values, *indices;
} rg_values_indices;

rg_tensor *rg_sum(rg_tensor *x);
rg_tensor *rg_sum_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_sum_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_nansum(rg_tensor *x); /* NaN counts as 0 */
rg_tensor *rg_nansum_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_nansum_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_mean(rg_tensor *x);
rg_tensor *rg_mean_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_mean_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_prod(rg_tensor *x);
rg_tensor *rg_prod_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_amax(rg_tensor *x); /* the gradient is shared by ties */
rg_tensor *rg_amax_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_amax_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_amin(rg_tensor *x);
rg_tensor *rg_amin_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_amin_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_max(rg_tensor *x);
rg_values_indices rg_max_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_min(rg_tensor *x);
rg_values_indices rg_min_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_argmax(rg_tensor *x); /* of the flattened tensor */
rg_tensor *rg_argmax_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_argmin(rg_tensor *x);
rg_tensor *rg_argmin_dim(rg_tensor *x, int dim, bool keepdim);
/* sum((x - mean)^2) / max(0, n - correction); correction 1 */
rg_tensor *rg_var(rg_tensor *x);
rg_tensor *rg_var_dim(rg_tensor *x, int dim, double correction, bool keepdim);
rg_tensor *rg_var_dims(rg_tensor *x, rg_dims dims, double correction, bool keepdim);
rg_tensor *rg_std(rg_tensor *x); /* sqrt(var) */
rg_tensor *rg_std_dim(rg_tensor *x, int dim, double correction, bool keepdim);
rg_tensor *rg_std_dims(rg_tensor *x, rg_dims dims, double correction, bool keepdim);
rg_tensor *rg_norm(rg_tensor *x);             /* sum(|x|^2)^(1/2) */
rg_tensor *rg_norm_p(rg_tensor *x, double p); /* sum(|x|^p)^(1/p); also 0, inf, -inf */
rg_tensor *rg_norm_dim(rg_tensor *x, double p, int dim, bool keepdim);
rg_tensor *rg_norm_dims(rg_tensor *x, double p, rg_dims dims, bool keepdim);
rg_tensor *rg_logsumexp(rg_tensor *x, int dim, bool keepdim); /* ln sum(e^x) */
rg_tensor *rg_logsumexp_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_cumsum(rg_tensor *x, int dim);
rg_tensor *rg_cumprod(rg_tensor *x, int dim);
rg_tensor *rg_any(rg_tensor *x);
rg_tensor *rg_any_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_any_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_all(rg_tensor *x);
rg_tensor *rg_all_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_all_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_count_nonzero(rg_tensor *x);
rg_tensor *rg_count_nonzero_dim(rg_tensor *x, int dim);
rg_tensor *rg_count_nonzero_dims(rg_tensor *x, rg_dims dims);

/* ---- products -------------------------------------------------------------------- */
rg_tensor *rg_matmul(rg_tensor *a, rg_tensor *b); /* a @ b, for every pair of ranks */
rg_tensor *rg_dot(rg_tensor *a, rg_tensor *b);    /* (n) (n) */
rg_tensor *rg_mv(rg_tensor *a, rg_tensor *b);     /* (n,k) (k) */
rg_tensor *rg_mm(rg_tensor *a, rg_tensor *b);     /* (n,k) (k,m) */
rg_tensor *rg_bmm(rg_tensor *a, rg_tensor *b);    /* (b,n,k) (b,k,m) */
rg_tensor *rg_outer(rg_tensor *a, rg_tensor *b);  /* (n) (m) -> (n,m) */
rg_tensor *rg_inner(rg_tensor *a, rg_tensor *b);  /* over the last dim of both */
/* a's last n dims with b's first n */
rg_tensor *rg_tensordot(rg_tensor *a, rg_tensor *b, int n);
rg_tensor *rg_tensordot_dims(rg_tensor *a, rg_tensor *b, rg_dims in_a, rg_dims in_b);
/* beta c + alpha a b */
rg_tensor *rg_addmm(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha);
rg_tensor *rg_baddbmm(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha);
/* x weight^T + bias; bias may be RG_NONE */
rg_tensor *rg_linear(rg_tensor *x, rg_tensor *weight, rg_tensor *bias);

/* ---- lists of tensors ---------------------------------------------------------------
 * In: RG_LIST(a, b, c). Out: .n tensors in .v, which the scope owns; .n == -1: failed, and
 * the first 64 of .v are NULL. */
typedef struct rg_list {
    int n;
    rg_tensor *const *v;
} rg_list;
#ifndef __cplusplus
#define RG_LIST(...)                                                                 \
    ((rg_list){ (int)(sizeof((rg_tensor *[]){ __VA_ARGS__ }) / sizeof(rg_tensor *)), \
                (rg_tensor *[]){ __VA_ARGS__ } })
#endif
rg_tensor *rg_einsum_list(const char *equation, rg_list operands);
#define rg_einsum(equation, ...) \
    rg_einsum_list(equation, RG_LIST(__VA_ARGS__)) /* rg_einsum("ij,jk->ik", a, b) */

/* ---- shapes: views --------------------------------------------------------------- */
rg_tensor *rg_view_dims(rg_tensor *x, rg_dims shape);
/* a copy where no view will do */
rg_tensor *rg_reshape_dims(rg_tensor *x, rg_dims shape);
#define rg_view(x, ...)    rg_view_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_reshape(x, ...) rg_reshape_dims(x, RG_DIMS(__VA_ARGS__))
rg_tensor *rg_flatten(rg_tensor *x, int start_dim, int end_dim);
rg_tensor *rg_unflatten(rg_tensor *x, int dim, rg_dims sizes);
rg_tensor *rg_transpose(rg_tensor *x, int dim0, int dim1);
rg_tensor *rg_T(rg_tensor *x);  /* x.T */
rg_tensor *rg_t(rg_tensor *x);  /* x.t() */
rg_tensor *rg_mT(rg_tensor *x); /* the last two dims exchanged */
rg_tensor *rg_permute_dims(rg_tensor *x, rg_dims dims);
#define rg_permute(x, ...) rg_permute_dims(x, RG_DIMS(__VA_ARGS__))
rg_tensor *rg_movedim(rg_tensor *x, int source, int destination);
rg_tensor *rg_movedim_dims(rg_tensor *x, rg_dims source, rg_dims destination);
rg_tensor *rg_squeeze(rg_tensor *x);
rg_tensor *rg_squeeze_dim(rg_tensor *x, int dim);
rg_tensor *rg_squeeze_dims(rg_tensor *x, rg_dims dims);
rg_tensor *rg_unsqueeze(rg_tensor *x, int dim);
rg_tensor *rg_expand_dims(rg_tensor *x, rg_dims shape); /* -1: as it is */
#define rg_expand(x, ...) rg_expand_dims(x, RG_DIMS(__VA_ARGS__))
rg_tensor *rg_expand_as(rg_tensor *x, rg_tensor *other);
rg_tensor *rg_view_as(rg_tensor *x, rg_tensor *other);
rg_tensor *rg_reshape_as(rg_tensor *x, rg_tensor *other);
rg_tensor *rg_narrow(rg_tensor *x, int dim, int64_t start, int64_t length);
rg_tensor *rg_select(rg_tensor *x, int dim, int64_t index);
/* Python's start:end:step */
rg_tensor *rg_slice(rg_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
rg_tensor *rg_diagonal(rg_tensor *x, int64_t offset, int dim1, int dim2);
/* parts of this size, the last may be smaller */
rg_list rg_split(rg_tensor *x, int64_t size, int dim);
rg_list rg_split_sizes(rg_tensor *x, int n, const int64_t *sizes, int dim);
rg_list rg_chunk(rg_tensor *x, int64_t chunks, int dim);
rg_list rg_unbind(rg_tensor *x, int dim);

/* ---- shapes: copies -------------------------------------------------------------- */
rg_tensor *rg_cat(rg_list tensors, int dim);
rg_tensor *rg_stack(rg_list tensors, int dim);
rg_tensor *rg_hstack(rg_list tensors);
rg_tensor *rg_vstack(rg_list tensors);
rg_tensor *rg_repeat_dims(rg_tensor *x, rg_dims repeats);
rg_tensor *rg_tile_dims(rg_tensor *x, rg_dims repeats);
#define rg_repeat(x, ...) rg_repeat_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_tile(x, ...)   rg_tile_dims(x, RG_DIMS(__VA_ARGS__))
rg_tensor *rg_flip_dims(rg_tensor *x, rg_dims dims);
#define rg_flip(x, ...) rg_flip_dims(x, RG_DIMS(__VA_ARGS__))
rg_tensor *rg_roll(rg_tensor *x, int64_t shift, int dim);
/* no dims: of the flattened tensor */
rg_tensor *rg_roll_dims(rg_tensor *x, rg_dims shifts, rg_dims dims);
rg_tensor *rg_tril(rg_tensor *x, int64_t diagonal);
rg_tensor *rg_triu(rg_tensor *x, int64_t diagonal);
/* a vector's matrix; a matrix's diagonal */
rg_tensor *rg_diag(rg_tensor *x, int64_t diagonal);
rg_tensor *rg_trace(rg_tensor *x);
typedef enum rg_pad_mode { RG_CONSTANT, RG_REFLECT, RG_REPLICATE, RG_CIRCULAR } rg_pad_mode;
rg_tensor *rg_pad_with(rg_tensor *x, rg_dims padding, rg_pad_mode mode, double value);
#define rg_pad(x, ...) \
    rg_pad_with(x, RG_DIMS(__VA_ARGS__), RG_CONSTANT, 0) /* last dim's pair first */
rg_tensor *rg_contiguous(rg_tensor *x);
rg_tensor *rg_clone(rg_tensor *x);
rg_tensor *rg_to(rg_tensor *x, rg_dtype dtype);
#define rg_float(x)  rg_to(x, RG_FLOAT32)
#define rg_double(x) rg_to(x, RG_FLOAT64)
#define rg_long(x)   rg_to(x, RG_INT64)
#define rg_bool(x)   rg_to(x, RG_BOOL)

/* ---- Python's index syntax ----------------------------------------------------------
 * x[1:3, None, -1] is rg_index(x, "1:3, None, -1"), x[i] is rg_index(x, i), and
 * x[:, mask] is rg_index(x, ":", mask). Each item is a number, a tensor (int64 or
 * a bool mask), RG_SLICE(start, end) or RG_SLICE(start, end, step), or a piece of
 * Python's text. Up to 16 items. */
typedef struct rg_item_index {
    enum { RG_INDEX_TEXT, RG_INDEX_NUMBER, RG_INDEX_SLICE, RG_INDEX_TENSOR, RG_INDEX_BOOL } kind;
    const char *text;
    rg_tensor *tensor;
    int64_t start, end, step; /* start: the number */
} rg_item_index;
rg_tensor *rg_index_items(rg_tensor *x, int n, const rg_item_index *items);
rg_tensor *rg_set_items_(rg_tensor *x, rg_tensor *value, int n, const rg_item_index *items);
rg_item_index rg_index_text(const char *text);
rg_item_index rg_index_number(int64_t number);
rg_item_index rg_index_tensor(rg_tensor *t);
rg_item_index rg_index_bool(bool b);
rg_item_index rg_index_slice(int64_t start, int64_t end, int64_t step);
static inline rg_item_index rg_index_item(rg_item_index i) { return i; }
/* rg_index(x, items...) and rg_set_item_(x, value, items...), which is x[items] = value: below */

/* ---- indexing -------------------------------------------------------------------- */
typedef struct rg_unique_result {
    rg_tensor *values, *inverse, *counts;
} rg_unique_result;

/* y[i][j] = x[index[i][j]][j] */
rg_tensor *rg_gather(rg_tensor *x, int dim, rg_tensor *index);
/* y[index[i][j]][j] = source[i][j]; or a number */
rg_tensor *rg_scatter(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_scatter_add(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_index_select(rg_tensor *x, int dim, rg_tensor *index);
rg_tensor *rg_index_add(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source, double alpha);
rg_tensor *rg_take_along_dim(rg_tensor *x, rg_tensor *index, int dim);
rg_tensor *rg_masked_select(rg_tensor *x, rg_tensor *mask);
rg_tensor *rg_nonzero(rg_tensor *x);
rg_values_indices rg_topk(rg_tensor *x, int64_t k, int dim, bool largest, bool sorted);
rg_values_indices rg_sort(rg_tensor *x, int dim, bool descending); /* stable */
rg_tensor *rg_argsort(rg_tensor *x, int dim, bool descending);
rg_tensor *rg_unique(rg_tensor *x); /* sorted */
/* with inverse and counts */
rg_unique_result rg_unique_full(rg_tensor *x);
rg_unique_result rg_unique_dim(rg_tensor *x, int dim);
rg_tensor *rg_searchsorted(rg_tensor *sorted, rg_tensor *values, bool right);
rg_tensor *rg_bucketize(rg_tensor *values, rg_tensor *boundaries, bool right);
/* -1: the largest + 1 */
rg_tensor *rg_one_hot(rg_tensor *index, int64_t classes);
typedef struct rg_embedding_options {
    int64_t padding_idx RG_DEFAULT(INT64_MIN);
} rg_embedding_options;
rg_tensor *rg_embedding_with(rg_tensor *index, rg_tensor *weight, rg_embedding_options o);
#define rg_embedding(index, weight, ...) \
    rg_embedding_with(index, weight,     \
                      RG_KEYWORDS(rg_embedding_options, (.padding_idx = INT64_MIN), __VA_ARGS__))

/* ---- neural ---------------------------------------------------------------------- */
rg_tensor *rg_softmax(rg_tensor *x, int dim);     /* e^x / sum(e^x) */
rg_tensor *rg_log_softmax(rg_tensor *x, int dim); /* x - ln sum(e^x) */
rg_tensor *rg_layer_norm(rg_tensor *x, rg_dims normalized_shape, rg_tensor *weight, rg_tensor *bias,
                         double eps);
/* eps < 0: the dtype's own */
rg_tensor *rg_rms_norm(rg_tensor *x, rg_dims normalized_shape, rg_tensor *weight, double eps);
rg_tensor *rg_group_norm(rg_tensor *x, int64_t groups, rg_tensor *weight, rg_tensor *bias,
                         double eps);
/* x / max(norm_p(x), eps) */
rg_tensor *rg_normalize(rg_tensor *x, double p, int dim, double eps);
rg_tensor *rg_cosine_similarity(rg_tensor *a, rg_tensor *b, int dim, double eps);
/* x * mask / (1 - p) */
rg_tensor *rg_dropout_with(rg_tensor *x, double p, bool training, rg_generator *g);
#define rg_dropout(x, p, training) rg_dropout_with(x, p, training, rg_default_generator())

typedef struct rg_attention_options {
    /* bool: true takes part; or floats to be added */
    rg_tensor *attn_mask RG_DEFAULT(RG_NONE);
    double dropout_p RG_DEFAULT(0);
    bool is_causal RG_DEFAULT(false);
    double scale RG_DEFAULT(0); /* 0: 1/sqrt(size of the last dim) */
    bool enable_gqa RG_DEFAULT(false);
} rg_attention_options;
rg_tensor *rg_scaled_dot_product_attention_with(rg_tensor *q, rg_tensor *k, rg_tensor *v,
                                                rg_attention_options o);
#define rg_scaled_dot_product_attention(q, k, v, ...) /* softmax(scale q k^T + mask) v */ \
    RG_IN_ORDER_3(rg_scaled_dot_product_attention_with, __COUNTER__, q, k, v,             \
                  RG_KEYWORDS(rg_attention_options, (.attn_mask = RG_NONE), __VA_ARGS__))
/* The same of a joint projection (batch, n, 3 * heads * size), without a copy of its parts; not in
 * torch: (batch, n, heads * size). */
rg_tensor *rg_joint_attention(rg_tensor *qkv, int64_t heads, bool is_causal);

/* Losses: over all elements the mean, the sum, or each by itself. */
typedef enum rg_reduction { RG_MEAN, RG_SUM, RG_EACH, RG_BATCHMEAN } rg_reduction;
typedef struct rg_loss_options {
    rg_reduction reduction RG_DEFAULT(RG_MEAN);
    /* of each class (nll, cross_entropy) or element */
    rg_tensor *weight RG_DEFAULT(RG_NONE);
    rg_tensor *pos_weight RG_DEFAULT(RG_NONE); /* binary_cross_entropy_with_logits */
    int64_t ignore_index RG_DEFAULT(-100);     /* nll, cross_entropy */
    double label_smoothing RG_DEFAULT(0);      /* cross_entropy */
    double beta RG_DEFAULT(1);                 /* smooth_l1 */
    double delta RG_DEFAULT(1);                /* huber */
    bool log_target RG_DEFAULT(false);         /* kl_div */
} rg_loss_options;
#define RG_LOSS_OPTIONS_(...)                                                                    \
    RG_KEYWORDS(                                                                                 \
        rg_loss_options,                                                                         \
        (.weight = RG_NONE, .pos_weight = RG_NONE, .ignore_index = -100, .beta = 1, .delta = 1), \
        __VA_ARGS__)
#define RG_LOSS_(f, x, t, ...) RG_IN_ORDER_2(f, __COUNTER__, x, t, RG_LOSS_OPTIONS_(__VA_ARGS__))
rg_tensor *rg_mse_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o); /* (x - t)^2 */
/* |x - t| */
rg_tensor *rg_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
rg_tensor *rg_smooth_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
rg_tensor *rg_huber_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
/* -weight[t] log_p[t] */
rg_tensor *rg_nll_loss_with(rg_tensor *log_p, rg_tensor *target, rg_loss_options o);
/* target: class indices or probabilities */
rg_tensor *rg_cross_entropy_with(rg_tensor *logits, rg_tensor *target, rg_loss_options o);
rg_tensor *rg_binary_cross_entropy_with(rg_tensor *p, rg_tensor *target, rg_loss_options o);
rg_tensor *rg_binary_cross_entropy_with_logits_with(rg_tensor *logits, rg_tensor *target,
                                                    rg_loss_options o);
/* t (ln t - log_p) */
rg_tensor *rg_kl_div_with(rg_tensor *log_p, rg_tensor *target, rg_loss_options o);
#define rg_mse_loss(x, t, ...)             RG_LOSS_(rg_mse_loss_with, x, t, __VA_ARGS__)
#define rg_l1_loss(x, t, ...)              RG_LOSS_(rg_l1_loss_with, x, t, __VA_ARGS__)
#define rg_smooth_l1_loss(x, t, ...)       RG_LOSS_(rg_smooth_l1_loss_with, x, t, __VA_ARGS__)
#define rg_huber_loss(x, t, ...)           RG_LOSS_(rg_huber_loss_with, x, t, __VA_ARGS__)
#define rg_nll_loss(x, t, ...)             RG_LOSS_(rg_nll_loss_with, x, t, __VA_ARGS__)
#define rg_cross_entropy(x, t, ...)        RG_LOSS_(rg_cross_entropy_with, x, t, __VA_ARGS__)
#define rg_binary_cross_entropy(x, t, ...) RG_LOSS_(rg_binary_cross_entropy_with, x, t, __VA_ARGS__)
#define rg_binary_cross_entropy_with_logits(x, t, ...) \
    RG_LOSS_(rg_binary_cross_entropy_with_logits_with, x, t, __VA_ARGS__)
#define rg_kl_div(x, t, ...) RG_LOSS_(rg_kl_div_with, x, t, __VA_ARGS__)

/* ---- in place: the first argument is changed and returned ------------------------ */
rg_tensor *rg_copy_(rg_tensor *x, rg_tensor *source); /* broadcasts and converts */
rg_tensor *rg_fill_(rg_tensor *x, rg_tensor *value);
rg_tensor *rg_zero_(rg_tensor *x);
#define RG_INPLACE_1(f) rg_tensor *rg_##f##_(rg_tensor *x);
#define RG_INPLACE_2(f) rg_tensor *rg_##f##_(rg_tensor *x, rg_tensor *b);
#define RG_INPLACE_ONE(F)                                                                         \
    F(neg)                                                                                        \
    F(abs)                                                                                        \
    F(exp)                                                                                        \
    F(exp2) F(expm1) F(log) F(log1p) F(log2) F(log10) F(sqrt) F(rsqrt) F(square) F(reciprocal)    \
        F(sin) F(cos) F(tan) F(sinh) F(cosh) F(tanh) F(asin) F(acos) F(atan) F(sigmoid) F(erf)    \
            F(erfc) F(relu) F(relu6) F(selu) F(silu) F(mish) F(hardswish) F(hardsigmoid) F(floor) \
                F(ceil) F(round) F(trunc) F(frac) F(sign) F(logical_not)
#define RG_INPLACE_TWO(F)                                                                     \
    F(add)                                                                                    \
    F(sub)                                                                                    \
    F(mul)                                                                                    \
    F(div) F(floor_divide) F(remainder) F(fmod) F(pow) F(atan2) F(eq) F(ne) F(lt) F(le) F(gt) \
        F(ge) F(logical_and) F(logical_or) F(logical_xor) F(clamp_min) F(clamp_max)
RG_INPLACE_ONE(RG_INPLACE_1)
RG_INPLACE_TWO(RG_INPLACE_2)
rg_tensor *rg_add_alpha_(rg_tensor *x, rg_tensor *b, rg_tensor *alpha);
rg_tensor *rg_clamp_(rg_tensor *x, rg_tensor *min, rg_tensor *max);
rg_tensor *rg_lerp_(rg_tensor *x, rg_tensor *b, rg_tensor *weight);
rg_tensor *rg_addcmul_(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value);
rg_tensor *rg_addcdiv_(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value);
rg_tensor *rg_masked_fill_(rg_tensor *x, rg_tensor *mask, rg_tensor *value);
rg_tensor *rg_scatter_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_scatter_add_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_index_add_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source, double alpha);

/* ---- arguments from left to right ---------------------------------------------------
 * C leaves the order open; rg_matmul(rg_rand(6, 3), rg_randn(3, 2)) draws as Python would. */
#define RG_IN_ORDER_2(f, n, a, b, ...)    RG_IN_ORDER_2_(f, n, a, b, ##__VA_ARGS__)
#define RG_IN_ORDER_3(f, n, a, b, c, ...) RG_IN_ORDER_3_(f, n, a, b, c, ##__VA_ARGS__)
#define RG_IN_ORDER_2_(f, n, a, b, ...)           \
    __extension__({                               \
        rg_tensor *rg_a##n = (a), *rg_b##n = (b); \
        f(rg_a##n, rg_b##n, ##__VA_ARGS__);       \
    })
#define RG_IN_ORDER_3_(f, n, a, b, c, ...)                        \
    __extension__({                                               \
        rg_tensor *rg_a##n = (a), *rg_b##n = (b), *rg_c##n = (c); \
        f(rg_a##n, rg_b##n, rg_c##n, ##__VA_ARGS__);              \
    })
#define rg_matmul(a, b)    RG_IN_ORDER_2(rg_matmul, __COUNTER__, a, b)
#define rg_mm(a, b)        RG_IN_ORDER_2(rg_mm, __COUNTER__, a, b)
#define rg_mv(a, b)        RG_IN_ORDER_2(rg_mv, __COUNTER__, a, b)
#define rg_bmm(a, b)       RG_IN_ORDER_2(rg_bmm, __COUNTER__, a, b)
#define rg_dot(a, b)       RG_IN_ORDER_2(rg_dot, __COUNTER__, a, b)
#define rg_outer(a, b)     RG_IN_ORDER_2(rg_outer, __COUNTER__, a, b)
#define rg_inner(a, b)     RG_IN_ORDER_2(rg_inner, __COUNTER__, a, b)
#define rg_linear(x, w, b) RG_IN_ORDER_3(rg_linear, __COUNTER__, x, w, b)

/* ---- numbers where a tensor is expected ------------------------------------------ */
#define rg_add(a, b)                          RG_T2(rg_add, a, b)
#define rg_sub(a, b)                          RG_T2(rg_sub, a, b)
#define rg_mul(a, b)                          RG_T2(rg_mul, a, b)
#define rg_div(a, b)                          RG_T2(rg_div, a, b)
#define rg_add_alpha(a, b, c)                 RG_T3(rg_add_alpha, a, b, c)
#define rg_sub_alpha(a, b, c)                 RG_T3(rg_sub_alpha, a, b, c)
#define rg_div_floor(a, b)                    RG_T2(rg_div_floor, a, b)
#define rg_div_trunc(a, b)                    RG_T2(rg_div_trunc, a, b)
#define rg_floor_divide(a, b)                 RG_T2(rg_floor_divide, a, b)
#define rg_remainder(a, b)                    RG_T2(rg_remainder, a, b)
#define rg_fmod(a, b)                         RG_T2(rg_fmod, a, b)
#define rg_pow(a, b)                          RG_T2(rg_pow, a, b)
#define rg_atan2(a, b)                        RG_T2(rg_atan2, a, b)
#define rg_maximum(a, b)                      RG_T2(rg_maximum, a, b)
#define rg_minimum(a, b)                      RG_T2(rg_minimum, a, b)
#define rg_fmax(a, b)                         RG_T2(rg_fmax, a, b)
#define rg_fmin(a, b)                         RG_T2(rg_fmin, a, b)
#define rg_eq(a, b)                           RG_T2(rg_eq, a, b)
#define rg_ne(a, b)                           RG_T2(rg_ne, a, b)
#define rg_lt(a, b)                           RG_T2(rg_lt, a, b)
#define rg_le(a, b)                           RG_T2(rg_le, a, b)
#define rg_gt(a, b)                           RG_T2(rg_gt, a, b)
#define rg_ge(a, b)                           RG_T2(rg_ge, a, b)
#define rg_logical_and(a, b)                  RG_T2(rg_logical_and, a, b)
#define rg_logical_or(a, b)                   RG_T2(rg_logical_or, a, b)
#define rg_logical_xor(a, b)                  RG_T2(rg_logical_xor, a, b)
#define rg_where(c, a, b)                     RG_T3(rg_where, c, a, b)
#define rg_masked_fill(x, m, v)               RG_T3(rg_masked_fill, x, m, v)
#define rg_clamp(x, a, b)                     RG_T3(rg_clamp, x, a, b)
#define rg_clamp_min(x, a)                    RG_T2(rg_clamp_min, x, a)
#define rg_clamp_max(x, a)                    RG_T2(rg_clamp_max, x, a)
#define rg_lerp(a, b, w)                      RG_T3(rg_lerp, a, b, w)
#define rg_scatter(x, dim, index, source)     (rg_scatter)(x, dim, index, RG_WRAP(source))
#define rg_searchsorted(sorted, value, right) (rg_searchsorted)(sorted, RG_WRAP(value), right)
#define rg_bucketize(value, bounds, right)    (rg_bucketize)(RG_WRAP(value), bounds, right)
#define rg_copy_(x, s)                        RG_T2(rg_copy_, x, s)
#define rg_fill_(x, v)                        RG_T2(rg_fill_, x, v)
#define rg_add_(x, b)                         RG_T2(rg_add_, x, b)
#define rg_sub_(x, b)                         RG_T2(rg_sub_, x, b)
#define rg_mul_(x, b)                         RG_T2(rg_mul_, x, b)
#define rg_div_(x, b)                         RG_T2(rg_div_, x, b)
#define rg_floor_divide_(x, b)                RG_T2(rg_floor_divide_, x, b)
#define rg_remainder_(x, b)                   RG_T2(rg_remainder_, x, b)
#define rg_fmod_(x, b)                        RG_T2(rg_fmod_, x, b)
#define rg_pow_(x, b)                         RG_T2(rg_pow_, x, b)
#define rg_atan2_(x, b)                       RG_T2(rg_atan2_, x, b)
#define rg_eq_(x, b)                          RG_T2(rg_eq_, x, b)
#define rg_ne_(x, b)                          RG_T2(rg_ne_, x, b)
#define rg_lt_(x, b)                          RG_T2(rg_lt_, x, b)
#define rg_le_(x, b)                          RG_T2(rg_le_, x, b)
#define rg_gt_(x, b)                          RG_T2(rg_gt_, x, b)
#define rg_ge_(x, b)                          RG_T2(rg_ge_, x, b)
#define rg_clamp_min_(x, b)                   RG_T2(rg_clamp_min_, x, b)
#define rg_clamp_max_(x, b)                   RG_T2(rg_clamp_max_, x, b)
#define rg_add_alpha_(x, b, c)                RG_T3(rg_add_alpha_, x, b, c)
#define rg_clamp_(x, a, b)                    RG_T3(rg_clamp_, x, a, b)
#define rg_lerp_(x, b, w)                     RG_T3(rg_lerp_, x, b, w)
#define rg_masked_fill_(x, m, v)              RG_T3(rg_masked_fill_, x, m, v)
#define rg_scatter_(x, dim, index, source)    (rg_scatter_)(x, dim, index, RG_WRAP(source))

/* ---- rg_index(x, items...), rg_set_item_(x, value, items...) ------------------------
 * Each argument is evaluated once, in order, and becomes an rg_item_index. */
#define RG_SLICE(...)                    RG_SLICE_(__VA_ARGS__, 1, 0)
#define RG_SLICE_(start, end, step, ...) rg_index_slice(start, end, step)
#ifdef __cplusplus
#define RG_ITEM_(v) rg_index_item(v)
#else
#define RG_ITEM_(v) \
    _Generic((v), rg_tensor *: rg_index_tensor, void *: rg_index_tensor, rg_item_index: rg_index_item,     \
    const char *: rg_index_text, char *: rg_index_text, _Bool: rg_index_bool, int: rg_index_number, unsigned: rg_index_number, \
    long: rg_index_number, unsigned long: rg_index_number, long long: rg_index_number,                                       \
    unsigned long long: rg_index_number, short: rg_index_number, unsigned short: rg_index_number,                            \
    signed char: rg_index_number, unsigned char: rg_index_number)(v)
#endif
#define RG_ITEM_COUNT(...) \
    RG_ITEM_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define RG_ITEM_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define RG_ITEM(n, item)                        \
    {                                           \
        RG_AUTO rg_v##n = (item);               \
        rg_i##n[rg_c##n++] = RG_ITEM_(rg_v##n); \
    }
#define RG_ITEMS_OF(n, item, ...) \
    RG_ITEM(n, item) __VA_OPT__(RG_ITEMS_NEXT RG_NOTHING()(n, __VA_ARGS__))
#define RG_ITEMS_NEXT() RG_ITEMS_OF
#define RG_NOTHING
#define RG_16_TIMES(...) RG_4_TIMES(RG_4_TIMES(RG_4_TIMES(RG_4_TIMES(__VA_ARGS__))))
#define RG_4_TIMES(...)  RG_ONCE(RG_ONCE(RG_ONCE(RG_ONCE(__VA_ARGS__))))
#define RG_ONCE(...)     __VA_ARGS__
#define RG_ITEMS_(n, count, ...)  \
    rg_item_index rg_i##n[count]; \
    int rg_c##n = 0;              \
    RG_16_TIMES(RG_ITEMS_OF(n, __VA_ARGS__))

#define rg_index(x, ...)     RG_INDEX_(__COUNTER__, x, __VA_ARGS__)
#define RG_INDEX_(n, x, ...) RG_INDEX__(n, x, RG_ITEM_COUNT(__VA_ARGS__), __VA_ARGS__)
#define RG_INDEX__(n, x, count, ...)               \
    __extension__({                                \
        RG_AUTO rg_x##n = (x);                     \
        RG_ITEMS_(n, count, __VA_ARGS__)           \
        rg_index_items(rg_x##n, rg_c##n, rg_i##n); \
    })
#define rg_set_item_(x, value, ...) RG_SET_ITEM_(__COUNTER__, x, value, __VA_ARGS__)
#define RG_SET_ITEM_(n, x, value, ...) \
    RG_SET_ITEM__(n, x, value, RG_ITEM_COUNT(__VA_ARGS__), __VA_ARGS__)
#define RG_SET_ITEM__(n, x, value, count, ...)                      \
    __extension__({                                                 \
        RG_AUTO rg_x##n = (x);                                      \
        RG_AUTO rg_a##n = (value);                                  \
        RG_ITEMS_(n, count, __VA_ARGS__)                            \
        rg_set_items_(rg_x##n, RG_WRAP(rg_a##n), rg_c##n, rg_i##n); \
    })

RG_PUBLIC_END

#ifdef __cplusplus
static inline rg_list rg_list_of(std::initializer_list<rg_tensor *> l) {
    return rg_list{ (int)l.size(), l.begin() };
}
#define RG_LIST(...) rg_list_of({ __VA_ARGS__ })

static inline rg_item_index rg_index_item(rg_tensor *t) { return rg_index_tensor(t); }
static inline rg_item_index rg_index_item(decltype(nullptr)) { return rg_index_tensor(nullptr); }
static inline rg_item_index rg_index_item(const char *text) { return rg_index_text(text); }
static inline rg_item_index rg_index_item(bool b) { return rg_index_bool(b); }
static inline rg_item_index rg_index_item(int i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(unsigned i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(long i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(unsigned long i) { return rg_index_number((int64_t)i); }
static inline rg_item_index rg_index_item(long long i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(unsigned long long i) {
    return rg_index_number((int64_t)i);
}
#endif

/*
 * kernels.h: all kernels, in a section for each file. The caller passes tensors of valid shapes,
 * and an output with memory. A kernel that returns bool can fail: for lack of memory, or because it
 * has no loop for the dtype.
 */
#pragma once

#include "copy.h"
#include "sets.h"
#include "tensor/threads/parallel.h"

/* ---- elementwise kernels ------------------------------------------------------------------------
 * A kernel computes y from in[0] .. in[n - 1], with a loop for the dtype of the last operand. A
 * kernel is light if memory bandwidth limits it for many elements. */
typedef struct rg_kernel {
    const char *name;
    int n;
    bool light;
    rg_loop *by_dtype[K_DTYPES][K_SETS];
} rg_kernel;

/* K_KERNEL and K_LIGHT_KERNEL define the kernel k_op from the loops named op_loop. TYPES is FLOATS,
 * NUMBERS, ALL or SIZES. */
#define K_KERNEL(op, n, TYPES)       K_KERNEL_OF(op, n, false, TYPES)
#define K_LIGHT_KERNEL(op, n, TYPES) K_KERNEL_OF(op, n, true, TYPES)
#define K_KERNEL_OF(op, n, light, TYPES) \
    const rg_kernel k_##op = { #op, n, light, K_TABLE_##TYPES(op##_loop) };

/* Defines the kernel of a row in elementwise.def, by the row's weight and dtypes. */
#define K_KERNEL_OF_ROW(op, n, weight, dtypes) \
    K_KERNEL_OF_ROW_(op, n, K_##weight, K_LOOPS_FOR_##dtypes)
#define K_KERNEL_OF_ROW_(op, n, light, TYPES) K_KERNEL_OF(op, n, light, TYPES)
enum { K_HEAVY = false, K_LIGHT = true };
#define K_LOOPS_FOR_FLOATED       FLOATS
#define K_LOOPS_FOR_FLOATS        FLOATS
#define K_LOOPS_FOR_NUMBERS       NUMBERS
#define K_LOOPS_FOR_NUMBERS_IF(f) NUMBERS
#define K_LOOPS_FOR_ALL           ALL

/* Declares the kernels of elementwise.def's rows. The kernels below have no row. */
#define UNARY(name, ...)            extern const rg_kernel k_##name;
#define ACTIVATION(name, ...)       extern const rg_kernel k_##name, k_##name##_grad;
#define ACTIVATION_ALONE(name, ...) ACTIVATION(name)
#define BINARY(name, ...)           UNARY(name)
#define BINARY_ALONE(name, ...)     UNARY(name)
#define PREDICATE(name, ...)        UNARY(name)
#define COMPARISON(name, ...)       UNARY(name)
#include "elementwise.def"

/* Runs a kernel, with up to three numbers or NULL. Returns false, with torch's error, if the kernel
 * has no loop for the dtype. */
bool k_run_with(const rg_kernel *k, rg_tensor *y, rg_tensor *const in[], const double *numbers);
#define k_run(kernel, y, ...) k_run_with(&(kernel), y, (rg_tensor *[]){ __VA_ARGS__ }, NULL)

/* Returns the loop of copy.c that converts p[1] to p[0]. */
rg_loop *rgi_copy_loop(rg_dtype to, rg_dtype from);

/* ---- run.c ---- */

/* Runs a loop on t[0] .. t[n - 1], in any order of elements: large tensors are split among the
 * threads, and a light loop's output may bypass the caches. */
void k_run_apart(bool light, int n, rg_tensor *const t[], rg_loop *loop, const void *context);

/* Runs a loop that isn't light. */
void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
enum { RG_LARGE = 1 << 16 };

/* Iterates over the lines of t[0] .. t[n - 1] along dim. The loop gets the first elements of lines,
 * or the last ones if reverse, and the distances between lines. step[k] is set to the distance in
 * bytes between elements of a line of t[k]. */
void k_lines(int n, rg_tensor *const t[], int dim, bool reverse, int64_t step[], rg_loop *loop,
             const void *context);

/* Calls `work` for ranges of rows, begin to end - 1, on several threads if there is enough work.
 * Rows have n elements. */
void k_rows(int64_t rows, int64_t n, rg_work *work, void *context);

/* Returns whether writes of y should bypass the caches. y must be contiguous, have at least
 * K_STREAM_LEAST bytes, half of a usual last-level cache, and each stretch of `row` elements must
 * start at a cache line of 64 bytes. A row of 0 means that y is one stretch. */
enum { K_STREAM_LEAST = 16 << 20 };
static inline bool k_should_stream(const rg_tensor *y, int64_t row) {
    int64_t bytes = (int64_t)rgi_sizeof(y->dtype);
    return RG_UNLIKELY(y->numel >= K_STREAM_LEAST / bytes) && y->flags & RG_CONTIGUOUS
           && ((uintptr_t)y->data | (uintptr_t)(row * bytes)) % 64 == 0;
}
/* The context of the stream loop, which runs another loop of n operands, and writes its results
 * past the caches. */
typedef struct k_stream {
    int n;
    rg_loop *loop;
    const void *context;
} k_stream;
/* Ends a thread's writes past the caches, so that other threads can read them. */
static inline void k_stream_end(void) {
#ifdef K_X86
    __builtin_ia32_sfence();
#endif
}

/* ---- turn.c: operands that lie transposed in memory ---------------------------------------------
 * An operand of a walk is turned if its fastest dim isn't the other operands' fastest. If there are
 * such operands, k_turn_operands returns true and changes the walk, which must then be run with
 * k_turned_loop and the k_turning as its context. Otherwise it returns false and changes nothing.
 */
enum { K_TURN_SIDE = 64 };
typedef struct k_turning {
    const rg_walk *walk;
    rg_loop *loop;
    const void *context;
    bool turned[RG_MAX_OPERANDS];
} k_turning;
bool k_turn_operands(k_turning *turning, rg_walk *w, rg_loop *loop, const void *context);
void k_turned_loop(char *const p[], const int64_t outer[], int64_t n, const void *context);

/* ---- unary.c, special.c: one operand; round_up and round_down take a number ------------------ */
extern const rg_kernel k_square, k_cube, k_reciprocal_square, k_round_up, k_round_down;
/* Three numbers replace NaN, infinity and -infinity. */
extern const rg_kernel k_nan_to_num;

/* ---- activations.c: gradients take g and x, or g and y, as in elementwise.def ---------------- */
extern const rg_kernel k_logsigmoid, k_logsigmoid_grad;
/* Activations with numbers. */
extern const rg_kernel k_hardtanh, k_leaky_relu, k_elu, k_softplus, k_threshold, k_hardshrink;
extern const rg_kernel k_softshrink;
extern const rg_kernel k_hardtanh_grad, k_leaky_relu_grad, k_elu_grad, k_softplus_grad;
extern const rg_kernel k_threshold_grad, k_shrink_grad;
/* prelu takes x and a slope, and glu takes x and its gate. Their gradients take g first; k_glu_grad
 * is the gradient of the gate. */
extern const rg_kernel k_prelu, k_prelu_grad, k_glu, k_glu_grad;

/* ---- binary.c, special.c ---- */
extern const rg_kernel k_sub, k_div_floor, k_div_trunc, k_remainder, k_fmod, k_pow, k_xlogy;
/* y = a + alpha b, where alpha is the first number. For integers, that number's eight bytes hold an
 * int64_t. */
extern const rg_kernel k_add_alpha;
/* Returns whether an element of an int64 tensor is 0. */
bool k_has_zero(const rg_tensor *integers);

/* ---- ternary.c: where takes a bool, and addcmul and addcdiv take a number ---- */
extern const rg_kernel k_where, k_clamp, k_lerp, k_addcmul, k_addcdiv;

/* ---- reductions: reduce.c, and a file for each family ------------------------------------------
 * Reduces the dims in a mask; y has x's shape without these dims, or with size 1 for them.
 * Reductions return false if there is no memory, or no loop for the dtype. */

/* A kind of reduction. Each is defined in the file of its family, so that a program links only the
 * kinds that it uses. */
typedef struct k_reduction k_reduction;
/* ---- sums.c: k_wide_sums adds up floats in float64, and for k_nansums NaN counts as 0. ---- */
extern const k_reduction k_sums, k_wide_sums, k_nansums;
/* ---- counts.c: the number of elements that are not 0 ---- */
extern const k_reduction k_counts;
/* ---- products.c ---- */
extern const k_reduction k_products;
/* ---- extremes.c ---- */
extern const k_reduction k_greatest, k_least;
/* ---- norms.c: norms are for floats alone; k_norms_2 is sum(x^2), without the root. ---- */
extern const k_reduction k_norms_0, k_norms_1, k_norms_2, k_norms_max, k_norms_min;

bool k_reduce(const k_reduction *kind, rg_tensor *y, const rg_tensor *x, uint32_t dims);
static inline bool k_sum(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    return k_reduce(&k_sums, y, x, dims);
}
/* Returns the number of elements of x that aren't 0. */
int64_t k_count(const rg_tensor *x);
bool k_mean(rg_tensor *y, const rg_tensor *x, uint32_t dims);
/* y = any element isn't 0, or, if `all`, no element is 0 */
bool k_any(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool all);
/* y = sum((x - mean)^2) / max(0, n - correction), or its root. */
bool k_var(rg_tensor *y, const rg_tensor *x, uint32_t dims, double correction, bool root);
/* y = sum(|x|^p)^(1/p) */
bool k_norm(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p);
/* y = ln sum(e^x) */
bool k_logsumexp(rg_tensor *y, const rg_tensor *x, uint32_t dims);
/* Finds the maximum (or minimum) along dim, and its index: the first of equal ones, or the first
 * NaN. */
bool k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest);

/* ---- cumulate.c ----
 * k_cumulate runs along dim, from its end if reverse: y_k = x_0 + .. + x_k, y_k = x_0 .. x_k, y_k =
 * z_k + x_k y_(k-1), or for floats y_k = ln(e^x_0 + .. + e^x_k). It returns whether there is a loop
 * for x's dtype. */
typedef enum k_running { K_CUMSUM, K_CUMPROD, K_RECUR, K_LOGCUMSUMEXP } k_running;
bool k_cumulate(rg_tensor *y, const rg_tensor *x, const rg_tensor *z, int dim, bool reverse,
                k_running what);

/* softmax.c: softmax along one dim of contiguous tensors. A row of only -infinity becomes NaN, or 0
 * in the safe softmax. Both functions return whether there is a loop for the dtype. */
typedef enum { K_SOFTMAX_PLAIN, K_LOG_SOFTMAX, K_SAFE_SOFTMAX } k_softmax_kind;
bool k_softmax(rg_tensor *y, const rg_tensor *x, int dim, k_softmax_kind kind);
bool k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim,
                        k_softmax_kind kind);

/* normalize.c: layer, group and rms norm of contiguous tensors. Weight, bias, and each gradient may
 * be NULL. The gradients of weight and bias are added to gweight and gbias. Backward splits the
 * rows into k_norm_parts parts, each with sums of its own, and then adds all sums to the first
 * part's. gweight and gbias alternate in one block of memory: with W weights, the next part's sums
 * are 2 W numbers further on. Both functions return whether there is a loop for the dtype. */
typedef struct k_norm_rows {
    int64_t rows, n; /* x consists of rows of n elements. */
    /* Row r belongs to group r % groups, and each weight of the group applies to `per` elements. */
    int64_t groups, per;
    double eps;
    bool centred; /* Whether the mean is subtracted. */
} k_norm_rows;
bool k_normalize(const k_norm_rows *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *weight,
                 const rg_tensor *bias);
int64_t k_norm_parts(const k_norm_rows *z);
bool k_normalize_backward(const k_norm_rows *z, rg_tensor *gx, double *gweight, double *gbias,
                          const rg_tensor *g, const rg_tensor *x, const rg_tensor *weight);

/* batch_norm.c: batch norm of contiguous tensors (batch, channels, per). In training, the first
 * function computes the batch's mean and var; otherwise it reads them. Weight, bias, and each
 * gradient may be NULL. Both return whether there is a loop for the dtype. */
typedef struct k_batch_norm {
    int64_t batch, channels, per;
    double eps;
    bool training;
} k_batch_norm;
bool k_batch_normalize(const k_batch_norm *z, rg_tensor *y, rg_tensor *mean, rg_tensor *var,
                       const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias);
bool k_batch_normalize_backward(const k_batch_norm *z, rg_tensor *gx, rg_tensor *gweight,
                                rg_tensor *gbias, const rg_tensor *g, const rg_tensor *x,
                                const rg_tensor *weight, const rg_tensor *mean,
                                const rg_tensor *var);

/* loss.c: k_loss computes y = weight loss(x, t), where `by` is the pos_weight of K_BCE_LOGITS, or,
 * if `slope` is true, y = scale by weight dloss/dx, where `by` is the incoming gradient. c is beta
 * of K_SMOOTH_L1, delta of K_HUBER, or the smallest denominator of K_BCE. The operands broadcast;
 * weight and `by` may be NULL. Returns whether there is a loop for the dtype. */
typedef enum { K_MSE, K_SMOOTH_L1, K_HUBER, K_BCE, K_BCE_LOGITS } k_loss_kind;
bool k_loss(k_loss_kind kind, bool slope, rg_tensor *y, rg_tensor *x, rg_tensor *t,
            const rg_tensor *weight, const rg_tensor *by, double c, double scale);
/* distance.c: y = sum(|a_i - b_j|^p)^(1/p) between rows a_i and b_j of contiguous batches of
 * matrices; for p = 0 the number of different elements, for p = infinity the largest difference;
 * and the gradient of a, given y's gradient g. If turned, g and y have one row for each row of b.
 * Both return whether there is a loop for the dtype. */
bool k_distance(rg_tensor *y, const rg_tensor *a, const rg_tensor *b, double p);
bool k_distance_backward(rg_tensor *ga, const rg_tensor *g, const rg_tensor *a, const rg_tensor *b,
                         const rg_tensor *y, double p, bool turned);

/* nll.c: losses of classes, for contiguous x (batch, classes, inner) and target (batch, inner). A
 * target equal to `ignore` has no loss. The weight of classes may be NULL. k_nll_total returns the
 * sum of the targets' weights; the other functions return whether there is a loop for the dtype. */
typedef struct k_nll_targets {
    rg_tensor *target, *weight;
    int64_t classes, inner, ignore;
} k_nll_targets;
double k_nll_total(const k_nll_targets *z);
bool k_nll(const k_nll_targets *z, rg_tensor *y, rg_tensor *x);
bool k_nll_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *g, double scale);
/* Cross entropy: nll of log_softmax of x (batch, classes), without storing the latter. Backward
 * uses lse, the logarithm of each row's sum of exponentials, in double, so that x - lse is accurate
 * for large x. g_lse, lse's gradient, may be NULL. */
bool k_cross_entropy(const k_nll_targets *z, rg_tensor *y, rg_tensor *lse, rg_tensor *x);
bool k_cross_entropy_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *lse, rg_tensor *x,
                              rg_tensor *g, rg_tensor *g_lse, double scale);

/* ---- matmul.c ----
 * Products of the last two dims, over batches, with any strides. */
/* Returns t transposed: its last two dims exchanged. */
rg_tensor k_turned(const rg_tensor *t);
/* y = alpha a b + beta c. turn_a and turn_b transpose a and b. c broadcasts, and NULL stands for y.
 * Returns false if there is no memory, or no product for the dtype. */
bool k_matmul_with(rg_tensor *y, const rg_tensor *c, const rg_tensor *a, bool turn_a,
                   const rg_tensor *b, bool turn_b, double alpha, double beta);
#define k_matmul(y, a, b) k_matmul_with(y, NULL, a, false, b, false, 1, 0)
/* y = a b, where a and b hold bfloat16 numbers as float32. Their products are exact, so that
 * bfloat16's instruction, if there is one, only rounds the sums. */
bool k_matmul_of_bfloat16(rg_tensor *y, const rg_tensor *a, const rg_tensor *b, bool turn_b);

/* One product's sizes: m rows, n columns and k steps; and the distances, in elements, between rows
 * and columns of y, a and b, and between rows of c, whose columns are spaced like y's. */
typedef struct {
    int64_t m, n, k, y_row, y_col, a_row, a_col, b_row, b_col, c_row;
} k_product_sizes;
/* y = a b, or y += a b, of floats, without packing. Requires that y_col and b_col are 1, and that n
 * is a multiple of a vector's lanes. */
typedef void k_product(const k_product_sizes *z, void *y, const void *a, const void *b, bool add);
/* Writes n rows of k floats as columns, multiplied by scale. */
typedef void k_turn(void *to, int64_t to_row, const void *from, int64_t row, int64_t col, int64_t n,
                    int64_t k, double scale);
/* Return the functions for a dtype; fail and return NULL if there is none. */
k_product *k_direct_product(rg_dtype dtype);
k_turn *k_direct_turn(rg_dtype dtype);

/* ---- conv.c and pool.c: windows that slide over the last two dims of contiguous tensors --------
 * A window has kernel[d] taps along dim d, `dilation` apart, and moves by `stride`. `padding`
 * positions are added at each end. x has size[d] elements along d, and y to[d]. If there is one
 * dim, the first of the two has size 1 and one tap. */
typedef struct k_window {
    int64_t size[2], to[2], kernel[2], stride[2], padding[2], dilation[2];
} k_window;

/* x is (batch, groups * in, size), w (groups * out, in, kernel), and y (batch, groups * out, to):
 * each channel of y is a sum over the channels of x in its group. */
typedef struct k_conv {
    int64_t batch, groups, in, out;
    k_window window;
} k_conv;
/* Compute y, the gradient of x, and the gradient of w. The bias may be NULL. Each returns false if
 * there is no memory, or no loop for the dtype. */
bool k_convolve(const k_conv *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *w,
                const rg_tensor *bias);
bool k_convolve_input(const k_conv *z, rg_tensor *gx, const rg_tensor *g, const rg_tensor *w);
bool k_convolve_weight(const k_conv *z, rg_tensor *gw, const rg_tensor *x, const rg_tensor *g);

/* x and y consist of planes. Windows have the sizes above or, if adaptive, divide x evenly into y's
 * number of elements. A mean's divisor is `divisor` or, if that is 0, the number of elements in the
 * window, including padding if that counts. */
typedef struct k_pool {
    int64_t planes;
    k_window window;
    bool adaptive, count_padding;
    int64_t divisor;
} k_pool;
/* Compute the maxima with their indices in the plane, the means, and the gradients. Each returns
 * whether there is a loop for the dtype. */
bool k_max_pool(const k_pool *p, rg_tensor *y, rg_tensor *indices, const rg_tensor *x);
bool k_max_pool_backward(const k_pool *p, rg_tensor *gx, const rg_tensor *indices,
                         const rg_tensor *g);
bool k_mean_pool(const k_pool *p, rg_tensor *y, const rg_tensor *x);
bool k_mean_pool_backward(const k_pool *p, rg_tensor *gx, const rg_tensor *g);

/* ---- recurrent.c: one layer of a recurrent network, in one direction, of contiguous tensors ----
 * `steps` steps of `batch` rows with `hidden` elements. h_0 has `from` elements, which equals
 * `hidden` if there is more than one step. The gates are z = h weight^T + bias plus x's part: an
 * LSTM has four, i, f, g and o, a GRU three, r, u and t, and an RNN one. */
typedef enum { K_LSTM, K_GRU, K_RNN_TANH, K_RNN_RELU } k_recurrent_kind;
typedef struct k_recurrent {
    k_recurrent_kind kind;
    int64_t steps, batch, hidden, from;
    bool reverse; /* Whether the steps run from the last to the first. */
} k_recurrent;
/* h_0 (batch, from) and c_0 (batch, hidden), y and c (steps, batch, hidden), and the gates after
 * their functions (steps, batch, 4 hidden); a GRU's are r, u, t and the last part of z. c and c_0
 * are an LSTM's; an RNN has no gates. */
typedef struct k_recurrent_values {
    rg_tensor *y, *c, *gates, *h_0, *c_0;
} k_recurrent_values;
/* `hidden` is z's gradient, which equals gates_in's except in a GRU. c may be NULL. */
typedef struct k_recurrent_gradients {
    rg_tensor *y, *c;
    rg_tensor *gates_in, *hidden, *h_0, *c_0;
} k_recurrent_gradients;
/* k_recur computes y, c and the gates; its bias may be NULL. k_recur_backward computes the
 * gradients of gates_in, z, h_0 and c_0 from the gradients of y and c. Both return false if there
 * is no memory, or no loop for the dtype. */
bool k_recur(const k_recurrent *z, const k_recurrent_values *v, const rg_tensor *gates_in,
             const rg_tensor *weight, const rg_tensor *bias);
bool k_recur_backward(const k_recurrent *z, const k_recurrent_values *v,
                      const k_recurrent_gradients *g, const rg_tensor *weight);
/* Packs a matrix in panels (loops/recurrent.h). */
typedef void k_recurrent_pack(void *to, const void *from, int64_t rows, int64_t columns,
                              bool turned);

/* ---- bfloat16.c ----
 * Products of float32 by way of bfloat16. */
/* Returns whether the processor has the instruction, and the selected set uses it. */
bool k_has_bfloat16(void);
/* Returns the size of the scratch memory for tiles of `columns` columns, or 0 if the product is
 * computed in float32: it is, unless the program has set the precision to bfloat16's, or the
 * factors are bfloat16. */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns, bool of_bfloat16);
/* y = alpha a b + beta c */
void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                        const void *b, double alpha, double beta, void *room);

/* ---- attention.c ---- */
typedef struct k_attention {
    double scale;
    bool causal;
} k_attention;
/* y = softmax(scale q k^T + mask) v, where in[] is q, k and v of (batch, heads, n, size). lse
 * becomes the logarithm of each query's sum of exponentials, or 0 where these are all zeros. If g
 * is given, the gradients gin[] are computed from y, lse, g and g_lse instead. mask, which has q's
 * dtype, each of gin[] and g_lse may be NULL. lse and g_lse must be contiguous. Returns false where
 * there is no memory, or no loop for the dtype. */
bool k_attend(const k_attention *a, rg_tensor *y, rg_tensor *lse, const rg_tensor *g,
              const rg_tensor *g_lse, rg_tensor *const gin[], rg_tensor *const in[],
              const rg_tensor *mask);

/* ---- random.c: words of mt19937, and conversions of uniforms in [0, 1), in place ------------- */
enum { K_RANDOM_WORDS = 624 };
/* Replaces a block of words with the next block. */
void k_random_twist(uint32_t *words);
/* Computes n random words from n words of a block. */
void k_random_temper(const uint32_t *from, uint32_t *to, int n);
/* Computes n uniforms from n random words. */
void k_random_floats(const uint32_t *words, float *to, int n);
/* y = y scale + shift, rounded once */
void k_random_scale(rg_dtype dtype, void *y, int n, double scale, double shift);
/* y = y (high - low) + low, rounded once. A result that rounding made `high` becomes `low`. */
void k_random_stretch(rg_dtype dtype, void *y, int n, double low, double high);
/* Turns uniforms into normals. Requires that n is a multiple of sixteen. */
void k_random_normals(rg_dtype dtype, void *y, int n);
/* A normal distribution, truncated to [low, high]. If `normal`, candidates are normals, which are
 * accepted if they are in the interval. Otherwise candidates are uniforms in the interval, and are
 * accepted with a probability of the density there, divided by the greatest density in the
 * interval, whose logarithm is log_peak. */
typedef struct k_truncation {
    bool normal;
    double mean, std, low, high, log_peak;
} k_truncation;
/* Writes candidates to the elements that are pending. Returns whether any element is still pending,
 * since its candidate wasn't accepted. */
bool k_random_truncate(const k_truncation *r, rg_tensor *accepted, const rg_tensor *candidates,
                       const rg_tensor *uniforms, rg_tensor *pending);

/* ---- index.c: elements and slices at indices ----------------------------------------------------
 * Indices are int64 and in range. If an index is repeated, its elements are combined in order. The
 * first two functions return whether there is a loop for the dtype. */
/* The actions: row = t[index], t[index] = row, t[index] += row, t[index] *= row, and t[index] = the
 * greater, or the lesser, of both. */
typedef enum { K_GET, K_PUT, K_ADD, K_MULTIPLY, K_GREATER, K_LESSER } k_index_how;
/* Each index selects one element along dim, as in gather and scatter. */
bool k_index_along(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                   const rg_tensor *index);
/* Each index selects a slice of t. In `row`, the index's dims replace dim. */
bool k_index_slices(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                    const rg_tensor *index);
/* Returns whether all indices are in [low, high). If not, sets *bad to the first one that isn't. */
bool k_index_within(const rg_tensor *index, int64_t low, int64_t high, int64_t *bad);
/* Sets the elements above (or below) a diagonal to 0, in the matrices of the last two dims of a
 * contiguous tensor. */
void k_clear_triangle(rg_tensor *y, int64_t diagonal, bool above);
/* y.narrow(dim, start, ..) = x */
void k_copy_into(rg_tensor *y, const rg_tensor *x, int dim, int64_t start);

/* ---- order (sort.c, select.c, top.c, unique.c, search.c) ------------------------------------ */

/* A ranked item: the index of an element, and a key that orders as the elements do, or inversely
 * for a descending order. */
typedef struct k_ranked {
    int64_t key, index;
} k_ranked;

/* Returns the key of a float. NaN has the greatest key, and -0 has that of 0. (The bits are
 * inverted without a branch, which random signs would make slow.) */
static inline int64_t k_rank(double v, bool descending) {
    union {
        double d;
        int64_t i;
    } bits = { .d = v + 0 };
    int64_t key = v != v ? INT64_MAX : bits.i ^ (bits.i >> 63 & INT64_MAX);
    return key ^ -(int64_t)descending;
}

/* Computes the ranked items of n elements, which lie `step` bytes apart. */
typedef void k_ranks(k_ranked *q, const char *x, int64_t step, int64_t n, bool descending);
/* Returns the function for a dtype. If there is none, fails and returns NULL. */
k_ranks *k_ranks_of(rg_dtype dtype);

/* Sorts n items stably by their keys. `aside` has room for n items. Returns the sorted items: q or
 * aside. */
k_ranked *k_sort_ranked(k_ranked *q, k_ranked *aside, int64_t n);
/* Moves the k items with the smallest keys to the front, in order if `sorted`. Among equal keys,
 * those that torch.topk returns come first. */
void k_top(k_ranked *q, int64_t n, int64_t k, bool sorted);

/* k_sort sorts the lines along dim, and k_topk takes the first k elements of each order; values and
 * indices then have size k along dim. Both return false if there is no memory. */
bool k_sort(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool descending);
bool k_topk(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool largest,
            bool sorted);

/* k_kth finds the k-th smallest element of each line along dim, counted from 1, and its index.
 * k_median finds the median: the first NaN if there is one, or the element that a stable sort moves
 * to the middle. In values and indices the dim has size 1. Both return false if there is no memory.
 */
bool k_kth(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, int64_t k);
bool k_median(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim);

/* Groups equal elements (if dim is -1) or equal slices along dim. order[i] is the index of the i-th
 * one in sorted order, and group[i] the number of its value. Returns the number of values, or -1 if
 * there is no memory. */
int64_t k_unique(const rg_tensor *x, int dim, int64_t *order, int64_t *group);

/* y = the number of elements of a sorted row that are less than each value, or, if `right`, not
 * greater. Requires contiguous tensors of one dtype. `sorted` has one row, or a row for each row of
 * `values`. Returns false if the dtype has no order. */
bool k_searchsorted(rg_tensor *y, const rg_tensor *sorted, const rg_tensor *values, bool right);

/* y = the indices of the elements that are not 0, row by row. */
void k_nonzero(rg_tensor *y, const rg_tensor *x);

/* ---- range.c: evenly spaced numbers -------------------------------------------------------------
 * k_arange computes y[i] = start + step i, and k_linspace computes evenly spaced numbers from start
 * to end, at least two. Both return whether there is a loop for the dtype. */
bool k_arange(rg_tensor *y, double start, double step);
bool k_linspace(rg_tensor *y, double start, double end);

/*
 * kernels.h: declares all kernels, in a section for each file. The caller passes tensors of valid
 * shapes, and an output that has memory. A kernel that returns bool returns false if it fails:
 * because memory runs out, or because it has no loop for the dtype.
 *
 * This file is long because it declares every kernel.
 */
#pragma once

#include "copy.h"
#include "sets.h"
#include "tensor/threads/parallel.h"

/* ---- elementwise kernels ------------------------------------------------------------------------
 * A kernel computes y from the operands in[0] .. in[n - 1]. It has a loop for each dtype; the dtype
 * of the last operand chooses the loop. The last row is for loops that only copy elements, here of
 * 16 bits; other kernels have none for dtypes that are widened. A kernel is light if memory
 * bandwidth limits its speed for many elements. */
enum { K_ROWS = RG_BFLOAT16 + 1 };
typedef struct rg_kernel {
    const char *name;
    int n;
    bool light;
    rg_loop *by_dtype[K_ROWS][K_COLUMNS];
} rg_kernel;

/* K_KERNEL and K_LIGHT_KERNEL define the kernel k_op, which has n operands, from the loops whose
 * names begin with op_loop. TYPES names the element types for which there are loops: FLOATS,
 * NUMBERS, ALL or SIZES (see K_TYPES_FLOATS and so on in sets.h). */
#define K_KERNEL(op, n, TYPES)       K_KERNEL_OF(op, n, false, TYPES)
#define K_LIGHT_KERNEL(op, n, TYPES) K_KERNEL_OF(op, n, true, TYPES)
#define K_KERNEL_OF(op, n, light, TYPES) \
    const rg_kernel k_##op = { #op, n, light, K_TABLE_##TYPES(op##_loop) };

/* Defines the kernel of a row in elementwise.def from the row's arguments `weight` and `dtypes`.
 * K_LOOPS_FOR_FLOATED, for example, is the argument TYPES if `dtypes` is FLOATED. */
#define K_KERNEL_OF_ROW(op, n, weight, dtypes) \
    K_KERNEL_OF_ROW_(op, n, K_##weight, K_LOOPS_FOR_##dtypes)
#define K_KERNEL_OF_ROW_(op, n, light, TYPES) K_KERNEL_OF(op, n, light, TYPES)
enum { K_LIGHT = true, K_MEDIUM = false, K_HEAVY = false, K_OWN = false };
#define K_LOOPS_FOR_FLOATED       FLOATS
#define K_LOOPS_FOR_FLOATS        FLOATS
#define K_LOOPS_FOR_NUMBERS       NUMBERS
#define K_LOOPS_FOR_NUMBERS_IF(f) NUMBERS
#define K_LOOPS_FOR_ALL           ALL

/* Declare the kernels of the rows in elementwise.def. Kernels without a row are declared further
 * below. */
#define UNARY(name, ...)            extern const rg_kernel k_##name;
#define ACTIVATION(name, ...)       extern const rg_kernel k_##name, k_##name##_grad;
#define ACTIVATION_ALONE(name, ...) ACTIVATION(name)
#define BINARY(name, ...)           UNARY(name)
#define BINARY_ALONE(name, ...)     UNARY(name)
#define PREDICATE(name, ...)        UNARY(name)
#define COMPARISON(name, ...)       UNARY(name)
#include "elementwise.def"

/* Runs a kernel. `numbers` are up to three numbers that the loop reads, or NULL for a loop that
 * takes none. If the kernel has no loop for the dtype, fails with torch's message and returns
 * false. */
bool k_run_with(const rg_kernel *k, rg_tensor *y, rg_tensor *const in[], const double *numbers);
#define k_run(kernel, y, ...) k_run_with(&(kernel), y, (rg_tensor *[]){ __VA_ARGS__ }, NULL)

/* convert.c: returns the loop that copies the elements of operand 1, of dtype `from`, to operand 0,
 * of dtype `to`. */
rg_loop *rgi_copy_loop(rg_dtype to, rg_dtype from);

/* ---- half.c: dtypes that are widened to be computed ---- */
/* Returns the loop that rgi_copy_loop returns if one of the dtypes is widened. */
rg_loop *k_widened_copy_loop(rg_dtype to, rg_dtype from);

/* ---- run.c ---- */

/* Runs a loop on t[0] .. t[n - 1], where t[0] is the output. Elements may be computed in any order:
 * the elements of large tensors are split among the threads. If `light`, the output may be written
 * past the caches. If `pure`, each element of the output must depend only on the operands'
 * elements. Then, if the output is large and all operands are single numbers, one element is
 * computed and copied to the whole output. */
void k_run_apart(bool light, bool pure, int n, rg_tensor *const t[], rg_loop *loop,
                 const void *context);

/* Does the same as k_run_with for a last operand whose dtype is widened, by the kernel's loop for
 * the dtype that it is computed in: operands whose dtypes are widened are converted block by block.
 * The other operands must be of that dtype, or be the bools that the loop reads or writes. */
bool k_run_widened(const rg_kernel *k, rg_tensor *y, rg_tensor *const in[], const double *numbers);

/* Calls k_run_apart with `light` and `pure` false. */
void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
/* The least number of elements for which k_rows uses several threads. */
enum { RG_LARGE = 1 << 16 };

/* Iterates over the lines of t[0] .. t[n - 1]: the rows of elements along `dim`. The loop is called
 * with the addresses of the lines' first elements, or of their last elements if `reverse`, and with
 * the distances from one line to the next. step[k] is set to the distance in bytes from one element
 * of a line of t[k] to the next; it is negative if `reverse`. */
void k_lines(int n, rg_tensor *const t[], int dim, bool reverse, int64_t step[], rg_loop *loop,
             const void *context);

/* Splits the rows into ranges, and calls `work` for each range from begin to end - 1, on several
 * threads if there is enough work. Each row has n elements. */
void k_rows(int64_t rows, int64_t n, rg_work *work, void *context);

/* Returns whether y should be written past the caches. Three conditions must hold. y has at least
 * K_STREAM_LEAST bytes, which is half of a common last-level cache. y is contiguous. Each stretch
 * of `row` elements begins at a multiple of 64 bytes, the size of a cache line; if row is 0, y is
 * one stretch. */
enum { K_STREAM_LEAST = 16 << 20 };
static inline bool k_should_stream(const rg_tensor *y, int64_t row) {
    int64_t bytes = (int64_t)rgi_sizeof(y->dtype);
    return RG_UNLIKELY(y->numel >= K_STREAM_LEAST / bytes) && y->flags & RG_CONTIGUOUS
           && ((uintptr_t)y->data | (uintptr_t)(row * bytes)) % 64 == 0;
}
/* The context of stream_loop (loops/stream.h), which runs `loop` on n operands with `context`, and
 * writes the results past the caches. */
typedef struct k_stream {
    int n;
    rg_loop *loop;
    const void *context;
} k_stream;
/* Waits until the thread's writes past the caches are complete: then other threads can read
 * them. */
static inline void k_stream_end(void) {
#ifdef K_X86
    __builtin_ia32_sfence();
#endif
}

/* ---- beside.c ---- */

/* Runs a loop of `count` operands, block by block. Elements of operand k have bytes[k] bytes.
 * Operands whose elements don't lie side by side are copied, so the loop needs no code for them. */
void k_run_beside(rg_loop *loop, int count, const int bytes[], char *const p[], const int64_t s[],
                  int64_t n, const void *context);

/* ---- turn.c: operands that are transposed in memory -------------------------------------------
 * An operand of a walk is "turned" if it is contiguous along another dim than the last one. If
 * there are such operands, k_turn_operands changes the walk and returns true; the walk must then be
 * run with k_turned_loop as its loop, and the k_turning as its context. Otherwise k_turn_operands
 * changes nothing and returns false. */
enum { K_TURN_SIDE = 64 };
typedef struct k_turning {
    const rg_walk *walk;
    rg_loop *loop;
    const void *context;
    bool turned[RG_MAX_OPERANDS];
} k_turning;
bool k_turn_operands(k_turning *turning, rg_walk *w, rg_loop *loop, const void *context);
void k_turned_loop(char *const p[], const int64_t outer[], int64_t n, const void *context);

/* ---- unary.c, special.c: one operand; k_round_up and k_round_down take a number -------------- */
extern const rg_kernel k_square, k_cube, k_reciprocal_square, k_round_up, k_round_down;
/* Takes three numbers, which replace NaN, infinity and -infinity. */
extern const rg_kernel k_nan_to_num;

/* ---- activations.c: a gradient kernel takes g, and x or y, whichever elementwise.def says ---- */
extern const rg_kernel k_logsigmoid, k_logsigmoid_grad;
/* Activations that take numbers. */
extern const rg_kernel k_hardtanh, k_leaky_relu, k_elu, k_softplus, k_threshold, k_hardshrink;
extern const rg_kernel k_softshrink;
extern const rg_kernel k_hardtanh_grad, k_leaky_relu_grad, k_elu_grad, k_softplus_grad;
extern const rg_kernel k_threshold_grad, k_shrink_grad;
/* prelu takes x and the slope, and glu takes x and the gate. Their gradient kernels take g before
 * these two operands. k_prelu_grad computes the gradient of x, and k_glu_grad the gradient of the
 * gate. */
extern const rg_kernel k_prelu, k_prelu_grad, k_glu, k_glu_grad;
/* The coefficients of the polynomials that gelu.h explains: a row for each power of u, with a
 * column for each piece. Behind the pieces is one more column, which stays 0, because the tail is 0
 * there. k_share_pieces returns a table by its name, of n characters, such as "share_gelu". */
enum { SHARE_DEGREE = 5, SHARE_PIECES = 15 };
typedef float share_pieces[SHARE_DEGREE + 2][SHARE_PIECES + 1];
const share_pieces *k_share_pieces(const char *name, size_t n);

/* ---- binary.c, special.c ---- */
extern const rg_kernel k_sub, k_div_floor, k_div_trunc, k_remainder, k_fmod, k_pow, k_xlogy;
/* y = a + alpha * b, where alpha is the first number of the kernel. If the operands are integers,
 * the eight bytes of that number hold an int64_t. */
extern const rg_kernel k_add_alpha;

/* ---- ternary.c: k_where takes a bool tensor; k_addcmul and k_addcdiv take a number ---- */
extern const rg_kernel k_where, k_clamp, k_lerp, k_addcmul, k_addcdiv;

/* ---- reductions: reduce.c, and a file for each family ------------------------------------------
 * k_reduce reduces the dims whose bits are set in `dims`. y has the shape of x without these dims,
 * or with size 1 for them. Reductions return false if memory runs out, or if there is no loop for
 * the dtype. */

/* A kind of reduction, such as k_sums. Each is defined in the file of its family, so that a program
 * links only the kinds that it uses. */
typedef struct k_reduction k_reduction;
/* ---- sums.c: k_wide_sums adds floats in float64; in k_nansums NaN counts as 0; k_counts counts
 * the elements that aren't 0 ---- */
extern const k_reduction k_sums, k_wide_sums, k_nansums, k_counts;
/* ---- products.c ---- */
extern const k_reduction k_products;
/* ---- extremes.c ---- */
extern const k_reduction k_greatest, k_least;
/* ---- norms.c: for floats only; k_norms_2 is sum(x^2), without the root ---- */
extern const k_reduction k_norms_0, k_norms_1, k_norms_2, k_norms_max, k_norms_min;

bool k_reduce(const k_reduction *kind, rg_tensor *y, const rg_tensor *x, uint32_t dims);
static inline bool k_sum(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    return k_reduce(&k_sums, y, x, dims);
}
/* Returns the number of elements of x that aren't 0. */
int64_t k_count(const rg_tensor *x);
bool k_mean(rg_tensor *y, const rg_tensor *x, uint32_t dims);
/* y is true if any element along the dims isn't 0; or, if `all`, if no element is 0. */
bool k_any(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool all);
/* y = sum((x - mean)^2) / max(0, n - correction) for n elements, and NaN for none; if `root`, y is
 * the square root of this quotient. */
bool k_var(rg_tensor *y, const rg_tensor *x, uint32_t dims, double correction, bool root);
/* y = sum(|x|^p)^(1/p). For p = 0, y is the number of elements that aren't 0; for p = infinity, max
 * |x|; for p = -infinity, min |x|. */
bool k_norm(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p);
/* Computes the same bits as k_norm, but first writes the powers of |x| into memory, and then adds
 * them with the loops of sums. If a program calls this function and not k_norm, it links the loops
 * of norms only for p = 0. */
bool k_norm_in_passes(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p);
/* y = ln sum(e^x) */
bool k_logsumexp(rg_tensor *y, const rg_tensor *x, uint32_t dims);
/* Writes the maximum along dim, or the minimum if `smallest`, and its index. If several elements
 * are equal, the first one counts. NaN counts as the extreme: if there is a NaN, the first one is
 * the result. */
bool k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest);

/* ---- cumulate.c ----
 * k_cumulate computes y along dim, from the first element on, or from the last one if `reverse`:
 *
 *     K_CUMSUM         y_k = x_0 + .. + x_k
 *     K_CUMPROD        y_k = x_0 * .. * x_k
 *     K_RECUR          y_k = z_k + x_k * y_(k-1), where y_(-1) is 0
 *     K_LOGCUMSUMEXP   y_k = ln(e^x_0 + .. + e^x_k), for floats only
 *
 * Returns false if there is no loop for x's dtype. */
typedef enum k_running { K_CUMSUM, K_CUMPROD, K_RECUR, K_LOGCUMSUMEXP } k_running;
bool k_cumulate(rg_tensor *y, const rg_tensor *x, const rg_tensor *z, int dim, bool reverse,
                k_running what);

/* softmax.c: softmax along one dim of contiguous tensors. A row in which all elements are -infinity
 * becomes NaN; in K_SAFE_SOFTMAX it becomes 0. Both functions return false if there is no loop for
 * the dtype. */
typedef enum { K_SOFTMAX_PLAIN, K_LOG_SOFTMAX, K_SAFE_SOFTMAX } k_softmax_kind;
bool k_softmax(rg_tensor *y, const rg_tensor *x, int dim, k_softmax_kind kind);
bool k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim,
                        k_softmax_kind kind);

/* normalize.c: layer norm, group norm and rms norm of contiguous tensors. The weight, the bias, and
 * each gradient may be NULL. The gradients of weight and bias are added to what gweight and gbias
 * hold. Backward splits the rows into k_norm_parts parts, each with sums of its own, and at the end
 * adds all sums to the sums of the first part. The sums of weight and bias are in one block of
 * memory, part after part: gweight of the first part, gbias of the first part, gweight of the
 * second part, and so on. With W weights, the sums of the next part are therefore 2 * W numbers
 * further on. Both functions return false if there is no loop for the dtype. */
typedef struct k_norm_rows {
    int64_t rows, n; /* The number of rows of x, and the number of elements in a row. */
    /* Row r belongs to group r % groups. Each weight of a group applies to `per` consecutive
     * elements. */
    int64_t groups, per;
    double eps;
    bool centred; /* Set if the mean is subtracted, as in layer norm and group norm but not in rms
                   * norm. */
} k_norm_rows;
bool k_normalize(const k_norm_rows *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *weight,
                 const rg_tensor *bias);
int64_t k_norm_parts(const k_norm_rows *z);
bool k_normalize_backward(const k_norm_rows *z, rg_tensor *gx, double *gweight, double *gbias,
                          const rg_tensor *g, const rg_tensor *x, const rg_tensor *weight);

/* batch_norm.c: batch norm of contiguous tensors of shape (batch, channels, per): each image of the
 * batch has `per` elements in each channel. In training, k_batch_normalize computes `mean` and
 * `var` from the batch; otherwise it reads them. The weight, the bias, and each gradient may be
 * NULL. Both functions return false if there is no loop for the dtype. */
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

/* loss.c: k_loss computes an elementwise loss of input x and target t. If `slope` is false, y =
 * weight * loss(x, t), and `by` is the pos_weight of K_BCE_LOGITS. If `slope` is true, y = scale *
 * by * weight * dloss/dx, and `by` is the incoming gradient. c is beta for K_SMOOTH_L1, delta for
 * K_HUBER, and the smallest denominator for K_BCE. The operands are broadcast; weight and `by` may
 * be NULL. Returns false if there is no loop for the dtype. */
typedef enum { K_MSE, K_SMOOTH_L1, K_HUBER, K_BCE, K_BCE_LOGITS } k_loss_kind;
/* The context of a loss's loop: the arguments of k_loss that aren't operands. */
typedef struct k_loss_context {
    k_loss_kind kind;
    double c, scale;
} k_loss_context;
bool k_loss(k_loss_kind kind, bool slope, rg_tensor *y, rg_tensor *x, rg_tensor *t,
            const rg_tensor *weight, const rg_tensor *by, double c, double scale);
/* distance.c: y = sum(|a_i - b_j|^p)^(1/p) for all rows a_i and b_j of contiguous (batches of)
 * matrices a and b. For p = 0, y is the number of elements that differ; for p = infinity, the
 * largest difference. k_distance_backward computes the gradient of a from g, the gradient of y. If
 * `turned`, g and y are transposed: they have one row for each row of b. Both functions return
 * false if there is no loop for the dtype. */
bool k_distance(rg_tensor *y, const rg_tensor *a, const rg_tensor *b, double p);
bool k_distance_backward(rg_tensor *ga, const rg_tensor *g, const rg_tensor *a, const rg_tensor *b,
                         const rg_tensor *y, double p, bool turned);

/* nll.c: losses of classes, for contiguous x of shape (batch, classes, inner) and target of shape
 * (batch, inner). An element whose target equals `ignore` has no loss. `weight`, which has a weight
 * for each class and x's dtype, may be NULL. *total divides the gradient, unless `total` is NULL.
 * The functions return false if there is no loop for the dtype. */
typedef struct k_nll_targets {
    rg_tensor *target, *weight;
    int64_t classes, inner, ignore;
    double *total;
} k_nll_targets;
/* Sets *total to the sum of the weights of the targets that aren't ignored. `dtype` is x's dtype.
 */
bool k_nll_total(const k_nll_targets *z, rg_dtype dtype);
/* Multiplies the number y by 1 / *total. */
bool k_nll_mean(const k_nll_targets *z, rg_tensor *y);
bool k_nll(const k_nll_targets *z, rg_tensor *y, rg_tensor *x);
bool k_nll_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *g);
/* Cross entropy: k_nll of log_softmax(x) for x of shape (batch, classes), without storing the
 * log_softmax. Forward writes two numbers for each row to `shifts`, of shape (batch, 2). The sum of
 * the two is ln sum_i e^x_i, which log_softmax subtracts from the row. Backward reads `shifts`. */
bool k_cross_entropy(const k_nll_targets *z, rg_tensor *y, rg_tensor *shifts, rg_tensor *x);
bool k_cross_entropy_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *shifts,
                              rg_tensor *x, rg_tensor *g);

/* The arguments of the loops of nll.c. y is the output: the losses, or the gradient of x. The other
 * fields are as in k_nll_targets, k_nll and k_cross_entropy; fields that a loop doesn't use are
 * NULL. `own_g` is set if g has an element for each target, and not one for all. */
typedef struct k_nll_rows {
    void *y, *shifts;
    const void *x, *g;
    bool own_g;
    const int64_t *target;
    const char *weight;
    int64_t weight_step; /* The distance in bytes from one class's weight to the next. */
    int64_t classes, inner, ignore;
    double *total;
} k_nll_rows;
typedef void k_nll_loop(const k_nll_rows *z, int64_t begin, int64_t end);

/* ---- matmul.c ----
 * Matrix products of the last two dims, for each item of a batch, with any strides. */
/* Returns a header that shares t's memory, with t's last two dims exchanged. */
rg_tensor k_turned(const rg_tensor *t);
/* y = alpha * a b + beta * c. If turn_a or turn_b is true, a or b is transposed first. c is
 * broadcast to y's shape; if c is NULL, y itself is used for c. Returns false if memory runs out,
 * or if there is no product for the dtype. */
bool k_matmul_with(rg_tensor *y, const rg_tensor *c, const rg_tensor *a, bool turn_a,
                   const rg_tensor *b, bool turn_b, double alpha, double beta);
#define k_matmul(y, a, b) k_matmul_with(y, NULL, a, false, b, false, 1, 0)
/* Each element of a product is a sum of k terms, which are added in ascending order in blocks of
 * K_PRODUCT_STEPS terms. */
enum { K_PRODUCT_STEPS = 384 };

/* The sizes of one product y = a b: y has m rows and n columns, and each element is a sum of k
 * terms. The other fields are strides in elements: between rows and between columns of y, a and b,
 * and between rows of c. The columns of c have the stride of y's columns. */
typedef struct {
    int64_t m, n, k, y_row, y_col, a_row, a_col, b_row, b_col, c_row;
} k_product_sizes;
/* y = a b, or y += a b if `add` is true, for floats, without packing. Requires that y_col and b_col
 * are 1, and that n is a multiple of the number of lanes of a vector. */
typedef void k_product(const k_product_sizes *z, void *y, const void *a, const void *b, bool add);
/* Transposes: reads n rows of k elements with strides row and col, multiplies the elements by
 * scale, and writes each row as a column of `to`, whose rows are to_row elements apart. */
typedef void k_turn(void *to, int64_t to_row, const void *from, int64_t row, int64_t col, int64_t n,
                    int64_t k, double scale);
/* k_direct_product returns the k_product for a dtype, and k_direct_turn returns the k_turn. If the
 * dtype has no such loop, the function fails and returns NULL. */
k_product *k_direct_product(rg_dtype dtype);
k_turn *k_direct_turn(rg_dtype dtype);

/* ---- conv.c and pool.c: windows that slide over the last two dims of contiguous tensors --------
 * Along dim d, a window has kernel[d] taps, which are dilation[d] elements apart, and moves by
 * stride[d] elements. padding[d] positions are added at each end of x. x has size[d] elements along
 * d, and y has to[d]. For a convolution over one dim, the first of the two dims has size 1 and one
 * tap. */
typedef struct k_window {
    int64_t size[2], to[2], kernel[2], stride[2], padding[2], dilation[2];
} k_window;

/* x is (batch, groups * in, size), w is (groups * out, in, kernel), and y is (batch, groups * out,
 * to). Here size, kernel and to stand for two dims each, as in k_window. Each channel of y is a sum
 * over the channels of x in the same group. */
typedef struct k_conv {
    int64_t batch, groups, in, out;
    k_window window;
} k_conv;
/* k_convolve computes y, k_convolve_input computes the gradient of x, and k_convolve_weight
 * computes the gradient of w. The bias may be NULL. Each returns false if memory runs out, or if
 * there is no loop for the dtype. */
bool k_convolve(const k_conv *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *w,
                const rg_tensor *bias);
bool k_convolve_input(const k_conv *z, rg_tensor *gx, const rg_tensor *g, const rg_tensor *w);
bool k_convolve_weight(const k_conv *z, rg_tensor *gw, const rg_tensor *x, const rg_tensor *g);

/* x and y consist of `planes` planes each. The windows are as in k_window. If `adaptive`, only the
 * sizes of x and y are used: a plane of x is split as evenly as possible into one window for each
 * element of y, and neighbouring windows overlap where the sizes don't divide evenly. A mean is the
 * sum divided by `divisor`. If `divisor` is 0, the sum is divided by the number of elements in the
 * window; padding is counted among them if count_padding is set. */
typedef struct k_pool {
    int64_t planes;
    k_window window;
    bool adaptive, count_padding;
    int64_t divisor;
} k_pool;
/* k_max_pool computes the maximum of each window and its index in the plane, and k_mean_pool
 * computes the mean of each window. k_max_pool_backward and k_mean_pool_backward compute the
 * gradients of x. Each returns false if there is no loop for the dtype. */
bool k_max_pool(const k_pool *p, rg_tensor *y, rg_tensor *indices, const rg_tensor *x);
bool k_max_pool_backward(const k_pool *p, rg_tensor *gx, const rg_tensor *indices,
                         const rg_tensor *g);
bool k_mean_pool(const k_pool *p, rg_tensor *y, const rg_tensor *x);
bool k_mean_pool_backward(const k_pool *p, rg_tensor *gx, const rg_tensor *g);

/* ---- recurrent.c: one layer of a recurrent network, in one direction, of contiguous tensors ----
 * The layer has `steps` time steps; each step has `batch` rows of `hidden` elements. A row of h_0
 * has `from` elements, which must equal `hidden` if there is more than one time step. The gates of
 * a time step are computed from two parts. One is gates_in, which the caller has computed from the
 * layer's input. The other is z = h weight^T + bias, where h is the hidden state of the time step
 * before. An LSTM has four gates, i, f, g and o; a GRU has three, r, u and t; an RNN has one. */
typedef enum { K_LSTM, K_GRU, K_RNN_TANH, K_RNN_RELU } k_recurrent_kind;
typedef struct k_recurrent {
    k_recurrent_kind kind;
    int64_t steps, batch, hidden, from;
    bool reverse; /* Set if the time steps are computed from the last to the first. */
} k_recurrent;
/* The values of a layer. h_0 is (batch, from), and c_0 is (batch, hidden). y and c are (steps,
 * batch, hidden). `gates` is (steps, batch, 4 * hidden) and has the gates after their activation
 * functions. A GRU has only three gates, r, u and t; the fourth part of its `gates` is the part of
 * z for t. Only an LSTM has c and c_0. An RNN has no `gates`. */
typedef struct k_recurrent_values {
    rg_tensor *y, *c, *gates, *h_0, *c_0;
} k_recurrent_values;
/* The gradients of a layer. The caller gives the gradients of y and c (c may be NULL);
 * k_recur_backward computes the others. `hidden` is the gradient of z; except in a GRU it equals
 * the gradient of gates_in. */
typedef struct k_recurrent_gradients {
    rg_tensor *y, *c;
    rg_tensor *gates_in, *hidden, *h_0, *c_0;
} k_recurrent_gradients;
/* k_recur computes y, c and the gates; the bias may be NULL. k_recur_backward computes the
 * gradients of gates_in, z, h_0 and c_0 from the gradients of y and c. Both return false if memory
 * runs out, or if there is no loop for the dtype. */
bool k_recur(const k_recurrent *z, const k_recurrent_values *v, const rg_tensor *gates_in,
             const rg_tensor *weight, const rg_tensor *bias);
bool k_recur_backward(const k_recurrent *z, const k_recurrent_values *v,
                      const k_recurrent_gradients *g, const rg_tensor *weight);
/* Packs a matrix into panels (see loops/recurrent.h). If `turned`, the matrix is transposed. */
typedef void k_recurrent_pack(void *to, const void *from, int64_t rows, int64_t columns,
                              bool turned);

/* ---- bfloat16.c ----
 * Products of float32 matrices with the processor's instruction for bfloat16. */
/* Returns whether products can use the processor's instruction for bfloat16: it must have one, and
 * the current instruction set, k_set, must be K_AVX512. */
bool k_has_bfloat16(void);
/* Returns whether the product of a and b, or of each pair of their matrices, has the same bits with
 * this instruction as in float32: bfloat16 can hold all their elements exactly, and no sum is
 * subnormal or infinite. Returns false also if finding that out would take too long. */
bool k_bfloat16_is_exact(const k_product_sizes *z, const rg_tensor *a, const rg_tensor *b);
/* Returns the size in bytes of a worker's scratch memory for tiles of `columns` columns. Returns 0
 * if the product must be computed in float32 instead: if k_has_bfloat16 returns false, if the
 * product is too thin, if y's rows aren't contiguous, or if `exact` is false and the precision
 * isn't "medium". */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns, bool exact);
/* y = alpha * a b + beta * c. Requires that k_bfloat16_room didn't return 0; `room` is scratch
 * memory of the size that it returned. */
void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                        const void *b, double alpha, double beta, void *room);

/* ---- attention.c ---- */
typedef struct k_attention {
    double scale;
    bool causal;
} k_attention;
/* In forward (g is NULL), computes y = softmax(scale * q k^T + mask) v, where in[] is q, k and v,
 * each of shape (batch, heads, n, size). lse gets, for each query, the logarithm of the sum of the
 * exponentials of its scores, or 0 if all exponentials are 0. In backward (g isn't NULL), computes
 * the gradients gin[] from y, lse, g and g_lse. `mask` has q's dtype. mask, g_lse and each of gin[]
 * may be NULL. lse and g_lse must be contiguous. Returns false if memory runs out, or if there is
 * no loop for the dtype. */
bool k_attend(const k_attention *a, rg_tensor *y, rg_tensor *lse, const rg_tensor *g,
              const rg_tensor *g_lse, rg_tensor *const gin[], rg_tensor *const in[],
              const rg_tensor *mask);

/* ---- random.c: random words of mt19937, and conversions of uniform numbers, in place --------- */
enum { K_RANDOM_WORDS = 624 };
/* The greatest number of random numbers that are drawn at once. A buffer for them fits into the L1
 * cache. */
enum { K_RANDOM_CHUNK = 512 };
/* A generator's place in its stream of random words. The fields lie at the same places on every
 * machine. */
typedef struct k_random_stream {
    uint64_t seed;
    /* If has_normal is set, this is the second normal number of a pair, for the next draw. */
    double normal;
    /* The number of words left in the block, plus 1, as in torch's state: 1 means that the block is
     * used up. 0 means that the generator hasn't been seeded yet. */
    int left;
    /* The index of the next word in the block. */
    int next;
    bool has_normal;
    /* The block of words. It is aligned so that a vector of words doesn't cross a cache line. */
    uint32_t word[K_RANDOM_WORDS] __attribute__((aligned(64)));
} k_random_stream;
/* Draws n random words. */
void k_random_words(k_random_stream *s, uint32_t *to, int n);
/* Draws n doubles in [0, 1), at most K_RANDOM_CHUNK. */
void k_random_doubles(k_random_stream *s, double *to, int n);
/* Fills n elements, which are `step` bytes apart. The parameters are a and b: the bounds of uniform
 * numbers, mean and standard deviation of normal ones, or the probability of 1. Blocks of normal
 * numbers are for at least sixteen contiguous elements. */
typedef enum { K_UNIFORM, K_NORMAL_BLOCKS, K_NORMAL_PAIRS, K_BERNOULLI } k_distribution;
typedef void k_random_fill(k_random_stream *s, char *to, int64_t step, int64_t n, double a,
                           double b);
k_random_fill *k_random_fill_of(k_distribution which, rg_dtype dtype);
/* Replaces a block of K_RANDOM_WORDS words of the generator's state with the next block. */
void k_random_twist(uint32_t *words);
/* Computes n random words from n words of a block of the state. */
void k_random_temper(const uint32_t *from, uint32_t *to, int n);
/* Computes n uniform numbers in [0, 1) from n random words. */
void k_random_floats(const uint32_t *words, float *to, int n);
/* y = y * scale + shift, rounded once. */
void k_random_scale(rg_dtype dtype, void *y, int n, double scale, double shift);
/* y = y * (high - low) + low, rounded once. If a result is `high` because of rounding, it becomes
 * `low`. */
void k_random_stretch(rg_dtype dtype, void *y, int n, double low, double high);
/* Turns uniform numbers in [0, 1) into numbers of the standard normal distribution. Requires that n
 * is a multiple of sixteen. */
void k_random_normals(rg_dtype dtype, void *y, int n);
/* A normal distribution, truncated to [low, high], by rejection of candidates. If `normal`, the
 * candidates are drawn from the normal distribution, and are accepted if they are in the interval.
 * Otherwise they are drawn uniformly from the interval. Such a candidate is accepted with the
 * probability density / peak, where `density` is the normal density at the candidate and `peak` its
 * maximum in the interval; log_peak is the logarithm of the maximum. */
typedef struct k_truncation {
    bool normal;
    double mean, std, low, high, log_peak;
} k_truncation;
/* For each element that is still pending, writes its candidate to `accepted`, and clears `pending`
 * if the candidate is accepted. A uniform candidate is accepted if the element's number in
 * `uniforms`, drawn from [0, 1), is at most the candidate's probability. Returns whether any
 * element is still pending after that. */
bool k_random_truncate(const k_truncation *r, rg_tensor *accepted, const rg_tensor *candidates,
                       const rg_tensor *uniforms, rg_tensor *pending);

/* ---- index.c: elements and slices at indices --------------------------------------------------
 * Indices are int64, and must be in range. If an index occurs several times, the action is applied
 * in the order of the indices. k_index_along and k_index_slices return false if there is no loop
 * for the dtype.
 */
/* An action on an element of `row` and the element of t at an index. K_GET: row = t[index]. K_PUT:
 * t[index] = row. K_ADD: t[index] += row. K_MULTIPLY: t[index] *= row. K_GREATER and K_LESSER:
 * t[index] = the maximum or the minimum of t[index] and row. */
typedef enum { K_GET, K_PUT, K_ADD, K_MULTIPLY, K_GREATER, K_LESSER } k_index_how;
/* Applies the action `how` to each element of `row` and the element of t that the index at the same
 * place selects along dim, as in gather and scatter. */
bool k_index_along(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                   const rg_tensor *index);
/* Applies the action `how` to slices: each index selects a slice of t along dim. `row` has t's
 * shape, but with the dims of `index` in the place of dim. */
bool k_index_slices(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                    const rg_tensor *index);
/* Returns whether all indices are in [low, high). If not, sets *bad to the first one outside. */
bool k_index_within(const rg_tensor *index, int64_t low, int64_t high, int64_t *bad);
/* For each matrix in the last two dims of a contiguous tensor, sets the elements above a diagonal
 * to 0, or, if `above` is false, the elements below it. */
void k_clear_triangle(rg_tensor *y, int64_t diagonal, bool above);
/* Writes to `index`, for each position of a dim of size n that is padded by `left` and `right`, the
 * index of the element that it gets. */
typedef enum { K_PAD_REFLECT, K_PAD_REPLICATE, K_PAD_CIRCULAR } k_pad_kind;
void k_pad_indices(rg_tensor *index, k_pad_kind kind, int64_t n, int64_t left, int64_t right);

/* The first index that is out of bounds. `at` is its value. `dim` is the number of the index tensor
 * that holds it, and `size` the size of the dim that this tensor indexes. `where` points to the
 * index's element in the tensor of offsets; it is NULL if all indices are in bounds. */
typedef struct {
    int dim;
    int64_t at, size;
    const char *where;
} k_index_bad;
/* One of several index tensors: its number `dim`, the size and the stride of the dim that it
 * indexes, and where an index that is out of bounds is stored. */
typedef struct {
    int dim;
    int64_t size, stride;
    k_index_bad *bad;
} k_index_dim;
/* Adds to each offset the index that belongs to it, times the stride of the indexed dim. `index` is
 * a tensor of int64, which is broadcast to the offsets. A negative index counts from the end. */
void k_index_offsets(rg_tensor *offsets, const rg_tensor *index, const k_index_dim *dim);
/* Copies x to a slice of y: y.narrow(dim, start, x.size(dim)) = x. */
void k_copy_into(rg_tensor *y, const rg_tensor *x, int dim, int64_t start);

/* ---- sorting and searching (sort.c, select.c, top.c, unique.c, search.c) -------------------- */

/* A ranked item: the index of an element, and a key. Keys have the order of the elements, or the
 * inverse order for a descending sort. */
typedef struct k_ranked {
    int64_t key, index;
} k_ranked;

/* Returns the key of a float. NaN has the greatest key (the least if `descending`), and -0 has the
 * key of 0. (The bits of negative numbers are inverted without a branch, because random signs would
 * make a branch slow.) */
static inline int64_t k_rank(double v, bool descending) {
    union {
        double d;
        int64_t i;
    } bits = { .d = v + 0 };
    int64_t key = v != v ? INT64_MAX : bits.i ^ (bits.i >> 63 & INT64_MAX);
    return key ^ -(int64_t)descending;
}

/* A loop of k_searchsorted. */
typedef void k_search_loop(int64_t *to, const void *sorted, const void *values, int64_t n,
                           int64_t count, int64_t per_row, bool right);

/* Computes the ranked items of n elements. The elements are `step` bytes apart, beginning at x. */
typedef void k_ranks(k_ranked *q, const char *x, int64_t step, int64_t n, bool descending);
/* Returns the k_ranks for a dtype. If there is none, fails and returns NULL. */
k_ranks *k_ranks_of(rg_dtype dtype);

/* Sorts n items stably by their keys. `aside` is scratch memory for n more items. Returns where the
 * sorted items are: q or aside. */
k_ranked *k_sort_ranked(k_ranked *q, k_ranked *aside, int64_t n);
/* Moves the k items with the smallest keys to the front, in sorted order if `sorted`. If keys are
 * equal, k_top chooses the same items as torch.topk. */
void k_top(k_ranked *q, int64_t n, int64_t k, bool sorted);

/* k_sort sorts the lines along dim. k_topk writes the k largest elements of each line (the smallest
 * if `largest` is false), where k is the size of `values` and `indices` along dim. Both return
 * false if memory runs out. */
bool k_sort(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool descending);
bool k_topk(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool largest,
            bool sorted);

/* k_kth finds the k-th smallest element of each line along dim, counted from 1, and its index.
 * k_median finds the median of each line and its index. The median is the first NaN if there is
 * one. Otherwise it is the element that a stable sort would move to the middle (the lower middle of
 * an even number). `values` and `indices` have size 1 along dim. Both return false if memory runs
 * out. */
bool k_kth(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, int64_t k);
bool k_median(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim);

/* Groups equal elements (if dim is -1), or equal slices along dim. order[i] is the index of the
 * element or slice that is i-th in sorted order. A group is the elements or slices that equal each
 * other. Groups are numbered from 0 on in sorted order, and group[i] is the number of the group of
 * element or slice order[i]. Returns the number of groups, or -1 on failure. */
int64_t k_unique(const rg_tensor *x, int dim, int64_t *order, int64_t *group);

/* For each value, writes to y how many elements of a sorted row are less than the value, or, if
 * `right`, less than or equal to it. `sorted` has one row, or a row for each row of `values`.
 * Requires contiguous tensors of one dtype. Returns false if there is no loop for the dtype. */
bool k_searchsorted(rg_tensor *y, const rg_tensor *sorted, const rg_tensor *values, bool right);

/* For each element of x that isn't 0, in row-major order, writes a row to y: the element's index
 * along each dim. */
void k_nonzero(rg_tensor *y, const rg_tensor *x);

/* ---- range.c: evenly spaced numbers -------------------------------------------------------------
 * k_arange computes y[i] = start + step * i for floats, and k_arange_integers for integers.
 * k_linspace computes at least two evenly spaced numbers from start to end. All three return false
 * if there is no loop for the dtype. */
bool k_arange(rg_tensor *y, double start, double step);
bool k_arange_integers(rg_tensor *y, int64_t start, int64_t step);
bool k_linspace(rg_tensor *y, double start, double end);

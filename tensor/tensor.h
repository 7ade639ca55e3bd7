/*
 * tensor.h: tensors, and what every program needs around them.
 *
 *   scopes        who owns what a function returns, and until when
 *   errors        what a failed call leaves behind
 *   shapes        RG_DIMS and the variadic forms
 *   making        zeros, full, arange, literals, copies from memory
 *   reading       sizes, dtype, elements
 *   random        torch's streams
 *   printing      torch's text, NumPy's, and back
 *   memory        how many tensors exist, and how much memory is in use
 *   threads       the number of threads that compute
 *
 * Functions that have derivatives, and functions that write in place, are in autograd/ops/ops.h. A
 * name is PyTorch's with rg_ before it; a trailing _ says that the function changes its first
 * argument and returns it.
 *
 * The thread's innermost scope owns each new tensor or string that a function returns. A call that
 * fails returns NULL, and rg_error() says why; if a function returns no pointer, the comment above
 * it says what it returns on failure.
 *
 * This file is long because it is the manual of tensors, apart from the ops.
 */
#pragma once

#include "keywords.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#pragma GCC system_header

/* RG_PUBLIC_BEGIN and RG_PUBLIC_END enclose the declarations that the library exports. */
#ifdef __cplusplus
#define RG_PUBLIC_BEGIN _Pragma("GCC visibility push(default)") extern "C" {
#define RG_PUBLIC_END \
    }                 \
    _Pragma("GCC visibility pop")
#else
#define RG_PUBLIC_BEGIN _Pragma("GCC visibility push(default)")
#define RG_PUBLIC_END   _Pragma("GCC visibility pop")
#endif

RG_PUBLIC_BEGIN

#define RG_VERSION  "0.1.0"
#define RG_MAX_DIMS 8

typedef struct rg_tensor rg_tensor;
typedef struct rg_generator rg_generator;

/* The elements of RG_BFLOAT16 and RG_FLOAT16 have 16 bits. Ops compute with them in float32, and
 * round each result once; a function that is composed of ops rounds the result of each. Those of
 * RG_UINT8 are bytes. Ops compute with them in int64, and keep the last 8 bits of each result: 255
 * + 1 is 0, and 0 - 1 is 255. A float becomes a byte by way of int64, too: -1.5 becomes 255.
 *
 * The enum is packed into a signed byte. So its type differs from every type of number but int8_t,
 * and RG_DIMS can report a dtype that is given as a size. */
typedef enum __attribute__((packed)) rg_dtype {
    RG_NO_DTYPE = -1, /* Functions that return a dtype as an int return this on failure. */
    RG_BOOL,
    RG_INT64,
    RG_FLOAT32,
    RG_FLOAT64,
    RG_BFLOAT16,
    RG_FLOAT16,
    RG_UINT8
} rg_dtype;
#ifndef __cplusplus /* In C an enum's constants are ints; these macros have the enum's type. */
#define RG_NO_DTYPE ((rg_dtype)RG_NO_DTYPE)
#define RG_BOOL     ((rg_dtype)RG_BOOL)
#define RG_INT64    ((rg_dtype)RG_INT64)
#define RG_FLOAT32  ((rg_dtype)RG_FLOAT32)
#define RG_FLOAT64  ((rg_dtype)RG_FLOAT64)
#define RG_BFLOAT16 ((rg_dtype)RG_BFLOAT16)
#define RG_FLOAT16  ((rg_dtype)RG_FLOAT16)
#define RG_UINT8    ((rg_dtype)RG_UINT8)
#endif

/* RG_NONE means that an optional tensor, such as a bias or a mask, is absent. A tensor argument
 * that is NULL never means absent: it stands for a call that failed. */
extern rg_tensor rg_none_;
#define RG_NONE (&rg_none_)

/* A handle is an object other than a tensor that a program holds a pointer to: a module, an
 * optimizer, a generator. It begins with this header, which only the library reads and writes. When
 * a handle is released, its header is marked as released and stays until the memory is used for
 * something else. Until then, a function that is given the handle fails. */
typedef struct rg_handle {
    void *reserved; /* After the release, the link to the next block of free memory lies here. */
    uint32_t kind;
    bool released;
} rg_handle;

/* A list of tensors. RG_LIST(a, b, c), in ops.h, makes one. */
typedef struct rg_list {
    int n;
    rg_tensor *const *v;
} rg_list;

/* ---- scopes ---------------------------------------------------------------------------
 * A scope owns the tensors and strings that functions have returned since it began, and releases
 * them when it ends. RG_SCOPE(); opens a scope that lasts to the end of the C block, however the
 * block is left. RG_FOR is a for loop in which each iteration has a scope of its own:
 *
 *     RG_FOR (int step = 0; step < 1000; step++) { ... }
 *
 * A tensor that is made within the parentheses is released before the body begins.
 */

/* Begins a scope. Returns a mark, which the program passes to rg_scope_end. */
size_t rg_scope_begin(void);
/* Ends the scope with this mark, and the scopes that were begun inside it. Fails if no open scope
 * has the mark. When a scope has ended, a newer scope may get its mark. */
void rg_scope_end(size_t mark);
/* Takes t out of its scope: t lives until rg_drop is called once for each rg_keep. Returns t. */
rg_tensor *rg_keep(rg_tensor *t);
/* If t is kept, undoes one rg_keep; otherwise takes t out of its scope. Releases t if nothing else
 * refers to it. */
void rg_drop(rg_tensor *t);
/* Gives t to the next outer scope, so that t outlives the innermost one, and returns t. A function
 * ends with: return rg_escape(y); */
rg_tensor *rg_escape(rg_tensor *t);
/* Copies `bytes` bytes into new memory that the innermost scope owns, and returns the copy, or NULL
 * on failure. An example is the array of an rg_list, which must live as long as the list is
 * used. */
void *rg_scope_copy(const void *from, size_t bytes);

/* RG_SCOPE and RG_FOR are composed of these functions. rg_scope_restart always returns false.
 * RG_FOR clears `once` when its loop has ended. */
typedef struct rg_scope_guard {
    size_t mark;
    bool once;
} rg_scope_guard;
rg_scope_guard rg_scope_open(void);
void rg_scope_close(rg_scope_guard *guard);
bool rg_scope_restart(rg_scope_guard *guard);

#define RG_GUARD_(name) \
    rg_scope_guard name __attribute__((cleanup(rg_scope_close), unused)) = rg_scope_open()
#define RG_SCOPE() RG_GUARD_(RG_PASTE(rg_scope_, __COUNTER__))
#define RG_FOR_(guard, ...)                                \
    for (RG_GUARD_(guard); guard.once; guard.once = false) \
        for (__VA_ARGS__)                                  \
            if (rg_scope_restart(&guard)) {                \
            } else
#define RG_FOR(...) RG_FOR_(RG_PASTE(rg_for_, __COUNTER__), __VA_ARGS__)

/* ---- errors ---------------------------------------------------------------------------
 * Each thread keeps one failure: the first one that the program hasn't read yet. A later failure is
 * mostly a consequence of the first, and doesn't replace it. For example, if h is NULL, rg_size(h,
 * 0) returns -1, and then rg_zeros(rg_size(h, 0), 5) fails as well. So a program can check once
 * after a chain of calls. rg_error, rg_error_code and rg_error_clear read the failure, and so does
 * a handler that the program has installed; after that, the next failure replaces it. A program
 * that goes on after a failure that it expected, such as a missing file, calls rg_error_clear.
 * While a failure is unread, a function that is given NULL in the place of a tensor or a handle
 * also fails, but adds no failure of its own. After the program has read the failure, the first
 * function that is given NULL fails with its own message, such as "exp: expected a tensor but got
 * NULL". A failure that only a handler has got counts as unread here.
 *
 * A failure that nobody has read is written to standard error, once: when NULL reaches rg_print,
 * rg_item, rg_backward or an optimizer's step, when tensors are saved, or at the latest when the
 * thread or the program ends. REGARD_ERRORS in the environment changes that: `quiet` writes
 * nothing, `trace` adds the functions that were being called, to warnings as well, and `abort`
 * aborts the program. Later failures that aren't consequences are counted; a line names the first.
 *
 * If a function that changes weights or gradients fails (a backward run, an optimizer's step,
 * clipping, a schedule), training is halted until the program reads the failure. Meanwhile steps,
 * clipping and schedules change nothing and return false or NULL, and no tensors are written to a
 * file. The thread still keeps the first failure. A program that writes its own training step does
 * the same with rg_training_halted and rg_halt_training.
 *
 * Every failure goes through rg_fail. In a debugger, `break rg_fail` stops at each. */
typedef enum rg_code {
    RG_OK,
    RG_RUNTIME_ERROR,
    RG_INDEX_ERROR,
    RG_VALUE_ERROR,
    RG_TYPE_ERROR,
    RG_NOT_IMPLEMENTED,
    RG_OUT_OF_MEMORY,
    RG_RELEASED,
    RG_IO_ERROR
} rg_code;

/* rg_error returns the error's message, or "" if there is none. rg_error_code returns its code, or
 * RG_OK. Both stay until rg_error_clear is called or another call fails. */
const char *rg_error(void);
rg_code rg_error_code(void);
/* Returns the error's message, or "", but leaves the failure unread. It is meant for a log, for a
 * function that passes the failure on to its caller, and for the exit status of a program. */
const char *rg_error_peek(void);
/* Returns whether training is halted. A training step that gets true must change nothing and return
 * false. */
bool rg_training_halted(void);
/* Halts training if there is a failure. Always returns false. A training step that fails ends with
 * `return rg_halt_training();`. */
bool rg_halt_training(void);
void rg_error_clear(void);
/* Fails with the message "op: sentence", as the library's own functions do, and returns NULL. An op
 * or a module of yours ends with `return rg_fail(..);` if it fails. */
rg_tensor *rg_fail(rg_code code, const char *op, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* Returns whether t is a tensor that can be used. Fails, with a message that begins with `op`, if t
 * is NULL, RG_NONE or released. */
bool rg_check_tensor(rg_tensor *t, const char *op);

/* An error handler is called with each failure. It either returns or ends the program. If a call
 * fails inside the handler, the handler isn't called for that failure; the first failure stays the
 * thread's error, and the second failure is mentioned on standard error as a later failure. Like
 * every function that the library calls back, the handler must not be left by longjmp or a C++
 * exception: the scopes, the grad mode and the locks of the interrupted call wouldn't be
 * restored. */
typedef void rg_error_handler(rg_code code, const char *message);
/* Installs a handler; NULL removes the present one. Returns the previous handler. */
rg_error_handler *rg_on_error(rg_error_handler *handler);
/* Two ready-made handlers. rg_print_error writes the message to standard error; rg_abort_on_error
 * does the same and then aborts the program. */
void rg_print_error(rg_code code, const char *message);
void rg_abort_on_error(rg_code code, const char *message);

/* A call that succeeds may still give a warning, as in torch; for example, a loss warns that the
 * target has another shape than the input. The warning handler is called with a line such as
 * "mse_loss: Using a target size ..", only once for each distinct line. The default handler is
 * rg_print_warning, which writes the line to standard error. */
typedef void rg_warning_handler(const char *message);
void rg_print_warning(const char *message);
/* Installs a handler of warnings, or turns warnings off if the argument is NULL. Returns the
 * previous handler. After the call, lines that were given before are given again. */
rg_warning_handler *rg_on_warning(rg_warning_handler *handler);

/* ---- shapes ---------------------------------------------------------------------------
 * RG_DIMS(6, 3) is a list of whole numbers: a shape, an index, dims, or a permutation. Where a
 * function takes such numbers one by one, as in rg_zeros(6, 3), a second function with _dims in its
 * name takes the list. If it makes a tensor, it also takes a dtype: rg_zeros_dims(RG_DIMS(2, 3),
 * RG_FLOAT64). rg_zeros(2, 3, RG_FLOAT64) and rg_zeros(RG_DIMS(2, 3)) don't compile, since a dtype
 * and a list are no sizes. rg_zeros((2, 3)), as in Python, makes a tensor of 3 elements, since the
 * value of (2, 3) is 3 in C; with -Wall the compiler warns of the comma. */
typedef struct rg_dims {
    int n;
    int64_t v[RG_MAX_DIMS];
} rg_dims;

#define RG_NO_SIZE_                                                              \
    "neither a dtype nor RG_DIMS is a size: give it to the function with _dims, " \
    "rg_zeros_dims(RG_DIMS(2, 3), dtype)"
#define RG_WHOLE_SIZES_ \
    "sizes, dims and indices are whole numbers: an int, an int64_t or a size_t each"
#ifndef __cplusplus
#define RG_DIMS(...) (__extension__(rg_dims){ RG_COUNT_SIZES_(__VA_ARGS__), { __VA_ARGS__ } })
#define RG_COUNT_SIZES_(...)                                     \
    (RG_CHECK_SIZES_(0 __VA_OPT__(, ) __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0) \
     + (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))
/* Checks up to eight sizes at compile time. The value is 0, so that the macro can stand in a sum.
 * The argument `zero` comes first because the list of sizes may be empty. */
#define RG_CHECK_SIZES_(zero, a, b, c, d, e, f, g, h, ...)                                         \
    (RG_REQUIRE_(RG_IS_WHOLE_(a) && RG_IS_WHOLE_(b) && RG_IS_WHOLE_(c) && RG_IS_WHOLE_(d)          \
                     && RG_IS_WHOLE_(e) && RG_IS_WHOLE_(f) && RG_IS_WHOLE_(g) && RG_IS_WHOLE_(h),  \
                 RG_WHOLE_SIZES_)                                                                  \
     + RG_REQUIRE_(!(RG_NO_SIZE_IS_(a) || RG_NO_SIZE_IS_(b) || RG_NO_SIZE_IS_(c)                   \
                     || RG_NO_SIZE_IS_(d) || RG_NO_SIZE_IS_(e) || RG_NO_SIZE_IS_(f)                \
                     || RG_NO_SIZE_IS_(g) || RG_NO_SIZE_IS_(h)),                                   \
                   RG_NO_SIZE_))
#define RG_NO_SIZE_IS_(x) _Generic((x), rg_dtype : 1, rg_dims : 1, default : 0)
/* RG_IS_WHOLE_(x) is 1 if x has the type of a whole number, else 0. The builtin returns the class
 * of x's type: 1 to 4 for integers, characters, enums and bools, and more for other types. */
#define RG_IS_WHOLE_(x) (__builtin_classify_type(x) < 5)
#endif

/* ---- tensors by name -------------------------------------------------------------------
 * A list of tensors with names, such as a module's state_dict or the tensors of a file. If a
 * function returns such a list, the innermost scope owns the array and the names; .n == -1 means
 * that the function has failed. A program writes a list as
 *
 *     RG_NAMED_LIST({ "weight", w }, { "bias", b })
 *
 * Such a list lives to the end of the block in C, and as long as the innermost scope in C++. The
 * names aren't copied. rg_named_list_of(n, v) is the list of the first n elements of an array. A
 * program needs rg_named_list_of to pass a list to a macro, because the macro would take the comma
 * in (rg_named_list){ n, v } for the end of the argument. */
typedef struct rg_named {
    const char *name;
    rg_tensor *tensor;
} rg_named;
typedef struct rg_named_list {
    int n;
    const rg_named *v;
} rg_named_list;
static inline rg_named_list rg_named_list_of(int n, const rg_named *v) {
    rg_named_list list = { n, v };
    return list;
}
#ifndef __cplusplus
#define RG_NAMED_LIST(...)                                                           \
    ((rg_named_list){ (int)(sizeof((rg_named[]){ __VA_ARGS__ }) / sizeof(rg_named)), \
                      (const rg_named[]){ __VA_ARGS__ } })
#endif

/* ---- making --------------------------------------------------------------------------- */

/* Return new tensors of a shape. The elements of rg_empty are uninitialised, but bools are 0. */
rg_tensor *rg_empty_dims(rg_dims shape, rg_dtype dtype);
rg_tensor *rg_zeros_dims(rg_dims shape, rg_dtype dtype);
rg_tensor *rg_ones_dims(rg_dims shape, rg_dtype dtype);
rg_tensor *rg_full_dims(rg_dims shape, rg_tensor *value, rg_dtype dtype);
#define rg_empty(...) rg_empty_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype())
#define rg_zeros(...) rg_zeros_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype())
#define rg_ones(...)  rg_ones_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype())
/* Returns a tensor in which all elements are `value`. Its dtype is the dtype of `value`, or the
 * default dtype if `value` is floating. */
rg_tensor *rg_full(rg_dims shape, rg_tensor *value);
/* Return a tensor with x's shape and dtype, whose dims have the same order in memory as x's dims.
 * The elements of rg_empty_like are uninitialised, but bools are 0. */
rg_tensor *rg_empty_like(rg_tensor *x);
rg_tensor *rg_zeros_like(rg_tensor *x);
rg_tensor *rg_ones_like(rg_tensor *x);
rg_tensor *rg_full_like(rg_tensor *x, rg_tensor *value);

/* rg_arange returns the numbers 0, 1, 2, .. below `end`. rg_arange_step returns start, start +
 * step, start + 2 * step, .. as far as `end`, which is not included. */
rg_tensor *rg_arange(rg_tensor *end);
rg_tensor *rg_arange_step(rg_tensor *start, rg_tensor *end, rg_tensor *step);
/* Return the same numbers in a dtype. For int64, start, end and step are truncated first. */
rg_tensor *rg_arange_as(rg_tensor *end, rg_dtype dtype);
rg_tensor *rg_arange_step_as(rg_tensor *start, rg_tensor *end, rg_tensor *step, rg_dtype dtype);
/* rg_linspace returns `steps` evenly spaced numbers, the first start and the last end (or start, if
 * steps is 1). 16 bits are rounded from float32. rg_logspace returns base to the power of each. */
rg_tensor *rg_linspace(double start, double end, int64_t steps, rg_dtype dtype);
rg_tensor *rg_logspace(double start, double end, int64_t steps, double base, rg_dtype dtype);
/* Return a matrix of n rows and m columns, with ones on the diagonal and zeros elsewhere. */
rg_tensor *rg_eye(int64_t n, int64_t m);
rg_tensor *rg_eye_as(int64_t n, int64_t m, rg_dtype dtype);
/* Return a number as an ordinary 0-d tensor, which isn't weak in type promotion. */
rg_tensor *rg_scalar(rg_tensor *number);
rg_tensor *rg_scalar_dtype(double number, rg_dtype dtype);

/* rg_literal([[1, 0], [0, 2.5]]) makes a tensor from numbers that are written as in Python. It
 * can't read variables; rg_from makes a tensor from their values. torch.tensor's rules determine
 * the dtype, unless it is given (rg_literal_as). rg_parse makes a tensor from a string: a literal,
 * or what torch, NumPy or TensorFlow prints for a tensor. Floats in array(..) without a dtype are
 * float64, as in NumPy. */
rg_tensor *rg_parse(const char *text);
rg_tensor *rg_parse_dtype(const char *text, rg_dtype dtype);
#define rg_literal(...)           rg_parse(#__VA_ARGS__)
#define rg_literal_as(dtype, ...) rg_parse_dtype(#__VA_ARGS__, dtype)

/* rg_from makes a tensor from an array of elements in row-major order: float w[6]; rg_from(w, 2,
 * 3). The elements are copied. An int becomes an int64. In C a literal array has parentheses around
 * it, since its commas would separate arguments: rg_from(((float[]){ 1, 2 }), 2). */
rg_tensor *rg_from_dims(const void *data, rg_dtype dtype, rg_dims shape);
rg_tensor *rg_from_float(const float *data, rg_dims shape);
rg_tensor *rg_from_double(const double *data, rg_dims shape);
rg_tensor *rg_from_int64(const int64_t *data, rg_dims shape);
rg_tensor *rg_from_int(const int *data, rg_dims shape);
rg_tensor *rg_from_bool(const bool *data, rg_dims shape);
rg_tensor *rg_from_uint8(const uint8_t *data, rg_dims shape);

/* The default dtype is the dtype of tensors that are made without a given dtype. It is RG_FLOAT32
 * unless the program sets another floating dtype. rg_set_default_dtype returns false on failure. */
rg_dtype rg_default_dtype(void);
bool rg_set_default_dtype(rg_dtype dtype);

/* ---- reading -------------------------------------------------------------------------- */

/* Return the number of dims, a size, a stride in elements, the number of elements, the dtype, and
 * how often the tensor's memory was written to. They return -1 on failure. */
int rg_ndim(rg_tensor *t);
int64_t rg_size(rg_tensor *t, int dim);
int64_t rg_stride(rg_tensor *t, int dim);
int64_t rg_numel(rg_tensor *t);
int rg_dtype_of(rg_tensor *t);
int64_t rg_version(rg_tensor *t);
/* Returns the shape. On failure returns a list with .n == -1. */
rg_dims rg_shape(rg_tensor *t);
/* rg_is_contiguous returns whether t is contiguous, and rg_is_floating_point whether its dtype is
 * floating. They return false on failure. */
bool rg_is_contiguous(rg_tensor *t);
bool rg_is_floating_point(rg_tensor *t);

/* Return the element of a tensor that has one element. On failure rg_item returns NaN, and
 * rg_item_int returns -1. */
double rg_item(rg_tensor *t);
int64_t rg_item_int(rg_tensor *t);
/* Returns the element at an index: rg_at(t, 0, 2). Returns NaN on failure. */
double rg_at_dims(rg_tensor *t, rg_dims index);
#define rg_at(t, ...) rg_at_dims(t, RG_DIMS(__VA_ARGS__))
/* rg_data_as(float, t) returns a float *, which points to t's elements in the tensor's own memory,
 * in row-major order. The type is float for RG_FLOAT32, double for RG_FLOAT64, int64_t for
 * RG_INT64, uint8_t for RG_UINT8 and bool for RG_BOOL, and may be const. Fails and returns NULL if
 * t has another dtype or isn't contiguous: rg_float(t) or rg_double(t) converts a tensor first, and
 * rg_contiguous(t) orders its elements. rg_data_as calls rg_data_as_dtype. Writes through the
 * pointer aren't noticed by graphs that saved t, by an optimizer's master or by a kept cast. */
void *rg_data_as_dtype(rg_tensor *t, rg_dtype dtype);
/* Returns a pointer to the first element in the tensor's own memory, whatever t's dtype and strides
 * are. A pointer of the wrong type reads wrong numbers, without an error. Strides say where the
 * other elements are. Returns NULL on failure. */
void *rg_data(rg_tensor *t);
/* Copies all elements in row-major order to `to`, which has room for `bytes` bytes. Returns false
 * on failure, for example if the elements don't fit. */
bool rg_copy_out(rg_tensor *t, void *to, size_t bytes);

/* Returns whether a and b have the same shape and equal elements. Returns false on failure. */
bool rg_equal(rg_tensor *a, rg_tensor *b);
/* Broadcasts a and b, and returns whether |a - b| <= atol + rtol * |b| for all elements. Returns
 * false on failure. */
bool rg_allclose(rg_tensor *a, rg_tensor *b, double rtol, double atol);

/* Returns a name such as "torch.float32". */
const char *rg_dtype_name(rg_dtype dtype);
/* Return the dtype to which a and b are promoted. They return -1 on failure. */
int rg_promote_types(rg_dtype a, rg_dtype b);
int rg_result_type(rg_tensor *a, rg_tensor *b);
/* A tensor's name appears in error messages and drawings. If name is NULL, rg_set_name removes it.
 * rg_name returns "" if there is no name; its string lives until the next rg_set_name. */
rg_tensor *rg_set_name(rg_tensor *t, const char *name);
const char *rg_name(rg_tensor *t);

/* ---- random numbers: torch's mt19937 ---------------------------------------------------
 * After rg_manual_seed(123), rg_rand(6, 3) has the values that torch.rand(6, 3) has after
 * torch.manual_seed(123). All threads share the default generator, as in torch. A thread that needs
 * numbers of its own makes a generator. */
void rg_manual_seed(uint64_t seed);
uint64_t rg_initial_seed(void);
rg_generator *rg_default_generator(void);
/* Returns a generator, which the program releases by rg_generator_free. A function that is given a
 * released generator fails with RG_RELEASED, unless the memory is already used for something else.
 * rg_generator_seed returns false on failure. */
rg_generator *rg_generator_new(uint64_t seed);
void rg_generator_free(rg_generator *g);
bool rg_generator_seed(rg_generator *g, uint64_t seed);
/* Get or set a generator's state: an int64 tensor like torch.get_rng_state().view(torch.int64).
 * rg_generator_set_state returns false on failure. */
rg_tensor *rg_generator_state(rg_generator *g);
bool rg_generator_set_state(rg_generator *g, rg_tensor *state);

/* rg_rand draws from the uniform distribution on [0, 1), and rg_randn from the normal distribution
 * with mean 0 and standard deviation 1. rg_randint draws integers from low to high - 1. rg_randperm
 * returns the integers from 0 to n - 1 in random order. rg_multinomial draws indices; each row of
 * `weights` has the weights of the indices. A function whose name ends with _ fills t with random
 * numbers, and returns t. (rg_bernoulli is in autograd/ops/ops.h.) */
rg_tensor *rg_rand_dims(rg_dims shape, rg_dtype dtype, rg_generator *g);
rg_tensor *rg_randn_dims(rg_dims shape, rg_dtype dtype, rg_generator *g);
#define rg_rand(...) rg_rand_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype(), rg_default_generator())
#define rg_randn(...) \
    rg_randn_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype(), rg_default_generator())
rg_tensor *rg_rand_like(rg_tensor *x);
rg_tensor *rg_randn_like(rg_tensor *x);
rg_tensor *rg_randint_dims(int64_t low, int64_t high, rg_dims shape, rg_dtype dtype,
                           rg_generator *g);
#define rg_randint(low, high, ...) \
    rg_randint_dims(low, high, RG_DIMS(__VA_ARGS__), RG_INT64, rg_default_generator())
rg_tensor *rg_randperm_with(int64_t n, rg_generator *g);
#define rg_randperm(n) rg_randperm_with(n, rg_default_generator())
rg_tensor *rg_multinomial_with(rg_tensor *weights, int64_t draws, bool replacement,
                               rg_generator *g);
#define rg_multinomial(weights, draws, replacement) \
    rg_multinomial_with(weights, draws, replacement, rg_default_generator())
rg_tensor *rg_uniform_with_(rg_tensor *t, double low, double high, rg_generator *g);
#define rg_uniform_(t, low, high) rg_uniform_with_(t, low, high, rg_default_generator())
rg_tensor *rg_normal_with_(rg_tensor *t, double mean, double std, rg_generator *g);
#define rg_normal_(t, mean, std) rg_normal_with_(t, mean, std, rg_default_generator())
rg_tensor *rg_trunc_normal_with_(rg_tensor *t, double mean, double std, double low, double high,
                                 rg_generator *g);
#define rg_trunc_normal_(t, mean, std, low, high) \
    rg_trunc_normal_with_(t, mean, std, low, high, rg_default_generator())
rg_tensor *rg_exponential_with_(rg_tensor *t, double rate, rg_generator *g);
#define rg_exponential_(t, rate) rg_exponential_with_(t, rate, rg_default_generator())
rg_tensor *rg_bernoulli_with_(rg_tensor *t, double p, rg_generator *g);
#define rg_bernoulli_(t, p) rg_bernoulli_with_(t, p, rg_default_generator())

/* ---- memory ---------------------------------------------------------------------------- */
typedef struct rg_memory {
    int64_t now, peak;                       /* The bytes in use now, and their peak since the last
                                              * rg_memory_reset_peak. */
    int64_t headers, storages, nodes, other; /* The bytes in use now, by purpose. */
    int64_t system_calls;                    /* The number of requests for memory that were passed
                                              * on to the system. */
} rg_memory;

/* Returns the number of tensors that exist in all threads. */
int64_t rg_live_tensors(void);
rg_memory rg_memory_stats(void);
void rg_memory_reset_peak(void);
/* Returns this thread's large free blocks to the system. */
void rg_memory_trim(void);
/* For tests: lets the thread's n-th request for memory from now on fail, or none if n is 0. */
void rg_memory_fail_at(int64_t n);

/* ---- threads --------------------------------------------------------------------------
 * No result depends on the number of threads. The default is the number in the environment variable
 * REGARD_THREADS, or else in REGARD_NUM_THREADS, or else in OMP_NUM_THREADS. A value that isn't a
 * positive number is ignored, with a warning. If no variable has a valid value, the default is the
 * number of cores that the process may use. */

/* Sets how many threads compute. Returns false if n isn't positive. */
bool rg_set_num_threads(int n);
int rg_get_num_threads(void);

/* Set and get the precision of products of float32 matrices: "highest" (the default), "high" or
 * "medium". rg_set_float32_matmul_precision returns false on failure.
 *
 * "highest" and "high" both multiply in float32. "medium" rounds the factors to the nearest
 * bfloat16, which has 8 significant bits, and adds in float32. This is done for products with at
 * least 16 rows, 16 columns and 32 terms, and for the products that compute their gradients. The
 * error is at most 2^-7 times the sum of |a * b|. Factors below 2^-126 count as 0, and factors
 * above 3.396e38 as infinite. "medium" needs a processor with AVX512-BF16; other processors
 * multiply in float32. A replay uses the precision that is set when it runs. */
bool rg_set_float32_matmul_precision(const char *precision);
const char *rg_get_float32_matmul_precision(void);

/* ---- numbers where a tensor is expected -----------------------------------------------
 * Many functions also take a number in place of a tensor, as in rg_add(x, 1). Such a number is weak
 * in type promotion, as Python's numbers are in torch. The tensors and these numbers are evaluated
 * once, from left to right. A number that int64 can't hold, such as 18446744073709551615ull, is an
 * error. In C11, `true` is the int 1, so write (bool)1 for Python's True. In C++, write nullptr,
 * not NULL, for a tensor that couldn't be made, since NULL is a number there. */
rg_tensor *rg_wrap_float(double x);
rg_tensor *rg_wrap_int(int64_t x);
rg_tensor *rg_wrap_unsigned(uint64_t x);
rg_tensor *rg_wrap_bool(bool x);
static inline rg_tensor *rg_wrap_tensor(rg_tensor *t) { return t; }
/* Takes an argument of type void *: NULL, or a callback's context that points to a tensor. */
static inline rg_tensor *rg_wrap_void(const void *t) { return (rg_tensor *)(uintptr_t)t; }

RG_PUBLIC_END

#include "text/print.h"
#include "arguments/arguments.h"

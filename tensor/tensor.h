/*
 * tensor.h: numbers in n dimensions, and what every program needs around them.
 *
 *   scopes        who owns what a function returns, and until when
 *   errors        what a failed call leaves behind
 *   shapes        RG_DIMS and the variadic forms
 *   making        zeros, full, arange, literals, copies from memory
 *   looking       sizes, dtype, elements
 *   random        torch's streams
 *   printing      torch's text, NumPy's, and back
 *   memory        what is alive and how much it takes
 *   threads       how many do the work
 *
 * Functions that differentiate, and those that write in place, are in
 * autograd/ops/ops.h. A name is PyTorch's with rg_ before it; a trailing _ says that
 * the function changes its first argument and returns it.
 *
 * Every function that returns a tensor or a string gives it to the innermost
 * scope of the thread. Where a call fails it returns NULL, and rg_error() says
 * why; where it returns no pointer, the line above it says what it gives instead.
 *
 * This file is long because it is the manual of all that a tensor is, beside the ops.
 */
#pragma once

#include "keywords.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library exports what stands between these two. */
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

#define RG_MAX_DIMS 8

typedef struct rg_tensor rg_tensor;
typedef struct rg_generator rg_generator;

/* The type is as small as can be, and signed, so that no type of C but int8_t is the same. By it
 * the compiler tells a dtype from a size, and refuses one that stands among sizes. */
typedef enum __attribute__((packed)) rg_dtype {
    RG_NO_DTYPE = -1, /* A function that returns a dtype as an int gives this where it fails. */
    RG_BOOL,
    RG_INT64,
    RG_FLOAT32,
    RG_FLOAT64
} rg_dtype;
#ifndef __cplusplus /* In C an enum's constants are ints; these macros have the enum's type. */
#define RG_BOOL    ((rg_dtype)RG_BOOL)
#define RG_INT64   ((rg_dtype)RG_INT64)
#define RG_FLOAT32 ((rg_dtype)RG_FLOAT32)
#define RG_FLOAT64 ((rg_dtype)RG_FLOAT64)
#endif

/* RG_NONE stands for what is absent: no bias, no mask. NULL always means that something failed. */
extern rg_tensor rg_none_;
#define RG_NONE (&rg_none_)

/* A handle is a block of memory that a program holds beside its tensors: a module, an optimizer, a
 * generator. It begins with this header, which only the library reads and writes. The header lasts
 * while the memory isn't in use for something else, so that a use after the release is noticed. */
typedef struct rg_handle {
    void *reserved; /* Free memory is chained up here. */
    uint32_t kind;
    bool released;
} rg_handle;

/* A list of tensors: RG_LIST(a, b, c), which ops.h describes. */
typedef struct rg_list {
    int n;
    rg_tensor *const *v;
} rg_list;

/* ---- scopes ---------------------------------------------------------------------------
 * A scope owns what was returned since it began. RG_SCOPE(); opens one that lasts to the
 * end of the C block, however that is left. RG_FOR opens one for each iteration:
 *
 *     RG_FOR (int step = 0; step < 1000; step++) { ... }
 *
 * What stands in the parentheses is outside: a tensor that is made there is gone when the
 * body begins.
 */

/* Begins a scope, and returns the mark to end it with. */
size_t rg_scope_begin(void);
/* Ends the scope, and those inside it. */
void rg_scope_end(size_t mark);
/* Takes t out of its scope, until rg_drop. */
rg_tensor *rg_keep(rg_tensor *t);
/* Releases at once what was kept, or what a scope owns. */
void rg_drop(rg_tensor *t);
/* Hands t to the scope outside: return rg_escape(y); */
rg_tensor *rg_escape(rg_tensor *t);
/* Returns a copy of the memory, which the innermost scope owns: what is to live as long as the
 * scope's tensors do, as the array of a list in C++. Returns NULL on failure. */
void *rg_scope_copy(const void *from, size_t bytes);

/* RG_SCOPE and RG_FOR are made of these. rg_scope_restart always returns false. */
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
 * The thread keeps one failure: the first that nobody has looked at. What fails after it, such as
 * rg_zeros(rg_size(h, 0), 5) where h is NULL and its size -1, mostly follows from it and doesn't
 * take its place, so that a chain of calls needs one check. Whoever calls rg_error, rg_error_code
 * or rg_error_clear has looked, and the next failure takes the place; a handler has looked at
 * each failure. A program that goes on after a failure that it expected, such as a file that isn't
 * there, calls rg_error_clear. A NULL argument is no failure of its own where one stands: it gives
 * a NULL result.
 *
 * A failure that nobody has looked at is told on standard error, once: where NULL reaches rg_print,
 * rg_item, rg_backward or an optimizer's step, where tensors are saved, or at the latest where the
 * thread or the program ends. REGARD_ERRORS in the environment may be `quiet`, `trace`, which also
 * tells the functions that were being called, or `abort`, which stops the program at the failure.
 *
 * Where a backward run, an optimizer's step, clipping, a schedule or another function that changes
 * weights or gradients fails, training is halted until somebody looks: steps, clipping and
 * schedules return false, or NULL, and change nothing, and no tensors are written to a file. The
 * error is still the first failure. A program's own step of training does the same with
 * rg_training_halted and rg_halt_training.
 *
 * Every failure passes through rg_fail: in a debugger, `break rg_fail` stops where it happens. */
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

/* Returns the error's one line, or "" if nothing failed. */
const char *rg_error(void);
/* Returns the same line and leaves it unread: for a log, or for a function that passes the failure
 * on to its caller. */
const char *rg_error_peek(void);
rg_code rg_error_code(void);
/* Returns whether training is halted: then a step must change nothing, and return false. */
bool rg_training_halted(void);
/* Halts training, where a failure stands, and returns false: a step that fails ends with
 * `return rg_halt_training();`. */
bool rg_halt_training(void);
void rg_error_clear(void);
/* Fails with a sentence of your own, "op: sentence", as a function of regard fails: an op or a
 * module of yours returns what this returns, which is NULL. */
rg_tensor *rg_fail(rg_code code, const char *op, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* A handler is called with each failure; it returns, or ends the program. As any function that the
 * library calls back, it must not be left by longjmp or by an exception of C++: scopes, grad mode
 * and locks would stay as the call that is under way has set them. */
typedef void rg_error_handler(rg_code code, const char *message);
/* Installs a handler, or none for NULL, and returns the one before. */
rg_error_handler *rg_on_error(rg_error_handler *handler);
/* Two handlers: one writes the line to standard error, and the other also aborts the program. */
void rg_print_error(rg_code code, const char *message);
void rg_abort_on_error(rg_code code, const char *message);

/* A call that succeeds may still warn, as torch does: a loss says that the target has another
 * shape. A handler is called with "mse_loss: Using a target size ..", once for each place, which is
 * a function and its sentence, shapes and all; it returns. At first that is rg_print_warning, which
 * writes a line to stderr. */
typedef void rg_warning_handler(const char *message);
void rg_print_warning(const char *message);
/* Installs a handler, or none for NULL, and returns the one before. Each place warns anew then. */
rg_warning_handler *rg_on_warning(rg_warning_handler *handler);

/* ---- shapes ---------------------------------------------------------------------------
 * RG_DIMS(6, 3) is a list of numbers: a shape, some dims, a permutation. Where a function
 * takes its numbers one by one, as in rg_zeros(6, 3), the function with _dims behind its
 * name takes the list. Where it makes a tensor, that one takes the dtype, too:
 * rg_zeros_dims(RG_DIMS(2, 3), RG_FLOAT64). The compiler refuses rg_zeros(2, 3, RG_FLOAT64),
 * since a dtype is no size. */
typedef struct rg_dims {
    int n;
    int64_t v[RG_MAX_DIMS];
} rg_dims;

#define RG_NO_SIZE_ \
    "a dtype is no size: give it to the function with _dims, rg_zeros_dims(RG_DIMS(2, 3), dtype)"
#define RG_WHOLE_SIZES_ \
    "sizes, dims and indices are whole numbers: an int, an int64_t or a size_t each"
#ifndef __cplusplus
#define RG_DIMS(...) ((rg_dims){ RG_COUNT_SIZES_(__VA_ARGS__), { __VA_ARGS__ } })
#define RG_COUNT_SIZES_(...)                                     \
    ((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) \
     + RG_CHECK_SIZES_(0 __VA_OPT__(, ) __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0))
/* The value is 0: the macro only checks the sizes. A 0 of its own comes before them, lest there be
 * none. */
#define RG_CHECK_SIZES_(zero, a, b, c, d, e, f, g, h, ...)                                         \
    (RG_REQUIRE_(RG_IS_WHOLE_(a) && RG_IS_WHOLE_(b) && RG_IS_WHOLE_(c) && RG_IS_WHOLE_(d)          \
                     && RG_IS_WHOLE_(e) && RG_IS_WHOLE_(f) && RG_IS_WHOLE_(g) && RG_IS_WHOLE_(h),  \
                 RG_WHOLE_SIZES_)                                                                  \
     + RG_REQUIRE_(!(RG_IS_DTYPE_(a) || RG_IS_DTYPE_(b) || RG_IS_DTYPE_(c) || RG_IS_DTYPE_(d)      \
                     || RG_IS_DTYPE_(e) || RG_IS_DTYPE_(f) || RG_IS_DTYPE_(g) || RG_IS_DTYPE_(h)), \
                   RG_NO_SIZE_))
#define RG_IS_DTYPE_(x) _Generic((x), rg_dtype : 1, default : 0)
/* A conditional has the type to which a short number, or a few bits of one, are promoted. */
#define RG_IS_WHOLE_(x)                                                                        \
    _Generic((1 ? (x) : 0), int : 1, unsigned : 1, long : 1, unsigned long : 1, long long : 1, \
             unsigned long long : 1, default : 0)
#endif

/* ---- tensors by name -------------------------------------------------------------------
 * A module's state_dict and what is in a file are such lists. The scope owns the array and the
 * names; a list with .n == -1 means failure. A program writes one as
 *
 *     RG_NAMED_LIST({ "weight", w }, { "bias", b })
 *
 * which lives to the end of its block, in C++ as long as the innermost scope (the names aren't
 * copied); or as
 * rg_named_list_of(n, v) for an array's first n; also within a macro, which takes the comma of
 * (rg_named_list){ n, v } for one between its own arguments. */
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

/* The elements of an empty tensor have no value yet. */
rg_tensor *rg_empty_dims(rg_dims shape, rg_dtype dtype);
rg_tensor *rg_zeros_dims(rg_dims shape, rg_dtype dtype);
rg_tensor *rg_ones_dims(rg_dims shape, rg_dtype dtype);
rg_tensor *rg_full_dims(rg_dims shape, rg_tensor *value, rg_dtype dtype);
#define rg_empty(...) rg_empty_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype())
#define rg_zeros(...) rg_zeros_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype())
#define rg_ones(...)  rg_ones_dims(RG_DIMS(__VA_ARGS__), rg_default_dtype())
/* The result has the value's dtype, or the default one if the value is a float. */
rg_tensor *rg_full(rg_dims shape, rg_tensor *value);
rg_tensor *rg_empty_like(rg_tensor *x); /* These four have x's order of the dims in memory, too. */
rg_tensor *rg_zeros_like(rg_tensor *x);
rg_tensor *rg_ones_like(rg_tensor *x);
rg_tensor *rg_full_like(rg_tensor *x, rg_tensor *value);

/* Return 0, 1, 2 and so on, below end; and start, start + step and so on, before end. */
rg_tensor *rg_arange(rg_tensor *end);
rg_tensor *rg_arange_step(rg_tensor *start, rg_tensor *end, rg_tensor *step);
/* Return the same in a dtype. For int64 the three numbers lose their fractions first. */
rg_tensor *rg_arange_as(rg_tensor *end, rg_dtype dtype);
rg_tensor *rg_arange_step_as(rg_tensor *start, rg_tensor *end, rg_tensor *step, rg_dtype dtype);
/* Return evenly spaced numbers from start to end, and base to the power of each. */
rg_tensor *rg_linspace(double start, double end, int64_t steps, rg_dtype dtype);
rg_tensor *rg_logspace(double start, double end, int64_t steps, double base, rg_dtype dtype);
/* Returns n rows and m columns with ones on the diagonal. */
rg_tensor *rg_eye(int64_t n, int64_t m);
rg_tensor *rg_eye_as(int64_t n, int64_t m, rg_dtype dtype);
/* Both return a number as an ordinary 0-d tensor. */
rg_tensor *rg_scalar(rg_tensor *number);
rg_tensor *rg_scalar_dtype(double number, rg_dtype dtype);

/* A literal is the notebook's own text: rg_literal([[1, 0], [0, 2.5]]). Its dtype is inferred, as
 * torch.tensor does, or given. rg_parse reads torch's and NumPy's text, too. */
rg_tensor *rg_parse(const char *text);
rg_tensor *rg_parse_dtype(const char *text, rg_dtype dtype);
#define rg_literal(...)           rg_parse(#__VA_ARGS__)
#define rg_literal_as(dtype, ...) rg_parse_dtype(#__VA_ARGS__, dtype)

/* Copies from memory, row by row: float w[6]; rg_from(w, 2, 3). An int becomes an int64. */
rg_tensor *rg_from_dims(const void *data, rg_dtype dtype, rg_dims shape);
rg_tensor *rg_from_float(const float *data, rg_dims shape);
rg_tensor *rg_from_double(const double *data, rg_dims shape);
rg_tensor *rg_from_int64(const int64_t *data, rg_dims shape);
rg_tensor *rg_from_int(const int *data, rg_dims shape);
rg_tensor *rg_from_bool(const bool *data, rg_dims shape);

/* A tensor that is made without a dtype gets this one: RG_FLOAT32, until another floating one is
 * set. */
rg_dtype rg_default_dtype(void);
bool rg_set_default_dtype(rg_dtype dtype);

/* ---- looking -------------------------------------------------------------------------- */

/* Return -1 where they fail. A stride counts elements; the version counts the writes to the
 * tensor's memory. */
int rg_ndim(rg_tensor *t);
int64_t rg_size(rg_tensor *t, int dim);
int64_t rg_stride(rg_tensor *t, int dim);
int64_t rg_numel(rg_tensor *t);
int rg_dtype_of(rg_tensor *t);
int64_t rg_version(rg_tensor *t);
/* Returns a list whose n is -1 where it fails. */
rg_dims rg_shape(rg_tensor *t);
/* Return false where they fail. */
bool rg_is_contiguous(rg_tensor *t);
bool rg_is_floating_point(rg_tensor *t);

/* Both return the one element that there is, or, where the call fails, NaN and -1. */
double rg_item(rg_tensor *t);
int64_t rg_item_int(rg_tensor *t);
/* Returns one element of many, or NaN. */
double rg_at_dims(rg_tensor *t, rg_dims index);
#define rg_at(t, ...) rg_at_dims(t, RG_DIMS(__VA_ARGS__))
/* Returns a pointer to the first element itself, not to a copy; the strides say where the others
 * lie: rg_contiguous(t) has them row by row. */
void *rg_data(rg_tensor *t);
/* Copies the elements row by row. Returns false where they don't fit. */
bool rg_copy_out(rg_tensor *t, void *to, size_t bytes);

/* Returns whether shapes and elements are the same. */
bool rg_equal(rg_tensor *a, rg_tensor *b);
/* Returns whether |a - b| <= atol + rtol |b| for all elements, as they broadcast. */
bool rg_allclose(rg_tensor *a, rg_tensor *b, double rtol, double atol);

/* Returns a name such as "torch.float32". */
const char *rg_dtype_name(rg_dtype dtype);
/* Return the dtype to which both are promoted, or -1. */
int rg_promote_types(rg_dtype a, rg_dtype b);
int rg_result_type(rg_tensor *a, rg_tensor *b);
/* A name appears in errors and drawings; it is "" for a tensor without one. */
rg_tensor *rg_set_name(rg_tensor *t, const char *name);
const char *rg_name(rg_tensor *t);

/* ---- random numbers: torch's mt19937 ---------------------------------------------------
 * After rg_manual_seed(123), rg_rand(6, 3) is torch.rand(6, 3). All threads share the default
 * generator, as in torch: a thread that needs numbers of its own makes a generator. */
void rg_manual_seed(uint64_t seed);
uint64_t rg_initial_seed(void);
rg_generator *rg_default_generator(void);
/* Returns a generator to be released with rg_generator_free. A use after that is noticed
 * (RG_RELEASED) only while the memory isn't in use for something else. */
rg_generator *rg_generator_new(uint64_t seed);
void rg_generator_free(rg_generator *g);
bool rg_generator_seed(rg_generator *g, uint64_t seed);
/* The state is that of torch.get_rng_state().view(torch.int64). */
rg_tensor *rg_generator_state(rg_generator *g);
bool rg_generator_set_state(rg_generator *g, rg_tensor *state);

/* rg_rand draws uniform numbers in [0, 1), and rg_randn normal ones with the mean 0 and the
 * standard deviation 1. rg_randint draws integers from low to high - 1, and rg_randperm shuffles
 * those from 0 to n - 1. rg_bernoulli gives 1 with the probabilities in p, else 0; rg_multinomial
 * draws indices by each row's weights. A function whose name ends with _ fills t. */
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
rg_tensor *rg_bernoulli_with(rg_tensor *p, rg_generator *g);
#define rg_bernoulli(p) rg_bernoulli_with(p, rg_default_generator())
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

/* ---- printing --------------------------------------------------------------------------
 * A string belongs to the innermost scope, as a tensor does. */
typedef struct rg_printoptions {
    int precision, threshold, edgeitems, linewidth;
    int sci_mode; /* Exponents are written never (0), always (1) or where it is better (-1). */
} rg_printoptions;

/* Writes rg_repr and a line feed to standard output, and flushes it. It returns nothing: where the
 * output is full or closed, rg_error tells. */
void rg_print(rg_tensor *t);
/* Returns the text that torch prints. */
const char *rg_repr(rg_tensor *t);
/* Returns a text such as torch.Size([6, 3]). */
const char *rg_repr_shape(rg_tensor *t);
/* Returns NumPy's text, such as [[1. 0.]\n [0. 2.]] */
const char *rg_repr_numpy(rg_tensor *t);
/* Returns TensorFlow's text, such as tf.Tensor([1. 0.], shape=(2,), dtype=float32). */
const char *rg_repr_tf(rg_tensor *t);
/* Returns the text that Python's format() does: for a 0-d tensor, the number alone. */
const char *rg_str(rg_tensor *t);
rg_printoptions rg_get_printoptions(void);
void rg_set_printoptions(rg_printoptions options);

/* ---- memory ---------------------------------------------------------------------------- */
typedef struct rg_memory {
    int64_t now, peak;                       /* The bytes in use now, and their peak. */
    int64_t headers, storages, nodes, other; /* The bytes in use now are for these. */
    int64_t system_calls;                    /* The requests that were passed on to the system. */
} rg_memory;

/* Returns how many tensors are alive, in all threads. */
int64_t rg_live_tensors(void);
rg_memory rg_memory_stats(void);
void rg_memory_reset_peak(void);
/* Gives the system back the large blocks that the thread isn't using. */
void rg_memory_trim(void);
/* Makes this thread's n-th request from now fail, once, as a test wants it; 0 takes that back. */
void rg_memory_fail_at(int64_t n);

/* ---- threads --------------------------------------------------------------------------
 * No result changes with their number. At first there are as many as the process has cores, or
 * as REGARD_THREADS in the environment says, or else REGARD_NUM_THREADS or OMP_NUM_THREADS. A value
 * that is no number above 0 counts as absent, with a warning. */

/* Returns false where n isn't positive. */
bool rg_set_num_threads(int n);
int rg_get_num_threads(void);

/* "highest", which is set at first, and "high" multiply in float32. "medium" is for products of
 * float32 of at least 16 rows, 16 columns and 32 steps, and for the products that their gradients
 * take: what they multiply is rounded to the nearest bfloat16, which has 8 bits, and summed in
 * float32. The error is up to 2^-7 of the sum of |a b|. What is below 2^-126 counts as 0, and what
 * is above 3.396e38 as infinite. "medium" needs a processor with AVX512-BF16; others go on in
 * float32. A replay goes by what is set when it runs. */
bool rg_set_float32_matmul_precision(const char *precision);
const char *rg_get_float32_matmul_precision(void);

/* ---- numbers where a tensor is expected -----------------------------------------------
 * The macros below let a number stand where a tensor may: rg_add(x, 1). Such a number stays
 * weak in type promotion, as Python's do in torch. Each argument is evaluated once, from left
 * to right. A number that int64 can't hold, 18446744073709551615ull, is an error. In C11
 * `true` is the int 1: Python's True is (bool)1. In C++ what failed is nullptr, since NULL
 * is a number there. */
rg_tensor *rg_wrap_float(double x);
rg_tensor *rg_wrap_int(int64_t x);
rg_tensor *rg_wrap_unsigned(uint64_t x);
rg_tensor *rg_wrap_bool(bool x);
static inline rg_tensor *rg_wrap_tensor(rg_tensor *t) { return t; }
/* An argument of the type void * is NULL, or a context that is a tensor. */
static inline rg_tensor *rg_wrap_void(const void *t) { return (rg_tensor *)(uintptr_t)t; }

#define RG_TENSOR_OR_NUMBER_ "a tensor (an rg_tensor *) or a number belongs here"
#ifdef __cplusplus
#define RG_WRAP(x) rg_wrap(x)
#else
/* clang-format off */
/* Chooses by the type of x. Where it is neither a tensor nor a number, that is `other`. */
#define RG_BY_TYPE_(x, tensor, absent, yes_no, fraction, whole, large, other)           \
    _Generic((x),                                                                       \
        rg_tensor *: tensor, void *: absent, const void *: absent, _Bool: yes_no,       \
        float: fraction, double: fraction, long double: fraction,                       \
        char: whole, signed char: whole, unsigned char: whole, short: whole,            \
        unsigned short: whole, int: whole, unsigned: whole, long: whole,                \
        long long: whole, unsigned long: large, unsigned long long: large, default: other)
/* clang-format on */
#define RG_WRAP(x)                                                                          \
    ((void)RG_REQUIRE_OF_(RG_BY_TYPE_(x, 1, 1, 1, 1, 1, 1, 0), RG_TENSOR_OR_NUMBER_),       \
     RG_BY_TYPE_(x, rg_wrap_tensor, rg_wrap_void, rg_wrap_bool, rg_wrap_float, rg_wrap_int, \
                 rg_wrap_unsigned, rg_wrap_void)(x))
#endif

/* RG_T1, RG_T2 and RG_T3 call f with what a, b and c become, and evaluate these once and from left
 * to right. In C++ so do braces, and what stands in them lives to the end of the whole expression.
 */
#ifdef __cplusplus
#define RG_T1(f, a)       (rg_in_order{ RG_WRAP(a) }.one(f))
#define RG_T2(f, a, b)    (rg_in_order{ RG_WRAP(a), RG_WRAP(b) }.two(f))
#define RG_T3(f, a, b, c) (rg_in_order{ RG_WRAP(a), RG_WRAP(b), RG_WRAP(c) }.three(f))
#else
#define RG_T1(f, a)    RG_T1_(f, RG_PASTE(rg_a, __COUNTER__), a)
#define RG_T2(f, a, b) RG_T2_(f, RG_PASTE(rg_a, __COUNTER__), a, RG_PASTE(rg_b, __COUNTER__), b)
#define RG_T3(f, a, b, c)                                                     \
    RG_T3_(f, RG_PASTE(rg_a, __COUNTER__), a, RG_PASTE(rg_b, __COUNTER__), b, \
           RG_PASTE(rg_c, __COUNTER__), c)
#define RG_T1_(f, x, a)      \
    __extension__({          \
        __auto_type x = (a); \
        f(RG_WRAP(x));       \
    })
#define RG_T2_(f, x, a, y, b)      \
    __extension__({                \
        __auto_type x = (a);       \
        __auto_type y = (b);       \
        f(RG_WRAP(x), RG_WRAP(y)); \
    })
#define RG_T3_(f, x, a, y, b, z, c)            \
    __extension__({                            \
        __auto_type x = (a);                   \
        __auto_type y = (b);                   \
        __auto_type z = (c);                   \
        f(RG_WRAP(x), RG_WRAP(y), RG_WRAP(z)); \
    })
#endif

#define rg_full(shape, value)             RG_FULL_(shape, value)
#define RG_FULL_(shape, value)            (rg_full)(shape, RG_WRAP(value))
#define rg_full_dims(shape, value, dtype) (rg_full_dims)(shape, RG_WRAP(value), dtype)
#define rg_full_like(x, value)            RG_T2(rg_full_like, x, value)
#define rg_arange(end)                    RG_T1(rg_arange, end)
#define rg_arange_step(start, end, step)  RG_T3(rg_arange_step, start, end, step)
#define rg_arange_as(end, dtype)          (rg_arange_as)(RG_WRAP(end), dtype)
#define rg_arange_step_as(start, end, step, dtype) \
    (rg_arange_step_as)(RG_WRAP(start), RG_WRAP(end), RG_WRAP(step), dtype)
#define rg_scalar(number) RG_T1(rg_scalar, number)

#define RG_FROM_THESE_ "rg_from copies from an array of float, double, int64_t, int or bool"
#ifndef __cplusplus
/* clang-format off */
#define RG_FROM_(data, a_float, a_double, an_int64, an_int, a_bool, other) \
    _Generic(*(data), float: a_float, double: a_double, int64_t: an_int64, \
             int: an_int, bool: a_bool, default: other)
/* clang-format on */
#define rg_from(data, ...)                                                                   \
    ((void)RG_REQUIRE_OF_(RG_FROM_(data, 1, 1, 1, 1, 1, 0), RG_FROM_THESE_),                 \
     RG_FROM_(data, rg_from_float, rg_from_double, rg_from_int64, rg_from_int, rg_from_bool, \
              rg_from_bool)(data, RG_DIMS(__VA_ARGS__)))
#endif

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_scope_end(mark)                    rg_scope_end(RG_WHOLE(mark))
#define rg_scope_copy(from, bytes)            rg_scope_copy(from, RG_WHOLE(bytes))
#define rg_linspace(start, end, steps, dtype) rg_linspace(start, end, RG_WHOLE(steps), dtype)
#define rg_logspace(start, end, steps, base, dtype) \
    rg_logspace(start, end, RG_WHOLE(steps), base, dtype)
#define rg_eye(n, m)                    rg_eye(RG_WHOLE(n), RG_WHOLE(m))
#define rg_eye_as(n, m, dtype)          rg_eye_as(RG_WHOLE(n), RG_WHOLE(m), dtype)
#define rg_size(t, dim)                 rg_size(t, RG_WHOLE(dim))
#define rg_stride(t, dim)               rg_stride(t, RG_WHOLE(dim))
#define rg_copy_out(t, to, bytes)       rg_copy_out(t, to, RG_WHOLE(bytes))
#define rg_manual_seed(seed)            rg_manual_seed(RG_WHOLE(seed))
#define rg_generator_new(seed)          rg_generator_new(RG_WHOLE(seed))
#define rg_generator_seed(g, seed)      rg_generator_seed(g, RG_WHOLE(seed))
#define rg_randint_dims(low, high, ...) rg_randint_dims(RG_WHOLE(low), RG_WHOLE(high), __VA_ARGS__)
#define rg_randperm_with(n, g)          rg_randperm_with(RG_WHOLE(n), g)
#define rg_multinomial_with(weights, draws, replacement, g) \
    rg_multinomial_with(weights, RG_WHOLE(draws), replacement, g)
#define rg_memory_fail_at(n)  rg_memory_fail_at(RG_WHOLE(n))
#define rg_set_num_threads(n) rg_set_num_threads(RG_WHOLE(n))
#define rg_wrap_int(x)        rg_wrap_int(RG_WHOLE(x))
#define rg_wrap_unsigned(x)   rg_wrap_unsigned(RG_WHOLE(x))

RG_PUBLIC_END

#ifdef __cplusplus
#include <initializer_list>

/* The scope owns the array of a list, lest it end with the expression. */
template <typename L, typename T> static inline L rg_list_in_scope(std::initializer_list<T> l) {
    const void *v = rg_scope_copy(l.begin(), l.size() * sizeof(T));
    return L{ v ? (int)l.size() : -1, static_cast<const T *>(v) };
}
static inline rg_named_list rg_named_list_of(std::initializer_list<rg_named> l) {
    return rg_list_in_scope<rg_named_list>(l);
}
#define RG_NAMED_LIST(...) rg_named_list_of({ __VA_ARGS__ })

struct rg_one_size {
    int64_t v;
    rg_one_size(long long n) : v(n) {}
    template <typename T, typename = rg_no_long<T>> rg_one_size(T n) : v((int64_t)n) {
        static_assert(!std::is_same<T, rg_dtype>::value, RG_NO_SIZE_);
        static_assert(!std::is_floating_point<T>::value && !std::is_pointer<T>::value,
                      RG_WHOLE_SIZES_);
    }
};
struct rg_no_size {};
static inline rg_dims rg_dims_of(rg_no_size) { return rg_dims{}; }
template <size_t n> static inline rg_dims rg_dims_of(const rg_one_size (&sizes)[n]) {
    static_assert(n <= RG_MAX_DIMS, "there are too many sizes");
    rg_dims d = { (int)n, {} };
    for (size_t i = 0; i < n; i++)
        d.v[i] = sizes[i].v;
    return d;
}
#define RG_DIMS(...) rg_dims_of({ __VA_ARGS__ })

static inline rg_tensor *rg_wrap(long long x) { return rg_wrap_int(x); }
template <typename T, typename = rg_no_long<T>> static inline rg_tensor *rg_wrap(T x) {
    using type = std::remove_cv_t<T>;
    constexpr bool is_tensor = std::is_same<type, rg_tensor *>::value
                               || std::is_same<type, decltype(nullptr)>::value;
    static_assert(is_tensor || std::is_arithmetic<T>::value || std::is_enum<T>::value,
                  RG_TENSOR_OR_NUMBER_);
    if constexpr (is_tensor)
        return x;
    else if constexpr (std::is_same<type, bool>::value)
        return rg_wrap_bool(x);
    else if constexpr (std::is_floating_point<T>::value)
        return rg_wrap_float((double)x);
    else if constexpr (std::is_same<type, unsigned long>::value
                       || std::is_same<type, unsigned long long>::value)
        return rg_wrap_unsigned(x);
    else if constexpr (std::is_arithmetic<T>::value || std::is_enum<T>::value)
        return rg_wrap_int((int64_t)x);
    else
        return nullptr;
}

struct rg_in_order {
    rg_tensor *a, *b = nullptr, *c = nullptr;
    template <typename F> auto one(F f) const { return f(a); }
    template <typename F, typename... O> auto two(F f, O... o) const { return f(a, b, o...); }
    template <typename F, typename... O> auto three(F f, O... o) const { return f(a, b, c, o...); }
};

static inline rg_tensor *rg_from_any(const float *p, rg_dims s) { return rg_from_float(p, s); }
static inline rg_tensor *rg_from_any(const double *p, rg_dims s) { return rg_from_double(p, s); }
static inline rg_tensor *rg_from_any(const int64_t *p, rg_dims s) { return rg_from_int64(p, s); }
static inline rg_tensor *rg_from_any(const int *p, rg_dims s) { return rg_from_int(p, s); }
static inline rg_tensor *rg_from_any(const bool *p, rg_dims s) { return rg_from_bool(p, s); }
template <typename T> static inline rg_tensor *rg_from_any(const T *, rg_dims) {
    static_assert(std::is_void<T>::value && !std::is_void<T>::value, RG_FROM_THESE_);
    return nullptr;
}
#define rg_from(data, ...) rg_from_any(data, RG_DIMS(__VA_ARGS__))
#endif

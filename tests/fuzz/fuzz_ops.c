/*
 * fuzz_ops.c: calls every public function with arguments that make no sense: shapes that don't fit,
 * dims out of range, extreme numbers, NaN, other dtypes, views, NULL, RG_NONE, tensors whose scope
 * has ended, failing memory. Each call gives a result, or an error whose message names the
 * function. When the program ends, no tensor is alive. If the program hasn't read a failure, the
 * failure stays, whatever the next call does.
 *
 *     build/tests/fuzz/fuzz_ops [calls] [seed]
 *
 * What each function says to a fixed series of such calls is written down in says.txt, as a number
 * of results and a hash of all errors, results and gradients. says.h has the details:
 *
 *     build/tests/fuzz/fuzz_ops says             prints such a file
 *     build/tests/fuzz/fuzz_ops says FUNCTION    prints what the hash is of
 */
#include "tests/hash.h"
#include "tests/nn/schedules.h"
#include "tests/sanitized.h"
#include "regard.h"
#include "autograd/engine.h"
#include "tensor/thread.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Makes AddressSanitizer refuse requests for more than 256 MB, as a system with little memory
 * does. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}
/* Released tensors are passed only in AddressSanitizer's build, which never uses their memory
 * again. In other builds the memory may be another tensor by now. For says.txt none is passed,
 * since all builds must say the same. */
#if ASAN
#define RELEASED (fixed ? NULL : released)
#define HOOKED   hooked
static void limit_memory(void) {}
#else
#define RELEASED NULL
#define HOOKED   tensor()
static void limit_memory(void) { setrlimit(RLIMIT_AS, &(struct rlimit){ 1 << 30, 1 << 30 }); }
#endif

/* The pool has POOL tensors of at most LARGEST elements, and a list has at most LISTED of them. */
enum { POOL = 32, LISTED = 4, LARGEST = 256, MODULES = 12 };

static uint64_t state;
/* If `fixed` isn't 0, each argument draws from its own stream of random numbers, whose seed depends
 * on `fixed`. */
static uint64_t fixed;
static rg_tensor *pool[POOL], *released;
static rg_generator *generator;
static rg_module *modules[MODULES];
static rg_vocabulary *vocabulary;
static rg_tokenizer *tokenizer;
static rg_token_stream token_stream;
static char bytes[256];
static const char *calling = "";
static int depth;   /* The number of calls that are running inside the outermost one. */
static bool nested; /* A function that may call others has run during this call. */
static bool looked; /* fuzz_ops.c has read or cleared the error. */
#define rg_error_clear() (looked = true, rg_error_clear())
#define rg_error_code()  (looked = true, rg_error_code())
static long results, refusals;
/* The number of tensors that the call gives to its caller's scope, or -1 if it isn't known. */
static int gives;
static const char *answer;    /* The text that the function returned. */
static rg_list other_results; /* Tensors that the function returned beside the first one. */
static size_t numbers;        /* The number of numbers that were wrapped as arguments. */
static bool listed;           /* An argument is a list whose memory the scope owns. */

/* If true, most arguments make sense, and most new tensors of the pool fit each other, since their
 * dims have one of these sizes. */
static bool plain;
static int64_t sizes[2] = { 2, 3 };

/* Returns a number in [0, n). */
static uint64_t any(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static int64_t odd_integer(void) {
    static const int64_t extremes[] = { INT64_MAX, INT64_MIN,        INT32_MAX,
                                        INT32_MIN, (int64_t)1 << 40, -100 };
    if (plain && any(16))
        return (int64_t)any(4) - 1;
    return any(24) == 0 ? extremes[any(sizeof extremes / sizeof extremes[0])] : (int64_t)any(8) - 2;
}

static double odd_number(void) {
    static const double odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0, 1e308, -1e-320 };
    if (plain && any(16))
        return (double)any(100) / 100;
    return any(6) == 0 ? odd[any(sizeof odd / sizeof odd[0])] : (double)any(400) / 100 - 2;
}

static rg_dims odd_dims(void) {
    /* split_sizes gets the numbers as an array, so n must be the true length of the array. */
    bool array = strcmp(calling, "split_sizes") == 0;
    rg_dims d = { .n = any(40) == 0 && !array ? (int)odd_integer() : (int)any(4) };
    for (int i = 0; i < RG_MAX_DIMS; i++)
        d.v[i] = odd_integer();
    return d;
}

/* Set if dtypes of 8 and 16 bits are drawn, too. In says.txt some series draw them. */
static bool widened = true;

static rg_dtype odd_dtype(void) {
    if (widened && any(4) == 0)
        return (rg_dtype)(RG_BFLOAT16 + any(RG_UINT8 + 1 - RG_BFLOAT16));
    if (plain && any(6))
        return RG_FLOAT32;
    if (any(3))
        return any(2) ? RG_FLOAT32 : RG_FLOAT64;
    return any(2) ? RG_INT64 : RG_BOOL;
}

/* Returns a dtype, with which a function is called. */
static uint64_t odd_dtype_number(void) { return any(widened ? RG_UINT8 + 1 : RG_FLOAT64 + 1); }

/* Returns a view whose base was written to after the view was made, so that its history is out of
 * date. */
static rg_tensor *view_behind(rg_tensor *t) {
    RG_ENABLE_GRAD();
    rg_tensor *base = rg_mul(rg_requires_grad_(rg_detach(t), true), 1);
    rg_tensor *view = any(2) ? rg_select(base, 0, 0) : rg_transpose(base, 0, -1);
    rg_mul_(base, 1);
    return view;
}

/* Sets all elements of a contiguous tensor. */
static void fill(rg_tensor *t) {
    for (int64_t i = 0; t && i < rg_numel(t); i++) {
        switch ((rg_dtype)rg_dtype_of(t)) {
        case RG_BOOL: ((bool *)rg_data(t))[i] = any(2); break;
        case RG_INT64: ((int64_t *)rg_data(t))[i] = odd_integer(); break;
        case RG_FLOAT32: ((float *)rg_data(t))[i] = (float)odd_number(); break;
        case RG_FLOAT64: ((double *)rg_data(t))[i] = odd_number(); break;
        case RG_BFLOAT16:
        case RG_FLOAT16:
            ((uint16_t *)rg_data(t))[i] = (uint16_t)(any(4) << 14 | any(1 << 14));
            break;
        case RG_UINT8: ((uint8_t *)rg_data(t))[i] = (uint8_t)odd_integer(); break;
        case RG_NO_DTYPE: break;
        }
    }
}

/* Returns a new tensor for the pool: small, of any dtype and layout. */
static rg_tensor *odd_tensor(void) {
    rg_dims shape = { .n = any(plain ? 12 : 100) ? (int)any(4) : 5 };
    int64_t numel = 1;
    for (int d = 0; d < shape.n; d++) {
        shape.v[d] = plain ? sizes[any(2)] : (int64_t)any(4) + (any(8) != 0);
        if (numel * shape.v[d] > LARGEST)
            shape.v[d] = 1;
        numel *= shape.v[d];
    }
    rg_tensor *t = rg_empty_dims(shape, odd_dtype());
    fill(t);
    if (any(3) == 0 && rg_is_floating_point(t))
        rg_requires_grad_(t, true);
    const int last = rg_ndim(t) - 1;
    if (any(4) == 0 && last > 0)
        t = rg_transpose(t, (int)any(2), last);
    if (any(8) == 0 && last > 1)
        t = rg_transpose(t, 0, 2);
    if (any(8) == 0)
        t = rg_unsqueeze(t, 0);
    if (any(12) == 0 && rg_is_floating_point(t) && rg_ndim(t) && rg_size(t, 0))
        t = view_behind(t);
    return t;
}

static rg_tensor *tensor(void) {
    if (plain && any(16))
        return any(5) ? pool[any(POOL)] : RG_NONE;
    uint64_t kind = any(60);
    if (kind == 0)
        return NULL;
    if (kind == 1)
        return RG_NONE;
    if (kind == 2)
        return RELEASED;
    if (kind >= 12)
        return pool[any(POOL)];
    numbers++;
    if (kind < 8)
        return rg_wrap_float(odd_number());
    return kind == 8 ? rg_wrap_unsigned((uint64_t)odd_integer()) : rg_wrap_int(odd_integer());
}

static rg_list list(void) {
    static rg_tensor *v[LISTED];
    int n = any(30) == 0 ? (int)odd_integer() % (LISTED + 1) : (int)any(LISTED + 1);
    for (int i = 0; i < n; i++)
        v[i] = tensor();
    return (rg_list){ n, v };
}

static rg_dims small_dims(void) {
    return (rg_dims){ .n = (int)any(3), .v = { (int64_t)any(4), (int64_t)any(4) } };
}

/* Returns the size of a kernel, which mostly makes sense. */
static rg_dims kernel_dims(void) {
    if (any(9) == 0)
        return small_dims();
    return (rg_dims){ .n = 1 + (int)any(2), .v = { 1 + (int64_t)any(3), 1 + (int64_t)any(3) } };
}

static const char *text(void) {
    static const char *const texts[] = { "ij,jk->ik",
                                         "ii->i",
                                         "...i,i...->...",
                                         "i,j",
                                         "ij->ji",
                                         "->",
                                         "",
                                         "i,,j",
                                         "ijj",
                                         "%s",
                                         "xy",
                                         "sum",
                                         "prod",
                                         "mean",
                                         "amax",
                                         "linear",
                                         "nearest",
                                         "use_mm_for_euclid_dist",
                                         "1:3, None",
                                         "::2",
                                         "...",
                                         "-1",
                                         ":,0",
                                         "0:-1:0",
                                         "[",
                                         "9999999999999999999",
                                         "[[1, 2], [3, 4.5]]",
                                         "tensor([nan, -inf])",
                                         "[[1], [2, 3]]",
                                         "[True, 1e400]" };
    return texts[any(sizeof texts / sizeof texts[0])];
}

/* Returns a list of up to two texts. The two lists of one call have different numbers, 0 and 1. */
static rg_names some_texts(int which) {
    static const char *lists[2][2];
    const char **list = lists[which];
    for (int i = 0; i < 2; i++)
        list[i] = any(9) ? text() : NULL;
    return (rg_names){ (int)any(3), any(9) ? list : NULL };
}

static const char *any_path(void) {
    if (any(2))
        return "/dev/null";
    return any(2) ? "/nowhere/at/all" : NULL;
}

/* ---- functions, a row each: the golden test's table is shared -------------------- */

static rg_generator *any_generator(void) {
    if (any(12) == 0)
        return NULL;
    return any(2) ? generator : rg_default_generator();
}

/* Compilers evaluate arguments in different orders. So if `fixed` is set, each argument draws from
 * its own stream of random numbers, and each order gives the same call. */
enum { ARGUMENTS_DEEP = 8 };
static uint64_t kept_states[ARGUMENTS_DEEP];
static int arguments;
static void begin_argument(uint64_t k) {
    kept_states[arguments++] = state;
    if (fixed)
        state = (fixed + k) * 0x9e3779b97f4a7c15u;
}
static void end_argument(void) {
    arguments--;
    if (fixed)
        state = kept_states[arguments];
}
#define ARG(k, ...) ARG_(RG_PASTE(drawn_, __COUNTER__), k, __VA_ARGS__)
#define ARG_(drawn, k, ...)                    \
    ({                                         \
        begin_argument(k);                     \
        const __auto_type drawn = __VA_ARGS__; \
        end_argument();                        \
        drawn;                                 \
    })

#define T(k)         ARG(k, tensor())
#define I(k)         (int)ARG(k, odd_integer())
#define L(k)         ARG(k, odd_integer())
#define X(k)         ARG(k, odd_number())
#define D(k)         ARG(k, odd_dims())
#define Y(k)         (rg_dtype) ARG(k, any(20) ? odd_dtype_number() : (uint64_t)odd_integer())
#define S(k)         ARG(k, text())
#define LIST(k)      ARG(k, list())
#define ITEMS(k)     n_items, ARG(k, items())
#define G(k)         ARG(k, any_generator())
#define LOSS_OPTIONS ARG(50, LOSS_OPTIONS_)
#define LOSS_OPTIONS_                                                                         \
    (rg_loss_options) {                                                                       \
        .reduction = (rg_reduction)any(5), .weight = tensor(), .pos_weight = tensor(),        \
        .ignore_index = odd_integer(), .label_smoothing = odd_number(), .beta = odd_number(), \
        .delta = odd_number(), .log_target = any(2)                                           \
    }
#define CONV_OPTIONS ARG(50, any_conv_options())
static rg_conv_options any_conv_options(void) {
    rg_conv_options o = { .stride = any(2) ? 1 : odd_integer(),
                          .padding = any(3) ? (int64_t)any(3) : RG_SAME,
                          .dilation = any(2) ? 1 : odd_integer(),
                          .groups = any(2) ? 1 : odd_integer(),
                          .strides = small_dims(),
                          .paddings = small_dims(),
                          .dilations = small_dims() };
    /* In one of 16 calls a number may be given beside the list that replaces it, which is
     * refused. */
    if (any(16)) {
        o.stride = o.strides.n ? 1 : o.stride;
        o.padding = o.paddings.n ? 0 : o.padding;
        o.dilation = o.dilations.n ? 1 : o.dilation;
    }
    return o;
}
#define MAX_POOL_OPTIONS ARG(50, any_max_pool_options())
static rg_max_pool_options any_max_pool_options(void) {
    rg_max_pool_options o = { .stride = any(3) ? (int64_t)any(3) : RG_KERNEL,
                              .padding = any(3) ? (int64_t)any(3) : 0,
                              .dilation = any(2) ? 1 : odd_integer(),
                              .ceil_mode = any(2),
                              .strides = small_dims(),
                              .paddings = small_dims(),
                              .dilations = small_dims() };
    if (any(16)) {
        o.stride = o.strides.n ? RG_KERNEL : o.stride;
        o.padding = o.paddings.n ? 0 : o.padding;
        o.dilation = o.dilations.n ? 1 : o.dilation;
    }
    return o;
}
#define AVG_POOL_OPTIONS ARG(50, any_avg_pool_options())
static rg_avg_pool_options any_avg_pool_options(void) {
    rg_avg_pool_options o = { .stride = any(3) ? (int64_t)any(3) : RG_KERNEL,
                              .padding = any(3) ? (int64_t)any(3) : 0,
                              .ceil_mode = any(2),
                              .count_include_pad = any(2),
                              .divisor_override = any(2) ? RG_WINDOW : odd_integer(),
                              .strides = small_dims(),
                              .paddings = small_dims() };
    if (any(16)) {
        o.stride = o.strides.n ? RG_KERNEL : o.stride;
        o.padding = o.paddings.n ? 0 : o.padding;
    }
    return o;
}
#define MARGIN_OPTIONS(type, k) ARG(50, MARGIN_OPTIONS_(type))
#define MARGIN_OPTIONS_(type) \
    (type) { .reduction = (rg_reduction)any(5), .margin = odd_number() }
#define TO_C_OPTIONS  ARG(50, TO_C_OPTIONS_)
#define TO_C_OPTIONS_ ((rg_replay_to_c_options){ .name = "step", .output = tensor() })
#define OPTIONS       ARG(50, OPTIONS_)
#define OPTIONS_                                                         \
    (rg_backward_options) {                                              \
        .gradient = any(3) ? RG_NONE : tensor(), .retain_graph = any(2), \
        .create_graph = any(3) == 0, .allow_unused = any(2),             \
        .inputs = any(3) ? (rg_list){ 0 } : list()                       \
    }

static int n_items;
static const rg_item_index *items(void) {
    static rg_item_index v[5];
    for (int i = 0; i < n_items; i++) {
        switch (any(6)) {
        case 0: v[i] = rg_index_text(text()); break;
        case 1: v[i] = rg_index_tensor(tensor()); break;
        case 2: v[i] = rg_index_slice(L(1), L(2), L(3)); break;
        case 3: v[i] = rg_index_bool(any(2)); break;
        case 4: v[i] = rg_index_unsigned((uint64_t)odd_integer()); break;
        default: v[i] = rg_index_number(odd_integer()); break;
        }
    }
    return v;
}

#define ONE(name) TENSOR(name, T(0))
#define TWO(name) TENSOR(name, T(0), T(1))

/* ---- what says.txt has a hash of: see says.h ---- */

/* Elements are left out if they are unset. */
static void add_tensor(rg_tensor *t, uint64_t *hash) {
    hash_tensor(t, strstr(calling, "empty") ? 0 : LARGEST, hash);
}

static void add_named(rg_named_list list, uint64_t *hash) {
    for (int i = 0; i < list.n; i++) {
        hash_text(list.v[i].name, hash);
        add_tensor(list.v[i].tensor, hash);
    }
}

static rg_tensor *first_of(rg_list l) {
    if (l.n < 0)
        return NULL;
    return l.n == 0 ? RG_NONE : l.v[any((uint64_t)l.n)];
}
static rg_tensor *call_any(void);

static rg_tensor *first_of_values(rg_values_indices r) {
    static rg_tensor *others[1];
    others[0] = r.indices;
    other_results = (rg_list){ 1, others };
    return r.values;
}

static rg_tensor *first_of_unique(rg_unique_result r) {
    static rg_tensor *others[2];
    others[0] = r.inverse;
    others[1] = r.counts;
    other_results = (rg_list){ 2, others };
    return r.values;
}

static rg_tensor *told(double number) {
    static char text[40];
    snprintf(text, sizeof text, "%.17g", isnan(number) ? 0 : number);
    answer = text;
    return *rg_error_peek() ? NULL : RG_NONE;
}

static rg_tensor *does_grad_of(void) {
    rg_tensor *g = rg_grad_of(tensor());
    /* A backward adds to the gradient, so the pool holds a copy. */
    return g && g != RG_NONE ? rg_clone(g) : g;
}

static rg_tensor *does_grad_many(void) {
    rg_tensor *y[LISTED], *v[LISTED], *x[LISTED], *found[LISTED];
    for (int i = 0; i < LISTED; i++) {
        y[i] = tensor();
        v[i] = any(2) ? RG_NONE : tensor();
        x[i] = tensor();
    }
    int n = any(20) ? 1 + (int)any(2) : (int)odd_integer() % LISTED;
    int m = any(20) ? 1 + (int)any(2) : (int)odd_integer() % LISTED;
    const rg_backward_options o = OPTIONS;
    rg_error_clear();
    if (any(2))
        return rg_backward_many(n, any(20) ? y : NULL, any(2) ? v : NULL, o) ? RG_NONE : NULL;
    if (!rg_grad_many(n, any(20) ? y : NULL, any(2) ? v : NULL, m, any(20) ? x : NULL,
                      any(20) ? found : NULL, o))
        return NULL;
    return m > 0 ? found[any((uint64_t)m)] : RG_NONE;
}

static rg_tensor *hooked; /* The tensor that got the last hook, which may be released. */

/* A hook that may fail, return a wrong tensor, register or remove hooks, or call any function. */
static rg_tensor *odd_hook(rg_tensor *grad, void *context) {
    (void)context;
    nested = true;
    switch (any(9)) {
    case 0: return NULL;
    case 1: return tensor();
    case 2: return rg_mul(grad, 2);
    case 3: return rg_sum(grad);
    case 4: rg_remove_hook(any(2) ? tensor() : HOOKED, (int)any(3)); return RG_NONE;
    case 5: rg_register_hook(any(2) ? tensor() : HOOKED, odd_hook, NULL); return RG_NONE;
    case 6: return depth < 4 ? call_any() : RG_NONE;
    case 7: rg_error_clear(); return RG_NONE;
    default: return RG_NONE;
    }
}

static rg_tensor *does_register_hook(void) {
    hooked = tensor();
    return rg_register_hook(hooked, any(10) ? odd_hook : NULL, NULL) >= 0 ? RG_NONE : NULL;
}

/* A hook on a leaf that may fail, clear the gradient, register or remove hooks, or call any
 * function. */
static bool odd_hook_after(rg_tensor *t, void *context) {
    (void)context;
    nested = true;
    switch (any(7)) {
    case 0: return false;
    case 1: return rg_set_grad(t, RG_NONE);
    case 2: rg_remove_hook(any(2) ? tensor() : HOOKED, (int)any(3)); return true;
    case 3: return rg_register_post_accumulate_grad_hook(t, odd_hook_after, NULL) >= 0;
    case 4: return depth >= 4 || call_any();
    case 5: rg_error_clear(); return true;
    default: return true;
    }
}

static rg_tensor *does_register_post_accumulate_grad_hook(void) {
    hooked = tensor();
    rg_post_accumulate_grad_hook *hook = any(10) ? odd_hook_after : NULL;
    return rg_register_post_accumulate_grad_hook(hooked, hook, NULL) >= 0 ? RG_NONE : NULL;
}

static rg_tensor *odd_function(rg_tensor *const inputs[], void *context) {
    (void)context;
    nested = true;
    rg_tensor *x = inputs ? inputs[0] : NULL;
    switch (any(40)) {
    case 0: return NULL;
    case 1: return tensor();
    case 2: return call_any();
    default: return rg_mul(rg_sin(x), any(9) ? x : rg_sum(x));
    }
}

static rg_list odd_functions(rg_tensor *const inputs[], void *context) {
    static rg_tensor *y[2];
    for (int k = 0; k < 2; k++)
        y[k] = any(30) ? odd_function(inputs, context) : rg_arange(2);
    return any(40) ? (rg_list){ 2, y } : list();
}

static rg_tensor *does_gradcheck(void) {
    rg_tensor *x[LISTED];
    for (int i = 0; i < LISTED; i++)
        x[i] = tensor();
    int n = any(20) ? 1 : (int)odd_integer() % LISTED;
    rg_gradcheck_options o = { .eps = any(8) ? 1e-6 : odd_number(),
                               .atol = any(8) ? 1e-5 : odd_number(),
                               .rtol = any(8) ? 1e-3 : odd_number() };
    /* odd_function reads the first input. */
    if (n < 1 || !x[0])
        x[0] = rg_ones(2);
    rg_error_clear();
    if (depth > 2 || (x[0] != RG_NONE && rg_numel(x[0]) > 8)) {
        rg_error_clear();
        return RG_NONE;
    }
    bool (*check)(rg_function *, void *, int, rg_tensor *const[], rg_gradcheck_options);
    check = any(2) ? rg_gradcheck_with : rg_gradgradcheck_with;
    rg_function *f = any(20) ? odd_function : NULL;
    if (any(4) == 0) {
        bool (*check_list)(rg_list_function *, void *, int, rg_tensor *const[],
                           rg_gradcheck_options);
        check_list = any(2) ? rg_gradcheck_list_with : rg_gradgradcheck_list_with;
        return check_list(any(20) ? odd_functions : NULL, NULL, n, x, o) ? RG_NONE : NULL;
    }
    return check(f, NULL, n, any(20) ? x : NULL, o) ? RG_NONE : NULL;
}

RG_FUNCTION_LOOP(odd_loop, (float, float), {
    for (int64_t i = 0; i < n[0]; i++)
        ((float *)p[0])[i] = (float)x[0] * ((float *)p[1])[i];
})

/* An op that returns all kinds of results, and sometimes none, or nonsense. */
static bool odd_op_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    int64_t *kept = (int64_t *)rg_function_state(ctx);
    if (kept)
        *kept = any(10);
    for (int k = 0; k < 3; k++)
        out[k] = any(20) ? rg_mul(in[0], 2) : any(4) ? tensor() : in[0];
    if (any(10) == 0)
        return false;
    if (any(10) == 0)
        return rg_fail(RG_VALUE_ERROR, NULL, "no %d", 3);
    const double factor = 2;
    rg_tensor *y = rg_empty_like(in[0]);
    rg_tensor *x = any(3) ? tensor() : in[0];
    const int64_t n = rg_numel(x) < rg_numel(y) ? rg_numel(x) : rg_numel(y);
    const int64_t count = any(3) - 1;
    const rg_function_loop *loop = any(20) ? &odd_loop : NULL;
    rg_run_function_loop(loop, RG_LIST(y, x), RG_DIMS(n > 0 ? n : 0), count,
                         any(5) ? &factor : NULL);
    rg_mark_non_differentiable(ctx, out[any(3)]);
    if (any(20) == 0)
        rg_saved_tensor(ctx, 0);
    rg_needs_input_grad(ctx, any(4) - 1);
    rg_error_clear();
    rg_save_for_backward_list(ctx, RG_LIST(in[0], out[any(3)], any(3) ? tensor() : RG_NONE));
    rg_error_clear();
    return true;
}

static bool odd_op_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    const int64_t *kept = (const int64_t *)rg_function_state(ctx);
    rg_tensor *saved = rg_saved_tensor(ctx, any(5) - 1);
    rg_error_clear();
    const bool odd = any(20) == 0 || (kept && *kept == 11) || !rg_function_args(ctx);
    gin[0] = odd ? saved : any(20) ? rg_mul(g[0], 2) : tensor();
    rg_error_clear();
    return any(20) != 0;
}

static rg_tensor *does_function_apply(void) {
    static rg_function_class classes[] = {
        { .name = "Odd",
          .forward = odd_op_forward,
          .backward = odd_op_backward,
          .outputs = 3,
          .args_bytes = 4,
          .state_bytes = 8 },
        { .name = "OddOnce",
          .forward = odd_op_forward,
          .backward = odd_op_backward,
          .outputs = 3,
          .args_bytes = 4,
          .once_differentiable = true },
    };
    rg_function_class *cls = any(40) ? &classes[any(2)] : NULL;
    rg_tensor *in[] = { tensor(), tensor() }, *out[8];
    const int args = 1;
    rg_list inputs = any(40) ? (rg_list){ 1 + (int)any(2), in } : list();
    rg_error_clear();
    if (inputs.n < 1 || !inputs.v || !inputs.v[0] || depth > 2)
        return RG_NONE;
    if (any(20) == 0)
        return rg_function_check_with(cls, &args, inputs,
                                      (rg_function_check_options){ .eps = 1e-6 })
                   ? RG_NONE
                   : NULL;
    if (any(3) == 0)
        return rg_function_apply_list(cls, any(20) ? &args : NULL, inputs);
    if (!rg_function_apply_many(cls, any(20) ? &args : NULL, inputs, any(40) ? out : NULL))
        return NULL;
    rg_tensor *y = out[any(3)];
    if (any(2) && rg_requires_grad(y) && rg_numel(y) > 0)
        return rg_backward(rg_sum(y), .create_graph = any(4) == 0) ? y : NULL;
    return y;
}

/* Calls jacrev, or another function that differentiates or maps a function. */
static rg_tensor *does_jacrev(void) {
    rg_tensor *in[] = { tensor(), tensor() }, *v[] = { tensor(), RG_NONE }, *r[2];
    const int n = any(20) ? 1 + (int)any(2) : (int)odd_integer() % 3;
    const rg_derivative_options o = { .argnum = any(4) - 1, .create_graph = any(2) };
    rg_vmap_options m = { .out_dim = any(4) - 1 };
    rg_function *f = any(20) ? odd_function : NULL;
    m.in_dims = any(2) ? (rg_dims){ 0 } : RG_DIMS(any(4) - 2, any(2) ? RG_UNMAPPED : 0);
    rg_error_clear();
    /* odd_function reads the first input. */
    if (depth > 2 || !in[0] || in[0] == RG_NONE || rg_numel(in[0]) > 8)
        return RG_NONE;
    switch (any(7)) {
    case 0: return rg_jacrev_with(f, NULL, n, in, o);
    case 1: return rg_jacfwd_with(f, NULL, n, in, o);
    case 2: return rg_hessian_with(f, NULL, n, in, o);
    case 3: return rg_vjp_with(f, NULL, n, in, v[any(2)], any(20) ? r : NULL, o);
    case 4: return rg_jvp_with(f, NULL, n, in, any(20) ? v : NULL, r, o);
    case 5: return rg_hvp_with(f, NULL, n, in, any(20) ? v : NULL, r, o);
    default: return rg_vmap_with(f, NULL, n, in, m);
    }
}

static void *odd_pack(rg_tensor *t, void *context) {
    (void)context;
    return any(20) ? rg_keep(any(20) ? rg_clone(t) : rg_ones(2)) : NULL;
}

static rg_tensor *odd_unpack(void *packed, void *context) {
    (void)context;
    return any(20) ? (rg_tensor *)packed : NULL;
}

static void odd_drop(void *packed, void *context) {
    (void)context;
    rg_drop((rg_tensor *)packed);
}

/* Records a function and runs the recordings, for inputs that may have the same shape. */
static rg_tensor *does_replays_run(void) {
    rg_tensor *in[] = { tensor(), tensor(), tensor() }, *y = RG_NONE;
    rg_error_clear();
    if (depth > 2)
        return RG_NONE;
    rg_replays *r = rg_replays_new(any(20) ? odd_function : NULL, NULL);
    for (int i = 0; y && i < 4; i++) {
        int n = any(20) ? 1 : any(2) ? 2 : -1;
        y = rg_replays_run(any(20) ? r : NULL, n, in + any(2));
    }
    rg_replays_free(r);
    return y;
}

/* Runs a function in a checkpoint, or with hooks on saved tensors. Then runs backward. */
static rg_tensor *does_checkpoint(void) {
    rg_tensor *in[] = { tensor(), tensor(), NULL }, *y;
    const rg_checkpoint_options o = { .preserve_rng_state = any(2) };
    rg_saved_hooks hooks = { odd_pack, odd_unpack, odd_drop, NULL };
    rg_error_clear();
    if (depth > 2 || !in[0] || in[0] == RG_NONE || rg_numel(in[0]) > 64)
        return RG_NONE;
    if (any(2)) {
        y = rg_checkpoint_with(any(20) ? odd_function : NULL, NULL, any(20) ? 2 : any(4) - 1, in,
                               o);
    } else {
        if (any(20) == 0)
            hooks.pack = NULL;
        if (!rg_push_saved_hooks(hooks))
            return NULL;
        y = odd_function(in, NULL);
        rg_pop_saved_hooks();
    }
    /* odd_function may return a released tensor. */
    if (y && y != RG_NONE && rg_numel(y) < 0)
        return NULL;
    if (!y || y == RG_NONE || !rg_requires_grad(y) || rg_error_code() != RG_OK)
        return y;
    return rg_backward(rg_sum(y), .create_graph = any(4) == 0) ? y : NULL;
}

static rg_tensor *does_explain_with(void) {
    rg_tensor *x = tensor(), *w = tensor();
    rg_explain_options o = { .paths = (int)any(12) - 1, .huge = 1e6 };
    rg_error_clear();
    if (depth > 2)
        return RG_NONE;
    if (x && x != RG_NONE && rg_numel(x) > 1 && rg_is_floating_point(x) && any(9))
        x = rg_sum(x);
    /* If making the arguments has failed, explain isn't called. */
    if (rg_error_code() != RG_OK) {
        rg_error_clear();
        return RG_NONE;
    }
    if (any(2))
        o.f = odd_function;
    return rg_explain_with(x, w, o).n < 0 ? NULL : RG_NONE;
}

/* Makes inference tensors, or writes to some. */
static rg_tensor *does_inference(void) {
    RG_INFERENCE_MODE();
    rg_tensor *in[] = { tensor(), tensor(), NULL };
    rg_error_clear();
    if (depth > 2 || !in[0] || in[0] == RG_NONE || rg_numel(in[0]) > 64)
        return RG_NONE;
    rg_tensor *y = odd_function(in, NULL);
    /* odd_function may return a released tensor. */
    return y && y != RG_NONE && rg_numel(y) < 0 ? NULL : y;
}

/* Calls a function under autocast, and runs backward on its result. */
static rg_tensor *does_autocast_guard_open_with(void) {
    rg_tensor *in[] = { tensor(), tensor(), NULL }, *y;
    const rg_dtype dtype = any(9) ? RG_BFLOAT16 : odd_dtype();
    const int64_t n = in[0] && in[0] != RG_NONE ? rg_numel(in[0]) : INT64_MAX;
    rg_error_clear(); /* The tensor may have been released. */
    if (depth > 2 || n > 64)
        return RG_NONE;
    {
        RG_AUTOCAST(dtype, .enabled = any(9) != 0, .cache_enabled = any(2));
        if (rg_error_code() != RG_OK)
            return NULL;
        y = any(4) ? call_any() : odd_function(in, NULL);
        nested = true; /* call_any clears it for the function that it calls. */
        if (any(9) == 0)
            rg_clear_autocast_cache();
    }
    /* odd_function may return a released tensor. */
    if (y && y != RG_NONE && rg_numel(y) < 0)
        return NULL;
    if (!y || y == RG_NONE || !rg_requires_grad(y) || rg_error_code() != RG_OK)
        return y;
    return rg_backward(rg_sum(y), .create_graph = any(4) == 0) ? y : NULL;
}

/* Differentiates to the third order. */
static rg_tensor *does_orders(void) {
    rg_tensor *x = pool[any(POOL)], *y = x;
    if (!rg_requires_grad(x))
        return RG_NONE;
    for (int i = 0; i < 3 && y; i++) {
        rg_tensor *other = tensor();
        if (any(2))
            y = rg_mul(rg_sin(y), other);
        else
            y = any(2) ? rg_matmul(y, other) : rg_div(other, rg_exp(y));
    }
    for (int order = 0; order < 3 && y && y != RG_NONE && rg_requires_grad(y); order++)
        y = rg_grad(rg_sum(y), x, .create_graph = order < 2 || any(2), .allow_unused = any(2));
    return y;
}

static rg_tensor *does_keep(void) {
    rg_tensor *t = rg_keep(tensor());
    if (t)
        rg_drop(t);
    return t && rg_error_code() == RG_OK ? RG_NONE : NULL;
}

/* Begins and ends scopes out of order, and hands results out of them. */
static rg_tensor *does_scopes(void) {
    RG_SCOPE();
    size_t mark[4];
    rg_tensor *y = RG_NONE;
    int n = 1 + (int)any(4);
    for (int i = 0; i < n; i++) {
        mark[i] = rg_scope_begin();
        if (depth < 4)
            y = call_any();
    }
    for (int i = (int)any(3); i > 0 && y && y != RG_NONE; i--)
        y = rg_escape(y);
    rg_scope_copy(any(4) ? mark : NULL, any(sizeof mark));
    rg_scope_end(mark[n - 1] + any(3));
    rg_scope_end(mark[any((uint64_t)n)]);
    rg_scope_end(SIZE_MAX);
    return rg_error_code() == RG_OK ? RG_NONE : NULL;
}

static const char *any_repr(rg_tensor *t) {
    if (any(2))
        return rg_repr(t);
    return any(2) ? rg_repr_numpy(t) : rg_repr_tf(t);
}

static rg_tensor *does_kv_cache_append(void) {
    rg_kv_cache cache = { .window = any(9) ? (int64_t)any(4) : odd_integer() };
    rg_kv_cache *given = any(9) ? &cache : NULL;
    const rg_keys_values all = rg_kv_cache_append(given, tensor(), tensor());
    rg_kv_cache_free(&cache);
    return all.keys;
}

static rg_tensor *does_kv_cache_rewind(void) {
    rg_kv_cache cache = { .window = (int64_t)any(4) };
    rg_tensor *x = rg_ones(1, 1, 5, 2);
    const int64_t position = any(7) ? (int64_t)any(7) : odd_integer();
    rg_kv_cache *given = any(9) ? &cache : NULL;
    const bool done = rg_kv_cache_append(&cache, x, x).keys && rg_kv_cache_rewind(given, position);
    rg_kv_cache_free(&cache);
    return done ? RG_NONE : NULL;
}

static rg_tensor *does_options(void) {
    rg_printoptions o = { .precision = (int)odd_integer(),
                          .threshold = (int)odd_integer(),
                          .edgeitems = (int)odd_integer(),
                          .linewidth = (int)odd_integer(),
                          .sci_mode = (int)odd_integer() };
    rg_printoptions before = rg_get_printoptions();
    const bool set = rg_set_printoptions_with(o);
    const char *s = !set || rg_error_code() ? NULL : any_repr(tensor());
    bool failed = rg_error_code() != RG_OK;
    rg_set_printoptions_with(before);
    return s && !failed ? RG_NONE : NULL;
}

/* Parses what is printed of a tensor. */
static rg_tensor *does_parsed_back(void) {
    rg_tensor *t = pool[any(POOL)];
    int64_t n = rg_numel(t);
    const char *s = any(2) ? rg_repr(t) : rg_repr_numpy(t);
    if (!s)
        return NULL;
    rg_tensor *back = rg_parse(s);
    if (back && rg_numel(back) != n) {
        fprintf(stderr, "read back otherwise: %s\n", s);
        abort();
    }
    return back;
}

/* ---- of nn/ ---------------------------------------------------------------------- */

#define PATH(k) ARG(k, any_path())
#define M(k)    ARG(k, any(6) ? modules[any(MODULES)] : NULL)
#define NORM_OPTIONS \
    (rg_norm_options) { .eps = odd_number(), .elementwise_affine = any(2), .bias = any(2) }
#define NO_MASKS                                                                      \
    (rg_tgt_options) {                                                                \
        .tgt_mask = RG_NONE, .memory_mask = RG_NONE, .tgt_key_padding_mask = RG_NONE, \
        .memory_key_padding_mask = RG_NONE                                            \
    }
/* Returns a number of channels, which is small, zero or negative. */
static int64_t any_channels(void) { return any(9) ? (int64_t)any(4) : odd_integer(); }

#define CONV_MODULE_OPTIONS any_conv_module_options()
static rg_conv_module_options any_conv_module_options(void) {
    rg_conv_module_options o = { .stride = any(2) ? 1 : odd_integer(),
                                 .padding = any(3) ? (int64_t)any(3) : RG_SAME,
                                 .dilation = any(2) ? 1 : odd_integer(),
                                 .groups = any(2) ? 1 : any(4),
                                 .strides = small_dims(),
                                 .paddings = small_dims(),
                                 .dilations = small_dims(),
                                 .bias = any(2),
                                 .padding_mode = (rg_pad_mode)any(5) };
    if (any(16)) {
        o.stride = o.strides.n ? 1 : o.stride;
        o.padding = o.paddings.n ? 0 : o.padding;
        o.dilation = o.dilations.n ? 1 : o.dilation;
    }
    return o;
}
#define BATCH_NORM_OPTIONS                                                               \
    (rg_batch_norm_module_options) {                                                     \
        .eps = odd_number(), .momentum = odd_number(), .affine = any(2), .bias = any(2), \
        .track_running_stats = any(2)                                                    \
    }
#define RNN_OPTIONS                                                                           \
    (rg_rnn_options) {                                                                        \
        .num_layers = any(9) ? (int64_t)any(4) : odd_integer(), .bias = any(2),               \
        .batch_first = any(2), .dropout = any(2) ? 0 : odd_number(), .bidirectional = any(2), \
        .proj_size = any(2) ? 0 : odd_integer(), .nonlinearity = any(2) ? NULL : text()       \
    }
#define CELL_OPTIONS \
    (rg_rnn_cell_options) { .bias = any(2), .nonlinearity = any(2) ? NULL : text() }
#define STATES \
    (rg_rnn_states) { .h_0 = any(2) ? RG_NONE : T(2), .c_0 = any(2) ? RG_NONE : T(3) }
#define PAD_OPTIONS                                                                                \
    (rg_pad_options) {                                                                             \
        .batch_first = any(2), .padding_value = odd_number(), .total_length = any(2) ? 0 : any(9), \
        .padding_side = any(2) ? "left" : text()                                                   \
    }
static rg_rnn_module *recurrent;
static rg_rnn_cell_module *recurrent_cell;

/* Returns tensors that sometimes are a valid packed sequence. */
static rg_packed_sequence any_packed(void) {
    if (any(2))
        return (rg_packed_sequence){ T(1), T(2), any(2) ? RG_NONE : T(3), any(2) ? RG_NONE : T(4) };
    const bool sorted = any(2);
    return rg_pack_padded_sequence(rg_ones(3, 2, 3), rg_parse(sorted ? "[2, 1]" : "[1, 3]"),
                                   .enforce_sorted = sorted);
}

static const char *any_mode(void) {
    if (any(3))
        return "fan_in";
    return any(2) ? "fan_out" : text();
}

#define KAIMING                                                                         \
    (rg_kaiming_options) {                                                              \
        .a = odd_number(), .mode = any_mode(), .nonlinearity = any(3) ? "relu" : text() \
    }
#define PARAM_GROUP          ARG(50, any_param_group())
#define MADE(name, ...)      CALL(name, (gives = 0, made(rg_##name(__VA_ARGS__))))
#define COUNTED(name, ...)   CALL(name, counted((rg_##name)(__VA_ARGS__).n))
#define PAIR(name, ...)      CALL(name, first_of_pair((rg_##name)(__VA_ARGS__)))
#define OPTIM(name, maker)   CALL(name, made_optim(rg_##maker(LIST(0), PARAM_GROUP)))
#define SCHEDULE(name, kind) CALL(name, made_schedule(kind))

/* Most optimizers refuse most options, so at most two are given. */
static rg_param_group any_param_group(void) {
    rg_param_group g = RG_PARAM_GROUP_(.lr = odd_number());
#define ADDRESS(name) &g.name,
    double *const options[] = { RG_OPTIONS_(ADDRESS) };
#undef ADDRESS
    for (uint64_t n = any(3); n > 0; n--)
        *options[any(sizeof options / sizeof *options)] = any(2) ? (double)any(2) : odd_number();
    for (int i = 0; i < 2 && any(4) == 0; i++)
        g.betas[i] = odd_number();
    return g;
}

static rg_tensor *counted(int n) {
    static char text[20];
    snprintf(text, sizeof text, "%d", n);
    answer = text;
    return n >= 0 ? RG_NONE : NULL;
}

static rg_tensor *first_of_pair(rg_pair p) {
    static rg_tensor *second[1];
    second[0] = p.second;
    other_results = (rg_list){ 1, second };
    return p.first;
}

/* Describes a module's repr, its values, and its answers to one, two and three tensors. */
static const char *described(rg_module *m) {
    static char text[40];
    uint64_t hash = 1;
    rg_tensor *x[] = { tensor(), tensor(), tensor() };
    hash_text(rg_module_repr(m), &hash);
    add_named(rg_state_dict(m), &hash);
    for (int n = 1; n <= 3; n++) {
        rg_tensor *y = rg_call_list(m, rg_list_of(n, x));
        if (y && y != RG_NONE && rg_numel(y) <= LARGEST)
            add_tensor(y, &hash);
        if (y && y != RG_NONE && rg_requires_grad(y))
            rg_backward(y, .gradient = rg_ones_like(y));
        hash_text(rg_error(), &hash);
        rg_error_clear();
    }
    const rg_list parameters = rg_parameters(m);
    for (int i = 0; i < parameters.n; i++)
        add_tensor(rg_grad_of(parameters.v[i]), &hash);
    add_named(rg_state_dict(m), &hash);
    snprintf(text, sizeof text, "module %08x", (unsigned)(hash >> 32));
    return text;
}

static rg_tensor *made(void *m) {
    if (m && fixed)
        answer = described(m);
    rg_module_free(m);
    return m ? RG_NONE : NULL;
}

/* Returns the sum of squares of the parameters, after its backward. */
static rg_tensor *squares(void *optimizer) {
    RG_ENABLE_GRAD();
    rg_optim_zero_grad(optimizer);
    const rg_list parameters = rg_optim_parameters(optimizer, 0);
    rg_tensor *sum = rg_zeros(1);
    for (int i = 0; i < parameters.n; i++)
        sum = rg_add(sum, rg_sum(rg_square(parameters.v[i])));
    return rg_backward(sum) ? sum : NULL;
}

/* Describes the state and the parameters after three steps. */
static const char *after_steps(rg_optim *o) {
    static char text[40];
    uint64_t hash = 1;
    const bool closure = strstr(calling, "lbfgs");
    const rg_list parameters = rg_optim_parameters(o, 0);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < parameters.n && !closure; i++) {
            rg_tensor *gradient = rg_empty_like(rg_detach(parameters.v[i]));
            if (rg_is_contiguous(gradient))
                fill(gradient);
            else
                rg_fill_(gradient, 0.25);
            if (any(8))
                rg_set_grad(parameters.v[i], gradient);
        }
        if (closure ? !rg_optim_step_closure(o, squares, o) : !rg_optim_step(o))
            hash_text(rg_error(), &hash);
        rg_error_clear();
    }
    for (int i = 0; i < parameters.n; i++)
        add_tensor(parameters.v[i], &hash);
    add_named(rg_optim_state_dict(o), &hash);
    snprintf(text, sizeof text, "optimizer %08x", (unsigned)(hash >> 32));
    return text;
}

static rg_tensor *made_optim(rg_optim *o) {
    if (o && fixed)
        answer = after_steps(o);
    rg_optim_free(o);
    return o ? RG_NONE : NULL;
}

/* Describes the schedule's state after each of ten steps. */
static const char *after_epochs(rg_schedule *s) {
    static char text[40];
    uint64_t hash = 1;
    for (int epoch = 0; epoch < 10; epoch++) {
        if (strstr(calling, "plateau") ? !rg_schedule_step_metric(s, odd_number())
                                       : !rg_schedule_step(s))
            hash_text(rg_error(), &hash);
        add_named(rg_schedule_state_dict(s), &hash);
    }
    rg_error_clear();
    snprintf(text, sizeof text, "schedule %08x", (unsigned)(hash >> 32));
    return text;
}

static double odd_lambda(int64_t epoch, void *context) { return context ? 0 : (double)epoch; }

static rg_tensor *made_schedule(rg_schedule_kind kind) {
    rg_optim *o = any(6) ? rg_optim_sgd(rg_parameters(modules[0])) : NULL;
    const rg_schedule_options q = RG_SCHEDULE_(.step_size = odd_integer(), .gamma = odd_number(),
                                               .T_max = odd_integer(), .total_iters = odd_integer(),
                                               .max_lr = odd_number(), .total_steps = odd_integer(),
                                               .milestones = odd_dims(),
                                               .lr_lambda = any(2) ? odd_lambda : NULL);
    rg_schedule *s = rg_optim_schedule(o, kind, own_options(kind, q));
    if (s && fixed)
        answer = after_epochs(s);
    const bool ok = s;
    rg_optim_free(o);
    return ok ? RG_NONE : NULL;
}

/* A container takes over its children, so a module of the pool can't be one. A new module would
 * leak if the function refuses the list. */
static rg_module *const *children(void) {
    static rg_module *const none[2];
    return any(4) ? none : NULL;
}

static const rg_module_item *named_children(void) {
    static const rg_module_item none[2];
    return any(4) ? none : NULL;
}

/* An encoder takes over its layer, so the layer must be a new one. */
static rg_module *new_layer(void) { return (rg_module *)rg_nn_linear(2, 3); }

static rg_named_list dict(void) {
    static rg_named v[2];
    listed = any(2);
    if (listed)
        return rg_state_dict(modules[any(MODULES)]);
    int n = (int)any(4) - 1;
    for (int i = 0; i < n; i++)
        v[i] = (rg_named){ any(6) ? "weight" : NULL, tensor() };
    return (rg_named_list){ n, any(6) ? v : NULL };
}

static void odd_visit(rg_module *m, void *context) {
    (void)m;
    (void)context;
}

static rg_tensor *odd_forward_hook(rg_module *m, rg_list inputs, rg_tensor *y, void *context) {
    (void)m;
    (void)inputs;
    (void)y;
    (void)context;
    return RG_NONE;
}

static rg_tensor *hook_and_go(int (*add)(rg_module *m, rg_forward_hook *hook, void *context)) {
    rg_module *m = M(0);
    int id = add(m, any(4) ? odd_forward_hook : NULL, NULL);
    return id >= 0 && rg_remove_forward_hook(m, id) ? RG_NONE : NULL;
}

static rg_tensor *odd_point_hook(rg_tensor *x, const char *name, void *context) {
    (void)name;
    (void)context;
    return any(3) ? RG_NONE : any(20) ? x : tensor();
}

/* Some of these names match values in modules of the pool. */
static const char *any_points(void) {
    static const char *const names[] = { "*", "0", "* nothing", "", "*hook_pattern", "*.hook_z" };
    return any(20) ? names[any(6)] : NULL;
}

static rg_tensor *looked_at(bool caches) {
    nested = true; /* A failure inside the module's forward has the name of another function. */
    rg_module *m = M(0);
    rg_tensor *in[] = { tensor() };
    const rg_hook_at at = { any_points(), any(20) ? odd_point_hook : NULL, NULL };
    const rg_hooks_at hooks = { any(20) ? 1 : (int)any(3) - 1, any(20) ? &at : NULL };
    rg_hooks_guard outer = { NULL };
    rg_tensor *y;
    if (any(4) == 0)
        outer = rg_hooks_guard_open(modules[any(MODULES)], (rg_hooks_at){ 0, NULL });
    if (caches)
        y = rg_run_with_cache_list(m, any_points(), rg_list_of(1, in)).output;
    else
        y = rg_run_with_hooks_list(m, hooks, rg_list_of(1, in));
    rg_hooks_guard_close(&outer);
    return y;
}
static rg_tensor *does_run_with_hooks_list(void) { return looked_at(false); }
static rg_tensor *does_run_with_cache_list(void) { return looked_at(true); }
static rg_tensor *does_register_forward_hook(void) { return hook_and_go(rg_register_forward_hook); }
static rg_tensor *does_register_forward_pre_hook(void) {
    return hook_and_go(rg_register_forward_pre_hook);
}

static bool odd_backward_hook(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad,
                              void *context) {
    (void)m;
    (void)grad;
    (void)context;
    nested = true;
    if (n && any(3) == 0)
        grad_input[any((uint64_t)n)] = any(2) ? tensor() : NULL;
    return any(6);
}

static rg_tensor *odd_backward_pre_hook(rg_module *m, rg_tensor *grad, void *context) {
    (void)m;
    (void)context;
    nested = true;
    return any(2) ? RG_NONE : odd_hook(grad, NULL);
}

/* Calls a layer that has a hook, and runs backward through it. */
static rg_tensor *call_hooked(bool before) {
    rg_module *m = (rg_module *)rg_nn_linear(1 + (int64_t)any(3), 2);
    int id = before ? rg_register_full_backward_pre_hook(m, any(9) ? odd_backward_pre_hook : NULL,
                                                         NULL)
                    : rg_register_full_backward_hook(m, any(9) ? odd_backward_hook : NULL, NULL);
    rg_tensor *y = id >= 0 ? rg_call(m, tensor()) : NULL;
    if (y)
        rg_backward(rg_sum(y));
    if (id >= 0)
        rg_error_clear();
    rg_module_free(m);
    return id >= 0 ? RG_NONE : NULL;
}
static rg_tensor *does_register_full_backward_hook(void) { return call_hooked(false); }
static rg_tensor *does_register_full_backward_pre_hook(void) { return call_hooked(true); }

static rg_tensor *does_vocabulary_new_with(void) {
    const char *words = any(6) ? text() : NULL;
    rg_vocabulary *v = rg_vocabulary_new(words, .characters = any(2),
                                         .unknown = any(2) ? "?" : NULL);
    rg_vocabulary_free(v);
    return v ? RG_NONE : NULL;
}

/* Takes some batches, and puts the loader back to where it was before. */
static rg_tensor *does_data_loader_new_with(void) {
    rg_data_loader *l = rg_data_loader_new(LIST(0), .batch_size = odd_integer(), .shuffle = any(2),
                                           .drop_last = any(2),
                                           .generator = any(2) ? generator : NULL);
    bool ok = l;
    for (uint64_t i = any(4); ok && i > 0; i--)
        ok = rg_data_loader_next(l).n >= 0
             && rg_data_loader_load_state_dict(l, rg_data_loader_state_dict(l));
    rg_data_loader_free(l);
    return ok ? RG_NONE : NULL;
}

static rg_module_dict *dictionary(void) { return (rg_module_dict *)modules[10]; }

static void make_modules(void) {
    void *all[MODULES] = { rg_nn_linear(3, 4),
                           rg_nn_embedding(5, 3),
                           rg_nn_sequential(rg_nn_relu(), rg_nn_linear(2, 3)),
                           rg_nn_layer_norm(3),
                           rg_nn_multihead_attention(4, 2),
                           rg_nn_self_attention(3, 2, 4),
                           rg_nn_gpt(.block_size = 4, .vocab_size = 5, .n_layer = 1, .n_head = 1,
                                     .n_embd = 2),
                           rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3),
                           rg_nn_rotary_positions(3, 4, 10),
                           rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                             .num_decoder_layers = 1, .dim_feedforward = 3),
                           rg_nn_module_dict({ "weight", rg_nn_relu() }),
                           rg_nn_mse_loss() };
    memcpy(modules, all, sizeof all);
    recurrent = rg_nn_rnn(3, 2, .num_layers = 2, .bidirectional = true);
    recurrent_cell = rg_nn_lstm_cell(3, 2);
}

static void free_modules(void) {
    for (int i = 0; i < MODULES; i++)
        rg_module_free(modules[i]);
    rg_module_free(recurrent);
    rg_module_free(recurrent_cell);
}

#define CALL(name, ...) \
    static rg_tensor *fuzz_##name(void) { return __VA_ARGS__; }
#define TENSOR(name, ...)         CALL(name, (gives = 1, (rg_##name)(__VA_ARGS__)))
#define VALUES_INDICES(name, ...) CALL(name, (gives = 2, first_of_values((rg_##name)(__VA_ARGS__))))
#define UNIQUE(name, ...)         CALL(name, (gives = 3, first_of_unique((rg_##name)(__VA_ARGS__))))
#define TENSORS(name, ...)        CALL(name, first_of(other_results = (rg_##name)(__VA_ARGS__)))
#define VALUE(name, ...)          CALL(name, (gives = 0, told((double)(rg_##name)(__VA_ARGS__))))
#define NUMBER(name, ...) \
    CALL(name, (gives = 0, (rg_##name)(__VA_ARGS__), *rg_error_peek() ? NULL : RG_NONE))
#define SUCCESS(name, ...)  CALL(name, (gives = 0, (rg_##name)(__VA_ARGS__)) ? RG_NONE : NULL)
#define ENCODING(name, ...) CALL(name, (rg_##name)(__VA_ARGS__).input_ids)
#define TEXT(name, ...)     CALL(name, (answer = (rg_##name)(__VA_ARGS__)) ? RG_NONE : NULL)
#define DOES(name)          CALL(name, does_##name())
#include "tests/autograd/golden.def"
#include "beside.def"
#include "nn.def"
#undef CALL

static const struct {
    const char *name;
    rg_tensor *(*call)(void);
} functions[] = {
#define CALL(name, ...) { #name, fuzz_##name },
#include "tests/autograd/golden.def"
#include "beside.def"
#include "nn.def"
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* ---- what must hold -------------------------------------------------------------- */

static void require(bool truth, const char *name, const char *what) {
    if (truth)
        return;
    fprintf(stderr, "%s: %s: '%s'\n", name, what, rg_error());
    abort();
}

static void too_slow(int signal) {
    (void)signal;
    fprintf(stderr, "%s: takes longer than a minute\n", calling);
    abort();
}

/* Returns whether the message is "op: sentence" or "op(): sentence", in one line. Further lines may
 * list keys. */
static bool well_formed(const char *message) {
    const char *line = strchr(message, '\n');
    size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.");
    if (strncmp(message, "out of memory", 13) == 0)
        n = 13;
    else if (n && message[n] == '(')
        n += 2;
    return n && message[n] == ':' && message[n + 1] == ' ' && message[n + 2]
           && (!line || line[1] == '\t');
}

/* `name` is the rest of a function's name. If it begins with a suffix that only C needs, such as
 * "_dims", returns what follows the suffix. Otherwise returns `name`. */
static const char *after_ending(const char *name) {
    static const char *const behind[] = { "_packed", "_dims",    "_dim",   "_with",   "_keys",
                                          "_list",   "_items",   "_full",  "_alpha",  "_p",
                                          "_step",   "_sizes",   "_floor", "_trunc",  "_decimals",
                                          "_dtype",  "_of",      "_float", "_double", "_int64",
                                          "_uint8",  "_bool",    "_int",   "_many",   "_forward",
                                          "_as",     "_indices", "s_",     "_" };
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
        if (!strncmp(name, behind[i], strlen(behind[i])))
            return name + strlen(behind[i]);
    return name;
}

static bool calls_others(const char *name) {
    static const char *const others[] = {
        "backward_with",  "grad_with", "grad_many",  "gradcheck",   "orders",
        "options",        "scopes",    "call_list",  "call_with",   "set_grad",
        "function_apply", "jacrev",    "checkpoint", "replays_run", "functional_call_list"
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i]))
            return true;
    return false;
}

/* Returns whether the message begins with the name that torch has for the function, and not with
 * that of a function inside it. Case, underscores and suffixes that only C needs don't matter. */
static bool named(const char *message, const char *name) {
    static const char *const before[] = { "nn_init_", "nn_", "optim_" };
    if (strncmp(message, "torch.", 6) == 0)
        message += 6;
    const char *end = message + strcspn(message, ":(");
    if (strncmp(message, "out of memory", 13) == 0 || isdigit((unsigned char)*message))
        return true;
    /* Wrapping a number as an argument may be denied memory. This error has the name scalar. */
    if (strncmp(message, "scalar: out of memory", 21) == 0)
        return true;
    /* Making an argument may be denied memory. This error has another name. The arguments of most
     * modules need no memory. */
    const bool module = strncmp(name, "nn_", 3) == 0 && !strstr(name, "coder_with");
    if (strstr(message, "out of memory") && !module)
        return true;
    /* If the base of a view was written to and the view can't follow, the first op that uses the
     * view refuses it, even inside another function. */
    if (strstr(message, "A view was created in"))
        return true;
    if (calls_others(name))
        return true;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (!strncmp(name, before[i], strlen(before[i])))
            name += strlen(before[i]);
    while (message < end) {
        if (*message == '_')
            message++;
        else if (*name == '_')
            name++;
        else if (tolower(*message++) != tolower(*name++))
            return false;
    }
    const char *rest = after_ending(name);
    while (rest != name) {
        name = rest;
        rest = after_ending(name);
    }
    return !*name;
}

/* Hashes of the elements and versions of the pool. A call that writes to none of its arguments must
 * not change them. */
static uint64_t prints[POOL];
static uint64_t print_of(rg_tensor *t) {
    static uint64_t data[LARGEST];
    uint64_t print = 14695981039346656037u;
    size_t words = ((size_t)rg_numel(t) * 8 + 7) / 8;
    memset(data, 0, words * 8);
    if (!rg_copy_out(t, data, sizeof data))
        abort();
    for (size_t i = 0; i < words; i++)
        print = (print ^ data[i]) * 1099511628211u;
    return print * 31 + (uint64_t)rg_version(t);
}

static uint64_t history_of(rg_tensor *t) {
    return (uintptr_t)rg_grad_fn(t) * 2 + rg_requires_grad(t);
}

static void take_prints(bool compare, bool failed) {
    static uint64_t history[POOL];
    for (int i = 0; i < POOL; i++) {
        uint64_t print = print_of(pool[i]);
        uint64_t past = history_of(pool[i]);
        if (compare)
            require(print == prints[i], calling, "an argument changed");
        if (compare && failed)
            require(past == history[i], calling, "an argument's history changed");
        prints[i] = print;
        history[i] = past;
    }
}

static void replace(int slot, rg_tensor *t) {
    if (!t || t == RG_NONE || t == pool[slot] || rg_numel(t) > LARGEST)
        return;
    rg_keep(t);
    if (pool[slot])
        rg_drop(pool[slot]);
    pool[slot] = t;
}

static void fill_pool(void) {
    for (int k = 0; k < POOL; k++) {
        const rg_tensor *before = pool[k];
        while (pool[k] == before)
            replace(k, odd_tensor());
    }
}

/* State that a call may leave behind in its thread: what the caller's scope owns, and what the
 * library notes while a call runs. */
typedef struct {
    size_t tensors, scopes;
    const void *memory;
    const char *applying, *named_as, *inside;
    bool observed, in_rule;
} left_behind;

static left_behind look_behind(void) {
    return (left_behind){ rgi_this.depth, rgi_this.scopes, rgi_this.blocks,           rgi_applying,
                          rgi_named_as,   rgi_inside,      rgi_this.observer != NULL, rgi_in_rule };
}

/* A call that succeeds gives its results to its caller's scope, and nothing else. A call that fails
 * gives it nothing. */
static void check_left_behind(const left_behind *before, bool failed) {
    const left_behind now = look_behind();
    require(now.scopes == before->scopes && now.applying == before->applying
                && now.named_as == before->named_as && now.inside == before->inside
                && now.observed == before->observed && now.in_rule == before->in_rule,
            calling, "it left the thread in another state");
    if (gives < 0 || nested)
        return;
    /* An error message may be made of texts that the scope owns. */
    require(failed || listed || now.memory == before->memory, calling,
            "it left memory in its caller's scope");
    /* In grad mode a converted input is a part of the graph, and stays in the scope. */
    if (!rg_is_grad_enabled())
        require(now.tensors - before->tensors <= numbers + (size_t)(failed ? 0 : gives), calling,
                "it left tensors in its caller's scope");
}

/* ---- calling --------------------------------------------------------------------- */

static rg_tensor *call_any(void) {
    const char *outer = calling;
    nested = true;
    size_t f = any(FUNCTIONS);
    depth++;
    n_items = (int)any(5);
    calling = functions[f].name;
    rg_tensor *y = functions[f].call();
    calling = outer;
    depth--;
    return y;
}

/* Runs backward from a result, sometimes with a request for memory denied. */
static void try_backward(rg_tensor *y) {
    rg_error_clear();
    if (any(20) == 0)
        rg_memory_fail_at(1 + (int64_t)any(30));
    bool ok = rg_backward_with(
        y, (rg_backward_options){ .gradient = rg_ones_like(y), .create_graph = any(4) == 0 });
    rg_memory_fail_at(0);
    require(ok == (rg_error_code() == RG_OK) || nested, calling, "backward's error");
}

static void one_call(void) {
    RG_SCOPE();
    size_t f = any(FUNCTIONS);
    bool no_grad = any(4) == 0;
    bool writes = functions[f].name[strlen(functions[f].name) - 1] == '_';
    calling = functions[f].name;
    n_items = (int)any(5);
    rg_set_grad_enabled(!no_grad);
    rg_set_detect_anomaly(any(30) == 0);
    take_prints(false, false);
    nested = false;
    rg_error_clear();
    alarm(60);
    gives = -1;
    numbers = 0;
    listed = false;
    const left_behind before = look_behind();
    const bool failing = any(20) == 0;
    if (failing)
        rg_memory_fail_at(1 + (int64_t)any(12));
    const bool unread = any(8) == 0;
    looked = false;
    if (unread)
        rg_fail(RG_VALUE_ERROR, "first", "unread");
    rg_tensor *y = functions[f].call();
    rg_memory_fail_at(0);
    check_left_behind(&before, !y);
    rg_set_default_dtype(RG_FLOAT32);
    if (unread && !nested && !looked)
        require(rgi_this.failure.unread && strcmp(rg_error_peek(), "first: unread") == 0, calling,
                "an unread failure is lost");
    /* A call inside the function may write to tensors and clear errors. */
    if (!nested && !unread) {
        require((y != NULL) == (rg_error_code() == RG_OK), calling,
                y ? "an error in spite of a result" : "no error");
        require(y || named(rg_error(), calling), calling, "named otherwise");
        /* An error in making an argument, or inside a module's forward, has another name. */
        const bool own = strncmp(rg_error(), calling, 4) == 0;
        require(failing || !own || rgi_this.later.count == 0, calling, "one call fails twice");
    }
    require(rg_error_code() == RG_OK || well_formed(rg_error()), calling, "a malformed message");
    if (!nested && !unread) {
        /* embedding_with shortens rows of the table by max_norm even if the call fails later.
         * batch_norm_with changes its running mean and variance. take_prints itself may fail at a
         * view that can't follow its base, so the error of the call was checked above. */
        bool shortens = strcmp(calling, "embedding_with") == 0;
        bool moves = strcmp(calling, "batch_norm_with") == 0;
        take_prints(!shortens && (!(writes || moves) || !y), !y);
    }
    require(rg_is_grad_enabled() == !no_grad, calling, "grad mode is another");
    if (y)
        results++;
    else
        refusals++;
    if (!y || y == RG_NONE)
        return;
    if (rg_requires_grad(y) && any(2))
        try_backward(y);
    replace((int)any(POOL), any(8) ? y : odd_tensor());
}

#include "tests/fuzz/says.h"

/* A handler that ignores warnings. The calls cause too many of them to be read. */
static void say_nothing(const char *message) { (void)message; }

int main(int argc, char **argv) {
    setenv("REGARD_ERRORS", "quiet", 0);
    rg_on_warning(say_nothing);
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    limit_memory();
    signal(SIGALRM, too_slow);
    int64_t live = rg_live_tensors();
    rg_memory before = rg_memory_stats();
    {
        RG_SCOPE();
        released = rg_zeros(2);
    }
    size_t mark = rg_scope_begin();
    generator = rg_generator_new(7);
    vocabulary = rg_vocabulary_new("1:3, None - one two");
    tokenizer = rg_tokenizer_from_folder("tests/golden/files/gpt2");
    token_stream = rg_token_stream_begin(tokenizer);
    make_modules();
    fill_pool();
    if (argc > 1 && strcmp(argv[1], "says") == 0)
        say_functions(argv[2]);
    for (long i = 0; i < calls; i++) {
        one_call();
        /* New tensors are added, since a pool full of NaN would find nothing. */
        if (i % 64 == 0) {
            RG_SCOPE();
            rg_error_clear();
            replace((int)any(POOL), odd_tensor());
        }
    }
    for (int i = 0; i < POOL; i++)
        if (pool[i])
            rg_drop(pool[i]);
    free_modules();
    rg_vocabulary_free(vocabulary);
    rg_tokenizer_free(tokenizer);
    rg_generator_free(generator);
    rg_error_clear();
    rg_scope_end(mark);
    rg_memory after = rg_memory_stats();
    fprintf(calls > 0 ? stdout : stderr,
            "fuzz_ops: %d functions, %ld results, %ld refusals; %ld tensors alive\n", FUNCTIONS,
            results, refusals, (long)(rg_live_tensors() - live));
    return rg_live_tensors() != live || after.nodes != before.nodes
           || after.storages != before.storages;
}

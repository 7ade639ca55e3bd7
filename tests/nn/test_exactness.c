/*
 * test_exactness.c: compares the errors of each op in float32, forward and backward, with PyTorch's
 * errors for the same inputs. The results in float64 count as exact. No kernel may be clearly less
 * exact than PyTorch's, in any instruction set. exactness.py describes the golden data. An op that
 * is in none of its cases is listed below, with the reason.
 *
 *     EXACTNESS=1 build/tests/nn/test_exactness | sort -g
 *
 * prints a table instead of failing. The first number of a line is our error, divided by the
 * largest one that is allowed. Then come our root mean square and worst error, in units in the last
 * place, and PyTorch's.
 */
#include "tests/golden.h"
#include "tests/test.h"
#include "regard.h"
#include "autograd/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EXACT_INPUTS = 6 };

/* ---- what is computed ------------------------------------------------------------------------ */

/* Returns how far steps with the gradient x[1] move x[0], and frees the optimizer. */
static rg_tensor *moved(rg_optim *o, rg_tensor *const x[], int steps) {
    rg_tensor *start = rg_clone(x[0]);
    rg_requires_grad_(x[0], true);
    for (int i = 0; i < steps; i++) {
        rg_set_grad(x[0], x[1]);
        ck_ok(rg_optim_step(o));
    }
    rg_optim_free(o);
    return rg_sub(rg_detach(x[0]), start);
}

#define EXACT(name, ...) \
    static rg_tensor *exact_##name(rg_tensor *const x[]) { return __VA_ARGS__; }
#include "exactness.def"
#undef EXACT

typedef struct {
    const char *name;
    rg_tensor *(*call)(rg_tensor *const x[]);
} exact_function;

#define EXACT(name, ...) { #name, exact_##name },
static const exact_function functions[] = {
#include "exactness.def"
};
#undef EXACT

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct {
    char name[64];
    const exact_function *f;
    bool by_element;
    int n;
    rg_tensor *in[EXACT_INPUTS];
    bool wanted[EXACT_INPUTS];
} exact_case;

/* Returns random numbers as exactness.py has them. */
static rg_tensor *between(rg_dims shape, double low, double high) {
    rg_tensor *x = rg_rand_dims(shape, RG_FLOAT32, rg_default_generator());
    return rg_add(rg_mul(x, high - low), low);
}

/* Reads an input such as f:20,30:-1:1. */
static void read_input(exact_case *c, char *word) {
    const char kind = word[0];
    char *shape = word + 2;
    char *end = strchr(shape, ':');
    ck_assert_msg(end && c->n < EXACT_INPUTS, "%s: what is %s?", c->name, word);
    *end = '\0';
    char *limits = end + 1;
    rg_dims size = golden_dims(shape);
    double low = strtod(limits, &limits);
    double high = *limits ? strtod(limits + 1, NULL) : 0;
    if (kind == 't')
        RG_SWAP(size.v[size.n - 2], size.v[size.n - 1]);
    rg_tensor *x = kind == 'i' ? rg_to(between(size, 0, low), RG_INT64) : between(size, low, high);
    c->in[c->n] = kind == 't' ? rg_transpose(x, -2, -1) : x;
    c->wanted[c->n++] = kind == 'f' || kind == 't';
}

static exact_case read_case(char *words) {
    exact_case c = { 0 };
    snprintf(c.name, sizeof c.name, "%s", golden_word(&words));
    const size_t length = strcspn(c.name, ".");
    for (int i = 0; i < RG_COUNT(functions); i++)
        if (strlen(functions[i].name) == length && !strncmp(functions[i].name, c.name, length))
            c.f = &functions[i];
    ck_assert_msg(c.f != NULL, "%s isn't in exactness.def", c.name);
    c.by_element = *golden_word(&words) == 'e';
    while (!golden_at_end(words))
        read_input(&c, golden_word(&words));
    return c;
}

/* Fills y[] with the result in this dtype, followed by the gradients of the inputs that have one.
 * *g is the gradient of the result; if it is NULL, it is drawn. Returns the number of tensors in
 * y[]. */
static int run_case(const exact_case *c, rg_dtype dtype, rg_tensor **g, rg_tensor *y[]) {
    rg_tensor *x[EXACT_INPUTS];
    for (int i = 0; i < c->n; i++) {
        const bool whole = rg_dtype_of(c->in[i]) == RG_INT64;
        rg_tensor *given = whole ? c->in[i] : rg_to(c->in[i], dtype);
        x[i] = c->wanted[i] ? rg_requires_grad_(rg_detach(given), true) : rg_clone(given);
    }
    int n = 1;
    y[0] = c->f->call(x);
    ck_assert_msg(y[0] != NULL, "%s: %s", c->name, rg_error());
    if (!rg_requires_grad(y[0]))
        return n;
    if (!*g)
        *g = between(rg_shape(y[0]), -1, 1);
    ck_ok(rg_backward(y[0], .gradient = rg_to(*g, dtype)));
    for (int i = 0; i < c->n; i++)
        if (c->wanted[i])
            y[n++] = rg_grad_of(x[i]);
    return n;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* The root mean square of the errors, and the largest error, in units in the last place. */
typedef struct {
    double rms, worst;
} exact_error;

static double unit_of(double size) { return ldexp(1, ilogb(fmax(size, 0x1p-126)) - 23); }

/* Returns the error of y, where z is exact. With `by_element`, the unit is that of each element.
 * Otherwise all elements have one unit, that of their root mean square. */
static exact_error error_of(rg_tensor *y, rg_tensor *z, bool by_element) {
    const double *right = rg_data(rg_contiguous(rg_detach(z)));
    const double *got = rg_data(rg_contiguous(rg_double(rg_detach(y))));
    const int64_t n = rg_numel(z);
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += right[i] * right[i];
    const double size = sqrt(squares / (double)n) * 0x1p-23;
    exact_error e = { 0, 0 };
    for (int64_t i = 0; i < n; i++) {
        const double unit = by_element ? unit_of(fabs(right[i])) : size;
        const double far = got[i] == right[i] ? 0 : fabs(got[i] - right[i]) / unit;
        e.rms += far * far / (double)n;
        e.worst = far <= e.worst ? e.worst : far; /* A NaN is far, too. */
    }
    return (exact_error){ sqrt(e.rms), e.worst };
}

/* Returns the limit of our root mean square error, where PyTorch's is `torch`. The limit is 1.5
 * times PyTorch's and a little more, since the errors of few elements vary by chance. */
static double most_of(double torch, int64_t n) {
    return 1.5 * torch + 0.25 + 0.5 / sqrt((double)n);
}

static void compare(const exact_case *c, int which, exact_error ours, exact_error torch,
                    int64_t n) {
    const double most = most_of(torch.rms, n);
    const double worst = 3 * torch.worst + 2;
    if (getenv("EXACTNESS"))
        printf("%.2f %s %d: %.3g and %.3g, PyTorch %.3g and %.3g\n",
               fmax(ours.rms / most, ours.worst / worst), c->name, which, ours.rms, ours.worst,
               torch.rms, torch.worst);
    else
        ck_each(ours.rms <= most && ours.worst <= worst,
                "%s, %s %d: its error is %.3g ulp (at most %.3g), and PyTorch's %.3g (%.3g)",
                c->name, which ? "gradient" : "result", which, ours.rms, ours.worst, torch.rms,
                torch.worst);
}

/* Compares the next case, which has these words, and marks its function in met[]. */
static void check_case(golden_file *f, char *words, bool met[]) {
    RG_SCOPE();
    exact_case c = read_case(words);
    char *numbers = golden_field(f, ':');
    rg_tensor *y[1 + EXACT_INPUTS], *z[1 + EXACT_INPUTS], *g = NULL;
    const int n = run_case(&c, RG_FLOAT32, &g, y);
    ck_assert_int_eq(run_case(&c, RG_FLOAT64, &g, z), n);
    for (int i = 0; i < n; i++) {
        exact_error torch;
        torch.rms = golden_number(&numbers);
        torch.worst = golden_number(&numbers);
        compare(&c, i, error_of(y[i], z[i], c.by_element && i == 0), torch, rg_numel(y[i]));
    }
    ck_assert_msg(golden_at_end(numbers), "%s has more errors", c.name);
    met[c.f - functions] = true;
}

/* The results of these ops aren't rounded: the ops move, choose, compare or count elements, or
 * round them to integers. */
static const char *const plain[] = {
    "neg",           "abs",           "sign",          "floor",         "ceil",
    "bernoulli",
    "round",         "trunc",         "nan_to_num",    "relu",          "hardtanh",
    "hardshrink",    "threshold",     "div_floor",     "div_trunc",     "maximum",
    "minimum",       "fmax",          "fmin",          "isnan",         "isinf",
    "isfinite",      "logical_not",   "eq",            "ne",            "lt",
    "le",            "gt",            "ge",            "logical_and",   "logical_or",
    "logical_xor",   "where",         "masked_fill",   "clamp",         "replace",
    "any",           "all",           "count_nonzero", "amax",          "amin",
    "max",           "min",           "max_dim",       "min_dim",       "argmax",
    "argmin",        "kthvalue",      "median_dim",    "median",        "max_unpool",
    "select",        "slice",         "diagonal",      "unslice",       "diagonal_copy",
    "unsqueeze",     "reshape",       "alias",         "squeeze",       "as_strided",
    "copy_slices",   "permute",       "transpose",     "t",             "to",
    "clone",         "cat",           "stack",         "flip",          "roll",
    "tril",          "triu",          "scatter",       "undoubled",     "index_fill",
    "index_copy",    "set_item",      "sort",          "topk",          "unique",
    "unique_dim",    "nonzero",       "searchsorted",  "floor_divide",
};

/* Each of these ops is the gradient of an op in the table. A backward run of that op calls the same
 * kernel without the gradient's op. row_norms has the same bits as norm
 * (tests/tensor/test_reduce.c). */
static const char *const within[] = { "conv_input", "conv_weight", "fold", "interleave",
                                      "unindex", "unstride", "row_norms", "prelu_grad",
                                      "bce_slope" };

static bool names(int n, const char *const list[], const char *name) {
    bool found = false;
    for (int i = 0; i < n; i++)
        found = found || !strcmp(list[i], name);
    return found;
}

START_TEST(test_exactness) {
    bool met[RG_COUNT(functions)] = { false };
    golden_file f = golden_open("exactness");
    rg_set_profiling(true);
    uint64_t seed = 0;
    for (char *words; (words = golden_case(&f));) {
        rg_manual_seed(++seed);
        check_case(&f, words, met);
    }
    golden_close(&f);
    for (int i = 0; i < RG_COUNT(functions); i++)
        ck_assert_msg(met[i], "exactness.py has no case of %s", functions[i].name);
    for (int i = 0; i < rgi_n_ops; i++) {
        const char *name = rgi_ops[i]->name;
        ck_assert_msg(rg_profile_cost(name).calls > 0 || names(RG_COUNT(plain), plain, name)
                          || names(RG_COUNT(within), within, name),
                      "%s is in no case, though it may round: tests/nn/exactness.def and "
                      "tests/golden/make/exactness.py lack it",
                      name);
    }
}
END_TEST

/* Batch norm keeps the digits of numbers far from 0, since it subtracts the mean before it scales.
 * PyTorch scales first: the root mean square of its errors is 44 units in the last place here. */
START_TEST(test_batch_norm_far_from_zero) {
    for (int trained = 0; trained < 2; trained++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            RG_SCOPE();
            rg_manual_seed(seed);
            rg_tensor *x = between(RG_DIMS(6, 5, 12, 13), 99, 101);
            rg_tensor *mean = trained ? RG_NONE : rg_full(RG_DIMS(5), 100.0);
            rg_tensor *var = trained ? RG_NONE : rg_full(RG_DIMS(5), 1.0 / 3);
            rg_tensor *y = rg_batch_norm(x, mean, var, .training = trained);
            rg_tensor *z = rg_batch_norm(rg_double(x), trained ? RG_NONE : rg_double(mean),
                                         trained ? RG_NONE : rg_double(var), .training = trained);
            ck_ok(y && z);
            const exact_error e = error_of(y, z, false);
            ck_each(e.rms < 12, "seed %d: %g ulp", (int)seed, e.rms);
        }
}
END_TEST

RG_TESTS_UNGUARDED(exactness, test_exactness, test_batch_norm_far_from_zero)

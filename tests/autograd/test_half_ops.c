/*
 * test_half_ops.c: every public function of autograd/ops/ops.h, on tensors of bfloat16 and float16.
 * The arguments are those of the golden cases, rounded. The results, and the gradients, are
 * compared with those of the same call on the same rounded numbers in float32, which test_golden.c
 * compares with PyTorch: the dtype must be that of the arguments, and the values must differ by a
 * few roundings at most. Where a program is slow (rg_slow), one of several cases that look alike is
 * enough.
 *
 *     build/tests/autograd/test_half_ops              all functions
 *     build/tests/autograd/test_half_ops softmax      these, with every failure
 */
#include "op_calls.h"
#include "tensor/dtype.h"
#include "tensor/kernels/copy.h"
#include "tensor/kernels/limits.h"
#include "tensor/structs.h"

#include "tests/test.h"

#include <stdarg.h>

static bool verbose;
static const op_case *current;
static const op_call *calling;
static rg_dtype half;
static int failures, checks;

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...) {
    va_list list;
    failures++;
    static int said;
    if (verbose || said++ < 3) {
        va_start(list, format);
        printf("%s, line %d, %s: ", calling->name, current->line, rg_dtype_name(half));
        vprintf(format, list);
        printf("\n");
        fflush(stdout);
        va_end(list);
    }
    return false;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The tensors of a call that require grad, in the order of its arguments. */
typedef struct {
    int n;
    rg_tensor *v[OP_LIST];
} leaves;

/* The number of tensors that `rounded` has changed. */
static int changed;

/* Returns t rounded to the dtype `half` and then converted to the dtype `to`, with t's strides.
 * Adds it to the leaves if t requires grad. Rounds numbers, too. Returns other tensors as they are.
 */
static rg_tensor *rounded(rg_tensor *t, rg_dtype to, leaves *l) {
    if (!t || t == RG_NONE || !rg_is_floating_point(t))
        return t;
    if (t->flags & RG_WEAK)
        return rg_wrap_float(rgi_rounded(rg_item(t), half));
    RG_NO_GRAD();
    changed++;
    rg_dims stride = { .n = rg_ndim(t) };
    memcpy(stride.v, t->stride, sizeof stride.v);
    rg_tensor *y = op_strided(rg_shape(t), stride, to);
    rgi_copy_elements(y, rg_to(t, half));
    if (rg_requires_grad(t))
        l->v[l->n++] = rg_requires_grad_(y, true);
    return y;
}

static void round_arguments(op_case *c, rg_dtype to, leaves *l) {
    l->n = 0;
    for (int i = 0; i < c->n_args; i++) {
        op_argument *a = &c->arg[i];
        if (strchr("tn", a->kind))
            a->t = rounded(a->t, to, l);
        for (int k = 0; k < a->list.n; k++)
            a->item[k] = rounded(a->item[k], to, l);
        a->list.v = a->item;
    }
    const size_t length = strlen(c->function);
    if (c->function[length - 1] == '_' && !c->direct)
        c->arg[0].t = rg_clone(c->arg[0].t);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double largest_of(rg_tensor *t) {
    double most = 0;
    rg_tensor *flat = rg_reshape(rg_to(rg_detach(t), RG_FLOAT64), -1);
    for (int64_t i = 0; i < rg_numel(flat); i++)
        if (isfinite(rg_at(flat, i)))
            most = fmax(most, fabs(rg_at(flat, i)));
    return most;
}

/* Returns whether the dtype `is` is right for a result that has the dtype of_b in float32. It is
 * `half`, unless the dtype is an argument of the call, or decided by other tensors. */
static bool is_dtype_right(rg_dtype is, rg_dtype of_b) {
    static const char *const decide[] = { "to", "bincount_with", "cross_entropy_with" };
    bool decides = strstr(calling->name, "_as") != NULL;
    for (size_t i = 0; i < sizeof decide / sizeof *decide; i++)
        decides |= strcmp(calling->name, decide[i]) == 0;
    return is == (of_b == RG_FLOAT32 ? half : of_b) || (decides && is >= of_b);
}

/* Returns whether the call's values needn't be near those of float32. Some depend on the dtype's
 * limits, or on whether two numbers are equal; of some composed functions, each op rounds, and a
 * difference of rounded numbers, or a power, is far off; and 1e-12, which keeps divisors from 0, is
 * 0 in float16. test_golden.c compares all of these with PyTorch. */
static bool may_be_far(void) {
    static const char *const far[] = { "eq",
                                       "result_type",
                                       "nan_to_num_with",
                                       "nan_to_num_with_",
                                       "cdist_with",
                                       "scaled_dot_product_attention_with",
                                       "normalize",
                                       "cosine_similarity" };
    static const char *const far_in_float16[] = { "pow",
                                                  "pow_",
                                                  "cumprod",
                                                  "pairwise_distance",
                                                  "cross_entropy_with",
                                                  "gaussian_nll_loss_with" };
    bool is = false;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        is |= strcmp(calling->name, far[i]) == 0;
    for (size_t i = 0; i < sizeof far_in_float16 / sizeof *far_in_float16; i++)
        is |= half == RG_FLOAT16 && strcmp(calling->name, far_in_float16[i]) == 0;
    return is;
}

/* Compares the values of a, which are of the dtype `half` or whole, with those of b. */
static bool compare(const char *what, int k, rg_tensor *a, rg_tensor *b, double scale) {
    const rg_dtype of_b = (rg_dtype)rg_dtype_of(b);
    checks++;
    if (!is_dtype_right((rg_dtype)rg_dtype_of(a), of_b))
        return complain("%s %d is %s", what, k, rg_dtype_name((rg_dtype)rg_dtype_of(a)));
    if (!rgi_same_shape(a, b))
        return complain("%s %d has another shape", what, k);
    const bool exact = !rg_is_floating_point(b);
    rg_tensor *x = rg_reshape(rg_to(rg_detach(a), RG_FLOAT64), -1);
    rg_tensor *y = rg_reshape(rg_to(rg_detach(b), RG_FLOAT64), -1);
    const double few = exact ? 0 : 4 * rgi_epsilon(half) * fmax(scale, largest_of(b));
    for (int64_t i = 0; i < rg_numel(x) && !may_be_far(); i++) {
        const double u = rg_at(x, i), v = rg_at(y, i);
        const bool same = (isnan(u) && isnan(v)) || u == v || fabs(u - v) <= few
                          || (isinf(u) && fabs(v) > 60000 && half == RG_FLOAT16);
        if (!same)
            return complain("%s %d, element %lld: %g, in float32 %g", what, k, (long long)i, u, v);
    }
    return true;
}

/* Stores the gradients of the results in g[]. Returns false if there is none. */
static bool differentiate(const op_result *r, leaves *l, bool graph, rg_tensor *g[]) {
    rg_tensor *y[OP_OUTPUTS], *cotangent[OP_OUTPUTS];
    int n = 0;
    for (int k = 0; k < r->n; k++) {
        if (!rg_requires_grad(r->t[k]))
            continue;
        rg_tensor *wide = op_cotangent((unsigned)k, rg_zeros_dims(rg_shape(r->t[k]), RG_FLOAT32));
        cotangent[n] = rg_to(rg_to(wide, half), (rg_dtype)rg_dtype_of(r->t[k]));
        y[n++] = r->t[k];
    }
    return n && l->n
           && rg_grad_many(n, y, cotangent, l->n, l->v, g,
                           (rg_backward_options){ .gradient = RG_NONE,
                                                  .retain_graph = true,
                                                  .create_graph = graph,
                                                  .allow_unused = true });
}

static void compare_gradients(const char *what, const op_result *a, leaves *of_a,
                              const op_result *b, leaves *of_b, bool graph, double scale) {
    rg_tensor *g[OP_LIST], *h[OP_LIST];
    if (!differentiate(b, of_b, graph, h)) {
        rg_error_clear();
        return;
    }
    if (!differentiate(a, of_a, graph, g)) {
        complain("%s: %s", what, rg_error_code() ? rg_error() : "requires no grad");
        return;
    }
    for (int k = 0; k < of_a->n; k++)
        if ((g[k] == RG_NONE) != (h[k] == RG_NONE))
            complain("%s %d: one is none", what, k);
        else if (g[k] != RG_NONE)
            compare(what, k, g[k], h[k], scale);
}

static void check_case(op_case *c, const op_call *f) {
    op_case wide = *c, narrow = *c;
    leaves of_wide, of_narrow;
    changed = 0;
    round_arguments(&wide, RG_FLOAT32, &of_wide);
    if (!changed)
        return;
    round_arguments(&narrow, half, &of_narrow);
    rg_error_clear();
    rg_manual_seed(42);
    op_result b = f->call(wide.arg);
    if (b.n < 0 || c->error.kind) {
        rg_error_clear();
        return;
    }
    rg_manual_seed(42);
    op_result a = f->call(narrow.arg);
    if (a.n < 0 && strstr(rg_error(), "without overflow")) {
        rg_error_clear();
        return;
    }
    if (a.n != b.n) {
        complain("%s", rg_error());
        rg_error_clear();
        return;
    }
    double scale = 0;
    for (int i = 0; i < wide.n_args; i++)
        if (wide.arg[i].t && wide.arg[i].t != RG_NONE && rg_is_floating_point(wide.arg[i].t))
            scale = fmax(scale, largest_of(wide.arg[i].t));
    for (int k = 0; k < a.n; k++)
        compare("output", k, a.t[k], b.t[k], scale);
    compare_gradients("gradient", &a, &of_narrow, &b, &of_wide, false, scale);
    compare_gradients("gradient by rule", &a, &of_narrow, &b, &of_wide, true, scale);
    rg_error_clear();
}

/* ---- choosing cases -------------------------------------------------------------------------- */

static uint64_t add_to_look(uint64_t look, int64_t v) {
    return (look ^ (uint64_t)v) * 1099511628211u;
}

static uint64_t add_tensor(uint64_t look, rg_tensor *t) {
    if (!t || t == RG_NONE)
        return add_to_look(look, t == RG_NONE);
    const bool floating = rg_is_floating_point(t);
    const int facts[] = { floating ? -1 : rg_dtype_of(t),
                          rg_ndim(t),
                          rg_numel(t) == 0,
                          rg_numel(t) == 1,
                          rg_requires_grad(t),
                          t->flags & RG_CONTIGUOUS,
                          t->flags & RG_WEAK };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        look = add_to_look(look, facts[i]);
    return look;
}

/* Returns a hash of what a case looks like, without the sizes and the values of its tensors.
 * Float32 and float64 look alike, since both are rounded. */
static uint64_t look_of(const op_case *c) {
    uint64_t look = 14695981039346656037u;
    for (int i = 0; i < c->n_args; i++) {
        const op_argument *a = &c->arg[i];
        look = add_tensor(add_to_look(look, a->kind), a->t);
        int64_t bits;
        memcpy(&bits, &a->x, sizeof bits);
        look = add_to_look(add_to_look(look, a->i), bits);
        look = add_to_look(look, a->dims.n);
        for (const char *s = a->kind == 's' ? a->s : ""; *s; s++)
            look = add_to_look(look, *s);
        for (int k = 0; k < a->list.n; k++)
            look = add_tensor(look, a->item[k]);
    }
    return look;
}

/* Returns whether the case looks like none before it in this file, of which `seen` has the hashes,
 * or may be drawn all the same. */
static bool is_drawn(const op_case *c, uint64_t seen[], int room, int *n) {
    if (!rg_slow())
        return true;
    const uint64_t look = look_of(c);
    for (int i = 0; i < *n; i++)
        if (seen[i] == look)
            return false;
    if (*n < room)
        seen[(*n)++] = look;
    return true;
}

static void check_function(const op_call *f) {
    enum { LOOKS = 1000 };
    static uint64_t seen[LOOKS];
    int n = 0;
    golden_file file;
    static op_case c;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/ops", golden_folder());
    current = &c;
    calling = f;
    if (!golden_open_in(&file, folder, f->name))
        return;
    for (bool more = true; more;) {
        RG_SCOPE();
        more = op_case_next(&file, &c);
        const bool drawn = more && is_drawn(&c, seen, LOOKS, &n);
        for (int i = 0; drawn && i < 2; i++) {
            half = i ? RG_FLOAT16 : RG_BFLOAT16;
            check_case(&c, f);
        }
        rg_error_clear();
    }
    golden_close(&file);
}

START_TEST(test_function) {
    const op_call *f = &op_calls[_i];
    if (op_is_asked(f))
        check_function(f);
    ck_assert_msg(failures == 0, "%s: %d of %d checks failed", f->name, failures, checks);
}
END_TEST

static void say_nothing(const char *message) { (void)message; }

int main(int argc, char **argv) {
    rg_on_warning(say_nothing);
    op_note_named(argc, argv);
    verbose = argc > 1;
    TCase *tcase = rg_tcase("half_ops");
    tcase_add_loop_test(tcase, test_function, 0, (int)(sizeof op_calls / sizeof op_calls[0]));
    return rg_run("half_ops", tcase) ? EXIT_FAILURE : EXIT_SUCCESS;
}

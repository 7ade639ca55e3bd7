/* test_optim.c: optimizers make PyTorch's steps, with groups, clipping, state and errors. */
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/test.h"
#include "nn/layers/layers.h"
#include "nn/optim/optim.h"
#include "autograd/replay/replay.h"
#include "tensor/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_PARAMS = 3 };
static const rg_dims any_shapes[N_PARAMS] = { { 2, { 3, 4 } }, { 1, { 5 } }, { 0, { 0 } } };
static const rg_dims matrices[N_PARAMS] = { { 2, { 3, 4 } }, { 2, { 4, 3 } }, { 2, { 2, 6 } } };
static const rg_dims *shapes = any_shapes;

typedef struct {
    rg_tensor *v[N_PARAMS];
} params;

/* Makes the parameters that optim.py makes. */
static params make_params(rg_dtype dtype) {
    params made;
    for (int k = 0; k < N_PARAMS; k++) {
        double v[12];
        for (int i = 0; i < 12; i++)
            v[i] = ((7 * i + 5 * k) % 11 - 5) / 4.0;
        made.v[k] = rg_requires_grad_(rg_to(rg_from_double(v, shapes[k]), dtype), true);
    }
    return made;
}

static void set_gradients(params *p, int t) {
    RG_SCOPE();
    for (int k = 0; k < N_PARAMS; k++) {
        double target[12], noise[12];
        rg_dtype dtype = (rg_dtype)rg_dtype_of(p->v[k]);
        for (int i = 0; i < 12; i++) {
            target[i] = ((3 * i + k) % 7 - 3) / 8.0;
            noise[i] = ((5 * i + 3 * t + k) % 13 - 6) / 16.0;
        }
        rg_tensor *g = rg_sub(rg_detach(p->v[k]), rg_to(rg_from_double(target, shapes[k]), dtype));
        g = rg_add(rg_mul(g, 0.5), rg_to(rg_from_double(noise, shapes[k]), dtype));
        ck_ok(rg_set_grad(p->v[k], k == 2 && t % 3 == 0 ? RG_NONE : g));
    }
}

/* Returns how many parameters' elements differ from PyTorch's `numbers` by more than the
 * tolerance. */
static int differ(const char *name, int t, params *p, char *numbers, double tolerance) {
    RG_SCOPE();
    int bad = 0;
    for (int k = 0; k < N_PARAMS; k++)
        for (int i = 0; i < rg_numel(p->v[k]); i++) {
            double got = rg_item(rg_select(rg_flatten(rg_detach(p->v[k]), 0, -1), 0, i));
            double want = golden_number(&numbers);
            double to = rg_dtype_of(p->v[k]) == RG_FLOAT32 ? (float)want : want;
            if (fabs(got - to) <= tolerance * fmax(1, fabs(to)))
                continue;
            if (!bad++)
                printf("%s, step %d, parameter %d[%d]: %.17g, PyTorch %.17g\n", name, t, k, i, got,
                       to);
        }
    return bad;
}

/* Follows an optimizer for 100 steps, and frees it. Returns how many numbers are off. */
static int follow(const char *name, rg_dtype dtype, rg_optim *o, params *p) {
    int bad = 0;
    double tolerance = dtype == RG_FLOAT64 ? 1e-12 : 2e-6;
    if (dtype == RG_FLOAT32 && strstr(name, "sgd"))
        tolerance = 0;
    golden_file f = golden_find("optim", "%s.%s", name, golden_dtype_name(dtype));
    ck_ok(o);
    for (int t = 1; t <= 100; t++) {
        set_gradients(p, t);
        ck_ok(rg_optim_step(o));
        if (t == 1 || t == 2 || t == 10 || t == 50 || t == 100)
            bad += differ(name, t, p, golden_field(&f, ':'), tolerance);
    }
    golden_close(&f);
    rg_optim_free(o);
    return bad;
}

/* Each name is that of a case of optim.py; `make` makes the optimizer of the parameters p. */
#define TRAJECTORY(name, make)                                \
    for (int single = 0; single < 2; single++) {              \
        RG_SCOPE();                                           \
        rg_dtype dtype = single ? RG_FLOAT32 : RG_FLOAT64;    \
        params made = make_params(dtype);                     \
        rg_list p = RG_LIST(made.v[0], made.v[1], made.v[2]); \
        bad += follow(name, dtype, make, &made);              \
    }

START_TEST(test_trajectories) {
    int bad = 0;
    TRAJECTORY("sgd", rg_optim_sgd(p))
    TRAJECTORY("sgd_weight_decay", rg_optim_sgd(p, .lr = 0.05, .weight_decay = 0.1))
    TRAJECTORY("sgd_maximize", rg_optim_sgd(p, .lr = 0.01, .weight_decay = 0.02, .maximize = true))
    TRAJECTORY("sgd_momentum", rg_optim_sgd(p, .lr = 0.02, .momentum = 0.9))
    TRAJECTORY("sgd_dampening",
               rg_optim_sgd(p, .lr = 0.02, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.01))
    TRAJECTORY("sgd_nesterov", rg_optim_sgd(p, .lr = 0.02, .momentum = 0.9, .nesterov = true))
    TRAJECTORY("sgd_nesterov_decay", rg_optim_sgd(p, .lr = 0.01, .momentum = 0.7, .nesterov = true,
                                                  .weight_decay = 0.1, .maximize = true))
    TRAJECTORY("adam", rg_optim_adam(p))
    TRAJECTORY("adam_all", rg_optim_adam(p, .lr = 0.02, .betas = { 0.8, 0.95 }, .eps = 1e-06,
                                         .weight_decay = 0.1))
    TRAJECTORY("adam_small_beta", rg_optim_adam(p, .lr = 0.02, .betas = { 0.3, 0.4 }))
    TRAJECTORY("adam_amsgrad", rg_optim_adam(p, .lr = 0.03, .amsgrad = true, .betas = { 0.9, 0.9 }))
    TRAJECTORY("adam_maximize", rg_optim_adam(p, .lr = 0.01, .maximize = true, .weight_decay = 0.05,
                                              .amsgrad = true))
    TRAJECTORY("adamw", rg_optim_adamw(p))
    TRAJECTORY("adamw_all", rg_optim_adamw(p, .lr = 0.02, .betas = { 0.8, 0.95 }, .eps = 1e-06,
                                           .weight_decay = 0.3))
    TRAJECTORY("adamw_amsgrad", rg_optim_adamw(p, .lr = 0.03, .amsgrad = true,
                                               .betas = { 0.9, 0.9 }, .maximize = true))
    TRAJECTORY("adamw_no_decay", rg_optim_adamw(p, .lr = 0.01, .weight_decay = 0.0))
    TRAJECTORY("rmsprop", rg_optim_rmsprop(p))
    TRAJECTORY("rmsprop_alpha",
               rg_optim_rmsprop(p, .lr = 0.005, .alpha = 0.9, .eps = 0.001, .weight_decay = 0.1))
    TRAJECTORY("rmsprop_momentum", rg_optim_rmsprop(p, .lr = 0.002, .momentum = 0.9))
    TRAJECTORY("rmsprop_centered",
               rg_optim_rmsprop(p, .lr = 0.005, .centered = true, .eps = 0.0001))
    TRAJECTORY("rmsprop_all",
               rg_optim_rmsprop(p, .lr = 0.002, .alpha = 0.4, .momentum = 0.5, .centered = true,
                                .weight_decay = 0.01, .maximize = true, .eps = 0.001))
    TRAJECTORY("adagrad", rg_optim_adagrad(p))
    TRAJECTORY("adagrad_all", rg_optim_adagrad(p, .lr = 0.1, .lr_decay = 0.02, .weight_decay = 0.1,
                                               .initial_accumulator_value = 0.3, .eps = 0.001))
    TRAJECTORY("adagrad_maximize", rg_optim_adagrad(p, .lr = 0.05, .maximize = true))
    TRAJECTORY("lion", rg_optim_lion(p))
    TRAJECTORY("lion_all",
               rg_optim_lion(p, .lr = 0.01, .betas = { 0.8, 0.95 }, .weight_decay = 0.2))
    TRAJECTORY("lion_maximize", rg_optim_lion(p, .lr = 0.01, .maximize = true))
    TRAJECTORY("nadam", rg_optim_nadam(p))
    TRAJECTORY("nadam_rate", rg_optim_nadam(p, .lr = 1e-3))
    TRAJECTORY("nadam_momentum_decay", rg_optim_nadam(p, .momentum_decay = 6e-3))
    TRAJECTORY("nadam_weight_decay", rg_optim_nadam(p, .weight_decay = 0.1))
    TRAJECTORY("nadam_both_decays", rg_optim_nadam(p, .weight_decay = 0.1, .momentum_decay = 6e-3))
    TRAJECTORY("nadam_decoupled", rg_optim_nadam(p, .weight_decay = 0.1, .momentum_decay = 6e-3,
                                                 .decoupled_weight_decay = true))
    TRAJECTORY("nadam_maximize", rg_optim_nadam(p, .weight_decay = 0.1, .maximize = true))
    TRAJECTORY("nadam_all", rg_optim_nadam(p, .lr = 0.02, .betas = { 0.3, 0.9 }, .eps = 1e-4,
                                           .weight_decay = 0.2, .momentum_decay = 0.3))
    TRAJECTORY("radam", rg_optim_radam(p))
    TRAJECTORY("radam_rate", rg_optim_radam(p, .lr = 2e-3))
    TRAJECTORY("radam_eps", rg_optim_radam(p, .eps = 1e-6))
    TRAJECTORY("radam_weight_decay", rg_optim_radam(p, .weight_decay = 0.1))
    TRAJECTORY("radam_decoupled",
               rg_optim_radam(p, .weight_decay = 0.1, .decoupled_weight_decay = true))
    TRAJECTORY("radam_maximize", rg_optim_radam(p, .weight_decay = 0.1, .maximize = true))
    TRAJECTORY("radam_all", rg_optim_radam(p, .lr = 0.02, .betas = { 0.8, 0.97 }, .eps = 1e-3,
                                           .weight_decay = 0.3))
    TRAJECTORY("radam_never_rectified", rg_optim_radam(p, .lr = 0.01, .betas = { 0.5, 0.6 }))
    shapes = matrices;
    TRAJECTORY("muon", rg_optim_muon(p))
    TRAJECTORY("muon_rate", rg_optim_muon(p, .lr = 0.01))
    TRAJECTORY("muon_weight_decay", rg_optim_muon(p, .weight_decay = 0.2))
    TRAJECTORY("muon_momentum", rg_optim_muon(p, .momentum = 0.8))
    TRAJECTORY("muon_steps", rg_optim_muon(p, .ns_steps = 6))
    TRAJECTORY("muon_coefficients", rg_optim_muon(p, .ns_coefficients = { 3.4, -4.7, 2.0 }))
    TRAJECTORY("muon_all", rg_optim_muon(p, .lr = 0.02, .momentum = 0.4, .nesterov = false,
                                         .eps = 2.0, .match_rms_adamw = true))
    shapes = any_shapes;
    ck_assert_int_eq(bad, 0);
}
END_TEST

/* The context of LBFGS's closures. */
typedef struct {
    params *p;
    rg_optim *o;
    int calls;
} valley;

/* Clears the gradients, and computes the loss in the valley of optim.py and its gradient. */
static rg_tensor *valley_loss(void *context) {
    valley *v = context;
    rg_tensor *const *p = v->p->v;
    v->calls++;
    ck_ok(rg_optim_zero_grad(v->o));
    rg_tensor *x = rg_cat(RG_LIST(rg_flatten(p[0], 0, -1), p[1], rg_reshape(p[2], 1)), 0);
    rg_tensor *before = rg_slice(x, 0, 0, 17, 1);
    rg_tensor *ahead = rg_sub(rg_slice(x, 0, 1, 18, 1), rg_square(before));
    rg_tensor *loss = rg_sum(rg_add(rg_mul(rg_square(ahead), 2), rg_square(rg_sub(before, 1))));
    return rg_backward(loss) ? loss : NULL;
}

/* Computes a simpler loss and its gradient. Has no assertions, since memory may be denied. */
static rg_tensor *quiet_loss(void *context) {
    valley *v = context;
    rg_tensor *loss = rg_sum(rg_square(rg_square(v->p->v[0])));
    return rg_optim_zero_grad(v->o) && rg_backward(loss) ? loss : NULL;
}

/* Returns how many numbers of LBFGS's first 8 steps are off, and sets *worst to the largest
 * error. */
static int follow_valley(const char *name, rg_dtype dtype, rg_optim *o, params *p, double *worst) {
    valley v = { p, o, 0 };
    int bad = 0;
    /* In lbfgs_rate, torch's own float32 changes by 6e-4 if the last bit of one number does. */
    const double near = strcmp(name, "lbfgs_rate") == 0 ? 1e-3 : 1e-5;
    golden_file f = golden_find("optim", "%s.%s", name, golden_dtype_name(dtype));
    ck_ok(o);
    for (int t = 0; t < 8; t++) {
        RG_SCOPE();
        char *numbers = golden_field(&f, ':');
        rg_tensor *loss = rg_optim_step_closure(o, valley_loss, &v);
        ck_ok(loss);
        rg_tensor *x = rg_detach(rg_cat(RG_LIST(rg_flatten(p->v[0], 0, -1), p->v[1],
                                                rg_reshape(p->v[2], 1), rg_reshape(loss, 1)),
                                        0));
        for (int i = 0; i < rg_numel(x); i++) {
            const double want = golden_number(&numbers);
            const double off = fabs(rg_at(x, i) - want) / fmax(1, fabs(want));
            *worst = fmax(*worst, off);
            bad += !(off <= (dtype == RG_FLOAT64 ? 1e-12 : near));
        }
    }
    golden_close(&f);
    rg_optim_free(o);
    return bad;
}

#define VALLEY(name, ...)                                                                    \
    for (int single = 0; single < 2; single++) {                                             \
        RG_SCOPE();                                                                          \
        double worst = 0;                                                                    \
        rg_dtype dtype = single ? RG_FLOAT32 : RG_FLOAT64;                                   \
        params made = make_params(dtype);                                                    \
        rg_list p = { N_PARAMS, made.v };                                                    \
        int off = follow_valley(name, dtype, rg_optim_lbfgs(p, __VA_ARGS__), &made, &worst); \
        if (off)                                                                             \
            printf("%s: %d numbers are off, by up to %g\n", name, off, worst);               \
        bad += off;                                                                          \
    }

START_TEST(test_lbfgs) {
    int bad = 0;
    VALLEY("lbfgs")
    VALLEY("lbfgs_rate", .lr = 0.01)
    VALLEY("lbfgs_tolerance", .tolerance_grad = 1e-6)
    VALLEY("lbfgs_wolfe", .strong_wolfe = true)
    VALLEY("lbfgs_short", .lr = 0.3, .max_iter = 7, .history_size = 3)
    VALLEY("lbfgs_wolfe_short", .lr = 5, .max_iter = 6, .history_size = 4, .strong_wolfe = true)
    VALLEY("lbfgs_wolfe_few_tries", .lr = 40, .max_iter = 9, .max_eval = 12, .strong_wolfe = true)
    VALLEY("lbfgs_early", .lr = 0.5, .tolerance_grad = 0.5, .tolerance_change = 1e-3)
    ck_assert_int_eq(bad, 0);
}
END_TEST

enum { MOST_CALLS = 64 };

/* The closure returns n losses and n slopes in turn, again and again. If n is 0, the loss is -x.
 * `place` has the value of x at each call of the closure, and then the last value of x. */
typedef struct {
    rg_tensor *x;
    double loss[16], slope[16], place[MOST_CALLS + 1];
    int n, calls;
} script;

static rg_tensor *scripted_loss(void *context) {
    script *s = context;
    const double x = rg_item(s->x);
    const int k = s->n ? s->calls % s->n : 0;
    ck_assert_int_lt(s->calls, MOST_CALLS);
    s->place[s->calls++] = x;
    ck_ok(rg_set_grad(s->x, rg_full_dims(RG_DIMS(1), s->n ? s->slope[k] : -1, RG_FLOAT64)));
    return rg_scalar_dtype(s->n ? s->loss[k] : -x, RG_FLOAT64);
}

/* Returns how many elements of `place` differ from torch's by more than rounding. */
static int count_elsewhere(const script *s, char *places, int number) {
    int bad = 0;
    double want[MOST_CALLS + 1], far = 0;
    for (int i = 0; i <= s->calls; i++) {
        want[i] = golden_at_end(places) ? NAN : golden_number(&places);
        far = fmax(far, fabs(want[i]));
    }
    for (int i = 0; i <= s->calls; i++) {
        if (fabs(s->place[i] - want[i]) <= 1e-12 * far)
            continue;
        if (!bad++)
            printf("script %d, place %d: %.17g, PyTorch %.17g\n", number, i, s->place[i], want[i]);
    }
    return bad + !golden_at_end(places);
}

/* Makes two steps of LBFGS, whose options are in `words`. The closure returns the losses and slopes
 * of the next field of f. */
static int follow_script(char *words, golden_file *f, int number) {
    RG_SCOPE();
    script s = { .x = rg_requires_grad_(rg_zeros_dims(RG_DIMS(1), RG_FLOAT64), true) };
    rg_param_group with = RG_PARAM_GROUP_(.strong_wolfe = golden_number(&words));
    with.lr = golden_number(&words);
    with.max_iter = golden_number(&words);
    const double max_eval = golden_number(&words);
    if (max_eval > 0)
        with.max_eval = max_eval;
    with.history_size = golden_number(&words);
    with.tolerance_grad = golden_number(&words);
    with.tolerance_change = golden_number(&words);
    for (char *at = golden_field(f, ':'); !golden_at_end(at); s.n++) {
        s.loss[s.n] = golden_number(&at);
        s.slope[s.n] = golden_number(&at);
    }
    rg_optim *o = rg_optim_with(RG_LBFGS, RG_LIST(s.x), with);
    ck_ok(o);
    for (int t = 0; t < 2; t++)
        ck_ok(rg_optim_step_closure(o, scripted_loss, &s));
    s.place[s.calls] = rg_item(s.x);
    rg_optim_free(o);
    return count_elsewhere(&s, golden_field(f, ':'), number);
}

/* LBFGS calls its closure at the same values of x as torch's does, whatever losses and slopes the
 * closure returns. */
START_TEST(test_lbfgs_scripts) {
    golden_file f = golden_open("lbfgs");
    int bad = 0, n = 0;
    for (char *words; (words = golden_case(&f)); n++) {
        ck_assert_str_eq(golden_word(&words), "script");
        bad += follow_script(words, &f, n);
    }
    golden_close(&f);
    ck_assert_int_gt(n, 200);
    ck_assert_int_eq(bad, 0);
}
END_TEST

/* Makes an optimizer whose groups have options of their own. */
static rg_optim *two_groups(params *p, double lr) {
    rg_optim *o = rg_optim_adam(RG_LIST(p->v[0]), .lr = lr, .amsgrad = true);
    ck_ok(rg_optim_add_group(o, RG_LIST(p->v[1], p->v[2]), .lr = 0.05, .weight_decay = 0.1,
                             .betas = { 0.7, 0.8 }, .amsgrad = false));
    return o;
}

START_TEST(test_groups) {
    RG_SCOPE();
    params a = make_params(RG_FLOAT64), b = make_params(RG_FLOAT64);
    rg_optim *both = two_groups(&a, 0.02),
             *first = rg_optim_adam(RG_LIST(b.v[0]), .lr = 0.02, .amsgrad = true);
    rg_optim *others = rg_optim_adam(RG_LIST(b.v[1], b.v[2]), .lr = 0.05, .weight_decay = 0.1,
                                     .betas = { 0.7, 0.8 });
    for (int t = 1; t < 20; t++) {
        set_gradients(&a, t);
        set_gradients(&b, t);
        ck_ok(rg_optim_step(both));
        ck_ok(rg_optim_step(first));
        ck_ok(rg_optim_step(others));
        if (t == 10) {
            rg_optim_group(both, 1)->lr = 0.2;
            rg_optim_group(others, 0)->lr = 0.2;
        }
    }
    for (int k = 0; k < N_PARAMS; k++)
        ck_assert(rg_equal(a.v[k], b.v[k]));
    ck_assert_int_eq(rg_optim_n_groups(both), 2);
    ck_assert_ptr_null(rg_optim_group(both, 2));
    ck_assert_ptr_null(rg_optim_group(both, -1));
    rg_error_clear();
    const rg_list own[] = { rg_optim_parameters(both, 0), rg_optim_parameters(both, 1) };
    ck_assert_int_eq(own[0].n + own[1].n, N_PARAMS);
    for (int k = 0; k < N_PARAMS; k++)
        ck_assert_ptr_eq(k < own[0].n ? own[0].v[k] : own[1].v[k - own[0].n], a.v[k]);
    ck_fails(rg_optim_parameters(both, 2).n != -1, RG_INDEX_ERROR, "there is no group 2 of 2");
    rg_optim_free(both);
    rg_optim_free(first);
    rg_optim_free(others);
}
END_TEST

/* The steps don't depend on the strides of parameters and gradients. */
static void check_strides(rg_optim_kind kind, int64_t rows, int64_t columns) {
    RG_SCOPE();
    rg_tensor *x = rg_randn(columns, rows), *g = rg_randn(rows, 2 * columns);
    rg_tensor *row = rg_randn(1, columns), *number = rg_randn(1, 1);
    rg_tensor *odd = rg_requires_grad_(rg_T(rg_clone(x)), true),
              *plain = rg_requires_grad_(rg_contiguous(rg_T(rg_clone(x))), true),
              *even = rg_requires_grad_(rg_contiguous(rg_T(rg_clone(x))), true);
    rg_param_group with = RG_PARAM_GROUP_(.lr = 0.1);
    if (kind == RG_RMSPROP) {
        with.momentum = 0.9;
        with.centered = true;
    }
    rg_optim *a = rg_optim_with(kind, RG_LIST(odd, plain), with);
    rg_optim *b = rg_optim_with(kind, RG_LIST(even), with);
    for (int t = 0; t < 8; t++) {
        rg_tensor *grads[] = { rg_slice(g, 1, 1, 2 * columns, 2), rg_expand(row, rows, columns),
                               rg_expand(number, rows, columns),
                               rg_T(rg_contiguous(rg_T(rg_slice(g, 1, 0, columns, 1)))) };
        rg_tensor *grad = grads[t % 4];
        ck_ok(rg_set_grad(odd, grad));
        ck_ok(rg_set_grad(plain, grad));
        ck_ok(rg_set_grad(even, rg_contiguous(grad)));
        ck_ok(rg_optim_step(a));
        ck_ok(rg_optim_step(b));
        ck_assert(rg_equal(odd, even) && rg_equal(plain, even));
    }
    rg_optim_free(a);
    rg_optim_free(b);
}

/* The larger parameter is computed in parts. */
START_TEST(test_strides) {
    for (int kind = RG_SGD; kind <= RG_RADAM; kind++) {
        check_strides((rg_optim_kind)kind, 7, 5);
        check_strides((rg_optim_kind)kind, 130, 150);
    }
}
END_TEST

START_TEST(test_state) {
    RG_SCOPE();
    for (int kind = RG_SGD; kind <= RG_RADAM; kind++) {
        params a = make_params(RG_FLOAT64), b = make_params(RG_FLOAT64);
        rg_param_group with = RG_PARAM_GROUP_();
        if (kind == RG_SGD)
            with.momentum = 0.9;
        if (kind == RG_ADAM)
            with.amsgrad = true;
        rg_optim *o = rg_optim_with(kind, (rg_list){ N_PARAMS, a.v }, with);
        rg_optim *q = rg_optim_with(kind, (rg_list){ N_PARAMS, b.v }, with);
        rg_schedule *s = rg_optim_one_cycle_lr(o, .max_lr = 0.1, .total_steps = 50,
                                               .cycle_momentum = kind == RG_ADAM);
        rg_schedule *r = rg_optim_one_cycle_lr(q, .max_lr = 7, .total_steps = 50,
                                               .cycle_momentum = kind == RG_ADAM);
        for (int t = 1; t < 20; t++) {
            set_gradients(&a, t);
            ck_ok(rg_optim_step(o));
            ck_ok(rg_schedule_step(s));
            if (t == 10) {
                rg_named_list dict = rg_optim_state_dict(o);
                ck_assert_int_gt(dict.n, 0);
                ck_ok(rg_optim_load_state_dict(q, dict));
                for (int k = 0; k < N_PARAMS; k++)
                    ck_ok(rg_set_data(b.v[k], rg_clone(rg_detach(a.v[k]))));
            } else if (t > 10) {
                set_gradients(&b, t);
                ck_ok(rg_optim_step(q));
                ck_ok(rg_schedule_step(r));
            }
        }
        for (int k = 0; k < N_PARAMS; k++)
            ck_assert_msg(rg_equal(a.v[k], b.v[k]), "kind %d", kind);
        rg_optim_free(o);
        rg_optim_free(q);
    }
}
END_TEST

/* Returns the number of steps in a state_dict, or -1 if it has none. */
static double saved_steps(rg_optim *o) {
    rg_named_list d = rg_optim_state_dict(o);
    for (int i = 0; i < d.n; i++)
        if (!strcmp(d.v[i].name, "state.0.step"))
            return rg_item(d.v[i].tensor);
    return -1;
}

/* The optimizers whose state_dict has the number of steps in torch. */
static bool torch_saves_steps(int kind) {
    return kind != RG_SGD && kind != RG_LION && kind != RG_MUON;
}

typedef struct {
    rg_optim *o;
    rg_tensor *param;
} repeated;

static void step_once_more(void *context) {
    repeated *of = context;
    RG_SCOPE();
    rg_optim_zero_grad(of->o);
    rg_backward(rg_sum(of->param));
    rg_optim_step(of->o);
}

/* Every step is counted where torch counts it: a plain one, a recorded one, and a repeated one. */
START_TEST(test_steps_are_counted) {
    for (int kind = RG_SGD; kind <= RG_RADAM; kind++) {
        RG_SCOPE();
        repeated of = { .param = rg_requires_grad_(rg_ones(2, 3), true) };
        of.o = rg_optim_with((rg_optim_kind)kind, RG_LIST(of.param), RG_PARAM_GROUP_());
        ck_ok(of.o);
        step_once_more(&of);
        step_once_more(&of);
        rg_replay *r = rg_record(step_once_more, &of);
        ck_ok(r);
        ck_ok(rg_replay_run(r));
        ck_ok(rg_replay_run(r));
        ck_assert_msg(saved_steps(of.o) == (torch_saves_steps(kind) ? 5 : -1), "kind %d", kind);
        rg_replay_free(r);
        rg_optim_free(of.o);
    }
}
END_TEST

/* A step neither loses nor keeps a tensor, whatever the shape of the parameter: that of a column,
 * for example, is transposed without a copy. */
START_TEST(test_parameters_of_all_shapes) {
    static const rg_dims all[] = { { 1, { 1 } },    { 1, { 5 } },    { 2, { 1, 1 } },
                                      { 2, { 5, 1 } }, { 2, { 1, 5 } }, { 2, { 4, 2 } },
                                      { 2, { 2, 4 } }, { 2, { 0, 3 } }, { 2, { 3, 0 } },
                                      { 4, { 3, 1, 1, 1 } } };
    for (int kind = RG_SGD; kind <= RG_MUON; kind++)
        for (int i = 0; i < RG_COUNT(all) * 2; i++) {
            const rg_dims shape = all[i / 2];
            if (kind == RG_LBFGS || (kind == RG_MUON && shape.n != 2))
                continue;
            const int64_t before = rg_live_tensors();
            RG_FOR (int once = 0; once < 1; once++) {
                rg_tensor *w = rg_ones_dims(shape, i % 2 ? RG_FLOAT64 : RG_FLOAT32);
                rg_requires_grad_(w, true);
                rg_optim *o = rg_optim_with((rg_optim_kind)kind, RG_LIST(w), RG_PARAM_GROUP_());
                ck_ok(o);
                RG_FOR (int step = 0; step < 3; step++) {
                    rg_optim_zero_grad(o);
                    ck_ok(rg_backward(rg_sum(rg_square(w))) && rg_optim_step(o));
                }
                ck_assert(rg_item(rg_any(rg_isnan(w))) == 0);
                rg_optim_free(o);
            }
            ck_assert_msg(rg_live_tensors() == before, "kind %d, shape %d", kind, i / 2);
        }
}
END_TEST

START_TEST(test_state_names) {
    RG_SCOPE();
    params p = make_params(RG_FLOAT32);
    rg_optim *o = two_groups(&p, 0.02);
    /* At step 3, set_gradients gives the last parameter no gradient. */
    set_gradients(&p, 3);
    ck_ok(rg_optim_step(o));
    rg_named_list d = rg_optim_state_dict(o);
    const char *names[] = { "state.0.step",           "state.0.exp_avg",       "state.0.exp_avg_sq",
                            "state.0.max_exp_avg_sq", "state.1.step",          "state.1.exp_avg",
                            "state.1.exp_avg_sq",     "param_groups.0.params", "param_groups.0.lr",
                            "param_groups.0.betas.0", "param_groups.0.betas.1" };
    for (int i = 0; i < 11; i++)
        ck_assert_str_eq(d.v[i].name, names[i]);
    ck_assert_int_eq(d.n, 7 + 2 * 9);
    ck_assert_double_eq(rg_item(d.v[0].tensor), 1);
    ck_assert_int_eq(rg_dtype_of(d.v[0].tensor), RG_FLOAT32);
    ck_assert_double_eq(rg_item(d.v[8].tensor), 0.02);
    rg_named changed[64];
    memcpy(changed, d.v, (size_t)d.n * sizeof *d.v);
    rg_named_list c = { d.n, changed };
    ck_ok(rg_optim_load_state_dict(o, c));
    changed[1] = d.v[2];
    ck_fails(rg_optim_load_state_dict(o, c), RG_VALUE_ERROR,
             "load_state_dict: the name \"state.0.exp_avg_sq\" comes twice");
    rg_named without[64];
    memcpy(without, changed, sizeof changed);
    memmove(&without[1], &without[2], (size_t)(d.n - 2) * sizeof *without);
    ck_fails(rg_optim_load_state_dict(o, rg_named_list_of(d.n - 1, without)), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"state.0.exp_avg\".");
    changed[1] = d.v[1];
    changed[3].name = "state.7.exp_avg";
    ck_fails(rg_optim_load_state_dict(o, c), RG_RUNTIME_ERROR,
             "Unexpected key(s) in state_dict: \"state.7.exp_avg\".");
    changed[3] = d.v[3];
    changed[1].tensor = d.v[5].tensor;
    ck_fails(rg_optim_load_state_dict(o, c), RG_RUNTIME_ERROR,
             "size mismatch for state.0.exp_avg: its shape is [5]");
    changed[1] = d.v[1];
    changed[8].tensor = d.v[1].tensor;
    ck_fails(rg_optim_load_state_dict(o, c), RG_RUNTIME_ERROR,
             "size mismatch for param_groups.0.lr: its shape is [3, 4]");
    changed[8] = d.v[8];
    changed[7].tensor = rg_scalar(2);
    ck_fails(
        rg_optim_load_state_dict(o, c), RG_VALUE_ERROR,
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group");
    changed[7].tensor = NULL;
    ck_assert(!rg_optim_load_state_dict(o, c));
    c.n = 13;
    changed[7] = d.v[7];
    ck_fails(rg_optim_load_state_dict(o, c), RG_VALUE_ERROR,
             "loaded state dict has a different number of parameter groups");
    ck_assert(!rg_optim_load_state_dict(o, (rg_named_list){ -1, NULL }));
    ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ 4, NULL }), RG_TYPE_ERROR,
             "load_state_dict: expected a list but got NULL");
    ck_assert_int_eq(rg_optim_state_dict(NULL).n, -1);
    rg_optim_free(o);
}
END_TEST

/* Clipping changes all gradients or, if a request for memory is denied, none. */
START_TEST(test_clipping_without_memory) {
    static const rg_dtype dtypes[] = { RG_FLOAT32, RG_FLOAT64, RG_FLOAT32 };
    RG_SCOPE();
    rg_tensor *clipped[3];
    for (int i = 0; i < 3; i++)
        clipped[i] = rg_requires_grad_(rg_ones_dims(RG_DIMS(3, 2), dtypes[i]), true);
    const rg_list l = rg_list_of(3, clipped);
    for (int by_norm = 0; by_norm < 2; by_norm++) {
        bool done = false;
        int failed = 0;
        for (int64_t fail = 1; !done; fail++) {
            RG_SCOPE();
            for (int i = 0; i < 3; i++)
                rg_set_grad(clipped[i], rg_t(rg_full_dims(RG_DIMS(2, 3), 5, dtypes[i])));
            rg_memory_fail_at(fail);
            done = by_norm ? rg_clip_grad_norm_(l, 1.0) != NULL : rg_clip_grad_value_(l, 1.0);
            rg_memory_fail_at(0);
            ck_assert(done == (rg_error_code() == RG_OK));
            rg_error_clear();
            failed += !done;
            for (int i = 0; i < 3; i++) {
                const double g = rg_at(rg_grad_of(clipped[i]), 2, 1);
                ck_assert_msg((g < 5) == done, "request %d: gradient %d is %g", (int)fail, i, g);
            }
        }
        ck_assert_int_gt(failed, 8);
    }
}
END_TEST

START_TEST(test_clipping) {
    RG_SCOPE();
    rg_list l = RG_LIST(rg_requires_grad_(rg_zeros(2, 2), true),
                        rg_requires_grad_(rg_zeros(3), true), rg_requires_grad_(rg_zeros(2), true));
    const double inf = INFINITY, norm_type[] = { 2, 1, inf, 3.5, -inf };
    /* For the gradients [[1, -2], [3, -4]], None and [0.5, 6], torch.nn.utils.clip_grad_norm_ with
     * a norm of at most 2 returns total[]. It changes the last element of the last gradient to
     * last[]. */
    const double total[] = { 8.139410018920898, 16.5, 6, 6.542354583740234, 0.5 };
    const double last[] = { 1.4743082523345947, 0.727272629737854, 1.999999761581421,
                            1.8342018127441406, 6 };
    for (int i = 0; i < 5; i++) {
        rg_set_grad(l.v[0], rg_literal_as(RG_FLOAT32, [ [ 1, -2 ], [ 3, -4 ] ]));
        rg_set_grad(l.v[2], rg_literal_as(RG_FLOAT32, [ 0.5, 6 ]));
        rg_tensor *norm = rg_clip_grad_norm_(l, 2.0, .norm_type = norm_type[i]);
        ck_ok(norm);
        ck_assert_int_eq(rg_dtype_of(norm), RG_FLOAT32);
        ck_assert_double_eq_tol(rg_item(norm), total[i], 1e-6);
        ck_assert_double_eq_tol(rg_at(rg_grad_of(l.v[2]), 1), last[i], 1e-9);
    }
    ck_ok(rg_clip_grad_value_(l, 0.75));
    ck_assert(rg_equal(rg_grad_of(l.v[0]),
                       rg_literal_as(RG_FLOAT32, [ [ 0.75, -0.75 ], [ 0.75, -0.75 ] ])));
    rg_set_grad(l.v[2], rg_literal_as(RG_FLOAT32, [ 0.5, nan ]));
    ck_fails(
        rg_clip_grad_norm_(l, 1.0, .error_if_nonfinite = true), RG_RUNTIME_ERROR,
        "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot "
        "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, "
        "set `error_if_nonfinite=False`");
    ck_assert_double_eq(rg_at(rg_grad_of(l.v[0]), 0, 0), 0.75);
    ck_ok(rg_clip_grad_norm_(l, 1.0));
    ck_assert(isnan(rg_at(rg_grad_of(l.v[0]), 0, 0)));
    rg_list none = RG_LIST(l.v[1]);
    ck_assert_double_eq(rg_item(rg_clip_grad_norm_(none, 1.0)), 0);
    rg_list failed = { -1, NULL }, empty = { 3, NULL };
    ck_fails(rg_clip_grad_norm_(RG_LIST(l.v[0], NULL), 1.0), RG_TYPE_ERROR,
             "clip_grad_norm_: expected a tensor but got NULL");
    ck_fails(rg_clip_grad_norm_(failed, 1.0), RG_TYPE_ERROR,
             "clip_grad_norm_: expected a list but got one that failed: its n is -1");
    ck_fails(rg_clip_grad_norm_(empty, 1.0), RG_TYPE_ERROR,
             "clip_grad_norm_: expected a list but got NULL");
    ck_fails(rg_clip_grad_value_(failed, 1.0), RG_TYPE_ERROR,
             "clip_grad_value_: expected a list but got one that failed: its n is -1");
    ck_fails(rg_clip_grad_value_(empty, 1.0), RG_TYPE_ERROR,
             "clip_grad_value_: expected a list but got NULL");
}
END_TEST

static rg_tensor *no_loss(void *context) { return context ? rg_ones(2) : NULL; }

/* The newer optimizers refuse the wrong options of torch's tests, and calls that they don't
 * support. */
START_TEST(test_newer_errors) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true), *m = rg_requires_grad_(rg_ones(2, 3), true);
    rg_list l = RG_LIST(w), matrix = RG_LIST(m);
#define REFUSED(make, text) ck_fails(make, RG_VALUE_ERROR, text)
    REFUSED(rg_optim_nadam(l, .lr = 1e-2, .betas = { 1, 0 }),
            "NAdam: Invalid beta parameter at index 0: 1.0");
    REFUSED(rg_optim_nadam(l, .momentum_decay = -0.2), "Invalid momentum_decay value: -0.2");
    REFUSED(rg_optim_radam(l, .lr = 1e-2, .betas = { 1, 0 }),
            "RAdam: Invalid beta parameter at index 0: 1.0");
    REFUSED(rg_optim_radam(l, .weight_decay = -1), "Invalid weight_decay value: -1.0");
    REFUSED(rg_optim_muon(matrix, .lr = -1), "Muon: Learning rate should be >= 0 but is: -1.0");
    REFUSED(rg_optim_muon(matrix, .momentum = -0.5), "momentum should be >= 0 but is: -0.5");
    REFUSED(rg_optim_muon(matrix, .weight_decay = -1), "weight decay should be >= 0 but is: -1.0");
    REFUSED(rg_optim_muon(l), "Muon only supports 2D parameters whereas we found a parameter with "
                              "size: torch.Size([2])");
    REFUSED(rg_optim_lbfgs(l, .lr = -1), "LBFGS: Invalid learning rate: -1.0");
    ck_fails(rg_optim_muon(matrix, .maximize = true), RG_TYPE_ERROR,
             "got an unexpected keyword argument 'maximize'");
    ck_fails(rg_optim_lbfgs(l, .weight_decay = 1), RG_TYPE_ERROR,
             "got an unexpected keyword argument 'weight_decay'");
    ck_fails(rg_optim_adam(l, .max_iter = 5), RG_TYPE_ERROR,
             "got an unexpected keyword argument 'max_iter'");
    ck_fails(rg_optim_adam(l, .ns_coefficients = { 1, 2, 3 }), RG_TYPE_ERROR,
             "got an unexpected keyword argument 'ns_coefficients'");
    REFUSED(rg_optim_muon(matrix, .ns_steps = 100),
            "Muon: Number of steps must be less than 100 for computational efficiency");
    rg_optim *muon = rg_optim_muon(matrix), *lbfgs = rg_optim_lbfgs(l);
    rg_optim_group(muon, 0)->ns_steps = 100;
    ck_ok(rg_set_grad(m, rg_ones(2, 3)));
    REFUSED(rg_optim_step(muon),
            "Number of steps must be less than 100 for computational efficiency");
    ck_assert(rg_equal(m, rg_ones(2, 3)) && rg_version(m) == 0);
    REFUSED(rg_optim_add_group(muon, l), "Muon only supports 2D parameters");
    REFUSED(rg_optim_add_group(lbfgs, matrix),
            "LBFGS doesn't support per-parameter options (parameter groups)");
    ck_fails(rg_optim_step(lbfgs), RG_TYPE_ERROR,
             "LBFGS.step() missing 1 required positional argument: 'closure'");
    ck_fails(rg_optim_step_closure(lbfgs, NULL, NULL), RG_TYPE_ERROR,
             "step_closure: expected a function but got NULL");
    ck_fails(rg_optim_step_closure(lbfgs, no_loss, w), RG_RUNTIME_ERROR,
             "a Tensor with 2 elements cannot be converted to Scalar");
    ck_assert(!rg_optim_step_closure(lbfgs, no_loss, NULL));
    ck_assert(!rg_optim_step_closure(muon, no_loss, NULL));
    rg_error_clear();
    ck_assert(rg_equal(w, rg_ones(2)));
    rg_optim_free(muon);
    rg_optim_free(lbfgs);
}
END_TEST

/* Muon computes the step of a large matrix in squares. The direction of the step is nearly
 * orthogonal: its singular values are near 1. */
START_TEST(test_muon_of_large_matrices) {
    static const int64_t sides[][2] = {
        { 70, 90 }, { 90, 70 }, { 64, 64 }, { 33, 200 }, { 150, 260 }, { 250, 270 }
    };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        RG_SCOPE();
        rg_manual_seed(i);
        const int64_t rows = sides[i][0], columns = sides[i][1];
        rg_tensor *w = rg_requires_grad_(rg_zeros(rows, columns), true);
        rg_optim *o = rg_optim_muon(RG_LIST(w), .lr = 1, .weight_decay = 0);
        ck_ok(rg_set_grad(w, rg_randn(rows, columns)));
        ck_ok(rg_optim_step(o));
        const double scale = fmax(1, sqrt((double)rows / (double)columns));
        rg_tensor *d = rg_double(rg_div(rg_detach(w), -scale));
        rg_tensor *small = rows > columns ? rg_T(d) : d;
        rg_tensor *square = rg_matmul(small, rg_T(small));
        rg_tensor *off = rg_sub(square,
                                rg_to(rg_eye(rg_size(small, 0), rg_size(small, 0)), RG_FLOAT64));
        const double far = rg_item(rg_max(rg_abs(off)));
        ck_assert_msg(far < 0.6, "%g at %lld", far, (long long)rows);
        rg_optim_free(o);
    }
}
END_TEST

/* Returns a matrix with the 3 x 4 elements of `from`. If `gaps` is true, no element of it is
 * adjacent to another. */
static rg_tensor *matrix_of(rg_tensor *from, bool gaps) {
    rg_tensor *m = gaps ? rg_select(rg_full(RG_DIMS(3, 4, 2), 9.9), 2, 1) : rg_empty(3, 4);
    return rg_copy_(m, from);
}

/* A step is the same where parameters and gradients have gaps between their elements. */
START_TEST(test_parameters_with_gaps) {
    for (int kind = 0; kind < RG_LBFGS; kind++) {
        RG_SCOPE();
        rg_manual_seed(3);
        rg_tensor *w[2], *first = rg_randn(3, 4);
        rg_optim *o[2];
        for (int k = 0; k < 2; k++) {
            w[k] = rg_requires_grad_(rg_detach(matrix_of(first, k)), true);
            o[k] = rg_optim_with((rg_optim_kind)kind, RG_LIST(w[k]), RG_PARAM_GROUP_(.lr = 0.1));
        }
        for (int step = 0; step < 3; step++) {
            rg_tensor *g = rg_randn(3, 4);
            for (int k = 0; k < 2; k++)
                ck_ok(rg_set_grad(w[k], matrix_of(g, k)) && rg_optim_step(o[k]));
        }
        ck_assert_msg(rg_stride(w[1], 1) == 2 && rg_equal(w[0], w[1]), "optimizer %d", kind);
        rg_optim_free(o[0]);
        rg_optim_free(o[1]);
    }
}
END_TEST

/* Muon's steps with a gradient of zeros, a matrix without elements, a NaN, and strided matrices. */
START_TEST(test_muon_at_the_edges) {
    RG_SCOPE();
    rg_tensor *m = rg_requires_grad_(rg_ones(3, 2), true);
    rg_tensor *none = rg_requires_grad_(rg_zeros(0, 4), true);
    rg_tensor *thin = rg_requires_grad_(rg_zeros(4, 0), true);
    rg_tensor *turned = rg_requires_grad_(rg_T(rg_ones(2, 3)), true);
    rg_optim *o = rg_optim_muon(RG_LIST(m, none, thin, turned), .lr = 0.5, .weight_decay = 0);
    ck_ok(rg_set_grad(m, rg_zeros(3, 2)) && rg_set_grad(none, rg_zeros(0, 4)));
    ck_ok(rg_set_grad(thin, rg_zeros(4, 0)));
    ck_ok(rg_set_grad(turned, rg_T(rg_zeros(2, 3))));
    ck_ok(rg_optim_step(o));
    ck_assert(rg_equal(m, rg_ones(3, 2)));
    rg_tensor *g = rg_randn(3, 2);
    ck_ok(rg_set_grad(m, g) && rg_set_grad(turned, rg_T(rg_contiguous(rg_T(g)))));
    ck_ok(rg_optim_step(o));
    ck_assert(rg_equal(m, turned) && !rg_equal(m, rg_ones(3, 2)));
    ck_ok(rg_set_grad(m, rg_mul(g, NAN)));
    ck_ok(rg_optim_step(o));
    ck_assert(isnan(rg_at(rg_detach(m), 2, 1)));
    rg_optim_free(o);
}
END_TEST

/* Muon doesn't transpose a square matrix. If it did, the updates would differ from PyTorch's, which
 * are listed here, in the second digit. */
START_TEST(test_muon_of_square_matrices) {
    static const float slopes[] = { 1, 2, 3, 4, -5, 6, 7, 8, 10.5F };
    static const double updates[2][9] = {
        { 0.55859375, -0.1318359375, -0.49609375, -0.34765625, 0.90234375, -0.51953125,
          -0.3984375, -0.54296875, -0.28515625 },
        { 0.58203125, -0.345703125, -0.404296875, -0.1298828125, 0.90234375, -0.5390625,
          -0.51171875, -0.5234375, -0.283203125 },
    };
    for (int turned = 0; turned < 2; turned++) {
        RG_SCOPE();
        rg_tensor *w = rg_requires_grad_(rg_zeros(3, 3), true);
        rg_tensor *g = rg_from_float(slopes, RG_DIMS(3, 3));
        rg_optim *o = rg_optim_muon(RG_LIST(w), .lr = 1, .weight_decay = 0);
        ck_ok(rg_set_grad(w, turned ? rg_contiguous(rg_T(g)) : g) && rg_optim_step(o));
        for (int i = 0; i < 9; i++)
            ck_assert_double_eq_tol(rg_at(rg_detach(w), i / 3, i % 3), updates[turned][i], 1e-3);
        rg_optim_free(o);
    }
}
END_TEST

static rg_tensor *part_of_sum(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_tensor *loss = rg_mul(rg_sum(w), 0.25);
    return rg_backward(loss) ? loss : NULL;
}

static rg_tensor *square_of(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_tensor *loss = rg_sum(rg_square(w));
    return rg_backward(loss) ? loss : NULL;
}

static rg_tensor *sum_of(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_tensor *loss = rg_sum(w);
    return rg_backward(loss) ? loss : NULL;
}

/* If the gradient is zero from the beginning, LBFGS computes no direction. Its state then has only
 * the counts of calls and of steps. */
START_TEST(test_lbfgs_on_the_flat) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_zeros(2), true);
    rg_optim *o = rg_optim_lbfgs(RG_LIST(w)), *q = rg_optim_lbfgs(RG_LIST(w));
    ck_ok(rg_optim_step_closure(o, square_of, w));
    rg_named_list d = rg_optim_state_dict(o);
    ck_assert_str_eq(d.v[0].name, "state.0.func_evals");
    ck_assert_str_eq(d.v[1].name, "state.0.n_iter");
    ck_assert(d.n > 2 && strncmp(d.v[2].name, "state.0.", 8) != 0);
    ck_ok(rg_optim_load_state_dict(q, d) && rg_optim_step_closure(q, square_of, w));
    ck_assert_double_eq(rg_item(rg_optim_state_dict(q).v[0].tensor), 2);
    rg_optim_free(o);
    rg_optim_free(q);
}
END_TEST

/* LBFGS makes a step even if the slope is only as large as the tolerance. */
START_TEST(test_lbfgs_at_its_tolerance) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(1), true);
    rg_optim *o = rg_optim_lbfgs(RG_LIST(w), .lr = 0.5, .tolerance_change = 1, .max_iter = 1);
    ck_ok(rg_optim_step_closure(o, sum_of, w));
    ck_assert(rg_item(w) == 0.5);
    rg_optim_free(o);
}
END_TEST

static double entry_named(rg_named_list d, const char *name) {
    for (int i = 0; i < d.n; i++)
        if (strcmp(d.v[i].name, name) == 0)
            return rg_item(d.v[i].tensor);
    ck_abort_msg("no %s", name);
}

/* The step size of LBFGS's first step is the rate, divided by the sum of the gradient's absolute
 * values if this sum is above 1. The divided rate is rounded to float32. */
START_TEST(test_lbfgs_first_step) {
    for (int n = 3; n < 6; n++) {
        RG_SCOPE();
        rg_tensor *w = rg_requires_grad_(rg_ones(n), true);
        rg_optim *o = rg_optim_lbfgs(RG_LIST(w), .lr = 0.1, .max_iter = 1);
        ck_ok(rg_optim_step_closure(o, part_of_sum, w));
        rg_named_list d = rg_optim_state_dict(o);
        const double t = entry_named(d, "state.0.t");
        ck_assert(t == (n < 5 ? 0.1 : (float)(0.8f * 0.1)));
        rg_optim_free(o);
    }
}
END_TEST

static rg_tensor *of_wells(void *w) {
    static const float squares[] = { 1, 2, 3 };
    rg_set_grad(w, RG_NONE);
    rg_tensor *away = rg_sub(rg_square(w), rg_from_float(squares, RG_DIMS(3)));
    rg_tensor *loss = rg_add(rg_sum(rg_square(away)), rg_sin(rg_sum(w)));
    return rg_backward(loss) ? loss : NULL;
}

/* The step sizes and parameters of LBFGS with a line search are torch's. The search begins with
 * the rate. If it accepts the rate, the step size isn't rounded. A step size that it computes is
 * rounded to the parameters' dtype. */
START_TEST(test_lbfgs_steps_of_a_search) {
    static const double start[] = { 0.3, -0.7, 1.1 };
    static const struct {
        int64_t steps;
        double t, first, last;
    } want[] = {
        { 1, 0.02413290925323963, 0.3078952729701996, 1.2716130018234253 },
        { 2, 0.1047992929816246, 0.3342859148979187, 1.845244288444519 },
        { 4, 0.3, 0.36705484986305237, 1.7772548198699951 },
        { 5, 0.3, 0.3889881670475006, 1.7442659139633179 },
    };
    for (int i = 0; i < RG_COUNT(want); i++) {
        RG_SCOPE();
        rg_tensor *w = rg_to(rg_from_double(start, RG_DIMS(3)), RG_FLOAT32);
        rg_requires_grad_(w, true);
        rg_optim *o = rg_optim_lbfgs(RG_LIST(w), .lr = 0.3, .max_iter = (int)want[i].steps,
                                     .strong_wolfe = true);
        ck_ok(rg_optim_step_closure(o, of_wells, w));
        const double t = entry_named(rg_optim_state_dict(o), "state.0.t");
        ck_assert_msg(want[i].t == 0.3 ? t == 0.3 : t == (float)t, "%.17g", t);
        ck_assert_double_eq_tol(t, want[i].t, 1e-4);
        ck_assert_double_eq_tol(rg_at(rg_detach(w), 0), want[i].first, 1e-4);
        ck_assert_double_eq_tol(rg_at(rg_detach(w), 2), want[i].last, 1e-4);
        rg_optim_free(o);
    }
}
END_TEST

/* If a run of LBFGS is saved and loaded in between, it goes on bit for bit. */
START_TEST(test_lbfgs_state) {
    for (int wolfe = 0; wolfe < 2; wolfe++) {
        RG_SCOPE();
        params a = make_params(RG_FLOAT32), b = make_params(RG_FLOAT32);
        rg_list la = { N_PARAMS, a.v }, lb = { N_PARAMS, b.v };
        rg_optim *o = rg_optim_lbfgs(la, .lr = 0.2, .max_iter = 4, .history_size = 6,
                                     .strong_wolfe = wolfe);
        rg_optim *q = rg_optim_lbfgs(lb, .lr = 7, .max_iter = 9, .strong_wolfe = wolfe);
        valley v = { &a, o, 0 }, w = { &b, q, 0 };
        ck_ok(rg_optim_load_state_dict(q, rg_optim_state_dict(o)));
        ck_ok(rg_optim_step_closure(q, valley_loss, &w));
        for (int t = 0; t < 3; t++)
            ck_ok(rg_optim_step_closure(o, valley_loss, &v));
        rg_named_list d = rg_optim_state_dict(o);
        ck_assert_str_eq(d.v[0].name, "state.0.func_evals");
        ck_assert_str_eq(d.v[1].name, "state.0.n_iter");
        ck_assert_double_eq(rg_item(d.v[0].tensor), v.calls);
        ck_assert_str_eq(d.v[2].name, "state.0.al.0");
        ck_ok(rg_optim_load_state_dict(q, d));
        for (int k = 0; k < N_PARAMS; k++)
            ck_ok(rg_set_data(b.v[k], rg_clone(rg_detach(a.v[k]))));
        for (int t = 0; t < 3; t++) {
            ck_ok(rg_optim_step_closure(o, valley_loss, &v));
            ck_ok(rg_optim_step_closure(q, valley_loss, &w));
        }
        for (int k = 0; k < N_PARAMS; k++)
            ck_assert(rg_equal(a.v[k], b.v[k]));
        /* No key of the state may be absent, or have another shape. There may be no other key. */
        d = rg_optim_state_dict(o);
        rg_named part[128];
        ck_assert_int_lt(d.n, 128);
        for (int i = 0; i < d.n; i++) {
            if (strncmp(d.v[i].name, "state.", 6) != 0 || strstr(d.v[i].name, ".al."))
                continue;
            memcpy(part, d.v, (size_t)d.n * sizeof *part);
            part[i] = part[d.n - 1];
            ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ d.n - 1, part }),
                     RG_RUNTIME_ERROR, "(s) in state_dict: \"state.0.");
            for (int dims = 1; dims <= 2; dims++) {
                part[i] = (rg_named){ d.v[i].name, dims == 1 ? rg_ones(7) : rg_ones(3, 6) };
                ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ d.n, part }),
                         RG_RUNTIME_ERROR, "size mismatch for state.0.");
            }
            part[i] = (rg_named){ d.v[i].name, NULL };
            ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ d.n, part }), RG_TYPE_ERROR,
                     "load_state_dict: expected a tensor but got NULL");
            part[i] = (rg_named){ "state.0.new", rg_ones(1) };
            ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ d.n, part }), RG_RUNTIME_ERROR,
                     "Unexpected key(s) in state_dict: \"state.0.new\".");
        }
        static const char *const odd[] = { "state.0.old_dirs",   "state.0.old_dirs.",
                                           "state.0.old_dirs.x", "state.0.old_dirs./",
                                           "state.0.old_dirs.:", "state.0.old_dirs.0x",
                                           "state.0.old_dirs0",  "state.0.d.0",
                                           "state.0.old_dirs_0", "state.0.old_dirsx5",
                                           "state.0.dd",         "state.0.old_dirs.100000",
                                           "state.0.ro.100000",  "state.1.d",
                                           "state.0.",           "state.d" };
        for (int i = 0; i < RG_COUNT(odd); i++) {
            char said[100];
            memcpy(part, d.v, (size_t)d.n * sizeof *part);
            part[d.n] = (rg_named){ odd[i], rg_ones(1) };
            snprintf(said, sizeof said, "Unexpected key(s) in state_dict: \"%s\".", odd[i]);
            ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ d.n + 1, part }),
                     RG_RUNTIME_ERROR, said);
        }
        /* The state of an optimizer that never stepped resets this optimizer. */
        rg_optim *fresh = rg_optim_lbfgs(la);
        ck_ok(rg_optim_load_state_dict(o, rg_optim_state_dict(fresh)));
        ck_assert_int_eq(rg_optim_state_dict(o).n, rg_optim_state_dict(fresh).n);
        rg_optim_free(fresh);
        rg_optim_free(o);
        rg_optim_free(q);
    }
}
END_TEST

/* Renames entries of a dictionary, or leaves them out where `to` is NULL. */
static rg_named_list renamed(rg_named_list d, rg_named *v, const char *from, const char *to) {
    int n = 0;
    for (int i = 0; i < d.n; i++) {
        const bool it = strcmp(d.v[i].name, from) == 0;
        if (it && !to)
            continue;
        v[n] = d.v[i];
        if (it)
            v[n].name = to;
        n++;
    }
    return (rg_named_list){ n, v };
}

static int count_entries(rg_named_list d, const char *part) {
    int n = 0;
    for (int i = 0; i < d.n; i++)
        n += strstr(d.v[i].name, part) != NULL;
    return n;
}

/* A state of LBFGS may have ten pairs of directions and steps, or more. Each pair must be there
 * once. */
START_TEST(test_lbfgs_pairs) {
    RG_SCOPE();
    params a = make_params(RG_FLOAT64), b = make_params(RG_FLOAT64);
    rg_optim *o = rg_optim_lbfgs(((rg_list){ N_PARAMS, a.v }), .lr = 0.1, .max_iter = 13);
    rg_optim *q = rg_optim_lbfgs(((rg_list){ N_PARAMS, b.v }));
    valley v = { &a, o, 0 };
    ck_ok(rg_optim_step_closure(o, valley_loss, &v));
    rg_named_list d = rg_optim_state_dict(o);
    ck_assert_int_eq(count_entries(d, ".old_dirs."), 12);
    ck_assert_int_eq(count_entries(d, ".al."), 12);
    ck_ok(rg_optim_load_state_dict(q, d));
    rg_named_list again = rg_optim_state_dict(q);
    ck_assert_int_eq(again.n, d.n);
    for (int i = 0; i < d.n; i++)
        ck_assert_msg(rg_equal(d.v[i].tensor, again.v[i].tensor), "%s", d.v[i].name);
    rg_named one[128], two[128], three[128];
    static const struct {
        const char *from, *to;
        rg_code code;
        const char *sentence;
    } wrong[] = {
        { "state.0.old_dirs.1", "state.0.old_dirs.0", RG_VALUE_ERROR,
          "the name \"state.0.old_dirs.0\" comes twice" },
        { "state.0.old_dirs.0", "state.0.old_dirs.1", RG_VALUE_ERROR,
          "the name \"state.0.old_dirs.1\" comes twice" },
        { "state.0.old_stps.0", "state.0.old_stps.1", RG_VALUE_ERROR,
          "the name \"state.0.old_stps.1\" comes twice" },
        { "state.0.old_stps.7", "state.0.old_stps.0", RG_VALUE_ERROR,
          "the name \"state.0.old_stps.0\" comes twice" },
        { "state.0.old_dirs.11", "state.0.old_dirs.12", RG_RUNTIME_ERROR,
          "Missing key(s) in state_dict: \"state.0.old_dirs.11\"" },
        { "state.0.ro.11", "state.0.ro.12", RG_RUNTIME_ERROR,
          "Missing key(s) in state_dict: \"state.0.ro.11\"" },
    };
    for (int i = 0; i < RG_COUNT(wrong); i++)
        ck_fails(rg_optim_load_state_dict(q, renamed(d, one, wrong[i].from, wrong[i].to)),
                 wrong[i].code, wrong[i].sentence);
    /* Each key must be there, except for the last one of al, which the next step computes anew. */
    for (int i = 0; i < d.n; i++) {
        const char *name = d.v[i].name;
        const rg_named_list part = renamed(d, one, name, NULL);
        char said[100];
        snprintf(said, sizeof said, "Missing key(s) in state_dict: \"%s\".", name);
        if (!strcmp(name, "state.0.al.11"))
            ck_ok(rg_optim_load_state_dict(q, part));
        else if (strstr(name, ".params"))
            ck_fails(rg_optim_load_state_dict(q, part), RG_VALUE_ERROR, "parameter groups");
        else
            ck_fails(rg_optim_load_state_dict(q, part), RG_RUNTIME_ERROR, said);
    }
    /* al mustn't have more entries than there are pairs. */
    rg_named_list less = renamed(d, one, "state.0.old_dirs.11", NULL);
    less = renamed(less, two, "state.0.old_stps.11", NULL);
    less = renamed(less, three, "state.0.ro.11", NULL);
    ck_fails(rg_optim_load_state_dict(q, less), RG_RUNTIME_ERROR, "Missing key(s) in state_dict");
    ck_ok(rg_optim_load_state_dict(q, renamed(less, one, "state.0.al.11", NULL)));
    ck_assert_int_eq(count_entries(rg_optim_state_dict(q), ".old_dirs."), 11);
    rg_optim_free(o);
    rg_optim_free(q);
}
END_TEST

/* After one step, LBFGS has a direction, but no pair of directions and steps yet. The other keys of
 * its state must all be there. */
START_TEST(test_lbfgs_without_pairs) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(3), true);
    rg_optim *o = rg_optim_lbfgs(RG_LIST(w), .lr = 0.1, .max_iter = 1);
    ck_ok(rg_optim_step_closure(o, part_of_sum, w));
    rg_named_list d = rg_optim_state_dict(o);
    static const char *const needed[] = { "func_evals", "n_iter",         "d",        "t",
                                          "H_diag",     "prev_flat_grad", "prev_loss" };
    ck_assert_int_eq(count_entries(d, "state.0."), RG_COUNT(needed));
    for (int i = 0; i < RG_COUNT(needed); i++) {
        rg_named part[32];
        char name[40], said[100];
        snprintf(name, sizeof name, "state.0.%s", needed[i]);
        snprintf(said, sizeof said, "Missing key(s) in state_dict: \"%s\".", name);
        rg_named_list less = renamed(d, part, name, NULL);
        ck_fails(rg_optim_load_state_dict(o, less), RG_RUNTIME_ERROR, said);
        /* If there is a direction, the other keys must be there, even if the number of steps is
         * 0. */
        for (int k = 0; k < less.n; k++)
            if (strcmp(part[k].name, "state.0.n_iter") == 0)
                part[k].tensor = rg_scalar(0.);
        if (strcmp(needed[i], "d") != 0)
            ck_fails(rg_optim_load_state_dict(o, less), RG_RUNTIME_ERROR, said);
    }
    rg_optim_free(o);
}
END_TEST

static int calls_left;

static bool fails_once;

static rg_tensor *fails_later(void *context) {
    const bool ok = fails_once ? calls_left != 0 : calls_left > 0;
    calls_left--;
    return ok ? valley_loss(context) : NULL;
}

/* A closure that succeeds calls_left times. Then it fails, and keeps a loss whose graph has saved
 * the parameters. */
static rg_tensor *kept_loss;
static rg_tensor *fails_with_a_graph(void *w) {
    if (calls_left-- > 0)
        return sum_of(w);
    kept_loss = rg_keep(rg_sum(rg_square(w)));
    return NULL;
}

/* If the closure fails, LBFGS writes the old values to the parameters. So a backward run fails if
 * its graph has saved the values from before that write. */
START_TEST(test_lbfgs_puts_back) {
    for (int wolfe = 0; wolfe < 2; wolfe++) {
        RG_SCOPE();
        rg_tensor *w = rg_requires_grad_(rg_ones(3), true);
        rg_optim *o = rg_optim_lbfgs(RG_LIST(w), .strong_wolfe = wolfe);
        calls_left = 1;
        rg_error_clear();
        ck_assert(!rg_optim_step_closure(o, fails_with_a_graph, w));
        ck_assert(rg_equal(w, rg_ones(3)));
        ck_fails(rg_backward(kept_loss), RG_RUNTIME_ERROR,
                 "has been modified by an inplace operation");
        rg_drop(kept_loss);
        rg_optim_free(o);
    }
}
END_TEST

/* Whichever call of the closure fails, parameters and state are restored. This holds even if later
 * calls would succeed. */
START_TEST(test_lbfgs_fails) {
    RG_SCOPE();
    params p = make_params(RG_FLOAT64);
    rg_optim *o = rg_optim_lbfgs(((rg_list){ N_PARAMS, p.v }), .max_iter = 5, .strong_wolfe = true);
    valley v = { &p, o, 0 };
    calls_left = 1000;
    ck_ok(rg_optim_step_closure(o, fails_later, &v));
    for (int i = 0; i < 10; i++) {
        RG_SCOPE();
        rg_tensor *before = rg_clone(rg_detach(p.v[0]));
        rg_named_list d = rg_optim_state_dict(o);
        calls_left = i / 2;
        fails_once = i % 2;
        rg_error_clear();
        ck_assert(!rg_optim_step_closure(o, fails_later, &v));
        ck_assert(rg_equal(p.v[0], before));
        rg_named_list after = rg_optim_state_dict(o);
        ck_assert_int_eq(d.n, after.n);
        for (int k = 0; k < d.n; k++)
            ck_assert(rg_equal(d.v[k].tensor, after.v[k].tensor));
    }
    rg_error_clear();
    rg_optim_free(o);
}
END_TEST

static rg_tensor *as_it_is(void *loss) { return loss; }

START_TEST(test_errors) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true), *v = rg_ones(2);
    rg_list l = RG_LIST(w), none = { 0, NULL }, failed = { -1, NULL };
    /* An optimizer can hold integers, but no step changes them: with a gradient, it fails. */
    rg_tensor *whole = rg_literal([ 1, 2 ]);
    rg_optim *of_whole = rg_optim_sgd(RG_LIST(whole));
    rg_set_grad(whole, rg_literal([ 1, 1 ]));
    ck_fails(rg_optim_step(of_whole), RG_NOT_IMPLEMENTED, "SGD: not implemented for 'Long'");
    ck_assert(rg_equal(whole, rg_literal([ 1, 2 ])));
    rg_optim_free(of_whole);
#define INVALID(make, text) ck_fails(make, RG_VALUE_ERROR, text)
    INVALID(rg_optim_sgd(l, .lr = -1), "SGD: Invalid learning rate: -1.0");
    INVALID(rg_optim_sgd(l, .momentum = -0.5), "Invalid momentum value: -0.5");
    INVALID(rg_optim_sgd(l, .weight_decay = -1e-5), "Invalid weight_decay value: -1e-05");
    INVALID(rg_optim_sgd(l, .nesterov = true),
            "Nesterov momentum requires a momentum and zero dampening");
    INVALID(rg_optim_sgd(l, .nesterov = true, .momentum = 0.9, .dampening = 0.1),
            "Nesterov momentum requires");
    INVALID(rg_optim_adam(l, .lr = NAN), "Adam: Invalid learning rate: nan");
    /* Torch takes these, and then all weights become NaN. */
    INVALID(rg_optim_sgd(l, .lr = NAN), "SGD: Invalid learning rate: nan");
    INVALID(rg_optim_sgd(l, .momentum = NAN), "SGD: Invalid momentum value: nan");
    INVALID(rg_optim_adamw(l, .lr = INFINITY), "AdamW: Invalid learning rate: inf");
    INVALID(rg_optim_adam(l, .weight_decay = INFINITY), "Adam: Invalid weight_decay value: inf");
    INVALID(rg_optim_adam(l, .eps = -1, .weight_decay = -1), "Invalid epsilon value: -1.0");
    INVALID(rg_optim_adam(l, .betas = { 1, 0.9 }), "Invalid beta parameter at index 0: 1.0");
    INVALID(rg_optim_adamw(l, .betas = { 0.9, 1.5 }),
            "AdamW: Invalid beta parameter at index 1: 1.5");
    INVALID(rg_optim_rmsprop(l, .alpha = -1), "Invalid alpha value: -1.0");
    INVALID(rg_optim_adagrad(l, .lr_decay = -1), "Invalid lr_decay value: -1.0");
    INVALID(rg_optim_adagrad(l, .initial_accumulator_value = -1),
            "Invalid initial_accumulator_value value: -1.0");
    INVALID(rg_optim_lion(l, .betas = { 0.9, NAN }), "Invalid beta parameter at index 1: nan");
    INVALID(rg_optim_adam(l, .betas = { .9 }),
            "Adam: betas are 2 numbers, but the last one is absent or 0 (rg_optim_group can");
    INVALID(rg_optim_lion(l, .betas = { 0 }), "Lion: betas are 2 numbers");
    INVALID(rg_optim_muon(RG_LIST(rg_ones(2, 2)), .ns_coefficients = { 3, -4 }),
            "Muon: ns_coefficients are 3 numbers");
    const rg_list matrix = RG_LIST(rg_requires_grad_(rg_ones(2, 2), true));
    INVALID(rg_optim_muon(matrix, .eps = NAN), "Muon: eps should be >= 0 but is: nan");
    INVALID(rg_optim_muon(matrix, .eps = INFINITY), "Muon: eps should be >= 0 but is: inf");
    INVALID(rg_optim_muon(matrix, .ns_coefficients = { 3, NAN, 2 }),
            "Muon: Invalid ns_coefficients.1: nan");
    INVALID(rg_optim_lbfgs(l, .tolerance_change = NAN), "LBFGS: Invalid tolerance_change: nan");
    rg_optim *pair = rg_optim_adam(l, .betas = { 0, .9 });
    ck_ok(pair);
    INVALID(rg_optim_add_group(pair, none, .betas = { .9 }), "add_group: betas are 2 numbers");
    INVALID(rg_optim_add_group(pair, none, .lr = NAN), "add_group: Invalid learning rate: nan");
    INVALID(rg_optim_add_group(pair, none, .betas = { -1e-9, .9 }), "at index 0: -1e-09");
    INVALID(rg_optim_add_group(pair, none, .betas = { 0, 1 }), "at index 1: 1.0");
    rg_optim_group(pair, 0)->betas[1] = 0;
    ck_ok(rg_optim_step(pair));
    rg_optim_free(pair);
    INVALID(rg_optim_adam(l, .amsgrad = 2), "Adam: amsgrad is a flag, 0 or 1, but is: 2.0");
    INVALID(rg_optim_adam(l, .amsgrad = .5), "amsgrad is a flag, 0 or 1, but is: 0.5");
    INVALID(rg_optim_sgd(l, .maximize = -1), "SGD: maximize is a flag, 0 or 1, but is: -1.0");
    INVALID(rg_optim_adam(l, .decoupled_weight_decay = NAN),
            "decay is a flag, 0 or 1, but is: nan");
    INVALID(rg_optim_lbfgs(l, .strong_wolfe = 2), "strong_wolfe is a flag, 0 or 1, but is: 2.0");
    INVALID(rg_optim_lbfgs(l, .max_iter = 2.5), "max_iter is a whole number, but is: 2.5");
    INVALID(rg_optim_lbfgs(l, .history_size = INFINITY), "history_size is a whole number, but is:");
    INVALID(rg_optim_sgd(none), "optimizer got an empty parameter list");
    INVALID(rg_optim_sgd(RG_LIST(rg_mul(w, 2))), "can't optimize a non-leaf Tensor");
    INVALID(rg_optim_sgd(RG_LIST(w, w)),
            "optimizer contains a parameter group with duplicate parameters");
    ck_fails(rg_optim_adam(l, .alpha = 0.9), RG_TYPE_ERROR,
             "got an unexpected keyword argument 'alpha'");
    ck_fails(rg_optim_sgd(failed), RG_TYPE_ERROR,
             "SGD: expected a list but got one that failed: its n is -1");
    ck_fails(rg_optim_adam(((rg_list){ 2, NULL })), RG_TYPE_ERROR,
             "Adam: expected a list but got NULL");
    ck_assert_ptr_null(rg_optim_sgd(rg_parameters(NULL)));
    rg_optim *o = rg_optim_sgd(l, .lr = 0.5);
    INVALID(rg_optim_add_group(o, none, .nesterov = 3), "nesterov is a flag, 0 or 1, but is: 3.0");
    INVALID(rg_optim_add_group(o, l), "some parameters appear in more than one parameter group");
    ck_ok(rg_optim_add_group(o, none));
    /* Neither of the new parameters ever has a gradient. */
    ck_ok(rg_optim_add_group(o, RG_LIST(v, rg_zeros_dims(RG_DIMS(2), RG_INT64))));
    ck_ok(rg_optim_step(o));
    ck_assert_int_eq(rg_version(w), 0);
    rg_backward(rg_sum(w));
    ck_ok(rg_optim_step(o));
    ck_assert(rg_equal(w, rg_literal_as(RG_FLOAT32, [ 0.5, 0.5 ])));
    ck_assert_int_eq(rg_version(w), 1);
    rg_tensor *y = rg_sum(rg_square(w));
    ck_ok(rg_optim_step(o));
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "modified");
    ck_ok(rg_optim_zero_grad(o));
    ck_assert_ptr_eq(rg_grad_of(w), RG_NONE);
    rg_optim_free(o);
    o = rg_optim_sgd(RG_LIST(rg_requires_grad_(rg_expand(rg_detach(w), 3, 2), true)));
    ck_ok(o);
    ck_assert(!rg_optim_zero_grad(NULL) && !rg_optim_add_group(NULL, l));
    ck_fails(rg_optim_group(o, 5), RG_INDEX_ERROR, "group: there is no group 5 of 1");
    rg_error_clear();
    rg_optim_free(o);
    rg_optim_free(NULL);
    rg_tensor *wide = rg_requires_grad_(rg_expand(rg_ones(1), 3), true);
    o = rg_optim_sgd(RG_LIST(wide));
    ck_ok(rg_set_grad(wide, rg_ones(3)));
    ck_fails(rg_optim_step(o), RG_RUNTIME_ERROR,
             "more than one element of the written-to tensor refers to a single memory location");
    rg_optim_free(o);
    o = rg_optim_adam(l);
    ck_ok(rg_set_grad(w, rg_ones(2)));
    ck_ok(rg_optim_step(o));
    ck_ok(rg_set_data(w, rg_zeros_dims(RG_DIMS(2), RG_FLOAT64)));
    rg_set_grad(w, rg_ones_dims(RG_DIMS(2), RG_FLOAT64));
    ck_fails(rg_optim_step(o), RG_RUNTIME_ERROR,
             "a parameter's shape or dtype is not that of its gradient or state");
    ck_fails(rg_optim_step_closure(o, as_it_is, w), RG_RUNTIME_ERROR,
             "a parameter's shape or dtype is not that of its gradient or state");
    ck_fails(rg_optim_step_closure(o, as_it_is, RG_NONE), RG_TYPE_ERROR,
             "step_closure: expected a tensor but got RG_NONE");
    rg_optim_free(o);
}
END_TEST

/* Makes three steps with a closure, and loads the optimizer's own state. Asserts that a failed
 * first step changes nothing. */
static bool steps_with_closure(rg_optim *o, params *p) {
    RG_SCOPE();
    rg_tensor *before = o ? rg_clone(rg_detach(p->v[0])) : NULL;
    valley v = { p, o, 0 };
    if (!before)
        return false;
    bool ok = true;
    for (int t = 0; t < 3 && ok; t++) {
        ok = rg_optim_step_closure(o, quiet_loss, &v);
        if (!ok && t == 0) {
            rg_memory_fail_at(0);
            ck_assert(rg_equal(p->v[0], before));
        }
    }
    return ok && rg_optim_load_state_dict(o, rg_optim_state_dict(o));
}

/* Makes LBFGS with or without a line search, Muon, or NAdam. */
static rg_optim *newer_one(int which, params *p) {
    const rg_list all = { N_PARAMS, p->v }, first = { 1, p->v };
    switch (which) {
    case 0: return rg_optim_lbfgs(all, .lr = 0.01, .max_iter = 4, .strong_wolfe = true);
    case 1: return rg_optim_lbfgs(all, .max_iter = 2);
    case 2: return rg_optim_muon(first, .ns_steps = 1);
    default: return rg_optim_nadam(all);
    }
}

static bool newer_ones(void) {
    bool ok = true;
    for (int i = 0; i < 4 && ok; i++) {
        RG_SCOPE();
        params p = make_params(RG_FLOAT64);
        if (!p.v[0] || !p.v[1] || !p.v[2])
            return false;
        /* Muon's products ask for memory only if the matrices are large. */
        if (i == 2)
            p.v[0] = rg_requires_grad_(rg_add(rg_eye(20, 30), 1), true);
        if (!p.v[0])
            return false;
        rg_optim *o = newer_one(i, &p);
        ok = steps_with_closure(o, &p);
        rg_optim_free(o);
    }
    return ok;
}

/* Makes all calls of a training that ask for memory. Asserts that a failed step changes nothing. */
static bool everything(void) {
    RG_SCOPE();
    params p = make_params(RG_FLOAT64);
    if (!p.v[0] || !p.v[1] || !p.v[2])
        return false;
    rg_optim *o = rg_optim_adamw(RG_LIST(p.v[0], p.v[1]), .amsgrad = true);
    rg_schedule *s = o && rg_optim_add_group(o, RG_LIST(p.v[2]))
                         ? rg_optim_warmup_cosine_lr(o, 3, 10, 0.1, 0)
                         : NULL;
    bool ok = s && rg_backward(rg_add(rg_sum(p.v[0]), rg_sum(p.v[1])))
              && rg_clip_grad_norm_(RG_LIST(p.v[0], p.v[1], p.v[2]), 1.0)
              && rg_clip_grad_norm_((rg_list){ 0 }, 1.0);
    int64_t version = rg_version(p.v[0]);
    if (ok && !rg_optim_step(o)) {
        ok = false;
        ck_assert_int_eq(rg_version(p.v[0]), version);
    }
    ok = ok && newer_ones();
    ok = ok && rg_schedule_step(s) && rg_optim_load_state_dict(o, rg_optim_state_dict(o))
         && rg_optim_zero_grad(o);
    rg_optim_free(o);
    return ok;
}

/* Adds a group after one that was refused, and asks for its parameters. */
static bool group_after_refusal(void) {
    RG_SCOPE();
    params p = make_params(RG_FLOAT64);
    rg_optim *o = p.v[0] && p.v[1] && p.v[2] ? rg_optim_sgd(RG_LIST(p.v[0])) : NULL;
    bool ok = o && !rg_optim_add_group(o, RG_LIST(p.v[1], p.v[1]))
              && rg_error_code() == RG_VALUE_ERROR;
    if (ok)
        forget_failure();
    ok = ok && rg_optim_add_group(o, RG_LIST(p.v[1], p.v[2])) && rg_optim_parameters(o, 1).n == 2;
    rg_optim_free(o);
    return ok;
}

/* Makes a step of LBFGS with a line search. starve_in_turn calls this function when the scope's
 * list of tensors is nearly full. */
static bool steps_by_search(void) {
    RG_SCOPE();
    params p = make_params(RG_FLOAT64);
    if (!p.v[0] || !p.v[1] || !p.v[2])
        return false;
    rg_optim *o = newer_one(0, &p);
    valley v = { &p, o, 0 };
    const bool ok = o && rg_optim_step_closure(o, quiet_loss, &v);
    rg_optim_free(o);
    return ok;
}

static bool steps_by_gradient(void) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true), *one = rg_ones(2);
    rg_optim *o = w && one ? rg_optim_sgd(RG_LIST(w), .lr = 0.5) : NULL;
    const bool ok = o && rg_set_grad(w, one) && rg_optim_step(o);
    rg_optim_free(o);
    return ok;
}

/* Steps matrices that are wide and tall, with Muon. */
static bool steps_of_muon(void) {
    RG_SCOPE();
    rg_tensor *wide = rg_requires_grad_(rg_ones(2, 3), true);
    rg_tensor *tall = rg_requires_grad_(rg_ones(3, 2), true);
    rg_tensor *g = rg_ones(2, 3), *turned = rg_ones(3, 2);
    if (!wide || !tall || !g || !turned || !rg_set_grad(wide, g) || !rg_set_grad(tall, turned))
        return false;
    rg_optim *o = rg_optim_muon(RG_LIST(wide, tall), .ns_steps = 1);
    const bool ok = o && rg_optim_step(o);
    ck_assert_int_eq(rg_version(wide), ok);
    ck_assert_int_eq(rg_version(tall), ok);
    rg_optim_free(o);
    return ok;
}

START_TEST(test_muon_without_memory) { ck_assert_int_ge(deny_in_turn(steps_of_muon, NULL), 20); }
END_TEST

static rg_optim *stepped;

static bool list_stepped(void) {
    RG_SCOPE();
    return rg_optim_state_dict(stepped).n > 0;
}

START_TEST(test_out_of_memory) {
    ck_assert_int_ge(deny_in_turn(everything, NULL), 10);
    ck_assert_int_ge(deny_in_turn(group_after_refusal, NULL), 5);
    RG_SCOPE();
    params p = make_params(RG_FLOAT64);
    stepped = rg_optim_lbfgs(((rg_list){ N_PARAMS, p.v }), .max_iter = 4);
    valley v = { &p, stepped, 0 };
    ck_ok(rg_optim_step_closure(stepped, valley_loss, &v));
    ck_assert_int_ge(deny_in_turn(list_stepped, NULL), 15);
    rg_optim_free(stepped);
    starve_in_turn(steps_by_search, 24);
    starve_in_turn(steps_by_gradient, 8);
}
END_TEST

/* As in torch, an optimizer accepts and steps a tensor that is no leaf but retains its gradient. */
START_TEST(test_what_retains_its_gradient) {
    rg_tensor *x = rg_requires_grad_(rg_scalar(2.), true), *y = rg_mul(x, 3);
    ck_fails(rg_optim_sgd(RG_LIST(y), .lr = 0.1), RG_VALUE_ERROR,
             "can't optimize a non-leaf Tensor");
    ck_assert(!rg_retains_grad(y) && !rg_retains_grad(x));
    ck_ok(rg_retain_grad(y) && rg_retain_grad(x));
    ck_assert(rg_retains_grad(y) && !rg_retains_grad(x));
    rg_optim *o = rg_optim_sgd(RG_LIST(y), .lr = 0.1);
    ck_ok(o);
    ck_ok(rg_backward(rg_mul(y, y)));
    ck_assert_double_eq(rg_item(rg_grad_of(y)), 12);
    ck_ok(rg_optim_step(o));
    ck_assert_str_eq(rg_repr(y), "tensor(4.8000, grad_fn=<MulBackward0>)");
    ck_ok(rg_optim_zero_grad(o));
    ck_assert(rg_grad_of(y) == RG_NONE);
    rg_optim_free(o);
}
END_TEST

/* The first metric is the best one yet, however bad it is. With mode_max, it may be negative. */
START_TEST(test_the_first_metric_is_the_best) {
    params p = make_params(RG_FLOAT32);
    for (int max = 0; max < 2; max++) {
        rg_optim *o = rg_optim_sgd(((rg_list){ N_PARAMS, p.v }), .lr = 0.5);
        rg_schedule *s = rg_optim_reduce_lr_on_plateau(o, .mode_max = max, .patience = 0);
        double sign = max ? 1 : -1;
        ck_ok(rg_schedule_step_metric(s, -50 * sign));
        ck_ok(rg_schedule_step_metric(s, -40 * sign));
        ck_assert_double_eq(rg_optim_group(o, 0)->lr, 0.5);
        ck_ok(rg_schedule_step_metric(s, -45 * sign));
        ck_assert_double_lt(rg_optim_group(o, 0)->lr, 0.5);
        rg_optim_free(o);
    }
}
END_TEST

/* A step leaves nothing in the caller's scope, even if gradients and parameters have different
 * strides. */
START_TEST(test_steps_leave_nothing) {
    rg_tensor *p = rg_requires_grad_(rg_rand(3, 2), true);
    rg_list one = { 1, &p };
    rg_optim *all[] = { rg_optim_sgd(one, .momentum = 0.9, .nesterov = true), rg_optim_adam(one),
                        rg_optim_adamw(one), rg_optim_rmsprop(one), rg_optim_adagrad(one) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < 3; k++) {
            RG_SCOPE();
            ck_ok(rg_set_grad(p, k % 2 ? rg_transpose(rg_rand(2, 3), 0, 1) : rg_rand(3, 2)));
            ck_ok(rg_optim_step(all[i]));
            const int64_t live = rg_live_tensors();
            ck_ok(rg_optim_step(all[i]));
            ck_assert_int_eq(rg_live_tensors(), live);
        }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rg_optim_free(all[i]);
}
END_TEST

/* RAdam divides by the square root of the variance only in steps t whose rho_t is above 5. With
 * these betas, rho_9 is exactly 5. */
START_TEST(test_radam_begins) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_zeros_dims(RG_DIMS(1), RG_FLOAT64), true);
    rg_optim *o = rg_optim_radam(RG_LIST(w), .lr = 1, .betas = { 0, 0.7074214607621472 });
    ck_ok(rg_set_grad(w, rg_full_dims(RG_DIMS(1), 4, RG_FLOAT64)));
    for (int t = 1; t <= 9; t++) {
        ck_ok(rg_optim_step(o));
        ck_assert_double_eq(rg_item(rg_detach(w)), -4 * t);
    }
    ck_ok(rg_optim_step(o));
    ck_assert_double_gt(rg_item(rg_detach(w)), -37.5);
    rg_optim_free(o);
}
END_TEST

static double entry_of(rg_named_list d, const char *name) {
    for (int i = 0; i < d.n; i++)
        if (strcmp(d.v[i].name, name) == 0)
            return rg_item(d.v[i].tensor);
    ck_abort_msg("there is no %s", name);
}

/* torch keeps the product of NAdam's momenta in the default dtype. */
START_TEST(test_nadam_products) {
    const rg_dtype before = rg_default_dtype();
    for (int single = 0; single < 2; single++) {
        RG_SCOPE();
        rg_set_default_dtype(single ? RG_FLOAT32 : RG_FLOAT64);
        rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
        rg_optim *o = rg_optim_nadam(RG_LIST(w), .momentum_decay = 0.3);
        double product = 1;
        for (int t = 1; t <= 5; t++) {
            ck_ok(rg_set_grad(w, rg_ones(2)) && rg_optim_step(o));
            const double factor = 0.9 * (1 - 0.5 * pow(0.96, t * 0.3));
            product = single ? (float)product * (float)factor : product * factor;
            ck_assert_double_eq(entry_of(rg_optim_state_dict(o), "state.0.mu_product"), product);
        }
        rg_optim_free(o);
    }
    rg_set_default_dtype(before);
}
END_TEST

/* Makes two steps of NAdam. After each of them, sets the product of momenta of the last
 * parameter. */
static void step_from_products(rg_list l, double product) {
    RG_SCOPE();
    rg_optim *o = rg_optim_nadam(l);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < l.n; i++)
            ck_ok(rg_set_grad(l.v[i], rg_ones(2)));
        ck_ok(rg_optim_step(o));
        rg_named_list d = rg_optim_state_dict(o);
        char name[32];
        rg_named v[64];
        snprintf(name, sizeof name, "state.%d.mu_product", l.n - 1);
        for (int i = 0; i < d.n; i++)
            v[i] = strcmp(d.v[i].name, name) ? d.v[i] : (rg_named){ name, rg_scalar(product) };
        ck_ok(rg_optim_load_state_dict(o, (rg_named_list){ d.n, v }));
    }
    rg_optim_free(o);
}

/* Each parameter of a group has its own product of momenta. */
START_TEST(test_products_apart) {
    RG_SCOPE();
    rg_tensor *a = rg_requires_grad_(rg_ones(2), true), *b = rg_requires_grad_(rg_ones(2), true);
    rg_tensor *alone = rg_requires_grad_(rg_ones(2), true);
    step_from_products(RG_LIST(a, b), 0.125);
    step_from_products(RG_LIST(alone), 0.125);
    ck_assert(rg_equal(b, alone) && !rg_equal(a, alone));
}
END_TEST

static void step_recorded(void *context) {
    void **c = context;
    rg_optim_step_closure(c[0], sum_of, c[1]);
}

/* LBFGS can't be recorded, since the number of closure calls in its step depends on the losses. */
START_TEST(test_lbfgs_is_not_recorded) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    void *c[] = { rg_optim_lbfgs(RG_LIST(w)), w };
    ck_fails(rg_record(step_recorded, c), RG_NOT_IMPLEMENTED, "LBFGS");
    ck_assert(rg_equal(w, rg_ones(2)));
    rg_optim_free(c[0]);
}
END_TEST

/* The scale is rounded as torch rounds it: a division would give 0x1.666664p-1 in each row. */
START_TEST(test_rounding_of_the_scale) {
    static const double rows[][2] = { { 7, 0x1.666662p-1 }, { 11, 0x1.666666p-1 },
                                      { 34, 0x1.666668p-1 } };
    rg_tensor *w = rg_requires_grad_(rg_ones(1), true);
    for (int i = 0; i < RG_COUNT(rows); i++) {
        ck_ok(rg_set_grad(w, rg_full(RG_DIMS(1), rows[i][0])));
        ck_ok(rg_clip_grad_norm_(RG_LIST(w), 0.7));
        ck_assert_double_eq(rg_item(rg_grad_of(w)), rows[i][1]);
    }
}
END_TEST

/* If a gradient can't be written to, clipping it fails and says so. */
START_TEST(test_clipping_what_cannot_be_written) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true), *grad;
    {
        RG_INFERENCE_MODE();
        grad = rg_full(RG_DIMS(2), 3.);
    }
    ck_ok(rg_set_grad(w, grad));
    ck_fails(rg_clip_grad_norm_(RG_LIST(w), 1.0), RG_RUNTIME_ERROR,
             "clip_grad_norm_: Inplace update to inference tensor");
    ck_fails(rg_clip_grad_value_(RG_LIST(w), 1.0), RG_RUNTIME_ERROR,
             "clip_grad_value_: Inplace update to inference tensor");
    ck_assert(rg_item(rg_sum(rg_grad_of(w))) == 6);
}
END_TEST

/* ---- warnings ------------------------------------------------------------------------ */

static int warnings;
static const char *warned_of;
static void count_warning(const char *message) {
    ck_assert_msg(strstr(message, warned_of), "%s", message);
    warnings++;
}

/* Counts the warnings from now on, each of which contains the text. */
static void begin_to_count(const char *text) {
    warned_of = text;
    warnings = 0;
    rg_on_warning(count_warning);
}

/* Returns the number of warnings. */
static int end_of_count(void) {
    rg_on_warning(rg_print_warning);
    return warnings;
}

enum { STEPS_OF_LOOP = 7 };
static const char old_gradients[] = "step: the gradients contain those of the last step";

/* The way in which each step clears the gradients. BY_SCALING halves them instead. */
typedef enum { BY_OPTIMIZER, BY_MODULE, BY_ZERO, BY_SET_GRAD, BY_SCALING, NEVER, WAYS } way;
/* Additional work in a step: clipping before the optimizer's step, or a second optimizer's step
 * after it. */
typedef enum { NOTHING, CLIP_NORM, CLIP_VALUE, TWO_OPTIMIZERS, EXTRAS } extra;

typedef struct {
    way clears;
    extra extra;
    rg_linear_module *m;
    rg_optim *optim, *other;
} loop;

static void clear_gradients(const loop *l) {
    rg_tensor *w = l->m->weight;
    if (l->clears == BY_OPTIMIZER)
        ck_ok(rg_optim_zero_grad(l->optim));
    else if (l->clears == BY_MODULE)
        rg_zero_grad(l->m);
    else if (l->clears == BY_SET_GRAD)
        ck_ok(rg_set_grad(w, RG_NONE));
    else if (l->clears == BY_ZERO && rg_grad_of(w) != RG_NONE)
        ck_ok(rg_zero_(rg_grad_of(w)));
    else if (l->clears == BY_SCALING && rg_grad_of(w) != RG_NONE)
        ck_ok(rg_mul_(rg_grad_of(w), 0.5));
}

static void step_of_loop(void *context) {
    const loop *l = context;
    clear_gradients(l);
    rg_backward(rg_sum(rg_call(l->m, rg_ones(2, 3))));
    if (l->extra == CLIP_NORM)
        rg_clip_grad_norm_(rg_parameters(l->m), 0.1);
    if (l->extra == CLIP_VALUE)
        rg_clip_grad_value_(rg_parameters(l->m), 0.1);
    rg_optim_step(l->optim);
    if (l->extra == TWO_OPTIMIZERS)
        rg_optim_step(l->other);
}

static loop loop_begin(way clears, extra also) {
    rg_linear_module *m = rg_nn_linear(3, 1, .bias = false);
    return (loop){ clears, also, m, rg_optim_adam(RG_LIST(m->weight)),
                   rg_optim_sgd(RG_LIST(m->weight)) };
}

static void loop_end(loop *l) {
    rg_optim_free(l->optim);
    rg_optim_free(l->other);
    rg_module_free(l->m);
}

/* Returns the number of warnings in a loop. Some of its steps have 1 or 2 more backward runs. After
 * step 3, the gradients are cleared and the optimizer steps once more, unless the loop never
 * clears. */
static int warnings_of_loop(way clears, extra also) {
    loop l = loop_begin(clears, also);
    begin_to_count(old_gradients);
    RG_FOR (int i = 0; i < STEPS_OF_LOOP; i++) {
        for (int run = 0; run < i % 3 && i > 2; run++)
            ck_ok(rg_backward(rg_sum(rg_call(l.m, rg_ones(2, 3)))));
        step_of_loop(&l);
        if (i == 3 && clears != NEVER) {
            clear_gradients(&l);
            ck_ok(rg_optim_step(l.optim));
        }
    }
    loop_end(&l);
    return end_of_count();
}

/* A step warns of gradients that nothing has cleared since the previous step. It warns of no other
 * gradients. */
START_TEST(test_warns_of_old_gradients) {
    for (way clears = 0; clears < WAYS; clears++)
        for (extra also = 0; also < EXTRAS; also++)
            ck_assert_msg(warnings_of_loop(clears, also) == (clears == NEVER), "%d %d: %d", clears,
                          also, warnings);
}
END_TEST

/* Steps that clear their gradients give no warning, whether they are replayed or called. */
START_TEST(test_warns_of_no_replay) {
    for (way clears = 0; clears < NEVER; clears++)
        for (extra also = 0; also < EXTRAS; also++) {
            loop l = loop_begin(clears, also);
            begin_to_count(old_gradients);
            RG_FOR (int i = 0; i < 2; i++)
                step_of_loop(&l);
            rg_replay *r = rg_record(step_of_loop, &l);
            ck_ok(r);
            for (int i = 0; i < STEPS_OF_LOOP; i++) {
                RG_SCOPE();
                if (i % 3 < 2)
                    ck_ok(rg_replay_run(r));
                else
                    step_of_loop(&l);
            }
            rg_replay_free(r);
            loop_end(&l);
            ck_assert_int_eq(end_of_count(), 0);
        }
}
END_TEST

/* The backward run of one network's loss also adds to the gradients of a second network. The second
 * network clears them before its own backward run, so there is no warning. */
START_TEST(test_warns_of_no_pair_of_networks) {
    for (int by_zero = 0; by_zero < 2; by_zero++) {
        loop critic = loop_begin(by_zero ? BY_ZERO : BY_OPTIMIZER, NOTHING);
        loop actor = loop_begin(by_zero ? BY_ZERO : BY_MODULE, CLIP_NORM);
        begin_to_count(old_gradients);
        RG_FOR (int i = 0; i < STEPS_OF_LOOP; i++) {
            step_of_loop(&critic);
            clear_gradients(&actor);
            rg_tensor *y = rg_expand(rg_call(actor.m, rg_ones(2, 3)), 2, 3);
            ck_ok(rg_backward(rg_sum(rg_call(critic.m, y))));
            ck_ok(rg_optim_step(actor.optim));
        }
        loop_end(&critic);
        loop_end(&actor);
        ck_assert_int_eq(end_of_count(), 0);
    }
}
END_TEST

/* The gradients of two parameters share one buffer. Each parameter has its own optimizer, and the
 * optimizers' steps give no warning. */
START_TEST(test_warns_of_no_shared_buffer) {
    loop one = loop_begin(BY_ZERO, NOTHING), two = loop_begin(BY_ZERO, NOTHING);
    rg_tensor *flat = rg_keep(rg_zeros(2, 1, 3));
    ck_ok(rg_set_grad(one.m->weight, rg_select(flat, 0, 0)));
    ck_ok(rg_set_grad(two.m->weight, rg_select(flat, 0, 1)));
    begin_to_count(old_gradients);
    RG_FOR (int i = 0; i < STEPS_OF_LOOP; i++) {
        ck_ok(rg_zero_(flat));
        for (int k = 0; k < 2; k++) {
            const loop *l = k ? &two : &one;
            ck_ok(rg_backward(rg_sum(rg_call(l->m, rg_ones(2, 3)))));
            ck_ok(rg_optim_step(l->optim));
        }
    }
    rg_drop(flat);
    loop_end(&one);
    loop_end(&two);
    ck_assert_int_eq(end_of_count(), 0);
}
END_TEST

typedef struct {
    rg_optim *optim;
    rg_tensor *w;
    bool clears;
} closure_of_warnings;

static rg_tensor *closure_that_may_clear(void *context) {
    const closure_of_warnings *c = context;
    if (c->clears)
        rg_optim_zero_grad(c->optim);
    rg_tensor *loss = rg_sum(rg_square(rg_sub(c->w, 3)));
    rg_backward(loss);
    return loss;
}

START_TEST(test_warns_of_closures) {
    for (int i = 0; i < 4; i++) {
        closure_of_warnings c = { .w = rg_requires_grad_(rg_ones(3), true), .clears = i % 2 };
        c.optim = i / 2 ? rg_optim_lbfgs(RG_LIST(c.w)) : rg_optim_sgd(RG_LIST(c.w));
        begin_to_count(old_gradients);
        for (int k = 0; k < 3; k++)
            ck_ok(rg_optim_step_closure(c.optim, closure_that_may_clear, &c));
        rg_optim_free(c.optim);
        ck_assert_int_eq(end_of_count(), !c.clears);
    }
}
END_TEST

/* A step warns if none of the optimizer's parameters has ever had a gradient. One parameter that
 * has had one is enough to prevent the warning. */
START_TEST(test_warns_of_no_gradient) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(3), true), *v = rg_requires_grad_(rg_ones(3), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w, v), .lr = 0.1);
    rg_optim *other = rg_optim_adam(RG_LIST(rg_requires_grad_(rg_ones(3), true)));
    begin_to_count("step: no parameter of the optimizer has a gradient");
    rg_backward(rg_sum(w));
    ck_ok(rg_optim_step(o));
    rg_optim_zero_grad(o);
    ck_ok(rg_optim_step(o));
    ck_assert_int_eq(warnings, 0);
    ck_ok(rg_optim_step(other));
    ck_assert_int_eq(end_of_count(), 1);
    rg_optim_free(other);
    rg_optim_free(o);
}
END_TEST

/* ---- parameters that modules no longer have --------------------------------------------- */

typedef struct {
    rg_module base;
    rg_linear_module *body, *head;
} two_layers;

static rg_tensor *two_layers_forward(rg_module *m, rg_tensor *x) {
    return rg_call(((two_layers *)m)->head, rg_call(((two_layers *)m)->body, x));
}

static const rg_module_class two_layers_class = { .name = "TwoLayers",
                                                  .forward = two_layers_forward };

static two_layers *two_layers_new(void) {
    two_layers *self = RG_MODULE(two_layers, &two_layers_class);
    RG_CHILD(self, body, rg_nn_linear(3, 3));
    RG_CHILD(self, head, rg_nn_linear(3, 3));
    return RG_READY(self);
}

/* A model and its optimizer. The optimizer may also have the parameters of `apart`, which get no
 * gradients. */
typedef struct {
    two_layers *m;
    rg_optim *o;
    rg_linear_module *apart;
    rg_tensor *kept;
} trained;

static void no_change(trained *t) { (void)t; }

static void new_weight(trained *t) { RG_PARAMETER(t->m->head, weight, rg_ones(3, 3)); }

static void kept_weight(trained *t) {
    t->kept = rg_keep(t->m->head->weight);
    new_weight(t);
}

static void tied_weight(trained *t) { ck_ok(rg_tie(&t->m->head->weight, t->m->body->weight)); }

static void new_head(trained *t) { RG_CHILD(t->m, head, rg_nn_linear(3, 3)); }

static void new_head_in_group(trained *t) {
    new_head(t);
    ck_ok(rg_optim_add_group(t->o, rg_parameters(t->m->head)));
}

static void group_of_new_head(trained *t) {
    rg_linear_module *head = rg_nn_linear(3, 3);
    ck_ok(rg_optim_add_group(t->o, rg_parameters(head)));
    RG_CHILD(t->m, head, head);
}

static void copied_model(trained *t) {
    two_layers *copy = rg_deepcopy(t->m);
    rg_module_free(t->m);
    t->m = copy;
}

static void part_freed(trained *t) {
    rg_module_free(t->apart);
    t->apart = NULL;
}

static trained trained_begin(bool with_apart) {
    trained t = { .m = two_layers_new(), .apart = rg_nn_linear(1, 1) };
    rg_list of_m = rg_parameters(t.m), of_apart = rg_parameters(t.apart);
    rg_tensor *all[] = { of_apart.v[0], of_apart.v[1], of_m.v[0], of_m.v[1], of_m.v[2], of_m.v[3] };
    t.o = rg_optim_sgd(with_apart ? rg_list_of(6, all) : of_m);
    return t;
}

static void trained_end(trained *t) {
    if (t->kept)
        rg_drop(t->kept);
    rg_optim_free(t->o);
    rg_module_free(t->apart);
    rg_module_free(t->m);
}

/* Returns the number of warnings of the parameter, in three steps after the change. A name of ""
 * stands for every parameter. */
static int warnings_of_change(void (*change)(trained *t), bool clears_model, const char *name) {
    static char line[128];
    trained t = trained_begin(change != copied_model);
    snprintf(line, sizeof line, "step: training no longer changes the optimizer's parameter '%s",
             name);
    begin_to_count(line);
    RG_FOR (int i = 0; i < 6; i++) {
        if (i == 3)
            change(&t);
        if (clears_model)
            rg_zero_grad(t.m);
        else
            rg_optim_zero_grad(t.o);
        ck_ok(rg_backward(rg_sum(rg_call(t.m, rg_ones(2, 3)))));
        ck_ok(rg_optim_step(t.o));
        ck_assert(i >= 3 || warnings == 0);
    }
    trained_end(&t);
    return end_of_count();
}

/* A step warns once if a module has another value in the place of a parameter that the optimizer
 * still has, however the gradients are cleared. It doesn't warn if the program may know that: if it
 * keeps the parameter, has added a group since, or has only freed a module. */
START_TEST(test_warns_of_lost_parameters) {
    static const struct {
        void (*change)(trained *t);
        const char *name; /* The parameter of which a step warns, or "" if none does. */
    } cases[] = {
        { no_change, "" },
        { new_weight, "head.weight'" },
        { tied_weight, "head.weight'" },
        { new_head, "head.weight'" },
        { copied_model, "body.weight'" },
        { kept_weight, "" },
        { new_head_in_group, "" },
        { group_of_new_head, "" },
        { part_freed, "" },
    };
    for (size_t i = 0; i < RG_COUNT(cases); i++)
        for (int k = 0; k < 2; k++) {
            RG_SCOPE();
            int n = warnings_of_change(cases[i].change, k, cases[i].name);
            ck_assert_msg(n == (*cases[i].name != 0), "case %zu, %d: %d warnings", i, k, n);
        }
}
END_TEST

/* A plain assignment to a field takes the parameter out of the module, but not out of the
 * optimizer. The first step that finds no gradient for it warns. */
START_TEST(test_warns_of_an_assigned_tensor) {
    static const char said[] = "step: training no longer changes the optimizer's parameter "
                               "'head.weight': its module has another tensor in its field";
    for (int requires = 0; requires < 2; requires++) {
        trained t = trained_begin(true);
        rg_tensor *before = t.m->head->weight;
        rg_tensor *other = rg_requires_grad_(rg_ones(3, 3), requires);
        begin_to_count(said);
        RG_FOR (int i = 0; i < 6; i++) {
            if (i == 3)
                t.m->head->weight = other;
            rg_optim_zero_grad(t.o);
            ck_ok(rg_backward(rg_sum(rg_call(t.m, rg_ones(2, 3)))));
            ck_ok(rg_optim_step(t.o));
            ck_assert_int_eq(warnings, i >= 3);
        }
        t.m->head->weight = before;
        trained_end(&t);
        end_of_count();
    }
}
END_TEST

static void step_of_trained(void *context) {
    const trained *t = context;
    rg_optim_zero_grad(t->o);
    rg_backward(rg_sum(rg_call(t->m, rg_ones(2, 3))));
    rg_optim_step(t->o);
}

static void all_freed(trained *t) {
    rg_module_free(t->m);
    t->m = NULL;
}

/* The optimizer gets the new weight in a group of its own. The recorded step doesn't use it. */
static void added_weight(trained *t) {
    new_weight(t);
    rg_optim_add_group(t->o, RG_LIST(t->m->head->weight));
}

/* The runs of a recorded step go on with the old parameters, and one warning says so. If a module
 * that the step calls is gone, or the optimizer has got another group, runs fail. */
START_TEST(test_warns_of_lost_parameters_in_runs) {
    static const struct {
        void (*change)(trained *t);
        const char *name, *fails;
        bool grouped; /* The optimizer has a second group. */
    } cases[] = { { no_change, "", NULL, false },
                  { new_weight, "head.weight'", NULL, false },
                  { new_weight, "head.weight'", NULL, true },
                  { tied_weight, "head.weight'", NULL, false },
                  { kept_weight, "", NULL, false },
                  { new_head, "", "a module that the step calls has been freed or repl", false },
                  { all_freed, "", "a module that the step calls has been freed or repl", false },
                  { part_freed, "", NULL, false },
                  { added_weight, "", "an optimizer of the step has got another group", false } };
    for (size_t i = 0; i < RG_COUNT(cases); i++) {
        RG_SCOPE();
        char line[128];
        trained t = trained_begin(cases[i].change != all_freed);
        snprintf(line, sizeof line,
                 "step: the runs of a recorded step train the optimizer's parameter '%s",
                 cases[i].name);
        begin_to_count(line);
        if (cases[i].grouped)
            ck_ok(rg_optim_add_group(t.o, RG_LIST(rg_requires_grad_(rg_ones(2), true))));
        rg_replay *r = rg_record(step_of_trained, &t);
        ck_ok(r && rg_replay_run(r));
        ck_assert_int_eq(warnings, 0);
        cases[i].change(&t);
        for (int k = 0; k < 3; k++)
            if (cases[i].fails)
                ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, cases[i].fails);
            else
                ck_ok(rg_replay_run(r));
        const int n = end_of_count();
        ck_assert_msg(n == (*cases[i].name != 0), "case %zu: %d warnings", i, n);
        rg_replay_free(r);
        trained_end(&t);
    }
}
END_TEST

static rg_tensor *closure_of_trained(void *context) {
    const trained *t = context;
    rg_optim_zero_grad(t->o);
    rg_tensor *loss = rg_mean(rg_square(rg_call(t->m, rg_ones(2, 3))));
    rg_backward(loss);
    return loss;
}

START_TEST(test_warns_of_lost_parameters_of_lbfgs) {
    trained t = { .m = two_layers_new() };
    t.o = rg_optim_lbfgs(rg_parameters(t.m), .max_iter = 2);
    begin_to_count("step: training no longer changes the optimizer's parameter 'head.weight'");
    RG_FOR (int i = 0; i < 4; i++) {
        if (i == 2)
            new_weight(&t);
        ck_ok(rg_optim_step_closure(t.o, closure_of_trained, &t));
        ck_assert_int_eq(warnings, i >= 2);
    }
    trained_end(&t);
    end_of_count();
}
END_TEST

/* A loss that is NaN gives a warning. No warning is given for other losses, a failed run, a
 * gradient that the program gives, or a NaN that isn't the loss. */
START_TEST(test_warns_of_a_nan_loss) {
    rg_tensor *w = rg_requires_grad_(rg_full(RG_DIMS(2), 2.0), true);
    begin_to_count("backward: the loss is nan");
    ck_ok(rg_backward(rg_sum(w)));
    ck_ok(rg_backward(rg_sum(rg_div(w, 0.0))));
    ck_ok(rg_backward(rg_div(w, NAN), .gradient = rg_ones(2)));
    ck_assert_int_eq(warnings, 0);
    rg_tensor *loss = rg_sum(rg_log(rg_neg(w)));
    ck_ok(rg_backward(loss));
    ck_ok(rg_backward(rg_sum(rg_log(rg_neg(w)))));
    ck_assert_int_eq(warnings, 1);
    begin_to_count("backward: the loss is nan");
    ck_assert(!rg_backward(loss));
    rg_error_clear();
    ck_assert_int_eq(end_of_count(), 0);
}
END_TEST

/* As in torch, the sums of all groups begin with the initial_accumulator_value that
 * rg_optim_adagrad got. The option of a later group has no effect on them. */
START_TEST(test_adagrad_sums_begin) {
    RG_SCOPE();
    rg_tensor *w[3];
    for (int i = 0; i < 3; i++)
        w[i] = rg_requires_grad_(rg_zeros(1), true);
    rg_optim *o = rg_optim_adagrad(RG_LIST(w[0]), .initial_accumulator_value = 0.25);
    ck_ok(rg_optim_add_group(o, RG_LIST(w[1]), .initial_accumulator_value = 4));
    ck_ok(rg_optim_add_group(o, RG_LIST(w[2])));
    rg_optim_group(o, 2)->initial_accumulator_value = 4;
    ck_ok(rg_backward(rg_add(rg_sum(w[0]), rg_add(rg_sum(w[1]), rg_sum(w[2])))));
    ck_ok(rg_optim_step(o));
    rg_named_list state = rg_named_below(rg_optim_state_dict(o), "state");
    int sums = 0;
    for (int i = 0; i < state.n; i++) {
        if (!strstr(state.v[i].name, ".sum"))
            continue;
        ck_assert_double_eq(rg_item(state.v[i].tensor), 1.25);
        sums++;
    }
    ck_assert_int_eq(sums, 3);
    rg_optim_free(o);
}
END_TEST

RG_TESTS(optim, test_adagrad_sums_begin, test_warns_of_old_gradients, test_warns_of_no_replay,
         test_warns_of_no_pair_of_networks, test_warns_of_no_shared_buffer, test_warns_of_closures,
         test_warns_of_a_nan_loss, test_warns_of_no_gradient, test_warns_of_lost_parameters,
         test_warns_of_lost_parameters_in_runs, test_warns_of_lost_parameters_of_lbfgs,
         test_warns_of_an_assigned_tensor, test_trajectories, test_lbfgs, test_lbfgs_scripts,
         test_groups, test_strides, test_state, test_steps_are_counted,
         test_parameters_of_all_shapes, test_state_names, test_clipping_without_memory,
         test_clipping, test_errors, test_newer_errors, test_parameters_with_gaps,
         test_muon_at_the_edges, test_muon_of_square_matrices, test_muon_without_memory,
         test_muon_of_large_matrices, test_lbfgs_first_step, test_lbfgs_at_its_tolerance,
         test_lbfgs_state, test_lbfgs_on_the_flat, test_lbfgs_pairs, test_lbfgs_fails,
         test_lbfgs_puts_back, test_lbfgs_without_pairs, test_lbfgs_steps_of_a_search,
         test_out_of_memory, test_what_retains_its_gradient, test_steps_leave_nothing,
         test_the_first_metric_is_the_best, test_radam_begins, test_nadam_products,
         test_products_apart, test_lbfgs_is_not_recorded, test_rounding_of_the_scale,
         test_clipping_what_cannot_be_written)

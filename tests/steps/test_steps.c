/*
 * test_steps.c: functions that work on many modules, entries, parameters or hooks take the same
 * number of steps for each, however many there are. A step is a basic block in one of the files
 * that the Makefile lists as COUNTED. The compiler makes each basic block call the function below.
 */
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t steps;
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { steps++; }

enum { SOME = 500, MANY = 4 * SOME };

/* The data of a test. A test prepares n things, works on them and clears them away. Only the steps
 * of the work are counted. */
typedef struct work {
    rg_module *m, *other;
    rg_optim *optim, *fresh;
    rg_tensor *x, **list;
    rg_module **children;
    rg_named_list dict;
    rg_replay *replay;
    int *ids;
} work;

static uint64_t steps_of(void (*prepare)(work *w, int n), void (*f)(work *w, int n), int n) {
    RG_SCOPE();
    work w = { 0 };
    w.list = calloc((size_t)n, sizeof *w.list);
    w.children = calloc((size_t)n, sizeof *w.children);
    w.ids = calloc((size_t)n, sizeof *w.ids);
    if (prepare)
        prepare(&w, n);
    uint64_t before = steps;
    f(&w, n);
    uint64_t taken = steps - before;
    rg_replay_free(w.replay);
    rg_optim_free(w.optim);
    rg_optim_free(w.fresh);
    rg_module_free(w.m);
    rg_module_free(w.other);
    free(w.list);
    free(w.children);
    free(w.ids);
    return taken;
}

#define is_linear(prepare, f)                                                                   \
    do {                                                                                        \
        uint64_t some = steps_of(prepare, f, SOME), many = steps_of(prepare, f, MANY);          \
        ck_assert_msg(some > 0 && many < 6 * some, "%s: %d take %llu steps, %d %llu", #f, SOME, \
                      (unsigned long long)some, MANY, (unsigned long long)many);                \
    } while (0)

/* ---- modules ------------------------------------------------------------------- */

static void have_children(work *w, int n) {
    for (int i = 0; i < n; i++)
        w->children[i] = (rg_module *)rg_nn_linear(1, 1, .bias = false);
}

static void build(work *w, int n) {
    w->m = (rg_module *)rg_nn_sequential_of(n, w->children);
    ck_ok(w->m);
}

static void have_module(work *w, int n) {
    have_children(w, n);
    build(w, n);
}

static void fail_to_build(work *w, int n) {
    rg_module_free(w->children[0]);
    w->children[0] = NULL;
    ck_assert(!rg_nn_sequential_of(n, w->children));
    rg_error_clear();
}

static const rg_module_class flat_class = { .name = "Flat" };

static void register_parameters(work *w, int n) {
    struct flat {
        rg_module base;
    } *m = RG_MODULE(struct flat, &flat_class);
    w->m = &m->base;
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        ck_assert(rg_register_parameter(w->m, name, &w->list[i], rg_zeros(1)));
    }
}

static void free_module(work *w, int n) {
    (void)n;
    rg_module_free(w->m);
    w->m = NULL;
}

static void list_all(work *w, int n) {
    ck_assert_int_eq(rg_named_parameters(w->m).n, n);
    ck_assert_int_eq(rg_parameters(w->m).n, n);
    ck_assert(rg_named_modules(w->m).n >= 1);
    ck_assert_int_eq(rg_state_dict(w->m).n, n);
    ck_assert(rg_num_parameters(w->m) == n && rg_module_requires_grad_(w->m, true));
}

static void convert(work *w, int n) {
    (void)n;
    ck_ok(rg_module_to(w->m, RG_FLOAT64));
}

static void copy(work *w, int n) {
    (void)n;
    w->other = rg_deepcopy(w->m);
    ck_ok(w->other);
}

static void build_dict(work *w, int n) {
    rg_module_dict *m = rg_nn_module_dict();
    w->m = &m->base;
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        ck_assert(rg_module_dict_set(m, name, w->children[i]));
    }
    ck_assert(rg_module_dict_items(m).n == n && rg_module_dict_get(m, "m77") == w->children[77]);
}

static void build_list(work *w, int n) {
    rg_parameter_list *m = rg_nn_parameter_list();
    w->m = &m->base;
    for (int i = 0; i < n; i++)
        ck_assert(rg_parameter_list_append(m, rg_zeros(1)));
}

static void print(work *w, int n) {
    (void)n;
    ck_ok(rg_module_repr(w->m));
}

START_TEST(test_modules) {
    is_linear(have_children, build);
    is_linear(have_children, fail_to_build);
    is_linear(NULL, register_parameters);
    is_linear(have_module, free_module);
    is_linear(have_module, list_all);
    is_linear(register_parameters, list_all);
    is_linear(have_module, convert);
    is_linear(have_module, print);
    is_linear(have_module, copy);
    is_linear(have_children, build_dict);
    is_linear(NULL, build_list);
    is_linear(build_list, print);
}
END_TEST

/* ---- states -------------------------------------------------------------------- */

static void have_dict(work *w, int n) {
    have_module(w, n);
    w->dict = rg_state_dict(w->m);
}

static void have_other_names(work *w, int n) {
    register_parameters(w, n);
    w->other = w->m;
    w->dict = rg_state_dict(w->m);
    have_module(w, n);
}

static void load(work *w, int n) {
    (void)n;
    ck_ok(rg_load_state_dict(w->m, w->dict, true));
}

static void fail_to_load(work *w, int n) {
    (void)n;
    ck_assert(!rg_load_state_dict(w->m, w->dict, true));
    rg_error_clear();
}

START_TEST(test_states) {
    is_linear(have_dict, load);
    is_linear(have_other_names, fail_to_load);
}
END_TEST

/* ---- optimizers ---------------------------------------------------------------- */

static void make_optimizer(work *w, int n) {
    rg_list all = { n, w->list };
    w->optim = rg_optim_adam(all);
    ck_ok(w->optim);
}

static void have_leaves(work *w, int n) {
    for (int i = 0; i < n; i++) {
        w->list[i] = rg_requires_grad_(rg_zeros(1), true);
        ck_assert(rg_set_grad(w->list[i], rg_ones(1)));
    }
}

static void add_groups(work *w, int n) {
    rg_list one = { 1, w->list };
    w->optim = rg_optim_sgd(one, .lr = 1);
    for (int i = 1; i < n; i++) {
        one.v++;
        ck_assert(rg_optim_add_group(w->optim, one, .lr = 1));
    }
}

static void have_stepped(work *w, int n) {
    have_leaves(w, n);
    make_optimizer(w, n);
    w->fresh = w->optim;
    make_optimizer(w, n);
    ck_ok(rg_optim_step(w->optim));
    w->dict = rg_optim_state_dict(w->optim);
}

static void load_optimizer(work *w, int n) {
    ck_assert(w->dict.n > 3 * n);
    ck_ok(rg_optim_load_state_dict(w->fresh, w->dict));
}

static void load_fresh(work *w, int n) {
    (void)n;
    ck_ok(rg_optim_load_state_dict(w->optim, rg_optim_state_dict(w->fresh)));
}

START_TEST(test_optimizers) {
    is_linear(have_leaves, make_optimizer);
    is_linear(have_leaves, add_groups);
    is_linear(have_stepped, load_optimizer);
    is_linear(have_stepped, load_fresh);
}
END_TEST

/* ---- hooks --------------------------------------------------------------------- */

static rg_tensor *look(rg_tensor *grad, void *context) {
    ++*(int *)context;
    (void)grad;
    return RG_NONE;
}

static rg_tensor *look_on(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)y;
    ++*(int *)context;
    return RG_NONE;
}

static int looks;

static void register_hooks(work *w, int n) {
    w->x = rg_requires_grad_(rg_ones(1), true);
    for (int i = 0; i < n; i++)
        w->ids[i] = rg_register_hook(w->x, look, &looks);
}

static void run_hooks(work *w, int n) {
    looks = 0;
    ck_ok(rg_backward(rg_sum(w->x)));
    ck_assert_int_eq(looks, n);
}

static void remove_first_hooks_first(work *w, int n) {
    for (int i = 0; i < n; i++)
        ck_assert(rg_remove_hook(w->x, w->ids[i]));
    run_hooks(w, 0);
}

static void remove_last_hooks_first(work *w, int n) {
    for (int i = n; i-- > 0;)
        ck_assert(rg_remove_hook(w->x, w->ids[i]));
    run_hooks(w, 0);
}

static void replace_hooks(work *w, int n) {
    for (int i = 0; i < n; i++) {
        ck_assert(rg_remove_hook(w->x, w->ids[i]));
        w->ids[i] = rg_register_hook(w->x, look, &looks);
    }
    run_hooks(w, n);
}

static void register_forward_hooks(work *w, int n) {
    w->m = (rg_module *)rg_nn_identity();
    for (int i = 0; i < n; i++)
        w->ids[i] = rg_register_forward_hook(w->m, look_on, &looks);
}

static void run_forward_hooks(work *w, int n) {
    looks = 0;
    ck_ok(rg_call(w->m, rg_ones(1)));
    ck_assert_int_eq(looks, n);
}

static void remove_forward_hooks(work *w, int n) {
    for (int i = 0; i < n; i += 2)
        ck_assert(rg_remove_forward_hook(w->m, w->ids[i]));
    for (int i = n; i-- > 0;)
        if (i % 2)
            ck_assert(rg_remove_forward_hook(w->m, w->ids[i]));
    run_forward_hooks(w, 0);
}

static void replace_forward_hooks(work *w, int n) {
    for (int i = 0; i < n; i++) {
        ck_assert(rg_remove_forward_hook(w->m, w->ids[i]));
        w->ids[i] = rg_register_forward_hook(w->m, look_on, &looks);
    }
    run_forward_hooks(w, n);
}

START_TEST(test_hooks) {
    is_linear(NULL, register_hooks);
    is_linear(register_hooks, run_hooks);
    is_linear(register_hooks, remove_first_hooks_first);
    is_linear(register_hooks, remove_last_hooks_first);
    is_linear(register_hooks, replace_hooks);
    is_linear(NULL, register_forward_hooks);
    is_linear(register_forward_hooks, run_forward_hooks);
    is_linear(register_forward_hooks, remove_forward_hooks);
    is_linear(register_forward_hooks, replace_forward_hooks);
}
END_TEST

/* ---- leaves and nodes -------------------------------------------------------------- */

/* Makes a tree of sums. Its nodes are found level by level, the oldest node of each level first. */
static void grow_tree(work *w, int n) {
    for (int i = 0; i < n; i++)
        w->list[i] = rg_requires_grad_(rg_ones(1), true);
    static rg_tensor *level[MANY];
    for (int i = 0; i < n; i++)
        level[i] = w->list[i];
    for (int m = n; m > 1; m = (m + 1) / 2)
        for (int i = 0; i < m; i += 2)
            level[i / 2] = i + 1 < m ? rg_add(level[i], level[i + 1]) : level[i];
    w->x = level[0];
}

static void walk_tree(work *w, int n) {
    ck_ok(rg_backward(w->x));
    ck_assert_double_eq(rg_item(rg_grad_of(w->list[n - 1])), 1);
}

START_TEST(test_graphs) { is_linear(grow_tree, walk_tree); }
END_TEST

/* ---- compiled steps ----------------------------------------------------------------- */

static int chain_length;
static void add_in_a_chain(void *context) {
    rg_tensor *x = context;
    rg_set_grad(x, RG_NONE);
    rg_tensor *y = x;
    for (int i = 0; i < chain_length; i++)
        y = rg_tanh(rg_add(y, x));
    rg_backward(rg_sum(y));
}

static void have_chain(work *w, int n) {
    w->x = rg_requires_grad_(rg_ones(2), true);
    chain_length = n;
    w->replay = rg_record(add_in_a_chain, w->x);
    ck_ok(w->replay);
}

static void no_warning(const char *line) { (void)line; }

/* There is no compiler, so that the operations are lowered, compared and written, but not compiled.
 */
static void compile_chain(work *w, int n) {
    (void)n;
    ck_assert(!rg_replay_compile(w->replay) && rg_error_code() == RG_OK);
}

START_TEST(test_compiled_steps) {
    scratch_begin();
    setenv("XDG_CACHE_HOME", scratch(""), 1);
    setenv("PATH", scratch(""), 1);
    rg_on_warning(no_warning);
    is_linear(have_chain, compile_chain);
    scratch_end();
}
END_TEST

RG_TESTS(steps, test_modules, test_states, test_optimizers, test_hooks, test_graphs,
         test_compiled_steps)

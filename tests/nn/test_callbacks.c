/*
 * test_callbacks.c: a function of the program that fails without an error message: it returns
 * false, NULL or NaN, and hasn't called rg_fail. Then the function of the library that called it
 * fails, and rg_error() isn't empty; if gradients or weights may be wrong, training is halted. Each
 * kind of such a function in the public headers has a row in the table at the end.
 */
#include "regard.h"
#include "tests/test.h"

#include <glob.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

/* ---- functions that fail -------------------------------------------------------------------- */

static rg_tensor *hook_fails(rg_tensor *g, void *context) {
    (void)g;
    return context;
}
static bool after_leaf_fails(rg_tensor *leaf, void *context) { return leaf == context; }
static rg_tensor *function_fails(rg_tensor *const inputs[], void *context) {
    return inputs ? context : RG_NONE;
}
static rg_list list_function_fails(rg_tensor *const inputs[], void *context) {
    return (rg_list){ .n = inputs && !context ? -1 : 0 };
}
static bool op_forward_fails(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx, (void)in, (void)out;
    return false;
}
static bool op_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_exp(in[0]);
    return true;
}
static bool op_backward_fails(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx, (void)g, (void)gin;
    return false;
}
static void *pack_fails(rg_tensor *t, void *context) { return t == context ? t : NULL; }
static void *pack(rg_tensor *t, void *context) { return context ? context : t; }
static rg_tensor *unpack_fails(void *packed, void *context) { return packed ? context : RG_NONE; }
static rg_tensor *forward_fails(rg_module *m, rg_tensor *x) { return m ? NULL : x; }
static rg_tensor *forward2_fails(rg_module *m, rg_tensor *x, rg_tensor *y) {
    return m ? NULL : rg_add(x, y);
}
static rg_tensor *forward3_fails(rg_module *m, rg_tensor *x, rg_tensor *y, rg_tensor *z) {
    return m ? NULL : rg_add(rg_add(x, y), z);
}
static rg_tensor *forward_with_fails(rg_module *m, rg_list inputs, void *keywords) {
    return m || keywords ? NULL : inputs.v[0];
}
static bool copy_fails(rg_module *m, const rg_module *from) { return m == from; }
static rg_tensor *forward_hook_fails(rg_module *m, rg_list inputs, rg_tensor *y, void *context) {
    (void)m, (void)inputs, (void)y;
    return context;
}
static rg_tensor *backward_pre_hook_fails(rg_module *m, rg_tensor *g, void *context) {
    (void)m, (void)g;
    return context;
}
static bool backward_hook_fails(rg_module *m, int n, rg_tensor *grad_input[],
                                rg_tensor *grad_output, void *context) {
    (void)m, (void)n, (void)grad_input, (void)grad_output;
    return context;
}
static rg_tensor *point_hook_fails(rg_tensor *value, const char *name, void *context) {
    (void)value, (void)name;
    return context;
}
static rg_tensor *activation_fails(rg_tensor *x) { return x ? NULL : RG_NONE; }
static rg_tensor *closure_fails(void *context) { return context; }
static double lambda_fails(int64_t epoch, void *context) { return context ? (double)epoch : NAN; }
static double scale_fails(double x, void *context) { return context ? x : NAN; }

/* ---- calls of these functions ---------------------------------------------------------------- */

static rg_tensor *leaf(void) {
    return rg_requires_grad_(rg_ones_dims(RG_DIMS(2), RG_FLOAT64), true);
}

static bool call_hook(void) {
    rg_tensor *y = rg_exp(leaf());
    return rg_register_hook(y, hook_fails, NULL) < 0 || rg_backward(rg_sum(y));
}
static bool call_after_leaf(void) {
    rg_tensor *x = leaf();
    return rg_register_post_accumulate_grad_hook(x, after_leaf_fails, NULL) < 0
           || rg_backward(rg_sum(x));
}

#define CALL_FUNCTION(name, call)             \
    static bool call_##name(void) {           \
        rg_tensor *in[] = { leaf() }, *to[1]; \
        (void)to;                             \
        return call;                          \
    }
CALL_FUNCTION(gradcheck, rg_gradcheck(function_fails, NULL, 1, in))
CALL_FUNCTION(gradgradcheck, rg_gradgradcheck(function_fails, NULL, 1, in))
CALL_FUNCTION(jacrev, rg_jacrev(function_fails, NULL, 1, in))
CALL_FUNCTION(jacfwd, rg_jacfwd(function_fails, NULL, 1, in))
CALL_FUNCTION(hessian, rg_hessian(function_fails, NULL, 1, in))
CALL_FUNCTION(vjp, rg_vjp(function_fails, NULL, 1, in, RG_NONE, to))
CALL_FUNCTION(jvp, rg_jvp(function_fails, NULL, 1, in, in, to))
CALL_FUNCTION(hvp, rg_hvp(function_fails, NULL, 1, in, in, to))
CALL_FUNCTION(vmap, rg_vmap(function_fails, NULL, 1, in))
CALL_FUNCTION(checkpoint, rg_checkpoint(function_fails, NULL, 1, in))
CALL_FUNCTION(gradcheck_list, rg_gradcheck_list(list_function_fails, NULL, 1, in))
CALL_FUNCTION(gradgradcheck_list, rg_gradgradcheck_list(list_function_fails, NULL, 1, in))

static bool call_replays(void) {
    rg_replays *replays = rg_replays_new(function_fails, NULL);
    rg_tensor *in[] = { rg_ones(2) };
    const bool ok = rg_replays_run(replays, 1, in);
    rg_replays_free(replays);
    return ok;
}

static bool call_op_forward(void) {
    static rg_function_class cls = { .name = "Fails", .forward = op_forward_fails,
                                     .backward = op_backward_fails };
    return rg_function_apply(&cls, NULL, leaf());
}
static bool call_op_backward(void) {
    static rg_function_class cls = { .name = "FailsLater", .forward = op_forward,
                                     .backward = op_backward_fails };
    return rg_backward(rg_sum(rg_function_apply(&cls, NULL, leaf())));
}
static bool call_pack(void) {
    RG_SAVED_HOOKS(((rg_saved_hooks){ .pack = pack_fails, .unpack = unpack_fails }));
    return rg_exp(leaf());
}
static bool call_unpack(void) {
    rg_tensor *y;
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ .pack = pack, .unpack = unpack_fails }));
        y = rg_exp(leaf());
    }
    return !y || rg_backward(rg_sum(y));
}

typedef struct {
    rg_module base;
} own_module;
static const rg_module_class one = { .name = "One", .forward = forward_fails, .copy = copy_fails };
static const rg_module_class two = { .name = "Two", .forward2 = forward2_fails };
static const rg_module_class three = { .name = "Three", .forward3 = forward3_fails };
static const rg_module_class any = { .name = "Any", .forward_with = forward_with_fails };

static void *own(const rg_module_class *cls) {
    own_module *m = RG_MODULE(own_module, cls);
    return RG_READY(m);
}
static bool free_after(void *m, bool ok) {
    rg_module_free(m);
    return ok;
}
static bool call_forward(void) {
    void *m = own(&one);
    return free_after(m, rg_call(m, leaf()));
}
static bool call_forward2(void) {
    void *m = own(&two);
    return free_after(m, rg_call(m, leaf(), leaf()));
}
static bool call_forward3(void) {
    void *m = own(&three);
    return free_after(m, rg_call(m, leaf(), leaf(), leaf()));
}
static bool call_forward_with(void) {
    void *m = own(&any);
    return free_after(m, rg_call(m, leaf()));
}
static bool call_copy(void) {
    void *m = own(&one), *copy = rg_deepcopy(m);
    rg_module_free(copy);
    return free_after(m, copy);
}

static bool call_forward_hook(void) {
    rg_module *m = (rg_module *)rg_nn_relu();
    rg_register_forward_hook(m, forward_hook_fails, NULL);
    return free_after(m, rg_call(m, leaf()));
}
static bool call_forward_pre_hook(void) {
    rg_module *m = (rg_module *)rg_nn_relu();
    rg_register_forward_pre_hook(m, forward_hook_fails, NULL);
    return free_after(m, rg_call(m, leaf()));
}
static bool call_backward_pre_hook(void) {
    rg_module *m = (rg_module *)rg_nn_relu();
    rg_register_full_backward_pre_hook(m, backward_pre_hook_fails, NULL);
    return free_after(m, rg_backward(rg_sum(rg_call(m, leaf()))));
}
static bool call_backward_hook(void) {
    rg_module *m = (rg_module *)rg_nn_relu();
    rg_register_full_backward_hook(m, backward_hook_fails, NULL);
    return free_after(m, rg_backward(rg_sum(rg_call(m, leaf()))));
}
static bool call_point_hook(void) {
    rg_module *m = (rg_module *)rg_nn_relu();
    return free_after(m, rg_run_with_hooks(m, RG_HOOKS_AT({ "", point_hook_fails, NULL }), leaf()));
}
static bool call_activation(void) {
    void *m = rg_nn_transformer_encoder_layer(2, 1, .activation = activation_fails);
    return free_after(m, rg_call(m, rg_ones(1, 1, 2)));
}

static bool free_optim_after(rg_optim *o, bool ok) {
    rg_optim_free(o);
    return ok;
}
static bool call_closure(void) {
    rg_optim *o = rg_optim_sgd(RG_LIST(leaf()), .lr = 1);
    return free_optim_after(o, rg_optim_step_closure(o, closure_fails, NULL));
}
static bool call_closure_of_lbfgs(void) {
    rg_optim *o = rg_optim_lbfgs(RG_LIST(leaf()));
    return free_optim_after(o, rg_optim_step_closure(o, closure_fails, NULL));
}
static bool steps_of(rg_optim *o, rg_schedule *s) {
    const bool ok = s && rg_schedule_step(s);
    return free_optim_after(o, ok);
}
static bool call_lambda(void) {
    rg_optim *o = rg_optim_sgd(RG_LIST(leaf()), .lr = 1);
    return steps_of(o, rg_optim_lambda_lr(o, .lr_lambda = lambda_fails));
}
static bool call_scale(void) {
    rg_optim *o = rg_optim_sgd(RG_LIST(leaf()), .lr = 1, .momentum = 0.9);
    return steps_of(o, rg_optim_cyclic_lr(o, .base_lr = 0.1, .max_lr = 1, .scale_fn = scale_fails));
}

/* ---- the table ------------------------------------------------------------------------------ */

/* The kind is the name of a function's type, or of a field, in the headers. */
typedef struct {
    const char *kind;
    bool (*call)(void);
    bool halts;
} callback;

static const callback callbacks[] = {
    { "rg_hook_function", call_hook, true },
    { "rg_post_accumulate_grad_hook", call_after_leaf, true },
    { "rg_function", call_gradcheck, false },
    { "rg_function", call_gradgradcheck, false },
    { "rg_function", call_jacrev, false },
    { "rg_function", call_jacfwd, false },
    { "rg_function", call_hessian, false },
    { "rg_function", call_vjp, false },
    { "rg_function", call_jvp, false },
    { "rg_function", call_hvp, false },
    { "rg_function", call_vmap, false },
    { "rg_function", call_checkpoint, false },
    { "rg_list_function", call_gradcheck_list, false },
    { "rg_list_function", call_gradgradcheck_list, false },
    { "step", call_replays, false },
    { "forward", call_op_forward, false },
    { "backward", call_op_backward, true },
    { "pack", call_pack, false },
    { "unpack", call_unpack, true },
    { "forward", call_forward, false },
    { "forward2", call_forward2, false },
    { "forward3", call_forward3, false },
    { "forward_with", call_forward_with, false },
    { "copy", call_copy, false },
    { "rg_forward_hook", call_forward_hook, false },
    { "rg_forward_hook", call_forward_pre_hook, false },
    { "rg_full_backward_pre_hook", call_backward_pre_hook, true },
    { "rg_full_backward_hook", call_backward_hook, true },
    { "rg_point_hook", call_point_hook, false },
    { "activation", call_activation, false },
    { "rg_closure", call_closure, true },
    { "rg_closure", call_closure_of_lbfgs, true },
    { "rg_lr_lambda", call_lambda, false },
    { "rg_cycle_scale", call_scale, false },
    /* `each` ends a generation by false. `f` is a function of the library. */
    { "each", NULL, false },
    { "f", NULL, false },
};

START_TEST(test_messages) {
    for (size_t i = 0; i < sizeof callbacks / sizeof *callbacks; i++) {
        const callback *c = &callbacks[i];
        RG_SCOPE();
        ck_assert_msg(!c->call || !c->call(), "row %zu: a %s that fails is ignored", i, c->kind);
        ck_assert_msg(!c->halts || rg_training_halted(), "row %zu, %s: training isn't halted", i,
                      c->kind);
        ck_assert_msg(!c->call || *rg_error(), "row %zu: a %s that fails leaves no message", i,
                      c->kind);
        rg_error_clear();
    }
}
END_TEST

/* ---- the headers ---------------------------------------------------------------------------- */

static void has_row(const char *header, const char *kind) {
    for (size_t i = 0; i < sizeof callbacks / sizeof *callbacks; i++)
        if (strcmp(callbacks[i].kind, kind) == 0)
            return;
    ck_abort_msg("%s: the table lacks a row for %s", header, kind);
}

/* Looks in the header for types of functions, and for pointers to functions, whose result can say
 * that they failed. Returns their number; each must have a row. */
static int check_header(const char *path, const regex_t *function) {
    char line[256], kind[64];
    regmatch_t at[3];
    int n = 0;
    bool is_public = false;
    FILE *file = fopen(path, "r");
    ck_assert(file != NULL);
    while (fgets(line, sizeof line, file)) {
        is_public |= strncmp(line, "RG_PUBLIC_BEGIN", 15) == 0;
        if (!is_public || regexec(function, line, 3, at, 0))
            continue;
        snprintf(kind, sizeof kind, "%.*s", (int)(at[2].rm_eo - at[2].rm_so), line + at[2].rm_so);
        has_row(path, kind);
        n++;
    }
    fclose(file);
    return n;
}

START_TEST(test_each_kind_has_a_row) {
    static const char *const folders[] = { "autograd/*.h", "autograd/*/*.h", "nn/*.h", "nn/*/*.h" };
    static const char results[] = "(rg_tensor \\*|bool |rg_list |double |void \\*)";
    char of_types[100], of_fields[100];
    snprintf(of_types, sizeof of_types, "^typedef %s(rg_[a-z_]+)\\(", results);
    snprintf(of_fields, sizeof of_fields, "%s\\(\\*([a-z0-9_]+)\\)\\(", results);
    regex_t types, fields;
    int n = 0;
    ck_assert_int_eq(regcomp(&types, of_types, REG_EXTENDED), 0);
    ck_assert_int_eq(regcomp(&fields, of_fields, REG_EXTENDED), 0);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        glob_t found;
        ck_assert_int_eq(glob(folders[i], 0, NULL, &found), 0);
        for (size_t k = 0; k < found.gl_pathc; k++)
            n += check_header(found.gl_pathv[k], &types) + check_header(found.gl_pathv[k], &fields);
        globfree(&found);
    }
    ck_assert_int_ge(n, 22);
    regfree(&types);
    regfree(&fields);
}
END_TEST

int main(void) {
    /* A class of ops has its row as long as the program runs. */
    rg_memory_may_stay = 1;
    const TTest *cases[] = { test_messages, test_each_kind_has_a_row };
    return rg_run_tests("callbacks", 1, 2, cases);
}

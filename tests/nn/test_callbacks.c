/*
 * test_callbacks.c: functions of the program that fail while the library calls them. Each kind of
 * function that the public headers name has a row in the table at the end. Each row is tried with
 * every way to fail: without a message, with a message that nobody reads, and with one that the
 * function handles.
 */
#include "regard.h"
#include "tests/test.h"

#include <glob.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

/* ---- functions that fail -------------------------------------------------------------------- */

/* The ways in which a function of the program fails. In the first three it returns a failure:
 * without a message, after rg_fail, or after rg_fail and reading the error. In the others it
 * returns a result although a call inside it has failed: the error is unread, was cleared by an
 * error handler, or was cleared or read by the function itself. */
typedef enum {
    SAYS_NOTHING,
    SAYS_WHY,
    READS_AND_FAILS,
    GOES_ON,
    GOES_ON_AFTER_HANDLER,
    HANDLES_BY_CLEARING,
    HANDLES_BY_READING,
    WAYS
} way;
static way failing;
static const char own_sentence[] = "it failed because it should";

/* Fails in the chosen way. Returns true if the calling function must return a result nevertheless.
 */
static bool goes_on(void) {
    switch (failing) {
    case SAYS_WHY:
    case READS_AND_FAILS:
    case GOES_ON: rg_fail(RG_VALUE_ERROR, "own", "%s", own_sentence); break;
    case GOES_ON_AFTER_HANDLER:
    case HANDLES_BY_CLEARING:
    case HANDLES_BY_READING: rg_numel(RG_NONE); break;
    case SAYS_NOTHING:
    case WAYS: break;
    }
    if (failing == HANDLES_BY_CLEARING)
        rg_error_clear();
    if (failing == READS_AND_FAILS || failing == HANDLES_BY_READING)
        rg_error();
    return failing >= GOES_ON;
}

static rg_tensor *hook_fails(rg_tensor *g, void *context) {
    (void)context;
    return goes_on() ? g : NULL;
}
static bool after_leaf_fails(rg_tensor *leaf, void *context) {
    return goes_on() && leaf != context;
}
static rg_tensor *function_fails(rg_tensor *const inputs[], void *context) {
    (void)context;
    return goes_on() ? rg_sum(rg_exp(inputs[0])) : NULL;
}
static rg_list list_function_fails(rg_tensor *const inputs[], void *context) {
    static rg_tensor *y;
    (void)context;
    y = rg_exp(inputs[0]);
    return (rg_list){ .n = goes_on() ? 1 : -1, .v = &y };
}
static void step_fails(void *context) {
    (void)context;
    goes_on();
}
static bool op_forward_fails(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_exp(in[0]);
    return goes_on();
}
static bool op_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_exp(in[0]);
    return true;
}
static bool op_backward_fails(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = g[0];
    return goes_on();
}
static void *pack_fails(rg_tensor *t, void *context) {
    (void)context;
    return goes_on() ? rg_keep(t) : NULL;
}
static void *pack(rg_tensor *t, void *context) {
    (void)context;
    return rg_keep(t);
}
static void drop(void *packed, void *context) {
    (void)context;
    rg_drop(packed);
}
static rg_tensor *unpack(void *packed, void *context) {
    (void)context;
    return packed;
}
static rg_tensor *unpack_fails(void *packed, void *context) {
    (void)context;
    return goes_on() ? packed : NULL;
}
static rg_tensor *forward_fails(rg_module *m, rg_tensor *x) { return m && goes_on() ? x : NULL; }
static rg_tensor *forward2_fails(rg_module *m, rg_tensor *x, rg_tensor *y) {
    return m && goes_on() ? rg_add(x, y) : NULL;
}
static rg_tensor *forward3_fails(rg_module *m, rg_tensor *x, rg_tensor *y, rg_tensor *z) {
    return m && goes_on() ? rg_add(rg_add(x, y), z) : NULL;
}
static rg_tensor *forward_with_fails(rg_module *m, rg_list inputs, void *keywords) {
    return m && !keywords && goes_on() ? inputs.v[0] : NULL;
}
static void repr_fails(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "%d", m != NULL);
    goes_on();
}
static bool copy_fails(rg_module *m, const rg_module *from) { return goes_on() && m != from; }
static rg_tensor *forward_hook_fails(rg_module *m, rg_list inputs, rg_tensor *y, void *context) {
    (void)m, (void)inputs, (void)y, (void)context;
    return goes_on() ? RG_NONE : NULL;
}
static rg_tensor *backward_pre_hook_fails(rg_module *m, rg_tensor *g, void *context) {
    (void)m, (void)context;
    return goes_on() ? g : NULL;
}
static bool backward_hook_fails(rg_module *m, int n, rg_tensor *grad_input[],
                                rg_tensor *grad_output, void *context) {
    (void)m, (void)n, (void)grad_input, (void)grad_output, (void)context;
    return goes_on();
}
static bool backward_hook_makes_null(rg_module *m, int n, rg_tensor *grad_input[],
                                     rg_tensor *grad_output, void *context) {
    (void)m, (void)n, (void)grad_output, (void)context;
    if (!goes_on())
        grad_input[0] = NULL;
    return true;
}
static rg_tensor *point_hook_fails(rg_tensor *value, const char *name, void *context) {
    (void)name, (void)context;
    return goes_on() ? value : NULL;
}
static rg_tensor *activation_fails(rg_tensor *x) { return goes_on() ? x : NULL; }
static bool each_fails(rg_tensor *token, void *context) { return goes_on() && token != context; }
static rg_tensor *closure_fails(void *context) {
    rg_tensor *loss = rg_sum(rg_exp(context));
    return rg_backward(loss) && goes_on() ? loss : NULL;
}
static double lambda_fails(int64_t epoch, void *context) {
    (void)epoch, (void)context;
    return goes_on() ? 0.5 : NAN;
}
static double scale_fails(double x, void *context) {
    (void)x, (void)context;
    return goes_on() ? 0.5 : NAN;
}

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

static bool call_record(void) {
    rg_replay *r = rg_record(step_fails, NULL);
    rg_replay_free(r);
    return r;
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
    RG_SAVED_HOOKS(((rg_saved_hooks){ .pack = pack_fails, .unpack = unpack, .drop = drop }));
    return rg_exp(leaf());
}
static bool call_unpack(void) {
    rg_tensor *y;
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ .pack = pack, .unpack = unpack_fails, .drop = drop }));
        y = rg_exp(leaf());
    }
    return !y || rg_backward(rg_sum(y));
}

typedef struct {
    rg_module base;
} own_module;
static const rg_module_class one = { .name = "One", .forward = forward_fails, .copy = copy_fails,
                                     .extra_repr = repr_fails };
static const rg_module_class two = { .name = "Two", .forward2 = forward2_fails };
static const rg_module_class three = { .name = "Three", .forward3 = forward3_fails };
static const rg_module_class any = { .name = "Any", .forward_with = forward_with_fails };

static rg_tensor *pointed_forward(rg_module *m, rg_tensor *x) {
    return rg_hook_point(m, "hook_x", x);
}
static const rg_module_class pointed = { .name = "Pointed", .forward = pointed_forward };

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

static bool call_extra_repr(void) {
    void *m = own(&one);
    return free_after(m, rg_module_repr(m));
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
static bool call_backward_hook_that_makes_null(void) {
    rg_module *m = (rg_module *)rg_nn_relu();
    rg_register_full_backward_hook(m, backward_hook_makes_null, NULL);
    return free_after(m, rg_backward(rg_sum(rg_call(m, leaf()))));
}
static bool call_point_hook(void) {
    rg_module *m = own(&pointed);
    const bool ok = rg_run_with_hooks(m, RG_HOOKS_AT({ "hook_x", point_hook_fails, NULL }), leaf());
    return free_after(m, ok);
}
static bool call_activation(void) {
    void *m = rg_nn_transformer_encoder_layer(2, 1, .activation = activation_fails);
    return free_after(m, rg_call(m, rg_ones(1, 1, 2)));
}

static bool free_optim_after(rg_optim *o, bool ok) {
    rg_optim_free(o);
    return ok;
}
static bool call_each(void) {
    rg_gpt *gpt = rg_nn_gpt(.vocab_size = 3, .block_size = 4, .n_embd = 2, .n_head = 1,
                            .n_layer = 1);
    rg_tensor *ids = rg_zeros_dims(RG_DIMS(1, 1), RG_INT64);
    const bool ok = rg_gpt_generate(gpt, ids, 2, .each = each_fails);
    rg_module_free(gpt);
    return ok;
}
static bool call_closure(void) {
    rg_tensor *x = leaf();
    rg_optim *o = rg_optim_sgd(RG_LIST(x), .lr = 1);
    return free_optim_after(o, rg_optim_step_closure(o, closure_fails, x));
}
static bool call_closure_of_lbfgs(void) {
    rg_tensor *x = leaf();
    rg_optim *o = rg_optim_lbfgs(RG_LIST(x));
    return free_optim_after(o, rg_optim_step_closure(o, closure_fails, x));
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

/* The kind is the name of a function's type, or of a field, in the headers. The flag `silent` is
 * set if the function can't say that it fails, since its result is void or means something else. */
typedef struct {
    const char *kind;
    bool (*call)(void);
    bool halts, silent;
} callback;

static const callback callbacks[] = {
    { "rg_hook_function", call_hook, true, false },
    { "rg_post_accumulate_grad_hook", call_after_leaf, true, false },
    { "rg_function", call_gradcheck, false, false },
    { "rg_function", call_gradgradcheck, false, false },
    { "rg_function", call_jacrev, false, false },
    { "rg_function", call_jacfwd, false, false },
    { "rg_function", call_hessian, false, false },
    { "rg_function", call_vjp, false, false },
    { "rg_function", call_jvp, false, false },
    { "rg_function", call_hvp, false, false },
    { "rg_function", call_vmap, false, false },
    { "rg_function", call_checkpoint, false, false },
    { "rg_list_function", call_gradcheck_list, false, false },
    { "rg_list_function", call_gradgradcheck_list, false, false },
    { "step", call_replays, false, false },
    { "step", call_record, false, true },
    { "forward", call_op_forward, false, false },
    { "backward", call_op_backward, true, false },
    { "pack", call_pack, false, false },
    { "unpack", call_unpack, true, false },
    { "forward", call_forward, false, false },
    { "forward2", call_forward2, false, false },
    { "forward3", call_forward3, false, false },
    { "forward_with", call_forward_with, false, false },
    { "extra_repr", call_extra_repr, false, true },
    { "copy", call_copy, false, false },
    { "rg_forward_hook", call_forward_hook, false, false },
    { "rg_forward_hook", call_forward_pre_hook, false, false },
    { "rg_full_backward_pre_hook", call_backward_pre_hook, true, false },
    { "rg_full_backward_hook", call_backward_hook, true, false },
    { "rg_full_backward_hook", call_backward_hook_that_makes_null, true, false },
    { "rg_point_hook", call_point_hook, false, false },
    { "activation", call_activation, false, false },
    { "each", call_each, false, true }, /* Returning false ends the generation. */
    { "rg_closure", call_closure, true, false },
    { "rg_closure", call_closure_of_lbfgs, true, false },
    { "rg_lr_lambda", call_lambda, false, false },
    { "rg_cycle_scale", call_scale, false, false },
    { "f", NULL, false, false }, /* Only the library's losses have it. */
};
static const int n_callbacks = sizeof callbacks / sizeof *callbacks;

static const char *const way_text[] = {
    [SAYS_NOTHING] = "fails, and says nothing",
    [SAYS_WHY] = "fails, and says why",
    [READS_AND_FAILS] = "fails, and has read its error",
    [GOES_ON] = "returns a result after rg_fail",
    [GOES_ON_AFTER_HANDLER] = "returns a result after a failure that the handler cleared",
    [HANDLES_BY_CLEARING] = "clears the error of a failure",
    [HANDLES_BY_READING] = "reads the error of a failure",
};

static void clear(rg_code code, const char *message) {
    (void)code, (void)message;
    rg_error_clear();
}

/* Calls the function of row i, which fails in this way, and checks what rg_error returns then. With
 * `after_older`, the program has read an older error before, which rg_error mustn't return
 * again. */
static void check_row(int i, way fails, bool after_older) {
    const callback *c = &callbacks[i];
    RG_SCOPE();
    if (after_older) {
        rg_ones(-1);
        rg_error();
    }
    failing = fails;
    if (fails == GOES_ON_AFTER_HANDLER)
        rg_on_error(clear);
    const bool ok = c->call();
    rg_on_error(NULL);
    const bool handled = fails == HANDLES_BY_CLEARING || fails == HANDLES_BY_READING;
    char row[200];
    snprintf(row, sizeof row, "row %d: a %s that %s%s", i, c->kind, way_text[fails],
             after_older ? ", after an older error," : "");
    ck_assert_msg(ok == handled, "%s %s", row, ok ? "is ignored" : rg_error());
    if (handled) {
        rg_error_clear();
        return;
    }
    if (fails != GOES_ON_AFTER_HANDLER)
        ck_assert_msg(!c->halts || rg_training_halted(), "%s doesn't halt training", row);
    const char *told = rg_error();
    if (fails == SAYS_WHY || fails == READS_AND_FAILS || fails == GOES_ON)
        ck_assert_msg(strstr(told, own_sentence), "%s is told as \"%s\"", row, told);
    if (fails != GOES_ON_AFTER_HANDLER)
        ck_assert_msg(*told && !strstr(told, "negative dimension"), "%s is told as \"%s\"", row,
                      told);
    rg_error_clear();
}

static void check_way(way fails) {
    const bool is_told_by_result = fails == SAYS_NOTHING || fails == READS_AND_FAILS;
    for (int i = 0; i < n_callbacks; i++)
        if (callbacks[i].call && !(callbacks[i].silent && is_told_by_result)) {
            check_row(i, fails, false);
            check_row(i, fails, true);
        }
}

START_TEST(test_says_nothing) { check_way(SAYS_NOTHING); }
END_TEST
START_TEST(test_says_why) { check_way(SAYS_WHY); }
END_TEST
START_TEST(test_reads_and_fails) { check_way(READS_AND_FAILS); }
END_TEST
START_TEST(test_goes_on) { check_way(GOES_ON); }
END_TEST
START_TEST(test_goes_on_after_handler) { check_way(GOES_ON_AFTER_HANDLER); }
END_TEST
START_TEST(test_handles) {
    check_way(HANDLES_BY_CLEARING);
    check_way(HANDLES_BY_READING);
}
END_TEST

/* ---- the headers ---------------------------------------------------------------------------- */

static void has_row(const char *header, const char *kind) {
    for (int i = 0; i < n_callbacks; i++)
        if (strcmp(callbacks[i].kind, kind) == 0)
            return;
    ck_abort_msg("%s: the table lacks a row for %s", header, kind);
}

/* Finds the types of functions, and the pointers to functions, that the expression matches in the
 * header. It matches only those whose result can report a failure. Asserts that each has a row, and
 * returns their number. */
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
    /* The class of an op stays in memory until the program ends. */
    rg_memory_may_stay = 1;
    const TTest *cases[] = { test_says_nothing,
                             test_says_why,
                             test_reads_and_fails,
                             test_goes_on,
                             test_goes_on_after_handler,
                             test_handles,
                             test_each_kind_has_a_row };
    return rg_run_tests("callbacks", 1, 7, cases);
}

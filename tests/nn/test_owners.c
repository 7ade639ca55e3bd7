/*
 * test_owners.c: functions of the program that the library calls, and that free something the
 * library is working with: the optimizer, the module, the recording, the tensor or the hook itself.
 * Each call ends well, or fails with a sentence. Run under a sanitizer, it reads no freed memory.
 */
#include "regard.h"

#include "tensor/base.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

/* ---- what is freed ------------------------------------------------------------------------- */

typedef struct {
    rg_module base;
    rg_linear_module *layer;
} owner_module;

/* The objects that a function may free. They are made anew for each call of the library. A pointer
 * is set to NULL when its object is freed. */
static struct {
    rg_tensor *w;
    owner_module *model;
    rg_module *outer;
    rg_optim *optim;
    rg_replay *replay;
    rg_replays *replays;
    rg_gpt *gpt;
    int tensor_hook, module_hook, saved_hooks;
} at;

static void frees_nothing(void) {}

/* Returns false if the library has refused to free the object. */
static bool was_freed(void) {
    return !strstr(rg_error_peek(), "working on it") && !strstr(rg_error_peek(), "is running");
}

static void frees_optim(void) {
    rg_optim_free(at.optim);
    if (was_freed())
        at.optim = NULL;
}

static void frees_model(void) {
    rg_module_free(at.outer);
    if (was_freed())
        at.outer = NULL;
}

static void frees_replay(void) {
    rg_replay_free(at.replay);
    if (was_freed())
        at.replay = NULL;
}

static void frees_replays(void) {
    rg_replays_free(at.replays);
    if (was_freed())
        at.replays = NULL;
}

static void frees_gpt(void) {
    rg_module_free(at.gpt);
    if (was_freed())
        at.gpt = NULL;
}

static void drops_w(void) {
    rg_drop(at.w);
    at.w = NULL;
}

static void removes_hooks(void) {
    if (at.w && at.tensor_hook >= 0)
        rg_remove_hook(at.w, at.tensor_hook);
    if (at.outer && at.module_hook >= 0)
        rg_remove_forward_hook(&at.model->base, at.module_hook);
    at.tensor_hook = at.module_hook = -1;
}

static void pops_saved_hooks(void) {
    if (at.saved_hooks)
        rg_pop_saved_hooks();
    at.saved_hooks = 0;
}

static const struct {
    const char *name;
    void (*free)(void);
} deeds[] = {
    { "nothing", frees_nothing },
    { "the optimizer", frees_optim },
    { "the model", frees_model },
    { "the replay", frees_replay },
    { "the replays", frees_replays },
    { "the GPT", frees_gpt },
    { "w", drops_w },
    { "the hooks", removes_hooks },
    { "the saved hooks", pops_saved_hooks },
};

/* The first call of act() after `armed` was set calls deed(), which frees an object. Other calls do
 * nothing. */
static bool armed;
static void (*deed)(void);
static void act(void) {
    if (!armed)
        return;
    armed = false;
    deed();
}

/* ---- functions that the library calls ------------------------------------------------------- */

static rg_tensor *loss_of_w(void) { return at.w ? rg_sum(rg_mul(at.w, at.w)) : rg_scalar(1.0); }

static rg_tensor *closure(void *none) {
    (void)none;
    rg_tensor *loss = loss_of_w();
    rg_backward(at.w ? loss : RG_NONE);
    act();
    return loss;
}
static double lambda(int64_t epoch, void *none) {
    (void)none;
    act();
    return epoch ? 0.5 : 1;
}
static double scale(double x, void *none) {
    (void)none;
    act();
    return x;
}
static rg_tensor *function_of(rg_tensor *const in[], void *none) {
    (void)none;
    rg_tensor *y = rg_sum(rg_exp(in[0]));
    act();
    return y;
}
static void step(void *none) {
    (void)none;
    rg_tensor *y = loss_of_w();
    act();
    rg_backward(y);
}
static rg_tensor *keeps(rg_tensor *g, void *none) {
    (void)g;
    (void)none;
    act();
    return RG_NONE;
}
static bool after_leaf(rg_tensor *leaf, void *none) {
    act();
    return leaf && !none;
}
static rg_tensor *forward_hook(rg_module *m, rg_list in, rg_tensor *y, void *none) {
    (void)m;
    (void)in;
    (void)y;
    (void)none;
    act();
    return RG_NONE;
}
static rg_tensor *backward_pre_hook(rg_module *m, rg_tensor *g, void *none) {
    (void)m;
    return keeps(g, none);
}
static bool backward_hook(rg_module *m, int n, rg_tensor *in[], rg_tensor *out, void *none) {
    act();
    return m && n && in && out && !none;
}
static rg_tensor *point_hook(rg_tensor *value, const char *name, void *none) {
    (void)name;
    return keeps(value, none);
}
static void *packs(rg_tensor *t, void *none) {
    (void)none;
    act();
    return rg_keep(rg_clone(t));
}
static rg_tensor *unpacks(void *t, void *none) {
    (void)none;
    act();
    return t;
}
static void drops(void *t, void *none) {
    (void)none;
    act();
    rg_drop(t);
}
static bool own_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    rg_save_for_backward(ctx, in[0]);
    out[0] = rg_mul(in[0], 2);
    act();
    return true;
}
static bool own_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 2);
    act();
    return true;
}
static rg_function_class doubling = { .name = "Doubling",
                                      .forward = own_forward,
                                      .backward = own_backward };
static void step_with_own_op(void *none) {
    (void)none;
    rg_backward(rg_sum(rg_function_apply(&doubling, NULL, at.w)));
}
static rg_tensor *replays_step(rg_tensor *const in[], void *none) {
    (void)none;
    rg_tensor *y = rg_sum(rg_function_apply(&doubling, NULL, in[0]));
    act();
    return y;
}
static rg_tensor *model_forward(rg_module *m, rg_tensor *x) {
    rg_tensor *y = rg_call(((owner_module *)m)->layer, x);
    act();
    return y;
}
static void model_repr(rg_module *m, char *text, size_t room) {
    (void)m;
    act();
    snprintf(text, room, "own");
}
static void model_destroy(rg_module *m) {
    (void)m;
    act();
}
static bool model_copy(rg_module *m, const rg_module *from) {
    act();
    return m && from;
}
static const rg_module_class owner_class = { .name = "Owner",
                                             .forward = model_forward,
                                             .extra_repr = model_repr,
                                             .destroy = model_destroy,
                                             .copy = model_copy };
static void for_module(rg_module *m, void *none) {
    (void)m;
    (void)none;
    act();
}
static bool each_token(rg_tensor *token, void *none) {
    act();
    return token && !none;
}
static void error_handler(rg_code code, const char *message) {
    (void)code;
    (void)message;
    act();
}

/* ---- the calls ------------------------------------------------------------------------------- */

static bool calls_closure(void) { return rg_optim_step_closure(at.optim, closure, NULL); }
static bool calls_lbfgs(void) {
    rg_optim_free(at.optim);
    at.optim = rg_optim_lbfgs(RG_LIST(at.w));
    return rg_optim_step_closure(at.optim, closure, NULL);
}
static bool calls_lambda(void) {
    rg_schedule *s = rg_optim_lambda_lr(at.optim, .lr_lambda = lambda);
    return s && rg_schedule_step(s);
}
static bool calls_multiplicative(void) {
    rg_schedule *s = rg_optim_multiplicative_lr(at.optim, .lr_lambda = lambda);
    return s && rg_schedule_step(s);
}
static bool calls_scale(void) {
    rg_schedule *s = rg_optim_cyclic_lr(at.optim, .base_lr = 0.1, .max_lr = 0.2, .step_size_up = 2,
                                        .cycle_momentum = false, .scale_fn = scale);
    return s && rg_schedule_step(s);
}
static bool calls_record(void) {
    frees_replay();
    at.replay = rg_record(step, NULL);
    return at.replay;
}
static bool calls_replay(void) { return rg_replay_run(at.replay); }
static bool calls_replays(void) {
    rg_tensor *x = rg_detach(at.w);
    return rg_replays_run(at.replays, 1, &x);
}
static bool calls_replays_again(void) {
    void (*then)(void) = deed;
    rg_tensor *x = rg_ones(2);
    deed = frees_nothing;
    rg_replays_run(at.replays, 1, &x);
    deed = then;
    armed = true;
    return rg_replays_run(at.replays, 1, &x);
}
static bool calls_hook(void) {
    at.tensor_hook = rg_register_hook(at.w, keeps, NULL);
    return rg_backward(loss_of_w());
}
static bool calls_hook_of_output(void) {
    rg_tensor *y = loss_of_w();
    rg_register_hook(y, keeps, NULL);
    return rg_backward(y);
}
static bool calls_after_leaf(void) {
    at.tensor_hook = rg_register_post_accumulate_grad_hook(at.w, after_leaf, NULL);
    return rg_backward(loss_of_w());
}
static bool calls_model(void) { return rg_call(at.outer, at.w); }
static bool calls_model_alone(void) { return rg_call(at.model, at.w); }
static bool calls_forward_hook(void) {
    at.module_hook = rg_register_forward_hook(&at.model->base, forward_hook, NULL);
    return rg_call(at.outer, at.w);
}
static bool calls_pre_hook(void) {
    at.module_hook = rg_register_forward_pre_hook(&at.model->base, forward_hook, NULL);
    return rg_call(at.outer, at.w);
}
static bool calls_point(void) {
    return rg_run_with_hooks(at.outer, RG_HOOKS_AT({ "*", point_hook, NULL }), at.w);
}
static bool calls_pack(void) {
    at.saved_hooks = rg_push_saved_hooks((rg_saved_hooks){ packs, unpacks, drops, NULL });
    rg_tensor *y = rg_exp(at.w);
    pops_saved_hooks();
    return y && rg_backward(rg_sum(y));
}
static bool calls_unpack(void) {
    void (*then)(void) = deed;
    armed = false;
    at.saved_hooks = rg_push_saved_hooks((rg_saved_hooks){ packs, unpacks, drops, NULL });
    rg_tensor *y = rg_sum(rg_exp(at.w));
    deed = then;
    armed = true;
    return rg_backward(y);
}
static bool calls_own_op(void) {
    rg_tensor *y = rg_function_apply(&doubling, NULL, at.w);
    return y && rg_backward(rg_sum(y));
}
static bool calls_own_backward(void) {
    armed = false;
    rg_tensor *y = rg_sum(rg_function_apply(&doubling, NULL, at.w));
    armed = true;
    return rg_backward(y);
}
static bool calls_checkpoint(void) {
    rg_tensor *y = rg_checkpoint(function_of, NULL, 1, &at.w);
    return y && rg_backward(y);
}
static bool calls_checkpoint_again(void) {
    armed = false;
    rg_tensor *y = rg_checkpoint(function_of, NULL, 1, &at.w);
    armed = true;
    return y && rg_backward(y);
}
static bool calls_gradcheck(void) {
    rg_tensor *w = rg_requires_grad_(rg_clone(rg_detach(at.w)), true);
    return rg_gradcheck(function_of, NULL, 1, &w);
}
static bool calls_gradgradcheck(void) { return rg_gradgradcheck(function_of, NULL, 1, &at.w); }
static bool calls_jacrev(void) { return rg_jacrev(function_of, NULL, 1, &at.w); }
static bool calls_jacfwd(void) { return rg_jacfwd(function_of, NULL, 1, &at.w); }
static bool calls_hessian(void) { return rg_hessian(function_of, NULL, 1, &at.w); }
static bool calls_vmap(void) {
    rg_tensor *rows = rg_reshape(at.w, 2, 1);
    return rg_vmap(function_of, NULL, 1, &rows);
}
static bool calls_explain(void) { return rg_explain(loss_of_w(), at.w, .f = function_of).n >= 0; }
static bool calls_function_check(void) {
    return rg_function_check(&doubling, NULL, RG_LIST(rg_double(rg_detach(at.w))));
}
static bool calls_repr(void) { return rg_module_repr(at.outer); }
static bool calls_destroy(void) {
    rg_module_free(at.outer);
    at.outer = NULL;
    return true;
}
static bool calls_copy(void) {
    rg_module *copy = rg_deepcopy(at.outer);
    rg_module_free(copy);
    return copy;
}
static bool calls_for_modules(void) {
    rg_apply_to_modules(at.outer, for_module, NULL);
    return rg_error_peek()[0] == 0;
}
static bool calls_each_token(void) {
    return rg_gpt_generate(at.gpt, rg_literal([[ 0, 1 ]]), 3, .each = each_token);
}
static bool calls_error_handler(void) {
    rg_on_error(error_handler);
    const bool ok = rg_call(at.outer, rg_ones(7));
    rg_on_error(NULL);
    return ok;
}
static bool calls_backward_hook(void) {
    at.module_hook = rg_register_full_backward_hook(&at.model->base, backward_hook, NULL);
    rg_tensor *y = rg_call(at.outer, at.w);
    return y && rg_backward(rg_sum(y));
}
static bool calls_backward_pre_hook(void) {
    at.module_hook = rg_register_full_backward_pre_hook(&at.model->base, backward_pre_hook, NULL);
    rg_tensor *y = rg_call(at.outer, at.w);
    return y && rg_backward(rg_sum(y));
}

#define CALL(name) \
    { #name, calls_##name }
static const struct {
    const char *name;
    bool (*call)(void);
} calls[] = {
    CALL(closure),
    CALL(lbfgs),
    CALL(lambda),
    CALL(multiplicative),
    CALL(scale),
    CALL(record),
    CALL(replay),
    CALL(replays),
    CALL(replays_again),
    CALL(hook),
    CALL(hook_of_output),
    CALL(after_leaf),
    CALL(model),
    CALL(model_alone),
    CALL(forward_hook),
    CALL(pre_hook),
    CALL(backward_hook),
    CALL(backward_pre_hook),
    CALL(point),
    CALL(pack),
    CALL(unpack),
    CALL(own_op),
    CALL(own_backward),
    CALL(checkpoint),
    CALL(checkpoint_again),
    CALL(gradcheck),
    CALL(gradgradcheck),
    CALL(jacrev),
    CALL(jacfwd),
    CALL(hessian),
    CALL(vmap),
    CALL(explain),
    CALL(function_check),
    CALL(repr),
    CALL(destroy),
    CALL(copy),
    CALL(for_modules),
    CALL(each_token),
    CALL(error_handler),
};

/* The classes of ops stay in memory until the program ends. */
__attribute__((constructor)) static void rows_stay(void) { rg_memory_may_stay = 1; }

/* ---- all cases ------------------------------------------------------------------------------- */

static void begin(void (*frees)(void)) {
    armed = false;
    deed = frees;
    at.w = rg_keep(rg_requires_grad_(rg_double(rg_ones(2)), true));
    at.model = RG_MODULE(owner_module, &owner_class);
    RG_CHILD(at.model, layer, rg_nn_linear(2, 2));
    at.outer = (rg_module *)rg_nn_sequential(at.model, rg_nn_relu());
    rg_module_to(at.outer, RG_FLOAT64);
    at.optim = rg_optim_sgd(RG_LIST(at.w), .lr = 0.1);
    at.replay = rg_record(step_with_own_op, NULL);
    at.replays = rg_replays_new(replays_step, NULL);
    at.gpt = rg_nn_gpt(.block_size = 4, .vocab_size = 2, .n_layer = 1, .n_head = 1, .n_embd = 2);
    rg_eval(at.gpt);
    at.tensor_hook = at.module_hook = -1;
    at.saved_hooks = 0;
    if (!(at.w && at.outer && at.optim && at.replay && at.replays && at.gpt)) {
        puts(rg_error());
        exit(3);
    }
    armed = true;
}

static void end(void) {
    armed = false;
    rg_error_clear();
    pops_saved_hooks();
    if (at.outer)
        frees_model();
    if (at.optim)
        frees_optim();
    if (at.replay)
        frees_replay();
    if (at.replays)
        frees_replays();
    if (at.gpt)
        frees_gpt();
    if (at.w)
        drops_w();
}

/* Calls that must fail if their function frees what the call still works with, and their errors.
 * All other calls succeed, or fail with any message. */
static const struct {
    const char *call, *deed, *says;
} refused[] = {
    { "closure", "the optimizer", "the closure has freed the optimizer" },
    { "lbfgs", "the optimizer", "the closure has freed the optimizer" },
    { "lambda", "the optimizer", "lr_lambda has freed the optimizer" },
    { "multiplicative", "the optimizer", "lr_lambda has freed the optimizer" },
    { "scale", "the optimizer", "lr_lambda has freed the optimizer" },
    { "replay", "the replay", "the recorded step is running" },
    { "replays", "the replays", "the step is running" },
    { "replays_again", "the replays", "the step is running" },
    { "repr", "the model", "can't be freed while module_repr is working on it" },
    { "destroy", "the model", "can't be freed while module_free is working on it" },
    { "copy", "the model", "can't be freed while deepcopy is working on it" },
    { "for_modules", "the model", "can't be freed while apply_to_modules is working on it" },
    { "each_token", "the GPT", "can't be freed while gpt_generate is working on it" },
};

static const char *must_say(const char *call, const char *name) {
    for (int i = 0; i < RG_COUNT(refused); i++)
        if (strcmp(refused[i].call, call) == 0 && strcmp(refused[i].deed, name) == 0)
            return refused[i].says;
    return "";
}

static void try(int call, int frees) {
    RG_SCOPE();
    begin(deeds[frees].free);
    const bool ok = calls[call].call();
    const char *said = rg_error(), *says = must_say(calls[call].name, deeds[frees].name);
    ck_assert_msg((ok || *said) && strstr(said, says), "%s frees %s: %d '%s'", calls[call].name,
                  deeds[frees].name, ok, said);
    ck_assert_msg(!armed, "%s calls nothing", calls[call].name);
    end();
}

static int64_t bytes_after_all(void) {
    for (int call = 0; call < RG_COUNT(calls); call++)
        for (int frees = 0; frees < RG_COUNT(deeds); frees++)
            try(call, frees);
    return rg_memory_stats().now;
}

/* The first round makes the classes of ops, which stay in memory until the program ends. The second
 * round leaves no memory behind. */
START_TEST(test_all) {
    const int64_t bytes = bytes_after_all();
    ck_assert_int_eq(bytes_after_all(), bytes);
}
END_TEST

/* A recorded step tries to run its own recording, which is refused. */
static void runs_itself(void) {
    ck_fails(rg_replay_run(at.replay), RG_RUNTIME_ERROR, "is running already");
}
START_TEST(test_runs_itself) {
    RG_SCOPE();
    begin(runs_itself);
    ck_ok(rg_replay_run(at.replay));
    ck_assert(!armed);
    ck_ok(rg_replay_run(at.replay));
    end();
}
END_TEST

RG_TESTS(owners, test_all, test_runs_itself)

/*
 * test_torch_checkpoint.c: files of torch.save are loaded into modules, optimizers and schedules,
 * and checkpoints are written for PyTorch.
 */
#include "tests/in_turn.h"
#include "schedules.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"
#include "tensor/files/files.h"
#include "tensor/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char checkpoint[] = "tests/golden/files/checkpoint.pt";

static rg_tensor *entry(rg_named_list list, const char *name) {
    for (int i = 0; i < list.n; i++)
        if (strcmp(list.v[i].name, name) == 0)
            return list.v[i].tensor;
    ck_abort_msg("there is no %s", name);
}

START_TEST(test_module) {
    RG_SCOPE();
    rg_named_list file = rg_torch_load(checkpoint);
    void *m = rg_nn_linear(3, 2);
    ck_ok(rg_load_state_dict(m, rg_named_below(rg_named_below(file, "model"), "0"), true));
    rg_named_list own = rg_state_dict(m);
    ck_assert(rg_equal(entry(own, "weight"), entry(file, "model.0.weight")));
    ck_assert(rg_equal(entry(own, "bias"), entry(file, "model.0.bias")));
    ck_fails(rg_load_state_dict(m, rg_named_below(file, "optimizer"), true), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"weight\", \"bias\"");
    rg_named none[] = { { "weight", RG_NONE }, { "bias", entry(own, "bias") }, { "x", RG_NONE } };
    const char *sentence = "While copying the parameter named \"weight\", expected torch.Tensor or "
                           "Tensor-like object from checkpoint but received RG_NONE";
    ck_fails(rg_load_state_dict(m, (rg_named_list){ 2, none }, true), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_load_state_dict(m, (rg_named_list){ 2, none }, false), RG_RUNTIME_ERROR, sentence);
    ck_ok(rg_load_state_dict(m, (rg_named_list){ 2, none + 1 }, false));
    rg_module_free(m);
}
END_TEST

static rg_optim *new_optim(rg_tensor **v) {
    v[0] = rg_zeros(2, 3);
    for (int i = 1; i < 5; i++)
        v[i] = rg_zeros(2);
    for (int i = 0; i < 5; i++)
        rg_requires_grad_(v[i], true);
    rg_optim *o = rg_optim_adamw(((rg_list){ 5, v }), .lr = 0.5);
    ck_ok(o);
    return o;
}

START_TEST(test_optimizer) {
    RG_SCOPE();
    rg_tensor *v[5];
    rg_optim *o = new_optim(v);
    rg_named_list file = rg_torch_load(checkpoint), dict = rg_named_below(file, "optimizer");
    ck_ok(rg_optim_load_state_dict(o, dict));
    ck_assert(rg_optim_group(o, 0)->lr == 0.01 && rg_optim_group(o, 0)->betas[1] == 0.999);
    rg_named_list own = rg_optim_state_dict(o);
    for (int i = 0; i < dict.n; i++)
        if (strncmp(dict.v[i].name, "state.", 6) == 0)
            ck_assert_msg(rg_equal(entry(own, dict.v[i].name), dict.v[i].tensor), "%s",
                          dict.v[i].name);
    ck_assert(rg_item(entry(own, "param_groups.0.params")) == 5);
    /* A state that regard has made is loaded, too. */
    ck_ok(rg_optim_load_state_dict(o, own));
    ck_fails(rg_optim_load_state_dict(o, rg_named_below(file, "model")), RG_VALUE_ERROR,
             "a different number of parameter groups");
    rg_optim_free(o);
    rg_optim *small = rg_optim_adamw(((rg_list){ 2, v }), .lr = 0.5);
    ck_fails(rg_optim_load_state_dict(small, dict), RG_RUNTIME_ERROR,
             "Unexpected key(s) in state_dict: \"state.2.step\"");
    rg_optim_free(small);
}
END_TEST

/* As in torch, Adam takes the decoupled decay over from AdamW's state, and AdamW keeps its own. A
 * state that doesn't mention decoupled decay counts as plain Adam's. */
START_TEST(test_decoupled) {
    RG_SCOPE();
    rg_tensor *v[5], *w[5], *u[5];
    rg_optim *adamw = new_optim(v), *other = new_optim(w);
    rg_optim_free(new_optim(u));
    rg_optim *adam = rg_optim_adam(((rg_list){ 5, u }), .lr = 0.5);
    rg_named_list dict = rg_named_below(rg_torch_load(checkpoint), "optimizer");
    ck_ok(rg_optim_load_state_dict(adamw, dict));
    ck_ok(rg_optim_load_state_dict(adam, dict));
    ck_assert(rg_optim_group(adam, 0)->decoupled_weight_decay == 1);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 5; i++) {
            ck_ok(rg_set_grad(v[i], rg_add(rg_detach(v[i]), i + 1)));
            ck_ok(rg_set_grad(u[i], rg_add(rg_detach(u[i]), i + 1)));
        }
        ck_ok(rg_optim_step(adamw) && rg_optim_step(adam));
        for (int i = 0; i < 5; i++)
            ck_assert(rg_equal(v[i], u[i]));
    }
    /* regard's own states mention decoupled decay, too. */
    rg_optim *plain = rg_optim_adam(((rg_list){ 5, w }), .lr = 0.5);
    ck_ok(rg_optim_load_state_dict(plain, rg_optim_state_dict(adam)));
    ck_assert(rg_optim_group(plain, 0)->decoupled_weight_decay == 1);
    rg_optim *fresh = rg_optim_adam(((rg_list){ 5, w }), .lr = 0.5);
    rg_named_list own = rg_optim_state_dict(fresh);
    ck_ok(rg_optim_load_state_dict(other, own));
    ck_assert(rg_optim_group(other, 0)->decoupled_weight_decay == 1);
    rg_named old[64];
    rg_named_list without = { 0, old };
    for (int i = 0; i < own.n; i++)
        if (!strstr(own.v[i].name, "decoupled"))
            old[without.n++] = own.v[i];
    ck_assert_int_eq(without.n, own.n - 1);
    ck_ok(rg_optim_load_state_dict(plain, without));
    ck_assert(rg_optim_group(plain, 0)->decoupled_weight_decay == 0);
    ck_ok(rg_optim_load_state_dict(other, without));
    ck_assert(rg_optim_group(other, 0)->decoupled_weight_decay == 1);
    rg_optim *all[] = { adamw, other, adam, plain, fresh };
    for (int i = 0; i < 5; i++)
        rg_optim_free(all[i]);
}
END_TEST

START_TEST(test_optimizer_without_memory) {
    RG_SCOPE();
    rg_tensor *v[5];
    rg_optim *o = new_optim(v);
    rg_named_list dict = rg_named_below(rg_torch_load(checkpoint), "optimizer");
    bool loaded = false;
    for (int64_t fail = 1; !loaded; fail++) {
        rg_error_clear();
        rg_memory_fail_at(fail);
        loaded = rg_optim_load_state_dict(o, dict);
        rg_memory_fail_at(0);
        ck_assert(rg_error_code() == (loaded ? RG_OK : RG_OUT_OF_MEMORY));
        ck_assert(fail < 10000);
    }
    rg_optim_free(o);
}
END_TEST

/* ---- schedules --------------------------------------------------------------------------- */

static double halves(int64_t epoch, void *context) {
    (void)context;
    return 1 / (double)(1 + epoch);
}

/* Makes a schedule of this kind. `other` chooses one of two sets of options. */
static rg_schedule *new_schedule(rg_optim *o, int kind, bool other) {
    rg_schedule_options q =
        RG_SCHEDULE_(.step_size = other ? 3 : 2, .gamma = other ? 0.7 : 0.5, .T_max = other ? 9 : 5,
                     .total_iters = other ? 6 : 4, .total_steps = other ? 20 : 12, .max_lr = 0.5,
                     .pct_start = other ? 0.25 : 0.4, .three_phase = other,
                     .milestones = RG_DIMS(other ? 4 : 2, 6, 6), .lr_lambda = halves,
                     .patience = other ? 1 : 0, .factor = other ? 0.3 : 0.6, .mode_max = other,
                     .power = other ? 2 : 0.5, .T_0 = other ? 2 : 3, .T_mult = other ? 3 : 2,
                     .base_lr = other ? 0.1 : 0.2, .step_size_up = other ? 3 : 4,
                     .step_size_down = other ? 2 : 0);
    if (kind == RG_SEQUENTIAL_LR) {
        q.milestones = RG_DIMS(other ? 5 : 2);
        q.schedules[0] = rg_optim_linear_lr(o, .total_iters = other ? 8 : 3);
        q.schedules[1] = rg_optim_exponential_lr(o, .gamma = other ? 0.2 : 0.8);
    }
    if (kind == RG_CHAINED_SCHEDULER) {
        rg_schedule *up = rg_optim_linear_lr(o, .total_iters = other ? 8 : 3);
        q.schedules[0] = rg_optim_sequential_lr(
            o, .schedules = { up, rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 2 + other) },
            .milestones = RG_DIMS(other ? 4 : 1));
        q.schedules[1] = rg_optim_exponential_lr(o, .gamma = other ? 0.2 : 0.8);
    }
    return rg_optim_schedule(o, (rg_schedule_kind)kind, own_options((rg_schedule_kind)kind, q));
}

static void step_schedule(rg_schedule *s, int kind, int times) {
    for (int i = 0; i < times; i++)
        ck_ok(step_any(s, (rg_schedule_kind)kind));
}

static rg_optim *of_two_groups(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true), *u = rg_requires_grad_(rg_ones(2), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 0.5, .momentum = 0.9);
    ck_ok(rg_optim_add_group(o, RG_LIST(u), .lr = 0.25));
    return o;
}

/* A schedule with other options, and an optimizer with other rates, load a file for PyTorch. Then
 * both go on as the schedule and the optimizer that were saved. */
START_TEST(test_schedules) {
    scratch_begin();
    for (int kind = 0; kind <= RG_CHAINED_SCHEDULER; kind++)
        for (int other = 0; other < 2; other++) {
            RG_SCOPE();
            rg_optim *a = of_two_groups(), *b = of_two_groups();
            rg_schedule *s = new_schedule(a, kind, other), *t = new_schedule(b, kind, !other);
            ck_ok(s && t);
            step_schedule(s, kind, 3);
            step_schedule(t, kind, 1);
            ck_ok(rg_torch_save_checkpoint(scratch("f.pt"), (rg_training){ .optim = a }));
            rg_named_list file = rg_torch_load(scratch("f.pt"));
            rg_named_list state = rg_named_below(file, "scheduler");
            ck_assert_msg(same_lists(state, rg_schedule_state_dict(s)), "kind %d", kind);
            ck_ok(rg_schedule_load_state_dict(t, state));
            ck_ok(rg_optim_load_state_dict(b, rg_named_below(file, "optimizer")));
            ck_assert_msg(same_lists(rg_schedule_state_dict(t), state), "kind %d", kind);
            for (int i = 0; i < 6; i++) {
                step_schedule(s, kind, 1);
                step_schedule(t, kind, 1);
                for (int g = 0; g < 2; g++) {
                    const rg_param_group *x = rg_optim_group(a, g), *y = rg_optim_group(b, g);
                    ck_assert_msg(x->lr == y->lr && x->momentum == y->momentum,
                                  "kind %d, step %d: %.17g, not %.17g", kind, i, y->lr, x->lr);
                }
            }
            rg_optim_free(a);
            rg_optim_free(b);
        }
    scratch_end();
}
END_TEST

/* Asserts that the schedule refuses the dictionary, and doesn't change. */
static void schedule_refuses(rg_schedule *s, rg_named_list dict, const char *sentence) {
    RG_SCOPE();
    rg_named_list before = rg_schedule_state_dict(s);
    ck_fails(rg_schedule_load_state_dict(s, dict), RG_RUNTIME_ERROR, sentence);
    ck_assert(same_lists(rg_schedule_state_dict(s), before));
}

/* A schedule's state has the initial learning rate of each group. */
START_TEST(test_first_rates) {
    RG_SCOPE();
    rg_optim *from = of_two_groups(), *to = of_two_groups();
    rg_schedule *saved = rg_optim_exponential_lr(from, .gamma = 0.5), *loaded;
    for (int i = 0; i < 2; i++)
        rg_optim_group(to, i)->lr *= 7 + i;
    loaded = rg_optim_exponential_lr(to, .gamma = 0.25);
    ck_ok(saved && loaded && rg_schedule_load_state_dict(loaded, rg_schedule_state_dict(saved)));
    for (int i = 0; i < 2; i++)
        ck_assert_double_eq(rg_optim_group(to, i)->initial_lr, rg_optim_group(from, i)->initial_lr);
    rg_optim_free(from);
    rg_optim_free(to);
}
END_TEST

START_TEST(test_schedules_refused) {
    RG_SCOPE();
    rg_optim *o = of_two_groups();
    rg_schedule *all[RG_SEQUENTIAL_LR + 1];
    for (int kind = 0; kind <= RG_SEQUENTIAL_LR; kind++)
        all[kind] = new_schedule(o, kind, false);
    /* A schedule refuses the state of another kind, unless both kinds have the same keys. */
    for (int i = 0; i <= RG_SEQUENTIAL_LR; i++)
        for (int k = 0; k <= RG_SEQUENTIAL_LR; k++)
            if (i != k && k != RG_LAMBDA_LR && k != RG_SEQUENTIAL_LR && i != RG_SEQUENTIAL_LR)
                schedule_refuses(all[k], rg_schedule_state_dict(all[i]), "(s) in state_dict: ");
    schedule_refuses(all[RG_STEP_LR], rg_schedule_state_dict(all[RG_EXPONENTIAL_LR]),
                     "StepLR: Missing key(s) in state_dict: \"step_size\".");
    schedule_refuses(all[RG_EXPONENTIAL_LR], rg_schedule_state_dict(all[RG_STEP_LR]),
                     "ExponentialLR: Unexpected key(s) in state_dict: \"step_size\".");
    rg_named v[64];
    rg_named_list dict = rg_schedule_state_dict(all[RG_MULTI_STEP_LR]), changed = { dict.n, v };
    const struct {
        const char *name, *to;
        rg_tensor *tensor;
        const char *sentence;
    } wrong[] = {
        { "gamma", "gamma", RG_NONE, "\"gamma\" in state_dict is no number" },
        { "gamma", "gamma", rg_ones(2), "\"gamma\" in state_dict is no number" },
        { "gamma", "gama", rg_ones(1), "Missing key(s) in state_dict: \"gamma\"" },
        { "last_epoch", "last_epoch", rg_scalar(0.5), "is no whole number" },
        { "last_epoch", "last_epoch", rg_scalar(1e300), "is no whole number" },
        { "base_lrs.1", "base_lrs.2", rg_ones(1), "\"base_lrs.2\" in state_dict is one too many" },
        { "base_lrs.1", "base_lr", rg_ones(1), "Unexpected key(s) in state_dict: \"base_lr\"" },
        { "milestones.6", "milestones.6", rg_scalar(9),
          "\"milestones.6\" in state_dict is one too" },
        { "milestones.6", "milestones.x", rg_scalar(1), "Unexpected key(s)" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        for (int k = 0; k < dict.n; k++)
            v[k] = strcmp(dict.v[k].name, wrong[i].name)
                       ? dict.v[k]
                       : (rg_named){ wrong[i].to, wrong[i].tensor };
        schedule_refuses(all[RG_MULTI_STEP_LR], changed, wrong[i].sentence);
    }
    /* Each phase of OneCycleLR must have an end, which must be a number. */
    rg_named_list one = rg_schedule_state_dict(all[RG_ONE_CYCLE_LR]);
    changed.n = one.n;
    for (int phase = 0, seen = 1; seen; phase++) {
        char name[40], said[100];
        seen = 0;
        snprintf(name, sizeof name, "_schedule_phases.%d.end_step", phase);
        for (int way = 0; way < 2; way++) {
            for (int k = 0; k < one.n; k++) {
                v[k] = one.v[k];
                if (strcmp(v[k].name, name))
                    continue;
                seen = 1;
                if (way == 0)
                    v[k].tensor = rg_ones(2);
                else
                    v[k].name = "verbose";
            }
            if (!seen)
                continue;
            snprintf(said, sizeof said,
                     way ? "Missing key(s) in state_dict: \"%s\"."
                         : "\"%s\" in state_dict is no number",
                     name);
            schedule_refuses(all[RG_ONE_CYCLE_LR], changed, said);
        }
        ck_assert(seen || phase >= 2);
    }
    changed.n = dict.n;
    /* Loading refuses options that the schedule's constructor refuses, with the same error. */
    rg_named_list step = rg_schedule_state_dict(all[RG_STEP_LR]);
    changed.n = step.n;
    for (int k = 0; k < step.n; k++)
        v[k] = strcmp(step.v[k].name, "step_size") ? step.v[k]
                                                   : (rg_named){ "step_size", rg_scalar(0) };
    ck_fails(rg_schedule_load_state_dict(all[RG_STEP_LR], changed), RG_VALUE_ERROR,
             "StepLR: Expected positive integer step_size, but got 0");
    ck_fails(rg_schedule_load_state_dict(all[0], (rg_named_list){ .n = -1 }), RG_TYPE_ERROR,
             "expected a list");
    /* An optimizer's errors name its kind. */
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true), *u = rg_requires_grad_(rg_ones(2), true);
    rg_optim *adam = rg_optim_adam(RG_LIST(w));
    ck_ok(rg_optim_add_group(adam, RG_LIST(u)));
    ck_fails(rg_optim_load_state_dict(o, rg_optim_state_dict(adam)), RG_RUNTIME_ERROR,
             "Error(s) in loading state_dict for SGD: Unexpected key(s) in state_dict: \"param_gr");
    rg_optim_free(adam);
    rg_optim_free(o);
    /* Under a sanitizer, freed memory mustn't be read. */
    if (!rgi_pool_bypassed())
        ck_fails(rg_schedule_state_dict(all[0]).n >= 0, RG_RELEASED, "schedule released");
}
END_TEST

/* ---- a checkpoint for PyTorch -------------------------------------------------------------- */

/* Returns an optimizer of that kind, with options that aren't the defaults. `other` chooses a
 * second set of options. `text` sets an option that is a text in torch, which isn't loaded from a
 * file. */
static rg_optim *optim_of(int kind, bool other, bool text, rg_tensor **v) {
    rg_list all = { 2, v };
    const double lr = other ? 0.2 : 0.1;
    switch (kind) {
    case RG_SGD: return rg_optim_sgd(all, .lr = lr, .momentum = 0.5, .nesterov = other);
    case RG_ADAM: return rg_optim_adam(all, .lr = lr, .amsgrad = !other);
    case RG_RMSPROP: return rg_optim_rmsprop(all, .lr = lr, .momentum = .5, .centered = !other);
    case RG_MUON:
        return rg_optim_muon(all, .lr = lr, .ns_steps = other ? 3 : 2, .match_rms_adamw = text);
    case RG_LBFGS:
        return rg_optim_lbfgs(all, .lr = lr, .history_size = other ? 5 : 3,
                              .max_iter = other ? 9 : 2, .strong_wolfe = text);
    default: return rg_optim_with((rg_optim_kind)kind, all, RG_PARAM_GROUP_(.lr = lr));
    }
}

/* loss = sum (w_0 - 1)^2 w_1^2 + w_0^4 */
static rg_tensor *loss_of(void *context) {
    rg_tensor **w = context;
    for (int i = 0; i < 2; i++)
        rg_set_grad(w[i], RG_NONE);
    rg_tensor *product = rg_mul(rg_square(rg_sub(w[0], 1)), rg_square(w[1]));
    rg_tensor *loss = rg_sum(rg_add(product, rg_square(rg_square(w[0]))));
    return rg_backward(loss) ? loss : NULL;
}

static rg_tensor *start_at(double first, rg_tensor *as) {
    rg_tensor *w = as ? rg_clone(rg_detach(as))
                      : rg_add(rg_div(rg_reshape(rg_arange(6), 2, 3), 10.0), first);
    return rg_requires_grad_(w, true);
}

/* After loading the file, an optimizer makes the same steps as the optimizer that was saved. */
START_TEST(test_every_optimizer) {
    RG_SCOPE();
    scratch_begin();
    for (int kind = RG_SGD; kind <= RG_LBFGS; kind++)
        for (int steps = 0; steps < 4; steps++) {
            rg_tensor *v[] = { start_at(0.5, NULL), start_at(-0.25, NULL) }, *w[2];
            rg_optim *o = optim_of(kind, false, steps % 2, v);
            ck_ok(o);
            for (int i = 0; i < steps; i++)
                ck_ok(rg_optim_step_closure(o, loss_of, v));
            ck_ok(rg_torch_save_checkpoint(scratch("o.pt"), (rg_training){ .optim = o }));
            for (int i = 0; i < 2; i++)
                w[i] = start_at(0, v[i]);
            rg_optim *again = optim_of(kind, true, steps % 2, w);
            rg_named_list file = rg_torch_load(scratch("o.pt"));
            ck_ok(rg_optim_load_state_dict(again, rg_named_below(file, "optimizer")));
            for (int i = 0; i < 3; i++) {
                ck_ok(rg_optim_step_closure(o, loss_of, v));
                ck_ok(rg_optim_step_closure(again, loss_of, w));
                ck_assert_msg(rg_equal(v[0], w[0]) && rg_equal(v[1], w[1]),
                              "optimizer %d, step %d behind %d", kind, i, steps);
            }
            rg_optim_free(o);
            rg_optim_free(again);
        }
    scratch_end();
}
END_TEST

/* Returns whether the part of the name after the last dot is among the words, which blanks
 * separate. */
static bool is_among(const char *name, const char *words) {
    char word[64];
    const char *last = strrchr(name, '.');
    snprintf(word, sizeof word, " %s ", last ? last + 1 : name);
    return strstr(words, word) != NULL;
}

/* Each option has its type in torch: True or False, an int, or a float. */
START_TEST(test_types_of_options) {
    RG_SCOPE();
    scratch_begin();
    int flags = 0, whole = 0, others = 0;
    for (int kind = RG_SGD; kind <= RG_LBFGS; kind++) {
        rg_tensor *v[] = { start_at(0.5, NULL), start_at(-0.25, NULL) };
        rg_optim *o = optim_of(kind, false, false, v);
        ck_ok(rg_torch_save_checkpoint(scratch("t.pt"), (rg_training){ .optim = o }));
        rg_named_list group = rg_named_below(rg_torch_load(scratch("t.pt")),
                                             "optimizer.param_groups.0");
        for (int i = 0; i < group.n; i++) {
            const char *name = group.v[i].name;
            rg_dtype want = RG_FLOAT64;
            if (is_among(name, " nesterov amsgrad centered maximize decoupled_weight_decay "))
                want = RG_BOOL;
            else if (is_among(name, " ns_steps max_iter max_eval history_size ")
                     || strstr(name, "params."))
                want = RG_INT64;
            if (group.v[i].tensor == RG_NONE)
                continue;
            ck_assert_msg(rg_dtype_of(group.v[i].tensor) == want, "optimizer %d: %s is of %s", kind,
                          name, rg_dtype_name(rg_dtype_of(group.v[i].tensor)));
            flags += want == RG_BOOL;
            whole += want == RG_INT64;
            others += want == RG_FLOAT64;
        }
        rg_optim_free(o);
    }
    ck_assert(flags > 5 && whole > 5 && others > 10);
    scratch_end();
}
END_TEST

/* Returns whether the file has the text somewhere. */
static bool has_text(const char *path, const char *text) {
    char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t i = 0; i + strlen(text) <= n; i++)
        if (memcmp(bytes + i, text, strlen(text)) == 0)
            return true;
    return false;
}

/* Some options are strings in torch. The file has their keys and strings. */
START_TEST(test_texts_of_options) {
    RG_SCOPE();
    scratch_begin();
    static const struct {
        int kind;
        const char *key, *text;
    } texts[] = { { RG_MUON, "adjust_lr_fn", "match_rms_adamw" },
                  { RG_LBFGS, "line_search_fn", "strong_wolfe" } };
    for (int i = 0; i < 2; i++)
        for (int on = 0; on < 2; on++) {
            rg_tensor *v[] = { start_at(0.5, NULL), start_at(-0.25, NULL) };
            rg_optim *o = optim_of(texts[i].kind, false, on, v);
            ck_ok(rg_torch_save_checkpoint(scratch("t.pt"), (rg_training){ .optim = o }));
            for (int k = 0; k < 2; k++) {
                ck_assert(has_text(scratch("t.pt"), texts[k].key) == (k == i));
                ck_assert(has_text(scratch("t.pt"), texts[k].text) == (k == i && on));
            }
            rg_optim_free(o);
        }
    scratch_end();
}
END_TEST

/* Returns the number of entries whose names begin with this name and a dot. */
static int count_below(rg_named_list file, const char *name) {
    return rg_named_below(file, name).n;
}

/* In torch's state of LBFGS, "al" has as many entries as LBFGS may keep pairs of directions and
 * steps. "ro" has one entry for each pair that it has kept. */
START_TEST(test_lists_of_lbfgs) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *v[] = { start_at(0.5, NULL), start_at(-0.25, NULL) };
    rg_optim *o = optim_of(RG_LBFGS, false, false, v);
    for (int i = 0; i < 3; i++)
        ck_ok(rg_optim_step_closure(o, loss_of, v));
    ck_ok(rg_torch_save_checkpoint(scratch("l.pt"), (rg_training){ .optim = o }));
    rg_named_list file = rg_torch_load(scratch("l.pt"));
    const int pairs = count_below(file, "optimizer.state.0.old_dirs");
    ck_assert_int_gt(pairs, 1);
    ck_assert_int_eq(count_below(file, "optimizer.state.0.al"), 3);
    ck_assert_int_eq(count_below(file, "optimizer.state.0.ro"), pairs);
    ck_assert_int_eq(count_below(file, "optimizer.state.0.old_stps"), pairs);
    rg_optim_free(o);
    scratch_end();
}
END_TEST

/* As in torch, parameters are numbered through all groups. */
START_TEST(test_numbers_of_parameters) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *p[6];
    for (int i = 0; i < 6; i++)
        p[i] = rg_requires_grad_(rg_ones(i + 1), true);
    rg_optim *o = rg_optim_adam(rg_list_of(1, p));
    ck_ok(rg_optim_add_group(o, rg_list_of(3, p + 1)));
    ck_ok(rg_optim_add_group(o, rg_list_of(2, p + 4)));
    ck_ok(rg_torch_save_checkpoint(scratch("n.pt"), (rg_training){ .optim = o }));
    rg_named_list file = rg_torch_load(scratch("n.pt"));
    static const int sizes[] = { 1, 3, 2 };
    for (int group = 0, number = 0; group < 3; group++) {
        char name[60];
        for (int i = 0; i < sizes[group]; i++) {
            snprintf(name, sizeof name, "optimizer.param_groups.%d.params.%d", group, i);
            ck_assert(rg_item(entry(file, name)) == number++);
        }
        snprintf(name, sizeof name, "optimizer.param_groups.%d.params", group);
        ck_assert_int_eq(count_below(file, name), sizes[group]);
    }
    rg_optim_free(o);
    scratch_end();
}
END_TEST

static rg_tensor *flat_loss(void *context) {
    rg_tensor *loss = rg_sum(rg_mul(*(rg_tensor **)context, 0));
    return rg_backward(loss) ? loss : NULL;
}

/* If the gradient is zero from the beginning, LBFGS has no direction, and saves none. */
START_TEST(test_lbfgs_without_a_direction) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *v = start_at(0.5, NULL);
    rg_optim *o = rg_optim_lbfgs(RG_LIST(v));
    ck_ok(rg_optim_step_closure(o, flat_loss, &v));
    ck_ok(rg_torch_save_checkpoint(scratch("f.pt"), (rg_training){ .optim = o }));
    rg_named_list file = rg_torch_load(scratch("f.pt"));
    ck_assert_int_eq(count_below(file, "optimizer.state.0"), 2);
    ck_assert(rg_item(entry(file, "optimizer.state.0.func_evals")) == 1);
    ck_ok(rg_optim_load_state_dict(o, rg_named_below(file, "optimizer")));
    rg_optim_free(o);
    scratch_end();
}
END_TEST

/* LBFGS makes "al" in its second iteration, so after the first one it has a direction, but no "al".
 * A step ends after max_iter * 5/4 calls of the closure, so max_iter = 3 allows 2 iterations. */
START_TEST(test_lbfgs_after_one_iteration) {
    RG_SCOPE();
    scratch_begin();
    for (int iterations = 1; iterations < 3; iterations++) {
        rg_tensor *v[] = { start_at(0.5, NULL), start_at(-0.25, NULL) };
        rg_optim *o = rg_optim_lbfgs(rg_list_of(2, v), .lr = 0.01, .max_iter = 2 * iterations - 1,
                                     .history_size = 3);
        ck_ok(rg_optim_step_closure(o, loss_of, v));
        ck_ok(rg_torch_save_checkpoint(scratch("i.pt"), (rg_training){ .optim = o }));
        rg_named_list file = rg_torch_load(scratch("i.pt"));
        ck_assert(rg_item(entry(file, "optimizer.state.0.n_iter")) == iterations);
        ck_assert_int_eq(count_below(file, "optimizer.state.0.al"), iterations == 1 ? 0 : 3);
        ck_assert_int_eq(rg_numel(entry(file, "optimizer.state.0.d")),
                         rg_numel(v[0]) + rg_numel(v[1]));
        rg_optim_free(o);
    }
    scratch_end();
}
END_TEST

/* The position of a loader is in the file, too. */
START_TEST(test_loader) {
    RG_SCOPE();
    scratch_begin();
    rg_data_loader *l = rg_data_loader_new(RG_LIST(rg_arange(10)), .batch_size = 3);
    rg_data_loader_next(l);
    ck_ok(rg_torch_save_checkpoint(scratch("l.pt"), (rg_training){ .loader = l }));
    rg_list batch = rg_data_loader_next(l);
    rg_named_list file = rg_torch_load(scratch("l.pt"));
    ck_ok(rg_data_loader_load_state_dict(l, rg_named_below(file, "loader")));
    ck_assert(rg_equal(rg_data_loader_next(l).v[0], batch.v[0]));
    rg_data_loader_free(l);
    scratch_end();
}
END_TEST

static rg_training denied_run;

static bool save_denied(void) { return rg_torch_save_checkpoint(scratch("g.pt"), denied_run); }

START_TEST(test_written) {
    RG_SCOPE();
    scratch_begin();
    rg_manual_seed(1);
    rg_gpt *m = rg_nn_gpt(.block_size = 2, .vocab_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 2);
    rg_optim *o = rg_optim_adamw(rg_parameters(m), .lr = 0.5);
    ck_ok(rg_optim_step_lr(o, .step_size = 3) && rg_optim_exponential_lr(o, .gamma = 0.5));
    rg_tensor *mask = rg_arange(4);
    double step = 70000, loss = 2.25, far = -INFINITY, less = -3, most = INT32_MAX, least = -most;
    double beyond = most + 1, zero = -0.0;
    rg_training run = { .model = m,
                        .optim = o,
                        .tensors = RG_NAMED_LIST({ "mask", mask }),
                        .numbers = RG_NUMBERS({ "step", &step }, { "loss", &loss }, { "far", &far },
                                              { "less", &less }, { "most", &most },
                                              { "least", &least }, { "beyond", &beyond },
                                              { "zero", &zero }) };
    ck_ok(rg_torch_save_checkpoint(scratch("f.pt"), run));
    rg_named_list file = rg_torch_load(scratch("f.pt"));
    ck_assert(same_lists(rg_named_below(file, "model"), rg_state_dict(m)));
    ck_assert(rg_equal(entry(file, "mask"), mask));
    ck_assert(rg_item(entry(file, "step")) == 70000
              && rg_dtype_of(entry(file, "step")) == RG_INT64);
    ck_assert(rg_item(entry(file, "loss")) == 2.25 && rg_item(entry(file, "far")) == -INFINITY);
    ck_assert(rg_item(entry(file, "less")) == -3);
    ck_assert(rg_item(entry(file, "most")) == most && rg_item(entry(file, "beyond")) == beyond);
    ck_assert(rg_dtype_of(entry(file, "most")) == RG_INT64
              && rg_dtype_of(entry(file, "least")) == RG_INT64
              && rg_dtype_of(entry(file, "beyond")) == RG_FLOAT64);
    ck_assert(signbit(rg_item(entry(file, "zero"))));
    ck_assert(rg_dtype_of(entry(file, "optimizer.param_groups.0.amsgrad")) == RG_BOOL);
    ck_assert(rg_item(entry(file, "schedulers.1.gamma")) == 0.5);
    ck_ok(rg_optim_load_state_dict(o, rg_named_below(file, "optimizer")));

    run.numbers = (rg_number_list)RG_NUMBERS({ "mask", &step });
    ck_fails(rg_torch_save_checkpoint(scratch("g.pt"), run), RG_VALUE_ERROR,
             "torch_save_checkpoint: the name \"mask\" comes twice");
    run.numbers = (rg_number_list)RG_NUMBERS({ "mask", &step }, { "loader", &step });
    ck_fails(rg_torch_save_checkpoint(scratch("g.pt"), run), RG_VALUE_ERROR,
             "torch_save_checkpoint: the name \"mask\" comes twice");
    run.numbers = (rg_number_list)RG_NUMBERS({ "optimizer", &step });
    ck_fails(rg_torch_save_checkpoint(scratch("g.pt"), run), RG_VALUE_ERROR, "\"optimizer\" comes");
    /* rg_torch_load would find such a number under the same name as the model's weight. */
    run.numbers = (rg_number_list)RG_NUMBERS({ "model.transformer.wte.weight", &step });
    ck_fails(rg_torch_save_checkpoint(scratch("g.pt"), run), RG_VALUE_ERROR,
             "\"model.transformer.wte.weight\" belongs to the entry \"model\" of the file");
    run.numbers = (rg_number_list)RG_NUMBERS({ "\xFF", &step });
    ck_fails(rg_torch_save_checkpoint(scratch("g.pt"), run), RG_VALUE_ERROR, "no UTF-8");
    run.numbers.n = 0;
    ck_fails(rg_torch_save_checkpoint(scratch("no/f"), run), RG_IO_ERROR, "[Errno 2]");
    ck_assert_int_eq(scratch_files(), 1);

    /* Each request for memory is denied in turn. */
    double many[40];
    rg_number numbers[RG_COUNT(many)];
    char names[RG_COUNT(many)][8];
    for (int i = 0; i < RG_COUNT(many); i++) {
        many[i] = i;
        snprintf(names[i], sizeof names[i], "n%d", i);
        numbers[i] = (rg_number){ names[i], &many[i] };
    }
    run.numbers = (rg_number_list){ RG_COUNT(many), numbers };
    denied_run = run;
    ck_assert_int_gt(deny_in_turn(save_denied, NULL), 20);
    rg_named_list first = rg_named_below(file, "schedulers.0");
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        RG_SCOPE();
        rg_memory_fail_at(fail);
        done = rg_schedule_load_state_dict(rg_optim_step_lr(o, .step_size = 3), first);
        rg_memory_fail_at(0);
        ck_assert(rg_error_code() == (done ? RG_OK : RG_OUT_OF_MEMORY));
        rg_error_clear();
        ck_assert(fail < 10000);
    }
    ck_assert_int_eq(scratch_files(), 2);
    rg_optim_free(o);
    rg_module_free(m);
    scratch_end();
}
END_TEST

RG_TESTS(torch_checkpoint, test_module, test_optimizer, test_decoupled,
         test_optimizer_without_memory, test_schedules, test_first_rates, test_schedules_refused,
         test_written, test_every_optimizer, test_types_of_options, test_texts_of_options,
         test_lists_of_lbfgs, test_numbers_of_parameters, test_lbfgs_without_a_direction,
         test_lbfgs_after_one_iteration, test_loader)

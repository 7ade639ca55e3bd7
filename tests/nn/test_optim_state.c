/*
 * test_optim_state.c: a load of an optimizer's state either loads all keys or changes nothing,
 * whatever state the optimizer had.
 */
#include "tests/scratch.h"
#include "tests/test.h"
#include "nn/optim/optimizer_structs.h"
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 3, MOST = 128 };

typedef struct {
    rg_tensor *v[N];
    rg_optim *o;
    rg_schedule *s;
} learner;

static void step_learner(learner *l, double slope) {
    RG_SCOPE();
    for (int i = 0; i < N; i++)
        ck_ok(rg_set_grad(l->v[i], rg_add(rg_mul(rg_detach(l->v[i]), slope), i + 1)));
    ck_ok(rg_optim_step(l->o));
    /* The metric doesn't improve, so that the schedule's last number, its cooldown, isn't 0. */
    ck_ok(rg_schedule_step_metric(l->s, 1));
}

/* Returns an optimizer of two groups with a schedule; the last parameter is alone in the second. */
static learner new_learner(int kind, double lr) {
    learner l;
    rg_param_group with = RG_PARAM_GROUP_(.lr = lr);
    if (kind == RG_SGD)
        with.momentum = 0.9;
    if (kind == RG_ADAM || kind == RG_ADAMW)
        with.amsgrad = true;
    if (kind == RG_RMSPROP) {
        with.momentum = 0.5;
        with.centered = true;
    }
    for (int i = 0; i < N; i++)
        l.v[i] = rg_requires_grad_(rg_full_dims(RG_DIMS(2, i), i + 0.5, RG_FLOAT64), true);
    l.o = rg_optim_with((rg_optim_kind)kind, (rg_list){ N - 1, l.v }, with);
    ck_ok(l.o);
    rg_list last = { 1, l.v + N - 1 };
    ck_ok(rg_optim_add_group(l.o, last, .lr = lr / 2));
    l.s = rg_optim_reduce_lr_on_plateau(l.o, .patience = 0, .cooldown = 9);
    ck_ok(l.s);
    return l;
}

static bool same_states(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n && a.n > 0;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name) && rg_equal(a.v[i].tensor, b.v[i].tensor);
    return same;
}

static bool has_state(rg_optim *o, rg_named_list want) {
    RG_SCOPE();
    return same_states(rg_optim_state_dict(o), want);
}

/* Returns a copy of the state that later steps don't change. */
static rg_named_list copy_of(rg_named_list l, rg_named *v) {
    ck_assert(l.n > 0 && l.n <= MOST);
    for (int i = 0; i < l.n; i++)
        v[i] = (rg_named){ l.v[i].name, rg_clone(l.v[i].tensor) };
    return (rg_named_list){ l.n, v };
}

START_TEST(test_every_key_is_loaded) {
    for (int kind = RG_SGD; kind <= RG_RADAM; kind++) {
        RG_SCOPE();
        learner from = new_learner(kind, 0.1);
        for (int t = 0; t < 3; t++)
            step_learner(&from, 0.5);
        rg_named copies[MOST];
        rg_named_list dict = copy_of(rg_optim_state_dict(from.o), copies);
        /* The optimizer that loads the state is fresh, or has made other steps. */
        for (int steps = 0; steps < 3; steps += 2) {
            learner to = new_learner(kind, 0.3);
            for (int t = 0; t < steps; t++)
                step_learner(&to, -2);
            ck_assert(!has_state(to.o, dict));
            int64_t live = rg_live_tensors(), memory = rg_memory_stats().other;
            ck_ok(rg_optim_load_state_dict(to.o, dict));
            ck_assert(steps == 0 || rg_live_tensors() == live);
            ck_assert_int_eq(rg_memory_stats().other, memory);
            ck_assert(has_state(to.o, dict));
            rg_optim_free(to.o);
        }
        rg_optim_free(from.o);
    }
}
END_TEST

/* A load of a state that lacks a required key fails and changes nothing. As in torch,
 * decoupled_weight_decay may be absent, because older states lack it, and so may the whole state of
 * a parameter. With SGD, Lion and Muon a parameter's state is a single key, so this key may be
 * absent. */
START_TEST(test_no_key_is_missed) {
    for (int kind = RG_SGD; kind <= RG_MUON; kind++) {
        RG_SCOPE();
        learner from = new_learner(kind, 0.1), to = new_learner(kind, 0.3);
        step_learner(&from, 0.5);
        step_learner(&to, -2);
        rg_named_list whole = rg_optim_state_dict(from.o);
        rg_named copies[MOST], v[MOST];
        rg_named_list before = copy_of(rg_optim_state_dict(to.o), copies);
        for (int without = 0; without < whole.n; without++) {
            RG_SCOPE();
            const char *name = whole.v[without].name;
            rg_named_list part = copy_of(whole, v);
            memmove(v + without, v + without + 1, (size_t)(whole.n - without - 1) * sizeof *v);
            part.n--;
            const bool one_key = kind == RG_SGD || kind == RG_LION || kind == RG_MUON;
            const bool optional = strstr(name, "decoupled")
                                  || (one_key && strncmp(name, "state.", 6) == 0);
            bool loaded = rg_optim_load_state_dict(to.o, part);
            ck_assert_msg(loaded == optional, "without %s: %s", name, rg_error());
            ck_assert(loaded || strstr(rg_error(), strstr(name, ".params") ? "groups" : name));
            rg_error_clear();
            if (loaded)
                ck_ok(rg_optim_load_state_dict(to.o, before));
            ck_assert_msg(has_state(to.o, before), "kind %d, without %s", kind, name);
        }
        rg_optim_free(from.o);
        rg_optim_free(to.o);
    }
}
END_TEST

/* amsgrad needs a key in the state of each parameter. The loaded option decides whether the key
 * must be there, not the optimizer's own. */
START_TEST(test_states_of_an_option) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    rg_optim *with = rg_optim_adam(RG_LIST(w), .amsgrad = true);
    rg_optim *without = rg_optim_adam(RG_LIST(w));
    ck_ok(rg_set_grad(w, rg_ones(2)));
    ck_ok(rg_optim_step(with) && rg_optim_step(without));
    rg_named v[MOST], more[MOST];
    const rg_named_list lacks = copy_of(rg_optim_state_dict(without), v);
    ck_ok(rg_optim_load_state_dict(with, lacks));
    ck_assert(rg_optim_group(with, 0)->amsgrad == 0);
    int n = 0;
    for (int i = 0; i < lacks.n; i++) {
        more[n] = lacks.v[i];
        if (strstr(lacks.v[i].name, ".amsgrad"))
            more[n].tensor = rg_scalar(1.);
        n++;
    }
    ck_fails(rg_optim_load_state_dict(with, (rg_named_list){ n, more }), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"state.0.max_exp_avg_sq\".");
    rg_optim_free(with);
    rg_optim_free(without);
}
END_TEST

/* As in torch, loading the state of an optimizer that never stepped resets one that has stepped. */
START_TEST(test_fresh_into_stepped) {
    for (int kind = RG_SGD; kind <= RG_RADAM; kind++) {
        RG_SCOPE();
        learner fresh = new_learner(kind, 0.1), stepped = new_learner(kind, 0.3);
        for (int t = 0; t < 3; t++)
            step_learner(&stepped, -2);
        rg_named_list dict = rg_optim_state_dict(fresh.o);
        ck_ok(rg_optim_load_state_dict(stepped.o, dict));
        ck_assert(has_state(stepped.o, dict));
        for (int i = 0; i < N; i++)
            ck_ok(rg_set_data(stepped.v[i], rg_clone(rg_detach(fresh.v[i]))));
        for (int t = 0; t < 3; t++) {
            step_learner(&fresh, 0.5);
            step_learner(&stepped, 0.5);
            for (int i = 0; i < N; i++)
                ck_assert_msg(rg_equal(fresh.v[i], stepped.v[i]), "kind %d, step %d", kind, t);
        }
        rg_optim_free(fresh.o);
        rg_optim_free(stepped.o);
    }
}
END_TEST

/* In a state of torch's, each group must have its lr, even if there are more than nine groups. */
START_TEST(test_groups_of_torchs) {
    enum { ALL = 12 };
    RG_SCOPE();
    rg_optim *o = NULL;
    for (int i = 0; i < ALL; i++) {
        rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
        if (i == 0)
            o = rg_optim_sgd(RG_LIST(w), .lr = 0.5);
        else
            ck_ok(rg_optim_add_group(o, RG_LIST(w), .lr = 0.5 / i));
    }
    const rg_named_list d = rg_optim_state_dict(o);
    rg_named *v = malloc((size_t)d.n * sizeof *v);
    char(*names)[48] = malloc((size_t)d.n * sizeof *names);
    for (int i = 0; i < d.n; i++) {
        v[i] = d.v[i];
        snprintf(names[i], sizeof *names, "%s.0", d.v[i].name);
        if (strstr(d.v[i].name, ".params"))
            v[i].name = names[i];
    }
    ck_ok(rg_optim_load_state_dict(o, (rg_named_list){ d.n, v }));
    for (int i = 0; i < d.n; i++) {
        if (!strstr(d.v[i].name, ".lr"))
            continue;
        const rg_named last = v[d.n - 1], was = v[i];
        v[i] = last;
        ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ d.n - 1, v }), RG_RUNTIME_ERROR,
                 was.name);
        v[i] = was;
    }
    free(names);
    free(v);
    rg_optim_free(o);
}
END_TEST

/* A state of torch's lists the parameters of each group. It may have been saved before there was a
 * schedule. Then it lacks what schedules write into a group, and the group's values stay. In a
 * state of regard's, these keys must be there. */
START_TEST(test_states_before_a_schedule) {
    static const char *const of_schedules[] = { "initial_lr", "max_lr", "min_lr", "max_momentum",
                                                "base_momentum" };
    for (int which = 0; which < (int)(sizeof of_schedules / sizeof *of_schedules); which++)
        for (int torchs = 0; torchs < 2; torchs++) {
            RG_SCOPE();
            rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
            rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 0.5, .momentum = 0.9);
            ck_ok(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5));
            const double before = rg_optim_group(o, 0)->initial_lr;
            rg_named v[MOST], own[MOST];
            const rg_named_list d = copy_of(rg_optim_state_dict(o), own);
            int n = 0;
            for (int i = 0; i < d.n; i++) {
                const char *option = strrchr(d.v[i].name, '.') + 1;
                if (strcmp(option, of_schedules[which]) == 0
                    || (torchs && strncmp(d.v[i].name, "schedules.", 10) == 0))
                    continue;
                v[n] = d.v[i];
                if (torchs && strcmp(option, "params") == 0)
                    v[n].name = "param_groups.0.params.0";
                n++;
            }
            ck_assert_int_lt(n, d.n);
            if (torchs)
                ck_ok(rg_optim_load_state_dict(o, (rg_named_list){ n, v }));
            else
                ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ n, v }), RG_RUNTIME_ERROR,
                         "Missing key(s) in state_dict: \"param_groups.0.");
            ck_assert(rg_optim_group(o, 0)->initial_lr == before);
            rg_optim_free(o);
        }
}
END_TEST

static bool has_name(rg_named_list dict, const char *name) {
    for (int i = 0; i < dict.n; i++)
        if (strcmp(dict.v[i].name, name) == 0)
            return true;
    return false;
}

enum { GROUPS = 40 };

/* Returns an optimizer of many groups, each with one parameter, and three schedules. */
static rg_optim *of_many_groups(rg_tensor *v[GROUPS], rg_schedule *s[3], double lr) {
    rg_optim *o = NULL;
    for (int i = 0; i < GROUPS; i++) {
        v[i] = rg_requires_grad_(rg_full(RG_DIMS(2), i + 0.5), true);
        if (i == 0)
            o = rg_optim_adamw(RG_LIST(v[0]), .lr = lr);
        else
            ck_ok(rg_optim_add_group(o, RG_LIST(v[i]), .lr = lr / (i + 1)));
    }
    s[0] = rg_optim_step_lr(o, .step_size = 2);
    s[1] = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3);
    s[2] = rg_optim_exponential_lr(o, .gamma = 0.5);
    ck_ok(s[0] && s[1] && s[2]);
    return o;
}

static void step_all(rg_optim *o, rg_tensor *v[GROUPS], rg_schedule *s[3]) {
    RG_SCOPE();
    for (int i = 0; i < GROUPS; i++)
        ck_ok(rg_set_grad(v[i], rg_add(rg_detach(v[i]), 1)));
    ck_ok(rg_optim_step(o));
    for (int k = 0; k < 3; k++)
        ck_ok(rg_schedule_step(s[k]));
}

/* The state has an entry for each group and each schedule, with the names that the header
 * describes. */
START_TEST(test_many_groups_and_schedules) {
    RG_SCOPE();
    rg_tensor *v[GROUPS], *w[GROUPS];
    rg_schedule *s[3], *t[3];
    rg_optim *o = of_many_groups(v, s, 0.1), *q = of_many_groups(w, t, 0.7);
    step_all(o, v, s);
    rg_named_list dict = rg_optim_state_dict(o);
    ck_assert(has_name(dict, "schedules.0.last_epoch") && has_name(dict, "schedules.2.last_epoch"));
    ck_assert(!has_name(dict, "schedules.3.last_epoch"));
    ck_assert(!has_name(dict, "schedules.0.T_cur") && !has_name(dict, "schedules.2.T_i"));
    int restarting = 0;
    for (int k = 0; k < 3; k++) {
        char name[32];
        snprintf(name, sizeof name, "schedules.%d.T_cur", k);
        restarting += has_name(dict, name);
    }
    ck_assert_int_eq(restarting, 1);
    ck_assert(has_name(dict, "schedules.1.T_cur") && has_name(dict, "schedules.1.T_i"));
    ck_assert(has_name(dict, "param_groups.39.lr") && has_name(dict, "param_groups.0.params"));
    ck_ok(rg_optim_load_state_dict(q, dict));
    for (int i = 0; i < GROUPS; i++)
        ck_ok(rg_set_data(w[i], rg_clone(rg_detach(v[i]))));
    for (int k = 0; k < 4; k++) {
        step_all(o, v, s);
        step_all(q, w, t);
    }
    for (int i = 0; i < GROUPS; i++)
        ck_assert(rg_equal(v[i], w[i]));
    ck_assert(same_states(rg_optim_state_dict(o), rg_optim_state_dict(q)));
    ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ 0, NULL }), RG_VALUE_ERROR,
             "a different number of parameter groups");
    ck_fails(rg_optim_load_state_dict(NULL, dict), RG_TYPE_ERROR, "load_state_dict: expected");
    ck_fails(rg_optim_load_state_dict(o, (rg_named_list){ 3, NULL }), RG_TYPE_ERROR,
             "load_state_dict: expected");
    ck_fails(rg_optim_state_dict(NULL).n >= 0, RG_TYPE_ERROR, "state_dict: expected");
    rg_optim_free(o);
    rg_optim_free(q);
}
END_TEST

/* Loads the optimizer's own state with one more entry. */
static bool loads_with(rg_optim *o, const char *name, rg_tensor *t) {
    RG_SCOPE();
    rg_named v[MOST];
    rg_named_list dict = copy_of(rg_optim_state_dict(o), v);
    ck_assert_int_lt(dict.n, MOST);
    v[dict.n++] = (rg_named){ name, t };
    return rg_optim_load_state_dict(o, dict);
}

/* Loading fails if a count, such as ns_steps, isn't a whole number. A float such as 4.0 is
 * accepted. */
START_TEST(test_counts_are_whole) {
    rg_tensor *w = rg_requires_grad_(rg_ones(2, 2), true);
    rg_optim *o = rg_optim_muon(RG_LIST(w));
    rg_named v[MOST];
    rg_named_list dict = copy_of(rg_optim_state_dict(o), v);
    int at = 0;
    while (strcmp(v[at].name, "param_groups.0.ns_steps"))
        at++;
    v[at].tensor = rg_scalar(4.5);
    ck_fails(rg_optim_load_state_dict(o, dict), RG_RUNTIME_ERROR,
             "\"param_groups.0.ns_steps\" in state_dict is no whole number");
    ck_assert_double_eq(rg_optim_group(o, 0)->ns_steps, 5);
    v[at].tensor = rg_scalar(4.0);
    ck_ok(rg_optim_load_state_dict(o, dict));
    ck_assert_double_eq(rg_optim_group(o, 0)->ns_steps, 4);
    rg_optim_free(o);
}
END_TEST

/* Options that only torch has in a group are ignored. Their whole names must match. */
START_TEST(test_names_in_groups) {
    RG_SCOPE();
    learner l = new_learner(RG_ADAM, 0.1);
    ck_ok(loads_with(l.o, "param_groups.0.foreach", rg_ones(1)));
    ck_ok(loads_with(l.o, "param_groups.1.capturable", rg_ones(1)));
    ck_ok(loads_with(l.o, "param_groups.1.maximise", RG_NONE));
    static const char *const odd[] = { "Param_groups.0.foreach",  "param_groups.1234567890.fused",
                                       "param_groups.0:.foreach", "param_groups./.foreach",
                                       "param_groups..foreach",   "param_groups.0_foreach",
                                       "param_groups.0.foreach_", "foreach" };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char said[100];
        snprintf(said, sizeof said, "Adam: Unexpected key(s) in state_dict: \"%s\".", odd[i]);
        ck_fails(loads_with(l.o, odd[i], rg_ones(1)), RG_RUNTIME_ERROR, said);
    }
    ck_fails(loads_with(l.o, "param_groups.2.params.0", rg_zeros(1)), RG_VALUE_ERROR,
             "a different number of parameter groups");
    ck_fails(loads_with(l.o, "param_groups.70.params.0", rg_zeros(1)), RG_VALUE_ERROR,
             "a different number of parameter groups");
    ck_fails(loads_with(l.o, NULL, rg_ones(1)), RG_TYPE_ERROR,
             "load_state_dict: expected a name but got NULL");
    ck_fails(loads_with(l.o, "param_groups.0.lr", NULL), RG_TYPE_ERROR,
             "load_state_dict: expected a tensor but got NULL");
    rg_optim_free(l.o);
}
END_TEST

static rg_tensor *half_of_squares(void *parameters) {
    const rg_list *l = parameters;
    rg_tensor *loss = rg_scalar(0.);
    for (int i = 0; i < l->n; i++) {
        rg_set_grad(l->v[i], RG_NONE);
        loss = rg_add(loss, rg_sum(rg_square(l->v[i])));
    }
    return rg_backward(rg_div(loss, 2)) ? loss : NULL;
}

/* Asserts that a checkpoint whose model can't be loaded doesn't load its optimizer, either. */
static void fail_checkpoint(rg_optim_kind kind) {
    RG_SCOPE();
    scratch_begin();
    void *m = rg_nn_bce_with_logits_loss(.weight = rg_ones(2)), *layer = rg_nn_linear(2, 2);
    rg_module *s = (rg_module *)rg_nn_sequential(layer, m);
    rg_list all = rg_parameters(s);
    rg_param_group with = RG_PARAM_GROUP_(.lr = 0.25);
    if (kind == RG_LBFGS)
        with.max_iter = 4;
    rg_optim *o = rg_optim_with(kind, all, with);
    const rg_training run = { .model = s, .optim = o };
    ck_ok(rg_optim_step_closure(o, half_of_squares, &all));
    ck_ok(rg_save_checkpoint(scratch("c"), run));
    ck_ok(rg_optim_step_closure(o, half_of_squares, &all));
    rg_optim_group(o, 0)->lr = 0.5;
    {
        RG_INFERENCE_MODE();
        rg_loss_module *loss = m;
        ck_ok(rg_register_buffer(m, "weight", &loss->weight, rg_ones(2),
                                 (rg_buffer_options){ .persistent = true }));
    }
    rg_named v[MOST];
    const rg_named_list before = copy_of(rg_optim_state_dict(o), v);
    ck_fails(rg_load_checkpoint(scratch("c"), run), RG_RUNTIME_ERROR,
             "Inplace update to inference tensor");
    ck_assert(has_state(o, before));
    rg_optim_free(o);
    rg_module_free(s);
    scratch_end();
}

START_TEST(test_a_checkpoint_that_fails) {
    fail_checkpoint(RG_ADAM);
    fail_checkpoint(RG_LBFGS);
}
END_TEST

/* Each option has a row in rgi_options, with the option's name, its kind, and its offset in an
 * array of doubles. */
START_TEST(test_options_have_rows) {
    for (int k = 0; k < RG_OPTION_COUNT; k++) {
        ck_assert_msg(rgi_options[k].name, "nn/optim/optimizer.c: option %d has no row", k);
        ck_assert_uint_eq(rgi_options[k].offset, (size_t)k * sizeof(double));
        const char *dot = strchr(rgi_options[k].name, '.');
        const bool first = rgi_options[k].kind == RG_SAVED_PAIR
                           || rgi_options[k].kind == RG_SAVED_TRIPLE;
        ck_assert(dot ? first == (dot[1] == '0') : rgi_options[k].kind != RG_SAVED_BEHIND);
    }
}
END_TEST

/* As in torch, Adagrad has its state before the first step. A state that is loaded replaces the one
 * that initial_accumulator_value made. */
START_TEST(test_a_state_before_the_first_step) {
    rg_tensor *w = rg_requires_grad_(rg_ones(1), true);
    rg_optim *from = rg_optim_adagrad(RG_LIST(w), .lr = 0.1, .initial_accumulator_value = 0.3);
    rg_optim *to = rg_optim_adagrad(RG_LIST(w), .lr = 0.1, .initial_accumulator_value = 2);
    ck_ok(rg_optim_load_state_dict(to, rg_optim_state_dict(from)));
    ck_ok(rg_set_grad(w, rg_ones(1)) && rg_optim_step(to));
    ck_assert(fabs(rg_item(w) - 0.912294) < 1e-6);
    rg_optim_free(from);
    rg_optim_free(to);
}
END_TEST

static void sets_momentum(rg_param_group *g) { g->momentum = 0.5; }
static void sets_centered(rg_param_group *g) { g->centered = 1; }
static void sets_amsgrad(rg_param_group *g) { g->amsgrad = 1; }

/* The program sets an option and saves the optimizer's state before the next step. The saved state
 * then has the tensors that the option needs: it can be loaded, and the next step is the same. */
START_TEST(test_states_of_a_new_option) {
    static const struct {
        rg_optim_kind kind;
        void (*set)(rg_param_group *g);
    } options[] = { { RG_SGD, sets_momentum },
                    { RG_RMSPROP, sets_momentum },
                    { RG_RMSPROP, sets_centered },
                    { RG_ADAM, sets_amsgrad },
                    { RG_ADAMW, sets_amsgrad } };
    for (int i = 0; i < RG_COUNT(options); i++) {
        rg_tensor *w[2];
        rg_optim *o[2];
        for (int k = 0; k < 2; k++) {
            w[k] = rg_requires_grad_(rg_ones(2), true);
            o[k] = rg_optim_with(options[i].kind, RG_LIST(w[k]), RG_PARAM_GROUP_(.lr = 0.1));
            ck_ok(rg_set_grad(w[k], rg_full(RG_DIMS(2), 0.5)) && rg_optim_step(o[k]));
        }
        options[i].set(rg_optim_group(o[0], 0));
        ck_ok(rg_optim_load_state_dict(o[1], rg_optim_state_dict(o[0])));
        for (int k = 0; k < 2; k++)
            ck_ok(rg_set_grad(w[k], rg_ones(2)) && rg_optim_step(o[k]));
        ck_assert_msg(rg_equal(w[0], w[1]), "option %d", i);
        rg_optim_free(o[0]);
        rg_optim_free(o[1]);
    }
}
END_TEST

/* A list that was made before a step has the tensors of now and the counts of then. It is refused
 * by optimizers that count their steps; clones are loaded. */
START_TEST(test_a_list_that_is_out_of_date) {
    for (int kind = 0; kind < RG_LBFGS; kind++) {
        RG_SCOPE();
        learner l = new_learner(kind, 0.1);
        step_learner(&l, 0.5);
        ck_ok(rg_optim_load_state_dict(l.o, rg_optim_state_dict(l.o)));
        const rg_named_list list = rg_optim_state_dict(l.o);
        rg_named clones[MOST];
        for (int i = 0; i < list.n; i++)
            clones[i] = (rg_named){ list.v[i].name, rg_clone(list.v[i].tensor) };
        step_learner(&l, 0.5);
        const bool counts = kind != RG_SGD && kind != RG_LION && kind != RG_MUON;
        if (counts)
            ck_fails(rg_optim_load_state_dict(l.o, list), RG_RUNTIME_ERROR,
                     "the optimizer's own tensors of state.1, which have changed since");
        ck_ok(rg_optim_load_state_dict(l.o, (rg_named_list){ list.n, clones }));
        ck_assert(same_states(rg_optim_state_dict(l.o), (rg_named_list){ list.n, clones }));
        rg_optim_free(l.o);
    }
}
END_TEST

static const rg_dtype default_dtypes[] = { RG_FLOAT32, RG_FLOAT64, RG_BFLOAT16, RG_FLOAT16 };

/* Makes 301 steps, the first ten of them with `dtype` as the default dtype. If `varied` is true,
 * each later step has another one, and the state is once loaded. */
static rg_optim *counted_steps(rg_optim_kind kind, rg_dtype dtype, bool varied) {
    rg_set_default_dtype(dtype);
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(2, 2), RG_FLOAT32), true);
    rg_optim *o = rg_optim_with(kind, RG_LIST(w), RG_PARAM_GROUP_(.lr = 0.1));
    for (int step = 0; step < 301; step++) {
        RG_SCOPE();
        if (varied && step > 9)
            rg_set_default_dtype(default_dtypes[step % RG_COUNT(default_dtypes)]);
        if (varied && step == 20)
            ck_ok(rg_optim_load_state_dict(o, rg_optim_state_dict(o)));
        ck_ok(rg_set_grad(w, rg_full_dims(RG_DIMS(2, 2), step % 7, RG_FLOAT32)));
        ck_ok(rg_optim_step(o));
    }
    return o;
}

/* Checks that the numbers in the state have this dtype, and returns how many there are. */
static int check_counts(rg_named_list state, rg_dtype dtype) {
    int seen = 0;
    for (int i = 0; i < state.n; i++) {
        const bool step = strcmp(state.v[i].name, "state.0.step") == 0;
        if (!step && strcmp(state.v[i].name, "state.0.mu_product") != 0)
            continue;
        ck_assert(!step || rg_item(state.v[i].tensor) == 301);
        ck_assert_int_eq(rg_dtype_of(state.v[i].tensor), dtype);
        seen++;
    }
    return seen;
}

/* The numbers of a parameter's state are float64 if that is the default dtype when they are made,
 * and otherwise float32. Another default dtype in later steps, one of 16 bits for example, and a
 * load change neither these dtypes nor the numbers. */
START_TEST(test_dtype_of_counts) {
    const rg_dtype before = rg_default_dtype();
    int seen = 0;
    for (int kind = 0; kind < RG_LBFGS; kind++)
        for (int d = 0; d < RG_COUNT(default_dtypes); d++) {
            RG_SCOPE();
            const rg_dtype dtype = default_dtypes[d] == RG_FLOAT64 ? RG_FLOAT64 : RG_FLOAT32;
            rg_optim *o = counted_steps((rg_optim_kind)kind, default_dtypes[d], false);
            rg_optim *varied = counted_steps((rg_optim_kind)kind, default_dtypes[d], true);
            const rg_named_list state = rg_optim_state_dict(varied);
            ck_assert(same_states(rg_optim_state_dict(o), state));
            seen += check_counts(state, dtype);
            rg_optim_free(o);
            rg_optim_free(varied);
        }
    ck_assert_int_ge(seen, 7 * RG_COUNT(default_dtypes));
    rg_set_default_dtype(before);
}
END_TEST

RG_TESTS(optim_state, test_a_list_that_is_out_of_date, test_dtype_of_counts,
         test_a_state_before_the_first_step, test_states_of_a_new_option, test_options_have_rows,
         test_groups_of_torchs, test_states_before_a_schedule, test_counts_are_whole,
         test_every_key_is_loaded, test_no_key_is_missed, test_states_of_an_option,
         test_fresh_into_stepped, test_many_groups_and_schedules, test_names_in_groups,
         test_a_checkpoint_that_fails)

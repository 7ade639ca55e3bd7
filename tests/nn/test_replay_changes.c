/*
 * test_replay_changes.c: tests runs of recorded steps between which the program changes gradients
 * and data. Each run must do what a call of the step would do, or fail before it has changed
 * anything.
 */
#include "nn/optim/optim.h"
#include "tensor/base.h"
#include "tests/test.h"

#include <string.h>

/* ---- what the step and the program have ------------------------------------------------ */

typedef struct {
    rg_tensor *p, *q, *input, *outside;
    rg_optim *optim;
} things;

static rg_tensor *loss_of(things *t) {
    rg_tensor *y = rg_add(rg_square(t->p), rg_mul(rg_mul(t->q, t->input), 3.0));
    return rg_sum(rg_mul(y, t->q));
}

static void accumulates(void *t) {
    rg_backward(loss_of(t));
    rg_optim_step(((things *)t)->optim);
}
static void clears_first(void *t) {
    rg_optim_zero_grad(((things *)t)->optim);
    accumulates(t);
}
static void clears_last(void *t) {
    accumulates(t);
    rg_optim_zero_grad(((things *)t)->optim);
}
static void goes_back_twice(void *t) {
    rg_backward(loss_of(t));
    accumulates(t);
}
static void clips(void *context) {
    things *t = context;
    rg_backward(loss_of(t));
    rg_clip_grad_norm_(RG_LIST(t->p, t->q), 0.5);
    rg_optim_step(t->optim);
}
static void clips_first(void *context) {
    things *t = context;
    rg_clip_grad_norm_(RG_LIST(t->p, t->q), 0.5);
    accumulates(t);
}
static void clips_p(void *context) {
    things *t = context;
    rg_backward(loss_of(t));
    rg_mul_(rg_grad_of(t->p), 0.5);
    rg_optim_step(t->optim);
}

static void steps_first(void *context) {
    things *t = context;
    rg_optim_step(t->optim);
    rg_optim_zero_grad(t->optim);
    rg_backward(loss_of(t));
}
static void reads_detached(void *context) {
    things *t = context;
    rg_optim_zero_grad(t->optim);
    rg_backward(rg_sum(rg_mul(rg_mul(t->p, t->q), rg_exp(rg_detach(t->input)))));
    rg_optim_step(t->optim);
}

static void (*const steps[])(void *) = { accumulates, clears_first,   clears_last,
                                         clips,       clips_first,    clips_p,
                                         steps_first, reads_detached, goes_back_twice };

/* ---- what the program does between two runs ---------------------------------------------- */

static void nothing(things *t) { (void)t; }
static void clear_p(things *t) { rg_set_grad(t->p, RG_NONE); }
static void clear_q(things *t) { rg_set_grad(t->q, RG_NONE); }
static void set_new(things *t) { rg_set_grad(t->p, rg_full(RG_DIMS(2, 3), 2.0)); }
static void set_and_drop(things *t) {
    RG_SCOPE();
    set_new(t);
}
static void set_outside(things *t) { rg_set_grad(t->p, t->outside); }
static void set_outside_twice(things *t) {
    rg_set_grad(t->p, t->outside);
    rg_set_grad(t->q, t->outside);
}
static void set_view(things *t) {
    rg_set_grad(t->p, rg_select(rg_expand(rg_reshape(t->outside, 1, 2, 3), 1, 2, 3), 0, 0));
}
static void set_transposed(things *t) { rg_set_grad(t->p, rg_T(rg_full(RG_DIMS(3, 2), 2.0))); }
static void set_expanded(things *t) { rg_set_grad(t->p, rg_expand(rg_ones(1), 2, 3)); }
static void set_as_q(things *t) {
    if (rg_grad_of(t->q) != RG_NONE)
        rg_set_grad(t->p, rg_grad_of(t->q));
}
static void take_from_q(things *t) {
    set_as_q(t);
    clear_q(t);
}
static void set_own(things *t) {
    if (rg_grad_of(t->p) != RG_NONE)
        rg_set_grad(t->p, rg_grad_of(t->p));
}
static void set_own_again(things *t) {
    rg_tensor *own = rg_grad_of(t->p);
    clear_p(t);
    if (own != RG_NONE)
        rg_set_grad(t->p, own);
}
static void set_detached(things *t) {
    if (rg_grad_of(t->p) != RG_NONE)
        rg_set_grad(t->p, rg_detach(rg_grad_of(t->p)));
}
static void set_parameter(things *t) { rg_set_grad(t->p, rg_detach(t->q)); }
static void set_input(things *t) { rg_set_grad(t->p, t->input); }
static void zero(things *t) {
    if (rg_grad_of(t->p) != RG_NONE)
        rg_zero_(rg_grad_of(t->p));
}
static void scale(things *t) {
    if (rg_grad_of(t->p) != RG_NONE)
        rg_mul_(rg_grad_of(t->p), 0.25);
}
static void other_data(things *t) {
    if (rg_grad_of(t->p) != RG_NONE)
        rg_set_data(rg_grad_of(t->p), rg_full(RG_DIMS(2, 3), 2.0));
}
static void transposed_data(things *t) {
    if (rg_grad_of(t->p) != RG_NONE)
        rg_set_data(rg_grad_of(t->p), rg_T(rg_full(RG_DIMS(3, 2), 2.0)));
}
static void other_leaf_data(things *t) { rg_set_data(t->p, rg_T(rg_full(RG_DIMS(3, 2), 2.0))); }
static void other_input(things *t) { rg_set_data(t->input, rg_full(RG_DIMS(2, 3), 0.5)); }
static void input_from_gradient(things *t) {
    if (rg_grad_of(t->q) != RG_NONE)
        rg_set_data(t->input, rg_grad_of(t->q));
}
static void input_from_lost_gradient(things *t) {
    input_from_gradient(t);
    clear_q(t);
}
static void data_from_gradient(things *t) {
    if (rg_grad_of(t->q) != RG_NONE)
        rg_set_data(t->p, rg_grad_of(t->q));
}
static void own_backward(things *t) { rg_backward(loss_of(t)); }
static void refused_shape(things *t) {
    rg_set_grad(t->p, rg_ones(3, 2));
    rg_error_clear();
}
static void refused_dtype(things *t) {
    rg_set_grad(t->p, rg_to(rg_ones(2, 3), RG_FLOAT64));
    rg_error_clear();
}

typedef struct {
    const char *name;
    void (*call)(things *t);
} change;
#define CHANGE(f) \
    { #f, f }
static const change changes[] = {
    CHANGE(nothing),
    CHANGE(clear_p),
    CHANGE(clear_q),
    CHANGE(set_new),
    CHANGE(set_and_drop),
    CHANGE(set_outside),
    CHANGE(set_view),
    CHANGE(set_transposed),
    CHANGE(set_outside_twice),
    CHANGE(set_expanded),
    CHANGE(set_as_q),
    CHANGE(take_from_q),
    CHANGE(set_own),
    CHANGE(set_own_again),
    CHANGE(set_detached),
    CHANGE(set_parameter),
    CHANGE(set_input),
    CHANGE(zero),
    CHANGE(scale),
    CHANGE(other_data),
    CHANGE(transposed_data),
    CHANGE(other_leaf_data),
    CHANGE(own_backward),
    CHANGE(refused_shape),
    CHANGE(refused_dtype),
    CHANGE(other_input),
    CHANGE(input_from_gradient),
    CHANGE(data_from_gradient),
    CHANGE(input_from_lost_gradient),
};

/* ---- the comparison ------------------------------------------------------------------------ */

enum { ELEMENTS = 6, SEEN = 6, RUNS = 4 };

/* The elements of all tensors that the program can see, with -1e30 for an absent gradient. */
typedef struct {
    float v[SEEN][ELEMENTS];
} picture;

static void see(float *to, rg_tensor *t) {
    for (int i = 0; i < ELEMENTS; i++)
        to[i] = t == RG_NONE ? -1e30F : ((float *)rg_data(rg_contiguous(rg_detach(t))))[i];
}

static picture picture_of(things *t) {
    picture s;
    RG_SCOPE();
    rg_tensor *seen[SEEN] = {
        t->p, t->q, rg_grad_of(t->p), rg_grad_of(t->q), t->input, t->outside
    };
    for (int i = 0; i < SEEN; i++)
        see(s.v[i], seen[i]);
    return s;
}

static bool equal(const picture *a, const picture *b) { return memcmp(a, b, sizeof *a) == 0; }

static things begin(bool given) {
    rg_manual_seed(7);
    things t = { .p = rg_requires_grad_(rg_randn(2, 3), true),
                 .q = rg_requires_grad_(rg_randn(2, 3), true),
                 .input = rg_randn(2, 3),
                 .outside = rg_randn(2, 3) };
    t.optim = rg_optim_sgd(RG_LIST(t.p, t.q), .lr = 0.01);
    if (given)
        rg_set_grad(t.p, t.outside);
    return t;
}

/* Makes the change that comes before this run: `first` before run 1, and `second` before run 2.
 * Before run 3, all gradients are cleared. */
static void change_before(int run, things *t, const change *first, const change *second) {
    if (run == 1)
        first->call(t);
    else if (run == 2)
        second->call(t);
    else if (run == 3)
        rg_optim_zero_grad(t->optim);
}

/* Calls the step RUNS times, with the two changes in between. Then does the same with runs of a
 * recording. Asserts that each run has the results of the call or, if it fails, has changed
 * nothing. Returns false if a run failed. */
static bool runs_as_called(int step, bool given, const change *first, const change *second) {
    RG_SCOPE();
    picture called[RUNS];
    things t = begin(given);
    for (int i = 0; i < RUNS; i++) {
        change_before(i, &t, first, second);
        steps[step](&t);
        called[i] = picture_of(&t);
        ck_assert_msg(rg_error_code() == RG_OK, "%s: %s", first->name, rg_error());
    }
    rg_optim_free(t.optim);
    t = begin(given);
    rg_replay *r = rg_record(steps[step], &t);
    ck_ok(r);
    bool ok = true;
    for (int i = 1; i < RUNS && ok; i++) {
        change_before(i, &t, first, second);
        const picture before = picture_of(&t);
        ok = rg_replay_run(r);
        const picture after = picture_of(&t);
        ck_assert_msg(equal(&after, ok ? &called[i] : &before), "step %d%s, %s, %s: run %d %s",
                      step, given ? ", given" : "", first->name, second->name, i,
                      ok ? "isn't as the call" : "has failed too late");
        ck_assert_msg(ok || strstr(rg_error(), "record the step again"), "%s", rg_error());
        rg_error_clear();
    }
    rg_replay_free(r);
    rg_optim_free(t.optim);
    return ok;
}

static void no_warning(const char *line) { (void)line; }

/* ---- data and gradients that are results of the step ---------------------------------------- */

enum { WIDE = 40 };

/* Each function computes a matrix of a matrix v of its shape. */
static rg_tensor *by_matmul(rg_tensor *v) { return rg_matmul(v, v); }
static rg_tensor *by_flip(rg_tensor *v) { return rg_flip(v, 0); }
static rg_tensor *by_roll(rg_tensor *v) { return rg_roll(v, 3, 0); }
static rg_tensor *by_transpose(rg_tensor *v) { return rg_contiguous(rg_T(v)); }
static rg_tensor *by_tanh(rg_tensor *v) { return rg_tanh(v); }
static rg_tensor *by_detach(rg_tensor *v) { return rg_exp(rg_detach(v)); }
static rg_tensor *(*const functions[])(rg_tensor *v) = { by_matmul,    by_flip, by_roll,
                                                         by_transpose, by_tanh, by_detach };

typedef struct {
    rg_tensor *(*function)(rg_tensor *v);
    rg_tensor *v, *y;
} result_step;

static void keeps_result(void *context) {
    result_step *s = context;
    s->y = rg_keep(s->function(s->v));
}

/* An input is given the data of the result, or the result the data of the input. A run would write
 * over the input while it reads it. */
START_TEST(test_data_of_a_result) {
    for (int i = 0; i < RG_COUNT(functions); i++)
        for (int turned = 0; turned < 2; turned++) {
            RG_SCOPE();
            result_step s = { functions[i], rg_randn(WIDE, WIDE), NULL };
            rg_replay *r = rg_record(keeps_result, &s);
            ck_ok(r);
            rg_tensor *before = rg_clone(s.v);
            ck_ok(turned ? rg_set_data(s.y, s.v) : rg_set_data(s.v, s.y));
            ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, "replay_run: a tensor has been given");
            ck_assert(!turned || rg_equal(s.v, before));
            rg_replay_free(r);
            rg_drop(s.y);
        }
}
END_TEST

/* A tensor of which the step reads only a detached alias is given other data. */
START_TEST(test_data_behind_detach) {
    result_step s = { by_detach, rg_zeros(2, 2), NULL };
    rg_replay *r = rg_record(keeps_result, &s);
    ck_ok(r);
    ck_ok(rg_set_data(s.v, rg_ones(2, 2)));
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
             "replay_run: a tensor has been given other data since the step was recorded, while");
    rg_replay_free(r);
    rg_drop(s.y);
}
END_TEST

/* The optimizer's parameter is given a result of the step as its gradient, or as its data. */
typedef struct {
    rg_tensor *x, *y, *u;
    rg_optim *optimizer;
} update;

static void updates(void *context) {
    update *s = context;
    s->y = rg_keep(rg_mul(s->x, 2));
    rg_optim_step(s->optimizer);
}

START_TEST(test_gradient_that_is_a_result) {
    for (int i = 0; i < 3; i++) {
        update s = { .x = rg_ones(2), .u = rg_requires_grad_(rg_zeros(2), true) };
        s.optimizer = rg_optim_sgd(RG_LIST(s.u), .lr = 1);
        rg_set_grad(s.u, rg_zeros(2));
        rg_replay *r = rg_record(updates, &s);
        ck_ok(r);
        if (i == 0)
            rg_set_grad(s.u, s.y);
        else if (i == 1)
            rg_set_data(s.u, s.y);
        else
            rg_set_grad(s.u, rg_clone(s.y));
        rg_mul_(s.x, 10);
        if (i < 2)
            ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
                     "replay_run: a tensor has been given a gradient or data that it shares");
        else
            ck_ok(rg_replay_run(r));
        ck_assert_double_eq(rg_at(s.u, 0), i == 0 ? 0 : i == 1 ? 2 : -2);
        rg_replay_free(r);
        rg_drop(s.y);
        rg_optim_free(s.optimizer);
    }
}
END_TEST

/* ---- changes of gradients ----------------------------------------------------------------- */

START_TEST(test_changed_gradients) {
    rg_on_warning(no_warning);
    int all = 0, whole = 0;
    for (int step = 0; step < RG_COUNT(steps); step++)
        for (int i = 0; i < RG_COUNT(changes); i++)
            for (int k = 0; k < RG_COUNT(changes); k++)
                for (int given = 0; given < 2; given++) {
                    all++;
                    whole += runs_as_called(step, given, &changes[i], &changes[k]);
                }
    /* Most refused runs find a gradient that shares memory, or one that was set though the step
     * reads gradients. */
    ck_assert_msg(3 * whole > all, "only %d of %d weren't refused", whole, all);
    rg_on_warning(NULL);
}
END_TEST

/* ---- histories ---------------------------------------------------------------------------- */

/* The state of a network that goes on from call to call. */
typedef struct {
    rg_tensor *w, *state;
    bool detaches, reads;
} network;

static void goes_on(void *context) {
    network *n = context;
    rg_set_grad(n->w, RG_NONE);
    rg_tensor *next = rg_tanh(n->reads ? rg_mul(n->w, rg_clone(n->state)) : rg_mul(n->w, 2));
    rg_copy_(n->state, n->detaches ? rg_detach(next) : next);
    rg_backward(rg_sum(next));
}

static rg_replay *record_network(network *n, bool detaches, bool reads) {
    *n = (network){ .detaches = detaches, .reads = reads };
    n->w = rg_requires_grad_(rg_full(RG_DIMS(3), 0.5), true);
    n->state = rg_ones(3);
    return rg_record(goes_on, n);
}

/* A step that reads a tensor and then gives it a history would read that history in its next call.
 * A step that doesn't read it writes over the history. */
START_TEST(test_history_of_a_state) {
    network n;
    ck_fails(record_network(&n, false, true), RG_RUNTIME_ERROR,
             "record: requires_grad of a tensor is false at the beginning of the step, and true");
    for (int detaches = 0; detaches < 2; detaches++) {
        rg_replay *r = record_network(&n, detaches, detaches);
        ck_ok(r);
        for (int i = 0; i < 3; i++)
            ck_ok(rg_replay_run(r));
        rg_replay_free(r);
    }
}
END_TEST

static void multiplies(void *context) {
    network *n = context;
    rg_set_grad(n->w, RG_NONE);
    rg_backward(rg_sum(rg_mul(rg_clone(n->state), n->w)));
}

/* An input that is written to between two runs, by a function that is recorded in the graph, would
 * pass its gradient on in a call of the step. */
START_TEST(test_history_of_an_input) {
    network n = { .w = rg_requires_grad_(rg_ones(3), true), .state = rg_zeros(3) };
    rg_tensor *encoder = rg_requires_grad_(rg_ones(3), true);
    rg_replay *r = rg_record(multiplies, &n);
    ck_ok(r);
    ck_ok(rg_replay_run(r));
    ck_ok(rg_copy_(n.state, rg_mul(encoder, 2)));
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
             "replay_run: requires_grad of a tensor has been changed");
    rg_replay_free(r);
    r = rg_record(multiplies, &n); /* with the history that the state has now */
    ck_ok(r);
    rg_detach_(n.state);
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
             "replay_run: requires_grad of a tensor has been changed");
    rg_replay_free(r);
}
END_TEST

static void only_step(void *optim) { rg_optim_step(optim); }

/* A run of a step fails, and changes nothing, if its optimizer has got another group. The
 * optimizer's step may be all that was recorded. */
START_TEST(test_another_group) {
    rg_tensor *w = rg_requires_grad_(rg_ones(3), true), *v = rg_requires_grad_(rg_ones(2), true);
    rg_set_grad(w, rg_ones(3));
    rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 0.5);
    rg_replay *r = rg_record(only_step, o);
    ck_ok(rg_replay_run(r) && rg_at(w, 0) == 0);
    ck_ok(rg_optim_add_group(o, RG_LIST(v)));
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, "has got another group of parameters since");
    ck_assert(rg_at(w, 0) == 0);
    rg_replay_free(r);
    rg_optim_free(o);
}
END_TEST

RG_TESTS(replay_changes, test_another_group, test_changed_gradients, test_data_of_a_result,
         test_data_behind_detach, test_gradient_that_is_a_result, test_history_of_a_state,
         test_history_of_an_input)

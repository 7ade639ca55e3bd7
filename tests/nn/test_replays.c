/*
 * test_replays.c: rg_replays keeps a recording for each shape of a step's inputs. When the shape
 * changes, it computes the same bits as the step itself.
 */
#include "nn/models/gpt.h"
#include "nn/optim/optim.h"
#include "nn/tools/vector.h"
#include "tensor/memory.h"
#include "tests/in_turn.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

static int64_t calls; /* The number of calls of the step itself. */

/* ---- training on texts of many lengths ----------------------------------------------- */

enum { LONGEST = 12, STEPS = 300 };
static int steps(void) { return rg_slow() ? 100 : STEPS; }

/* The order in which a step clears the gradients and steps the optimizer. */
typedef enum {
    ZERO_BACKWARD_STEP,
    STEP_ZERO_BACKWARD, /* The optimizer uses the gradients of the step before. */
    ADDED_UP,           /* The program clears them before every third text. */
} gradient_order;

typedef struct {
    rg_gpt *gpt;
    rg_optim *adam;
    rg_schedule *rates;
    gradient_order order;
} learner;

static learner new_learner(rg_dtype dtype, gradient_order order) {
    rg_manual_seed(3);
    learner l = { .order = order };
    l.gpt = rg_nn_gpt(.block_size = LONGEST, .vocab_size = 11, .n_layer = 1, .n_head = 2,
                      .n_embd = 8, .dropout = 0.1);
    rg_module_to(l.gpt, dtype);
    l.adam = rg_optim_adam(rg_parameters(l.gpt), .lr = 1e-2, .betas = { 0.85, 0.99 });
    l.rates = rg_optim_polynomial_lr(l.adam, .total_iters = STEPS);
    return l;
}

static void free_learner(learner *l) {
    rg_optim_free(l->adam);
    rg_module_free(l->gpt);
}

static rg_tensor *learn(rg_tensor *const in[], void *context) {
    learner *l = context;
    calls++;
    if (l->order == STEP_ZERO_BACKWARD && !rg_optim_step(l->adam))
        return NULL;
    rg_tensor *loss = rg_gpt_forward(l->gpt, in[0], in[1]).loss;
    if (l->order != ADDED_UP)
        rg_optim_zero_grad(l->adam);
    if (!rg_backward(loss))
        return NULL;
    rg_clip_grad_norm_(rg_parameters(l->gpt), 0.5);
    if (l->order != STEP_ZERO_BACKWARD && !rg_optim_step(l->adam))
        return NULL;
    return loss;
}

/* Returns the i-th text: one or two rows, of 1 to LONGEST tokens. */
static rg_tensor *text_of(int i) {
    int64_t rows = 1 + i % 7 / 5, length = 1 + i * 5 % LONGEST;
    rg_tensor *tokens = rg_remainder(rg_mul(rg_arange(rows * length), i + 3), 11);
    return rg_reshape(tokens, rows, length);
}

/* Trains by calling the step or, if `replayed`, by rg_replays_run. Fills losses[], and returns the
 * weights. */
static rg_tensor *train(rg_dtype dtype, gradient_order order, bool replayed, double losses[]) {
    learner l = new_learner(dtype, order);
    rg_replays *r = rg_replays_new(learn, &l);
    RG_FOR (int i = 0; i < steps(); i++) {
        rg_tensor *in[] = { text_of(i), rg_flip(text_of(i), 1) };
        if (order == ADDED_UP && i % 3 == 0)
            rg_optim_zero_grad(l.adam);
        rg_tensor *loss = replayed ? rg_replays_run(r, 2, in) : learn(in, &l);
        ck_ok(loss);
        losses[i] = rg_item(loss);
        rg_schedule_step(l.rates);
    }
    RG_NO_GRAD();
    rg_tensor *weights = rg_keep(rg_clone(rg_parameters_to_vector(rg_parameters(l.gpt))));
    rg_replays_free(r);
    free_learner(&l);
    return weights;
}

START_TEST(test_same_bits) {
    for (int i = 0; i < 6; i++) {
        rg_dtype dtype = i % 2 ? RG_FLOAT64 : RG_FLOAT32;
        double eager[STEPS], replayed[STEPS];
        rg_tensor *want = train(dtype, i / 2, false, eager);
        calls = 0;
        rg_tensor *got = train(dtype, i / 2, true, replayed);
        ck_assert_int_eq(calls, 2 * LONGEST);
        for (int k = 0; k < steps(); k++)
            ck_each(eager[k] == replayed[k], "order %d, step %d: %.17g and %.17g", i / 2, k,
                    eager[k], replayed[k]);
        ck_assert(rg_equal(want, got));
        rg_drop(want);
        rg_drop(got);
    }
}
END_TEST

/* ---- which inputs share a recording ---------------------------------------------------- */

static rg_tensor *sum_of_all(rg_tensor *const in[], void *context) {
    calls++;
    rg_tensor *y = rg_zeros_dims(RG_DIMS(0), RG_FLOAT64);
    for (int i = 0; i < *(int *)context; i++)
        if (in[i] != RG_NONE)
            y = rg_cat(RG_LIST(y, rg_double(rg_reshape(in[i], -1))), 0);
    return rg_sum(y);
}

static rg_tensor *numbers(rg_dtype dtype, rg_dims shape) {
    return rg_to(rg_rand_dims(shape, RG_FLOAT64, rg_default_generator()), dtype);
}

/* Every list of inputs differs from all others, and each is run twice. */
START_TEST(test_shapes) {
    rg_tensor *v[] = {
        rg_scalar(2.0),
        rg_scalar(3),
        numbers(RG_FLOAT64, RG_DIMS(1)),
        numbers(RG_FLOAT32, RG_DIMS(1)),
        numbers(RG_FLOAT32, RG_DIMS(0)),
        numbers(RG_FLOAT32, RG_DIMS(0, 3)),
        numbers(RG_FLOAT32, RG_DIMS(3, 0)),
        numbers(RG_FLOAT32, RG_DIMS(2, 3)),
        numbers(RG_FLOAT32, RG_DIMS(3, 2)),
        numbers(RG_FLOAT32, RG_DIMS(6)),
        numbers(RG_FLOAT32, RG_DIMS(1, 6)),
        numbers(RG_FLOAT32, RG_DIMS(1, 64)),
        numbers(RG_FLOAT32, RG_DIMS(64, 1)),
        numbers(RG_FLOAT32, RG_DIMS(63)),
        numbers(RG_FLOAT32, RG_DIMS(64)),
        numbers(RG_FLOAT32, RG_DIMS(65)),
        numbers(RG_FLOAT32, RG_DIMS(128)),
        numbers(RG_FLOAT32, RG_DIMS(129)),
        numbers(RG_FLOAT32, RG_DIMS(4097, 1)),
        numbers(RG_FLOAT32, RG_DIMS(1, 1, 1, 1, 1, 1, 1, 2)),
        rg_arange(6),
        rg_gt(numbers(RG_FLOAT32, RG_DIMS(6)), 0.5),
        numbers(RG_FLOAT32, RG_DIMS(5, 7)),
        rg_gt(numbers(RG_FLOAT32, RG_DIMS(2, 5, 7)), 0.5),
        RG_NONE,
    };
    const int n = RG_COUNT(v);
    int given;
    rg_replays *r = rg_replays_new(sum_of_all, &given);
    calls = 0;
    for (int turn = 0; turn < 2; turn++) {
        given = 0;
        ck_assert(rg_item(rg_replays_run(r, 0, NULL)) == 0);
        for (int i = 0; i < n; i++)
            for (int k = -1; k < n; k++) {
                RG_SCOPE();
                given = k < 0 ? 1 : 2;
                rg_tensor *in[] = { v[i], k < 0 ? NULL : v[k] };
                rg_tensor *got = rg_replays_run(r, given, in);
                const int64_t before = calls;
                rg_tensor *want = sum_of_all(in, &given);
                calls = before;
                ck_assert_msg(got && rg_equal(got, want), "%d and %d: %s", i, k, rg_error());
            }
        ck_assert_int_eq(calls, 1 + n * (n + 1));
    }
    rg_replays_free(r);
}
END_TEST

/* ---- what goes in, and what comes out ------------------------------------------------- */

static rg_tensor *twice_in_place(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul_(in[0], 2);
}

/* The step works on copies of its inputs, and the caller gets copies of the results. */
START_TEST(test_copies) {
    rg_replays *r = rg_replays_new(twice_in_place, NULL);
    rg_tensor *results[4], *all = rg_reshape(rg_arange(24), 4, 3, 2);
    for (int i = 0; i < 4; i++) {
        rg_tensor *in = rg_T(rg_select(all, 0, i));
        results[i] = rg_replays_run(r, 1, &in);
        ck_ok(results[i]);
        ck_assert(rg_is_contiguous(results[i]) && !rg_requires_grad(results[i]));
    }
    for (int i = 0; i < 4; i++)
        ck_assert(rg_equal(results[i], rg_mul(rg_T(rg_select(all, 0, i)), 2)));
    ck_assert(rg_equal(all, rg_reshape(rg_arange(24), 4, 3, 2)));
    rg_tensor *wide = rg_expand(rg_ones(1, 3), 2, 3);
    ck_assert(rg_equal(rg_replays_run(r, 1, &wide), rg_full(RG_DIMS(2, 3), 2.0)));
    rg_replays_free(r);
}
END_TEST

static rg_tensor *held;
static rg_tensor *adds_to_held(rg_tensor *const in[], void *context) {
    (void)context;
    rg_add_(held, in[0]);
    return RG_NONE;
}
static rg_tensor *returns_held(rg_tensor *const in[], void *context) {
    (void)context;
    rg_add_(held, in[0]);
    return held;
}

/* A step may return no result, or a tensor that it hasn't made. Results live on after the recording
 * is freed. */
START_TEST(test_results) {
    rg_tensor *one = rg_ones(3), *first;
    held = rg_keep(rg_zeros(3));
    rg_replays *r = rg_replays_new(adds_to_held, NULL);
    for (int i = 0; i < 3; i++)
        ck_assert(rg_replays_run(r, 1, &one) == RG_NONE);
    ck_assert(rg_equal(held, rg_full(RG_DIMS(3), 3.0)));
    rg_replays_free(r);
    r = rg_replays_new(returns_held, NULL);
    first = rg_replays_run(r, 1, &one);
    rg_tensor *second = rg_replays_run(r, 1, &one);
    rg_drop(held);
    rg_replays_free(r);
    ck_assert(rg_equal(first, rg_full(RG_DIMS(3), 4.0)));
    ck_assert(rg_equal(second, rg_full(RG_DIMS(3), 5.0)));
}
END_TEST

/* ---- failures ---------------------------------------------------------------------------- */

static rg_replays *running;

/* Does the thing with the number *context. Most of these things fail. */
static rg_tensor *fails(rg_tensor *const in[], void *context) {
    switch (*(int *)context) {
    case 1: return rg_matmul(in[0], rg_ones(7, 7));
    case 2: return rg_mul(in[0], rg_item(rg_sum(in[0])));
    case 3: return NULL;
    case 4: return rg_replays_run(running, 1, in);
    case 5: return rg_matmul(in[0], rg_ones(7, 7)) ? NULL : rg_mul(in[0], 2);
    default: return rg_embedding(rg_to(in[0], RG_INT64), rg_reshape(rg_arange(8), 4, 2));
    }
}

static void runs_inside(void *in) {
    rg_tensor *inputs[] = { in };
    rg_replays_run(running, 1, inputs);
}

START_TEST(test_refusals) {
    int what = 0;
    rg_tensor *in[65], *w = rg_requires_grad_(rg_ones(2), true), *view = rg_select(w, 0, 0);
    for (int i = 0; i < 65; i++)
        in[i] = rg_ones(3);
    ck_fails(rg_replays_new(NULL, NULL), RG_RUNTIME_ERROR, "replays_new: there is no step");
    ck_fails(rg_replays_run(NULL, 1, in), RG_TYPE_ERROR,
             "replays_run: expected recorded steps but got NULL");
    rg_replays *r = running = rg_replays_new(fails, &what);
    ck_fails(rg_replays_run(r, 65, in), RG_RUNTIME_ERROR,
             "replays_run: a step takes at most 64 inputs, and these are 65");
    ck_fails(rg_replays_run(r, -1, in), RG_TYPE_ERROR, "replays_run: expected a list but got");
    ck_fails(rg_replays_run(r, 1, NULL), RG_TYPE_ERROR, "replays_run: expected a list but got");
    ck_fails(rg_replays_run(r, 1, &w), RG_RUNTIME_ERROR, "replays_run: input 0 requires grad");
    ck_fails(rg_replays_run(r, 1, &view), RG_RUNTIME_ERROR, "replays_run: input 0 requires grad");
    rg_tensor *null = NULL;
    ck_fails(rg_replays_run(r, 1, &null), RG_TYPE_ERROR, "replays_run: expected a tensor but got");
    ck_fails(rg_replays_run(r, 1, (rg_tensor *[]){ rg_matmul(in[0], rg_ones(5)) }),
             RG_RUNTIME_ERROR, "matmul: ");
    ck_fails(rg_record(runs_inside, in[0]), RG_NOT_IMPLEMENTED,
             "replays_run: can't be part of a recorded step");

    static const struct {
        rg_code code;
        const char *said;
    } wrong[] = {
        { RG_RUNTIME_ERROR, "matmul: " },
        { RG_NOT_IMPLEMENTED, "item: can't be part of a recorded step" },
        { RG_TYPE_ERROR, "replays_run: the step returned NULL" },
        { RG_NOT_IMPLEMENTED, "replays_run: can't be part of a recorded step" },
        { RG_RUNTIME_ERROR, "matmul: " },
    };
    for (int i = 0; i < RG_COUNT(wrong); i++) {
        what = 1 + i;
        for (int turn = 0; turn < 2; turn++)
            ck_fails(rg_replays_run(r, 1, in), wrong[i].code, wrong[i].said);
    }
    /* The step is recorded as soon as it succeeds. A run that fails doesn't harm the next one. */
    what = 0;
    for (int i = 0; i < 3; i++) {
        rg_tensor *good = rg_full(RG_DIMS(3), (double)i), *bad = rg_full(RG_DIMS(3), 4.0);
        rg_tensor *y = rg_replays_run(r, 1, &good);
        ck_ok(y);
        ck_assert(rg_equal(y, rg_add(rg_mul(rg_expand(rg_arange(2), 3, 2), 1), 2 * i)));
        ck_fails(rg_replays_run(r, 1, &bad), RG_INDEX_ERROR, "index 4 is out of bounds");
    }
    rg_replays_free(r);
    rg_replays_free(NULL);
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

/* ---- when memory is denied --------------------------------------------------------------- */

static rg_tensor *doubled(rg_tensor *const in[], void *context) {
    rg_tensor *w = context;
    rg_set_grad(w, RG_NONE);
    rg_tensor *y = rg_sum(rg_mul(in[0], w));
    return rg_backward(y) ? y : NULL;
}

/* Runs steps of three shapes, twice each. */
static bool run_some(rg_replays *r) {
    bool ok = true;
    for (int i = 0; ok && i < 6; i++) {
        rg_tensor *in = rg_full(RG_DIMS(1 + i % 3), (double)i);
        rg_tensor *y = in ? rg_replays_run(r, 1, &in) : NULL;
        ok = y && rg_item(y) == 2.0 * i * (1 + i % 3);
    }
    return ok;
}

static bool makes_and_runs(void) {
    rg_tensor *w = rg_full(RG_DIMS(1), 2.0);
    rg_replays *r = w && rg_requires_grad_(w, true) ? rg_replays_new(doubled, w) : NULL;
    bool ok = r && run_some(r);
    rg_replays_free(r);
    return ok;
}

static rg_replays *kept;
static bool runs_kept(void) { return run_some(kept); }
static void runs_again(bool done) {
    (void)done;
    RG_SCOPE();
    ck_assert_msg(run_some(kept), "%s", rg_error());
}

/* Calls that fail leave no memory behind, and later runs succeed. */
START_TEST(test_denied) {
    ck_assert_int_gt(deny_in_turn(makes_and_runs, NULL), 20);
    rg_tensor *w = rg_requires_grad_(rg_full(RG_DIMS(1), 2.0), true);
    kept = rg_replays_new(doubled, w);
    ck_assert_int_gt(deny_in_turn(runs_kept, runs_again), 5);
    /* The first run with a second shape is denied each request in turn. The recording for the first
     * shape must go on working. */
    for (long fail = 1, done = 0; !done; fail++) {
        RG_SCOPE();
        rg_replays *r = rg_replays_new(doubled, w);
        rg_tensor *in[] = { rg_ones(4), rg_ones(5) };
        ck_ok(rg_replays_run(r, 1, in));
        rg_memory_fail_at(fail);
        done = rg_replays_run(r, 1, in + 1) != NULL;
        rg_memory_fail_at(0);
        ck_assert(done || rg_error_code() == RG_OUT_OF_MEMORY);
        rg_error_clear();
        for (int i = 0; i < 4; i++)
            ck_assert(rg_item(rg_replays_run(r, 1, in + i % 2)) == 2 * (4 + i % 2));
        rg_replays_free(r);
    }
    rg_replays_free(kept);
}
END_TEST

/* ---- gradients that are set or cleared after the step was recorded -------------------- */

/* Two weights and one optimizer of both. The step's backward reaches only the first weight. */
typedef struct {
    rg_tensor *p, *q;
    rg_optim *optim;
    int clip, zero;
} pair;

static void pair_step(void *context) {
    pair *s = context;
    if (s->zero == 1)
        rg_optim_zero_grad(s->optim);
    rg_backward(rg_sum(rg_square(s->p)));
    if (s->clip == 1)
        rg_clip_grad_norm_(RG_LIST(s->p, s->q), 0.5);
    if (s->clip == 2)
        rg_clip_grad_value_(RG_LIST(s->q), 0.5);
    rg_optim_step(s->optim);
    if (s->zero == 2)
        rg_optim_zero_grad(s->optim);
}

/* Before a repetition, gives the second weight a gradient or takes it away. */
static void change_gradient(pair *s, int how) {
    if (how == 0 && rg_requires_grad(s->q))
        rg_backward(rg_sum(rg_square(s->q)));
    if (how == 1)
        rg_set_grad(s->q, rg_full(RG_DIMS(2), 5.0));
    if (how == 2)
        rg_set_grad(s->q, RG_NONE);
    if (how == 3)
        rg_optim_zero_grad(s->optim);
}

/* Fills end[] with the weights and gradients after three steps. Returns false if a repetition was
 * refused, and then checks that the refused repetition changed nothing. */
static bool end_of_pair(bool replayed, bool there, bool frozen, int how, int clip, int zero,
                        rg_tensor *end[4]) {
    pair s = { rg_requires_grad_(rg_ones(2), true), rg_requires_grad_(rg_ones(2), true), NULL, clip,
               zero };
    s.optim = rg_optim_sgd(RG_LIST(s.p, s.q), .lr = 0.1, .momentum = 0.9);
    if (there)
        rg_set_grad(s.q, rg_ones(2));
    if (frozen)
        rg_requires_grad_(s.q, false);
    rg_replay *r = replayed ? rg_record(pair_step, &s) : NULL;
    if (!replayed)
        pair_step(&s);
    ck_assert_msg(!replayed || r, "%s", rg_error());
    bool same = true;
    for (int i = 0; same && i < 2; i++) {
        change_gradient(&s, how);
        rg_tensor *before = rg_clone(rg_detach(s.p));
        if (!replayed)
            pair_step(&s);
        else if (!rg_replay_run(r)) {
            same = false;
            ck_assert_msg(strstr(rg_error(), "a gradient that was "), "%s", rg_error());
            ck_assert(rg_equal(before, s.p));
            rg_error_clear();
        }
    }
    rg_tensor *now[] = { s.p, s.q, rg_grad_of(s.p), rg_grad_of(s.q) };
    for (int k = 0; k < 4; k++)
        end[k] = now[k] == RG_NONE ? RG_NONE : rg_clone(rg_detach(now[k]));
    rg_replay_free(r);
    rg_optim_free(s.optim);
    return same;
}

/* A repetition clears, clips and uses the gradients as a call of the step would, or is refused. */
START_TEST(test_gradients_that_come_and_go) {
    rg_on_warning(NULL);
    int same = 0, n = 0;
    for (int k = 0; k < 2 * 2 * 5 * 3 * 3; k++) {
        RG_SCOPE();
        const int there = k % 2, frozen = k / 2 % 2, how = k / 4 % 5, clip = k / 20 % 3;
        rg_tensor *called[4], *run[4];
        end_of_pair(false, there, frozen, how, clip, k / 60, called);
        n++;
        if (!end_of_pair(true, there, frozen, how, clip, k / 60, run))
            continue;
        same++;
        for (int i = 0; i < 4; i++)
            ck_assert_msg(
                run[i] == called[i]
                    || (run[i] != RG_NONE && called[i] != RG_NONE && rg_equal(run[i], called[i])),
                "there %d frozen %d how %d clip %d zero %d: tensor %d", there, frozen, how, clip,
                k / 60, i);
    }
    ck_assert_int_gt(same, n / 2);
}
END_TEST

/* One trunk with two heads, and one optimizer: the input's size says which head takes part. */
typedef struct {
    rg_tensor *trunk, *head[2];
    rg_optim *optim;
} tasks;

static tasks tasks_new(void) {
    tasks t = { .trunk = rg_requires_grad_(rg_ones(1), true) };
    for (int i = 0; i < 2; i++)
        t.head[i] = rg_requires_grad_(rg_ones(1), true);
    t.optim = rg_optim_sgd(RG_LIST(t.trunk, t.head[0], t.head[1]), .lr = 0.1);
    return t;
}

/* Frees the optimizer, and returns all weights. */
static rg_tensor *tasks_end(tasks *t) {
    rg_optim_free(t->optim);
    return rg_cat(RG_LIST(t->trunk, t->head[0], t->head[1]), 0);
}

static rg_tensor *task_step(rg_tensor *const in[], void *context) {
    tasks *t = context;
    rg_optim_zero_grad(t->optim);
    rg_tensor *head = t->head[rg_size(in[0], 0) - 1];
    rg_tensor *loss = rg_sum(rg_square(rg_mul(rg_mul(in[0], t->trunk), head)));
    if (!rg_backward(loss) || !rg_optim_step(t->optim))
        return NULL;
    return loss;
}

static rg_tensor *train_tasks(bool replayed) {
    tasks t = tasks_new();
    rg_replays *r = rg_replays_new(task_step, &t);
    for (int i = 0; i < 6; i++) {
        rg_tensor *x = rg_full(RG_DIMS(i % 2 + 1), 0.5);
        ck_ok(replayed ? rg_replays_run(r, 1, &x) : task_step(&x, &t));
    }
    rg_replays_free(r);
    return tasks_end(&t);
}

START_TEST(test_tasks_take_turns) { ck_assert(rg_equal(train_tasks(true), train_tasks(false))); }
END_TEST

/* ---- steps that are recorded or refused --------------------------------------------- */

static void detaches(void *x) {
    rg_tensor *h = rg_requires_grad_(rg_detach_(rg_mul(x, 2)), true);
    rg_backward(rg_sum(rg_square(h)));
    rg_copy_(x, rg_grad_of(h));
}

/* A step may make a leaf of its own. Each repetition begins with a new gradient. */
START_TEST(test_leaves_of_the_step) {
    rg_tensor *run = rg_ones(2), *called = rg_ones(2);
    rg_replay *r = rg_record(detaches, run);
    ck_assert_msg(r, "%s", rg_error());
    detaches(called);
    for (int i = 0; i < 3; i++) {
        ck_ok(rg_replay_run(r));
        detaches(called);
        ck_assert(rg_equal(run, called));
    }
    rg_replay_free(r);
}
END_TEST

static void normalizes(void *m) { rg_call((rg_module *)m, rg_ones(4, 3)); }

/* The error names the layer that reads a value, not a function that the layer calls. */
START_TEST(test_batch_norm_that_averages) {
    rg_batch_norm_module *m = rg_nn_batch_norm1d(3, .momentum = NAN);
    ck_fails(rg_record(normalizes, m), RG_NOT_IMPLEMENTED, "batch_norm: can't be part");
    rg_module_free(m);
}
END_TEST

/* ---- steps that are recorded again ------------------------------------------------------ */

/* Makes the change that comes before call i. rg_replay_run would then refuse the recording of the
 * previous call. */
static void change_task(tasks *t, int i) {
    if (i == 1 || i == 3)
        rg_requires_grad_(t->head[0], i == 3);
    if (i == 4)
        rg_set_data(t->trunk, rg_full(RG_DIMS(1), 0.7));
    if (i == 5)
        rg_set_data(t->head[0], rg_narrow(rg_full(RG_DIMS(2), 0.6), 0, 1, 1));
}

static rg_tensor *train_changing(bool replayed) {
    tasks t = tasks_new();
    rg_replays *r = rg_replays_new(task_step, &t);
    for (int i = 0; i < 7; i++) {
        rg_tensor *x = rg_full(RG_DIMS(1), 0.5);
        change_task(&t, i);
        ck_ok(replayed ? rg_replays_run(r, 1, &x) : task_step(&x, &t));
    }
    rg_replays_free(r);
    return tasks_end(&t);
}

START_TEST(test_recorded_again) {
    ck_assert(rg_equal(train_changing(true), train_changing(false)));
}
END_TEST

RG_TESTS(replays, test_same_bits, test_shapes, test_copies, test_results, test_refusals,
         test_denied, test_gradients_that_come_and_go, test_tasks_take_turns,
         test_leaves_of_the_step, test_batch_norm_that_averages, test_recorded_again)

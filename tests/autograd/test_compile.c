/*
 * test_compile.c: compiled steps of the samples of all ops, forward and backward, have the bits of
 * the recorded steps. tests/nn/test_compiled.c is about trainings.
 */
#include "derive.h"
#include "regard.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Compiled files go into a folder of the test. */
static void begin(void) {
    scratch_begin();
    setenv("XDG_CACHE_HOME", scratch(""), 1);
}

/* ---- every op ------------------------------------------------------------------------- */

/* A sample of an op. The step copies the outputs, and the gradients of the inputs, to `kept`, which
 * the first call of the step makes. */
typedef struct {
    const rg_op *op;
    const rg_sample *sample;
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    rg_tensor *kept[RG_MAX_INPUTS + RG_MAX_OUTPUTS];
    int n, n_kept;
} op_step;

enum { GROUP = 64 };
typedef struct {
    op_step steps[GROUP];
    int n;
} op_group;

static void keep(op_step *s, rg_tensor *t) {
    if (!s->kept[s->n_kept])
        s->kept[s->n_kept] = rg_keep(rg_clone(rg_detach(t)));
    else
        rg_copy_(s->kept[s->n_kept], rg_detach(t));
    s->n_kept++;
}

static void apply(op_step *s) {
    const rg_op *op = s->op;
    const void *attr = s->sample->attr;
    s->n_kept = 0;
    if (!rgi_apply_outputs(op, attr, attr ? op->attr_size : 0, s->n, s->in, s->out))
        return;
    keep(s, s->out[0]);
    if (!s->out[0]->history || !rgi_is_float(s->out[0]->dtype))
        return;
    rg_backward_with(s->out[0], (rg_backward_options){ .gradient = rg_ones_like(s->out[0]) });
    for (int i = 0; i < s->n; i++)
        if (s->in[i] != RG_NONE && rg_requires_grad(s->in[i]) && rg_grad_of(s->in[i]) != RG_NONE) {
            keep(s, rg_grad_of(s->in[i]));
            rg_set_grad(s->in[i], RG_NONE);
        }
}

static void step_of_op(void *context) { apply(context); }

static void step_of_group(void *context) {
    op_group *g = context;
    for (int i = 0; i < g->n; i++)
        apply(&g->steps[i]);
}

/* Moves the elements of each input by one place, so that a number that is a constant in the
 * compiled step, but shouldn't be, is found. */
static void change_inputs(op_group *g) {
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->steps[i].n; k++) {
            rg_tensor *t = g->steps[i].in[k];
            const size_t size = t == RG_NONE ? 0 : rgi_sizeof((rg_dtype)t->dtype);
            const size_t bytes = t == RG_NONE ? 0 : t->storage->bytes;
            if (bytes >= 2 * size && size)
                memmove(t->storage->data, t->storage->data + size, bytes - size);
        }
}

static void copy_results(op_group *g, rg_tensor *to[]) {
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->steps[i].n_kept; k++) {
            *to++ = rg_clone(g->steps[i].kept[k]);
            rg_fill_(g->steps[i].kept[k], 0);
        }
}

static void compare_results(op_group *g, rg_tensor *const wanted[]) {
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->steps[i].n_kept; k++, wanted++) {
            const rg_tensor *t = g->steps[i].kept[k];
            const size_t bytes = (size_t)t->numel * rgi_sizeof((rg_dtype)t->dtype);
            ck_assert_msg(memcmp(t->data, (*wanted)->data, bytes) == 0, "%s (%s): result %d",
                          g->steps[i].op->name, g->steps[i].sample->inputs, k);
        }
}

static void drop_results(op_step *s) {
    for (int k = 0; k < RG_COUNT(s->kept); k++)
        if (s->kept[k]) {
            rg_drop(s->kept[k]);
            s->kept[k] = NULL;
        }
}

/* Compiles the samples of a group as one step. Returns the number of samples. */
static int compile_group(op_group *g) {
    RG_SCOPE();
    const int n = g->n;
    rg_replay *r = rg_record(step_of_group, g);
    ck_ok(r);
    rg_tensor **wanted = rgi_scope_alloc(GROUP * RG_COUNT(g->steps[0].kept) * sizeof *wanted);
    ck_ok(rg_replay_compile(r));
    for (int turn = 0; turn < 2; turn++) {
        rg_replay *plain = rg_record(step_of_group, g);
        ck_ok(plain && rg_replay_run(plain));
        copy_results(g, wanted);
        ck_ok(rg_replay_run(r));
        compare_results(g, wanted);
        rg_replay_free(plain);
        change_inputs(g);
    }
    rg_replay_free(r);
    for (int i = 0; i < g->n; i++)
        drop_results(&g->steps[i]);
    g->n = 0;
    return n;
}

/* Adds a sample to the group, unless it can't be recorded, or not in memory of its own. */
static void add_sample(op_group *g, const rg_op *op, const rg_sample *sample, rg_dtype dtype) {
    op_step *s = &g->steps[g->n];
    *s = (op_step){ .op = op, .sample = sample };
    s->n = derive_inputs(sample->inputs, dtype, s->in);
    rg_replay *r = s->n < 0 ? NULL : rg_record(step_of_op, s);
    rg_error_clear();
    if (r)
        g->n++;
    else
        drop_results(s);
    rg_replay_free(r);
}

/* Compiles the samples of every op number 0, apart, 2 * apart, .. */
static void compile_samples(rg_dtype dtype, int apart) {
    static op_group g;
    int n = 0;
    begin();
    for (int i = 0; i < rgi_n_ops;) {
        RG_SCOPE();
        for (; i < rgi_n_ops && g.n < GROUP / 2; i += apart)
            for (const rg_sample *s = rgi_ops[i]->samples; s && s->inputs && g.n < GROUP; s++)
                add_sample(&g, rgi_ops[i], s, dtype);
        n += compile_group(&g);
    }
    printf("compile: %d samples of ops have the same bits in %s\n", n, rg_dtype_name(dtype));
    ck_assert_int_gt(n, 800 / apart / 2);
    scratch_end();
}

START_TEST(test_float32) { compile_samples(RG_FLOAT32, getenv("QUICK") ? 8 : 1); }
END_TEST

START_TEST(test_float64) { compile_samples(RG_FLOAT64, getenv("QUICK") ? 16 : 8); }
END_TEST

/* ---- what is refused ------------------------------------------------------------------ */

/* Puts a value that an op may refuse into the first element of an input. */
static void spoil(rg_tensor *t, double value) {
    if (t != RG_NONE && t->storage->bytes >= rgi_sizeof((rg_dtype)t->dtype))
        rgi_store_f64(rg_data(t), (rg_dtype)t->dtype, value);
}

static const double odd_values[] = { 1e6, -1e6, NAN };

/* Returns whether a compiled step of the sample refuses an odd value in input k, or computes it,
 * as the recorded step does. */
static bool refuses_alike(op_step *s, int k, double odd) {
    bool refused[2];
    for (int compiled = 0; compiled < 2; compiled++) {
        RG_SCOPE();
        s->n = derive_inputs(s->sample->inputs, RG_FLOAT32, s->in);
        rg_replay *r = rg_record(step_of_op, s);
        ck_ok(r && (!compiled || rg_replay_compile(r)));
        spoil(s->in[k], odd);
        refused[compiled] = !rg_replay_run(r);
        rg_error_clear();
        rg_replay_free(r);
        drop_results(s);
    }
    return refused[0] == refused[1];
}

/* The first sample of each op that takes whole numbers or whose name is that of a loss. */
START_TEST(test_odd_values) {
    begin();
    int wrong = 0;
    for (int i = 0; i < rgi_n_ops; i += getenv("QUICK") ? 4 : 1) {
        RG_SCOPE();
        op_step s = { .op = rgi_ops[i], .sample = rgi_ops[i]->samples };
        if (!s.sample || !s.sample->inputs || !s.op->forward)
            continue;
        s.n = derive_inputs(s.sample->inputs, RG_FLOAT32, s.in);
        rg_replay *r = s.n < 0 ? NULL : rg_record(step_of_op, &s);
        rg_error_clear();
        rg_replay_free(r);
        drop_results(&s);
        for (int k = 0; k < s.n && r; k++)
            for (int v = 0; v < RG_COUNT(odd_values); v++)
                if (!refuses_alike(&s, k, odd_values[v])) {
                    printf("%s(%s): %g in input %d isn't refused\n", s.op->name,
                           s.sample->inputs, odd_values[v], k);
                    wrong++;
                }
    }
    ck_assert_int_eq(wrong, 0);
    scratch_end();
}
END_TEST

/* A compiled step can be written as a C file, as if it hadn't been compiled. */
static void sgd_step(void *context) {
    rg_tensor **t = context;
    rg_set_grad(t[0], RG_NONE);
    rg_backward(rg_sum(rg_tanh(rg_matmul(t[1], t[0]))));
}

START_TEST(test_written) {
    begin();
    rg_tensor *t[] = { rg_requires_grad_(rg_full(RG_DIMS(3, 2), 0.25), true), rg_ones(4, 3) };
    rg_replay *r = rg_record(sgd_step, t);
    ck_ok(r && rg_replay_to_c(r, scratch("before.c"), .inputs = RG_LIST(t[1])));
    ck_ok(rg_replay_compile(r));
    ck_ok(rg_replay_to_c(r, scratch("after.c"), .inputs = RG_LIST(t[1])));
    ck_assert(same_files(scratch("before.c"), scratch("after.c")));
    ck_ok(rg_replay_run(r));
    rg_replay_free(r);
    scratch_end();
}
END_TEST

RG_TESTS(compile, test_float32, test_float64, test_odd_values, test_written)

/*
 * test_lower.c: recorded steps as lists of calls of loops. The calls of each op's samples, forward
 * and backward, must compute what the step computes, or the op must be refused by name.
 */
#include "autograd/replay/lower.h"
#include "derive.h"
#include "tests/test.h"

#include <stdio.h>

/* ---- every op -------------------------------------------------------------------------- */

typedef struct {
    const rg_op *op;
    const rg_sample *sample;
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    int n;
} op_step;

/* Applies the op, and makes a backward run with a gradient of ones. */
static void step_of_op(void *context) {
    op_step *s = context;
    const rg_op *op = s->op;
    if (!rgi_apply_outputs(op, s->sample->attr, s->sample->attr ? op->attr_size : 0, s->n, s->in,
                           s->out))
        return;
    if (!s->out[0]->history || !rgi_is_float(s->out[0]->dtype))
        return;
    rg_backward_with(s->out[0], (rg_backward_options){ .gradient = rg_ones_like(s->out[0]) });
    for (int i = 0; i < s->n; i++)
        if (s->in[i] != RG_NONE && rg_requires_grad(s->in[i]))
            rg_set_grad(s->in[i], RG_NONE);
}

/* Sets counts[0] or [1] up by one if the sample is lowered or refused. A sample that can't be
 * recorded counts as neither. */
static void lower_sample(const rg_op *op, const rg_sample *sample, int counts[2]) {
    RG_SCOPE();
    op_step s = { .op = op, .sample = sample };
    s.n = derive_inputs(sample->inputs, RG_FLOAT32, s.in);
    rg_replay *r = s.n < 0 ? NULL : rg_record(step_of_op, &s);
    if (!r) {
        rg_error_clear();
        return;
    }
    rg_lowered lowered;
    const bool ok = rgi_replay_lower(r, (rg_list){ 0 }, &lowered);
    counts[ok ? 0 : 1]++;
    if (ok)
        rgi_lowered_free(&lowered);
    else
        ck_assert_msg(rg_error_code() == RG_NOT_IMPLEMENTED, "%s: %s", op->name, rg_error());
    rg_error_clear();
    rg_replay_free(r);
}

START_TEST(test_every_op) {
    int counts[2] = { 0 };
    for (int i = 0; i < rgi_n_ops; i++)
        for (const rg_sample *s = rgi_ops[i]->samples; s && s->inputs; s++)
            lower_sample(rgi_ops[i], s, counts);
    printf("lower: %d samples of ops are lowered, %d are refused\n", counts[0], counts[1]);
    ck_assert_int_ge(counts[0], 840);
}
END_TEST

RG_TESTS(lower, test_every_op)

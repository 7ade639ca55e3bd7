/*
 * test_lower.c: recorded steps as lists of calls of loops. The calls of each op's samples, forward
 * and backward, must compute what the step computes, and there must be a text of their loops.
 */
#include "autograd/export/c_calls.h"
#include "autograd/export/c_loops.h"
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

/* Adds 1 to *count if the sample is lowered. A sample that can't be recorded doesn't count. */
static void lower_sample(const rg_op *op, const rg_sample *sample, rg_dtype dtype, int *count) {
    RG_SCOPE();
    op_step s = { .op = op, .sample = sample };
    s.n = derive_inputs(sample->inputs, dtype, s.in);
    rg_replay *r = s.n < 0 ? NULL : rg_record(step_of_op, &s);
    if (!r) {
        rg_error_clear();
        return;
    }
    rg_lowered lowered;
    rg_text text = { 0 };
    ck_assert_msg(rgi_replay_lower(r, (rg_list){ 0 }, &lowered), "%s of %s: %s", op->name,
                  sample->inputs, rg_error());
    ck_assert_msg(rgi_c_loops_add(&text, "step", &lowered.trace), "%s of %s: %s", op->name,
                  sample->inputs, rg_error());
    rgi_text_free(&text);
    rgi_lowered_free(&lowered);
    rg_replay_free(r);
    *count += 1;
}

START_TEST(test_every_op) {
    int count = 0;
    for (int i = 0; i < rgi_n_ops; i++)
        for (const rg_sample *s = rgi_ops[i]->samples; s && s->inputs; s++)
            for (int double_too = 0; double_too < 2; double_too++)
                lower_sample(rgi_ops[i], s, double_too ? RG_FLOAT64 : RG_FLOAT32, &count);
    printf("lower: %d samples of ops are lowered\n", count);
    ck_assert_int_ge(count, 2000);
}
END_TEST

RG_TESTS(lower, test_every_op)

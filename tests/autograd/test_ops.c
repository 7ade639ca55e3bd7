/*
 * test_ops.c: checks every op by its row and samples alone. It proves that these checks reject what
 * is wrong, too: each rule of each op is falsified in turn, and must be caught.
 */
#include "derive.h"
#include "tests/test.h"

#include <stdio.h>

/* Returns whether to check this sample of an op. Where a program is slow, second derivatives are
 * checked for the first three samples: the others differ in sizes, and derive_fused builds the same
 * graphs of them. */
static bool is_checked(const rg_op *op, const rg_sample *s, derive_check *check) {
    return check != derive_second_order || s - op->samples < 3 || !rg_slow();
}

/* Asserts that the check finds no fault in any sample of any op. */
static void check_every_op(const char *name, derive_check *check) {
    int faults = 0, samples = 0;
    derive_checks = 0;
    for (int i = 0; i < rgi_n_ops; i++)
        for (const rg_sample *s = rgi_ops[i]->samples; s && s->inputs; s++) {
            if (!is_checked(rgi_ops[i], s, check))
                continue;
            samples++;
            faults += check(rgi_ops[i], s);
        }
    printf("%s: %d ops, %d samples, %ld checks, %d faults\n", name, rgi_n_ops, samples,
           derive_checks, faults);
    ck_assert_int_eq(faults, 0);
}

#define EVERY_OP(name)                                                \
    START_TEST(test_##name) { check_every_op(#name, derive_##name); } \
    END_TEST
EVERY_OP(first_order)
EVERY_OP(second_order)
EVERY_OP(layouts)
EVERY_OP(float32)
EVERY_OP(fused)
EVERY_OP(null)
EVERY_OP(leaves_nothing)
EVERY_OP(only_results)
EVERY_OP(no_gradient)
EVERY_OP(inplace)
EVERY_OP(inner)
EVERY_OP(alone)
EVERY_OP(overlap)
EVERY_OP(written)
EVERY_OP(poked)
EVERY_OP(poked_replay)
EVERY_OP(out_of_memory)
EVERY_OP(withheld)

START_TEST(test_too_many_inputs) {
    static rg_tensor *in[RG_MAX_INPUTS + 1];
    char said[64];
    for (int i = 0; i <= RG_MAX_INPUTS; i++)
        in[i] = rg_ones(1);
    snprintf(said, sizeof said, "relu: at most %d tensors, but got %d", RG_MAX_INPUTS,
             RG_MAX_INPUTS + 1);
    ck_fails(rgi_apply(&rg_op_relu, NULL, 0, RG_MAX_INPUTS + 1, in), RG_RUNTIME_ERROR, said);
}
END_TEST

/* If an op has a fused derivative, a backward run uses it. */
START_TEST(test_fused_are_taken) {
    int taken = 0;
    for (int i = 0; i < rgi_n_ops; i++) {
        bool fused = !rgi_ops[i]->fused;
        for (const rg_sample *s = rgi_ops[i]->samples; s && s->inputs && !fused; s++)
            fused = derive_is_fused(rgi_ops[i], s);
        ck_assert_msg(fused, "%s: its fused derivative is in no sample taken", rgi_ops[i]->name);
        taken += rgi_ops[i]->fused != NULL;
    }
    ck_assert_int_gt(taken, 20);
}
END_TEST

/* Too few samples would let a mistake pass: each row needs a sample without elements, and one with
 * two dims or more. */
START_TEST(test_rows_are_complete) {
    int faults = 0;
    for (int i = 0; i < rgi_n_ops; i++) {
        const rg_op *op = rgi_ops[i];
        bool empty = false;
        int most = 0, dims = 0;
        for (const rg_sample *s = op->samples; s && s->inputs; s++) {
            rg_tensor *in[RG_MAX_INPUTS];
            int n = derive_inputs(s->inputs, RG_FLOAT64, in);
            for (int k = 0; k < n; k++) {
                empty |= in[k] != RG_NONE && in[k]->numel == 0;
                dims = RG_MAX(dims, in[k]->ndim);
            }
            if (s->attr && !op->attr_size)
                faults += printf("%s: samples with attributes, but no .attr_size\n", op->name);
            most++;
        }
        if (!op->doc)
            faults += printf("%s: no .doc\n", op->name);
        if (most < 2)
            faults += printf("%s: fewer than two samples\n", op->name);
        if (!empty)
            faults += printf("%s: no sample without elements\n", op->name);
        if (dims < 2)
            faults += printf("%s: no sample of two dims or more\n", op->name);
        if (!op->grad[0].rule && !op->no_grad) {
            rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS] = { NULL };
            const rg_sample *s = op->samples;
            int n = s ? derive_inputs(s->inputs, RG_FLOAT64, in) : 0;
            bool any_rule = false;
            for (int r = 0; r < RG_MAX_RULES; r++)
                any_rule |= op->grad[r].rule != NULL;
            if (n && !any_rule
                && rgi_apply_outputs(op, s->attr, s->attr ? op->attr_size : 0, n, in, out)
                && rgi_is_float(out[0]->dtype))
                faults += printf("%s: neither a rule nor a reason for having none\n", op->name);
        }
        if (!op->node && !op->node_of && op->grad[0].rule)
            faults += printf("%s: no name for grad_fn\n", op->name);
    }
    ck_assert_int_eq(faults, 0);
}
END_TEST

/* ---- planted faults --------------------------------------------------------------- */

typedef enum { FLIPPED_SIGN, FACTOR, OTHER_ELEMENTS, DETACHED, FUSED, FAULTS } planted;
static const char *const fault_names[FAULTS] = { "a flipped sign", "a factor of 1.001",
                                                 "other elements", "a wrong second derivative",
                                                 "a wrong fused derivative" };

static const rg_op *honest;
static int falsified; /* The rule of the input with this number is falsified. */
static planted lie;
static double largest; /* The largest magnitude that the honest rule gave. */

/* Reports that a falsified rule wasn't noticed, and returns 1. */
static int complain(void) {
    printf("%s, input %d: %s is not noticed\n", honest->name, falsified, fault_names[lie]);
    return 1;
}

static double magnitude(rg_tensor *t) {
    double most = 0;
    if (!t || t == RG_NONE)
        return 0;
    rg_tensor *c = rg_contiguous(rg_to(rg_detach(t), RG_FLOAT64));
    for (int64_t i = 0; c && i < c->numel; i++)
        most = RG_MAX(most, __builtin_fabs(((double *)c->data)[i]));
    return most;
}

/* Returns the neighbour of each element along the last dim that has several. A sum over a wrong
 * dim, or a wrong index, has such an effect. */
static rg_tensor *shifted(rg_tensor *t) {
    for (int d = t->ndim - 1; d >= 0; d--) {
        int64_t n = t->size[d];
        if (n > 1)
            return rg_cat(RG_LIST(rg_narrow(t, d, 1, n - 1), rg_narrow(t, d, 0, 1)), d);
    }
    return t;
}

static rg_tensor *lying_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *t = rgi_gradient_of(honest, s->input)->rule(s, g);
    if (s->input != falsified || !t || t == RG_NONE)
        return t;
    rg_tensor *moved = lie == OTHER_ELEMENTS ? rg_sub(t, shifted(t)) : t;
    largest = RG_MAX(largest, lie == DETACHED ? t->history != NULL : magnitude(moved));
    switch (lie) {
    case FLIPPED_SIGN: return rg_mul(t, -1);
    case FACTOR: return rg_mul(t, 1.001);
    case OTHER_ELEMENTS: return shifted(t);
    default: return rg_detach(t);
    }
}

/* These tests falsify rules to see whether the checks notice. Under a sanitizer or an emulator they
 * would take many minutes and find nothing more. */
START_TEST(test_falsified_rules_are_rejected) {
    int missed = 0, caught = 0, without = 0;
    if (rg_slow())
        return;
    derive_quiet = true;
    for (int i = 0; i < rgi_n_ops; i++) {
        honest = rgi_ops[i];
        for (falsified = 0; falsified < RG_MAX_RULES; falsified++) {
            if (!honest->grad[falsified].rule)
                continue;
            for (lie = 0; lie < DETACHED; lie++) {
                rg_op liar = *honest;
                liar.fused = NULL;
                for (int r = 0; r < RG_MAX_RULES; r++) {
                    liar.grad[r].into = NULL;
                    if (liar.grad[r].rule)
                        liar.grad[r].rule = lying_rule;
                }
                int faults = 0;
                largest = 0;
                for (const rg_sample *s = liar.samples; s && s->inputs && !faults; s++)
                    faults += derive_first_order(&liar, s);
                /* If the rule gives only zeros, it can't be falsified. */
                if (faults)
                    caught++;
                else if (largest == 0)
                    without++;
                else
                    missed += complain();
            }
        }
    }
    printf("%d falsified rules rejected, %d missed, %d that give zero\n", caught, missed, without);
    ck_assert_int_eq(missed, 0);
    ck_assert_int_gt(caught, 3 * 20);
}
END_TEST

/* A gradient that is cut off from the graph has no second derivative. An op that is linear in its
 * inputs has none anyway. */
START_TEST(test_wrong_second_derivatives_are_rejected) {
    int missed = 0, caught = 0;
    if (rg_slow())
        return;
    derive_quiet = true;
    lie = DETACHED;
    for (int i = 0; i < rgi_n_ops; i++) {
        honest = rgi_ops[i];
        for (falsified = 0; falsified < RG_MAX_RULES; falsified++) {
            if (!honest->grad[falsified].rule)
                continue;
            rg_op liar = *honest;
            for (int r = 0; r < RG_MAX_RULES; r++)
                if (liar.grad[r].rule)
                    liar.grad[r].rule = lying_rule;
            int faults = 0;
            largest = 0;
            for (const rg_sample *s = liar.samples; s && s->inputs && !faults; s++)
                faults += derive_second_order(&liar, s);
            if (faults)
                caught++;
            else if (largest)
                missed += complain();
        }
    }
    printf("%d wrong second derivatives rejected, %d missed\n", caught, missed);
    ck_assert_int_eq(missed, 0);
    ck_assert_int_gt(caught, 10);
}
END_TEST

static bool lying_fused(const rg_step *s, rg_tensor *gin[]) {
    if (!honest->fused(s, gin))
        return false;
    rg_tensor *scale = rg_wrap_float(1.001);
    if (gin[falsified]) {
        largest = RG_MAX(largest, magnitude(gin[falsified]));
        k_run(k_mul, gin[falsified], gin[falsified], rg_to(scale, gin[falsified]->dtype));
    }
    return true;
}

START_TEST(test_wrong_fused_derivatives_are_rejected) {
    int missed = 0;
    if (rg_slow())
        return;
    derive_quiet = true;
    lie = FUSED;
    for (int i = 0; i < rgi_n_ops; i++) {
        honest = rgi_ops[i];
        for (falsified = 0; honest->fused && falsified < RG_MAX_RULES; falsified++) {
            if (!honest->grad[falsified].rule)
                continue;
            rg_op liar = *honest;
            liar.fused = lying_fused;
            int faults = 0;
            largest = 0;
            for (const rg_sample *s = liar.samples; s && s->inputs && !faults; s++)
                faults += derive_fused(&liar, s);
            if (!faults && largest)
                missed += complain();
        }
    }
    ck_assert_int_eq(missed, 0);
}
END_TEST

RG_TESTS(ops, test_too_many_inputs, test_rows_are_complete, test_first_order, test_second_order,
         test_layouts, test_float32, test_fused, test_null, test_leaves_nothing, test_only_results,
         test_no_gradient, test_inplace, test_inner, test_alone, test_overlap, test_written,
         test_poked, test_poked_replay, test_out_of_memory, test_withheld, test_fused_are_taken,
         test_falsified_rules_are_rejected, test_wrong_second_derivatives_are_rejected,
         test_wrong_fused_derivatives_are_rejected)

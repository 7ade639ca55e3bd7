/*
 * rule_checks.c: the checks of rg_function_check, except those of values and derivatives. Most
 * checks apply the op under one condition, and compare the results with those of a run without the
 * condition. If the results differ, the check fails with an error message that names the condition.
 */
#include "check_run.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- inputs and gradients that are not contiguous ----------------------------------- */

/* Compares a run in which input `at` has the layout `as` with a run in which this input is
 * contiguous and has the same values. Fails if the results differ. */
static bool check_input_layout(const rg_check_run *s, int at, rg_check_layout as) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result a, b;
    char when[96];
    if (!rgi_check_run_inputs(s, in))
        return false;
    rg_tensor *laid = rgi_check_run_copy(s->plain[at], as, rgi_check_run_wants(s, at));
    in[at] = rgi_check_run_copy(laid, RG_LAID_PLAIN, rgi_check_run_wants(s, at));
    if (!in[at] || !rgi_check_run_forward_backward(s, in, &a))
        return false;
    in[at] = laid;
    snprintf(when, sizeof when, "where input %d %s", at, rgi_layout_text[as]);
    return rgi_check_run_forward_backward(s, in, &b)
               ? rgi_check_run_agree(s, &a, &b, RG_RUNS_SAME, when)
               : rgi_check_run_failed(s, when);
}

/* Does the same as check_input_layout, with the gradient of output `at` in place of an input. */
static bool check_gradient_layout(const rg_check_run *s, int at, rg_check_layout as) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS] = { NULL };
    rg_check_result a, b;
    char when[96];
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, a.y))
        return false;
    b = a;
    if (!a.y[at]->history)
        return true;
    rg_tensor *weights = rgi_check_run_weights(a.y[at], at);
    rg_tensor *laid = weights ? rgi_check_run_copy(weights, as, false) : NULL;
    gy[at] = rgi_check_run_copy(laid, RG_LAID_PLAIN, false);
    if (!gy[at] || !rgi_check_run_gradients(s, in, gy, -1, false, &a))
        return false;
    gy[at] = laid;
    snprintf(when, sizeof when, "where the gradient of output %d %s", at, rgi_layout_text[as]);
    if (!rgi_check_run_gradients(s, in, gy, -1, false, &b))
        return rgi_check_run_failed(s, when);
    return rgi_check_run_agree(s, &a, &b, RG_RUNS_SAME, when);
}

bool rgi_check_layouts(const rg_check_run *s) {
    for (rg_check_layout as = RG_LAID_STRIDED; as <= RG_LAID_EXPANDED; as++) {
        for (int i = 0; i < s->n; i++)
            if (!rgi_is_none(s->plain[i]) && rgi_is_float(s->plain[i]->dtype)
                && !check_input_layout(s, i, as))
                return false;
        for (int k = 0; k < s->n_out; k++)
            if (!check_gradient_layout(s, k, as))
                return false;
    }
    return true;
}

/* ---- gradients of a single input or from a single output ---------------------------- */

/* Fails unless the gradient of each input has the same values whether only that input requires
 * grad, or all inputs in s->wanted do. */
static bool check_wanted(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result all, one;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_forward_backward(s, in, &all))
        return false;
    for (int i = 0; i < s->n; i++) {
        if (!rgi_check_run_wants(s, i))
            continue;
        char when[96];
        rg_check_run alone = *s;
        alone.wanted = RG_IN(i);
        snprintf(when, sizeof when, "where only input %d requires grad", i);
        if (!rgi_check_run_inputs(&alone, in))
            return false;
        if (!rgi_check_run_forward_backward(&alone, in, &one))
            return rgi_check_run_failed(s, when);
        if (!rgi_check_run_same(all.g[i], one.g[i], RG_RUNS_SAME))
            return rgi_check_run_wrong(s, "the gradient of input %d has other values %s", i, when);
    }
    return true;
}

/* Fails unless, for each output k, backward computes the same gradients of the inputs in two runs.
 * In the first run, every output but k gets a gradient of 0. In the second, only output k gets a
 * gradient. */
static bool check_each_output(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS];
    rg_check_result all, one;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, all.y))
        return false;
    one = all;
    for (int k = 0; k < s->n_out && s->n_out > 1; k++) {
        char when[96];
        if (!all.y[k]->history)
            continue;
        for (int j = 0; j < s->n_out; j++)
            gy[j] = j == k ? NULL : rg_zeros_dims(rg_shape(all.y[j]), (rg_dtype)all.y[j]->dtype);
        snprintf(when, sizeof when, "where a gradient reaches output %d alone", k);
        if (!rgi_check_run_gradients(s, in, gy, -1, false, &all))
            return false;
        if (!rgi_check_run_gradients(s, in, NULL, k, false, &one))
            return rgi_check_run_failed(s, when);
        if (!rgi_check_run_agree(s, &all, &one, RG_RUNS_SAME, when))
            return false;
    }
    return true;
}

bool rgi_check_partly(const rg_check_run *s) { return check_wanted(s) && check_each_output(s); }

/* ---- writes to inputs, outputs and gradients ---------------------------------------- */

bool rgi_check_backward_writes(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS] = { NULL }, *y[RG_MAX_OUTPUTS];
    rg_check_result r;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, r.y))
        return false;
    for (int k = 0; k < s->n_out; k++) {
        y[k] = rgi_check_run_copy(r.y[k], RG_LAID_PLAIN, false);
        gy[k] = rgi_check_run_weights(r.y[k], k);
    }
    if (!rgi_check_run_gradients(s, in, gy, -1, false, &r))
        return false;
    for (int k = 0; k < s->n_out; k++) {
        if (!rgi_check_run_same(gy[k], rgi_check_run_weights(r.y[k], k), 0))
            return rgi_check_run_wrong(s, "backward writes to the gradient of output %d", k);
        if (!rgi_check_run_same(r.y[k], y[k], 0))
            return rgi_check_run_wrong(s, "backward writes to output %d", k);
    }
    for (int i = 0; i < s->n; i++)
        if (!rgi_check_run_same(in[i], s->plain[i], 0))
            return rgi_check_run_wrong(s, "backward writes to input %d", i);
    return true;
}

/* Writes to input `at` between forward and backward. Backward must then either fail or compute the
 * same gradients as without the write. */
static bool check_written_input(const rg_check_run *s, int at) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result before, after;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_forward_backward(s, in, &before)
        || !rgi_check_run_apply(s, in, after.y))
        return false;
    {
        RG_NO_GRAD();
        if (!rg_add_(in[at], 1))
            return false;
    }
    /* Backward is allowed to fail here, so the program's error handler isn't called. */
    rg_error_handler *handler = rg_on_error(NULL);
    const bool went_well = rgi_check_run_gradients(s, in, NULL, -1, false, &after);
    rg_on_error(handler);
    if (!went_well) {
        const bool noticed = rgi_this.failure.code != RG_OUT_OF_MEMORY;
        if (noticed)
            rgi_forget_failure();
        return noticed;
    }
    for (int i = 0; i < s->n; i++)
        if (!rgi_check_run_same(before.g[i], after.g[i], RG_RUNS_SAME))
            return rgi_check_run_wrong(
                s,
                "the gradient of input %d has other values where input %d was written "
                "to before backward, which nobody noticed: keep what backward reads by "
                "rg_save_for_backward",
                i, at);
    /* Backward may have ignored the failure to read a saved value, and gone on without that value.
     * Its gradients are right, so the failure is forgotten. */
    if (rgi_this.failure.code != RG_OUT_OF_MEMORY)
        rgi_forget_failure();
    return true;
}

/* Releases the wanted inputs between forward and backward. Fails unless backward computes the same
 * gradients as in a run in which they aren't released. */
static bool check_released_inputs(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *middle[RG_FUNCTION_INPUTS], *y[RG_MAX_OUTPUTS];
    rg_check_result r, direct;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_forward_backward(s, in, &direct))
        return false;
    for (int i = 0; i < s->n; i++)
        middle[i] = rgi_check_run_wants(s, i) ? rg_mul(in[i], 1) : in[i];
    if (!rgi_check_run_apply(s, middle, y))
        return false;
    for (int i = 0; i < s->n; i++)
        if (rgi_check_run_wants(s, i))
            rg_drop(middle[i]);
    memcpy(r.y, y, sizeof y);
    if (!rgi_check_run_gradients(s, in, NULL, -1, false, &r))
        return rgi_check_run_failed(s,
                                    "backward reads a tensor that is gone: keep what it reads by "
                                    "rg_save_for_backward");
    return rgi_check_run_agree(s, &direct, &r, RG_RUNS_SAME,
                               "where the inputs are gone before backward");
}

bool rgi_check_inputs_later(const rg_check_run *s) {
    for (int i = 0; i < s->n; i++)
        if (!rgi_is_none(s->plain[i]) && rgi_is_float(s->plain[i]->dtype)
            && !check_written_input(s, i))
            return false;
    return check_released_inputs(s);
}

/* ---- replaying a recorded run ------------------------------------------------------- */

typedef struct {
    const rg_check_run *s;
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result *r;
} recorded_run;

/* The function that is recorded. Its results are kept, so that they can be read after the recording
 * was replayed. */
static void run_recorded(void *context) {
    recorded_run *c = context;
    if (!rgi_check_run_forward_backward(c->s, c->in, c->r)) {
        *c->r = (rg_check_result){ { NULL }, { NULL } };
        return;
    }
    for (int k = 0; k < c->s->n_out; k++)
        rg_keep(c->r->y[k]);
    for (int i = 0; i < c->s->n; i++)
        if (c->r->g[i] != RG_NONE)
            rg_keep(c->r->g[i]);
}

static void drop_result(const rg_check_run *s, rg_check_result *r) {
    for (int k = 0; k < s->n_out; k++)
        rg_drop(r->y[k]);
    for (int i = 0; i < s->n; i++)
        rg_drop(r->g[i]);
}

/* Records one run of the op. Then changes every wanted input a little, replays the recording, and
 * compares the results with those of a direct run. */
bool rgi_check_replay(const rg_check_run *s) {
    rg_check_result direct, replayed = { { NULL }, { NULL } };
    recorded_run c = { .s = s, .r = &replayed };
    rg_tensor *in[RG_FUNCTION_INPUTS];
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_inputs(s, c.in))
        return false;
    rg_replay *replay = rg_record(run_recorded, &c);
    if (!replay) {
        drop_result(s, &replayed);
        return rgi_check_run_failed(s, "as part of a recorded step");
    }
    bool ok = true;
    for (int i = 0; i < s->n; i++) {
        RG_NO_GRAD();
        if (rgi_check_run_wants(s, i))
            ok = ok && rg_mul_(in[i], 1.001) && rg_mul_(c.in[i], 1.001);
    }
    ok = ok && rgi_check_run_forward_backward(s, in, &direct);
    if (ok && !rg_replay_run(replay))
        ok = rgi_check_run_failed(s, "in a run of a recorded step");
    ok = ok
         && rgi_check_run_agree(s, &direct, &replayed, RG_RUNS_SAME, "in a run of a recorded step");
    rg_replay_free(replay);
    drop_result(s, &replayed);
    return ok;
}

/* ---- leaks, and allocations that fail ----------------------------------------------- */

static int64_t bytes_in_use(void) { return rg_memory_stats().now; }

static bool run_once(const rg_check_run *s, rg_tensor *in[]) {
    RG_SCOPE();
    rg_check_result r;
    return rgi_check_run_forward_backward(s, in, &r);
}

static bool check_leaks(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    if (!rgi_check_run_inputs(s, in))
        return false;
    int64_t before = bytes_in_use();
    for (int run = 0; run < 4; run++)
        if (!run_once(s, in))
            return false;
    int64_t more = bytes_in_use() - before;
    return more <= 0
           || rgi_check_run_wrong(s, "each forward and backward leaks %lld bytes",
                                  (long long)more / 4);
}

/* Runs forward and backward, and makes allocation number n fail. Sets *denied to false if there
 * were fewer than n allocations, and otherwise to true. Fails if the op then fails with another
 * error than RG_OUT_OF_MEMORY, or goes on with an error set or with wrong results. */
static bool run_denied(const rg_check_run *s, rg_tensor *in[], const rg_check_result *right,
                       int64_t n, bool *denied) {
    RG_SCOPE();
    rg_check_result r;
    rg_memory_fail_at(n);
    bool ok = rgi_check_run_forward_backward(s, in, &r);
    *denied = rgi_this.fail_at == 0;
    rg_memory_fail_at(0);
    if (!*denied)
        return ok;
    if (!ok && rgi_this.failure.code != RG_OUT_OF_MEMORY)
        return rgi_check_run_failed(s, "where memory runs out it fails with another error");
    if (ok && (rgi_failed() || !rgi_check_run_agree(s, right, &r, RG_RUNS_SAME, ""))) {
        rgi_forget_failure();
        return rgi_check_run_wrong(
            s, "it goes on where memory runs out: a function that returns NULL has "
               "failed, and forward or backward must, too");
    }
    rgi_forget_failure();
    return true;
}

static bool check_denied(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result right;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_forward_backward(s, in, &right))
        return false;
    rg_error_handler *handler = rg_on_error(NULL);
    bool ok = true;
    bool denied = true;
    for (int64_t n = 1; denied && ok; n++) {
        int64_t before = bytes_in_use();
        ok = run_denied(s, in, &right, n, &denied);
        int64_t more = bytes_in_use() - before;
        if (ok && denied && n > 1 && more > 0)
            ok = rgi_check_run_wrong(s, "it leaks %lld bytes where memory runs out",
                                     (long long)more);
    }
    rg_on_error(handler);
    if (ok)
        return true;
    /* The handler was switched off until here. The same error is raised again, so that the
     * program's handler is called. */
    const rg_failure failure = rgi_this.failure;
    rgi_forget_failure();
    return rgi_fail(failure.code, "function_check", "%s",
                    failure.message + (strncmp(failure.message, "function_check: ", 16) ? 0 : 16));
}

bool rgi_check_memory(const rg_check_run *s) { return check_leaks(s) && check_denied(s); }

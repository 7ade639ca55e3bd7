/*
 * promises.c: what rg_function_check asks of an op beside its values and derivatives: each check
 * runs the op in one way, compares with a plain run, and says in a sentence what is wrong.
 */
#include "trial.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- layouts ------------------------------------------------------------------------ */

/* Runs the op with input `at` in this layout, and beside it with the same values without gaps. */
static bool check_input_layout(const rg_trial *s, int at, rg_trial_layout as) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_trial_result a, b;
    char when[96];
    if (!rgi_trial_inputs(s, in))
        return false;
    rg_tensor *laid = rgi_trial_copy(s->plain[at], as, rgi_trial_wants(s, at));
    in[at] = rgi_trial_copy(laid, RG_LAID_PLAIN, rgi_trial_wants(s, at));
    if (!in[at] || !rgi_trial_run(s, in, &a))
        return false;
    in[at] = laid;
    snprintf(when, sizeof when, "where input %d %s", at, rgi_layout_text[as]);
    return rgi_trial_run(s, in, &b) ? rgi_trial_agree(s, &a, &b, RG_TRIAL_SAME, when)
                                    : rgi_trial_failed(s, when);
}

/* Does so with the gradient of output `at`. */
static bool check_gradient_layout(const rg_trial *s, int at, rg_trial_layout as) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS] = { NULL };
    rg_trial_result a, b;
    char when[96];
    if (!rgi_trial_inputs(s, in) || !rgi_trial_apply(s, in, a.y))
        return false;
    b = a;
    if (!a.y[at]->history)
        return true;
    rg_tensor *weights = rgi_trial_weights(a.y[at], at);
    rg_tensor *laid = weights ? rgi_trial_copy(weights, as, false) : NULL;
    gy[at] = rgi_trial_copy(laid, RG_LAID_PLAIN, false);
    if (!gy[at] || !rgi_trial_gradients(s, in, gy, -1, false, &a))
        return false;
    gy[at] = laid;
    snprintf(when, sizeof when, "where the gradient of output %d %s", at, rgi_layout_text[as]);
    if (!rgi_trial_gradients(s, in, gy, -1, false, &b))
        return rgi_trial_failed(s, when);
    return rgi_trial_agree(s, &a, &b, RG_TRIAL_SAME, when);
}

bool rgi_check_layouts(const rg_trial *s) {
    for (rg_trial_layout as = RG_LAID_STRIDED; as <= RG_LAID_EXPANDED; as++) {
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

/* ---- what is asked for -------------------------------------------------------------- */

/* Each gradient alone must be what it is among the others. */
static bool check_wanted(const rg_trial *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_trial_result all, one;
    if (!rgi_trial_inputs(s, in) || !rgi_trial_run(s, in, &all))
        return false;
    for (int i = 0; i < s->n; i++) {
        if (!rgi_trial_wants(s, i))
            continue;
        char when[96];
        rg_trial alone = *s;
        alone.wanted = RG_IN(i);
        snprintf(when, sizeof when, "where only input %d requires grad", i);
        if (!rgi_trial_inputs(&alone, in))
            return false;
        if (!rgi_trial_run(&alone, in, &one))
            return rgi_trial_failed(s, when);
        if (!rgi_trial_same(all.g[i], one.g[i], RG_TRIAL_SAME))
            return rgi_trial_wrong(s, "the gradient of input %d has other values %s", i, when);
    }
    return true;
}

/* A gradient that reaches one output alone must be as if those of the others were 0. */
static bool check_each_output(const rg_trial *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS];
    rg_trial_result all, one;
    if (!rgi_trial_inputs(s, in) || !rgi_trial_apply(s, in, all.y))
        return false;
    one = all;
    for (int k = 0; k < s->n_out && s->n_out > 1; k++) {
        char when[96];
        if (!all.y[k]->history)
            continue;
        for (int j = 0; j < s->n_out; j++)
            gy[j] = j == k ? NULL : rg_zeros_dims(rg_shape(all.y[j]), (rg_dtype)all.y[j]->dtype);
        snprintf(when, sizeof when, "where a gradient reaches output %d alone", k);
        if (!rgi_trial_gradients(s, in, gy, -1, false, &all))
            return false;
        if (!rgi_trial_gradients(s, in, NULL, k, false, &one))
            return rgi_trial_failed(s, when);
        if (!rgi_trial_agree(s, &all, &one, RG_TRIAL_SAME, when))
            return false;
    }
    return true;
}

bool rgi_check_partly(const rg_trial *s) { return check_wanted(s) && check_each_output(s); }

/* ---- what isn't the op's own -------------------------------------------------------- */

bool rgi_check_backward_writes(const rg_trial *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS] = { NULL }, *y[RG_MAX_OUTPUTS];
    rg_trial_result r;
    if (!rgi_trial_inputs(s, in) || !rgi_trial_apply(s, in, r.y))
        return false;
    for (int k = 0; k < s->n_out; k++) {
        y[k] = rgi_trial_copy(r.y[k], RG_LAID_PLAIN, false);
        gy[k] = rgi_trial_weights(r.y[k], k);
    }
    if (!rgi_trial_gradients(s, in, gy, -1, false, &r))
        return false;
    for (int k = 0; k < s->n_out; k++) {
        if (!rgi_trial_same(gy[k], rgi_trial_weights(r.y[k], k), 0))
            return rgi_trial_wrong(s, "backward writes to the gradient of output %d", k);
        if (!rgi_trial_same(r.y[k], y[k], 0))
            return rgi_trial_wrong(s, "backward writes to output %d", k);
    }
    for (int i = 0; i < s->n; i++)
        if (!rgi_trial_same(in[i], s->plain[i], 0))
            return rgi_trial_wrong(s, "backward writes to input %d", i);
    return true;
}

/* Between forward and backward, input `at` is written to: that must be noticed, or make no
 * difference. */
static bool check_written_input(const rg_trial *s, int at) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_trial_result before, after;
    if (!rgi_trial_inputs(s, in) || !rgi_trial_run(s, in, &before)
        || !rgi_trial_apply(s, in, after.y))
        return false;
    {
        RG_NO_GRAD();
        if (!rg_add_(in[at], 1))
            return false;
    }
    rg_error_handler *handler = rg_on_error(NULL); /* The failure is expected. */
    const bool went_well = rgi_trial_gradients(s, in, NULL, -1, false, &after);
    rg_on_error(handler);
    if (!went_well) {
        const bool noticed = rgi_this.failure.code != RG_OUT_OF_MEMORY;
        if (noticed)
            rgi_forget_failure();
        return noticed;
    }
    for (int i = 0; i < s->n; i++)
        if (!rgi_trial_same(before.g[i], after.g[i], RG_TRIAL_SAME))
            return rgi_trial_wrong(
                s,
                "the gradient of input %d has other values where input %d was written "
                "to before backward, which nobody noticed: keep what backward reads by "
                "rg_save_for_backward",
                i, at);
    /* A backward may have noticed the write, and gone on without that value. */
    if (rgi_this.failure.code != RG_OUT_OF_MEMORY)
        rgi_forget_failure();
    return true;
}

/* The inputs' own headers may be gone by the time of backward. */
static bool check_released_inputs(const rg_trial *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *middle[RG_FUNCTION_INPUTS], *y[RG_MAX_OUTPUTS];
    rg_trial_result r, direct;
    if (!rgi_trial_inputs(s, in) || !rgi_trial_run(s, in, &direct))
        return false;
    for (int i = 0; i < s->n; i++)
        middle[i] = rgi_trial_wants(s, i) ? rg_mul(in[i], 1) : in[i];
    if (!rgi_trial_apply(s, middle, y))
        return false;
    for (int i = 0; i < s->n; i++)
        if (rgi_trial_wants(s, i))
            rg_drop(middle[i]);
    memcpy(r.y, y, sizeof y);
    if (!rgi_trial_gradients(s, in, NULL, -1, false, &r))
        return rgi_trial_failed(s, "backward reads a tensor that is gone: keep what it reads by "
                                   "rg_save_for_backward");
    return rgi_trial_agree(s, &direct, &r, RG_TRIAL_SAME,
                           "where the inputs are gone before backward");
}

bool rgi_check_inputs_later(const rg_trial *s) {
    for (int i = 0; i < s->n; i++)
        if (!rgi_is_none(s->plain[i]) && rgi_is_float(s->plain[i]->dtype)
            && !check_written_input(s, i))
            return false;
    return check_released_inputs(s);
}

/* ---- replay ------------------------------------------------------------------------- */

typedef struct {
    const rg_trial *s;
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_trial_result *r;
} recorded_run;

/* Results are kept, so that they can be read. */
static void run_recorded(void *context) {
    recorded_run *c = context;
    if (!rgi_trial_run(c->s, c->in, c->r)) {
        *c->r = (rg_trial_result){ { NULL }, { NULL } };
        return;
    }
    for (int k = 0; k < c->s->n_out; k++)
        rg_keep(c->r->y[k]);
    for (int i = 0; i < c->s->n; i++)
        if (c->r->g[i] != RG_NONE)
            rg_keep(c->r->g[i]);
}

static void drop_result(const rg_trial *s, rg_trial_result *r) {
    for (int k = 0; k < s->n_out; k++)
        rg_drop(r->y[k]);
    for (int i = 0; i < s->n; i++)
        rg_drop(r->g[i]);
}

/* Runs a recorded application again with every wanted input a little larger. */
bool rgi_check_replay(const rg_trial *s) {
    rg_trial_result direct, replayed = { { NULL }, { NULL } };
    recorded_run c = { .s = s, .r = &replayed };
    rg_tensor *in[RG_FUNCTION_INPUTS];
    if (!rgi_trial_inputs(s, in) || !rgi_trial_inputs(s, c.in))
        return false;
    rg_replay *replay = rg_record(run_recorded, &c);
    if (!replay) {
        drop_result(s, &replayed);
        return rgi_trial_failed(s, "as part of a recorded step");
    }
    bool ok = true;
    for (int i = 0; i < s->n; i++) {
        RG_NO_GRAD();
        if (rgi_trial_wants(s, i))
            ok = ok && rg_mul_(in[i], 1.001) && rg_mul_(c.in[i], 1.001);
    }
    ok = ok && rgi_trial_run(s, in, &direct);
    if (ok && !rg_replay_run(replay))
        ok = rgi_trial_failed(s, "in a run of a recorded step");
    ok = ok && rgi_trial_agree(s, &direct, &replayed, RG_TRIAL_SAME, "in a run of a recorded step");
    rg_replay_free(replay);
    drop_result(s, &replayed);
    return ok;
}

/* ---- memory ------------------------------------------------------------------------- */

static int64_t bytes_in_use(void) { return rg_memory_stats().now; }

static bool run_once(const rg_trial *s, rg_tensor *in[]) {
    RG_SCOPE();
    rg_trial_result r;
    return rgi_trial_run(s, in, &r);
}

static bool check_leaks(const rg_trial *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    if (!rgi_trial_inputs(s, in))
        return false;
    int64_t before = bytes_in_use();
    for (int run = 0; run < 4; run++)
        if (!run_once(s, in))
            return false;
    int64_t more = bytes_in_use() - before;
    return more <= 0
           || rgi_trial_wrong(s, "each forward and backward leaks %lld bytes", (long long)more / 4);
}

/* Runs the op with request number n for memory denied. Sets *denied to whether there was one. */
static bool run_denied(const rg_trial *s, rg_tensor *in[], const rg_trial_result *right, int64_t n,
                       bool *denied) {
    RG_SCOPE();
    rg_trial_result r;
    rg_memory_fail_at(n);
    bool ok = rgi_trial_run(s, in, &r);
    *denied = rgi_this.fail_at == 0;
    rg_memory_fail_at(0);
    if (!*denied)
        return ok;
    if (!ok && rgi_this.failure.code != RG_OUT_OF_MEMORY)
        return rgi_trial_failed(s, "where memory runs out it fails with another error");
    if (ok && (rgi_failed() || !rgi_trial_agree(s, right, &r, RG_TRIAL_SAME, ""))) {
        rgi_forget_failure();
        return rgi_trial_wrong(s,
                               "it goes on where memory runs out: a function that returns NULL has "
                               "failed, and forward or backward must, too");
    }
    rgi_forget_failure();
    return true;
}

static bool check_denied(const rg_trial *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_trial_result right;
    if (!rgi_trial_inputs(s, in) || !rgi_trial_run(s, in, &right))
        return false;
    rg_error_handler *handler = rg_on_error(NULL);
    bool ok = true;
    bool denied = true;
    for (int64_t n = 1; denied && ok; n++) {
        int64_t before = bytes_in_use();
        ok = run_denied(s, in, &right, n, &denied);
        int64_t more = bytes_in_use() - before;
        if (ok && denied && n > 1 && more > 0)
            ok = rgi_trial_wrong(s, "it leaks %lld bytes where memory runs out", (long long)more);
    }
    rg_on_error(handler);
    if (ok)
        return true;
    /* The handler is told, too. */
    const rg_failure failure = rgi_this.failure;
    rgi_forget_failure();
    return rgi_fail(failure.code, "function_check", "%s",
                    failure.message + (strncmp(failure.message, "function_check: ", 16) ? 0 : 16));
}

bool rgi_check_memory(const rg_trial *s) { return check_leaks(s) && check_denied(s); }

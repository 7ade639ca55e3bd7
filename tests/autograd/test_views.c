/*
 * test_views.c: writing through views. Random programs of views and writes give what PyTorch gives:
 * values, histories, gradients of both orders, what hooks see, and errors
 * (tests/golden/make/views.py says how they are written). What such programs don't reach is tested
 * by hand: memory, replay, threads, derivatives against differences.
 */
#include "tests/test.h"
#include "tensor/base.h"
#include "tensor/structs.h"
#include "tests/golden.h"
#include "regard.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- random programs --------------------------------------------------------------- */

enum { MOST = 64 };

/* The elements of all gradients with which a hook was called, one gradient behind the other. */
typedef struct {
    int n;
    double v[512];
} seen;

/* The tensors that a program has made, and the hooks that it has registered. */
typedef struct {
    int n, n_hooks, n_leaves;
    rg_tensor *t[MOST];
    seen hook[MOST];
    /* result[i] is the second-order gradient of tensor number leaf[i]. */
    int leaf[MOST];
    rg_tensor *result[MOST];
    golden_file *f;
} program;

static rg_tensor *see(rg_tensor *g, void *context) {
    seen *s = context;
    RG_SCOPE();
    rg_tensor *flat = rg_reshape(g, -1);
    for (int64_t i = 0; i < rg_numel(flat); i++)
        s->v[s->n++] = rg_at(flat, i);
    return RG_NONE;
}

/* Returns numbers that are exact in binary. */
static rg_tensor *values(rg_dims shape, int64_t seed) {
    rg_tensor *t = rg_empty_dims(shape, RG_FLOAT64);
    double *v = rg_data(t);
    for (int64_t i = 0; i < rg_numel(t); i++)
        v[i] = (double)((i * 7 + seed * 5) % 19 * 2 - 19) / 16;
    return t;
}

typedef struct {
    const char *name;
    rg_tensor *(*call)(rg_tensor *);
} unary;
typedef struct {
    const char *name;
    rg_tensor *(*call)(rg_tensor *, rg_tensor *);
} binary;

static rg_tensor *call_unary(const char *name, rg_tensor *x) {
    static const unary all[] = {
        { "exp", rg_exp },         { "sin", rg_sin },     { "square", rg_square },
        { "neg", rg_neg },         { "exp_", rg_exp_ },   { "sigmoid_", rg_sigmoid_ },
        { "tanh_", rg_tanh_ },     { "neg_", rg_neg_ },   { "relu_", rg_relu_ },
        { "square_", rg_square_ }, { "abs_", rg_abs_ },   { "sin_", rg_sin_ },
        { "floor_", rg_floor_ },   { "zero_", rg_zero_ }, { "sigmoid", rg_sigmoid },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0)
            return all[i].call(x);
    ck_abort_msg("no function %s", name);
}

static rg_tensor *call_binary(const char *name, rg_tensor *x, rg_tensor *y) {
    static const binary all[] = {
        { "mul", (rg_mul) },   { "add", (rg_add) },     { "sub", (rg_sub) },
        { "add_", (rg_add_) }, { "sub_", (rg_sub_) },   { "mul_", (rg_mul_) },
        { "div_", (rg_div_) }, { "copy_", (rg_copy_) }, { "fill_", (rg_fill_) },
        { "pow_", (rg_pow_) },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0)
            return all[i].call(x, y);
    ck_abort_msg("no function %s", name);
}

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static rg_tensor *part_of_list(rg_list list, int64_t k) { return list.n < 0 ? NULL : list.v[k]; }

static rg_tensor *view_of(rg_tensor *x, char *at) {
    char *way = golden_word(&at);
    if (is(way, "alias"))
        return rg_index(x, "...");
    if (is(way, "squeeze"))
        return rg_squeeze(x);
    if (is(way, "flatten"))
        return rg_flatten(x, 0, -1);
    if (is(way, "T"))
        return rg_T(x);
    if (is(way, "expand"))
        return rg_expand_dims(x, golden_dims(golden_word(&at)));
    if (is(way, "permute"))
        return rg_permute_dims(x, golden_dims(golden_word(&at)));
    if (is(way, "view"))
        return rg_view_dims(x, golden_dims(golden_word(&at)));
    int64_t n[4] = { 0 };
    for (int i = 0; i < 4 && !golden_at_end(at); i++)
        n[i] = golden_integer(&at);
    int d = (int)n[0];
    if (is(way, "select"))
        return rg_select(x, d, n[1]);
    if (is(way, "slice"))
        return rg_slice(x, d, n[1], n[2], n[3]);
    if (is(way, "narrow"))
        return rg_narrow(x, d, n[1], n[2]);
    if (is(way, "unsqueeze"))
        return rg_unsqueeze(x, d);
    if (is(way, "transpose"))
        return rg_transpose(x, d, (int)n[1]);
    if (is(way, "diagonal"))
        return rg_diagonal(x, n[0], 0, 1);
    if (is(way, "unbind"))
        return part_of_list(rg_unbind(x, d), n[1]);
    if (is(way, "split"))
        return part_of_list(rg_split(x, n[0], (int)n[1]), n[2]);
    if (is(way, "chunk"))
        return part_of_list(rg_chunk(x, n[0], (int)n[1]), n[2]);
    ck_abort_msg("no view %s", way);
}

static rg_tensor *write_with(const char *name, rg_tensor *x, rg_tensor *y) {
    if (is(name, "masked_fill_")) {
        rg_tensor *even = rg_eq(rg_remainder(rg_arange(rg_numel(x)), 2), 0);
        return rg_masked_fill_(x, rg_reshape_dims(even, rg_shape(x)), 0.75);
    }
    if (is(name, "clamp_"))
        return rg_clamp_(x, -0.5, 0.75);
    if (is(name, "lerp_"))
        return rg_lerp_(x, y, 0.25);
    if (is(name, "addcmul_"))
        return rg_addcmul_(x, y, y, 0.5);
    return call_binary(name, x, y);
}

/* Returns the sum of the losses of the tensors that the line names. */
static rg_tensor *loss_of(program *p, char *at) {
    rg_tensor *loss = NULL;
    while (!golden_at_end(at)) {
        rg_tensor *y = p->t[golden_integer(&at)];
        rg_tensor *sum = rg_sum(rg_mul(y, values(rg_shape(y), 3)));
        loss = loss ? rg_add(loss, sum) : sum;
        if (!loss)
            return NULL;
    }
    return loss;
}

static bool second_order(program *p, rg_tensor *loss) {
    rg_tensor *leaves[MOST], *squares = NULL;
    for (int k = 0; k < p->n; k++) {
        bool known = false;
        for (int j = 0; j < k; j++)
            known = known || p->t[j] == p->t[k];
        /* A view without a history may require grad, because a write has made its base require
         * grad. Such a view isn't counted as a leaf here. */
        if (known || !rg_is_leaf(p->t[k]) || !p->t[k]->history)
            continue;
        leaves[p->n_leaves] = p->t[k];
        p->leaf[p->n_leaves++] = k;
    }
    rg_error_clear();
    if (!rg_grad_many(1, &loss, NULL, p->n_leaves, leaves, p->result,
                      (rg_backward_options){
                          .gradient = RG_NONE, .create_graph = true, .allow_unused = true }))
        return false;
    for (int i = 0; i < p->n_leaves; i++) {
        rg_tensor *g = p->result[i];
        if (g == RG_NONE || !rg_requires_grad(g))
            continue;
        rg_tensor *sum = rg_sum(rg_mul(g, g));
        squares = squares ? rg_add(squares, sum) : sum;
    }
    return !squares || rg_backward(squares);
}

/* Appends t to the program's tensors. Returns false if t is NULL. */
static bool made(program *p, rg_tensor *t) {
    if (t)
        p->t[p->n++] = t;
    return t != NULL;
}

/* Runs a statement about a tensor. The line has the kind, a function's name for some kinds, and the
 * tensor's number. */
static bool statement_on(program *p, const char *kind, char *at) {
    bool named = is(kind, "unary") || is(kind, "binary") || is(kind, "write_number");
    char *name = named || is(kind, "write") ? golden_word(&at) : "";
    rg_tensor *x = p->t[golden_integer(&at)];
    if (is(kind, "unary"))
        return made(p, call_unary(name, x));
    if (is(kind, "number"))
        return made(p, rg_mul(x, 1.5));
    if (is(kind, "binary"))
        return made(p, call_binary(name, x, p->t[golden_integer(&at)]));
    if (is(kind, "view"))
        return made(p, view_of(x, at));
    if (is(kind, "detach"))
        return made(p, rg_detach(x));
    if (is(kind, "detach_"))
        return rg_detach_(x);
    if (is(kind, "requires_grad_"))
        return rg_requires_grad_(x, true);
    if (is(kind, "retain"))
        return rg_retain_grad(x);
    if (is(kind, "hook"))
        return rg_register_hook(x, see, &p->hook[p->n_hooks++]) >= 0;
    if (is(kind, "write_number"))
        return call_binary(name, x, rg_wrap_float(golden_number(&at)));
    if (is(kind, "set_number")) {
        rg_tensor *value = rg_wrap_float(golden_number(&at));
        return rg_set_item_(x, value, at + (*at == ' '));
    }
    if (is(kind, "set_item")) {
        rg_tensor *value = p->t[golden_integer(&at)];
        return rg_set_item_(x, value, at + (*at == ' '));
    }
    if (golden_at_end(at))
        return call_unary(name, x);
    return write_with(name, x, p->t[golden_integer(&at)]);
}

/* Runs a statement, and returns whether it succeeded. */
static bool statement(program *p, char *at) {
    char *kind = golden_word(&at);
    if (is(kind, "leaf") || is(kind, "plain")) {
        rg_dims shape = golden_dims(golden_word(&at));
        rg_tensor *t = values(shape, golden_integer(&at));
        return made(p, is(kind, "leaf") ? rg_requires_grad_(t, true) : t);
    }
    if (is(kind, "grad_mode")) {
        rg_set_grad_enabled(golden_integer(&at));
        return true;
    }
    if (is(kind, "backward")) {
        rg_tensor *loss = loss_of(p, at);
        return loss && rg_backward(loss);
    }
    if (is(kind, "second")) {
        rg_tensor *loss = loss_of(p, at);
        return loss && second_order(p, loss);
    }
    return statement_on(p, kind, at);
}

/* Compares with the numbers of the next line, if it has any. In second order an absent gradient
 * counts as zeros: PyTorch makes zeros for some inputs on which nothing depends. */
static void compare(program *p, const char *what, const double *v, int64_t n) {
    char *at = golden_peek(p->f) == ':' ? golden_field(p->f, ':') : "";
    bool none = p->n_leaves && golden_at_end(at);
    for (int64_t i = 0; i < n; i++) {
        ck_each(!golden_at_end(at) || (none && v[i] == 0), "%s:%d: %s: too many", p->f->path,
                p->f->line, what);
        if (none)
            continue;
        double want = golden_number(&at);
        bool same = fabs(v[i] - want) <= 1e-12 * fmax(1, fabs(want)) || v[i] == want
                    || (isnan(v[i]) && isnan(want));
        ck_each(same, "%s:%d: %s: element %d is %.17g, not %.17g", p->f->path, p->f->line, what,
                (int)i, v[i], want);
    }
    while (p->n_leaves && n == 0 && !golden_at_end(at))
        ck_each(golden_number(&at) == 0, "%s:%d: %s: no zeros", p->f->path, p->f->line, what);
    ck_each(golden_at_end(at), "%s:%d: %s: too few", p->f->path, p->f->line, what);
}

static void compare_tensor(program *p, const char *what, rg_tensor *t) {
    RG_NO_GRAD();
    double v[512];
    int64_t n = t == RG_NONE ? 0 : rg_numel(t);
    ck_assert_msg(t && n <= 512, "%s:%d: %s: %s", p->f->path, p->f->line, what, rg_error());
    if (t != RG_NONE)
        ck_assert(rg_copy_out(t, v, sizeof v));
    compare(p, what, v, n);
}

static void compare_state(program *p, char *at) {
    rg_tensor *t = p->t[golden_integer(&at)];
    if (golden_at_end(at)) {
        compare_tensor(p, "value", t);
        return;
    }
    bool requires = golden_integer(&at);
    char *grad_fn = golden_word(&at);
    ck_each(rg_requires_grad(t) == requires, "%s:%d: requires_grad is %d", p->f->path, p->f->line,
            !requires);
    const char *name = rg_grad_fn(t);
    if (!name)
        name = "Invalid";
    if (!*name)
        name = "-";
    rg_error_clear();
    ck_each(is(name, grad_fn), "%s:%d: grad_fn is %s, not %s", p->f->path, p->f->line, name,
            grad_fn);
    compare_tensor(p, "value", t);
}

static rg_tensor *result_of(const program *p, int64_t k) {
    for (int i = 0; i < p->n_leaves; i++)
        if (p->leaf[i] == k)
            return p->result[i];
    return RG_NONE;
}

/* Runs a program and compares its results. Returns whether it reached its end without an error. */
static bool run_program(golden_file *f) {
    static program p;
    memset(&p, 0, sizeof p);
    p.f = f;
    RG_SCOPE();
    bool ok = true;
    for (char kind = golden_peek(f); kind && kind != '='; kind = golden_peek(f)) {
        if (kind == '>') {
            const char *want = golden_text(f);
            ck_each(!ok && strstr(rg_error(), want), "%s:%d: got '%s', not '%s'", f->path, f->line,
                    rg_error(), want);
            rg_error_clear();
            rg_set_grad_enabled(true);
            return false;
        }
        ck_each(ok, "%s:%d: %s", f->path, f->line, rg_error());
        char *at = golden_field(f, kind);
        if (kind == '$')
            ok = statement(&p, at);
        if (kind == '?')
            compare_state(&p, at);
        if (kind == 'g')
            compare_tensor(&p, "gradient", rg_grad_of(p.t[golden_integer(&at)]));
        if (kind == 'r')
            compare_tensor(&p, "result", result_of(&p, golden_integer(&at)));
        if (kind == 'h') {
            const seen *s = &p.hook[golden_integer(&at)];
            compare(&p, "hook", s->v, s->n);
        }
    }
    return true;
}

START_TEST(test_random_programs) {
    golden_file f = golden_open("views");
    int n = 0, ended = 0;
    while (golden_case(&f)) {
        n++;
        ended += run_program(&f);
    }
    golden_close(&f);
    ck_assert_int_gt(n, 500);
    ck_assert_int_gt(ended, n / 2);
}
END_TEST

/* ---- by hand ----------------------------------------------------------------------- */

/* Returns a leaf 1, 2, .., n. */
static rg_tensor *counting(int64_t n) {
    rg_tensor *x = rg_add(rg_to(rg_arange(n), RG_FLOAT64), 1);
    return rg_requires_grad_(x, true);
}

static void holds(rg_tensor *t, const char *text) {
    ck_assert_msg(t != NULL, "%s", rg_error());
    ck_assert_str_eq(rg_str(rg_reshape(rg_to(rg_detach(t), RG_INT64), -1)), text);
}

START_TEST(test_base_takes_the_write_in) {
    rg_tensor *x = counting(3), *y = rg_mul(x, 2), *v = rg_select(y, 0, 1),
              *u = rg_slice(y, 0, 1, 3, 1);
    ck_assert(rg_mul_(v, 3) == v);
    ck_assert_str_eq(rg_grad_fn(y), "CopySlices");
    ck_assert_str_eq(rg_grad_fn(v), "AsStridedBackward0");
    ck_assert_str_eq(rg_repr(u), "tensor([12.,  6.], dtype=torch.float64, "
                                 "grad_fn=<AsStridedBackward0>)");
    ck_ok(rg_backward(rg_add(rg_sum(rg_mul(u, 10)), rg_sum(y))));
    holds(rg_grad_of(x), "tensor([ 2, 66, 22])");
}
END_TEST

/* If a tensor with a history is written to a view, the base and its other views get a history, even
 * if the program has released the base. */
START_TEST(test_base_without_history) {
    rg_tensor *w = counting(2), *u, *v;
    {
        RG_SCOPE();
        rg_tensor *base = rg_zeros_dims(RG_DIMS(4), RG_FLOAT64);
        u = rg_escape(rg_slice(base, 0, 1, 3, 1));
        v = rg_escape(rg_slice(rg_narrow(base, 0, 0, 3), 0, 0, 2, 1));
        ck_assert(!rg_requires_grad(base));
        ck_ok(rg_add_(v, w));
        ck_assert(rg_requires_grad(base) && rg_requires_grad(u) && !rg_is_leaf(u));
        ck_assert_str_eq(rg_grad_fn(base), "CopySlices");
    }
    ck_ok(rg_mul_(u, 5));
    ck_ok(rg_backward(rg_add(rg_sum(u), rg_sum(rg_mul(v, 100)))));
    holds(u, "tensor([10,  0])");
    holds(v, "tensor([ 1, 10])");
    holds(rg_grad_of(w), "tensor([100, 505])");
}
END_TEST

/* A write to a part of a view is a write to a view of the base. */
START_TEST(test_subscripts_of_views) {
    rg_tensor *x = counting(6), *y = rg_mul(x, 1), *v = rg_view(y, 2, 3);
    ck_assert(rg_set_item_(v, 7, 0, "1:") == v);
    ck_assert(rg_set_item_(v, rg_mul(rg_index(x, "4:"), 3), 1, "[0, 2]") == v);
    holds(y, "tensor([ 1,  7,  7, 15,  5, 18])");
    ck_ok(rg_backward(rg_sum(rg_mul(v, v))));
    holds(rg_grad_of(x), "tensor([  2,   0,   0,   0, 100, 108])");
}
END_TEST

START_TEST(test_what_is_refused) {
    rg_tensor *x = counting(4), *y = rg_mul(x, 1);
    ck_fails(rg_add_(rg_expand(x, 2, 4), 1), RG_RUNTIME_ERROR,
             "add_: a view of a leaf Variable that requires grad is being used in an in-place "
             "operation.");
    rg_list parts = rg_split(y, 2, 0);
    ck_fails(rg_set_item_(parts.v[1], 5, 0), RG_RUNTIME_ERROR,
             "set_item_: Output 0 of Select is a view and is being modified inplace. This view is "
             "the output of a function that returns multiple views. Such functions do not allow "
             "the output views to be modified inplace. You should replace the inplace operation by "
             "an out-of-place one.");
    ck_fails(rg_zero_(parts.v[1]), RG_RUNTIME_ERROR,
             "Output 1 of Split is a view and is being modified inplace. This view is");
    ck_ok(rg_mul_(y, 2));
    ck_fails(rg_mul(parts.v[1], 2), RG_RUNTIME_ERROR,
             "mul: Output 1 of Split is a view and its base or another view of its base has been "
             "modified inplace. This view is");
    ck_assert(rg_requires_grad(parts.v[1]));
    ck_assert_str_eq(rg_repr(parts.v[1]),
                     "tensor([6., 8.], dtype=torch.float64, grad_fn=<Invalid>)");
    ck_ok(rg_detach(parts.v[1]));
    {
        RG_NO_GRAD();
        ck_ok(rg_mul_(parts.v[1], 2));
        holds(y, "tensor([ 2,  4, 12, 16])");
    }
    rg_tensor *untracked;
    {
        RG_NO_GRAD();
        untracked = rg_select(y, 0, 0);
    }
    {
        /* The error names the function that uses the view after a write, even if the function is
         * made of others. */
        rg_tensor *part;
        rg_tensor *z = rg_mul(y, 1);
        {
            RG_NO_GRAD();
            part = rg_narrow(z, 0, 0, 2);
        }
        ck_ok(rg_mul_(z, 2));
        ck_fails(rg_split(part, 1, 0).n >= 0, RG_RUNTIME_ERROR,
                 "split: A view was created in no_grad mode");
    }
    ck_fails(rg_add_(untracked, 1), RG_RUNTIME_ERROR,
             "A view was created in no_grad mode and is being modified inplace with grad mode "
             "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You "
             "can clarify your code by moving both the view and the inplace either both inside the "
             "no_grad block (if you don't want the inplace to be tracked) or both outside (if you "
             "want the inplace to be tracked).");
    ck_assert_double_eq(rg_item(untracked), 2);
    ck_ok(rg_add_(y, 1));
    ck_fails(rg_exp(untracked), RG_RUNTIME_ERROR,
             "A view was created in no_grad mode and its base or another view of its base has been "
             "modified inplace with grad mode enabled.");
    /* A view of no_grad mode that the program has made a leaf fails with the same error. */
    {
        RG_NO_GRAD();
        untracked = rg_select(y, 0, 0);
    }
    ck_ok(rg_requires_grad_(untracked, true));
    ck_ok(rg_add_(y, 1));
    ck_fails(rg_exp(untracked), RG_RUNTIME_ERROR,
             "A view was created in no_grad mode and its base or another view of its base has been "
             "modified inplace with grad mode enabled.");
    /* torch has the same error for a view from a list whose base has no history. */
    parts = rg_split(rg_zeros_like(y), 2, 0);
    ck_fails(rg_add_(parts.v[0], rg_narrow(y, 0, 0, 2)), RG_RUNTIME_ERROR,
             "A view was created in no_grad mode and is being modified inplace with grad mode "
             "enabled. This view is the output of a function that returns multiple views.");
    ck_fails(rg_detach_(rg_view(rg_zeros(4), 2, 2)), RG_RUNTIME_ERROR,
             "Can't detach views in-place");
}
END_TEST

/* A view may have the largest number of dims. */
START_TEST(test_most_dims) {
    RG_SCOPE();
    rg_dims shape = { .n = RG_MAX_DIMS };
    for (int d = 0; d < RG_MAX_DIMS; d++)
        shape.v[d] = d % 3 + 1;
    rg_tensor *x = rg_requires_grad_(rg_randn_dims(shape, RG_FLOAT64, rg_default_generator()),
                                     true);
    rg_tensor *y = rg_mul(x, 1), *turned = rg_T(y), *part = rg_narrow(turned, 1, 0, 1);
    for (int d = 0; d < RG_MAX_DIMS; d++)
        ck_assert_int_eq(rg_size(turned, d), shape.v[RG_MAX_DIMS - 1 - d]);
    ck_ok(rg_mul_(part, 3));
    ck_ok(rg_backward(rg_sum(turned)));
    rg_tensor *want = rg_ones_dims(shape, RG_FLOAT64);
    rg_mul_(rg_narrow(want, RG_MAX_DIMS - 2, 0, 1), 3);
    ck_assert(rg_equal(rg_grad_of(x), want));
    ck_assert(rg_equal(rg_einsum("abcdefgh,abcdefgh->abcdefgh", x, want), rg_mul(x, want)));
}
END_TEST

/* The strides of einsum's results are torch's, those of products of matrices and of products by
 * elements. */
START_TEST(test_strides_of_einsum) {
    static const struct {
        const char *equation, *shapes[2], *want;
    } rows[] = {
        { "ij,k->ij", { "3 2 t", "4" }, "1 3" },
        { "a,bai->ia", { "4", "3 4 4" }, "4 1" },
        { "ij,jk->ki", { "4 3", "3 5" }, "4 1" },
        { "...ij,...jk->...ik", { "2 2 3", "3 2" }, "4 2 1" },
        { "bij,jk->kbi", { "2 4 3", "3 5" }, "8 4 1" },
        { "bij,jk->bki", { "2 4 3", "3 5" }, "20 1 5" },
        { "bij,jkc->kbic", { "2 4 3", "3 5 6" }, "6 120 30 1" },
        { "bij,bjk->kbi", { "2 4 3", "2 3 5" }, "4 20 1" },
    };
    for (int i = 0; i < RG_COUNT(rows); i++) {
        RG_SCOPE();
        rg_tensor *in[2];
        for (int k = 0; k < 2; k++) {
            rg_dims shape = { 0 };
            char *end, *at = (char *)rows[i].shapes[k];
            for (int64_t n; (n = strtol(at, &end, 10)) > 0; at = end)
                shape.v[shape.n++] = n;
            in[k] = rg_ones_dims(shape, RG_FLOAT32);
            if (strchr(at, 't'))
                in[k] = rg_T(rg_contiguous(rg_T(in[k])));
        }
        char strides[100] = "";
        rg_tensor *y = rg_einsum(rows[i].equation, in[0], in[1]);
        for (int d = 0; d < rg_ndim(y); d++)
            sprintf(strides + strlen(strides), "%s%lld", d ? " " : "", (long long)rg_stride(y, d));
        ck_assert_str_eq(strides, rows[i].want);
    }
}
END_TEST

/* A pad of mode constant that adds nothing keeps the order of the dims; one that adds elements is
 * contiguous. */
START_TEST(test_strides_of_pad) {
    rg_tensor *x = rg_T(rg_reshape(rg_arange(24), 4, 6)); /* Shape 6, 4, strides 1, 6. */
    rg_tensor *same = rg_pad(x, 0, 0), *less = rg_pad(x, -1, 0);
    rg_tensor *rows = rg_pad(x, 0, 0, -2, -1), *more = rg_pad(x, -1, 1);
    ck_assert(rg_stride(same, 0) == 1 && rg_stride(same, 1) == 6 && rg_equal(same, x));
    ck_assert(rg_stride(less, 0) == 1 && rg_stride(less, 1) == 6);
    ck_assert(rg_equal(less, rg_narrow(x, 1, 1, 3)));
    ck_assert(rg_stride(rows, 0) == 1 && rg_stride(rows, 1) == 3);
    ck_assert(rg_equal(rows, rg_narrow(x, 0, 2, 3)));
    ck_assert(rg_stride(more, 0) == 4 && rg_stride(more, 1) == 1);
    rg_fill_(same, 7); /* It isn't a view. */
    ck_assert_int_eq((int)rg_at(x, 0, 0), 0);
}
END_TEST

/* ---- views whose base was written to after they were made ---------------------------- */

static bool sin_over(rg_tensor *v) { return rg_sin_(v); }
static bool sin_away(rg_tensor *v) { return rg_sin(v); }
static bool adds_itself(rg_tensor *v) { return rg_add_(rg_zeros_like(v), v); }
static bool is_drawn(rg_tensor *v) {
    const char *dot = rg_graph_dot(v);
    return dot && strstr(dot, "AsStridedBackward0") && strstr(dot, "AddBackward0");
}
static bool retains(rg_tensor *v) { return rg_retain_grad(v); }
static bool is_detached(rg_tensor *v) { return rg_detach(v); }
static bool backs(rg_tensor *v) { return rg_backward(v, .retain_graph = true); }
static bool is_asked_for(rg_tensor *v) {
    return rg_grad(rg_mul(v, 2), v, .retain_graph = true) != NULL;
}

/* After a write has given the base a history, each use of a view renews the view's history from the
 * base's history. */
START_TEST(test_who_renews) {
    static bool (*const uses[])(rg_tensor * v) = { sin_over,    sin_away, adds_itself,  is_drawn,
                                                   is_detached, retains,  is_asked_for, backs };
    for (int i = 0; i < RG_COUNT(uses); i++) {
        RG_SCOPE();
        rg_tensor *b = rg_zeros_dims(RG_DIMS(2), RG_FLOAT64), *v = rg_select(b, 0, 0);
        rg_tensor *x = rg_requires_grad_(rg_ones_like(b), true);
        ck_ok(rg_add_(b, x));
        ck_assert_msg(uses[i](v), "use %d: %s", i, rg_error());
        ck_assert(rg_requires_grad(v) && rg_error_code() == RG_OK);
        ck_ok(rg_backward(rg_sum(b)));
        rg_tensor *g = rg_grad_of(x);
        const double twice = uses[i] == backs ? 2 : 1, first = uses[i] == sin_over ? cos(1) : twice;
        ck_assert_msg(rg_at(g, 0) == first && rg_at(g, 1) == 1, "use %d: %s", i, rg_repr(g));
    }
}
END_TEST

static rg_tensor *counts(rg_tensor *g, void *context) {
    (void)g;
    ++*(int *)context;
    return RG_NONE;
}

static bool counts_after(rg_tensor *t, void *context) {
    (void)t;
    ++*(int *)context;
    return true;
}

static bool hooks(rg_tensor *v) { return rg_register_hook(v, counts, NULL) >= 0; }
static bool hooks_after(rg_tensor *v) {
    return rg_register_post_accumulate_grad_hook(v, counts_after, NULL) >= 0;
}
static bool is_no_leaf(rg_tensor *v) { return rg_is_leaf(v); }
static bool has_grad_fn(rg_tensor *v) { return rg_grad_fn(v); }
static bool requires_none(rg_tensor *v) { return rg_requires_grad_(v, false); }
static bool adds_away(rg_tensor *v) { return rg_add(rg_ones_like(v), v); }
static bool multiplies(rg_tensor *v) { return rg_dot(v, v); }
static bool is_part(rg_tensor *v) { return rg_narrow(v, 0, 0, 1); }

/* If a view's history can't be renewed, each use that needs it is refused. The error has the use's
 * name and torch's words, and nothing changes. */
START_TEST(test_who_is_refused) {
    static const struct {
        const char *name;
        bool (*use)(rg_tensor *v);
    } uses[] = {
        { "register_hook", hooks }, { "register_post_accumulate_grad_hook", hooks_after },
        { "retain_grad", retains }, { "is_leaf", is_no_leaf },
        { "grad_fn", has_grad_fn }, { "requires_grad_", requires_none },
        { "sin", sin_away },        { "add", adds_away },
        { "add_", adds_itself },    { "dot", multiplies },
        { "narrow", is_part },      { "backward", backs },
    };
    rg_tensor *x = counting(4), *y = rg_mul(x, 1), *plain = rg_zeros_like(x);
    rg_tensor *of[] = { rg_split(y, 2, 0).v[1], rg_split(plain, 2, 0).v[1] };
    ck_ok(rg_add_(y, 1) && rg_add_(plain, x));
    static const char *const says[] = { "Output 1 of Split is a view",
                                        "A view was created in no_grad mode" };
    for (int i = 0; i < RG_COUNT(uses); i++)
        for (int k = 0; k < 2; k++) {
            char said[200];
            snprintf(said, sizeof said,
                     "%s: %s and its base or another view of its base has been modified inplace",
                     uses[i].name, says[k]);
            ck_fails(uses[i].use(of[k]), RG_RUNTIME_ERROR, said);
            ck_assert(rg_requires_grad(of[k]) && rg_version(of[k]) == 1);
        }
    ck_ok(rg_backward(rg_add(rg_sum(y), rg_sum(plain))));
    holds(rg_grad_of(x), "tensor([2, 2, 2, 2])");
}
END_TEST

/* A view from a list that the program has made a leaf stays a leaf after a write to its base, if
 * the base doesn't require grad. */
START_TEST(test_a_part_that_is_a_leaf) {
    rg_tensor *plain = rg_zeros_dims(RG_DIMS(4), RG_FLOAT64), *part = rg_split(plain, 2, 0).v[1];
    ck_ok(rg_requires_grad_(part, true));
    ck_ok(rg_add_(plain, 1));
    ck_assert_str_eq(rg_repr(part), "tensor([1., 1.], dtype=torch.float64, requires_grad=True)");
    ck_assert(rg_is_leaf(part) && *rg_grad_fn(part) == '\0');
    ck_ok(rg_backward(rg_sum(rg_mul(part, 3))));
    holds(rg_grad_of(part), "tensor([3, 3])");
}
END_TEST

/* Drawing over a view whose base has got a history is refused, because that history would be
 * lost. */
START_TEST(test_draws_over_stale_views) {
    rg_tensor *b = rg_zeros(2), *v = rg_select(b, 0, 0);
    ck_ok(rg_add_(b, rg_requires_grad_(rg_ones(2), true)));
    ck_fails(rg_uniform_(v, 0, 1), RG_RUNTIME_ERROR,
             "uniform_: a tensor with grad_fn=<AsStridedBackward0> would be overwritten");
}
END_TEST

/* A write to v is recorded as a write to the base b, and not through u, of which v was made. Hooks
 * of u see only gradients of results that were made of u before. */
START_TEST(test_writes_beside_hooks) {
    int calls = 0;
    rg_tensor *x = counting(4), *b = rg_mul(x, 1), *u = rg_slice(b, 0, 0, 3, 1);
    ck_assert_int_ge(rg_register_hook(u, counts, &calls), 0);
    rg_tensor *v = rg_slice(u, 0, 1, 3, 1);
    ck_ok(rg_mul_(v, 3));
    ck_ok(rg_backward(rg_sum(b)));
    ck_assert_int_eq(calls, 0);
    ck_assert(rg_at(rg_grad_of(x), 0) == 1 && rg_at(rg_grad_of(x), 1) == 3);
    /* The hooks of a view whose history was renewed don't see a later write through the view,
     * either. */
    x = counting(4);
    b = rg_mul(x, 1);
    v = rg_slice(b, 0, 0, 3, 1);
    ck_ok(rg_mul_(b, 2));
    ck_assert_int_ge(rg_register_hook(v, counts, &calls), 0);
    ck_ok(rg_mul_(v, 3));
    ck_ok(rg_backward(rg_sum(b)));
    ck_assert_int_eq(calls, 0);
    ck_assert(rg_at(rg_grad_of(x), 0) == 6 && rg_at(rg_grad_of(x), 3) == 2);
}
END_TEST

/* If an operand is released or no tensor, the error says so, and the views' histories don't
 * matter. */
START_TEST(test_writes_of_the_dead) {
    union {
        unsigned char bytes[256];
        rg_tensor *aligned;
    } none;
    memset(none.bytes, 0xFF, sizeof none.bytes);
    rg_tensor *x = counting(2), *v, *dead;
    {
        RG_NO_GRAD();
        v = rg_select(rg_mul(x, 1), 0, 0);
    }
    for (int i = 0; i < 1; i++) {
        RG_SCOPE();
        dead = rg_mul(x, 2);
    }
    ck_fails(rg_add_(v, dead), RG_RELEASED, "add: tensor released with its scope");
    ck_fails(rg_add_(v, (rg_tensor *)none.bytes), RG_TYPE_ERROR, "another pointer");
    rg_tensor *recorded = rg_mul(x, 1);
    ck_fails(rg_add_(recorded, dead), RG_RELEASED, "add: tensor released with its scope");
    ck_fails(rg_add_(recorded, (rg_tensor *)none.bytes), RG_TYPE_ERROR, "another pointer");
    ck_assert_str_eq(rg_grad_fn(recorded), "MulBackward0");
}
END_TEST

/* A view of a detached tensor shares versions with the original tensor, but has no history. */
START_TEST(test_detached) {
    rg_tensor *x = counting(3), *y = rg_mul(x, 2), *d = rg_detach(y), *v = rg_select(d, 0, 0);
    ck_ok(rg_mul_(v, 5));
    ck_assert(!rg_requires_grad(d) && !rg_requires_grad(v));
    ck_assert_str_eq(rg_grad_fn(y), "MulBackward0");
    ck_assert_int_eq(rg_version(y), 1);
    rg_tensor *z = rg_mul(y, y);
    ck_ok(rg_mul_(v, 2));
    ck_fails(rg_backward(rg_sum(z)), RG_RUNTIME_ERROR,
             "is at version 2; expected version 1 instead");
}
END_TEST

/* A write saves its result as the tensor itself, so that backward notices a later write. */
START_TEST(test_later_writes_are_seen) {
    rg_tensor *x = counting(4), *y = rg_mul(x, 1);
    ck_ok(rg_exp_(rg_slice(y, 0, 0, 2, 1)));
    ck_ok(rg_backward_with(rg_sum(y),
                           (rg_backward_options){ .gradient = RG_NONE, .retain_graph = true }));
    ck_ok(rg_add_(rg_select(y, 0, 3), 1));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
             "has been modified by an inplace operation: [torch.DoubleTensor [2]]");
    y = rg_mul(x, 1);
    ck_ok(rg_sigmoid_(y));
    ck_ok(rg_neg_(y));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "modified by an inplace operation");
}
END_TEST

/* Stores a copy of the gradient at the address in the context. */
static rg_tensor *keep_gradient(rg_tensor *g, void *context) {
    *(rg_tensor **)context = rg_keep(rg_clone(g));
    return RG_NONE;
}

/* After a write, a hook stays with the tensor's old value, but a retained gradient belongs to the
 * new one. */
START_TEST(test_who_looks_on) {
    rg_tensor *before = NULL, *of_view = NULL, *after = NULL;
    rg_tensor *x = counting(3), *y = rg_mul(x, 1), *v = rg_slice(y, 0, 0, 2, 1);
    ck_assert_int_ge(rg_register_hook(y, keep_gradient, &before), 0);
    ck_assert_int_ge(rg_register_hook(v, keep_gradient, &of_view), 0);
    ck_ok(rg_retain_grad(y));
    ck_ok(rg_retain_grad(v));
    ck_ok(rg_mul_(v, 3));
    ck_assert_int_ge(rg_register_hook(y, keep_gradient, &after), 0);
    ck_ok(rg_backward(rg_add(rg_sum(rg_mul(y, 2)), rg_sum(v))));
    holds(before, "tensor([9, 9, 2])");
    holds(after, "tensor([3, 3, 2])");
    ck_assert(!of_view);
    holds(rg_grad_of(y), "tensor([3, 3, 2])");
    holds(rg_grad_of(v), "tensor([1, 1])");
    holds(rg_grad_of(x), "tensor([9, 9, 2])");
    rg_drop(before);
    rg_drop(after);

    /* A write to a tensor that is no view also moves the retained gradient to the new value. */
    y = rg_mul(x, 1);
    ck_ok(rg_retain_grad(y));
    ck_ok(rg_mul_(rg_mul_(y, 2), 3));
    ck_ok(rg_backward(rg_sum(y)));
    holds(rg_grad_of(y), "tensor([1, 1, 1])");

    /* A view whose history isn't renewed yet accepts a hook and rg_retain_grad, since its base
     * requires grad. */
    rg_tensor *plain = rg_ones_dims(RG_DIMS(3), RG_FLOAT64), *part = rg_slice(plain, 0, 0, 2, 1);
    ck_fails(rg_retain_grad(part), RG_RUNTIME_ERROR, "has requires_grad=False");
    ck_fails(rg_register_hook(part, counts, NULL) >= 0, RG_RUNTIME_ERROR, "cannot register a hook");
    ck_ok(rg_mul_(plain, x));
    ck_ok(rg_retain_grad(part));
    before = NULL;
    ck_assert_int_ge(rg_register_hook(part, keep_gradient, &before), 0);
    ck_ok(rg_backward(rg_sum(rg_mul(part, 5))));
    holds(rg_grad_of(part), "tensor([5, 5])");
    holds(before, "tensor([5, 5])");
    rg_drop(before);

    /* A write leaves an earlier gradient in .grad as it is, and the next run adds to it. */
    y = rg_mul(x, 1);
    v = rg_slice(y, 0, 0, 2, 1);
    ck_ok(rg_retain_grad(y) && rg_retain_grad(v));
    ck_ok(rg_backward(rg_add(rg_sum(y), rg_sum(v)), .retain_graph = true));
    for (int i = 0; i < 2; i++) {
        holds(rg_grad_of(y), "tensor([2, 2, 1])");
        holds(rg_grad_of(v), "tensor([1, 1])");
        ck_ok(i || rg_mul_(v, 2));
    }
    ck_ok(rg_backward(rg_add(rg_sum(y), rg_sum(v))));
    holds(rg_grad_of(y), "tensor([4, 4, 2])");
    holds(rg_grad_of(v), "tensor([2, 2])");
}
END_TEST

/* Bases may lie in memory in any order or with gaps, and elements of views may overlap. */
START_TEST(test_layouts) {
    rg_tensor *w = counting(3);
    rg_tensor *turned = rg_detach(rg_T(rg_ones_dims(RG_DIMS(3, 2), RG_FLOAT64)));
    rg_tensor *gaps = rg_detach(rg_index(rg_ones_dims(RG_DIMS(4, 6), RG_FLOAT64), "1:3, 1:6:2"));
    rg_tensor *bases[] = { turned, gaps, rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64) };
    for (int i = 0; i < 3; i++) {
        rg_tensor *row = rg_select(bases[i], 0, 1),
                  *wide = rg_expand(rg_select(bases[i], 0, 1), 2, 3);
        ck_ok(rg_mul_(row, w));
        ck_ok(rg_mul_(rg_select(bases[i], 1, 0), 5));
        rg_tensor *many = rg_mul(wide, rg_reshape(rg_arange(6), 2, 3));
        ck_ok(rg_backward(rg_add(rg_sum(many), rg_sum(bases[i]))));
        holds(bases[i], "tensor([5, 1, 1, 5, 2, 3])");
        holds(rg_grad_of(w), "tensor([20,  6,  8])");
        ck_ok(rg_set_grad(w, RG_NONE));
    }
    rg_tensor *shared = rg_detach(rg_expand(rg_ones_dims(RG_DIMS(1, 3), RG_FLOAT64), 2, 3));
    ck_fails(rg_mul_(rg_select(shared, 0, 0), w), RG_RUNTIME_ERROR,
             "more than one element of the written-to tensor refers to a single memory location");
    rg_tensor *empty = rg_mul(rg_narrow(w, 0, 0, 0), 1), *none = rg_view(empty, 0, 2);
    ck_ok(rg_add_(none, 1));
    ck_ok(rg_backward(rg_sum(empty)));
    holds(rg_grad_of(w), "tensor([0, 0, 0])");
    rg_tensor *number = rg_sum(rg_mul(w, 1)), *same = rg_view(number, 1, 1);
    ck_ok(rg_mul_(same, 4));
    ck_ok(rg_backward(number));
    holds(rg_grad_of(w), "tensor([4, 4, 4])");
}
END_TEST

/* If a saved tensor is given other data by rg_set_data, backward notices, whether the tensor
 * requires grad or not. It also notices if a view of the old data was saved. torch would use the
 * new data in some of these cases. A saved output is not affected. */
START_TEST(test_data_between_forward_and_backward) {
    rg_tensor *x = counting(4), *w = counting(4);
    rg_tensor *constant = rg_ones_dims(RG_DIMS(4), RG_FLOAT64);
    rg_tensor *const saved[] = { rg_mul(x, x), rg_sin(x), rg_mul(rg_view(x, 2, 2), 3),
                                 rg_matmul(x, x), rg_mul(w, constant) };
    rg_tensor *output = rg_exp(x);
    ck_ok(rg_set_data(x, rg_zeros_dims(RG_DIMS(4), RG_FLOAT64)));
    ck_ok(rg_set_data(constant, rg_zeros_dims(RG_DIMS(4), RG_FLOAT64)));
    for (int i = 0; i < RG_COUNT(saved); i++)
        if (i == 2) /* A product with a number saves nothing. */
            ck_ok(rg_backward(rg_sum(saved[i])));
        else
            ck_fails(rg_backward(rg_sum(saved[i])), RG_RUNTIME_ERROR,
                     "The last write was by set_data");
    ck_ok(rg_backward(rg_sum(output)));
}
END_TEST

/* After a base was given other data, its old views no longer follow it. */
START_TEST(test_a_base_with_other_data) {
    rg_tensor *x = rg_ones_dims(RG_DIMS(4), RG_FLOAT64), *v = rg_slice(x, 0, 2, 4, 1),
              *w = counting(2);
    ck_ok(rg_set_data(x, rg_zeros_dims(RG_DIMS(4), RG_FLOAT64)));
    ck_ok(rg_mul_(v, w));
    ck_assert(!rg_requires_grad(x));
    ck_ok(rg_backward(rg_sum(v)));
    holds(rg_grad_of(w), "tensor([1, 1])");
    holds(x, "tensor([0, 0, 0, 0])");
    /* A view that would reach beyond the base's new data in the same memory doesn't follow it,
     * either. */
    rg_tensor *memory = rg_ones_dims(RG_DIMS(9), RG_FLOAT64);
    rg_tensor *apart = rg_detach(rg_index(memory, "0:9:3"));
    v = rg_slice(apart, 0, 1, 3, 1);
    ck_ok(rg_set_data(apart, rg_detach(rg_index(memory, "0:6:2"))));
    ck_ok(rg_mul_(v, w));
    ck_assert(!rg_requires_grad(apart));
    /* A view of the base's old data keeps its history and its retained gradient. */
    rg_tensor *base = counting(4), *old = rg_slice(base, 0, 2, 4, 1);
    ck_ok(rg_retain_grad(old));
    {
        RG_NO_GRAD();
        ck_ok(rg_set_data(base, rg_zeros_dims(RG_DIMS(4), RG_FLOAT64)));
        ck_ok(rg_mul_(old, 2));
    }
    ck_ok(rg_backward(rg_sum(rg_mul(old, 3))));
    holds(rg_grad_of(old), "tensor([3, 3])");
    holds(rg_grad_of(base), "tensor([0, 0, 3, 3])");
}
END_TEST

/* After a leaf was given other data in the same memory, a view of the old data keeps its history.
 * The new data lie before the view, behind it, or share elements with it. */
START_TEST(test_a_leaf_with_other_data) {
    for (int way = 0; way < 3; way++) {
        RG_SCOPE();
        rg_tensor *memory = rg_ones_dims(RG_DIMS(9), RG_FLOAT64);
        rg_tensor *x = rg_detach(rg_narrow(memory, 0, 3, 3));
        ck_ok(rg_requires_grad_(x, true));
        rg_tensor *v = rg_select(x, 0, 1);
        rg_tensor *other[] = { rg_narrow(memory, 0, 0, 3), rg_narrow(memory, 0, 6, 3),
                               rg_expand(rg_narrow(memory, 0, 4, 1), 3) };
        {
            RG_NO_GRAD();
            ck_ok(rg_set_data(x, rg_detach(other[way])));
            ck_ok(rg_add_(memory, 1));
        }
        ck_ok(rg_backward(rg_mul(v, 5)));
        holds(rg_grad_of(x), "tensor([0, 5, 0])");
        ck_assert_str_eq(rg_grad_fn(v), "SelectBackward0");
    }
}
END_TEST

/* The other data may have another dtype and layout, which the tensor takes over. A leaf that was a
 * view no longer follows its base. */
START_TEST(test_other_data) {
    rg_tensor *w = counting(4), *turned = rg_T(rg_float(rg_reshape(rg_arange(6), 2, 3)));
    rg_tensor *base = rg_ones_dims(RG_DIMS(3, 4), RG_FLOAT64), *view = rg_narrow(base, 1, 1, 2);
    ck_ok(rg_set_data(view, turned));
    ck_assert(rg_dtype_of(view) == RG_FLOAT32 && !rg_is_contiguous(view));
    ck_assert(rg_stride(view, 0) == 1 && rg_stride(view, 1) == 3 && rg_equal(view, turned));
    ck_ok(rg_add_(base, 1));
    ck_assert(rg_equal(view, turned));
    ck_ok(rg_mul_(view, 2));
    ck_assert(rg_at(turned, 1, 1) == 8 && rg_at(base, 1, 1) == 2);
    rg_tensor *flat = rg_ones_dims(RG_DIMS(3, 2), RG_FLOAT32);
    ck_ok(rg_set_data(view, flat));
    ck_assert(rg_is_contiguous(view) && rg_equal(view, flat));
    ck_fails(rg_detach_(rg_narrow(base, 1, 1, 2)), RG_RUNTIME_ERROR, "Can't detach views in-place");
    ck_ok(rg_detach_(view));
    /* A view that requires grad from now on is a leaf of its own. */
    rg_tensor *part = rg_narrow(rg_ones_dims(RG_DIMS(6), RG_FLOAT64), 0, 1, 4);
    ck_ok(rg_set_data(part, rg_detach(w)));
    ck_ok(rg_requires_grad_(part, true));
    ck_ok(rg_backward(rg_sum(rg_mul(part, 3))));
    holds(rg_grad_of(part), "tensor([3, 3, 3, 3])");
    /* A gradient has the dtype of the data, so a gradient of another dtype is dropped. */
    ck_ok(rg_set_data(part, rg_ones(4)));
    ck_assert(rg_grad_of(part) == RG_NONE);
    ck_ok(rg_backward(rg_sum(rg_mul(part, 2))));
    ck_assert(rg_dtype_of(rg_grad_of(part)) == RG_FLOAT32);
    ck_ok(rg_set_data(part, rg_zeros(4)));
    holds(rg_grad_of(part), "tensor([2, 2, 2, 2])");
    ck_fails(rg_set_data(part, NULL), RG_TYPE_ERROR, "set_data: expected a tensor but got NULL");
    ck_fails(rg_set_data(NULL, part), RG_TYPE_ERROR, "set_data: expected a tensor but got NULL");
    ck_fails(rg_set_data(part, rg_ones(3)), RG_RUNTIME_ERROR, "expects a leaf, and data of its");
    ck_fails(rg_set_data(part, rg_arange(4)), RG_RUNTIME_ERROR, "must be floating point");
    ck_fails(rg_set_data(rg_mul(part, 2), rg_ones(4)), RG_RUNTIME_ERROR,
             "set_data: expects a leaf");
}
END_TEST

/* ---- derivatives against differences ------------------------------------------------ */

/* Writes through views of views, reads between the writes, and reads a stale view. */
static rg_tensor *weave(rg_tensor *const in[], void *context) {
    (void)context;
    rg_tensor *y = rg_mul(in[0], in[0]);
    rg_tensor *columns = rg_T(y), *corner = rg_index(columns, ":2, 1:"), *row = rg_select(y, 0, 1);
    rg_mul_(row, rg_select(in[1], 0, 0));
    rg_tensor *read = rg_mul(corner, 1.5);
    rg_sub_(rg_diagonal(corner, 0, 0, 1), rg_narrow(rg_select(in[1], 0, 1), 0, 1, 2));
    rg_set_item_(columns, rg_sum(read), 0, 0);
    rg_exp_(rg_select(corner, 0, 1));
    return rg_add(rg_mul(corner, read), rg_sum(columns));
}

START_TEST(test_gradcheck) {
    rg_manual_seed(5);
    rg_tensor *in[2] = { rg_to(rg_randn(3, 3), RG_FLOAT64), rg_to(rg_randn(2, 3), RG_FLOAT64) };
    rg_requires_grad_(in[0], true);
    rg_requires_grad_(in[1], true);
    ck_ok(rg_gradcheck(weave, NULL, 2, in));
    ck_ok(rg_gradgradcheck(weave, NULL, 2, in));
}
END_TEST

/* ---- memory ------------------------------------------------------------------------- */

/* Makes views and writes through them, while each request for memory is denied in turn. A write
 * that fails leaves values and histories unchanged. */
START_TEST(test_memory_fails) {
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        int64_t before = rg_live_tensors(), nodes = rg_memory_stats().nodes;
        {
            RG_SCOPE();
            rg_tensor *x = counting(4), *y = rg_mul(x, 1), *v = rg_slice(y, 0, 1, 3, 1);
            rg_tensor *u = rg_select(y, 0, 2), *w = counting(2);
            ck_assert(x && y && v && u && w);
            rg_memory_fail_at(fail);
            bool wrote = rg_mul_(v, w);
            rg_memory_fail_at(0);
            ck_assert_str_eq(rg_grad_fn(y), wrote ? "CopySlices" : "MulBackward0");
            holds(y, wrote ? "tensor([1, 2, 6, 4])" : "tensor([1, 2, 3, 4])");
            rg_error_clear();
            if (wrote) {
                ck_ok(rg_retain_grad(y));
                rg_memory_fail_at(fail);
                done = rg_mul_(u, 2) && rg_backward(rg_add(rg_sum(v), u));
                rg_memory_fail_at(0);
                ck_assert(done || rg_error_code() == RG_OUT_OF_MEMORY);
            }
            if (done)
                holds(rg_grad_of(x), "tensor([0, 1, 8, 0])");
            rg_error_clear();
        }
        ck_assert_int_eq(rg_live_tensors(), before);
        ck_assert_int_eq(rg_memory_stats().nodes, nodes);
    }
}
END_TEST

/* Each write to a slice costs memory for the slice, not for its base. */
START_TEST(test_backward_of_many_writes) {
    enum { N = 256 };
    rg_tensor *x = rg_requires_grad_(rg_ones_dims(RG_DIMS(N, 64), RG_FLOAT64), true);
    rg_tensor *y = rg_mul(x, 1);
    int64_t before = rg_memory_stats().now;
    for (int i = 0; i < N; i++)
        ck_ok(rg_mul_(rg_select(y, 0, i), 2));
    ck_assert_int_lt(rg_memory_stats().now - before, 8 * N * 64 * (int64_t)sizeof(double));
    before = rg_memory_stats().now;
    rg_memory_reset_peak();
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert_int_lt(rg_memory_stats().peak - before, 6 * N * 64 * (int64_t)sizeof(double));
    ck_assert_double_eq(rg_at(rg_grad_of(x), N - 1, 63), 2);
}
END_TEST

/* ---- replay, anomaly mode, drawing, threads ------------------------------------------ */

typedef struct {
    rg_tensor *x, *w, *loss;
} replayed;

static void replayed_step(void *context) {
    replayed *r = context;
    rg_set_grad(r->w, RG_NONE);
    rg_tensor *y = rg_mul(r->x, r->w), *v = rg_select(y, 0, 1), *u = rg_slice(y, 1, 0, 2, 1);
    rg_mul_(v, rg_exp(r->w));
    rg_tensor *read = rg_mul(u, 3);
    rg_add_(rg_select(u, 1, 0), rg_select(r->w, 0, 0));
    rg_sigmoid_(rg_T(y));
    rg_tensor *loss = rg_sum(rg_mul(rg_slice(y, 1, 1, 3, 1), rg_sum(read)));
    rg_backward(rg_add(loss, rg_sum(u)));
    if (r->loss)
        rg_drop(r->loss);
    r->loss = rg_keep(loss);
}

/* A recorded step that writes through views gives the same on new inputs as the step itself. */
START_TEST(test_replay) {
    replayed a = { .x = rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64), .w = rg_mul(counting(3), 0.25) };
    replayed b = { .x = rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64) };
    a.w = rg_requires_grad_(rg_detach(a.w), true);
    b.w = rg_requires_grad_(rg_clone(rg_detach(a.w)), true);
    rg_replay *r = rg_record(replayed_step, &a);
    ck_assert_msg(r != NULL, "%s", rg_error());
    replayed_step(&b);
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(rg_repr(rg_grad_of(a.w)), rg_repr(rg_grad_of(b.w)));
        ck_assert(rg_equal(rg_grad_of(a.w), rg_grad_of(b.w)) && rg_equal(a.loss, b.loss));
        ck_ok(rg_fill_(a.x, 0.1 * i));
        ck_ok(rg_fill_(b.x, 0.1 * i));
        ck_ok(rg_replay_run(r));
        replayed_step(&b);
    }
    rg_replay_free(r);
    rg_drop(a.loss);
    rg_drop(b.loss);
}
END_TEST

START_TEST(test_drawing_and_anomalies) {
    rg_tensor *x = counting(3), *y = rg_sub(x, 1), *v = rg_slice(y, 0, 0, 2, 1);
    ck_ok(rg_mul_(v, 2));
    const char *dot = rg_graph_dot(v);
    ck_assert(strstr(dot, "CopySlices") && strstr(dot, "AsStridedBackward0"));
    rg_set_detect_anomaly(true);
    ck_fails(rg_log_(v), RG_RUNTIME_ERROR, "log: the first -inf arose forward in log of [2]");
    holds(y, "tensor([0, 2, 2])");
    ck_ok(rg_sqrt_(v));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
             "sqrt: the first inf arose backward in SqrtBackward0");
    rg_set_detect_anomaly(false);
}
END_TEST

typedef struct {
    rg_tensor *view;
    double sum;
} reader;

static void *read_view(void *context) {
    reader *r = context;
    RG_FOR (int i = 0; i < 50; i++)
        r->sum += rg_item(rg_sum(rg_mul(r->view, 2)));
    return NULL;
}

/* If several threads use a stale view at once, its history is renewed once. */
START_TEST(test_threads) {
    for (int turn = 0; turn < 20; turn++) {
        RG_SCOPE();
        rg_tensor *y = rg_mul(counting(4), 1), *v = rg_slice(y, 0, 1, 3, 1);
        ck_ok(rg_mul_(y, 2));
        reader readers[4];
        pthread_t thread[4];
        for (int i = 0; i < 4; i++) {
            readers[i] = (reader){ v, 0 };
            ck_assert_int_eq(pthread_create(&thread[i], NULL, read_view, &readers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(thread[i], NULL);
            ck_assert_double_eq(readers[i].sum, 50 * 20);
        }
        ck_assert_str_eq(rg_grad_fn(v), "AsStridedBackward0");
    }
}
END_TEST

/* A write releases its intermediate tensors, and leaves nothing to the caller's scope. */
START_TEST(test_writes_leave_nothing) {
    for (int recorded = 0; recorded < 2; recorded++) {
        RG_SCOPE();
        rg_tensor *w = recorded ? rg_requires_grad_(rg_ones(3), true) : rg_ones(3);
        rg_tensor *y = rg_mul(counting(4), 1), *z = rg_mul(counting(4), 1);
        rg_tensor *from = rg_slice(y, 0, 0, 3, 1), *to = rg_slice(y, 0, 1, 4, 1);
        rg_tensor *part = rg_slice(z, 0, 1, 4, 1), *whole = rg_ones(3), *wide = rg_ones(3, 3);
        struct {
            rg_tensor *to, *from;
        } writes[] = { { to, from },     { part, w }, { whole, w },
                       { whole, whole }, { wide, w }, { rg_T(wide), wide } };
        for (int i = 0; i < (int)(sizeof writes / sizeof *writes); i++) {
            ck_ok(rg_mul_(writes[i].to, writes[i].from));
            const int64_t live = rg_live_tensors();
            for (int k = 0; k < 3; k++)
                ck_ok(rg_mul_(writes[i].to, writes[i].from));
            const int64_t more = rg_live_tensors() - live;
            ck_assert_msg(more == 0, "write %d leaves %d", i, (int)more);
        }
    }
}
END_TEST

/* A view that has a name still has its base, whether the base or the view is released first. */
START_TEST(test_named) {
    int64_t live = rg_live_tensors(), bytes = 0;
    for (int turn = 0; turn < 5; turn++) {
        if (turn == 1)
            bytes = rg_memory_stats().other;
        RG_SCOPE();
        rg_tensor *y = rg_mul(counting(4), 1), *v = rg_set_name(rg_slice(y, 0, 1, 3, 1), "v");
        ck_assert_str_eq(rg_name(rg_set_name(v, "a longer name")), "a longer name");
        rg_tensor *w = rg_slice(v, 0, 1, 2, 1);
        if (turn & 1)
            ck_assert_str_eq(rg_name(rg_set_name(v, NULL)), "");
        ck_ok(rg_mul_(w, 3));
        if (turn & 2)
            rg_set_name(w, "w");
        ck_assert_str_eq(rg_grad_fn(y), "CopySlices");
        ck_assert_str_eq(rg_grad_fn(v), "AsStridedBackward0");
        ck_assert_str_eq(rg_name(v), turn & 1 ? "" : "a longer name");
        ck_assert_double_eq(rg_at(v, 1), rg_at(y, 2));
        rg_set_name(y, "y");
        ck_assert_double_eq(rg_at(rg_mul(v, 1), 1), rg_at(y, 2));
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_int_eq(rg_memory_stats().other, bytes);
}
END_TEST

/* ---- shapes of tensors with gaps ------------------------------------------------------- */

/* Stores the offset of each element of t, in order. */
static void note_offsets(rg_tensor *t, int64_t offsets[]) {
    for (int64_t i = 0; i < rg_numel(t); i++) {
        int64_t rest = i;
        offsets[i] = 0;
        for (int d = rg_ndim(t) - 1; d >= 0; d--) {
            offsets[i] += rest % rg_size(t, d) * rg_stride(t, d);
            rest /= rg_size(t, d);
        }
    }
}

/* Returns whether there are strides with which a tensor of this shape has these offsets. The stride
 * of a dim is the offset of its second element. */
static bool has_strides(const int64_t offsets[], rg_dims shape, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, apart = 1, offset = 0;
        for (int d = shape.n - 1; d >= 0; d--) {
            const int64_t at = rest % shape.v[d];
            offset += at ? at * offsets[apart] : 0;
            rest /= shape.v[d];
            apart *= shape.v[d];
        }
        if (offset != offsets[i])
            return false;
    }
    return true;
}

/* Calls view() with all shapes of up to four dims. Asserts that it succeeds exactly for those
 * shapes for which has_strides finds strides. Returns how many calls succeed. */
static int count_views(rg_tensor *x) {
    const int64_t n = rg_numel(x);
    int64_t offsets[64];
    int found = 0;
    note_offsets(x, offsets);
    for (int64_t a = 1; a <= n; a++)
        for (int64_t b = 1; b <= n; b++)
            for (int64_t c = 1; c <= n; c++) {
                RG_SCOPE();
                if (n % (a * b * c))
                    continue;
                const rg_dims shape = RG_DIMS(a, b, c, n / (a * b * c));
                const bool fits = has_strides(offsets, shape, n);
                rg_tensor *y = rg_view_dims(x, shape);
                ck_assert_msg((y != NULL) == fits, "%s as %s", rg_str(x),
                              rg_str(rg_zeros_dims(shape, RG_FLOAT32)));
                ck_assert(rg_equal(fits ? y : rg_reshape_dims(x, shape),
                                   rg_reshape_dims(rg_contiguous(x), shape)));
                found += fits;
                rg_error_clear();
            }
    return found;
}

/* view() joins and splits dims wherever strides allow it. The stride of a dim of one element
 * doesn't matter. */
START_TEST(test_all_shapes_of_what_lies_apart) {
    rg_tensor *row = rg_arange(12), *box = rg_reshape(rg_arange(24), 1, 2, 3, 4);
    rg_tensor *apart[] = {
        rg_reshape(row, 3, 4),
        rg_t(rg_reshape(row, 3, 4)),
        rg_narrow(rg_reshape(row, 3, 4), 1, 0, 2),
        rg_permute(rg_select(rg_reshape(row, 1, 2, 3, 2), -1, 0), 1, 0, 2),
        rg_permute(rg_narrow(box, 3, 1, 2), 1, 0, 2, 3),
        rg_permute(rg_narrow(box, 2, 1, 1), 1, 2, 3, 0),
        rg_permute(rg_narrow(box, 1, 1, 1), 3, 1, 0, 2),
        rg_transpose(rg_narrow(box, 3, 2, 1), 1, 3),
        rg_expand(rg_narrow(rg_reshape(row, 3, 1, 4), 2, 1, 2), 3, 2, 2),
    };
    int found = 0;
    for (int i = 0; i < RG_COUNT(apart); i++)
        found += count_views(apart[i]);
    ck_assert_int_gt(found, 100);
}
END_TEST

/* ---- how results lie in memory ------------------------------------------------------ */

static void check_turned(const char *what, rg_tensor *t) {
    ck_assert_msg(t && rg_stride(t, 0) == 1 && rg_stride(t, 1) == 3, "%s: %s", what, rg_error());
}

/* If an elementwise op gets a transposed tensor, its result is also transposed in memory. The same
 * is true of a copy, and of a tensor that rg_zeros_like or a similar function makes.
 * (tests/golden/data/layouts/ has cases of every function, with other layouts.) */
START_TEST(test_results_lie_as_their_inputs) {
    rg_tensor *x = rg_reshape(rg_arange_as(12, RG_FLOAT64), 4, 3);
    rg_tensor *xT = rg_t(x);
    rg_tensor *number = rg_scalar(2.5);
    check_turned("sin", rg_sin(xT));
    check_turned("add", rg_add(xT, 1));
    check_turned("to", rg_to(xT, RG_FLOAT32));
    check_turned("mul of an integer", rg_mul(rg_to(xT, RG_INT64), number));
    check_turned("where", rg_where(rg_gt(xT, 3), xT, 0));
    check_turned("dropout", rg_dropout(xT, 0.5, true));
    check_turned("clone", rg_clone(xT));
    check_turned("zeros_like", rg_zeros_like(xT));
    check_turned("ones_like", rg_ones_like(xT));
    check_turned("full_like", rg_full_like(xT, 7));
    check_turned("empty_like", rg_empty_like(xT));
    check_turned("rand_like", rg_rand_like(xT));
    check_turned("a copy of what has gaps", rg_clone(rg_t(rg_narrow(rg_zeros(4, 5), 1, 1, 3))));
    ck_assert(rg_equal(rg_full_like(xT, 7), rg_full(RG_DIMS(3, 4), 7)));
    ck_assert(rg_is_contiguous(rg_contiguous(xT)));
    ck_assert(rg_is_contiguous(rg_clone(rg_expand(rg_reshape(rg_arange(3), 1, 3), 4, 3))));

    rg_tensor *y = rg_clone(xT);
    ck_assert(rg_zero_(rg_reshape(y, -1)) != NULL);
    ck_assert(rg_equal(y, xT));
    ck_assert(rg_view(rg_sin(xT), -1) == NULL);
    ck_assert_msg(strstr(rg_error(), "view size is not compatible"), "%s", rg_error());
}
END_TEST

/* The gradient of a leaf has the leaf's layout in memory, or is contiguous if the leaf has gaps. */
START_TEST(test_gradients_lie_as_their_leaves) {
    for (int graph = 0; graph < 2; graph++) {
        rg_tensor *row = rg_requires_grad_(rg_ones(4, 3), true);
        rg_tensor *turned = rg_requires_grad_(rg_clone(rg_t(rg_ones(4, 3))), true);
        rg_tensor *gaps = rg_requires_grad_(rg_t(rg_narrow(rg_ones(4, 5), 1, 1, 3)), true);
        rg_tensor *y = rg_mul(rg_mul(rg_t(row), rg_clone(rg_t(rg_ones(4, 3)))), turned);
        y = rg_sum(rg_mul(y, gaps));
        for (int again = 0; again < 2; again++) {
            ck_assert(rg_backward(y, .create_graph = graph, .retain_graph = true));
            ck_assert(rg_is_contiguous(rg_grad_of(row)));
            check_turned("a leaf's gradient", rg_grad_of(turned));
            if (!again)
                ck_assert(rg_is_contiguous(rg_grad_of(gaps)));
            rg_tensor *all = rg_full(RG_DIMS(3, 4), again + 1.0);
            ck_assert(rg_equal(rg_grad_of(turned), all) && rg_equal(rg_grad_of(gaps), all));
            ck_assert(rg_equal(rg_grad_of(row), rg_t(all)));
        }
        ck_assert(rg_set_grad(turned, RG_NONE));
        ck_assert(rg_set_data(turned, rg_ones(3, 4)));
        ck_assert(rg_backward(rg_sum(rg_t(turned))));
        ck_assert(rg_is_contiguous(rg_grad_of(turned)));
    }
}
END_TEST

/* A step that was recorded with transposed tensors runs on transposed tensors. */
static rg_tensor *turned_x, *turned_w, *turned_y;

static void turned_step(void *unused) {
    (void)unused;
    rg_tensor *y = rg_mul(rg_sigmoid(rg_t(turned_x)), turned_w);
    turned_y = rg_keep(rg_add(y, rg_dropout(rg_clone(y), 0, true)));
    rg_backward(rg_sum(rg_square(turned_y)));
}

START_TEST(test_replay_of_what_is_turned) {
    turned_x = rg_randn(4, 3);
    turned_w = rg_requires_grad_(rg_clone(rg_t(rg_randn(4, 3))), true);
    rg_replay *r = rg_record(turned_step, NULL);
    ck_assert_msg(r != NULL, "%s", rg_error());
    check_turned("an output", turned_y);
    rg_mul_(turned_x, 0.5);
    ck_assert(rg_set_grad(turned_w, RG_NONE));
    ck_assert_msg(rg_replay_run(r), "%s", rg_error());
    rg_tensor *y = rg_clone(turned_y), *gradient = rg_clone(rg_grad_of(turned_w));
    rg_drop(turned_y);
    ck_assert(rg_set_grad(turned_w, RG_NONE));
    turned_step(NULL);
    ck_assert(rg_equal(y, turned_y));
    ck_assert(rg_allclose(gradient, rg_grad_of(turned_w), 1e-6, 0));
    check_turned("a gradient", rg_grad_of(turned_w));
    rg_drop(turned_y);
    rg_replay_free(r);
}
END_TEST

/* As in PyTorch, a view requires grad if its base does, even if the view was made without grad mode
 * or before the base required grad. Results computed from such a view have no history. */
START_TEST(test_requires_grad_of_the_base) {
    rg_tensor *x = rg_requires_grad_(rg_ones(4), true), *of_leaf, *of_result;
    rg_tensor *result = rg_mul(x, 1), *later = rg_ones(4), *before = rg_narrow(later, 0, 0, 2);
    {
        RG_NO_GRAD();
        of_leaf = rg_narrow(x, 0, 0, 2);
        of_result = rg_narrow(result, 0, 0, 2);
    }
    ck_assert(!rg_requires_grad(before));
    rg_requires_grad_(later, true);
    rg_tensor *const views[] = { of_leaf, of_result, before };
    for (int i = 0; i < RG_COUNT(views); i++) {
        ck_each(rg_requires_grad(views[i]) && rg_is_leaf(views[i]) && !*rg_grad_fn(views[i]),
                "view %d", i);
        ck_assert_str_eq(rg_repr(views[i]), "tensor([1., 1.], requires_grad=True)");
        ck_each(!rg_requires_grad(rg_detach(views[i])), "view %d", i);
        ck_each(!rg_requires_grad(rg_mul(views[i], 2)), "view %d", i);
    }
    rg_requires_grad_(later, false);
    ck_assert(!rg_requires_grad(before));
    ck_assert(rg_requires_grad_(of_leaf, true) && rg_backward(rg_sum(rg_mul(of_leaf, 3))));
    ck_assert(rg_equal(rg_grad_of(of_leaf), rg_mul(rg_ones(2), 3)) && rg_grad_of(x) == RG_NONE);
    ck_assert_msg(rg_error_code() == RG_OK, "%s", rg_error());
}
END_TEST

RG_TESTS(views, test_strides_of_einsum, test_strides_of_pad,
         test_data_between_forward_and_backward, test_results_lie_as_their_inputs,
         test_gradients_lie_as_their_leaves, test_replay_of_what_is_turned,
         test_all_shapes_of_what_lies_apart, test_random_programs, test_who_renews,
         test_who_is_refused, test_requires_grad_of_the_base, test_a_part_that_is_a_leaf,
         test_a_leaf_with_other_data, test_draws_over_stale_views, test_writes_beside_hooks,
         test_writes_of_the_dead, test_base_takes_the_write_in, test_base_without_history,
         test_subscripts_of_views, test_what_is_refused, test_detached, test_most_dims,
         test_later_writes_are_seen, test_who_looks_on, test_layouts, test_a_base_with_other_data,
         test_other_data, test_gradcheck, test_memory_fails, test_backward_of_many_writes,
         test_replay, test_drawing_and_anomalies, test_threads, test_named,
         test_writes_leave_nothing)

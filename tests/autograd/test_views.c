/*
 * test_views.c: writing through views. Random programs of views and writes give what PyTorch gives:
 * values, histories, gradients of both orders, what hooks see, and errors
 * (tests/golden/make/views.py says how they are written). What such programs don't reach is tested
 * by hand: memory, replay, threads, derivatives against differences.
 */
#include "tests/test.h"
#include "tests/golden.h"
#include "regard.h"

#include <math.h>
#include <string.h>

/* ---- random programs --------------------------------------------------------------- */

enum { MOST = 64 };

/* What a hook was called with is a list of numbers, one gradient behind the other. */
typedef struct {
    int n;
    double v[512];
} seen;

/* A program has made these tensors so far; `more` says that its last line isn't read yet. */
typedef struct {
    int n, n_hooks, n_leaves;
    rg_tensor *t[MOST];
    seen hook[MOST];
    /* The results of `second` belong to these tensors. */
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

/* These numbers are exact in binary. */
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
        { "mul", (rg_mul) },     { "add", (rg_add) },   { "sub", (rg_sub) },   { "add_", (rg_add_) },
        { "sub_", (rg_sub_) },   { "mul_", (rg_mul_) }, { "div_", (rg_div_) }, { "copy_", (rg_copy_) },
        { "fill_", (rg_fill_) }, { "pow_", (rg_pow_) },
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
        if (known || !rg_requires_grad(p->t[k]) || !rg_is_leaf(p->t[k]))
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

/* Adds a tensor to the program's. Returns false if there is none. */
static bool made(program *p, rg_tensor *t) {
    if (t)
        p->t[p->n++] = t;
    return t != NULL;
}

/* Runs a statement, and returns whether it succeeded. */
static bool statement(program *p, char *at) {
    char *kind = golden_word(&at), *name;
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
    bool named = is(kind, "unary") || is(kind, "binary") || is(kind, "write_number");
    name = named || is(kind, "write") ? golden_word(&at) : "";
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

/* Compares with the numbers of the next line, if that holds any. In second order no gradient may
 * stand for zeros: PyTorch makes some where nothing depends on an input any more. */
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

/* Runs a program and compares what it gives. Returns whether it came to its end without an error. */
static bool run_program(golden_file *f) {
    static program p;
    memset(&p, 0, sizeof p);
    p.f = f;
    RG_SCOPE();
    bool ok = true;
    char kind;
    while ((kind = golden_peek(f)) && kind != '=') {
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

RG_TESTS(views, test_random_programs)

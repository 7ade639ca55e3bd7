/*
 * recurrent.c: recurrent layers in one direction. One op computes all time steps of a sequence, so
 * that a time step costs one matrix product and one loop. The gradient of the weight is one product
 * over all time steps. (Layers with two directions, and sequences of different lengths, are in
 * nn/layers/recurrent.c.)
 *
 * This file is long because three ops share what their forwards and derivatives have in common.
 */
#include "autocast.h"
#include "elementwise.h"

#include "autograd/checks.h"
#include "autograd/op.h"

/* ---- functions for all three ops ------------------------------------------------- */

/* The attributes of the three recurrent ops. Their inputs are the gates from x (rg_linear of all
 * time steps), the weight and h_0. An LSTM has c_0 as a fourth input, and a GRU the bias. An RNN
 * has one output, h. A GRU has h and the activated gates, and an LSTM has h, c and the activated
 * gates. Activated gates are the gates after their sigmoid or tanh. In a GRU's output, n_h follows
 * them (see gru_scan). */
struct recurrent_attr {
    k_recurrent_kind kind;
    bool reverse;
};

static inline bool recurrent_is(const void *attr, k_recurrent_kind kind) {
    return ((const struct recurrent_attr *)attr)->kind == kind;
}

/* Returns the index of the output that holds the activated gates, or 0 if there is none. */
static inline int recurrent_gates_at(const void *attr) {
    if (recurrent_is(attr, K_LSTM))
        return 2;
    return recurrent_is(attr, K_GRU) ? 1 : 0;
}

static int recurrent_gates(const void *attr) {
    if (recurrent_is(attr, K_LSTM))
        return 4;
    return recurrent_is(attr, K_GRU) ? 3 : 1;
}

static bool recurrent_shape(rg_call *c) {
    const rg_tensor *gates = c->in[0];
    const int64_t hidden = gates->size[2] / recurrent_gates(c->attr);
    const int at = recurrent_gates_at(c->attr);
    for (int k = 0; k < c->n_out; k++) {
        rgi_copy_shape(c->out[k], gates);
        c->out[k]->size[2] = k && k == at ? 4 * hidden : hidden;
    }
    return true;
}

static k_recurrent recurrent_sizes(const void *attr, const rg_tensor *y, int64_t from) {
    const struct recurrent_attr *a = attr;
    return (k_recurrent){ .kind = a->kind,
                          .steps = y->size[0],
                          .batch = y->size[1],
                          .hidden = y->size[2],
                          .from = from,
                          .reverse = a->reverse };
}

static bool recurrent_forward(rg_call *c) {
    if (c->out[0]->numel == 0)
        return true;
    rg_tensor *t[4];
    const int at = recurrent_gates_at(c->attr);
    const bool lstm = recurrent_is(c->attr, K_LSTM);
    bool ok = rgi_contiguous_copies(c->n_in, t, c->in);
    if (ok) {
        const k_recurrent z = recurrent_sizes(c->attr, c->out[0], c->in[1]->size[1]);
        const k_recurrent_values v = { .y = c->out[0],
                                       .c = lstm ? c->out[1] : NULL,
                                       .gates = at ? c->out[at] : NULL,
                                       .h_0 = t[2],
                                       .c_0 = lstm ? t[3] : NULL };
        ok = k_recur(&z, &v, t[0], t[1], recurrent_is(c->attr, K_GRU) ? t[3] : NULL);
    }
    rgi_release_all(c->n_in, t);
    return ok;
}

/* ---- the derivative of all three ops, in one pass -------------------------------- */

/* Copies n elements of `from`, from number `of` on, to the elements of `to` from number `at` on.
 * Requires contiguous tensors of one dtype. */
static void recurrent_copy(rg_tensor *to, int64_t at, const rg_tensor *from, int64_t of,
                           int64_t n) {
    const rg_dtype dtype = (rg_dtype)to->dtype;
    const int64_t item = (int64_t)rgi_sizeof(dtype);
    char *const p[] = { to->data + at * item, from->data + of * item };
    rgi_copy_loop(dtype, dtype)(p, (int64_t[]){ item, item }, n, NULL);
}

/* Returns a new tensor (steps, batch, hidden) with the hidden state from which each time step
 * starts. The time step that is computed first starts from h_0. Each later one starts from the
 * result of the time step computed before it. If there is only one time step, returns a new
 * reference to h_0. The caller releases the result. Returns NULL if memory ran out. */
static rg_tensor *recurrent_before(const k_recurrent *z, const rg_tensor *y, rg_tensor *h_0) {
    if (z->steps == 1) {
        rgi_retain(h_0);
        return h_0;
    }
    rg_tensor *before = rgi_new_like(y, (rg_dtype)y->dtype);
    if (!before)
        return NULL;
    const int64_t first = h_0->numel;
    const int64_t rest = y->numel - first;
    recurrent_copy(before, z->reverse ? rest : 0, h_0, 0, first);
    recurrent_copy(before, z->reverse ? 0 : first, y, z->reverse ? first : 0, rest);
    return before;
}

/* Returns t's header (an rg_tensor that shares t's elements), with all dims but the last joined. */
static rg_tensor recurrent_rows(const rg_tensor *t) {
    rg_tensor rows = rgi_header_of(t);
    const int64_t last = t->size[t->ndim - 1];
    rows.ndim = 2;
    rows.size[0] = last ? t->numel / last : 0;
    rows.size[1] = last;
    rows.stride[0] = last;
    rows.stride[1] = 1;
    return rows;
}

/* Computes the gradients of the weight and of a GRU's bias, if they are wanted. `g` is the gradient
 * of the product of h and the weight, for all time steps. */
static bool recurrent_weight(const rg_step *s, rg_tensor *gin[], const k_recurrent *z,
                             const rg_tensor *y, rg_tensor *h_0, const rg_tensor *g) {
    const rg_dtype dtype = (rg_dtype)y->dtype;
    const rg_tensor rows = recurrent_rows(g);
    bool ok = true;
    if (rgi_wants(s, 1)) {
        rg_tensor *before = recurrent_before(z, y, h_0);
        gin[1] = rgi_new(dtype, 2, rgi_input_dims(s, 1).v);
        ok = before && gin[1];
        if (ok) {
            const rg_tensor from = recurrent_rows(before);
            ok = k_matmul_with(gin[1], NULL, &rows, true, &from, false, 1, 0);
        }
        rgi_release(before);
    }
    if (ok && z->kind == K_GRU && rgi_wants(s, 3)) {
        gin[3] = rgi_new(dtype, 1, &rows.size[1]);
        ok = gin[3] && k_sum(gin[3], &rows, 1);
    }
    return ok;
}

/* Allocates the tensors to which the kernel writes the gradients, and stores them in *g. Returns
 * false if memory ran out. */
static bool recurrent_room(k_recurrent_gradients *g, const k_recurrent *z,
                           const k_recurrent_values *v, const rg_tensor *weight) {
    const rg_dtype dtype = (rg_dtype)weight->dtype;
    const int64_t shape[] = { z->steps, z->batch, weight->size[0] };
    g->gates_in = rgi_new(dtype, 3, shape);
    g->h_0 = rgi_new_like(v->h_0, dtype);
    if (z->kind == K_LSTM)
        g->c_0 = rgi_new_like(v->c_0, dtype);
    if (z->kind == K_GRU)
        g->hidden = rgi_new(dtype, 3, shape);
    else if (g->gates_in)
        rgi_retain(g->hidden = g->gates_in);
    return g->gates_in && g->hidden && g->h_0 && (g->c_0 || z->kind != K_LSTM);
}

/* Computes all wanted gradients. Requires that the tensors in *v, g_y, g_c and the weight are
 * contiguous. */
static bool recurrent_make(const rg_step *s, rg_tensor *gin[], const k_recurrent_values *v,
                           rg_tensor *g_y, rg_tensor *g_c, const rg_tensor *weight) {
    const k_recurrent z = recurrent_sizes(s->attr, v->y, weight->size[1]);
    k_recurrent_gradients g = { .y = g_y, .c = g_c };
    const bool ok = recurrent_room(&g, &z, v, weight) && k_recur_backward(&z, v, &g, weight)
                    && recurrent_weight(s, gin, &z, v->y, v->h_0, g.hidden);
    rg_tensor *made[] = { g.gates_in, NULL, g.h_0, g.c_0 };
    for (int i = 0; i < 4; i++)
        if (made[i] && rgi_wants(s, i))
            rgi_retain(gin[i] = made[i]);
    rgi_release_all(4, made);
    rgi_release(g.hidden);
    return ok;
}

/* Computes all wanted gradients. If a gradient reached the activated gates (the last output), or y
 * is empty, gin[] stays NULL, and the rules compute the gradients. */
static bool recurrent_fused(const rg_step *s, rg_tensor *gin[]) {
    enum { G_Y, G_C, Y, C, GATES, WEIGHT, H_0, C_0, ALL };
    const int at = recurrent_gates_at(s->attr);
    const bool lstm = recurrent_is(s->attr, K_LSTM);
    rg_tensor *in[ALL] = { rgi_step_g(s, 0),
                           lstm && s->g[1] ? s->g[1] : RG_NONE,
                           rgi_saved_output(s),
                           lstm ? rgi_saved_output_at(s, 1) : RG_NONE,
                           at ? rgi_saved_output_at(s, at) : RG_NONE,
                           rgi_saved(s, 1),
                           rgi_saved(s, 2),
                           lstm ? rgi_saved(s, 3) : RG_NONE };
    for (int i = 0; i < ALL; i++)
        if (!in[i])
            return false;
    if ((at && s->g[at]) || in[Y]->numel == 0)
        return true;
    rg_tensor *t[ALL];
    bool ok = rgi_contiguous_copies(ALL, t, in);
    if (ok) {
        const k_recurrent_values v = { t[Y], t[C], t[GATES], t[H_0], t[C_0] };
        ok = recurrent_make(s, gin, &v, t[G_Y], t[G_C], t[WEIGHT]);
    }
    rgi_release_all(ALL, t);
    return ok;
}

/* ---- the rules: they compute gradients by going back through the time steps ------ */

/* The tensors with which the rules go back through the time steps: saved values and gradients of
 * the outputs. carry_h and carry_c are the gradients that a time step leaves for the h and the c
 * from which it started; they are NULL at first. */
typedef struct recurrent_back {
    rg_tensor *y, *c, *gates, *weight, *h_0, *c_0;
    rg_tensor *g_y, *g_c, *g_gates;
    rg_tensor *carry_h, *carry_c;
} recurrent_back;

/* Returns t[step], the gradient of one time step, plus `carry` unless that is NULL. */
static rg_tensor *recurrent_carried(rg_tensor *t, int64_t step, rg_tensor *carry) {
    t = rg_select(t, 0, step);
    return carry ? rg_add(t, carry) : t;
}

/* Returns t (1 - t), the derivative of a sigmoid whose value is t. */
static rg_tensor *recurrent_slope(rg_tensor *t) { return rg_mul(t, rg_sub(1, t)); }
/* Returns 1 - t^2, the derivative of a tanh whose value is t. */
static rg_tensor *recurrent_tanh_slope(rg_tensor *t) { return rg_sub(1, rg_square(t)); }

/* The functions lstm_step_back, gru_step_back and rnn_step_back return the gradient of the gates of
 * one time step. In an LSTM and an RNN it is also the gradient of the product of h and the weight.
 * In a GRU the product has another gradient, which gru_step_back stores in *g_z. */
static rg_tensor *lstm_step_back(recurrent_back *b, int64_t at, rg_tensor *before) {
    rg_list gate = rg_chunk(rg_select(b->gates, 0, at), 4, 1);
    rg_tensor *i = gate.v[0], *f = gate.v[1], *g = gate.v[2], *o = gate.v[3];
    rg_tensor *tanh_c = rg_tanh(rg_select(b->c, 0, at));
    rg_tensor *gh = recurrent_carried(b->g_y, at, b->carry_h);
    rg_tensor *gc = recurrent_carried(b->g_c, at, b->carry_c);
    gc = rg_add(gc, rg_mul(rg_mul(gh, o), recurrent_tanh_slope(tanh_c)));
    b->carry_c = rg_mul(gc, f);
    rg_tensor *opened =
        rg_cat(RG_LIST(rg_mul(gc, g), rg_mul(gc, before), rg_mul(gc, i), rg_mul(gh, tanh_c)), 1);
    rg_tensor *slope = rg_cat(RG_LIST(recurrent_slope(i), recurrent_slope(f),
                                      recurrent_tanh_slope(g), recurrent_slope(o)),
                              1);
    return rg_mul(rg_add(opened, rg_select(b->g_gates, 0, at)), slope);
}

static rg_tensor *gru_step_back(recurrent_back *b, int64_t at, rg_tensor *before, rg_tensor **g_z) {
    rg_list gate = rg_chunk(rg_select(b->gates, 0, at), 4, 1);
    rg_list more = rg_chunk(rg_select(b->g_gates, 0, at), 4, 1);
    rg_tensor *r = gate.v[0], *u = gate.v[1], *n = gate.v[2], *q = gate.v[3];
    rg_tensor *gh = recurrent_carried(b->g_y, at, b->carry_h);
    rg_tensor *gn = rg_add(rg_mul(gh, rg_sub(1, u)), more.v[2]);
    gn = rg_mul(gn, recurrent_tanh_slope(n));
    rg_tensor *gr = rg_mul(rg_add(rg_mul(gn, q), more.v[0]), recurrent_slope(r));
    rg_tensor *gu = rg_add(rg_mul(gh, rg_sub(before, n)), more.v[1]);
    gu = rg_mul(gu, recurrent_slope(u));
    b->carry_h = rg_mul(gh, u);
    *g_z = rg_cat(RG_LIST(gr, gu, rg_add(rg_mul(gn, r), more.v[3])), 1);
    return rg_cat(RG_LIST(gr, gu, gn), 1);
}

static rg_tensor *rnn_step_back(const rg_step *s, recurrent_back *b, int64_t at) {
    rg_tensor *y = rg_select(b->y, 0, at);
    rg_tensor *gh = recurrent_carried(b->g_y, at, b->carry_h);
    b->carry_h = NULL;
    if (!recurrent_is(s->attr, K_RNN_RELU))
        return rg_mul(gh, recurrent_tanh_slope(y));
    return rgi_flat_in(s, y, rg_where(rg_le(y, 0), 0, gh));
}

static recurrent_back recurrent_begin(const rg_step *s) {
    const int at = recurrent_gates_at(s->attr);
    recurrent_back b = { .y = rgi_saved_output(s),
                         .weight = rgi_saved(s, 1),
                         .h_0 = rgi_saved(s, 2),
                         .g_y = rgi_step_g(s, 0) };
    if (at) {
        b.gates = rgi_saved_output_at(s, at);
        b.g_gates = rgi_step_g(s, at);
    }
    if (recurrent_is(s->attr, K_LSTM)) {
        b.c = rgi_saved_output_at(s, 1);
        b.g_c = rgi_step_g(s, 1);
        b.c_0 = rgi_saved(s, 3);
    }
    return b;
}

/* Goes back through all time steps. Returns the gradient of the gates from x, (steps, batch,
 * gates), or if `inner` is set, the gradient of the product of h and the weight. Returns NULL on
 * failure. Leaves the gradients of h_0 and c_0 in b->carry_h and b->carry_c. */
static rg_tensor *recurrent_walk(const rg_step *s, recurrent_back *b, bool inner) {
    const struct recurrent_attr *a = s->attr;
    *b = recurrent_begin(s);
    if (!b->y || !b->h_0)
        return NULL;
    const int64_t steps = b->y->size[0];
    rg_tensor **g = rgi_scope_alloc((size_t)steps * sizeof *g);
    for (int64_t i = steps - 1; i >= 0 && g; i--) {
        const int64_t at = a->reverse ? steps - 1 - i : i;
        const int64_t last = a->reverse ? at + 1 : at - 1;
        rg_tensor *from = a->kind == K_LSTM ? b->c : b->y;
        rg_tensor *first = a->kind == K_LSTM ? b->c_0 : b->h_0;
        rg_tensor *before = i ? rg_select(from, 0, last) : first;
        rg_tensor *g_x, *g_z;
        if (a->kind == K_LSTM)
            g_x = g_z = lstm_step_back(b, at, before);
        else if (a->kind == K_GRU)
            g_x = gru_step_back(b, at, before, &g_z);
        else
            g_x = g_z = rnn_step_back(s, b, at);
        rg_tensor *by_weight = rg_matmul(g_z, b->weight);
        b->carry_h = a->kind == K_GRU ? rg_add(by_weight, b->carry_h) : by_weight;
        g[at] = inner ? g_z : g_x;
        if (!before || !g_x || !b->carry_h || (a->kind == K_LSTM && !b->carry_c))
            return NULL;
    }
    return g ? rg_stack(rg_list_of((int)steps, g), 0) : NULL;
}

static rg_tensor *recurrent_rule_gates(const rg_step *s, rg_tensor *g) {
    (void)g;
    recurrent_back b;
    return recurrent_walk(s, &b, false);
}

/* The gradient of the weight: the sum over all time steps of g^T h. Here h is the hidden state from
 * which a time step starts, and g is the gradient of the product of this h and the weight. */
static rg_tensor *recurrent_rule_weight(const rg_step *s, rg_tensor *g) {
    recurrent_back b;
    g = recurrent_walk(s, &b, true);
    if (!g)
        return NULL;
    const int64_t rest = b.y->size[0] - 1;
    rg_tensor *before = rg_unsqueeze(b.h_0, 0);
    if (rest && RG_ATTR(s, recurrent)->reverse)
        before = rg_cat(RG_LIST(rg_narrow(b.y, 0, 1, rest), before), 0);
    else if (rest)
        before = rg_cat(RG_LIST(before, rg_narrow(b.y, 0, 0, rest)), 0);
    return rg_matmul(rg_t(rg_flatten(g, 0, 1)), rg_flatten(before, 0, 1));
}

static rg_tensor *recurrent_rule_h_0(const rg_step *s, rg_tensor *g) {
    (void)g;
    recurrent_back b;
    return recurrent_walk(s, &b, false) ? b.carry_h : NULL;
}

static rg_tensor *recurrent_rule_c_0(const rg_step *s, rg_tensor *g) {
    (void)g;
    recurrent_back b;
    return recurrent_walk(s, &b, false) ? b.carry_c : NULL;
}

static rg_tensor *recurrent_rule_bias(const rg_step *s, rg_tensor *g) {
    recurrent_back b;
    g = recurrent_walk(s, &b, true);
    return rg_sum_dims(g, RG_DIMS(0, 1), false);
}

/* ---- requirements of the public functions ---------------------------------------- */

/* Fails unless all n tensors are valid and have the same floating point dtype. */
static bool recurrent_allows_dtypes(const char *name, int n, rg_tensor *const t[]) {
    for (int i = 0; i < n; i++)
        if (!rgi_check(t[i], name))
            return false;
    if (!rgi_want_float(name, t[0]))
        return false;
    for (int i = 1; i < n; i++)
        if (!rgi_want_same_dtype(name, "mat1", t[i], "mat2", t[0]))
            return false;
    return true;
}

static bool recurrent_is_of(const rg_tensor *t, int64_t rows, int64_t columns) {
    return t->ndim == 2 && t->size[0] == rows && t->size[1] == columns;
}

/* Fails unless the shapes and dtypes are those that a recurrent op needs. t[] has the gates, the
 * weight, h_0 and, if n is 4, c_0. `per` is the number of gates for each element of h. */
static bool recurrent_allows(const char *name, int per, int n, rg_tensor *const t[]) {
    const rg_tensor *gates = t[0], *weight = t[1];
    if (!recurrent_allows_dtypes(name, n, t))
        return false;
    RG_FAIL_IF(gates->ndim != 3 || gates->size[0] == 0 || gates->size[2] % per, name,
               "expected gates of (steps, batch, %d * hidden), but got %s", per,
               RG_SHAPE_TEXT(gates));
    const int64_t steps = gates->size[0], batch = gates->size[1], hidden = gates->size[2] / per;
    const int64_t from = steps > 1 || weight->ndim != 2 ? hidden : weight->size[1];
    RG_FAIL_IF(!recurrent_is_of(weight, per * hidden, from), name,
               "expected weight_hh of (%lld, %lld), but got %s", (long long)(per * hidden),
               (long long)from, RG_SHAPE_TEXT(weight));
    RG_FAIL_IF(!recurrent_is_of(t[2], batch, from), name,
               "expected h_0 of (%lld, %lld), but got %s", (long long)batch, (long long)from,
               RG_SHAPE_TEXT(t[2]));
    RG_FAIL_IF(n == 4 && !recurrent_is_of(t[3], batch, hidden), name,
               "expected c_0 of (%lld, %lld), but got %s", (long long)batch, (long long)hidden,
               RG_SHAPE_TEXT(t[3]));
    RG_FAIL_IF(per != 4 && from != hidden, name, "expected h_0 as wide as h, %lld, but got %lld",
               (long long)hidden, (long long)from);
    return true;
}

/* Returns the factor for the profiler (rg_terms): the number of gates for each element of h. In
 * forward and for each gradient, a time step computes one product with the weight. The product has
 * an element for each gate, but the profiler counts only the elements of h. */
static double recurrent_share(const void *attr, int64_t rows, int64_t terms) {
    (void)rows;
    (void)terms;
    return recurrent_gates(attr);
}

#define RECURRENT_TERMS                                                           \
    {                                                                             \
        .times = 1, .input = 1, .from_last = 1, .gradients = RG_IN(0) | RG_IN(1), \
        .share = recurrent_share                                                  \
    }
#define RECURRENT_SAMPLE(inputs, ...) \
    { inputs, RG_A(recurrent, __VA_ARGS__) }

/* ---- lstm_scan: c' = f c + i g, h' = o tanh(c'), where i, f and o are gates after a sigmoid,
 *      and g is a gate after a tanh --------------------------------------------- */

#define LSTM_NEEDS (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_OUT(0) | RG_OUT(1) | RG_OUT(2))
RG_OP(lstm_scan, .doc = "h, c and gates of an LSTM, step by step", .node = "StackBackward0",
      .n_in = 4, .n_out = 3, RG_WITH(recurrent), RG_MADE(recurrent), .terms = RECURRENT_TERMS,
      .fused = recurrent_fused,
      .grad = { RG_RULE(LSTM_NEEDS, recurrent_rule_gates),
                RG_RULE(LSTM_NEEDS, recurrent_rule_weight), RG_RULE(LSTM_NEEDS, recurrent_rule_h_0),
                RG_RULE(LSTM_NEEDS, recurrent_rule_c_0) },
      RG_SAMPLES(RECURRENT_SAMPLE("(3,2,8) (8,2) (2,2) (2,2)", K_LSTM, false),
                 RECURRENT_SAMPLE("(2,3,4) (4,1) (3,1) (3,1)", K_LSTM, true),
                 RECURRENT_SAMPLE("(1,2,12) (12,2) (2,2) (2,3)", K_LSTM, false),
                 RECURRENT_SAMPLE("(2,1,20) (20,5) (1,5) (1,5)", K_LSTM, false),
                 RECURRENT_SAMPLE("(2,0,8) (8,2) (0,2) (0,2)", K_LSTM, false)));

/* The same as RG_AUTOCASTS. Returns whether it has set *all. */
static bool lstm_autocasts(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *h_0, rg_tensor *c_0,
                           bool reverse, rg_hidden_cells *all) {
    const rg_autocaster *caster = rgi_this.autocast;
    rg_tensor *in[] = { c_0, gates, weight_hh, h_0 };
    size_t scope;
    if (!caster->begin(RG_AS_FIRST, RG_COUNT(in), in, &scope))
        return false;
    *all = (rg_lstm_scan)(in[1], in[2], in[3], in[0], reverse);
    all->c = rg_escape(all->c);
    all->h = caster->end(scope, all->h);
    return true;
}

rg_hidden_cells(rg_lstm_scan)(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *h_0,
                              rg_tensor *c_0, bool reverse) {
    rg_hidden_cells all;
    if (RG_UNLIKELY(rgi_this.autocast != NULL)
        && lstm_autocasts(gates, weight_hh, h_0, c_0, reverse, &all))
        return all;
    rg_tensor *in[] = { gates, weight_hh, h_0, c_0 };
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (!recurrent_allows("lstm_scan", 4, 4, in))
        return (rg_hidden_cells){ NULL, NULL };
    RG_SCOPE();
    const struct recurrent_attr a = { K_LSTM, reverse };
    rgi_apply_outputs(&rg_op_lstm_scan, &a, sizeof a, 4, in, out);
    return (rg_hidden_cells){ rg_escape(out[0]), rg_escape(out[1]) };
}

/* ---- gru_scan: h' = (h - n) z + n, where r and z are gates after a sigmoid, and n = tanh(n_x
 *      + r n_h) is a gate with a part n_x from x and a part n_h from h ---------- */

#define GRU_NEEDS (RG_IN(1) | RG_IN(2) | RG_OUT(0) | RG_OUT(1))
RG_OP(gru_scan, .doc = "h and gates of a GRU, step by step", .node = "StackBackward0", .n_in = 4,
      .n_out = 2, .optional = RG_IN(3), RG_WITH(recurrent), RG_MADE(recurrent),
      .terms = RECURRENT_TERMS, .fused = recurrent_fused,
      .grad = { RG_RULE(GRU_NEEDS, recurrent_rule_gates), RG_RULE(GRU_NEEDS, recurrent_rule_weight),
                RG_RULE(GRU_NEEDS, recurrent_rule_h_0), RG_RULE(GRU_NEEDS, recurrent_rule_bias) },
      RG_SAMPLES(RECURRENT_SAMPLE("(3,2,6) (6,2) (2,2) (6)", K_GRU, false),
                 RECURRENT_SAMPLE("(2,3,3) (3,1) (3,1) (3)", K_GRU, true),
                 RECURRENT_SAMPLE("(1,2,9) (9,3) (2,3) -", K_GRU, false),
                 RECURRENT_SAMPLE("(2,1,15) (15,5) (1,5) (15)", K_GRU, false),
                 RECURRENT_SAMPLE("(2,0,6) (6,2) (0,2) (6)", K_GRU, false)));

rg_tensor *(rg_gru_scan)(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *bias_hh, rg_tensor *h_0,
                         bool reverse) {
    RG_AUTOCASTS(RG_AS_FIRST, (rg_gru_scan)(in[1], in[2], in[3], in[0], reverse), h_0, gates,
                 weight_hh, bias_hh);
    rg_tensor *in[] = { gates, weight_hh, h_0, bias_hh };
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (!recurrent_allows("gru_scan", 3, 3, in) || !rgi_check_optional(bias_hh, "gru_scan"))
        return NULL;
    const bool biased = !rgi_is_none(bias_hh);
    RG_FAIL_IF(biased && (bias_hh->ndim != 1 || bias_hh->size[0] != gates->size[2]), "gru_scan",
               "expected bias_hh of (%lld), but got %s", (long long)gates->size[2],
               RG_SHAPE_TEXT(bias_hh));
    RG_FAIL_IF(biased && bias_hh->dtype != gates->dtype, "gru_scan",
               "expected scalar type %s but found %s", rgi_scalar_name((rg_dtype)gates->dtype),
               rgi_scalar_name((rg_dtype)bias_hh->dtype));
    RG_SCOPE();
    const struct recurrent_attr a = { K_GRU, reverse };
    rgi_apply_outputs(&rg_op_gru_scan, &a, sizeof a, 4, in, out);
    return rg_escape(out[0]);
}

/* ---- rnn_scan: h' = tanh(gates + h weight^T), or relu in place of tanh ----------- */

#define RNN_NEEDS (RG_IN(1) | RG_IN(2) | RG_OUT(0))
RG_OP(rnn_scan, .doc = "h of an RNN, step by step", .node = "StackBackward0", .n_in = 3, .n_out = 1,
      RG_WITH(recurrent), RG_MADE(recurrent), .terms = RECURRENT_TERMS, .fused = recurrent_fused,
      .grad = { RG_RULE(RNN_NEEDS, recurrent_rule_gates), RG_RULE(RNN_NEEDS, recurrent_rule_weight),
                RG_RULE(RNN_NEEDS, recurrent_rule_h_0) },
      RG_SAMPLES(RECURRENT_SAMPLE("(3,2,2) (2,2) (2,2)", K_RNN_TANH, false),
                 RECURRENT_SAMPLE("(2,3,1) (1,1) (3,1)", K_RNN_TANH, true),
                 RECURRENT_SAMPLE("(3,2,3) (3,3) (2,3)", K_RNN_RELU, false),
                 RECURRENT_SAMPLE("(2,0,3) (3,3) (0,3)", K_RNN_TANH, true)));

rg_tensor *(rg_rnn_scan)(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *h_0, bool relu,
                         bool reverse) {
    RG_AUTOCASTS(RG_AS_FIRST, (rg_rnn_scan)(in[1], in[2], in[3], relu, reverse), gates, gates,
                 weight_hh, h_0);
    rg_tensor *in[] = { gates, weight_hh, h_0 };
    if (!recurrent_allows("rnn_scan", 1, 3, in))
        return NULL;
    return RG_APPLY(rnn_scan, RG_A(recurrent, relu ? K_RNN_RELU : K_RNN_TANH, reverse), gates,
                    weight_hh, h_0);
}

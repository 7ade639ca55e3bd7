/*
 * test_recurrent.c: LSTM, GRU, RNN, their cells and packed sequences compute what PyTorch's do, and
 * refuse what PyTorch refuses. The cases are PyTorch's own samples and others. REGARD_GOLDEN names
 * a folder with more cases.
 */
#define TWIN_DATA "recurrent"
#include "twin.h"
#include "tensor/threads/workers.h"

/* ---- a case: recurrent.py says what its lines are -------------------------------- */

enum { MOST_LENGTHS = 32, MOST_WANTED = 64 };

typedef struct {
    char name[64], kind[16], repr[256], keys[2048];
    int64_t input_size, hidden_size;
    rg_rnn_options o;
    rg_flag train, second, sorted;
    int n; /* The number of inputs: x, h_0 and c_0. */
    rg_tensor *in[3];
    int64_t n_lengths, lengths[MOST_LENGTHS];
    char *y, *g, *second_g;
} recurrent_case;

static void read_option(recurrent_case *c, const char *key, const char *value) {
    const double x = strtod(value, NULL);
    const struct {
        const char *key;
        rg_flag *flag;
        int64_t *size;
    } places[] = {
        { "bias", &c->o.bias, NULL },
        { "batch_first", &c->o.batch_first, NULL },
        { "bidirectional", &c->o.bidirectional, NULL },
        { "train", &c->train, NULL },
        { "second", &c->second, NULL },
        { "enforce_sorted", &c->sorted, NULL },
        { "input_size", NULL, &c->input_size },
        { "hidden_size", NULL, &c->hidden_size },
        { "num_layers", NULL, &c->o.num_layers },
        { "proj_size", NULL, &c->o.proj_size },
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (strcmp(key, places[i].key))
            continue;
        if (places[i].flag)
            *places[i].flag = x != 0;
        else
            *places[i].size = (int64_t)x;
        return;
    }
    if (!strcmp(key, "dropout"))
        c->o.dropout = x;
    else if (!strcmp(key, "kind"))
        snprintf(c->kind, sizeof c->kind, "%s", value);
    else if (!strcmp(key, "nonlinearity"))
        c->o.nonlinearity = *value == 'r' ? "relu" : "tanh";
    else
        ck_abort_msg("%s: what is %s?", c->name, key);
}

static rg_tensor *read_input(char *line) {
    rg_tensor *t = rg_empty_dims(golden_dims(golden_word(&line)), RG_FLOAT64);
    for (int64_t i = 0; i < rg_numel(t); i++)
        ((double *)rg_data(t))[i] = golden_number(&line);
    return t;
}

/* Reads the next case; returns false if there is none. */
static bool read_recurrent(recurrent_case *c, golden_file *f) {
    char *words = golden_case(f);
    if (!words)
        return false;
    *c = (recurrent_case){ .o = { .num_layers = 1, .bias = true } };
    snprintf(c->name, sizeof c->name, "%s", golden_word(&words));
    while (!golden_at_end(words)) {
        char *key = golden_word(&words), *value = strchr(key, '=');
        *value++ = 0;
        read_option(c, key, value);
    }
    snprintf(c->repr, sizeof c->repr, "%s", golden_text(f));
    snprintf(c->keys, sizeof c->keys, "%s", golden_field(f, 'k'));
    while (golden_peek(f) == 'x')
        c->in[c->n++] = read_input(golden_field(f, 'x'));
    if (golden_peek(f) == 'l')
        c->n_lengths = golden_integers(f, 'l', c->lengths, MOST_LENGTHS);
    c->y = golden_field(f, ':');
    c->g = golden_field(f, ':');
    c->second_g = c->second ? golden_field(f, ':') : NULL;
    return true;
}

/* ---- running it ------------------------------------------------------------------ */

static bool of_cell(const recurrent_case *c) { return strstr(c->kind, "Cell") != NULL; }

static void *make_case(const recurrent_case *c) {
    rg_rnn_cell_options o = { .bias = c->o.bias, .nonlinearity = c->o.nonlinearity };
    rg_manual_seed(1);
    switch (c->kind[0] + (of_cell(c) ? 1 : 0)) {
    case 'L': return rg_nn_lstm_with(c->input_size, c->hidden_size, c->o);
    case 'G': return rg_nn_gru_with(c->input_size, c->hidden_size, c->o);
    case 'R': return rg_nn_rnn_with(c->input_size, c->hidden_size, c->o);
    case 'L' + 1: return rg_nn_lstm_cell_with(c->input_size, c->hidden_size, o);
    case 'G' + 1: return rg_nn_gru_cell_with(c->input_size, c->hidden_size, o);
    default: return rg_nn_rnn_cell_with(c->input_size, c->hidden_size, o);
    }
}

/* Puts all results into y, and returns how many they are. */
static int run_case(const recurrent_case *c, void *m, rg_tensor *const in[], rg_tensor *y[3]) {
    const rg_rnn_states s = { .h_0 = c->n > 1 ? in[1] : RG_NONE,
                              .c_0 = c->n > 2 ? in[2] : RG_NONE };
    const bool lstm = c->kind[0] == 'L';
    if (of_cell(c) && lstm) {
        const rg_hidden_cells both = rg_lstm_cell_forward_with(m, in[0], s);
        y[0] = both.h;
        y[1] = both.c;
        return 2;
    }
    if (of_cell(c)) {
        y[0] = rg_call_list(m, rg_list_of(c->n, in));
        return 1;
    }
    rg_rnn_result r;
    if (c->n_lengths) {
        rg_tensor *lengths = rg_from(c->lengths, c->n_lengths);
        const rg_packed_sequence packed = rg_pack_padded_sequence(
            in[0], lengths, .batch_first = c->o.batch_first, .enforce_sorted = c->sorted);
        const rg_rnn_packed_result p = rg_rnn_forward_packed_with(m, packed, s);
        const rg_padded_sequence padded = rg_pad_packed_sequence(p.output,
                                                                 .batch_first = c->o.batch_first);
        ck_assert(padded.output && rg_equal(padded.lengths, lengths));
        r = (rg_rnn_result){ padded.output, p.h_n, p.c_n };
    } else {
        r = rg_rnn_forward_with(m, in[0], s);
    }
    y[0] = r.output;
    y[1] = r.h_n;
    y[2] = r.c_n;
    ck_assert(!r.output || (r.c_n == RG_NONE) != lstm);
    return lstm ? 3 : 2;
}

/* Returns the weighted sum of all elements. The weight of element j of a tensor is
 * 0.5 + 0.1 (j % 11). */
static rg_tensor *weighted(int n, rg_tensor *const t[]) {
    rg_tensor *sum = NULL;
    for (int i = 0; i < n; i++) {
        rg_tensor *row = rg_flatten(t[i], 0, -1);
        rg_tensor *at = rg_arange((double)rg_numel(t[i]));
        rg_tensor *weight = rg_add(rg_mul(rg_remainder(at, 11), 0.1), 0.5);
        rg_tensor *part = rg_sum(rg_mul(row, rg_to(weight, (rg_dtype)rg_dtype_of(t[i]))));
        sum = sum ? rg_add(sum, part) : part;
    }
    return sum;
}

/* Asserts that the elements of all tensors, in their order, are these numbers. */
static void near_numbers(const recurrent_case *c, const char *what, int n, rg_tensor *const t[],
                         char *numbers, double limit) {
    double far = 0, scale = 1;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(t[i] != NULL, "%s %s: %s", c->name, what, rg_error());
        rg_tensor *row = rg_contiguous(rg_to(rg_detach(t[i]), RG_FLOAT64));
        for (int64_t k = 0; k < rg_numel(row); k++) {
            ck_each(!golden_at_end(numbers), "%s: %s has more values", c->name, what);
            const double want = golden_number(&numbers);
            const double off = fabs(((double *)rg_data(row))[k] - want);
            far = off <= far ? far : off;
            scale = fmax(scale, fabs(want));
        }
    }
    ck_assert_msg(golden_at_end(numbers), "%s: %s has fewer values", c->name, what);
    ck_assert_msg(far <= limit * scale, "%s: %s is off by %g of %g", c->name, what, far, scale);
}

/* Fills wanted[] with x, the states and the parameters, and returns their number. */
static int all_wanted(void *m, int n, rg_tensor *const in[], rg_tensor *wanted[]) {
    const rg_list own = rg_parameters(m);
    memcpy(wanted, in, (size_t)n * sizeof *in);
    memcpy(wanted + n, own.v, (size_t)own.n * sizeof *own.v);
    return n + own.n;
}

/* Computes the gradients of the sum. If the sum doesn't depend on a tensor, its gradient is
 * zeros. */
static void gradients(rg_tensor *sum, int n, rg_tensor *const wanted[], rg_tensor *g[],
                      rg_backward_options o) {
    ck_ok(rg_grad_many(1, &sum, NULL, n, wanted, g, o));
    for (int i = 0; i < n; i++)
        if (g[i] == RG_NONE)
            g[i] = rg_zeros_like(wanted[i]);
}

static void compare_case(const recurrent_case *c, rg_dtype dtype) {
    RG_SCOPE();
    const double limit = dtype == RG_FLOAT64 ? 1e-12 : 1e-5;
    void *m = make_case(c);
    ck_assert_msg(m != NULL, "%s: %s", c->name, rg_error());
    ck_assert_str_eq(rg_module_repr(m), c->repr);
    char keys[2048] = "";
    const rg_named_list state = rg_state_dict(m);
    for (int i = 0; i < state.n; i++)
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s%s", i ? " " : "",
                 state.v[i].name);
    ck_assert_str_eq(keys, c->keys);
    rg_module_to(m, dtype);
    rg_train(m, c->train);
    rg_tensor *in[3], *y[3], *wanted[MOST_WANTED], *g[MOST_WANTED], *gg[MOST_WANTED];
    for (int i = 0; i < c->n; i++)
        in[i] = rg_requires_grad_(rg_clone(rg_to(c->in[i], dtype)), true);
    rg_manual_seed(3);
    const int n_y = run_case(c, m, in, y);
    near_numbers(c, "y", n_y, y, c->y, limit);
    const int n = all_wanted(m, c->n, in, wanted);
    rg_tensor *sum = weighted(n_y, y);
    rg_backward_options o = { .gradient = RG_NONE, .retain_graph = true, .allow_unused = true };
    gradients(sum, n, wanted, g, o);
    near_numbers(c, "g", n, g, c->g, limit);
    if (c->second) {
        o.create_graph = true;
        gradients(sum, n, wanted, g, o);
        near_numbers(c, "g with a graph", n, g, c->g, limit);
        sum = weighted(n, g);
        gradients(sum, n, wanted, gg, o);
        near_numbers(c, "second gradients", n, gg, c->second_g, 10 * limit);
    }
    rg_module_free(m);
}

START_TEST(test_what_pytorch_computes) {
    rg_set_default_dtype(RG_FLOAT64);
    golden_file f = golden_open(TWIN_DATA);
    recurrent_case c;
    int cases = 0;
    for (;; cases++) {
        RG_SCOPE();
        if (!read_recurrent(&c, &f))
            break;
        rg_on_warning(NULL);
        compare_case(&c, RG_FLOAT64);
        compare_case(&c, RG_FLOAT32);
    }
    ck_assert_int_ge(cases, 50);
    golden_close(&f);
}
END_TEST

/* ---- calls, hooks, copies -------------------------------------------------------- */

START_TEST(test_ways_to_call) {
    rg_rnn_module *lstm = rg_nn_lstm(3, 2, .num_layers = 2), *gru = rg_nn_gru(3, 2);
    rg_tensor *x = rg_randn(4, 5, 3), *h = rg_randn(2, 5, 2), *c = rg_randn(2, 5, 2);
    const rg_rnn_result r = rg_lstm_forward(lstm, x, .h_0 = h, .c_0 = c);
    ck_assert(rg_equal(rg_call(lstm, x, h, c), r.output));
    ck_assert(rg_equal(rg_call(lstm, x), rg_lstm_forward(lstm, x).output));
    rg_tensor *h_1 = rg_narrow(h, 0, 0, 1);
    ck_assert(rg_equal(rg_call(gru, x, h_1), rg_gru_forward(gru, x, .h_0 = h_1).output));
    /* sorted_indices and unsorted_indices have no effect if x isn't packed. */
    rg_rnn_keywords k = { .states = { .h_0 = h_1, .c_0 = RG_NONE },
                          .batch_sizes = RG_NONE,
                          .sorted_indices = rg_parse("[4, 3, 2, 1, 0]"),
                          .unsorted_indices = rg_parse("[4, 3, 2, 1, 0]") };
    ck_ok(rg_call_keywords(gru, &k, x));
    ck_assert(rg_equal(k.h_n, rg_gru_forward(gru, x, .h_0 = h_1).h_n));
    rg_sequential *both = rg_nn_sequential(rg_nn_rnn(3, 2), rg_nn_linear(2, 1));
    ck_assert(rg_size(rg_call(both, x), 2) == 1);
    /* If x has no batch dim, the results have none, either. */
    for (int batch_first = 0; batch_first < 2; batch_first++)
        for (int64_t steps = 1; steps < 3; steps++) {
            rg_rnn_module *m = rg_nn_lstm(3, 2, .batch_first = batch_first);
            const rg_rnn_result one = rg_lstm_forward(m, rg_randn(steps, 3));
            ck_assert(rg_ndim(one.output) == 2 && rg_size(one.output, 0) == steps);
            ck_assert(rg_ndim(one.h_n) == 2 && rg_ndim(one.c_n) == 2);
            rg_module_free(m);
        }
    rg_rnn_cell_module *cell = rg_nn_lstm_cell(3, 2);
    rg_tensor *x_0 = rg_select(x, 0, 0), *h_0 = rg_select(h, 0, 0), *c_0 = rg_select(c, 0, 0);
    const rg_hidden_cells s = rg_lstm_cell_forward(cell, x_0, .h_0 = h_0, .c_0 = c_0);
    ck_assert(rg_equal(rg_call(cell, x_0, h_0, c_0), s.h) && s.c != RG_NONE);
    /* A cell computes the same for a row without a batch dim as for that row in a batch. */
    const rg_hidden_cells row = rg_lstm_cell_forward(
        cell, rg_select(x_0, 0, 1), .h_0 = rg_select(h_0, 0, 1), .c_0 = rg_select(c_0, 0, 1));
    ck_assert(rg_ndim(row.h) == 1 && rg_allclose(row.h, rg_select(s.h, 0, 1), 1e-6, 1e-6));
    ck_assert(rg_ndim(row.c) == 1 && rg_allclose(row.c, rg_select(s.c, 0, 1), 1e-6, 1e-6));
    rg_module_free(lstm);
    rg_module_free(gru);
    rg_module_free(both);
    rg_module_free(cell);
}
END_TEST

/* Replaces the output and the last c by zeros. */
static rg_tensor *clear_both(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    rg_rnn_keywords *k = rg_keywords_of_call(m);
    ck_assert(k && k->h_n && k->h_n != RG_NONE);
    k->c_n = rg_escape(rg_zeros_like(k->c_n));
    ++*(int *)context;
    return rg_zeros_like(y);
}

START_TEST(test_hooks_see_all_results) {
    int calls = 0;
    rg_rnn_module *m = rg_nn_lstm(3, 2);
    ck_assert(rg_register_forward_hook(&m->base, clear_both, &calls) >= 0);
    const rg_rnn_result r = rg_lstm_forward(m, rg_randn(4, 5, 3));
    ck_assert(calls == 1 && rg_item(rg_abs(rg_sum(r.output))) == 0);
    ck_assert(rg_item(rg_sum(rg_abs(r.c_n))) == 0 && rg_item(rg_sum(rg_abs(r.h_n))) > 0);
    rg_module_free(m);
}
END_TEST

static rg_tensor *fails_after(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)context;
    return rg_matmul(y, rg_ones(77, 77));
}

/* Replaces one of the results by the NULL of a product that fails. */
static rg_tensor *spoils(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    rg_rnn_keywords *k = rg_keywords_of_call(m);
    rg_tensor **place = context ? &k->c_n : &k->h_n;
    *place = rg_matmul(y, rg_ones(77, 77));
    return RG_NONE;
}

static rg_tensor *spoils_cell(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    (void)context;
    rg_rnn_cell_keywords *k = rg_keywords_of_call(m);
    k->c = rg_matmul(y, rg_ones(77, 77));
    return RG_NONE;
}

/* If a hook fails to replace h_n, c_n or c, the call returns no results. */
START_TEST(test_hooks_that_spoil_a_result) {
    rg_tensor *x = rg_randn(4, 2, 3);
    const rg_packed_sequence p = rg_pack_padded_sequence(x, rg_parse("[4, 2]"));
    for (int which = 0; which < 2; which++) {
        rg_rnn_module *m = rg_nn_lstm(3, 2);
        ck_assert(rg_register_forward_hook(&m->base, spoils, which ? &which : NULL) >= 0);
        const rg_rnn_result r = rg_lstm_forward(m, x);
        ck_assert(!r.output && !r.h_n && !r.c_n && rg_error_code() == RG_RUNTIME_ERROR);
        rg_error_clear();
        const rg_rnn_packed_result q = rg_lstm_forward_packed(m, p);
        ck_assert(!q.output.data && !q.h_n && !q.c_n && rg_error_code() == RG_RUNTIME_ERROR);
        rg_error_clear();
        rg_module_free(m);
    }
    rg_rnn_cell_module *cell = rg_nn_lstm_cell(3, 2);
    ck_assert(rg_register_forward_hook(&cell->base, spoils_cell, NULL) >= 0);
    const rg_hidden_cells s = rg_lstm_cell_forward(cell, rg_select(x, 0, 0));
    ck_assert(!s.h && !s.c && rg_error_code() == RG_RUNTIME_ERROR);
    rg_error_clear();
    rg_module_free(cell);
    cell = rg_nn_lstm_cell(3, 2);
    ck_assert(rg_register_forward_hook(&cell->base, fails_after, NULL) >= 0);
    const rg_hidden_cells none = rg_lstm_cell_forward(cell, rg_select(x, 0, 0));
    ck_assert(!none.h && !none.c && rg_error_code() == RG_RUNTIME_ERROR);
    rg_error_clear();
    rg_module_free(cell);
}
END_TEST

/* If a weight that a program has put in doesn't have the module's sizes, a call returns nothing. */
START_TEST(test_replaced_weights) {
    rg_tensor *x = rg_randn(4, 5, 3);
    for (int field = 0; field < 4; field++) {
        RG_SCOPE();
        rg_rnn_module *m = rg_nn_lstm(3, 2, .proj_size = 1);
        rg_rnn_weights *w = m->weights;
        rg_tensor **of[] = { &w->bias_ih, &w->bias_hh, &w->weight_hr, &w->weight_ih };
        rg_tensor *made = *of[field];
        *of[field] = field == 3 ? NULL : rg_ones(3, 3);
        const rg_rnn_result r = rg_lstm_forward(m, x);
        ck_assert(!r.output && !r.h_n && !r.c_n && rg_error_code() != RG_OK);
        rg_error_clear();
        *of[field] = made;
        rg_module_free(m);
    }
}
END_TEST

/* If a call fails after its results were made, it returns none of them. */
START_TEST(test_hooks_that_fail) {
    rg_rnn_module *m = rg_nn_lstm(3, 2);
    rg_tensor *x = rg_randn(4, 5, 3);
    const rg_packed_sequence p = rg_pack_sequence(RG_LIST(rg_select(x, 0, 0), rg_select(x, 0, 1)));
    ck_ok(p.data);
    ck_assert(rg_register_forward_hook(&m->base, fails_after, NULL) >= 0);
    const rg_rnn_packed_result r = rg_rnn_forward_packed(m, p);
    ck_assert(!r.output.data && !r.h_n && !r.c_n && rg_error_code() != RG_OK);
    rg_error_clear();
    const rg_rnn_result whole = rg_lstm_forward(m, x);
    ck_assert(!whole.output && !whole.h_n && !whole.c_n && rg_error_code() != RG_OK);
    rg_error_clear();
    rg_module_free(m);
}
END_TEST

/* Dropout between layers is only for training. If its probability is zero, it draws no random
 * numbers. */
START_TEST(test_dropout_between_layers) {
    rg_tensor *x = rg_randn(4, 2, 3);
    rg_rnn_module *with = rg_nn_gru(3, 5, .num_layers = 3, .dropout = 0.5),
                  *without = rg_nn_gru(3, 5, .num_layers = 3);
    ck_ok(rg_load_state_dict(without, rg_state_dict(with), true));
    rg_tensor *y = rg_call(without, x);
    ck_assert(!rg_allclose(rg_call(with, x), y, 1e-3, 1e-3));
    rg_tensor *random = rg_generator_state(rg_default_generator());
    rg_eval(with);
    ck_assert(rg_equal(rg_call(with, x), y));
    ck_assert(rg_equal(rg_call(without, x), y));
    ck_assert(rg_equal(rg_generator_state(rg_default_generator()), random));
    rg_module_free(with);
    rg_module_free(without);
}
END_TEST

/* The pieces of a sequence, one after the other, give the results of the whole sequence. A sequence
 * in a batch gives the results that it gives alone, whatever its length. */
START_TEST(test_pieces_are_the_whole) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_rnn_module *m = rg_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true);
    rg_tensor *x = rg_randn(6, 3, 3);
    const int64_t n[] = { 2, 6, 3 };
    const rg_packed_sequence packed = rg_pack_padded_sequence(x, rg_from(n, 3),
                                                              .enforce_sorted = false);
    const rg_rnn_packed_result r = rg_lstm_forward_packed(m, packed);
    const rg_padded_sequence y = rg_pad_packed_sequence(r.output, .padding_value = 7);
    for (int b = 0; b < 3; b++) {
        rg_tensor *alone = rg_narrow(rg_select(x, 1, b), 0, 0, n[b]);
        const rg_rnn_result own = rg_lstm_forward(m, alone);
        rg_tensor *part = rg_select(y.output, 1, b);
        ck_assert(rg_allclose(rg_narrow(part, 0, 0, n[b]), own.output, 1e-12, 1e-12));
        ck_assert(rg_allclose(rg_select(r.h_n, 1, b), own.h_n, 1e-12, 1e-12));
        ck_assert(rg_allclose(rg_select(r.c_n, 1, b), own.c_n, 1e-12, 1e-12));
        rg_tensor *rest = rg_narrow(part, 0, n[b], 6 - n[b]);
        ck_assert(rg_equal(rest, rg_mul(rg_ones_like(rest), 7)));
    }
    rg_module_free(m);
    m = rg_nn_gru(3, 4);
    const rg_rnn_result whole = rg_gru_forward(m, x);
    const rg_rnn_result first = rg_gru_forward(m, rg_narrow(x, 0, 0, 2));
    const rg_rnn_result then = rg_gru_forward(m, rg_narrow(x, 0, 2, 4), .h_0 = first.h_n);
    ck_assert(rg_allclose(rg_cat(RG_LIST(first.output, then.output), 0), whole.output, 1e-12, 0));
    ck_assert(rg_allclose(then.h_n, whole.h_n, 1e-12, 0));
    rg_module_free(m);
}
END_TEST

/* A row's bits don't depend on how many other rows there are, nor on threads. */
START_TEST(test_rows_and_threads_change_no_bit) {
    rg_rnn_module *m = rg_nn_lstm(128, 128);
    rg_tensor *x = rg_randn(8, 40, 128), *one = NULL;
    rgi_gather_workers = true; /* Otherwise one thread might do all the work. */
    for (int threads = 1; threads <= 3; threads++) {
        rg_set_num_threads(threads);
        rg_zero_grad(m);
        rg_tensor *y = rg_call(m, x);
        rg_backward(rg_sum(rg_square(y)));
        rg_tensor *g = rg_grad_of(m->weights->weight_hh);
        if (one)
            ck_assert(
                rg_equal(rg_cat(RG_LIST(rg_flatten(y, 0, -1), rg_flatten(g, 0, -1)), 0), one));
        else
            one = rg_cat(RG_LIST(rg_flatten(y, 0, -1), rg_flatten(rg_clone(g), 0, -1)), 0);
    }
    rg_set_num_threads(1);
    rg_module_free(m);
}
END_TEST

static rg_rnn_module *trained;
static rg_tensor *trained_on;
static rg_optim *trainer;

static void train_step(void *context) {
    const bool packs = *(bool *)context;
    rg_tensor *x = trained_on;
    if (packs)
        x = rg_pack_padded_sequence(x, rg_parse("[5, 2]")).data;
    rg_optim_zero_grad(trainer);
    rg_backward(rg_mean(rg_square(rg_lstm_forward(trained, x).output)));
    rg_optim_step(trainer);
}

static void begin_training(void) {
    rg_manual_seed(1);
    trained = rg_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true);
    trained_on = rg_keep(rg_randn(5, 2, 3));
    trainer = rg_optim_sgd(rg_parameters(trained), .lr = 0.1);
}

static void end_training(void) {
    rg_optim_free(trainer);
    rg_module_free(trained);
    rg_drop(trained_on);
}

/* A replayed step has the same bits as the step itself. A step that packs can't be recorded, since
 * packing reads the lengths. */
START_TEST(test_replayed_steps) {
    bool packs = false;
    begin_training();
    for (int i = 0; i < 4; i++)
        train_step(&packs);
    rg_tensor *weight = rg_clone(rg_detach(trained->weights[3].weight_hh));
    end_training();
    begin_training();
    rg_replay *r = rg_record(train_step, &packs);
    ck_ok(r);
    for (int i = 0; i < 3; i++)
        ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(rg_detach(trained->weights[3].weight_hh), weight));
    rg_replay_free(r);
    packs = true;
    ck_fails(rg_record(train_step, &packs), RG_NOT_IMPLEMENTED, "can't be part of a recorded step");
    end_training();
}
END_TEST

/* ---- packing and padding --------------------------------------------------------- */

START_TEST(test_packing) {
    rg_tensor *x = rg_reshape(rg_arange(12), 4, 3, 1);
    const rg_packed_sequence p = rg_pack_padded_sequence(x, rg_parse("[4, 2, 1]"));
    ck_assert(rg_equal(rg_flatten(p.data, 0, -1), rg_parse("[0, 1, 2, 3, 4, 6, 9]")));
    ck_assert(rg_equal(p.batch_sizes, rg_parse("[3, 2, 1, 1]")));
    /* Lengths that are strided in memory give the same result. */
    rg_tensor *apart = rg_select(rg_parse("[[4, 9], [2, 9], [1, 9]]"), 1, 0);
    const rg_packed_sequence same = rg_pack_padded_sequence(x, apart);
    ck_assert(rg_equal(same.data, p.data) && rg_equal(same.batch_sizes, p.batch_sizes));
    ck_assert(p.sorted_indices == RG_NONE && p.unsorted_indices == RG_NONE);
    const rg_packed_sequence q = rg_pack_padded_sequence(
        rg_transpose(x, 0, 1), rg_parse("[1, 4, 2]"), .batch_first = true, .enforce_sorted = false);
    ck_assert(rg_equal(q.sorted_indices, rg_parse("[1, 2, 0]")));
    ck_assert(rg_equal(q.unsorted_indices, rg_parse("[2, 0, 1]")));
    const rg_padded_sequence back = rg_pad_packed_sequence(q, .total_length = 5);
    ck_assert(rg_equal(back.lengths, rg_parse("[1, 4, 2]")) && rg_size(back.output, 0) == 5);
    ck_assert(
        rg_equal(rg_flatten(rg_select(back.output, 1, 2), 0, -1), rg_parse("[2, 5, 0, 0, 0]")));
    /* As in torch, the batch comes first in memory only where sequences change their order. */
    ck_assert(rg_is_contiguous(rg_pad_packed_sequence(q, .batch_first = true).output));
    ck_assert(!rg_is_contiguous(rg_pad_packed_sequence(p, .batch_first = true).output));
    rg_tensor *a = rg_parse("[1, 2, 3]"), *b = rg_parse("[4]");
    ck_assert(rg_equal(rg_pad_sequence(RG_LIST(b, a), .batch_first = true),
                       rg_parse("[[4, 0, 0], [1, 2, 3]]")));
    ck_assert(rg_equal(rg_pad_sequence(RG_LIST(b, a), .padding_side = NULL),
                       rg_parse("[[4, 1], [0, 2], [0, 3]]")));
    ck_assert(rg_equal(rg_pad_sequence(RG_LIST(b, a), .padding_side = "left", .padding_value = 9),
                       rg_parse("[[9, 1], [9, 2], [4, 3]]")));
    const rg_packed_sequence s = rg_pack_sequence(RG_LIST(b, a), .enforce_sorted = false);
    ck_assert(rg_equal(s.data, rg_parse("[1, 4, 2, 3]")));
    ck_assert(rg_equal(s.batch_sizes, rg_parse("[2, 1, 1]")));
}
END_TEST

/* Returns how often the op was called since the profile began. */
static double calls_of(const char *op) { return (double)rg_profile_cost(op).calls; }

/* If all sequences of a batch have the same length, the layer cuts nothing. If no sequence lacks a
 * step, no padding is added. */
START_TEST(test_what_needs_no_cutting) {
    rg_tensor *x = rg_randn(4, 2, 3);
    rg_rnn_module *m = rg_nn_rnn(3, 2);
    const rg_packed_sequence p = rg_pack_padded_sequence(x, rg_parse("[4, 4]"));
    const bool before = rg_set_profiling(true);
    const double scans = calls_of("rnn_scan"), cuts = calls_of("slice"), joins = calls_of("cat");
    ck_ok(rg_call(m, x));
    ck_assert(calls_of("rnn_scan") == scans + 1 && calls_of("slice") == cuts);
    /* Steps with the same sequences are cut out together, as one piece. */
    ck_ok(rg_pad_packed_sequence(p, .total_length = 4).output);
    ck_assert(calls_of("cat") == joins + 1 && calls_of("slice") == cuts + 1);
    ck_ok(rg_pack_padded_sequence(x, rg_parse("[4, 4]")).data);
    ck_assert(calls_of("slice") == cuts + 3);
    rg_set_profiling(before);
    rg_module_free(m);
}
END_TEST

/* ---- errors ---------------------------------------------------------------------- */

START_TEST(test_what_packing_refuses) {
    rg_tensor *x = rg_zeros(4, 3, 2), *list[] = { x, NULL };
    ck_fails(rg_pad_sequence(rg_list_of(-1, list)), RG_TYPE_ERROR, "pad_sequence: expected");
    const rg_packed_sequence point = { .data = rg_scalar(2),
                                       .batch_sizes = rg_arange(1),
                                       .sorted_indices = RG_NONE,
                                       .unsorted_indices = RG_NONE };
    ck_fails(rg_pad_packed_sequence(point).output, RG_INDEX_ERROR,
             "pad_packed_sequence: packed data must have a dim of steps");
#define PACKED(lengths, ...) rg_pack_padded_sequence(x, rg_parse(lengths), ##__VA_ARGS__).data
    ck_fails(PACKED("[4, 2]"), RG_RUNTIME_ERROR,
             "Expected `len(lengths)` to be equal to batch_size, but got 2 (batch_size=3)");
    ck_fails(
        PACKED("[2, 4, 1]"), RG_RUNTIME_ERROR,
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
        "can pass `enforce_sorted=False`");
    ck_fails(PACKED("[4, 0, 1]", .enforce_sorted = false), RG_RUNTIME_ERROR,
             "Length of all samples has to be greater than 0, but found an element in 'lengths' "
             "that is <= 0");
    ck_fails(PACKED("[5, 2, 1]"), RG_RUNTIME_ERROR, "a length of 5 is more than the 4 steps");
    ck_fails(PACKED("[[4, 2, 1]]"), RG_RUNTIME_ERROR,
             "'lengths' argument should be a 1D CPU int64 tensor, but got 2D cpu Long tensor");
    ck_fails(rg_pack_padded_sequence(rg_zeros(4, 0), rg_zeros(0)).data, RG_RUNTIME_ERROR,
             "Cannot pack empty tensors.");
    ck_fails(rg_pack_padded_sequence(rg_zeros(4), rg_ones(1)).data, RG_INDEX_ERROR,
             "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    rg_packed_sequence p = rg_pack_padded_sequence(x, rg_parse("[4, 2, 1]"));
    ck_fails(
        rg_pad_packed_sequence(p, .total_length = 3).output, RG_VALUE_ERROR,
        "Expected total_length to be at least the length of the longest sequence in input, but "
        "got total_length=3 and max sequence length being 4");
    static const char *const wrong[] = { "[3, 2, 1]", "[2, 3, 1, 1]", "[4, 5, 3]", "[7, 0]",
                                         "[8, -1]",   "[[7]]",        "[7.0]",     "7",
                                         "[]" };
    /* In "[4, 5, 3]", 4 and 3 have the right sum, 7. The 5 is refused because it is larger than the
     * 4 before it. */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        p.batch_sizes = rg_parse(wrong[i]);
        ck_fails(rg_pad_packed_sequence(p).output, RG_RUNTIME_ERROR,
                 "expected batch_sizes of int64");
    }
    /* A packed sequence must have a step, even if it has no rows. */
    const rg_packed_sequence empty = { .data = rg_zeros(0, 2),
                                       .batch_sizes = rg_zeros_dims(RG_DIMS(0), RG_INT64),
                                       .sorted_indices = RG_NONE,
                                       .unsorted_indices = RG_NONE };
    ck_fails(rg_pad_packed_sequence(empty).output, RG_RUNTIME_ERROR,
             "expected batch_sizes of int64 that don't rise, with a sum of 0");
    /* The bits of this float64 are those of the int64 7, but its dtype is wrong. */
    p.batch_sizes = rg_full_dims(RG_DIMS(1), 7 * 0x1p-1074, RG_FLOAT64);
    ck_fails(rg_pad_packed_sequence(p).output, RG_RUNTIME_ERROR, "expected batch_sizes of int64");
    ck_fails(rg_pad_sequence(rg_list_of(0, &x)), RG_RUNTIME_ERROR,
             "received an empty list of sequences");
    ck_fails(rg_pad_sequence(RG_LIST(rg_zeros(2, 3), rg_zeros(4, 2))), RG_RUNTIME_ERROR,
             "The size of tensor a (3) must match the size of tensor b (2) at non-singleton "
             "dimension 1");
    ck_fails(rg_pad_sequence(RG_LIST(x), .padding_side = "x"), RG_RUNTIME_ERROR,
             "Expected padding_side to be one of left or right, but got x.");
    ck_fails(rg_pack_sequence(RG_LIST(rg_zeros(1, 3), rg_zeros(2, 3))).data, RG_RUNTIME_ERROR,
             "`lengths` array must be sorted");
}
END_TEST

/* An overflow of the sum is noticed: five times 2^62 is 2^62 modulo 2^64, which would be the right
 * sum. */
START_TEST(test_sizes_whose_sum_goes_round) {
    const rg_packed_sequence many = { .data = rg_expand(rg_zeros(1), (int64_t)1 << 62),
                                      .batch_sizes = rg_full_dims(RG_DIMS(5), 0x1p62, RG_INT64),
                                      .sorted_indices = RG_NONE,
                                      .unsorted_indices = RG_NONE };
    ck_fails(rg_pad_packed_sequence(many).output, RG_RUNTIME_ERROR,
             "expected batch_sizes of int64 that don't rise, with a sum of 4611686018427387904");
    rg_packed_sequence few = many;
    few.data = rg_zeros(3);
    few.batch_sizes = rg_parse("[3, 9223372036854775807]");
    ck_fails(rg_pad_packed_sequence(few).output, RG_RUNTIME_ERROR, "with a sum of 3");
}
END_TEST

/* These functions read the lengths of sequences. A recorded step would read them only while it is
 * recorded, and each run would use the same lengths. So the functions are refused in a recorded
 * step. */
typedef struct packing {
    rg_tensor *x, *lengths;
    rg_packed_sequence packed;
    void *gru;
    rg_tensor *made; /* A step's result. */
} packing;
static void packs_padded(void *context) {
    packing *p = context;
    p->made = rg_pack_padded_sequence(p->x, p->lengths).data;
}
static void packs_what_rises(void *context) {
    packing *p = context;
    p->made = rg_pack_padded_sequence(p->x, rg_neg(p->lengths)).data;
}
static void packs(void *context) {
    packing *p = context;
    p->made = rg_pack_sequence(RG_LIST(p->x, p->x)).data;
}
static void packs_what_grows(void *context) {
    packing *p = context;
    p->made = rg_pack_sequence(RG_LIST(rg_narrow(p->x, 0, 0, 1), p->x)).data;
}
static void pads_packed(void *context) {
    packing *p = context;
    p->made = rg_pad_packed_sequence(p->packed).output;
}
static void runs_packed(void *context) {
    packing *p = context;
    p->made = rg_gru_forward_packed(p->gru, p->packed).h_n;
}

START_TEST(test_packing_is_no_part_of_a_recorded_step) {
    static const struct {
        void (*step)(void *context);
        const char *name;
    } steps[] = {
        { packs_padded, "pack_padded_sequence" },
        { packs_what_rises, "pack_padded_sequence" },
        { packs, "pack_sequence" },
        { packs_what_grows, "pack_sequence" },
        { pads_packed, "pad_packed_sequence" },
        { runs_packed, "GRU" },
    };
    packing p = { .x = rg_randn(4, 2, 3), .lengths = rg_parse("[4, 2]"), .gru = rg_nn_gru(3, 2) };
    p.packed = rg_pack_padded_sequence(p.x, p.lengths);
    ck_ok(p.packed.data);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char said[100];
        snprintf(said, sizeof said, "%s: can't be part of a recorded step", steps[i].name);
        p.made = p.x;
        ck_fails(rg_record(steps[i].step, &p), RG_NOT_IMPLEMENTED, said);
        ck_assert_msg(!p.made, "%s made something", steps[i].name);
    }
    rg_module_free(p.gru);
}
END_TEST

START_TEST(test_what_layers_refuse) {
    rg_rnn_module *lstm = rg_nn_lstm(3, 4), *gru = rg_nn_gru(3, 4), *rnn = rg_nn_rnn(3, 4);
    rg_tensor *x = rg_zeros(5, 2, 3), *h = rg_zeros(1, 2, 4);
    ck_fails(rg_call(lstm, rg_zeros(3)), RG_VALUE_ERROR,
             "LSTM: Expected input to be 2D or 3D, got 1D instead");
    ck_fails(rg_call(rnn, rg_zeros(3)), RG_VALUE_ERROR,
             "RNN: Expected input to be 2D or 3D, got 1D instead");
    ck_fails(rg_call(gru, rg_zeros(5, 2, 4)), RG_RUNTIME_ERROR,
             "input.size(-1) must be equal to input_size. Expected 3, got 4");
    ck_fails(rg_call(gru, rg_zeros(0, 2, 3)), RG_RUNTIME_ERROR,
             "Expected sequence length to be larger than 0 in RNN");
    ck_fails(rg_call(gru, rg_to(x, RG_FLOAT64)), RG_VALUE_ERROR,
             "RNN input dtype (torch.float64) does not match weight dtype (torch.float32). Convert "
             "the input by rg_to, or the model by rg_module_to");
    ck_fails(rg_lstm_forward(lstm, x, .h_0 = h, .c_0 = rg_zeros(1, 2, 5)).output, RG_RUNTIME_ERROR,
             "Expected hidden[1] size (1, 2, 4), got [1, 2, 5]");
    ck_fails(rg_lstm_forward(lstm, x, .h_0 = rg_zeros(2, 4), .c_0 = h).output, RG_RUNTIME_ERROR,
             "For batched 3-D input, hx should also be 3-D but got 2-D tensor");
    ck_fails(rg_gru_forward(gru, x, .h_0 = rg_zeros(1, 2, 5)).output, RG_RUNTIME_ERROR,
             "Expected hidden size (1, 2, 4), got [1, 2, 5]");
    ck_fails(rg_gru_forward(gru, x, .h_0 = rg_zeros(2, 2, 4)).output, RG_RUNTIME_ERROR,
             "Expected hidden size (1, 2, 4), got [2, 2, 4]");
    ck_fails(rg_gru_forward(gru, x, .h_0 = rg_zeros(1, 3, 4)).output, RG_RUNTIME_ERROR,
             "Expected hidden size (1, 2, 4), got [1, 3, 4]");
    ck_fails(rg_lstm_forward(lstm, x, .h_0 = rg_zeros(1, 3, 4), .c_0 = h).output, RG_RUNTIME_ERROR,
             "Expected hidden[0] size (1, 2, 4), got [1, 3, 4]");
    ck_fails(rg_gru_forward(gru, rg_zeros(5, 3), .h_0 = h).output, RG_RUNTIME_ERROR,
             "For unbatched 2-D input, hx should also be 2-D but got 3-D tensor");
    ck_fails(rg_gru_forward(gru, x, .h_0 = rg_to(h, RG_FLOAT64)).output, RG_RUNTIME_ERROR,
             "mat1 and mat2 must have the same dtype, but got Double and Float");
    ck_fails(rg_lstm_forward(lstm, x, .h_0 = h).output, RG_RUNTIME_ERROR,
             "h_0 and c_0 must be given together");
    ck_fails(rg_gru_forward(gru, x, .h_0 = h, .c_0 = h).output, RG_RUNTIME_ERROR,
             "only an LSTM has c_0");
    ck_fails(rg_lstm_forward(lstm, x, .h_0 = NULL, .c_0 = h).output, RG_TYPE_ERROR, "");
    ck_fails(rg_lstm_forward(NULL, x).output, RG_TYPE_ERROR, "");
    ck_fails(rg_lstm_forward(lstm, NULL).output, RG_TYPE_ERROR,
             "LSTM: expected a tensor but got NULL");
    ck_fails(rg_call(lstm, RG_NONE), RG_TYPE_ERROR, "LSTM: expected a tensor but got RG_NONE");
    ck_fails(rg_call(gru, RG_NONE), RG_TYPE_ERROR, "GRU: expected a tensor but got RG_NONE");
    ck_fails(rg_call(gru, x, h, h), RG_TYPE_ERROR,
             "GRU.forward() takes 3 positional arguments but 4 were given");
    rg_packed_sequence p = rg_pack_padded_sequence(x, rg_parse("[5, 2]"));
    ck_fails(rg_gru_forward_packed(gru, p, .h_0 = rg_zeros(2, 4)).h_n, RG_RUNTIME_ERROR,
             "Expected hidden size (1, 2, 4), got [2, 4]");
    p.batch_sizes = rg_parse("[1, 1]");
    ck_fails(rg_gru_forward_packed(gru, p).h_n, RG_RUNTIME_ERROR, "expected batch_sizes of int64");
    p.batch_sizes = NULL;
    ck_fails(rg_gru_forward_packed(gru, p).h_n, RG_TYPE_ERROR,
             "rnn_forward_packed: expected a tensor but got NULL");
    p.batch_sizes = RG_NONE;
    ck_fails(rg_gru_forward_packed(gru, p).h_n, RG_TYPE_ERROR,
             "rnn_forward_packed: expected a tensor but got RG_NONE");
    p.batch_sizes = rg_parse("[2, 2, 1, 1, 1]");
    p.unsorted_indices = NULL;
    ck_fails(rg_gru_forward_packed(gru, p).h_n, RG_TYPE_ERROR,
             "rnn_forward_packed: expected a tensor but got NULL");
    rg_module_free(lstm);
    rg_module_free(gru);
    rg_module_free(rnn);
}
END_TEST

START_TEST(test_what_cells_refuse) {
    rg_rnn_cell_module *lstm = rg_nn_lstm_cell(3, 4), *gru = rg_nn_gru_cell(3, 4);
    rg_tensor *x = rg_zeros(2, 3), *h = rg_zeros(2, 4);
    ck_fails(rg_call(lstm, rg_zeros(2, 2, 3)), RG_VALUE_ERROR,
             "LSTMCell: Expected input to be 1D or 2D, got 3D instead");
    ck_fails(rg_call(gru, rg_zeros(2, 4)), RG_RUNTIME_ERROR,
             "input.size(-1) must be equal to input_size. Expected 3, got 4");
    ck_fails(rg_call(gru, x, rg_zeros(2, 4, 1)), RG_VALUE_ERROR,
             "GRUCell: Expected hidden to be 1D or 2D, got 3D instead");
    ck_fails(rg_call(lstm, x, h, rg_zeros(2, 4, 1)), RG_VALUE_ERROR,
             "LSTMCell: Expected hx[1] to be 1D or 2D, got 3D instead");
    ck_fails(rg_call(gru, x, rg_zeros(3, 4)), RG_RUNTIME_ERROR,
             "Expected hidden size (2, 4), got [3, 4]");
    ck_fails(rg_call(lstm, x, h, rg_zeros(2, 5)), RG_RUNTIME_ERROR,
             "Expected hidden[1] size (2, 4), got [2, 5]");
    ck_fails(rg_call(gru, rg_to(x, RG_FLOAT64)), RG_RUNTIME_ERROR,
             "mat1 and mat2 must have the same dtype, but got Double and Float");
    ck_fails(rg_call(gru, x, rg_to(h, RG_FLOAT64)), RG_RUNTIME_ERROR,
             "mat1 and mat2 must have the same dtype, but got Double and Float");
    ck_fails(rg_call(gru, x, h, h), RG_TYPE_ERROR,
             "GRUCell.forward() takes 3 positional arguments but 4 were given");
    ck_fails(rg_call(lstm, x, h, h, h), RG_TYPE_ERROR,
             "LSTMCell.forward() takes 4 positional arguments but 5 were given");
    ck_fails(rg_call_list((rg_module *)gru, (rg_list){ 0, &x }), RG_TYPE_ERROR,
             "GRUCell.forward() missing 1 required positional argument: 'input'");
    ck_fails(rg_call(gru, NULL), RG_TYPE_ERROR, "GRUCell: expected a tensor but got NULL");
    ck_fails(rg_call(gru, RG_NONE), RG_TYPE_ERROR, "GRUCell: expected a tensor but got RG_NONE");
    ck_fails(rg_call(gru, x, NULL), RG_TYPE_ERROR, "GRUCell: expected a tensor but got NULL");
    rg_module_free(lstm);
    rg_module_free(gru);
}
END_TEST

static int warnings;
static void count_warning(const char *message) {
    ck_assert(strstr(message, "got dropout=0.25 and num_layers=1"));
    warnings++;
}

START_TEST(test_what_layers_take) {
    rg_rnn_module *gru = rg_nn_gru(3, 4), *lstm = rg_nn_lstm(3, 4);
    rg_tensor *x = rg_zeros(5, 2, 3), *h = rg_zeros(1, 2, 4);
    ck_fails(rg_call(gru, x, h, h), RG_TYPE_ERROR,
             "GRU.forward() takes 3 positional arguments but 4 were given");
    ck_fails(rg_call(lstm, x, h, h, h), RG_TYPE_ERROR,
             "LSTM.forward() takes 4 positional arguments but 5 were given");
    ck_fails(rg_call_list((rg_module *)lstm, (rg_list){ 0, &x }), RG_TYPE_ERROR,
             "LSTM.forward() missing 1 required positional argument: 'input'");
    rg_on_warning(count_warning);
    rg_module_free(rg_nn_gru(3, 4, .dropout = 0.25));
    rg_module_free(rg_nn_gru(3, 4, .dropout = 0.25, .num_layers = 2));
    void *without = rg_nn_gru(3, 4, .dropout = 1, .num_layers = 2);
    ck_ok(without);
    rg_module_free(without);
    rg_on_warning(NULL);
    ck_assert_int_eq(warnings, 1);
    rg_module_free(gru);
    rg_module_free(lstm);
}
END_TEST

START_TEST(test_what_constructors_refuse) {
    ck_fails(rg_nn_rnn(2, 2, .dropout = NAN), RG_VALUE_ERROR, "dropout should be a number");
    ck_fails(rg_nn_rnn(2, 3, .nonlinearity = "sigmoid"), RG_VALUE_ERROR,
             "Unknown nonlinearity 'sigmoid'. Select from 'tanh' or 'relu'.");
    rg_rnn_cell_module *none = rg_nn_gru_cell(3, 0);
    ck_ok(none);
    ck_assert(rg_size(rg_call(none, rg_zeros(2, 3)), 1) == 0);
    rg_module_free(none);
    ck_fails(rg_nn_lstm(INT64_MAX, INT64_MAX), RG_RUNTIME_ERROR, "");
    ck_fails(rg_nn_gru(1, 2, .num_layers = INT64_MAX), RG_RUNTIME_ERROR, "");
    /* The error is about the first weight that can't be made. */
    ck_fails(rg_nn_gru(2, (int64_t)1 << 60), RG_RUNTIME_ERROR,
             "GRU: Storage size calculation overflowed with sizes=[3458764513820540928, 2]");
}
END_TEST

START_TEST(test_what_scans_refuse) {
    rg_tensor *g = rg_zeros(3, 2, 8), *w = rg_zeros(8, 2), *h = rg_zeros(2, 2);
    ck_fails(rg_lstm_scan(g, rg_zeros(8, 3), h, h, false).h, RG_RUNTIME_ERROR,
             "expected weight_hh of (8, 2), but got [8, 3]");
    ck_fails(rg_lstm_scan(rg_zeros(3, 2, 7), w, h, h, false).h, RG_RUNTIME_ERROR,
             "expected gates of (steps, batch, 4 * hidden), but got [3, 2, 7]");
    ck_fails(rg_lstm_scan(g, w, h, rg_zeros(2, 3), false).h, RG_RUNTIME_ERROR,
             "expected c_0 of (2, 2), but got [2, 3]");
    ck_fails(rg_gru_scan(rg_zeros(3, 2, 6), rg_zeros(6, 2), rg_zeros(5), h, false),
             RG_RUNTIME_ERROR, "expected bias_hh of (6), but got [5]");
    ck_fails(rg_rnn_scan(rg_zeros(0, 2, 2), h, h, false, false), RG_RUNTIME_ERROR,
             "expected gates of (steps, batch, 1 * hidden), but got [0, 2, 2]");
    ck_fails(rg_rnn_scan(rg_to(g, RG_INT64), w, h, false, false), RG_NOT_IMPLEMENTED, "");
}
END_TEST

/* ---- memory ---------------------------------------------------------------------- */

static void *denied_layer;
static rg_tensor *denied_x, *denied_h, *denied_lengths;
static rg_packed_sequence denied_packed;

/* Returns whether the sum of y and h_n has a gradient for each parameter. */
static bool differentiates(rg_tensor *y, rg_tensor *h_n) {
    rg_tensor *g[MOST_WANTED], *sum = rg_add(rg_sum(y), rg_sum(h_n));
    const rg_list own = rg_parameters(denied_layer);
    return sum && own.n > 0
           && rg_grad_many(1, &sum, NULL, own.n, own.v, g,
                           (rg_backward_options){ .gradient = RG_NONE });
}

static bool step_of_layer(void) {
    const rg_rnn_result r = rg_lstm_forward((rg_rnn_module *)denied_layer, denied_x);
    return differentiates(r.output, r.h_n);
}

static bool step_of_packed(void) {
    const rg_packed_sequence p = rg_pack_padded_sequence(denied_x, denied_lengths,
                                                         .enforce_sorted = false);
    const rg_rnn_packed_result r = rg_lstm_forward_packed((rg_rnn_module *)denied_layer, p);
    const rg_padded_sequence y = rg_pad_packed_sequence(r.output);
    return differentiates(y.output, r.h_n);
}

/* An input without a batch dim gets one inside the layer, and the output loses it. */
static bool step_without_batch(void) {
    rg_tensor *x = rg_select(denied_x, 1, 0), *h = rg_select(denied_h, 1, 0);
    return rg_lstm_forward((rg_rnn_module *)denied_layer, x, .h_0 = h, .c_0 = h).output;
}

/* The sizes of the steps are strided in memory. The sequences are in another order than the
 * states. */
static bool step_from_states(void) {
    const rg_rnn_packed_result r = rg_lstm_forward_packed(
        (rg_rnn_module *)denied_layer, denied_packed, .h_0 = denied_h, .c_0 = denied_h);
    return r.h_n;
}

static bool call_without_batch(void) { return rg_call(denied_layer, rg_select(denied_x, 1, 0)); }

static bool copies_layer(void) {
    rg_rnn_module *m = rg_deepcopy(denied_layer);
    rg_module_free(m);
    return m;
}

static bool step_of_cell(void) { return rg_call(denied_layer, denied_x, denied_h, denied_h); }

/* A call that fails doesn't change its keywords. */
static bool step_of_cell_with_keywords(void) {
    rg_rnn_cell_keywords k = { .states = { .h_0 = denied_h, .c_0 = denied_h }, .c = RG_NONE };
    rg_tensor *h = rg_call_keywords(denied_layer, &k, denied_x);
    ck_assert((k.c == RG_NONE) == !h);
    return h;
}

/* The lengths are strided in memory, or have another dtype than int64. */
static bool packs_and_pads(void) {
    rg_tensor *apart = rg_select(rg_stack(RG_LIST(denied_lengths, denied_lengths), 1), 1, 0);
    rg_tensor *x = denied_x, *part = rg_narrow(x, 0, 1, 2);
    return rg_pack_padded_sequence(x, apart).data
           && rg_pack_padded_sequence(x, rg_float(denied_lengths)).data
           && rg_pack_padded_sequence(x, denied_lengths, .enforce_sorted = false).data
           && rg_pack_sequence(RG_LIST(x, part)).data
           && rg_pad_packed_sequence(denied_packed, .total_length = 5, .batch_first = true).output
           && rg_pad_sequence(RG_LIST(part, rg_double(x)), .padding_side = "left");
}

/* The call returns both results or none. */
static bool pads_in_order(void) {
    const rg_padded_sequence r = rg_pad_packed_sequence(denied_packed, .batch_first = true);
    ck_assert(!r.output == !r.lengths);
    return r.output;
}

/* A dropout between layers gives a warning if there is only one layer. */
static bool layer_with_a_warning(void) {
    rg_rnn_module *m = rg_nn_lstm(3, 2, .dropout = 0.5);
    rg_module_free(m);
    return m;
}

START_TEST(test_out_of_memory) {
    twin_out_of_memory(layer_with_a_warning);
    denied_x = rg_randn(3, 2, 3);
    denied_lengths = rg_parse("[2, 3]");
    denied_layer = rg_nn_gru(3, 2, .num_layers = 2);
    step_of_layer();
    twin_out_of_memory(step_of_layer);
    rg_module_free(denied_layer);
    denied_layer = rg_nn_lstm(3, 2, .bidirectional = true);
    step_of_packed();
    twin_out_of_memory(step_of_layer);
    twin_out_of_memory(step_of_packed);
    rg_module_free(denied_layer);
}
END_TEST

START_TEST(test_out_of_memory_with_states) {
    denied_x = rg_randn(3, 2, 3);
    denied_h = rg_randn(1, 2, 2);
    denied_lengths = rg_parse("[3, 2]");
    denied_packed = rg_pack_padded_sequence(denied_x, rg_parse("[2, 3]"), .enforce_sorted = false);
    rg_tensor *twice = rg_stack(RG_LIST(denied_packed.batch_sizes, denied_packed.batch_sizes), 1);
    denied_packed.batch_sizes = rg_select(twice, 1, 0);
    ck_assert(!rg_is_contiguous(denied_packed.batch_sizes));
    twin_out_of_memory(packs_and_pads);
    twin_out_of_memory(pads_in_order);
    for (int batch_first = 0; batch_first < 2; batch_first++) {
        denied_layer = rg_nn_lstm(3, 2, .batch_first = batch_first);
        twin_out_of_memory(step_without_batch);
        twin_out_of_memory(call_without_batch);
        twin_out_of_memory(copies_layer);
        twin_out_of_memory(step_from_states);
        rg_module_free(denied_layer);
    }
    denied_layer = rg_nn_lstm_cell(3, 2);
    denied_x = rg_select(denied_x, 0, 0);
    denied_h = rg_select(denied_h, 0, 0);
    twin_out_of_memory(step_of_cell);
    twin_out_of_memory(step_of_cell_with_keywords);
    denied_x = rg_select(denied_x, 0, 0);
    denied_h = rg_select(denied_h, 0, 0);
    twin_out_of_memory(step_of_cell);
    twin_out_of_memory(step_of_cell_with_keywords);
    rg_module_free(denied_layer);
}
END_TEST

RG_TESTS(recurrent, test_what_pytorch_computes, test_ways_to_call, test_hooks_see_all_results,
         test_hooks_that_fail, test_replaced_weights, test_hooks_that_spoil_a_result,
         test_dropout_between_layers,
         test_pieces_are_the_whole, test_rows_and_threads_change_no_bit, test_replayed_steps,
         test_packing, test_what_needs_no_cutting, test_what_packing_refuses,
         test_sizes_whose_sum_goes_round, test_packing_is_no_part_of_a_recorded_step,
         test_what_layers_refuse, test_what_cells_refuse, test_what_layers_take,
         test_what_constructors_refuse, test_what_scans_refuse, test_out_of_memory,
         test_out_of_memory_with_states)

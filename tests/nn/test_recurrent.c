/*
 * test_recurrent.c: LSTM, GRU, RNN, their cells and packed sequences compute what PyTorch's do, on
 * its own samples and on others, and refuse what PyTorch refuses. REGARD_GOLDEN names a folder with
 * other cases.
 */
#define TWIN_DATA "recurrent"
#include "twin.h"

/* ---- a case: recurrent.py says what its lines are ---------------------------------- */

enum { MOST_LENGTHS = 32, MOST_WANTED = 64 };

typedef struct {
    char name[64], kind[16], repr[256], keys[2048];
    int64_t input_size, hidden_size;
    rg_rnn_options o;
    bool train, second, sorted;
    int n; /* So many inputs there are: x, h_0 and c_0. */
    rg_tensor *in[3];
    int64_t n_lengths, lengths[MOST_LENGTHS];
    char *y, *g, *second_g;
} recurrent_case;

static void read_option(recurrent_case *c, const char *key, const char *value) {
    const double x = strtod(value, NULL);
    const struct {
        const char *key;
        bool *flag;
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

/* ---- running it ----------------------------------------------------------------------- */

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

/* Returns the sum of all elements, of which number j of a tensor has the weight 0.5 + 0.1 (j % 11).
 */
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

/* Fails unless the tensors, one behind the other, are these numbers. */
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

/* Puts x, the states and the parameters into wanted, and returns how many they are. */
static int all_wanted(void *m, int n, rg_tensor *const in[], rg_tensor *wanted[]) {
    const rg_list own = rg_parameters(m);
    memcpy(wanted, in, (size_t)n * sizeof *in);
    memcpy(wanted + n, own.v, (size_t)own.n * sizeof *own.v);
    return n + own.n;
}

/* Zeros are the gradients of what the sum doesn't depend on. */
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

RG_TESTS(recurrent, test_what_pytorch_computes)

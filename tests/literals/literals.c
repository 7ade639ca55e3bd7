/*
 * literals.c: gives each option that is a pointer or a list as a literal. The memory to which a
 * literal points must live until the call is over. In C it must live to the end of the block, for
 * options whose pointer the library keeps. tests/literals/run compiles this file as C and as C++,
 * optimised and with AddressSanitizer. It also finds options of the public headers that have no row
 * here.
 */
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AT makes a value without a name and returns its address; TEXT makes a text that isn't static. */
#ifdef __cplusplus
template <typename T> static T *address_of(T &&value) { return &value; }
#define AT(type, ...) address_of(type{ __VA_ARGS__ })
#else
#define AT(type, ...) (&(type){ __VA_ARGS__ })
#endif
typedef struct text {
    char v[32];
} text;
typedef const char *string;
#define TEXT(string) (AT(text, { string })->v)

/* A row is a function that returns whether the call did what the option says. */
#define ROW(options, field) static bool options##__##field(void)

static char folder[] = "/tmp/regard-literals-XXXXXX";
static const char *in_folder(const char *name) {
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool write_file(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(in_folder(name), "wb");
    bool written = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && written;
}

/* ---- options ---------------------------------------------------------------------------- */

ROW(rg_save_file_options, metadata) {
    const char *path = in_folder("texts");
    rg_tensor *x = rg_ones(2);
    if (!rg_save_file(RG_NAMED_LIST({ "x", x }), path,
                      .metadata = { 1, AT(rg_metadata_pair, TEXT("format"), TEXT("mine")) }))
        return false;
    rg_safe_file *f = rg_safe_open(path);
    rg_metadata texts = rg_safe_metadata(f);
    bool found = texts.n == 1 && !strcmp(texts.v[0].key, "format")
                 && !strcmp(texts.v[0].value, "mine");
    rg_safe_close(f);
    return found;
}

ROW(rg_backward_options, inputs) {
    rg_tensor *x = rg_requires_grad_(rg_ones(2), true), *w = rg_requires_grad_(rg_ones(2), true);
    return rg_backward(rg_sum(rg_mul(x, w)), .inputs = RG_LIST(x)) && rg_grad_of(x) != RG_NONE
           && rg_grad_of(w) == RG_NONE;
}

ROW(rg_quantile_options, interpolation) {
    return rg_item(rg_quantile(rg_literal([ 1., 2. ]), 0.5, .interpolation = TEXT("higher"))) == 2;
}

ROW(rg_cdist_options, compute_mode) {
    rg_tensor *a = rg_literal([[ 0., 0. ]]), *b = rg_literal([[ 3., 4. ]]);
    return rg_item(rg_cdist(a, b, .compute_mode = TEXT("donot_use_mm_for_euclid_dist"))) == 5;
}

ROW(rg_meshgrid_options, indexing) {
    rg_list grid = rg_meshgrid(RG_LIST(rg_arange(2), rg_arange(3)), .indexing = TEXT("xy"));
    return grid.n == 2 && rg_size(grid.v[0], 0) == 3;
}

static rg_tensor *scaled_squares(rg_tensor *const in[], void *scale) {
    return rg_mul(rg_sum(rg_square(in[0])), *(double *)scale);
}

ROW(rg_explain_options, context) {
    rg_tensor *x = rg_requires_grad_(rg_double(rg_literal([ 1., 2. ])), true);
    rg_tensor *loss = rg_mul(rg_sum(rg_square(x)), 0.5);
    return rg_explain(loss, x, .f = scaled_squares, .context = AT(double, 0.5)).agrees;
}

static rg_tensor *sum_of_product(rg_tensor *const in[], void *unused) {
    (void)unused;
    return rg_sum(rg_mul(in[0], in[1]));
}

ROW(rg_explain_options, inputs) {
    rg_tensor *x = rg_double(rg_literal([ 1., 2. ]));
    rg_tensor *w = rg_requires_grad_(rg_double(rg_literal([ 3., 4. ])), true);
    rg_tensor *loss = rg_sum(rg_mul(x, w));
    return rg_explain(loss, w, .f = sum_of_product, .inputs = RG_LIST(x, w)).agrees;
}

/* A recorded step that adds an input to a parameter. */
typedef struct addition {
    rg_tensor *w, *x, *y;
    rg_replay *recorded;
} addition;

static void add_again(void *context) {
    addition *a = (addition *)context;
    a->y = rg_keep(rg_add(a->w, a->x));
}

static addition recorded_addition(void) {
    addition a = { rg_ones(2), rg_ones(2), NULL, NULL };
    a.recorded = rg_record(add_again, &a);
    return a;
}

/* Frees the recording, and returns whether it was written to a file that has the text. */
static bool wrote(addition a, bool done, const char *text) {
    static char bytes[1 << 16];
    FILE *f = fopen(in_folder("step.c"), "rb");
    const size_t n = f ? fread(bytes, 1, sizeof bytes - 1, f) : 0;
    bytes[n] = 0;
    if (f)
        fclose(f);
    rg_replay_free(a.recorded);
    rg_drop(a.y);
    return done && strstr(bytes, text);
}

ROW(rg_replay_to_c_options, name) {
    addition a = recorded_addition();
    return wrote(a, rg_replay_to_c(a.recorded, in_folder("step.c"), .name = TEXT("plus")),
                 "plus_step(");
}

ROW(rg_replay_to_c_options, inputs) {
    addition a = recorded_addition();
    return wrote(a, rg_replay_to_c(a.recorded, in_folder("step.c"), .inputs = RG_LIST(a.x)),
                 "const float *input0");
}

ROW(rg_replay_to_c_options, parameters) {
    addition a = recorded_addition();
    return wrote(a, rg_replay_to_c(a.recorded, in_folder("step.c"), .parameters = RG_LIST(a.w)),
                 "step_step(");
}

ROW(rg_replay_to_c_options, more_outputs) {
    addition a = recorded_addition();
    return wrote(a, rg_replay_to_c(a.recorded, in_folder("step.c"), .more_outputs = RG_LIST(a.w)),
                 "const float *step_output1(const void *memory)");
}

ROW(rg_tokens_options, dtype) {
    const uint32_t ids[] = { 1, 2, 3 };
    if (!write_file("tokens", ids, sizeof ids))
        return false;
    rg_tokens *tokens = rg_tokens_open(in_folder("tokens"), .dtype = TEXT("uint32"));
    bool right = rg_tokens_count(tokens) == 3;
    rg_tokens_close(tokens);
    return right;
}

ROW(rg_module_load_options, keys) {
    rg_linear_module *m = rg_nn_linear(2, 3), *without = rg_nn_linear(2, 3, .bias = false);
    const char *path = in_folder("module");
    rg_incompatible_keys *keys;
    bool right =
        rg_module_save(without, path)
        && rg_module_load(m, path, .strict = false,
                          .keys = keys = AT(rg_incompatible_keys, { 7, NULL }, { 7, NULL }))
        && keys->missing_keys.n == 1 && keys->unexpected_keys.n == 0;
    rg_module_free(m);
    rg_module_free(without);
    return right;
}

ROW(rg_kaiming_options, mode) {
    rg_tensor *w = rg_nn_init_kaiming_normal_(rg_empty(2, 3), .mode = TEXT("fan_out"));
    return w != NULL;
}

ROW(rg_kaiming_options, nonlinearity) {
    rg_tensor *w = rg_nn_init_kaiming_uniform_(rg_empty(2, 3), .nonlinearity = TEXT("relu"));
    return w != NULL;
}

ROW(rg_multihead_options, cache) {
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2, .batch_first = true);
    rg_tensor *x = rg_ones(1, 1, 4), *keys = rg_zeros(1, 2, 3, 2), *values = rg_zeros(1, 2, 3, 2);
    rg_attention_cache *cache;
    bool right = rg_multihead_attention_forward(
                     m, x, x, x, .need_weights = false,
                     .cache = cache = AT(rg_attention_cache, keys, values, 0, false))
                     .output
                 && cache->length == 1;
    rg_module_free(m);
    return right;
}

ROW(rg_tgt_options, cache) {
    rg_transformer_decoder *m =
        rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3), 1,
                                  .norm = rg_nn_layer_norm(4));
    rg_tensor *memory = rg_ones(3, 1, 4);
    rg_decoder_cache made = rg_transformer_decoder_cache(m, memory, 2), *cache;
    bool right = rg_transformer_decoder_forward(
                     m, rg_ones(1, 1, 4), memory,
                     .cache = cache = AT(rg_decoder_cache, made.tgt, made.memory, made.length))
                 && cache->length == 1;
    rg_module_free(m);
    return right;
}

ROW(rg_pad_options, padding_side) {
    rg_tensor *a = rg_ones(2), *b = rg_ones(1);
    rg_tensor *padded = rg_pad_sequence(RG_LIST(a, b), .batch_first = true,
                                        .padding_side = TEXT("left"));
    return rg_at(padded, 1, 0) == 0 && rg_at(padded, 1, 1) == 1;
}

ROW(rg_rnn_options, nonlinearity) {
    rg_rnn_module *m = rg_nn_rnn(2, 3, .nonlinearity = TEXT("relu"));
    bool right = m && strstr(rg_module_repr(m), "RNN(2, 3)") && m->o.nonlinearity
                 && !strcmp(m->o.nonlinearity, "relu");
    rg_module_free(m);
    return right;
}

ROW(rg_rnn_cell_options, nonlinearity) {
    rg_rnn_cell_module *m = rg_nn_rnn_cell(2, 3, .nonlinearity = TEXT("relu"));
    bool right = m && m->relu;
    rg_module_free(m);
    return right;
}

static bool count_token(rg_tensor *token, void *count) {
    ++*(int *)count;
    return token != NULL;
}

ROW(rg_generate_options, context) {
    rg_gpt *m = rg_nn_gpt(.block_size = 4, .vocab_size = 7, .n_layer = 1, .n_head = 2, .n_embd = 4);
    int *count;
    bool right = rg_gpt_generate(m, rg_literal([[1]]), 2, .each = count_token,
                                 .context = count = AT(int, 0))
                 && *count == 2;
    rg_module_free(m);
    return right;
}

ROW(rg_vocabulary_options, drop) {
    rg_vocabulary *words = rg_vocabulary_new("a; b", .drop = TEXT(";"));
    bool right = words && words->n == 2 && rg_vocabulary_index(words, "a") == 0;
    rg_vocabulary_free(words);
    return right;
}

ROW(rg_vocabulary_options, unknown) {
    rg_vocabulary *words = rg_vocabulary_new("a b", .unknown = TEXT("<unk>"));
    bool right = rg_vocabulary_index(words, "c") == 2
                 && !strcmp(rg_decode(words, rg_literal([2])), "<unk>");
    rg_vocabulary_free(words);
    return right;
}

/* Returns a tokenizer whose only token besides "<|endoftext|>" is "a". */
static rg_tokenizer *small_tokenizer(void) {
    const char vocabulary[] = "{\"a\": 0}", merges[] = "#version: 0.2\n";
    if (!write_file("vocab.json", vocabulary, sizeof vocabulary - 1)
        || !write_file("merges.txt", merges, sizeof merges - 1))
        return NULL;
    return rg_tokenizer_from_folder(folder);
}

ROW(rg_tokenizer_encode_options, pair) {
    rg_tokenizer *t = small_tokenizer();
    bool right = rg_numel(rg_tokenizer_encode(t, "a", .pair = TEXT("aa"))) == 3;
    rg_tokenizer_free(t);
    return right;
}

ROW(rg_tokenizer_batch_options, pairs) {
    rg_tokenizer *t = small_tokenizer();
    const char *one = "a";
    rg_names texts = { 1, &one };
    rg_encoding e = rg_tokenizer_encode_batch(t, texts, .pairs = { 1, AT(string, TEXT("aa")) });
    rg_tokenizer_free(t);
    return e.input_ids && rg_numel(e.input_ids) == 3;
}

ROW(rg_tokenizer_decode_options, length) {
    rg_tokenizer *t = small_tokenizer();
    int64_t *length;
    bool right = rg_tokenizer_decode(t, rg_literal([ 0, 0 ]), .length = length = AT(int64_t, 7))
                 && *length == 2;
    rg_tokenizer_free(t);
    return right;
}

/* Ends the report, and returns whether its page contains the text. */
static bool page_has(rg_report *report, const char *text) {
    static char page[1 << 16];
    bool ended = rg_report_end(report);
    FILE *f = fopen(in_folder("page"), "rb");
    size_t n = f ? fread(page, 1, sizeof page - 1, f) : 0;
    page[n] = 0;
    return ended && f && fclose(f) == 0 && strstr(page, text);
}

ROW(rg_report_options, title) {
    return page_has(rg_report_begin(in_folder("page"), .title = TEXT("my run")), "\"my run\"");
}

ROW(rg_report_picture_options, rows) {
    const char *const *names;
    rg_report *report = rg_report_begin(in_folder("page"));
    return rg_report_picture(report, "x", 1, rg_ones(1, 2),
                             .rows = { 1, names = AT(string, TEXT("above")) })
           && names && page_has(report, "[\"above\"]");
}

ROW(rg_report_picture_options, columns) {
    rg_report *report = rg_report_begin(in_folder("page"));
    return rg_report_picture(report, "x", 1, rg_ones(2, 1),
                             .columns = { 1, AT(string, TEXT("left")) })
           && page_has(report, "[\"left\"]");
}

/* Returns whether `ok` is true and the file "picture" contains the text. */
static bool picture_has(bool ok, const char *text) {
    static char picture[1 << 14];
    FILE *f = fopen(in_folder("picture"), "rb");
    size_t n = f ? fread(picture, 1, sizeof picture - 1, f) : 0;
    picture[n] = 0;
    return ok && f && fclose(f) == 0 && strstr(picture, text);
}

ROW(rg_curve_options, title) {
    return picture_has(rg_save_curve(rg_ones(2), in_folder("picture"), .title = TEXT("my curve")),
                       ">my curve<");
}

ROW(rg_heat_map_options, title) {
    return picture_has(rg_save_heat_map(rg_ones(1, 1), in_folder("picture"), .title = TEXT("map")),
                       ">map<");
}

ROW(rg_heat_map_options, rows) {
    return picture_has(rg_save_heat_map(rg_ones(1, 2), in_folder("picture"),
                                        .rows = { 1, AT(string, TEXT("above")) }),
                       ">above<");
}

ROW(rg_heat_map_options, columns) {
    return picture_has(rg_save_heat_map(rg_ones(2, 1), in_folder("picture"),
                                        .columns = { 1, AT(string, TEXT("left")) }),
                       ">left<");
}

static double scaled_epoch(int64_t epoch, void *scale) { return (double)epoch * *(double *)scale; }

/* A schedule keeps the pointer to its context. A literal in C++ doesn't live as long as the
 * schedule, so the context is a variable. */
ROW(rg_schedule_options, context) {
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 8);
#ifdef __cplusplus
    double quarter = 0.25;
    rg_schedule *s = rg_optim_lambda_lr(o, .lr_lambda = scaled_epoch, .context = &quarter);
#else
    rg_schedule *s = rg_optim_lambda_lr(o, .lr_lambda = scaled_epoch, .context = AT(double, 0.25));
#endif
    rg_optim_step(o);
    bool right = rg_schedule_step(s) && rg_optim_group(o, 0)->lr == 2;
    rg_optim_free(o);
    return right;
}

/* ---- lists with a name: they live as long as their block ------------------------------- */

static rg_tensor *twice(rg_tensor *x, const char *name, void *factor) {
    return rg_mul(x, name ? *(double *)factor : 0.0);
}

ROW(lists, that_have_a_name) {
    rg_tensor *a = rg_ones(2), *b = rg_zeros(2);
    double step = 0, factor = 2;
    rg_list two = RG_LIST(a, b);
    rg_named_list named = RG_NAMED_LIST({ "a", a }, { "b", b });
    rg_hooks_at hooks = RG_HOOKS_AT({ "0", twice, &factor });
    rg_number_list numbers = RG_NUMBERS({ "step", &step }, { "factor", &factor });
    rg_list other = RG_LIST(b, a, a);
    rg_sequential *m = rg_nn_sequential(rg_nn_identity());
    bool right = rg_equal(rg_cat(two, 0), rg_literal([ 1., 1., 0., 0. ])) && other.v[1] == a
                 && named.n == 2 && !strcmp(named.v[1].name, "b") && named.v[0].tensor == a
                 && numbers.n == 2 && numbers.v[1].value == &factor
                 && rg_at(rg_run_with_hooks(m, hooks, a), 1) == 2;
    rg_module_free(m);
    return right;
}

/* A list for which there was no memory has n = -1, and functions that take it fail. */
ROW(lists, without_memory) {
#ifdef __cplusplus
    rg_tensor *a = rg_ones(2);
    rg_memory_fail_at(1);
    rg_list two = RG_LIST(a, a);
    bool right = two.n == -1 && !rg_cat(two, 0) && rg_error_code() == RG_OUT_OF_MEMORY;
    rg_error_clear();
    return right;
#else
    return true;
#endif
}

#define TELL(options, field) { options##__##field, #options "." #field },
static const struct {
    bool (*holds)(void);
    const char *name;
} rows[] = {
#include "rows.inc"
};

int main(void) {
    int failures = 0;
    if (!mkdtemp(folder))
        return 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        RG_SCOPE();
        if (rows[i].holds())
            continue;
        failures++;
        printf("tests/literals: %s: %s\n", rows[i].name, rg_error());
        rg_error_clear();
    }
    return failures != 0;
}

/*
 * test_left.c: the tensors that calls of nn/ leave behind. A call that succeeds leaves its results
 * in its caller's scope, and nothing else. A call that is denied memory leaves no tensor.
 * fuzz_ops.c checks functions that take tensors, and functions that make modules. This file has
 * functions of other objects, such as a loader or an optimizer, and functions that read and write
 * files. tests/fuzz/covers checks that no function is forgotten.
 */
#include "tests/left.h"
#include "tests/scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- objects that are called ------------------------------------------------------------- */

static struct {
    rg_gpt *gpt;
    rg_self_attention *attention;
    rg_multihead_attention *heads;
    rg_positions *positions;
    rg_transformer *transformer;
    rg_transformer_encoder_layer *encoder_layer;
    rg_transformer_decoder_layer *decoder_layer;
    rg_sequential *list;
    rg_module_list *modules;
    rg_module_dict *dict;
    rg_parameter_list *parameters;
    rg_linear_module *linear, *tied, *sealed;
    rg_averaged_model *averaged;
    rg_data_loader *loader, *drawing_loader;
    rg_generator *generator;
    rg_tokens *tokens;
    rg_safe_file *file;
    const rg_json_document *json;
    rg_report *report;
    rg_seal *seal;
    int64_t step; /* The next step to be sealed. */
    FILE *nothing;
    rg_progress progress;
    rg_optim *optim, *lbfgs, *growing;
    rg_schedule *schedule, *plateau;
} o;

/* Tensors that are passed to the calls, and parameters that no optimizer has yet (`spare`). */
enum { SPARE = 64 };
static rg_tensor *x, *x3, *idx, *starts, *lengths, *cache, *spare[SPARE];
static rg_packed_sequence packed;
static rg_named_list loader_state, optim_state, schedule_state;
/* The variables in which a buffer and a child are registered. */
static rg_tensor *buffer_place;
static rg_module *child_place;

static void make_modules(void) {
    o.gpt = rg_nn_gpt(.block_size = 4, .vocab_size = 5, .n_layer = 1, .n_head = 1, .n_embd = 2);
    o.attention = rg_nn_self_attention(4, 2, 4);
    o.heads = rg_nn_multihead_attention(4, 2);
    o.positions = rg_nn_learned_positions(5, 4);
    o.transformer = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                      .num_decoder_layers = 1, .dim_feedforward = 3,
                                      .batch_first = true);
    o.encoder_layer = rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3);
    o.decoder_layer = rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3);
    o.list = rg_nn_sequential(rg_nn_linear(4, 4), rg_nn_relu());
    o.modules = rg_nn_module_list(rg_nn_relu());
    o.dict = rg_nn_module_dict({ "a", rg_nn_relu() });
    o.parameters = rg_nn_parameter_list(rg_ones(2));
    o.linear = rg_nn_linear(4, 4);
    o.tied = rg_nn_linear(4, 4);
    o.averaged = rg_optim_averaged_model(o.linear);
}

/* Seals or compares a step of the module that stays as it is, and ends the seal. The state of the
 * random generator is sealed, too. */
static bool seal_step(rg_seal *s) {
    rg_manual_seed(7);
    const bool sealed = s && rg_seal_step(s, 1, (rg_training){ .model = o.sealed });
    return s && rg_seal_end(s) && sealed;
}

static void make_objects(void) {
    rg_manual_seed(1);
    scratch_begin();
    x = rg_ones(3, 4);
    x3 = rg_ones(2, 3, 4);
    idx = rg_zeros_dims(RG_DIMS(1, 2), RG_INT64);
    starts = rg_arange(2);
    lengths = rg_literal([ 2, 2, 1 ]);
    packed = rg_pack_padded_sequence(x3, lengths, .enforce_sorted = false);
    make_modules();
    o.generator = rg_generator_new(3);
    o.loader = rg_data_loader_new(RG_LIST(rg_randn(6, 2)), .batch_size = 4);
    o.drawing_loader = rg_data_loader_new(RG_LIST(rg_randn(6, 2)), .batch_size = 4, .shuffle = true,
                                          .generator = o.generator);
    o.optim = rg_optim_adam(rg_parameters(o.linear), .lr = 1e-3);
    o.lbfgs = rg_optim_lbfgs(rg_parameters(o.linear));
    o.schedule = rg_optim_step_lr(o.optim, .step_size = 2);
    o.plateau = rg_optim_reduce_lr_on_plateau(o.lbfgs);
    for (int i = 0; i < SPARE; i++)
        spare[i] = rg_requires_grad_(rg_ones(2), true);
    o.growing = rg_optim_sgd(RG_LIST(spare[0]));
    cache = rg_gpt_cache(o.gpt, 1);
    loader_state = rg_data_loader_state_dict(o.drawing_loader);
    optim_state = rg_optim_state_dict(o.optim);
    schedule_state = rg_schedule_state_dict(o.schedule);
    rg_backward(rg_sum(rg_call(o.linear, x)));
    ck_assert(rg_module_save(o.linear, scratch("saved")));
    ck_assert(rg_save_npy(rg_arange(20), scratch("tokens.npy")));
    ck_assert(rg_save_checkpoint(scratch("run"), (rg_training){ .model = o.linear }));
    ck_assert(mkdir(scratch("gpt"), 0700) == 0);
    scratch_write("numbers.csv", "1,2\n3,4\n", 8);
    o.json = rg_json_load(scratch_write("config.json", "{\"a\": 1}", 8));
    o.tokens = rg_tokens_open(scratch("tokens.npy"));
    o.file = rg_safe_open(scratch("saved"));
    o.report = rg_report_begin(scratch("a.html"));
    o.seal = rg_seal_begin(scratch("a.seal"), .every = 1);
    o.sealed = rg_nn_linear(2, 2);
    ck_assert(seal_step(rg_seal_begin(scratch("b.seal"), .every = 1)));
    o.nothing = fopen("/dev/null", "w");
    o.progress = rg_progress_begin(o.nothing, 2);
    ck_assert_msg(o.tokens && o.file && o.plateau && o.loader, "%s", rg_error());
}

static void free_objects(void) {
    void *modules[] = { o.gpt,           o.attention,     o.heads,  o.positions, o.transformer,
                        o.encoder_layer, o.decoder_layer, o.list,   o.modules,   o.dict,
                        o.parameters,    o.averaged,      o.linear, o.tied,      o.sealed };
    rg_data_loader_free(o.loader);
    rg_data_loader_free(o.drawing_loader);
    rg_generator_free(o.generator);
    rg_tokens_close(o.tokens);
    rg_safe_close(o.file);
    rg_report_end(o.report);
    rg_seal_end(o.seal);
    fclose(o.nothing);
    rg_optim_free(o.optim);
    rg_optim_free(o.lbfgs);
    rg_optim_free(o.growing);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        rg_module_free(modules[i]);
    remove(scratch("gpt/config.json"));
    remove(scratch("gpt/model.safetensors"));
    remove(scratch("gpt"));
    scratch_end();
}

static rg_tensor *closure(void *context) {
    (void)context;
    rg_tensor *loss = rg_sum(rg_square(rg_call(o.linear, x)));
    return rg_optim_zero_grad(o.lbfgs) && rg_backward(loss) ? loss : NULL;
}

/* The number of tensors that a call has returned. A call sets it only if the number isn't the same
 * each time. */
static int given;

/* Counts the entries that have a tensor. An entry that is None or a string in PyTorch has none. */
static bool lists(rg_named_list dict) {
    given = 0;
    for (int i = 0; i < dict.n; i++)
        given += dict.v[i].tensor != RG_NONE;
    return dict.n > 0;
}

static bool next_of(rg_data_loader *l) {
    rg_list batch = rg_data_loader_next(l);
    given = batch.n;
    return batch.n >= 0;
}

static bool adds_group(void) {
    static int used;
    rg_tensor *parameter[] = { spare[used + 1] };
    const bool ok = rg_optim_add_group(o.growing, rg_list_of(1, parameter));
    used += ok;
    return ok;
}

static rg_tensor *leaves(rg_tensor *value, const char *name, void *context) {
    (void)value;
    (void)name;
    (void)context;
    return RG_NONE;
}

static bool looks(void *m) {
    rg_hooks_guard guard = rg_hooks_guard_open(m, RG_HOOKS_AT({ "", leaves, NULL }));
    const bool ok = guard.scope;
    rg_hooks_guard_close(&guard);
    return ok;
}

/* The call gives two tensors: the output, and the value of the child "0". */
static bool caches(void *m) { return rg_run_with_cache(m, "0", x).output; }

/* Frees the object that a call has made. Returns whether there was one. */
static bool let_go(rg_data_loader *l) {
    rg_data_loader_free(l);
    return l;
}
static bool closed(rg_tokens *t) {
    rg_tokens_close(t);
    return t;
}
static bool shut(rg_safe_file *f) {
    rg_safe_close(f);
    return f;
}

/* ---- calls ------------------------------------------------------------------------------- */

#define LEFT(gives, memory, ...) \
    static bool RG_PASTE(call_, __LINE__)(void) { return __VA_ARGS__; }
#include "left.def"
#undef LEFT

static const struct {
    const char *text;
    bool (*call)(void);
    size_t gives;
    bool memory;
} calls[] = {
#define LEFT(gives, memory, ...) { #__VA_ARGS__, RG_PASTE(call_, __LINE__), gives, memory },
#include "left.def"
};
enum { CALLS = sizeof calls / sizeof *calls, AGAIN = 4, MOST = 4000 };

/* Makes call i. If `fail` isn't 0, the call's request for memory with this number is denied.
 * Returns whether the call succeeds. */
static bool look_after(int i, int64_t fail) {
    RG_SCOPE();
    const left_behind was = look_behind();
    rg_error_clear();
    given = (int)calls[i].gives;
    rg_memory_fail_at(fail);
    const bool ok = calls[i].call();
    rg_memory_fail_at(0);
    ck_assert_msg(ok == !rg_error_code(), "%s: %s", calls[i].text, rg_error());
    check_left(calls[i].text, was, ok ? (size_t)given : 0, !ok || calls[i].memory);
    rg_error_clear();
    return ok;
}

START_TEST(test_calls) {
    make_objects();
    for (int i = 0; i < CALLS; i++) {
        for (int again = 0; again < AGAIN; again++)
            ck_assert_msg(look_after(i, 0), "%s failed", calls[i].text);
        int64_t fail = 1;
        while (!look_after(i, fail))
            ck_assert(fail++ < MOST);
    }
    free_objects();
}
END_TEST

/* If no module calls the hook of a run, the run fails and leaves nothing behind. */
START_TEST(test_hooks_that_nothing_calls) {
    make_objects();
    ck_gives_none(rg_run_with_hooks(o.list, RG_HOOKS_AT({ "nothing", leaves, NULL }), x));
    ck_gives_none(rg_run_with_cache(o.list, "nothing", x).output);
    free_objects();
}
END_TEST

RG_TESTS(left, test_calls, test_hooks_that_nothing_calls)

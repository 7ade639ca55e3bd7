/*
 * test_handles.c: a function that expects a handle of one kind refuses NULL, a released handle, and
 * any other pointer. The kinds are those of tensor/handle.h. A new kind must get its three
 * functions here, or this file doesn't compile.
 */
#include "regard.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

/* ---- an example of each kind ----------------------------------------------------------- */

/* Tensors for the functions below, which must allocate nothing before they refuse a handle that was
 * released. */
static rg_tensor *weight, *input, *ids, *state, *place;
static rg_module *stranger, *child;
static const rg_buffer_options transient = { .persistent = false };

static void *make_GENERATOR(void) { return rg_generator_new(1); }
static bool use_GENERATOR(void *g) { return rg_generator_state(g); }
static void release_GENERATOR(void *g) { rg_generator_free(g); }

static void *make_SAFE_FILE(void) {
    rg_named t = { "t", weight };
    ck_assert(rg_save_file(((rg_named_list){ 1, &t }), scratch("a.safetensors")));
    return rg_safe_open(scratch("a.safetensors"));
}
static bool use_SAFE_FILE(void *f) { return rg_safe_keys(f).n >= 0; }
static void release_SAFE_FILE(void *f) { rg_safe_close(f); }

static void nothing(void *context) { (void)context; }
static void *make_REPLAY(void) { return rg_record(nothing, NULL); }
static bool use_REPLAY(void *r) { return rg_replay_run(r); }
static void release_REPLAY(void *r) { rg_replay_free(r); }

static rg_tensor *doubled(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(in[0], 2);
}
static void *make_REPLAYS(void) { return rg_replays_new(doubled, NULL); }
static bool use_REPLAYS(void *r) { return rg_replays_run(r, 1, &input); }
static void release_REPLAYS(void *r) { rg_replays_free(r); }

static void *make_MODULE(void) { return rg_nn_linear(2, 2); }
static bool use_MODULE(void *m) { return rg_parameters(m).n >= 0; }
static void release_MODULE(void *m) { rg_module_free(m); }

static rg_optim *new_optim(void) { return rg_optim_sgd(RG_LIST(weight), .lr = 1); }
static void *make_OPTIM(void) { return new_optim(); }
static bool use_OPTIM(void *o) { return rg_optim_step(o); }
static void release_OPTIM(void *o) { rg_optim_free(o); }

static rg_optim *of_schedule;
static void *make_SCHEDULE(void) {
    of_schedule = new_optim();
    return rg_optim_step_lr(of_schedule, .step_size = 1);
}
static bool use_SCHEDULE(void *s) { return rg_schedule_state_dict(s).n >= 0; }
static void release_SCHEDULE(void *s) {
    (void)s;
    rg_optim_free(of_schedule);
}

static void *make_TOKENS(void) {
    scratch_write("a.bin", "\1\0\2\0", 4);
    return rg_tokens_open(scratch("a.bin"));
}
static bool use_TOKENS(void *t) { return rg_tokens_count(t) >= 0; }
static void release_TOKENS(void *t) { rg_tokens_close(t); }

static void *make_DATA_LOADER(void) { return rg_data_loader_new(RG_LIST(weight)); }
static bool use_DATA_LOADER(void *l) { return rg_data_loader_len(l) >= 0; }
static void release_DATA_LOADER(void *l) { rg_data_loader_free(l); }

static void *make_VOCABULARY(void) { return rg_vocabulary_new("a b"); }
static bool use_VOCABULARY(void *v) { return rg_vocabulary_index(v, "a") >= 0; }
static void release_VOCABULARY(void *v) { rg_vocabulary_free(v); }

static void *make_TOKENIZER(void) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/../files/gpt2", golden_folder());
    return rg_tokenizer_from_folder(folder);
}
static bool use_TOKENIZER(void *t) { return rg_tokenizer_size(t) >= 0; }
static void release_TOKENIZER(void *t) { rg_tokenizer_free(t); }

static void *make_REPORT(void) { return rg_report_begin(scratch("a.html")); }
static bool use_REPORT(void *r) { return rg_report_number(r, "loss", 0, 1); }
static void release_REPORT(void *r) { rg_report_end(r); }

static void *make_SEAL(void) { return rg_seal_begin(scratch("a.seal")); }
static bool use_SEAL(void *s) { return rg_seal_hash(s); }
static void release_SEAL(void *s) { rg_seal_end(s); }

static rg_tensor *unchanged(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)y;
    (void)context;
    return RG_NONE;
}

typedef struct {
    void *(*make)(void);
    bool (*use)(void *it);
    void (*release)(void *it);
    const char *name, *expected, *released;
} example;

#define EXAMPLE(kind, article, name, released) \
    { make_##kind,                             \
      use_##kind,                              \
      release_##kind,                          \
      article name,                            \
      "expected " article name " but got ",    \
      name " released " released },
static const example examples[] = { RG_HANDLE_KINDS_(EXAMPLE) };
enum { KINDS = sizeof examples / sizeof *examples };

static void *handle[KINDS];

/* The calls with which each kind of handle is used. */
#define USE(kind, name, call) \
    static bool use_##kind##_##name(void *it) { return call; }
#include "handles.def"
#undef USE
#define USE(kind, name, call) { make_##kind, use_##kind##_##name, #call },
static const struct {
    void *(*make)(void); /* Makes a handle of the kind that the call expects. */
    bool (*use)(void *it);
    const char *call;
} uses[] = {
#include "handles.def"
};
enum { USES = sizeof uses / sizeof *uses };

static void setup(void) {
    scratch_begin();
    weight = rg_requires_grad_(rg_ones(2), true);
    input = rg_ones(2);
    ids = rg_arange(2);
    state = rg_generator_state(rg_default_generator());
    stranger = &rg_nn_relu()->base;
    for (int i = 0; i < KINDS; i++) {
        handle[i] = examples[i].make();
        ck_assert_msg(handle[i], "%s: %s", examples[i].name, rg_error());
    }
}

/* ---- what is refused ------------------------------------------------------------------- */

/* Asserts that the call failed with this code, and that `start` and `end` follow the function's
 * name in the message. */
static void refuses(bool failed, const char *it, rg_code code, const char *start, const char *end) {
    char sentence[200];
    snprintf(sentence, sizeof sentence, ": %s%s", start, end);
    const size_t n = strlen(rg_error()), m = strlen(sentence);
    ck_assert_msg(failed && rg_error_code() == code && n > m
                      && strcmp(rg_error() + n - m, sentence) == 0,
                  "%s: '%s', not '%s'", it, rg_error(), sentence);
    rg_error_clear();
}

/* Asserts that all functions refuse the pointer `it`: those that use the handle, and the one that
 * releases it. */
static void refuses_pointer(const example *e, void *it, rg_code code, const char *start,
                            const char *end) {
    refuses(!e->use(it), e->name, code, start, end);
    for (int i = 0; i < USES; i++)
        if (uses[i].make == e->make)
            refuses(!uses[i].use(it), uses[i].call, code, start, end);
    if (it && e->release != release_SCHEDULE) {
        e->release(it);
        refuses(true, e->name, code, start, end);
    }
}

START_TEST(test_foreign) {
    setup();
    const char other[64] __attribute__((aligned(64))) = "neither a tensor nor a handle";
    for (int i = 0; i < KINDS; i++) {
        const example *e = &examples[i];
        const bool module = e->make == make_MODULE;
        ck_assert_msg(e->use(handle[i]), "%s: %s", e->name, rg_error());
        for (int j = 0; j < KINDS; j++)
            if (j != i)
                refuses_pointer(e, handle[j], RG_TYPE_ERROR, e->expected, examples[j].name);
        refuses_pointer(e, NULL, RG_TYPE_ERROR, e->expected, "NULL");
        refuses_pointer(e, RG_NONE, RG_TYPE_ERROR, e->expected, "RG_NONE");
        refuses_pointer(e, (void *)(uintptr_t)other, RG_TYPE_ERROR, e->expected, "another pointer");
        refuses_pointer(e, weight, RG_TYPE_ERROR, module ? "" : e->expected,
                        module ? "torch.FloatTensor is not a Module subclass" : "a tensor");
        ck_fails(rg_neg(handle[i]), RG_TYPE_ERROR, "expected a tensor but got ");
        ck_assert(e->use(handle[i]));
    }
    for (int i = 0; i < KINDS; i++)
        examples[i].release(handle[i]);
    rg_module_free(stranger);
    scratch_end();
}
END_TEST

/* Using a released handle fails, even if another handle of its kind was made since. Without the
 * pool of memory.c the handle's memory may be reused at once, so the test is skipped. */
START_TEST(test_released) {
    if (rgi_pool_bypassed())
        return;
    setup();
    for (int i = 0; i < KINDS; i++) {
        const example *e = &examples[i];
        e->release(handle[i]);
        void *next = e->make();
        refuses_pointer(e, handle[i], RG_RELEASED, e->released, "");
        for (int j = 0; j < KINDS; j++)
            if (j != i)
                refuses_pointer(&examples[j], handle[i], RG_TYPE_ERROR, examples[j].expected,
                                e->name);
        handle[i] = next;
    }
    for (int i = 0; i < KINDS; i++)
        examples[i].release(handle[i]);
    rg_module_free(stranger);
    scratch_end();
}
END_TEST

RG_TESTS(handles, test_foreign, test_released)

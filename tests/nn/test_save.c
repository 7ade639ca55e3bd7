/*
 * test_save.c: modules are saved to a file and loaded again. A tied tensor is in the file once,
 * under the name that safetensors' save_model keeps. A file that doesn't fit is refused in
 * load_model's words, and changes nothing.
 */
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"
#include "tensor/memory.h"
#include "tensor/structs.h"

#include <stdio.h>
#include <string.h>

/* ---- modules ------------------------------------------------------------------------ */

typedef struct {
    rg_module base;
    rg_tensor *b, *a, *part, *other, *counter, *scratch;
} Net;
static const rg_module_class net_class = { .name = "Net" };

enum { PLAIN, TIED, PARTS };

/* Makes a module. If it is TIED, `a` and `b` are one parameter, and `part` is a view of that
 * parameter. If it is PARTS, `part` and `other` are overlapping views of a tensor that isn't in the
 * module. */
static Net *net(int kind) {
    RG_SCOPE();
    Net *self = RG_MODULE(Net, &net_class);
    rg_tensor *hidden = rg_arange_as(rg_wrap_int(6), RG_FLOAT32);
    RG_PARAMETER(self, b, rg_randn(4, 3));
    RG_PARAMETER(self, a, rg_randn(4, 3));
    RG_BUFFER(self, part, kind == PARTS ? rg_narrow(hidden, 0, 0, 4) : rg_rand(2, 3));
    RG_BUFFER(self, other, kind == PARTS ? rg_narrow(hidden, 0, 2, 4) : rg_rand(2));
    RG_BUFFER(self, counter, rg_scalar_dtype(3, RG_INT64));
    RG_BUFFER(self, scratch, rg_ones(2), .persistent = false);
    if (kind == TIED && self) {
        rg_tie(&self->a, self->b);
        rg_register_buffer(&self->base, "part", &self->part, rg_narrow(rg_detach(self->b), 0, 1, 2),
                           (rg_buffer_options){ .persistent = true });
    }
    return RG_READY(self);
}

/* Returns copies of what the module has, which the scope owns. */
static rg_named_list copy_of_state(void *m) {
    rg_named_list now = rg_state_dict(m);
    rg_named *v = malloc(sizeof *v * (size_t)now.n);
    for (int i = 0; i < now.n; i++)
        v[i] = (rg_named){ now.v[i].name, (rg_clone)(rg_detach(now.v[i].tensor)) };
    return (rg_named_list){ now.n, v };
}

static void check_state(void *m, rg_named_list expected) {
    rg_named_list now = rg_state_dict(m);
    ck_assert_int_eq(now.n, expected.n);
    for (int i = 0; i < now.n; i++) {
        ck_assert_str_eq(now.v[i].name, expected.v[i].name);
        ck_assert_msg(rg_equal(now.v[i].tensor, expected.v[i].tensor), "%s", now.v[i].name);
    }
}

static void check_keys(const char *path, const char *expected) {
    RG_SCOPE();
    rg_safe_file *f = rg_safe_open(path);
    rg_names keys = rg_safe_keys(f);
    rg_metadata metadata = rg_safe_metadata(f);
    char text[512] = "";
    for (int i = 0; i < keys.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", keys.v[i]);
    for (int i = 0; i < metadata.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s=%s ", metadata.v[i].key,
                 metadata.v[i].value);
    ck_assert_str_eq(text, expected);
    rg_safe_close(f);
}

/* ---- there and back ----------------------------------------------------------------- */

START_TEST(test_round_trip) {
    scratch_begin();
    for (int kind = PLAIN; kind <= TIED; kind++) {
        RG_SCOPE();
        Net *m = net(kind), *other = net(kind);
        ck_ok(rg_module_save(m, scratch("f")));
        rg_named_list before = copy_of_state(m);
        ck_ok(rg_module_load(other, scratch("f")));
        check_state(other, before);
        ck_assert(other->a->flags & RG_IS_PARAMETER && rg_requires_grad(other->a));
        ck_assert_int_eq(other->a == other->b, kind == TIED);
        free((void *)before.v);
        rg_module_free(m);
        rg_module_free(other);
    }
    scratch_end();
}
END_TEST

START_TEST(test_names) {
    scratch_begin();
    Net *m = net(PLAIN), *tied = net(TIED);
    ck_ok(rg_module_save(m, scratch("f")));
    check_keys(scratch("f"), "a b counter other part ");
    ck_ok(rg_module_save(tied, scratch("f")));
    check_keys(scratch("f"), "a counter other b=a part=a ");
    const rg_metadata_pair pairs[] = { { "format", "pt" }, { "b", "mine" } };
    ck_ok(rg_module_save(tied, scratch("f"), .metadata = { 2, pairs }));
    check_keys(scratch("f"), "a counter other format=pt b=mine part=a ");
    ck_ok(rg_module_load(tied, scratch("f")));
    ck_ok(rg_module_save(tied, scratch("m.safetensors"), .max_shard_size = 1));
    ck_ok(rg_module_load(tied, scratch("m.safetensors.index.json")));
    ck_fails(rg_module_load(m, scratch("m.safetensors.index.json")), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"b\", \"part\"");
    rg_module_free(m);
    rg_module_free(tied);
    scratch_end();
}
END_TEST

/* A tied parameter is written once, also if it has one element. Without elements, it is written
 * under both of its names. */
START_TEST(test_small_things_tied) {
    for (int64_t n = 0; n < 3; n++) {
        Net *m = net(PLAIN);
        scratch_begin();
        ck_ok(rg_register_parameter(&m->base, "a", &m->a, rg_randn(n)));
        ck_ok(rg_register_parameter(&m->base, "b", &m->b, rg_randn(n)));
        rg_tie(&m->a, m->b);
        ck_ok(rg_module_save(m, scratch("f")));
        check_keys(scratch("f"), n ? "a counter other part b=a " : "a b counter other part ");
        rg_module_free(m);
        scratch_end();
    }
}
END_TEST

/* PyTorch's save_model wrote the file, and regard writes the same bytes. */
START_TEST(test_golden) {
    scratch_begin();
    char path[600];
    snprintf(path, sizeof path, "%s/../files/tied.safetensors", golden_folder());
    rg_gpt *m = rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 1, .n_head = 2, .n_embd = 4);
    ck_ok(rg_module_load(m, path));
    ck_ok(rg_module_save(m, scratch("f")));
    ck_assert(same_files(path, scratch("f")));
    rg_tensor *wte = rg_named_parameters(m).v[0].tensor;
    ck_assert(rg_equal(wte, rg_load_file(path).v[0].tensor));
    ck_assert(m->lm_head->weight == wte);
    rg_module_free(m);
    scratch_end();
}
END_TEST

/* Another dtype is converted, as load_state_dict does. */
START_TEST(test_dtypes) {
    scratch_begin();
    Net *m = net(PLAIN), *wide = net(PLAIN);
    ck_ok(rg_module_to(wide, RG_FLOAT64));
    ck_ok(rg_module_save(m, scratch("f")) && rg_module_load(wide, scratch("f")));
    ck_assert_int_eq(rg_dtype_of(wide->a), RG_FLOAT64);
    ck_assert(rg_item(rg_sum(rg_sub(wide->a, m->a))) == 0);
    ck_assert_int_eq(rg_item_int(wide->counter), 3);
    rg_module_free(m);
    rg_module_free(wide);
    scratch_end();
}
END_TEST

/* ---- what doesn't fit --------------------------------------------------------------- */

/* Saves some of the module's tensors. Each pair has the name in the module and the name in the
 * file. */
static void save_some(Net *m, const char *path, const char *const names[][2]) {
    rg_named tensors[8];
    rg_named_list state = rg_state_dict(m), some = { 0, tensors };
    for (; names[some.n][0]; some.n++)
        for (int i = 0; i < state.n; i++)
            if (!strcmp(state.v[i].name, names[some.n][0]))
                tensors[some.n] = (rg_named){ names[some.n][1], state.v[i].tensor };
    ck_ok(rg_save_file(some, path));
}

#define SAME(name) \
    { name, name }
static const struct {
    int kind;
    const char *const names[8][2];
    const char *sentence; /* NULL stands for success. */
} fits[] = {
    { PLAIN,
      { SAME("b"), SAME("part"), SAME("other") },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n    Missing key(s) in state_dict: \"a\", \"counter\"" },
    { PLAIN,
      { SAME("a"),
        SAME("b"),
        SAME("part"),
        SAME("other"),
        SAME("counter"),
        { "a", "z.x" },
        { "a", "" } },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n    Unexpected key(s) in state_dict: \"\", \"z.x\"" },
    { PLAIN,
      { SAME("a"), SAME("b"), SAME("part"), SAME("other"), { "counter", "Counter" } },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n    Missing key(s) in state_dict: \"counter\""
      "\n    Unexpected key(s) in state_dict: \"Counter\"" },
    /* If shapes and names differ, the error is about a shape. */
    { PLAIN,
      { SAME("a"), { "a", "part" }, { "a", "more" } },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n\tsize mismatch for part: copying a param with shape torch.Size([4, 3]) from checkpoint, "
      "the shape in current model is torch.Size([2, 3])." },
    { PLAIN,
      { { "a", "part" } },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n\tsize mismatch for part: copying a param with shape torch.Size([4, 3]) from checkpoint, "
      "the shape in current model is torch.Size([2, 3])." },
    { PLAIN,
      { SAME("a"), { "part", "b" }, { "a", "more" } },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n\tsize mismatch for b: copying a param with shape torch.Size([2, 3]) from checkpoint, "
      "the shape in current model is torch.Size([4, 3])." },
    /* A file may have either name of the tied parameter, but not both. */
    { TIED, { SAME("a"), SAME("other"), SAME("counter") }, NULL },
    { TIED, { SAME("b"), SAME("other"), SAME("counter") }, NULL },
    { TIED,
      { SAME("part"), SAME("other"), SAME("counter") },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n    Missing key(s) in state_dict: \"a\""
      "\n    Unexpected key(s) in state_dict: \"part\"" },
    { TIED,
      { SAME("a"), SAME("b"), SAME("other"), SAME("counter") },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n    Unexpected key(s) in state_dict: \"b\"" },
    { TIED,
      { SAME("other"), SAME("counter") },
      "module_load: Error(s) in loading state_dict for Net:"
      "\n    Missing key(s) in state_dict: \"a\"" },
};

START_TEST(test_strict) {
    scratch_begin();
    for (int i = 0; i < (int)(sizeof fits / sizeof *fits); i++) {
        RG_SCOPE();
        Net *m = net(fits[i].kind), *other = net(fits[i].kind);
        rg_named_list before = copy_of_state(other);
        save_some(m, scratch("f"), fits[i].names);
        rg_error_clear();
        bool loaded = rg_module_load(other, scratch("f"));
        ck_assert_msg(!strcmp(rg_error(), fits[i].sentence ? fits[i].sentence : ""), "'%s'",
                      rg_error());
        ck_assert(loaded == !fits[i].sentence);
        if (!loaded)
            check_state(other, before);
        rg_error_clear();
        /* With strict = false, a load fails only if a shape differs. */
        const bool bad_shape = fits[i].sentence && strstr(fits[i].sentence, "size mismatch");
        ck_assert(rg_module_load(other, scratch("f"), .strict = false) == !bad_shape);
        rg_error_clear();
        free((void *)before.v);
        rg_module_free(m);
        rg_module_free(other);
    }
    scratch_end();
}
END_TEST

/* A load returns the same keys as load_model, also for tied names. */
START_TEST(test_left_out) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *one = rg_ones(2);
    ck_ok(rg_save_file(RG_NAMED_LIST({ "weight", one }, { "y", one }, { "x", one }), scratch("f")));
    void *m = rg_nn_layer_norm(2);
    rg_incompatible_keys keys;
    ck_ok(rg_module_load(m, scratch("f"), .strict = false, .keys = &keys));
    ck_assert(keys.missing_keys.n == 1 && !strcmp(keys.missing_keys.v[0], "bias"));
    ck_assert(keys.unexpected_keys.n == 2 && !strcmp(keys.unexpected_keys.v[0], "x")
              && !strcmp(keys.unexpected_keys.v[1], "y"));
    ck_fails(rg_module_load(m, scratch("f"), .keys = &keys), RG_RUNTIME_ERROR,
             "key(s) in state_dict: \"bias\"\n    Unexpected key(s) in state_dict: \"x\", \"y\"");
    ck_assert_int_eq(keys.missing_keys.n, -1);
    rg_module_free(m);
    /* A tied weight is in the file once, and none of its names is missing. */
    rg_gpt *gpt = rg_nn_gpt(.block_size = 2, .vocab_size = 3, .n_layer = 1, .n_head = 1,
                            .n_embd = 2);
    ck_ok(rg_module_save(gpt, scratch("g")) && rg_module_load(gpt, scratch("g"), .keys = &keys));
    ck_assert(keys.missing_keys.n == 0 && keys.unexpected_keys.n == 0);
    rg_module_free(gpt);
    scratch_end();
}
END_TEST

/* Tensors that share memory can't be saved if none of them has all of that memory. */
START_TEST(test_no_name_has_all) {
    scratch_begin();
    Net *m = net(PARTS);
    ck_fails(
        rg_module_save(m, scratch("f")), RG_RUNTIME_ERROR,
        "module_save: Error while trying to find names to remove to save state dict, but found "
        "no suitable name to keep for saving amongst: {'part', 'other'}. None is covering the "
        "entire storage.");
    ck_assert_int_eq(scratch_files(), 0);
    /* The state_dict can be saved, since rg_save_file writes each tensor in full. */
    ck_ok(rg_save_file(rg_state_dict(m), scratch("f")));
    ck_ok(rg_load_state_dict(m, rg_load_file(scratch("f")), true));
    /* If only one tensor is a view of the memory, it is saved like any other. */
    ck_ok(rg_register_buffer(&m->base, "part", &m->part, rg_ones(2),
                             (rg_buffer_options){ .persistent = true }));
    ck_ok(rg_module_save(m, scratch("f")) && rg_module_load(m, scratch("f")));
    /* Two views of different tensors are saved, too. */
    ck_ok(rg_register_buffer(&m->base, "part", &m->part, rg_narrow(rg_ones(5), 0, 1, 2),
                             (rg_buffer_options){ .persistent = true }));
    ck_ok(rg_module_save(m, scratch("f")) && rg_module_load(m, scratch("f")));
    rg_module_free(m);
    scratch_end();
}
END_TEST

START_TEST(test_refused) {
    scratch_begin();
    Net *m = net(PLAIN);
    ck_fails(rg_module_save(NULL, scratch("f")), RG_TYPE_ERROR, "expected a module but got NULL");
    ck_fails(rg_module_load(NULL, scratch("f")), RG_TYPE_ERROR, "expected a module but got NULL");
    ck_fails(rg_module_save(m, scratch("f"), .metadata = { 1, NULL }), RG_TYPE_ERROR,
             "module_save: expected a list but got NULL");
    ck_fails(rg_module_load(m, scratch("none")), RG_IO_ERROR, "module_load: [Errno 2] ");
    ck_fails(rg_module_load(m, scratch_write("bad", "12345678", 8)), RG_IO_ERROR,
             "bad': its header would have");
    ck_fails(rg_module_save(m, scratch("no/f")), RG_IO_ERROR, "module_save: [Errno 2] ");
    rg_module_free(m);
    if (!rgi_pool_bypassed())
        ck_fails(rg_module_save(m, scratch("f")), RG_RELEASED, "module released by rg_module_free");
    scratch_end();
}
END_TEST

/* ---- failures while a file is saved or loaded --------------------------------------- */

static Net *from, *into;
static rg_named_list before;

static bool save_net(void) { return rg_module_save(from, scratch("f")); }
static bool load_net(void) { return rg_module_load(into, scratch("f")); }

/* Asserts that the file can be loaded, and that there is no other file beside it. */
static void check_saved(bool done) {
    RG_SCOPE();
    (void)done;
    ck_assert_int_eq(scratch_files(), 1);
    ck_ok(rg_load_file(scratch("f")).n > 0);
}

/* Asserts that the module has all of the file if `done`, and else that it hasn't changed. Then
 * gives the module its earlier values again. */
static void check_loaded(bool done) {
    RG_SCOPE();
    check_state(into, done ? rg_state_dict(from) : before);
    ck_ok(rg_load_state_dict(into, before, true));
}

/* Each request for memory is denied in turn, and each call of the file system fails. */
START_TEST(test_denied) {
    scratch_begin();
    RG_SCOPE();
    from = net(TIED);
    into = net(TIED);
    before = copy_of_state(into);
    ck_assert_int_gt(deny_in_turn(save_net, check_saved), 10);
    ck_assert_int_gt(fail_in_turn(save_net, check_saved), 5);
    ck_assert_int_gt(deny_in_turn(load_net, check_loaded), 10);
    ck_assert_int_gt(fail_in_turn(load_net, check_loaded), 5);
    free((void *)before.v);
    rg_module_free(from);
    rg_module_free(into);
    scratch_end();
}
END_TEST

/* ---- tensors that share memory ------------------------------------------------------------ */

typedef struct {
    rg_module base;
    rg_tensor *v[4];
} Parts;
static const rg_module_class parts_class = { .name = "Parts" };

/* Tensors that share memory are one group, whatever their names are. A short tensor that ends
 * before the next one begins doesn't divide the group. */
START_TEST(test_parts_of_one_memory) {
    static const char *const orders[] = { "abcd", "badc", "dcba", "cdab", "bcda", "dabc", "acbd" };
    scratch_begin();
    for (int i = 0; i < (int)(sizeof orders / sizeof *orders); i++) {
        RG_SCOPE();
        rg_tensor *all = rg_rand(6);
        rg_tensor *parts[] = { all, rg_narrow(all, 0, 0, 2), rg_narrow(all, 0, 3, 2),
                               rg_narrow(all, 0, 0, 3) };
        Parts *m = RG_MODULE(Parts, &parts_class);
        for (int k = 0; k < 4; k++) {
            const int part = orders[(i + 3) % 7][k] - 'a';
            const char name[] = { orders[i][part], 0 };
            ck_ok(rg_register_buffer(&m->base, name, &m->v[k], parts[part],
                                     (rg_buffer_options){ .persistent = true }));
        }
        m = RG_READY(m);
        ck_ok(rg_module_save(m, scratch("f")));
        char expected[64];
        size_t n = (size_t)snprintf(expected, sizeof expected, "%c ", orders[i][0]);
        for (char name = 'a'; name <= 'd'; name++)
            if (name != orders[i][0])
                n += (size_t)snprintf(expected + n, sizeof expected - n, "%c=%c ", name,
                                      orders[i][0]);
        check_keys(scratch("f"), expected);
        ck_ok(rg_module_load(m, scratch("f")));
        rg_module_free(m);
    }
    scratch_end();
}
END_TEST

/* A module without tensors can be saved and loaded. A pair of metadata must have a key. */
START_TEST(test_nothing_to_save) {
    RG_SCOPE();
    scratch_begin();
    void *m = rg_nn_identity();
    rg_incompatible_keys keys;
    ck_ok(rg_module_save(m, scratch("f")) && rg_module_load(m, scratch("f"), .keys = &keys));
    ck_assert(keys.missing_keys.n == 0 && keys.unexpected_keys.n == 0);
    rg_module_free(m);
    const rg_metadata_pair pairs[] = { { NULL, "pt" } };
    m = net(TIED);
    ck_fails(rg_module_save(m, scratch("g"), .metadata = { 1, pairs }), RG_TYPE_ERROR,
             "module_save: ");
    rg_module_free(m);
    scratch_end();
}
END_TEST

/* A load leaves the names that it returns in the caller's scope, and nothing else. */
START_TEST(test_what_stays_of_a_load) {
    RG_SCOPE();
    scratch_begin();
    void *m = rg_nn_layer_norm(2);
    rg_tensor *one = rg_ones(2);
    ck_ok(rg_save_file(RG_NAMED_LIST({ "weight", one }, { "first", one }), scratch("f")));
    ck_ok(rg_save_file(RG_NAMED_LIST({ "bias", one }, { "other", one }), scratch("g")));
    const int64_t live = rg_live_tensors();
    rg_incompatible_keys a, b;
    ck_ok(rg_module_load(m, scratch("f"), .strict = false, .keys = &a));
    ck_ok(rg_module_load(m, scratch("g"), .strict = false, .keys = &b));
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_str_eq(a.missing_keys.v[0], "bias");
    ck_assert_str_eq(a.unexpected_keys.v[0], "first");
    ck_assert_str_eq(b.missing_keys.v[0], "weight");
    ck_assert_str_eq(b.unexpected_keys.v[0], "other");
    rg_module_free(m);
    scratch_end();
}
END_TEST

/* If a load has strict = false and no `keys`, it doesn't matter which of the tensors that share
 * memory are in the file. */
START_TEST(test_load_parts_of_others) {
    RG_SCOPE();
    scratch_begin();
    Net *m = net(PARTS);
    ck_ok(rg_save_file(rg_state_dict(m), scratch("f")));
    ck_fails(rg_module_load(m, scratch("f")), RG_RUNTIME_ERROR,
             "module_load: Error while trying to find names to remove");
    ck_ok(rg_module_load(m, scratch("f"), .strict = false));
    rg_module_free(m);
    scratch_end();
}
END_TEST

static void *refusing;

/* Returns whether the failed call has this code, and then clears the error. */
static bool refused(bool done, rg_code code) {
    ck_assert(!done);
    if (rg_error_code() != code)
        return false;
    forget_failure();
    return true;
}

static bool refused_save(void) {
    return refused(rg_module_save(refusing, scratch("g")), RG_RUNTIME_ERROR);
}
static bool refused_load(void) {
    return refused(rg_module_load(refusing, scratch("f")), RG_RUNTIME_ERROR);
}

/* Each request for memory is denied in turn, including that for the message of a refusal. */
START_TEST(test_refused_without_memory) {
    RG_SCOPE();
    scratch_begin();
    ck_ok(rg_save_file(RG_NAMED_LIST({ "x", rg_ones(2) }), scratch("f")));
    refusing = net(PARTS);
    ck_assert_int_gt(deny_in_turn(refused_save, NULL), 5);
    rg_module_free(refusing);
    refusing = net(PLAIN);
    ck_assert_int_gt(deny_in_turn(refused_load, NULL), 5);
    rg_module_free(refusing);
    scratch_end();
}
END_TEST

RG_TESTS(save, test_round_trip, test_names, test_small_things_tied, test_golden, test_dtypes,
         test_strict, test_left_out, test_no_name_has_all, test_refused, test_denied,
         test_parts_of_one_memory, test_nothing_to_save, test_what_stays_of_a_load,
         test_load_parts_of_others, test_refused_without_memory)

/*
 * test_recorded.c: calls that a recorded step refuses, since a run could not repeat them: reading
 * the program's memory, and reading and writing files. They are listed in once.def, which is
 * compared with the public headers. Those that write files are also tested to leave a read-only
 * file as it is.
 */
#include "regard.h"
#include "tensor/base.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    rg_tensor *x, *ids;
    rg_named pair;
    rg_named_list named; /* A list of the pair. */
    rg_safe_file *safe;
    rg_vocabulary *vocabulary;
    rg_tokenizer *tokenizer;
    rg_gpt *gpt;
    rg_module *model;
    rg_optim *optim;
    rg_report *report;
    rg_seal *seal;
} at;

static rg_training run_of(void) { return (rg_training){ .model = at.model, .optim = at.optim }; }

/* ---- the calls ----------------------------------------------------------------------------- */

#define ONCE(function, name, call)            \
    static void once_##function(void *none) { \
        (void)none;                           \
        (void)(call);                         \
    }
#include "once.def"
#undef ONCE

#define ONCE(function, name, call) { #function, name, once_##function },
static const struct {
    const char *function, *name;
    void (*step)(void *none);
} all_once[] = {
#include "once.def"
};
#undef ONCE

static const char tokenizer_json[] =
    "{ \"added_tokens\": [], \"normalizer\": null, \"post_processor\": null,"
    "  \"pre_tokenizer\": { \"type\": \"ByteLevel\", \"add_prefix_space\": false,"
    "                       \"trim_offsets\": true, \"use_regex\": true },"
    "  \"decoder\": { \"type\": \"ByteLevel\", \"add_prefix_space\": false,"
    "                 \"trim_offsets\": true, \"use_regex\": true },"
    "  \"model\": { \"type\": \"BPE\", \"vocab\": { \"a\": 0, \"b\": 1 }, \"merges\": [] } }";

/* Makes what the calls need, and the files that they read. */
static void make_all(void) {
    scratch_begin();
    at.x = rg_requires_grad_(rg_ones(2), true);
    at.ids = rg_literal([ 0, 1 ]);
    at.pair = (rg_named){ "x", at.x };
    at.named = (rg_named_list){ 1, &at.pair };
    at.vocabulary = rg_vocabulary_new("a b");
    at.model = (rg_module *)rg_nn_linear(2, 2);
    at.gpt = rg_nn_gpt(.block_size = 2, .vocab_size = 2, .n_layer = 1, .n_head = 1, .n_embd = 2);
    at.optim = rg_optim_sgd(rg_parameters(at.model));
    at.tokenizer =
        rg_tokenizer_from_file(scratch_write("t.json", tokenizer_json, strlen(tokenizer_json)));
    at.report = rg_report_begin(scratch("page.html"));
    at.seal = rg_seal_begin(scratch("run.seal"), .every = 1);
    scratch_write("x.csv", "1,2\n", 4);
    ck_ok(rg_save_npy(at.x, scratch("x.npy")) && rg_save_npz(at.named, scratch("x.npz")));
    ck_ok(rg_save_file(at.named, scratch("x.safetensors")));
    ck_ok(rg_torch_save(at.named, scratch("x.pt")));
    ck_ok(rg_module_save(at.model, scratch("model.safetensors")));
    ck_ok(rg_save_checkpoint(scratch("run"), run_of()));
    at.safe = rg_safe_open(scratch("x.safetensors"));
    ck_ok(at.safe && at.tokenizer && at.report && at.seal);
}

static void free_all(void) {
    rg_safe_close(at.safe);
    rg_report_end(at.report);
    rg_seal_end(at.seal);
    rg_tokenizer_free(at.tokenizer);
    rg_optim_free(at.optim);
    rg_module_free(at.gpt);
    rg_module_free(at.model);
    rg_vocabulary_free(at.vocabulary);
    scratch_end();
}

/* Each call is refused under its function's name, and makes no file. */
START_TEST(test_once) {
    make_all();
    const int files = scratch_files();
    for (int i = 0; i < RG_COUNT(all_once); i++) {
        char said[100];
        snprintf(said, sizeof said, "%s: can't be part of a recorded step", all_once[i].name);
        ck_fails(rg_record(all_once[i].step, NULL), RG_NOT_IMPLEMENTED, said);
        ck_assert_int_eq(scratch_files(), files);
    }
    free_all();
}
END_TEST

/* ---- numbers that are read from tensors ------------------------------------------------------ */

#define NUMBERS(ROW)                                                \
    ROW("scalar", rg_scalar(n))                                     \
    ROW("full", rg_full(RG_DIMS(2), n))                             \
    ROW("full", rg_full_dims(RG_DIMS(2), n, RG_FLOAT64))            \
    ROW("full_like", rg_full_like(at.x, n))                         \
    ROW("arange", rg_arange(n))                                     \
    ROW("arange", rg_arange_step(0, n, 1))                          \
    ROW("add", rg_add_alpha(at.ids, 1, n))                          \
    ROW("sub", rg_sub_alpha(at.ids, 1, n))                          \
    ROW("add_", rg_add_alpha_(at.ids, 1, n))                        \
    ROW("index", rg_index(at.ids, n))                               \
    ROW("set_item_", rg_set_item_(at.ids, 5, n))

static rg_tensor *read_number(int which, rg_tensor *n) {
    int row = 0;
#define ROW(name, call)   \
    if (row++ == which)   \
        return call;
    NUMBERS(ROW)
#undef ROW
    return NULL;
}

static int which_number;
static void reads_number(void *number) { read_number(which_number, number); }
static void reads_truth(void *number) { rg_index(at.ids, rg_eq(number, 1)); }
static void reads_classes(void *index) { rg_one_hot(index, -1); }

static rg_tensor *same_of(rg_tensor *const in[], void *none) { return none ? NULL : in[0]; }
static void checks_gradients(void *x_) {
    rg_tensor *x = x_;
    rg_gradcheck(same_of, NULL, 1, &x);
}

/* A step that reads a number from a tensor can't be recorded, since each run would use the number
 * that was read during the recording. A step with a constant number can be recorded. */
START_TEST(test_numbers_of_tensors) {
#define ROW(name, call) name,
    static const char *const names[] = { NUMBERS(ROW) };
#undef ROW
    make_all();
    for (which_number = 0; which_number < RG_COUNT(names); which_number++) {
        char said[120];
        ck_ok(read_number(which_number, rg_literal(1)));
        rg_replay *r = rg_record(reads_number, rg_wrap_int(1));
        ck_assert_msg(r, "%s: %s", names[which_number], rg_error());
        rg_replay_free(r);
        snprintf(said, sizeof said, "%s: can't be part of a recorded step: a run could not do it "
                                    "again, since it reads the number in a tensor",
                 names[which_number]);
        ck_fails(rg_record(reads_number, rg_literal(1)), RG_NOT_IMPLEMENTED, said);
    }
    ck_fails(rg_record(reads_truth, rg_literal(1)), RG_NOT_IMPLEMENTED, "index: can't be part of");
    ck_fails(rg_record(reads_classes, at.ids), RG_NOT_IMPLEMENTED, "one_hot: can't be part of");
    ck_fails(rg_record(checks_gradients, at.x), RG_NOT_IMPLEMENTED, "gradcheck: can't be part of");
    free_all();
}
END_TEST

static rg_tensor *cube(rg_tensor *const in[], void *none) {
    (void)none;
    return rg_pow(in[0], 3);
}
static rg_tensor *sum_of_cubes(rg_tensor *const in[], void *none) { return rg_sum(cube(in, none)); }

static rg_tensor *derived[3];
static void derives(void *x_) {
    rg_tensor *x = x_;
    derived[0] = rg_keep(rg_jacrev(cube, NULL, 1, &x));
    derived[1] = rg_keep(rg_jacfwd(cube, NULL, 1, &x));
    derived[2] = rg_keep(rg_hessian(sum_of_cubes, NULL, 1, &x));
}

/* Where a function expects a number, a tensor that requires grad is refused. Otherwise its gradient
 * would be missing without an error. */
START_TEST(test_numbers_with_a_history) {
    RG_SCOPE();
    rg_tensor *n = rg_requires_grad_(rg_scalar(2.), true);
    ck_fails(rg_full(RG_DIMS(2), n), RG_TYPE_ERROR,
             "full: argument 'fill_value' must be Number, not Tensor");
    ck_fails(rg_full_like(rg_ones(2), n), RG_TYPE_ERROR,
             "full_like: argument 'fill_value' must be Number, not Tensor");
    ck_fails(rg_arange(n), RG_TYPE_ERROR, "arange: argument 'end' must be Number, not Tensor");
    ck_fails(rg_scalar(n), RG_TYPE_ERROR, "scalar: argument 'number' must be Number, not Tensor");
    ck_fails(rg_add_alpha(rg_ones(2), 1, n), RG_TYPE_ERROR, "add: argument 'alpha' must be Number");
    ck_assert(rg_equal(rg_full(RG_DIMS(2), rg_detach(n)), rg_literal([ 2., 2. ])));
}
END_TEST

/* If the inputs change between two runs, a run computes the derivatives at the new inputs. */
START_TEST(test_derivatives) {
    RG_SCOPE();
    rg_tensor *x = rg_literal([ 1., 2. ]), *recorded[3];
    rg_replay *r = rg_record(derives, x);
    ck_ok(r);
    memcpy(recorded, derived, sizeof derived);
    rg_fill_(x, 5);
    ck_ok(rg_replay_run(r));
    derives(x);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(rg_equal(recorded[i], derived[i]), "%s", rg_str(recorded[i]));
        rg_drop(recorded[i]);
        rg_drop(derived[i]);
    }
    rg_replay_free(r);
}
END_TEST

/* ---- files that may not be written ---------------------------------------------------------- */

static bool writable(const char *path) { return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0; }

static const char *const written[] = { "new", "config.json", "model.safetensors" };

/* Calls the function twice. If the first call makes a file of this name, the file becomes
 * read-only, and *writers grows by 1. Returns false, and prints why, if the second call then
 * changes the file, or doesn't fail with the error of a file without write permission. */
static bool keeps_read_only_file(int i, const char *name, int *writers) {
    RG_SCOPE();
    struct stat before, after;
    for (int file = 0; file < RG_COUNT(written); file++)
        remove(scratch(written[file]));
    all_once[i].step(NULL);
    rg_error_clear();
    if (access(scratch(name), F_OK) != 0)
        return true;
    ++*writers;
    if (chmod(scratch(name), 0444) != 0 || stat(scratch(name), &before) != 0)
        return false;
    all_once[i].step(NULL);
    char said[700];
    snprintf(said, sizeof said, "%s: [Errno 13] Permission denied: '%s'", all_once[i].name,
             scratch(name));
    const bool told = rg_error_code() == RG_IO_ERROR && strcmp(rg_error(), said) == 0;
    const bool kept = stat(scratch(name), &after) == 0 && after.st_ino == before.st_ino
                      && after.st_size == before.st_size && after.st_mode == before.st_mode;
    if (!told || !kept)
        fprintf(stderr, "%s: the file was %s, and the error is '%s'\n", all_once[i].function,
                kept ? "kept" : "changed", rg_error());
    rg_error_clear();
    return told && kept;
}

/* Returns whether every function that writes a file keeps one that may not be written. */
static bool all_keep_read_only_files(void) {
    int writers = 0;
    bool all = true;
    for (int i = 0; i < RG_COUNT(all_once); i++)
        for (int file = 0; file < RG_COUNT(written); file++)
            all &= keeps_read_only_file(i, written[file], &writers);
    if (writers != 14)
        fprintf(stderr, "%d files were written\n", writers);
    return all && writers == 14;
}

/* A child process that isn't root makes the calls. Some of the calls leak memory. Therefore the
 * child ends by executing another program, in which no leak checker finds that memory. */
START_TEST(test_read_only_files) {
    make_all();
    ck_ok(remove(scratch("model.safetensors")) == 0 && chmod(scratch(""), 0777) == 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool no_user = geteuid() == 0 && seteuid(65534) != 0;
        const bool passed = no_user || !writable(scratch("")) || all_keep_read_only_files();
        execlp(passed ? "true" : "false", "status", (char *)NULL);
        _exit(1);
    }
    int status;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    free_all();
}
END_TEST

/* ---- constants, and advice in errors -------------------------------------------------------- */

/* The numbers and texts in a step are constants: all runs use those of the recording. */
static void has_constants(void *y) {
    rg_copy_(y, rg_add(rg_mul(at.x, rg_literal([ 1, 2 ])), rg_full(RG_DIMS(2), 3)));
}

START_TEST(test_constants) {
    at.x = rg_ones(2);
    rg_tensor *y = rg_zeros(2);
    rg_replay *r = rg_record(has_constants, y);
    ck_ok(r);
    rg_fill_(at.x, 10);
    ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(y, rg_literal([ 13., 23. ])));
    rg_replay_free(r);
}
END_TEST

static void adds_to_zeros(void *y) {
    rg_tensor *sum = rg_zeros(2);
    rg_add_(sum, at.x);
    rg_copy_(y, sum);
}

static void adds_to_a_clone(void *y) {
    rg_tensor *sum = rg_clone(rg_zeros(2));
    rg_add_(sum, at.x);
    rg_copy_(y, sum);
}

static void fills_what_was_read(void *y) {
    rg_tensor *sum = rg_ones(2);
    rg_copy_(y, rg_add(sum, at.x));
    rg_fill_(sum, 2);
}

/* A constant that the step changes would have its last values in a run. A clone begins anew. */
START_TEST(test_changed_constants) {
    static const char says[] = "_: can't be part of a recorded step: a run could not do it again, "
                               "since a run doesn't make this tensor anew";
    at.x = rg_ones(2);
    rg_tensor *y = rg_zeros(2);
    ck_fails(rg_record(adds_to_zeros, y), RG_NOT_IMPLEMENTED, says);
    ck_fails(rg_record(adds_to_zeros, y), RG_NOT_IMPLEMENTED, "change a clone of it (rg_clone)");
    ck_fails(rg_record(fills_what_was_read, y), RG_NOT_IMPLEMENTED, says);
    rg_replay *r = rg_record(adds_to_a_clone, y);
    ck_ok(r);
    for (int i = 0; i < 2; i++) {
        ck_ok(rg_replay_run(r));
        ck_assert(rg_equal(y, rg_ones(2)));
    }
    rg_replay_free(r);
}
END_TEST

/* Matrices, rows and columns, which cosine_similarity expands, and some in other orders. */
enum { COSINE_FORMS = 8 };
static rg_tensor *cosine_operand(int form) {
    switch (form) {
    case 0: return rg_randn(8, 7);
    case 1: return rg_randn(7);
    case 2: return rg_randn(1, 7);
    case 3: return rg_randn(8, 1);
    case 4: return rg_T(rg_randn(7, 8));
    case 5: return rg_expand(rg_randn(1, 7), 8, 7);
    case 6: return rg_randn(1);
    default: return rg_narrow(rg_randn(8, 14), 1, 3, 7);
    }
}

typedef struct {
    rg_tensor *a, *b, *y;
    int dim;
} cosine_step;

static void computes_cosine(void *context) {
    cosine_step *s = context;
    rg_set_grad(s->a, RG_NONE);
    rg_tensor *y = rg_cosine_similarity(s->a, s->b, s->dim, 1e-8);
    rg_backward(rg_sum(y));
    s->y = rg_keep(rg_detach(y));
}

/* A recorded step divides the operands by numbers that are usually 1. This changes no bit, neither
 * of the cosine nor of its gradient. */
START_TEST(test_bits_of_cosines) {
    rg_manual_seed(1);
    for (int i = 0; i < 20 * COSINE_FORMS * COSINE_FORMS; i++) {
        RG_SCOPE();
        const int form = i % COSINE_FORMS, other = i / COSINE_FORMS % COSINE_FORMS;
        rg_tensor *a = cosine_operand(form), *b = cosine_operand(other);
        if (rg_ndim(rg_add(a, b)) < 2)
            continue;
        cosine_step s = { rg_requires_grad_(a, true), b, NULL, i % 3 ? 1 : 0 };
        computes_cosine(&s);
        rg_tensor *called = s.y, *gradient = rg_grad_of(a);
        rg_replay *r = rg_record(computes_cosine, &s);
        ck_ok(r && rg_replay_run(r));
        ck_assert_msg(rg_equal(called, s.y) && rg_equal(gradient, rg_grad_of(a)),
                      "forms %d and %d, dim %d", form, other, s.dim);
        rg_replay_free(r);
        rg_drop(called);
        rg_drop(s.y);
    }
}
END_TEST

/* The error names a function that the step may call instead. */
START_TEST(test_what_to_do_instead) {
    ck_fails(rg_record(once_rg_from_float, NULL), RG_NOT_IMPLEMENTED,
             "copy them into a tensor that was made before the step was recorded (rg_copy_)");
}
END_TEST

/* ---- the functions in the headers ---------------------------------------------------------- */

/* These functions aren't listed in once.def. They take a path in a module, a text of which no
 * tensor is made, or the text of a literal or an index. The text of a literal or an index is a
 * constant of the step, as a number is. */
static const char *const others[] = { "rg_get_submodule", "rg_get_parameter",      "rg_get_buffer",
                                      "rg_parse",         "rg_parse_dtype",        "rg_index_text",
                                      "rg_index_item",    "rg_vocabulary_new_with" };

static bool is_known(const char *name) {
    for (int i = 0; i < RG_COUNT(all_once); i++)
        if (strcmp(all_once[i].function, name) == 0)
            return true;
    for (int i = 0; i < RG_COUNT(others); i++)
        if (strcmp(others[i], name) == 0)
            return true;
    return false;
}

/* Copies to name[] the name of the function whose parameters include the one at `parameter`. */
static void name_function(const char *header, const char *parameter, char name[64]) {
    const char *end = parameter;
    while (end > header && *end != '(')
        end--;
    while (end > header && !isalnum((unsigned char)end[-1]))
        end--;
    const char *begin = end;
    while (begin > header && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    snprintf(name, 64, "%.*s", (int)(end - begin), begin);
}

/* Copies to path[] the path of the header that is included at `include`, in the header `from`. */
static void resolve(const char *from, const char *include, char path[1000]) {
    const int n = (int)strcspn(include, "\""), folder = (int)(strrchr(from, '/') - from) + 1;
    snprintf(path, 1000, "%.*s%.*s", folder, from, n, include);
    if (access(path, R_OK) != 0)
        snprintf(path, 1000, "%.*s", n, include);
}

/* Asserts that each function in the header that takes a path, a text or an array of elements is in
 * a list above. Returns the number of these functions. */
static int look_into(const char *path, const char *header) {
    static const char *const parameters[] = { "const char *path",    "const char *folder",
                                              "const char *text",    "const void *data",
                                              "const float *data",   "const double *data",
                                              "const int64_t *data", "const int *data",
                                              "const bool *data" };
    char name[64];
    int found = 0;
    for (int i = 0; i < RG_COUNT(parameters); i++)
        for (const char *p = header; (p = strstr(p, parameters[i])); p++) {
            name_function(header, p, name);
            if (strncmp(name, "rg_", 3) != 0)
                continue;
            ck_assert_msg(is_known(name), "%s: %s has no row in tests/nn/once.def", path, name);
            found++;
        }
    return found;
}

/* Returns whether an earlier call was given the same file. */
static bool was_given(const char *path) {
    static ino_t given[500];
    static int n;
    struct stat status;
    ck_assert_msg(stat(path, &status) == 0 && n < RG_COUNT(given), "%s", path);
    for (int i = 0; i < n; i++)
        if (given[i] == status.st_ino)
            return true;
    given[n++] = status.st_ino;
    return false;
}

/* Applies look_into to each header that this header includes, and then to the header itself. */
static int look_into_all(const char *path) {
    static const char include[] = "\n#include \"";
    if (was_given(path))
        return 0;
    size_t n;
    char next[1000], *bytes = file_bytes(path, &n), *header = strndup(bytes, n);
    int found = 0;
    for (const char *p = header; (p = strstr(p, include));) {
        p += strlen(include);
        resolve(path, p, next);
        found += look_into_all(next);
    }
    found += look_into(path, header);
    free(header);
    free(bytes);
    return found;
}

START_TEST(test_list) { ck_assert_int_ge(look_into_all("./regard.h"), RG_COUNT(all_once)); }
END_TEST

/* ---- hooks that are registered after the step was recorded --------------------------------- */

/* A step, which reads `in` and has the result `out`, and the objects on which hooks for it can be
 * registered. */
static struct {
    rg_sequential *model;
    rg_linear_module *layer;
    rg_tensor *in, *out;
    rg_optim *optim;
    rg_tensor *beside;
} hooked;

static void hooked_step(void *none) {
    (void)none;
    rg_drop(hooked.out);
    rg_optim_zero_grad(hooked.optim);
    hooked.out = rg_keep(rg_call(hooked.model, hooked.in));
    rg_backward(rg_sum(hooked.out));
    rg_optim_step(hooked.optim);
}

static rg_tensor *keeps(rg_tensor *g, void *none) {
    (void)g;
    (void)none;
    return RG_NONE;
}
static bool keeps_all(rg_tensor *leaf, void *none) { return leaf && !none; }
static rg_tensor *keeps_output(rg_module *m, rg_list in, rg_tensor *y, void *none) {
    (void)m;
    (void)in;
    (void)y;
    (void)none;
    return RG_NONE;
}
static bool keeps_gradients(rg_module *m, int n, rg_tensor *in[], rg_tensor *out, void *none) {
    return m && n && in && out && !none;
}
static rg_tensor *keeps_gradient(rg_module *m, rg_tensor *g, void *none) {
    (void)m;
    return keeps(g, none);
}
static rg_tensor *keeps_value(rg_tensor *value, const char *name, void *none) {
    (void)name;
    return keeps(value, none);
}
static void *packs(rg_tensor *t, void *none) {
    (void)none;
    return rg_keep(t);
}
static rg_tensor *unpacks(void *t, void *none) {
    (void)none;
    return t;
}
static void drops(void *t, void *none) {
    (void)none;
    rg_drop(t);
}

static int hook_id;
static rg_hooks_guard hook_scope;

/* HOOK(name, begin, end) defines a kind of hook. `begin` registers the hook, and `end` removes it.
 */
#define HOOK(name, begin, end)                                \
    static void begins_##name(void) { ck_ok((begin, true)); } \
    static void ends_##name(void) { ck_ok((end, true)); }
HOOK(tensor, hook_id = rg_register_hook(hooked.layer->weight, keeps, NULL),
     rg_remove_hook(hooked.layer->weight, hook_id))
HOOK(input, hook_id = rg_register_hook(hooked.in, keeps, NULL), rg_remove_hook(hooked.in, hook_id))
HOOK(output, hook_id = rg_register_hook(hooked.out, keeps, NULL),
     rg_remove_hook(hooked.out, hook_id))
HOOK(leaf, hook_id = rg_register_post_accumulate_grad_hook(hooked.layer->bias, keeps_all, NULL),
     rg_remove_hook(hooked.layer->bias, hook_id))
HOOK(forward, hook_id = rg_register_forward_hook(&hooked.layer->base, keeps_output, NULL),
     rg_remove_forward_hook(&hooked.layer->base, hook_id))
HOOK(pre, hook_id = rg_register_forward_pre_hook(&hooked.model->base, keeps_output, NULL),
     rg_remove_forward_hook(&hooked.model->base, hook_id))
HOOK(backward, hook_id = rg_register_full_backward_hook(&hooked.layer->base, keeps_gradients, NULL),
     rg_remove_forward_hook(&hooked.layer->base, hook_id))
HOOK(backward_pre,
     hook_id = rg_register_full_backward_pre_hook(&hooked.model->base, keeps_gradient, NULL),
     rg_remove_forward_hook(&hooked.model->base, hook_id))
HOOK(point, hook_scope = rg_hooks_guard_open(hooked.model, RG_HOOKS_AT({ "x", keeps_value, NULL })),
     rg_hooks_guard_close(&hook_scope))
HOOK(saved, rg_push_saved_hooks((rg_saved_hooks){ packs, unpacks, drops, NULL }),
     rg_pop_saved_hooks())
HOOK(anomaly, rg_set_detect_anomaly(true), rg_set_detect_anomaly(false))
#undef HOOK

static const struct {
    void (*begin)(void), (*end)(void);
    const char *says;
} all_hooks[] = {
    { begins_tensor, ends_tensor, "a hook has been registered since" },
    { begins_input, ends_input, "a hook has been registered since" },
    { begins_output, ends_output, "a hook has been registered since" },
    { begins_leaf, ends_leaf, "a hook has been registered since" },
    { begins_forward, ends_forward, "a hook has been registered since" },
    { begins_pre, ends_pre, "a hook has been registered since" },
    { begins_backward, ends_backward, "a hook has been registered since" },
    { begins_backward_pre, ends_backward_pre, "a hook has been registered since" },
    { begins_point, ends_point, "a hook has been registered since" },
    { begins_saved, ends_saved, "the hooks on saved tensors aren't called" },
    { begins_anomaly, ends_anomaly, "anomaly mode can't check" },
};

/* Another model's step, which calls none of the hooks above. */
static void step_beside(void *model) { rg_call((rg_sequential *)model, hooked.beside); }

static rg_replay *hooked_make(void) {
    hooked.layer = rg_nn_linear(2, 2);
    hooked.model = rg_nn_sequential(hooked.layer, rg_nn_relu());
    hooked.in = rg_requires_grad_(rg_ones(2, 2), true);
    hooked.out = NULL;
    hooked.optim = rg_optim_sgd(rg_parameters(hooked.model));
    return rg_record(hooked_step, NULL);
}

static void hooked_free(rg_replay *r) {
    rg_replay_free(r);
    rg_drop(hooked.out);
    rg_optim_free(hooked.optim);
    rg_module_free(hooked.model);
}

/* As long as there is a hook that a run would have to call, the run fails and changes nothing. Once
 * the hook is removed, runs succeed. Runs of another step, which calls no such hook, don't fail. */
START_TEST(test_later_hooks) {
    for (int i = 0; i < RG_COUNT(all_hooks); i++) {
        rg_replay *r = hooked_make();
        rg_sequential *other = rg_nn_sequential(rg_nn_linear(2, 2), rg_nn_relu());
        hooked.beside = rg_ones(2, 2);
        rg_replay *beside = rg_record(step_beside, other);
        ck_ok(rg_replay_run(r));
        all_hooks[i].begin();
        rg_tensor *before = rg_clone(rg_detach(hooked.layer->weight));
        ck_fails(rg_replay_run(r), RG_NOT_IMPLEMENTED, all_hooks[i].says);
        ck_fails(rg_replay_run(r), RG_NOT_IMPLEMENTED, all_hooks[i].says);
        ck_assert_msg(rg_equal(before, hooked.layer->weight), "%d", i);
        if (strncmp(all_hooks[i].says, "a hook", 6) == 0)
            ck_ok(rg_replay_run(beside));
        all_hooks[i].end();
        ck_ok(rg_replay_run(r));
        rg_replay_free(beside);
        rg_module_free(other);
        hooked_free(r);
    }
}
END_TEST

/* If an output is made to retain its gradient, this counts as registering a hook. */
START_TEST(test_later_retained) {
    rg_replay *r = hooked_make();
    ck_ok(rg_retain_grad(hooked.out));
    ck_fails(rg_replay_run(r), RG_NOT_IMPLEMENTED, "a hook has been registered since");
    hooked_free(r);
}
END_TEST

/* Hooks that don't concern the step don't matter: those of other modules and tensors. Once a module
 * that the step calls has been freed, a run fails. */
START_TEST(test_other_hooks) {
    rg_replay *r = hooked_make();
    rg_linear_module *other = rg_nn_linear(2, 2);
    ck_assert_int_ge(rg_register_forward_hook(&other->base, keeps_output, NULL), 0);
    ck_assert_int_ge(rg_register_hook(other->weight, keeps, NULL), 0);
    ck_ok(rg_replay_run(r));
    rg_module_free(hooked.model);
    hooked.model = rg_nn_sequential(rg_nn_relu());
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, "a module that the step calls has been freed");
    hooked_free(r);
    r = hooked_make();
    ck_assert_int_ge(rg_register_forward_hook(&hooked.layer->base, keeps_output, NULL), 0);
    hooked_free(r);
    r = hooked_make();
    ck_ok(rg_replay_run(r));
    hooked_free(r);
    rg_module_free(other);
}
END_TEST

/* ---- requires_grad that is changed after the step was recorded ------------------------------- */

/* After the step was recorded, a run fails while a parameter is frozen, since its gradient would
 * have no effect. Once the parameter requires grad again, runs succeed. */
START_TEST(test_later_requires_grad) {
    static const char said[] = "requires_grad of a tensor has been changed since";
    rg_replay *r = hooked_make();
    rg_tensor *weight = hooked.layer->weight;
    rg_requires_grad_(weight, true);
    ck_ok(rg_replay_run(r));
    rg_requires_grad_(weight, false);
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, said);
    rg_requires_grad_(weight, true);
    ck_ok(rg_replay_run(r));
    hooked_free(r);
    r = hooked_make();
    rg_detach_(hooked.in);
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, said);
    hooked_free(r);
}
END_TEST

RG_TESTS(recorded, test_numbers_of_tensors, test_derivatives, test_numbers_with_a_history,
         test_later_requires_grad, test_once, test_read_only_files, test_constants,
         test_changed_constants, test_bits_of_cosines,
         test_what_to_do_instead, test_list, test_later_hooks, test_later_retained,
         test_other_hooks)

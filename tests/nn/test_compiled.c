/*
 * test_compiled.c: trainings whose step is compiled: their losses have the bits of the recorded
 * step, and what a run checks, the compiled step checks, too. Compiling again, without a compiler,
 * and without memory. tests/autograd/test_compile.c compiles all ops.
 */
#include "regard.h"
#include "tests/faults.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Compiled files go into a folder of the test. */
static void begin(void) {
    scratch_begin();
    setenv("XDG_CACHE_HOME", scratch(""), 1);
}

/* ---- a training ----------------------------------------------------------------------- */

/* Classes of words: an embedding, attention, a layer norm and dropout. */
typedef struct {
    rg_tensor *table, *w, *words, *targets, *loss;
    rg_optim *optimizer;
    bool drops;
} training;

enum { WORDS = 11, WIDTH = 8, LENGTH = 6 };

static void train(void *context) {
    training *t = context;
    rg_optim_zero_grad(t->optimizer);
    rg_tensor *x = rg_layer_norm(rg_embedding(t->words, t->table), RG_DIMS(WIDTH), RG_NONE, RG_NONE,
                                 1e-5);
    rg_tensor *y = rg_matmul(rg_softmax(rg_matmul(x, rg_T(x)), -1), rg_gelu(x));
    if (t->drops)
        y = rg_dropout(y, 0.25, true);
    rg_tensor *loss = rg_cross_entropy(rg_matmul(y, t->w), t->targets);
    rg_backward(loss);
    rg_optim_step(t->optimizer);
    if (!t->loss)
        t->loss = rg_keep(rg_detach(loss));
}

static rg_replay *recorded(training *t, bool drops) {
    rg_manual_seed(5);
    *t = (training){ .drops = drops };
    t->table = rg_requires_grad_(rg_randn(WORDS, WIDTH), true);
    t->w = rg_requires_grad_(rg_randn(WIDTH, 3), true);
    t->words = rg_randint(0, WORDS, LENGTH);
    t->targets = rg_randint(0, 3, LENGTH);
    t->optimizer = rg_optim_adamw(RG_LIST(t->table, t->w), .lr = 0.02);
    return t->optimizer ? rg_record(train, t) : NULL;
}

static void end(training *t, rg_replay *r) {
    rg_replay_free(r);
    if (t->loss)
        rg_drop(t->loss);
    rg_optim_free(t->optimizer);
}

/* Trains for some steps; between them the program changes the words, the rate and gradients. */
static void losses_of(training *t, rg_replay *r, float losses[], int n) {
    for (int i = 0; i < n; i++) {
        int64_t *words = rg_data_as(int64_t, t->words);
        words[i % LENGTH] = (words[i % LENGTH] + i) % WORDS;
        rg_optim_group(t->optimizer, 0)->lr = 0.02 / (1 + i / 10);
        if (i % 7 == 0)
            rg_set_grad(t->w, RG_NONE);
        ck_ok(rg_replay_run(r));
        losses[i] = (float)rg_item(t->loss);
    }
}

START_TEST(test_training) {
    enum { STEPS = 200 };
    float losses[2][STEPS];
    begin();
    for (int compiled = 0; compiled < 2; compiled++) {
        training t;
        rg_replay *r = recorded(&t, true);
        ck_ok(r);
        if (compiled)
            ck_ok(rg_replay_compile(r));
        losses_of(&t, r, losses[compiled], STEPS);
        end(&t, r);
    }
    ck_assert(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
    ck_assert(losses[0][STEPS - 1] < losses[0][0]);
    scratch_end();
}
END_TEST

/* ---- what a run still checks ---------------------------------------------------------- */

START_TEST(test_wrong_index) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    ck_ok(r && rg_replay_compile(r));
    rg_data_as(int64_t, t.words)[2] = WORDS;
    ck_fails(rg_replay_run(r), RG_INDEX_ERROR,
             "embedding: index 11 is out of bounds for dimension 0 with size 11");
    rg_data_as(int64_t, t.words)[2] = 0;
    rg_data_as(int64_t, t.targets)[1] = 3;
    ck_fails(rg_replay_run(r), RG_INDEX_ERROR, "cross_entropy: Target 3 is out of bounds");
    rg_data_as(int64_t, t.targets)[1] = 0;
    ck_ok(rg_replay_run(r));
    end(&t, r);
    scratch_end();
}
END_TEST

/* An input that was given other data is read there. */
static void double_it(void *context) {
    rg_tensor **t = context;
    rg_copy_(t[1], rg_mul(rg_add(t[0], 1), 2));
}

START_TEST(test_other_data) {
    begin();
    rg_tensor *t[] = { rg_ones(3), rg_zeros(3) };
    rg_replay *r = rg_record(double_it, t);
    ck_ok(r && rg_replay_compile(r));
    ck_ok(rg_set_data(t[0], rg_full(RG_DIMS(3), 4.0)));
    ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(t[1], rg_full(RG_DIMS(3), 10.0)));
    rg_fill_(t[0], 5);
    ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(t[1], rg_full(RG_DIMS(3), 12.0)));
    rg_replay_free(r);
    scratch_end();
}
END_TEST

static void scale_in_place(void *context) {
    rg_tensor **t = context;
    rg_mul_(t[0], 2);
    rg_copy_(t[1], rg_add(t[2], 1));
}

/* Tensors that were apart when the step was compiled must not overlap. */
START_TEST(test_overlapping_data) {
    begin();
    rg_tensor *t[] = { rg_ones(600), rg_zeros(600), rg_ones(600) };
    rg_replay *r = rg_record(scale_in_place, t);
    ck_ok(r && rg_replay_compile(r));
    rg_tensor *old = rg_detach(t[2]), *room = rg_ones(700);
    rg_tensor *first = rg_narrow(room, 0, 0, 600), *second = rg_narrow(room, 0, 50, 600);
    ck_ok(rg_set_data(t[0], first));
    ck_ok(rg_replay_run(r));
    ck_ok(rg_set_data(t[2], second));
    for (int i = 0; i < 2; i++)
        ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
                 "replay_run: tensors of the compiled step that were apart have been given memory "
                 "in common");
    ck_ok(rg_set_data(t[2], old));
    ck_ok(rg_replay_run(r));
    ck_assert(rg_item(rg_select(t[0], 0, 0)) == 4 && rg_item(rg_select(t[1], 0, 0)) == 2);
    rg_replay_free(r);
    scratch_end();
}
END_TEST

/* Elementwise operations on many elements become one loop, which goes by blocks of elements. A view
 * that is shifted against a result must not be read before all blocks are written. */
static void chain(void *context) {
    RG_SCOPE();
    rg_tensor **t = context;
    rg_tensor *h = rg_relu(rg_add(rg_mul(t[0], 3), t[1]));
    h = rg_sub(rg_mul(h, t[1]), h);
    rg_tensor *shifted = rg_narrow(h, 0, 300, 1201);
    rg_tensor *y = rg_mul(rg_add(shifted, rg_narrow(t[0], 0, 0, 1201)), shifted);
    rg_copy_(t[2], rg_mul(rg_add(y, rg_narrow(h, 0, 0, 1201)), 2));
    rg_add_(t[0], rg_mul(t[1], 0.5));
}

START_TEST(test_chains) {
    begin();
    rg_manual_seed(8);
    rg_tensor *t[2][3];
    for (int i = 0; i < 3; i++) {
        t[0][i] = rg_randn(i == 2 ? 1201 : 1501);
        t[1][i] = rg_clone(t[0][i]);
    }
    rg_replay *r = rg_record(chain, t[1]);
    ck_ok(r && rg_replay_compile(r));
    chain(t[0]);
    for (int turn = 0; turn < 3; turn++) {
        chain(t[0]);
        ck_ok(rg_replay_run(r));
        for (int i = 0; i < 3; i++)
            ck_assert(rg_equal(t[0][i], t[1][i]));
    }
    rg_replay_free(r);
    scratch_end();
}
END_TEST

/* ---- compiling again, and without a compiler ------------------------------------------ */

static int files(void) {
    int n = 0;
    char path[300];
    snprintf(path, sizeof path, "ls %s/regard | wc -l", scratch(""));
    FILE *lines = popen(path, "r");
    ck_assert_int_eq(fscanf(lines, "%d", &n), 1);
    pclose(lines);
    return n;
}

/* The compiled files are used again, unless they were made of another text. */
START_TEST(test_again) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    ck_ok(r && rg_replay_compile(r) && rg_replay_compile(r));
    ck_assert_int_eq(files(), 2);
    const char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere", 1);
    ck_ok(rg_replay_compile(r));
    ck_ok(rg_replay_run(r));
    setenv("PATH", path, 1);
    free((char *)path);
    char command[300];
    snprintf(command, sizeof command, "for f in %s/regard/*.c; do echo >>$f; done", scratch(""));
    ck_assert_int_eq(system(command), 0);
    ck_ok(rg_replay_compile(r));
    ck_assert_int_eq(files(), 2);
    ck_ok(rg_replay_run(r));
    end(&t, r);
    scratch_end();
}
END_TEST

/* Nothing that compiling tries, such as a look for the file of an earlier call, is a failure. */
static int handled;
static void count_failure(rg_code code, const char *message) {
    (void)code;
    (void)message;
    handled++;
}

START_TEST(test_error_handler) {
    begin();
    training t;
    rg_replay *r = recorded(&t, true);
    ck_ok(r);
    rg_on_error(count_failure);
    ck_ok(rg_replay_compile(r) && rg_replay_run(r));
    rg_on_error(NULL);
    ck_assert_int_eq(handled, 0);
    end(&t, r);
    scratch_end();
}
END_TEST

/* Without a compiler, or a folder for its files, the step runs as before. */
START_TEST(test_without_compiler) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    const char *path = strdup(getenv("PATH"));
    const char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("PATH", "/nowhere", 1);
    ck_assert(!rg_replay_compile(r) && !rg_error_code());
    ck_ok(rg_replay_run(r));
    setenv("PATH", path, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_assert(!rg_replay_compile(r) && !rg_error_code());
    setenv("HOME", home, 1);
    ck_ok(rg_replay_run(r));
    free((char *)path);
    free((char *)home);
    end(&t, r);
    scratch_end();
}
END_TEST

static bool compiles_a_step(void) {
    training t;
    rg_replay *r = recorded(&t, false);
    const bool done = r && t.loss && rg_replay_compile(r) && rg_replay_run(r);
    if (t.optimizer)
        end(&t, r);
    return done;
}

START_TEST(test_without_memory) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    ck_ok(r && rg_replay_compile(r));
    end(&t, r);
    ck_assert_int_gt(deny_in_turn(compiles_a_step, NULL), 100);
    scratch_end();
}
END_TEST

static int warnings;
static void count_warning(const char *message) {
    ck_assert_msg(strstr(message, "the step runs as before"), "%s", message);
    warnings++;
}

/* A step is compiled, or an error or a warning says why not. In each case it runs. */
static void compiles_or_tells(rg_replay *r) {
    warnings = 0;
    rg_on_warning(count_warning);
    const bool done = rg_replay_compile(r);
    const bool told = warnings == 1 || rg_error_code() != RG_OK;
    ck_assert_msg(done != told, "done %d, %d warnings", done, warnings);
    forget_failure();
    ck_ok(rg_replay_run(r));
}

/* Removes all compiled files. */
static void forget(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s/regard", scratch(""));
    ck_assert_int_eq(system(command), 0);
}

/* Each call of the file system fails in turn. */
START_TEST(test_failing_files) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    int failed = 0;
    faults_begin();
    do {
        forget();
        faults = (faulty){ .fail_at = ++failed, .number = EACCES };
        compiles_or_tells(r);
    } while (faults.failed);
    faults_end();
    ck_assert_int_gt(failed, 5);
    end(&t, r);
    scratch_end();
}
END_TEST

/* Puts a script named cc into PATH, whose only action is this line. Returns the old PATH. */
static char *put_compiler(const char *line) {
    char script[200], command[300];
    snprintf(script, sizeof script, "#!/bin/sh\n%s\n", line);
    snprintf(command, sizeof command, "chmod +x %s", scratch_write("cc", script, strlen(script)));
    ck_assert_int_eq(system(command), 0);
    char *path = strdup(getenv("PATH"));
    snprintf(command, sizeof command, "%s:%s", scratch(""), path);
    setenv("PATH", command, 1);
    return path;
}

static void put_path_back(char *path) {
    setenv("PATH", path, 1);
    free(path);
}

/* A compiler that makes no library. */
START_TEST(test_wrong_compiler) {
    static const char script[] = "while [ $1 != -o ]; do shift; done; echo no library >$2";
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    char *path = put_compiler(script);
    for (int i = 0; i < 2; i++) {
        compiles_or_tells(r);
        ck_assert_int_eq(warnings, 1);
    }
    put_path_back(path);
    compiles_or_tells(r);
    ck_assert_int_eq(warnings, 0);
    end(&t, r);
    scratch_end();
}
END_TEST

static char last_warning[400];
static void note_warning(const char *message) {
    snprintf(last_warning, sizeof last_warning, "%s", message);
}

/* The warning says what the compiler did. */
START_TEST(test_what_the_compiler_did) {
    static const struct {
        const char *line, *says;
    } cases[] = { { "kill -9 $$", "the compiler cc was killed" },
                  { "exit 3", "the compiler cc failed" },
                  { "exit 0", "the compiler cc has made no file that can be read" } };
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = put_compiler(cases[i].line);
        rg_on_warning(note_warning);
        ck_assert(!rg_replay_compile(r));
        put_path_back(path);
        ck_assert_msg(strstr(last_warning, cases[i].says), "%s", last_warning);
    }
    end(&t, r);
    scratch_end();
}
END_TEST

/* In a program that ignores SIGCHLD, the status of the compiler isn't known. */
START_TEST(test_ignored_children) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    signal(SIGCHLD, SIG_IGN);
    const bool done = rg_replay_compile(r);
    signal(SIGCHLD, SIG_DFL);
    ck_ok(done && rg_replay_run(r));
    end(&t, r);
    scratch_end();
}
END_TEST

/* A compiled file that was cut short or damaged isn't loaded, but compiled again. */
START_TEST(test_damaged_files) {
    static const char *const damages[] = { "truncate -s 8000", "truncate -s 4096", "truncate -s 0",
                                           "sed -i s/part/PART/g", "rm" };
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        ck_ok(rg_replay_compile(r));
        char command[300];
        snprintf(command, sizeof command, "%s %s/regard/*.so", damages[i], scratch(""));
        /* The damage is done to a copy, since the recording has loaded the file. */
        char copy[700];
        snprintf(copy, sizeof copy,
                 "cd %s/regard && for f in *.so; do cp $f $f.x; mv $f.x $f; done", scratch(""));
        ck_assert_int_eq(system(copy), 0);
        ck_assert_int_eq(system(command), 0);
        ck_ok(rg_replay_compile(r));
        ck_ok(rg_replay_run(r));
    }
    end(&t, r);
    scratch_end();
}
END_TEST

static rg_tensor *no_hook(rg_tensor *g, void *context) {
    (void)context;
    return g;
}

/* What a run would refuse is refused in the name of the function that the program called. */
START_TEST(test_names_in_errors) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    const int hook = rg_register_hook(t.w, no_hook, NULL);
    ck_fails(rg_replay_compile(r), RG_NOT_IMPLEMENTED, "replay_compile: a hook has been");
    ck_fails(rg_replay_to_c(r, scratch("step.c")), RG_NOT_IMPLEMENTED,
             "replay_to_c: a hook has been");
    ck_fails(rg_replay_run(r), RG_NOT_IMPLEMENTED, "replay_run: a hook has been");
    rg_remove_hook(t.w, hook);
    rg_set_detect_anomaly(true);
    ck_fails(rg_replay_to_c(r, scratch("step.c")), RG_NOT_IMPLEMENTED, "replay_to_c: anomaly mode");
    rg_set_detect_anomaly(false);
    ck_ok(rg_replay_run(r));
    end(&t, r);
    scratch_end();
}
END_TEST

START_TEST(test_wrong_arguments) {
    begin();
    training t;
    rg_replay *r = recorded(&t, false);
    ck_fails(rg_replay_compile(NULL), RG_TYPE_ERROR, "replay_compile: ");
    rg_set_data(t.w, rg_double(rg_zeros(WIDTH, 3)));
    ck_fails(rg_replay_compile(r), RG_RUNTIME_ERROR, "");
    end(&t, r);
    scratch_end();
}
END_TEST

RG_TESTS(compiled, test_training, test_wrong_index, test_other_data, test_overlapping_data,
         test_chains, test_again, test_error_handler, test_without_compiler, test_without_memory,
         test_failing_files, test_wrong_compiler, test_what_the_compiler_did, test_ignored_children,
         test_damaged_files, test_names_in_errors, test_wrong_arguments)

/* test_unread.c: failures that a program doesn't look at are told on standard error, once. */
#include "regard.h"
#include "tensor/error.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MATMUL "regard: matmul: mat1 and mat2 shapes cannot be multiplied (6x3 and 4x2)"

#define LATER    "regard: a later failure: "
#define FIRST_OF(n) "regard: the first of " n " later failures: "
#define ABSENT "load_file: [Errno 2] No such file or directory: 'absent'\n"

static rg_tensor *wrong(void) { return rg_matmul(rg_ones(6, 3), rg_ones(4, 2)); }

/* ---- programs ------------------------------------------------------------------------- */

static void ends(void) { wrong(); }

static void prints(void) { rg_print(rg_softmax(rg_exp(wrong()), -1)); }

static void prints_twice(void) {
    rg_tensor *y = wrong();
    rg_print(y);
    rg_print(y);
}

static void takes_item(void) { rg_item(rg_sum(wrong())); }

static void looks(void) {
    wrong();
    rg_error();
}

static void looks_late(void) {
    rg_print(wrong());
    rg_error();
}

static void peeks(void) {
    wrong();
    rg_error_peek();
}

static void clears(void) {
    wrong();
    rg_error_clear();
}

static void note_nothing(rg_code code, const char *message) {
    (void)code;
    (void)message;
}

static void has_handler(void) {
    rg_on_error(note_nothing);
    rg_print(wrong());
}

static void fail_again(rg_code code, const char *message) {
    (void)code;
    dprintf(STDERR_FILENO, "handler: %s\n", message);
    rg_load_file("absent");
}

static void has_failing_handler(void) {
    rg_on_error(fail_again);
    wrong();
}

static void print_and_exit(rg_code code, const char *message) {
    (void)code;
    dprintf(STDERR_FILENO, "%s\n", message);
    exit(0);
}

static void has_exiting_handler(void) {
    rg_on_error(print_and_exit);
    rg_print(wrong());
}

static void has_printing_handler(void) {
    rg_on_error(rg_print_error);
    rg_print(wrong());
}

static void has_aborting_handler(void) {
    rg_on_error(rg_abort_on_error);
    rg_print(wrong());
}

static void *print_in_thread(void *unused) {
    (void)unused;
    wrong();
    return NULL;
}

static void has_thread(void) {
    pthread_t thread;
    ck_assert(!pthread_create(&thread, NULL, print_in_thread, NULL));
    pthread_join(thread, NULL);
    dprintf(STDERR_FILENO, "joined\n");
}

static atomic_bool failed;
static void *fail_and_stay(void *unused) {
    wrong();
    atomic_store(&failed, true);
    pause();
    return unused;
}

/* The program ends while the thread that failed still runs. (For valgrind, its stack is a leak.) */
static void ends_before_its_thread(void) {
    pthread_t thread;
    if (rg_emulated()) {
        wrong();
        return;
    }
    ck_assert(!pthread_create(&thread, NULL, fail_and_stay, NULL));
    while (!atomic_load(&failed))
        usleep(100);
}

/* A child of fork reports its own failure, and not its parent's. */
static void forks(void) {
    rg_load_file("absent");
    wrong();
    const pid_t child = fork();
    if (child == 0)
        exit(0);
    waitpid(child, NULL, 0);
    dprintf(STDERR_FILENO, "ended\n");
}
static void fails_in_a_child(void) {
    wrong();
    const pid_t child = fork();
    if (child == 0) {
        rg_error_clear();
        rg_load_file("absent");
        exit(0);
    }
    waitpid(child, NULL, 0);
    rg_error();
}

static void trains(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(4, 2), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 0.1);
    for (int i = 0; i < 3; i++) {
        rg_backward(rg_sum(rg_matmul(rg_ones(6, 3), w)));
        rg_optim_step(o);
    }
    rg_error_clear();
    rg_optim_free(o);
}

/* The backward run fails, which halts the training. The optimizer's step reports the same failure.
 */
static void halts(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(4, 2), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 0.1);
    rg_backward(rg_exp(w));
    dprintf(STDERR_FILENO, "step\n");
    rg_optim_step(o);
    rg_optim_free(o);
}

static void saves(void) {
    rg_size(wrong(), 0);
    rg_save_npy(rg_ones(2), scratch_write("x.npy", "", 0));
    dprintf(STDERR_FILENO, "saved\n");
}

static void reaches_many(void) {
    rg_tensor *y = wrong();
    for (int i = 0; i < 40; i++)
        y = i % 2 ? rg_exp(y) : rg_sin(y);
    rg_print(y);
}

static void fails_twice(void) {
    wrong();
    rg_error();
    rg_ones(-1);
}

/* The program reads the failure, but still uses the NULL that the failed call returned. It reads
 * the new failure as well, and uses the NULL once more. */
static void goes_on_after_reading(void) {
    rg_tensor *y = wrong();
    rg_error();
    rg_print(rg_exp(rg_sin(y)));
    rg_error();
    rg_print(rg_exp(y));
}

/* The rule of exp fails in a backward run, and goes on with the NULL of its failed call. An earlier
 * failure is still unread. */
static void goes_back_after_a_failure(void) {
    rg_tensor *y = rg_exp(rg_requires_grad_(rg_ones(2), true));
    wrong();
    rg_add_(y, 1);
    rg_backward(rg_sum(y));
}

static void fails_otherwise_later(void) {
    rg_print(rg_ones(wrong() ? 2 : 3));
    rg_load_file("absent");
    rg_load_file("absent"); /* The same mistake again. */
    rg_eye(-2, 2);
}

static void fails_later_and_prints(void) {
    rg_tensor *y = wrong();
    rg_load_file("absent");
    rg_print(y);
    dprintf(STDERR_FILENO, "printed\n");
    rg_load_file("absent");
    rg_transpose(rg_ones(3), 0, 2);
}

/* Two calls of the same function fail for different reasons. */
static void fails_again(void) {
    wrong();
    rg_matmul(rg_ones(2, 3), rg_ones(5, 2));
}
static void composes_again(void) {
    rg_linear(rg_ones(2, 3), rg_ones(5, 4), RG_NONE);
    rg_linear(rg_ones(2, 3), rg_ones(5, 2), RG_NONE);
}

/* Three calls fail with the same message. */
static void repeats(void) {
    for (int i = 0; i < 3; i++)
        rg_exp(wrong());
}

/* The loss function makes several calls itself, and two of them fail. */
static void fails_twice_in_one_call(void) {
    rg_margin_ranking_loss(rg_eq(rg_ones(2), 1), rg_eq(rg_ones(3), 1), rg_eq(rg_ones(3), 1));
}

/* cross_entropy fails, and passes the NULL of its failed call on to other calls. The report names
 * cross_entropy once. */
static void computes_a_loss(void) {
    rg_backward(rg_cross_entropy(rg_ones(3, 4), rg_literal([ 0, 1 ])));
}

static void reaches_two_sums(void) { rg_sum(rg_cumsum(wrong(), 0)); }

/* The program reads the error, which is that of the first failure. */
static void reads_the_first(void) {
    wrong();
    rg_load_file("absent");
    rg_error();
}

static void clears_both(void) {
    wrong();
    rg_load_file("absent");
    rg_error_clear();
}

/* Each of these calls fails because an earlier one did. */
static void fails_by_consequence(void) {
    rg_tensor *y = wrong(), *x = rg_ones(2, 3);
    rg_zeros(rg_size(y, 0), 5);
    rg_reshape(x, rg_size(y, 0), rg_size(y, 1));
    rg_manual_seed(1);
    rg_arange(rg_item(y));
    rg_nn_linear(rg_size(y, 1), 3);
    rg_clip_grad_norm_(RG_LIST(x), rg_item(y));
    rg_optim_free(rg_optim_sgd(RG_LIST(rg_requires_grad_(x, true)), .lr = rg_item(y)));
}

/* The program passes -1 to rg_eye. This is a mistake of its own, not the result of wrong(). */
static void gives_its_own_number(void) {
    wrong();
    rg_eye(-1, 2);
}

/* The rule of cross_entropy reads several values of a freed graph. Only one failure is reported. */
static void goes_back_again(void) {
    rg_tensor *x = rg_requires_grad_(rg_ones(2, 3), true), *target = rg_literal([0, 1]);
    rg_tensor *loss = rg_cross_entropy(x, target);
    rg_backward(loss);
    rg_backward(loss);
}

/* A module below others fails, and so does the call of each module above it. */
static void calls_modules(void) {
    rg_sequential *inner = rg_nn_sequential(rg_nn_relu(), rg_nn_linear(4, 2));
    rg_sequential *model = rg_nn_sequential(rg_nn_identity(), inner);
    for (int i = 0; i < 2; i++)
        rg_call(model, rg_ones(6, 3));
    rg_module_free(model);
}

/* A call has failed before the module is called. */
static void calls_after_a_failure(void) {
    rg_sequential *model = rg_nn_sequential(rg_nn_linear(4, 2));
    wrong();
    rg_call(model, rg_ones(6, 3));
    rg_module_free(model);
}

/* The library handles the failure of a call that it only tries. */
static void tries(void) {
    rg_failure aside;
    rgi_set_failure_aside(&aside);
    wrong();
    rgi_forget_failure();
    rgi_bring_failure_back(&aside);
    dprintf(STDERR_FILENO, "tried\n");
}

/* ---- programs whose own function fails while the library calls it ---------------------------- */

static void fails_in_step(void *none) {
    (void)none;
    wrong();
}
static void records(void) { rg_record(fails_in_step, NULL); }

static rg_tensor *fails_with(rg_tensor *const inputs[], void *none) {
    (void)none;
    return inputs[0] ? wrong() : NULL;
}
static void replays(void) {
    rg_tensor *x = rg_ones(2);
    rg_replays_run(rg_replays_new(fails_with, NULL), 1, &x);
}
static void explains(void) {
    rg_tensor *w = rg_requires_grad_(rg_double(rg_ones(2)), true);
    rg_explain(rg_sum(rg_exp(w)), w, .f = fails_with);
}
typedef struct {
    rg_module base;
} wordless_module;
/* A forward that goes on with NULL. Its caller has no interest in the functions that it calls. */
static rg_tensor *goes_on_forward(rg_module *m, rg_tensor *x) {
    return m ? rg_softmax(rg_exp(rg_matmul(x, rg_ones(4, 2))), -1) : NULL;
}
static void calls_a_module(void) {
    static const rg_module_class goes_on = { .name = "GoesOn", .forward = goes_on_forward };
    wordless_module *m = RG_MODULE(wordless_module, &goes_on);
    rg_print(rg_sum(rg_call(m, rg_ones(6, 3))));
    rg_module_free(m);
}
static void calls_a_layer(void) {
    void *layer = rg_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 4);
    rg_print(rg_sum(rg_call(layer, rg_ones(2, 3, 5))));
    rg_module_free(layer);
}
static void calls_a_module_later(void) {
    static const rg_module_class goes_on = { .name = "GoesOn", .forward = goes_on_forward };
    wordless_module *m = RG_MODULE(wordless_module, &goes_on);
    rg_tensor *y = rg_sin(wrong());
    rg_print(rg_call(m, y));
    rg_module_free(m);
}
static void checks_gradients(void) {
    rg_tensor *w = rg_requires_grad_(rg_double(rg_ones(2)), true);
    rg_gradcheck(fails_with, NULL, 1, &w);
}
static void checkpoints(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    rg_checkpoint(fails_with, NULL, 1, &w);
}
static bool fails_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = ctx && in[0] ? wrong() : NULL;
    return false;
}
static bool fails_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = ctx && g[0] ? wrong() : NULL;
    return false;
}
static rg_function_class failing = { .name = "Failing",
                                     .forward = fails_forward,
                                     .backward = fails_backward };
static bool passes_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = ctx ? rg_clone(in[0]) : NULL;
    return out[0];
}
/* The backward of an op that the program defines fails. */
static void goes_back(void) {
    static rg_function_class passing = { .name = "Passing",
                                         .forward = passes_forward,
                                         .backward = fails_backward };
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    for (int i = 0; i < 2; i++)
        rg_backward(rg_sum(rg_function_apply(&passing, NULL, w)));
}
static void applies(void) { rg_function_apply(&failing, NULL, rg_ones(2)); }
static void checks_function(void) {
    rg_function_check(&failing, NULL, RG_LIST(rg_requires_grad_(rg_double(rg_ones(2)), true)));
}
static void fails_in_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "%d", m != NULL);
    wrong();
}
static void prints_module(void) {
    static const rg_module_class wordless = { .name = "Wordless", .extra_repr = fails_in_repr };
    rg_module_repr(RG_MODULE(wordless_module, &wordless));
}

/* ---- what they tell ------------------------------------------------------------------- */

#define HINT                                                                              \
    "regard: with REGARD_ERRORS=trace in the environment, the report names the program's " \
    "lines (if it is compiled with -g)\n"
static int hints;

/* Removes the hints from the text, and counts them. */
static void take_hints(char *text) {
    const size_t n = strlen(HINT);
    hints = 0;
    for (char *at = text; (at = strstr(at, HINT)); hints++)
        memmove(at, at + n, strlen(at + n) + 1);
}

/* Runs a program in a child process with REGARD_ERRORS set to `value`. Returns the text that it
 * writes to standard error, without the hints. Sets *signal to the signal that has ended it, or to
 * 0. */
static const char *told_by(void (*program)(void), const char *value, int *signal) {
    static char text[8192];
    int out[2], status;
    size_t n = 0;
    ssize_t more;
    ck_assert_int_eq(pipe(out), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        ck_assert(freopen("/dev/null", "w", stdout));
        setenv("REGARD_ERRORS", value, 1);
        program();
        exit(0);
    }
    close(out[1]);
    while ((more = read(out[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)more;
    text[n] = 0;
    close(out[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    take_hints(text);
    return text;
}

static const struct {
    void (*program)(void);
    const char *tells;
} programs[] = {
    { ends, MATMUL "\n" },
    { prints, MATMUL " (NULL then reached exp, softmax, print)\n" },
    { prints_twice, MATMUL " (NULL then reached print)\n" },
    { takes_item, MATMUL " (NULL then reached sum, item)\n" },
    { looks, "" },
    { looks_late, MATMUL " (NULL then reached print)\n" },
    { peeks, MATMUL "\n" },
    { clears, "" },
    { has_handler, "" },
    { has_exiting_handler, "matmul: mat1 and mat2 shapes cannot be multiplied (6x3 and 4x2)\n" },
    { has_failing_handler,
      "handler: matmul: mat1 and mat2 shapes cannot be multiplied (6x3 and 4x2)\n" LATER ABSENT },
    { has_printing_handler, MATMUL "\n" },
    { has_thread, MATMUL "\njoined\n" },
    { ends_before_its_thread, MATMUL "\n" },
    { forks, "ended\nregard: " ABSENT LATER
             "matmul: mat1 and mat2 shapes cannot be multiplied (6x3 and 4x2)\n" },
    { fails_in_a_child, "regard: " ABSENT },
    { trains, MATMUL " (NULL then reached sum, backward)\n" },
    { halts, "step\nregard: backward: grad can be implicitly created only for scalar outputs\n" },
    { saves, MATMUL " (NULL then reached size)\nsaved\n" },
    { fails_twice, "regard: ones: Trying to create tensor with negative dimension -1: [-1]\n" },
    { goes_on_after_reading,
      "regard: sin: expected a tensor but got NULL (NULL then reached exp, print)\n"
      "regard: exp: expected a tensor but got NULL (NULL then reached print)\n" },
    { goes_back_after_a_failure, MATMUL
      "\n" LATER
      "exp: one of the variables needed for gradient computation has been modified by an inplace "
      "operation: [torch.FloatTensor [2]], which is output 0 of ExpBackward0, is at version 1; "
      "expected version 0 instead. The last write was by add_.\n" },
    { fails_otherwise_later, MATMUL "\n" FIRST_OF("2") ABSENT },
    { fails_later_and_prints,
      MATMUL " (NULL then reached print)\n" LATER ABSENT "printed\n" LATER
             "transpose: Dimension out of range (expected to be in range of "
             "[-1, 0], but got 2)\n" },
    { fails_again,
      MATMUL "\n" LATER "matmul: mat1 and mat2 shapes cannot be multiplied (2x3 and 5x2)\n" },
    { composes_again,
      "regard: linear: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n" LATER
      "linear: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x5)\n" },
    { repeats, MATMUL " (3 times) (NULL then reached exp)\n" },
    { fails_twice_in_one_call,
      "regard: margin_ranking_loss: Subtraction, the `-` operator, with two bool tensors is not "
      "supported. Use the `^` or `logical_xor()` operator instead.\n" },
    { computes_a_loss, "regard: cross_entropy: Expected input batch_size (3) to match target "
                       "batch_size (2). (NULL then reached backward)\n" },
    { calls_a_module, MATMUL " (NULL then reached sum, print)\n" },
    { calls_a_layer,
      "regard: multihead_attention: was expecting embedding dimension of 8, but got 5 (in module "
      "self_attn) (NULL then reached sum, print)\n" },
    { calls_a_module_later, MATMUL " (NULL then reached sin, GoesOn, print)\n" },
    { reaches_two_sums, MATMUL " (NULL then reached cumsum, sum)\n" },
    { reads_the_first, LATER ABSENT },
    { clears_both, "" },
    { fails_by_consequence, MATMUL " (NULL then reached size, item)\n" },
    { gives_its_own_number, MATMUL "\n" LATER "eye: n must be greater or equal to 0, got -1\n" },
    { tries, "tried\n" },
    { goes_back, MATMUL " (in PassingBackward) (2 times)\n" },
    { goes_back_again,
      "regard: cross_entropy: Trying to backward through the graph a second time (or directly "
      "access saved tensors after they have already been freed). Saved intermediate values of the "
      "graph are freed when you call rg_backward or rg_grad. Specify .retain_graph = true if you "
      "need to backward through the graph a second time.\n" },
    { calls_modules,
      "regard: linear: mat1 and mat2 shapes cannot be multiplied (6x3 and 4x2) (in module 1.1) (2 "
      "times)\n" },
    { calls_after_a_failure,
      MATMUL "\n" LATER "linear: mat1 and mat2 shapes cannot be multiplied (6x3 and 4x2)\n" },
};

/* Returns the number of hints that a program's report has. It is 1 if the report names the failure
 * that the program hasn't read, and if the C library can list calls. Otherwise it is 0. */
static int hints_with(const char *text) {
#if __has_include(<execinfo.h>)
    const char *line = strstr(text, "regard: ");
    return line && strncmp(line, LATER, strlen(LATER)) != 0;
#else
    (void)text;
    return 0;
#endif
}

START_TEST(test_lines) {
    int signal;
    scratch_begin();
    for (int i = 0; i < RG_COUNT(programs); i++) {
        const char *text = told_by(programs[i].program, "", &signal);
        ck_assert_int_eq(signal, 0);
        ck_assert_msg(strcmp(text, programs[i].tells) == 0, "program %d told \"%s\"", i, text);
        ck_assert_int_eq(hints, hints_with(text));
    }
    scratch_end();
}
END_TEST

START_TEST(test_quiet) {
    int signal;
    scratch_begin();
    for (int i = 0; i < RG_COUNT(programs); i++)
        if (programs[i].program != has_printing_handler)
            ck_assert(!strstr(told_by(programs[i].program, "quiet", &signal), "regard:"));
    scratch_end();
}
END_TEST

/* Returns whether the text begins with this line, and the library tells nothing else. An emulator
 * adds a line of its own about the signal that ended the program. */
static bool tells_only(const char *line, const char *text) {
    size_t n = strlen(line);
    return strncmp(text, line, n) == 0 && !strstr(text + n, "regard:");
}

START_TEST(test_abort) {
    int signal;
    ck_assert(tells_only(MATMUL "\n", told_by(ends, "abort", &signal)));
    ck_assert_int_eq(signal, SIGABRT);
    ck_assert_str_eq(told_by(tries, "abort", &signal), "tried\n");
    ck_assert_int_eq(signal, 0);
    ck_assert(tells_only(MATMUL "\n", told_by(has_aborting_handler, "", &signal)));
    ck_assert_int_eq(signal, SIGABRT);
}
END_TEST

/* With REGARD_ERRORS=abort, a failure inside a function that the library calls ends the program.
 * The library doesn't handle such a failure. */
START_TEST(test_abort_in_callbacks) {
    static void (*const calls[])(void) = { records,     replays, explains,        checks_gradients,
                                           checkpoints, applies, checks_function, prints_module };
    for (int i = 0; i < RG_COUNT(calls); i++) {
        int signal;
        const char *text = told_by(calls[i], "abort", &signal);
        ck_assert_msg(strstr(text, "mat1 and mat2 shapes cannot be multiplied"), "%d: %s", i, text);
        ck_assert_msg(signal == SIGABRT, "%d went on", i);
    }
}
END_TEST

/* If a backward run finds a NaN, the report lists the calls of the forward, even if REGARD_ERRORS
 * doesn't ask for calls. With `quiet` there is no report. */
static rg_tensor *roots(rg_tensor *w) { return rg_sqrt(w); }
static void finds_nan(void) {
    rg_set_detect_anomaly(true);
    rg_tensor *w = rg_requires_grad_(rg_zeros(2), true);
    rg_backward(rg_sum(rg_mul(rg_add(roots(w), 0), 0)));
}

START_TEST(test_calls_of_the_forward) {
    int signal;
    const char *text = told_by(finds_nan, "", &signal);
    ck_assert_msg(strstr(text, "the first nan arose backward in SqrtBackward0"), "%s", text);
#if __has_include(<execinfo.h>)
    if (system("addr2line --version >/dev/null 2>&1") == 0)
        ck_assert_msg(strstr(text, "    finds_nan at test_unread.c:"), "%s", text);
#endif
    ck_assert(!strstr(told_by(finds_nan, "quiet", &signal), "test_unread.c"));
}
END_TEST

/* Names of functions come from the C library, and those of static functions come from addr2line. */
START_TEST(test_trace) {
    int signal;
    const char *text = told_by(prints, "trace", &signal);
    ck_assert_int_eq(hints, 0);
    ck_assert(strncmp(text, MATMUL " (NULL then", sizeof MATMUL) == 0);
#if __has_include(<execinfo.h>)
    ck_assert_msg(strchr(text, '\n')[1], "%s", text);
    if (system("addr2line --version >/dev/null 2>&1") == 0)
        ck_assert_msg(strstr(text, "    wrong at test_unread.c:"), "%s", text);
#endif
}
END_TEST

/* The list of functions is cut where there is no more room. */
START_TEST(test_many_functions) {
    int signal;
    const char *text = told_by(reaches_many, "", &signal);
    ck_assert(strncmp(text, MATMUL " (NULL then reached sin, exp, sin", sizeof MATMUL + 30) == 0);
    ck_assert_msg(strstr(text, "exp, ..)\n") || strstr(text, "sin, ..)\n"), "%s", text);
}
END_TEST

/* ---- functions that return a text ------------------------------------------------------ */

static const char *repr_module(rg_tensor *t) { return rg_module_repr((void *)t); }
static const char *decode(rg_tensor *t) {
    static rg_vocabulary *vocabulary;
    if (!vocabulary)
        vocabulary = rg_vocabulary_new("to be", .unknown = NULL);
    return rg_decode(vocabulary, t ? t : rg_literal([ 9 ]));
}
static const char *decode_null(rg_tensor *t) { return rg_decode(NULL, t); }
static const char *decode_tokens(rg_tensor *t) { return rg_tokenizer_decode(NULL, t); }
static const char *draw_constant(rg_tensor *t) { return rg_graph_dot(t ? t : rg_ones(2)); }

static const char *(*text_of)(rg_tensor *t);
static void prints_text(void) {
    const char *text = text_of(NULL);
    dprintf(STDERR_FILENO, "%s\n", text ? text : "no text");
}

/* A program may pass the text to puts at once, and puts(NULL) would end the program. So the failure
 * is reported before the function returns NULL. */
START_TEST(test_texts) {
    static const char *(*const functions[])(rg_tensor *t) = {
        rg_repr,     rg_repr_shape, rg_repr_numpy, rg_repr_tf,    rg_str,       rg_graph_dot,
        repr_module, decode,        decode_null,   decode_tokens, draw_constant
    };
    for (int i = 0; i < RG_COUNT(functions); i++) {
        int signal;
        text_of = functions[i];
        const char *text = told_by(prints_text, "", &signal), *end = strchr(text, '\n');
        ck_assert_msg(strncmp(text, "regard: ", 8) == 0 && end && !strcmp(end, "\nno text\n"),
                      "function %d: %s", i, text);
    }
}
END_TEST

START_TEST(test_unknown_value) {
    int signal;
    ck_assert_str_eq(told_by(ends, "loud", &signal),
                     "regard: warning: REGARD_ERRORS: 'loud' is not quiet, trace or abort; a "
                     "failure that nobody has looked at is told in a line\n" MATMUL "\n");
}
END_TEST

RG_TESTS_UNGUARDED(unread, test_lines, test_quiet, test_abort, test_abort_in_callbacks, test_trace,
                   test_calls_of_the_forward, test_many_functions, test_texts, test_unknown_value)

/*
 * test_to_c.c: steps that are written as C files: what is refused, and that the recording stays as
 * it was. tests/export/ compiles such files, and compares what they compute.
 */
#include "regard.h"
#include "tensor/base.h"
#include "tests/in_turn.h"
#include "tests/locale.h"
#include "tests/scratch.h"
#include "tensor/files/file.h"
#include "tests/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ----------------------------------------------------------------------------- */

typedef struct {
    rg_tensor *w, *x, *loss;
    rg_optim *optimizer;
    rg_tensor *(*forward)(rg_tensor *w, rg_tensor *x);
} training;

static rg_tensor *product(rg_tensor *w, rg_tensor *x) { return rg_tanh(rg_matmul(x, w)); }
static rg_tensor *dropped(rg_tensor *w, rg_tensor *x) {
    return rg_dropout(product(w, x), 0.5, true);
}
/* A program's op that computes in a loop of its own. */
static bool twice_forward(rg_function_context *c, rg_tensor *const in[], rg_tensor *out[]) {
    (void)c;
    out[0] = rg_clone(in[0]);
    float *v = rg_data_as(float, out[0]);
    for (int64_t i = 0; i < rg_numel(out[0]); i++)
        v[i] *= 2;
    return true;
}
static bool twice_backward(rg_function_context *c, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)c;
    gin[0] = rg_mul(g[0], 2);
    return true;
}
static rg_function_class twice = { .name = "Twice",
                                   .forward = twice_forward,
                                   .backward = twice_backward };
static rg_tensor *doubled(rg_tensor *w, rg_tensor *x) {
    return rg_function_apply(&twice, NULL, product(w, x));
}
static rg_tensor *waiting(rg_tensor *w, rg_tensor *x) {
    return rg_mul(product(w, x), rg_exponential_(rg_empty(4, 2), 1));
}
static rg_tensor *cut(rg_tensor *w, rg_tensor *x) {
    return rg_mul(product(w, x), rg_trunc_normal_(rg_empty(4, 2), 0, 1, -2, 2));
}
static rg_tensor *whole(rg_tensor *w, rg_tensor *x) {
    return rg_mul(product(w, x), rg_randint(0, 9, 4, 2));
}
static rg_tensor *with_half(rg_tensor *w, rg_tensor *x) {
    return rg_mul(product(w, x), rg_zeros_dims(RG_DIMS(4, 2), RG_BFLOAT16));
}
/* The gradient of the sum is a number of the parameter, which a loop would get as it is now. */
static rg_tensor *weighed(rg_tensor *w, rg_tensor *x) {
    return rg_mul(rg_sum(rg_square(x)), rg_select(rg_flatten(w, 0, -1), 0, 0));
}

static void step(void *context) {
    training *t = context;
    rg_optim_zero_grad(t->optimizer);
    rg_tensor *loss = rg_sum(t->forward(t->w, t->x));
    rg_backward(loss);
    rg_optim_step(t->optimizer);
    if (!t->loss)
        t->loss = rg_keep(rg_detach(loss));
}

enum { SGD, ADAM };

/* Makes the tensors and the optimizer of a step, and records it. */
static rg_replay *recorded(training *t, rg_tensor *(*forward)(rg_tensor *, rg_tensor *), int kind) {
    *t = (training){ .forward = forward };
    t->w = rg_requires_grad_(rg_full(RG_DIMS(3, 2), 0.25), true);
    t->x = rg_div(rg_reshape(rg_arange(12), 4, 3), 12);
    rg_list parameters = { 1, &t->w };
    t->optimizer = kind == ADAM ? rg_optim_adam(parameters) : rg_optim_sgd(parameters, .lr = 0.1);
    return t->optimizer ? rg_record(step, t) : NULL;
}

static void end(training *t, rg_replay *r) {
    rg_replay_free(r);
    rg_drop(t->loss);
    rg_optim_free(t->optimizer);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static const struct {
    rg_tensor *(*forward)(rg_tensor *, rg_tensor *);
    int kind;
    const char *sentence;
} refused[] = {
    { doubled, SGD, "replay_to_c: no C can be written yet for Twice, which computes" },
    { waiting, SGD, "replay_to_c: no C can be written yet for exponential_, which calls" },
    { cut, SGD, "replay_to_c: no C can be written yet for trunc_normal_, which " },
    { whole, SGD, "replay_to_c: no C can be written yet for randint, which " },
    { with_half, SGD, "replay_to_c: no C can be written yet for mul, which converts" },
};

START_TEST(test_refused) {
    rg_memory_may_stay = 1; /* The class Twice stays for good. */
    scratch_begin();
    for (int i = 0; i < RG_COUNT(refused); i++) {
        training t;
        rg_replay *r = recorded(&t, refused[i].forward, refused[i].kind);
        ck_ok(r);
        rg_tensor *w = rg_clone(rg_detach(t.w));
        ck_fails(rg_replay_to_c(r, scratch("step.c"), .output = t.loss), RG_NOT_IMPLEMENTED,
                 refused[i].sentence);
        ck_assert(rg_equal(w, t.w));
        ck_assert_int_eq(scratch_files(), 0);
        ck_ok(rg_replay_run(r));
        end(&t, r);
    }
    scratch_end();
}
END_TEST

/* The function notices if a loop was given a number that the step computes, which would stay as it
 * is in the file. */
START_TEST(test_computed_numbers) {
    scratch_begin();
    training t;
    rg_replay *r = recorded(&t, weighed, SGD);
    ck_ok(r);
    const bool written = rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(t.x));
    ck_assert_msg(written || rg_error_code() == RG_NOT_IMPLEMENTED, "%s", rg_error());
    rg_error_clear();
    end(&t, r);
    scratch_end();
}
END_TEST

START_TEST(test_options) {
    scratch_begin();
    training t;
    rg_replay *r = recorded(&t, product, SGD);
    rg_tensor *other = rg_ones(3), *turned = rg_T(t.x), *gone = rg_keep(rg_ones(2));
    rg_drop(gone);
    ck_ok(r);
    ck_fails(rg_replay_to_c(NULL, scratch("step.c")), RG_TYPE_ERROR, "replay_to_c: ");
    ck_fails(rg_replay_to_c(r, NULL), RG_TYPE_ERROR, "replay_to_c: ");
    ck_fails(rg_replay_to_c(r, scratch("no/step.c")), RG_IO_ERROR, "replay_to_c: ");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .name = "1st"), RG_VALUE_ERROR,
             "replay_to_c: 1st can't begin a name in C");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .name = "a b"), RG_VALUE_ERROR, "a name in C");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .name = NULL), RG_VALUE_ERROR, "a name in C");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(turned)), RG_VALUE_ERROR,
             "replay_to_c: an input isn't contiguous");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(other)), RG_VALUE_ERROR,
             "replay_to_c: the step doesn't use inputs[0]");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .parameters = RG_LIST(t.w, other)),
             RG_VALUE_ERROR,
             "replay_to_c: the step neither reads parameters[1] nor computes a gradient of it");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .output = other), RG_VALUE_ERROR,
             "replay_to_c: the step doesn't compute the output");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .more_outputs = RG_LIST(t.loss, other)),
             RG_VALUE_ERROR, "replay_to_c: the step doesn't compute more_outputs[1]");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .more_outputs = RG_LIST(turned)), RG_VALUE_ERROR,
             "replay_to_c: an output isn't contiguous");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(t.x, t.x)), RG_VALUE_ERROR,
             "replay_to_c: inputs[1] shares memory with inputs[0]");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(t.x, t.w),
                            .parameters = RG_LIST(t.w)),
             RG_VALUE_ERROR, "replay_to_c: inputs[1] shares memory with parameters[0]");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .parameters = RG_LIST(t.w, rg_detach(t.w))),
             RG_VALUE_ERROR, "replay_to_c: parameters[1] shares memory with parameters[0]");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .parameters = RG_LIST(rg_narrow(t.w, 0, 0, 1))),
             RG_VALUE_ERROR, "replay_to_c: parameters[0] is a part of a larger tensor's memory");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .output = gone), RG_RELEASED, "replay_to_c: ");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .weights = RG_BESIDE), RG_VALUE_ERROR,
             "replay_to_c: RG_BESIDE needs the parameters whose values it is about");
    ck_fails(rg_replay_to_c(r, scratch("step.c"), .weights = RG_FROM_CALLER), RG_VALUE_ERROR,
             "replay_to_c: RG_FROM_CALLER needs the parameters");
    ck_assert_int_eq(scratch_files(), 0);
    end(&t, r);
    scratch_end();
}
END_TEST

/* ---- outputs -------------------------------------------------------------------------------- */

static rg_tensor *of_whole, *whole_outputs[5];

static void compute_whole(void *unused) {
    (void)unused;
    rg_tensor *x = of_whole;
    rg_tensor *all[] = { rg_max(x), rg_min(x), rg_add(x, INT64_MIN), rg_gt(x, -5), rg_div(x, 4) };
    for (int i = 0; i < RG_COUNT(all); i++)
        whole_outputs[i] = rg_keep(all[i]);
}

/* A program that prints the outputs of a step, whose input it has from the test. */
static const char printing[] =
    "#include \"step.c\"\n"
    "#include <stdio.h>\n"
    "int main(void) {\n"
    "    static _Alignas(64) char m[STEP_BYTES];\n"
    "    const int64_t x[] = { -3, -7, -2, INT64_MIN };\n"
    "    step_begin(m);\n"
    "    const int64_t *most = step_step(m, x), *least = step_output1(m), *sum = step_output2(m);\n"
    "    const bool *above = step_output3(m);\n"
    "    const float *part = step_output4(m);\n"
    "    printf(\"%lld %lld %lld %d%d%d%d %a\", (long long)*most, (long long)*least,\n"
    "           (long long)sum[1], above[0], above[1], above[2], above[3], part[1]);\n"
    "    return 0;\n"
    "}\n";

/* Each output has a function with the output's dtype. The least int64, with which a maximum begins,
 * has no literal in C. */
START_TEST(test_whole_outputs) {
    scratch_begin();
    of_whole = rg_literal([ 0, 0, 0, 0 ]);
    rg_replay *r = rg_record(compute_whole, NULL);
    const rg_list more = { RG_COUNT(whole_outputs) - 1, whole_outputs + 1 };
    ck_ok(r
          && rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(of_whole),
                            .output = whole_outputs[0], .more_outputs = more));
    scratch_write("main.c", printing, strlen(printing));
    char command[1000], said[200] = "";
    snprintf(command, sizeof command, "cd %s && cc -Wall -Werror -o main main.c && ./main",
             scratch(""));
    FILE *f = popen(command, "r");
    ck_assert(f && fread(said, 1, sizeof said - 1, f) > 0 && pclose(f) == 0);
    ck_assert_str_eq(said, "-2 -9223372036854775808 9223372036854775801 1010 -0x1.cp+0");
    for (int i = 0; i < RG_COUNT(whole_outputs); i++)
        rg_drop(whole_outputs[i]);
    rg_replay_free(r);
    scratch_end();
}
END_TEST

/* ---- a file of the parameters ------------------------------------------------------------- */

/* The file beside the C file has the parameters' bytes, and nothing else. */
START_TEST(test_weights_beside) {
    scratch_begin();
    training t;
    rg_replay *r = recorded(&t, product, SGD);
    ck_ok(r
          && rg_replay_to_c(r, scratch("step.c"), .parameters = RG_LIST(t.w),
                            .weights = RG_FROM_CALLER));
    ck_assert_int_eq(scratch_files(), 1);
    const char *paths[] = { "step.c", "step" };
    for (int i = 0; i < 2; i++) {
        ck_ok(
            rg_replay_to_c(r, scratch(paths[i]), .parameters = RG_LIST(t.w), .weights = RG_BESIDE));
        char bytes[64];
        FILE *f = fopen(scratch("step.weights"), "rb");
        ck_assert(f && fread(bytes, 1, sizeof bytes, f) == sizeof(float[6]));
        fclose(f);
        ck_assert(memcmp(bytes, rg_data_as(float, t.w), sizeof(float[6])) == 0);
        remove(scratch("step.weights"));
    }
    end(&t, r);
    scratch_end();
}
END_TEST

/* ---- what stays as it was ------------------------------------------------------------------ */

/* A step and its recording go on as if nothing had been written, and so do an optimizer's count of
 * steps, its moments, and the generator. */
static void go_on(int kind, bool writes, float losses[3]) {
    training t;
    rg_manual_seed(kind);
    rg_replay *r = recorded(&t, dropped, kind);
    ck_ok(r);
    for (int i = 0; i < 3; i++) {
        if (writes)
            ck_ok(rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(t.x),
                                 .parameters = RG_LIST(t.w), .output = t.loss));
        ck_ok(rg_replay_run(r));
        losses[i] = (float)rg_item(t.loss);
    }
    end(&t, r);
}

START_TEST(test_unchanged) {
    scratch_begin();
    for (int kind = SGD; kind <= ADAM; kind++) {
        float losses[2][3];
        go_on(kind, false, losses[0]);
        go_on(kind, true, losses[1]);
        ck_assert(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
    }
    scratch_end();
}
END_TEST

static rg_tensor *chain_in, *chain_out;
static void chain(void *unused) {
    (void)unused;
    rg_drop(chain_out);
    chain_out = rg_keep(rg_exp(rg_mul(rg_neg(chain_in), 3)));
}

/* Elementwise calls that follow each other go through blocks of 256 elements in one loop, if there
 * are at least two blocks. A step without output returns nothing. */
START_TEST(test_text_of_a_chain) {
    static const struct {
        int64_t n;
        const char *text;
    } rows[] = {
        { 1500, "void chain_step(void *memory) {\n"
                "    char *m = memory;\n"
                "    for (int64_t i = 0; i < 5; i++) {\n"
                "        K_CALL(neg_loop_float(" },
        { 500, "void chain_step(void *memory) {\n"
               "    char *m = memory;\n"
               "    K_CALL(neg_loop_float(" },
    };
    scratch_begin();
    for (int i = 0; i < RG_COUNT(rows); i++) {
        RG_SCOPE();
        chain_in = rg_ones(rows[i].n);
        rg_replay *r = rg_record(chain, NULL);
        const char *path = scratch("chain.c");
        ck_ok(r && rg_replay_to_c(r, path, .name = "chain"));
        size_t n;
        ck_assert(strstr(rgi_file_text("test", path, &n), rows[i].text));
        rg_replay_free(r);
        rg_drop(chain_out);
        chain_out = NULL;
    }
    scratch_end();
}
END_TEST

/* An optimizer whose moments were taken away gets new ones, since its next step needs them. */
START_TEST(test_new_moments) {
    scratch_begin();
    float losses[2][2];
    for (int writes = 0; writes < 2; writes++) {
        training t;
        rg_replay *r = recorded(&t, product, ADAM);
        rg_optim *other = rg_optim_adam(RG_LIST(t.w));
        ck_ok(r && rg_optim_load_state_dict(t.optimizer, rg_optim_state_dict(other)));
        if (writes)
            ck_ok(rg_replay_to_c(r, scratch("step.c"), .output = t.loss));
        for (int i = 0; i < 2; i++) {
            ck_ok(rg_replay_run(r));
            losses[writes][i] = (float)rg_item(t.loss);
        }
        rg_optim_free(other);
        end(&t, r);
    }
    ck_assert(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
    scratch_end();
}
END_TEST

/* A gradient that was absent is absent after it, too. */
START_TEST(test_gradients_stay) {
    scratch_begin();
    training t;
    rg_replay *r = recorded(&t, product, SGD);
    ck_ok(r);
    rg_tensor *before = rg_grad_of(t.w);
    rg_tensor *values = rg_clone(before);
    ck_ok(rg_replay_to_c(r, scratch("step.c")));
    ck_assert(rg_grad_of(t.w) == before && rg_equal(before, values));
    rg_optim_zero_grad(t.optimizer);
    ck_ok(rg_replay_to_c(r, scratch("step.c")));
    ck_assert(rg_grad_of(t.w) == RG_NONE);
    end(&t, r);
    scratch_end();
}
END_TEST

static void add_gradient(void *x) { rg_backward(rg_sum(rg_square(x))); }

/* A step that adds to a gradient isn't written while another gradient is there, or none. */
START_TEST(test_gradient_set_later) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *x = rg_requires_grad_(rg_ones(3), true);
    rg_replay *r = rg_record(add_gradient, x);
    ck_ok(r);
    ck_ok(rg_replay_to_c(r, scratch("step.c")));
    rg_set_grad(x, rg_ones(3));
    ck_fails(rg_replay_to_c(r, scratch("step.c")), RG_RUNTIME_ERROR,
             "replay_to_c: the step adds to a gradient that the program has set");
    rg_set_grad(x, RG_NONE);
    ck_fails(rg_replay_to_c(r, scratch("step.c")), RG_RUNTIME_ERROR,
             "replay_to_c: the step adds to a gradient that the program has removed");
    ck_ok(rg_replay_run(r));
    ck_ok(rg_replay_to_c(r, scratch("step.c")));
    rg_replay_free(r);
    scratch_end();
}
END_TEST

static bool writes_a_step(void) {
    training t;
    rg_replay *r = recorded(&t, product, ADAM);
    const bool done = r && t.loss
                      && rg_replay_to_c(r, scratch("step.c"), .inputs = RG_LIST(t.x),
                                        .parameters = RG_LIST(t.w), .output = t.loss,
                                        .weights = RG_BESIDE);
    rg_replay_free(r);
    if (t.loss)
        rg_drop(t.loss);
    if (t.optimizer)
        rg_optim_free(t.optimizer);
    return done;
}

START_TEST(test_without_memory) {
    scratch_begin();
    ck_assert_int_gt(deny_in_turn(writes_a_step, NULL), 50);
    scratch_end();
}
END_TEST

START_TEST(test_without_files) {
    scratch_begin();
    ck_assert_int_gt(fail_in_turn(writes_a_step, NULL), 5);
    scratch_end();
}
END_TEST

/* Other threads get their own loops while this one writes. */
static void *multiply(void *wanted) {
    rg_manual_seed(3);
    for (int i = 0; i < 200; i++) {
        RG_SCOPE();
        rg_tensor *y = rg_matmul(rg_ones(20, 30), rg_full(RG_DIMS(30, 20), 0.1));
        ck_assert(rg_item(rg_select(rg_flatten(y, 0, -1), 0, 7)) == *(double *)wanted);
    }
    return NULL;
}

START_TEST(test_beside_threads) {
    scratch_begin();
    training t;
    pthread_t thread;
    rg_replay *r = recorded(&t, product, SGD);
    rg_tensor *y = rg_matmul(rg_ones(20, 30), rg_full(RG_DIMS(30, 20), 0.1));
    double wanted = rg_item(rg_select(rg_flatten(y, 0, -1), 0, 7));
    ck_ok(r);
    ck_assert_int_eq(pthread_create(&thread, NULL, multiply, &wanted), 0);
    for (int i = 0; i < 20; i++)
        ck_ok(rg_replay_to_c(r, scratch("step.c"), .output = t.loss));
    pthread_join(thread, NULL);
    end(&t, r);
    scratch_end();
}
END_TEST

/* Turkish capitals of ASCII letters aren't all ASCII letters. */
START_TEST(test_turkish_names) {
    scratch_begin();
    training t;
    rg_replay *r = recorded(&t, product, SGD);
    ck_ok(r && rg_replay_to_c(r, scratch("before.c"), .name = "mini_i"));
    if (set_locale("tr_TR"))
        ck_ok(rg_replay_to_c(r, scratch("after.c"), .name = "mini_i")
              && same_files(scratch("before.c"), scratch("after.c")));
    setlocale(LC_ALL, "C");
    end(&t, r);
    scratch_end();
}
END_TEST

RG_TESTS(to_c, test_refused, test_computed_numbers, test_options, test_whole_outputs,
         test_weights_beside, test_unchanged, test_text_of_a_chain, test_new_moments,
         test_gradients_stay, test_gradient_set_later, test_without_memory, test_without_files,
         test_beside_threads, test_turkish_names)

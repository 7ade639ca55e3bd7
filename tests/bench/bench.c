/*
 * bench.c: regard's side of `make bench`: for each row, which are those of bench.py,
 * a line of its name, the median time of one run in nanoseconds, a number that was
 * computed (so that both sides are seen to compute the same), and how many floating
 * point operations and bytes of memory the run can't do without.
 *
 *     bench-static [ROWS]      those whose names begin so
 */
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a row needs; its setup makes it anew. */
static rg_tensor *a, *b, *c, *x, *w, *s, *idx, *targets, *cache;
static rg_tensor *parameter[4];
static rg_optim *optim;
static rg_gpt *gpt;
static int64_t at;
static double flops, bytes;

static rg_tensor *keep(rg_tensor *t, bool grad) { return rg_requires_grad_(rg_keep(t), grad); }

static double mean_of(rg_tensor *t) {
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_item(rg_mean(rg_to(t, RG_FLOAT64)));
}

static double grad_of(rg_tensor *t) {
    RG_SCOPE();
    rg_tensor *g = rg_grad_of(t);
    return g == RG_NONE ? 0 : mean_of(rg_square(g));
}

/* ---- floors: what this machine can do, as regard's own kernels reach it --------------------------- */

static void floor_product(void) {
    a = keep(rg_randn(1024, 1024), false);
    b = keep(rg_randn(1024, 1024), false);
    flops = 2.0 * 1024 * 1024 * 1024;
}

static void floor_copy(void) {
    a = keep(rg_zeros(64 << 20), false);
    b = keep(rg_zeros(64 << 20), false);
    bytes = 2.0 * 4 * (64 << 20);
}

static void run_floor_copy(void) { rg_copy_(b, a); }

/* ---- W0: what one small op costs ---------------------------------------------------------------------- */

static void make_inputs(bool grad) {
    a = keep(rg_ones(3, 3), grad);
    b = keep(rg_ones(3, 3), grad);
    x = keep(rg_ones(6, 3), grad);
    w = keep(rg_ones(3, 3), grad);
    s = keep(rg_ones(6, 6), grad);
}

static void with_grad(void)    { make_inputs(true); }
static void without_grad(void) { make_inputs(false); }

static void four_by_four(void) {
    a = keep(rg_ones(4, 4), true);
    b = keep(rg_ones(4, 4), true);
}

static void run_add(void)       { rg_add(a, b); }
static void run_matmul(void)    { rg_matmul(x, w); }
static void run_product(void)   { rg_matmul(a, b); }
static void run_softmax(void)   { rg_softmax(s, -1); }
static void run_transpose(void) { rg_transpose(x, 0, 1); }
static void run_backward(void)  { rg_backward(rg_sum(rg_mul(a, b))); }

/* ---- W1: the notebook's layer: embedding of 6 words, attention, mse, a step of the optimizer ------------- */

static rg_tensor *toy_loss(void) {
    rg_tensor *e = rg_embedding(idx, parameter[0]), *p[3];
    for (int i = 0; i < 3; i++) p[i] = rg_matmul(e, parameter[i + 1]);
    rg_tensor *weights = rg_softmax(rg_div(rg_matmul(p[0], rg_T(p[1])), sqrt(2)), -1);
    return rg_mse_loss(rg_matmul(weights, p[2]), targets);
}

static void toy(void) {
    rg_manual_seed(1);
    const int64_t columns[] = { 3, 2, 2, 4 };
    for (int i = 0; i < 4; i++)
        parameter[i] = keep(rg_randn(i ? 3 : 6, columns[i]), true);
    idx = keep(rg_arange(6), false);
    targets = keep(rg_randn(6, 4), false);
}

static void toy_sgd(void)  { toy(); optim = rg_optim_sgd(((rg_list){ 4, parameter }), .lr = 1e-3); }
static void toy_adam(void) { toy(); optim = rg_optim_adam(((rg_list){ 4, parameter }), .lr = 1e-5); }

static void run_toy(void) {
    rg_tensor *loss = toy_loss();
    rg_optim_zero_grad(optim);
    rg_backward(loss);
    rg_optim_step(optim);
}

static rg_replay *replay;
static void toy_step(void *unused)  { (void)unused; run_toy(); }
static void toy_sgd_replayed(void)  { toy_sgd(); replay = rg_record(toy_step, NULL); }
static void toy_adam_replayed(void) { toy_adam(); replay = rg_record(toy_step, NULL); }
static void run_replay(void)        { rg_replay_run(replay); }

static double check_toy(void) { RG_SCOPE(); return rg_item(toy_loss()); }

/* ---- W2: causal attention, 8 heads of 64 ------------------------------------------------------------------ */

static void attention(int64_t t, bool grad) {
    rg_manual_seed(2);
    a = keep(rg_randn(1, 8, t, 64), grad);
    b = keep(rg_randn(1, 8, t, 64), grad);
    c = keep(rg_randn(1, 8, t, 64), grad);
    flops = 8.0 * (double)(t * t) / 2 * 64 * 4 * (grad ? 3.5 : 1);
}

static void attention_1k(void)       { attention(1024, false); }
static void attention_4k(void)       { attention(4096, false); }
static void attention_1k_grad(void)  { attention(1024, true); }
static void attention_4k_grad(void)  { attention(4096, true); }
static void attention_16k_grad(void) { attention(16384, true); }

static rg_tensor *attend(void) { return rg_scaled_dot_product_attention(a, b, c, .is_causal = true); }
static void run_attention(void) { attend(); }
static void run_attention_grad(void) {
    rg_set_grad(a, RG_NONE), rg_set_grad(b, RG_NONE), rg_set_grad(c, RG_NONE);
    rg_backward(rg_sum(attend()));
}
static double check_attention(void) { RG_SCOPE(); return mean_of(rg_square(attend())) + grad_of(b); }

/* ---- W3, W4, W6: GPTs ---------------------------------------------------------------------------------------- */

static void gpt_step(int64_t layers, int64_t heads, int64_t width, int64_t vocabulary, int64_t batch, int64_t length) {
    rg_manual_seed(3);
    gpt = rg_nn_gpt(.block_size = length, .vocab_size = vocabulary, .n_layer = layers, .n_head = heads, .n_embd = width);
    idx = keep(rg_randint(0, vocabulary, batch, length), false);
    targets = keep(rg_randint(0, vocabulary, batch, length), false);
    optim = rg_optim_adamw(rg_parameters(gpt), .lr = 1e-4);
    double n = (double)rg_num_parameters(gpt), tokens = (double)(batch * length);
    flops = 6 * tokens * (n - (double)(length * width)) + 12 * tokens * (double)(layers * width * length) / 2;
    bytes = 28 * n;
}

static void run_gpt_step(void) {
    rg_tensor *loss = rg_gpt_forward(gpt, idx, targets).loss;
    rg_optim_zero_grad(optim);
    rg_backward(loss);
    rg_optim_step(optim);
}

static double check_gpt(void) { RG_SCOPE(); RG_NO_GRAD(); return rg_item(rg_gpt_forward(gpt, idx, targets).loss); }
static void small_gpt(void) { gpt_step(4, 4, 128, 65, 12, 64); }
static void gpt_once(void *unused)   { (void)unused; run_gpt_step(); }
static void small_gpt_replayed(void) { small_gpt(); replay = rg_record(gpt_once, NULL); }
static void gpt2(void)      { gpt_step(12, 12, 768, 50257, 4, 64); }

static void generation(void) {
    rg_manual_seed(3);
    gpt = rg_nn_gpt(.block_size = 256, .vocab_size = 50257, .n_layer = 12, .n_head = 12, .n_embd = 768);
    idx = keep(rg_randint(0, 50257, 1, 1), false);
    cache = keep(rg_gpt_cache(gpt, 1), false);
    at = 0;
    bytes = 4 * (double)rg_num_parameters(gpt);
}

/* One token: the cache's first 64 positions over and over. */
static void run_generation(void) { rg_gpt_cached(gpt, idx, cache, at++ % 64); }
static double check_generation(void) { RG_SCOPE(); return mean_of(rg_square(rg_gpt_cached(gpt, idx, cache, 0))); }

/* ---- W5: elements and rows of (4096, 1024) ---------------------------------------------------------------------- */

static rg_tensor *gelu(rg_tensor *t)          { return rg_gelu(t); }
static rg_tensor *gelu_tanh(rg_tensor *t)     { return rg_gelu_tanh(t); }
static rg_tensor *softmax(rg_tensor *t)       { return rg_softmax(t, -1); }
static rg_tensor *layer_norm(rg_tensor *t)    { return rg_layer_norm(t, RG_DIMS(1024), w, s, 1e-5); }
static rg_tensor *add_other(rg_tensor *t)     { return rg_add(t, b); }
static rg_tensor *cross_entropy(rg_tensor *t) { return rg_cross_entropy(t, targets); }
static rg_tensor *(*row_op)(rg_tensor *);

static void rows_of(bool grad) {
    rg_manual_seed(5);
    x = keep(rg_randn(4096, 1024), grad);
    b = keep(rg_randn(4096, 1024), false);
    c = keep(rg_randn(4096, 1024), false);
    targets = keep(rg_randint(0, 1024, 4096), false);
    w = keep(rg_ones(1024), false);
    s = keep(rg_zeros(1024), false);
    bytes = (grad ? 5.0 : 2.0) * 4 * 4096 * 1024;       /* x, y; and g, x or y, gx */
}
#define ROW_SETUP(op) \
    static void op##_rows(void)      { rows_of(false); row_op = op; } \
    static void op##_rows_grad(void) { rows_of(true); row_op = op; }
static rg_tensor *relu(rg_tensor *t) { return rg_relu(t); }
ROW_SETUP(add_other)
ROW_SETUP(relu)
ROW_SETUP(gelu)
ROW_SETUP(gelu_tanh)
ROW_SETUP(softmax)
ROW_SETUP(layer_norm)
ROW_SETUP(cross_entropy)

static void run_rows(void) { row_op(x); }
static void run_rows_grad(void) {
    rg_set_grad(x, RG_NONE);
    rg_tensor *y = row_op(x);
    rg_backward(y, .gradient = rg_ndim(y) ? c : RG_NONE);
}
static double check_rows(void) { RG_SCOPE(); return mean_of(rg_square(row_op(x))) + grad_of(x); }

static void square(void) {
    rg_manual_seed(5);
    x = keep(rg_randn(4096, 4096), false);
    bytes = 4.0 * 4096 * 4096;
}
static void square_turned(void)  { square(); x = keep(rg_T(x), false); }
static void square_strided(void) { square(); x = keep(rg_slice(x, 1, 0, 4096, 2), false); }
static void run_sum_0(void)      { rg_sum_dim(x, 0, false); }
static void run_sum_1(void)      { rg_sum_dim(x, 1, false); }
static void run_sum_all(void)    { rg_sum(x); }
static double check_square(void) { return mean_of(x); }

static void adamw(void) {
    parameter[0] = keep(rg_ones(100 << 20), true);
    rg_set_grad(parameter[0], rg_full_like(rg_detach(parameter[0]), 0.5));
    optim = rg_optim_adamw(((rg_list){ 1, parameter }), .lr = 1e-3);
    bytes = 28.0 * (100 << 20);
}
static void run_step(void)       { rg_optim_step(optim); }
static double check_adamw(void)  { RG_SCOPE(); return mean_of(rg_narrow(rg_detach(parameter[0]), 0, 0, 1000)) > 0; }

/* ---- all ------------------------------------------------------------------------------------------------------------ */

#define BOTH(name, op) { "w5 " name " forward", op##_rows, run_rows, check_rows, 1 }, \
                       { "w5 " name " forward + backward", op##_rows_grad, run_rows_grad, check_rows, 1 }
static const struct { const char *name; void (*setup)(void), (*run)(void); double (*check)(void); int threads; } rows[] = {
    { "floor product",                       floor_product, run_product, NULL, 1 },
    { "floor copy",                          floor_copy,    run_floor_copy, NULL, 1 },
    { "w0 add 3x3",                          without_grad, run_add, NULL, 1 },
    { "w0 add 3x3, grad",                    with_grad,    run_add, NULL, 1 },
    { "w0 matmul 6x3 3x3",                   without_grad, run_matmul, NULL, 1 },
    { "w0 matmul 6x3 3x3, grad",             with_grad,    run_matmul, NULL, 1 },
    { "w0 softmax 6x6",                      without_grad, run_softmax, NULL, 1 },
    { "w0 softmax 6x6, grad",                with_grad,    run_softmax, NULL, 1 },
    { "w0 transpose 6x3",                    without_grad, run_transpose, NULL, 1 },
    { "w0 transpose 6x3, grad",              with_grad,    run_transpose, NULL, 1 },
    { "w0 sum(a*b) 4x4, forward + backward", four_by_four, run_backward, NULL, 1 },
    { "w1 toy layer, sgd",                   toy_sgd,      run_toy, check_toy, 1 },
    { "w1 toy layer, adam",                  toy_adam,     run_toy, check_toy, 1 },
    { "w1 toy layer, sgd, replayed",         toy_sgd_replayed,  run_replay, NULL, 1 },
    { "w1 toy layer, adam, replayed",        toy_adam_replayed, run_replay, NULL, 1 },
    { "w2 attention 1024 forward",             attention_1k,       run_attention, check_attention, 1 },
    { "w2 attention 1024 forward + backward",  attention_1k_grad,  run_attention_grad, check_attention, 1 },
    { "w2 attention 4096 forward",             attention_4k,       run_attention, check_attention, 1 },
    { "w2 attention 4096 forward + backward",  attention_4k_grad,  run_attention_grad, check_attention, 1 },
    { "w2 attention 4096 forward + backward, 2 threads", attention_4k_grad, run_attention_grad, check_attention, 2 },
    { "w2x attention 16384 forward + backward", attention_16k_grad, run_attention_grad, check_attention, 1 },
    { "w3 small gpt step",                   small_gpt, run_gpt_step, check_gpt, 1 },
    { "w3 small gpt step, 2 threads",        small_gpt, run_gpt_step, check_gpt, 2 },
    { "w3 small gpt step, replayed",         small_gpt_replayed, run_replay, NULL, 1 },
    { "w4 gpt-2 124M step",                  gpt2, run_gpt_step, check_gpt, 1 },
    { "w4 gpt-2 124M step, 2 threads",       gpt2, run_gpt_step, check_gpt, 2 },
    BOTH("add", add_other), BOTH("relu", relu), BOTH("gelu", gelu), BOTH("gelu tanh", gelu_tanh), BOTH("softmax", softmax),
    BOTH("layer_norm", layer_norm), BOTH("cross_entropy", cross_entropy),
    { "w5 sum 4096x4096",                    square,         run_sum_all, check_square, 1 },
    { "w5 sum 4096x4096 over dim 0",         square,         run_sum_0, check_square, 1 },
    { "w5 sum 4096x4096 over dim 1",         square,         run_sum_1, check_square, 1 },
    { "w5 sum 4096x4096 transposed, dim 0",  square_turned,  run_sum_0, check_square, 1 },
    { "w5 sum 4096x4096 every other, dim 1", square_strided, run_sum_1, check_square, 1 },
    { "w5 adamw 100M",                       adamw, run_step, check_adamw, 1 },
    { "w6 gpt-2 124M, one token",            generation, run_generation, check_generation, 1 },
    { "w6 gpt-2 124M, one token, 2 threads", generation, run_generation, check_generation, 2 },
};

static void repeat(void (*run)(void), long n) { RG_FOR (long i = 0; i < n; i++) run(); }

static void complain_and_exit(rg_code code, const char *message) {
    fprintf(stderr, "bench: error %d: %s\n", code, message);
    exit(1);
}

static long peak_megabytes(void) {
    char line[128];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kilobytes);
    if (status) fclose(status);
    return kilobytes >> 10;
}

int main(int argc, char **argv) {
    const char *wanted = argc > 1 ? argv[1] : "";
    rg_on_error(complain_and_exit);
    if (strcmp(wanted, "products") == 0) return puts(rg_product_library()) < 0;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (strncmp(rows[r].name, wanted, strlen(wanted))) continue;
        double times[REPEATS], begin, took;
        long n = 1;
        int repeats = REPEATS;
        flops = bytes = 0;
        rg_set_num_threads(rows[r].threads);
        RG_SCOPE();
        rows[r].setup();
        double check = rows[r].check ? rows[r].check() : 0;
        for (;; n *= 2) {                               /* until one timing takes 5 ms */
            begin = now();
            repeat(rows[r].run, n);
            if ((took = now() - begin) > 5e6) break;
        }
        if (took > 2e8) repeats = took > 2e9 ? 3 : 7;
        int64_t calls = rg_memory_stats().system_calls;
        for (int i = 0; i < repeats; i++) {
            begin = now();
            repeat(rows[r].run, n);
            times[i] = (now() - begin) / (double)n;
        }
        qsort(times, (size_t)repeats, sizeof times[0], by_size);
        printf("%s\t%.1f\t%.9g\t%.0f\t%.0f\t%ld\n", rows[r].name, times[repeats / 2], check, flops, bytes, peak_megabytes());
        fflush(stdout);
        calls = rg_memory_stats().system_calls - calls;
        if (calls && rows[r].name[1] < '2') {
            fprintf(stderr, "%s: %ld system allocations after warm-up\n", rows[r].name, (long)calls);
            return 1;
        }
    }
    return 0;
}

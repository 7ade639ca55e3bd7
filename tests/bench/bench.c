/*
 * bench.c: regard's side of `make bench`. bench.py, PyTorch's side, has most of these rows under
 * the same names. Each row runs in a process of its own, and prints a line of words, which tabs
 * separate:
 *
 *     its name
 *     the median time of one run in nanoseconds
 *     a number that was computed, which must be the same on both sides
 *     the number of floating point operations that the run needs at least
 *     its floor: the time that as many operations take in a large product, plus the time to read
 *         and write the arrays that the run needs at least
 *     the peak of its memory in MB
 *     the bytes of these arrays
 *
 *     bench-static [ROWS]      runs the rows whose names begin with ROWS; measure_growth prints w7
 */
#include "regard.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

/* The tensors and modules of the rows. A row's setup makes those that the row needs. */
static rg_tensor *left, *right, *query, *key, *value, *idx, *targets, *parameter[4];
static rg_optim *optim;
static rg_gpt *gpt;
static double flops;     /* The number of floating point operations that the run needs at least. */
static int64_t elements; /* The number of elements in each array of a pass over memory. */

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

/* Makes a step of the optimizer with the gradients of the loss. */
static void learn(rg_tensor *loss) {
    rg_optim_zero_grad(optim);
    rg_backward(loss);
    rg_optim_step(optim);
}

static long peak_megabytes(void) {
    char line[128];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmHWM: %ld", &kilobytes);
    if (status)
        fclose(status);
    return kilobytes >> 10;
}

static double time_of(void (*run)(void), long n) {
    double begin = now();
    RG_FOR (long i = 0; i < n; i++)
        run();
    return now() - begin;
}

static int repeats_of(double took) {
    if (took > 5e9)
        return 1;
    if (took > 2e9)
        return 3;
    return took > 2e8 ? 7 : REPEATS;
}

/* The least time of a run in the last measurement, in nanoseconds. */
static double least;
static int64_t system_calls; /* The last measurement's requests to the system for blocks. */

/* Returns the median time of one run. A run is repeated until a timing takes 5 ms. */
static double median(void (*run)(void)) {
    double times[REPEATS];
    long n = 1;
    double took = time_of(run, n);
    while (took <= 5e6) {
        n *= 2;
        took = time_of(run, n);
    }
    int repeats = repeats_of(took);
    system_calls = rg_memory_stats().system_calls;
    for (int k = 0; k < repeats; k++)
        times[k] = time_of(run, n) / (double)n;
    system_calls = rg_memory_stats().system_calls - system_calls;
    qsort(times, (size_t)repeats, sizeof times[0], by_size);
    least = times[0];
    return times[repeats / 2];
}

/* ---- floors: what this machine can do -------------------------------------------- */

static void floor_product(void) {
    left = keep(rg_randn(1024, 1024), false);
    right = keep(rg_randn(1024, 1024), false);
    flops = 2.0 * 1024 * 1024 * 1024;
}
static void large(void) { elements = 64 << 20; }
static void in_caches(void) { elements = 4096 * 1024; }

/* The numbers of arrays that a pass over memory reads and writes. If it reads 4 arrays and writes
 * 3, it writes to arrays that it has read. */
typedef struct {
    int reads, writes;
} pass;
enum { PASS_MOST = 64 << 20 }; /* The elements of an array that no cache can hold. */

/* These functions are compiled for AVX2 at most, so their loads have 32 bytes. Loads of 64 bytes
 * would be a fifth slower. */
#ifdef __x86_64__
#define EVERY_SET __attribute__((target_clones("avx2", "default")))
#else
#define EVERY_SET
#endif
static _Atomic int64_t bits_read;
EVERY_SET static int64_t read_all(const float *p, int64_t n) {
    const int64_t *v = (const int64_t *)(const void *)p;
    int64_t all = 0;
    for (int64_t i = 0; i < n / 2; i++)
        all += v[i];
    return all;
}
EVERY_SET static void add_all(float *restrict y, const float *restrict p, const float *restrict q,
                              int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = p[i] + q[i];
}
EVERY_SET static void update_all(float *restrict p, float *restrict m, float *restrict v,
                                 const float *restrict g, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        m[i] += g[i];
        v[i] -= g[i];
        p[i] += m[i];
    }
}

/* Copies p, or adds p and q, and writes past the caches. */
static void stream_all(float *y, const float *p, const float *q, int64_t n) {
#ifdef __SSE2__
    for (int64_t i = 0; i < n; i += 4) {
        __m128 v = _mm_load_ps(p + i);
        _mm_stream_ps(y + i, q ? _mm_add_ps(v, _mm_load_ps(q + i)) : v);
    }
    _mm_sfence();
#else
    if (q)
        add_all(y, p, q, n);
    else
        memcpy(y, p, (size_t)n * 4);
#endif
}

static struct {
    pass pass;
    bool past_caches;
    int threads;
    int64_t n;
    float *array[4];
} streamed;

/* Makes the pass over one thread's part of the arrays. `of` is the number of the thread. */
static void *pass_share(void *of) {
    int64_t n = streamed.n / streamed.threads / 64 * 64;
    int64_t begin = (int64_t)(intptr_t)of * n;
    float *p = streamed.array[0] + begin;
    float *q = streamed.array[1] + begin;
    float *r = streamed.array[2] + begin;
    float *v = streamed.array[3] + begin;
    if (streamed.pass.writes == 0)
        atomic_fetch_add(&bits_read, read_all(p, n));
    else if (streamed.pass.writes == 3)
        update_all(p, q, r, v, n);
    else if (streamed.past_caches)
        stream_all(r, p, streamed.pass.reads == 2 ? q : NULL, n);
    else if (streamed.pass.reads == 2)
        add_all(r, p, q, n);
    else
        memcpy(r, p, (size_t)n * 4);
    return NULL;
}

/* A row has one thread or two. */
static void run_pass(void) {
    pthread_t other;
    const bool two = streamed.threads == 2;
    if (two && pthread_create(&other, NULL, pass_share, (void *)1))
        exit(1);
    pass_share((void *)0);
    if (two)
        pthread_join(other, NULL);
}

/* Returns the least time of the pass, with plain stores or with stores past the caches. The time of
 * arrays beyond PASS_MOST is extrapolated from the time of smaller ones. */
static double time_of_pass(pass p, int threads) {
    RG_SCOPE();
    double best = INFINITY;
    streamed.pass = p;
    streamed.threads = threads;
    streamed.n = elements < PASS_MOST ? elements : PASS_MOST;
    for (int i = 0; i < (p.reads < 4 ? 3 : 4); i++)
        streamed.array[i] = rg_data(rg_ones(streamed.n));
    for (int past = 0; past < 2; past++) {
        streamed.past_caches = past;
        median(run_pass);
        best = fmin(best, least);
    }
    return best * (double)elements / (double)streamed.n;
}

/* ---- W0: what one small op costs ------------------------------------------------- */

static rg_tensor *words, *weight, *scores; /* These are 6x3, 3x3 and 6x6. */

static void make_inputs(bool grad) {
    left = keep(rg_ones(3, 3), grad);
    right = keep(rg_ones(3, 3), grad);
    words = keep(rg_ones(6, 3), grad);
    weight = keep(rg_ones(3, 3), grad);
    scores = keep(rg_ones(6, 6), grad);
}

static void with_grad(void) { make_inputs(true); }
static void without_grad(void) { make_inputs(false); }

static void four_by_four(void) {
    left = keep(rg_ones(4, 4), true);
    right = keep(rg_ones(4, 4), true);
}

static void run_add(void) { rg_add(left, right); }
static void run_matmul(void) { rg_matmul(words, weight); }
static void run_product(void) { rg_matmul(left, right); }
static void run_softmax(void) { rg_softmax(scores, -1); }
static void run_transpose(void) { rg_transpose(words, 0, 1); }
static void run_backward(void) { rg_backward(rg_sum(rg_mul(left, right))); }

/* ---- W1: the notebook's layer ---------------------------------------------------- */

/* A step embeds 6 words, attends, takes the mean squared error, and steps the optimizer. */
static rg_tensor *toy_loss(void) {
    rg_tensor *e = rg_embedding(idx, parameter[0]);
    rg_tensor *p[3];
    for (int i = 0; i < 3; i++)
        p[i] = rg_matmul(e, parameter[i + 1]);
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

static void toy_sgd(void) {
    toy();
    optim = rg_optim_sgd(((rg_list){ 4, parameter }), .lr = 1e-3);
}
static void toy_adam(void) {
    toy();
    optim = rg_optim_adam(((rg_list){ 4, parameter }), .lr = 1e-5);
}

static void run_toy(void) { learn(toy_loss()); }

static rg_replay *replay;
static void (*recorded)(void);
static void run_recorded(void *unused) {
    (void)unused;
    recorded();
}
/* Records the run of a row, after the row's setup. */
static void record(void (*run)(void)) {
    recorded = run;
    replay = rg_record(run_recorded, NULL);
}
static void toy_sgd_replayed(void) {
    toy_sgd();
    record(run_toy);
}
static void toy_adam_replayed(void) {
    toy_adam();
    record(run_toy);
}
static void run_replay(void) { rg_replay_run(replay); }

static double check_toy(void) {
    RG_SCOPE();
    return rg_item(toy_loss());
}

/* ---- W2: causal attention, 8 heads of 64 ----------------------------------------- */

static void attention(int64_t t, bool grad) {
    rg_manual_seed(2);
    query = keep(rg_randn(1, 8, t, 64), grad);
    key = keep(rg_randn(1, 8, t, 64), grad);
    value = keep(rg_randn(1, 8, t, 64), grad);
    flops = 8.0 * (double)t * (double)(t + 1) / 2 * 64 * 4 * (grad ? 3.5 : 1);
}

static void attention_1k(void) { attention(1024, false); }
static void attention_4k(void) { attention(4096, false); }
static void attention_16k(void) { attention(16384, false); }
static void attention_1k_grad(void) { attention(1024, true); }
static void attention_4k_grad(void) { attention(4096, true); }
static void attention_16k_grad(void) { attention(16384, true); }

static rg_tensor *attend(void) {
    return rg_scaled_dot_product_attention(query, key, value, .is_causal = true);
}
static void run_attention(void) { attend(); }
static void run_attention_grad(void) {
    rg_set_grad(query, RG_NONE);
    rg_set_grad(key, RG_NONE);
    rg_set_grad(value, RG_NONE);
    rg_backward(rg_sum(attend()));
}
static double check_attention(void) {
    RG_SCOPE();
    return mean_of(rg_square(attend())) + grad_of(key);
}

/* ---- W3, W4, W6: GPTs ------------------------------------------------------------ */

/* Returns the floating point operations of the products of a step, forward and backward. For each
 * token, the weights of a layer take 12 width^2 multiply-adds: qkv 3, c_proj 1, c_fc and the c_proj
 * after it 4 each. The last product takes width * vocabulary. Backward takes twice as many, for two
 * gradients. Attention has length (length + 1) / 2 pairs of a query and a key that it sees. A pair
 * takes 2 products of width multiply-adds forward and 5 backward, where the scores are computed
 * again. */
static double gpt_flops(int64_t layers, int64_t width, int64_t vocabulary, int64_t batch,
                        int64_t length) {
    double weights = (double)(12 * layers * width * width + width * vocabulary);
    return 3 * 2 * (double)(batch * length) * weights
           + (2 + 5) * 2 * (double)(layers * batch * width) * (double)(length * (length + 1) / 2);
}

static void gpt_step(int64_t layers, int64_t heads, int64_t width, int64_t vocabulary,
                     int64_t batch, int64_t length) {
    rg_manual_seed(3);
    gpt = rg_nn_gpt(.block_size = length, .vocab_size = vocabulary, .n_layer = layers,
                    .n_head = heads, .n_embd = width);
    idx = keep(rg_randint(0, vocabulary, batch, length), false);
    targets = keep(rg_randint(0, vocabulary, batch, length), false);
    optim = rg_optim_adamw(rg_parameters(gpt), .lr = 1e-4);
    flops = gpt_flops(layers, width, vocabulary, batch, length);
    elements = rg_num_parameters(gpt);
}

static void run_gpt_step(void) { learn(rg_gpt_forward(gpt, idx, targets).loss); }

static double check_gpt(void) {
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_item(rg_gpt_forward(gpt, idx, targets).loss);
}

/* The same step with the loss under autocast. */
static rg_tensor *autocast_loss(void) {
    RG_AUTOCAST(RG_BFLOAT16);
    return rg_gpt_forward(gpt, idx, targets).loss;
}
static void run_gpt_autocast(void) { learn(autocast_loss()); }
static double check_gpt_autocast(void) {
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_item(autocast_loss());
}

static void small_gpt(void) { gpt_step(4, 4, 128, 65, 12, 64); }
static void small_gpt_replayed(void) {
    small_gpt();
    record(run_gpt_step);
}
static void gpt2(void) { gpt_step(12, 12, 768, 50257, 4, 64); }

/* ---- W8: convolutions: a small network on 28x28, and the patches of a vision transformer ---- */

static rg_module *pictures_net;

static void pictures(rg_module *net, rg_tensor *x, double operations) {
    pictures_net = net;
    idx = keep(x, false);
    targets = keep(rg_randint(0, 10, rg_size(x, 0)), false);
    optim = rg_optim_sgd(rg_parameters(net), .lr = 1e-3);
    flops = operations;
}

static rg_tensor *pictures_loss(void) {
    return rg_cross_entropy(rg_call(pictures_net, idx), targets);
}

static void run_pictures(void) { learn(pictures_loss()); }

static double check_pictures(void) {
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_item(pictures_loss());
}

/* A convolution takes 2 operations for each term of each output: once forward, and once for each
 * gradient. The pictures have no gradient. */
static void conv_3x3(void) {
    rg_manual_seed(4);
    rg_module *net = (rg_module *)rg_nn_sequential(
        rg_nn_conv2d(1, 32, 3), rg_nn_relu(), rg_nn_conv2d(32, 64, 3), rg_nn_relu(),
        rg_nn_max_pool2d(2), rg_nn_flatten(1, -1), rg_nn_linear(9216, 10));
    pictures(net, rg_randn(64, 1, 28, 28),
             64.0 * (4 * 26 * 26 * 32 * 9 + 6 * 24.0 * 24 * 64 * 288 + 6 * 92160));
}
static void conv_5x5(void) {
    rg_manual_seed(4);
    rg_module *net = (rg_module *)rg_nn_sequential(
        rg_nn_conv2d(1, 32, 5), rg_nn_relu(), rg_nn_max_pool2d(2), rg_nn_conv2d(32, 64, 5),
        rg_nn_relu(), rg_nn_max_pool2d(2), rg_nn_flatten(1, -1), rg_nn_linear(1024, 10));
    pictures(net, rg_randn(64, 1, 28, 28),
             64.0 * (4 * 24 * 24 * 32 * 25 + 6 * 8.0 * 8 * 64 * 800 + 6 * 10240));
}
static void conv_padded(void) {
    rg_manual_seed(4);
    rg_module *net = (rg_module *)rg_nn_sequential(
        rg_nn_conv2d(1, 32, 5, .padding = 2), rg_nn_relu(), rg_nn_max_pool2d(2),
        rg_nn_conv2d(32, 64, 5, .padding = 2), rg_nn_relu(), rg_nn_max_pool2d(2),
        rg_nn_flatten(1, -1), rg_nn_linear(3136, 10));
    pictures(net, rg_randn(64, 1, 28, 28),
             64.0 * (4 * 28 * 28 * 32 * 25 + 6 * 14.0 * 14 * 64 * 800 + 6 * 31360));
}
static void patches(void) {
    rg_manual_seed(4);
    rg_module *net = (rg_module *)rg_nn_sequential(rg_nn_conv2d(3, 192, 16, .stride = 16),
                                                   rg_nn_adaptive_avg_pool2d(1),
                                                   rg_nn_flatten(1, -1), rg_nn_linear(192, 10));
    pictures(net, rg_randn(8, 3, 224, 224), 8 * 4.0 * 196 * 192 * 768);
}

/* ---- W10: small transformers: a layer of 4 heads, RMSNorm, no biases, 27 letters ---- */

enum { TOKENS, POSITIONS, QUERIES, KEYS, VALUES, PROJECTION, WIDEN, NARROW, OUTPUT, MICRO };
enum { MICRO_HEADS = 4, ALPHABET = 27 };
static rg_tensor *micro[MICRO], *places;
static int64_t micro_batch, micro_length, micro_width;

static rg_tensor *micro_weight(int64_t rows, int64_t columns) {
    return keep(rg_mul(rg_randn(rows, columns), 0.08), true);
}

static void micro_gpt(int64_t batch, int64_t length, int64_t width) {
    rg_manual_seed(6);
    micro_batch = batch;
    micro_length = length;
    micro_width = width;
    micro[TOKENS] = micro_weight(ALPHABET, width);
    micro[POSITIONS] = micro_weight(length, width);
    for (int i = QUERIES; i <= PROJECTION; i++)
        micro[i] = micro_weight(width, width);
    micro[WIDEN] = micro_weight(4 * width, width);
    micro[NARROW] = micro_weight(width, 4 * width);
    micro[OUTPUT] = micro_weight(ALPHABET, width);
    idx = keep(rg_randint(0, ALPHABET, batch, length), false);
    targets = keep(rg_randint(0, ALPHABET, batch * length), false);
    places = keep(rg_arange(length), false);
    optim = rg_optim_adam(((rg_list){ MICRO, micro }), .lr = 1e-5);
    flops = gpt_flops(1, width, ALPHABET, batch, length);
}

static rg_tensor *micro_normalized(rg_tensor *x) {
    return rg_rms_norm(x, RG_DIMS(micro_width), RG_NONE, 1e-5);
}

static rg_tensor *micro_heads(rg_tensor *x, int which) {
    x = rg_linear(x, micro[which], RG_NONE);
    return rg_transpose(
        rg_view(x, micro_batch, micro_length, MICRO_HEADS, micro_width / MICRO_HEADS), 1, 2);
}

static rg_tensor *micro_loss(void) {
    rg_tensor *x = rg_embedding(idx, micro[TOKENS]);
    x = micro_normalized(rg_add(x, rg_embedding(places, micro[POSITIONS])));
    rg_tensor *h = micro_normalized(x);
    rg_tensor *y = rg_scaled_dot_product_attention(micro_heads(h, QUERIES), micro_heads(h, KEYS),
                                                   micro_heads(h, VALUES), .is_causal = true);
    y = rg_reshape(rg_transpose(y, 1, 2), micro_batch, micro_length, micro_width);
    x = rg_add(rg_linear(y, micro[PROJECTION], RG_NONE), x);
    h = rg_relu(rg_linear(micro_normalized(x), micro[WIDEN], RG_NONE));
    x = rg_add(rg_linear(h, micro[NARROW], RG_NONE), x);
    x = rg_linear(x, micro[OUTPUT], RG_NONE);
    return rg_cross_entropy(rg_view(x, micro_batch * micro_length, ALPHABET), targets);
}

static void run_micro(void) { learn(micro_loss()); }
static double check_micro(void) {
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_item(micro_loss());
}

static void micro_1_8_16(void) { micro_gpt(1, 8, 16); }
static void micro_16_8_16(void) { micro_gpt(16, 8, 16); }
static void micro_16_8_32(void) { micro_gpt(16, 8, 32); }
static void micro_16_16_64(void) { micro_gpt(16, 16, 64); }
static void micro_1_8_16_replayed(void) {
    micro_1_8_16();
    record(run_micro);
}
static void micro_16_8_16_replayed(void) {
    micro_16_8_16();
    record(run_micro);
}
static void micro_16_8_32_replayed(void) {
    micro_16_8_32();
    record(run_micro);
}
static void micro_16_16_64_replayed(void) {
    micro_16_16_64();
    record(run_micro);
}

/* ---- W9: recurrent layers: 64 steps, 128 wide ----------------------------------------------- */

static rg_rnn_module *recurrent;

/* A step takes 2 operations for each weight and row. x is multiplied forward, and once in backward,
 * for the weight's gradient. h is multiplied forward, and once for each of two gradients. */
static void recurrent_layer(rg_rnn_module *m, int64_t batch) {
    recurrent = m;
    idx = keep(rg_randn(64, batch, 128), false);
    optim = rg_optim_sgd(rg_parameters(m), .lr = 1e-3);
    flops = 5 * 2 * 64.0 * (double)(batch * 128 * rg_size(m->weights->weight_hh, 0));
}

static rg_tensor *recurrent_loss(void) {
    return rg_mean(rg_square(rg_rnn_forward(recurrent, idx).output));
}

static void run_recurrent(void) { learn(recurrent_loss()); }

static double check_recurrent(void) {
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_item(recurrent_loss());
}

static void lstm_1(void) {
    rg_manual_seed(5);
    recurrent_layer(rg_nn_lstm(128, 128), 1);
}
static void lstm_16(void) {
    rg_manual_seed(5);
    recurrent_layer(rg_nn_lstm(128, 128), 16);
}
static void lstm_64(void) {
    rg_manual_seed(5);
    recurrent_layer(rg_nn_lstm(128, 128), 64);
}
static void gru_64(void) {
    rg_manual_seed(5);
    recurrent_layer(rg_nn_gru(128, 128), 64);
}
static void rnn_64(void) {
    rg_manual_seed(5);
    recurrent_layer(rg_nn_rnn(128, 128), 64);
}

/* The product that gives the rate for the floor is computed in bfloat16, too. */
static void medium(void) { rg_set_float32_matmul_precision("medium"); }
static void small_gpt_medium(void) {
    small_gpt();
    medium();
}
static void gpt2_medium(void) {
    gpt2();
    medium();
}

static rg_tensor *cache;
static int64_t position; /* The position of the next token, modulo 64. */

static void generation(void) {
    rg_manual_seed(3);
    gpt = rg_nn_gpt(.block_size = 256, .vocab_size = 50257, .n_layer = 12, .n_head = 12,
                    .n_embd = 768);
    idx = keep(rg_randint(0, 50257, 1, 1), false);
    cache = keep(rg_gpt_cache(gpt, 1), false);
    position = 0;
    elements = rg_num_parameters(gpt);
}

/* Generates one token. The positions run through the cache's first 64 positions again and again. */
static void run_generation(void) {
    rg_gpt_cached(gpt, idx, cache, position % 64);
    position++;
}
static double check_generation(void) {
    RG_SCOPE();
    return mean_of(rg_square(rg_gpt_cached(gpt, idx, cache, 0)));
}

/* ---- W5: elements and rows of (4096, 1024) --------------------------------------- */

static rg_tensor *input, *addend, *cotangent, *norm_weight, *norm_bias;

static rg_tensor *gelu(rg_tensor *t) { return rg_gelu(t); }
static rg_tensor *gelu_tanh(rg_tensor *t) { return rg_gelu_tanh(t); }
static rg_tensor *softmax(rg_tensor *t) { return rg_softmax(t, -1); }
static rg_tensor *layer_norm(rg_tensor *t) {
    return rg_layer_norm(t, RG_DIMS(1024), norm_weight, norm_bias, 1e-5);
}
static rg_tensor *add_other(rg_tensor *t) { return rg_add(t, addend); }
static rg_tensor *cross_entropy(rg_tensor *t) { return rg_cross_entropy(t, targets); }
static rg_tensor *(*row_op)(rg_tensor *);

static void rows_of(bool grad) {
    rg_manual_seed(5);
    input = keep(rg_randn(4096, 1024), grad);
    addend = keep(rg_randn(4096, 1024), false);
    cotangent = keep(rg_randn(4096, 1024), false);
    targets = keep(rg_randint(0, 1024, 4096), false);
    norm_weight = keep(rg_ones(1024), false);
    norm_bias = keep(rg_zeros(1024), false);
    elements = 4096 * 1024;
}
#define ROW_SETUP(op)                  \
    static void op##_rows(void) {      \
        rows_of(false);                \
        row_op = op;                   \
    }                                  \
    static void op##_rows_grad(void) { \
        rows_of(true);                 \
        row_op = op;                   \
    }
static rg_tensor *relu(rg_tensor *t) { return rg_relu(t); }
ROW_SETUP(add_other)
ROW_SETUP(relu)
ROW_SETUP(gelu)
ROW_SETUP(gelu_tanh)
ROW_SETUP(softmax)
ROW_SETUP(layer_norm)
ROW_SETUP(cross_entropy)

static void run_rows(void) { row_op(input); }
static void run_rows_grad(void) {
    rg_set_grad(input, RG_NONE);
    rg_tensor *y = row_op(input);
    rg_backward(y, .gradient = rg_ndim(y) ? cotangent : RG_NONE);
}
static double check_rows(void) {
    RG_SCOPE();
    return mean_of(rg_square(row_op(input))) + grad_of(input);
}

static void square(void) {
    rg_manual_seed(5);
    input = keep(rg_randn(4096, 4096), false);
    elements = 4096 * 4096;
}
static void square_turned(void) {
    square();
    input = keep(rg_T(input), false);
}
static void square_strided(void) {
    square();
    input = keep(rg_slice(input, 1, 0, 4096, 2), false);
}
static void run_sum_0(void) { rg_sum_dim(input, 0, false); }
static void run_sum_1(void) { rg_sum_dim(input, 1, false); }
static void run_sum_all(void) { rg_sum(input); }
static double check_square(void) { return mean_of(input); }

static void adamw(void) {
    parameter[0] = keep(rg_ones(100 << 20), true);
    rg_set_grad(parameter[0], rg_full_like(rg_detach(parameter[0]), 0.5));
    optim = rg_optim_adamw(((rg_list){ 1, parameter }), .lr = 1e-3);
    elements = 100 << 20;
}
static void run_step(void) { rg_optim_step(optim); }
static double check_adamw(void) {
    RG_SCOPE();
    return mean_of(rg_narrow(rg_detach(parameter[0]), 0, 0, 1000)) > 0;
}

/* ---- W11: steps that are compiled in place ---------------------------------------- */

/* Recording makes the first step, and the compiled step the second one: the row's number is the
 * loss after both. */
#define COMPILED_SETUP(setup)            \
    static void setup##_compiled(void) { \
        setup##_replayed();              \
        rg_replay_compile(replay);       \
        run_replay();                    \
    }
COMPILED_SETUP(toy_sgd)
COMPILED_SETUP(toy_adam)
COMPILED_SETUP(micro_1_8_16)
COMPILED_SETUP(micro_16_8_16)
COMPILED_SETUP(micro_16_8_32)
COMPILED_SETUP(micro_16_16_64)
COMPILED_SETUP(small_gpt)

/* Compiles the step, without what was compiled before. */
static void run_compile(void) {
    char folder[] = "/tmp/bench-XXXXXX", command[64];
    if (!mkdtemp(folder))
        exit(1);
    setenv("XDG_CACHE_HOME", folder, 1);
    rg_replay_compile(replay);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command))
        exit(1);
}

/* ---- W7: how time and memory grow ------------------------------------------------ */

typedef struct {
    const char *sweep;
    int64_t at; /* The number that grows: one of the four below, or the number of nodes. */
    int64_t layers, width, batch, length;
} growth;
/* A node and its tensor take about 900 bytes. The nodes of "nodes-L2" therefore fit into the L2
 * cache, those of "nodes-L3" into the L3 cache, and those of "nodes-RAM" into no cache. */
static const growth growths[] = {
    { "length", 32, 2, 128, 4, 32 },    { "length", 64, 2, 128, 4, 64 },
    { "length", 96, 2, 128, 4, 96 },    { "length", 128, 2, 128, 4, 128 },
    { "length", 192, 2, 128, 4, 192 },  { "length", 256, 2, 128, 4, 256 },
    { "batch", 2, 2, 128, 2, 64 },      { "batch", 4, 2, 128, 4, 64 },
    { "batch", 8, 2, 128, 8, 64 },      { "batch", 16, 2, 128, 16, 64 },
    { "batch", 24, 2, 128, 24, 64 },    { "batch", 32, 2, 128, 32, 64 },
    { "width", 64, 2, 64, 8, 64 },      { "width", 96, 2, 96, 8, 64 },
    { "width", 128, 2, 128, 8, 64 },    { "width", 192, 2, 192, 8, 64 },
    { "width", 256, 2, 256, 8, 64 },    { "width", 384, 2, 384, 8, 64 },
    { "depth", 1, 1, 128, 8, 64 },      { "depth", 2, 2, 128, 8, 64 },
    { "depth", 3, 3, 128, 8, 64 },      { "depth", 4, 4, 128, 8, 64 },
    { "depth", 6, 6, 128, 8, 64 },      { "depth", 8, 8, 128, 8, 64 },
    { "nodes-L2", 16, 0, 0, 0, 0 },     { "nodes-L2", 64, 0, 0, 0, 0 },
    { "nodes-L2", 256, 0, 0, 0, 0 },    { "nodes-L2", 512, 0, 0, 0, 0 },
    { "nodes-L2", 1024, 0, 0, 0, 0 },   { "nodes-L3", 3000, 0, 0, 0, 0 },
    { "nodes-L3", 4000, 0, 0, 0, 0 },   { "nodes-L3", 6000, 0, 0, 0, 0 },
    { "nodes-L3", 8000, 0, 0, 0, 0 },   { "nodes-L3", 10000, 0, 0, 0, 0 },
    { "nodes-RAM", 40000, 0, 0, 0, 0 }, { "nodes-RAM", 60000, 0, 0, 0, 0 },
    { "nodes-RAM", 80000, 0, 0, 0, 0 }, { "nodes-RAM", 120000, 0, 0, 0, 0 },
};
enum { LETTERS = 65, HEADS = 4 };
typedef struct {
    double flops, moved, held;
} growth_cost;

/* Returns the size of the pool's block for a tensor of this number of bytes and its header: a
 * multiple of 64, and beyond 4096 bytes one of four sizes between two powers of two. */
static double block(double bytes) {
    double unit = 64;
    bytes += 64;
    while (unit * 8 < bytes && bytes > 4096)
        unit *= 2;
    return ceil(bytes / unit) * unit;
}

/* Returns what a step costs in theory, where l is the number of layers, d their width, t the length
 * of a sequence, v the size of the vocabulary, and m the number of tokens in the batch.
 *
 * `moved` is what each op reads and makes, forward and backward, in elements of four bytes. A
 * stream of activations has m d elements. A layer moves 96 streams, forward and backward: linear 16
 * (x and y) and 23 (g, x and gx), attention 4 and 8, the two norms 4 and 6, gelu 8 and 12. The two
 * additions move 6, and the sums for the gradients of biases 9. The weights, which are read twice,
 * and their gradients are 36 d^2 elements. The biases and the norms' weights are 28 d. Outside of
 * the layers, additions, norm and linear move 12 m d elements, the logits 5 m v, the logits'
 * weights 4 v d, and the embedding of positions 4 t d, with t indices of eight bytes.
 *
 * `held` is what lives when backward begins, each tensor in a block of its own. A layer holds five
 * streams: the inputs of both norms, of qkv and of c_fc, and attention's output. It also holds q, k
 * and v together, gelu's x and y, and attention's logarithm for each row and head. The end holds
 * the norm's x and y, the logits, their logarithms, the loss, and the positions. */
static growth_cost gpt_theory(const growth *g) {
    double l = (double)g->layers;
    double d = (double)g->width;
    double t = (double)g->length;
    double v = LETTERS;
    double m = (double)g->batch * t;
    double md = m * d;
    double in_layers = l * (96 * md + 2 * m * HEADS + 36 * d * d + 28 * d);
    double outside = 12 * md + 5 * d + 5 * m * v + 4 * v * d + 4 * t * d + 2 * t + 10 * m + 2;
    double in_layer = 5 * block(4 * md) + block(12 * md) + 2 * block(16 * md);
    double logarithms = block(4 * m * HEADS);
    double at_end = 2 * block(4 * md) + block(4 * m * v) + block(8 * m) + block(8 * t) + block(4);
    return (growth_cost){
        .flops = gpt_flops(g->layers, g->width, LETTERS, g->batch, g->length),
        .moved = 4 * (in_layers + outside),
        .held = l * (in_layer + logarithms) + at_end,
    };
}

/* The chain applies tanh to 4x4 elements `chain` times, and sums the result. Each tanh reads x and
 * makes y. Its backward reads g and y and makes gx. Forward and backward take one operation for
 * each element. */
static int64_t chain;
static rg_tensor *make_chain(void) {
    rg_tensor *y = left;
    for (int64_t i = 0; i < chain; i++)
        y = rg_tanh(y);
    return rg_sum(y);
}
static void run_chain(void) { rg_backward(make_chain()); }
static growth_cost chain_theory(void) {
    double n = (double)chain;
    return (growth_cost){ .flops = 32 * n + 2,
                          .moved = 5 * 64 * n + 2 * (64 + 4),
                          .held = n * block(64) + block(4) };
}

static double cost_of_products(void) {
    static const char *const rows[] = { "linear", "linear, backward", "joint_attention",
                                        "joint_attention, backward" };
    double all = 0;
    for (int i = 0; i < 4; i++)
        all += rg_profile_cost(rows[i]).flops;
    return all;
}

/* Prints a line with the name, the least time, the work, three pairs of costs, and the peak in MB.
 * The pairs are floating point operations, bytes moved and bytes held, each as counted and as in
 * theory. The work is floating point operations, or nodes. */
static int measure_growth(size_t which) {
    const growth *g = &growths[which];
    bool nodes = g->layers == 0;
    RG_SCOPE();
    rg_set_num_threads(1);
    if (nodes) {
        four_by_four();
        chain = g->at;
    } else {
        gpt_step(g->layers, HEADS, g->width, LETTERS, g->batch, g->length);
    }
    void (*run)(void) = nodes ? run_chain : run_gpt_step;
    median(run);
    growth_cost theory = nodes ? chain_theory() : gpt_theory(g);
    growth_cost counted = { 0 };
    RG_FOR (int i = 0; i < 1; i++) {
        int64_t before = rg_memory_stats().storages;
        rg_tensor *loss = nodes ? make_chain() : rg_gpt_forward(gpt, idx, targets).loss;
        counted.held = loss ? (double)(rg_memory_stats().storages - before) : 0;
    }
    rg_set_profiling(true);
    RG_FOR (int i = 0; i < 1; i++)
        run();
    rg_set_profiling(false);
    rg_cost all = rg_profile_cost(NULL);
    counted.flops = nodes ? all.flops : cost_of_products();
    counted.moved = all.bytes;
    printf("w7 %s %ld\t%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%ld\n", g->sweep,
           (long)g->at, least, nodes ? (double)chain : theory.flops, counted.flops, theory.flops,
           counted.moved, theory.moved, counted.held, theory.held, peak_megabytes());
    return 0;
}

/* ---- running the rows ------------------------------------------------------------ */

typedef struct {
    const char *name;
    void (*setup)(void), (*run)(void);
    double (*check)(void);
    int threads;
    pass pass[2];
} row;
#define ROW(name, setup, run, check, threads, ...)        \
    {                                                     \
        name, setup, run, check, threads, { __VA_ARGS__ } \
    }
#define BOTH(name, op, forward, backward)                                                   \
    ROW("w5 " name " forward", op##_rows, run_rows, check_rows, 1, forward),                \
        ROW("w5 " name " forward + backward", op##_rows_grad, run_rows_grad, check_rows, 1, \
            forward, backward)
#define PICTURES(name, setup)                                         \
    ROW("w8 " name, setup, run_pictures, check_pictures, 1, NOTHING), \
        ROW("w8 " name ", 2 threads", setup, run_pictures, check_pictures, 2, NOTHING)
#define RECURRENT(name, setup)                                          \
    ROW("w9 " name, setup, run_recurrent, check_recurrent, 1, NOTHING), \
        ROW("w9 " name ", 2 threads", setup, run_recurrent, check_recurrent, 2, NOTHING)
#define MICRO_STEP(name, setup)                                          \
    ROW("w10 step of " name, setup, run_micro, check_micro, 1, NOTHING), \
        ROW("w10 step of " name ", replayed", setup##_replayed, run_replay, NULL, 1, NOTHING)
#define NOTHING ((pass){ 0, 0 })
#define READ    ((pass){ 1, 0 })
#define COPY    ((pass){ 1, 1 })
#define ADD     ((pass){ 2, 1 })
#define UPDATE  ((pass){ 4, 3 })
#define COMPILED(name, setup, run, check)                                              \
    ROW("w11 " name, setup##_compiled, run_replay, check, 1, NOTHING),                 \
        ROW("w11 " name ", replayed", setup##_replayed, run_replay, NULL, 1, NOTHING), \
        ROW("w11 " name ", eager", setup, run, NULL, 1, NOTHING),                      \
        ROW("w11 " name ", to compile", setup##_replayed, run_compile, NULL, 1, NOTHING)
static const row rows[] = {
    ROW("floor product", floor_product, run_product, NULL, 1, NOTHING),
    ROW("floor product, 2 threads", floor_product, run_product, NULL, 2, NOTHING),
    ROW("floor copy 256 MB", large, NULL, NULL, 1, COPY),
    ROW("floor copy 256 MB, 2 threads", large, NULL, NULL, 2, COPY),
    ROW("floor copy 16 MB", in_caches, NULL, NULL, 1, COPY),
    ROW("floor read 256 MB", large, NULL, NULL, 1, READ),
    ROW("floor read 256 MB, 2 threads", large, NULL, NULL, 2, READ),
    ROW("w0 add 3x3", without_grad, run_add, NULL, 1, NOTHING),
    ROW("w0 add 3x3, grad", with_grad, run_add, NULL, 1, NOTHING),
    ROW("w0 matmul 6x3 3x3", without_grad, run_matmul, NULL, 1, NOTHING),
    ROW("w0 matmul 6x3 3x3, grad", with_grad, run_matmul, NULL, 1, NOTHING),
    ROW("w0 softmax 6x6", without_grad, run_softmax, NULL, 1, NOTHING),
    ROW("w0 softmax 6x6, grad", with_grad, run_softmax, NULL, 1, NOTHING),
    ROW("w0 transpose 6x3", without_grad, run_transpose, NULL, 1, NOTHING),
    ROW("w0 transpose 6x3, grad", with_grad, run_transpose, NULL, 1, NOTHING),
    ROW("w0 sum(a*b) 4x4, forward + backward", four_by_four, run_backward, NULL, 1, NOTHING),
    ROW("w1 toy layer, sgd", toy_sgd, run_toy, check_toy, 1, NOTHING),
    ROW("w1 toy layer, adam", toy_adam, run_toy, check_toy, 1, NOTHING),
    ROW("w1 toy layer, sgd, replayed", toy_sgd_replayed, run_replay, NULL, 1, NOTHING),
    ROW("w1 toy layer, adam, replayed", toy_adam_replayed, run_replay, NULL, 1, NOTHING),
    ROW("w2 attention 1024 forward", attention_1k, run_attention, check_attention, 1, NOTHING),
    ROW("w2 attention 1024 forward + backward", attention_1k_grad, run_attention_grad,
        check_attention, 1, NOTHING),
    ROW("w2 attention 4096 forward", attention_4k, run_attention, check_attention, 1, NOTHING),
    ROW("w2 attention 4096 forward, 2 threads", attention_4k, run_attention, check_attention, 2,
        NOTHING),
    ROW("w2 attention 4096 forward + backward", attention_4k_grad, run_attention_grad,
        check_attention, 1, NOTHING),
    ROW("w2 attention 4096 forward + backward, 2 threads", attention_4k_grad, run_attention_grad,
        check_attention, 2, NOTHING),
    ROW("w2x attention 16384 forward", attention_16k, run_attention, check_attention, 1, NOTHING),
    ROW("w2x attention 16384 forward + backward", attention_16k_grad, run_attention_grad,
        check_attention, 1, NOTHING),
    ROW("w3 small gpt step", small_gpt, run_gpt_step, check_gpt, 1, UPDATE),
    ROW("w3 small gpt step, 2 threads", small_gpt, run_gpt_step, check_gpt, 2, UPDATE),
    ROW("w3 small gpt step, replayed", small_gpt_replayed, run_replay, NULL, 1, UPDATE),
    ROW("w3 small gpt step, replayed, 2 threads", small_gpt_replayed, run_replay, NULL, 2, UPDATE),
    ROW("w3 small gpt step, bfloat16", small_gpt_medium, run_gpt_step, check_gpt, 1, UPDATE),
    ROW("w3 small gpt step, autocast", small_gpt, run_gpt_autocast, check_gpt_autocast, 1, UPDATE),
    ROW("w4 gpt-2 124M step", gpt2, run_gpt_step, check_gpt, 1, UPDATE),
    ROW("w4 gpt-2 124M step, 2 threads", gpt2, run_gpt_step, check_gpt, 2, UPDATE),
    ROW("w4 gpt-2 124M step, bfloat16", gpt2_medium, run_gpt_step, check_gpt, 1, UPDATE),
    BOTH("add", add_other, ADD, NOTHING),
    BOTH("relu", relu, COPY, ADD),
    BOTH("gelu", gelu, COPY, ADD),
    BOTH("gelu tanh", gelu_tanh, COPY, ADD),
    BOTH("softmax", softmax, COPY, ADD),
    BOTH("layer_norm", layer_norm, COPY, ADD),
    BOTH("cross_entropy", cross_entropy, READ, COPY),
    ROW("w5 sum 4096x4096", square, run_sum_all, check_square, 1, READ),
    ROW("w5 sum 4096x4096 over dim 0", square, run_sum_0, check_square, 1, READ),
    ROW("w5 sum 4096x4096 over dim 1", square, run_sum_1, check_square, 1, READ),
    ROW("w5 sum 4096x4096 transposed, dim 0", square_turned, run_sum_0, check_square, 1, READ),
    ROW("w5 sum 4096x4096 every other, dim 1", square_strided, run_sum_1, check_square, 1, READ),
    ROW("w5 adamw 100M", adamw, run_step, check_adamw, 1, UPDATE),
    ROW("w6 gpt-2 124M, one token", generation, run_generation, check_generation, 1, READ),
    ROW("w6 gpt-2 124M, one token, 2 threads", generation, run_generation, check_generation, 2,
        READ),
    PICTURES("conv 3x3 step", conv_3x3),
    PICTURES("conv 5x5 step", conv_5x5),
    PICTURES("conv 5x5 step, padded", conv_padded),
    PICTURES("patches 16x16 step", patches),
    RECURRENT("lstm step, batch 1", lstm_1),
    RECURRENT("lstm step, batch 16", lstm_16),
    RECURRENT("lstm step, batch 64", lstm_64),
    RECURRENT("gru step, batch 64", gru_64),
    RECURRENT("rnn step, batch 64", rnn_64),
    MICRO_STEP("1x8, 16 wide", micro_1_8_16),
    MICRO_STEP("16x8, 16 wide", micro_16_8_16),
    MICRO_STEP("16x8, 32 wide", micro_16_8_32),
    MICRO_STEP("16x16, 64 wide", micro_16_16_64),
    COMPILED("toy layer, sgd", toy_sgd, run_toy, check_toy),
    COMPILED("toy layer, adam", toy_adam, run_toy, check_toy),
    COMPILED("step of 1x8, 16 wide", micro_1_8_16, run_micro, check_micro),
    COMPILED("step of 16x8, 16 wide", micro_16_8_16, run_micro, check_micro),
    COMPILED("step of 16x8, 32 wide", micro_16_8_32, run_micro, check_micro),
    COMPILED("step of 16x16, 64 wide", micro_16_16_64, run_micro, check_micro),
    COMPILED("small gpt step", small_gpt, run_gpt_step, check_gpt),
};

/* Returns the time of this number of operations at the rate of a product of 1024^3. */
static double time_of_products(double operations) {
    floor_product();
    median(run_product);
    return operations / flops * least;
}

static int measure(size_t which) {
    const row *r = &rows[which];
    RG_SCOPE();
    rg_set_num_threads(r->threads);
    r->setup();
    double check = r->check ? r->check() : 0;
    double ns = r->run ? median(r->run) : 0;
    double operations = flops;
    double floor_ns = 0;
    double bytes = 0;
    if (system_calls && (r->name[1] == '0' || strncmp(r->name, "w1 ", 3) == 0)) {
        fprintf(stderr, "%s: %ld system allocations after warm-up\n", r->name, (long)system_calls);
        return 1;
    }
    long peak = peak_megabytes();
    for (int i = 0; i < 2 && r->pass[i].reads; i++) {
        floor_ns += time_of_pass(r->pass[i], r->threads);
        bytes += 4.0 * (double)elements * (r->pass[i].reads + r->pass[i].writes);
    }
    if (r->name[0] == 'f')
        ns = r->run ? least : floor_ns;
    else if (operations > 0)
        floor_ns += time_of_products(operations);
    printf("%s\t%.1f\t%.9g\t%.0f\t%.0f\t%ld\t%.0f\n", r->name, ns, check, operations, floor_ns,
           peak, bytes);
    return 0;
}

static void complain_and_exit(rg_code code, const char *message) {
    fprintf(stderr, "bench: error %d: %s\n", code, message);
    exit(1);
}

/* Runs a measurement in a process of its own, whose peak of memory is that of the measurement.
 * Returns whether it succeeded. */
static bool succeeds_apart(int (*measurement)(size_t which), size_t which) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(measurement(which));
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
    const char *wanted = argc > 1 ? argv[1] : "";
    size_t length = strlen(wanted);
    rg_on_error(complain_and_exit);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (strncmp(rows[r].name, wanted, length) == 0 && !succeeds_apart(measure, r))
            return 1;
    for (size_t g = 0; g < sizeof growths / sizeof *growths; g++) {
        char name[32];
        snprintf(name, sizeof name, "w7 %s", growths[g].sweep);
        if (strncmp(name, wanted, length) == 0 && !succeeds_apart(measure_growth, g))
            return 1;
    }
    return 0;
}

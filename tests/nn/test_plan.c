/*
 * test_plan.c: the memory that a recording plans. It is hardly more than the largest sum of bytes
 * that are in use at one time, and what shares memory isn't in use at the same time.
 */
#include "autograd/replay/recording.h"
#include "nn/layers/layers.h"
#include "nn/layers/losses.h"
#include "nn/layers/recurrent.h"
#include "nn/layers/transformer.h"
#include "nn/models/gpt.h"
#include "nn/optim/optim.h"
#include "tests/test.h"

#include <string.h>

/* A plan may take a tenth more than the largest sum. */
static bool is_tight(size_t bytes, size_t most) { return 10 * bytes <= 11 * most; }

/* ---- lives that are drawn at random ------------------------------------------------ */

enum { MOST_LIVES = 150, MOST_HOSTS = 8 };
static uint64_t state;

static size_t any(size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % n;
}

static size_t any_bytes(void) { return 64 * (1 + (any(3) ? any(20) : any(300))); }

/* Draws a life that lies within `entries` entries. The lives of one kind are long or short, those
 * of another kind are all short, and those of the third kind are nested like those of a forward
 * and a backward run. */
static rg_plan_life any_life(size_t kind, size_t entries) {
    const size_t first = any(entries), short_one = any(4);
    size_t length = kind == 0 && any(4) == 0 ? any(entries) : short_one;
    if (kind == 2 && 2 * first < entries)
        length = entries - 1 - 2 * first;
    return (rg_plan_life){ first, RG_MIN(first + length, entries - 1), any_bytes(), 0, 0 };
}

static bool overlap(const rg_plan_life *a, const rg_plan_life *b) {
    const bool in_time = a->first <= b->last && b->first <= a->last;
    return a->host == b->host && in_time && a->offset < b->offset + b->bytes
           && b->offset < a->offset + a->bytes;
}

/* Returns the largest sum of bytes of lives without a host, by adding up the lives of each
 * entry. */
static size_t largest_sum(const rg_plan *p, size_t entries) {
    size_t most = 0;
    for (size_t i = 0; i < entries; i++) {
        size_t sum = 0;
        for (size_t k = 0; k < p->n_lives; k++) {
            const rg_plan_life *life = &p->lives[k];
            const bool counts = !life->host && life->first <= i && i <= life->last;
            sum += counts ? life->bytes : 0;
        }
        most = RG_MAX(most, sum);
    }
    return most;
}

/* Returns whether the life lies in the block or in its host, and ends before the host's first
 * entry. */
static bool lies_inside(const rg_plan *p, const rg_plan_life *life, size_t bytes) {
    const size_t end = life->offset + life->bytes;
    if (life->offset % 64)
        return false;
    if (!life->host)
        return end <= bytes;
    const rg_plan_storage *host = &p->in_use[life->host - 1];
    return !host->alone && life->last < host->first && end <= host->storage->bytes;
}

static void check_plan(rg_plan *p, size_t entries, int seed) {
    const size_t bytes = rgi_plan_place(p), most = rgi_plan_most(p->lives, p->n_lives);
    ck_assert_int_eq(most, largest_sum(p, entries));
    ck_assert_int_ge(bytes, most);
    ck_assert_msg(is_tight(bytes, most), "seed %d: %zu bytes for %zu", seed, bytes, most);
    for (size_t i = 0; i < p->n_lives; i++) {
        ck_each(lies_inside(p, &p->lives[i], bytes), "seed %d: life %zu", seed, i);
        for (size_t k = 0; k < i; k++)
            ck_each(!overlap(&p->lives[i], &p->lives[k]), "seed %d: lives %zu and %zu", seed, i, k);
    }
}

START_TEST(test_lives) {
    for (int seed = 1; seed <= 300; seed++) {
        state = (uint64_t)seed;
        const size_t entries = 5 + any(120), n = 1 + any(MOST_LIVES), kind = any(3);
        rg_plan_life lives[MOST_LIVES];
        rg_storage storages[MOST_HOSTS] = { { .bytes = 0 } };
        rg_plan_storage hosts[MOST_HOSTS];
        for (size_t i = 0; i < n; i++)
            lives[i] = any_life(kind, entries);
        const size_t n_hosts = any(MOST_HOSTS + 1);
        for (size_t i = 0; i < n_hosts; i++) {
            storages[i].bytes = any_bytes() - any(64);
            hosts[i] = (rg_plan_storage){ &storages[i], any(entries), 0, false, any(4) == 0 };
        }
        rg_plan p = { .in_use = hosts, .n_in_use = n_hosts, .lives = lives, .n_lives = n };
        check_plan(&p, entries, seed);
    }
}
END_TEST

/* ---- steps of models --------------------------------------------------------------- */

/* A model that is trained. `way` says where its step removes gradients: at its beginning, at its
 * end, or nowhere. */
typedef enum { AT_THE_BEGINNING, AT_THE_END, NOWHERE, WAYS } clearing;
typedef struct {
    rg_module *module;
    rg_optim *optim;
    rg_tensor *x, *target, *loss;
    rg_tensor *(*compute)(rg_module *m, rg_tensor *x, rg_tensor *target);
    clearing way;
} training;

static rg_tensor *mse_loss(rg_module *m, rg_tensor *x, rg_tensor *target) {
    return rg_mse_loss(rg_call(m, x), target);
}
static rg_tensor *class_loss(rg_module *m, rg_tensor *x, rg_tensor *target) {
    return rg_cross_entropy(rg_call(m, x), target);
}
static rg_tensor *gpt_loss(rg_module *m, rg_tensor *x, rg_tensor *target) {
    return rg_gpt_forward((rg_gpt *)m, x, target).loss;
}
static rg_tensor *lstm_loss(rg_module *m, rg_tensor *x, rg_tensor *target) {
    return rg_mse_loss(rg_lstm_forward((rg_rnn_module *)m, x).output, target);
}

static training toy(void) {
    return (training){ .module = &rg_nn_self_attention(3, 2, 4)->base,
                       .x = rg_randn(6, 3),
                       .target = rg_randn(6, 4),
                       .compute = mse_loss };
}

static training gpt(int64_t layers, int64_t width, int64_t batch, int64_t length) {
    rg_gpt *m = rg_nn_gpt(.block_size = length, .vocab_size = 27, .n_layer = layers, .n_head = 4,
                          .n_embd = width);
    return (training){ .module = &m->base,
                       .x = rg_randint(0, 27, batch, length),
                       .target = rg_randint(0, 27, batch, length),
                       .compute = gpt_loss };
}
static training microgpt(void) { return gpt(1, 16, 1, 16); }
static training small_gpt(void) { return gpt(4, 128, 2, 64); }

static training lenet(void) {
    rg_sequential *m = rg_nn_sequential(
        rg_nn_conv2d(1, 6, 5, .padding = 2), rg_nn_relu(), rg_nn_max_pool2d(2),
        rg_nn_conv2d(6, 16, 5), rg_nn_relu(), rg_nn_max_pool2d(2), rg_nn_flatten(1, -1),
        rg_nn_linear(400, 120), rg_nn_relu(), rg_nn_linear(120, 84), rg_nn_relu(),
        rg_nn_linear(84, 10));
    return (training){ .module = (rg_module *)m,
                       .x = rg_randn(4, 1, 28, 28),
                       .target = rg_randint(0, 10, 4),
                       .compute = class_loss };
}

static training lstm(void) {
    return (training){ .module = &rg_nn_lstm(8, 16, .num_layers = 2)->base,
                       .x = rg_randn(12, 4, 8),
                       .target = rg_randn(12, 4, 16),
                       .compute = lstm_loss };
}

static training encoder(void) {
    rg_transformer_encoder_layer *layer =
        rg_nn_transformer_encoder_layer(16, 4, .dim_feedforward = 32, .dropout = 0.1);
    return (training){ .module = &rg_nn_transformer_encoder(layer, 2)->base,
                       .x = rg_randn(10, 4, 16),
                       .target = rg_randn(10, 4, 16),
                       .compute = mse_loss };
}

static void step(void *context) {
    training *t = context;
    if (t->way == AT_THE_BEGINNING)
        rg_optim_zero_grad(t->optim);
    rg_tensor *loss = t->compute(t->module, t->x, t->target);
    rg_backward(loss);
    rg_clip_grad_norm_(rg_parameters(t->module), 1);
    rg_optim_step(t->optim);
    if (t->way == AT_THE_END)
        rg_optim_zero_grad(t->optim);
    rg_drop(t->loss);
    t->loss = rg_keep(loss);
}

static training begin(training (*make)(void), clearing way) {
    rg_manual_seed(3);
    training t = make();
    rg_keep(t.x);
    rg_keep(t.target);
    t.optim = rg_optim_adam(rg_parameters(t.module), .lr = 1e-2);
    t.way = way;
    step(&t);
    return t;
}

static void end(training *t) {
    rg_optim_free(t->optim);
    rg_module_free(t->module);
    rg_drop(t->x);
    rg_drop(t->target);
    rg_drop(t->loss);
}

static const struct {
    const char *name;
    training (*make)(void);
} examples[] = {
    { "toy", toy },     { "microgpt", microgpt }, { "small GPT", small_gpt },
    { "LeNet", lenet }, { "LSTM", lstm },         { "TransformerEncoder", encoder },
};

/* Compares losses of calls of the step with those of runs, which use the planned memory. */
static void same_losses(int example, clearing way) {
    enum { STEPS = 4 };
    float called[STEPS], run[STEPS];
    training t = begin(examples[example].make, way);
    RG_FOR (int i = 0; i < STEPS; i++) {
        step(&t);
        called[i] = (float)rg_item(t.loss);
    }
    end(&t);
    t = begin(examples[example].make, way);
    rg_replay *r = rg_record(step, &t);
    RG_FOR (int i = 0; i < STEPS; i++) {
        ck_ok(i == 0 ? r != NULL : rg_replay_run(r));
        run[i] = (float)rg_item(t.loss);
    }
    rg_replay_free(r);
    end(&t);
    ck_assert_msg(memcmp(called, run, sizeof run) == 0, "%s: losses differ",
                  examples[example].name);
}

static void plan_is_tight(int example, clearing way) {
    training t = begin(examples[example].make, way);
    rg_drop(t.loss);
    t.loss = NULL;
    const rg_memory before = rg_memory_stats();
    rg_replay *r = rg_record(step, &t);
    ck_ok(r);
    const int64_t storages = rg_memory_stats().storages - before.storages;
    const int64_t planned = (int64_t)(r->plan.block_bytes + r->plan.own_bytes);
    const int64_t most = rg_replay_live_bytes(r);
    ck_assert_msg(is_tight((size_t)planned, (size_t)most), "%s, %d: %lld bytes for %lld",
                  examples[example].name, way, (long long)planned, (long long)most);
    /* Besides the plan, there are headers of storages, and constants, which have 4 bytes or more.
     * The allocator rounds large blocks up by a quarter at most. */
    const size_t headers = 64 * (r->plan.n_in_use + 1), constants = 32 * r->constant_bytes;
    ck_assert_int_le(storages, planned + planned / 4 + (int64_t)(headers + constants));
    ck_assert_int_gt(rg_replay_bytes(r), planned);
    ck_assert_int_le(rg_replay_bytes(r), planned + 4096 * (int64_t)r->n_entries);
    rg_replay_free(r);
    end(&t);
}

START_TEST(test_examples) {
    for (int i = 0; i < RG_COUNT(examples); i++)
        for (clearing way = 0; way < WAYS; way++) {
            RG_SCOPE();
            same_losses(i, way);
            plan_is_tight(i, way);
        }
}
END_TEST

START_TEST(test_refusals) {
    ck_fails(rg_replay_bytes(NULL) >= 0, RG_TYPE_ERROR, "expected a recorded step but got NULL");
    ck_fails(rg_replay_live_bytes(NULL) >= 0, RG_TYPE_ERROR,
             "expected a recorded step but got NULL");
}
END_TEST

RG_TESTS(plan, test_lives, test_examples, test_refusals)

/*
 * test_threads.c: several threads differentiate at once, through the same parameters,
 * with results that are handed from one to another, hooks, errors and statistics. The
 * gradients are those that one thread alone gives. Under ThreadSanitizer, each op is applied to
 * inputs that the threads share.
 */
#include "derive.h"
#include "tests/test.h"

#include <pthread.h>

enum { THREADS = 4, STEPS = 200, PARAMETERS = 3, PASSED = 16 };

static rg_tensor *parameter[PARAMETERS], *passed[PASSED];
static pthread_mutex_t passing = PTHREAD_MUTEX_INITIALIZER;

static rg_tensor *same(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 1);
}

/* Puts t into this place of the shared list, and releases the tensor that was there. */
static void pass_on(rg_tensor *t, size_t place) {
    pthread_mutex_lock(&passing);
    rg_tensor *before = passed[place];
    passed[place] = t ? rg_keep(t) : NULL;
    pthread_mutex_unlock(&passing);
    if (before)
        rg_drop(before);
}

static bool one_step(rg_generator *g, int i) {
    rg_tensor *w = parameter[i % PARAMETERS], *x = rg_randn_dims(RG_DIMS(5, 4), RG_FLOAT64, g);
    rg_tensor *h = rg_layer_norm(rg_gelu(rg_matmul(x, w)), RG_DIMS(4), RG_NONE, RG_NONE, 1e-5);
    h = rg_scaled_dot_product_attention(h, h, rg_softmax(h, -1));
    if (i % 5 == 0)
        ck_assert_int_ge(rg_register_hook(h, same, NULL), 0);
    if (i % 5 == 1)
        ck_assert(rg_retain_grad(h));
    rg_tensor *loss = rg_add(rg_sum(rg_slice(h, 0, 0, 3, 1)),
                             rg_mean(rg_square(rg_sort(h, 0, false).values)));
    if (i % 7 == 3)
        loss = rg_sum(rg_square(rg_grad(loss, w, .create_graph = true)));
    bool ok = rg_backward(loss) && rg_grad_of(w);
    if (i % 11 == 0)
        ck_fails(rg_matmul(x, x), RG_RUNTIME_ERROR, "(5x4 and 5x4)");
    if (i % 13 == 0)
        ck_assert(rg_repr(h) && rg_graph_dot(h) && rg_live_tensors() > 0
                  && rg_memory_stats().now > 0);
    if (i % 17 == 0)
        rg_memory_trim();
    /* The tensor and its graph belong to the thread that takes it from here on. */
    pass_on(h, (size_t)i * 7 % PASSED);
    return ok;
}

static void *work(void *seed) {
    rg_generator *g = rg_generator_new((uint64_t)(uintptr_t)seed);
    bool ok = true;
    RG_FOR (int i = 0; i < STEPS; i++)
        ok = one_step(g, i) && ok;
    rg_generator_free(g);
    return ok ? parameter : NULL;
}

static void make_parameters(void) {
    rg_generator *g = rg_generator_new(7);
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] = rg_requires_grad_(rg_randn_dims(RG_DIMS(4, 4), RG_FLOAT64, g), true);
    rg_generator_free(g);
}

START_TEST(test_threads_give_what_one_gives) {
    int64_t live = rg_live_tensors(), nodes = rg_memory_stats().nodes;
    {
        RG_SCOPE();
        rg_tensor *alone[PARAMETERS];
        make_parameters();
        for (uintptr_t t = 0; t < THREADS; t++)
            ck_assert_ptr_nonnull(work((void *)t));
        for (int i = 0; i < PARAMETERS; i++)
            alone[i] = rg_grad_of(parameter[i]);
        make_parameters();
        pthread_t thread[THREADS];
        for (uintptr_t t = 0; t < THREADS; t++)
            pthread_create(&thread[t], NULL, work, (void *)t);
        for (int t = 0; t < THREADS; t++) {
            void *ok;
            pthread_join(thread[t], &ok);
            ck_assert_ptr_nonnull(ok);
        }
        for (int i = 0; i < PARAMETERS; i++)
            ck_assert(rg_allclose(rg_grad_of(parameter[i]), alone[i], 1e-9, 1e-9));
        for (size_t i = 0; i < PASSED; i++)
            pass_on(NULL, i);
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_int_eq(rg_memory_stats().nodes, nodes);
}
END_TEST

/* ---- every op with shared inputs --------------------------------------------------- */

enum { SHARERS = 4, TURNS = 4, MOST_SHARED = 4096 };

/* A sample of an op, with inputs that all threads use. `first` is the first output that one thread
 * gets, and `faults` counts how often a thread's first output differs. */
typedef struct {
    const rg_op *op;
    const rg_sample *sample;
    int n;
    rg_tensor **in, *first;
    atomic_int faults;
} shared_case;
static shared_case shared[MOST_SHARED];
static int n_shared;
static pthread_barrier_t together;

/* Applies the op, and differentiates each output. Returns the first output. */
static rg_tensor *apply_shared(const shared_case *c) {
    rg_tensor *out[RG_MAX_OUTPUTS], *x[RG_MAX_INPUTS], *g[RG_MAX_INPUTS];
    const size_t attr_size = c->sample->attr ? c->op->attr_size : 0;
    const rg_backward_options options = { .retain_graph = true, .allow_unused = true };
    if (!rgi_apply_outputs(c->op, c->sample->attr, attr_size, c->n, c->in, out))
        return NULL;
    int m = 0;
    for (int i = 0; i < c->n; i++)
        if (c->in[i] != RG_NONE && rg_requires_grad(c->in[i]))
            x[m++] = c->in[i];
    for (int k = 0; k < (c->op->n_out ? c->op->n_out : 1) && !c->op->no_grad; k++)
        if (rg_requires_grad(out[k]))
            ck_ok(rg_grad_many(1, (rg_tensor *[]){ rg_sum(out[k]) }, NULL, m, x, g, options));
    return out[0];
}

static void keep_inputs(const shared_case *c) {
    for (int i = 0; i < c->n; i++)
        if (c->in[i] != RG_NONE)
            rg_keep(c->in[i]);
}

static void drop_inputs(const shared_case *c) {
    for (int i = 0; i < c->n; i++)
        if (c->in[i] != RG_NONE)
            rg_drop(c->in[i]);
}

/* While one thread reads an input, the other ones count references to it. */
static void *apply_each(void *context) {
    for (int i = 0; i < n_shared; i++) {
        shared_case *c = &shared[i];
        pthread_barrier_wait(&together);
        for (int turn = 0; turn < TURNS; turn++) {
            RG_SCOPE();
            keep_inputs(c);
            rg_tensor *y = apply_shared(c);
            c->faults += !y || (c->first && !rg_equal(y, c->first));
            drop_inputs(c);
        }
    }
    return context;
}

static void make_shared_case(const rg_op *op, const rg_sample *sample) {
    rg_tensor *in[RG_MAX_INPUTS];
    shared_case *c = &shared[n_shared++];
    *c = (shared_case){ .op = op, .sample = sample };
    ck_assert_int_le(n_shared, MOST_SHARED);
    c->n = derive_inputs(sample->inputs, RG_FLOAT32, in);
    ck_assert_int_ge(c->n, 0);
    c->in = rg_scope_copy(in, (size_t)c->n * sizeof *in);
    rg_tensor *y = apply_shared(c);
    ck_ok(y);
    c->first = rg_equal(y, y) ? y : NULL;
}

START_TEST(test_threads_share_the_inputs_of_each_op) {
    for (int i = 0; i < rgi_n_ops; i++)
        for (const rg_sample *s = rgi_ops[i]->samples; s && s->inputs; s++)
            make_shared_case(rgi_ops[i], s);
    pthread_t thread[SHARERS];
    pthread_barrier_init(&together, NULL, SHARERS);
    for (int i = 0; i < SHARERS; i++)
        pthread_create(&thread[i], NULL, apply_each, NULL);
    for (int i = 0; i < SHARERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < n_shared; i++)
        ck_assert_msg(!shared[i].faults, "%s %s", shared[i].op->name, shared[i].sample->inputs);
}
END_TEST

static void doubled(void *context) { rg_mul_((rg_tensor *)context, 2); }

/* A thread's first call of the library may be rg_record. */
static void *record_first(void *context) {
    rg_replay *r = rg_record(doubled, context);
    if (!r || !rg_replay_run(r))
        return NULL;
    rg_replay_free(r);
    return context;
}

START_TEST(test_a_thread_begins_by_recording) {
    rg_tensor *x = rg_ones(3);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *done;
        ck_assert_int_eq(pthread_create(&thread, NULL, record_first, x), 0);
        pthread_join(thread, &done);
        ck_assert_ptr_nonnull(done);
    }
    ck_assert_double_eq(rg_at(x, 0), 16);
}
END_TEST

RG_TESTS_UNGUARDED(threads, test_threads_give_what_one_gives,
                   test_threads_share_the_inputs_of_each_op, test_a_thread_begins_by_recording)

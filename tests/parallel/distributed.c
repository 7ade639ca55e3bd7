/*
 * distributed.c: special cases of the gradients and buffers of rg_nn_distributed, and the calls
 * that it refuses. tests/parallel/run runs it on 1 to 4 ranks.
 */
#include "holds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 4, ROWS = 8 };
static int rank, size;

static rg_sequential *make_model(void) {
    return rg_nn_sequential(rg_nn_linear(3, 5), rg_nn_tanh(), rg_nn_linear(5, 2),
                            rg_nn_linear(2, 1));
}

/* Returns a model. If `frozen`, its first weight doesn't require grad. */
static rg_sequential *make_frozen(bool frozen) {
    rg_sequential *model = make_model();
    rg_requires_grad_(rg_get_parameter(model, "0.weight"), !frozen);
    return model;
}

/* Returns the same rows on all ranks. */
static rg_tensor *make_batch(void) {
    rg_generator *g = rg_generator_new(5);
    rg_tensor *x = rg_randn_dims(RG_DIMS(ROWS, 3), RG_FLOAT32, g);
    rg_generator_free(g);
    return x;
}

static rg_tensor *loss_of(void *module, rg_tensor *x) {
    return rg_mean(rg_square(rg_call(module, x)));
}

static void backward_of_batch(rg_distributed *d, rg_tensor *x) {
    RG_FOR (int i = 0; i < d->local; i++)
        HOLDS(rg_backward(loss_of(d, rg_distributed_part(d, x))));
}

/* ---- gradients ------------------------------------------------------------------------- */

/* The gradients are those of the whole batch, and are added to earlier gradients. */
static void test_gradients_of_a_batch(void) {
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS, .bucket_cap_mb = 1e-4);
    HOLDS(d && d->shards == SHARDS && (SHARDS % size || d->local == SHARDS / size));
    rg_tensor *x = make_batch(), *w = rg_parameters(model).v[0];
    for (int round = 1; round < 4; round++) {
        backward_of_batch(d, x);
        rg_tensor *g = rg_grad(loss_of(model, x), w);
        HOLDS(rg_allclose(rg_grad_of(w), rg_mul(g, round), 1e-4, 1e-6));
    }
    /* A call of the model itself isn't distributed. */
    const int64_t sent = d->bytes_sent;
    rg_zero_grad(model);
    HOLDS(rg_backward(loss_of(model, rg_mul(x, rank))) && d->bytes_sent == sent);
    HOLDS((rank == 0) == (rg_item(rg_sum(rg_abs(rg_grad_of(w)))) == 0));
    rg_module_free(d);
}

/* If only some shards reach a parameter, the others count as zeros. If no shard reaches it, it has
 * no gradient. */
static void test_what_is_not_reached(void) {
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_list all = rg_parameters(model);
    rg_requires_grad_(all.v[1], false);
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *x = make_batch(), *w = all.v[0], *last = all.v[5];
    for (int round = 0; round < 3; round++) {
        RG_FOR (int i = 0; i < d->local; i++) {
            const int shard = d->first + i;
            rg_tensor *y = rg_call(d, rg_distributed_part(d, x));
            rg_tensor *loss = shard == 2 ? rg_sum(y) : rg_sum(rg_mul(last, shard));
            HOLDS(rg_backward(loss));
        }
        /* Shard 2 gives the last bias 2 rows of ones. The other shards give it the numbers 0, 1 and
         * 3. */
        HOLDS(rg_at(rg_grad_of(last), 0) == (round + 1) * (2 + 0 + 1 + 3) / 4.);
        HOLDS(rg_grad_of(w) != RG_NONE && rg_grad_of(all.v[1]) == RG_NONE);
        HOLDS(rg_distributed_check(d));
        rg_set_grad(w, RG_NONE);
    }
    rg_zero_grad(model);
    RG_FOR (int i = 0; i < d->local; i++) {
        HOLDS(rg_call(d, rg_distributed_part(d, x)));
        HOLDS(rg_backward(rg_sum(last)));
    }
    HOLDS(rg_grad_of(w) == RG_NONE && rg_at(rg_grad_of(last), 0) == 1);
    rg_module_free(d);
}

/* Tests a large parameter, and parameters without elements. If a shard has no gradient of a
 * parameter, zeros are summed in its place. */
static void test_large_and_empty(void) {
    RG_SCOPE();
    rg_linear_module *wide = rg_nn_linear(3, 700);
    rg_sequential *model = rg_nn_sequential(wide, rg_nn_linear(700, 0), rg_nn_linear(0, 3));
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS, .bucket_cap_mb = 1e-3);
    rg_tensor *x = make_batch();
    RG_FOR (int i = 0; i < d->local; i++) {
        HOLDS(rg_call(d, rg_distributed_part(d, x)));
        rg_tensor *sum = rg_sum(rg_mul(wide->weight, rg_arange(3)));
        HOLDS(rg_backward(d->first + i == 0 ? sum : rg_sum(wide->bias)));
    }
    rg_tensor *want = rg_mul(rg_expand(rg_arange_as(3, RG_FLOAT32), 700, 3), 1. / SHARDS);
    HOLDS(rg_equal(rg_grad_of(wide->weight), want));
    HOLDS(rg_equal(rg_grad_of(wide->bias), rg_full(RG_DIMS(700), (SHARDS - 1.) / SHARDS)));
    HOLDS(rg_distributed_check(d));
    rg_module_free(d);
}

/* Returns how many sums of gradients a batch sends, if a bucket has room for `bytes` bytes. */
static int64_t sums_of_a_batch(double bytes) {
    RG_SCOPE();
    rg_sequential *model =
        rg_nn_sequential(rg_nn_linear(4, 4, .bias = false), rg_nn_linear(4, 4, .bias = false),
                         rg_nn_linear(4, 4, .bias = false), rg_nn_linear(4, 4, .bias = false));
    const double mb = bytes / 1048576;
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS, .bucket_cap_mb = mb);
    rg_tensor *x = rg_ones(ROWS, 4);
    backward_of_batch(d, x);
    const int64_t before = rg_profile_cost("all_reduce").calls;
    backward_of_batch(d, x);
    const int64_t sums = rg_profile_cost("all_reduce").calls - before;
    rg_module_free(d);
    return sums;
}

/* Four gradients of 64 bytes are sent together if all of them fit into a bucket, in pairs if two
 * fit, and otherwise one by one. */
static void test_sizes_of_buckets(void) {
    rg_set_profiling(true);
    HOLDS(sums_of_a_batch(1) == 4 && sums_of_a_batch(64) == 4 && sums_of_a_batch(127) == 4);
    HOLDS(sums_of_a_batch(128) == 2 && sums_of_a_batch(191) == 2 && sums_of_a_batch(192) == 2);
    HOLDS(sums_of_a_batch(255) == 2 && sums_of_a_batch(256) == 1);
    rg_set_profiling(false);
}

/* By default there is one shard for each rank. With a single rank, nothing is sent. */
static void test_a_shard_for_each_rank(void) {
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_distributed *d = rg_nn_distributed(model);
    HOLDS(d && d->shards == size && d->first == rank && d->local == 1);
    rg_tensor *x = rg_repeat(make_batch(), 3, 1);
    rg_tensor *w = rg_parameters(model).v[0];
    rg_tensor *part = rg_distributed_part(d, x);
    HOLDS(rg_size(part, 0) == 3 * ROWS / size);
    HOLDS(rg_equal(part, rg_narrow(x, 0, rank * (3 * ROWS / size), 3 * ROWS / size)));
    HOLDS(rg_backward(loss_of(d, part)));
    HOLDS(rg_allclose(rg_grad_of(w), rg_grad(loss_of(model, x), w), 1e-4, 1e-6));
    HOLDS((d->bytes_sent > 0) == (size > 1));
    rg_module_free(d);
}

/* With gradients disabled, a call of the distributed module only calls its model, and draws no
 * seed. It doesn't count as a shard, even between the forward and the backward run of a shard. */
static void test_without_gradients(void) {
    RG_SCOPE();
    rg_sequential *model = rg_nn_sequential(rg_nn_linear(3, 4), rg_nn_dropout(0.5),
                                            rg_nn_linear(4, 1));
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *x = make_batch(), *y, *same;
    rg_manual_seed(5);
    {
        RG_NO_GRAD();
        y = rg_call(d, x);
        rg_manual_seed(5);
        same = rg_call(model, x);
    }
    HOLDS(rg_equal(y, same));
    rg_manual_seed(5);
    rg_tensor *state = rg_generator_state(rg_default_generator());
    {
        RG_NO_GRAD();
        rg_eval(d);
        HOLDS(rg_equal(rg_call(d, x), rg_call(model, x)));
        rg_train(d, true);
    }
    HOLDS(rg_equal(rg_generator_state(rg_default_generator()), state));
    rg_module_free(d);
}

/* The random streams of the shards depend only on the seed: whatever the number of ranks, dropout
 * keeps each column in as many shards as the digits say. */
static void test_streams(void) {
    RG_SCOPE();
    rg_sequential *model = rg_nn_sequential(rg_nn_dropout(0.5), rg_nn_linear(24, 1));
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *x = rg_ones(SHARDS, 24);
    rg_manual_seed(5);
    RG_FOR (int i = 0; i < d->local; i++)
        HOLDS(rg_backward(rg_sum(rg_call(d, rg_distributed_part(d, x)))));
    /* What is kept is doubled, and a gradient is the mean of the shards' ones. */
    rg_tensor *g = rg_grad_of(rg_parameters(model).v[0]);
    char kept[25] = "";
    for (int i = 0; i < 24; i++)
        kept[i] = (char)('0' + (int)(rg_at(g, 0, i) * SHARDS / 2));
    HOLDS(strcmp(kept, "124112211111123231221212") == 0);
    rg_module_free(d);
}

/* A parameter of float64 among others of float32. */
typedef struct {
    rg_module base;
    rg_module *inner;
    rg_tensor *scale;
} mixed;

static rg_tensor *mixed_forward(rg_module *m, rg_tensor *x) {
    mixed *self = (mixed *)m;
    return rg_mul(rg_to(rg_call(self->inner, x), RG_FLOAT64), self->scale);
}

static const rg_module_class mixed_class = { .name = "Mixed", .forward = mixed_forward };

static void test_types(void) {
    RG_SCOPE();
    mixed *model = RG_MODULE(mixed, &mixed_class);
    RG_CHILD(model, inner, make_model());
    RG_PARAMETER(model, scale, rg_full_dims(RG_DIMS(1), 2, RG_FLOAT64));
    rg_distributed *d = rg_nn_distributed(RG_READY(model), .shards = SHARDS);
    rg_tensor *x = make_batch();
    for (int round = 0; round < 3; round++) {
        rg_zero_grad(model);
        backward_of_batch(d, x);
        rg_tensor *g = rg_grad(loss_of(model, x), model->scale);
        HOLDS(rg_dtype_of(rg_grad_of(model->scale)) == RG_FLOAT64);
        HOLDS(rg_allclose(rg_grad_of(model->scale), g, 1e-6, 1e-9));
    }
    rg_module_free(d);
}

/* Returns the running means after a forward of this shard alone. */
static rg_tensor *means_of_shard(rg_batch_norm_module *norm, rg_tensor *x, int shard) {
    RG_SCOPE();
    rg_batch_norm_module *own = rg_deepcopy(norm);
    HOLDS(rg_call(own, rg_narrow(x, 0, shard * (ROWS / SHARDS), ROWS / SHARDS)));
    rg_tensor *means = rg_clone(rg_get_buffer(own, "running_mean"));
    rg_module_free(own);
    return rg_escape(means);
}

/* Each shard computes its running means from the running means before the batch. After the batch,
 * the running means are the mean of the shards' ones, to the last bit. The count of batches grows
 * by one. */
static void test_buffers(void) {
    RG_SCOPE();
    rg_batch_norm_module *norm = rg_nn_batch_norm1d(3);
    rg_sequential *model = rg_nn_sequential(norm, rg_nn_dropout(0.5), rg_nn_linear(3, 1));
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS, .bucket_cap_mb = 1e-5);
    rg_tensor *x = make_batch(), *means[SHARDS];
    for (int round = 1; round < 4; round++) {
        {
            RG_NO_GRAD();
            HOLDS(rg_call(d, rg_mul(x, rank + 1)) && rg_distributed_check(d));
        }
        for (int i = 0; i < SHARDS; i++)
            means[i] = means_of_shard(norm, x, i);
        rg_tensor *left = rg_add(means[0], means[1]), *right = rg_add(means[2], means[3]);
        rg_tensor *want = rg_div(rg_add(left, right), SHARDS);
        backward_of_batch(d, x);
        rg_tensor *got = rg_get_buffer(norm, "running_mean");
        HOLDS(size == 3 ? rg_allclose(got, want, 1e-5, 1e-7) : rg_equal(got, want));
        HOLDS(rg_item(rg_get_buffer(norm, "num_batches_tracked")) == round);
        HOLDS(rg_distributed_check(d));
    }
    rg_module_free(d);
}

/* A buffer that no forward changes isn't averaged: what a rank writes to it stays on that rank. */
static void test_buffers_that_stay(void) {
    RG_SCOPE();
    rg_batch_norm_module *still = rg_nn_batch_norm1d(3);
    rg_sequential *model = rg_nn_sequential(still, rg_nn_batch_norm1d(3), rg_nn_linear(3, 1));
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *x = make_batch(), *mean = rg_get_buffer(still, "running_mean");
    rg_eval(still);
    backward_of_batch(d, x);
    rg_fill_(mean, rank);
    backward_of_batch(d, x);
    HOLDS(rg_equal(mean, rg_full(RG_DIMS(3), rank)));
    HOLDS(rg_item(rg_get_buffer(still, "num_batches_tracked")) == 0);
    rg_module_free(d);
}

/* A hook. Stores how many bytes the distributed module has sent when the hook is called. A batch's
 * gradients are sent while its last backward run goes on. */
static rg_tensor *note_bytes(rg_tensor *gradient, void *context) {
    const rg_distributed *d = ((void **)context)[0];
    *(int64_t *)((void **)context)[1] = d->bytes_sent;
    (void)gradient;
    return RG_NONE;
}

static void test_they_leave_under_backward(void) {
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS, .bucket_cap_mb = 1e-5);
    rg_tensor *x = make_batch(), *w = rg_parameters(model).v[0];
    int64_t before_last = 0;
    void *context[] = { d, &before_last };
    HOLDS(rg_register_hook(w, note_bytes, context) >= 0);
    backward_of_batch(d, x);
    const int64_t first = before_last;
    backward_of_batch(d, x);
    HOLDS(size == 1 || (first > 0 && before_last > 2 * first && d->bytes_sent > before_last));
    rg_tensor *sent = rg_scalar_dtype((double)d->bytes_sent, RG_INT64);
    const int64_t n = rg_num_parameters(model) + 6;
    HOLDS(rg_all_reduce_(sent));
    HOLDS((size & (size - 1)) || rg_item_int(sent) == 2 * 2 * (size - 1) * n * 4);
    rg_module_free(d);
}

/* After a sharded step, every rank has the gradients of all parameters. */
static void test_gradients_after_a_sharded_step(void) {
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    const rg_list all = rg_parameters(model);
    rg_optim *o = rg_optim_adam(all);
    backward_of_batch(d, make_batch());
    HOLDS(rg_sharded_optim_step(o));
    for (int i = 0; i < all.n; i++)
        HOLDS(rg_grad_of(all.v[i]) != RG_NONE);
    rg_optim_free(o);
    rg_module_free(d);
}

/* An empty parameter at the end of the list belongs to the last rank. */
static void test_an_empty_parameter(void) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(4), true);
    rg_tensor *none = rg_requires_grad_(rg_zeros(0), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w, none), .lr = 0.25);
    HOLDS(rg_backward(rg_add(rg_sum(rg_square(w)), rg_sum(none))));
    HOLDS(rg_sharded_optim_step(o));
    HOLDS(rg_item(rg_sum(w)) == 2);
    rg_optim_free(o);
}

static int warnings;
static void count_warning(const char *message) { warnings += strncmp(message, "step:", 5) == 0; }

/* A rank doesn't warn of absent gradients if another rank owns the only parameter that has one. If
 * no parameter has a gradient, each rank warns. */
static void test_warnings_of_absent_gradients(void) {
    RG_SCOPE();
    rg_tensor *v = rg_requires_grad_(rg_ones(4), true), *w = rg_requires_grad_(rg_ones(4), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(v, w), .lr = 0.25);
    warnings = 0;
    rg_on_warning(count_warning);
    HOLDS(rg_backward(rg_sum(w)));
    HOLDS(rg_sharded_optim_step(o));
    HOLDS(warnings == 0 && rg_item(rg_sum(w)) == 3);
    rg_optim *unused = rg_optim_sgd(RG_LIST(rg_requires_grad_(rg_ones(4), true)));
    HOLDS(rg_sharded_optim_step(unused));
    HOLDS(warnings == 1);
    rg_on_warning(rg_print_warning);
    rg_optim_free(unused);
    rg_optim_free(o);
}

/* A checkpoint isn't written unless rank 0 has the state of all parameters, as their owners have
 * it. */
static void test_a_checkpoint_of_a_sharded_state(void) {
    static const char *const path = "/nowhere/at/all";
    static const char *const want = "rank 0 doesn't have the state";
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_optim *o = rg_optim_adam(rg_parameters(model));
    const rg_training run = { .model = model, .optim = o };
    FAILS(rg_distributed_save_checkpoint(path, run), "No such file or directory");
    for (int round = 0; round < 3; round++) {
        RG_SCOPE();
        backward_of_batch(d, make_batch());
        HOLDS(rg_sharded_optim_step(o));
        FAILS(rg_distributed_save_checkpoint(path, run), size > 1 ? want : "No such file");
        HOLDS(rg_sharded_optim_gather(o));
        FAILS(rg_distributed_save_checkpoint(path, run), "No such file or directory");
        HOLDS(round > 0 || rg_sharded_optim_release(o));
    }
    rg_optim_free(o);
    rg_module_free(d);
}

/* A rank that has the state of its own parameters only neither makes a step of all parameters nor
 * saves a checkpoint, even if it owns no parameter that got a gradient, or has loaded a list of its
 * states. It does both again once it has loaded a checkpoint. */
static void test_a_whole_step_after_a_sharded_step(void) {
    static const char *const owned = "this rank has the optimizer's state only of parameters";
    static const char *const nowhere = "/nowhere/at/all", *const no_file = "No such file";
    RG_SCOPE();
    char path[64];
    snprintf(path, sizeof path, "/tmp/regard-whole-%d.safetensors", (int)getpid());
    rg_tensor *v = rg_requires_grad_(rg_ones(4), true), *w = rg_requires_grad_(rg_ones(4), true);
    rg_optim *o = rg_optim_adam(RG_LIST(v, w));
    const rg_training run = { .optim = o };
    HOLDS(rg_backward(rg_sum(rg_square(w))) && rg_optim_step(o) && rg_save_checkpoint(path, run));
    HOLDS(rg_sharded_optim_gather(o) && rg_optim_step(o) && rg_load_checkpoint(path, run));
    for (int round = 0; round < 4; round++) {
        HOLDS(round % 2 ? rg_sharded_optim_release(o) : rg_sharded_optim_step(o));
        FAILS(rg_save_checkpoint(nowhere, run), size > 1 ? owned : no_file);
        FAILS(rg_torch_save_checkpoint(nowhere, run), size > 1 ? owned : no_file);
        HOLDS(round < 2 || rg_optim_load_state_dict(o, rg_optim_state_dict(o)));
        if (size > 1)
            FAILS(rg_optim_step(o), owned);
        HOLDS(rg_sharded_optim_gather(o));
        if (size > 1)
            FAILS(rg_optim_step(o), owned);
        HOLDS(rg_load_checkpoint(path, run) && rg_optim_step(o));
        FAILS(rg_save_checkpoint(nowhere, run), no_file);
    }
    HOLDS(remove(path) == 0);
    rg_optim_free(o);
}

/* Groups that are added between sharded steps move no parameter to another owner: the parameters
 * stay as those of an optimizer that makes whole steps. */
static void test_groups_that_are_added(void) {
    RG_SCOPE();
    static const int64_t sizes[] = { 4, 4, 12, 1, 6, 2 };
    enum { N = sizeof sizes / sizeof *sizes };
    rg_tensor *p[2][N];
    rg_optim *o[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++)
            p[k][i] = rg_requires_grad_(rg_full(RG_DIMS(sizes[i]), 6.), true);
        o[k] = rg_optim_adam(RG_LIST(p[k][0], p[k][1]), .lr = 0.5);
    }
    for (int n = 2; n <= N; n++) {
        for (int step = 0; step < 3; step++)
            for (int k = 0; k < 2; k++) {
                rg_optim_zero_grad(o[k]);
                for (int i = 0; i < n; i++)
                    HOLDS(rg_backward(rg_sum(rg_pow(p[k][i], i + 2))));
                HOLDS(k ? rg_sharded_optim_step(o[k]) : rg_optim_step(o[k]));
            }
        HOLDS(n % 2 == 0 || rg_sharded_optim_gather(o[1]));
        for (int i = 0; i < n; i++)
            HOLDS(rg_equal(p[0][i], p[1][i]));
        for (int k = 0; k < 2 && n < N; k++)
            HOLDS(rg_optim_add_group(o[k], RG_LIST(p[k][n]), .lr = 0.25));
    }
    rg_optim_free(o[0]);
    rg_optim_free(o[1]);
}

/* The parameters of a new group are divided among the ranks by themselves, however large those are
 * that have an owner already. */
static void test_a_new_group_is_divided(void) {
    RG_SCOPE();
    enum { MOST = 8 };
    rg_tensor *p[1 + MOST] = { rg_requires_grad_(rg_ones(16), true) };
    rg_optim *o = rg_optim_adam(RG_LIST(p[0]));
    const int ranks = size < MOST ? size : MOST;
    for (int i = 1; i <= ranks; i++)
        p[i] = rg_requires_grad_(rg_ones(2), true);
    HOLDS(rg_backward(rg_sum(p[0])) && rg_sharded_optim_step(o));
    HOLDS(rg_optim_add_group(o, rg_list_of(ranks, p + 1)));
    for (int i = 1; i <= ranks; i++)
        HOLDS(rg_backward(rg_sum(p[i])));
    HOLDS(rg_sharded_optim_step(o));
    const rg_named_list state = rg_optim_state_dict(o);
    for (int i = 1; i <= ranks && size <= MOST; i++) {
        char name[32];
        bool has = false;
        snprintf(name, sizeof name, "state.%d.exp_avg", i);
        for (int k = 0; k < state.n; k++)
            has |= strcmp(state.v[k].name, name) == 0;
        HOLDS(has == (i - 1 == rank));
    }
    rg_optim_free(o);
}

static void whole_step(void *context) { HOLDS(rg_optim_step(context)); }

/* The state of an optimizer isn't divided while a recording has a step of it. */
static void test_sharding_a_recorded_step(void) {
    static const char *const recorded = "a recording has a step of this optimizer";
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(4), true);
    rg_optim *o = rg_optim_adam(RG_LIST(w));
    HOLDS(rg_backward(rg_sum(rg_square(w))));
    rg_replay *recording = rg_record(whole_step, o);
    HOLDS(recording && rg_replay_run(recording));
    if (size > 1) {
        FAILS(rg_sharded_optim_step(o), recorded);
        FAILS(rg_sharded_optim_release(o), recorded);
        FAILS(rg_sharded_optim_gather(o), recorded);
    }
    HOLDS(rg_replay_run(recording));
    rg_replay_free(recording);
    HOLDS(rg_sharded_optim_step(o) && rg_sharded_optim_gather(o) && rg_sharded_optim_release(o));
    rg_optim_free(o);
}

/* A hook. Makes rank 1 slower than the others. */
static rg_tensor *wait_a_little(rg_tensor *gradient, void *context) {
    (void)gradient;
    (void)context;
    if (rank == 1)
        usleep(1000);
    return RG_NONE;
}

/* Two distributed modules in one graph send their sums at the same time. Each gets its own
 * gradients, although the messages of both have the same size. */
static void test_two_modules_in_one_graph(void) {
    RG_SCOPE();
    rg_linear_module *a = rg_nn_linear(1, 1, .bias = false), *b = rg_nn_linear(1, 1, .bias = false);
    rg_nn_init_constant_(a->weight, 1);
    rg_nn_init_constant_(b->weight, 100);
    rg_distributed *first = rg_nn_distributed(a, .shards = SHARDS);
    rg_distributed *second = rg_nn_distributed(b, .shards = SHARDS);
    rg_tensor *x = rg_view(rg_arange_as(SHARDS, RG_FLOAT32), SHARDS, 1);
    for (int round = 0; round < 20; round++) {
        RG_SCOPE();
        rg_zero_grad(a);
        rg_zero_grad(b);
        RG_FOR (int i = 0; i < first->local; i++) {
            rg_tensor *hidden = rg_call(first, rg_distributed_part(first, x));
            HOLDS(rg_register_hook(hidden, wait_a_little, NULL) >= 0);
            HOLDS(rg_backward(rg_sum(rg_call(second, hidden))));
        }
        HOLDS(rg_item(rg_grad_of(a->weight)) == 150 && rg_item(rg_grad_of(b->weight)) == 1.5);
    }
    rg_module_free(first);
    rg_module_free(second);
}

/* ---- what is refused ------------------------------------------------------------------- */

static void test_refusals(void) {
    RG_SCOPE();
    const bool odd = rank == size - 1;
    FAILS(rg_nn_distributed(NULL), "");
    FAILS(rg_nn_distributed(make_model(), .shards = -1), "ranks can't have -1 shards");
    FAILS(rg_nn_distributed(make_model(), .bucket_cap_mb = 0), "bucket_cap_mb is 0");
    FAILS(rg_nn_distributed(make_model(), .bucket_cap_mb = -(double)NAN), "bucket_cap_mb is nan");
    if (size > 1) {
        FAILS(rg_nn_distributed(make_model(), .shards = size - 1), "shards");
        FAILS(rg_nn_distributed(make_model(), .shards = odd ? 8 : 4), "the number of shards is 4");
        FAILS(rg_nn_distributed(odd ? (void *)rg_nn_linear(3, 4) : make_model(), .shards = 4),
              "the hash of the parameters' names, shapes and requires_grad is");
        FAILS(rg_nn_distributed(rg_nn_conv1d(2, 3, odd ? 3 : 5), .shards = 4),
              "the hash of the parameters' names, shapes and requires_grad is");
        FAILS(rg_nn_distributed(make_frozen(odd), .shards = 4),
              "the hash of the parameters' names, shapes and requires_grad is");
        FAILS(rg_nn_distributed(make_model(), .shards = 4, .bucket_cap_mb = odd ? 1e-4 : 1e-5),
              "bucket_cap_mb in bytes is 10 on rank 0, but 104 on rank");
    }
    rg_sequential *model = make_model();
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *x = make_batch(), *w = rg_parameters(model).v[0];
    FAILS(rg_distributed_part(d, rg_ones(6, 3)), "a batch of 6 rows can't be cut into 4");
    FAILS(rg_distributed_part(d, rg_scalar(1.)), "a batch of 1 rows can't be cut into 4");
    FAILS(rg_distributed_part(d, NULL), "distributed_part: expected a tensor but got NULL");
    FAILS(rg_distributed_part(d, RG_NONE), "distributed_part: expected a tensor but got RG_NONE");
    rg_tensor *loss = loss_of(d, rg_distributed_part(d, x));
    HOLDS(rg_grad(loss, w, .retain_graph = true));
    FAILS(rg_backward(loss), "a parameter's gradient arrives twice");
    FAILS(rg_call(d, x), "a run has failed");
    if (size > 1 && odd)
        rg_fill_(rg_detach(w), 3);
    if (size > 1)
        FAILS(rg_distributed_check(d), "the hash of the parameters and buffers is");
    rg_module_free(d);
    /* All bits count, such as the sign of one element of float64. */
    model = make_model();
    rg_module_to(model, RG_FLOAT64);
    d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *last = rg_detach(rg_parameters(model).v[5]);
    if (size > 1 && odd)
        rg_neg_(last);
    if (size > 1)
        FAILS(rg_distributed_check(d), "the hash of the parameters and buffers is");
    rg_module_free(d);
    FAILS(rg_sharded_optim_step(NULL), "expected an optimizer but got NULL");
    FAILS(rg_sharded_optim_gather(NULL), "expected an optimizer but got NULL");
    FAILS(rg_sharded_optim_release(NULL), "expected an optimizer but got NULL");
    FAILS(rg_distributed_load_checkpoint("/nowhere/at/all", (rg_training){ 0 }), "/nowhere/at/all");
    if (rank == 0)
        FAILS(rg_distributed_save_checkpoint("/nowhere/at/all", (rg_training){ 0 }), "/nowhere");
    else
        FAILS(rg_distributed_save_checkpoint("/nowhere/at/all", (rg_training){ 0 }),
              "rank 0 failed: save_checkpoint: [Errno 2] No such file or directory: '/nowhere");
    /* A call for the whole batch returns what the model returns. */
    d = rg_nn_distributed(make_model(), .shards = SHARDS);
    HOLDS(rg_equal(rg_call(d->module, x), rg_call(d, x)));
    HOLDS(strcmp(rg_module_repr(d), "") != 0);
    rg_module_free(d);
}

/* Ranks that have loaded different files notice it, also if only a number of the run differs. */
static void test_checkpoints_that_differ(void) {
    RG_SCOPE();
    char path[64];
    const bool odd = rank == size - 1;
    double number = 7;
    const rg_training run = { .numbers = RG_NUMBERS({ "epoch", &number }) };
    snprintf(path, sizeof path, "/tmp/regard-%d.safetensors", (int)getpid());
    rg_manual_seed(5);
    HOLDS(rg_save_checkpoint(path, run) && rg_distributed_load_checkpoint(path, run));
    number = odd ? 8 : 7;
    HOLDS(rg_save_checkpoint(path, run));
    if (size > 1)
        FAILS(rg_distributed_load_checkpoint(path, run), "the hash of the file's random state");
    rg_manual_seed(odd ? 6 : 5);
    number = 7;
    HOLDS(rg_save_checkpoint(path, run));
    if (size > 1)
        FAILS(rg_distributed_load_checkpoint(path, run), "the hash of the file's random state");
    HOLDS(remove(path) == 0);
}

/* A module that is freed gives its communicator back to MPI, which has 65,536 of them. (Under
 * valgrind, so many modules would take minutes.) */
static void test_many_modules(void) {
    const int most = getenv("LEAKS") ? 10 : 66000;
    for (int i = 0; size == 2 && i < most; i++) {
        RG_SCOPE();
        rg_distributed *d = rg_nn_distributed(rg_nn_linear(2, 2), .shards = 2);
        HOLDS(rg_backward(rg_sum(rg_call(d, rg_distributed_part(d, rg_ones(2, 2))))));
        rg_module_free(d);
    }
}

/* A shard has one backward run. Another run that adds to the gradients of the batch is refused: in
 * the middle of the batch, and after it until a step has changed the parameters or the program has
 * removed the gradients. */
static void test_a_second_run(void) {
    static const char *const want = "a shard has one backward run, and this is another one";
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_optim *o = rg_optim_sgd(rg_parameters(model), .lr = 0.5);
    rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
    rg_tensor *x = make_batch(), *w = rg_parameters(model).v[0];
    RG_FOR (int i = 0; i < d->local; i++) {
        rg_tensor *y = rg_call(d, rg_distributed_part(d, x));
        HOLDS(rg_backward(rg_sum(y), .retain_graph = true));
        FAILS(rg_backward(rg_sum(rg_square(y))), want);
        HOLDS(rg_grad(rg_sum(rg_square(w)), w));
    }
    FAILS(rg_backward(rg_sum(rg_square(w))), want);
    HOLDS(rg_optim_step(o) && rg_backward(rg_sum(rg_square(w))));
    rg_zero_grad(model);
    backward_of_batch(d, x);
    rg_zero_grad(model);
    HOLDS(rg_backward(rg_sum(rg_square(w))));
    rg_optim_free(o);
    rg_module_free(d);
}

/* A forward that no backward run follows is refused as soon as the next shard or batch begins. */
static void test_a_shard_without_a_run(void) {
    RG_SCOPE();
    rg_distributed *d = rg_nn_distributed(make_model(), .shards = SHARDS);
    rg_tensor *x = make_batch();
    HOLDS(rg_call(d, rg_distributed_part(d, x)));
    rg_tensor *again = rg_distributed_part(d, x);
    FAILS(rg_call(d, again), "a shard had a forward but no backward run");
    rg_module_free(d);
    /* A second forward in a shard is allowed, unless a part was taken or a parameter was changed
     * after the first. */
    d = rg_nn_distributed(make_model(), .shards = SHARDS);
    RG_FOR (int i = 0; i < d->local; i++) {
        rg_tensor *part = rg_distributed_part(d, x);
        rg_tensor *y = rg_add(rg_call(d, part), rg_call(d, rg_neg(part)));
        HOLDS(rg_backward(rg_sum(rg_sub(y, rg_sum_dim(rg_distributed_part(d, x), 1, true)))));
    }
    HOLDS(rg_call(d, x));
    {
        RG_NO_GRAD();
        rg_add_(rg_parameters(d).v[0], 1);
    }
    FAILS(rg_call(d, x), "the parameters were changed in the middle of a batch");
    rg_module_free(d);
}

/* All shards of a batch take the same parts, since backward runs tell the index of a shard. */
static void test_parts_of_shards(void) {
    RG_SCOPE();
    rg_distributed *d = rg_nn_distributed(make_model(), .shards = 2 * size);
    rg_tensor *x = rg_cat(RG_LIST(make_batch(), make_batch(), make_batch()), 0);
    x = rg_narrow(x, 0, 0, 2 * size * (ROWS / 4));
    rg_tensor *other = rg_add(x, 1);
    HOLDS(rg_backward(loss_of(d, rg_distributed_part(d, x))));
    FAILS(rg_distributed_part(d, other), "doesn't take the same parts as shard 0");
    /* A batch that differs in one element is another. */
    RG_FOR (int64_t i = 0; i < rg_numel(x); i++) {
        rg_tensor *nearly = rg_clone(x);
        rg_add_(rg_select(rg_view(nearly, -1), 0, i), 1);
        FAILS(rg_distributed_part(d, nearly), "doesn't take the same parts as shard 0");
    }
    rg_tensor *part = rg_distributed_part(d, rg_clone(x));
    HOLDS(rg_equal(part, rg_narrow(x, 0, (2 * rank + 1) * (ROWS / 4), ROWS / 4)));
    FAILS(rg_distributed_part(d, x), "doesn't take the same parts as shard 0");
    HOLDS(rg_backward(loss_of(d, part)));
    /* The second shard of this batch takes no part. */
    HOLDS(rg_backward(loss_of(d, rg_distributed_part(d, x))));
    if (size == 1)
        FAILS(rg_backward(loss_of(d, x)), "doesn't take the same parts as shard 0");
    rg_module_free(d);
    rg_sequential *frozen = make_model();
    rg_module_requires_grad_(frozen, false);
    d = rg_nn_distributed(frozen, .shards = 2 * size);
    FAILS(rg_distributed_part(d, x), "no parameter required grad");
    rg_module_free(d);
}

static void step_of_record(void *context) {
    rg_distributed *d = ((void **)context)[0];
    rg_backward(loss_of(d, ((void **)context)[1]));
}

static void step_with_parts(void *context) {
    rg_distributed *d = ((void **)context)[0];
    rg_backward(loss_of(d, rg_distributed_part(d, ((void **)context)[1])));
}

/* A step with a distributed module can't be recorded. After rg_grad of a parameter through the
 * module, the module doesn't go on. */
static void test_other_runs(void) {
    RG_SCOPE();
    rg_distributed *d = rg_nn_distributed(make_model(), .shards = SHARDS);
    rg_tensor *x = make_batch();
    void *context[] = { d, x };
    FAILS(rg_record(step_of_record, context), "distributed: a distributed module can't be part of");
    FAILS(rg_record(step_with_parts, context), "distributed_part: a distributed module can't be");
    HOLDS(rg_grad(loss_of(d, rg_distributed_part(d, x)), rg_parameters(d).v[0]));
    FAILS(rg_call(d, x), "or rg_grad of a parameter has taken a shard's run");
    rg_module_free(d);
}

/* Parameters whose gradients wouldn't be summed are refused. */
static void test_other_parameters(void) {
    static const char *const want = "the model has parameters that weren't there";
    RG_SCOPE();
    rg_tensor *x = make_batch();
    for (int change = 0; change < 3; change++) {
        rg_sequential *model = make_model();
        rg_tensor *last = rg_parameters(model).v[5];
        rg_requires_grad_(last, change != 0);
        rg_distributed *d = rg_nn_distributed(model, .shards = SHARDS);
        rg_tensor *part = rg_distributed_part(d, x);
        if (change == 0)
            rg_requires_grad_(last, true);
        else if (change == 1)
            rg_sequential_set(model, 0, rg_nn_linear(3, 5));
        else
            rg_sequential_append(model, rg_nn_linear(1, 1));
        FAILS(rg_call(d, part), want);
        rg_module_free(d);
    }
}

/* Without a group, these functions fail, and rg_nn_distributed frees the model. */
static void test_without_a_group(void) {
    static const char *const want = "Default process group has not been initialized";
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_optim *o = rg_optim_adam(rg_parameters(model));
    const rg_training run = { .model = model, .optim = o };
    FAILS(rg_nn_distributed(make_model()), want);
    FAILS(rg_nn_distributed(make_model(), .bucket_cap_mb = 0), want);
    FAILS(rg_sharded_optim_step(o), want);
    FAILS(rg_sharded_optim_gather(o), want);
    FAILS(rg_sharded_optim_release(o), want);
    FAILS(rg_distributed_save_checkpoint("/nowhere/at/all", run), want);
    FAILS(rg_distributed_load_checkpoint("/nowhere/at/all", run), want);
    rg_optim_free(o);
    rg_module_free(model);
}

/* A rank whose training is halted doesn't change its parameters. Its sharded step also halts the
 * training of all other ranks. */
static void test_halted_step(void) {
    RG_SCOPE();
    rg_sequential *model = make_model();
    rg_optim *o = rg_optim_sgd(rg_parameters(model), .lr = 1);
    rg_tensor *w = rg_parameters(model).v[0];
    HOLDS(rg_backward(rg_sum(rg_call(model, rg_ones(1, 3)))));
    HOLDS(!rg_training_halted());
    if (rank == size - 1)
        HOLDS(!rg_set_grad(w, rg_ones(7)));
    HOLDS(rg_training_halted() == (rank == size - 1));
    const rg_list params = rg_parameters(model);
    rg_tensor *before[8];
    for (int i = 0; i < params.n; i++)
        before[i] = rg_clone(params.v[i]);
    HOLDS(!rg_sharded_optim_step(o) && rg_training_halted());
    HOLDS(!rg_optim_step(o) && rg_training_halted());
    for (int i = 0; i < params.n; i++)
        HOLDS(rank < size - 1 || rg_equal(params.v[i], before[i]));
    rg_error_clear();
    HOLDS(!rg_training_halted() && rg_sharded_optim_step(o));
    rg_optim_free(o);
    rg_module_free(model);
}

/* An optimizer whose parameters have no elements can step, too. */
static void test_nothing_to_move(void) {
    RG_SCOPE();
    rg_linear_module *empty = rg_nn_linear(0, 3, .bias = false);
    rg_optim *o = rg_optim_sgd(rg_parameters(empty), .lr = 1);
    HOLDS(rg_sharded_optim_step(o) && rg_sharded_optim_gather(o) && rg_sharded_optim_release(o));
    rg_optim_free(o);
    rg_module_free(empty);
}

/* If one rank has no memory, all ranks get NULL, and nothing is left behind. */
static void test_no_memory_on_one_rank(void) {
    bool made = false;
    for (int64_t request = 1; !made; request++) {
        RG_SCOPE();
        rg_sequential *model = make_model();
        rg_distributed_options o = { .shards = SHARDS, .bucket_cap_mb = 1e-4 };
        if (rank == size - 1)
            rg_memory_fail_at(request);
        rg_distributed *d = rg_nn_distributed_with(model, o);
        rg_memory_fail_at(0);
        made = d;
        HOLDS(made || rg_error_code());
        rg_error_clear();
        rg_tensor *sum = rg_scalar_dtype(made, RG_INT64);
        HOLDS(rg_all_reduce_(sum) && (rg_item(sum) == 0 || rg_item(sum) == size));
        rg_module_free(d);
    }
}

int main(void) {
    /* The first call takes memory that the thread keeps. The second call leaves nothing more. */
    test_without_a_group();
    const int64_t at_first = rg_memory_stats().now;
    test_without_a_group();
    HOLDS(rg_memory_stats().now == at_first);
    HOLDS(rg_init_process_group());
    rank = rg_rank();
    size = rg_world_size();
    lengthen_scope();
    static void (*const tests[])(void) = {
        test_gradients_of_a_batch,
        test_what_is_not_reached,
        test_large_and_empty,
        test_sizes_of_buckets,
        test_a_shard_for_each_rank,
        test_without_gradients,
        test_streams,
        test_types,
        test_they_leave_under_backward,
        test_buffers,
        test_buffers_that_stay,
        test_halted_step,
        test_nothing_to_move,
        test_gradients_after_a_sharded_step,
        test_an_empty_parameter,
        test_warnings_of_absent_gradients,
        test_two_modules_in_one_graph,
        test_a_checkpoint_of_a_sharded_state,
        test_a_whole_step_after_a_sharded_step,
        test_groups_that_are_added,
        test_a_new_group_is_divided,
        test_sharding_a_recorded_step,
        test_refusals,
        test_checkpoints_that_differ,
        test_many_modules,
        test_a_second_run,
        test_a_shard_without_a_run,
        test_parts_of_shards,
        test_other_parameters,
        test_other_runs,
        test_no_memory_on_one_rank,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        const int64_t before = rg_memory_stats().now;
        tests[i]();
        HOLDS(rg_memory_stats().now == before);
    }
    rg_destroy_process_group();
    if (rank == 0)
        printf("distributed: as it should be on %d ranks\n", size);
}

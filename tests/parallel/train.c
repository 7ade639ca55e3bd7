/*
 * train.c: trains a small GPT, and prints a hash of its weights. tests/parallel/run runs it on
 * several numbers of ranks, and compares the hashes.
 *
 *     train [steps=30] [shards=4] [dropout=0.1] [mb=0.01] [byhand=0] [every=5] [zero=0]
 *           [file=PATH] [fail=op|memory|nan|file]
 *
 * With byhand=1, one process sums the gradients of the shards itself, in pairs, without
 * rg_nn_distributed. With a file, the training goes on from the file if it exists, and is saved
 * there after each `every` steps. With zero=1, each rank has a part of the optimizer's state. With
 * `fail`, the last rank fails at the third step.
 */
#include "holds.h"

#include <math.h>
#include <unistd.h>

static double steps = 30, shards = 4, dropout = 0.1, mb = 0.01, byhand = 0, every = 5, zero = 0;
static const char *file = "", *fail = "";

static void read_arguments(int argc, char *argv[]) {
    static const struct {
        const char *name;
        double *value;
    } numbers[] = { { "steps", &steps }, { "shards", &shards }, { "dropout", &dropout },
                    { "mb", &mb },       { "byhand", &byhand }, { "every", &every },
                    { "zero", &zero } };
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        bool known = false;
        HOLDS(equals);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (strncmp(argv[i], numbers[k].name, (size_t)(equals - argv[i])) == 0) {
                *numbers[k].value = atof(equals + 1);
                known = true;
            }
        if (strncmp(argv[i], "file=", 5) == 0)
            file = equals + 1;
        else if (strncmp(argv[i], "fail=", 5) == 0)
            fail = equals + 1;
        else
            HOLDS(known);
    }
}

/* Fails on the last rank in the way that `fail` names. */
static void fail_as_told(rg_list params) {
    if (rg_rank() != rg_world_size() - 1 || !*fail)
        return;
    if (strcmp(fail, "op") == 0)
        rg_matmul(rg_ones(2, 3), rg_ones(2, 3));
    else if (strcmp(fail, "memory") == 0)
        rg_memory_fail_at(60);
    else if (strcmp(fail, "nan") == 0)
        rg_fill_(rg_detach(params.v[4]), INFINITY);
    else
        rg_load_file("/nowhere/at/all");
    rg_set_detect_anomaly(true);
}

/* ---- by hand --------------------------------------------------------------------------- */

/* Returns a shard's gradient of each parameter. */
static void one_shard(rg_gpt *model, rg_list params, rg_pair batch, int i, rg_tensor *grads[]) {
    const int64_t rows = rg_size(batch.first, 0) / (int64_t)shards;
    rg_tensor *x = rg_narrow(batch.first, 0, i * rows, rows);
    rg_tensor *y = rg_narrow(batch.second, 0, i * rows, rows);
    HOLDS(rg_backward(rg_call(model, x, y)));
    for (int p = 0; p < params.n; p++) {
        grads[p] = rg_grad_of(params.v[p]);
        rg_set_grad(params.v[p], RG_NONE);
    }
}

/* Fills grads[] with the sums over the shards `from` to end - 1, which are added in pairs. */
static void sum_by_hand(rg_gpt *model, rg_list params, rg_pair batch, int from, int end,
                        rg_tensor *grads[]) {
    if (end - from == 1) {
        one_shard(model, params, batch, from, grads);
        return;
    }
    rg_tensor *right[params.n];
    sum_by_hand(model, params, batch, from, (from + end) / 2, grads);
    sum_by_hand(model, params, batch, (from + end) / 2, end, right);
    for (int p = 0; p < params.n; p++)
        grads[p] = rg_add(grads[p], right[p]);
}

static void backward_by_hand(rg_gpt *model, rg_list params, rg_pair batch) {
    rg_tensor *grads[params.n];
    rg_randint(0, INT64_MAX, 1); /* rg_nn_distributed draws such a seed, too. */
    sum_by_hand(model, params, batch, 0, (int)shards, grads);
    for (int p = 0; p < params.n; p++)
        rg_set_grad(params.v[p], rg_div(grads[p], shards));
}

/* ---- training -------------------------------------------------------------------------- */

static void backward_of_shards(const rg_distributed *d, rg_pair batch) {
    RG_FOR (int i = 0; i < d->local; i++) {
        rg_tensor *x = rg_distributed_part(d, batch.first);
        rg_tensor *y = rg_distributed_part(d, batch.second);
        HOLDS(rg_backward(rg_call(d, x, y)));
    }
}

static uint64_t hash_of(rg_list params) {
    uint64_t hash = 1;
    for (int p = 0; p < params.n; p++) {
        const uint32_t *bits = rg_data(params.v[p]);
        for (int64_t i = 0; i < rg_numel(params.v[p]); i++)
            hash = (hash ^ bits[i]) * 0x9e3779b97f4a7c15u;
    }
    return hash;
}

/* Asserts that all ranks together have one state of each parameter: two numbers for each
 * element. */
static void check_parts(rg_optim *o, rg_list params) {
    const rg_named_list state = rg_optim_state_dict(o);
    int64_t mine = 0, all = 0;
    for (int i = 0; i < state.n; i++)
        mine += strstr(state.v[i].name, ".exp_avg") ? rg_numel(state.v[i].tensor) : 0;
    for (int p = 0; p < params.n; p++)
        all += 2 * rg_numel(params.v[p]);
    rg_tensor *sum = rg_scalar_dtype((double)mine, RG_INT64);
    HOLDS(rg_all_reduce_(sum) && rg_item_int(sum) == all);
    HOLDS(mine <= all / rg_world_size() + all / 4);
}

int main(int argc, char *argv[]) {
    rg_on_error(rg_abort_ranks_on_error);
    HOLDS(rg_init_process_group());
    read_arguments(argc, argv);
    rg_manual_seed(1);
    rg_tensor *text = rg_randint(0, 17, 4000);
    rg_gpt *model = rg_nn_gpt(.block_size = 16, .vocab_size = 17, .n_layer = 2, .n_head = 2,
                              .n_embd = 24, .dropout = dropout);
    rg_distributed *d = NULL;
    if (!byhand)
        d = rg_nn_distributed(model, .shards = (int)shards, .bucket_cap_mb = mb);
    const rg_list params = rg_parameters(model);
    rg_optim *o = rg_optim_adamw(params, .lr = 1e-3);
    double step = 0;
    const rg_training run = { .model = model,
                              .optim = o,
                              .numbers = RG_NUMBERS({ "step", &step }) };
    if (*file && access(file, F_OK) == 0)
        HOLDS(rg_distributed_load_checkpoint(file, run) && (!zero || rg_sharded_optim_release(o)));
    RG_FOR (; step < steps;) {
        rg_pair batch = rg_get_batch(text, 12, 16);
        rg_optim_zero_grad(o);
        if (step == 2)
            fail_as_told(params);
        if (byhand)
            backward_by_hand(model, params, batch);
        else
            backward_of_shards(d, batch);
        rg_clip_grad_norm_(params, 0.5);
        HOLDS(zero ? rg_sharded_optim_step(o) : rg_optim_step(o));
        step++;
        if (*file && fmod(step, every) == 0) {
            HOLDS(!zero || rg_sharded_optim_gather(o));
            HOLDS(rg_distributed_save_checkpoint(file, run));
            HOLDS(!zero || rg_sharded_optim_release(o));
        }
    }
    HOLDS(byhand || rg_distributed_check(d));
    if (zero)
        check_parts(o, params);
    if (rg_rank() == 0)
        printf("%016llx\n", (unsigned long long)hash_of(params));
    rg_optim_free(o);
    rg_module_free(byhand ? (void *)model : d);
    rg_destroy_process_group();
}

/*
 * denied.c: requests for memory of a distributed training are denied, one after another.
 * tests/parallel/run runs it with several numbers of ranks.
 *
 *     denied            denies each request that the last rank makes in a call of all ranks, and,
 *                       with a single rank, each request of a batch
 *     denied begin      denies all ranks the memory of the process group
 *     denied op|memory  causes an error before there is a group, which ends the program
 */
#include "holds.h"

#include <unistd.h>

enum { SHARDS = 4, ROWS = 8 };
static int rank, size;
static char path[64];

/* ---- a training ------------------------------------------------------------------------ */

/* A model with buffers that a forward changes, and its optimizer. */
typedef struct {
    rg_sequential *model;
    rg_distributed *d;
    rg_optim *o;
    rg_tensor *x;
} training;

static training begin_training(void) {
    rg_manual_seed(3);
    training t = { .model = rg_nn_sequential(rg_nn_batch_norm1d(3), rg_nn_linear(3, 5),
                                             rg_nn_dropout(0.5), rg_nn_linear(5, 2)) };
    t.d = rg_nn_distributed(t.model, .shards = SHARDS, .bucket_cap_mb = 1e-5);
    HOLDS(t.d);
    t.o = rg_optim_adam(rg_parameters(t.model));
    t.x = rg_randn(ROWS, 3);
    return t;
}

static void end_training(training *t) {
    rg_optim_free(t->o);
    rg_module_free(t->d);
}

static bool one_batch(const training *t) {
    bool ok = true;
    RG_FOR (int i = 0; i < t->d->local; i++)
        ok = ok && rg_backward(rg_mean(rg_square(rg_call(t->d, rg_distributed_part(t->d, t->x)))));
    return ok;
}

/* ---- a rank alone ---------------------------------------------------------------------- */

/* Runs `others` batches, and then one batch in which the memory request with the number `request`
 * is denied. If `gradients_stay`, the gradients of the earlier batches aren't cleared. Returns
 * whether the last batch succeeded. */
static bool batch_denied(int others, bool gradients_stay, int64_t request) {
    RG_SCOPE();
    training t = begin_training();
    for (int i = 0; i < others; i++)
        HOLDS(one_batch(&t));
    if (!gradients_stay)
        rg_zero_grad(t.model);
    rg_memory_fail_at(request);
    const bool ok = one_batch(&t);
    rg_memory_fail_at(0);
    HOLDS(ok ? !rg_error_code() : rg_error_code() == RG_OUT_OF_MEMORY);
    rg_error_clear();
    /* If a batch fails after it has begun, the next batch is refused. */
    if (!ok && t.d->reducer && !one_batch(&t))
        HOLDS(strstr(rg_error(), "a run has failed")
              || strstr(rg_error(), "doesn't take the same parts as shard 0")
              || strstr(rg_error(), "a shard had a forward but no backward run")
              || strstr(rg_error(), "expected a tensor but got NULL"));
    rg_error_clear();
    end_training(&t);
    return ok;
}

/* On one rank, denies each request of the first batch, which settles the order of the gradients,
 * and each request of the third batch. The gradients of the earlier batches are kept or cleared. */
static void test_batches_alone(void) {
    for (int others = 0; others < 3; others += 2)
        for (int stay = 0; stay < 2; stay++) {
            HOLDS(batch_denied(others, stay, 0));
            const int64_t before = rg_memory_stats().now;
            int64_t request = 1;
            while (!batch_denied(others, stay, request)) {
                HOLDS(rg_memory_stats().now == before);
                request++;
            }
            HOLDS(request > 300);
        }
}

/* ---- all ranks together ---------------------------------------------------------------- */

/* Denies each request of the last rank in turn, in a call of f on all ranks, until f succeeds.
 * Asserts that each call succeeds on all ranks or fails on all. Then calls `after` with the result.
 * Each call of f has a new training. */
static void deny_last_rank(bool (*f)(training *), void (*after)(training *, bool done)) {
    bool done = false;
    for (int64_t request = 1; !done; request++) {
        const int64_t before = rg_memory_stats().now;
        {
            RG_SCOPE();
            training t = begin_training();
            HOLDS(one_batch(&t) && rg_sharded_optim_step(t.o));
            if (rank == size - 1)
                rg_memory_fail_at(request);
            done = f(&t);
            rg_memory_fail_at(0);
            HOLDS(done == !rg_error_code());
            HOLDS(done || rank != size - 1 || rg_error_code() == RG_OUT_OF_MEMORY);
            rg_error_clear();
            rg_tensor *sum = rg_scalar_dtype(done, RG_INT64);
            HOLDS(rg_all_reduce_(sum) && rg_item(sum) == (done ? size : 0));
            after(&t, done);
            end_training(&t);
        }
        HOLDS(rg_memory_stats().now == before);
    }
}

static bool step(training *t) { return rg_sharded_optim_step(t->o); }

/* Each rank has all gradients, even if the step failed. */
static void gradients_are_there(training *t, bool done) {
    const rg_list all = rg_parameters(t->model);
    (void)done;
    for (int i = 0; i < all.n; i++)
        HOLDS(rg_grad_of(all.v[i]) && rg_grad_of(all.v[i]) != RG_NONE);
}

static bool gather(training *t) { return rg_sharded_optim_gather(t->o); }

/* Returns the number of parameters that have a state. */
static int states_of(training *t) {
    const rg_named_list state = rg_optim_state_dict(t->o);
    int n = 0;
    HOLDS(state.n >= 0);
    for (int i = 0; i < state.n; i++)
        n += strstr(state.v[i].name, ".exp_avg_sq") != NULL;
    return n;
}

/* A gather that has failed can be repeated. */
static void rank_0_has_all(training *t, bool done) {
    if (!done)
        HOLDS(rg_sharded_optim_gather(t->o));
    if (rank == 0)
        HOLDS(states_of(t) == rg_parameters(t->model).n);
}

static bool check(training *t) { return rg_distributed_check(t->d); }
static void nothing_changed(training *t, bool done) {
    (void)done;
    HOLDS(rg_distributed_check(t->d));
}

static rg_training run_of(training *t) { return (rg_training){ .model = t->model, .optim = t->o }; }

static bool save(training *t) {
    return rg_sharded_optim_gather(t->o) && rg_distributed_save_checkpoint(path, run_of(t));
}

static bool load(training *t) { return rg_distributed_load_checkpoint(path, run_of(t)); }

/* If a load has failed, since one rank was denied memory, all ranks can load again. */
static void loads_later(training *t, bool done) {
    if (!done)
        HOLDS(rg_distributed_load_checkpoint(path, run_of(t)));
    HOLDS(rg_distributed_check(t->d));
}

/* rg_sharded_optim_release changes only a rank's own state. If a rank is denied memory, the call
 * fails on that rank only. */
static void test_release(void) {
    bool all_done = false;
    for (int64_t request = 1; !all_done; request++) {
        RG_SCOPE();
        bool done;
        training t = begin_training();
        HOLDS(one_batch(&t) && rg_optim_step(t.o));
        const int before = states_of(&t);
        rg_memory_fail_at(request);
        done = rg_sharded_optim_release(t.o);
        rg_memory_fail_at(0);
        HOLDS(done ? !rg_error_code() : rg_error_code() == RG_OUT_OF_MEMORY);
        HOLDS(states_of(&t) == before || (done && size > 1));
        rg_error_clear();
        rg_tensor *least = rg_scalar_dtype(done, RG_INT64);
        HOLDS(rg_all_reduce_(least, .op = RG_REDUCE_MIN));
        all_done = rg_item(least) == 1;
        end_training(&t);
    }
}

/* ---- before there is a group ----------------------------------------------------------- */

/* If a process is denied memory for its group, rg_init_process_group fails, and so does a second
 * call. */
static void deny_beginning(void) {
    rg_memory_fail_at(1);
    HOLDS(!rg_init_process_group() && rg_error_code() == RG_OUT_OF_MEMORY);
    rg_memory_fail_at(0);
    rg_error_clear();
    HOLDS(!rg_is_initialized());
    FAILS(rg_init_process_group(), "a process can't begin a second group");
    puts("denied: there is no group");
}

/* An error ends the program, although there is no group. */
static void end_by(const char *how) {
    rg_on_error(rg_abort_ranks_on_error);
    if (strcmp(how, "memory") == 0)
        rg_memory_fail_at(1);
    rg_matmul(rg_ones(2, 3), rg_ones(2, 3));
    puts("denied: it goes on");
}

int main(int argc, char *argv[]) {
    if (argc > 1) {
        if (strcmp(argv[1], "begin") == 0)
            deny_beginning();
        else
            end_by(argv[1]);
        return 0;
    }
    HOLDS(rg_init_process_group());
    rank = rg_rank();
    size = rg_world_size();
    rg_tensor *number = rg_scalar_dtype(getpid(), RG_INT64);
    HOLDS(rg_broadcast_(number, 0));
    snprintf(path, sizeof path, "/tmp/regard-denied-%lld", (long long)rg_item_int(number));
    rg_drop(number);
    lengthen_scope();
    if (size == 1)
        test_batches_alone();
    deny_last_rank(step, gradients_are_there);
    deny_last_rank(gather, rank_0_has_all);
    deny_last_rank(check, nothing_changed);
    deny_last_rank(save, nothing_changed);
    deny_last_rank(load, loads_later);
    test_release();
    if (rank == 0)
        unlink(path);
    rg_destroy_process_group();
    if (rank == 0)
        printf("denied: as it should be on %d ranks\n", size);
}

/*
 * distributed_checkpoint.c: checkpoints of training with many ranks. The file has the same format
 * as a checkpoint of one process.
 */
#include "distributed_checkpoint.h"
#include "group.h"
#include "hash.h"
#include "sharded_state.h"

bool rg_distributed_save_checkpoint(const char *path, rg_training run) {
    static const char op[] = "distributed_save_checkpoint";
    if (!rgi_group_given(op))
        return false;
    if (run.optim && rg_world_size() > 1 && !rgi_state_is_gathered(op, run.optim))
        return false;
    return rgi_all_ok(op, rg_rank() != 0 || rg_save_checkpoint(path, run));
}

/* Returns a hash of the generator's state and of run->numbers, by which ranks find out whether they
 * have loaded the same file. Two checkpoints of one run have different hashes if the run drew
 * random numbers, or changed one of run->numbers, between saving the two. */
static uint64_t hash_of_run(const rg_training *run, rg_tensor *random) {
    uint64_t hash = rgi_hash(1, rg_data(random), (size_t)rg_numel(random) * sizeof(int64_t));
    for (int i = 0; i < run->numbers.n; i++)
        hash = rgi_hash(hash, run->numbers.v[i].value, sizeof(double));
    return hash >> 1;
}

bool rg_distributed_load_checkpoint(const char *path, rg_training run) {
    static const char op[] = "distributed_load_checkpoint";
    RG_SCOPE();
    if (!rgi_group_given(op) || !rgi_all_ok(op, rg_load_checkpoint(path, run)))
        return false;
    rg_generator *g = run.generator ? run.generator : rg_default_generator();
    rg_tensor *random = rg_generator_state(g);
    const uint64_t hash = random ? hash_of_run(&run, random) : 0;
    const rg_claim mine = rgi_claim_number(op, random, (int64_t)hash);
    return rgi_all_agree(&mine, "the hash of the file's random state and numbers");
}

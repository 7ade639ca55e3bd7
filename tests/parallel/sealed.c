/*
 * sealed.c: trains the models of examples/check_seal.c on batches in four shards, seals the run,
 * and prints the seal's chain. tests/same runs it on several numbers of ranks, which must have the
 * same chain. Its arguments are the number of steps and the seal's file, which rank 0 writes.
 */
#include "holds.h"

typedef struct {
    rg_module base;
    rg_gpt *gpt;
    rg_sequential *net;
    rg_rnn_module *lstm;
} Models;

/* Returns the three losses together. The class of an image is that of the first token beside it. */
static rg_tensor *losses(rg_module *m, rg_tensor *ids, rg_tensor *images, rg_tensor *lines) {
    Models *self = (Models *)m;
    rg_tensor *classes = rg_remainder(rg_select(ids, 1, 0), 3);
    rg_tensor *loss = rg_gpt_forward(self->gpt, ids, ids).loss;
    loss = rg_add(loss, rg_cross_entropy(rg_call(self->net, images), classes));
    rg_tensor *y = rg_lstm_forward(self->lstm, rg_transpose(lines, 0, 1)).output;
    return rg_add(loss, rg_mean(rg_square(rg_sub(y, 0.25))));
}

static const rg_module_class models_class = { .name = "Models", .forward3 = losses };

static Models *new_models(void) {
    Models *self = RG_MODULE(Models, &models_class);
    RG_CHILD(self, gpt,
             rg_nn_gpt(.block_size = 16, .vocab_size = 20, .n_layer = 2, .n_head = 2, .n_embd = 32,
                       .dropout = 0.1));
    RG_CHILD(self, net,
             rg_nn_sequential(rg_nn_conv2d(1, 6, 3, .padding = 1), rg_nn_batch_norm2d(6),
                              rg_nn_relu(), rg_nn_max_pool2d(2), rg_nn_conv2d(6, 5, 3, .stride = 2),
                              rg_nn_flatten(1, -1), rg_nn_linear(20, 3)));
    RG_CHILD(self, lstm, rg_nn_lstm(5, 12, .num_layers = 2, .dropout = 0.2));
    return RG_READY(self);
}

/* Makes a step on a batch of eight rows. */
static void learn(const rg_distributed *all, rg_optim *adam) {
    RG_SCOPE();
    rg_tensor *ids = rg_randint(0, 20, 8, 16), *images = rg_randn(8, 1, 11, 11);
    rg_tensor *lines = rg_randn(8, 7, 5);
    rg_optim_zero_grad(adam);
    RG_FOR (int i = 0; i < all->local; i++) {
        rg_tensor *part[] = { rg_distributed_part(all, ids), rg_distributed_part(all, images),
                              rg_distributed_part(all, lines) };
        HOLDS(rg_backward(rg_call(all, part[0], part[1], part[2])));
    }
    rg_clip_grad_norm_(rg_optim_parameters(adam, 0), 1);
    HOLDS(rg_optim_step(adam));
}

int main(int argc, char *argv[]) {
    rg_on_error(rg_abort_ranks_on_error);
    HOLDS(rg_init_process_group());
    HOLDS(argc == 3);
    const int64_t steps = atoi(argv[1]);
    rg_manual_seed(2026);
    Models *models = new_models();
    rg_distributed *all = rg_nn_distributed(models, .shards = 4);
    rg_optim *adam = rg_optim_adamw(rg_parameters(models), .lr = 0.003);
    const rg_training run = { .model = models, .optim = adam };
    rg_seal *seal = rg_rank() == 0 ? rg_seal_begin(argv[2], .every = 50) : NULL;
    for (int64_t step = 1; step <= steps; step++) {
        learn(all, adam);
        HOLDS(!seal || rg_seal_step(seal, step, run));
    }
    HOLDS(rg_distributed_check(all));
    if (seal) {
        printf("sealed in 4 shards, chain %s\n", rg_seal_hash(seal));
        HOLDS(rg_seal_end(seal));
    }
    rg_optim_free(adam);
    rg_module_free(all);
    rg_destroy_process_group();
}

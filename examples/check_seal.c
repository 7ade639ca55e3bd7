/*
 * check_seal.c: a training that is sealed, so that anyone can make it again and see that it is the
 * same, to the bit:
 *
 *     build/examples/check_seal --seal build/run.seal
 *     build/examples/check_seal --check build/run.seal
 *     build/examples/check_seal --check build/run.seal --flip 650
 *
 * The first command trains and writes the seal. The second trains again, on another machine
 * perhaps, and compares. The third flips one bit of one weight after step 650, and the check says
 * at which step, and in which tensor, the run differs from then on.
 *
 * What is trained has every kind of arithmetic in it: a small GPT with dropout, a convolution net
 * and an LSTM, by AdamW with clipping, on random data. With --stop 400 the run ends after step 400
 * and leaves a checkpoint, from which a run with --resume goes on. With --replay, the step is
 * recorded and replayed.
 */
#include "options.h"

static const char *to_seal = "", *to_check = "", *checkpoint = "build/run.safetensors";
static int64_t steps = 1000, every = 100, flip, stop;
static bool resume, replay;

static const option options[] = {
    { "seal", TEXT, &to_seal, 0, 0, "the seal to write" },
    { "check", TEXT, &to_check, 0, 0, "the seal to compare with" },
    { "steps", WHOLE, &steps, 1, 1e9, "number of steps" },
    { "every", WHOLE, &every, 1, 1e9, "steps from one sealed step to the next" },
    { "flip", WHOLE, &flip, 0, 1e9, "the step after which a bit is flipped, or 0" },
    { "stop", WHOLE, &stop, 0, 1e9, "the step after which the run stops, or 0" },
    { "checkpoint", TEXT, &checkpoint, 0, 0, "file of a run that stops or is resumed" },
    { "resume", FLAG, &resume, 0, 0, "go on from the checkpoint" },
    { "replay", FLAG, &replay, 0, 0, "record the step, and replay it" },
};

/* ---- what is trained --------------------------------------------------------------- */

static rg_gpt *gpt;
static rg_sequential *net;
static rg_rnn_module *lstm;
static rg_optim *adam;
static double done; /* The number of steps that were made. */

/* Returns a module with all weights. */
static rg_module *new_model(void) {
    gpt = rg_nn_gpt(.block_size = 16, .vocab_size = 20, .n_layer = 2, .n_head = 2, .n_embd = 32,
                    .dropout = 0.1);
    net = rg_nn_sequential(rg_nn_conv2d(1, 6, 3, .padding = 1), rg_nn_batch_norm2d(6),
                           rg_nn_relu(), rg_nn_max_pool2d(2), rg_nn_conv2d(6, 5, 3, .stride = 2),
                           rg_nn_flatten(1, -1), rg_nn_linear(20, 3));
    lstm = rg_nn_lstm(5, 12, .num_layers = 2, .dropout = 0.2);
    return (rg_module *)rg_nn_module_dict({ "gpt", gpt }, { "net", net }, { "lstm", lstm });
}

/* A step of the training: the three losses on random data, together. */
static void learn(void *nothing) {
    (void)nothing;
    RG_SCOPE();
    rg_tensor *ids = rg_randint(0, 20, 4, 16), *classes = rg_randint(0, 3, 8);
    rg_tensor *loss = rg_gpt_forward(gpt, ids, ids).loss;
    loss = rg_add(loss, rg_cross_entropy(rg_call(net, rg_randn(8, 1, 11, 11)), classes));
    rg_tensor *y = rg_lstm_forward(lstm, rg_randn(7, 3, 5)).output;
    loss = rg_add(loss, rg_mean(rg_square(rg_sub(y, 0.25))));
    rg_optim_zero_grad(adam);
    rg_backward(loss);
    rg_clip_grad_norm_(rg_optim_parameters(adam, 0), 1);
    rg_optim_step(adam);
}

/* Flips the last bit of one weight. */
static void flip_bit(void) {
    float *weights = rg_data(rg_get_parameter(net, "6.weight"));
    uint32_t bits;
    memcpy(&bits, &weights[7], sizeof bits);
    bits ^= 1;
    memcpy(&weights[7], &bits, sizeof bits);
}

/* ---- the run ------------------------------------------------------------------------- */

/* Makes the steps, and seals or compares them, until the last one or until one differs. */
static void train(rg_seal *seal, rg_training run) {
    const int64_t last = stop ? stop : steps;
    rg_replay *recorded = NULL;
    while (done < last) {
        if (recorded)
            rg_replay_run(recorded);
        else if (replay)
            recorded = rg_record(learn, NULL);
        else
            learn(NULL);
        done++;
        if (done == flip)
            flip_bit();
        rg_seal_step(seal, (int64_t)done, run);
    }
    rg_replay_free(recorded);
}

int main(int argc, char *argv[]) {
    READ_OPTIONS(argc, argv, "", options);
    if (!*to_seal == !*to_check)
        refuse("give either --seal FILE or --check FILE");
    rg_on_error(stop_on_error);
    rg_manual_seed(2026);
    rg_module *model = new_model();
    adam = rg_optim_adamw(rg_parameters(model), .lr = 0.003);
    rg_training run = { .model = model, .optim = adam, .numbers = RG_NUMBERS({ "step", &done }) };
    if (resume)
        rg_load_checkpoint(checkpoint, run);
    rg_seal *seal = *to_check ? rg_seal_check(to_check)
                              : rg_seal_begin(to_seal, .every = every, .resume = resume);
    train(seal, run);
    if (stop)
        rg_save_checkpoint(checkpoint, run);
    char chain[65];
    snprintf(chain, sizeof chain, "%s", rg_seal_hash(seal));
    rg_seal_end(seal);
    printf("%lld steps, %s, chain %s\n", (long long)done,
           *to_check ? "the sealed ones are the same" : "sealed", chain);
    rg_optim_free(adam);
    rg_module_free(model);
}

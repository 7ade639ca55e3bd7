/*
 * char_gpt.c: a small GPT that reads a text character by character, and then writes
 * one. Shape, first weights, batches and schedule are nanoGPT's, so that a PyTorch
 * program with the same seed learns the same: tests/bench/char_gpt.py compares.
 */
#include "show.h"

/* ---- options ------------------------------------------------------------------- */

static int64_t steps = 1000, batch = 12, block = 64, layers = 4, heads = 4, dim = 64;
static int64_t warmup = 50, every = 100, seed = 1337, sample = 500, top_k = 0, threads = 1;
static double lr = 2e-3, decay = 0.1, clip = 1, dropout = 0.1, temperature = 0.8;
static const char *prompt = "", *out = "build/char_gpt";

static const option options[] = {
    { "steps", WHOLE, &steps, 1, 1e8, "how many to train" },
    { "batch", WHOLE, &batch, 1, 65536, "windows of the text in a step" },
    { "block", WHOLE, &block, 1, 65536, "characters in a window: how far back it looks" },
    { "layers", WHOLE, &layers, 1, 1024, "blocks of attention and feedforward" },
    { "heads", WHOLE, &heads, 1, 4096, "of attention" },
    { "dim", WHOLE, &dim, 1, 65536, "numbers for each character; a multiple of the heads" },
    { "dropout", NUMBER, &dropout, 0, 1, "share of numbers left out while training" },
    { "lr", NUMBER, &lr, 0, 1e6, "AdamW's learning rate at its highest" },
    { "warmup", WHOLE, &warmup, 0, 1e8,
      "steps until then; after them it falls, as a cosine, to a tenth" },
    { "decay", NUMBER, &decay, 0, 1e6, "of AdamW, on matrices" },
    { "clip", NUMBER, &clip, 0, 1e15, "gradients to this norm" },
    { "every", WHOLE, &every, 1, 1e8, "so many steps the validation loss is shown" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "threads", WHOLE, &threads, 1, 1024,
      "to compute with; a model as small as this gains little from more" },
    { "sample", WHOLE, &sample, 0, 1e8, "characters to write at the end" },
    { "prompt", TEXT, &prompt, 0, 0,
      "what they continue; the text's first character if not given" },
    { "temperature", NUMBER, &temperature, 1e-3, 1e6, "lower is safer, higher is wilder" },
    { "top-k", WHOLE, &top_k, 0, 1e15, "choose among so many characters; 0: among all" },
    { "out", TEXT, &out, 0, 0, "folder for the curve of the loss" },
};

/* Returns the path of the text to learn from. */
static const char *read_command_line(int argc, char *argv[]) {
    int first = READ_OPTIONS(argc, argv, "[text file (examples/sonnets.txt)]", options);
    if (argc > first + 1)
        refuse("takes one text, not '%s' too", argv[first + 1]);
    if (dim % heads)
        refuse("--dim %lld is not a multiple of --heads %lld", (long long)dim, (long long)heads);
    if (dropout >= 1)
        refuse("--dropout takes a number below 1, not %g", dropout);
    return first < argc ? argv[first] : "examples/sonnets.txt";
}

/* ---- training ------------------------------------------------------------------ */

/* A corpus is a text as numbers. Its first nine tenths are learned from, and the rest tests what
 * was learned. */
typedef struct {
    rg_vocabulary *vocabulary;
    rg_tensor *all, *learn, *test;
} corpus;

static corpus read_corpus(const char *path) {
    char *text = read_text(path);
    corpus c = { .vocabulary = rg_vocabulary_new(text, .characters = true) };
    c.all = rg_encode(c.vocabulary, text);
    free(text);
    rg_pair part = rg_split_text(c.all, 0.9);
    c.learn = part.first;
    c.test = part.second;
    if (rg_numel(c.test) <= block) {
        rg_vocabulary_free(c.vocabulary);
        refuse("'%s' has %lld characters: with --block %lld it takes %lld", path,
               (long long)rg_numel(c.all), (long long)block, (long long)(10 * block + 10));
    }
    return c;
}

/* Makes AdamW as nanoGPT sets it up: matrices decay, vectors don't. */
static rg_optim *make_optimizer(rg_gpt *model) {
    RG_SCOPE();
    rg_list all = rg_parameters(model);
    rg_tensor *matrices[all.n], *vectors[all.n];
    int n = 0, m = 0;
    for (int i = 0; i < all.n; i++) {
        if (rg_ndim(all.v[i]) >= 2)
            matrices[n++] = all.v[i];
        else
            vectors[m++] = all.v[i];
    }
    rg_optim *o = rg_optim_adamw(((rg_list){ n, matrices }), .lr = lr, .betas = { 0.9, 0.99 },
                                 .weight_decay = decay);
    rg_optim_add_group(o, ((rg_list){ m, vectors }), .weight_decay = 0);
    return o;
}

/* Sets the learning rate of a step: it rises in a line until the warmup's end, and then falls to a
 * tenth, as half a cosine. */
static void set_rate(rg_optim *o, int64_t step) {
    double rate = lr * (double)(step + 1) / (double)(warmup + 1);
    if (step >= warmup) {
        double done = (double)(step - warmup) / (double)(steps - warmup);
        rate = lr * (0.1 + 0.9 * 0.5 * (1 + cos(M_PI * done)));
    }
    for (int i = 0; i < rg_optim_n_groups(o); i++)
        rg_optim_group(o, i)->lr = rate;
}

/* Returns the mean loss over all of the text, window by window. */
static double validate(rg_gpt *model, rg_tensor *data) {
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t windows = (rg_numel(data) - 1) / block;
    rg_tensor *x = rg_reshape(rg_narrow(data, 0, 0, windows * block), windows, block);
    rg_tensor *y = rg_reshape(rg_narrow(data, 0, 1, windows * block), windows, block);
    double sum = 0;
    rg_eval(model);
    RG_FOR (int64_t at = 0; at < windows; at += batch) {
        int64_t n = windows - at < batch ? windows - at : batch;
        rg_tensor *loss = rg_call(model, rg_narrow(x, 0, at, n), rg_narrow(y, 0, at, n));
        sum += (double)n * rg_item(loss);
    }
    rg_train(model, true);
    return sum / (double)windows;
}

static void train(rg_gpt *model, rg_optim *optimizer, const corpus *c, double losses[]) {
    progress p = progress_begin(steps);
    RG_FOR (int64_t step = 0; step < steps; step++) {
        set_rate(optimizer, step);
        rg_pair b = rg_get_batch(c->learn, batch, block);
        rg_tensor *loss = rg_call(model, b.first, b.second);
        rg_optim_zero_grad(optimizer);
        rg_backward(loss);
        rg_clip_grad_norm_(rg_parameters(model), clip);
        rg_optim_step(optimizer);
        losses[step] = rg_item(loss);
        if (progress_due(&p, step + 1))
            progress_show(&p, step + 1, losses[step]);
        if ((step + 1) % every == 0 || step + 1 == steps)
            progress_note(&p, "  after %lld steps: validation loss %.4f", (long long)step + 1,
                          validate(model, c->test));
    }
}

int main(int argc, char *argv[]) {
    const char *path = read_command_line(argc, argv);
    corpus c = read_corpus(path);
    rg_tensor *begin = *prompt ? rg_encode(c.vocabulary, prompt) : rg_narrow(c.all, 0, 0, 1);
    if (!begin) {
        rg_vocabulary_free(c.vocabulary);
        refuse("--prompt: %s", rg_error());
    }
    make_folder(out);
    double *losses = malloc((size_t)steps * sizeof *losses);
    if (!losses)
        refuse("no memory for %lld losses", (long long)steps);

    rg_set_num_threads((int)threads);
    rg_manual_seed((uint64_t)seed);
    rg_gpt *model = rg_nn_gpt(.block_size = block, .vocab_size = c.vocabulary->n, .n_layer = layers,
                              .n_head = heads, .n_embd = dim, .dropout = dropout);
    if (!model)
        refuse("%s", rg_error());
    rg_on_error(stop_on_error);
    rg_optim *optimizer = make_optimizer(model);
    printf("%s: %lld characters, %lld different ones; a GPT of %lld parameters\n", path,
           (long long)rg_numel(c.all), (long long)c.vocabulary->n,
           (long long)rg_num_parameters(model));
    printf("  before: validation loss %.4f, of chance %.4f\n", validate(model, c.test),
           log((double)c.vocabulary->n));
    train(model, optimizer, &c, losses);

    print_curve("\nThe loss on what it learns from, step by step:", steps, losses);
    save_curve(out, "loss.svg", "Loss on what it learns from, step by step", steps, losses);
    rg_eval(model);
    rg_tensor *written = rg_gpt_generate(model, rg_unsqueeze(begin, 0), sample,
                                         .temperature = temperature, .top_k = top_k);
    printf("\nIt writes:\n%s\n", rg_decode(c.vocabulary, written));
    free(losses);
    rg_optim_free(optimizer);
    rg_module_free(model);
    rg_vocabulary_free(c.vocabulary);
}

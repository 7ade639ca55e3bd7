/*
 * char_gpt.c: trains a small GPT on the characters of a text, and then generates text. Its
 * structure, initial weights, batches and schedule are those of nanoGPT, so that a PyTorch program
 * with the same seed gets the same weights: tests/bench/char_gpt.py compares them. With `mpirun -n
 * 4`, 4 processes train it together.
 */
#include "char_model.h"
#include "ranks.h"
#include "show.h"

#include <unistd.h>

/* ---- options ------------------------------------------------------------------- */

static int64_t steps = 1000, batch = 12;
static int64_t warmup = 50, every = 100, seed = 1337, sample = 500, top_k = 0, threads = 1;
static int64_t shards = 0;
static double lr = 2e-3, decay = 0.1, clip = 1, temperature = 0.8;
static const char *prompt = "", *out = "build/char_gpt", *save = "", *resume = "", *load = "";

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
    { "shards", WHOLE, &shards, 0, 65536,
      "equal parts of a batch, one gradient after the other, that mpirun's processes have among "
      "them; 0: one for each" },
    { "sample", WHOLE, &sample, 0, 1e8, "characters to write at the end" },
    { "prompt", TEXT, &prompt, 0, 0,
      "what they continue; the text's first character if not given" },
    { "temperature", NUMBER, &temperature, 1e-3, 1e6, "lower is safer, higher is wilder" },
    { "top-k", WHOLE, &top_k, 0, 1e15, "choose among so many characters; 0: among all" },
    { "out", TEXT, &out, 0, 0, "folder for the curve of the loss and the page of the run" },
    { "save", TEXT, &save, 0, 0, "file for the weights whose validation loss is the lowest" },
    { "load", TEXT, &load, 0, 0, "such a file, which writes without learning more" },
    { "resume", TEXT, &resume, 0, 0,
      "a checkpoint: training goes on from it if it is there, and writes it at each validation" },
};

/* Returns the path of the training text. */
static const char *read_command_line(int argc, char *argv[]) {
    int first = READ_OPTIONS(argc, argv, "[text file (examples/sonnets.txt)]", options);
    if (argc > first + 1)
        refuse("takes one text, not '%s' too", argv[first + 1]);
    if (dim % heads)
        refuse("--dim %lld is not a multiple of --heads %lld", (long long)dim, (long long)heads);
    if (dropout >= 1)
        refuse("--dropout takes a number below 1, not %g", dropout);
    if (*load && (first < argc || *save || *resume))
        refuse("--load learns nothing, so that it takes no text, no --save and no --resume");
    return first < argc ? argv[first] : "examples/sonnets.txt";
}

/* ---- the text ------------------------------------------------------------------ */

/* An encoded text. Its first nine tenths are for training, and the rest is for validation. */
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

/* ---- training ------------------------------------------------------------------ */

/* Makes AdamW as nanoGPT sets it up: weight decay for matrices, but not for vectors. */
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

/* Sets the learning rate of a step. It rises linearly during the warmup, and then falls to a tenth
 * along half a cosine. */
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

/* The state of a training run, which checkpoints save. */
typedef struct {
    rg_gpt *model;
    rg_distributed *all; /* The module through which all processes train the model. */
    rg_optim *optimizer;
    rg_tensor *losses; /* The losses of the steps, as float64. */
    double step, best;
    rg_report *report; /* The page of the run, which only rank 0 has. */
} training;

/* Saves or loads the checkpoint: f is rg_save_checkpoint or rg_load_checkpoint. */
static bool with_checkpoint(bool (*f)(const char *path, rg_training run), training *t) {
    return f(resume,
             (rg_training){ .model = t->model,
                            .optim = t->optimizer,
                            .tensors = { 1, (rg_named[]){ { "losses", t->losses } } },
                            .numbers = RG_NUMBERS({ "step", &t->step }, { "best", &t->best }) });
}

/* Shows the validation loss, and saves the best model and the checkpoint. */
static void show_progress(training *t, const corpus *c, rg_progress *progress) {
    double loss = validate(t->model, c->test);
    rg_progress_note(progress, "  after %.0f steps: validation loss %.4f", t->step, loss);
    if (t->report) {
        rg_report_number(t->report, "loss/validation", (int64_t)t->step, loss);
        rg_report_parameters(t->report, (int64_t)t->step, t->model);
    }
    if (*save && loss < t->best && rg_rank() == 0)
        save_model(t->model, c->vocabulary, save);
    t->best = fmin(t->best, loss);
    if (*resume)
        with_checkpoint(rg_distributed_save_checkpoint, t);
}

/* Runs backward for each shard, and returns the mean of all shards' losses. */
static double learn_batch(const training *t, rg_pair b) {
    RG_SCOPE();
    rg_tensor *losses = rg_zeros_dims(RG_DIMS(t->all->shards), RG_FLOAT64);
    double *loss = rg_data_as(double, losses);
    RG_FOR (int i = 0; i < t->all->local; i++) {
        rg_tensor *x = rg_distributed_part(t->all, b.first);
        rg_tensor *y = rg_distributed_part(t->all, b.second);
        rg_tensor *of_shard = rg_call(t->all, x, y);
        rg_backward(of_shard);
        loss[t->all->first + i] = rg_item(of_shard);
    }
    return rg_item(rg_mean(rg_all_reduce_(losses)));
}

static void train(training *t, const corpus *c) {
    rg_progress progress = rg_progress_begin(stdout, steps);
    double *losses = rg_data_as(double, t->losses);
    RG_FOR (int64_t step = (int64_t)t->step; step < steps; step++) {
        set_rate(t->optimizer, step);
        rg_pair b = rg_get_batch(c->learn, batch, block);
        rg_optim_zero_grad(t->optimizer);
        losses[step] = learn_batch(t, b);
        rg_tensor *norm = rg_clip_grad_norm_(rg_parameters(t->model), clip);
        rg_optim_step(t->optimizer);
        t->step = (double)step + 1;
        if (t->report) {
            rg_report_number(t->report, "loss/training", step + 1, losses[step]);
            rg_report_number(t->report, "norm of the gradients", step + 1, rg_item(norm));
            rg_report_number(t->report, "learning rate", step + 1,
                             rg_optim_group(t->optimizer, 0)->lr);
        }
        rg_progress_show(&progress, step + 1, "loss %.4f", losses[step]);
        if ((step + 1) % every == 0 || step + 1 == steps)
            show_progress(t, c, &progress);
    }
}

/* Trains a model on the text, and shows the losses. Returns the module through which all processes
 * train it. */
static rg_distributed *learn(const corpus *c, const char *path) {
    training t = { .model = make_model(c->vocabulary), .best = INFINITY };
    t.all = rg_nn_distributed(t.model, .shards = (int)shards);
    if (!t.all)
        refuse("%s", rg_error());
    if (batch % t.all->shards)
        refuse("--batch %lld is not a multiple of --shards %d", (long long)batch, t.all->shards);
    t.optimizer = make_optimizer(t.model);
    t.losses = rg_zeros_dims(RG_DIMS(steps), RG_FLOAT64);
    if (!t.losses)
        refuse("no memory for %lld losses", (long long)steps);
    if (*resume && access(resume, F_OK) == 0
        && !with_checkpoint(rg_distributed_load_checkpoint, &t))
        refuse("%s", rg_error());
    rg_on_error(stop_on_error);
    printf("%s: %lld characters, %lld different ones; a GPT of %lld parameters\n", path,
           (long long)rg_numel(c->all), (long long)c->vocabulary->n,
           (long long)rg_num_parameters(t.model));
    if (rg_rank() == 0) {
        t.report = BEGIN_PAGE(out, *resume, options);
        rg_report_text(t.report, "model", rg_module_repr(t.model));
    }
    if (t.step > 0)
        printf("  resumed after %.0f steps\n", t.step);
    else
        printf("  before: validation loss %.4f, of chance %.4f\n", validate(t.model, c->test),
               log((double)c->vocabulary->n));
    train(&t, c);
    printf("\n");
    rg_print_curve(t.losses, stdout, .title = "The loss on what it learns from, step by step:");
    if (rg_rank() == 0) {
        save_losses(out, t.losses, "Loss on what it learns from, step by step");
        end_page(t.report, out);
    }
    rg_optim_free(t.optimizer);
    return t.all;
}

/* Returns the encoded prompt or, without a prompt, the text's first character. */
static rg_tensor *encode_prompt(rg_vocabulary *vocabulary, rg_tensor *text) {
    rg_tensor *begin;
    if (*prompt)
        begin = rg_encode(vocabulary, prompt);
    else
        begin = text ? rg_narrow(text, 0, 0, 1) : rg_zeros_dims(RG_DIMS(1), RG_INT64);
    if (!begin) {
        rg_vocabulary_free(vocabulary);
        refuse("--prompt: %s", rg_error());
    }
    return begin;
}

int main(int argc, char *argv[]) {
    const char *path = read_command_line(argc, argv);
    begin_ranks();
    rg_set_num_threads((int)threads);
    corpus c = { 0 };
    rg_gpt *model = NULL;
    rg_distributed *all = NULL;
    if (*load)
        model = load_model(load, &c.vocabulary);
    else
        c = read_corpus(path);
    rg_tensor *begin = encode_prompt(c.vocabulary, c.all);
    rg_manual_seed((uint64_t)seed);
    if (!model) {
        make_folder(out);
        all = learn(&c, path);
        model = (rg_gpt *)all->module;
    }
    rg_on_error(stop_on_error);
    rg_eval(model);
    rg_tensor *written = rg_gpt_generate(model, rg_unsqueeze(begin, 0), sample,
                                         .temperature = temperature, .top_k = top_k);
    printf("\nIt writes:\n%s\n", rg_decode(c.vocabulary, written));
    rg_module_free(all ? (void *)all : model);
    rg_vocabulary_free(c.vocabulary);
    rg_destroy_process_group();
}

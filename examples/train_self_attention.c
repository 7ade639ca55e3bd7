/*
 * train_self_attention.c: trains the notebook's layer to guess each word of a
 * sentence from the others, and shows what it attends to. `make demo` runs it.
 *
 * A sentence of n words becomes n rows, and in row i word i is hidden: a special token replaces it,
 * and no word attends to that token. With `mpirun -n 4`, four processes divide the rows among them.
 */
#include "ranks.h"
#include "show.h"

#include <unistd.h>

/* ---- the layer ----------------------------------------------------------------- */

typedef struct {
    rg_module base;
    rg_tensor *w_query, *w_key, *w_value;
    int64_t d_out_kq;
} SelfAttention;

/* Returns the attention weights. x is (.., n, d_in). No word attends to the words at which
 * `hidden`, of shape (.., 1, n), is true. If `hidden` is RG_NONE, each word attends to all
 * words. */
static rg_tensor *attention_weights(SelfAttention *self, rg_tensor *x, rg_tensor *hidden) {
    rg_tensor *queries = rg_matmul(x, self->w_query);
    rg_tensor *keys = rg_matmul(x, self->w_key);
    rg_tensor *attn_scores = rg_matmul(queries, rg_mT(keys));
    if (hidden != RG_NONE)
        attn_scores = rg_masked_fill(attn_scores, hidden, -INFINITY);
    return rg_softmax(rg_div(attn_scores, sqrt((double)self->d_out_kq)), -1);
}

static rg_tensor *self_attention_forward2(rg_module *m, rg_tensor *x, rg_tensor *hidden) {
    SelfAttention *self = (SelfAttention *)m;
    rg_tensor *values = rg_matmul(x, self->w_value);
    return rg_matmul(attention_weights(self, x, hidden), values);
}

static rg_tensor *self_attention_forward(rg_module *m, rg_tensor *x) {
    return self_attention_forward2(m, x, RG_NONE);
}

static const rg_module_class self_attention_class = {
    .name = "SelfAttention",
    .forward = self_attention_forward,
    .forward2 = self_attention_forward2,
};

static SelfAttention *self_attention(int64_t d_in, int64_t d_out_kq, int64_t d_out_v) {
    SelfAttention *self = RG_MODULE(SelfAttention, &self_attention_class, .d_out_kq = d_out_kq);
    RG_PARAMETER(self, w_query, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_key, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_value, rg_randn(d_in, d_out_v));
    return RG_READY(self);
}

/* ---- the model: embedding, attention, projection ------------------------------- */

typedef struct {
    rg_module base;
    rg_embedding_module *word, *place;
    SelfAttention *attention;
    rg_linear_module *project;
    /* The token that replaces a hidden word. */
    int64_t hidden;
} Guesser;

static rg_tensor *embed(Guesser *self, rg_tensor *words) {
    return rg_add(rg_call(self->word, words), rg_call(self->place, rg_arange(rg_size(words, -1))));
}

/* Guesses the hidden word of each row of `words`, which is (rows, n). Returns scores for all
 * tokens: (rows, tokens). */
static rg_tensor *guesser_forward(rg_module *m, rg_tensor *words) {
    Guesser *self = (Guesser *)m;
    rg_tensor *hidden = rg_eq(words, self->hidden);
    rg_tensor *context = rg_call(self->attention, embed(self, words), rg_unsqueeze(hidden, 1));
    return rg_call(self->project, rg_index(context, hidden));
}

static const rg_module_class guesser_class = { .name = "Guesser", .forward = guesser_forward };

/* The embeddings are initialised with small numbers, so that attention is uniform at first. If
 * attention were on a single word, the layer would learn little. */
static Guesser *guesser(const rg_vocabulary *vocabulary, int64_t longest, int64_t d, int64_t d_kq,
                        int64_t d_v) {
    Guesser *self = RG_MODULE(Guesser, &guesser_class, .hidden = vocabulary->unknown);
    RG_CHILD(self, word, rg_nn_embedding(vocabulary->n, d));
    RG_CHILD(self, place, rg_nn_embedding(longest, d));
    RG_CHILD(self, attention, self_attention(d, d_kq, d_v));
    RG_CHILD(self, project, rg_nn_linear(d_v, vocabulary->n));
    rg_nn_init_normal_(self->word->weight, 0, 0.1);
    rg_nn_init_normal_(self->place->weight, 0, 0.1);
    return RG_READY(self);
}

/* Returns n copies of the words as a tensor (n, n). In row i, word i is hidden. */
static rg_tensor *hide_each(rg_tensor *words, int64_t hidden) {
    int64_t n = rg_numel(words);
    return rg_masked_fill(rg_expand(words, n, n), rg_bool(rg_eye(n, n)), hidden);
}

/* ---- the check of the gradients, before anything is trained -------------------- */

static rg_tensor *layer_of_inputs(rg_tensor *const in[], void *layer) {
    return rg_call(layer, in[0]);
}

/* Checks the gradients of the layer. A mismatch is an error, which stops the program. */
static void check_gradients(int64_t d, int64_t d_kq, int64_t d_v) {
    RG_SCOPE();
    SelfAttention *layer = self_attention(d, d_kq, d_v);
    rg_module_to(layer, RG_FLOAT64);
    rg_tensor *x = rg_requires_grad_(rg_double(rg_randn(4, d)), true);
    rg_tensor *in[] = { x, layer->w_query, layer->w_key, layer->w_value };
    rg_gradcheck(layer_of_inputs, layer, 4, in, .atol = 1e-7, .rtol = 1e-5);
    rg_gradgradcheck(layer_of_inputs, layer, 4, in, .atol = 1e-6, .rtol = 1e-4);
    printf("SelfAttention(%lld, %lld, %lld): its gradients with respect to x, w_query, w_key and "
           "w_value agree with\n"
           "finite differences in float64, and so do the gradients of its gradients.\n\n",
           (long long)d, (long long)d_kq, (long long)d_v);
    rg_module_free(layer);
}

/* ---- sentences as numbers ------------------------------------------------------ */

typedef struct {
    int n;
    rg_tensor **words; /* The words of each sentence, a vector. */
    /* The rows of each sentence, (length, length). In row i, word i is hidden. */
    rg_tensor **rows;
    int64_t longest, words_in_all;
} lesson;

/* The string of the token for a hidden word. No sentence may contain it. */
static const char hidden_word[] = "<hidden>";

static rg_vocabulary *words_of(int n, const char *const sentences[]) {
    size_t room = 1;
    for (int i = 0; i < n; i++)
        room += strlen(sentences[i]) + 1;
    char *all = calloc(room, 1);
    if (!all)
        refuse("no memory for the sentences");
    for (int i = 0; i < n; i++)
        strcat(strcat(all, sentences[i]), " ");
    rg_vocabulary *vocabulary = rg_vocabulary_new(all, .unknown = hidden_word);
    free(all);
    return vocabulary;
}

static lesson read_sentences(int n, const char *const sentences[],
                             const rg_vocabulary *vocabulary) {
    lesson l = { .n = n };
    const size_t count = n > 0 ? (size_t)n : 0;
    l.words = calloc(count, sizeof *l.words);
    l.rows = calloc(count, sizeof *l.rows);
    if (!l.words || !l.rows)
        refuse("no memory for the sentences");
    for (int i = 0; i < n; i++) {
        if (strstr(sentences[i], hidden_word))
            refuse("'%s' has the word %s, which stands for hidden ones", sentences[i], hidden_word);
        l.words[i] = rg_encode(vocabulary, sentences[i]);
        int64_t length = rg_numel(l.words[i]);
        if (length < 2)
            refuse("'%s' has %s: a sentence takes two words or more, and stands in quotes of its "
                   "own, as in make demo ARGS=\"'Let us go'\"",
                   sentences[i], length ? "one word" : "no words");
        l.longest = length > l.longest ? length : l.longest;
        l.words_in_all += length;
        l.rows[i] = hide_each(l.words[i], vocabulary->unknown);
    }
    return l;
}

/* ---- training, and showing the results ----------------------------------------- */

/* The state of the training. `resume` is the path of a checkpoint from which to resume, or "". Only
 * rank 0 has a report. */
typedef struct {
    Guesser *model;
    rg_distributed *all; /* The module through which all processes train the model. */
    rg_optim *optimizer;
    rg_tensor *losses; /* The losses of the steps, as float64. */
    double step;
    const char *resume;
    rg_report *report;
} training;

/* Saves or loads the checkpoint: f is rg_save_checkpoint or rg_load_checkpoint. */
static bool with_checkpoint(bool (*f)(const char *path, rg_training run), training *t) {
    return f(t->resume, (rg_training){ .model = t->model,
                                       .optim = t->optimizer,
                                       .tensors = { 1, (rg_named[]){ { "losses", t->losses } } },
                                       .numbers = RG_NUMBERS({ "step", &t->step }) });
}

/* Returns a shard's part of the rows of a sentence, or of its words. The sizes of the parts differ
 * by at most one. */
static rg_tensor *part_of(rg_tensor *rows, int shard, int shards) {
    const int64_t n = rg_size(rows, 0), from = n * shard / shards;
    return rg_narrow(rows, 0, from, n * (shard + 1) / shards - from);
}

/* Returns a shard's part of the loss, times the number of shards, so that the mean over the shards
 * is the mean over all words. */
static rg_tensor *loss_of_shard(const training *t, const lesson *l, int shard) {
    const int shards = t->all->shards;
    rg_tensor *guesses[l->n], *targets[l->n];
    for (int i = 0; i < l->n; i++) {
        guesses[i] = rg_call(t->all, part_of(l->rows[i], shard, shards));
        targets[i] = part_of(l->words[i], shard, shards);
    }
    rg_tensor *guess = rg_cat((rg_list){ l->n, guesses }, 0);
    rg_tensor *target = rg_cat((rg_list){ l->n, targets }, 0);
    rg_tensor *loss = rg_cross_entropy(guess, target, .reduction = RG_SUM);
    return rg_div(loss, (double)l->words_in_all / shards);
}

/* Runs backward for each shard's loss, and returns the mean of the losses. */
static double learn(const training *t, const lesson *l) {
    rg_tensor *losses = rg_zeros_dims(RG_DIMS(t->all->shards), RG_FLOAT64);
    double *of_shard = rg_data_as(double, losses);
    RG_FOR (int i = 0; i < t->all->local; i++) {
        const int shard = t->all->first + i;
        rg_tensor *loss = loss_of_shard(t, l, shard);
        rg_backward(loss);
        of_shard[shard] = rg_item(loss);
    }
    return rg_item(rg_mean(rg_all_reduce_(losses)));
}

/* Returns a matrix. Row i has the attention from the position of word i to the other words, while
 * word i is hidden. */
static rg_tensor *attention_while_hidden(Guesser *model, rg_tensor *words) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *rows = hide_each(words, model->hidden);
    rg_tensor *hidden = rg_unsqueeze(rg_eq(rows, model->hidden), 1);
    rg_tensor *weights = attention_weights(model->attention, embed(model, rows), hidden);
    return rg_escape(rg_contiguous(rg_double(rg_T(rg_diagonal(weights, 0, 0, 1)))));
}

/* Sets labels[i] to the text of word i. */
static void label_words(const rg_vocabulary *vocabulary, rg_tensor *words, const char *labels[]) {
    for (int i = 0; i < (int)rg_numel(words); i++)
        labels[i] = vocabulary->tokens[(int64_t)rg_at(words, i)];
}

/* Adds to the page what the layer attends to, its weights and their gradients. */
static void report_model(const training *t, const lesson *l, const rg_vocabulary *vocabulary,
                         int64_t step) {
    RG_SCOPE();
    for (int i = 0; i < l->n; i++) {
        const int n = (int)rg_numel(l->words[i]);
        const char *labels[n];
        char name[48];
        label_words(vocabulary, l->words[i], labels);
        snprintf(name, sizeof name, "attention/sentence %d", i + 1);
        rg_report_picture(t->report, name, step, attention_while_hidden(t->model, l->words[i]),
                          .rows = { n, labels }, .columns = { n, labels });
    }
    rg_report_parameters(t->report, step, t->model);
}

static void train(training *t, const lesson *l, const rg_vocabulary *vocabulary) {
    const int64_t steps = rg_numel(t->losses);
    double *losses = rg_data_as(double, t->losses);
    rg_progress progress = rg_progress_begin(stdout, steps);
    RG_FOR (int64_t step = (int64_t)t->step; step < steps; step++) {
        rg_optim_zero_grad(t->optimizer);
        losses[step] = learn(t, l);
        rg_optim_step(t->optimizer);
        t->step = (double)step + 1;
        if (t->report)
            rg_report_number(t->report, "loss", step + 1, losses[step]);
        if (t->report && (step % (steps / 20 + 1) == 0 || step + 1 == steps))
            report_model(t, l, vocabulary, step + 1);
        rg_progress_show(&progress, step + 1, "loss %.4f", losses[step]);
        if (*t->resume && ((step + 1) % 100 == 0 || step + 1 == steps))
            with_checkpoint(rg_distributed_save_checkpoint, t);
    }
}

/* Shows a heat map of attention_while_hidden. */
static void show_attention(Guesser *model, const rg_vocabulary *vocabulary, rg_tensor *words,
                           const char *folder, int number) {
    RG_SCOPE();
    RG_NO_GRAD();
    int n = (int)rg_numel(words);
    rg_tensor *weights = attention_while_hidden(model, words);
    const char *labels[n];
    label_words(vocabulary, words, labels);
    rg_tensor *guesses = rg_argmax_dim(rg_call(model, hide_each(words, model->hidden)), -1, false);
    const rg_names names = { n, labels };
    printf("\n");
    rg_print_heat_map(weights, stdout, .rows = names, .columns = names, .high = 1,
                      .title = "To guess the word at the left, the layer attends to:");
    printf("It guesses: %s\n", rg_decode(vocabulary, guesses));
    char path[4096];
    snprintf(path, sizeof path, number ? "%s/attention-%d.svg" : "%s/attention.svg", folder,
             number + 1);
    rg_save_heat_map(weights, path, .rows = names, .columns = names, .high = 1,
                     .title = "Attention of each hidden word to the others");
    printf("wrote %s\n", path);
}

/* Shows the results as text and as pictures. Only rank 0 calls this. */
static void show(const training *t, const lesson *l, const rg_vocabulary *vocabulary,
                 const char *out) {
    printf("\n");
    rg_print_curve(t->losses, stdout, .title = "The loss (cross-entropy), step by step:");
    for (int i = 0; i < l->n; i++)
        show_attention(t->model, vocabulary, l->words[i], out, i);
    save_losses(out, t->losses, "Loss, step by step");
}

int main(int argc, char *argv[]) {
    int64_t steps = 400, seed = 123, d = 8, d_kq = 4, d_v = 8, shards = 0;
    double lr = 0.01;
    const char *out = "build/demo", *save = "", *resume = "";
    const char *standard[] = { "Life is short, eat dessert first" };
    const option options[] = {
        { "steps", WHOLE, &steps, 1, 1e8, "how many to train" },
        { "lr", NUMBER, &lr, 0, 1e6, "learning rate of AdamW" },
        { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
        { "dim", WHOLE, &d, 1, 4096, "numbers that a word is embedded as" },
        { "dim-kq", WHOLE, &d_kq, 1, 4096, "of a query and of a key" },
        { "dim-v", WHOLE, &d_v, 1, 4096, "of a value" },
        { "out", TEXT, &out, 0, 0, "folder for the pictures and the page of the run" },
        { "save", TEXT, &save, 0, 0, "file for the weights that it learns" },
        { "resume", TEXT, &resume, 0, 0,
          "a checkpoint: training goes on from it if it is there, and writes it" },
        { "shards", WHOLE, &shards, 0, 65536,
          "parts of a step, which processes take among them; 0 is one for each" },
    };
    int first = READ_OPTIONS(argc, argv, "[sentence ...]", options);
    begin_ranks();
    const char *const *sentences = first < argc ? (const char *const *)argv + first : standard;
    int n_sentences = first < argc ? argc - first : 1;
    rg_on_error(stop_on_error);
    make_folder(out);
    rg_vocabulary *vocabulary = words_of(n_sentences, sentences);
    lesson l = read_sentences(n_sentences, sentences, vocabulary);

    rg_manual_seed((uint64_t)seed);
    check_gradients(d, d_kq, d_v);
    Guesser *model = guesser(vocabulary, l.longest, d, d_kq, d_v);
    printf("%s\n\n%lld parameters, %lld words of %lld different ones\n", rg_module_repr(model),
           (long long)rg_num_parameters(model), (long long)l.words_in_all,
           (long long)vocabulary->n - 1);
    rg_distributed *all = rg_nn_distributed(model, .shards = (int)shards);
    rg_optim *optimizer = rg_optim_adamw(rg_parameters(model), .lr = lr, .weight_decay = 0.1);
    rg_tensor *losses = rg_zeros_dims(RG_DIMS(steps), RG_FLOAT64);
    training t = { model, all, optimizer, losses, 0, resume, NULL };
    if (rg_rank() == 0) {
        t.report = BEGIN_PAGE(out, *resume, options);
        rg_report_text(t.report, "model", rg_module_repr(model));
    }
    if (*resume && access(resume, F_OK) == 0) {
        with_checkpoint(rg_distributed_load_checkpoint, &t);
        printf("resumed after %.0f steps\n", t.step);
    }
    train(&t, &l, vocabulary);
    if (*save && rg_rank() == 0)
        rg_module_save(model, save);
    if (rg_rank() == 0) {
        show(&t, &l, vocabulary, out);
        end_page(t.report, out);
    }
    free(l.words);
    free(l.rows);
    rg_optim_free(optimizer);
    rg_module_free(all);
    rg_vocabulary_free(vocabulary);
    rg_destroy_process_group();
}

/*
 * learners.c: writes the training of small models as C files that need no library, and prints the
 * losses that these files will print. `make mcu` runs them on an emulated microcontroller, and
 * `make web` in a page:
 *
 *     build/examples/learners --out build/learners
 *
 * The model self_attention guesses each word of a sentence from the others, as `make demo` does. A
 * sentence has at most PLACES words, which are whole numbers below WORDS. The layer is the
 * notebook's (examples/notebooks/self_attention_module.c).
 *
 * The model microgpt learns names and makes up new ones, as examples/microgpt.c does. It has two
 * files: one trains, and the other computes which letter may come next.
 */
#include "few_names.h"
#include "options.h"

static int64_t steps = 400, seed = 123;
static const char *out = "build/learners";

static const option options[] = {
    { "steps", WHOLE, &steps, 1, 1e8, "to print the losses of" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "out", TEXT, &out, 0, 0, "folder for the files" },
};

/* ---- files ---------------------------------------------------------------------- */

/* Writes a line for a number: its bits, which only the same number has, and its value. */
static void write_number(FILE *f, double x) {
    const float number = (float)x;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    fprintf(f, "0x%08x  %.4f\n", bits, x);
}

static const char *path_of(const char *name, const char *ending) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", out, name, ending);
    return path;
}

/* Writes a step to the file NAME.c in the folder. */
static void write_step(const char *name, rg_replay *r, rg_list parameters, rg_list inputs,
                       rg_tensor *output, rg_list more) {
    const char *path = path_of(name, ".c");
    rg_replay_to_c(r, path, .name = name, .parameters = parameters, .inputs = inputs,
                   .output = output, .more_outputs = more);
    printf("wrote %s\n", path);
}

/* Writes the losses of the step's next repetitions to NAME.txt. Before repetition i, calls
 * give(context, i), if give isn't NULL. */
static void write_losses(const char *name, rg_replay *r, rg_tensor *loss,
                         void (*give)(void *context, int64_t i), void *context) {
    const char *path = path_of(name, ".txt");
    FILE *f = fopen(path, "w");
    if (!f)
        refuse("can't write '%s': %s", path, strerror(errno));
    for (int64_t i = 0; i < steps; i++) {
        if (give)
            give(context, i);
        rg_replay_run(r);
        write_number(f, rg_item(loss));
    }
    fclose(f);
    printf("wrote %s: after %lld steps the loss is %.4f\n", path, (long long)steps, rg_item(loss));
}

/* ---- a layer that guesses words ---------------------------------------------------- */

enum { PLACES = 8, WORDS = 8, DIM = 8, DIM_KQ = 4, DIM_V = 8 };

/* The parameters, in the order in which the written file has them, and the inputs. words[i] is the
 * word at place i. In hidden, of shape (PLACES, PLACES), place i attends to no place j at which
 * hidden[i, j] is true: to itself, and to those behind the sentence's end. targets[i] is words[i],
 * or -100 behind the end. */
typedef struct {
    rg_tensor *word, *place, *w_query, *w_key, *w_value, *project, *bias;
    rg_tensor *words, *hidden, *targets;
    /* What the step computes: the loss, the attention weights, and the scores that the layer gives
     * each word at each place, of shape (PLACES, WORDS). */
    rg_tensor *loss, *attention, *scores;
    rg_optim *optimizer;
} guesser;

static rg_tensor *weights(int64_t rows, int64_t columns, double deviation) {
    return rg_requires_grad_(rg_mul(rg_randn(rows, columns), deviation), true);
}

/* The embeddings are small, so that attention is uniform at first. */
static guesser new_guesser(void) {
    guesser g = { .loss = NULL };
    g.word = weights(WORDS, DIM, 0.1);
    g.place = weights(PLACES, DIM, 0.1);
    g.w_query = weights(DIM, DIM_KQ, 1);
    g.w_key = weights(DIM, DIM_KQ, 1);
    g.w_value = weights(DIM, DIM_V, 1);
    g.project = weights(WORDS, DIM_V, 1 / sqrt(DIM_V));
    g.bias = rg_requires_grad_(rg_zeros(WORDS), true);
    g.words = rg_zeros_dims(RG_DIMS(PLACES), RG_INT64);
    g.hidden = rg_zeros_dims(RG_DIMS(PLACES, PLACES), RG_BOOL);
    g.targets = rg_zeros_dims(RG_DIMS(PLACES), RG_INT64);
    return g;
}

/* Sets the inputs to a sentence of the words 0, 1, .., n - 1. */
static void give_sentence(guesser *g, int n) {
    for (int i = 0; i < PLACES; i++) {
        rg_data_as(int64_t, g->words)[i] = i < n ? i : 0;
        rg_data_as(int64_t, g->targets)[i] = i < n ? i : -100;
        for (int k = 0; k < PLACES; k++)
            rg_data_as(bool, g->hidden)[i * PLACES + k] = k == i || k >= n;
    }
}

/* One step of training. The query of a place is made of the place alone, since its word is to be
 * guessed. Keys and values are made of words and places. */
static void step_of_guesser(void *context) {
    RG_SCOPE();
    guesser *g = context;
    rg_tensor *x = rg_add(rg_embedding(g->words, g->word), g->place);
    rg_tensor *queries = rg_matmul(g->place, g->w_query);
    rg_tensor *keys = rg_matmul(x, g->w_key);
    rg_tensor *products = rg_masked_fill(rg_matmul(queries, rg_T(keys)), g->hidden, -INFINITY);
    rg_tensor *attention = rg_softmax(rg_div(products, sqrt(DIM_KQ)), -1);
    rg_tensor *contexts = rg_matmul(attention, rg_matmul(x, g->w_value));
    rg_tensor *scores = rg_linear(contexts, g->project, g->bias);
    rg_tensor *loss = rg_cross_entropy(scores, g->targets);
    rg_optim_zero_grad(g->optimizer);
    rg_backward(loss);
    rg_optim_step(g->optimizer);
    if (!g->loss) {
        g->loss = rg_keep(rg_detach(loss));
        g->attention = rg_keep(rg_detach(attention));
        g->scores = rg_keep(rg_detach(scores));
    }
}

static void write_guesser(void) {
    guesser g = new_guesser();
    rg_list parameters = RG_LIST(g.word, g.place, g.w_query, g.w_key, g.w_value, g.project, g.bias);
    g.optimizer = rg_optim_sgd(parameters, .lr = 0.1);
    give_sentence(&g, 6);
    rg_replay *r = rg_record(step_of_guesser, &g);
    write_step("self_attention", r, parameters, RG_LIST(g.words, g.hidden, g.targets), g.loss,
               RG_LIST(g.attention, g.scores));
    write_losses("self_attention", r, g.loss, NULL, NULL);
    rg_replay_free(r);
    rg_drop(g.loss);
    rg_drop(g.attention);
    rg_drop(g.scores);
    rg_optim_free(g.optimizer);
}

/* ---- a GPT that makes up names ----------------------------------------------------- */

/* A token is a letter, 0 for a, .. 25 for z, or MARK, which begins and ends each name. */
enum { MARK = 26, TOKENS = 27, BLOCK = 16, WIDTH = 16, HEADS = 4 };

/* The model of examples/microgpt.c. In a step of training, targets[i] is the token that follows
 * after tokens[i], or -100 behind the name. A step of use computes chances[i, t], the chance that
 * token t follows after tokens[0], .. tokens[i]. A low temperature makes likely tokens likelier. */
typedef struct {
    rg_tensor *token, *place, *logits, *qkv, *out, *up, *down;
    rg_tensor *tokens, *targets, *temperature;
    rg_tensor *loss, *chances;
    rg_optim *optimizer;
} microgpt;

static microgpt new_microgpt(void) {
    microgpt m = { .loss = NULL };
    m.token = weights(TOKENS, WIDTH, 0.08);
    m.place = weights(BLOCK, WIDTH, 0.08);
    m.logits = weights(TOKENS, WIDTH, 0.08);
    m.qkv = weights(3 * WIDTH, WIDTH, 0.08);
    m.out = weights(WIDTH, WIDTH, 0.08);
    m.up = weights(4 * WIDTH, WIDTH, 0.08);
    m.down = weights(WIDTH, 4 * WIDTH, 0.08);
    m.tokens = rg_zeros_dims(RG_DIMS(BLOCK), RG_INT64);
    m.targets = rg_zeros_dims(RG_DIMS(BLOCK), RG_INT64);
    m.temperature = rg_full(RG_DIMS(1), 0.5);
    return m;
}

static rg_tensor *linear(rg_tensor *x, rg_tensor *w) { return rg_linear(x, w, RG_NONE); }
static rg_tensor *norm(rg_tensor *x) { return rg_rms_norm(x, RG_DIMS(WIDTH), RG_NONE, 1e-5); }

static rg_tensor *logits_of(const microgpt *m) {
    rg_tensor *x = norm(rg_add(rg_embedding(m->tokens, m->token), m->place));
    rg_tensor *qkv = rg_unsqueeze(linear(norm(x), m->qkv), 0);
    rg_tensor *attention = rg_squeeze_dim(rg_joint_attention(qkv, HEADS, true), 0);
    x = rg_add(x, linear(attention, m->out));
    x = rg_add(x, linear(rg_relu(linear(norm(x), m->up)), m->down));
    return linear(x, m->logits);
}

static void train_microgpt(void *context) {
    RG_SCOPE();
    microgpt *m = context;
    rg_tensor *loss = rg_cross_entropy(logits_of(m), m->targets);
    rg_optim_zero_grad(m->optimizer);
    rg_backward(loss);
    rg_optim_step(m->optimizer);
    if (!m->loss)
        m->loss = rg_keep(rg_detach(loss));
}

static void use_microgpt(void *context) {
    RG_SCOPE();
    microgpt *m = context;
    RG_NO_GRAD();
    rg_tensor *chances = rg_softmax(rg_div(logits_of(m), m->temperature), -1);
    if (!m->chances)
        m->chances = rg_keep(chances);
}

/* Sets tokens and targets to those of a name. */
static void give_name(void *context, int64_t i) {
    microgpt *m = context;
    const char *name = few_names[i % FEW_NAMES];
    const int n = (int)strlen(name);
    int64_t *tokens = rg_data_as(int64_t, m->tokens), *targets = rg_data_as(int64_t, m->targets);
    for (int k = 0; k < BLOCK; k++) {
        tokens[k] = k > 0 && k <= n ? name[k - 1] - 'a' : MARK;
        targets[k] = k > n ? -100 : MARK;
        if (k < n)
            targets[k] = name[k] - 'a';
    }
}

static rg_optim *new_adam(rg_list parameters) {
    return rg_optim_adam(parameters, .lr = 0.01, .betas = { 0.85, 0.99 });
}

static void write_microgpt(void) {
    microgpt m = new_microgpt();
    rg_list parameters = RG_LIST(m.token, m.place, m.logits, m.qkv, m.out, m.up, m.down);
    m.optimizer = new_adam(parameters);
    give_name(&m, 0);
    rg_replay *train = rg_record(train_microgpt, &m), *use = rg_record(use_microgpt, &m);
    /* Recording has made a step. The moments are set to zero again, since the file has no text for
     * zeros: 33 KB less flash. */
    rg_optim *unused = new_adam(parameters);
    rg_optim_load_state_dict(m.optimizer, rg_optim_state_dict(unused));
    rg_optim_free(unused);
    write_step("microgpt", train, parameters, RG_LIST(m.tokens, m.targets), m.loss, RG_LIST());
    write_step("microgpt_use", use, parameters, RG_LIST(m.tokens, m.temperature), m.chances,
               RG_LIST());
    write_losses("microgpt", train, m.loss, give_name, &m);
    rg_replay_free(train);
    rg_replay_free(use);
    rg_drop(m.loss);
    rg_drop(m.chances);
    rg_optim_free(m.optimizer);
}

int main(int argc, char *argv[]) {
    if (READ_OPTIONS(argc, argv, "", options) < argc)
        refuse("takes options alone, and not '%s'", argv[argc - 1]);
    rg_on_error(stop_on_error);
    rg_manual_seed((uint64_t)seed);
    make_folder(out);
    write_guesser();
    write_microgpt();
}

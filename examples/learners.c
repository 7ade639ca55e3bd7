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
 */
#include "options.h"

static int64_t steps = 400, seed = 123;
static const char *out = "build/learners";

static const option options[] = {
    { "steps", WHOLE, &steps, 1, 1e8, "to print the losses of" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "out", TEXT, &out, 0, 0, "folder for the files" },
};

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

/* Writes a line for a number: its bits, which only the same number has, and its value. */
static void write_number(FILE *f, double x) {
    const float number = (float)x;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    fprintf(f, "0x%08x  %.4f\n", bits, x);
}

/* Writes a step to the file NAME.c in the folder, and the losses of its next repetitions to
 * NAME.txt. */
static void write_step(const char *name, rg_replay *r, rg_list parameters, rg_list inputs,
                       rg_tensor *loss, rg_list more) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.c", out, name);
    rg_replay_to_c(r, path, .name = name, .parameters = parameters, .inputs = inputs,
                   .output = loss, .more_outputs = more);
    printf("wrote %s\n", path);
    snprintf(path, sizeof path, "%s/%s.txt", out, name);
    FILE *f = fopen(path, "w");
    if (!f)
        refuse("can't write '%s': %s", path, strerror(errno));
    for (int64_t i = 0; i < steps && rg_replay_run(r); i++)
        write_number(f, rg_item(loss));
    fclose(f);
    printf("wrote %s: after %lld steps the loss is %.4f\n", path, (long long)steps, rg_item(loss));
}

static void write_guesser(void) {
    guesser g = new_guesser();
    rg_list parameters = RG_LIST(g.word, g.place, g.w_query, g.w_key, g.w_value, g.project, g.bias);
    g.optimizer = rg_optim_sgd(parameters, .lr = 0.1);
    give_sentence(&g, 6);
    rg_replay *r = rg_record(step_of_guesser, &g);
    write_step("self_attention", r, parameters, RG_LIST(g.words, g.hidden, g.targets), g.loss,
               RG_LIST(g.attention, g.scores));
    rg_replay_free(r);
    rg_drop(g.loss);
    rg_drop(g.attention);
    rg_drop(g.scores);
    rg_optim_free(g.optimizer);
}

int main(int argc, char *argv[]) {
    if (READ_OPTIONS(argc, argv, "", options) < argc)
        refuse("takes options alone, and not '%s'", argv[argc - 1]);
    rg_on_error(stop_on_error);
    rg_manual_seed((uint64_t)seed);
    make_folder(out);
    write_guesser();
}

/*
 * microgpt.c: a GPT that reads names and makes up new ones, on one page. It is a translation of A.
 * Karpathy's microgpt.py (February 2026), two hundred lines of Python that use no library. The
 * model, the training and the random numbers are the same, so both programs print the same losses,
 * to four decimals, and the same new names, for any file of names:
 *
 *     build/examples/microgpt examples/names.txt
 *     build/examples/microgpt --fast examples/names.txt       in float32, and replayed
 */
#include "documents.h"
#include "options.h"
#include "python_random.h"

static int64_t steps = 1000, samples = 20, seed = 42;
static double temperature = 0.5;
static bool fast = false;

static const option options[] = {
    { "steps", WHOLE, &steps, 1, 1e8, "to train, on one name each" },
    { "samples", WHOLE, &samples, 0, 1e8, "names to make up" },
    { "temperature", NUMBER, &temperature, 1e-3, 1e6, "lower is safer, higher is wilder" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "fast", FLAG, &fast, 0, 0, "float32 in place of float64, and steps that are replayed" },
};

/* ---- the model ------------------------------------------------------------------- */

enum { LAYERS = 1, DIM = 16, BLOCK = 16, HEADS = 4 };

/* The weights: the embeddings of tokens and of positions, the matrix that computes logits and, in
 * each layer, the matrices of attention and of two linear maps. There are no biases. */
typedef struct {
    rg_tensor *token, *place, *logits;
    struct {
        rg_tensor *qkv, *out, *up, *down;
    } layer[LAYERS];
    int n;
    rg_tensor *all[3 + 4 * LAYERS]; /* All these weights in one list. */
} gpt;

static rg_tensor *add_weights(gpt *m, python_random *r, int64_t rows, int64_t columns) {
    rg_tensor *w = rg_zeros_dims(RG_DIMS(rows, columns), RG_FLOAT64);
    double *v = rg_data_as(double, w);
    for (int64_t i = 0; i < rows * columns; i++)
        v[i] = python_gauss(r, 0, 0.08);
    w = rg_requires_grad_(rg_to(w, fast ? RG_FLOAT32 : RG_FLOAT64), true);
    m->all[m->n++] = w;
    return w;
}

static gpt new_gpt(python_random *r, int64_t tokens) {
    gpt m = { .n = 0 };
    m.token = add_weights(&m, r, tokens, DIM);
    m.place = add_weights(&m, r, BLOCK, DIM);
    m.logits = add_weights(&m, r, tokens, DIM);
    for (int i = 0; i < LAYERS; i++) {
        m.layer[i].qkv = add_weights(&m, r, 3 * DIM, DIM);
        m.layer[i].out = add_weights(&m, r, DIM, DIM);
        m.layer[i].up = add_weights(&m, r, 4 * DIM, DIM);
        m.layer[i].down = add_weights(&m, r, DIM, 4 * DIM);
    }
    return m;
}

static rg_tensor *linear(rg_tensor *x, rg_tensor *w) { return rg_linear(x, w, RG_NONE); }
static rg_tensor *norm(rg_tensor *x) { return rg_rms_norm(x, RG_DIMS(DIM), RG_NONE, 1e-5); }

/* Computes attention. Each token has a query, a key and a value, which are divided among the heads.
 * A token attends to itself and to earlier tokens. */
static rg_tensor *attention(rg_tensor *x, rg_tensor *qkv) {
    rg_tensor *batch = rg_unsqueeze(linear(x, qkv), 0);
    return rg_squeeze_dim(rg_joint_attention(batch, HEADS, true), 0);
}

/* Returns the logits of the next token after each of n tokens. */
static rg_tensor *forward(const gpt *m, rg_tensor *tokens) {
    rg_tensor *places = rg_narrow(m->place, 0, 0, rg_numel(tokens));
    rg_tensor *x = norm(rg_add(rg_embedding(tokens, m->token), places));
    for (int i = 0; i < LAYERS; i++) {
        x = rg_add(x, linear(attention(norm(x), m->layer[i].qkv), m->layer[i].out));
        x = rg_add(x, linear(rg_relu(linear(norm(x), m->layer[i].up)), m->layer[i].down));
    }
    return linear(x, m->logits);
}

/* ---- training -------------------------------------------------------------------- */

typedef struct {
    gpt model;
    rg_optim *adam;
} training;

/* Makes a training step with a name of n + 1 tokens: after each of the first n, the next token is
 * predicted. Returns the loss. */
static rg_tensor *step(rg_tensor *const name[], void *context) {
    training *t = context;
    int64_t n = rg_numel(name[0]) - 1;
    rg_tensor *logits = forward(&t->model, rg_narrow(name[0], 0, 0, n));
    rg_tensor *loss = rg_cross_entropy(logits, rg_narrow(name[0], 0, 1, n));
    rg_optim_zero_grad(t->adam);
    rg_backward(loss);
    rg_optim_step(t->adam);
    return loss;
}

/* Trains on one name after the other, while the learning rate falls linearly. With --fast, the step
 * is recorded once for each length of names, and then replayed. */
static void train(training *t, int64_t n, rg_tensor *const names[]) {
    rg_replays *replays = rg_replays_new(step, t);
    double begin = seconds();
    RG_FOR (int64_t i = 0; i < steps; i++) {
        rg_optim_group(t->adam, 0)->lr = 0.01 * (1 - (double)i / (double)steps);
        rg_tensor *const *name = &names[i % n];
        rg_tensor *loss = fast ? rg_replays_run(replays, 1, name) : step(name, t);
        printf("step %4lld / %4lld | loss %.4f\r", (long long)i + 1, (long long)steps,
               rg_item(loss));
    }
    double took = seconds() - begin;
    rg_replays_free(replays);
    fflush(stdout);
    fprintf(stderr, "\n%lld steps in %.4f s: %.1f microseconds each\n", (long long)steps, took,
            1e6 * took / (double)steps);
}

/* ---- names and their tokens ------------------------------------------------------ */

/* Returns the vocabulary of the names. Each character is a token, in alphabetical order. The last
 * token marks the beginning and the end of a name. */
static rg_vocabulary *alphabet_of(const documents *names) {
    size_t bytes = 1;
    for (uint32_t i = 0; i < names->n; i++)
        bytes += strlen(names->v[i]);
    char *all = malloc(bytes), *end = all;
    if (!all)
        refuse("no memory for the names");
    for (uint32_t i = 0; i < names->n; i++)
        end = stpcpy(end, names->v[i]);
    rg_vocabulary *alphabet = rg_vocabulary_new(all, .characters = true, .unknown = "<name>");
    free(all);
    return alphabet;
}

/* Returns the first BLOCK + 1 tokens of a name. The last of them is used only as a target. */
static rg_tensor *tokens_of(const rg_vocabulary *alphabet, const char *name) {
    rg_tensor *letters = rg_encode(alphabet, name);
    double mark = (double)alphabet->unknown;
    rg_tensor *tokens = rg_pad_with(letters, RG_DIMS(1, 1), RG_CONSTANT, mark);
    int64_t n = rg_numel(tokens);
    return rg_narrow(tokens, 0, 0, n < BLOCK + 1 ? n : BLOCK + 1);
}

/* Generates a name, token by token. */
static void print_sample(const gpt *m, const rg_vocabulary *alphabet, python_random *r) {
    int64_t tokens[BLOCK + 1] = { alphabet->unknown };
    RG_NO_GRAD();
    RG_FOR (int n = 1; n <= BLOCK; n++) {
        rg_tensor *logits = rg_select(forward(m, rg_from(tokens, n)), 0, -1);
        rg_tensor *chances = rg_double(rg_softmax(rg_div(logits, temperature), -1));
        tokens[n] = python_choice(r, alphabet->n, rg_data_as(double, chances));
        if (tokens[n] == alphabet->unknown)
            break;
        fputs(alphabet->tokens[tokens[n]], stdout);
    }
    printf("\n");
}

int main(int argc, char *argv[]) {
    int first = READ_OPTIONS(argc, argv, "[file of names (examples/names.txt)]", options);
    if (argc > first + 1)
        refuse("takes one file, not '%s' too", argv[first + 1]);
    documents names = read_documents(first < argc ? argv[first] : "examples/names.txt");
    rg_on_error(stop_on_error);
    python_random random;
    python_seed(&random, (uint64_t)seed);
    python_shuffle(&random, names.v, names.n);
    printf("num docs: %u\n", names.n);
    rg_vocabulary *alphabet = alphabet_of(&names);
    printf("vocab size: %lld\n", (long long)alphabet->n);
    training t = { .model = new_gpt(&random, alphabet->n) };
    rg_list weights = { t.model.n, t.model.all };
    t.adam = rg_optim_adam(weights, .betas = { 0.85, 0.99 });
    printf("num params: %lld\n", (long long)rg_numel(rg_parameters_to_vector(weights)));

    int64_t n = steps < names.n ? steps : names.n;
    rg_tensor **tokens = calloc((size_t)n, sizeof *tokens);
    if (!tokens)
        refuse("no memory for %lld names", (long long)n);
    for (int64_t i = 0; i < n; i++)
        tokens[i] = tokens_of(alphabet, names.v[i]);
    train(&t, n, tokens);

    printf("\n--- inference (new, hallucinated names) ---\n");
    for (int64_t i = 0; i < samples; i++) {
        printf("sample %2lld: ", (long long)i + 1);
        print_sample(&t.model, alphabet, &random);
    }
    rg_optim_free(t.adam);
    rg_vocabulary_free(alphabet);
    free(tokens);
    free_documents(&names);
}

/*
 * decoder.c: language models of Llama's kind, on one page: Llama, SmolLM, Qwen2, Qwen3 and Gemma.
 * It reads a model from a folder of Hugging Face's transformers, continues a text, and learns from
 * one: all weights, or a few that are added to them (LoRA), whose files are PEFT's.
 *
 *     build/examples/decoder SmolLM-135M "The capital of France is"
 *     build/examples/decoder SmolLM-135M --train notes.txt --lora 8 --save adapter
 *     build/examples/decoder SmolLM-135M --adapter adapter "The capital of France is"
 *
 * If the folder has no tokenizer.json, texts are numbers of tokens with blanks between them.
 */
#include "decoder_folder.h"

static int64_t tokens = 100, top_k = 0, seed = 1337, steps = 100, length = 128, rank = 0;
static double temperature = 1, top_p = 1, min_p = 0, penalty = 1, lr = 1e-4, alpha = 16;
static const char *text_file = "", *save = "", *adapter = "", *logits_file = "";
static bool uncached = false;

static const option options[] = {
    { "tokens", WHOLE, &tokens, 0, 1e8, "how many to write, unless the text ends before" },
    { "temperature", NUMBER, &temperature, 0, 1e6, "lower is safer; 0: the likeliest token" },
    { "top-k", WHOLE, &top_k, 0, 1e15, "choose among so many tokens; 0: among all" },
    { "top-p", NUMBER, &top_p, 0, 1, "choose among the likeliest that have this share" },
    { "min-p", NUMBER, &min_p, 0, 1, "choose among those with this share of the likeliest's" },
    { "penalty", NUMBER, &penalty, 1e-3, 1e3, "above 1: tokens of the text come less often" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "train", TEXT, &text_file, 0, 0, "a text to learn from" },
    { "steps", WHOLE, &steps, 0, 1e9, "to train" },
    { "length", WHOLE, &length, 1, 1e6, "tokens that one step learns from" },
    { "lr", NUMBER, &lr, 0, 1e3, "learning rate" },
    { "lora", WHOLE, &rank, 0, 1e5, "the rank of matrices that are trained alone; 0: train all" },
    { "alpha", NUMBER, &alpha, 1e-6, 1e6, "these matrices' product counts alpha / rank" },
    { "adapter", TEXT, &adapter, 0, 0, "a folder with such matrices, to begin with" },
    { "save", TEXT, &save, 0, 0, "the folder for the trained weights" },
    { "logits", TEXT, &logits_file, 0, 0, "a file.npy for the logits after each token" },
    { "half", FLAG, &half, 0, 0,
      "compute in bfloat16 or float16 if the weights are, in half the memory" },
    { "uncached", FLAG, &uncached, 0, 0, "compute all tokens again for each new one" },
};

/* ---- the model ------------------------------------------------------------------- */

static rg_tensor *apply(const linear *l, rg_tensor *x) {
    rg_tensor *y = rg_linear(x, l->weight, l->bias);
    if (l->a == RG_NONE)
        return y;
    rg_tensor *low = rg_linear(x, l->a, RG_NONE);
    return rg_add(y, rg_mul(rg_linear(low, l->b, RG_NONE), m.scale));
}

/* Normalizes the last dim. Gemma's files have the weights minus 1. */
static rg_tensor *norm(rg_tensor *x, rg_tensor *weight) {
    return rg_rms_norm(x, rg_shape(weight), m.gemma ? rg_add(weight, 1) : weight, m.eps);
}

/* Returns which of `all` tokens each of the last n tokens attends to: to itself and to earlier
 * ones, up to the window. */
static rg_tensor *mask_of(int64_t n, int64_t all, int64_t window) {
    rg_tensor *mask = rg_tril(rg_ones_dims(RG_DIMS(n, all), RG_BOOL), all - n);
    return window ? rg_triu(mask, all - n - window + 1) : mask;
}

static rg_tensor *attention(layer *l, rg_tensor *x, rg_tensor *cos, rg_tensor *sin, bool cached) {
    rg_tensor *y[3];
    for (int i = Q; i <= V; i++) {
        y[i] = rg_unflatten(apply(&l->linear[i], x), 2, RG_DIMS(-1, m.head));
        rg_tensor *weight = i == Q ? l->q_norm : l->k_norm;
        if (i != V && weight != RG_NONE)
            y[i] = norm(y[i], weight);
        y[i] = rg_transpose(y[i], 1, 2);
        if (i != V)
            y[i] = rg_rotary_embedding(y[i], cos, sin, false);
    }
    rg_keys_values past = { y[K], y[V] };
    if (cached)
        past = rg_kv_cache_append(&l->cache, y[K], y[V]);
    int64_t n = rg_size(x, 1), all = rg_size(past.keys, 2), window = l->cache.window;
    bool plain = n == all && !window;
    rg_tensor *z = rg_scaled_dot_product_attention(
        y[Q], past.keys, past.values,
        .attn_mask = plain || n == 1 ? RG_NONE : mask_of(n, all, window), .is_causal = plain,
        .enable_gqa = true);
    return apply(&l->linear[O], rg_flatten(rg_transpose(z, 1, 2), 2, 3));
}

static rg_tensor *mlp(layer *l, rg_tensor *x) {
    rg_tensor *gate = apply(&l->linear[GATE], x);
    gate = m.gelu ? rg_gelu_tanh(gate) : rg_silu(gate);
    return apply(&l->linear[DOWN], rg_mul(gate, apply(&l->linear[UP], x)));
}

/* Returns what a layer makes of x. Its scope releases what the layer computes on the way. */
static rg_tensor *run_layer(layer *l, rg_tensor *x, rg_tensor *cos, rg_tensor *sin, bool cached) {
    RG_SCOPE();
    x = rg_add(x, attention(l, norm(x, l->norm), cos, sin, cached));
    return rg_escape(rg_add(x, mlp(l, norm(x, l->mlp_norm))));
}

/* Returns what the last layer makes of each of the tokens ids, (1, n), the first of which has this
 * position: (1, n, dim). */
static rg_tensor *forward(rg_tensor *ids, int64_t position, bool cached) {
    rg_tensor *x = rg_embedding(ids, m.embed);
    if (m.gemma)
        x = rg_mul(x, sqrt((double)m.dim));
    rg_tensor *places = rg_arange_step(position, position + rg_size(ids, 1), 1);
    rg_tensor *angles = rg_outer(rg_to(places, RG_FLOAT32), m.frequencies);
    rg_tensor *cos = rg_to(rg_cos(angles), rg_dtype_of(x)),
              *sin = rg_to(rg_sin(angles), rg_dtype_of(x));
    for (int64_t i = 0; i < m.layers; i++)
        x = run_layer(&m.layer[i], x, cos, sin, cached);
    return norm(x, m.norm);
}

/* Returns the logits of the token that comes after each of these. */
static rg_tensor *logits_after(rg_tensor *x) {
    return rg_float(rg_linear(x, m.unembed, RG_NONE));
}

/* ---- training -------------------------------------------------------------------- */

/* Gives the queries and values of each layer two matrices, as PEFT does: a is drawn as the weights
 * of a linear layer are, and b is zero, so that they change nothing at first. */
static void add_lora(void) {
    static const int which[] = { Q, V };
    m.scale = alpha / (double)rank;
    m.lora = calloc((size_t)m.layers * 4, sizeof *m.lora);
    if (!m.lora)
        refuse("no memory for matrices");
    for (int i = 0; i < m.layers; i++)
        for (int k = 0; k < 2; k++) {
            linear *l = &m.layer[i].linear[which[k]];
            const rg_dims shape = linear_shape(which[k]);
            l->a = rg_nn_init_kaiming_uniform_(rg_empty(rank, shape.v[1]), .a = sqrt(5));
            l->b = rg_zeros(shape.v[0], rank);
            m.lora[m.n_lora++] = (rg_named){ lora_name(i, which[k], 'A'), l->a };
            m.lora[m.n_lora++] = (rg_named){ lora_name(i, which[k], 'B'), l->b };
        }
}

/* Learns to predict each token of the text from those before it. Each step learns from the next
 * `length` tokens; after the last of them it begins again. If there are matrices of LoRA, only they
 * are trained. */
static void train(rg_tensor *ids) {
    int64_t n = rg_numel(ids) - length;
    if (n < 1)
        refuse("the text has %lld tokens, and --length is %lld", (long long)rg_numel(ids),
               (long long)length);
    rg_named_list trained = m.n_lora ? (rg_named_list){ m.n_lora, m.lora }
                                     : (rg_named_list){ m.n, m.all };
    rg_tensor **v = calloc((size_t)trained.n, sizeof *v);
    for (int i = 0; v && i < trained.n; i++)
        v[i] = rg_requires_grad_(trained.v[i].tensor, true);
    rg_optim *adam = rg_optim_adamw(rg_list_of(trained.n, v), .lr = lr);
    double first = seconds();
    RG_FOR (int64_t i = 0; i < steps; i++) {
        int64_t begin = i * length % n;
        rg_tensor *x = rg_unsqueeze(rg_narrow(ids, 0, begin, length), 0);
        rg_tensor *logits = logits_after(rg_squeeze_dim(forward(x, 0, false), 0));
        rg_tensor *loss = rg_cross_entropy(logits, rg_narrow(ids, 0, begin + 1, length));
        rg_optim_zero_grad(adam);
        rg_backward(loss);
        rg_optim_step(adam);
        printf("step %4lld / %4lld | loss %.6f\n", (long long)i + 1, (long long)steps,
               rg_item(loss));
    }
    printf("%lld steps, %.3f a second\n", (long long)steps, (double)steps / (seconds() - first));
    rg_optim_free(adam);
    free(v);
}

/* ---- texts and their tokens ------------------------------------------------------ */

/* Returns the tokens of a text, (n). Without a tokenizer, the text is their numbers. */
static rg_tensor *tokens_of(const rg_tokenizer *t, const char *text) {
    if (t)
        return rg_tokenizer_encode(t, text);
    int64_t *ids = calloc(strlen(text) + 1, sizeof *ids), n = 0;
    char *end = (char *)text;
    for (const char *at = text; ids; at = end) {
        ids[n] = strtoll(at, &end, 10);
        if (end == at)
            break;
        n++;
    }
    if (!ids || end[strspn(end, " \n\t")])
        refuse("'%s' are no numbers of tokens, and there is no tokenizer.json", text);
    rg_tensor *all = rg_from(ids, n);
    free(ids);
    return all;
}

static bool ends_text(int64_t token) {
    for (int i = 0; i < m.ends.n; i++)
        if (m.ends.v[i] == token)
            return true;
    return false;
}

/* Prints the tokens that follow the prompt. Keeps the keys and values of all tokens, so that each
 * token runs through the model once. */
static void write_on(const rg_tokenizer *t, rg_tensor *prompt) {
    int64_t n = rg_numel(prompt), room = n + tokens, read = 0;
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *ids = rg_pad(rg_unsqueeze(prompt, 0), 0, tokens);
    rg_token_stream stream = { 0 };
    if (t)
        stream = rg_token_stream_begin(t);
    double begin = seconds();
    RG_FOR (; n < room; n++) {
        rg_tensor *x = forward(rg_narrow(ids, 1, read, n - read), read, !uncached);
        rg_tensor *token =
            rg_sample_logits(logits_after(rg_select(x, 1, -1)), .temperature = temperature,
                             .top_k = top_k, .top_p = top_p, .min_p = min_p,
                             .repetition_penalty = penalty, .previous = rg_narrow(ids, 1, 0, n));
        if (ends_text(rg_item_int(token)))
            break;
        rg_copy_(rg_narrow(ids, 1, n, 1), token);
        if (t)
            printf("%s", rg_token_stream_add(&stream, rg_item_int(token)));
        else
            printf("%lld ", (long long)rg_item_int(token));
        fflush(stdout);
        read = uncached ? 0 : n;
    }
    printf("%s\n", t ? rg_token_stream_end(&stream) : "");
    for (int64_t i = 0; i < m.layers; i++)
        rg_kv_cache_free(&m.layer[i].cache);
    n -= rg_numel(prompt);
    fprintf(stderr, "%lld tokens, %.1f a second\n", (long long)n, (double)n / (seconds() - begin));
}

int main(int argc, char *argv[]) {
    int first = READ_OPTIONS(argc, argv, "FOLDER [PROMPT]", options);
    if (argc != first + 1 && argc != first + 2)
        refuse("takes a folder and a prompt; --help tells more");
    rg_on_error(stop_on_error);
    rg_manual_seed((uint64_t)seed);
    const char *folder = argv[first];
    read_folder(folder);
    if (*adapter)
        read_adapter(adapter, &rank, &alpha);
    else if (rank)
        add_lora();
    struct stat s;
    rg_tokenizer *t = NULL;
    if (stat(joined("%s/tokenizer.json", folder), &s) == 0)
        t = rg_tokenizer_from_folder(folder);
    if (*text_file) {
        char *contents = read_text(text_file);
        train(tokens_of(t, contents));
        free(contents);
    }
    if (*save && m.n_lora)
        write_adapter(folder, save, rank, alpha);
    else if (*save)
        write_folder(folder, save);
    if (argc == first + 2) {
        rg_tensor *prompt = tokens_of(t, argv[first + 1]);
        if (rg_numel(prompt) == 0)
            refuse("the prompt has no tokens");
        if (*logits_file) {
            RG_NO_GRAD();
            rg_tensor *x = rg_squeeze_dim(forward(rg_unsqueeze(prompt, 0), 0, false), 0);
            rg_save_npy(logits_after(x), logits_file);
        }
        write_on(t, prompt);
    }
    rg_tokenizer_free(t);
}

/*
 * sentences.c: sentences by their meaning, with an encoder of BERT's family (MiniLM, BGE, E5) from
 * a folder of Hugging Face's. It turns each line of a file into a vector, and finds the lines that
 * are nearest to a question. From lines with labels it learns a small SelfAttention layer on top of
 * the encoder, which shows the words that it looks at.
 *
 *     build/examples/sentences all-MiniLM-L6-v2 lines.txt --question "Who wrote it?"
 *     build/examples/sentences all-MiniLM-L6-v2 lines.txt --vectors lines.npy
 *     build/examples/sentences all-MiniLM-L6-v2 --learn labelled.txt --save head.safetensors
 *     build/examples/sentences all-MiniLM-L6-v2 lines.txt --head head.safetensors
 *
 * A line of the labelled file is a label, a tab, and a sentence.
 */
#include "encoder_folder.h"
#include "labelled.h"

static int64_t nearest = 5, batch_size = 32, steps = 300, seed = 1337, width = 64;
static double lr = 1e-3, held_out = 0.2;
static const char *question = "", *vectors_file = "", *labelled = "", *save = "", *head_file = "";

static const option options[] = {
    { "question", TEXT, &question, 0, 0, "find the lines that are nearest to this sentence" },
    { "nearest", WHOLE, &nearest, 1, 1e6, "the number of lines to find" },
    { "vectors", TEXT, &vectors_file, 0, 0, "a file.npy for the vectors of the lines" },
    { "learn", TEXT, &labelled, 0, 0, "a file of labels and sentences to learn from" },
    { "steps", WHOLE, &steps, 1, 1e8, "to train" },
    { "batch", WHOLE, &batch_size, 1, 1e6, "sentences that are computed together" },
    { "width", WHOLE, &width, 1, 4096, "of the trained layer's queries, keys and values" },
    { "lr", NUMBER, &lr, 0, 1e3, "learning rate" },
    { "held-out", NUMBER, &held_out, 0, 0.9, "the share of the sentences for validation" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "save", TEXT, &save, 0, 0, "a file for the trained layer" },
    { "head", TEXT, &head_file, 0, 0, "such a file, with which to label the lines" },
};

/* ---- the encoder ------------------------------------------------------------------- */

static rg_tensor *norm(rg_tensor *x, const linear *l) {
    return rg_layer_norm(x, rg_shape(l->weight), l->weight, l->bias, m.eps);
}

static rg_tensor *apply(const linear *l, rg_tensor *x) { return rg_linear(x, l->weight, l->bias); }

/* Returns the heads of a linear map of x: (texts, heads, tokens, size). */
static rg_tensor *heads_of(const linear *l, rg_tensor *x) {
    return rg_transpose(rg_unflatten(apply(l, x), 2, RG_DIMS(m.heads, -1)), 1, 2);
}

/* Returns what a layer makes of x, where each token attends to those that are `seen`. Its scope
 * releases what the layer computes on the way. */
static rg_tensor *run_layer(const layer *l, rg_tensor *x, rg_tensor *seen) {
    RG_SCOPE();
    rg_tensor *y = rg_scaled_dot_product_attention(heads_of(&l->part[QUERY], x),
                                                   heads_of(&l->part[KEY], x),
                                                   heads_of(&l->part[VALUE], x), .attn_mask = seen);
    y = apply(&l->part[OUT], rg_flatten(rg_transpose(y, 1, 2), 2, 3));
    x = norm(rg_add(x, y), &l->part[OUT_NORM]);
    y = apply(&l->part[WIDE], x);
    y = apply(&l->part[NARROW], m.tanh ? rg_gelu_tanh(y) : rg_gelu(y));
    return rg_escape(norm(rg_add(x, y), &l->part[LAST_NORM]));
}

/* Returns what the encoder makes of each token: (texts, tokens, dim). */
static rg_tensor *encode(rg_encoding e) {
    RG_SCOPE();
    rg_tensor *places = rg_narrow(m.positions, 0, m.first_position, rg_size(e.input_ids, 1));
    rg_tensor *x = rg_add(rg_embedding(e.input_ids, m.words), places);
    if (m.types != RG_NONE)
        x = rg_add(x, rg_embedding(e.token_type_ids, m.types));
    x = norm(x, &m.norm);
    rg_tensor *seen = rg_reshape(rg_ne(e.attention_mask, 0), rg_size(x, 0), 1, 1, -1);
    for (int64_t i = 0; i < m.layers; i++)
        x = run_layer(&m.layer[i], x, seen);
    return rg_escape(x);
}

/* Returns the mean over the tokens of each text, padding left out: (texts, dim). */
static rg_tensor *mean_of(rg_tensor *x, rg_tensor *mask) {
    rg_tensor *weights = rg_unsqueeze(rg_to(mask, rg_dtype_of(x)), -1);
    return rg_div(rg_sum_dim(rg_mul(x, weights), 1, false),
                  rg_clamp_min(rg_sum_dim(weights, 1, false), 1e-9));
}

/* Returns the indices of the texts, those of short texts first. Texts of about the same length need
 * little padding in a batch. */
static rg_tensor *order_of(rg_names texts) {
    rg_tensor *lengths = rg_zeros_dims(RG_DIMS(texts.n), RG_INT64);
    for (int i = 0; i < texts.n; i++)
        rg_data_as(int64_t, lengths)[i] = (int64_t)strlen(texts.v[i]);
    return rg_argsort(lengths, 0, false);
}

/* Returns one vector of length 1 for each text: (texts, dim). */
static rg_tensor *vectors_of(const rg_tokenizer *t, rg_names texts) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *all = rg_zeros(texts.n, m.dim), *order = order_of(texts);
    RG_FOR (int64_t i = 0; i < texts.n; i += batch_size) {
        const int n = (int)(texts.n - i < batch_size ? texts.n - i : batch_size);
        rg_tensor *which = rg_narrow(order, 0, i, n);
        const char *some[n];
        for (int k = 0; k < n; k++)
            some[k] = texts.v[(int64_t)rg_at(which, k)];
        const rg_encoding e = encoding_of(t, (rg_names){ n, some });
        rg_tensor *x = encode(e);
        x = m.by_first ? rg_select(x, 1, 0) : mean_of(x, e.attention_mask);
        rg_index_copy_(all, 0, which, rg_normalize(x, 2, 1, 1e-12));
    }
    return rg_escape(all);
}

/* ---- the nearest lines ---------------------------------------------------------------- */

static void print_nearest(const rg_tokenizer *t, rg_names lines, rg_tensor *vectors) {
    RG_SCOPE();
    rg_tensor *asked = vectors_of(t, (rg_names){ 1, &question });
    rg_tensor *cosines = rg_matmul(vectors, rg_select(asked, 0, 0));
    const int64_t n = nearest < lines.n ? nearest : lines.n;
    const rg_values_indices best = rg_topk(cosines, n, 0, true, true);
    for (int64_t i = 0; i < n; i++)
        printf("%.4f  %s\n", rg_at(best.values, i), lines.v[(int64_t)rg_at(best.indices, i)]);
}

/* ---- a layer that learns labels --------------------------------------------------------- */

/* SelfAttention over the tokens of a text, their mean, and a score for each label. */
typedef struct {
    rg_module base;
    rg_self_attention *attention;
    rg_linear_module *score;
} head;

static rg_tensor *head_forward2(rg_module *module, rg_tensor *x, rg_tensor *mask) {
    head *self = (head *)module;
    rg_tensor *scores = rg_matmul(rg_matmul(x, self->attention->w_query),
                                  rg_mT(rg_matmul(x, self->attention->w_key)));
    rg_tensor *hidden = rg_unsqueeze(rg_eq(mask, 0), 1);
    scores = rg_masked_fill(rg_div(scores, sqrt((double)width)), hidden, -INFINITY);
    rg_tensor *y = rg_matmul(rg_softmax(scores, -1), rg_matmul(x, self->attention->w_value));
    return rg_call(self->score, mean_of(y, mask));
}

static const rg_module_class head_class = { .name = "Head", .forward2 = head_forward2 };

static head *new_head(int64_t labels) {
    head *self = RG_MODULE(head, &head_class);
    RG_CHILD(self, attention, rg_nn_self_attention(m.dim, width, width));
    RG_CHILD(self, score, rg_nn_linear(width, labels));
    rg_list all = rg_parameters(self->attention);
    for (int i = 0; i < all.n; i++)
        rg_nn_init_normal_(all.v[i], 0, 1 / sqrt((double)m.dim));
    return RG_READY(self);
}

/* Returns the scores of the sentences with these indices. */
static rg_tensor *scores_of(const rg_tokenizer *t, head *h, const lesson *l, rg_tensor *indices) {
    const int n = (int)rg_numel(indices);
    const char *texts[n];
    for (int i = 0; i < n; i++)
        texts[i] = l->texts[(int64_t)rg_at(indices, i)];
    const rg_encoding e = encoding_of(t, (rg_names){ n, texts });
    rg_tensor *x;
    {
        RG_NO_GRAD();
        x = encode(e);
    }
    return rg_call(h, x, e.attention_mask);
}

/* Returns the share of the sentences with these indices that get their label. */
static double accuracy(const rg_tokenizer *t, head *h, const lesson *l, rg_tensor *indices) {
    RG_NO_GRAD();
    double right = 0;
    const int64_t n = rg_numel(indices);
    RG_FOR (int64_t i = 0; i < n; i += batch_size) {
        rg_tensor *part = rg_narrow(indices, 0, i, n - i < batch_size ? n - i : batch_size);
        rg_tensor *guess = rg_argmax_dim(scores_of(t, h, l, part), 1, false);
        for (int64_t k = 0; k < rg_numel(part); k++)
            right += (int64_t)rg_at(guess, k) == l->label[(int64_t)rg_at(part, k)];
    }
    return n ? right / (double)n : NAN;
}

/* Shows how much each token of the sentence attends to each other one. */
static void show_attention(const rg_tokenizer *t, head *h, const char *text) {
    RG_NO_GRAD();
    const rg_encoding e = encoding_of(t, (rg_names){ 1, &text });
    const int n = (int)rg_numel(e.input_ids);
    const char *tokens[n];
    for (int i = 0; i < n; i++)
        tokens[i] = rg_tokenizer_token(t, (int64_t)rg_at(e.input_ids, 0, i));
    rg_tensor *weights = rg_self_attention_weights(h->attention, rg_select(encode(e), 0, 0));
    rg_print_heat_map(weights, stdout, .rows = { n, tokens }, .columns = { n, tokens },
                      .title = "Each token at the left attends to:");
}

/* Trains the layer, and returns it. The encoder stays as it is. */
static head *learn(const rg_tokenizer *t, lesson *l) {
    const int64_t n = l->n, out = (int64_t)(held_out * (double)n);
    const rg_list parts = rg_random_split(n, 2, ((double[]){ (double)(n - out), (double)out }));
    rg_tensor *labels = rg_from(l->label, n), *used = parts.v[0];
    head *h = new_head(l->n_labels);
    rg_optim *adam = rg_optim_adamw(rg_parameters(h), .lr = lr);
    rg_progress progress = rg_progress_begin(stdout, steps);
    RG_FOR (int64_t i = 0; i < steps; i++) {
        rg_tensor *which = rg_index_select(used, 0, rg_randint(0, n - out, batch_size));
        rg_tensor *loss = rg_cross_entropy(scores_of(t, h, l, which),
                                           rg_index_select(labels, 0, which));
        rg_optim_zero_grad(adam);
        rg_backward(loss);
        rg_optim_step(adam);
        rg_progress_show(&progress, i + 1, "loss %.4f", rg_item(loss));
    }
    rg_optim_free(adam);
    printf("right: %.1f %% of the sentences that it learned from", 100 * accuracy(t, h, l, used));
    if (out)
        printf(", %.1f %% of the %lld others", 100 * accuracy(t, h, l, parts.v[1]), (long long)out);
    printf("\n\n");
    show_attention(t, h, l->texts[(int64_t)rg_at(out ? parts.v[1] : used, 0)]);
    return h;
}

/* ---- the trained layer in a file --------------------------------------------------------- */

/* The file's metadata has the names of the labels, with tabs between them. */
static void save_head(head *h, const lesson *l) {
    const char *names = l->labels[0];
    for (int i = 1; i < l->n_labels; i++)
        names = joined("%s\t%s", names, l->labels[i]);
    rg_module_save(h, save, .metadata = { 1, (rg_metadata_pair[]){ { "labels", names } } });
}

static head *read_head(lesson *l) {
    rg_safe_file *f = rg_safe_open(head_file);
    const rg_metadata all = rg_safe_metadata(f);
    const char *names = NULL;
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.v[i].key, "labels") == 0)
            names = joined("%s", all.v[i].value);
    if (!names)
        refuse("'%s' has no labels", head_file);
    *l = room_for(strlen(names));
    for (const char *at = names; at; at = strchr(at, '\t') ? strchr(at, '\t') + 1 : NULL)
        label_of(l, joined("%.*s", (int)strcspn(at, "\t"), at));
    width = rg_size(rg_safe_get_tensor(f, "attention.w_query"), 1);
    rg_safe_close(f);
    head *h = new_head(l->n_labels);
    rg_module_load(h, head_file);
    return h;
}

static void print_labels(const rg_tokenizer *t, head *h, lesson l, rg_names lines) {
    RG_NO_GRAD();
    l.texts = (const char **)lines.v;
    RG_FOR (int64_t i = 0; i < lines.n; i += batch_size) {
        const int64_t end = i + batch_size < lines.n ? i + batch_size : lines.n;
        rg_tensor *guess = rg_argmax_dim(scores_of(t, h, &l, rg_arange_step(i, end, 1)), 1, false);
        for (int64_t k = i; k < end; k++)
            printf("%s\t%s\n", l.labels[(int64_t)rg_at(guess, k - i)], lines.v[k]);
    }
}

int main(int argc, char *argv[]) {
    int first = READ_OPTIONS(argc, argv, "FOLDER [FILE]", options);
    if (argc != first + 1 && argc != first + 2)
        refuse("takes a folder and a file of lines; --help tells more");
    rg_on_error(stop_on_error);
    rg_manual_seed((uint64_t)seed);
    read_folder(argv[first]);
    rg_tokenizer *t = rg_tokenizer_from_folder(argv[first]);
    lesson l = { 0 };
    head *h = NULL;
    if (*labelled) {
        l = read_lesson(labelled);
        h = learn(t, &l);
    } else if (*head_file) {
        h = read_head(&l);
    }
    if (h && *save)
        save_head(h, &l);
    if (argc == first + 2) {
        const rg_names lines = rg_load_lines(argv[first + 1]);
        if (h)
            print_labels(t, h, l, lines);
        if (*question || *vectors_file) {
            rg_tensor *vectors = vectors_of(t, lines);
            if (*vectors_file)
                rg_save_npy(vectors, vectors_file);
            if (*question)
                print_nearest(t, lines, vectors);
        }
    }
    free(l.texts);
    free(l.labels);
    free(l.label);
    rg_module_free(h);
    rg_tokenizer_free(t);
}

/*
 * encoder_folder.h: the weights of sentences.c's models, and their folders: config.json,
 * model.safetensors and tokenizer.json of transformers, and the files of sentence-transformers that
 * say how many tokens a sentence may have, and which vector stands for it.
 */
#pragma once

#include "model_folder.h"

/* ---- the weights ------------------------------------------------------------------ */

typedef struct {
    rg_tensor *weight, *bias;
} linear;
/* The parts of a layer: linear maps, and two normalizations. */
enum { QUERY, KEY, VALUE, OUT, OUT_NORM, WIDE, NARROW, LAST_NORM, PARTS };
static const char *const part_names[] = {
    "attention.self.query",   "attention.self.key",         "attention.self.value",
    "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
    "output.dense",           "output.LayerNorm",
};
typedef struct {
    linear part[PARTS];
} layer;
static struct {
    int64_t vocab, dim, inner, layers, heads;
    /* A sentence's first token is at first_position, and it has at most most_tokens tokens. */
    int64_t first_position, most_tokens;
    double eps;
    bool tanh;     /* gelu is computed by tanh. */
    bool by_first; /* The first token's vector stands for the sentence, and not the mean. */
    rg_tensor *words, *positions, *types;
    linear norm;
    layer *layer;
} m;

/* ---- reading the folder ------------------------------------------------------------- */

static void read_config(const rg_json_document *j) {
    static const char *const types[] = { "bert", "roberta", "xlm-roberta" };
    const int type = type_in(j, 3, types);
    const char *act = rg_json_str(j, "/hidden_act", "gelu");
    m.tanh = strcmp(act, "gelu_new") == 0 || strcmp(act, "gelu_pytorch_tanh") == 0;
    if (!m.tanh && strcmp(act, "gelu"))
        refuse("config.json: the activation \"%s\" isn't supported", act);
    if (rg_json_bool(j, "/is_decoder", false))
        refuse("config.json: \"is_decoder\" isn't supported");
    const char *places = rg_json_str(j, "/position_embedding_type", "absolute");
    if (strcmp(places, "absolute"))
        refuse("config.json: positions of type \"%s\" aren't supported", places);
    m.vocab = size_in(j, "/vocab_size", 0);
    m.dim = size_in(j, "/hidden_size", 0);
    m.inner = size_in(j, "/intermediate_size", 0);
    m.layers = size_in(j, "/num_hidden_layers", 0);
    m.heads = size_in(j, "/num_attention_heads", 0);
    m.eps = rg_json_float(j, "/layer_norm_eps", 1e-12);
    /* In RoBERTa's kind, the positions begin behind the number of the padding token. */
    m.first_position = type == 0 ? 0 : rg_json_int(j, "/pad_token_id", 1) + 1;
    m.most_tokens = size_in(j, "/max_position_embeddings", 512) - m.first_position;
    if (m.dim % m.heads || m.first_position < 0 || m.most_tokens < 1)
        refuse("config.json: %lld heads of %lld, and %lld tokens from position %lld on, aren't "
               "supported",
               (long long)m.heads, (long long)m.dim, (long long)m.most_tokens,
               (long long)m.first_position);
}

static bool exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

/* Refuses a list of modules that has others than the model, the pooling and a normalization. */
static void read_modules(const char *path) {
    static const char *const known[] = { "Transformer", "Pooling", "Normalize" };
    const rg_json_document *j = rg_json_load(path);
    for (int i = 0; i < rg_json_length(j, ""); i++) {
        const char *type = rg_json_str(j, joined("/%d/type", i), "");
        const char *name = strrchr(type, '.');
        bool is_known = false;
        for (int k = 0; k < 3; k++)
            is_known |= strcmp(name ? name + 1 : type, known[k]) == 0;
        if (!is_known)
            refuse("'%s': a module of type \"%s\" isn't supported", path, type);
    }
}

/* Reads how the vectors of a sentence's tokens become one. Newer files name the way, and in older
 * ones each way has a key of its own. */
static void read_way(const char *path) {
    static const char *const others[] = { "max_tokens", "mean_sqrt_len_tokens",
                                          "weightedmean_tokens", "lasttoken" };
    const rg_json_document *j = rg_json_load(path);
    const char *way = rg_json_str(j, "/pooling_mode", "");
    m.by_first = rg_json_bool(j, "/pooling_mode_cls_token", strcmp(way, "cls") == 0);
    const bool mean = rg_json_bool(j, "/pooling_mode_mean_tokens",
                                   *way ? strcmp(way, "mean") == 0 : !m.by_first);
    bool other = m.by_first == mean;
    for (int i = 0; i < 4; i++)
        other |= rg_json_bool(j, joined("/pooling_mode_%s", others[i]), false);
    if (other)
        refuse("'%s': only the mean or the first token is supported", path);
}

/* Reads the files of sentence-transformers, if the folder has them. */
static void read_pooling(const char *folder) {
    const char *path = joined("%s/tokenizer.json", folder);
    if (exists(path)
        && strcmp(rg_json_str(rg_json_load(path), "/padding/direction", ""), "Left") == 0)
        refuse("'%s': padding to the left isn't supported", path);
    path = joined("%s/modules.json", folder);
    if (exists(path))
        read_modules(path);
    path = joined("%s/1_Pooling/config.json", folder);
    if (exists(path))
        read_way(path);
    path = joined("%s/sentence_bert_config.json", folder);
    if (exists(path)) {
        const int64_t most = size_in(rg_json_load(path), "/max_seq_length", m.most_tokens);
        m.most_tokens = most < m.most_tokens ? most : m.most_tokens;
    }
}

static linear read_linear(weights_file *w, const char *name, rg_dims shape) {
    rg_tensor *weight = read_weight(w, joined("%s.weight", name), shape, false);
    return (linear){ weight, read_weight(w, joined("%s.bias", name), RG_DIMS(shape.v[0]), false) };
}

static void read_layer(weights_file *w, const char *before, int i) {
    const rg_dims square = RG_DIMS(m.dim, m.dim), norm = RG_DIMS(m.dim);
    const rg_dims shapes[] = {
        square, square, square, square, norm, RG_DIMS(m.inner, m.dim), RG_DIMS(m.dim, m.inner), norm
    };
    m.layer = realloc(m.layer, ((size_t)i + 1) * sizeof *m.layer);
    if (!m.layer)
        refuse("no memory for layers");
    for (int k = 0; k < PARTS; k++)
        m.layer[i].part[k] =
            read_linear(w, joined("%sencoder.layer.%d.%s", before, i, part_names[k]), shapes[k]);
}

/* Reads the model into m. The names of its tensors may begin with its type, as in "bert.". */
static void read_folder(const char *folder) {
    const rg_json_document *j = rg_json_load(joined("%s/config.json", folder));
    read_config(j);
    read_pooling(folder);
    const char *index = joined("%s/model.safetensors.index.json", folder);
    weights_file w = open_weights(exists(index) ? index : joined("%s/model.safetensors", folder));
    const char *before = "", *in_words = "embeddings.word_embeddings.weight";
    for (int i = 0; i < w.names.n; i++) {
        const char *found = strstr(w.names.v[i], in_words);
        if (found)
            before = joined("%.*s", (int)(found - w.names.v[i]), w.names.v[i]);
    }
    const char *of = joined("%sembeddings", before);
    const int64_t places = size_in(j, "/max_position_embeddings", 512);
    m.words = read_weight(&w, joined("%s.word_embeddings.weight", of), RG_DIMS(m.vocab, m.dim),
                          false);
    m.positions = read_weight(&w, joined("%s.position_embeddings.weight", of),
                              RG_DIMS(places, m.dim), false);
    m.types = read_weight(&w, joined("%s.token_type_embeddings.weight", of),
                          RG_DIMS(size_in(j, "/type_vocab_size", 2), m.dim), true);
    m.norm = read_linear(&w, joined("%s.LayerNorm", of), RG_DIMS(m.dim));
    for (int i = 0; i < m.layers; i++)
        read_layer(&w, before, i);
    close_weights(&w);
}

/* Encodes texts, filled up to the longest of them. */
static rg_encoding encoding_of(const rg_tokenizer *t, rg_names some) {
    return rg_tokenizer_encode_batch(t, some, .max_length = m.most_tokens, .pad_to = 1);
}

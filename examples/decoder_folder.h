/*
 * decoder_folder.h: the weights of decoder.c's models, and their folders: config.json and
 * model.safetensors of transformers, adapter_config.json and adapter_model.safetensors of PEFT.
 * What isn't supported is refused by its name. Memory is taken for tensors of the files alone, and
 * not for sizes of which config.json tells.
 */
#pragma once

#include "model_folder.h"

/* ---- the weights ------------------------------------------------------------------ */

/* y = x weight^T + bias + scale x a^T b^T, where a and b may be RG_NONE. */
typedef struct {
    rg_tensor *weight, *bias, *a, *b;
} linear;
enum { Q, K, V, O, GATE, UP, DOWN, LINEARS };
static const char *const linear_names[] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
};
typedef struct {
    linear linear[LINEARS];
    rg_tensor *norm, *mlp_norm, *q_norm, *k_norm;
    rg_kv_cache cache; /* The keys and values of earlier tokens. */
} layer;
static struct {
    int64_t vocab, dim, inner, layers, heads, kv_heads, head;
    double eps, scale; /* `scale` is alpha / rank. */
    bool gemma, qwen, gelu;
    bool has_norms; /* Queries and keys are normalized. */
    rg_dims ends;   /* The tokens that end a text. */
    rg_tensor *embed, *norm, *unembed, *frequencies;
    layer *layer;
    /* The weights, and the matrices of LoRA, with their names in files. */
    int n, n_lora;
    rg_named *all, *lora;
} m;

/* ---- config.json ------------------------------------------------------------------ */

/* Returns the angles by which one position turns pairs of elements. Newer files have
 * "rope_parameters", older ones "rope_theta" and "rope_scaling"; "rope_theta" may be in both. */
static rg_tensor *read_frequencies(const rg_json_document *j) {
    bool newer = rg_json_length(j, "/rope_parameters") > 0;
    const char *at = newer ? "/rope_parameters" : "/rope_scaling";
    const char *type = rg_json_str(j, joined("%s/type", at), "default");
    type = rg_json_str(j, joined("%s/rope_type", at), type);
    double base = rg_json_float(j, "/rope_theta", 1e4);
    base = rg_json_float(j, "/rope_parameters/rope_theta", base);
    double part = rg_json_float(j, joined("%s/partial_rotary_factor", at), 1);
    bool llama3 = strcmp(type, "llama3") == 0, stretched = strcmp(type, "linear") == 0;
    if ((!llama3 && !stretched && strcmp(type, "default")) || part != 1)
        refuse("config.json: positions of type \"%s\" for a part of %g aren't supported", type,
               part);
    return rg_rotary_frequencies(
        m.head, .base = base,
        .factor = llama3 || stretched ? rg_json_float(j, joined("%s/factor", at), 1) : 1,
        .low_freq_factor = rg_json_float(j, joined("%s/low_freq_factor", at), 1),
        .high_freq_factor = rg_json_float(j, joined("%s/high_freq_factor", at), 4),
        .original_max_position_embeddings =
            llama3 ? size_in(j, joined("%s/original_max_position_embeddings", at), 8192) : 0);
}

static void read_config(const rg_json_document *j) {
    static const char *const types[] = { "llama", "qwen2", "qwen3", "gemma" };
    const char *type = types[type_in(j, 4, types)];
    m.gemma = strcmp(type, "gemma") == 0;
    m.qwen = strncmp(type, "qwen", 4) == 0;
    if (m.gemma && rg_json_bool(j, "/use_bidirectional_attention", false))
        refuse("config.json: \"use_bidirectional_attention\" isn't supported");
    m.has_norms = strcmp(type, "qwen3") == 0;
    const char *act = rg_json_str(j, "/hidden_act", m.gemma ? "gelu_pytorch_tanh" : "silu");
    act = rg_json_str(j, "/hidden_activation", act);
    m.gelu = strcmp(act, "gelu_pytorch_tanh") == 0;
    if (!m.gelu && strcmp(act, "silu"))
        refuse("config.json: the activation \"%s\" isn't supported", act);
    m.vocab = size_in(j, "/vocab_size", 0);
    m.dim = size_in(j, "/hidden_size", 0);
    m.inner = size_in(j, "/intermediate_size", 0);
    m.layers = size_in(j, "/num_hidden_layers", 0);
    m.heads = size_in(j, "/num_attention_heads", 0);
    m.kv_heads = size_in(j, "/num_key_value_heads", m.heads);
    m.head = size_in(j, "/head_dim", m.dim / m.heads);
    m.eps = rg_json_float(j, "/rms_norm_eps", 1e-6);
    if (m.heads % m.kv_heads || m.head % 2)
        refuse("config.json: %lld heads of %lld with %lld heads of keys aren't supported",
               (long long)m.heads, (long long)m.head, (long long)m.kv_heads);
    m.ends.n = (int)rg_json_length(j, "/eos_token_id");
    if (m.ends.n > RG_MAX_DIMS)
        refuse("config.json: more than %d tokens that end a text aren't supported", RG_MAX_DIMS);
    for (int i = 0; i < m.ends.n; i++)
        m.ends.v[i] = rg_json_int(j, joined("/eos_token_id/%d", i), -1);
    if (m.ends.n == 0)
        m.ends = RG_DIMS(rg_json_int(j, "/eos_token_id", -1));
}

/* Reads a tensor, and adds it to a list of n. If the file lacks it, returns RG_NONE if `optional`
 * is true. */
static rg_tensor *take(weights_file *w, const char *name, rg_dims shape, bool optional, int *n,
                       rg_named **list) {
    rg_tensor *t = read_weight(w, name, shape, optional);
    if (t == RG_NONE)
        return t;
    *list = realloc(*list, ((size_t)*n + 1) * sizeof **list);
    if (!*list)
        refuse("no memory for tensors");
    (*list)[(*n)++] = (rg_named){ name, t };
    return t;
}

/* ---- model.safetensors -------------------------------------------------------------- */

/* Returns the shape (rows, columns) of a linear map's weight. */
static rg_dims linear_shape(int which) {
    const int64_t q = m.heads * m.head, kv = m.kv_heads * m.head;
    const int64_t rows[] = { q, kv, kv, m.dim, m.inner, m.inner, m.dim };
    const int64_t columns[] = { m.dim, m.dim, m.dim, q, m.dim, m.dim, m.inner };
    return RG_DIMS(rows[which], columns[which]);
}

static rg_tensor *take_weight(weights_file *w, const char *name, rg_dims shape, bool optional) {
    return take(w, name, shape, optional, &m.n, &m.all);
}

/* Returns how many tokens layer i attends to, or 0 if it attends to all. Only Qwen's models have
 * such windows: newer files name the type of each layer, and in older ones all layers from
 * "max_window_layers" on have windows. */
static int64_t window_of(const rg_json_document *j, int i) {
    const bool used = rg_json_bool(j, "/use_sliding_window", false);
    const bool older = used && i >= rg_json_int(j, "/max_window_layers", 28);
    const char *type = older ? "sliding_attention" : "full_attention";
    type = rg_json_str(j, joined("/layer_types/%d", i), type);
    if (strcmp(type, "sliding_attention") && strcmp(type, "full_attention"))
        refuse("config.json: a layer of type \"%s\" isn't supported", type);
    return m.qwen && used && *type == 's' ? size_in(j, "/sliding_window", 4096) : 0;
}

static void read_layer(weights_file *w, const rg_json_document *j, int i) {
    m.layer = realloc(m.layer, ((size_t)i + 1) * sizeof *m.layer);
    if (!m.layer)
        refuse("no memory for layers");
    layer *l = &m.layer[i];
    *l = (layer){ 0 };
    for (int k = 0; k < LINEARS; k++) {
        const char *name = joined("model.layers.%d.%s", i, linear_names[k]);
        const rg_dims shape = linear_shape(k), rows = RG_DIMS(shape.v[0]);
        l->linear[k].weight = take_weight(w, joined("%s.weight", name), shape, false);
        l->linear[k].bias = take_weight(w, joined("%s.bias", name), rows, true);
        l->linear[k].a = l->linear[k].b = RG_NONE;
    }
    const char *name = joined("model.layers.%d", i);
    const rg_dims dim = RG_DIMS(m.dim), head = RG_DIMS(m.head);
    l->norm = take_weight(w, joined("%s.input_layernorm.weight", name), dim, false);
    l->mlp_norm = take_weight(w, joined("%s.post_attention_layernorm.weight", name), dim, false);
    l->q_norm = take_weight(w, joined("%s.self_attn.q_norm.weight", name), head, !m.has_norms);
    l->k_norm = take_weight(w, joined("%s.self_attn.k_norm.weight", name), head, !m.has_norms);
    l->cache.window = window_of(j, i);
}

/* Reads the model into m. */
static void read_folder(const char *folder) {
    const rg_json_document *j = rg_json_load(joined("%s/config.json", folder));
    read_config(j);
    const char *path = joined("%s/model.safetensors.index.json", folder);
    struct stat s;
    weights_file w = open_weights(stat(path, &s) ? joined("%s/model.safetensors", folder) : path);
    const rg_dims embed = RG_DIMS(m.vocab, m.dim);
    m.embed = take_weight(&w, "model.embed_tokens.weight", embed, false);
    for (int i = 0; i < m.layers; i++)
        read_layer(&w, j, i);
    m.norm = take_weight(&w, "model.norm.weight", RG_DIMS(m.dim), false);
    bool tied = rg_json_bool(j, "/tie_word_embeddings", m.gemma);
    m.unembed = tied ? m.embed : take_weight(&w, "lm_head.weight", embed, false);
    close_weights(&w);
    m.frequencies = read_frequencies(j);
}

static void copy_file(const char *folder, const char *name, const char *to) {
    struct stat s;
    const char *path = joined("%s/%s", folder, name);
    if (stat(path, &s))
        return;
    char *contents = read_text(path);
    FILE *f = fopen(joined("%s/%s", to, name), "w");
    if (!f || fputs(contents, f) < 0 || fclose(f))
        refuse("can't write '%s/%s': %s", to, name, strerror(errno));
    free(contents);
}

static const rg_metadata made_for_torch = { 1, (rg_metadata_pair[]){ { "format", "pt" } } };

/* Writes the weights, with the other files of the folder from which they were read. */
static void write_folder(const char *folder, const char *to) {
    static const char *const names[] = { "config.json", "generation_config.json", "tokenizer.json",
                                         "tokenizer_config.json", "special_tokens_map.json" };
    make_folder(to);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        copy_file(folder, names[i], to);
    rg_save_file(((rg_named_list){ m.n, m.all }), joined("%s/model.safetensors", to),
                 .metadata = made_for_torch);
}

/* ---- adapters: the matrices of LoRA, in PEFT's files ----------------------------------- */

static const char *lora_name(int at, int which, char letter) {
    return joined("base_model.model.model.layers.%d.%s.lora_%c.weight", at, linear_names[which],
                  letter);
}

/* Reads the matrices of the folder, and sets *rank and *alpha. */
static void read_adapter(const char *folder, int64_t *rank, double *alpha) {
    const rg_json_document *j = rg_json_load(joined("%s/adapter_config.json", folder));
    static const char *const unknown[] = { "/use_rslora", "/use_dora", "/use_bdlora",
                                           "/fan_in_fan_out" };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (rg_json_bool(j, unknown[i], false))
            refuse("adapter_config.json: \"%s\" isn't supported", unknown[i] + 1);
    if (strcmp(rg_json_str(j, "/peft_type", ""), "LORA") || rg_json_length(j, "/rank_pattern")
        || rg_json_length(j, "/alpha_pattern"))
        refuse("adapter_config.json: only LORA of one rank is supported");
    /* The way of initialization is true, false or a name. For some names PEFT changes the model's
     * own weights. */
    rg_error_handler *handler = rg_on_error(NULL);
    const char *init = rg_json_str(j, "/init_lora_weights", "gaussian");
    rg_error_clear();
    rg_on_error(handler);
    if (init && strcmp(init, "gaussian") && strcmp(init, "eva") && strcmp(init, "orthogonal"))
        refuse("adapter_config.json: initialization by \"%s\" isn't supported", init);
    if (rg_json_length(j, "/alora_invocation_tokens"))
        refuse("adapter_config.json: \"alora_invocation_tokens\" isn't supported");
    *rank = size_in(j, "/r", 8);
    *alpha = rg_json_float(j, "/lora_alpha", 8);
    m.scale = *alpha / (double)*rank;
    weights_file w = open_weights(joined("%s/adapter_model.safetensors", folder));
    for (int i = 0; i < m.layers; i++)
        for (int k = 0; k < LINEARS; k++) {
            linear *l = &m.layer[i].linear[k];
            const rg_dims shape = linear_shape(k);
            l->a = take(&w, lora_name(i, k, 'A'), RG_DIMS(*rank, shape.v[1]), true, &m.n_lora,
                        &m.lora);
            l->b = take(&w, lora_name(i, k, 'B'), RG_DIMS(shape.v[0], *rank), l->a == RG_NONE,
                        &m.n_lora, &m.lora);
        }
    close_weights(&w);
}

static void write_adapter(const char *base, const char *to, int64_t rank, double alpha) {
    make_folder(to);
    FILE *f = fopen(joined("%s/adapter_config.json", to), "w");
    if (!f)
        refuse("can't write '%s/adapter_config.json': %s", to, strerror(errno));
    fprintf(f, "{\"peft_type\": \"LORA\", \"task_type\": \"CAUSAL_LM\", \"r\": %lld, ",
            (long long)rank);
    fprintf(f, "\"lora_alpha\": %g, \"target_modules\": [", alpha);
    const char *comma = "";
    for (int k = 0; k < LINEARS; k++)
        if (m.layer[0].linear[k].a != RG_NONE) {
            fprintf(f, "%s\"%s\"", comma, strchr(linear_names[k], '.') + 1);
            comma = ", ";
        }
    fprintf(f, "], \"base_model_name_or_path\": \"%s\"}\n", base);
    if (fclose(f))
        refuse("can't write '%s/adapter_config.json': %s", to, strerror(errno));
    rg_save_file(((rg_named_list){ m.n_lora, m.lora }), joined("%s/adapter_model.safetensors", to),
                 .metadata = made_for_torch);
}

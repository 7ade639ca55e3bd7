/*
 * gpt_to_folder.c: writes a GPT into a folder that Hugging Face's transformers can read.
 */
#include "gpt_folder.h"
#include "gpt_ids.h"
#include "gpt_turned.h"
#include "gpt_weights.h"
#include "json_rules.h"
#include "nn/given.h"
#include "tensor/error.h"
#include "tensor/files/safetensors.h"
#include "tensor/memory.h"

#include <string.h>

/* ---- writing config.json -------------------------------------------------------------- */

/* Returns whether lm_head shares its weight with the embedding wte. m->config.untied doesn't tell,
 * because the program may have replaced one of the weights. */
static bool is_tied(rg_gpt *m) {
    return rg_get_parameter(m, "lm_head.weight") == rg_get_parameter(m, "transformer.wte.weight");
}

static void config_text(rg_text *text, rg_gpt *m) {
    const rg_gpt_options *o = &m->config;
    double embd = o->embd_dropout == -1 ? o->dropout : o->embd_dropout;
    double attn = o->attn_dropout == -1 ? o->dropout : o->attn_dropout;
    long long inner = o->n_inner ? o->n_inner : 4 * o->n_embd;
    rgi_text_add(text, "{\n  \"activation_function\": \"%s\",\n",
                 o->gelu_tanh ? "gelu_new" : "gelu");
    rgi_text_add(text, "  \"architectures\": [\n    \"GPT2LMHeadModel\"\n  ],\n");
    rgi_text_add(text, "  \"attn_pdrop\": %.17g,\n", attn);
    rgi_gpt_add_id(text, "bos_token_id", o->bos_token_id);
    rgi_text_add(text, "  \"embd_pdrop\": %.17g,\n", embd);
    rgi_gpt_add_ids(text, "eos_token_id", o->eos_token_id);
    rgi_text_add(text, "  \"layer_norm_epsilon\": %.17g,\n",
                 o->layer_norm_epsilon ? o->layer_norm_epsilon : 1e-5);
    rgi_text_add(text, "  \"model_type\": \"gpt2\",\n");
    rgi_text_add(text, "  \"n_embd\": %lld,\n", (long long)o->n_embd);
    rgi_text_add(text, "  \"n_head\": %lld,\n", (long long)o->n_head);
    rgi_text_add(text, "  \"n_inner\": %lld,\n", inner);
    rgi_text_add(text, "  \"n_layer\": %lld,\n", (long long)o->n_layer);
    rgi_text_add(text, "  \"n_positions\": %lld,\n", (long long)o->block_size);
    if (o->pad_token_id >= 0)
        rgi_gpt_add_id(text, "pad_token_id", o->pad_token_id);
    rgi_text_add(text, "  \"resid_pdrop\": %.17g,\n", o->dropout);
    rgi_text_add(text, "  \"tie_word_embeddings\": %s,\n", is_tied(m) ? "true" : "false");
    rgi_text_add(text, "  \"vocab_size\": %lld\n}\n", (long long)o->vocab_size);
}

/* Writes config.json to a temporary file, which isn't renamed yet. Returns false on failure; then
 * there is nothing to free or remove. */
static bool begin_config(rg_writer *w, rg_gpt *m, const char *op, const char *path) {
    rg_text text = { 0 };
    config_text(&text, m);
    bool begun = !text.failed && rgi_writer_begin(w, op, path), ok = begun;
    if (begun) {
        rgi_write(w, text.v, text.n);
        ok = rgi_writer_settle(w);
    }
    rgi_text_free(&text);
    if (begun && !ok)
        rgi_writer_cancel(w);
    return ok;
}

/* ---- writing model.safetensors -------------------------------------------------------- */

/* Returns the name with "weight" at its end replaced by "bias". Returns NULL if memory runs out. */
static const char *bias_of(const char *name) {
    size_t n = strlen(name) - strlen("weight");
    char *bias = rgi_scope_alloc(n + sizeof "bias");
    if (bias) {
        memcpy(bias, name, n);
        memcpy(bias + n, "bias", sizeof "bias");
    }
    return bias;
}

/* Returns the index of the tensor with this name, or -1 if there is none. */
static int index_of(const rg_named_list *all, const char *name) {
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->v[i].name, name) == 0)
            return i;
    return -1;
}

/* Fails and returns false unless t has the shape of the row, transposed if the row's matrix is
 * turned (see gpt_turned.h). */
static bool has_shape(const char *op, const rg_gpt_weight *row, rg_tensor *t) {
    const bool turned = rgi_gpt_is_turned(row->name);
    const rg_dims is = rg_shape(t);
    bool same = is.n == row->shape.n;
    for (int d = 0; same && d < is.n; d++)
        same = is.v[turned ? is.n - 1 - d : d] == row->shape.v[d];
    RG_FAIL_IF(!same, op, "%s of shape %s doesn't fit to the model's config", row->name,
               rg_repr_shape(t));
    return true;
}

/* Fails and returns false unless the tensors are exactly the weights of a GPT with this config,
 * because the folder will be read as such a GPT. If the config has no biases, the tensors must not
 * include any. */
static bool fits_config(const char *op, const rg_gpt_options *o, const rg_named_list *all) {
    bool *known = rgi_scope_alloc((size_t)all->n + 1);
    if (!known)
        return false;
    memset(known, 0, (size_t)all->n + 1);
    rg_gpt_weight row;
    for (int64_t i = 0; rgi_gpt_weight(o, i, &row); i++) {
        if (!o->bias && rgi_ends_with(row.name, ".bias"))
            continue;
        const int at = index_of(all, row.name);
        RG_FAIL_IF(at < 0, op, "the model has no %s, as its config has it", row.name);
        if (!has_shape(op, &row, all->v[at].tensor))
            return false;
        known[at] = true;
    }
    for (int i = 0; i < all->n; i++)
        RG_FAIL_IF(!known[i], op, "%s is none of the weights of the model's config",
                   all->v[i].name);
    return true;
}

/* Writes the tensors of the model m, which `all` lists, to model.safetensors. Returns false on
 * failure. */
static bool write_weights(rg_gpt *m, const rg_named_list *all, const char *op, const char *path) {
    static const rg_metadata_pair pairs[] = { { "format", "pt" } };
    const bool tied = is_tied(m);
    rg_named_list out = { 0, NULL };
    rg_named *v = rgi_scope_alloc((size_t)all->n * 2 * sizeof *v);
    if (!v)
        return false;
    for (int i = 0; i < all->n; i++) {
        const char *name = all->v[i].name;
        rg_tensor *t = all->v[i].tensor;
        if (tied && strcmp(name, "lm_head.weight") == 0)
            continue;
        v[out.n++] = (rg_named){ name, rgi_gpt_is_turned(name) ? rg_T(t) : t };
        /* In transformers all modules with a weight have a bias, too, except the embeddings and the
         * head. A bias that the model lacks is written as zeros. */
        bool biased = !rgi_ends_with(name, "te.weight") && !rgi_ends_with(name, "pe.weight")
                      && !rgi_ends_with(name, "lm_head.weight");
        if (biased && !m->config.bias)
            v[out.n++] = (rg_named){ bias_of(name),
                                     rg_zeros_dims(RG_DIMS(rg_size(t, 0)), rg_dtype_of(t)) };
    }
    out.v = v;
    return rgi_safetensors_write(op, out, (rg_metadata){ 1, pairs }, path);
}

bool rg_gpt_to_folder(rg_gpt *m, const char *folder) {
    static const char op[] = "gpt_to_folder";
    RG_SCOPE();
    RG_NO_GRAD();
    if (!rgi_module_given((rg_module *)m, op) || !rgi_given_path(folder, op))
        return false;
    const rg_named_list all = rg_state_dict(m);
    if (all.n < 0 || !fits_config(op, &m->config, &all))
        return false;
    const char *config = rgi_path_in(op, folder, "config.json");
    const char *weights = rgi_path_in(op, folder, "model.safetensors");
    rg_writer w, generation;
    if (!config || !weights || !begin_config(&w, m, op, config))
        return false;
    if (rgi_gpt_begin_generation(&generation, m, op, folder)) {
        if (write_weights(m, &all, op, weights)) {
            const bool ended = rgi_gpt_end_generation(&generation, m, true);
            return rgi_writer_end(&w) && ended;
        }
        rgi_gpt_end_generation(&generation, m, false);
    }
    rgi_writer_cancel(&w);
    return false;
}

/*
 * gpt_folder.c: reads GPT-2 from a folder of Hugging Face's transformers. Each tensor is read
 * directly into its parameter. Only transposed matrices and tensors whose dtype isn't the
 * parameter's are read into a temporary tensor first, one at a time. Folders are written by
 * gpt_to_folder.c.
 */
#include "gpt_folder.h"
#include "gpt_ids.h"
#include "gpt_turned.h"
#include "gpt_weights.h"
#include "json_rules.h"
#include "nn/layers/undrawn.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/files/safetensors.h"
#include "tensor/load.h"
#include "tensor/map.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"
#include "tensor/text/digits.h"

#include <stdio.h>
#include <string.h>

/* ---- config.json: the options of the model -------------------------------------------- */

/* The rules for config.json. A key with RG_RULE_ANYTHING doesn't change the logits: it concerns
 * training, generation, heads for other tasks (such as classification), the form of the output, or
 * where the file comes from. The exception is pruned_heads, which config_options checks. */
enum { RULE_ID = RG_RULE_NULL | RG_RULE_WHOLE, RULE_SIZE = RG_RULE_WHOLE };
static const rg_json_rule config_rules[] = {
    { "model_type", RG_RULE_MUST, "gpt2" },
    { "vocab_size", RULE_SIZE, NULL },
    { "n_positions", RULE_SIZE, NULL },
    { "n_ctx", RULE_SIZE, NULL },
    { "n_embd", RULE_SIZE, NULL },
    { "n_layer", RULE_SIZE, NULL },
    { "n_head", RULE_SIZE, NULL },
    { "n_inner", RG_RULE_NULL | RULE_SIZE, NULL },
    { "activation_function", RG_RULE_TEXT, NULL },
    { "layer_norm_epsilon", RG_RULE_NUMBER, NULL },
    { "resid_pdrop", RG_RULE_NUMBER, NULL },
    { "embd_pdrop", RG_RULE_NUMBER, NULL },
    { "attn_pdrop", RG_RULE_NUMBER, NULL },
    { "scale_attn_weights", RG_RULE_TRUE, NULL },
    { "scale_attn_by_inverse_layer_idx", RG_RULE_FALSE, NULL },
    { "reorder_and_upcast_attn", RG_RULE_BOOL, NULL },
    { "add_cross_attention", RG_RULE_FALSE, NULL },
    { "is_encoder_decoder", RG_RULE_FALSE, NULL },
    { "is_decoder", RG_RULE_BOOL, NULL },
    { "tie_word_embeddings", RG_RULE_BOOL, NULL },
    { "pruned_heads", RG_RULE_ANYTHING, NULL },
    { "bos_token_id", RULE_ID, NULL },
    { "eos_token_id", RULE_ID | RG_RULE_ARRAY, NULL },
    { "pad_token_id", RULE_ID, NULL },
    { "_name_or_path", RG_RULE_ANYTHING, NULL },
    { "_num_labels", RG_RULE_ANYTHING, NULL },
    { "architectures", RG_RULE_ANYTHING, NULL },
    { "chunk_size_feed_forward", RG_RULE_ANYTHING, NULL },
    { "dtype", RG_RULE_ANYTHING, NULL },
    { "finetuning_task", RG_RULE_ANYTHING, NULL },
    { "gradient_checkpointing", RG_RULE_ANYTHING, NULL },
    { "id2label", RG_RULE_ANYTHING, NULL },
    { "initializer_range", RG_RULE_ANYTHING, NULL },
    { "label2id", RG_RULE_ANYTHING, NULL },
    { "output_attentions", RG_RULE_ANYTHING, NULL },
    { "output_hidden_states", RG_RULE_ANYTHING, NULL },
    { "output_past", RG_RULE_ANYTHING, NULL },
    { "problem_type", RG_RULE_ANYTHING, NULL },
    { "return_dict", RG_RULE_ANYTHING, NULL },
    { "summary_activation", RG_RULE_ANYTHING, NULL },
    { "summary_first_dropout", RG_RULE_ANYTHING, NULL },
    { "summary_proj_to_labels", RG_RULE_ANYTHING, NULL },
    { "summary_type", RG_RULE_ANYTHING, NULL },
    { "summary_use_proj", RG_RULE_ANYTHING, NULL },
    { "task_specific_params", RG_RULE_ANYTHING, NULL },
    { "torch_dtype", RG_RULE_ANYTHING, NULL },
    { "transformers_version", RG_RULE_ANYTHING, NULL },
    { "use_cache", RG_RULE_ANYTHING, NULL },
    { NULL, 0, NULL },
};

/* Reads a probability of dropout, which is 0.1 if the file lacks it. Fails and returns -1 unless
 * the probability is at least 0 and less than 1. */
static double config_dropout(const rg_json_file *f, const char *name) {
    double p = rgi_json_real(f, 0, name, 0.1);
    if (p >= 0 && p < 1)
        return p;
    rgi_file_refuse(&f->file, "\"%s\" is %s, which isn't supported", name, rgi_number(p));
    return -1;
}

/* Fails and returns false unless the sizes are positive, n_layer is at most INT16_MAX, n_head
 * divides n_embd, and n_ctx, if it is there, equals n_positions. */
static bool config_sizes(const rg_json_file *f, const rg_gpt_options *o) {
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = { { "vocab_size", o->vocab_size }, { "n_positions", o->block_size },
                  { "n_embd", o->n_embd },         { "n_layer", o->n_layer },
                  { "n_head", o->n_head },         { "n_inner", o->n_inner } };
    for (int i = 0; i < RG_COUNT(sizes); i++)
        if (sizes[i].size == 0)
            return rgi_file_refuse(&f->file, "\"%s\" is 0, which isn't supported", sizes[i].name);
    if (o->n_layer > INT16_MAX)
        return rgi_file_refuse(&f->file, "\"n_layer\" is %lld, which isn't supported",
                               (long long)o->n_layer);
    if (o->n_embd % o->n_head)
        return rgi_file_refuse(&f->file, "\"n_embd\", %lld, is no multiple of \"n_head\", %lld",
                               (long long)o->n_embd, (long long)o->n_head);
    if (rgi_json_whole(f, 0, "n_ctx", o->block_size) != o->block_size)
        return rgi_file_refuse(&f->file, "\"n_ctx\" is another than \"n_positions\", %lld",
                               (long long)o->block_size);
    return true;
}

static bool config_activation(const rg_json_file *f, rg_gpt_options *o) {
    const char *name = rgi_json_word(f, 0, "activation_function");
    if (!name)
        name = "gelu_new";
    o->gelu_tanh = strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0;
    if (o->gelu_tanh || strcmp(name, "gelu") == 0)
        return true;
    return rgi_file_refuse(&f->file, "\"activation_function\" is \"%s\", which isn't supported",
                           RG_SHOWN(name));
}

/* Reads the options of config.json into *o. An option that is missing gets the default of
 * transformers' GPT2Config. Fails and returns false if an option isn't supported. */
static bool config_options(const rg_json_file *f, rg_gpt_options *o) {
    const rg_json *j = &f->json;
    uint32_t pruned = rgi_json_find(j, 0, "pruned_heads");
    if (!rgi_json_keeps(f, 0, "", config_rules))
        return false;
    if (pruned && j->v[pruned].n)
        return rgi_file_refuse(&f->file, "\"pruned_heads\" has some, which isn't supported");
    o->vocab_size = rgi_json_whole(f, 0, "vocab_size", 50257);
    o->block_size = rgi_json_whole(f, 0, "n_positions", 1024);
    o->n_embd = rgi_json_whole(f, 0, "n_embd", 768);
    o->n_layer = rgi_json_whole(f, 0, "n_layer", 12);
    o->n_head = rgi_json_whole(f, 0, "n_head", 12);
    o->n_inner = rgi_json_whole(f, 0, "n_inner", 4 * o->n_embd);
    o->untied = !rgi_json_true(f, 0, "tie_word_embeddings", true);
    o->layer_norm_epsilon = rgi_json_real(f, 0, "layer_norm_epsilon", 1e-5);
    if (!(o->layer_norm_epsilon > 0 && o->layer_norm_epsilon <= 1))
        return rgi_file_refuse(&f->file, "\"layer_norm_epsilon\" is %s, which isn't supported",
                               rgi_number(o->layer_norm_epsilon));
    o->dropout = config_dropout(f, "resid_pdrop");
    o->embd_dropout = o->dropout < 0 ? -1 : config_dropout(f, "embd_pdrop");
    o->attn_dropout = o->embd_dropout < 0 ? -1 : config_dropout(f, "attn_pdrop");
    return o->attn_dropout >= 0 && config_sizes(f, o) && config_activation(f, o);
}

static bool read_config(const char *op, const char *folder, rg_gpt_options *o) {
    RG_SCOPE();
    rg_json_file f;
    const char *path = rgi_path_in(op, folder, "config.json");
    if (!path || !rgi_json_file_read(&f, op, path))
        return false;
    *o = (rg_gpt_options){ .bias = true, .bos_token_id = -1, .pad_token_id = -1 };
    bool ok = config_options(&f, o) && rgi_gpt_read_ids(&f, o);
    rgi_json_file_free(&f);
    return ok;
}

/* ---- finding and opening the files of weights ----------------------------------------- */

/* Opens the files with the weights in the folder: model.safetensors or, if that doesn't exist, the
 * files that its index lists. The caller's scope owns the path. Returns false on failure. */
static bool open_folder(rg_shards *w, const char *op, const char *folder) {
    const char *one = rgi_path_in(op, folder, "model.safetensors");
    const char *index = rgi_path_in(op, folder, "model.safetensors.index.json");
    bool has_one, has_index = false;
    if (!one || !index || !rgi_file_there(op, one, &has_one)
        || !(has_one || rgi_file_there(op, index, &has_index)))
        return false;
    return rgi_shards_open(w, op, has_index ? index : one);
}

static const char *after(const char *name, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) ? name : name + n;
}

/* Finds the tensor `name` in the files. In a file the name may lack the prefix "transformer.". Sets
 * *file to the file that has the tensor. If no file has it, returns NULL without an error, and sets
 * *file to the last file. */
static const rg_safetensors_entry *find_weight(const rg_shards *w, const char *name,
                                               const rg_safetensors **file) {
    const rg_safetensors_entry *e = rgi_shards_find(w, name, file);
    return e ? e : rgi_shards_find(w, after(name, "transformer."), file);
}

/* ---- checking that all required tensors exist ----------------------------------- */

/* Fails and returns false unless the files have this weight, as a floating-point tensor with the
 * shape of `row`. lm_head.weight needn't exist if it is tied to wte.weight. */
static bool has_weight(const rg_shards *w, const rg_gpt_options *o, const rg_gpt_weight *row) {
    char is[192], should[192];
    const rg_safetensors *s;
    const rg_safetensors_entry *e = find_weight(w, row->name, &s);
    const rg_dims *wanted = &row->shape;
    bool optional = strcmp(row->name, "lm_head.weight") == 0 && !o->untied;
    if (!e)
        return optional || rgi_file_refuse(&s->file, "it lacks tensor \"%s\"", row->name);
    rg_dtype dtype = rgi_foreign[e->type].dtype;
    if (e->shape.n != wanted->n
        || memcmp(e->shape.v, wanted->v, (size_t)wanted->n * sizeof *wanted->v))
        return rgi_file_refuse(&s->file,
                               "tensor \"%s\" is of shape %s, not of %s, as config.json "
                               "has it",
                               row->name, rgi_shape_text(e->shape.n, e->shape.v, is),
                               rgi_shape_text(wanted->n, wanted->v, should));
    if (!rgi_is_float(dtype))
        return rgi_file_refuse(&s->file, "tensor \"%s\" is of type %s, which no weight is of",
                               row->name, rgi_foreign[e->type].safetensors);
    return true;
}

/* Fails and returns false unless the files have all tensors that the model needs. This is checked
 * before the model is allocated, since a few bytes in config.json can ask for any amount of
 * memory. */
static bool has_weights(const rg_shards *w, const rg_gpt_options *o) {
    rg_gpt_weight row;
    for (int64_t i = 0; rgi_gpt_weight(o, i, &row); i++)
        if (!has_weight(w, o, &row))
            return false;
    return true;
}

/* ---- reading the tensors into the parameters ------------------------------------------- */

/* Reads a tensor of the file into the parameter `to`. Transposes the tensor if `turned` is true,
 * and converts its dtype if it isn't the parameter's. Returns false on failure. */
static bool read_weight(const rg_safetensors *s, const rg_safetensors_entry *e, rg_tensor *to,
                        bool turned) {
    RG_SCOPE();
    RG_NO_GRAD();
    if (!turned && rgi_foreign[e->type].dtype == rg_dtype_of(to))
        return rgi_safetensors_read_into(s, e, to);
    rg_tensor *t = rgi_safetensors_read(s, e);
    return rg_copy_(to, turned ? rg_T(t) : t);
}

/* Checks the files of a model whose lm_head.weight is tied to wte.weight. They needn't contain
 * lm_head.weight. Fails and returns false if they contain it with other values than wte.weight's.
 * Reads some rows at a time, since all of them may be a third of the model. */
static bool check_tied(const rg_shards *w, const rg_gpt *m) {
    enum { AT_ONCE = 1024 };
    const rg_safetensors *s;
    const rg_safetensors_entry *e = find_weight(w, "lm_head.weight", &s);
    rg_tensor *weight = m->lm_head->weight;
    const int64_t rows = e ? rg_size(weight, 0) : 0, columns = rg_size(weight, 1);
    RG_FOR (int64_t i = 0; i < rows; i += AT_ONCE) {
        rg_safetensors_entry some = *e;
        some.shape.v[0] = RG_MIN(AT_ONCE, rows - i);
        some.numel = some.shape.v[0] * columns;
        some.begin += (uint64_t)(i * columns) * rgi_foreign[e->type].bytes;
        rg_tensor *head = rg_to(rgi_safetensors_read(s, &some), rg_dtype_of(weight));
        rg_tensor *same = rg_narrow(weight, 0, i, some.shape.v[0]);
        if (!head || !same)
            return false;
        if (!rg_equal(head, same))
            return rgi_file_refuse(&s->file, "tensor \"lm_head.weight\" is another than "
                                             "\"transformer.wte.weight\", to which config.json "
                                             "ties it");
    }
    return true;
}

static bool read_weights(const rg_shards *w, rg_gpt *m) {
    RG_SCOPE();
    rg_named_list all = rg_state_dict(m);
    for (int i = 0; i < all.n; i++) {
        const char *name = all.v[i].name;
        const rg_safetensors *s;
        if (!m->config.untied && strcmp(name, "lm_head.weight") == 0)
            continue;
        const rg_safetensors_entry *e = find_weight(w, name, &s);
        if (!read_weight(s, e, all.v[i].tensor, rgi_gpt_is_turned(name)))
            return false;
    }
    return all.n > 0 && (m->config.untied || check_tied(w, m));
}

/* ---- checking that the files contain no other tensors --------------------------------- */

/* Returns whether the name is that of a causal mask, which older files contain for each block. */
static bool is_mask(const char *name) {
    return rgi_ends_with(name, ".attn.bias") || rgi_ends_with(name, ".attn.masked_bias");
}

/* Fails and returns false if the files contain a tensor that the model doesn't have, or contain one
 * twice. Causal masks are ignored. */
static bool knows_all(const rg_shards *w, const rg_gpt *m) {
    RG_SCOPE();
    rg_map known = { 0 };
    rg_named_list all = rg_state_dict((void *)m);
    bool ok = all.n > 0;
    for (int i = 0; ok && i < all.n; i++)
        ok = rgi_map_put_name(&known, after(all.v[i].name, "transformer."), 0);
    for (int i = 0; i < w->n; i++)
        for (int k = 0; ok && k < w->v[i].file.n; k++) {
            const rg_safetensors *s = &w->v[i].file;
            const char *name = after(s->v[k].name, "transformer.");
            int64_t times = rgi_map_name(&known, name);
            if (is_mask(name))
                continue;
            if (times < 0)
                ok = rgi_file_refuse(&s->file, "tensor \"%s\" is none of GPT-2's",
                                     RG_SHOWN(s->v[k].name));
            else if (times > 0)
                ok = rgi_file_refuse(&s->file, "tensor \"%s\" comes twice", RG_SHOWN(name));
            else
                ok = rgi_map_put_name(&known, name, 1);
        }
    rgi_map_free(&known);
    return ok;
}

/* ---- making the model ----------------------------------------------------------------- */

/* Makes a model whose weights are uninitialised, since they are about to be read. */
static rg_gpt *gpt_undrawn(rg_gpt_options o) {
    bool before = rgi_undrawn;
    rgi_undrawn = true;
    rg_gpt *m = rg_nn_gpt_with(o);
    rgi_undrawn = before;
    return m;
}

static rg_gpt *gpt_of_files(const rg_shards *w, const rg_gpt_options *o) {
    if (!has_weights(w, o))
        return NULL;
    rg_gpt *m = gpt_undrawn(*o);
    if (knows_all(w, m) && read_weights(w, m)) {
        rg_eval(m);
        return m;
    }
    rg_module_free(m);
    return NULL;
}

rg_gpt *rg_gpt_from_folder(const char *folder) {
    static const char op[] = "gpt_from_folder";
    RG_LOADING(op, folder);
    RG_SCOPE();
    rg_gpt_options o;
    rg_shards w;
    if (!read_config(op, folder, &o) || !open_folder(&w, op, folder))
        return NULL;
    rg_gpt *m = gpt_of_files(&w, &o);
    rgi_shards_close(&w);
    if (!m || rgi_gpt_read_generation(m, op, folder))
        return m;
    rg_module_free(m);
    return NULL;
}

/* test_gpt_folder.c: a GPT-2 from a folder of Hugging Face's computes what it computes in
 * transformers. A model that is written and read is the same. Folders that ask for what regard
 * lacks are refused. */
#include "tests/faults.h"
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/text/text.h"
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

static const char *golden_path(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/../files/gpt2%s", golden_folder(), name);
    return path;
}

/* ---- what it computes ---------------------------------------------------------------- */

static rg_tensor *golden_ids(golden_file *f) {
    int64_t v[100];
    int64_t n = golden_integers(f, ':', v, 100);
    return rg_unsqueeze(rg_from_int64(v, RG_DIMS(n)), 0);
}

static void golden_logits(golden_file *f, rg_gpt *m) {
    rg_tensor *y = rg_call(m, golden_ids(f));
    ck_ok(y);
    char *at = golden_field(f, ':');
    for (int64_t i = 0; i < rg_numel(y); i++) {
        double there = golden_number(&at), here = (double)((float *)rg_data(y))[i];
        ck_each(fabs(there - here) < 1e-4, "logit %lld: %g, not %g", (long long)i, here, there);
    }
    ck_assert(golden_at_end(at));
}

static void golden_model(rg_gpt *m) {
    golden_file f = golden_open("gpt2");
    int cases = 0;
    for (char *at; (at = golden_case(&f));) {
        RG_SCOPE();
        const char *what = golden_word(&at);
        if (!strcmp(what, "logits")) {
            golden_logits(&f, m);
            cases++;
        } else if (!strcmp(what, "greedy")) {
            rg_tensor *begun = golden_ids(&f), *wanted = golden_ids(&f);
            ck_assert(rg_equal(rg_gpt_generate(m, begun, 20, .temperature = 0), wanted));
            cases++;
        } else {
            golden_line(&f);
        }
    }
    golden_close(&f);
    ck_assert_int_eq(cases, 4);
}

static bool same_weights(rg_gpt *a, rg_gpt *b) {
    rg_named_list x = rg_state_dict(a), y = rg_state_dict(b);
    bool same = x.n == y.n && x.n > 0;
    for (int i = 0; same && i < x.n; i++)
        same = !strcmp(x.v[i].name, y.v[i].name) && rg_equal(x.v[i].tensor, y.v[i].tensor);
    return same;
}

START_TEST(test_golden) {
    rg_manual_seed(5);
    double drawn = rg_item(rg_rand(1));
    rg_manual_seed(5);
    rg_gpt *m = rg_gpt_from_folder(golden_path(""));
    ck_ok(m);
    ck_assert(!m->base.training && m->config.gelu_tanh && m->config.dropout == 0.1);
    ck_assert_double_eq(rg_item(rg_rand(1)), drawn);
    /* Loading turns off the drawing of initial weights, but only while it runs. A layer that is
     * made afterwards draws its weights as usual. */
    rg_manual_seed(5);
    rg_linear_module *layer = rg_nn_linear(3, 3);
    rg_nn_init_normal_(layer->weight, 1000, 1);
    ck_assert(fabs(rg_item(rg_mean(layer->weight)) - 1000) < 10);
    rg_module_free(layer);
    golden_model(m);
    rg_module_free(m);
}
END_TEST

/* A model that is written is read again as the same model, whatever its options. */
START_TEST(test_there_and_back) {
    scratch_begin();
    for (int i = 0; i < 4; i++) {
        rg_gpt *m = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 2, .n_head = 2,
                              .n_embd = 4, .n_inner = i % 2 ? 6 : 0, .gelu_tanh = i % 2,
                              .untied = i / 2, .dropout = 0.25, .attn_dropout = 0);
        ck_assert(rg_gpt_to_folder(m, scratch("")));
        rg_gpt *back = rg_gpt_from_folder(scratch(""));
        ck_ok(back);
        ck_assert(same_weights(m, back) && back->config.gelu_tanh == i % 2);
        ck_assert(back->config.attn_dropout == 0 && back->config.embd_dropout == 0.25);
        ck_assert(back->config.layer_norm_epsilon == 1e-5 && back->config.untied == i / 2);
        rg_module_free(back);
        rg_module_free(m);
    }
    scratch_end();
}
END_TEST

static void register_in_head(rg_gpt *m, const char *name, rg_tensor **place, rg_tensor *value) {
    ck_ok(rg_register_parameter(&m->lm_head->base, name, place, value));
}

/* A head that the program has untied is written, too. Weights that don't fit to the config are
 * refused. */
START_TEST(test_replaced_layers) {
    RG_SCOPE();
    scratch_begin();
    rg_gpt *m =
        rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 1, .n_head = 2, .n_embd = 4);
    register_in_head(m, "weight", &m->lm_head->weight, rg_randn(7, 4));
    ck_ok(rg_gpt_to_folder(m, scratch("")));
    rg_gpt *back = rg_gpt_from_folder(scratch(""));
    ck_ok(back && same_weights(m, back) && back->config.untied);
    rg_module_free(back);
    register_in_head(m, "weight", &m->lm_head->weight, rg_randn(8, 4));
    ck_fails(rg_gpt_to_folder(m, scratch("")), RG_RUNTIME_ERROR,
             "gpt_to_folder: lm_head.weight of shape torch.Size([8, 4]) doesn't fit to the "
             "model's config");
    register_in_head(m, "weight", &m->lm_head->weight, rg_randn(7, 4));
    register_in_head(m, "bias", &m->lm_head->bias, rg_randn(7));
    ck_fails(rg_gpt_to_folder(m, scratch("")), RG_RUNTIME_ERROR,
             "gpt_to_folder: lm_head.bias is none of the weights of the model's config");
    ck_ok(rg_module_list_set(rg_get_submodule(m, "transformer.h"), 0, rg_nn_identity()));
    ck_fails(rg_gpt_to_folder(m, scratch("")), RG_RUNTIME_ERROR,
             "gpt_to_folder: the model has no transformer.h.0.ln_1.weight, as its config has it");
    rg_module_free(m);
    scratch_end();
}
END_TEST

static const char generation[] = "{ \"eos_token_id\": [5, 6], \"bos_token_id\": null,\n"
                                 "  \"temperature\": 0.25, \"anything\": [{}] }\n";

/* An empty path isn't taken for the root folder. */
START_TEST(test_folder_without_name) {
    RG_SCOPE();
    rg_gpt *m = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 1, .n_head = 1, .n_embd = 2);
    ck_fails(rg_gpt_to_folder(m, ""), RG_IO_ERROR, "No such file or directory: ''");
    ck_fails(rg_gpt_from_folder(""), RG_IO_ERROR, "No such file or directory: ''");
    ck_fails(rg_tokenizer_from_folder(""), RG_IO_ERROR, "No such file or directory: ''");
    rg_module_free(m);
}
END_TEST

/* A model without biases is written with biases of zeros, in the dtype of its weights. */
START_TEST(test_dtype_of_written_biases) {
    RG_SCOPE();
    scratch_begin();
    rg_gpt *m = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 1, .n_head = 1, .n_embd = 2,
                          .bias = false);
    ck_ok(rg_module_to(m, RG_FLOAT64) && rg_gpt_to_folder(m, scratch("")));
    const rg_named_list written = rg_load_file(scratch("model.safetensors"));
    int biases = 0;
    for (int i = 0; i < written.n; i++) {
        ck_assert_int_eq(rg_dtype_of(written.v[i].tensor), RG_FLOAT64);
        biases += strstr(written.v[i].name, ".bias") != NULL;
    }
    ck_assert_int_eq(biases, 7);
    rg_module_free(m);
    scratch_end();
}
END_TEST

/* The special tokens go through a folder, and so does generation_config.json, byte for byte. */
START_TEST(test_special_tokens) {
    RG_SCOPE();
    scratch_begin();
    rg_gpt *none = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 1, .n_head = 1,
                             .n_embd = 2);
    ck_ok(rg_gpt_to_folder(none, scratch("")));
    rg_gpt *back = rg_gpt_from_folder(scratch(""));
    ck_ok(back && back->config.bos_token_id == -1 && back->config.eos_token_id.n == 0
          && back->config.pad_token_id == -1 && !back->generation_config);
    rg_module_free(back);
    ck_assert(access(scratch("generation_config.json"), F_OK) != 0);
    rg_module_free(none);
    rg_gpt *some = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 1, .n_head = 1,
                             .n_embd = 2, .bos_token_id = 1, .eos_token_id = RG_DIMS(2),
                             .pad_token_id = 3);
    ck_ok(rg_gpt_to_folder(some, scratch("")));
    scratch_write("generation_config.json", generation, sizeof generation - 1);
    for (int i = 0; i < 2; i++) {
        back = rg_gpt_from_folder(scratch(""));
        ck_ok(back && back->config.bos_token_id == 1 && back->config.pad_token_id == 3);
        ck_assert(back->config.eos_token_id.n == 2 && back->config.eos_token_id.v[1] == 6);
        ck_assert_str_eq(back->generation_config, generation);
        ck_assert(remove(scratch("generation_config.json")) == 0);
        ck_ok(rg_gpt_to_folder(back, scratch("")));
        rg_module_free(back);
    }
    static const char *const wrong[][2] = {
        { "[]", "the file is no object" },
        { "{", "generation_config.json': " },
        { "{\"eos_token_id\": \"a\"}", "\"eos_token_id\" isn't the number of a token" },
        { "{\"eos_token_id\": [1, null]}", "\"eos_token_id\" isn't the number of a token" },
        { "{\"eos_token_id\": [1,2,3,4,5,6,7,8,9]}", "has more than 8 tokens" },
        { "{\"bos_token_id\": -1}", "\"bos_token_id\" isn't the number of a token" },
        { "{\"pad_token_id\": 1.5}", "\"pad_token_id\" isn't the number of a token" },
        { "{\"pad_token_id\": 2147483648}", "\"pad_token_id\" isn't the number of a token" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scratch_write("generation_config.json", wrong[i][0], strlen(wrong[i][0]));
        ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, wrong[i][1]);
    }
    static const char largest[] = "{\"pad_token_id\": 2147483647}";
    scratch_write("generation_config.json", largest, sizeof largest - 1);
    back = rg_gpt_from_folder(scratch(""));
    ck_ok(back && back->config.pad_token_id == INT32_MAX);
    rg_module_free(back);
    rg_module_free(some);
    scratch_end();
}
END_TEST

/* A copy of the model has its own copy of generation_config. */
START_TEST(test_copies) {
    rg_gpt *m = rg_nn_gpt(.block_size = 2, .vocab_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 2);
    ck_ok(rgi_rename((char **)&m->generation_config, generation));
    for (int i = 0; i < 2; i++) {
        rg_gpt *copy = rg_deepcopy(m);
        ck_ok(copy);
        ck_assert(copy->generation_config != m->generation_config);
        rg_module_free(m);
        ck_assert_str_eq(copy->generation_config, generation);
        m = copy;
    }
    rg_module_free(m);
}
END_TEST

/* transformers' GPT-2 has biases, which are zeros where the model had none. */
START_TEST(test_without_biases) {
    scratch_begin();
    for (int untied = 0; untied < 2; untied++) {
        rg_gpt *m = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 2, .n_head = 2,
                              .n_embd = 4, .bias = false, .untied = untied);
        ck_assert(rg_gpt_to_folder(m, scratch("")));
        rg_gpt *back = rg_gpt_from_folder(scratch(""));
        ck_ok(back);
        rg_tensor *idx = rg_literal([[ 1, 2, 6 ]]);
        rg_eval(m);
        ck_assert(rg_allclose(rg_call(m, idx), rg_call(back, idx), 1e-5, 1e-6));
        rg_module_free(back);
        rg_module_free(m);
    }
    scratch_end();
}
END_TEST

/* ---- folders ------------------------------------------------------------------------- */

/* config.json is what transformers would write: the keys are in its order, and a token that the
 * model doesn't have is null. */
START_TEST(test_written_config) {
    static const char *const written[] = {
        "{\n  \"activation_function\": \"gelu\",\n"
        "  \"architectures\": [\n    \"GPT2LMHeadModel\"\n  ],\n"
        "  \"attn_pdrop\": 0.5,\n  \"bos_token_id\": null,\n  \"embd_pdrop\": 0.5,\n"
        "  \"eos_token_id\": null,\n  \"layer_norm_epsilon\": 1.0000000000000001e-05,\n"
        "  \"model_type\": \"gpt2\",\n  \"n_embd\": 4,\n  \"n_head\": 2,\n  \"n_inner\": 16,\n"
        "  \"n_layer\": 1,\n  \"n_positions\": 3,\n  \"resid_pdrop\": 0.5,\n"
        "  \"tie_word_embeddings\": true,\n  \"vocab_size\": 5\n}\n",
        "{\n  \"activation_function\": \"gelu_new\",\n"
        "  \"architectures\": [\n    \"GPT2LMHeadModel\"\n  ],\n"
        "  \"attn_pdrop\": 0.125,\n  \"bos_token_id\": 0,\n  \"embd_pdrop\": 0.25,\n"
        "  \"eos_token_id\": [\n    0,\n    7\n  ],\n  \"layer_norm_epsilon\": 0.03125,\n"
        "  \"model_type\": \"gpt2\",\n  \"n_embd\": 6,\n  \"n_head\": 3,\n  \"n_inner\": 7,\n"
        "  \"n_layer\": 2,\n  \"n_positions\": 9,\n  \"pad_token_id\": 0,\n"
        "  \"resid_pdrop\": 0,\n"
        "  \"tie_word_embeddings\": false,\n  \"vocab_size\": 8\n}\n",
    };
    rg_gpt *models[] = {
        rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 1, .n_head = 2, .n_embd = 4,
                  .dropout = 0.5),
        rg_nn_gpt(.block_size = 9, .vocab_size = 8, .n_layer = 2, .n_head = 3, .n_embd = 6,
                  .n_inner = 7, .gelu_tanh = true, .attn_dropout = 0.125, .embd_dropout = 0.25,
                  .layer_norm_epsilon = 0.03125, .untied = true, .bos_token_id = 0,
                  .eos_token_id = RG_DIMS(0, 7), .pad_token_id = 0),
    };
    scratch_begin();
    for (int i = 0; i < 2; i++) {
        size_t n;
        ck_ok(rg_gpt_to_folder(models[i], scratch("")));
        char *text = file_bytes(scratch("config.json"), &n);
        ck_assert_msg(n == strlen(written[i]) && memcmp(text, written[i], n) == 0, "%.*s", (int)n,
                      text);
        free(text);
    }
    /* The modules have the numbers that are written. */
    const char *modules = rg_module_repr(models[1]);
    ck_assert(strstr(modules, "(drop): Dropout(p=0.25,"));
    ck_assert(strstr(modules, "(attn_dropout): Dropout(p=0.125,"));
    ck_assert(strstr(modules, "(resid_dropout): Dropout(p=0.0,"));
    ck_assert(strstr(modules, "LayerNorm((6,), eps=0.03125,"));
    /* A single end token is written as a number, not as a list. */
    rg_gpt *one = rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 1, .n_head = 2,
                            .n_embd = 4, .eos_token_id = RG_DIMS(4));
    ck_ok(rg_gpt_to_folder(one, scratch("")));
    rg_module_free(one);
    size_t n;
    char *text = file_bytes(scratch("config.json"), &n);
    text[n - 1] = 0;
    ck_assert(strstr(text, "\"eos_token_id\": 4,\n"));
    free(text);
    rg_module_free(models[0]);
    rg_module_free(models[1]);
    scratch_end();
}
END_TEST

static char *config;

/* Writes the golden model's config.json and weights into the scratch folder. */
static void copy_golden(void) {
    size_t n, bytes;
    config = file_bytes(golden_path("/config.json"), &n);
    config = realloc(config, n + 1);
    config[n] = 0;
    scratch_write("config.json", config, n);
    char *weights = file_bytes(golden_path("/model.safetensors"), &bytes);
    scratch_write("model.safetensors", weights, bytes);
    free(weights);
}

static rg_named_list renamed(rg_named_list all, const char *prefix) {
    rg_named *v = calloc((size_t)all.n + 8, sizeof *v);
    for (int i = 0; i < all.n; i++) {
        size_t n = strlen(prefix);
        v[i] = all.v[i];
        if (!strncmp(v[i].name, prefix, n))
            v[i].name += n;
    }
    return (rg_named_list){ all.n, v };
}

/* In older files, names lack the prefix "transformer.", and there are masks. Some files have the
 * head's weight, although it is tied. */
START_TEST(test_older_files) {
    scratch_begin();
    copy_golden();
    rg_named_list all = renamed(rg_load_file(scratch("model.safetensors")), "transformer.");
    rg_named *v = (rg_named *)all.v;
    v[all.n++] = (rg_named){ "h.0.attn.bias", rg_ones(1, 1, 4, 4) };
    v[all.n++] = (rg_named){ "h.1.attn.masked_bias", rg_full(RG_DIMS(1), -1e4) };
    ck_assert(rg_save_file(all, scratch("model.safetensors")));
    rg_gpt *m = rg_gpt_from_folder(scratch(""));
    ck_ok(m);
    golden_model(m);
    v[all.n++] = (rg_named){ "lm_head.weight", rg_double(m->lm_head->weight) };
    rg_module_free(m);
    ck_assert(rg_save_file(all, scratch("model.safetensors")));
    m = rg_gpt_from_folder(scratch(""));
    ck_ok(m);
    rg_module_free(m);
    /* Weights of another type are converted. */
    for (int i = 0; i < all.n; i++)
        v[i].tensor = rg_double(v[i].tensor);
    ck_assert(rg_save_file(all, scratch("model.safetensors")));
    m = rg_gpt_from_folder(scratch(""));
    ck_ok(m);
    golden_model(m);
    rg_module_free(m);
    v[all.n - 1].tensor = rg_zeros_like(v[all.n - 1].tensor);
    ck_assert(rg_save_file(all, scratch("model.safetensors")));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR,
             "tensor \"lm_head.weight\" is another than \"transformer.wte.weight\"");
    free(v);
    free(config);
    scratch_end();
}
END_TEST

/* The weight of an untied head isn't compared with the embedding. */
START_TEST(test_head_of_its_own) {
    scratch_begin();
    rg_gpt *m = rg_nn_gpt(.block_size = 2, .vocab_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 2,
                          .untied = true);
    rg_nn_init_constant_(m->lm_head->weight, NAN);
    ck_ok(rg_gpt_to_folder(m, scratch("")));
    rg_gpt *back = rg_gpt_from_folder(scratch(""));
    ck_ok(back);
    ck_assert(isnan(rg_at(back->lm_head->weight, 2, 1)));
    rg_module_free(back);
    rg_module_free(m);
    scratch_end();
}
END_TEST

/* If the file has a tensor's bytes as they are in memory, they are read directly into the
 * parameter. So reading the model needs no memory for a second copy of its largest matrix. */
START_TEST(test_memory_of_reading) {
    enum { POSITIONS = 4000, EMBD = 8 };
    scratch_begin();
    rg_gpt *m = rg_nn_gpt(.block_size = POSITIONS, .vocab_size = 3, .n_layer = 1, .n_head = 1,
                          .n_embd = EMBD);
    ck_ok(rg_gpt_to_folder(m, scratch("")));
    rg_module_free(m);
    rg_memory_reset_peak();
    m = rg_gpt_from_folder(scratch(""));
    ck_ok(m);
    ck_assert_int_lt(rg_memory_stats().peak - rg_memory_stats().now, POSITIONS * EMBD * 4 / 2);
    rg_module_free(m);
    scratch_end();
}
END_TEST

/* Writes an index that says that tensor i is in the file i modulo 3. */
static void write_shards(rg_named_list all, const char *const files[3]) {
    char *index = malloc((size_t)all.n * 200 + 100), *to = index;
    to += sprintf(to, "{\"metadata\": {}, \"weight_map\": {");
    for (int i = 0; i < all.n; i++)
        to += sprintf(to, "%s\"%s\": \"%s\"", i ? ", " : "", all.v[i].name, files[i % 3]);
    to += sprintf(to, "}}");
    scratch_write("model.safetensors.index.json", index, (size_t)(to - index));
    free(index);
}

static const struct {
    const char *text, *sentence;
} bad_indices[] = {
    { "", "index.json': it is no JSON: at byte 0 the text ends" },
    { "[", "index.json': it is no JSON: at byte 1 the text ends" },
    { "[]", "index.json': it has no \"weight_map\"" },
    { "3", "index.json': it has no \"weight_map\"" },
    { "{}", "index.json': it has no \"weight_map\"" },
    { "{\"weight_maps\": {\"w\": \"a.safetensors\"}}", "it has no \"weight_map\"" },
    { "{\"weight_map\": null}", "its \"weight_map\" is null, and no object" },
    { "{\"weight_map\": []}", "its \"weight_map\" is an array, and no object" },
    { "{\"weight_map\": \"a.safetensors\"}",
      "its \"weight_map\" is \"a.safetensors\", and no object" },
    { "{\"weight_map\": {}}", "its \"weight_map\" tells of no file" },
    { "{\"weight_map\": {\"w\": null}}",
      "for tensor \"w\" \"weight_map\" has null, which is no file" },
    { "{\"weight_map\": {\"w\": 1}}", "for tensor \"w\" \"weight_map\" has 1, which is no file" },
    { "{\"weight_map\": {\"w\": [\"a.safetensors\"]}}",
      "for tensor \"w\" \"weight_map\" has an array, which is no file" },
    { "{\"weight_map\": {\"w\": \"\"}}",
      "for tensor \"w\" \"weight_map\" has \"\", which is no file" },
    { "{\"weight_map\": {\"u\": \"../a.safetensors\"}}",
      "for tensor \"u\" \"weight_map\" has \"../a.safetensors\", which is no file" },
    { "{\"weight_map\": {\"v\": \"/a.safetensors\"}}",
      "for tensor \"v\" \"weight_map\" has \"/a.safetensors\", which is no file" },
    { "{\"weight_map\": {\"x\": \"a/b\"}}",
      "for tensor \"x\" \"weight_map\" has \"a/b\", which is no file" },
    { "{\"weight_map\": {\"y\": \"a\\u0000\"}}",
      "for tensor \"y\" \"weight_map\" has \"a?\", which is no file" },
    { "{\"weight_map\": {\"a\\u001b[m\": \"\"}}",
      "for tensor \"a?[m\" \"weight_map\" has \"\", which is no file" },
    { "{\"weight_map\": {\"w\": \"a.safetensors\", \"w\": \"a.safetensors\"}}",
      "\"w\" comes twice in one object" },
    { "{\"weight_map\": {\"w\\u0000\": \"a\"}}", "a name that begins with \"w\" has a 0 in it" },
    { "{\"weight_map\": {\"w\": \"none\"}}", "[Errno 2] No such file or directory: '" },
    { "{\"weight_map\": {\"w\": \".\"}}", "[Errno 21] Is a directory: '" },
    { "{\"weight_map\": {\"w\": \"config.json\"}}", "config.json': its header would have" },
};

START_TEST(test_shards) {
    static const char *const files[] = { "a.safetensors", "b.safetensors", "c.safetensors" };
    static const char *const missing[] = { "a.safetensors", "b.safetensors", "d.safetensors" };
    static const char *const twice[] = { "a.safetensors", "b.safetensors", "a2.safetensors" };
    scratch_begin();
    copy_golden();
    rg_named_list all = rg_load_file(scratch("model.safetensors"));
    rg_named part[100];
    for (int k = 0; k < 3; k++) {
        int n = 0;
        for (int i = k; i < all.n; i += 3)
            part[n++] = all.v[i];
        ck_assert(rg_save_file(((rg_named_list){ n, part }), scratch(files[k])));
        if (k == 0)
            ck_assert(rg_save_file(((rg_named_list){ n, part }), scratch("a2.safetensors")));
    }
    remove(scratch("model.safetensors"));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "[Errno 2]");
    write_shards(all, files);
    rg_gpt *m = rg_gpt_from_folder(scratch(""));
    ck_ok(m);
    golden_model(m);
    rg_module_free(m);
    write_shards(all, missing);
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "[Errno 2]");
    write_shards(all, twice);
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "it lacks tensor");
    for (size_t i = 0; i < sizeof bad_indices / sizeof *bad_indices; i++) {
        const char *text = bad_indices[i].text;
        scratch_write("model.safetensors.index.json", text, strlen(text));
        ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, bad_indices[i].sentence);
    }
    free(config);
    scratch_end();
}
END_TEST

/* ---- what is refused ----------------------------------------------------------------- */

static const struct {
    const char *from, *to, *sentence;
} bad_configs[] = {
    { "\"gpt2\"", "\"gpt_neo\"", "\"model_type\" is \"gpt_neo\", which isn't supported" },
    { "\"model_type\": \"gpt2\",", "", "the file has no \"model_type\"" },
    { "\"gelu_new\"", "\"relu\"", "\"activation_function\" is \"relu\", which isn't supported" },
    { "\"gelu_new\"", "null", "\"activation_function\" is null" },
    { "cross_attention\": false", "cross_attention\": true", "\"add_cross_attention\" is true" },
    { "inverse_layer_idx\": false", "inverse_layer_idx\": true",
      "\"scale_attn_by_inverse_layer_idx\" is true, which isn't supported" },
    { "attn_weights\": true", "attn_weights\": false", "\"scale_attn_weights\" is false" },
    { "\"attn_pdrop\": 0.1", "\"attn_pdrop\": 1", "\"attn_pdrop\" is 1, which isn't supported" },
    { "\"embd_pdrop\": 0.1", "\"embd_pdrop\": -1", "\"embd_pdrop\" is -1, which isn't" },
    { "\"resid_pdrop\": 0.1", "\"resid_pdrop\": 1e999", "\"resid_pdrop\" is inf, which isn't" },
    { "\"resid_pdrop\": 0.1", "\"resid_pdrop\": \"no\"", "\"resid_pdrop\" is \"no\"" },
    { "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 0", "\"layer_norm_epsilon\" is 0" },
    { "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": -1", "epsilon\" is -1" },
    { "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": []", "epsilon\" is an array" },
    { "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1.5", "epsilon\" is 1.5, which" },
    { "\"n_embd\": 16", "\"n_embd\": 0", "\"n_embd\" is 0, which isn't supported" },
    { "\"n_embd\": 16", "\"n_embd\": 17", "\"n_embd\", 17, is no multiple of \"n_head\", 2" },
    { "\"n_embd\": 16", "\"n_embd\": 18",
      "tensor \"transformer.wte.weight\" is of shape [384, 16]"
      ", not of [384, 18], as config.json has it" },
    { "\"n_embd\": 16", "\"n_embd\": 2147483646", "not of [384, 2147483646]" },
    { "\"n_embd\": 16", "\"n_embd\": 2147483647", "\"n_embd\", 2147483647, is no multiple of" },
    { "\"n_embd\": 16", "\"n_embd\": 2147483648", "\"n_embd\" is 2147483648" },
    { "\"n_embd\": 16", "\"n_embd\": 16.0", "\"n_embd\" is 16.0, which isn't supported" },
    { "\"n_embd\": 16,", "", "not of [384, 768]" },
    { "\"n_head\": 2", "\"n_head\": 0", "\"n_head\" is 0, which isn't supported" },
    { "\"n_head\": 2", "\"n_head\": -2", "\"n_head\" is -2, which isn't supported" },
    { "\"n_head\": 2", "\"n_head\": true", "\"n_head\" is true, which isn't supported" },
    { "\"n_inner\": null", "\"n_inner\": 0", "\"n_inner\" is 0, which isn't supported" },
    { "\"n_inner\": null", "\"n_inner\": 63",
      "tensor \"transformer.h.0.mlp.c_fc.weight\" is of shape [16, 64], not of [16, 63]" },
    { "\"n_layer\": 2", "\"n_layer\": 3", "it lacks tensor \"transformer.h.2.ln_1.weight\"" },
    { "\"n_layer\": 2", "\"n_layer\": 1", "tensor \"transformer.h.1.attn.c_attn.bias\" is none" },
    { "\"n_layer\": 2", "\"n_layer\": 0", "\"n_layer\" is 0, which isn't supported" },
    { "\"n_layer\": 2", "\"n_layer\": 32767", "it lacks tensor \"transformer.h.2.ln_1.weight\"" },
    { "\"n_layer\": 2", "\"n_layer\": 32768", "\"n_layer\" is 32768, which isn't supported" },
    { "\"n_layer\": 2", "\"n_layer\": 99999", "\"n_layer\" is 99999, which isn't supported" },
    { "\"n_positions\": 32", "\"n_positions\": 33", "tensor \"transformer.wpe.weight\" is of" },
    { "\"n_positions\": 32", "\"n_positions\": 32, \"n_ctx\": 16",
      "\"n_ctx\" is another than \"n_positions\", 32" },
    { "\"vocab_size\": 384", "\"vocab_size\": 383", "tensor \"transformer.wte.weight\" is of" },
    { "\"vocab_size\": 384", "\"vocab_size\": 384, \"vocab_size\": 384", "comes twice" },
    { "\"use_cache\"", "\"quantization_config\"", "\"quantization_config\" isn't supported" },
    { "\"use_cache\"", "\"rope_theta\"", "\"rope_theta\" isn't supported" },
    { "\"use_cache\": true", "\"pruned_heads\": {\"0\": [1]}", "\"pruned_heads\" has some" },
    { "embeddings\": true", "embeddings\": false", "it lacks tensor \"lm_head.weight\"" },
    { "embeddings\": true", "embeddings\": 1", "\"tie_word_embeddings\" is 1" },
    { "\"eos_token_id\": 0", "\"eos_token_id\": \"x\"", "\"eos_token_id\" is \"x\"" },
    { "\"eos_token_id\": 0", "\"eos_token_id\": [0, \"x\"]",
      "\"eos_token_id\" isn't the number of a token" },
    { "{", "[", "is no JSON" },
    { "{", "", "is no JSON" },
};

/* Changes of config.json with no effect: keys that don't matter here, and defaults that are left
 * out or written in full. */
static const struct {
    const char *from, *to;
} other_configs[] = {
    { "\"use_cache\": true", "\"pruned_heads\": {}" },
    { "\"use_cache\": true", "\"pruned_heads\": null" },
    { "\"use_cache\": true", "\"use_cache\": false" },
    { "\"activation_function\": \"gelu_new\",", "" },
    { "\"gelu_new\"", "\"gelu_pytorch_tanh\"" },
    { "\"layer_norm_epsilon\": 1e-05,", "" },
    { "\"attn_pdrop\": 0.1,", "" },
    { "\"embd_pdrop\": 0.1,", "" },
    { "\"resid_pdrop\": 0.1,", "" },
    { "\"n_inner\": null", "\"n_inner\": 64" },
    { "\"n_inner\": null,", "" },
    { "\"n_positions\": 32", "\"n_positions\": 32, \"n_ctx\": 32" },
    { "\"tie_word_embeddings\": true,", "" },
};

/* Writes the golden config.json with `to` in place of `from`. */
static void write_config_with(const char *from, const char *to) {
    const char *at = strstr(config, from);
    ck_assert_msg(at, "no %s", from);
    char *text = malloc(strlen(config) + strlen(to) + 1);
    int n = sprintf(text, "%.*s%s%s", (int)(at - config), config, to, at + strlen(from));
    scratch_write("config.json", text, (size_t)n);
    free(text);
}

START_TEST(test_other_configs) {
    scratch_begin();
    copy_golden();
    for (size_t i = 0; i < sizeof other_configs / sizeof *other_configs; i++) {
        write_config_with(other_configs[i].from, other_configs[i].to);
        rg_gpt *m = rg_gpt_from_folder(scratch(""));
        ck_ok(m);
        golden_model(m);
        ck_assert(m->config.attn_dropout == 0.1 && m->config.embd_dropout == 0.1);
        ck_assert(m->config.dropout == 0.1 && m->config.layer_norm_epsilon == 1e-5);
        rg_module_free(m);
    }
    write_config_with("1e-05", "1");
    rg_gpt *m = rg_gpt_from_folder(scratch(""));
    ck_ok(m);
    ck_assert(m->config.layer_norm_epsilon == 1);
    rg_module_free(m);
    free(config);
    scratch_end();
}
END_TEST

START_TEST(test_bad_configs) {
    scratch_begin();
    copy_golden();
    for (size_t i = 0; i < sizeof bad_configs / sizeof *bad_configs; i++) {
        write_config_with(bad_configs[i].from, bad_configs[i].to);
        ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, bad_configs[i].sentence);
    }
    free(config);
    scratch_end();
}
END_TEST

START_TEST(test_bad_weights) {
    scratch_begin();
    copy_golden();
    rg_named_list all = renamed(rg_load_file(scratch("model.safetensors")), "");
    rg_named *v = (rg_named *)all.v, first = v[0], added = { "score.weight", rg_ones(2) };
    const char *const path = "model.safetensors";
    v[all.n] = added;
    ck_assert(rg_save_file(((rg_named_list){ all.n + 1, v }), scratch(path)));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR,
             "tensor \"score.weight\" is none of GPT-2's");
    v[all.n] = (rg_named){ first.name + strlen("transformer."), first.tensor };
    ck_assert(rg_save_file(((rg_named_list){ all.n + 1, v }), scratch(path)));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "comes twice");
    v[0].tensor = rg_long(first.tensor);
    ck_assert(rg_save_file(all, scratch(path)));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "is of type I64, which no weight is of");
    v[0].tensor = rg_unsqueeze(first.tensor, 0);
    ck_assert(rg_save_file(all, scratch(path)));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "is of shape");
    v[0].tensor = rg_unsqueeze(first.tensor, -1);
    ck_assert(rg_save_file(all, scratch(path)));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "is of shape");
    for (int i = 0; i < all.n; i++) {
        v[0] = first;
        rg_named missing = v[i];
        v[i] = v[0];
        ck_assert(rg_save_file(((rg_named_list){ all.n - 1, v + 1 }), scratch(path)));
        ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "it lacks tensor \"transformer.");
        v[i] = missing;
    }
    scratch_write(path, "short", 5);
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, path);
    remove(scratch(path));
    ck_fails(rg_gpt_from_folder(scratch("")), RG_IO_ERROR, "[Errno 2] No such file");
    ck_fails(rg_gpt_from_folder("/no/such"), RG_IO_ERROR, "'/no/such/config.json'");
    free(v);
    free(config);
    scratch_end();
}
END_TEST

/* ---- what fails ---------------------------------------------------------------------- */

/* Reads the scratch folder's model. */
static bool read_folder(void) {
    rg_gpt *m = rg_gpt_from_folder(scratch(""));
    rg_module_free(m);
    return m;
}

static rg_gpt *smallest(int64_t vocabulary) {
    rg_gpt *m = rg_nn_gpt(.block_size = 2, .vocab_size = vocabulary, .n_layer = 1, .n_head = 1,
                          .n_embd = 2, .bias = false);
    ck_ok(m);
    return m;
}

/* Each request for memory is denied in turn, and each call of the file system fails. */
START_TEST(test_read_fails) {
    RG_SCOPE();
    scratch_begin();
    rg_gpt *m = smallest(3);
    ck_ok(rg_gpt_to_folder(m, scratch("")));
    rg_module_free(m);
    scratch_write("generation_config.json", generation, sizeof generation - 1);
    ck_assert_int_gt(deny_in_turn(read_folder, NULL), 100);
    ck_assert_int_gt(fail_in_turn(read_folder, NULL), 10);
    /* The weights lie in two files, and have the head, although it is tied. */
    rg_named_list all = renamed(rg_load_file(scratch("model.safetensors")), "");
    rg_named *v = (rg_named *)all.v;
    for (int i = 0; i < all.n; i++)
        if (strcmp(v[i].name, "transformer.wte.weight") == 0)
            v[all.n] = (rg_named){ "lm_head.weight", rg_double(v[i].tensor) };
    all.n++;
    ck_ok(rg_save_file(((rg_named_list){ 5, v }), scratch("a")));
    ck_ok(rg_save_file(((rg_named_list){ all.n - 5, v + 5 }), scratch("b")));
    char index[200];
    int n = sprintf(index, "{\"weight_map\": {\"%s\": \"a\", \"%s\": \"b\"}}", v[0].name,
                    v[5].name);
    scratch_write("model.safetensors.index.json", index, (size_t)n);
    remove(scratch("model.safetensors"));
    deny_in_turn(read_folder, NULL);
    fail_in_turn(read_folder, NULL);
    free(v);
    scratch_end();
}
END_TEST

static rg_gpt *written;
static bool write_folder(void) { return rg_gpt_to_folder(written, scratch("")); }

/* Asserts that a failed write has left the old model in the folder, unless the call that failed was
 * a rename after another rename. Then writes the old model again, if the folder no longer has it.
 */
static void check_folder(bool done) {
    RG_SCOPE();
    const bool three = written->generation_config, torn = !done && faults.renamed;
    rg_gpt *m = rg_gpt_from_folder(scratch(""));
    if (torn) {
        ck_assert_msg(strcmp(faults.failed, "rename") == 0, "%s failed", faults.failed);
        ck_assert(three || !m);
    } else {
        ck_assert_msg(m && m->config.vocab_size == (done ? 4 : 3), "%s", rg_error());
        ck_assert_int_eq(scratch_files(), done && three ? 3 : 2);
    }
    rg_module_free(m);
    rg_error_clear();
    if (!done && !torn)
        return;
    remove(scratch("generation_config.json"));
    m = smallest(3);
    ck_ok(rg_gpt_to_folder(m, scratch("")));
    rg_module_free(m);
}

static bool copy_written(void) {
    rg_gpt *copy = rg_deepcopy(written);
    rg_module_free(copy);
    return copy;
}

/* An error handler. Asserts that a failed request for memory was for less than a megabyte. A list
 * that failed has n = -1, which would be a huge size. */
static void note_bytes(rg_code code, const char *message) {
    const char *bytes = strstr(message, "could not allocate ");
    unsigned long long n = 0;
    ck_assert(code != RG_OUT_OF_MEMORY || (bytes && sscanf(bytes + 19, "%llu", &n) == 1));
    ck_assert_msg(n < 1 << 20, "%s", message);
}

START_TEST(test_write_fails) {
    scratch_begin();
    rg_on_error(note_bytes);
    rg_gpt *m = smallest(3);
    ck_ok(rg_gpt_to_folder(m, scratch("")));
    rg_module_free(m);
    written = smallest(4);
    ck_assert_int_gt(deny_in_turn(write_folder, check_folder), 50);
    ck_assert_int_gt(fail_in_turn(write_folder, check_folder), 10);
    /* The model has a generation_config.json, too. */
    ck_ok(rgi_rename((char **)&written->generation_config, generation));
    ck_assert_int_gt(deny_in_turn(write_folder, check_folder), 50);
    ck_assert_int_gt(fail_in_turn(write_folder, check_folder), 15);
    ck_assert_int_gt(deny_in_turn(copy_written, NULL), 10);
    rg_on_error(NULL);
    rg_module_free(written);
    scratch_end();
}
END_TEST

RG_TESTS(gpt_folder, test_replaced_layers, test_golden, test_there_and_back, test_written_config,
         test_without_biases, test_folder_without_name, test_dtype_of_written_biases,
         test_special_tokens, test_copies, test_head_of_its_own, test_memory_of_reading,
         test_older_files, test_shards, test_other_configs, test_bad_configs, test_bad_weights,
         test_read_fails, test_write_fails)

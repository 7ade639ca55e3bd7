/*
 * test_model_memory.c: the memory of a model that is read from a folder, as examples/decoder.c does
 * it. The weights are held once while they are read, while the model writes, and while matrices of
 * LoRA are trained.
 */
#include "tests/scratch.h"
#include "tests/test.h"
#include "examples/decoder_folder.h"

/* The example has a main of its own, which ends without a return, and prints each step of a
 * training. */
int decoder_main(int argc, char *argv[]);
__attribute__((format(printf, 1, 2))) static int unprinted(const char *format, ...) {
    return format != NULL;
}
#pragma GCC diagnostic ignored "-Wreturn-type"
#define main   decoder_main
#define printf unprinted
#include "examples/decoder.c"
#undef main
#undef printf

/* With these sizes, the memory's blocks for the large weights are little larger than the weights.
 * The keys and values of all tokens, and what a step of LoRA computes, take a few hundredths of the
 * weights' memory, as in a large model. */
enum { DIM = 252, HEADS = 18, KV_HEADS = 6, HEAD = 14, INNER = 520, LAYERS_N = 2, VOCAB = 1040 };
enum { PROMPT = 24, WRITTEN = 16 };

static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 252, "
                             "\"intermediate_size\": 520, \"num_hidden_layers\": 2, "
                             "\"num_attention_heads\": 18, \"num_key_value_heads\": 6, "
                             "\"vocab_size\": 1040, \"tie_word_embeddings\": true}";

static rg_named *next;
static void add_weight(const char *name, rg_dims shape) {
    *next++ = (rg_named){ name,
                          rg_mul(rg_randn_dims(shape, RG_FLOAT32, rg_default_generator()), 0.05) };
}

/* Writes the folder, and returns the size of its file of weights. */
static double write_model(void) {
    RG_SCOPE();
    rg_named all[64];
    next = all;
    m.dim = DIM;
    m.inner = INNER;
    m.heads = HEADS;
    m.kv_heads = KV_HEADS;
    m.head = HEAD;
    add_weight("model.embed_tokens.weight", RG_DIMS(VOCAB, DIM));
    add_weight("model.norm.weight", RG_DIMS(DIM));
    for (int i = 0; i < LAYERS_N; i++) {
        for (int k = 0; k < LINEARS; k++)
            add_weight(joined("model.layers.%d.%s.weight", i, linear_names[k]), linear_shape(k));
        add_weight(joined("model.layers.%d.input_layernorm.weight", i), RG_DIMS(DIM));
        add_weight(joined("model.layers.%d.post_attention_layernorm.weight", i), RG_DIMS(DIM));
    }
    const char *path = scratch("model.safetensors");
    ck_ok(rg_save_file(((rg_named_list){ (int)(next - all), all }), path));
    scratch_write("config.json", config, sizeof config - 1);
    struct stat s;
    ck_assert_int_eq(stat(path, &s), 0);
    return (double)s.st_size;
}

/* Returns the bytes in use, and lets the next peak begin with them. */
static double begin_count(void) {
    rg_memory_reset_peak();
    return (double)rg_memory_stats().now;
}
static double peak_above(double before) { return (double)rg_memory_stats().peak - before; }

static void write_tokens(rg_tensor *prompt) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *ids = rg_pad(rg_unsqueeze(prompt, 0), 0, WRITTEN);
    int64_t read = 0;
    RG_FOR (int64_t n = PROMPT; n < PROMPT + WRITTEN; n++) {
        rg_tensor *x = forward(rg_narrow(ids, 1, read, n - read), read, true);
        rg_copy_(rg_narrow(ids, 1, n, 1),
                 rg_argmax_dim(logits_after(rg_select(x, 1, -1)), 1, true));
        read = n;
    }
    for (int64_t i = 0; i < m.layers; i++)
        rg_kv_cache_free(&m.layer[i].cache);
}

START_TEST(test_held_once) {
    rg_memory_may_stay = 1;
    scratch_begin();
    rg_manual_seed(1);
    const double file = write_model();
    const double before = begin_count();
    read_folder(scratch(""));
    const double weights = (double)rg_memory_stats().now - before;
    ck_assert_msg(peak_above(before) < 1.01 * weights, "reading: %f of the weights",
                  peak_above(before) / weights);
    write_tokens(rg_randint(0, VOCAB, PROMPT));
    ck_assert_msg(peak_above(before) < 1.15 * file, "writing: %f of the file",
                  peak_above(before) / file);

    /* A gradient of all weights would take as much as the weights, and so would each of the
     * optimizer's moments. */
    rank = 2;
    steps = 2;
    length = 4;
    add_lora();
    const double begin = begin_count();
    train(rg_randint(0, VOCAB, 16));
    ck_assert_msg(peak_above(begin) < 0.15 * weights, "LoRA: %f of the weights",
                  peak_above(begin) / weights);
    for (int i = 0; i < m.n; i++)
        ck_assert(!rg_requires_grad(m.all[i].tensor) && rg_grad_of(m.all[i].tensor) == RG_NONE);
    for (int i = 0; i < m.n_lora; i++)
        ck_assert(rg_grad_of(m.lora[i].tensor) != RG_NONE);
    free(m.layer);
    free(m.all);
    free(m.lora);
    scratch_end();
}
END_TEST

RG_TESTS(model_memory, test_held_once)

/*
 * gpt2.c: continues a text with GPT-2. The model and its tokenizer are in a folder of Hugging
 * Face's transformers: config.json, model.safetensors and tokenizer.json.
 */
#include "options.h"

static int64_t tokens = 100, top_k = 0, seed = 1337, threads = 0;
static double temperature = 1, top_p = 1;

static const option options[] = {
    { "tokens", WHOLE, &tokens, 0, 1e8, "how many to write, unless the text ends before" },
    { "temperature", NUMBER, &temperature, 0, 1e6,
      "lower is safer, higher is wilder; 0: the likeliest" },
    { "top-k", WHOLE, &top_k, 0, 1e15, "choose among so many tokens; 0: among all" },
    { "top-p", NUMBER, &top_p, 0, 1, "choose among the likeliest that have this share" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "threads", WHOLE, &threads, 0, 1024, "to compute with; 0: one for each core" },
};

/* The state of printing the generated tokens one by one. */
typedef struct {
    rg_token_stream stream;
    rg_dims ends; /* The tokens that end the text. They aren't printed. */
    int64_t shown;
} screen;

/* Prints a token's characters as soon as they are complete. */
static bool show(rg_tensor *token, void *context) {
    RG_SCOPE();
    screen *s = context;
    const int64_t id = (int64_t)rg_item(token);
    for (int i = 0; i < s->ends.n; i++)
        if (id == s->ends.v[i])
            return true;
    const char *text = rg_token_stream_add(&s->stream, id);
    s->shown++;
    fwrite(text, 1, (size_t)s->stream.length, stdout);
    fflush(stdout);
    return true;
}

/* Prints the prompt and its continuation. */
static void write_on(rg_gpt *model, const rg_tokenizer *t, rg_tensor *prompt) {
    screen s = { .stream = rg_token_stream_begin(t), .ends = model->config.eos_token_id };
    printf("%s", rg_tokenizer_decode(t, prompt));
    double begin = seconds();
    rg_gpt_generate(model, rg_unsqueeze(prompt, 0), tokens, .temperature = temperature,
                    .top_k = top_k, .top_p = top_p, .eos_token_id = s.ends, .each = show,
                    .context = &s);
    double took = seconds() - begin;
    printf("%s\n", rg_token_stream_end(&s.stream));
    fprintf(stderr, "%lld tokens, %.1f a second\n", (long long)s.shown, (double)s.shown / took);
}

int main(int argc, char *argv[]) {
    int first = READ_OPTIONS(argc, argv, "FOLDER PROMPT", options);
    if (argc != first + 2)
        refuse("takes a folder and a prompt; --help tells more");
    rg_tokenizer *t = rg_tokenizer_from_folder(argv[first]);
    if (!t)
        refuse("%s", rg_error());
    rg_tensor *prompt = rg_tokenizer_encode(t, argv[first + 1]);
    if (!prompt)
        refuse("%s", rg_error());
    if (rg_numel(prompt) == 0)
        refuse("the prompt has no tokens");
    if (threads)
        rg_set_num_threads((int)threads);
    rg_manual_seed((uint64_t)seed);
    rg_gpt *model = rg_gpt_from_folder(argv[first]);
    if (!model)
        refuse("%s", rg_error());
    if (rg_tokenizer_size(t) > model->config.vocab_size)
        refuse("the tokenizer has %lld tokens, but the model knows %lld",
               (long long)rg_tokenizer_size(t), (long long)model->config.vocab_size);
    rg_on_error(stop_on_error);
    write_on(model, t, prompt);
    rg_module_free(model);
    rg_tokenizer_free(t);
}

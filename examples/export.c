/*
 * export.c: writes a model that char_gpt has trained as C, so that it computes on any machine with
 * a C compiler, without the library:
 *
 *     build/examples/char_gpt --save build/sonnets
 *     build/examples/export build/sonnets --out build/exported
 *     cc -O2 -Ibuild/exported -o build/write examples/exported/write.c
 *     build/write "Shall I" 200
 *
 * In the folder, gpt.c is a step that computes which character may come next, and gpt_characters.h
 * has the characters. examples/exported/write.c is the program that uses them.
 */
#include "char_model.h"

static const char *out = "build/exported";

static const option options[] = {
    { "out", TEXT, &out, 0, 0, "folder for the files in C" },
};

/* ---- the step ---------------------------------------------------------------------- */

/* The step sets chances[t], the chance that token t comes after tokens[0, 0], .. tokens[0, last].
 * A low temperature makes likely tokens likelier. */
typedef struct {
    rg_gpt *model;
    rg_tensor *tokens, *last, *temperature, *chances;
} use;

/* The model gives the logits at all positions if it gets targets, here the tokens themselves. No
 * position sees those behind it, so it doesn't matter which tokens stand behind the last one. */
static void step(void *context) {
    RG_SCOPE();
    RG_NO_GRAD();
    use *u = context;
    rg_tensor *logits = rg_gpt_forward(u->model, u->tokens, u->tokens).logits;
    rg_tensor *next = rg_index_select(rg_flatten(logits, 0, 1), 0, u->last);
    rg_tensor *chances = rg_softmax(rg_div(next, u->temperature), -1);
    if (!u->chances)
        u->chances = rg_keep(chances);
}

static void write_step(rg_gpt *model, const char *path) {
    use u = { .model = model };
    u.tokens = rg_zeros_dims(RG_DIMS(1, block), RG_INT64);
    u.last = rg_zeros_dims(RG_DIMS(1), RG_INT64);
    u.temperature = rg_ones(1);
    rg_replay *r = rg_record(step, &u);
    rg_replay_to_c(r, path, .name = "gpt", .parameters = rg_parameters(model),
                   .inputs = RG_LIST(u.tokens, u.last, u.temperature), .output = u.chances);
    printf("wrote %s: %lld parameters\n", path, (long long)rg_num_parameters(model));
    rg_replay_free(r);
    rg_drop(u.chances);
}

/* ---- the characters ---------------------------------------------------------------- */

/* Writes the bytes of a character as a string of C. */
static void write_string(FILE *f, const char *character) {
    fputs("    \"", f);
    for (const char *c = character; *c; c++)
        fprintf(f, "\\%03o", (unsigned char)*c);
    fputs("\",\n", f);
}

static void write_characters(const rg_vocabulary *vocabulary, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f)
        refuse("can't write '%s': %s", path, strerror(errno));
    fprintf(f, "/* The tokens of the model in gpt.c, and how many it sees at once. */\n");
    fprintf(f, "enum { BLOCK = %lld, TOKENS = %lld };\n\n", (long long)block,
            (long long)vocabulary->n);
    fprintf(f, "static const char *const characters[TOKENS] = {\n");
    for (int64_t i = 0; i < vocabulary->n; i++)
        write_string(f, vocabulary->tokens[i]);
    fprintf(f, "};\n");
    if (fclose(f))
        refuse("can't write '%s': %s", path, strerror(errno));
    printf("wrote %s: %lld characters\n", path, (long long)vocabulary->n);
}

int main(int argc, char *argv[]) {
    const int first = READ_OPTIONS(argc, argv, "FILE", options);
    if (first + 1 != argc)
        refuse("takes one file, which char_gpt --save has written");
    rg_vocabulary *vocabulary;
    rg_gpt *model = load_model(argv[first], &vocabulary);
    char path[4096];
    rg_on_error(stop_on_error);
    rg_eval(model);
    make_folder(out);
    snprintf(path, sizeof path, "%s/gpt.c", out);
    write_step(model, path);
    snprintf(path, sizeof path, "%s/gpt_characters.h", out);
    write_characters(vocabulary, path);
    rg_module_free(model);
    rg_vocabulary_free(vocabulary);
}

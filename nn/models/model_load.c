/*
 * model_load.c: reads the model of tokenizer.json with its vocabulary and its merges, or those of
 * vocab.json and merges.txt.
 */
#include "tokenizer_model.h"
#include "tokenizer_parts.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the rules ------------------------------------------------------------------------ */

static const rg_json_rule bpe_rules[] = {
    { "type", 0, "BPE" },
    { "dropout", RG_RULE_NULL | RG_RULE_ZERO, NULL },
    { "unk_token", RG_RULE_NULL | RG_RULE_TEXT, NULL },
    { "continuing_subword_prefix", RG_RULE_NULL | RG_RULE_TEXT, NULL },
    { "end_of_word_suffix", RG_RULE_NULL | RG_RULE_TEXT, NULL },
    { "fuse_unk", RG_RULE_NULL | RG_RULE_BOOL, NULL },
    { "byte_fallback", RG_RULE_NULL | RG_RULE_BOOL, NULL },
    { "ignore_merges", RG_RULE_NULL | RG_RULE_BOOL, NULL },
    { "vocab", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { "merges", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule wordpiece_rules[] = {
    { "type", 0, "WordPiece" },
    { "unk_token", RG_RULE_TEXT | RG_RULE_MUST, NULL },
    { "continuing_subword_prefix", RG_RULE_TEXT | RG_RULE_MUST, NULL },
    { "max_input_chars_per_word", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
    { "vocab", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule wordlevel_rules[] = {
    { "type", 0, "WordLevel" },
    { "unk_token", RG_RULE_TEXT | RG_RULE_MUST, NULL },
    { "vocab", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule unigram_rules[] = {
    { "type", 0, "Unigram" },
    { "unk_id", RG_RULE_NULL | RG_RULE_WHOLE, NULL },
    { "byte_fallback", RG_RULE_NULL | RG_RULE_BOOL, NULL },
    { "vocab", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};

/* ---- reading the vocabulary ----------------------------------------------------------- */

bool rgi_begin_tokens(rg_tokenizer *t, size_t n) {
    if (!rgi_grow((void **)&t->tokens, &t->room, n, sizeof *t->tokens))
        return false;
    for (size_t i = 0; i < t->room; i++)
        t->tokens[i] = (rg_token){ 0 };
    return true;
}

bool rgi_put_token(rg_tokenizer *t, int64_t id, const char *text) {
    if (!rgi_map_put_name(&t->names, text, id))
        return false;
    t->tokens[id].text = rgi_map_name_at(&t->names, rgi_map_names(&t->names) - 1);
    t->tokens[id].decoded = t->tokens[id].text;
    t->tokens[id].bytes = (uint32_t)strlen(text);
    t->n++;
    return true;
}

/* The same for a token of the model's vocabulary. */
static bool put_model_token(rg_tokenizer *t, int64_t id, const char *text) {
    if (!rgi_put_token(t, id, text))
        return false;
    t->tokens[id].model = true;
    t->longest = RG_MAX(t->longest, t->tokens[id].bytes);
    return true;
}

/* Fails because the id of the token isn't a number from 0 to n - 1, where n is the number of
 * tokens. `token` is the index of the token's string in the JSON file; its id comes next. */
static bool refuse_number(const rg_json_file *f, uint32_t token, int64_t n) {
    const rg_json_value *v = &f->json.v[token];
    if (v[1].kind != RG_JSON_NUMBER)
        return rgi_file_refuse(&f->file, "token \"%s\" has no number", RG_SHOWN(v->v));
    return rgi_file_refuse(&f->file, "the number of token \"%s\" is %s, and none from 0 to %lld",
                           RG_SHOWN(v->v), RG_SHOWN_BYTES(v[1].v, v[1].n), (long long)n - 1);
}

/* Reads the vocabulary, a JSON object whose n members have a token as name and its id as value.
 * Fails and returns false unless the ids are the numbers from 0 to n - 1, each once. */
static bool load_vocabulary(rg_tokenizer *t, const rg_json_file *f, uint32_t vocab) {
    const rg_json *j = &f->json;
    int64_t n = j->v[vocab].n, id;
    for (RG_EACH_JSON(i, j, vocab)) {
        const char *text = j->v[i].v;
        if (!rgi_json_integer(j, i + 1, &id) || id < 0 || id >= n)
            return refuse_number(f, i, n);
        if (t->tokens[id].text)
            return rgi_file_refuse(&f->file, "tokens \"%s\" and \"%s\" have the same number, %lld",
                                   RG_SHOWN(t->tokens[id].text), RG_SHOWN(text), (long long)id);
        if (!put_model_token(t, id, text))
            return false;
    }
    return true;
}

/* Reads the vocabulary of Unigram: an array of pairs of a token and its score. */
static bool load_scores(rg_tokenizer *t, const rg_json_file *f, uint32_t vocab) {
    const rg_json *j = &f->json;
    int64_t id = 0;
    if (!rgi_grow((void **)&t->scores, &t->scores_room, j->v[vocab].n, sizeof *t->scores))
        return false;
    t->least_score = INFINITY;
    for (RG_EACH_JSON(i, j, vocab)) {
        double score;
        bool pair = j->v[i].kind == RG_JSON_ARRAY && j->v[i].n == 2;
        const char *text = pair ? rgi_json_text(j, i + 1) : NULL;
        if (!text || !rgi_json_number(j, i + 2, &score))
            return rgi_file_refuse(&f->file, "token %lld is no pair of a text and a score",
                                   (long long)id);
        if (rgi_map_name(&t->names, text) >= 0)
            return rgi_file_refuse(&f->file, "the token \"%s\" comes twice", RG_SHOWN(text));
        t->scores[id] = score;
        t->least_score = RG_MIN(t->least_score, score);
        if (!put_model_token(t, id++, text))
            return false;
    }
    return rgi_unigram_sort(t);
}

/* Finds the token of each byte: with `fallback` the one that is written as <0x0A>, otherwise the
 * character that represents the byte. Returns whether each byte has one. */
static bool find_bytes(rg_tokenizer *t, bool fallback) {
    bool all = true;
    for (int b = 0; b < 256; b++) {
        char name[8];
        if (fallback)
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        else
            name[rgi_byte_character((unsigned char)b, name)] = 0;
        int64_t id = rgi_map_name(&t->names, name);
        t->of_byte[b] = id >= 0 && t->tokens[id].model ? id : -1;
        all = all && t->of_byte[b] >= 0;
    }
    return all;
}

/* Finds the unknown token, which the model may name. Returns false if it isn't in the
 * vocabulary. */
static bool find_unknown(rg_tokenizer *t, const rg_json_file *f, uint32_t model) {
    const char *unknown = rgi_json_word(f, model, "unk_token");
    t->unknown = unknown ? rgi_map_name(&t->names, unknown) : -1;
    return !unknown || t->unknown >= 0;
}

/* ---- reading the merges --------------------------------------------------------------- */

/* Adds the merge of two tokens, which are given as strings of n and m bytes. Fails and returns
 * false if one of the two tokens, or their concatenation, isn't in the vocabulary. The prefix of
 * tokens within a word is left out of the concatenation. `number` is the merge's number in the
 * error message. */
static bool load_merge(rg_tokenizer *t, const rg_file *f, size_t number, const char *left, size_t n,
                       const char *right, size_t m) {
    char small[256], *name = n + m < sizeof small ? small : rgi_scope_alloc(n + m + 1);
    if (!name)
        return false;
    int64_t ids[3];
    for (int i = 0; i < 3; i++) {
        /* Look up the left string, then the right one, then their concatenation. */
        size_t from_left = i == 1 ? 0 : n, from_right = i == 0 ? 0 : m;
        size_t prefix = i == 2 && t->prefix ? RG_MIN(m, strlen(t->prefix)) : 0;
        from_right -= prefix;
        memcpy(name, left, from_left);
        memcpy(name + from_left, right + prefix, from_right);
        name[from_left + from_right] = 0;
        ids[i] = rgi_map_name(&t->names, name);
        if (ids[i] < 0 || strlen(name) != from_left + from_right)
            return rgi_file_refuse(f, "merge %zu is of \"%s\", which is not in the vocabulary",
                                   number, RG_SHOWN_BYTES(name, from_left + from_right));
    }
    return rgi_merges_add(&t->merges, (uint32_t)ids[0], (uint32_t)ids[1], (uint32_t)ids[2]);
}

static bool is_version(const char *line, size_t n) {
    static const char version[] = "#version";
    return n >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0;
}

/* Reads a line "left right" as a merge. Ignores a line that begins with "#version". Fails and
 * returns false if the line has another form. */
static bool load_merge_line(rg_tokenizer *t, const rg_file *f, size_t number, const char *line,
                            size_t n) {
    if (is_version(line, n))
        return true;
    const char *blank = memchr(line, ' ', n), *end = line + n;
    if (!blank || memchr(blank + 1, ' ', (size_t)(end - blank - 1)))
        return rgi_file_refuse(f,
                               "merge %zu is \"%s\", which isn't two tokens with a blank "
                               "between them",
                               number, RG_SHOWN_BYTES(line, n));
    return load_merge(t, f, number, line, (size_t)(blank - line), blank + 1,
                      (size_t)(end - blank - 1));
}

/* Reads the merges in an array. Either each is a string "left right", or each is an array ["left",
 * "right"]; a mixture is refused. Returns false on failure. */
static bool load_merges(rg_tokenizer *t, const rg_json_file *f, uint32_t merges) {
    const rg_json *j = &f->json;
    size_t number = 0;
    for (RG_EACH_JSON(i, j, merges)) {
        RG_SCOPE();
        const rg_json_value *v = &j->v[i];
        bool pair = v->kind == RG_JSON_ARRAY && v->n == 2 && v[1].kind == RG_JSON_TEXT
                    && v[2].kind == RG_JSON_TEXT;
        number++;
        if (!pair && v->kind != RG_JSON_TEXT)
            return rgi_file_refuse(&f->file, "merge %zu is neither a text nor two texts", number);
        if (v->kind != j->v[merges + 1].kind)
            return rgi_file_refuse(&f->file, "merge %zu is %s, unlike the first one", number,
                                   pair ? "two texts" : "one text");
        bool ok = pair ? load_merge(t, &f->file, number, v[1].v, v[1].n, v[2].v, v[2].n)
                       : load_merge_line(t, &f->file, number, v->v, v->n);
        if (!ok)
            return false;
    }
    return rgi_merges_ready(&t->merges, t->n);
}

/* Reads the merges in merges.txt, one from each line. */
static bool load_merges_file(rg_tokenizer *t, const char *op, const char *path) {
    RG_SCOPE();
    rg_file f = { .op = op, .path = path, .fd = -1 };
    size_t n, number = 0;
    char *text = rgi_file_text(op, path, &n);
    if (!text)
        return false;
    for (const char *line = text, *end = text + n; line < end; number++) {
        RG_SCOPE();
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        size_t length = (size_t)(stop - line);
        if (length > 0 && line[length - 1] == '\r')
            length--;
        if (!load_merge_line(t, &f, number + 1, line, length))
            return false;
        line = newline ? newline + 1 : end;
    }
    return rgi_merges_ready(&t->merges, t->n);
}

/* ---- reading the model ---------------------------------------------------------------- */

/* Reads a text that is NULL if the file has none or an empty one. */
static bool load_affix(const rg_json_file *f, uint32_t model, const char *name, char **to) {
    const char *text = rgi_json_word(f, model, name);
    return !text || !*text || rgi_rename(to, text);
}

static bool load_bpe(rg_tokenizer *t, const rg_json_file *f, uint32_t model) {
    t->fuse_unknown = rgi_json_true(f, model, "fuse_unk", false);
    t->ignore_merges = rgi_json_true(f, model, "ignore_merges", false);
    t->byte_fallback = rgi_json_true(f, model, "byte_fallback", false);
    if (!load_affix(f, model, "continuing_subword_prefix", &t->prefix)
        || !load_affix(f, model, "end_of_word_suffix", &t->suffix))
        return false;
    /* Hugging Face's tokenizers make tokens of the prefix's and the suffix's bytes, too. */
    if (t->byte_fallback && (t->prefix || t->suffix))
        return rgi_file_refuse(&f->file, "byte_fallback with %s isn't supported",
                               t->prefix ? "a continuing_subword_prefix"
                                         : "an end_of_word_suffix");
    if (!load_vocabulary(t, f, rgi_json_find(&f->json, model, "vocab")))
        return false;
    /* If making characters of bytes is the last step of the pre-tokenizer, the model makes tokens
     * of the bytes themselves. */
    bool last = t->n_pres > 0 && t->pres[t->n_pres - 1].kind == RG_PRE_BYTES;
    t->bytes = last && !t->byte_fallback && !t->prefix && !t->suffix;
    t->n_pres -= t->bytes;
    bool all = find_bytes(t, t->byte_fallback) && t->bytes;
    return load_merges(t, f, rgi_json_find(&f->json, model, "merges"))
           && (find_unknown(t, f, model) || all
               || rgi_file_refuse(&f->file, "the unk_token \"%s\" is not in the vocabulary",
                                  RG_SHOWN(rgi_json_word(f, model, "unk_token"))));
}

static bool load_wordpiece(rg_tokenizer *t, const rg_json_file *f, uint32_t model) {
    t->model = RG_MODEL_WORDPIECE;
    t->most_characters = rgi_json_whole(f, model, "max_input_chars_per_word", 0);
    if (!load_affix(f, model, "continuing_subword_prefix", &t->prefix)
        || !load_vocabulary(t, f, rgi_json_find(&f->json, model, "vocab")))
        return false;
    find_unknown(t, f, model);
    return true;
}

static bool load_wordlevel(rg_tokenizer *t, const rg_json_file *f, uint32_t model) {
    t->model = RG_MODEL_WORDLEVEL;
    if (!load_vocabulary(t, f, rgi_json_find(&f->json, model, "vocab")))
        return false;
    find_unknown(t, f, model);
    return true;
}

static bool load_unigram(rg_tokenizer *t, const rg_json_file *f, uint32_t model) {
    t->model = RG_MODEL_UNIGRAM;
    t->unknown = rgi_json_whole(f, model, "unk_id", -1);
    t->byte_fallback = rgi_json_true(f, model, "byte_fallback", false);
    if (!load_scores(t, f, rgi_json_find(&f->json, model, "vocab")))
        return false;
    find_bytes(t, true);
    return t->unknown < (int64_t)t->n
           || rgi_file_refuse(&f->file, "the unk_id is %lld, and there are %zu tokens",
                              (long long)t->unknown, t->n);
}

/* The models. `member` is the member by which files are known that have no "type". */
static const struct {
    const char *type, *member;
    const rg_json_rule *rules;
    bool (*load)(rg_tokenizer *t, const rg_json_file *f, uint32_t model);
} models[] = {
    { "BPE", "merges", bpe_rules, load_bpe },
    { "WordPiece", "max_input_chars_per_word", wordpiece_rules, load_wordpiece },
    { "Unigram", "unk_id", unigram_rules, load_unigram },
    { "WordLevel", "vocab", wordlevel_rules, load_wordlevel },
};

bool rgi_load_model(rg_tokenizer *t, const rg_json_file *f, uint32_t model) {
    bool said = rgi_json_find(&f->json, model, "type");
    const char *type = said ? rgi_json_type(f, model, "the model") : "";
    for (int i = 0; type && i < RG_COUNT(models); i++)
        if (said ? strcmp(models[i].type, type) == 0
                 : rgi_json_find(&f->json, model, models[i].member) > 0)
            return rgi_json_keeps(f, model, "the model", models[i].rules)
                   && models[i].load(t, f, model);
    if (type && said)
        return rgi_refuse_type(f, model, "the model");
    return type && rgi_json_keeps(f, model, "the model", bpe_rules);
}

bool rgi_load_model_files(rg_tokenizer *t, const rg_json_file *f, const char *merges) {
    if (!load_vocabulary(t, f, 0))
        return false;
    t->bytes = true;
    find_bytes(t, false);
    return load_merges_file(t, f->file.op, merges);
}

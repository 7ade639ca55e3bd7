/*
 * tokenizer_load.c: reads a tokenizer from tokenizer.json, or from vocab.json and merges.txt. If a
 * file uses a feature that isn't supported, the error message names it.
 */
#include "json_rules.h"
#include "tokenizer_struct.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/load.h"
#include "tensor/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- the rules for tokenizer.json ----------------------------------------------------- */

static const rg_json_rule file_rules[] = {
    { "version", RG_RULE_NULL, "1.0" },
    { "truncation", RG_RULE_NULL, NULL },
    { "padding", RG_RULE_NULL, NULL },
    { "added_tokens", RG_RULE_ARRAY, NULL },
    { "normalizer", RG_RULE_NULL, NULL },
    { "pre_tokenizer", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { "post_processor", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "decoder", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { "model", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule model_rules[] = {
    { "type", 0, "BPE" },
    { "dropout", RG_RULE_NULL | RG_RULE_ZERO, NULL },
    { "unk_token", RG_RULE_NULL | RG_RULE_TEXT, NULL },
    { "continuing_subword_prefix", RG_RULE_NULL | RG_RULE_EMPTY, NULL },
    { "end_of_word_suffix", RG_RULE_NULL | RG_RULE_EMPTY, NULL },
    { "fuse_unk", RG_RULE_NULL | RG_RULE_BOOL, NULL },
    { "byte_fallback", RG_RULE_NULL | RG_RULE_FALSE, NULL },
    { "ignore_merges", RG_RULE_NULL | RG_RULE_BOOL, NULL },
    { "vocab", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { "merges", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};
/* The members of the pre-tokenizer, the decoder and the post-processor, if these are of the type
 * ByteLevel. The options of the decoder and of the post-processor change neither ids nor texts, so
 * they are ignored. */
static const rg_json_rule byte_level_rules[] = {
    { "type", RG_RULE_MUST, "ByteLevel" },
    { "add_prefix_space", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { "trim_offsets", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { "use_regex", RG_RULE_BOOL, NULL },
    { NULL, 0, NULL },
};
/* The members of a template. A template is only accepted if it adds no tokens to a single text. */
static const rg_json_rule template_rules[] = {
    { "type", RG_RULE_MUST, "TemplateProcessing" },
    { "single", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
    { "pair", RG_RULE_ANYTHING, NULL },
    { "special_tokens", RG_RULE_ANYTHING, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule piece_rules[] = {
    { "Sequence", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule sequence_rules[] = {
    { "id", RG_RULE_MUST, "A" },
    { "type_id", RG_RULE_WHOLE, NULL },
    { NULL, 0, NULL },
};
static const rg_json_rule added_rules[] = {
    { "id", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
    { "content", RG_RULE_TEXT | RG_RULE_MUST, NULL },
    { "single_word", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { "lstrip", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { "rstrip", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { "normalized", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { "special", RG_RULE_BOOL | RG_RULE_MUST, NULL },
    { NULL, 0, NULL },
};

static bool keeps_template(const rg_json_file *f, uint32_t template) {
    const rg_json *j = &f->json;
    if (!rgi_json_keeps(f, template, "the post_processor", template_rules))
        return false;
    uint32_t single = rgi_json_find(j, template, "single");
    if (j->v[single].n != 1)
        return rgi_file_refuse(&f->file,
                               "the post_processor's \"single\" has %u pieces, but what "
                               "adds tokens to a text isn't supported",
                               j->v[single].n);
    return rgi_json_keeps(f, single + 1, "a piece", piece_rules)
           && rgi_json_keeps(f, rgi_json_find(j, single + 1, "Sequence"), "a piece",
                             sequence_rules);
}

static bool keeps_processor(const rg_json_file *f, uint32_t processor) {
    if (!processor || f->json.v[processor].kind == RG_JSON_NULL)
        return true;
    const char *type = rgi_json_word(f, processor, "type");
    if (type && strcmp(type, "TemplateProcessing") == 0)
        return keeps_template(f, processor);
    return rgi_json_keeps(f, processor, "the post_processor", byte_level_rules);
}

/* Fails and returns false if the file uses a feature that isn't supported. Tokens and merges aren't
 * looked at here; they are checked when they are read. */
static bool keeps_file(const rg_json_file *f) {
    const rg_json *j = &f->json;
    return rgi_json_keeps(f, 0, "", file_rules)
           && rgi_json_keeps(f, rgi_json_find(j, 0, "pre_tokenizer"), "the pre_tokenizer",
                             byte_level_rules)
           && rgi_json_keeps(f, rgi_json_find(j, 0, "decoder"), "the decoder", byte_level_rules)
           && keeps_processor(f, rgi_json_find(j, 0, "post_processor"))
           && rgi_json_keeps(f, rgi_json_find(j, 0, "model"), "the model", model_rules);
}

/* ---- reading the vocabulary ----------------------------------------------------------- */

/* Allocates room for n tokens, and clears them. Returns false if memory runs out. */
static bool begin_tokens(rg_tokenizer *t, size_t n) {
    if (!rgi_grow((void **)&t->tokens, &t->room, n, sizeof *t->tokens))
        return false;
    for (size_t i = 0; i < t->room; i++)
        t->tokens[i] = (rg_token){ 0 };
    return true;
}

/* Adds a new token with this string and id. The id must be less than t->room. Returns false if
 * memory runs out. */
static bool put_token(rg_tokenizer *t, int64_t id, const char *text) {
    if (!rgi_map_put_name(&t->names, text, id))
        return false;
    t->tokens[id].text = rgi_map_name_at(&t->names, rgi_map_names(&t->names) - 1);
    t->tokens[id].bytes = (uint32_t)strlen(text);
    t->n++;
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
        if (!put_token(t, id, text))
            return false;
        t->tokens[id].model = true;
        t->longest = RG_MAX(t->longest, t->tokens[id].bytes);
    }
    return true;
}

/* Finds the token of each byte, and the unknown token if the file names one. Fails and returns
 * false if some byte has no token and the unknown token that the file names isn't in the
 * vocabulary. */
static bool find_bytes(rg_tokenizer *t, const rg_json_file *f, const char *unknown) {
    bool lacking = false;
    for (int b = 0; b < 256; b++) {
        char name[4];
        name[rgi_byte_character((unsigned char)b, name)] = 0;
        t->of_byte[b] = rgi_map_name(&t->names, name);
        lacking = lacking || t->of_byte[b] < 0;
    }
    t->unknown = unknown ? rgi_map_name(&t->names, unknown) : -1;
    if (lacking && unknown && t->unknown < 0)
        return rgi_file_refuse(&f->file, "the unk_token \"%s\" is not in the vocabulary",
                               RG_SHOWN(unknown));
    return true;
}

/* ---- reading the merges --------------------------------------------------------------- */

/* Adds the merge of two tokens, which are given as strings of n and m bytes. Fails and returns
 * false if one of the two tokens, or their concatenation, isn't in the vocabulary. `number` is the
 * merge's number in the error message. */
static bool load_merge(rg_tokenizer *t, const rg_file *f, size_t number, const char *left, size_t n,
                       const char *right, size_t m) {
    char small[256], *name = n + m < sizeof small ? small : rgi_scope_alloc(n + m + 1);
    if (!name)
        return false;
    int64_t ids[3];
    for (int i = 0; i < 3; i++) {
        /* Look up the left string, then the right one, then their concatenation. */
        size_t from_left = i == 1 ? 0 : n, from_right = i == 0 ? 0 : m;
        memcpy(name, left, from_left);
        memcpy(name + from_left, right, from_right);
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

/* ---- reading added tokens ------------------------------------------------------------- */

/* Reads an added token. If the vocabulary has the token, the token's id is the vocabulary's.
 * Otherwise it is the next free id. Fails and returns false if the file gives another id, or lists
 * the token twice. */
static bool load_added_token(rg_tokenizer *t, const rg_json_file *f, uint32_t added) {
    if (!rgi_json_keeps(f, added, "an added token", added_rules))
        return false;
    const char *text = rgi_json_word(f, added, "content");
    int64_t id = rgi_json_whole(f, added, "id", 0), known = rgi_map_name(&t->names, text);
    int64_t expected = known >= 0 ? known : (int64_t)t->n;
    if (!*text)
        return rgi_file_refuse(&f->file, "an added token has no text");
    if (id != expected)
        return rgi_file_refuse(&f->file, "the number of the added token \"%s\" is %lld, not %lld",
                               RG_SHOWN(text), (long long)id, (long long)expected);
    if (t->tokens[id].added)
        return rgi_file_refuse(&f->file, "the added token \"%s\" comes twice", RG_SHOWN(text));
    if (known < 0 && !put_token(t, id, text))
        return false;
    rg_token *token = &t->tokens[id];
    token->added = true;
    token->special = rgi_json_true(f, added, "special", false);
    token->single_word = rgi_json_true(f, added, "single_word", false);
    token->lstrip = rgi_json_true(f, added, "lstrip", false);
    token->rstrip = rgi_json_true(f, added, "rstrip", false);
    token->normalized = rgi_json_true(f, added, "normalized", false);
    return true;
}

static bool load_added_tokens(rg_tokenizer *t, const rg_json_file *f, uint32_t added) {
    if (!added)
        return true;
    for (RG_EACH_JSON(i, &f->json, added))
        if (!load_added_token(t, f, i))
            return false;
    return true;
}

/* Returns whether token `a` comes before token `b` in rg_added_tokens. Tokens are sorted by their
 * first byte, then by length, the longest first, and then by id. */
static bool comes_first(const rg_token *a, const rg_token *b) {
    unsigned char x = (unsigned char)*a->text, y = (unsigned char)*b->text;
    if (x != y)
        return x < y;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a < b;
}

static int by_first_byte(const void *a, const void *b) {
    return comes_first(*(const rg_token *const *)a, *(const rg_token *const *)b) ? -1 : 1;
}

/* Lists in *a, sorted, the added tokens whose flag `normalized` has this value. Returns false if
 * memory runs out. */
static bool list_added(const rg_tokenizer *t, rg_added_tokens *a, bool normalized) {
    RG_SCOPE();
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->tokens[i].added && t->tokens[i].normalized == normalized;
    const rg_token **sorted = rgi_scope_alloc(n * sizeof *sorted);
    if (!sorted || !rgi_grow((void **)&a->v, &a->room, n, sizeof *a->v))
        return false;
    for (size_t i = 0; i < t->n; i++)
        if (t->tokens[i].added && t->tokens[i].normalized == normalized)
            sorted[a->n++] = &t->tokens[i];
    qsort(sorted, n, sizeof *sorted, by_first_byte);
    size_t at = 0;
    for (unsigned b = 0; b <= 256; b++) {
        while (at < n && (unsigned char)*sorted[at]->text < b)
            at++;
        a->first[b] = (uint32_t)at;
    }
    for (size_t i = 0; i < n; i++)
        a->v[i] = (uint32_t)(sorted[i] - t->tokens);
    return true;
}

/* ---- decoding all tokens to bytes ----------------------------------------------------- */

/* Inverts rgi_byte_character: of_character[c] is the byte that vocabularies write as the character
 * c, or -1 if there is no such byte. */
enum { BYTE_CHARACTERS = 256 + 68 };
static void invert_bytes(int of_character[BYTE_CHARACTERS]) {
    for (int c = 0; c < BYTE_CHARACTERS; c++)
        of_character[c] = -1;
    for (int b = 0; b < 256; b++) {
        char name[4];
        uint32_t code = 0;
        size_t n = rgi_byte_character((unsigned char)b, name);
        rgi_utf8_read(name, name + n, &code);
        of_character[code] = b;
    }
}

/* Writes to `to` the bytes for which the characters of a token stand. If one of the characters
 * stands for no byte, writes the token's string as it is. Returns the number of bytes written. */
static size_t token_to_bytes(const rg_token *token, const int *of_character, char *to) {
    const char *p = token->text, *end = p + token->bytes;
    size_t n = 0;
    while (p < end) {
        uint32_t code = 0;
        p += rgi_utf8_read(p, end, &code);
        if (code >= BYTE_CHARACTERS || of_character[code] < 0) {
            memcpy(to, token->text, token->bytes);
            return token->bytes;
        }
        to[n++] = (char)of_character[code];
    }
    return n;
}

static bool list_bytes(rg_tokenizer *t) {
    int of_character[BYTE_CHARACTERS];
    uint64_t all = 0, at = 0;
    for (size_t i = 0; i < t->n; i++)
        all += t->tokens[i].bytes;
    if (!rgi_grow((void **)&t->bytes, &t->bytes_room, (size_t)all + 1, 1)
        || !rgi_grow((void **)&t->bytes_at, &t->bytes_at_room, t->n + 1, sizeof *t->bytes_at))
        return false;
    invert_bytes(of_character);
    for (size_t i = 0; i < t->n; i++) {
        t->bytes_at[i] = at;
        at += token_to_bytes(&t->tokens[i], of_character, t->bytes + at);
    }
    t->bytes_at[t->n] = at;
    return true;
}

static bool finish_tokenizer(rg_tokenizer *t) {
    return list_added(t, &t->plain, false) && list_added(t, &t->normalized, true) && list_bytes(t);
}

/* ---- reading the files ---------------------------------------------------------------- */

static rg_tokenizer *tokenizer_new(void) {
    rg_tokenizer *t = rgi_alloc(sizeof *t, RG_MEM_OTHER);
    if (t)
        *t = (rg_tokenizer){ .handle = RG_NEW_HANDLE(TOKENIZER), .words = true };
    return t;
}

static bool load_json(rg_tokenizer *t, const rg_json_file *f) {
    const rg_json *j = &f->json;
    if (!keeps_file(f))
        return false;
    uint32_t model = rgi_json_find(j, 0, "model"), added = rgi_json_find(j, 0, "added_tokens");
    uint32_t vocab = rgi_json_find(j, model, "vocab");
    uint32_t words = rgi_json_find(j, 0, "pre_tokenizer");
    t->prefix_space = rgi_json_true(f, words, "add_prefix_space", false);
    t->words = rgi_json_true(f, words, "use_regex", true);
    t->fuse_unknown = rgi_json_true(f, model, "fuse_unk", false);
    t->ignore_merges = rgi_json_true(f, model, "ignore_merges", false);
    return begin_tokens(t, (size_t)j->v[vocab].n + (added ? j->v[added].n : 0))
           && load_vocabulary(t, f, vocab) && find_bytes(t, f, rgi_json_word(f, model, "unk_token"))
           && load_merges(t, f, rgi_json_find(j, model, "merges")) && load_added_tokens(t, f, added)
           && finish_tokenizer(t);
}

/* Adds GPT2Tokenizer's special token "<|endoftext|>" to the vocabulary, unless it is there, and
 * marks it as added and special. Returns false if memory runs out. */
static bool add_end_of_text(rg_tokenizer *t) {
    static const char end_of_text[] = "<|endoftext|>";
    int64_t id = rgi_map_name(&t->names, end_of_text);
    if (id < 0) {
        id = (int64_t)t->n;
        if (!put_token(t, id, end_of_text))
            return false;
    }
    t->tokens[id].added = true;
    t->tokens[id].special = true;
    return true;
}

static bool load_vocab_file(rg_tokenizer *t, const rg_json_file *f, const char *merges) {
    const rg_json *j = &f->json;
    if (j->v[0].kind != RG_JSON_OBJECT)
        return rgi_file_refuse(&f->file, "the vocabulary is no object");
    return begin_tokens(t, (size_t)j->v[0].n + 1) && load_vocabulary(t, f, 0)
           && find_bytes(t, f, NULL) && load_merges_file(t, f->file.op, merges)
           && add_end_of_text(t) && finish_tokenizer(t);
}

/* Reads a tokenizer. If `merges` is NULL, `path` is the path of a tokenizer.json. Otherwise `path`
 * is the path of a vocab.json, and `merges` that of the file with the merges. Returns NULL on
 * failure. */
static rg_tokenizer *tokenizer_read(const char *op, const char *path, const char *merges) {
    RG_SCOPE();
    rg_json_file f;
    if (!rgi_json_file_read(&f, op, path))
        return NULL;
    rg_tokenizer *t = tokenizer_new();
    if (t && !(merges ? load_vocab_file(t, &f, merges) : load_json(t, &f))) {
        rgi_tokenizer_drop(t);
        t = NULL;
    }
    rgi_json_file_free(&f);
    return t;
}

rg_tokenizer *rg_tokenizer_from_file(const char *path) {
    RG_LOADING("tokenizer_from_file", path);
    return tokenizer_read("tokenizer_from_file", path, NULL);
}

rg_tokenizer *rg_tokenizer_from_folder(const char *folder) {
    static const char op[] = "tokenizer_from_folder";
    RG_LOADING(op, folder);
    RG_SCOPE();
    if (!rgi_given_path(folder, op))
        return NULL;
    const char *whole = rgi_path_in(op, folder, "tokenizer.json");
    const char *vocab = rgi_path_in(op, folder, "vocab.json");
    const char *merges = rgi_path_in(op, folder, "merges.txt");
    bool has_whole, has_vocab = false;
    if (!whole || !vocab || !merges || !rgi_file_there(op, whole, &has_whole)
        || !(has_whole || rgi_file_there(op, vocab, &has_vocab)))
        return NULL;
    return has_vocab ? tokenizer_read(op, vocab, merges) : tokenizer_read(op, whole, NULL);
}

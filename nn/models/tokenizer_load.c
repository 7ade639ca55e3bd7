/*
 * tokenizer_load.c: reads a tokenizer from tokenizer.json, or from vocab.json and merges.txt. If a
 * file uses a feature that isn't supported, the error message names it.
 */
#include "tokenizer_model.h"
#include "tokenizer_parts.h"
#include "tensor/error.h"
#include "tensor/load.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rules for tokenizer.json ----------------------------------------------------- */

static const rg_json_rule file_rules[] = {
    { "version", RG_RULE_NULL, "1.0" },
    { "truncation", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "padding", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "added_tokens", RG_RULE_NULL | RG_RULE_ARRAY, NULL },
    { "normalizer", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "pre_tokenizer", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "post_processor", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "decoder", RG_RULE_NULL | RG_RULE_OBJECT, NULL },
    { "model", RG_RULE_OBJECT | RG_RULE_MUST, NULL },
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
    if (known < 0 && !rgi_put_token(t, id, text))
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

/* Sorts added tokens by their first byte, then by length, the longest first, and then by id. */
static int by_first_byte(const void *a, const void *b) {
    const rg_added_token *x = a, *y = b;
    unsigned char first = (unsigned char)*x->text, other = (unsigned char)*y->text;
    if (first != other)
        return first < other ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Sets *text to what the token is searched for as: a token with the flag `normalized` as what the
 * normalizer makes of it. */
static bool searched_for(const rg_tokenizer *t, const rg_token *token, char **text) {
    rg_norm_room room = { 0 };
    rg_piece piece = { token->text, token->bytes, NULL, 0 };
    bool ok = !token->normalized || rgi_normalize(t->norms, t->n_norms, &t->unicode, &room, &piece);
    char *copy = ok ? rgi_scope_alloc(piece.n + 1) : NULL;
    if (copy) {
        memcpy(copy, piece.v, piece.n);
        copy[piece.n] = 0;
    }
    rgi_norm_room_free(&room);
    return copy && rgi_rename(text, copy);
}

/* Lists in *a, sorted, the added tokens whose flag `normalized` has this value. Returns false if
 * memory runs out. */
static bool list_added(rg_tokenizer *t, rg_added_tokens *a, bool normalized) {
    for (size_t i = 0; i < t->n; i++) {
        RG_SCOPE();
        if (!t->tokens[i].added || t->tokens[i].normalized != normalized)
            continue;
        if (!rgi_grow((void **)&a->v, &a->room, a->n + 1, sizeof *a->v))
            return false;
        a->v[a->n] = (rg_added_token){ .id = (uint32_t)i };
        if (!searched_for(t, &t->tokens[i], &a->v[a->n].text))
            return false;
        a->v[a->n].bytes = strlen(a->v[a->n].text);
        t->tokens[i].decoded = a->v[a->n].text;
        a->n++;
    }
    if (a->n > 1)
        qsort(a->v, a->n, sizeof *a->v, by_first_byte);
    size_t at = 0;
    for (unsigned b = 0; b <= 256; b++) {
        while (at < a->n && (unsigned char)*a->v[at].text < b)
            at++;
        a->first[b] = (uint32_t)at;
    }
    return true;
}

static bool finish_tokenizer(rg_tokenizer *t) {
    return list_added(t, &t->plain, false) && list_added(t, &t->normalized, true);
}

/* ---- reading the files ---------------------------------------------------------------- */

static rg_tokenizer *tokenizer_new(const char *op) {
    rg_tokenizer *t = rgi_alloc(sizeof *t, RG_MEM_OTHER);
    if (!t)
        return NULL;
    *t = (rg_tokenizer){ .handle = RG_NEW_HANDLE(TOKENIZER), .unknown = -1 };
    if (rgi_unicode_load(&t->unicode, op))
        return t;
    rgi_tokenizer_drop(t);
    return NULL;
}

static bool load_json(rg_tokenizer *t, const rg_json_file *f) {
    const rg_json *j = &f->json;
    if (!rgi_json_keeps(f, 0, "", file_rules))
        return false;
    uint32_t model = rgi_json_find(j, 0, "model"), added = rgi_json_find(j, 0, "added_tokens");
    uint32_t vocab = rgi_json_find(j, model, "vocab");
    return rgi_begin_tokens(t, (size_t)j->v[vocab].n + (added ? j->v[added].n : 0))
           && rgi_load_normalizer(t, f, rgi_json_find(j, 0, "normalizer"))
           && rgi_load_pretokenizer(t, f, rgi_json_find(j, 0, "pre_tokenizer"))
           && rgi_load_model(t, f, model) && load_added_tokens(t, f, added)
           && rgi_load_decoder(t, f, rgi_json_find(j, 0, "decoder"))
           && rgi_load_processor(t, f, rgi_json_find(j, 0, "post_processor"))
           && rgi_load_fits(t, f, rgi_json_find(j, 0, "truncation"), rgi_json_find(j, 0, "padding"))
           && finish_tokenizer(t);
}

/* Adds GPT2Tokenizer's special token "<|endoftext|>" to the vocabulary, unless it is there, and
 * marks it as added and special. Returns false if memory runs out. */
static bool add_end_of_text(rg_tokenizer *t) {
    static const char end_of_text[] = "<|endoftext|>";
    int64_t id = rgi_map_name(&t->names, end_of_text);
    if (id < 0) {
        id = (int64_t)t->n;
        if (!rgi_put_token(t, id, end_of_text))
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
    if (!rgi_begin_tokens(t, (size_t)j->v[0].n + 1) || !rgi_parts_of_gpt2(t, f)
        || !rgi_load_model_files(t, f, merges))
        return false;
    return add_end_of_text(t) && finish_tokenizer(t);
}

/* Reads a tokenizer. If `merges` is NULL, `path` is the path of a tokenizer.json. Otherwise `path`
 * is the path of a vocab.json, and `merges` that of the file with the merges. Returns NULL on
 * failure. */
static rg_tokenizer *tokenizer_read(const char *op, const char *path, const char *merges) {
    RG_SCOPE();
    rg_json_file f;
    if (!rgi_json_file_read(&f, op, path))
        return NULL;
    rg_tokenizer *t = tokenizer_new(op);
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

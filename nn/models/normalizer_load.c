/*
 * normalizer_load.c: reads the normalizer of tokenizer.json as a list of steps. A "Sequence" inside
 * a sequence becomes a part of the same list.
 */
#include "tokenizer_parts.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

#include <string.h>

static const char normalizer_name[] = "the normalizer";

/* Appends a step. Returns NULL if memory runs out. */
static rg_norm_step *add_norm(rg_tokenizer *t, rg_norm_kind kind) {
    if (!rgi_grow((void **)&t->norms, &t->norms_room, t->n_norms + 1, sizeof *t->norms))
        return NULL;
    t->norms[t->n_norms] = (rg_norm_step){ .kind = kind };
    return &t->norms[t->n_norms++];
}

static bool add_form(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_norm_step *s = add_norm(t, RG_NORM_FORM);
    const char *type = f ? rgi_json_word(f, part, "type") : "NFD";
    if (s) {
        s->compatible = type[2] == 'K';
        s->compose = type[strlen(type) - 1] == 'C';
    }
    return s;
}

static bool add_removal(rg_tokenizer *t, uint32_t is) {
    rg_norm_step *s = add_norm(t, RG_NORM_REMOVE);
    if (s)
        s->is = is;
    return s;
}

static bool read_bert(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    bool lower = rgi_json_true(f, part, "lowercase", false);
    bool accents = rgi_json_true(f, part, "strip_accents", lower);
    if (rgi_json_true(f, part, "clean_text", false) && !add_norm(t, RG_NORM_CLEAN))
        return false;
    if (rgi_json_true(f, part, "handle_chinese_chars", false) && !add_norm(t, RG_NORM_CHINESE))
        return false;
    if (accents && !(add_form(t, NULL, 0) && add_removal(t, RG_UNICODE_NONSPACING)))
        return false;
    return !lower || add_norm(t, RG_NORM_LOWER);
}

static bool read_lower(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)f;
    (void)part;
    return add_norm(t, RG_NORM_LOWER);
}

static bool read_accents(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)f;
    (void)part;
    return add_removal(t, RG_UNICODE_COMBINING);
}

static bool read_strip(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_norm_step *s = add_norm(t, RG_NORM_STRIP);
    if (s) {
        s->left = rgi_json_true(f, part, "strip_left", false);
        s->right = rgi_json_true(f, part, "strip_right", false);
    }
    return s;
}

static bool read_prepend(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_norm_step *s = add_norm(t, RG_NORM_PREPEND);
    return s && rgi_rename(&s->text, rgi_json_word(f, part, "prepend"));
}

static bool read_replace(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_norm_step *s = add_norm(t, RG_NORM_REPLACE);
    return s && rgi_rename(&s->text, rgi_json_word(f, part, "content"))
           && rgi_read_pattern(t, f, part, normalizer_name, &s->regex);
}

static bool read_charsmap(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    const char *text = rgi_json_word(f, part, "precompiled_charsmap");
    if (!text)
        return true;
    rg_norm_step *s = add_norm(t, RG_NORM_CHARSMAP);
    return s && rgi_charsmap_load(&s->charsmap, &f->file, text, strlen(text));
}

static bool read_normalizers(rg_tokenizer *t, const rg_json_file *f, uint32_t part);

static const rg_part_type normalizer_types[] = {
    { "BertNormalizer",
      { RG_PART_TYPE, RG_PART_BOOL("clean_text"), RG_PART_BOOL("handle_chinese_chars"),
        RG_PART_MAY_BE("strip_accents"), RG_PART_BOOL("lowercase") },
      read_bert },
    { "NFC", { RG_PART_TYPE }, add_form },
    { "NFD", { RG_PART_TYPE }, add_form },
    { "NFKC", { RG_PART_TYPE }, add_form },
    { "NFKD", { RG_PART_TYPE }, add_form },
    { "Lowercase", { RG_PART_TYPE }, read_lower },
    { "StripAccents", { RG_PART_TYPE }, read_accents },
    { "Strip",
      { RG_PART_TYPE, RG_PART_BOOL("strip_left"), RG_PART_BOOL("strip_right") },
      read_strip },
    { "Prepend", { RG_PART_TYPE, RG_PART_TEXT("prepend") }, read_prepend },
    { "Replace",
      { RG_PART_TYPE, RG_PART_OBJECT("pattern"), RG_PART_TEXT("content") },
      read_replace },
    { "Precompiled",
      { RG_PART_TYPE,
        { "precompiled_charsmap", RG_RULE_TEXT | RG_RULE_NULL | RG_RULE_MUST, NULL } },
      read_charsmap },
    { "Sequence", { RG_PART_TYPE, RG_PART_ARRAY("normalizers") }, read_normalizers },
    { NULL, { RG_NO_MORE }, NULL },
};

static bool read_normalizers(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    return rgi_read_parts(t, f, rgi_json_find(&f->json, part, "normalizers"), normalizer_name,
                          normalizer_types);
}

bool rgi_load_normalizer(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    return !rgi_part_given(f, part) || rgi_read_part(t, f, part, normalizer_name, normalizer_types);
}

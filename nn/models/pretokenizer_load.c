/*
 * pretokenizer_load.c: reads the pre-tokenizer of tokenizer.json as a list of steps. A "Sequence"
 * inside a sequence becomes a part of the same list.
 */
#include "tokenizer_parts.h"
#include "tensor/memory.h"

#include <string.h>

static const char pretokenizer_name[] = "the pre_tokenizer";

/* GPT-2's regular expression, by which ByteLevel cuts words. */
static const char gpt2_words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                 "|\\s+(?!\\S)|\\s+";

static rg_pre_step *add_pre(rg_tokenizer *t, const rg_json_file *f, rg_pre_kind kind) {
    if (t->n_pres == RG_PRE_MOST) {
        rgi_file_refuse(&f->file, "%s has more than %d steps, which isn't supported",
                        pretokenizer_name, (int)RG_PRE_MOST);
        return NULL;
    }
    if (!rgi_grow((void **)&t->pres, &t->pres_room, t->n_pres + 1, sizeof *t->pres))
        return NULL;
    t->pres[t->n_pres] = (rg_pre_step){ .kind = kind, .prefix = RG_PREFIX_ALWAYS };
    return &t->pres[t->n_pres++];
}

static rg_pre_step *add_cut(rg_tokenizer *t, const rg_json_file *f, rg_cut_behavior behavior) {
    rg_pre_step *s = add_pre(t, f, RG_PRE_CUT);
    if (s)
        s->behavior = behavior;
    return s;
}

/* Appends a step that cuts at the characters with these properties. */
static bool add_class_cut(rg_tokenizer *t, const rg_json_file *f, rg_cut_behavior behavior,
                          uint32_t is) {
    rg_pre_step *s = add_cut(t, f, behavior);
    return s && rgi_regex_property(&s->regex, &t->unicode, is);
}

static bool add_expression_cut(rg_tokenizer *t, const rg_json_file *f, rg_cut_behavior behavior,
                               const char *pattern) {
    rg_pre_step *s = add_cut(t, f, behavior);
    return s
           && rgi_regex_compile(&s->regex, &t->unicode, &f->file, pretokenizer_name, pattern,
                                strlen(pattern));
}

static bool read_byte_level(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    if (rgi_json_true(f, part, "add_prefix_space", false)) {
        rg_pre_step *s = add_pre(t, f, RG_PRE_PREFIX);
        if (!s)
            return false;
        memcpy(s->text, " ", 2);
    }
    if (rgi_json_true(f, part, "use_regex", true)
        && !add_expression_cut(t, f, RG_CUT_ISOLATED, gpt2_words))
        return false;
    return add_pre(t, f, RG_PRE_BYTES);
}

/* Sets *behavior to the part's "behavior". */
static bool read_behavior(const rg_json_file *f, uint32_t part, rg_cut_behavior *behavior) {
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };
    const char *name = rgi_json_word(f, part, "behavior");
    for (int i = 0; i < RG_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) {
            *behavior = (rg_cut_behavior)i;
            return true;
        }
    return rgi_file_refuse(&f->file, "%s's \"behavior\" is \"%s\", which isn't supported",
                           pretokenizer_name, RG_SHOWN(name));
}

static bool read_split(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_cut_behavior behavior;
    rg_pre_step *s = read_behavior(f, part, &behavior) ? add_cut(t, f, behavior) : NULL;
    if (!s)
        return false;
    s->invert = rgi_json_true(f, part, "invert", false);
    return rgi_read_pattern(t, f, part, pretokenizer_name, &s->regex);
}

static bool read_bert_words(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)part;
    return add_class_cut(t, f, RG_CUT_REMOVED, RG_UNICODE_SPACE)
           && add_class_cut(t, f, RG_CUT_ISOLATED, RG_UNICODE_PUNCTUATION);
}

static bool read_whitespace_split(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)part;
    return add_class_cut(t, f, RG_CUT_REMOVED, RG_UNICODE_SPACE);
}

/* Whitespace is \w+|[^\w\s]+: cuts between word characters and others, and drops white space. */
static bool read_whitespace(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)part;
    return add_class_cut(t, f, RG_CUT_REMOVED, RG_UNICODE_SPACE)
           && add_class_cut(t, f, RG_CUT_CONTIGUOUS, RG_UNICODE_WORD);
}

static bool read_digits(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    bool each = rgi_json_true(f, part, "individual_digits", false);
    return add_class_cut(t, f, each ? RG_CUT_ISOLATED : RG_CUT_CONTIGUOUS, RG_UNICODE_NUMERIC);
}

static bool read_punctuation(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_cut_behavior behavior = RG_CUT_ISOLATED;
    bool said = rgi_json_find(&f->json, part, "behavior");
    return (!said || read_behavior(f, part, &behavior))
           && add_class_cut(t, f, behavior, RG_UNICODE_PUNCTUATION);
}

static bool read_metaspace(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_pre_step *s = add_pre(t, f, RG_PRE_BLANKS);
    if (!s || !rgi_read_replacement(f, part, pretokenizer_name, s->text)
        || !rgi_read_prefix(f, part, pretokenizer_name, &s->prefix))
        return false;
    t->by_first = t->by_first || s->prefix == RG_PREFIX_FIRST;
    if (!rgi_json_true(f, part, "split", true))
        return true;
    char text[5];
    memcpy(text, s->text, sizeof text);
    rg_pre_step *words = add_cut(t, f, RG_CUT_WITH_NEXT);
    return words && rgi_regex_literal(&words->regex, &t->unicode, text);
}

static bool read_pretokenizers(rg_tokenizer *t, const rg_json_file *f, uint32_t part);

static const rg_part_type pretokenizer_types[] = {
    { "ByteLevel",
      { RG_PART_TYPE,
        RG_PART_BOOL("add_prefix_space"),
        { "trim_offsets", RG_RULE_BOOL, NULL },
        { "use_regex", RG_RULE_BOOL, NULL } },
      read_byte_level },
    { "Split",
      { RG_PART_TYPE,
        RG_PART_OBJECT("pattern"),
        RG_PART_TEXT("behavior"),
        { "invert", RG_RULE_BOOL, NULL } },
      read_split },
    { "BertPreTokenizer", { RG_PART_TYPE }, read_bert_words },
    { "Whitespace", { RG_PART_TYPE }, read_whitespace },
    { "WhitespaceSplit", { RG_PART_TYPE }, read_whitespace_split },
    { "Digits", { RG_PART_TYPE, RG_PART_BOOL("individual_digits") }, read_digits },
    { "Punctuation", { RG_PART_TYPE, { "behavior", RG_RULE_TEXT, NULL } }, read_punctuation },
    { "Metaspace", RG_PART_METASPACE, read_metaspace },
    { "Sequence", { RG_PART_TYPE, RG_PART_ARRAY("pretokenizers") }, read_pretokenizers },
    { NULL, { RG_NO_MORE }, NULL },
};

static bool read_pretokenizers(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    return rgi_read_parts(t, f, rgi_json_find(&f->json, part, "pretokenizers"), pretokenizer_name,
                          pretokenizer_types);
}

bool rgi_load_pretokenizer(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    return !rgi_part_given(f, part)
           || rgi_read_part(t, f, part, pretokenizer_name, pretokenizer_types);
}

bool rgi_gpt2_words(rg_tokenizer *t, const rg_json_file *f) {
    return add_expression_cut(t, f, RG_CUT_ISOLATED, gpt2_words);
}

/*
 * decoder_load.c: reads the decoder of tokenizer.json as a list of steps. A "Sequence" inside a
 * sequence becomes a part of the same list.
 */
#include "tokenizer_parts.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

#include <string.h>

static const char decoder_name[] = "the decoder";

/* Appends a step. Some steps join the texts of all tokens; what can come after them is little. */
static rg_decode_step *add_decode(rg_tokenizer *t, const rg_json_file *f, rg_decode_kind kind) {
    rg_decode_kind last = t->n_decoders ? t->decoders[t->n_decoders - 1].kind : RG_DECODE_REPLACE;
    bool joined = t->fused || last >= RG_DECODE_BYTES;
    bool follows = kind == RG_DECODE_STRIP_START && last != kind && last != RG_DECODE_BYTES;
    if (joined && !follows) {
        rgi_file_refuse(&f->file,
                        "%s has a step behind the one that joins the tokens, which isn't "
                        "supported",
                        decoder_name);
        return NULL;
    }
    if (!rgi_grow((void **)&t->decoders, &t->decoders_room, t->n_decoders + 1, sizeof *t->decoders))
        return NULL;
    t->decoders[t->n_decoders] = (rg_decode_step){ .kind = kind };
    return &t->decoders[t->n_decoders++];
}

static bool decode_bytes(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)part;
    return add_decode(t, f, RG_DECODE_BYTES);
}

static bool decode_wordpiece(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_decode_step *s = add_decode(t, f, RG_DECODE_WORDPIECE);
    if (!s || !rgi_rename(&s->text, rgi_json_word(f, part, "prefix")))
        return false;
    s->cleanup = rgi_json_true(f, part, "cleanup", true);
    return true;
}

static bool decode_metaspace(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    char text[5];
    rg_prefix prefix;
    if (!rgi_read_replacement(f, part, decoder_name, text)
        || !rgi_read_prefix(f, part, decoder_name, &prefix))
        return false;
    rg_decode_step *s = add_decode(t, f, RG_DECODE_BLANKS);
    if (s)
        s->start = prefix != RG_PREFIX_NEVER;
    return s && rgi_rename(&s->text, text);
}

static bool decode_replace(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    rg_decode_step *s = add_decode(t, f, RG_DECODE_REPLACE);
    return s && rgi_rename(&s->text, rgi_json_word(f, part, "content"))
           && rgi_read_pattern(t, f, part, decoder_name, &s->regex);
}

static bool decode_fallback(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)part;
    return add_decode(t, f, RG_DECODE_FALLBACK);
}

/* Fuse joins the texts of the tokens, which happens in any case. */
static bool decode_fuse(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    (void)f;
    (void)part;
    t->fused = true;
    return true;
}

static bool decode_strip(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    int64_t stop = rgi_json_whole(f, part, "stop", 0);
    if (t->fused && stop > 0)
        return rgi_file_refuse(&f->file, "%s strips the end of the text, which isn't supported",
                               decoder_name);
    rg_decode_step *s = add_decode(t, f, t->fused ? RG_DECODE_STRIP_START : RG_DECODE_STRIP);
    if (!s)
        return false;
    s->start = rgi_json_whole(f, part, "start", 0);
    s->stop = stop;
    return rgi_rename(&s->text, rgi_json_word(f, part, "content"));
}

static bool read_decoders(rg_tokenizer *t, const rg_json_file *f, uint32_t part);

static const rg_part_type decoder_types[] = {
    { "ByteLevel",
      { RG_PART_TYPE,
        { "add_prefix_space", RG_RULE_BOOL, NULL },
        { "trim_offsets", RG_RULE_BOOL, NULL },
        { "use_regex", RG_RULE_BOOL, NULL } },
      decode_bytes },
    { "WordPiece",
      { RG_PART_TYPE, RG_PART_TEXT("prefix"), RG_PART_BOOL("cleanup") },
      decode_wordpiece },
    { "Metaspace", RG_PART_METASPACE, decode_metaspace },
    { "Replace",
      { RG_PART_TYPE, RG_PART_OBJECT("pattern"), RG_PART_TEXT("content") },
      decode_replace },
    { "ByteFallback", { RG_PART_TYPE }, decode_fallback },
    { "Fuse", { RG_PART_TYPE }, decode_fuse },
    { "Strip",
      { RG_PART_TYPE,
        RG_PART_TEXT("content"),
        { "start", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
        { "stop", RG_RULE_WHOLE | RG_RULE_MUST, NULL } },
      decode_strip },
    { "Sequence", { RG_PART_TYPE, RG_PART_ARRAY("decoders") }, read_decoders },
    { NULL, { RG_NO_MORE }, NULL },
};

static bool read_decoders(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    return rgi_read_parts(t, f, rgi_json_find(&f->json, part, "decoders"), decoder_name,
                          decoder_types);
}

bool rgi_load_decoder(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    t->joined_by_blanks = !rgi_part_given(f, part);
    return t->joined_by_blanks || rgi_read_part(t, f, part, decoder_name, decoder_types);
}

bool rgi_parts_of_gpt2(rg_tokenizer *t, const rg_json_file *f) {
    return rgi_gpt2_words(t, f) && add_decode(t, f, RG_DECODE_BYTES) && rgi_default_templates(t);
}

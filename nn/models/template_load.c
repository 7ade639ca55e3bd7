/*
 * template_load.c: reads the post-processor of tokenizer.json as templates, which say where special
 * tokens are put around one text or two, and the objects "truncation" and "padding".
 */
#include "tokenizer_parts.h"
#include "tensor/memory.h"

#include <string.h>

static const char processor_name[] = "the post_processor";

/* ---- templates ------------------------------------------------------------------------ */

/* Appends a piece with `type` to the template. Its special tokens are appended by add_id. */
static bool add_piece(rg_tokenizer *t, rg_template *to, int sequence, int64_t type) {
    if (!rgi_grow((void **)&to->v, &to->room, to->n + 1, sizeof *to->v))
        return false;
    to->v[to->n++] = (rg_template_piece){ sequence, type, t->n_template_ids, 0 };
    return true;
}

/* Appends a special token to the last piece. Fails and returns false if its id isn't one. */
static bool add_id(rg_tokenizer *t, const rg_json_file *f, rg_template *to, uint32_t value) {
    int64_t id;
    if (!rgi_json_integer(&f->json, value, &id) || id < 0 || id >= (int64_t)t->n)
        return rgi_file_refuse(&f->file, "%s has a token with the id %s, and ids are from 0 to %zu",
                               processor_name, RG_JSON_SHOWN(&f->json, value), t->n - 1);
    if (!rgi_grow((void **)&t->template_ids, &t->template_ids_room, t->n_template_ids + 1,
                  sizeof *t->template_ids))
        return false;
    t->template_ids[t->n_template_ids++] = id;
    to->v[to->n - 1].n++;
    return true;
}

static bool add_special(rg_tokenizer *t, const rg_json_file *f, rg_template *to, int64_t type,
                        uint32_t id) {
    return add_piece(t, to, -1, type) && add_id(t, f, to, id);
}

/* Reads the piece {"SpecialToken": {"id": "[CLS]", "type_id": 0}}; "special_tokens" has the ids. */
static bool read_special(rg_tokenizer *t, const rg_json_file *f, uint32_t processor,
                         rg_template *to, uint32_t special) {
    static const rg_json_rule rules[] = { { "id", RG_RULE_TEXT | RG_RULE_MUST, NULL },
                                          { "type_id", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
                                          { NULL, 0, NULL } };
    static const rg_json_rule token_rules[] = { { "id", RG_RULE_TEXT, NULL },
                                                { "ids", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
                                                { "tokens", RG_RULE_ARRAY, NULL },
                                                { NULL, 0, NULL } };
    const rg_json *j = &f->json;
    if (!rgi_json_keeps(f, special, "a piece", rules))
        return false;
    const char *name = rgi_json_word(f, special, "id");
    uint32_t all = rgi_json_find(j, processor, "special_tokens"), token = 0;
    token = all ? rgi_json_find(j, all, name) : 0;
    if (!token)
        return rgi_file_refuse(&f->file, "%s's special token \"%s\" isn't in \"special_tokens\"",
                               processor_name, RG_SHOWN(name));
    if (!rgi_json_keeps(f, token, "a special token", token_rules)
        || !add_piece(t, to, -1, rgi_json_whole(f, special, "type_id", 0)))
        return false;
    for (RG_EACH_JSON(i, j, rgi_json_find(j, token, "ids")))
        if (!add_id(t, f, to, i))
            return false;
    return true;
}

/* Reads the piece {"Sequence": {"id": "A", "type_id": 0}}. */
static bool read_sequence(rg_tokenizer *t, const rg_json_file *f, rg_template *to,
                          uint32_t sequence, int texts) {
    static const rg_json_rule rules[] = { { "id", RG_RULE_TEXT | RG_RULE_MUST, NULL },
                                          { "type_id", RG_RULE_WHOLE, NULL },
                                          { NULL, 0, NULL } };
    if (!rgi_json_keeps(f, sequence, "a piece", rules))
        return false;
    const char *id = rgi_json_word(f, sequence, "id");
    bool known = strcmp(id, "A") == 0 || (texts == 2 && strcmp(id, "B") == 0);
    if (!known)
        return rgi_file_refuse(&f->file, "a piece's \"id\" is \"%s\", which isn't supported",
                               RG_SHOWN(id));
    return add_piece(t, to, *id == 'B', rgi_json_whole(f, sequence, "type_id", 0));
}

/* Reads the pieces of a template, which must have each of its texts once. */
static bool read_pieces(rg_tokenizer *t, const rg_json_file *f, uint32_t processor, int texts,
                        rg_template *to) {
    static const rg_json_rule rules[] = { { "SpecialToken", RG_RULE_OBJECT, NULL },
                                          { "Sequence", RG_RULE_OBJECT, NULL },
                                          { NULL, 0, NULL } };
    const rg_json *j = &f->json;
    const char *name = texts == 1 ? "single" : "pair";
    int seen[2] = { 0, 0 };
    for (RG_EACH_JSON(i, j, rgi_json_find(j, processor, name))) {
        if (!rgi_json_keeps(f, i, "a piece", rules))
            return false;
        uint32_t special = rgi_json_find(j, i, "SpecialToken");
        uint32_t sequence = rgi_json_find(j, i, "Sequence");
        if (!special == !sequence)
            return rgi_file_refuse(&f->file, "a piece is neither a text nor a special token");
        if (!(special ? read_special(t, f, processor, to, special)
                      : read_sequence(t, f, to, sequence, texts)))
            return false;
        if (sequence)
            seen[to->v[to->n - 1].sequence]++;
    }
    bool empty = texts == 2 && to->n == 0;
    if (!empty && (seen[0] != 1 || seen[1] != texts - 1))
        return rgi_file_refuse(&f->file, "%s's \"%s\" doesn't have each text once", processor_name,
                               name);
    return true;
}

/* Fails and returns false if there are templates already. */
static bool first_template(const rg_tokenizer *t, const rg_json_file *f) {
    return t->single.n == 0
           || rgi_file_refuse(&f->file, "%s has several templates, which isn't supported",
                              processor_name);
}

static bool read_template(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    static const rg_json_rule rules[] = { { "type", RG_RULE_TEXT, NULL },
                                          { "single", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
                                          { "pair", RG_RULE_ARRAY, NULL },
                                          { "special_tokens", RG_RULE_OBJECT, NULL },
                                          { NULL, 0, NULL } };
    return first_template(t, f) && rgi_json_keeps(f, part, processor_name, rules)
           && read_pieces(t, f, part, 1, &t->single)
           && (!rgi_json_find(&f->json, part, "pair") || read_pieces(t, f, part, 2, &t->pair));
}

/* ---- the other processors ------------------------------------------------------------- */

/* Returns the index of the id in the member ["[SEP]", 102]. If it isn't one, fails and returns
 * 0. */
static uint32_t id_of(const rg_json_file *f, uint32_t part, const char *name) {
    const rg_json *j = &f->json;
    uint32_t at = rgi_json_find(j, part, name);
    if (j->v[at].n == 2 && j->v[at + 1].kind == RG_JSON_TEXT)
        return at + 2;
    rgi_file_refuse(&f->file, "%s's \"%s\" isn't a token and its id", processor_name, name);
    return 0;
}

/* Reads BertProcessing, or RobertaProcessing, which puts two separators between two texts and gives
 * all tokens the type 0. */
static bool read_bert_template(rg_tokenizer *t, const rg_json_file *f, uint32_t part,
                               bool roberta) {
    static const rg_json_rule rules[] = { { "type", RG_RULE_TEXT, NULL },
                                          { "sep", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
                                          { "cls", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
                                          { "trim_offsets", RG_RULE_BOOL, NULL },
                                          { "add_prefix_space", RG_RULE_BOOL, NULL },
                                          { NULL, 0, NULL } };
    if (!first_template(t, f) || !rgi_json_keeps(f, part, processor_name, rules))
        return false;
    uint32_t sep = id_of(f, part, "sep"), cls = sep ? id_of(f, part, "cls") : 0;
    if (!cls)
        return false;
    t->trim = t->trim || (roberta && rgi_json_true(f, part, "trim_offsets", true));
    t->trim_prefixed = rgi_json_true(f, part, "add_prefix_space", true);
    rg_template *one = &t->single, *two = &t->pair;
    return add_special(t, f, one, 0, cls) && add_piece(t, one, 0, 0)
           && add_special(t, f, one, 0, sep) && add_special(t, f, two, 0, cls)
           && add_piece(t, two, 0, 0) && add_special(t, f, two, 0, sep)
           && (!roberta || add_special(t, f, two, 0, sep)) && add_piece(t, two, 1, !roberta)
           && add_special(t, f, two, !roberta, sep);
}

static bool read_trim(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    static const rg_json_rule rules[] = { { "type", RG_RULE_TEXT, NULL },
                                          { "add_prefix_space", RG_RULE_BOOL, NULL },
                                          { "trim_offsets", RG_RULE_BOOL, NULL },
                                          { "use_regex", RG_RULE_BOOL, NULL },
                                          { NULL, 0, NULL } };
    if (!rgi_json_keeps(f, part, processor_name, rules))
        return false;
    t->trim = t->trim || rgi_json_true(f, part, "trim_offsets", true);
    t->trim_prefixed = rgi_json_true(f, part, "add_prefix_space", true);
    return true;
}

static bool read_processor(rg_tokenizer *t, const rg_json_file *f, uint32_t part);

static bool read_processors(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    static const rg_json_rule rules[] = { { "type", RG_RULE_TEXT, NULL },
                                          { "processors", RG_RULE_ARRAY | RG_RULE_MUST, NULL },
                                          { NULL, 0, NULL } };
    if (!rgi_json_keeps(f, part, processor_name, rules))
        return false;
    for (RG_EACH_JSON(i, &f->json, rgi_json_find(&f->json, part, "processors")))
        if (!read_processor(t, f, i))
            return false;
    return true;
}

static bool read_processor(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    const char *type = rgi_json_type(f, part, processor_name);
    if (!type)
        return false;
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(t, f, part);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_bert_template(t, f, part, *type == 'R');
    if (strcmp(type, "ByteLevel") == 0)
        return read_trim(t, f, part);
    if (strcmp(type, "Sequence") == 0)
        return read_processors(t, f, part);
    return rgi_refuse_type(f, part, processor_name);
}

bool rgi_load_processor(rg_tokenizer *t, const rg_json_file *f, uint32_t part) {
    if (part && f->json.v[part].kind != RG_JSON_NULL && !read_processor(t, f, part))
        return false;
    return rgi_default_templates(t);
}

bool rgi_default_templates(rg_tokenizer *t) {
    return t->single.n > 0
           || (add_piece(t, &t->single, 0, 0) && add_piece(t, &t->pair, 0, 0)
               && add_piece(t, &t->pair, 1, 1));
}

/* ---- truncation and padding ----------------------------------------------------------- */

/* Reads the member "direction". */
static bool read_direction(const rg_json_file *f, uint32_t object, const char *where, bool *left) {
    const char *said = rgi_json_word(f, object, "direction");
    *left = said && strcmp(said, "Left") == 0;
    return !said || *left || strcmp(said, "Right") == 0
           || rgi_file_refuse(&f->file, "%s's \"direction\" is \"%s\", which isn't supported",
                              where, RG_SHOWN(said));
}

static bool read_truncation(rg_fit *fit, const rg_json_file *f, uint32_t object) {
    static const rg_json_rule rules[] = { { "direction", RG_RULE_TEXT, NULL },
                                          { "max_length", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
                                          { "strategy", RG_RULE_TEXT | RG_RULE_MUST, NULL },
                                          { "stride", RG_RULE_WHOLE, NULL },
                                          { NULL, 0, NULL } };
    static const char *const names[] = { "LongestFirst", "OnlyFirst", "OnlySecond" };
    if (!rgi_json_keeps(f, object, "the truncation", rules)
        || !read_direction(f, object, "the truncation", &fit->left))
        return false;
    const char *strategy = rgi_json_word(f, object, "strategy");
    fit->given = true;
    fit->length = rgi_json_whole(f, object, "max_length", 0);
    for (int i = 0; i < RG_COUNT(names); i++)
        if (strcmp(names[i], strategy) == 0) {
            fit->strategy = (rg_cut_strategy)i;
            return true;
        }
    return rgi_file_refuse(&f->file,
                           "the truncation's \"strategy\" is \"%s\", which isn't supported",
                           RG_SHOWN(strategy));
}

/* Reads the padding's "strategy", which is "BatchLongest" or {"Fixed": 128}. */
static bool read_padding_length(rg_fit *fit, const rg_json_file *f, uint32_t object) {
    static const rg_json_rule rules[] = { { "Fixed", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
                                          { NULL, 0, NULL } };
    const char *longest = rgi_json_word(f, object, "strategy");
    uint32_t fixed = rgi_json_find(&f->json, object, "strategy");
    fit->length = -1;
    if (longest)
        return strcmp(longest, "BatchLongest") == 0
               || rgi_file_refuse(&f->file,
                                  "the padding's \"strategy\" is \"%s\", which isn't supported",
                                  RG_SHOWN(longest));
    if (!rgi_json_keeps(f, fixed, "the padding's strategy", rules))
        return false;
    fit->length = rgi_json_whole(f, fixed, "Fixed", 0);
    return true;
}

static bool read_padding(const rg_tokenizer *t, rg_fit *fit, const rg_json_file *f,
                         uint32_t object) {
    static const rg_json_rule rules[] = {
        { "strategy", RG_RULE_TEXT | RG_RULE_OBJECT | RG_RULE_MUST, NULL },
        { "direction", RG_RULE_TEXT, NULL },
        { "pad_to_multiple_of", RG_RULE_NULL | RG_RULE_WHOLE, NULL },
        { "pad_id", RG_RULE_WHOLE | RG_RULE_MUST, NULL },
        { "pad_type_id", RG_RULE_WHOLE, NULL },
        { "pad_token", RG_RULE_TEXT, NULL },
        { NULL, 0, NULL },
    };
    enum { LONGEST = 1 << 20 };
    if (!rgi_json_keeps(f, object, "the padding", rules)
        || !read_direction(f, object, "the padding", &fit->left)
        || !read_padding_length(fit, f, object))
        return false;
    fit->given = true;
    fit->multiple = rgi_json_whole(f, object, "pad_to_multiple_of", 0);
    fit->id = rgi_json_whole(f, object, "pad_id", 0);
    fit->type = rgi_json_whole(f, object, "pad_type_id", 0);
    if (fit->length > LONGEST || fit->multiple > LONGEST)
        return rgi_file_refuse(&f->file,
                               "the padding is to more than %d tokens, which isn't "
                               "supported",
                               (int)LONGEST);
    return fit->id < (int64_t)t->n
           || rgi_file_refuse(&f->file,
                              "the padding's \"pad_id\" is %lld, and there are %zu tokens",
                              (long long)fit->id, t->n);
}

bool rgi_load_fits(rg_tokenizer *t, const rg_json_file *f, uint32_t truncation, uint32_t padding) {
    const rg_json *j = &f->json;
    bool cuts = truncation && j->v[truncation].kind != RG_JSON_NULL;
    bool pads = padding && j->v[padding].kind != RG_JSON_NULL;
    return (!cuts || read_truncation(&t->truncation, f, truncation))
           && (!pads || read_padding(t, &t->padding, f, padding));
}

/*
 * pretokenizer.c: cuts a text into words by the steps of a pre-tokenizer.
 */
#include "pretokenizer.h"
#include "tensor/files/utf8.h"

#include <string.h>

size_t rgi_byte_character(unsigned char b, char *to) {
    uint32_t code = b;
    if (b < 0x21)
        code = 256u + b;
    else if (b >= 0x7F && b <= 0xA0)
        code = 256u + 33 + (b - 0x7Fu);
    else if (b == 0xAD)
        code = 256u + 67;
    return rgi_utf8_write(to, code);
}

/* ---- cutting -------------------------------------------------------------------------- */

typedef struct {
    const rg_pre_step *steps;
    size_t n;
    rg_aligned *room;
    rg_take_word take;
    void *to;
} pre_run;

static bool run_steps(const pre_run *run, size_t step, const rg_piece *p);

/* A part of a text that may grow before it is passed on: that from offset `from` to offset `to`. */
typedef struct {
    const pre_run *run;
    size_t step;
    const rg_piece *p;
    size_t from, to;
    bool any, match; /* Whether there is a part, and whether the last match or gap was a match. */
} cut_part;

static bool cut_flush(cut_part *c) {
    if (!c->any || c->from == c->to)
        return true;
    rg_piece part = rgi_piece_part(c->p, c->from, c->to);
    return run_steps(c->run, c->step + 1, &part);
}

/* Takes the next match, or the gap between two matches. */
static bool cut_take(cut_part *c, const rg_pre_step *s, size_t from, size_t to, bool match) {
    match = match != s->invert;
    bool grows = c->any;
    switch (s->behavior) {
    case RG_CUT_REMOVED:
    case RG_CUT_ISOLATED: grows = false; break;
    case RG_CUT_WITH_PREVIOUS: grows = grows && match && !c->match; break;
    case RG_CUT_WITH_NEXT: grows = grows && !match && c->match; break;
    case RG_CUT_CONTIGUOUS: grows = grows && match == c->match; break;
    }
    c->match = match;
    if (grows) {
        c->to = to;
        return true;
    }
    if (!cut_flush(c))
        return false;
    c->any = s->behavior != RG_CUT_REMOVED || !match;
    c->from = from;
    c->to = to;
    return true;
}

static bool cut(const pre_run *run, size_t step, const rg_piece *p) {
    const rg_pre_step *s = &run->steps[step];
    const char *at = p->v, *end = p->v + p->n, *from, *to;
    cut_part c = { .run = run, .step = step, .p = p };
    while (at < end) {
        if (!rgi_regex_find(&s->regex, at, end, &from, &to))
            return false;
        if (from > at && !cut_take(&c, s, (size_t)(at - p->v), (size_t)(from - p->v), false))
            return false;
        if (to > from && !cut_take(&c, s, (size_t)(from - p->v), (size_t)(to - p->v), true))
            return false;
        at = to;
    }
    return cut_flush(&c);
}

/* ---- changing ------------------------------------------------------------------------- */

static bool to_bytes(rg_aligned *to, const rg_piece *p) {
    for (size_t i = 0; i < p->n; i++) {
        char byte[3];
        byte[rgi_byte_character((unsigned char)p->v[i], byte)] = 0;
        if (!rgi_aligned_text(to, byte, p, i))
            return false;
    }
    return true;
}

static bool begins_with(const char *v, size_t n, const char *text) {
    return n >= strlen(text) && memcmp(v, text, strlen(text)) == 0;
}

/* Appends the piece with `text` in place of blanks. */
static bool replace_blanks(rg_aligned *to, const char *text, const rg_piece *p) {
    size_t done = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i] == ' ') {
            if (!rgi_aligned_copy(to, p, done, i) || !rgi_aligned_text(to, text, p, i))
                return false;
            done = i + 1;
        }
    return rgi_aligned_copy(to, p, done, p->n);
}

/* Puts the step's text before the piece if the step asks for it, and replaces blanks. */
static bool change(const rg_pre_step *s, rg_aligned *to, const rg_piece *p) {
    bool blanks = s->kind == RG_PRE_BLANKS;
    bool prefixed = begins_with(p->v, p->n, s->text) || (blanks && *p->v == ' ');
    bool here = s->prefix == RG_PREFIX_ALWAYS
                || (s->prefix == RG_PREFIX_FIRST && rgi_piece_span(p, 0, 1).from == 0);
    if (here && !prefixed && !rgi_aligned_text(to, s->text, p, 0))
        return false;
    return blanks ? replace_blanks(to, s->text, p) : rgi_aligned_copy(to, p, 0, p->n);
}

static bool run_steps(const pre_run *run, size_t step, const rg_piece *p) {
    if (step == run->n)
        return run->take(run->to, p);
    const rg_pre_step *s = &run->steps[step];
    if (s->kind == RG_PRE_CUT)
        return cut(run, step, p);
    rg_aligned *to = &run->room[step];
    to->n = 0;
    if (!(s->kind == RG_PRE_BYTES ? to_bytes(to, p) : change(s, to, p)))
        return false;
    rg_piece changed = rgi_aligned_piece(to);
    return run_steps(run, step + 1, &changed);
}

bool rgi_pretokenize(const rg_pre_step *steps, size_t n, rg_aligned room[RG_PRE_MOST],
                     const rg_piece *p, rg_take_word take, void *to) {
    const pre_run run = { steps, n, room, take, to };
    return p->n == 0 || run_steps(&run, 0, p);
}

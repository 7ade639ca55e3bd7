/*
 * normalizer.c: changes a text by the steps of a normalizer. charsmap.c has Sentencepiece's table.
 */
#include "charsmap.h"
#include "normalizer.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- normal forms --------------------------------------------------------------------- */

/* A character that is being put in order. `change` is 1 if it comes in addition to those before,
 * and -k if it stands for k more characters of the text. */
typedef struct rg_norm_mark {
    uint32_t code;
    int change;
    uint32_t class, order;
} norm_mark;

/* A piece that is being changed to a form: the characters up to offset `at` are done. `held`
 * characters in room->marks wait for others, which may come before them or be composed with
 * them. */
typedef struct {
    const rg_norm_step *step;
    const rg_unicode *u;
    rg_norm_room *room;
    rg_aligned *to;
    const rg_piece *p;
    size_t at, held;
} norm_form;

static size_t width_at(const rg_piece *p, size_t at) {
    uint32_t code;
    return rgi_utf8_read(p->v + at, p->v + p->n, &code);
}

/* Appends a character to the result. It stands for the character at form->at and, with a change
 * below 0, for more of them; or, with a change above 0, for the character before. */
static bool form_put(norm_form *f, norm_mark mark) {
    size_t at = mark.change > 0 && f->at > 0 ? f->at - 1 : f->at;
    if (!rgi_aligned_put(f->to, mark.code, f->p, at))
        return false;
    for (int i = mark.change; i <= 0; i++)
        f->at += width_at(f->p, f->at);
    return true;
}

static int by_class(const void *a, const void *b) {
    const norm_mark *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Composes the held characters, which are in order: each with the first one, unless a character
 * between them has the same class or a higher one. */
static void compose(norm_form *f) {
    norm_mark *v = f->room->marks;
    size_t left = 1;
    for (size_t i = 1; i < f->held; i++) {
        bool blocked = left > 1 && v[left - 1].class >= v[i].class;
        uint32_t code = blocked ? 0 : rgi_unicode_compose(f->u, v[0].code, v[i].code);
        if (code) {
            v[0].code = code;
            v[0].change += v[i].change - 1;
        } else {
            v[left++] = v[i];
        }
    }
    f->held = left;
}

/* Puts the held characters in order, and composes them if the form asks for it. */
static void form_settle(norm_form *f) {
    if (f->held > 1)
        qsort(f->room->marks, f->held, sizeof(norm_mark), by_class);
    if (f->step->compose && f->held > 0 && f->room->marks[0].class == 0)
        compose(f);
}

static bool form_flush(norm_form *f) {
    for (size_t i = 0; i < f->held; i++)
        if (!form_put(f, f->room->marks[i]))
            return false;
    f->held = 0;
    return true;
}

/* Composes a character without a combining class with the only one that is held. Returns whether
 * that was possible. */
static bool joins_held(norm_form *f, norm_mark mark) {
    norm_mark *first = f->room->marks;
    bool alone = f->step->compose && f->held == 1 && first->class == 0;
    uint32_t code = alone ? rgi_unicode_compose(f->u, first->code, mark.code) : 0;
    if (code) {
        first->code = code;
        first->change += mark.change - 1;
    }
    return code;
}

/* Adds a character to the held ones. If it has no combining class, all others are complete. */
static bool form_add(norm_form *f, norm_mark mark) {
    if (mark.class == 0) {
        form_settle(f);
        if (joins_held(f, mark))
            return true;
        if (!form_flush(f))
            return false;
    }
    if (!rgi_grow((void **)&f->room->marks, &f->room->marks_room, f->held + 1, sizeof mark))
        return false;
    mark.order = (uint32_t)f->held;
    f->room->marks[f->held++] = mark;
    return true;
}

static bool apply_form(const rg_norm_step *s, const rg_unicode *u, rg_norm_room *room,
                       rg_aligned *to, const rg_piece *p) {
    norm_form f = { s, u, room, to, p, 0, 0 };
    for (size_t i = 0, wide; i < p->n; i += wide) {
        uint32_t code = 0, all[RG_DECOMPOSED_MOST];
        wide = rgi_utf8_read(p->v + i, p->v + p->n, &code);
        size_t n = rgi_unicode_decompose(u, code, s->compatible, all);
        for (size_t k = 0; k < n; k++) {
            uint32_t class = u->marks.v[rgi_unicode_class(u, all[k])];
            if (!form_add(&f, (norm_mark){ all[k], k > 0, class, 0 }))
                return false;
        }
    }
    form_settle(&f);
    return form_flush(&f);
}

/* ---- character by character ----------------------------------------------------------- */

static bool put_lower(const rg_unicode *u, rg_aligned *to, const rg_piece *p, size_t at,
                      uint32_t code) {
    return rgi_aligned_put(to, rgi_unicode_lower(u, code), p, at)
           && (code != 0x130 || rgi_aligned_put(to, 0x307, p, at));
}

/* Appends what becomes of the character at offset `at` of the piece. */
static bool apply_to(const rg_norm_step *s, const rg_unicode *u, rg_aligned *to, const rg_piece *p,
                     size_t at, uint32_t code) {
    uint32_t is = rgi_unicode_is(u, code);
    switch (s->kind) {
    case RG_NORM_LOWER: return put_lower(u, to, p, at, code);
    case RG_NORM_REMOVE: return is & s->is || rgi_aligned_put(to, code, p, at);
    case RG_NORM_CLEAN:
        return is & RG_UNICODE_CONTROL
               || rgi_aligned_put(to, is & RG_UNICODE_SPACE ? ' ' : code, p, at);
    default: /* RG_NORM_CHINESE */
        return !(is & RG_UNICODE_CHINESE)
                   ? rgi_aligned_put(to, code, p, at)
                   : rgi_aligned_put(to, ' ', p, at) && rgi_aligned_put(to, code, p, at)
                         && rgi_aligned_put(to, ' ', p, at);
    }
}

static bool apply_to_each(const rg_norm_step *s, const rg_unicode *u, rg_aligned *to,
                          const rg_piece *p) {
    for (size_t i = 0, wide; i < p->n; i += wide) {
        uint32_t code = 0;
        wide = rgi_utf8_read(p->v + i, p->v + p->n, &code);
        if (!apply_to(s, u, to, p, i, code))
            return false;
    }
    return true;
}

/* ---- whole texts ---------------------------------------------------------------------- */

bool rgi_replace(rg_aligned *to, const rg_regex *regex, const char *text, const rg_piece *p) {
    const char *at = p->v, *end = p->v + p->n, *from, *stop;
    while (at < end) {
        if (!rgi_regex_find(regex, at, end, &from, &stop)
            || !rgi_aligned_copy(to, p, (size_t)(at - p->v), (size_t)(from - p->v)))
            return false;
        if (from < end && !rgi_aligned_text(to, text, p, (size_t)(stop - p->v) - 1))
            return false;
        at = stop;
    }
    return true;
}

static rg_piece stripped(const rg_norm_step *s, const rg_unicode *u, const rg_piece *p) {
    const char *begin = p->v, *end = p->v + p->n;
    size_t n;
    while (s->left && begin < end && rgi_unicode_at(u, begin, end, &n) & RG_UNICODE_SPACE)
        begin += n;
    while (s->right && begin < end && rgi_unicode_before(u, begin, end, &n) & RG_UNICODE_SPACE)
        end -= n;
    return rgi_piece_part(p, (size_t)(begin - p->v), (size_t)(end - p->v));
}

static bool apply_step(const rg_norm_step *s, const rg_unicode *u, rg_norm_room *room,
                       rg_aligned *to, const rg_piece *p) {
    switch (s->kind) {
    case RG_NORM_FORM: return apply_form(s, u, room, to, p);
    case RG_NORM_PREPEND:
        return rgi_aligned_text(to, s->text, p, 0) && rgi_aligned_copy(to, p, 0, p->n);
    case RG_NORM_REPLACE: return rgi_replace(to, &s->regex, s->text, p);
    case RG_NORM_CHARSMAP: return rgi_charsmap_apply(&s->charsmap, u, to, p);
    default: return apply_to_each(s, u, to, p);
    }
}

bool rgi_normalize(const rg_norm_step *steps, size_t n, const rg_unicode *u, rg_norm_room *room,
                   rg_piece *p) {
    for (size_t i = 0; i < n && p->n > 0; i++) {
        if (steps[i].kind == RG_NORM_STRIP) {
            *p = stripped(&steps[i], u, p);
            continue;
        }
        rg_aligned *to = &room->text[room->last = !room->last];
        to->n = 0;
        if (!apply_step(&steps[i], u, room, to, p))
            return false;
        *p = rgi_aligned_piece(to);
    }
    return true;
}

void rgi_norm_room_free(rg_norm_room *room) {
    rgi_aligned_free(&room->text[0]);
    rgi_aligned_free(&room->text[1]);
    rgi_free(room->marks, room->marks_room * sizeof *room->marks, RG_MEM_OTHER);
}

void rgi_norm_free(rg_norm_step *step) {
    rgi_rename(&step->text, NULL);
    rgi_regex_free(&step->regex);
    rgi_free(step->charsmap.block, step->charsmap.bytes, RG_MEM_OTHER);
}

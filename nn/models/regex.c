/*
 * regex.c: matches texts with the nodes of a regular expression, which regex_compile.c makes. A
 * match tries alternatives in turn and takes as many characters as it can. Each node goes on to the
 * one that follows it, and none goes back, so that calls are nested no deeper than there are nodes.
 */
#include "regex_nodes.h"
#include "tensor/base.h"
#include "tensor/files/utf8.h"

enum { STEPS_MOST = 10000000 };

typedef struct {
    const rg_regex *r;
    const char *end;
    int steps;
} regex_match;

/* Returns the length of the character at p if it is in the set, otherwise 0. */
static size_t in_set(const regex_match *m, const regex_node *set, const char *p) {
    uint32_t c = (unsigned char)*p;
    if (c < 128)
        return set->ascii[c >> 6] >> (c & 63) & 1;
    size_t n = rgi_utf8_read(p, m->end, &c);
    unsigned class = rgi_unicode_class(m->r->unicode, c);
    bool in = set->classes[class >> 6] >> (class & 63) & 1;
    for (uint32_t i = 0; i < set->n_ranges && !in; i++) {
        const regex_range *range = &m->r->ranges[set->ranges + i];
        in = c >= range->first && c <= range->last;
    }
    return in != set->negated ? n : 0;
}

static const char *match_at(regex_match *m, uint32_t at, const char *p);

/* Matches a set that may be there several times, and what follows it: takes as many characters as
 * it can, and then fewer. Returns where the match ends, or NULL. */
static const char *match_times(regex_match *m, const regex_node *set, const char *p) {
    const char *begin = p;
    uint32_t count = 0;
    for (size_t n; count < set->most && p < m->end && (n = in_set(m, set, p)) > 0; count++)
        p += n;
    if (count < set->least)
        return NULL;
    if (set->ends)
        return p;
    for (;;) {
        const char *to = match_at(m, set->next, p);
        if (to || count == set->least || set->possessive || p == begin || m->steps > STEPS_MOST)
            return to;
        count--;
        do {
            p--;
        } while ((*p & 0xC0) == 0x80);
    }
}

/* Returns false if the choice can't match at p, as its first character tells. */
static bool may_begin(const regex_node *either, const char *p, const char *end) {
    unsigned char c = p < end ? (unsigned char)*p : 255;
    return c >= 128 || either->ascii[c >> 6] >> (c & 63) & 1;
}

/* Returns where a match ends that begins at p with the node `at`. Returns NULL if there is none. */
static const char *match_at(regex_match *m, uint32_t at, const char *p) {
    for (;;) {
        const regex_node *v = &m->r->nodes[at];
        size_t n;
        const char *to;
        if (++m->steps > STEPS_MOST)
            return NULL;
        switch (v->kind) {
        case NODE_ACCEPT: return p;
        case NODE_JOIN: break;
        case NODE_SET:
            if (v->least != 1 || v->most != 1)
                return match_times(m, v, p);
            n = p < m->end ? in_set(m, v, p) : 0;
            if (n == 0)
                return NULL;
            p += n;
            break;
        case NODE_LOOK:
            if ((match_at(m, v->inside, p) != NULL) == v->negated)
                return NULL;
            break;
        case NODE_EITHER:
            to = may_begin(v, p, m->end) ? match_at(m, v->inside, p) : NULL;
            if (to || !v->next)
                return to;
            break;
        }
        at = v->next;
    }
}

bool rgi_regex_find(const rg_regex *r, const char *p, const char *end, const char **from,
                    const char **to) {
    for (uint32_t code; p < end; p += rgi_utf8_read(p, end, &code)) {
        regex_match m = { r, end, 0 };
        *to = match_at(&m, r->begin, p);
        *from = p;
        RG_FAIL_IF(m.steps > STEPS_MOST, "tokenizer_encode",
                   "a regular expression takes more than %d steps", STEPS_MOST);
        if (*to)
            return true;
    }
    *from = *to = end;
    return true;
}

/*
 * regex_compile.c: compiles regular expressions to lists of nodes. regex.c matches texts with them.
 */
#include "regex_nodes.h"
#include "tensor/base.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

enum { NODES_MOST = 4000, GROUPS_MOST = 16, TIMES_MOST = 1000 };

typedef struct {
    rg_regex *r;
    const rg_file *f;
    const char *where, *pattern, *p, *end;
    int groups;
    bool any_case;
} regex_parser;

/* A part of a pattern: its first node, its last one, whose `next` is to be set, and the least
 * number of characters that it matches. */
typedef struct {
    uint32_t entry, tail;
    uint32_t least;
    bool single; /* The part is one node of a set. */
} regex_part;

static bool refuse_pattern(const regex_parser *g, const char *what) {
    return rgi_file_refuse(g->f, "%s's regular expression \"%s\" has %s at byte %zu", g->where,
                           RG_SHOWN_BYTES(g->pattern, (size_t)(g->end - g->pattern)), what,
                           (size_t)(g->p - g->pattern));
}

/* Appends a node and returns its index. Returns 0 if memory runs out. */
static uint32_t add_node(rg_regex *r, node_kind kind) {
    if (!rgi_grow((void **)&r->nodes, &r->room, r->n + 2, sizeof *r->nodes))
        return 0;
    if (r->n == 0)
        r->nodes[r->n++] = (regex_node){ .kind = NODE_ACCEPT };
    r->nodes[r->n] = (regex_node){ .kind = kind, .least = 1, .most = 1 };
    return (uint32_t)r->n++;
}

static bool add_range(rg_regex *r, uint32_t node, uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last && c < 128; c++)
        r->nodes[node].ascii[c >> 6] |= (uint64_t)1 << (c & 63);
    if (last < 128)
        return true;
    if (!rgi_grow((void **)&r->ranges, &r->ranges_room, r->n_ranges + 1, sizeof *r->ranges))
        return false;
    if (r->nodes[node].n_ranges++ == 0)
        r->nodes[node].ranges = (uint32_t)r->n_ranges;
    r->ranges[r->n_ranges++] = (regex_range){ first, last };
    return true;
}

/* Adds to a set all characters that have at least one of the properties `is`. If `negated`, adds
 * all others instead. */
static void add_property(rg_regex *r, uint32_t node, uint32_t is, bool negated) {
    const rg_unicode *u = r->unicode;
    regex_node *set = &r->nodes[node];
    for (uint32_t k = 0; k < u->is.n; k++)
        if (((u->is.v[k] & is) != 0) != negated)
            set->classes[k >> 6] |= (uint64_t)1 << (k & 63);
    for (uint32_t c = 0; c < 128; c++)
        if (((rgi_unicode_is(u, c) & is) != 0) != negated)
            set->ascii[c >> 6] |= (uint64_t)1 << (c & 63);
}

/* Adds a character, and with any_case also those that differ from it only in case. */
static bool add_character(regex_parser *g, uint32_t node, uint32_t c) {
    unsigned lower = c | 0x20;
    if (!g->any_case || lower < 'a' || lower > 'z' || c >= 128)
        return (!g->any_case || c < 128 || refuse_pattern(g, "a letter that isn't ASCII in (?i:"))
               && add_range(g->r, node, c, c);
    uint32_t long_s = 0x17F, kelvin = 0x212A, other = lower == 's' ? long_s : kelvin;
    return add_range(g->r, node, lower, lower) && add_range(g->r, node, lower ^ 0x20, lower ^ 0x20)
           && ((lower != 's' && lower != 'k') || add_range(g->r, node, other, other));
}

static const struct {
    const char *name;
    uint32_t is;
} properties[] = {
    { "L", RG_UNICODE_L },     { "Lu", RG_UNICODE_LU }, { "Ll", RG_UNICODE_LL },
    { "Lt", RG_UNICODE_LT },   { "Lm", RG_UNICODE_LM }, { "Lo", RG_UNICODE_LO },
    { "M", RG_UNICODE_M },     { "Mn", RG_UNICODE_MN }, { "N", RG_UNICODE_N },
    { "Nd", RG_UNICODE_ND },   { "P", RG_UNICODE_P },   { "S", RG_UNICODE_S },
    { "Han", RG_UNICODE_HAN },
};

/* Reads what follows \p or \P: {L}, {Lu} or another name. */
static bool parse_property(regex_parser *g, uint32_t node, bool negated) {
    const char *close = g->p < g->end && *g->p == '{' ? memchr(g->p, '}', (size_t)(g->end - g->p))
                                                      : NULL;
    const char *name = g->p + 1;
    if (close && name < close && *name == '^') {
        negated = !negated;
        name++;
    }
    for (int i = 0; close && i < RG_COUNT(properties); i++) {
        size_t n = strlen(properties[i].name);
        if ((size_t)(close - name) == n && memcmp(name, properties[i].name, n) == 0) {
            add_property(g->r, node, properties[i].is, negated);
            g->p = close + 1;
            return true;
        }
    }
    return refuse_pattern(g, "a property that isn't supported");
}

/* Reads the four digits of \u0000, or those of \x{0000}. */
static bool parse_hex(regex_parser *g, char kind, uint32_t *c) {
    bool braces = kind == 'x' && g->p < g->end && *g->p == '{';
    int n = kind == 'u' ? 4 : braces ? 6 : 2;
    g->p += braces;
    *c = 0;
    for (int i = 0; i < n && g->p < g->end && *g->p != '}'; i++) {
        static const char digits[] = "0123456789abcdef";
        unsigned low = (unsigned char)*g->p >= 'A' ? (unsigned char)*g->p | 0x20u
                                                   : (unsigned char)*g->p;
        const char *digit = memchr(digits, (int)low, 16);
        if (!digit)
            return refuse_pattern(g, "a wrong digit");
        *c = *c << 4 | (uint32_t)(digit - digits);
        g->p++;
    }
    if (braces && (g->p == g->end || *g->p++ != '}'))
        return refuse_pattern(g, "no }");
    return *c <= 0x10FFFF || refuse_pattern(g, "no character");
}

/* Reads what follows a backslash. If it is a class of characters, adds these to the set and sets
 * *c to UINT32_MAX. If it is a character, sets *c. */
static bool parse_escape(regex_parser *g, uint32_t node, uint32_t *c) {
    static const char letters[] = "rntfv", stand_for[] = "\r\n\t\f\v";
    static const struct {
        char name;
        uint32_t is;
    } classes[] = { { 's', RG_UNICODE_SPACE }, { 'd', RG_UNICODE_ND }, { 'w', RG_UNICODE_W } };
    if (g->p == g->end)
        return refuse_pattern(g, "nothing behind a backslash");
    char name = *g->p++;
    *c = UINT32_MAX;
    if (name == 'p' || name == 'P')
        return parse_property(g, node, name == 'P');
    for (int i = 0; i < RG_COUNT(classes); i++)
        if ((name | 0x20) == classes[i].name) {
            add_property(g->r, node, classes[i].is, name != classes[i].name);
            return true;
        }
    const char *letter = strchr(letters, name);
    if (name == 'u' || name == 'x')
        return parse_hex(g, name, c);
    bool word = ((name | 0x20) >= 'a' && (name | 0x20) <= 'z') || (name >= '0' && name <= '9');
    if (word && !letter) {
        g->p--;
        return refuse_pattern(g, "an escape that isn't supported");
    }
    if ((unsigned char)name >= 128) {
        g->p--;
        g->p += rgi_utf8_read(g->p, g->end, c);
        return true;
    }
    *c = letter && name ? (unsigned char)stand_for[letter - letters] : (unsigned char)name;
    return true;
}

/* Reads a character of a class, such as the bounds of a range: sets *c as parse_escape does. */
static bool parse_member(regex_parser *g, uint32_t node, uint32_t *c) {
    if (*g->p == '\\') {
        g->p++;
        return parse_escape(g, node, c);
    }
    g->p += rgi_utf8_read(g->p, g->end, c);
    return true;
}

/* Reads the rest of a class up to its ]. Classes inside it must not be negated. */
static bool parse_class(regex_parser *g, uint32_t node, int depth) {
    const char *begin = g->p;
    while (g->p < g->end && (*g->p != ']' || g->p == begin)) {
        uint32_t c = 0, last = 0;
        if (*g->p == '[') {
            g->p++;
            bool posix = g->p < g->end && (*g->p == ':' || *g->p == '^');
            if (posix || depth == GROUPS_MOST)
                return refuse_pattern(g, "a class inside a class that isn't supported");
            if (!parse_class(g, node, depth + 1))
                return false;
            continue;
        }
        if (*g->p == '&' && g->end - g->p > 1 && g->p[1] == '&')
            return refuse_pattern(g, "&&, which isn't supported");
        if (!parse_member(g, node, &c))
            return false;
        bool range = c != UINT32_MAX && g->end - g->p > 1 && *g->p == '-' && g->p[1] != ']';
        if (range) {
            g->p++;
            if (!parse_member(g, node, &last))
                return false;
            if (last == UINT32_MAX || last < c)
                return refuse_pattern(g, "a range that isn't supported");
            if (g->any_case)
                return refuse_pattern(g, "a range in (?i:, which isn't supported");
            if (!add_range(g->r, node, c, last))
                return false;
        } else if (c != UINT32_MAX && !add_character(g, node, c)) {
            return false;
        }
    }
    if (g->p == g->end)
        return refuse_pattern(g, "no ]");
    g->p++;
    return true;
}

static void negate(regex_node *set) {
    set->negated = true;
    set->ascii[0] = ~set->ascii[0];
    set->ascii[1] = ~set->ascii[1];
}

/* Makes \w of the node, or \W. Outside of a class it also matches six characters, such as the
 * fraction 1/2, as in Onig. */
static bool make_word(regex_parser *g, uint32_t node, bool negated) {
    add_property(g->r, node, RG_UNICODE_W, false);
    bool ok = add_range(g->r, node, 0xB2, 0xB3) && add_range(g->r, node, 0xB9, 0xB9)
              && add_range(g->r, node, 0xBC, 0xBE);
    if (ok && negated)
        negate(&g->r->nodes[node]);
    return ok;
}

/* Reads one character or class as a node. */
static bool parse_set(regex_parser *g, regex_part *part) {
    uint32_t node = add_node(g->r, NODE_SET), c = UINT32_MAX;
    *part = (regex_part){ node, node, 1, true };
    if (!node)
        return false;
    if (g->r->n > NODES_MOST)
        return refuse_pattern(g, "too many parts");
    if (*g->p == '[') {
        g->p++;
        bool negated = g->p < g->end && *g->p == '^';
        g->p += negated;
        if (!parse_class(g, node, 0))
            return false;
        if (negated)
            negate(&g->r->nodes[node]);
        return true;
    }
    if (*g->p == '.') {
        g->p++;
        bool ok = add_range(g->r, node, '\n', '\n');
        if (ok)
            negate(&g->r->nodes[node]);
        return ok;
    }
    if (*g->p == '\\' && g->end - g->p > 1 && (g->p[1] | 0x20) == 'w') {
        g->p += 2;
        return make_word(g, node, g->p[-1] == 'W');
    }
    return parse_member(g, node, &c) && (c == UINT32_MAX || add_character(g, node, c));
}

static bool parse_either(regex_parser *g, regex_part *part);

/* Reads a group, whose "(" was read. */
static bool parse_group(regex_parser *g, regex_part *part) {
    bool any_case = g->any_case, look = false, negated = false;
    if (g->groups++ == GROUPS_MOST)
        return refuse_pattern(g, "too many groups in one another");
    if (g->p < g->end && *g->p == '?') {
        size_t n = (size_t)(g->end - g->p);
        bool known = n > 1 && strchr(":=!", g->p[1]);
        bool case_too = n > 2 && g->p[1] == 'i' && g->p[2] == ':';
        if (!known && !case_too)
            return refuse_pattern(g, "a group that isn't supported");
        look = known && g->p[1] != ':';
        negated = g->p[1] == '!';
        g->any_case = any_case || case_too;
        g->p += case_too ? 3 : 2;
    }
    if (!parse_either(g, part))
        return false;
    if (g->p == g->end || *g->p != ')')
        return refuse_pattern(g, "no )");
    g->p++;
    g->groups--;
    g->any_case = any_case;
    if (!look)
        return true;
    uint32_t node = add_node(g->r, NODE_LOOK);
    if (!node)
        return false;
    g->r->nodes[part->tail].next = NODE_0_ACCEPTS;
    g->r->nodes[node].inside = part->entry;
    g->r->nodes[node].negated = negated;
    *part = (regex_part){ node, node, 0, false };
    return true;
}

static bool parse_count(regex_parser *g, uint32_t *count) {
    *count = 0;
    for (; g->p < g->end && *g->p >= '0' && *g->p <= '9'; g->p++) {
        *count = *count * 10 + (uint32_t)(*g->p - '0');
        if (*count > TIMES_MOST)
            return refuse_pattern(g, "too large a number");
    }
    return true;
}

/* Makes a group optional: either the group, or what follows it. */
static bool make_optional(regex_parser *g, regex_part *part) {
    uint32_t first = add_node(g->r, NODE_EITHER), second = add_node(g->r, NODE_EITHER);
    if (!first || !second)
        return false;
    regex_node *v = g->r->nodes;
    v[first].inside = part->entry;
    v[first].next = second;
    v[second].inside = part->tail;
    *part = (regex_part){ first, part->tail, 0, false };
    return true;
}

/* Reads the quantifier of a part, if there is one. */
static bool parse_quantifier(regex_parser *g, regex_part *part) {
    char c = g->p < g->end ? *g->p : 0;
    if (!c || !strchr("?*+{", c))
        return true;
    uint32_t least = c == '+', most = c == '?' ? 1 : UINT32_MAX;
    g->p++;
    if (c == '{') {
        const char *digits = g->p;
        if (!parse_count(g, &least))
            return false;
        most = least;
        if (g->p < g->end && *g->p == ',') {
            const char *limit = ++g->p;
            if (!parse_count(g, &most))
                return false;
            most = g->p == limit ? UINT32_MAX : most;
        }
        if (g->p == digits || g->p == g->end || *g->p != '}' || most < least)
            return refuse_pattern(g, "a wrong number of times");
        g->p++;
    }
    bool possessive = g->p < g->end && *g->p == '+' && c != '{';
    g->p += possessive;
    if (g->p < g->end && strchr("?*+{", *g->p))
        return refuse_pattern(g, "a quantifier that isn't supported");
    if (!part->single)
        return c == '?' && !possessive
                   ? make_optional(g, part)
                   : refuse_pattern(g, "a quantifier behind a group, other than ?,");
    regex_node *set = &g->r->nodes[part->entry];
    set->least = least;
    set->most = most;
    set->possessive = possessive;
    part->least = least;
    return true;
}

/* Reads parts that follow each other, up to a | or a ). `join` is the node behind them. */
static bool parse_sequence(regex_parser *g, uint32_t join, regex_part *all) {
    *all = (regex_part){ join, 0, 0, false };
    while (g->p < g->end && *g->p != '|' && *g->p != ')') {
        regex_part part;
        if (strchr("?*+{^$", *g->p))
            return refuse_pattern(g, "an operator that isn't supported");
        bool group = *g->p == '(';
        g->p += group;
        if (!(group ? parse_group(g, &part) : parse_set(g, &part)) || !parse_quantifier(g, &part))
            return false;
        if (all->tail)
            g->r->nodes[all->tail].next = part.entry;
        else
            all->entry = part.entry;
        all->tail = part.tail;
        all->least += part.least;
    }
    if (all->tail)
        g->r->nodes[all->tail].next = join;
    return true;
}

/* Reads alternatives up to a ) or the end. */
static bool parse_either(regex_parser *g, regex_part *part) {
    uint32_t join = add_node(g->r, NODE_JOIN), last = 0;
    *part = (regex_part){ join, join, UINT32_MAX, false };
    for (bool more = join; more; g->p += more) {
        regex_part one;
        uint32_t either = add_node(g->r, NODE_EITHER);
        if (!either || !parse_sequence(g, join, &one))
            return false;
        g->r->nodes[either].inside = one.entry;
        if (last)
            g->r->nodes[last].next = either;
        else
            part->entry = either;
        last = either;
        part->least = RG_MIN(part->least, one.least);
        more = g->p < g->end && *g->p == '|';
    }
    return join;
}

/* Adds to `to` the ASCII characters with which a match can begin from the node `at` on. */
static void find_begins(rg_regex *r, uint32_t at, uint64_t to[2]) {
    regex_node *v = &r->nodes[at];
    bool either = v->kind == NODE_EITHER;
    if (v->kind == NODE_ACCEPT || v->kind == NODE_LOOK) {
        to[0] = to[1] = UINT64_MAX;
        return;
    }
    if (v->kind != NODE_SET && !v->begins) {
        v->begins = true;
        if (either)
            find_begins(r, v->inside, v->ascii);
        else
            find_begins(r, v->next, v->ascii);
    }
    to[0] |= v->ascii[0];
    to[1] |= v->ascii[1];
    if ((v->kind == NODE_SET && v->least == 0) || (either && v->next))
        find_begins(r, v->next, to);
}

bool rgi_regex_compile(rg_regex *r, const rg_unicode *u, const rg_file *f, const char *where,
                       const char *pattern, size_t n) {
    regex_parser g = { r, f, where, pattern, pattern, pattern + n, 0, false };
    regex_part part;
    r->unicode = u;
    if (!rgi_is_utf8(pattern, n))
        return refuse_pattern(&g, "no UTF-8");
    if (!parse_either(&g, &part))
        return false;
    if (g.p < g.end)
        return refuse_pattern(&g, "a ) too many");
    if (part.least == 0)
        return refuse_pattern(&g, "a match of the empty text, which isn't supported,");
    r->begin = part.entry;
    for (uint32_t i = 1; i < r->n; i++) {
        uint32_t next = r->nodes[i].next;
        while (r->nodes[next].kind == NODE_JOIN)
            next = r->nodes[next].next;
        r->nodes[i].ends = next == NODE_0_ACCEPTS;
        if (r->nodes[i].kind == NODE_EITHER)
            find_begins(r, i, (uint64_t[2]){ 0 });
    }
    return true;
}

bool rgi_regex_literal(rg_regex *r, const rg_unicode *u, const char *text) {
    const char *end = text + strlen(text);
    r->unicode = u;
    uint32_t last = 0, c = 0;
    while (text < end) {
        uint32_t node = add_node(r, NODE_SET);
        text += rgi_utf8_read(text, end, &c);
        if (!node || !add_range(r, node, c, c))
            return false;
        if (last)
            r->nodes[last].next = node;
        else
            r->begin = node;
        last = node;
    }
    return true;
}

bool rgi_regex_property(rg_regex *r, const rg_unicode *u, uint32_t is) {
    r->unicode = u;
    r->begin = add_node(r, NODE_SET);
    if (r->begin)
        add_property(r, r->begin, is, false);
    return r->begin;
}

void rgi_regex_free(rg_regex *r) {
    rgi_free(r->nodes, r->room * sizeof *r->nodes, RG_MEM_OTHER);
    rgi_free(r->ranges, r->ranges_room * sizeof *r->ranges, RG_MEM_OTHER);
}

/*
 * unicode.c: unpacks the tables of code points, and looks code points up in them. The script
 * tests/golden/make/unicode.py writes the packed tables and describes them.
 */
#include "unicode.h"
#include "tensor/files/inflate.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

static const uint8_t packed[] = {
#include "unicode_tables.inc"
};

/* gzip writes a header before the deflated bytes. Behind them it writes a checksum and the number
 * of the inflated bytes. */
enum { PACKED_HEAD = 10, PACKED_TAIL = 8 };

/* Hangul syllables decompose and compose by a formula. */
enum {
    HANGUL = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28
};

/* ---- unpacking ------------------------------------------------------------------------ */

/* Returns the inflated bytes, in a block of *n bytes, or NULL if memory runs out. */
static uint8_t *inflate_tables(const char *op, size_t *n) {
    const rg_file file = { .op = op, .path = "unicode", .memory = packed, .bytes = sizeof packed };
    const uint8_t *size = packed + sizeof packed - 4;
    *n = size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16;
    rg_inflate *inflate = rgi_alloc(sizeof *inflate, RG_MEM_OTHER);
    uint8_t *bytes = inflate ? rgi_alloc(*n, RG_MEM_OTHER) : NULL;
    if (bytes) {
        rgi_inflate_begin(inflate, &file, PACKED_HEAD, sizeof packed - PACKED_HEAD - PACKED_TAIL,
                          "it");
        if (!rgi_inflate_read(inflate, bytes, *n)) {
            rgi_free(bytes, *n, RG_MEM_OTHER);
            bytes = NULL;
        }
    }
    rgi_free(inflate, sizeof *inflate, RG_MEM_OTHER);
    return bytes;
}

static rg_unicode_column next_column(uint32_t **at) {
    rg_unicode_column c = { *at + 1, **at };
    *at += c.n + 1;
    return c;
}

/* Returns the next column, whose numbers ascend: the table has the first one, and then the
 * difference of each number and the one before it. */
static rg_unicode_column next_ascending(uint32_t **at) {
    rg_unicode_column c = next_column(at);
    for (uint32_t i = 1; i < c.n; i++)
        c.v[i] += c.v[i - 1];
    return c;
}

static rg_decompositions next_decompositions(uint32_t **at) {
    rg_decompositions d;
    d.code = next_ascending(at);
    d.begin = next_column(at);
    d.to = next_column(at);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < d.begin.n; i++) {
        uint32_t n = d.begin.v[i];
        d.begin.v[i] = begin;
        begin += n;
    }
    return d;
}

/* The ranges of code points of one class: range i is from begin.v[i] to before begin.v[i + 1]. */
typedef struct {
    rg_unicode_column begin, class;
    uint32_t at; /* The range in which the next code point lies, or one before it. */
} rg_unicode_ranges;

/* Writes the classes of the next 256 code points, from `code` on. */
static void next_block(uint8_t block[256], uint32_t code, rg_unicode_ranges *r) {
    for (uint32_t k = 0, end; k < 256; k = end) {
        while (r->at + 1 < r->begin.n && r->begin.v[r->at + 1] <= code + k)
            r->at++;
        const bool is_last = r->at + 1 == r->begin.n || r->begin.v[r->at + 1] >= code + 256;
        end = is_last ? 256 : r->begin.v[r->at + 1] - code;
        memset(block + k, (int)r->class.v[r->at], end - k);
    }
}

/* Fills the blocks of 256 code points. Equal blocks that follow each other become one. Returns
 * false if memory runs out. */
static bool fill_blocks(rg_unicode *u, rg_unicode_ranges r) {
    uint32_t n = 0;
    uint8_t block[256];
    for (uint32_t i = 0; i < RG_UNICODE_BLOCKS; i++) {
        next_block(block, i << 8, &r);
        if (n == 0 || memcmp(u->in_block[n - 1], block, sizeof block) != 0) {
            if (!rgi_grow((void **)&u->in_block, &u->blocks, n + 1, sizeof *u->in_block))
                return false;
            memcpy(u->in_block[n], block, sizeof block);
            n++;
        }
        u->block[i] = (uint16_t)(n - 1);
    }
    return true;
}

bool rgi_unicode_load(rg_unicode *u, const char *op) {
    size_t bytes;
    uint8_t *planes = inflate_tables(op, &bytes);
    if (!planes)
        return false;
    const size_t n = bytes / 3;
    bool ok = rgi_grow((void **)&u->numbers, &u->room, n, sizeof *u->numbers);
    for (size_t i = 0; ok && i < n; i++)
        u->numbers[i] = planes[i] | (uint32_t)planes[n + i] << 8
                        | (uint32_t)planes[2 * n + i] << 16;
    rgi_free(planes, bytes, RG_MEM_OTHER);
    if (!ok)
        return false;
    uint32_t *at = u->numbers;
    u->is = next_column(&at);
    u->marks = next_column(&at);
    u->cluster = next_column(&at);
    rg_unicode_ranges ranges = { .begin = next_ascending(&at) };
    ranges.class = next_column(&at);
    u->upper = next_ascending(&at);
    u->lower = next_column(&at);
    u->canonical = next_decompositions(&at);
    u->compatible = next_decompositions(&at);
    u->first = next_ascending(&at);
    u->second = next_column(&at);
    u->composed = next_column(&at);
    return fill_blocks(u, ranges);
}

void rgi_unicode_free(rg_unicode *u) {
    rgi_free(u->numbers, u->room * sizeof *u->numbers, RG_MEM_OTHER);
    rgi_free(u->in_block, u->blocks * sizeof *u->in_block, RG_MEM_OTHER);
    *u = (rg_unicode){ 0 };
}

/* ---- looking up ----------------------------------------------------------------------- */

uint32_t rgi_unicode_at(const rg_unicode *u, const char *p, const char *end, size_t *n) {
    uint32_t code = 0;
    *n = rgi_utf8_read(p, end, &code);
    return rgi_unicode_is(u, code);
}

uint32_t rgi_unicode_before(const rg_unicode *u, const char *begin, const char *p, size_t *n) {
    const char *at = p - 1;
    while (at > begin && (*at & 0xC0) == 0x80)
        at--;
    return rgi_unicode_at(u, at, p, n);
}

/* Returns the index of the first number of an ascending column that isn't less than `code`. */
static uint32_t index_in_column(rg_unicode_column c, uint32_t code) {
    uint32_t low = 0, high = c.n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (c.v[middle] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t rgi_unicode_lower(const rg_unicode *u, uint32_t code) {
    uint32_t i = index_in_column(u->upper, code);
    bool has = i < u->upper.n && u->upper.v[i] == code;
    return has ? (code + u->lower.v[i]) & 0xFFFFFF : code;
}

/* Writes the decomposition of `code` to `to`. Returns its length, 0 if the table has none. */
static size_t look_up(const rg_decompositions *d, uint32_t code, uint32_t *to) {
    uint32_t i = index_in_column(d->code, code);
    if (i == d->code.n || d->code.v[i] != code)
        return 0;
    uint32_t end = i + 1 < d->code.n ? d->begin.v[i + 1] : d->to.n;
    size_t n = end - d->begin.v[i];
    memcpy(to, d->to.v + d->begin.v[i], n * sizeof *to);
    return n;
}

size_t rgi_unicode_decompose(const rg_unicode *u, uint32_t code, bool compatible,
                             uint32_t to[RG_DECOMPOSED_MOST]) {
    if (code >= HANGUL && code < HANGUL + L_COUNT * V_COUNT * T_COUNT) {
        uint32_t at = code - HANGUL;
        to[0] = HANGUL_L + at / (V_COUNT * T_COUNT);
        to[1] = HANGUL_V + at / T_COUNT % V_COUNT;
        to[2] = HANGUL_T + at % T_COUNT;
        return at % T_COUNT ? 3 : 2;
    }
    size_t n = code >= 0xA0 && compatible ? look_up(&u->compatible, code, to) : 0;
    if (n == 0 && code >= 0xA0)
        n = look_up(&u->canonical, code, to);
    if (n == 0)
        to[n++] = code;
    return n;
}

uint32_t rgi_unicode_compose(const rg_unicode *u, uint32_t first, uint32_t second) {
    if (first - HANGUL_L < L_COUNT && second - HANGUL_V < V_COUNT)
        return HANGUL + ((first - HANGUL_L) * V_COUNT + second - HANGUL_V) * T_COUNT;
    if (first - HANGUL < L_COUNT * V_COUNT * T_COUNT && (first - HANGUL) % T_COUNT == 0
        && second - HANGUL_T - 1 < T_COUNT - 1)
        return first + second - HANGUL_T;
    for (uint32_t i = index_in_column(u->first, first); i < u->first.n && u->first.v[i] == first;
         i++)
        if (u->second.v[i] == second)
            return u->composed.v[i];
    return 0;
}

/* ---- clusters ------------------------------------------------------------------------- */

static bool is_control(unsigned kind) {
    return kind >= RG_CLUSTER_CR && kind <= RG_CLUSTER_CONTROL;
}

/* Returns whether two neighbouring code points of these kinds are in one cluster, apart from the
 * rules for pictures and flags. */
static bool joins(unsigned a, unsigned b) {
    if (is_control(a) || is_control(b))
        return a == RG_CLUSTER_CR && b == RG_CLUSTER_LF;
    if (b == RG_CLUSTER_EXTEND || b == RG_CLUSTER_ZWJ || b == RG_CLUSTER_SPACING
        || a == RG_CLUSTER_PREPEND)
        return true;
    bool before_v = a == RG_CLUSTER_LV || a == RG_CLUSTER_V;
    if (b == RG_CLUSTER_V)
        return a == RG_CLUSTER_L || before_v;
    if (b == RG_CLUSTER_T)
        return before_v || a == RG_CLUSTER_LVT || a == RG_CLUSTER_T;
    return a == RG_CLUSTER_L && (b == RG_CLUSTER_L || b == RG_CLUSTER_LV || b == RG_CLUSTER_LVT);
}

size_t rgi_cluster(const rg_unicode *u, const char *p, const char *end) {
    uint32_t code = 0;
    size_t n = rgi_utf8_read(p, end, &code);
    unsigned kind = u->cluster.v[rgi_unicode_class(u, code)];
    bool picture = kind == RG_CLUSTER_PICTURE, flag = kind == RG_CLUSTER_FLAG;
    for (size_t more; (more = rgi_utf8_read(p + n, end, &code)) > 0; n += more) {
        unsigned next = u->cluster.v[rgi_unicode_class(u, code)];
        bool pictures = picture && kind == RG_CLUSTER_ZWJ && next == RG_CLUSTER_PICTURE;
        bool flags = flag && next == RG_CLUSTER_FLAG;
        if (!joins(kind, next) && !pictures && !flags)
            break;
        flag = kind == RG_CLUSTER_PREPEND && next == RG_CLUSTER_FLAG;
        picture = next == RG_CLUSTER_PICTURE
                  || (picture && (next == RG_CLUSTER_EXTEND || next == RG_CLUSTER_ZWJ));
        kind = next;
    }
    return n;
}

/*
 * loop_text.c: reads the archive of the text of loops. The script `loops` describes its items. The
 * archive is a file that gzip has made, as the bytes of an array.
 */
#include "loop_text.h"

#include "tensor/error.h"
#include "tensor/files/inflate.h"
#include "tensor/kernels/kernels.h"
#include "tensor/map.h"

#include <stdio.h>
#include <stdlib.h>

static const uint8_t archive[] = {
#include "loops.inc"
};

/* gzip writes a header before the deflated bytes. Behind them it writes a checksum and the size of
 * the inflated text, in 4 bytes each. */
enum { GZIP_HEAD = 10, GZIP_CHECKSUM = 4, GZIP_TAIL = 8 };

/* An item: the numbers of the items that it needs, as text, and its text of n bytes. */
typedef struct {
    const char *needs, *text;
    size_t n;
    bool is_loop, wanted;
} loop_item;

/* The archive, opened. `names` maps each name to an item, and `queue` holds the numbers of wanted
 * items whose needs weren't looked at yet. */
typedef struct {
    char *text;
    size_t bytes;
    loop_item *items;
    int *queue;
    int count, waiting;
    rg_map names;
} loop_archive;

/* ---- opening the archive --------------------------------------------------------------------- */

/* Returns the number that the archive has in four bytes from `at` on. */
static uint32_t number_at(size_t at) {
    uint32_t number = 0;
    for (size_t i = 0; i < 4; i++)
        number |= (uint32_t)archive[at + i] << 8 * i;
    return number;
}

static bool inflate_archive(loop_archive *a, const char *op) {
    const rg_file file = { .op = op, .path = "loops", .memory = archive, .bytes = sizeof archive };
    rg_inflate *inflate = rgi_alloc(sizeof *inflate, RG_MEM_OTHER);
    /* The last four bytes are the number of bytes that the archive inflates to. */
    a->bytes = (size_t)number_at(sizeof archive - GZIP_TAIL + GZIP_CHECKSUM) + 1;
    a->text = inflate ? rgi_alloc(a->bytes, RG_MEM_OTHER) : NULL;
    bool done = false;
    if (a->text) {
        rgi_inflate_begin(inflate, &file, GZIP_HEAD, sizeof archive - GZIP_HEAD - GZIP_TAIL, "it");
        done = rgi_inflate_read(inflate, a->text, a->bytes - 1) && rgi_inflate_end(inflate);
        a->text[a->bytes - 1] = 0;
    }
    rgi_free(inflate, sizeof *inflate, RG_MEM_OTHER);
    return done;
}

/* Returns the beginning of the next item at or behind `at`, or NULL. An item begins with an @ at
 * the beginning of a line. */
static char *next_item(char *at) {
    while (at && *at != '@') {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at && *at ? at : NULL;
}

/* Puts the names in an item's line into the map. The line is "@KIND NAME... : NUMBER...". Programs
 * ask for items of the kind "loop". The item "head" is in every text, and a "part" is there if
 * another item needs it. */
static bool read_names(loop_archive *a, loop_item *item, char *line) {
    item->is_loop = !strncmp(line, "@loop", 5);
    item->wanted = !strncmp(line, "@head", 5);
    item->needs = strstr(line, " :") + 2;
    size_t n;
    for (char *name = strchr(line, ' ') + 1; *name != ':'; name += n + 1) {
        n = strcspn(name, " ");
        name[n] = 0;
        if (!rgi_map_put_name(&a->names, name, item - a->items))
            return false;
    }
    return true;
}

static bool read_items(loop_archive *a) {
    for (char *at = next_item(a->text); at; at = next_item(strchr(at, '\n')))
        a->count++;
    a->items = rgi_alloc((size_t)a->count * sizeof *a->items, RG_MEM_OTHER);
    a->queue = rgi_alloc((size_t)a->count * sizeof *a->queue, RG_MEM_OTHER);
    if (!a->items || !a->queue)
        return false;
    char *at = a->text;
    for (int i = 0; i < a->count; i++) {
        char *end = strchr(at, '\n');
        *end = 0;
        a->items[i] = (loop_item){ .text = end + 1 };
        char *next = next_item(end + 1);
        a->items[i].n = (size_t)((next ? next : a->text + a->bytes - 1) - a->items[i].text);
        if (!read_names(a, &a->items[i], at))
            return false;
        at = next;
    }
    return true;
}

static void close_archive(loop_archive *a) {
    rgi_map_free(&a->names);
    rgi_free(a->queue, (size_t)a->count * sizeof *a->queue, RG_MEM_OTHER);
    rgi_free(a->items, (size_t)a->count * sizeof *a->items, RG_MEM_OTHER);
    rgi_free(a->text, a->bytes, RG_MEM_OTHER);
}

/* ---- the items that are wanted --------------------------------------------------------------- */

static void want(loop_archive *a, int item) {
    if (a->items[item].wanted)
        return;
    a->items[item].wanted = true;
    a->queue[a->waiting++] = item;
}

/* Writes the loop's name to `key`, without the plain set's suffix. Returns the number of its item,
 * or -1 if the archive has no such loop. */
static int64_t loop_item_of(const loop_archive *a, const char *name, char key[128]) {
    const char *suffix = "_plain";
    const size_t n = strlen(name) - (rgi_ends_with(name, suffix) ? strlen(suffix) : 0);
    snprintf(key, 128, "%.*s", (int)RG_MIN(n, 127), name);
    const int64_t item = rgi_map_name(&a->names, key);
    return item >= 0 && a->items[item].is_loop ? item : -1;
}

/* Marks the loop of this name, and all that it needs. */
static bool want_loop(loop_archive *a, const char *op, const char *name) {
    char key[128];
    const int64_t item = loop_item_of(a, name, key);
    if (item < 0) {
        rgi_fail(RG_RUNTIME_ERROR, op, "there is no text of the loop '%s'", key);
        return false;
    }
    want(a, (int)item);
    while (a->waiting) {
        char *next;
        const char *needs = a->items[a->queue[--a->waiting]].needs;
        for (long need = strtol(needs, &next, 10); next != needs; need = strtol(needs, &next, 10)) {
            want(a, (int)need);
            needs = next;
        }
    }
    return true;
}

/* Appends the numbers of a table of gelu.h, whose name comes after a $ in the text. */
static void add_share_table(rg_text *to, const char *name, size_t n) {
    const share_pieces *table = k_share_pieces(name, n);
    for (int row = 0; row < SHARE_DEGREE + 2; row++) {
        rgi_text_add(to, "%s\n    { ", row ? "," : "");
        for (int piece = 0; piece <= SHARE_PIECES; piece++) {
            const char *between = piece % 4 ? ", " : ",\n      ";
            rgi_text_add(to, "%s%af", piece ? between : "", (double)(*table)[row][piece]);
        }
        rgi_text_add(to, " }");
    }
    rgi_text_add(to, "\n");
}

/* Appends n bytes of an item's text. */
static void add_loop_text(rg_text *to, const char *text, size_t n) {
    const char *end = text + n;
    const char *dollar;
    while ((dollar = memchr(text, '$', (size_t)(end - text)))) {
        const size_t letters = strspn(dollar + 1, "abcdefghijklmnopqrstuvwxyz_");
        rgi_text_add(to, "%.*s", (int)(dollar - text), text);
        add_share_table(to, dollar + 1, letters);
        text = dollar + 1 + letters;
    }
    rgi_text_add(to, "%.*s", (int)(end - text), text);
}

/* Appends the wanted items. A program can include several written files, and then compiles each
 * item once: each is between #ifndef and #endif. These need the numbers of items, which are valid
 * for one archive. So the text also has the archive's checksum, and refuses files of another one.
 */
static void add_wanted(rg_text *to, const loop_archive *a) {
    const uint32_t checksum = number_at(sizeof archive - GZIP_TAIL);
    rgi_text_add(to,
                 "#if defined RG_LOOPS && RG_LOOPS != 0x%08x\n"
                 "#error \"files that different versions of regard have written can't be included "
                 "together\"\n#endif\n#define RG_LOOPS 0x%08x\n",
                 checksum, checksum);
    for (int i = 0; i < a->count; i++) {
        if (!a->items[i].wanted)
            continue;
        rgi_text_add(to, "#ifndef RG_LOOPS_%d\n#define RG_LOOPS_%d\n", i, i);
        add_loop_text(to, a->items[i].text, a->items[i].n);
        rgi_text_add(to, "#endif\n");
    }
}

bool rgi_loop_text(rg_text *to, const char *op, int count, const char *const names[]) {
    loop_archive a = { 0 };
    bool done = inflate_archive(&a, op) && read_items(&a);
    for (int i = 0; i < count && done; i++)
        done = want_loop(&a, op, names[i]);
    if (done)
        add_wanted(to, &a);
    close_archive(&a);
    return done && !to->failed;
}

bool rgi_loops_find(const char *op, int count, const char *const names[], bool found[]) {
    loop_archive a = { 0 };
    const bool done = inflate_archive(&a, op) && read_items(&a);
    char key[128];
    for (int i = 0; i < count && done; i++)
        found[i] = loop_item_of(&a, names[i], key) >= 0;
    close_archive(&a);
    return done;
}

bool rgi_loop_names(rg_text *to, const char *op) {
    loop_archive a = { 0 };
    bool done = inflate_archive(&a, op) && read_items(&a);
    for (size_t i = 0; i < rgi_map_names(&a.names) && done; i++) {
        const char *name = rgi_map_name_at(&a.names, i);
        if (a.items[rgi_map_name(&a.names, name)].is_loop)
            rgi_text_add(to, "%s\n", name);
    }
    close_archive(&a);
    return done && !to->failed;
}

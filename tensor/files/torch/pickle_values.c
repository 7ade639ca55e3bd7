/*
 * pickle_values.c: stores the values of a pickle, and the items of these values.
 */
#include "pickle.h"

#include "tensor/memory.h"

#include <string.h>

/* The limit of p->cells is this number times the pickle's size in bytes. A cell is an entry of a
 * container's list of items (see pickle.h). Ordinary pickles need less than one cell for each byte.
 * A crafted pickle could make far more, by copying the same dict again and again (Counter(d) copies
 * d). */
enum { PICKLE_CELLS_A_BYTE = 4 };
/* The greatest number of values that may have `waits` set at the same time: lists and dicts that
 * are empty and haven't been put into another value yet. Only a crafted pickle has many of them. */
enum { PICKLE_WAITING = 1 << 16 };

const char *rgi_pickle_kind_name(const rg_pickle *p, uint32_t value) {
    static const char *const names[] = {
        [RG_PICKLE_NONE] = "None",         [RG_PICKLE_BOOL] = "a bool",
        [RG_PICKLE_INT] = "an int",        [RG_PICKLE_LONG] = "an int that int64 can't hold",
        [RG_PICKLE_FLOAT] = "a float",     [RG_PICKLE_TEXT] = "a str",
        [RG_PICKLE_BYTES] = "bytes",       [RG_PICKLE_TUPLE] = "a tuple",
        [RG_PICKLE_LIST] = "a list",       [RG_PICKLE_DICT] = "a dict",
        [RG_PICKLE_SET] = "a set",         [RG_PICKLE_GLOBAL] = "a global",
        [RG_PICKLE_STORAGE] = "a storage", [RG_PICKLE_TENSOR] = "a tensor",
        [RG_PICKLE_OTHER] = "an object",
    };
    const rg_pickle_value *v = &p->v[value];
    return v->kind == RG_PICKLE_GLOBAL ? rgi_pickle_global_name(v->global) : names[v->kind];
}

/* ---- values --------------------------------------------------------------------------- */

bool rgi_pickle_add(rg_pickle *p, rg_pickle_value value, uint32_t *number) {
    if (!rgi_grow((void **)&p->v, &p->value_room, p->n_values + 1, sizeof *p->v))
        return false;
    *number = (uint32_t)p->n_values;
    p->v[p->n_values++] = value;
    return true;
}

bool rgi_pickle_add_empty(rg_pickle *p, rg_pickle_kind kind, uint32_t *number) {
    if (p->waiting++ == PICKLE_WAITING)
        return rgi_pickle_refuse(p, "more than %d lists and dicts are empty", PICKLE_WAITING);
    return rgi_pickle_add(p, (rg_pickle_value){ .kind = kind, .waits = true }, number);
}

void rgi_pickle_end_wait(rg_pickle *p, uint32_t value) {
    rg_pickle_value *v = &p->v[value];
    p->waiting -= v->waits;
    v->waits = false;
}

/* ---- items ---------------------------------------------------------------------------- */

/* Updates the height of the value `to`, and clears `waits` of the values `to` and `item`, before
 * `item` becomes an item of `to`. Fails if the containers would be nested too deep. */
static bool put_in(rg_pickle *p, uint32_t to, uint32_t item) {
    rg_pickle_value *v = &p->v[to];
    const unsigned height = p->v[item].height + 1u;
    rgi_pickle_end_wait(p, to);
    rgi_pickle_end_wait(p, item);
    if (height > RG_PICKLE_DEPTH)
        return rgi_pickle_refuse(p, "a value of " RG_PICKLE_TOO_DEEP, RG_PICKLE_DEPTH);
    if (v->height < height)
        v->height = (uint16_t)(height & 0x3FFF);
    return true;
}

bool rgi_pickle_append(rg_pickle *p, uint32_t to, uint32_t item) {
    if (!put_in(p, to, item))
        return false;
    if (p->n_cells >= p->n * PICKLE_CELLS_A_BYTE)
        return rgi_pickle_refuse(p, "it makes more than %d items a byte", PICKLE_CELLS_A_BYTE);
    if (!rgi_grow((void **)&p->cells, &p->cell_room, p->n_cells + 1, sizeof *p->cells))
        return false;
    uint32_t cell = (uint32_t)p->n_cells++;
    p->cells[cell] = (rg_pickle_cell){ .value = item };
    rg_pickle_value *v = &p->v[to];
    if (v->n++ == 0)
        v->first = cell;
    else
        p->cells[v->last].next = cell;
    v->last = cell;
    return true;
}

size_t rgi_pickle_items(const rg_pickle *p, uint32_t of, uint32_t *to, size_t room) {
    size_t n = 0;
    for (RG_EACH_ITEM(cell, p, of))
        if (n < room)
            to[n++] = p->cells[cell].value;
        else
            break;
    return p->v[of].n;
}

bool rgi_pickle_is(const rg_pickle *p, uint32_t value, const char *text) {
    const rg_pickle_value *v = &p->v[value];
    return (v->kind == RG_PICKLE_TEXT || v->kind == RG_PICKLE_BYTES) && v->n == strlen(text)
           && memcmp(v->v, text, v->n) == 0;
}


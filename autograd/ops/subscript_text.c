/*
 * subscript_text.c: makes the items of x[...] from numbers, tensors and ranges, or reads them from
 * a string in Python's syntax, such as "1:3, None, -1".
 */
#include "subscript.h"
#include "tensor/text/ascii.h"
#include "tensor/text/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- making items -------------------------------------------------------------- */

const char rgi_index_none[] = "None";
const char rgi_index_ellipsis[] = "...";

rg_item_index rg_index_text(const char *text) {
    return (rg_item_index){ .kind = RG_INDEX_TEXT, .text = text };
}
rg_item_index(rg_index_number)(int64_t number) {
    return (rg_item_index){ .kind = RG_INDEX_NUMBER, .start = number };
}
rg_item_index rg_index_tensor(rg_tensor *t) {
    return (rg_item_index){ .kind = RG_INDEX_TENSOR, .tensor = t };
}
/* A number that int64 can't hold becomes an item with a tensor of that number. Then a use of the
 * item fails with the same error as a use of such a tensor. */
rg_item_index(rg_index_unsigned)(uint64_t number) {
    if (number > INT64_MAX)
        return rg_index_tensor(rg_wrap_unsigned(number));
    return rg_index_number((int64_t)number);
}
rg_item_index(rg_index_bool)(bool b) {
    return (rg_item_index){ .kind = RG_INDEX_BOOL, .start = b };
}
rg_item_index(rg_index_slice)(int64_t start, int64_t end, int64_t step) {
    return (rg_item_index){ .kind = RG_INDEX_SLICE, .start = start, .end = end, .step = step };
}

/* ---- strings in Python's syntax: these functions read at *p, and move *p past what they read */

static void text_skip(const char **p) {
    while (rgi_is_space(**p))
        (*p)++;
}

static bool text_word(const char **p, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*p, word, n) || rgi_is_in_name((*p)[n]))
        return false;
    *p += n;
    return true;
}

/* Reads a number at *p into *out. Returns false if there is none. Sets *fits to whether int64 can
 * hold the number; if not, sets *out to the largest or the smallest int64. */
static bool text_number(const char **p, int64_t *out, bool *fits) {
    char *end;
    text_skip(p);
    if (!rgi_is_digit(**p) && !((**p == '-' || **p == '+') && rgi_is_digit((*p)[1])))
        return false;
    errno = 0;
    *out = strtoll(*p, &end, 10);
    *fits = errno != ERANGE;
    *p = end;
    return true;
}

/* Reads a list in brackets. Returns a tensor with its elements, which the scope owns, or NULL on
 * failure. */
static rg_tensor *text_list(const char **p) {
    const char *end = *p;
    int depth = 0;
    do {
        RG_FAIL_VALUE_IF(!*end, "index", "'[' was never closed in \"%s\"", *p);
        depth += (*end == '[') - (*end == ']');
        end++;
    } while (depth);
    rg_text list = { 0 };
    rgi_text_add(&list, "%.*s", (int)(end - *p), *p);
    *p = end;
    rg_tensor *t = rg_parse(rgi_text_own(&list));
    return t && t->numel == 0 ? rg_to(t, RG_INT64) : t;
}

/* Reads a number, or a range start:end:step, in which each number may be missing or None. text_item
 * has already read a None before the first colon. A single number that int64 can't hold is an
 * error. In a range, such a number is replaced by the largest or the smallest int64. Returns false
 * if there is neither a number nor a range. */
static bool text_range(const char **p, rg_item_index *item) {
    int64_t v[3] = { 0, INT64_MAX, 1 };
    bool fits = true;
    bool number = text_number(p, &v[0], &fits);
    text_skip(p);
    if (**p != ':') {
        *item = fits ? rg_index_number(v[0]) : rg_index_tensor(NULL);
        RG_FAIL_VALUE_IF(!fits, "index", "Overflow when unpacking long long");
        return number;
    }
    for (int i = 1; i < 3 && **p == ':'; i++) {
        (*p)++;
        text_skip(p);
        if (!text_word(p, "None"))
            text_number(p, &v[i], &fits);
        text_skip(p);
    }
    *item = rg_index_slice(v[0], v[1], v[2]);
    return true;
}

static bool text_item(const char **p, rg_item_index *item) {
    text_skip(p);
    if (**p == '[') {
        *item = rg_index_tensor(text_list(p));
        return item->tensor;
    }
    const bool none = text_word(p, "None");
    if (none)
        text_skip(p);
    if (none && **p != ':')
        *item = rg_index_text(rgi_index_none);
    else if (text_word(p, "...") || text_word(p, "Ellipsis"))
        *item = rg_index_text(rgi_index_ellipsis);
    else if (text_word(p, "True"))
        *item = rg_index_bool(true);
    else if (text_word(p, "False"))
        *item = rg_index_bool(false);
    else
        return text_range(p, item);
    return true;
}

/* ---- joining all items to one list --------------------------------------------- */

static bool flat_add(rg_item_index flat[RG_MOST_ITEMS], int *count, rg_item_index item) {
    RG_FAIL_INDEX_IF(*count == RG_MOST_ITEMS, "index", "at most %d indices", RG_MOST_ITEMS);
    flat[(*count)++] = item;
    return true;
}

/* Adds the items in a string. They are separated by commas, and the last one may also be followed
 * by a comma. */
static bool flat_add_text(rg_item_index flat[RG_MOST_ITEMS], int *count, const char *whole) {
    const char *p = whole;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !p, "index", "the text is NULL");
    do {
        rg_item_index item;
        bool ok = text_item(&p, &item);
        if (!ok && item.kind == RG_INDEX_TENSOR)
            return false;
        text_skip(&p);
        RG_FAIL_VALUE_IF(!ok || (*p && *p != ','), "index",
                         "\"%s\" is not an index in Python's syntax: see \"%s\"", whole, p);
        if (!flat_add(flat, count, item))
            return false;
        if (*p == ',') {
            p++;
            text_skip(&p);
        }
    } while (*p);
    return true;
}

int rgi_index_flatten(int n, const rg_item_index *items, rg_item_index flat[RG_MOST_ITEMS]) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        bool ok = items[i].kind == RG_INDEX_TEXT ? flat_add_text(flat, &count, items[i].text)
                                                 : flat_add(flat, &count, items[i]);
        if (!ok)
            return -1;
    }
    return count;
}

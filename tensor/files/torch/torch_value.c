/*
 * torch_value.c: builds a Python value, and turns it into a list of tensors whose names have dots.
 * torch_value.h explains both.
 */
#include "torch_value.h"

#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/text/text.h"

#include <string.h>

/* ---- making values --------------------------------------------------------------------------- */

static void add_py(rg_py *p, rg_py_part part) {
    p->failed = p->failed || !rgi_grow((void **)&p->v, &p->room, p->n + 1, sizeof *p->v);
    if (!p->failed)
        p->v[p->n++] = part;
}

static void add_py_at(rg_py *p, const char *key, rg_py_part part) {
    if (key)
        add_py(p, (rg_py_part){ .kind = RG_PY_KEY, .text = key });
    add_py(p, part);
}

void rgi_py_free(rg_py *p) {
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].kind == RG_PY_TENSOR)
            rgi_set_reference(&p->v[i].tensor, NULL);
    rgi_free(p->v, p->room * sizeof *p->v, RG_MEM_OTHER);
}

void rgi_py_begin(rg_py *p, rg_py_kind kind) { add_py(p, (rg_py_part){ .kind = kind }); }

void rgi_py_end(rg_py *p) { add_py(p, (rg_py_part){ .kind = RG_PY_END }); }

void rgi_py_begin_at(rg_py *p, const char *key, rg_py_kind kind) {
    add_py_at(p, key, (rg_py_part){ .kind = kind });
}

/* Appends a tensor. If t is NULL, because the call that should make it has failed, the whole value
 * counts as failed. */
void rgi_py_tensor(rg_py *p, const char *key, rg_tensor *t) {
    add_py_at(p, key, (rg_py_part){ .kind = RG_PY_TENSOR });
    p->failed = p->failed || !t;
    if (!p->failed)
        rgi_set_reference(&p->v[p->n - 1].tensor, t);
}

void rgi_py_int(rg_py *p, const char *key, int64_t whole) {
    add_py_at(p, key, (rg_py_part){ .kind = RG_PY_INT, .whole = whole });
}

void rgi_py_float(rg_py *p, const char *key, double real) {
    add_py_at(p, key, (rg_py_part){ .kind = RG_PY_FLOAT, .real = real });
}

void rgi_py_bool(rg_py *p, const char *key, bool flag) {
    add_py_at(p, key, (rg_py_part){ .kind = RG_PY_BOOL, .whole = flag });
}

void rgi_py_text(rg_py *p, const char *key, const char *text) {
    add_py_at(p, key, (rg_py_part){ .kind = RG_PY_TEXT, .text = text });
}

void rgi_py_none(rg_py *p, const char *key) {
    add_py_at(p, key, (rg_py_part){ .kind = RG_PY_NONE });
}

void rgi_py_int_key(rg_py *p, int64_t key) {
    add_py(p, (rg_py_part){ .kind = RG_PY_INT_KEY, .whole = key });
}

/* ---- names with dots ------------------------------------------------------------------------- */

/* The state of a walk through a value. `name` is the name of the current part. For each container
 * around this part, `length` is the length of the container's name, and `item` is the index of the
 * next item in a list, or -1 in a dict. */
typedef struct {
    size_t length[RG_PY_DEPTH];
    int64_t item[RG_PY_DEPTH];
    int depth;
    rg_text name;
} py_place;

static rg_tensor *py_as_tensor(const rg_py_part *part) {
    switch (part->kind) {
    case RG_PY_TENSOR: return rgi_lend(part->tensor);
    case RG_PY_INT: return rg_scalar_dtype((double)part->whole, RG_INT64);
    case RG_PY_FLOAT: return rg_scalar_dtype(part->real, RG_FLOAT64);
    case RG_PY_BOOL: return rg_scalar_dtype((double)part->whole, RG_BOOL);
    default: return RG_NONE;
    }
}

/* If the innermost container is a list, sets at->name to the name of the list's next item: the
 * list's name, a dot and the item's index. Then adds 1 to the index. */
static void name_py_item(py_place *at) {
    if (at->item[at->depth] < 0)
        return;
    at->name.n = at->length[at->depth];
    rgi_text_add(&at->name, "%s%lld", at->name.n ? "." : "", (long long)at->item[at->depth]++);
}

static void name_py_key(py_place *at, const rg_py_part *part) {
    at->name.n = at->length[at->depth];
    const char *dot = at->name.n ? "." : "";
    if (part->kind == RG_PY_KEY)
        rgi_text_add(&at->name, "%s%s", dot, part->text);
    else
        rgi_text_add(&at->name, "%s%lld", dot, (long long)part->whole);
}

static bool is_py_value(const rg_py_part *part) { return part->kind > RG_PY_INT_KEY; }

/* Returns a copy of the name. The innermost scope owns the copy. Returns NULL if memory runs
 * out. */
static const char *py_name(const py_place *at) {
    char *name = at->name.failed ? NULL : rgi_scope_alloc(at->name.n + 1);
    if (!name)
        return NULL;
    if (at->name.n)
        memcpy(name, at->name.v, at->name.n);
    name[at->name.n] = 0;
    return name;
}

/* Sets v[i].name to the name of the i-th value that isn't a container. Returns the number of these
 * values, or -1 if memory runs out. */
static int name_py_values(const rg_py *p, rg_named *v) {
    py_place at = { .item = { -1 } };
    bool ok = true;
    int n = 0;
    for (const rg_py_part *part = p->v; ok && part < p->v + p->n; part++) {
        if (part->kind == RG_PY_KEY || part->kind == RG_PY_INT_KEY) {
            name_py_key(&at, part);
            continue;
        }
        if (part->kind == RG_PY_END) {
            at.depth--;
            continue;
        }
        name_py_item(&at);
        if (part->kind < RG_PY_END) {
            const bool list = part->kind == RG_PY_LIST || part->kind == RG_PY_TUPLE;
            at.length[++at.depth] = at.name.n;
            at.item[at.depth] = list ? 0 : -1;
            continue;
        }
        v[n].name = py_name(&at);
        ok = v[n++].name;
    }
    ok = ok && !at.name.failed;
    rgi_text_free(&at.name);
    return ok ? n : -1;
}

/* Sets v[i].tensor to the tensor of the i-th value that isn't a container. The caller's scope owns
 * the tensors. If memory runs out, returns false, and the caller's scope owns no new tensor. */
static bool make_py_tensors(const rg_py *p, rg_named *v) {
    RG_SCOPE();
    int n = 0;
    for (const rg_py_part *part = p->v; part < p->v + p->n; part++) {
        if (!is_py_value(part))
            continue;
        v[n].tensor = py_as_tensor(part);
        if (!v[n++].tensor)
            return false;
    }
    for (int i = 0; i < n; i++)
        rg_escape(v[i].tensor);
    return true;
}

rg_named_list rgi_py_flat(const rg_py *p) {
    rg_named *v = p->failed ? NULL : rgi_scope_alloc(p->n * sizeof *v);
    const int n = v ? name_py_values(p, v) : -1;
    if (n < 0 || !make_py_tensors(p, v))
        return (rg_named_list){ .n = -1 };
    return (rg_named_list){ n, v };
}

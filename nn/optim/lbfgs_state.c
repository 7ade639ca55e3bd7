/*
 * lbfgs_state.c: saves and loads LBFGS's state under torch's names. As in torch, it is stored as
 * the state of the first parameter.
 */
#include "optimizer_structs.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"
#include "tensor/text/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char lbfgs_prefix[] = "state.0.";

/* Describes a value of LBFGS's state that is saved; lbfgs_rows lists all of them in PyTorch's
 * order. If `listed` is false, the value is a field of rg_lbfgs. If `listed` is true, the value is
 * a list: its elements are the values that one field has in all remembered rg_lbfgs_pairs. The
 * first two values are saved after the first step, the others as soon as there is a direction d.
 * The list `al` can be shorter than the other lists. */
typedef struct {
    rg_saved saved;
    bool listed;
} lbfgs_field;
#define FIELD(kind, name, field) \
    { { name, RG_SAVED_##kind, offsetof(rg_lbfgs, field), NULL }, false }
#define LISTED(kind, name, field) \
    { { name, RG_SAVED_##kind, offsetof(rg_lbfgs_pair, field), NULL }, true }
static const lbfgs_field lbfgs_rows[] = {
    FIELD(COUNT, "func_evals", func_evals),
    FIELD(COUNT, "n_iter", n_iter),
    LISTED(SCALAR, "al", al),
    FIELD(TENSOR, "d", d),
    FIELD(FLOAT, "t", t),
    LISTED(TENSOR, "old_dirs", dir),
    LISTED(TENSOR, "old_stps", stp),
    LISTED(SCALAR, "ro", ro),
    FIELD(SCALAR, "H_diag", h_diag),
    FIELD(TENSOR, "prev_flat_grad", prev_flat_grad),
    FIELD(FLOAT, "prev_loss", prev_loss),
};
enum { ROW_AL = 2, ROWS_WITHOUT_D = ROW_AL, LBFGS_ROWS = RG_COUNT(lbfgs_rows) };

/* ---- writing the state ----------------------------------------------------------------- */

/* Writes a list: the values that the field described by `row` has in the first n pairs, followed by
 * None until the list has `room` elements. */
static void add_of_pairs(rg_py *p, const rg_saved *row, const rg_lbfgs *s, size_t n, size_t room,
                         rg_dtype dtype) {
    rgi_py_begin_at(p, row->name, RG_PY_LIST);
    for (size_t i = 0; i < n; i++)
        rgi_saved_add(p, row, &s->pairs[i], false, dtype);
    for (size_t i = n; i < room; i++)
        rgi_py_none(p, NULL);
    rgi_py_end(p);
}

/* Writes the values of lbfgs_rows that the state has by now. In regard's own files (`own`) all
 * numbers are float64 tensors. In torch's files, the list `al` is filled up with None to
 * history_size elements. */
static void add_rows(rg_py *p, const rg_lbfgs *s, bool own, size_t history_size) {
    const int n = s->d ? LBFGS_ROWS : ROWS_WITHOUT_D;
    const rg_dtype dtype = own || !s->d ? RG_FLOAT64 : rg_dtype_of(s->d);
    for (int i = 0; i < n; i++) {
        rg_saved row = lbfgs_rows[i].saved;
        if (own && row.kind != RG_SAVED_TENSOR)
            row.kind = RG_SAVED_SCALAR;
        if (!lbfgs_rows[i].listed)
            rgi_saved_add(p, &row, s, true, dtype);
        else if (i != ROW_AL)
            add_of_pairs(p, &row, s, s->n, s->n, dtype);
        else if (own || s->n_iter > 1)
            add_of_pairs(p, &row, s, s->n_al, own ? s->n_al : history_size, dtype);
    }
}

void rgi_lbfgs_add(rg_py *p, const rg_optim *o, bool own) {
    const bool has_made_a_step = o->lbfgs.func_evals > 0;
    if (!has_made_a_step)
        return;
    rgi_py_int_key(p, 0);
    rgi_py_begin(p, RG_PY_DICT);
    add_rows(p, &o->lbfgs, own, (size_t)o->groups->options.history_size);
    rgi_py_end(p);
}

/* ---- reading the state from a dictionary ----------------------------------------------- */

/* The reading of a dictionary into *s. A vector in the dictionary must have numel elements, as many
 * as all parameters together, and is converted to `dtype`. */
typedef struct {
    rg_lbfgs *s;
    int64_t numel;
    rg_dtype dtype;
    uint32_t found; /* Bit i is set if a value of row i was found. */
} lbfgs_read;

static bool lbfgs_refuse(const char *what, const char *name) {
    return rgi_fail(RG_RUNTIME_ERROR, "load_state_dict",
                    "Error(s) in loading state_dict for LBFGS: %s key(s) in state_dict: \"%s%s\".",
                    what, lbfgs_prefix, name);
}

/* Returns the row that describes the dictionary's entry `name`. If the row is a list, sets *place
 * to the entry's index in the list, otherwise to 0. If there is no such row, returns NULL without
 * an error. */
static const lbfgs_field *row_named(const char *name, size_t *place) {
    const size_t prefix = sizeof lbfgs_prefix - 1;
    *place = 0;
    if (strncmp(name, lbfgs_prefix, prefix) != 0)
        return NULL;
    name += prefix;
    for (int i = 0; i < LBFGS_ROWS; i++) {
        const lbfgs_field *f = &lbfgs_rows[i];
        const int64_t at = f->listed ? rgi_place_in_list(name, f->saved.name) : -1;
        if (at < 0 && (f->listed || strcmp(name, f->saved.name) != 0))
            continue;
        *place = (size_t)RG_MAX(at, 0);
        return f;
    }
    return NULL;
}

/* Stores the entry e of the dictionary in the field that row f describes. If the row is a list, the
 * field is in the pair with the index `place`. Otherwise it is in the rg_lbfgs. A vector is copied.
 * Returns false on failure. */
static bool read_lbfgs_entry(lbfgs_read *l, const lbfgs_field *f, size_t place, const rg_named *e) {
    char *base = f->listed ? (char *)&l->s->pairs[place] : (char *)l->s;
    const bool vector = f->saved.kind == RG_SAVED_TENSOR;
    const bool fits = vector ? rg_ndim(e->tensor) == 1 && rg_numel(e->tensor) == l->numel
                             : rg_numel(e->tensor) == 1;
    RG_FAIL_IF(!fits, "load_state_dict", "size mismatch for %s: its shape is %s", e->name,
               RG_SIZES_TEXT(e->tensor));
    l->found |= 1u << (f - lbfgs_rows);
    if (!vector)
        return rgi_saved_read(&f->saved, base, e, "load_state_dict");
    rg_tensor *own = rgi_saved_copy(e->tensor, l->dtype);
    if (own)
        rgi_set_reference((rg_tensor **)(void *)(base + f->saved.offset), own);
    return own;
}

/* Allocates as many pairs as the highest index in the dictionary requires, and sets s->n_al to the
 * length of the list `al`, which can be shorter than the other lists. Fails and returns false if an
 * entry whose name begins with "state." belongs to no row, or memory runs out. */
static bool make_pairs(rg_lbfgs *s, rg_named_list dict) {
    size_t ends[LBFGS_ROWS] = { 0 }, place, n = 0;
    for (int i = 0; i < dict.n; i++) {
        if (strncmp(dict.v[i].name, "state.", 6) != 0)
            continue;
        const lbfgs_field *f = row_named(dict.v[i].name, &place);
        RG_FAIL_IF(!f || place > (size_t)dict.n, "load_state_dict",
                   "Error(s) in loading state_dict for LBFGS: Unexpected key(s) in state_dict: "
                   "\"%s\".",
                   dict.v[i].name);
        size_t *end = &ends[f - lbfgs_rows];
        if (f->listed)
            *end = RG_MAX(*end, place + 1);
        n = RG_MAX(n, *end);
    }
    s->n_al = ends[ROW_AL];
    if (!n)
        return true;
    if (!rgi_grow((void **)&s->pairs, &s->room, n, sizeof *s->pairs))
        return false;
    s->n = n;
    for (size_t i = 0; i < n; i++)
        s->pairs[i] = (rg_lbfgs_pair){ .ro = RG_UNSET, .al = RG_UNSET };
    return true;
}

/* Fails because the list has no entry at this index. Returns false. */
static bool lacks_place(const char *list, size_t place) {
    char name[40];
    snprintf(name, sizeof name, "%s.%zu", list, place);
    return lbfgs_refuse("Missing", name);
}

/* Fails and returns false unless each pair has all its fields. From pair n_al on, `al` isn't
 * needed, and is set to 0. */
static bool pairs_are_whole(const rg_lbfgs *s) {
    for (size_t i = 0; i < s->n; i++) {
        rg_lbfgs_pair *pair = &s->pairs[i];
        if (!pair->dir)
            return lacks_place("old_dirs", i);
        if (!pair->stp)
            return lacks_place("old_stps", i);
        if (!rgi_option_set(pair->ro))
            return lacks_place("ro", i);
        if (i < s->n_al && !rgi_option_set(pair->al))
            return lacks_place("al", i);
        if (i >= s->n_al)
            pair->al = 0;
    }
    return true;
}

/* Fails and returns false if the state lacks a value. An empty state, of which nothing was found,
 * is complete. */
static bool is_whole(const lbfgs_read *l) {
    const bool begun = l->s->n_iter > 0 || l->s->d || l->s->n;
    const int needed = begun ? LBFGS_ROWS : ROWS_WITHOUT_D;
    for (int i = 0; l->found && i < needed; i++)
        if (!lbfgs_rows[i].listed && !(l->found & 1u << i))
            return lbfgs_refuse("Missing", lbfgs_rows[i].saved.name);
    return pairs_are_whole(l->s);
}

static bool read_lbfgs_entries(lbfgs_read *l, rg_named_list dict) {
    for (int i = 0; i < dict.n; i++) {
        size_t place;
        const rg_named *e = &dict.v[i];
        const lbfgs_field *f = row_named(e->name, &place);
        if (!f)
            continue;
        if (f->listed && place >= l->s->n)
            return lbfgs_refuse("Unexpected", e->name + sizeof lbfgs_prefix - 1);
        if (!rg_check_tensor(e->tensor, "load_state_dict") || !read_lbfgs_entry(l, f, place, e))
            return false;
    }
    return is_whole(l);
}

bool rgi_lbfgs_read(rg_lbfgs *s, const rg_optim *o, rg_named_list dict) {
    RG_SCOPE();
    RG_NO_GRAD();
    *s = (rg_lbfgs){ 0 };
    lbfgs_read l = { .s = s, .dtype = rg_dtype_of(o->slots->param) };
    for (RG_EACH_SLOT(slot, o))
        l.numel += rg_numel(slot->param);
    if (make_pairs(s, dict) && read_lbfgs_entries(&l, dict))
        return true;
    rgi_lbfgs_end(s);
    return false;
}

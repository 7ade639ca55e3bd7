/*
 * lbfgs_state.c: what LBFGS remembers, by torch's names, and how it is read again. In torch it is
 * the state of the first parameter.
 */
#include "optimizer_structs.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/text/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char lbfgs_prefix[] = "state.0.";

/* The first two are there from the first step on, those up to the lists once there is a direction.
 * old_dirs, old_stps and ro have an entry for each pair, al has one for some. */
enum {
    FIELD_FUNC_EVALS,
    FIELD_N_ITER,
    FIELD_D,
    FIELD_T,
    FIELD_H_DIAG,
    FIELD_PREV_FLAT_GRAD,
    FIELD_PREV_LOSS,
    FIELD_OLD_DIRS,
    FIELD_OLD_STPS,
    FIELD_RO,
    FIELD_AL,
    NEEDED_FIRST = FIELD_D,
    NEEDED_WITH_D = FIELD_OLD_DIRS,
};

/* ---- the list -------------------------------------------------------------------------- */

int rgi_lbfgs_names(const rg_lbfgs *s) {
    if (s->func_evals == 0)
        return 0;
    return s->d ? NEEDED_WITH_D + (int)(3 * s->n + s->n_al) : NEEDED_FIRST;
}

/* Adds an entry under "state.0.", its name and, if it isn't negative, its place in a list. Returns
 * false where there is no memory or no tensor. */
static bool add_named(rg_named **v, const char *name, int64_t place, rg_tensor *t) {
    rg_text text = { 0 };
    rgi_text_add(&text, "%s%s", lbfgs_prefix, name);
    if (place >= 0)
        rgi_text_add(&text, ".%lld", (long long)place);
    const char *whole = rgi_text_own(&text);
    *(*v)++ = (rg_named){ whole, t };
    return whole && t;
}

static bool add_lbfgs_number(rg_named **v, const char *name, int64_t place, double number) {
    return add_named(v, name, place, rg_scalar_dtype(number, RG_FLOAT64));
}

bool rgi_lbfgs_list(const rg_lbfgs *s, rg_named *v) {
    bool ok = !rgi_lbfgs_names(s)
              || (add_lbfgs_number(&v, "func_evals", -1, s->func_evals)
                  && add_lbfgs_number(&v, "n_iter", -1, s->n_iter));
    for (size_t i = 0; ok && i < s->n_al; i++)
        ok = add_lbfgs_number(&v, "al", (int64_t)i, s->pairs[i].al);
    if (!ok || !s->d)
        return ok;
    ok = add_named(&v, "d", -1, rgi_lend(s->d)) && add_lbfgs_number(&v, "t", -1, s->t);
    for (size_t i = 0; ok && i < s->n; i++)
        ok = add_named(&v, "old_dirs", (int64_t)i, rgi_lend(s->pairs[i].dir));
    for (size_t i = 0; ok && i < s->n; i++)
        ok = add_named(&v, "old_stps", (int64_t)i, rgi_lend(s->pairs[i].stp));
    for (size_t i = 0; ok && i < s->n; i++)
        ok = add_lbfgs_number(&v, "ro", (int64_t)i, s->pairs[i].ro);
    return ok && add_lbfgs_number(&v, "H_diag", -1, s->h_diag)
           && add_named(&v, "prev_flat_grad", -1, rgi_lend(s->prev_flat_grad))
           && add_lbfgs_number(&v, "prev_loss", -1, s->prev_loss);
}

/* ---- reading --------------------------------------------------------------------------- */

/* The dictionary is read into s. Vectors must have numel elements, and become of this dtype. */
typedef struct {
    rg_lbfgs *s;
    int64_t numel;
    rg_dtype dtype;
    uint32_t found; /* These of the fields were found. */
} lbfgs_read;

/* A field is a number or a vector, by itself or one of a list, in rg_lbfgs or in a pair. */
typedef struct {
    const char *name;
    bool listed, vector;
    size_t offset;
} lbfgs_field;
static const lbfgs_field lbfgs_fields[] = {
    [FIELD_FUNC_EVALS] = { .name = "func_evals", .offset = offsetof(rg_lbfgs, func_evals) },
    [FIELD_N_ITER] = { .name = "n_iter", .offset = offsetof(rg_lbfgs, n_iter) },
    [FIELD_D] = { .name = "d", .vector = true, .offset = offsetof(rg_lbfgs, d) },
    [FIELD_T] = { .name = "t", .offset = offsetof(rg_lbfgs, t) },
    [FIELD_H_DIAG] = { .name = "H_diag", .offset = offsetof(rg_lbfgs, h_diag) },
    [FIELD_PREV_FLAT_GRAD] = { .name = "prev_flat_grad",
                               .vector = true,
                               .offset = offsetof(rg_lbfgs, prev_flat_grad) },
    [FIELD_PREV_LOSS] = { .name = "prev_loss", .offset = offsetof(rg_lbfgs, prev_loss) },
    [FIELD_OLD_DIRS] = { .name = "old_dirs",
                         .listed = true,
                         .vector = true,
                         .offset = offsetof(rg_lbfgs_pair, dir) },
    [FIELD_OLD_STPS] = { .name = "old_stps",
                         .listed = true,
                         .vector = true,
                         .offset = offsetof(rg_lbfgs_pair, stp) },
    [FIELD_RO] = { .name = "ro", .listed = true, .offset = offsetof(rg_lbfgs_pair, ro) },
    [FIELD_AL] = { .name = "al", .listed = true, .offset = offsetof(rg_lbfgs_pair, al) },
};

static bool lbfgs_refuse(const char *what, const char *name) {
    return rgi_fail(RG_RUNTIME_ERROR, "load_state_dict",
                    "Error(s) in loading state_dict for LBFGS: %s key(s) in state_dict: \"%s%s\".",
                    what, lbfgs_prefix, name);
}

/* Returns the field that a name of the dictionary stands for, with its place in the list, or NULL
 * without an error. */
static const lbfgs_field *field_named(const char *name, size_t *place) {
    const size_t prefix = sizeof lbfgs_prefix - 1;
    *place = 0;
    if (strncmp(name, lbfgs_prefix, prefix) != 0)
        return NULL;
    name += prefix;
    for (int i = 0; i < RG_COUNT(lbfgs_fields); i++) {
        const lbfgs_field *f = &lbfgs_fields[i];
        const int64_t at = f->listed ? rgi_place_in_list(name, f->name) : -1;
        if (at < 0 && (f->listed || strcmp(name, f->name) != 0))
            continue;
        *place = (size_t)RG_MAX(at, 0);
        return f;
    }
    return NULL;
}

/* Takes an entry over. A vector becomes a reference to a copy. */
static bool read_lbfgs_entry(lbfgs_read *l, const lbfgs_field *f, size_t place, const rg_named *e) {
    char *base = f->listed ? (char *)&l->s->pairs[place] : (char *)l->s;
    const bool fits = f->vector ? e->tensor->ndim == 1 && e->tensor->numel == l->numel
                                : e->tensor->numel == 1;
    RG_FAIL_IF(!fits, "load_state_dict", "size mismatch for %s: its shape is %s", e->name,
               RG_SHAPE_TEXT(e->tensor));
    l->found |= 1u << (f - lbfgs_fields);
    if (!f->vector) {
        *(double *)(base + f->offset) = rg_item(e->tensor);
        return true;
    }
    rg_tensor **to = (rg_tensor **)(base + f->offset);
    rg_tensor *own = rg_detach(rg_to(rg_clone(e->tensor), l->dtype));
    if (!own)
        return false;
    rgi_retain(own);
    rgi_release(*to);
    *to = own;
    return true;
}

/* Makes room for the pairs up to the last one that an entry names. Of `al`, the last ones may be
 * absent. Every entry of the state must be a field's. */
static bool make_pairs(rg_lbfgs *s, rg_named_list dict) {
    size_t ends[RG_COUNT(lbfgs_fields)] = { 0 }, place, n = 0;
    for (int i = 0; i < dict.n; i++) {
        if (strncmp(dict.v[i].name, "state.", 6) != 0)
            continue;
        const lbfgs_field *f = field_named(dict.v[i].name, &place);
        RG_FAIL_IF(!f || place > (size_t)dict.n, "load_state_dict",
                   "Error(s) in loading state_dict for LBFGS: Unexpected key(s) in state_dict: "
                   "\"%s\".",
                   dict.v[i].name);
        size_t *end = &ends[f - lbfgs_fields];
        if (f->listed)
            *end = RG_MAX(*end, place + 1);
        n = RG_MAX(n, *end);
    }
    s->n_al = ends[FIELD_AL];
    if (!n)
        return true;
    if (!rgi_grow((void **)&s->pairs, &s->room, n, sizeof *s->pairs))
        return false;
    s->n = n;
    for (size_t i = 0; i < n; i++)
        s->pairs[i] = (rg_lbfgs_pair){ .ro = RG_UNSET, .al = RG_UNSET };
    return true;
}

/* Fails with the place in a list that lacks an entry. */
static bool lacks_place(const char *list, size_t place) {
    char name[40];
    snprintf(name, sizeof name, "%s.%zu", list, place);
    return lbfgs_refuse("Missing", name);
}

/* Returns whether each pair has what belongs to it. */
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

/* Returns whether all is there that belongs together. */
static bool is_whole(const lbfgs_read *l) {
    const bool begun = l->s->n_iter > 0 || l->s->d || l->s->n;
    const int needed = begun ? NEEDED_WITH_D : NEEDED_FIRST;
    for (int i = 0; l->found && i < needed; i++)
        if (!(l->found & 1u << i))
            return lbfgs_refuse("Missing", lbfgs_fields[i].name);
    return pairs_are_whole(l->s);
}

static bool read_lbfgs_entries(lbfgs_read *l, rg_named_list dict) {
    for (int i = 0; i < dict.n; i++) {
        size_t place;
        const rg_named *e = &dict.v[i];
        const lbfgs_field *f = field_named(e->name, &place);
        if (!f)
            continue;
        if (f->listed && place >= l->s->n)
            return lbfgs_refuse("Unexpected", e->name + sizeof lbfgs_prefix - 1);
        if (!rgi_check(e->tensor, "load_state_dict") || !read_lbfgs_entry(l, f, place, e))
            return false;
    }
    return is_whole(l);
}

bool rgi_lbfgs_read(rg_lbfgs *s, const rg_optim *o, rg_named_list dict) {
    RG_SCOPE();
    RG_NO_GRAD();
    *s = (rg_lbfgs){ 0 };
    lbfgs_read l = { .s = s, .dtype = o->slots->param->dtype };
    for (size_t i = 0; i < o->n_slots; i++)
        l.numel += o->slots[i].param->numel;
    if (make_pairs(s, dict) && read_lbfgs_entries(&l, dict))
        return true;
    rgi_lbfgs_end(s);
    return false;
}

/*
 * repr.c: a module's text, as torch prints it:
 *
 *     Sequential(
 *       (0): Linear(in_features=2, out_features=2, bias=True)
 *       (1-2): 2 x ReLU()
 *     )
 */
#include "registry.h"
#include "tensor/scope.h"
#include "tensor/text.h"
#include "tensor/thread.h"

static void repr_module(rg_text *r, rg_module *m, int indent);

/* extra_repr returns nothing, so the thread's error tells whether it failed; an error from before
 * still stands afterwards. */
static void repr_extra(rg_text *r, rg_module *m, char *text, size_t room) {
    if (!m->cls->extra_repr)
        return;
    rg_code before = rgi_this.code;
    rgi_this.code = RG_OK;
    m->cls->extra_repr(m, text, room);
    if (rgi_this.code == RG_OK)
        rgi_this.code = before;
    else
        r->failed = true;
}

/* Returns the index of the last entry of the run that begins at i, in which all have the text
 * `one`. */
static size_t last_alike(const rg_registry *g, size_t i, const rg_text *one, int indent) {
    size_t last = i;
    for (bool alike = true; alike && last + 1 < g->n; last += alike) {
        if (g->entries[last + 1].kind != RG_ENTRY_CHILD)
            break;
        rg_text next = { 0 };
        repr_module(&next, *g->entries[last + 1].place, indent);
        alike = !next.failed && !one->failed && strcmp(next.v, one->v) == 0;
        rgi_text_free(&next);
    }
    return last;
}

/* Adds the line of the child that is entry i, and returns the last entry that it speaks of: a
 * ModuleList's equal neighbours share a line. */
static size_t repr_child(rg_text *r, rg_module *m, size_t i, int indent) {
    const rg_registry *g = m->registry;
    bool merges = !strcmp(m->cls->name, "ModuleList");
    rg_text one = { 0 };
    repr_module(&one, *g->entries[i].place, indent);
    size_t last = merges ? last_alike(g, i, &one, indent) : i;
    rgi_text_add(r, "\n%*s(%s", indent, "", g->entries[i].name);
    if (last > i)
        rgi_text_add(r, "-%zu): %zu x ", last, last - i + 1);
    else
        rgi_text_add(r, "): ");
    rgi_text_add(r, "%s", one.failed ? "" : one.v);
    r->failed |= one.failed;
    rgi_text_free(&one);
    return last;
}

static void repr_module(rg_text *r, rg_module *m, int indent) {
    RG_SCOPE();
    char extra[256] = "";
    size_t children = 0;
    repr_extra(r, m, extra, sizeof extra);
    for (RG_EACH_ENTRY(e, m))
        children += e->kind == RG_ENTRY_CHILD;
    if (*extra && children)
        rgi_text_add(r, "%s(\n%*s%s", m->cls->name, indent + 2, "", extra);
    else
        rgi_text_add(r, "%s(%s", m->cls->name, extra);
    for (size_t i = 0; i < m->registry->n; i++)
        if (m->registry->entries[i].kind == RG_ENTRY_CHILD)
            i = repr_child(r, m, i, indent + 2);
    if (children)
        rgi_text_add(r, "\n%*s)", indent, "");
    else
        rgi_text_add(r, ")");
}

const char *rg_module_repr(void *m) {
    if (!rgi_module_given(m, "module_repr"))
        return NULL;
    rg_text r = { 0 };
    repr_module(&r, m, 0);
    return rgi_text_own(&r);
}

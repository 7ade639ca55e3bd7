/*
 * name.c: the names that programs give to tensors, for error messages and drawings, and the labels
 * that hold these names.
 */
#include "label.h"
#include "tensor/storage.h"
#include "text.h"

/* Returns a new label with a copy of the name. Returns NULL if memory runs out. */
static rg_label *label_new(const char *name) {
    size_t length = strlen(name) + 1;
    rg_label *label = rgi_alloc(sizeof *label + length, RG_MEM_OTHER);
    if (!label)
        return NULL;
    label->frozen = NULL;
    memcpy(label->name, name, length);
    return label;
}

static void label_free(rg_label *label) {
    if (!label)
        return;
    if (label->frozen)
        label->frozen->cls->release(label->frozen);
    rgi_free(label, sizeof *label + strlen(label->name) + 1, RG_MEM_OTHER);
}

/* Makes `label` the label of t, and moves `frozen` from the previous label to it. If `label` is
 * NULL, removes t's label. Returns the previous label, or NULL if there was none. */
static rg_label *exchange_label(rg_tensor *t, rg_label *label) {
    rg_label *before = t->flags & RG_NAMED ? t->label : NULL;
    rg_tensor *base = t->flags & RG_VIEW ? rgi_base_of(t) : NULL;
    if (label && before) {
        label->frozen = before->frozen;
        before->frozen = NULL;
    }
    if (label) {
        label->base = base;
        t->label = label;
        t->flags |= RG_NAMED;
    } else {
        t->base = base;
        t->flags &= (uint8_t)~RG_NAMED;
    }
    return before;
}

void rgi_forget_name(rg_tensor *t) { label_free(exchange_label(t, NULL)); }

rg_tensor *rg_set_name(rg_tensor *t, const char *name) {
    if (!rgi_check(t, "set_name"))
        return NULL;
    const bool needs_label = name || rgi_frozen_of(t);
    rg_label *label = needs_label ? label_new(name ? name : "") : NULL;
    if (needs_label && !label)
        return NULL;
    /* The node of t's history is renamed first, because that can fail for lack of memory. So the
     * name is given to both the node and t, or to neither of them. */
    if (!t->history || rgi_rename(&t->history->name, name))
        label = exchange_label(t, label);
    else
        t = NULL;
    label_free(label);
    return t;
}

rg_history *rgi_frozen_of(const rg_tensor *t) {
    return t->flags & RG_NAMED ? t->label->frozen : NULL;
}

bool rgi_set_frozen(rg_tensor *t, rg_history *frozen) {
    if (!(t->flags & RG_NAMED)) {
        rg_label *label = label_new("");
        if (!label)
            return false;
        exchange_label(t, label);
    }
    t->label->frozen = frozen;
    return true;
}

const char *rg_name(rg_tensor *t) {
    if (!rgi_check(t, "name"))
        return NULL;
    const char *name = rgi_name_of(t);
    return name ? name : "";
}

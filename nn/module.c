/*
 * module.c: the registry behind a module: which fields are parameters, buffers
 * and children, under which names; and all that follows from it.
 */
#include "nn.h"
#include "tensor/internal.h"

#include <stdio.h>

typedef enum { PARAMETER, BUFFER, CHILD } entry_kind;

typedef struct {
    entry_kind kind;
    char       name[48];
    void     **place;                   /* the field: what stands there is what counts */
} entry;

typedef struct module_hook {
    struct module_hook *next;
    int              id;
    rg_forward_hook *function;
    void            *context;
} module_hook;

typedef struct rg_registry {
    size_t       bytes;                 /* of the module's struct */
    int          parents;
    bool         failed;
    entry       *entries;
    size_t       n, room;
    module_hook *hooks;
} rg_registry;

/* ---- making ---------------------------------------------------------------------- */

void *rg_module_new(size_t bytes, const rg_module_class *cls) {
    rg_module *m = rg_alloc(bytes, RG_MEM_OTHER);
    rg_registry *r = m ? rg_alloc(sizeof *r, RG_MEM_OTHER) : NULL;
    if (!r) {
        rg_free(m, bytes, RG_MEM_OTHER);
        return NULL;
    }
    memset(m, 0, bytes);
    *r = (rg_registry){ .bytes = bytes };
    m->cls = cls;
    m->training = true;
    m->registry = r;
    return m;
}

void *rg_module_ready(void *module) {
    rg_module *m = module;
    if (!m || !m->registry->failed) return m;
    rg_module_free(m);
    return NULL;
}

void rg_module_free(void *module) {
    rg_module *m = module;
    if (!m) return;
    rg_registry *r = m->registry;
    if (r->parents > 1) {                               /* a child that another one shares */
        r->parents--;
        return;
    }
    for (size_t i = r->n; i-- > 0;) {
        void *v = *r->entries[i].place;
        if (r->entries[i].kind == CHILD) rg_module_free(v);
        else rg_drop(v);
    }
    if (m->cls->destroy) m->cls->destroy(m);
    while (r->hooks) {
        module_hook *h = r->hooks;
        r->hooks = h->next;
        rg_free(h, sizeof *h, RG_MEM_OTHER);
    }
    rg_free(r->entries, r->room * sizeof(entry), RG_MEM_OTHER);
    rg_free(m, r->bytes, RG_MEM_OTHER);
    rg_free(r, sizeof *r, RG_MEM_OTHER);
}

static bool enter(rg_module *m, entry_kind kind, const char *name, void **place, void *value) {
    rg_registry *r = m->registry;
    bool ok = value && rg_grow((void **)&r->entries, &r->room, r->n + 1, sizeof(entry));
    for (size_t i = 0; i < r->n && ok; i++)
        if (strcmp(r->entries[i].name, name) == 0) ok = rg_fail(RG_VALUE_ERROR, m->cls->name, "attribute '%s' already exists", name);
    if (!ok) {
        r->failed = true;
        if (kind == CHILD) rg_module_free(value);
        return false;
    }
    entry *e = &r->entries[r->n++];
    *e = (entry){ .kind = kind, .place = place };
    snprintf(e->name, sizeof e->name, "%s", name);
    *place = value;
    return true;
}

static bool enter_tensor(rg_module *m, entry_kind kind, const char *name, rg_tensor **place, rg_tensor *value) {
    if (value && value != RG_NONE) value = rg_keep(value);
    if (enter(m, kind, name, (void **)place, value)) return true;
    rg_drop(value);
    return false;
}

bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value) {
    if (value && value != RG_NONE) value = rg_set_name(rg_requires_grad_(value, true), name);
    return enter_tensor(m, PARAMETER, name, place, value);
}

bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value) {
    return enter_tensor(m, BUFFER, name, place, value);
}

bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child) {
    if (!enter(m, CHILD, name, (void **)place, child)) return false;
    child->registry->parents++;
    return true;
}

bool rg_tie(rg_tensor **place, rg_tensor *parameter) {
    if (!rg_keep(parameter)) return false;
    rg_drop(*place);
    *place = parameter;
    return true;
}

/* ---- walking the tree ---------------------------------------------------------------
 * In registration order, each module and tensor once; names are joined with dots. */

typedef struct walker {
    bool   params, buffers, modules, shared;            /* what is asked for; shared: each time */
    size_t n, text;                                     /* how many, and bytes of names */
    size_t room, text_room;
    rg_named *found;                                    /* NULL: only count */
    char  *names;
} walker;

static bool seen(const walker *w, const void *what) {
    for (size_t i = 0; i < w->n; i++)
        if (w->found[i].tensor == what) return true;
    return false;
}

static bool note(walker *w, const char *prefix, const char *name, void *what) {
    size_t bytes = strlen(prefix) + strlen(name) + 2;
    if (!w->shared && seen(w, what)) return true;
    if (!rg_grow((void **)&w->found, &w->room, w->n + 1, sizeof *w->found)
        || !rg_grow((void **)&w->names, &w->text_room, w->text + bytes, 1)) return false;
    w->found[w->n++] = (rg_named){ (const char *)w->text, what };   /* an offset, while names may move */
    w->text += (size_t)sprintf(w->names + w->text, "%s%s%s", prefix, *prefix && *name ? "." : "", name) + 1;
    return true;
}

static bool wander(walker *w, rg_module *m, const char *prefix) {
    rg_registry *r = m->registry;
    char below[256];
    if (w->modules && !note(w, prefix, "", m)) return false;
    for (entry_kind kind = PARAMETER; kind <= CHILD; kind++)    /* torch's order */
        for (entry *e = r->entries; e < r->entries + r->n; e++) {
            if (e->kind != kind || *e->place == RG_NONE) continue;
            if (kind == CHILD) {
                snprintf(below, sizeof below, "%s%s%s", prefix, *prefix ? "." : "", e->name);
                if (!wander(w, *e->place, below)) return false;
            } else if ((kind == PARAMETER ? w->params : w->buffers) && !note(w, prefix, e->name, *e->place)) return false;
        }
    return true;
}

/* The list in memory that the scope owns. */
static rg_named_list gather(rg_module *m, walker w) {
    rg_named_list list = { -1, NULL };
    char *own = NULL;
    if (m && wander(&w, m, "") && (own = rg_own_string(w.n * sizeof *w.found + w.text + 1))) {
        rg_named *v = (rg_named *)own;
        char *names = own + w.n * sizeof *w.found;
        if (w.n) memcpy(names, w.names, w.text);
        for (size_t i = 0; i < w.n; i++) v[i] = (rg_named){ names + (size_t)w.found[i].name, w.found[i].tensor };
        list = (rg_named_list){ (int)w.n, v };
    }
    rg_free(w.found, w.room * sizeof *w.found, RG_MEM_OTHER);
    rg_free(w.names, w.text_room, RG_MEM_OTHER);
    return list;
}

rg_named_list rg_named_parameters(void *m) { return gather(m, (walker){ .params = true }); }
rg_named_list rg_named_buffers(void *m)    { return gather(m, (walker){ .buffers = true }); }
rg_named_list rg_state_dict(void *m)       { return gather(m, (walker){ .params = true, .buffers = true, .shared = true }); }

rg_named_modules_list rg_named_modules(void *m) {
    rg_named_list l = gather(m, (walker){ .modules = true });
    return (rg_named_modules_list){ l.n, (const rg_named_module *)(const void *)l.v };
}

/* ---- using ----------------------------------------------------------------------------- */

rg_tensor *rg_call_module(rg_module *m, rg_tensor *x) {
    if (!m || !x) return NULL;
    if (!m->cls->forward)
        return rg_fail(RG_NOT_IMPLEMENTED, m->cls->name, "Module [%s] is missing the required \"forward\" function",
                       m->cls->name);
    RG_SCOPE();
    rg_tensor *y = m->cls->forward(m, x);
    for (module_hook *h = m->registry->hooks, *next; h && y; h = next) {
        next = h->next;
        rg_tensor *other = h->function(m, x, y, h->context);
        if (other != RG_NONE) y = other;
    }
    return y ? rg_escape(y) : NULL;
}

int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    module_hook *h = m && hook ? rg_alloc(sizeof *h, RG_MEM_OTHER) : NULL, **end;
    int id = 0;
    if (!h) return -1;
    for (end = &m->registry->hooks; *end; end = &(*end)->next) id = (*end)->id + 1;
    *h = (module_hook){ NULL, id, hook, context };
    *end = h;
    return id;
}

bool rg_remove_forward_hook(rg_module *m, int id) {
    module_hook **h = m ? &m->registry->hooks : NULL;
    while (h && *h && (*h)->id != id) h = &(*h)->next;
    if (!h || !*h) return rg_fail(RG_VALUE_ERROR, "remove_forward_hook", "the module has no hook %d", id);
    module_hook *gone = *h;
    *h = gone->next;
    rg_free(gone, sizeof *gone, RG_MEM_OTHER);
    return true;
}

void rg_apply_to_modules(void *module, void (*f)(rg_module *m, void *context), void *context) {
    rg_module *m = module;
    if (!m) return;
    for (size_t i = 0; i < m->registry->n; i++)
        if (m->registry->entries[i].kind == CHILD) rg_apply_to_modules(*m->registry->entries[i].place, f, context);
    f(m, context);
}

static void set_training(rg_module *m, void *on) { m->training = *(bool *)on; }
void rg_train(void *m, bool on) { rg_apply_to_modules(m, set_training, &on); }

bool rg_module_requires_grad_(void *m, bool on) {
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    for (int i = 0; i < l.n; i++)
        if (!rg_requires_grad_(l.v[i].tensor, on)) return false;
    return l.n >= 0;
}

static void clear_grads(rg_module *m, void *unused) {
    (void)unused;
    for (size_t i = 0; i < m->registry->n; i++) {
        entry *e = &m->registry->entries[i];
        if (e->kind == PARAMETER && *e->place != RG_NONE) rg_set_grad(*e->place, RG_NONE);
    }
}

void rg_zero_grad(void *m) { rg_apply_to_modules(m, clear_grads, NULL); }

int64_t rg_num_parameters(void *m) {
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    int64_t n = l.n < 0 ? -1 : 0;
    for (int i = 0; i < l.n; i++) n += rg_numel(l.v[i].tensor);
    return n;
}

bool rg_module_to(void *m, rg_dtype dtype) {
    RG_SCOPE();
    rg_named_list l = gather(m, (walker){ .params = true, .buffers = true });
    for (int i = 0; i < l.n; i++) {
        rg_tensor *t = l.v[i].tensor;
        if (!rg_is_floating_point(t)) continue;
        rg_tensor *grad = rg_grad_of(t);
        if (!rg_set_data(t, rg_to(rg_detach(t), dtype))) return false;
        if (grad != RG_NONE && !rg_set_grad(t, rg_to(grad, dtype))) return false;
    }
    return l.n >= 0;
}

/* ---- state ------------------------------------------------------------------------------- */

static rg_tensor *named(rg_named_list l, const char *name) {
    for (int i = 0; i < l.n; i++)
        if (strcmp(l.v[i].name, name) == 0) return l.v[i].tensor;
    return NULL;
}

/* torch's `Missing key(s) in state_dict: "a", "b". ` */
static void complain_of_keys(rg_text *c, const char *what, rg_named_list these, rg_named_list those) {
    const char *before = what;
    for (int i = 0; i < these.n; i++) {
        if (named(those, these.v[i].name)) continue;
        rg_text_add(c, "%s\"%s\"", before, these.v[i].name);
        before = ", ";
    }
    if (before != what) rg_text_add(c, ". ");
}

bool rg_load_state_dict(void *module, rg_named_list dict, bool strict) {
    RG_SCOPE();
    rg_module *m = module;
    rg_named_list own = rg_state_dict(m);
    rg_text c = { 0 };
    if (own.n < 0 || dict.n < 0) return false;
    if (strict) {
        complain_of_keys(&c, "\n\tMissing key(s) in state_dict: ", own, dict);
        complain_of_keys(&c, "\n\tUnexpected key(s) in state_dict: ", dict, own);
    }
    for (int i = 0; i < own.n; i++) {
        rg_tensor *from = named(dict, own.v[i].name);
        if (!from) continue;
        const char *a = rg_repr_shape(from), *b = rg_repr_shape(own.v[i].tensor);
        if (!a || !b) c.failed = true;
        else if (strcmp(a, b)) rg_text_add(&c, "\n\tsize mismatch for %s: copying a param with shape %s from checkpoint, "
                                           "the shape in current model is %s.", own.v[i].name, a, b);
    }
    if (c.n || c.failed) {
        const char *text = rg_text_own(&c);
        return text && rg_fail(RG_RUNTIME_ERROR, "load_state_dict", "Error(s) in loading state_dict for %s:%s",
                               m->cls->name, text);
    }
    RG_NO_GRAD();
    for (int i = 0; i < own.n; i++) {
        rg_tensor *from = named(dict, own.v[i].name);
        if (from && !rg_copy_(own.v[i].tensor, from)) return false;
    }
    return true;
}

/* ---- torch's repr ---------------------------------------------------------------------------
 *     Sequential(
 *       (0): Linear(in_features=2, out_features=2, bias=True)
 *       (1-2): 2 x ReLU()
 *     )                                                                                      */

static void repr_module(rg_text *r, rg_module *m, int indent);

/* Equal neighbours in a ModuleList are one line. */
static void repr_children(rg_text *r, rg_module *m, int indent) {
    rg_registry *g = m->registry;
    bool merge = strcmp(m->cls->name, "ModuleList") == 0;
    for (size_t i = 0, last; i < g->n; i = last + 1) {
        rg_text one = { 0 };
        last = i;
        if (g->entries[i].kind != CHILD) continue;
        repr_module(&one, *g->entries[i].place, indent);
        for (bool same = merge; same && last + 1 < g->n; last += same) {
            rg_text next = { 0 };
            repr_module(&next, *g->entries[last + 1].place, indent);
            same = !next.failed && !one.failed && strcmp(next.v, one.v) == 0;
            rg_text_free(&next);
        }
        if (last > i) rg_text_add(r, "\n%*s(%zu-%zu): %zu x ", indent, "", i, last, last - i + 1);
        else rg_text_add(r, "\n%*s(%s): ", indent, "", g->entries[i].name);
        rg_text_add(r, "%s", one.failed ? "" : one.v);
        r->failed |= one.failed;
        rg_text_free(&one);
    }
}

static void repr_module(rg_text *r, rg_module *m, int indent) {
    char extra[256] = "";
    bool children = false;
    for (size_t i = 0; i < m->registry->n; i++) children |= m->registry->entries[i].kind == CHILD;
    if (m->cls->extra_repr) m->cls->extra_repr(m, extra, sizeof extra);
    rg_text_add(r, "%s(", m->cls->name);
    if (*extra && children) rg_text_add(r, "\n%*s", indent + 2, "");
    rg_text_add(r, "%s", extra);
    repr_children(r, m, indent + 2);
    if (children) rg_text_add(r, "\n%*s", indent, "");
    rg_text_add(r, ")");
}

const char *rg_module_repr(void *m) {
    rg_text r = { 0 };
    if (!m) return NULL;
    repr_module(&r, m, 0);
    return rg_text_own(&r);
}

/* ---- containers: children named 0, 1, .. -------------------------------------------------------- */

static rg_tensor *sequential_forward(rg_module *m, rg_tensor *x) {
    rg_sequential *self = (rg_sequential *)m;
    for (int i = 0; i < self->n && x; i++) x = rg_call(self->v[i], x);
    return x;
}

static void container_destroy(rg_module *m) {
    rg_sequential *self = (rg_sequential *)m;           /* a ModuleList is laid out alike */
    rg_free(self->v, (size_t)self->n * sizeof *self->v, RG_MEM_OTHER);
}

static const rg_module_class sequential_class = { .name = "Sequential", .forward = sequential_forward,
                                                  .destroy = container_destroy };
static const rg_module_class module_list_class = { .name = "ModuleList", .destroy = container_destroy };

static rg_sequential *container(const rg_module_class *cls, int n, rg_module *const children[]) {
    rg_sequential *self = RG_MODULE(rg_sequential, cls);
    if (self && n && !(self->v = rg_alloc((size_t)n * sizeof *self->v, RG_MEM_OTHER))) {
        rg_module_free(self);
        self = NULL;
    }
    if (self) self->n = n;
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (self) rg_register_child(&self->base, name, &self->v[i], children[i]);
        else rg_module_free(children[i]);
    }
    return RG_READY(self);
}

rg_sequential *rg_nn_sequential_of(int n, rg_module *const children[]) { return container(&sequential_class, n, children); }

rg_module_list *rg_nn_module_list_of(int n, rg_module *const children[]) {
    return (rg_module_list *)container(&module_list_class, n, children);
}

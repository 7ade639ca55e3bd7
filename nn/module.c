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
    bool transient; /* a buffer that state_dict leaves out */
    char name[64];
    void **place; /* the field: what stands there is what counts */
} entry;
#define EACH_ENTRY(e, m)                                                \
    entry *e = (m)->registry->entries, *e##_end = e + (m)->registry->n; \
    e < e##_end;                                                        \
    e++

typedef struct module_hook {
    int id;
    bool before;
    rg_forward_hook *function; /* NULL: removed */
    void *context;
} module_hook;

typedef struct rg_registry { /* behind the module's struct */
    size_t bytes;            /* of both */
    int parents;
    rg_module *parent; /* the first of them, while it lives */
    entry *entries;
    size_t n, room;
    module_hook *hooks;
    size_t n_hooks, hook_room;
    int last_hook; /* its id: none comes twice */
} rg_registry;

/* ---- making ---------------------------------------------------------------------- */

void *rg_module_new(size_t bytes, const rg_module_class *cls, const void *fields) {
    size_t both = (bytes + 7) / 8 * 8 + sizeof(rg_registry);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !cls || !cls->name, "module", "a module's class must have a name");
    rg_module *m = rgi_alloc(both, RG_MEM_OTHER);
    if (!m)
        return NULL;
    memcpy(m, fields, bytes);
    *m = (rg_module){ .cls = cls,
                      .training = true,
                      .registry = (rg_registry *)((char *)m + both) - 1 };
    *m->registry = (rg_registry){ .bytes = both };
    return m;
}

void *rg_module_ready(void *module) {
    rg_module *m = module;
    if (m && m->failed)
        rg_module_free(m), m = NULL;
    return m;
}

/* The mark lies where the memory's list of free blocks writes nothing. */
static bool module_given(const rg_module *m, const char *op) {
    if (!rgi_given(m, op, "a module"))
        return false;
    return !m->released || rgi_fail(RG_RELEASED, op, "module released by rg_module_free");
}

void rg_module_free(void *module) {
    rg_module *m = module;
    if (!m || !module_given(m, "module_free") || m->registry->parents)
        return;
    rg_registry *r = m->registry;
    for (size_t i = r->n; i-- > 0;) {
        rg_module *v = *r->entries[i].place;
        if (r->entries[i].kind == CHILD) {
            v->registry->parents--;
            if (v->registry->parent == m)
                v->registry->parent = NULL;
            rg_module_free(v);
        } else
            rg_drop((rg_tensor *)v);
    }
    if (m->cls->destroy)
        m->cls->destroy(m);
    rgi_free(r->hooks, r->hook_room * sizeof *r->hooks, RG_MEM_OTHER);
    rgi_free(r->entries, r->room * sizeof(entry), RG_MEM_OTHER);
    m->released = true;
    rgi_free(m, r->bytes, RG_MEM_OTHER);
}

static bool may_enter(rg_module *m, entry_kind kind, const char *name) {
    const char *cls = m->cls->name, *what = kind == PARAMETER ? "parameter"
                                            : kind == BUFFER  ? "buffer"
                                                              : "module";
    RG_FAIL_AS_IF(RG_VALUE_ERROR, !*name, cls, "%s name can't be empty string \"\"", what);
    RG_FAIL_AS_IF(RG_VALUE_ERROR, strchr(name, '.'), cls, "%s name can't contain \".\"", what);
    RG_FAIL_AS_IF(RG_VALUE_ERROR, strlen(name) >= sizeof((entry *)0)->name, cls,
                  "the name '%s' is too long", name);
    for (EACH_ENTRY(e, m))
        RG_FAIL_AS_IF(RG_VALUE_ERROR, !strcmp(e->name, name), cls, "attribute '%s' already exists",
                      name);
    return true;
}

/* The value, a tensor taken from its scope, goes to the place only if all is well. */
static entry *enter(rg_module *m, entry_kind kind, const char *name, void **place, void *value) {
    static const char *const ops[] = { "register_parameter", "register_buffer", "register_child" };
    const char *op = ops[kind];
    if (kind != CHILD && value && value != RG_NONE) {
        RG_AS(op);
        value = rg_keep(value);
    }
    bool there = module_given(m, op);
    rg_registry *r = there ? m->registry : NULL;
    bool ok = there && rgi_given(name, op, "a name") && rgi_given(place, op, "a place")
              && rgi_given(value, op, "a tensor") && may_enter(m, kind, name)
              && rgi_grow((void **)&r->entries, &r->room, r->n + 1, sizeof(entry));
    if (there)
        m->failed |= !ok;
    if (!ok || m->failed) {
        if (kind != CHILD)
            rg_drop(value);
        return NULL;
    }
    entry *e = &r->entries[r->n++];
    *e = (entry){ .kind = kind, .place = place };
    strcpy(e->name, name);
    *place = value;
    return e;
}

bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value) {
    if (value && !rgi_is_none(value)) {
        RG_AS("register_parameter");
        if (!rg_is_leaf(value))
            value = rg_detach(value); /* as nn.Parameter does */
        value = rg_requires_grad_(value, true);
        if (value && name && !*rg_name(value))
            value = rg_set_name(value, name);
        if (value)
            value->flags |= RG_IS_PARAMETER;
    }
    return enter(m, PARAMETER, name, (void **)place, value);
}

bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value,
                        rg_buffer_options o) {
    entry *e = enter(m, BUFFER, name, (void **)place, value);
    if (e)
        e->transient = !o.persistent;
    return e;
}

static bool leads_to(rg_module *from, const rg_module *to) {
    if (from == to)
        return true;
    for (EACH_ENTRY(e, from))
        if (e->kind == CHILD && leads_to(*e->place, to))
            return true;
    return false;
}

/* Parameters whose name is still their path below the child have that of the child before it:
 * "attn.w_query". */
static bool name_below(rg_module *child, const char *name) {
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(child);
    bool ok = l.n >= 0;
    for (int i = 0; i < l.n && ok; i++) {
        rg_text path = { 0 };
        rgi_text_add(&path, "%s.%s", name, l.v[i].name);
        const char *text = rgi_text_own(&path);
        ok = text
             && (strcmp(rg_name(l.v[i].tensor), l.v[i].name) || rg_set_name(l.v[i].tensor, text));
    }
    return ok;
}

bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child) {
    if ((void *)child == (void *)RG_NONE)
        child = rgi_fail(RG_TYPE_ERROR, "register_child", "expected a module but got RG_NONE");
    if (!module_given(child, "register_child"))
        child = NULL;
    bool circle = m && child && leads_to(child, m);
    if (circle)
        rgi_fail_(RG_VALUE_ERROR, m->cls->name, "the module '%s' would be a child of itself", name);
    if (!enter(m, CHILD, name, (void **)place, circle ? NULL : child)) {
        if (!circle)
            rg_module_free(child);
        return false;
    }
    if (!child->registry->parents++)
        child->registry->parent = m;
    return !(m->failed |= !name_below(child, name));
}

bool rg_tie(rg_tensor **place, rg_tensor *parameter) {
    const char *op = "tie";
    if (!rgi_given(place, op, "a place") || !rgi_check(*place, op) || !rgi_check(parameter, op))
        return false;
    RG_FAIL_AS_IF(RG_VALUE_ERROR, !(*place)->kept, op, "the place is none that is registered");
    RG_FAIL_AS_IF(RG_VALUE_ERROR, !rg_is_leaf(parameter) || !parameter->kept, op,
                  "expected a module's parameter");
    RG_FAIL_AS_IF(RG_VALUE_ERROR,
                  (*place)->dtype != parameter->dtype || !rgi_same_shape(*place, parameter), op,
                  "expected a parameter of shape %s and dtype %s, but got %s and %s",
                  RG_SHAPE_TEXT(*place), rg_dtype_name((*place)->dtype), RG_SHAPE_TEXT(parameter),
                  rg_dtype_name(parameter->dtype));
    rg_keep(parameter);
    rg_drop(*place);
    *place = parameter;
    return true;
}

/* ---- walking the tree ---------------------------------------------------------------
 * In registration order, each module and tensor once; names are joined with dots. */

typedef struct walker {
    /* what is asked for; state: what is saved, each time */
    bool params, buffers, modules, state;
    size_t n, room;
    rgi_named *found;
} walker;

typedef struct trail {
    const struct trail *above;
    const char *name;
} trail;

static void add_trail(rg_text *text, const trail *t) {
    if (t && t->above)
        add_trail(text, t->above);
    rgi_text_add(text, "%s%s", t && t->above ? "." : "", t ? t->name : "");
}

static bool note(walker *w, const trail *where, void *what) {
    rg_text name = { 0 };
    for (size_t i = 0; i < w->n && !w->state; i++)
        if (w->found[i].tensor == what)
            return true;
    if (!rgi_grow((void **)&w->found, &w->room, w->n + 1, sizeof *w->found))
        return false;
    add_trail(&name, where);
    w->found[w->n] = (rgi_named){ rgi_text_own(&name), what };
    return w->found[w->n++].name;
}

static bool wander(walker *w, rg_module *m, const trail *above) {
    bool ok = !w->modules || note(w, above, m);
    for (entry_kind kind = PARAMETER; kind <= CHILD; kind++) /* torch's order */
        for (EACH_ENTRY(e, m)) {
            trail here = { above, e->name };
            bool asked = kind == PARAMETER ? w->params : w->buffers && !(w->state && e->transient);
            if (!ok || e->kind != kind || *e->place == RG_NONE)
                continue;
            ok = kind == CHILD ? wander(w, *e->place, &here) : !asked || note(w, &here, *e->place);
        }
    return ok;
}

/* The list in memory that the scope owns. */
static rg_named_list gather(const char *op, void *m, walker w) {
    bool ok = module_given(m, op) && wander(&w, m, NULL);
    rgi_named *own = ok ? (rgi_named *)rgi_own_string(w.n * sizeof *own + 1) : NULL;
    if (own && w.n)
        memcpy(own, w.found, w.n * sizeof *own);
    rgi_free(w.found, w.room * sizeof *w.found, RG_MEM_OTHER);
    return (rg_named_list){ own ? (int)w.n : -1, own };
}

rg_named_list rg_named_parameters(void *m) {
    return gather("named_parameters", m, (walker){ .params = true });
}
rg_named_list rg_named_buffers(void *m) {
    return gather("named_buffers", m, (walker){ .buffers = true });
}
rg_named_list rg_state_dict(void *m) {
    return gather("state_dict", m, (walker){ .params = true, .buffers = true, .state = true });
}
rg_named_modules_list rg_named_modules(void *m) {
    rg_named_list l = gather("named_modules", m, (walker){ .modules = true });
    return (rg_named_modules_list){ l.n, (const rg_named_module *)(const void *)l.v };
}

rg_list rg_parameters(void *m) {
    RG_AS("parameters");
    rg_named_list l = rg_named_parameters(m);
    rg_tensor **v = l.n < 0 ? NULL : (rg_tensor **)rgi_own_string((size_t)l.n * sizeof *v + 1);
    for (int i = 0; i < l.n && v; i++)
        v[i] = l.v[i].tensor;
    return (rg_list){ v ? l.n : -1, v };
}

/* ---- using ----------------------------------------------------------------------- */

/* "h.0.attn (Attention)", for anomaly mode. */
static size_t module_path(rg_module *m, char *text, size_t room) {
    rg_module *above = m->registry->parent;
    if (!above)
        return 0;
    size_t at = module_path(above, text, room);
    const char *name = "";
    for (EACH_ENTRY(e, above))
        if (*e->place == m)
            name = e->name;
    return RG_MIN(room - 1,
                  at + (size_t)snprintf(text + at, room - at, "%s%s", at ? "." : "", name));
}

static rg_tensor *forward_of(rg_module *m, int n, rg_tensor *const x[]) {
    const rg_module_class *c = m->cls;
    if (n == 1 && c->forward)
        return c->forward(m, x[0]);
    if (n == 2 && c->forward2)
        return c->forward2(m, x[0], x[1]);
    if (n == 3 && c->forward3)
        return c->forward3(m, x[0], x[1], x[2]);
    int most = c->forward3 ? 3 : c->forward2 ? 2 : c->forward ? 1 : 0;
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !most, c->name,
                  "Module [%s] is missing the required \"forward\" function", c->name);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, n > most, c->name,
                  "%s.forward() takes %d positional arguments but %d were given", c->name, most + 1,
                  n + 1);
    return rgi_fail(RG_TYPE_ERROR, c->name,
                    "%s.forward() missing %d required positional argument%s", c->name, most - n,
                    most - n > 1 ? "s" : "");
}

/* What a hook returns takes the place of *it: the first input, or the result. It may add and remove
 * hooks. */
static void run_hooks(rg_module *m, bool before, rg_list in, rg_tensor **it) {
    for (size_t i = 0; i < m->registry->n_hooks && *it; i++) {
        module_hook h = m->registry->hooks[i];
        if (!h.function || h.before != before)
            continue;
        rg_tensor *other = h.function(m, in, before ? RG_NONE : *it, h.context);
        if (other != RG_NONE)
            *it = other;
    }
}

rg_tensor *rg_call_list(rg_module *m, rg_list in) {
    if (!module_given(m, "call") || !rgi_given_list(in.n, in.v, m->cls->name))
        return NULL;
    for (int i = 0; i < in.n; i++)
        if (in.v[i] != RG_NONE && !rgi_check(in.v[i], m->cls->name))
            return NULL;
    RG_SCOPE();
    const char *outside = rgi_inside;
    char path[128];
    rg_tensor *x[3];
    bool hooked = m->registry->n_hooks && in.n > 0 && in.n <= RG_COUNT(x);
    if (hooked && !rgi_not_again("a forward hook"))
        return NULL;
    if (RG_UNLIKELY(rg_is_anomaly_enabled())) {
        size_t at = module_path(m, path, sizeof path);
        snprintf(path + at, sizeof path - at, at ? " (%s)" : "%s", m->cls->name);
        rgi_inside = path;
    }
    if (RG_UNLIKELY(hooked)) {
        memcpy(x, in.v, (size_t)in.n * sizeof *x);
        in.v = x;
        run_hooks(m, true, in, &x[0]);
    }
    rg_tensor *y = hooked && !x[0] ? NULL : forward_of(m, in.n, in.v);
    if (RG_UNLIKELY(hooked))
        run_hooks(m, false, in, &y);
    rgi_inside = outside;
    return rgi_given(y, m->cls->name, "a tensor of forward and its hooks") ? rg_escape(y) : NULL;
}

static int add_hook(rg_module *m, bool before, rg_forward_hook *hook, void *context) {
    const char *op = before ? "register_forward_pre_hook" : "register_forward_hook";
    if (!module_given(m, op) || !rgi_given(hook, op, "a function"))
        return -1;
    rg_registry *r = m->registry;
    if (!rgi_grow((void **)&r->hooks, &r->hook_room, r->n_hooks + 1, sizeof *r->hooks))
        return -1;
    r->hooks[r->n_hooks++] = (module_hook){ ++r->last_hook, before, hook, context };
    return r->last_hook;
}

int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    return add_hook(m, false, hook, context);
}
int rg_register_forward_pre_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    return add_hook(m, true, hook, context);
}

bool rg_remove_forward_hook(rg_module *m, int id) {
    if (!module_given(m, "remove_forward_hook"))
        return false;
    rg_registry *r = m->registry;
    size_t i = 0;
    while (i < r->n_hooks && (r->hooks[i].id != id || !r->hooks[i].function))
        i++;
    RG_FAIL_AS_IF(RG_VALUE_ERROR, i == r->n_hooks, "remove_forward_hook",
                  "the module has no hook %d", id);
    r->hooks[i].function = NULL;
    while (r->n_hooks && !r->hooks[r->n_hooks - 1].function)
        r->n_hooks--;
    return true;
}

void rg_apply_to_modules(void *module, void (*f)(rg_module *m, void *context), void *context) {
    rg_module *m = module;
    if (!module_given(m, "apply_to_modules") || !rgi_given(f, "apply_to_modules", "a function"))
        return;
    for (EACH_ENTRY(e, m))
        if (e->kind == CHILD)
            rg_apply_to_modules(*e->place, f, context);
    f(m, context);
}

static void set_training(rg_module *m, void *on) { m->training = *(bool *)on; }
void rg_train(void *m, bool on) {
    RG_AS("train");
    rg_apply_to_modules(m, set_training, &on);
}

bool rg_module_requires_grad_(void *m, bool on) {
    RG_AS("module_requires_grad_");
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    for (int i = 0; i < l.n; i++)
        if (!rg_requires_grad_(l.v[i].tensor, on))
            return false;
    return l.n >= 0;
}

static void clear_grads(rg_module *m, void *unused) {
    (void)unused;
    for (EACH_ENTRY(e, m))
        if (e->kind == PARAMETER && *e->place != RG_NONE)
            rg_set_grad(*e->place, RG_NONE);
}

void rg_zero_grad(void *m) {
    RG_AS("zero_grad");
    rg_apply_to_modules(m, clear_grads, NULL);
}

int64_t rg_num_parameters(void *m) {
    RG_AS("num_parameters");
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    int64_t n = l.n < 0 ? -1 : 0;
    for (int i = 0; i < l.n; i++)
        n += rg_numel(l.v[i].tensor);
    return n;
}

bool rg_module_to(void *m, rg_dtype dtype) {
    RG_SCOPE();
    RG_FAIL_AS_IF(
        RG_TYPE_ERROR, dtype != RG_FLOAT32 && dtype != RG_FLOAT64, "module_to",
        "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=%s",
        rg_dtype_name(dtype));
    rg_named_list l = gather("module_to", m, (walker){ .params = true, .buffers = true });
    for (int i = 0; i < l.n; i++) {
        rg_tensor *t = l.v[i].tensor, *grad = rg_grad_of(t);
        if (!rg_is_floating_point(t))
            continue;
        if (!rg_set_data(t, rg_to(rg_detach(t), dtype))
            || (grad != RG_NONE && !rg_set_grad(t, rg_to(grad, dtype))))
            return false;
    }
    return l.n >= 0;
}

/* ---- state ----------------------------------------------------------------------- */

static rg_tensor *named(rg_named_list l, const char *name) {
    for (int i = 0; i < l.n; i++)
        if (strcmp(l.v[i].name, name) == 0)
            return l.v[i].tensor;
    return NULL;
}

/* Of an unexpected key, the name of the module to which torch reports it: the last one on its way.
 */
static size_t reporter(rg_module *m, const char *key) {
    size_t n = strcspn(key, ".");
    for (EACH_ENTRY(e, m))
        if (key[n] && e->kind == CHILD && strlen(e->name) == n && !strncmp(e->name, key, n)) {
            size_t more = reporter(*e->place, key + n + 1);
            return n + (more ? more + 1 : 0);
        }
    return 0;
}

/* torch's `Missing key(s) in state_dict: "a", "b". ` */
static void complain_of_key(rg_text *c, const char *what, int *so_far, const char *key) {
    if ((*so_far)++)
        rgi_text_add(c, ", \"%s\"", key);
    else
        rgi_text_add(c, "\n\t%s key(s) in state_dict: \"%s\"", what, key);
}

static void complain_of_keys(rg_text *c, rg_module *m, rg_named_list own, rg_named_list dict) {
    int missing = 0, unexpected = 0;
    rg_named_list modules = gather("load_state_dict", m,
                                   (walker){ .modules = true, .state = true });
    for (int i = 0; i < own.n; i++)
        if (!named(dict, own.v[i].name))
            complain_of_key(c, "Missing", &missing, own.v[i].name);
    if (missing)
        rgi_text_add(c, ". ");
    for (int k = 0; k < modules.n; k++)
        for (int i = 0; i < dict.n; i++) {
            const char *key = dict.v[i].name, *at = modules.v[k].name;
            size_t n = reporter(m, key);
            if (n == strlen(at) && !strncmp(at, key, n) && !named(own, key))
                complain_of_key(c, "Unexpected", &unexpected, key);
        }
    if (unexpected)
        rgi_text_add(c, ". ");
    c->failed |= modules.n < 0;
}

bool rg_load_state_dict(void *m, rg_named_list dict, bool strict) {
    RG_AS("load_state_dict");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_named_list own = rg_state_dict(m);
    rg_text c = { 0 };
    if (own.n < 0 || !rgi_given_list(dict.n, dict.v, "load_state_dict"))
        return false;
    for (int i = 0; i < dict.n; i++)
        if (!rgi_given(dict.v[i].name, "load_state_dict", "a name")
            || !rgi_check(dict.v[i].tensor, "load_state_dict"))
            return false;
    if (strict)
        complain_of_keys(&c, m, own, dict);
    for (int i = 0; i < own.n; i++) {
        const rg_tensor *from = named(dict, own.v[i].name), *to = own.v[i].tensor;
        if (from && !rgi_same_shape(from, to))
            rgi_text_add(
                &c,
                "\n\tsize mismatch for %s: copying a param with shape torch.Size(%s) from checkpoint, the "
                "shape in current model is torch.Size(%s).",
                own.v[i].name, RG_SHAPE_TEXT(from), RG_SHAPE_TEXT(to));
    }
    if (c.n || c.failed) {
        const char *text = rgi_text_own(&c);
        return text
               && rgi_fail(RG_RUNTIME_ERROR, "load_state_dict",
                           "Error(s) in loading state_dict for %s:%s", ((rg_module *)m)->cls->name,
                           text);
    }
    for (int i = 0; i < own.n; i++) {
        rg_tensor *from = named(dict, own.v[i].name);
        if (from && !rg_copy_(own.v[i].tensor, from))
            return false;
    }
    return true;
}

/* ---- torch's repr -------------------------------------------------------------------
 *     Sequential(
 *       (0): Linear(in_features=2, out_features=2, bias=True)
 *       (1-2): 2 x ReLU()
 *     )                                                                                      */

static void repr_module(rg_text *r, rg_module *m, int indent) {
    RG_SCOPE();
    char extra[256] = "";
    rg_registry *g = m->registry;
    size_t children = 0;
    bool merge = !strcmp(m->cls->name, "ModuleList"); /* whose equal neighbours are one line */
    /* it gives nothing: its failure stands, where none did */
    if (m->cls->extra_repr) {
        rg_code before = rgi_this.code;
        rgi_this.code = RG_OK;
        m->cls->extra_repr(m, extra, sizeof extra);
        if (rgi_this.code == RG_OK)
            rgi_this.code = before;
        else
            r->failed = true;
    }
    for (EACH_ENTRY(e, m))
        children += e->kind == CHILD;
    rgi_text_add(r, *extra && children ? "%s(\n%*s%s" : "%s(%*s%s", m->cls->name,
                 *extra && children ? indent + 2 : 0, "", extra);
    for (size_t i = 0, last; i < g->n; i = last + 1) {
        rg_text one = { 0 };
        last = i;
        if (g->entries[i].kind != CHILD)
            continue;
        repr_module(&one, *g->entries[i].place, indent + 2);
        for (bool same = merge; same && last + 1 < g->n; last += same) {
            rg_text next = { 0 };
            repr_module(&next, *g->entries[last + 1].place, indent + 2);
            same = !next.failed && !one.failed && strcmp(next.v, one.v) == 0;
            rgi_text_free(&next);
        }
        rgi_text_add(r, "\n%*s(%s", indent + 2, "", g->entries[i].name);
        if (last > i)
            rgi_text_add(r, "-%zu): %zu x ", last, last - i + 1);
        rgi_text_add(r, last > i ? "%s" : "): %s", one.failed ? "" : one.v);
        r->failed |= one.failed;
        rgi_text_free(&one);
    }
    rgi_text_add(r, children ? "\n%*s)" : "%*s)", children ? indent : 0, "");
}

const char *rg_module_repr(void *m) {
    rg_text r = { 0 };
    if (!module_given(m, "module_repr"))
        return NULL;
    repr_module(&r, m, 0);
    return rgi_text_own(&r);
}

/* ---- containers: children named 0, 1, .. ----------------------------------------- */

static rg_tensor *sequential_forward(rg_module *m, rg_tensor *x) {
    rg_sequential *self = (rg_sequential *)m;
    for (int i = 0; i < self->n && x; i++)
        x = rg_call(self->v[i], x);
    return x;
}

static void container_destroy(rg_module *m) {
    rg_sequential *self = (rg_sequential *)m; /* a ModuleList is laid out alike */
    rgi_free(self->v, (size_t)self->n * sizeof *self->v, RG_MEM_OTHER);
}

/* Fails as a constructor does: the children are freed, those that come twice once. */
static void *container(const rg_module_class *cls, int n, rg_module *const *children) {
    RG_AS(cls->name);
    if (!rgi_given_list(n, children, cls->name))
        return NULL;
    rg_sequential *self = RG_MODULE(rg_sequential, cls, .n = n);
    if (self)
        self->base.failed = n && !(self->v = rgi_alloc((size_t)n * sizeof *self->v, RG_MEM_OTHER));
    for (int i = 0; i < n; i++) {
        char name[16];
        bool again = false;
        snprintf(name, sizeof name, "%d", i);
        for (int k = 0; k < i; k++)
            again |= children[k] == children[i];
        if (self && !self->base.failed)
            rg_register_child(&self->base, name, &self->v[i], children[i]);
        else if (!again)
            rg_module_free(children[i]);
    }
    return RG_READY(self);
}

#define CONTAINER(type, Name, make, ...)                                        \
    static const rg_module_class type##_class = { .name = Name,                 \
                                                  .destroy = container_destroy, \
                                                  __VA_ARGS__ };                \
    type *make(int n, rg_module *const *children) { return container(&type##_class, n, children); }
CONTAINER(rg_sequential, "Sequential", rg_nn_sequential_of, .forward = sequential_forward)
CONTAINER(rg_module_list, "ModuleList", rg_nn_module_list_of, )

/*
 * repr.c: writes a module's repr, as torch prints it:
 *
 *     Sequential(
 *       (0): Linear(in_features=2, out_features=2, bias=True)
 *       (1-2): 2 x ReLU()
 *     )
 */
#include "nn/registry.h"
#include "tensor/messages/callback.h"
#include "tensor/scope.h"
#include "tensor/system/stack.h"
#include "tensor/text/text.h"

static void repr_module(rg_text *r, rg_module *m, int indent);

/* Calls extra_repr, which writes to `text`. Returns false if extra_repr has set an error. */
static bool write_extra(rg_module *m, char *text, size_t room) {
    const int64_t before = rgi_failures();
    m->cls->extra_repr(m, text, room);
    return rgi_left_no_failure(before, m->cls->name);
}

/* Returns what extra_repr writes, in the given buffer or, if the buffer is too small, in memory of
 * the scope. A failure is recorded in r. */
static const char *repr_extra(rg_text *r, rg_module *m, char *text, size_t room) {
    if (!m->cls->extra_repr)
        return "";
    bool ok = write_extra(m, text, room);
    while (ok && strlen(text) + 1 >= room) {
        room *= 2;
        text = rgi_scope_alloc(room);
        ok = text && write_extra(m, text, room);
    }
    r->failed |= !ok;
    return ok ? text : "";
}

/* Consecutive children of a ModuleList with the same repr. They are printed on one line: "(1-2): 2
 * x ReLU()". */
typedef struct run_of_children {
    rg_text text;
    const char *first, *last;
    size_t n;
} run_of_children;

/* Appends the line for the children in `run`, and empties `run`. */
static void flush_run(rg_text *r, run_of_children *run, int indent) {
    if (run->n == 1)
        rgi_text_add(r, "\n%*s(%s): ", indent, "", run->first);
    else if (run->n)
        rgi_text_add(r, "\n%*s(%s-%s): %zu x ", indent, "", run->first, run->last, run->n);
    if (run->n && !run->text.failed)
        rgi_text_add(r, "%s", run->text.v);
    r->failed |= run->text.failed;
    rgi_text_free(&run->text);
    *run = (run_of_children){ 0 };
}

static bool is_text_of(const run_of_children *run, const rg_text *text) {
    return run->n && !run->text.failed && !text->failed && strcmp(run->text.v, text->v) == 0;
}

/* Appends the repr of the entry's module. */
static void repr_child(rg_text *r, rg_entry *e, int indent) {
    if (rgi_is_registered("module_repr", e))
        repr_module(r, *e->place, indent);
    else
        r->failed = true;
}

static void repr_children(rg_text *r, rg_module *m, int indent) {
    const bool merges = !strcmp(m->cls->name, "ModuleList");
    run_of_children run = { 0 };
    for (RG_EACH_ENTRY(e, m)) {
        rg_text text = { 0 };
        if (e->kind != RG_ENTRY_CHILD)
            continue;
        if (!merges) {
            rgi_text_add(r, "\n%*s(%s): ", indent, "", e->name);
            repr_child(r, e, indent);
            continue;
        }
        repr_child(&text, e, indent);
        if (is_text_of(&run, &text)) {
            rgi_text_free(&text);
        } else {
            flush_run(r, &run, indent);
            run = (run_of_children){ .text = text, .first = e->name };
        }
        run.last = e->name;
        run.n++;
    }
    flush_run(r, &run, indent);
}

/* Appends each line of the text on a new line, indented. */
static void repr_lines(rg_text *r, const char *text, int indent) {
    for (;;) {
        size_t n = strcspn(text, "\n");
        rgi_text_add(r, "\n%*s%.*s", indent, "", (int)n, text);
        if (!text[n])
            return;
        text += n + 1;
    }
}

static void repr_module(rg_text *r, rg_module *m, int indent) {
    if (rgi_stack_is_short()) {
        rg_fail(RG_RUNTIME_ERROR, "module_repr", "maximum recursion depth exceeded");
        r->failed = true;
        return;
    }
    RG_SCOPE();
    /* Large enough for regard's own classes; repr_extra allocates more if a class needs it. */
    char room[512] = "";
    size_t children = 0;
    const char *extra = repr_extra(r, m, room, sizeof room);
    for (RG_EACH_ENTRY(e, m))
        children += e->kind == RG_ENTRY_CHILD;
    bool lines = *extra && (children || strchr(extra, '\n'));
    rgi_text_add(r, "%s(%s", m->cls->name, lines ? "" : extra);
    if (lines)
        repr_lines(r, extra, indent + 2);
    repr_children(r, m, indent + 2);
    if (lines || children)
        rgi_text_add(r, "\n%*s)", indent, "");
    else
        rgi_text_add(r, ")");
}

const char *(rg_module_repr)(void *m) {
    if (!rgi_module_given(m, "module_repr"))
        return rgi_told(NULL);
    rg_text r = { 0 };
    const char *user = rgi_module_begin_use(m, "module_repr");
    repr_module(&r, m, 0);
    rgi_module_end_use(m, user);
    return rgi_told(rgi_text_own(&r));
}

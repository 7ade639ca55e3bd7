/*
 * paths.c: a backward run that keeps the gradients of different paths apart. A backward step is
 * linear in the gradient that it gets. Therefore the step of a node can be computed separately for
 * each path that ends at the node, and the results add up to the whole gradient. explain.c
 * describes the paths.
 */
#include "paths.h"
#include "tensor/memory.h"
#include "autograd/graph_observer.h"
#include "autograd/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A backward run that finds the paths to the tensor w, and keeps the gradients of different paths
 * apart. `parts` has an element for each output of each node: a list of parts (path_part), each of
 * which is the gradient of one path that ends at that output. One more element follows, for w if w
 * is a leaf. `huge` is the bound above which a gradient counts as huge. */
typedef struct {
    rg_run run;
    rg_paths *paths;
    path_parts **parts;
    size_t n_parts;
    double huge;
} path_run;

/* ---- measuring gradients --------------------------------------------------------------- */

const double *rgi_doubles(rg_tensor *t) {
    return rg_data(rg_contiguous(rg_to(rg_detach(t), RG_FLOAT64)));
}

double rgi_inner_product(int64_t n, const double *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

typedef struct {
    bool zero, finite;
    double norm, top;
} gradient_kind;

static bool measure_gradient(rg_tensor *t, gradient_kind *is) {
    RG_SCOPE();
    const double *x = rgi_doubles(t);
    if (!x)
        return false;
    *is = (gradient_kind){ .zero = true, .finite = true };
    is->norm = sqrt(rgi_inner_product(t->numel, x, x));
    for (int64_t i = 0; i < t->numel; i++) {
        is->zero = is->zero && x[i] == 0;
        is->finite = is->finite && isfinite(x[i]);
        is->top = fmax(is->top, fabs(x[i]));
    }
    return true;
}

/* ---- the tree of steps ------------------------------------------------------------------ */

/* Returns the index of the path_step that comes after the path_step `before` and has the op and the
 * name of node n. Adds such a path_step if there is none. Returns RG_REST if `before` is RG_REST,
 * and -2 if memory ran out. */
static int step_behind(rg_paths *p, int before, const rg_node *n) {
    char op[sizeof p->step->op];
    const char *name = n->base.name;
    if (before == RG_REST)
        return RG_REST;
    snprintf(op, sizeof op, name ? "%s '%s'" : "%s", n->op->name, name);
    for (size_t i = 1; i < p->n_steps; i++)
        if (p->step[i].before == before && strcmp(p->step[i].op, op) == 0)
            return (int)i;
    if (!rgi_grow((void **)&p->step, &p->room, p->n_steps + 1, sizeof *p->step))
        return -2;
    path_step *s = &p->step[p->n_steps];
    s->before = before;
    memcpy(s->op, op, sizeof op);
    return (int)p->n_steps++;
}

/* ---- the gradients of single paths ------------------------------------------------------ */

static void parts_free(path_parts *parts) {
    for (int i = 0; parts && i < parts->n; i++)
        rgi_release(parts->v[i].g);
    rgi_free(parts, sizeof *parts, RG_MEM_OTHER);
}

/* Adds g to the gradient of a part. Returns false if memory ran out. */
static bool part_add(path_part *part, rg_tensor *g) {
    gradient_kind is;
    rg_tensor *sum = rg_add(part->g, g);
    if (!measure_gradient(sum, &is))
        return false;
    rgi_retain(sum);
    rgi_release(part->g);
    part->g = sum;
    part->norm = is.norm;
    return true;
}

/* Returns the part of the path that ends with this step, or NULL if there is no such part. */
static path_part *part_of_step(path_parts *parts, int step) {
    for (int i = 0; i < parts->n; i++)
        if (parts->v[i].step == step)
            return &parts->v[i];
    return NULL;
}

/* Merges the part with the smallest norm into the rest, the part that stands for all merged paths.
 * If there is no rest yet, the part with the smallest norm becomes the rest. Returns false if
 * memory ran out. */
static bool give_up_smallest(path_parts *parts) {
    path_part *least = NULL;
    for (path_part *p = parts->v; p < parts->v + parts->n; p++)
        if (p->step != RG_REST && (!least || !(p->norm >= least->norm)))
            least = p;
    path_part *rest = part_of_step(parts, RG_REST);
    if (!rest) {
        least->step = RG_REST;
        return true;
    }
    if (!part_add(rest, least->g))
        return false;
    rgi_release(least->g);
    *least = parts->v[--parts->n];
    return true;
}

/* Adds the gradient g of the path that ends with `step` to the parts. Returns false if memory ran
 * out. */
static bool parts_add(path_parts *parts, int step, rg_tensor *g) {
    gradient_kind is;
    path_part *part = part_of_step(parts, step);
    if (part)
        return part_add(part, g);
    /* When the first part is merged, it becomes the rest, and the list doesn't become shorter.
     * Therefore the loop may have to merge a second part. */
    while (parts->n > RG_MOST_PATHS)
        if (!give_up_smallest(parts))
            return false;
    if (!measure_gradient(g, &is))
        return false;
    rgi_retain(g);
    parts->v[parts->n++] = (path_part){ step, g, is.norm };
    return true;
}

static path_parts *parts_at(path_run *r, size_t at) {
    if (r->parts[at])
        return r->parts[at];
    path_parts *parts = rgi_alloc(sizeof *parts, RG_MEM_OTHER);
    if (parts)
        parts->n = 0;
    r->parts[at] = parts;
    return parts;
}

/* ---- the steps of a node ---------------------------------------------------------------- */

static size_t place_number(const path_run *r, const rg_edge *e) {
    return e->node->op ? e->node->slot + e->output : r->run.n_grads;
}

/* If `is` is true and `text` is still empty, writes to `text` the name of node n's op, the number
 * of the input, and the input's shape. Called for the gradient of each input, summed over all
 * parts, once for each kind of gradient that rg_paths has a field for. `is` says whether the
 * gradient is of that kind. `text` is the field of rg_paths that describes the first step with such
 * a gradient. */
static void tell_first(char text[128], bool is, const rg_node *n, int input) {
    char shape[192];
    if (!is || *text)
        return;
    const rg_meta *m = &n->edge[input].node->meta[n->edge[input].output];
    snprintf(text, 128, "%s, input %d of %s", n->op->name, input,
             rgi_shape_text(m->ndim, m->size, shape));
}

/* Returns whether node n is a write in place. A gradient of zero then means that values were
 * overwritten. Input 0 has the values that this write replaces. The other inputs have the values
 * that it writes; if their gradient is zero, a later write has replaced them. */
static bool overwrites(const rg_node *n) {
    return RG_IS(n->op, replace) || RG_IS(n->op, copy_slices) || RG_IS(n->op, set_item);
}

/* Reports the total gradient of an input to the caller of the run. `from_zero` is set if the
 * gradients of the node's outputs were zero already. Then an earlier step, or an overwritten value,
 * made the zeros. */
static bool tell_of_total(path_run *r, const rg_node *n, int input, rg_tensor *total,
                          bool from_zero) {
    gradient_kind is;
    if (!measure_gradient(total, &is))
        return false;
    rg_paths *p = r->paths;
    const bool zero = is.zero && total->numel && !from_zero, over = overwrites(n);
    tell_first(p->overwritten, zero && over && !*p->zero, n, input);
    tell_first(p->zero, zero && !over, n, input);
    tell_first(p->not_finite, !is.finite, n, input);
    tell_first(p->huge, is.finite && is.top > r->huge, n, input);
    return true;
}

/* Computes the backward step of node n for `part`, one part of the gradient of the node's output k.
 * Adds the gradient of each input to the parts of that input, and to the total of that input. */
static bool step_for_part(path_run *r, rg_node *n, int k, const path_part *part,
                          rg_tensor *totals[]) {
    RG_SCOPE();
    int step = step_behind(r->paths, part->step, n);
    rg_tensor **g = &r->run.grads[n->slot];
    if (step == -2)
        return false;
    g[k] = part->g;
    bool ok = rgi_run_step(&r->run, n);
    g[k] = NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!rgi_run_needs(&r->run, &n->edge[i]))
            continue;
        /* rgi_run_place can't fail here. It needs memory only for a leaf that isn't in the run's
         * table yet, and rgi_run_ask has added w, the only leaf that can occur. */
        rg_tensor **place = rgi_run_place(&r->run, n->edge[i]);
        rg_tensor *made = *place;
        if (!made)
            continue;
        *place = NULL;
        made = rgi_own(made);
        path_parts *parts = ok ? parts_at(r, place_number(r, &n->edge[i])) : NULL;
        ok = parts && parts_add(parts, step, made)
             && rgi_accumulate_into(&r->run, &totals[i], made);
    }
    return ok;
}

/* Does the backward step of the node for each of its parts. */
static bool walk_parts(path_run *r, rg_node *n) {
    rg_tensor **totals = rgi_scope_alloc((size_t)n->n_in * sizeof *totals);
    if (!totals)
        return false;
    for (int i = 0; i < n->n_in; i++)
        totals[i] = NULL;
    bool ok = true, from_zero = true;
    for (int k = 0; k < n->n_out; k++) {
        path_parts *parts = r->parts[n->slot + (size_t)k];
        for (int i = 0; parts && i < parts->n && ok; i++) {
            from_zero = from_zero && parts->v[i].norm == 0 && parts->v[i].g->numel;
            ok = step_for_part(r, n, k, &parts->v[i], totals);
        }
    }
    for (int i = 0; i < n->n_in; i++) {
        ok = ok && (!totals[i] || tell_of_total(r, n, i, totals[i], from_zero));
        rgi_release(totals[i]);
    }
    return ok;
}

/* Visits one node. Skips a node whose inputs don't lead to w. If w is an output of such a node, the
 * parts of w are kept, since they are the result. */
static bool walk_path_node(path_run *r, rg_node *n) {
    RG_SCOPE();
    if (!(r->run.marks[n->slot] & RG_LEADS))
        return true;
    bool leads = false;
    for (int e = 0; e < n->n_in; e++)
        leads = leads || rgi_run_needs(&r->run, &n->edge[e]);
    if (!leads)
        return true;
    bool ok = rgi_notes_begin_step(n) && walk_parts(r, n);
    rgi_notes_end_step(n);
    for (int k = 0; k < n->n_out; k++) {
        parts_free(r->parts[n->slot + (size_t)k]);
        r->parts[n->slot + (size_t)k] = NULL;
    }
    return ok;
}

/* ---- the run from the loss to w ---------------------------------------------------------- */

static void *zeroed(size_t bytes) {
    void *block = rgi_alloc(bytes, RG_MEM_OTHER);
    if (block)
        memset(block, 0, bytes);
    return block;
}

/* Sets the gradient of the loss to 1. If the loss is a leaf other than w, there are no paths to
 * w. */
static bool begin_at_loss(path_run *r, rg_tensor *loss, rg_tensor *w) {
    RG_SCOPE();
    rg_node *root = rgi_node_of(loss);
    rg_paths *p = r->paths;
    if (!rgi_grow((void **)&p->step, &p->room, 1, sizeof *p->step))
        return false;
    p->step[0] = (path_step){ .before = -1 };
    p->n_steps = 1;
    if (!root->op && root != rgi_node_of(w))
        return true;
    rg_edge edge = { root, loss->output };
    path_parts *parts = parts_at(r, place_number(r, &edge));
    rg_tensor *one = rg_ones_like(loss);
    return parts && parts_add(parts, 0, one);
}

static bool run_paths(path_run *r, rg_tensor *loss, rg_tensor *w) {
    rg_run *run = &r->run;
    if (!rgi_run_visit(run, rgi_node_of(loss)) || !rgi_run_collect(run))
        return false;
    r->n_parts = run->n_grads + 1;
    run->grads = zeroed(r->n_parts * sizeof *run->grads);
    run->marks = zeroed(r->n_parts);
    r->parts = zeroed(r->n_parts * sizeof *r->parts);
    if (!run->grads || !run->marks || !r->parts)
        return false;
    if (!rgi_run_ask(run, 1, &w) || !begin_at_loss(r, loss, w))
        return false;
    for (size_t i = 0; i < run->n_nodes; i++)
        if (!walk_path_node(r, run->nodes[i]))
            return false;
    /* If w isn't in the graph of the loss, it has no parts. */
    rg_edge of_w = { rgi_node_of(w), w->output };
    bool there = !of_w.node->op || of_w.node->run == (uintptr_t)run;
    size_t at = there ? place_number(r, &of_w) : run->n_grads;
    if (r->parts[at]) {
        r->paths->of_w = *r->parts[at];
        r->parts[at]->n = 0;
    }
    return true;
}

bool rgi_find_paths(rg_paths *p, rg_tensor *loss, rg_tensor *w, double huge) {
    path_run r = { .paths = p, .huge = huge };
    rgi_run_init(&r.run);
    r.run.op = "explain";
    r.run.capturing = true;
    bool ok = run_paths(&r, loss, w);
    for (size_t i = 0; r.parts && i < r.n_parts; i++)
        parts_free(r.parts[i]);
    rgi_free(r.parts, r.n_parts * sizeof *r.parts, RG_MEM_OTHER);
    rgi_free(r.run.grads, r.n_parts * sizeof *r.run.grads, RG_MEM_OTHER);
    rgi_free(r.run.marks, r.n_parts, RG_MEM_OTHER);
    rgi_leaf_table_end(&r.run.leaves);
    rgi_run_let_go(&r.run);
    return ok;
}

void rgi_paths_free(rg_paths *p) {
    for (int i = 0; i < p->of_w.n; i++)
        rgi_release(p->of_w.v[i].g);
    rgi_free(p->step, p->room * sizeof *p->step, RG_MEM_OTHER);
}

/*
 * replay.c: a step that is recorded once runs again as the list of what it did, on
 * the tensors that it did it to. All of recording is here: it looks on as the thread's
 * observer, and nothing else in the library knows of it.
 *
 * There are three observers. While a step is recorded, the recorder makes an entry of
 * each deed, and refuses what can't be done again. An op's forward and a fused
 * derivative are done again as a whole, so nobody observes what they do inside, but
 * for the tensors that a derivative makes: the collector keeps them, in order, and in
 * a run the giver hands out the same ones again.
 *
 * Memory goes round, as it does in the step itself: the recorder lends outputs their
 * storages, and takes a storage back when it alone has it. It holds a reference to
 * every tensor that an entry works on, so a tensor whose only reference that is has been
 * released by everybody else; from time to time they are looked for (reap).
 */
#include "replay.h"
#include "graph_observer.h"

/* ---- what a recording holds -------------------------------------------------------- */

typedef struct {
    void **v;
    size_t n, room;
} pointer_list;

typedef struct {
    rg_redo *redo;
    void (*drop)(void *context);
    void *context;
    size_t bytes;
} replay_entry;

/* The step has made a leaf's gradient, or has taken it away. */
typedef struct {
    rg_node *leaf;
    bool made;
} replay_leaf;

/* The collector and the giver observe one step of a backward run. */
typedef struct {
    rg_graph_observer observer;
    rg_replay *replay;
    size_t next;
} step_observer;

struct rg_replay {
    rg_graph_observer recorder;
    step_observer collector, giver;
    /* The step went wrong, or was refused. */
    bool failed;
    /* From now on, memory that is lent was never lent before. */
    bool anew;
    replay_entry *entries;
    size_t n, room;
    /* Entries work on these tensors. Each entry of the list has a reference. */
    pointer_list held;
    /* The lists below are empty once the step is recorded. */
    replay_leaf *leaves;
    size_t n_leaves, leaf_room;
    /* Storages that the recording lends; it has a reference to each. */
    pointer_list lent;
    /* Held tensors in lent memory that somebody else may still have. */
    pointer_list living;
    /* Storages of tensors that the step made but no run makes anew. */
    pointer_list constants;
};

static bool list_add(pointer_list *list, void *it) {
    if (!rgi_grow((void **)&list->v, &list->room, list->n + 1, sizeof *list->v))
        return false;
    list->v[list->n++] = it;
    return true;
}

/* Returns where it stands in the list, or the list's length. The newest are looked at first. */
static size_t list_find(const pointer_list *list, const void *it) {
    for (size_t i = list->n; i-- > 0;)
        if (list->v[i] == it)
            return i;
    return list->n;
}

static bool list_has(const pointer_list *list, const void *it) {
    return list_find(list, it) < list->n;
}

static void list_remove(pointer_list *list, const void *it) {
    size_t at = list_find(list, it);
    if (at == list->n)
        return;
    list->n--;
    memmove(list->v + at, list->v + at + 1, (list->n - at) * sizeof *list->v);
}

static void list_free(pointer_list *list) {
    rgi_free(list->v, list->room * sizeof *list->v, RG_MEM_OTHER);
    *list = (pointer_list){ NULL, 0, 0 };
}

/* Refuses what can't be part of a step. */
static bool refuse(rg_replay *r, const char *op) {
    r->failed = true;
    return rgi_fail(RG_NOT_IMPLEMENTED, op,
                    "can't be part of a recorded step: a run could not do it again");
}

/* Adds an entry with room for a context, and returns that; NULL: the recording has failed. */
static void *note(rg_replay *r, rg_redo *redo, void (*drop)(void *), size_t bytes) {
    if (r->failed)
        return NULL;
    r->failed = true;
    void *context = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!context)
        return NULL;
    if (!rgi_grow((void **)&r->entries, &r->room, r->n + 1, sizeof *r->entries)) {
        rgi_free(context, bytes, RG_MEM_OTHER);
        return NULL;
    }
    r->entries[r->n++] = (replay_entry){ redo, drop, context, bytes };
    r->failed = false;
    return context;
}

/* ---- memory that goes round -------------------------------------------------------- */

static bool is_lent(const rg_replay *r, const rg_storage *s) { return list_has(&r->lent, s); }

/* Holds a tensor that an entry works on. */
static void hold(rg_replay *r, rg_tensor *t) {
    if (!t || t == RG_NONE || list_has(&r->living, t))
        return;
    if (!list_add(&r->held, t)) {
        r->failed = true;
        return;
    }
    rgi_retain(t);
    if (is_lent(r, t->storage) && !list_add(&r->living, t))
        r->failed = true;
}

/* Makes t as if released: to everybody else it is. Its header stays, for the entries, and its
 * memory is free for another. */
static void retire(rg_tensor *t) {
    rgi_forget_history(t);
    if (t->name)
        rgi_rename(&t->name, NULL);
    t->state = RG_DEAD;
    rgi_storage_release(t->storage);
}

/* Retires each tensor that only the recording has any more. When one lets go of its past, that may
 * let go of others. */
static void reap(rg_replay *r) {
    rg_tensor **living = (rg_tensor **)r->living.v;
    bool more = true;
    while (more) {
        size_t n = 0;
        more = false;
        for (size_t i = 0; i < r->living.n; i++) {
            rg_tensor *t = living[i];
            if (t->refs > 1) {
                living[n++] = t;
                continue;
            }
            more = more || t->history;
            retire(t);
        }
        r->living.n = n;
    }
}

/* Returns the smallest storage that nobody uses and that holds so many bytes, but not more than
 * twice as many; NULL: there is none. */
static rg_storage *spare_storage(const rg_replay *r, size_t bytes) {
    rg_storage *best = NULL;
    for (size_t i = r->lent.n; i-- > 0;) {
        rg_storage *s = r->lent.v[i];
        bool fits = s->bytes >= bytes && s->bytes / 2 <= bytes;
        if (s->refs == 1 && fits && (!best || s->bytes < best->bytes))
            best = s;
    }
    return best;
}

/* Gives t a storage that is lent to it. Requires that an entry writes to t in every run before any
 * other reads it, and to nothing else. */
static bool lend(rg_replay *r, rg_tensor *t, size_t bytes) {
    reap(r);
    rg_storage *s = r->anew ? NULL : spare_storage(r, bytes);
    if (s) {
        t->storage = s;
        t->data = s->data;
    } else {
        s = rgi_alloc(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
        if (!s)
            return false;
        rgi_storage_begin(t, s, bytes);
        list_remove(&r->constants, s);
        if (!list_add(&r->lent, s))
            return false;
    }
    RG_COUNT_UP(&s->refs, 1);
    hold(r, t);
    return true;
}

/* Gradients that the step reads and hasn't made are, in a run, what the run before left. So memory
 * that is lent from now on, and may be left, is such that no earlier entry writes to it. */
static void lend_anew(rg_replay *r, const rg_tensor *grad) {
    if (!grad || !is_lent(r, grad->storage))
        r->anew = true;
}

/* ---- constants --------------------------------------------------------------------- */

static bool is_constant(const rg_replay *r, const rg_tensor *t) {
    return list_has(&r->constants, t->storage);
}

/* Notes that every run writes to all of t, and refuses that if t was made and read before. */
static bool made_anew(rg_replay *r, const rg_tensor *t, const char *op) {
    if (!is_constant(r, t))
        return true;
    for (size_t i = 0; i < r->held.n; i++)
        if (((rg_tensor *)r->held.v[i])->storage == t->storage)
            return refuse(r, op);
    list_remove(&r->constants, t->storage);
    return true;
}

/* ---- tensors: the recorder's part of tensor/observer.h ----------------------------- */

static rg_tensor *recorder_make(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_replay *r = (rg_replay *)o;
    rgi_set_observer(NULL);
    rg_tensor *t = rgi_new(dtype, ndim, size);
    rgi_set_observer(o);
    if (t && !list_add(&r->constants, t->storage))
        r->failed = true;
    return t;
}

static bool recorder_allocate(rg_observer *o, rg_tensor *t, size_t bytes) {
    return lend((rg_replay *)o, t, bytes);
}

static void recorder_released(rg_observer *o) { reap((rg_replay *)o); }

static bool recorder_may_do_once(rg_observer *o, const char *op) {
    return refuse((rg_replay *)o, op);
}

typedef struct {
    rg_tensor *to, *from;
} noted_copy;

static bool copy_again(void *context) {
    noted_copy *c = context;
    if (c->from)
        rgi_copy_elements(c->to, c->from);
    else
        rgi_fill_zero(c->to);
    return true;
}

static bool recorder_copied(rg_observer *o, rg_tensor *to, rg_tensor *from, const char *op) {
    rg_replay *r = (rg_replay *)o;
    if (!made_anew(r, to, op))
        return false;
    noted_copy *c = note(r, copy_again, NULL, sizeof *c);
    if (c)
        *c = (noted_copy){ to, from };
    hold(r, to);
    hold(r, from);
    return true;
}

static bool recorder_did(rg_observer *o, rg_tensor *t, const char *op, const rg_deed *deed) {
    rg_replay *r = (rg_replay *)o;
    if (t && !made_anew(r, t, op))
        return false;
    void *context = note(r, deed->redo, deed->drop, deed->bytes);
    if (context)
        memcpy(context, deed->context, deed->bytes);
    hold(r, t);
    return context != NULL;
}

/* ---- applications ------------------------------------------------------------------ */

/* A run does the forward on the same inputs and outputs. */
typedef struct {
    rg_call call;
    bool alike;
    rg_tensor *in[];
} noted_call;

static bool call_again(void *context) {
    noted_call *n = context;
    rg_call *c = &n->call;
    if (!c->op->kernel)
        return c->op->forward(c);
    /* Inputs may have other data by now (rg_set_data), which may lie otherwise. */
    bool alike = n->alike && c->out[0]->flags & RG_CONTIGUOUS;
    for (int i = 0; i < c->n_in; i++)
        alike &= c->in[i]->flags & RG_CONTIGUOUS;
    if (alike)
        return rgi_run_alike(c);
    return k_run_with(c->op->kernel, c->out[0], c->in, NULL);
}

static bool recorder_may_update(rg_graph_observer *o, const rg_tensor *t, const char *op) {
    rg_replay *r = (rg_replay *)o;
    return !is_constant(r, t) || refuse(r, op);
}

/* A view stays as it is in all runs, and needs no entry. */
static bool recorder_applied(rg_graph_observer *o, const rg_call *c, size_t attr_size, bool alike) {
    rg_replay *r = (rg_replay *)o;
    for (int i = 0; i < c->n_in; i++)
        hold(r, c->in[i]);
    for (int k = 0; k < c->n_out; k++)
        hold(r, c->out[k]);
    if (c->op->by_value)
        return refuse(r, c->op->name);
    if (c->op->view)
        return true;
    size_t in_size = (size_t)c->n_in * sizeof(rg_tensor *);
    noted_call *n = note(r, call_again, NULL, sizeof *n + in_size + attr_size);
    if (!n)
        return true;
    n->call = *c;
    n->alike = alike;
    n->call.in = n->in;
    n->call.attr = n->in + c->n_in;
    memcpy(n->in, c->in, in_size);
    if (attr_size)
        memcpy(n->in + c->n_in, c->attr, attr_size);
    return true;
}

/* ---- backward steps ---------------------------------------------------------------- */

/* A run does the step by the op's fused derivative, or adds a gradient into its buffer. `of` is the
 * node itself, `node` a copy of it with saved values of the recording's own, which may be written
 * to between runs. */
typedef struct {
    rg_node *of, node;
    rg_step step;
    const rg_gradient *rule;
    rg_replay *replay;
    size_t first;
    rg_tensor *buffer, *g[RG_MAX_OUTPUTS], *saved[];
} noted_step;

/* Releases the node that a context begins with. */
static void drop_node(void *context) { rgi_node_release(*(rg_node **)context); }

static rg_tensor *collector_make(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_replay *r = ((step_observer *)o)->replay;
    rgi_set_observer(&r->recorder.tensors);
    rg_tensor *t = rgi_new_output(dtype, ndim, size);
    rgi_set_observer(o);
    return t;
}

static rg_tensor *giver_make(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size) {
    step_observer *giver = (step_observer *)o;
    (void)dtype;
    (void)ndim;
    (void)size;
    RG_FAIL_IF(giver->next == giver->replay->held.n, NULL,
               "the recorded step has taken another way");
    rg_tensor *t = giver->replay->held.v[giver->next++];
    rgi_retain(t);
    return t;
}

static bool do_step(const rg_step *s, rg_tensor *gin[], const rg_gradient *rule,
                    rg_tensor *buffer) {
    return buffer ? rule->into(s, rgi_step_g(s, 0), buffer) : s->op->fused(s, gin);
}

static bool step_again(void *context) {
    noted_step *n = context;
    rg_tensor *gin[RG_MAX_RULES] = { NULL };
    n->replay->giver.next = n->first;
    rgi_set_observer(&n->replay->giver.observer.tensors);
    bool ok = do_step(&n->step, gin, n->rule, n->buffer);
    rgi_set_observer(NULL);
    for (int i = 0; i < RG_MAX_RULES; i++)
        rgi_release(gin[i]);
    return ok;
}

static bool recorder_step(rg_graph_observer *o, const rg_step *s, rg_tensor *gin[],
                          const rg_gradient *rule, rg_tensor *buffer) {
    rg_replay *r = (rg_replay *)o;
    const rg_node *node = s->node;
    size_t room = node->n_saved * sizeof(rg_tensor *);
    noted_step *n = note(r, step_again, drop_node, sizeof *n + room);
    if (!n)
        return false;
    *n = (noted_step){
        .of = s->node, .node = *node, .step = *s, .rule = rule, .replay = r, .buffer = buffer
    };
    n->step.node = &n->node;
    n->step.g = n->g;
    n->node.saved = n->saved;
    n->node.version = NULL;
    rgi_node_retain(n->of);
    for (int k = 0; k < node->n_out; k++) {
        n->g[k] = s->g[k];
        hold(r, n->g[k]);
    }
    hold(r, buffer);
    for (int i = 0; i < node->n_saved; i++) {
        n->saved[i] = node->saved[i] ? rgi_alias(node->saved[i]) : NULL;
        hold(r, n->saved[i]);
        rgi_release(n->saved[i]);
    }
    n->first = r->held.n;
    rgi_set_observer(&r->collector.observer.tensors);
    bool ok = do_step(s, gin, rule, buffer);
    rgi_set_observer(&o->tensors);
    return ok;
}

/* A tensor may be added to if it is in lent memory and, beside the recording, only the caller has
 * it. */
static bool recorder_is_sole_owner(rg_graph_observer *o, const rg_tensor *t) {
    rg_replay *r = (rg_replay *)o;
    reap(r);
    return t->refs == 2 && t->storage->refs == 2 && t->flags & RG_CONTIGUOUS && !t->history
           && list_has(&r->living, t);
}

/* ---- gradients of leaves ----------------------------------------------------------- */

/* A run makes g the leaf's gradient, or takes the gradient away where g is NULL. If the step hasn't
 * taken away what was there, g is added to it instead; their sum is one tensor in all runs, since
 * the step may read it. */
typedef struct {
    rg_node *leaf;
    rg_tensor *g, *sum;
} noted_leaf;

static bool leaf_again(void *context) {
    noted_leaf *n = context;
    rg_tensor **grad = &n->leaf->grad;
    if (n->sum && *grad) {
        k_run(k_add, *grad, *grad, n->g);
        return true;
    }
    if (n->sum)
        rgi_copy_elements(n->sum, n->g);
    rg_tensor *now = n->sum ? n->sum : n->g;
    if (*grad == now)
        return true;
    if (now)
        rgi_retain(now);
    rgi_release(*grad);
    *grad = now;
    return true;
}

/* Returns the leaf's place in the list, or NULL where the step has done nothing to it. */
static replay_leaf *find_leaf(rg_replay *r, const rg_node *leaf) {
    for (size_t i = 0; i < r->n_leaves; i++)
        if (r->leaves[i].leaf == leaf)
            return &r->leaves[i];
    return NULL;
}

static void remember_leaf(rg_replay *r, rg_node *leaf, bool made) {
    replay_leaf *known = find_leaf(r, leaf);
    if (known) {
        known->made = made;
        return;
    }
    if (!rgi_grow((void **)&r->leaves, &r->leaf_room, r->n_leaves + 1, sizeof *r->leaves)) {
        r->failed = true;
        return;
    }
    rgi_node_retain(leaf);
    r->leaves[r->n_leaves++] = (replay_leaf){ leaf, made };
}

/* Returns the tensor to which runs add g: the leaf's gradient, or a new one like g, which has g's
 * values already. */
static rg_tensor *sum_for(rg_replay *r, const rg_node *leaf, rg_tensor *g) {
    lend_anew(r, leaf->grad);
    if (leaf->grad)
        return leaf->grad;
    rg_tensor *sum = rgi_own(rgi_new_like(g, g->dtype));
    if (!sum)
        return NULL;
    rgi_copy_elements(sum, g);
    made_anew(r, sum, "backward");
    return sum;
}

static rg_tensor *recorder_gradient(rg_graph_observer *o, rg_node *leaf, rg_tensor *g) {
    rg_replay *r = (rg_replay *)o;
    const replay_leaf *known = find_leaf(r, leaf);
    bool was_made = known && known->made;
    bool was_taken_away = known && !known->made;
    remember_leaf(r, leaf, g != NULL);
    if (!g && !was_made)
        return NULL;
    noted_leaf *n = note(r, leaf_again, drop_node, sizeof *n);
    if (!n)
        return NULL;
    *n = (noted_leaf){ leaf, g, NULL };
    rgi_node_retain(leaf);
    hold(r, g);
    if (!g || was_taken_away)
        return g;
    bool first = !leaf->grad;
    n->sum = sum_for(r, leaf, g);
    hold(r, n->sum);
    return first ? n->sum : g;
}

static void recorder_read_gradient(rg_graph_observer *o, const rg_tensor *grad) {
    lend_anew((rg_replay *)o, grad);
}

/* ---- recording and running --------------------------------------------------------- */

static const rg_graph_observer recorder_calls = {
    .tensors = { .make = recorder_make,
                 .allocate = recorder_allocate,
                 .released = recorder_released,
                 .may_do_once = recorder_may_do_once,
                 .copied = recorder_copied,
                 .did = recorder_did },
    .may_update = recorder_may_update,
    .applied = recorder_applied,
    .step = recorder_step,
    .is_sole_owner = recorder_is_sole_owner,
    .gradient = recorder_gradient,
    .read_gradient = recorder_read_gradient,
};

/* Ends the recording: memory stays with its tensors from now on, and what was released to all but
 * the recording is alive again. */
static void replay_settle(rg_replay *r) {
    for (size_t i = 0; i < r->held.n; i++) {
        rg_tensor *t = r->held.v[i];
        if (t->state != RG_DEAD)
            continue;
        t->state = RG_ALIVE;
        RG_COUNT_UP(&t->storage->refs, 1);
    }
    for (size_t i = 0; i < r->lent.n; i++)
        rgi_storage_release(r->lent.v[i]);
    for (size_t i = 0; i < r->n_leaves; i++)
        rgi_node_release(r->leaves[i].leaf);
    rgi_free(r->leaves, r->leaf_room * sizeof *r->leaves, RG_MEM_OTHER);
    list_free(&r->lent);
    list_free(&r->living);
    list_free(&r->constants);
}

rg_replay *rg_record(void (*step)(void *context), void *context) {
    rgi_thread_start();
    RG_FAIL_IF(!step, "record", "there is no step");
    RG_FAIL_IF(rgi_this.observer, "record", "a step is being recorded already");
    rg_replay *r = rgi_alloc(sizeof *r, RG_MEM_OTHER);
    if (!r)
        return NULL;
    *r = (rg_replay){
        .recorder = recorder_calls,
        .collector = { .observer.tensors.make = collector_make, .replay = r },
        .giver = { .observer.tensors.make = giver_make, .replay = r },
    };
    rg_error_clear();
    rgi_set_observer(&r->recorder.tensors);
    size_t mark = rg_scope_begin();
    step(context);
    rg_scope_end(mark);
    rgi_set_observer(NULL);
    replay_settle(r);
    if (!r->failed && rg_error_code() == RG_OK)
        return r;
    rg_replay_free(r);
    return NULL;
}

bool rg_replay_run(rg_replay *r) {
    RG_FAIL_IF(!r, "replay_run", "there is no recorded step");
    if (!rgi_may_do_once("replay_run"))
        return false;
    bool ok = true;
    size_t mark = rg_scope_begin();
    for (size_t i = 0; ok && i < r->n; i++)
        ok = r->entries[i].redo(r->entries[i].context);
    rg_scope_end(mark);
    return ok;
}

void rg_replay_free(rg_replay *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++) {
        replay_entry *e = &r->entries[i];
        if (e->drop)
            e->drop(e->context);
        rgi_free(e->context, e->bytes, RG_MEM_OTHER);
    }
    for (size_t i = 0; i < r->held.n; i++)
        rgi_release(r->held.v[i]);
    rgi_free(r->entries, r->room * sizeof *r->entries, RG_MEM_OTHER);
    list_free(&r->held);
    rgi_free(r, sizeof *r, RG_MEM_OTHER);
}

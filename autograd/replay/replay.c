/*
 * replay.c: records a step, and repeats it on the same tensors. A recording is made by an observer
 * of the thread, so only the files of this folder contain code for recording. recording.c manages
 * the recording's tensors and memory; leaf_entries.c has the entries for gradients of leaves.
 *
 * There are three observers. The recorder is in force while a step is recorded: it adds an entry
 * for each operation, and refuses an operation that can't be repeated. An op's own forward function
 * becomes a single entry, and so does a fused derivative. Therefore the recorder is switched off
 * while one of them runs. The tensors that a fused derivative allocates must be the same ones in
 * each repetition. While a step is recorded, the second observer, the collector, lists these
 * tensors in the order of their allocation. In a repetition the third observer, the source, returns
 * them in this order.
 */
#include "recording.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/thread.h"

/* ---- tensors: the recorder's part of tensor/observer.h ----------------------------- */

/* Makes a tensor that the program asks for while a step is recorded. The tensor counts as a
 * constant: a repetition doesn't make it again. If the recorder later adds an entry that writes to
 * all of the tensor, it is no longer a constant (rgi_recording_makes_anew). */
static rg_tensor *recorder_make(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_replay *r = rgi_recording_of(o);
    rgi_set_observer(NULL);
    rg_tensor *t = rgi_new(dtype, ndim, size);
    rgi_set_observer(o);
    if (!t || rgi_recording_adds_constant(r, t))
        return t;
    rgi_release(t);
    return NULL;
}

static bool recorder_allocate(rg_observer *o, rg_tensor *t, size_t bytes) {
    return rgi_recording_allocate(rgi_recording_of(o), t, bytes);
}

static void recorder_released(rg_observer *o) { rgi_recording_reap(rgi_recording_of(o)); }

static bool recorder_may_do_once(rg_observer *o, const char *op, const char *instead) {
    return rgi_recording_refuse(rgi_recording_of(o), op, instead);
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
    rgi_count_write(c->to, "replay_run");
    return true;
}

static bool recorder_copied(rg_observer *o, rg_tensor *to, rg_tensor *from, const char *op) {
    rg_replay *r = rgi_recording_of(o);
    if (!rgi_recording_makes_anew(r, to, op))
        return false;
    rgi_recording_hold(r, to);
    rgi_recording_hold(r, from);
    noted_copy *c = rgi_recording_note(r, op, copy_again, NULL, sizeof *c);
    if (c)
        *c = (noted_copy){ to, from };
    return true;
}

static bool recorder_did(rg_observer *o, rg_tensor *t, const char *op,
                         const rg_operation *operation) {
    rg_replay *r = rgi_recording_of(o);
    const bool anew = !t || rgi_recording_makes_anew(r, t, op);
    rgi_recording_hold(r, t);
    if (!t)
        rgi_recording_may_use_all(r);
    void *context =
        anew ? rgi_recording_note(r, op, operation->redo, operation->drop, operation->bytes) : NULL;
    if (context) {
        memcpy(context, operation->context, operation->bytes);
        r->entries[r->n_entries - 1].state = operation->state;
        r->entries[r->n_entries - 1].fits = operation->fits;
    }
    if (!t)
        r->up_to_operation = r->n_entries;
    return context != NULL;
}

/* ---- calls of ops ------------------------------------------------------------------ */

/* The entry of a call, whose inputs are in[]. A repetition computes the outputs again: by the op's
 * forward if it has one, otherwise by its kernel. `alike` is true if the inputs suited
 * rgi_run_alike (autograd/op.h) when the call was recorded. `named` is the name of the function
 * that the step called, which may call several ops. */
typedef struct {
    rg_call call;
    bool alike;
    const char *named;
    rg_tensor *in[];
} noted_call;

static bool call_again(void *context) {
    noted_call *n = context;
    rg_call *c = &n->call;
    if (c->op->forward)
        return c->op->forward(c);
    if (n->alike)
        rgi_run_alike(c);
    else
        k_run_with(c->op->kernel, c->out[0], c->in, NULL);
    return true;
}

/* Repeats a call that another function of the library made, so that a failure of the op's forward
 * names that function. */
static bool named_call_again(void *context) {
    RG_AS(((const noted_call *)context)->named);
    return call_again(context);
}

/* Calls the op's shape function again, with dummy outputs, and fails if new values of the inputs
 * aren't valid. */
static bool check_call(void *context) {
    const noted_call *n = context;
    rg_call again = n->call;
    rg_tensor like[RG_MAX_OUTPUTS];
    for (int k = 0; k < again.n_out; k++) {
        like[k].dtype = again.out[k]->dtype;
        like[k].ndim = 0;
        like[k].state = RG_ALIVE;
        like[k].flags = RG_CONTIGUOUS | RG_PLAIN;
        again.out[k] = &like[k];
    }
    RG_AS(n->named);
    return again.op->shape(&again);
}

/* Repeats a call of an op whose shape function checks values such as indices. */
static bool checked_call_again(void *context) { return check_call(context) && call_again(context); }

/* Repeats a call that writes its output over its first input. Counts the write, so that a backward
 * run fails if its graph has saved the old values of this input. */
static bool write_again(void *context) {
    const rg_call *c = &((const noted_call *)context)->call;
    rgi_count_write(c->out[0], "replay_run");
    return c->op->refuses_values ? checked_call_again(context) : call_again(context);
}

/* Called before a write to t. If the step has read t before, and the write gives t a history, the
 * next call of the step would begin with that history. */
static bool recorder_may_update(rg_graph_observer *o, rg_tensor *t, const char *op) {
    rg_replay *r = rgi_recording_of(o);
    if (!t->history && rgi_pointers_have(&r->held, t))
        rgi_recording_changes(r, t);
    return !rgi_recording_is_constant(r, t) || rgi_recording_refuse_constant(r, op);
}

/* Suits the memory to a call of a user's op, whose forward is called in each repetition. The
 * forward may work on tensors that aren't its inputs. The inputs keep storages of their own: the
 * forward may keep them, and the library finds by their storages whether it has written to an
 * input, or returned one. */
static void suit_user(rg_replay *r, const rg_call *c) {
    rgi_recording_may_use_all(r);
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] != RG_NONE)
            rgi_plan_keep(&r->plan, c->in[i]->storage);
}

/* Adds an entry for the call. Fails and returns false if the shape of the op's output depends on
 * values. Adds no entry if the output is a view: its memory is that of its base, so it needs no
 * repetition. */
static bool recorder_computed(rg_graph_observer *o, const rg_call *c, size_t attr_size,
                              bool alike) {
    rg_replay *r = rgi_recording_of(o);
    for (int i = 0; i < c->n_in; i++)
        rgi_recording_hold(r, c->in[i]);
    for (int k = 0; k < c->n_out; k++)
        rgi_recording_hold(r, c->out[k]);
    if (!rgi_recording_takes(r, c->op->name, c->n_in, c->in)
        || !rgi_recording_takes(r, c->op->name, c->n_out, c->out))
        return false;
    if (c->op->together)
        suit_user(r, c);
    if (c->op->by_value)
        return rgi_recording_refuse(r, c->op->name, "");
    if (c->op->view)
        return true;
    size_t in_size = (size_t)c->n_in * sizeof(rg_tensor *);
    rg_redo *redo = rgi_named_as && c->op->forward ? named_call_again : call_again;
    if (c->op->refuses_values)
        redo = checked_call_again;
    if (c->n_in && c->out[0]->storage == c->in[0]->storage)
        redo = write_again;
    noted_call *n = rgi_recording_note(r, c->op->name, redo, NULL, sizeof *n + in_size + attr_size);
    if (!n)
        return true;
    n->call = *c;
    n->call.given = NULL;
    n->alike = alike;
    n->named = rgi_named_as ? rgi_named_as : c->op->name;
    n->call.in = n->in;
    n->call.attr = n->in + c->n_in;
    memcpy(n->in, c->in, in_size);
    if (attr_size)
        memcpy(n->in + c->n_in, c->attr, attr_size);
    return true;
}

/* ---- entries for backward steps ---------------------------------------------------- */

/* The entry of a backward step. If `buffer` isn't NULL, a repetition calls the rule's `into`, which
 * adds a gradient to the buffer. Otherwise it calls the op's `together` or, if the op has none, its
 * `fused`. `original` is the step's node, and `copy` is a copy of it. The saved values in the copy
 * are aliases that the recording holds. The copy has no versions, since each repetition may write
 * to the saved values. The tensors that the step allocates are in the recording's list of held
 * tensors, with the indices `first` to `last` - 1. */
typedef struct {
    rg_node *original, copy;
    rg_step step;
    const rg_gradient *rule;
    rg_replay *replay;
    size_t first, last;
    rg_tensor *buffer, *g[RG_MAX_OUTPUTS], *saved[];
} noted_step;

/* Releases the node to which the first field of the context points. */
static void drop_node(void *context) { rgi_node_release(*(rg_node **)context); }

static rg_tensor *collector_make(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_replay *r = ((rg_step_observer *)o)->replay;
    rgi_set_observer(&r->recorder.tensors);
    rg_tensor *t = rgi_new_output(dtype, ndim, size);
    rgi_set_observer(o);
    return t;
}

static rg_tensor *source_make(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_step_observer *source = (rg_step_observer *)o;
    (void)dtype;
    (void)ndim;
    (void)size;
    RG_FAIL_IF(source->next == source->replay->held.n, NULL,
               "the recorded step has taken another way");
    rg_tensor *t = source->replay->held.v[source->next++];
    rgi_retain(t);
    return t;
}

static bool do_step(const rg_step *s, rg_tensor *gin[], const rg_gradient *rule,
                    rg_tensor *buffer) {
    if (buffer)
        return rule->into(s, rgi_step_g(s, 0), buffer);
    return s->op->together ? s->op->together(s, gin) : s->op->fused(s, gin);
}

/* Repeats a backward step. Requires that gin[] has `most` elements, all NULL. The step stores
 * gradients in gin[]. They are released at once, since the recording holds them as well. */
static inline __attribute__((always_inline)) bool redo_step(noted_step *n, rg_tensor *gin[],
                                                            int most) {
    n->replay->source.next = n->first;
    rgi_set_observer(&n->replay->source.observer.tensors);
    bool ok = do_step(&n->step, gin, n->rule, n->buffer);
    rgi_set_observer(NULL);
    for (int i = 0; i < most; i++)
        rgi_release(gin[i]);
    return ok;
}

static bool step_again(void *context) {
    rg_tensor *gin[RG_MAX_RULES] = { NULL };
    return redo_step(context, gin, RG_MAX_RULES);
}

/* Repeats the backward step of an op that a user has defined. Such an op can have more than
 * RG_MAX_RULES inputs, but at most RG_INPUTS. */
static bool user_step_again(void *context) {
    rg_tensor *gin[RG_INPUTS] = { NULL };
    return redo_step(context, gin, RG_INPUTS);
}

static bool recorder_step(rg_graph_observer *o, const rg_step *s, rg_tensor *gin[],
                          const rg_gradient *rule, rg_tensor *buffer) {
    rg_replay *r = rgi_recording_of(o);
    const rg_node *node = s->node;
    size_t room = node->n_saved * sizeof(rg_tensor *);
    rg_redo *redo = s->op->together ? user_step_again : step_again;
    noted_step *n = rgi_recording_note(r, node->op->name, redo, drop_node, sizeof *n + room);
    if (!n)
        return false;
    *n = (noted_step){
        .original = s->node, .copy = *node, .step = *s, .rule = rule, .replay = r, .buffer = buffer
    };
    n->step.node = &n->copy;
    n->step.g = n->g;
    n->copy.saved = n->saved;
    n->copy.version = NULL;
    rgi_node_retain(n->original);
    if (s->op->together)
        rgi_recording_may_use_all(r);
    for (int k = 0; k < node->n_out; k++) {
        n->g[k] = s->g[k];
        rgi_recording_hold(r, n->g[k]);
    }
    rgi_recording_hold(r, buffer);
    for (int i = 0; i < node->n_saved; i++) {
        n->saved[i] = node->saved[i] ? rgi_alias(node->saved[i]) : NULL;
        rgi_recording_hold(r, n->saved[i]);
        rgi_release(n->saved[i]);
    }
    n->first = r->held.n;
    rgi_set_observer(&r->collector.observer.tensors);
    bool ok = do_step(s, gin, rule, buffer);
    rgi_set_observer(&o->tensors);
    n->last = r->held.n;
    /* If a step fails, the recording may have only some of the step's tensors. Therefore the
     * recording is marked as failed, in case the program ignores the failure. */
    r->failed = r->failed || !ok;
    return ok;
}

/* Returns whether a forward function of an op may check values: those of whole numbers. */
static bool checks_values(const rg_call *c) {
    for (int i = 0; i < c->n_in && c->op->forward; i++)
        if (c->in[i] != RG_NONE && rgi_is_index((rg_dtype)c->in[i]->dtype))
            return true;
    return false;
}

bool rgi_entry_computes(const rg_replay_entry *e, rg_computation *to) {
    *to = (rg_computation){ .check = e->redo == checked_call_again ? check_call : NULL };
    if (e->redo == call_again || e->redo == named_call_again || to->check) {
        const rg_call *c = &((const noted_call *)e->context)->call;
        to->in = c->in;
        to->n_in = c->n_in;
        to->out = c->out;
        to->n_out = c->n_out;
        to->checks_itself = !to->check && checks_values(c);
        return !c->op->together;
    }
    if (e->redo == step_again) {
        const noted_step *n = e->context;
        to->in = n->saved;
        to->n_in = n->copy.n_saved;
        to->out = n->g;
        to->n_out = n->copy.n_out;
        to->made = (rg_tensor *const *)n->replay->held.v + n->first;
        to->n_made = n->last - n->first;
        to->buffer = n->buffer;
        return true;
    }
    return false;
}

/* See `references` in graph_observer.h. Returns 1 if t's storage is one of the plan's, since the
 * recording holds one reference to t, and one to the storage. Otherwise returns -1. */
static int recorder_references(rg_graph_observer *o, const rg_tensor *t) {
    return rgi_pointers_have(&(rgi_recording_of(o))->live, t) ? 1 : -1;
}

/* ---- recording and repeating a step ------------------------------------------------ */

static void recorder_before_change(rg_graph_observer *o, rg_tensor *t) {
    rgi_recording_changes(rgi_recording_of(o), t);
}

static void recorder_detached(rg_graph_observer *o, rg_tensor *t) {
    rgi_recording_aliases(rgi_recording_of(o), t);
}

static void recorder_called(rg_graph_observer *o, rg_hook_list *hooks) {
    rgi_recording_calls(rgi_recording_of(o), hooks);
}

static const rg_graph_observer recorder_calls = {
    .tensors = { .make = recorder_make,
                 .allocate = recorder_allocate,
                 .released = recorder_released,
                 .may_do_once = recorder_may_do_once,
                 .copied = recorder_copied,
                 .did = recorder_did },
    .may_update = recorder_may_update,
    .computed = recorder_computed,
    .step = recorder_step,
    .references = recorder_references,
    .gradient = rgi_recorder_gradient,
    .read_gradient = rgi_recorder_read_gradient,
    .before_change = recorder_before_change,
    .detached = recorder_detached,
    .called = recorder_called,
};

rg_replay *rg_record(void (*step)(void *context), void *context) {
    if (rgi_training_halted())
        return NULL;
    RG_FAIL_IF(!step, "record", "there is no step");
    RG_FAIL_IF(rgi_this.observer, "record", "a step is being recorded already");
    rg_replay *r = rgi_alloc(sizeof *r, RG_MEM_OTHER);
    if (!r)
        return NULL;
    *r = (rg_replay){
        .handle = RG_NEW_HANDLE(REPLAY),
        .recorder = recorder_calls,
        .collector = { .observer.tensors.make = collector_make, .replay = r },
        .source = { .observer.tensors.make = source_make, .replay = r },
    };
    const int64_t before = rgi_failures();
    rgi_set_observer(&r->recorder.tensors);
    size_t mark = rg_scope_begin();
    step(context);
    rg_scope_end(mark);
    rgi_set_observer(NULL);
    const bool same = rgi_failures() != before || rgi_recording_leaves_as_found(r);
    rgi_recording_settle(r);
    rgi_recording_leaves_out_sums(r);
    if (rgi_called(same && !r->failed, before, RG_RUNTIME_ERROR, "record",
                   "a call in the step failed, and the step cleared its error"))
        return r;
    rg_replay_free(r);
    return NULL;
}

static inline bool may_repeat(rg_replay *r) {
    return (r->changes == rgi_changes()
            || (rgi_recording_suits_gradients(r) && rgi_recording_fits(r)))
           && rgi_recording_finds_gradients(r)
           && (!rgi_is_observed(RG_SEES_REPLAYS) || rgi_may_replay());
}

bool rgi_replay_may_repeat(rg_replay *r) { return may_repeat(r); }

bool rgi_replay_repeat(rg_replay *r, size_t *now) {
    bool ok = may_repeat(r);
    if (ok)
        rgi_recording_counts_writes(r);
    size_t mark = rg_scope_begin();
    for (size_t i = 0; ok && i < r->n_entries; i++) {
        *now = i;
        ok = r->entries[i].redo(r->entries[i].context);
    }
    rg_scope_end(mark);
    rgi_recording_renews_views(r);
    return ok;
}

/* Repeats the step. Fails if a repetition is running already: in another thread, or in this one, if
 * the step calls a function of the program that calls rg_replay_run. */
static bool repeat_alone(rg_replay *r) {
    RG_FAIL_IF(atomic_exchange(&r->running, true), "replay_run",
               "this recorded step is running already; its tensors can't be used twice at once");
    size_t now;
    const bool ok = rgi_replay_repeat(r, &now);
    r->running = false;
    return ok;
}

bool rg_replay_run(rg_replay *r) {
    if (rgi_training_halted() || !rgi_handle_given(r, "replay_run", RG_HANDLE_REPLAY)
        || !rgi_may_do_once("replay_run"))
        return rgi_halt_training();
    return repeat_alone(r) || rgi_halt_training();
}

bool rgi_replay_is_outdated(rg_replay *r) {
    if (r->changes == rgi_changes() && !r->n_reads)
        return false;
    rg_failure aside;
    rgi_set_failure_aside(&aside);
    const bool fits = rgi_recording_suits_gradients(r) && rgi_recording_is_current(r)
                      && rgi_recording_finds_gradients(r);
    rgi_forget_failure();
    rgi_bring_failure_back(&aside);
    return !fits;
}

void rg_replay_free(rg_replay *r) {
    if (!r || !rgi_handle_given(r, "replay_free", RG_HANDLE_REPLAY))
        return;
    if (r->running) {
        rgi_fail(RG_RUNTIME_ERROR, "replay_free", "the recorded step is running; free it later");
        return;
    }
    rgi_recording_free(r);
}

int64_t rg_replay_bytes(const rg_replay *r) {
    return rgi_handle_given(r, "replay_bytes", RG_HANDLE_REPLAY) ? (int64_t)rgi_recording_bytes(r)
                                                                 : rgi_failed_count();
}

int64_t rg_replay_live_bytes(const rg_replay *r) {
    return rgi_handle_given(r, "replay_live_bytes", RG_HANDLE_REPLAY) ? (int64_t)r->plan.most_bytes
                                                                      : rgi_failed_count();
}

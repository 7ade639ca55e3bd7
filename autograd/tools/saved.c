/*
 * saved.c: hooks on saved tensors. While a thread has such hooks, each new node passes its saved
 * values to the hook `pack`, releases them, and keeps what `pack` returned. Before the backward
 * step of the node, the hook `unpack` turns what `pack` returned into the saved values again.
 */
#include "saved.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "autograd/graph_observer.h"

/* The saved value i of a node, as element i of an array. `made` is what the hook `pack` returned
 * for the value. It is NULL if the node has no saved value i, or if the packed value was dropped.
 * `header` points to the tensor header for the value in the node's block of memory. While the value
 * is packed, this header holds no value: it only says which dtype, shape and strides the unpacked
 * value must get. */
typedef struct {
    void *made;
    rg_tensor *header;
} packed_value;

/* The note that holds the packed values of a node. */
typedef struct {
    rg_note note;
    rg_saved_hooks hooks;
    int n;
    packed_value v[];
} packed_values;

/* ---- the thread's stack of hooks ------------------------------------------------------ */

/* The thread's stack of hooks. Only the hooks in the last element are in force. If the last
 * element's `pack` is NULL, no hooks are in force. */
static __thread struct {
    rg_saved_hooks *v;
    size_t n, room;
} saved_thread __attribute__((tls_model("initial-exec")));

static rg_graph_observer packer;

static bool push_hooks(const rg_saved_hooks *hooks) {
    if (!rgi_grow((void **)&saved_thread.v, &saved_thread.room, saved_thread.n + 1,
                  sizeof *saved_thread.v))
        return false;
    saved_thread.v[saved_thread.n++] = *hooks;
    if (hooks->pack)
        rgi_count_graph_observer(&packer, 1);
    return true;
}

bool rg_push_saved_hooks(rg_saved_hooks hooks) {
    rgi_thread_start();
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !hooks.pack || !hooks.unpack, "push_saved_hooks",
                  "expected pack and unpack but got NULL");
    return push_hooks(&hooks);
}

void rg_pop_saved_hooks(void) {
    if (saved_thread.n == 0)
        return;
    saved_thread.n--;
    if (saved_thread.v[saved_thread.n].pack)
        rgi_count_graph_observer(&packer, -1);
    if (saved_thread.n > 0)
        return;
    rgi_free(saved_thread.v, saved_thread.room * sizeof *saved_thread.v, RG_MEM_OTHER);
    saved_thread.v = NULL;
    saved_thread.room = 0;
}

rg_saved_guard rg_saved_guard_open(rg_saved_hooks hooks) {
    return (rg_saved_guard){ rg_push_saved_hooks(hooks) };
}

void rg_saved_guard_close(rg_saved_guard *guard) {
    if (guard->pushed)
        rg_pop_saved_hooks();
    guard->pushed = false;
}

/* ---- packing saved values ------------------------------------------------------------- */

static void let_go(rg_node *n, int i) {
    rgi_storage_release(n->saved[i]->storage);
    n->saved[i] = NULL;
}

/* Calls do_value for each saved value, until one call fails. During the calls no hooks are in
 * force, and no graph is recorded. Returns false on failure. */
static bool for_each_value(rg_node *n, packed_values *p,
                           bool (*do_value)(rg_node *n, packed_values *p, int i)) {
    static const rg_saved_hooks none;
    if (!push_hooks(&none))
        return false;
    bool before = rg_set_grad_enabled(false);
    bool ok = true;
    for (int i = 0; i < p->n && ok; i++)
        ok = do_value(n, p, i);
    rg_set_grad_enabled(before);
    rg_pop_saved_hooks();
    return ok;
}

/* Calls `pack` for the saved value i, if there is one, and releases the value. Fails if `pack`
 * fails or has written to the value. */
static bool pack_value(rg_node *n, packed_values *p, int i) {
    if (!n->saved[i])
        return true;
    RG_SCOPE();
    rg_tensor *t = rgi_own(rgi_alias(n->saved[i]));
    if (!t)
        return false;
    const uint32_t version = t->storage->version;
    p->v[i].header = n->saved[i];
    const int64_t before = rgi_failures();
    p->v[i].made = p->hooks.pack(t, p->hooks.context);
    if (!rgi_called(p->v[i].made, before, RG_RUNTIME_ERROR, n->op->name,
                    "a saved tensor pack hook failed, and said nothing"))
        return false;
    RG_FAIL_IF(
        t->storage->version != version, n->op->name,
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
        "to pack hook cannot be modified by in-place operations as this can lead to "
        "unexpected side-effects.");
    let_go(n, i);
    return true;
}

static void packed_free(rg_note *note) {
    packed_values *p = (packed_values *)note;
    rgi_free(p, sizeof *p + (size_t)p->n * sizeof *p->v, RG_MEM_OTHER);
}

/* Calls `drop` for each packed value. The node counts as freed from now on. */
static void drop_packed(rg_note *note, rg_node *n) {
    packed_values *p = (packed_values *)note;
    n->freed = true;
    for (int i = 0; i < p->n; i++) {
        if (p->v[i].made && p->hooks.drop)
            p->hooks.drop(p->v[i].made, p->hooks.context);
        p->v[i].made = NULL;
    }
}

/* ---- unpacking saved values ----------------------------------------------------------- */

static bool unpack_value(rg_node *n, packed_values *p, int i) {
    if (!p->v[i].made)
        return true;
    rg_tensor *header = p->v[i].header;
    const int64_t before = rgi_failures();
    rg_tensor *t = p->hooks.unpack(p->v[i].made, p->hooks.context);
    if (!rgi_called(t, before, RG_TYPE_ERROR, n->op->name,
                    "Output of saved tensor unpack_hook expected to be a Tensor but got NULL")
        || !rgi_check(t, n->op->name))
        return false;
    RG_FAIL_IF(t->dtype != header->dtype || !rgi_same_shape(t, header), n->op->name,
               "a saved tensor unpack hook returned [torch.%sTensor %s] for [torch.%sTensor %s]",
               rgi_scalar_name((rg_dtype)t->dtype), RG_SHAPE_TEXT(t),
               rgi_scalar_name((rg_dtype)header->dtype), RG_SHAPE_TEXT(header));
    /* The value must have the strides that it had when it was saved, since a kernel may rely on
     * them. */
    if (memcmp(t->stride, header->stride, header->ndim * sizeof t->stride[0]) != 0) {
        rg_tensor *as_saved = rgi_own(rgi_new_dense_like(header, (rg_dtype)header->dtype));
        if (!as_saved)
            return false;
        rgi_copy_elements(as_saved, t);
        t = as_saved;
    }
    rgi_expose(t);
    rgi_alias_begin(header, t);
    header->flags &= (uint8_t)~RG_WEAK;
    n->saved[i] = header;
    n->version[i] = t->storage->version;
    return true;
}

static bool unpack(rg_note *note, rg_node *n) {
    RG_SCOPE();
    return for_each_value(n, (packed_values *)note, unpack_value);
}

static void let_go_of_all(rg_note *note, rg_node *n) {
    (void)note;
    for (int i = 0; i < n->n_saved; i++)
        if (n->saved[i])
            let_go(n, i);
}

/* ---- the observer that packs the values of new nodes ---------------------------------- */

static const rg_note_class packed_class = {
    .begin_step = unpack, .end_step = let_go_of_all, .freed_saved = drop_packed, .free = packed_free
};

/* Passes the saved values of a new node to the thread's innermost hooks, if it has any. */
static bool pack_node(rg_graph_observer *o, const rg_call *c, rg_node *n) {
    (void)o;
    (void)c;
    if (!n || n->n_saved == 0 || saved_thread.n == 0)
        return true;
    const rg_saved_hooks *hooks = &saved_thread.v[saved_thread.n - 1];
    if (!hooks->pack)
        return true;
    if (!rgi_may_do_once("saved_hooks"))
        return false;
    packed_values *p = rgi_alloc(sizeof *p + n->n_saved * sizeof *p->v, RG_MEM_OTHER);
    if (!p)
        return false;
    p->hooks = *hooks;
    p->n = n->n_saved;
    for (int i = 0; i < p->n; i++)
        p->v[i] = (packed_value){ NULL, NULL };
    rgi_note_add(n, &p->note, &packed_class);
    return for_each_value(n, p, pack_value);
}

/* Fails if this thread has hooks in force: a repetition of a recorded step saves no values, so it
 * can't pass them to `pack`. */
static bool refuse_replay(rg_graph_observer *o) {
    (void)o;
    const size_t n = saved_thread.n;
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, n && saved_thread.v[n - 1].pack, "replay_run",
                  "the hooks on saved tensors aren't called for a recorded step; call the step "
                  "itself, or run it outside of the hooks");
    return true;
}

static rg_graph_observer packer = { .applied = pack_node, .may_replay = refuse_replay };

/*
 * checkpoint.c: rg_checkpoint, which works as torch.utils.checkpoint does: a part of the graph
 * doesn't keep its saved values, but computes them again during backward. This is done by hooks on
 * saved tensors. In the first call of the user's function f, a hook replaces each saved value by a
 * number. When a backward run asks for a value, f is called a second time, and a hook gathers the
 * values in the same order.
 */
#include "autograd/tools/inputs.h"
#include "autocast_state.h"
#include "normal_mode.h"
#include "saved.h"
#include "autograd/rebase.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/random/rewind.h"

enum { MOST_CHECKPOINTED = 64 };

/* A value that the graph saved in the second call of f, and the version that it had when it was
 * saved. */
typedef struct {
    rg_tensor *t;
    uint32_t version;
} gathered_value;

/* The state of one rg_checkpoint, which calls f. The inputs of f are in[], with the versions that
 * they had in the first call. `random` has the states that random generators had before that call
 * used them; it is empty unless preserve_rng_state is set. `autocast` has the settings of the first
 * call. `saved` is the number of values that the graph saved in the first call. The second call
 * stores its saved values in value[], and `gathered` counts them. When a backward run takes a
 * value, the .t of the value's element becomes NULL. `refs` counts the references to this struct:
 * one while the first call of f runs, and one for each place_in_region that the graph keeps in
 * place of a saved value. */
typedef struct {
    atomic_int refs;
    rg_function *f;
    void *context;
    int n, saved, gathered;
    rg_tensor *in[MOST_CHECKPOINTED];
    bool wants_grad[MOST_CHECKPOINTED];
    uint32_t version[MOST_CHECKPOINTED];
    bool preserve_rng_state;
    rg_autocast_state autocast;
    rg_rewind random;
    gathered_value *value;
    size_t room;
} region;

typedef struct {
    region *of;
    int number;
} place_in_region;

static void drop_values(region *r) {
    for (size_t i = 0; i < r->room; i++) {
        rgi_release(r->value[i].t);
        r->value[i].t = NULL;
    }
}

static void region_release(region *r) {
    if (atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    drop_values(r);
    rgi_free(r->value, r->room * sizeof *r->value, RG_MEM_OTHER);
    for (int i = 0; i < r->n; i++)
        rgi_release(r->in[i]);
    rgi_rewind_release(&r->random);
    rgi_free(r, sizeof *r, RG_MEM_OTHER);
}

/* ---- hooks of the first call of f ----------------------------------------------------- */

static void *number_value(rg_tensor *t, void *context) {
    (void)t;
    region *r = context;
    place_in_region *p = rgi_alloc(sizeof *p, RG_MEM_OTHER);
    if (!p)
        return NULL;
    *p = (place_in_region){ r, r->saved++ };
    atomic_fetch_add(&r->refs, 1);
    return p;
}

static void drop_place(void *packed, void *context) {
    region_release(context);
    rgi_free(packed, sizeof(place_in_region), RG_MEM_OTHER);
}

/* ---- the second call of f ------------------------------------------------------------- */

/* The hook `pack` of the second call of f: keeps each saved value for the backward run. If this
 * call saves more values than the first, the further values are counted but not kept. */
static void *gather_value(rg_tensor *t, void *context) {
    region *r = context;
    const int number = r->gathered++;
    if (number >= r->saved)
        return r;
    r->value[number] = (gathered_value){ rgi_alias(t), t->storage->version };
    return r->value[number].t ? r : NULL;
}

static rg_tensor *refuse_unpacking(void *packed, void *context) {
    (void)packed;
    (void)context;
    return rgi_fail(RG_RUNTIME_ERROR, "checkpoint",
                    "a function in a checkpoint ran backward on what it computes");
}

/* Calls f again, so that gather_value gets the saved values. Returns false on failure. */
static bool gather(region *r) {
    RG_SCOPE();
    RG_NORMAL_MODE();
    RG_AUTOCAST_AS(r->autocast);
    rg_tensor *in[MOST_CHECKPOINTED + RG_INPUTS_BEHIND];
    rgi_inputs_end(in, r->n);
    for (int i = 0; i < r->n; i++) {
        in[i] = r->in[i];
        if (rgi_is_none(in[i]))
            continue;
        RG_FAIL_IF(in[i]->storage->version != r->version[i], "checkpoint",
                   "input %d has been modified by an inplace operation since: it is at version %u; "
                   "expected version %u instead. The last write was by %s.",
                   i, in[i]->storage->version, r->version[i], in[i]->storage->mutation);
        in[i] = rg_detach(in[i]);
        if (!in[i] || (r->wants_grad[i] && !rg_requires_grad_(in[i], true)))
            return false;
    }
    r->gathered = 0;
    RG_SAVED_HOOKS(((rg_saved_hooks){ gather_value, refuse_unpacking, NULL, r }));
    const int64_t before = rgi_failures();
    return rgi_returned(r->f(in, r->context), before, "checkpoint");
}

/* Computes the saved values again. If preserve_rng_state is set, f draws the random numbers of the
 * first call, and afterwards the generators have the states that they had before compute_again.
 * Returns false on failure. */
static bool compute_again(region *r) {
    drop_values(r);
    const size_t before = r->room;
    if (!rgi_grow((void **)&r->value, &r->room, (size_t)r->saved, sizeof *r->value))
        return false;
    for (size_t i = before; i < r->room; i++)
        r->value[i].t = NULL;
    rg_rewind now;
    rgi_rewind_begin(&now);
    bool ok = rgi_rewind_generators(&r->random) && gather(r);
    rgi_rewind_end(&now);
    ok = (!r->preserve_rng_state || rgi_rewind_generators(&now)) && ok;
    rgi_rewind_release(&now);
    RG_FAIL_IF(
        ok && r->gathered != r->saved, "checkpoint",
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation. Number of tensors saved during forward: %d. Number of "
        "tensors saved during recomputation: %d.",
        r->saved, r->gathered);
    return ok;
}

/* The hook `unpack` of the first call of f: returns the saved value whose number is in *packed. A
 * backward run fetches each value only once. If the value isn't there, because none was computed
 * yet or an earlier run has fetched it, all values are computed again. Fails if f has written to
 * the value after it was saved. */
static rg_tensor *fetch_value(void *packed, void *context) {
    const place_in_region *p = packed;
    region *r = context;
    bool there = (size_t)p->number < r->room && r->value[p->number].t;
    if (!there && !compute_again(r))
        return NULL;
    const gathered_value value = r->value[p->number];
    r->value[p->number].t = NULL;
    rg_tensor *t = rgi_own(value.t);
    RG_FAIL_IF(t && t->storage->version != value.version, "checkpoint",
               "one of the variables needed for gradient computation has been modified by an "
               "inplace operation: [torch.%sTensor %s] is at version %u; expected version %u "
               "instead. The last write was by %s.",
               rgi_scalar_name((rg_dtype)t->dtype), RG_SHAPE_TEXT(t), t->storage->version,
               value.version, t->storage->mutation);
    return t;
}

/* ---- the public function --------------------------------------------------------------- */

static region *region_new(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                          bool preserve_rng_state) {
    region *r = rgi_alloc(sizeof *r, RG_MEM_OTHER);
    if (!r)
        return NULL;
    *r = (region){ .refs = 1,
                   .f = f,
                   .context = context,
                   .preserve_rng_state = preserve_rng_state,
                   .autocast = rgi_autocast_now() };
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        rg_tensor *t = inputs[i];
        const bool none = rgi_is_none(t);
        r->in[i] = none ? t : rgi_alias(t);
        r->wants_grad[i] = !none && t->history;
        r->version[i] = none ? 0 : t->storage->version;
        ok = r->in[i] != NULL;
        r->n = ok ? i + 1 : i;
    }
    if (ok)
        return r;
    region_release(r);
    return NULL;
}

static rg_tensor *call_first(region *r, rg_tensor *const in[]) {
    if (!r->preserve_rng_state)
        return r->f(in, r->context);
    rgi_rewind_begin(&r->random);
    rg_tensor *y = r->f(in, r->context);
    rgi_rewind_end(&r->random);
    return y;
}

/* Fails unless f can use the input t. If f's calls are recorded, gives a stale view its history. */
static bool is_usable(rg_tensor *t) {
    return rgi_check(t, "checkpoint") && (rgi_grad_off || rgi_renew(t, "checkpoint"));
}

rg_tensor *(rg_checkpoint_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                                rg_checkpoint_options options) {
    RG_SCOPE();
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !f || (n > 0 && !inputs), "checkpoint",
                  "expected a function and its inputs but got NULL");
    RG_FAIL_VALUE_IF(n < 0 || n > MOST_CHECKPOINTED, "checkpoint",
                     "takes up to %d inputs, but got %d", MOST_CHECKPOINTED, n);
    for (int i = 0; i < n; i++)
        if (!rgi_is_none(inputs[i]) && !is_usable(inputs[i]))
            return NULL;
    if (!rgi_may_do_once("checkpoint"))
        return NULL;
    region *r = region_new(f, context, n, inputs, options.preserve_rng_state);
    if (!r)
        return NULL;
    const rg_saved_hooks hooks = { number_value, fetch_value, drop_place, r };
    rg_tensor *in[MOST_CHECKPOINTED + RG_INPUTS_BEHIND], *y = NULL;
    rgi_inputs_copy(in, n, inputs);
    const int64_t before = rgi_failures();
    if (rg_push_saved_hooks(hooks)) {
        y = call_first(r, in);
        rg_pop_saved_hooks();
    }
    region_release(r);
    return rgi_returned(y, before, "checkpoint") ? rg_escape(y) : NULL;
}

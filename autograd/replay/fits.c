/*
 * fits.c: finds out whether a recorded step can still be repeated, after the program has registered
 * hooks, replaced modules, given tensors other data, or changed their requires_grad.
 */
#include "recording.h"

/* Fails if a module that the step has called was freed after the recording. That happens, too, if
 * another module takes its place in its parent. */
static bool has_its_modules(const rg_replay *r) {
    for (size_t i = 0; i < r->called.n; i++)
        RG_FAIL_IF(((const rg_hook_count *)r->called.v[i])->hooks < 0, "replay_run",
                   "a module that the step calls has been freed or replaced since the step was "
                   "recorded; record the step again");
    return true;
}

/* Fails if a held tensor has a hook, or if a module that the step has called has one. */
static bool is_without_hooks(const rg_replay *r) {
    bool hooked = false;
    for (size_t i = 0; i < r->called.n && !hooked; i++)
        hooked = ((const rg_hook_count *)r->called.v[i])->hooks > 0;
    for (size_t i = 0; i < r->held.n && !hooked; i++) {
        const rg_tensor *t = r->held.v[i];
        hooked = t->history && rgi_has_hooks((const rg_node *)t->history);
    }
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, hooked, "replay_run",
                  "a hook has been registered since the step was recorded, on a tensor of the step "
                  "or on a module that the step calls, and a run can't call it; remove the hook, "
                  "or call the step itself");
    return true;
}

/* Returns whether a held tensor that had this storage when the step was recorded still has it. A
 * tensor that had another storage at that time doesn't count, even if its present storage has the
 * same address: the address may have been used again. */
static bool is_still_used(const rg_replay *r, const rg_storage *storage) {
    for (size_t i = 0; i < r->held.n; i++)
        if (r->data[i].storage == storage
            && ((const rg_tensor *)r->held.v[i])->storage == storage)
            return true;
    return false;
}

/* Returns whether t still has the strides stride[]. The stride of a dim of size 1 may differ, since
 * no element's address depends on it. */
static bool lies_as_recorded(const rg_tensor *t, const int64_t *stride) {
    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] != 1 && t->stride[d] != stride[d])
            return false;
    return true;
}

bool rgi_recording_computes(const rg_replay *r, const rg_storage *s) {
    for (size_t i = 0; i < r->held.n; i++)
        if (r->data[i].computed && ((const rg_tensor *)r->held.v[i])->storage == s)
            return true;
    return false;
}

/* Returns whether the held tensor with this index, which has been given other data, shares them
 * with another held tensor, and a run computes one of the two. A call would compute it in new
 * memory, but a run writes over the data. */
static bool shares_with_result(const rg_replay *r, size_t index) {
    const rg_tensor *t = r->held.v[index];
    for (size_t i = 0; i < r->held.n; i++) {
        const rg_tensor *other = r->held.v[i];
        if (other != t && other->storage == t->storage
            && (r->data[i].computed || r->data[index].computed))
            return true;
    }
    return false;
}

/* Fails if the held tensor with this index has been given data that a run can't use. */
static bool suits_data(const rg_replay *r, size_t index) {
    const rg_tensor *t = r->held.v[index];
    const rg_storage *before = r->data[index].storage;
    if (t->storage == before)
        return true;
    RG_FAIL_IF(is_still_used(r, before), "replay_run",
               "a tensor has been given other data since the step was recorded, while its views "
               "or saved values have the old data; record the step again");
    RG_FAIL_IF(shares_with_result(r, index), "replay_run",
               "a tensor has been given data that it shares with a result of the step, and a run "
               "writes over results; give it a clone, or record the step again");
    return true;
}

/* Asks the operations whether the objects on which they work are as they were recorded. */
static bool operations_fit(const rg_replay *r) {
    const rg_replay_entry *entries = r->uncompile ? r->original : r->entries;
    const size_t n = r->uncompile ? r->n_original : r->n_entries;
    for (size_t i = 0; i < n; i++)
        if (entries[i].fits && !entries[i].fits(entries[i].context))
            return false;
    return true;
}

bool rgi_recording_is_current(const rg_replay *r) {
    if (!has_its_modules(r) || !operations_fit(r))
        return false;
    const int64_t *stride = r->strides;
    for (size_t i = 0; i < r->held.n; i++) {
        const rg_tensor *t = r->held.v[i];
        RG_FAIL_IF(t->dtype != r->data[i].dtype, "replay_run",
                   "a tensor of dtype %s has been given data of dtype %s since the step was "
                   "recorded; record the step again",
                   rg_dtype_name(r->data[i].dtype), rg_dtype_name((rg_dtype)t->dtype));
        RG_FAIL_IF(!lies_as_recorded(t, stride), "replay_run",
                   "a tensor has been given data with other strides since the step was recorded; "
                   "record the step again, or copy the data into the tensor (rg_copy_)");
        stride += t->ndim;
        if (!suits_data(r, i))
            return false;
        const bool settled = !(t->flags & RG_VIEW) && !r->data[i].computed;
        const bool other = settled && (t->history != NULL) != r->data[i].tracked;
        RG_FAIL_IF(rgi_tensor_leaf(t) != r->data[i].leaf || other, "replay_run",
                   "requires_grad of a tensor has been changed since the step was recorded; record "
                   "the step again");
    }
    return true;
}

bool rgi_recording_fits(rg_replay *r) {
    /* The number of changes is read before the comparison. If there is a change during it, the next
     * call compares the tensors again. */
    const uint32_t changes = rgi_changes();
    if (!rgi_recording_is_current(r) || !is_without_hooks(r))
        return false;
    r->changes = changes;
    return true;
}

/*
 * parts.c: lowers single operations of a recorded step: finds the calls of loops that a run of each
 * operation makes. In contrast to lower.c, an operation that can't be lowered is left out, and the
 * loops are those of the running instruction set.
 *
 * Only operations that compute outputs from inputs are run here. Those that draw random numbers,
 * change gradients of leaves or update parameters are never run, so that the program notices
 * nothing.
 */
#include "parts.h"
#include "recording.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"

#include <string.h>

/* An operation is small if its operands have at most SMALL_BYTES bytes. A larger one isn't lowered:
 * its time is that of its loops, which threads can share. */
enum { SMALL_BYTES = 64 << 10 };

/* ---- the entries that are lowered -------------------------------------------------------- */

static size_t operand_bytes(rg_tensor *const *t, int n) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (t[i] && t[i] != RG_NONE)
            bytes += (size_t)t[i]->numel * rgi_sizeof((rg_dtype)t[i]->dtype);
    return bytes;
}

/* Returns whether an input is a tensor of integers that the step itself computes. They may be
 * indices, and aren't valid ones if the entry that computes them isn't run. */
static bool reads_computed_integers(const rg_lowered *l, const rg_computation *c) {
    for (int i = 0; i < c->n_in; i++) {
        const rg_tensor *t = c->in[i];
        if (t && t != RG_NONE && rgi_is_index((rg_dtype)t->dtype)
            && l->known[rgi_lowered_region(l, t->storage)].computed)
            return true;
    }
    return false;
}

static bool is_small(const rg_computation *c) {
    return operand_bytes(c->in, c->n_in) + operand_bytes(c->out, c->n_out) <= SMALL_BYTES;
}

/* ---- finding the calls ---------------------------------------------------------------- */

/* Runs entry i, and notes its calls. Returns false, and notes none, if it can't be lowered. */
static bool lower_entry(rg_replay *r, rg_lowered *l, size_t i) {
    k_trace *t = &l->trace;
    const size_t calls = t->n_calls, values = t->n_values, regions = t->n_regions;
    rg_failure aside;
    rgi_set_failure_aside(&aside);
    t->mark = i;
    k_trace_begin(t, true);
    const bool done = r->entries[i].redo(r->entries[i].context);
    k_trace_end();
    const bool had_memory = rgi_attempt_had_memory(&aside);
    t->failed = t->failed || !had_memory;
    if (done && !t->failed)
        return true;
    t->n_calls = calls;
    t->n_values = values;
    t->n_regions = regions;
    /* A call that can't be noted only means that this entry isn't lowered. */
    t->failed = t->failed && !*t->refused;
    *t->refused = 0;
    return false;
}

/* ---- comparing ------------------------------------------------------------------------ */

/* Fills all that the step computes with a pattern, so that a comparison fails if the calls don't
 * write a result. A float32 becomes about 0.75, a float64 about 0.0005, a bool true, and an integer
 * 0, which is a valid index. */
static void write_over_results(const rg_lowered *l) {
    static const struct {
        rg_dtype dtype;
        int byte;
    } fill[] = { { RG_FLOAT32, 0x3f }, { RG_FLOAT64, 0x3f }, { RG_BOOL, 1 }, { RG_INT64, 0 } };
    for (int k = 0; k < RG_COUNT(fill); k++)
        for (size_t i = 0; i < l->n; i++)
            if (l->known[i].computed && l->known[i].tensor->dtype == fill[k].dtype)
                memset(l->trace.regions[i].begin, fill[k].byte, l->trace.regions[i].bytes);
}

/* Changes an input: moves its elements by one place or, if it has a single floating-point element,
 * multiplies that by 0.75. */
static void change_elements(const rg_tensor *t, const k_region *region) {
    const rg_dtype dtype = (rg_dtype)t->dtype;
    rgi_turn_elements(region->begin, region->bytes, dtype);
    if (region->bytes == rgi_sizeof(dtype) && rgi_is_float(dtype))
        rgi_store_f64(region->begin, dtype, 0.75 * rgi_load_f64(region->begin, dtype));
}

static void change_inputs(const rg_lowered *l) {
    for (size_t i = 0; i < l->n; i++)
        if (!l->known[i].computed)
            change_elements(l->known[i].tensor, &l->trace.regions[i]);
}

/* Runs entries of the recording `replay`. */
static bool redo_range(void *replay, size_t first, size_t last) {
    const rg_replay *r = replay;
    for (size_t i = first; i < last; i++)
        if (!r->entries[i].redo(r->entries[i].context))
            return false;
    return true;
}

/* Adds the memory of the n tensors, from the first to the last element of each. Returns false if
 * memory ran out. */
static bool add_ranges(rg_ranges *ranges, rg_tensor *const *tensors, size_t n) {
    if (!rgi_grow((void **)&ranges->v, &ranges->room, ranges->n + n, sizeof *ranges->v))
        return false;
    for (size_t i = 0; i < n; i++) {
        const rg_tensor *t = tensors[i];
        if (!t || t == RG_NONE || !t->numel)
            continue;
        int64_t last = 0;
        for (int d = 0; d < t->ndim; d++)
            last += (t->size[d] - 1) * t->stride[d];
        const size_t element = rgi_sizeof((rg_dtype)t->dtype);
        ranges->v[ranges->n++] = (rg_range){ t->data, ((size_t)last + 1) * element };
    }
    return true;
}

/* Makes the list of the memory on which the entries first .. last - 1 work. Returns false if memory
 * ran out. */
static bool find_ranges(rg_ranges *ranges, const rg_replay *r, size_t first, size_t last) {
    bool ok = true;
    ranges->n = 0;
    for (size_t i = first; i < last && ok; i++) {
        rg_computation c;
        rgi_entry_computes(&r->entries[i], &c);
        ok = add_ranges(ranges, c.in, (size_t)c.n_in) && add_ranges(ranges, c.out, (size_t)c.n_out)
             && add_ranges(ranges, c.made, c.n_made) && add_ranges(ranges, &c.buffer, 1);
    }
    return ok;
}

/* With at most FEW_RANGES ranges of entries, all memory is compared, so that a write to other
 * memory than that of the operands is noticed, too. With more that would take too long. */
enum { FEW_RANGES = 64 };

static bool are_few(const rg_parts *p, const bool begins[]) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += begins[i];
    return n <= FEW_RANGES;
}

/* Compares each range once, in the order of the step. Returns false if memory ran out. */
static bool compare_once(rg_replay *r, const rg_parts *p, const bool begins[], rg_run_range *run,
                         void *context, rg_ranges *ranges, bool equal[]) {
    const bool few = are_few(p, begins);
    size_t end;
    for (size_t i = 0; i < p->n; i = end) {
        end = i + 1;
        if (begins[i]) {
            while (end < p->n && p->is_lowered[end] && !begins[end])
                end++;
            bool same;
            if (!find_ranges(ranges, r, i, end)
                || !rgi_lowered_compare(&p->lowered, few ? NULL : ranges, i, end, redo_range, r,
                                        run, context, &same))
                return false;
            equal[i] = equal[i] && same;
        } else if (p->computes[i]) {
            redo_range(r, i, end);
        }
    }
    return true;
}

bool rgi_parts_compare(rg_replay *r, const rg_parts *p, const bool begins[], rg_run_range *run,
                       void *context, bool equal[]) {
    enum { TURNS = 3 };
    const rg_lowered *l = &p->lowered;
    rg_ranges ranges = { NULL, 0, 0 };
    rg_memory_copy before = rgi_lowered_copy(l, NULL);
    if (!before.bytes)
        return false;
    rg_failure aside;
    rgi_set_failure_aside(&aside);
    size_t mark = rg_scope_begin();
    memset(equal, true, p->n);
    bool had_memory = true;
    for (int turn = 0; turn < TURNS && had_memory; turn++) {
        write_over_results(l);
        had_memory = compare_once(r, p, begins, run, context, &ranges, equal);
        change_inputs(l);
    }
    rg_scope_end(mark);
    had_memory = rgi_attempt_had_memory(&aside) && had_memory;
    rgi_lowered_put_back(l, &before);
    rgi_lowered_free_copy(&before);
    rgi_free(ranges.v, ranges.room * sizeof *ranges.v, RG_MEM_OTHER);
    return had_memory;
}

/* ---- lowering ------------------------------------------------------------------------- */

void rgi_parts_remove_calls(rg_parts *p) {
    k_trace *t = &p->lowered.trace;
    size_t kept = 0;
    for (size_t i = 0; i < t->n_calls; i++)
        if (p->is_lowered[t->calls[i].mark])
            t->calls[kept++] = t->calls[i];
    t->n_calls = kept;
}

/* Marks each entry as not lowered whose calls compute something else, and removes these calls. */
static bool leave_out_others(rg_replay *r, rg_parts *p) {
    k_trace *t = &p->lowered.trace;
    bool *equal = rgi_alloc(p->n * sizeof *equal, RG_MEM_OTHER);
    const bool done = equal && rgi_parts_compare(r, p, p->is_lowered, rgi_lowered_run, t, equal);
    for (size_t i = 0; i < p->n && done; i++)
        p->is_lowered[i] = p->is_lowered[i] && equal[i];
    rgi_free(equal, p->n * sizeof *equal, RG_MEM_OTHER);
    rgi_parts_remove_calls(p);
    return done;
}

/* Finds the calls of the entries that can be lowered. Returns false if memory ran out. */
static bool find_calls(rg_replay *r, rg_parts *p) {
    rg_lowered *l = &p->lowered;
    rg_memory_copy before = rgi_lowered_copy(l, NULL);
    if (!before.bytes)
        return false;
    size_t mark = rg_scope_begin();
    for (size_t i = 0; i < p->n && !l->trace.failed; i++) {
        rg_computation c;
        p->computes[i] = rgi_entry_computes(&r->entries[i], &c) && !reads_computed_integers(l, &c);
        p->is_lowered[i] = p->computes[i] && !c.checks_itself && is_small(&c)
                           && lower_entry(r, l, i);
    }
    rg_scope_end(mark);
    rgi_lowered_put_back(l, &before);
    rgi_lowered_free_copy(&before);
    return !l->trace.failed;
}

bool rgi_parts_lower(rg_replay *r, rg_parts *to) {
    *to = (rg_parts){ .n = r->n_entries };
    to->is_lowered = rgi_alloc(to->n * sizeof *to->is_lowered, RG_MEM_OTHER);
    to->computes = rgi_alloc(to->n * sizeof *to->computes, RG_MEM_OTHER);
    return to->is_lowered && to->computes && rgi_lowered_begin(r, &to->lowered) && find_calls(r, to)
           && leave_out_others(r, to);
}

void rgi_parts_free(rg_parts *p) {
    rgi_lowered_free(&p->lowered);
    rgi_free(p->is_lowered, p->n * sizeof *p->is_lowered, RG_MEM_OTHER);
    rgi_free(p->computes, p->n * sizeof *p->computes, RG_MEM_OTHER);
}

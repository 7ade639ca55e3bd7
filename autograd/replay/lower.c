/*
 * lower.c: lowers a recorded step: finds the calls of loops that a repetition of the step makes,
 * with all of their arguments. These calls must compute what the repetition computes, also after
 * further steps and with other inputs. An operation whose calls depend on values, or that computes
 * without loops, doesn't pass.
 */
#include "lower.h"
#include "recording.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"

/* The function that each failure names. */
static const char name[] = "replay_to_c";

/* ---- the memory of a step ---------------------------------------------------------- */

int rgi_lowered_region(const rg_lowered *l, const rg_storage *s) {
    return (int)rgi_map_address(&l->numbers, s);
}

/* Returns the address behind the last element of a tensor. */
static const char *end_of(const rg_tensor *t) {
    const size_t size = rgi_sizeof((rg_dtype)t->dtype);
    return t->data + (t->numel ? (size_t)(rgi_reach(t) + 1) * size : 0);
}

bool rgi_lowered_overlap(const rg_tensor *a, const rg_tensor *b) {
    return a->data < end_of(b) && b->data < end_of(a);
}

/* Adds a region of memory that is there before the step. `t` is NULL if it isn't a tensor's.
 * Returns false if memory ran out. */
static bool add_region(rg_lowered *l, void *begin, size_t bytes, rg_tensor *t, bool computed) {
    if (!rgi_grow((void **)&l->known, &l->room, l->n + 1, sizeof *l->known)
        || k_trace_region(&l->trace, begin, bytes, false) < 0
        || (t && !rgi_map_put_address(&l->numbers, t->storage, (int64_t)l->n)))
        return false;
    l->known[l->n++] = (rg_known_region){ t ? t->storage : NULL, t, computed };
    return true;
}

bool rgi_lowered_begin(const rg_replay *r, rg_lowered *l) {
    for (size_t i = 0; i < r->held.n; i++) {
        rg_tensor *t = r->held.v[i];
        const rg_storage *s = t->storage;
        const int known = rgi_lowered_region(l, s);
        if (known >= 0)
            l->known[known].computed = l->known[known].computed && r->data[i].computed;
        else if (!add_region(l, s->data, s->bytes, t, r->data[i].computed))
            return false;
    }
    return true;
}

/* Returns the number of the region that begins at this address, or -1. */
static int region_from(const rg_lowered *l, const void *begin) {
    for (size_t i = 0; i < l->n; i++)
        if (l->trace.regions[i].begin == begin)
            return (int)i;
    return -1;
}

/* Makes a region of each other block of memory that an entry uses. It isn't computed, since the
 * entry may read what the last step has left there. Returns false if memory ran out. */
static bool find_blocks(const rg_replay *r, rg_lowered *l) {
    const int64_t failures = rgi_failures();
    for (size_t i = 0; i < r->n_entries; i++) {
        const rg_replay_entry *e = &r->entries[i];
        void *block;
        size_t bytes;
        for (size_t k = 0; e->state && (block = e->state(e->context, k, &bytes)); k++)
            if (region_from(l, block) < 0 && !add_region(l, block, bytes, NULL, false))
                return false;
    }
    return rgi_failures() == failures;
}

static size_t number_of_ranges(const rg_lowered *l, const rg_ranges *of) {
    return of ? of->n : l->n;
}

/* Returns the i-th of the ranges. */
static rg_range range_number(const rg_lowered *l, const rg_ranges *of, size_t i) {
    const k_region *region = &l->trace.regions[of ? 0 : i];
    return of ? of->v[i] : (rg_range){ region->begin, region->bytes };
}

rg_memory_copy rgi_lowered_copy(const rg_lowered *l, const rg_ranges *of) {
    rg_memory_copy c = { NULL, 1, of };
    const size_t n = number_of_ranges(l, of);
    for (size_t i = 0; i < n; i++)
        c.size += range_number(l, of, i).bytes;
    c.bytes = rgi_alloc(c.size, RG_MEM_OTHER);
    char *to = c.bytes;
    for (size_t i = 0; i < n && to; i++) {
        const rg_range range = range_number(l, of, i);
        memcpy(to, range.begin, range.bytes);
        to += range.bytes;
    }
    return c;
}

void rgi_lowered_put_back(const rg_lowered *l, const rg_memory_copy *c) {
    const char *from = c->bytes;
    for (size_t i = 0; i < number_of_ranges(l, c->of); i++) {
        const rg_range range = range_number(l, c->of, i);
        memcpy(range.begin, from, range.bytes);
        from += range.bytes;
    }
}

bool rgi_lowered_equals(const rg_lowered *l, const rg_memory_copy *c) {
    const char *from = c->bytes;
    for (size_t i = 0; i < number_of_ranges(l, c->of); i++) {
        const rg_range range = range_number(l, c->of, i);
        if (memcmp(range.begin, from, range.bytes) != 0)
            return false;
        from += range.bytes;
    }
    return true;
}

void rgi_lowered_free_copy(rg_memory_copy *c) { rgi_free(c->bytes, c->size, RG_MEM_OTHER); }

/* ---- runs of the step ----------------------------------------------------------------- */

/* A tracer that notes nothing, and gives the thread the loops of the first set. */
static k_function *first_set(const void *row, k_function *loop, const char *table, int dtype) {
    (void)row;
    (void)table;
    (void)dtype;
    return loop;
}

/* Repeats the step with the loops of the first set. Notes their calls in t, unless t is NULL. */
static bool run_in_first_set(rg_replay *r, k_trace *t) {
    if (t)
        k_trace_begin(t, false);
    else
        k_trace_by(first_set, false);
    size_t now;
    const bool ok = rgi_replay_repeat(r, t ? &t->mark : &now);
    if (t)
        k_trace_end();
    else
        k_trace_by(NULL, false);
    return ok;
}

/* Calls act(t, region, temporary) for each temporary region that the noted calls with the marks
 * first .. last - 1 use, once for each place in it. Returns false as soon as a call does. */
typedef bool temporary_action(const k_trace *t, int region, char *temporary[]);
static bool for_temporaries(const k_trace *t, size_t first, size_t last, temporary_action *act,
                            char *temporary[]) {
    for (size_t i = k_trace_first(t, first); i < t->n_calls && t->calls[i].mark < last; i++)
        for (size_t k = 0; k < t->calls[i].count; k++) {
            const k_value *v = &t->values[t->calls[i].first + k];
            if (v->kind == K_PLACE && t->regions[v->region].temporary
                && !act(t, v->region, temporary))
                return false;
        }
    return true;
}

static bool forget_temporary(const k_trace *t, int region, char *temporary[]) {
    (void)t;
    temporary[region] = NULL;
    return true;
}

/* Allocates the region's memory, and fills it with NaNs. A call that reads it before any call has
 * written to it then computes NaNs, and the comparison fails. */
static bool make_temporary(const k_trace *t, int region, char *temporary[]) {
    if (temporary[region])
        return true;
    temporary[region] = rgi_alloc(t->regions[region].bytes, RG_MEM_OTHER);
    if (temporary[region])
        memset(temporary[region], 0xff, t->regions[region].bytes);
    return temporary[region];
}

static bool free_temporary(const k_trace *t, int region, char *temporary[]) {
    rgi_free(temporary[region], t->regions[region].bytes, RG_MEM_OTHER);
    temporary[region] = NULL;
    return true;
}

bool rgi_lowered_run(void *trace, size_t first, size_t last) {
    const k_trace *t = trace;
    const size_t bytes = t->n_regions * sizeof(char *);
    char **temporary = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!temporary)
        return false;
    for_temporaries(t, first, last, forget_temporary, temporary);
    const bool ok = for_temporaries(t, first, last, make_temporary, temporary);
    if (ok)
        k_trace_repeat(t, first, last, temporary);
    for_temporaries(t, first, last, free_temporary, temporary);
    rgi_free(temporary, bytes, RG_MEM_OTHER);
    return ok;
}

void rgi_turn_elements(char *data, size_t bytes, rg_dtype dtype) {
    const size_t size = rgi_sizeof(dtype);
    if (bytes > size)
        memmove(data, data + size, bytes - size);
}

static void turn_inputs(rg_list inputs) {
    for (int i = 0; i < inputs.n; i++) {
        const rg_tensor *t = inputs.v[i];
        rgi_turn_elements(t->data, rgi_bytes_of(t), (rg_dtype)t->dtype);
    }
}

/* Sets to zero all that the step computes, so that a result which the calls don't write is noticed.
 * Zero is a valid index. */
static void clear_results(const rg_lowered *l) {
    for (size_t i = 0; i < l->n; i++)
        if (l->known[i].computed)
            memset(l->trace.regions[i].begin, 0, l->trace.regions[i].bytes);
}

/* Fails for the operation with index `at`. */
static bool refuse_entry(const rg_replay *r, size_t at, const char *because) {
    return rgi_fail(RG_NOT_IMPLEMENTED, name, "no C can be written yet for %s, which %s",
                    r->entries[at].op, because);
}

bool rgi_lowered_compare(const rg_lowered *l, const rg_ranges *of, size_t first, size_t last,
                         rg_run_range *own, void *own_context, rg_run_range *other,
                         void *other_context, bool *equal) {
    rg_memory_copy before = rgi_lowered_copy(l, of);
    const bool done = before.bytes && own(own_context, first, last);
    rg_memory_copy wanted = { NULL, 0, of };
    if (before.bytes)
        wanted = rgi_lowered_copy(l, of);
    const bool had_memory = wanted.bytes;
    *equal = false;
    if (had_memory) {
        rgi_lowered_put_back(l, &before);
        *equal = done && other(other_context, first, last) && rgi_lowered_equals(l, &wanted);
        rgi_lowered_put_back(l, &wanted);
    }
    rgi_lowered_free_copy(&before);
    rgi_lowered_free_copy(&wanted);
    return had_memory;
}

/* Runs entries of the recording `replay` with the loops of the first set. */
static bool redo_in_first_set(void *replay, size_t first, size_t last) {
    const rg_replay *r = replay;
    bool done = true;
    k_trace_by(first_set, false);
    for (size_t i = first; i < last && done; i++)
        done = r->entries[i].redo(r->entries[i].context);
    k_trace_by(NULL, false);
    return done;
}

/* Returns the index of the first entry whose noted calls compute something else than the entry.
 * Requires that there is one. If memory runs out, returns the entry that was compared then. */
static size_t find_other(rg_replay *r, rg_lowered *l) {
    bool equal = true;
    size_t i = 0;
    while (i + 1 < r->n_entries
           && rgi_lowered_compare(l, NULL, i, i + 1, redo_in_first_set, r, rgi_lowered_run,
                                  &l->trace, &equal)
           && equal)
        i++;
    return i;
}

/* Repeats the step on the present memory, makes the noted calls on the same memory, and compares
 * the results. */
static bool calls_compute_it(rg_replay *r, rg_lowered *l) {
    clear_results(l);
    rg_memory_copy before = rgi_lowered_copy(l, NULL);
    bool ok = before.bytes && run_in_first_set(r, NULL);
    rg_memory_copy wanted = { NULL, 0, NULL };
    if (ok)
        wanted = rgi_lowered_copy(l, NULL);
    ok = wanted.bytes;
    if (ok) {
        rgi_lowered_put_back(l, &before);
        ok = rgi_lowered_run(&l->trace, 0, r->n_entries);
    }
    if (ok && !rgi_lowered_equals(l, &wanted)) {
        rgi_lowered_put_back(l, &before);
        ok = refuse_entry(r, find_other(r, l),
                          "computes without the library's loops, or calls them as values say");
    }
    rgi_lowered_free_copy(&before);
    rgi_lowered_free_copy(&wanted);
    return ok;
}

/* Compares the step with its calls three times: on the memory as it is, and after one and two more
 * steps with other inputs. If a kernel reads a number from memory and passes it to a loop, the
 * noted call keeps the old number, and a comparison fails. */
static bool calls_compute_all(rg_replay *r, rg_lowered *l, rg_list inputs) {
    for (int turn = 0; turn < 3; turn++) {
        if (!calls_compute_it(r, l))
            return false;
        turn_inputs(inputs);
    }
    return true;
}

static bool trace_step(rg_replay *r, rg_lowered *l) {
    if (!run_in_first_set(r, &l->trace))
        return false;
    const k_trace *t = &l->trace;
    if (t->failed && *t->refused)
        return refuse_entry(r, t->refused_at,
                            strcmp(t->refused, "widened_copy_loops") == 0
                                ? "converts elements of 8 or 16 bits"
                                : "calls a loop with other arguments than the usual ones");
    return !t->failed;
}

static bool lower_from(rg_replay *r, rg_list inputs, rg_lowered *l) {
    if (!rgi_lowered_begin(r, l) || !find_blocks(r, l))
        return false;
    rg_memory_copy before = rgi_lowered_copy(l, NULL);
    if (!before.bytes)
        return false;
    bool ok = trace_step(r, l);
    rgi_lowered_put_back(l, &before);
    ok = ok && calls_compute_all(r, l, inputs);
    rgi_lowered_put_back(l, &before);
    rgi_lowered_free_copy(&before);
    return ok;
}

/* Makes the checks with which a run begins. */
static bool may_lower(rg_replay *r) {
    RG_AS(name);
    return rgi_replay_may_repeat(r);
}

/* Lowers the step. Afterwards the leaves have the same gradients as before. */
static bool lower_alone(rg_replay *r, rg_list inputs, rg_lowered *l) {
    if (!may_lower(r) || !rgi_recording_knows_gradients(r, name))
        return false;
    rg_tensor **grads = rgi_recording_takes_gradients(r);
    if (!grads)
        return false;
    const bool ok = lower_from(r, inputs, l);
    rgi_recording_puts_gradients_back(r, grads);
    return ok;
}

/* Set while a thread lowers a step. Only one may: the variables of trace.c are global. */
static atomic_bool lowering;

bool rgi_may_lower(rg_replay *r, const char *op) {
    RG_FAIL_IF(atomic_exchange(&lowering, true), op,
               "another thread is writing or compiling a step; one thread at a time can do that");
    if (atomic_exchange(&r->running, true)) {
        lowering = false;
        return rgi_fail(RG_RUNTIME_ERROR, op, "the recorded step is running");
    }
    if (r->uncompile) {
        r->entries = r->original;
        r->n_entries = r->n_original;
    }
    RG_AS(op);
    if (rgi_recording_fits(r))
        return true;
    rgi_lowering_ends(r);
    return false;
}

void rgi_lowering_ends(rg_replay *r) {
    if (r->uncompile) {
        r->entries = r->replacing;
        r->n_entries = r->n_replacing;
    }
    r->running = false;
    lowering = false;
}

bool rgi_replay_lower(rg_replay *r, rg_list inputs, rg_lowered *to) {
    *to = (rg_lowered){ .n = 0 };
    if (!rgi_may_lower(r, name))
        return false;
    const bool ok = lower_alone(r, inputs, to);
    rgi_lowering_ends(r);
    if (!ok)
        rgi_lowered_free(to);
    return ok;
}

void rgi_lowered_free(rg_lowered *l) {
    rgi_map_free(&l->numbers);
    rgi_free(l->known, l->room * sizeof *l->known, RG_MEM_OTHER);
    k_trace_free(&l->trace);
}

/*
 * compile.c: compiles the operations of a recorded step that only compute
 * (autograd/replay/parts.h), and runs the result in their place.
 *
 * Operations that follow each other become one function, a part. A part calls the loops of its
 * operations with sizes and strides that are constants for the compiler, and the C file has the
 * text of these loops. In some instruction sets the library's own loop is written in intrinsics and
 * rounds differently than its text; then the part calls the library's loop by its address.
 */
#include "compile.h"
#include "c_calls.h"
#include "c_loops.h"
#include "code_cache.h"
#include "autograd/replay/parts.h"
#include "autograd/replay/recording.h"
#include "tensor/files/file.h"
#include "tensor/handle.h"
#include "tensor/kernels/kernels.h"
#include "tensor/messages/callback.h"
#include "tensor/messages/warning.h"
#include "tensor/observer.h"
#include "tensor/system/system.h"

#include <string.h>

/* The name of the function in error messages. */
static const char compile_name[] = "replay_compile";

/* A part of the compiled step. Region i of the step's memory begins at r[i], and f[] are the loops
 * of the library that the part calls. */
typedef void part_function(char *const r[], k_function *const f[]);

typedef struct compiled_step compiled_step;
typedef struct {
    compiled_step *step;
    part_function *run;
} compiled_part;

/* The compiled step. begins[i] is set if entry i of the recording begins a part, which is parts[i].
 * Region i of the step's memory begins at base[i]. loops[k] is the library's loop for calls of kind
 * k. `changes` is the value that rgi_changes() had when base[] was last known to be right.
 * held_region[i] is the region of the recording's held tensor i, and held_offset[i] the offset of
 * its data in the region. `temporary` is the memory of the regions that belong to no tensor.
 * `entries` are those that replace the recorded ones. */
struct compiled_step {
    rg_replay *replay;
    void *code;
    compiled_part *parts;
    bool *begins;
    size_t n_parts;
    char **base;
    size_t n_regions;
    k_function **loops;
    size_t n_loops;
    int *held_region;
    int64_t *held_offset;
    uint32_t changes;
    char *temporary;
    size_t temporary_bytes;
    rg_replay_entry *entries;
    size_t n_entries;
};

/* ---- the parts ------------------------------------------------------------------------ */

/* Sets s->begins and s->n_parts. A part begins at a lowered entry that follows an entry which isn't
 * lowered, and at one that has values to check, since make_entries puts the check before the part.
 */
static void find_parts(compiled_step *s, const rg_parts *p) {
    for (size_t i = 0; i < p->n; i++) {
        rg_computation c;
        const bool follows = i > 0 && p->is_lowered[i - 1];
        rgi_entry_computes(&s->replay->entries[i], &c);
        s->begins[i] = p->is_lowered[i] && (!follows || c.check);
        s->n_parts += s->begins[i];
    }
}

/* ---- the text ------------------------------------------------------------------------- */

/* The kinds of the calls. kind[i] is the kind of call i, and first[k] the first call of kind k.
 * by_pointer[k] is set if the calls of kind k call the library's loop, and not its text. */
typedef struct {
    int *kind;
    size_t *first;
    bool *by_pointer;
    int n;
} call_kinds;

/* Adds a function for each kind of call. */
static void add_kinds(rg_text *text, const c_calls *calls, const call_kinds *kinds) {
    rgi_text_add(text, "\ntypedef void library_loop(void);\n");
    for (int k = 0; k < kinds->n; k++)
        rgi_c_calls_define(calls, kinds->first[k], kinds->by_pointer[k] ? k : -1);
}

/* Adds a function for each part, and the array `parts` of these functions. */
static void add_parts(rg_text *text, const compiled_step *s, const rg_parts *p,
                      const call_kinds *kinds) {
    const k_trace *t = &p->lowered.trace;
    const c_calls calls = { text, t, NULL, kinds->kind, kinds->by_pointer };
    add_kinds(text, &calls, kinds);
    size_t part = 0, call = 0;
    for (size_t i = 0; i < p->n;) {
        if (!s->begins[i]) {
            i++;
            continue;
        }
        rgi_text_add(text,
                     "\nstatic __attribute__((flatten)) void part%zu(char *const r[], "
                     "library_loop *const f[]) {\n",
                     part++);
        do
            i++;
        while (i < p->n && p->is_lowered[i] && !s->begins[i]);
        const size_t first = call;
        while (call < t->n_calls && t->calls[call].mark < i)
            call++;
        rgi_c_calls_add(&calls, first, call);
        rgi_text_add(text, "}\n");
    }
    rgi_text_add(text, "\nvoid (*const parts[])(char *const[], library_loop *const[]) = {");
    for (size_t i = 0; i < part; i++)
        rgi_text_add(text, "%s part%zu", i ? "," : "", i);
    rgi_text_add(text, " };\n");
}

/* ---- the compiler --------------------------------------------------------------------- */

/* The options of every list. Products and sums must be rounded apart. Accesses of two loops to the
 * same memory must not be exchanged: one may write floats where the other reads integers. That
 * errno and traps don't matter lets the compiler vectorise more loops. */
#define SAME_BITS \
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing"

/* Returns the options of the compiler for the running instruction set. */
static const char *const *options_now(void) {
#ifdef K_X86
    static const char *const avx512[] = {
        SAME_BITS, "-mavx512f",           "-mavx512dq",      "-mavx512bw", "-mavx512vl", "-mavx2",
        "-mfma",   "-DK_VECTOR_BYTES=64", "-DK_TILE_ROWS=8", "-DK_FUSED",  NULL
    };
    static const char *const avx2[] = {
        SAME_BITS, "-mavx2", "-mfma", "-DK_VECTOR_BYTES=32", "-DK_TILE_ROWS=6", "-DK_FUSED", NULL
    };
    if (k_set_now() == K_AVX512)
        return avx512;
    if (k_set_now() == K_AVX2)
        return avx2;
#endif
    static const char *const base[] = { SAME_BITS, NULL };
    return base;
}

static void add_options(rg_text *text, const char *const options[]) {
    rgi_text_add(text, "/* The parts of a recorded step, compiled with");
    for (int i = 0; options[i]; i++)
        rgi_text_add(text, " %s", options[i]);
    rgi_text_add(text, " */\n");
}

/* Writes, compiles and loads the parts. Returns the handle of the code, or NULL on failure. */
static void *compile_parts(const compiled_step *s, const rg_parts *p, const call_kinds *kinds) {
    RG_SCOPE();
    rg_text text = { 0 };
    const char *const *options = options_now();
    void *code = NULL;
    add_options(&text, options);
    if (rgi_c_loops_add(&text, compile_name, &p->lowered.trace)) {
        add_parts(&text, s, p, kinds);
        code = text.failed ? NULL : rgi_compile(compile_name, text.v, text.n, options);
    }
    rgi_text_free(&text);
    return code;
}

/* ---- the memory ----------------------------------------------------------------------- */

/* The tensor number i that the recording holds. */
static const rg_tensor *held_tensor(const compiled_step *s, size_t i) {
    return s->replay->held.v[i];
}

/* Returns where the region of the held tensor i begins now. */
static char *begin_now(const compiled_step *s, size_t i) {
    return held_tensor(s, i)->data - s->held_offset[i];
}

/* Fails if the held tensor i overlaps one of another region: the compiler took them to be apart. */
static bool is_apart(const compiled_step *s, size_t i) {
    const rg_tensor *t = held_tensor(s, i);
    for (size_t k = 0; k < s->replay->held.n; k++) {
        RG_FAIL_IF(s->held_region[k] != s->held_region[i]
                       && rgi_lowered_overlap(t, held_tensor(s, k)),
                   "replay_run",
                   "tensors of the compiled step that were apart have been given memory in common; "
                   "record and compile the step again");
    }
    return true;
}

/* Finds the address at which each region of the tensors begins now. Fails if tensors that shared a
 * region have been given data apart from each other, or the other way round. */
static bool find_bases(compiled_step *s) {
    const size_t n = s->replay->held.n;
    const uint32_t changes = rgi_changes();
    for (size_t i = 0; i < n; i++)
        if (s->base[s->held_region[i]] != begin_now(s, i) && !is_apart(s, i))
            return false;
    for (size_t i = 0; i < n; i++)
        s->base[s->held_region[i]] = begin_now(s, i);
    for (size_t i = 0; i < n; i++)
        RG_FAIL_IF(s->base[s->held_region[i]] != begin_now(s, i), "replay_run",
                   "tensors of the compiled step that shared memory have been given other data; "
                   "record and compile the step again");
    s->changes = changes;
    return true;
}

/* The first entry of the compiled step. A run that fails here has changed nothing. */
static bool find_tensors(void *context) {
    compiled_step *s = context;
    return RG_LIKELY(s->changes == rgi_changes()) || find_bases(s);
}

static bool run_compiled_part(void *context) {
    const compiled_part *part = context;
    compiled_step *s = part->step;
    if (RG_UNLIKELY(!find_tensors(s)))
        return false;
    part->run(s->base, s->loops);
    return true;
}

/* Gives each temporary region a place in one block, at the beginning of a cache line. */
static bool place_temporaries(compiled_step *s, const rg_lowered *l) {
    enum { LINE = 64 };
    const k_trace *t = &l->trace;
    for (size_t i = l->n; i < t->n_regions; i++)
        s->temporary_bytes += RG_ROUND_UP(t->regions[i].bytes, LINE);
    s->temporary = rgi_alloc(s->temporary_bytes, RG_MEM_OTHER);
    if (!s->temporary)
        return false;
    memset(s->temporary, 0, s->temporary_bytes);
    char *at = s->temporary;
    for (size_t i = l->n; i < t->n_regions; i++) {
        s->base[i] = at;
        at += RG_ROUND_UP(t->regions[i].bytes, LINE);
    }
    return true;
}

static bool place_tensors(compiled_step *s, const rg_lowered *l) {
    const rg_pointers *held = &s->replay->held;
    for (size_t i = 0; i < held->n; i++) {
        const rg_tensor *t = held->v[i];
        const int region = rgi_lowered_region(l, t->storage);
        s->held_region[i] = region;
        s->base[region] = l->trace.regions[region].begin;
        s->held_offset[i] = t->data - s->base[region];
    }
    return find_bases(s);
}

/* ---- the compiled step ---------------------------------------------------------------- */

/* The greatest number of entries: each recorded one becomes two at most. */
static size_t entries_room(const compiled_step *s) { return 2 * s->n_entries + 1; }

static void free_step(compiled_step *s) {
    const size_t n_held = s->replay->held.n;
    rgi_unload_code(s->code);
    rgi_free(s->parts, s->n_entries * sizeof *s->parts, RG_MEM_OTHER);
    rgi_free(s->begins, s->n_entries * sizeof *s->begins, RG_MEM_OTHER);
    rgi_free(s->base, s->n_regions * sizeof *s->base, RG_MEM_OTHER);
    rgi_free(s->loops, s->n_loops * sizeof *s->loops, RG_MEM_OTHER);
    rgi_free(s->held_region, n_held * sizeof *s->held_region, RG_MEM_OTHER);
    rgi_free(s->held_offset, n_held * sizeof *s->held_offset, RG_MEM_OTHER);
    rgi_free(s->temporary, s->temporary_bytes, RG_MEM_OTHER);
    rgi_free(s->entries, entries_room(s) * sizeof *s->entries, RG_MEM_OTHER);
    rgi_free(s, sizeof *s, RG_MEM_OTHER);
}

static void uncompile(rg_replay *r) {
    r->entries = r->original;
    r->n_entries = r->n_original;
    r->uncompile = NULL;
    r->compiled_bytes = 0;
    free_step(r->compiled);
}

/* Returns a compiled step without code, or NULL if memory ran out. */
static compiled_step *new_step(rg_replay *r, const rg_parts *p) {
    const k_trace *t = &p->lowered.trace;
    compiled_step *s = rgi_alloc(sizeof *s, RG_MEM_OTHER);
    if (!s)
        return NULL;
    *s = (compiled_step){ .replay = r, .n_regions = t->n_regions, .n_entries = p->n };
    s->n_loops = t->n_calls;
    s->parts = rgi_alloc(s->n_entries * sizeof *s->parts, RG_MEM_OTHER);
    s->begins = rgi_alloc(s->n_entries * sizeof *s->begins, RG_MEM_OTHER);
    s->base = rgi_alloc(s->n_regions * sizeof *s->base, RG_MEM_OTHER);
    s->loops = rgi_alloc(s->n_loops * sizeof *s->loops, RG_MEM_OTHER);
    s->held_region = rgi_alloc(r->held.n * sizeof *s->held_region, RG_MEM_OTHER);
    s->held_offset = rgi_alloc(r->held.n * sizeof *s->held_offset, RG_MEM_OTHER);
    s->entries = rgi_alloc(entries_room(s) * sizeof *s->entries, RG_MEM_OTHER);
    if (s->parts && s->begins && s->base && s->loops && s->held_region && s->held_offset
        && s->entries && place_temporaries(s, &p->lowered) && place_tensors(s, &p->lowered)) {
        find_parts(s, p);
        return s;
    }
    free_step(s);
    return NULL;
}

/* Makes the entries of the compiled step. The first one looks where the tensors are. Then come, for
 * each part, the check of its first entry's values, if there is one, and the part itself; and all
 * entries that weren't lowered. Returns their number. */
static size_t make_entries(compiled_step *s, const rg_parts *p) {
    const rg_replay *r = s->replay;
    size_t n = 0;
    s->entries[n++] = (rg_replay_entry){ .op = compile_name, .redo = find_tensors, .context = s };
    for (size_t i = 0; i < p->n; i++) {
        const rg_replay_entry *e = &r->entries[i];
        if (!p->is_lowered[i])
            s->entries[n++] = *e;
        if (!s->begins[i])
            continue;
        rg_computation c;
        rgi_entry_computes(e, &c);
        if (c.check)
            s->entries[n++] =
                (rg_replay_entry){ .op = e->op, .redo = c.check, .context = e->context };
        s->entries[n++] =
            (rg_replay_entry){ .op = e->op, .redo = run_compiled_part, .context = &s->parts[i] };
    }
    return n;
}

static void free_kinds(call_kinds *k, size_t n_calls) {
    rgi_free(k->kind, n_calls * sizeof *k->kind, RG_MEM_OTHER);
    rgi_free(k->first, n_calls * sizeof *k->first, RG_MEM_OTHER);
    rgi_free(k->by_pointer, n_calls * sizeof *k->by_pointer, RG_MEM_OTHER);
}

/* Finds the kinds of calls, and the library's loop for each. Returns false if memory ran out. */
static bool find_kinds(compiled_step *s, const k_trace *t, call_kinds *k) {
    k->kind = rgi_alloc(t->n_calls * sizeof *k->kind, RG_MEM_OTHER);
    k->first = rgi_alloc(t->n_calls * sizeof *k->first, RG_MEM_OTHER);
    k->by_pointer = rgi_alloc(t->n_calls * sizeof *k->by_pointer, RG_MEM_OTHER);
    if (!k->kind || !k->first || !k->by_pointer)
        return false;
    k->n = rgi_c_call_kinds(t, k->kind, k->first);
    for (int i = 0; i < k->n; i++) {
        k->by_pointer[i] = false;
        s->loops[i] = t->calls[k->first[i]].function;
    }
    return true;
}

/* Compiles and loads the parts. */
static bool load_code_of_parts(compiled_step *s, const rg_parts *p, const call_kinds *kinds) {
    rgi_unload_code(s->code);
    s->code = compile_parts(s, p, kinds);
    part_function *const *run = s->code ? rgi_find_code(s->code, "parts") : NULL;
    if (s->code && !run)
        rgi_warn(compile_name, "the compiled file has no parts, so the step runs as before");
    for (size_t i = 0; i < p->n && run; i++)
        if (s->begins[i])
            s->parts[i] = (compiled_part){ s, *run++ };
    return run;
}

/* Runs the part that begins at entry `first`. */
static bool run_range(void *context, size_t first, size_t last) {
    compiled_step *s = context;
    (void)last;
    return run_compiled_part(&s->parts[first]);
}

/* Compares the parts with the entries. For each call in a part that computes something else, sets
 * by_pointer of the call's kind: when the parts are compiled again, all calls of this kind call the
 * library's loop. Sets *all to whether no part differs. Returns false if memory ran out. */
static bool compare_parts(compiled_step *s, const rg_parts *p, const call_kinds *kinds, bool *all) {
    const k_trace *t = &p->lowered.trace;
    bool *equal = rgi_alloc(p->n * sizeof *equal, RG_MEM_OTHER);
    const bool done = equal && rgi_parts_compare(s->replay, p, s->begins, run_range, s, equal);
    size_t part = 0;
    *all = true;
    for (size_t call = 0; call < t->n_calls && done; call++) {
        const size_t entry = t->calls[call].mark;
        if (s->begins[entry])
            part = entry;
        if (equal[part])
            continue;
        kinds->by_pointer[kinds->kind[call]] = true;
        *all = false;
    }
    rgi_free(equal, p->n * sizeof *equal, RG_MEM_OTHER);
    return done;
}

/* Compiles the parts, and compares them with the entries. If some differ, does both once more, with
 * the library's loops in their place. */
static bool compile_step(compiled_step *s, const rg_parts *p) {
    const size_t n_calls = p->lowered.trace.n_calls;
    call_kinds kinds = { .n = 0 };
    bool all = false;
    bool done = find_kinds(s, &p->lowered.trace, &kinds);
    for (int turn = 0; turn < 2 && done && !all; turn++)
        done = load_code_of_parts(s, p, &kinds) && compare_parts(s, p, &kinds, &all);
    if (done && !all)
        rgi_warn(compile_name,
                 "the compiled step computes something else, so the step runs as before");
    free_kinds(&kinds, n_calls);
    return done && all;
}

/* Stores the entries of the compiled step in the recording. rgi_lowering_ends makes them those that
 * a run repeats. */
static void install(compiled_step *s, const rg_parts *p) {
    rg_replay *r = s->replay;
    const size_t n = make_entries(s, p);
    r->original = r->entries;
    r->n_original = r->n_entries;
    r->replacing = s->entries;
    r->n_replacing = n;
    r->compiled = s;
    r->compiled_bytes = s->temporary_bytes + entries_room(s) * sizeof *s->entries
                        + s->n_regions * sizeof *s->base;
    r->uncompile = uncompile;
}

/* Marks each entry as not lowered that calls a loop without text, and removes its calls. Returns
 * false if memory ran out. */
static bool leave_out_loops_without_text(rg_parts *p) {
    const k_trace *t = &p->lowered.trace;
    const size_t n = t->n_calls;
    bool *has_text = rgi_alloc((n + 1) * sizeof *has_text, RG_MEM_OTHER);
    const bool done = has_text && rgi_c_loops_find(compile_name, t, has_text);
    for (size_t i = 0; i < n && done; i++)
        p->is_lowered[t->calls[i].mark] &= has_text[i];
    rgi_free(has_text, (n + 1) * sizeof *has_text, RG_MEM_OTHER);
    rgi_parts_remove_calls(p);
    return done;
}

static bool compile(rg_replay *r) {
    rg_parts p;
    const bool lowered = rgi_parts_lower(r, &p) && leave_out_loops_without_text(&p);
    compiled_step *s = lowered ? new_step(r, &p) : NULL;
    const bool done = s && (!s->n_parts || compile_step(s, &p));
    if (done && s->n_parts)
        install(s, &p);
    else if (s)
        free_step(s);
    rgi_parts_free(&p);
    return done;
}

bool rg_replay_compile(rg_replay *r) {
    if (rgi_training_halted() || !rgi_may_do_once(compile_name)
        || !rgi_handle_given(r, compile_name, RG_HANDLE_REPLAY) || !rgi_may_lower(r, compile_name))
        return false;
    if (r->uncompile)
        r->uncompile(r);
    const bool done = compile(r);
    rgi_lowering_ends(r);
    return done;
}

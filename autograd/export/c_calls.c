/*
 * c_calls.c: writes noted calls of loops (tensor/kernels/trace.h) as C. Calls that follow each
 * other, and whose arguments differ by equal steps, become a for loop.
 */
#include "c_calls.h"
#include "loop_text.h"

/* ---- numbers and arguments ------------------------------------------------------------ */

const char *rgi_c_type(rg_dtype dtype) {
#define TYPE(NAME, suffix, type, ...) [RG_##NAME] = #type,
    static const char *const types[] = { RG_DTYPES(TYPE, ) };
    return types[dtype];
}

static void add_c_number(rg_text *text, double x) {
    if (x != x)
        rgi_text_add(text, "NAN");
    else if (x - x != 0)
        rgi_text_add(text, x < 0 ? "-INFINITY" : "INFINITY");
    else
        rgi_text_add(text, "%a", x);
}

/* The amount by which an argument grows from one call to the next in a series of similar calls: a
 * difference of whole numbers, or of addresses in bytes. */
typedef int64_t value_step;

static void add_c_whole(rg_text *text, int64_t x, value_step step) {
    if (x == INT64_MIN)
        rgi_text_add(text, "INT64_MIN");
    else
        rgi_text_add(text, "%lld", (long long)x);
    if (step)
        rgi_text_add(text, " + i * (%lld)", (long long)step);
}

/* Adds the address of an element. */
static void add_element(rg_text *text, const k_value *v) {
    const rg_dtype dtype = v->dtype;
    rgi_text_add(text, "(char *)(%s[]){ ", rgi_c_type(dtype));
    if (rgi_is_float(dtype))
        add_c_number(text, rgi_load_f64(&v->bits, dtype));
    else
        add_c_whole(text, rgi_load_i64(&v->bits, dtype), 0);
    rgi_text_add(text, " }");
}

/* Adds an address in the step's memory, as a char * if is_char, and else as a void *. In a for
 * loop, the address grows by `step` bytes in each iteration. */
static void add_c_place(const c_calls *c, const k_value *v, value_step step, bool is_char) {
    const char *cast = is_char ? "" : "(void *)(";
    if (c->offset)
        rgi_text_add(c->text, "%sm + %lld", cast, (long long)(c->offset[v->region] + v->offset));
    else
        rgi_text_add(c->text, "%sr[%d] + %lld", cast, v->region, (long long)v->offset);
    if (step)
        rgi_text_add(c->text, " + i * (%lld)", (long long)step);
    rgi_text_add(c->text, "%s", is_char ? "" : ")");
}

/* Adds a number, a NULL, an element or a loop, which is an argument or lies in an array or a
 * struct. */
static void add_c_value(rg_text *text, const k_value *v, value_step step) {
    char loop[K_LOOP_NAME];
    switch (v->kind) {
    case K_PLACE:
    case K_BEGIN:
    case K_END: break;
    case K_NULL: rgi_text_add(text, "0"); break;
    case K_DOUBLE: add_c_number(text, v->number); break;
    case K_BOOL:
    case K_INT:
    case K_INT64: add_c_whole(text, v->whole, step); break;
    case K_FUNCTION:
        k_trace_function_name(v, loop);
        rgi_text_add(text, "%s", loop);
        break;
    case K_ELEMENT: add_element(text, v); break;
    }
}

static bool is_array(const char *type) {
    return strcmp(type, "char *") == 0 || strcmp(type, "int64_t") == 0
           || strcmp(type, "double") == 0;
}

/* Adds the beginning of an array or of a struct. */
static void add_c_group(rg_text *text, const char *type) {
    if (!type)
        rgi_text_add(text, "{ ");
    else if (*type == '.')
        rgi_text_add(text, "%s = { ", type);
    else if (is_array(type))
        rgi_text_add(text, "(%s[]){ ", type);
    else
        rgi_text_add(text, "&(%s){ ", type);
}

/* One more than the greatest depth of structs and arrays inside each other. */
enum { MOST_DEEP = 8 };

/* Adds the arguments of a call. steps[i] belongs to value i; if the call isn't one of a run,
 * `steps` is NULL. If `as_parameters` is true, the places are p0, p1, .. in the order of the
 * values. */
static void add_arguments(const c_calls *c, const k_traced_call *call, const value_step steps[],
                          bool as_parameters) {
    const k_value *v = c->trace->values + call->first;
    bool first = true, in_chars[MOST_DEEP] = { false };
    int depth = 0, places = 0;
    for (size_t i = 0; i < call->count; i++) {
        if (v[i].kind == K_END) {
            rgi_text_add(c->text, " }");
            depth--;
            continue;
        }
        rgi_text_add(c->text, "%s", first ? "" : ", ");
        first = v[i].kind == K_BEGIN;
        if (first) {
            add_c_group(c->text, v[i].type);
            depth++;
            in_chars[depth] = v[i].type ? strcmp(v[i].type, "char *") == 0 : in_chars[depth - 1];
        } else if (v[i].kind == K_PLACE && as_parameters) {
            rgi_text_add(c->text, "%sp%d", in_chars[depth] ? "" : "(void *)", places++);
        } else if (v[i].kind == K_PLACE) {
            add_c_place(c, &v[i], steps ? steps[i] : 0, in_chars[depth]);
        } else {
            add_c_value(c->text, &v[i], steps ? steps[i] : 0);
        }
    }
}

/* ---- runs of calls -------------------------------------------------------------------- */

/* A call with more values than this is never a part of a series. */
enum { MOST_VALUES = 160 };

/* Returns whether calls a and b differ in nothing but addresses and 64-bit integers, and sets
 * steps[i] to the difference of value i. If the step's memory isn't one block, addresses in two
 * regions have no fixed distance, and the calls must have the same regions. */
static bool differ_by_places(const c_calls *c, const k_traced_call *a, const k_traced_call *b,
                             value_step steps[MOST_VALUES]) {
    const k_trace *t = c->trace;
    if (strcmp(a->loop, b->loop) != 0 || a->function != b->function || a->count != b->count
        || a->count > MOST_VALUES)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const k_value *x = &t->values[a->first + i], *y = &t->values[b->first + i];
        steps[i] = 0;
        if (x->kind != y->kind || (x->region != y->region && !c->offset))
            return false;
        if (x->kind == K_PLACE)
            steps[i] = y->offset - x->offset;
        if (x->kind == K_PLACE && c->offset)
            steps[i] += c->offset[y->region] - c->offset[x->region];
        if (x->kind == K_INT64)
            steps[i] = (int64_t)((uint64_t)y->whole - (uint64_t)x->whole);
        else if (x->kind != K_PLACE && x->kind != K_BEGIN && x->kind != K_END && x->bits != y->bits)
            return false;
    }
    return true;
}

/* Returns the length of the series of calls that begins with number `first` and ends before number
 * `last`: calls that differ by the same steps, and that are of one kind if there are kinds. Sets
 * steps[] if the series has more than one call. */
static size_t run_length(const c_calls *c, size_t first, size_t last,
                         value_step steps[MOST_VALUES]) {
    const k_trace *t = c->trace;
    value_step next[MOST_VALUES];
    size_t n = 1;
    while (first + n < last && (!c->kind || c->kind[first + n] == c->kind[first])
           && differ_by_places(c, &t->calls[first + n - 1], &t->calls[first + n], next)) {
        if (n == 1)
            memcpy(steps, next, sizeof next);
        else if (memcmp(steps, next, t->calls[first].count * sizeof *steps) != 0)
            break;
        n++;
    }
    return n;
}

/* Adds the call number i as a call of its kind's function. */
static void add_kind_call(const c_calls *c, size_t i, const value_step steps[]) {
    const k_traced_call *call = &c->trace->calls[i];
    const k_value *v = c->trace->values + call->first;
    rgi_text_add(c->text, "    call%d(f", c->kind[i]);
    for (size_t k = 0; k < call->count; k++)
        if (v[k].kind == K_PLACE) {
            rgi_text_add(c->text, ", ");
            add_c_place(c, &v[k], steps ? steps[k] : 0, true);
        }
    rgi_text_add(c->text, ");\n");
}

/* Adds the call number i as a call of its loop. K_CALL, which the text of loops defines, makes a
 * block of it, so that compilers use the same stack for the arrays and structs among the arguments
 * of different calls. */
static void add_loop_call(const c_calls *c, size_t i, const value_step steps[]) {
    rgi_text_add(c->text, "    K_CALL(%s(", c->trace->calls[i].loop);
    add_arguments(c, &c->trace->calls[i], steps, false);
    rgi_text_add(c->text, "));\n");
}

void rgi_c_calls_add(const c_calls *c, size_t first, size_t last) {
    value_step steps[MOST_VALUES];
    for (size_t i = first; i < last;) {
        const size_t n = run_length(c, i, last, steps);
        if (n > 1)
            rgi_text_add(c->text, "    for (int64_t i = 0; i < %zu; i++)\n    ", n);
        if (c->kind)
            add_kind_call(c, i, n > 1 ? steps : NULL);
        else
            add_loop_call(c, i, n > 1 ? steps : NULL);
        i += n;
    }
}

/* ---- kinds of calls ------------------------------------------------------------------- */

static bool are_alike(const k_trace *t, const k_traced_call *a, const k_traced_call *b) {
    if (a->function != b->function || a->count != b->count || strcmp(a->loop, b->loop) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const k_value *x = &t->values[a->first + i], *y = &t->values[b->first + i];
        const bool has_bits = x->kind != K_PLACE && x->kind != K_BEGIN && x->kind != K_END;
        if (x->kind != y->kind || (has_bits && x->bits != y->bits))
            return false;
    }
    return true;
}

int rgi_c_call_kinds(const k_trace *t, int kind[], size_t first[]) {
    int n = 0;
    for (size_t i = 0; i < t->n_calls; i++) {
        kind[i] = 0;
        while (kind[i] < n && !are_alike(t, &t->calls[i], &t->calls[first[kind[i]]]))
            kind[i]++;
        if (kind[i] == n)
            first[n++] = i;
    }
    return n;
}

void rgi_c_calls_define(const c_calls *c, size_t call, int loop_index) {
    const k_traced_call *of = &c->trace->calls[call];
    int places = 0;
    rgi_text_add(c->text,
                 "\nstatic __attribute__((noinline, flatten)) void call%d(library_loop *const f[]",
                 c->kind[call]);
    for (size_t i = 0; i < of->count; i++)
        if (c->trace->values[of->first + i].kind == K_PLACE)
            rgi_text_add(c->text, ", char *p%d", places++);
    rgi_text_add(c->text, ") {\n");
    if (loop_index >= 0)
        rgi_text_add(c->text, "    ((__typeof__(&%s))f[%d])(", of->loop, loop_index);
    else
        rgi_text_add(c->text, "    %s(", of->loop);
    add_arguments(c, of, NULL, true);
    rgi_text_add(c->text, ");\n}\n");
}

/* ---- the text of loops ---------------------------------------------------------------- */

/* Adds to names[] the loops that are arguments of the call, if `names` isn't NULL. Returns their
 * number. The names are written to room[]. */
static int functions_of(const k_trace *t, const k_traced_call *call, const char *names[],
                        char room[][K_LOOP_NAME]) {
    int n = 0;
    for (size_t i = 0; i < call->count; i++) {
        const k_value *v = &t->values[call->first + i];
        if (v->kind != K_FUNCTION)
            continue;
        if (names) {
            k_trace_function_name(v, room[n]);
            names[n] = room[n];
        }
        n++;
    }
    return n;
}

bool rgi_c_loops_add(rg_text *text, const char *op, const k_trace *t) {
    RG_SCOPE();
    size_t functions = 0;
    for (size_t i = 0; i < t->n_calls; i++)
        functions += (size_t)functions_of(t, &t->calls[i], NULL, NULL);
    const char **names = rgi_scope_alloc((t->n_calls + functions + 1) * sizeof *names);
    char(*room)[K_LOOP_NAME] = rgi_scope_alloc((functions + 1) * sizeof *room);
    if (!names || !room)
        return false;
    int n = 0;
    for (size_t i = 0; i < t->n_calls; i++) {
        names[n++] = t->calls[i].loop;
        const int more = functions_of(t, &t->calls[i], names + n, room);
        n += more;
        room += more;
    }
    return rgi_loop_text(text, op, n, names);
}

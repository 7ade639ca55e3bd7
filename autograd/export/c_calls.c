/*
 * c_calls.c: writes noted calls of loops (tensor/kernels/trace.h) as C. Calls that follow each
 * other, and whose arguments differ by equal steps, become a for loop.
 */
#include "c_calls.h"

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

/* Adds the arguments of a call. steps[i] belongs to value i; if the call isn't one of a series,
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

/* ---- series of calls ------------------------------------------------------------------ */

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
static size_t series_length(const c_calls *c, size_t first, size_t last,
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

/* ---- chains of elementwise calls ------------------------------------------------------ */

/* A chain is a list of elementwise calls that follow each other and have the same number of
 * elements. It is written as one loop over blocks of elements, which makes all calls on a block
 * before it goes to the next one. A call then finds the results of earlier calls in the first
 * cache. The bits stay the same, since an element's result only depends on the elements at its
 * place. */
enum { BLOCK = 256, LEAST_BLOCKS = 2, MOST_OPERANDS = 8, MOST_CHAINED = 32 };

/* An elementwise call. Its values are, in this order: K_BEGIN, the place of each operand, K_END,
 * K_BEGIN, the step in bytes from one element to the next of each operand, K_END, and the number of
 * elements. `places` and `steps` are the indices of the first operand's place and step, and `count`
 * that of the number of elements. */
typedef struct {
    const k_traced_call *call;
    const k_value *values;
    int operands;
    size_t places, steps, count;
} c_map;

/* Sets *m, and returns whether call i is elementwise and has many elements. */
static bool find_map(const c_calls *c, size_t i, c_map *m) {
    const k_traced_call *call = &c->trace->calls[i];
    const k_value *v = c->trace->values + call->first;
    *m = (c_map){ .call = call, .values = v, .places = 1 };
    if (call->text || !strstr(call->loop, "_loop_") || call->count > MOST_VALUES
        || v[0].kind != K_BEGIN || (c->by_pointer && c->by_pointer[c->kind[i]]))
        return false;
    while (v[m->places + (size_t)m->operands].kind != K_END)
        m->operands++;
    m->steps = m->places + (size_t)m->operands + 2;
    m->count = m->steps + (size_t)m->operands + 1;
    return m->operands <= MOST_OPERANDS && v[m->count].kind == K_INT64
           && v[m->count].whole >= LEAST_BLOCKS * BLOCK;
}

/* The bytes that an operand uses: from `first` to before `last`, in a region or, if the step's
 * memory is one block, in this block. */
typedef struct {
    int region;
    int64_t first, last, step;
} c_range;

/* Returns the bytes that an operand uses. The size of its elements isn't known, but elements that
 * are less than LARGEST_ELEMENT bytes apart have no more bytes than that. */
static c_range operand_range(const c_calls *c, const c_map *m, int operand) {
    enum { LARGEST_ELEMENT = 8 };
    const k_value *v = &m->values[m->places + (size_t)operand];
    const int64_t step = m->values[m->steps + (size_t)operand].whole;
    const int64_t first = v->offset + (c->offset ? c->offset[v->region] : 0);
    const int64_t end = step * (m->values[m->count].whole - 1);
    const int64_t apart = step < 0 ? -step : step;
    const int64_t element = apart && apart < LARGEST_ELEMENT ? apart : LARGEST_ELEMENT;
    return (c_range){ c->offset ? 0 : v->region, first + RG_MIN(end, 0),
                      first + RG_MAX(end, 0) + element, step };
}

/* Returns whether two operands have no bytes in common, or the same elements at the same places. */
static bool are_blockwise(const c_range *a, const c_range *b) {
    const bool apart = a->region != b->region || a->last <= b->first || b->last <= a->first;
    return apart || (a->first == b->first && a->step == b->step && a->step);
}

/* Returns whether call b can be made on each block right after call a. */
static bool can_follow(const c_calls *c, const c_map *a, const c_map *b) {
    if (a->values[a->count].whole != b->values[b->count].whole)
        return false;
    for (int i = 0; i < a->operands; i++)
        for (int k = 0; k < b->operands; k++) {
            if (a->values[a->places + (size_t)i].kind != K_PLACE
                || b->values[b->places + (size_t)k].kind != K_PLACE)
                continue;
            const c_range of_a = operand_range(c, a, i), of_b = operand_range(c, b, k);
            const bool read_only = i > 0 && k > 0;
            if (!read_only && !are_blockwise(&of_a, &of_b))
                return false;
        }
    return true;
}

/* A longer series stays the loop that it is, and its calls are in no chain. */
enum { SHORT_SERIES = 3 };

/* Returns whether call i can be in a chain. */
static bool may_be_chained(const c_calls *c, size_t i, size_t last, c_map *m) {
    value_step steps[MOST_VALUES];
    return i < last && find_map(c, i, m) && series_length(c, i, last, steps) <= SHORT_SERIES;
}

/* Returns the number of calls in the chain that begins with call `first` and ends before call
 * `last`. */
static size_t chain_length(const c_calls *c, size_t first, size_t last) {
    c_map before, next;
    size_t n = 0;
    bool fits = may_be_chained(c, first, last, &next);
    while (fits) {
        n++;
        fits = n < MOST_CHAINED && may_be_chained(c, first + n, last, &next);
        for (size_t i = first; i < first + n && fits; i++)
            fits = find_map(c, i, &before) && can_follow(c, &before, &next);
    }
    return n;
}

/* Adds the call on n elements: on the block number i, if n is BLOCK, and else on the elements
 * behind the last block. */
static void add_block(const c_calls *c, const c_map *m, int64_t n) {
    k_value values[MOST_VALUES];
    value_step steps[MOST_VALUES] = { 0 };
    const int64_t blocks = m->values[m->count].whole / BLOCK;
    memcpy(values, m->values, m->call->count * sizeof *values);
    values[m->count].whole = n;
    for (int k = 0; k < m->operands; k++) {
        const size_t place = m->places + (size_t)k;
        const int64_t bytes = BLOCK * m->values[m->steps + (size_t)k].whole;
        if (values[place].kind != K_PLACE)
            continue;
        if (n == BLOCK)
            steps[place] = bytes;
        else
            values[place].offset += blocks * bytes;
    }
    const k_trace trace = { .values = values };
    const c_calls block = { c->text, &trace, c->offset, NULL, NULL };
    k_traced_call call = *m->call;
    call.first = 0;
    rgi_text_add(c->text, "    K_CALL(%s(", call.loop);
    add_arguments(&block, &call, steps, false);
    rgi_text_add(c->text, "));\n");
}

static void add_chain(const c_calls *c, size_t first, size_t n) {
    c_map m;
    find_map(c, first, &m);
    const int64_t elements = m.values[m.count].whole;
    rgi_text_add(c->text, "    for (int64_t i = 0; i < %lld; i++) {\n",
                 (long long)(elements / BLOCK));
    for (size_t i = first; i < first + n; i++) {
        find_map(c, i, &m);
        rgi_text_add(c->text, "    ");
        add_block(c, &m, BLOCK);
    }
    rgi_text_add(c->text, "    }\n");
    for (size_t i = first; i < first + n && elements % BLOCK; i++) {
        find_map(c, i, &m);
        add_block(c, &m, elements % BLOCK);
    }
}

void rgi_c_calls_add(const c_calls *c, size_t first, size_t last) {
    value_step steps[MOST_VALUES];
    for (size_t i = first; i < last;) {
        const size_t chain = chain_length(c, i, last);
        if (chain > 1) {
            add_chain(c, i, chain);
            i += chain;
            continue;
        }
        const size_t n = series_length(c, i, last, steps);
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

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

/* Adds the address of an element. */
static void add_element(rg_text *text, const k_value *v) {
    const rg_dtype dtype = v->dtype;
    rgi_text_add(text, "(char *)(%s[]){ ", rgi_c_type(dtype));
    if (rgi_is_float(dtype))
        add_c_number(text, rgi_load_f64(&v->bits, dtype));
    else
        rgi_text_add(text, "%lld", (long long)rgi_load_i64(&v->bits, dtype));
    rgi_text_add(text, " }");
}

/* The distance in bytes between the addresses that an argument has in two neighbouring calls. The
 * calls of a run differ by such distances alone. */
typedef int64_t place_step;

/* Adds an address in the step's memory. A field of a struct may be a pointer of any type. */
static void add_c_place(const c_calls *c, const k_value *v, place_step step, bool is_field) {
    rgi_text_add(c->text, "%sm + %lld", is_field ? "(void *)(" : "",
                 (long long)(c->offset[v->region] + v->offset));
    if (step)
        rgi_text_add(c->text, " + i * (%lld)", (long long)step);
    rgi_text_add(c->text, "%s", is_field ? ")" : "");
}

static void add_c_value(const c_calls *c, const k_value *v, place_step step, bool is_field) {
    rg_text *text = c->text;
    switch (v->kind) {
    case K_PLACE: add_c_place(c, v, step, is_field); break;
    case K_NULL: rgi_text_add(text, "0"); break;
    case K_DOUBLE: add_c_number(text, v->number); break;
    case K_BOOL:
    case K_INT:
    case K_INT64: rgi_text_add(text, "%lld", (long long)v->whole); break;
    case K_ELEMENT: add_element(text, v); break;
    case K_BEGIN:
    case K_END: break;
    }
}

static bool is_array(const char *type) {
    return strcmp(type, "char *") == 0 || strcmp(type, "int64_t") == 0
           || strcmp(type, "double") == 0;
}

/* Adds the arguments of a call. steps[i] belongs to value i; if the call isn't one of a run,
 * `steps` is NULL. */
static void add_arguments(const c_calls *c, const k_traced_call *call, const place_step steps[]) {
    const k_value *v = c->trace->values + call->first;
    bool first = true, in_struct = false;
    for (size_t i = 0; i < call->count; i++) {
        if (v[i].kind == K_END) {
            rgi_text_add(c->text, " }");
            in_struct = false;
            continue;
        }
        in_struct = v[i].kind == K_BEGIN ? v[i].type && !is_array(v[i].type) : in_struct;
        rgi_text_add(c->text, "%s", first ? "" : ", ");
        first = v[i].kind == K_BEGIN;
        if (first && !v[i].type)
            rgi_text_add(c->text, "{ ");
        else if (first && is_array(v[i].type))
            rgi_text_add(c->text, "(%s[]){ ", v[i].type);
        else if (first)
            rgi_text_add(c->text, "&(const %s){ ", v[i].type);
        else
            add_c_value(c, &v[i], steps ? steps[i] : 0, in_struct);
    }
}

/* ---- runs of calls --------------------------------------------------------------------- */

/* The greatest number of values of a call. */
enum { MOST_VALUES = 64 };

/* Returns whether call b is the same as call a but for the offsets of places. Then sets steps[i] to
 * the difference for value i. */
static bool differ_by_places(const k_trace *t, const k_traced_call *a, const k_traced_call *b,
                             place_step steps[MOST_VALUES]) {
    if (strcmp(a->loop, b->loop) != 0 || a->count != b->count || a->count > MOST_VALUES)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const k_value *x = &t->values[a->first + i], *y = &t->values[b->first + i];
        steps[i] = 0;
        if (x->kind != y->kind || x->region != y->region)
            return false;
        if (x->kind == K_PLACE)
            steps[i] = y->offset - x->offset;
        else if (x->kind != K_BEGIN && x->kind != K_END && x->bits != y->bits)
            return false;
    }
    return true;
}

/* Returns how many of the calls number first .. last - 1 differ by the same steps each, from the
 * first one on. Sets steps[] if there are more than one. */
static size_t run_length(const k_trace *t, size_t first, size_t last,
                         place_step steps[MOST_VALUES]) {
    place_step next[MOST_VALUES];
    size_t n = 1;
    while (first + n < last
           && differ_by_places(t, &t->calls[first + n - 1], &t->calls[first + n], next)) {
        if (n == 1)
            memcpy(steps, next, sizeof next);
        else if (memcmp(steps, next, t->calls[first].count * sizeof *steps) != 0)
            break;
        n++;
    }
    return n;
}

void rgi_c_calls_add(const c_calls *c, size_t first, size_t last) {
    const k_trace *t = c->trace;
    place_step steps[MOST_VALUES];
    for (size_t i = first; i < last;) {
        const size_t n = run_length(t, i, last, steps);
        if (n > 1)
            rgi_text_add(c->text, "    for (int64_t i = 0; i < %zu; i++)\n    ", n);
        rgi_text_add(c->text, "    %s(", t->calls[i].loop);
        add_arguments(c, &t->calls[i], n > 1 ? steps : NULL);
        rgi_text_add(c->text, ");\n");
        i += n;
    }
}

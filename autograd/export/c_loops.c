/*
 * c_loops.c: finds the loops that noted calls need (tensor/kernels/trace.h), and writes their text.
 * The library has a text of its own loops (loop_text.h); a program's loop comes with its text.
 */
#include "c_loops.h"
#include "loop_text.h"

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

/* The names of the library's loops that calls need. Those of call i are v[first[i]] ..
 * v[first[i + 1] - 1]. The innermost scope owns the arrays. */
typedef struct {
    const char **v;
    int *first;
} loop_names;

/* Returns the names of the library's loops that the trace's calls need; `v` is NULL if memory ran
 * out. */
static loop_names names_of(const k_trace *t) {
    size_t functions = 0;
    for (size_t i = 0; i < t->n_calls; i++)
        functions += (size_t)functions_of(t, &t->calls[i], NULL, NULL);
    loop_names names = { .first = rgi_scope_alloc((t->n_calls + 1) * sizeof *names.first) };
    char(*room)[K_LOOP_NAME] = rgi_scope_alloc((functions + 1) * sizeof *room);
    if (names.first && room)
        names.v = rgi_scope_alloc((t->n_calls + functions + 1) * sizeof *names.v);
    int n = 0;
    for (size_t i = 0; i < t->n_calls && names.v; i++) {
        names.first[i] = n;
        if (t->calls[i].text)
            continue;
        names.v[n++] = t->calls[i].loop;
        const int more = functions_of(t, &t->calls[i], names.v + n, room);
        n += more;
        room += more;
    }
    if (names.v)
        names.first[t->n_calls] = n;
    return names;
}

/* Returns the number of the first call of a loop. */
static size_t first_of_loop(const k_trace *t, const char *loop) {
    size_t i = 0;
    while (strcmp(t->calls[i].loop, loop) != 0)
        i++;
    return i;
}

/* Adds the loops that the program defines. A program can include several written files, and then
 * compiles each loop once. The loop's name ends with a checksum of its text, so that loops with
 * different texts have different names. */
static void add_own_loops(rg_text *text, const k_trace *t) {
    for (size_t i = 0; i < t->n_calls; i++) {
        const k_traced_call *call = &t->calls[i];
        if (call->text && first_of_loop(t, call->loop) == i)
            rgi_text_add(text,
                         "#ifndef RG_OWN_%s\n#define RG_OWN_%s\n"
                         "static void %s(char *const p[], const int64_t n[], const double x[]) {\n"
                         "    (void)p, (void)n, (void)x;\n    %s\n}\n#endif\n",
                         call->loop, call->loop, call->loop, call->text);
    }
}

bool rgi_c_loops_add(rg_text *text, const char *op, const k_trace *t) {
    RG_SCOPE();
    const loop_names names = names_of(t);
    if (!names.v || !rgi_loop_text(text, op, names.first[t->n_calls], names.v))
        return false;
    add_own_loops(text, t);
    return !text->failed;
}

bool rgi_c_loops_find(const char *op, const k_trace *t, bool has_text[]) {
    RG_SCOPE();
    const loop_names names = names_of(t);
    const int n = names.v ? names.first[t->n_calls] : 0;
    bool *found = rgi_scope_alloc((size_t)n + 1);
    if (!names.v || !found || !rgi_loops_find(op, n, names.v, found))
        return false;
    for (size_t i = 0; i < t->n_calls; i++) {
        has_text[i] = !t->calls[i].text;
        for (int k = names.first[i]; k < names.first[i + 1]; k++)
            has_text[i] = has_text[i] && found[k];
    }
    return true;
}

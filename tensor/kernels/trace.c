/*
 * trace.c: the functions that note calls of loops, one for each signature of loops, and that make
 * noted calls again.
 *
 * This file is long because each signature of loops has a function of its own.
 */
#include "trace.h"

#include "lanes.h"
#include "optim.h"
#include "reduce.h"
#include "tensor/memory.h"
#include "tensor/threads/workers.h"

#include <stdio.h>

/* The trace of the thread that traces. Only one thread does at a time. */
static k_trace *tracing;
/* Set while a loop runs whose call was noted. */
static bool in_loop;

/* The loop whose calls a tracing function notes: its name in the text of loops, the dtype of its
 * operands, how many operands it has, and the loop itself. */
typedef struct {
    char name[K_LOOP_NAME];
    rg_dtype dtype;
    int operands;
    k_function *function;
} trace_loop;

/* ---- values ---------------------------------------------------------------------------------- */

static void note_value(k_value v) {
    k_trace *t = tracing;
    if (!rgi_grow((void **)&t->values, &t->values_room, t->n_values + 1, sizeof v)) {
        t->failed = true;
        return;
    }
    t->values[t->n_values++] = v;
}

/* Returns the number of the region that has this address, or -1. The newest comes first, since the
 * memory of an older temporary may have been used again. */
static int trace_region_at(const k_trace *t, const char *at) {
    for (size_t i = t->n_regions; i-- > 0;) {
        const k_region *r = &t->regions[i];
        if (at >= r->begin && at < r->begin + RG_MAX(r->bytes, 1))
            return (int)i;
    }
    return -1;
}

/* Marks the trace as failed, because calls of this loop can't be noted. */
static void trace_refuse(const char *loop) {
    if (!tracing->failed) {
        snprintf(tracing->refused, sizeof tracing->refused, "%s", loop);
        tracing->refused_at = tracing->mark;
    }
    tracing->failed = true;
}

static void note_null(void) { note_value((k_value){ .kind = K_NULL }); }

static void note_place(const void *at, const char *loop) {
    if (!at) {
        note_null();
        return;
    }
    const int region = trace_region_at(tracing, at);
    if (region < 0) {
        trace_refuse(loop);
        return;
    }
    const int64_t offset = (const char *)at - tracing->regions[region].begin;
    note_value((k_value){ .kind = K_PLACE, .region = region, .offset = offset });
}

static void note_int64(int64_t x) { note_value((k_value){ .kind = K_INT64, .whole = x }); }
static void note_int(int x) { note_value((k_value){ .kind = K_INT, .whole = x }); }
static void note_bool(bool x) { note_value((k_value){ .kind = K_BOOL, .whole = x }); }
static void note_double(double x) { note_value((k_value){ .kind = K_DOUBLE, .number = x }); }
static void note_begin(const char *type) { note_value((k_value){ .kind = K_BEGIN, .type = type }); }
static void note_end(void) { note_value((k_value){ .kind = K_END }); }

/* Adds an operand of n elements. If it is a single number in memory that no region has, such as a
 * local variable, its bytes are noted. */
static void note_operand(const char *at, int64_t step, int64_t n, rg_dtype dtype,
                         const char *loop) {
    if ((step && n > 1) || trace_region_at(tracing, at) >= 0) {
        note_place(at, loop);
        return;
    }
    k_value v = { .kind = K_ELEMENT, .dtype = dtype };
    memcpy(&v.bits, at, rgi_sizeof(dtype));
    note_value(v);
}

/* Notes n whole numbers, as an array. */
static void note_array(const int64_t v[], int n) {
    note_begin("int64_t");
    for (int i = 0; i < n; i++)
        note_int64(v[i]);
    note_end();
}

/* Notes n addresses, as an array. */
static void note_addresses(char *const p[], int n, const char *loop) {
    note_begin("char *");
    for (int i = 0; i < n; i++)
        note_place(p[i], loop);
    note_end();
}

/* Begins the note of a call of the loop; `call` makes the call again. */
static void note_call(const trace_loop *of, k_call *call) {
    k_trace *t = tracing;
    if (!rgi_grow((void **)&t->calls, &t->calls_room, t->n_calls + 1, sizeof *t->calls)) {
        t->failed = true;
        return;
    }
    k_traced_call *c = &t->calls[t->n_calls++];
    *c = (k_traced_call){
        .call = call, .function = of->function, .first = t->n_values, .mark = t->mark
    };
    memcpy(c->loop, of->name, sizeof c->loop);
}

/* Ends the note of a call. The loop is called next; what it calls itself isn't noted. */
static void note_call_ends(void) {
    k_trace *t = tracing;
    if (t->n_calls)
        t->calls[t->n_calls - 1].count = t->n_values - t->calls[t->n_calls - 1].first;
    in_loop = true;
}

/* ---- loops over operands (rg_loop) ----------------------------------------------------------- */

static trace_loop map_loop;

static void call_map(k_function *loop, const k_argument a[]) {
    ((rg_loop *)loop)(a[0].address, a[1].address, a[2].whole, a[3].address);
}

/* Begins the note of a call with these operands, up to its context, which the caller notes. */
static void note_map(const trace_loop *of, char *const p[], const int64_t s[], int64_t n) {
    note_call(of, call_map);
    note_begin("char *");
    for (int k = 0; k < of->operands; k++)
        note_operand(p[k], s[k], n, of->dtype, of->name);
    note_end();
    note_array(s, of->operands);
    note_int64(n);
}

static void trace_map(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const double *numbers = context;
    note_map(&map_loop, p, s, n);
    if (numbers) {
        note_begin("double");
        for (int k = 0; k < 3; k++)
            note_double(numbers[k]);
        note_end();
    } else {
        note_null();
    }
    note_call_ends();
    ((rg_loop *)map_loop.function)(p, s, n, context);
    in_loop = false;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static trace_loop reduce_loop_of, finish_loop_of;

static void call_reduce(k_function *loop, const k_argument a[]) {
    ((reduce_loop *)loop)(a[0].address, a[1].address, a[2].address);
}

static void trace_reduce(char *y, const char *x, const reduce_block *b) {
    const trace_loop *of = &reduce_loop_of;
    note_call(of, call_reduce);
    note_place(y, of->name);
    note_place(x, of->name);
    note_begin("reduce_block");
    note_int64(b->n0);
    note_int64(b->step0);
    note_int64(b->n1);
    note_int64(b->step1);
    note_int64(b->y_step);
    note_place(b->context, of->name);
    note_end();
    note_call_ends();
    ((reduce_loop *)of->function)(y, x, b);
    in_loop = false;
}

static void call_finish(k_function *loop, const k_argument a[]) {
    ((finish_loop *)loop)(a[0].address, a[1].whole, a[2].number, a[3].address);
}

static void trace_finish(void *y, int64_t n, double number, const void *other) {
    const trace_loop *of = &finish_loop_of;
    note_call(of, call_finish);
    note_place(y, of->name);
    note_int64(n);
    note_double(number);
    note_place(other, of->name);
    note_call_ends();
    ((finish_loop *)of->function)(y, n, number, other);
    in_loop = false;
}

/* ---- softmax --------------------------------------------------------------------------------- */

static trace_loop softmax_loop_of;

static void call_softmax(k_function *loop, const k_argument a[]) {
    ((softmax_loop *)loop)(a[0].address, a[1].address, a[2].whole);
}

static void trace_softmax(const softmax_rows *z, char *const p[], int64_t rows) {
    const trace_loop *of = &softmax_loop_of;
    note_call(of, call_softmax);
    note_begin("softmax_rows");
    note_int64(z->n);
    note_int64(z->step);
    note_int((int)z->kind);
    note_bool(z->last);
    note_bool(z->stream);
    note_end();
    note_addresses(p, of->operands, of->name);
    note_int64(rows);
    note_call_ends();
    ((softmax_loop *)of->function)(z, p, rows);
    in_loop = false;
}

/* ---- products of matrices -------------------------------------------------------------------- */

typedef void matmul_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                            const void *b, double alpha, double beta, void *room);
typedef void matmul_tiny(const k_product_sizes *z, void *y, const void *a, const void *b);

static trace_loop product_loop, tiny_loop;

static void note_sizes(const k_product_sizes *z) {
    const int64_t v[] = { z->m,     z->n,     z->k,     z->y_row, z->y_col,
                          z->a_row, z->a_col, z->b_row, z->b_col, z->c_row };
    _Static_assert(sizeof v == sizeof *z, "each field is noted");
    note_begin("k_product_sizes");
    for (int i = 0; i < RG_COUNT(v); i++)
        note_int64(v[i]);
    note_end();
}

static void call_product(k_function *loop, const k_argument a[]) {
    ((matmul_product *)loop)(a[0].address, a[1].address, a[2].address, a[3].address, a[4].address,
                             a[5].number, a[6].number, a[7].address);
}

static void trace_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                          const void *b, double alpha, double beta, void *room) {
    const trace_loop *of = &product_loop;
    note_call(of, call_product);
    note_sizes(z);
    note_place(y, of->name);
    note_place(c, of->name);
    note_place(a, of->name);
    note_place(b, of->name);
    note_double(alpha);
    note_double(beta);
    note_place(room, of->name);
    note_call_ends();
    ((matmul_product *)of->function)(z, y, c, a, b, alpha, beta, room);
    in_loop = false;
}

static void call_tiny(k_function *loop, const k_argument a[]) {
    ((matmul_tiny *)loop)(a[0].address, a[1].address, a[2].address, a[3].address);
}

static void trace_tiny(const k_product_sizes *z, void *y, const void *a, const void *b) {
    const trace_loop *of = &tiny_loop;
    note_call(of, call_tiny);
    note_sizes(z);
    note_place(y, of->name);
    note_place(a, of->name);
    note_place(b, of->name);
    note_call_ends();
    ((matmul_tiny *)of->function)(z, y, a, b);
    in_loop = false;
}

/* ---- elementwise losses ---------------------------------------------------------------------- */

static trace_loop loss_loop_of;

static void trace_loss(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const k_loss_context *k = context;
    note_map(&loss_loop_of, p, s, n);
    note_begin("k_loss_context");
    note_int((int)k->kind);
    note_double(k->c);
    note_double(k->scale);
    note_end();
    note_call_ends();
    ((rg_loop *)loss_loop_of.function)(p, s, n, context);
    in_loop = false;
}

/* ---- losses of classes ----------------------------------------------------------------------- */

static trace_loop nll_loop_of;

static void call_nll(k_function *loop, const k_argument a[]) {
    ((k_nll_loop *)loop)(a[0].address, a[1].whole, a[2].whole);
}

static void trace_nll(const k_nll_rows *z, int64_t first, int64_t last) {
    const trace_loop *of = &nll_loop_of;
    note_call(of, call_nll);
    note_begin("k_nll_rows");
    note_place(z->y, of->name);
    note_place(z->shifts, of->name);
    note_place(z->x, of->name);
    note_place(z->g, of->name);
    note_bool(z->own_g);
    note_place(z->target, of->name);
    note_place(z->weight, of->name);
    note_int64(z->weight_step);
    note_int64(z->classes);
    note_int64(z->inner);
    note_int64(z->ignore);
    note_place(z->total, of->name);
    note_end();
    note_int64(first);
    note_int64(last);
    note_call_ends();
    ((k_nll_loop *)of->function)(z, first, last);
    in_loop = false;
}

/* ---- elements at indices --------------------------------------------------------------------- */

static trace_loop index_loop_of;

/* The loop reads and writes elements behind the address of its second operand, which therefore
 * isn't noted as a number. */
static void trace_index(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const trace_loop *of = &index_loop_of;
    note_call(of, call_map);
    note_addresses(p, of->operands, of->name);
    note_array(s, of->operands);
    note_int64(n);
    note_array(context, 1);
    note_call_ends();
    ((rg_loop *)of->function)(p, s, n, context);
    in_loop = false;
}

/* ---- steps of SGD ---------------------------------------------------------------------------- */

/* The loop of SGD, the only optimizer that doesn't count its steps. */
static trace_loop optimizer_loop;

static void call_optimizer(k_function *loop, const k_argument a[]) {
    ((k_optimizer_loop *)loop)(a[0].address, a[1].whole, a[2].address);
}

static void trace_optimizer(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    const trace_loop *of = &optimizer_loop;
    note_call(of, call_optimizer);
    note_addresses(at, of->operands + z->sgd.has_buffer, of->name);
    note_int64(n);
    note_begin("k_optimizer_numbers");
    note_double(z->sign);
    note_double(z->weight_decay);
    note_double(z->rate);
    note_begin(NULL);
    note_begin(NULL);
    note_double(z->sgd.momentum);
    note_double(z->sgd.entering);
    note_bool(z->sgd.first);
    note_bool(z->sgd.nesterov);
    note_bool(z->sgd.has_buffer);
    note_end();
    note_end();
    note_end();
    note_call_ends();
    ((k_optimizer_loop *)of->function)(at, n, z);
    in_loop = false;
}

/* ---- the function that notes the calls of a loop --------------------------------------------- */

/* A loop whose table is named after it: softmax_loops has the loops `softmax`. */
typedef struct {
    const char *loop;
    int operands;
    k_function *note;
    trace_loop *of;
    bool by_size; /* Set if elements of the same size share a loop. */
} trace_row;

#define SUFFIX(NAME, suffix, ...) [RG_##NAME] = #suffix,
static const char *const dtype_suffixes[] = { RG_DTYPES(SUFFIX, ) };

/* clang-format would break the rows of RG_DTYPES. */
/* clang-format off */
#define CONVERT(NAME, suffix, ...) \
    { "convert_" #suffix, 2, (k_function *)trace_map, &map_loop, false },
static const trace_row trace_rows[] = {
    RG_DTYPES(CONVERT, )
    { "softmax", 3, (k_function *)trace_softmax, &softmax_loop_of, false },
    { "softmax_backward", 3, (k_function *)trace_softmax, &softmax_loop_of, false },
    { "softmax_short", 3, (k_function *)trace_softmax, &softmax_loop_of, false },
    { "softmax_backward_short", 3, (k_function *)trace_softmax, &softmax_loop_of, false },
    { "matmul_product", 0, (k_function *)trace_product, &product_loop, false },
    { "matmul_tiny", 0, (k_function *)trace_tiny, &tiny_loop, false },
    { "loss", 5, (k_function *)trace_loss, &loss_loop_of, false },
    { "loss_slope", 5, (k_function *)trace_loss, &loss_loop_of, false },
    { "nll", 0, (k_function *)trace_nll, &nll_loop_of, false },
    { "nll_backward", 0, (k_function *)trace_nll, &nll_loop_of, false },
    { "nll_total", 0, (k_function *)trace_nll, &nll_loop_of, false },
    { "nll_mean", 0, (k_function *)trace_nll, &nll_loop_of, false },
    { "cross_entropy", 0, (k_function *)trace_nll, &nll_loop_of, false },
    { "cross_entropy_backward", 0, (k_function *)trace_nll, &nll_loop_of, false },
    { "index_get", 3, (k_function *)trace_index, &index_loop_of, true },
    { "index_put", 3, (k_function *)trace_index, &index_loop_of, true },
    { "index_add", 3, (k_function *)trace_index, &index_loop_of, false },
    { "moments_divide", 0, (k_function *)trace_finish, &finish_loop_of, false },
};
/* clang-format on */

/* Makes `note` the function that notes the calls of the loop, and returns it. The loop's name is
 * `base` with an end for its type: "_float" or, for loops that only copy elements, "_uint32". */
static k_function *trace_with(trace_loop *of, k_function *note, const char *base, int dtype,
                              bool by_size, int operands, k_function *loop) {
    *of = (trace_loop){ .dtype = (rg_dtype)dtype, .operands = operands, .function = loop };
    if (dtype == K_NO_DTYPE)
        snprintf(of->name, sizeof of->name, "%s", base);
    else if (by_size)
        snprintf(of->name, sizeof of->name, "%s_uint%zu", base, 8 * rgi_sizeof((rg_dtype)dtype));
    else
        snprintf(of->name, sizeof of->name, "%s_%s", base, dtype_suffixes[dtype]);
    return note;
}

/* Returns whether elements of the same size share the kernel's loops, which only copy them. */
static bool is_by_size(const rg_kernel *k) {
    return k->by_dtype[RG_INT64][0] == k->by_dtype[RG_FLOAT64][0];
}

/* Returns the function for a loop of a table that has a name. */
static k_function *trace_named(k_function *loop, const char *table, int dtype) {
    for (int i = 0; i < RG_COUNT(trace_rows); i++) {
        const trace_row *row = &trace_rows[i];
        const size_t n = strlen(row->loop);
        if (strncmp(table, row->loop, n) == 0 && strcmp(table + n, "_loops") == 0)
            return trace_with(row->of, row->note, row->loop, dtype, row->by_size, row->operands,
                              loop);
    }
    trace_refuse(table);
    return loop;
}

static k_function *trace_choose(const void *row, k_function *loop, const char *table, int dtype) {
    if (in_loop)
        return loop;
    if (strcmp(table, "k->by_dtype") == 0) {
        const rg_kernel *k = K_HOLDER(rg_kernel, by_dtype, row, dtype);
        char base[K_LOOP_NAME];
        snprintf(base, sizeof base, "%s_loop", k->name);
        return trace_with(&map_loop, (k_function *)trace_map, base, dtype, is_by_size(k), k->n + 1,
                          loop);
    }
    if (strcmp(table, "kind->loops") == 0) {
        const k_reduction *k = K_HOLDER(k_reduction, loops, row, dtype);
        return trace_with(&reduce_loop_of, (k_function *)trace_reduce, k->name, dtype, false, 2,
                          loop);
    }
    if (strcmp(table, "which->loops") == 0
        && strcmp(k_optimizer_name(row, (rg_dtype)dtype), "sgd") == 0)
        return trace_with(&optimizer_loop, (k_function *)trace_optimizer, "sgd", dtype, false, 2,
                          loop);
    return trace_named(loop, table, dtype);
}

/* ---- regions, the beginning and the end ------------------------------------------------------ */

int k_trace_region(k_trace *t, void *begin, size_t bytes, bool temporary) {
    if (!rgi_grow((void **)&t->regions, &t->regions_room, t->n_regions + 1, sizeof *t->regions)) {
        t->failed = true;
        return -1;
    }
    t->regions[t->n_regions] = (k_region){ begin, bytes, temporary };
    return (int)t->n_regions++;
}

/* Called with each block that the thread allocates while it traces. The blocks of the trace's own
 * lists are among them, and do no harm. */
static void tell_block(void *block, size_t bytes) {
    rgi_watch_blocks(NULL);
    k_trace_region(tracing, block, bytes, true);
    rgi_watch_blocks(tell_block);
}

void k_trace_begin(k_trace *t, bool in_own_set) {
    tracing = t;
    rgi_work_alone(true);
    k_trace_by(trace_choose, in_own_set);
    rgi_watch_blocks(tell_block);
}

void k_trace_end(void) {
    rgi_watch_blocks(NULL);
    k_trace_by(NULL, false);
    rgi_work_alone(false);
    tracing = NULL;
}

/* ---- making noted calls again ---------------------------------------------------------------- */

/* Room for the arrays and structs of one call. */
typedef struct {
    _Alignas(8) char bytes[512];
    size_t used;
} trace_room;

/* Adds an element of an array or a struct, at the next multiple of its size. */
static void repeat_put(trace_room *room, const void *element, size_t size) {
    room->used = (room->used + size - 1) / size * size;
    memcpy(room->bytes + room->used, element, size);
    room->used += size;
}

static char *address_of(const k_trace *t, const k_value *v, char *const temporary[]) {
    const k_region *r = &t->regions[v->region];
    return (r->temporary ? temporary[v->region] : r->begin) + v->offset;
}

static void repeat_value(trace_room *room, const k_trace *t, const k_value *v,
                         char *const temporary[]) {
    const int small = (int)v->whole;
    const bool truth = v->whole != 0;
    char *address = NULL;
    switch (v->kind) {
    case K_PLACE:
        address = address_of(t, v, temporary);
        repeat_put(room, &address, sizeof address);
        break;
    case K_ELEMENT:
        address = (char *)&v->bits;
        repeat_put(room, &address, sizeof address);
        break;
    case K_NULL: repeat_put(room, &address, sizeof address); break;
    case K_INT64: repeat_put(room, &v->whole, sizeof v->whole); break;
    case K_INT: repeat_put(room, &small, sizeof small); break;
    case K_BOOL: repeat_put(room, &truth, sizeof truth); break;
    case K_DOUBLE: repeat_put(room, &v->number, sizeof v->number); break;
    case K_BEGIN:
    case K_END: break;
    }
}

static void repeat_call(const k_trace *t, const k_traced_call *c, char *const temporary[]) {
    k_argument a[12];
    trace_room room = { .used = 0 };
    int n = 0;
    const k_value *v = t->values + c->first;
    for (size_t i = 0; i < c->count; i++) {
        k_argument *to = &a[n++];
        if (v[i].kind == K_BEGIN) {
            room.used = (room.used + 7) / 8 * 8;
            to->address = room.bytes + room.used;
            for (int depth = 1; depth; i++) {
                const k_value_kind kind = v[i + 1].kind;
                depth += (kind == K_BEGIN) - (kind == K_END);
                repeat_value(&room, t, &v[i + 1], temporary);
            }
        } else if (v[i].kind == K_PLACE) {
            to->address = address_of(t, &v[i], temporary);
        } else if (v[i].kind == K_NULL) {
            to->address = NULL;
        } else if (v[i].kind == K_DOUBLE) {
            to->number = v[i].number;
        } else {
            to->whole = v[i].whole;
        }
    }
    c->call(c->function, a);
}

void k_trace_repeat(const k_trace *t, size_t first, size_t last, char *const temporary[]) {
    for (size_t i = 0; i < t->n_calls; i++)
        if (t->calls[i].mark >= first && t->calls[i].mark < last)
            repeat_call(t, &t->calls[i], temporary);
}

void k_trace_free(k_trace *t) {
    rgi_free(t->calls, t->calls_room * sizeof *t->calls, RG_MEM_OTHER);
    rgi_free(t->values, t->values_room * sizeof *t->values, RG_MEM_OTHER);
    rgi_free(t->regions, t->regions_room * sizeof *t->regions, RG_MEM_OTHER);
    *t = (k_trace){ 0 };
}

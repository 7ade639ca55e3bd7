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
#include "trace_structs.h"
#include "tensor/files/crc32.h"
#include "tensor/memory.h"
#include "tensor/threads/workers.h"

#include <stdio.h>

/* The trace of the thread that traces, or NULL. Only one thread traces at a time. */
static k_trace *tracing;
/* True while a noted loop runs. The loops that it looks up itself aren't noted. */
static bool in_loop;

/* The loop whose calls a tracing function notes: its name in the text of loops, the dtype of its
 * operands, how many operands it has, the struct or the array that it reads, or NULL, and the loop
 * itself. */
typedef struct {
    char name[K_LOOP_NAME];
    rg_dtype dtype;
    int operands;
    const k_struct *reads;
    k_function *function;
} trace_loop;

/* ---- values ---------------------------------------------------------------------------------- */

static void tell_block(void *block, size_t bytes);

/* Makes room in a list of a trace, as rgi_grow does. The list's block isn't noted as memory of the
 * step. */
static bool grow(void **list, size_t *room, size_t n, size_t size) {
    rgi_watch_blocks(NULL);
    const bool done = rgi_grow(list, room, n, size);
    if (tracing)
        rgi_watch_blocks(tell_block);
    return done;
}

static void note_value(k_value v) {
    k_trace *t = tracing;
    if (!grow((void **)&t->values, &t->values_room, t->n_values + 1, sizeof v)) {
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

/* ---- structs --------------------------------------------------------------------------------- */

/* A loop that other loops call by its address. Its name is `base` with an end for its type. */
typedef struct {
    const char *base;
    rg_dtype dtype;
    k_function *function;
} trace_function;

/* The functions that the thread looked up last. */
enum { TRACE_FUNCTIONS = 4 };
static trace_function functions[TRACE_FUNCTIONS];
static size_t n_functions;

static void note_function(k_function *function, const char *loop) {
    for (int i = 0; i < TRACE_FUNCTIONS; i++) {
        const trace_function *f = &functions[i];
        if (f->base && f->function == function) {
            note_value((k_value){
                .kind = K_FUNCTION, .type = f->base, .dtype = f->dtype, .function = function });
            return;
        }
    }
    trace_refuse(loop);
}

static void note_struct(const k_struct *s, const char *at, const char *type, const char *loop);

/* Notes the number at this address. */
static void note_number(k_value_kind kind, const char *at) {
    k_value v = { .kind = kind };
    int small;
    bool truth;
    if (kind == K_INT) {
        memcpy(&small, at, sizeof small);
        v.whole = small;
    } else if (kind == K_BOOL) {
        memcpy(&truth, at, sizeof truth);
        v.whole = truth;
    } else {
        memcpy(&v.bits, at, sizeof v.bits);
    }
    note_value(v);
}

/* Notes an address that a field holds. */
static void note_pointer(const k_field *f, const char *at, const char *loop) {
    void *address;
    memcpy(&address, at, sizeof address);
    if (!address)
        note_null();
    else if (f->of)
        note_struct(f->of, address, f->of->type, loop);
    else
        note_place(address, loop);
}

static void note_field(const k_field *f, const char *at, const char *loop) {
    k_function *function;
    if (f->kind == K_PLACE) {
        note_pointer(f, at, loop);
    } else if (f->kind == K_NULL) {
        note_null();
    } else if (f->kind == K_BEGIN) {
        note_struct(f->of, at, NULL, loop);
    } else if (f->kind == K_FUNCTION) {
        memcpy(&function, at, sizeof function);
        if (function)
            note_function(function, loop);
        else
            note_null();
    } else {
        note_number(f->kind, at);
    }
}

/* Notes the fields of the struct at this address. `type` is NULL for a struct inside a struct. */
static void note_struct(const k_struct *s, const char *at, const char *type, const char *loop) {
    note_begin(type);
    for (int i = 0; i < s->n; i++) {
        const k_field *f = &s->fields[i];
        if (f->count > 1)
            note_begin(NULL);
        for (int k = 0; k < f->count; k++)
            note_field(f, at + f->offset + k * f->size, loop);
        if (f->count > 1)
            note_end();
    }
    note_end();
}

/* Notes the struct that the loop reads, or NULL if it reads none. */
static void note_reads(const trace_loop *of, const void *at) {
    if (of->reads && at)
        note_struct(of->reads, at, of->reads->type, of->name);
    else
        note_null();
}

/* Begins the note of a call of the loop; `call` makes the call again. */
static void note_call(const trace_loop *of, k_call *call) {
    k_trace *t = tracing;
    if (!grow((void **)&t->calls, &t->calls_room, t->n_calls + 1, sizeof *t->calls)) {
        t->failed = true;
        return;
    }
    k_traced_call *c = &t->calls[t->n_calls++];
    *c = (k_traced_call){
        .call = call, .function = of->function, .first = t->n_values, .mark = t->mark
    };
    memcpy(c->loop, of->name, sizeof c->loop);
}

/* Ends the note of a call. The loop is called next, and the loops that it calls aren't noted. */
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

static void trace_map(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const trace_loop *of = &map_loop;
    note_call(of, call_map);
    note_begin("char *");
    for (int k = 0; k < of->operands; k++)
        note_operand(p[k], s[k], n, of->dtype, of->name);
    note_end();
    note_array(s, of->operands);
    note_int64(n);
    note_reads(of, context);
    note_call_ends();
    ((rg_loop *)of->function)(p, s, n, context);
    in_loop = false;
}

/* The same for a loop that reaches other elements than the first n behind each address but the
 * first, such as those that indices select. These addresses are noted as places in any case:
 * note_operand would note a single element by its value. */
static void trace_places(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const trace_loop *of = &map_loop;
    note_call(of, call_map);
    note_begin("char *");
    note_operand(p[0], s[0], n, of->dtype, of->name);
    for (int k = 1; k < of->operands; k++)
        note_place(p[k], of->name);
    note_end();
    note_array(s, of->operands);
    note_int64(n);
    note_reads(of, context);
    note_call_ends();
    ((rg_loop *)of->function)(p, s, n, context);
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
    note_reads(of, b);
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
    note_reads(of, z);
    note_addresses(p, of->operands, of->name);
    note_int64(rows);
    note_call_ends();
    ((softmax_loop *)of->function)(z, p, rows);
    in_loop = false;
}

/* ---- searches and packed weights ------------------------------------------------------------- */

static trace_loop search_loop_of, pack_loop_of;

static void call_search(k_function *loop, const k_argument a[]) {
    ((k_search_loop *)loop)(a[0].address, a[1].address, a[2].address, a[3].whole, a[4].whole,
                            a[5].whole, a[6].whole);
}

static void trace_search(int64_t *to, const void *sorted, const void *values, int64_t n,
                         int64_t count, int64_t per_row, bool right) {
    const trace_loop *of = &search_loop_of;
    note_call(of, call_search);
    note_place(to, of->name);
    note_place(sorted, of->name);
    note_place(values, of->name);
    note_int64(n);
    note_int64(count);
    note_int64(per_row);
    note_bool(right);
    note_call_ends();
    ((k_search_loop *)of->function)(to, sorted, values, n, count, per_row, right);
    in_loop = false;
}

static void call_pack(k_function *loop, const k_argument a[]) {
    ((k_recurrent_pack *)loop)(a[0].address, a[1].address, a[2].whole, a[3].whole, a[4].whole);
}

static void trace_pack(void *to, const void *from, int64_t rows, int64_t columns, bool turned) {
    const trace_loop *of = &pack_loop_of;
    note_call(of, call_pack);
    note_place(to, of->name);
    note_place(from, of->name);
    note_int64(rows);
    note_int64(columns);
    note_bool(turned);
    note_call_ends();
    ((k_recurrent_pack *)of->function)(to, from, rows, columns, turned);
    in_loop = false;
}

/* ---- products of matrices -------------------------------------------------------------------- */

typedef void matmul_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                            const void *b, double alpha, double beta, void *room);
typedef void matmul_tiny(const k_product_sizes *z, void *y, const void *a, const void *b);

static trace_loop product_loop, tiny_loop;

static void call_product(k_function *loop, const k_argument a[]) {
    ((matmul_product *)loop)(a[0].address, a[1].address, a[2].address, a[3].address, a[4].address,
                             a[5].number, a[6].number, a[7].address);
}

static void trace_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                          const void *b, double alpha, double beta, void *room) {
    const trace_loop *of = &product_loop;
    note_call(of, call_product);
    note_reads(of, z);
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
    note_reads(of, z);
    note_place(y, of->name);
    note_place(a, of->name);
    note_place(b, of->name);
    note_call_ends();
    ((matmul_tiny *)of->function)(z, y, a, b);
    in_loop = false;
}

/* ---- tasks for the threads ------------------------------------------------------------------- */

static trace_loop work_loop, aside_loop;

static void call_work(k_function *loop, const k_argument a[]) {
    ((rg_work *)loop)(a[0].address, a[1].whole, a[2].whole, 0);
}

static void note_work(const trace_loop *of, void *context, int64_t begin, int64_t end) {
    note_call(of, call_work);
    note_reads(of, context);
    note_int64(begin);
    note_int64(end);
    note_int64(0);
    note_call_ends();
    ((rg_work *)of->function)(context, begin, end, 0);
    in_loop = false;
}

static void trace_work(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    note_work(&work_loop, context, begin, end);
}

/* The same for a loop that a kernel looks up and calls while it has already looked up the loop of
 * another task, whose name must stay in work_loop. */
static void trace_aside(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    note_work(&aside_loop, context, begin, end);
}

/* ---- loops that the program defines ---------------------------------------------------------- */

/* The name of the table of such loops, for trace_choose. */
static const char own_table[] = "own";
static const k_own_call *own_call;

static void call_own(k_function *loop, const k_argument a[]) {
    ((k_own_loop *)loop)(a[0].address, a[1].address, a[2].address);
}

/* Notes the numbers as an array, which has at least one element, as an array in C must have. */
static void note_own_numbers(const double x[], int n) {
    note_begin("double");
    for (int i = 0; i < n; i++)
        note_double(x[i]);
    if (n == 0)
        note_double(0);
    note_end();
}

static void trace_own(char *const p[], const int64_t n[], const double x[]) {
    const k_own_call *own = own_call;
    trace_loop of = { .function = (k_function *)own->loop };
    snprintf(of.name, sizeof of.name, "%.*s_%08x", K_OWN_NAME, own->name,
             rgi_crc32(0, own->text, strlen(own->text)));
    note_call(&of, call_own);
    if (!tracing->failed)
        tracing->calls[tracing->n_calls - 1].text = own->text;
    note_addresses(p, own->places, of.name);
    note_array(n, RG_MAX(own->wholes, 1));
    note_own_numbers(x, own->numbers);
    note_call_ends();
    own->loop(p, n, x);
    in_loop = false;
}

void k_run_own(const k_own_call *c, char *const p[], const int64_t n[], const double x[]) {
    k_own_loop *loop = c->loop;
    if (k_set_now() == K_TRACED)
        loop = (k_own_loop *)k_other_loop(&c->loop, false, own_table, c->name, K_NO_DTYPE);
    loop(p, n, x);
}

/* ---- losses of classes ----------------------------------------------------------------------- */

static trace_loop nll_loop_of;

static void call_nll(k_function *loop, const k_argument a[]) {
    ((k_nll_loop *)loop)(a[0].address, a[1].whole, a[2].whole);
}

static void trace_nll(const k_nll_rows *z, int64_t first, int64_t last) {
    const trace_loop *of = &nll_loop_of;
    note_call(of, call_nll);
    note_reads(of, z);
    note_int64(first);
    note_int64(last);
    note_call_ends();
    ((k_nll_loop *)of->function)(z, first, last);
    in_loop = false;
}

/* ---- steps of optimizers --------------------------------------------------------------------- */

/* An optimizer's loop. It reads the field `field` of k_optimizer_numbers, which consists of
 * `doubles` doubles and, behind them, `bools` bools. The loop has `operands` operands, and one more
 * for each of the last `optional` bools that is set. */
typedef struct {
    const char *loop, *field;
    int operands, optional, doubles, bools;
} optimizer_row;

static const optimizer_row optimizer_rows[] = {
    { "sgd", ".sgd", 2, 1, 2, 3 },
    { "adam", ".adam", 4, 1, 6, 1 },
    { "rmsprop", ".rmsprop", 3, 2, 4, 2 },
    { "adagrad", ".adagrad", 3, 0, 1, 0 },
    { "lion", ".lion", 3, 0, 4, 0 },
    { "nadam", ".nadam", 4, 0, 8, 0 },
    { "radam", ".radam", 4, 0, 8, 1 },
    { "muon", ".muon", 4, 0, 3, 1 },
    { "muon_update", ".muon", 3, 0, 3, 1 },
    { "round_to_bfloat16", NULL, 1, 0, 0, 0 },
    { "combine_to_bfloat16", ".combined", 2, 0, 2, 0 },
    { "average_lerp", ".averaged", 2, 0, 2, 0 },
    { "average_mean", ".averaged", 2, 0, 2, 0 },
};

static trace_loop optimizer_loop, count_loop, numbers_loop;
/* The rows of optimizer_loop and of numbers_loop. */
static const optimizer_row *optimizer_of, *numbers_of;

/* Returns the row of a loop's optimizer: "adam" for the loops adam and adam_numbers. If several
 * rows match, as "muon" and "muon_update" do, returns the last one. Requires that there is one. */
static const optimizer_row *optimizer_row_of(const char *loop) {
    const optimizer_row *row = NULL;
    for (int i = 0; i < RG_COUNT(optimizer_rows); i++) {
        const size_t n = strlen(optimizer_rows[i].loop);
        if (strncmp(loop, optimizer_rows[i].loop, n) == 0 && (!loop[n] || loop[n] == '_'))
            row = &optimizer_rows[i];
    }
    return row;
}

/* Returns the field that the loop reads. Each field of the union begins where the union does. */
static const double *field_of(const k_optimizer_numbers *z) { return &z->sgd.momentum; }

static const bool *bools_of(const optimizer_row *row, const k_optimizer_numbers *z) {
    return (const bool *)(field_of(z) + row->doubles);
}

static void note_numbers(const optimizer_row *row, const k_optimizer_numbers *z) {
    const double common[] = { z->beta1, z->beta2, z->decay, z->sign, z->weight_decay, z->rate };
    note_begin("k_optimizer_numbers");
    for (int i = 0; i < RG_COUNT(common); i++)
        note_double(common[i]);
    note_begin(row->field);
    for (int i = 0; i < row->doubles; i++)
        note_double(field_of(z)[i]);
    for (int i = 0; i < row->bools; i++)
        note_bool(bools_of(row, z)[i]);
    note_end();
    note_end();
}

static void call_optimizer(k_function *loop, const k_argument a[]) {
    ((k_optimizer_loop *)loop)(a[0].address, a[1].whole, a[2].address);
}

/* Notes the addresses of all operands that the loop can have. For one that this call doesn't have
 * it notes NULL: with a shorter array, a compiler would warn that the loop reads behind its end. */
static void note_optimizer_operands(const optimizer_row *row, char *const at[],
                                    const k_optimizer_numbers *z) {
    int operands = row->operands;
    for (int i = row->bools - row->optional; i < row->bools; i++)
        operands += bools_of(row, z)[i];
    note_begin("char *");
    for (int k = 0; k < row->operands + row->optional; k++)
        note_place(k < operands ? at[k] : NULL, row->loop);
    note_end();
}

static void trace_optimizer(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    const trace_loop *of = &optimizer_loop;
    note_call(of, call_optimizer);
    note_optimizer_operands(optimizer_of, at, z);
    note_int64(n);
    if (!z || trace_region_at(tracing, (const char *)z) >= 0)
        note_place(z, of->name);
    else
        note_numbers(optimizer_of, z);
    note_call_ends();
    ((k_optimizer_loop *)of->function)(at, n, z);
    in_loop = false;
}

static void call_count(k_function *loop, const k_argument a[]) {
    ((k_count_loop *)loop)(a[0].address, a[1].number, a[2].number, a[3].whole != 0);
}

static void trace_count(k_optimizer_count *count, double beta1, double decay, bool in_float) {
    const trace_loop *of = &count_loop;
    note_call(of, call_count);
    note_place(count, of->name);
    note_double(beta1);
    note_double(decay);
    note_bool(in_float);
    note_call_ends();
    ((k_count_loop *)of->function)(count, beta1, decay, in_float);
    in_loop = false;
}

static void call_numbers(k_function *loop, const k_argument a[]) {
    ((k_numbers_loop *)loop)(a[0].address, a[1].address, a[2].address);
}

/* Notes the given numbers by value, since the optimizer sets them before each call, even if z is
 * `given`. */
static void trace_numbers(k_optimizer_numbers *z, const k_optimizer_count *count,
                          const k_optimizer_numbers *given) {
    const trace_loop *of = &numbers_loop;
    note_call(of, call_numbers);
    note_place(z, of->name);
    note_place(count, of->name);
    note_numbers(numbers_of, given);
    note_call_ends();
    ((k_numbers_loop *)of->function)(z, count, given);
    in_loop = false;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static trace_loop random_loop_of;

static void call_random(k_function *loop, const k_argument a[]) {
    ((k_random_fill *)loop)(a[0].address, a[1].address, a[2].whole, a[3].whole, a[4].number,
                            a[5].number);
}

static void trace_random(k_random_stream *s, char *to, int64_t step, int64_t n, double a,
                         double b) {
    const trace_loop *of = &random_loop_of;
    note_call(of, call_random);
    note_place(s, of->name);
    note_place(to, of->name);
    note_int64(step);
    note_int64(n);
    note_double(a);
    note_double(b);
    note_call_ends();
    ((k_random_fill *)of->function)(s, to, step, n, a, b);
    in_loop = false;
}

/* ---- the function that notes the calls of a loop --------------------------------------------- */

/* A loop whose table is named after it: softmax_loops has the loops `softmax`. If `note` is NULL,
 * other loops call it by its address. */
typedef struct {
    const char *loop;
    int operands;
    k_function *note;
    trace_loop *of;
    const k_struct *reads;
    bool by_size; /* Set if elements of the same size share a loop. */
} trace_row;

#define SUFFIX(NAME, suffix, ...) [RG_##NAME] = #suffix,
static const char *const dtype_suffixes[] = { RG_DTYPES(SUFFIX, ) };

/* clang-format would break the rows. */
/* clang-format off */
#define ROW(name, operands, note, of, reads, by_size) \
    { name, operands, (k_function *)note, of, reads, by_size },
/* The rows of loops that have a signature in common. Each macro is named after the function above
 * that notes its calls: MAP after trace_map. PLACES and COPIES both have trace_places; in COPIES,
 * all elements of one size share a loop. BY_ADDRESS is for loops that other loops call. */
#define MAP(name, operands, reads)    ROW(name, operands, trace_map, &map_loop, reads, false)
#define PLACES(name, operands, reads) ROW(name, operands, trace_places, &map_loop, reads, false)
#define COPIES(name, operands, reads) ROW(name, operands, trace_places, &map_loop, reads, true)
#define FINISH(name)                  ROW(name, 0, trace_finish, &finish_loop_of, NULL, false)
#define WORK(name, reads)             ROW(name, 0, trace_work, &work_loop, reads, false)
#define ASIDE(name, reads)            ROW(name, 0, trace_aside, &aside_loop, reads, false)
#define RANDOM(name)                  ROW(name, 0, trace_random, &random_loop_of, NULL, false)
#define BY_ADDRESS(name)              ROW(name, 0, NULL, NULL, NULL, false)
#define TRACE_NLL(name) \
    ROW(name, 0, trace_nll, &nll_loop_of, &k_nll_rows_struct, false)
#define TRACE_SOFTMAX(name) \
    ROW(name, 3, trace_softmax, &softmax_loop_of, &k_softmax_rows_struct, false)
#define CONVERT(NAME, suffix, ...) MAP("convert_" #suffix, 2, NULL)
static const trace_row trace_rows[] = {
    RG_LOOP_DTYPES(CONVERT, )
    TRACE_SOFTMAX("softmax")
    TRACE_SOFTMAX("softmax_backward")
    TRACE_SOFTMAX("softmax_short")
    TRACE_SOFTMAX("softmax_backward_short")
    ROW("matmul_product", 0, trace_product, &product_loop, &k_product_sizes_struct, false)
    ROW("matmul_tiny", 0, trace_tiny, &tiny_loop, &k_product_sizes_struct, false)
    BY_ADDRESS("matmul_direct")
    BY_ADDRESS("matmul_turn")
    MAP("loss", 5, &k_loss_context_struct)
    MAP("loss_slope", 5, &k_loss_context_struct)
    TRACE_NLL("nll")
    TRACE_NLL("nll_backward")
    TRACE_NLL("nll_total")
    TRACE_NLL("nll_mean")
    TRACE_NLL("cross_entropy")
    TRACE_NLL("cross_entropy_backward")
    COPIES("index_get", 3, &k_step_struct)
    COPIES("index_put", 3, &k_step_struct)
    PLACES("index_add", 3, &k_step_struct)
    FINISH("moments_divide")
    WORK("norm", &k_norm_work_struct)
    WORK("norm_backward", &k_norm_slopes_struct)
    ASIDE("norm_join", &k_norm_slopes_struct)
    WORK("batch_forward", &k_batch_work_struct)
    WORK("batch_backward", &k_batch_work_struct)
    WORK("attention_forward", &k_attention_plan_struct)
    WORK("attention_backward", &k_attention_plan_struct)
    WORK("attention_lanes_forward", &k_attention_plan_struct)
    WORK("attention_lanes_backward", &k_attention_plan_struct)
    ASIDE("clear", &k_clearing_struct)
    WORK("slide_forward", &k_conv_plan_struct)
    WORK("slide_weight", &k_conv_plan_struct)
    ASIDE("slide_offsets", &k_conv_plan_struct)
    WORK("conv_forward", &k_conv_plan_struct)
    WORK("conv_backward_input", &k_conv_plan_struct)
    WORK("conv_backward_weight", &k_conv_plan_struct)
    ASIDE("conv_turn", &k_conv_turning_struct)
    ROW("conv_turn_taps", 0, trace_aside, &aside_loop, &k_conv_taps_struct, true)
    WORK("whole_forward", &k_conv_whole_struct)
    WORK("pool_max", &k_pool_work_struct)
    WORK("pool_max_backward", &k_pool_work_struct)
    WORK("pool_mean", &k_pool_work_struct)
    WORK("pool_mean_backward", &k_pool_work_struct)
    WORK("recur_forward", &k_recur_plan_struct)
    WORK("recur_backward", &k_recur_plan_struct)
    ROW("recur_pack", 0, trace_pack, &pack_loop_of, NULL, false)
    WORK("distance_rows", &k_distance_struct)
    WORK("distance_grad_rows", &k_distance_struct)
    PLACES("cumsum", 3, &k_cumulate_along_struct)
    PLACES("cumprod", 3, &k_cumulate_along_struct)
    PLACES("recur", 3, &k_cumulate_along_struct)
    PLACES("logcumsumexp", 3, &k_cumulate_along_struct)
    ROW("place", 0, trace_reduce, &reduce_loop_of, &k_place_block_struct, false)
    PLACES("spread", 3, NULL)
    FINISH("norm_power")
    FINISH("logsumexp_finite")
    FINISH("logsumexp_log")
    FINISH("counts_reach")
    PLACES("index_multiply", 3, &k_step_struct)
    PLACES("index_max", 3, &k_step_struct)
    PLACES("index_min", 3, &k_step_struct)
    PLACES("index_offsets", 2, &k_index_dim_struct)
    WORK("clear_triangle", &k_triangle_struct)
    WORK("pad_indices", &k_pad_positions_struct)
    ROW("search", 0, trace_search, &search_loop_of, NULL, false)
    BY_ADDRESS("rank")
    PLACES("sort_lines", 3, &k_sort_struct)
    PLACES("select_lines", 3, &k_select_struct)
    RANDOM("random_uniform")
    RANDOM("random_blocks")
    RANDOM("random_pairs")
    RANDOM("random_bernoulli")
};
/* clang-format on */

/* Sets *of to the loop, and returns `note`. The loop's name is `base` with an ending for its type:
 * "_float" or, for loops that only copy elements, "_uint32". A loop without a dtype has no ending.
 */
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

/* Returns the function for a loop of this row. A loop that others call by its address stays as it
 * is. */
static k_function *trace_row_of(const trace_row *row, int dtype, k_function *loop) {
    if (!row->note) {
        functions[n_functions++ % TRACE_FUNCTIONS] =
            (trace_function){ .base = row->loop, .dtype = (rg_dtype)dtype, .function = loop };
        return loop;
    }
    trace_with(row->of, row->note, row->loop, dtype, row->by_size, row->operands, loop);
    row->of->reads = row->reads;
    return row->note;
}

/* Returns the function for a loop of a table that has a name. */
static k_function *trace_named(k_function *loop, const char *table, int dtype) {
    for (int i = 0; i < RG_COUNT(trace_rows); i++) {
        const size_t n = strlen(trace_rows[i].loop);
        if (strncmp(table, trace_rows[i].loop, n) == 0 && strcmp(table + n, "_loops") == 0)
            return trace_row_of(&trace_rows[i], dtype, loop);
    }
    trace_refuse(table);
    return loop;
}

static k_function *trace_choose(const void *row, k_function *loop, const char *table, int dtype) {
    if (in_loop)
        return loop;
    if (table == own_table) {
        own_call = row; /* The loop is the first field of the call. */
        return (k_function *)trace_own;
    }
    if (strcmp(table, "k->by_dtype") == 0) {
        const rg_kernel *k = K_HOLDER(rg_kernel, by_dtype, row, dtype);
        char base[K_LOOP_NAME];
        snprintf(base, sizeof base, "%s_loop", k->name);
        trace_with(&map_loop, NULL, base, dtype, is_by_size(k), k->n + 1, loop);
        map_loop.reads = &k_numbers_struct;
        return (k_function *)trace_map;
    }
    if (strcmp(table, "kind->loops") == 0) {
        const k_reduction *k = K_HOLDER(k_reduction, loops, row, dtype);
        /* For some dtypes, other reductions have the loops of sums. */
        const bool is_sum = k->loops[dtype][0] == k_sums.loops[dtype][0];
        const char *name = is_sum ? k_sums.name : k->name;
        trace_with(&reduce_loop_of, NULL, name, dtype, false, 2, loop);
        reduce_loop_of.reads = &k_reduce_block_struct;
        return (k_function *)trace_reduce;
    }
    if (strcmp(table, "which->loops") == 0) {
        const char *name = k_optimizer_name(row, (rg_dtype)dtype);
        optimizer_of = optimizer_row_of(name);
        return trace_with(&optimizer_loop, (k_function *)trace_optimizer, name, dtype, false, 0,
                          loop);
    }
    if (strcmp(table, "which->count") == 0) {
        const char *name = k_count_loop_name(row);
        return trace_with(&count_loop, (k_function *)trace_count, name, dtype, false, 0, loop);
    }
    if (strcmp(table, "which->numbers") == 0) {
        const char *name = k_numbers_loop_name(row);
        numbers_of = optimizer_row_of(name);
        return trace_with(&numbers_loop, (k_function *)trace_numbers, name, dtype, false, 0, loop);
    }
    return trace_named(loop, table, dtype);
}

/* ---- regions, the beginning and the end ------------------------------------------------------ */

int k_trace_region(k_trace *t, void *begin, size_t bytes, bool temporary) {
    if (!grow((void **)&t->regions, &t->regions_room, t->n_regions + 1, sizeof *t->regions)) {
        t->failed = true;
        return -1;
    }
    t->regions[t->n_regions] = (k_region){ begin, bytes, temporary };
    return (int)t->n_regions++;
}

/* Called with each block that the thread allocates for the step. */
static void tell_block(void *block, size_t bytes) { k_trace_region(tracing, block, bytes, true); }

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
    _Alignas(8) char bytes[2048];
    size_t used;
} trace_room;

static size_t value_bytes(k_value_kind kind) {
    if (kind == K_BOOL)
        return sizeof(bool);
    return kind == K_INT ? sizeof(int) : sizeof(int64_t);
}

/* Returns whether the array or the struct that begins at v lies in the struct around it, which
 * otherwise has its address. */
static bool lies_inside(const k_value *v) { return !v->type || *v->type == '.'; }

/* Returns the size of the array or the struct that begins at v, and sets *values to the number of
 * its values. */
static size_t group_bytes(const k_value *v, size_t *values) {
    size_t bytes = 0, i = 1;
    while (v[i].kind != K_END) {
        size_t n = 1;
        if (v[i].kind == K_BEGIN) {
            const size_t inner = group_bytes(&v[i], &n);
            bytes = RG_ROUND_UP(bytes, 8) + (lies_inside(&v[i]) ? inner : sizeof(void *));
        } else {
            const size_t size = value_bytes(v[i].kind);
            bytes = RG_ROUND_UP(bytes, size) + size;
        }
        i += n;
    }
    *values = i + 1;
    return RG_ROUND_UP(bytes, 8);
}

static char *address_of(const k_trace *t, const k_value *v, char *const temporary[]) {
    const k_region *r = &t->regions[v->region];
    return (r->temporary ? temporary[v->region] : r->begin) + v->offset;
}

/* Writes a value to the address, except one that begins a group. */
static void repeat_value(char *to, const k_trace *t, const k_value *v, char *const temporary[]) {
    const int small = (int)v->whole;
    const bool truth = v->whole != 0;
    char *address = NULL;
    switch (v->kind) {
    case K_PLACE:
        address = address_of(t, v, temporary);
        memcpy(to, &address, sizeof address);
        break;
    case K_ELEMENT:
        address = (char *)&v->bits;
        memcpy(to, &address, sizeof address);
        break;
    case K_NULL: memcpy(to, &address, sizeof address); break;
    case K_FUNCTION: memcpy(to, &v->function, sizeof v->function); break;
    case K_INT: memcpy(to, &small, sizeof small); break;
    case K_BOOL: memcpy(to, &truth, sizeof truth); break;
    case K_DOUBLE:
    case K_INT64: memcpy(to, &v->bits, sizeof v->bits); break;
    case K_BEGIN:
    case K_END: break;
    }
}

/* Makes the array or the struct that begins at v: at `to` or, if that is NULL, in new room. Returns
 * its address. */
static char *repeat_group(trace_room *room, char *to, const k_trace *t, const k_value *v,
                          char *const temporary[]) {
    size_t values, n, at = 0;
    const size_t bytes = group_bytes(v, &values);
    if (!to) {
        to = room->bytes + room->used;
        room->used += bytes;
    }
    for (size_t i = 1; i < values - 1; i += n) {
        n = 1;
        if (v[i].kind == K_BEGIN) {
            const size_t inner = group_bytes(&v[i], &n);
            at = RG_ROUND_UP(at, 8);
            const bool inside = lies_inside(&v[i]);
            char *group = repeat_group(room, inside ? to + at : NULL, t, &v[i], temporary);
            if (!inside)
                memcpy(to + at, &group, sizeof group);
            at += inside ? inner : sizeof group;
        } else {
            const size_t size = value_bytes(v[i].kind);
            at = RG_ROUND_UP(at, size);
            repeat_value(to + at, t, &v[i], temporary);
            at += size;
        }
    }
    return to;
}

static void repeat_call(const k_trace *t, const k_traced_call *c, char *const temporary[]) {
    k_argument a[12];
    trace_room room = { .used = 0 };
    const k_value *v = t->values + c->first;
    int count = 0;
    for (size_t i = 0, n; i < c->count; i += n) {
        k_argument *to = &a[count++];
        n = 1;
        if (v[i].kind == K_BEGIN) {
            to->address = repeat_group(&room, NULL, t, &v[i], temporary);
            group_bytes(&v[i], &n);
        } else if (v[i].kind == K_DOUBLE || v[i].kind == K_PLACE || v[i].kind == K_NULL) {
            repeat_value((char *)to, t, &v[i], temporary);
        } else {
            to->whole = v[i].whole;
        }
    }
    c->call(c->function, a);
}

size_t k_trace_first(const k_trace *t, size_t mark) {
    size_t low = 0, high = t->n_calls;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->calls[middle].mark < mark)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void k_trace_repeat(const k_trace *t, size_t first, size_t last, char *const temporary[]) {
    for (size_t i = k_trace_first(t, first); i < t->n_calls && t->calls[i].mark < last; i++)
        repeat_call(t, &t->calls[i], temporary);
}

/* ---- names, and freeing a trace ------------------------------------------------------------ */

void k_trace_function_name(const k_value *v, char name[K_LOOP_NAME]) {
    snprintf(name, K_LOOP_NAME, "%s_%s", v->type, dtype_suffixes[v->dtype]);
}

void k_trace_free(k_trace *t) {
    rgi_free(t->calls, t->calls_room * sizeof *t->calls, RG_MEM_OTHER);
    rgi_free(t->values, t->values_room * sizeof *t->values, RG_MEM_OTHER);
    rgi_free(t->regions, t->regions_room * sizeof *t->regions, RG_MEM_OTHER);
    *t = (k_trace){ 0 };
}

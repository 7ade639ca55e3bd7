/*
 * recurrent.c: LSTM, GRU and RNN layers in one direction, forward and backward. Each thread
 * computes all time steps for some rows of the batch. So no time step waits for another thread, and
 * the weights stay in the thread's L2 cache. loops/recurrent.h computes the rows.
 */
#include "plans.h"
#include "smooth.h"
#include "tensor/memory.h"

enum {
    /* The number of columns of a panel of weights. The last panel is filled up with zeros. */
    RECUR_PANEL = 64,
    /* A task has at most RECUR_MOST rows of the batch. The number of rows is a multiple of
     * RECUR_ROUND, except in the last task. */
    RECUR_ROUND = 8,
    RECUR_MOST = 64
};

/* Returns the number of gates for each hidden element. */
static int recur_gates(k_recurrent_kind kind) {
    static const int gates[] = { [K_LSTM] = 4, [K_GRU] = 3, [K_RNN_TANH] = 1, [K_RNN_RELU] = 1 };
    return gates[kind];
}

/* Returns the index in the time dim of the i-th time step that is computed. */
static inline int64_t recur_time(const k_recurrent *z, int64_t i) {
    return z->reverse ? z->steps - 1 - i : i;
}

#define K_LOOPS "loops/recurrent.h"
#define K_TYPES_FLOATS
#include "sets.h"

static char *recur_data(const rg_tensor *t) { return t ? t->data : NULL; }

static int64_t recur_panels(int64_t n) { return (n + RECUR_PANEL - 1) / RECUR_PANEL * RECUR_PANEL; }

/* Packs the weights, runs all tasks, and frees the memory of the packed weights and of the workers.
 * `turned` says whether the weights are transposed when they are packed, as forward needs them.
 * `room` is the number of elements of scratch memory for each row of the batch. Returns false if
 * memory runs out, or if there is no loop for the dtype. */
static bool recur_run(recur_plan *p, const rg_tensor *weight, bool turned, int64_t room,
                      rg_work *work) {
    static k_recurrent_pack *const recur_pack_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(recur_pack);
    const k_recurrent *z = p->z;
    const rg_dtype dtype = (rg_dtype)weight->dtype;
    k_recurrent_pack *pack = K_LOOP_OF(recur_pack_loops, dtype, "recurrent");
    p->product = k_direct_product(dtype);
    if (!work || !pack || !p->product)
        return false;
    const int64_t rows = weight->size[0], columns = weight->size[1];
    const size_t item = rgi_sizeof(dtype);
    const int64_t wide = turned ? p->gates_wide * columns : p->from_wide * rows;
    const double steps = (double)rows * (double)columns * (double)z->steps;
    const int64_t grain = RG_MAX(RECUR_ROUND, (int64_t)RG_MIN(0x1p19 / RG_MAX(1, steps), 0x1p30));
    const int64_t share = z->batch / RG_MAX(1, rgi_workers(z->batch, grain)) + RECUR_ROUND - 1;
    const int64_t part = RG_MAX(RECUR_ROUND, RG_MIN(share, RECUR_MOST) / RECUR_ROUND * RECUR_ROUND);
    const int workers = part < grain ? 1 : rgi_workers(z->batch, part);
    p->bytes = ((size_t)(RG_MIN(part, z->batch) * room) * item + 63) / 64 * 64;
    const size_t packed = ((size_t)wide * item + 63) / 64 * 64;
    const size_t bytes = packed + p->bytes * (size_t)workers;
    char *block = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!block)
        return false;
    pack(block, weight->data, rows, columns, turned);
    p->weight = block;
    p->room = block + packed;
    rgi_parallel(z->batch, part, workers, work, p);
    rgi_free(block, bytes, RG_MEM_OTHER);
    return true;
}

static recur_plan recur_plan_of(const k_recurrent *z) {
    return (recur_plan){ .z = z,
                         .gates_wide = recur_panels(z->hidden * recur_gates(z->kind)),
                         .from_wide = recur_panels(z->from) };
}

bool k_recur(const k_recurrent *z, const k_recurrent_values *v, const rg_tensor *gates_in,
             const rg_tensor *weight, const rg_tensor *bias) {
    static rg_work *const recur_forward_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(recur_forward);
    recur_plan p = recur_plan_of(z);
    p.gates_in = gates_in->data;
    p.bias = recur_data(bias);
    p.h_0 = v->h_0->data;
    p.c_0 = recur_data(v->c_0);
    p.y = v->y->data;
    p.c = recur_data(v->c);
    p.gates = recur_data(v->gates);
    rg_work *work = K_LOOP_OF(recur_forward_loops, weight->dtype, "recurrent");
    return recur_run(&p, weight, true, p.gates_wide, work);
}

bool k_recur_backward(const k_recurrent *z, const k_recurrent_values *v,
                      const k_recurrent_gradients *g, const rg_tensor *weight) {
    static rg_work *const recur_backward_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(recur_backward);
    recur_plan p = recur_plan_of(z);
    p.h_0 = v->h_0->data;
    p.c_0 = recur_data(v->c_0);
    p.y = v->y->data;
    p.c = recur_data(v->c);
    p.gates = recur_data(v->gates);
    p.g_y = g->y->data;
    p.g_c = recur_data(g->c);
    p.g_in = g->gates_in->data;
    p.g_hidden = g->hidden->data;
    p.g_h_0 = g->h_0->data;
    p.g_c_0 = recur_data(g->c_0);
    rg_work *work = K_LOOP_OF(recur_backward_loops, weight->dtype, "recurrent");
    return recur_run(&p, weight, false, p.from_wide + 2 * z->hidden, work);
}

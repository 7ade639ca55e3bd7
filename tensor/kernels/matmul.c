/*
 * matmul.c: products of matrices with any strides, over batches. This file cuts a product into
 * tasks for the threads, and selects the loops: by tiles of packed factors (loops/matmul.h),
 * without packing (loops/matmul_thin.h), or for tiny products (loops/matmul_tiny.h).
 */
#include "exchange.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "kernels.h"

typedef void matmul_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                            const void *b, double alpha, double beta, void *room);
typedef void matmul_tiny(const k_product_sizes *z, void *y, const void *a, const void *b);

enum {
    /* Each of these fits into the L2 cache: MATMUL_MC rows of a with K_PRODUCT_STEPS terms each, or
     * a whole matrix b of up to MATMUL_STAYS elements. */
    MATMUL_MC = 256,
    MATMUL_STAYS = 1 << 17,
    /* MATMUL_SOME is the least number of rows of `a` for which it pays to prefetch b, and
     * MATMUL_MANY the least number for which it pays to pack b. */
    MATMUL_SOME = 16,
    MATMUL_MANY = 128,
    /* The number of columns of b above which it pays to pack `a`. */
    MATMUL_WIDE = 512,
    /* A product is tiny if it has at most MATMUL_TINY multiplications, and at most MATMUL_TINY_K
     * terms in each sum. */
    MATMUL_TINY = 1000,
    MATMUL_TINY_K = 8,
    /* The number of dot products that are computed at the same time. */
    MATMUL_STREAMS = 4
};

/* Returns how many lines of k elements a worker's scratch memory holds. A line is a column of b or
 * a row of `a`. 32 lines are for a panel of b, which has at most 32 columns in any instruction set.
 * If `a` is packed, there are also the rows of `a` in a block, and 16 more, since the last panel of
 * `a` is filled up with zeros. */
static int64_t matmul_lines(int64_t m, int64_t columns) {
    return 32 + (columns > MATMUL_WIDE ? RG_MIN(m, MATMUL_MC) + 16 : 0);
}

/* A plan for prefetching the next panel of b while the tiles of the current panel are computed. The
 * next panel is in `lines` cache lines; `left` of them remain to be prefetched, and `at_once` are
 * prefetched at a time. The cache lines form groups of `group_lines`. Within a group they are
 * line_step bytes apart; after the last line of a group, group_step is added as well. */
typedef struct {
    const char *next; /* The address of the next cache line to prefetch. */
    int64_t in_group; /* The index of that cache line within its group. */
    int64_t lines, left, at_once;
    int64_t line_step, group_lines, group_step;
} matmul_prefetch;

#define K_LOOPS "loops/matmul_thin.h"
#define K_TYPES_NUMBERS
#include "sets.h"

#define K_LOOPS "loops/matmul_tiny.h"
#define K_TYPES_NUMBERS
#include "sets.h"

#define K_LOOPS "loops/matmul.h"
#define K_TYPES_NUMBERS
#include "sets.h"

k_product *k_direct_product(rg_dtype dtype) {
    static k_product *const matmul_direct_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(matmul_direct);
    return K_LOOP_OF(matmul_direct_loops, dtype, "addmm_impl_cpu_");
}

k_turn *k_direct_turn(rg_dtype dtype) {
    static k_turn *const matmul_turn_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(matmul_turn);
    return K_LOOP_OF(matmul_turn_loops, dtype, "addmm_impl_cpu_");
}

rg_tensor k_turned(const rg_tensor *t) {
    rg_tensor y = rgi_header_of(t);
    int r = t->ndim - 2;
    int c = t->ndim - 1;
    y.size[r] = t->size[c];
    y.stride[r] = t->stride[c];
    y.size[c] = t->size[r];
    y.stride[c] = t->stride[r];
    rgi_update_flags(&y);
    return y;
}

/* ---- the tasks of a product ------------------------------------------------------------------ */

/* The plan of a call, which all its tasks share: a batch of products. The matrix y of each product
 * is cut into tiles, and a task is one tile. */
typedef struct {
    k_product_sizes z;
    const rg_tensor *y, *a, *b;
    /* The number of batch dims of each tensor. */
    int y_dims, a_dims, b_dims;
    /* A tile has `rows` rows and `columns` columns. Each matrix y has `tiles` tiles; a row of tiles
     * has `across` of them. */
    int64_t rows, columns, across, tiles;
    double alpha, beta;
    /* The operand c of y = alpha * a b + beta * c, if c is a single row, which is added to each row
     * of y. If `bias` is NULL, the old elements of y are c. */
    const char *bias;
    matmul_product *product;
    /* Scratch memory for all workers, of `bytes` bytes for each worker; NULL if the product needs
     * none. */
    char *room;
    size_t bytes;
} matmul_plan;

/* Returns the offset in bytes of t's matrix for one item of y's batch. at[] is the index of the
 * item. t is y, a or b, and has `dims` batch dims. */
static int64_t matmul_offset(const rg_tensor *t, int dims, int y_dims, const int64_t at[]) {
    int64_t offset = 0;
    const int64_t *from = at + (y_dims - dims);
    for (int d = 0; d < dims; d++)
        if (t->size[d] != 1)
            offset += from[d] * t->stride[d];
    return offset * (int64_t)rgi_sizeof(t->dtype);
}

/* Computes tiles begin to end - 1. Tiles are numbered along a row of tiles, then row after row of a
 * matrix, and then matrix after matrix of the batch. */
static void matmul_part(void *plan, int64_t begin, int64_t end, int worker) {
    const matmul_plan *p = plan;
    const int64_t item = (int64_t)rgi_sizeof(p->y->dtype);
    void *room = p->room ? p->room + (size_t)worker * p->bytes : NULL;
    for (int64_t part = begin; part < end; part++) {
        const int64_t tile = part % p->tiles;
        const int64_t i = tile / p->across * p->rows;
        const int64_t j = tile % p->across * p->columns;
        int64_t batch = part / p->tiles;
        int64_t at[RG_MAX_DIMS];
        for (int d = p->y_dims - 1; d >= 0; d--) {
            at[d] = batch % p->y->size[d];
            batch /= p->y->size[d];
        }
        k_product_sizes z = p->z;
        z.m = RG_MIN(z.m - i, p->rows);
        z.n = RG_MIN(z.n - j, p->columns);
        z.c_row = p->bias ? 0 : z.y_row;
        char *y = p->y->data + matmul_offset(p->y, p->y_dims, p->y_dims, at);
        const char *a = p->a->data + matmul_offset(p->a, p->a_dims, p->y_dims, at);
        const char *b = p->b->data + matmul_offset(p->b, p->b_dims, p->y_dims, at);
        y += (i * z.y_row + j * z.y_col) * item;
        a += i * z.a_row * item;
        b += j * z.b_col * item;
        const char *c = p->bias ? p->bias + j * item : y;
        p->product(&z, y, c, a, b, p->alpha, p->beta, room);
    }
}

/* Cuts y into tiles: halves the longer edge until there are two tiles for each thread. Stops before
 * that if a tile is little work for a thread, or if the longer edge is at most 64. The cost of a
 * product is computed as if it had eight more rows, because a product of few rows mostly waits for
 * b to be read. The result has the same bits however y is cut. */
static void matmul_cut(matmul_plan *p, int64_t batches) {
    const double steps = (double)(p->z.m + 8) * (double)p->z.n * (double)p->z.k;
    const int64_t shares = (int64_t)RG_MIN(steps * (double)batches / 0x1p19, 0x1p30) + 1;
    const int threads = rgi_workers(shares, 1);
    p->rows = p->z.m;
    p->columns = p->z.n;
    p->across = 1;
    p->tiles = 1;
    while (threads > 1 && p->tiles * batches < 2 * threads
           && (double)(p->rows + 8) * (double)p->columns * (double)p->z.k > 0x1p21) {
        int64_t *edge = p->columns >= p->rows ? &p->columns : &p->rows;
        if (*edge <= 64)
            break;
        *edge = (*edge / 2 + 63) / 64 * 64;
        p->across = (p->z.n - 1) / p->columns + 1;
        p->tiles = ((p->z.m - 1) / p->rows + 1) * p->across;
    }
}

/* ---- the shape of a product ----------------------------------------------------------------- */

static inline k_product_sizes matmul_sizes(const rg_tensor *y, const rg_tensor *a, bool turn_a,
                                           const rg_tensor *b, bool turn_b) {
    int a_dims = a->ndim - 2;
    int b_dims = b->ndim - 2;
    int y_dims = y->ndim - 2;
    return (k_product_sizes){
        .m = a->size[a_dims + turn_a],
        .n = b->size[b_dims + !turn_b],
        .k = a->size[a_dims + !turn_a],
        .y_row = y->stride[y_dims],
        .y_col = y->stride[y_dims + 1],
        .a_row = a->stride[a_dims + turn_a],
        .a_col = a->stride[a_dims + !turn_a],
        .b_row = b->stride[b_dims + turn_b],
        .b_col = b->stride[b_dims + !turn_b],
    };
}

/* Joins the matrices of a batch into one matrix with more rows, if the whole batch has the same b,
 * and the rows of consecutive matrices are evenly spaced. */
static void matmul_join_batches(matmul_plan *p) {
    k_product_sizes *z = &p->z;
    if (p->b_dims != 0)
        return;
    while (p->y_dims > 0 && p->y_dims == p->a_dims) {
        const int last = p->y_dims - 1;
        const int64_t size = p->y->size[last];
        const int64_t a_stride = p->a->stride[last];
        const int64_t y_stride = p->y->stride[last];
        if (size != 1 && z->m == 1) {
            z->a_row = a_stride;
            z->y_row = y_stride;
        } else if (size != 1 && (a_stride != z->m * z->a_row || y_stride != z->m * z->y_row)) {
            return;
        }
        z->m *= size;
        p->y_dims--;
        p->a_dims--;
    }
}

/* Turns the product of a matrix with a column vector b into the product of a row vector with a
 * matrix: y^T = b^T a^T. */
static void matmul_exchange_factors(matmul_plan *p) {
    const k_product_sizes z = p->z;
    p->z = (k_product_sizes){ .m = 1,
                              .n = z.m,
                              .k = z.k,
                              .y_row = z.y_col,
                              .y_col = z.y_row,
                              .a_row = z.b_col,
                              .a_col = z.b_row,
                              .b_row = z.a_col,
                              .b_col = z.a_row };
    RG_SWAP(p->a, p->b);
    RG_SWAP(p->a_dims, p->b_dims);
}

/* Returns whether the product is faster without packing (matmul_thin) than by tiles. That is so if
 * there are few rows, or at most MATMUL_TINY multiplications. A product that can be computed as dot
 * products of contiguous memory may have a few rows more. */
static bool matmul_stays_in_place(const k_product_sizes *z) {
    const double steps = (double)z->m * (double)z->n * (double)z->k;
    int64_t few = z->k * z->n > MATMUL_STAYS ? 3 : 2;
    if (z->b_row == 1 && z->a_col == 1 && z->k >= 64)
        few = z->k < 256 ? 4 : 8;
    return steps <= MATMUL_TINY || z->m <= few;
}

/* Selects the loop that computes the tiles, and the size of its scratch memory. Returns false if
 * there is no loop for the dtype. */
static bool matmul_choose(matmul_plan *p) {
    static matmul_product *const matmul_product_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_NUMBERS(matmul_product);
    const rg_dtype dtype = p->y->dtype;
    const k_product_sizes *z = &p->z;
    const bool in_place = matmul_stays_in_place(z);
    if (dtype == RG_FLOAT32) {
        const bool exact = p->alpha == 1 && !in_place && k_bfloat16_is_exact(z, p->a, p->b);
        p->bytes = k_bfloat16_room(z, p->columns, exact);
        if (p->bytes) {
            p->product = k_bfloat16_product;
            return true;
        }
    }
    if (!in_place)
        p->bytes = (size_t)(RG_MIN(z->k, K_PRODUCT_STEPS) * matmul_lines(z->m, p->columns))
                   * rgi_sizeof(dtype);
    p->product = K_LOOP_OF(matmul_product_loops, dtype, "addmm_impl_cpu_");
    return p->product != NULL;
}

/* Computes all tiles, on several threads if there is enough work. Returns false if memory runs
 * out. */
static bool matmul_run(matmul_plan *p, int64_t batches) {
    const double steps = (double)p->z.m * (double)p->z.n * (double)p->z.k;
    const int64_t parts = p->tiles * batches;
    const int64_t grain = RG_MAX(1, (int64_t)(0x1p19 / RG_MAX(1, steps / (double)p->tiles)));
    const int workers = rgi_workers(parts, grain);
    const size_t bytes = p->bytes * (size_t)workers;
    if (bytes) {
        p->room = rgi_alloc(bytes, RG_MEM_OTHER);
        if (!p->room)
            return false;
    }
    rgi_parallel(parts, grain, workers, matmul_part, p);
    if (bytes)
        rgi_free(p->room, bytes, RG_MEM_OTHER);
    return true;
}

static __attribute__((noinline)) bool matmul_any(rg_tensor *y, const rg_tensor *c,
                                                 const rg_tensor *a, bool turn_a,
                                                 const rg_tensor *b, bool turn_b, double alpha,
                                                 double beta) {
    if (y->numel == 0)
        return true;
    matmul_plan p = { .z = matmul_sizes(y, a, turn_a, b, turn_b),
                      .y = y,
                      .a = a,
                      .b = b,
                      .y_dims = y->ndim - 2,
                      .a_dims = a->ndim - 2,
                      .b_dims = b->ndim - 2,
                      .alpha = alpha,
                      .beta = beta };
    /* As in BLAS, if alpha is 0 the factors aren't read, so that a NaN in them has no effect. */
    if (alpha == 0)
        p.z.k = 0;
    if (c && beta != 0) {
        const bool is_row = c->ndim == 1 && c->size[0] == p.z.n && p.z.n > 1 && c->stride[0] == 1
                            && p.z.y_col == 1;
        if (is_row)
            p.bias = c->data;
        else
            rgi_copy_elements(y, c);
    }
    matmul_join_batches(&p);
    if (p.z.n == 1 && p.z.m > 1)
        matmul_exchange_factors(&p);
    int64_t batches = 1;
    for (int d = 0; d < p.y_dims; d++)
        batches *= y->size[d];
    matmul_cut(&p, batches);
    return matmul_choose(&p) && matmul_run(&p, batches);
}

bool k_matmul_with(rg_tensor *y, const rg_tensor *c, const rg_tensor *a, bool turn_a,
                   const rg_tensor *b, bool turn_b, double alpha, double beta) {
    static matmul_tiny *const matmul_tiny_loops[K_DTYPES][K_COLUMNS] = K_TABLE_NUMBERS(matmul_tiny);
    const int64_t k = a->size[a->ndim - 1 - turn_a];
    const bool one_matrix = a->ndim + b->ndim + y->ndim <= 6;
    /* If y is empty or the sums are empty (k = 0), the product isn't counted as tiny: y->numel * k
     * - 1 wraps around to a large number. */
    const bool few_steps = k <= MATMUL_TINY_K && (uint64_t)(y->numel * k) - 1 < MATMUL_TINY;
    if (RG_UNLIKELY(!one_matrix || !few_steps || y->stride[1] != 1 || alpha != 1 || beta != 0))
        return matmul_any(y, c, a, turn_a, b, turn_b, alpha, beta);
    matmul_tiny *product = K_LOOP_OF(matmul_tiny_loops, y->dtype, "addmm_impl_cpu_");
    if (!product)
        return false;
    const k_product_sizes z = matmul_sizes(y, a, turn_a, b, turn_b);
    product(&z, y->data, a->data, b->data);
    return true;
}

/*
 * matmul.c: products of matrices of any strides, cut into parts for the threads, by
 * the best instruction set that the processor has (matmul_tile.h). Tiny and thin ones
 * run in place, without tiles.
 */
#include "exchange.h"
#include "kernels.h"

typedef void matmul_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                            const void *b, double alpha, double beta, void *room);
typedef void matmul_tiny(const k_product_sizes *z, void *y, const void *a, const void *b);
typedef uint64_t matmul_wrapping; /* integers wrap around */

/* Steps along k, rows of a, and all of a b, that stay in the second cache. So many rows make it
 * worth fetching b ahead, or packing it, and so many columns packing a. */
enum {
    MATMUL_KC = 384,
    MATMUL_MC = 256,
    MATMUL_STAYS = 1 << 17,
    MATMUL_SOME = 16,
    MATMUL_MANY = 128,
    MATMUL_WIDE = 512
};
/* steps of a tiny one in all, and along k */
enum { MATMUL_TINY = 1000, MATMUL_TINY_K = 8 };
enum { MATMUL_STREAMS = 4 }; /* dot products that are made at once */

/* Lines to make room for: a panel of b of any instruction set, and if a is packed its rows, up to
 * the next two tiles. */
static int64_t matmul_lines(int64_t m, int64_t columns) {
    return 32 + (columns > MATMUL_WIDE ? RG_MIN(m, MATMUL_MC) + 16 : 0);
}

/* What is fetched while tiles count, `each` time some of the lines of memory that are left: `count`
 * of them so far apart, and then `further` on. */
typedef struct {
    const char *from;
    int64_t apart, count, at, further, left, each;
} matmul_next;

/* alpha and beta in the type of the product: of integers, their signed value. */
#define MATMUL_NUMBER(x) (T) _Generic((T)0, matmul_wrapping : (int64_t)(x), default : (x))

#define K_FILE "matmul_tile.h"
#include "sets.h"

k_product *k_direct_product(rg_dtype dtype) {
    static k_product *const direct[][K_SET_COUNT] = { K_SETS(tile_direct_float),
                                                      K_SETS(tile_direct_double) };
    return direct[dtype == RG_FLOAT64][k_set];
}

k_turn *k_direct_turn(rg_dtype dtype) {
    static k_turn *const turns[][K_SET_COUNT] = { K_SETS(tile_turn_float),
                                                  K_SETS(tile_turn_double) };
    return turns[dtype == RG_FLOAT64][k_set];
}

rg_tensor k_turned(const rg_tensor *t) {
    rg_tensor y = *t;
    int r = t->ndim - 2, c = t->ndim - 1;
    y.size[r] = t->size[c];
    y.stride[r] = t->stride[c];
    y.size[c] = t->size[r];
    y.stride[c] = t->stride[r];
    rgi_update_flags(&y);
    return y;
}

/* How many bytes further the batch lies whose place in y is at[]. */
static int64_t matmul_offset(const rg_tensor *t, int batch_dims, int y_dims, const int64_t at[]) {
    int64_t offset = 0;
    for (int d = y_dims - batch_dims, i = 0; i < batch_dims; d++, i++)
        if (t->size[i] != 1)
            offset += at[d] * t->stride[i];
    return offset * (int64_t)rgi_sizeof(t->dtype);
}

/* Batches of products, whose y are cut into tiles. */
typedef struct {
    k_product_sizes z;
    const rg_tensor *y, *a, *b;
    int ny, na, nb; /* dims of batches */
    /* of a tile; side by side; in all of one y */
    int64_t rows, columns, across, tiles;
    double alpha, beta;
    const char *bias; /* a row to begin with, or NULL: y */
    matmul_product *product;
    /* of so many bytes for each worker, or NULL: in place */
    char *room;
    size_t bytes;
} matmul_plan;

static void matmul_part(void *plan, int64_t begin, int64_t end, int worker) {
    matmul_plan *p = plan;
    int64_t item = (int64_t)rgi_sizeof(p->y->dtype);
    for (int64_t part = begin; part < end; part++) {
        int64_t batch = part / p->tiles, i = part % p->tiles / p->across * p->rows,
                j = part % p->across * p->columns, at[RG_MAX_DIMS];
        for (int d = p->ny - 1; d >= 0; batch /= p->y->size[d--])
            at[d] = batch % p->y->size[d];
        k_product_sizes z = p->z;
        z.m = RG_MIN(z.m - i, p->rows);
        z.n = RG_MIN(z.n - j, p->columns);
        char *y = p->y->data + matmul_offset(p->y, p->ny, p->ny, at)
                  + (i * z.y_row + j * z.y_col) * item;
        const char *a = p->a->data + matmul_offset(p->a, p->na, p->ny, at) + i * z.a_row * item;
        const char *b = p->b->data + matmul_offset(p->b, p->nb, p->ny, at) + j * z.b_col * item;
        const char *c = p->bias ? p->bias + j * item : y;
        z.c_row = p->bias ? 0 : z.y_row;
        p->product(&z, y, c, a, b, p->alpha, p->beta,
                   p->room ? p->room + (size_t)worker * p->bytes : NULL);
    }
}

/* Tiles of y for so many batches: two for each of the threads that have enough to do, by halving
 * the longer edge. That a few rows wait for all of b counts as eight more. No bit depends on the
 * tiles. */
static void matmul_cut(matmul_plan *p, int64_t batches) {
    double steps = (double)(p->z.m + 8) * (double)p->z.n * (double)p->z.k;
    int threads = rgi_workers((int64_t)RG_MIN(steps * (double)batches / 0x1p19, 0x1p30) + 1, 1);
    p->rows = p->z.m;
    p->columns = p->z.n;
    p->across = p->tiles = 1;
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

static inline k_product_sizes matmul_sizes(const rg_tensor *y, const rg_tensor *a, bool turn_a,
                                           const rg_tensor *b, bool turn_b) {
    int na = a->ndim - 2, nb = b->ndim - 2, ny = y->ndim - 2;
    return (k_product_sizes){
        .m = a->size[na + turn_a],
        .n = b->size[nb + !turn_b],
        .k = a->size[na + !turn_a],
        .y_row = y->stride[ny],
        .y_col = y->stride[ny + 1],
        .a_row = a->stride[na + turn_a],
        .a_col = a->stride[na + !turn_a],
        .b_row = b->stride[nb + turn_b],
        .b_col = b->stride[nb + !turn_b],
    };
}

static __attribute__((noinline)) bool matmul_any(rg_tensor *y, const rg_tensor *c,
                                                 const rg_tensor *a, bool turn_a,
                                                 const rg_tensor *b, bool turn_b, double alpha,
                                                 double beta) {
    int na = a->ndim - 2, nb = b->ndim - 2, ny = y->ndim - 2;
    k_product_sizes z = matmul_sizes(y, a, turn_a, b, turn_b);
    /* not read, be they NaN, as BLAS has it */
    if (alpha == 0)
        z.k = 0;
    if (y->numel == 0)
        return true;
    bool row = c && c->ndim == 1 && c->size[0] == z.n && z.n > 1 && c->stride[0] == 1
               && z.y_col == 1;
    if (c && beta != 0 && !row)
        rgi_copy_elements(y, c);
    /* one b for all: rows that go on evenly are one matrix */
    for (; nb == 0 && ny > 0 && ny == na; ny--, na--) {
        if (y->size[ny - 1] == 1)
            continue;
        if (z.m == 1)
            z.a_row = a->stride[na - 1], z.y_row = y->stride[ny - 1];
        else if (a->stride[na - 1] != z.m * z.a_row || y->stride[ny - 1] != z.m * z.y_row)
            break;
        z.m *= y->size[ny - 1];
    }
    if (z.n == 1 && z.m > 1) { /* a vector on the right: y^T = b^T a^T */
        z = (k_product_sizes){ .m = 1,
                               .n = z.m,
                               .k = z.k,
                               .y_row = z.y_col,
                               .y_col = z.y_row,
                               .a_row = z.b_col,
                               .a_col = z.b_row,
                               .b_row = z.a_col,
                               .b_col = z.a_row };
        RG_SWAP(a, b);
        RG_SWAP(na, nb);
    }
    static matmul_product *const products[][K_SET_COUNT] = {
        [RG_INT64] = K_SETS(tile_product_matmul_wrapping),
        [RG_FLOAT32] = K_SETS(tile_product_float),
        [RG_FLOAT64] = K_SETS(tile_product_double)
    };
    matmul_product *product = products[y->dtype][k_set];
    double steps = (double)z.m * (double)z.n * (double)z.k;
    /* rows that are quicker in place, and as dot products */
    int64_t few = z.k * z.n > MATMUL_STAYS ? 3 : 2;
    if (z.b_row == 1 && z.a_col == 1 && z.k >= 64)
        few = z.k < 256 ? 4 : 8;
    matmul_plan p = { .z = z,
                      .y = y,
                      .a = a,
                      .b = b,
                      .ny = ny,
                      .na = na,
                      .nb = nb,
                      .alpha = alpha,
                      .beta = beta,
                      .bias = row && beta != 0 ? c->data : NULL,
                      .product = product };
    int64_t batches = 1;
    for (int d = 0; d < ny; d++)
        batches *= y->size[d];
    matmul_cut(&p, batches);
    if ((p.bytes = y->dtype == RG_FLOAT32 ? k_bfloat16_room(&z, p.columns) : 0))
        p.product = k_bfloat16_product;
    else if (steps > MATMUL_TINY && z.m > few)
        p.bytes = (size_t)(RG_MIN(z.k, MATMUL_KC) * matmul_lines(z.m, p.columns))
                  * rgi_sizeof(y->dtype);
    int64_t parts = p.tiles * batches,
            grain = RG_MAX(1, (int64_t)(0x1p19 / RG_MAX(1, steps / (double)p.tiles)));
    int workers = rgi_workers(parts, grain);
    if (p.bytes && !(p.room = rgi_alloc(p.bytes * (size_t)workers, RG_MEM_OTHER)))
        return false;
    rgi_parallel(parts, grain, workers, matmul_part, &p);
    if (p.room)
        rgi_free(p.room, p.bytes * (size_t)workers, RG_MEM_OTHER);
    return true;
}

bool k_matmul_with(rg_tensor *y, const rg_tensor *c, const rg_tensor *a, bool turn_a,
                   const rg_tensor *b, bool turn_b, double alpha, double beta) {
    static matmul_tiny *const tiny[][K_SET_COUNT] = { [RG_INT64] =
                                                          K_SETS(tile_tiny_matmul_wrapping),
                                                      [RG_FLOAT32] = K_SETS(tile_tiny_float),
                                                      [RG_FLOAT64] = K_SETS(tile_tiny_double) };
    /* of no steps at all, which bool may have, it isn't */
    int64_t k = a->size[a->ndim - 1 - turn_a];
    if (RG_UNLIKELY(a->ndim + b->ndim + y->ndim > 6 || k > MATMUL_TINY_K
                    || (uint64_t)(y->numel * k) - 1 >= MATMUL_TINY || y->stride[1] != 1
                    || alpha != 1 || beta != 0))
        return matmul_any(y, c, a, turn_a, b, turn_b, alpha, beta);
    k_product_sizes z = matmul_sizes(y, a, turn_a, b, turn_b);
    tiny[y->dtype][k_set](&z, y->data, a->data, b->data);
    return true;
}

/*
 * matmul.c: products of matrices of any strides. A large float32 product goes to
 * the product library, where there is one, with transposes as flags; the others
 * are made of register tiles, by the best instruction set that the processor has,
 * from a and b where they lie, unless b must be transposed. Tiny and thin ones run in place.
 */
#include "exchange.h"
#include "kernels.h"

typedef void matmul_product(const k_product_sizes *z, void *y, const void *c, const void *a, const void *b, double alpha, double beta,
                            void *room);
typedef void matmul_tiny(const k_product_sizes *z, void *y, const void *a, const void *b);
typedef uint64_t matmul_wrapping;                       /* integers wrap around */

/* Steps along k and packed columns of b, and all of a b, that stay in a cache. */
enum { MATMUL_KC = 512, MATMUL_NC = 1536, MATMUL_STAYS = 1 << 17 };
enum { MATMUL_TINY = 1000, MATMUL_TINY_K = 8 };         /* steps of a tiny one in all, and along k */
enum { MATMUL_STREAMS = 4 };                            /* dot products that are made at once */

/* Columns to make room for: whole panels of any instruction set. */
static int64_t matmul_panels(int64_t n) { return n >= MATMUL_NC ? MATMUL_NC : (n + 31) / 32 * 32; }

/* alpha and beta in the type of the product: of integers, their signed value. */
#define MATMUL_NUMBER(x) (T)_Generic((T)0, matmul_wrapping: (int64_t)(x), default: (x))

#define K_FILE "matmul_tile.h"
#include "sets.h"

k_product *k_direct_product(rg_dtype dtype) {
    static k_product *const direct[][K_SET_COUNT] = { K_SETS(tile_direct_float), K_SETS(tile_direct_double) };
    return direct[dtype == RG_FLOAT64][k_set];
}

k_turn *k_direct_turn(rg_dtype dtype) {
    static k_turn *const turns[][K_SET_COUNT] = { K_SETS(tile_turn_float), K_SETS(tile_turn_double) };
    return turns[dtype == RG_FLOAT64][k_set];
}

rg_tensor k_turned(const rg_tensor *t) {
    rg_tensor y = *t;
    int r = t->ndim - 2, c = t->ndim - 1;
    y.size[r] = t->size[c], y.stride[r] = t->stride[c];
    y.size[c] = t->size[r], y.stride[c] = t->stride[r];
    rg_update_flags(&y);
    return y;
}

/* How many bytes further the batch lies whose place in y is at[]. */
static int64_t matmul_offset(const rg_tensor *t, int batch_dims, int y_dims, const int64_t at[]) {
    int64_t offset = 0;
    for (int d = y_dims - batch_dims, i = 0; i < batch_dims; d++, i++)
        if (t->size[i] != 1) offset += at[d] * t->stride[i];
    return offset * (int64_t)rg_sizeof(t->dtype);
}

/* Batches of products, whose y are cut into tiles. */
typedef struct {
    k_product_sizes     z;
    const rg_tensor *y, *a, *b;
    int              ny, na, nb;                        /* dims of batches */
    int64_t          rows, columns, across, tiles;      /* of a tile; side by side; in all of one y */
    double           alpha, beta;
    const char      *bias;                              /* a row to begin with, or NULL: y */
    matmul_product  *product;                           /* with room for each worker, or NULL: in place */
    char            *room;
    size_t           bytes;
    k_library_call   library;                           /* or, if that is NULL, the library */
    atomic_bool      failed;
} matmul_plan;

static void matmul_part(void *plan, int64_t begin, int64_t end, int worker) {
    matmul_plan *p = plan;
    int64_t item = (int64_t)rg_sizeof(p->y->dtype);
    for (int64_t part = begin; part < end; part++) {
        int64_t batch = part / p->tiles, i = part % p->tiles / p->across * p->rows, j = part % p->across * p->columns, at[RG_MAX_DIMS];
        for (int d = p->ny - 1; d >= 0; batch /= p->y->size[d--]) at[d] = batch % p->y->size[d];
        k_product_sizes z = p->z;
        z.m = RG_MIN(z.m - i, p->rows), z.n = RG_MIN(z.n - j, p->columns);
        char *y = p->y->data + matmul_offset(p->y, p->ny, p->ny, at) + (i * z.y_row + j * z.y_col) * item;
        const char *a = p->a->data + matmul_offset(p->a, p->na, p->ny, at) + i * z.a_row * item;
        const char *b = p->b->data + matmul_offset(p->b, p->nb, p->ny, at) + j * z.b_col * item;
        const char *c = p->bias ? p->bias + j * item : y;
        z.c_row = p->bias ? 0 : z.y_row;
        if (p->product) p->product(&z, y, c, a, b, p->alpha, p->beta, p->room ? p->room + (size_t)worker * p->bytes : NULL);
        for (int64_t r = 0; !p->product && p->bias && r < z.m; r++) memcpy(y + r * z.y_row * item, c, (size_t)(z.n * item));
        if (!p->product && !k_library_product(&p->library, z.m, z.n, (const float *)a, (const float *)b, (float *)y)) p->failed = true;
    }
}

/* Does the library take a matrix of m rows and k columns that lies like this; how? */
static bool matmul_layout(int64_t m, int64_t k, int64_t row, int64_t col, char *turn, int64_t *apart) {
    bool plain = (k == 1 || col == 1) && (m == 1 || row >= k);
    *turn = plain ? 'N' : 'T';
    *apart = plain ? (m == 1 ? k : row) : k == 1 ? m : col;
    return plain || ((m == 1 || row == 1) && (k == 1 || col >= m));
}

/* Where the library is quicker: for few rows, but not for one, and for much, but where b stays in the second cache and rows of a
 * pass by, own tiles are. */
static bool matmul_by_library(matmul_plan *p, double steps) {
    const k_product_sizes *z = &p->z;
    k_library_call c = { .k = z->k, .y_row = RG_MAX(z->y_row, z->n), .alpha = (float)p->alpha, .beta = (float)p->beta };
    bool few = z->m < (z->b_row == 1 ? 64 : 8), own = z->a_col == 1 && (steps < 0x1p24 || z->k * z->n <= MATMUL_STAYS);
    if (p->y->dtype != RG_FLOAT32 || (few ? steps < 0x1p14 : own || steps < 0x1p23) || z->m < 2 || z->y_col != 1 || z->y_row < z->n
        || p->alpha == 0 || !matmul_layout(z->m, z->k, z->a_row, z->a_col, &c.turn_a, &c.a_row)
        || !matmul_layout(z->k, z->n, z->b_row, z->b_col, &c.turn_b, &c.b_row) || !k_library()) return false;
    p->library = c, p->product = NULL;
    return true;
}

/* Tiles of some 2^23 steps, but not many more than 16, and two of what has 2^21, by halving the longer edge, or that of a
 * transposed b, which takes longest to pack. That a few rows wait for all of b counts as eight more. */
static void matmul_cut(matmul_plan *p) {
    double k = (double)p->z.k, all = (double)(p->z.m + 8) * (double)p->z.n * k;
    double limit = RG_MAX(RG_MIN(0x1p23, RG_MAX(0x1p21, 0.6 * all)), all / 16);
    p->rows = p->z.m, p->columns = p->z.n;
    while ((double)(p->rows + 8) * (double)p->columns * k > limit) {
        bool turned = p->z.b_row == 1 && p->z.b_col != 1;
        int64_t *edge = p->columns > 192 && (turned || p->columns >= p->rows) ? &p->columns : &p->rows;
        if (*edge <= (edge == &p->rows ? 64 : 192)) break;
        *edge = (*edge / 2 + 63) / 64 * 64;
    }
    p->across = (p->z.n - 1) / p->columns + 1;
    p->tiles = ((p->z.m - 1) / p->rows + 1) * p->across;
}

static inline k_product_sizes matmul_sizes(const rg_tensor *y, const rg_tensor *a, bool turn_a, const rg_tensor *b, bool turn_b) {
    int na = a->ndim - 2, nb = b->ndim - 2, ny = y->ndim - 2;
    return (k_product_sizes){
        .m = a->size[na + turn_a], .n = b->size[nb + !turn_b], .k = a->size[na + !turn_a],
        .y_row = y->stride[ny], .y_col = y->stride[ny + 1], .a_row = a->stride[na + turn_a],
        .a_col = a->stride[na + !turn_a], .b_row = b->stride[nb + turn_b], .b_col = b->stride[nb + !turn_b],
    };
}

static __attribute__((noinline))
bool matmul_any(rg_tensor *y, const rg_tensor *c, const rg_tensor *a, bool turn_a, const rg_tensor *b, bool turn_b, double alpha, double beta) {
    int na = a->ndim - 2, nb = b->ndim - 2, ny = y->ndim - 2;
    k_product_sizes z = matmul_sizes(y, a, turn_a, b, turn_b);
    if (y->numel == 0) return true;
    bool row = c && c->ndim == 1 && c->size[0] == z.n && z.n > 1 && c->stride[0] == 1 && z.y_col == 1;
    if (c && beta != 0 && !row) rg_copy_elements(y, c);
    for (; nb == 0 && ny > 0 && ny == na; ny--, na--) { /* one b for all: rows that go on evenly are one matrix */
        if (y->size[ny - 1] == 1) continue;
        if (z.m == 1) z.a_row = a->stride[na - 1], z.y_row = y->stride[ny - 1];
        else if (a->stride[na - 1] != z.m * z.a_row || y->stride[ny - 1] != z.m * z.y_row) break;
        z.m *= y->size[ny - 1];
    }
    if (z.n == 1 && z.m > 1) {                          /* a vector on the right: y^T = b^T a^T */
        z = (k_product_sizes){ .m = 1, .n = z.m, .k = z.k, .y_row = z.y_col, .y_col = z.y_row,
                            .a_row = z.b_col, .a_col = z.b_row, .b_row = z.a_col, .b_col = z.a_row };
        RG_SWAP(a, b);
        RG_SWAP(na, nb);
    }
    static matmul_product *const products[][K_SET_COUNT] = { [RG_INT64] = K_SETS(tile_product_matmul_wrapping),
        [RG_FLOAT32] = K_SETS(tile_product_float), [RG_FLOAT64] = K_SETS(tile_product_double) };
    matmul_product *product = products[y->dtype][k_set];
    double steps = (double)z.m * (double)z.n * (double)z.k;
    bool dots = z.b_row == 1 && z.a_col == 1 && z.k >= 64;
    bool in_place = steps <= MATMUL_TINY || z.m <= (dots ? 16 : 2) || z.y_col != 1;
    matmul_plan p = { .z = z, .y = y, .a = a, .b = b, .ny = ny, .na = na, .nb = nb, .alpha = alpha, .beta = beta,
                      .bias = row && beta != 0 ? c->data : NULL, .product = product };
    matmul_cut(&p);
    rg_tensor flat = { 0 };
    size_t turned = 0;
    if ((p.bytes = y->dtype == RG_FLOAT32 ? k_bfloat16_room(&z, p.columns) : 0)) p.product = k_bfloat16_product;
    else if (matmul_by_library(&p, steps) || !in_place) {
        if (z.b_row == 1 && z.b_col != 1 && nb == 0 && z.m >= 512 && y->dtype == RG_FLOAT32) {      /* it gains more than it takes */
            turned = (size_t)(z.k * z.n) * sizeof(float);
            if (!(flat.data = rg_alloc(turned, RG_MEM_OTHER))) return false;
            k_direct_turn(RG_FLOAT32)(flat.data, z.n, b->data, z.b_col, 1, z.n, z.k, 1);
            p.b = &flat, p.library.turn_b = 'N', p.z.b_row = p.library.b_row = z.n, p.z.b_col = 1;
            matmul_cut(&p);
        }
        if (p.product) p.bytes = (size_t)(RG_MIN(z.k, MATMUL_KC) * matmul_panels(p.columns)) * rg_sizeof(y->dtype);
    }
    int64_t parts = p.tiles, grain = RG_MAX(1, (int64_t)(0x1p19 / RG_MAX(1, steps / (double)p.tiles)));
    for (int d = 0; d < ny; d++) parts *= y->size[d];
    int workers = rg_workers(parts, grain);
    if (p.bytes && !(p.room = rg_alloc(p.bytes * (size_t)workers, RG_MEM_OTHER))) return false;
    rg_parallel(parts, grain, workers, matmul_part, &p);
    if (p.room) rg_free(p.room, p.bytes * (size_t)workers, RG_MEM_OTHER);
    if (turned) rg_free(flat.data, turned, RG_MEM_OTHER);
    return !p.failed || rg_fail(RG_OUT_OF_MEMORY, NULL, "out of memory in the product library");
}

bool k_matmul_with(rg_tensor *y, const rg_tensor *c, const rg_tensor *a, bool turn_a, const rg_tensor *b, bool turn_b, double alpha, double beta) {
    static matmul_tiny *const tiny[][K_SET_COUNT] = { [RG_INT64] = K_SETS(tile_tiny_matmul_wrapping),
        [RG_FLOAT32] = K_SETS(tile_tiny_float), [RG_FLOAT64] = K_SETS(tile_tiny_double) };
    int64_t k = a->size[a->ndim - 1 - turn_a];          /* of no steps at all, which bool may have, it isn't */
    if (RG_UNLIKELY(a->ndim + b->ndim + y->ndim > 6 || k > MATMUL_TINY_K || (uint64_t)(y->numel * k) - 1 >= MATMUL_TINY
                    || y->stride[1] != 1 || alpha != 1 || beta != 0)) return matmul_any(y, c, a, turn_a, b, turn_b, alpha, beta);
    k_product_sizes z = matmul_sizes(y, a, turn_a, b, turn_b);
    tiny[y->dtype][k_set](&z, y->data, a->data, b->data);
    return true;
}

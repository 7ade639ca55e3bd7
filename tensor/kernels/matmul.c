/*
 * matmul.c: products of matrices of any strides. A large float32 product goes to
 * the product library, where there is one, with transposes as flags; the others
 * are cut into register tiles, for the best instruction set that the processor
 * has. Tiny and thin ones run in place.
 */
#include "kernels.h"

typedef struct { int64_t m, n, k, y_row, y_col, a_row, a_col, b_row, b_col; } matmul_sizes;
typedef void matmul_product(const matmul_sizes *z, void *y, const void *a, const void *b, double alpha, double beta, void *room);
typedef uint64_t matmul_wrapping;                       /* integers wrap around */

/* Steps along k that stay in cache: of MC packed rows of a, and NC packed columns of b. */
enum { MATMUL_KC = 256, MATMUL_MC = 192, MATMUL_NC = 1536 };
enum { MATMUL_TINY_K = 16 };

/* Rows or columns to make room for: whole panels of any instruction set. */
static int64_t matmul_panels(int64_t n, int64_t limit) { return n >= limit ? limit : (n + 95) / 96 * 96; }

/* alpha and beta in the type of the product: of integers, their signed value. */
#define MATMUL_NUMBER(x) (T)_Generic((T)0, matmul_wrapping: (int64_t)(x), default: (x))

#define FMA_PLAIN(a, b, c) ((a) * (b) + (c))

#define BYTES 16
#define MR 4
#define T float
#define SUFFIX f32
#define FMA FMA_PLAIN
#include "matmul_tile.h"
#define T double
#define SUFFIX f64
#define FMA FMA_PLAIN
#include "matmul_tile.h"
#define T matmul_wrapping
#define SUFFIX i64
#define FMA FMA_PLAIN
#include "matmul_tile.h"
#undef BYTES
#undef MR

#ifdef __x86_64__
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define BYTES 32
#define MR 6
#define T float
#define SUFFIX f32_avx2
#define FMA _mm256_fmadd_ps
#include "matmul_tile.h"
#define T double
#define SUFFIX f64_avx2
#define FMA _mm256_fmadd_pd
#include "matmul_tile.h"
#undef BYTES
#undef MR
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#define BYTES 64
#define MR 8
#define T float
#define SUFFIX f32_avx512
#define FMA _mm512_fmadd_ps
#define MASK_LOAD _mm512_maskz_loadu_ps
#define MASK_STORE _mm512_mask_storeu_ps
#include "matmul_tile.h"
#define T double
#define SUFFIX f64_avx512
#define FMA _mm512_fmadd_pd
#define MASK_LOAD _mm512_maskz_loadu_pd
#define MASK_STORE _mm512_mask_storeu_pd
#include "matmul_tile.h"
#define T matmul_wrapping
#define SUFFIX i64_avx512
#define FMA FMA_PLAIN
#include "matmul_tile.h"
#undef BYTES
#undef MR
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

/* By dtype. */
typedef struct { matmul_product *by_dtype[4]; } matmul_table;
static const matmul_table matmul_plain = { { NULL, tile_product_i64, tile_product_f32, tile_product_f64 } };
#ifdef __x86_64__
static const matmul_table matmul_avx2 = { { NULL, tile_product_i64, tile_product_f32_avx2, tile_product_f64_avx2 } };
static const matmul_table matmul_avx512 = { { NULL, tile_product_i64_avx512, tile_product_f32_avx512, tile_product_f64_avx512 } };
#endif

static const matmul_table *matmul_best(void) {
    static _Atomic(const matmul_table *) best;
    const matmul_table *t = atomic_load_explicit(&best, memory_order_relaxed);
    if (RG_LIKELY(t != NULL)) return t;
    t = &matmul_plain;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) t = &matmul_avx2;
    if (t != &matmul_plain && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl")) t = &matmul_avx512;
#endif
    atomic_store_explicit(&best, t, memory_order_relaxed);
    return t;
}

rg_tensor k_turned(const rg_tensor *t) {
    rg_tensor y = *t;
    int r = t->ndim - 2, c = t->ndim - 1;
    y.size[r] = t->size[c], y.stride[r] = t->stride[c];
    y.size[c] = t->size[r], y.stride[c] = t->stride[r];
    rg_update_flags(&y);
    return y;
}

/* Which of `strides` elements further the batch lies whose place in y is at[]. */
static int64_t matmul_offset(const rg_tensor *t, int batch_dims, int y_dims, const int64_t at[]) {
    int64_t offset = 0;
    for (int d = y_dims - batch_dims, i = 0; i < batch_dims; d++, i++)
        if (t->size[i] != 1) offset += at[d] * t->stride[i];
    return offset * (int64_t)rg_sizeof(t->dtype);
}

bool k_matmul_with(rg_tensor *y, const rg_tensor *a, bool turn_a, const rg_tensor *b, bool turn_b, double alpha, double beta) {
    int na = a->ndim - 2, nb = b->ndim - 2, ny = y->ndim - 2;
    matmul_sizes z = {
        .m = a->size[na + turn_a], .n = b->size[nb + !turn_b], .k = a->size[na + !turn_a],
        .y_row = y->stride[ny], .y_col = y->stride[ny + 1], .a_row = a->stride[na + turn_a],
        .a_col = a->stride[na + !turn_a], .b_row = b->stride[nb + turn_b], .b_col = b->stride[nb + !turn_b],
    };
    if (y->numel == 0) return true;
    for (; nb == 0 && ny > 0 && ny == na; ny--, na--) { /* one b for all: rows that go on evenly are one matrix */
        if (y->size[ny - 1] == 1) continue;
        if (z.m == 1) z.a_row = a->stride[na - 1], z.y_row = y->stride[ny - 1];
        else if (a->stride[na - 1] != z.m * z.a_row || y->stride[ny - 1] != z.m * z.y_row) break;
        z.m *= y->size[ny - 1];
    }
    if (z.n == 1 && z.m > 1) {                          /* a vector on the right: y^T = b^T a^T */
        z = (matmul_sizes){ .m = 1, .n = z.m, .k = z.k, .y_row = z.y_col, .y_col = z.y_row,
                            .a_row = z.b_col, .a_col = z.b_row, .b_row = z.a_col, .b_col = z.a_row };
        const rg_tensor *t = a;
        int n = na;
        a = b, na = nb;
        b = t, nb = n;
    }
    void *room = NULL;
    matmul_product *product = matmul_best()->by_dtype[y->dtype];
    bool dots = z.b_row == 1 && z.a_col == 1 && z.k >= 64;
    bool in_place = (double)z.m * (double)z.n * (double)z.k <= 1000 || z.m <= (dots ? 16 : 4) || z.y_col != 1;
    if (in_place && ny == 0) return product(&z, y->data, a->data, b->data, alpha, beta, room), true;
    size_t bytes = (size_t)(RG_MIN(z.k, MATMUL_KC) * (matmul_panels(z.m, MATMUL_MC) + matmul_panels(z.n, MATMUL_NC)))
                   * rg_sizeof(y->dtype);
    if (!in_place && !(room = rg_alloc(bytes, RG_MEM_OTHER))) return false;
    int64_t batches = 1, at[RG_MAX_DIMS] = { 0 };
    for (int d = 0; d < ny; d++) batches *= y->size[d];
    for (int64_t batch = 0; batch < batches; batch++) {
        product(&z, y->data + matmul_offset(y, ny, ny, at), a->data + matmul_offset(a, na, ny, at),
                b->data + matmul_offset(b, nb, ny, at), alpha, beta, room);
        for (int d = ny - 1; d >= 0 && ++at[d] == y->size[d]; d--) at[d] = 0;
    }
    if (room) rg_free(room, bytes, RG_MEM_OTHER);
    return true;
}


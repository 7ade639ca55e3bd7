/*
 * random.c: compiles the loops for random numbers: they compute blocks of mt19937's words (random
 * 32-bit numbers), and convert uniform numbers to other distributions. tensor/random/ decides in
 * which order the numbers are drawn.
 */
#include "kernels.h"
#include "smooth.h"

#include <tgmath.h>

#define K_LOOPS "loops/random_words.h"
#define K_TYPES_NONE
#include "sets.h"

#define K_LOOPS "loops/random.h"
#define K_TYPES_FLOATS
#include "sets.h"

/* ---- kernels by instruction set -------------------------------------------------------------- */

void k_random_twist(uint32_t *words) {
    static void (*const twist[K_COLUMNS])(uint32_t *) = K_BY_SET(random_twist);
    K_LOOP_OF_SET(twist)(words);
}

void k_random_temper(const uint32_t *from, uint32_t *to, int n) {
    static void (*const temper[K_COLUMNS])(const uint32_t *, uint32_t *,
                                           int) = K_BY_SET(random_temper);
    K_LOOP_OF_SET(temper)(from, to, n);
}

void k_random_floats(const uint32_t *words, float *to, int n) {
    static void (*const floats[K_COLUMNS])(const uint32_t *, float *,
                                           int) = K_BY_SET(random_floats);
    K_LOOP_OF_SET(floats)(words, to, n);
}

typedef void random_linear(void *y, int n, double a, double b);

void k_random_scale(rg_dtype dtype, void *y, int n, double scale, double shift) {
    static random_linear *const loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(random_scale);
    random_linear *loop = K_LOOP_OF(loops, dtype, "random_scale");
    if (loop)
        loop(y, n, scale, shift);
}

void k_random_stretch(rg_dtype dtype, void *y, int n, double low, double high) {
    static random_linear *const loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(random_stretch);
    random_linear *loop = K_LOOP_OF(loops, dtype, "random_stretch");
    if (loop)
        loop(y, n, low, high);
}

void k_random_normals(rg_dtype dtype, void *y, int n) {
    static void (*const loops[K_DTYPES][K_COLUMNS])(void *, int) = K_TABLE_FLOATS(random_normals);
    __auto_type loop = K_LOOP_OF(loops, dtype, "random_normals");
    if (loop)
        loop(y, n);
}

bool k_random_truncate(const k_truncation *r, rg_tensor *accepted, const rg_tensor *candidates,
                       const rg_tensor *uniforms, rg_tensor *pending) {
    static bool (*const loops[K_DTYPES][K_COLUMNS])(const k_truncation *, int64_t, void *,
                                                    const void *, const void *,
                                                    bool *) = K_TABLE_FLOATS(random_truncate);
    if (accepted->numel == 0)
        return false;
    __auto_type loop = K_LOOP_OF(loops, accepted->dtype, "random_truncate");
    return loop
           && loop(r, accepted->numel, accepted->data, candidates->data, uniforms->data,
                   (bool *)pending->data);
}

/* ---- numbers of a generator's stream ---------------------------------------------------------
 * These loops are compiled for the first set alone, and call the kernels above for the running
 * set. If there is one set, they call its loops, so that the text of these loops needs no
 * kernels. */

#ifdef RG_ONLY_PLAIN
#define K_RANDOM_TWIST(words)           random_twist_plain(words)
#define K_RANDOM_TEMPER(words, to, n)   random_temper_plain(words, to, n)
#define K_RANDOM_FLOATS(words, to, n)   random_floats_plain(words, to, n)
#define K_RANDOM_STRETCH(y, n, low, up) K_NAME(random_stretch)(y, n, low, up)
#define K_RANDOM_SCALE(y, n, by, shift) K_NAME(random_scale)(y, n, by, shift)
#define K_RANDOM_NORMALS(y, n)          K_NAME(random_normals)(y, n)
#else
#define K_RANDOM_TWIST(words)           k_random_twist(words)
#define K_RANDOM_TEMPER(words, to, n)   k_random_temper(words, to, n)
#define K_RANDOM_FLOATS(words, to, n)   k_random_floats(words, to, n)
#define K_RANDOM_STRETCH(y, n, low, up) k_random_stretch(K_DTYPE, y, n, low, up)
#define K_RANDOM_SCALE(y, n, by, shift) k_random_scale(K_DTYPE, y, n, by, shift)
#define K_RANDOM_NORMALS(y, n)          k_random_normals(K_DTYPE, y, n)
#endif

#define K_LOOPS "loops/random_stream.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

#define K_LOOPS "loops/random_draw.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "sets.h"

void k_random_words(k_random_stream *s, uint32_t *to, int n) { K_IN_BASE(random_words)(s, to, n); }

void k_random_doubles(k_random_stream *s, double *to, int n) {
    K_IN_BASE(random_unit_double)(s, to, n);
}

k_random_fill *k_random_fill_of(k_distribution which, rg_dtype dtype) {
    static k_random_fill *const random_uniform_loops[K_DTYPES] = K_BASE_FLOATS(random_uniform);
    static k_random_fill *const random_blocks_loops[K_DTYPES] = K_BASE_FLOATS(random_blocks);
    static k_random_fill *const random_pairs_loops[K_DTYPES] = K_BASE_FLOATS(random_pairs);
    static k_random_fill *const random_bernoulli_loops[K_DTYPES] = K_BASE_ALL(random_bernoulli);
    switch (which) {
    case K_UNIFORM: return K_BASE_LOOP_OF(random_uniform_loops, dtype, "uniform");
    case K_NORMAL_BLOCKS: return K_BASE_LOOP_OF(random_blocks_loops, dtype, "normal");
    case K_NORMAL_PAIRS: return K_BASE_LOOP_OF(random_pairs_loops, dtype, "normal");
    case K_BERNOULLI: break;
    }
    return K_BASE_LOOP_OF(random_bernoulli_loops, dtype, "bernoulli");
}

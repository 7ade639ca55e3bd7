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

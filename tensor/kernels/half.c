/*
 * half.c: tensors of the floats of 16 bits (half.h). Such elements are moved as they are. To
 * compute with them, a kernel's loop for float gets copies of the operands in float, block by
 * block, and its results are rounded once.
 */
#include "half_float.h"
#include "kernels.h"

#define K_LOOPS "loops/half.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "sets.h"

static void half_copy(char *const p[], const int64_t s[], int64_t n, const void *context) {
    enum { BYTES = sizeof(uint16_t) };
    (void)context;
    if (s[0] == BYTES && s[1] == BYTES)
        memmove(p[0], p[1], (size_t)n * BYTES);
    for (int64_t i = 0; (s[0] != BYTES || s[1] != BYTES) && i < n; i++)
        memcpy(p[0] + i * s[0], p[1] + i * s[1], BYTES);
}

static void bfloat16_to_float16(char *const p[], const int64_t s[], int64_t n,
                                const void *context) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        const k_bfloat16 x = *(const k_bfloat16 *)(const void *)(p[1] + i * s[1]);
        *(k_float16 *)(void *)(p[0] + i * s[0]) = k_float16_of_float(k_float_of_bfloat16(x));
    }
}

static void float16_to_bfloat16(char *const p[], const int64_t s[], int64_t n,
                                const void *context) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        const k_float16 x = *(const k_float16 *)(const void *)(p[1] + i * s[1]);
        *(k_bfloat16 *)(void *)(p[0] + i * s[0]) = k_bfloat16_of_float(k_float_of_float16(x));
    }
}

rg_loop *k_half_copy_loop(rg_dtype to, rg_dtype from) {
    enum { A, B, HALVES };
    static rg_loop *const between[HALVES][HALVES] = { { half_copy, float16_to_bfloat16 },
                                                      { bfloat16_to_float16, half_copy } };
    static rg_loop *const from_half[HALVES][K_DTYPES] = { K_BASE_ALL(from_bfloat16),
                                                          K_BASE_ALL(from_float16) };
    static rg_loop *const to_half[HALVES][K_DTYPES] = { K_BASE_ALL(to_bfloat16),
                                                        K_BASE_ALL(to_float16) };
    const int b = to == RG_FLOAT16;
    const int a = from == RG_FLOAT16;
    rg_loop *const *place = &between[b][a];
    if (!rgi_is_half(from))
        place = &to_half[b][from];
    else if (!rgi_is_half(to))
        place = &from_half[a][to];
    if (RG_LIKELY(k_set_now() != K_TRACED))
        return *place;
    return (rg_loop *)k_other_loop(place, false, "half_copy_loops", NULL, from);
}

/*
 * half.c: tensors of the floats of 16 bits (half.h), and of bytes. Such elements are moved as they
 * are. To compute with them, a kernel's loop for float or int64_t gets copies of the operands in
 * that type, block by block. Its results are rounded once; of an integer the last 8 bits are kept.
 */
#include "half_float.h"
#include "kernels.h"

#define K_LOOPS "loops/half.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "sets.h"

K_INLINE void move_elements(char *const p[], const int64_t s[], int64_t n, int64_t bytes) {
    if (s[0] == bytes && s[1] == bytes)
        memmove(p[0], p[1], (size_t)(n * bytes));
    for (int64_t i = 0; (s[0] != bytes || s[1] != bytes) && i < n; i++)
        memcpy(p[0] + i * s[0], p[1] + i * s[1], (size_t)bytes);
}

static void half_copy(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
    move_elements(p, s, n, sizeof(uint16_t));
}

static void byte_copy(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
    if (s[0] == 1 && s[1] == 0)
        memset(p[0], *p[1], (size_t)n);
    else
        move_elements(p, s, n, sizeof(uint8_t));
}

/* Converts elements from one widened dtype to another by way of float: `widen` makes floats of
 * them, and `narrow` the elements of the other dtype. */
static void convert_by_float(char *const p[], const int64_t s[], int64_t n, rg_loop *widen,
                             rg_loop *narrow) {
    enum { BLOCK = 256 };
    float room[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = RG_MIN(n - i, BLOCK);
        widen((char *[]){ (char *)room, p[1] + i * s[1] }, (int64_t[]){ sizeof *room, s[1] }, m,
              NULL);
        narrow((char *[]){ p[0] + i * s[0], (char *)room }, (int64_t[]){ s[0], sizeof *room }, m,
               NULL);
    }
}

static void bfloat16_to_float16(char *const p[], const int64_t s[], int64_t n,
                                const void *context) {
    (void)context;
    convert_by_float(p, s, n, K_IN_BASE(from_bfloat16_float), K_IN_BASE(to_float16_float));
}

static void bfloat16_to_uint8(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
    convert_by_float(p, s, n, K_IN_BASE(from_bfloat16_float), K_IN_BASE(to_uint8_float));
}

static void float16_to_bfloat16(char *const p[], const int64_t s[], int64_t n,
                                const void *context) {
    (void)context;
    convert_by_float(p, s, n, K_IN_BASE(from_float16_float), K_IN_BASE(to_bfloat16_float));
}

static void float16_to_uint8(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
    convert_by_float(p, s, n, K_IN_BASE(from_float16_float), K_IN_BASE(to_uint8_float));
}

static void uint8_to_bfloat16(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
    convert_by_float(p, s, n, K_IN_BASE(from_uint8_float), K_IN_BASE(to_bfloat16_float));
}

static void uint8_to_float16(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
    convert_by_float(p, s, n, K_IN_BASE(from_uint8_float), K_IN_BASE(to_float16_float));
}

rg_loop *k_widened_copy_loop(rg_dtype to, rg_dtype from) {
    enum { FIRST = RG_BFLOAT16, WIDENED = RG_DTYPE_COUNT - FIRST };
    static rg_loop *const between[WIDENED][WIDENED] = {
        { half_copy, float16_to_bfloat16, uint8_to_bfloat16 },
        { bfloat16_to_float16, half_copy, uint8_to_float16 },
        { bfloat16_to_uint8, float16_to_uint8, byte_copy }
    };
    static rg_loop *const from_widened[WIDENED][FIRST] = { K_BASE_ALL(from_bfloat16),
                                                           K_BASE_ALL(from_float16),
                                                           K_BASE_ALL(from_uint8) };
    static rg_loop *const to_widened[WIDENED][FIRST] = { K_BASE_ALL(to_bfloat16),
                                                         K_BASE_ALL(to_float16),
                                                         K_BASE_ALL(to_uint8) };
    rg_loop *const *place;
    if (!rgi_is_widened(from))
        place = &to_widened[to - FIRST][from];
    else if (!rgi_is_widened(to))
        place = &from_widened[from - FIRST][to];
    else
        place = &between[to - FIRST][from - FIRST];
    if (RG_LIKELY(k_set_now() != K_TRACED))
        return *place;
    return (rg_loop *)k_other_loop(place, false, "widened_copy_loops", NULL, from);
}

/*
 * bits.c: the text of each elementwise loop gives the same bits as the library's own loop in its
 * first instruction set. The script `run` writes maps.inc, which lists the loops as MAP(op, dtype),
 * and links this program with the compiled text, in which all_loops are these loops.
 */
#include "tensor/kernels/kernels.h"

#include <stdio.h>

typedef void any_loop(void);
extern any_loop *const all_loops[];

#define MAP(op, dtype) { &k_##op, RG_##dtype },
static const struct {
    const rg_kernel *kernel;
    rg_dtype dtype;
} maps[] = {
#include "maps.inc"
};

enum { MOST = 700 };
static uint64_t operand[4][2 * MOST], result[2][2 * MOST];
static uint64_t state = 1;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Returns whether `name` is in a list of names, each with blanks around it. */
static bool is_in(const char *list, const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(list, word);
}

/* Fills an operand: every third number has random bits, and the others are between -8 and 8. If
 * they divide integers, all are positive. */
static void fill(rg_dtype dtype, int k, bool of_bools, bool divides) {
    for (int i = 0; i < 2 * MOST; i++) {
        const uint64_t bits = draw();
        const double small = (double)(int64_t)draw() / 0x1p60;
        char *at = (char *)operand[k] + (size_t)i * (of_bools ? 1 : rgi_sizeof(dtype));
        if (of_bools || dtype == RG_BOOL)
            *at = bits & 1;
        else if (divides && dtype == RG_INT64)
            rgi_store_i64(at, dtype, (int64_t)(bits % 9) + 1);
        else if (i % 3 == 0)
            memcpy(at, &bits, rgi_sizeof(dtype));
        else
            rgi_store_f64(at, dtype, small);
    }
}

/* Returns whether two results are the same. Any NaN is as good as another. */
static bool same(rg_dtype dtype, size_t size, const void *a, const void *b) {
    if (memcmp(a, b, size) == 0)
        return true;
    if (size != rgi_sizeof(dtype) || !rgi_is_float(dtype))
        return false;
    const double x = rgi_load_f64(a, dtype);
    const double y = rgi_load_f64(b, dtype);
    return x != x && y != y;
}

/* Runs both loops of row i on n elements. `spread` is how many elements each operand's step is.
 * Returns the index of the first result that differs, or -1. */
static int64_t differs(int i, int64_t n, const int spread[4]) {
    const rg_kernel *k = maps[i].kernel;
    const rg_dtype dtype = maps[i].dtype;
    static const double numbers[] = { 0.3, 1.7, 2 };
    const bool compares = is_in(" isnan isinf isfinite logical_not eq ne lt le gt ge logical_and "
                                "logical_or logical_xor ",
                                k->name);
    const bool divides = is_in(" div_floor div_trunc remainder fmod ", k->name);
    const size_t size = compares ? 1 : rgi_sizeof(dtype);
    char *p[5];
    int64_t step[5];
    for (int j = 1; j <= k->n; j++) {
        const bool of_bools = j == 1 && !strcmp(k->name, "where");
        fill(dtype, j - 1, of_bools, divides && j == 2);
        p[j] = (char *)operand[j - 1];
        step[j] = spread[j] * (int64_t)(of_bools ? 1 : rgi_sizeof(dtype));
    }
    step[0] = spread[0] * (int64_t)size;
    rg_loop *const loops[] = { k->by_dtype[dtype][0], (rg_loop *)all_loops[i] };
    for (int j = 0; j < 2; j++) {
        memset(result[j], 0, sizeof result[j]);
        p[0] = (char *)result[j];
        loops[j](p, step, n, numbers);
    }
    for (int64_t j = 0; j < n; j++)
        if (!same(dtype, size, (char *)result[0] + j * step[0], (char *)result[1] + j * step[0]))
            return j;
    return -1;
}

int main(void) {
    static const int spreads[][4] = { { 1, 1, 1, 1 }, { 1, 1, 0, 1 }, { 1, 0, 1, 1 },
                                      { 2, 1, 2, 1 }, { 1, 1, 1, 0 }, { 1, 2, 1, 1 } };
    static const int64_t sizes[] = { 1, 7, 33, MOST };
    int wrong = 0;
    for (int i = 0; i < RG_COUNT(maps); i++)
        for (int s = 0; s < RG_COUNT(spreads); s++)
            for (int z = 0; z < RG_COUNT(sizes); z++) {
                const int64_t at = differs(i, sizes[z], spreads[s]);
                if (at < 0)
                    continue;
                printf("tests/export: %s of %s: the text's result %d is another than the "
                       "library's\n",
                       maps[i].kernel->name, rgi_scalar_name(maps[i].dtype), (int)at);
                wrong++;
            }
    return wrong != 0;
}

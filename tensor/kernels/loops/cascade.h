/*
 * loops/cascade.h: the function CASCADE, which sums n rows of WIDE numbers column by column:
 * total[c] becomes the sum of column c. The numbers are added in the order that sum.h explains.
 * Neighbouring numbers of a row are `step` bytes apart, and so are the last number of a row and the
 * first number of the next row. Four cascades, each of which adds every fourth row, are computed at
 * once in vectors of LANES numbers. sum.h includes this file after defining CASCADE, WIDE and
 * LANES, which are undefined at the end.
 */
static __attribute__((noinline)) void CASCADE(const char *x, int64_t step, int64_t n,
                                              RESULT *total) {
    enum { VECTORS = 4 * WIDE / LANES };
    typedef RESULT vector __attribute__((vector_size(LANES * sizeof(RESULT))));
    vector level[4][VECTORS], more;
    RESULT part[4 * WIDE], lane[LANES];
    const int power = sum_power(n / 4);
    /* A loop is faster here than the instruction `rep stos`, which compilers generate for an
     * initialiser. */
    K_UNROLLED
    for (int v = 0; v < 4 * VECTORS; v++)
        level[v % 4][v / 4] = (vector){ 0 };
    for (int64_t i = 0; i < n / 4;) {
        for (int64_t end = RG_MIN(n / 4, i + (1 << power)); i < end; i++) {
            K_UNROLLED
            for (int v = 0; v < VECTORS; v++) {
                K_UNROLLED
                for (int c = 0; c < LANES; c++)
                    lane[c] = THIS(_at)(x + c * step);
                memcpy(&more, lane, sizeof more);
                level[0][v] += more;
                x += LANES * step;
            }
        }
        K_UNROLLED
        for (int j = 0; j < 3; j++) {
            if (!sum_is_full(i, j, power))
                break;
            K_UNROLLED
            for (int v = 0; v < VECTORS; v++) {
                level[j + 1][v] += level[j][v];
                level[j][v] = (vector){ 0 };
            }
        }
    }
    K_UNROLLED
    for (int v = 0; v < VECTORS; v++)
        level[0][v] = ((level[0][v] + level[1][v]) + level[2][v]) + level[3][v];
    memcpy(part, level[0], sizeof part);
    K_UNROLLED
    for (int c = 0; c < WIDE; c++)
        total[c] = part[c];
    for (int64_t k = 0; k < n % 4; k++) {
        K_UNROLLED
        for (int c = 0; c < WIDE; c++) {
            total[c] += THIS(_at)(x);
            x += step;
        }
    }
    for (int k = 1; k < 4; k++) {
        K_UNROLLED
        for (int c = 0; c < WIDE; c++)
            total[c] += part[k * WIDE + c];
    }
}

#undef CASCADE
#undef WIDE
#undef LANES

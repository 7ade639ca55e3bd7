/*
 * loops/half_dots.h: dot products of a vector of floats with rows of bfloat16. The rows are
 * converted in registers, so that each of their elements is read once, in two bytes. A dot product
 * has HALF_SUMS partial sums in every set, so that all sets give the same bits.
 */

static void K_IN_SET(bfloat16_dots)(const half_dots *z, int64_t begin, int64_t end) {
    const int64_t whole = z->k / HALF_SUMS * HALF_SUMS;
    for (int64_t row = begin; row < end; row++) {
        const k_bfloat16 *w = (const k_bfloat16 *)z->w + row * z->w_row;
        float sum[HALF_SUMS] = { 0 };
        for (int64_t i = 0; i < whole; i += HALF_SUMS) {
            K_IN_REGISTERS
            for (int l = 0; l < HALF_SUMS; l++)
                sum[l] += z->x[i + l] * k_float_of_bfloat16(w[i + l]);
        }
        for (int64_t i = whole; i < z->k; i++)
            sum[i - whole] += z->x[i] * k_float_of_bfloat16(w[i]);
        for (int width = HALF_SUMS / 2; width > 0; width /= 2)
            for (int l = 0; l < width; l++)
                sum[l] += sum[l + width];
        z->y[row] = sum[0];
    }
}

/*
 * loops/half_dots.h: dot products of a vector of floats with rows of bfloat16. The rows are
 * converted in registers, so that each of their elements is read once, in two bytes. A dot product
 * has as many partial sums as HALF_VECTORS vectors have lanes.
 */

static void K_IN_SET(bfloat16_dots)(const half_dots *z, int64_t begin, int64_t end) {
    enum { LANES = HALF_VECTORS * K_VECTOR_BYTES / sizeof(float) };
    const int64_t whole = z->k / LANES * LANES;
    for (int64_t row = begin; row < end; row++) {
        const k_bfloat16 *w = (const k_bfloat16 *)z->w + row * z->w_row;
        float sum[LANES] = { 0 };
        for (int64_t i = 0; i < whole; i += LANES) {
            K_IN_REGISTERS
            for (int l = 0; l < LANES; l++)
                sum[l] += z->x[i + l] * k_float_of_bfloat16(w[i + l]);
        }
        for (int64_t i = whole; i < z->k; i++)
            sum[i - whole] += z->x[i] * k_float_of_bfloat16(w[i]);
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int l = 0; l < width; l++)
                sum[l] += sum[l + width];
        z->y[row] = sum[0];
    }
}

/*
 * loops/gelu.h: gelu, its tanh form and their gradients; activations.h includes this file. Each of
 * these four functions is its first operand times s(x). x is its last operand, and s is a share,
 * which kernels/gelu.h explains. For gelu itself, both operands are x; for a gradient, the first
 * operand is the incoming gradient. Floats look up the coefficients of polynomials; doubles call
 * libm.
 */

#if K_SIZE == 4

/* LANES elements, four vectors of floats, are computed at once, so that no instruction has to wait
 * for the result of the one before it. */
#define LANES K_VECTOR_BYTES

/* y = a * s(x), for LANES elements. c has the coefficients of the polynomials of s. `steep` is true
 * if s is the share of a gradient; then the polynomials have one more degree. */
K_INLINE void K_NAME(share_line)(float *restrict y, const float *a, const float *x,
                                 const bool steep, const share_pieces c) {
    const float magic = 6291456.f;   /* Adding 3 * 2^21 rounds to a multiple of 1/2. */
    const int32_t most = 0x40f00000; /* The bits of the float 7.5, to which |x| is limited. */
    float u[LANES], p[LANES], term[LANES];
    int32_t at[LANES];
    K_INDEPENDENT
    K_IN_REGISTERS
    for (int l = 0; l < LANES; l++)
        u[l] = k_from_bits_float(RG_MIN(k_bits_float(x[l]) & INT32_MAX, most));
    K_INDEPENDENT
    K_IN_REGISTERS
    for (int l = 0; l < LANES; l++)
        p[l] = u[l] + magic;
    K_INDEPENDENT
    K_IN_REGISTERS
    for (int l = 0; l < LANES; l++)
        at[l] = k_bits_float(p[l]);
    K_INDEPENDENT
    K_IN_REGISTERS
    for (int l = 0; l < LANES; l++)
        u[l] -= p[l] - magic;
    K_IN_SET(k_look_up)(p, LANES, c[SHARE_DEGREE + steep], at);
    _Pragma("GCC unroll 8") for (int k = SHARE_DEGREE + steep - 1; k >= 0; k--) {
        K_IN_SET(k_look_up)(term, LANES, c[k], at);
        K_INDEPENDENT
        K_IN_REGISTERS
        for (int l = 0; l < LANES; l++)
            p[l] = fmaf(p[l], u[l], term[l]);
    }
    K_INDEPENDENT
    K_IN_REGISTERS
    for (int l = 0; l < LANES; l++)
        p[l] = k_bits_float(x[l]) < 0 ? p[l] : 1 - p[l];
    /* As in torch, the gradient at an infinity is NaN: x - x is NaN there, and 0 for finite x. */
    if (steep) {
        K_INDEPENDENT
        K_IN_REGISTERS
        for (int l = 0; l < LANES; l++)
            p[l] += x[l] - x[l];
    }
    K_INDEPENDENT
    K_IN_REGISTERS
    for (int l = 0; l < LANES; l++)
        y[l] = a[l] * p[l];
}

/* Returns m elements of an operand, beginning at element i. If the operand is contiguous and m is
 * LANES, the result points into the operand's own memory, otherwise to a copy in `room`. If the
 * operand is a single number (step 0), such as the gradient of a sum, only the call for i = 0
 * copies it. In later calls `room` still holds the copy. */
static inline const float *K_NAME(share_operand)(const char *p, int64_t step, int64_t i, int m,
                                                 float *room) {
    if (step == sizeof(float) && m == LANES)
        return (const float *)p + i;
    for (int l = 0; l < m && (step || !i); l++)
        room[l] = *(const float *)(p + (i + l) * step);
    return room;
}

/* Computes all n elements. The last operand is p[last]: p[1] for a function, p[2] for a
 * gradient. */
K_INLINE void K_NAME(share_loop)(char *const p[], const int64_t s[], int64_t n, const int last,
                                 const share_pieces c) {
    const bool steep = last == 2;
    const bool dense = s[0] == sizeof(float) && s[1] == sizeof(float) && s[last] == sizeof(float);
    float y[LANES];
    float a[LANES] = { 0 };
    float x[LANES] = { 0 };
    int64_t i = 0;
    for (; dense && i + LANES <= n; i += LANES)
        K_NAME(share_line)((float *)p[0] + i, (float *)p[1] + i, (float *)p[last] + i, steep, c);
    for (; i < n; i += LANES) {
        const int m = (int)RG_MIN(n - i, LANES);
        const bool whole = s[0] == sizeof(float) && m == LANES;
        const float *first = K_NAME(share_operand)(p[1], s[1], i, m, a);
        const float *second = K_NAME(share_operand)(p[last], s[last], i, m, x);
        K_NAME(share_line)(whole ? (float *)p[0] + i : y, first, second, steep, c);
        for (int l = 0; l < m && !whole; l++)
            *(float *)(p[0] + (i + l) * s[0]) = y[l];
    }
}

K_LOOP_HEAD(gelu) {
    (void)context;
    K_NAME(share_loop)(p, s, n, 1, share_gelu);
}
K_LOOP_HEAD(gelu_tanh) {
    (void)context;
    K_NAME(share_loop)(p, s, n, 1, share_gelu_tanh);
}
K_LOOP_HEAD(gelu_grad) {
    (void)context;
    K_NAME(share_loop)(p, s, n, 2, share_gelu_grad);
}
K_LOOP_HEAD(gelu_tanh_grad) {
    (void)context;
    K_NAME(share_loop)(p, s, n, 2, share_gelu_tanh_grad);
}

#undef LANES
#else

K_INLINE T K_NAME(gelu)(T x) { return x * (x < 0 ? share_of_normal(-x) : 1 - share_of_normal(x)); }
K_INLINE T K_NAME(gelu_tanh)(T x) { return x * (x < 0 ? share_of_tanh(-x) : 1 - share_of_tanh(x)); }
K_INLINE T K_NAME(gelu_grad)(T g, T x) {
    return g * (x < 0 ? share_of_normal_slope(-x) : 1 - share_of_normal_slope(x));
}
K_INLINE T K_NAME(gelu_tanh_grad)(T g, T x) {
    return g * (x < 0 ? share_of_tanh_slope(-x) : 1 - share_of_tanh_slope(x));
}

K_HEAVY_1(gelu)
K_HEAVY_1(gelu_tanh)
K_HEAVY_2(gelu_grad)
K_HEAVY_2(gelu_tanh_grad)

#endif

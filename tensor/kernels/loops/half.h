/*
 * loops/half.h: converts elements of type T to the floats of 16 bits (tensor/kernels/half.h) and to
 * bytes, and back. As in torch, conversions to 16 bits go by way of float, and those to bytes by
 * way of int64_t. Contiguous floats and int64_t's are converted by half_float.c.
 */

/* Returns x as a T. If T is an integer type, a float that is NaN or out of range becomes the least
 * integer, as in loops/convert.h. */
K_INLINE T K_NAME(half_value)(float x) {
#if !K_IS_FLOAT && !K_IS_BOOL
    return x >= (float)K_LEAST && x < -(float)K_LEAST ? (T)x : K_LEAST;
#else
    return (T)x;
#endif
}

K_INLINE T K_NAME(value_of_bfloat16)(k_bfloat16 x) {
    return K_NAME(half_value)(k_float_of_bfloat16(x));
}
K_INLINE T K_NAME(value_of_float16)(k_float16 x) {
    return K_NAME(half_value)(k_float_of_float16(x));
}
K_INLINE k_bfloat16 K_NAME(as_bfloat16)(T x) { return k_bfloat16_of_float((float)x); }
K_INLINE k_float16 K_NAME(as_float16)(T x) { return k_float16_of_float((float)x); }

static void K_NAME(from_bfloat16)(char *const p[], const int64_t s[], int64_t n,
                                  const void *context) {
    (void)context;
#if K_IS_FLOAT && K_SIZE == 4
    if (s[0] == sizeof(T) && s[1] == sizeof(k_bfloat16)) {
        k_floats_of_bfloat16((T *)(void *)p[0], (const k_bfloat16 *)(const void *)p[1], n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        *(T *)(void *)(p[0] + i * s[0]) =
            K_NAME(value_of_bfloat16)(*(const k_bfloat16 *)(const void *)(p[1] + i * s[1]));
}

static void K_NAME(to_bfloat16)(char *const p[], const int64_t s[], int64_t n,
                                const void *context) {
    (void)context;
#if K_IS_FLOAT && K_SIZE == 4
    if (s[0] == sizeof(k_bfloat16) && s[1] == sizeof(T)) {
        k_bfloat16_of_floats((k_bfloat16 *)(void *)p[0], (const T *)(const void *)p[1], n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        *(k_bfloat16 *)(void *)(p[0] + i * s[0]) =
            K_NAME(as_bfloat16)(*(const T *)(const void *)(p[1] + i * s[1]));
}

static void K_NAME(from_float16)(char *const p[], const int64_t s[], int64_t n,
                                 const void *context) {
    (void)context;
#if K_IS_FLOAT && K_SIZE == 4
    if (s[0] == sizeof(T) && s[1] == sizeof(k_float16)) {
        k_floats_of_float16((T *)(void *)p[0], (const k_float16 *)(const void *)p[1], n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        *(T *)(void *)(p[0] + i * s[0]) =
            K_NAME(value_of_float16)(*(const k_float16 *)(const void *)(p[1] + i * s[1]));
}

static void K_NAME(to_float16)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
#if K_IS_FLOAT && K_SIZE == 4
    if (s[0] == sizeof(k_float16) && s[1] == sizeof(T)) {
        k_float16_of_floats((k_float16 *)(void *)p[0], (const T *)(const void *)p[1], n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        *(k_float16 *)(void *)(p[0] + i * s[0]) =
            K_NAME(as_float16)(*(const T *)(const void *)(p[1] + i * s[1]));
}

static void K_NAME(from_uint8)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
#if K_IS_FLOAT ? K_SIZE == 4 : K_SIZE == 8
    if (s[0] == sizeof(T) && s[1] == sizeof(uint8_t)) {
        K_TYPED(k_of_bytes)((T *)(void *)p[0], (const uint8_t *)p[1], n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        *(T *)(void *)(p[0] + i * s[0]) = (T) * (const uint8_t *)(p[1] + i * s[1]);
}

static void K_NAME(to_uint8)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    (void)context;
#if K_IS_FLOAT ? K_SIZE == 4 : K_SIZE == 8
    if (s[0] == sizeof(uint8_t) && s[1] == sizeof(T)) {
        K_TYPED(k_bytes_of)((uint8_t *)p[0], (const T *)(const void *)p[1], n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++) {
        const T x = *(const T *)(const void *)(p[1] + i * s[1]);
#if K_IS_FLOAT
        *(uint8_t *)(p[0] + i * s[0]) = k_byte_of_double((double)x);
#else
        *(uint8_t *)(p[0] + i * s[0]) = (uint8_t)x;
#endif
    }
}

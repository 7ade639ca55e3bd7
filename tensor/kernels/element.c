/*
 * element.c: loads and stores one element of any dtype, as a double or as an integer.
 */
#include "tensor/dtype.h"

/* OF_DOUBLE converts a double to an element. If the element type is an integer, NaN and numbers out
 * of range become its least value, as in torch on x86. */
#define OF_DOUBLE(v, type, kind, limit) \
    ((kind) == RG_INTEGER && !((v) >= -(limit) && (v) < (limit)) ? (type) - (limit) : (type)(v))

/* clang-format would join these rows. */
/* clang-format off */
#define LOAD_F64(NAME, suffix, type, ...) \
    case RG_##NAME: return (double)*(const type *)p;
#define LOAD_HALF(NAME, suffix, type, ...) \
    case RG_##NAME: return (double)k_float_of_##suffix(*(const type *)p);
#define LOAD_I64(NAME, suffix, type, ...) \
    case RG_##NAME: return (int64_t) * (const type *)p;
#define STORE_F64(NAME, suffix, type, kind, rank, limit, ...) \
    case RG_##NAME: *(type *)p = OF_DOUBLE(v, type, kind, (double)limit); break;
#define STORE_I64(NAME, suffix, type, ...) \
    case RG_##NAME: *(type *)p = (type)v; break;
#define STORE_HALF(NAME, suffix, type, ...) \
    case RG_##NAME: *(type *)p = k_##suffix##_of_float((float)v); break;
#define STORE_BYTE(NAME, suffix, type, ...) \
    case RG_##NAME: *(type *)p = k_byte_of_double(v); break;
#define ROUND(NAME, suffix, type, kind, rank, limit, ...) \
    case RG_##NAME: return (double)OF_DOUBLE(v, type, kind, (double)limit);
#define ROUND_BYTE(NAME, suffix, type, ...) \
    case RG_##NAME: return (double)k_byte_of_double(v);
#define ROUND_HALF(NAME, suffix, type, ...) \
    case RG_##NAME: return (double)k_float_of_##suffix(k_##suffix##_of_float((float)v));

double rgi_load_f64(const void *p, rg_dtype d) {
    switch (d) {
        RG_LOOP_DTYPES(LOAD_F64, )
        RG_BYTE_DTYPES(LOAD_F64, )
        RG_HALF_DTYPES(LOAD_HALF, )
    default: return NAN;
    }
}

int64_t rgi_load_i64(const void *p, rg_dtype d) {
    switch (d) {
        RG_BOOL_DTYPES(LOAD_I64, )
        RG_INTEGER_DTYPES(LOAD_I64, )
        RG_BYTE_DTYPES(LOAD_I64, )
    default: return OF_DOUBLE(rgi_load_f64(p, d), int64_t, RG_INTEGER, 0x1p63);
    }
}

/* A double is rounded to 16 bits by way of float, and so twice, as in torch. */
RG_HOT void rgi_store_f64(void *p, rg_dtype d, double v) {
    switch (d) {
        RG_LOOP_DTYPES(STORE_F64, )
        RG_BYTE_DTYPES(STORE_BYTE, )
        RG_HALF_DTYPES(STORE_HALF, )
    default: break;
    }
}

void rgi_store_i64(void *p, rg_dtype d, int64_t v) {
    switch (d) {
        RG_LOOP_DTYPES(STORE_I64, )
        RG_BYTE_DTYPES(STORE_I64, )
        RG_HALF_DTYPES(STORE_HALF, )
    default: break;
    }
}

double rgi_rounded(double v, rg_dtype d) {
    switch (d) {
        RG_LOOP_DTYPES(ROUND, )
        RG_BYTE_DTYPES(ROUND_BYTE, )
        RG_HALF_DTYPES(ROUND_HALF, )
    default: return v;
    }
}

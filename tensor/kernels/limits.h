/*
 * limits.h: the precision of each floating dtype, from the limits that float.h defines.
 */
#pragma once

#include "tensor/dtype.h"

/* The limits that float.h defines for other floats (see FLT_EPSILON and so on). */
#define K_BFLOAT16_EPSILON  0x1p-7
#define K_BFLOAT16_MIN      0x1p-126
#define K_BFLOAT16_MANT_DIG 8
#define K_BFLOAT16_DIG      2
#define K_FLOAT16_EPSILON   0x1p-10
#define K_FLOAT16_MIN       0x1p-14
#define K_FLOAT16_MANT_DIG  11
#define K_FLOAT16_DIG       3

/* RG_FLOAT_FACTS(FACT) initialises a table with a row for each floating dtype: FLT_EPSILON for
 * float, for example, if FACT is EPSILON. A new floating dtype needs its own RG_FLOAT_FACT_ line.
 * For a dtype that isn't floating the functions that read these tables return 0. */
#define RG_FLOAT_FACT_float(FACT)    FLT_##FACT
#define RG_FLOAT_FACT_double(FACT)   DBL_##FACT
#define RG_FLOAT_FACT_bfloat16(FACT) K_BFLOAT16_##FACT
#define RG_FLOAT_FACT_float16(FACT)  K_FLOAT16_##FACT
#define RG_FLOAT_FACTS(FACT) \
    { RG_FLOAT_DTYPES(RG_DTYPE_FACT_, FACT) RG_HALF_DTYPES(RG_DTYPE_FACT_, FACT) }
#define RG_DTYPE_FACT_(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, FACT) \
    [RG_##NAME] = RG_FLOAT_FACT_##suffix(FACT),

/* Returns the distance from 1 to the next number of a floating dtype. */
static inline double rgi_epsilon(rg_dtype d) {
    static const double epsilons[RG_DTYPE_COUNT] = RG_FLOAT_FACTS(EPSILON);
    return epsilons[d];
}

/* Returns the least positive normal number of a floating dtype. */
static inline double rgi_least_normal(rg_dtype d) {
    static const double least[RG_DTYPE_COUNT] = RG_FLOAT_FACTS(MIN);
    return least[d];
}

/* Returns the number of bits of a floating dtype's mantissa, its leading 1 included. */
static inline int rgi_mantissa_bits(rg_dtype d) {
    static const uint8_t bits[RG_DTYPE_COUNT] = RG_FLOAT_FACTS(MANT_DIG);
    return bits[d];
}

/* Returns whether a floating dtype has enough digits to estimate a derivative from differences of
 * values: at least as many as float64. */
static inline bool rgi_suits_differences(rg_dtype d) {
    return rgi_mantissa_bits(d) >= rgi_mantissa_bits(RG_FLOAT64);
}

/* Returns the number of decimal digits that a floating dtype always preserves: a number with this
 * many digits is unchanged when it is converted to the dtype and back. */
static inline int rgi_decimal_digits(rg_dtype d) {
    static const uint8_t digits[RG_DTYPE_COUNT] = RG_FLOAT_FACTS(DIG);
    return digits[d];
}

/*
 * combine.c: combines two arrays element by element, by a sum, maximum or minimum. Sums of integers
 * wrap around on overflow. The sum of two bools is true if either is true.
 */
#include "tree_sum.h"

#define T        float
#define NAMED(f) f##_floats
#include "combine.h"
#define T        double
#define NAMED(f) f##_doubles
#include "combine.h"
#define T        uint64_t
#define NAMED(f) f##_words
#include "combine.h"
#define T        int64_t
#define NAMED(f) f##_integers
#include "combine.h"
#define T        uint8_t
#define NAMED(f) f##_bytes
#include "combine.h"

void rgi_combine(rg_reduce_op op, rg_dtype dtype, void *to, const void *left, const void *right,
                 int64_t n) {
    const bool sum = op == RG_REDUCE_SUM;
    switch (dtype) {
    case RG_FLOAT32: combine_floats(op, to, left, right, n); break;
    case RG_FLOAT64: combine_doubles(op, to, left, right, n); break;
    case RG_INT64:
        if (sum)
            combine_words(op, to, left, right, n);
        else
            combine_integers(op, to, left, right, n);
        break;
    case RG_UINT8: combine_bytes(op, to, left, right, n); break;
    case RG_BOOL: combine_bytes(sum ? RG_REDUCE_MAX : op, to, left, right, n); break;
    case RG_BFLOAT16:
    case RG_FLOAT16:
    case RG_NO_DTYPE: break; /* rgi_group_sums refuses these. */
    }
}

/*
 * sums.c: three kinds of sums: k_sums adds in the dtype of the elements, k_wide_sums adds floats in
 * float64, and in k_nansums NaN counts as 0. k_counts counts the elements that aren't 0. For bools
 * it uses the loop of k_sums, since a sum of bools is the number of those that are true.
 */
#include "reduce.h"

#define K_LOOPS "loops/sums.h"
#define K_TYPES_ALL
#include "sets.h"

#define K_LOOPS "loops/counts.h"
#define K_TYPES_NUMBERS
#include "sets.h"

const k_reduction k_sums = { "sum", 0, 0, K_TABLE_ALL(sum) };
const k_reduction k_wide_sums = {
    "wide_sum",
    0,
    0,
    { [RG_FLOAT32] = K_BY_SET(wide_sum_float), [RG_FLOAT64] = K_BY_SET(sum_double) }
};
const k_reduction k_nansums = { "nansum",
                                0,
                                0,
                                { RG_BOOL_DTYPES(K_TABLE_ROW, sum) RG_INTEGER_DTYPES(
                                    K_TABLE_ROW, sum) RG_FLOAT_DTYPES(K_TABLE_ROW, nansum) } };
const k_reduction k_counts = {
    "count", 0, 0, { RG_BOOL_DTYPES(K_TABLE_ROW, sum) RG_NUMBER_DTYPES(K_TABLE_ROW, count) }
};

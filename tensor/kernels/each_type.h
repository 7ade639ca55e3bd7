/*
 * each_type.h: includes the file K_LOOPS once for each element type. A K_TYPES_ macro selects the
 * types. sets.h, where these macros are documented, includes this file once for each instruction
 * set.
 */
#ifdef K_TYPES_NONE
#include K_LOOPS
#endif

#if defined(K_TYPES_ALL) || defined(K_TYPES_PAIRS)
#define T          bool
#define K_SIZE     1
#define K_TO(f)    f##_bool
#define K_DTYPE    RG_BOOL
#define K_LEAST    0
#define K_MOST     1
#define K_IS_FLOAT 0
#define K_IS_BOOL  1
#include "one_type.h"
#endif

#if defined(K_TYPES_ALL) || defined(K_TYPES_PAIRS) || defined(K_TYPES_NUMBERS) \
    || defined(K_TYPES_INTEGERS)
#define T          int64_t
#define K_SIZE     8
#define K_TO(f)    f##_int64
#define K_DTYPE    RG_INT64
#define K_UNSIGNED uint64_t
#define K_LEAST    INT64_MIN
#define K_MOST     INT64_MAX
#define K_IS_FLOAT 0
#define K_IS_BOOL  0
#include "one_type.h"
#endif

#if defined(K_TYPES_ALL) || defined(K_TYPES_PAIRS) || defined(K_TYPES_NUMBERS) \
    || defined(K_TYPES_FLOATS)
#define T          float
#define K_SIZE     4
#define K_TO(f)    f##_float
#define K_DTYPE    RG_FLOAT32
#define K_LEAST    (-INFINITY)
#define K_MOST     INFINITY
#define K_IS_FLOAT 1
#define K_IS_BOOL  0
#include "one_type.h"

#define T          double
#define K_SIZE     8
#define K_TO(f)    f##_double
#define K_DTYPE    RG_FLOAT64
#define K_LEAST    (-INFINITY)
#define K_MOST     INFINITY
#define K_IS_FLOAT 1
#define K_IS_BOOL  0
#include "one_type.h"
#endif

#ifdef K_TYPES_SIZES
#define T          uint8_t
#define K_SIZE     1
#define K_TO(f)    f##_uint8
#define K_IS_FLOAT 0
#define K_IS_BOOL  0
#include "one_type.h"

#define T          uint16_t
#define K_SIZE     2
#define K_TO(f)    f##_uint16
#define K_IS_FLOAT 0
#define K_IS_BOOL  0
#include "one_type.h"

#define T          uint32_t
#define K_SIZE     4
#define K_TO(f)    f##_uint32
#define K_IS_FLOAT 0
#define K_IS_BOOL  0
#include "one_type.h"

#define T          uint64_t
#define K_SIZE     8
#define K_TO(f)    f##_uint64
#define K_IS_FLOAT 0
#define K_IS_BOOL  0
#include "one_type.h"
#endif

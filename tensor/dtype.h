/*
 * dtype.h: the one table of element types, and functions that read it. To add a dtype, add a name
 * to rg_dtype in tensor.h and a row here. The compiler then reports each loop, table and switch
 * that has no entry for the new dtype.
 */
#pragma once

#include "error.h"
#include "opaque.h"
#include "kernels/half.h"

#include <float.h>
#include <math.h>

/* The kinds of dtypes, in ascending order of promotion. */
typedef enum rg_kind { RG_BOOLEAN, RG_INTEGER, RG_FLOATING } rg_kind;

/* Each row is X(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, with):
 *
 *     NAME     the dtype is RG_NAME
 *     suffix   the end of the names of loops over such elements: k_exp_float
 *     type     the C type of an element
 *     kind     the rg_kind; 0-d tensors and numbers change a result's dtype only by a higher kind
 *     rank     decides in promotion between two dtypes: the higher one wins
 *     limit    for a float, its greatest finite number; for an integer, its greatest number plus 1
 *     torch    the name in Python
 *     scalar   the name in most of torch's error messages
 *     cpp      the name in those of torch's error messages that show a C++ type
 *     with     the last argument of RG_DTYPES, which is passed on to the macro X */
/* clang-format would break these rows into several lines each. */
/* clang-format off */
#define RG_BOOL_DTYPES(X, with)                                                                  \
    X(BOOL,    bool,   bool,    RG_BOOLEAN,  0, HUGE_VAL, "bool",    "Bool",   "bool",     with)
#define RG_INTEGER_DTYPES(X, with)                                                               \
    X(INT64,   int64,  int64_t, RG_INTEGER,  2, 0x1p63,   "int64",   "Long",   "long int", with)
#define RG_FLOAT_DTYPES(X, with)                                                                 \
    X(FLOAT32, float,  float,   RG_FLOATING, 4, FLT_MAX,  "float32", "Float",  "float",    with) \
    X(FLOAT64, double, double,  RG_FLOATING, 5, DBL_MAX,  "float64", "Double", "double",   with)
#define RG_HALF_DTYPES(X, with)                                                                  \
    X(BFLOAT16, bfloat16, k_bfloat16, RG_FLOATING, 3, 0x1.FEp127, "bfloat16", "BFloat16",        \
      "c10::BFloat16", with)                                                                     \
    X(FLOAT16, float16, k_float16, RG_FLOATING, 3, 65504.0, "float16", "Half", "c10::Half", with)
#define RG_BYTE_DTYPES(X, with)                                                                  \
    X(UINT8,   uint8,  uint8_t, RG_INTEGER,  1, 0x1p8,    "uint8",   "Byte",   "unsigned char",  \
      with)
/* clang-format on */
#define RG_NUMBER_DTYPES(X, with) RG_INTEGER_DTYPES(X, with) RG_FLOAT_DTYPES(X, with)
/* The dtypes that loops compute in. The others are widened: elements of RG_HALF_DTYPES are computed
 * in float, and those of RG_BYTE_DTYPES in int64_t. */
#define RG_LOOP_DTYPES(X, with)    RG_BOOL_DTYPES(X, with) RG_NUMBER_DTYPES(X, with)
#define RG_WIDENED_DTYPES(X, with) RG_HALF_DTYPES(X, with) RG_BYTE_DTYPES(X, with)
#define RG_DTYPES(X, with)         RG_LOOP_DTYPES(X, with) RG_WIDENED_DTYPES(X, with)

/* RG_BY_FLOAT(find) initialises an array that is indexed by a floating dtype, with find_float,
 * find_double and so on. If one of these functions is missing, the compiler names it. */
#define RG_BY_FLOAT(name) \
    { RG_FLOAT_DTYPES(RG_DTYPE_ENTRY_, name) RG_HALF_DTYPES(RG_DTYPE_ENTRY_, name) }
#define RG_DTYPE_ENTRY_(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, name) \
    [RG_##NAME] = name##_##suffix,

#define RG_DTYPE_ONE_(...) +1
enum { RG_DTYPE_COUNT = RG_DTYPES(RG_DTYPE_ONE_, ) };

/* ---- functions that read the table ----------------------------------------------------------- */

/* Returns the size of an element in bytes. */
static inline size_t rgi_sizeof(rg_dtype d) {
#define RG_DTYPE_SIZE_(NAME, suffix, type, ...) [RG_##NAME] = sizeof(type),
    static const uint8_t size[] = { RG_DTYPES(RG_DTYPE_SIZE_, ) };
    return size[d];
}

/* Returns the first dtype whose elements have this size in bytes, for loops that only copy
 * elements. Requires that there is one. */
static inline rg_dtype rgi_dtype_of_size(size_t bytes) {
    int d = 0;
    while (rgi_sizeof((rg_dtype)d) != bytes)
        d++;
    return (rg_dtype)d;
}

static inline rg_kind rgi_kind(rg_dtype d) {
#define RG_DTYPE_KIND_(NAME, suffix, type, kind, ...) [RG_##NAME] = kind,
    static const uint8_t kinds[] = { RG_DTYPES(RG_DTYPE_KIND_, ) };
    return (rg_kind)kinds[d];
}

/* Return whether d is of the kind in the function's name. The functions compare d with each row of
 * that kind; the compiler turns this into one comparison. d may be a number that is no dtype. */
#define RG_DTYPE_OR_(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, d) || d == RG_##NAME
static inline bool rgi_is_bool(rg_dtype d) { return false RG_BOOL_DTYPES(RG_DTYPE_OR_, d); }
static inline bool rgi_is_byte(rg_dtype d) { return false RG_BYTE_DTYPES(RG_DTYPE_OR_, d); }
static inline bool rgi_is_half(rg_dtype d) { return false RG_HALF_DTYPES(RG_DTYPE_OR_, d); }
static inline bool rgi_is_widened(rg_dtype d) { return false RG_WIDENED_DTYPES(RG_DTYPE_OR_, d); }
static inline bool rgi_is_integer(rg_dtype d) {
    return false RG_INTEGER_DTYPES(RG_DTYPE_OR_, d) RG_BYTE_DTYPES(RG_DTYPE_OR_, d);
}
static inline bool rgi_is_float(rg_dtype d) {
    return false RG_FLOAT_DTYPES(RG_DTYPE_OR_, d) RG_HALF_DTYPES(RG_DTYPE_OR_, d);
}
/* Returns the dtype in which torch computes with elements of d, and which numbers beside them have:
 * float32 for RG_HALF_DTYPES. */
static inline rg_dtype rgi_computed_in(rg_dtype d) { return rgi_is_half(d) ? RG_FLOAT32 : d; }
/* Returns the dtype to which d is widened, or d if it isn't widened. */
static inline rg_dtype rgi_widened(rg_dtype d) {
    return rgi_is_byte(d) ? RG_INT64 : rgi_computed_in(d);
}

/* Returns whether a tensor of this dtype may hold indices. Kernels read indices as int64_t. Some of
 * torch's functions also take int32 indices, and the error messages of these functions say so. */
static inline bool rgi_is_index(rg_dtype d) { return d == RG_INT64; }

/* Returns the greatest finite number of a floating dtype. For an integer dtype, returns 1 more than
 * its greatest number; for bool, infinity. */
static inline double rgi_limit(rg_dtype d) {
#define RG_DTYPE_LIMIT_(NAME, suffix, type, kind, rank, limit, ...) [RG_##NAME] = limit,
    static const double limits[] = { RG_DTYPES(RG_DTYPE_LIMIT_, ) };
    return limits[d];
}

/* Returns the number nearest to v that this dtype, an integer dtype or bool, can hold. That is v
 * itself if v is in the dtype's range, or else the dtype's least or greatest number. */
static inline int64_t rgi_nearest_integer(int64_t v, rg_dtype d) {
    const int64_t least = rgi_is_integer(d) && !rgi_is_byte(d) ? (int64_t)-rgi_limit(d) : 0;
    const int64_t most = rgi_is_integer(d) ? -((int64_t)-rgi_limit(d) + 1) : true;
    return v < least ? least : RG_MIN(v, most);
}

/* Returns true if `dtype` is a dtype; otherwise fails and returns false. */
bool rgi_check_dtype(const char *op, int dtype);
/* Returns the name in most of torch's error messages, such as Float or Long. */
const char *rgi_scalar_name(rg_dtype d);
/* Returns the name of the C++ type in torch's error messages, such as float or long int. */
const char *rgi_c_name(rg_dtype d);
/* Returns the dtype that torch gives to Python's numbers of a kind: bool, int64 or the default
 * dtype. If a tensor has elements, print.c leaves out its dtype if that is the usual dtype of its
 * kind. */
rg_dtype rgi_usual_dtype(rg_kind kind);
/* Returns the dtype of a result that is computed from these n tensors, as torch.result_type
 * does. */
rg_dtype rgi_promote(int n, rg_tensor *const t[]);
/* Return true if the dtype can hold the number; otherwise fail and return false. Each number fits
 * into bool, as true or false. As in torch, a negative integer of at most 8 bits also fits into
 * uint8, which keeps its last 8 bits: -1 becomes 255. */
bool rgi_number_fits(const char *op, double v, rg_dtype dtype);
bool rgi_whole_fits(const char *op, int64_t v, rg_dtype dtype);

/* Returns `computes`, which says whether the function `op` has a loop for the dtype. If `computes`
 * is false, fails as rgi_lacks_dtype does. */
static inline bool rgi_want_dtype(const char *op, bool computes, rg_dtype dtype) {
    return RG_LIKELY(computes) || rgi_lacks_dtype(op, dtype);
}

/* ---- loading and storing one element (kernels/element.c) -------------------------- */

/* Returns v as an element of this dtype would hold it: rounded to a floating dtype, truncated to an
 * integer, or as 0 or 1 for bool. */
double rgi_rounded(double v, rg_dtype d);
double rgi_load_f64(const void *p, rg_dtype d);
int64_t rgi_load_i64(const void *p, rg_dtype d);
void rgi_store_f64(void *p, rg_dtype d, double v);
void rgi_store_i64(void *p, rg_dtype d, int64_t v);

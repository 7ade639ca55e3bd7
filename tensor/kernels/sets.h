/*
 * sets.h: compiles a file of loops once for each instruction set and element type, and makes the
 * tables in which the compiled loops are looked up. The loops themselves are in the files of
 * loops/.
 *
 * A family of kernels is two files. For example, softmax.c names the file of its loops, and
 * compiles it by including sets.h:
 *
 *     #define K_LOOPS "loops/softmax.h"
 *     #define K_TYPES_FLOATS
 *     #include "sets.h"
 *
 *     static softmax_loop *const softmax_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(softmax);
 *     ...
 *     softmax_loop *loop = K_LOOP_OF(softmax_loops, x->dtype, "softmax");
 *     if (!loop)
 *         return false;
 *
 * The path in K_LOOPS is relative to tensor/kernels/. One of these macros selects the element
 * types:
 *
 *     K_TYPES_FLOATS     float and double
 *     K_TYPES_NUMBERS    int64_t, float and double
 *     K_TYPES_INTEGERS   int64_t
 *     K_TYPES_ALL        bool, int64_t, float and double
 *     K_TYPES_SIZES      uint8_t, uint16_t, uint32_t and uint64_t, for copies by elements' size
 *     K_TYPES_PAIRS      all pairs of types: T, and S, which is converted to T
 *     K_TYPES_NONE       none: the file is included once for each set
 *
 * Two more macros may be defined in addition. K_BASE_ONLY compiles the loops only for the first
 * set, which every processor of the architecture has; it is for loops that wait for memory or can't
 * be vectorised. K_NARROW compiles the loops for vectors of at most 32 bytes; it is for loops that
 * wider vectors make slower. The tables of such loops are made by K_BASE_FLOATS, K_NARROW_FLOATS
 * and so on.
 *
 * loops/softmax.h has no include guard, because it is read once for each set and type. It may use
 * these macros:
 *
 *     T                  the element type: float
 *     K_NAME(f)          the name of f for this type and set: f_float_avx512
 *     K_TYPED(f)         the name of f for this type: f_float (such as k_exp_float, of smooth.h)
 *     K_IN_SET(f)        the name of f for this set: f_avx512
 *     K_DTYPE            the type's dtype: RG_FLOAT32
 *     K_UNSIGNED         the unsigned type of an integer type's size, which wraps: uint64_t
 *     K_LEAST, K_MOST    the type's least and greatest value: INT64_MIN, or -INFINITY
 *     K_SIZE             the type's size in bytes, for #if
 *     K_IS_FLOAT         1 for float and double, else 0
 *     K_IS_BOOL          1 for bool, else 0
 *     K_FROM_FLOAT       1 if S is float or double, else 0
 *     K_VECTOR_BYTES     the width of the set's vectors: 16, 32 or 64
 *     K_TILE_ROWS        the rows of a tile of two vectors; the tile leaves a few registers free
 *     K_SET_IS_AVX512    1 in the AVX-512 set alone, for loops written in its intrinsics
 *     K_SET_IS_AVX2      1 in the AVX2 set alone
 *     K_SET_IS_NEON      1 in the NEON set alone
 *     K_INLINE           the beginning of a function that must be inlined into a loop
 *     K_SUMS_IN_T        says that these loops add numbers in the type T
 *
 * It may also use the operations that every set has (see sets/sse2.h):
 *
 *     K_IN_SET(k_stream_line)(to, from)          writes a line of 64 bytes past the caches
 *     K_IN_SET(k_look_up)(to, n, table, at)      to[i] = table[at[i] % 16] for n floats
 *     K_NAME(k_multiply_add)(sum, a, b)          sum += a * b for one whole vector of floats
 *     K_NAME(k_multiply_add_narrow)(sum, a, b)   sum += a * b for 32 bytes of floats
 *
 * At the end of sets.h all of these macros are undefined, except K_INLINE, K_CALLED, K_SUMS_IN_T
 * and the macros for tables below.
 *
 * To add a set, write a header in sets/, and add the set here to K_EACH_SET and to the includes.
 * (Compilers can also make several versions of a function, by the attribute target_clones. But then
 * the program would choose between the versions before ThreadSanitizer is ready.)
 */
#ifndef RG_KERNELS_SETS_H
#define RG_KERNELS_SETS_H

#include "tensor/base.h"
#include "tensor/dtype.h"
#include "tensor/walk.h"

/* K_X86 is defined if loops may use intrinsics of x86-64, and K_ARM64 if they may use those of
 * 64-bit ARM. With -DRG_ONLY_PLAIN no loop uses intrinsics: the library is smaller then, and
 * compiles faster. */
#if defined(__x86_64__) && !defined(RG_ONLY_PLAIN)
#define K_X86 1
#endif
#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(RG_ONLY_PLAIN)
#define K_ARM64 1
#endif

/* The table of instruction sets, from the one that every processor of the architecture has to the
 * best one. A row is ROW(SET, suffix, narrow, ..). SET is the set's name in the enum, and `suffix`
 * the end of its functions' names. `narrow` is the suffix of the best set up to this one whose
 * vectors have at most 32 bytes: loops that are compiled with K_NARROW use the functions of that
 * set. */
#ifdef K_X86
#define K_EACH_SET(ROW, ...)             \
    ROW(K_SSE2, sse2, sse2, __VA_ARGS__) \
    ROW(K_AVX2, avx2, avx2, __VA_ARGS__) \
    ROW(K_AVX512, avx512, avx2, __VA_ARGS__)
#define K_BASE_SET sse2
#elif defined(K_ARM64)
#define K_EACH_SET(ROW, ...)                \
    ROW(K_PLAIN, plain, plain, __VA_ARGS__) \
    ROW(K_NEON, neon, neon, __VA_ARGS__)
#define K_BASE_SET plain
#else
#define K_EACH_SET(ROW, ...) ROW(K_PLAIN, plain, plain, __VA_ARGS__)
#define K_BASE_SET           plain
#endif

#define K_SET_NAME_(set, ...) set,
enum { K_EACH_SET(K_SET_NAME_) K_SETS, K_DTYPES = RG_DTYPE_COUNT };

/* The instruction set in which loops run; run.c chooses it. All sets give the same bits,
 * unless products are asked for in less than float32's precision (see bfloat16.c). */
extern int k_set;

/* Sets k_set to the instruction set whose name is `asked`. NULL or "" asks for `best`, the best set
 * that this processor has. If the set that is asked for doesn't exist or is above `best`, sets
 * k_set to `best` and writes to `wrong` a message that says why. Otherwise `wrong` becomes "". */
enum { K_SET_TEXT = 128 };
void k_choose_set(const char *asked, int best, char wrong[K_SET_TEXT]);

/* The value of k_set while a thread traces the loops that its kernels call (see trace.h). Tables
 * have a column for it, which is NULL: so the macros that look up a loop call k_other_loop, which
 * gives that thread a function that notes the call, and any other thread the loop of its set. */
enum { K_TRACED = K_SETS, K_COLUMNS };
/* Returns k_set, which another thread may set to K_TRACED at the same time. */
static inline int k_set_now(void) { return __atomic_load_n(&k_set, __ATOMIC_RELAXED); }
typedef void k_function(void);
enum { K_NO_DTYPE = RG_DTYPE_COUNT };
/* Returns the function that a thread gets in place of a loop while it traces. `row` is the loop's
 * place in its table, and `table` the expression that names the table. `dtype` is K_NO_DTYPE for a
 * loop that isn't compiled for several types. */
typedef k_function *k_tracer(const void *row, k_function *loop, const char *table, int dtype);
/* Returns the struct whose field `field`, a table by dtype and set, has the row `row` of a dtype.
 */
#define K_HOLDER(type, field, row, dtype)                                   \
    ((const type *)(const void *)((const char *)(row)-offsetof(type, field) \
                                  - (size_t)(dtype) * sizeof((const type *)0)->field[0]))
/* Begins tracing in this thread; `by` returns the functions. NULL ends it. The loops that `by` is
 * given are those of the first set or, if in_own_set is true, those of the set in which other
 * threads run. */
void k_trace_by(k_tracer *by, bool in_own_set);
/* Returns the bytes of the widest vectors that the loops of this thread may have: those of the
 * first set while it traces that one, otherwise those of any set. Kernels make room for them. */
int k_widest_vectors(void);

/* ---- tables, by dtype and set; every loop in a table must have been compiled ----------------- */

/* K_BY_SET(f) is an array of the functions f_sse2, f_avx2, .., indexed by the set.
 * K_BY_NARROW_SET(f) is the same for loops that are compiled with K_NARROW. */
#define K_BY_SET(f) \
    { K_EACH_SET(K_SET_ROW, f) }
#define K_BY_NARROW_SET(f) \
    { K_EACH_SET(K_NARROW_SET_ROW, f) }
#define K_SET_ROW(set, suffix, narrow, f)        [set] = RG_PASTE(f, _##suffix),
#define K_NARROW_SET_ROW(set, suffix, narrow, f) [set] = RG_PASTE(f, _##narrow),

/* K_TABLE_FLOATS, K_TABLE_NUMBERS and K_TABLE_ALL make tables [dtype][set]. A dtype for which a
 * table has no loops has NULL, as every dtype of RG_HALF_DTYPES has, which are computed in float.
 */
#define K_TABLE_FLOATS(f) \
    { RG_FLOAT_DTYPES(K_TABLE_ROW, f) }
#define K_TABLE_NUMBERS(f) \
    { RG_NUMBER_DTYPES(K_TABLE_ROW, f) }
#define K_TABLE_ALL(f) \
    { RG_LOOP_DTYPES(K_TABLE_ROW, f) }
#define K_TABLE_ROW(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, f) \
    [RG_##NAME] = K_BY_SET(f##_##suffix),

/* K_NARROW_FLOATS, K_NARROW_INTEGERS and K_NARROW_NUMBERS make tables [dtype][set] of loops that
 * are compiled with K_NARROW. */
#define K_NARROW_FLOATS(f) \
    { RG_FLOAT_DTYPES(K_NARROW_ROW, f) }
#define K_NARROW_INTEGERS(f) \
    { RG_INTEGER_DTYPES(K_NARROW_ROW, f) }
#define K_NARROW_NUMBERS(f) \
    { RG_NUMBER_DTYPES(K_NARROW_ROW, f) }
#define K_NARROW_ROW(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, f) \
    [RG_##NAME] = K_BY_NARROW_SET(f##_##suffix),

/* K_BASE_FLOATS, K_BASE_INTEGERS, K_BASE_NUMBERS and K_BASE_ALL make tables [dtype] of loops that
 * are compiled with K_BASE_ONLY. */
#define K_BASE_FLOATS(f) \
    { RG_FLOAT_DTYPES(K_BASE_ROW, f) }
#define K_BASE_INTEGERS(f) \
    { RG_INTEGER_DTYPES(K_BASE_ROW, f) }
#define K_BASE_NUMBERS(f) \
    { RG_NUMBER_DTYPES(K_BASE_ROW, f) }
#define K_BASE_ALL(f) \
    { RG_LOOP_DTYPES(K_BASE_ROW, f) }
#define K_BASE_ROW(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, f) \
    [RG_##NAME] = K_IN_BASE(f##_##suffix),
#define K_IN_BASE(f) RG_PASTE(f##_, K_BASE_SET)

/* K_BASE_PAIRS makes a table [to][from] of loops that convert one type to another; half.c has the
 * others. (The first index is written out, because a macro over all dtypes can't expand inside
 * itself.) */
#define K_BASE_PAIRS(f)                                                              \
    {                                                                                \
        [RG_BOOL] = K_BASE_ALL(f##_bool), [RG_INT64] = K_BASE_ALL(f##_int64),        \
        [RG_FLOAT32] = K_BASE_ALL(f##_float), [RG_FLOAT64] = K_BASE_ALL(f##_double), \
    }
#define K_COUNT_ONE_(...) +1
_Static_assert(RG_LOOP_DTYPES(K_COUNT_ONE_, ) == 4, "K_BASE_PAIRS and each_type.h name each dtype");

/* K_TABLE_SIZES makes a table [dtype][set], and K_BASE_SIZES a table [dtype], of loops that only
 * copy elements. Dtypes whose elements have the same size share a loop; K_TABLE_SIZES has rows for
 * RG_LOOP_DTYPES and, for elements of 16 bits, for RG_BFLOAT16. */
#define K_TABLE_SIZES(f)                                               \
    {                                                                  \
        RG_LOOP_DTYPES(K_TABLE_SIZES_ROW, f)                           \
        [RG_BFLOAT16] = { K_EACH_SET(K_SIZE_SET_ROW, f, k_bfloat16) }, \
    }
#define K_TABLE_SIZES_ROW(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, f) \
    [RG_##NAME] = { K_EACH_SET(K_SIZE_SET_ROW, f, type) },
#define K_SIZE_SET_ROW(set, suffix, narrow, f, type) [set] = K_OF_SIZE(f, type, suffix),
#define K_BASE_SIZES(f) \
    { RG_DTYPES(K_BASE_SIZES_ROW, f) }
#define K_BASE_SIZES_ROW(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, f) \
    [RG_##NAME] = K_OF_SIZE_(f, type, K_BASE_SET),
/* K_OF_SIZE(f, type, suffix) is the loop f for the type's size. A type of a size that has no loop
 * doesn't compile. */
#define K_OF_SIZE_(f, type, suffix) K_OF_SIZE(f, type, suffix)
#define K_OF_SIZE(f, type, suffix)                      \
    __builtin_choose_expr(                              \
        sizeof(type) == 1, f##_uint8_##suffix,          \
        __builtin_choose_expr(                          \
            sizeof(type) == 2, f##_uint16_##suffix,     \
            __builtin_choose_expr(                      \
                sizeof(type) == 4, f##_uint32_##suffix, \
                __builtin_choose_expr(sizeof(type) == 8, f##_uint64_##suffix, (void)0))))

/* ---- looking up a loop in a table ------------------------------------------------------------ */

/* Returns a table's loop for a dtype in the current set. If the table has none, fails with torch's
 * message, which contains the kernel's name `name`, and returns NULL. */
#define K_LOOP_OF(table, dtype, name)                                                             \
    __extension__({                                                                               \
        const rg_dtype dtype_ = (rg_dtype)(dtype);                                                \
        __typeof__(&*(table)[0][0]) loop_ = (table)[dtype_][k_set_now()];                         \
        if (RG_UNLIKELY(!loop_))                                                                  \
            loop_ = (__typeof__(loop_))k_other_loop((table)[dtype_], true, #table, name, dtype_); \
        loop_;                                                                                    \
    })
/* K_BASE_LOOP_OF does the same as K_LOOP_OF, for a table [dtype] of loops that are compiled with
 * K_BASE_ONLY, that is, only for the first instruction set. */
#define K_BASE_LOOP_OF(table, dtype, name) K_BASE_LOOP_NAMED(table, #table, dtype, name)
/* The same for one of several tables; `loops` is the name that the table would have alone. */
#define K_BASE_LOOP_NAMED(table, loops, dtype, name)                                               \
    __extension__({                                                                                \
        const rg_dtype dtype_ = (rg_dtype)(dtype);                                                 \
        __typeof__(&*(table)[0]) loop_ = (table)[dtype_];                                          \
        if (RG_UNLIKELY(!loop_ || k_set_now() == K_TRACED))                                        \
            loop_ = (__typeof__(loop_))k_other_loop(&(table)[dtype_], false, loops, name, dtype_); \
        loop_;                                                                                     \
    })
/* Returns the loop of an array [set] in the current set. */
#define K_LOOP_OF_SET(array)                                                                \
    __extension__({                                                                         \
        __typeof__(&*(array)[0]) loop_ = (array)[k_set_now()];                              \
        if (RG_UNLIKELY(!loop_))                                                            \
            loop_ = (__typeof__(loop_))k_other_loop(array, true, #array, NULL, K_NO_DTYPE); \
        loop_;                                                                              \
    })
/* Returns the loop f of a file that is compiled for no type (K_TYPES_NONE) and with K_BASE_ONLY. */
#define K_BASE_LOOP(f)                                                                           \
    __extension__({                                                                              \
        static __typeof__(&K_IN_BASE(f)) const row_[] = { K_IN_BASE(f) };                        \
        __typeof__(&K_IN_BASE(f)) loop_ = row_[0];                                               \
        if (RG_UNLIKELY(k_set_now() == K_TRACED))                                                \
            loop_ = (__typeof__(loop_))k_other_loop(row_, false, #f "_loops", NULL, K_NO_DTYPE); \
        loop_;                                                                                   \
    })
/* The slow path of these macros. `row` is a loop in a table, or the array of its loops by set if
 * `by_set`; `table` is the expression that names the table. If there is no loop, fails as
 * k_not_implemented does, and returns NULL. */
k_function *k_other_loop(const void *row, bool by_set, const char *table, const char *name,
                         int dtype) __attribute__((cold));
/* Fails with torch's message, for int64: "name" not implemented for 'Long'. */
void k_not_implemented(const char *name, rg_dtype dtype) __attribute__((cold));

/* K_INLINE begins a function that is inlined into a loop, whatever its size. */
#define K_INLINE static inline __attribute__((always_inline))
/* Begins the definition of a function that is long, and called in many places. */
#define K_CALLED static __attribute__((noinline, unused))

/* K_TYPED(k_is_nan)(x) returns whether x is NaN; it is false for every integer and bool. */
K_INLINE bool k_is_nan_float(float x) { return x != x; }
K_INLINE bool k_is_nan_double(double x) { return x != x; }
K_INLINE bool k_is_nan_int64(int64_t x) { return (void)x, false; }
K_INLINE bool k_is_nan_bool(bool x) { return (void)x, false; }

/* K_INDEPENDENT stands before a loop whose iterations don't depend on each other. Requires that the
 * result is the same memory as one of the operands, or doesn't overlap with any of them. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* No warning if a loop can't be vectorised \
                                                  * because it calls libm. */
#define K_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define K_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* K_SUMS_IN_T stands in a file of loops that add numbers in the type T. For a floating type with
 * fewer digits than float, the file then doesn't compile, because torch computes sums of such a
 * type in float. */
#define K_SUMS_IN_T                                           \
    _Static_assert(!K_IS_FLOAT || sizeof(T) >= sizeof(float), \
                   "the sums of these loops have too few digits in this type")

/* K_UNROLLED stands before a loop of a constant number of iterations, at most 32, which compilers
 * unroll completely. K_IN_REGISTERS stands before a loop over a constant number of elements, which
 * fill one to eight vectors: compilers vectorise and then unroll it, so that its arrays stay in
 * registers. Without these pragmas, GCC would unroll the loops only at -O3. */
#define K_UNROLLED     _Pragma("GCC unroll 32")
#define K_IN_REGISTERS _Pragma("GCC unroll 8")

/* K_ONE_BY_ONE stands in a loop that compilers should not vectorise. */
#define K_ONE_BY_ONE() __asm__ volatile("")

#endif

/* ---- compiling the loops -------------------------------------------------------------------- */

#ifdef K_LOOPS

/* Only files that compile loops include immintrin.h or arm_neon.h, since reading them slows
 * compilation down. */
#ifdef K_X86
#include <immintrin.h>
#endif
#ifdef K_ARM64
#include <arm_neon.h>
#endif

#define K_IN_SET(f)       RG_PASTE(f##_, K_SET_SUFFIX)
#define K_NAME(f)         K_TYPED_IN_SET(K_TYPED(f))
#define K_TYPED_IN_SET(f) RG_PASTE(f, RG_PASTE(_, K_SET_SUFFIX))

#ifdef K_X86
#ifndef K_BASE_ONLY
#include "sets/avx2.h"
#include "each_type.h"
#include "sets/end.h"

#ifndef K_NARROW
#include "sets/avx512.h"
#include "each_type.h"
#include "sets/end.h"
#endif
#endif
#include "sets/sse2.h"
#include "each_type.h"
#include "sets/end.h"
#else
#ifdef K_ARM64
#ifndef K_BASE_ONLY
#include "sets/neon.h"
#include "each_type.h"
#include "sets/end.h"
#endif
#endif
#include "sets/plain.h"
#include "each_type.h"
#include "sets/end.h"
#endif

#undef K_IN_SET
#undef K_NAME
#undef K_TYPED_IN_SET
#undef K_LOOPS
#undef K_BASE_ONLY
#undef K_NARROW
#undef K_TYPES_FLOATS
#undef K_TYPES_NUMBERS
#undef K_TYPES_INTEGERS
#undef K_TYPES_ALL
#undef K_TYPES_SIZES
#undef K_TYPES_PAIRS
#undef K_TYPES_NONE
#endif

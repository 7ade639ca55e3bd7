/*
 * one_type.h: includes the file K_LOOPS for the type T that each_type.h has defined, and then
 * undefines each_type.h's macros. For K_TYPES_PAIRS, K_LOOPS is included once for each type S; its
 * loop converts elements of S to T.
 */
#ifdef K_TYPES_PAIRS
#define S            bool
#define K_FROM_FLOAT 0
#define K_TYPED(f)   RG_PASTE(K_TO(f), _bool)
#include K_LOOPS
#undef S
#undef K_FROM_FLOAT
#undef K_TYPED
#define S            int64_t
#define K_FROM_FLOAT 0
#define K_TYPED(f)   RG_PASTE(K_TO(f), _int64)
#include K_LOOPS
#undef S
#undef K_FROM_FLOAT
#undef K_TYPED
#define S            float
#define K_FROM_FLOAT 1
#define K_TYPED(f)   RG_PASTE(K_TO(f), _float)
#include K_LOOPS
#undef S
#undef K_FROM_FLOAT
#undef K_TYPED
#define S            double
#define K_FROM_FLOAT 1
#define K_TYPED(f)   RG_PASTE(K_TO(f), _double)
#include K_LOOPS
#undef S
#undef K_FROM_FLOAT
#undef K_TYPED
#else
#define K_TYPED(f) K_TO(f)
#include K_LOOPS
#undef K_TYPED
#endif

#undef T
#undef K_SIZE
#undef K_TO
#undef K_DTYPE
#undef K_UNSIGNED
#undef K_LEAST
#undef K_MOST
#undef K_IS_FLOAT
#undef K_IS_BOOL

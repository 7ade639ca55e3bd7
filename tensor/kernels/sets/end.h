/*
 * end.h: ends the functions of an instruction set: from here on the compiler may not use its
 * instructions any more. Also undefines the set's macros.
 */
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef K_SET_SUFFIX
#undef K_SET_IS_AVX2
#undef K_SET_IS_AVX512
#undef K_VECTOR_BYTES
#undef K_TILE_ROWS

/*
 * end.h: ends the part of a file that is compiled for one instruction set. From here on the
 * compiler may not use the set's instructions any more. Also undefines the set's macros.
 */
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef K_SET_SUFFIX
#undef K_SET_IS_AVX2
#undef K_SET_IS_AVX512
#undef K_SET_IS_NEON
#undef K_VECTOR_BYTES
#undef K_TILE_ROWS

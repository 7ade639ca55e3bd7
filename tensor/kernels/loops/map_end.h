/*
 * loops/map_end.h: undefines the macros that map.h defines.
 */
#undef A
#undef R
#undef KIND
#undef K_MAP
#undef K_LOOP_HEAD
#undef K_LOOP_WITH
#undef K_LOOP_ALONE
#undef K_ALONE_1
#undef K_ALONE_2
#undef K_ALONE_3
#undef K_MAP_1
#undef K_MAP_2
#undef K_MAP_3
#undef K_MAP_1_WITH
#undef K_MAP_2_WITH
#undef K_MAP_3_WITH
#undef K_HEAVY_1
#undef K_HEAVY_2
#undef K_HEAVY_2_OR_NUMBER
#undef K_HEAVY_3
#undef K_HEAVY_1_WITH
#undef K_HEAVY_2_WITH

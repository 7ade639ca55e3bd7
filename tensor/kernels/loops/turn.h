/*
 * loops/turn.h: transposes a tile for turn.c, for elements of one size.
 */
static void K_NAME(turn_tile)(char *to, const char *from, int64_t step, int64_t rows,
                              int64_t columns) {
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            ((T *)to)[i * TURN_SIDE + j] = ((const T *)(from + j * step))[i];
}

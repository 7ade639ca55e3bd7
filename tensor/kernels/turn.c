/*
 * turn.c: operands that are transposed in memory. In such an operand, neighbouring elements along
 * the last dim are at least a cache line apart, and the elements along another dim are contiguous.
 * The dims are reordered so that the contiguous dim is the last dim but one. Then tiles of the last
 * two dims are transposed into a buffer as they are read. So each cache line is read only once,
 * each page seldom more than once, and the loops vectorise.
 */
#include "kernels.h"

enum { TURN_SIDE = K_TURN_SIDE, TURN_LINE = 64 };

#define K_LOOPS "loops/turn.h"
#define K_TYPES_SIZES
#define K_BASE_ONLY
#include "sets.h"

/* Transposes a tile of `rows` by `columns` elements. Rows of `to` are TURN_SIDE elements apart, and
 * columns of `from` are `step` bytes apart. */
typedef void turn_tile(char *to, const char *from, int64_t step, int64_t rows, int64_t columns);
static turn_tile *const turn_tiles[K_DTYPES] = K_BASE_SIZES(turn_tile);

/* Returns the dim along which the elements of transposed operands are contiguous, or -1 if no
 * operand is transposed. Sets turned[k] to whether operand k is transposed and contiguous along
 * this dim. (If transposed operands are contiguous along different dims, one of these dims is
 * chosen.) */
static int turn_dim(const rg_walk *w, bool turned[]) {
    const int last = w->ndim - 1;
    int dim = -1;
    for (int k = 0; k < w->n; k++)
        turned[k] = false;
    for (int k = 1; k < w->n; k++)
        for (int d = 0; d < last; d++) {
            const bool turns = w->step[d][k] == w->element[k] && w->step[last][k] >= TURN_LINE;
            if (!turns || (dim >= 0 && dim != d))
                continue;
            turned[k] = true;
            dim = d;
        }
    return dim;
}

bool k_turn_operands(k_turning *turning, rg_walk *w, rg_loop *loop, const void *context) {
    const int dim = turn_dim(w, turning->turned);
    if (dim < 0)
        return false;
    for (int d = dim; d < w->ndim - 2; d++) {
        RG_SWAP(w->size[d], w->size[d + 1]);
        for (int k = 0; k < w->n; k++)
            RG_SWAP(w->step[d][k], w->step[d + 1][k]);
    }
    w->ndim--;
    turning->walk = w;
    turning->loop = loop;
    turning->context = context;
    return true;
}

/* The operands at one tile. data[k] points into tensor k, or into `buffer` if operand k is
 * transposed. */
typedef struct {
    char *data[RG_MAX_OPERANDS];
    int64_t step[RG_MAX_OPERANDS]; /* The distance from one column to the next, in bytes. */
    int64_t down[RG_MAX_OPERANDS]; /* The distance from one row to the next, in bytes. */
    _Alignas(64) char buffer[RG_MAX_OPERANDS][TURN_SIDE * TURN_SIDE * sizeof(double)];
} turn_operands;

/* Runs the loop over `rows` rows of n columns. */
static void turn_rows(const k_turning *t, turn_operands *operands, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        t->loop(operands->data, operands->step, n, t->context);
        for (int k = 0; k < t->walk->n; k++)
            operands->data[k] += operands->down[k];
    }
}

void k_turned_loop(char *const p[], const int64_t outer[], int64_t n, const void *context) {
    const k_turning *t = context;
    const rg_walk *w = t->walk;
    const int last = w->ndim;
    turn_operands operands;
    for (int64_t j = 0; j < w->size[last]; j += TURN_SIDE)
        for (int64_t i = 0; i < n; i += TURN_SIDE) {
            const int64_t rows = RG_MIN(n - i, TURN_SIDE);
            const int64_t columns = RG_MIN(w->size[last] - j, TURN_SIDE);
            for (int k = 0; k < w->n; k++) {
                operands.data[k] = p[k] + i * outer[k] + j * w->step[last][k];
                operands.step[k] = w->step[last][k];
                operands.down[k] = outer[k];
                if (!t->turned[k])
                    continue;
                const int64_t bytes = w->element[k];
                char *buffer = operands.buffer[k];
                turn_tile *turn = turn_tiles[rgi_dtype_of_size((size_t)bytes)];
                turn(buffer, operands.data[k], operands.step[k], rows, columns);
                operands.data[k] = buffer;
                operands.step[k] = bytes;
                operands.down[k] = TURN_SIDE * bytes;
            }
            turn_rows(t, &operands, rows, columns);
        }
}

/*
 * loops/range.h: the loops of arange and linspace, compiled for each element type (see sets.h).
 */

/* REAL is the type in which linspace computes: T itself for floats, and double for integers. */
#if K_IS_FLOAT
#define REAL T
#else
#define REAL double
#endif

#if K_IS_FLOAT
/* y[i] = start + step * i, rounded as in torch's vectorised loop. Each multiply-add is computed in
 * float64, with one rounding, and converted to T. Whole vectors of 32 bytes are computed as
 * vectors: element l of the vector that begins at y[i] is y[i] + step * l. The number of these
 * vectors is even; the elements behind them are computed one by one. */
static void K_NAME(arange)(void *to, int64_t n, double start, double step) {
    enum { LANES = 32 / sizeof(T) };
    T *y = to;
    int64_t i = 0;
    for (; i < n - n % (2 * LANES); i += LANES) {
        const T first = (T)fma(step, (double)i, start);
        for (int l = 0; l < LANES; l++)
            y[i + l] = (T)fma(step, l, (double)first);
    }
    for (; i < n; i++)
        y[i] = (T)fma(step, (double)i, start);
}
#else
/* y[i] = start + step * i. */
static void K_NAME(arange_whole)(void *to, int64_t n, int64_t start, int64_t step) {
    T *y = to;
    for (int64_t i = 0; i < n; i++)
        y[i] = (T)(start + step * i);
}
#endif

/* Writes n evenly spaced numbers from start to end. Requires that n is at least 2. The second half
 * is computed backwards from the end, so that both ends are exact. */
static void K_NAME(linspace)(void *to, int64_t n, double start, double end) {
    T *y = to;
    const int64_t half = n / 2;
    const REAL a = (REAL)(T)start;
    const REAL b = (REAL)(T)end;
    const REAL step = (b - a) / (REAL)(n - 1);
    for (int64_t i = 0; i < half; i++)
        y[i] = (T)fma(step, (REAL)i, a);
    for (int64_t i = half; i < n; i++)
        y[i] = (T)fma(-step, (REAL)(n - 1 - i), b);
}

#undef REAL

/*
 * loops/conv_whole.h: a convolution of integers. Sums are computed in uint64_t, so that they wrap
 * around on overflow, and are then converted to T. conv.c includes this file.
 */

/* Adds to each pixel of a plane of y the element of a plane of x that one tap reads, times the
 * tap's weight. `row` and `col` describe the tap along the two dims (see k_tap in window.h). */
static void K_NAME(whole_tap)(const k_window *w, T *y, const T *x, uint64_t weight, k_tap row,
                              k_tap col) {
    for (int64_t i = row.begin; i < row.end; i++) {
        const int64_t line = (i * w->stride[0] + row.shift) * w->size[1] + col.shift;
        T *to = y + i * w->to[1];
        for (int64_t j = col.begin; j < col.end; j++)
            to[j] = (T)((uint64_t)to[j] + weight * (uint64_t)x[line + j * w->stride[1]]);
    }
}

/* Computes planes begin to end - 1 of y. A plane is one channel of one image. */
static void K_NAME(whole_forward)(void *context, int64_t begin, int64_t end, int worker) {
    const conv_whole *p = context;
    const k_conv *z = p->z;
    const k_window *w = &z->window;
    const T *x = p->x, *weights = p->w, *bias = p->bias;
    const int64_t planes = z->groups * z->out, plane = w->size[0] * w->size[1];
    const int64_t taps = w->kernel[0] * w->kernel[1], pixels = w->to[0] * w->to[1];
    (void)worker;
    for (int64_t part = begin; part < end; part++) {
        const int64_t image = part / planes, out = part % planes, group = out / z->out;
        T *y = (T *)p->y + part * pixels;
        for (int64_t i = 0; i < pixels; i++)
            y[i] = bias ? bias[out] : 0;
        for (int64_t l = 0; l < z->in * taps; l++) {
            const int64_t channel = (image * z->groups + group) * z->in + l / taps;
            const int64_t tap = l % taps;
            K_NAME(whole_tap)(w, y, x + channel * plane, (uint64_t)weights[out * z->in * taps + l],
                              k_tap_at(w, 0, tap / w->kernel[1]),
                              k_tap_at(w, 1, tap % w->kernel[1]));
        }
    }
}

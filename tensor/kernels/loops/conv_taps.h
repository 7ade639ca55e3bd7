/*
 * loops/conv_taps.h: the weights of the convolution that computes the gradient of x, for elements
 * of one size.
 */

/* Writes the weights for the groups begin to end - 1: w, with the dims of inputs and outputs
 * exchanged, and with the taps in reverse order. */
static void K_NAME(conv_turn_taps)(void *context, int64_t begin, int64_t end, int worker) {
    const conv_taps *c = context;
    const int64_t in = c->z->in, out = c->z->out;
    const int64_t taps = c->z->window.kernel[0] * c->z->window.kernel[1];
    const int64_t step = in * taps;
    const T *from = (const T *)(const void *)c->from + begin * out * step;
    T *to = (T *)(void *)c->to + begin * out * step;
    (void)worker;
    for (int64_t group = begin; group < end; group++, from += out * step)
        for (int64_t i = 0; i < in; i++)
            for (int64_t o = 0; o < out; o++)
                for (int64_t tap = taps - 1; tap >= 0; tap--)
                    *to++ = from[o * step + i * taps + tap];
}

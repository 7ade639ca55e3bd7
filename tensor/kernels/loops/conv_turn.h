/*
 * loops/conv_turn.h: prepares and ends convolutions: the offsets of terms, and transposed weights.
 */

/* Computes the offsets p->at[l] of the terms begin to end - 1, in a plan for stride 1. */
static void K_IN_SET(slide_offsets)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    const k_window *w = &p->z->window;
    (void)worker;
    for (int64_t l = begin; l < end; l++) {
        const int64_t down = l % p->taps / w->kernel[1];
        const int64_t across = l % w->kernel[1];
        p->at[l] = l / p->taps * p->plane + down * w->dilation[0] * p->width
                   + across * w->dilation[1];
    }
}

/* Transposes the matrices of the groups begin to end - 1. */
static void K_IN_SET(conv_turn)(void *context, int64_t begin, int64_t end, int worker) {
    const conv_turning *c = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        c->turn(c->to + i * c->to_group, c->to_row, c->from + i * c->from_group, c->row, c->col,
                c->n, c->k, 1);
}

/* Writes the weights with which a convolution of g computes the gradient of x, for the groups begin
 * to end - 1: w, with the dims of inputs and outputs exchanged, and with the taps in reverse
 * order. */
static void K_IN_SET(conv_turn_taps)(void *context, int64_t begin, int64_t end, int worker) {
    const conv_taps *c = context;
    const k_conv *z = c->z;
    const int64_t taps = z->window.kernel[0] * z->window.kernel[1];
    const int64_t step = z->in * taps;
    const int64_t group_bytes = z->out * step * c->bytes;
    char *to = c->to + begin * group_bytes;
    (void)worker;
    for (int64_t group = begin; group < end; group++)
        for (int64_t i = 0; i < z->in; i++)
            for (int64_t o = 0; o < z->out; o++)
                for (int64_t tap = taps - 1; tap >= 0; tap--, to += c->bytes)
                    memcpy(to,
                           c->from + group * group_bytes + (o * step + i * taps + tap) * c->bytes,
                           (size_t)c->bytes);
}

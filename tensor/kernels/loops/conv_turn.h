/*
 * loops/conv_turn.h: prepares and ends convolutions: the offsets of terms, and transposed weights.
 */

/* Computes the offsets p->at[l] of the terms begin to end - 1, in a plan for stride 1. */
static void K_IN_SET(slide_offsets)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    const k_window w = p->z->window;
    const int64_t taps = p->taps, plane = p->plane, width = p->width;
    int64_t *at = p->at;
    (void)worker;
    for (int64_t l = begin; l < end; l++) {
        const int64_t down = l % taps / w.kernel[1];
        const int64_t across = l % w.kernel[1];
        at[l] = l / taps * plane + down * w.dilation[0] * width + across * w.dilation[1];
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

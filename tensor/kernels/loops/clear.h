/*
 * loops/clear.h: sets the bytes begin to end - 1 to 0.
 */

static void K_IN_SET(clear)(void *context, int64_t begin, int64_t end, int worker) {
    const clearing *c = context;
    (void)worker;
    memset(c->to + begin, 0, (size_t)(end - begin));
}

/*
 * loops/select_lines.h: finds one element of each line, whose elements are of any type.
 */

/* Finds the k-th smallest element, or the median, in each of `lines` lines. p[] are the addresses
 * of values, indices and x. */
static void K_IN_SET(select_lines)(char *const p[], const int64_t s[], int64_t lines,
                                   const void *context) {
    const select_context *c = context;
    for (int64_t j = 0; j < lines; j++) {
        const char *x = p[2] + j * s[2];
        const int64_t at = select_place(c, x);
        memcpy(p[0] + j * s[0], x + at * c->step[2], c->bytes);
        *(int64_t *)(p[1] + j * s[1]) = at;
    }
}

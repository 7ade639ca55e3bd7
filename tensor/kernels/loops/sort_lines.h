/*
 * loops/sort_lines.h: sorts lines of elements of any type, or finds their first k elements.
 */

/* Sorts each of `lines` lines. p[] are the addresses of values, indices and x. */
static void K_IN_SET(sort_lines)(char *const p[], const int64_t s[], int64_t lines,
                                 const void *context) {
    const sort_context *c = context;
    for (int64_t j = 0; j < lines; j++) {
        char *values = p[0] + j * s[0];
        char *indices = p[1] + j * s[1];
        const char *x = p[2] + j * s[2];
        k_ranked *q = c->room;
        c->rank(q, x, c->step[2], c->n, c->descending);
        if (c->top)
            k_top(q, c->n, c->k, c->sorted);
        else
            q = k_sort_ranked(q, q + c->n, c->n);
        for (int64_t i = 0; i < c->k; i++) {
            memcpy(values + i * c->step[0], x + q[i].index * c->step[2], c->bytes);
            *(int64_t *)(indices + i * c->step[1]) = q[i].index;
        }
    }
}

/*
 * loops/index_lines.h: clears triangles of matrices, and computes indices of elements.
 */

/* Clears a part of each of the rows begin to end - 1 of all matrices. */
static void K_IN_SET(clear_triangle)(void *context, int64_t begin, int64_t end, int worker) {
    const triangle_rows *z = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        /* The column at which the row is cut. If the elements above the diagonal are cleared, this
         * is the first column above the diagonal; if the elements below are cleared, it is the
         * column of the diagonal. */
        const int64_t cut = i % z->rows + z->diagonal + z->above;
        const int64_t keep = RG_MAX(RG_MIN(cut, z->columns), 0);
        char *row = z->y + i * z->columns * z->bytes;
        if (z->above)
            memset(row + keep * z->bytes, 0, (size_t)((z->columns - keep) * z->bytes));
        else
            memset(row, 0, (size_t)(keep * z->bytes));
    }
}

/* Returns the index in x of the element that position j of a padded dim gets. In circular mode, a
 * negative padding first removes elements, and only the elements that are left are repeated. */
static int64_t K_IN_SET(pad_index)(const pad_positions *z, int64_t j) {
    const int64_t n = z->n;
    int64_t i;
    const bool far_behind = __builtin_sub_overflow(j, z->left, &i);
    if (z->kind == K_PAD_REPLICATE)
        return far_behind ? n - 1 : RG_MAX(RG_MIN(i, n - 1), 0);
    if (z->kind == K_PAD_CIRCULAR) {
        const int64_t crop = RG_MAX(-z->left, 0);
        const int64_t kept = n - crop - RG_MAX(-z->right, 0);
        return crop + ((i - crop) % kept + kept) % kept;
    }
    if (i < 0)
        return -i;
    return i < n ? i : 2 * (n - 1) - i;
}

/* Writes the indices of the positions begin to end - 1 of a padded dim. */
static void K_IN_SET(pad_indices)(void *context, int64_t begin, int64_t end, int worker) {
    const pad_positions *z = context;
    (void)worker;
    for (int64_t j = begin; j < end; j++)
        z->to[j] = K_IN_SET(pad_index)(z, j);
}

/* Adds index * stride to each of n offsets (p[0]), for the indices (p[1]) of one index tensor. A
 * negative index counts from the end. An index that is out of bounds isn't added. It is stored in
 * *c->bad, unless *c->bad already holds an index that belongs to the same or an earlier element of
 * the offsets. */
static void K_IN_SET(index_offsets)(char *const p[], const int64_t s[], int64_t n,
                                    const void *context) {
    const k_index_dim *c = context;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = *(const int64_t *)(const void *)(p[1] + i * s[1]);
        if (at >= -c->size && at < c->size)
            *(int64_t *)(void *)(p[0] + i * s[0]) += (at < 0 ? at + c->size : at) * c->stride;
        else if (c->bad && (!c->bad->where || p[0] + i * s[0] < c->bad->where))
            *c->bad = (k_index_bad){ c->dim, at, c->size, p[0] + i * s[0] };
    }
}

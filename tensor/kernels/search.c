/*
 * search.c: binary search in sorted rows, and the indices of elements that aren't 0.
 */
#include "kernels.h"

#define K_LOOPS "loops/search.h"
#define K_TYPES_NUMBERS
#define K_BASE_ONLY
#include "sets.h"

/* ---- searchsorted ---------------------------------------------------------------------- */

bool k_searchsorted(rg_tensor *y, const rg_tensor *sorted, const rg_tensor *values, bool right) {
    static k_search_loop *const search_loops[K_DTYPES] = K_BASE_NUMBERS(search);
    if (values->numel == 0)
        return true;
    k_search_loop *loop = K_BASE_LOOP_OF(search_loops, values->dtype, "searchsorted");
    if (!loop)
        return false;
    int64_t n = sorted->size[sorted->ndim - 1];
    int64_t per_row = sorted->ndim == 1 ? INT64_MAX : values->size[values->ndim - 1];
    loop((int64_t *)y->data, sorted->data, values->data, n, values->numel, per_row, right);
    return true;
}

/* ---- nonzero --------------------------------------------------------------------------- */

/* A position in a walk over the rows of a tensor: at[] is the index of the current row, and p
 * points to its first element. */
typedef struct {
    const rg_tensor *x;
    int64_t at[RG_MAX_DIMS];
    const char *p;
} nonzero_rows;

static void nonzero_next_row(nonzero_rows *r) {
    const int64_t bytes = (int64_t)rgi_sizeof(r->x->dtype);
    for (int d = r->x->ndim - 2; d >= 0; d--) {
        r->p += r->x->stride[d] * bytes;
        r->at[d]++;
        if (r->at[d] < r->x->size[d])
            return;
        r->p -= r->x->stride[d] * bytes * r->x->size[d];
        r->at[d] = 0;
    }
}

/* For each of the row's n elements that isn't 0, writes the element's index along each dim to `to`.
 * Returns a pointer behind the last written index. `step` is the distance between elements, in
 * bytes. */
static int64_t *nonzero_row(int64_t *to, const nonzero_rows *r, int64_t n, int64_t step) {
    enum { BLOCK = 512 };
    const int last = r->x->ndim - 1;
    rg_loop *to_bool = rgi_copy_loop(RG_BOOL, r->x->dtype);
    bool is[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % BLOCK;
        if (k == 0) {
            char *operands[] = { (char *)is, (char *)r->p + i * step };
            to_bool(operands, (int64_t[]){ 1, step }, RG_MIN(n - i, BLOCK), NULL);
        }
        if (!is[k] || last < 0)
            continue;
        for (int d = 0; d < last; d++)
            *to++ = r->at[d];
        *to++ = i;
    }
    return to;
}

void k_nonzero(rg_tensor *y, const rg_tensor *x) {
    const int last = x->ndim - 1;
    const int64_t n = last < 0 ? 1 : x->size[last];
    const int64_t step = last < 0 ? 0 : x->stride[last] * (int64_t)rgi_sizeof(x->dtype);
    nonzero_rows r = { .x = x, .p = x->data };
    int64_t *to = (int64_t *)y->data;
    for (int64_t rows = n ? x->numel / n : 0; rows > 0; rows--) {
        to = nonzero_row(to, &r, n, step);
        nonzero_next_row(&r);
    }
}

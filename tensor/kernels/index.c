/*
 * index.c: moving elements between places: slices, gather and scatter.
 */
#include "kernels.h"

void k_copy_into(rg_tensor *y, const rg_tensor *x, int dim, int64_t start)
{
    rg_tensor part = *y;
    part.size[dim] = x->size[dim];
    part.data += start * y->stride[dim] * (int64_t)rg_sizeof(y->dtype);
    rg_update_flags(&part);
    rg_copy_elements(&part, x);
}

typedef struct { int64_t step; size_t bytes; } along;

static void gather_row(char *const p[], const int64_t s[], int64_t n, const void *context)
{
    const along *c = context;
    for (int64_t i = 0; i < n; i++)
        memcpy(p[0] + i * s[0], p[1] + i * s[1] + *(const int64_t *)(p[2] + i * s[2]) * c->step, c->bytes);
}

static void scatter_row(char *const p[], const int64_t s[], int64_t n, const void *context)
{
    const along *c = context;
    for (int64_t i = 0; i < n; i++)
        memcpy(p[1] + i * s[1] + *(const int64_t *)(p[2] + i * s[2]) * c->step, p[0] + i * s[0], c->bytes);
}

/* t with the index's sizes and no step along dim: where each index starts to count. */
static rg_tensor start_of(const rg_tensor *t, int dim, const rg_tensor *index, along *c)
{
    rg_tensor at = *t;
    *c = (along){ t->ndim ? t->stride[dim] * (int64_t)rg_sizeof(t->dtype) : 0, rg_sizeof(t->dtype) };
    for (int d = 0; d < t->ndim; d++) at.size[d] = index->size[d];
    if (t->ndim) at.stride[dim] = 0;
    rg_update_flags(&at);
    return at;
}

void k_gather(rg_tensor *y, const rg_tensor *x, int dim, const rg_tensor *index)
{
    along c;
    rg_tensor from = start_of(x, dim, index, &c);
    rg_each(3, (rg_tensor *[]){ y, &from, (rg_tensor *)index }, gather_row, &c);
}

void k_scatter(rg_tensor *y, int dim, const rg_tensor *index, const rg_tensor *source)
{
    along c;
    rg_tensor to = start_of(y, dim, index, &c), from = *source;
    for (int d = 0; d < index->ndim; d++) from.size[d] = index->size[d];
    rg_update_flags(&from);
    rg_each(3, (rg_tensor *[]){ &from, &to, (rg_tensor *)index }, scatter_row, &c);
}

/*
 * convert.c: converts the tensors of a module, and of the modules below it, to another dtype.
 */
#include "nn/registry.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/kernels/copy.h"
#include "tensor/observer.h"
#include "tensor/scope.h"

/* A tensor to convert, with its converted data and its converted gradient. The gradient is RG_NONE
 * if the tensor has none. */
typedef struct conversion {
    rg_tensor *t, *data, *grad;
} conversion;

/* Returns a copy of t, converted to the dtype, or NULL on failure. The copy is dense, and its dims
 * have the same order in memory as t's. */
static rg_tensor *converted(const rg_tensor *t, rg_dtype dtype) {
    rg_tensor *copy = rgi_own(rgi_new_dense_like(t, dtype));
    if (copy)
        rgi_copy_elements(copy, t);
    return copy;
}

/* Stores the tensor in *c with its converted data and gradient. Fails if the tensor isn't a leaf.
 * Returns false on failure. */
static bool prepare(conversion *c, rg_named what, rg_dtype dtype) {
    rg_tensor *t = what.tensor, *grad = rg_grad_of(t);
    RG_FAIL_IF(!rg_is_leaf(t), "module_to", "only leaves can be converted, but '%s' was computed",
               what.name);
    *c = (conversion){ t, converted(t, dtype), grad };
    if (grad != RG_NONE)
        c->grad = converted(grad, dtype);
    return c->data && c->grad;
}

/* Converts the floating tensors in the list that have another dtype. All converted copies are made
 * before any tensor changes, because making them may fail; storing them can't. */
static bool convert(rg_named_list l, rg_dtype dtype) {
    conversion *all = rgi_scope_alloc((size_t)l.n * sizeof *all);
    int n = 0;
    if (!all)
        return false;
    for (int i = 0; i < l.n; i++) {
        rg_tensor *t = l.v[i].tensor;
        if (rg_is_floating_point(t) && t->dtype != dtype && !prepare(&all[n++], l.v[i], dtype))
            return false;
    }
    for (const conversion *c = all; c < all + n; c++) {
        rg_set_data(c->t, c->data);
        rg_set_grad(c->t, c->grad);
    }
    return true;
}

bool(rg_module_to)(void *m, rg_dtype dtype) {
    RG_AS("module_to");
    RG_SCOPE();
    RG_FAIL_AS_IF(
        RG_TYPE_ERROR, !rgi_is_float(dtype), "module_to",
        "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=%s",
        rg_dtype_name(dtype));
    rg_named_list l = rgi_walk("module_to", m,
                               (rg_walk_for){ .parameters = true, .buffers = true });
    return l.n >= 0 && rgi_may_do_once("module_to") && convert(l, dtype);
}

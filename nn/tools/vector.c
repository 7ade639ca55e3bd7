/*
 * vector.c: copies all parameters into one vector, and makes the parameters views of a vector.
 */
#include "vector.h"
#include "tensor/error.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

/* Checks that the list holds only tensors, and allocates an array of as many pointers. Returns NULL
 * on failure. */
static rg_tensor **room_for(rg_list list, const char *op) {
    if (!rgi_check_list(list, op))
        return NULL;
    return rgi_scope_alloc((size_t)list.n * sizeof(rg_tensor *));
}

rg_tensor *rg_parameters_to_vector(rg_list parameters) {
    RG_AS("parameters_to_vector");
    RG_SCOPE();
    rg_tensor **v = room_for(parameters, "parameters_to_vector");
    if (!v)
        return NULL;
    for (int i = 0; i < parameters.n; i++)
        v[i] = rg_view_dims(parameters.v[i], RG_DIMS(parameters.v[i]->numel));
    return rg_escape(rg_cat((rg_list){ parameters.n, v }, 0));
}

bool rg_vector_to_parameters(rg_tensor *vector, rg_list parameters) {
    static const char op[] = "vector_to_parameters";
    RG_AS(op);
    RG_SCOPE();
    if (!rgi_check(vector, op))
        return false;
    rg_tensor **v = room_for(parameters, op), *flat = rg_detach(vector);
    int64_t at = 0;
    for (int i = 0; v && i < parameters.n; i++) {
        rg_tensor *p = parameters.v[i];
        const int64_t end = at + p->numel;
        v[i] = rg_view_dims(rg_slice(flat, 0, at, end, 1), rg_shape(p));
        RG_FAIL_IF(v[i] && !rg_is_leaf(p), op,
                   "parameter %d can't take over the data, since it isn't a leaf", i);
        RG_FAIL_IF(v[i] && p->history && !rgi_is_float(v[i]->dtype), op,
                   "parameter %d requires grad, and can't take over the data of a vector of dtype "
                   "%s",
                   i, rg_dtype_name(v[i]->dtype));
        if (!v[i])
            return false;
        at = end;
    }
    bool ok = v;
    for (int i = 0; ok && i < parameters.n; i++)
        ok = rg_set_data(parameters.v[i], v[i]);
    return ok;
}

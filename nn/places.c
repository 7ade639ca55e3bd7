/*
 * places.c: functions on the fields that hold a module's values. rg_move_places tells a module that
 * its fields have moved with a block of memory. rg_tie makes two fields share a parameter.
 */
#include "registry.h"
#include "tensor/error.h"
#include "tensor/scope.h"
#include "tensor/shape.h"

bool(rg_move_places)(rg_module *m, const void *from, void *to, size_t bytes) {
    if (!rgi_module_given(m, "move_places") || (bytes && !rgi_given(to, "move_places", "a block")))
        return false;
    for (RG_EACH_ENTRY(e, m)) {
        uintptr_t at = (uintptr_t)e->place - (uintptr_t)from;
        if (at < bytes)
            e->place = (void **)((char *)to + at);
    }
    return true;
}

bool rg_tie(rg_tensor **place, rg_tensor *parameter) {
    const char *op = "tie";
    if (!rgi_given(place, op, "a place") || !rgi_check(*place, op) || !rgi_check(parameter, op))
        return false;
    RG_FAIL_VALUE_IF(!(*place)->kept, op, "the place is none that is registered");
    RG_FAIL_VALUE_IF(!rg_is_leaf(parameter) || !parameter->kept, op,
                     "expected a module's parameter");
    RG_FAIL_VALUE_IF((*place)->dtype != parameter->dtype || !rgi_same_shape(*place, parameter), op,
                     "expected a parameter of shape %s and dtype %s, but got %s and %s",
                     RG_SHAPE_TEXT(*place), rg_dtype_name((*place)->dtype),
                     RG_SHAPE_TEXT(parameter), rg_dtype_name(parameter->dtype));
    rg_keep(parameter);
    rgi_drop_as(*place, RG_MODULE_FREED);
    *place = parameter;
    return true;
}

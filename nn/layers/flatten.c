/*
 * flatten.c: Flatten, which joins the dims from start_dim to end_dim into one.
 */
#include "layers.h"
#include "plain.h"

#include <stdio.h>

static rg_tensor *flatten_module_forward(rg_module *m, rg_tensor *x) {
    const rg_plain_module *self = (rg_plain_module *)m;
    int start, end;
    if (!rgi_want_dim("Flatten", self->a, &start) || !rgi_want_dim("Flatten", self->b, &end))
        return NULL;
    return rg_flatten(x, start, end);
}

static void flatten_module_repr(rg_module *m, char *text, size_t room) {
    const rg_plain_module *self = (rg_plain_module *)m;
    snprintf(text, room, "start_dim=%s, end_dim=%s", rgi_number(self->a), rgi_number(self->b));
}

static const rg_module_class flatten_module_class = { .name = "Flatten",
                                                      .forward = flatten_module_forward,
                                                      .extra_repr = flatten_module_repr };

rg_plain_module *(rg_nn_flatten)(int start_dim, int end_dim) {
    return RG_MODULE(rg_plain_module, &flatten_module_class, .a = start_dim, .b = end_dim);
}

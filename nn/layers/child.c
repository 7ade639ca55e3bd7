/*
 * child.c: the check of a child's class.
 */
#include "child.h"
#include "linear.h"
#include "nn/registry.h"
#include "tensor/error.h"

#include <math.h>

bool rgi_want_child(const char *op, const char *what, const void *child,
                    bool (*is)(const rg_module *m), const char *wanted) {
    const rg_module *m = child;
    if (!rgi_module_given(m, op))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !is(m), op, "%s must be a %s, but its class is %s", what, wanted,
                  m->cls->name);
    return true;
}

bool rgi_want_linear(const char *op, const char *what, const void *child) {
    return rgi_want_child(op, what, child, rgi_is_linear, "Linear");
}

bool rgi_want_layers(const char *op, const char *what, const void *child) {
    return rgi_want_child(op, what, child, rgi_is_container, "ModuleList");
}

static bool is_dropout_or_identity(const rg_module *m) {
    return m->cls == &rgi_dropout_class || m->cls == &rgi_identity_class;
}

double rgi_dropout_of(const char *op, const char *what, const void *child) {
    if (!rgi_want_child(op, what, child, is_dropout_or_identity, "Dropout or an Identity"))
        return NAN;
    return ((const rg_plain_module *)child)->a;
}

/*
 * elementwise.c: what the ops that go element by element share: checks of dtypes and numbers.
 */
#include "elementwise.h"

bool rgi_elementwise_shape(rg_call *c) {
    rg_dtype dtype = (rg_dtype)c->in[0]->dtype;
    RG_FAIL_DTYPE_IF(!c->op->kernel->by_dtype[dtype][k_set], c->op->name, c->op->cpu, dtype);
    return rgi_shape_same(c);
}

bool rgi_element_fits(const char *op, const rg_tensor *t, rg_dtype d) {
    return !rgi_is_float(t->dtype) || rgi_number_fits(op, rgi_load_f64(t->data, t->dtype), d);
}

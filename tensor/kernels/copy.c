/*
 * copy.c: copies between tensors with conversion of dtypes, and filling with a value.
 */
#include "copy.h"

#include "plans.h"
#include "tensor/storage.h"

#define K_LOOPS "loops/clear.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

void rgi_copy_elements(rg_tensor *to, const rg_tensor *from) {
    rg_loop *loop = rgi_copy_loop(to->dtype, from->dtype);
    k_run_apart(true, false, 2, (rg_tensor *[]){ to, (rg_tensor *)from }, loop, NULL);
}

RG_HOT void rgi_clear(void *to, size_t bytes) {
    if (RG_LIKELY(k_set_now() != K_TRACED))
        memset(to, 0, bytes);
    else if (bytes)
        K_BASE_LOOP(clear)(&(clearing){ to }, 0, (int64_t)bytes, 0);
}

RG_HOT void rgi_fill_zero(rg_tensor *t) {
    if (t->flags & RG_CONTIGUOUS)
        rgi_clear(t->data, (size_t)t->numel * rgi_sizeof(t->dtype));
    else
        rgi_fill_number(t, 0, 0);
}

void rgi_fill_number(rg_tensor *t, double value, int64_t integer) {
    union {
        double d;
        float f;
        int64_t i;
        bool b;
    } v;
    if (rgi_is_float(t->dtype))
        rgi_store_f64(&v, t->dtype, value);
    else
        rgi_store_i64(&v, t->dtype, integer);
    rgi_copy_elements(t, &RG_NUMBER(t->dtype, &v));
}

RG_HOT rg_tensor *rgi_contiguous_copy(rg_tensor *t, rg_dtype dtype) {
    if (t->flags & RG_CONTIGUOUS && t->dtype == dtype) {
        rgi_retain(t);
        return t;
    }
    rg_tensor *c = rgi_new_like(t, dtype);
    if (c)
        rgi_copy_elements(c, t);
    return c;
}

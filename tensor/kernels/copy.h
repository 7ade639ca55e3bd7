/*
 * copy.h: copies of elements, with conversion, and filling with a value.
 */
#pragma once

#include "tensor/tensor.h"

/* Copies the elements of `from`, broadcast to the shape of `to` and converted to its dtype. */
void rgi_copy_elements(rg_tensor *to, const rg_tensor *from);
void rgi_fill_zero(rg_tensor *t);
/* Fills t with the value, or with the integer if t isn't floating. */
void rgi_fill_number(rg_tensor *t, double value, int64_t integer);
/* Returns a new reference to t if it is contiguous and of this dtype, or else to a copy. */
rg_tensor *rgi_contiguous_copy(rg_tensor *t, rg_dtype dtype);

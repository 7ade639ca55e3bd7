/*
 * copy.h: copies of elements with conversion of dtypes, and filling with a value.
 */
#pragma once

#include "tensor/tensor.h"

/* Copies the elements of `from` to `to`. The elements are broadcast to the shape of `to`, and
 * converted to the dtype of `to`. */
void rgi_copy_elements(rg_tensor *to, const rg_tensor *from);
void rgi_fill_zero(rg_tensor *t);
/* Sets bytes to 0, as memset does. A recorded step can only be written as C if it clears memory by
 * this function. */
void rgi_clear(void *to, size_t bytes);
/* Fills t with `value` if t is floating, or else with `integer`. */
void rgi_fill_number(rg_tensor *t, double value, int64_t integer);
/* If t is contiguous and of this dtype, adds a reference to t and returns t. Otherwise returns a
 * new contiguous tensor with t's elements, converted to this dtype, or NULL if memory runs out. */
rg_tensor *rgi_contiguous_copy(rg_tensor *t, rg_dtype dtype);

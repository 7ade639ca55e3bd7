/*
 * dtype.h: what is true of each element type.
 */
#pragma once

#include "structs.h"

/* Returns whether it is a dtype; else fails. */
bool rgi_check_dtype(const char *op, int dtype);
static inline bool rgi_is_float(rg_dtype d) { return d >= RG_FLOAT32; }
/* 1, 8, 4, 8 bytes */
static inline size_t rgi_sizeof(rg_dtype d) { return 0x8481u >> 4 * d & 15; }
/* Returns the dtype of a result of these tensors, as torch.result_type does. */
rg_dtype rgi_promote(int n, rg_tensor *const t[]);
const char *rgi_scalar_name(rg_dtype d); /* Float, Double, Long, Bool */
const char *rgi_c_name(rg_dtype d);      /* float, double, long int, bool */

/* One element, in and out, with conversion. */
double rgi_load_f64(const void *p, rg_dtype d);
int64_t rgi_load_i64(const void *p, rg_dtype d);
void rgi_store_f64(void *p, rg_dtype d, double v);
void rgi_store_i64(void *p, rg_dtype d, int64_t v);

/* Returns whether the dtype can hold the number; else fails. */
bool rgi_number_fits(const char *op, double v, rg_dtype dtype);

/* Where the condition holds, the caller fails: this kernel isn't there for this dtype. */
#define RG_FAIL_DTYPE_IF(condition, op, kernel, dtype)                                          \
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, condition, op, "\"%s\" not implemented for '%s'", kernel, \
                  rgi_scalar_name(dtype))

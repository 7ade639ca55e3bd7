/*
 * half_product.h: products with a matrix of 16-bit floats.
 */
#pragma once

#include "tensor/tensor.h"

/* Computes y = x w^T for a matrix w whose elements have 16 bits, and float32 tensors x and y, which
 * are as in k_matmul. Returns false if memory runs out. */
bool k_half_product(rg_tensor *y, const rg_tensor *x, const rg_tensor *w);

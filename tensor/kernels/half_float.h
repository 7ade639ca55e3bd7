/*
 * half_float.h: conversions of n contiguous floats of 16 bits to float, and back.
 */
#pragma once

#include "half.h"

void k_floats_of_bfloat16(float *to, const k_bfloat16 *from, int64_t n);
void k_floats_of_float16(float *to, const k_float16 *from, int64_t n);
void k_bfloat16_of_floats(k_bfloat16 *to, const float *from, int64_t n);
void k_float16_of_floats(k_float16 *to, const float *from, int64_t n);

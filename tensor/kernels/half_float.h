/*
 * half_float.h: conversions of n contiguous floats of 16 bits to float, and of bytes to float and
 * int64_t, and back.
 */
#pragma once

#include "half.h"

void k_floats_of_bfloat16(float *to, const k_bfloat16 *from, int64_t n);
void k_floats_of_float16(float *to, const k_float16 *from, int64_t n);
void k_bfloat16_of_floats(k_bfloat16 *to, const float *from, int64_t n);
void k_float16_of_floats(k_float16 *to, const float *from, int64_t n);
void k_of_bytes_float(float *to, const uint8_t *from, int64_t n);
void k_of_bytes_int64(int64_t *to, const uint8_t *from, int64_t n);
void k_bytes_of_float(uint8_t *to, const float *from, int64_t n);
void k_bytes_of_int64(uint8_t *to, const int64_t *from, int64_t n);

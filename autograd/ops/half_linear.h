/*
 * half_linear.h: the op linear on elements of 16 bits.
 */
#pragma once

#include "autograd/op.h"

/* The forward function of linear if its weight has elements of 16 bits. */
bool rgi_half_linear(const rg_call *c);

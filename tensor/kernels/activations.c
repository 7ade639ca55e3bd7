/*
 * activations.c: what networks put between their layers, and its gradient. A new one is a
 * function or two and their rows in loops/activations.h, and its rows here. gelu, which is made
 * of many short polynomials, is in gelu.c.
 */
#include "kernels.h"

#include "smooth.h"

#define K_LOOPS "loops/activations.h"
#define K_TYPES_NUMBERS
#include "sets.h"

K_LIGHT_KERNEL(relu, 1, NUMBERS)
K_LIGHT_KERNEL(hardtanh, 1, NUMBERS)
K_LIGHT_KERNEL(threshold, 1, NUMBERS)
K_LIGHT_KERNEL(hardshrink, 1, FLOATS)
K_LIGHT_KERNEL(softshrink, 1, FLOATS)
K_LIGHT_KERNEL(leaky_relu, 1, FLOATS)
K_LIGHT_KERNEL(prelu, 2, FLOATS)
K_KERNEL(glu, 2, FLOATS)
K_KERNEL(sigmoid, 1, FLOATS)
K_KERNEL(elu, 1, FLOATS)
K_KERNEL(silu, 1, FLOATS)
K_KERNEL(mish, 1, FLOATS)
K_KERNEL(softplus, 1, FLOATS)
K_KERNEL(hardswish, 1, FLOATS)
K_KERNEL(hardsigmoid, 1, FLOATS)
K_KERNEL(logsigmoid, 1, FLOATS)

K_LIGHT_KERNEL(tanh_grad, 2, FLOATS)
K_LIGHT_KERNEL(sigmoid_grad, 2, FLOATS)
K_LIGHT_KERNEL(relu_grad, 2, FLOATS)
K_LIGHT_KERNEL(hardtanh_grad, 2, FLOATS)
K_LIGHT_KERNEL(threshold_grad, 2, FLOATS)
K_LIGHT_KERNEL(shrink_grad, 2, FLOATS)
K_LIGHT_KERNEL(leaky_relu_grad, 2, FLOATS)
K_LIGHT_KERNEL(prelu_grad, 3, FLOATS)
K_KERNEL(glu_grad, 3, FLOATS)
K_KERNEL(elu_grad, 2, FLOATS)
K_KERNEL(silu_grad, 2, FLOATS)
K_KERNEL(mish_grad, 2, FLOATS)
K_KERNEL(softplus_grad, 2, FLOATS)
K_KERNEL(hardswish_grad, 2, FLOATS)
K_KERNEL(hardsigmoid_grad, 2, FLOATS)
K_KERNEL(logsigmoid_grad, 2, FLOATS)

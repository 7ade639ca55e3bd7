/*
 * activations.c: the kernels of activation functions and their gradients. To add an activation, add
 * a row to elementwise.def, and two functions to loops/activations.h: its formula and its gradient.
 * logsigmoid and the activations that also take numbers or a second tensor have no row in
 * elementwise.def; their kernels are listed here.
 */
#include "kernels.h"

#include "gelu.h"
#include "smooth.h"

#define K_LOOPS "loops/activations.h"
#define K_TYPES_NUMBERS
#include "sets.h"

#define ACTIVATION(name, Node, Module, ...) ACTIVATION_ALONE(name, Node, __VA_ARGS__)
#define ACTIVATION_ALONE(name, Node, formula, weight, dtypes, samples, value, gradient, slope, \
                         order)                                                                \
    K_KERNEL_OF_ROW(name, 1, weight, dtypes)                                                   \
    K_KERNEL_OF_ROW(name##_grad, 2, slope, FLOATED)
#include "elementwise.def"

K_LIGHT_KERNEL(hardtanh, 1, NUMBERS)
K_LIGHT_KERNEL(threshold, 1, NUMBERS)
K_LIGHT_KERNEL(hardshrink, 1, FLOATS)
K_LIGHT_KERNEL(softshrink, 1, FLOATS)
K_LIGHT_KERNEL(leaky_relu, 1, FLOATS)
K_LIGHT_KERNEL(prelu, 2, FLOATS)
K_KERNEL(glu, 2, FLOATS)
K_KERNEL(elu, 1, FLOATS)
K_KERNEL(softplus, 1, FLOATS)
K_KERNEL(logsigmoid, 1, FLOATS)

K_LIGHT_KERNEL(hardtanh_grad, 2, FLOATS)
K_LIGHT_KERNEL(threshold_grad, 2, FLOATS)
K_LIGHT_KERNEL(shrink_grad, 2, FLOATS)
K_LIGHT_KERNEL(leaky_relu_grad, 2, FLOATS)
K_LIGHT_KERNEL(prelu_grad, 3, FLOATS)
K_KERNEL(glu_grad, 3, FLOATS)
K_KERNEL(elu_grad, 2, FLOATS)
K_KERNEL(softplus_grad, 2, FLOATS)
K_KERNEL(logsigmoid_grad, 2, FLOATS)

/*
 * loops/activations.h: activation functions f and their gradients, compiled for each element type
 * and instruction set (see sets.h). A gradient is g * f'(x). It is computed from g and x, or from g
 * and y = f(x) if f' is simpler in terms of y. k[] has the numbers that a function takes besides x,
 * such as a slope.
 */
#define KIND activations
#include "map.h"

/* ---- integers and floats --------------------------------------------------------------------- */

K_INLINE T K_NAME(relu)(T x) { return x < 0 ? 0 : x; }

/* hardtanh: k[0] is the least result, and k[1] the greatest. */
K_INLINE T K_NAME(hardtanh)(T x, const T *k) {
    const T least = x < k[0] ? k[0] : x;
    return least > k[1] ? k[1] : least;
}

K_INLINE T K_NAME(threshold)(T x, const T *k) { return x <= k[0] ? k[1] : x; }

K_HEAVY_1_WITH(hardtanh)
K_MAP_1_WITH(threshold)

/* ---- functions of floats only ---------------------------------------------------------------- */
#if K_IS_FLOAT

K_INLINE T K_NAME(relu_grad)(T g, T y) { return y <= 0 ? 0 : g; }

K_INLINE T K_NAME(hardtanh_grad)(T g, T x, const T *k) { return x <= k[0] || x >= k[1] ? 0 : g; }

K_INLINE T K_NAME(threshold_grad)(T g, T x, const T *k) { return x <= k[0] ? 0 : g; }

K_INLINE T K_NAME(hardshrink)(T x, const T *k) { return x >= -k[0] && x <= k[0] ? 0 : x; }
K_INLINE T K_NAME(softshrink)(T x, const T *k) {
    const T below = x < -k[0] ? x + k[0] : 0;
    const T beyond = x > k[0] ? x - k[0] : below;
    return x != x ? x : beyond;
}
K_INLINE T K_NAME(shrink_grad)(T g, T x, const T *k) { return x >= -k[0] && x <= k[0] ? 0 : g; }

K_INLINE T K_NAME(tanh)(T x) { return K_TYPED(k_tanh)(x); }
K_INLINE T K_NAME(tanh_grad)(T g, T y) { return g * (1 - y * y); }

K_INLINE T K_NAME(sigmoid)(T x) { return 1 / (1 + K_TYPED(k_exp)(-x)); }
K_INLINE T K_NAME(sigmoid_grad)(T g, T y) { return g * (1 - y) * y; }

/* leaky_relu: k[0] is the slope below 0. */
K_INLINE T K_NAME(leaky_relu)(T x, const T *k) { return x > 0 ? x : x * k[0]; }
K_INLINE T K_NAME(leaky_relu_grad)(T g, T x, const T *k) { return x > 0 ? g : g * k[0]; }

K_INLINE T K_NAME(prelu)(T x, T w) { return x > 0 ? x : w * x; }
K_INLINE T K_NAME(prelu_grad)(T g, T x, T w) { return x > 0 ? g : w * g; }

K_INLINE T K_NAME(glu)(T a, T b) { return a * K_NAME(sigmoid)(b); }
K_INLINE T K_NAME(glu_grad)(T g, T a, T b) {
    const T s = K_NAME(sigmoid)(b);
    return g * a * s * (1 - s);
}

/* elu, celu and selu: k[0] is the factor for x >= 0, k[1] is the factor for x < 0, and k[2] is the
 * factor of x in the exponent. */
K_INLINE T K_NAME(elu)(T x, const T *k) {
    return x < 0 ? k[1] * K_TYPED(k_expm1)(x * k[2]) : x * k[0];
}
K_INLINE T K_NAME(elu_grad)(T g, T x, const T *k) {
    return x <= 0 ? g * k[1] * k[2] * K_TYPED(k_exp)(x * k[2]) : g * k[0];
}

K_INLINE T K_NAME(silu)(T x) { return x / (1 + K_TYPED(k_exp)(-x)); }
K_INLINE T K_NAME(silu_grad)(T g, T x) {
    const T s = K_NAME(sigmoid)(x);
    return g * s * (1 + x * (1 - s));
}

K_INLINE T K_NAME(mish)(T x) { return x * K_TYPED(k_tanh)(K_TYPED(k_log1p)(K_TYPED(k_exp)(x))); }
K_INLINE T K_NAME(mish_grad)(T g, T x) {
    const T t = K_TYPED(k_tanh)(K_TYPED(k_log1p)(K_TYPED(k_exp)(x)));
    return g * (t + x * K_NAME(sigmoid)(x) * (1 - t * t));
}

/* softplus: k[0] is beta. The result is x if beta * x is above the threshold k[1]. */
K_INLINE T K_NAME(softplus)(T x, const T *k) {
    return x * k[0] > k[1] ? x : K_TYPED(k_log1p)(K_TYPED(k_exp)(x * k[0])) / k[0];
}
K_INLINE T K_NAME(softplus_grad)(T g, T x, const T *k) {
    return x * k[0] > k[1] ? g : g * K_NAME(sigmoid)(x * k[0]);
}

K_INLINE T K_NAME(hardswish)(T x) {
    const T most = x + 3 > 6 ? 6 : x + 3;
    return x * (x + 3 < 0 ? 0 : most) / 6;
}
K_INLINE T K_NAME(hardswish_grad)(T g, T x) {
    const T middle = x < 3 ? g * (x / 3 + (T)0.5) : g;
    return x <= -3 ? 0 : middle;
}

K_INLINE T K_NAME(hardsigmoid)(T x) {
    const T most = x + 3 > 6 ? 1 : (x + 3) / 6;
    return x + 3 < 0 ? 0 : most;
}
K_INLINE T K_NAME(hardsigmoid_grad)(T g, T x) { return x > -3 && x < 3 ? g * (T)(1 / 6.f) : 0; }

K_INLINE T K_NAME(logsigmoid)(T x) {
    return (x < 0 ? x : 0) - K_TYPED(k_log1p)(K_TYPED(k_exp)(-fabs(x)));
}
K_INLINE T K_NAME(logsigmoid_grad)(T g, T x) { return g * K_NAME(sigmoid)(-x); }

K_MAP_2_WITH(hardtanh_grad)
K_MAP_2_WITH(threshold_grad)
K_MAP_1_WITH(hardshrink)
K_MAP_1_WITH(softshrink)
K_MAP_2_WITH(shrink_grad)
K_MAP_1_WITH(leaky_relu)
K_MAP_2_WITH(leaky_relu_grad)
K_MAP_2(prelu)
K_MAP_3(prelu_grad)
K_HEAVY_2(glu)
K_HEAVY_3(glu_grad)
K_HEAVY_1_WITH(elu)
K_HEAVY_2_WITH(elu_grad)
K_HEAVY_1_WITH(softplus)
K_HEAVY_2_WITH(softplus_grad)
K_HEAVY_1(logsigmoid)
K_HEAVY_2(logsigmoid_grad)

#include "gelu.h"

#endif

#define ACTIVATION(name, Node, Module, ...) ACTIVATION_ALONE(name, Node, __VA_ARGS__)
#define ACTIVATION_ALONE(name, Node, formula, weight, dtypes, samples, value, gradient, slope, \
                         order)                                                                \
    K_LOOP_OF_ROW(name, 1, weight, dtypes)                                                     \
    K_LOOP_OF_ROW(name##_grad, 2, slope, FLOATED)
#include "tensor/kernels/elementwise.def"

#include "map_end.h"

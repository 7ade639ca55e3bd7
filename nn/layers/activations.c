/*
 * activations.c: activation functions as modules. Each module computes the function of ops.h that
 * has its name; its numbers a and b are the constructor's arguments. PReLU, which learns its
 * slope, is in prelu.c.
 */
#include "layers.h"
#include "nn/python_text.h"
#include "tensor/error.h"

#include <stdio.h>

static double number_a(const rg_module *m) { return ((const rg_plain_module *)m)->a; }
static double number_b(const rg_module *m) { return ((const rg_plain_module *)m)->b; }

/* ---- rg_f(x) ------------------------------------------------------------------- */

#define OF_X(f, Name)                                                                  \
    static rg_tensor *f##_module_forward(rg_module *m, rg_tensor *x) {                 \
        (void)m;                                                                       \
        return rg_##f(x);                                                              \
    }                                                                                  \
    static const rg_module_class f##_module_class = { .name = Name,                    \
                                                      .forward = f##_module_forward }; \
    rg_plain_module *rg_nn_##f(void) { return RG_MODULE(rg_plain_module, &f##_module_class); }
OF_X(relu, "ReLU")
OF_X(relu6, "ReLU6")
OF_X(silu, "SiLU")
OF_X(mish, "Mish")
OF_X(selu, "SELU")
OF_X(tanh, "Tanh")
OF_X(sigmoid, "Sigmoid")
OF_X(logsigmoid, "LogSigmoid")
OF_X(softsign, "Softsign")
OF_X(tanhshrink, "Tanhshrink")
OF_X(hardswish, "Hardswish")
OF_X(hardsigmoid, "Hardsigmoid")

/* ---- rg_f(x, a) ---------------------------------------------------------------- */

static rg_tensor *leaky_relu_module_forward(rg_module *m, rg_tensor *x) {
    return rg_leaky_relu(x, number_a(m));
}

static rg_tensor *elu_module_forward(rg_module *m, rg_tensor *x) { return rg_elu(x, number_a(m)); }

static rg_tensor *celu_module_forward(rg_module *m, rg_tensor *x) {
    return rg_celu(x, number_a(m));
}

static void slope_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "negative_slope=%s", rgi_python_float(number_a(m)));
}

static void alpha_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "alpha=%s", rgi_python_float(number_a(m)));
}

static const rg_module_class leaky_relu_module_class = { .name = "LeakyReLU",
                                                         .forward = leaky_relu_module_forward,
                                                         .extra_repr = slope_repr };
static const rg_module_class elu_module_class = { .name = "ELU",
                                                  .forward = elu_module_forward,
                                                  .extra_repr = alpha_repr };
static const rg_module_class celu_module_class = { .name = "CELU",
                                                   .forward = celu_module_forward,
                                                   .extra_repr = alpha_repr };

rg_plain_module *rg_nn_leaky_relu(double negative_slope) {
    return RG_MODULE(rg_plain_module, &leaky_relu_module_class, .a = negative_slope);
}

rg_plain_module *rg_nn_elu(double alpha) {
    return RG_MODULE(rg_plain_module, &elu_module_class, .a = alpha);
}

rg_plain_module *rg_nn_celu(double alpha) {
    return RG_MODULE(rg_plain_module, &celu_module_class, .a = alpha);
}

/* ---- Hardshrink and Softshrink ------------------------------------------------- */

static rg_tensor *hardshrink_module_forward(rg_module *m, rg_tensor *x) {
    return rg_hardshrink(x, number_a(m));
}

static rg_tensor *softshrink_module_forward(rg_module *m, rg_tensor *x) {
    return rg_softshrink(x, number_a(m));
}

static void lambd_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "%s", rgi_python_float(number_a(m)));
}

static const rg_module_class hardshrink_module_class = { .name = "Hardshrink",
                                                         .forward = hardshrink_module_forward,
                                                         .extra_repr = lambd_repr };
static const rg_module_class softshrink_module_class = { .name = "Softshrink",
                                                         .forward = softshrink_module_forward,
                                                         .extra_repr = lambd_repr };

rg_plain_module *rg_nn_hardshrink(double lambd) {
    return RG_MODULE(rg_plain_module, &hardshrink_module_class, .a = lambd);
}

rg_plain_module *rg_nn_softshrink(double lambd) {
    return RG_MODULE(rg_plain_module, &softshrink_module_class, .a = lambd);
}

/* ---- GELU, exact and by tanh --------------------------------------------------- */

static rg_tensor *gelu_module_forward(rg_module *m, rg_tensor *x) {
    (void)m;
    return rg_gelu(x);
}

static rg_tensor *gelu_tanh_module_forward(rg_module *m, rg_tensor *x) {
    (void)m;
    return rg_gelu_tanh(x);
}

static void gelu_repr(rg_module *m, char *text, size_t room) {
    (void)m;
    snprintf(text, room, "approximate='none'");
}

static void gelu_tanh_repr(rg_module *m, char *text, size_t room) {
    (void)m;
    snprintf(text, room, "approximate='tanh'");
}

static const rg_module_class gelu_module_class = { .name = "GELU",
                                                   .forward = gelu_module_forward,
                                                   .extra_repr = gelu_repr };
static const rg_module_class gelu_tanh_module_class = { .name = "GELU",
                                                        .forward = gelu_tanh_module_forward,
                                                        .extra_repr = gelu_tanh_repr };

rg_plain_module *rg_nn_gelu(void) { return RG_MODULE(rg_plain_module, &gelu_module_class); }

rg_plain_module *rg_nn_gelu_tanh(void) {
    return RG_MODULE(rg_plain_module, &gelu_tanh_module_class);
}

/* ---- Softplus ------------------------------------------------------------------ */

static rg_tensor *softplus_module_forward(rg_module *m, rg_tensor *x) {
    return rg_softplus(x, number_a(m), number_b(m));
}

static void softplus_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "beta=%s, threshold=%s", rgi_python_float(number_a(m)),
             rgi_python_float(number_b(m)));
}

static const rg_module_class softplus_module_class = { .name = "Softplus",
                                                       .forward = softplus_module_forward,
                                                       .extra_repr = softplus_repr };

rg_plain_module *rg_nn_softplus(double beta, double threshold) {
    return RG_MODULE(rg_plain_module, &softplus_module_class, .a = beta, .b = threshold);
}

/* ---- Hardtanh ------------------------------------------------------------------ */

static rg_tensor *hardtanh_module_forward(rg_module *m, rg_tensor *x) {
    return rg_hardtanh(x, number_a(m), number_b(m));
}

static void hardtanh_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "min_val=%s, max_val=%s", rgi_python_float(number_a(m)),
             rgi_python_float(number_b(m)));
}

static const rg_module_class hardtanh_module_class = { .name = "Hardtanh",
                                                       .forward = hardtanh_module_forward,
                                                       .extra_repr = hardtanh_repr };

rg_plain_module *rg_nn_hardtanh(double min_val, double max_val) {
    RG_FAIL_VALUE_IF(!(max_val > min_val), "Hardtanh",
                     "max_val (%g) must be greater than min_val (%g)", max_val, min_val);
    return RG_MODULE(rg_plain_module, &hardtanh_module_class, .a = min_val, .b = max_val);
}

/* ---- Threshold ----------------------------------------------------------------- */

static rg_tensor *threshold_module_forward(rg_module *m, rg_tensor *x) {
    return rg_threshold(x, number_a(m), number_b(m));
}

static void threshold_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "threshold=%s, value=%s", rgi_python_float(number_a(m)),
             rgi_python_float(number_b(m)));
}

static const rg_module_class threshold_module_class = { .name = "Threshold",
                                                        .forward = threshold_module_forward,
                                                        .extra_repr = threshold_repr };

rg_plain_module *rg_nn_threshold(double threshold, double value) {
    return RG_MODULE(rg_plain_module, &threshold_module_class, .a = threshold, .b = value);
}

/* ---- Softmax, Softmin, LogSoftmax and GLU, along a dim ------------------------- */

static rg_tensor *softmax_module_forward(rg_module *m, rg_tensor *x) {
    return rg_softmax(x, (int)number_a(m));
}

static rg_tensor *softmin_module_forward(rg_module *m, rg_tensor *x) {
    return rg_softmin(x, (int)number_a(m));
}

static rg_tensor *glu_module_forward(rg_module *m, rg_tensor *x) {
    return rg_glu(x, (int)number_a(m));
}

static rg_tensor *log_softmax_module_forward(rg_module *m, rg_tensor *x) {
    return rg_log_softmax(x, (int)number_a(m));
}

static void dim_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "dim=%d", (int)number_a(m));
}

static const rg_module_class softmax_module_class = { .name = "Softmax",
                                                      .forward = softmax_module_forward,
                                                      .extra_repr = dim_repr };
static const rg_module_class softmin_module_class = { .name = "Softmin",
                                                      .forward = softmin_module_forward,
                                                      .extra_repr = dim_repr };
static const rg_module_class glu_module_class = { .name = "GLU",
                                                  .forward = glu_module_forward,
                                                  .extra_repr = dim_repr };
static const rg_module_class log_softmax_module_class = { .name = "LogSoftmax",
                                                          .forward = log_softmax_module_forward,
                                                          .extra_repr = dim_repr };

rg_plain_module *(rg_nn_softmax)(int dim) {
    return RG_MODULE(rg_plain_module, &softmax_module_class, .a = dim);
}

rg_plain_module *(rg_nn_log_softmax)(int dim) {
    return RG_MODULE(rg_plain_module, &log_softmax_module_class, .a = dim);
}

rg_plain_module *(rg_nn_softmin)(int dim) {
    return RG_MODULE(rg_plain_module, &softmin_module_class, .a = dim);
}

rg_plain_module *(rg_nn_glu)(int dim) {
    return RG_MODULE(rg_plain_module, &glu_module_class, .a = dim);
}

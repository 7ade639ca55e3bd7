/*
 * plain.c: modules without parameters: activations, dropout and the like. One
 * line each: its names here and in torch, what it computes of x and its numbers
 * a and b, and what its repr tells.
 */
#include "nn.h"
#include "tensor/internal.h"

#include <math.h>
#include <stdio.h>

/* Python's text of a float. */
static const char *plain_text(double x) {
    const char *text = rg_str(rg_scalar_dtype(x, RG_FLOAT64));
    return text ? text : "";
}

#define PLAIN_NUMBERS                                                          \
    const double a = ((rg_plain_module *)m)->a, b = ((rg_plain_module *)m)->b; \
    (void)a, (void)b
#define PLAIN(ident, Name, expression, parameters, a_, b_, ...) \
    PLAIN_IF(true, ident, Name, expression, parameters, a_, b_, __VA_ARGS__)
#define PLAIN_IF(fits, ident, Name, expression, parameters, a_, b_, ...)                       \
    static rg_tensor *ident##_module_forward(rg_module *m, rg_tensor *x) {                     \
        PLAIN_NUMBERS;                                                                         \
        return expression;                                                                     \
    }                                                                                          \
    static void ident##_module_repr(rg_module *m, char *text, size_t room) {                   \
        PLAIN_NUMBERS;                                                                         \
        snprintf(text, room, __VA_ARGS__);                                                     \
    }                                                                                          \
    static const rg_module_class ident##_module_class = { .name = Name,                        \
                                                          .forward = ident##_module_forward,   \
                                                          .extra_repr = ident##_module_repr }; \
    rg_plain_module *rg_nn_##ident parameters {                                                \
        return (fits) ? RG_MODULE(rg_plain_module, &ident##_module_class, .a = a_, .b = b_)    \
                      : NULL;                                                                  \
    }

#define OF_X(ident, Name) PLAIN(ident, Name, rg_##ident(x), (void), 0, 0, "%s", "")
#define OF_X_AND_A(ident, Name, arg) \
    PLAIN(ident, Name, rg_##ident(x, a), (double arg), arg, 0, #arg "=%s", plain_text(a))
OF_X(relu, "ReLU")
OF_X(relu6, "ReLU6")
OF_X(silu, "SiLU")
OF_X(mish, "Mish")
OF_X(selu, "SELU")
OF_X(tanh, "Tanh")
OF_X(sigmoid, "Sigmoid")
OF_X(logsigmoid, "LogSigmoid")
OF_X(softsign, "Softsign")
OF_X(hardswish, "Hardswish")
OF_X(hardsigmoid, "Hardsigmoid")
OF_X_AND_A(leaky_relu, "LeakyReLU", negative_slope)
OF_X_AND_A(elu, "ELU", alpha)
OF_X_AND_A(celu, "CELU", alpha)
PLAIN(identity, "Identity", x, (void), 0, 0, "%s", "")
PLAIN(gelu, "GELU", rg_gelu(x), (void), 0, 0, "approximate='none'")
PLAIN(gelu_tanh, "GELU", rg_gelu_tanh(x), (void), 0, 0, "approximate='tanh'")
PLAIN(softplus, "Softplus", rg_softplus(x, a, b), (double beta, double threshold), beta, threshold,
      "beta=%s, threshold=%s", plain_text(a), plain_text(b))
PLAIN(softmax, "Softmax", rg_softmax(x, (int)a), (int dim), dim, 0, "dim=%g", a)
PLAIN(log_softmax, "LogSoftmax", rg_log_softmax(x, (int)a), (int dim), dim, 0, "dim=%g", a)
PLAIN(flatten, "Flatten", rg_flatten(x, (int)a, (int)b), (int start_dim, int end_dim), start_dim,
      end_dim, "start_dim=%g, end_dim=%g", a, b)
PLAIN_IF(max_val > min_val
             || rgi_fail(RG_VALUE_ERROR, "Hardtanh",
                         "max_val (%g) must be greater than min_val (%g)", max_val, min_val),
         hardtanh, "Hardtanh", rg_hardtanh(x, a, b), (double min_val, double max_val), min_val,
         max_val, "min_val=%s, max_val=%s", plain_text(a), plain_text(b))
PLAIN_IF(!(p < 0 || p > 1)
             || rgi_fail(RG_VALUE_ERROR, "Dropout",
                         "dropout probability has to be between 0 and 1, but got %s",
                         plain_text(p)),
         dropout, "Dropout", rg_dropout(x, a, m->training), (double p), p, 0, "p=%s, inplace=False",
         plain_text(a))

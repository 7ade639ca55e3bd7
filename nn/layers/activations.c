/*
 * activations.c: activation functions as modules. Each module calls the function of the same name
 * in ops.h. The module's fields a and b hold the arguments of its constructor. If a function takes
 * only x and has a row in tensor/kernels/elementwise.def, the module is made from that row. PReLU
 * is in prelu.c, because its slope is a parameter.
 */
#include "layers.h"
#include "plain.h"
#include "tensor/text/python_text.h"
#include "tensor/error.h"

#include <stdio.h>

/* The class of an activation. One of the four functions is set. Which one depends on the arguments
 * that the activation takes beside x: none, one number, two numbers or a dim. a_name and b_name are
 * the names under which the module's repr shows the numbers a and b; if a name is "", the number is
 * shown without a name. `text` is a repr that doesn't depend on arguments. */
typedef struct activation_class {
    rg_module_class base;
    rg_tensor *(*of_x)(rg_tensor *x);
    rg_tensor *(*of_number)(rg_tensor *x, double a);
    rg_tensor *(*of_numbers)(rg_tensor *x, double a, double b);
    rg_tensor *(*of_dim)(rg_tensor *x, int dim);
    const char *a_name, *b_name;
    const char *text;
} activation_class;

static rg_tensor *activation_forward(rg_module *m, rg_tensor *x) {
    const activation_class *c = (const activation_class *)m->cls;
    const rg_plain_module *plain = (const rg_plain_module *)m;
    if (c->of_x)
        return c->of_x(x);
    if (c->of_number)
        return c->of_number(x, plain->a);
    if (c->of_numbers)
        return c->of_numbers(x, plain->a, plain->b);
    int dim;
    return rgi_want_dim(m->cls->name, plain->a, &dim) ? c->of_dim(x, dim) : NULL;
}

/* Writes "name=number", or only the number if the name is "". Returns the length of what was
 * written. */
static int write_number(char *text, size_t room, const char *name, double number) {
    return snprintf(text, room, "%s%s%s", name, *name ? "=" : "", rgi_python_float(number));
}

static void activation_repr(rg_module *m, char *text, size_t room) {
    const activation_class *c = (const activation_class *)m->cls;
    const rg_plain_module *plain = (const rg_plain_module *)m;
    int n = 0;
    if (c->text)
        snprintf(text, room, "%s", c->text);
    if (c->of_dim)
        snprintf(text, room, "dim=%s", rgi_number(plain->a));
    if (c->a_name)
        n = write_number(text, room, c->a_name, plain->a);
    if (c->b_name) {
        n += snprintf(text + n, room - (size_t)n, ", ");
        write_number(text + n, room - (size_t)n, c->b_name, plain->b);
    }
}

/* CLASS defines the class of rg_nn_f. Module is the name that the repr shows, a string. */
#define CLASS(f, Module, ...)                                                                     \
    static const activation_class f##_module_class = {                                            \
        .base = { .name = Module, .forward = activation_forward, .extra_repr = activation_repr }, \
        __VA_ARGS__                                                                               \
    };

/* ---- activations without arguments: rg_f(x) ------------------------------------ */

#define OF_X(f, Module, ...)                        \
    CLASS(f, Module, .of_x = rg_##f, ##__VA_ARGS__) \
    rg_plain_module *rg_nn_##f(void) { return RG_MODULE(rg_plain_module, &f##_module_class.base); }

#define ACTIVATION(f, Node, Module, ...) OF_X(f, Module)
#include "tensor/kernels/elementwise.def"
OF_X(relu6, "ReLU6")
OF_X(selu, "SELU")
OF_X(gelu, "GELU", .text = "approximate='none'")
OF_X(gelu_tanh, "GELU", .text = "approximate='tanh'")
OF_X(logsigmoid, "LogSigmoid")
OF_X(softsign, "Softsign")
OF_X(tanhshrink, "Tanhshrink")

/* ---- activations with one number: rg_f(x, a) ----------------------------------- */

/* rg_nn_f refuses the number a unless `allowed` is true, because each call of rg_f would fail with
 * it. `sentence` is the message, in which %s stands for the number. */
#define OF_NUMBER_WITH(f, Module, name, allowed, sentence)                                \
    CLASS(f, Module, .of_number = rg_##f, .a_name = name)                                 \
    rg_plain_module *(rg_nn_##f)(double a) {                                              \
        RG_FAIL_AS_IF(RG_VALUE_ERROR, !(allowed), Module, sentence, rgi_python_float(a)); \
        return RG_MODULE(rg_plain_module, &f##_module_class.base, .a = a);                \
    }
#define OF_NUMBER(f, Module, name) OF_NUMBER_WITH(f, Module, name, true, "%s")
OF_NUMBER(leaky_relu, "LeakyReLU", "negative_slope")
OF_NUMBER(elu, "ELU", "alpha")
OF_NUMBER_WITH(celu, "CELU", "alpha", a != 0,
               "ZeroDivisionError: alpha cannot be 0 for CELU, but got %s")
OF_NUMBER(hardshrink, "Hardshrink", "")
OF_NUMBER_WITH(softshrink, "Softshrink", "", a >= 0,
               "lambda must be greater or equal to 0, but found to be %s.")

/* ---- activations with two numbers: rg_f(x, a, b) ------------------------------- */

CLASS(softplus, "Softplus", .of_numbers = rg_softplus, .a_name = "beta", .b_name = "threshold")
CLASS(threshold, "Threshold", .of_numbers = rg_threshold, .a_name = "threshold", .b_name = "value")
CLASS(hardtanh, "Hardtanh", .of_numbers = rg_hardtanh, .a_name = "min_val", .b_name = "max_val")

rg_plain_module *(rg_nn_softplus)(double beta, double threshold) {
    return RG_MODULE(rg_plain_module, &softplus_module_class.base, .a = beta, .b = threshold);
}

rg_plain_module *(rg_nn_threshold)(double threshold, double value) {
    return RG_MODULE(rg_plain_module, &threshold_module_class.base, .a = threshold, .b = value);
}

rg_plain_module *(rg_nn_hardtanh)(double min_val, double max_val) {
    RG_FAIL_VALUE_IF(!(max_val > min_val), "Hardtanh",
                     "max_val (%s) must be greater than min_val (%s)", rgi_number(max_val),
                     rgi_number(min_val));
    return RG_MODULE(rg_plain_module, &hardtanh_module_class.base, .a = min_val, .b = max_val);
}

/* ---- activations along a dim: rg_f(x, dim) ------------------------------------- */

#define OF_DIM(f, Module)                                                    \
    CLASS(f, Module, .of_dim = rg_##f)                                       \
    rg_plain_module *(rg_nn_##f)(int dim) {                                  \
        return RG_MODULE(rg_plain_module, &f##_module_class.base, .a = dim); \
    }
OF_DIM(softmax, "Softmax")
OF_DIM(softmin, "Softmin")
OF_DIM(log_softmax, "LogSoftmax")
OF_DIM(glu, "GLU")

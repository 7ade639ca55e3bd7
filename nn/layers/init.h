/*
 * init.h: fills weights with their initial values, as torch.nn.init does, with the same random
 * numbers. Each function that ends with _ fills its first argument, which may require grad, and
 * returns it, or NULL on failure.
 */
#pragma once

#include "../../autograd/ops/ops.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Fill t with random numbers: uniform_ from U(a, b), normal_ from N(mean, std^2), and trunc_normal_
 * from N(mean, std^2) restricted to [a, b]. */
rg_tensor *rg_nn_init_uniform_(rg_tensor *t, double a, double b);
rg_tensor *rg_nn_init_normal_(rg_tensor *t, double mean, double std);
rg_tensor *rg_nn_init_trunc_normal_(rg_tensor *t, double mean, double std, double a, double b);
/* Set all elements: constant_ to the value, ones_ to 1, and zeros_ to 0. */
rg_tensor *rg_nn_init_constant_(rg_tensor *t, double value);
rg_tensor *rg_nn_init_ones_(rg_tensor *t);
rg_tensor *rg_nn_init_zeros_(rg_tensor *t);
/* xavier_uniform_ draws random numbers from a uniform distribution, xavier_normal_ from a normal
 * one. Their mean is 0, and their variance is 2 * gain^2 / (fan_in + fan_out). If t is a weight
 * (out, in, ..), fan_in is the number of inputs from which one output is computed, and fan_out the
 * number of outputs that one input enters. Both functions fail unless t has at least two dims. */
rg_tensor *rg_nn_init_xavier_uniform_(rg_tensor *t, double gain);
rg_tensor *rg_nn_init_xavier_normal_(rg_tensor *t, double gain);
/* Makes the rows of t orthogonal to each other, and each of length gain. t is taken as a matrix
 * (first dim, all other dims). If it has more rows than columns, the columns are made orthogonal
 * and of this length, instead of the rows. */
rg_tensor *rg_nn_init_orthogonal_(rg_tensor *t, double gain);

typedef struct RG_OPTIONS rg_kaiming_options {
    RG_BY_NAME;
    double a RG_DEFAULT(0); /* The negative slope of leaky_relu. */
    /* "fan_in" or "fan_out": the fan by which gain^2 is divided to give the variance. */
    const char *mode RG_DEFAULT("fan_in");
    const char *nonlinearity RG_DEFAULT("leaky_relu");
} rg_kaiming_options;
/* kaiming_uniform_ draws random numbers from a uniform distribution, kaiming_normal_ from a normal
 * one. Their mean is 0, and their variance is gain^2 / fan. The gain is
 * rg_nn_init_calculate_gain(o.nonlinearity, o.a), and o.mode chooses the fan (see above). */
rg_tensor *rg_nn_init_kaiming_uniform_with_(rg_tensor *t, rg_kaiming_options o);
rg_tensor *rg_nn_init_kaiming_normal_with_(rg_tensor *t, rg_kaiming_options o);
#define RG_KAIMING_(...) \
    RG_KEYWORDS(rg_kaiming_options, (.mode = "fan_in", .nonlinearity = "leaky_relu"), __VA_ARGS__)
#define rg_nn_init_kaiming_uniform_(t, ...) \
    rg_nn_init_kaiming_uniform_with_(t, RG_KAIMING_(__VA_ARGS__))
#define rg_nn_init_kaiming_normal_(t, ...) \
    rg_nn_init_kaiming_normal_with_(t, RG_KAIMING_(__VA_ARGS__))
/* Returns the gain that torch recommends for the nonlinearity. Fails, and returns NaN, if the
 * nonlinearity is unknown. `param` is the negative slope of leaky_relu; for others it is
 * ignored. */
double rg_nn_init_calculate_gain(const char *nonlinearity, double param);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_init_uniform_(t, a, b)     rg_nn_init_uniform_(t, RG_REAL(a), RG_REAL(b))
#define rg_nn_init_normal_(t, mean, std) rg_nn_init_normal_(t, RG_REAL(mean), RG_REAL(std))
#define rg_nn_init_trunc_normal_(t, mean, std, a, b) \
    rg_nn_init_trunc_normal_(t, RG_REAL(mean), RG_REAL(std), RG_REAL(a), RG_REAL(b))
#define rg_nn_init_constant_(t, value)      rg_nn_init_constant_(t, RG_REAL(value))
#define rg_nn_init_xavier_uniform_(t, gain) rg_nn_init_xavier_uniform_(t, RG_REAL(gain))
#define rg_nn_init_xavier_normal_(t, gain)  rg_nn_init_xavier_normal_(t, RG_REAL(gain))
#define rg_nn_init_orthogonal_(t, gain)     rg_nn_init_orthogonal_(t, RG_REAL(gain))
#define rg_nn_init_calculate_gain(nonlinearity, param) \
    rg_nn_init_calculate_gain(nonlinearity, RG_REAL(param))

RG_PUBLIC_END

/*
 * init.h: the first values of weights: torch.nn.init, with the same random draws. Each function
 * fills its first argument, which may require grad, and returns it.
 */
#pragma once

#include "../../autograd/ops/ops.h"

RG_PUBLIC_BEGIN

/* The next three functions draw from U(a, b), from N(mean, std), and from N(mean, std) restricted
 * to [a, b]. */
rg_tensor *rg_nn_init_uniform_(rg_tensor *t, double a, double b);
rg_tensor *rg_nn_init_normal_(rg_tensor *t, double mean, double std);
rg_tensor *rg_nn_init_trunc_normal_(rg_tensor *t, double mean, double std, double a, double b);
/* The next three functions set all elements to the value, to 1, and to 0. */
rg_tensor *rg_nn_init_constant_(rg_tensor *t, double value);
rg_tensor *rg_nn_init_ones_(rg_tensor *t);
rg_tensor *rg_nn_init_zeros_(rg_tensor *t);
/* xavier_uniform_ and xavier_normal_ draw with variance 2 gain^2 / (fan_in + fan_out). */
rg_tensor *rg_nn_init_xavier_uniform_(rg_tensor *t, double gain);
rg_tensor *rg_nn_init_xavier_normal_(rg_tensor *t, double gain);
/* Makes the rows orthogonal and of length gain, or the columns if they are fewer. */
rg_tensor *rg_nn_init_orthogonal_(rg_tensor *t, double gain);

typedef struct RG_OPTIONS rg_kaiming_options {
    RG_BY_NAME;
    double a RG_DEFAULT(0);                /* The slope of leaky_relu. */
    const char *mode RG_DEFAULT("fan_in"); /* "fan_in" or "fan_out". */
    const char *nonlinearity RG_DEFAULT("leaky_relu");
} rg_kaiming_options;
/* kaiming_uniform_ and kaiming_normal_ draw with variance gain^2 / fan. The nonlinearity sets the
 * gain, the mode chooses fan. */
rg_tensor *rg_nn_init_kaiming_uniform_with_(rg_tensor *t, rg_kaiming_options o);
rg_tensor *rg_nn_init_kaiming_normal_with_(rg_tensor *t, rg_kaiming_options o);
#define RG_KAIMING_(...) \
    RG_KEYWORDS(rg_kaiming_options, (.mode = "fan_in", .nonlinearity = "leaky_relu"), __VA_ARGS__)
#define rg_nn_init_kaiming_uniform_(t, ...) \
    rg_nn_init_kaiming_uniform_with_(t, RG_KAIMING_(__VA_ARGS__))
#define rg_nn_init_kaiming_normal_(t, ...) \
    rg_nn_init_kaiming_normal_with_(t, RG_KAIMING_(__VA_ARGS__))
/* Returns the nonlinearity's gain, or NaN on failure. Only leaky_relu uses the parameter, its
 * slope. */
double rg_nn_init_calculate_gain(const char *nonlinearity, double param);

RG_PUBLIC_END

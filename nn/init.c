/*
 * init.c: how weights begin.
 */
#include "init.h"
#include "tensor/internal.h"
#include "autograd/autograd.h"

#include <math.h>

#define FILLED(name, parameters, ...)         \
    rg_tensor *rg_nn_init_##name parameters { \
        RG_NO_GRAD();                         \
        return rg_##name(__VA_ARGS__);        \
    }
FILLED(uniform_, (rg_tensor * t, double a, double b), t, a, b)
FILLED(normal_, (rg_tensor * t, double mean, double std), t, mean, std)
FILLED(trunc_normal_, (rg_tensor * t, double mean, double std, double a, double b), t, mean, std, a,
       b)

rg_tensor *rg_nn_init_constant_(rg_tensor *t, double value) {
    RG_AS("constant_");
    RG_NO_GRAD();
    return rg_fill_(t, value);
}
rg_tensor *rg_nn_init_ones_(rg_tensor *t) {
    RG_AS("ones_");
    return rg_nn_init_constant_(t, 1);
}
rg_tensor *rg_nn_init_zeros_(rg_tensor *t) {
    RG_AS("zeros_");
    return rg_nn_init_constant_(t, 0);
}

/* Fans: of a weight (out, in, ...), how many elements an output sums, and an input reaches. */
static bool init_fans(const char *op, rg_tensor *t, double *in, double *out) {
    if (!rgi_check(t, op))
        return false;
    RG_FAIL_VALUE_IF(
        t->ndim < 2, op,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    *in = *out = 1;
    for (int d = 1; d < t->ndim; d++)
        *in *= (double)t->size[d];
    for (int d = 0; d < t->ndim; d++)
        *out *= d == 1 ? 1 : (double)t->size[d];
    return true;
}

double rg_nn_init_calculate_gain(const char *nonlinearity, double param) {
    static const struct {
        const char *name;
        double gain;
    } known[] = {
        { "linear", 1 },           { "conv1d", 1 },           { "conv2d", 1 },
        { "conv3d", 1 },           { "conv_transpose1d", 1 }, { "conv_transpose2d", 1 },
        { "conv_transpose3d", 1 }, { "sigmoid", 1 },          { "tanh", 5.0 / 3 },
        { "relu", M_SQRT2 },       { "selu", 3.0 / 4 },
    };
    if (!nonlinearity)
        nonlinearity = "None";
    if (strcmp(nonlinearity, "leaky_relu") == 0)
        return sqrt(2 / (1 + param * param));
    for (int i = 0; i < RG_COUNT(known); i++)
        if (strcmp(nonlinearity, known[i].name) == 0)
            return known[i].gain;
    rgi_fail_(RG_VALUE_ERROR, "calculate_gain", "Unsupported nonlinearity %s", nonlinearity);
    return NAN;
}

static rg_tensor *init_spread(rg_tensor *t, bool uniform, double std) {
    return uniform ? rg_nn_init_uniform_(t, -(sqrt(3) * std), sqrt(3) * std)
                   : rg_nn_init_normal_(t, 0, std);
}

static rg_tensor *init_xavier(const char *op, rg_tensor *t, bool uniform, double gain) {
    double in, out;
    RG_AS(op);
    return init_fans(op, t, &in, &out) ? init_spread(t, uniform, gain * sqrt(2 / (in + out)))
                                       : NULL;
}

static rg_tensor *init_kaiming(const char *op, rg_tensor *t, bool uniform, rg_kaiming_options o) {
    double in, out, gain;
    const char *mode = o.mode ? o.mode : "None";
    bool fan_out = !strcmp(mode, "fan_out");
    RG_AS(op);
    if (!rgi_check(t, op))
        return NULL;
    if (t->numel == 0)
        return t; /* there is nothing to do */
    RG_FAIL_VALUE_IF(!fan_out && strcmp(mode, "fan_in"), op,
                     "Mode %s not supported, please use one of ['fan_in', 'fan_out']", mode);
    if (!init_fans(op, t, &in, &out)
        || isnan(gain = rg_nn_init_calculate_gain(o.nonlinearity, o.a)))
        return NULL;
    return init_spread(t, uniform, gain / sqrt(fan_out ? out : in));
}

#define BY_FANS(name, op, init, uniform, type) \
    rg_tensor *rg_nn_init_##name(rg_tensor *t, type how) { return init(op, t, uniform, how); }
BY_FANS(xavier_uniform_, "xavier_uniform_", init_xavier, true, double)
BY_FANS(xavier_normal_, "xavier_normal_", init_xavier, false, double)
BY_FANS(kaiming_uniform_with_, "kaiming_uniform_", init_kaiming, true, rg_kaiming_options)
BY_FANS(kaiming_normal_with_, "kaiming_normal_", init_kaiming, false, rg_kaiming_options)

/* torch: Q of a normal matrix, the signs such that R's diagonal is positive. That Q is what
 * Gram and Schmidt make of it, here in float64, and twice, against rounding. */
rg_tensor *rg_nn_init_orthogonal_(rg_tensor *t, double gain) {
    if (!rgi_check(t, "orthogonal_"))
        return NULL;
    RG_FAIL_VALUE_IF(t->ndim < 2, "orthogonal_",
                     "Only tensors with 2 or more dimensions are supported");
    if (t->numel == 0)
        return t;
    RG_AS("orthogonal_");
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t rows = t->size[0], cols = t->numel / rows;
    rg_tensor *drawn = rg_normal_(rg_empty_dims(RG_DIMS(rows, cols), t->dtype), 0, 1);
    /* its rows become orthonormal */
    rg_tensor *q = rg_contiguous(rg_double(rows < cols ? drawn : rg_T(drawn)));
    RG_FOR (int64_t i = 0; i < RG_MIN(rows, cols); i++) {
        rg_tensor *v = rg_select(q, 0, i), *before = rg_slice(q, 0, 0, i, 1);
        bool ok = true;
        for (int twice = 0; twice < 2; twice++)
            ok = ok && rg_sub_(v, rg_matmul(rg_matmul(before, v), before));
        if (!ok || !rg_div_(v, rg_norm(v)))
            return NULL;
    }
    return rg_copy_(t, rg_mul(rg_reshape_dims(rows < cols ? q : rg_T(q), rg_shape(t)), gain));
}

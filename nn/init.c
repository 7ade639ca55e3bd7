/*
 * init.c: how weights begin.
 */
#include "init.h"
#include "tensor/internal.h"
#include "autograd/autograd.h"

#include <math.h>

rg_tensor *rg_nn_init_uniform_(rg_tensor *t, double a, double b) { RG_NO_GRAD(); return rg_uniform_(t, a, b); }
rg_tensor *rg_nn_init_normal_(rg_tensor *t, double mean, double std) { RG_NO_GRAD(); return rg_normal_(t, mean, std); }
rg_tensor *rg_nn_init_trunc_normal_(rg_tensor *t, double mean, double std, double a, double b) {
    RG_NO_GRAD();
    return rg_trunc_normal_(t, mean, std, a, b);
}
rg_tensor *rg_nn_init_constant_(rg_tensor *t, double value) { RG_NO_GRAD(); return rg_fill_(t, value); }
rg_tensor *rg_nn_init_ones_(rg_tensor *t) { return rg_nn_init_constant_(t, 1); }
rg_tensor *rg_nn_init_zeros_(rg_tensor *t) { return rg_nn_init_constant_(t, 0); }

/* ---- fans: of a weight (out, in, ...), the elements that an output sums, and that an input reaches ---- */

static bool init_fans(const char *op, rg_tensor *t, double *in, double *out) {
    if (!rg_check(t, op)) return false;
    if (t->ndim < 2)
        return rg_fail(RG_VALUE_ERROR, op, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    *in = *out = 1;
    for (int d = 1; d < t->ndim; d++) *in *= (double)t->size[d];
    for (int d = 0; d < t->ndim; d++) *out *= d == 1 ? 1 : (double)t->size[d];
    return true;
}

double rg_nn_init_calculate_gain(const char *nonlinearity, double param) {
    static const struct { const char *name; double gain; } known[] = {
        { "linear", 1 }, { "conv1d", 1 }, { "conv2d", 1 }, { "conv3d", 1 }, { "conv_transpose1d", 1 }, { "conv_transpose2d", 1 },
        { "conv_transpose3d", 1 }, { "sigmoid", 1 }, { "tanh", 5.0 / 3 }, { "relu", M_SQRT2 }, { "selu", 3.0 / 4 },
    };
    if (!nonlinearity) nonlinearity = "None";
    if (strcmp(nonlinearity, "leaky_relu") == 0) return sqrt(2 / (1 + param * param));
    for (int i = 0; i < RG_COUNT(known); i++)
        if (strcmp(nonlinearity, known[i].name) == 0) return known[i].gain;
    rg_fail_(RG_VALUE_ERROR, "calculate_gain", "Unsupported nonlinearity %s", nonlinearity);
    return NAN;
}

rg_tensor *rg_nn_init_xavier_uniform_(rg_tensor *t, double gain) {
    double in, out;
    if (!init_fans("xavier_uniform_", t, &in, &out)) return NULL;
    double bound = sqrt(3) * (gain * sqrt(2 / (in + out)));
    return rg_nn_init_uniform_(t, -bound, bound);
}

rg_tensor *rg_nn_init_xavier_normal_(rg_tensor *t, double gain) {
    double in, out;
    if (!init_fans("xavier_normal_", t, &in, &out)) return NULL;
    return rg_nn_init_normal_(t, 0, gain * sqrt(2 / (in + out)));
}

/* The standard deviation that keeps the variance; < 0: failed. */
static double kaiming_std(const char *op, rg_tensor *t, rg_kaiming_options o) {
    double in, out;
    if (!rg_check(t, op)) return -1;
    if (t->numel == 0) return 0;                        /* nothing to do */
    bool fan_out = o.mode && strcmp(o.mode, "fan_out") == 0;
    if (!fan_out && (!o.mode || strcmp(o.mode, "fan_in")))
        return rg_fail_(RG_VALUE_ERROR, op, "Mode %s not supported, please use one of ['fan_in', 'fan_out']", o.mode ? o.mode : "None"), -1;
    if (!init_fans(op, t, &in, &out)) return -1;
    double gain = rg_nn_init_calculate_gain(o.nonlinearity, o.a);
    return isnan(gain) ? -1 : gain / sqrt(fan_out ? out : in);
}

rg_tensor *rg_nn_init_kaiming_uniform_with_(rg_tensor *t, rg_kaiming_options o) {
    double std = kaiming_std("kaiming_uniform_", t, o);
    return std < 0 ? NULL : rg_nn_init_uniform_(t, -sqrt(3) * std, sqrt(3) * std);
}

rg_tensor *rg_nn_init_kaiming_normal_with_(rg_tensor *t, rg_kaiming_options o) {
    double std = kaiming_std("kaiming_normal_", t, o);
    return std < 0 ? NULL : rg_nn_init_normal_(t, 0, std);
}

/* torch: Q of a normal matrix, the signs such that R's diagonal is positive. That Q is what
 * Gram and Schmidt make of it, here in float64, and twice, against rounding. */
rg_tensor *rg_nn_init_orthogonal_(rg_tensor *t, double gain) {
    if (!rg_check(t, "orthogonal_")) return NULL;
    if (t->ndim < 2) return rg_fail(RG_VALUE_ERROR, "orthogonal_", "Only tensors with 2 or more dimensions are supported");
    if (t->numel == 0) return t;
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t rows = t->size[0], cols = t->numel / rows;
    rg_tensor *drawn = rg_normal_(rg_empty_dims(RG_DIMS(rows, cols), t->dtype), 0, 1);
    rg_tensor *q = rg_contiguous(rg_double(rows < cols ? drawn : rg_T(drawn)));        /* its rows become orthonormal */
    RG_FOR (int64_t i = 0; i < RG_MIN(rows, cols); i++) {
        rg_tensor *v = rg_select(q, 0, i), *before = rg_slice(q, 0, 0, i, 1);
        for (int twice = 0; twice < 2; twice++) rg_sub_(v, rg_matmul(rg_matmul(before, v), before));
        if (!rg_div_(v, rg_norm(v))) return NULL;
    }
    return rg_copy_(t, rg_mul(rg_reshape_dims(rows < cols ? q : rg_T(q), rg_shape(t)), gain));
}

/*
 * init.c: fills weights with their initial values. Draws the same random numbers as torch.nn.init.
 */
#include "init.h"
#include "undrawn.h"
#include "tensor/error.h"
#include "autograd/autograd.h"
#include "tensor/structs.h"

#include <math.h>
#include <string.h>

__thread bool rgi_undrawn __attribute__((tls_model("initial-exec")));

/* ---- filling with a number, or from a given distribution ----------------------- */

rg_tensor *(rg_nn_init_uniform_)(rg_tensor *t, double a, double b) {
    RG_NO_GRAD();
    return rgi_undrawn ? t : rg_uniform_(t, a, b);
}

rg_tensor *(rg_nn_init_normal_)(rg_tensor *t, double mean, double std) {
    RG_NO_GRAD();
    return rgi_undrawn ? t : rg_normal_(t, mean, std);
}

rg_tensor *(rg_nn_init_trunc_normal_)(rg_tensor *t, double mean, double std, double a, double b) {
    RG_NO_GRAD();
    return rg_trunc_normal_(t, mean, std, a, b);
}

rg_tensor *(rg_nn_init_constant_)(rg_tensor *t, double value) {
    RG_AS("constant_");
    RG_SCOPE();
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

/* ---- xavier and kaiming: the variance depends on the weight's fans ------------- */

/* Computes the fans of a weight (out, in, ...). Fan in is the number of inputs from which one
 * output is computed, and fan out the number of outputs that one input enters. Fails if the weight
 * has fewer than two dims. */
static bool init_fans(const char *op, const rg_tensor *t, double *in, double *out) {
    RG_FAIL_VALUE_IF(
        t->ndim < 2, op,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    double field = 1;
    for (int d = 2; d < t->ndim; d++)
        field *= (double)t->size[d];
    *in = (double)t->size[1] * field;
    *out = (double)t->size[0] * field;
    return true;
}

/* Fills t with random numbers of mean 0 and standard deviation std, from a uniform or a normal
 * distribution. */
static rg_tensor *init_spread(rg_tensor *t, bool uniform, double std) {
    double bound = sqrt(3) * std;
    return uniform ? rg_nn_init_uniform_(t, -bound, bound) : rg_nn_init_normal_(t, 0, std);
}

static rg_tensor *init_xavier(const char *op, rg_tensor *t, bool uniform, double gain) {
    double in, out;
    RG_AS(op);
    if (!rgi_check(t, op) || !init_fans(op, t, &in, &out))
        return NULL;
    return init_spread(t, uniform, gain * sqrt(2 / (in + out)));
}

rg_tensor *(rg_nn_init_xavier_uniform_)(rg_tensor *t, double gain) {
    return init_xavier("xavier_uniform_", t, true, gain);
}

rg_tensor *(rg_nn_init_xavier_normal_)(rg_tensor *t, double gain) {
    return init_xavier("xavier_normal_", t, false, gain);
}

double(rg_nn_init_calculate_gain)(const char *nonlinearity, double param) {
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
    rg_fail(RG_VALUE_ERROR, "calculate_gain", "Unsupported nonlinearity %s", nonlinearity);
    return rgi_failed_number();
}

static rg_tensor *init_kaiming(const char *op, rg_tensor *t, bool uniform, rg_kaiming_options o) {
    const char *mode = o.mode ? o.mode : "None";
    bool fan_out = !strcmp(mode, "fan_out");
    RG_AS(op);
    if (!rgi_check(t, op))
        return NULL;
    if (t->numel == 0)
        return t;
    RG_FAIL_VALUE_IF(!fan_out && strcmp(mode, "fan_in"), op,
                     "Mode %s not supported, please use one of ['fan_in', 'fan_out']", mode);
    double in, out;
    if (!init_fans(op, t, &in, &out))
        return NULL;
    double gain = rg_nn_init_calculate_gain(o.nonlinearity, o.a);
    if (isnan(gain))
        return NULL;
    return init_spread(t, uniform, gain / sqrt(fan_out ? out : in));
}

rg_tensor *rg_nn_init_kaiming_uniform_with_(rg_tensor *t, rg_kaiming_options o) {
    return init_kaiming("kaiming_uniform_", t, true, o);
}

rg_tensor *rg_nn_init_kaiming_normal_with_(rg_tensor *t, rg_kaiming_options o) {
    return init_kaiming("kaiming_normal_", t, false, o);
}

/* ---- orthogonal matrices ------------------------------------------------------- */

/* Makes the rows of q orthonormal, in place, by the Gram-Schmidt process. The earlier rows are
 * projected out of each row twice, because the first time leaves rounding errors. Returns false on
 * failure. */
static bool make_orthonormal(rg_tensor *q) {
    RG_FOR (int64_t i = 0; i < rg_size(q, 0); i++) {
        rg_tensor *row = rg_select(q, 0, i), *before = rg_slice(q, 0, 0, i, 1);
        for (int twice = 0; twice < 2; twice++)
            if (!rg_sub_(row, rg_matmul(rg_matmul(before, row), before)))
                return false;
        if (!rg_div_(row, rg_norm(row)))
            return false;
    }
    return true;
}

/* Fills t, taken as a matrix, with a random orthogonal matrix times gain. torch draws a normal
 * matrix, and returns the Q of its QR decomposition, with signs that make the diagonal of R
 * positive. Here the Gram-Schmidt process computes the same Q, in float64. */
rg_tensor *(rg_nn_init_orthogonal_)(rg_tensor *t, double gain) {
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
    bool wide = rows < cols;
    rg_tensor *drawn = rg_normal_(rg_empty_dims(RG_DIMS(rows, cols), t->dtype), 0, 1);
    rg_tensor *q = rg_contiguous(rg_double(wide ? drawn : rg_T(drawn)));
    if (!q || !make_orthonormal(q))
        return NULL;
    return rg_copy_(t, rg_mul(rg_reshape_dims(wide ? q : rg_T(q), rg_shape(t)), gain));
}

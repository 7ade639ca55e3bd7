/* test_init.c: initial weights are PyTorch's. Uniform ones have the same bits, and normal ones are
 * close to PyTorch's. */
#define TWIN_DATA "init"
#include "twin.h"

/* A row has a name, the distances from torch's numbers that are allowed in float32 and in float64,
 * and a call. tests/tensor/test_random.c (compare) explains why normal numbers differ from torch's.
 * Orthogonal matrices differ by rounding, because torch computes them with LAPACK. */
#define INITS(F)                                                                 \
    F(uniform, 0, 0, rg_nn_init_uniform_(t, -0.5, 2))                            \
    F(normal, 3e-6, 1e-14, rg_nn_init_normal_(t, 1, 2))                          \
    F(trunc_normal, 3e-6, 1e-14, rg_nn_init_trunc_normal_(t, 0.5, 1.5, -1, 2))   \
    F(constant, 0, 0, rg_nn_init_constant_(t, 0.3))                              \
    F(ones, 0, 0, rg_nn_init_ones_(t))                                           \
    F(zeros, 0, 0, rg_nn_init_zeros_(t))                                         \
    F(xavier_uniform, 0, 0, rg_nn_init_xavier_uniform_(t, 1.5))                  \
    F(xavier_normal, 3e-6, 1e-14, rg_nn_init_xavier_normal_(t, 1))               \
    F(kaiming_uniform, 0, 0, rg_nn_init_kaiming_uniform_(t, .a = sqrt(5)))       \
    F(kaiming_uniform_out, 0, 0,                                                 \
      rg_nn_init_kaiming_uniform_(t, .mode = "fan_out", .nonlinearity = "relu")) \
    F(kaiming_normal, 3e-6, 1e-14, rg_nn_init_kaiming_normal_(t, .a = 0.3))      \
    F(kaiming_normal_selu, 3e-6, 1e-14,                                          \
      rg_nn_init_kaiming_normal_(t, .mode = "fan_out", .nonlinearity = "selu"))  \
    F(orthogonal, 1e-5, 1e-12, rg_nn_init_orthogonal_(t, 1))                     \
    F(orthogonal_gain, 1e-5, 1e-12, rg_nn_init_orthogonal_(t, 2.5))

#define FILL(name, single, whole, call) \
    static rg_tensor *fill_##name(rg_tensor *t) { return call; }
INITS(FILL)
#define ROW(name, single, whole, call) { #name, { single, whole }, fill_##name },
static const struct {
    const char *name;
    double off[2];
    rg_tensor *(*fill)(rg_tensor *t);
} inits[] = { INITS(ROW) };
enum { N_INITS = sizeof inits / sizeof *inits };

/* A leaf that requires grad stays a leaf without history. Afterwards the generator is in the same
 * state as torch's. */
START_TEST(test_beside_torch) {
    const rg_dims shapes[] = { RG_DIMS(6, 4), RG_DIMS(2, 3), RG_DIMS(3, 2, 5) };
    for (int i = 0; i < N_INITS; i++)
        for (int k = 0; k < 6; k++) {
            RG_SCOPE();
            char suffix[16];
            rg_tensor *t = rg_requires_grad_(
                rg_empty_dims(shapes[k / 2], k % 2 ? RG_FLOAT64 : RG_FLOAT32), true);
            rg_manual_seed((uint64_t)(7 + k / 2));
            ck_assert_msg(inits[i].fill(t) == t, "%s: %s", inits[i].name, rg_error());
            ck_assert(rg_is_leaf(t) && rg_requires_grad(t));
            snprintf(suffix, sizeof suffix, "%d.%d", k / 2, k % 2 ? 64 : 32);
            double far = twin_distance(inits[i].name, suffix, 2, (rg_tensor *[]){ t, rg_rand(1) });
            ck_assert_msg(far <= inits[i].off[k % 2], "%s%s is off by %g", inits[i].name, suffix,
                          far);
        }
}
END_TEST

START_TEST(test_gains) {
    const char *names[] = { "linear",
                            "conv1d",
                            "conv2d",
                            "conv3d",
                            "conv_transpose1d",
                            "conv_transpose2d",
                            "conv_transpose3d",
                            "sigmoid",
                            "tanh",
                            "relu",
                            "selu",
                            "leaky_relu" };
    rg_tensor *gains[12];
    for (int i = 0; i < 12; i++)
        gains[i] = rg_scalar_dtype(rg_nn_init_calculate_gain(names[i], 0.2), RG_FLOAT64);
    ck_assert(twin_distance("gains", "", 12, gains) == 0);
    ck_fails(!isnan(rg_nn_init_calculate_gain("foo", 0)), RG_VALUE_ERROR,
             "Unsupported nonlinearity foo");
    ck_fails(!isnan(rg_nn_init_calculate_gain(NULL, 0)), RG_VALUE_ERROR,
             "Unsupported nonlinearity None");
}
END_TEST

START_TEST(test_orthogonal_at_size) {
    rg_tensor *q = rg_nn_init_orthogonal_(rg_empty_dims(RG_DIMS(96, 64), RG_FLOAT64), 1);
    ck_assert(rg_allclose(rg_matmul(rg_T(q), q), rg_to(rg_eye(64, 64), RG_FLOAT64), 0, 1e-13));
    /* A transposed matrix is filled through its strides. */
    q = rg_nn_init_orthogonal_(rg_T(rg_empty_dims(RG_DIMS(64, 64), RG_FLOAT64)), 1);
    ck_assert(rg_allclose(rg_matmul(rg_T(q), q), rg_to(rg_eye(64, 64), RG_FLOAT64), 0, 1e-13));
}
END_TEST

START_TEST(test_what_they_refuse) {
    rg_tensor *line = rg_ones(3), *whole = rg_long(rg_ones(3, 3)), *w = rg_ones(3, 2);
    const char *fan =
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions";
    ck_fails(rg_nn_init_kaiming_uniform_(line), RG_VALUE_ERROR, fan);
    ck_fails(rg_nn_init_kaiming_normal_(line), RG_VALUE_ERROR, fan);
    ck_fails(rg_nn_init_xavier_uniform_(line, 1), RG_VALUE_ERROR, fan);
    ck_fails(rg_nn_init_xavier_normal_(line, 1), RG_VALUE_ERROR, fan);
    ck_fails(rg_nn_init_kaiming_uniform_(line, .mode = "x"), RG_VALUE_ERROR,
             "Mode x not supported, please use one of ['fan_in', 'fan_out']");
    ck_fails(rg_nn_init_kaiming_uniform_(w, .mode = NULL), RG_VALUE_ERROR,
             "Mode None not supported");
    ck_fails(rg_nn_init_kaiming_uniform_(w, .nonlinearity = "x"), RG_VALUE_ERROR,
             "Unsupported nonlinearity x");
    for (int i = 0; i < N_INITS; i++) {
        bool exact = !strcmp(inits[i].name, "constant") || !strcmp(inits[i].name, "ones")
                     || !strcmp(inits[i].name, "zeros");
        if (!exact)
            ck_fails(inits[i].fill(whole), RG_NOT_IMPLEMENTED, "not implemented for 'Long'");
        ck_fails(inits[i].fill(NULL), RG_TYPE_ERROR, "got NULL");
        ck_fails(inits[i].fill(RG_NONE), RG_TYPE_ERROR, "got RG_NONE");
        ck_ok(inits[i].fill(rg_empty(3, 0)));
    }
    /* The tensor has no elements, so its fans aren't computed. It has too few dims for them. */
    ck_ok(rg_nn_init_kaiming_uniform_(rg_empty(0)));
}
END_TEST

static int tried;
static bool fill_one(void) { return inits[tried].fill(rg_empty(6, 4)); }
START_TEST(test_out_of_memory) {
    for (tried = 0; tried < N_INITS; tried++)
        twin_out_of_memory(fill_one);
}
END_TEST

RG_TESTS(init, test_beside_torch, test_gains, test_orthogonal_at_size, test_what_they_refuse,
         test_out_of_memory)

/* Optimizers: PyTorch's trajectories, groups, clipping, state, errors. */
#include "tests/test.h"
#include "nn/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_PARAMS = 3 };
static const rg_dims shapes[N_PARAMS] = { { 2, { 3, 4 } }, { 1, { 5 } }, { 0, { 0 } } };

typedef struct { rg_tensor *v[N_PARAMS]; } params;

/* As optim.py makes them. */
static params make_params(rg_dtype dtype) {
    params made;
    for (int k = 0; k < N_PARAMS; k++) {
        double v[12];
        for (int i = 0; i < 12; i++) v[i] = ((7 * i + 5 * k) % 11 - 5) / 4.0;
        made.v[k] = rg_requires_grad_(rg_to(rg_from_double(v, shapes[k]), dtype), true);
    }
    return made;
}

static void set_gradients(params *p, int t) {
    RG_SCOPE();
    for (int k = 0; k < N_PARAMS; k++) {
        double target[12], noise[12];
        rg_dtype dtype = (rg_dtype)rg_dtype_of(p->v[k]);
        for (int i = 0; i < 12; i++) {
            target[i] = ((3 * i + k) % 7 - 3) / 8.0;
            noise[i] = ((5 * i + 3 * t + k) % 13 - 6) / 16.0;
        }
        rg_tensor *g = rg_sub(rg_detach(p->v[k]), rg_to(rg_from_double(target, shapes[k]), dtype));
        g = rg_add(rg_mul(g, 0.5), rg_to(rg_from_double(noise, shapes[k]), dtype));
        ck_ok(rg_set_grad(p->v[k], k == 2 && t % 3 == 0 ? RG_NONE : g));
    }
}

static int differ(const char *name, int t, params *p, const double *want, double tolerance) {
    RG_SCOPE();
    int bad = 0;
    for (int k = 0; k < N_PARAMS; k++)
        for (int i = 0; i < rg_numel(p->v[k]); i++, want++) {
            double got = rg_item(rg_select(rg_flatten(rg_detach(p->v[k]), 0, -1), 0, i));
            double to = rg_dtype_of(p->v[k]) == RG_FLOAT32 ? (float)*want : *want;
            if (fabs(got - to) <= tolerance * fmax(1, fabs(to))) continue;
            if (!bad++) printf("%s, step %d, parameter %d[%d]: %.17g, PyTorch %.17g\n", name, t, k, i, got, to);
        }
    return bad;
}

static int follow(const char *name, rg_optim *o, params *p, double tolerance, const double *want) {
    int bad = 0;
    ck_ok(o);
    for (int t = 1; t <= 100; t++) {
        set_gradients(p, t);
        ck_ok(rg_optim_step(o));
        if (t != 1 && t != 2 && t != 10 && t != 50 && t != 100) continue;
        bad += differ(name, t, p, want, tolerance);
        want += 18;
    }
    rg_optim_free(o);
    return bad;
}

START_TEST(test_trajectories) {
    int bad = 0;
    params ps;
#define p RG_LIST(ps.v[0], ps.v[1], ps.v[2])
#define CASE(name, make, dtype, ...) {                                                                          \
        RG_SCOPE();                                                                                              \
        ps = make_params(dtype);                                                                                 \
        bad += follow(#name, make, &ps, dtype == RG_FLOAT64 ? 1e-12 : strstr(#name, "sgd") ? 0 : 2e-6, (const double[]){ __VA_ARGS__ }); \
    }
#include "tests/golden/optim.inc"
#undef CASE
#undef p
    ck_assert_int_eq(bad, 0);
}
END_TEST

RG_TESTS(optim, test_trajectories)

/* test_random.c: compares random numbers with torch's, and the generator's state after every call.
 */
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/kernels/copy.h"
#include "tensor/memory.h"
#include "tensor/random/random.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <math.h>
#include <pthread.h>

/* One call in random.txt, with torch's results. */
typedef struct golden {
    const char *kind;
    int line;
    rg_dtype dtype;
    rg_dims size, stride;
    double a[4];  /* The arguments. */
    int64_t n[2]; /* The arguments as integers, for randint and randperm. */
    int picks;    /* The number of given elements: up to four, or two first and three last. */
    double pick[5];
    bool exact;     /* The bits must be torch's; otherwise the last digits may differ. */
    uint64_t bits;  /* The hash of the elements. */
    double sum[2];  /* The sums of |v| and of (i % 7 + 1) v. */
    uint64_t state; /* The hash of the generator's state after the call. */
    double waiting; /* The second normal of a pair, which waits in the state, or 0. */
} golden;

static golden read_call(golden_file *f, const char *kind, char *words) {
    golden r = { .kind = kind, .line = f->line };
    r.dtype = golden_dtype(golden_word(&words));
    r.size = golden_dims(golden_word(&words));
    r.stride = golden_dims(golden_word(&words));
    for (int i = 0; !golden_at_end(words); i++) {
        char *word = golden_word(&words);
        r.a[i] = strtod(word, NULL);
        if (i < 2)
            r.n[i] = strtoll(word, NULL, 10);
    }
    for (char *line = golden_field(f, ':'); !golden_at_end(line); r.picks++)
        r.pick[r.picks] = golden_number(&line);
    r.exact = golden_peek(f) == 'b';
    char *line = golden_field(f, r.exact ? 'b' : 's');
    if (r.exact) {
        r.bits = golden_bits(&line);
    } else {
        r.sum[0] = golden_number(&line);
        r.sum[1] = golden_number(&line);
    }
    line = golden_field(f, 'g');
    r.state = golden_bits(&line);
    if (golden_peek(f) == 'w') {
        line = golden_field(f, 'w');
        r.waiting = golden_number(&line);
    }
    return r;
}

static uint64_t fnv(const void *data, size_t n) {
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    return h;
}

static uint64_t state_of(rg_generator *g) {
    RG_SCOPE();
    rg_tensor *t = rg_generator_state(g);
    return fnv(t->data, (size_t)t->numel * 8);
}

/* Returns the hash of g's state. The state may keep the second normal number of a pair for the next
 * draw. If this number differs from torch's number `torchs` only in its last digits, which depend
 * on the C library, torch's number is hashed instead. */
static uint64_t state_beside(rg_generator *g, double torchs) {
    RG_SCOPE();
    rg_tensor *t = rg_generator_state(g);
    /* The normal is the fourth word from the end of the state. */
    double *normal = (double *)t->data + t->numel - 4;
    if (*normal != 0 && fabs(*normal - torchs) <= 1e-14)
        *normal = torchs;
    return fnv(t->data, (size_t)t->numel * 8);
}

/* Returns zeros with the sizes and strides of the call. */
static rg_tensor *placed(const golden *r) {
    int64_t room = 1;
    for (int d = 0; d < r->size.n; d++)
        room += (RG_MAX(r->size.v[d], 1) - 1) * r->stride.v[d];
    rg_tensor *t = rg_zeros_dims(RG_DIMS(room), r->dtype);
    t->ndim = (uint8_t)r->size.n;
    for (int d = 0; d < r->size.n; d++) {
        t->size[d] = r->size.v[d];
        t->stride[d] = r->stride.v[d];
    }
    rgi_update_flags(t);
    return t;
}

/* Returns the weights that chances() of random_streams.py makes. */
static rg_tensor *chances(const golden *r) {
    rg_tensor *t = placed(r);
    rg_tensor *flat = rgi_new(RG_FLOAT64, r->size.n, r->size.v);
    for (int64_t i = 0; i < flat->numel; i++)
        ((double *)flat->data)[i] = (double)(i * 7919 % 101 + 1) / 102;
    rgi_copy_elements(t, rgi_own(flat));
    return t;
}

static rg_tensor *called(const golden *r, rg_generator *g) {
    const char *kind = r->kind;
    if (strcmp(kind, "rand") == 0)
        return rg_rand_dims(r->size, r->dtype, g);
    if (strcmp(kind, "randn") == 0)
        return rg_randn_dims(r->size, r->dtype, g);
    if (strcmp(kind, "randint") == 0)
        return rg_randint_dims(r->n[0], r->n[1], r->size, r->dtype, g);
    if (strcmp(kind, "randperm") == 0)
        return rg_randperm_with(r->n[0], g);
    if (strcmp(kind, "bernoulli") == 0)
        return rgi_draw_bernoulli(chances(r), g);
    if (strcmp(kind, "multinomial") == 0)
        return rg_multinomial_with(chances(r), (int64_t)r->a[0], r->a[1] != 0, g);
    if (strcmp(kind, "uniform_") == 0)
        return rg_uniform_with_(placed(r), r->a[0], r->a[1], g);
    if (strcmp(kind, "normal_") == 0)
        return rg_normal_with_(placed(r), r->a[0], r->a[1], g);
    if (strcmp(kind, "trunc_normal_") == 0)
        return rg_trunc_normal_with_(placed(r), r->a[0], r->a[1], r->a[2], r->a[3], g);
    if (strcmp(kind, "exponential_") == 0)
        return rg_exponential_with_(placed(r), r->a[0], g);
    if (strcmp(kind, "bernoulli_") == 0)
        return rg_bernoulli_with_(placed(r), r->a[0], g);
    if (strcmp(kind, "rand_like") == 0)
        return rg_rand_like(placed(r));
    if (strcmp(kind, "randn_like") == 0)
        return rg_randn_like(placed(r));
    ck_abort_msg("line %d: no such function: %s", r->line, kind);
}

/* torch's float32 normals come from vector code that trades a few last digits for speed. Ours come
 * from other polynomials. Both are within 1e-6 of the exact values up to 6. Float64 normals come
 * from the C library's functions, whose last digit may depend on the library's version. */
static void compare(const golden *r, rg_tensor *t) {
    ck_assert_msg(t != NULL, "line %d: %s", r->line, rg_error());
    rg_tensor *c = rgi_own(rgi_contiguous_copy(t, (rg_dtype)t->dtype));
    rg_tensor *v = rgi_own(rgi_contiguous_copy(t, RG_FLOAT64));
    const double *x = (const double *)v->data;
    if (r->exact) {
        uint64_t bits = fnv(c->data, (size_t)c->numel * rgi_sizeof(c->dtype));
        ck_assert_msg(bits == r->bits, "line %d: other bits; first value %.17g, torch's %.17g",
                      r->line, x[0], r->pick[0]);
        return;
    }
    double near = r->dtype == RG_FLOAT32 ? 3e-6 : 1e-14;
    if (strstr(r->kind, "normal_"))
        near *= fmax(1, fabs(r->a[1]));
    for (int i = 0; i < r->picks; i++) {
        int64_t at = r->picks < 5 || i < 2 ? i : v->numel - 5 + i;
        ck_assert_msg(fabs(x[at] - r->pick[i]) <= near,
                      "line %d: element %d is %.17g, torch's %.17g", r->line, (int)at, x[at],
                      r->pick[i]);
    }
    double sum[2] = { 0, 0 };
    for (int64_t i = 0; i < v->numel; i++) {
        sum[0] += fabs(x[i]);
        sum[1] += x[i] * (double)(i % 7 + 1);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_msg(fabs(sum[i] - r->sum[i]) <= 7 * near * (double)v->numel,
                      "line %d: sum %.17g, torch's %.17g", r->line, sum[i], r->sum[i]);
}

START_TEST(test_torch_streams) {
    golden_file f = golden_open("random");
    int calls = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        RG_SCOPE();
        const char *kind = golden_word(&words);
        if (strcmp(kind, "seed") == 0) {
            uint64_t seed = golden_bits(&words);
            rg_manual_seed(seed);
            ck_assert_uint_eq(rg_initial_seed(), seed);
            continue;
        }
        golden r = read_call(&f, kind, words);
        compare(&r, called(&r, rg_default_generator()));
        ck_assert_msg(state_beside(rg_default_generator(), r.waiting) == r.state,
                      "line %d: the generator stands elsewhere", r.line);
        calls++;
    }
    ck_assert_int_gt(calls, 0);
    golden_close(&f);
}
END_TEST

static float first(rg_tensor *t) { return *(float *)t->data; }

START_TEST(test_generators_are_apart) {
    RG_SCOPE();
    rg_generator *a = rg_generator_new(123), *b = rg_generator_new(7);
    uint64_t before = state_of(rg_default_generator());
    float x = first(rg_rand_dims(RG_DIMS(1), RG_FLOAT32, a));
    rg_randn_dims(RG_DIMS(40), RG_FLOAT64, b);
    /* torch gives this number after torch.manual_seed(123). */
    ck_assert_float_eq(x, 0x1.2f37f8p-2f);
    ck_assert(state_of(rg_default_generator()) == before && state_of(a) != state_of(b));
    ck_assert(rg_generator_seed(b, 123));
    ck_assert_float_eq(first(rg_rand_dims(RG_DIMS(1), RG_FLOAT32, b)), x);
    ck_assert(state_of(a) == state_of(b));
    rg_generator_free(a);
    rg_generator_free(b);
    /* The default generator and NULL are not freed. */
    rg_generator_free(rg_default_generator());
    rg_generator_free(NULL);
    ck_ok(rg_rand(2));
}
END_TEST

START_TEST(test_first_use_is_torchs_default_seed) {
    RG_SCOPE();
    ck_assert_uint_eq(rg_initial_seed(), 67280421310721);
    float x = first(rg_rand(1));
    rg_manual_seed(67280421310721);
    ck_assert_float_eq(first(rg_rand(1)), x);
}
END_TEST

START_TEST(test_state_restores) {
    RG_SCOPE();
    rg_manual_seed(11);
    rg_generator *g = rg_default_generator(), *other = rg_generator_new(0);
    /* After an odd number of normals, the second normal of a pair waits in the state. */
    rg_randn(5);
    rg_tensor *state = rg_generator_state(g);
    ck_assert(rg_numel(state) == 632 && rg_dtype_of(state) == RG_INT64);
    for (int i = 0; i < 3; i++) {
        rg_tensor *x = rg_randn(3), *y = rg_rand(700),
                  *z = rg_randn_dims(RG_DIMS(33), RG_FLOAT64, g);
        ck_assert(rg_generator_set_state(other, state));
        ck_assert(rg_equal(x, rg_randn_dims(RG_DIMS(3), RG_FLOAT32, other)));
        ck_assert(rg_equal(y, rg_rand_dims(RG_DIMS(700), RG_FLOAT32, other)));
        ck_assert(rg_equal(z, rg_randn_dims(RG_DIMS(33), RG_FLOAT64, other)));
        ck_assert(state_of(g) == state_of(other));
        state = rg_generator_state(g);
    }
    rg_generator_free(other);
}
END_TEST

/* The state counts how many words of a block of 624 are left. Each count is tried, from a whole
 * block on. */
START_TEST(test_states_within_a_block) {
    RG_SCOPE();
    rg_generator *g = rg_generator_new(5), *other = rg_generator_new(0);
    for (int drawn = 1; drawn <= 1300; drawn++) {
        RG_SCOPE();
        rg_rand_dims(RG_DIMS(1), RG_FLOAT32, g);
        ck_ok(rg_generator_set_state(other, rg_generator_state(g)));
        ck_each(state_of(g) == state_of(other), "after %d words", drawn);
    }
    rg_generator_free(g);
    rg_generator_free(other);
}
END_TEST

/* bernoulli gives 0 for a uniform that equals the probability. In multinomial such a uniform
 * belongs to the category whose interval ends there. */
START_TEST(test_draws_at_the_edge) {
    RG_SCOPE();
    rg_generator *g = rg_generator_new(3);
    const double u = *(double *)rg_rand_dims(RG_DIMS(1), RG_FLOAT64, g)->data;
    rg_tensor *chance = rg_full_dims(RG_DIMS(1), u, RG_FLOAT64);
    rg_tensor *above = rg_full_dims(RG_DIMS(1), nextafter(u, 1), RG_FLOAT64);
    rg_tensor *shares = rg_from(((double[]){ u, 1 - u }), 2);
    rg_tensor *below = rg_from(((double[]){ nextafter(u, 0), 1 - nextafter(u, 0) }), 2);
    for (int way = 0; way < 6; way++) {
        rg_tensor *t = rg_zeros(1);
        ck_assert(rg_generator_seed(g, 3));
        if (way < 2)
            rg_bernoulli_with_(t, way ? nextafter(u, 1) : u, g);
        else if (way < 4)
            t = rgi_draw_bernoulli(way == 3 ? above : chance, g);
        else
            t = rg_multinomial_with(way == 5 ? below : shares, 2, true, g);
        ck_assert_msg(rgi_load_f64(t->data, t->dtype) == way % 2, "way %d", way);
    }
    rg_generator_free(g);
}
END_TEST

/* Weights as small as these give many equal ratios. For one draw torch takes the first of the
 * largest ratios. For several draws it may take another of them. */
START_TEST(test_draws_among_equals) {
    static const int one[] = { 41, 0, 41, 32, 13, 22, 19, 16 };
    static const int first_of_two[] = { 47, 0, 41, 32, 13, 22, 19, 16 };
    for (int seed = 0; seed < RG_COUNT(one); seed++) {
        RG_SCOPE();
        rg_tensor *w = rg_full(RG_DIMS(50), 1e-45);
        rg_manual_seed((uint64_t)seed);
        ck_assert_int_eq((int)rg_at(rg_multinomial(w, 1, false), 0), one[seed]);
        rg_manual_seed((uint64_t)seed);
        ck_assert_int_eq((int)rg_at(rg_multinomial(w, 2, false), 0), first_of_two[seed]);
    }
}
END_TEST

/* Normals and uniforms with parameters are the standard ones, scaled and shifted. */
START_TEST(test_scaled) {
    static const double pairs[][2] = {
        { 0, 1 }, { 0, 2 }, { 1, 1 }, { 1, 2 }, { 2, 3 }, { -1, 0 },
    };
    for (int i = 0; i < RG_COUNT(pairs) * 4; i++) {
        RG_SCOPE();
        const double a = pairs[i / 4][0], b = pairs[i / 4][1];
        const rg_dtype dtype = i % 2 ? RG_FLOAT64 : RG_FLOAT32;
        /* From 16 elements on, normals are drawn in blocks. */
        const rg_dims size = RG_DIMS(i / 2 % 2 ? 40 : 5);
        rg_manual_seed(7);
        rg_tensor *z = rg_randn_dims(size, dtype, rg_default_generator());
        rg_manual_seed(7);
        rg_tensor *normal = rg_normal_(rg_zeros_dims(size, dtype), a, fabs(b));
        rg_manual_seed(7);
        rg_tensor *u = rg_rand_dims(size, dtype, rg_default_generator());
        rg_manual_seed(7);
        rg_tensor *uniform = rg_uniform_(rg_zeros_dims(size, dtype), a, b);
        for (int64_t k = 0; k < size.v[0]; k++) {
            ck_each(fabs(rg_at(normal, k) - (rg_at(z, k) * b + a)) < 1e-6, "%g, %g: %d", a, b,
                    (int)k);
            ck_each(fabs(rg_at(uniform, k) - (rg_at(u, k) * (b - a) + a)) < 1e-6, "%g, %g: %d", a,
                    b, (int)k);
        }
    }
}
END_TEST

/* A uniform that is rounded up to the upper bound becomes the lower bound, as in torch. `lowest` is
 * the number of lower bounds among 1000 uniforms from seed 3. */
START_TEST(test_rounded_up) {
    static const struct {
        double low, high;
        rg_dtype dtype;
        int lowest;
    } rows[] = {
        { 1, 1 + 0x1p-23, RG_FLOAT32, 1000 },
        { 16777216, 16777220, RG_FLOAT32, 498 },
        { -16777220, -16777216, RG_FLOAT32, 498 },
        { 1, 1 + 0x1p-52, RG_FLOAT64, 1000 },
        { 0, 1, RG_FLOAT32, 0 },
    };
    for (int i = 0; i < RG_COUNT(rows); i++)
        for (int64_t n = 1; n <= 1000; n += n < 20 ? 1 : 490) {
            RG_SCOPE();
            rg_manual_seed(3);
            rg_tensor *x = rg_uniform_(rg_zeros_dims(RG_DIMS(n), rows[i].dtype), rows[i].low,
                                       rows[i].high);
            int lowest = 0;
            for (int64_t k = 0; k < n; k++) {
                ck_each(rg_at(x, k) >= rows[i].low && rg_at(x, k) < rows[i].high, "%g in [%g, %g)",
                        rg_at(x, k), rows[i].low, rows[i].high);
                lowest += rg_at(x, k) == rows[i].low;
            }
            ck_assert_msg(n < 1000 || lowest == rows[i].lowest, "%d are low", lowest);
        }
}
END_TEST

/* The values are torch's for seed 3. If more than 0.3 of the distribution lies between the bounds,
 * normals are drawn until one lies there. Otherwise uniforms are drawn. */
START_TEST(test_truncated) {
    static const struct {
        double mean, std, low, high, values[4];
    } rows[] = {
        { 0, 1, -0.5, 0.5, { 0.046182, 0.174833, 0.088978, -0.079854 } },
        { 0, 1, -0.38, 0.38, { -0.354078, -0.162077, 0.207415, -0.247055 } },
        { 0.7, 2, -1, 1.5, { 0.792365, 1.049667, 0.877956, -0.527436 } },
        { 0.7, 2, 0, 1, { 0.034108, 0.286740, 0.772915, 0.174927 } },
        { -1, 0.5, -0.5, 1, { -0.448838, -0.373051, -0.302292, -0.237609 } },
        { 2, 1, -1, 1.2, { 1.055246, 0.712809, 0.700413, 0.307768 } },
        { 0, 2, -2, -0.5, { -1.392737, -1.569890, -0.840628, -1.737609 } },
    };
    for (int i = 0; i < RG_COUNT(rows); i++) {
        RG_SCOPE();
        rg_manual_seed(3);
        rg_tensor *x = rg_zeros_dims(RG_DIMS(4), RG_FLOAT64);
        ck_ok(rg_trunc_normal_(x, rows[i].mean, rows[i].std, rows[i].low, rows[i].high));
        for (int k = 0; k < 4; k++)
            ck_each(fabs(rg_at(x, k) - rows[i].values[k]) < 1e-6, "row %d: %g, not %g", i,
                    rg_at(x, k), rows[i].values[k]);
    }
}
END_TEST

/* If a float type rounds low + 1 or high - 1 to a number outside the range, this bound becomes the
 * type's nearest number inside the range. */
START_TEST(test_rounded_ranges) {
    static const int64_t whole[] = { 1ll << 26, 1ll << 55 };
    for (int i = 0; i < 2; i++) {
        RG_SCOPE();
        const rg_dtype dtype = i ? RG_FLOAT64 : RG_FLOAT32;
        rg_generator *g = rg_default_generator();
        rg_tensor *low = rg_randint_dims(-whole[i] - 6, -whole[i] + 1, RG_DIMS(9), dtype, g);
        rg_tensor *high = rg_randint_dims(whole[i] - 1, whole[i] + 6, RG_DIMS(9), dtype, g);
        ck_assert(rg_equal(low, rg_full_dims(RG_DIMS(9), (double)-whole[i], dtype)));
        ck_assert(rg_equal(high, rg_full_dims(RG_DIMS(9), (double)whole[i], dtype)));
        /* last + 1 is rounded to `last`, so the range still begins at `last`. */
        const int64_t last = i ? 1ll << 53 : 1ll << 24;
        rg_tensor *from = rg_randint_dims(last, last + 4, RG_DIMS(9), dtype, g);
        ck_assert(rg_equal(from, rg_full_dims(RG_DIMS(9), (double)last, dtype)));
    }
}
END_TEST

START_TEST(test_bad_states) {
    RG_SCOPE();
    rg_generator *g = rg_default_generator();
    rg_tensor *state = rg_generator_state(g);
    int64_t *word = (int64_t *)state->data, good[3];
    memcpy(good, word, sizeof good);
    uint64_t before = state_of(g);
    ck_fails(rg_generator_set_state(g, rg_zeros_dims(RG_DIMS(632), RG_INT64)), RG_RUNTIME_ERROR,
             "Invalid mt19937 state");
    static const int64_t bad[][2] = { { 1, 0 },
                                      { 1ll << 32, 0 },
                                      { 1ll << 32 | 625, 0 },
                                      { 1ll << 32 | 5, 621 },
                                      { 1ll << 32 | 1, -1 },
                                      { -1, 0 } };
    for (int i = 0; i < RG_COUNT(bad); i++) {
        memcpy(word + 1, bad[i], sizeof bad[i]);
        ck_fails(rg_generator_set_state(g, state), RG_RUNTIME_ERROR, "Invalid mt19937 state");
    }
    ck_assert(state_of(g) == before);
    memcpy(word, good, sizeof good);
    ck_assert(rg_generator_set_state(g, state));
    ck_fails(rg_generator_set_state(NULL, state), RG_TYPE_ERROR,
             "expected a generator but got NULL");
}
END_TEST

START_TEST(test_errors) {
    RG_SCOPE();
    rg_tensor *x = rg_zeros(3), *i = rg_zeros_dims(RG_DIMS(3), RG_INT64),
              *b = rg_zeros_dims(RG_DIMS(3), RG_BOOL);
    rg_tensor *d = rg_zeros_dims(RG_DIMS(3), RG_FLOAT64);
    rg_tensor *one = rg_zeros(1), *state = rg_generator_state(rg_default_generator());
    uint64_t before = state_of(rg_default_generator());
    ck_fails(rg_uniform_(x, 2, 1), RG_RUNTIME_ERROR,
             "uniform_: uniform_ expects to return a [from, to) range, but found from=2 > to=1");
    ck_fails(rg_uniform_(x, -0.1, -1e10), RG_RUNTIME_ERROR, "found from=-0.1 > to=-1e+10");
    ck_fails(rg_uniform_(x, NAN, 1), RG_RUNTIME_ERROR, "from is out of bounds for float");
    ck_fails(rg_uniform_(x, 0, 1e39), RG_RUNTIME_ERROR, "to is out of bounds for float");
    ck_fails(rg_uniform_(d, -INFINITY, 0), RG_RUNTIME_ERROR, "from is out of bounds for double");
    ck_fails(rg_uniform_(x, -3e38, 3e38), RG_RUNTIME_ERROR,
             "uniform_ expects to-from <= std::numeric_limits<Float>::max"
             "(), but found to=3e+38 and from=-3e+38 which result in to-from to exceed the limit");
    ck_fails(rg_uniform_(d, -1e308, 1.7e308), RG_RUNTIME_ERROR,
             "std::numeric_limits<Double>::max()");
    ck_fails(rg_uniform_(i, 0, 1), RG_NOT_IMPLEMENTED, "not implemented for 'Long'");
    ck_fails(rg_normal_(x, 0, -1), RG_RUNTIME_ERROR,
             "normal_: normal expects std >= 0.0, but found std -1");
    ck_fails(rg_normal_(x, 0, NAN), RG_RUNTIME_ERROR,
             "normal expects std >= 0.0, but found std nan");
    ck_fails(rg_normal_(b, 0, 1), RG_NOT_IMPLEMENTED, "not implemented for 'Bool'");
    ck_fails(rg_exponential_(x, 0), RG_RUNTIME_ERROR,
             "exponential_ expects lambda > 0.0, but found lambda=0");
    ck_fails(rg_exponential_(i, 1), RG_RUNTIME_ERROR,
             "Exponential distribution is a continuous probability "
             "distribution. dtype must be a floating point but you specified Long");
    ck_fails(rg_bernoulli_(x, 1.5), RG_RUNTIME_ERROR,
             "bernoulli_ expects p to be in [0, 1], but got p=1.5");
    ck_fails(rg_bernoulli_(x, NAN), RG_RUNTIME_ERROR,
             "bernoulli_ expects p to be in [0, 1], but got p=nan");
    rg_generator *g = rg_default_generator();
    ck_fails(rgi_draw_bernoulli(rg_full(RG_DIMS(2), 2.0), g), RG_RUNTIME_ERROR,
             "Expected p_in >= 0 && p_in <= 1 to be true");
    ck_fails(rgi_draw_bernoulli(rg_full(RG_DIMS(2), NAN), g), RG_RUNTIME_ERROR,
             "Expected p_in >= 0 && p_in <= 1 to be true");
    ck_fails(rgi_draw_bernoulli(i, g), RG_NOT_IMPLEMENTED, "not implemented for 'Long'");
    ck_fails(rg_randint_dims((1ll << 53) + 1, (1ll << 53) + 9, RG_DIMS(2), RG_FLOAT32,
                             rg_default_generator()),
             RG_RUNTIME_ERROR,
             "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
             "from=9007200328482816 >= to=9007199254741001");
    ck_fails(rg_randint_dims(0, 3, RG_DIMS(2), RG_BOOL, rg_default_generator()), RG_RUNTIME_ERROR,
             "to - 1 is out of bounds for bool");
    ck_fails(rg_randint_dims(0, 65506, RG_DIMS(2), RG_FLOAT16, rg_default_generator()),
             RG_RUNTIME_ERROR, "to - 1 is out of bounds for c10::Half");
    ck_fails(rg_randint_dims(-70000, 3, RG_DIMS(2), RG_FLOAT16, rg_default_generator()),
             RG_RUNTIME_ERROR, "from is out of bounds for c10::Half");
    ck_ok(rg_randint_dims(-65504, 65505, RG_DIMS(2), RG_FLOAT16, rg_default_generator()));
    ck_ok(rg_randint_dims(INT64_MIN, INT64_MAX, RG_DIMS(2), RG_BFLOAT16, rg_default_generator()));
    ck_fails(rg_rand(INT64_MAX), RG_RUNTIME_ERROR, "Storage size calculation overflowed");
    ck_fails(rg_randn(1ll << 40, 1ll << 40), RG_RUNTIME_ERROR, "overflow");
    ck_fails(rg_rand_dims((rg_dims){ .n = 99 }, RG_FLOAT32, rg_default_generator()),
             RG_RUNTIME_ERROR, "dimensions");
    ck_fails(rg_trunc_normal_(x, 0, 0, -2, 2), RG_RUNTIME_ERROR, "trunc_normal_: division by zero");
    ck_fails(rg_trunc_normal_(x, 0, 1, 2, -2), RG_RUNTIME_ERROR,
             "uniform_ expects to return a [from, to) range");
    rg_manual_seed(0); /* Another seed might give a normal below -5. */
    ck_fails(rg_trunc_normal_(one, 0, 1, -1e30, -5), RG_RUNTIME_ERROR,
             "rounds were not enough: almost nothing in "
             "[-1e+30, -5] is likely");
    rg_generator_set_state(rg_default_generator(), state);
    ck_fails(rg_trunc_normal_(i, 0, 1, -2, 2), RG_NOT_IMPLEMENTED, "not implemented for 'Long'");
    ck_fails(rg_trunc_normal_(b, 0, 1, 2, 3), RG_NOT_IMPLEMENTED, "not implemented for 'Bool'");
    /* A call that failed drew no number. */
    ck_assert(state_of(rg_default_generator()) == before);
    ck_assert(rg_version(x) == 0 && rg_version(one) == 0);
}
END_TEST

START_TEST(test_multinomial_errors) {
    RG_SCOPE();
    rg_tensor *negative = rg_literal([ 1.0, -2.0 ]);
    rg_tensor *nan = rg_full(RG_DIMS(2), NAN), *infinite = rg_full(RG_DIMS(2), INFINITY),
              *zero = rg_zeros(2, 2);
    ck_fails(rg_multinomial(rg_ones((1 << 24) + 1), 1, true), RG_RUNTIME_ERROR,
             "number of categories cannot exceed 2^24");
    /* The error is about the first fault. In a row, negative weights come before the row's sum and
     * before infinite ones. */
    ck_fails(rg_multinomial(rg_literal([ -1.0, inf ]), 2, true), RG_RUNTIME_ERROR,
             "invalid multinomial distribution (encountering probability entry < 0)");
    ck_fails(rg_multinomial(rg_literal([ [ 0.0, 0.0 ], [ -1.0, 2.0 ] ]), 2, true), RG_RUNTIME_ERROR,
             "invalid multinomial distribution (sum of probabilities <= 0)");
    for (int draws = 1; draws < 3; draws++) {
        const char *distinct = "probability tensor contains either `inf`, `nan` or element < 0";
        bool again = draws == 2;
        ck_fails(rg_multinomial(negative, draws, false), RG_RUNTIME_ERROR, distinct);
        ck_fails(rg_multinomial(negative, draws, true), RG_RUNTIME_ERROR,
                 again ? "invalid multinomial distribution (encountering probability entry < 0)"
                       : distinct);
        ck_fails(rg_multinomial(nan, draws, true), RG_RUNTIME_ERROR,
                 again ? "invalid multinomial distribution (encountering probability entry < 0)"
                       : distinct);
        ck_fails(
            rg_multinomial(infinite, draws, true), RG_RUNTIME_ERROR,
            again ? "invalid multinomial distribution (encountering probability entry = infinity "
                    "or NaN)"
                  : distinct);
        ck_fails(rg_multinomial(zero, draws, again), RG_RUNTIME_ERROR,
                 "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    ck_fails(rg_multinomial(rg_zeros(3, 0), 2, true), RG_RUNTIME_ERROR,
             "sum of probabilities <= 0");
    /* Each row is summed on its own. */
    for (int draws = 1; draws < 4; draws++)
        ck_fails(
            rg_multinomial(rg_literal([ [ 1.0, 1.0, 1.0 ], [ 0.0, 0.0, 0.0 ] ]), draws, draws != 3),
            RG_RUNTIME_ERROR, "sum of probabilities <= 0");
    /* With replacement, a row is checked after the rows before it were drawn. Without replacement,
     * all weights are checked first. */
    rg_tensor *faults = rg_literal([ [ 0.0, 0.0 ], [ -1.0, 1.0 ] ]);
    ck_fails(rg_multinomial(faults, 2, true), RG_RUNTIME_ERROR, "sum of probabilities <= 0");
    ck_fails(rg_multinomial(faults, 2, false), RG_RUNTIME_ERROR,
             "probability tensor contains either `inf`, `nan` or element < 0");
    /* These weights are accepted: equal ones, a last weight of 0, and a sum that is infinite. */
    ck_ok(rg_multinomial(rg_ones(2), 5, true));
    ck_ok(rg_multinomial(rg_literal([ 1.0, 0.0 ]), 5, true));
    rg_tensor *last = rg_multinomial(rg_full(RG_DIMS(2), 3e38), 5, true);
    ck_assert(rg_equal(last, rg_full(RG_DIMS(5), 1)));
    rg_tensor *none = rg_multinomial(rg_zeros(0, 3), 2, false);
    ck_assert(none->size[0] == 0 && none->size[1] == 2);
    none = rg_multinomial(rg_zeros(0, 0), 2, true);
    ck_assert(none->size[0] == 0 && none->size[1] == 2);
    ck_fails(rg_multinomial(rg_zeros(0), 2, true), RG_RUNTIME_ERROR, "sum of probabilities <= 0");
    ck_ok(rg_multinomial(rg_zeros(0, 1 << 24), 2, true));
    ck_fails(rg_multinomial(rg_zeros(0, (1 << 24) + 1), 2, true), RG_RUNTIME_ERROR,
             "number of categories cannot exceed 2^24");
}
END_TEST

static bool refuse(rg_tensor *t, const char *op) {
    const char *name = rgi_name_of(t);
    return !name || rgi_fail(RG_RUNTIME_ERROR, op, "%s may not be written to", name);
}

START_TEST(test_writes) {
    RG_SCOPE();
    rg_tensor *x = rg_zeros(3), *wide = rg_zeros(1);
    ck_assert_ptr_eq(rg_uniform_(x, 0, 1), x);
    rg_normal_(x, 0, 1);
    rg_trunc_normal_(x, 0, 1, -2, 2);
    rg_exponential_(x, 1);
    rg_bernoulli_(x, 0.5);
    ck_assert_int_eq(rg_version(x), 5);
    ck_assert_str_eq(x->storage->mutation, "bernoulli_");
    wide->size[0] = 4;
    wide->stride[0] = 0;
    rgi_update_flags(wide);
    const char *overlaps =
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation.";
    ck_fails(rg_uniform_(wide, 0, 1), RG_RUNTIME_ERROR, overlaps);
    ck_fails(rg_normal_(wide, 0, 1), RG_RUNTIME_ERROR, overlaps);
    ck_fails(rg_bernoulli_(wide, 0.5), RG_RUNTIME_ERROR, overlaps);
    ck_fails(rg_uniform_(NULL, 0, 1), RG_TYPE_ERROR, "uniform_: expected a tensor but got NULL");

    bool (*before)(rg_tensor * t, const char *op) = rgi_write_guard;
    rgi_write_guard = refuse;
    rg_set_name(x, "weight");
    ck_fails(rg_exponential_(x, 1), RG_RUNTIME_ERROR, "exponential_: weight may not be written to");
    rgi_write_guard = before;
    ck_assert_int_eq(rg_version(x), 5);
}
END_TEST

START_TEST(test_large_permutation) {
    if (!getenv("REGARD_LARGE"))
        return; /* The rest of the test needs 1.7 GB. */
    RG_SCOPE();
    static const int64_t torchs[] = {
        50815193, 116864026, 18612126, 8421410, 157113196, 174023950
    };
    rg_manual_seed(3);
    rg_tensor *p = rg_randperm(214748364);
    for (int i = 0; i < RG_COUNT(torchs); i++)
        ck_assert_int_eq(((int64_t *)p->data)[i], torchs[i]);
}
END_TEST

/* Calls the function on a tensor that exists, so that only the call itself requests memory. */
static rg_tensor *called_on(rg_tensor *x, const golden *r, bool again) {
    rg_generator *g = rg_default_generator();
    if (strcmp(r->kind, "bernoulli") == 0)
        return rgi_draw_bernoulli(x, g);
    if (strcmp(r->kind, "multinomial") == 0)
        return rg_multinomial_with(x, 3, again, g);
    if (strcmp(r->kind, "trunc_normal_") == 0)
        return rg_trunc_normal_with_(x, 0, 1, again ? 1 : 0, 2, g);
    return called(r, g);
}

/* Denies the first request for memory, then the second, and so on, until the call succeeds. */
START_TEST(test_out_of_memory) {
    static const char *const kinds[] = { "rand",      "randn",       "randint",      "randperm",
                                         "bernoulli", "multinomial", "trunc_normal_" };
    for (int i = 0; i < RG_COUNT(kinds) * 2; i++) {
        RG_SCOPE();
        bool again = i >= RG_COUNT(kinds), done = false;
        golden r = { .kind = kinds[i % RG_COUNT(kinds)], .dtype = RG_FLOAT32, .n = { 0, 9 } };
        r.size = RG_DIMS(5, 4);
        r.stride = RG_DIMS(1, 7);
        if (strcmp(r.kind, "randint") == 0)
            r.dtype = RG_INT64;
        if (strcmp(r.kind, "randperm") == 0)
            r.n[0] = 9;
        rg_tensor *x = strcmp(r.kind, "trunc_normal_") == 0 ? placed(&r) : chances(&r);
        for (int n = 1; !done; n++) {
            RG_SCOPE();
            int64_t live = rg_live_tensors();
            rg_error_clear();
            rg_memory_fail_at(n);
            rg_tensor *y = called_on(x, &r, again);
            rg_memory_fail_at(0);
            ck_assert_msg(y || rg_error_code() == RG_OUT_OF_MEMORY, "%s", rg_error());
            done = y != NULL;
            ck_assert_msg(!y || rg_error_code() == RG_OK, "%s: %s", r.kind, rg_error());
            if (!done)
                ck_assert_int_eq(rg_live_tensors(), live);
        }
    }
}
END_TEST

static rg_generator *common;
static void *draw_many(void *sum) {
    for (int i = 0; i < 2000; i++) {
        RG_SCOPE();
        rg_tensor *t = rg_randint_dims(0, 1 << 20, RG_DIMS(3), RG_INT64, common);
        for (int k = 0; k < 3; k++)
            *(int64_t *)sum += ((int64_t *)t->data)[k];
        if (rg_initial_seed() != 9)
            *(int64_t *)sum = INT64_MIN;
    }
    return NULL;
}

/* If several threads draw from one stream, each word is drawn once. */
START_TEST(test_threads_share_the_stream) {
    RG_SCOPE();
    rg_generator *own = rg_generator_new(9);
    int64_t alone = 0;
    rg_tensor *t = rg_randint_dims(0, 1 << 20, RG_DIMS(18000), RG_INT64, own);
    for (int i = 0; i < 18000; i++)
        alone += ((int64_t *)t->data)[i];
    rg_manual_seed(9);
    rg_generator_seed(own, 9);
    for (int which = 0; which < 2; which++) {
        pthread_t thread[3];
        int64_t sum[3] = { 0 };
        common = which ? own : rg_default_generator();
        for (int i = 0; i < 3; i++)
            pthread_create(&thread[i], NULL, draw_many, &sum[i]);
        for (int i = 0; i < 3; i++)
            pthread_join(thread[i], NULL);
        ck_assert_int_eq(sum[0] + sum[1] + sum[2], alone);
    }
    rg_generator_free(own);
}
END_TEST

START_TEST(test_generators_need_memory) {
    int64_t other = rg_memory_stats().other;
    rg_memory_fail_at(1);
    ck_fails(rg_generator_new(7), RG_OUT_OF_MEMORY, "out of memory");
    rg_memory_fail_at(0);
    ck_assert_int_eq(rg_memory_stats().other, other);
    rg_generator *g = rg_generator_new(7);
    ck_ok(g);
    rg_memory_fail_at(1);
    ck_fails(rg_generator_state(g), RG_OUT_OF_MEMORY, "out of memory");
    rg_memory_fail_at(0);
    rg_generator_free(g);
}
END_TEST

RG_TESTS(random, test_first_use_is_torchs_default_seed, test_torch_streams,
         test_generators_are_apart, test_state_restores, test_states_within_a_block,
         test_draws_at_the_edge, test_draws_among_equals, test_scaled, test_truncated,
         test_rounded_up, test_rounded_ranges, test_bad_states, test_errors,
         test_multinomial_errors, test_writes, test_large_permutation, test_out_of_memory,
         test_threads_share_the_stream, test_generators_need_memory)

/*
 * ulp.c: measures the errors of functions of one tensor (references.h), in units in the last place
 * (ulp), beside those of the C library and of PyTorch.
 *
 *     ulp list                     prints the names of the functions
 *     ulp float32 STEP TO NAME     measures each STEPth of the 2^32 inputs
 *     ulp float64 FILE TO NAME     measures 2^20 hard inputs, which it writes to FILE.NAME
 *
 * The row of the table goes to the file TO.NAME, which is there when the function is done.
 *
 * In float32 the reference is a double. MPFR checks it for 4096 inputs and for those with the
 * greatest errors: it must be right to 1e-5 ulp. Where the result lies so near to the middle of two
 * floats that the double can't tell which one is nearer, MPFR does. In float64 the reference is
 * MPFR. The hard inputs are random bits, and numbers near multiples of pi / 2, near 0 and 1, and
 * near the limits beyond which results overflow, underflow or become constant.
 *
 * The unit is that of the exact result, or that of the least normal number if this is greater. A
 * result that is infinite counts as the power of two above the largest number. The mean is over
 * inputs whose exact result is neither 0, nor NaN, nor too large. The share that is rounded right
 * is of all inputs. The values of PyTorch come from torch_values.py, if Python and PyTorch are
 * here.
 */
#include "references.h"
#include "tensor/base.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 1 << 18, HARD = 1 << 20, REGARD = 0, LIBC, TORCH, LIBRARIES };

typedef struct {
    double worst, at; /* The greatest error, and its input. */
    double sum;
    int64_t counted; /* The inputs that the sum is of. */
    int64_t n, right;
} errors;

static errors all[LIBRARIES];
static bool present[LIBRARIES];

static mpfr_t exact_x, exact_y, got_y;

static void fail(const char *why, const char *what) {
    fprintf(stderr, "ulp: %s %s\n", what, why);
    exit(1);
}

static void add_error(errors *e, double error, double x, bool counts, bool right) {
    e->n++;
    e->right += right;
    if (counts) {
        e->counted++;
        e->sum += error;
    }
    if (error > e->worst) {
        e->worst = error;
        e->at = x;
    }
}

/* ---- float32 --------------------------------------------------------------------------------- */

static const double most_float = 0x1p128;

static double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns 1 / ulp of y in float32. */
static double units(double y) {
    uint64_t bits;
    memcpy(&bits, &y, sizeof bits);
    const int64_t field = (int64_t)(bits >> 52 & 2047);
    const int64_t least = 1023 - 126;
    return from_bits((uint64_t)(2 * 1023 + 23 - (field < least ? least : field)) << 52);
}

static double limited(double y) {
    const double below = y > most_float ? most_float : y;
    return below < -most_float ? -most_float : below;
}

/* Returns the error of y in ulp. A NaN in one of the two is an infinite error. */
static double error_in(double y, double exact) {
    if (y != y || exact != exact)
        return y != y && exact != exact ? 0 : INFINITY;
    return fabs(limited(y) - limited(exact)) * units(limited(exact));
}

static void find_exact(const measured *f, double x) {
    mpfr_set_d(exact_x, x, MPFR_RNDN);
    f->exact(exact_y, exact_x, MPFR_RNDN);
}

/* Returns the float that is nearest to the exact result, for which `y` stands. */
static float nearest(const measured *f, float x, double y) {
    const double t = fabs(y) * units(y);
    if (!(t < 0x1p25) || fabs(t - (double)(int64_t)t - 0.5) > 1e-5)
        return (float)y;
    find_exact(f, x);
    return mpfr_get_flt(exact_y, MPFR_RNDN);
}

static void check_reference(const measured *f, double x, double y) {
    find_exact(f, x);
    const double error = error_in(y, mpfr_get_d(exact_y, MPFR_RNDN));
    if (!(error < 1e-5))
        fprintf(stderr, "ulp: the reference of %s(%a) is %a, %g ulp off\n", f->name, x, y, error);
    if (!(error < 1e-5))
        exit(1);
}

/* ---- float64 --------------------------------------------------------------------------------- */

/* Sets t to y, and to a power of two if y is too large for a double. */
static void limit(mpfr_t t) {
    if (mpfr_inf_p(t) || (mpfr_regular_p(t) && mpfr_get_exp(t) > 1024)) {
        const int sign = mpfr_signbit(t) ? -1 : 1;
        mpfr_set_si_2exp(t, sign, 1024, MPFR_RNDN);
    }
}

/* Returns the error of y, where exact_y is exact. */
static double error_in_double(double y) {
    if (y != y || mpfr_nan_p(exact_y))
        return y != y && mpfr_nan_p(exact_y) ? 0 : INFINITY;
    mpfr_set_d(got_y, y, MPFR_RNDN);
    limit(got_y);
    limit(exact_y);
    const bool regular = mpfr_regular_p(exact_y);
    const long exponent = regular ? (long)mpfr_get_exp(exact_y) - 1 : -1022;
    mpfr_sub(got_y, got_y, exact_y, MPFR_RNDN);
    mpfr_mul_2si(got_y, got_y, 52 - (exponent < -1022 ? -1022 : exponent), MPFR_RNDN);
    return fabs(mpfr_get_d(got_y, MPFR_RNDN));
}

static uint64_t state = 1;

/* SplitMix64 */
static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int draw_below(int n) { return (int)(draw() % (uint64_t)n); }
static double draw_sign(void) { return draw_below(2) ? 1 : -1; }

/* Returns a number from 1 to 2. */
static double draw_mantissa(void) { return from_bits(draw() >> 12 | (uint64_t)1023 << 52); }

/* Returns the double that is nearest to a multiple of pi / 2, or one of its neighbours. */
static double near_quarter_turn(void) {
    mpfr_const_pi(exact_y, MPFR_RNDN);
    mpfr_mul_d(exact_y, exact_y, 1 + (double)(draw() >> (24 + draw_below(40))), MPFR_RNDN);
    mpfr_div_ui(exact_y, exact_y, 2, MPFR_RNDN);
    const double x = mpfr_get_d(exact_y, MPFR_RNDN);
    const int step = draw_below(3);
    return step ? nextafter(x, step > 1 ? INFINITY : 0) : x;
}

/* The functions overflow, underflow or become constant beyond these numbers. */
static const double limits[] = { 709.78, -708.4, -745.13, 1024, -1022, -1074, 710.4758, 26.54,
                                 27.23,  5.92,   19.06,   36.7, -37.5, 0.5,   3,        -3 };

static double hard_input(int kind) {
    const double near = ldexp(draw_sign(), -1 - draw_below(53));
    switch (kind) {
    case 0: return draw_sign() * near_quarter_turn();
    case 1: return draw_sign() * ldexp(draw_mantissa(), -1 - draw_below(60));
    case 2: return draw_sign() * (1 + near);
    case 3: return limits[draw_below(RG_COUNT(limits))] * (1 + near);
    case 4: return draw_sign() * 30 * (draw_mantissa() - 1);
    default: return from_bits(draw());
    }
}

/* ---- a function ------------------------------------------------------------------------------ */

static FILE *torch;

/* Begins to read PyTorch's results for these inputs: a step, or a file. */
static void begin_torch(const char *dtype, const char *name, const char *inputs) {
    char command[4096];
    snprintf(command, sizeof command, "python3 tests/ulp/torch_values.py %s %s '%s'", dtype, name,
             inputs);
    torch = popen(command, "r");
}

/* Fills y[] with the results of all libraries for n inputs of this dtype. */
static void call_all(const measured *f, rg_dtype dtype, int n, const void *x,
                     void *const y[LIBRARIES]) {
    RG_SCOPE();
    const bool wide = dtype == RG_FLOAT64;
    const size_t bytes = (size_t)n * (wide ? sizeof(double) : sizeof(float));
    rg_tensor *result = f->regard(rg_from_dims(x, dtype, RG_DIMS(n)));
    if (!result)
        fail("fails", f->name);
    memcpy(y[REGARD], rg_data(result), bytes);
    for (int i = 0; i < n && f->libc; i++) {
        if (wide)
            ((double *)y[LIBC])[i] = f->in_double(((const double *)x)[i]);
        else
            ((float *)y[LIBC])[i] = f->libc(((const float *)x)[i]);
    }
    present[REGARD] = true;
    present[LIBC] = f->libc != NULL;
    present[TORCH] = torch && fread(y[TORCH], 1, bytes, torch) == bytes;
}

static void measure_floats(const measured *f, int n, const float *x, float *const y[], bool check) {
    const double before = all[REGARD].worst;
    for (int i = 0; i < n; i++) {
        const double exact = f->in_double(x[i]);
        const bool counts = exact != 0 && fabs(exact) < most_float;
        const float right = nearest(f, x[i], exact);
        for (int l = 0; l < LIBRARIES; l++)
            if (present[l])
                add_error(&all[l], error_in(y[l][i], exact), x[i], counts,
                          y[l][i] == right || (right != right && y[l][i] != y[l][i]));
    }
    if (check)
        check_reference(f, x[0], f->in_double(x[0]));
    if (all[REGARD].worst > before)
        check_reference(f, all[REGARD].at, f->in_double(all[REGARD].at));
}

/* The unit of this loop is a part, of which the first input is checked. */
static void measure_float32(const measured *f, uint64_t step) {
    static float x[PART], y[LIBRARIES][PART];
    float *const of[] = { y[0], y[1], y[2] };
    const uint64_t n = ((uint64_t)1 << 32) / step + (((uint64_t)1 << 32) % step != 0);
    const uint64_t part = n / 4096 < PART ? n / 4096 + 1 : PART;
    for (uint64_t begin = 0; begin < n; begin += part) {
        const int size = (int)(n - begin < part ? n - begin : part);
        for (int i = 0; i < size; i++) {
            const uint32_t bits = (uint32_t)((begin + (uint64_t)i) * step);
            memcpy(&x[i], &bits, sizeof bits);
        }
        call_all(f, RG_FLOAT32, size, x, (void *const[]){ y[0], y[1], y[2] });
        measure_floats(f, size, x, of, true);
    }
}

static void measure_float64(const measured *f, const char *path) {
    static double x[HARD], y[LIBRARIES][HARD];
    for (int i = 0; i < HARD; i++)
        x[i] = hard_input(i % 8);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(x, sizeof x, 1, file) != 1 || fclose(file))
        fail("can't be written", path);
    begin_torch("float64", f->name, path);
    call_all(f, RG_FLOAT64, HARD, x, (void *const[]){ y[0], y[1], y[2] });
    for (int i = 0; i < HARD; i++) {
        find_exact(f, x[i]);
        const double right = mpfr_get_d(exact_y, MPFR_RNDN);
        const bool counts = right != 0 && isfinite(right);
        for (int l = 0; l < LIBRARIES; l++)
            if (present[l])
                add_error(&all[l], error_in_double(y[l][i]), x[i], counts,
                          y[l][i] == right || (right != right && y[l][i] != y[l][i]));
    }
}

/* ---- the row --------------------------------------------------------------------------------- */

static void write_number(FILE *to, double x) { fprintf(to, x < 1000 ? "%.3f" : "%.1e", x); }

static void write_cells(FILE *to, const char *name, const char *inputs) {
    fprintf(to, "| `%s` | %s |", name, inputs);
    for (int l = 0; l < LIBRARIES; l++) {
        if (!present[l]) {
            fprintf(to, " | |");
            continue;
        }
        fprintf(to, " ");
        write_number(to, all[l].worst);
        fprintf(to, " | ");
        write_number(to, all[l].counted ? all[l].sum / (double)all[l].counted : 0);
        fprintf(to, " |");
    }
    const errors *ours = &all[REGARD];
    fprintf(to, " %.2f | %.9g |\n", 100 * (double)ours->right / (double)ours->n, ours->at);
}

static void write_row(const char *path, const char *name, const char *inputs) {
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *to = fopen(part, "w");
    if (!to)
        fail("can't be written", part);
    write_cells(to, name, inputs);
    if (fclose(to) || rename(part, path))
        fail("can't be written", path);
}

static const measured *find_function(const char *name) {
    for (int i = 0; i < n_functions; i++)
        if (!strcmp(functions[i].name, name))
            return &functions[i];
    fail("is no function of one tensor", name);
    return NULL;
}

int main(int argc, char **argv) {
    for (int i = 0; i < n_functions; i++)
        if (!functions[i].name)
            fail("has a function that references.c lacks", "tensor/kernels/elementwise.def");
    for (int i = 0; i < n_functions && argc == 2 && !strcmp(argv[1], "list"); i++)
        printf("%s\n", functions[i].name);
    if (argc != 5)
        return argc != 2;
    const char *name = argv[4];
    const measured *f = find_function(name);
    char path[4096], inputs[4096];
    snprintf(path, sizeof path, "%s.%s", argv[3], name);
    snprintf(inputs, sizeof inputs, "%s.%s", argv[2], name);
    mpfr_inits2(BITS, exact_x, exact_y, got_y, (mpfr_ptr)NULL);
    const uint64_t step = strtoull(argv[2], NULL, 10);
    if (!strcmp(argv[1], "float64")) {
        measure_float64(f, inputs);
        write_row(path, name, "hard");
    } else {
        begin_torch("float32", name, argv[2]);
        measure_float32(f, step);
        write_row(path, name, step == 1 ? "all" : "some");
    }
    return 0;
}

/*
 * math.c: the functions that the text of loops has in place of libm's give the same numbers. The
 * script `run` compiles this file behind the text.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t state = 1;

/* Returns the next number of a xorshift generator. */
static uint32_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

/* Returns a float of random bits, or one with few bits and an exponent near that of 1, so that sums
 * cancel and lie in the middle between two floats. */
static float draw_float(void) {
    const uint32_t bits = draw();
    const uint32_t near_one = (bits & 0x80f00000) + 0x38000000 + (draw() & 3);
    const uint32_t chosen = draw() % 3 ? near_one : bits;
    float x;
    memcpy(&x, &chosen, sizeof x);
    return x;
}

/* Returns a double of random bits, or one with few bits and an exponent near that of 1 or of the
 * least double. */
static double draw_double(void) {
    const uint64_t bits = (uint64_t)draw() << 32 | draw();
    const uint64_t few = (bits & 0x80f0000000000000) + (draw() & 3);
    const uint64_t chosen[] = { few + 0x38f0000000000000,  few + 0x3ff0000000000000,
                                few & 0x8030000000000003,  bits & 0x800fffffffffffff,
                                bits & 0x807fffffffffffff, bits };
    double x;
    memcpy(&x, &chosen[draw() % 6], sizeof x);
    return x;
}

static int wrong;

/* Counts and prints a wrong result of a function of a, b and c. Any NaN is as good as another. */
static void compare(const char *name, double got, double right, double a, double b, double c) {
    if (memcmp(&got, &right, sizeof got) == 0 || (got != got && right != right))
        return;
    if (!wrong++)
        printf("tests/export: math_%s(%a, %a, %a) is %a, not %a\n", name, a, b, c, got, right);
}

static void compare_floats(float a, float b, float c) {
    compare("fma_float", math_fma_float(a, b, c), fmaf(a, b, c), a, b, c);
    compare("sqrt_float", math_sqrt_float(a), sqrtf(a), a, 0, 0);
    compare("root", (float)math_root((double)a), sqrtf(a), a, 0, 0);
    compare("floor_float", math_floor_float(a), floorf(a), a, 0, 0);
    compare("fmod_float", math_fmod_float(a, b), fmodf(a, b), a, b, 0);
}

static void compare_doubles(double a, double b, double c) {
    compare("fma_double", math_fma_double(a, b, c), fma(a, b, c), a, b, c);
    compare("fma_double", math_fma_double(a, b, -a * b), fma(a, b, -a * b), a, b, -a * b);
    compare("sqrt_double", math_sqrt_double(a), sqrt(a), a, 0, 0);
    compare("root", math_root(a), sqrt(a), a, 0, 0);
    compare("floor_double", math_floor_double(a), floor(a), a, 0, 0);
    compare("fmod_double", math_fmod_double(a, b), fmod(a, b), a, b, 0);
}

int main(void) {
    static const double special[] = { 0.0, -0.0, 1, -1.5, 0x1p-1074, -0x1p1023, INFINITY, NAN };
    for (int i = 0; i < 512; i++) {
        const double a = special[i & 7];
        const double b = special[i >> 3 & 7];
        const double c = special[i >> 6];
        compare_doubles(a, b, c);
        compare_floats((float)a, (float)b, (float)c);
    }
    for (int i = 0; i < 1000000; i++) {
        compare_floats(draw_float(), draw_float(), draw_float());
        compare_doubles(draw_double(), draw_double(), draw_double());
    }
    return wrong != 0;
}

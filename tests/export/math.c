/*
 * math.c: the functions that the text of loops has in place of libm's give the same numbers. The
 * script `run` compiles this file behind the text.
 */
#include <math.h>
#include <stdio.h>

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

static int wrong;

/* Counts and prints a wrong result of a function of a, b and c. Any NaN is as good as another. */
static void compare(const char *name, double got, double right, float a, float b, float c) {
    if (memcmp(&got, &right, sizeof got) == 0 || (got != got && right != right))
        return;
    if (!wrong++)
        printf("tests/export: math_%s(%a, %a, %a) is %a, not %a\n", name, (double)a, (double)b,
               (double)c, got, right);
}

int main(void) {
    for (int i = 0; i < 3000000; i++) {
        const float a = draw_float();
        const float b = draw_float();
        const float c = draw_float();
        compare("fma_float", (double)math_fma_float(a, b, c), (double)fmaf(a, b, c), a, b, c);
        compare("sqrt_float", (double)math_sqrt_float(a), (double)sqrtf(a), a, 0, 0);
        compare("sqrt_double", math_sqrt_double((double)a * (double)b),
                sqrt((double)a * (double)b), a, b, 0);
    }
    return wrong != 0;
}

/*
 * test_half_operands.c: ops on elements of 16 bits beside one operand of another dtype: a number,
 * or a tensor without dims, in each place. Golden data says which operands torch rounds to 16 bits
 * first; results have torch's bits, and gradients differ by a few roundings at most.
 */
#include "regard.h"
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/kernels/limits.h"

#include <math.h>

static rg_tensor *where(rg_tensor *a, rg_tensor *b) {
    return rg_where(rg_literal([ True, False, True, False ]), a, b);
}

static rg_tensor *addcmul(rg_tensor *x, rg_tensor *a, rg_tensor *b) {
    return rg_addcmul(x, a, b, 1);
}

static rg_tensor *addcdiv(rg_tensor *x, rg_tensor *a, rg_tensor *b) {
    return rg_addcdiv(x, a, b, 1);
}

typedef rg_tensor *two(rg_tensor *, rg_tensor *);
typedef rg_tensor *three(rg_tensor *, rg_tensor *, rg_tensor *);

#define TWO(name) \
    { #name, rg_##name, NULL }
static const struct {
    const char *name;
    two *of_two;
    three *of_three;
} functions[] = { TWO(mul),
                  TWO(div),
                  TWO(add),
                  TWO(sub),
                  TWO(floor_divide),
                  TWO(div_floor),
                  TWO(div_trunc),
                  TWO(remainder),
                  TWO(fmod),
                  TWO(pow),
                  TWO(xlogy),
                  TWO(atan2),
                  TWO(maximum),
                  TWO(minimum),
                  TWO(fmax),
                  TWO(fmin),
                  TWO(eq),
                  TWO(lt),
                  TWO(ge),
                  TWO(clamp_min),
                  TWO(clamp_max),
                  { "where", where, NULL },
                  { "lerp", NULL, rg_lerp },
                  { "addcmul", NULL, addcmul },
                  { "addcdiv", NULL, addcdiv } };

static rg_tensor *call(const char *name, int place, rg_tensor *x, rg_tensor *y, rg_tensor *v) {
    for (int i = 0; i < RG_COUNT(functions); i++) {
        if (strcmp(functions[i].name, name) != 0)
            continue;
        if (functions[i].of_two)
            return place ? functions[i].of_two(x, v) : functions[i].of_two(v, x);
        rg_tensor *in[] = { x, place == 2 ? y : x, y };
        if (place == 0)
            return functions[i].of_three(v, x, y);
        in[place] = v;
        return functions[i].of_three(in[0], in[1], in[2]);
    }
    ck_abort_msg("no function %s", name);
}

static rg_tensor *operand_of(const char *kind, double value) {
    if (strcmp(kind, "number") == 0)
        return rg_wrap_float(value);
    return rg_scalar_dtype(value, golden_dtype(kind));
}

/* Requires that t has the numbers of the line, apart from a few roundings of the dtype. */
static void check_near(const char *what, rg_tensor *t, char *numbers, double roundings,
                       rg_dtype dtype) {
    for (int64_t i = 0; i < rg_numel(t); i++) {
        const double is = rg_at(t, i), wanted = golden_number(&numbers);
        const double most = roundings * rgi_epsilon(dtype) * fabs(wanted);
        ck_each((isnan(is) && isnan(wanted)) || is == wanted || fabs(is - wanted) <= most,
                "%s: element %d is %.9g, not %.9g", what, (int)i, is, wanted);
    }
}

static void check_case(golden_file *f, char *words) {
    const char *name = golden_word(&words);
    const int place = (int)golden_integer(&words);
    const rg_dtype dtype = golden_dtype(golden_word(&words));
    const char *kind = golden_word(&words);
    const double value = golden_number(&words);
    char what[100];
    snprintf(what, sizeof what, "%s, %s, %s %g in place %d", name, rg_dtype_name(dtype), kind,
             value, place);
    rg_tensor *x = rg_requires_grad_(rg_to(rg_literal([ 1, -2, 0.0001, 0.625 ]), dtype), true);
    rg_tensor *y = rg_to(rg_literal([ 3, 0.75, 2, -1.5 ]), dtype);
    rg_tensor *result = call(name, place, x, y, operand_of(kind, value));
    ck_each(result != NULL, "%s: %s", what, rg_error_peek());
    char *numbers = golden_field(f, ':');
    char *gradient = golden_field(f, ':');
    ck_each(rg_dtype_of(result) == (int)golden_dtype(golden_word(&numbers)), "%s is %s", what,
            rg_dtype_name((rg_dtype)rg_dtype_of(result)));
    /* Torch's xlogy rounds the logarithm, too. */
    check_near(what, result, numbers, strcmp(name, "xlogy") ? 0 : 1, dtype);
    if (golden_at_end(gradient))
        return;
    rg_backward(result, .gradient = y);
    check_near(what, rg_grad_of(x), gradient, 4, dtype);
}
START_TEST(test_operands) {
    golden_file f = golden_open("half_operands");
    for (char *words; (words = golden_case(&f));) {
        RG_SCOPE();
        check_case(&f, words);
    }
    golden_close(&f);
}
END_TEST

/* Two numbers have no elements of 16 bits beside them: the result is of the default dtype. */
START_TEST(test_numbers) {
    rg_set_default_dtype(RG_BFLOAT16);
    ck_assert_int_eq(rg_dtype_of(rg_mul(2.5, 3.5)), RG_BFLOAT16);
    ck_assert_int_eq(rg_dtype_of(rg_div(rg_literal(3), 0.9)), RG_BFLOAT16);
    ck_assert_int_eq(rg_dtype_of(rg_mul(0.9, rg_literal(3))), RG_BFLOAT16);
    ck_assert_int_eq(rg_dtype_of(rg_div(rg_literal([3]), rg_literal(2))), RG_BFLOAT16);
    rg_set_default_dtype(RG_FLOAT32);
}
END_TEST

/* Requires that a float16 tensor refuses whole numbers and floats beyond its range alike. */
#define REFUSES(call) ck_fails(call, RG_RUNTIME_ERROR, "without overflow")
START_TEST(test_beyond_the_range) {
    rg_tensor *h = rg_to(rg_literal([ 1.0, 2.0 ]), RG_FLOAT16), *at = rg_literal([0]);
    rg_tensor *mask = rg_literal([ True, False ]);
    REFUSES(rg_fill_(rg_clone(h), 70000));
    REFUSES(rg_masked_fill(h, mask, 70000));
    REFUSES(rg_clamp(h, 70000, 80000));
    REFUSES(rg_index_fill(h, 0, at, 70000));
    REFUSES(rg_scatter(h, 0, at, 70000));
    REFUSES(rg_set_item_(rg_clone(h), 70000, 0));
    REFUSES(rg_add_alpha(h, h, 70000));
    REFUSES(rg_add_alpha(h, h, 70000.0));
    REFUSES(rg_sub_alpha(h, h, 70000));
    REFUSES(rg_pow(h, 70000));
    REFUSES(rg_pow(h, 70000.0));
    REFUSES(rg_threshold(h, 5, 70000));
    ck_assert(isinf(rg_at(rg_addcmul(h, h, h, 70000), 0)));
    ck_assert(rg_at(rg_lerp(h, h, 70000), 0) == 1);
}
END_TEST

/* Where the op attention doesn't apply, scores aren't rounded either: 300^2 is no float16. */
START_TEST(test_attention) {
    rg_tensor *x = rg_to(rg_full(RG_DIMS(1, 1, 2, 64), 300.0), RG_FLOAT16);
    rg_tensor *mask = rg_requires_grad_(rg_to(rg_zeros(2, 2), RG_FLOAT16), true);
    rg_tensor *all[] = {
        rg_scaled_dot_product_attention(rg_squeeze_dim(x, 0), rg_squeeze_dim(x, 0),
                                        rg_squeeze_dim(x, 0)),
        rg_scaled_dot_product_attention(x, x, x, .attn_mask = mask),
        rg_scaled_dot_product_attention(x, x, rg_narrow(x, 3, 0, 32)),
    };
    for (int i = 0; i < RG_COUNT(all); i++)
        ck_assert(rg_dtype_of(all[i]) == RG_FLOAT16 && rg_item(rg_amax(all[i])) == 300
                  && rg_item(rg_amin(all[i])) == 300);
}
END_TEST

RG_TESTS(half_operands, test_operands, test_numbers, test_beyond_the_range, test_attention)

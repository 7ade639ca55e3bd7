/* test_look.c: what functions tell about a tensor, and how two tensors compare, is as in torch,
 * with torch's errors. */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "tensor/random/random.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <math.h>

/* Returns a view of a matrix, or NULL where there is no memory. */
static rg_tensor *transposed(rg_tensor *m) {
    rg_tensor *t = m ? rgi_alias(m) : NULL;
    if (!t)
        return NULL;
    t->size[0] = m->size[1];
    t->size[1] = m->size[0];
    t->stride[0] = m->stride[1];
    t->stride[1] = m->stride[0];
    rgi_update_flags(t);
    return rgi_own(t);
}

START_TEST(test_looking) {
    rg_tensor *m = rg_from(((int[]){ 1, 2, 3, 4, 5, 6 }), 2, 3), *t = transposed(m);
    ck_assert(rg_ndim(t) == 2 && rg_numel(t) == 6 && rg_size(t, 0) == 3 && rg_size(t, -1) == 2);
    ck_assert(rg_stride(t, 0) == 1 && rg_stride(t, 1) == 3 && !rg_is_contiguous(t)
              && rg_is_contiguous(m));
    ck_assert(!rg_is_floating_point(t) && rg_is_floating_point(rg_zeros(1)));
    ck_assert(rg_at(t, 2, 1) == 6 && rg_at(t, -3, -1) == 4);
    ck_assert_int_eq(rg_version(t), 0);
    rgi_count_write(m, "test");
    ck_assert_int_eq(rg_version(t), 1);
    int64_t out[6];
    ck_assert(rg_copy_out(t, out, sizeof out));
    ck_assert(out[0] == 1 && out[1] == 4 && out[2] == 2 && out[5] == 6);
    ck_assert(rg_copy_out(rg_zeros(0), NULL, 0));
    ck_fails(rg_copy_out(t, out, 47), RG_VALUE_ERROR,
             "copy_out: 48 bytes are needed, but there is room for 47");
    ck_fails(rg_copy_out(t, NULL, 48), RG_VALUE_ERROR,
             "copy_out: 48 bytes are needed, but there is room for 0");
    ck_assert_ptr_null(rgi_name_of(t));
    ck_assert_str_eq(rg_name(t), "");
    ck_assert_ptr_eq(rg_set_name(t, "weights"), t);
    ck_assert_ptr_eq(rg_set_name(t, "w"), t);
    ck_assert_str_eq(rg_name(t), "w");
    rg_set_name(t, NULL);
    ck_assert_str_eq(rg_name(t), "");
    ck_assert(rg_item_int(rg_scalar(INT64_MAX)) == INT64_MAX && rg_item_int(rg_scalar(-2.9)) == -2);
    ck_assert(rg_item(rg_ones(1, 1)) == 1);
}
END_TEST

/* Each dtype's elements are read through a pointer of its own type, and no other. */
START_TEST(test_elements_of_a_type) {
    rg_tensor *t[] = { [RG_BOOL] = rg_from(((bool[]){ true, false }), 2),
                       [RG_INT64] = rg_from(((int64_t[]){ 3, INT64_MIN }), 2),
                       [RG_FLOAT32] = rg_from(((float[]){ 0.5f, -1 }), 2),
                       [RG_FLOAT64] = rg_from(((double[]){ 1e300, 2 }), 2),
                       [RG_BFLOAT16] = rg_ones_dims(RG_DIMS(2), RG_BFLOAT16),
                       [RG_FLOAT16] = rg_ones_dims(RG_DIMS(2), RG_FLOAT16),
                       [RG_UINT8] = rg_from(((uint8_t[]){ 200, 0 }), 2) };
    for (int d = 0; d < RG_DTYPE_COUNT; d++) {
        const bool *b = rg_data_as(const bool, t[d]);
        ck_assert_msg(d == RG_BOOL ? b[0] && !b[1] : !b, "a dtype read as bool");
        rg_error_clear();
        const int64_t *i = rg_data_as(const int64_t, t[d]);
        ck_assert_msg(d == RG_INT64 ? i[0] == 3 && i[1] == INT64_MIN : !i, "a dtype read as int64");
        rg_error_clear();
        float *f = rg_data_as(float, t[d]);
        ck_assert_msg(d == RG_FLOAT32 ? f[0] == 0.5f && f[1] == -1 : !f, "a dtype read as float");
        rg_error_clear();
        const double *g = rg_data_as(double, t[d]);
        ck_assert_msg(d == RG_FLOAT64 ? g[0] == 1e300 && g[1] == 2 : !g, "a dtype read as double");
        rg_error_clear();
        const uint8_t *u = rg_data_as(const uint8_t, t[d]);
        ck_assert_msg(d == RG_UINT8 ? u[0] == 200 && u[1] == 0 : !u, "a dtype read as bytes");
        rg_error_clear();
        ck_assert_ptr_eq((rg_data_as_dtype)(t[d], (rg_dtype)d), rg_data(t[d]));
    }
    ck_fails(rg_data_as(float, t[RG_FLOAT64]), RG_TYPE_ERROR,
             "data_as: expected elements of dtype torch.float32, but the tensor has dtype "
             "torch.float64: rg_to converts it");
    rg_tensor *m = rg_zeros(2, 3);
    ck_fails(rg_data_as(float, transposed(m)), RG_RUNTIME_ERROR,
             "data_as: the tensor isn't contiguous: rg_contiguous puts its elements in row-major "
             "order");
    float *v = rg_data_as(float, m);
    v[5] = 7;
    ck_assert(rg_at(transposed(m), 2, 1) == 7);
}
END_TEST

START_TEST(test_looking_errors) {
    rg_tensor *m = rg_zeros(2, 3);
    ck_fails(rg_item_int(rg_scalar(NAN)) != -1, RG_VALUE_ERROR,
             "cannot convert float NaN to integer");
    ck_fails(rg_item_int(rg_scalar(INFINITY)) != -1, RG_RUNTIME_ERROR,
             "cannot convert float infinity to integer");
    ck_fails(rg_item_int(rg_scalar(1e30)) != -1, RG_RUNTIME_ERROR,
             "value cannot be converted to type int64_t without overflow");
    ck_fails(rg_item_int(rg_scalar_dtype(0x1p63, RG_FLOAT64)) != -1, RG_RUNTIME_ERROR,
             "value cannot be converted to type int64_t without overflow");
    ck_assert_int_eq(rg_item_int(rg_scalar_dtype(-0x1p63, RG_FLOAT64)), INT64_MIN);
    ck_fails(!isnan(rg_at(m, INT64_MIN, 0)), RG_INDEX_ERROR, "out of bounds");
    rg_tensor *bad[] = { NULL, RG_NONE, rg_zeros(1) };
    rg_drop(bad[2]);
    for (int i = 0; i < 3; i++) {
        const char *text = (const char *[]){ "got NULL", "got RG_NONE",
                                             "tensor released by rg_drop" }[i];
        rg_code code = i == 2 ? RG_RELEASED : RG_TYPE_ERROR;
        ck_fails(rg_ndim(bad[i]) != -1, code, text);
        ck_fails(rg_size(bad[i], 0) != -1, code, text);
        ck_fails(rg_stride(bad[i], 0) != -1, code, text);
        ck_fails(rg_numel(bad[i]) != -1, code, text);
        ck_fails(rg_shape(bad[i]).n != -1, code, text);
        ck_fails(rg_dtype_of(bad[i]) != -1, code, text);
        ck_fails(rg_is_contiguous(bad[i]), code, text);
        ck_fails(rg_is_floating_point(bad[i]), code, text);
        ck_fails(rg_version(bad[i]) != -1, code, text);
        ck_fails(!isnan(rg_item(bad[i])), code, text);
        ck_fails(rg_item_int(bad[i]) != -1, code, text);
        ck_fails(!isnan(rg_at(bad[i], 0)), code, text);
        ck_fails(rg_data(bad[i]), code, text);
        ck_fails(rg_data_as(float, bad[i]), code, text);
        ck_fails(rg_copy_out(bad[i], &bad, 100), code, text);
        ck_fails(rg_equal(m, bad[i]), code, text);
        ck_fails(rg_equal(bad[i], m), code, text);
        ck_fails(rg_allclose(m, bad[i], 1, 1), code, text);
        ck_fails(rg_allclose(bad[i], m, 1, 1), code, text);
        ck_fails(rg_result_type(m, bad[i]) != -1, code, text);
        ck_fails(rg_result_type(bad[i], m) != -1, code, text);
        ck_fails(rgi_draw_bernoulli(bad[i], rg_default_generator()), code, text);
        ck_fails(rg_multinomial(bad[i], 1, true), code, text);
        ck_fails(rg_rand_like(bad[i]), code, text);
        ck_fails(rg_randn_like(bad[i]), code, text);
        ck_fails(rg_arange_step(bad[i], 5, 1), code, text);
        ck_fails(rg_arange_step(0, 5, bad[i]), code, text);
        ck_fails(rg_set_name(bad[i], "x"), code, text);
        ck_fails(rg_name(bad[i]), code, text);
        ck_fails(rg_keep(bad[i]), code, text);
        ck_fails(rg_arange(bad[i]), code, text);
        ck_fails(rg_scalar(bad[i]), code, text);
        ck_fails(rg_empty_like(bad[i]), code, text);
        ck_fails(rg_full(RG_DIMS(1), bad[i]), code, text);
    }
}
END_TEST

/* The number of an expanded tensor's elements may exceed int64, and that of its bytes size_t. */
START_TEST(test_looking_at_too_much) {
    const int64_t wide = (int64_t)1 << 40;
    float room;
    rg_tensor *t = rgi_own(rgi_alias(rg_ones(1, 1)));
    t->size[0] = wide;
    t->size[1] = wide;
    t->stride[0] = 0;
    t->stride[1] = 0;
    rgi_update_flags(t);
    ck_assert(rg_at(t, wide - 1, -wide) == 1);
    ck_fails(!isnan(rg_at_dims(t, RG_DIMS())), RG_RUNTIME_ERROR,
             "at: a Tensor with 9223372036854775807 elements cannot be converted to Scalar");
    ck_fails(!isnan(rg_item(t)), RG_RUNTIME_ERROR,
             "item: a Tensor with 9223372036854775807 elements cannot be converted to Scalar");
    ck_fails(rg_copy_out(t, &room, sizeof room), RG_VALUE_ERROR,
             "copy_out: 18446744073709551615 bytes are needed, but there is room for 4");
    /* 2^62 floats have 2^64 bytes, which would be 0 in 64 bits. */
    t->size[0] = (int64_t)1 << 31;
    t->size[1] = (int64_t)1 << 31;
    rgi_update_flags(t);
    ck_fails(rg_copy_out(t, &room, sizeof room), RG_VALUE_ERROR,
             "copy_out: 18446744073709551615 bytes are needed, but there is room for 4");
}
END_TEST

static bool compares_copies(void) {
    rg_tensor *m = transposed(rg_ones(2, 3));
    rg_tensor *n = transposed(rg_ones_dims(RG_DIMS(2, 3), RG_INT64));
    return m && n && rg_equal(m, n) && rg_allclose(m, m, 0, 0);
}

/* If there is no memory for a comparison, the tensors don't count as equal. */
START_TEST(test_comparing_needs_memory) {
    ck_assert_int_ge(deny_in_turn(compares_copies, NULL), 8);
}
END_TEST

static rg_tensor *floats(double a, double b) {
    return rg_from(((float[]){ (float)a, (float)b }), 2);
}
static rg_tensor *doubles(double a, double b) { return rg_from(((double[]){ a, b }), 2); }

START_TEST(test_equal) {
    rg_tensor *m = rg_from(((int[]){ 1, 2, 3, 4 }), 2, 2);
    ck_assert(rg_equal(m, m) && !rg_equal(m, transposed(m))
              && rg_equal(m, transposed(transposed(m))));
    ck_assert(rg_equal(rg_zeros(0), rg_zeros(0)) && !rg_equal(rg_zeros(0), rg_zeros(0, 1)));
    ck_assert(!rg_equal(rg_ones(1), rg_ones(2)) && !rg_equal(rg_ones(1), rg_scalar(1)));
    ck_assert(rg_equal(rg_ones(2), rg_full(RG_DIMS(2), (bool)true))
              && !rg_equal(floats(.1, 0), doubles(.1, 0)));
    ck_assert(!rg_equal(floats(NAN, 1), floats(NAN, 1)) && rg_equal(floats(0., 1), floats(-0., 1)));
    ck_assert(!rg_equal(floats(1, 2), floats(1, 3))
              && !rg_equal(rg_full(RG_DIMS(1), (bool)true), rg_full(RG_DIMS(1), (bool)false)));
    ck_assert(!rg_equal(rg_scalar(((int64_t)1 << 53) + 1), rg_scalar((int64_t)1 << 53)));
    ck_assert_str_eq(rg_error(), "");
}
END_TEST

START_TEST(test_allclose) {
    ck_assert(rg_allclose(doubles(1, 2), doubles(1 + 1e-6, 2), 1e-5, 0)
              && !rg_allclose(doubles(1, 2), doubles(1 + 1e-4, 2), 1e-5, 0));
    ck_assert(rg_allclose(doubles(1, 1), doubles(2, 2), .5, 0)
              && !rg_allclose(doubles(2, 2), doubles(1, 1), .5, 0));
    ck_assert(!rg_allclose(floats(NAN, 1), floats(NAN, 1), 1, 1));
    /* Integers are compared exactly. */
    rg_tensor *large = rg_scalar((int64_t)1 << 25), *next = rg_scalar(((int64_t)1 << 25) + 1);
    ck_assert(rg_allclose(large, next, 0, 1) && !rg_allclose(large, next, 0, 0.5));
    ck_assert(rg_allclose(large, next, 1e-6, 0) && !rg_allclose(large, next, 1e-9, 0));
    ck_assert(rg_allclose(floats(INFINITY, 1), floats(INFINITY, 1), 0, 0));
    ck_assert(!rg_allclose(floats(INFINITY, 1), floats(1, 1), 0, INFINITY)
              && !rg_allclose(floats(1, 1), floats(1, INFINITY), 1, 1));
    ck_assert(!rg_allclose(floats(INFINITY, 1), floats(-INFINITY, 1), 1, INFINITY));
    ck_assert(rg_allclose(floats(1, 5), floats(2, 6), 0, INFINITY));
    ck_assert(rg_allclose(rg_arange(3), rg_arange_step(1, 4, 1), 0, 1)
              && !rg_allclose(rg_arange(3), rg_arange_step(1, 4, 1), 0, 0));
    ck_assert(rg_allclose(rg_full(RG_DIMS(1), (bool)true), rg_full(RG_DIMS(1), (bool)false), 0, 1));
    ck_assert(!rg_allclose(rg_scalar(((int64_t)1 << 53) + 1), rg_scalar((int64_t)1 << 53), 0, 0));
    ck_assert(rg_allclose(rg_ones(1), rg_ones(2, 3), 0, 0)
              && rg_allclose(rg_zeros(0), rg_zeros(1), 0, 0)
              && rg_allclose(rg_zeros(0, 3), rg_ones(3), 0, 0));
    ck_assert(!rg_allclose(rg_ones(2, 1), floats(1, 2), 0, 0));
    ck_assert_str_eq(rg_error(), "");
    ck_fails(rg_allclose(floats(1, 1), floats(1, 1), 0, NAN), RG_RUNTIME_ERROR,
             "atol must be greater than or equal to zero, but got nan");
}
END_TEST

/* On failure, functions that return a number return -1, and others NULL, false or a shape with n =
 * -1. */
START_TEST(test_of_nothing) {
    rg_tensor *const nothing[] = { NULL, RG_NONE };
    for (int i = 0; i < 2; i++) {
        rg_tensor *t = nothing[i];
        ck_fails(rg_ndim(t) != -1, RG_TYPE_ERROR, "ndim: expected a tensor");
        ck_fails(rg_numel(t) != -1, RG_TYPE_ERROR, "numel: expected a tensor");
        ck_fails(rg_size(t, 0) != -1, RG_TYPE_ERROR, "size: expected a tensor");
        ck_fails(rg_stride(t, 0) != -1, RG_TYPE_ERROR, "stride: expected a tensor");
        ck_fails(rg_version(t) != -1, RG_TYPE_ERROR, "expected a tensor");
        ck_fails(rg_shape(t).n != -1, RG_TYPE_ERROR, "shape: expected a tensor");
        ck_fails(rg_item_int(t) != -1, RG_TYPE_ERROR, "item");
        ck_fails(rg_is_contiguous(t), RG_TYPE_ERROR, "is_contiguous: expected a tensor");
        ck_fails(rg_is_floating_point(t), RG_TYPE_ERROR, "is_floating_point: expected a tensor");
    }
    rg_tensor *scalar = rg_scalar(1);
    scalar->storage->inference = true;
    ck_fails(rg_version(scalar) != -1, RG_RUNTIME_ERROR, "do not track version counter");
    scalar->storage->inference = false;
    ck_fails(rg_size(scalar, 0) != -1, RG_INDEX_ERROR, "but tensor has no dimensions");
    ck_fails(rg_stride(scalar, 0) != -1, RG_INDEX_ERROR, "but tensor has no dimensions");
    ck_fails(rg_size(rg_ones(2), 1) != -1, RG_INDEX_ERROR, "Dimension out of range");
    ck_fails(rg_stride(rg_ones(2), -2) != -1, RG_INDEX_ERROR, "Dimension out of range");
}
END_TEST

/* As in torch, float32 is compared in float32: 0.1 as an element is no larger than 0.1 as a
 * tolerance. */
START_TEST(test_close_in_its_dtype) {
    for (int d = RG_FLOAT32; d <= RG_FLOAT64; d++) {
        const rg_dtype dtype = (rg_dtype)d;
        rg_tensor *zero = rg_zeros_dims(RG_DIMS(1), dtype);
        rg_tensor *tenth = rg_full_dims(RG_DIMS(1), 0.1, dtype);
        ck_assert(rg_allclose(zero, tenth, 0, 0.1));
        ck_assert(!rg_allclose(zero, tenth, 0, 0.0999999));
    }
}
END_TEST

/* If a tensor gets fewer dims, its sizes, strides and number of elements depend on the new dims
 * alone. */
START_TEST(test_fewer_dims) {
    static const int64_t sizes[] = { 0, 1, 5, 500, 100000 };
    for (int i = 0; i < RG_COUNT(sizes); i++) {
        rg_tensor *x = rg_empty(2, 200, 3, 300);
        rgi_set_size(x, &RG_DIMS(7, sizes[i]));
        rgi_set_strides(x);
        ck_assert(x->ndim == 2 && x->numel == 7 * sizes[i]);
        ck_assert(rg_stride(x, 1) == 1 && rg_stride(x, 0) == RG_MAX(sizes[i], 1));
        ck_assert(rg_is_contiguous(x));
    }
}
END_TEST

RG_TESTS(look, test_looking, test_elements_of_a_type, test_looking_errors,
         test_looking_at_too_much, test_equal, test_allclose, test_comparing_needs_memory,
         test_of_nothing, test_close_in_its_dtype, test_fewer_dims)

/* test_convert.c: rg_module_to converts all of a module or nothing, also where a tensor is a view.
 */
#include "tests/test.h"
#include "regard.h"

#include <string.h>

/* The weight is a transposed view, and the mask is a view, as nanoGPT's is. Their bases are outside
 * the module. */
typedef struct {
    rg_module base;
    rg_tensor *weight, *bias, *mask, *count, *image;
    rg_linear_module *fc;
    rg_positions *where;
} Views;

static const rg_module_class views_class = { .name = "Views" };

static Views *new_views(void) {
    RG_SCOPE();
    Views *self = RG_MODULE(Views, &views_class);
    rg_tensor *triangle = rg_tril(rg_ones(4, 4), 0);
    RG_PARAMETER(self, weight, rg_T(rg_reshape(rg_arange_step(0., 6., 1.), 3, 2)));
    RG_PARAMETER(self, bias, rg_select(rg_ones(2, 3), 0, 1));
    RG_BUFFER(self, mask, triangle ? rg_view(triangle, 1, 1, 4, 4) : NULL);
    RG_BUFFER(self, count, rg_arange(3));
    RG_BUFFER(self, image, rg_byte(rg_arange(3)));
    RG_CHILD(self, fc, rg_nn_linear(2, 2));
    RG_CHILD(self, where, rg_nn_sinusoidal_positions(5, 3));
    return RG_READY(self);
}

/* Returns whether all floating tensors of m, and their gradients, have the dtype. */
static bool all_are(void *m, rg_dtype dtype) {
    RG_SCOPE();
    rg_named_list l[] = { rg_named_parameters(m), rg_named_buffers(m) };
    bool all = true;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < l[k].n; i++) {
            rg_tensor *t = l[k].v[i].tensor, *grad = rg_grad_of(t);
            all = all && (!rg_is_floating_point(t) || rg_dtype_of(t) == (int)dtype);
            all = all && (grad == RG_NONE || rg_dtype_of(grad) == (int)dtype);
        }
    return all;
}

static void give_gradients(void *m) {
    RG_SCOPE();
    rg_list l = rg_parameters(m);
    for (int i = 0; i < l.n; i++)
        ck_ok(rg_set_grad(l.v[i], rg_full_like(l.v[i], i + 1)));
}

START_TEST(test_views_are_converted) {
    Views *m = new_views();
    ck_ok(m);
    give_gradients(m);
    rg_tensor *weight = m->weight, *angles = rg_clone(m->where->weight);
    const void *before = rg_data(weight);
    /* As in torch, a tensor that already has the dtype keeps its memory. */
    ck_assert(rg_module_to(m, RG_FLOAT32) && rg_data(weight) == before);
    ck_ok(rg_module_to(m, RG_FLOAT64));
    ck_assert(all_are(m, RG_FLOAT64) && m->weight == weight && rg_is_leaf(weight));
    ck_assert(rg_requires_grad(weight) && !rg_requires_grad(m->mask));
    ck_assert_int_eq(rg_dtype_of(m->count), RG_INT64);
    ck_assert_int_eq(rg_dtype_of(m->image), RG_UINT8);
    /* As in torch, the converted tensor has its dims in the same order in memory. */
    ck_assert(rg_stride(weight, 0) == 1 && rg_stride(weight, 1) == 2);
    ck_assert(rg_equal(weight, rg_literal([[0., 2., 4.], [1., 3., 5.]])));
    ck_assert(rg_at(m->mask, 0, 0, 2, 3) == 0 && rg_at(m->mask, 0, 0, 3, 2) == 1);
    ck_assert(rg_equal(m->where->weight, rg_double(angles)));
    ck_assert(rg_at(rg_grad_of(weight), 1, 2) == 1 && rg_at(rg_grad_of(m->bias), 1) == 2);
    /* The module learns as before. */
    rg_tensor *x = rg_ones_dims(RG_DIMS(3), RG_FLOAT64);
    ck_ok(rg_backward(rg_sum(rg_matmul(m->weight, x))));
    ck_assert(rg_at(rg_grad_of(weight), 1, 2) == 2);
    ck_assert(rg_module_to(m, RG_FLOAT32) && all_are(m, RG_FLOAT32));
    rg_module_free(m);
}
END_TEST

/* If two modules share a tensor, it is converted once, and they still share it. */
START_TEST(test_shared_tensors) {
    rg_linear_module *a = rg_nn_linear(2, 2), *b = rg_nn_linear(2, 2);
    rg_sequential *both = rg_nn_sequential(a, b, a);
    ck_assert(rg_tie(&b->weight, a->weight));
    ck_ok(rg_module_to(both, RG_FLOAT64));
    ck_assert(a->weight == b->weight && all_are(both, RG_FLOAT64));
    ck_ok(rg_call(both, rg_ones_dims(RG_DIMS(2), RG_FLOAT64)));
    rg_module_free(both);
}
END_TEST

/* If one tensor can't be converted, none is. */
START_TEST(test_all_or_nothing) {
    Views *m = new_views();
    give_gradients(m);
    bool converted = false;
    for (int64_t fail = 1; !converted; fail++) {
        int64_t live = rg_live_tensors();
        {
            RG_SCOPE();
            rg_memory_fail_at(fail);
            converted = rg_module_to(m, RG_FLOAT64);
            rg_memory_fail_at(0);
        }
        ck_assert(converted || rg_error_code() == RG_OUT_OF_MEMORY);
        rg_error_clear();
        ck_assert_msg(all_are(m, converted ? RG_FLOAT64 : RG_FLOAT32),
                      "request %d failed, and a part was converted", (int)fail);
        /* A tensor that was a view no longer keeps its base alive after the conversion. */
        ck_assert(converted ? rg_live_tensors() <= live : rg_live_tensors() == live);
        ck_assert(fail < 1000);
    }
    rg_tensor *computed = rg_mul(m->weight, 2);
    ck_assert(rg_register_buffer(&m->base, "computed", &computed, computed,
                                 (rg_buffer_options){ .persistent = true }));
    ck_fails(rg_module_to(m, RG_FLOAT32), RG_RUNTIME_ERROR,
             "module_to: only leaves can be converted, but 'computed' was computed");
    ck_assert(all_are(m, RG_FLOAT64));
    rg_module_free(m);
}
END_TEST

static bool is_converted;
static void converts(void *m) { is_converted = rg_module_to(m, RG_FLOAT32); }

/* A step that converts a module can't be recorded, even if all its tensors have the dtype. */
START_TEST(test_no_part_of_a_recorded_step) {
    Views *m = new_views();
    rg_sequential *none = rg_nn_sequential();
    ck_ok(m && none);
    for (int wide = 0; wide < 2; wide++) {
        ck_ok(rg_module_to(m, wide ? RG_FLOAT64 : RG_FLOAT32));
        ck_fails(rg_record(converts, m), RG_NOT_IMPLEMENTED,
                 "module_to: can't be part of a recorded step");
        ck_assert(!is_converted && all_are(m, wide ? RG_FLOAT64 : RG_FLOAT32));
    }
    ck_fails(rg_record(converts, none), RG_NOT_IMPLEMENTED, "module_to: can't be part");
    ck_assert(!is_converted);
    rg_module_free(m);
    rg_module_free(none);
}
END_TEST

/* If v is a view, v.data = data leaves the memory of v's base as it is, as in torch. */
START_TEST(test_views_take_data) {
    rg_tensor *base = rg_zeros(4), *v = rg_narrow(base, 0, 1, 2);
    rg_tensor *three_and_four = rg_literal([3., 4.]);
    rg_memory_fail_at(1);
    bool done = rg_set_data(v, three_and_four);
    rg_memory_fail_at(0);
    ck_ok(done);
    ck_assert(rg_equal(v, rg_literal([3., 4.])) && rg_item(rg_sum(base)) == 0);
    ck_assert(rg_fill_(v, 5) && rg_at(three_and_four, 1) == 5 && rg_item(rg_sum(base)) == 0);
    rg_tensor *computed = rg_mul(rg_requires_grad_(rg_ones(2), true), 2);
    ck_fails(rg_set_data(computed, v), RG_RUNTIME_ERROR, "set_data: expects a leaf");
}
END_TEST

RG_TESTS(convert, test_views_are_converted, test_views_take_data, test_shared_tensors,
         test_all_or_nothing, test_no_part_of_a_recorded_step)

/* test_averaged.c: averages of weights are PyTorch's, and so are parameters as one vector. */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- averages ---------------------------------------------------------------------------- */

static void *new_model(int64_t inputs, rg_dtype dtype) {
    void *m = rg_nn_sequential(rg_nn_linear(inputs, 1), rg_nn_batch_norm1d(1));
    ck_ok(m && rg_module_to(m, dtype));
    return m;
}

/* Sets the model's tensors to the numbers of step t. The Python program that printed averages[]
 * sets the same numbers. */
static void set_model(void *m, int t) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_named_list d = rg_state_dict(m);
    const double weight[] = { (3 * t % 11 - 5) / 3.0, ((7 + 3 * t) % 11 - 5) / 3.0,
                              ((14 + 3 * t) % 11 - 5) / 3.0 };
    const double rest[] = { t / 7.0, 1.0 / (t + 1), -t * 0.3, t * t / 10.0, 1 + t / 3.0 };
    ck_assert_int_eq(d.n, 7);
    ck_ok(rg_copy_(d.v[0].tensor, rg_from_double(weight, RG_DIMS(1, 3))));
    for (int i = 0; i < 5; i++)
        ck_ok(rg_copy_(d.v[i + 1].tensor, rest[i]));
    ck_ok(rg_copy_(d.v[6].tensor, 3 * t * t));
}

/* PyTorch's n_averaged and averages after seven updates, in float64. The rows are: the mean, the
 * mean with buffers, decay 0.9, and decay 0.3 with buffers. */
static const double averages[4][10] = {
    { 7, 0.23809523809523817, -0.047619047619047644, 0.19047619047619049, 0.5714285714285714,
      0.24540816326530612, -1.2, 4.9000000000000004, 3.3333333333333335, 147 },
    { 7, 0.23809523809523817, -0.047619047619047644, 0.19047619047619049, 0.5714285714285714,
      0.24540816326530612, -1.2, 2, 2.333333333333333, 57 },
    { 7, -0.14466433333333337, 0.73791933333333359, 0.24809900000000004, 0.39756699999999989,
      0.35524314285714292, -0.83489069999999987, 4.9000000000000004, 3.3333333333333335, 147 },
    { 7, 1.2681076666666666, 0.0067473333333332901, -0.31934899999999994, 0.93882014285714288,
      0.134129, -1.9715222999999999, 4.3795963000000002, 3.1905803333333336, 131 },
};

static rg_averaged_model *new_average(int which, void *model) {
    switch (which) {
    case 0: return rg_optim_averaged_model(model);
    case 1:
        return rg_optim_averaged_model(model, .use_buffers = true,
                                       .multi_avg_fn = rg_get_swa_multi_avg_fn());
    case 2: return rg_optim_averaged_model(model, .multi_avg_fn = rg_get_ema_multi_avg_fn(0.9));
    default:
        return rg_optim_averaged_model(model, .multi_avg_fn = rg_get_ema_multi_avg_fn(0.3),
                                       .use_buffers = true);
    }
}

START_TEST(test_averages) {
    for (int which = 0; which < 4; which++)
        for (int single = 0; single < 2; single++) {
            RG_SCOPE();
            void *model = new_model(3, single ? RG_FLOAT32 : RG_FLOAT64);
            rg_averaged_model *a = new_average(which, model);
            ck_ok(a);
            for (int t = 1; t < 8; t++) {
                set_model(model, t);
                ck_ok(rg_averaged_model_update_parameters(a, model));
            }
            rg_named_list d = rg_state_dict(a);
            int k = 0;
            for (int i = 0; i < d.n; i++) {
                rg_tensor *v = rg_flatten(rg_detach(d.v[i].tensor), 0, -1);
                for (int j = 0; j < rg_numel(v); j++, k++)
                    ck_assert_msg(fabs(rg_at(v, j) - averages[which][k]) < (single ? 1e-6 : 1e-15),
                                  "%d: %s is %.17g, but PyTorch's %.17g", which, d.v[i].name,
                                  rg_at(v, j), averages[which][k]);
            }
            ck_assert_int_eq(k, 10);
            rg_module_free(a);
            rg_module_free(model);
        }
}
END_TEST

START_TEST(test_module) {
    RG_SCOPE();
    void *model = new_model(3, RG_FLOAT32);
    rg_averaged_model *a = rg_optim_averaged_model(model);
    ck_assert_str_eq(rg_module_repr(a),
                     "AveragedModel(\n"
                     "  (module): Sequential(\n"
                     "    (0): Linear(in_features=3, out_features=1, bias=True)\n"
                     "    (1): BatchNorm1d(1, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                     "track_running_stats=True)\n"
                     "  )\n"
                     ")");
    static const char *const names[] = { "n_averaged",           "module.0.weight",
                                         "module.0.bias",        "module.1.weight",
                                         "module.1.bias",        "module.1.running_mean",
                                         "module.1.running_var", "module.1.num_batches_tracked" };
    rg_named_list d = rg_state_dict(a);
    ck_assert_int_eq(d.n, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_str_eq(d.v[i].name, names[i]);
    /* The average computes what the model computed when the average was made, even after the model
     * has changed. */
    rg_tensor *x = rg_randn(4, 3);
    rg_eval(model);
    rg_eval(a);
    rg_tensor *y = rg_call(model, x);
    set_model(model, 3);
    ck_assert(rg_equal(rg_call(a, x), y) && !rg_equal(rg_call(model, x), y));
    ck_ok(rg_averaged_model_update_parameters(a, model));
    ck_assert(rg_equal(rg_call(a, x), rg_call(model, x)));
    /* A deep copy continues as the original does. So does an average that has loaded its state. */
    rg_averaged_model *b = rg_deepcopy(a), *c = rg_optim_averaged_model(model);
    ck_ok(rg_load_state_dict(c, rg_state_dict(a), true));
    set_model(model, 5);
    ck_ok(rg_averaged_model_update_parameters(a, model));
    ck_ok(rg_averaged_model_update_parameters(b, model));
    ck_ok(rg_averaged_model_update_parameters(c, model));
    ck_assert_double_eq(rg_item(a->n_averaged), 2);
    ck_assert(rg_equal(rg_call(a, x), rg_call(b, x)) && rg_equal(rg_call(a, x), rg_call(c, x)));
    rg_module_free(a);
    rg_module_free(b);
    rg_module_free(c);
    rg_module_free(model);
}
END_TEST

START_TEST(test_refused) {
    RG_SCOPE();
    void *model = new_model(3, RG_FLOAT32), *wide = new_model(4, RG_FLOAT32);
    void *wider = new_model(3, RG_FLOAT64), *less = rg_nn_linear(3, 1);
    rg_averaged_model *a = rg_optim_averaged_model(model);
    set_model(model, 2);
    ck_fails(rg_get_ema_multi_avg_fn(NAN).failed == false, RG_VALUE_ERROR, "Invalid decay value");
    ck_fails(rg_optim_averaged_model(model, .multi_avg_fn = rg_get_ema_multi_avg_fn(-1)),
             RG_VALUE_ERROR, "Invalid decay value -1");
    for (int updates = 0; updates < 2; updates++) {
        rg_tensor *before = rg_clone(rg_detach(rg_get_parameter(a, "module.0.weight")));
        ck_fails(rg_averaged_model_update_parameters(a, wide), RG_RUNTIME_ERROR,
                 "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
                 "dimension 1");
        ck_fails(rg_averaged_model_update_parameters(a, wider), RG_RUNTIME_ERROR,
                 "expected dtype torch.float32 but got dtype torch.float64");
        ck_fails(rg_averaged_model_update_parameters(a, less), RG_VALUE_ERROR,
                 "the model has 2 parameters and 0 buffers, but its average 4 and 3");
        ck_assert_double_eq(rg_item(a->n_averaged), updates);
        ck_assert(rg_equal(rg_get_parameter(a, "module.0.weight"), before));
        ck_ok(rg_averaged_model_update_parameters(a, model));
    }
    ck_fails(rg_averaged_model_update_parameters((rg_averaged_model *)less, model), RG_TYPE_ERROR,
             "expected an AveragedModel but got Linear");
    void *all[] = { a, model, wide, wider, less };
    for (int i = 0; i < 5; i++)
        rg_module_free(all[i]);
}
END_TEST

/* ---- vectors ----------------------------------------------------------------------------- */

START_TEST(test_vector) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_ones(2, 3), true), *b = rg_requires_grad_(rg_ones(2), true);
    rg_tensor *s = rg_requires_grad_(rg_scalar(4.), true);
    rg_list p = RG_LIST(w, b, s);
    rg_tensor *v = rg_parameters_to_vector(p);
    ck_assert(rg_numel(v) == 9 && rg_at(rg_detach(v), 8) == 4);
    ck_assert_str_eq(rg_grad_fn(v), "CatBackward0");
    ck_ok(rg_backward(rg_sum(rg_square(v))));
    ck_assert(rg_at(rg_grad_of(w), 1, 2) == 2 && rg_item(rg_grad_of(s)) == 8);
    rg_tensor *u = rg_to(rg_arange(12), RG_FLOAT32);
    ck_ok(rg_vector_to_parameters(u, p));
    ck_assert(rg_at(rg_detach(w), 1, 2) == 5 && rg_at(rg_detach(b), 1) == 7
              && rg_item(rg_detach(s)) == 8 && rg_requires_grad(w) && rg_is_leaf(b));
    /* As in torch, the parameters now share the vector's memory. */
    ck_ok(rg_fill_(u, 3));
    ck_assert(rg_at(rg_detach(w), 0, 0) == 3);
    ck_fails(rg_vector_to_parameters(rg_ones(8), p), RG_RUNTIME_ERROR,
             "shape '[]' is invalid for input of size 0");
    ck_fails(rg_vector_to_parameters(rg_zeros(3), p), RG_RUNTIME_ERROR,
             "shape '[2, 3]' is invalid for input of size 3");
    ck_assert(rg_at(rg_detach(w), 0, 0) == 3);
    ck_fails(rg_vector_to_parameters(rg_ones(18), RG_LIST(rg_mul(w, 2))), RG_RUNTIME_ERROR,
             "parameter 0 can't take over the data, since it isn't a leaf");
    ck_fails(rg_vector_to_parameters(rg_arange(10), p), RG_RUNTIME_ERROR,
             "parameter 0 requires grad, and can't take over the data of a vector of dtype "
             "torch.int64");
    rg_list failed = { -1, NULL };
    ck_fails(rg_vector_to_parameters(u, failed), RG_TYPE_ERROR, "its n is -1");
}
END_TEST

/* ---- when memory is denied --------------------------------------------------------------- */

static bool averaged_everything(void) {
    RG_SCOPE();
    void *model = rg_nn_sequential(rg_nn_linear(3, 1), rg_nn_batch_norm1d(1));
    rg_averaged_model *a = model ? new_average(3, model) : NULL;
    bool ok = a && rg_averaged_model_update_parameters(a, model);
    if (ok && !rg_averaged_model_update_parameters(a, model)) {
        ok = false;
        ck_assert_int_eq(*(const int64_t *)rg_data(a->n_averaged), 1);
    }
    rg_tensor *v = ok ? rg_parameters_to_vector(rg_parameters(model)) : NULL;
    ok = v && rg_vector_to_parameters(v, rg_parameters(model));
    rg_module_free(a);
    rg_module_free(model);
    return ok;
}

START_TEST(test_without_memory) { ck_assert_int_ge(deny_in_turn(averaged_everything, NULL), 10); }
END_TEST

/* ---- modules without parameters or buffers ----------------------------------------------- */

/* A model may lack parameters, buffers, or both. */
START_TEST(test_models_without) {
    RG_SCOPE();
    void *four = rg_nn_linear(3, 4), *five = rg_nn_linear(3, 5);
    rg_averaged_model *of_four = rg_optim_averaged_model(four);
    ck_fails(rg_averaged_model_update_parameters(of_four, five), RG_RUNTIME_ERROR,
             "The size of tensor a (4) must match the size of tensor b (5) at non-singleton "
             "dimension 0");
    rg_module_free(of_four);
    rg_module_free(four);
    rg_module_free(five);
    void *all[] = { rg_nn_identity(), rg_nn_linear(2, 3),
                    rg_nn_bce_with_logits_loss(.weight = rg_ones(2)) };
    for (int i = 0; i < 3; i++) {
        rg_averaged_model *a = rg_optim_averaged_model(all[i], .use_buffers = true);
        ck_ok(a && rg_averaged_model_update_parameters(a, all[i]));
        ck_ok(rg_averaged_model_update_parameters(a, all[i]));
        ck_assert_double_eq(rg_item(a->n_averaged), 2);
        rg_module_free(a);
        rg_module_free(all[i]);
    }
}
END_TEST

typedef struct {
    rg_module base;
    rg_tensor *steps;
} Counter;
static const rg_module_class counter_class = { .name = "Counter" };

static Counter *new_counter(rg_tensor *steps) {
    Counter *self = RG_MODULE(Counter, &counter_class);
    RG_BUFFER(self, steps, steps);
    return RG_READY(self);
}

/* A model may have a tensor of integers, even as its first one. The average of integers loses its
 * fraction. */
START_TEST(test_whole_numbers) {
    RG_SCOPE();
    Counter *model = new_counter(rg_scalar(4));
    rg_averaged_model *a = rg_optim_averaged_model(model, .use_buffers = true);
    ck_ok(rg_averaged_model_update_parameters(a, model));
    ck_ok(rg_copy_(model->steps, 11));
    rg_tensor *count = rg_state_dict(a).v[0].tensor, *average = rg_state_dict(a).v[1].tensor;
    const int64_t counted = rg_version(count), averaged = rg_version(average);
    ck_ok(rg_averaged_model_update_parameters(a, model));
    ck_assert(rg_equal(average, rg_scalar(7)));
    /* The update has written to both tensors. */
    ck_assert(rg_version(count) > counted && rg_version(average) > averaged);
    rg_module_free(a);
    rg_module_free(model);
}
END_TEST

/* Shapes are compared in all their dims, whatever the strides of the tensors. */
START_TEST(test_most_dims) {
    RG_SCOPE();
    rg_tensor *last = rg_transpose(rg_ones(3, 1, 1, 1, 1, 1, 1, 2), 0, 7);
    Counter *model = new_counter(rg_zeros(2, 1, 1, 1, 1, 1, 1, 3)), *turned = new_counter(last);
    Counter *longer = new_counter(rg_zeros(2, 1, 1, 1, 1, 1, 1, 4));
    rg_averaged_model *a = rg_optim_averaged_model(model, .use_buffers = true);
    ck_ok(rg_averaged_model_update_parameters(a, model));
    ck_ok(rg_averaged_model_update_parameters(a, turned));
    rg_tensor *mean = rg_full(RG_DIMS(2, 1, 1, 1, 1, 1, 1, 3), 0.5);
    ck_assert(rg_equal(rg_state_dict(a).v[1].tensor, mean));
    ck_fails(rg_averaged_model_update_parameters(a, longer), RG_RUNTIME_ERROR,
             "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
             "dimension 7");
    void *all[] = { a, model, turned, longer };
    for (int i = 0; i < 4; i++)
        rg_module_free(all[i]);
}
END_TEST

static void update(void *context) {
    void **c = context;
    rg_averaged_model_update_parameters(c[0], c[1]);
}

/* An update reads n_averaged, so it can't be recorded. */
START_TEST(test_no_recording) {
    RG_SCOPE();
    void *model = rg_nn_linear(2, 3), *c[] = { rg_optim_averaged_model(model), model };
    ck_fails(rg_record(update, c), RG_NOT_IMPLEMENTED, "averaged_model_update_parameters");
    rg_module_free(c[0]);
    rg_module_free(model);
}
END_TEST

RG_TESTS(averaged, test_most_dims, test_whole_numbers, test_averages, test_module, test_refused,
         test_vector, test_without_memory, test_models_without, test_no_recording)

/*
 * test_functional_call.c: a module is called with other tensors in place of its parameters.
 */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "regard.h"

#include <string.h>

static rg_sequential *net;
static rg_linear_module *first, *last;
static rg_tensor *x;

static void make_net(bool tied) {
    rg_manual_seed(1);
    rg_set_default_dtype(RG_FLOAT64);
    first = rg_nn_linear(3, 3);
    last = rg_nn_linear(3, 3);
    net = rg_nn_sequential(first, rg_nn_tanh(), last);
    x = rg_randn(4, 3);
    if (tied)
        ck_ok(rg_tie(&last->weight, first->weight));
}

static void free_net(void) {
    rg_module_free(net);
    rg_set_default_dtype(RG_FLOAT32);
}

/* Calls the net with w as its first weight, and b as its last bias. */
static rg_tensor *with(rg_tensor *w, rg_tensor *b) {
    const rg_named values[] = { { "0.weight", w }, { "2.bias", b } };
    return rg_functional_call(net, ((rg_named_list){ 2, values }), x);
}

static rg_tensor *by_hand(rg_tensor *w, rg_tensor *w2, rg_tensor *b) {
    return rg_linear(rg_tanh(rg_linear(x, w, first->bias)), w2, b);
}

START_TEST(test_values) {
    for (int tied = 0; tied < 2; tied++) {
        make_net(tied);
        rg_tensor *w = rg_randn(3, 3), *b = rg_randn(3), *own = first->weight;
        ck_assert(rg_equal(with(w, b), by_hand(w, tied ? w : last->weight, b)));
        ck_assert(first->weight == own && (last->weight == own) == tied);
        ck_ok(rg_call(net, x));
        free_net();
    }
}
END_TEST

static rg_tensor *loss(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mean(rg_square(with(in[0], in[1])));
}

/* Derivatives with respect to the parameters are those of a backward run, also of second order. */
START_TEST(test_derivatives) {
    make_net(false);
    rg_tensor *in[] = { rg_detach(first->weight), rg_detach(last->bias) };
    rg_tensor *h = rg_jacrev(loss, NULL, 2, in);
    ck_ok(rg_backward(rg_mean(rg_square(rg_call(net, x)))));
    ck_assert(rg_allclose(h, rg_grad_of(first->weight), 1e-12, 1e-12));
    rg_tensor *leaves[] = { rg_requires_grad_(rg_clone(in[0]), true),
                            rg_requires_grad_(rg_clone(in[1]), true) };
    ck_ok(rg_gradcheck(loss, NULL, 2, leaves));
    ck_ok(rg_gradgradcheck(loss, NULL, 2, leaves));
    ck_assert_int_eq(rg_ndim(rg_hessian(loss, NULL, 2, in)), 4);
    free_net();
}
END_TEST

START_TEST(test_refused) {
    make_net(true);
    rg_tensor *w = first->weight;
    const rg_named unknown = { "1.weight", x }, wrong = { "0.weight", rg_zeros(2, 2) };
    const rg_named twice[] = { { "0.weight", rg_ones(3, 3) }, { "2.weight", rg_ones(3, 3) } };
    ck_fails(rg_functional_call(net, ((rg_named_list){ 1, &unknown }), x), RG_RUNTIME_ERROR,
             "functional_call: the module has no parameter or buffer \"1.weight\"");
    ck_fails(rg_functional_call(net, ((rg_named_list){ 2, twice }), x), RG_VALUE_ERROR,
             "got multiple values for keys 0.weight and 2.weight, which are tied");
    ck_fails(rg_functional_call(net, ((rg_named_list){ 1, &wrong }), x), RG_RUNTIME_ERROR,
             "linear:");
    ck_assert(first->weight == w && last->weight == w);
    ck_fails(rg_functional_call(net, ((rg_named_list){ .n = -1 }), x), RG_TYPE_ERROR,
             "functional_call: expected a list");
    ck_fails(rg_functional_call((rg_module *)NULL, ((rg_named_list){ 0 }), x), RG_TYPE_ERROR,
             "functional_call: expected a module");
    ck_assert(rg_equal(rg_functional_call(net, ((rg_named_list){ 0 }), x), rg_call(net, x)));
    /* Both names of the tied weight may have the same value. */
    ck_assert(rg_equal(rg_functional_call(net, rg_state_dict(net), x), rg_call(net, x)));
    free_net();
}
END_TEST

/* ---- modules that a call changes ----------------------------------------------------------- */

typedef struct {
    rg_module base;
    rg_linear_module *layer;
    rg_tensor *buffer;
    bool replaces_layer;
} changing;

static rg_tensor *changing_forward(rg_module *module, rg_tensor *input) {
    changing *m = (changing *)module;
    if (m->replaces_layer)
        RG_CHILD(m, layer, rg_nn_linear(2, 2));
    else
        RG_BUFFER(m, buffer, rg_add(m->buffer, 1));
    return rg_add(rg_call(m->layer, input), m->buffer);
}

static const rg_module_class changing_class = { .name = "Changing",
                                                .forward = changing_forward };

/* A tensor that the call puts into a field stays there. A module that it replaces can't be freed
 * meanwhile. */
START_TEST(test_changes_in_the_call) {
    changing *m = RG_MODULE(changing, &changing_class);
    RG_CHILD(m, layer, rg_nn_linear(2, 2));
    RG_BUFFER(m, buffer, rg_zeros(2));
    ck_ok(RG_READY(m));
    rg_tensor *weight = m->layer->weight, *value = rg_full(RG_DIMS(2), 5.);
    const rg_named values[] = { { "buffer", value }, { "layer.weight", rg_ones(2, 2) } };
    ck_ok(rg_functional_call(m, ((rg_named_list){ 2, values }), rg_ones(1, 2)));
    ck_assert(rg_equal(m->buffer, rg_full(RG_DIMS(2), 6.)) && m->layer->weight == weight);
    ck_assert(rg_equal(value, rg_full(RG_DIMS(2), 5.)));
    m->replaces_layer = true;
    rg_linear_module *layer = m->layer;
    ck_fails(rg_functional_call(m, ((rg_named_list){ 2, values }), rg_ones(1, 2)),
             RG_RUNTIME_ERROR, "the module can't be freed while functional_call is working on it");
    ck_assert(layer->weight == weight && rg_equal(m->buffer, rg_full(RG_DIMS(2), 6.)));
    rg_module_free(layer);
    rg_module_free(m);
}
END_TEST

static rg_tensor *w, *b;
static bool use(void) {
    const rg_tensor *before = first->weight;
    const bool ok = with(w, b);
    ck_assert(first->weight == before);
    return ok;
}

START_TEST(test_denied) {
    make_net(false);
    w = rg_ones(3, 3);
    b = rg_ones(3);
    ck_assert_int_gt(deny_in_turn(use, NULL), 5);
    free_net();
}
END_TEST

RG_TESTS(functional_call, test_values, test_derivatives, test_refused, test_changes_in_the_call,
         test_denied)

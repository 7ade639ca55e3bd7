/*
 * test_copy.c: rg_deepcopy copies modules of the library and of the program as copy.deepcopy does.
 * Parameters that are shared in the original are shared in the copy.
 */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "regard.h"

#include <stdlib.h>
#include <string.h>

static bool same_lists(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n && a.n >= 0;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name) && a.v[i].tensor != b.v[i].tensor
               && rg_equal(a.v[i].tensor, b.v[i].tensor)
               && !strcmp(rg_name(a.v[i].tensor), rg_name(b.v[i].tensor))
               && rg_requires_grad(a.v[i].tensor) == rg_requires_grad(b.v[i].tensor)
               && rg_data(a.v[i].tensor) != rg_data(b.v[i].tensor);
    return same;
}

/* Returns whether b is a copy of a that shares nothing with it. */
static bool is_copy(void *a, void *b) {
    RG_SCOPE();
    rg_named_modules_list from = rg_named_modules(a), to = rg_named_modules(b);
    bool same = from.n == to.n && !strcmp(rg_module_repr(a), rg_module_repr(b))
                && same_lists(rg_named_parameters(a), rg_named_parameters(b))
                && same_lists(rg_named_buffers(a), rg_named_buffers(b))
                && same_lists(rg_state_dict(a), rg_state_dict(b));
    for (int i = 0; same && i < from.n; i++)
        same = !strcmp(from.v[i].name, to.v[i].name) && from.v[i].module != to.v[i].module
               && from.v[i].module->training == to.v[i].module->training;
    return same;
}

/* ---- what the library has --------------------------------------------------------- */

static void *many(void) {
    rg_sequential *m = rg_nn_sequential();
    for (int i = 0; m && i < 70; i++)
        if (!rg_sequential_append(m, rg_nn_linear(1, 1))) {
            rg_module_free(m);
            return NULL;
        }
    return m;
}

static rg_module *shared_tree(void) {
    rg_linear_module *l = rg_nn_linear(2, 2);
    rg_sequential *inner = rg_nn_sequential(l, rg_nn_relu());
    return (rg_module *)rg_nn_sequential(inner, l, rg_nn_sequential(inner));
}

#define MADE(name, ...) \
    static void *name(void) { return __VA_ARGS__; }
MADE(linear, rg_nn_linear(4, 3))
MADE(bare_linear, rg_nn_linear(4, 3, .bias = false))
MADE(embedding, rg_nn_embedding(4, 3, .padding_idx = 1))
MADE(loss, rg_nn_bce_with_logits_loss(.weight = rg_ones(3), .pos_weight = rg_ones(3)))
MADE(sequential, rg_nn_sequential(rg_nn_linear(2, 3), rg_nn_sequential(rg_nn_linear(3, 2))))
MADE(empty, rg_nn_sequential())
MADE(dict, rg_nn_module_dict({ "a", rg_nn_linear(2, 3) }, { "b", rg_nn_relu() }))
MADE(parameters, rg_nn_parameter_list(rg_ones(2), rg_zeros(3, 1)))
MADE(multihead, rg_nn_multihead_attention(4, 2, .kdim = 3, .add_bias_kv = true))
MADE(rotary, rg_nn_rotary_positions(5, 4, 10000))
MADE(sinusoidal, rg_nn_sinusoidal_positions(5, 3))
MADE(transformer, rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 2,
                                    .num_decoder_layers = 1, .dim_feedforward = 3))
MADE(gpt, rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 2, .n_head = 1, .n_embd = 2))
MADE(lstm, rg_nn_lstm(3, 2, .num_layers = 2, .bidirectional = true))
MADE(shared, shared_tree())

/* Makes a module whose buffer has a gradient, which its copy has, too. */
static void *with_gradient(void) {
    void *m = rg_nn_bce_with_logits_loss(.weight = rg_ones(3));
    rg_tensor *buffer = m ? rg_named_buffers(m).v[0].tensor : NULL;
    ck_ok(rg_requires_grad_(buffer, true) && rg_set_grad(buffer, rg_ones(3)));
    return m;
}

static void *(*const makers[])(void) = {
    linear, bare_linear, embedding,   loss, sequential, empty, dict, parameters,   multihead,
    rotary, sinusoidal,  transformer, gpt,  shared,     many,  lstm, with_gradient
};

START_TEST(test_of_each_layer) {
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        RG_SCOPE();
        rg_manual_seed(1);
        void *m = makers[i](), *copy = rg_deepcopy(m);
        ck_ok(copy);
        ck_assert_msg(is_copy(m, copy), "number %d is another", (int)i);
        rg_module_free(m);
        rg_manual_seed(1);
        m = makers[i]();
        ck_assert(is_copy(m, copy));
        rg_module_free(copy);
        rg_module_free(m);
    }
}
END_TEST

/* If memory is denied, there is no copy, and nothing is left behind. */
START_TEST(test_denied) {
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        void *m = makers[i]();
        rg_register_forward_hook(m, (rg_forward_hook *)(uintptr_t)abort, NULL);
        bool denied = true;
        for (int64_t fail = 1; denied; fail++) {
            int64_t live = rg_live_tensors();
            {
                RG_SCOPE();
                rg_memory_fail_at(fail);
                void *copy = rg_deepcopy(m);
                rg_memory_fail_at(0);
                denied = !copy;
                ck_assert(denied == (rg_error_code() == RG_OUT_OF_MEMORY));
                ck_assert(denied || is_copy(m, copy));
                rg_error_clear();
                rg_module_free(copy);
            }
            ck_assert(rg_live_tensors() == live && fail < 10000);
        }
        rg_module_free(m);
    }
}
END_TEST

START_TEST(test_ties) {
    rg_gpt *m = rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 1, .n_head = 1, .n_embd = 2);
    rg_gpt *copy = rg_deepcopy(m);
    rg_tensor *w = rg_get_parameter(copy, "transformer.wte.weight");
    ck_assert(w == copy->lm_head->weight && w != m->lm_head->weight);
    rg_module_free(m);
    rg_sequential *both = (rg_sequential *)shared_tree(), *other = rg_deepcopy(both);
    rg_sequential *inner = (rg_sequential *)other->v[0];
    ck_assert(inner->v[0] == other->v[1] && ((rg_sequential *)other->v[2])->v[0] == other->v[0]);
    ck_assert(inner != (rg_sequential *)both->v[0] && rg_parameters(other).n == 2);
    rg_module_free(both);
    ck_ok(rg_call(other, rg_ones(2)));
    /* In the copy of a submodule, names begin at the submodule. */
    rg_sequential *part = rg_deepcopy(inner);
    ck_assert_str_eq(rg_name(rg_get_parameter(part, "0.weight")), "0.weight");
    ck_assert_str_eq(rg_name(rg_get_parameter(other, "0.0.weight")), "2.0.0.weight");
    rg_module_free(other);
    rg_module_free(part);
    rg_module_free(copy);
    /* A name that a program gave stays, whatever it looks like. */
    rg_linear_module *l = rg_nn_linear(2, 2), *named;
    ck_ok(rg_set_name(l->weight, ".weight") && rg_set_name(l->bias, "0.bias"));
    named = rg_deepcopy(l);
    ck_assert_str_eq(rg_name(named->weight), ".weight");
    ck_assert_str_eq(rg_name(named->bias), "0.bias");
    rg_module_free(l);
    rg_module_free(named);
}
END_TEST

/* A copied parameter has no gradient, and a copied buffer has a copy of its gradient. Flags and
 * modes are copied, too. */
START_TEST(test_state) {
    rg_sequential *m = rg_nn_sequential(rg_nn_linear(2, 2), rg_nn_dropout(0.5),
                                        rg_nn_bce_loss(.weight = rg_ones(2)));
    rg_linear_module *l = (rg_linear_module *)m->v[0];
    rg_loss_module *loss = (rg_loss_module *)m->v[2];
    rg_train(m->v[1], false);
    rg_set_name(l->bias, "mine");
    ck_ok(rg_requires_grad_(l->bias, false));
    ck_ok(rg_backward(rg_sum(l->weight)));
    rg_requires_grad_(loss->weight, true);
    ck_ok(rg_backward(rg_sum(loss->weight)));
    /* As in torch, a copy has the same strides. */
    ck_ok(rg_set_data(l->weight, rg_T(rg_literal([ [ 1.0, 2.0 ], [ 3.0, 4.0 ] ]))));
    rg_sequential *copy = rg_deepcopy(m);
    ck_ok(copy);
    rg_linear_module *own = (rg_linear_module *)copy->v[0];
    ck_assert(rg_grad_of(own->weight) == RG_NONE && rg_grad_of(l->weight) != RG_NONE);
    ck_assert(rg_item(rg_sum(rg_grad_of(((rg_loss_module *)copy->v[2])->weight))) == 2);
    ck_assert(!rg_requires_grad(own->bias) && rg_requires_grad(own->weight));
    ck_assert(!copy->v[1]->training && copy->base.training && rg_is_leaf(own->weight));
    ck_assert_str_eq(rg_name(own->bias), "mine");
    ck_assert(rg_stride(own->weight, 0) == 1 && !strncmp(rg_repr(own->weight), "Parameter", 9));
    /* Writing to the copy doesn't change the original. */
    {
        RG_NO_GRAD();
        rg_zero_(own->weight);
    }
    ck_assert(rg_item(rg_sum(l->weight)) == 10);
    rg_module_free(m);
    rg_module_free(copy);
    rg_loss_module *computed =
        rg_nn_bce_loss(.weight = rg_mul(rg_ones(2), rg_requires_grad_(rg_ones(2), true)));
    ck_fails(rg_deepcopy(computed), RG_RUNTIME_ERROR,
             "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
             "deepcopy protocol at the moment. 'weight' was computed");
    rg_module_free(computed);
}
END_TEST

static rg_tensor *count(rg_module *m, rg_list in, rg_tensor *y, void *calls) {
    (void)m;
    (void)in;
    (void)y;
    ++*(int *)calls;
    return RG_NONE;
}

static void calls_it(void *m) { rg_call(m, rg_ones(2)); }

START_TEST(test_hooks) {
    int calls[3] = { 0 };
    rg_linear_module *m = rg_nn_linear(2, 2);
    int ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = rg_register_forward_hook(&m->base, count, &calls[i]);
    ck_assert(rg_remove_forward_hook(&m->base, ids[0]));
    rg_linear_module *copy = rg_deepcopy(m);
    ck_ok(rg_call(copy, rg_ones(2)));
    ck_assert(calls[0] == 0 && calls[1] == 1 && calls[2] == 1);
    /* Both modules have the hook under the same id. Removing it from the copy leaves it in m. */
    ck_assert(rg_remove_forward_hook(&copy->base, ids[1]));
    ck_assert(rg_register_forward_hook(&copy->base, count, &calls[0]) == ids[2] + 1);
    ck_ok(rg_call(m, rg_ones(2)) && rg_call(copy, rg_ones(2)));
    ck_assert(calls[0] == 1 && calls[1] == 2 && calls[2] == 3);
    /* A step with the copy can be recorded once the copy has no hook left. A hook that was removed
     * from m before the copy was made isn't in the copy. */
    ck_assert(rg_remove_forward_hook(&copy->base, ids[2]));
    ck_fails(rg_record(calls_it, copy), RG_NOT_IMPLEMENTED, "a forward hook");
    ck_assert(rg_remove_forward_hook(&copy->base, ids[2] + 1));
    ck_fails(rg_remove_forward_hook(&copy->base, ids[0]), RG_VALUE_ERROR, "the module has no hook");
    rg_replay *replay = rg_record(calls_it, copy);
    ck_ok(replay);
    rg_replay_free(replay);
    rg_module_free(m);
    rg_module_free(copy);
}
END_TEST

/* ---- classes of the program --------------------------------------------------------- */

/* A class with an array of parameters outside of its struct (`rows`), and with pointers to its own
 * child and parameters. */
typedef struct {
    rg_module base;
    rg_linear_module *body;
    rg_tensor *weight, *alias;
    rg_tensor **rows;
    int n;
    char letters[3];
} Own;

static int copies_left = 100, blocks;

static void own_destroy(rg_module *m) {
    free(((Own *)m)->rows);
    blocks--;
}

static bool own_copy(rg_module *m, const rg_module *from) {
    Own *self = (Own *)m;
    const Own *other = (const Own *)from;
    size_t bytes = (size_t)other->n * sizeof *other->rows;
    if (copies_left-- == 0)
        return false;
    self->alias = self->weight;
    self->rows = malloc(bytes);
    blocks++;
    memcpy(self->rows, other->rows, bytes);
    return rg_move_places(m, other->rows, self->rows, bytes);
}

/* Allocates the array of the copy, but doesn't call rg_move_places. So the copy's parameters would
 * still be registered in the original's array. */
static bool lazy_copy(rg_module *m, const rg_module *from) {
    const Own *other = (const Own *)from;
    ((Own *)m)->rows = calloc((size_t)other->n, sizeof *other->rows);
    blocks++;
    return true;
}

static const rg_module_class own_class = { .name = "Own",
                                           .destroy = own_destroy,
                                           .copy = own_copy };
static const rg_module_class lazy_class = { .name = "Lazy",
                                            .destroy = own_destroy,
                                            .copy = lazy_copy };
static const rg_module_class careless_class = { .name = "Careless", .destroy = own_destroy };
static const rg_module_class forgetful_class = { .name = "Forgetful" };

static Own *own_new(const rg_module_class *cls) {
    Own *self = RG_MODULE(Own, cls, .n = 20, .letters = "ab");
    self->rows = calloc((size_t)self->n, sizeof *self->rows);
    blocks++;
    RG_PARAMETER(self, weight, rg_ones(2));
    self->alias = self->weight;
    RG_CHILD(self, body, rg_nn_linear(2, 3));
    for (int i = 0; i < self->n; i++) {
        char name[] = { (char)('a' + i), 0 };
        rg_register_parameter(&self->base, name, &self->rows[i], rg_full(RG_DIMS(2), (double)i));
    }
    return RG_READY(self);
}

START_TEST(test_class_of_ones_own) {
    Own *m = own_new(&own_class);
    rg_sequential *two = rg_nn_sequential(m, own_new(&own_class));
    rg_sequential *copy = rg_deepcopy(two);
    ck_ok(copy);
    ck_assert(is_copy(two, copy));
    Own *own = (Own *)copy->v[0];
    ck_assert(own->alias == own->weight && own->rows != m->rows && own->n == 20);
    ck_assert(!strcmp(own->letters, "ab") && rg_item(rg_sum(own->rows[7])) == 14);
    ck_assert(rg_get_parameter(copy, "0.h") == own->rows[7]);
    rg_module_free(copy);
    /* The class's copy function fails for the first of the two modules, then for the second one. */
    for (int left = 0; left < 2; left++) {
        copies_left = left;
        ck_fails(rg_deepcopy(two), RG_TYPE_ERROR, "deepcopy: expected true of the class's copy");
        ck_assert_int_eq(blocks, 2);
    }
    copies_left = 100;
    rg_module_free(two);
    ck_assert_int_eq(blocks, 0);
}
END_TEST

START_TEST(test_classes_without_copy) {
    Own *m = own_new(&careless_class);
    ck_fails(rg_deepcopy(m), RG_TYPE_ERROR,
             "deepcopy: cannot copy 'Careless' object: its class has destroy, but no copy");
    rg_module_free(m);
    m = own_new(&forgetful_class);
    rg_tensor **rows = m->rows;
    ck_fails(rg_deepcopy(m), RG_TYPE_ERROR,
             "cannot copy 'Forgetful' object: the place of 'a' lies outside of its struct, and its "
             "class has no copy that moves it");
    rg_module_free(m);
    free(rows);
    blocks = 0;
    m = own_new(&lazy_class);
    ck_fails(rg_deepcopy(m), RG_TYPE_ERROR, "the place of 'a' lies outside of its struct");
    ck_assert_int_eq(blocks, 1);
    rg_module_free(m);
    ck_assert(!rg_deepcopy(NULL));
    ck_fails((rg_deepcopy)(rg_ones(2)), RG_TYPE_ERROR,
             "deepcopy: torch.FloatTensor is not a Module subclass");
}
END_TEST

/* rg_deepcopy fails if a field has a tensor that isn't registered. */
START_TEST(test_not_registered) {
    rg_linear_module *m = rg_nn_linear(2, 2);
    rg_tensor *own = m->bias;
    m->bias = rg_ones(2);
    ck_fails(rg_deepcopy(m), RG_RUNTIME_ERROR, "the tensor in 'bias' isn't registered");
    m->bias = own;
    rg_module_free(m);
}
END_TEST

/* A module is in two trees, and the second tree is copied. In the copy, the module's parameters are
 * named by their path in the second tree. */
START_TEST(test_part_of_another_tree) {
    RG_SCOPE();
    rg_sequential *part = rg_nn_sequential(rg_nn_relu());
    rg_sequential *first = rg_nn_sequential(rg_nn_relu(), rg_nn_relu(), part);
    rg_sequential *second = rg_nn_sequential(rg_nn_relu(), part), *copy = rg_deepcopy(second);
    ck_ok(copy);
    rg_linear_module *l = rg_nn_linear(2, 2);
    ck_ok(rg_sequential_append((rg_sequential *)copy->v[1], l));
    ck_assert_str_eq(rg_name(l->weight), "1.1.weight");
    ck_assert(part->n == 1 && rg_get_parameter(copy, "1.1.weight") == l->weight);
    rg_module_free(first);
    rg_module_free(second);
    rg_module_free(copy);
}
END_TEST

static void *graded;

/* Copies a module whose buffer has a gradient. */
static bool copies_gradient(void) {
    RG_SCOPE();
    void *copy = rg_deepcopy(graded);
    rg_module_free(copy);
    return copy;
}

START_TEST(test_starved) {
    graded = with_gradient();
    starve_in_turn(copies_gradient, 12);
    rg_module_free(graded);
}
END_TEST

/* A copy is finished, as if its constructor had used RG_READY: it still works after a registration
 * in it has failed. */
START_TEST(test_copies_are_ready) {
    RG_SCOPE();
    rg_sequential *m = rg_nn_sequential(), *copy = rg_deepcopy(m);
    ck_assert(!rg_sequential_append(copy, NULL) && rg_error_code() == RG_TYPE_ERROR);
    rg_error_clear();
    ck_ok(rg_sequential_append(copy, rg_nn_relu()));
    ck_assert(copy->n == 1 && m->n == 0);
    rg_module_free(m);
    rg_module_free(copy);
}
END_TEST

/* The copy of a module without children or tensors takes as much memory as the module. */
START_TEST(test_copy_of_nothing) {
    RG_SCOPE();
    const int64_t before = rg_memory_stats().now;
    void *m = rg_nn_sequential();
    const int64_t own = rg_memory_stats().now - before;
    void *copy = rg_deepcopy(m);
    ck_ok(copy);
    ck_assert_int_eq(rg_memory_stats().now - before, 2 * own);
    rg_module_free(m);
    rg_module_free(copy);
    ck_assert_int_eq(rg_memory_stats().now, before);
}
END_TEST

RG_TESTS(copy, test_of_each_layer, test_denied, test_ties, test_state, test_hooks,
         test_class_of_ones_own, test_classes_without_copy, test_not_registered,
         test_part_of_another_tree, test_copy_of_nothing, test_copies_are_ready, test_starved)

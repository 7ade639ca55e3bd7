/*
 * test_containers.c: ModuleDict and ParameterList, modules and tensors under a path, and the
 * keywords of a call, as a hook sees them. Sequential and ModuleList are in test_replace.c.
 */
#define TWIN_DATA "layers"
#include "twin.h"
#include "tensor/memory.h"

/* ---- ModuleDict -------------------------------------------------------------------- */

START_TEST(test_module_dict) {
    rg_module_dict *m = rg_nn_module_dict({ "linear", rg_nn_linear(2, 3) },
                                          { "act", rg_nn_relu() });
    ck_assert_str_eq(rg_module_repr(m),
                     "ModuleDict(\n"
                     "  (linear): Linear(in_features=2, out_features=3, bias=True)\n"
                     "  (act): ReLU()\n"
                     ")");
    rg_linear_module *linear = rg_module_dict_get(m, "linear");
    ck_assert(linear && linear->out_features == 3 && m->n == 2 && m->v[0] == &linear->base);
    ck_assert(rg_module_dict_contains(m, "act") && !rg_module_dict_contains(m, "acts"));
    ck_assert(rg_error_code() == RG_OK);
    ck_fails(rg_module_dict_get(m, "acts"), RG_INDEX_ERROR, "module_dict_get: KeyError: 'acts'");
    /* A module under a name that is taken replaces the old module, and keeps its place in the
     * order. */
    ck_assert(rg_module_dict_set(m, "linear", rg_nn_tanh()));
    ck_assert(rg_module_dict_set(m, "last", rg_nn_gelu()));
    rg_named_modules_list items = rg_module_dict_items(m);
    const char *names[] = { "linear", "act", "last" }, *classes[] = { "Tanh", "ReLU", "GELU" };
    ck_assert_int_eq(items.n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(!strcmp(items.v[i].name, names[i]) && items.v[i].module == m->v[i]
                  && !strcmp(m->v[i]->cls->name, classes[i]));
    ck_fails(rg_module_dict_set(m, "a.b", rg_nn_relu()), RG_VALUE_ERROR,
             "module name can't contain \".\"");
    ck_fails(rg_module_dict_set(m, "", rg_nn_relu()), RG_VALUE_ERROR,
             "module name can't be empty string \"\"");
    ck_assert(!rg_module_dict_set(m, NULL, rg_nn_relu()) && !rg_module_dict_set(m, "x", NULL)
              && !rg_module_dict_set(NULL, "x", rg_nn_relu()) && !rg_module_dict_get(NULL, "x")
              && !rg_module_dict_contains(m, NULL) && rg_module_dict_items(NULL).n == -1);
    rg_error_clear();
    ck_assert(m->n == 3);
    ck_fails(rg_call(m, rg_ones(2)), RG_NOT_IMPLEMENTED,
             "Module [ModuleDict] is missing the required \"forward\" function");
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        ck_assert(rg_module_dict_set(m, name, rg_nn_linear(1, 1, .bias = false)));
    }
    ck_assert(m->n == 103 && rg_state_dict(m).n == 100);
    ck_assert(rg_module_dict_get(m, "n77") == m->v[80]);
    rg_module_free(m);
    m = rg_nn_module_dict();
    ck_assert(m && m->n == 0 && rg_module_dict_items(m).n == 0);
    ck_assert_str_eq(rg_module_repr(m), "ModuleDict()");
    rg_module_free(m);
    rg_module *twice = (rg_module *)rg_nn_relu();
    ck_fails(rg_nn_module_dict({ "a", twice }, { "a.b", twice }), RG_VALUE_ERROR, "contain");
    m = rg_nn_module_dict({ "a", rg_nn_relu() }, { "a", rg_nn_tanh() });
    ck_assert(m->n == 1 && !strcmp(m->v[0]->cls->name, "Tanh"));
    rg_module_free(m);
}
END_TEST

/* ---- ParameterList ------------------------------------------------------------------ */

START_TEST(test_parameter_list) {
    rg_parameter_list *m = rg_nn_parameter_list(rg_ones(2, 3), rg_zeros());
    ck_assert_str_eq(rg_module_repr(m),
                     "ParameterList(\n"
                     "    (0): Parameter containing: [torch.float32 of size 2x3]\n"
                     "    (1): Parameter containing: [torch.float32 of size ]\n"
                     ")");
    ck_assert(m->n == 2 && rg_requires_grad(m->v[0]) && !strcmp(rg_name(m->v[1]), "1"));
    ck_assert(rg_parameter_list_append(m, rg_scalar_dtype(2, RG_FLOAT64)));
    ck_assert(rg_parameter_list_set(m, -3, rg_full(RG_DIMS(4), 5.0)));
    ck_assert(rg_item(rg_sum(m->v[0])) == 20 && rg_parameters(m).n == 3);
    ck_fails(rg_parameter_list_set(m, 3, rg_ones(1)), RG_INDEX_ERROR, "index 3 is out of range");
    ck_fails(rg_parameter_list_append(m, rg_long(rg_ones(1))), RG_RUNTIME_ERROR,
             "Only Tensors of floating point and complex dtype can require gradients");
    ck_assert(m->n == 3 && !rg_parameter_list_append(m, NULL)
              && !rg_parameter_list_append(NULL, rg_ones(1))
              && !rg_parameter_list_set(NULL, 0, rg_ones(1)) && m->n == 3);
    rg_error_clear();
    ck_fails(rg_call(m, rg_ones(2)), RG_NOT_IMPLEMENTED, "missing the required \"forward\"");
    rg_tensor *plain = rg_ones(2), *parameter = m->v[0];
    ck_assert(rg_parameter_list_set(m, 1, plain) && rg_parameter_list_set(m, 2, parameter));
    ck_assert(!rg_requires_grad(plain) && rg_data(m->v[1]) == rg_data(plain));
    ck_assert(m->v[2] == parameter && rg_requires_grad(m->v[1]) && rg_is_leaf(m->v[1]));
    /* The text of a long list is complete. The list's parameters still work after the array m->v
     * has been reallocated. */
    for (int i = 0; i < 200; i++)
        ck_assert(rg_parameter_list_append(m, rg_ones(1, 2)));
    const char *text = rg_module_repr(m);
    ck_assert(strlen(text) > 203 * 50 && strstr(text, "    (202): Parameter containing: "));
    ck_ok(rg_backward(rg_sum(rg_mul(m->v[1], m->v[150]))));
    ck_assert(rg_item(rg_sum(rg_grad_of(m->v[1]))) == 2);
    rg_module_free(m);
    m = rg_nn_parameter_list();
    ck_assert_str_eq(rg_module_repr(m), "ParameterList()");
    ck_assert(rg_parameter_list_append(m, RG_NONE) && rg_parameters(m).n == 0);
    ck_assert_str_eq(rg_module_repr(m), "ParameterList(  (0): Object of type: NoneType)");
    rg_module_free(m);
    ck_assert(!rg_nn_parameter_list(rg_ones(2), NULL));
}
END_TEST

/* ---- modules and tensors under a path ------------------------------------------------ */

/* A module with children can be added below a child, but not below itself. */
START_TEST(test_trees_grow) {
    rg_sequential *inner = rg_nn_sequential(rg_nn_relu());
    rg_sequential *outer = rg_nn_sequential(inner, rg_nn_tanh());
    ck_ok(rg_sequential_append(inner, rg_nn_sequential(rg_nn_relu(), rg_nn_linear(2, 3))));
    ck_assert_int_eq(rg_num_parameters(outer), 9);
    ck_fails(rg_sequential_append(inner, outer), RG_VALUE_ERROR, "would be a child of itself");
    rg_module_free(outer);
}
END_TEST

START_TEST(test_paths) {
    rg_sequential *m =
        rg_nn_sequential(rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3, .bias = false),
                         rg_nn_rotary_positions(5, 4, 10));
    rg_linear_module *linear = rg_get_submodule(m, "0.linear1");
    ck_assert(linear && linear->out_features == 3 && rg_get_submodule(m, "") == m);
    ck_assert(rg_get_parameter(m, "0.linear1.weight") == linear->weight);
    ck_assert(rg_get_parameter(linear, "weight") == linear->weight);
    ck_ok(rg_get_buffer(m->v[1], rg_named_buffers(m->v[1]).v[0].name));
    ck_fails(rg_get_submodule(m, "0.linear9"), RG_VALUE_ERROR,
             "get_submodule: TransformerEncoderLayer has no attribute `linear9`");
    ck_fails(rg_get_submodule(m, "7.linear1"), RG_VALUE_ERROR, "Sequential has no attribute `7`");
    ck_fails(rg_get_submodule(m, "0.linear1.weight"), RG_VALUE_ERROR,
             "`weight` is not an nn.Module");
    ck_fails(rg_get_submodule(m, "0."), RG_VALUE_ERROR, "has no attribute ``");
    ck_fails(rg_get_submodule(m, "."), RG_VALUE_ERROR, "Sequential has no attribute ``");
    ck_fails(rg_get_parameter(m, "0.linear1"), RG_VALUE_ERROR,
             "get_parameter: `linear1` is not an nn.Parameter");
    ck_fails(rg_get_parameter(m, "0.linear1.bias"), RG_VALUE_ERROR,
             "`bias` is not an nn.Parameter");
    ck_fails(rg_get_parameter(m, "0.linear1.b"), RG_VALUE_ERROR, "Linear has no attribute `b`");
    ck_fails(rg_get_parameter(m, ""), RG_VALUE_ERROR, "Sequential has no attribute ``");
    ck_fails(rg_get_buffer(m, "0.linear1.weight"), RG_VALUE_ERROR,
             "get_buffer: `weight` is not a buffer");
    char long_path[400];
    memset(long_path, 'x', sizeof long_path);
    long_path[399] = 0;
    ck_fails(rg_get_submodule(m, long_path), RG_VALUE_ERROR, "Sequential has no attribute `xxx");
    ck_assert(!rg_get_submodule(NULL, "0") && !rg_get_submodule(m, NULL)
              && !rg_get_parameter(m, NULL) && !rg_get_parameter(NULL, "a.b")
              && !rg_get_buffer(NULL, "a") && !rg_get_buffer(m, NULL));
    rg_error_clear();
    rg_module_free(m);
}
END_TEST

/* ---- results besides the first, as a hook sees them ---------------------------------- */

/* Doubles the weights that attention returns. */
static rg_tensor *double_weights(rg_module *m, rg_list in, rg_tensor *y, void *seen) {
    (void)in;
    (void)y;
    rg_multihead_keywords *k = rg_keywords_of_call(m);
    *(void **)seen = k;
    if (k)
        k->weights = rg_escape(rg_mul(k->weights, 2));
    return RG_NONE;
}

/* Asks for the weights of each head. */
static rg_tensor *ask(rg_module *m, rg_list in, rg_tensor *y, void *unused) {
    (void)in;
    (void)y;
    (void)unused;
    rg_multihead_keywords *k = rg_keywords_of_call(m);
    k->options.average_attn_weights = false;
    return RG_NONE;
}

START_TEST(test_keywords_of_call) {
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2);
    rg_tensor *x = rg_ones(3, 1, 4);
    void *seen = m;
    int id = rg_register_forward_hook(&m->base, double_weights, &seen);
    rg_attended a = rg_multihead_attention_forward(m, x, x, x);
    ck_ok(a.output);
    ck_assert(seen && fabs(rg_item(rg_sum(a.weights)) - 6) < 1e-5);
    ck_ok(rg_call(m, x));
    ck_assert(!seen && rg_error_code() == RG_OK);
    ck_assert(rg_remove_forward_hook(&m->base, id));
    rg_register_forward_pre_hook(&m->base, ask, NULL);
    a = rg_multihead_attention_forward(m, x, x, x);
    ck_assert(rg_ndim(a.weights) == 4);
    ck_fails(rg_keywords_of_call(&m->base), RG_RUNTIME_ERROR,
             "no call of the MultiheadAttention is under way");
    ck_assert(!rg_keywords_of_call(NULL));
    rg_error_clear();
    rg_module_free(m);
}
END_TEST

static bool use_dict(void) {
    rg_module_dict *m = rg_nn_module_dict({ "a", rg_nn_linear(1, 1) }, { "b", rg_nn_relu() });
    bool ok = rg_module_dict_set(m, "c", rg_nn_linear(1, 1))
              && rg_module_dict_set(m, "a", rg_nn_relu()) && rg_module_dict_items(m).n == 3
              && rg_module_repr(m);
    rg_module_free(m);
    return ok;
}

static bool use_list(void) {
    rg_parameter_list *m = rg_nn_parameter_list(rg_ones(1), rg_ones(2), rg_ones(2), rg_ones(2));
    bool ok = rg_parameter_list_append(m, rg_ones(1)) && rg_parameter_list_set(m, 0, rg_ones(2));
    for (int i = 0; i < 80 && ok; i++)
        ok = rg_parameter_list_append(m, rg_ones(1));
    ok = ok && rg_module_repr(m) && rg_get_parameter(m, "3");
    rg_module_free(m);
    return ok;
}

START_TEST(test_out_of_memory) {
    twin_out_of_memory(use_dict);
    twin_out_of_memory(use_list);
}
END_TEST

/* ---- places in a list --------------------------------------------------------------- */

/* As in Python, index -n is the first of n modules. A module inserted at index n becomes the last
 * one. */
START_TEST(test_first_and_last_places) {
    RG_SCOPE();
    rg_sequential *s = rg_nn_sequential(rg_nn_relu(), rg_nn_tanh());
    ck_ok(rg_sequential_insert(s, -2, rg_nn_gelu()) && rg_sequential_insert(s, 3, rg_nn_silu()));
    ck_ok(rg_sequential_set(s, -4, rg_nn_identity()));
    const char *names[] = { "Identity", "ReLU", "Tanh", "SiLU" };
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(s->v[i]->cls->name, names[i]);
    ck_fails(rg_sequential_insert(s, -5, rg_nn_relu()), RG_INDEX_ERROR, "Index out of range: -5");
    ck_fails(rg_sequential_insert(s, 5, rg_nn_relu()), RG_INDEX_ERROR, "Index out of range: 5");
    ck_fails(rg_sequential_set(s, -5, rg_nn_relu()), RG_INDEX_ERROR, "index -5 is out of range");
    ck_fails(rg_sequential_set(s, 4, rg_nn_relu()), RG_INDEX_ERROR, "index 4 is out of range");
    rg_module_free(s);
}
END_TEST

/* Elements of a list are replaced at each index, and modules are inserted into a list of modules at
 * each index. An index may be negative, which counts from the end. The other elements keep their
 * index, or move by one. */
enum { PLACES = 4 };

static void each_place_is_set(int at) {
    RG_SCOPE();
    rg_parameter_list *p = rg_nn_parameter_list();
    rg_module_list *m = rg_nn_module_list();
    rg_tensor *value[PLACES], *other = rg_requires_grad_(rg_ones(2), true);
    void *child[PLACES], *new_child = rg_nn_tanh();
    for (int i = 0; i < PLACES; i++) {
        value[i] = rg_requires_grad_(rg_ones(1), true);
        child[i] = rg_nn_relu();
        ck_ok(rg_parameter_list_append(p, value[i]) && rg_module_list_append(m, child[i]));
    }
    ck_ok(rg_parameter_list_set(p, at, other) && rg_module_list_set(m, at, new_child));
    ck_assert(p->n == PLACES && m->n == PLACES);
    for (int i = 0; i < PLACES; i++) {
        const bool here = i == at || i == at + PLACES;
        ck_assert_msg(rg_data(p->v[i]) == rg_data(here ? other : value[i]),
                      "%d was set, and %d is wrong", at, i);
        ck_assert_msg(m->v[i] == (here ? new_child : child[i]), "%d was set, and %d is wrong", at,
                      i);
    }
    rg_module_free(p);
    rg_module_free(m);
}

static void is_inserted_at_each_place(int at) {
    RG_SCOPE();
    rg_module_list *m = rg_nn_module_list();
    void *child[PLACES], *added = rg_nn_tanh();
    for (int i = 0; i < PLACES; i++) {
        child[i] = rg_nn_linear(1, 1);
        ck_ok(rg_module_list_append(m, child[i]));
    }
    ck_ok(rg_module_list_insert(m, at, added));
    ck_assert_int_eq(m->n, PLACES + 1);
    const int place = at < 0 ? at + PLACES : at;
    for (int i = 0; i <= PLACES; i++) {
        ck_assert(m->v[i] == (i == place ? added : child[i - (i > place)]));
        char path[20];
        snprintf(path, sizeof path, "%d", i);
        ck_assert(rg_get_submodule(m, path) == m->v[i]);
        snprintf(path, sizeof path, "%d.weight", i);
        ck_assert(i == place || !strcmp(rg_name(((rg_linear_module *)m->v[i])->weight), path));
    }
    rg_module_free(m);
}

START_TEST(test_each_place) {
    for (int at = -PLACES; at < PLACES; at++)
        each_place_is_set(at);
    for (int at = -PLACES; at <= PLACES; at++)
        is_inserted_at_each_place(at);
}
END_TEST

/* A child in two trees is named after its path in the first tree. Moving it in the second tree
 * doesn't change its name. */
START_TEST(test_names_in_two_trees) {
    RG_SCOPE();
    rg_linear_module *l = rg_nn_linear(2, 2);
    rg_sequential *first = rg_nn_sequential(rg_nn_relu(), l), *second = rg_nn_sequential(l);
    ck_assert_str_eq(rg_name(l->weight), "1.weight");
    ck_ok(rg_sequential_insert(second, 0, rg_nn_relu()));
    ck_ok(rg_sequential_insert(second, 0, rg_nn_relu()));
    ck_assert_str_eq(rg_name(l->weight), "1.weight");
    ck_ok(rg_sequential_insert(first, 0, rg_nn_relu()));
    ck_assert_str_eq(rg_name(l->weight), "2.weight");
    /* Freeing the second tree changes nothing in the first one. */
    rg_module_free(second);
    ck_ok(rg_sequential_insert(first, 0, rg_nn_relu()));
    ck_assert_str_eq(rg_name(l->weight), "3.weight");
    rg_module_free(first);
}
END_TEST

/* Functions fail if a program has put a module into a field without registering it. NULL and
 * released tensors are refused with errors of their own. */
START_TEST(test_what_isnt_held) {
    RG_SCOPE();
    rg_module_dict *m = rg_nn_module_dict({ "a", rg_nn_relu() });
    rg_module *child = m->v[0], *stranger = &rg_nn_relu()->base;
    m->v[0] = stranger;
    ck_fails(rg_module_dict_get(m, "a"), RG_RUNTIME_ERROR,
             "module_dict_get: the module in 'a' isn't registered");
    ck_fails(rg_module_dict_items(m).n >= 0, RG_RUNTIME_ERROR,
             "module_dict_items: the module in 'a' isn't registered");
    m->v[0] = child;
    ck_assert(rg_module_dict_get(m, "a") == child);
    rg_parameter_list *list = rg_nn_parameter_list(rg_ones(2));
    ck_fails(rg_parameter_list_append(list, NULL), RG_TYPE_ERROR,
             "parameter_list_append: expected a tensor but got NULL");
    rg_module_free(stranger);
    ck_fails(rg_sequential_insert(NULL, 0, rg_nn_relu()), RG_TYPE_ERROR,
             "sequential_insert: expected a module but got NULL");
    ck_fails(rg_module_list_set(NULL, 0, rg_nn_relu()), RG_TYPE_ERROR,
             "module_list_set: expected a module but got NULL");
    if (!rgi_pool_bypassed()) {
        ck_fails(rg_sequential_append(NULL, stranger), RG_TYPE_ERROR,
                 "sequential_append: expected a module but got NULL");
        rg_tensor *dead = rg_keep(rg_ones(2));
        rg_drop(dead);
        ck_fails(rg_parameter_list_append(list, dead), RG_RELEASED, "parameter_list_append: ");
        ck_fails(rg_parameter_list_set(list, 0, dead), RG_RELEASED, "parameter_list_set: ");
    }
    ck_assert_int_eq(list->n, 1);
    rg_module_free(list);
    rg_module_free(m);
}
END_TEST

/* The text of an argument isn't repeated, so compilers can cope with many levels. */
START_TEST(test_nested) {
    rg_sequential *m = rg_nn_sequential(rg_nn_sequential(rg_nn_sequential(rg_nn_sequential(
        rg_nn_sequential(rg_nn_sequential(rg_nn_sequential(rg_nn_sequential(rg_nn_relu()))))))));
    ck_ok(rg_call(m, rg_ones(2)));
    rg_module_free(m);
}
END_TEST

RG_TESTS(containers, test_nested, test_module_dict, test_parameter_list, test_trees_grow,
         test_paths, test_keywords_of_call, test_out_of_memory, test_first_and_last_places,
         test_each_place, test_names_in_two_trees, test_what_isnt_held)

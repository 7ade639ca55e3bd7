/*
 * test_replace.c: a child, parameter or buffer that is registered under an old name replaces the
 * old one, in modules and in containers. If a field has a module or tensor that isn't registered,
 * functions fail.
 */
#define TWIN_DATA "layers"
#include "twin.h"

typedef struct {
    rg_module base;
    rg_linear_module *body, *head;
    rg_tensor *scale, *mask;
} Net;

static rg_tensor *net_forward(rg_module *m, rg_tensor *x) {
    Net *self = (Net *)m;
    return rg_call(self->head, rg_mul(rg_call(self->body, x), self->scale));
}
static const rg_module_class net_class = { .name = "Net", .forward = net_forward };

static Net *new_net(void) {
    Net *self = RG_MODULE(Net, &net_class);
    RG_CHILD(self, body, rg_nn_linear(2, 3));
    RG_PARAMETER(self, scale, rg_ones(3));
    RG_BUFFER(self, mask, rg_ones(3));
    RG_CHILD(self, head, rg_nn_linear(3, 3));
    return RG_READY(self);
}

static const char *names_of(void *m) {
    static char text[1024];
    rg_named_list l = rg_state_dict(m);
    *text = 0;
    for (int i = 0; i < l.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%s", i ? " " : "",
                 l.v[i].name, rg_repr_shape(l.v[i].tensor) + strlen("torch.Size"));
    return text;
}

START_TEST(test_replaced_in_a_module) {
    int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
    RG_FOR (int once = 0; once < 1; once++) {
        Net *m = new_net();
        rg_sequential *top = rg_nn_sequential(rg_nn_relu(), m);
        /* model.head = nn.Linear(3, 5) */
        RG_CHILD(m, head, rg_nn_linear(3, 5));
        ck_ok(m->head->out_features == 5);
        ck_assert_str_eq(names_of(m), "scale:([3]) mask:([3]) body.weight:([3, 2]) body.bias:([3]) "
                                      "head.weight:([5, 3]) head.bias:([5])");
        ck_assert_int_eq(rg_size(rg_call(top, rg_ones(2)), 0), 5);
        /* The parameter's own name tells the whole path. */
        ck_assert_str_eq(rg_name(m->head->weight), "1.head.weight");
        RG_PARAMETER(m, scale, rg_full(RG_DIMS(3), 2.0));
        ck_assert(rg_error_code() == RG_OK && rg_requires_grad(m->scale));
        ck_assert_str_eq(rg_name(m->scale), "1.scale");
        ck_assert(rg_item(rg_sum(rg_named_parameters(m).v[0].tensor)) == 6);
        RG_BUFFER(m, mask, rg_zeros(4), .persistent = false);
        ck_assert_str_eq(names_of(m), "scale:([3]) body.weight:([3, 2]) body.bias:([3]) "
                                      "head.weight:([5, 3]) head.bias:([5])");
        RG_PARAMETER(m, scale, RG_NONE);
        ck_assert(rg_parameters(m).n == 4);
        RG_PARAMETER(m, scale, rg_ones(3));
        /* Registering the same child again changes nothing. */
        RG_CHILD(m, head, m->head);
        RG_PARAMETER(m, scale, m->scale);
        ck_assert(rg_error_code() == RG_OK && rg_parameters(m).n == 5);
        ck_assert_int_eq(rg_size(rg_call(top, rg_ones(2)), 0), 5);
        rg_module_free(top);
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert(rg_memory_stats().other <= other + 65536);
}
END_TEST

/* A registration that fails leaves the module as it was, and later ones still work. */
START_TEST(test_failures_change_nothing) {
    Net *m = new_net();
    rg_linear_module *head = m->head;
    char before[1024];
    strcpy(before, names_of(m));
    rg_tensor *elsewhere = RG_NONE;
    rg_module *child = NULL;
    ck_fails((RG_CHILD(m, head, rg_nn_linear(-1, 5)), rg_error_code() == RG_OK), RG_RUNTIME_ERROR,
             "negative dimension -1");
    ck_fails((RG_PARAMETER(m, scale, rg_literal([1, 2])), rg_error_code() == RG_OK),
             RG_RUNTIME_ERROR, "floating point");
    ck_fails(rg_register_parameter(&m->base, "head", (rg_tensor **)&m->head, rg_ones(1)),
             RG_VALUE_ERROR, "Net: attribute 'head' already exists");
    ck_fails(rg_register_parameter(&m->base, "scale", &elsewhere, rg_ones(1)), RG_VALUE_ERROR,
             "Net: attribute 'scale' already exists");
    ck_fails(rg_register_child(&m->base, "scale", &child, &rg_nn_relu()->base), RG_VALUE_ERROR,
             "Net: attribute 'scale' already exists");
    ck_fails(rg_register_buffer(&m->base, "scale", &m->scale, rg_ones(1),
                                (rg_buffer_options){ .persistent = true }),
             RG_VALUE_ERROR, "Net: attribute 'scale' already exists");
    ck_fails(rg_register_child(&m->base, "head", (rg_module **)&m->head, &m->base), RG_VALUE_ERROR,
             "the module 'head' would be a child of itself");
    ck_assert(m->head == head && !m->base.failed);
    ck_assert_str_eq(names_of(m), before);
    RG_CHILD(m, head, rg_nn_linear(3, 4));
    ck_assert(rg_error_code() == RG_OK && m->head->out_features == 4);
    rg_module_free(m);
}
END_TEST

/* Functions fail if a module or tensor was put into a field, or into a container's v, without being
 * registered. */
START_TEST(test_unregistered) {
    Net *m = new_net();
    rg_sequential *s = rg_nn_sequential(rg_nn_relu(), rg_nn_tanh());
    rg_linear_module *head = m->head, *other = rg_nn_linear(3, 5);
    m->head = other;
    ck_fails(
        rg_parameters(m).n != -1, RG_RUNTIME_ERROR,
        "the module in 'head' isn't registered: RG_CHILD, or a container's _set, puts it there");
    ck_fails(rg_load_state_dict(m, (rg_named_list){ 0, NULL }, false), RG_RUNTIME_ERROR, "'head'");
    ck_fails(rg_module_repr(m), RG_RUNTIME_ERROR,
             "module_repr: the module in 'head' isn't registered");
    m->head = head;
    ck_assert(rg_parameters(m).n == 5);
    rg_tensor *scale = m->scale, *loose = rg_ones(3);
    m->scale = loose;
    ck_fails(rg_state_dict(m).n != -1, RG_RUNTIME_ERROR,
             "state_dict: the tensor in 'scale' isn't registered: RG_PARAMETER or RG_BUFFER puts "
             "it there");
    m->scale = NULL;
    ck_fails(rg_state_dict(m).n != -1, RG_TYPE_ERROR, "expected a tensor but got NULL");
    m->scale = scale;
    rg_module *tanh = s->v[1];
    s->v[1] = &other->base;
    ck_fails(rg_module_to(s, RG_FLOAT64), RG_RUNTIME_ERROR, "the module in '1' isn't registered");
    s->v[1] = tanh;
    ck_assert(rg_sequential_set(s, 1, other) && rg_module_to(s, RG_FLOAT64));
    rg_module_free(s);
    rg_module_free(m);
}
END_TEST

/* ---- containers ------------------------------------------------------------------ */

static const char *classes_of(rg_sequential *s) {
    static char text[256];
    *text = 0;
    for (int i = 0; i < s->n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 s->v[i]->cls->name);
    return text;
}

START_TEST(test_sequential) {
    int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
    RG_FOR (int once = 0; once < 1; once++) {
        rg_sequential *s = rg_nn_sequential(), *top = rg_nn_sequential(s);
        for (int i = 0; i < 100; i++)
            ck_assert(rg_sequential_append(s, rg_nn_linear(1, 1)) && s->n == i + 1);
        ck_assert_int_eq(rg_parameters(top).n, 200);
        ck_assert_str_eq(rg_name(((rg_linear_module *)s->v[99])->bias), "0.99.bias");
        ck_ok(rg_call(top, rg_ones(1)));
        rg_module_free(top);
        s = rg_nn_sequential(rg_nn_linear(2, 3), rg_nn_tanh());
        top = rg_nn_sequential(s);
        rg_linear_module *first = (rg_linear_module *)s->v[0];
        ck_assert(rg_sequential_insert(s, 0, rg_nn_relu())
                  && rg_sequential_insert(s, 3, rg_nn_silu()));
        ck_assert(rg_sequential_insert(s, -1, rg_nn_linear(3, 3)));
        ck_assert_str_eq(classes_of(s), "ReLU Linear Tanh Linear SiLU");
        ck_assert_str_eq(names_of(top), "0.1.weight:([3, 2]) 0.1.bias:([3]) 0.3.weight:([3, 3]) "
                                        "0.3.bias:([3])");
        ck_assert_str_eq(rg_name(first->weight), "0.1.weight");
        ck_assert_str_eq(rg_name(((rg_linear_module *)s->v[3])->weight), "0.3.weight");
        ck_assert(rg_sequential_set(s, 1, rg_nn_linear(2, 3, .bias = false))
                  && rg_sequential_set(s, -1, rg_nn_linear(3, 5)));
        ck_assert_str_eq(classes_of(s), "ReLU Linear Tanh Linear Linear");
        ck_assert_str_eq(names_of(s), "1.weight:([3, 2]) 3.weight:([3, 3]) 3.bias:([3]) "
                                      "4.weight:([5, 3]) 4.bias:([5])");
        ck_assert_int_eq(rg_size(rg_call(top, rg_ones(2)), 0), 5);
        ck_fails(rg_sequential_insert(s, 6, rg_nn_relu()), RG_INDEX_ERROR,
                 "sequential_insert: Index out of range: 6");
        ck_fails(rg_sequential_insert(s, -6, rg_nn_relu()), RG_INDEX_ERROR,
                 "Index out of range: -6");
        ck_fails(rg_sequential_set(s, 5, rg_nn_relu()), RG_INDEX_ERROR,
                 "sequential_set: index 5 is out of range");
        ck_fails(rg_sequential_set(s, -6, rg_nn_relu()), RG_INDEX_ERROR,
                 "index -6 is out of range");
        ck_fails((rg_sequential_append)(s, rg_ones(2)), RG_TYPE_ERROR,
                 "sequential_append: torch.FloatTensor is not a Module subclass");
        ck_fails(rg_sequential_append(s, top), RG_VALUE_ERROR, "would be a child of itself");
        ck_fails(rg_sequential_set(s, 0, NULL), RG_TYPE_ERROR, "expected a module but got NULL");
        ck_fails(rg_sequential_append(NULL, rg_nn_relu()), RG_TYPE_ERROR,
                 "sequential_append: expected a module but got NULL");
        ck_assert_int_eq(s->n, 5);
        rg_module_free(top);
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert(rg_memory_stats().other <= other + 65536);
}
END_TEST

START_TEST(test_module_list) {
    rg_module_list *l = rg_nn_module_list(rg_nn_relu());
    rg_linear_module *shared = rg_nn_linear(2, 2);
    ck_assert(rg_module_list_append(l, shared) && rg_module_list_append(l, shared));
    ck_assert(rg_module_list_insert(l, 1, rg_nn_tanh()) && rg_module_list_set(l, 0, shared));
    ck_assert_str_eq(rg_module_repr(l), "ModuleList(\n"
                                        "  (0): Linear(in_features=2, out_features=2, bias=True)\n"
                                        "  (1): Tanh()\n"
                                        "  (2-3): 2 x Linear(in_features=2, out_features=2, "
                                        "bias=True)\n"
                                        ")");
    ck_assert(rg_named_parameters(l).n == 2 && rg_state_dict(l).n == 6);
    /* The shared module is replaced at one index. It keeps its other indices. */
    ck_assert(rg_module_list_set(l, -1, rg_nn_relu()) && rg_state_dict(l).n == 4);
    ck_ok(rg_call(l->v[0], rg_ones(2)));
    ck_fails(rg_module_list_insert(l, 9, rg_nn_relu()), RG_INDEX_ERROR,
             "module_list_insert: Index out of range: 9");
    ck_fails(rg_module_list_set(l, 4, rg_nn_relu()), RG_INDEX_ERROR,
             "module_list_set: index 4 is out of range");
    rg_module_free(l);
}
END_TEST

/* The compiler refuses a tensor in a list of modules. If the tensor is passed as a void *, the
 * library refuses it. */
START_TEST(test_tensors_among_modules) {
    void *x = rg_ones(2), *y = rg_ones_dims(RG_DIMS(2), RG_FLOAT64);
    ck_fails(rg_nn_sequential(rg_nn_relu(), x, rg_nn_relu()), RG_TYPE_ERROR,
             "Sequential: torch.FloatTensor is not a Module subclass");
    ck_fails(rg_nn_module_list(y, rg_nn_relu()), RG_TYPE_ERROR,
             "ModuleList: torch.DoubleTensor is not a Module subclass");
    ck_fails(rg_nn_sequential((void *)rg_literal([1])), RG_TYPE_ERROR,
             "torch.LongTensor is not a Module subclass");
    ck_fails(rg_nn_sequential(rg_nn_relu(), (void *)RG_NONE), RG_TYPE_ERROR,
             "expected a module but got RG_NONE");
    ck_fails(rg_call(x, y), RG_TYPE_ERROR, "call: torch.FloatTensor is not a Module subclass");
    ck_fails(rg_parameters(x).n != -1, RG_TYPE_ERROR, "torch.FloatTensor is not a Module subclass");
    ck_fails((rg_module_free(x), rg_error_code() == RG_OK), RG_TYPE_ERROR,
             "module_free: torch.FloatTensor is not a Module subclass");
    ck_assert(rg_item(rg_sum(x)) == 2);
}
END_TEST

/* Returns whether all replacements succeeded. If not, the modules still run, and have all their
 * parameters. */
static bool replace(void) {
    Net *m = new_net();
    rg_sequential *s = m ? rg_nn_sequential(rg_nn_linear(2, 2), rg_nn_linear(2, 2)) : NULL;
    bool ok = s
              && rg_register_child(&m->base, "head", (rg_module **)&m->head,
                                   (rg_module *)rg_nn_linear(3, 5));
    ok = ok && rg_register_parameter(&m->base, "scale", &m->scale, rg_ones(3));
    ok = ok && rg_sequential_append(s, rg_nn_relu()) && rg_sequential_set(s, 0, rg_nn_linear(2, 2));
    ok = ok && rg_sequential_insert(s, 0, rg_nn_linear(2, 2));
    rg_memory_fail_at(0);
    if (s) {
        ck_assert(rg_call(m, rg_ones(2)) && rg_call(s, rg_ones(2)));
        ck_assert(rg_parameters(m).n == 5 && rg_parameters(s).n >= 4);
    }
    rg_module_free(m);
    rg_module_free(s);
    return ok;
}

/* As in PyTorch, a module that is registered in a container is a part of it. It is appended, or
 * takes the place of the module of that name. */
START_TEST(test_registered_in_containers) {
    int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
    rg_sequential *s = rg_nn_sequential(rg_nn_linear(2, 2));
    rg_module *act = NULL;
    ck_ok(rg_register_child(&s->base, "act", &act, &rg_nn_relu()->base));
    ck_assert(s->n == 2 && s->v[1] == act);
    ck_assert_str_eq(rg_module_repr(s),
                     "Sequential(\n"
                     "  (0): Linear(in_features=2, out_features=2, bias=True)\n"
                     "  (act): ReLU()\n"
                     ")");
    RG_FOR (int once = 0; once < 1; once++)
        ck_assert(rg_item(rg_min(rg_call(s, rg_randn(9, 2)))) >= 0
                  && rg_item(rg_min(rg_call(s, rg_mul(rg_randn(9, 2), 5)))) >= 0);
    ck_ok(rg_register_child(&s->base, "act", &act, &rg_nn_tanh()->base));
    ck_assert(s->n == 2 && s->v[1] == act && !strcmp(act->cls->name, "Tanh"));
    ck_ok(rg_sequential_append(s, rg_nn_linear(2, 2)));
    ck_ok(rg_sequential_set(s, 1, rg_nn_sigmoid()));
    ck_fails(rg_sequential_insert(s, 0, rg_nn_relu()), RG_INDEX_ERROR,
             "sequential_insert: KeyError: '1'");
    ck_ok(rg_sequential_insert(s, 2, rg_nn_relu()));
    ck_assert_str_eq(rg_module_repr(s),
                     "Sequential(\n"
                     "  (0): Linear(in_features=2, out_features=2, bias=True)\n"
                     "  (act): Sigmoid()\n"
                     "  (2): ReLU()\n"
                     "  (3): Linear(in_features=2, out_features=2, bias=True)\n"
                     ")");
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        ck_ok(rg_register_child(&s->base, name, &act, &rg_nn_linear(2, 2)->base));
        ck_assert(s->n == i + 5 && s->v[i + 4] == act);
    }
    ck_ok(rg_register_child(&s->base, "0", &s->v[0], &rg_nn_tanh()->base));
    ck_assert(s->n == 44 && !strcmp(s->v[0]->cls->name, "Tanh"));
    ck_fails(rg_register_child(&s->base, "a.b", &act, &rg_nn_relu()->base), RG_VALUE_ERROR,
             "module name can't contain \".\"");
    ck_fails(rg_register_child(&s->base, "up", &act, &s->base), RG_VALUE_ERROR,
             "child of itself");
    ck_assert(s->n == 44);
    RG_FOR (int once = 0; once < 1; once++) {
        rg_sequential *copy = rg_deepcopy(s);
        ck_ok(rg_register_child(&copy->base, "more", &act, &rg_nn_relu()->base));
        ck_assert(copy->n == 45 && rg_call(copy, rg_ones(2)) && s->n == 44);
        rg_module_free(copy);
        ck_ok(rg_call(s, rg_ones(2)));
    }
    rg_module_free(s);
    rg_module_list *list = rg_nn_module_list(rg_nn_relu());
    rg_module_dict *dict = rg_nn_module_dict({ "a", rg_nn_relu() });
    ck_ok(rg_register_child(&list->base, "1", &act, &rg_nn_tanh()->base) && list->v[1] == act);
    ck_ok(rg_register_child(&dict->base, "b", &act, &rg_nn_tanh()->base)
          && rg_module_dict_get(dict, "b") == act && rg_module_dict_items(dict).n == 2);
    rg_module_free(list);
    rg_module_free(dict);
    ck_assert(rg_live_tensors() == live && rg_memory_stats().other <= other + 4096);
}
END_TEST

START_TEST(test_out_of_memory) { twin_out_of_memory(replace); }
END_TEST

RG_TESTS(replace, test_replaced_in_a_module, test_failures_change_nothing, test_unregistered,
         test_sequential, test_registered_in_containers, test_module_list,
         test_tensors_among_modules, test_out_of_memory)

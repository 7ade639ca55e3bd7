/* test_module.c: the registry behind modules: names, states, copies, hooks, lifetimes. */
#define TWIN_DATA "layers"
#include "twin.h"
#include "nn/registry.h"
#include "tensor/memory.h"

#include <pthread.h>

/* ---- the twin of layers.py's Tree ------------------------------------------------ */

typedef struct {
    rg_module base;
    rg_tensor *scale, *mask, *cache;
    rg_linear_module *fc, *same, *tied;
    rg_sequential *deep;
    int n;
} Tree;

static rg_tensor *tree_forward(rg_module *m, rg_tensor *x) {
    Tree *self = (Tree *)m;
    return rg_call(self->deep,
                   rg_mul(rg_add(rg_call(self->fc, rg_mul(x, self->scale)), rg_call(self->tied, x)),
                          self->mask));
}
static void tree_repr(rg_module *m, char *text, size_t room) {
    (void)m;
    snprintf(text, room, "much");
}
static int destroyed;
static void tree_destroy(rg_module *m) { destroyed += ((Tree *)m)->n; }
static const rg_module_class tree_class = {
    .name = "Tree", .forward = tree_forward, .extra_repr = tree_repr, .destroy = tree_destroy
};

static Tree *new_tree(void) {
    Tree *self = RG_MODULE(Tree, &tree_class, .n = 1);
    RG_CHILD(self, fc, rg_nn_linear(2, 3));
    RG_PARAMETER(self, scale, rg_ones(2));
    RG_BUFFER(self, mask, rg_ones(3));
    RG_BUFFER(self, cache, rg_ones(4), .persistent = false);
    RG_CHILD(self, deep, rg_nn_sequential(rg_nn_linear(3, 2), rg_nn_relu()));
    RG_CHILD(self, same, self->fc);
    RG_CHILD(self, tied, rg_nn_linear(2, 3));
    if (self && !self->base.failed)
        rg_tie(&self->tied->weight, self->fc->weight);
    return RG_READY(self);
}

static const char *joined(rg_named_list l) {
    static char text[1024];
    *text = 0;
    for (int i = 0; i < l.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 l.v[i].name);
    return text;
}

START_TEST(test_names_and_repr) {
    Tree *m = new_tree();
    ck_ok(m);
    ck_assert_str_eq(joined(rg_state_dict(m)), twin_text("everything", ".keys"));
    ck_assert_str_eq(joined(rg_named_parameters(m)), twin_text("everything", ".parameters"));
    ck_assert_str_eq(joined(rg_named_buffers(m)), twin_text("everything", ".buffers"));
    rg_named_modules_list modules = rg_named_modules(m);
    ck_assert_str_eq(
        joined((rg_named_list){ modules.n, (const rg_named *)(const void *)modules.v }),
        twin_text("everything", ".modules"));
    ck_assert(modules.v[0].module == &m->base && modules.v[1].module == &m->fc->base);
    ck_assert_str_eq(rg_module_repr(m), twin_text("everything", ".repr"));
    ck_assert_int_eq(rg_num_parameters(m), 2 + 9 + 8 + 3);
    ck_assert(rg_parameters(m).n == 6 && rg_parameters(m).v[1] == m->tied->weight);
    ck_assert_str_eq(rg_name(m->fc->weight), "fc.weight");
    ck_assert_str_eq(rg_repr(m->scale),
                     "Parameter containing:\ntensor([1., 1.], requires_grad=True)");
    ck_assert_str_eq(rg_repr(rg_detach(m->scale)), "tensor([1., 1.])");
    ck_assert_str_eq(rg_repr(m->mask), "tensor([1., 1., 1.])");
    rg_module *layers = (rg_module *)rg_nn_module_list(
        rg_nn_relu(), rg_nn_relu(), rg_nn_sequential(rg_nn_tanh()), rg_nn_sequential(rg_nn_tanh()),
        rg_nn_linear(2, 2), rg_nn_relu());
    rg_sequential *all = rg_nn_sequential(rg_nn_linear(2, 2), rg_nn_sequential(),
                                          rg_nn_module_list(), layers, rg_nn_embedding(3, 2),
                                          rg_nn_cross_entropy_loss());
    ck_assert_str_eq(rg_module_repr(all), twin_text("tree", ".repr"));
    rg_module_free(all);
    rg_module_free(m);
}
END_TEST

static void two_lines(rg_module *m, char *text, size_t room) {
    (void)m;
    snprintf(text, room, "one\ntwo");
}
static const rg_module_class lines_class = { .name = "Lines", .extra_repr = two_lines };
typedef struct {
    rg_module base;
} Lines;

START_TEST(test_nested_repr) {
    rg_module_list *inner = rg_nn_module_list(rg_nn_relu(), rg_nn_relu(), new_tree(),
                                              RG_MODULE(Lines, &lines_class));
    rg_sequential *all = rg_nn_sequential(
        rg_nn_module_list(new_tree(), new_tree(), RG_MODULE(Lines, &lines_class), inner, inner),
        RG_MODULE(Lines, &lines_class), new_tree());
    ck_assert_str_eq(rg_module_repr(all), twin_text("nested", ".repr"));
    rg_module_free(all);
}
END_TEST

/* ---- states ---------------------------------------------------------------------- */

enum { MOST = 32 };

/* Returns the state of m without the keys in `drop`. The n entries of `add` are appended, or
 * replace entries of the same name. */
static rg_named_list changed_state(void *m, const char *const *drop, int n, const rg_named *add) {
    static rg_named v[MOST];
    rg_named_list own = rg_state_dict(m), out = { 0, v };
    for (int i = 0; i < own.n; i++) {
        bool kept = true;
        for (const char *const *d = drop; *d; d++)
            kept = kept && strcmp(*d, own.v[i].name);
        if (kept)
            v[out.n++] = own.v[i];
    }
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < out.n && strcmp(v[at].name, add[i].name))
            at++;
        out.n += at == out.n;
        v[at] = add[i];
    }
    return out;
}

#define LOADING(name, drop, ...)                                                                   \
    do {                                                                                           \
        rg_named add[] = { __VA_ARGS__ };                                                          \
        const char *const dropped[] = drop;                                                        \
        ck_assert(!rg_load_state_dict(m, changed_state(m, dropped, sizeof add / sizeof *add, add), \
                                      true));                                                      \
        ck_assert_str_eq(rg_error() + strlen("load_state_dict: "), twin_text("load.", name));      \
        ck_assert(rg_error_code() == RG_RUNTIME_ERROR);                                            \
    } while (0)
#define DROP(...) \
    { __VA_ARGS__, NULL }

START_TEST(test_load_state_dict_complains_as_torch) {
    Tree *m = new_tree();
    rg_tensor *one = rg_ones(1);
    LOADING("missing", DROP("scale", "deep.0.bias", "fc.weight"), );
    LOADING("unexpected", DROP(""), { "deep.0.x", one }, { "deep.y", one }, { "zero", one },
            { "fc.weight.deep", one }, { "same.y", one }, { "deep", one }, { "tied.bias.", one });
    LOADING("size", DROP(""), { "scale", rg_ones(3) }, { "deep.0.weight", rg_ones(3, 2) },
            { "mask", rg_scalar(1.0) });
    LOADING("all", DROP("mask", "fc.bias"), { "scale", rg_ones(2, 2) }, { "cache", rg_ones(4) },
            { "deep.1.w", one }, { "alpha", one });
    /* A load that fails changes nothing. */
    ck_assert(rg_item(rg_sum(m->scale)) == 2);
    rg_module_free(m);
}
END_TEST

/* Asserts that PyTorch's error of this case lists these keys after `words`, and no others. */
static void listed(const char *name, const char *words, rg_names keys) {
    char want[2000] = "";
    size_t n = 0;
    for (int i = 0; i < keys.n; i++)
        n += (size_t)snprintf(want + n, sizeof want - n, "%s\"%s\"", i ? ", " : words, keys.v[i]);
    snprintf(want + n, sizeof want - n, ". ");
    const char *text = twin_text("load.", name);
    ck_assert_msg(keys.n ? strstr(text, want) != NULL : !strstr(text, words), "%s\n%s", text, want);
}

/* If a tensor can't be written to, loading a state fails and says so. */
START_TEST(test_load_where_nothing_can_be_written) {
    RG_SCOPE();
    Tree *m = new_tree(), *from = new_tree();
    ck_ok(m && from);
    {
        RG_INFERENCE_MODE();
        RG_BUFFER(m, mask, rg_ones(3));
    }
    ck_assert(rg_is_inference(m->mask));
    ck_fails(rg_load_state_dict(m, rg_state_dict(from), true), RG_RUNTIME_ERROR,
             "load_state_dict: Inplace update to inference tensor outside InferenceMode is not "
             "allowed.");
    ck_fails(rg_load_state_dict_keys(m, rg_state_dict(from), true).missing_keys.n >= 0,
             RG_RUNTIME_ERROR, "load_state_dict: Inplace update to inference tensor");
    RG_BUFFER(m, mask, rg_expand(rg_ones(1), 3));
    ck_fails(rg_load_state_dict(m, rg_state_dict(from), true), RG_RUNTIME_ERROR,
             "load_state_dict: unsupported operation");
    rg_module_free(m);
    rg_module_free(from);
}
END_TEST

/* With strict = false, a load returns the missing and unexpected keys, in the order of torch's
 * error. */
START_TEST(test_keys_that_are_left_out) {
    RG_SCOPE();
    Tree *m = new_tree();
    rg_tensor *one = rg_ones(1);
    static const char *const dropped[] = { "scale", "deep.0.bias", "fc.weight", NULL };
    rg_incompatible_keys keys = rg_load_state_dict_keys(m, changed_state(m, dropped, 0, NULL),
                                                        false);
    ck_assert(keys.missing_keys.n == 3 && keys.unexpected_keys.n == 0);
    listed("missing", "Missing key(s) in state_dict: ", keys.missing_keys);
    const rg_named add[] = { { "deep.0.x", one },       { "deep.y", one }, { "zero", one },
                             { "fc.weight.deep", one }, { "same.y", one }, { "deep", one },
                             { "tied.bias.", one } };
    static const char *const nothing[] = { NULL };
    keys = rg_load_state_dict_keys(m, changed_state(m, nothing, 7, add), false);
    ck_assert(keys.missing_keys.n == 0 && keys.unexpected_keys.n == 7);
    listed("unexpected", "Unexpected key(s) in state_dict: ", keys.unexpected_keys);
    keys = rg_load_state_dict_keys(m, rg_state_dict(m), true);
    ck_assert(keys.missing_keys.n == 0 && keys.unexpected_keys.n == 0 && rg_error_code() == RG_OK);
    ck_fails(rg_load_state_dict_keys(m, changed_state(m, nothing, 7, add), true).missing_keys.n
                 >= 0,
             RG_RUNTIME_ERROR, "Unexpected key(s)");
    bool done = false;
    const int64_t version = rg_version(m->fc->bias);
    for (int64_t fail = 1; !done; fail++) {
        rg_memory_fail_at(fail);
        keys = rg_load_state_dict_keys(m, changed_state(m, dropped, 7, add), false);
        rg_memory_fail_at(0);
        done = keys.missing_keys.n == 3 && keys.unexpected_keys.n == 7;
        ck_assert(done || rg_error_code() == RG_OUT_OF_MEMORY);
        ck_assert(done || rg_version(m->fc->bias) == version);
        rg_error_clear();
        ck_assert(fail < 1000);
    }
    rg_module_free(m);
}
END_TEST

START_TEST(test_states_are_copied) {
    Tree *a = new_tree(), *b = new_tree();
    rg_sequential *c = rg_nn_sequential(rg_nn_linear(2, 3));
    ck_assert(!rg_equal(a->fc->weight, b->fc->weight));
    rg_module_to(b, RG_FLOAT64);
    ck_assert(rg_load_state_dict(b, rg_state_dict(a), true));
    /* Values are copied, but the dtype stays. */
    ck_assert(rg_equal(rg_double(a->fc->weight), b->fc->weight)
              && rg_dtype_of(b->fc->weight) == RG_FLOAT64);
    ck_assert(b->tied->weight == b->fc->weight && rg_data(a->fc->bias) != rg_data(b->fc->bias));
    /* Each entry is copied, the first and the last among them, and nothing is left in the scope. */
    rg_named_list from = rg_state_dict(a), to = rg_state_dict(b);
    for (int i = 0; i < from.n; i++) {
        ck_ok(rg_fill_(rg_detach(from.v[i].tensor), i + 1));
        ck_ok(rg_fill_(rg_detach(to.v[i].tensor), -1));
    }
    int64_t live = rg_live_tensors(), memory = rg_memory_stats().other;
    ck_assert(rg_load_state_dict(b, from, true));
    ck_assert(rg_live_tensors() == live && rg_memory_stats().other == memory);
    for (int i = 0; i < to.n; i++)
        ck_assert_msg(rg_equal(to.v[i].tensor, rg_double(from.v[i].tensor)), "%s isn't loaded",
                      to.v[i].name);
    rg_named some[] = { { "0.bias", rg_ones(3) }, { "elsewhere", rg_ones(3) } };
    ck_assert(rg_load_state_dict(c, (rg_named_list){ 2, some }, false)
              && rg_item(rg_sum(((rg_linear_module *)c->v[0])->bias)) == 3);
    ck_assert(rg_load_state_dict(a, rg_state_dict(a), true));
    ck_assert(!rg_load_state_dict(NULL, rg_state_dict(a), true)
              && !rg_load_state_dict(a, rg_state_dict(NULL), true));
    rg_named nameless = { NULL, rg_ones(3) }, empty = { "scale", NULL },
             none = { "scale", RG_NONE };
    ck_fails(rg_load_state_dict(a, (rg_named_list){ 1, &nameless }, false), RG_TYPE_ERROR,
             "load_state_dict: expected a name but got NULL");
    ck_fails(rg_load_state_dict(a, (rg_named_list){ 1, &empty }, false), RG_TYPE_ERROR,
             "load_state_dict: expected a tensor but got NULL");
    /* torch says the same if an entry of a checkpoint isn't a tensor. */
    ck_fails(rg_load_state_dict(a, (rg_named_list){ 1, &none }, false), RG_RUNTIME_ERROR,
             "While copying the parameter named \"scale\", expected torch.Tensor or Tensor-like "
             "object from checkpoint but received RG_NONE");
    rg_module_free(a);
    rg_module_free(b);
    rg_module_free(c);
}
END_TEST

/* ---- modes, dtypes, gradients ---------------------------------------------------- */

static void count(rg_module *m, void *context) {
    (void)m;
    ++*(int *)context;
}

START_TEST(test_modes_and_gradients) {
    Tree *m = new_tree();
    int calls = 0;
    rg_apply_to_modules(m, count, &calls);
    /* fc is counted twice, since it has two names. */
    ck_assert_int_eq(calls, 7);
    rg_eval(m);
    ck_assert(!m->base.training && !m->deep->v[1]->training);
    rg_train(m, true);
    ck_assert(m->fc->base.training);
    rg_tensor *x = rg_ones(5, 2);
    ck_ok(rg_backward(rg_sum(rg_call(m, x))));
    ck_assert(rg_grad_of(m->fc->weight) != RG_NONE && rg_grad_of(m->scale) != RG_NONE);
    ck_assert(rg_module_to(m, RG_FLOAT64) && rg_dtype_of(m->cache) == RG_FLOAT64
              && rg_dtype_of(rg_grad_of(m->scale)) == RG_FLOAT64);
    ck_assert(m->tied->weight == m->fc->weight && rg_is_leaf(m->fc->weight));
    ck_ok(rg_backward(rg_sum(rg_call(m, rg_double(x)))));
    rg_zero_grad(m);
    for (int i = 0; i < rg_parameters(m).n; i++)
        ck_assert(rg_grad_of(rg_parameters(m).v[i]) == RG_NONE);
    ck_assert(rg_module_requires_grad_(m, false) && !rg_requires_grad(rg_call(m, rg_double(x))));
    ck_assert(rg_module_requires_grad_(m, true) && rg_requires_grad(m->scale)
              && !rg_requires_grad(m->mask));
    ck_fails(rg_module_to(m, RG_INT64), RG_TYPE_ERROR,
             "nn.Module.to only accepts floating point or complex dtypes, but got desired "
             "dtype=torch.int64");
    rg_module_free(m);
}
END_TEST

/* rg_tie takes the registered field itself, not a variable that holds the same parameter, and ties
 * only parameters: neither a buffer nor a tensor of the program. */
START_TEST(test_tie_takes_only_registered_fields) {
    const char *no_place = "tie: the place isn't the registered field of a parameter, such as "
                           "&fc->weight";
    const char *no_parameter = "tie: expected a module's parameter";
    rg_linear_module *a = rg_nn_linear(2, 2, .bias = false), *b = rg_nn_linear(2, 2, .bias = false);
    rg_batch_norm_module *norm = rg_nn_batch_norm1d(2);
    rg_tensor *variable = b->weight, *kept = rg_keep(rg_ones(2, 2));
    ck_fails(rg_tie(&variable, a->weight), RG_VALUE_ERROR, no_place);
    ck_fails(rg_tie(&norm->running_mean, norm->weight), RG_VALUE_ERROR, no_place);
    ck_fails(rg_tie(&b->weight, kept), RG_VALUE_ERROR, no_parameter);
    ck_fails(rg_tie(&norm->weight, norm->running_mean), RG_VALUE_ERROR, no_parameter);
    ck_assert(variable == b->weight && rg_numel(b->weight) == 4 && !rg_requires_grad(kept));
    rg_linear_module *copy = rg_deepcopy(b);
    ck_ok(rg_tie(&copy->weight, a->weight) && rg_tie(&b->weight, a->weight));
    rg_drop(kept);
    rg_module_free(a);
    rg_module_free(copy);
    ck_ok(rg_call(b, rg_ones(2)));
    rg_module_free(norm);
    rg_module_free(b);
}
END_TEST

/* A parameter that two modules share is one parameter. Its gradient is the sum of both uses. */
START_TEST(test_tied_parameters) {
    rg_linear_module *a = rg_nn_linear(2, 2, .bias = false), *b = rg_nn_linear(2, 2, .bias = false);
    rg_sequential *both = rg_nn_sequential(a, b);
    ck_assert(rg_tie(&b->weight, a->weight));
    ck_assert(rg_num_parameters(both) == 4 && rg_named_parameters(both).n == 1
              && rg_state_dict(both).n == 2);
    ck_ok(rg_backward(rg_sum(rg_call(both, rg_ones(2)))));
    rg_tensor *w = rg_requires_grad_(rg_detach(rg_clone(a->weight)), true);
    ck_ok(rg_backward(rg_sum(rg_linear(rg_linear(rg_ones(2), w, RG_NONE), w, RG_NONE))));
    ck_assert(rg_allclose(rg_grad_of(w), rg_grad_of(b->weight), 1e-6, 0));
    ck_assert(!rg_tie(&b->weight, NULL) && b->weight == a->weight);
    rg_error_clear();
    rg_tensor *absent = NULL, *loose = rg_ones(2, 2);
    ck_fails(rg_tie(NULL, a->weight), RG_TYPE_ERROR, "tie: expected a place but got NULL");
    ck_fails(rg_tie(&absent, a->weight), RG_TYPE_ERROR, "tie: expected a tensor but got NULL");
    ck_fails(rg_tie(&a->bias, a->weight), RG_TYPE_ERROR, "tie: expected a tensor but got RG_NONE");
    ck_fails(rg_tie(&loose, a->weight), RG_VALUE_ERROR,
             "tie: the place isn't the registered field of a parameter");
    ck_fails(rg_tie(&b->weight, loose), RG_VALUE_ERROR, "tie: expected a module's parameter");
    rg_linear_module *wide = rg_nn_linear(3, 2), *exact = rg_nn_linear(2, 2);
    rg_module_to(exact, RG_FLOAT64);
    ck_fails(
        rg_tie(&b->weight, wide->weight), RG_VALUE_ERROR,
        "tie: expected a parameter of shape [2, 2] and dtype torch.float32, but got [2, 3] and "
        "torch.float32");
    ck_fails(rg_tie(&b->weight, exact->weight), RG_VALUE_ERROR, "but got [2, 2] and torch.float64");
    ck_assert(b->weight == a->weight && rg_item(rg_sum(loose)) == 4);
    rg_module_free(wide);
    rg_module_free(exact);
    rg_module_free(both);
}
END_TEST

/* ---- hooks ----------------------------------------------------------------------- */

static char told[64];
static rg_tensor *tell(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    strcat(told, y == RG_NONE ? "before " : "after ");
    strcat(told, context);
    return RG_NONE;
}
static rg_tensor *twice(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)context;
    return rg_mul(y == RG_NONE ? in.v[0] : y, 2);
}
static int own_id;
static rg_tensor *once(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    ck_assert(rg_remove_forward_hook(m, own_id));
    return tell(m, in, y, context);
}
typedef struct {
    rg_module base;
} Bare;
static int forwards;
static rg_tensor *count_forwards(rg_module *m, rg_tensor *x) {
    (void)m;
    forwards++;
    return x;
}
static const rg_module_class counting_class = { .name = "Counting", .forward = count_forwards };

static rg_tensor *failing(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)y;
    (void)context;
    return NULL;
}

/* The context of a hook may be the address of a compound literal such as this one, which has
 * commas. */
typedef struct {
    double factor, more;
} line;

static rg_tensor *on_line(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    const line *l = context;
    return rg_add(rg_mul(y == RG_NONE ? in.v[0] : y, l->factor), l->more);
}

static bool see_gradients(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad_output,
                          void *context) {
    (void)m, (void)n, (void)grad_input, (void)grad_output;
    ((line *)context)->more++;
    return true;
}

static rg_tensor *see_gradient(rg_module *m, rg_tensor *grad_output, void *context) {
    (void)m, (void)grad_output;
    ((line *)context)->more++;
    return RG_NONE;
}

START_TEST(test_literal_contexts) {
    RG_SCOPE();
    rg_module *m = (rg_module *)rg_nn_identity();
    rg_register_forward_pre_hook(m, on_line, &(line){ 2, 1 });
    rg_register_forward_hook(m, on_line, &(line){ 10, 5 });
    ck_assert(rg_item(rg_call(m, rg_scalar(3))) == 75);
    ck_assert(rg_register_full_backward_hook(m, see_gradients, &(line){ 0, 1 }) >= 0);
    ck_assert(rg_register_full_backward_pre_hook(m, see_gradient, &(line){ 0, 1 }) >= 0);
    rg_module_free(m);
}
END_TEST

START_TEST(test_hooks) {
    rg_module *m = (rg_module *)rg_nn_identity();
    int a = rg_register_forward_hook(m, tell, "a "),
        b = rg_register_forward_pre_hook(m, tell, "b ");
    own_id = rg_register_forward_hook(m, once, "once ");
    int c = rg_register_forward_hook(m, tell, "c ");
    ck_assert(a >= 0 && b > a && c > b);
    ck_assert(rg_item(rg_call(m, rg_scalar(3))) == 3);
    ck_assert_str_eq(told, "before b after a after once after c ");
    *told = 0;
    ck_assert(rg_remove_forward_hook(m, c) && rg_remove_forward_hook(m, a));
    ck_fails(rg_remove_forward_hook(m, c), RG_VALUE_ERROR, "no hook");
    int d = rg_register_forward_hook(m, twice, NULL),
        e = rg_register_forward_pre_hook(m, twice, NULL);
    ck_assert(d > c && rg_item(rg_call(m, rg_scalar(3))) == 12);
    ck_assert_str_eq(told, "before b ");
    ck_fails(rg_remove_forward_hook(m, e + 1), RG_VALUE_ERROR, "no hook");
    ck_fails(rg_remove_forward_hook(m, -1), RG_VALUE_ERROR, "no hook");
    ck_assert(rg_remove_forward_hook(m, d) && rg_remove_forward_hook(m, e)
              && rg_item(rg_call(m, rg_scalar(3))) == 3);
    rg_register_forward_hook(m, failing, NULL);
    ck_fails(rg_call(m, rg_scalar(3)), RG_TYPE_ERROR,
             "Identity: expected a tensor of forward and its hooks but got NULL");
    /* If a pre-hook fails, neither forward nor a later hook is called. */
    Bare *bare = RG_MODULE(Bare, &counting_class);
    rg_module *counting = &RG_READY(bare)->base;
    rg_register_forward_pre_hook(counting, failing, NULL);
    rg_register_forward_pre_hook(counting, tell, "p ");
    rg_register_forward_hook(counting, tell, "q ");
    *told = 0;
    ck_assert(!rg_call(counting, rg_scalar(3)) && forwards == 0);
    ck_assert_str_eq(told, "");
    rg_error_clear();
    rg_module_free(counting);
    rg_module_free(m);
}
END_TEST

/* A hook that removes itself and registers itself again. */
typedef struct {
    bool before;
    int id, calls;
} Returning;

static rg_tensor *returns(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    (void)y;
    Returning *r = context;
    ck_assert_int_lt(r->calls++, 2);
    ck_ok(rg_remove_forward_hook(m, r->id));
    r->id = (r->before ? rg_register_forward_pre_hook : rg_register_forward_hook)(m, returns, r);
    return RG_NONE;
}

/* A hook that a hook registers is called from the next call of the module on, as in torch. */
START_TEST(test_hooks_that_return) {
    rg_module *m = (rg_module *)rg_nn_identity();
    Returning before = { .before = true }, after = { .before = false };
    before.id = rg_register_forward_pre_hook(m, returns, &before);
    after.id = rg_register_forward_hook(m, returns, &after);
    for (int calls = 1; calls <= 2; calls++) {
        ck_assert(rg_call(m, rg_scalar(3)));
        ck_assert_int_eq(before.calls, calls);
        ck_assert_int_eq(after.calls, calls);
    }
    rg_module_free(m);
}
END_TEST

/* ---- lists ------------------------------------------------------------------------ */

static rg_list list_of(int function) {
    static const double too_many[] = { 30, 40 };
    switch (function) {
    case 0: return rg_split(NULL, 1, 0);
    case 1: return rg_split_sizes(NULL, 0, NULL, 0);
    case 2: return rg_chunk(NULL, 2, 0);
    case 3: return rg_unbind(NULL, 0);
    case 4: return rg_meshgrid(RG_LIST(NULL, NULL));
    case 5: return rg_parameters(NULL);
    case 6: return rg_optim_parameters(NULL, 0);
    case 7: return rg_data_loader_next(NULL);
    default: return (rg_random_split_with)(9, 2, too_many, NULL);
    }
}

/* A list that failed has 64 tensors that are NULL, whichever function has returned it. */
START_TEST(test_failed_lists) {
    for (int function = 0; function < 9; function++) {
        const rg_list list = list_of(function);
        ck_assert_int_eq(list.n, -1);
        ck_assert(list.v && rg_error_code() != RG_OK);
        for (int i = 0; i < 64; i++)
            ck_assert(!list.v[i]);
        rg_error_clear();
    }
}
END_TEST

/* ---- lifetimes ------------------------------------------------------------------- */

START_TEST(test_results_outlive_the_module) {
    int64_t live = rg_live_tensors();
    {
        RG_SCOPE();
        Tree *m = new_tree();
        destroyed = 0;
        rg_tensor *x = rg_requires_grad_(rg_ones(5, 2), true), *y = rg_call(m, x),
                  *mask = rg_lt(y, 0.5);
        /* A child stays while its parent lives. */
        rg_module_free(m->deep);
        rg_module_free(m);
        ck_assert(destroyed == 1);
        ck_ok(rg_backward(rg_sum(y)));
        ck_assert(rg_grad_of(x) != RG_NONE && rg_numel(mask) == 10);
        rg_linear_module *shared = rg_nn_linear(2, 2);
        rg_sequential *a = rg_nn_sequential(shared, shared), *b = rg_nn_sequential(shared);
        rg_module_free(a);
        ck_ok(rg_call(b, rg_ones(2)));
        rg_module_free(b);
        rg_module_free(NULL);
    }
    ck_assert_int_eq(rg_live_tensors(), live);
}
END_TEST

/* A tensor that was released can't be registered, and isn't taken for a module. */
START_TEST(test_released_tensors) {
    if (rgi_pool_bypassed())
        return;
    rg_tensor *dead = rg_keep(rg_ones(2)), *place = NULL;
    rg_module *m = &rg_nn_relu()->base;
    rg_drop(dead);
    ck_fails(rg_register_buffer(m, "a", &place, dead, (rg_buffer_options){ .persistent = true }),
             RG_RELEASED, "register_buffer: ");
    ck_fails((rg_parameters)(dead).n != -1, RG_TYPE_ERROR,
             "parameters: torch.FloatTensor is not a Module subclass");
    rg_module_free(m);
}
END_TEST

/* ---- constructors that fail ------------------------------------------------------ */

typedef struct {
    rg_module base;
    rg_tensor *w, *v;
    rg_module *child;
} Some;
static const rg_module_class some_class = { .name = "Some" };

#define SOME(register_it)                          \
    __extension__({                                \
        Some *self = RG_MODULE(Some, &some_class); \
        register_it;                               \
        RG_READY(self);                            \
    })

/* A value with a history is registered as another tensor, which is released if that fails. */
START_TEST(test_failed_parameter) {
    RG_SCOPE();
    rg_module *m = (rg_module *)rg_nn_linear(2, 2);
    rg_tensor *v = RG_NONE, *w = rg_mul(rg_requires_grad_(rg_ones(2), true), 2);
    const int64_t live = rg_live_tensors();
    ck_fails(rg_register_parameter(m, "a.b", &v, w), RG_VALUE_ERROR, "can't contain");
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert(v == RG_NONE && !rg_is_leaf(w));
    rg_module_free(m);
}
END_TEST

/* A constructor without RG_READY returns a module even if a registration has failed. The module
 * can't be called. */
START_TEST(test_without_ready) {
    Some *self = RG_MODULE(Some, &some_class);
    RG_CHILD(self, child, rg_nn_linear(-1, 2));
    RG_PARAMETER(self, w, rg_ones(1));
    ck_assert(self && self->base.failed);
    rg_error_clear();
    ck_fails(rg_call(self, rg_ones(1)), RG_RUNTIME_ERROR, "the module isn't whole");
    rg_module_free(self);
}
END_TEST

START_TEST(test_what_cannot_be_registered) {
    int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
    RG_FOR (int once = 0; once < 1; once++) {
        rg_tensor *t = rg_ones(2);
        rg_module *outer = (rg_module *)rg_nn_sequential(rg_nn_relu());
        ck_fails(SOME(RG_PARAMETER(self, w, rg_ones(1));
                      rg_register_parameter(&self->base, "w", &self->v, t)),
                 RG_VALUE_ERROR, "attribute 'w' already exists");
        t = rg_ones(2);
        ck_fails(SOME(RG_PARAMETER(self, w, rg_ones(1));
                      rg_register_parameter(&self->base, "v", &self->w, t)),
                 RG_VALUE_ERROR, "the field of 'v' is registered as 'w' already");
        t = rg_ones(2);
        ck_fails(SOME(RG_CHILD(self, child, rg_nn_relu());
                      rg_register_child(&self->base, "c", &self->child,
                                        (rg_module *)rg_nn_relu())),
                 RG_VALUE_ERROR, "the field of 'c' is registered as 'child' already");
        ck_fails(SOME(RG_BUFFER(self, w, rg_ones(1));
                      rg_register_buffer(&self->base, "b", &self->w, t,
                                         (rg_buffer_options){ .persistent = true })),
                 RG_VALUE_ERROR, "the field of 'b' is registered as 'w' already");
        t = rg_ones(2);
        ck_fails(SOME(rg_register_parameter(&self->base, "a.b", &self->w, t)), RG_VALUE_ERROR,
                 "parameter name can't contain \".\"");
        ck_fails(SOME(rg_register_buffer(&self->base, "", &self->w, rg_ones(1),
                                         (rg_buffer_options){ .persistent = true })),
                 RG_VALUE_ERROR, "buffer name can't be empty string \"\"");
        ck_fails(SOME(RG_PARAMETER(self, w, rg_literal([ 1, 2 ]))), RG_RUNTIME_ERROR,
                 "floating point");
        ck_fails(
            SOME(RG_CHILD(self, child, rg_nn_linear(-1, 2)); RG_PARAMETER(self, w, rg_ones(-3))),
            RG_RUNTIME_ERROR, "negative dimension -1");
        ck_fails(SOME(RG_CHILD(self, child, (void *)RG_NONE)), RG_TYPE_ERROR, "RG_NONE");
        ck_fails(SOME(RG_CHILD(self, child, self)), RG_VALUE_ERROR, "child of itself");
        rg_module *relu = ((rg_sequential *)outer)->v[0], *up = NULL;
        ck_fails(rg_register_child(relu, "up", &up, outer), RG_VALUE_ERROR, "child of itself");
        ck_fails(rg_nn_sequential(rg_nn_relu(), rg_nn_linear(-1, 2), outer), RG_RUNTIME_ERROR,
                 "negative dimension -1");
        ck_fails(SOME(rg_register_parameter(&self->base, NULL, &self->w, rg_ones(1))),
                 RG_TYPE_ERROR, "register_parameter: expected a name but got NULL");
        ck_fails(SOME(rg_register_parameter(&self->base, "q", NULL, rg_ones(1))), RG_TYPE_ERROR,
                 "register_parameter: expected a place but got NULL");
        ck_fails(SOME(rg_register_buffer(&self->base, NULL, &self->w, rg_ones(1),
                                         (rg_buffer_options){ .persistent = true })),
                 RG_TYPE_ERROR, "expected a name");
        ck_fails(SOME(rg_register_buffer(&self->base, "q", NULL, rg_ones(1),
                                         (rg_buffer_options){ .persistent = true })),
                 RG_TYPE_ERROR, "expected a place");
        ck_fails(SOME(rg_register_child(&self->base, NULL, &self->child, &rg_nn_relu()->base)),
                 RG_TYPE_ERROR, "expected a name");
        ck_fails(SOME(rg_register_child(&self->base, "q", NULL, &rg_nn_relu()->base)),
                 RG_TYPE_ERROR, "expected a place");
        ck_fails(rg_nn_sequential(NULL), RG_TYPE_ERROR,
                 "Sequential: expected a module but got NULL");
        ck_fails(rg_nn_module_list_of(-1, NULL), RG_TYPE_ERROR,
                 "ModuleList: expected a list but got one that failed: its n is -1");
        relu = &rg_nn_relu()->base;
        ck_fails(rg_call_list(relu, (rg_list){ 1, NULL }), RG_TYPE_ERROR,
                 "ReLU: expected a list but got NULL");
        ck_fails(rg_call_list(relu, (rg_list){ -1, NULL }), RG_TYPE_ERROR,
                 "ReLU: expected a list but got one that failed: its n is -1");
        ck_fails((rg_apply_to_modules(relu, NULL, NULL), rg_error_code() == RG_OK), RG_TYPE_ERROR,
                 "expected a function but got NULL");
        rg_module_free(relu);
        ck_fails((rg_eval(NULL), rg_error_code() == RG_OK), RG_TYPE_ERROR,
                 "train: expected a module but got NULL");
        ck_fails((rg_train(NULL, true), rg_error_code() == RG_OK), RG_TYPE_ERROR,
                 "train: expected a module but got NULL");
        ck_fails(rg_nn_linear(-1, 2), RG_RUNTIME_ERROR,
                 "Linear: Trying to create tensor with negative dimension -1: [2, -1]");
        ck_fails(rg_call(NULL, rg_ones(1)), RG_TYPE_ERROR, "expected a module but got NULL");
        ck_fails(RG_MODULE(Some, &(rg_module_class){ 0 }), RG_TYPE_ERROR, "must have a name");
        rg_train(NULL, true);
        rg_zero_grad(NULL);
        ck_assert(!rg_module_repr(NULL) && rg_num_parameters(NULL) == -1
                  && rg_parameters(NULL).n == -1 && rg_named_modules(NULL).n == -1);
        ck_assert(!rg_module_to(NULL, RG_FLOAT64) && !rg_module_requires_grad_(NULL, true)
                  && !rg_register_child(NULL, "x", NULL, NULL));
        rg_tensor *y = rg_mul(rg_requires_grad_(rg_ones(2), true), 2);
        /* A parameter that has a name keeps it. */
        Some *named = SOME(RG_PARAMETER(self, w, rg_set_name(rg_ones(1), "mine"));
                           RG_PARAMETER(self, v, rg_ones(1)));
        ck_assert(named != NULL);
        ck_assert_str_eq(rg_name(named->w), "mine");
        ck_assert_str_eq(rg_name(named->v), "v");
        ck_assert_str_eq(rg_named_parameters(named).v[0].name, "w");
        rg_module_free(named);
        /* As with nn.Parameter(y), the parameter is a leaf. */
        Some *fine = SOME(RG_PARAMETER(self, w, y); RG_PARAMETER(self, v, RG_NONE));
        ck_assert(fine && rg_is_leaf(fine->w) && fine->w != y && fine->v == RG_NONE
                  && rg_state_dict(fine).n == 1);
        rg_module_free(fine);
    }
    ck_assert(rg_live_tensors() == live && rg_memory_stats().other <= other + 65536);
}
END_TEST

static bool whole_life(void) {
    Tree *m = new_tree(), *copy = m ? new_tree() : NULL;
    rg_linear_module *shared = copy ? rg_nn_linear(2, 2) : NULL;
    rg_sequential *twins = shared ? rg_nn_sequential(shared, rg_nn_relu(), shared) : NULL;
    bool ok = twins && rg_register_forward_hook((rg_module *)m, twice, NULL) >= 0;
    rg_tensor *y = ok ? rg_call(twins, rg_call(m, rg_ones(5, 2))) : NULL;
    ok = y && rg_backward(rg_sum(y)) && rg_load_state_dict(copy, rg_state_dict(m), true)
         && rg_module_to(copy, RG_FLOAT64);
    ok = ok && rg_module_repr(m) && rg_named_modules(m).n > 0 && rg_parameters(m).n > 0
         && rg_module_requires_grad_(m, false);
    rg_module_free(m);
    rg_module_free(copy);
    rg_module_free(twins);
    return ok;
}

START_TEST(test_out_of_memory) { twin_out_of_memory(whole_life); }
END_TEST

/* ---- where a NaN arose ----------------------------------------------------------- */

static rg_tensor *explode(rg_module *m, rg_tensor *x) {
    (void)m;
    return rg_log(rg_sub(x, x));
}
static const rg_module_class explode_class = { .name = "Explode", .forward = explode };
static rg_tensor *steep(rg_module *m, rg_tensor *x) {
    (void)m;
    return rg_sqrt(rg_mul(x, 0));
}
static const rg_module_class steep_class = { .name = "Steep", .forward = steep };

/* The number of the child's request for memory that fails, or 0 for none. If the child's call
 * fails, the forward of Outer uses its own input instead of the child's result. */
static int denied_to_child;
static rg_tensor *explode_after_child(rg_module *m, rg_tensor *x) {
    rg_memory_fail_at(denied_to_child);
    rg_tensor *y = rg_call(((Some *)m)->child, x);
    rg_memory_fail_at(0);
    rg_error_clear();
    return explode(m, y ? y : x);
}
static const rg_module_class outer_class = { .name = "Outer", .forward = explode_after_child };

START_TEST(test_anomaly_names_the_module) {
    Tree *m = new_tree();
    rg_sequential *all = rg_nn_sequential(
                      rg_nn_module_list(),
                      rg_nn_sequential(rg_nn_relu(), RG_MODULE(Some, &explode_class))),
                  *slope = rg_nn_sequential(rg_nn_sequential(RG_MODULE(Some, &steep_class)),
                                            rg_nn_identity());
    rg_set_detect_anomaly(true);
    rg_module *inner = all->v[1];
    ck_fails(rg_call(inner, rg_ones(2)), RG_RUNTIME_ERROR,
             "log: the first -inf arose forward in log of [2], in module 1.1 (Explode)");
    Some *alone = RG_MODULE(Some, &explode_class);
    ck_fails(rg_call(alone, rg_ones(2)), RG_RUNTIME_ERROR, "in module Explode");
    /* The error names the module that is running, not the child, which has returned. */
    Some *outer = RG_MODULE(Some, &outer_class);
    RG_CHILD(outer, child, (rg_module *)rg_nn_relu());
    outer = RG_READY(outer);
    for (denied_to_child = 0; denied_to_child < 5; denied_to_child++)
        ck_fails(rg_call(outer, rg_ones(2)), RG_RUNTIME_ERROR, "in module Outer");
    rg_module_free(outer);
    rg_tensor *y = rg_call(slope, rg_requires_grad_(rg_ones(2), true));
    ck_ok(y);
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "in module 0.0 (Steep)");
    rg_log(rg_scalar(0.0));
    ck_assert(!strstr(rg_error(), "in module"));
    rg_error_clear();
    ck_ok(rg_call(m, rg_ones(2, 2)));
    rg_set_detect_anomaly(false);
    rg_module_free(m);
    rg_module_free(all);
    rg_module_free(slope);
    rg_module_free(alone);
}
END_TEST

/* ---- what a program puts into fields by itself ------------------------------------------- */

static bool is_said(void *m, const char *sentence) {
    const bool said = rg_parameters(m).n == -1 && strstr(rg_error(), sentence);
    rg_error_clear();
    return said;
}

/* If the program has overwritten a field, functions fail. Freeing the module doesn't release the
 * tensor that the program put there. */
START_TEST(test_fields_of_others) {
    RG_SCOPE();
    rg_linear_module *l = rg_nn_linear(2, 3);
    rg_tensor *weight = l->weight, *bias = l->bias, *own = rg_set_name(rg_ones(3), "own");
    l->bias = NULL;
    ck_assert(is_said(l, "parameters: expected a tensor but got NULL"));
    ck_fails(rg_get_parameter(l, "bias"), RG_TYPE_ERROR, "get_parameter: expected a tensor");
    l->weight = own;
    ck_assert(is_said(l, "parameters: the tensor in 'weight' isn't registered"));
    ck_fails(rg_get_parameter(l, "weight"), RG_RUNTIME_ERROR,
             "get_parameter: the tensor in 'weight' isn't registered");
    /* A new parameter in the field is named after the field, not after the program's tensor. */
    ck_ok(rg_register_parameter(&l->base, "weight", &l->weight, rg_ones(3, 2)));
    ck_assert_str_eq(rg_name(l->weight), "weight");
    ck_assert_str_eq(rg_name(own), "own");
    rg_drop(weight);
    weight = l->weight;
    l->weight = own;
    rg_module_free(l);
    ck_assert(rg_item(rg_sum(own)) == 3);
    rg_drop(weight);
    rg_drop(bias);
    /* A module with an overwritten field can't be registered as a child. The failed registration
     * releases the module. */
    l = rg_nn_linear(2, 3);
    weight = l->weight;
    l->weight = own;
    Tree *parent = RG_MODULE(Tree, &tree_class);
    ck_fails(rg_register_child(&parent->base, "deep", (rg_module **)&parent->deep, &l->base),
             RG_RUNTIME_ERROR, "register_child: the tensor in 'weight' isn't registered");
    rg_module_free(parent);
    rg_drop(weight);
}
END_TEST

/* Functions also fail if a field has a module that isn't registered there. Freeing the parent
 * doesn't free that module. */
START_TEST(test_children_of_others) {
    RG_SCOPE();
    rg_sequential *s = rg_nn_sequential(rg_nn_linear(2, 3));
    rg_module *child = s->v[0], *stranger = &rg_nn_linear(2, 2)->base;
    s->v[0] = NULL;
    ck_assert(is_said(s, "parameters: expected a module but got NULL"));
    s->v[0] = stranger;
    ck_assert(is_said(s, "the module in '0' isn't registered"));
    ck_fails(rg_get_submodule(s, "0"), RG_RUNTIME_ERROR,
             "get_submodule: the module in '0' isn't registered");
    rg_module_free(s);
    ck_ok(rg_call(stranger, rg_ones(2)));
    s = rg_nn_sequential(stranger);
    s->v[0] = NULL;
    rg_module_free(s);
    /* The parents were freed without decrementing the counts of parents in these modules. So the
     * test sets the counts to 0. */
    child->registry->parents = 0;
    stranger->registry->parents = 0;
    rg_module_free(child);
    rg_module_free(stranger);
}
END_TEST

/* Each of many children is found by its name. */
START_TEST(test_first_of_many) {
    RG_SCOPE();
    rg_sequential *s = rg_nn_sequential();
    for (int n = 1; n <= 40; n++) {
        ck_ok(rg_sequential_append(s, rg_nn_relu()));
        ck_assert(rg_get_submodule(s, "0") == s->v[0]);
        for (int i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "%d", i);
            ck_assert(rg_get_submodule(s, name) == s->v[i]);
        }
        ck_assert_int_eq(rg_named_modules(s).n, n + 1);
    }
    rg_module_free(s);
    /* A module that is appended again is listed once, even if it was the first one. */
    s = rg_nn_sequential();
    for (int n = 1; n <= 40; n++) {
        ck_ok(rg_sequential_append(s, rg_nn_linear(1, 1)));
        if (n % 8 == 0)
            ck_ok(rg_sequential_append(s, s->v[0]));
        ck_assert_int_eq(rg_parameters(s).n, 2 * n);
        ck_assert_int_eq(rg_named_modules(s).n, n + 1);
    }
    ck_assert_int_eq(rg_state_dict(s).n, 90);
    rg_module_free(s);
}
END_TEST

/* A parameter that replaces another one takes over its name. If the old parameter has no name, the
 * new one is named by the key under which it is registered. */
START_TEST(test_next_names) {
    RG_SCOPE();
    rg_linear_module *l = rg_nn_linear(2, 3);
    ck_ok(rg_set_name(l->bias, NULL));
    ck_ok(rg_register_parameter(&l->base, "bias", &l->bias, rg_ones(3)));
    ck_assert_str_eq(rg_name(l->bias), "bias");
    rg_sequential *s = rg_nn_sequential(l);
    ck_assert_str_eq(rg_name(l->bias), "0.bias");
    ck_ok(rg_register_parameter(&l->base, "bias", &l->bias, rg_ones(3)));
    ck_assert_str_eq(rg_name(l->bias), "0.bias");
    ck_ok(rg_register_parameter(&l->base, "bias", &l->bias, RG_NONE));
    ck_ok(rg_register_parameter(&l->base, "bias", &l->bias, rg_ones(3)));
    ck_assert_str_eq(rg_name(l->bias), "bias");
    rg_module_free(s);
}
END_TEST

/* The last tensor of the module can't be written to, since its elements share an address. Then no
 * tensor is loaded. */
START_TEST(test_state_that_cannot_be_written) {
    RG_SCOPE();
    rg_linear_module *m = rg_nn_linear(2, 3), *from = rg_nn_linear(2, 3);
    rg_tensor *before = rg_clone(rg_detach(m->weight));
    ck_ok(rg_set_data(m->bias, rg_expand(rg_ones(1), 3)));
    ck_fails(rg_load_state_dict(m, rg_state_dict(from), true), RG_RUNTIME_ERROR,
             "load_state_dict: unsupported operation");
    ck_assert(rg_equal(m->weight, before));
    rg_module_free(m);
    rg_module_free(from);
}
END_TEST

/* A state with two values for one name is refused, and nothing is loaded. rg_module_requires_grad_
 * succeeds for a module without parameters. rg_remove_forward_hook refuses NULL. */
START_TEST(test_twice_and_nothing) {
    RG_SCOPE();
    rg_linear_module *l = rg_nn_linear(1, 1);
    const rg_named v[] = { { "weight", rg_full(RG_DIMS(1, 1), 2.) },
                           { "weight", rg_full(RG_DIMS(1, 1), 3.) },
                           { "bias", rg_full(RG_DIMS(1), 4.) },
                           { "bias", rg_full(RG_DIMS(1), 5.) } };
    const double weight = rg_item(rg_detach(l->weight)), bias = rg_item(rg_detach(l->bias));
    ck_fails(rg_load_state_dict(l, (rg_named_list){ 4, v }, true), RG_VALUE_ERROR,
             "load_state_dict: the name \"weight\" comes twice");
    ck_assert(rg_item(rg_detach(l->weight)) == weight && rg_item(rg_detach(l->bias)) == bias);
    rg_module_free(l);
    rg_module *relu = &rg_nn_relu()->base;
    ck_ok(rg_module_requires_grad_(relu, false));
    rg_module_free(relu);
}
END_TEST

/* rg_move_places moves only the places inside the block. */
START_TEST(test_places_move) {
    RG_SCOPE();
    rg_tensor *before[3] = { 0 }, *after[3];
    Some *m = RG_MODULE(Some, &some_class);
    ck_ok(rg_register_parameter(&m->base, "a", &before[0], rg_ones(1)));
    ck_ok(rg_register_parameter(&m->base, "b", &before[1], rg_ones(2)));
    ck_ok(rg_register_parameter(&m->base, "c", &before[2], rg_ones(3)));
    m = RG_READY(m);
    ck_fails(rg_move_places(&m->base, before, NULL, sizeof before), RG_TYPE_ERROR,
             "move_places: expected a block but got NULL");
    ck_fails(rg_move_places(NULL, before, after, sizeof before), RG_TYPE_ERROR,
             "move_places: expected a module but got NULL");
    ck_ok(rg_move_places(&m->base, before, NULL, 0));
    memcpy(after, before, sizeof after);
    ck_ok(rg_move_places(&m->base, before, after, 2 * sizeof *before));
    before[0] = before[1] = NULL;
    after[2] = NULL;
    rg_list p = rg_parameters(m);
    ck_assert_int_eq(p.n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(rg_numel(p.v[i]), i + 1);
    rg_module_free(m);
}
END_TEST

/* Keys and paths of any length can be looked up. The long ones here are refused as unknown. */
START_TEST(test_long_names) {
    RG_SCOPE();
    rg_sequential *s = rg_nn_sequential(rg_nn_linear(1, 1));
    rg_named_list own = rg_state_dict(s);
    for (int n = 20; n < 200; n++) {
        char key[256], said[400];
        memset(key, 'x', (size_t)n);
        snprintf(key + n, sizeof key - (size_t)n, ".weight");
        const rg_named v[] = { own.v[0], own.v[1], { key, rg_ones(1) } };
        snprintf(said, sizeof said, "Unexpected key(s) in state_dict: \"%s\". ", key);
        ck_fails(rg_load_state_dict(s, (rg_named_list){ 3, v }, true), RG_RUNTIME_ERROR, said);
        ck_fails(rg_get_parameter(s, key), RG_VALUE_ERROR,
                 "get_parameter: Sequential has no attribute `xxxxxxx");
    }
    rg_module_free(s);
}
END_TEST

/* Loads a state that must be refused. Returns false if memory ran out, which can also happen while
 * the error message is written. */
static bool refused_load(void) {
    RG_SCOPE();
    rg_linear_module *m = rg_nn_linear(1, 1);
    rg_tensor *one = rg_ones(1);
    if (!m || !one)
        return rg_module_free(m), false;
    const rg_named v[] = { { "weight", one }, { "x", one }, { "y", one } };
    const bool loaded = rg_load_state_dict(m, (rg_named_list){ 3, v }, true);
    rg_module_free(m);
    ck_assert(!loaded);
    const bool refused = rg_error_code() == RG_RUNTIME_ERROR;
    ck_assert(!refused || strstr(rg_error(), "Unexpected key(s) in state_dict: \"x\", \"y\". "));
    if (refused)
        rg_error_clear();
    return refused;
}

START_TEST(test_refused_without_memory) { twin_out_of_memory(refused_load); }
END_TEST

static void *print_often(void *m) {
    for (int i = 0; i < 20000; i++) {
        RG_SCOPE();
        ck_ok(rg_module_repr(m));
    }
    return NULL;
}

/* Several threads print a module at the same time. After they have ended, it can be freed. */
START_TEST(test_use_by_threads) {
    rg_linear_module *m = rg_nn_linear(2, 3);
    pthread_t threads[3];
    for (int i = 0; i < RG_COUNT(threads); i++)
        pthread_create(&threads[i], NULL, print_often, m);
    for (int i = 0; i < RG_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    rg_module_free(m);
    ck_assert_msg(rg_error_code() == RG_OK, "%s", rg_error());
}
END_TEST

RG_TESTS(module, test_use_by_threads, test_state_that_cannot_be_written,
         test_load_where_nothing_can_be_written, test_names_and_repr, test_nested_repr,
         test_load_state_dict_complains_as_torch, test_keys_that_are_left_out,
         test_states_are_copied, test_modes_and_gradients, test_tied_parameters,
         test_tie_takes_only_registered_fields, test_hooks, test_literal_contexts,
         test_hooks_that_return, test_failed_lists, test_results_outlive_the_module,
         test_released_tensors, test_failed_parameter, test_without_ready,
         test_what_cannot_be_registered,
         test_out_of_memory, test_anomaly_names_the_module, test_fields_of_others,
         test_children_of_others, test_first_of_many, test_next_names, test_twice_and_nothing,
         test_places_move, test_long_names, test_refused_without_memory)

/*
 * test_deep.c: trees of modules that are so deep that a recursion over them would use up the stack.
 * Each public function that takes a module works on such a tree, or fails and says that the
 * recursion is too deep. No function crashes. The calls run on a thread with a small stack.
 */
#include "regard.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 6000, STACK = 512 << 10 };

/* Returns a Sequential in a Sequential, and so on, DEPTH times. The tree is built from its root,
 * since registering a module walks over all modules below it. */
static rg_module *new_tower(void) {
    rg_sequential *root = rg_nn_sequential(), *at = root;
    for (int i = 0; i < DEPTH; i++) {
        rg_sequential *child = rg_nn_sequential();
        ck_assert_msg(rg_sequential_append(at, child), "%s", rg_error());
        at = child;
    }
    ck_ok(rg_sequential_append(at, rg_nn_linear(2, 2)));
    return (rg_module *)root;
}

static rg_module *tower;
static rg_tensor *x;
static rg_named_list nothing;

static void change_nothing(rg_module *m, void *context) {
    (void)m;
    (void)context;
}

/* Returns the path of the innermost Sequential. */
static const char *longest_path(void) {
    static char path[2 * DEPTH];
    for (int i = 0; i < DEPTH; i++)
        memcpy(path + 2 * i, "0.", 2);
    path[sizeof path - 1] = 0;
    return path;
}

static void call_apply_to_modules(void) { rg_apply_to_modules(tower, change_nothing, NULL); }
static void call_call_list(void) { rg_call(tower, x); }
static void call_deepcopy(void) { rg_module_free(rg_deepcopy(tower)); }
static void call_get_buffer(void) { rg_get_buffer(tower, longest_path()); }
static void call_get_parameter(void) { rg_get_parameter(tower, longest_path()); }
static void call_get_submodule(void) { ck_ok(rg_get_submodule(tower, longest_path())); }
static void call_load_state_dict(void) { rg_load_state_dict(tower, nothing, false); }
static void call_load_state_dict_keys(void) {
    rg_named t = { longest_path(), x };
    rg_load_state_dict_keys(tower, (rg_named_list){ 1, &t }, false);
}
static void call_module_free(void) {
    rg_module_free(tower);
    tower = NULL;
}
static void call_functional_call_list(void) {
    rg_functional_call_list(tower, (rg_named_list){ 0 }, RG_LIST(x));
}
static void call_module_load_with(void) { rg_module_load(tower, scratch("deep.safetensors")); }
static void call_module_repr(void) { rg_module_repr(tower); }
static void call_module_requires_grad_(void) { rg_module_requires_grad_(tower, false); }
static void call_module_save_with(void) { rg_module_save(tower, scratch("deep.safetensors")); }
static void call_module_to(void) { rg_module_to(tower, RG_FLOAT64); }
static void call_named_buffers(void) { rg_named_buffers(tower); }
static void call_named_modules(void) { rg_named_modules(tower); }
static void call_named_parameters(void) { rg_named_parameters(tower); }
static void call_num_parameters(void) { rg_num_parameters(tower); }
static void call_optim_averaged_model_with(void) {
    rg_module_free(rg_optim_averaged_model(tower));
}
static void call_parameters(void) { rg_parameters(tower); }
static void call_register_child(void) {
    rg_sequential *above = rg_nn_sequential();
    rg_sequential_append(above, tower);
    tower = (rg_module *)above;
}
static void call_state_dict(void) { rg_state_dict(tower); }
static void call_train(void) { rg_train(tower, false); }
static void call_zero_grad(void) { rg_zero_grad(tower); }

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
#define CALL(name) { "rg_" #name, call_##name }
    CALL(apply_to_modules),
    CALL(call_list),
    CALL(deepcopy),
    CALL(functional_call_list),
    CALL(get_buffer),
    CALL(get_parameter),
    CALL(get_submodule),
    CALL(load_state_dict),
    CALL(load_state_dict_keys),
    CALL(module_free),
    CALL(module_load_with),
    CALL(module_repr),
    CALL(module_requires_grad_),
    CALL(module_save_with),
    CALL(module_to),
    CALL(named_buffers),
    CALL(named_modules),
    CALL(named_parameters),
    CALL(num_parameters),
    CALL(optim_averaged_model_with),
    CALL(parameters),
    CALL(register_child),
    CALL(state_dict),
    CALL(train),
    CALL(zero_grad),
};
enum { CALLS = (int)(sizeof calls / sizeof *calls) };

/* These functions take a module, but need no row above. They visit only the module itself, do what
 * a function with a row does, or are types of callbacks. */
static const char *const others[] = {
    "rg_call_with", "rg_forward_hook", "rg_forward_pre_hook", "rg_full_backward_hook",
    "rg_full_backward_pre_hook", "rg_hook_point", "rg_hooks_guard_open", "rg_keywords_of_call",
    "rg_module_ready", "rg_move_places", "rg_nn_distributed_with", "rg_point_of",
    "rg_register_buffer", "rg_register_forward_hook", "rg_register_forward_pre_hook",
    "rg_register_full_backward_hook", "rg_register_full_backward_pre_hook",
    "rg_register_parameter", "rg_remove_forward_hook", "rg_run_with_cache_list",
    "rg_run_with_hooks_list",
};

static void *make_call(void *at) {
    x = rg_ones(2);
    tower = new_tower();
    rg_error_clear();
    calls[*(int *)at].call();
    const char *said = rg_error();
    const bool refused = strstr(said, "maximum recursion depth exceeded");
    const bool absent = strstr(said, "is not") || strstr(said, "has no attribute");
    const bool unsaved = strstr(calls[*(int *)at].name, "load_with");
    ck_assert_msg(!*said || refused || absent || unsaved, "%s: %s", calls[*(int *)at].name, said);
    rg_error_clear();
    rg_module_free(tower);
    return NULL;
}

START_TEST(test_deep_trees) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    ck_assert_int_eq(pthread_attr_setstacksize(&small, STACK), 0);
    for (int i = 0; i < CALLS; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, &small, make_call, &i), 0);
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&small);
}
END_TEST

static void call_register_child_below(void) {
    rg_sequential *below = rg_nn_sequential(), *top = rg_nn_sequential(below);
    rg_sequential_append(below, tower);
    rg_module_free((rg_module *)top);
}

static void *use_small_stack(void *call) {
    ((void (**)(void))call)[0]();
    ck_assert_msg(strstr(rg_error(), "maximum recursion depth exceeded"), "%s", rg_error());
    rg_error_clear();
    return NULL;
}

/* These need so little stack for a module that they only fail on a smaller one. */
START_TEST(test_smaller_stacks) {
    static void (*small_calls[])(void) = { call_apply_to_modules, call_register_child_below };
    pthread_attr_t small;
    tower = new_tower();
    pthread_attr_init(&small);
    ck_assert_int_eq(pthread_attr_setstacksize(&small, STACK / 4), 0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, &small, use_small_stack, &small_calls[i]), 0);
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&small);
    rg_module_free(tower);
}
END_TEST

/* Each function in the public headers of nn/ that takes a module has a row, or is in others[]. */
START_TEST(test_functions_that_take_a_module) {
    FILE *list = popen("grep -hoE '\\brg_[a-z_0-9]+\\)?\\((void|rg_module) \\*(m|module|model)\\b' "
                       "nn/*.h nn/*/*.h | sed 's/[)(].*//' | sort -u",
                       "r");
    char name[128];
    int n = 0;
    ck_assert_ptr_nonnull(list);
    while (fgets(name, sizeof name, list)) {
        bool known = false;
        name[strcspn(name, "\n")] = 0;
        for (int i = 0; i < CALLS; i++)
            known |= strcmp(name, calls[i].name) == 0;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            known |= strcmp(name, others[i]) == 0;
        ck_assert_msg(known, "%s takes a module: it needs a row in tests/nn/test_deep.c", name);
        n++;
    }
    pclose(list);
    ck_assert_int_gt(n, 30);
}
END_TEST

RG_TESTS(deep, test_deep_trees, test_smaller_stacks, test_functions_that_take_a_module)

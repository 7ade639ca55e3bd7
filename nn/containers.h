/*
 * containers.h: the containers Sequential, ModuleList, ModuleDict and ParameterList. The children
 * of a Sequential or ModuleList have the names 0, 1, .. The program names the children of a
 * ModuleDict. A ParameterList is a list of parameters.
 *
 *     rg_sequential *mlp = rg_nn_sequential(rg_nn_linear(4, 8), rg_nn_relu(), rg_nn_linear(8, 2));
 *     rg_module_dict *heads = rg_nn_module_dict({ "class", rg_nn_linear(8, 10) },
 *                                               { "box", rg_nn_linear(8, 4) });
 *     rg_tensor *y = rg_call(rg_module_dict_get(heads, "box"), rg_call(mlp, x));
 *
 * The n children are in v, and the container owns them. If the container can't be made, they are
 * freed. If a program assigns a module to an element of v directly, the module isn't registered,
 * and functions on all modules, such as rg_parameters, fail.
 */
#pragma once

#include "module.h"
#include "../tensor/arguments/each.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_sequential {
    rg_module base;
    const int n;
    rg_module **const v;
    /* The number of children for which v is allocated. */
    const size_t room;
} rg_sequential;
typedef struct rg_module_list {
    rg_module base;
    const int n;
    rg_module **const v;
    /* The number of children for which v is allocated. */
    const size_t room;
} rg_module_list;
rg_sequential *rg_nn_sequential_of(int n, rg_module *const *children);
rg_module_list *rg_nn_module_list_of(int n, rg_module *const *children);
/* _append appends a child, and _insert inserts it before child i. _set puts the child in the place
 * of child i, and frees the old child i. As in torch, a negative i counts from the end. After a
 * success the container owns the child. On failure the functions return false: the child is freed,
 * and the container stays as it was. */
bool rg_sequential_append(rg_sequential *m, void *child);
bool rg_sequential_insert(rg_sequential *m, int i, void *child);
bool rg_sequential_set(rg_sequential *m, int i, void *child);
bool rg_module_list_append(rg_module_list *m, void *child);
bool rg_module_list_insert(rg_module_list *m, int i, void *child);
bool rg_module_list_set(rg_module_list *m, int i, void *child);

typedef struct rg_module_dict {
    rg_module base;
    const int n;
    rg_module **const v;
    /* The number of children for which v is allocated. */
    const size_t room;
} rg_module_dict;
typedef struct rg_module_item {
    const char *name;
    void *module;
} rg_module_item;
rg_module_dict *rg_nn_module_dict_of(int n, const rg_module_item *items);
/* Puts the child under this name. A previous child of the same name is replaced and freed. If the
 * name is new, the child is appended. After a success the dictionary owns the child. On failure the
 * function returns false: the child is freed, and the dictionary stays as it was. */
bool rg_module_dict_set(rg_module_dict *m, const char *name, void *child);
/* Returns the child of this name. Fails, and returns NULL, if there is none. */
void *rg_module_dict_get(rg_module_dict *m, const char *name);
bool rg_module_dict_contains(rg_module_dict *m, const char *name);
/* Lists the children with their names, in the order in which they were inserted. The scope owns the
 * list. On failure .n is -1. */
rg_named_modules_list rg_module_dict_items(rg_module_dict *m);

/* A list of parameters, as torch.nn.ParameterList. If a value isn't a parameter, the list stores a
 * new parameter that shares the value's data. */
typedef struct rg_parameter_list {
    rg_module base;
    const int n;
    rg_tensor **const v;
    /* The number of parameters for which v is allocated. */
    const size_t room;
} rg_parameter_list;
rg_parameter_list *rg_nn_parameter_list_of(rg_list values);
bool rg_parameter_list_append(rg_parameter_list *m, rg_tensor *value);
bool rg_parameter_list_set(rg_parameter_list *m, int i, rg_tensor *value);
#define rg_nn_parameter_list(...) rg_nn_parameter_list_of(RG_ARGUMENTS_(__VA_ARGS__))

#ifdef __cplusplus
#define RG_MODULE_ITEMS_(n, ...) rg_module_dict_from({ __VA_ARGS__ })
#define RG_MODULES_(n, f, ...)   rg_modules_from(f, { __VA_ARGS__ })
#else
#define RG_MODULE_ITEMS_(n, ...) RG_MODULE_ITEMS__(n, __VA_ARGS__)
#define RG_MODULE_ITEMS__(n, ...)                                                              \
    __extension__({                                                                            \
        rg_module_item rg_i##n[] = { { (const char *)0, (void *)0 }, __VA_ARGS__ };            \
        rg_nn_module_dict_of((int)(sizeof rg_i##n / sizeof(rg_module_item)) - 1, rg_i##n + 1); \
    })
#define RG_MODULES_(n, f, ...) RG_MODULES__(n, f, __VA_ARGS__)
#define RG_MODULES__(n, f, ...)                                                                 \
    __extension__({                                                                             \
        void *rg_m##n[] = { (void *)0, RG_EACH_(RG_CHILD_, __VA_ARGS__) };                      \
        f((int)(sizeof rg_m##n / sizeof(void *)) - 1, (rg_module *const *)(void *)rg_m##n + 1); \
    })
/* Returns m. If it can't be a module, the program doesn't compile. */
#define RG_CHILD_(m)                                                      \
    __extension__({                                                       \
        __auto_type rg_child = (m);                                       \
        (void)RG_REQUIRE_OF_(RG_MAY_BE_MODULE_(rg_child), RG_NO_MODULE_); \
        (void *)rg_child;                                                 \
    })
#endif
#define rg_nn_sequential(...)  RG_MODULES_(__COUNTER__, rg_nn_sequential_of, __VA_ARGS__)
#define rg_nn_module_list(...) RG_MODULES_(__COUNTER__, rg_nn_module_list_of, __VA_ARGS__)
#define rg_nn_module_dict(...) RG_MODULE_ITEMS_(__COUNTER__, __VA_ARGS__)

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_sequential_of(n, ...)        rg_nn_sequential_of(RG_INT(n), __VA_ARGS__)
#define rg_nn_module_list_of(n, ...)       rg_nn_module_list_of(RG_INT(n), __VA_ARGS__)
#define rg_sequential_append(m, child)     rg_sequential_append(m, RG_A_MODULE_(child))
#define rg_sequential_insert(m, i, child)  rg_sequential_insert(m, RG_INT(i), RG_A_MODULE_(child))
#define rg_sequential_set(m, i, child)     rg_sequential_set(m, RG_INT(i), RG_A_MODULE_(child))
#define rg_module_list_append(m, child)    rg_module_list_append(m, RG_A_MODULE_(child))
#define rg_module_list_insert(m, i, child) rg_module_list_insert(m, RG_INT(i), RG_A_MODULE_(child))
#define rg_module_list_set(m, i, child)    rg_module_list_set(m, RG_INT(i), RG_A_MODULE_(child))
#define rg_module_dict_set(m, name, child) rg_module_dict_set(m, name, RG_A_MODULE_(child))
#define rg_nn_module_dict_of(n, ...)       rg_nn_module_dict_of(RG_INT(n), __VA_ARGS__)
#define rg_parameter_list_set(m, i, value) rg_parameter_list_set(m, RG_INT(i), value)

RG_PUBLIC_END

#ifdef __cplusplus
struct rg_child {
    rg_module *module;
    template <typename T> rg_child(T m) : module(rg_as_module(m)) {}
};
template <typename F> static inline auto rg_modules_from(F f, std::initializer_list<rg_child> l) {
    return f((int)l.size(), l.size() ? &l.begin()->module : nullptr);
}
struct rg_child_item : rg_module_item {
    template <typename T>
    rg_child_item(const char *key, T m) : rg_module_item{ key, rg_as_module(m) } {}
};
static inline rg_module_dict *rg_module_dict_from(std::initializer_list<rg_child_item> l) {
    return rg_nn_module_dict_of((int)l.size(), l.begin());
}
#endif

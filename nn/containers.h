/*
 * containers.h: modules whose children are named 0, 1, ..: Sequential and ModuleList.
 *
 *     rg_sequential *mlp = rg_nn_sequential(rg_nn_linear(4, 8), rg_nn_relu(), rg_nn_linear(8, 2));
 *
 * The n children stand in v and belong to the container. If it can't be made, they are freed. What
 * is written to v itself isn't registered, and fails where the tree is walked.
 */
#pragma once

#include "module.h"

RG_PUBLIC_BEGIN

typedef struct rg_sequential {
    rg_module base;
    int n;
    rg_module **v;
    size_t room; /* The library alone uses this. */
} rg_sequential;
typedef struct rg_module_list {
    rg_module base;
    int n;
    rg_module **v;
    size_t room; /* The library alone uses this. */
} rg_module_list;
rg_sequential *rg_nn_sequential_of(int n, rg_module *const *children);
rg_module_list *rg_nn_module_list_of(int n, rg_module *const *children);
/* These put a child at the end, before child i, and in the place of child i, which is freed. As in
 * torch, i counts from the end where it is negative. The child then belongs to the container; if
 * this fails, it is freed, and the container is as before. */
bool rg_sequential_append(rg_sequential *m, void *child);
bool rg_sequential_insert(rg_sequential *m, int i, void *child);
bool rg_sequential_set(rg_sequential *m, int i, void *child);
bool rg_module_list_append(rg_module_list *m, void *child);
bool rg_module_list_insert(rg_module_list *m, int i, void *child);
bool rg_module_list_set(rg_module_list *m, int i, void *child);
#ifdef __cplusplus
#define RG_MODULES_(n, f, ...)                                  \
    [](std::initializer_list<void *> l) {                       \
        return f((int)l.size(), (rg_module *const *)l.begin()); \
    }({ __VA_ARGS__ })
#else
#define RG_MODULES_(n, f, ...) RG_MODULES__(n, f, __VA_ARGS__)
#define RG_MODULES__(n, f, ...)                                                                 \
    __extension__({                                                                             \
        void *rg_m##n[] = { (void *)0, __VA_ARGS__ };                                           \
        f((int)(sizeof rg_m##n / sizeof(void *)) - 1, (rg_module *const *)(void *)rg_m##n + 1); \
    })
#endif
#define rg_nn_sequential(...)  RG_MODULES_(__COUNTER__, rg_nn_sequential_of, __VA_ARGS__)
#define rg_nn_module_list(...) RG_MODULES_(__COUNTER__, rg_nn_module_list_of, __VA_ARGS__)

RG_PUBLIC_END

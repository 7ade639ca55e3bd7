/*
 * nn.h: modules: structs whose parameters, buffers and children are registered
 * under their fields' names, as in nn.Module.
 *
 *     typedef struct {
 *         rg_module  base;
 *         rg_tensor *weight;
 *     } Scale;
 *
 *     static rg_tensor *scale_forward(rg_module *m, rg_tensor *x)
 *     {
 *         return rg_mul(x, ((Scale *)m)->weight);
 *     }
 *
 *     static const rg_module_class scale_class = { .name = "Scale", .forward = scale_forward };
 *
 *     Scale *scale(int n)
 *     {
 *         Scale *self = RG_MODULE(Scale, &scale_class);
 *         RG_PARAMETER(self, weight, rg_ones(n));
 *         return RG_READY(self);
 *     }
 *
 * A constructor that fails frees what it made and returns NULL; NULL as a child or a
 * value makes it fail. A module belongs to who made it, until rg_module_free or until
 * it becomes a child; it frees its parameters and children.
 */
#ifndef RG_NN_H
#define RG_NN_H

#include "../autograd/autograd.h"
#include "../autograd/ops.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct rg_module rg_module;

typedef struct rg_module_class {
    const char *name;
    rg_tensor *(*forward)(rg_module *m, rg_tensor *x);
    void (*extra_repr)(rg_module *m, char *text, size_t room);     /* "in_features=3, out_features=4" */
    void (*destroy)(rg_module *m);                                 /* what the registry doesn't know of */
} rg_module_class;

/* Called after forward; returns what to go on with, RG_NONE: the same. */
typedef rg_tensor *rg_forward_hook(rg_module *m, rg_tensor *x, rg_tensor *y, void *context);

struct rg_module {
    const rg_module_class *cls;
    bool                   training;
    struct rg_registry    *registry;                    /* module.c's own */
};

/* ---- making --------------------------------------------------------------------- */
void *rg_module_new(size_t bytes, const rg_module_class *cls);
void *rg_module_ready(void *m);                         /* NULL, and freed, if a registration failed */
void  rg_module_free(void *m);                          /* the whole tree; NULL: nothing */
bool  rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value);  /* RG_NONE: absent */
bool  rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value);
bool  rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
bool  rg_tie(rg_tensor **place, rg_tensor *parameter);  /* lets a registered place share another's parameter */
#define RG_MODULE(type, cls)               ((type *)rg_module_new(sizeof(type), cls))
#define RG_PARAMETER(self, field, value) \
    do { if (self) rg_register_parameter(&(self)->base, #field, &(self)->field, value); } while (0)
#define RG_BUFFER(self, field, value) \
    do { if (self) rg_register_buffer(&(self)->base, #field, &(self)->field, value); } while (0)
#define RG_CHILD(self, field, child) \
    do { if (self) rg_register_child(&(self)->base, #field, (rg_module **)(void *)&(self)->field, (rg_module *)(child)); } while (0)
#define RG_READY(self)                     ((__typeof__(self))rg_module_ready(self))

/* ---- using ------------------------------------------------------------------------ */
rg_tensor *rg_call_module(rg_module *m, rg_tensor *x);  /* forward, in a scope of its own, and hooks */
#define    rg_call(m, x) rg_call_module((rg_module *)(m), x)
int        rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context);   /* an id; -1 */
bool       rg_remove_forward_hook(rg_module *m, int id);
void       rg_train(void *m, bool on);                  /* and all below it */
#define    rg_eval(m) rg_train(m, false)
bool       rg_module_requires_grad_(void *m, bool on);
void       rg_zero_grad(void *m);
bool       rg_module_to(void *m, rg_dtype dtype);
int64_t    rg_num_parameters(void *m);                  /* elements; shared ones once */
void       rg_apply_to_modules(void *m, void (*f)(rg_module *m, void *context), void *context);    /* children first */

/* ---- looking ------------------------------------------------------------------------
 * Lists whose names and arrays the scope owns; .n == -1: failed. */
typedef struct rg_named { const char *name; rg_tensor *tensor; } rg_named;
typedef struct rg_named_list { int n; const rg_named *v; } rg_named_list;
typedef struct rg_named_module { const char *name; rg_module *module; } rg_named_module;
typedef struct rg_named_modules_list { int n; const rg_named_module *v; } rg_named_modules_list;

rg_named_list rg_named_parameters(void *m);             /* shared ones once */
rg_named_list rg_named_buffers(void *m);
rg_named_list rg_state_dict(void *m);                   /* parameters and buffers */
bool          rg_load_state_dict(void *m, rg_named_list dict, bool strict);    /* copies; torch's complaints */
rg_named_modules_list rg_named_modules(void *m);        /* itself first, as "" */
const char   *rg_module_repr(void *m);                  /* torch's text */

/* ---- containers ---------------------------------------------------------------------- */
typedef struct rg_sequential  { rg_module base; int n; rg_module **v; } rg_sequential;
typedef struct rg_module_list { rg_module base; int n; rg_module **v; } rg_module_list;
rg_sequential  *rg_nn_sequential_of(int n, rg_module *const children[]);
rg_module_list *rg_nn_module_list_of(int n, rg_module *const children[]);
#define RG_COUNT_MODULES_(...) (int)(sizeof((void *[]){ __VA_ARGS__ }) / sizeof(void *))
#define rg_nn_sequential(...)  \
    rg_nn_sequential_of(RG_COUNT_MODULES_(__VA_ARGS__), (rg_module *const *)(void *const[]){ __VA_ARGS__ })
#define rg_nn_module_list(...) \
    rg_nn_module_list_of(RG_COUNT_MODULES_(__VA_ARGS__), (rg_module *const *)(void *const[]){ __VA_ARGS__ })

/* ---- layers: one file each ----------------------------------------------------------------- */
typedef struct rg_linear_module { rg_module base; rg_tensor *weight, *bias; int64_t in_features, out_features; } rg_linear_module;
typedef struct rg_linear_options { bool bias RG_DEFAULT(true); } rg_linear_options;
rg_linear_module *rg_nn_linear_with(int64_t in_features, int64_t out_features, rg_linear_options o);
#define rg_nn_linear(in_features, out_features, ...) \
    rg_nn_linear_with(in_features, out_features, RG_KEYWORDS(rg_linear_options, (.bias = true), __VA_ARGS__))

typedef struct rg_embedding_module {
    rg_module  base;
    rg_tensor *weight;
    int64_t    num_embeddings, embedding_dim, padding_idx;
} rg_embedding_module;
rg_embedding_module *rg_nn_embedding_with(int64_t num_embeddings, int64_t embedding_dim, rg_embedding_options o);
#define rg_nn_embedding(num_embeddings, embedding_dim, ...) rg_nn_embedding_with(num_embeddings, embedding_dim, \
    RG_KEYWORDS(rg_embedding_options, (.padding_idx = INT64_MIN), __VA_ARGS__))

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/*
 * nn.h: modules: structs whose parameters, buffers and children are registered
 * under their fields' names, as in nn.Module.
 *
 *     typedef struct {
 *         rg_module  base;
 *         rg_tensor *weight;
 *     } Scale;
 *
 *     static rg_tensor *scale_forward(rg_module *m, rg_tensor *x) { return rg_mul(x, ((Scale
 * *)m)->weight); }
 *
 *     static const rg_module_class scale_class = { .name = "Scale", .forward = scale_forward };
 *
 *     Scale *scale(int n) {
 *         Scale *self = RG_MODULE(Scale, &scale_class);
 *         RG_PARAMETER(self, weight, rg_ones(n));
 *         return RG_READY(self);
 *     }
 *
 * A field that isn't registered gets its value from RG_MODULE(Scale, &scale_class, .n = n).
 * A constructor that fails frees what it made and returns NULL; NULL as a child or a
 * value makes it fail. A module belongs to who made it, until rg_module_free or until
 * it becomes a child; it frees its parameters and children. After rg_module_free neither
 * it nor what was below it may be used: that is noticed (RG_RELEASED) only while its
 * memory isn't in use for something else.
 */
#pragma once

#include "../autograd/autograd.h"
#include "../autograd/ops.h"

RG_PUBLIC_BEGIN

typedef struct rg_module rg_module;

typedef struct rg_module_class {
    const char *name;
    rg_tensor *(*forward)(rg_module *m, rg_tensor *x);                /* rg_call(m, x) */
    rg_tensor *(*forward2)(rg_module *m, rg_tensor *x, rg_tensor *y); /* rg_call(m, x, y) */
    rg_tensor *(*forward3)(rg_module *m, rg_tensor *x, rg_tensor *y, rg_tensor *z);
    /* "in_features=3, out_features=4" */
    void (*extra_repr)(rg_module *m, char *text, size_t room);
    /* what the registry doesn't know of */
    void (*destroy)(rg_module *m);
} rg_module_class;

struct rg_module {
    const rg_module_class *cls;
    /* failed: in its constructor, something was NULL */
    bool training, failed, released;
    struct rg_registry *registry; /* module.c's own */
};

/* ---- making --------------------------------------------------------------------- */
void *rg_module_new(size_t bytes, const rg_module_class *cls, const void *fields);
/* NULL, and freed, if a registration failed */
void *rg_module_ready(void *m);
/* the whole tree; NULL, or a module's child: nothing */
void rg_module_free(void *m);
/* RG_NONE: absent */
bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value);
/* in state_dict? */
typedef struct rg_buffer_options {
    bool persistent RG_DEFAULT(true);
} rg_buffer_options;
bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value,
                        rg_buffer_options o);
/* on failure, frees it */
bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* lets a registered place share another's parameter */
bool rg_tie(rg_tensor **place, rg_tensor *parameter);
/* Nothing is evaluated where self is NULL, and after a failure only a child, which is freed. */
#define RG_UNFAILED_(self) ((self) && !(self)->base.failed)
#define RG_PARAMETER(self, field, value) \
    ((void)(RG_UNFAILED_(self)           \
            && rg_register_parameter(&(self)->base, #field, &(self)->field, value)))
#define RG_BUFFER(self, field, value, ...)                    \
    ((void)(RG_UNFAILED_(self)                                \
            && rg_register_buffer(                            \
                &(self)->base, #field, &(self)->field, value, \
                RG_KEYWORDS(rg_buffer_options, (.persistent = true), __VA_ARGS__))))
#define RG_CHILD(self, field, child)                                                          \
    ((void)((self)                                                                            \
            && rg_register_child(&(self)->base, #field, (rg_module **)(void *)&(self)->field, \
                                 (rg_module *)(child))))
#define RG_READY(self) ((__typeof__(self))rg_module_ready(self))
#ifndef __cplusplus
#define RG_MODULE(type, cls, ...) \
    ((type *)rg_module_new(sizeof(type), cls, &(type){ .base = { 0 }, __VA_ARGS__ }))
#endif

/* ---- using ------------------------------------------------------------------------ */
/* forward, in a scope of its own, and hooks */
rg_tensor *rg_call_list(rg_module *m, rg_list inputs);
#define rg_call(m, ...) rg_call_list((rg_module *)(m), RG_LIST(__VA_ARGS__))
void rg_train(void *m, bool on); /* and all below it */
#define rg_eval(m) rg_train(m, false)
bool rg_module_requires_grad_(void *m, bool on);
void rg_zero_grad(void *m);
bool rg_module_to(void *m, rg_dtype dtype);
int64_t rg_num_parameters(void *m); /* elements; shared ones once; -1 */
/* children first */
void rg_apply_to_modules(void *m, void (*f)(rg_module *m, void *context), void *context);

/* A hook returns what takes the place of y, RG_NONE: nothing does. A pre-hook is called
 * before forward, with y RG_NONE: what it returns takes the place of the first input. */
typedef rg_tensor *rg_forward_hook(rg_module *m, rg_list inputs, rg_tensor *y, void *context);
/* an id; -1 */
int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context);
int rg_register_forward_pre_hook(rg_module *m, rg_forward_hook *hook, void *context);
/* of either kind */
bool rg_remove_forward_hook(rg_module *m, int id);

/* ---- looking ------------------------------------------------------------------------
 * Lists whose names and arrays the scope owns; .n == -1: failed. */
typedef struct rgi_named {
    const char *name;
    rg_tensor *tensor;
} rgi_named;
typedef struct rg_named_list {
    int n;
    const rgi_named *v;
} rg_named_list;
typedef struct rg_named_module {
    const char *name;
    rg_module *module;
} rg_named_module;
typedef struct rg_named_modules_list {
    int n;
    const rg_named_module *v;
} rg_named_modules_list;
rg_list rg_parameters(void *m); /* shared ones once */
rg_named_list rg_named_parameters(void *m);
rg_named_list rg_named_buffers(void *m);
/* parameters and persistent buffers, under each name */
rg_named_list rg_state_dict(void *m);
/* copies all, or complains */
bool rg_load_state_dict(void *m, rg_named_list dict, bool strict);
rg_named_modules_list rg_named_modules(void *m); /* itself first, as "" */
const char *rg_module_repr(void *m);             /* torch's text */

/* ---- containers ------------------------------------------------------------------ */
typedef struct rg_sequential {
    rg_module base;
    int n;
    rg_module **v;
} rg_sequential;
typedef struct rg_module_list {
    rg_module base;
    int n;
    rg_module **v;
} rg_module_list;
rg_sequential *rg_nn_sequential_of(int n, rg_module *const *children);
rg_module_list *rg_nn_module_list_of(int n, rg_module *const *children);
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

/* ---- layers ---------------------------------------------------------------------- */
typedef struct rg_linear_module {
    rg_module base;
    rg_tensor *weight, *bias;
    int64_t in_features, out_features;
} rg_linear_module;
typedef struct rg_linear_options {
    bool bias RG_DEFAULT(true);
} rg_linear_options;
rg_linear_module *rg_nn_linear_with(int64_t in_features, int64_t out_features, rg_linear_options o);
#define rg_nn_linear(in_features, out_features, ...) \
    rg_nn_linear_with(in_features, out_features,     \
                      RG_KEYWORDS(rg_linear_options, (.bias = true), __VA_ARGS__))

typedef struct rg_embedding_module {
    rg_module base;
    rg_tensor *weight;
    int64_t num_embeddings, embedding_dim, padding_idx;
} rg_embedding_module;
rg_embedding_module *rg_nn_embedding_with(int64_t num_embeddings, int64_t embedding_dim,
                                          rg_embedding_options o);
#define rg_nn_embedding(num_embeddings, embedding_dim, ...) \
    rg_nn_embedding_with(                                   \
        num_embeddings, embedding_dim,                      \
        RG_KEYWORDS(rg_embedding_options, (.padding_idx = INT64_MIN), __VA_ARGS__))

/* LayerNorm, RMSNorm, GroupNorm: over so many last elements, _dims: over a shape, or in groups of
 * channels. */
typedef struct rg_norm_options {
    double eps RG_DEFAULT(-1);                /* -1: 1e-5; RMSNorm: the dtype's own */
    bool elementwise_affine RG_DEFAULT(true); /* GroupNorm's affine, too */
    bool bias RG_DEFAULT(true);
} rg_norm_options;
typedef struct rg_norm_module {
    rg_module base;
    rg_tensor *weight, *bias;
    rg_dims shape;
    rg_norm_options o;
} rg_norm_module;
rg_norm_module *rg_nn_layer_norm_with(rg_dims shape, rg_norm_options o);
rg_norm_module *rg_nn_rms_norm_with(rg_dims shape, rg_norm_options o);
rg_norm_module *rg_nn_group_norm_with(int64_t groups, int64_t channels, rg_norm_options o);
#define RG_NORM_(...) \
    RG_KEYWORDS(rg_norm_options, (.eps = -1, .elementwise_affine = true, .bias = true), __VA_ARGS__)
#define rg_nn_layer_norm_dims(shape, ...) rg_nn_layer_norm_with(shape, RG_NORM_(__VA_ARGS__))
#define rg_nn_rms_norm_dims(shape, ...)   rg_nn_rms_norm_with(shape, RG_NORM_(__VA_ARGS__))
#define rg_nn_layer_norm(n, ...)          rg_nn_layer_norm_with(RG_DIMS(n), RG_NORM_(__VA_ARGS__))
#define rg_nn_rms_norm(n, ...)            rg_nn_rms_norm_with(RG_DIMS(n), RG_NORM_(__VA_ARGS__))
#define rg_nn_group_norm(groups, channels, ...) \
    rg_nn_group_norm_with(groups, channels, RG_NORM_(__VA_ARGS__))

/* What has no parameters: rg_nn_x is a module that computes rg_x. */
typedef struct rg_plain_module {
    rg_module base;
    double a, b;
} rg_plain_module;
#define RG_NN_PLAIN(f) rg_plain_module *rg_nn_##f(void);
RG_NN_PLAIN(identity)
RG_NN_PLAIN(relu)
RG_NN_PLAIN(relu6)
RG_NN_PLAIN(gelu) RG_NN_PLAIN(gelu_tanh) RG_NN_PLAIN(silu) RG_NN_PLAIN(mish) RG_NN_PLAIN(selu)
    RG_NN_PLAIN(tanh) RG_NN_PLAIN(sigmoid) RG_NN_PLAIN(logsigmoid) RG_NN_PLAIN(softsign)
        RG_NN_PLAIN(hardswish) RG_NN_PLAIN(hardsigmoid) rg_plain_module *rg_nn_dropout(double p);
rg_plain_module *rg_nn_leaky_relu(double negative_slope);
rg_plain_module *rg_nn_elu(double alpha);
rg_plain_module *rg_nn_celu(double alpha);
rg_plain_module *rg_nn_softplus(double beta, double threshold);
rg_plain_module *rg_nn_hardtanh(double min_val, double max_val);
rg_plain_module *rg_nn_softmax(int dim);
rg_plain_module *rg_nn_log_softmax(int dim);
rg_plain_module *rg_nn_flatten(int start_dim, int end_dim);

/* Losses: rg_call(loss, x, target); options as those of the functions in ops.h. */
typedef struct rg_loss_module {
    rg_module base;
    rg_tensor *weight, *pos_weight;
    rg_loss_options o;
    rg_tensor *(*f)(rg_tensor *x, rg_tensor *target, rg_loss_options o);
} rg_loss_module;
#define RG_NN_LOSS(f) rg_loss_module *rg_nn_##f##_with(rg_loss_options o);
RG_NN_LOSS(mse_loss)
RG_NN_LOSS(l1_loss)
RG_NN_LOSS(smooth_l1_loss)
RG_NN_LOSS(huber_loss) RG_NN_LOSS(nll_loss) RG_NN_LOSS(cross_entropy_loss) RG_NN_LOSS(bce_loss)
    RG_NN_LOSS(bce_with_logits_loss) RG_NN_LOSS(kl_div_loss)
#define rg_nn_mse_loss(...)           rg_nn_mse_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_l1_loss(...)            rg_nn_l1_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_smooth_l1_loss(...)     rg_nn_smooth_l1_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_huber_loss(...)         rg_nn_huber_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_nll_loss(...)           rg_nn_nll_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_cross_entropy_loss(...) rg_nn_cross_entropy_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_bce_loss(...)           rg_nn_bce_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_bce_with_logits_loss(...) \
    rg_nn_bce_with_logits_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_kl_div_loss(...) rg_nn_kl_div_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))

        RG_PUBLIC_END

#ifdef __cplusplus
    template <typename T>
    static inline T *rg_module_of(const rg_module_class *cls, T fields) {
    return (T *)rg_module_new(sizeof(T), cls, &fields);
}
#define RG_MODULE(type, cls, ...) rg_module_of<type>(cls, type{ __VA_ARGS__ })
#endif

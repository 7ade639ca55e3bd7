/*
 * optim.h: optimizers, gradient clipping, and schedules of the learning rate.
 *
 *     rg_optim *o = rg_optim_adamw(rg_named_parameters(model), .lr = 3e-4, .betas = { 0.9, 0.95 });
 *     rg_schedule *s = rg_optim_warmup_cosine_lr(o, 100, 2000, .eta_min = 3e-5);
 *     RG_FOR (int i = 0; i < 2000; i++) {
 *         rg_optim_zero_grad(o);
 *         rg_backward(loss(model));
 *         rg_clip_grad_norm_(rg_named_parameters(model), 1.0);
 *         rg_optim_step(o);
 *         rg_schedule_step(s);
 *     }
 *     rg_optim_free(o);
 *
 * Parameters come as rg_named_parameters(m) or as RG_LIST(a, b); the optimizer holds a
 * reference to each of its own, and owns its schedules.
 */
#ifndef RG_OPTIM_H
#define RG_OPTIM_H

#include "nn.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct rg_optim rg_optim;
typedef struct rg_schedule rg_schedule;
typedef struct rg_params { int n; rg_tensor *const *first; size_t stride; } rg_params;

/* ---- optimizers ---------------------------------------------------------------------
 * What stands in torch's param_groups. An option that isn't given is the optimizer's
 * default; one that it doesn't have is an error. Flags are 0 or 1. */
#define RG_UNSET __builtin_nan("0x7267")
typedef struct rg_param_group {
    double lr             RG_DEFAULT(RG_UNSET);
    double betas[2]       RG_DEFAULT({ RG_UNSET, RG_UNSET });
    double momentum       RG_DEFAULT(RG_UNSET);
    double dampening      RG_DEFAULT(RG_UNSET);
    double alpha          RG_DEFAULT(RG_UNSET);
    double lr_decay       RG_DEFAULT(RG_UNSET);
    double initial_accumulator_value RG_DEFAULT(RG_UNSET);
    double eps            RG_DEFAULT(RG_UNSET);
    double weight_decay   RG_DEFAULT(RG_UNSET);
    double nesterov       RG_DEFAULT(RG_UNSET);
    double amsgrad        RG_DEFAULT(RG_UNSET);
    double centered       RG_DEFAULT(RG_UNSET);
    double maximize       RG_DEFAULT(RG_UNSET);
    double initial_lr     RG_DEFAULT(RG_UNSET);         /* this and what follows: a schedule's */
    double max_lr         RG_DEFAULT(RG_UNSET);
    double min_lr         RG_DEFAULT(RG_UNSET);
    double max_momentum   RG_DEFAULT(RG_UNSET);
    double base_momentum  RG_DEFAULT(RG_UNSET);
} rg_param_group;
#define RG_PARAM_GROUP_(...) RG_KEYWORDS(rg_param_group, (.lr = RG_UNSET, .betas = { RG_UNSET, RG_UNSET },                 \
    .momentum = RG_UNSET, .dampening = RG_UNSET, .alpha = RG_UNSET, .lr_decay = RG_UNSET,                                   \
    .initial_accumulator_value = RG_UNSET, .eps = RG_UNSET, .weight_decay = RG_UNSET, .nesterov = RG_UNSET,                 \
    .amsgrad = RG_UNSET, .centered = RG_UNSET, .maximize = RG_UNSET, .initial_lr = RG_UNSET, .max_lr = RG_UNSET,            \
    .min_lr = RG_UNSET, .max_momentum = RG_UNSET, .base_momentum = RG_UNSET), __VA_ARGS__)

rg_optim *rg_optim_sgd_with(rg_params p, rg_param_group o);
rg_optim *rg_optim_adam_with(rg_params p, rg_param_group o);
rg_optim *rg_optim_adamw_with(rg_params p, rg_param_group o);
rg_optim *rg_optim_rmsprop_with(rg_params p, rg_param_group o);
rg_optim *rg_optim_adagrad_with(rg_params p, rg_param_group o);
rg_optim *rg_optim_lion_with(rg_params p, rg_param_group o);
/* lr 1e-3, momentum, dampening, weight_decay 0, nesterov, maximize false */
#define rg_optim_sgd(params, ...)     rg_optim_sgd_with(RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))
/* lr 1e-3, betas { 0.9, 0.999 }, eps 1e-8, weight_decay 0 (AdamW: 0.01), amsgrad, maximize false */
#define rg_optim_adam(params, ...)    rg_optim_adam_with(RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))
#define rg_optim_adamw(params, ...)   rg_optim_adamw_with(RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))
/* lr 0.01, alpha 0.99, eps 1e-8, weight_decay, momentum 0, centered, maximize false */
#define rg_optim_rmsprop(params, ...) rg_optim_rmsprop_with(RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))
/* lr 0.01, lr_decay, weight_decay, initial_accumulator_value 0, eps 1e-10, maximize false */
#define rg_optim_adagrad(params, ...) rg_optim_adagrad_with(RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))
/* lr 1e-4, betas { 0.9, 0.99 }, weight_decay 0, maximize false */
#define rg_optim_lion(params, ...)    rg_optim_lion_with(RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))

bool rg_optim_add_group_with(rg_optim *o, rg_params p, rg_param_group options);
#define rg_optim_add_group(o, params, ...) rg_optim_add_group_with(o, RG_PARAMS_(params), RG_PARAM_GROUP_(__VA_ARGS__))
rg_param_group *rg_optim_group(rg_optim *o, int i);     /* to read and change; NULL: no such group */
int  rg_optim_n_groups(rg_optim *o);                    /* -1 */
bool rg_optim_step(rg_optim *o);                        /* of parameters that have a gradient; a failed one changes nothing */
bool rg_optim_zero_grad(rg_optim *o);                   /* takes the gradients away */
void rg_optim_free(rg_optim *o);                        /* NULL: nothing */

/* "state.0.exp_avg" (the optimizer's own tensors), "param_groups.0.lr" and "schedules.0.last_epoch"
 * (numbers as 0-d tensors). Loading copies; keys that are missing or not known are an error. */
rg_named_list rg_optim_state_dict(rg_optim *o);         /* .n == -1 */
bool          rg_optim_load_state_dict(rg_optim *o, rg_named_list dict);

/* ---- gradients: torch.nn.utils --------------------------------------------------------- */
typedef struct rg_clip_options {
    double norm_type          RG_DEFAULT(2);            /* INFINITY, too */
    bool   error_if_nonfinite RG_DEFAULT(false);
} rg_clip_options;
rg_tensor *rg_clip_grad_norm_with_(rg_params p, double max_norm, rg_clip_options o);   /* the norm before */
bool       rg_clip_grads_(rg_params p, double clip_value);
#define    rg_clip_grad_norm_(params, max_norm, ...) \
    rg_clip_grad_norm_with_(RG_PARAMS_(params), max_norm, RG_KEYWORDS(rg_clip_options, (.norm_type = 2), __VA_ARGS__))
#define    rg_clip_grad_value_(params, clip_value) rg_clip_grads_(RG_PARAMS_(params), clip_value)

static inline rg_params rg_params_of_list(rg_list l) {
    rg_params p = { l.n, l.v, 1 };
    return p;
}
static inline rg_params rg_params_of_named(rg_named_list l) {
    rg_params p = { l.n, l.v ? &l.v->tensor : 0, sizeof *l.v / sizeof l.v->tensor };
    return p;
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
static inline rg_params rg_params_of(rg_list l) { return rg_params_of_list(l); }
static inline rg_params rg_params_of(rg_named_list l) { return rg_params_of_named(l); }
#define RG_PARAMS_(list) rg_params_of(list)
#else
#define RG_PARAMS_(list) _Generic((list), rg_list: rg_params_of_list, rg_named_list: rg_params_of_named)(list)
#endif
#endif

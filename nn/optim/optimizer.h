/*
 * optimizer.h: optimizers, which update parameters from their gradients.
 *
 * An optimizer holds a reference of its own to each parameter, and owns its schedules. Only one
 * thread at a time may use an optimizer and its schedules.
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_optim rg_optim;

/* ---- options ----------------------------------------------------------------------
 * The options are the entries of torch's param_groups. An option that isn't given has the
 * optimizer's default. Giving an option that the optimizer doesn't have is an error. Flags are 0 or
 * 1. An array must be given whole: a last number of 0 is an error, because in C a number that is
 * left out is 0. The last five options are set by schedules. (clang-format is off so that the list
 * keeps its lines.) */
/* clang-format off */
#define RG_OPTIONS_(X)                                                 \
    X(lr_decay) X(alpha) X(momentum) X(dampening) X(eps)               \
    X(weight_decay) X(initial_accumulator_value)                       \
    X(nesterov) X(amsgrad) X(centered) X(maximize)                     \
    X(decoupled_weight_decay) X(momentum_decay)                        \
    X(ns_steps) X(match_rms_adamw)                                     \
    X(max_iter) X(max_eval) X(tolerance_grad) X(tolerance_change)      \
    X(history_size) X(strong_wolfe) X(master_weights)                  \
    X(initial_lr) X(max_lr) X(min_lr) X(max_momentum) X(base_momentum)
#define RG_UNSET               (-0x1.7267p+1023)
#define RG_OPTION_(name)       double name RG_DEFAULT_NAMED_(name, RG_UNSET);
#define RG_OPTION_UNSET_(name) , .name = RG_UNSET
#define RG_NO_OPTIONS_ \
    .lr = RG_UNSET, .betas = { RG_UNSET, RG_UNSET },                   \
    .ns_coefficients = { RG_UNSET, RG_UNSET, RG_UNSET } RG_OPTIONS_(RG_OPTION_UNSET_)
/* clang-format on */
typedef struct RG_OPTIONS rg_param_group {
    RG_BY_NAME;
    double lr RG_DEFAULT(RG_UNSET);
    double betas[2] RG_DEFAULT({ RG_UNSET, RG_UNSET });
    double ns_coefficients[3] RG_DEFAULT({ RG_UNSET, RG_UNSET, RG_UNSET });
    RG_OPTIONS_(RG_OPTION_)
} rg_param_group;
#define RG_PARAM_GROUP_(...) RG_KEYWORDS(rg_param_group, (RG_NO_OPTIONS_), __VA_ARGS__)

/* ---- making: the comments list options and their defaults ---------------------- */
/* All optimizers except LBFGS have the option master_weights = false as well. If it is true, the
 * optimizer keeps a float32 copy of each parameter in 16 bits, the master. It updates the master,
 * with states in float32, as it would update a float32 parameter, and rounds the result into the
 * parameter. Without masters, as in torch, an update that is small beside the parameter is lost in
 * the parameter's rounding. The master is a part of the state: "state.0.master". If a parameter
 * isn't its rounded master before a step, since an op has written to it, the step begins with a new
 * master. */
typedef enum rg_optim_kind {
    RG_SGD,
    RG_ADAM,
    RG_ADAMW,
    RG_RMSPROP,
    RG_ADAGRAD,
    RG_LION,
    RG_NADAM,
    RG_RADAM,
    RG_MUON,
    RG_LBFGS
} rg_optim_kind;
/* Makes an optimizer of any kind. A program that calls this function links all kinds. A program
 * that calls only the functions below links only the kinds that it makes. */
rg_optim *rg_optim_with(rg_optim_kind kind, rg_list params, rg_param_group options);
rg_optim *rg_optim_sgd_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_adam_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_adamw_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_rmsprop_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_adagrad_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_lion_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_nadam_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_radam_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_muon_with(rg_list params, rg_param_group options);
rg_optim *rg_optim_lbfgs_with(rg_list params, rg_param_group options);
#define RG_OPTIM_(name, params, ...) rg_optim_##name##_with(params, RG_PARAM_GROUP_(__VA_ARGS__))
/* Options and defaults: lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false,
 * maximize = false. */
#define rg_optim_sgd(params, ...) RG_OPTIM_(sgd, params, __VA_ARGS__)
/* Options and defaults: lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 (in AdamW
 * 0.01), amsgrad = false, maximize = false, decoupled_weight_decay = false (in AdamW true). */
#define rg_optim_adam(params, ...)  RG_OPTIM_(adam, params, __VA_ARGS__)
#define rg_optim_adamw(params, ...) RG_OPTIM_(adamw, params, __VA_ARGS__)
/* Options and defaults: lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0,
 * centered = false, maximize = false. */
#define rg_optim_rmsprop(params, ...) RG_OPTIM_(rmsprop, params, __VA_ARGS__)
/* Options and defaults: lr = 0.01, eps = 1e-10, lr_decay = 0, weight_decay = 0,
 * initial_accumulator_value = 0, maximize = false. As in torch, initial_accumulator_value has no
 * effect in rg_optim_add_group: all groups use the value that the optimizer was made with. */
#define rg_optim_adagrad(params, ...) RG_OPTIM_(adagrad, params, __VA_ARGS__)
/* Options and defaults: lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0, maximize = false. */
#define rg_optim_lion(params, ...) RG_OPTIM_(lion, params, __VA_ARGS__)
/* Options and defaults: lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, momentum_decay = 4e-3,
 * weight_decay = 0, decoupled_weight_decay = false, maximize = false. */
#define rg_optim_nadam(params, ...) RG_OPTIM_(nadam, params, __VA_ARGS__)
/* Options and defaults: lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0,
 * decoupled_weight_decay = false, maximize = false. */
#define rg_optim_radam(params, ...) RG_OPTIM_(radam, params, __VA_ARGS__)
/* Muon accepts only matrices as parameters. Options and defaults: lr = 1e-3, weight_decay = 0.1,
 * momentum = 0.95, nesterov = true, eps = 1e-7, ns_coefficients = { 3.4445, -4.775, 2.0315 },
 * ns_steps = 5, match_rms_adamw = false. match_rms_adamw = true means torch's
 * adjust_lr_fn="match_rms_adamw". As in torch, Muon rounds the matrices of its matrix products to
 * bfloat16. */
#define rg_optim_muon(params, ...) RG_OPTIM_(muon, params, __VA_ARGS__)
/* LBFGS has only one group, and its step needs a closure: use rg_optim_step_closure. Options and
 * defaults: lr = 1, max_iter = 20, max_eval = 5/4 of max_iter, tolerance_grad = 1e-7,
 * tolerance_change = 1e-9, history_size = 100, strong_wolfe = false. strong_wolfe = true means
 * torch's line_search_fn="strong_wolfe". */
#define rg_optim_lbfgs(params, ...) RG_OPTIM_(lbfgs, params, __VA_ARGS__)

/* Adds a group: parameters with options of their own. An option that isn't given has the value with
 * which the first group was made. Returns false on failure; then no group is added. */
bool rg_optim_add_group_with(rg_optim *o, rg_list params, rg_param_group options);
#define rg_optim_add_group(o, params, ...) \
    rg_optim_add_group_with(o, params, RG_PARAM_GROUP_(__VA_ARGS__))
/* Frees the optimizer and its schedules. A recording of a step can still be replayed. Ignores NULL.
 * A later call with the optimizer fails with RG_RELEASED, as long as its memory hasn't been
 * reused. */
void rg_optim_free(rg_optim *o);

/* ---- steps, groups and the state ----------------------------------------------- */

/* Updates each parameter that has a gradient. Returns false on failure; then no parameter has
 * changed. Warns if a gradient still contains a gradient that an earlier step used, because the
 * program ran backward again without clearing the gradients. Also warns if no parameter has a
 * gradient, and none had one in an earlier step. Also warns of a module's parameter to which only
 * the optimizer refers and which gets no new gradient, if it is in the last group and a value of a
 * module was replaced after this group was added, or if all parameters are like that, because their
 * module was freed. Also warns if a parameter has no gradient, and the program has assigned a
 * tensor that isn't a parameter to its module's field. */
bool rg_optim_step(rg_optim *o);
/* Makes a step as torch's step(closure) does. Calls the closure, which must clear the gradients,
 * compute the loss, run backward, and return the loss; then updates the parameters. LBFGS calls the
 * closure several times. Returns the loss that the first call returned. Returns NULL on failure;
 * then the step has changed no parameter, and LBFGS's state is as before. The closure must not be
 * left by longjmp (see rg_error_handler). */
typedef rg_tensor *rg_closure(void *context);
rg_tensor *rg_optim_step_closure(rg_optim *o, rg_closure *closure, void *context);
/* Sets the gradients of all parameters to RG_NONE. Returns false if o isn't an optimizer. */
bool rg_optim_zero_grad(rg_optim *o);
/* Returns the options of group i, which the program can change. Fails, and returns NULL, if there
 * is no such group. */
rg_param_group *rg_optim_group(rg_optim *o, int i);
/* Returns the number of groups, or -1 on failure. */
int rg_optim_n_groups(rg_optim *o);
/* Lists the parameters of group i. On failure .n is -1. In a state_dict, "state.0", "state.1" and
 * so on are the states of the parameters in this order, counted through all groups. */
rg_list rg_optim_parameters(rg_optim *o, int i);

/* Lists the optimizer's state: tensors, such as "state.0.exp_avg", and numbers as tensors without
 * dims, such as "param_groups.0.lr". The state of its schedules is included:
 * "schedules.0.last_epoch". The tensors are the optimizer's own, which later steps change, and the
 * numbers are copies: to keep a state in memory, clone the tensors (rg_clone). All of LBFGS's state
 * is copies. On failure .n is -1. */
rg_named_list rg_optim_state_dict(rg_optim *o);
/* Copies all values of the list into the optimizer. Fails, and changes nothing, if a key is missing
 * or unknown, or a value has the wrong size. But the whole state of a parameter can be missing, as
 * it is before the parameter's first step (in SGD, Lion and Muon that state is a single key), and a
 * master can, as in torch's lists: the next step then makes it of the parameter. Without
 * decoupled_weight_decay, which older lists of torch lack, the option gets its default. The list
 * also sets the option master_weights, if it has it. It can be torch's:
 * rg_named_below(rg_torch_load("checkpoint.pt"), "optimizer"). */
bool rg_optim_load_state_dict(rg_optim *o, rg_named_list dict);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_optim_group(o, i)      rg_optim_group(o, RG_INT(i))
#define rg_optim_parameters(o, i) rg_optim_parameters(o, RG_INT(i))

RG_PUBLIC_END

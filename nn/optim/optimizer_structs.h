/*
 * optimizer_structs.h: the structs of optimizers and schedules. Private. The functions for programs
 * are in optimizer.h and schedule.h.
 */
#pragma once

#include "lbfgs.h"
#include "optimizer.h"
#include "saved.h"
#include "schedule.h"
#include "tensor/handle.h"
#include "tensor/map.h"
#include "tensor/kernels/optim.h"

/* ---- options as an array of numbers -------------------------------------------- */

#define RG_OPTION_ENUM_(name) RG_OPTION_##name,
enum {
    RG_OPTION_lr,
    RG_OPTION_beta1,
    RG_OPTION_beta2,
    RG_OPTION_ns_a,
    RG_OPTION_ns_b,
    RG_OPTION_ns_c,
    RG_OPTIONS_(RG_OPTION_ENUM_) RG_OPTION_COUNT,
    /* Options from this one on belong to schedules, not to the optimizer. */
    RG_OPTION_FIRST_OF_SCHEDULES = RG_OPTION_initial_lr
};

/* Describes how each option is saved: where its field is in rg_param_group, and under which name a
 * state_dict has it, such as "lr", "betas.0" or "betas.1". */
extern const rg_saved rgi_options[RG_OPTION_COUNT];

typedef struct rg_group {
    union {
        rg_param_group options;
        double option[RG_OPTION_COUNT];
    };
    /* The number of the group's parameters. A double, as the options are, because regard's own
     * files save it in the same way. */
    double n_params;
} rg_group;
_Static_assert(sizeof(rg_param_group) == RG_OPTION_COUNT * sizeof(double),
               "one number for each option");

/* Muon's option ns_steps is checked when a group is made, and in each step. */
enum { RG_MUON_STEPS_MAX = 100 };
#define RG_TOO_MANY_MUON_STEPS "Number of steps must be less than 100 for computational efficiency"

/* Returns whether an option has a value. RG_UNSET means that it has none. */
static inline bool rgi_option_set(double option) { return option != RG_UNSET; }

/* ---- the row of an optimizer ---------------------------------------------------- */

enum { RG_OPTIM_STATES = 3, RG_ALWAYS = -1 };

/* A parameter of an optimizer, with its state. */
typedef struct rg_optim_slot {
    /* The parameter and its state tensors. State tensors that the parameter doesn't have are
     * NULL. */
    rg_tensor *param, *state[RG_OPTIM_STATES];
    /* The float32 copy of a parameter of 16 bits, if the option master_weights is set; otherwise
     * NULL. The other two are the parameter's storage and its version after a step rounded the
     * master into it. */
    rg_tensor *master;
    const void *rounded_in;
    uint32_t rounded;
    /* The number of steps that were made with this parameter, and NAdam's product. SGD counts only
     * steps with momentum, and some other optimizers none. If saves_step of the optimizer's row is
     * false, the number isn't saved, and is 0 or 1 after loading. */
    k_optimizer_count count;
    /* The dtype that the numbers of `count` have in torch: float64 if that was the default dtype
     * when they were made, otherwise float32. */
    rg_dtype count_dtype;
    size_t group; /* The index of the parameter's group. */
    /* The rank that owns the parameter's state, or -1 if none was chosen (see
     * nn/parallel/sharded_optim.c). */
    int64_t owner;
    /* The tensors on which the current step works: the parameter, its gradient, the states that the
     * options require, and what the row's function `update` returned. The master takes the place of
     * the parameter, and a float32 copy that of its gradient. n_operands is 0 if the parameter has
     * no gradient. */
    rg_tensor *operand[RG_OPTIM_STATES + 3];
    int n_operands;
    /* Set once a step has found no gradient for the parameter and has looked for its field. */
    bool looked_for;
} rg_optim_slot;

typedef struct rg_optim_row {
    rg_optim_kind kind;
    const char *name;
    const k_optimizer *kernel;
    /* The loops that count the steps. NULL if the count is neither saved nor changes a number. */
    const k_steps *steps;
    /* The default options. Options that the optimizer doesn't have are unset. */
    rg_param_group defaults;
    /* The state tensors of a parameter. If `needs` is an option, such as RG_OPTION_momentum, the
     * state exists only if that option isn't 0. RG_ALWAYS means that the state always exists. */
    struct {
        const char *name;
        int needs;
    } states[RG_OPTIM_STATES];
    bool saves_step;       /* Set if state_dict includes the number of steps, as in torch. */
    bool has_first_states; /* Set if state_dict has states before the first step, as in torch. */
    bool has_product;      /* Set if the optimizer has a product of momenta, as NAdam. */
    /* Computes a parameter's update before the kernel runs; it must not change the operands that
     * are there already. The update becomes the kernel's last operand. The scope owns it. Returns
     * NULL on failure. The field is NULL if there is no such update. */
    rg_tensor *(*update)(const rg_param_group *g, const rg_optim_slot *slot,
                         const k_optimizer_numbers *z);
    /* Makes the whole step, in which it calls the closure. Returns the loss that the first call of
     * the closure returned, or NULL on failure. The field is NULL if the kernel makes the step. A
     * row with this function has neither a kernel nor state tensors. */
    rg_tensor *(*step_by_closure)(rg_optim *o, rg_closure *closure, void *context);
    /* Sets the fields of *z that only this optimizer's loops read, and may change the common ones,
     * which are set before the call. Leaves out the numbers that depend on the count of steps. */
    void (*numbers)(k_optimizer_numbers *z, const rg_param_group *g, const rg_optim_slot *slot);
} rg_optim_row;
/* Makes an optimizer of the class that `row` describes (optimizers.c has the rows). Returns NULL on
 * failure. */
rg_optim *rgi_optim_make(const rg_optim_row *row, rg_list params, rg_param_group options);

/* ---- the struct of an optimizer ------------------------------------------------ */

/* Says which parameters' states an optimizer has on this rank (see nn/parallel/sharded_optim.h). */
typedef enum {
    RG_STATE_OF_ALL,   /* The states of all parameters, as in a program of one process. */
    RG_STATE_OF_OWNED, /* The states of the rank's own parameters. Others are absent or old. */
    RG_STATE_GATHERED  /* The states of all parameters, with copies of those of other ranks. The
                        * copies are right until the next step. */
} rg_optim_share;

struct rg_optim {
    rg_handle handle;
    const rg_optim_row *row;
    rg_group defaults, *groups;
    rg_optim_slot *slots;
    size_t n_groups, groups_room, n_slots, slots_room;
    rg_map places; /* Maps the addresses of parameters to indices in `slots`. */
    rg_schedule *schedules;
    rg_lbfgs lbfgs; /* LBFGS's state. Empty in other optimizers. */
    /* The number of owners: the program, each step of LBFGS in progress, and each recording of a
     * step. The closure of LBFGS's step could free the optimizer. A recording can repeat its step
     * after the program has freed the optimizer. */
    int holders;
    /* The numbers of a step: those that depend on the count of steps, and those that don't. */
    k_optimizer_numbers counted_numbers, numbers;
    bool has_stepped; /* Set once a step has found a gradient. */
    rg_optim_share share;
    /* rgi_replacements when the last group was added, and whether a step has warned of a lost
     * parameter. */
    unsigned replacements;
    bool warned_of_lost;
};
/* Iterates over all slots: for (RG_EACH_SLOT(slot, o)). */
#define RG_EACH_SLOT(slot, o)         \
    rg_optim_slot *slot = (o)->slots; \
    slot < (o)->slots + (o)->n_slots; \
    slot++
/* Makes the state tensors that are missing. In a row with has_first_states, each parameter gets all
 * its state tensors. In other rows, a parameter that has no first state tensor gets none. A
 * parameter that has one can still lack others, if the options that need them were set after its
 * last step. Returns false on failure. */
bool rgi_optim_complete_states(rg_optim *o);
/* Returns the k-th state tensor of the parameter (masters.c). If there is none yet, or it hasn't
 * the dtype in which the step works, makes it. Returns NULL on failure. */
rg_tensor *rgi_optim_state(const rg_optim *o, rg_optim_slot *slot, int k);
/* For a parameter of 16 bits whose operands are the parameter and its gradient: replaces them by
 * the master and a float32 copy of the gradient if the option master_weights is set; otherwise
 * drops the master. Returns false on failure. */
bool rgi_gather_master(const rg_optim *o, rg_optim_slot *slot);
/* Writes the rounded master over the parameter. */
void rgi_round_master(rg_optim_slot *slot);
/* The function `update` of Muon's row: returns the nearly orthogonal update of a matrix, or NULL on
 * failure. The operands of the slot are the parameter, its gradient and the momentum buffer. */
rg_tensor *rgi_muon_update(const rg_param_group *g, const rg_optim_slot *slot,
                           const k_optimizer_numbers *z);
/* Warns that gradients still contain the gradients that the last step used (see rgi_use_gradient in
 * tensor/storage.h). */
void rgi_warn_of_gradients(void) __attribute__((cold));
/* Removes an owner. Frees the optimizer if that was the last one. */
void rgi_optim_let_go(rg_optim *o);

/* ---- the struct of a schedule, and the table of schedules ---------------------- */

/* The indices of the numbers in rg_schedule.state. An optimizer's state_dict saves all but the last
 * two, which follow from the schedule's options. */
enum {
    RG_LAST_EPOCH,
    RG_BEST,
    RG_NUM_BAD_EPOCHS,
    RG_COOLDOWN_COUNTER,
    RG_SCHEDULE_STATES_OF_ALL,
    /* The position in the present cycle, and the length of this cycle. Used by
     * CosineAnnealingWarmRestarts. */
    RG_T_CUR = RG_SCHEDULE_STATES_OF_ALL,
    RG_T_I,
    /* The length of a cycle, and the fraction of it in which the rate rises. Used by CyclicLR. */
    RG_TOTAL_SIZE,
    RG_STEP_RATIO,
    RG_SCHEDULE_STATES
};

struct rg_schedule {
    rg_handle handle;
    rg_schedule *next;
    rg_optim *optim;
    rg_schedule_kind kind;
    rg_schedule_options o;
    double state[RG_SCHEDULE_STATES];
};

/* Returns the learning rate of the group at epoch t. */
typedef double rg_schedule_rate(const rg_schedule *s, rg_param_group *g, double t);
typedef struct rg_schedule_row {
    const char *name;
    /* Computes the rate at t from g->lr, the rate at t - 1, as torch's get_lr does. */
    rg_schedule_rate *next;
    /* Computes the rate at t from rgi_base_lr (below). NULL if there is no closed form. */
    rg_schedule_rate *closed;
} rg_schedule_row;
extern const rg_schedule_row rgi_schedule_rows[RG_CHAINED_SCHEDULER + 1];
/* Sets the group's learning rate to its value at epoch t, which `rate` computes. Fails and returns
 * false if the value is NaN, or if `rate` calls a function of the program, such as lr_lambda, that
 * fails. */
bool rgi_set_rate(const rg_schedule *s, rg_param_group *g, double t, rg_schedule_rate *rate);
/* Returns whether a schedule of this kind calls functions of the program to compute the rate. */
static inline bool rgi_is_by_lambda(rg_schedule_kind kind) {
    return kind == RG_LAMBDA_LR || kind == RG_MULTIPLICATIVE_LR;
}
/* Fails, as Python does, and returns false if the program gave an option that schedules of this
 * kind don't have. */
bool rgi_schedule_has_options(rg_schedule_kind kind, const rg_schedule_options *q);
/* Fails with torch's error and returns false unless the options suit a schedule of this kind. */
bool rgi_schedule_check(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q);
/* Writes the schedule's state_dict in torch's form as the value of the key; if the key is NULL,
 * writes it as the whole value. */
void rgi_schedule_value(rg_py *p, const char *key, rg_schedule *s);
/* Returns the number of schedules that this schedule steps. It is 0 unless the schedule is a
 * SequentialLR or ChainedScheduler. */
int rgi_schedules_below(const rg_schedule *s);
/* Returns the value for the group with this index: its element of the list or, if the list is
 * empty, `one`, the value for all groups. */
static inline double rgi_of_group(const rg_by_group *list, double one, size_t group) {
    return list->n ? list->v[group] : one;
}
/* Returns the index of the group among the optimizer's groups. */
static inline size_t rgi_group_place(const rg_schedule *s, const rg_param_group *g) {
    return (size_t)((const rg_group *)(const void *)g - s->optim->groups);
}
/* Returns the learning rate from which the schedule computes the rates of the group with this
 * index: torch's base_lrs. This rate is the group's initial_lr. But if a OneCycleLR that was made
 * after this schedule has changed initial_lr, the rate is the old initial_lr, which was stored in
 * .base_lrs. Must not be called for a CyclicLR, for which the program gives .base_lrs or
 * .base_lr. */
static inline double rgi_base_lr(const rg_schedule *s, size_t group) {
    return group < (size_t)s->o.base_lrs.n ? s->o.base_lrs.v[group]
                                           : s->optim->groups[group].options.initial_lr;
}
/* Fails as torch does and returns false unless each list of q that has values for groups has one
 * value for each group. */
bool rgi_lists_fit(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q);
/* Returns how many of the milestones are equal to t. */
int rgi_milestones_at(const rg_schedule *s, double t);
/* Returns how many of the milestones are at most t. */
int rgi_milestones_until(const rg_schedule *s, double t);

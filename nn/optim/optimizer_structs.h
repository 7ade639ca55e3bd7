/*
 * optimizer_structs.h: the structs of optimizers and schedules. Private; optimizer.h and schedule.h
 * have the functions for programs.
 */
#pragma once

#include "lbfgs.h"
#include "optimizer.h"
#include "saved.h"
#include "schedule.h"
#include "tensor/handle.h"
#include "tensor/map.h"
#include "tensor/kernels/optim.h"

/* ---- options by number --------------------------------------------------------- */

#define RG_OPTION_ENUM_(name) RG_OPTION_##name,
enum {
    RG_OPTION_lr,
    RG_OPTION_beta1,
    RG_OPTION_beta2,
    RG_OPTION_ns_a,
    RG_OPTION_ns_b,
    RG_OPTION_ns_c,
    RG_OPTIONS_(RG_OPTION_ENUM_) RG_OPTION_COUNT,
    /* The following options belong to schedules, not to the optimizer. */
    RG_OPTION_FIRST_OF_SCHEDULES = RG_OPTION_initial_lr
};

/* A row for each option: its field of rg_param_group, and its name in a state_dict: "lr",
 * "betas.0", "betas.1" and so on. */
extern const rg_saved rgi_options[RG_OPTION_COUNT];

typedef struct rg_group {
    union {
        rg_param_group options;
        double option[RG_OPTION_COUNT];
    };
    double n_params; /* The number of parameters, as state_dict saves it. */
} rg_group;
_Static_assert(sizeof(rg_param_group) == RG_OPTION_COUNT * sizeof(double),
               "one number for each option");

/* Returns whether an option was given. RG_UNSET is the value of options that weren't. */
static inline bool rgi_option_set(double option) { return option != RG_UNSET; }

/* ---- an optimizer's row -------------------------------------------------------- */

enum { RG_OPTIM_STATES = 3, RG_ALWAYS = -1 };

/* A slot: a parameter and its state. */
typedef struct rg_optim_slot {
    rg_tensor *param, *state[RG_OPTIM_STATES]; /* Unused states are NULL. */
    double step;                               /* The parameter's number of steps. */
    double product;                            /* The product of the row's factors. */
    size_t group;                              /* The index of the parameter's group. */
    /* The tensors of the current step: parameter, gradient, the states that it uses, and the
     * row's update. Empty if the parameter has no gradient. */
    rg_tensor *operand[RG_OPTIM_STATES + 3];
    int n_operands;
    k_optimizer_loop *loop;
} rg_optim_slot;

typedef struct rg_optim_row {
    const char *name;
    k_optimizer kernel;
    rg_param_group defaults; /* The optimizer's options are set, others unset. */
    /* The states of a parameter. A state with an option, such as RG_OPTION_momentum, exists only if
     * the option isn't 0; RG_ALWAYS stands for no option. */
    struct {
        const char *name;
        int needs;
    } states[RG_OPTIM_STATES];
    bool saves_step; /* state_dict includes the step count, as in torch. */
    /* If not NULL, returns a step's factor of `product`: NAdam keeps the product of its momenta. */
    double (*factor)(const rg_param_group *g, double step);
    /* If not NULL, returns a parameter's update, which the scope owns, or NULL on failure. The
     * update is the kernel's last operand. The function changes no other operand. */
    rg_tensor *(*update)(const rg_param_group *g, const rg_optim_slot *slot,
                         const k_optimizer_numbers *z);
    /* If not NULL, makes the whole step, in which it calls the closure. Returns the first loss, or
     * NULL on failure. The row then has neither a kernel nor states. */
    rg_tensor *(*step_by_closure)(rg_optim *o, rg_closure *closure, void *context);
    /* Sets the numbers that this optimizer's kernel reads in addition to the common ones. */
    void (*numbers)(k_optimizer_numbers *z, const rg_param_group *g, const rg_optim_slot *slot);
} rg_optim_row;
extern const rg_optim_row rgi_optim_rows[RG_LBFGS + 1];

/* ---- an optimizer -------------------------------------------------------------- */

struct rg_optim {
    rg_handle handle;
    const rg_optim_row *row;
    rg_group defaults, *groups;
    rg_optim_slot *slots;
    size_t n_groups, groups_room, n_slots, slots_room;
    rg_map places; /* Maps parameters' addresses to slots' indices. */
    rg_schedule *schedules;
    rg_lbfgs lbfgs; /* Empty in other optimizers. */
    /* The number of owners: the program, and each recording of a step, which may repeat the step
     * after the program has freed the optimizer. */
    int holders;
};
/* Iterates over all slots: for (RG_EACH_SLOT(slot, o)). */
#define RG_EACH_SLOT(slot, o)         \
    rg_optim_slot *slot = (o)->slots; \
    slot < (o)->slots + (o)->n_slots; \
    slot++
/* Returns the orthogonal update of Muon's step: the row's `update`. The slot's operands are
 * parameter, gradient and buffer. */
rg_tensor *rgi_muon_update(const rg_param_group *g, const rg_optim_slot *slot,
                           const k_optimizer_numbers *z);
/* Removes an owner, and frees the optimizer after the last one. */
void rgi_optim_let_go(rg_optim *o);

/* ---- a schedule ---------------------------------------------------------------- */

/* A schedule's state, which state_dict saves. */
enum {
    RG_LAST_EPOCH,
    RG_BEST,
    RG_NUM_BAD_EPOCHS,
    RG_COOLDOWN_COUNTER,
    RG_SCHEDULE_STATES_OF_ALL,
    /* CosineAnnealingWarmRestarts: the position in the cycle, and the cycle's length. */
    RG_T_CUR = RG_SCHEDULE_STATES_OF_ALL,
    RG_T_I,
    /* CyclicLR: the cycle's length, and its rising fraction. */
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

/* Returns a group's learning rate at epoch t. */
typedef double rg_schedule_rate(const rg_schedule *s, rg_param_group *g, double t);
typedef struct rg_schedule_row {
    const char *name;
    rg_schedule_rate *next;   /* Computes the rate from the previous one, as torch does. */
    rg_schedule_rate *closed; /* Computes the rate from the first one; may be NULL. */
} rg_schedule_row;
extern const rg_schedule_row rgi_schedule_rows[RG_CHAINED_SCHEDULER + 1];
/* Returns whether functions of the program compute the rate. */
static inline bool rgi_is_by_lambda(rg_schedule_kind kind) {
    return kind == RG_LAMBDA_LR || kind == RG_MULTIPLICATIVE_LR;
}
/* Fails with torch's error if the options don't suit a schedule of this kind. */
bool rgi_schedule_check(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q);
/* Writes the schedule's state_dict as torch does: as the value of the key, or alone if the key is
 * NULL. */
void rgi_schedule_value(rg_py *p, const char *key, rg_schedule *s);
/* Returns the number of schedules that this one steps: SequentialLR's and ChainedScheduler's. */
int rgi_schedules_below(const rg_schedule *s);
/* Returns the group's item of the list, or `one` if the list is empty. */
static inline double rgi_of_group(const rg_by_group *list, double one, size_t group) {
    return list->n ? list->v[group] : one;
}
/* Returns the group's index. */
static inline size_t rgi_group_place(const rg_schedule *s, const rg_param_group *g) {
    return (size_t)((const rg_group *)(const void *)g - s->optim->groups);
}
/* Returns whether each list of values per group has one item per group; fails as torch does. */
bool rgi_lists_fit(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q);
/* Returns how often the milestones contain t. */
int rgi_milestones_at(const rg_schedule *s, double t);
/* Returns the number of milestones that are at most t. */
int rgi_milestones_until(const rg_schedule *s, double t);

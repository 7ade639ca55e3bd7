/*
 * optimizer_structs.h: the structs of optimizers and schedules. Private; optimizer.h and schedule.h
 * have the functions that programs call.
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
    /* The options from here on are not an optimizer's, but are set by schedules. */
    RG_OPTION_FIRST_OF_SCHEDULES = RG_OPTION_initial_lr
};

/* The options as fields of an rg_param_group, with the names that a state_dict has for them: "lr",
 * "betas.0", "betas.1" and so on. */
extern const rg_saved rgi_options[RG_OPTION_COUNT];

typedef struct rg_group {
    union {
        rg_param_group options;
        double option[RG_OPTION_COUNT];
    };
    double n_params; /* state_dict saves it as a number. */
} rg_group;
_Static_assert(sizeof(rg_param_group) == RG_OPTION_COUNT * sizeof(double),
               "one number for each option");

/* Returns whether an option was given. RG_UNSET is a number that no option is given. */
static inline bool rgi_option_set(double option) { return option != RG_UNSET; }

/* ---- an optimizer's row -------------------------------------------------------- */

enum { RG_OPTIM_STATES = 3, RG_ALWAYS = -1 };

/* A slot is a parameter with its state. */
typedef struct rg_optim_slot {
    rg_tensor *param, *state[RG_OPTIM_STATES]; /* A state is NULL until a step needs it. */
    double step;                               /* The parameter's number of steps. */
    double product;                            /* The product of the row's factors. */
    size_t group;                              /* The parameter is in this group. */
    /* The current step works on these: parameter, gradient, and the states that take part. There
     * are none where there is no gradient. */
    rg_tensor *operand[RG_MAX_OPERANDS];
    int n_operands;
    k_optimizer_loop *loop;
} rg_optim_slot;

typedef struct rg_optim_row {
    const char *name;
    k_optimizer kernel;
    rg_param_group defaults; /* The options that the optimizer has are set. */
    /* These tensors are kept for each parameter. A state that needs an option, such as
     * RG_OPTION_momentum, is kept only where that option isn't 0; RG_ALWAYS needs none. */
    struct {
        const char *name;
        int needs;
    } states[RG_OPTIM_STATES];
    bool saves_step; /* state_dict has the number of steps, as torch's has. */
    /* Where it isn't NULL, the product of NAdam's momenta until now is part of the state: it
     * returns the factor of a parameter's step. */
    double (*factor)(const rg_param_group *g, double step);
    /* Where it isn't NULL, it returns the update of a parameter, which the scope owns, or NULL on
     * failure. It is the kernel's last operand; the others it doesn't change. */
    rg_tensor *(*update)(const rg_param_group *g, const rg_optim_slot *slot,
                         const k_optimizer_numbers *z);
    /* Where it isn't NULL, it is all of a step, which calls the closure itself. It returns the
     * first loss, or NULL on failure. The row then has neither a kernel nor states. */
    rg_tensor *(*step_by_closure)(rg_optim *o, rg_closure *closure, void *context);
    /* Fills in what the optimizer's kernel reads beside the numbers of all optimizers. */
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
    rg_map places; /* The slots' numbers by the addresses of their parameters. */
    rg_schedule *schedules;
    rg_lbfgs lbfgs; /* Empty in all others. */
    /* The program is one; each recording that has a step of it is another, which may still step it
     * once the program has released it. */
    int holders;
};
/* Walks over all slots: for (RG_EACH_SLOT(slot, o)). */
#define RG_EACH_SLOT(slot, o)         \
    rg_optim_slot *slot = (o)->slots; \
    slot < (o)->slots + (o)->n_slots; \
    slot++
/* Returns the orthogonal update of Muon's step: the row's `update`. The slot's operands are
 * parameter, gradient and buffer. */
rg_tensor *rgi_muon_update(const rg_param_group *g, const rg_optim_slot *slot,
                           const k_optimizer_numbers *z);
/* Takes a holder away, and frees the optimizer if that was the last one. */
void rgi_optim_let_go(rg_optim *o);

/* ---- names in a state_dict ----------------------------------------------------- */

/* Returns the place that a name stands for in a list, such as 2 for "base_lrs.2", or -1 where the
 * name isn't one of the list's. */
int64_t rgi_place_in_list(const char *name, const char *list);

/* ---- a schedule ---------------------------------------------------------------- */

/* These numbers are a schedule's state, which state_dict saves. */
enum {
    RG_LAST_EPOCH,
    RG_BEST,
    RG_NUM_BAD_EPOCHS,
    RG_COOLDOWN_COUNTER,
    RG_SCHEDULE_STATES_OF_ALL,
    /* CosineAnnealingWarmRestarts: the place in the cycle, and the cycle's length. */
    RG_T_CUR = RG_SCHEDULE_STATES_OF_ALL,
    RG_T_I,
    /* CyclicLR: the cycle's length, and the share of it in which the rate goes up. */
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
    rg_schedule_rate *next;   /* This one starts from the rate before t, as torch does. */
    rg_schedule_rate *closed; /* This one starts from the first rate, and may be NULL. */
} rg_schedule_row;
extern const rg_schedule_row rgi_schedule_rows[RG_CHAINED_SCHEDULER + 1];
/* Returns whether the program's functions compute the rate. */
static inline bool rgi_is_by_lambda(rg_schedule_kind kind) {
    return kind == RG_LAMBDA_LR || kind == RG_MULTIPLICATIVE_LR;
}
/* Fails with torch's complaints where a schedule of this kind can't have the options. */
bool rgi_schedule_check(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q);
/* Adds the schedule's state_dict as torch has it, behind the key, if that isn't NULL. */
void rgi_schedule_value(rg_py *p, const char *key, rg_schedule *s);
/* Returns how many schedules the schedule steps: SequentialLR's and ChainedScheduler's. */
int rgi_schedules_below(const rg_schedule *s);
/* Returns the group's value: an item of the list, or, where that is empty, `one`. */
static inline double rgi_of_group(const rg_by_group *list, double one, size_t group) {
    return list->n ? list->v[group] : one;
}
/* Returns the group's place among the optimizer's. */
static inline size_t rgi_group_place(const rg_schedule *s, const rg_param_group *g) {
    return (size_t)((const rg_group *)(const void *)g - s->optim->groups);
}
/* Returns whether each list that has a value for each group has as many as there are groups, or
 * fails with torch's sentence. */
bool rgi_lists_fit(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q);
/* Counts the milestones at t. */
int rgi_milestones_at(const rg_schedule *s, double t);
/* Counts the milestones at t and before. */
int rgi_milestones_until(const rg_schedule *s, double t);

/* internal.h: what optimizer.c and schedule.c share. */
#ifndef RG_OPTIM_INTERNAL_H
#define RG_OPTIM_INTERNAL_H

#include "nn/optim.h"
#include "tensor/internal.h"

/* rg_param_group as an array. */
enum { LR, BETA1, BETA2, MOMENTUM, DAMPENING, ALPHA, LR_DECAY, INITIAL_SUM, EPS, WEIGHT_DECAY, NESTEROV, AMSGRAD, CENTERED,
       MAXIMIZE, INITIAL_LR, MAX_LR, MIN_LR, MAX_MOMENTUM, BASE_MOMENTUM, OPTIM_OPTIONS };
_Static_assert(sizeof(rg_param_group) == OPTIM_OPTIONS * sizeof(double), "one number for each");

enum { SCHEDULE_NUMBERS = 4 };
static inline bool rg_is_set(double v) { return memcmp(&v, &(double){ RG_UNSET }, sizeof v); }
int     rg_optim_momentum(const rg_optim *o);           /* the option that one-cycle turns; 0: none */
double *rg_schedule_numbers(rg_schedule *s, const char **names[]);
#endif

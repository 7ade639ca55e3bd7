/*
 * lbfgs.h: the state that LBFGS keeps between two steps. Private.
 */
#pragma once

#include "saved.h"

/* The data of an earlier iteration that LBFGS remembers. (A step makes several iterations.) dir is
 * the change of the gradient, torch's old_dirs, and stp the change of the parameters, torch's
 * old_stps. ro is 1 divided by the dot product of dir and stp. al is a number of the two-loop
 * recursion; each iteration computes it anew. */
typedef struct rg_lbfgs_pair {
    rg_tensor *dir, *stp;
    double ro, al;
} rg_lbfgs_pair;

typedef struct rg_lbfgs {
    double func_evals, n_iter;
    /* The step size of the last iteration, the scale of that iteration's initial inverse Hessian,
     * and the loss before that iteration. The three have a value only if d isn't NULL. */
    double t, h_diag, prev_loss;
    /* The direction of the last iteration, and the gradient before that iteration. Both are NULL
     * before the first iteration. */
    rg_tensor *d, *prev_flat_grad;
    rg_lbfgs_pair *pairs; /* The remembered iterations, from the oldest to the newest. */
    size_t n, room;
    size_t n_al; /* The number of pairs, from the oldest on, that have a value of al. */
} rg_lbfgs;

/* Makes `to` a copy of `from`. Both hold references to the same tensors. Returns false if memory
 * runs out; then there is nothing to free. */
bool rgi_lbfgs_copy(rg_lbfgs *to, const rg_lbfgs *from);
/* Releases the tensors and the memory of the state, and leaves it empty. */
void rgi_lbfgs_end(rg_lbfgs *s);
rg_tensor *rgi_lbfgs_step(rg_optim *o, rg_closure *closure, void *context);

/* Writes the state under the key 0 of "state", as if it were the state of the first parameter.
 * Writes nothing if no step was made. The form is that of PyTorch's files; if `own` is true, all
 * numbers are float64 tensors instead. */
void rgi_lbfgs_add(rg_py *p, const rg_optim *o, bool own);
/* Reads the entries of the dictionary whose names begin with "state." into *s. If there are none,
 * *s becomes empty. Fails and returns false if an entry is missing, unknown or has the wrong size;
 * then there is nothing to free. */
bool rgi_lbfgs_read(rg_lbfgs *s, const rg_optim *o, rg_named_list dict);

/*
 * lbfgs.h: LBFGS's state between steps. Private.
 */
#pragma once

#include "saved.h"

/* A pair: the changes of the gradient and of the parameters in a step (torch's old_dirs and
 * old_stps), ro, 1 over their dot product, and al, which each step recomputes. */
typedef struct rg_lbfgs_pair {
    rg_tensor *dir, *stp;
    double ro, al;
} rg_lbfgs_pair;

typedef struct rg_lbfgs {
    double func_evals, n_iter;
    double t, h_diag, prev_loss;   /* Valid if d isn't NULL. */
    rg_tensor *d, *prev_flat_grad; /* NULL before the first step. */
    rg_lbfgs_pair *pairs;          /* Pairs from the oldest to the newest. */
    size_t n, room;
    size_t n_al; /* The number of pairs with a value of al. */
} rg_lbfgs;

/* Makes `to` a copy of `from` that shares its tensors. Returns false on failure, after which there
 * is nothing to free. */
bool rgi_lbfgs_copy(rg_lbfgs *to, const rg_lbfgs *from);
/* Releases the state's tensors and memory, and empties it. */
void rgi_lbfgs_end(rg_lbfgs *s);
rg_tensor *rgi_lbfgs_step(rg_optim *o, rg_closure *closure, void *context);

/* Writes the state, if there is one, as the first parameter's: as PyTorch saves it or, if `own`,
 * with numbers that are all float64 tensors. */
void rgi_lbfgs_add(rg_py *p, const rg_optim *o, bool own);
/* Reads the dictionary's entries under "state.", which must be complete. Returns false on failure,
 * after which there is nothing to free. */
bool rgi_lbfgs_read(rg_lbfgs *s, const rg_optim *o, rg_named_list dict);

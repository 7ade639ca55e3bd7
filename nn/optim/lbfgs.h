/*
 * lbfgs.h: what LBFGS remembers from step to step. Private.
 */
#pragma once

#include "saved.h"

/* A pair is how the gradient and the parameters changed in a step: torch's old_dirs and old_stps,
 * with ro, 1 over their product, and al, which the next step computes anew. */
typedef struct rg_lbfgs_pair {
    rg_tensor *dir, *stp;
    double ro, al;
} rg_lbfgs_pair;

typedef struct rg_lbfgs {
    double func_evals, n_iter;
    double t, h_diag, prev_loss;   /* These count once there is a direction d. */
    rg_tensor *d, *prev_flat_grad; /* Both are NULL before the first step. */
    rg_lbfgs_pair *pairs;          /* The oldest is the first. */
    size_t n, room;
    size_t n_al; /* The number of pairs that have their al. */
} rg_lbfgs;

/* Makes `to` a copy of `from`, which shares its tensors. Returns false, with nothing to end, on
 * failure. */
bool rgi_lbfgs_copy(rg_lbfgs *to, const rg_lbfgs *from);
/* Releases what it holds, and makes it empty. */
void rgi_lbfgs_end(rg_lbfgs *s);
rg_tensor *rgi_lbfgs_step(rg_optim *o, rg_closure *closure, void *context);

/* Lists what state_dict has of it; a list with .n == -1 means failure. The scope owns the list. */
rg_named_list rgi_lbfgs_list(const rg_optim *o);
/* Adds it as PyTorch saves it: the state of the first parameter. */
void rgi_lbfgs_add(rg_py *p, const rg_optim *o);
/* Reads what the dictionary has under "state.", which must be whole. Returns false, with nothing to
 * end, on failure. */
bool rgi_lbfgs_read(rg_lbfgs *s, const rg_optim *o, rg_named_list dict);

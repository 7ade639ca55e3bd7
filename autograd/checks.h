/*
 * checks.h: checkers of the requirements of ops and layers. An error keeps PyTorch's kind (its
 * code) and the clause that names the mistake, with the op and the shapes. The order in which
 * PyTorch checks, its typos and the names of its kernels aren't kept: a checker has the same
 * sentence for all ops. An op checks all its requirements in its first lines; a check that only one
 * op needs is an RG_FAIL_IF there.
 *
 *     return rgi_want_dims(op, "mat1", a, 2, 2) && rgi_want_dims(op, "mat2", b, 2, 2)
 *            && rgi_want_same_dtype(op, "mat1", a, "mat2", b);
 *
 * Each checker returns true, or fails and returns false. `op` is the name that the error begins
 * with, or NULL for the op that is being applied; `what` names an argument. RG_NONE, an absent
 * tensor, satisfies each checker except rgi_want_given.
 */
#pragma once

#include "op.h"

/* ---- dtypes ------------------------------------------------------------------------ */

/* Require that the dtype is a float, and that it isn't bool. They fail as rgi_want_dtype
 * (tensor/dtype.h) does. */
static inline bool rgi_want_float(const char *op, const rg_tensor *t);
static inline bool rgi_want_no_bool(const char *op, const rg_tensor *t);
/* Requires a tensor of integers, such as an index or a target. */
bool rgi_want_integers(const char *op, const char *what, const rg_tensor *t);
/* Requires a mask. */
bool rgi_want_bools(const char *op, const char *what, const rg_tensor *t);
bool rgi_want_same_dtype(const char *op, const char *what, const rg_tensor *t, const char *what2,
                         const rg_tensor *t2);
/* Requires that a result of dtype `from` can be converted to `to`. */
bool rgi_want_cast(const char *op, bool can, rg_dtype from, rg_dtype to);
/* Requires that t's history isn't lost by a conversion to a dtype that can't have gradients. */
bool rgi_want_tracked(const char *op, const rg_tensor *t, rg_dtype dtype);

/* ---- shapes ------------------------------------------------------------------------ */

/* Requires from `least` to `most` dims; with RG_MAX_DIMS for `most` there is no upper bound. */
static inline bool rgi_want_dims(const char *op, const char *what, const rg_tensor *t, int least,
                                 int most);
/* Requires that t has any dims, since `dim` names one. Fails with RG_INDEX_ERROR. */
bool rgi_want_any_dim(const char *op, const rg_tensor *t, int64_t dim);
/* Requires that the dim to be reduced has an element. Fails with RG_INDEX_ERROR. */
bool rgi_want_reducible(const char *op, const rg_tensor *t, int dim);
/* Requires that a dim has this size. */
bool rgi_want_size(const char *op, const char *what, const rg_tensor *t, int dim, int64_t size);
bool rgi_want_shape(const char *op, const char *what, const rg_tensor *t, rg_dims shape);
/* Requires a vector with an element for each of n channels or classes. */
bool rgi_want_vector(const char *op, const char *what, const rg_tensor *t, int64_t n);
/* Requires that no dim from `first` on has size 0. The dims before it are the batch. */
bool rgi_want_elements(const char *op, const char *what, const rg_tensor *t, int first);
/* Requires that y, which is written over in place, has the result's shape `wide`. */
bool rgi_want_no_wider(const char *op, const rg_tensor *y, const rg_tensor *wide);
/* Requires that two matrices, vectors or batches can be multiplied: `left` is the number of columns
 * of one, `right` the number of rows of the other. */
bool rgi_want_product(const char *op, const rg_tensor *a, const rg_tensor *b, int64_t left,
                      int64_t right);

/* ---- numbers ----------------------------------------------------------------------- */

/* Require that each of n numbers is positive, or isn't negative. */
bool rgi_want_positive(const char *op, const char *what, int n, const int64_t *v);
bool rgi_want_non_negative(const char *op, const char *what, int n, const int64_t *v);
/* Requires indices from `from` to size - 1 along a dim of that size. The code is a parameter, since
 * torch's differs between ops. */
bool rgi_want_indices(rg_code code, const char *op, const rg_tensor *index, int64_t from,
                      int64_t size, int dim);
/* Writes an option to an array with one number for each of `dims` dims. The list, if it is given,
 * has one number, or one for each dim, and then `number` must be `absent`. Otherwise each dim gets
 * `number`. */
bool rgi_want_option(const char *op, const char *what, int dims, int64_t number, int64_t absent,
                     const rg_dims *list, int64_t *to);

/* ---- arguments ---------------------------------------------------------------------- */

/* Requires that an optional tensor is given. `when` says in the error when it is needed: "in
 * evaluation mode". */
bool rgi_want_given(const char *op, const char *what, const rg_tensor *t, const char *when);
/* Requires that an argument without a gradient doesn't require grad. */
bool rgi_want_no_grad(const char *op, const char *what, const rg_tensor *t);
/* Requires that the tensor that a hook made has the size and the dtype of the gradient that it
 * replaces. `hook` begins the sentence of the error. */
bool rgi_want_replacement(const char *op, const char *hook, const rg_tensor *made,
                          const rg_tensor *grad);

/* ---- inline checkers, for the requirements of small calls --------------------------- */

bool rgi_lacks_dims(const char *op, const char *what, const rg_tensor *t, int least, int most)
    __attribute__((cold));

static inline bool rgi_want_float(const char *op, const rg_tensor *t) {
    return rgi_want_dtype(op, rgi_is_float(t->dtype) || rgi_is_none(t), t->dtype);
}

static inline bool rgi_want_no_bool(const char *op, const rg_tensor *t) {
    return rgi_want_dtype(op, !rgi_is_bool(t->dtype) || rgi_is_none(t), t->dtype);
}

static inline bool rgi_want_dims(const char *op, const char *what, const rg_tensor *t, int least,
                                 int most) {
    const bool fits = t->ndim >= least && t->ndim <= most;
    return RG_LIKELY(fits) || rgi_is_none(t) || rgi_lacks_dims(op, what, t, least, most);
}

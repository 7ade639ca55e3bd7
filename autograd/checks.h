/*
 * checks.h: functions that check the requirements of ops and layers. An error has the code of
 * PyTorch's error and the part of PyTorch's message that names the mistake, and adds the op and the
 * shapes. The order of the checks isn't PyTorch's, and PyTorch's typos and names of kernels aren't
 * copied. A checking function has the same error message for all ops. An op checks all its
 * requirements in its first lines. For a requirement that no other op has, it calls RG_FAIL_IF.
 *
 *     return rgi_want_dims(op, "mat1", a, 2, 2) && rgi_want_dims(op, "mat2", b, 2, 2)
 *            && rgi_want_same_dtype(op, "mat1", a, "mat2", b);
 *
 * "Requires that" means that the function checks this: each function returns true if its condition
 * holds, and otherwise fails and returns false. `op` is the name with which the error begins; NULL
 * stands for the op that is being applied. `what` is the name of an argument. RG_NONE, an absent
 * tensor, passes each check that has `what`, except rgi_want_given.
 */
#pragma once

#include "op.h"

/* ---- checks of dtypes -------------------------------------------------------------- */

/* rgi_want_float requires that t is floating point, and rgi_want_no_bool that t isn't bool. They
 * call rgi_want_dtype (tensor/dtype.h), which has the error message. */
static inline bool rgi_want_float(const char *op, const rg_tensor *t);
static inline bool rgi_want_no_bool(const char *op, const rg_tensor *t);
/* Requires that the dtype of t, such as an index or a target, is int64. */
bool rgi_want_integers(const char *op, const char *what, const rg_tensor *t);
/* Requires that the dtype of t, such as a mask, is bool. */
bool rgi_want_bools(const char *op, const char *what, const rg_tensor *t);
bool rgi_want_same_dtype(const char *op, const char *what, const rg_tensor *t, const char *what2,
                         const rg_tensor *t2);
/* Requires that `can` is true. It says whether a result of dtype `from` can be converted to dtype
 * `to`. The error message names both dtypes. */
bool rgi_want_cast(const char *op, bool can, rg_dtype from, rg_dtype to);
/* Fails if t requires grad, grad mode is on, and `dtype`, to which t is to be converted, isn't
 * floating point. */
bool rgi_want_tracked(const char *op, const rg_tensor *t, rg_dtype dtype);

/* ---- checks of shapes -------------------------------------------------------------- */

/* Requires that t has from `least` to `most` dims. If `most` is RG_MAX_DIMS, there is no upper
 * bound. */
static inline bool rgi_want_dims(const char *op, const char *what, const rg_tensor *t, int least,
                                 int most);
/* Requires that t has at least one dim. `dim` is the dim that the program has named, for the error
 * message. Fails with RG_INDEX_ERROR. */
bool rgi_want_any_dim(const char *op, const rg_tensor *t, int64_t dim);
/* Requires that dim `dim` of t, which is to be reduced, isn't empty. A t without dims passes. Fails
 * with RG_INDEX_ERROR. */
bool rgi_want_reducible(const char *op, const rg_tensor *t, int dim);
/* Requires that dim `dim` of t has the size `size`. */
bool rgi_want_size(const char *op, const char *what, const rg_tensor *t, int dim, int64_t size);
bool rgi_want_shape(const char *op, const char *what, const rg_tensor *t, rg_dims shape);
/* Requires that t is a vector with n elements, such as one for each channel or class. */
bool rgi_want_vector(const char *op, const char *what, const rg_tensor *t, int64_t n);
/* Requires that no dim from `first` on has size 0. Dims before `first` (the batch) may be empty. */
bool rgi_want_elements(const char *op, const char *what, const rg_tensor *t, int first);
/* Requires that y, which the op is to write over, has the shape of the broadcast result, `wide`. */
bool rgi_want_no_wider(const char *op, const rg_tensor *y, const rg_tensor *wide);
/* Requires that two matrices, vectors or batches can be multiplied: that `left`, the number of
 * columns of a, equals `right`, the number of rows of b. */
bool rgi_want_product(const char *op, const rg_tensor *a, const rg_tensor *b, int64_t left,
                      int64_t right);

/* ---- checks of numbers ------------------------------------------------------------- */

/* Require that all n numbers are above 0 (positive), or that none is below 0 (non_negative). */
bool rgi_want_positive(const char *op, const char *what, int n, const int64_t *v);
bool rgi_want_non_negative(const char *op, const char *what, int n, const int64_t *v);
/* Requires that each index is from `from` to size - 1. `size` is the size of dim `dim`, to which
 * the indices belong. `code` is the error code, since it differs between torch's ops. */
bool rgi_want_indices(rg_code code, const char *op, const rg_tensor *index, int64_t from,
                      int64_t size, int dim);
/* Fails and returns false if a program has given an option in both of its forms: as a single
 * `number`, and as a list of n values. In that case the single number would have no effect.
 * `number` counts as not given if it equals `absent`, and the list if n is 0. */
bool rgi_given_once(const char *op, const char *what, int64_t number, int64_t absent, int n);
/* Writes an option, such as a stride, to to[]: one number for each of `dims` dims. If `list` is
 * empty, each dim gets `number`. Otherwise the list must have one number for all dims or a number
 * for each dim, and `number` must be `absent`; if not, fails and returns false. */
bool rgi_want_option(const char *op, const char *what, int dims, int64_t number, int64_t absent,
                     const rg_dims *list, int64_t *to);

/* ---- checks of other arguments ------------------------------------------------------ */

/* Requires that an optional tensor is given. `when` says in the error message when it is needed,
 * such as "in evaluation mode". */
bool rgi_want_given(const char *op, const char *what, const rg_tensor *t, const char *when);
/* Requires that t, an argument for which the op computes no gradient, doesn't require grad. */
bool rgi_want_no_grad(const char *op, const char *what, const rg_tensor *t);
/* Requires that `made`, which a hook returned, has the size and dtype of the gradient that it
 * replaces. In the error message, `hook` is the name of the hook and comes after `op`. */
bool rgi_want_replacement(const char *op, const char *hook, const rg_tensor *made,
                          const rg_tensor *grad);

/* ---- inline functions: requirements that are checked even in the fastest calls ----- */

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

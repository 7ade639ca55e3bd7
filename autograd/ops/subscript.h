/*
 * subscript.h: parts of Python's x[...]: the op on index tensors (index.c), reading text
 * (subscript_text.c), and steps (subscript.c).
 */
#pragma once

#include "autograd/op.h"

/* ---- index tensors (index.c) --------------------------------------------------- */

/* dim[i] is the dim that index tensor i is for. */
struct index_attr {
    const char *node;
    int dim[RG_MAX_DIMS];
};

/* `t` is the indexed tensor with one dim, number `at`, in place of the indexed ones. An index along
 * it is an offset: the sum of an element's indices, each times its dim's stride. `offsets` is the
 * shape to which the index tensors broadcast, and `shape` that of the result. */
typedef struct {
    rg_tensor t;
    int at;
    rg_dims offsets, shape;
} rg_index_layout;

/* Fills in *p for k index tensors. Fails if they can't be for these dims of
 * t. */
bool rgi_index_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                      rg_tensor *const index[], rg_index_layout *p);

/* Moves elements between `row`, which has the result's shape, and the places in t that the indices
 * name. */
bool rgi_index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                    const struct index_attr *a, int k, rg_tensor *const index[]);

/* Fetches the step's index tensors, which are its inputs from number `first` on, into the same
 * places of in[]. */
bool rgi_index_saved(const rg_step *s, rg_tensor *in[], int first);

/* Makes index tensors out of a mask, one for each of its dims. The scope owns them. */
bool rgi_index_of_mask(rg_tensor *mask, rg_tensor *index[]);

#define RG_INDEX_NEEDS \
    (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4) | RG_IN(5) | RG_IN(6) | RG_IN(7) | RG_IN(8))

/* ---- items (subscript_text.c) -------------------------------------------------- */

enum { RG_MOST_ITEMS = 32 };

/* An item for a new dim, or for an ellipsis, has one of these texts, and is known by the text's
 * address. */
extern const char rgi_index_none[], rgi_index_ellipsis[];

/* Makes one list of all items, with the items of texts one by one. Returns their number, or -1 if
 * it failed. */
int rgi_index_flatten(int n, const rg_item_index *items, rg_item_index flat[RG_MOST_ITEMS]);

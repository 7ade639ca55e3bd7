/*
 * subscript.h: the parts of Python's x[...]: the op with index tensors (index.c), reading text
 * (subscript_text.c), and steps (subscript.c).
 */
#pragma once

#include "autograd/op.h"

/* ---- index tensors (index.c) --------------------------------------------------- */

/* dim[i] is the dim that index tensor i indexes. */
struct index_attr {
    const char *node;
    int dim[RG_MAX_DIMS];
};

/* `t` is a header of the indexed tensor in which dim `at` replaces all indexed dims. An index along
 * that dim is an offset: the sum of an element's indices, each times its dim's stride. `offsets` is
 * the shape to which the index tensors broadcast, and `shape` is the result's shape. */
typedef struct {
    rg_tensor t;
    int at;
    rg_dims offsets, shape;
} rg_index_layout;

/* Fills in *p for k index tensors. Fails if they can't index these dims of t. */
bool rgi_index_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                      rg_tensor *const index[], rg_index_layout *p);

/* Moves elements between `row`, which has the result's shape, and t's elements at the indices. */
bool rgi_index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                    const struct index_attr *a, int k, rg_tensor *const index[]);

/* Stores the step's index tensors, which are the inputs from index `first` on, in in[] at the same
 * indices. */
bool rgi_index_saved(const rg_step *s, rg_tensor *in[], int first);

/* Makes an index tensor for each dim of a mask. The scope owns them. */
bool rgi_index_of_mask(rg_tensor *mask, rg_tensor *index[]);

#define RG_INDEX_NEEDS \
    (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4) | RG_IN(5) | RG_IN(6) | RG_IN(7) | RG_IN(8))

/* ---- items (subscript_text.c) -------------------------------------------------- */

enum { RG_MOST_ITEMS = 32 };

/* The texts of the items for a new dim and for an ellipsis. Such an item is recognised by its
 * text's address. */
extern const char rgi_index_none[], rgi_index_ellipsis[];

/* Writes all items to one list, with each text replaced by the items in it. Returns their number,
 * or -1 if it failed. */
int rgi_index_flatten(int n, const rg_item_index *items, rg_item_index flat[RG_MOST_ITEMS]);

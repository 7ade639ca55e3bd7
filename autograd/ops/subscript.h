/*
 * subscript.h: what the files for Python's x[...] share: index tensors (index.c) and items in
 * strings (subscript_text.c). subscript.c applies the items.
 */
#pragma once

#include "autograd/op.h"

/* ---- index tensors (index.c) --------------------------------------------------- */

/* The attributes of ops with index tensors: index tensor i indexes dim[i] of x. */
struct index_attr {
    const char *node;
    int dim[RG_MAX_DIMS];
};

/* The layout in which index tensors are applied. `t` is a header (an rg_tensor that shares the
 * elements) of the indexed tensor. In this header, one dim, `at`, replaces all indexed dims. An
 * index along this dim is an offset in elements: the sum, over the indexed dims, of the index times
 * the dim's stride. `offsets` is the shape to which the index tensors broadcast, and `shape` is the
 * result's shape. */
typedef struct {
    rg_tensor t;
    int at;
    rg_dims offsets, shape;
} rg_index_layout;

/* Fills in *p for k index tensors. Fails if their shapes don't broadcast, the result has too many
 * dims, or an indexed dim is empty and there are indices for it. */
bool rgi_index_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                      rg_tensor *const index[], rg_index_layout *p);

/* `row` has the result's shape. Copies the elements of t at the indices to `row` (K_GET), copies
 * `row` to these elements of t (K_PUT), or adds `row` to them (K_ADD), as `how` says. */
bool rgi_index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                    const struct index_attr *a, int k, rg_tensor *const index[]);

/* Reads the saved index tensors of a backward step: its op's inputs from `first` on. Stores input i
 * in in[i]. Returns false on failure. */
bool rgi_index_saved(const rg_step *s, rg_tensor *in[], int first);

/* Makes an index tensor for each dim of a mask: the indices of its true elements along that dim.
 * The scope owns the index tensors. Returns false on failure. */
bool rgi_index_of_mask(rg_tensor *mask, rg_tensor *index[]);

#define RG_INDEX_NEEDS \
    (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4) | RG_IN(5) | RG_IN(6) | RG_IN(7) | RG_IN(8))

/* ---- items (subscript_text.c) -------------------------------------------------- */

enum { RG_MOST_ITEMS = 32 };

/* The strings of the items for a new dim and for an ellipsis. An item is recognised by the address
 * of its string, not by its characters. */
extern const char rgi_index_none[], rgi_index_ellipsis[];

/* Copies the n items to flat[], but replaces each item that is a string by the items in the string.
 * Returns the number of items in flat[], or -1 on failure. */
int rgi_index_flatten(int n, const rg_item_index *items, rg_item_index flat[RG_MOST_ITEMS]);

/*
 * subscript.h: what the files of Python's x[...] share: the op on index tensors (index.c), the
 * reading of text (subscript_text.c), and the steps that items become (subscript.c).
 */
#pragma once

#include "autograd/op.h"

/* ---- index tensors (index.c) --------------------------------------------------- */

/* dim says which dim each index tensor is for. */
struct index_attr {
    const char *node;
    int dim[RG_MAX_DIMS];
};

/* t has one dim, `at`, through which offsets lead, in place of the indexed ones. The index tensors
 * broadcast to the offsets' shape, and `shape` is the result's. */
typedef struct {
    rg_tensor t;
    int at;
    rg_dims offsets, shape;
} rg_index_layout;

/* Fails with torch's sentence if k index tensors can't be for these dims of t. */
bool rgi_index_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                      rg_tensor *const index[], rg_index_layout *p);

/* Moves elements between row, which has the result's shape, and t's at the indices. */
bool rgi_index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                    const struct index_attr *a, int k, rg_tensor *const index[]);

/* Fetches the step's index tensors, which stand behind the first inputs. */
bool rgi_index_saved(const rg_step *s, rg_tensor *in[], int first);

/* Makes a mask index tensors, one for each of its dims, which the scope owns. */
bool rgi_index_of_mask(rg_tensor *mask, rg_tensor *index[]);

#define RG_INDEX_NEEDS \
    (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4) | RG_IN(5) | RG_IN(6) | RG_IN(7) | RG_IN(8))

/* ---- items (subscript_text.c) -------------------------------------------------- */

enum { RG_MOST_ITEMS = 32 };

/* An item for a new dim, or for an ellipsis, has this text, and is known by its address. */
extern const char rgi_index_none[], rgi_index_ellipsis[];

/* Makes one list of items of Python's text and what stands between. Returns how many there are, or
 * -1 if it failed. */
int rgi_index_flatten(int n, const rg_item_index *items, rg_item_index flat[RG_MOST_ITEMS]);

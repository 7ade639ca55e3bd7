/*
 * function_parts.h: what function.c and function_backward.c share: a class's row, and what an
 * application keeps. Beside them only trial.h includes it, for the number of inputs.
 */
#pragma once

#include "autograd/engine.h"
#include "function.h"

enum { RG_FUNCTION_INPUTS = 16, RG_FUNCTION_SAVED = 8 };

/* A row is made when its class is first applied, and lasts as long as the program, in a list of all
 * of them. `node` is torch's name of the class's nodes. */
typedef struct rg_function_row {
    rg_op op;
    rg_function_class cls;
    struct rg_function_row *next;
    char node[];
} rg_function_row;

/* The attributes of an application: how many inputs are the user's, which values are saved, and
 * what it was given beside the tensors. What was saved as number j is input number slot[j],
 * output number slot[j] - RG_INPUTS, or RG_SLOT_ABSENT. */
typedef struct {
    uint8_t n_user, n_saved;
    bool has_saved;
    int8_t slot[RG_FUNCTION_SAVED];
    /* Masks of the values that backward needs, of the inputs whose gradient was wanted, and of the
     * outputs through which none flows. */
    uint32_t needs, wanted, apart;
    _Alignas(8) char args[];
} rg_function_attr;

enum { RG_SLOT_ABSENT = -1 };

/* Forward has `in` and `out`, and saves; backward has `step`. */
struct rg_function_context {
    const rg_function_row *row;
    rg_function_attr *attr;
    rg_tensor *const *in;
    rg_tensor **out;
    rg_tensor *saved[RG_FUNCTION_SAVED];
    rg_tensor *state;
    const rg_step *step;
    uint32_t wanted;
};

/* Fails, since a run of a recorded step does otherwise than the step did. */
bool rgi_took_another_way(const rg_op *op);
/* Makes to's values those of `from`, for a recorded step, in which neither shape nor dtype may
 * change. */
bool rgi_function_same(const rg_op *op, rg_tensor *to, rg_tensor *from);
/* Makes all gradients of a step: the row's `together`. */
bool rgi_function_backward(const rg_step *s, rg_tensor *gin[]);

/*
 * function_parts.h: the row of a user's class and the context of its calls, for function.c and
 * function_backward.c. Beside these only check_run.h includes it, for the number of inputs.
 */
#pragma once

#include "autograd/engine.h"
#include "function.h"

enum { RG_FUNCTION_INPUTS = 16, RG_FUNCTION_SAVED = 8 };

/* A row is made when its class is first used, and lasts as long as the program. All rows form a
 * list. `node` is torch's name of the class's nodes. */
typedef struct rg_function_row {
    rg_op op;
    rg_function_class cls;
    struct rg_function_row *next;
    char node[];
} rg_function_row;

/* The attributes of a call: the number of the user's inputs, the slots of the saved values, and the
 * args. The saved value number j is input number slot[j], output number slot[j] - RG_INPUTS, or
 * absent (RG_SLOT_ABSENT). */
typedef struct {
    uint8_t n_user, n_saved;
    bool has_saved;
    int8_t slot[RG_FUNCTION_SAVED];
    /* Masks of the values that backward needs, of the inputs whose gradient is wanted, and of the
     * outputs that were marked as not differentiable. */
    uint32_t needs, wanted, apart;
    _Alignas(8) char args[];
} rg_function_attr;

enum { RG_SLOT_ABSENT = -1 };

/* Forward uses `in` and `out`, and saves values; backward uses `step`. */
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

/* Fails, since the op behaves differently in a run than while the step was recorded. */
bool rgi_took_another_way(const rg_op *op);
/* Copies the values of `from` to `to`, in a recorded step. Neither shape nor dtype may change. */
bool rgi_function_same(const rg_op *op, rg_tensor *to, rg_tensor *from);
/* Computes all gradients of a step: the function `together` of the op's row. */
bool rgi_function_backward(const rg_step *s, rg_tensor *gin[]);

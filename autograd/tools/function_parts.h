/*
 * function_parts.h: the row of a user's class and the context of its calls, for function.c and
 * function_backward.c. The only other file that includes it is check_run.h, which needs the number
 * of inputs.
 */
#pragma once

#include "autograd/engine.h"
#include "function.h"

enum { RG_FUNCTION_INPUTS = 16, RG_FUNCTION_SAVED = 8 };

/* The row of a user's class. It is made when the class is first used, and exists as long as the
 * program. All such rows form a list. `node` is the name of the class's nodes. */
typedef struct rg_function_row {
    rg_op op;
    rg_function_class cls;
    struct rg_function_row *next;
    char node[];
} rg_function_row;

/* The attributes of a call: the number of the user's inputs, the slots of the saved values, and the
 * args. The saved value number j is input slot[j] of the node, or output slot[j] - RG_INPUTS if
 * slot[j] is at least RG_INPUTS. It is absent if slot[j] is RG_SLOT_ABSENT. */
typedef struct {
    uint8_t n_user, n_saved;
    bool has_saved;
    int8_t slot[RG_FUNCTION_SAVED];
    /* Three masks: the values that backward needs, the inputs whose gradients are wanted, and the
     * outputs that were marked as not differentiable. */
    uint32_t needs, wanted, apart;
    _Alignas(8) char args[];
} rg_function_attr;

enum { RG_SLOT_ABSENT = -1 };

/* `in`, `out` and `saved` are used in forward, and `step` in backward. */
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

/* Fails, because the op does something else in a repetition than when the training step was
 * recorded, such as to save another number of values. */
bool rgi_took_another_way(const rg_op *op);
/* Copies the values of `from` to `to`, in a repetition of a recorded step. Fails if the shape or
 * the dtype has changed. */
bool rgi_function_same(const rg_op *op, rg_tensor *to, rg_tensor *from);
/* Computes all gradients of a step. This is the function `together` in the op's row. */
bool rgi_function_backward(const rg_step *s, rg_tensor *gin[]);

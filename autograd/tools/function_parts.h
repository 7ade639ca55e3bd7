/*
 * function_parts.h: the library's data for a class (rg_function_class), by which a user defines an
 * op, and the context of one call of the op. Only function.c, function_backward.c and check_run.h
 * include this file; check_run.h needs only the largest number of inputs.
 */
#pragma once

#include "autograd/engine.h"
#include "autocast_state.h"
#include "function.h"

enum { RG_FUNCTION_INPUTS = 16, RG_FUNCTION_SAVED = 8 };

/* The library's data for a user's class: the op that it makes for the class, a copy of the class,
 * and `node`, the name of the op's nodes in the graph (the class's name + "Backward"). These data
 * are made at the first use of the class and never freed. `next` links the data of all classes. */
typedef struct rg_function_row {
    rg_op op;
    rg_function_class cls;
    struct rg_function_row *next;
    char node[];
} rg_function_row;

/* The attributes of one call of a user's op. n_user is the number of inputs that the user gave, and
 * `args` the copy of the user's args. `has_saved` is set once forward has called
 * rg_save_for_backward. Forward saved n_saved values, and slot[j] says where the node keeps value
 * j. If slot[j] is below RG_INPUTS, it is the index of an input of the node. From RG_INPUTS on,
 * slot[j] - RG_INPUTS is the index of an output. RG_SLOT_ABSENT stands for RG_NONE. */
typedef struct {
    uint8_t n_user, n_saved;
    bool has_saved;
    int8_t slot[RG_FUNCTION_SAVED];
    /* Three masks. `needs`: the inputs and outputs of the node that backward needs. `wanted`: the
     * inputs whose gradients are wanted. `apart`: the outputs that were marked as not
     * differentiable. */
    uint32_t needs, wanted, apart;
    rg_autocast_state autocast; /* The settings of the call of forward. */
    _Alignas(8) char args[];
} rg_function_attr;

enum { RG_SLOT_ABSENT = -1 };

/* The context that is passed to the class's forward or backward. `in`, `out` and `saved` are set
 * only during forward, and `step` only during backward. `state` is NULL if the class has no state.
 * `wanted` is a mask of the inputs whose gradients are wanted. */
struct rg_function_context {
    const rg_function_row *row;
    rg_function_attr *attr;
    rg_tensor *const *in;
    rg_tensor **out;
    /* The saved values, and the versions that they had when they were saved. */
    rg_tensor *saved[RG_FUNCTION_SAVED];
    uint32_t version[RG_FUNCTION_SAVED];
    rg_tensor *state;
    const rg_step *step;
    uint32_t wanted;
};

/* Fails, because a repetition of a recorded step doesn't do what the step did when it was recorded:
 * for example, the op saves another number of values. */
bool rgi_took_another_way(const rg_op *op);
/* Copies the values of `from` to `to`, a tensor of the recording, in a repetition of a recorded
 * step. Fails if the two have different shapes or dtypes. */
bool rgi_function_same(const rg_op *op, rg_tensor *to, rg_tensor *from);
/* Computes all gradients of a step. This is the function `together` in the op's row. */
bool rgi_function_backward(const rg_step *s, rg_tensor *gin[]);

/*
 * to_c.h: writes a recorded step as a C file that needs no library.
 */
#pragma once

#include "../replay/replay.h"
#include "../ops/ops.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* The places from which a written step may get the values with which its parameters begin: the C
 * file; a binary file beside it; or the caller. */
typedef enum rg_weights_place { RG_IN_FILE, RG_BESIDE, RG_FROM_CALLER } rg_weights_place;

typedef struct RG_OPTIONS rg_replay_to_c_options {
    RG_BY_NAME;
    /* The beginning of all names in the file. */
    const char *name RG_DEFAULT("step");
    /* The tensors that the program writes to between the steps, in the order of the arguments of
     * the function NAME_step. */
    rg_list inputs RG_DEFAULT({});
    /* The tensors whose memory comes first, such as the parameters of a model in state_dict's
     * order. None may be a part of a larger tensor's memory, and inputs and parameters must not
     * share memory with each other. */
    rg_list parameters RG_DEFAULT({});
    /* The tensor that the step computes for its caller, such as the loss. NAME_step returns the
     * address of its elements. */
    rg_tensor *output RG_DEFAULT(RG_NONE);
    /* More tensors that the caller reads after a step, such as attention weights. The program must
     * hold them (rg_keep). The functions NAME_output1, NAME_output2, .. return their elements. */
    rg_list more_outputs RG_DEFAULT({});
    /* The place of the parameters' values. RG_BESIDE and RG_FROM_CALLER need `parameters`. */
    RG_ONE_OF(rg_weights_place) weights RG_DEFAULT(RG_IN_FILE);
} rg_replay_to_c_options;

/* Writes the recorded step to a file in C99 with extensions that GCC and Clang share. The file
 * computes what rg_replay_run computes, bit for bit. It allocates no memory. It calls memcpy and
 * its like, and for a few elementwise functions libm (docs/export.md lists them). It declares
 *
 *     NAME_BYTES                        the size of the memory for parameters and all else
 *     NAME_PARAMETERS                   the size of the parameters, which come first, without gaps
 *                                       between those of one dtype
 *     void NAME_begin(void *memory)     copies the present values of all tensors into the memory
 *     const float *NAME_step(void *memory, const float *input0, const int64_t *input1, ...)
 *                                       makes a step, and returns the elements of `output`
 *     const float *NAME_output1(const void *memory)
 *                                       returns the elements of more_outputs[0]; they stay as they
 *                                       are up to the next step
 *
 * where the memory is aligned to 64 bytes. With .weights = RG_BESIDE, the parameters' values aren't
 * in the C file but in a binary file of NAME_PARAMETERS bytes, whose path ends in .weights in place
 * of .c. The function NAME_begin(void *memory, const void *weights) takes the bytes of this file,
 * which the program reads or links. With .weights = RG_FROM_CALLER, no file has the values, and
 * NAME_begin leaves the first NAME_PARAMETERS bytes of the memory as they are: before the first
 * step, the caller copies the parameters there, in their order.
 *
 * With -DNAME_SELF_TEST the file is a program, which makes three steps on the present inputs, and
 * prints the output after each. It reads parameters that aren't in the file from its standard
 * input.
 *
 * The first step in the file is what the replay's next run would be. If the step adds to gradients
 * that earlier runs have left, the file has these gradients, too.
 *
 * The checks of values that a run makes, such as of indices, aren't in the file: its inputs must be
 * valid. Numbers that aren't in tensors, such as the learning rate, stay as they are when the file
 * is written. An optimizer's count of steps, its moments and the state of a random generator are in
 * the memory.
 *
 * A step may consist of the library's operations, forward and backward, of steps of all optimizers
 * but Muon and LBFGS, of uniform and normal random numbers, and of dropout. It may also call loops
 * that RG_FUNCTION_LOOP has defined (autograd/tools/function.h). Anything else is refused with its
 * name, such as an op of the program with other loops. To find the calls of the step's loops, the
 * function repeats the step on its tensors, and then restores their elements and gradients. As
 * after a run, a backward pass fails through a graph that has saved a result of the step. Only one
 * thread at a time may write a step or compile one (rg_replay_compile); another call fails
 * meanwhile. Returns false if it fails. */
bool rg_replay_to_c_with(rg_replay *r, const char *path, rg_replay_to_c_options options);
#define rg_replay_to_c(r, path, ...) \
    rg_replay_to_c_with(             \
        r, path,                     \
        RG_KEYWORDS(rg_replay_to_c_options, (.name = "step", .output = RG_NONE), __VA_ARGS__))

RG_PUBLIC_END

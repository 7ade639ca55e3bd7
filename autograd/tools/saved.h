/*
 * saved.h: the values that the graph saves for backward, and two ways to save fewer of them. Hooks
 * see each saved value, and may put something else in its place. rg_checkpoint computes values a
 * second time instead of saving them.
 */
#pragma once

#include "../autograd.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- hooks on saved tensors ----------------------------------------------------------
 * These are torch.autograd.graph.saved_tensors_hooks. While hooks are in force, each value that an
 * op saves is passed to the hook pack. The graph then keeps the pointer that pack returns, which
 * may point to anything. When a backward run reaches the op, the hook unpack is given that pointer,
 * and must return the value, with the shape and dtype that the value had. When the graph releases
 * the pointer, the hook drop is called, unless it is NULL. pack and unpack return NULL on failure.
 * pack must not write to the value. If pack keeps the value itself, and not a copy, a later write
 * in place changes the value, and the backward run doesn't notice it. None of the three hooks may
 * be left by longjmp. */
typedef struct rg_saved_hooks {
    void *(*pack)(rg_tensor *t, void *context)RG_EMPTY;
    rg_tensor *(*unpack)(void *packed, void *context)RG_EMPTY;
    void (*drop)(void *packed, void *context) RG_EMPTY;
    void *context RG_EMPTY;
} rg_saved_hooks;

/* RG_SAVED_HOOKS(hooks); puts the hooks in force for this thread until the end of the C block.
 * rg_push_saved_hooks puts hooks in force until the matching rg_pop_saved_hooks. It returns false
 * on failure. If several hooks are in force, only the innermost are called. */
bool rg_push_saved_hooks(rg_saved_hooks hooks);
void rg_pop_saved_hooks(void);
typedef struct rg_saved_guard {
    bool pushed;
} rg_saved_guard;
rg_saved_guard rg_saved_guard_open(rg_saved_hooks hooks);
void rg_saved_guard_close(rg_saved_guard *guard);
#define RG_SAVED_HOOKS(hooks)                       \
    rg_saved_guard RG_PASTE(rg_saved_, __COUNTER__) \
        __attribute__((cleanup(rg_saved_guard_close), unused)) = rg_saved_guard_open(hooks)

/* ---- checkpoints: less memory, more time -------------------------------------------------
 * rg_checkpoint is torch.utils.checkpoint.checkpoint (use_reentrant=False). It returns f(inputs,
 * context), and the graph saves only the inputs. When a backward run needs other values, f is
 * called again. If preserve_rng_state is true, this second call draws the same random numbers as
 * the first, from all generators. Afterwards the generators have the states that they had before
 * the second call. f must compute the same values again from the inputs and the context. The
 * context must still exist when backward runs (a compound literal within a call's arguments may
 * not). Both calls run to their end. So buffers that f writes to, such as those of a batch norm,
 * are written to twice, and in a checkpoint within a checkpoint three times, where torch stops
 * early. If an input was written to between the two calls, the backward run fails. It also fails if
 * f writes in place to a value that an op of f has saved, or calls rg_grad, rg_jacrev or another
 * function that computes derivatives. */
typedef struct RG_OPTIONS rg_checkpoint_options {
    RG_BY_NAME;
    /* If false, the second call of f may draw other random numbers than the first. */
    rg_flag preserve_rng_state RG_DEFAULT(true);
} rg_checkpoint_options;
rg_tensor *rg_checkpoint_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                              rg_checkpoint_options options);
/* (rg_save_checkpoint, in nn/save/checkpoint.h, writes files; rg_checkpoint writes none.) */
#define rg_checkpoint(f, context, n, inputs, ...) \
    rg_checkpoint_with(                           \
        f, context, n, inputs,                    \
        RG_KEYWORDS(rg_checkpoint_options, (.preserve_rng_state = true), __VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_checkpoint_with(f, context, n, ...) \
    rg_checkpoint_with(f, context, RG_INT(n), __VA_ARGS__)

RG_PUBLIC_END

/*
 * saved.h: what the graph keeps for backward, and how to keep less of it: hooks that see each saved
 * value, and rg_checkpoint, which computes activations a second time in place of keeping them.
 */
#pragma once

#include "../autograd.h"

RG_PUBLIC_BEGIN

/* ---- hooks on saved tensors ----------------------------------------------------------
 * As torch.autograd.graph.saved_tensors_hooks: while such hooks are in force, a value that an op
 * saves is handed to pack, and the graph keeps what that returns, which may be anything but NULL.
 * When backward comes to the op it asks unpack for the value, of the same shape and dtype; drop, if
 * there is one, is called when the graph lets go of what it kept. pack returns NULL where it fails,
 * as unpack does. pack must not write to the value; none may be left by longjmp. */
typedef struct rg_saved_hooks {
    void *(*pack)(rg_tensor *t, void *context)RG_EMPTY;
    rg_tensor *(*unpack)(void *packed, void *context)RG_EMPTY;
    void (*drop)(void *packed, void *context) RG_EMPTY;
    void *context RG_EMPTY;
} rg_saved_hooks;

/* RG_SAVED_HOOKS(hooks); puts the hooks in force for this thread, to the end of the C block. The
 * pair of functions does the same. Only the innermost hooks are called. */
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

/* ---- memory for time -------------------------------------------------------------------
 * As torch.utils.checkpoint.checkpoint (use_reentrant=False): returns f(inputs, context), of which
 * the graph keeps only the inputs. Backward calls f once more, with the same random draws, for the
 * values that it needs: f must do the same again, on what it finds in its context, too, which must
 * live until then: a literal doesn't where it stands within another call's arguments. Inputs that
 * were written to since are an error. */
typedef struct RG_OPTIONS rg_checkpoint_options {
    RG_BY_NAME;
    /* If true, the second call draws the same random numbers as the first. */
    bool preserve_rng_state RG_DEFAULT(true);
} rg_checkpoint_options;
rg_tensor *rg_checkpoint_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                              rg_checkpoint_options options);
/* A macro. The struct rg_checkpoint is another thing: the contents of a file of
 * rg_save_checkpoint. */
#define rg_checkpoint(f, context, n, inputs, ...) \
    rg_checkpoint_with(                           \
        f, context, n, inputs,                    \
        RG_KEYWORDS(rg_checkpoint_options, (.preserve_rng_state = true), __VA_ARGS__))

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_checkpoint_with(f, context, n, ...) \
    rg_checkpoint_with(f, context, RG_WHOLE(n), __VA_ARGS__)

RG_PUBLIC_END

/*
 * error.h: how a call fails. The public half, which reads the error, is in
 * tensor.h.
 */
#pragma once

#include "thread.h"
#include "unread.h"

/* Fails with "op: sentence", and returns NULL. A sentence that begins with the op's name,
 * "op(): ..", gets no other. An op of NULL stands for the one that is being applied, if there is
 * one. A macro wraps the call, so that the compiler sees that the value is NULL.
 *
 * The failure becomes the thread's error, unless an earlier one stands that nobody has looked at:
 * what comes after a failure that went unnoticed mostly follows from it, by a number such as -1 or
 * NaN, by false, or by what was not done. Whoever calls rg_error, rg_error_code or rg_error_clear
 * looks, and so does a handler. The library itself never calls these three: it reads
 * rgi_this.failure, which leaves the failure unread. */
#define rgi_fail(...)         \
    __extension__({           \
        rg_fail(__VA_ARGS__); \
        (void *)0;            \
    })

/* Returns whether a failure stands, be it read or unread. */
static inline bool rgi_failed(void) { return rgi_this.failure.code != RG_OK; }

/* A function that tries something and looks at the failure itself sets the earlier failure aside,
 * so that none stands while it tries. Afterwards it brings that one back, which then stands again
 * if it is unread, or if no other stands. */
void rgi_set_failure_aside(rg_failure *aside);
void rgi_bring_failure_back(const rg_failure *aside);

/* Forgets the failure that stands. Between the two above it makes room for a better sentence. */
void rgi_forget_failure(void);

/* Halts training, and returns false: a function that failed to compute gradients, or to change
 * gradients or weights, ends with `return rgi_halt_training();`. As long as nobody looks at the
 * failure that stands, training is halted: what would change weights or write them to a file
 * fails, too, by `if (rgi_training_halted()) return false;`, and leaves that failure as it is. */
bool rgi_halt_training(void) __attribute__((cold));
static inline bool rgi_training_halted(void) {
    return RG_UNLIKELY(rgi_this.failure.halts) && !rgi_tell_unread();
}
/* These two do both: the call runs unless training is halted, and halts it where it returns false,
 * or NULL. Return what the call returns; false, or NULL, where it didn't run. */
#define RG_UNLESS_HALTED(call)        (!rgi_training_halted() && ((call) || rgi_halt_training()))
#define RG_TENSOR_UNLESS_HALTED(call) (rgi_training_halted() ? NULL : rgi_halting(call))
static inline rg_tensor *rgi_halting(rg_tensor *t) {
    if (!t)
        rgi_halt_training();
    return t;
}

/* Where the condition holds, these fail and return NULL, or false, from their caller: RG_FAIL_IF
 * with torch's RuntimeError, the others with other codes. */
#define RG_FAIL_IF(condition, ...)       RG_FAIL_AS_IF(RG_RUNTIME_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_INDEX_IF(condition, ...) RG_FAIL_AS_IF(RG_INDEX_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_VALUE_IF(condition, ...) RG_FAIL_AS_IF(RG_VALUE_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_AS_IF(code, condition, ...)     \
    do {                                        \
        if (RG_UNLIKELY(condition))             \
            return rgi_fail(code, __VA_ARGS__); \
    } while (0)

/* A function that is made of others says RG_AS("relu6"): from there to the end of the block, every
 * failure carries that name. Where such functions call each other, the outermost one's name
 * counts. */
#define RG_AS(name)                           \
    const char *RG_PASTE(rg_as_, __COUNTER__) \
        __attribute__((cleanup(rgi_as_end), unused)) = rgi_as(name)
static inline const char *rgi_as(const char *name) {
    const char *before = rgi_named_as;
    if (!before)
        rgi_named_as = name;
    return before;
}
static inline void rgi_as_end(const char **before) { rgi_named_as = *before; }

/* Returns whether `it`, an argument that is no tensor, isn't NULL. NULL fails with the sentence
 * that `what` was expected ("a module"), unless an error stands already. */
bool rgi_given(const void *it, const char *op, const char *what);
/* Does so for a path. No call gives paths, so that NULL is a failure of its own, whatever error
 * stands. */
bool rgi_given_path(const char *path, const char *op);
/* Returns whether v can be a list of n items. A negative n fails, and so does a v of NULL, unless n
 * is 0; an error that stands already stays. */
bool rgi_given_list(int64_t n, const void *v, const char *op);
/* Refuses an option's number beside its list, which has n values: the number would have no effect.
 * `absent` is the number that stands for none. */
bool rgi_given_once(const char *op, const char *what, int64_t number, int64_t absent, int n);
/* Every function that returns a list of tensors returns this where it fails. */
extern const rg_list rgi_list_failed;
/* Returns whether it is a list, and each of its tensors may be worked on. */
bool rgi_check_list(rg_list list, const char *op);
/* Returns whether t may be worked on, as rgi_check (structs.h) does, to a file that doesn't see the
 * struct of tensors. */
bool rgi_given_tensor(rg_tensor *t, const char *op);

/*
 * error.h: how a call fails. tensor.h has the public functions, which read the error.
 */
#pragma once

#include "thread.h"
#include "unread.h"

/* Fails with "op: sentence", and returns NULL. If the sentence begins with the op's name, as in
 * "op(): ..", the name isn't repeated. If op is NULL, the op that is being applied, if any, is
 * named. The macro wraps the call so that the compiler sees that the value is NULL.
 *
 * The failure becomes the thread's error, unless there is an earlier one that the program hasn't
 * looked at: a later failure mostly follows from an earlier one, by a number such as -1 or NaN, by
 * false, or by what was not done. A program looks by rg_error, rg_error_code or rg_error_clear, or
 * by a handler. The library itself never calls these three: it reads rgi_this.failure, which leaves
 * the failure unread. */
#define rgi_fail(...)         \
    __extension__({           \
        rg_fail(__VA_ARGS__); \
        (void *)0;            \
    })

/* Returns whether the thread has an error, read or unread. */
static inline bool rgi_failed(void) { return rgi_this.failure.code != RG_OK; }

/* A function that tries something, and handles the failure itself, calls the first of these before
 * and the second one after. The first sets the thread's error aside, so that there is none. The
 * second restores it if it is unread, or if there is no other error. */
void rgi_set_failure_aside(rg_failure *aside);
void rgi_bring_failure_back(const rg_failure *aside);

/* Forgets the thread's error. Between the two above, a function calls this to fail with a better
 * sentence. */
void rgi_forget_failure(void);

/* Halts training, and returns false: a function that failed to compute gradients, or to change
 * gradients or weights, ends with `return rgi_halt_training();`. Training stays halted until the
 * program looks at the error: functions that would change weights or write them to a file fail,
 * too, by `if (rgi_training_halted()) return false;`, and keep that error. */
bool rgi_halt_training(void) __attribute__((cold));
static inline bool rgi_training_halted(void) {
    return RG_UNLIKELY(rgi_this.failure.halts) && !rgi_tell_unread();
}
/* Run a call unless training is halted, and halt training if the call returns false or NULL. They
 * return the result of the call, or false or NULL if it didn't run. */
#define RG_UNLESS_HALTED(call)        (!rgi_training_halted() && ((call) || rgi_halt_training()))
#define RG_TENSOR_UNLESS_HALTED(call) (rgi_training_halted() ? NULL : rgi_halting(call))
static inline rg_tensor *rgi_halting(rg_tensor *t) {
    if (!t)
        rgi_halt_training();
    return t;
}

/* Fail if the condition holds, and return NULL, or false, from their caller: RG_FAIL_IF with
 * torch's RuntimeError, the others with other codes. */
#define RG_FAIL_IF(condition, ...)       RG_FAIL_AS_IF(RG_RUNTIME_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_INDEX_IF(condition, ...) RG_FAIL_AS_IF(RG_INDEX_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_VALUE_IF(condition, ...) RG_FAIL_AS_IF(RG_VALUE_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_AS_IF(code, condition, ...)     \
    do {                                        \
        if (RG_UNLIKELY(condition))             \
            return rgi_fail(code, __VA_ARGS__); \
    } while (0)

/* RG_AS("relu6") is for a function that is made of others: from there to the end of the block,
 * every failure has that name. If such functions call each other, the name of the outermost one is
 * used. */
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
 * that `what` ("a module") was expected, unless there is an error already. */
bool rgi_given(const void *it, const char *op, const char *what);
/* Returns whether the path isn't NULL. NULL fails, even if there is an error already: no function
 * of the library returns paths, so that NULL can't follow from an earlier failure. */
bool rgi_given_path(const char *path, const char *op);
/* Returns whether v can be a list of n items. Fails if n is negative, or if v is NULL and n isn't
 * 0, unless there is an error already. */
bool rgi_given_list(int64_t n, const void *v, const char *op);
/* Fails if an option's number is given besides its list, which has n values: the number would have
 * no effect. `absent` is the number that means that none is given. */
bool rgi_given_once(const char *op, const char *what, int64_t number, int64_t absent, int n);
/* The result of every function that returns a list of tensors and fails. */
extern const rg_list rgi_list_failed;
/* Returns whether it is a list, all of whose tensors pass rgi_check (structs.h). */
bool rgi_check_list(rg_list list, const char *op);
/* Returns what rgi_check (structs.h) does, for files that don't see the struct of tensors. */
bool rgi_given_tensor(rg_tensor *t, const char *op);

/*
 * error.h: how a function of the library fails. The public functions that read the error, such as
 * rg_error, are in tensor.h.
 */
#pragma once

#include "thread.h"
#include "messages/unread.h"

/* Fails with the message "op: sentence", and returns NULL. If the sentence begins with the op's
 * name, as in "op(): ..", the name isn't put before it again. If the argument op is NULL, the
 * message names the op that is being applied, if there is one. The macro wraps the call so that the
 * compiler sees that the value is NULL.
 *
 * The failure becomes the thread's error, unless the thread has an earlier error that the program
 * hasn't read yet. The earlier error stays, because the later failure is mostly its consequence:
 * the program went on with the -1, NaN, NULL or false that a failed call returned, or with what it
 * left undone. A program reads the error by rg_error, rg_error_code or rg_error_clear, or gets it
 * in its handler (rg_on_error). The library itself never calls these functions: it reads
 * rgi_this.failure, which leaves the failure unread. */
#define rgi_fail(...)         \
    __extension__({           \
        rg_fail(__VA_ARGS__); \
        (void *)0;            \
    })

/* Returns whether the thread has an error, read or unread. */
static inline bool rgi_failed(void) { return rgi_this.failure.code != RG_OK; }
/* Returns whether a NULL that a function is given is probably a consequence of the thread's error,
 * so that the function fails without a failure of its own. After the program itself has read an
 * error, the error explains no later NULL. An error that only the program's handler has got still
 * explains a NULL, because the chain of calls that failed may go on after the handler has
 * returned. */
static inline bool rgi_null_is_explained(void) {
    const rg_thread *me = &rgi_this;
    return rgi_failed() && (me->failure.unread || me->failures.read != me->failures.all);
}

/* A caller that wants to see whether some calls fail makes them between these two functions.
 * rgi_save_failure moves an earlier error of the thread into *saved. rgi_restore_failure puts the
 * earlier error back if the program hasn't read it yet, or if the calls left no error. */
void rgi_save_failure(rg_failure *saved);
void rgi_restore_failure(const rg_failure *saved);
/* A caller that handles the failure of an attempt itself makes the attempt between these two
 * functions. They save and restore an earlier error, as rgi_save_failure and rgi_restore_failure
 * do. During the attempt no failure is reported. If the attempt leaves an error, that error is
 * reported after the attempt as usual. */
void rgi_set_failure_aside(rg_failure *aside);
void rgi_bring_failure_back(const rg_failure *aside);
/* Ends an attempt of whose failures only a lack of memory counts: forgets any other failure, and
 * brings the earlier error back. Returns whether there was memory enough. */
bool rgi_attempt_had_memory(const rg_failure *aside);

/* Appends the place of a failure, such as " (in module encoder.layers.0)", to the message of the
 * thread's error. Does nothing if that failure is one of the first `before` failures of the thread,
 * has a place already (the innermost place stays), or means that memory ran out. */
void rgi_failed_inside(int64_t before, const char *place) __attribute__((cold));

/* Clears the thread's error, before a function fails again with a better message. */
void rgi_forget_failure(void);

/* Halts training, and returns false. A function that failed to compute gradients, or to change
 * gradients or weights, ends with `return rgi_halt_training();`. Training stays halted until the
 * program reads the error. Until then, functions that would change weights or write them to a file
 * fail as well, by `if (rgi_training_halted()) return false;`, and leave the error as it is. */
bool rgi_halt_training(void) __attribute__((cold));
static inline bool rgi_training_halted(void) {
    return RG_UNLIKELY(rgi_this.failure.halts) && !rgi_tell_unread();
}
/* RG_UNLESS_HALTED and RG_TENSOR_UNLESS_HALTED make a call unless training is halted, and halt
 * training if the call returns false or NULL. The value of the macro is the result of the call. If
 * training was halted before, the call isn't made, and the value is false or NULL. */
#define RG_UNLESS_HALTED(call)        (!rgi_training_halted() && ((call) || rgi_halt_training()))
#define RG_TENSOR_UNLESS_HALTED(call) (rgi_training_halted() ? NULL : rgi_halting(call))
static inline rg_tensor *rgi_halting(rg_tensor *t) {
    if (!t)
        rgi_halt_training();
    return t;
}

/* If the condition holds, these macros fail, and return NULL or false from the function in which
 * they stand. RG_FAIL_IF fails with RG_RUNTIME_ERROR, as torch does in most cases; the others fail
 * with another code. */
#define RG_FAIL_IF(condition, ...)       RG_FAIL_AS_IF(RG_RUNTIME_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_INDEX_IF(condition, ...) RG_FAIL_AS_IF(RG_INDEX_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_VALUE_IF(condition, ...) RG_FAIL_AS_IF(RG_VALUE_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_AS_IF(code, condition, ...)     \
    do {                                        \
        if (RG_UNLIKELY(condition))             \
            return rgi_fail(code, __VA_ARGS__); \
    } while (0)

/* RG_AS("relu6") is for a function that is composed of other functions of the library. From RG_AS
 * to the end of the block, every failure is reported under that name, "relu6". If such functions
 * call each other, failures are reported under the name of the outermost one. */
#define RG_AS(name)                           \
    const char *RG_PASTE(rg_as_, __COUNTER__) \
        __attribute__((cleanup(rgi_as_end), unused)) = rgi_as(name)
static inline const char *rgi_as(const char *name) {
    const char *before = rgi_named_as;
    if (!before) {
        rgi_named_as = name;
        rgi_named_calls++;
    }
    return before;
}
static inline void rgi_as_end(const char **before) { rgi_named_as = *before; }

/* Returns whether the argument `it`, a pointer to an object other than a tensor, isn't NULL. If it
 * is NULL, fails with the message that `what` ("a module") was expected, unless the thread's error
 * explains the NULL (rgi_null_is_explained). */
bool rgi_given(const void *it, const char *op, const char *what);
/* Returns whether the path isn't NULL. Fails if it is NULL, even if the thread has an error
 * already: no function of the library returns a path, so an earlier failure can't be the cause. */
bool rgi_given_path(const char *path, const char *op);
/* Returns whether the function `f` of the program isn't NULL, and fails as rgi_given_path does. */
#define RG_GIVEN_FUNCTION(f, op) \
    (RG_LIKELY(f) || rgi_fail(RG_TYPE_ERROR, op, "expected a function but got NULL"))
/* Returns whether v can be an array of n items. Fails if n is negative, or if v is NULL and n isn't
 * 0. The failure has no message of its own if the thread's error explains it. */
bool rgi_given_list(int64_t n, const void *v, const char *op);
/* A function that returns a list of tensors returns this value if it fails. */
extern const rg_list rgi_list_failed;
/* Returns whether the list is valid and every tensor in it passes rgi_check (structs.h). */
bool rgi_check_list(rg_list list, const char *op);

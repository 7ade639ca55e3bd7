/*
 * error.h: how a call fails. The public half, which reads the error, is in
 * tensor.h.
 */
#pragma once

#include "thread.h"

/* Records "op: sentence" as the thread's error, and returns NULL. A sentence that begins with the
 * op's name, "op(): ..", gets no other. An op of NULL stands for the one that is being applied, if
 * there is one. A macro wraps the call, so that the compiler sees that the value is NULL. */
#define rgi_fail(...)           \
    __extension__({             \
        rgi_fail_(__VA_ARGS__); \
        (void *)0;              \
    })
void rgi_fail_(rg_code code, const char *op, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

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

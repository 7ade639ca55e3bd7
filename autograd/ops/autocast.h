/*
 * autocast.h: the place at which functions ask whether autocast is on (tools/autocast.h). It names
 * no function of autograd/tools/autocast.c, so that programs without autocast don't contain it.
 */
#pragma once

#include "autograd/op.h"

/* The dtypes to which a function's inputs are cast: RG_LOWER is autocast's dtype of 16 bits,
 * RG_WIDER float32, RG_WIDEST the result type of all inputs that are floating point, and
 * RG_AS_FIRST that of the first two. */
typedef enum rg_cast { RG_LOWER, RG_WIDER, RG_WIDEST, RG_AS_FIRST } rg_cast;

/* The functions of autocast. The thread's `autocast` points to them while autocast is on, except
 * inside a call whose inputs were cast. `begin` begins such a call: it opens a scope, which owns
 * the casts, puts the casts into in[], and switches autocast off. It returns false if autocast
 * doesn't concern the call, as in the rules of a backward run. `end` switches autocast on again,
 * ends the scope, and returns y, the call's result. */
typedef struct rg_autocaster {
    bool (*begin)(rg_cast how, int n, rg_tensor *in[], size_t *scope);
    rg_tensor *(*end)(size_t scope, rg_tensor *y);
} rg_autocaster;

/* The first line of a function whose inputs are cast under autocast: returns from the function with
 * the value of `again`, which calls the function with the casts in[0], in[1] .. of the inputs that
 * follow. A cast that failed is NULL. */
#define RG_AUTOCASTS(how, again, ...)                     \
    do {                                                  \
        const rg_autocaster *caster = rgi_this.autocast;  \
        if (RG_LIKELY(!caster))                           \
            break;                                        \
        rg_tensor *in[] = { __VA_ARGS__ };                \
        size_t scope;                                     \
        if (caster->begin(how, RG_COUNT(in), in, &scope)) \
            return caster->end(scope, again);             \
    } while (0)

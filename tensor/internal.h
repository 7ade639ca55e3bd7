/*
 * internal.h: all headers of tensor/'s rooms at once, for files that don't include
 * each the rooms that it uses.
 */
#pragma once

#include "base.h"
#include "copy.h"
#include "dtype.h"
#include "error.h"
#include "c_locale.h"
#include "memory.h"
#include "observer.h"
#include "parallel.h"
#include "refs.h"
#include "scope.h"
#include "shape.h"
#include "storage.h"
#include "structs.h"
#include "text.h"
#include "thread.h"
#include "walk.h"

#include <locale.h>
#include <stdatomic.h>
#include <string.h>

/* The instruction set whose loops run; kernels/sets.h names the sets. */
extern int k_set;

/* RG_WIDE(name, (parameters), (arguments)) { a loop }: compiled twice; the copy with longer vectors
 * and a multiply-add instruction is run where the processor has them. The bits are the same: fma
 * rounds once in either. */
#ifdef __x86_64__
#define RG_WIDE(name, parameters, arguments)                                           \
    static inline __attribute__((always_inline)) void name##_loop parameters;          \
    __attribute__((target("avx2,fma"), noinline)) static void name##_avx2 parameters { \
        name##_loop arguments;                                                         \
    }                                                                                  \
    static void name parameters {                                                      \
        if (k_set)                                                                     \
            name##_avx2 arguments;                                                     \
        else                                                                           \
            name##_loop arguments;                                                     \
    }                                                                                  \
    static inline __attribute__((always_inline)) void name##_loop parameters
#else
#define RG_WIDE(name, parameters, arguments) static void name parameters
#endif

/*
 * references.h: the functions of one tensor in tensor/kernels/elementwise.def, and their exact
 * values. references.c has a row for each.
 */
#pragma once

#include "regard.h"

#include <mpfr.h>

/* The number of bits in which MPFR computes. */
enum { BITS = 128 };

typedef struct {
    const char *name;
    rg_tensor *(*regard)(rg_tensor *x);
    float (*libc)(float x);        /* NULL if the C library has no such function. */
    double (*in_double)(double x); /* The function of the C library if it has one. */
    int (*exact)(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rounding);
} measured;

extern const measured functions[];
extern const int n_functions;

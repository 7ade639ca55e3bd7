/*
 * libm.h: which functions of the library have bits that depend on the C library, and whether this C
 * library gives the bits that the tests' files of hashes were made with.
 */
#pragma once

#include "hash.h"

/* A hash of the C library's functions at many numbers: of glibc 2.36 on a processor with FMA. */
#define LIBM_KNOWN 0x7e2bbce5u

/* Returns whether this C library gives the bits of LIBM_KNOWN. */
static inline bool libm_is_known(void) {
    static double (*const of_any[])(double) = { sin, cos, tan, atan, erf, erfc, exp, expm1, cbrt };
    static double (*const of_unit[])(double) = { asin, acos, log, log1p, log2, exp2 };
    static float (*const of_float[])(float) = { sinf, cosf, tanf };
    uint64_t hash = 1;
    for (int i = 1; i < 4000; i++) {
        const double unit = i / 4001.0;
        for (size_t k = 0; k < sizeof of_any / sizeof *of_any; k++)
            hash_real(of_any[k]((unit - 0.5) * 12), &hash);
        for (size_t k = 0; k < sizeof of_unit / sizeof *of_unit; k++)
            hash_real(of_unit[k](unit), &hash);
        for (size_t k = 0; k < sizeof of_float / sizeof *of_float; k++)
            hash_real(of_float[k]((float)i * 1e30f), &hash);
        hash_real(pow(unit * 9, 4 - 7 * unit), &hash);
        hash_real(atan2(unit, 0.3 - unit), &hash);
    }
    return (uint32_t)hash == LIBM_KNOWN;
}

/* Returns whether rg_NAME calls the C library for some numbers. These are the functions whose
 * hashes change if each function of the C library returns the next larger number. */
static inline bool calls_libm(const char *name) {
    static const char names[] =
        " sin sin_ cos cos_ tan tan_ asin asin_ acos acos_ atan atan_ erf erf_ erfc erfc_ gelu "
        "gelu_tanh atan2 atan2_ pow pow_ norm_p norm_dim norm_dims logsumexp logsumexp_dims "
        "logcumsumexp norm_p_as norm_dim_as norm_dims_as cdist_with embedding_with normalize "
        "pairwise_distance triplet_margin_loss_with logspace randn_dims randn_like normal_with_ "
        "trunc_normal_with_ exponential_with_ nn_gelu nn_gelu_tanh nn_triplet_margin_loss_with "
        "nn_init_normal_ nn_init_trunc_normal_ nn_init_xavier_normal_ nn_init_orthogonal_ "
        "nn_init_kaiming_normal_with_ optim_multi_step_lr optim_cosine_annealing_lr "
        "optim_one_cycle_lr optim_polynomial_lr ";
    const size_t n = strlen(name);
    for (const char *at = strstr(names, name); at; at = strstr(at + 1, name))
        if (at[-1] == ' ' && at[n] == ' ')
            return true;
    return false;
}

/*
 * gelu.h: the coefficients of polynomials for gelu, for its tanh form, and for their derivatives.
 * activations.c includes this file.
 *
 * gelu and its tanh form are x * s(x), where the share s(x) goes from 0 at -infinity to 1 at
 * infinity, and s(-x) = 1 - s(x). The derivatives of both functions have these two properties of a
 * share as well. So all four functions are computed in the same way, from the tail t(y) = 1 - s(y)
 * at y = |x|. The tail counts as 0 for y > 7.25. For other y the tail is one of SHARE_PIECES
 * polynomials in u, where u is y minus the nearest multiple of 1/2. The derivatives are steeper, so
 * the degree of their polynomials is higher by 1. (Computing the tail from an exponential and a
 * polynomial would take twice as many multiplications.)
 */
#pragma once

#include "kernels.h"

#include <math.h>

static share_pieces share_gelu, share_gelu_grad, share_gelu_tanh, share_gelu_tanh_grad;

#define SHARE_RISE (2 * M_SQRT1_2 * M_2_SQRTPI) /* 2 sqrt(2 / pi) */

/* ---- the tails of the four shares ------------------------------------------------------------ */

static double share_of_normal(double y) { return erfc(y * M_SQRT1_2) / 2; }
static double share_of_normal_slope(double y) {
    return share_of_normal(y) - y * exp(-y * y / 2) * SHARE_RISE / 4;
}
static double share_of_tanh(double y) {
    return 1 / (1 + exp(SHARE_RISE * (y + 0.044715 * y * y * y)));
}
static double share_of_tanh_slope(double y) {
    const double s = share_of_tanh(y);
    return s - y * s * (1 - s) * SHARE_RISE * (1 + 3 * 0.044715 * y * y);
}

/* Fits a polynomial in u to each piece of f. The polynomial has the degree SHARE_DEGREE, or one
 * more if `steep`. f is interpolated at the zeros of a Chebyshev polynomial by divided differences,
 * and the result is expanded into powers of u. */
static void share_fit(share_pieces to, bool steep, double (*f)(double)) {
    const int n = SHARE_DEGREE + steep + 1;
    for (int piece = 0; piece < SHARE_PIECES; piece++) {
        double u[SHARE_DEGREE + 2];
        double difference[SHARE_DEGREE + 2];
        double product[SHARE_DEGREE + 2] = { 0 };
        for (int k = 0; k < n; k++) {
            u[k] = cos(M_PI * (k + 0.5) / n) / 4;
            difference[k] = f(piece / 2.0 + u[k]);
        }
        for (int i = 1; i < n; i++)
            for (int k = n - 1; k >= i; k--)
                difference[k] = (difference[k] - difference[k - 1]) / (u[k] - u[k - i]);
        for (int k = n - 1; k >= 0; k--)
            for (int i = n - 1; i >= 0; i--)
                product[i] = (i ? product[i - 1] : difference[k]) - u[k] * product[i];
        for (int i = 0; i < n; i++)
            to[i][piece] = (float)product[i];
    }
}

__attribute__((constructor)) static void share_fit_all(void) {
    share_fit(share_gelu, false, share_of_normal);
    share_fit(share_gelu_grad, true, share_of_normal_slope);
    share_fit(share_gelu_tanh, false, share_of_tanh);
    share_fit(share_gelu_tanh_grad, true, share_of_tanh_slope);
}

const share_pieces *k_share_pieces(const char *name, size_t n) {
    static const struct {
        const char *name;
        const share_pieces *pieces;
    } all[] = { { "share_gelu", &share_gelu },
                { "share_gelu_grad", &share_gelu_grad },
                { "share_gelu_tanh", &share_gelu_tanh },
                { "share_gelu_tanh_grad", &share_gelu_tanh_grad } };
    int i = 0;
    while (strlen(all[i].name) != n || memcmp(all[i].name, name, n))
        i++;
    return all[i].pieces;
}

/*
 * smooth.c: the limits of the exponentials in smooth.h, which explains them.
 */
#include "smooth.h"

const float k_exp_least = -132.4f;
const float k_exp_most = 89;
const float k_exp_flush = -88.03f;

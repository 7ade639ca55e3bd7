/*
 * smooth.c: the limits of smooth.h's exponentials, which that header explains.
 */
#include "smooth.h"

const float k_exp_least = -132.4f;
const float k_exp_most = 89;
const float k_exp_flush = -88.03f;

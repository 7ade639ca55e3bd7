/*
 * smooth.c: defines the limits of x in e^x that smooth.h declares and explains.
 */
#include "smooth.h"

const float k_exp_least = -132.4f;
const float k_exp_most = 89;
const float k_exp_flush = -88.03f;

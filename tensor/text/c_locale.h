/*
 * c_locale.h: switches a thread to the C locale, in which numbers are written with a decimal point,
 * whatever locale the program has set.
 */
#pragma once

#include "tensor/system/system.h"
#include "tensor/tensor.h"

/* Sets the calling thread's locale to the C locale, and sets the previous locale again at the end
 * of the block. */
#define RG_C_NUMBERS()                          \
    rg_locale RG_PASTE(rg_locale_, __COUNTER__) \
        __attribute__((cleanup(rgi_locale_back), unused)) = rgi_locale_c()

/*
 * c_locale.h: switches a thread to the C locale, in which numbers are written with a decimal point,
 * whatever locale the program has set.
 */
#pragma once

#include "tensor/tensor.h"

#include <locale.h>

/* Sets the thread's locale to the C locale, and returns the previous one. */
locale_t rgi_locale_c(void);
static inline void rgi_locale_back(locale_t *before) { uselocale(*before); }

/* Sets the thread's locale to the C locale up to the end of the block. */
#define RG_C_NUMBERS()                         \
    locale_t RG_PASTE(rg_locale_, __COUNTER__) \
        __attribute__((cleanup(rgi_locale_back), unused)) = rgi_locale_c()

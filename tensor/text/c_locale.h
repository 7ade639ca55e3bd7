/*
 * c_locale.h: numbers in texts have a point, whatever locale the program has set.
 */
#pragma once

#include "tensor/tensor.h"

#include <locale.h>

/* Makes the thread's locale C's, and returns what it was. */
locale_t rgi_locale_c(void);
static inline void rgi_locale_back(locale_t *before) { uselocale(*before); }

/* From here to the end of the block the thread's locale is C's. */
#define RG_C_NUMBERS()                         \
    locale_t RG_PASTE(rg_locale_, __COUNTER__) \
        __attribute__((cleanup(rgi_locale_back), unused)) = rgi_locale_c()

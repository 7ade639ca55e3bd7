/*
 * c_locale.c: the C locale, which is made once and never freed.
 */
#define _GNU_SOURCE
#include "c_locale.h"

locale_t rgi_locale_c(void) {
    static _Atomic(locale_t) made;
    locale_t c = made;
    if (!c) {
        c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        made = c;
    }
    return uselocale(c);
}

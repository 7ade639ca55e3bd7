/*
 * locale.h: sets a locale that the system may not have installed.
 */
#pragma once

#include "test.h"

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Sets the locale LANGUAGE.UTF-8, such as "de_DE", of the system's, or makes one. Returns false if
 * there is none, since the system has no localedef or no sources of locales. */
static inline bool set_locale(const char *language) {
    char name[32], make[128], folder[] = "/tmp/regard-locale-XXXXXX";
    snprintf(name, sizeof name, "%s.UTF-8", language);
    if (setlocale(LC_ALL, name))
        return true;
    if (!mkdtemp(folder))
        return false;
    snprintf(make, sizeof make, "localedef -i %s -f UTF-8 %s/%s >/dev/null 2>&1", language, folder,
             name);
    const bool made = system(make) == 0;
    setenv("LOCPATH", folder, 1);
    const bool set = made && setlocale(LC_ALL, name);
    snprintf(make, sizeof make, "rm -rf %s", folder);
    return system(make) == 0 && set;
}

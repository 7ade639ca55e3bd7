/*
 * unheld.h: an entry of a file whose value no tensor can hold. A loader gives it a header in a
 * state of its own, so that the rest of the file can be read: each function that is given that
 * header fails, and says which entry it is. The header's name is the sentence.
 */
#pragma once

#include "structs.h"

enum { RG_UNHELD = 0x554E4845 };

static inline bool rgi_is_unheld(const rg_tensor *t) { return t && t->state == RG_UNHELD; }

/*
 * unheld.h: a header for an entry of a file whose value no tensor can hold. The header has a state
 * of its own, so that the rest of the file can be read, and each function that is given the header
 * fails. The header's name is the error's sentence, which names the entry.
 */
#pragma once

#include "structs.h"

enum { RG_UNHELD = 0x554E4845 };

static inline bool rgi_is_unheld(const rg_tensor *t) { return t && t->state == RG_UNHELD; }

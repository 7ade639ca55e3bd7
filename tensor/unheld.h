/*
 * unheld.h: a stand-in for an entry of a file whose value no tensor can hold, such as an integer
 * too large for int64, so that the rest of the file can be read. It is a tensor header with the
 * state RG_UNHELD. Every function that is given this tensor fails. The error message, which names
 * the entry, is stored as the header's name.
 */
#pragma once

#include "structs.h"

enum { RG_UNHELD = 0x554E4845 };

static inline bool rgi_is_unheld(const rg_tensor *t) { return t && t->state == RG_UNHELD; }

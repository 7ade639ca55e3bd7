/*
 * unheld.h: a tensor header that stands for an entry of a file if no tensor can hold the entry's
 * value. So the rest of the file can be read. The header has a state of its own, RG_UNHELD, so
 * that each function that is given the header as a tensor fails. The error's message is stored as
 * the header's name; it names the entry.
 */
#pragma once

#include "structs.h"

enum { RG_UNHELD = 0x554E4845 };

static inline bool rgi_is_unheld(const rg_tensor *t) { return t && t->state == RG_UNHELD; }

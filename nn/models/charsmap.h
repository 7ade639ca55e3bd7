/*
 * charsmap.h: applies Sentencepiece's table of characters (rg_charsmap). Private.
 */
#pragma once

#include "normalizer.h"

/* Appends to `to` the piece with characters replaced as in the table. Returns false if memory runs
 * out. */
bool rgi_charsmap_apply(const rg_charsmap *c, const rg_unicode *u, rg_aligned *to,
                        const rg_piece *p);

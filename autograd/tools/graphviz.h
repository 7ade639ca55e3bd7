/*
 * graphviz.h: the helper of all drawings in Graphviz's language.
 */
#pragma once

#include "tensor/text/text.h"

/* Adds a text, escaped for Graphviz's quotes. A control character becomes a blank. */
void rgi_add_label(rg_text *t, const char *text);

/*
 * graphviz.h: what every drawing in Graphviz's language needs.
 */
#pragma once

#include "tensor/text/text.h"

/* Adds a text as Graphviz takes it between quotes. A control character becomes a blank. */
void rgi_add_label(rg_text *t, const char *text);

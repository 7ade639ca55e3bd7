/*
 * graphviz.h: declares rgi_add_label, which all drawings in Graphviz's language use.
 */
#pragma once

#include "tensor/text/text.h"

/* Adds `text` to t, escaped for use between quotes in Graphviz's language. Each control character
 * becomes a blank, and each byte that isn't UTF-8 a question mark. */
void rgi_add_label(rg_text *t, const char *text);

/*
 * child.h: checks the class of a child whose fields a layer reads. A program can put a module of
 * another class in the child's place, and that module has other fields. A child that is only called
 * needs no check. Private.
 */
#pragma once

#include "layers.h"

/* Fails and returns false unless the child is a module and `is` accepts it. In the error message,
 * `what` is the child's name, and `wanted` the name of the class that it must have. */
bool rgi_want_child(const char *op, const char *what, const void *child,
                    bool (*is)(const rg_module *m), const char *wanted);
/* rgi_want_linear accepts a Linear, and rgi_want_layers a ModuleList or another container. */
bool rgi_want_linear(const char *op, const char *what, const void *child);
bool rgi_want_layers(const char *op, const char *what, const void *child);
/* The classes of Dropout and Identity. */
extern const rg_module_class rgi_dropout_class, rgi_identity_class;
/* Returns the probability with which the child, a Dropout or an Identity, drops an element in
 * training mode. If the child is another module, fails and returns NaN. */
double rgi_dropout_of(const char *op, const char *what, const void *child);

/*
 * regex_nodes.h: the nodes of a regular expression. regex_compile.c makes them, and regex.c matches
 * texts with them. Private.
 */
#pragma once

#include "regex.h"

/* The node with the index 0 accepts. */
enum { NODE_0_ACCEPTS = 0 };

typedef enum {
    NODE_ACCEPT, /* The match is complete. */
    NODE_SET,    /* Matches `least` to `most` characters of a set, and then `next`. */
    NODE_EITHER, /* Matches `inside` or else `next`, which is another choice, or 0. */
    NODE_LOOK,   /* Matches `next` if `inside` matches here, or with `negated` doesn't. */
    NODE_JOIN    /* Matches `next`: the end of a group. */
} node_kind;

/* The characters of a set: ASCII in `ascii`. Others are in the set if their class (unicode.h) has a
 * bit in `classes` or they are in one of `n_ranges` ranges; with `negated`, if neither. Nodes of
 * other kinds have in `ascii` the characters with which a match from there on can begin, once
 * `begins` is set. */
typedef struct rg_regex_node {
    node_kind kind;
    uint32_t next, inside;
    bool negated, possessive, begins;
    bool ends; /* Nothing follows that has to match. */
    uint32_t least, most;
    uint64_t ascii[2], classes[4];
    uint32_t ranges, n_ranges;
} regex_node;

typedef struct rg_regex_range {
    uint32_t first, last;
} regex_range;

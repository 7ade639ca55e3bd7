/*
 * structs.h: the tensor, its storage and its history, as the rooms above see
 * them. What makes and releases them is in storage.h.
 */
#pragma once

#include "error.h"
#include "refs.h"

#include <string.h>

typedef struct rg_storage {
    atomic_int refs;
    uint32_t version;     /* writes since birth */
    uint32_t rebased;     /* of those, the ones that the graph recorded */
    const char *mutation; /* the name of the last write */
    size_t bytes;         /* of data */
    void *data;           /* behind this header */
} rg_storage;

/* tensor/ knows no more of a tensor's past than this: how to print it, and how to release it. */
typedef struct rg_history rg_history;
typedef struct rg_history_class {
    const char *(*name)(const rg_history *h); /* Returns "AddBackward0"; for a leaf NULL. */
    void (*release)(rg_history *h);
} rg_history_class;
struct rg_history {
    const rg_history_class *cls;
    char *name; /* the name that its tensor was given */
};

enum { RG_ALIVE = 0x52454741, RG_DEAD = 0x44454144 };
enum rg_tensor_flags {
    RG_CONTIGUOUS = 1,
    RG_WEAK = 2, /* a wrapped number: weak in promotion */
    RG_VIEW = 4, /* shares another tensor's storage, and its history */
    RG_RETAINS_GRAD = 8,
    RG_IS_PARAMETER = 16, /* a module's: prints as one */
};

struct rg_tensor {
    rg_storage *storage; /* first: a released header's free-list link may overwrite it, */
    uint32_t state;      /* but never this: RG_ALIVE or RG_DEAD */
    atomic_int refs;
    uint8_t dtype, ndim, flags;
    uint8_t output;   /* which output of its history it is */
    atomic_uint slot; /* where the scope stack last put it: a hint */
    atomic_uint kept; /* how often rg_keep took it out */
    uint32_t rebased; /* the storage's count when this header got its history */
    int64_t numel;
    char *data;          /* of the first element */
    rg_history *history; /* not NULL: requires grad */
    char *name;
    int64_t size[RG_MAX_DIMS];
    int64_t stride[RG_MAX_DIMS]; /* in elements */
};

static inline bool rgi_is_none(const rg_tensor *t) { return t == RG_NONE; }

/* Returns whether t may be worked on. NULL (silently where an error stands already), RG_NONE and a
 * released tensor fail. */
static inline bool rgi_check(rg_tensor *t, const char *op);
bool rgi_check_slow(rg_tensor *t, const char *op) __attribute__((cold));
static inline bool rgi_check(rg_tensor *t, const char *op) {
    return RG_LIKELY(t && t->state == RG_ALIVE && t != RG_NONE) || rgi_check_slow(t, op);
}

/* A number that stands elsewhere, as a 0-d tensor. */
#define RG_NUMBER(type, place)            \
    ((rg_tensor){ .state = RG_ALIVE,      \
                  .dtype = type,          \
                  .flags = RG_CONTIGUOUS, \
                  .numel = 1,             \
                  .data = (char *)(place) })

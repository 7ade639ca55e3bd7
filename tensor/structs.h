/*
 * structs.h: the tensor, its storage and its history, as all other rooms see
 * them. What makes and releases them is in storage.h.
 */
#pragma once

#include "error.h"
#include "refs.h"

#include <string.h>

/* A storage is a block that begins with these fields; its data follow them, and take `bytes` bytes.
 * The version counts the writes since birth; `mutation` names the function that wrote last. What
 * was made in inference mode is of `inference`, as are all views of it. */
typedef struct rg_storage {
    atomic_int refs;
    uint32_t version;
    const char *mutation;
    size_t bytes;
    void *data;
    bool inference;
} rg_storage;

/* tensor/ knows no more of a tensor's past than this: how to print it, and how to release it. */
typedef struct rg_history rg_history;
typedef struct rg_history_class {
    const char *(*name)(rg_tensor *t); /* Returns t's "AddBackward0"; for a leaf NULL. */
    void (*release)(rg_history *h);
} rg_history_class;
/* `name` is the one that its tensor was given, or NULL. */
struct rg_history {
    const rg_history_class *cls;
    char *name;
};

/* A tensor's state is one of these; nothing else in memory is likely to look like them. The states
 * of a released tensor tell what released it, for the sentence of a later use. They differ in their
 * highest byte alone. RG_DEAD says that a scope released it. */
enum {
    RG_ALIVE = 0x52454741,
    RG_DEAD = 0x44454144,
    RG_DROPPED = 0x45454144,
    RG_MODULE_FREED = 0x46454144,
    RG_OPTIM_FREED = 0x47454144,
    RG_LOADER_FREED = 0x48454144,
    RG_REPLAY_FREED = 0x49454144,
    RG_THREAD_ENDED = 0x4a454144,
};

enum rg_tensor_flags {
    RG_CONTIGUOUS = 1,
    RG_WEAK = 2,           /* A wrapped number is weak in promotion. */
    RG_VIEW = 4,           /* A view shares another tensor's storage, and its history. */
    RG_PLAIN = 8,          /* All strides, also of size 1, are those of rgi_set_strides. */
    RG_IS_PARAMETER = 16,  /* A module's parameter prints as one. */
    RG_OF_LIST = 32,       /* A view is one of a list that one function made, or a view of one. */
    RG_UNTRACKED = 64,     /* A view was made without grad mode, or is a view of such a one. */
    RG_INFERRED = 32 | 64, /* A view was made in inference mode, or is a view of such a one. */
    RG_NAMED = 128,        /* A tensor has a label, which holds its name. */
};

/* A tensor with a name has its name and its base, if it is a view, in a block of their own, so that
 * a header needs room for one of the two only: its 192 bytes are three cache lines. */
typedef struct {
    rg_tensor *base;
    char name[];
} rg_label;

/* Where a tensor has been released, the free list's link may lie over `storage`, but nothing is
 * ever written over `state`, so that a use after the release is seen. `data` points to the first
 * element, and strides count elements. `history` isn't NULL where a gradient is required: the
 * tensor is output number `output` of that history. `kept` counts how often rg_keep took the tensor
 * out of its scope, and `slot` is a hint: where the scope stack last put it. A view has a reference
 * to its base, which is no view; its `version` is the storage's when it got its history. Other
 * tensors have neither. rgi_base_of and rgi_name_of read the union. */
struct rg_tensor {
    rg_storage *storage;
    uint32_t state;
    atomic_int refs;
    uint8_t dtype, ndim, flags, output;
    atomic_uint slot, kept;
    atomic_uint version;
    int64_t numel;
    char *data;
    rg_history *history;
    union {
        rg_tensor *base; /* A view without a name has this, */
        rg_label *label; /* and any tensor with a name has this. */
    };
    int64_t size[RG_MAX_DIMS];
    int64_t stride[RG_MAX_DIMS];
};

static inline bool rgi_is_none(const rg_tensor *t) { return t == RG_NONE; }

/* Returns whether a pointer that isn't NULL leads to a tensor, released or not. */
static inline bool rgi_is_tensor(const void *it) {
    const uint32_t state = ((const rg_tensor *)it)->state, all_but_highest = 0xffffff;
    return state == RG_ALIVE || (state & all_but_highest) == (RG_DEAD & all_but_highest);
}

/* Returns the tensor that t is a view of. Requires that t is a view. */
static inline rg_tensor *rgi_base_of(const rg_tensor *t) {
    return t->flags & RG_NAMED ? t->label->base : t->base;
}

/* Returns t's name, or NULL. */
static inline const char *rgi_name_of(const rg_tensor *t) {
    return t->flags & RG_NAMED ? t->label->name : NULL;
}

/* Returns whether t is a view whose storage was written to since it got its history. */
static inline bool rgi_is_stale(const rg_tensor *t) {
    return t->flags & RG_VIEW
           && atomic_load_explicit(&t->version, memory_order_acquire) != t->storage->version;
}

/* Returns the history that t has, or that it gets from its base when it is next used, or NULL. */
static inline rg_history *rgi_history_of(const rg_tensor *t) {
    return t->history || !(t->flags & RG_VIEW) ? t->history : rgi_base_of(t)->history;
}

/* Returns whether t may be worked on. NULL (silently where an error stands already), RG_NONE and a
 * released tensor fail. */
static inline bool rgi_check(rg_tensor *t, const char *op);
bool rgi_check_slow(rg_tensor *t, const char *op) __attribute__((cold));
static inline bool rgi_check(rg_tensor *t, const char *op) {
    return RG_LIKELY(t && t->state == RG_ALIVE && t != RG_NONE) || rgi_check_slow(t, op);
}

/* RG_NUMBER is a 0-d tensor whose element stands elsewhere. */
#define RG_NUMBER(type, place)                       \
    ((rg_tensor){ .state = RG_ALIVE,                 \
                  .dtype = type,                     \
                  .flags = RG_CONTIGUOUS | RG_PLAIN, \
                  .numel = 1,                        \
                  .data = (char *)(place) })

/*
 * structs.h: the tensor, its storage and its history, as all other rooms see them. storage.h
 * declares the functions that make and release them.
 */
#pragma once

#include "error.h"
#include "opaque.h"
#include "refs.h"

#include <string.h>

/* A storage: these fields at the beginning of a block, and behind them `bytes` bytes of data.
 * `version` counts the writes, and `mutation` is the name of the function that wrote last.
 * `inference` is set if the storage was made in inference mode. */
typedef struct rg_storage {
    atomic_int refs;
    uint32_t version;
    const char *mutation;
    size_t bytes;
    void *data;
    bool inference;
} rg_storage;

/* A tensor's history in the graph. tensor/ only knows how to print and how to release one. */
typedef struct rg_history rg_history;
typedef struct rg_history_class {
    /* Returns a name such as "AddBackward0", or NULL for a leaf. */
    const char *(*name)(rg_tensor *t);
    void (*release)(rg_history *h);
} rg_history_class;
/* The name that the tensor of this history was given, or NULL. */
struct rg_history {
    const rg_history_class *cls;
    char *name;
};

enum rg_tensor_flags {
    RG_CONTIGUOUS = 1,
    RG_WEAK = 2, /* Set for a number, which is weak in promotion. */
    RG_VIEW = 4, /* Set for a view, which shares another tensor's storage and history. */
    /* Set if all strides, also those of dims of size 1, are as rgi_set_strides sets them. */
    RG_PLAIN = 8,
    RG_IS_PARAMETER = 16, /* Set for a module's parameter, which is printed as such. */
    /* Set for a view in a list that one function made, and for views of it. */
    RG_OF_LIST = 32,
    /* Set for a view that was made without grad mode, and for views of it. */
    RG_UNTRACKED = 64,
    /* Set for a view that was made in inference mode, and for views of it. */
    RG_INFERRED = 32 | 64,
    RG_NAMED = 128, /* Set for a tensor with a label, which holds its name. */
};

/* A label: the name of a tensor and, if that is a view, its base. The tensor's header points either
 * to a label or to a base, so that its 192 bytes fit into three cache lines. */
typedef struct {
    rg_tensor *base;
    char name[];
} rg_label;

/* A tensor's header. When it is in a free list, the list's link may overwrite `storage`, but
 * `state` is never overwritten, so that a use after the release is noticed. `data` points to the
 * first element, and strides count elements. `history` isn't NULL if a gradient is required: the
 * tensor is output number `output` of that history. `kept` counts the calls of rg_keep, and `slot`
 * is a hint: the index at which the tensor was last put on a scope stack. A view has a reference to
 * its base, which is no view, and its `version` is the storage's version when the view got its
 * history. rgi_base_of and rgi_name_of read the union. */
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
        rg_tensor *base; /* The base of a view without a label. */
        rg_label *label; /* The label of a tensor with a name. */
    };
    int64_t size[RG_MAX_DIMS];
    int64_t stride[RG_MAX_DIMS];
};

static inline bool rgi_is_none(const rg_tensor *t) { return t == RG_NONE; }

/* Returns whether `it`, which isn't NULL, points to a tensor, released or not. */
static inline bool rgi_is_tensor(const void *it) {
    const uint32_t state = ((const rg_tensor *)it)->state, all_but_highest = 0xffffff;
    return state == RG_ALIVE || (state & all_but_highest) == (RG_DEAD & all_but_highest);
}

/* Returns the base of t. Requires that t is a view. */
static inline rg_tensor *rgi_base_of(const rg_tensor *t) {
    return t->flags & RG_NAMED ? t->label->base : t->base;
}

/* Returns t's name, or NULL. */
static inline const char *rgi_name_of(const rg_tensor *t) {
    return t->flags & RG_NAMED ? t->label->name : NULL;
}

/* Returns whether t is a view whose storage was written since the view got its history. */
static inline bool rgi_is_stale(const rg_tensor *t) {
    return t->flags & RG_VIEW
           && atomic_load_explicit(&t->version, memory_order_acquire) != t->storage->version;
}

/* Returns t's history, or the one that t will get from its base at its next use, or NULL. */
static inline rg_history *rgi_history_of(const rg_tensor *t) {
    return t->history || !(t->flags & RG_VIEW) ? t->history : rgi_base_of(t)->history;
}

/* Returns whether t is a tensor that isn't released. Otherwise fails; for NULL, no new failure is
 * added to one that the thread has already. RG_NONE fails, too. */
static inline bool rgi_check(rg_tensor *t, const char *op);
bool rgi_check_slow(rg_tensor *t, const char *op) __attribute__((cold));
static inline bool rgi_check(rg_tensor *t, const char *op) {
    return RG_LIKELY(t && t->state == RG_ALIVE && t != RG_NONE) || rgi_check_slow(t, op);
}

/* RG_NUMBER makes a 0-d tensor whose element is at `place`. */
#define RG_NUMBER(type, place)                       \
    ((rg_tensor){ .state = RG_ALIVE,                 \
                  .dtype = type,                     \
                  .flags = RG_CONTIGUOUS | RG_PLAIN, \
                  .numel = 1,                        \
                  .data = (char *)(place) })

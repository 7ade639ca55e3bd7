/*
 * structs.h: the structs of a tensor, its storage and its history, for the files that see them. The
 * functions that make and release them are in storage.h.
 */
#pragma once

#include "error.h"
#include "opaque.h"
#include "refs.h"

#include <string.h>

/* A storage. A block of memory begins with these fields, and `bytes` bytes of data follow them.
 * `version` counts the writes to the data, and `mutation` is the name of the function that wrote
 * last. `inference` is set if the storage was made in inference mode. `exposed` is set once the
 * program has got a pointer to the data, by which it may write without a count, and if a hook has
 * returned the data in place of a saved value. `stepped` is used if the data
 * is a gradient. It is 2 * (version + 1) if an optimizer's step has used this version of the
 * gradient, and 2 * (version + 1) + 1 if backward runs have added to the gradient since that step.
 * With any other value, neither is the case. */
typedef struct rg_storage {
    atomic_int refs;
    uint32_t version;
    const char *mutation;
    size_t bytes;
    void *data;
    bool inference;
    atomic_bool exposed;
    uint32_t stepped;
} rg_storage;

/* A tensor's history: its place in the autograd graph. The files of tensor/ can only get a
 * history's name and release it. */
typedef struct rg_history rg_history;
typedef struct rg_history_class {
    /* Returns a name such as "AddBackward0" for errors and printing, or NULL if the tensor is a
     * leaf. */
    const char *(*name)(rg_tensor *t);
    void (*release)(rg_history *h);
} rg_history_class;
/* The fields of a history that tensor/ reads. `name` is the name that the program gave to the
 * tensor, or NULL if it gave none. */
struct rg_history {
    const rg_history_class *cls;
    char *name;
};

enum rg_tensor_flags {
    RG_CONTIGUOUS = 1,
    RG_WEAK = 2, /* Set for a number in the place of a tensor (rg_wrap_float); see rgi_promote. */
    RG_VIEW = 4, /* Set for a view, which shares the storage of another tensor, its base, and gets
                  * its history from the base's. */
    /* Set if the strides of all dims, even those of size 1, are the strides that rgi_set_strides
     * sets. */
    RG_PLAIN = 8,
    RG_IS_PARAMETER = 16, /* Set for a module's parameter, which is printed as a Parameter. */
    /* Set for a view that a function returned in a list with other views (as rg_split does), and
     * for views of it. */
    RG_OF_LIST = 32,
    /* Set for a view that was made with grad mode off, and for views of it. Views in a list have
     * RG_OF_LIST instead. */
    RG_UNTRACKED = 64,
    /* RG_OF_LIST and RG_UNTRACKED together: set for a view that was made in inference mode, and for
     * views of it. */
    RG_INFERRED = 32 | 64,
    RG_NAMED = 128, /* Set if the tensor has a label. */
};

/* A label of a tensor. `name` is the tensor's name or "", and `base` is its base if it is a view.
 * `frozen` is the history that a frozen leaf (autograd/frozen.c) had before, or NULL. A header has
 * one pointer, to its label or to its base. With two pointers, a header would no longer fit into
 * 192 bytes, three cache lines. */
typedef struct {
    rg_tensor *base;
    rg_history *frozen;
    char name[];
} rg_label;

/* A tensor's header.
 *
 * `storage`: while the header is in a free list, the list's link may overwrite this field. `state`
 * is never overwritten, so that a use of a released tensor is noticed.
 *
 * `data` points to the first element. Strides count elements.
 *
 * `history` is the graph node that has this tensor as its output number `output`. It is NULL if the
 * tensor requires no gradient, or if it is a view that will get its history from its base at its
 * next use.
 *
 * `kept` counts the calls of rg_keep that rg_drop hasn't undone. `slot` is a hint for scope.c: the
 * index on a scope stack at which the tensor was put last.
 *
 * A view has a reference to its base, which isn't a view itself. The view's `version` is the
 * version of the storage at the time when the view got its history. Read the union by rgi_base_of
 * and rgi_name_of. */
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
        rg_label *label; /* The label of a tensor with RG_NAMED. */
    };
    int64_t size[RG_MAX_DIMS];
    int64_t stride[RG_MAX_DIMS];
};

static inline bool rgi_is_none(const rg_tensor *t) { return t == RG_NONE; }

/* Returns whether `it`, which must not be NULL, points to a tensor, in use or released. */
static inline bool rgi_is_tensor(const void *it) {
    const uint32_t state = ((const rg_tensor *)it)->state, all_but_highest = 0xffffff;
    return state == RG_ALIVE || (state & all_but_highest) == (RG_DEAD & all_but_highest);
}

/* Returns the base of t. Requires that t is a view. */
static inline rg_tensor *rgi_base_of(const rg_tensor *t) {
    return t->flags & RG_NAMED ? t->label->base : t->base;
}

/* Returns t's name, or NULL if it has none. */
static inline const char *rgi_name_of(const rg_tensor *t) {
    return t->flags & RG_NAMED && *t->label->name ? t->label->name : NULL;
}

/* Marks t's storage as exposed (see rg_storage). */
static inline void rgi_expose(rg_tensor *t) {
    if (!atomic_load_explicit(&t->storage->exposed, memory_order_relaxed))
        atomic_store_explicit(&t->storage->exposed, true, memory_order_relaxed);
}

/* Returns whether t is a view whose storage was written to after the view got its history. */
static inline bool rgi_is_stale(const rg_tensor *t) {
    return t->flags & RG_VIEW
           && atomic_load_explicit(&t->version, memory_order_acquire) != t->storage->version;
}

/* Returns t's history. If t is a view without history, returns the history of its base, from which
 * t gets its own at its next use. Returns NULL if the base has no history either. */
static inline rg_history *rgi_history_of(const rg_tensor *t) {
    return t->history || !(t->flags & RG_VIEW) ? t->history : rgi_base_of(t)->history;
}

/* Returns whether t has a history, or will get one at its next use because it is a stale view. */
static inline bool rgi_is_in_graph(const rg_tensor *t) {
    return t->history || (rgi_is_stale(t) && rgi_base_of(t)->history);
}

/* Returns whether t is a tensor in use. Fails and returns false if t is NULL, released, RG_NONE or
 * no tensor at all. But if t is NULL and the thread has an error already, keeps that error. */
static inline bool rgi_check(rg_tensor *t, const char *op);
bool rgi_check_slow(rg_tensor *t, const char *op) __attribute__((cold));
static inline bool rgi_check(rg_tensor *t, const char *op) {
    return RG_LIKELY(t && t->state == RG_ALIVE && t != RG_NONE) || rgi_check_slow(t, op);
}

/* Returns a header of t's elements, for example to read them in another shape. The header holds no
 * reference and has no history. Fields of t that another thread may change meanwhile aren't read,
 * so threads may share t. The initializer names every field: this is faster, since otherwise the
 * compiler first clears the whole header. */
#define RG_EACH_DIM(v) \
    { (v)[0], (v)[1], (v)[2], (v)[3], (v)[4], (v)[5], (v)[6], (v)[7] }
_Static_assert(RG_MAX_DIMS == 8, "RG_EACH_DIM names every dim");
static inline rg_tensor rgi_header_of(const rg_tensor *t) {
    return (rg_tensor){ .storage = t->storage,
                        .state = RG_ALIVE,
                        .refs = 0,
                        .dtype = t->dtype,
                        .ndim = t->ndim,
                        .flags = t->flags & (RG_CONTIGUOUS | RG_PLAIN | RG_WEAK),
                        .output = 0,
                        .slot = 0,
                        .kept = 0,
                        .version = 0,
                        .numel = t->numel,
                        .data = t->data,
                        .history = NULL,
                        .base = NULL,
                        .size = RG_EACH_DIM(t->size),
                        .stride = RG_EACH_DIM(t->stride) };
}

/* RG_NUMBER makes a 0-d tensor whose element is at `place`. */
#define RG_NUMBER(type, place)                       \
    ((rg_tensor){ .state = RG_ALIVE,                 \
                  .dtype = type,                     \
                  .flags = RG_CONTIGUOUS | RG_PLAIN, \
                  .numel = 1,                        \
                  .data = (char *)(place) })

/*
 * pickle.h: a machine that reads the pickles that torch.save writes. The machine knows the same
 * opcodes as torch's weights-only reader. A global is a Python class or function that a pickle
 * names; the machine knows those globals of torch's reader whose values the library can hold. Other
 * opcodes and globals fail with a message that names them. Here a global is only a row of a table,
 * so nothing that a pickle names can be executed. The result is a list of values, from which the
 * reader of a file makes tensors.
 */
#pragma once

#include "tensor/files/foreign.h"

/* The greatest depth of nested containers. The machine checks the depth when it puts a value into a
 * container. Each function that walks the result checks the depth again, because a container can
 * still grow after it was put into another one. */
enum { RG_PICKLE_DEPTH = 256 };
#define RG_PICKLE_TOO_DEEP "it lies in more than %d others"

typedef enum {
    RG_PICKLE_NONE,
    RG_PICKLE_BOOL,
    RG_PICKLE_INT,
    RG_PICKLE_LONG, /* An integer that int64 can't hold. The value has the integer's bytes in the
                     * pickle. */
    RG_PICKLE_FLOAT,
    RG_PICKLE_TEXT,
    RG_PICKLE_BYTES,
    RG_PICKLE_TUPLE,
    RG_PICKLE_LIST,
    RG_PICKLE_DICT,
    RG_PICKLE_SET, /* A set. Its items aren't stored. */
    RG_PICKLE_GLOBAL,
    RG_PICKLE_STORAGE,
    RG_PICKLE_TENSOR,
    RG_PICKLE_OTHER, /* A device or a layout. Its name isn't stored. */
} rg_pickle_kind;

/* A value. Its fields depend on its kind; fields that a kind doesn't use are 0. A text is a Python
 * string.
 *
 *     bool, int          i is the value
 *     float              f is the value
 *     text, bytes, long  v points to n bytes of the pickle, which no 0 follows; a text is UTF-8
 *     tuple, list        n items
 *     dict               n items: each key is followed by its value; `global` is the row of the
 *                        class, or 0 for a plain dict (0 is also the row of OrderedDict)
 *     global             `global` is the index of its row in the table of pickle_calls.c
 *     storage            i is the number of elements; `global` is the row of the storage class,
 *                        which says their type; the one item is the key, a text
 *     tensor             four items: storage, offset, size, stride; `global` is the row of its
 *                        dtype, or 0 if the dtype is that of the storage */
typedef struct {
    uint8_t kind, global;
    uint16_t open : 1;    /* Set while a function walks the value's items, to notice a container
                           * that contains itself. */
    uint16_t waits : 1;   /* Set for a list or dict that is empty and hasn't been put into another
                           * value yet. */
    uint16_t height : 14; /* 0 if the value has no items; otherwise at least 1 more than the height
                           * that each item had when it became an item. */
    uint32_t n;           /* The number of items, or of bytes. */
    uint32_t first, last; /* The indices of the first and the last cell of the linked list of items
                           * (see rg_pickle_cell). */
    union {
        int64_t i;
        double f;
        const char *v;
    };
} rg_pickle_value;

/* A cell of the linked list of a value's items: the index of an item's value, and the index of the
 * next cell. */
typedef struct {
    uint32_t value, next;
} rg_pickle_cell;

/* A list of n numbers, such as indices of values; v has room for `room` numbers. */
typedef struct {
    uint32_t *v;
    size_t n, room;
} rg_pickle_numbers;

/* The machine. `what` is the name of the pickle for error messages: data.pkl. */
typedef struct {
    const rg_file *file;
    const char *what;
    const char *bytes;
    size_t n, at;
    rg_pickle_value *v;
    size_t n_values, value_room;
    rg_pickle_cell *cells;
    size_t n_cells, cell_room;
    rg_pickle_numbers stack, marks, memo;
    uint32_t waiting; /* The number of values in v whose `waits` is set. */
    uint32_t result;  /* The index of the value that the whole pickle stands for. */
} rg_pickle;

/* Reads a pickle, from offset p->at up to its STOP opcode. Before the call, the caller sets the
 * fields from `file` to `at`, and the others to 0. Afterwards the caller must free *p by
 * rgi_pickle_free, even on failure. The pickle's bytes must live as long as *p. Returns false on
 * failure. */
bool rgi_pickle_read(rg_pickle *p);
void rgi_pickle_free(rg_pickle *p);

/* Copies the indices of a value's items to `to`, at most `room` of them. Returns the number of all
 * items. */
size_t rgi_pickle_items(const rg_pickle *p, uint32_t of, uint32_t *to, size_t room);
/* Iterates over the items of a value; `cell` is the index of an item's cell. */
#define RG_EACH_ITEM(cell, p, of)                           \
    uint32_t cell = (p)->v[of].first, left_ = (p)->v[of].n; \
    left_ > 0;                                              \
    left_--, cell = (p)->cells[cell].next

/* Returns whether the value is this string. The value may be a Python string or bytes. */
bool rgi_pickle_is(const rg_pickle *p, uint32_t value, const char *text);
/* Returns a name of the value for error messages: the name of a global, and otherwise the kind,
 * such as "an int". */
const char *rgi_pickle_kind_name(const rg_pickle *p, uint32_t value);
/* Returns the name of a global, such as torch.float32. */
const char *rgi_pickle_global_name(uint8_t global);
/* Returns the element type of a global that is a dtype or a storage class. An untyped storage
 * counts as uint8. */
rg_foreign rgi_pickle_type(uint8_t global);

/* ---- functions for pickle.c, pickle_values.c and pickle_calls.c only ------------------ */

/* Fails with RG_IO_ERROR and a message that says at which byte the machine is. Returns false. */
bool rgi_pickle_refuse(const rg_pickle *p, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
/* Adds a value to the list of values, and sets *number to its index. Returns false if memory runs
 * out. */
bool rgi_pickle_add(rg_pickle *p, rg_pickle_value value, uint32_t *number);
/* rgi_pickle_add_empty adds an empty list or dict, with `waits` set. rgi_pickle_end_wait clears
 * `waits`, and is called when the value gets an item or is put into another value.
 * rgi_pickle_add_empty fails if too many values have `waits` set, because a crafted pickle may make
 * list after list without ever using them. */
bool rgi_pickle_add_empty(rg_pickle *p, rg_pickle_kind kind, uint32_t *number);
void rgi_pickle_end_wait(rg_pickle *p, uint32_t value);
/* Appends the value `item` to the items of the value `to`. Returns false on failure. */
bool rgi_pickle_append(rg_pickle *p, uint32_t to, uint32_t item);
/* Returns the index of the row of the global with this name, or -1 if there is none. */
int rgi_pickle_global(const char *name, size_t n);
/* Fails with a message that names a global without a row and, for some globals, says what to save
 * instead. Returns false. */
bool rgi_pickle_refuse_global(const rg_pickle *p, const char *name, size_t n);
/* Execute the opcodes REDUCE, NEWOBJ, BUILD and BINPERSID. All but BUILD set *result to the index
 * of the resulting value. They return false on failure. */
bool rgi_pickle_reduce(rg_pickle *p, uint32_t function, uint32_t args, uint32_t *result);
bool rgi_pickle_newobj(rg_pickle *p, uint32_t cls, uint32_t args, uint32_t *result);
bool rgi_pickle_build(rg_pickle *p, uint32_t value, uint32_t state);
bool rgi_pickle_persistent(rg_pickle *p, uint32_t id, uint32_t *result);

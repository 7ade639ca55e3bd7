/*
 * trace.h: notes which loops a thread's kernels call, and with which arguments. While a thread
 * traces, k_set is K_TRACED, and the macros that look up a loop (K_LOOP_OF and its kin, in sets.h)
 * give it a function that notes the call and then calls the loop of the first set. Other threads
 * get their loops as always.
 *
 * An argument is noted as one or more values: an address becomes a place in one of the regions of
 * memory that the trace knows, an array or a struct becomes the values of its elements between
 * K_BEGIN and K_END. So the calls can be made again on other memory (k_trace_repeat), or be written
 * as text. plans.h has the structs that loops read, and trace_structs.h describes their fields.
 */
#pragma once

#include "kernels.h"

typedef enum k_value_kind {
    K_PLACE, /* An address: `offset` bytes behind the beginning of region number `region`. */
    K_NULL,
    K_INT64,
    K_INT,
    K_BOOL,
    K_DOUBLE,
    K_ELEMENT,  /* The address of an element that the call reads; `bits` are the element's bytes. */
    K_FUNCTION, /* The address of a loop that another loop calls. */
    K_BEGIN,    /* An array or a struct, whose values follow, up to K_END. */
    K_END
} k_value_kind;

typedef struct k_value {
    k_value_kind kind;
    int region;
    rg_dtype dtype; /* The dtype of an element. */
    /* K_BEGIN: the C type of the array's elements, or of the struct, of which the call gets the
     * address. For an array or a struct inside a struct it is NULL, or ".name" if that is a field
     * of a union. K_FUNCTION: the loop's name without its type; k_trace_function_name returns the
     * whole name. */
    const char *type;
    union {
        int64_t offset, whole;
        double number;
        uint64_t bits;
        k_function *function;
    };
} k_value;

/* The room for a loop's name, such as "softmax_float". */
enum { K_LOOP_NAME = 64 };

/* An argument of a noted call that is made again. A k_call casts the loop to its type and calls it.
 */
typedef union k_argument {
    void *address;
    int64_t whole;
    double number;
} k_argument;
typedef void k_call(k_function *loop, const k_argument a[]);

/* A noted call of a loop. Its values are the elements first .. first + count - 1 of the trace's
 * values. `mark` is the trace's mark at the time of the call. `function` is the loop, and `call`
 * calls it again with other arguments. `text` is the body of a loop that the program defines, and
 * NULL for the library's loops. */
typedef struct k_traced_call {
    char loop[K_LOOP_NAME];
    const char *text;
    k_call *call;
    k_function *function;
    size_t first, count, mark;
} k_traced_call;

/* A block of memory. `temporary` is set if it was allocated during the trace. */
typedef struct k_region {
    char *begin;
    size_t bytes;
    bool temporary;
} k_region;

typedef struct k_trace {
    k_traced_call *calls;
    k_value *values;
    k_region *regions;
    size_t n_calls, calls_room, n_values, values_room, n_regions, regions_room;
    /* The mark of the next calls: the index of the recording's entry that is running. */
    size_t mark;
    /* Set if a call can't be noted: `refused` names the loop, and refused_at is the mark. If memory
     * ran out, `refused` is "". */
    bool failed;
    char refused[K_LOOP_NAME];
    size_t refused_at;
} k_trace;

/* A call of a loop that the program defines (rg_function_loop). The loop gets `places` addresses,
 * `wholes` whole numbers and `numbers` numbers. In texts, the loop's name has up to K_OWN_NAME
 * characters of `name`, and a checksum of `text`. */
enum { K_OWN_NAME = K_LOOP_NAME - 10 };
typedef void k_own_loop(char *const p[], const int64_t n[], const double x[]);
typedef struct k_own_call {
    k_own_loop *loop;
    const char *name, *text;
    int places, wholes, numbers;
} k_own_call;
/* Calls the loop, and notes the call if the thread traces. */
void k_run_own(const k_own_call *c, char *const p[], const int64_t n[], const double x[]);

/* Adds a region, and returns its number, or -1 if memory ran out. */
int k_trace_region(k_trace *t, void *begin, size_t bytes, bool temporary);
/* From k_trace_begin to k_trace_end, the calling thread notes its calls of loops in t, and shares
 * no work with other threads. The loops are those of the first instruction set or, if in_own_set is
 * true, of the set in which the program runs. No other thread may trace at the same time, since the
 * functions that note calls are the same for all threads. */
void k_trace_begin(k_trace *t, bool in_own_set);
void k_trace_end(void);
/* Returns the number of the first call whose mark is `mark` or larger. Requires that the marks of
 * the calls never decrease. */
size_t k_trace_first(const k_trace *t, size_t mark);
/* Makes the noted calls with the marks first .. last - 1 again, on the regions' memory.
 * temporary[i] is the address of region i if that region is temporary and such a call uses it. */
void k_trace_repeat(const k_trace *t, size_t first, size_t last, char *const temporary[]);
/* Copies to `name` the name that a K_FUNCTION's loop has in the text of loops. */
void k_trace_function_name(const k_value *v, char name[K_LOOP_NAME]);
void k_trace_free(k_trace *t);

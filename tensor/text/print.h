/*
 * print.h: printing tensors. tensor.h includes this file.
 *
 * The innermost scope owns a string that one of these functions returns. A function that returns a
 * string returns NULL on failure, as all functions do. Since puts(NULL) crashes, these functions,
 * rg_module_repr, rg_graph_dot and those that decode tokens first write the failure to stderr.
 */
#pragma once

#include "../tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Writes rg_repr(t) and a newline to standard output, and flushes the stream. rg_error() tells if
 * writing fails. For RG_NONE, rg_print writes "None", and rg_repr and rg_str return "None". */
void rg_print(rg_tensor *t);
/* Returns what torch prints for t, such as tensor([1., 2.]). */
const char *rg_repr(rg_tensor *t);
/* Returns the shape as torch prints it, such as torch.Size([6, 3]). */
const char *rg_repr_shape(rg_tensor *t);
/* Returns what NumPy prints for t, such as [[1. 0.]\n [0. 2.]] */
const char *rg_repr_numpy(rg_tensor *t);
/* Returns what TensorFlow prints for t, such as tf.Tensor([1. 0.], shape=(2,), dtype=float32). */
const char *rg_repr_tf(rg_tensor *t);
/* Returns what Python's format(t) returns. For a 0-d tensor that is the number alone. */
const char *rg_str(rg_tensor *t);

/* ---- options of printing ---------------------------------------------------------------
 * As in torch, rg_set_printoptions(.precision = 2, .sci_mode = 0) leaves the other options as they
 * are, except for sci_mode, which becomes -1 if it isn't given. rg_set_printoptions_with sets all
 * options, such as those that rg_get_printoptions has returned. Both return false, and set nothing,
 * if the precision or edgeitems is negative. (In torch, printing fails then.) */
enum { RG_UNCHANGED = -__INT_MAX__ - 1 };
typedef struct RG_OPTIONS rg_printoptions {
    RG_BY_NAME;
    /* The number of digits behind the point. */
    int64_t precision RG_DEFAULT(RG_UNCHANGED);
    /* The number of elements above which only the ends of each dim are printed. */
    int64_t threshold RG_DEFAULT(RG_UNCHANGED);
    /* The number of elements at each end. */
    int64_t edgeitems RG_DEFAULT(RG_UNCHANGED);
    /* The number of characters in a line. */
    int64_t linewidth RG_DEFAULT(RG_UNCHANGED);
    /* Scientific notation: never (0), always (1), or as torch does (-1). */
    int64_t sci_mode RG_DEFAULT(-1);
} rg_printoptions;
rg_printoptions rg_get_printoptions(void);
bool rg_set_printoptions_with(rg_printoptions options);
#define RG_PRINTOPTIONS_(...)                                                            \
    RG_KEYWORDS(rg_printoptions,                                                         \
                (.precision = RG_UNCHANGED, .threshold = RG_UNCHANGED,                   \
                 .edgeitems = RG_UNCHANGED, .linewidth = RG_UNCHANGED, .sci_mode = -1),  \
                __VA_ARGS__)
#define rg_set_printoptions(...) rg_set_printoptions_with(RG_PRINTOPTIONS_(__VA_ARGS__))

RG_PUBLIC_END

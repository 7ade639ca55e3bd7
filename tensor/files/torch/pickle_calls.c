/*
 * pickle_calls.c: the globals (Python classes and functions) that a pickle may name, and the values
 * that result when the pickle calls one of them. The table has those globals of torch's
 * weights-only reader whose values the library can hold. Others fail with a message that names
 * them. No Python function is executed: for each kind of call, a function of this file makes the
 * value.
 */
#include "pickle.h"

#include <string.h>

/* The kind of value that a call of a global makes. */
typedef enum {
    CALL_NOTHING, /* The global can't be called. */
    CALL_DICT,
    CALL_SIZE,
    CALL_SET,
    CALL_BYTES,
    CALL_OTHER,
    CALL_PARAMETER,
    CALL_STATEFUL_PARAMETER,
    CALL_REBUILD_V2,
    CALL_REBUILD_V3,
    CALL_FROM_TYPE,
} call_kind;

typedef enum { IS_FUNCTION, IS_DTYPE, IS_STORAGE } global_kind;

/* A row of the table of globals: `call` is a call_kind, `kind` a global_kind, and `type` the
 * element type of a dtype or a storage class (otherwise NO_TYPE). */
typedef struct {
    const char *name;
    uint8_t call, kind, type;
} global_row;

enum { NO_TYPE = RG_FOREIGN_COUNT };
#define FUNCTION(name, call) \
    { name, call, IS_FUNCTION, NO_TYPE }
#define DTYPE(name, type) \
    { "torch." name, CALL_NOTHING, IS_DTYPE, type }
#define STORAGE(name, type) \
    { "torch." name "Storage", CALL_NOTHING, IS_STORAGE, type }

/* The globals. The first row is OrderedDict, so that 0 is never the row of a dtype: a tensor whose
 * `global` is 0 has the dtype of its storage. */
static const global_row global_rows[] = {
    FUNCTION("collections.OrderedDict", CALL_DICT),
    FUNCTION("collections.Counter", CALL_DICT),
    FUNCTION("torch.nn.parameter.Parameter", CALL_PARAMETER),
    FUNCTION("torch.serialization._get_layout", CALL_OTHER),
    FUNCTION("torch.Size", CALL_SIZE),
    FUNCTION("torch.Tensor", CALL_NOTHING),
    FUNCTION("torch.device", CALL_OTHER),
    FUNCTION("_codecs.encode", CALL_BYTES),
    FUNCTION("builtins.bytearray", CALL_BYTES),
    FUNCTION("builtins.set", CALL_SET),
    FUNCTION("torch._utils._rebuild_parameter", CALL_PARAMETER),
    FUNCTION("torch._utils._rebuild_parameter_with_state", CALL_STATEFUL_PARAMETER),
    FUNCTION("torch._utils._rebuild_tensor_v2", CALL_REBUILD_V2),
    FUNCTION("torch._utils._rebuild_tensor_v3", CALL_REBUILD_V3),
    FUNCTION("torch._tensor._rebuild_from_type_v2", CALL_FROM_TYPE),

    DTYPE("bool", RG_FILE_BOOL),
    DTYPE("uint8", RG_FILE_U8),
    DTYPE("int8", RG_FILE_I8),
    DTYPE("uint16", RG_FILE_U16),
    DTYPE("int16", RG_FILE_I16),
    DTYPE("uint32", RG_FILE_U32),
    DTYPE("int32", RG_FILE_I32),
    DTYPE("uint64", RG_FILE_U64),
    DTYPE("int64", RG_FILE_I64),
    DTYPE("float8_e4m3fn", RG_FILE_F8_E4M3),
    DTYPE("float8_e5m2", RG_FILE_F8_E5M2),
    DTYPE("float8_e8m0fnu", RG_FILE_F8_E8M0),
    DTYPE("float16", RG_FILE_F16),
    DTYPE("bfloat16", RG_FILE_BF16),
    DTYPE("float32", RG_FILE_F32),
    DTYPE("float64", RG_FILE_F64),

    STORAGE("Bool", RG_FILE_BOOL),
    STORAGE("Byte", RG_FILE_U8),
    STORAGE("Char", RG_FILE_I8),
    STORAGE("Short", RG_FILE_I16),
    STORAGE("Int", RG_FILE_I32),
    STORAGE("Long", RG_FILE_I64),
    STORAGE("Half", RG_FILE_F16),
    STORAGE("BFloat16", RG_FILE_BF16),
    STORAGE("Float", RG_FILE_F32),
    STORAGE("Double", RG_FILE_F64),
    STORAGE("storage.Untyped", RG_FILE_U8),
};
_Static_assert(RG_COUNT(global_rows) <= UINT8_MAX, "a row's number is a byte");

/* Beginnings of the names of globals whose values the library can't hold. `advice` says what the
 * program that wrote the file should save instead. */
static const struct {
    const char *begin, *advice;
} unheld_rows[] = {
    { "torch._utils._rebuild_sparse_", "it makes a sparse tensor: save t.to_dense()" },
    { "torch._utils._rebuild_qtensor", "it makes a quantized tensor: save t.dequantize()" },
    { "torch._utils._rebuild_nested_tensor", "it makes a nested tensor: save t.unbind()" },
    { "torch._utils._rebuild_meta_tensor", "a tensor on the meta device has no elements" },
    { "torch._utils._rebuild_wrapper_subclass", "it wraps a tensor: save the tensor itself" },
    { "torch._utils._rebuild_device_tensor_", "its device has no storages: save t.cpu()" },
    { "torch.Complex", "its elements are complex: save torch.view_as_real(t)" },
    { "torch.complex", "its elements are complex: save torch.view_as_real(t)" },
    { "torch.float", "regard has no such elements: save t.float()" },
    { "builtins.complex", "it is a complex number: save its real and imag" },
    { "torch.nn.modules.", "a module's code isn't run: save module.state_dict()" },
};

int rgi_pickle_global(const char *name, size_t n) {
    for (int i = 0; i < RG_COUNT(global_rows); i++)
        if (strlen(global_rows[i].name) == n && memcmp(global_rows[i].name, name, n) == 0)
            return i;
    return -1;
}

bool rgi_pickle_refuse_global(const rg_pickle *p, const char *name, size_t n) {
    const char *advice = NULL;
    for (int i = 0; i < RG_COUNT(unheld_rows) && !advice; i++) {
        const size_t begin = strlen(unheld_rows[i].begin);
        if (n >= begin && memcmp(unheld_rows[i].begin, name, begin) == 0)
            advice = unheld_rows[i].advice;
    }
    return rgi_pickle_refuse(p, "Unsupported global: GLOBAL %s was not an allowed global%s%s",
                             RG_SHOWN_BYTES(name, n), advice ? ": " : "", advice ? advice : "");
}

const char *rgi_pickle_global_name(uint8_t global) { return global_rows[global].name; }
rg_foreign rgi_pickle_type(uint8_t global) { return (rg_foreign)global_rows[global].type; }

/* ---- arguments ------------------------------------------------------------------------ */

/* ARGUMENTS_MOST is the greatest number of arguments of a call. SHAPE_MOST is the greatest number
 * of items in a size, in a stride, and in the metadata of a tensor. */
enum { ARGUMENTS_MOST = 8, SHAPE_MOST = 64 };
/* The n arguments of a call. v[] has the indices of their values; its other elements are 0. `name`
 * is the name of the global that is called, for error messages. */
typedef struct {
    const char *name;
    size_t n;
    uint32_t v[ARGUMENTS_MOST];
} arguments;

static rg_pickle_kind kind_of(const rg_pickle *p, uint32_t value) {
    return (rg_pickle_kind)p->v[value].kind;
}

/* Reads the arguments of a call from the tuple `args` into *a. Fails and returns false if `args`
 * isn't a tuple, or if there are fewer than `least` or more than `most` arguments. */
static bool take_arguments(const rg_pickle *p, arguments *a, uint32_t args, size_t least,
                           size_t most) {
    if (kind_of(p, args) != RG_PICKLE_TUPLE)
        return rgi_pickle_refuse(p, "%s: its arguments are %s and no tuple", a->name,
                                 rgi_pickle_kind_name(p, args));
    a->n = rgi_pickle_items(p, args, a->v, ARGUMENTS_MOST);
    if (least == most && a->n != least)
        return rgi_pickle_refuse(p, "%s takes %zu argument%s, but got %zu", a->name, least,
                                 least == 1 ? "" : "s", a->n);
    if (a->n < least || a->n > most)
        return rgi_pickle_refuse(p, "%s takes %zu to %zu arguments, but got %zu", a->name, least,
                                 most, a->n);
    return true;
}

static bool refuse_argument(const rg_pickle *p, const arguments *a, size_t i, const char *wanted) {
    return rgi_pickle_refuse(p, "%s: argument %zu must be %s, not %s", a->name, i + 1, wanted,
                             rgi_pickle_kind_name(p, a->v[i]));
}

/* Returns whether argument i is of this kind; otherwise fails. */
static bool argument_is(const rg_pickle *p, const arguments *a, size_t i, rg_pickle_kind kind,
                        const char *wanted) {
    return kind_of(p, a->v[i]) == kind || refuse_argument(p, a, i, wanted);
}

/* Returns whether argument i is a list or tuple of integers; otherwise fails. Fails without reading
 * the items if there are more than SHAPE_MOST. Otherwise a crafted pickle could make the reader
 * read a long list again and again. */
static bool argument_is_shape(const rg_pickle *p, const arguments *a, size_t i) {
    rg_pickle_kind kind = kind_of(p, a->v[i]);
    bool ok = (kind == RG_PICKLE_TUPLE || kind == RG_PICKLE_LIST) && p->v[a->v[i]].n <= SHAPE_MOST;
    for (RG_EACH_ITEM(cell, p, a->v[i])) {
        if (!ok)
            break;
        ok = kind_of(p, p->cells[cell].value) == RG_PICKLE_INT;
    }
    return ok || refuse_argument(p, a, i, "a tuple of ints");
}

static bool is_dtype_value(const rg_pickle *p, uint32_t value) {
    return kind_of(p, value) == RG_PICKLE_GLOBAL
           && global_rows[p->v[value].global].kind == IS_DTYPE;
}

/* ---- containers ----------------------------------------------------------------------- */

/* Makes a dict. OrderedDict() has no argument. Counter({key: n}) has a dict as its argument, and
 * the new dict gets the items of this dict. */
static bool call_dict(rg_pickle *p, arguments *a, uint8_t row, uint32_t args, uint32_t *result) {
    rg_pickle_value dict = { .kind = RG_PICKLE_DICT, .global = row };
    if (!take_arguments(p, a, args, 0, 1) || !rgi_pickle_add(p, dict, result))
        return false;
    if (a->n == 0)
        return true;
    if (!argument_is(p, a, 0, RG_PICKLE_DICT, "a dict"))
        return false;
    for (RG_EACH_ITEM(cell, p, a->v[0]))
        if (!rgi_pickle_append(p, *result, p->cells[cell].value))
            return false;
    return true;
}

static bool call_size(rg_pickle *p, arguments *a, uint32_t args, uint32_t *result) {
    if (!take_arguments(p, a, args, 1, 1) || !argument_is_shape(p, a, 0))
        return false;
    *result = a->v[0];
    return true;
}

static bool call_set(rg_pickle *p, arguments *a, uint32_t args, uint32_t *result) {
    return take_arguments(p, a, args, 0, 1)
           && (a->n == 0 || argument_is(p, a, 0, RG_PICKLE_LIST, "a list"))
           && rgi_pickle_add(p, (rg_pickle_value){ .kind = RG_PICKLE_SET }, result);
}

/* Makes bytes from a string, as _codecs.encode("..", "latin1") does, or from bytes, as bytearray
 * does. The bytes of a string are those in the pickle, in UTF-8. */
static bool call_bytes(rg_pickle *p, arguments *a, uint32_t args, uint32_t *result) {
    if (!take_arguments(p, a, args, 0, 2))
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (kind_of(p, a->v[i]) != RG_PICKLE_BYTES && kind_of(p, a->v[i]) != RG_PICKLE_TEXT)
            return refuse_argument(p, a, i, "a str or bytes");
    rg_pickle_value bytes = { .kind = RG_PICKLE_BYTES };
    if (a->n > 0) {
        bytes.n = p->v[a->v[0]].n;
        bytes.v = p->v[a->v[0]].v;
    }
    return rgi_pickle_add(p, bytes, result);
}

/* Makes a device or a layout. The argument is a string; for a device, a number may follow. */
static bool call_other(rg_pickle *p, arguments *a, uint32_t args, uint32_t *result) {
    return take_arguments(p, a, args, 1, 2) && argument_is(p, a, 0, RG_PICKLE_TEXT, "a str")
           && (a->n == 1 || argument_is(p, a, 1, RG_PICKLE_INT, "an int"))
           && rgi_pickle_add(p, (rg_pickle_value){ .kind = RG_PICKLE_OTHER }, result);
}

/* ---- tensors -------------------------------------------------------------------------- */

/* Checks the metadata of a tensor, which is argument i; the argument may be absent or None. Fails
 * and returns false if the metadata isn't a dict of at most SHAPE_MOST items, or says that the
 * tensor's elements must be negated or conjugated when they are read. */
static bool check_metadata(const rg_pickle *p, const arguments *a, size_t i) {
    if (i >= a->n || kind_of(p, a->v[i]) == RG_PICKLE_NONE)
        return true;
    if (!argument_is(p, a, i, RG_PICKLE_DICT, "a dict"))
        return false;
    if (p->v[a->v[i]].n > SHAPE_MOST)
        return refuse_argument(p, a, i, "a dict of a few items");
    for (RG_EACH_ITEM(cell, p, a->v[i])) {
        const rg_pickle_value *v = &p->v[p->cells[cell].value];
        if (v->kind == RG_PICKLE_BOOL && v->i)
            return rgi_pickle_refuse(p, "a tensor is negated or conjugated when it is read: save "
                                        "t.resolve_neg().resolve_conj()");
    }
    return true;
}

/* Makes a tensor from (storage, offset, size, stride, requires_grad, backward_hooks, dtype,
 * metadata). _rebuild_tensor_v2 has no argument dtype. The metadata may be absent. backward_hooks
 * is ignored, and so is requires_grad, which is false in a state_dict. */
static bool call_rebuild(rg_pickle *p, arguments *a, bool has_dtype, uint32_t args,
                         uint32_t *result) {
    const size_t metadata = has_dtype ? 7 : 6;
    if (!take_arguments(p, a, args, metadata, metadata + 1)
        || !argument_is(p, a, 0, RG_PICKLE_STORAGE, "a storage")
        || !argument_is(p, a, 1, RG_PICKLE_INT, "an int") || !argument_is_shape(p, a, 2)
        || !argument_is_shape(p, a, 3) || !argument_is(p, a, 4, RG_PICKLE_BOOL, "a bool"))
        return false;
    if (has_dtype && !is_dtype_value(p, a->v[6]))
        return refuse_argument(p, a, 6, "a dtype");
    if (!check_metadata(p, a, metadata))
        return false;
    rg_pickle_value tensor = { .kind = RG_PICKLE_TENSOR };
    tensor.global = has_dtype ? p->v[a->v[6]].global : 0;
    bool ok = rgi_pickle_add(p, tensor, result);
    for (size_t i = 0; ok && i < 4; i++)
        ok = rgi_pickle_append(p, *result, a->v[i]);
    return ok;
}

/* Makes a parameter: the result is the first argument, which is the parameter's tensor. The other
 * arguments are ignored. */
static bool call_parameter(rg_pickle *p, arguments *a, size_t most, uint32_t args,
                           uint32_t *result) {
    if (!take_arguments(p, a, args, 1, most) || !argument_is(p, a, 0, RG_PICKLE_TENSOR, "a tensor"))
        return false;
    *result = a->v[0];
    return true;
}

/* Makes a tensor from (function, class, arguments, state), which torch writes for a tensor with
 * attributes of its own. Calls `function`, which must be a function that rebuilds a tensor, since
 * such a function calls no further functions. The attributes, in `state`, are ignored. */
static bool call_from_type(rg_pickle *p, arguments *a, uint32_t args, uint32_t *result) {
    if (!take_arguments(p, a, args, 4, 4) || !argument_is(p, a, 0, RG_PICKLE_GLOBAL, "a function")
        || !argument_is(p, a, 1, RG_PICKLE_GLOBAL, "a class"))
        return false;
    const global_row *function = &global_rows[p->v[a->v[0]].global];
    const global_row *cls = &global_rows[p->v[a->v[1]].global];
    if (strcmp(cls->name, "torch.Tensor") != 0 && cls->call != CALL_PARAMETER)
        return refuse_argument(p, a, 1, "torch.Tensor or Parameter");
    if (strncmp(function->name, "torch._utils._rebuild_", 22) != 0)
        return refuse_argument(p, a, 0, "a function that rebuilds a tensor");
    return rgi_pickle_reduce(p, a->v[0], a->v[2], result);
}

/* ---- the opcodes that call globals ----------------------------------------------------------- */

bool rgi_pickle_reduce(rg_pickle *p, uint32_t function, uint32_t args, uint32_t *result) {
    if (kind_of(p, function) != RG_PICKLE_GLOBAL)
        return rgi_pickle_refuse(p, "Trying to call reduce for unrecognized function, which is %s",
                                 rgi_pickle_kind_name(p, function));
    const uint8_t row = p->v[function].global;
    arguments a = { .name = global_rows[row].name };
    switch ((call_kind)global_rows[row].call) {
    case CALL_DICT: return call_dict(p, &a, row, args, result);
    case CALL_SIZE: return call_size(p, &a, args, result);
    case CALL_SET: return call_set(p, &a, args, result);
    case CALL_BYTES: return call_bytes(p, &a, args, result);
    case CALL_OTHER: return call_other(p, &a, args, result);
    case CALL_PARAMETER: return call_parameter(p, &a, 3, args, result);
    case CALL_STATEFUL_PARAMETER: return call_parameter(p, &a, 4, args, result);
    case CALL_REBUILD_V2: return call_rebuild(p, &a, false, args, result);
    case CALL_REBUILD_V3: return call_rebuild(p, &a, true, args, result);
    case CALL_FROM_TYPE: return call_from_type(p, &a, args, result);
    case CALL_NOTHING: break;
    }
    return rgi_pickle_refuse(p, "%s can't be called", a.name);
}

bool rgi_pickle_newobj(rg_pickle *p, uint32_t cls, uint32_t args, uint32_t *result) {
    const call_kind call = kind_of(p, cls) == RG_PICKLE_GLOBAL
                               ? (call_kind)global_rows[p->v[cls].global].call
                               : CALL_NOTHING;
    const bool ok = call == CALL_DICT || call == CALL_SIZE || call == CALL_SET
                    || call == CALL_PARAMETER;
    if (!ok)
        return rgi_pickle_refuse(p,
                                 "Can only create new object for nn.Parameter or a dict, but got "
                                 "%s",
                                 rgi_pickle_kind_name(p, cls));
    return rgi_pickle_reduce(p, cls, args, result);
}

/* Executes the opcode BUILD, which sets the attributes of an OrderedDict, such as torch's
 * _metadata. Checks that `state` is a dict of attributes, and ignores it. */
bool rgi_pickle_build(rg_pickle *p, uint32_t value, uint32_t state) {
    const char *name = rgi_pickle_kind_name(p, value);
    if (kind_of(p, value) != RG_PICKLE_DICT)
        return rgi_pickle_refuse(p, "Can only build an OrderedDict, but got %s", name);
    if (kind_of(p, state) != RG_PICKLE_DICT)
        return rgi_pickle_refuse(p, "a dict's fields are %s and no dict",
                                 rgi_pickle_kind_name(p, state));
    return true;
}

/* Makes a storage from the tuple ("storage", type, key, location, numel). The location, a device,
 * is ignored. */
bool rgi_pickle_persistent(rg_pickle *p, uint32_t id, uint32_t *result) {
    arguments a = { .name = "a storage" };
    if (kind_of(p, id) != RG_PICKLE_TUPLE)
        return rgi_pickle_refuse(p, "persistent_load id must be tuple or int, but got %s",
                                 rgi_pickle_kind_name(p, id));
    a.n = rgi_pickle_items(p, id, a.v, ARGUMENTS_MOST);
    if (a.n == 0 || !rgi_pickle_is(p, a.v[0], "storage"))
        return rgi_pickle_refuse(p, "Only persistent_load of storage is allowed");
    if (!take_arguments(p, &a, id, 5, 5))
        return false;
    const rg_pickle_value *type = &p->v[a.v[1]];
    if (type->kind != RG_PICKLE_GLOBAL || global_rows[type->global].kind != IS_STORAGE)
        return refuse_argument(p, &a, 1, "a storage's type");
    if (!argument_is(p, &a, 2, RG_PICKLE_TEXT, "a str")
        || !argument_is(p, &a, 3, RG_PICKLE_TEXT, "a str")
        || !argument_is(p, &a, 4, RG_PICKLE_INT, "an int"))
        return false;
    const int64_t numel = p->v[a.v[4]].i;
    if (numel < 0)
        return rgi_pickle_refuse(p, "a storage has %lld elements", (long long)numel);
    rg_pickle_value storage = { .kind = RG_PICKLE_STORAGE, .global = type->global, .i = numel };
    return rgi_pickle_add(p, storage, result) && rgi_pickle_append(p, *result, a.v[2]);
}

/*
 * pickle.c: executes the opcodes of a pickle, with a stack, marks and a memo as in Python.
 * pickle_values.c stores the values, and pickle_calls.c makes the results of calls.
 */
#include "pickle.h"

#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The greatest size of a pickle in bytes. A limit is needed because values and cells (see pickle.h)
 * have indices of 32 bits. */
#define PICKLE_BYTES_MAX ((size_t)1 << 29)
enum { PROTOCOL_MOST = 5 };

/* The opcodes that torch's weights-only reader accepts. */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_APPEND = 'a',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_LIST = ']',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_TUPLE = ')',
    OP_PROTO = 0x80,
    OP_NEWOBJ = 0x81,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8A,
    OP_EMPTY_SET = 0x8F,
};

/* The names of Python's other opcodes, which are refused. */
static const char *const pickle_refused[256] = {
    ['0'] = "POP",
    ['1'] = "POP_MARK",
    ['2'] = "DUP",
    ['B'] = "BINBYTES",
    ['C'] = "SHORT_BINBYTES",
    ['F'] = "FLOAT",
    ['I'] = "INT",
    ['L'] = "LONG",
    ['P'] = "PERSID",
    ['S'] = "STRING",
    ['T'] = "BINSTRING",
    ['V'] = "UNICODE",
    ['d'] = "DICT",
    ['g'] = "GET",
    ['i'] = "INST",
    ['l'] = "LIST",
    ['o'] = "OBJ",
    ['p'] = "PUT",
    [0x82] = "EXT1",
    [0x83] = "EXT2",
    [0x84] = "EXT4",
    [0x8B] = "LONG4",
    [0x8C] = "SHORT_BINUNICODE",
    [0x8D] = "BINUNICODE8",
    [0x8E] = "BINBYTES8",
    [0x90] = "ADDITEMS",
    [0x91] = "FROZENSET",
    [0x92] = "NEWOBJ_EX",
    [0x93] = "STACK_GLOBAL",
    [0x94] = "MEMOIZE",
    [0x95] = "FRAME",
    [0x96] = "BYTEARRAY8",
    [0x97] = "NEXT_BUFFER",
    [0x98] = "READONLY_BUFFER",
};

/* ---- error messages ------------------------------------------------------------------- */

bool rgi_pickle_refuse(const rg_pickle *p, const char *format, ...) {
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return rgi_file_refuse(p->file, "%s, before byte %zu: %s", p->what, p->at, sentence);
}

/* ---- the stack of values -------------------------------------------------------------- */

static bool pickle_add_number(rg_pickle_numbers *to, uint32_t number) {
    if (!rgi_grow((void **)&to->v, &to->room, to->n + 1, sizeof *to->v))
        return false;
    to->v[to->n++] = number;
    return true;
}

static bool push_value(rg_pickle *p, rg_pickle_value value) {
    uint32_t number;
    return rgi_pickle_add(p, value, &number) && pickle_add_number(&p->stack, number);
}

static bool push_empty(rg_pickle *p, rg_pickle_kind kind) {
    uint32_t number;
    return rgi_pickle_add_empty(p, kind, &number) && pickle_add_number(&p->stack, number);
}

/* Returns the number of values on the stack above the last mark, or of all values if there is no
 * mark. Opcodes can't use values below the mark. */
static size_t stack_left(const rg_pickle *p) {
    return p->stack.n - (p->marks.n ? p->marks.v[p->marks.n - 1] : 0);
}

/* Returns whether there are at least n values above the last mark; otherwise fails. */
static bool stack_has(const rg_pickle *p, size_t n) {
    return stack_left(p) >= n
           || rgi_pickle_refuse(p, "the stack has %zu values, and %zu are needed", stack_left(p),
                                n);
}

static uint32_t stack_top(const rg_pickle *p) { return p->stack.v[p->stack.n - 1]; }

void rgi_pickle_free(rg_pickle *p) {
    rgi_free(p->v, p->value_room * sizeof *p->v, RG_MEM_OTHER);
    rgi_free(p->cells, p->cell_room * sizeof *p->cells, RG_MEM_OTHER);
    rg_pickle_numbers *all[] = { &p->stack, &p->marks, &p->memo };
    for (int i = 0; i < RG_COUNT(all); i++)
        rgi_free(all[i]->v, all[i]->room * sizeof *all[i]->v, RG_MEM_OTHER);
    *p = (rg_pickle){ 0 };
}

/* ---- reading bytes and numbers of the pickle ------------------------------------------ */

/* Returns a pointer to the next n bytes, and moves p->at behind them. If fewer bytes are left,
 * fails and returns NULL. */
static const unsigned char *next_bytes(rg_pickle *p, size_t n) {
    if (n > p->n - p->at) {
        rgi_pickle_refuse(p, "it ends too early");
        return NULL;
    }
    p->at += n;
    return (const unsigned char *)p->bytes + p->at - n;
}

/* Reads a little-endian number of `bytes` bytes into *number. Returns false on failure. */
static bool next_number(rg_pickle *p, size_t bytes, uint32_t *number) {
    const unsigned char *b = next_bytes(p, bytes);
    *number = 0;
    for (size_t i = 0; b && i < bytes; i++)
        *number |= (uint32_t)b[i] << 8 * i;
    return b;
}

/* Reads a line, and sets *n to its length without the line feed. Fails and returns NULL if there is
 * no line feed. */
static const char *next_line(rg_pickle *p, size_t *n) {
    const char *from = p->bytes + p->at;
    const char *end = memchr(from, '\n', p->n - p->at);
    *n = end ? (size_t)(end - from) : p->n - p->at;
    return (const char *)next_bytes(p, *n + 1);
}

/* Reads the protocol number. It may be at most 5, as in Python. (Torch warns if it isn't 2.) */
static bool read_protocol(rg_pickle *p) {
    uint32_t protocol;
    return next_number(p, 1, &protocol)
           && (protocol <= PROTOCOL_MOST
               || rgi_pickle_refuse(p, "unsupported pickle protocol: %u", protocol));
}

/* ---- values that the pickle spells out: integers, floats, strings, globals ------------------- */

static bool push_kind(rg_pickle *p, rg_pickle_kind kind) {
    return push_value(p, (rg_pickle_value){ .kind = kind });
}

static bool push_int(rg_pickle *p, rg_pickle_kind kind, int64_t i) {
    return push_value(p, (rg_pickle_value){ .kind = kind, .i = i });
}

/* Reads an integer of `bytes` bytes, and pushes it. An integer of one or two bytes is unsigned, and
 * one of four bytes is signed. */
static bool read_int(rg_pickle *p, size_t bytes) {
    uint32_t number;
    return next_number(p, bytes, &number) && push_int(p, RG_PICKLE_INT, (int32_t)number);
}

/* Reads and pushes an integer: first a byte with the number of its bytes, then these bytes, in
 * two's complement and little-endian. If int64 can't hold the integer, pushes a value of kind
 * RG_PICKLE_LONG. */
static bool read_long(rg_pickle *p) {
    uint32_t n;
    if (!next_number(p, 1, &n))
        return false;
    const unsigned char *b = next_bytes(p, n);
    if (!b)
        return false;
    const int fill = n > 0 && b[n - 1] & 0x80 ? 0xFF : 0;
    bool fits = n <= 8 || (b[7] & 0x80) == (fill & 0x80);
    for (size_t i = 8; i < n; i++)
        fits &= b[i] == fill;
    if (!fits) {
        rg_pickle_value v = { .kind = RG_PICKLE_LONG, .n = n, .v = (const char *)b };
        return push_value(p, v);
    }
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++)
        value |= (uint64_t)(i < n ? b[i] : fill) << 8 * i;
    return push_int(p, RG_PICKLE_INT, (int64_t)value);
}

static bool read_float(rg_pickle *p) {
    const unsigned char *b = next_bytes(p, 8);
    if (!b)
        return false;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | b[i];
    rg_pickle_value v = { .kind = RG_PICKLE_FLOAT };
    memcpy(&v.f, &bits, sizeof v.f);
    return push_value(p, v);
}

/* Reads and pushes a string: first its length, which is a number of `bytes` bytes, then its
 * characters. Fails if they aren't UTF-8. */
static bool pickle_read_text(rg_pickle *p, size_t bytes) {
    uint32_t n;
    if (!next_number(p, bytes, &n))
        return false;
    const char *text = (const char *)next_bytes(p, n);
    if (!text)
        return false;
    if (!rgi_is_utf8(text, n))
        return rgi_pickle_refuse(p, "a text isn't UTF-8");
    return push_value(p, (rg_pickle_value){ .kind = RG_PICKLE_TEXT, .n = n, .v = text });
}

/* Reads and pushes a global: a line with the module and a line with the name. Python 2's module
 * __builtin__ counts as Python 3's builtins. Fails if the library doesn't know the global. */
static bool read_global(rg_pickle *p) {
    size_t n, wide;
    const char *module = next_line(p, &n);
    const char *name = module ? next_line(p, &wide) : NULL;
    if (!name)
        return false;
    char text[160];
    const bool builtin = n == 11 && memcmp(module, "__builtin__", 11) == 0;
    int length = snprintf(text, sizeof text, "%.*s.%.*s", (int)RG_MIN(n, 1000u),
                          builtin ? "builtins" : module, (int)RG_MIN(wide, 1000u), name);
    size_t whole = RG_MIN((size_t)length, sizeof text - 1);
    int row = memchr(module, 0, n) || memchr(name, 0, wide) ? -1 : rgi_pickle_global(text, whole);
    if (row < 0)
        return rgi_pickle_refuse_global(p, text, whole);
    return push_value(p, (rg_pickle_value){ .kind = RG_PICKLE_GLOBAL, .global = (uint8_t)row });
}

/* ---- the memo of values ---------------------------------------------------------------- */

static bool memo_put(rg_pickle *p, size_t bytes) {
    uint32_t at;
    if (!next_number(p, bytes, &at) || !stack_has(p, 1))
        return false;
    /* Picklers number the memo's values 0, 1, 2, .. and write at least one byte for each, so a
     * valid index is less than the pickle's length. Without this check a small file could make the
     * memo huge. */
    if (at >= p->n)
        return rgi_pickle_refuse(p, "the memo's number %u is larger than the pickle", at);
    while (p->memo.n <= at)
        if (!pickle_add_number(&p->memo, UINT32_MAX))
            return false;
    p->memo.v[at] = stack_top(p);
    return true;
}

static bool memo_get(rg_pickle *p, size_t bytes) {
    uint32_t at;
    if (!next_number(p, bytes, &at))
        return false;
    if (at >= p->memo.n || p->memo.v[at] == UINT32_MAX)
        return rgi_pickle_refuse(p, "the memo has no number %u", at);
    return pickle_add_number(&p->stack, p->memo.v[at]);
}

/* ---- values that are made from values on the stack ------------------------------------------- */

/* Removes n values from the stack, and pushes a tuple of them. Returns false on failure. */
static bool make_tuple(rg_pickle *p, size_t n) {
    uint32_t tuple;
    if (!stack_has(p, n)
        || !rgi_pickle_add(p, (rg_pickle_value){ .kind = RG_PICKLE_TUPLE }, &tuple))
        return false;
    p->stack.n -= n;
    for (size_t i = 0; i < n; i++)
        if (!rgi_pickle_append(p, tuple, p->stack.v[p->stack.n + i]))
            return false;
    return pickle_add_number(&p->stack, tuple);
}

/* Removes the last mark, and sets *n to the number of values above it. The values stay on the
 * stack. Fails if there is no mark. */
static bool take_mark(rg_pickle *p, size_t *n) {
    if (!p->marks.n)
        return rgi_pickle_refuse(p, "there is no mark");
    *n = stack_left(p);
    p->marks.n--;
    return true;
}

/* Removes n values from the stack, and appends them to the value below them, which must be of this
 * kind (a list or a dict). Returns false on failure, for example if a dict would get a key without
 * a value. */
static bool pickle_take_into(rg_pickle *p, rg_pickle_kind kind, size_t n) {
    if (!stack_has(p, n + 1))
        return false;
    p->stack.n -= n;
    uint32_t to = stack_top(p);
    if (p->v[to].kind != kind)
        return rgi_pickle_refuse(p, "only %s can take items, but here is %s",
                                 kind == RG_PICKLE_LIST ? "a list" : "a dict",
                                 rgi_pickle_kind_name(p, to));
    if (kind == RG_PICKLE_DICT && n % 2)
        return rgi_pickle_refuse(p, "a dict's last key has no value");
    for (size_t i = 0; i < n; i++)
        if (!rgi_pickle_append(p, to, p->stack.v[p->stack.n + i]))
            return false;
    return true;
}

static bool pickle_take_marked(rg_pickle *p, rg_pickle_kind kind) {
    size_t n = 0;
    return take_mark(p, &n) && pickle_take_into(p, kind, n);
}

static bool make_marked_tuple(rg_pickle *p) {
    size_t n = 0;
    return take_mark(p, &n) && make_tuple(p, n);
}

/* Removes two values from the stack, calls the function `call` with them, and pushes its result.
 * Returns false on failure. */
static bool make_call(rg_pickle *p, bool (*call)(rg_pickle *, uint32_t, uint32_t, uint32_t *)) {
    if (!stack_has(p, 2))
        return false;
    p->stack.n -= 2;
    const uint32_t *v = p->stack.v + p->stack.n;
    uint32_t result;
    return call(p, v[0], v[1], &result) && pickle_add_number(&p->stack, result);
}

static bool build_top(rg_pickle *p) {
    if (!stack_has(p, 2))
        return false;
    p->stack.n--;
    const uint32_t state = p->stack.v[p->stack.n];
    rgi_pickle_end_wait(p, state);
    return rgi_pickle_build(p, stack_top(p), state);
}

static bool load_persistent(rg_pickle *p) {
    uint32_t result;
    if (!stack_has(p, 1) || !rgi_pickle_persistent(p, stack_top(p), &result))
        return false;
    p->stack.v[p->stack.n - 1] = result;
    return true;
}

static bool refuse_opcode(rg_pickle *p, unsigned char op) {
    const char *name = pickle_refused[op];
    return rgi_pickle_refuse(p, "Unsupported operand %d (%s)", op, name ? name : "no opcode");
}

static bool run_opcode(rg_pickle *p, unsigned char op) {
    switch (op) {
    case OP_PROTO: return read_protocol(p);
    case OP_GLOBAL: return read_global(p);
    case OP_REDUCE: return make_call(p, rgi_pickle_reduce);
    case OP_NEWOBJ: return make_call(p, rgi_pickle_newobj);
    case OP_BUILD: return build_top(p);
    case OP_BINPERSID: return load_persistent(p);
    case OP_MARK: return pickle_add_number(&p->marks, (uint32_t)p->stack.n);
    case OP_APPEND: return pickle_take_into(p, RG_PICKLE_LIST, 1);
    case OP_APPENDS: return pickle_take_marked(p, RG_PICKLE_LIST);
    case OP_SETITEM: return pickle_take_into(p, RG_PICKLE_DICT, 2);
    case OP_SETITEMS: return pickle_take_marked(p, RG_PICKLE_DICT);
    case OP_TUPLE: return make_marked_tuple(p);
    case OP_TUPLE1: return make_tuple(p, 1);
    case OP_TUPLE2: return make_tuple(p, 2);
    case OP_TUPLE3: return make_tuple(p, 3);
    case OP_NONE: return push_kind(p, RG_PICKLE_NONE);
    case OP_NEWFALSE: return push_int(p, RG_PICKLE_BOOL, 0);
    case OP_NEWTRUE: return push_int(p, RG_PICKLE_BOOL, 1);
    case OP_EMPTY_TUPLE: return push_kind(p, RG_PICKLE_TUPLE);
    case OP_EMPTY_LIST: return push_empty(p, RG_PICKLE_LIST);
    case OP_EMPTY_DICT: return push_empty(p, RG_PICKLE_DICT);
    case OP_EMPTY_SET: return push_kind(p, RG_PICKLE_SET);
    case OP_BININT: return read_int(p, 4);
    case OP_BININT1: return read_int(p, 1);
    case OP_BININT2: return read_int(p, 2);
    case OP_BINFLOAT: return read_float(p);
    case OP_BINUNICODE: return pickle_read_text(p, 4);
    case OP_SHORT_BINSTRING: return pickle_read_text(p, 1);
    case OP_LONG1: return read_long(p);
    case OP_BINGET: return memo_get(p, 1);
    case OP_LONG_BINGET: return memo_get(p, 4);
    case OP_BINPUT: return memo_put(p, 1);
    case OP_LONG_BINPUT: return memo_put(p, 4);
    default: return refuse_opcode(p, op);
    }
}

bool rgi_pickle_read(rg_pickle *p) {
    if (p->n > PICKLE_BYTES_MAX)
        return rgi_pickle_refuse(p, "it has %zu bytes, and %zu are the most", p->n,
                                 PICKLE_BYTES_MAX);
    for (;;) {
        const unsigned char *op = next_bytes(p, 1);
        if (!op)
            return false;
        if (*op == OP_STOP)
            break;
        if (!run_opcode(p, *op))
            return false;
    }
    if (!stack_has(p, 1))
        return false;
    p->result = stack_top(p);
    return true;
}

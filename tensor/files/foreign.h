/*
 * foreign.h: the element types that files may have. regard's own seven types are read as they are.
 * Other integers are converted to int64, and other floats to float32. int64 and float32 can hold
 * all values of these types, except a uint64 of 2^63 or more, which is an error. Reading a type
 * that isn't in the table fails as well, and the error message names the type.
 */
#pragma once

#include "tensor/tensor.h"
#include "file.h"

/* Each row is X(NAME, bytes, dtype, safetensors, numpy, torch, storage):
 *
 *     NAME         the type is RG_FILE_NAME
 *     bytes        the size of an element in bytes
 *     dtype        RG_dtype is the dtype of the tensor to which the elements are converted
 *     safetensors  the name in safetensors
 *     numpy        the name in NumPy's .npy, without the character for the byte order
 *     torch        the name in torch: float16 for torch.float16
 *     storage      the name of torch's storage class for such elements, without "Storage"
 *
 * A name is NULL if the format lacks the type. The rows are in the order of safetensors' own table,
 * in which larger elements come last. safetensors_write.c sorts tensors by the index of their
 * type. */
/* clang-format off */
#define RG_FOREIGN_TYPES(X)                                                             \
    X(BOOL,    1, BOOL,       "BOOL",    "b1", "bool",           "Bool")                \
    X(U8,      1, UINT8,      "U8",      "u1", "uint8",          "Byte")                \
    X(I8,      1, INT64,      "I8",      "i1", "int8",           "Char")                \
    X(F8_E5M2, 1, FLOAT32,    "F8_E5M2", NULL, "float8_e5m2",    NULL)                  \
    X(F8_E4M3, 1, FLOAT32,    "F8_E4M3", NULL, "float8_e4m3fn",  NULL)                  \
    X(F8_E8M0, 1, FLOAT32,    "F8_E8M0", NULL, "float8_e8m0fnu", NULL)                  \
    X(I16,     2, INT64,      "I16",     "i2", "int16",          "Short")               \
    X(U16,     2, INT64,      "U16",     "u2", "uint16",         NULL)                  \
    X(F16,     2, FLOAT16,    "F16",     "f2", "float16",        "Half")                \
    X(BF16,    2, BFLOAT16,   "BF16",    NULL, "bfloat16",       "BFloat16")            \
    X(I32,     4, INT64,      "I32",     "i4", "int32",          "Int")                 \
    X(U32,     4, INT64,      "U32",     "u4", "uint32",         NULL)                  \
    X(F32,     4, FLOAT32,    "F32",     "f4", "float32",        "Float")               \
    X(F64,     8, FLOAT64,    "F64",     "f8", "float64",        "Double")              \
    X(I64,     8, INT64,      "I64",     "i8", "int64",          "Long")                \
    X(U64,     8, INT64,      "U64",     "u8", "uint64",         NULL)
/* clang-format on */

#define RG_FOREIGN_NAME_(NAME, ...) RG_FILE_##NAME,
typedef enum { RG_FOREIGN_TYPES(RG_FOREIGN_NAME_) RG_FOREIGN_COUNT } rg_foreign;

typedef struct {
    size_t bytes;
    rg_dtype dtype;
    const char *safetensors, *numpy, *torch, *storage;
} rg_foreign_row;
extern const rg_foreign_row rgi_foreign[RG_FOREIGN_COUNT];

/* Returns the type in which elements of this dtype are written to a file. Returns RG_FOREIGN_COUNT
 * for RG_NO_DTYPE. */
rg_foreign rgi_foreign_of(rg_dtype dtype);

/* Converts n elements at `from`, which have the file type `type`, to the dtype in the type's row,
 * and writes them to `to`. `swapped` says that the bytes of each element are in the opposite order
 * to the machine's. Returns n. If an element is a uint64 of 2^63 or more, which can't be converted,
 * returns the index of the first such element. */
int64_t rgi_convert(rg_foreign type, bool swapped, void *to, const void *from, int64_t n);
/* A function that reads the next n bytes of `source` into `to`, and returns false on failure. */
typedef bool rg_next_bytes(void *source, void *to, size_t n);
/* Reads n elements, whose bytes come from the function `next`, and converts them. The file and
 * `what`, such as tensor "weight", are for error messages. Returns false on failure. */
bool rgi_read_elements_of(const rg_file *f, rg_next_bytes *next, void *source, rg_foreign type,
                          bool swapped, void *to, int64_t n, const char *what);
/* Fails with the message that int64 can't hold the uint64 at `from`, which is element number `at`
 * of `what`. Returns false. */
bool rgi_refuse_element(const rg_file *f, bool swapped, const void *from, int64_t at,
                        const char *what);
/* Reads n elements of the file, which begin at offset `at`, and converts them. Returns false on
 * failure. */
bool rgi_read_elements(const rg_file *f, uint64_t at, rg_foreign type, bool swapped, void *to,
                       int64_t n, const char *what);
/* Writes t's elements in row-major order, whatever t's strides are. */
void rgi_write_elements(rg_writer *w, const rg_tensor *t);

/* Returns whether the machine is little-endian: the lowest byte of a number comes first. */
static inline bool rgi_little_endian(void) { return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__; }

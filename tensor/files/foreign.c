/*
 * foreign.c: the table of the element types that files may have, and the conversion of these types
 * to regard's own types.
 */
#include "foreign.h"

#include "tensor/kernels/copy.h"
#include "tensor/storage.h"

#include <math.h>
#include <string.h>

#define RG_FOREIGN_ROW_(NAME, bytes, dtype, safetensors, numpy, torch, storage) \
    [RG_FILE_##NAME] = { bytes, RG_##dtype, safetensors, numpy, torch, storage },
const rg_foreign_row rgi_foreign[RG_FOREIGN_COUNT] = { RG_FOREIGN_TYPES(RG_FOREIGN_ROW_) };

rg_foreign rgi_foreign_of(rg_dtype dtype) {
    switch (dtype) {
    case RG_BOOL: return RG_FILE_BOOL;
    case RG_INT64: return RG_FILE_I64;
    case RG_FLOAT32: return RG_FILE_F32;
    case RG_FLOAT64: return RG_FILE_F64;
    case RG_BFLOAT16: return RG_FILE_BF16;
    case RG_FLOAT16: return RG_FILE_F16;
    case RG_UINT8: return RG_FILE_U8;
    case RG_NO_DTYPE: break;
    }
    return RG_FOREIGN_COUNT;
}

/* ---- converting one element ----------------------------------------------------------- */

static inline float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the value of a float of few bits: a sign bit, then `exponent` bits, which hold a number
 * e, and `mantissa` bits m. The value is (-1)^sign * 2^(e - bias) * 1.m; if e is 0, it is (-1)^sign
 * * 2^(1 - bias) * 0.m. The caller handles the largest e, which may mean infinity or NaN. */
static float small_float(uint32_t bits, int exponent, int mantissa) {
    const int bias = (1 << (exponent - 1)) - 1;
    const uint32_t m = bits & ((1u << mantissa) - 1);
    const int e = (int)(bits >> mantissa) & ((1 << exponent) - 1);
    const float whole = e ? (float)(m | 1u << mantissa) : (float)m;
    const float value = ldexpf(whole, (e ? e : 1) - bias - mantissa);
    return bits >> (exponent + mantissa) & 1 ? -value : value;
}

/* Returns the value of a float8_e4m3. This type has no infinity. If all bits of the exponent and of
 * the mantissa are set, the value is NaN. Other values with the largest exponent are ordinary
 * numbers. */
static inline float float_of_f8_e4m3(uint8_t bits) {
    if ((bits & 0x7F) == 0x7F)
        return float_of_bits(bits & 0x80 ? 0xFFF00000 : 0x7FF00000);
    return small_float(bits, 4, 3);
}

/* Returns the value of a float8_e5m2, whose bits are the upper byte of the float16 with the same
 * value. */
static inline float float_of_f8_e5m2(uint8_t bits) {
    return k_float_of_float16((k_float16){ (uint16_t)((uint32_t)bits << 8) });
}

/* Returns the value of a float8_e8m0, which consists of an exponent only: 2^(bits - 127), or NaN if
 * all bits are set. */
static inline float float_of_f8_e8m0(uint8_t bits) {
    return bits == 0xFF ? float_of_bits(0x7FC00000) : ldexpf(1, bits - 127);
}

/* ---- converting many elements --------------------------------------------------------- */

static inline void turn_bytes(char *to, const char *from, size_t bytes, bool swapped) {
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[swapped ? bytes - 1 - i : i];
}

/* Type names for the loops below. element_INT64, for example, is the C type of RG_INT64's elements,
 * and to_U8 is the C type to which elements of the file type U8 are converted. */
#define ELEMENT(NAME, suffix, type, ...) typedef type element_##NAME;
RG_DTYPES(ELEMENT, )
#define TO_ELEMENT(NAME, bytes, dtype, ...) typedef element_##dtype to_##NAME;
RG_FOREIGN_TYPES(TO_ELEMENT)

/* EACH is the code of a case in rgi_convert: a loop that converts n elements of the file type NAME.
 * `value` is the converted element, as an expression of the file's element x. */
#define EACH(NAME, from_type, value)                                          \
    for (int64_t i = 0; i < n; i++) {                                         \
        from_type x;                                                          \
        turn_bytes((char *)&x, p + i * (int64_t)sizeof x, sizeof x, swapped); \
        ((to_##NAME *)to)[i] = (to_##NAME)(value);                            \
    }                                                                         \
    return n

int64_t rgi_convert(rg_foreign type, bool swapped, void *to, const void *from, int64_t n) {
    const char *p = from;
    switch (type) {
    case RG_FILE_BOOL: EACH(BOOL, uint8_t, x != 0);
    case RG_FILE_I8: EACH(I8, int8_t, x);
    case RG_FILE_U16: EACH(U16, uint16_t, x);
    case RG_FILE_I16: EACH(I16, int16_t, x);
    case RG_FILE_U32: EACH(U32, uint32_t, x);
    case RG_FILE_I32: EACH(I32, int32_t, x);
    case RG_FILE_U64:
        for (int64_t i = 0; i < n; i++) {
            uint64_t x;
            turn_bytes((char *)&x, p + i * 8, 8, swapped);
            if (x > INT64_MAX)
                return i;
            ((to_U64 *)to)[i] = (to_U64)x;
        }
        return n;
    case RG_FILE_F8_E4M3: EACH(F8_E4M3, uint8_t, float_of_f8_e4m3(x));
    case RG_FILE_F8_E5M2: EACH(F8_E5M2, uint8_t, float_of_f8_e5m2(x));
    case RG_FILE_F8_E8M0: EACH(F8_E8M0, uint8_t, float_of_f8_e8m0(x));
    case RG_FILE_U8:
    case RG_FILE_F16:
    case RG_FILE_BF16:
    case RG_FILE_I64:
    case RG_FILE_F32:
    case RG_FILE_F64:
    case RG_FOREIGN_COUNT: break;
    }
    const size_t bytes = rgi_foreign[type].bytes;
    if (!swapped && n > 0)
        memcpy(to, from, (size_t)n * bytes);
    for (int64_t i = 0; swapped && i < n; i++)
        turn_bytes((char *)to + i * (int64_t)bytes, p + i * (int64_t)bytes, bytes, true);
    return n;
}

/* ---- elements in files ---------------------------------------------------------------- */

bool rgi_refuse_element(const rg_file *f, bool swapped, const void *from, int64_t at,
                        const char *what) {
    uint64_t x;
    turn_bytes((char *)&x, from, sizeof x, swapped);
    return rgi_file_refuse(f, "%s: element %lld is %llu, which int64 can't hold", what,
                           (long long)at, (unsigned long long)x);
}

bool rgi_read_elements_of(const rg_file *f, rg_next_bytes *next, void *source, rg_foreign type,
                          bool swapped, void *to, int64_t n, const char *what) {
    const rg_foreign_row *row = &rgi_foreign[type];
    const bool as_it_is = type == rgi_foreign_of(row->dtype) && type != RG_FILE_BOOL;
    if (as_it_is && !swapped)
        return next(source, to, (size_t)n * row->bytes);
    char part[1 << 14];
    const int64_t most = (int64_t)(sizeof part / row->bytes);
    const size_t size = rgi_sizeof(row->dtype);
    for (int64_t done = 0, m; done < n; done += m) {
        m = RG_MIN(most, n - done);
        if (!next(source, part, (size_t)m * row->bytes))
            return false;
        int64_t good = rgi_convert(type, swapped, (char *)to + (size_t)done * size, part, m);
        if (good < m)
            return rgi_refuse_element(f, swapped, part + (size_t)good * row->bytes, done + good,
                                      what);
    }
    return true;
}

typedef struct {
    const rg_file *file;
    uint64_t at; /* The offset of the next byte. */
} file_place;

static bool next_of_file(void *source, void *to, size_t n) {
    file_place *place = source;
    const uint64_t at = place->at;
    place->at += n;
    return rgi_file_read(place->file, at, to, n);
}

bool rgi_read_elements(const rg_file *f, uint64_t at, rg_foreign type, bool swapped, void *to,
                       int64_t n, const char *what) {
    file_place place = { f, at };
    return rgi_read_elements_of(f, next_of_file, &place, type, swapped, to, n, what);
}

/* Writes the elements of a tensor that isn't contiguous: copies some rows at a time into contiguous
 * memory, and writes these copies. If memory for the copies runs out, sets w->failed. */
static void write_rows(rg_writer *w, const rg_tensor *t) {
    enum { AT_ONCE = 1 << 20 };
    const int64_t row_bytes = (int64_t)rgi_bytes_of(t) / t->size[0];
    const int64_t most = RG_MIN(t->size[0], RG_MAX(1, AT_ONCE / row_bytes));
    rg_tensor rows = rgi_header_of(t);
    rows.size[0] = most;
    rg_tensor *copy = rgi_new_like(&rows, (rg_dtype)t->dtype);
    w->failed = !copy;
    for (int64_t done = 0; !w->failed && done < t->size[0]; done += most) {
        rows.size[0] = RG_MIN(most, t->size[0] - done);
        copy->size[0] = rows.size[0];
        rgi_update_flags(&rows);
        rgi_update_flags(copy);
        rgi_copy_elements(copy, &rows);
        rgi_write(w, copy->data, rgi_bytes_of(copy));
        rows.data += most * t->stride[0] * (int64_t)rgi_sizeof((rg_dtype)t->dtype);
    }
    rgi_release(copy);
}

void rgi_write_elements(rg_writer *w, const rg_tensor *t) {
    if (w->failed)
        return;
    if (t->flags & RG_CONTIGUOUS)
        rgi_write(w, t->data, rgi_bytes_of(t));
    else
        write_rows(w, t);
}

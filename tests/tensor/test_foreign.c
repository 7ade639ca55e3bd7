/*
 * test_foreign.c: element types in files. Every code of a small type gives PyTorch's number, and
 * integers keep their values. Bytes are read in either order. Integers that int64 can't hold are
 * refused.
 */
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/files/foreign.h"
#include "tensor/kernels/copy.h"
#include "tensor/scope.h"
#include "tensor/structs.h"

#include <stdio.h>

/* ---- every code --------------------------------------------------------------------- */

/* Returns the float's bits. As in the golden data, all NaNs of a sign count as one. */
static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits : (bits & 0x80000000) | 0x7FC00000;
}

/* Returns the element as a float32. A float of 16 bits is converted as rg_to converts it. */
static float convert_one(rg_foreign type, const void *from, bool swapped) {
    float x = 0, read = 0;
    const rg_dtype dtype = rgi_foreign[type].dtype;
    ck_assert_int_eq(rgi_convert(type, swapped, &read, from, 1), 1);
    rgi_copy_elements(&RG_NUMBER(RG_FLOAT32, &x), &RG_NUMBER(dtype, &read));
    return x;
}

START_TEST(test_float8) {
    static const struct {
        const char *name;
        rg_foreign type;
    } types[] = { { "f8_e4m3", RG_FILE_F8_E4M3 },
                  { "f8_e5m2", RG_FILE_F8_E5M2 },
                  { "f8_e8m0", RG_FILE_F8_E8M0 } };
    for (int i = 0; i < RG_COUNT(types); i++) {
        golden_file f = golden_find("foreign", "%s", types[i].name);
        char *line = "";
        for (int code = 0; code < 256; code++) {
            if (golden_at_end(line))
                line = golden_field(&f, ':');
            const uint32_t expected = (uint32_t)golden_bits(&line);
            const uint8_t byte = (uint8_t)code;
            const uint32_t got = bits_of(convert_one(types[i].type, &byte, code % 2));
            ck_each(got == expected, "%s 0x%02x is %08x, not %08x", types[i].name, code, got,
                    expected);
        }
        golden_close(&f);
    }
}
END_TEST

/* Returns the FNV-1a hash of the bits of all 65536 numbers. */
static uint64_t hash_of_halves(rg_foreign type, bool swapped) {
    uint64_t h = 0xcbf29ce484222325;
    for (uint32_t code = 0; code < 65536; code++) {
        const uint8_t bytes[2] = { (uint8_t)(swapped ? code >> 8 : code),
                                   (uint8_t)(swapped ? code : code >> 8) };
        const uint32_t bits = bits_of(convert_one(type, bytes, swapped == rgi_little_endian()));
        for (int i = 0; i < 4; i++)
            h = (h ^ (bits >> 8 * i & 0xFF)) * 0x100000001b3;
    }
    return h;
}

START_TEST(test_halves) {
    for (int i = 0; i < 2; i++) {
        golden_file f = golden_find("foreign", i ? "bf16" : "f16");
        char *line = golden_field(&f, ':');
        const uint64_t expected = golden_bits(&line);
        for (int swapped = 0; swapped < 2; swapped++)
            ck_assert_uint_eq(hash_of_halves(i ? RG_FILE_BF16 : RG_FILE_F16, swapped), expected);
        golden_close(&f);
    }
}
END_TEST

/* A NaN keeps its sign and the bits of its mantissa. */
START_TEST(test_nans) {
    static const struct {
        rg_foreign type;
        uint16_t from;
        uint32_t to;
    } nans[] = {
        { RG_FILE_F16, 0x7C01, 0x7F802000 },   { RG_FILE_F16, 0xFE00, 0xFFC00000 },
        { RG_FILE_F16, 0x7FFF, 0x7FFFE000 },   { RG_FILE_BF16, 0x7F81, 0x7F810000 },
        { RG_FILE_BF16, 0xFFC0, 0xFFC00000 },  { RG_FILE_F8_E4M3, 0x7F, 0x7FF00000 },
        { RG_FILE_F8_E4M3, 0xFF, 0xFFF00000 }, { RG_FILE_F8_E5M2, 0x7D, 0x7FA00000 },
        { RG_FILE_F8_E5M2, 0xFF, 0xFFE00000 }, { RG_FILE_F8_E8M0, 0xFF, 0x7FC00000 },
    };
    for (int i = 0; i < RG_COUNT(nans); i++) {
        const float nan = convert_one(nans[i].type, &nans[i].from, false);
        uint32_t bits;
        memcpy(&bits, &nan, sizeof bits);
        ck_each(bits == nans[i].to, "%s %x is %x", rgi_foreign[nans[i].type].safetensors,
                nans[i].from, bits);
    }
}
END_TEST

/* ---- integers ----------------------------------------------------------------------- */

/* Writes the low bytes of v, in the other order than the machine's if `swapped`. */
static void put_bytes(char *to, uint64_t v, size_t bytes, bool swapped) {
    for (size_t i = 0; i < bytes; i++)
        to[swapped == rgi_little_endian() ? bytes - 1 - i : i] = (char)(v >> 8 * i);
}

static const struct {
    rg_foreign type;
    int64_t least, most;
} integers[] = {
    { RG_FILE_U8, 0, UINT8_MAX },   { RG_FILE_I8, INT8_MIN, INT8_MAX },
    { RG_FILE_U16, 0, UINT16_MAX }, { RG_FILE_I16, INT16_MIN, INT16_MAX },
    { RG_FILE_U32, 0, UINT32_MAX }, { RG_FILE_I32, INT32_MIN, INT32_MAX },
    { RG_FILE_U64, 0, INT64_MAX },  { RG_FILE_I64, INT64_MIN, INT64_MAX },
};

/* Returns element k of the converted elements. */
static int64_t element_at(rg_foreign type, const void *to, int k) {
    const rg_dtype dtype = rgi_foreign[type].dtype;
    return rgi_load_i64((const char *)to + (size_t)k * rgi_sizeof(dtype), dtype);
}

START_TEST(test_integers) {
    for (int i = 0; i < RG_COUNT(integers); i++)
        for (int swapped = 0; swapped < 2; swapped++) {
            const int64_t values[] = { integers[i].least,     integers[i].most,    0, 1, 100,
                                       integers[i].least / 3, integers[i].most / 3 };
            const size_t bytes = rgi_foreign[integers[i].type].bytes;
            char from[8 * RG_COUNT(values)];
            int64_t to[RG_COUNT(values)];
            for (int k = 0; k < RG_COUNT(values); k++)
                put_bytes(from + (size_t)k * bytes, (uint64_t)values[k], bytes, swapped);
            ck_assert_int_eq(rgi_convert(integers[i].type, swapped, to, from, RG_COUNT(values)),
                             RG_COUNT(values));
            for (int k = 0; k < RG_COUNT(values); k++)
                ck_assert_int_eq(element_at(integers[i].type, to, k), values[k]);
        }
}
END_TEST

START_TEST(test_too_large) {
    for (int swapped = 0; swapped < 2; swapped++) {
        char from[32];
        int64_t to[4];
        const uint64_t values[] = { 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };
        for (int k = 0; k < 4; k++)
            put_bytes(from + k * 8, values[k], 8, swapped);
        ck_assert_int_eq(rgi_convert(RG_FILE_U64, swapped, to, from, 4), 2);
        ck_assert_int_eq(rgi_convert(RG_FILE_U64, swapped, to, from + 24, 1), 0);
        rg_file f = { .op = "read", .path = "f" };
        ck_fails(rgi_refuse_element(&f, swapped, from + 24, 7, "tensor \"x\""), RG_IO_ERROR,
                 "read: 'f': tensor \"x\": element 7 is 18446744073709551615, which int64 can't "
                 "hold");
    }
}
END_TEST

/* Elements of regard's own types are copied with the bits of NaNs. A bool is true if its byte isn't
 * 0. */
START_TEST(test_own_types) {
    const uint64_t doubles[] = { 0x7FF0000000000001, 0x8000000000000000, 0x3FF0000000000000 };
    const uint32_t floats[] = { 0x7F800001, 0x80000000, 0x3F800000 };
    for (int swapped = 0; swapped < 2; swapped++) {
        char from[24];
        uint64_t d[3];
        uint32_t f[3];
        for (int k = 0; k < 3; k++)
            put_bytes(from + k * 8, doubles[k], 8, swapped);
        /* If one, two or three elements are converted, nothing is written behind them. */
        for (int n = 0; n < 3; n++) {
            memset(d, 0, sizeof d);
            ck_assert_int_eq(rgi_convert(RG_FILE_F64, swapped, d, from, n), n);
            ck_assert(memcmp(d, doubles, (size_t)n * 8) == 0 && d[n] == 0);
        }
        ck_assert_int_eq(rgi_convert(RG_FILE_F64, swapped, d, from, 3), 3);
        ck_assert(memcmp(d, doubles, sizeof d) == 0);
        for (int k = 0; k < 3; k++)
            put_bytes(from + k * 4, floats[k], 4, swapped);
        ck_assert_int_eq(rgi_convert(RG_FILE_F32, swapped, f, from, 3), 3);
        ck_assert(memcmp(f, floats, sizeof f) == 0);
    }
    uint8_t bools[256];
    bool to[256];
    for (int i = 0; i < 256; i++)
        bools[i] = (uint8_t)i;
    ck_assert_int_eq(rgi_convert(RG_FILE_BOOL, false, to, bools, 256), 256);
    for (int i = 0; i < 256; i++)
        ck_each(*(char *)&to[i] == (i != 0), "%d", i);
    ck_assert_int_eq(rgi_convert(RG_FILE_F32, false, NULL, NULL, 0), 0);
    ck_assert_int_eq(rgi_convert(RG_FILE_F16, true, NULL, NULL, 0), 0);
}
END_TEST

START_TEST(test_rows) {
    for (int type = 0; type < RG_FOREIGN_COUNT; type++) {
        const rg_foreign_row *row = &rgi_foreign[type];
        ck_assert(row->bytes && row->safetensors && row->torch);
        const bool own = rgi_foreign_of(row->dtype) == (rg_foreign)type;
        ck_assert(!own || row->bytes == rgi_sizeof(row->dtype));
        ck_assert(!own || strcmp(row->torch, rg_dtype_name(row->dtype) + strlen("torch.")) == 0);
        for (int other = 0; other < type; other++)
            ck_assert(strcmp(rgi_foreign[other].safetensors, row->safetensors) != 0);
    }
    for (int d = RG_BOOL; d < RG_DTYPE_COUNT; d++)
        ck_assert_int_eq(rgi_foreign[rgi_foreign_of((rg_dtype)d)].dtype, d);
}
END_TEST

/* ---- files -------------------------------------------------------------------------- */

/* More elements are read than are converted at a time. */
START_TEST(test_read_elements) {
    enum { N = 40000 };
    scratch_begin();
    static char bytes[3 + N * 8];
    static int64_t to[N];
    for (int i = 0; i < RG_COUNT(integers); i++) {
        const rg_foreign type = integers[i].type;
        const size_t size = rgi_foreign[type].bytes;
        for (int swapped = 0; swapped < 2; swapped++) {
            for (int k = 0; k < N; k++)
                put_bytes(bytes + 3 + (size_t)k * size, (uint64_t)(k & 127), size, swapped);
            const char *path = scratch_write("f", bytes, 3 + N * size);
            rg_file f;
            ck_ok(rgi_file_open(&f, "read", path));
            ck_ok(rgi_read_elements(&f, 3, type, swapped, to, N, "it"));
            for (int k = 0; k < N; k++)
                ck_each(element_at(type, to, k) == (k & 127), "%s: element %d",
                        rgi_foreign[type].safetensors, k);
            ck_fails(rgi_read_elements(&f, 4, type, swapped, to, N, "it"), RG_IO_ERROR,
                     "is needed");
            rgi_file_close(&f);
        }
    }
    memset(bytes, 0, sizeof bytes);
    put_bytes(bytes + 3 + 33333 * 8, UINT64_MAX, 8, false);
    rg_file f;
    ck_ok(rgi_file_open(&f, "read", scratch_write("f", bytes, sizeof bytes)));
    ck_fails(rgi_read_elements(&f, 3, RG_FILE_U64, false, to, N, "tensor \"x\""), RG_IO_ERROR,
             "f': tensor \"x\": element 33333 is 18446744073709551615, which int64 can't hold");
    rgi_file_close(&f);
    scratch_end();
}
END_TEST

/* Asserts that the file has just x's elements, in the order of its dims. */
static void check_written(const rg_tensor *x) {
    rg_writer w;
    ck_ok(rgi_writer_begin(&w, "write", scratch("f")));
    rgi_write_elements(&w, x);
    ck_ok(rgi_writer_end(&w));
    size_t n, bytes = rgi_bytes_of(x);
    char *got = file_bytes(scratch("f"), &n), *expected = malloc(bytes + 1);
    ck_assert_uint_eq(n, bytes);
    ck_ok(rg_copy_out((rg_tensor *)(uintptr_t)x, expected, bytes));
    ck_assert(memcmp(got, expected, bytes) == 0);
    free(got);
    free(expected);
}

/* Returns a view of x with these sizes and strides, from element `from` on. */
static rg_tensor *strided(rg_tensor *x, rg_dims size, rg_dims stride, int64_t from) {
    rg_tensor *view = rgi_own(rgi_alias(x));
    rgi_set_size(view, &size);
    for (int d = 0; d < stride.n; d++)
        view->stride[d] = stride.v[d];
    view->data += (size_t)from * rgi_sizeof((rg_dtype)x->dtype);
    rgi_update_flags(view);
    return view;
}

START_TEST(test_write_elements) {
    scratch_begin();
    RG_SCOPE();
    for (int d = RG_BOOL; d < RG_DTYPE_COUNT; d++) {
        rg_tensor *x = rg_zeros_dims(RG_DIMS(60), (rg_dtype)d);
        ck_ok(x);
        for (int i = 0; i < 60; i++)
            rgi_store_i64(x->data + (size_t)i * rgi_sizeof((rg_dtype)d), (rg_dtype)d, i % 7);
        check_written(x);
        check_written(strided(x, RG_DIMS(5, 4, 3), RG_DIMS(12, 3, 1), 0));
        check_written(strided(x, RG_DIMS(3, 4, 5), RG_DIMS(1, 3, 12), 0));
        check_written(strided(x, RG_DIMS(7), RG_DIMS(8), 3));
        check_written(strided(x, RG_DIMS(4, 3), RG_DIMS(0, 2), 1));
        check_written(strided(x, RG_DIMS(3, 0, 2), RG_DIMS(2, 2, 1), 0));
        check_written(strided(x, RG_DIMS(), RG_DIMS(), 59));
    }
    scratch_end();
}
END_TEST

/* The rows of transposed tensors are copied some at a time. A row of three megabytes is copied
 * alone. */
START_TEST(test_write_many_rows) {
    scratch_begin();
    RG_SCOPE();
    rg_tensor *x = rg_zeros_dims(RG_DIMS(900000), RG_FLOAT32);
    ck_ok(x);
    for (int64_t i = 0; i < x->numel; i++)
        ((float *)x->data)[i] = (float)i;
    check_written(strided(x, RG_DIMS(1001, 751), RG_DIMS(1, 1003), 0));
    check_written(strided(x, RG_DIMS(7, 3, 30001), RG_DIMS(3, 1, 25), 2));
    check_written(strided(x, RG_DIMS(2, 800000), RG_DIMS(1, 1), 0));
    scratch_end();
}
END_TEST

RG_TESTS(foreign, test_float8, test_halves, test_nans, test_integers, test_too_large,
         test_own_types, test_rows, test_read_elements, test_write_elements,
         test_write_many_rows)

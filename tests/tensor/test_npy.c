/*
 * test_npy.c: NumPy's files are read, and written byte for byte as NumPy writes them. Bad files are
 * refused, each with its own sentence.
 */
#include "archive.h"
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/files/files.h"
#include "tensor/files/crc32.h"
#include "tensor/files/npy.h"
#include "tensor/scope.h"
#include "tensor/shape.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *golden_archive(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/../files/%s.npz", golden_folder(), name);
    return path;
}

/* ---- NumPy's archives ------------------------------------------------------------------ */

static double expected(char kind, int64_t i) {
    return kind == 'b'   ? i % 3 == 0
           : kind == 'u' ? (double)i
                         : (double)(i - 3) / (1 + (kind == 'f'));
}

/* Checks a tensor whose name describes it, as "<f4.C.2x3": type, order, shape. Its elements are
 * those that numpy_files.py writes. */
static void check_array(const char *name, rg_tensor *t) {
    RG_SCOPE();
    char order;
    int at, used;
    rg_dims shape = { 0 };
    ck_assert(sscanf(name, "%*c%*c%*c.%c.%n", &order, &at) == 1);
    for (const char *p = name + at; sscanf(p, "%ld%n", (long *)&shape.v[shape.n], &used) == 1;) {
        shape.n++;
        p += used + (p[used] == 'x');
    }
    const char kind = name[1];
    const int size = name[2] - '0';
    const rg_dtype dtype = kind == 'b'                ? RG_BOOL
                           : kind == 'u' && size == 1 ? RG_UINT8
                           : kind != 'f'              ? RG_INT64
                           : size == 8                ? RG_FLOAT64
                           : size == 4                ? RG_FLOAT32
                                                      : RG_FLOAT16;
    ck_assert_msg(rg_dtype_of(t) == dtype && rg_ndim(t) == shape.n, "%s", name);
    for (int d = 0; d < shape.n; d++)
        ck_assert_msg(rg_size(t, d) == shape.v[d], "%s", name);
    ck_assert_msg(t->numel == 0 || order == 'C' || rgi_npy_is_fortran(t) || rg_is_contiguous(t),
                  "%s", name);
    rg_tensor *dense = rg_empty_dims(rg_shape(t), dtype);
    ck_assert(rg_copy_out(t, rg_data(dense), rgi_bytes_of(dense)));
    for (int64_t i = 0; i < dense->numel; i++) {
        const double v = rgi_load_f64(dense->data + i * (int64_t)rgi_sizeof(dtype), dtype);
        ck_each(v == expected(kind, i), "%s: element %lld is %g", name, (long long)i, v);
    }
}

/* Elements of regard's own types are written with the bytes that NumPy wrote. */
static void check_bytes(const rg_zip *z, const rg_named *it) {
    const char own[][4] = { "|b1", "<i8", "<f2", "<f4", "<f8" };
    bool is_own = false;
    for (int i = 0; i < RG_COUNT(own); i++)
        is_own |= strncmp(it->name, own[i], 3) == 0;
    if (!is_own)
        return;
    RG_SCOPE();
    char member[64];
    snprintf(member, sizeof member, "%s.npy", it->name);
    const rg_zip_member *m = rgi_zip_find(z, member);
    char *bytes = malloc((size_t)m->bytes);
    ck_ok(rgi_zip_read(z, m, bytes));
    ck_ok(rg_save_npy(it->tensor, scratch("written.npy")));
    ck_assert_msg(same_files(scratch("written.npy"), scratch_write("numpy.npy", bytes, m->bytes)),
                  "%s", it->name);
    rg_tensor *back = rg_load_npy(scratch("written.npy"));
    ck_ok(back);
    check_array(it->name, back);
    free(bytes);
}

START_TEST(test_numpy) {
    static const char *const archives[] = { "numpy", "deflated" };
    scratch_begin();
    for (int k = 0; k < 2; k++) {
        RG_SCOPE();
        rg_zip z;
        rg_named_list list = rg_load_npz(golden_archive(archives[k]));
        ck_assert_msg(list.n == 98, "%d: %s", list.n, rg_error());
        ck_ok(rgi_zip_open(&z, "load", golden_archive(archives[k])));
        for (int i = 0; i < list.n; i++) {
            check_array(list.v[i].name, list.v[i].tensor);
            check_bytes(&z, &list.v[i]);
        }
        rgi_zip_close(&z);
        /* An archive that regard writes gives the same tensors again. */
        ck_ok(rg_save_npz(list, scratch("f.npz")));
        rg_named_list back = rg_load_npz(scratch("f.npz"));
        ck_assert_int_eq(back.n, list.n);
        for (int i = 0; i < list.n; i++) {
            ck_assert_str_eq(back.v[i].name, list.v[i].name);
            ck_assert(rg_equal(back.v[i].tensor, list.v[i].tensor));
        }
    }
    scratch_end();
}
END_TEST

/* Returns the length of NumPy's header for a tensor: 10 bytes, the dict, blanks up to 21 digits for
 * the dim along which the file may grow, more blanks, and a newline. The length is a multiple of
 * 64. */
static size_t length_in_numpy(const rg_tensor *t, bool fortran) {
    char dict[512], shape[256] = "(", grows[32] = "";
    for (int d = 0; d < t->ndim; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", d ? ", " : "",
                 (long long)t->size[d]);
    if (t->ndim)
        snprintf(grows, sizeof grows, "%lld", (long long)t->size[fortran ? t->ndim - 1 : 0]);
    snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': %s, 'shape': %s%s), }",
             fortran ? "True" : "False", shape, t->ndim == 1 ? "," : "");
    const size_t n = strlen(dict) + (t->ndim ? 21 - strlen(grows) : 0);
    return (10 + n + 1) / 64 * 64 + 64;
}

/* Asserts that the tensor's header is as long as NumPy's. */
static void check_length(const rg_tensor *t) {
    rg_text text = { 0 };
    ck_ok(rgi_npy_make_header(&text, t));
    const size_t want = length_in_numpy(t, rgi_npy_is_fortran(t));
    ck_each(text.n == want, "%s: %zu bytes, not %zu", text.v + 10, text.n, want);
    /* The number of bytes after the length field is the length. */
    const unsigned char *said = (const unsigned char *)text.v + 8;
    ck_each((size_t)(said[0] | said[1] << 8) == want - 10, "%d, %d", said[0], said[1]);
    rgi_text_free(&text);
}

/* The header is as long as NumPy's. It has room for one dim to grow: the first in C order, the last
 * in Fortran order. */
START_TEST(test_headers_of_all_lengths) {
    RG_SCOPE();
    rg_tensor fake = *rg_ones(1);
    for (int ndim = 0; ndim <= RG_MAX_DIMS; ndim++)
        for (int first = 1; first < 11; first++)
            for (int last = 1; last < 11; last++)
                for (int fortran = 0; fortran < (ndim > 1 ? 2 : 1); fortran++) {
                    int64_t stride = 1;
                    fake.ndim = (uint8_t)ndim;
                    for (int d = 0; d < ndim; d++)
                        fake.size[d] = 2;
                    for (int k = 0, size = 1; k < RG_MAX(first, last); k++, size *= 7) {
                        if (ndim && k < first)
                            fake.size[0] = size;
                        if (ndim > 1 && k < last)
                            fake.size[ndim - 1] = size;
                    }
                    for (int k = 0; k < ndim; k++) {
                        const int d = fortran ? k : ndim - 1 - k;
                        fake.stride[d] = stride;
                        stride *= fake.size[d];
                    }
                    rgi_update_flags(&fake);
                    check_length(&fake);
                }
    /* If one dim is 0, the others may be of any size. */
    for (int ndim = 3; ndim <= RG_MAX_DIMS; ndim++)
        for (int64_t first = 1; first < INT64_MAX / 10; first *= 10)
            for (int64_t other = 1; other < INT64_MAX / 10; other *= 10) {
                fake.ndim = (uint8_t)ndim;
                for (int d = 0; d < ndim; d++)
                    fake.size[d] = d ? other : first;
                fake.size[1] = 0;
                rgi_update_flags(&fake);
                check_length(&fake);
            }
}
END_TEST

/* In Fortran's order the last dim may grow, whatever the sizes of the others are. */
START_TEST(test_headers_in_fortran_order) {
    RG_SCOPE();
    rg_tensor fake = *rg_ones(1);
    for (int ndim = 2; ndim <= RG_MAX_DIMS; ndim++)
        for (int64_t other = 1; other <= 1000; other *= 10)
            for (int64_t last = 1; last <= 1000000000; last *= 10) {
                int64_t numel = last;
                bool fits = true;
                for (int d = 0; d < ndim - 1; d++)
                    fits = fits && !__builtin_mul_overflow(numel, 2 * other, &numel);
                if (!fits)
                    continue;
                fake.ndim = (uint8_t)ndim;
                for (int d = 0; d < ndim; d++) {
                    fake.size[d] = d < ndim - 1 ? 2 * other : last;
                    fake.stride[d] = d ? fake.stride[d - 1] * fake.size[d - 1] : 1;
                }
                rgi_update_flags(&fake);
                ck_assert(last == 1 || rgi_npy_is_fortran(&fake));
                check_length(&fake);
            }
}
END_TEST

/* If standard input is closed, a file gets the descriptor 0. It is closed like any other. */
START_TEST(test_a_file_numbered_0) {
    RG_SCOPE();
    scratch_begin();
    ck_ok(rg_save_npy(rg_ones(3), scratch("f.npy")));
    const int kept = dup(0);
    close(0);
    rg_tensor *back = rg_load_npy(scratch("f.npy"));
    const bool open = fcntl(0, F_GETFD) >= 0;
    if (kept >= 0) {
        dup2(kept, 0);
        close(kept);
    }
    ck_assert(back && !open);
    scratch_end();
}
END_TEST

START_TEST(test_versions) {
    RG_SCOPE();
    rg_named_list list = rg_load_npz(golden_archive("versions"));
    ck_assert_msg(list.n == 4, "%s", rg_error());
    for (int i = 0; i < list.n; i++)
        check_array("<f4.F.2x3", list.v[i].tensor);
    ck_assert_str_eq(list.v[3].name, "2L");
}
END_TEST

/* ---- what is written ------------------------------------------------------------------- */

START_TEST(test_views) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *x = rg_empty(4, 6);
    for (int i = 0; i < 24; i++)
        ((float *)x->data)[i] = (float)i;
    /* A transposed tensor is written in the order of its memory. A part of a tensor is written in C
     * order. */
    int64_t size[] = { 6, 4, 3, 2 };
    rg_tensor *turned = rgi_own(rgi_alias(x)), *part = rgi_own(rgi_alias(x));
    turned->size[0] = size[0];
    turned->size[1] = size[1];
    turned->stride[0] = 1;
    turned->stride[1] = 6;
    rgi_update_flags(turned);
    part->size[0] = size[2];
    part->size[1] = size[3];
    rgi_update_flags(part);
    rg_tensor *all[] = { x, turned, part };
    for (int i = 0; i < 3; i++) {
        ck_ok(rg_save_npy(all[i], scratch("f.npy")));
        rg_tensor *back = rg_load_npy(scratch("f.npy"));
        ck_assert(rg_equal(back, all[i]));
        ck_assert_int_eq(rg_stride(back, 0), i == 1 ? 1 : back->size[1]);
        ck_ok(rg_save_npz((rg_named_list){ 1, &(rg_named){ "x", all[i] } }, scratch("f.npz")));
        rg_named_list list = rg_load_npz(scratch("f.npz"));
        ck_assert(list.n == 1 && rg_equal(list.v[0].tensor, all[i]));
        /* In an archive, too, the elements begin at a multiple of 64 bytes. */
        rg_zip z;
        ck_ok(rgi_zip_open(&z, "load", scratch("f.npz")));
        ck_assert_uint_eq(z.v[0].data % 64, 0);
        rgi_zip_close(&z);
    }
    scratch_end();
}
END_TEST

START_TEST(test_names) {
    RG_SCOPE();
    static char name[65532];
    scratch_begin();
    memset(name, 'n', 65531);
    rg_tensor *t = rg_ones(2);
    rg_named v[] = {
        { "", t }, { "a/b", t }, { "\xE6\xB5\xB7\n", t }, { name, t }, { "x.npy", t }
    };
    ck_ok(rg_save_npz((rg_named_list){ 5, v }, scratch("f.npz")));
    rg_named_list back = rg_load_npz(scratch("f.npz"));
    ck_assert_int_eq(back.n, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(back.v[i].name, v[i].name);
    ck_ok(rg_save_npz((rg_named_list){ 0, NULL }, scratch("f.npz")));
    ck_assert_int_eq(rg_load_npz(scratch("f.npz")).n, 0);
    v[1].name = "";
    ck_fails(rg_save_npz((rg_named_list){ 2, v }, scratch("f.npz")), RG_VALUE_ERROR, "save_npz: '");
    ck_fails(rg_save_npz((rg_named_list){ 2, v }, scratch("f.npz")), RG_VALUE_ERROR,
             "two members have one name: \".npy\"");
    v[1].name = NULL;
    ck_fails(rg_save_npz((rg_named_list){ 2, v + 1 }, scratch("f.npz")), RG_TYPE_ERROR,
             "save_npz: expected a name but got NULL");
    ck_fails(rg_save_npz((rg_named_list){ 2, v }, scratch("f.npz")), RG_TYPE_ERROR,
             "save_npz: expected a name but got NULL");
    ck_fails(rg_save_npz((rg_named_list){ -1, NULL }, scratch("f.npz")), RG_TYPE_ERROR,
             "save_npz: expected a list");
    ck_fails(rg_save_npy(t, scratch("none/f")), RG_IO_ERROR, "save_npy: [Errno 2]");
    ck_assert_int_eq(rg_load_npz(scratch("f.npz")).n, 0);
    scratch_end();
}
END_TEST

/* The stride of a dim of one element doesn't matter. A tensor that is contiguous in both orders is
 * written in C order. */
START_TEST(test_orders) {
    static const struct {
        int ndim;
        int64_t size[3], stride[3];
        bool fortran;
    } rows[] = {
        { 3, { 2, 1, 3 }, { 1, 99, 2 }, true },
        { 3, { 2, 1, 3 }, { 3, 99, 1 }, false },
        { 3, { 2, 3, 1 }, { 1, 2, 0 }, true },
        { 2, { 2, 3 }, { 1, 3 }, false },
        { 2, { 2, 3 }, { 2, 1 }, false },
        { 2, { 1, 3 }, { 7, 1 }, false },
        { 1, { 3 }, { 1 }, false },
        { 1, { 3 }, { 2 }, false },
        { 0, { 0 }, { 0 }, false },
        { 2, { 0, 3 }, { 1, 2 }, false },
    };
    RG_SCOPE();
    rg_tensor fake = *rg_ones(1);
    for (int i = 0; i < RG_COUNT(rows); i++) {
        fake.ndim = (uint8_t)rows[i].ndim;
        memcpy(fake.size, rows[i].size, sizeof rows[i].size);
        memcpy(fake.stride, rows[i].stride, sizeof rows[i].stride);
        rgi_update_flags(&fake);
        ck_assert_msg(rgi_npy_is_fortran(&fake) == rows[i].fortran, "row %d", i);
    }
}
END_TEST

/* ---- files that are refused ------------------------------------------------------------ */

/* Writes a file of version 1.0 with this dict and `data` bytes of elements. */
static const char *with_dict(const char *dict, size_t data) {
    char file[1024] = "\x93NUMPY\1";
    const size_t n = strlen(dict);
    file[8] = (char)n;
    file[9] = (char)(n >> 8);
    memcpy(file + 10, dict, n);
    return scratch_write("f.npy", file, 10 + n + data);
}

#define DICT(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static const struct {
    const char *dict;
    size_t data;
    const char *sentence; /* NULL if the dict is sound. */
} dicts[] = {
    { DICT("'<f4'", "False", "(2,)"), 8, NULL },
    { DICT("'=f4'", "False", "(2,)"), 8, NULL },
    { DICT("'|f4'", "True", "(1, 2)"), 8, NULL },
    { DICT("'<b1'", "False", "()"), 1, NULL },
    { DICT("\"<f4\"", "False", "(2L, 3L)  \n"), 24, NULL },
    { DICT("'<f4'", "False", "(2, 3,)"), 24, NULL },
    { "{'shape':(),'descr':'<f4','fortran_order':False}   \n", 4, NULL },
    { "\n{ 'shape' : ( 1 , ) , 'descr' : '<f4' , 'fortran_order' : True , } \t\r\n", 4, NULL },
    { DICT("'<f4'", "False", "(500, 0)"), 0, NULL },
    { DICT("'<f4'", "False", "(2,)"), 7, "its shape [2] takes 8 bytes, but 7 follow the header" },
    { DICT("'<f4'", "False", "(2,)"), 9, "its shape [2] takes 8 bytes, but 9 follow the header" },
    { DICT("'<f4'", "False", "(2,)"), 0, "its shape [2] takes 8 bytes, but 0 follow the header" },
    { DICT("'<f4'", "False", "(0,)"), 1, "its shape [0] takes 0 bytes, but 1 follow the header" },
    { DICT("'<f4'", "False", "()"), 0, "its shape [] takes 4 bytes, but 0 follow the header" },
    { DICT("'<f8'", "False", "(288230376151711744,)"), 8, "bytes, but 8 follow the header" },
    { DICT("'<f4'", "True", "(1, 1, 1, 1, 1, 1, 1, 2)"), 8, NULL },
    { DICT("'>b1'", "False", "(2,)"), 2, NULL },
    { DICT("'<f8'", "False", "(576460752303423487,)"), 8, "bytes, but 8 follow the header" },
    { DICT("'<f8'", "False", "(576460752303423488,)"), 8, "has too many elements" },
    { DICT("'<f8'", "False", "(9223372036854775807,)"), 8, "has too many elements" },
    { DICT("'<f8'", "False", "(9223372036854775808,)"), 8, "a size is larger than int64 can hold" },
    { DICT("'<f8'", "False", "(99999999999999999999,)"), 8,
      "a size is larger than int64 can hold" },
    { DICT("'<f8'", "False", "(4294967296, 4294967296)"), 0, "has too many elements" },
    { DICT("'<f8'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 8, "it has more than 8 dims" },
    { DICT("'<f8'", "False", "(9223372036854775807, 0)"), 0, "has too many elements" },
    { DICT("'<f4'", "False", "(-1,)"), 8, "at byte 51 a size is expected" },
    { DICT("'<f4'", "False", "(2)"), 8, "a comma is expected in a tuple of one size" },
    { DICT("'<f4'", "False", "2"), 8, "a tuple is expected" },
    { DICT("'<f4'", "False", "[2]"), 8, "a tuple is expected" },
    { DICT("'<f4'", "False", "(,)"), 4, "a size is expected" },
    { DICT("'<f4'", "False", "(2,, 3)"), 24, "a size is expected" },
    { DICT("'<f4'", "False", "(2 3)"), 24, "a comma or ) is expected" },
    { DICT("'<f4'", "False", "(2.0,)"), 8, "a comma or ) is expected" },
    { DICT("'<f4'", "False", "(02,)"), 8, "a size is expected" },
    { DICT("'<f4'", "False", "(0x2,)"), 8, "a comma or ) is expected" },
    { DICT("'<f4'", "False", "(1_0,)"), 40, "a comma or ) is expected" },
    { DICT("'<f4'", "False", "(2LL,)"), 8, "a comma or ) is expected" },
    { DICT("'<f4'", "False", "(L,)"), 8, "a size is expected" },
    { DICT("'<f4'", "False", "(True,)"), 4, "a size is expected" },
    { DICT("'<f4'", "False", "(2,"), 8, "a size is expected" },
    { DICT("'<f4'", "false", "(2,)"), 8, "True or False is expected" },
    { DICT("'<f4'", "0", "(2,)"), 8, "True or False is expected" },
    { DICT("'<f4'", "Falsehood", "(2,)"), 8, "a comma or } is expected" },
    { DICT("'<c8'", "False", "(2,)"), 16, "its elements are of NumPy's type '<c8', which no" },
    { DICT("'<c16'", "False", "(2,)"), 32, "of NumPy's type '<c16', which no tensor takes" },
    { DICT("'|O'", "False", "(2,)"), 16, "of NumPy's type '|O', which no tensor takes" },
    { DICT("'<U5'", "False", "(2,)"), 40, "of NumPy's type '<U5', which no tensor takes" },
    { DICT("'|S5'", "False", "(2,)"), 10, "of NumPy's type '|S5', which no tensor takes" },
    { DICT("'|V5'", "False", "(2,)"), 10, "of NumPy's type '|V5', which no tensor takes" },
    { DICT("'<M8[s]'", "False", "(2,)"), 16, "of NumPy's type '<M8[s]', which no tensor takes" },
    { DICT("'<m8'", "False", "(2,)"), 16, "of NumPy's type '<m8', which no tensor takes" },
    { DICT("'<f16'", "False", "(2,)"), 32, "of NumPy's type '<f16', which no tensor takes" },
    { DICT("'f4'", "False", "(2,)"), 8, "of NumPy's type 'f4', which no tensor takes" },
    { DICT("'!f4'", "False", "(2,)"), 8, "of NumPy's type '!f4', which no tensor takes" },
    { DICT("'<f'", "False", "(2,)"), 8, "of NumPy's type '<f', which no tensor takes" },
    { DICT("''", "False", "(2,)"), 8, "of NumPy's type '', which no tensor takes" },
    { DICT("[('a', '<f4')]", "False", "(2,)"), 8, "its elements are records of several fields" },
    { DICT("('<f4', (2,))", "False", "(2,)"), 16, "a type is expected" },
    { DICT("None", "False", "(2,)"), 8, "a type is expected" },
    { DICT("b'<f4'", "False", "(2,)"), 8, "a type is expected" },
    { DICT("'<f\\x34'", "False", "(2,)"), 8, "a type is expected" },
    { DICT("'<f\n4'", "False", "(2,)"), 8, "a type is expected" },
    { DICT("'<f4\x1F'", "False", "(2,)"), 8, "a type is expected" },
    { DICT("'<f4\"", "False", "(2,)"), 8, "of NumPy's type '<f4\", ', which no tensor takes" },
    { "", 0, "a dict is expected" },
    { "[1, 2]", 0, "a dict is expected" },
    { "__import__('os')", 0, "a dict is expected" },
    { "{}", 0, "its header lacks 'descr'" },
    { "{'descr': '<f4'}", 4, "its header lacks 'fortran_order'" },
    { "{'descr': '<f4', 'fortran_order': False}", 4, "its header lacks 'shape'" },
    { "{'shape': ()}", 4, "its header lacks 'descr'" },
    { "{'descr': '<f4', 'descr': '<f4'}", 4, "its header has 'descr' twice" },
    { "{'shape': (), 'shape': ()}", 4, "its header has 'shape' twice" },
    { "{'fortran_order': True, 'fortran_order': True}", 4, "has 'fortran_order' twice" },
    { "{'desc': '<f4'}", 4, "its header has a key 'desc', which .npy doesn't know" },
    { "{'shapes': ()}", 4, "its header has a key 'shapes', which .npy doesn't know" },
    { "{'': ()}", 4, "its header has a key '', which .npy doesn't know" },
    { DICT("'<f8'", "False", "(0, 9223372036854775807)"), 0, "has too many elements" },
    { DICT("'<f4'", "False", "(  2 ,\t3)"), 24, NULL },
    { "{'more': 1}", 4, "its header has a key 'more', which .npy doesn't know" },
    { "{'Descr': '<f4'}", 4, "its header has a key 'Descr', which .npy doesn't know" },
    { "{'descr' '<f4'}", 4, "a colon is expected" },
    { "{descr: '<f4'}", 4, "at byte 1 a key is expected" },
    { "{'descr: '<f4'}", 4, "its header has a key 'descr: ', which .npy doesn't know" },
    { "{,}", 4, "a key is expected" },
    { "{'descr': '<f4'", 4, "a comma or } is expected" },
    { "{'descr': '<f4',", 4, "a key is expected" },
    { "{'descr': '<f4',,", 4, "a key is expected" },
    { "{'descr': '<f4", 4, "a type is expected" },
    { "{'descr", 4, "a key is expected" },
    { "{'descr': '<f4' 'shape': ()}", 4, "a comma or } is expected" },
    { DICT("'<f4'", "False", "()") " x", 4, "there is more behind the dict" },
    { DICT("'<f4'", "False", "()") "#", 4, "there is more behind the dict" },
    { DICT("'<f4'", "False", "()") ".get", 4, "there is more behind the dict" },
};

START_TEST(test_dicts) {
    RG_SCOPE();
    scratch_begin();
    for (int k = 0; k < RG_COUNT(dicts); k++) {
        rg_error_clear();
        const bool read = rg_load_npy(with_dict(dicts[k].dict, dicts[k].data));
        ck_assert_msg(read == !dicts[k].sentence, "%s: %s", dicts[k].dict, rg_error());
        const char *sentence = dicts[k].sentence ? dicts[k].sentence : "";
        ck_assert_msg(read
                          || (rg_error_code() == RG_IO_ERROR && strstr(rg_error(), sentence)
                              && strstr(rg_error(), "load_npy: '")),
                      "%s: expected %s, got %s", dicts[k].dict, sentence, rg_error());
    }
    scratch_end();
}
END_TEST

/* The first letter of a type gives the order of an element's bytes. */
START_TEST(test_order_of_bytes) {
    static const struct {
        const char *dict;
        char bytes[8];
        size_t n;
        int64_t value;
    } rows[] = {
        { DICT("'<i2'", "False", "()"), { 1, 2 }, 2, 0x201 },
        { DICT("'>i2'", "False", "()"), { 1, 2 }, 2, 0x102 },
        { DICT("'<i4'", "False", "()"), { 1, 2, 3, 4 }, 4, 0x4030201 },
        { DICT("'>i4'", "False", "()"), { 1, 2, 3, 4 }, 4, 0x1020304 },
        { DICT("'<u8'", "False", "()"), { 1, 2 }, 8, 0x201 },
        { DICT("'>u8'", "False", "()"), { 0, 0, 0, 0, 0, 0, 1, 2 }, 8, 0x102 },
        { DICT("'>i8'", "False", "()"), { 0, 0, 0, 0, 0, 0, 1, 2 }, 8, 0x102 },
        { DICT("'>u1'", "False", "()"), { 7 }, 1, 7 },
        { DICT("'|i1'", "False", "()"), { -7 }, 1, -7 },
    };
    RG_SCOPE();
    scratch_begin();
    for (int k = 0; k < RG_COUNT(rows); k++) {
        char file[256] = "\x93NUMPY\1";
        const size_t n = strlen(rows[k].dict);
        file[8] = (char)n;
        memcpy(file + 10, rows[k].dict, n);
        memcpy(file + 10 + n, rows[k].bytes, rows[k].n);
        rg_tensor *t = rg_load_npy(scratch_write("f.npy", file, 10 + n + rows[k].n));
        ck_assert_msg(t && rg_item_int(t) == rows[k].value, "%s: %s", rows[k].dict, rg_error());
    }
    /* The message names the file, and has no further sentence. */
    char sentence[700];
    const char *path = scratch_write("f.npy", "x", 1);
    snprintf(sentence, sizeof sentence,
             "load_npy: '%s': it is no .npy: it doesn't begin with \\x93NUMPY", path);
    ck_says(rg_load_npy(path), sentence);
    scratch_end();
}
END_TEST

/* Writes an archive with a stored member of these bytes, and an empty member "z". */
static const char *with_member(const char *name, const void *bytes, size_t n) {
    static char packed[64];
    const size_t m = bytes_of_hex(packed, "0300");
    archive a;
    make_archive(&a, &(archive_member){ name, bytes, n, n, rgi_crc32(0, bytes, n) },
                 &(archive_member){ "z", packed, m, 0, 0 }, 0);
    return scratch_write("f.npz", a.v, a.n);
}

/* Wherever a dict ends, the bytes behind it in memory don't belong to it. */
START_TEST(test_ends_of_dicts) {
    const rg_file file = { .op = "load_npy", .path = "f" };
    const rg_npy_source s = { .file = &file };
    for (int k = 0; k < RG_COUNT(dicts); k++)
        for (size_t n = 0; n <= strlen(dicts[k].dict); n++)
            for (const char *follows = "0L '\"})x"; *follows; follows++) {
                char text[256], sentence[512];
                rg_npy_header alone, followed;
                memcpy(text, dicts[k].dict, n);
                memset(text + n, 0, sizeof text - n);
                rg_error_clear();
                const bool ok = rgi_npy_parse(&s, text, n, &alone);
                snprintf(sentence, sizeof sentence, "%s", rg_error());
                memset(text + n, *follows, sizeof text - n);
                rg_error_clear();
                ck_each(rgi_npy_parse(&s, text, n, &followed) == ok, "%s, cut at %zu",
                        dicts[k].dict, n);
                ck_each(strcmp(rg_error(), sentence) == 0, "'%s', not '%s'", rg_error(), sentence);
                ck_each(!ok || (alone.type == followed.type && alone.numel == followed.numel),
                        "%s is read in two ways", dicts[k].dict);
            }
    rg_error_clear();
}
END_TEST

START_TEST(test_heads) {
    static const struct {
        const char *head;
        size_t n;
        const char *sentence;
    } heads[] = {
        { "", 0, "it is no .npy" },
        { "\x93NUMPY\1", 7, "it is no .npy" },
        { "\x93NUMPZ\1\0\0\0", 10, "it is no .npy: it doesn't begin with \\x93NUMPY" },
        { "PK\3\4abcdef", 10, "it is no .npy" },
        { "\x93NUMPY\0\0\0\0", 10, "it is of version 0.0, and 1.0, 2.0 and 3.0 can be read" },
        { "\x93NUMPY\4\0\0\0\0\0", 12, "it is of version 4.0" },
        { "\x93NUMPY\1\1\0\0", 10, "it is of version 1.1" },
        { "\x93NUMPY\xFF\xFF\0\0", 10, "it is of version 255.255" },
        { "\x93NUMPY\1\0", 8, "it ends at byte 8, in its header" },
        { "\x93NUMPY\1\0\1", 9, "it ends at byte 9, in its header" },
        { "\x93NUMPY\2\0\1\0\0", 11, "it ends at byte 11, in its header" },
        { "\x93NUMPY\1\0\2\0{", 11, "it ends at byte 11, in its header" },
        { "\x93NUMPY\1\0\0\0", 10, "a dict is expected" },
        { "\x93NUMPY\1\0\x11\x27", 10,
          "its header takes 10001 bytes, which is too long to be one" },
        { "\x93NUMPY\2\0\xFF\xFF\xFF\xFF", 12, "its header takes 4294967295 bytes" },
        { "\x93NUMPY\3\0\0\0\0\x80", 12, "its header takes 2147483648 bytes" },
    };
    RG_SCOPE();
    scratch_begin();
    for (int k = 0; k < RG_COUNT(heads); k++)
        ck_fails(rg_load_npy(scratch_write("f", heads[k].head, heads[k].n)), RG_IO_ERROR,
                 heads[k].sentence);
    /* A number that int64 can't hold is named. */
    char file[256] = "\x93NUMPY\1\0\x46\0" DICT("'<u8'", "False", "(2,)");
    memset(file + 10 + strlen(file + 10), ' ', 0x46 - strlen(file + 10));
    memset(file + 10 + 0x46, 0, 16);
    file[10 + 0x46 + 15] = (char)0x80;
    ck_fails(rg_load_npy(scratch_write("f", file, 10 + 0x46 + 16)), RG_IO_ERROR, "load_npy: '");
    ck_fails(rg_load_npy(scratch("f")), RG_IO_ERROR,
             "the array: element 1 is 9223372036854775808, which int64 can't hold");
    rg_zip z;
    ck_ok(rgi_zip_open(&z, "load", with_member("x.npy", file, 10 + 0x46 + 16)));
    rg_npy_source s = { .file = &z.file, .bytes = z.v[0].bytes, .what = "member \"x.npy\"" };
    s.stream = rgi_zip_stream(&z, &z.v[0]);
    ck_fails(rgi_npy_read(&s), RG_IO_ERROR, "member \"x.npy\": element 1 is 9223372036854775808");
    rgi_zip_stream_end(s.stream, false);
    rgi_zip_close(&z);
    /* The longest header that is taken has 10000 bytes. */
    static char longest[10 + 10000 + 4] = "\x93NUMPY\1\0\x10\x27" DICT("'<f4'", "False", "()");
    for (size_t i = 10 + strlen(longest + 10); i < 10 + 10000; i++)
        longest[i] = ' ';
    ck_ok(rg_load_npy(scratch_write("f", longest, sizeof longest)));
    scratch_end();
}
END_TEST

/* ---- archives that are refused --------------------------------------------------------- */

START_TEST(test_bad_archives) {
    RG_SCOPE();
    scratch_begin();
    char file[256] = "\x93NUMPY\1\0\x36\0{'descr': '<f4', 'fortran_order': False, 'shape': ()}";
    const size_t n = 10 + 0x36 + 4;
    file[10 + strlen(file + 10)] = ' ';
    ck_fails(rg_load_npz(with_member("x.npy", file, n)).n != -1, RG_IO_ERROR,
             "f.npz': member \"z\": its name doesn't end with .npy");
    ck_fails(rg_load_npz(with_member("npy", file, n)).n != -1, RG_IO_ERROR,
             "member \"npy\": its name doesn't end with .npy");
    ck_fails(rg_load_npz(with_member("x.npz", file, n)).n != -1, RG_IO_ERROR,
             "member \"x.npz\": its name doesn't end with .npy");
    /* In an archive's directory, a member's name comes after the bytes of the member's offset. With
     * these offsets and short names, the last bytes before the name and the name read ".npy". */
    static const struct {
        const char *name;
        uint64_t place;
    } rows[] = { { "y", 0x706E2E }, { "py", 0x6E2E00 }, { "npy", 0x2E0000 } };
    rg_zip_writer w;
    for (int k = 0; k < RG_COUNT(rows); k++) {
        char sentence[80];
        ck_ok(rgi_zip_begin(&w, "save", scratch("f.npz")));
        ck_assert(lseek(w.file.fd, (off_t)rows[k].place, SEEK_SET) >= 0);
        w.file.bytes = rows[k].place;
        rgi_zip_member_begin(&w, rows[k].name, n, 1);
        rgi_zip_put(&w, file, n);
        ck_ok(rgi_zip_end(&w));
        snprintf(sentence, sizeof sentence, "member \"%s\": its name doesn't end", rows[k].name);
        ck_fails(rg_load_npz(scratch("f.npz")).n != -1, RG_IO_ERROR, sentence);
    }
    ck_ok(rgi_zip_begin(&w, "save", scratch("f.npz")));
    rgi_zip_member_begin(&w, "x.npy", 3, 64);
    rgi_zip_put(&w, "abc", 3);
    ck_ok(rgi_zip_end(&w));
    ck_fails(rg_load_npz(scratch("f.npz")).n != -1, RG_IO_ERROR,
             "f.npz': member \"x.npy\": it is no .npy");
    for (size_t k = 0; k < n; k++) {
        rg_zip z;
        rg_error_clear();
        ck_ok(rgi_zip_open(&z, "load", with_member("x.npy", file, k)));
        rg_zip_stream *stream = rgi_zip_stream(&z, &z.v[0]);
        rg_npy_source s = { .file = &z.file, .stream = stream, .what = "it", .bytes = k };
        ck_fails(rgi_npy_read(&s), RG_IO_ERROR, "f.npz': it: ");
        rgi_zip_stream_end(stream, false);
        rgi_zip_close(&z);
    }
    ck_fails(rg_load_npz(scratch_write("f", file, n)).n != -1, RG_IO_ERROR, "it is no zip archive");
    ck_fails(rg_load_npy(golden_archive("numpy")), RG_IO_ERROR, "it is no .npy");
    scratch_end();
}
END_TEST

/* Changes each byte of an archive in turn. Loading it must fail, or give the tensors that were
 * saved. */
START_TEST(test_changed) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *x = rg_arange(5);
    ck_ok(rg_save_npz((rg_named_list){ 1, &(rg_named){ "x", x } }, scratch("f.npz")));
    size_t n;
    char *bytes = file_bytes(scratch("f.npz"), &n);
    int read = 0;
    for (size_t k = 0; k < n; k++) {
        bytes[k] ^= 0x41;
        rg_named_list list = rg_load_npz(scratch_write("g.npz", bytes, n));
        ck_assert_msg(list.n == 1 || rg_error_code() == RG_IO_ERROR, "byte %zu", k);
        if (list.n == 1) {
            ck_assert_msg(rg_equal(list.v[0].tensor, x), "byte %zu", k);
            read++;
        }
        bytes[k] ^= 0x41;
    }
    /* Changes in dates, versions, permissions and the copies in the descriptor don't matter. */
    ck_assert_int_lt(read, 70);
    free(bytes);
    scratch_end();
}
END_TEST

/* ---- denied memory, and failing calls of the file system ------------------------------- */

static rg_tensor *array;

static rg_named_list one_array(void) {
    static rg_named v;
    v = (rg_named){ "x", array };
    return (rg_named_list){ 1, &v };
}

static bool save_npy(void) { return rg_save_npy(array, scratch("f.npy")); }
static bool load_npy(void) { return rg_load_npy(scratch("f.npy")); }
static bool save_npz(void) { return rg_save_npz(one_array(), scratch("f.npz")); }
static bool load_npz(void) { return rg_load_npz(scratch("f.npz")).n == 1; }
static bool load_deflated(void) { return rg_load_npz(golden_archive("deflated")).n == 98; }

/* The old files are whole, and there are no others. */
static void check_saved(bool done) {
    RG_SCOPE();
    (void)done;
    ck_assert_int_eq(scratch_files(), 2);
    ck_assert(rg_equal(rg_load_npy(scratch("f.npy")), array));
    ck_assert(rg_equal(rg_load_npz(scratch("f.npz")).v[0].tensor, array));
}

/* Denies each request for memory in turn, and makes each call of the file system fail. */
START_TEST(test_denied) {
    static bool (*const calls[])(void) = { save_npy, save_npz, load_npy, load_npz, load_deflated };
    RG_SCOPE();
    scratch_begin();
    array = rg_arange(300);
    ck_ok(save_npy() && save_npz());
    for (int i = 0; i < RG_COUNT(calls); i++) {
        ck_assert_int_gt(deny_in_turn(calls[i], check_saved), 1);
        ck_assert_int_gt(fail_in_turn(calls[i], check_saved), 3);
    }
    /* A part of a tensor, which is copied before it is written, is saved in the same way. */
    array = rgi_own(rgi_alias(rg_rand(20, 30)));
    array->size[1] = 7;
    rgi_update_flags(array);
    ck_ok(save_npy() && save_npz());
    for (int i = 0; i < 2; i++)
        ck_assert_int_gt(deny_in_turn(calls[i], check_saved), 1);
    array = rg_arange(30000);
    ck_ok(save_npy() && save_npz());
    fail_in_turn(save_npy, check_saved);
    fail_in_turn(save_npz, check_saved);
    scratch_end();
}
END_TEST

RG_TESTS(npy, test_a_file_numbered_0, test_headers_of_all_lengths, test_headers_in_fortran_order,
         test_numpy, test_versions, test_views, test_names, test_orders, test_order_of_bytes,
         test_dicts, test_ends_of_dicts, test_heads, test_bad_archives, test_changed, test_denied)

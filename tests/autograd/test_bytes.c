/*
 * test_bytes.c: tensors of uint8: conversions from and to every dtype, for all bytes and for
 * numbers that no byte holds; copies in every layout; making, printing, reading and files.
 * test_golden.c compares the ops with PyTorch, by the cases in tests/golden/data/bytes/.
 */
#include "regard.h"
#include "tensor/dtype.h"
#include "tests/scratch.h"
#include "tests/test.h"

enum { BYTES = 256 };

static rg_tensor *all_bytes(void) {
    uint8_t v[BYTES];
    for (int i = 0; i < BYTES; i++)
        v[i] = (uint8_t)i;
    return rg_from(v, BYTES);
}

/* A byte keeps its value in each dtype that holds it, and comes back from it, in contiguous tensors
 * and in others. */
START_TEST(test_every_byte) {
    for (int d = 0; d < RG_DTYPE_COUNT; d++) {
        RG_SCOPE();
        const rg_dtype dtype = (rg_dtype)d;
        rg_tensor *rows = rg_reshape(all_bytes(), 16, 16);
        for (int turned = 0; turned < 2; turned++) {
            rg_tensor *x = turned ? rg_T(rows) : rows, *y = rg_to(x, dtype), *z = rg_byte(y);
            ck_assert_int_eq(rg_dtype_of(y), d);
            ck_assert_int_eq(rg_dtype_of(z), RG_UINT8);
            for (int i = 0; i < 16; i++)
                for (int k = 0; k < 16; k++) {
                    const double v = rg_at(x, i, k);
                    const double held = rgi_rounded(v, dtype);
                    ck_each(rg_at(y, i, k) == held, "%d: %g", d, v);
                    ck_each(rg_at(z, i, k) == rgi_rounded(held, RG_UINT8), "%d: %g back", d, v);
                }
            ck_assert(rg_equal(rg_narrow(rg_byte(rg_narrow(y, 1, 3, 5)), 1, 0, 5),
                               rg_narrow(z, 1, 3, 5)));
        }
    }
}
END_TEST

/* Numbers that aren't bytes are truncated to int64, of which the last 8 bits are kept. NaN and what
 * int64 can't hold become 0. */
START_TEST(test_other_numbers) {
    static const struct {
        double number;
        int byte;
    } rows[] = { { -1, 255 },   { -1.5, 255 }, { -0.5, 0 }, { 255.9, 255 },   { 256, 0 },
                 { -300, 212 }, { 1e10, 0 },   { 3e9, 0 },  { 65504, 224 },   { 1e20, 0 },
                 { -1e20, 0 },  { NAN, 0 },    { 1e300, 0 }, { INFINITY, 0 }, { -INFINITY, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int d = RG_FLOAT32; d <= RG_FLOAT16; d++) {
            RG_SCOPE();
            const double v = rgi_rounded(rows[i].number, (rg_dtype)d);
            rg_tensor *x = rg_scalar_dtype(v, (rg_dtype)d);
            if (v == rows[i].number || isnan(v))
                ck_each(rg_item_int(rg_byte(x)) == rows[i].byte, "%d: %g", d, v);
        }
    RG_SCOPE();
    const float floats[] = { -1.5f, 300,      0x1p31f, -0x1p31f, 0x1.8p31f, 0x1.FFFFFEp30f,
                             1e20f, -1234.5f, NAN,     INFINITY, -0.9f,     0x1p24f };
    rg_tensor *some = rg_from(floats, 12);
    ck_assert(rg_equal(rg_byte(some), rg_byte(rg_double(some))));
    const int64_t whole[] = { 256, -1, INT64_MAX, INT64_MIN, 1000 };
    ck_assert_str_eq(rg_str(rg_byte(rg_from(whole, 5))),
                     "tensor([  0, 255, 255,   0, 232], dtype=torch.uint8)");
}
END_TEST

START_TEST(test_made) {
    RG_SCOPE();
    ck_assert_str_eq(rg_str(rg_literal_as(RG_UINT8, [[1, 255], [-1, 2.5]])),
                     "tensor([[  1, 255],\n        [255,   2]], dtype=torch.uint8)");
    static const char *const refused[] = { "[256]",        "[-256]",  "[-2.0]",
                                           "[-1, 3, -1.]", "[255.5]", "[-0.5]" };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        ck_fails(rg_parse_dtype(refused[i], RG_UINT8), RG_RUNTIME_ERROR,
                 "value cannot be converted to type uint8");
    rg_tensor *x = rg_full_dims(RG_DIMS(2, 2), 7, RG_UINT8);
    ck_assert_str_eq(rg_repr_numpy(x), "[[7 7]\n [7 7]]");
    ck_assert_int_eq(rg_dtype_of(rg_parse(rg_repr(x))), RG_UINT8);
    ck_assert_int_eq(rg_data_as(const uint8_t, x)[3], 7);
    ck_fails(rg_data_as(bool, x), RG_TYPE_ERROR, "the tensor has dtype torch.uint8");
    ck_fails(rg_requires_grad_(x, true), RG_RUNTIME_ERROR, "floating point");
    ck_assert(!rg_is_floating_point(x));
    ck_fails(rg_randint_dims(0, 257, RG_DIMS(2), RG_UINT8, rg_default_generator()),
             RG_RUNTIME_ERROR, "to - 1 is out of bounds for unsigned char");
    rg_manual_seed(5);
    rg_tensor *whole = rg_randint_dims(0, 256, RG_DIMS(40), RG_INT64, rg_default_generator());
    rg_manual_seed(5);
    rg_tensor *drawn = rg_randint_dims(0, 256, RG_DIMS(40), RG_UINT8, rg_default_generator());
    ck_assert(rg_equal(whole, drawn));
}
END_TEST

/* A file of bytes is read as bytes, and takes their memory. */
START_TEST(test_files) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *x = rg_reshape(all_bytes(), 4, 64);
    rg_named one[] = { { "x", x } };
    rg_named_list list = { 1, one };
    ck_ok(rg_save_npy(x, scratch("x.npy")) && rg_save_file(list, scratch("x.safetensors"))
          && rg_torch_save(list, scratch("x.pt")) && rg_save_npz(list, scratch("x.npz")));
    rg_tensor *got[] = { rg_load_npy(scratch("x.npy")),
                         rg_load_file(scratch("x.safetensors")).v[0].tensor,
                         rg_torch_load(scratch("x.pt")).v[0].tensor,
                         rg_load_npz(scratch("x.npz")).v[0].tensor };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) {
        ck_assert_int_eq(rg_dtype_of(got[i]), RG_UINT8);
        ck_assert(rg_equal(got[i], x));
    }
    scratch_end();
}
END_TEST

/* Large tensors are computed by several threads, block by block. */
START_TEST(test_large) {
    RG_SCOPE();
    enum { N = 300000 };
    rg_tensor *x = rg_byte(rg_arange(N)), *y = rg_byte(rg_mul(rg_arange(N), 7));
    rg_tensor *wide = rg_mul(rg_long(x), rg_long(y));
    ck_assert(rg_equal(rg_mul(x, y), rg_byte(wide)));
    ck_assert_int_eq(rg_item_int(rg_sum(x)), rg_item_int(rg_sum(rg_long(x))));
    ck_assert(rg_equal(rg_flip(x, 0), rg_byte(rg_flip(rg_long(x), 0))));
    ck_assert(rg_equal(rg_float(x), rg_float(rg_long(x))));
    ck_assert_int_eq(rg_item_int(rg_max(rg_fill_(x, 200))), 200);
}
END_TEST

static void record_bytes(void *x) { rg_add(x, 1); }

START_TEST(test_recorded) {
    RG_SCOPE();
    ck_fails(rg_record(record_bytes, all_bytes()), RG_NOT_IMPLEMENTED,
             "not implemented for 'Byte' in a recorded step");
}
END_TEST

/* tensordot sums over a dim that the other tensor repeats in bytes, too. */
START_TEST(test_repeated_dim) {
    rg_tensor *a = rg_to(rg_literal([[200, 100, 3]]), RG_UINT8);
    rg_tensor *b = rg_to(rg_ones(1, 2), RG_UINT8);
    rg_tensor *y = rg_tensordot_dims(a, b, RG_DIMS(1), RG_DIMS(0));
    ck_assert(rg_dtype_of(y) == RG_UINT8);
    ck_assert(rg_equal(y, rg_to(rg_literal([[47, 47]]), RG_UINT8)));
}
END_TEST

/* A negative factor wraps: the result is that of int64, of which the last 8 bits are kept. */
START_TEST(test_negative_factors) {
    static const int factors[] = { -255, -128, -7, -1, 0, 3, 255 };
    RG_SCOPE();
    rg_tensor *x = rg_byte(rg_literal([[0, 1], [2, 203]])), *w = rg_long(x);
    rg_tensor *b = rg_unsqueeze(x, 0), *wide = rg_long(b), *at = rg_literal([1, 0]);
    for (int i = 0; i < RG_COUNT(factors); i++) {
        const int f = factors[i];
        ck_assert(rg_equal(rg_addcmul(x, x, x, f), rg_byte(rg_addcmul(w, w, w, f))));
        ck_assert(rg_equal(rg_addmm(x, x, x, f, -f), rg_byte(rg_addmm(w, w, w, f, -f))));
        rg_tensor *product = rg_baddbmm(wide, wide, wide, f, 2);
        ck_assert(rg_equal(rg_baddbmm(b, b, b, f, 2), rg_byte(product)));
        ck_assert(rg_equal(rg_index_add(x, 0, at, x, f), rg_byte(rg_index_add(w, 0, at, w, f))));
    }
    /* The dtype of a sum of products doesn't depend on sizes. */
    rg_tensor *one = rg_byte(rg_literal([200])), *row = rg_byte(rg_literal([[3, 7]]));
    ck_assert_int_eq(rg_dtype_of(rg_einsum("i,i->", one, one)), RG_UINT8);
    ck_assert_int_eq(rg_dtype_of(rg_einsum("ij,j->", row, rg_view(row, 2))), RG_UINT8);
    static const double refused[] = { -256, 256, -1.5, NAN };
    for (int i = 0; i < RG_COUNT(refused); i++) {
        ck_fails(rg_addcmul(x, x, x, refused[i]), RG_RUNTIME_ERROR, "type uint8_t without");
        ck_fails(rg_addmm(x, x, x, 1, refused[i]), RG_RUNTIME_ERROR, "type uint8_t without");
    }
}
END_TEST

RG_TESTS(bytes, test_negative_factors, test_repeated_dim, test_every_byte, test_other_numbers,
         test_made, test_files, test_large, test_recorded)

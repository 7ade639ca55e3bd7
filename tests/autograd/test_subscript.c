/*
 * test_subscript.c: Python's index syntax as a program writes it: the macros, and what x[items] =
 * value does to the graph. Golden data say what the expressions mean (index_items, set_items_).
 */
#include "tests/test.h"
#include "autograd/autograd.h"
#include "autograd/ops/ops.h"

#include <stdio.h>
#include <string.h>

static rg_tensor *counting(int64_t n, int64_t m) {
    return rg_reshape(rg_to(rg_arange(n * m), RG_FLOAT64), n, m);
}

static void holds(rg_tensor *t, const char *text) {
    ck_assert_msg(t != NULL, "%s", rg_error());
    const char *got = rg_str(rg_reshape(rg_to(t, RG_INT64), -1));
    ck_assert_str_eq(got, text);
}

START_TEST(test_items) {
    rg_tensor *x = counting(3, 4);
    bool yes = true;
    char text[] = "1:, ::2";
    holds(rg_index(x, 1), "tensor([4, 5, 6, 7])");
    holds(rg_index(x, -1L, 2u), "tensor([10])");
    holds(rg_index(x, ":", -1), "tensor([ 3,  7, 11])");
    holds(rg_index(x, text), "tensor([ 4,  6,  8, 10])");
    holds(rg_index(x, RG_SLICE(0, 2), RG_SLICE(1, 4, 2)), "tensor([1, 3, 5, 7])");
    holds(rg_index(x, rg_literal([ 2, 0 ]), 1), "tensor([9, 1])");
    holds(rg_index(x, "[2, 0], 1"), "tensor([9, 1])");
    holds(rg_index(x, "[True, False, True]", "[0]"), "tensor([0, 8])");
    holds(rg_index(x, rg_gt(x, 8)), "tensor([ 9, 10, 11])");
    holds(rg_index(x, "[]"), "tensor([], dtype=torch.int64)");
    ck_assert_str_eq(rg_repr(rg_slice(x, 1, 2, 3, INT64_C(1) << 62)),
                     "tensor([[ 2.],\n        [ 6.],\n        [10.]], dtype=torch.float64)");
    ck_assert_int_eq(rg_ndim(rg_index(x, yes)), 3);
    ck_assert_int_eq(rg_ndim(rg_index(x, "None, ..., None, 0")), 3);
    holds(rg_index(rg_index(x, 1), rg_item_int(rg_index(rg_arange(5), 3))), "tensor([7])");
    holds(rg_index(rg_ones(1, 1, 1, 1, 1, 1, 1, 1), 0, 0, 0, 0, 0, 0, 0, 0), "tensor([1])");
}
END_TEST

static int64_t calls;
static int64_t next_call(void) { return calls++; }

START_TEST(test_arguments_once_in_order) {
    rg_tensor *x = rg_reshape(rg_arange(24), 2, 3, 4);
    calls = 0;
    holds(rg_index(x, next_call(), next_call(), next_call()), "tensor([6])");
    ck_assert_int_eq(calls, 3);
    calls = 0;
    rg_set_item_(x, next_call() * 100 + 70, next_call(), next_call(), next_call());
    ck_assert_int_eq(calls, 4);
    ck_assert_double_eq(rg_at(x, 1, 2, 3), 70);
}
END_TEST

/* Words and signs that Python accepts are accepted. */
START_TEST(test_words_and_signs) {
    rg_tensor *x = counting(3, 4);
    holds(rg_index(x, "+1"), "tensor([4, 5, 6, 7])");
    holds(rg_index(x, "+1:+3, -1"), "tensor([ 7, 11])");
    holds(rg_index(x, "Ellipsis, 1"), "tensor([1, 5, 9])");
    ck_fails(rg_index(x, "+"), RG_VALUE_ERROR, "is not an index in Python's syntax");
    ck_fails(rg_index(x, "+-1"), RG_VALUE_ERROR, "is not an index in Python's syntax");
    ck_fails(rg_index(x, "Ellipsi"), RG_VALUE_ERROR, "is not an index in Python's syntax");
}
END_TEST

/* A word must be followed by no letter, digit or underscore. */
START_TEST(test_words_end) {
    static const char *const words[] = { "None", "True", "False", "Ellipsis" };
    static const char more[] = "_a0Z";
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        for (const char *c = more; *c; c++) {
            char text[16], said[80];
            snprintf(text, sizeof text, "%s%c", words[i], *c);
            snprintf(said, sizeof said, "is not an index in Python's syntax: see \"%s\"", text);
            ck_fails(rg_index(counting(3, 4), text), RG_VALUE_ERROR, said);
        }
}
END_TEST

/* A slice of a whole dim records no op, as in torch, unless it is the only item. */
START_TEST(test_slices_of_all) {
    rg_tensor *x = rg_requires_grad_(counting(3, 4), true);
    ck_assert_str_eq(rg_grad_fn(rg_index(x, "0:3, :")), "AliasBackward0");
    ck_assert_str_eq(rg_grad_fn(rg_index(x, ":, 0:4")), "AliasBackward0");
    ck_assert_str_eq(rg_grad_fn(rg_index(x, "0:3, 0:9")), "AliasBackward0");
    ck_assert_str_eq(rg_grad_fn(rg_index(x, "0:3")), "SliceBackward0");
    ck_assert_str_eq(rg_grad_fn(rg_index(x, "0:2, :")), "SliceBackward0");
    ck_assert_str_eq(rg_grad_fn(rg_index(x, "0:3, 0:4, None")), "UnsqueezeBackward0");
}
END_TEST

/* The value may share memory with the target. It is read before the target is written. */
START_TEST(test_written_with_itself) {
    rg_tensor *x = counting(3, 3), *was = rg_clone(x);
    ck_ok(rg_set_item_(x, rg_t(x), "..."));
    ck_assert(rg_equal(x, rg_t(was)));
    ck_ok(rg_set_item_(x, rg_flip(was, 0), "..."));
    ck_ok(rg_set_item_(x, rg_narrow(x, 0, 0, 2), "1:"));
    holds(x, "tensor([6, 7, 8, 6, 7, 8, 3, 4, 5])");
    ck_ok(rg_set_item_(x, rg_narrow(x, 1, 1, 2), ":, :2"));
    holds(x, "tensor([7, 8, 8, 7, 8, 8, 4, 5, 5])");
    ck_ok(rg_set_item_(x, rg_narrow(x, 0, 1, 2), "[0, 1]"));
    holds(x, "tensor([7, 8, 8, 4, 5, 5, 4, 5, 5])");
}
END_TEST

/* If a value that requires grad is written to a view, the view and its base require grad from then
 * on. */
START_TEST(test_written_to_a_view) {
    rg_tensor *base = rg_zeros(3, 4), *row = rg_select(base, 0, 1);
    rg_tensor *value = rg_requires_grad_(rg_ones(2), true);
    ck_ok(rg_set_item_(row, value, "1:3"));
    ck_assert(rg_requires_grad(base) && rg_requires_grad(row));
    ck_ok(rg_backward(rg_sum(rg_mul(base, 3))));
    holds(rg_grad_of(value), "tensor([3, 3])");
}
END_TEST

START_TEST(test_views_share) {
    rg_tensor *x = counting(3, 4), *row = rg_index(x, 1);
    rg_set_item_(row, -1, 0);
    rg_set_item_(x, rg_literal([ 7, 8, 9 ]), ":, 3");
    rg_set_item_(x, 0, rg_lt(x, 3));
    holds(x, "tensor([ 0,  0,  0,  7,  0,  5,  6,  8,  8,  9, 10,  9])");
    holds(row, "tensor([0, 5, 6, 8])");
    /* The target and the value overlap. */
    rg_set_item_(x, rg_index(x, "0:2"), "1:3");
    holds(x, "tensor([0, 0, 0, 7, 0, 0, 0, 7, 0, 5, 6, 8])");
    rg_tensor *i = rg_literal([ 0, 1, 2 ]);
    /* The index itself is written to. */
    rg_set_item_(i, 5, i);
    holds(i, "tensor([5, 5, 5])");
}
END_TEST

START_TEST(test_set_item_gradients) {
    rg_tensor *x = rg_requires_grad_(counting(3, 2), true),
              *v = rg_requires_grad_(rg_to(rg_literal([ 5, 6 ]), RG_FLOAT64), true);
    rg_tensor *y = rg_mul(x, 2);
    ck_ok(rg_set_item_(y, v, 1));
    ck_assert_str_eq(rg_grad_fn(y), "CopySlices");
    ck_ok(rg_backward(rg_sum(rg_mul(y, y))));
    holds(rg_grad_of(x), "tensor([ 0,  8,  0,  0, 32, 40])");
    holds(rg_grad_of(v), "tensor([10, 12])");

    rg_tensor *plain = rg_to(rg_zeros(2, 2), RG_FLOAT64),
              *w = rg_requires_grad_(rg_to(rg_literal([3]), RG_FLOAT64), true);
    /* A tensor without history gets one. */
    ck_ok(rg_set_item_(plain, w, "0"));
    ck_assert(rg_requires_grad(plain));
    ck_ok(rg_set_item_(plain, rg_mul(w, w), rg_literal([1]), 1));
    ck_ok(rg_backward(rg_sum(plain)));
    holds(rg_grad_of(w), "tensor([8])");
}
END_TEST

START_TEST(test_set_item_refusals) {
    rg_tensor *x = rg_requires_grad_(counting(2, 2), true);
    ck_fails(
        rg_set_item_(x, 1, 0), RG_RUNTIME_ERROR,
        "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    ck_fails(rg_set_item_(x, 1, "..."), RG_RUNTIME_ERROR,
             "a leaf Variable that requires grad is being used in an in-place operation.");
    {
        RG_NO_GRAD();
        ck_ok(rg_set_item_(x, 9, 0, 1));
    }
    holds(rg_detach(x), "tensor([0, 9, 2, 3])");

    /* The derivative of b needs the old value of a. */
    rg_tensor *a = rg_mul(x, 1);
    rg_tensor *b = rg_mul(a, a);
    ck_ok(rg_set_item_(a, 0, 0));
    ck_fails(rg_backward(rg_sum(b)), RG_RUNTIME_ERROR, "modified by an inplace operation");
    rg_tensor *y = rg_mul(x, 1);
    int64_t version = rg_version(y);
    ck_fails(rg_set_item_(y, 1, 0, 5), RG_INDEX_ERROR,
             "index 5 is out of bounds for dimension 1 with size 2");
    ck_fails(rg_set_item_(y, 1, rg_literal([ 0, 7 ])), RG_INDEX_ERROR,
             "index 7 is out of bounds for dimension 0 with size 2");
    ck_assert_int_eq(rg_version(y), version);
    holds(rg_detach(y), "tensor([0, 9, 2, 3])");

    /* Blanks may stand before and behind each item. */
    rg_tensor *six = counting(2, 3);
    holds(rg_index(six, " [1,0] "), "tensor([3, 4, 5, 0, 1, 2])");
    ck_assert(rg_ndim(rg_index(six, " None ")) == 3 && rg_ndim(rg_index(six, " ... ")) == 2);
    ck_assert(rg_ndim(rg_index(six, " 1 , 2 ")) == 0);

    /* In a range, None stands for a number that is missing. */
    static const char *const ranges[][2] = { { "1:None", "1:" }, { "None:1", ":1" },
                                             { "None:None", ":" }, { "::None", "::" },
                                             { "None : None : 2", "::2" }, { "0:2:None", "0:2" } };
    for (int i = 0; i < (int)(sizeof ranges / sizeof *ranges); i++)
        ck_assert_msg(rg_equal(rg_index(six, ranges[i][0]), rg_index(six, ranges[i][1])), "%s",
                      ranges[i][0]);
    ck_assert(rg_ndim(rg_index(six, "None, 1:None")) == 3);

    /* A single element that is written where a mask is true is converted to the target's dtype.
     * Several elements aren't converted. */
    rg_tensor *narrow = rg_zeros(3), *mask = rg_gt(rg_ones(3), 0);
    rg_tensor *wide = rg_full_dims(RG_DIMS(3), 2, RG_FLOAT64);
    ck_ok(rg_set_item_(narrow, rg_clone(rg_select(wide, 0, 0)), mask));
    ck_ok(rg_set_item_(narrow, rg_clone(rg_narrow(wide, 0, 0, 1)), mask));
    ck_assert(rg_equal(narrow, rg_full(RG_DIMS(3), 2)));
    ck_fails(rg_set_item_(narrow, wide, mask), RG_RUNTIME_ERROR, "set_item_: ");
}
END_TEST

START_TEST(test_bad_text) {
    /* A word ends where its letters, digits and underlines end. */
    static const char *const longer[] = { "Nonex", "None_", "None1", "Truex", "False_", "True1" };
    for (int i = 0; i < (int)(sizeof longer / sizeof *longer); i++) {
        rg_error_clear();
        ck_assert_msg(!rg_index(rg_zeros(2, 3), longer[i]), "%s", longer[i]);
    }
    rg_error_clear();
    rg_tensor *x = counting(2, 3), *null = NULL;
    static const char *const bad[] = { "",     ",",    "a",   "1 2",      "0,,1", "1:2:3:4", "[0",
                                       "[0]]", "0 :x", "1.5", "Nonesuch", "--1",  "(0, 1)" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_fails(rg_index(x, bad[i]), RG_VALUE_ERROR, "");
    ck_fails(rg_index(x, "[0.5]"), RG_INDEX_ERROR,
             "tensors used as indices must be long, int, byte or bool tensors");
    ck_fails(rg_index(x, (const char *)NULL), RG_TYPE_ERROR, "NULL");
    ck_fails(rg_index(x, "9223372036854775807"), RG_INDEX_ERROR, "out of bounds");
    ck_fails(rg_index(x, INT64_MIN), RG_INDEX_ERROR, "out of bounds");
    ck_fails(rg_index(x, "None,None,None,None,None,None,None"), RG_RUNTIME_ERROR,
             "at most 8 dimensions");
    ck_fails(rg_index(x, "...,...,...,...,...,...,...,...,...,...,False"), RG_INDEX_ERROR,
             "Dimension out of range");
    /* The index tensors leave no room for a further dim, and the bool, which takes no dim of x,
     * would add one. */
    rg_tensor *deep = rg_zeros(1, 1, 1, 1, 1, 1, 1, 1);
    rg_tensor *at = rg_literal([0]);
    ck_fails(rg_index(deep, at, at, at, at, at, at, at, at, "True"), RG_RUNTIME_ERROR,
             "at most 8 dimensions");
    char many[200] = "None";
    for (int i = 0; i < 40; i++)
        strcat(many, ",...");
    ck_fails(rg_index(x, many), RG_INDEX_ERROR, "at most");
    holds(rg_index(x, "-9223372036854775808:9223372036854775807:9223372036854775807, 0"),
          "tensor([0])");
    ck_assert_ptr_null(rg_index(null, 0));
    ck_assert_ptr_null(rg_index(x, null));
    ck_assert_ptr_null(rg_set_item_(x, null, 0));
    ck_fails(rg_index(x, RG_NONE), RG_TYPE_ERROR, "");
}
END_TEST

START_TEST(test_out_of_memory) {
    rg_tensor *x = rg_requires_grad_(counting(3, 4), true), *mask = rg_gt(x, 5);
    for (int call = 0; call < 2; call++)
        for (int64_t n = 1, failed = 1; failed; n++) {
            int64_t before = rg_live_tensors();
            {
                RG_SCOPE();
                rg_tensor *y = rg_clone(x);
                rg_memory_fail_at(n);
                rg_tensor *z = call ? rg_set_item_(y, rg_index(x, 0), "[0, 1], :")
                                    : rg_index(x, "None", mask);
                rg_memory_fail_at(0);
                failed = !z;
                if (failed)
                    ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
                rg_error_clear();
            }
            ck_assert_int_eq(rg_live_tensors(), before);
        }
}
END_TEST

/* The gradients of all slices of a large tensor are added to one tensor, without copies. */
START_TEST(test_slices_share_a_gradient) {
    rg_tensor *x = rg_requires_grad_(rg_zeros(2000, 500), true);
    rg_list parts = rg_unbind(x, 0);
    ck_assert_int_eq(parts.n, 2000);
    ck_assert_str_eq(rg_grad_fn(parts.v[7]), "UnbindBackward0");
    /* One node can't join this number of tensors, so the stack is made of several nodes. */
    rg_tensor *y = rg_stack(parts, 0);
    rg_memory_reset_peak();
    int64_t before = rg_memory_stats().now;
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert_int_lt(rg_memory_stats().peak - before, 5 * 2000 * 500 * 4);
    ck_assert(rg_equal(rg_grad_of(x), rg_ones(2000, 500)));
}
END_TEST

/* As in torch, an index that int64 can't hold fails. In a range such a number stands for the end of
 * the dim. */
START_TEST(test_numbers_beyond_int64) {
    static const char said[] = "index: Overflow when unpacking long long";
    rg_tensor *x = rg_arange(5);
    ck_fails(rg_index(x, "99999999999999999999"), RG_VALUE_ERROR, said);
    ck_fails(rg_index(x, "-99999999999999999999"), RG_VALUE_ERROR, said);
    ck_fails(rg_index(x, "9223372036854775808"), RG_VALUE_ERROR, said);
    ck_fails(rg_index(x, "9223372036854775807"), RG_INDEX_ERROR, "9223372036854775807");
    ck_ok(rg_equal(rg_index(x, "1:99999999999999999999"), rg_literal([1, 2, 3, 4])));
    ck_ok(rg_equal(rg_index(x, "-99999999999999999999:2"), rg_literal([0, 1])));
}
END_TEST

RG_TESTS(subscript, test_numbers_beyond_int64,
         test_items, test_arguments_once_in_order, test_views_share,
         test_set_item_gradients, test_set_item_refusals, test_bad_text, test_out_of_memory,
         test_slices_share_a_gradient, test_words_and_signs, test_words_end, test_written_to_a_view,
         test_written_with_itself, test_slices_of_all)

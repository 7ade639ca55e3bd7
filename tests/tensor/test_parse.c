/* test_parse.c: parsing infers dtypes and refuses texts as torch.tensor does, and reads what
 * printing writes. */
#include "print_cases.h"
#include "tensor/dtype.h"
#include "tensor/kernels/copy.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <limits.h>
#include <math.h>

#define OF_VARIABLES "; rg_from makes a tensor of variables' values"
static const rg_printoptions exact = {
    .precision = 17, .threshold = INT_MAX, .edgeitems = 3, .linewidth = 80, .sci_mode = 1
};

static bool same_bits(const rg_tensor *a, rg_tensor *b) {
    if (a->dtype != b->dtype || !rgi_same_shape(a, b))
        return false;
    rg_tensor *flat = rgi_contiguous_copy(b, b->dtype);
    bool same = true;
    for (int64_t i = 0; i < a->numel && same; i++) {
        size_t item = rgi_sizeof(a->dtype), at = (size_t)i * item;
        same = memcmp(a->data + at, flat->data + at, item) == 0
               || (isnan(rgi_load_f64(a->data + at, a->dtype))
                   && isnan(rgi_load_f64(flat->data + at, a->dtype)));
    }
    rgi_release(flat);
    return same;
}

static rg_code code_named(const char *line, const char **sentence) {
    static const struct {
        const char *name;
        rg_code code;
    } names[] = {
        { "! ValueError ", RG_VALUE_ERROR },
        { "! TypeError ", RG_TYPE_ERROR },
        { "! RuntimeError ", RG_RUNTIME_ERROR },
    };
    for (int i = 0; i < RG_COUNT(names); i++)
        if (strncmp(line, names[i].name, strlen(names[i].name)) == 0) {
            *sentence = line + strlen(names[i].name);
            return names[i].code;
        }
    ck_abort_msg("no such error: %s", line);
}

/* Returns whether a literal gives this text, or fails with the error that follows "! ". */
static bool literal_agrees(const char *dtype, const char *literal, const char *expected) {
    RG_SCOPE();
    rg_error_clear();
    rg_tensor *t = *dtype == '-' ? rg_parse(literal) : rg_parse_dtype(literal, golden_dtype(dtype));
    if (t)
        return *expected != '!' && strcmp(rg_repr(t), expected) == 0;
    if (*expected != '!')
        return false;
    const char *sentence;
    rg_code code = code_named(expected, &sentence);
    bool named = strncmp(rg_error(), "parse: ", 7) == 0;
    return named && rg_error_code() == code && strcmp(rg_error() + 7, sentence) == 0;
}

START_TEST(test_golden) {
    int n = 0, wrong = 0;
    golden_file f = golden_open("parse");
    rg_set_printoptions_with(exact);
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        const char *dtype = golden_word(&words);
        const char *literal = words;
        const char *expected = golden_peek(&f) == '!' ? golden_line(&f) : golden_text(&f);
        if (!literal_agrees(dtype, literal, expected) && wrong++ < 10)
            fprintf(stderr, "%s as %s: expected\n%s\nerror: %s\n", literal, dtype, expected,
                    rg_error());
        n++;
    }
    golden_close(&f);
    ck_assert_msg(wrong == 0 && n > 0, "%d of %d literals differ", wrong, n);
}
END_TEST

/* Each tensor of the printing cases is read again. From an exact text it is read to the bit, and
 * from torch's and NumPy's texts with its shape and near values. The dtype is the same if the text
 * names it. */
START_TEST(test_round_trips) {
    print_case c;
    int n = 0;
    golden_file f = golden_open("print");
    for (;;) {
        RG_SCOPE();
        if (!print_case_next(&f, &c))
            break;
        rg_set_default_dtype(c.default_dtype);
        rg_set_printoptions_with(exact);
        rg_tensor *back = rg_parse(rg_repr(c.t));
        ck_ok(back);
        ck_assert_msg(same_bits(back, c.t), "line %d: the exact text gives another tensor", c.line);
        if (strstr(c.text, "...")) {
            ck_fails(rg_parse(c.text), RG_VALUE_ERROR, "parse: the text is summarised");
            continue;
        }
        bool typed = (c.kind[0] == 'r' && c.options.precision > 0) || c.kind[0] == 't';
        back = typed ? rg_parse(c.text) : rg_parse_dtype(c.text, c.t->dtype);
        ck_ok(back);
        n++;
        ck_assert_int_eq(back->dtype, c.t->dtype);
        if (c.kind[0] == 'n' && c.t->numel == 0)
            continue; /* The shape can't be read from []. */
        ck_assert_msg(rgi_same_shape(back, c.t), "line %d: another shape", c.line);
        if (!rgi_is_float(c.t->dtype))
            ck_assert(same_bits(back, c.t));
        if (c.kind[0] != 'n' || c.t->dtype != RG_FLOAT32)
            continue;
        rg_tensor *flat = rgi_own(rgi_contiguous_copy(c.t, RG_FLOAT32));
        for (int64_t i = 0; i < flat->numel; i++) {
            float a = ((float *)flat->data)[i], b = ((float *)back->data)[i];
            float shown = strchr(c.text, 'e') ? 1e-45f + 5e-9f * fabsf(a) : 5e-9f;
            ck_assert_msg(a == b || (isnan(a) && isnan(b))
                              || fabsf(a - b) <= shown + 6e-8f * fabsf(a),
                          "line %d: %a became %a", c.line, (double)a, (double)b);
        }
    }
    golden_close(&f);
    ck_assert_int_gt(n, 0);
}
END_TEST

static const char *read(const char *text) {
    rg_tensor *t = rg_parse(text);
    return t ? rg_repr(t) : rg_error();
}

START_TEST(test_forms) {
    print_reset();
    ck_assert_str_eq(rg_repr(rg_literal([[1, 0, 1, 0], [0, 2, 0, 2]])),
                     "tensor([[1, 0, 1, 0],\n        [0, 2, 0, 2]])");
    ck_assert_str_eq(rg_repr(rg_literal({ { 1.0f, 2e3F }, { .5, 0x1.8p1 } })),
                     "tensor([[1.0000e+00, 2.0000e+03],\n        [5.0000e-01, 3.0000e+00]])");
    ck_assert_str_eq(rg_repr(rg_literal([1u, 2UL, -3LL, 0xFFull])),
                     "tensor([  1,   2,  -3, 255])");
    ck_assert_str_eq(rg_repr(rg_literal([true, False, TRUE])), "tensor([ True, False,  True])");
    ck_assert_str_eq(rg_repr(rg_literal([NAN, -INFINITY, inf, math.inf, torch.nan, np.inf])),
                     "tensor([nan, -inf, inf, inf, nan, inf])");
    ck_assert_str_eq(rg_repr(rg_literal([float("inf"), -float("inf"), 1])),
                     "tensor([inf, -inf, 1.])");
    ck_assert_str_eq(read("[float('-inf'), float('nan'), float(2)]"), "tensor([-inf, nan, 2.])");
    ck_assert_str_eq(read("[float(2), 3]"), "tensor([2., 3.])");
    ck_assert_str_eq(rg_repr(rg_literal_as(RG_INT64, [-9223372036854775808.0])),
                     "tensor([-9223372036854775808])");
    ck_fails(rg_literal_as(RG_INT64, [9223372036854775808.0]), RG_RUNTIME_ERROR,
             "to type int64 without overflow");
    ck_assert_str_eq(rg_repr(rg_literal_as(RG_FLOAT64, [1, 2])),
                     "tensor([1., 2.], dtype=torch.float64)");
    ck_assert_str_eq(read(" \n torch.tensor( [ 1 ,2 , ] ) \t"), "tensor([1, 2])");
    ck_assert_str_eq(read("Parameter containing:\ntensor([1., 2.], requires_grad=True)"),
                     "tensor([1., 2.])");
    ck_assert_str_eq(read("tensor(3.5000, dtype=torch.float64, grad_fn=<MulBackward0>)"),
                     "tensor(3.5000, dtype=torch.float64)");
    ck_assert_str_eq(read("tensor([], size=(0, 3), dtype=torch.int64)"),
                     "tensor([], size=(0, 3), dtype=torch.int64)");
    ck_assert_str_eq(read("array([], shape=(2, 0), dtype=float64)"),
                     "tensor([], size=(2, 0), dtype=torch.float64)");
    ck_assert_str_eq(read("[[1. 0.]\n [0. 2.]]"), "tensor([[1., 0.],\n        [0., 2.]])");
    ck_assert_str_eq(read("tf.Tensor(\n[[ True False]\n [False  True]], shape=(2, 2), dtype=bool)"),
                     "tensor([[ True, False],\n        [False,  True]])");
    ck_assert_str_eq(read("tf.Tensor(1.0, shape=(), dtype=float32)"), "tensor(1.)");
    ck_assert_str_eq(read("tf.Tensor(1.0, shape=(), dtype=tf.float64)"),
                     "tensor(1., dtype=torch.float64)");
    ck_assert_str_eq(read("tensor([1.], requires_grad=False)"), "tensor([1.])");
    ck_assert_str_eq(read("[0xE, 0x1e2, -0x10]"), "tensor([ 14, 482, -16])");
    ck_assert_str_eq(read("[0x1p3]"), "tensor([8.])");
    ck_assert_str_eq(read("array([1., 2.], dtype=np.float64)"),
                     "tensor([1., 2.], dtype=torch.float64)");
    ck_assert_str_eq(read("array([[1, 2]], shape=( 1 , 2 , ) )"), "tensor([[1, 2]])");
    ck_assert_str_eq(read("array([1., 2.])"), "tensor([1., 2.], dtype=torch.float64)");
    ck_assert_str_eq(read("np.array([])"), "tensor([], dtype=torch.float64)");
    ck_assert_str_eq(read("array([1., 2.], dtype=float32)"), "tensor([1., 2.])");
    ck_assert_str_eq(read("[1. 2.]"), "tensor([1., 2.])");
    ck_assert_str_eq(read("array([2, 0], dtype=bool)"), "tensor([ True, False])");
    ck_assert_str_eq(read("[[], [1]]"), "parse: expected sequence of length 0 at dim 1 (got 1)");
    ck_assert_str_eq(read("[[1], []]"), "parse: expected sequence of length 1 at dim 1 (got 0)");
    ck_assert_str_eq(read("array([7], shape=())"), "tensor(7)");
    ck_assert_str_eq(read("array([7, 8], shape=())"),
                     "parse: shape '[]' is invalid for input of size 2");
    /* As in Python, a number of several zeros is 0, but no other number may begin with a zero. */
    ck_assert_str_eq(read("[00, 000, -00]"), "tensor([0, 0, 0])");
    ck_assert_str_eq(read("[1,\r\n\v\f\t2]\r\n"), "tensor([1, 2])");
    ck_assert_str_eq(read("tensor([1, 2], dtype=torch.float64)"),
                     "tensor([1., 2.], dtype=torch.float64)");
    ck_assert_str_eq(rg_repr(rg_parse_dtype("tensor([1, 2], dtype=torch.float64)", RG_INT64)),
                     "tensor([1, 2])");
    rg_set_default_dtype(RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_literal([1, 0.5])), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_literal([])), RG_FLOAT64);
    rg_set_default_dtype(RG_FLOAT32);
    ck_assert_int_eq(rg_dtype_of(rg_literal([])), RG_FLOAT32);
}
END_TEST

START_TEST(test_garbage) {
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        { "", "expected a number but the text ends" },
        { "[", "expected a number but the text ends" },
        { "[1", "expected ',' or ']' but the text ends" },
        { "[1, 2", "expected ',' or ']' but the text ends" },
        { "{1, 2]", "expected ',' or '}' but got ']'" },
        { "[1, 2]]", "expected the end of the text but got ']'" },
        { "1, 2", "expected the end of the text but got ', 2'" },
        { "[,]", "expected a number but got ',]'" },
        { "[1,,2]", "expected a number but got ',2]'" },
        { "[1, 2 3]", "expected ',' or ']' but got '3]'" },
        { "[1 2, 3]", "expected ',' or ']' but got ', 3]'" },
        { "[[1][2]]", "expected ',' or ']' but got '[2]]'" },
        { "[1-2]", "expected a number but got '1-2]'" },
        { "[1 - 2]", "expected a number but got '- 2]'" },
        { "[1f]", "expected a number but got '1f]'" },
        { "[1.5.2]", "expected a number but got '1.5.2]'" },
        { "[010]",
          "expected a number without leading zeros (C would read it as octal) but got '010]'" },
        { "[0x]", "expected a number but got '0x]'" },
        { "[nano]", "expected a number but got 'nano]'" OF_VARIABLES },
        { "[float('1)]", "expected a quote but got ')]'" },
        { "[float(1]", "expected ')' but got ']'" },
        { "[1.5ff]", "expected a number but got '1.5ff]'" },
        { "[1ulll]", "expected a number but got '1ulll]'" },
        { "['5']", "expected a number but got ''5']'" },
        { "[x\ny]", "expected a number but got 'x'" OF_VARIABLES },
        { "[abcdefghijklmnopqrstuvwxyz]",
          "expected a number but got 'abcdefghijklmnopqrstuvwx'" OF_VARIABLES },
        { "[torch.np.inf]", "expected a number but got 'torch.np.inf]'" OF_VARIABLES },
        { "[math.np.inf]", "expected a number but got 'math.np.inf]'" OF_VARIABLES },
        { "[math.torch.inf]", "expected a number but got 'math.torch.inf]'" OF_VARIABLES },
        { "[1\x0e]", "expected a number but got '1\x0e]'" },
        { "[1, ..., 3]", "the text is summarised: '...' stands for elements it leaves out" },
        { "[...]", "the text is summarised: '...' stands for elements it leaves out" },
        { "[[1, 2], [3, four]]", "expected a number but got 'four]]'" OF_VARIABLES },
        { "[[1, 2], [3], x]", "expected a number but got 'x]'" OF_VARIABLES },
        { "[[[[[[[[[1]]]]]]]]]", "too many dimensions: a tensor has at most 8" },
        { "tensor([1]", "expected ',' or ')' but the text ends" },
        { "tensor([1], dtype=torch.int8)",
          "expected the dtype float32, float64, int64 or bool but got 'int8)'" },
        { "tensor([1], dtype=tf.np.float32)",
          "expected the dtype float32, float64, int64 or bool but got 'np.float32)'" },
        { "tensor([1], dtype=torch.tf.float32)",
          "expected the dtype float32, float64, int64 or bool but got 'tf.float32)'" },
        { "tensor([1], dtype=torch.?)",
          "expected the dtype float32, float64, int64 or bool but got '?)'" },
        { "tensor([1], colour>)",
          "expected dtype=, size=, shape=, requires_grad= or grad_fn=<..> but got 'colour>)'" },
        { "tensor([1], size=3)", "expected a shape but got '3)'" },
        { "tensor([1], colour=red)",
          "expected dtype=, size=, shape=, requires_grad= or grad_fn=<..> but got 'colour=red)'" },
        { "tensor([1], grad_fn=<Mul)",
          "expected dtype=, size=, shape=, requires_grad= or grad_fn=<..> but got 'Mul)'" },
        { "tensor([1, 2], size=(3,))", "shape '[3]' is invalid for input of size 2" },
        { "tensor([], size=(99999999999, 99999999999))",
          "shape '[99999999999, 99999999999]' is invalid for input of size 0" },
        { "tensor([], size=(4294967296, 4294967296, 1))",
          "shape '[4294967296, 4294967296, 1]' is invalid for input of size 0" },
        { "tensor([], size=(0, -1))", "expected a shape but got '-1))'" },
        { "tensor([], size=(0,0,0,0,0,0,0,0,0))", "expected a shape but got '0))'" },
        { "tensor([], size=(0", "expected ',' or ')' but the text ends" },
        { "[[],[1]]", "expected sequence of length 0 at dim 1 (got 1)" },
    };
    for (int i = 0; i < RG_COUNT(bad); i++) {
        rg_error_clear();
        ck_assert_msg(!rg_parse(bad[i].text), "'%s' was read", bad[i].text);
        ck_assert_int_eq(rg_error_code(), RG_VALUE_ERROR);
        ck_assert_str_eq(rg_error() + strlen("parse: "), bad[i].sentence);
    }
    ck_fails(rg_parse(NULL), RG_TYPE_ERROR, "parse: expected a text but got NULL");
    ck_fails(rg_parse("array([], shape=(99999999999999999999, 0), dtype=int64)"), RG_VALUE_ERROR,
             "expected a size that int64 can hold");
    ck_fails(rg_parse_dtype("[1]", (rg_dtype)9), RG_TYPE_ERROR,
             "parse: argument 'dtype' must be an rg_dtype, not 9");
}
END_TEST

/* Returns the pattern with an integer of 400 digits in place of each #. */
static const char *with_huge(const char *pattern) {
    static char text[4096];
    char *to = text;
    for (; *pattern; pattern++) {
        const size_t n = *pattern == '#' ? 400 : 1;
        memset(to, *pattern == '#' ? '7' : *pattern, n);
        to += n;
    }
    *to = 0;
    return text;
}

/* If a text has several faults, the error names the leftmost fault, as in torch. If two faults are
 * at the same position, it names the fault of the shape. */
START_TEST(test_the_leftmost_fault) {
    ck_fails(rg_parse_dtype(with_huge("[#, [1], #]"), RG_FLOAT32), RG_VALUE_ERROR,
             "parse: int too large to convert to float");
    ck_fails(rg_parse_dtype(with_huge("[1, [1], #]"), RG_FLOAT32), RG_TYPE_ERROR,
             "parse: must be real number, not list");
    ck_fails(rg_parse_dtype(with_huge("[#, [1], #]"), RG_INT64), RG_VALUE_ERROR,
             "parse: Overflow when unpacking long long");
    ck_fails(rg_parse("[1, [2], 99999999999999999999, [3]]"), RG_TYPE_ERROR,
             "parse: 'list' object cannot be interpreted as an integer");
    ck_fails(rg_parse("[18446744073709551616]"), RG_VALUE_ERROR,
             "parse: Overflow when unpacking long long");
    ck_fails(rg_parse("[-9223372036854775809]"), RG_VALUE_ERROR,
             "parse: Overflow when unpacking long long");
    ck_ok(rg_parse("[-9223372036854775808, 9223372036854775807]"));
    ck_fails(rg_parse("[[1], 99999999999999999999]"), RG_TYPE_ERROR, "parse: not a sequence");
    ck_fails(rg_parse("[[99999999999999999999], 1]"), RG_VALUE_ERROR,
             "parse: Overflow when unpacking long long");
    ck_fails(rg_parse_dtype("[1e30, [1], 1e30]", RG_INT64), RG_RUNTIME_ERROR,
             "parse: value cannot be converted to type int64 without overflow");
}
END_TEST

START_TEST(test_deep_brackets) {
    static char text[1 << 20];
    memset(text, '[', sizeof text - 1);
    ck_fails(rg_parse(text), RG_VALUE_ERROR, "parse: too many dimensions");
    memset(text, '-', sizeof text - 1);
    ck_fails(rg_parse(text), RG_VALUE_ERROR, "parse: expected a number but got '----");
    memset(text, '9', sizeof text - 1);
    ck_fails(rg_parse(text), RG_VALUE_ERROR, "parse: Overflow when unpacking long long");
}
END_TEST

START_TEST(test_out_of_memory) {
    static char text[4096] = "[";
    for (int i = 0; i < 300; i++)
        sprintf(text + strlen(text), "%d., ", i);
    strcat(text, "]");
    {
        RG_SCOPE();
        rg_parse(text);
    }
    int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
    bool done = false;
    for (int n = 1; !done; n++) {
        RG_SCOPE();
        rg_error_clear();
        rg_memory_fail_at(n);
        done = rg_parse(text) != NULL;
        rg_memory_fail_at(0);
        ck_assert_int_eq(rg_error_code(), done ? RG_OK : RG_OUT_OF_MEMORY);
        ck_assert(!done || n > 4);
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_int_eq(rg_memory_stats().other, other);
}
END_TEST

/* If there is no memory, the error says so, even if the text has a fault, too. */
START_TEST(test_out_of_memory_in_bad_text) {
    static char text[4096] = "[[0.], [1., 2.]";
    for (int i = 0; i < 300; i++)
        sprintf(text + strlen(text), ", [%d.]", i);
    strcat(text, "]");
    bool read = false;
    for (int n = 1; !read; n++) {
        RG_SCOPE();
        rg_error_clear();
        rg_memory_fail_at(n);
        ck_assert_ptr_null(rg_parse(text));
        read = rgi_this.fail_at > 0;
        rg_memory_fail_at(0);
        ck_assert_int_eq(rg_error_code(), read ? RG_VALUE_ERROR : RG_OUT_OF_MEMORY);
        ck_assert(!read || n > 2);
    }
    rg_error_clear();
}
END_TEST

RG_TESTS(parse, test_golden, test_round_trips, test_forms, test_garbage, test_the_leftmost_fault,
         test_deep_brackets, test_out_of_memory, test_out_of_memory_in_bad_text)

/*
 * test_loop_text.c: the text of loops that files in C take from the library. tests/export/ compiles
 * this text.
 */
#include "autograd/export/loop_text.h"

#include "regard.h"
#include "tests/test.h"

#include <string.h>

/* Returns how often `word` is in the text. */
static int times(const char *text, const char *word) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        n++;
    return n;
}

START_TEST(test_every_loop) {
    rg_text names = { 0 };
    ck_assert(rgi_loop_names(&names, "step"));
    ck_assert_ptr_nonnull(strstr(names.v, "softmax_float\n"));
    ck_assert_int_gt(times(names.v, "\n"), 400);
    for (char *name = names.v; *name; name += strlen(name) + 1) {
        rg_text text = { 0 };
        char begin[128];
        *strchr(name, '\n') = 0;
        ck_assert(rgi_loop_text(&text, "step", 1, (const char *[]){ name }));
        snprintf(begin, sizeof begin, " %s(", name);
        ck_assert_msg(strstr(text.v, begin), "%s isn't in its text", name);
        rgi_text_free(&text);
    }
    rgi_text_free(&names);
}
END_TEST

START_TEST(test_once) {
    rg_text text = { 0 };
    const char *const names[] = { "sum_float_plain", "softmax_float_plain", "softmax_float",
                                  "softmax_backward_float" };
    ck_assert(rgi_loop_text(&text, "step", 4, names));
    ck_assert_int_eq(times(text.v, "memcpy(void *restrict"), 1);
    ck_assert_int_eq(times(text.v, " softmax_float("), 1);
    ck_assert_int_eq(times(text.v, " softmax_backward_float("), 1);
    ck_assert_int_eq(times(text.v, " k_exp_below_float(float x) {"), 1);
    ck_assert_int_eq(times(text.v, "k_exp_below_double"), 0);
    ck_assert_int_eq(times(text.v, "_float_plain"), 0);
    rgi_text_free(&text);
}
END_TEST

START_TEST(test_which_loops_there_are) {
    const char *const names[] = { "sum_float_plain", "no_loop", "sum_double", "k_exp_below_float" };
    const bool there[] = { true, false, true, false };
    bool found[4];
    ck_assert(rgi_loops_find("step", 4, names, found));
    for (int i = 0; i < 4; i++)
        ck_assert_msg(found[i] == there[i], "%s", names[i]);
}
END_TEST

/* The coefficients of gelu are computed when the program begins, and are constants in the text. */
START_TEST(test_tables) {
    rg_text text = { 0 };
    ck_assert(rgi_loop_text(&text, "step", 1, (const char *[]){ "gelu_loop_float" }));
    const char *begin = "static const share_pieces share_gelu_grad = {\n    { 0x";
    ck_assert_ptr_nonnull(strstr(text.v, begin));
    ck_assert_int_eq(times(text.v, "$"), 0);
    rgi_text_free(&text);
}
END_TEST

START_TEST(test_unknown) {
    rg_text text = { 0 };
    const char *const unknown[] = { "hardmax_float_plain" };
    ck_says(rgi_loop_text(&text, "step", 1, unknown),
            "step: there is no text of the loop 'hardmax_float'");
    /* A part of a loop is no loop. */
    const char *const part[] = { "k_exp_float" };
    ck_says(rgi_loop_text(&text, "step", 1, part),
            "step: there is no text of the loop 'k_exp_float'");
    rgi_text_free(&text);
}
END_TEST

/* If memory runs out at any request, the call fails, and leaves nothing behind. */
START_TEST(test_without_memory) {
    const char *const names[] = { "gelu_loop_float" };
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        rg_text text = { 0 };
        rg_memory_fail_at(n);
        done = rgi_loop_text(&text, "step", 1, names);
        rg_memory_fail_at(0);
        ck_assert_int_eq(rg_error_code(), done ? RG_OK : RG_OUT_OF_MEMORY);
        rg_error_clear();
        rgi_text_free(&text);
    }
}
END_TEST

RG_TESTS(loop_text, test_every_loop, test_once, test_which_loops_there_are, test_tables,
         test_unknown, test_without_memory)

/* test_error.c: a failed call leaves a code and a message. */
#include "tests/test.h"
#include "tensor/error.h"
#include "tensor/messages/callback.h"
#include "tensor/messages/warning.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

START_TEST(test_message_and_code) {
    ck_assert_str_eq(rg_error(), "");
    ck_assert_int_eq(rg_error_code(), RG_OK);
    ck_assert_ptr_null(rgi_fail(RG_INDEX_ERROR, "op", "size %d", 3));
    ck_assert_str_eq(rg_error(), "op: size 3");
    ck_assert_int_eq(rg_error_code(), RG_INDEX_ERROR);
    rgi_fail(RG_VALUE_ERROR, NULL, "no op");
    ck_assert_str_eq(rg_error(), "no op");
    rgi_fail(RG_RUNTIME_ERROR, "outer", "%s", rg_error());
    ck_assert_str_eq(rg_error(), "outer: no op");
    rg_error_clear();
    ck_assert_str_eq(rg_error(), "");
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

START_TEST(test_the_outermost_name) {
    {
        RG_AS("outer");
        rgi_fail(RG_VALUE_ERROR, "op", "first");
        ck_assert_str_eq(rg_error(), "outer: first");
        {
            RG_AS("inner");
            rgi_fail(RG_VALUE_ERROR, NULL, "second");
            ck_assert_str_eq(rg_error(), "outer: second");
        }
        rgi_fail(RG_VALUE_ERROR, "op", "third");
        ck_assert_str_eq(rg_error(), "outer: third");
    }
    rgi_fail(RG_VALUE_ERROR, "op", "fourth");
    ck_assert_str_eq(rg_error(), "op: fourth");
}
END_TEST

/* Some of torch's sentences begin with the function's name. */
START_TEST(test_no_name_comes_twice) {
    static const char *const cases[][3] = {
        { "einsum", "einsum(): two", "einsum(): two" },
        { "trace", "trace: two", "trace: two" },
        { "clamp", "torch.clamp: two", "torch.clamp: two" },
        { "index_add", "index_add_(): two", "index_add_(): two" },
        { "index_add_", "index_add_(): two", "index_add_(): two" },
        { "product", "_product: two", "_product: two" },
        { "clamp_", "clamp(): two", "clamp(): two" },
        { "clamp__", "clamp: two", "clamp: two" },
        { "trace", "traces: one", "trace: traces: one" },
        { "trace", "trace", "trace: trace" },
        { "trace", "trace:one", "trace: trace:one" },
        { "trace", "traces one", "trace: traces one" },
        { "trace", "trace two", "trace: trace two" },
        { "pad", "narrow(): one", "pad: narrow(): one" },
        { "", "one: two", ": one: two" },
        { "_", "_: two", "_: _: two" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rg_error_clear();
        rgi_fail(RG_VALUE_ERROR, cases[i][0], "%s", cases[i][1]);
        ck_assert_str_eq(rg_error(), cases[i][2]);
    }
    RG_AS("einsum");
    rgi_fail(RG_VALUE_ERROR, "permute", "einsum(): two");
    ck_assert_str_eq(rg_error(), "einsum(): two");
}
END_TEST

START_TEST(test_long_messages_are_cut) {
    char big[5000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    rgi_fail(RG_VALUE_ERROR, big, "%s", big);
    ck_assert_uint_eq(strlen(rg_error()), 1023);
    rgi_fail(RG_VALUE_ERROR, "op", "%s", big);
    ck_assert_uint_eq(strlen(rg_error()), 1023);
    ck_assert(strncmp(rg_error(), "op: xxx", 7) == 0);
    rgi_fail(RG_VALUE_ERROR, big, "sentence");
    ck_assert_uint_eq(strspn(rg_error(), "x"), 1023);
}
END_TEST

START_TEST(test_null_is_silent) {
    ck_fails(rg_zeros(-1), RG_RUNTIME_ERROR, "zeros: Dimension size must be non-negative.");
    ck_fails(rg_ones(2, -1), RG_RUNTIME_ERROR,
             "ones: Trying to create tensor with negative dimension -1: [2, -1]");
    rg_tensor *failed = rg_zeros(2, -1);
    ck_assert_ptr_null(failed);
    ck_assert_ptr_null(rg_zeros_like(failed));
    ck_assert_int_eq(rg_numel(failed), -1);
    ck_assert_str_eq(rg_error(), "zeros: Dimension size must be non-negative.");
    ck_fails(rg_zeros_like(NULL), RG_TYPE_ERROR, "zeros_like: expected a tensor but got NULL");
    ck_fails(rg_zeros_like(RG_NONE), RG_TYPE_ERROR,
             "zeros_like: expected a tensor but got RG_NONE");
}
END_TEST

/* Makes a failure whose message no other call here has. */
static rg_tensor *first_failure(void) {
    rg_error_clear();
    return rg_zeros(2, -1);
}

/* A new failure replaces a failure that was read. An unread failure stays. */
START_TEST(test_the_first_unread_failure_stays) {
    static const char first[] = "zeros: Dimension size must be non-negative.";
    static const char next[] = "eye: n must be greater or equal to 0, got -1";
    rg_tensor *h = first_failure();
    ck_assert(!rg_eye(rg_size(h, 0), 5));
    ck_assert_str_eq(rg_error_peek(), first);
    ck_assert(!rg_eye((int64_t)rg_numel(h), rg_ndim(h)));
    ck_assert(!rg_linspace(rg_item(h), 1, rg_ndim(h), RG_FLOAT32));
    ck_assert(!rg_ones(2, rg_item_int(h)));
    ck_assert(!rg_zeros_dims(rg_shape(h), RG_FLOAT32));
    ck_assert(!rg_zeros_dims(RG_DIMS(2), (rg_dtype)rg_dtype_of(h)));
    ck_assert(!rg_parse(rg_repr(h)));
    ck_assert(!rgi_given_path(NULL, "load") && !rgi_given(NULL, "op", "a thing"));
    ck_assert(!rg_fail(RG_TYPE_ERROR, "mine", "also"));
    rg_drop(RG_NONE);
    ck_assert_str_eq(rg_error(), first);
    ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR);
    ck_assert(!rg_eye(-1, 5));
    ck_assert_str_eq(rg_error_peek(), next);
    /* Reading the code counts as reading the failure. */
    first_failure();
    ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR);
    ck_assert(!rg_eye(-1, 5));
    ck_assert_str_eq(rg_error(), next);
    /* A failure that the program has read explains no NULL: the first function that is given NULL
     * fails itself. The function after it adds no failure. */
    ck_assert(!rg_ones_like(rg_zeros_like(h)));
    ck_assert_str_eq(rg_error_peek(), "zeros_like: expected a tensor but got NULL");
    ck_assert_int_eq(rg_error_code(), RG_TYPE_ERROR);
    ck_assert(!rgi_given(NULL, "op", "a thing"));
    ck_assert_str_eq(rg_error(), "op: expected a thing but got NULL");
    ck_assert(!rgi_given_list(-1, NULL, "op"));
    ck_assert_str_eq(rg_error(), "op: expected a list but got one that failed: its n is -1");
    rg_error_clear();
    ck_assert_str_eq(rg_error_peek(), "");
}
END_TEST

START_TEST(test_failures_aside) {
    rg_failure aside;
    /* rgi_bring_failure_back brings an unread failure back, whatever has failed in between. */
    first_failure();
    rgi_set_failure_aside(&aside);
    ck_assert(!rgi_failed() && !*rg_error_peek());
    ck_assert(!rg_eye(-1, 5));
    rgi_bring_failure_back(&aside);
    ck_assert(strstr(rg_error_peek(), "zeros") && rgi_this.failure.unread);
    /* A failure that was read comes back if nothing has failed in between. Otherwise the new
     * failure stays. */
    rg_error();
    rgi_set_failure_aside(&aside);
    rgi_bring_failure_back(&aside);
    ck_assert(strstr(rg_error_peek(), "zeros") && !rgi_this.failure.unread);
    rgi_set_failure_aside(&aside);
    ck_assert(!rg_eye(-1, 5));
    rgi_bring_failure_back(&aside);
    ck_assert(strstr(rg_error_peek(), "eye") && rgi_this.failure.unread);
    /* If there was no failure to set aside, a new failure stays. */
    rg_error_clear();
    rgi_set_failure_aside(&aside);
    ck_assert(!rg_eye(-1, 5));
    rgi_bring_failure_back(&aside);
    ck_assert(strstr(rg_error(), "eye"));
    rg_error_clear();
}
END_TEST

/* A function of the program has failed if an attempt in it left a failure, but not if the attempt
 * forgot it. */
START_TEST(test_attempts_inside_a_callback) {
    rg_failure aside;
    const int64_t before = rgi_failures();
    rgi_set_failure_aside(&aside);
    ck_assert(!rg_eye(-1, 5));
    rgi_forget_failure();
    rgi_bring_failure_back(&aside);
    ck_ok(rgi_left_no_failure(before, "op"));
    rgi_set_failure_aside(&aside);
    ck_assert(!rg_eye(-1, 5));
    rgi_bring_failure_back(&aside);
    ck_assert(!rgi_left_no_failure(before, "op") && strstr(rg_error(), "eye"));
    rg_error_clear();
}
END_TEST

static int handled;
static rg_code handled_code;
static char handled_text[100];
static void handler(rg_code code, const char *message) {
    handled++;
    handled_code = code;
    snprintf(handled_text, sizeof handled_text, "%s", message);
}

/* The handler isn't told of a failure that is handled in an attempt, and is told once, afterwards,
 * of one that an attempt leaves. */
START_TEST(test_a_handler_and_attempts) {
    rg_failure aside, inner;
    rg_on_error(handler);
    rgi_set_failure_aside(&aside);
    ck_assert(!rg_eye(-1, 5));
    rgi_forget_failure();
    rgi_bring_failure_back(&aside);
    ck_assert(!handled && !rg_error_code());
    rgi_set_failure_aside(&aside);
    rgi_set_failure_aside(&inner);
    ck_assert(!rg_eye(-1, 5));
    rgi_bring_failure_back(&inner);
    ck_assert_int_eq(handled, 0);
    rgi_bring_failure_back(&aside);
    ck_assert_int_eq(handled, 1);
    ck_assert_str_eq(handled_text, rg_error_peek());
    ck_assert(strstr(handled_text, "eye") && !rgi_this.failure.unread);
    rg_error_clear();
    rg_on_error(NULL);
    handled = 0;
}
END_TEST

static void failing_handler(rg_code code, const char *message) {
    handler(code, message);
    ck_assert_int_lt(handled, 10);
    ck_assert(!rg_ones_like(RG_NONE));
}

START_TEST(test_a_handler_that_fails) {
    rg_on_error(failing_handler);
    {
        RG_AS("outer");
        ck_assert(!rg_zeros(-2));
        ck_assert_str_eq(rg_error(), "outer: Dimension size must be non-negative.");
        /* The failure in the handler has the name of the function that the handler called. */
        ck_assert_str_eq(rgi_this.later.first, "ones_like: expected a tensor but got RG_NONE");
        rgi_fail(RG_VALUE_ERROR, "op", "later");
        ck_assert_str_eq(rg_error(), "outer: later");
    }
    handled = 0;
    ck_assert(!rg_zeros(-2));
    /* The handler isn't called for its own failure, which is reported later. */
    ck_assert_int_eq(handled, 1);
    ck_assert_int_eq(handled_code, RG_RUNTIME_ERROR);
    ck_assert_str_eq(handled_text, "zeros: Dimension size must be non-negative.");
    ck_assert(rgi_this.later.count == 1 && strstr(rgi_this.later.first, "ones_like"));
    ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR); /* The first failure stays. */
    ck_assert_str_eq(rg_error(), "zeros: Dimension size must be non-negative.");
    rg_on_error(NULL);
    handled = 0;
}
END_TEST

/* If `reads_own`, this handler reads the failure of its own call. Otherwise it clears the error and
 * then fails. */
static bool reads_own;
static void clearing_and_failing_handler(rg_code code, const char *message) {
    handler(code, message);
    rg_error_clear();
    ck_assert(!rg_eye(-1, 5));
    if (reads_own)
        ck_assert(strstr(rg_error(), "eye"));
}

START_TEST(test_a_handler_that_clears_and_fails) {
    for (int reads = 0; reads < 2; reads++) {
        reads_own = reads;
        rg_on_error(clearing_and_failing_handler);
        ck_assert(!rg_zeros(-2));
        ck_assert_int_eq(handled, 1);
        ck_assert(strstr(rg_error(), "zeros") && !rgi_this.failure.unread);
        ck_assert_int_eq((int)rgi_this.later.count, !reads);
        rg_on_error(NULL);
        rg_error_clear();
        handled = 0;
    }
}
END_TEST

static void clearing_handler(rg_code code, const char *message) {
    handler(code, message);
    rg_error_clear();
}

START_TEST(test_a_handler_that_clears) {
    rg_on_error(clearing_handler);
    ck_assert(!rg_zeros(-2));
    rg_on_error(NULL);
    ck_assert_int_eq(handled_code, RG_RUNTIME_ERROR);
    ck_assert_str_eq(handled_text, "zeros: Dimension size must be non-negative.");
    ck_assert_int_eq(rg_error_code(), RG_OK);
    ck_assert_str_eq(rg_error(), "");
    handled = 0;
}
END_TEST

/* A handler gets each failure. A failure from before the handler was set stays unread. */
START_TEST(test_a_handler_that_comes_later) {
    first_failure();
    rg_on_error(handler);
    ck_assert(!rg_eye(-1, 5));
    ck_assert(strstr(handled_text, "eye: n must be"));
    ck_assert(strstr(rg_error_peek(), "zeros") && rgi_this.failure.unread);
    rg_error_clear();
    ck_assert(!rg_zeros(-2));
    ck_assert(!rgi_this.failure.unread);
    ck_assert(!rg_eye(-1, 5));
    ck_assert(strstr(rg_error(), "eye"));
    rg_on_error(NULL);
    handled = 0;
}
END_TEST

START_TEST(test_failing_without_a_sentence) {
    ck_assert_ptr_null(rg_fail(RG_VALUE_ERROR, "op", NULL));
    ck_assert_int_eq(rg_error_code(), RG_VALUE_ERROR);
    ck_assert_str_eq(rg_error(), "op: ");
    ck_assert_ptr_null(rg_fail(RG_OK, NULL, NULL));
    ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR);
    ck_assert_str_eq(rg_error(), "");
    for (int code = -1; code <= 99; code += 100) {
        rg_fail((rg_code)code, "op", "an error whose code is no rg_code");
        ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR);
    }
}
END_TEST

/* A message that is too long for its buffer is cut off, however long the name and the sentence
 * are. */
START_TEST(test_long_messages) {
    static char name[5000];
    memset(name, 'n', sizeof name - 1);
    for (size_t n = 0; n < sizeof name; n += n < 900 || n > 1100 ? 100 : 1) {
        name[n] = 0;
        rg_error_clear();
        rg_fail(RG_VALUE_ERROR, name, "%s: twice", name);
        ck_assert_int_eq(strncmp(rg_error(), name, strlen(rg_error()) < n ? strlen(rg_error()) : n),
                         0);
        ck_assert_int_gt((int)strlen(rg_error()), n < 400 ? (int)n : 400);
        name[n] = 'n';
    }
    rg_error_clear();
}
END_TEST

START_TEST(test_handler) {
    ck_assert(rg_on_error(handler) == NULL);
    rg_zeros_like(rg_zeros(-2));
    ck_assert_int_eq(handled, 1);
    ck_assert_int_eq(handled_code, RG_RUNTIME_ERROR);
    ck_assert_str_eq(handled_text, rg_error());
    ck_assert(rg_on_error(NULL) == handler);
    rg_zeros(-2);
    ck_assert_int_eq(handled, 1);
}
END_TEST

/* ---- warnings -------------------------------------------------------------------- */

static int warnings;
static char warning_text[100];
static void warning_handler(const char *message) {
    warnings++;
    snprintf(warning_text, sizeof warning_text, "%s", message);
}

static void measuring_handler(const char *message) { warnings = (int)strlen(message); }

static void failing_warning_handler(const char *message) {
    (void)message;
    rg_zeros(-2);
}

START_TEST(test_warnings_come_once_a_place) {
    ck_assert(rg_on_warning(warning_handler) == rg_print_warning);
    for (int i = 0; i < 3; i++)
        rgi_warn("op", "of %d", 5);
    ck_assert_int_eq(warnings, 1);
    ck_assert_str_eq(warning_text, "op: of 5");
    rgi_warn("op", "of %d", 6);
    rgi_warn("other", "of %d", 5);
    ck_assert_int_eq(warnings, 3);
    {
        RG_AS("outer");
        rgi_warn("op", "of %d", 5);
        ck_assert_str_eq(warning_text, "outer: of 5");
    }
    ck_assert(rg_on_warning(warning_handler) == warning_handler);
    rgi_warn("op", "of %d", 5);
    ck_assert_int_eq(warnings, 5);
    for (int i = 0; i < 1000; i++)
        rgi_warn("op", "number %d", i);
    ck_assert(warnings > 5 + 200 && warnings < 5 + 300);
    ck_assert(rg_on_warning(NULL) == warning_handler);
    rgi_warn("op", "unheard");
    ck_assert(rg_error_code() == RG_OK && rg_on_warning(rg_print_warning) == NULL);
}
END_TEST

/* A warning that is too long for its buffer is cut off. */
START_TEST(test_long_warnings) {
    static char big[5000];
    memset(big, 'x', sizeof big - 1);
    rg_on_warning(measuring_handler);
    rgi_warn("op", "%s", big);
    rg_on_warning(rg_print_warning);
    ck_assert_int_eq(warnings, 1023);
    warnings = 0;
}
END_TEST

/* A failure in a handler has the name of the function that the handler called. Later failures have
 * the outer function's name. */
START_TEST(test_a_warning_handler_that_fails) {
    rg_on_warning(failing_warning_handler);
    {
        RG_AS("outer");
        rgi_warn("op", "once");
        ck_assert_str_eq(rg_error(), "zeros: Dimension size must be non-negative.");
        rgi_fail(RG_VALUE_ERROR, "op", "later");
        ck_assert_str_eq(rg_error(), "outer: later");
    }
    rg_on_warning(rg_print_warning);
}
END_TEST

/* Without a handler, a warning is printed as a line on standard error. */
START_TEST(test_warnings_are_printed) {
    char path[] = "/tmp/regard-warning-XXXXXX", text[128] = "";
    int file = mkstemp(path), err = dup(2);
    ck_assert_int_ge(file, 0);
    rg_on_warning(rg_print_warning);
    fflush(stderr);
    dup2(file, 2);
    rgi_warn("op", "number %d", 7);
    fflush(stderr);
    dup2(err, 2);
    close(err);
    ck_assert_int_gt(pread(file, text, sizeof text - 1, 0), 0);
    close(file);
    unlink(path);
    ck_assert_str_eq(text, "regard: warning: op: number 7\n");
}
END_TEST

static void *fail_elsewhere(void *text) {
    ck_assert_str_eq(rg_error(), "");
    rgi_fail(RG_IO_ERROR, NULL, "elsewhere");
    return strcpy(text, rg_error());
}

START_TEST(test_errors_belong_to_the_thread) {
    char text[100] = "";
    pthread_t thread;
    rgi_fail(RG_VALUE_ERROR, NULL, "here");
    pthread_create(&thread, NULL, fail_elsewhere, text);
    pthread_join(thread, NULL);
    ck_assert_str_eq(text, "elsewhere");
    ck_assert_str_eq(rg_error(), "here");
    ck_assert_int_eq(rg_error_code(), RG_VALUE_ERROR);
}
END_TEST

RG_TESTS(error, test_the_first_unread_failure_stays, test_failures_aside,
         test_attempts_inside_a_callback, test_a_handler_and_attempts,
         test_a_handler_that_comes_later, test_message_and_code, test_the_outermost_name,
         test_no_name_comes_twice, test_long_messages_are_cut, test_warnings_come_once_a_place,
         test_warnings_are_printed, test_long_warnings, test_a_warning_handler_that_fails,
         test_null_is_silent, test_a_handler_that_fails, test_a_handler_that_clears,
         test_a_handler_that_clears_and_fails, test_failing_without_a_sentence, test_long_messages,
         test_handler, test_errors_belong_to_the_thread)

/*
 * test_trace.c: how anomaly mode reports where a forward call was made, on a stack that the test
 * makes up. Its functions belong to the program, with and without a name, to the library, or to
 * nobody.
 */
#define _GNU_SOURCE
#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "keeps.h"
#include "tests/test.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Frame i of the stack has the address &frames[i], and its letter stack[i] gives its kind. p is a
 * function of the program, s a function without a name, and l a public function of the library. r
 * is a function named rgb, which only looks like the library's, and ? is unknown. */
static char frames[64];
static const char *stack;
static const char *program = "/usr/bin/program";

/* Replaces the C library's backtrace. Frames behind the end of the stack are named `beyond`. */
int backtrace(void **address, int n) {
    const int all = (int)strlen(stack);
    for (int i = 0; i < n; i++)
        address[i] = &frames[i];
    return all < n ? all : n;
}

int dladdr(const void *address, Dl_info *at) {
    const long i = (const char *)address - frames;
    const char kind = i < (long)strlen(stack) ? stack[i] : 'b';
    if (i < 0 || i >= (long)sizeof frames || kind == '?')
        return 0;
    *at = (Dl_info){ .dli_fname = program, .dli_fbase = frames };
    if (kind == 'p')
        at->dli_sname = "run";
    if (kind == 'l')
        at->dli_sname = "rg_log";
    if (kind == 'r')
        at->dli_sname = "rgb";
    if (kind == 'b')
        at->dli_sname = "beyond";
    return 1;
}

#if __has_include(<execinfo.h>)
enum { STACKS = 1 };
#else
enum { STACKS = 0 };
#endif

/* Asserts that this trace is reported for a call on a stack of these frames. */
static void tells(const char *frames_of_it, const char *trace) {
    RG_SCOPE();
    char said[512];
    stack = frames_of_it;
    ck_ok(!rg_set_detect_anomaly(true));
    ck_assert(!rg_log(rg_zeros(2)));
    rg_set_detect_anomaly(false);
    snprintf(said, sizeof said, "log: the first -inf arose forward in log of [2]; forward call: %s",
             STACKS ? trace : "not recorded");
    ck_assert_msg(!strcmp(rg_error(), said), "%s: '%s'", frames_of_it, rg_error());
    rg_error_clear();
}

START_TEST(test_frames) {
    tells("p", "run");
    tells("s", "program+0x0");
    tells("ps", "run < program+0x1");
    tells("r", "rgb");
    /* Frames of functions that the library calls aren't shown, and unknown frames aren't,
     * either. */
    tells("lp", "run");
    tells("plp", "run < run");
    tells("?l?ps?", "run < program+0x4");
    tells("", "not recorded");
    tells("l?", "");
}
END_TEST

/* Of the innermost 24 frames, at most eight are shown. */
START_TEST(test_many_frames) {
    tells("pppppppsp", "run < run < run < run < run < run < run < program+0x7");
    tells("llllllllllllllllllllllppp", "run < run");
    tells("lllllllllllllllllllllllls", "");
}
END_TEST

/* A program may have been found by PATH, so that its name has no folder. */
START_TEST(test_name_without_a_folder) {
    program = "train";
    tells("ss", "train+0x0 < train+0x1");
    program = "/usr/bin/program";
    tells("s", "program+0x0");
}
END_TEST

/* An error in backward reports the stack of the forward call. */
START_TEST(test_backward) {
    rg_tensor *x = rg_requires_grad_(rg_zeros(2), true);
    stack = "ps";
    rg_set_detect_anomaly(true);
    rg_tensor *y = rg_sum(rg_sqrt(x));
    stack = "psp";
    ck_says(rg_backward(y), STACKS ? "sqrt: the first inf arose backward in SqrtBackward0, in the "
                                     "gradient of its input 0, [2]; forward call: run < program+0x1"
                                   : "sqrt: the first inf arose backward in SqrtBackward0, in the "
                                     "gradient of its input 0, [2]; forward call: not recorded");
    rg_set_detect_anomaly(false);
}
END_TEST

/* If a request for memory is denied, the error is RG_OUT_OF_MEMORY or the whole message. */
START_TEST(test_without_memory) {
    rg_tensor *zero = rg_zeros(2);
    stack = "pspsp";
    rg_set_detect_anomaly(true);
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        RG_SCOPE();
        rg_memory_fail_at(n);
        ck_assert(!rg_log(zero));
        rg_memory_fail_at(0);
        done = rg_error_code() != RG_OUT_OF_MEMORY;
        ck_assert_msg(!done || strstr(rg_error(), "arose forward in log of [2]; forward call: "),
                      "request %d: %s", (int)n, rg_error());
        rg_error_clear();
    }
    rg_set_detect_anomaly(false);
}
END_TEST

/* If other observers than anomaly mode are on, NaN and infinities pass, forward and backward. */
START_TEST(test_others_let_pass) {
    rg_tensor *x = rg_requires_grad_(rg_zeros(2), true);
    RG_SAVED_HOOKS(keeps);
    ck_ok(rg_log(x));
    ck_ok(rg_backward(rg_sum(rg_sqrt(x))));
    ck_assert(isinf(rg_at(rg_grad_of(x), 0)));
}
END_TEST

RG_TESTS(trace, test_frames, test_many_frames, test_name_without_a_folder, test_backward,
         test_without_memory, test_others_let_pass)

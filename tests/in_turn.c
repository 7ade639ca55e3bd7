/*
 * in_turn.c: denies a function its requests for memory, or its calls of the file system, one at a
 * time.
 */
#include "in_turn.h"
#include "faults.h"
#include "test.h"
#include "tensor/tensor.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The message of the first failure since call_once or forget_failure cleared it. If f fails, this
 * must be the error. */
static char first_failure[1024];
static void note_failure(rg_code code, const char *sentence) {
    (void)code;
    if (!*first_failure)
        snprintf(first_failure, sizeof first_failure, "%s", sentence);
}

void forget_failure(void) {
    *first_failure = '\0';
    rg_error_clear();
}

/* Calls f with this request for memory denied, and returns whether f succeeded. */
static bool call_once(bool (*f)(void), long fail_at_request) {
    rg_error_clear();
    const int64_t bytes = rg_memory_stats().now, tensors = rg_live_tensors();
    bool done, denied;
    {
        RG_SCOPE();
        *first_failure = '\0';
        rg_error_handler *before = rg_on_error(note_failure);
        rg_memory_fail_at(fail_at_request);
        done = f();
        denied = fail_at_request > 0 && rgi_me->fail_at == 0;
        rg_memory_fail_at(0);
        rg_on_error(before);
    }
    ck_assert_msg(done || !*first_failure || !strcmp(rg_error(), first_failure),
                  "'%s' stands in the place of '%s'", rg_error(), first_failure);
    ck_assert_msg(!done || !denied, "request %ld was denied, and nobody says so", fail_at_request);
    ck_assert_msg(done == (rg_error_code() == RG_OK), "it %s, but the error is '%s'",
                  done ? "got through" : "failed", rg_error());
    ck_assert_msg(faults.open == 0, "%d files stay open: %s", faults.open, rg_error());
    ck_assert_msg(rg_live_tensors() == tensors, "tensors stay: %s", rg_error());
    ck_assert_msg(rg_memory_stats().now == bytes, "%lld bytes stay: %s",
                  (long long)(rg_memory_stats().now - bytes), rg_error());
    return done;
}

static void look_after(void (*after)(bool done), bool done) {
    rg_error_clear();
    if (after)
        after(done);
}

/* Calls f once before any request is denied. In its first calls a thread allocates memory that it
 * keeps, such as the list of its scopes. */
static void begin_warm(bool (*f)(void), void (*after)(bool done)) {
    rg_error_clear();
    {
        RG_SCOPE();
        ck_assert_msg(f(), "%s", rg_error());
    }
    look_after(after, true);
}

long deny_in_turn(bool (*f)(void), void (*after)(bool done)) {
    bool done = false;
    long request = 0;
    begin_warm(f, after);
    while (!done) {
        faults_begin();
        request += rg_slow() && request > 60 ? 3 : 1;
        done = call_once(f, request);
        faults_end();
        ck_assert_msg(done || rg_error_code() == RG_OUT_OF_MEMORY, "request %ld: %s", request,
                      rg_error());
        ck_assert_msg(done || strstr(rg_error(), "out of memory"), "request %ld: %s", request,
                      rg_error());
        look_after(after, done);
        ck_assert(request < 1000000);
    }
    return request - 1;
}

typedef struct {
    bool (*f)(void);
    int left;      /* The free elements of the list. */
    long request;  /* The next request to be denied. */
    char said[64]; /* A message if a condition failed, else "". */
} starving;

/* Denies each request of s->f in turn, until s->f succeeds or the list has grown. */
static void *starve(void *context) {
    starving *s = context;
    RG_SCOPE();
    do
        rg_ones(1);
    while (rgi_me->depth + (size_t)s->left < rgi_me->room);
    const size_t room = rgi_me->room;
    bool done = false;
    while (!done && !*s->said && rgi_me->room == room) {
        RG_SCOPE();
        rg_error_clear();
        rg_memory_fail_at(s->request++);
        done = s->f();
        rg_memory_fail_at(0);
        if (rg_error_code() != (done ? RG_OK : RG_OUT_OF_MEMORY))
            snprintf(s->said, sizeof s->said, "request %ld with %d left: %.20s", s->request - 1,
                     s->left, rg_error());
    }
    rg_error_clear();
    return NULL;
}

void starve_in_turn(bool (*f)(void), int most) {
    const int64_t tensors = rg_live_tensors();
    for (int left = 1; left <= most; left++) {
        starving s = { .f = f, .left = left, .request = 1 };
        /* In the first thread, f may go on after a denied request, so that a later request enlarges
         * the list. The second thread begins with a list of the old size, and denies the requests
         * that follow. The request for the longer list is then among them. */
        for (int k = 0; k < 2; k++) {
            pthread_t thread;
            ck_assert_int_eq(pthread_create(&thread, NULL, starve, &s), 0);
            pthread_join(thread, NULL);
            ck_assert_msg(!*s.said, "%s", s.said);
            ck_assert_int_eq(rg_live_tensors(), tensors);
        }
    }
}

/* Asserts that the error tells of the fault. */
static void check_sentence(long call) {
    bool told = strstr(rg_error(), "[Errno 5] ");
    if (faults.nothing)
        told = strstr(rg_error(), "it was cut short at byte") || strstr(rg_error(), "[Errno 28] ");
    ck_assert_msg(told && rg_error_code() == RG_IO_ERROR, "call %ld, %s: %s", call, faults.failed,
                  rg_error());
}

/* Calls f with a file system that fails in this way, and returns whether f succeeded. */
static bool call_with(bool (*f)(void), faulty how) {
    faults_begin();
    how.number = faults.number;
    faults = how;
    const bool done = call_once(f, 0);
    faults_end();
    return done;
}

long fail_in_turn(bool (*f)(void), void (*after)(bool done)) {
    begin_warm(f, after);
    ck_assert_msg(call_with(f, (faulty){ 0 }), "%s", rg_error());
    const long calls = faults.calls;
    look_after(after, true);
    for (int nothing = 0; nothing < 2; nothing++)
        for (long call = 1; call <= calls; call++) {
            const bool done = call_with(f, (faulty){ .fail_at = call, .nothing = nothing });
            if (!done)
                check_sentence(call);
            ck_assert_msg(!done || !faults.failed || faults.renamed
                              || !strcmp(faults.failed, "close"),
                          "call %ld, %s, did no harm", call, faults.failed);
            look_after(after, done);
        }
    ck_assert_msg(call_with(f, (faulty){ .most = 7, .interrupts = true }), "%s", rg_error());
    look_after(after, true);
    return calls;
}

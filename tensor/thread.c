/*
 * thread.c: makes the state of a thread when the thread first calls the library, and destroys it
 * when the thread ends. scope.c and memory.c initialise and destroy the parts for scopes and free
 * lists.
 */
#include "memory.h"
#include "thread.h"
#include "scope.h"
#include "messages/unread.h"
#include "system/system.h"

#include <pthread.h>
#include <stdlib.h>

/* `nobody` is the state of threads that haven't called the library yet. `fallback` is the state of
 * a thread whose own state can't be allocated. Two such threads would share `fallback` without a
 * lock. That risk is accepted: the system has just given a new thread a stack many times as large
 * as this state, so in practice only a main thread needs it. */
static rg_thread nobody, fallback;

__thread rg_thread *rgi_me __attribute__((tls_model("initial-exec"))) = &nobody;
__thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
__thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
__thread const char *rgi_inside __attribute__((tls_model("initial-exec")));
__thread unsigned rgi_named_calls __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* Destroys the state of a thread that ends. First sets rgi_me again, because systems that emulate
 * thread-local variables have reset them when the destructor of a key runs. */
static void thread_end(void *thread) {
    rg_thread *me = thread;
    rgi_me = me;
    rgi_tell_all_unread(me);
    rgi_scope_end_thread(me);
    rgi_memory_end_thread(me);
    rgi_me = &nobody;
    if (me != &fallback)
        free(me);
    else
        fallback = (rg_thread){ .ready = false }; /* Another thread may use the fallback now. */
}

/* Destroys the state of the main thread when the process exits, because the destructors of thread
 * keys don't run when main returns. Threads that still run then only report their failures. */
__attribute__((destructor)) static void main_thread_end(void) {
    rgi_tell_all_unread(rgi_me); /* This may warn, which rgi_each_thread's lock would not allow. */
    if (rgi_this.ready)
        thread_end(rgi_me);
    rgi_each_thread(rgi_tell_all_unread);
}

/* A child of fork reports no failure from before the fork: its parent does. */
static void begin_child(void) { rgi_each_thread(rgi_unread_is_told); }

static void begin_process(void) {
    pthread_key_create(&exit_key, thread_end);
    rgi_expect_fork(NULL, NULL, begin_child);
}
/* Runs before main, since musl's pthread_once can wait forever in a forked child. */
__attribute__((constructor(104))) static void begin_before_forks(void) {
    pthread_once(&exit_once, begin_process);
}

rg_thread *rgi_thread_start(void) {
    if (rgi_me->ready)
        return rgi_me;
    pthread_once(&exit_once, begin_process);
    rg_thread *me = calloc(1, sizeof *me);
    if (!me)
        me = &fallback;
    rgi_me = me;
    me->ready = true;
    pthread_setspecific(exit_key, me);
    rgi_memory_begin_thread(me);
    return me;
}

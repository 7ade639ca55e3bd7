/*
 * killed.c: kills a process while it saves.
 */
#include "killed.h"
#include "faults.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns whether the child was killed by the test, and not by a fault of its own. */
static bool was_killed(pid_t child) {
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "a save failed");
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* The child makes no assertion, not even a true one: Check writes each to a file, and if the kill
 * cuts that write off at the end of a page, Check stops with "Bad message type". */
void killed_after(int microseconds, bool (*save)(int version)) {
    pid_t child = fork();
    if (child == 0) {
        int version = 1;
        while (save(version))
            version++;
        _exit(1);
    }
    ck_assert(child > 0);
    usleep((useconds_t)microseconds);
    kill(child, SIGKILL);
    ck_assert(was_killed(child));
}

bool killed_at(long call, bool after, bool (*save)(int version)) {
    pid_t child = fork();
    if (child == 0) {
        faults_begin();
        faults.kill_at = call;
        faults.kill_after = after;
        _exit(save(1) ? 0 : 1);
    }
    ck_assert(child > 0);
    return was_killed(child);
}

long killed_at_each_call(bool (*save)(int version), void (*check)(void)) {
    long call = 0;
    while (killed_at(call + 1, false, save)) {
        call++;
        check();
        if (killed_at(call, true, save))
            check();
    }
    return call;
}

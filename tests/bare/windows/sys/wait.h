/* sys/wait.h: how a process ended that was started on Windows. No test waits for one that it
 * forked, since fork leaves the test out. */
#pragma once

#include <sys/types.h>

pid_t waitpid(pid_t child, int *status, int flags);
#define WIFEXITED(status)   ((void)(status), 1)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((void)(status), 0)
#define WTERMSIG(status)    (status)

/* sys/wait.h: macros that tell how a process has ended. On Windows waitpid leaves out the test that
 * calls it; fork does so, too, so no test waits for a forked process. */
#pragma once

#include <sys/types.h>

pid_t waitpid(pid_t child, int *status, int flags);
#define WIFEXITED(status)   ((void)(status), 1)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((void)(status), 0)
#define WTERMSIG(status)    (status)

/* sys/resource.h: getrlimit tells the size of the thread's stack. It fails for every other
 * limit. */
#pragma once

struct rlimit {
    unsigned long long rlim_cur, rlim_max;
};
enum { RLIMIT_STACK, RLIMIT_AS };
#define RLIM_INFINITY (~0ULL)

int getrlimit(int which, struct rlimit *limit);
int setrlimit(int which, const struct rlimit *limit);

/*
 * reach.c: is linked to test programs that are compiled with -finstrument-functions. Appends the
 * address of each function that is called to the file that REACHED names, the first time that a
 * process calls it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

/* Functions that were called, each at a place that its address decides. A function that takes the
 * place of another one is written once more. */
enum { PLACES = 1 << 18 };
static _Atomic(void *) called[PLACES];

static void append(void *function) {
    const int before = errno;
    const char *path = getenv("REACHED");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (file >= 0 && write(file, &function, sizeof function) < 0)
        _exit(9);
    if (file >= 0)
        close(file);
    errno = before;
}

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    _Atomic(void *) *place = &called[(uintptr_t)function / 4 % PLACES];
    if (__atomic_load_n((void **)place, __ATOMIC_RELAXED) == function)
        return;
    *place = function;
    append(function);
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function;
    (void)caller;
}

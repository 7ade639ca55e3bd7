/*
 * load.c: the limit of the memory that loading a file may allocate, and the loads in progress.
 */
#include "load.h"

#include "tensor/files/files.h"

/* The default limit is LOAD_LEAST bytes plus LOAD_TIMES times the size of the files. A byte of a
 * file may become an int64 of 8 bytes, and the byte itself is kept in memory as well. So 9 times
 * the size is enough for every valid file that isn't compressed. */
static const int64_t LOAD_LEAST = (int64_t)1 << 30, LOAD_TIMES = 9;

/* The limit that the program set, or 0 for the default limit. */
static _Atomic int64_t load_limit;

bool(rg_set_load_limit)(int64_t bytes) {
    RG_FAIL_VALUE_IF(bytes < 0, "set_load_limit", "expected at least 0 bytes but got %lld",
                     (long long)bytes);
    load_limit = bytes;
    return true;
}

int64_t rg_get_load_limit(void) { return load_limit; }

/* Returns the number of bytes that the thread has allocated and not freed. */
static int64_t bytes_held(const rg_thread *me) {
    int64_t n = 0;
    for (int i = 0; i <= RG_MEM_OTHER; i++)
        n += atomic_load_explicit(&me->bytes[i], memory_order_relaxed);
    return n;
}

void rgi_load_begin(rg_load *load, const char *op, const char *path) {
    rg_thread *me = rgi_thread_get();
    if (me->load)
        return;
    const int64_t limit = load_limit;
    *load = (rg_load){ .op = op,
                       .path = path ? path : "",
                       .as = rgi_named_as,
                       .limit = limit ? limit : LOAD_LEAST,
                       .before = bytes_held(me),
                       .by_files = limit == 0 };
    me->load = load;
    me->watched = true;
}

void rgi_load_end(rg_load *load) {
    rg_thread *me = &rgi_this;
    if (me->load != load)
        return;
    me->load = NULL;
    me->watched = me->fail_at || me->told;
}

void rgi_load_reads(uint64_t bytes) {
    rg_load *load = rgi_this.load;
    if (!load || !load->by_files)
        return;
    const int64_t most = (INT64_MAX - load->limit) / LOAD_TIMES;
    load->limit += LOAD_TIMES * (int64_t)RG_MIN(bytes, (uint64_t)most);
}

bool rgi_load_may_take(const rg_thread *me, size_t bytes) {
    const rg_load *load = me->load;
    const int64_t taken = bytes_held(me) - load->before;
    const int64_t left = load->limit - RG_MAX(taken, 0);
    if (left >= 0 && bytes <= (uint64_t)left)
        return true;
    const char *const as = rgi_named_as;
    rgi_named_as = load->as;
    rgi_fail(RG_IO_ERROR, load->op,
             "'%s': loading it takes at least %llu bytes, and the limit is %lld; rg_set_load_limit "
             "sets another",
             load->path, (unsigned long long)RG_MAX(taken, 0) + bytes, (long long)load->limit);
    rgi_named_as = as;
    return false;
}

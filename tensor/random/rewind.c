/*
 * rewind.c: keeps the states of random generators, and puts the generators back to them.
 */
#include "rewind.h"
#include "random.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/observer.h"

struct rg_rewound {
    rg_rewound *next;
    rg_generator *generator;
    k_random_stream stream;
};

void rgi_rewind_begin(rg_rewind *r) {
    rg_thread *me = rgi_thread_get();
    *r = (rg_rewind){ .outer = me->rewind };
    me->rewind = r;
}

void rgi_rewind_end(rg_rewind *r) { rgi_this.rewind = r->outer; }

void rgi_rewind_release(rg_rewind *r) {
    while (r->first) {
        rg_rewound *gone = r->first;
        r->first = gone->next;
        rgi_free(gone, sizeof *gone, RG_MEM_OTHER);
    }
}

/* Returns the address of the pointer to g's entry in the rewind's list. If g has no entry, returns
 * the address of the NULL that ends the list. */
static rg_rewound **rewound_entry(rg_rewind *r, const rg_generator *g) {
    rg_rewound **at = &r->first;
    while (*at && (*at)->generator != g)
        at = &(*at)->next;
    return at;
}

bool rgi_rewind_note(rg_generator *g) {
    for (rg_rewind *r = rgi_this.rewind; r; r = r->outer) {
        rg_rewound **at = rewound_entry(r, g);
        if (*at)
            continue;
        *at = rgi_alloc(sizeof **at, RG_MEM_OTHER);
        if (!*at)
            return false;
        **at = (rg_rewound){ .generator = g, .stream = g->stream };
    }
    return true;
}

void rgi_rewind_forget(const rg_generator *g) {
    for (rg_rewind *r = rgi_this.rewind; r; r = r->outer) {
        rg_rewound **at = rewound_entry(r, g), *gone = *at;
        if (!gone)
            continue;
        *at = gone->next;
        rgi_free(gone, sizeof *gone, RG_MEM_OTHER);
    }
}

bool rgi_rewind_generators(const rg_rewind *r) {
    bool ok = !r->first || rgi_may_do_once("checkpoint");
    for (const rg_rewound *it = r->first; ok && it; it = it->next) {
        rg_generator *g = it->generator;
        if (!rgi_is_handle(g, RG_HANDLE_GENERATOR))
            continue;
        pthread_mutex_lock(&g->lock.mutex);
        ok = rgi_rewind_note(g);
        if (ok)
            g->stream = it->stream;
        pthread_mutex_unlock(&g->lock.mutex);
    }
    return ok;
}

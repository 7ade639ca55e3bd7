/*
 * alone.c: implements the transport without MPI, for a group of one process. Nothing is sent.
 */
#include "transport.h"

#include <stdlib.h>
#include <string.h>

/* Fails if a launcher of MPI has started several processes, because each of them would be rank 0 of
 * 1, and all would write the same files. */
bool rgi_transport_begin(void) {
    static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && atoi(size) > 1)
            return rg_fail(RG_RUNTIME_ERROR, "init_process_group",
                           "the program was built without MPI, and is one of %s processes", size);
    }
    return true;
}

void rgi_transport_end(void) {}

int rgi_transport_rank(void) { return 0; }

int rgi_transport_size(void) { return 1; }

void rgi_transport_abort(int status) { exit(status); }

int64_t rgi_channel_begin(void) { return 0; }

void rgi_channel_end(int64_t channel) { (void)channel; }

void rgi_exchange_begin(rg_exchange *e, int64_t channel, int peer, int tag, size_t size,
                        rg_parcel out, rg_parcel in) {
    (void)e;
    (void)channel;
    (void)peer;
    (void)tag;
    (void)size;
    (void)out;
    (void)in;
}

bool rgi_exchange_done(rg_exchange *e) {
    (void)e;
    return true;
}

void rgi_transport_gather(const void *mine, void *all, int bytes) {
    memcpy(all, mine, (size_t)bytes);
}

void rgi_transport_broadcast(void *data, int64_t n, size_t size, int src) {
    (void)data;
    (void)n;
    (void)size;
    (void)src;
}

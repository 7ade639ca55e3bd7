/*
 * transport.h: the messages that nn/parallel/ sends. mpi.c implements them with MPI, and alone.c
 * for a group of one, without MPI. Elements have 1, 4 or 8 bytes. Private.
 */
#pragma once

#include "process_group.h"

/* The upper limit of tags of exchanges. */
enum { RG_TAGS = 32000 };

bool rgi_transport_begin(void);
void rgi_transport_end(void);
int rgi_transport_rank(void);
int rgi_transport_size(void);
/* Ends the programs of all ranks with this exit status. */
void rgi_transport_abort(int status);

/* Two ranks send elements to each other. Either number may be 0, so that one rank only receives.
 * The exchange owns the memory until it is done. */
typedef struct rg_exchange {
    int64_t requests[2];
} rg_exchange;
typedef struct rg_parcel {
    void *data;
    int64_t n;
} rg_parcel;
void rgi_exchange_begin(rg_exchange *e, int peer, int tag, size_t size, rg_parcel out,
                        rg_parcel in);
/* Returns whether the exchange is done. Each call also advances other messages. */
bool rgi_exchange_done(rg_exchange *e);

/* Gathers `bytes` bytes of each rank into `all`, in the order of ranks. */
void rgi_transport_gather(const void *mine, void *all, int bytes);
/* Sends n elements of rank src to all ranks. */
void rgi_transport_broadcast(void *data, int64_t n, size_t size, int src);

/*
 * transport.h: what the rest of nn/parallel/ asks of MPI: mpi.c answers it with MPI, and alone.c
 * where there is none, for a group of one. Elements have 1, 4 or 8 bytes each. Private.
 */
#pragma once

#include "process_group.h"

/* The tags of exchanges lie below this. */
enum { RG_TAGS = 32000 };

bool rgi_transport_begin(void);
void rgi_transport_end(void);
int rgi_transport_rank(void);
int rgi_transport_size(void);
/* Ends the programs of all ranks, with this status. */
void rgi_transport_abort(int status);

/* Two ranks send each other elements, or one of them sends and the other receives: each of the two
 * numbers may be 0. The memory belongs to the exchange until it is done. */
typedef struct rg_exchange {
    int64_t requests[2];
} rg_exchange;
typedef struct rg_parcel {
    void *data;
    int64_t n;
} rg_parcel;
void rgi_exchange_begin(rg_exchange *e, int peer, int tag, size_t size, rg_parcel out,
                        rg_parcel in);
/* Returns whether it is done; asking lets all that is on its way go on. */
bool rgi_exchange_done(rg_exchange *e);

/* Puts `bytes` bytes of each rank into `all`, one rank behind the other. */
void rgi_transport_gather(const void *mine, void *all, int bytes);
/* Gives all ranks n elements of rank src. */
void rgi_transport_broadcast(void *data, int64_t n, size_t size, int src);

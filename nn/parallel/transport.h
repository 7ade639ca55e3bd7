/*
 * transport.h: the functions by which nn/parallel/ sends messages. mpi.c implements them with MPI,
 * and alone.c without MPI for a group of one process. An element of a message has 1, 4 or 8 bytes.
 * Private.
 */
#pragma once

#include "process_group.h"

/* Tags of exchanges are less than this number. */
enum { RG_TAGS = 32000 };

bool rgi_transport_begin(void);
void rgi_transport_end(void);
int rgi_transport_rank(void);
int rgi_transport_size(void);
/* Ends the programs of all ranks, with this exit status. */
void rgi_transport_abort(int status);

/* A channel keeps the messages of exchanges apart from those of other channels, also if their tags
 * are equal. Channel 0 belongs to the group. rgi_channel_begin must be called by all ranks, in the
 * same order. rgi_channel_end does nothing for channel 0, or if the group has ended. */
int64_t rgi_channel_begin(void);
void rgi_channel_end(int64_t channel);

/* An exchange of messages between two ranks: each sends elements to the other. A rank that sends no
 * elements only receives. The memory of both messages must not be touched until the exchange is
 * done. */
typedef struct rg_exchange {
    int64_t requests[2];
} rg_exchange;
typedef struct rg_parcel {
    void *data;
    int64_t n;
} rg_parcel;
void rgi_exchange_begin(rg_exchange *e, int64_t channel, int peer, int tag, size_t size,
                        rg_parcel out, rg_parcel in);
/* Returns whether the exchange is done. Doesn't wait. Must be called until it returns true: each
 * call lets MPI make progress with all messages. */
bool rgi_exchange_done(rg_exchange *e);

/* Collects the `bytes` bytes at `mine` of each rank. On every rank, `all` gets the bytes of all
 * ranks, in the order of the ranks. */
void rgi_transport_gather(const void *mine, void *all, int bytes);
/* Sends n elements from rank src to all ranks. `data` is read on rank src and written on the
 * others. */
void rgi_transport_broadcast(void *data, int64_t n, size_t size, int src);

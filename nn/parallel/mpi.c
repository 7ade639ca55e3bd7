/*
 * mpi.c: implements the transport with MPI. No other file includes mpi.h. If an MPI function fails,
 * MPI ends the programs of all ranks; this is MPI's default.
 */
#include "transport.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(int64_t), "an exchange has room for its requests");
_Static_assert(sizeof(MPI_Comm) <= sizeof(int64_t), "a channel has room for its communicator");

/* The communicator of the group, which keeps the group's messages apart from those of the program.
 * MPI_COMM_NULL in a process that was started by no launcher and hasn't initialized MPI itself:
 * such a process works without MPI. */
static MPI_Comm group_comm = MPI_COMM_NULL;
static bool began_mpi;

/* Returns whether a launcher of MPI has started this process. Launchers set environment variables
 * that begin with one of these prefixes, for Open MPI, PMI, PMIx or MPICH. Without this check MPI
 * would be initialized in a single process as well, which takes a third of a second. */
static bool was_launched(void) {
    static const char *const begin[] = { "OMPI_COMM_WORLD_", "PMI_", "PMIX_", "MPI_LOCAL" };
    extern char **environ;
    for (char **e = environ; *e; e++)
        for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
            if (strncmp(*e, begin[i], strlen(begin[i])) == 0)
                return true;
    return false;
}

bool rgi_transport_begin(void) {
    int begun = 0, ended = 0, level = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended)
        return rg_fail(RG_RUNTIME_ERROR, "init_process_group", "MPI has ended already");
    if (!begun && !was_launched())
        return true;
    if (!begun)
        MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    began_mpi = !begun;
    MPI_Comm_dup(MPI_COMM_WORLD, &group_comm);
    return true;
}

void rgi_transport_end(void) {
    if (group_comm == MPI_COMM_NULL)
        return;
    MPI_Barrier(group_comm);
    MPI_Comm_free(&group_comm);
    if (began_mpi)
        MPI_Finalize();
}

int rgi_transport_rank(void) {
    int rank = 0;
    if (group_comm != MPI_COMM_NULL)
        MPI_Comm_rank(group_comm, &rank);
    return rank;
}

int rgi_transport_size(void) {
    int size = 1;
    if (group_comm != MPI_COMM_NULL)
        MPI_Comm_size(group_comm, &size);
    return size;
}

void rgi_transport_abort(int status) {
    if (group_comm == MPI_COMM_NULL)
        exit(status);
    MPI_Abort(MPI_COMM_WORLD, status);
}

/* ---- channels -------------------------------------------------------------------------- */

/* Each channel has a communicator of its own, which is stored in the channel's number. */
static MPI_Comm comm_of(int64_t channel) {
    MPI_Comm comm;
    if (channel == 0)
        return group_comm;
    memcpy(&comm, &channel, sizeof comm);
    return comm;
}

int64_t rgi_channel_begin(void) {
    MPI_Comm comm;
    int64_t channel = 0;
    if (group_comm == MPI_COMM_NULL)
        return 0;
    MPI_Comm_dup(group_comm, &comm);
    memcpy(&channel, &comm, sizeof comm);
    return channel;
}

void rgi_channel_end(int64_t channel) {
    MPI_Comm comm = comm_of(channel);
    if (channel != 0 && group_comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
}

/* ---- sending and receiving messages ---------------------------------------------------- */

/* Returns MPI's type of integers of this size in bytes. If there is none, returns
 * MPI_DATATYPE_NULL, and MPI ends the programs when it gets that type. */
static MPI_Datatype type_of_size(size_t size) {
    switch (size) {
    case 1: return MPI_INT8_T;
    case 2: return MPI_INT16_T;
    case 4: return MPI_INT32_T;
    case 8: return MPI_INT64_T;
    }
    return MPI_DATATYPE_NULL;
}

void rgi_exchange_begin(rg_exchange *e, int64_t channel, int peer, int tag, size_t size,
                        rg_parcel out, rg_parcel in) {
    const MPI_Comm comm = comm_of(channel);
    MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    if (in.n)
        MPI_Irecv(in.data, (int)in.n, type_of_size(size), peer, tag, comm, &r[0]);
    if (out.n)
        MPI_Isend(out.data, (int)out.n, type_of_size(size), peer, tag, comm, &r[1]);
    for (int i = 0; i < 2; i++)
        memcpy(&e->requests[i], &r[i], sizeof r[i]);
}

bool rgi_exchange_done(rg_exchange *e) {
    MPI_Request r[2];
    int done;
    for (int i = 0; i < 2; i++)
        memcpy(&r[i], &e->requests[i], sizeof r[i]);
    MPI_Testall(2, r, &done, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++)
        memcpy(&e->requests[i], &r[i], sizeof r[i]);
    return done;
}

void rgi_transport_gather(const void *mine, void *all, int bytes) {
    if (group_comm == MPI_COMM_NULL)
        memcpy(all, mine, (size_t)bytes);
    else
        MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, group_comm);
}

void rgi_transport_broadcast(void *data, int64_t n, size_t size, int src) {
    if (group_comm != MPI_COMM_NULL)
        MPI_Bcast(data, (int)n, type_of_size(size), src, group_comm);
}

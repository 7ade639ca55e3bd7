/*
 * parallel.h: training with many processes on one machine or several. The functions are in a
 * library of their own, which is built if MPI is found. A program includes this header in addition
 * to regard.h, and links with `pkg-config --libs regard-mpi`.
 */
#pragma once

#include "process_group.h"
#include "distributed.h"
#include "distributed_checkpoint.h"
#include "sharded_optim.h"

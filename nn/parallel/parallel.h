/*
 * parallel.h: training in many processes, on one machine or on many: a library of its own, which is
 * built where MPI is found. A program that uses it includes this header beside regard.h, and links
 * what `pkg-config --libs regard-mpi` says.
 */
#pragma once

#include "process_group.h"
#include "distributed.h"
#include "distributed_checkpoint.h"
#include "sharded_optim.h"

/*
 * all_ops.c: the list of all ops. Each op is defined in another file of this folder.
 */
#include "autograd/op.h"

const rg_op *const rgi_ops[] = {
#define OP(name) &rg_op_##name,
#include "ops.def"
#undef OP
};
const int rgi_n_ops = RG_COUNT(rgi_ops);

/*
 * functional_call.h: calls a module with other tensors in place of its parameters, as
 * torch.func.functional_call does. With it, the functions of autograd/tools/functional.h compute
 * derivatives with respect to parameters:
 *
 *     static rg_tensor *loss(rg_tensor *const in[], void *m) {
 *         const rg_named weight = { "weight", in[0] };
 *         return rg_mean(rg_square(rg_functional_call(m, ((rg_named_list){ 1, &weight }), in[1])));
 *     }
 *
 *     rg_tensor *h = rg_hessian(loss, layer, 2, RG_LIST(layer->weight, x).v);
 */
#pragma once

#include "../module.h"

RG_PUBLIC_BEGIN

/* rg_functional_call(m, values, x, ..) returns what rg_call(m, x, ..) returns if the parameters and
 * buffers that `values` names have these values. Others keep theirs, and those that are tied to a
 * named one get its value, too. The graph of the result leads to the values; but what rg_checkpoint
 * computes again in a backward run, it computes with the module's own tensors. After the call, also
 * if it fails, the module is as it was, except for what the call itself has put into it. During the
 * call, functions that list the module's parameters fail, also a second rg_functional_call of the
 * module, and none of its modules can be freed. Other threads must not use the module meanwhile.
 * Returns NULL on failure. */
rg_tensor *rg_functional_call_list(void *m, rg_named_list values, rg_list inputs);
#define rg_functional_call(m, values, ...) \
    rg_functional_call_list(m, values, RG_ARGUMENTS_(__VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_functional_call_list(m, ...) rg_functional_call_list(RG_A_MODULE_(m), __VA_ARGS__)

RG_PUBLIC_END

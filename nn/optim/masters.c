/*
 * masters.c: the state tensors of an optimizer's parameters, and masters: float32 copies of the
 * parameters of 16 bits, on which a step works if the option master_weights is set.
 */
#include "optimizer_structs.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/kernels/copy.h"
#include "tensor/messages/callback.h"
#include "tensor/opaque.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <string.h>

/* Returns whether the step works on a float32 copy of the parameter. */
static bool takes_master(const rg_optim *o, const rg_optim_slot *slot) {
    const double option = o->groups[slot->group].options.master_weights;
    return rgi_option_set(option) && option != 0 && rgi_is_half((rg_dtype)slot->param->dtype);
}

/* Returns whether the master, rounded, is the parameter, so that the master can be used. That is so
 * unless the program has written to the parameter after the last step. */
static bool is_master_current(const rg_optim_slot *slot) {
    const rg_tensor *p = slot->param;
    if (!slot->master || !rgi_same_shape(slot->master, p))
        return false;
    const rg_storage *s = p->storage;
    if (slot->rounded_in == s && slot->rounded == s->version && s->mutation
        && strcmp(s->mutation, "step") == 0)
        return true;
    rg_tensor *rounded = rg_to(slot->master, (rg_dtype)p->dtype);
    return rounded && rg_equal(rounded, slot->param);
}

/* Returns the parameter's master. If it is missing, or the parameter isn't its rounded value, makes
 * it of the parameter. Returns NULL on failure, also if the two couldn't be compared. */
static rg_tensor *master_of(rg_optim_slot *slot) {
    const int64_t before = rgi_failures();
    if (is_master_current(slot))
        return slot->master;
    if (rgi_failures() != before)
        return NULL;
    rg_tensor *master = rg_to(slot->param, RG_FLOAT32);
    if (master)
        rgi_set_reference(&slot->master, master);
    return master;
}

bool rgi_gather_master(const rg_optim *o, rg_optim_slot *slot) {
    RG_NO_GRAD();
    if (!takes_master(o, slot)) {
        rgi_set_reference(&slot->master, NULL);
        return true;
    }
    RG_FAIL_IF(slot->operand[1]->dtype != slot->param->dtype, o->row->name,
               "a parameter's dtype is not that of its gradient");
    slot->operand[0] = master_of(slot);
    slot->operand[1] = rg_to(slot->operand[1], RG_FLOAT32);
    return slot->operand[0] && slot->operand[1];
}

void rgi_round_master(rg_optim_slot *slot) {
    rgi_copy_elements(slot->param, slot->master);
    slot->rounded_in = slot->param->storage;
    slot->rounded = slot->param->storage->version;
}

/* Returns a new state tensor, filled with the option initial_accumulator_value or, if the optimizer
 * lacks this option, with 0. Returns NULL on failure. */
static rg_tensor *new_state(const rg_optim *o, rg_optim_slot *slot) {
    rg_tensor *state = takes_master(o, slot) ? rg_to(rg_zeros_like(slot->param), RG_FLOAT32)
                                             : rg_empty_like(slot->param);
    /* As in torch, initial_accumulator_value has no effect if it is given to rg_optim_add_group. */
    const double initial = o->defaults.options.initial_accumulator_value;
    if (state)
        rgi_fill_number(state, rgi_option_set(initial) ? initial : 0, 0);
    return state;
}

/* Returns the state tensor in the dtype in which the step works, which is another one if the option
 * master_weights was changed. Returns NULL on failure. */
static rg_tensor *converted_state(const rg_optim *o, rg_optim_slot *slot, rg_tensor *state) {
    const bool half = rgi_is_half((rg_dtype)slot->param->dtype);
    const rg_dtype dtype = takes_master(o, slot) ? RG_FLOAT32 : (rg_dtype)slot->param->dtype;
    return half ? rg_to(state, dtype) : state;
}

rg_tensor *rgi_optim_state(const rg_optim *o, rg_optim_slot *slot, int k) {
    RG_NO_GRAD();
    rg_tensor *state = slot->state[k];
    state = state ? converted_state(o, slot, state) : new_state(o, slot);
    if (state && state != slot->state[k])
        rgi_set_reference(&slot->state[k], state);
    return state;
}

/*
 * step.c: makes a step of an optimizer. Everything that can fail is done before a parameter or one
 * of its state tensors changes.
 */
#include "optimizer_structs.h"
#include "autograd/frozen.h"
#include "nn/registry.h"
#include "tensor/dtype.h"
#include "tensor/kernels/limits.h"
#include "tensor/kernels/copy.h"
#include "tensor/messages/callback.h"
#include "tensor/messages/warning.h"
#include "tensor/observer.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <float.h>

/* Returns whether the optimizer keeps its k-th state tensor for this parameter. That can depend on
 * an option of the parameter's group. */
static bool takes_state(const rg_optim *o, const rg_optim_slot *slot, int k) {
    int needs = o->row->states[k].needs;
    return needs == RG_ALWAYS || o->groups[slot->group].option[needs] != 0;
}

/* Returns the k-th state tensor of the parameter. Makes it if there is none yet, and converts it if
 * it is of 16 bits and the step works in float32. Returns NULL on failure. */
static rg_tensor *state_of(const rg_optim *o, rg_optim_slot *slot, int k) {
    const bool half = rgi_is_half((rg_dtype)slot->param->dtype);
    return RG_LIKELY(slot->state[k] && !half) ? slot->state[k] : rgi_optim_state(o, slot, k);
}

bool rgi_optim_complete_states(rg_optim *o) {
    RG_SCOPE();
    for (RG_EACH_SLOT(slot, o)) {
        if (!slot->state[0] && !o->row->has_first_states)
            continue;
        for (int k = 0; k < RG_OPTIM_STATES && o->row->states[k].name; k++)
            if (takes_state(o, slot, k) && !state_of(o, slot, k))
                return false;
    }
    return true;
}

/* Fills slot->operand with the parameter, its gradient and its state tensors, on which the step
 * works, and checks that these tensors can be used. If the parameter has no gradient, it gets no
 * operands, and the step leaves it out. Returns false on failure. */
static bool gather_operands(const rg_optim *o, rg_optim_slot *slot) {
    slot->n_operands = 0;
    rg_tensor *grad = rgi_grad_of(slot->param, true);
    if (!grad)
        return false;
    if (grad == RG_NONE)
        return true;
    if (!rgi_is_float(slot->param->dtype))
        return rgi_lacks_dtype(o->row->name, slot->param->dtype);
    slot->operand[0] = slot->param;
    slot->operand[1] = grad;
    if (RG_UNLIKELY(rgi_is_half((rg_dtype)slot->param->dtype)) && !rgi_gather_master(o, slot))
        return false;
    int n = 2;
    for (int k = 0; k < RG_OPTIM_STATES && o->row->states[k].name; k++) {
        if (!takes_state(o, slot, k))
            continue;
        rg_tensor *state = state_of(o, slot, k);
        if (!state || !rgi_may_touch(state, o->row->name))
            return false;
        slot->operand[n++] = state;
    }
    const rg_tensor *p = slot->operand[0];
    for (int k = 1; k < n; k++)
        RG_FAIL_IF(slot->operand[k]->dtype != p->dtype || !rgi_same_shape(slot->operand[k], p),
                   o->row->name,
                   "a parameter's shape or dtype is not that of its gradient or state");
    slot->n_operands = n;
    return rgi_may_overwrite(slot->param, o->row->name);
}

/* Sets *z to the numbers of the slot's step, but for those that depend on the count of steps. */
static void give_numbers(const rg_optim *o, const rg_optim_slot *slot, k_optimizer_numbers *z) {
    const rg_param_group *g = &o->groups[slot->group].options;
    z->sign = rgi_option_set(g->maximize) && g->maximize != 0 ? -1 : 1;
    z->weight_decay = g->weight_decay;
    z->rate = -g->lr;
    o->row->numbers(z, g, slot);
}

/* Calls the row's function `update` for each parameter that has a gradient, and appends the tensor
 * that it returns to the parameter's operands. No parameter has changed by then. Returns false on
 * failure. */
static bool add_updates(const rg_optim *o) {
    for (RG_EACH_SLOT(slot, o)) {
        if (!slot->n_operands)
            continue;
        k_optimizer_numbers z = { 0 };
        give_numbers(o, slot, &z);
        rg_tensor *update = o->row->update(&o->groups[slot->group].options, slot, &z);
        if (!update)
            return false;
        slot->operand[slot->n_operands++] = update;
    }
    return true;
}

/* Returns whether the optimizer counts the steps of this parameter. A step of SGD without momentum
 * isn't counted, so that the first step with momentum, which initializes the momentum buffer, is
 * step 1. */
static bool counts(const rg_optim *o, const rg_optim_slot *slot) {
    return o->row->steps && takes_state(o, slot, 0);
}

/* Counts a step of the parameter. In the parameter's first step, most optimizers make its state and
 * choose the dtype of the numbers in it. */
static void count_step(const rg_optim *o, rg_optim_slot *slot, k_count_loop *count) {
    const rg_param_group *g = &o->groups[slot->group].options;
    if (slot->count.step == 0 && !o->row->has_first_states)
        slot->count_dtype = rgi_computed_in(rg_default_dtype());
    if (o->row->has_product)
        count(&slot->count, g->betas[0], g->momentum_decay,
              rgi_mantissa_bits(slot->count_dtype) == FLT_MANT_DIG);
    else
        count(&slot->count, 0, 0, false);
}

/* Returns whether the kernel's numbers for slot `a` can also be used for slot `b`. Usually they can
 * if both parameters are in one group and have made the same number of steps. They can't if the row
 * has a function `update`, because then the numbers also depend on the parameter's shape. */
static bool same_numbers(const rg_optim *o, const rg_optim_slot *a, const rg_optim_slot *b) {
    return a->group == b->group && a->count.step == b->count.step
           && a->count.product == b->count.product && !o->row->update;
}

/* Called for a parameter without a gradient. Warns, once for each optimizer, if the program has
 * assigned another tensor to the field of a module that held the parameter. The search takes long
 * in a large model, so it is made only once for each parameter. */
static __attribute__((noinline, cold)) void notice_assigned(rg_optim *o, rg_optim_slot *slot) {
    const rg_tensor *param = slot->param;
    if (slot->looked_for || o->warned_of_lost || !(param->flags & RG_IS_PARAMETER))
        return;
    slot->looked_for = true;
    if (!rgi_is_assigned_over(param))
        return;
    o->warned_of_lost = true;
    rgi_warn("step",
             "training no longer changes the optimizer's parameter '%s': its module has another "
             "tensor in its field, which isn't registered. RG_PARAMETER puts a tensor there; then "
             "make the optimizer anew, or add the parameter with rg_optim_add_group",
             rg_name(slot->param));
}

/* Makes the step for each parameter that has a gradient, and returns whether there was one. */
static bool step_slots(rg_optim *o) {
    k_count_loop *count = o->row->steps ? k_count_loop_of(o->row->steps) : NULL;
    const rg_optim_slot *last = NULL;
    k_optimizer_numbers *z = NULL;
    for (RG_EACH_SLOT(slot, o)) {
        if (!slot->n_operands) {
            notice_assigned(o, slot);
            continue;
        }
        const bool counted = counts(o, slot);
        if (counted)
            count_step(o, slot, count);
        if (!last || !same_numbers(o, last, slot)) {
            z = counted ? &o->counted_numbers : &o->numbers;
            give_numbers(o, slot, z);
            if (counted)
                k_step_numbers(o->row->steps, z, &slot->count, z);
        }
        last = slot;
        k_optimizer_step(o->row->kernel, slot->n_operands, slot->operand, z);
        rgi_count_write(slot->param, "step");
        if (RG_UNLIKELY(slot->operand[0] != slot->param))
            rgi_round_master(slot);
        if (RG_UNLIKELY(rgi_use_gradient(*rgi_grad_place(slot->param))))
            rgi_warn_of_gradients();
    }
    return last;
}

/* Called if no step of the optimizer has found a gradient, as when the program has forgotten the
 * backward run. */
static __attribute__((cold)) void warn_of_no_gradient(void) {
    rgi_warn("step", "no parameter of the optimizer has a gradient, so the step changes nothing: "
                     "call rg_backward before it, on a loss that depends on these parameters");
}

/* Returns whether an optimizer's step has used the gradient, which nothing has written to since. */
static bool gradient_is_used(const rg_tensor *grad) {
    return grad->storage->stepped == 2 * grad->storage->version + 2;
}

typedef bool is_lost_function(const rg_tensor *param);

/* Returns whether the parameter was a module's, but now only the optimizer refers to it, and it has
 * no gradient or one that an earlier step used. Nothing can compute a new gradient for it. */
static bool is_lost(const rg_tensor *param) {
    if (!(param->flags & RG_IS_PARAMETER)
        || atomic_load_explicit(&param->refs, memory_order_relaxed) != 1)
        return false;
    rg_tensor *const *grad = rgi_grad_place(param);
    return !grad || !*grad || gradient_is_used(*grad);
}

/* Returns the same for a run of a recorded step, which computes gradients for the parameters that
 * the step had when it was recorded, and holds references to them. Nothing keeps the parameter any
 * more: neither a module nor the program (rg_keep). */
static bool is_lost_in_run(const rg_tensor *param) {
    return (param->flags & RG_IS_PARAMETER)
           && atomic_load_explicit(&param->kept, memory_order_relaxed) == 0;
}

/* A lost parameter alone is no mistake: the program may have freed a module and go on training the
 * others. It is one if a value of a module has been replaced since the optimizer's last group was
 * added, and the parameter is in this group, or this is a run. (Otherwise the last group may have
 * the new parameter, which a run doesn't use.) It is also one if all parameters are lost. */
static __attribute__((cold)) void warn_of_lost(rg_optim *o, bool replaced,
                                               is_lost_function *lost_now) {
    const rg_optim_slot *lost = NULL;
    size_t n = 0;
    for (RG_EACH_SLOT(slot, o)) {
        if (!lost_now(slot->param))
            continue;
        n++;
        const bool may_have_new = slot->group < o->n_groups - 1 && lost_now != is_lost_in_run;
        if (!lost && replaced && !may_have_new)
            lost = slot;
    }
    if (n == o->n_slots)
        lost = o->slots;
    if (!lost)
        return;
    o->warned_of_lost = true;
    if (lost_now == is_lost_in_run)
        rgi_warn("step",
                 "the runs of a recorded step train the optimizer's parameter '%s' in vain: its "
                 "module was freed or has another value in its place. Make the optimizer anew, or "
                 "add the new parameters with rg_optim_add_group; then record the step again",
                 rg_name(lost->param));
    else
        rgi_warn("step",
                 "training no longer changes the optimizer's parameter '%s': its module was freed "
                 "or has another value in its place. Make the optimizer anew, or add the new "
                 "parameters with rg_optim_add_group",
                 rg_name(lost->param));
}

/* Warns, once for each optimizer, of a lost parameter. A step calls this before it computes. */
static inline void notice_lost(rg_optim *o, is_lost_function *lost_now) {
    const bool replaced = o->replacements
                          != atomic_load_explicit(&rgi_replacements, memory_order_relaxed);
    if (RG_UNLIKELY((replaced || lost_now(o->slots->param)) && !o->warned_of_lost))
        warn_of_lost(o, replaced, lost_now);
}

/* Makes a step of the optimizer. Also warns if a gradient still contains one that an earlier step
 * used, because the program hasn't zeroed it. Returns false on failure. */
RG_HOT static bool step_all(rg_optim *o) {
    RG_SCOPE();
    for (RG_EACH_SLOT(slot, o))
        if (!gather_operands(o, slot))
            return false;
    if (o->row->update && !add_updates(o))
        return false;
    if (RG_LIKELY(step_slots(o)))
        o->has_stepped = true;
    else if (!o->has_stepped && o->n_slots)
        warn_of_no_gradient();
    return true;
}

/* A recorded step of an optimizer that had n_groups groups then. The recording is one of the
 * optimizer's holders, so the optimizer still exists even if the program has freed it. */
typedef struct {
    rg_optim *optimizer;
    size_t n_groups;
} recorded_step;

static bool optimizer_step_again(void *context) {
    rg_optim *o = ((const recorded_step *)context)->optimizer;
    notice_lost(o, is_lost_in_run);
    return step_all(o);
}

/* Called when the recording is freed. */
static void drop_optimizer(void *context) {
    rgi_optim_let_go(((const recorded_step *)context)->optimizer);
}

/* Fails if the optimizer has got another group. The recorded rg_optim_zero_grad doesn't clear the
 * gradients of that group, and the recorded backward runs may not compute them. */
static bool has_its_groups(void *context) {
    const recorded_step *s = context;
    RG_FAIL_IF(s->optimizer->n_groups != s->n_groups, "replay_run",
               "an optimizer of the step has got another group of parameters since the step was "
               "recorded; record the step again");
    return true;
}

static void *storage_block(const rg_tensor *t, size_t *bytes) {
    *bytes = t->storage->bytes;
    return t->storage->data;
}

/* The blocks of memory on which a step works for a slot. */
enum { COUNT_BLOCK, PARAMETER_BLOCK, GRADIENT_BLOCK, FIRST_STATE_BLOCK };
enum { SLOT_BLOCKS = FIRST_STATE_BLOCK + RG_OPTIM_STATES };

/* Returns block number k of the slot. The parameter's block stands for a gradient or a state that
 * the slot doesn't have. Makes a state that is missing; returns NULL if that fails. */
static void *slot_block(const rg_optim *o, rg_optim_slot *slot, int k, size_t *bytes) {
    if (k == COUNT_BLOCK) {
        *bytes = sizeof slot->count;
        return &slot->count;
    }
    if (k == PARAMETER_BLOCK)
        return storage_block(slot->param, bytes);
    if (k == GRADIENT_BLOCK) {
        const rg_tensor *grad = *rgi_grad_place(slot->param);
        return storage_block(grad ? grad : slot->param, bytes);
    }
    const int state = k - FIRST_STATE_BLOCK;
    if (!o->row->states[state].name || !slot->n_operands || !takes_state(o, slot, state))
        return storage_block(slot->param, bytes);
    const rg_tensor *t = state_of(o, slot, state);
    return t ? storage_block(t, bytes) : NULL;
}

/* Returns block number i of the memory on which the optimizer's next step works: the blocks of each
 * slot, and behind them the numbers of the step. Returns NULL if there are no more, or if a missing
 * state can't be made. */
static void *optimizer_block(void *context, size_t i, size_t *bytes) {
    rg_optim *o = ((const recorded_step *)context)->optimizer;
    const size_t of_slots = o->n_slots * SLOT_BLOCKS;
    if (i < of_slots)
        return slot_block(o, &o->slots[i / SLOT_BLOCKS], (int)(i % SLOT_BLOCKS), bytes);
    if (i > of_slots)
        return NULL;
    *bytes = sizeof o->counted_numbers;
    return &o->counted_numbers;
}

static void observe_step(rg_optim *o) {
    if (!rgi_this.observer)
        return;
    const recorded_step step = { o, o->n_groups };
    const rg_operation operation = { optimizer_step_again, drop_optimizer, &step, sizeof step,
                                     optimizer_block, has_its_groups };
    if (rgi_observe_operation(NULL, "step", &operation))
        o->holders++;
}

static bool step_once(rg_optim *o) {
    if (!rgi_handle_given(o, "step", RG_HANDLE_OPTIM))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, o->row->step_by_closure, o->row->name,
                  "%s.step() missing 1 required positional argument: 'closure'", o->row->name);
    RG_FAIL_IF(o->share != RG_STATE_OF_ALL, "step",
               "this rank has the optimizer's state only of parameters that it owns: call "
               "rg_sharded_optim_step, or first rg_distributed_load_checkpoint");
    observe_step(o);
    notice_lost(o, is_lost);
    return step_all(o);
}

/* Fails, and changes nothing, if training is halted. For example, a failed backward run halts
 * training, because the parameters may still have the gradients of an earlier step. */
RG_HOT bool rg_optim_step(rg_optim *o) { return RG_UNLESS_HALTED(step_once(o)); }

static rg_tensor *step_closure(rg_optim *o, rg_closure *closure, void *context) {
    static const char op[] = "step_closure";
    if (!rgi_handle_given(o, op, RG_HANDLE_OPTIM) || !RG_GIVEN_FUNCTION(closure, op))
        return NULL;
    if (o->row->step_by_closure) {
        notice_lost(o, is_lost);
        return o->row->step_by_closure(o, closure, context);
    }
    rg_tensor *loss;
    const int64_t before = rgi_failures();
    o->holders++;
    {
        RG_ENABLE_GRAD();
        loss = closure(context);
    }
    const bool freed = o->handle.released;
    rgi_optim_let_go(o);
    RG_FAIL_AS_IF(RG_RELEASED, freed, op, "the closure has freed the optimizer");
    return rgi_returned(loss, before, op) && rg_optim_step(o) ? loss : NULL;
}

rg_tensor *rg_optim_step_closure(rg_optim *o, rg_closure *closure, void *context) {
    return RG_TENSOR_UNLESS_HALTED(step_closure(o, closure, context));
}

/*
 * group.c: starts and ends the process group, checks that its ranks agree, and implements the
 * collective functions on a tensor. Gradients are summed by reducer.c.
 */
#include "group.h"
#include "tree_sum.h"
#include "autograd/ops/ops.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static enum { NOT_YET, THERE, OVER } group_state;
/* One claim for each rank: what the rank is about to do, or its error (see group.h). Each rank
 * gathers the claims of all ranks here, to check that they are equal. */
static rg_claim *claims;
static rg_tensor *claims_holder;
/* Whether a rank has called rg_destroy_process_group while this one called another function. That
 * rank now waits for the others to call it, too, and no claims can be gathered any more. */
static bool has_left;

static const char destroy[] = "destroy_process_group";

/* ---- starting and ending the process group --------------------------------------------- */

/* Ends the group. The ranks tell each other that they do: a rank that calls another function then
 * fails, and doesn't wait. `ok` is false if the group couldn't be started on this rank. */
static void end_group(bool ok) {
    if (!has_left) {
        const rg_claim mine = rgi_claim_number(destroy, ok, 0);
        rgi_all_agree(&mine, "");
    }
    rgi_transport_end();
    rgi_room_drop(&claims_holder);
    group_state = OVER;
}

bool rg_init_process_group(void) {
    if (group_state != NOT_YET)
        return rg_fail(RG_RUNTIME_ERROR, "init_process_group", "%s",
                       group_state == THERE ? "trying to initialize the process group twice!"
                                            : "a process can't begin a second group");
    if (!rgi_transport_begin())
        return false;
    group_state = THERE;
    claims = rgi_room(&claims_holder, (size_t)rgi_transport_size() * sizeof *claims);
    if (claims)
        return true;
    rg_claim on_stack[rgi_transport_size()];
    claims = on_stack;
    end_group(false);
    claims = NULL;
    return false;
}

void rg_destroy_process_group(void) {
    if (group_state == THERE)
        end_group(true);
}

bool rg_is_initialized(void) { return group_state == THERE; }

bool rgi_group_given(const char *op) {
    return group_state == THERE
           || rg_fail(RG_VALUE_ERROR, op,
                      "Default process group has not been initialized, please make sure to call "
                      "init_process_group.");
}

int rg_rank(void) { return rgi_group_given("rank") ? rgi_transport_rank() : -1; }

int rg_world_size(void) { return rgi_group_given("world_size") ? rgi_transport_size() : -1; }

void rg_abort_ranks_on_error(rg_code code, const char *message) {
    fflush(stdout);
    if (group_state == THERE)
        fprintf(stderr, "rank %d of %d: %s\n", rgi_transport_rank(), rgi_transport_size(), message);
    else
        fprintf(stderr, "%s\n", message);
    fflush(stderr);
    rgi_transport_abort(code == RG_OUT_OF_MEMORY ? 2 : 1);
}

/* ---- allocating memory as tensors ------------------------------------------------------ */

static rg_tensor *block_of(size_t bytes) {
    return rg_zeros_dims(RG_DIMS((int64_t)(bytes / 8 + 1)), RG_INT64);
}

void *rgi_scope_room(size_t bytes) {
    rg_tensor *block = block_of(bytes);
    return block ? rg_data(block) : NULL;
}

void *rgi_room(rg_tensor **holder, size_t bytes) {
    RG_SCOPE();
    *holder = rg_keep(block_of(bytes));
    return *holder ? rg_data(*holder) : NULL;
}

void rgi_room_drop(rg_tensor **holder) {
    if (*holder)
        rg_drop(*holder);
    *holder = NULL;
}

size_t rgi_element_size(rg_dtype dtype) {
    switch (dtype) {
    case RG_BOOL: return sizeof(bool);
    case RG_INT64: return sizeof(int64_t);
    case RG_FLOAT32: return sizeof(float);
    case RG_FLOAT64: return sizeof(double);
    case RG_BFLOAT16:
    case RG_FLOAT16: return sizeof(uint16_t);
    case RG_UINT8: return sizeof(uint8_t);
    case RG_NO_DTYPE: break;
    }
    return 0;
}

bool rgi_group_sums(const char *op, rg_tensor *t) {
    const int dtype = rg_dtype_of(t);
    if (dtype != RG_BFLOAT16 && dtype != RG_FLOAT16)
        return true;
    rg_fail(RG_NOT_IMPLEMENTED, op, "tensors of %s can't be summed over ranks",
            rg_dtype_name((rg_dtype)dtype));
    return false;
}

/* ---- checks that all ranks agree ------------------------------------------------------- */

rg_claim rgi_claim_number(const char *op, bool ok, int64_t number) {
    rg_claim claim;
    memset(&claim, 0, sizeof claim);
    snprintf(claim.op, sizeof claim.op, "%s", op);
    claim.dtype = RG_NO_DTYPE;
    claim.number = number;
    if (!ok)
        snprintf(claim.failure, sizeof claim.failure, "%s", rg_error_peek());
    return claim;
}

rg_claim rgi_claim_tensor(const char *op, rg_tensor *t, int64_t number) {
    const rg_dims shape = t ? rg_shape(t) : (rg_dims){ 0 };
    rg_claim claim = rgi_claim_number(op, t != NULL, number);
    claim.dtype = t ? rg_dtype_of(t) : RG_NO_DTYPE;
    claim.shape.n = shape.n;
    for (int d = 0; d < shape.n; d++)
        claim.shape.v[d] = shape.v[d];
    return claim;
}

/* Writes a dtype and a shape to `text`, such as "float32 [2, 3]". */
static const char *tensor_text(const rg_claim *c, char text[200]) {
    int n = snprintf(text, 200, "%s [", rg_dtype_name((rg_dtype)c->dtype));
    for (int d = 0; d < c->shape.n; d++)
        n += snprintf(text + n, 200 - (size_t)n, "%s%lld", d ? ", " : "", (long long)c->shape.v[d]);
    snprintf(text + n, 200 - (size_t)n, "]");
    return text;
}

/* Fails because the claim c of rank i differs from the claim of rank 0, or because rank i has
 * failed. */
static bool refuse_claim(const rg_claim *mine, const rg_claim *zero, const rg_claim *c, int i,
                         const char *what) {
    char a[200], b[200];
    if (c->failure[0])
        return rg_fail(RG_RUNTIME_ERROR, mine->op, "rank %d failed: %s", i, c->failure);
    if (strcmp(c->op, zero->op) != 0)
        return rg_fail(RG_RUNTIME_ERROR, mine->op, "rank 0 calls %s, but rank %d calls %s",
                       zero->op, i, c->op);
    if (c->number != zero->number)
        return rg_fail(RG_VALUE_ERROR, mine->op, "%s is %lld on rank 0, but %lld on rank %d", what,
                       (long long)zero->number, (long long)c->number, i);
    return rg_fail(RG_VALUE_ERROR, mine->op, "rank 0 has %s, but rank %d has %s",
                   tensor_text(zero, a), i, tensor_text(c, b));
}

/* If this rank itself has failed, keeps its error. A rank that hasn't failed gets an error that
 * names the first failed rank or, if none has failed, the first rank whose claim isn't rank 0's. */
bool rgi_all_agree(const rg_claim *mine, const char *what) {
    const int size = rgi_transport_size();
    if (has_left)
        return rg_fail(RG_RUNTIME_ERROR, mine->op, "a rank has called %s", destroy);
    rgi_transport_gather(mine, claims, (int)sizeof *mine);
    for (int i = 0; i < size; i++)
        has_left = has_left || strcmp(claims[i].op, destroy) == 0;
    if (mine->failure[0])
        return false;
    for (int i = 0; i < size; i++)
        if (claims[i].failure[0])
            return refuse_claim(mine, &claims[0], &claims[i], i, what);
    for (int i = 1; i < size; i++)
        if (memcmp(&claims[i], &claims[0], sizeof *claims) != 0)
            return refuse_claim(mine, &claims[0], &claims[i], i, what);
    return true;
}

bool rgi_all_ok(const char *op, bool ok) {
    const rg_claim claim = rgi_claim_number(op, ok, 0);
    return rgi_all_agree(&claim, "");
}

/* ---- collective functions -------------------------------------------------------------- */

/* Returns whether elements of t may share memory: whether the stride of a dim isn't larger than the
 * largest offset that the dims with smaller strides can reach together. */
static bool overlaps_itself(rg_tensor *t) {
    const rg_dims size = rg_shape(t);
    for (int d = 0; d < size.n; d++) {
        int64_t reach = 0;
        for (int e = 0; e < size.n; e++) {
            const int64_t more = rg_stride(t, d) - rg_stride(t, e);
            if (size.v[e] > 1 && (more > 0 || (more == 0 && e < d)))
                reach += (size.v[e] - 1) * rg_stride(t, e);
        }
        if (size.v[d] > 1 && rg_stride(t, d) <= reach)
            return true;
    }
    return false;
}

/* Returns a contiguous copy of t, which can be sent. Fails if t can't be used, has more elements
 * than a message can have, or can't take the result, or if the call would be a part of a graph.
 * `grad_mode` is the caller's grad mode. */
static rg_tensor *copy_to_send(const char *op, rg_tensor *t, bool grad_mode) {
    if (!rg_check_tensor(t, op))
        return NULL;
    if (grad_mode && rg_requires_grad(t))
        return rg_fail(RG_RUNTIME_ERROR, op,
                       "the tensor requires grad, and a collective function can't be a part of a "
                       "graph: call it under RG_NO_GRAD, or for rg_detach of the tensor");
    if (overlaps_itself(t))
        return rg_fail(RG_RUNTIME_ERROR, op,
                       "elements of the tensor share memory, as after rg_expand: rg_clone it");
    rg_tensor *copy = rg_contiguous(rg_clone(t));
    if (copy && rg_numel(copy) > INT_MAX)
        return rg_fail(RG_VALUE_ERROR, op, "a tensor of %lld elements is too large for a message",
                       (long long)rg_numel(copy));
    return copy && rg_data(copy) ? copy : NULL;
}

rg_tensor *rg_all_reduce_with_(rg_tensor *t, rg_all_reduce_options o) {
    static const char op[] = "all_reduce_";
    RG_RECORD_FUNCTION(op);
    RG_SCOPE();
    const bool grad_mode = rg_is_grad_enabled();
    RG_NO_GRAD();
    if (!rgi_group_given(op))
        return NULL;
    rg_tensor *copy = copy_to_send(op, t, grad_mode), *room = NULL;
    rg_tree_sum r = { .op = o.op };
    if (copy && !rgi_group_sums(op, copy))
        copy = NULL;
    if (copy && (unsigned)o.op > RG_REDUCE_MIN)
        copy = rg_fail(RG_VALUE_ERROR, op, "there is no operation %d", (int)o.op);
    if (copy) {
        r.dtype = (rg_dtype)rg_dtype_of(copy);
        r.n = rg_numel(copy);
        r.data = rg_data(copy);
        room = rg_empty_dims(RG_DIMS(rgi_hops_room(rg_world_size(), rg_rank(), r.n)), r.dtype);
        r.room = room ? rg_data(room) : NULL;
    }
    const rg_claim mine = rgi_claim_tensor(op, room ? copy : NULL, o.op);
    if (!rgi_all_agree(&mine, "the operation"))
        return NULL;
    while (!rgi_tree_sum_advance(&r))
        continue;
    return rg_copy_(t, copy);
}

rg_tensor *(rg_broadcast_)(rg_tensor *t, int src) {
    static const char op[] = "broadcast_";
    RG_RECORD_FUNCTION(op);
    RG_SCOPE();
    const bool grad_mode = rg_is_grad_enabled();
    RG_NO_GRAD();
    if (!rgi_group_given(op))
        return NULL;
    rg_tensor *copy = copy_to_send(op, t, grad_mode);
    if (copy && (src < 0 || src >= rg_world_size()))
        copy = rg_fail(RG_VALUE_ERROR, op, "there is no rank %d among %d", src, rg_world_size());
    const rg_claim mine = rgi_claim_tensor(op, copy, src);
    if (!rgi_all_agree(&mine, "src"))
        return NULL;
    rgi_transport_broadcast(rg_data(copy), rg_numel(copy),
                            rgi_element_size((rg_dtype)rg_dtype_of(copy)), src);
    return rg_copy_(t, copy);
}

bool rg_barrier(void) {
    static const char op[] = "barrier";
    RG_RECORD_FUNCTION(op);
    return rgi_group_given(op) && rgi_all_ok(op, true);
}

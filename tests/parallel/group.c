/*
 * group.c: tests collective functions on single tensors, and how they fail on all ranks.
 * tests/parallel/run runs it with several numbers of ranks.
 */
#include "holds.h"

#include <math.h>

static int rank, size;

/* ---- sums ------------------------------------------------------------------------------ */

/* Returns the sum of one number of each rank: neighbours first, then pairs of neighbours. */
static float tree_sum(const float *v, int n) {
    return n == 1 ? v[0] : tree_sum(v, n / 2) + tree_sum(v + n / 2, n / 2);
}

static void test_sums_are_the_trees(void) {
    for (int64_t n = 0; n < 40; n = n < 9 ? n + 1 : 3 * n) {
        RG_SCOPE();
        rg_generator *g = rg_generator_new(7);
        rg_tensor *all = rg_randn_dims(RG_DIMS(size, n), RG_FLOAT32, g);
        rg_generator_free(g);
        rg_tensor *mine = rg_clone(rg_select(all, 0, rank));
        HOLDS(rg_all_reduce_(mine) == mine);
        const float *v = rg_data(all), *sum = rg_data(mine);
        for (int64_t i = 0; i < n; i++) {
            float column[64];
            for (int r = 0; r < size; r++)
                column[r] = v[r * n + i];
            const bool power = !(size & (size - 1));
            HOLDS(power ? sum[i] == tree_sum(column, size)
                        : fabsf(sum[i] - (float)rg_item(rg_sum(rg_select(all, 1, i)))) < 1e-5f);
        }
    }
}

static void test_types_and_operations(void) {
    static const rg_dtype dtypes[] = { RG_BOOL, RG_INT64, RG_FLOAT32, RG_FLOAT64, RG_UINT8 };
    for (int d = 0; d < 5; d++) {
        RG_SCOPE();
        rg_tensor *x = rg_to(rg_literal([ [ 0, 1, 2 ], [ 5, 7, 9 ] ]), dtypes[d]);
        rg_tensor *mine = rg_to(rg_mul(x, rank), dtypes[d]), *sum = rg_clone(mine),
                  *max = rg_clone(mine);
        rg_tensor *min = rg_add(mine, 1), *turned = rg_T(rg_clone(mine));
        const double times = size * (size - 1) / 2;
        HOLDS(rg_all_reduce_(sum) && rg_all_reduce_(max, .op = RG_REDUCE_MAX));
        HOLDS(rg_all_reduce_(min, .op = RG_REDUCE_MIN) && rg_all_reduce_(turned));
        if (d == 0) {
            HOLDS(rg_equal(sum, size > 1 ? x : rg_zeros_like(x)) && rg_equal(max, sum));
            continue;
        }
        HOLDS(rg_equal(sum, rg_mul(x, times)) && rg_equal(max, rg_mul(x, size - 1)));
        HOLDS(rg_equal(min, rg_ones_like(x)) && rg_equal(turned, rg_T(sum)));
    }
    RG_SCOPE();
    rg_tensor *odd = rg_full(RG_DIMS(3), rank == size - 1 ? NAN : 1.);
    HOLDS(rg_all_reduce_(odd, .op = RG_REDUCE_MAX) && isnan(rg_at(odd, 2)));
    odd = rg_full(RG_DIMS(3), rank == 0 ? NAN : 1.);
    HOLDS(rg_all_reduce_(odd, .op = RG_REDUCE_MIN) && isnan(rg_at(odd, 2)));
    rg_tensor *leaf = rg_requires_grad_(rg_ones(2), true), *view = rg_zeros(4);
    rg_tensor *of_graph = rg_mul(leaf, 2);
    FAILS(rg_all_reduce_(leaf), "all_reduce_: the tensor requires grad");
    FAILS(rg_all_reduce_(of_graph), "all_reduce_: the tensor requires grad");
    FAILS(rg_broadcast_(leaf, 0), "broadcast_: the tensor requires grad");
    HOLDS(rg_at(leaf, 1) == 1 && rg_version(leaf) == 0);
    {
        RG_NO_GRAD();
        HOLDS(rg_all_reduce_(leaf) && rg_at(leaf, 1) == size && rg_version(leaf) == 1);
    }
    HOLDS(rg_all_reduce_(rg_add_(rg_narrow(view, 0, 1, 2), 1)) && rg_at(view, 2) == size
          && rg_at(view, 3) == 0);
}

static void test_broadcast(void) {
    for (int src = 0; src < size; src++) {
        RG_SCOPE();
        rg_tensor *t = rg_T(rg_mul(rg_arange_as(6, RG_FLOAT64), rank + 1));
        t = rg_T(rg_reshape(t, 2, 3));
        HOLDS(rg_broadcast_(t, src) == t && rg_at(t, 2, 1) == 5 * (src + 1));
        rg_tensor *b = rg_full_dims(RG_DIMS(3), rank == src, RG_BOOL);
        HOLDS(rg_broadcast_(b, src) && rg_at(b, 2) == 1);
    }
    HOLDS(rg_barrier());
}

/* ---- failures -------------------------------------------------------------------------- */

/* Returns a tensor that has been released. */
static rg_tensor *gone(void) {
    RG_SCOPE();
    return rg_ones(2);
}

/* If the calls of the ranks don't agree, they fail on all ranks. The ranks can go on afterwards. */
static void test_disagreement(void) {
    RG_SCOPE();
    const bool odd = rank == size - 1;
    FAILS(rg_broadcast_(rg_ones(2), size), "broadcast_: there is no rank");
    FAILS(rg_broadcast_(rg_ones(2), -1), "broadcast_: there is no rank -1");
    FAILS(rg_all_reduce_(rg_ones(2), .op = (rg_reduce_op)9), "there is no operation 9");
    FAILS(rg_all_reduce_(NULL), "all_reduce_: expected a tensor but got NULL");
    FAILS(rg_broadcast_(NULL, 0), "broadcast_: expected a tensor but got NULL");
    FAILS(rg_all_reduce_(RG_NONE), "all_reduce_: expected a tensor but got RG_NONE");
    FAILS(rg_broadcast_(RG_NONE, 0), "broadcast_: expected a tensor but got RG_NONE");
    FAILS(rg_init_process_group(), "initialize the process group twice");
    rg_tensor *expanded = rg_expand(rg_ones(1), 3), *released = gone();
    FAILS(rg_all_reduce_(released), "all_reduce_: tensor released with its scope");
    FAILS(rg_broadcast_(released, 0), "broadcast_: tensor released with its scope");
    FAILS(rg_all_reduce_(expanded), "all_reduce_: elements of the tensor share memory");
    FAILS(rg_broadcast_(expanded, 0), "broadcast_: elements of the tensor share memory");
    HOLDS(rg_all_reduce_(rg_T(rg_ones(2, 3))) && rg_all_reduce_(rg_slice(rg_ones(9), 0, 0, 9, 2)));
    if (size == 1)
        return;
    char text[200];
    snprintf(text, sizeof text, "rank %d failed: all_reduce_: elements of the tensor", size - 1);
    FAILS(rg_all_reduce_(odd ? expanded : rg_ones(3)), odd ? text + 15 : text);
    snprintf(text, sizeof text,
             "all_reduce_: rank 0 has torch.float32 [2, 3], but rank %d has torch.float32 [6]",
             size - 1);
    FAILS(rg_all_reduce_(odd ? rg_ones(6) : rg_ones(2, 3)), text);
    snprintf(text, sizeof text, "but rank %d has torch.int64 [2]", size - 1);
    FAILS(rg_all_reduce_(odd ? rg_ones_dims(RG_DIMS(2), RG_INT64) : rg_ones(2)), text);
    static const char null[] = "all_reduce_: expected a tensor but got NULL";
    snprintf(text, sizeof text, "rank %d failed: %s", size - 1, null);
    FAILS(rg_all_reduce_(odd ? NULL : rg_ones(2)), odd ? null : text);
    snprintf(text, sizeof text, "the operation is 0 on rank 0, but 1 on rank %d", size - 1);
    FAILS(rg_all_reduce_(rg_ones(2), .op = odd ? RG_REDUCE_MAX : RG_REDUCE_SUM), text);
    snprintf(text, sizeof text, "src is 0 on rank 0, but 1 on rank %d", size - 1);
    FAILS(rg_broadcast_(rg_ones(2), odd), text);
    snprintf(text, sizeof text, "rank 0 calls all_reduce_, but rank %d calls barrier", size - 1);
    FAILS(odd ? rg_barrier() : rg_all_reduce_(rg_ones(2)) != NULL, text);
    if (odd) {
        FAILS(rg_all_reduce_(rg_matmul(rg_ones(2, 3), rg_ones(2, 3))), "matmul: mat1 and mat2");
    } else {
        snprintf(text, sizeof text, "rank %d failed: matmul: mat1 and mat2", size - 1);
        FAILS(rg_all_reduce_(rg_ones(2)), text);
    }
    HOLDS(rg_barrier());
    /* A failure that was unread before the call doesn't make the call fail, and stays unread. */
    if (odd)
        rg_matmul(rg_ones(2, 3), rg_ones(2, 3));
    HOLDS(rg_barrier() && rg_all_reduce_(rg_ones(2)));
    HOLDS(!odd == !strstr(rg_error(), "matmul: mat1 and mat2"));
    rg_error_clear();
}

/* If one rank has no memory, the call fails on all ranks, and no rank waits. */
static void test_no_memory_on_one_rank(void) {
    for (int64_t request = 1; request < 5; request++) {
        RG_SCOPE();
        rg_tensor *t = rg_ones(100, 100);
        if (rank == size - 1)
            rg_memory_fail_at(request);
        const bool ok = rg_all_reduce_(t);
        rg_memory_fail_at(0);
        HOLDS(ok == !rg_error_code());
        HOLDS(ok ? rg_at(t, 99, 99) == size : rg_at(t, 99, 99) == 1);
        rg_error_clear();
        rg_tensor *sum = rg_scalar_dtype(ok, RG_INT64);
        HOLDS(rg_all_reduce_(sum) && (rg_item(sum) == 0 || rg_item(sum) == size));
    }
}

/* The last rank ends the group while the others call another function: these fail, and none waits
 * forever. */
static void test_one_leaves(void) {
    char text[100];
    snprintf(text, sizeof text, "rank 0 calls barrier, but rank %d calls destroy_process_group",
             size - 1);
    if (rank < size - 1) {
        FAILS(rg_barrier(), text);
        FAILS(rg_barrier(), "barrier: a rank has called destroy_process_group");
        FAILS(rg_all_reduce_(rg_ones(1)), "a rank has called destroy_process_group");
    }
    rg_destroy_process_group();
    HOLDS(size == 1 || rank < size - 1 || strstr(rg_error(), text));
    rg_error_clear();
    HOLDS(!rg_is_initialized());
}

int main(void) {
    FAILS(rg_barrier(), "Default process group has not been initialized");
    FAILS(rg_all_reduce_(rg_ones(1)), "Default process group has not been initialized");
    FAILS(rg_broadcast_(rg_ones(1), 0), "Default process group has not been initialized");
    FAILS(rg_rank() >= 0, "Default process group has not been initialized");
    FAILS(rg_world_size() >= 0, "Default process group has not been initialized");
    rg_destroy_process_group();
    HOLDS(rg_init_process_group() && rg_is_initialized());
    rank = rg_rank();
    size = rg_world_size();
    test_sums_are_the_trees();
    test_types_and_operations();
    test_broadcast();
    test_disagreement();
    test_no_memory_on_one_rank();
    test_one_leaves();
    FAILS(rg_init_process_group(), "can't begin a second group");
    if (rank == 0)
        printf("group: as it should be on %d ranks\n", size);
}

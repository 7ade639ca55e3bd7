/*
 * test_denied.c: functions that are made of several ops, long lists, hooks and writes in place have
 * each request for memory denied in turn, on their way there and back. Ops alone are denied theirs
 * in test_ops.c.
 */
#include "regard.h"
#include "tests/in_turn.h"
#include "tests/test.h"

/* Returns a leaf with numbers from 0.1 on, which lie in memory with gaps. */
static rg_tensor *leaf_of(rg_dims shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++)
        n *= shape.v[d];
    rg_tensor *twice = rg_arange(2 * n);
    rg_tensor *x = rg_div(rg_add(rg_to(twice, RG_FLOAT32), 1), (double)(10 * n));
    rg_tensor *pairs = rg_reshape(x, n, 2);
    rg_tensor *part = rg_reshape_dims(rg_clone(rg_select(pairs, 1, 0)), shape);
    rg_tensor *leaf = part ? rg_requires_grad_(part, true) : NULL;
    return leaf && shape.n > 1 ? rg_transpose(leaf, 0, 1) : leaf;
}

static rg_tensor *whole_of(rg_dims shape) { return rg_zeros_dims(shape, RG_INT64); }

#define X(...) leaf_of(RG_DIMS(__VA_ARGS__))
#define I(...) whole_of(RG_DIMS(__VA_ARGS__))

static bool and_back(rg_tensor *y) {
    if (!y || !rg_requires_grad(y))
        return y && rg_error_code() == RG_OK;
    return rg_backward(rg_sum(y), .retain_graph = true)
           && rg_backward(rg_sum(rg_mul(y, y)), .create_graph = true);
}

static rg_tensor *halved(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 0.5);
}

static rg_tensor *with_hook(rg_tensor *x) {
    return x && rg_register_hook(x, halved, NULL) >= 0 ? rg_mul(x, 2) : NULL;
}

/* Returns a list of n views of x. */
static rg_list many(rg_tensor *x, int n) {
    static rg_tensor *v[400];
    for (int i = 0; i < n; i++) {
        v[i] = x ? rg_select(x, 0, i % 2) : NULL;
        if (!v[i])
            return (rg_list){ -1, NULL };
    }
    return (rg_list){ n, v };
}

#define CALL(name, call) \
    static bool call_##name(void) { return and_back(call); }
#define CALLS(F)                                                                                   \
    F(einsum, rg_einsum("ij,jk->ik", X(2, 3), X(4, 2)))                                            \
    F(einsum_three, rg_einsum("ij,jk,kl->l", X(3, 2), X(2, 3), X(3, 2)))                           \
    F(einsum_diagonal, rg_einsum("ii,i->i", X(3, 3), X(3)))                                        \
    F(einsum_sums, rg_einsum("ijk,lm->j", X(2, 3, 2), X(2, 2)))                                    \
    F(tensordot, rg_tensordot(X(2, 3), X(4, 2), 1))                                                \
    F(kron, rg_kron(X(2, 3), X(2, 2)))                                                             \
    F(cdist, rg_cdist(X(2, 3), X(2, 4), .p = 1))                                                   \
    F(quantile, rg_quantile(X(2, 3), 0.3, .dim = 1))                                               \
    F(median, rg_median_dim(X(2, 3), 1, false).values)                                             \
    F(kthvalue, rg_kthvalue(X(2, 3), 2, 1, false).values)                                          \
    F(topk, rg_topk(X(2, 3), 1, 1, true, true).values)                                             \
    F(sort, rg_sort(X(2, 3), 1, true).values)                                                      \
    F(logsumexp, rg_logsumexp(X(2, 3), 1, false))                                                  \
    F(cumprod, rg_cumprod(X(2, 3), 1))                                                             \
    F(logcumsumexp, rg_logcumsumexp(X(2, 3), 1))                                                   \
    F(prod, rg_prod(X(2, 3)))                                                                      \
    F(var, rg_var(X(2, 3)))                                                                        \
    F(long_cat, rg_cat(many(X(3, 2), 150), 0))                                                     \
    F(long_stack, rg_stack(many(X(3, 2), 150), 0))                                                 \
    F(diag, rg_diag(X(3), 1))                                                                      \
    F(diag_of_matrix, rg_diag(X(3, 3), 1))                                                         \
    F(trace, rg_trace(X(3, 3)))                                                                    \
    F(roll, rg_roll(X(2, 3), 1, 1))                                                                \
    F(repeat, rg_repeat_interleave(X(2, 3), 2, .dim = 1))                                          \
    F(gather, rg_gather(X(2, 3), 1, I(3, 2)))                                                      \
    F(take, rg_take(X(2, 3), I(4)))                                                                \
    F(take_along, rg_take_along_dim(X(2, 3), I(3, 2), 1))                                          \
    F(index_select, rg_index_select(X(2, 3), 1, I(4)))                                             \
    F(index_add, rg_index_add(X(2, 3), 0, I(2), X(2, 2), 2))                                       \
    F(index_copy, rg_index_copy(X(2, 3), 0, I(1), X(2, 1)))                                        \
    F(index_fill, rg_index_fill(X(2, 3), 0, I(1), rg_scalar(2)))                                   \
    F(scatter, rg_scatter(X(2, 3), 0, I(3, 2), X(2, 3)))                                           \
    F(masked_fill, rg_masked_fill(X(2, 3), rg_gt(X(2, 3), 0.2), 1))                                \
    F(embedding, rg_embedding(I(2, 2), X(2, 3), .padding_idx = 1))                                 \
    F(conv1d, rg_conv1d(X(2, 2, 5), X(2, 3, 2), X(3), .padding = 1))                               \
    F(conv2d, rg_conv2d(X(2, 1, 4, 4), X(2, 3, 2, 2), X(3)))                                       \
    F(max_pool, rg_max_pool2d(X(2, 1, 4, 4), 2))                                                   \
    F(avg_pool, rg_avg_pool2d(X(2, 1, 4, 4), 2))                                                   \
    F(adaptive, rg_adaptive_avg_pool2d(X(2, 1, 4, 4), 3))                                          \
    F(glu, rg_glu(X(4, 3), 1))                                                                     \
    F(prelu, rg_prelu(X(2, 3), X(2)))                                                              \
    F(layer_norm, rg_layer_norm(X(4, 3), RG_DIMS(4), X(4), X(4), 1e-5))                            \
    F(group_norm, rg_group_norm(X(4, 3), 2, X(4), X(4), 1e-5))                                     \
    F(batch_norm, rg_batch_norm(X(4, 3), RG_NONE, RG_NONE, .training = true, .weight = X(4)))      \
    F(attention, rg_scaled_dot_product_attention(X(2, 1, 3, 4), X(2, 1, 3, 4), X(2, 1, 3, 4)))     \
    F(attention_of_groups,                                                                         \
      rg_scaled_dot_product_attention(X(4, 1, 3, 4), X(2, 1, 3, 4), X(2, 1, 3, 4),                 \
                                      .enable_gqa = true, .is_causal = true))                      \
    F(attention_masked,                                                                            \
      rg_scaled_dot_product_attention(X(2, 1, 3, 4), X(2, 1, 3, 4), X(2, 1, 3, 4),                 \
                                      .attn_mask = rg_ones_dims(RG_DIMS(3, 3), RG_BOOL)))          \
    F(cross_entropy, rg_cross_entropy(X(4, 3), I(3), .weight = rg_ones(4), .label_smoothing = .1)) \
    F(cross_entropy_of_shares, rg_cross_entropy(X(4, 3), rg_detach(X(4, 3))))                      \
    F(nll, rg_nll_loss(X(4, 3), I(3), .weight = rg_ones(4)))                                       \
    F(nll_of_places, rg_nll_loss(X(4, 3, 2), I(3, 2)))                                             \
    F(bce, rg_binary_cross_entropy(X(2, 3), rg_detach(X(2, 3)), .weight = rg_ones(2)))             \
    F(bce_logits, rg_binary_cross_entropy_with_logits(X(2, 3), rg_detach(X(2, 3))))                \
    F(kl, rg_kl_div(X(2, 3), rg_detach(X(2, 3)), .reduction = RG_SUM))                             \
    F(smooth, rg_smooth_l1_loss(X(2, 3), rg_detach(X(2, 3))))                                      \
    F(huber, rg_huber_loss(X(2, 3), rg_detach(X(2, 3))))                                           \
    F(mse, rg_mse_loss(X(2, 3), X(2, 3), .weight = rg_ones(3, 2)))                                 \
    F(triplet, rg_triplet_margin_loss(X(2, 3), X(2, 3), X(2, 3), .swap = true))                    \
    F(cosine, rg_cosine_similarity(X(2, 3), X(2, 3), 1, 1e-8))                                     \
    F(addmm, rg_addmm(X(4), X(3, 2), X(4, 3), 2, 3))                                               \
    F(baddbmm, rg_baddbmm(X(4), X(3, 2, 2), X(2, 2, 4), 2, 3))                                     \
    F(hooked, with_hook(X(2, 3)))                                                                  \
    F(half_float, rg_mul(rg_to(X(2, 3), RG_FLOAT64), rg_to(X(2, 3), RG_FLOAT32)))                  \
    F(written, rg_mul_(rg_mul(X(2, 3), 1), rg_to(X(2, 3), RG_FLOAT64)))                            \
    F(written_view, rg_mul_(rg_select(rg_mul(X(2, 3), 1), 0, 1), X(2)))                            \
    F(subscript, rg_index(X(2, 3), "1:, ::2"))
CALLS(CALL)

START_TEST(test_denied_in_turn) {
    static const struct {
        const char *name;
        bool (*call)(void);
    } calls[] = {
#define ROW(name, call) { #name, call_##name },
        CALLS(ROW)
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool ok;
        rg_error_clear();
        {
            RG_SCOPE();
            ok = calls[i].call();
        }
        ck_assert_msg(ok, "%s: %s", calls[i].name, rg_error());
        deny_in_turn(calls[i].call, NULL);
    }
}
END_TEST

RG_TESTS(denied, test_denied_in_turn)

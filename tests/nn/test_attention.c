/* test_attention.c: SelfAttention, MultiheadAttention and positions compute what PyTorch's do, and
 * refuse what PyTorch refuses. */
#define TWIN_DATA "attention"
#include "twin.h"
#include "tensor/storage.h"
#include "tensor/shape.h"

static const rg_dtype dtypes[] = { RG_FLOAT64, RG_FLOAT32 };

/* ---- SelfAttention --------------------------------------------------------------- */

START_TEST(test_self_attention) {
    rg_set_default_dtype(RG_FLOAT64);
    for (int d = 0; d < 2; d++) {
        rg_manual_seed(1);
        rg_self_attention *m = rg_nn_self_attention(3, 2, 4);
        rg_module_to(m, dtypes[d]);
        twin_keys("self", m);
        rg_manual_seed(2);
        rg_tensor *x = twin_drawn(RG_DIMS(6, 3), dtypes[d]), *y = rg_call(m, x);
        twin_compare("self", dtypes[d], m, 1, &x, 1, &y);
        rg_manual_seed(2);
        x = twin_drawn(RG_DIMS(2, 5, 3), dtypes[d]);
        y = rg_call(m, x);
        twin_compare("self_batched", dtypes[d], m, 1, &x, 1, &y);
        ck_assert(rg_allclose(rg_sum_dim(rg_self_attention_weights(m, x), -1, false),
                              rg_ones_dims(RG_DIMS(2, 5), dtypes[d]), 1e-6, 0));
        rg_module_free(m);
    }
}
END_TEST

/* ---- MultiheadAttention: the cases of transformer.py ----------------------------- */

typedef struct {
    const char *name;
    rg_multihead_attention_options how;
    /* `attn` and `padding` have the kinds of the masks: b for bool, f for floats, and c for causal.
     * The digit in `attn` is the number of that mask's dims. */
    const char *attn, *padding;
    /* `fast` asks for no weights, and `each` asks for the weights of each head. */
    bool cross, train, fast, each, causal;
} multihead_case;

#define HOW(...) \
    { .bias = true, __VA_ARGS__ }
#define CASE(name_, how_, ...) \
    { .name = name_, .how = how_, __VA_ARGS__ }
#pragma GCC diagnostic ignored "-Woverride-init"
static const multihead_case multiheads[] = {
    CASE("plain", HOW(), ),
    CASE("plain_fast", HOW(), .fast = true),
    CASE("each_head", HOW(), .each = true),
    CASE("no_bias", HOW(.bias = false), .fast = true),
    CASE("batch_first", HOW(.batch_first = true), ),
    CASE("cross", HOW(), .cross = true),
    CASE("dims", HOW(.kdim = 5, .vdim = 6), .cross = true),
    CASE("dims_fast", HOW(.kdim = 5, .vdim = 6, .batch_first = true, .bias = false), .cross = true,
         .fast = true),
    CASE("bool2", HOW(), .attn = "b2"),
    CASE("bool3", HOW(), .attn = "b3", .fast = true),
    CASE("float2", HOW(), .attn = "f2", .cross = true, .fast = true),
    CASE("float3", HOW(), .attn = "f3"),
    CASE("padding", HOW(), .padding = "b"),
    CASE("padding_fast", HOW(.batch_first = true), .padding = "f", .cross = true, .fast = true),
    CASE("both", HOW(), .attn = "b3", .padding = "b"),
    CASE("both_fast", HOW(), .attn = "f2", .padding = "f", .fast = true),
    CASE("causal", HOW(), .attn = "c2", .causal = true),
    CASE("causal_fast", HOW(), .attn = "c2", .causal = true, .fast = true),
    CASE("causal_padding", HOW(), .attn = "c2", .padding = "b", .causal = true, .fast = true),
    CASE("extra", HOW(.add_bias_kv = true, .add_zero_attn = true), .attn = "b2", .padding = "b",
         .cross = true),
    CASE("extra_fast", HOW(.add_bias_kv = true, .add_zero_attn = true), .attn = "f3", .fast = true),
    CASE("dropout", HOW(.dropout = 0.3), .train = true),
    CASE("dropout_fast", HOW(.dropout = 0.3, .batch_first = true), .train = true, .fast = true),
};

static rg_tensor *attn_mask(const multihead_case *c, int64_t keys, rg_dtype dtype) {
    if (!c->attn)
        return RG_NONE;
    if (*c->attn == 'c')
        return rg_to(rg_generate_square_subsequent_mask(3), dtype);
    rg_dims shape = c->attn[1] == '2' ? RG_DIMS(3, keys) : RG_DIMS(4, 3, keys);
    if (*c->attn == 'f')
        return rg_to(rg_randn_dims(shape, RG_FLOAT64, rg_default_generator()), dtype);
    rg_tensor *mask = rg_lt(rg_rand_dims(shape, RG_FLOAT64, rg_default_generator()), 0.4);
    return rg_set_item_(mask, (bool)false, "...", 0);
}

static rg_tensor *padding_mask(const multihead_case *c, int64_t keys, rg_dtype dtype) {
    if (!c->padding)
        return RG_NONE;
    if (*c->padding == 'f')
        return rg_to(rg_randn_dims(RG_DIMS(2, keys), RG_FLOAT64, rg_default_generator()), dtype);
    return rg_set_item_(rg_zeros_dims(RG_DIMS(2, keys), RG_BOOL), (bool)true, 1, -1);
}

/* Draws query, key and value as torch's script does, and returns how many tensors they are. */
static int sides(const multihead_case *c, rg_dtype dtype, rg_tensor *x[3]) {
    const int64_t length[] = { 3, 5, 5 },
                  dim[] = { 4, c->how.kdim ? c->how.kdim : 4, c->how.vdim ? c->how.vdim : 4 };
    rg_manual_seed(2);
    for (int i = 0; i < 3; i++) {
        if (i && !c->cross)
            x[i] = x[0];
        else
            x[i] = twin_drawn(c->how.batch_first ? RG_DIMS(2, length[i], dim[i])
                                                 : RG_DIMS(length[i], 2, dim[i]),
                              dtype);
    }
    rg_manual_seed(5);
    return c->cross ? 3 : 1;
}

START_TEST(test_multihead_attention) {
    rg_set_default_dtype(RG_FLOAT64);
    for (size_t i = 0; i < 2 * sizeof multiheads / sizeof *multiheads; i++) {
        RG_SCOPE();
        const multihead_case *c = &multiheads[i / 2];
        rg_dtype dtype = dtypes[i % 2];
        rg_tensor *x[3];
        rg_manual_seed(1);
        rg_multihead_attention *m = rg_nn_multihead_attention_with(4, 2, c->how);
        twin_keys(c->name, m);
        rg_module_to(m, dtype);
        rg_train(m, c->train);
        int n = sides(c, dtype, x);
        rg_tensor *mask = attn_mask(c, c->cross ? 5 : 3, dtype),
                  *padding = padding_mask(c, c->cross ? 5 : 3, dtype);
        rg_manual_seed(3);
        rg_attended a = rg_multihead_attention_forward(
            m, x[0], x[1], x[2], .key_padding_mask = padding, .attn_mask = mask,
            .need_weights = !c->fast, .average_attn_weights = !c->each, .is_causal = c->causal);
        ck_assert_msg(a.output && (a.weights == RG_NONE) == c->fast, "%s: %s", c->name, rg_error());
        twin_compare(c->name, dtype, m, n, x, c->fast ? 1 : 2,
                     (rg_tensor *[]){ a.output, a.weights });
        rg_module_free(m);
    }
}
END_TEST

START_TEST(test_unbatched) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2);
    rg_manual_seed(2);
    rg_tensor *x = twin_drawn(RG_DIMS(3, 4), RG_FLOAT64),
              *padding = rg_parse("[False, False, True]");
    rg_eval(m);
    rg_attended a = rg_multihead_attention_forward(m, x, x, x, .key_padding_mask = padding);
    twin_compare("unbatched", RG_FLOAT64, m, 1, &x, 2, (rg_tensor *[]){ a.output, a.weights });
    ck_assert(rg_allclose(rg_call(m, x), rg_multihead_attention_forward(m, x, x, x).output, 1e-12,
                          1e-12));
    rg_tensor *k = rg_rand(5, 4), *v = rg_rand(5, 4);
    ck_assert(rg_allclose(rg_call(m, x, k, v), rg_multihead_attention_forward(m, x, k, v).output,
                          1e-12, 1e-12));
    rg_module_free(m);
}
END_TEST

/* If two of query, key and value are one tensor, the result is that of separate tensors. */
START_TEST(test_the_same_query_and_key) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2);
    rg_tensor *x = rg_randn(3, 2, 4), *v = rg_randn(3, 2, 4);
    for (int other = 0; other < 3; other++) {
        rg_tensor *in[] = { x, x, x };
        in[other] = v;
        rg_tensor *y = rg_call(m, in[0], in[1], in[2]);
        rg_tensor *apart = rg_call(m, rg_clone(in[0]), rg_clone(in[1]), rg_clone(in[2]));
        ck_assert(rg_allclose(y, apart, 1e-12, 1e-12));
    }
    rg_module_free(m);
}
END_TEST

static int looks;
static rg_tensor *looks_on(rg_tensor *x, const char *name, void *context) {
    (void)x;
    (void)name;
    (void)context;
    looks++;
    return RG_NONE;
}

/* Attention is one op while no hook looks inside it, even if a hook looks at another layer. If the
 * weights are asked for, attention is several ops, but computes no tensor that only a hook would
 * use. */
START_TEST(test_what_is_not_looked_at) {
    rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3);
    rg_tensor *x = rg_randn(3, 2, 4);
    rg_eval(m);
    rg_tensor *y = rg_call(m, x);
    {
        RG_HOOKS(m, RG_HOOKS_AT({ "linear1", looks_on, NULL }));
        ck_assert(rg_equal(rg_call(m, x), y) && looks == 1);
    }
    const bool before = rg_set_profiling(true);
    const int64_t whole = rg_profile_cost("attention").calls,
                  products = rg_profile_cost("linear").calls;
    ck_ok(rg_call(m->self_attn, x));
    ck_assert_int_eq(rg_profile_cost("attention").calls, whole + 1);
    /* One call of linear computes query, key and value together. The second call is the projection
     * of the output. */
    ck_assert_int_eq(rg_profile_cost("linear").calls, products + 2);
    const int64_t turns = rg_profile_cost("transpose").calls, pads = rg_profile_cost("pad").calls;
    ck_ok(rg_multihead_attention_forward(m->self_attn, x, x, x, .attn_mask = rg_zeros(3, 3),
                                         .key_padding_mask = rg_zeros(2, 3))
              .weights);
    /* Only the keys are transposed, and no mask is padded. */
    ck_assert_int_eq(rg_profile_cost("transpose").calls, turns + 1);
    ck_assert_int_eq(rg_profile_cost("pad").calls, pads);
    rg_set_profiling(before);
    rg_module_free(m);
}
END_TEST

static rg_tensor *spoils_weights(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    (void)context;
    rg_multihead_keywords *k = rg_keywords_of_call(m);
    k->weights = rg_matmul(y, rg_ones(77, 77));
    return RG_NONE;
}

static rg_tensor *spoils_output(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)context;
    return rg_matmul(y, rg_ones(77, 77));
}

/* As in torch, a negative dropout drops nothing if the weights are asked for. */
START_TEST(test_negative_dropout) {
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2, .dropout = -0.5);
    rg_tensor *x = rg_randn(3, 2, 4);
    rg_attended a = rg_multihead_attention_forward(m, x, x, x, .need_weights = true);
    ck_ok(a.output);
    rg_eval(m);
    rg_attended b = rg_multihead_attention_forward(m, x, x, x, .need_weights = true);
    ck_assert(rg_equal(a.output, b.output) && rg_equal(a.weights, b.weights));
    rg_module_free(m);
}
END_TEST

/* In calls with a cache, the inputs come piece by piece, and each query sees the keys up to its own
 * position. Once the cache is complete, each query sees all keys in the cache, and the arguments
 * key and value aren't read. The results are the same with and without weights. */
START_TEST(test_cache) {
    static const int sizes[][4] = { { 1, 2, 2 }, { 2, 1, 2 }, { 3, 2 }, { 5 }, { 1, 1, 1, 2 } };
    rg_set_default_dtype(RG_FLOAT64);
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2);
    rg_tensor *x = rg_randn(5, 2, 4);
    rg_tensor *whole = rg_multihead_attention_forward(
                           m, x, x, x, .attn_mask = rg_generate_square_subsequent_mask(5))
                           .output;
    rg_tensor *all = rg_call(m, x);
    for (int i = 0; i < 10; i++) {
        RG_SCOPE();
        rg_attention_cache seen = { rg_zeros(2, 2, 5, 2), rg_zeros(2, 2, 5, 2), 0, false };
        for (int at = 0, k = 0; at < 5; at += sizes[i / 2][k++]) {
            const int n = sizes[i / 2][k];
            rg_tensor *part = rg_narrow(x, 0, at, n);
            rg_tensor *y = rg_multihead_attention_forward(m, part, part, part, .cache = &seen,
                                                          .need_weights = i % 2)
                               .output;
            ck_ok(y && seen.length == at + n);
            ck_assert(rg_allclose(y, rg_narrow(whole, 0, at, n), 1e-12, 1e-12));
        }
        seen.complete = true;
        rg_tensor *y = rg_multihead_attention_forward(m, x, rg_zeros(7, 1, 9), rg_zeros(3, 2, 1),
                                                      .cache = &seen, .need_weights = i % 2)
                           .output;
        ck_ok(y && seen.length == 5);
        ck_assert(rg_allclose(y, all, 1e-12, 1e-12));
    }
    rg_module_free(m);
}
END_TEST

/* If a hook fails to replace the output or the weights, the call returns neither of them. */
START_TEST(test_hooks_that_fail) {
    rg_forward_hook *const hooks[] = { spoils_output, spoils_weights };
    for (int i = 0; i < 2; i++) {
        rg_multihead_attention *m = rg_nn_multihead_attention(4, 2);
        rg_tensor *x = rg_randn(3, 2, 4);
        ck_assert(rg_register_forward_hook(&m->base, hooks[i], NULL) >= 0);
        const rg_attended a = rg_multihead_attention_forward(m, x, x, x);
        ck_assert(!a.output && !a.weights && rg_error_code() == RG_RUNTIME_ERROR);
        rg_error_clear();
        rg_module_free(m);
    }
}
END_TEST

START_TEST(test_positions) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_positions *made[] = { rg_nn_sinusoidal_positions(20, 4),
                             rg_nn_rotary_positions(20, 4, 10000), NULL };
    const char *names[] = { "sinusoidal", "rotary", "learned" };
    rg_manual_seed(1);
    made[2] = rg_nn_learned_positions(20, 4);
    rg_manual_seed(2);
    rg_tensor *x = twin_drawn(RG_DIMS(2, 6, 4), RG_FLOAT64);
    for (int i = 0; i < 3; i++) {
        rg_tensor *y = rg_positions_forward(made[i], x, 3);
        twin_near(names[i], ".y", RG_FLOAT64, 1, &y);
        ck_assert(rg_equal(rg_call(made[i], x), rg_positions_forward(made[i], x, 0)));
        ck_fails(rg_positions_forward(made[i], x, 15), RG_RUNTIME_ERROR,
                 "exceeds dimension size (20)");
        ck_fails(rg_positions_forward(made[i], rg_zeros(1, 4), -1), RG_RUNTIME_ERROR,
                 "positions_forward: the position -1 is negative");
        ck_fails(rg_positions_forward(made[i], rg_zeros(3), 0), RG_RUNTIME_ERROR,
                 "(..., length, dim)");
        /* An x of width 1 isn't broadcast. */
        ck_fails(rg_call(made[i], rg_zeros(3, 1)), RG_RUNTIME_ERROR,
                 "positions_forward: expected x of (..., length, 4), but got torch.Size([3, 1])");
        ck_fails(rg_call(made[i], rg_zeros(3, 7)), RG_RUNTIME_ERROR,
                 "positions_forward: expected x of (..., length, 4), but got torch.Size([3, 7])");
        rg_module_free(made[i]);
    }
    rg_positions *narrow = rg_nn_sinusoidal_positions(5, 1);
    ck_fails(rg_call(narrow, rg_zeros(3, 4)), RG_RUNTIME_ERROR, "expected x of (..., length, 1)");
    rg_module_free(narrow);
    const double bases[] = { 0, -1, INFINITY, NAN };
    for (int i = 0; i < 4; i++)
        ck_fails(rg_nn_rotary_positions(4, 2, bases[i]), RG_VALUE_ERROR,
                 "RotaryPositions: base must be positive and finite, but got");
}
END_TEST

/* transformers computes these frequencies for a config of Llama 3, and with linear scaling. */
START_TEST(test_frequencies) {
    const double llama[] = { 1,
                             0.193922758,
                             0.0376060307,
                             0.00729266508,
                             0.000524846022,
                             3.42810235e-05,
                             6.64786967e-06,
                             1.28917316e-06 };
    const double linear[] = { 0.125, 0.0242403448, 0.00470075384, 0.000911583134 };
    rg_tensor *f = rg_rotary_frequencies(16, .base = 500000, .factor = 8,
                                         .original_max_position_embeddings = 8192);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq_tol(rg_item(rg_select(f, 0, i)) / llama[i], 1, 5e-7);
    f = rg_rotary_frequencies(16, .base = 500000, .factor = 8);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(rg_item(rg_select(f, 0, i)) / linear[i], 1, 5e-7);
}
END_TEST

/* ---- derivatives ----------------------------------------------------------------- */

static rg_tensor *call(rg_tensor *const in[], void *m) { return rg_call(m, in[0]); }

static rg_tensor *with_everything(rg_tensor *const in[], void *m) {
    /* Dropout must be the same in each call. */
    rg_manual_seed(9);
    rg_attended a = rg_multihead_attention_forward(
        m, in[0], in[0], in[0], .attn_mask = rg_generate_square_subsequent_mask(3));
    return rg_cat(RG_LIST(rg_flatten(a.output, 0, -1), rg_flatten(a.weights, 0, -1)), 0);
}

START_TEST(test_second_order) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    void *modules[] = { rg_nn_self_attention(3, 2, 4),
                        rg_nn_multihead_attention(4, 2, .batch_first = true),
                        rg_nn_multihead_attention(4, 2, .dropout = 0.2, .add_bias_kv = false),
                        rg_nn_learned_positions(5, 4), rg_nn_rotary_positions(5, 4, 100) };
    for (int i = 0; i < 5; i++) {
        RG_SCOPE();
        rg_tensor *x = twin_drawn(i ? RG_DIMS(3, 2, 4) : RG_DIMS(4, 3), RG_FLOAT64);
        twin_gradcheck(i == 2 ? with_everything : call, modules[i], x);
        rg_module_free(modules[i]);
    }
}
END_TEST

/* ---- what is refused ------------------------------------------------------------- */

#define REFUSED(text, q, k, v, ...) \
    ck_fails(rg_multihead_attention_forward(m, q, k, v, __VA_ARGS__).output, RG_RUNTIME_ERROR, text)

START_TEST(test_bad_arguments) {
    rg_multihead_attention *m = rg_nn_multihead_attention(8, 2),
                           *other = rg_nn_multihead_attention(8, 2, .kdim = 5, .vdim = 6);
    rg_multihead_attention *with_zero = rg_nn_multihead_attention(8, 2, .add_zero_attn = true);
    rg_tensor *q = rg_randn(3, 2, 8), *k = rg_randn(4, 2, 8), *one = rg_randn(3, 8);
    REFUSED("query should be unbatched 2D or batched 3D tensor but received 1-D query tensor",
            rg_zeros(8), q, q, .need_weights = true);
    REFUSED("For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 3-D",
            q, one, q, .need_weights = true);
    REFUSED(
        "For unbatched (2-D) `query`, expected `key_padding_mask` to be `None` or 1-D but found "
        "2-D tensor instead",
        one, one, one, .key_padding_mask = rg_zeros(1, 3));
    REFUSED("expected `attn_mask` to be `None`, 2-D or 3-D but found 4-D", q, q, q,
            .attn_mask = rg_zeros(1, 1, 3, 3));
    REFUSED("The shape of the 3D attn_mask is torch.Size([1, 3, 4]), but should be (2, 3, 3).", one,
            one, one, .attn_mask = rg_zeros(1, 3, 4));
    ck_fails(rg_multihead_attention_forward(with_zero, q, q, q, .key_padding_mask = rg_zeros(2, 4))
                 .output,
             RG_RUNTIME_ERROR, "Expected key_padded_mask.shape[1] to be 4, but got 5");
    REFUSED("The shape of the 2D attn_mask is torch.Size([3, 4]), but should be (3, 3).", q, q, q,
            .attn_mask = rg_zeros(3, 4));
    REFUSED("The shape of the 3D attn_mask is torch.Size([2, 3, 4]), but should be (4, 3, 3).", q,
            q, q, .attn_mask = rg_zeros(2, 3, 4));
    REFUSED("Expected key_padded_mask.shape[0] to be 2, but got 3", q, q, q,
            .key_padding_mask = rg_zeros(3, 3));
    REFUSED("Expected key_padded_mask.shape[1] to be 3, but got 4", q, q, q,
            .key_padding_mask = rg_zeros(2, 4));
    /* If both masks are wrong, the error is about attn_mask. */
    REFUSED("The shape of the 2D attn_mask is torch.Size([3, 4]), but should be (3, 3).", q, q, q,
            .attn_mask = rg_zeros(3, 4), .key_padding_mask = rg_zeros(3, 3));
    REFUSED("only bool and floating types of attn_mask are supported", q, q, q,
            .attn_mask = rg_long(rg_zeros(3, 3)));
    REFUSED("only bool and floating types of key_padding_mask are supported", q, q, q,
            .key_padding_mask = rg_long(rg_zeros(2, 3)));
    REFUSED("Need attn_mask if specifying the is_causal hint.", q, q, q, .is_causal = true);
    REFUSED("was expecting embedding dimension of 8, but got 7", rg_zeros(3, 2, 7), q, q,
            .need_weights = true);
    REFUSED("key shape torch.Size([4, 2, 8]) does not match value shape torch.Size([3, 2, 8])", q,
            k, q, .need_weights = true);
    REFUSED("shape '[4, 4, 4]' is invalid for input of size 32", q, rg_zeros(4, 1, 8),
            rg_zeros(4, 1, 8), .need_weights = true);
    REFUSED("mat1 and mat2 shapes cannot be multiplied (4x2x7 and 8x8)", q, rg_zeros(4, 2, 7),
            rg_zeros(4, 2, 7), .need_weights = true);
    rg_multihead_attention *same = m;
    m = other;
    REFUSED(
        "key's sequence and batch dims torch.Size([4, 2]) do not match value's torch.Size([3, 2])",
        q, rg_zeros(4, 2, 5), rg_zeros(3, 2, 6), .need_weights = true);
    REFUSED(
        "key's sequence and batch dims torch.Size([4, 2]) do not match value's torch.Size([4, 3])",
        q, rg_zeros(4, 2, 5), rg_zeros(4, 3, 6), .need_weights = true);
    rg_tensor *wide = rg_zeros(3, 2, 8);
    REFUSED("mat1 and mat2 shapes cannot be multiplied (3x2x8 and ", wide, wide, wide,
            .need_weights = true);
    m = same;
    /* The shapes in these errors begin with the length, although the inputs begin with the
     * batch. */
    rg_multihead_attention *turned[] = { rg_nn_multihead_attention(8, 2, .batch_first = true),
                                         rg_nn_multihead_attention(8, 2, .kdim = 1, .vdim = 1,
                                                                   .batch_first = true) };
    rg_tensor *q2 = rg_zeros(2, 3, 8);
    ck_fails(
        rg_multihead_attention_forward(turned[0], q2, rg_zeros(2, 4, 8), rg_zeros(2, 5, 8)).output,
        RG_RUNTIME_ERROR,
        "key shape torch.Size([4, 2, 8]) does not match value shape torch.Size([5, 2, 8])");
    ck_fails(
        rg_multihead_attention_forward(turned[1], q2, rg_zeros(2, 4, 1), rg_zeros(2, 7, 1)).output,
        RG_RUNTIME_ERROR,
        "sequence and batch dims torch.Size([4, 2]) do not match value's torch.Size([7, 2])");
    rg_module_free(turned[0]);
    rg_module_free(turned[1]);
    rg_error_clear();
    ck_assert(!rg_multihead_attention_forward(NULL, q, q, q).output
              && !rg_multihead_attention_forward(m, q, NULL, q).output
              && !rg_multihead_attention_forward(m, q, q, q, .attn_mask = NULL).output
              && !rg_self_attention_weights(NULL, q) && !rg_positions_forward(NULL, q, 0));
    for (int which = 0; which < 3; which++) {
        rg_tensor *in[] = { q, q, q };
        in[which] = RG_NONE;
        rg_error_clear();
        ck_fails(rg_multihead_attention_forward(m, in[0], in[1], in[2]).output, RG_TYPE_ERROR,
                 "multihead_attention: expected a tensor but got RG_NONE");
    }
    ck_assert(!rg_call(m, RG_NONE));
    rg_module_free(m);
    rg_module_free(with_zero);
    rg_module_free(other);

    ck_assert(!rg_nn_multihead_attention(INT64_MAX, 1)
              && !rg_nn_multihead_attention(INT64_MAX / 2, 1));
    ck_assert(!rg_nn_self_attention(-1, 2, 3) && !rg_nn_self_attention(INT64_MAX, INT64_MAX, 3));
    ck_assert(!rg_nn_learned_positions(-1, 3) && !rg_nn_sinusoidal_positions(3, -1)
              && !rg_nn_rotary_positions(INT64_MAX, 2, 1));
    m = rg_nn_multihead_attention(8, 2, .dropout = 2);
    ck_fails(rg_call(m, q), RG_VALUE_ERROR,
             "dropout probability has to be between 0 and 1, but got 2.0");
    rg_module_free(m);
}
END_TEST

static bool use(void) {
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2, .add_bias_kv = true,
                                                          .add_zero_attn = true);
    rg_self_attention *s = rg_nn_self_attention(4, 2, 4);
    rg_positions *p[] = { rg_nn_learned_positions(3, 4), rg_nn_sinusoidal_positions(3, 4),
                          rg_nn_rotary_positions(3, 4, 10000) };
    rg_tensor *x = rg_ones(2, 3, 4), *mask = rg_zeros_dims(RG_DIMS(2, 3), RG_BOOL);
    for (int i = 0; i < 3; i++)
        x = p[i] ? rg_call(p[i], x) : NULL;
    x = rg_transpose(rg_call(s, x), 0, 1);
    rg_attended a = rg_multihead_attention_forward(m, x, x, x, .key_padding_mask = mask);
    bool ok = rg_backward(rg_sum(a.output));
    for (int i = 0; i < 3; i++)
        rg_module_free(p[i]);
    rg_module_free(s);
    rg_module_free(m);
    return ok;
}

static rg_multihead_attention *denied;
static rg_tensor *denied_x, *denied_mask, *denied_padding;

/* Both masks are converted to floats, and get columns for add_bias_kv and add_zero_attn. */
static bool attends_masked(void) {
    rg_tensor *x = denied_x;
    return rg_multihead_attention_forward(denied, x, x, x, .attn_mask = denied_mask,
                                          .key_padding_mask = denied_padding)
        .output;
}

static bool attends_without_batch(void) {
    rg_tensor *x = rg_select(denied_x, 1, 0), *padding = rg_select(denied_padding, 0, 0);
    return rg_multihead_attention_forward(denied, x, x, x, .key_padding_mask = padding,
                                          .average_attn_weights = true)
        .weights;
}

static bool attends_from_cache(void) {
    rg_attention_cache seen = { rg_zeros(2, 2, 5, 2), rg_zeros(2, 2, 5, 2), 0, false };
    rg_tensor *x = denied_x, *first = rg_narrow(denied_mask, 0, 0, 2);
    rg_tensor *y = rg_multihead_attention_forward(denied, x, x, x, .attn_mask = denied_mask,
                                                  .key_padding_mask = denied_padding,
                                                  .cache = &seen)
                       .output;
    x = rg_narrow(denied_x, 0, 0, 2);
    return y && first && seen.length == 3
           && rg_multihead_attention_forward(denied, x, x, x, .cache = &seen).weights;
}

/* One tensor is both key and value, and the query is another. So the query and the keys are
 * projected separately. */
static bool attends_to_others(void) {
    rg_tensor *x = denied_x, *k = rg_narrow(denied_x, 0, 0, 2);
    return k
           && rg_multihead_attention_forward(denied, x, k, k, .key_padding_mask = rg_zeros(2, 2))
                  .output;
}

/* A call that is asked for weights returns no output if it can't return the weights. */
static bool attends_by_call(void) {
    rg_multihead_keywords k = { .options = { .key_padding_mask = RG_NONE,
                                             .attn_mask = RG_NONE,
                                             .need_weights = true,
                                             .average_attn_weights = true },
                                .weights = RG_NONE };
    rg_tensor *y = rg_call_keywords(denied, &k, denied_x, denied_x, denied_x);
    ck_assert((k.weights == RG_NONE) == !y);
    return y;
}

/* The error message names two shapes, and writing them takes memory. */
static bool refuses_values(void) {
    rg_tensor *k = denied_x, *v = rg_narrow(denied_x, 0, 0, 2);
    const bool packed = denied->in_proj_weight != RG_NONE;
    rg_multihead_attention_forward(denied, k, k, v);
    const char *sentence =
        packed ? "multihead_attention: key shape torch.Size([3, 2, 4]) does not match value shape "
                 "torch.Size([2, 2, 4])"
               : "multihead_attention: key's sequence and batch dims torch.Size([3, 2]) do not "
                 "match value's torch.Size([2, 2])";
    const bool refused = v && !strcmp(rg_error(), sentence);
    if (refused)
        rg_error_clear();
    return refused;
}

START_TEST(test_out_of_memory) {
    twin_out_of_memory(use);
    denied_x = rg_randn(3, 2, 4);
    denied_mask = rg_parse("[[False, True, True], [False, False, True], [False, False, False]]");
    denied_padding = rg_parse("[[False, False, False], [False, False, True]]");
    denied = rg_nn_multihead_attention(4, 2, .add_bias_kv = true, .add_zero_attn = true);
    twin_out_of_memory(attends_masked);
    twin_out_of_memory(attends_without_batch);
    twin_out_of_memory(attends_by_call);
    twin_out_of_memory(attends_to_others);
    rg_module_free(denied);
    for (int apart = 0; apart < 2; apart++) {
        denied = rg_nn_multihead_attention(4, 2, .kdim = apart ? 3 : 0);
        twin_out_of_memory(refuses_values);
        if (!apart) {
            twin_out_of_memory(attends_masked);
            twin_out_of_memory(attends_from_cache);
        }
        rg_module_free(denied);
    }
}
END_TEST

/* If all scores of a row are -infinity, the row becomes 0. If one score is NaN, the whole row
 * becomes NaN, whatever the sign of the NaN. On x86, the NaN of infinity minus infinity has its
 * sign bit set. */
START_TEST(test_nan_scores) {
    static const int64_t counts[] = { 1, 2, 3, 8, 17, 64, 300 };
    for (int form = 0; form < 4 * RG_COUNT(counts); form++) {
        RG_SCOPE();
        const rg_dtype dtype = form & 1 ? RG_FLOAT32 : RG_FLOAT64;
        const double nan = copysign(NAN, form & 2 ? -1 : 1);
        const int64_t n = counts[form / 4];
        rg_tensor *q = rg_ones_dims(RG_DIMS(1, 1, 1, 4), dtype);
        rg_tensor *k = rg_ones_dims(RG_DIMS(1, 1, n, 4), dtype);
        for (int64_t at = -1; at < n; at++) {
            rg_tensor *mask = rg_full_dims(RG_DIMS(n), -INFINITY, dtype);
            if (at >= 0)
                rgi_store_f64(mask->data + at * (int64_t)rgi_sizeof(dtype), dtype, nan);
            rg_tensor *y = rg_scaled_dot_product_attention(q, k, k, .attn_mask = mask);
            const double first = rg_item(rg_max(y));
            ck_assert_msg(at < 0 ? first == 0 : isnan(first), "%f, n = %lld, NaN at %lld", first,
                          (long long)n, (long long)at);
        }
    }
}
END_TEST

/* A NaN in the queries, keys or values of one head reaches no other head, and none of its
 * gradients, though one task computes several heads with the same memory. */
START_TEST(test_nan_of_one_head) {
    static const int64_t counts[] = { 1, 3, 8, 17, 32, 65 }, widths[] = { 4, 16, 64 };
    rg_set_num_threads(1);
    rg_manual_seed(4);
    for (int form = 0; form < 6 * RG_COUNT(counts) * RG_COUNT(widths); form++) {
        RG_SCOPE();
        const rg_dtype dtype = form & 1 ? RG_FLOAT32 : RG_FLOAT64;
        const int64_t n = counts[form / 6 % RG_COUNT(counts)];
        const int64_t wide = widths[form / 6 / RG_COUNT(counts)];
        rg_tensor *in[3];
        for (int i = 0; i < 3; i++)
            in[i] = rg_randn_dims(RG_DIMS(1, 2, n, wide), dtype, rg_default_generator());
        rg_fill_(rg_select(rg_select(in[form / 2 % 3], 1, 0), 1, n - 1), NAN);
        for (int i = 0; i < 3; i++)
            rg_requires_grad_(in[i], true);
        rg_tensor *y = rg_scaled_dot_product_attention(in[0], in[1], in[2], .is_causal = n > 8);
        ck_ok(rg_backward(rg_sum(rg_square(rg_select(y, 1, 1)))));
        ck_assert_msg(rg_item(rg_all(rg_isfinite(rg_select(y, 1, 1)))), "form %d", form);
        for (int i = 0; i < 3; i++) {
            rg_tensor *g = rg_select(rg_grad_of(in[i]), 1, 1);
            ck_assert_msg(rg_item(rg_all(rg_isfinite(g))), "form %d: gradient %d", form, i);
        }
    }
}
END_TEST

/* Gradients in 16 bits are as near to those of float64 as the rounding of y and of the gradients
 * themselves allows, also where the logarithm of the sum of weights is large. */
START_TEST(test_half_gradients_of_large_scores) {
    static const struct {
        rg_dtype dtype;
        double scale, most;
    } rows[] = { { RG_BFLOAT16, 1, 0.02 },  { RG_BFLOAT16, 10, 0.08 },
                 { RG_FLOAT16, 1, 0.003 },  { RG_FLOAT16, 10, 0.01 } };
    for (int i = 0; i < 2 * RG_COUNT(rows); i++) {
        RG_SCOPE();
        rg_manual_seed(6);
        rg_tensor *x = rg_randn_dims(RG_DIMS(1, 16, 48), RG_FLOAT64, rg_default_generator());
        rg_tensor *narrow = rg_to(x, rows[i / 2].dtype), *wide = rg_double(narrow), *g[2];
        for (int k = 0; k < 2; k++) {
            rg_tensor *in = rg_requires_grad_(k ? wide : narrow, true), *y;
            if (i % 2) {
                rg_tensor *scaled = rg_mul(in, sqrt(rows[i / 2].scale));
                y = rg_joint_attention(scaled, 1, false);
            } else {
                rg_list part = rg_chunk(rg_unsqueeze(in, 1), 3, -1);
                y = rg_scaled_dot_product_attention(part.v[0], part.v[1], part.v[2],
                                                    .scale = rows[i / 2].scale);
            }
            g[k] = rg_double(rg_grad(rg_sum(rg_mul(y, rg_sin(rg_detach(rg_double(y))))), in));
        }
        const double off = rg_item(rg_norm(rg_sub(g[0], g[1]))) / rg_item(rg_norm(g[1]));
        ck_assert_msg(off < rows[i / 2].most, "row %d: %g", i, off);
    }
}
END_TEST

/* In 16 bits, attention of q, k and v that lie in one tensor, and its gradients, have the bits of
 * attention of the three. */
START_TEST(test_joint_attention_in_16_bits) {
    static const rg_dtype halves[] = { RG_BFLOAT16, RG_FLOAT16 };
    for (int i = 0; i < 4; i++) {
        RG_SCOPE();
        rg_manual_seed(1);
        const bool causal = i % 2;
        rg_tensor *x = rg_requires_grad_(rg_to(rg_randn(2, 37, 48), halves[i / 2]), true);
        rg_tensor *scale = rg_randn(2, 37, 16);
        rg_tensor *part = rg_permute(rg_unflatten(x, 2, RG_DIMS(3, 2, 8)), 2, 0, 3, 1, 4);
        rg_tensor *joint = rg_joint_attention(x, 2, causal);
        rg_tensor *y = rg_scaled_dot_product_attention(rg_select(part, 0, 0), rg_select(part, 0, 1),
                                                       rg_select(part, 0, 2), .is_causal = causal);
        y = rg_flatten(rg_transpose(y, 1, 2), 2, 3);
        ck_assert(rg_equal(joint, y));
        rg_tensor *g = rg_grad(rg_sum(rg_mul(joint, scale)), x);
        ck_ok(g);
        ck_assert(rg_equal(g, rg_grad(rg_sum(rg_mul(y, scale)), x)));
    }
}
END_TEST

/* Where heads share keys, and each has one query, the result is that of keys copied for each head.
 * The shared ones, such as a cache's, aren't copied: this takes less memory than they do. */
START_TEST(test_shared_heads) {
    rg_manual_seed(3);
    const int64_t groups[] = { 1, 2, 3, 6 };
    for (int i = 0; i < 4 * 3; i++) {
        RG_SCOPE();
        RG_NO_GRAD();
        const int64_t heads = groups[i / 3], n = 3000;
        rg_tensor *q = rg_transpose(rg_randn(2, 1, 6, 8), 1, 2);
        rg_tensor *k = rg_narrow(rg_randn(2, heads, n + 5, 8), 2, 0, n),
                  *v = rg_randn(2, heads, n, 8);
        rg_tensor *const masks[] = { RG_NONE, rg_gt(rg_randn(2, 1, 1, n), 0), rg_randn(1, n) };
        rg_tensor *mask = masks[i % 3];
        rg_memory_reset_peak();
        const int64_t before = rg_memory_stats().now;
        rg_tensor *y = rg_scaled_dot_product_attention(q, k, v, .attn_mask = mask,
                                                       .enable_gqa = true);
        const int64_t took = rg_memory_stats().peak - before;
        if (heads < 6)
            ck_assert_msg(took < 1000000, "%lld bytes", (long long)took);
        rg_tensor *const each[] = { rg_repeat_interleave(k, 6 / heads, .dim = 1),
                                    rg_repeat_interleave(v, 6 / heads, .dim = 1) };
        ck_assert(
            rg_allclose(y, rg_scaled_dot_product_attention(q, each[0], each[1], .attn_mask = mask),
                        1e-5, 1e-6));
    }
}
END_TEST

/* Under a default dtype of 16 bits, positions are computed in float32 and then rounded. */
START_TEST(test_half_positions) {
    rg_positions *rotary = rg_nn_rotary_positions(300, 8, 10000);
    rg_positions *sinusoidal = rg_nn_sinusoidal_positions(300, 7);
    const rg_dtype halves[] = { RG_BFLOAT16, RG_FLOAT16 };
    for (int i = 0; i < 2; i++) {
        rg_set_default_dtype(halves[i]);
        rg_positions *r = rg_nn_rotary_positions(300, 8, 10000);
        ck_ok(rg_equal(r->cos, rg_to(rotary->cos, halves[i])));
        ck_ok(rg_equal(r->sin, rg_to(rotary->sin, halves[i])));
        rg_positions *s = rg_nn_sinusoidal_positions(300, 7);
        ck_ok(rg_equal(s->weight, rg_to(sinusoidal->weight, halves[i])));
        ck_assert_int_eq(rg_dtype_of(rg_rotary_frequencies(8, .base = 10000)), RG_FLOAT32);
        rg_module_free(r);
        rg_module_free(s);
    }
    rg_module_free(rotary);
    rg_module_free(sinusoidal);
    rg_set_default_dtype(RG_FLOAT32);
}
END_TEST

RG_TESTS(attention, test_self_attention, test_multihead_attention, test_unbatched,
         test_the_same_query_and_key, test_what_is_not_looked_at, test_hooks_that_fail,
         test_negative_dropout, test_cache, test_positions, test_frequencies, test_second_order,
         test_bad_arguments, test_out_of_memory, test_nan_scores, test_nan_of_one_head,
         test_half_gradients_of_large_scores, test_joint_attention_in_16_bits, test_shared_heads,
         test_half_positions)

/*
 * test_door.c: all calls of a module's forward go through one function. It calls the hooks, also
 * those of modules that a layer calls inside itself, and it passes keywords on.
 */
#define TWIN_DATA "hooks"
#include "twin.h"
#include "tensor/scope.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>

/* ---- hooks inside a layer, as in PyTorch ----------------------------------------- */

static char order[8192];

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    size_t at = strlen(order);
    va_list args;
    va_start(args, format);
    if (at)
        order[at++] = ' ';
    vsnprintf(order + at, sizeof order - at, format, args);
    va_end(args);
}

static rg_tensor *note(rg_module *m, rg_list in, rg_tensor *y, void *path) {
    (void)m;
    ck_assert(in.n > 0);
    if (y == RG_NONE) {
        say("%s(", (const char *)path);
        return RG_NONE;
    }
    say(")%s:", (const char *)path);
    rg_dims shape = rg_shape(y);
    for (int d = 0; d < shape.n; d++)
        sprintf(order + strlen(order), "%s%d", d ? "x" : "", (int)shape.v[d]);
    return RG_NONE;
}

static rg_tensor *doubled(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)context;
    return rg_mul(y, 2);
}

/* Calls f with hooks on all modules of m. Then calls it with a hook on the module `inside` that
 * doubles its result. */
static void compare_hooked(const char *name, void *m, const char *inside,
                           rg_tensor *(*f)(void *m)) {
    RG_SCOPE();
    rg_named_modules_list all = rg_named_modules(m);
    rg_module *one = NULL;
    int ids[2][64];
    *order = 0;
    for (int i = 0; i < all.n; i++) {
        void *path = (void *)(uintptr_t)all.v[i].name;
        ids[0][i] = rg_register_forward_pre_hook(all.v[i].module, note, path);
        ids[1][i] = rg_register_forward_hook(all.v[i].module, note, path);
        if (!strcmp(all.v[i].name, inside))
            one = all.v[i].module;
    }
    ck_ok(f(m));
    ck_assert_str_eq(order, twin_text(name, ".order"));
    for (int i = 0; i < all.n; i++)
        for (int k = 0; k < 2; k++)
            ck_assert(rg_remove_forward_hook(all.v[i].module, ids[k][i]));
    int id = rg_register_forward_hook(one, doubled, NULL);
    rg_tensor *y = f(m);
    twin_near(name, ".y", RG_FLOAT64, 1, &y);
    ck_assert(rg_remove_forward_hook(one, id));
}

static rg_tensor *drawn(rg_dims shape) {
    rg_manual_seed(2);
    return rg_randn_dims(shape, RG_FLOAT64, rg_default_generator());
}

static rg_tensor *run_post(void *m) {
    return rg_transformer_encoder_layer_forward(m, drawn(RG_DIMS(3, 2, 4)));
}

static rg_tensor *run_pre(void *m) {
    return rg_transformer_encoder_layer_forward(m, drawn(RG_DIMS(3, 2, 4)),
                                                .src_mask = rg_generate_square_subsequent_mask(3));
}

static rg_tensor *call_post(void *m) { return rg_call(m, drawn(RG_DIMS(3, 2, 4))); }

static rg_tensor *run_multihead(void *m) {
    rg_tensor *x = drawn(RG_DIMS(3, 2, 4));
    rg_attended a = rg_multihead_attention_forward((rg_multihead_attention *)m, x, x, x);
    ck_assert(a.weights != RG_NONE && rg_ndim(a.weights) == 3);
    return a.output;
}

static rg_tensor *run_gpt(void *m) {
    return rg_gpt_forward(m, rg_literal([[1, 2, 3, 10], [0, 5, 5, 9]]), RG_NONE).logits;
}

static rg_tensor *call_gpt(void *m) {
    return rg_call(m, rg_literal([[1, 2, 3, 10], [0, 5, 5, 9]]));
}

static rg_tensor *run_gpt_with_loss(void *m) {
    rg_tensor *idx = rg_literal([[1, 2, 3, 10], [0, 5, 5, 9]]);
    rg_logits_loss y = rg_gpt_forward(m, idx, idx);
    ck_assert(y.loss != RG_NONE && rg_ndim(y.loss) == 0);
    return y.logits;
}

static rg_tensor *run_sequential(void *m) { return rg_call(m, drawn(RG_DIMS(4, 2))); }

START_TEST(test_hooks_inside_layers) {
    rg_set_default_dtype(RG_FLOAT64);
    for (int pre = 0; pre < 2; pre++) {
        rg_manual_seed(1);
        rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(
            4, 2, .dim_feedforward = 6, .dropout = 0, .norm_first = pre);
        compare_hooked(pre ? "pre" : "post", m, "self_attn", pre ? run_pre : run_post);
        if (!pre)
            compare_hooked("post", m, "self_attn", call_post);
        rg_module_free(m);
    }
    rg_manual_seed(1);
    rg_multihead_attention *attention = rg_nn_multihead_attention(4, 2);
    compare_hooked("multihead", attention, "", run_multihead);
    rg_module_free(attention);
    rg_manual_seed(1);
    rg_gpt *gpt = rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 2, .n_head = 2,
                            .n_embd = 4);
    compare_hooked("gpt", gpt, "transformer.wpe", run_gpt);
    compare_hooked("gpt", gpt, "transformer.wpe", call_gpt);
    compare_hooked("gpt_loss", gpt, "transformer.h.1.attn", run_gpt_with_loss);
    rg_module_free(gpt);
    rg_manual_seed(1);
    rg_sequential *net = rg_nn_sequential(rg_nn_linear(2, 3),
                                          rg_nn_sequential(rg_nn_relu(), rg_nn_linear(3, 2)));
    compare_hooked("sequential", net, "1.1", run_sequential);
    rg_module_free(net);
}
END_TEST

/* With a cache, the same hooks are called as without one. Hooks are also called if the positions
 * don't begin at 0. */
START_TEST(test_hooks_with_keywords_of_their_own) {
    rg_gpt *gpt = rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 2, .n_head = 2,
                            .n_embd = 4);
    rg_tensor *idx = rg_literal([[1, 2, 3]]);
    *order = 0;
    rg_named_modules_list all = rg_named_modules(gpt);
    for (int i = 0; i < all.n; i++)
        rg_register_forward_hook(all.v[i].module, note, (void *)(uintptr_t)all.v[i].name);
    rg_tensor *plain = rg_call(gpt, idx);
    char without[sizeof order];
    strcpy(without, order);
    *order = 0;
    rg_tensor *cached = rg_gpt_cached(gpt, idx, rg_gpt_cache(gpt, 1), 0);
    ck_assert_str_eq(order, without);
    ck_assert(rg_allclose(plain, cached, 1e-5, 1e-6));
    rg_module_free(gpt);
    rg_positions *where = rg_nn_learned_positions(5, 2);
    *order = 0;
    rg_register_forward_hook((rg_module *)where, note, (void *)(uintptr_t) "where");
    ck_ok(rg_positions_forward(where, rg_zeros(2, 2), 3));
    ck_assert_str_eq(order, ")where:2x2");
    rg_module_free(where);
}
END_TEST

/* ---- any number of inputs, and keywords ------------------------------------------ */

typedef struct {
    double scale;
    rg_tensor *smallest;
} sum_keywords;

/* Returns the sum of its inputs, however many there are, and the smallest sum as a second result.
 */
static rg_tensor *sum_forward(rg_module *m, rg_list in, void *keywords) {
    (void)m;
    sum_keywords *k = keywords;
    rg_tensor *sum = rg_scalar(0.0);
    for (int i = 0; i < in.n; i++)
        sum = rg_add(sum, in.v[i]);
    if (!k)
        return sum;
    sum = rg_mul(sum, k->scale);
    k->smallest = rg_escape(rg_min(sum));
    return sum;
}
static const rg_module_class sum_class = { .name = "Sum",
                                           .forward_with = sum_forward,
                                           .keywords_bytes = sizeof(sum_keywords) };
typedef struct {
    rg_module base;
} Sum;

static rg_tensor *give_one(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)y;
    (void)context;
    return rg_scalar(1.0);
}

START_TEST(test_inputs_and_keywords) {
    Sum *m = RG_MODULE(Sum, &sum_class);
    rg_module *relu = (rg_module *)rg_nn_relu();
    rg_tensor *x = rg_literal([1., 2.]);
    ck_assert(rg_equal(rg_call(m, x, x, x, x, x), rg_mul(x, 5)));
    ck_assert(rg_item(rg_call(m)) == 0);
    int64_t live = rg_live_tensors();
    {
        RG_SCOPE();
        sum_keywords k = { .scale = 10 };
        ck_assert(rg_equal(rg_call_keywords(m, &k, x, x), rg_mul(x, 20)));
        ck_assert(rg_item(k.smallest) == 20);
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    /* Hooks are called for any number of inputs. The result of a pre-hook becomes the first
     * input. */
    *order = 0;
    int id = rg_register_forward_hook(&m->base, doubled, NULL);
    ck_assert(rg_equal(rg_call(m, x, x, x, x), rg_mul(x, 8)));
    /* A call without inputs doesn't read an input, even if the memory behind its empty list isn't
     * 0. */
    {
        RG_SCOPE();
        memset(rgi_scope_alloc(sizeof x), 0x55, sizeof x);
    }
    ck_assert(rg_item(rg_call(m)) == 0);
    rg_register_forward_pre_hook(&m->base, give_one, NULL);
    ck_assert(rg_equal(rg_call(m, x, x), rg_mul(rg_add(x, 1), 2)) && rg_item(rg_call(m)) == 2);
    ck_assert(rg_remove_forward_hook(&m->base, id));
    sum_keywords k = { .scale = 10 };
    int other = 0;
    ck_fails(rg_call_keywords(relu, &k, x), RG_TYPE_ERROR,
             "ReLU: ReLU.forward() got unexpected keyword arguments");
    ck_fails(rg_call_keywords(m, &other, x), RG_TYPE_ERROR,
             "Sum: Sum.forward() takes keywords of 16 bytes but got 4");
    ck_fails(rg_call_keywords(NULL, &k, x), RG_TYPE_ERROR, "call: expected a module but got NULL");
    ck_fails(rg_call(relu, x, x), RG_TYPE_ERROR,
             "ReLU.forward() takes 2 positional arguments but 3 were given; the class has no "
             ".forward2 for a call with 2 inputs");
    ck_fails(rg_call(relu), RG_TYPE_ERROR,
             "ReLU.forward() missing 1 required positional argument; the class has no "
             ".forward_with for a call with 0 inputs");
    ck_fails(rg_call(relu, x, x, x, x), RG_TYPE_ERROR,
             "the class has no .forward_with for a call with 4 inputs");
    rg_multihead_attention *attention = rg_nn_multihead_attention(4, 2);
    rg_tensor *q = rg_ones(3, 4);
    ck_fails(rg_call(attention, q, q), RG_TYPE_ERROR,
             "MultiheadAttention.forward() missing 1 required positional argument: 'value'");
    ck_fails(rg_call(attention, q, q, q, q), RG_TYPE_ERROR,
             "MultiheadAttention.forward() takes 4 positional arguments but 5 were given");
    rg_multihead_keywords options = {
        .options = { .key_padding_mask = RG_NONE, .need_weights = true, .attn_mask = RG_NONE }
    };
    ck_fails(rg_call_keywords(attention, &options, q), RG_TYPE_ERROR,
             "MultiheadAttention.forward() missing 2 required positional arguments: 'key' and "
             "'value'");
    ck_fails(rg_call(attention), RG_TYPE_ERROR,
             "MultiheadAttention.forward() missing 3 required positional arguments: 'query', "
             "'key', and 'value'");
    ck_assert(rg_call_keywords(attention, &options, q, q, q) && rg_ndim(options.weights) == 3);
    rg_module_free(attention);
    rg_module_free(relu);
    rg_module_free(m);
}
END_TEST

/* ---- a module that is freed while it is called ----------------------------------- */

static int hooks_after;

static rg_tensor *free_it(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    (void)y;
    rg_module_free(context ? context : m);
    return RG_NONE;
}

static rg_tensor *count_after(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    (void)context;
    hooks_after += y != RG_NONE && m->registry != NULL;
    return RG_NONE;
}

static rg_tensor *free_twice(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)in;
    (void)y;
    (void)context;
    rg_module_free(m);
    rg_error_clear();
    rg_module_free(m);
    ck_assert_str_eq(rg_error(), "module_free: module released by rg_module_free");
    rg_error_clear();
    return RG_NONE;
}

typedef struct {
    rg_module base;
    rg_tensor *weight;
} Weight;

static rg_tensor *weight_forward(rg_module *m, rg_list in, void *keywords) {
    (void)in;
    (void)keywords;
    return ((Weight *)m)->weight;
}
static const rg_module_class weight_class = { .name = "Weight", .forward_with = weight_forward };

START_TEST(test_hooks_that_free_their_module) {
    int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
    RG_FOR (int i = 0; i < 4; i++) {
        rg_linear_module *inner = rg_nn_linear(2, 2);
        rg_sequential *m = rg_nn_sequential(rg_nn_relu(), inner, rg_nn_tanh());
        rg_module *hooked = i < 2 ? &m->base : &inner->base;
        /* A hook of the module itself, or of a child, frees the whole tree. The hook runs before
         * forward or after it. */
        if (i % 2)
            rg_register_forward_pre_hook(hooked, free_it, m);
        else
            rg_register_forward_hook(hooked, free_it, m);
        hooks_after = 0;
        rg_register_forward_hook(hooked, count_after, NULL);
        rg_tensor *y = rg_call(m, rg_ones(2));
        ck_assert(y && rg_size(y, 0) == 2 && hooks_after == 1);
        ck_ok(rg_backward(rg_sum(y)));
    }
    RG_FOR (int i = 0; i < 1; i++) {
        rg_module *m = (rg_module *)rg_nn_relu();
        rg_register_forward_hook(m, free_twice, NULL);
        ck_ok(rg_call(m, rg_ones(2)));
        Weight *own = RG_MODULE(Weight, &weight_class);
        RG_PARAMETER(own, weight, rg_ones(3));
        rg_register_forward_hook(&own->base, free_it, NULL);
        ck_assert(rg_item(rg_sum(rg_call(own))) == 3);
        /* While a hook of the child runs, the child's parent can be freed. */
        rg_linear_module *alone = rg_nn_linear(2, 2);
        rg_sequential *parent = rg_nn_sequential(alone);
        rg_register_forward_hook(&alone->base, free_it, parent);
        ck_ok(rg_call(alone, rg_ones(2)));
    }
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert(rg_memory_stats().other <= other + 65536);
}
END_TEST

/* ---- recursion ------------------------------------------------------------------- */

typedef struct {
    rg_module base;
    int64_t left;
} Again;

static rg_tensor *again_forward(rg_module *m, rg_tensor *x) {
    Again *self = (Again *)m;
    return self->left-- ? rg_call(m, x) : x;
}
static const rg_module_class again_class = { .name = "Again", .forward = again_forward };

static rg_tensor *call_again(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)y;
    (void)context;
    return rg_call(m, in.v[0]);
}

static void *recur(void *small) {
    Again *m = RG_MODULE(Again, &again_class, .left = INT64_MAX);
    rg_tensor *x = rg_ones(1);
    ck_fails(rg_call(m, x), RG_RUNTIME_ERROR, "Again: maximum recursion depth exceeded");
    /* After the failure, a recursion that ends succeeds. */
    m->left = small ? 20 : 500;
    ck_ok(rg_call(m, x));
    rg_register_forward_pre_hook(&m->base, call_again, NULL);
    ck_fails(rg_call(m, x), RG_RUNTIME_ERROR, "maximum recursion depth exceeded");
    rg_module_free(m);
    return NULL;
}

/* ThreadSanitizer keeps at most 65,536 nested calls, and 20 calls fill a small stack. So the test
 * is skipped there. */
#ifdef __SANITIZE_THREAD__
enum { CAN_RECUR = false };
#else
enum { CAN_RECUR = true };
#endif

START_TEST(test_recursion) {
    if (!CAN_RECUR)
        return;
    recur(NULL);
    pthread_attr_t attributes;
    pthread_t thread;
    ck_assert(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, 512 << 10)
              && !pthread_create(&thread, &attributes, recur, "small"));
    ck_assert(!pthread_join(thread, NULL));
    pthread_attr_destroy(&attributes);
}
END_TEST

static rg_module *called_there;
static rg_tensor *result_there;
static void calls_there(int signal) {
    (void)signal;
    result_there = rg_call(called_there, rg_ones(1));
}

/* A program may run on a stack of its own, at lower addresses than the thread's stack. A call on
 * such a stack doesn't fail as if the thread's stack were used up. */
START_TEST(test_another_stack) {
    /* ThreadSanitizer forbids signal handlers that allocate memory. */
    if (!CAN_RECUR)
        return;
    static char room[1 << 20];
    stack_t own = { .ss_sp = room, .ss_size = sizeof room }, before;
    struct sigaction there = { .sa_handler = calls_there, .sa_flags = SA_ONSTACK }, usual;
    called_there = &rg_nn_relu()->base;
    ck_ok(rg_call(called_there, rg_ones(1)));
    ck_assert(!sigaltstack(&own, &before) && !sigaction(SIGUSR1, &there, &usual));
    ck_assert(!raise(SIGUSR1));
    ck_assert(!sigaction(SIGUSR1, &usual, NULL) && !sigaltstack(&before, NULL));
    ck_ok(result_there);
    rg_module_free(called_there);
}
END_TEST

/* If keywords leave out an absent tensor, its field is NULL, and the error message names the field.
 * If the NULL comes from a call that failed, the error of that call stays. */
START_TEST(test_keywords_without_tensors) {
    rg_tensor *x = rg_ones(5, 2, 4);
    rg_multihead_attention *attention = rg_nn_multihead_attention(4, 2);
    rg_multihead_keywords mask = { .options = { .key_padding_mask = RG_NONE } };
    rg_multihead_keywords padding = { .options = { .attn_mask = RG_NONE } };
    ck_fails(rg_call_keywords(attention, &mask, x, x, x), RG_TYPE_ERROR,
             "multihead_attention: expected attn_mask to be a tensor or RG_NONE but got NULL");
    ck_fails(rg_call_keywords(attention, &padding, x, x, x), RG_TYPE_ERROR,
             "multihead_attention: expected key_padding_mask to be a tensor or RG_NONE but got "
             "NULL");
    mask.options.attn_mask = rg_matmul(x, rg_ones(3));
    ck_assert(!rg_call_keywords(attention, &mask, x, x, x) && strstr(rg_error(), "matmul: "));
    rg_error_clear();

    rg_rnn_module *gru = rg_nn_gru(4, 3);
    rg_rnn_keywords none = { .batch_sizes = NULL };
    ck_fails(rg_call_keywords(gru, &none, x), RG_TYPE_ERROR,
             "GRU: expected h_0 to be a tensor or RG_NONE but got NULL");
    none.states.h_0 = RG_NONE;
    ck_fails(rg_call_keywords(gru, &none, x), RG_TYPE_ERROR, "expected c_0 to be a tensor or");
    none.states.c_0 = RG_NONE;
    ck_fails(rg_call_keywords(gru, &none, x), RG_TYPE_ERROR, "expected batch_sizes to be a tensor");
    none.batch_sizes = rg_literal([ 2, 2 ]);
    ck_fails(rg_call_keywords(gru, &none, x), RG_TYPE_ERROR, "expected sorted_indices to be a");
    none.sorted_indices = RG_NONE;
    ck_fails(rg_call_keywords(gru, &none, x), RG_TYPE_ERROR, "expected unsorted_indices to be a");

    rg_transformer *translator = rg_nn_transformer(.d_model = 4, .nhead = 2);
    rg_tgt_options first = { .tgt_mask = NULL };
    ck_fails(rg_call_keywords(translator->decoder, &first, x, x), RG_TYPE_ERROR,
             "transformer_decoder_layer: expected tgt_mask to be a tensor or RG_NONE but got NULL");
    rg_src_tgt_options source = { .src_mask = NULL };
    ck_fails(rg_call_keywords(translator, &source, x, x), RG_TYPE_ERROR,
             "transformer: expected src_mask to be a tensor or RG_NONE but got NULL");
    rg_mask_options reads = { .mask = RG_NONE };
    ck_fails(rg_call_keywords(translator->encoder, &reads, x), RG_TYPE_ERROR,
             "expected src_key_padding_mask to be a tensor or RG_NONE but got NULL");
    rg_module_free(attention);
    rg_module_free(gru);
    rg_module_free(translator);
}
END_TEST

RG_TESTS(door, test_hooks_inside_layers, test_hooks_with_keywords_of_their_own,
         test_inputs_and_keywords, test_hooks_that_free_their_module, test_recursion,
         test_another_stack, test_keywords_without_tensors)

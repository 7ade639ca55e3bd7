// cplusplus.cc: uses the public headers from C++17, against the shared library: numbers beside
// tensors, shapes, keywords, and scopes that an exception leaves.
#include "regard.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>

static int checks, failures;
static void check(bool holds, int line, const char *what) {
    checks++;
    if (holds)
        return;
    failures++;
    std::printf("tests/cplusplus.cc:%d: %s: %s\n", line, what, rg_error());
}
#define CHECK(x) check((x), __LINE__, #x)

static void numbers() {
    RG_SCOPE();
    CHECK(rg_dtype_of(rg_scalar(1)) == RG_INT64 && rg_dtype_of(rg_scalar(true)) == RG_BOOL);
    CHECK(rg_dtype_of(rg_scalar(1.5)) == RG_FLOAT32 && rg_dtype_of(rg_scalar(1.5f)) == RG_FLOAT32);
    CHECK(rg_item(rg_scalar((short)-2)) == -2 && rg_item(rg_scalar('a')) == 'a'
          && rg_item(rg_scalar(4000000000u)) == 4e9);
    CHECK(rg_item(rg_scalar(5ul)) == 5 && rg_item(rg_scalar(5ll)) == 5
          && rg_item(rg_scalar(5ull)) == 5);
    CHECK(!rg_scalar(18446744073709551615ull) && std::strstr(rg_error(), "without overflow"));
    rg_error_clear();
    CHECK(!rg_index(rg_arange(3), 18446744073709551615ul));
    rg_error_clear();
    CHECK(rg_item(rg_scalar(2.5L)) == 2.5 && rg_item(rg_scalar(sizeof(int))) == sizeof(int));
    CHECK(rg_item(rg_scalar(rg_scalar(7))) == 7);
    rg_error_clear();
    CHECK(!rg_scalar(nullptr)
          && !std::strcmp(rg_error(), "scalar: expected a tensor but got NULL"));
    rg_error_clear();
    int calls = 0;
    rg_add(calls++, calls++);
    CHECK(calls == 2);
    CHECK(rg_item(rg_sub(1, rg_mul(rg_scalar(1.5), 4))) == -5);
    CHECK(rg_numel(rg_arange_step(0, 1, 0.25)) == 4 && rg_numel(rg_arange(5)) == 5);
}

static rg_tensor *plus_one(rg_tensor *x, const char *, void *) { return rg_add(x, 1); }

static void inside() {
    RG_SCOPE();
    rg_sequential *m = rg_nn_sequential(rg_nn_relu(), rg_nn_relu());
    rg_tensor *x = rg_scalar(2.0);
    CHECK(rg_item(rg_run_with_hooks(m, RG_HOOKS_AT({ "0", plus_one, nullptr }), x)) == 3);
    RG_HOOKS(m, RG_HOOKS_AT({ "0", plus_one, nullptr }, { "1", plus_one, nullptr }));
    CHECK(rg_item(rg_cache_get(rg_run_with_cache(m, "*", x).cache, "1")) == 4);
    rg_module_free(m);
    RG_RECORD_FUNCTION("inside");
    RG_INFERENCE_MODE();
    CHECK(rg_is_inference(rg_ones(2)) && !rg_is_inference(x));
    RG_AUTOCAST(RG_FLOAT16, .cache_enabled = false);
    CHECK(rg_dtype_of(rg_mm(rg_ones(2, 2), rg_ones(2, 2))) == RG_FLOAT16);
}

static void shapes() {
    RG_SCOPE();
    int n = 2;
    size_t m = 3;
    CHECK(rg_numel(rg_zeros(n, m, 4L)) == 24 && rg_ndim(rg_ones(5)) == 1);
    CHECK(rg_dtype_of(rg_full(RG_DIMS(2, 3), 1.5)) == RG_FLOAT32
          && rg_ndim(rg_full(RG_DIMS(), true)) == 0);
    CHECK(rg_at(rg_full_dims(RG_DIMS(n, 2), 7, RG_FLOAT64), 1, -1) == 7);
    CHECK(rg_size(rg_ones(2, 3), m - 2) == 3 && rg_softmax(rg_ones(2, 3), m - 4) == nullptr
          && rg_error_code() == RG_INDEX_ERROR);
    rg_error_clear();
    const float f[] = { 1, 2, 3, 4 };
    double d[] = { 1, 2 };
    int64_t l[] = { 5 };
    int i[] = { 6, 7 };
    bool b[] = { true };
    const uint8_t u[] = { 255 };
    CHECK(rg_at(rg_from(f, 2, 2), 1, 0) == 3 && rg_dtype_of(rg_from(d, 2)) == RG_FLOAT64);
    CHECK(rg_at(rg_from(l, 1), 0) == 5 && rg_at(rg_from(i, 2), 1) == 7
          && rg_dtype_of(rg_from(b, 1)) == RG_BOOL && rg_data_as(uint8_t, rg_from(u, 1))[0] == 255);
    CHECK(rg_equal(rg_literal([ [ 1, 0 ], [ 0, 2.5 ] ]),
                   rg_from_float((const float[]){ 1, 0, 0, 2.5f }, RG_DIMS(2, 2))));
    rg_manual_seed(123);
    CHECK(std::fabs(rg_at(rg_rand(6, 3), 0, 0) - 0.2961) < 5e-5);
}

struct options {
    double eps RG_DEFAULT(1e-6);
    int n RG_DEFAULT(3);
    const char *text RG_DEFAULT("none");
};
#define OPTIONS(...) RG_KEYWORDS(options, (.eps = 1e-6, .n = 3, .text = "none"), __VA_ARGS__)

static void keywords() {
    options a = OPTIONS(), b = OPTIONS(.n = 4), c = OPTIONS(.eps = 1, .text = "some");
    CHECK(a.eps == 1e-6 && a.n == 3 && !std::strcmp(a.text, "none"));
    CHECK(b.eps == 1e-6 && b.n == 4);
    CHECK(c.eps == 1 && c.n == 3 && !std::strcmp(c.text, "some"));
    rg_tensor *x = rg_arange(4);
    CHECK(rg_numel(rg_repeat_interleave(x, 2)) == 8 && rg_meshgrid(RG_LIST(x, x)).n == 2);
    CHECK(rg_numel(rg_bincount(x, .minlength = 9)) == 9);
    CHECK(rg_item(rg_quantile(rg_double(x), 0.5, .interpolation = "lower")) == 1);
    CHECK(rg_item(rg_searchsorted(x, 2, true)) == 3);
    CHECK(std::isnan(rg_nan_to_num_options{}.posinf)
          && rg_item(rg_nan_to_num(rg_scalar(INFINITY), .posinf = 5)) == 5);
    CHECK(rg_at(rg_index_fill(x, 0, rg_arange(1), 7), 0) == 7);
}

static void scopes() {
    int64_t before = rg_live_tensors();
    try {
        RG_SCOPE();
        rg_zeros(3);
        RG_FOR (int i = 0; i < 3; i++) {
            rg_zeros(i);
            if (i == 2)
                throw i;
            CHECK(rg_live_tensors() == before + 2);
        }
        CHECK(false);
    } catch (int i) {
        CHECK(i == 2);
    }
    CHECK(rg_live_tensors() == before);
    rg_tensor *t = [] {
        RG_SCOPE();
        rg_ones(1);
        return rg_escape(rg_ones(2));
    }();
    CHECK(rg_live_tensors() == before + 1 && rg_numel(t) == 2);
    rg_drop(t);
}

/* Error messages about anomalies contain no names of the library's public functions. */
static void anomalies() {
    rg_set_detect_anomaly(true);
    CHECK(!rg_div(rg_ones(2), rg_zeros(2)));
    CHECK(std::strstr(rg_error(), "div: the first inf arose forward in div of [2] [2]"));
    CHECK(!std::strstr(rg_error(), "rg_"));
    rg_set_detect_anomaly(false);
    rg_error_clear();
}

static int handled;
static void errors() {
    rg_on_error([](rg_code, const char *) { handled++; });
    CHECK(!rg_zeros(-1) && rg_error_code() == RG_RUNTIME_ERROR && handled == 1);
    rg_on_error(nullptr);
    CHECK(rg_ndim(RG_NONE) == -1);
    rg_error_clear();
}

static void gradients() {
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(rg_from_double((const double[]){ 1, 2, 3 }, RG_DIMS(3)), true);
    rg_tensor *y = rg_sum(rg_mul(rg_mul(x, x), 2));
    CHECK(rg_backward(y, .retain_graph = true) && rg_at(rg_grad_of(x), 2) == 12);
    CHECK(rg_backward(y) && rg_at(rg_grad_of(x), 2) == 24);
}

static void recordings() {
    RG_SCOPE();
    rg_replays *r = rg_replays_new(
        [](rg_tensor *const in[], void *) { return rg_sum(rg_mul(in[0], 2)); }, nullptr);
    for (int i = 0; i < 4; i++) {
        rg_tensor *x = rg_ones(2 + i % 2);
        CHECK(rg_item(rg_replays_run(r, 1, &x)) == 4 + 2 * (i % 2));
    }
    rg_replays_free(r);
}

static void lists() {
    RG_SCOPE();
    rg_tensor *a = rg_ones(2, 3), *b = rg_ones(3, 4);
    CHECK(rg_size(rg_cat(RG_LIST(a, a), 0), 0) == 4);
    rg_tensor *own[] = { a, a, a };
    CHECK(rg_size(rg_cat(rg_list_of(3, own), 0), 0) == 6);
    CHECK(rg_size(rg_add(rg_stack(rg_list_of(2, own), 0), 1), 0) == 2);
    CHECK(rg_at(rg_einsum("ij,jk->ik", a, b), 1, 2) == 3);
    CHECK(rg_at(rg_matmul(a, b), 0, 0) == 3);
    CHECK(rg_item(rg_mse_loss(a, rg_zeros(2, 3), .reduction = RG_SUM)) == 6);
}

static void texts() {
    RG_SCOPE();
    rg_vocabulary *words = rg_vocabulary_new("Life is short"),
                  *signs = rg_vocabulary_new("ab a", .characters = true, .unknown = "?");
    CHECK(words && words->n == 3 && rg_equal(rg_encode(words, "short Life"), rg_literal([ 2, 0 ])));
    CHECK(signs && signs->n == 4
          && !std::strcmp(rg_decode(signs, rg_encode(signs, "a b!")), "a b?"));
    CHECK(rg_numel(rg_get_batch(rg_arange(9), 2, 3).second) == 6);
    rg_vocabulary_free(words);
    rg_vocabulary_free(signs);
}

struct scale {
    rg_module base;
    rg_tensor *weight, *mask;
    rg_linear_module *child;
    int n;
};
static rg_tensor *scale_forward(rg_module *m, rg_tensor *x) {
    return rg_mul(x, ((scale *)m)->weight);
}

static void modules() {
    RG_SCOPE();
    rg_module_class cls = {};
    cls.name = "Scale";
    cls.forward = scale_forward;
    scale *self = RG_MODULE(scale, &cls);
    RG_PARAMETER(self, weight, rg_full(RG_DIMS(3), 2));
    RG_BUFFER(self, mask, rg_ones(1), .persistent = false);
    RG_CHILD(self, child, rg_nn_linear(2, 3, .bias = false));
    self = RG_READY(self);
    CHECK(!self
          && !std::strncmp(rg_error(), "register_parameter: Only Tensors of floating point", 32));
    rg_error_clear();
    rg_sequential *model = rg_nn_sequential(rg_nn_linear(2, 3), rg_nn_gelu(),
                                            rg_nn_layer_norm(3, .bias = false));
    CHECK(rg_num_parameters(model) == 12 && rg_numel(rg_call(model, rg_ones(4, 2))) == 12);
    rg_loss_module *loss = rg_nn_mse_loss(.reduction = RG_SUM);
    CHECK(rg_item(rg_call(loss, rg_ones(2), rg_zeros(2))) == 2);
    rg_tensor *w = rg_nn_init_kaiming_uniform_(rg_empty(2, 3), .a = 1);
    rg_module_list *none = rg_nn_module_list();
    CHECK(rg_numel(w) == 6 && !std::strcmp(rg_module_repr(none), "ModuleList()"));
    rg_module_dict *dict = rg_nn_module_dict({ "a", rg_nn_linear(2, 3) }, { "b", rg_nn_relu() });
    rg_module_dict *copy = rg_deepcopy(dict);
    CHECK(copy && copy->n == 2 && rg_get_parameter(copy, "a.weight") != NULL);
    CHECK(rg_module_dict_get(copy, "b") == copy->v[1]);
    rg_parameter_list *list = rg_nn_parameter_list(rg_ones(2), rg_zeros(3));
    CHECK(list->n == 2 && rg_num_parameters(list) == 5);
    for (void *m : { (void *)dict, (void *)copy, (void *)list })
        rg_module_free(m);
    rg_module_free(none);
    rg_module_free(model);
    rg_module_free(loss);
}

static rg_named_list named(rg_named_list list) { return list; }

static void names() {
    RG_SCOPE();
    rg_tensor *x = rg_ones(2);
    CHECK(named(RG_NAMED_LIST({ "a", x }, { "b", x })).n == 2);
    const rg_named pairs[] = { { "c", x } };
    CHECK(!std::strcmp(named(rg_named_list_of(1, pairs)).v[0].name, "c"));
}

static void transformers() {
    RG_SCOPE();
    rg_multihead_attention *attention = rg_nn_multihead_attention(4, 2, .batch_first = true);
    rg_attended a = rg_multihead_attention_forward(attention, rg_ones(1, 3, 4), rg_ones(1, 5, 4),
                                                   rg_ones(1, 5, 4), .need_weights = true);
    CHECK(rg_numel(a.output) == 12 && rg_numel(a.weights) == 15);
    rg_transformer_encoder_layer *layer =
        rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 8, .activation = rg_gelu);
    CHECK(
        rg_numel(rg_transformer_encoder_layer_forward(layer, rg_ones(3, 1, 4), .is_causal = false))
        == 12);
    rg_transformer *whole = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                              .num_decoder_layers = 1, .dim_feedforward = 6);
    rg_tensor *memory = rg_transformer_encoder_forward(whole->encoder, rg_ones(3, 1, 4));
    rg_decoder_cache cache = rg_transformer_decoder_cache(whole->decoder, memory, 2);
    CHECK(rg_numel(rg_transformer_decoder_forward(whole->decoder, rg_ones(2, 1, 4), memory,
                                                  .cache = &cache))
              == 8
          && cache.length == 2);
    CHECK(rg_numel(rg_transformer_forward(whole, rg_ones(3, 1, 4), rg_ones(2, 1, 4),
                                          .tgt_mask = rg_generate_square_subsequent_mask(2)))
          == 8);
    rg_transformer_decoder *decoder =
        rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3), 2,
                                  .norm = rg_nn_layer_norm(4));
    CHECK(rg_numel(rg_call(decoder, rg_ones(2, 4), rg_ones(3, 4))) == 8);
    rg_module_free(decoder);
    rg_module_free(whole);
    rg_gpt *gpt = rg_nn_gpt(.block_size = 4, .vocab_size = 7, .n_layer = 1, .n_head = 2,
                            .n_embd = 8);
    CHECK(rg_numel(rg_gpt_generate(gpt, rg_literal([[ 1, 2 ]]), 5, .top_k = 3)) == 7);
    for (void *m : { (void *)attention, (void *)layer, (void *)gpt })
        rg_module_free(m);
}

int main() {
    for (auto test : { numbers, inside, shapes, keywords, scopes, errors, anomalies, gradients,
                       recordings, lists, texts, modules, names, transformers })
        test();
    std::printf("Running suite(s): cplusplus\n%d checks, %d failures\n", checks, failures);
    return failures != 0;
}

/*
 * test_transformers.c: encoders, decoders and whole transformers compute what PyTorch's do. The
 * cases are PyTorch's own samples and others. REGARD_GOLDEN names a folder with more cases.
 */
#define TWIN_DATA "transformers"
#include "twin.h"

/* ---- a case ---------------------------------------------------------------------- */

enum { MOST_INPUTS = 2, MOST_MASKS = 6, MOST_KEYS = 1024 };

typedef struct named_mask {
    char name[32];
    rg_tensor *mask;
} named_mask;

typedef struct transformer_case {
    char name[64], kind[64], keys[8192];
    rg_nn_transformer_options o;
    int64_t layers;
    rg_flag norm, train, nograd;
    rg_flag src_is_causal, tgt_is_causal, memory_is_causal, is_causal;
    int n_inputs, n_masks;
    rg_tensor *inputs[MOST_INPUTS]; /* They are of float64. */
    named_mask masks[MOST_MASKS];
    char *y, *g;
} transformer_case;

static bool set_flag(transformer_case *c, const char *key, bool on) {
    const struct {
        const char *key;
        rg_flag *place;
    } flags[] = {
        { "batch_first", &c->o.batch_first },
        { "norm_first", &c->o.norm_first },
        { "bias", &c->o.bias },
        { "norm", &c->norm },
        { "train", &c->train },
        { "nograd", &c->nograd },
        { "src_is_causal", &c->src_is_causal },
        { "tgt_is_causal", &c->tgt_is_causal },
        { "memory_is_causal", &c->memory_is_causal },
        { "is_causal", &c->is_causal },
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(key, flags[i].key)) {
            *flags[i].place = on;
            return true;
        }
    return false;
}

static bool set_number(transformer_case *c, const char *key, double x) {
    rg_tensor *(*const activations[])(rg_tensor *) = { rg_relu, rg_gelu, rg_tanh };
    const struct {
        const char *key;
        int64_t *place;
    } sizes[] = {
        { "d_model", &c->o.d_model },
        { "nhead", &c->o.nhead },
        { "num_encoder_layers", &c->o.num_encoder_layers },
        { "num_decoder_layers", &c->o.num_decoder_layers },
        { "dim_feedforward", &c->o.dim_feedforward },
        { "layers", &c->layers },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(key, sizes[i].key)) {
            *sizes[i].place = (int64_t)x;
            return true;
        }
    if (!strcmp(key, "activation"))
        c->o.activation = activations[(int)x];
    else if (!strcmp(key, "dropout"))
        c->o.dropout = x;
    else if (!strcmp(key, "layer_norm_eps"))
        c->o.layer_norm_eps = x;
    else
        return false;
    return true;
}

static void read_options(transformer_case *c, char *words) {
    snprintf(c->name, sizeof c->name, "%s", golden_word(&words));
    while (!golden_at_end(words)) {
        char *key = golden_word(&words), *value = strchr(key, '=');
        *value++ = 0;
        if (!strcmp(key, "kind"))
            snprintf(c->kind, sizeof c->kind, "%s", value);
        else
            ck_assert_msg(set_flag(c, key, *value == '1' || *value == 'T')
                              || set_number(c, key, strtod(value, NULL)),
                          "%s: what is %s?", c->name, key);
    }
}

/* Returns the numbers as a tensor of float64 or bool. */
static rg_tensor *read_tensor(char **words, rg_dims shape, rg_dtype dtype) {
    rg_tensor *t = rg_zeros_dims(shape, RG_FLOAT64);
    for (int64_t i = 0; i < rg_numel(t); i++)
        ((double *)rg_data(t))[i] = golden_number(words);
    return rg_to(t, dtype);
}

/* Reads the case that begins with these words. */
static void read_case(transformer_case *c, golden_file *f, char *words) {
    *c = (transformer_case){ .o = { .custom_encoder = RG_NONE, .custom_decoder = RG_NONE } };
    read_options(c, words);
    snprintf(c->keys, sizeof c->keys, "%s", golden_field(f, 'k'));
    while (golden_peek(f) == 'x') {
        char *line = golden_field(f, 'x');
        golden_word(&line);
        rg_dims shape = golden_dims(golden_word(&line));
        c->inputs[c->n_inputs++] = read_tensor(&line, shape, RG_FLOAT64);
    }
    while (golden_peek(f) == 'm') {
        char *line = golden_field(f, 'm');
        named_mask *m = &c->masks[c->n_masks++];
        snprintf(m->name, sizeof m->name, "%s", golden_word(&line));
        rg_dims shape = golden_dims(golden_word(&line));
        rg_dtype dtype = golden_dtype(golden_word(&line));
        m->mask = read_tensor(&line, shape, dtype);
    }
    c->y = golden_field(f, ':');
    c->g = c->nograd ? NULL : golden_field(f, ':');
}

/* ---- the same case in regard ----------------------------------------------------- */

static bool is_kind(const transformer_case *c, const char *kind) { return !strcmp(c->kind, kind); }

static void *module_of(const transformer_case *c) {
    rg_transformer_options o = { .dim_feedforward = c->o.dim_feedforward,
                                 .dropout = c->o.dropout,
                                 .activation = c->o.activation,
                                 .layer_norm_eps = c->o.layer_norm_eps,
                                 .batch_first = c->o.batch_first,
                                 .norm_first = c->o.norm_first,
                                 .bias = c->o.bias };
    int64_t d = c->o.d_model, heads = c->o.nhead;
    rg_manual_seed(1);
    if (is_kind(c, "Transformer"))
        return rg_nn_transformer_with(c->o);
    void *layer = strstr(c->kind, "Encoder")
                      ? (void *)rg_nn_transformer_encoder_layer_with(d, heads, o)
                      : rg_nn_transformer_decoder_layer_with(d, heads, o);
    if (strstr(c->kind, "Layer"))
        return layer;
    void *norm = RG_NONE;
    if (c->norm)
        norm = rg_nn_layer_norm(d, .eps = o.layer_norm_eps);
    if (is_kind(c, "TransformerEncoder"))
        return rg_nn_transformer_encoder(layer, c->layers, .norm = norm);
    return rg_nn_transformer_decoder(layer, c->layers, .norm = norm);
}

/* Returns the mask of this name. A mask of floats is converted to the dtype. Without a mask of this
 * name, returns RG_NONE. */
static rg_tensor *mask_of(const transformer_case *c, const char *name, rg_dtype dtype) {
    for (int i = 0; i < c->n_masks; i++)
        if (!strcmp(c->masks[i].name, name)) {
            rg_tensor *m = c->masks[i].mask;
            return rg_is_floating_point(m) ? rg_to(m, dtype) : m;
        }
    return RG_NONE;
}

#define MASK(name) mask_of(c, name, dtype)

static rg_tensor *output_of(const transformer_case *c, void *m, rg_tensor *const x[],
                            rg_dtype dtype) {
    if (is_kind(c, "TransformerEncoderLayer"))
        return rg_transformer_encoder_layer_forward(
            m, x[0], .src_mask = MASK("src_mask"),
            .src_key_padding_mask = MASK("src_key_padding_mask"), .is_causal = c->is_causal);
    if (is_kind(c, "TransformerEncoder"))
        return rg_transformer_encoder_forward(m, x[0], .mask = MASK("mask"),
                                              .src_key_padding_mask = MASK("src_key_padding_mask"),
                                              .is_causal = c->is_causal);
    if (is_kind(c, "Transformer"))
        return rg_transformer_forward(
            m, x[0], x[1], .src_mask = MASK("src_mask"), .tgt_mask = MASK("tgt_mask"),
            .memory_mask = MASK("memory_mask"),
            .src_key_padding_mask = MASK("src_key_padding_mask"),
            .tgt_key_padding_mask = MASK("tgt_key_padding_mask"),
            .memory_key_padding_mask = MASK("memory_key_padding_mask"),
            .src_is_causal = c->src_is_causal, .tgt_is_causal = c->tgt_is_causal,
            .memory_is_causal = c->memory_is_causal);
    rg_tgt_options o = { .tgt_mask = MASK("tgt_mask"),
                         .memory_mask = MASK("memory_mask"),
                         .tgt_key_padding_mask = MASK("tgt_key_padding_mask"),
                         .memory_key_padding_mask = MASK("memory_key_padding_mask"),
                         .tgt_is_causal = c->tgt_is_causal,
                         .memory_is_causal = c->memory_is_causal };
    return is_kind(c, "TransformerDecoder")
               ? rg_transformer_decoder_forward_with(m, x[0], x[1], o)
               : rg_transformer_decoder_layer_forward_with(m, x[0], x[1], o);
}

/* Returns how far the tensors are from the numbers, relative to the greatest one. */
static double distance(const char *name, char *numbers, int n, rg_tensor *const t[]) {
    double far = 0, scale = 1;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(t[i] != NULL, "%s: %s", name, rg_error());
        rg_tensor *row = rg_contiguous(rg_to(rg_detach(t[i]), RG_FLOAT64));
        for (int64_t k = 0; k < rg_numel(row); k++) {
            ck_assert_msg(!golden_at_end(numbers), "%s has more values", name);
            double want = golden_number(&numbers);
            double off = fabs(((double *)rg_data(row))[k] - want);
            far = off <= far ? far : off;
            scale = fmax(scale, fabs(want));
        }
    }
    ck_assert_msg(golden_at_end(numbers), "%s has fewer values", name);
    return far / scale;
}

static double farthest[2];

static void near(const transformer_case *c, const char *what, char *numbers, rg_dtype dtype, int n,
                 rg_tensor *const t[]) {
    double limit = dtype == RG_FLOAT64 ? 1e-10 : 1e-5;
    double far = distance(c->name, numbers, n, t);
    ck_assert_msg(far <= limit, "%s of %s in %s is off by %g", what, c->name, rg_dtype_name(dtype),
                  far);
    farthest[dtype == RG_FLOAT32] = fmax(farthest[dtype == RG_FLOAT32], far);
}

static void check_keys(const transformer_case *c, void *m) {
    RG_SCOPE();
    char keys[sizeof c->keys] = "";
    rg_named_list own = rg_state_dict(m);
    for (int i = 0; i < own.n; i++)
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s%s", i ? " " : "",
                 own.v[i].name);
    ck_assert_str_eq(keys, c->keys);
}

/* Compares the output and its gradients with PyTorch's. If `strided` is true, the inputs are
 * strided. */
static void compare(const transformer_case *c, void *m, rg_dtype dtype, bool strided) {
    RG_SCOPE();
    rg_tensor *x[MOST_INPUTS], *wanted[TWIN_MOST * 4], *g[TWIN_MOST * 4];
    for (int i = 0; i < c->n_inputs; i++) {
        rg_tensor *value = rg_to(c->inputs[i], dtype);
        if (strided)
            value = rg_mT(rg_contiguous(rg_mT(value)));
        x[i] = rg_requires_grad_(rg_detach(value), true);
    }
    bool before = rg_is_grad_enabled();
    rg_manual_seed(3);
    rg_set_grad_enabled(!c->nograd);
    rg_tensor *y = output_of(c, m, x, dtype);
    rg_set_grad_enabled(before);
    near(c, "the output", c->y, dtype, 1, &y);
    if (c->nograd) {
        ck_assert(!rg_requires_grad(y));
        return;
    }
    int n = 0;
    for (; n < c->n_inputs; n++)
        wanted[n] = x[n];
    rg_list own = rg_parameters(m);
    for (int i = 0; i < own.n; i++)
        wanted[n++] = own.v[i];
    rg_manual_seed(4);
    rg_tensor *draw = rg_randn_dims(rg_shape(y), RG_FLOAT64, rg_default_generator());
    rg_tensor *loss = rg_sum(rg_mul(y, rg_to(draw, dtype)));
    ck_ok(rg_grad_many(1, &loss, NULL, n, wanted, g, (rg_backward_options){ .gradient = RG_NONE }));
    near(c, "a gradient", c->g, dtype, n, g);
}

START_TEST(test_cases) {
    golden_file f = golden_open(TWIN_DATA);
    int cases = 0;
    rg_set_default_dtype(RG_FLOAT64);
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        RG_SCOPE();
        transformer_case c;
        read_case(&c, &f, words);
        void *m = module_of(&c);
        ck_assert_msg(m, "%s: %s", c.name, rg_error());
        check_keys(&c, m);
        rg_train(m, c.train);
        compare(&c, m, RG_FLOAT64, false);
        compare(&c, m, RG_FLOAT64, true);
        /* A copy computes the same. */
        void *copy = rg_deepcopy(m);
        ck_ok(copy);
        ck_ok(rg_module_to(m, RG_FLOAT32));
        compare(&c, copy, RG_FLOAT64, false);
        compare(&c, m, RG_FLOAT32, false);
        rg_module_free(copy);
        rg_module_free(m);
        cases++;
    }
    golden_close(&f);
    ck_assert(cases > 50);
    if (getenv("REGARD_GOLDEN"))
        printf("%d cases, off by %g in float64 and by %g in float32\n", cases, farthest[0],
               farthest[1]);
}
END_TEST

/* ---- text, and what a user may give ----------------------------------------------- */

START_TEST(test_repr) {
    rg_transformer *m = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 2,
                                          .num_decoder_layers = 1, .dim_feedforward = 6);
    ck_assert_str_eq(
        rg_module_repr(m),
        "Transformer(\n"
        "  (encoder): TransformerEncoder(\n"
        "    (layers): ModuleList(\n"
        "      (0-1): 2 x TransformerEncoderLayer(\n"
        "        (self_attn): MultiheadAttention(\n"
        "          (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, "
        "bias=True)\n"
        "        )\n"
        "        (linear1): Linear(in_features=4, out_features=6, bias=True)\n"
        "        (dropout): Dropout(p=0.1, inplace=False)\n"
        "        (linear2): Linear(in_features=6, out_features=4, bias=True)\n"
        "        (norm1): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "        (norm2): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "        (dropout1): Dropout(p=0.1, inplace=False)\n"
        "        (dropout2): Dropout(p=0.1, inplace=False)\n"
        "      )\n"
        "    )\n"
        "    (norm): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "  )\n"
        "  (decoder): TransformerDecoder(\n"
        "    (layers): ModuleList(\n"
        "      (0): TransformerDecoderLayer(\n"
        "        (self_attn): MultiheadAttention(\n"
        "          (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, "
        "bias=True)\n"
        "        )\n"
        "        (multihead_attn): MultiheadAttention(\n"
        "          (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, "
        "bias=True)\n"
        "        )\n"
        "        (linear1): Linear(in_features=4, out_features=6, bias=True)\n"
        "        (dropout): Dropout(p=0.1, inplace=False)\n"
        "        (linear2): Linear(in_features=6, out_features=4, bias=True)\n"
        "        (norm1): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "        (norm2): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "        (norm3): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "        (dropout1): Dropout(p=0.1, inplace=False)\n"
        "        (dropout2): Dropout(p=0.1, inplace=False)\n"
        "        (dropout3): Dropout(p=0.1, inplace=False)\n"
        "      )\n"
        "    )\n"
        "    (norm): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "  )\n"
        ")");
    ck_assert_str_eq(rg_name(m->decoder->layers->v[0] ? rg_get_parameter(m, "decoder.layers.0."
                                                                            "linear1.bias")
                                                      : NULL),
                     "decoder.layers.0.linear1.bias");
    rg_module_free(m);
    rg_transformer *whole = rg_nn_transformer();
    /* PyTorch's Transformer has as many parameters. */
    ck_assert(rg_num_parameters(whole) == 44140544 && whole->d_model == 512 && whole->nhead == 8);
    rg_module_free(whole);
}
END_TEST

/* A layer of the program, which takes the keywords of an encoder's layers. */
static int halved;
static rg_tensor *halve(rg_module *m, rg_list in, void *keywords) {
    const rg_src_options *o = keywords;
    (void)m;
    halved++;
    return rg_mul(in.v[0], o->src_mask == RG_NONE ? 0.5 : 2);
}
static const rg_module_class halve_class = { .name = "Halve",
                                             .forward_with = halve,
                                             .keywords_bytes = sizeof(rg_src_options) };
/* An encoder and a decoder of the program. */
static rg_tensor *read_on(rg_module *m, rg_list in, void *keywords) {
    (void)m;
    const rg_mask_options *o = keywords;
    return o->mask == RG_NONE ? rg_mul(in.v[0], 3) : NULL;
}
static rg_tensor *write_on(rg_module *m, rg_list in, void *keywords) {
    (void)m;
    const rg_tgt_options *o = keywords;
    return o->tgt_is_causal ? rg_add(in.v[0], in.v[1]) : NULL;
}
static const rg_module_class reader_class = { .name = "Reader",
                                              .forward_with = read_on,
                                              .keywords_bytes = sizeof(rg_mask_options) };
static const rg_module_class writer_class = { .name = "Writer",
                                              .forward_with = write_on,
                                              .keywords_bytes = sizeof(rg_tgt_options) };
typedef struct {
    rg_module base;
} Plain;

START_TEST(test_modules_of_ones_own) {
    rg_transformer_encoder *m = rg_nn_transformer_encoder(RG_READY(RG_MODULE(Plain, &halve_class)),
                                                          3, .norm = rg_nn_relu());
    ck_assert(rg_item(rg_transformer_encoder_forward(m, rg_scalar(8))) == 1);
    ck_assert(rg_item(rg_transformer_encoder_forward(m, rg_scalar(8), .mask = rg_zeros())) == 64);
    rg_module_free(m);
    rg_transformer *t = rg_nn_transformer(.d_model = 2,
                                          .custom_encoder = RG_MODULE(Plain, &reader_class),
                                          .custom_decoder = RG_MODULE(Plain, &writer_class));
    rg_tensor *y = rg_transformer_forward(t, rg_ones(1, 1, 2), rg_ones(1, 1, 2),
                                          .tgt_is_causal = true);
    ck_assert(rg_item(rg_sum(y)) == 8);
    rg_module_free(t);
    m = rg_nn_transformer_encoder(rg_nn_relu(), 1);
    ck_fails(rg_call(m, rg_ones(2)), RG_TYPE_ERROR,
             "ReLU.forward() got unexpected keyword arguments");
    rg_module_free(m);
    /* The constructor draws all weights anew, but can't write to one of them. */
    rg_linear_module *one = rg_nn_linear(2, 2);
    RG_PARAMETER(one, weight, rg_expand(rg_zeros(1), 2, 2));
    ck_ok(one);
    ck_fails(rg_nn_transformer(.d_model = 2, .nhead = 1, .custom_encoder = one), RG_RUNTIME_ERROR,
             "more than one element of the written-to tensor refers to a single memory location");
}
END_TEST

START_TEST(test_bad_arguments) {
    rg_transformer *m = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                          .num_decoder_layers = 1, .dim_feedforward = 3);
    ck_fails(rg_transformer_forward(m, rg_zeros(3, 2, 4), rg_zeros(5, 3, 4)), RG_RUNTIME_ERROR,
             "transformer: the batch number of src and tgt must be equal");
    ck_fails(rg_call(m, rg_zeros(3, 2, 4), rg_zeros(5, 2, 6)), RG_RUNTIME_ERROR,
             "the feature number of src and tgt must be equal to d_model");
    ck_fails(rg_call(m, rg_zeros(3), rg_zeros(3, 4)), RG_INDEX_ERROR,
             "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    ck_fails(rg_call(m, rg_zeros(3, 4)), RG_TYPE_ERROR,
             "Transformer.forward() missing 1 required positional argument: 'tgt'");
    ck_fails(rg_transformer_forward(m, rg_zeros(3, 4), rg_zeros(2, 4),
                                    .src_mask = rg_long(rg_zeros(3, 3))),
             RG_RUNTIME_ERROR, "only bool and floating types of mask are supported");
    ck_fails(rg_transformer_forward(m, rg_zeros(3, 4), rg_zeros(2, 4), .tgt_is_causal = true),
             RG_RUNTIME_ERROR, "Need attn_mask if specifying the is_causal hint");
    ck_fails(rg_transformer_decoder_forward(m->decoder, rg_zeros(3, 4), rg_zeros(2, 1, 4)),
             RG_RUNTIME_ERROR, "For unbatched (2-D) `query`, expected `key` and `value` to be 2-D");
    ck_fails(rg_call(m, RG_NONE, rg_zeros(3, 4)), RG_TYPE_ERROR, "transformer: expected a tensor");
    ck_fails(rg_call(m, rg_zeros(3, 4), RG_NONE), RG_TYPE_ERROR, "transformer: expected a tensor");
    ck_fails(rg_call(m->encoder, RG_NONE), RG_TYPE_ERROR, "transformer_encoder: expected a tensor");
    ck_fails(rg_call(m->decoder, RG_NONE, RG_NONE), RG_TYPE_ERROR,
             "transformer_decoder: expected a tensor");
    ck_assert(!rg_call(m->encoder, (rg_tensor *)NULL));
    rg_error_clear();
    ck_fails(rg_transformer_encoder_forward(m->encoder, rg_zeros(3, 4),
                                            .src_key_padding_mask = rg_long(rg_zeros(3))),
             RG_RUNTIME_ERROR,
             "transformer_encoder: only bool and floating types of src_key_padding_mask are");
    rg_module_free(m);
    ck_fails(rg_nn_transformer(.d_model = 4, .nhead = 3), RG_RUNTIME_ERROR,
             "embed_dim must be divisible by num_heads");
    ck_fails(rg_nn_transformer(.activation = NULL), RG_TYPE_ERROR, "a function as activation");
    /* The error is about the first submodule that can't be made. */
    ck_fails(rg_nn_transformer(.d_model = -1), RG_VALUE_ERROR,
             "embed_dim and num_heads must be greater than 0, got embed_dim=-1");
    ck_fails(rg_nn_transformer(.d_model = -1, .custom_encoder = rg_nn_relu()), RG_VALUE_ERROR,
             "embed_dim and num_heads must be greater than 0, got embed_dim=-1");
    ck_fails(rg_nn_transformer_encoder_layer(-1, 2), RG_VALUE_ERROR,
             "embed_dim and num_heads must be greater than 0, got embed_dim=-1");
    ck_fails(rg_nn_transformer_decoder_layer(-1, 2), RG_VALUE_ERROR,
             "embed_dim and num_heads must be greater than 0, got embed_dim=-1");
    ck_fails(rg_nn_transformer_decoder_layer(4, 2, .activation = NULL), RG_TYPE_ERROR,
             "a function as activation");
    ck_fails(rg_nn_transformer_decoder_layer(4, 2, .dropout = -1), RG_VALUE_ERROR,
             "dropout probability has to be between 0 and 1, but got -1.0");
    ck_fails(rg_nn_transformer_encoder(NULL, 2), RG_TYPE_ERROR, "expected a module but got NULL");
    ck_fails(rg_nn_transformer_decoder(NULL, 2, .norm = rg_nn_relu()), RG_TYPE_ERROR,
             "expected a module but got NULL");
    ck_assert(!rg_nn_transformer_encoder(rg_nn_relu(), 2, .norm = NULL)
              && !rg_nn_transformer(.custom_encoder = NULL));
    rg_error_clear();
    /* Without layers, the constructor succeeds and a call fails, as in PyTorch. */
    rg_transformer_encoder *none = rg_nn_transformer_encoder(rg_nn_relu(), -1);
    ck_fails(rg_call(none, rg_zeros(2)), RG_INDEX_ERROR, "index 0 is out of range");
    rg_module_free(none);
    rg_transformer_decoder *nobody = rg_nn_transformer_decoder(rg_nn_relu(), 0);
    ck_fails(rg_call(nobody, rg_zeros(2), rg_zeros(2)), RG_INDEX_ERROR, "index 0 is out of range");
    rg_module_free(nobody);
}
END_TEST

/* If the module is NULL, the error names the function that was called. */
START_TEST(test_no_module) {
    rg_tensor *x = rg_zeros(3, 4);
#define WITHOUT_MODULE(call, name) \
    ck_fails(call, RG_TYPE_ERROR, name ": expected a module but got NULL")
    WITHOUT_MODULE(rg_transformer_forward(NULL, x, x), "transformer");
    WITHOUT_MODULE(rg_transformer_encoder_forward(NULL, x), "transformer_encoder");
    WITHOUT_MODULE(rg_transformer_encoder_layer_forward(NULL, x), "transformer_encoder_layer");
    WITHOUT_MODULE(rg_transformer_decoder_forward(NULL, x, x), "transformer_decoder");
    WITHOUT_MODULE(rg_transformer_decoder_layer_forward(NULL, x, x), "transformer_decoder_layer");
    WITHOUT_MODULE(rg_transformer_decoder_cache(NULL, x, 3).tgt, "transformer_decoder_cache");
    WITHOUT_MODULE(rg_multihead_attention_forward(NULL, x, x, x).output, "multihead_attention");
    WITHOUT_MODULE(rg_rnn_forward(NULL, x).output, "rnn_forward");
    WITHOUT_MODULE(rg_lstm_cell_forward(NULL, x).h, "lstm_cell_forward");
}
END_TEST

/* A module takes as many inputs with keywords as without them. */
START_TEST(test_numbers_of_inputs) {
    rg_tensor *x = rg_zeros(3, 4), *in[] = { x, x, x, x };
    rg_transformer *m = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                          .num_decoder_layers = 1, .dim_feedforward = 3);
    rg_transformer_encoder_layer *reads = (void *)m->encoder->layers->v[0];
    const struct {
        rg_module *m;
        int takes;
    } all[] = {
        { &m->base, 2 },     { &m->encoder->base, 1 },        { &m->decoder->base, 2 },
        { &reads->base, 1 }, { m->decoder->layers->v[0], 2 }, { &reads->self_attn->base, 3 }
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int n = 0; n < 5; n++) {
            char keywords[512] = "";
            if (n == all[i].takes)
                continue;
            ck_fails(
                rg_call_with(all[i].m, rg_list_of(n, in), keywords, all[i].m->cls->keywords_bytes),
                RG_TYPE_ERROR, n < all[i].takes ? ".forward() missing " : ".forward() takes ");
        }
    rg_module_free(m);
}
END_TEST

/* If gradients are wanted, torch takes its slow path, which doesn't set padded positions to zero.
 */
START_TEST(test_padding_that_is_cut_off) {
    RG_SCOPE();
    rg_transformer_encoder *m = rg_nn_transformer_encoder(
        rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3, .batch_first = true), 1);
    ck_ok(m);
    rg_eval(m);
    rg_tensor *src = rg_randn(2, 3, 4), *mask = rg_zeros_dims(RG_DIMS(2, 3), RG_BOOL);
    rg_fill_(rg_select(rg_select(mask, 0, 0), 0, 2), 1);
    for (int on = 1; on >= 0; on--) {
        ck_ok(rg_module_requires_grad_(m, on));
        rg_tensor *y = rg_transformer_encoder_forward(m, src, .src_key_padding_mask = mask);
        ck_ok(y);
        rg_tensor *there = rg_detach(rg_select(rg_select(y, 0, 0), 0, 2));
        ck_assert((rg_item(rg_sum(rg_abs(there))) == 0) == !on);
        RG_NO_GRAD();
        y = rg_transformer_encoder_forward(m, src, .src_key_padding_mask = mask);
        ck_assert(rg_item(rg_sum(rg_abs(rg_select(rg_select(y, 0, 0), 0, 2)))) == 0);
    }
    /* One weight that requires grad is enough for the slow path. */
    rg_list weights = rg_parameters(m);
    ck_assert_int_eq(weights.n, 12);
    for (int i = 0; i < weights.n; i++) {
        ck_ok(rg_requires_grad_(weights.v[i], true));
        rg_tensor *y = rg_transformer_encoder_forward(m, src, .src_key_padding_mask = mask);
        ck_ok(y);
        rg_tensor *there = rg_detach(rg_select(rg_select(y, 0, 0), 0, 2));
        ck_assert_msg(rg_item(rg_sum(rg_abs(there))) > 0, "weight %d", i);
        ck_ok(rg_requires_grad_(weights.v[i], false));
    }
    /* The weights are frozen now. An src that requires grad is enough, too. */
    rg_tensor *y = rg_transformer_encoder_forward(m, rg_requires_grad_(rg_clone(src), true),
                                                  .src_key_padding_mask = mask);
    ck_ok(y);
    ck_assert(rg_item(rg_sum(rg_abs(rg_detach(rg_select(rg_select(y, 0, 0), 0, 2))))) > 0);
    rg_module_free(m);
}
END_TEST

/* The forward of a module that replaces a layer's MultiheadAttention. It returns the query
 * unchanged, and no weights. */
static rg_tensor *gives_back(rg_module *m, rg_list in, void *keywords) {
    (void)m;
    ((rg_multihead_keywords *)keywords)->weights = RG_NONE;
    return in.v[0];
}
static const rg_module_class other_class = { .name = "Other",
                                             .forward_with = gives_back,
                                             .keywords_bytes = sizeof(rg_multihead_keywords) };

/* Returns whether the encoder's output is zero where src is padded. Frees the encoder. */
static bool cuts_off(rg_transformer_encoder *m, bool masked) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *src = rg_randn(2, 3, 4), *padding = rg_zeros_dims(RG_DIMS(2, 3), RG_BOOL);
    rg_fill_(rg_select(rg_select(padding, 0, 1), 0, 2), 1);
    ck_ok(m);
    rg_tensor *y = rg_transformer_encoder_forward(m, src, .src_key_padding_mask = padding,
                                                  .mask = masked ? rg_zeros(3, 3) : RG_NONE);
    ck_ok(y);
    rg_module_free(m);
    return rg_item(rg_sum(rg_abs(rg_select(rg_select(y, 0, 1), 0, 2)))) == 0;
}

/* FAST makes a layer for which torch can take its fast path. On this path, torch sets padded
 * positions to zero. */
#define FAST(heads, ...)                                                                 \
    rg_nn_transformer_encoder_layer(4, heads, .dim_feedforward = 3, .batch_first = true, \
                                    __VA_ARGS__)
static rg_transformer_encoder *eval_of(void *layer) {
    rg_transformer_encoder *m = rg_nn_transformer_encoder(layer, 2);
    rg_eval(m);
    return m;
}

START_TEST(test_padding_that_is_kept) {
    ck_assert(cuts_off(eval_of(FAST(2, .dropout = 0)), false));
    ck_assert(cuts_off(eval_of(FAST(4, .activation = rg_gelu)), false));
    ck_assert(!cuts_off(eval_of(FAST(2, .dropout = 0)), true));
    ck_assert(!cuts_off(eval_of(FAST(1, .dropout = 0)), false));
    ck_assert(!cuts_off(eval_of(FAST(2, .bias = false)), false));
    ck_assert(!cuts_off(eval_of(FAST(2, .activation = rg_tanh)), false));
    ck_assert(!cuts_off(eval_of(FAST(2, .norm_first = true)), false));
    ck_assert(!cuts_off(rg_nn_transformer_encoder(FAST(2, .dropout = 0), 2), false));
    rg_transformer_encoder *m = rg_nn_transformer_encoder(FAST(2, .dropout = 0), 1,
                                                          .enable_nested_tensor = false);
    rg_eval(m);
    ck_assert(!cuts_off(m, false));
    rg_transformer_encoder_layer *l = FAST(2, .dropout = 0);
    RG_CHILD(l, self_attn, RG_READY(RG_MODULE(rg_multihead_attention, &other_class)));
    ck_assert(!cuts_off(eval_of(l), false));
    /* If the batch is the second dim, nothing is set to zero, although the shape of the mask
     * fits. */
    RG_NO_GRAD();
    m = eval_of(rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3));
    rg_tensor *padding = rg_zeros_dims(RG_DIMS(3, 3), RG_BOOL);
    rg_fill_(rg_select(rg_select(padding, 0, 1), 0, 2), 1);
    rg_tensor *y = rg_transformer_encoder_forward(m, rg_randn(3, 3, 4),
                                                  .src_key_padding_mask = padding);
    ck_assert(rg_item(rg_sum(rg_abs(rg_select(rg_select(y, 0, 1), 0, 2)))) > 0);
    ck_assert(rg_item(rg_sum(rg_abs(rg_select(rg_select(y, 0, 2), 0, 1)))) > 0);
    rg_module_free(m);
    /* A layer of another class doesn't count as a TransformerEncoderLayer, even if it has the same
     * fields. */
    l = FAST(2, .dropout = 0);
    l->base.cls = &halve_class;
    ck_assert(!cuts_off(eval_of(l), false));
}
END_TEST

/* The encoder leaves a padding mask of a wrong shape to attention, which refuses it in torch's
 * words. */
START_TEST(test_padding_of_other_shapes) {
    RG_NO_GRAD();
    rg_transformer_encoder *m = eval_of(FAST(2, .dropout = 0));
    rg_tensor *src = rg_randn(2, 3, 4);
    static const struct {
        rg_dims shape;
        const char *sentence;
    } others[] = {
        { { .n = 1, .v = { 3 } }, "to be `None` or 2-D but found 1-D tensor instead" },
        { { .n = 3, .v = { 2, 3, 1 } }, "to be `None` or 2-D but found 3-D tensor instead" },
        { { .n = 2, .v = { 1, 3 } }, "Expected key_padded_mask.shape[0] to be 2, but got 1" },
        { { .n = 2, .v = { 2, 2 } }, "Expected key_padded_mask.shape[1] to be 3, but got 2" },
        { { .n = 2, .v = { 2, 4 } }, "Expected key_padded_mask.shape[1] to be 3, but got 4" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rg_tensor *mask = rg_ones_dims(others[i].shape, RG_BOOL);
        ck_fails(rg_transformer_encoder_forward(m, src, .src_key_padding_mask = mask),
                 RG_RUNTIME_ERROR, others[i].sentence);
    }
    rg_tensor *y = rg_transformer_encoder_forward(
        m, rg_zeros(2, 0, 4), .src_key_padding_mask = rg_zeros_dims(RG_DIMS(2, 0), RG_BOOL));
    ck_assert(y && rg_size(y, 1) == 0);
    rg_module_free(m);
}
END_TEST

static rg_tensor *encoded;
static void encodes(void *m) {
    encoded = rg_transformer_encoder_forward(m, rg_ones(2, 3, 4),
                                             .src_key_padding_mask = rg_zeros(2, 3));
}

/* The encoder reads where the padding is, which a run wouldn't do again. So the step is refused
 * before any layer is called. */
START_TEST(test_padding_in_a_recorded_step) {
    rg_transformer_encoder *m = eval_of(FAST(2, .dropout = 0));
    ck_ok(rg_module_list_set(m->layers, 1, RG_READY(RG_MODULE(Plain, &halve_class))));
    halved = 0;
    encoded = RG_NONE;
    ck_fails(rg_record(encodes, m), RG_NOT_IMPLEMENTED,
             "transformer_encoder: can't be part of a recorded step");
    ck_assert(!encoded && halved == 0);
    rg_module_free(m);
}
END_TEST

/* A decoder and its layer take two inputs, in rg_call and in their own functions. */
START_TEST(test_ways_to_call_a_decoder_layer) {
    RG_SCOPE();
    rg_transformer_decoder_layer *m = rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3,
                                                                      .dropout = 0);
    ck_ok(m);
    rg_tensor *tgt = rg_randn(3, 4), *memory = rg_randn(2, 4);
    rg_transformer_decoder *all = rg_nn_transformer_decoder(rg_deepcopy(m), 2);
    rg_tensor *y = rg_call(all, tgt, memory);
    ck_ok(y);
    ck_assert(rg_equal(y, rg_transformer_decoder_forward(all, tgt, memory)));
    ck_assert(!rg_equal(rg_transformer_decoder_forward(all, memory, tgt), y));
    rg_module_free(all);
    y = rg_call(m, tgt, memory);
    ck_ok(y);
    ck_assert(rg_equal(y, rg_transformer_decoder_layer_forward(m, tgt, memory)));
    ck_fails(rg_call(m, tgt), RG_TYPE_ERROR, "TransformerDecoderLayer");
    rg_tgt_options o = { .tgt_mask = RG_NONE,
                         .memory_mask = RG_NONE,
                         .tgt_key_padding_mask = RG_NONE,
                         .memory_key_padding_mask = RG_NONE };
    ck_ok(rg_call_keywords(m, &o, tgt, memory));
    ck_fails(rg_call_keywords(m, &o, tgt), RG_TYPE_ERROR, "TransformerDecoderLayer");
    ck_fails(rg_call_keywords(m, &o, tgt, memory, tgt), RG_TYPE_ERROR, "TransformerDecoderLayer");
    rg_module_free(m);
}
END_TEST

static rg_module *asked, *not_called;
static void *keywords_seen;
static rg_tensor *asks_for_keywords(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    (void)context;
    keywords_seen = rg_keywords_of_call(asked);
    ck_assert(rg_error_code() == RG_OK);
    ck_fails(rg_keywords_of_call(not_called), RG_RUNTIME_ERROR,
             "keywords_of_call: no call of the ReLU is under way");
    return y;
}

/* A hook on a submodule can get the keywords of the layer that is being called. */
START_TEST(test_keywords_from_inside) {
    RG_SCOPE();
    rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3);
    asked = &m->base;
    not_called = (rg_module *)rg_nn_relu();
    ck_assert_int_ge(rg_register_forward_hook(&m->linear1->base, asks_for_keywords, NULL), 0);
    ck_ok(rg_transformer_encoder_layer_forward(m, rg_randn(3, 4)));
    ck_assert_ptr_nonnull(keywords_seen);
    rg_module_free(not_called);
    rg_module_free(m);
}
END_TEST

/* An encoder copies a layer that is another module's child. The layer stays where it is. */
START_TEST(test_layers_are_copies) {
    rg_sequential *home =
        rg_nn_sequential(rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3));
    rg_transformer_encoder *m = rg_nn_transformer_encoder(home->v[0], 2);
    ck_assert(m && m->layers->n == 2 && home->n == 1 && !m->norm);
    rg_tensor *w = rg_get_parameter(home, "0.linear1.weight");
    for (int i = 0; i < 2; i++) {
        rg_transformer_encoder_layer *layer = (void *)m->layers->v[i];
        ck_assert(layer->linear1->weight != w && rg_equal(layer->linear1->weight, w));
    }
    rg_module_free(home);
    ck_ok(rg_call(m, rg_zeros(3, 4)));
    rg_module_free(m);
}
END_TEST

static rg_tensor *call_whole(rg_tensor *const in[], void *m) {
    return rg_transformer_forward(m, in[0], rg_mul(in[0], 2),
                                  .tgt_mask = rg_generate_square_subsequent_mask(2));
}

START_TEST(test_second_order) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    for (int first = 0; first < 2; first++) {
        RG_SCOPE();
        rg_transformer *m = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                              .num_decoder_layers = 1, .dim_feedforward = 3,
                                              .dropout = 0, .activation = rg_gelu,
                                              .norm_first = first);
        twin_gradcheck(call_whole, m, twin_drawn(RG_DIMS(2, 1, 4), RG_FLOAT64));
        rg_module_free(m);
    }
}
END_TEST

/* ---- one position after the other -------------------------------------------------- */

/* Returns the n positions of x from `at` on. */
static rg_tensor *piece(rg_tensor *x, int dim, int64_t at, int64_t n) {
    return rg_narrow(x, dim, at, n);
}

/* Writes T positions in pieces of these sizes. Compares the output with that for all positions at
 * once. */
static void write_in_pieces(bool batch_first, bool norm_first, bool batched, const int *sizes) {
    RG_SCOPE();
    enum { T = 7, S = 5, B = 3, D = 4 };
    rg_transformer *m = rg_nn_transformer(.d_model = D, .nhead = 2, .num_encoder_layers = 2,
                                          .num_decoder_layers = 3, .dim_feedforward = 6,
                                          .batch_first = batch_first, .norm_first = norm_first);
    rg_eval(m);
    int dim = batched && batch_first;
    rg_dims shapes[] = { RG_DIMS(S, D), RG_DIMS(T, D) };
    if (batched)
        for (int i = 0; i < 2; i++)
            shapes[i] = batch_first ? RG_DIMS(B, shapes[i].v[0], D) : RG_DIMS(shapes[i].v[0], B, D);
    rg_tensor *src = twin_drawn(shapes[0], RG_FLOAT64), *tgt = twin_drawn(shapes[1], RG_FLOAT64);
    rg_tensor *padding = rg_parse("[[False, False, False, False, False], "
                                  "[False, False, False, True, True], "
                                  "[False, True, True, True, True]]");
    if (!batched)
        padding = rg_select(padding, 0, 1);
    rg_tensor *written = rg_parse("[[False, False, False, False, False, False, False], "
                                  "[False, False, True, False, False, False, False], "
                                  "[False, False, False, False, False, True, True]]");
    if (!batched)
        written = rg_select(written, 0, 1);
    rg_tensor *memory = rg_transformer_encoder_forward(m->encoder, src,
                                                       .src_key_padding_mask = padding);
    rg_tensor *whole = rg_transformer_decoder_forward(
        m->decoder, tgt, memory, .tgt_mask = rg_generate_square_subsequent_mask(T),
        .tgt_key_padding_mask = written, .memory_key_padding_mask = padding);
    ck_ok(whole);
    rg_decoder_cache cache = rg_transformer_decoder_cache(m->decoder, memory, T);
    ck_ok(cache.tgt);
    for (int at = 0; at < T; at += *sizes++) {
        RG_SCOPE();
        rg_tensor *y = rg_transformer_decoder_forward(
            m->decoder, piece(tgt, dim, at, *sizes), memory,
            .tgt_key_padding_mask = rg_narrow(written, -1, 0, at + *sizes),
            .memory_key_padding_mask = padding, .cache = &cache);
        ck_ok(y);
        ck_assert(!rg_requires_grad(y) && cache.length == at + *sizes);
        ck_assert(rg_allclose(y, piece(whole, dim, at, *sizes), 1e-12, 1e-12));
    }
    /* The cache is full. One more position fails, and leaves the cache as it was. */
    ck_fails(
        rg_transformer_decoder_forward(m->decoder, piece(tgt, dim, 0, 1), memory, .cache = &cache),
        RG_RUNTIME_ERROR, "the cache has room for 7 positions, but 8 are needed");
    ck_assert(cache.length == T);
    rg_module_free(m);
}

START_TEST(test_cache) {
    const int pieces[][8] = { { 1, 1, 1, 1, 1, 1, 1 }, { 7 }, { 3, 1, 3 }, { 1, 4, 2 }, { 2, 5 } };
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (int how = 0; how < 8; how++)
            write_in_pieces(how & 1, how & 2, how & 4, pieces[i]);
}
END_TEST

/* Hooks of the layers, and of the modules inside them, are called with a cache as without one. */
static rg_tensor *count(rg_module *m, rg_list in, rg_tensor *y, void *calls) {
    (void)m;
    (void)in;
    (void)y;
    ++*(int *)calls;
    return RG_NONE;
}

START_TEST(test_hooks_with_cache) {
    rg_transformer_decoder *m =
        rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3), 2,
                                  .norm = rg_nn_layer_norm(4));
    rg_named_modules_list all = rg_named_modules(m);
    int without = 0, with = 0;
    rg_tensor *x = rg_ones(1, 2, 4);
    for (int k = 0; k < 2; k++) {
        int ids[64];
        for (int i = 0; i < all.n; i++)
            ids[i] = rg_register_forward_hook(all.v[i].module, count, k ? &with : &without);
        if (k) {
            rg_decoder_cache cache = rg_transformer_decoder_cache(m, x, 2);
            ck_ok(rg_transformer_decoder_forward(m, x, x, .cache = &cache));
        } else
            ck_ok(rg_call(m, x, x));
        for (int i = 0; i < all.n; i++)
            rg_remove_forward_hook(all.v[i].module, ids[i]);
    }
    ck_assert_int_eq(with, without);
    ck_assert(without > 2 * 11);
    rg_module_free(m);
}
END_TEST

START_TEST(test_bad_caches) {
    rg_transformer_decoder *m =
        rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3), 2);
    rg_tensor *x = rg_ones(3, 2, 4);
    rg_decoder_cache cache = rg_transformer_decoder_cache(m, x, 2), other = cache;
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &cache), RG_RUNTIME_ERROR,
             "the cache has room for 2 positions, but 3 are needed");
    rg_tensor *others[] = { rg_ones(2, 2, 4), rg_ones(3, 1, 4), rg_ones(3, 2, 5), rg_ones(3, 4),
                            rg_ones(4) };
    for (int i = 0; i < (int)(sizeof others / sizeof *others); i++)
        ck_fails(rg_transformer_decoder_forward(m, rg_ones(1, 2, 4), others[i], .cache = &cache),
                 RG_RUNTIME_ERROR, "the cache holds the keys of 3 positions of 2 memories of width "
                 "4");
    other.length = INT64_MAX;
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &other), RG_RUNTIME_ERROR,
             "the cache has room for 2 positions, but 9223372036854775810 are needed");
    other.length = 0;
    ck_assert(cache.length == 0);
    other.tgt = rg_narrow(cache.tgt, 0, 0, 1);
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &other), RG_RUNTIME_ERROR,
             "expected a cache for 2 layers, but got torch.Size([1, 2, 2, 2, 2, 2])");
    other.tgt = rg_zeros(2, 2, 3, 2, 2, 2);
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &other), RG_RUNTIME_ERROR,
             "expected a cache of (2, 2, positions, 2), but got torch.Size([3, 2, 2, 2])");
    /* In this cache two layers share the same memory, so the cache is refused. */
    other.tgt = rg_expand_dims(rg_zeros(1, 2, 2, 2, 3, 2), RG_DIMS(2, 2, 2, 2, 3, 2));
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &other), RG_RUNTIME_ERROR,
             "more than one element of the cache's tgt refers to a single memory location");
    other = (rg_decoder_cache){ NULL, NULL, 0 };
    ck_assert(!rg_transformer_decoder_forward(m, x, x, .cache = &other));
    rg_error_clear();
    other = (rg_decoder_cache){ cache.tgt, NULL, 0 };
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &other), RG_TYPE_ERROR,
             "transformer_decoder: expected a tensor but got NULL");
    other = (rg_decoder_cache){ RG_NONE, cache.memory, 0 };
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &other), RG_TYPE_ERROR,
             "transformer_decoder: expected a tensor but got RG_NONE");
    other = (rg_decoder_cache){ rg_zeros(2, 2, 2, 4, 2), rg_zeros(2, 2), 0 };
    ck_fails(rg_transformer_decoder_layer_forward((void *)m->layers->v[0], x, x, .cache = &other),
             RG_RUNTIME_ERROR, "expected a cache of (2, 2, positions, 2), but got torch.Size([2])");
    rg_transformer_decoder_layer *layer = (void *)m->layers->v[1];
    rg_multihead_attention *attention = layer->multihead_attn;
    layer->multihead_attn = NULL;
    ck_fails(rg_transformer_decoder_cache(m, x, 2).tgt, RG_TYPE_ERROR, "expected a module");
    layer->multihead_attn = attention;
    ck_fails(rg_transformer_decoder_cache(m, x, -1).tgt, RG_RUNTIME_ERROR,
             "Dimension size must be non-negative.");
    ck_fails(rg_transformer_decoder_cache(m, rg_ones(3), 1).tgt, RG_RUNTIME_ERROR,
             "unbatched 2D or batched 3D");
    rg_module_list_set(m->layers, 1, rg_nn_relu());
    ck_fails(rg_transformer_decoder_cache(m, x, 1).tgt, RG_TYPE_ERROR,
             "a cache needs layers of TransformerDecoderLayer, but layer 1 is a ReLU");
    ck_fails(rg_transformer_decoder_forward(m, x, x, .cache = &cache), RG_TYPE_ERROR,
             "a cache needs layers of TransformerDecoderLayer");
    /* A layer of another class doesn't count as a TransformerDecoderLayer, even if it has the same
     * fields. */
    rg_module *first = m->layers->v[0];
    const rg_module_class *cls = first->cls;
    rg_module_list_set(m->layers, 1, rg_deepcopy(first));
    first->cls = &halve_class;
    ck_fails(rg_transformer_decoder_cache(m, x, 1).tgt, RG_TYPE_ERROR,
             "a cache needs layers of TransformerDecoderLayer, but layer 0 is a ");
    first->cls = cls;
    ck_ok(rg_transformer_decoder_cache(m, x, 1).tgt);
    rg_module_free(m);
    rg_multihead_attention *a = rg_nn_multihead_attention(4, 2, .add_zero_attn = true);
    rg_attention_cache seen = { rg_zeros(2, 2, 5, 2), rg_zeros(2, 2, 5, 2), 0, false };
    ck_fails(rg_multihead_attention_forward(a, x, x, x, .cache = &seen).output, RG_RUNTIME_ERROR,
             "a cache can't stand beside add_bias_kv or add_zero_attn");
    rg_module_free(a);
}
END_TEST

#define CACHED(q, k, v, ...) \
    rg_multihead_attention_forward(m, q, k, v, .cache = &seen, __VA_ARGS__).output

/* Attention with a cache refuses what it refuses without one, and writes nothing to the cache. */
START_TEST(test_bad_inputs_beside_a_cache) {
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2);
    rg_attention_cache seen = { rg_zeros(2, 2, 5, 2), rg_zeros(2, 2, 5, 2), 0, false };
    rg_tensor *x = rg_ones(3, 2, 4), *few = rg_ones(2, 2, 4);
    ck_fails(CACHED(RG_NONE, x, x, .need_weights = true), RG_TYPE_ERROR,
             "multihead_attention: expected a tensor but got RG_NONE");
    ck_fails(CACHED(x, RG_NONE, x, .need_weights = true), RG_TYPE_ERROR,
             "multihead_attention: expected a tensor but got RG_NONE");
    ck_fails(CACHED(x, x, RG_NONE, .need_weights = true), RG_TYPE_ERROR,
             "multihead_attention: expected a tensor but got RG_NONE");
    ck_fails(CACHED(rg_ones(4), x, x, .need_weights = true), RG_RUNTIME_ERROR,
             "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor");
    ck_fails(CACHED(x, rg_ones(3, 4), x, .need_weights = true), RG_RUNTIME_ERROR,
             "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and "
             "3-D tensors respectively");
    ck_fails(CACHED(rg_ones(3, 2, 6), x, x, .need_weights = true), RG_RUNTIME_ERROR,
             "was expecting embedding dimension of 4, but got 6");
    ck_fails(CACHED(x, x, few, .need_weights = true), RG_RUNTIME_ERROR,
             "key shape torch.Size([3, 2, 4]) does not match value shape torch.Size([2, 2, 4])");
    ck_assert(rg_item(rg_sum(rg_abs(seen.keys))) == 0 && seen.length == 0);
    ck_fails(CACHED(x, x, x, .attn_mask = rg_zeros(1, 1, 3, 3)), RG_RUNTIME_ERROR,
             "expected `attn_mask` to be `None`, 2-D or 3-D but found 4-D");
    ck_fails(CACHED(x, x, x, .attn_mask = rg_long(rg_zeros(3, 3))), RG_RUNTIME_ERROR,
             "only bool and floating types of attn_mask are supported");
    ck_fails(CACHED(x, x, x, .key_padding_mask = rg_long(rg_zeros(2, 3))), RG_RUNTIME_ERROR,
             "only bool and floating types of key_padding_mask are supported");
    ck_fails(CACHED(x, x, x, .key_padding_mask = rg_zeros(3)), RG_RUNTIME_ERROR,
             "expected `key_padding_mask` to be `None` or 2-D but found 1-D");
    ck_assert(seen.length == 0);
    /* If the cache is complete, the key and the value of the call aren't used, and may be
     * absent. */
    seen.complete = true;
    seen.length = 5;
    ck_ok(CACHED(x, RG_NONE, RG_NONE, .need_weights = false));
    ck_fails(CACHED(rg_ones(3, 2, 6), x, x, .need_weights = false), RG_RUNTIME_ERROR,
             "was expecting embedding dimension of 4, but got 6");
    ck_fails(CACHED(rg_ones(4), x, x, .need_weights = false), RG_RUNTIME_ERROR,
             "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor");
    rg_module_free(m);
}
END_TEST

/* Each query sees all of the memory, even if it has as many positions as there are queries. */
START_TEST(test_a_memory_of_the_same_length) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_transformer_decoder *m =
        rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3), 2);
    rg_tensor *tgt = rg_randn(3, 2, 4), *memory = rg_randn(3, 2, 4);
    rg_eval(m);
    rg_decoder_cache cache = rg_transformer_decoder_cache(m, memory, 5);
    rg_tensor *mask = rg_generate_square_subsequent_mask(3);
    ck_assert(rg_allclose(rg_transformer_decoder_forward(m, tgt, memory, .cache = &cache),
                          rg_transformer_decoder_forward(m, tgt, memory, .tgt_mask = mask), 1e-12,
                          1e-12));
    /* A single query needs no causal mask, since it is the last position. */
    const bool before = rg_set_profiling(true);
    const int64_t masks = rg_profile_cost("triu").calls, ops = rg_profile_cost("attention").calls;
    ck_ok(rg_transformer_decoder_forward(m, rg_narrow(tgt, 0, 0, 1), memory, .cache = &cache));
    ck_assert_int_eq(rg_profile_cost("triu").calls, masks);
    ck_assert_int_eq(rg_profile_cost("attention").calls, ops + 4);
    rg_set_profiling(before);
    rg_module_free(m);
}
END_TEST

static rg_tensor *doubled(rg_tensor *x, const char *name, void *context) {
    (void)name;
    (void)context;
    return rg_mul(x, 2);
}

/* A hook can change values inside attention with a cache, too. */
START_TEST(test_a_look_beside_a_cache) {
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2, .bias = false);
    rg_tensor *x = rg_randn(3, 2, 4);
    for (int looked = 0; looked < 2; looked++) {
        rg_attention_cache seen = { rg_zeros(2, 2, 5, 2), rg_zeros(2, 2, 5, 2), 0, false };
        rg_tensor *y = CACHED(x, x, x, .need_weights = false);
        rg_attention_cache again = { rg_zeros(2, 2, 5, 2), rg_zeros(2, 2, 5, 2), 0, false };
        seen = again;
        RG_HOOKS(m, RG_HOOKS_AT({ looked ? "hook_pattern" : "hook_z", doubled, NULL }));
        rg_tensor *twice = CACHED(x, x, x, .need_weights = false);
        ck_assert(rg_allclose(twice, rg_mul(y, 2), 1e-4, 1e-5));
    }
    rg_module_free(m);
}
END_TEST

/* Attention with a cache has the same weights as attention to all positions at once. */
START_TEST(test_attention_with_cache) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    rg_multihead_attention *m = rg_nn_multihead_attention(4, 2, .batch_first = true);
    rg_tensor *x = rg_randn(2, 5, 4);
    rg_attended whole = rg_multihead_attention_forward(
        m, x, x, x, .attn_mask = rg_generate_square_subsequent_mask(5));
    rg_attention_cache seen = { rg_zeros(2, 2, 9, 2), rg_zeros(2, 2, 9, 2), 0, false };
    for (int at = 0, n = 2; at < 5; at += n, n = 5 - at) {
        rg_tensor *part = rg_narrow(x, 1, at, n);
        rg_attended a = rg_multihead_attention_forward(m, part, part, part, .cache = &seen);
        ck_ok(a.output);
        rg_tensor *weights = rg_narrow(rg_narrow(whole.weights, 1, at, n), 2, 0, at + n);
        ck_assert(rg_allclose(a.output, rg_narrow(whole.output, 1, at, n), 1e-12, 1e-12));
        ck_assert(rg_allclose(a.weights, weights, 1e-12, 1e-12) && seen.length == at + n);
    }
    rg_tensor *part = rg_narrow(x, 1, 0, 1);
    seen.values = seen.keys;
    ck_fails(rg_multihead_attention_forward(m, part, part, part, .cache = &seen).output,
             RG_RUNTIME_ERROR, "the cache's keys and values lie in the same memory");
    rg_module_free(m);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------ */

static bool use(void) {
    rg_transformer *m = rg_nn_transformer(.d_model = 4, .nhead = 2, .num_encoder_layers = 1,
                                          .num_decoder_layers = 1, .dim_feedforward = 3);
    rg_tensor *x = rg_ones(3, 2, 4);
    bool ok = rg_backward(rg_sum(rg_call(m, x, x)));
    rg_module_free(m);
    return ok;
}

static bool use_cache(void) {
    rg_transformer_decoder *m =
        rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(2, 1, .dim_feedforward = 2), 2,
                                  .norm = rg_nn_layer_norm(2));
    rg_tensor *x = rg_ones(1, 1, 2);
    rg_decoder_cache cache = { NULL, NULL, 0 };
    if (m)
        cache = rg_transformer_decoder_cache(m, x, 2);
    bool ok = cache.tgt && rg_transformer_decoder_forward(m, x, x, .cache = &cache)
              && rg_transformer_decoder_forward(m, x, x, .cache = &cache);
    ck_assert(!ok || cache.length == 2);
    rg_module_free(m);
    return ok;
}

/* Runs an encoder that sets padded positions to zero, as PyTorch does on its fast path. */
static bool use_padding(void) {
    RG_NO_GRAD();
    rg_transformer_encoder *m = rg_nn_transformer_encoder(
        rg_nn_transformer_encoder_layer(2, 2, .dim_feedforward = 2, .batch_first = true), 1);
    if (m)
        rg_eval(m);
    rg_tensor *padding = rg_eq(rg_arange(3), 2);
    rg_tensor *y = rg_transformer_encoder_forward(m, rg_ones(1, 3, 2),
                                                  .src_key_padding_mask = rg_unsqueeze(padding, 0));
    bool ok = y && rg_item(rg_sum(rg_abs(rg_narrow(y, 1, 2, 1)))) == 0;
    rg_module_free(m);
    return ok;
}

static rg_transformer_encoder *denied;
static bool encode_padded(void) {
    RG_NO_GRAD();
    rg_tensor *padding = rg_parse("[[False, False, True]]");
    return padding
           && rg_transformer_encoder_forward(denied, rg_ones(1, 3, 4),
                                             .src_key_padding_mask = padding);
}

START_TEST(test_out_of_memory) {
    denied = eval_of(FAST(2, .dropout = 0));
    twin_out_of_memory(encode_padded);
    rg_module_free(denied);
    twin_out_of_memory(use);
    twin_out_of_memory(use_cache);
    twin_out_of_memory(use_padding);
}
END_TEST

RG_TESTS_UNGUARDED(transformers, test_padding_that_is_cut_off, test_padding_that_is_kept,
                   test_padding_of_other_shapes, test_padding_in_a_recorded_step,
                   test_ways_to_call_a_decoder_layer, test_keywords_from_inside, test_cases,
                   test_repr, test_modules_of_ones_own, test_bad_arguments, test_no_module,
                   test_numbers_of_inputs, test_layers_are_copies, test_second_order, test_cache,
                   test_hooks_with_cache, test_bad_caches, test_bad_inputs_beside_a_cache,
                   test_a_memory_of_the_same_length, test_a_look_beside_a_cache,
                   test_attention_with_cache, test_out_of_memory)

/*
 * gpt_weights.c: the names and shapes of GPT-2's weights.
 */
#include "gpt_weights.h"
#include "tensor/base.h"

#include <stdio.h>

/* The sizes of a weight's dims, named after options: EMBD is n_embd, EMBD_3 is 3 * n_embd, INNER is
 * the width of the hidden layer, VOCAB is vocab_size, and POSITIONS is block_size. The second size
 * of a vector is NO_SIZE. */
typedef enum { NO_SIZE, EMBD, EMBD_3, INNER, VOCAB, POSITIONS } weight_size;
typedef struct {
    const char *name;
    weight_size size[2];
} weight_row;
static const weight_row block_weights[] = {
    { "ln_1.weight", { EMBD } },
    { "ln_1.bias", { EMBD } },
    { "attn.c_attn.weight", { EMBD, EMBD_3 } },
    { "attn.c_attn.bias", { EMBD_3 } },
    { "attn.c_proj.weight", { EMBD, EMBD } },
    { "attn.c_proj.bias", { EMBD } },
    { "ln_2.weight", { EMBD } },
    { "ln_2.bias", { EMBD } },
    { "mlp.c_fc.weight", { EMBD, INNER } },
    { "mlp.c_fc.bias", { INNER } },
    { "mlp.c_proj.weight", { INNER, EMBD } },
    { "mlp.c_proj.bias", { EMBD } },
};
static const weight_row other_weights[] = {
    { "wte.weight", { VOCAB, EMBD } },     { "wpe.weight", { POSITIONS, EMBD } },
    { "ln_f.weight", { EMBD } },           { "ln_f.bias", { EMBD } },
    { "lm_head.weight", { VOCAB, EMBD } },
};

static rg_dims row_shape(const weight_row *row, const rg_gpt_options *o) {
    const int64_t inner = o->n_inner ? o->n_inner : 4 * o->n_embd;
    const int64_t sizes[] = { 0, o->n_embd, 3 * o->n_embd, inner, o->vocab_size, o->block_size };
    rg_dims d = { .n = row->size[1] ? 2 : 1 };
    for (int i = 0; i < d.n; i++)
        d.v[i] = sizes[row->size[i]];
    return d;
}

bool rgi_gpt_weight(const rg_gpt_options *o, int64_t index, rg_gpt_weight *weight) {
    if (index < RG_COUNT(other_weights)) {
        const weight_row *row = &other_weights[index];
        const bool head = row->size[0] == VOCAB && index > 0;
        snprintf(weight->name, sizeof weight->name, "%s%s", head ? "" : "transformer.", row->name);
        weight->shape = row_shape(row, o);
        return true;
    }
    const int64_t in_blocks = index - RG_COUNT(other_weights);
    const int64_t block = in_blocks / RG_COUNT(block_weights);
    const weight_row *row = &block_weights[in_blocks % RG_COUNT(block_weights)];
    snprintf(weight->name, sizeof weight->name, "transformer.h.%lld.%s", (long long)block,
             row->name);
    weight->shape = row_shape(row, o);
    return block < o->n_layer;
}

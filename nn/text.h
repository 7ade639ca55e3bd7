/*
 * text.h: words or characters as numbers, and batches of a long text.
 *
 *     rg_vocabulary *word_to_idx = rg_vocabulary_new(sentence);
 *     rg_tensor *sentence_int = rg_encode(word_to_idx, sentence);
 *
 * is {w: i for i, w in enumerate(sorted(words))}, each word once.
 */
#pragma once

#include "../tensor/tensor.h"

RG_PUBLIC_BEGIN

typedef struct rg_vocabulary {
    /* how many; the index of the one for unknown ones, or -1 */
    int64_t n, unknown;
    const char **tokens, *drop; /* tokens by index */
    bool characters;
    struct rg_text_entry *index;  /* text.c's own, */
    struct rg_text_block *blocks; /* and this */
} rg_vocabulary;
typedef struct rg_vocabulary_options {
    /* of UTF-8, white space too; else words: */
    bool characters RG_DEFAULT(false);
    /* text.replace(",", "").split(), for each of these bytes */
    const char *drop RG_DEFAULT(",");
    /* "<unk>": the last token, for what isn't known; NULL: an error */
    const char *unknown RG_DEFAULT(NULL);
} rg_vocabulary_options;
#define rg_vocabulary_new(text, ...) \
    rg_vocabulary_new_with(text, RG_KEYWORDS(rg_vocabulary_options, (.drop = ","), __VA_ARGS__))
rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o);
void rg_vocabulary_free(rg_vocabulary *v);
/* word_to_idx[token]; -1 */
int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token);
/* int64, one for each token */
rg_tensor *rg_encode(const rg_vocabulary *v, const char *text);
/* words with a blank between */
const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices);

/* NULL, NULL: failed */
typedef struct rg_pair {
    rg_tensor *first, *second;
} rg_pair;
/* data[:int(fraction * n)] and the rest */
rg_pair rg_split_text(rg_tensor *data, double fraction);
/* Windows from where torch.randint(len(data) - block_size, (batch_size,)) says, and those one
 * further. */
rg_pair rg_get_batch_with(rg_tensor *data, int64_t batch_size, int64_t block_size, rg_generator *g);
#define rg_get_batch(data, batch_size, block_size) \
    rg_get_batch_with(data, batch_size, block_size, rg_default_generator())

RG_PUBLIC_END

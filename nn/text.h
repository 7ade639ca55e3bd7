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
    int64_t      n, unknown;                            /* how many; the index of the one for unknown ones, or -1 */
    const char **tokens, *drop;                         /* tokens by index */
    bool         characters;
    struct rg_text_entry *index;                        /* text.c's own, */
    struct rg_text_block *blocks;                       /* and this */
} rg_vocabulary;
typedef struct rg_vocabulary_options {
    bool        characters RG_DEFAULT(false);           /* of UTF-8, white space too; else words: */
    const char *drop       RG_DEFAULT(",");             /* text.replace(",", "").split(), for each of these bytes */
    const char *unknown    RG_DEFAULT(NULL);            /* "<unk>": the last token, for what isn't known; NULL: an error */
} rg_vocabulary_options;
#define rg_vocabulary_new(text, ...) \
    rg_vocabulary_new_with(text, RG_KEYWORDS(rg_vocabulary_options, (.drop = ","), __VA_ARGS__))
rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o);
void           rg_vocabulary_free(rg_vocabulary *v);
int64_t        rg_vocabulary_index(const rg_vocabulary *v, const char *token);      /* word_to_idx[token]; -1 */
rg_tensor     *rg_encode(const rg_vocabulary *v, const char *text);                 /* int64, one for each token */
const char    *rg_decode(const rg_vocabulary *v, rg_tensor *indices);               /* words with a blank between */

typedef struct rg_pair { rg_tensor *first, *second; } rg_pair;                      /* NULL, NULL: failed */
rg_pair  rg_split_text(rg_tensor *data, double fraction);                           /* data[:int(fraction * n)] and the rest */
/* Windows from where torch.randint(len(data) - block_size, (batch_size,)) says, and those one further. */
rg_pair  rg_get_batch_with(rg_tensor *data, int64_t batch_size, int64_t block_size, rg_generator *g);
#define  rg_get_batch(data, batch_size, block_size) rg_get_batch_with(data, batch_size, block_size, rg_default_generator())

RG_PUBLIC_END

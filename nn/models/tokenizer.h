/*
 * tokenizer.h: the tokenizers of Hugging Face's files tokenizer.json. They encode texts as lists of
 * token ids, and decode ids. The ids and texts are the same as with the library `tokenizers`.
 *
 *     rg_tokenizer *t = rg_tokenizer_from_folder("gpt2");
 *     rg_tensor *ids = rg_tokenizer_encode(t, "Hello world");
 *     puts(rg_tokenizer_decode(t, ids));
 *     rg_tokenizer_free(t);
 *
 * These parts of a file are supported:
 *
 *     normalizers      BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip,
 *                      Prepend, Replace, Precompiled, Sequence
 *     pre-tokenizers   ByteLevel, Split, BertPreTokenizer, Whitespace, WhitespaceSplit, Digits,
 *                      Punctuation, Metaspace, Sequence
 *     models           BPE, WordPiece, Unigram, WordLevel
 *     post-processors  TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence
 *     decoders         ByteLevel, WordPiece, Metaspace, Replace, ByteFallback, Fuse, Strip,
 *                      Sequence
 *
 * They are those of BERT, MiniLM, E5, GPT-2, RoBERTa, Llama, Qwen, SmolLM, Gemma, T5 and XLM-R.
 * Regular expressions may have alternatives, groups, (?i:..), lookahead, classes with \p, \s, \d
 * and \w, and the quantifiers ? * + {n,m}; behind a group only ? is supported.
 *
 * Several threads may use one tokenizer at once.
 */
#pragma once

#include "../../tensor/files/files.h"
#include "../../tensor/tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_tokenizer rg_tokenizer;

/* Reads folder/tokenizer.json. If that doesn't exist, reads vocab.json and merges.txt, as
 * GPT2Tokenizer does; then "<|endoftext|>" is a special token, and is added to the vocabulary if it
 * isn't there. If tokenizer.json uses a feature that isn't listed above, fails with an error
 * message that names it. */
rg_tokenizer *rg_tokenizer_from_folder(const char *folder);
/* Reads a file that has the form of tokenizer.json, whatever its name. */
rg_tokenizer *rg_tokenizer_from_file(const char *path);
/* Frees the tokenizer. A later call with the tokenizer fails with RG_RELEASED, as long as its
 * memory hasn't been reused. */
void rg_tokenizer_free(rg_tokenizer *t);

/* Returns the number of tokens, including the added ones. Returns -1 on failure. */
int64_t rg_tokenizer_size(const rg_tokenizer *t);
/* Returns the id of a token, which must be written as in the vocabulary. For example, the token
 * " world" is written "\u0120world" there. Fails, and returns -1, if there is no such token. */
int64_t rg_tokenizer_id(const rg_tokenizer *t, const char *token);
/* Returns the token with this id, written as in the vocabulary. The string lives as long as the
 * tokenizer. Returns NULL on failure. */
const char *rg_tokenizer_token(const rg_tokenizer *t, int64_t id);

typedef struct RG_OPTIONS rg_tokenizer_encode_options {
    RG_BY_NAME;
    /* The length of the text in bytes. -1 means that it ends at the first 0 byte. */
    int64_t length RG_DEFAULT(-1);
    /* A second text, for tokenizers that encode pairs of texts. It ends at the first 0 byte. */
    const char *pair RG_DEFAULT(NULL);
    /* The post-processor adds its special tokens, such as [CLS] and [SEP]. */
    rg_flag add_special_tokens RG_DEFAULT(true);
} rg_tokenizer_encode_options;
/* Returns the ids of the text's tokens as an int64 vector. An added token that is written out in
 * the text, such as "<|endoftext|>", becomes its own id. If the file has "truncation" or "padding",
 * the text is cut or filled up as these say. Fails and returns NULL if the text isn't valid UTF-8,
 * or if it has a word that isn't in the vocabulary, and the model has no token for such words. */
rg_tensor *rg_tokenizer_encode_with(const rg_tokenizer *t, const char *text,
                                    rg_tokenizer_encode_options o);
#define rg_tokenizer_encode(t, text, ...)                             \
    rg_tokenizer_encode_with(t, text,                                 \
                             RG_KEYWORDS(rg_tokenizer_encode_options, \
                                         (.length = -1, .add_special_tokens = true), __VA_ARGS__))

/* An encoded batch: int64 tensors (texts, tokens). On failure all are NULL. */
typedef struct rg_encoding {
    rg_tensor *input_ids;
    rg_tensor *token_type_ids;      /* 0 for the first text, and mostly 1 for the second. */
    rg_tensor *attention_mask;      /* 1 for tokens, and 0 for padding. */
    rg_tensor *special_tokens_mask; /* 1 for padding and for tokens that the post-processor adds. */
    /* A tensor (texts, tokens, 2): the bytes of its text from which a token begins and before which
     * it ends. NULL unless return_offsets_mapping is given. */
    rg_tensor *offset_mapping;
} rg_encoding;
typedef struct RG_OPTIONS rg_tokenizer_batch_options {
    RG_BY_NAME;
    rg_names pairs RG_DEFAULT({}); /* The second text of each row. */
    rg_flag add_special_tokens RG_DEFAULT(true);
    /* Longer rows are cut to this number of tokens, special tokens included. -1 means that rows are
     * cut as the file says, or not at all if it says nothing. The file also says on which side,
     * and which of two texts is cut; otherwise on the right, and the longer one. */
    int64_t max_length RG_DEFAULT(-1);
    /* Rows are filled up to this number of tokens, or to the longest row if that is longer. -1
     * means that they are filled up as the file says, or else to the longest row. */
    int64_t pad_to RG_DEFAULT(-1);
    /* The token that fills up rows. -1 means the file's, or 0 if it names none. */
    int64_t pad_token_id RG_DEFAULT(-1);
    rg_flag return_offsets_mapping RG_DEFAULT(false);
} rg_tokenizer_batch_options;
/* Encodes a list of texts, as the method encode_batch of `tokenizers` does. rg_load_lines (data.h)
 * returns such a list. */
rg_encoding rg_tokenizer_encode_batch_with(const rg_tokenizer *t, rg_names texts,
                                           rg_tokenizer_batch_options o);
#define rg_tokenizer_encode_batch(t, texts, ...)                                              \
    rg_tokenizer_encode_batch_with(t, texts,                                                  \
                                   RG_KEYWORDS(rg_tokenizer_batch_options,                    \
                                               (.add_special_tokens = true, .max_length = -1, \
                                                .pad_to = -1, .pad_token_id = -1),            \
                                               __VA_ARGS__))

typedef struct RG_OPTIONS rg_tokenizer_decode_options {
    RG_BY_NAME;
    rg_flag skip_special_tokens RG_DEFAULT(false);
    /* Receives the length of the decoded text in bytes, since the text can contain 0 bytes. */
    int64_t *length RG_DEFAULT(NULL);
} rg_tokenizer_decode_options;
/* Returns the text of the ids, which are the elements of an int64 tensor of any shape. Bytes that
 * aren't valid UTF-8 become U+FFFD, as with Python's errors="replace". The scope owns the text.
 * Fails and returns NULL if an id is invalid. */
const char *rg_tokenizer_decode_with(const rg_tokenizer *t, rg_tensor *ids,
                                     rg_tokenizer_decode_options o);
#define rg_tokenizer_decode(t, ids, ...) \
    rg_tokenizer_decode_with(            \
        t, ids,                          \
        RG_KEYWORDS(rg_tokenizer_decode_options, (.skip_special_tokens = false), __VA_ARGS__))

/* Decodes tokens one by one, as they are generated. If a character consists of several tokens, it
 * is returned when the last of them is added. All returned texts together are what
 * rg_tokenizer_decode returns for all tokens, unless the decoder is ByteFallback and bytes that
 * follow each other aren't UTF-8: then rg_tokenizer_decode returns U+FFFD for all of them. */
typedef struct rg_token_stream {
    const rg_tokenizer *tokenizer;
    int64_t length;   /* The length in bytes of the text that was returned last. */
    int64_t n_tokens; /* The number of tokens that were added. */
    /* The number of characters that were removed from the beginning of the text, and whether any
     * text was returned. */
    int64_t n_stripped;
    bool begun;
    /* The bytes of a character that isn't complete yet. */
    int n_held;
    char held[4];
} rg_token_stream;
rg_token_stream rg_token_stream_begin(const rg_tokenizer *t);
/* Adds a token. Returns the characters that are complete now, or "" if there are none. The scope
 * owns the text. Returns NULL on failure. */
const char *rg_token_stream_add(rg_token_stream *s, int64_t id);
/* Ends the text and resets the stream. Returns U+FFFD if the stream still holds the beginning of a
 * character, otherwise "". */
const char *rg_token_stream_end(rg_token_stream *s);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_tokenizer_token(t, id)  rg_tokenizer_token(t, RG_WHOLE(id))
#define rg_token_stream_add(s, id) rg_token_stream_add(s, RG_WHOLE(id))

RG_PUBLIC_END

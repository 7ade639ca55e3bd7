/*
 * tokenizer.h: GPT-2's byte-level tokenizer: encodes texts and decodes token ids, with the same ids
 * as Hugging Face's tokenizers.
 *
 *     rg_tokenizer *t = rg_tokenizer_from_folder("gpt2");
 *     rg_tensor *ids = rg_tokenizer_encode(t, "Hello world");
 *     puts(rg_tokenizer_decode(t, ids));
 *     rg_tokenizer_free(t);
 *
 * Several threads may use one tokenizer at once.
 */
#pragma once

#include "../../tensor/tensor.h"

RG_PUBLIC_BEGIN

typedef struct rg_tokenizer rg_tokenizer;

/* Reads folder/tokenizer.json or, if it doesn't exist, vocab.json and merges.txt, as GPT2Tokenizer
 * does: then "<|endoftext|>" is a special token, which is appended if the vocabulary lacks it. A
 * feature of tokenizer.json that regard lacks is an error that names it: models other than BPE,
 * normalizers, pre-tokenizers other than ByteLevel, templates that add tokens, .. */
rg_tokenizer *rg_tokenizer_from_folder(const char *folder);
/* Reads a tokenizer.json of any name. */
rg_tokenizer *rg_tokenizer_from_file(const char *path);
/* Frees the tokenizer. A later use is an error (RG_RELEASED) as long as the allocator hasn't reused
 * the memory. */
void rg_tokenizer_free(rg_tokenizer *t);

/* Returns the number of tokens, added tokens included, or -1 on failure. */
int64_t rg_tokenizer_size(const rg_tokenizer *t);
/* Returns the id of a token written as in the vocabulary ("\u0120world"), or -1 on failure. */
int64_t rg_tokenizer_id(const rg_tokenizer *t, const char *token);
/* Returns a token as the vocabulary writes it. The text lives as long as the tokenizer. */
const char *rg_tokenizer_token(const rg_tokenizer *t, int64_t id);

typedef struct RG_OPTIONS rg_tokenizer_encode_options {
    RG_BY_NAME;
    int64_t length RG_DEFAULT(-1); /* The length in bytes; -1: until a 0. */
} rg_tokenizer_encode_options;
/* Returns the text's ids, int64 of (length). Special tokens in the text become their ids. A text
 * that isn't UTF-8 is an error. */
rg_tensor *rg_tokenizer_encode_with(const rg_tokenizer *t, const char *text,
                                    rg_tokenizer_encode_options o);
#define rg_tokenizer_encode(t, text, ...) \
    rg_tokenizer_encode_with(             \
        t, text, RG_KEYWORDS(rg_tokenizer_encode_options, (.length = -1), __VA_ARGS__))

typedef struct RG_OPTIONS rg_tokenizer_decode_options {
    RG_BY_NAME;
    bool skip_special_tokens RG_DEFAULT(false);
    int64_t *length RG_DEFAULT(NULL); /* Receives the text's length: it may contain a 0. */
} rg_tokenizer_decode_options;
/* Returns the text of ids of any shape. Invalid UTF-8 becomes U+FFFD, as with Python's
 * errors="replace". The scope owns the text. */
const char *rg_tokenizer_decode_with(const rg_tokenizer *t, rg_tensor *ids,
                                     rg_tokenizer_decode_options o);
#define rg_tokenizer_decode(t, ids, ...) \
    rg_tokenizer_decode_with(            \
        t, ids,                          \
        RG_KEYWORDS(rg_tokenizer_decode_options, (.skip_special_tokens = false), __VA_ARGS__))

/* Decodes token by token: a character of several tokens is returned with the last of them. The
 * returned texts together are rg_tokenizer_decode's result for all tokens. */
typedef struct rg_token_stream {
    const rg_tokenizer *tokenizer;
    int64_t length; /* The length of the last returned text. */
    /* The bytes of an unfinished character. */
    int n_held;
    char held[4];
} rg_token_stream;
rg_token_stream rg_token_stream_begin(const rg_tokenizer *t);
/* Returns the characters that this token completes, or "". The scope owns the text. */
const char *rg_token_stream_add(rg_token_stream *s, int64_t id);
/* Returns U+FFFD if a character is unfinished, else "". Resets the stream. */
const char *rg_token_stream_end(rg_token_stream *s);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_tokenizer_token(t, id)  rg_tokenizer_token(t, RG_WHOLE(id))
#define rg_token_stream_add(s, id) rg_token_stream_add(s, RG_WHOLE(id))

RG_PUBLIC_END

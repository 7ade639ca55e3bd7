/*
 * tokenizer.h: GPT-2's byte-level tokenizer. It encodes texts as lists of token ids, and decodes
 * ids. The ids are the same as with Hugging Face's tokenizers.
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
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_tokenizer rg_tokenizer;

/* Reads folder/tokenizer.json. If that doesn't exist, reads vocab.json and merges.txt, as
 * GPT2Tokenizer does; then "<|endoftext|>" is a special token, and is added to the vocabulary if it
 * isn't there. If tokenizer.json uses a feature that regard lacks, fails with an error message that
 * names it. Among these features are models other than BPE, normalizers, pre-tokenizers other than
 * ByteLevel, and templates that add tokens. */
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
} rg_tokenizer_encode_options;
/* Returns the ids of the text's tokens as an int64 vector. An added token that is written out in
 * the text, such as "<|endoftext|>", becomes its own id. Fails and returns NULL if the text isn't
 * valid UTF-8. */
rg_tensor *rg_tokenizer_encode_with(const rg_tokenizer *t, const char *text,
                                    rg_tokenizer_encode_options o);
#define rg_tokenizer_encode(t, text, ...) \
    rg_tokenizer_encode_with(             \
        t, text, RG_KEYWORDS(rg_tokenizer_encode_options, (.length = -1), __VA_ARGS__))

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
 * rg_tokenizer_decode returns for all tokens. */
typedef struct rg_token_stream {
    const rg_tokenizer *tokenizer;
    int64_t length; /* The length in bytes of the text that was returned last. */
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

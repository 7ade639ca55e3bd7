/*
 * tokenizer.h: GPT-2's byte-level tokenizer: texts as numbers and back, the same numbers as Hugging
 * Face's tokenizers gives.
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

/* Reads folder/tokenizer.json; where there is none, vocab.json and merges.txt, as GPT2Tokenizer
 * does: "<|endoftext|>" is a special token then, and if the vocabulary lacks it comes behind all
 * others. What tokenizer.json asks for and regard lacks is refused by its name: models other than
 * BPE, normalizers, other pre-tokenizers than ByteLevel, templates that add tokens, .. */
rg_tokenizer *rg_tokenizer_from_folder(const char *folder);
/* Reads a tokenizer.json, whatever its name. */
rg_tokenizer *rg_tokenizer_from_file(const char *path);
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 */
void rg_tokenizer_free(rg_tokenizer *t);

/* Returns how many tokens there are, added ones among them, or -1 on failure. */
int64_t rg_tokenizer_size(const rg_tokenizer *t);
/* Returns the number of a token as the vocabulary writes it ("\u0120world"), or -1 on failure. */
int64_t rg_tokenizer_id(const rg_tokenizer *t, const char *token);
/* Returns a token as the vocabulary writes it. It lives as long as the tokenizer. */
const char *rg_tokenizer_token(const rg_tokenizer *t, int64_t id);

typedef struct RG_OPTIONS rg_tokenizer_encode_options {
    RG_BY_NAME;
    int64_t length RG_DEFAULT(-1); /* The bytes of the text; -1: it ends with a 0. */
} rg_tokenizer_encode_options;
/* Returns the text's int64 numbers, (length). Special tokens in the text become their numbers. A
 * text that isn't UTF-8 is refused. */
rg_tensor *rg_tokenizer_encode_with(const rg_tokenizer *t, const char *text,
                                    rg_tokenizer_encode_options o);
#define rg_tokenizer_encode(t, text, ...) \
    rg_tokenizer_encode_with(             \
        t, text, RG_KEYWORDS(rg_tokenizer_encode_options, (.length = -1), __VA_ARGS__))

typedef struct RG_OPTIONS rg_tokenizer_decode_options {
    RG_BY_NAME;
    bool skip_special_tokens RG_DEFAULT(false);
    int64_t *length RG_DEFAULT(NULL); /* Set to the text's bytes: the text may have a 0. */
} rg_tokenizer_decode_options;
/* Returns the text of the numbers, of any shape. Bytes that aren't UTF-8 become U+FFFD, as Python's
 * errors="replace" has it. The scope owns the text. */
const char *rg_tokenizer_decode_with(const rg_tokenizer *t, rg_tensor *ids,
                                     rg_tokenizer_decode_options o);
#define rg_tokenizer_decode(t, ids, ...) \
    rg_tokenizer_decode_with(            \
        t, ids,                          \
        RG_KEYWORDS(rg_tokenizer_decode_options, (.skip_special_tokens = false), __VA_ARGS__))

/* Decodes token by token: a character that several tokens make up comes with the last of them. What
 * is returned adds up to what rg_tokenizer_decode returns for all tokens. */
typedef struct rg_token_stream {
    const rg_tokenizer *tokenizer;
    int64_t length; /* The bytes of the text that was returned last. */
    /* These bytes begin a character that isn't whole yet. */
    int n_held;
    char held[4];
} rg_token_stream;
rg_token_stream rg_token_stream_begin(const rg_tokenizer *t);
/* Returns the characters that this token makes whole; "" if there are none. The scope owns them. */
const char *rg_token_stream_add(rg_token_stream *s, int64_t id);
/* Returns U+FFFD for a character that was left unfinished, or "". The stream begins again. */
const char *rg_token_stream_end(rg_token_stream *s);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_tokenizer_token(t, id)  rg_tokenizer_token(t, RG_WHOLE(id))
#define rg_token_stream_add(s, id) rg_token_stream_add(s, RG_WHOLE(id))

RG_PUBLIC_END

/*
 * vocabulary.c: tokens of a text, their indices, and the way back. The map from tokens to indices
 * is stb_ds's.
 */
#include "vocabulary.h"
#include "tensor/error.h"
#include "tensor/kernels/copy.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/text.h"
#include "autograd/ops.h"
#include "tensor/scope.h"

#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory for stb_ds --------------------------------------------------------- */

/* A vocabulary's blocks hang in a list and are released together. */
typedef struct rg_vocabulary_block {
    struct rg_vocabulary_block *next;
    size_t bytes;
} vocabulary_block;

/* stb_ds doesn't check whether it was given memory, so a request that fails leaves by longjmp. The
 * lock guards the two variables below it, and the seed that all of stb_ds's tables share. */
static pthread_mutex_t vocabulary_lock = PTHREAD_MUTEX_INITIALIZER;
static vocabulary_block **vocabulary_blocks;
static jmp_buf vocabulary_out_of_memory;

/* Returns a new block with a copy of the old one, which stays. */
static void *vocabulary_memory(const void *old, size_t bytes) {
    vocabulary_block *b = rgi_alloc(sizeof *b + bytes, RG_MEM_OTHER);
    if (!b)
        longjmp(vocabulary_out_of_memory, 1);
    *b = (vocabulary_block){ *vocabulary_blocks, bytes };
    *vocabulary_blocks = b;
    if (!old)
        return b + 1;
    size_t had = ((const vocabulary_block *)old)[-1].bytes;
    return memcpy(b + 1, old, RG_MIN(bytes, had));
}

static const char *vocabulary_copy(const char *s) {
    return memcpy(vocabulary_memory(NULL, strlen(s) + 1), s, strlen(s) + 1);
}

#define STBDS_REALLOC(context, block, bytes) vocabulary_memory(block, bytes)
#define STBDS_FREE(context, block)           ((void)0)
#define STBDS_NO_SHORT_NAMES
#define STB_DS_IMPLEMENTATION

/* stb_ds.h declares its functions extern, and they would meet those of a program's own stb_ds.
 * While it is read, that word stands for static; the system's headers that it includes were read
 * above. */
#define extern static
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_ds.h>
#undef extern

typedef struct rg_vocabulary_entry {
    char *key;
    int64_t value;
} vocabulary_entry;

/* ---- tokens -------------------------------------------------------------------- */

/* Copies the UTF-8 character at p, and returns what comes after it. */
static const char *copy_character(const char *p, char *token) {
    char *end = token;
    if (*p) {
        do {
            *end++ = *p++;
        } while ((*p & 0xc0) == 0x80 && end < token + 4);
    }
    *end = 0;
    return p;
}

/* Copies the next word without the bytes that are dropped, and returns what comes after it. */
static const char *copy_word(const char *p, const char *drop, char *token) {
    const char *space = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
    char *end = token;
    for (; *p; p++) {
        if (strchr(space, *p)) {
            if (end > token)
                break;
        } else if (!strchr(drop, *p)) {
            *end++ = *p;
        }
    }
    *end = 0;
    return p;
}

/* Copies the next token of *text and goes past it. Returns false if there is none. */
static bool next_token(const rg_vocabulary *v, const char **text, char *token) {
    *text = v->characters ? copy_character(*text, token) : copy_word(*text, v->drop, token);
    return *token;
}

/* ---- making -------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Requires that vocabulary_out_of_memory is set; `token` has room for any token of the text. */
static void build_vocabulary(rg_vocabulary *v, const char *text, rg_vocabulary_options o,
                             char *token) {
    v->drop = vocabulary_copy(o.drop ? o.drop : "");
    stbds_sh_new_arena(v->index);
    while (next_token(v, &text, token))
        stbds_shput(v->index, token, 0);
    size_t n = (size_t)stbds_shlen(v->index);
    v->tokens = vocabulary_memory(NULL, (n + 1) * sizeof *v->tokens);
    for (size_t i = 0; i < n; i++)
        v->tokens[i] = v->index[i].key;
    qsort(v->tokens, n, sizeof *v->tokens, by_bytes);
    if (o.unknown && stbds_shgeti(v->index, (char *)o.unknown) < 0)
        v->tokens[n++] = vocabulary_copy(o.unknown);
    for (size_t i = 0; i < n; i++)
        stbds_shput(v->index, (char *)v->tokens[i], (int64_t)i);
    v->unknown = o.unknown ? stbds_shget(v->index, (char *)o.unknown) : -1;
    v->n = (int64_t)n;
}

rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o) {
    RG_SCOPE();
    if (!rgi_given(text, "vocabulary_new", "a text"))
        return NULL;
    char *token = rgi_scope_alloc(strlen(text) + 1);
    rg_vocabulary *v = token ? rgi_alloc(sizeof *v, RG_MEM_OTHER) : NULL;
    if (!v)
        return NULL;
    *v = (rg_vocabulary){ .n = -1, .characters = o.characters };
    pthread_mutex_lock(&vocabulary_lock);
    vocabulary_blocks = &v->blocks;
    if (setjmp(vocabulary_out_of_memory) == 0)
        build_vocabulary(v, text, o, token);
    pthread_mutex_unlock(&vocabulary_lock);
    if (v->n >= 0)
        return v;
    rg_vocabulary_free(v);
    return NULL;
}

void rg_vocabulary_free(rg_vocabulary *v) {
    if (!v)
        return;
    for (vocabulary_block *b = v->blocks, *next; b; b = next) {
        next = b->next;
        rgi_free(b, sizeof *b + b->bytes, RG_MEM_OTHER);
    }
    rgi_free(v, sizeof *v, RG_MEM_OTHER);
}

/* ---- using --------------------------------------------------------------------- */

int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token) {
    if (!rgi_given(v, "vocabulary_index", "a vocabulary")
        || !rgi_given(token, "vocabulary_index", "a token"))
        return -1;
    ptrdiff_t at = -1;
    stbds_hmget_key_ts(v->index, sizeof *v->index, (char *)token, sizeof v->index->key, &at,
                       STBDS_HM_STRING);
    if (at >= 0)
        return v->index[at].value;
    if (v->unknown < 0)
        rgi_fail_(RG_INDEX_ERROR, "vocabulary_index", "KeyError: '%s' is none of the %lld tokens",
                  token, (long long)v->n);
    return v->unknown;
}

rg_tensor *rg_encode(const rg_vocabulary *v, const char *text) {
    RG_AS("encode");
    RG_SCOPE();
    if (!rgi_given(v, "encode", "a vocabulary") || !rgi_given(text, "encode", "a text"))
        return NULL;
    char *token = rgi_scope_alloc(strlen(text) + 1);
    rg_tensor *t = token ? rg_empty_dims(RG_DIMS((int64_t)strlen(text)), RG_INT64) : NULL;
    if (!t)
        return NULL;
    int64_t n = 0, *index = (int64_t *)t->data;
    for (; next_token(v, &text, token); n++) {
        index[n] = rg_vocabulary_index(v, token);
        if (index[n] < 0)
            return NULL;
    }
    return rg_escape(rg_clone(rg_narrow(t, 0, 0, n)));
}

/* Adds the text of the tokens with these indices. Returns false if an index has no token. */
static bool decode_to(rg_text *text, const rg_vocabulary *v, const int64_t *index, int64_t n) {
    for (int64_t i = 0; i < n && !text->failed; i++) {
        RG_FAIL_INDEX_IF(index[i] < 0 || index[i] >= v->n, "decode",
                         "index %lld is none of %lld tokens", (long long)index[i], (long long)v->n);
        const char *between = i && !v->characters ? " " : "";
        rgi_text_add(text, "%s%s", between, v->tokens[index[i]]);
    }
    return true;
}

const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices) {
    if (!rgi_given(v, "decode", "a vocabulary") || !rgi_check(indices, "decode"))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, indices->dtype != RG_INT64, "decode",
                  "expected indices of dtype torch.int64 but got %s",
                  rg_dtype_name(indices->dtype));
    rg_tensor *dense = rgi_contiguous_copy(indices, RG_INT64);
    if (!dense)
        return NULL;
    rg_text text = { 0 };
    rgi_text_add(&text, "%s", "");
    if (!decode_to(&text, v, (const int64_t *)dense->data, dense->numel))
        text.failed = true;
    rgi_release(dense);
    return rgi_text_own(&text);
}

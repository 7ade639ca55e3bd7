/*
 * text.c: vocabularies, and windows of a long text.
 */
#include "text.h"
#include "autograd/ops.h"
#include "tensor/internal.h"

#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

/* stb_ds doesn't look at what it is given for memory: a request that fails leaves by longjmp. A
 * vocabulary's blocks are released together. The lock guards the seed that all tables share, too.
 */
typedef struct rg_text_block {
    struct rg_text_block *next;
    size_t bytes;
} text_block;
static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static text_block **text_blocks;
static jmp_buf text_out_of_memory;

static void *text_memory(const void *old, size_t bytes) {
    text_block *b = rgi_alloc(sizeof *b + bytes, RG_MEM_OTHER);
    if (!b)
        longjmp(text_out_of_memory, 1);
    *b = (text_block){ *text_blocks, bytes };
    *text_blocks = b;
    return old ? memcpy(b + 1, old, RG_MIN(bytes, ((const text_block *)old)[-1].bytes)) : b + 1;
}

#define STBDS_REALLOC(context, block, bytes) text_memory(block, bytes)
#define STBDS_FREE(context, block)           ((void)0)
#define STBDS_NO_SHORT_NAMES
#define STB_DS_IMPLEMENTATION
#define extern static /* a program's own stb_ds stays another */
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_ds.h>
#undef extern

typedef struct rg_text_entry {
    char *key;
    int64_t value;
} text_entry;

/* Copies the next token of *text; false: there is none. */
static bool next_token(const rg_vocabulary *v, const char **text, char *token) {
    const char *p = *text, *space = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
    char *end = token;
    if (v->characters && *p)
        do
            *end++ = *p++;
        while ((*p & 0xc0) == 0x80 && end < token + 4);
    for (; !v->characters && *p && (end == token || !strchr(space, *p)); p++)
        if (!strchr(space, *p) && !strchr(v->drop, *p))
            *end++ = *p;
    *end = 0;
    *text = p;
    return end > token;
}

static const char *text_copy(const char *s) {
    return memcpy(text_memory(NULL, strlen(s) + 1), s, strlen(s) + 1);
}
static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void build_vocabulary(rg_vocabulary *v, const char *text, rg_vocabulary_options o,
                             char *token) {
    v->drop = text_copy(o.drop ? o.drop : "");
    stbds_sh_new_arena(v->index);
    while (next_token(v, &text, token))
        stbds_shput(v->index, token, 0);
    size_t n = (size_t)stbds_shlen(v->index);
    v->tokens = text_memory(NULL, (n + 1) * sizeof *v->tokens);
    for (size_t i = 0; i < n; i++)
        v->tokens[i] = v->index[i].key;
    qsort(v->tokens, n, sizeof *v->tokens, by_bytes);
    if (o.unknown && stbds_shgeti(v->index, (char *)o.unknown) < 0)
        v->tokens[n++] = text_copy(o.unknown);
    for (size_t i = 0; i < n; i++)
        stbds_shput(v->index, (char *)v->tokens[i], (int64_t)i);
    v->unknown = o.unknown ? stbds_shget(v->index, (char *)o.unknown) : -1;
    v->n = (int64_t)n;
}

rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o) {
    RG_SCOPE();
    char *token = rgi_given(text, "vocabulary_new", "a text") ? rgi_own_string(strlen(text) + 1)
                                                              : NULL;
    rg_vocabulary *v = token ? rgi_alloc(sizeof *v, RG_MEM_OTHER) : NULL;
    if (!v)
        return NULL;
    *v = (rg_vocabulary){ .n = -1, .characters = o.characters };
    pthread_mutex_lock(&text_lock);
    text_blocks = &v->blocks;
    if (setjmp(text_out_of_memory) == 0)
        build_vocabulary(v, text, o, token);
    pthread_mutex_unlock(&text_lock);
    if (v->n >= 0)
        return v;
    rg_vocabulary_free(v);
    return NULL;
}

void rg_vocabulary_free(rg_vocabulary *v) {
    for (text_block *b = v ? v->blocks : NULL, *next; b; b = next) {
        next = b->next;
        rgi_free(b, sizeof *b + b->bytes, RG_MEM_OTHER);
    }
    rgi_free(v, sizeof *v, RG_MEM_OTHER);
}

int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token) {
    ptrdiff_t at = -1;
    if (!rgi_given(v, "vocabulary_index", "a vocabulary")
        || !rgi_given(token, "vocabulary_index", "a token"))
        return -1;
    stbds_hmget_key_ts(v->index, sizeof *v->index, (char *)token, sizeof v->index->key, &at,
                       STBDS_HM_STRING);
    if (at < 0 && v->unknown < 0)
        rgi_fail(RG_INDEX_ERROR, "vocabulary_index", "KeyError: '%s' is none of the %lld tokens",
                 token, (long long)v->n);
    return at < 0 ? v->unknown : v->index[at].value;
}

rg_tensor *rg_encode(const rg_vocabulary *v, const char *text) {
    RG_AS("encode");
    RG_SCOPE();
    bool given = rgi_given(v, "encode", "a vocabulary") && rgi_given(text, "encode", "a text");
    char *token = given ? rgi_own_string(strlen(text) + 1) : NULL;
    rg_tensor *t = token ? rg_empty_dims(RG_DIMS((int64_t)strlen(text)), RG_INT64) : NULL;
    int64_t n = 0;
    while (t && next_token(v, &text, token))
        if ((((int64_t *)t->data)[n++] = rg_vocabulary_index(v, token)) < 0)
            t = NULL;
    return rg_escape(rg_clone(rg_narrow(t, 0, 0, n)));
}

const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices) {
    bool given = rgi_given(v, "decode", "a vocabulary") && rgi_check(indices, "decode");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, given && indices->dtype != RG_INT64, "decode",
                  "expected indices of dtype torch.int64 but got %s",
                  rg_dtype_name(indices->dtype));
    rg_tensor *dense = given ? rgi_contiguous_copy(indices, RG_INT64) : NULL;
    rg_text text = { .failed = !dense };
    rgi_text_add(&text, "%s", "");
    for (int64_t i = 0; !text.failed && i < dense->numel; i++) {
        int64_t at = ((int64_t *)dense->data)[i];
        if (at >= 0 && at < v->n)
            rgi_text_add(&text, "%s%s", i && !v->characters ? " " : "", v->tokens[at]);
        else
            text.failed = !rgi_fail(RG_INDEX_ERROR, "decode", "index %lld is none of %lld tokens",
                                    (long long)at, (long long)v->n);
    }
    rgi_release(dense);
    return rgi_text_own(&text);
}

static const rg_pair no_pair;

rg_pair rg_split_text(rg_tensor *data, double fraction) {
    RG_AS("split_text");
    if (!(fraction >= 0 && fraction <= 1))
        return rgi_fail(RG_VALUE_ERROR, "split_text", "the fraction %g is not from 0 to 1",
                        fraction),
               no_pair;
    int64_t all = rg_size(data, 0), n = (int64_t)(fraction * (double)all);
    rg_pair p = { rg_narrow(data, 0, 0, n), rg_narrow(data, 0, n, all - n) };
    return p.first && p.second ? p : no_pair;
}

rg_pair rg_get_batch_with(rg_tensor *data, int64_t batch_size, int64_t block_size,
                          rg_generator *g) {
    RG_AS("get_batch");
    RG_SCOPE();
    int64_t n = rgi_check(data, "get_batch") ? rg_size(data, 0) : -1;
    if (n >= 0 && block_size < 0)
        return rgi_fail(RG_VALUE_ERROR, "get_batch", "block_size %lld is negative",
                        (long long)block_size),
               no_pair;
    rg_tensor *start = n < 0 ? NULL
                             : rg_randint_dims(0, n - block_size, RG_DIMS(batch_size), RG_INT64, g);
    rg_tensor *at = start ? rg_add(rg_unsqueeze(start, 1), rg_arange(block_size)) : NULL;
    rg_tensor *x = rg_index(data, at), *y = rg_index(data, rg_add(at, 1));
    return x && y ? (rg_pair){ rg_escape(x), rg_escape(y) } : no_pair;
}

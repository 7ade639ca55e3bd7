/*
 * tokens.c: reads windows of files of tokens. It reads with read(), and doesn't map the file: if
 * another process truncates the file, read() fails, but an access to mapped memory would raise
 * SIGBUS.
 */
#include "data.h"

#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/files/npy.h"
#include "tensor/handle.h"
#include "tensor/load.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/text/text.h"

#include <string.h>

struct rg_tokens {
    rg_handle handle;
    rg_file file;
    char *path;
    rg_foreign type;
    bool swapped;
    uint64_t at; /* The offset of the first token in the file, in bytes. */
    int64_t n;
};

/* ---- opening and closing a file of tokens --------------------------------------------- */

/* Returns whether tokens can have this type: an integer type. */
static bool is_token_type(rg_foreign type) { return rgi_is_integer(rgi_foreign[type].dtype); }

/* Sets *type to the type named `dtype`. Fails and returns false if tokens can't have this type. */
static bool find_type(const rg_tokens *tokens, const char *dtype, rg_foreign *type) {
    *type = 0;
    while (*type < RG_FOREIGN_COUNT
           && !(is_token_type(*type) && strcmp(rgi_foreign[*type].torch, dtype) == 0))
        ++*type;
    RG_FAIL_VALUE_IF(*type == RG_FOREIGN_COUNT, tokens->file.op, "'%s' is no type of integers",
                     RG_SHOWN(dtype));
    return true;
}

/* Reads the file's NumPy header, and sets the type, the number and the offset of the tokens. Fails
 * and returns false if the program gave a dtype and the header names another. */
static bool find_npy(rg_tokens *tokens, const char *dtype) {
    rg_npy_source s = rgi_npy_source(&tokens->file);
    rg_npy_header h;
    if (!rgi_npy_read_header(&s, &h))
        return false;
    if (!is_token_type(h.type) || h.shape.n != 1)
        return rgi_npy_refuse(&s, "tokens are an array of integers with one dim, not of %s with %d",
                              rgi_foreign[h.type].torch, h.shape.n);
    rg_foreign type = h.type;
    if (dtype && !find_type(tokens, dtype, &type))
        return false;
    if (type != h.type)
        return rgi_npy_refuse(&s, "its dtype is %s, not %s", rgi_foreign[h.type].torch, dtype);
    tokens->type = h.type;
    tokens->swapped = h.swapped;
    tokens->at = s.at;
    tokens->n = h.numel;
    return true;
}

static bool find_raw(rg_tokens *tokens, const char *dtype) {
    rg_foreign type;
    if (!find_type(tokens, dtype, &type))
        return false;
    const uint64_t bytes = rgi_foreign[type].bytes;
    if (tokens->file.bytes % bytes)
        return rgi_file_refuse(&tokens->file, "its %llu bytes aren't a whole number of %s tokens",
                               (unsigned long long)tokens->file.bytes, dtype);
    tokens->type = type;
    tokens->swapped = !rgi_little_endian();
    tokens->n = (int64_t)(tokens->file.bytes / bytes);
    return true;
}

rg_tokens *rg_tokens_open_with(const char *path, rg_tokens_options o) {
    if (!rgi_given_path(path, "tokens_open"))
        return NULL;
    RG_LOADING("tokens_open", path);
    rg_tokens *tokens = rgi_alloc(sizeof *tokens, RG_MEM_OTHER);
    if (!tokens)
        return NULL;
    *tokens = (rg_tokens){ .handle = RG_NEW_HANDLE(TOKENS), .file.fd = -1 };
    bool ok = rgi_rename(&tokens->path, path)
              && rgi_file_open(&tokens->file, "tokens_open", tokens->path);
    if (ok && rgi_ends_with(path, ".npy"))
        ok = find_npy(tokens, o.dtype);
    else if (ok)
        ok = find_raw(tokens, o.dtype ? o.dtype : "uint16");
    if (ok)
        return tokens;
    rg_tokens_close(tokens);
    return NULL;
}

void rg_tokens_close(rg_tokens *tokens) {
    if (!tokens || !rgi_handle_given(tokens, "tokens_close", RG_HANDLE_TOKENS))
        return;
    rgi_file_close(&tokens->file);
    rgi_rename(&tokens->path, NULL);
    rgi_free_handle(&tokens->handle, sizeof *tokens);
}

int64_t rg_tokens_count(const rg_tokens *tokens) {
    return rgi_handle_given(tokens, "tokens_count", RG_HANDLE_TOKENS) ? tokens->n
                                                                      : rgi_failed_count();
}

/* ---- reading windows of tokens -------------------------------------------------------- */

static const rg_pair no_windows;

/* Reads n tokens, which begin at the offset `at`, as integers of 64 bits. Returns false on failure.
 */
static bool read_tokens(const rg_tokens *tokens, const rg_file *file, uint64_t at, int64_t *row,
                        int64_t n) {
    const bool bytes = rgi_is_byte(rgi_foreign[tokens->type].dtype);
    if (!rgi_read_elements(file, at, tokens->type, tokens->swapped, row, n, "a window"))
        return false;
    for (int64_t i = n - 1; bytes && i >= 0; i--)
        row[i] = ((const uint8_t *)row)[i];
    return true;
}

/* For each element of `starts`, reads block_size + 1 tokens into `row`. Copies the first block_size
 * of them to the element's row of p.first, and the last block_size of them to its row of p.second.
 * Returns false on failure. */
static bool read_windows(const rg_tokens *tokens, const int64_t *starts, int64_t *row, rg_pair p) {
    const int64_t batch_size = rg_size(p.first, 0), block_size = rg_size(p.first, 1);
    int64_t *first = rg_data(p.first), *second = rg_data(p.second);
    const size_t bytes = (size_t)block_size * sizeof *row;
    rg_file file = tokens->file;
    file.op = "tokens_windows";
    for (int64_t i = 0; i < batch_size; i++) {
        RG_FAIL_INDEX_IF(starts[i] < 0 || starts[i] > tokens->n - block_size - 1, file.op,
                         "a window of %lld tokens and the next one can't begin at %lld of %lld",
                         (long long)block_size, (long long)starts[i], (long long)tokens->n);
        const uint64_t at = tokens->at + (uint64_t)starts[i] * rgi_foreign[tokens->type].bytes;
        if (!read_tokens(tokens, &file, at, row, block_size + 1))
            return false;
        memcpy(first + i * block_size, row, bytes);
        memcpy(second + i * block_size, row + 1, bytes);
    }
    return true;
}

static bool block_fits(const rg_tokens *tokens, int64_t block_size, const char *op) {
    RG_FAIL_VALUE_IF(tokens->n == 0, op, "'%s': it has no tokens", tokens->path);
    RG_FAIL_VALUE_IF(block_size < 0 || block_size >= tokens->n, op,
                     "block_size %lld isn't from 0 to %lld", (long long)block_size,
                     (long long)tokens->n - 1);
    return true;
}

rg_pair(rg_tokens_windows)(const rg_tokens *tokens, rg_tensor *starts, int64_t block_size) {
    const char *op = "tokens_windows";
    RG_SCOPE();
    if (!rgi_may_do_once(op) || !rgi_handle_given(tokens, op, RG_HANDLE_TOKENS)
        || !rg_check_tensor(starts, op))
        return no_windows;
    if (!rgi_is_index(rg_dtype_of(starts)) || rg_ndim(starts) != 1) {
        rg_fail(RG_TYPE_ERROR, op,
                "expected starts of dtype torch.int64 with 1 dim but got %s "
                "with %d",
                rg_dtype_name(rg_dtype_of(starts)), rg_ndim(starts));
        return no_windows;
    }
    if (!block_fits(tokens, block_size, op))
        return no_windows;
    rg_dims shape = RG_DIMS(rg_size(starts, 0), block_size);
    rg_tensor *at = rg_contiguous(starts);
    rg_pair p = { rg_empty_dims(shape, RG_INT64), rg_empty_dims(shape, RG_INT64) };
    int64_t *row = rgi_scope_alloc((size_t)(block_size + 1) * sizeof *row);
    if (!at || !p.first || !p.second || !row
        || !read_windows(tokens, (const int64_t *)rg_data(at), row, p))
        return no_windows;
    return (rg_pair){ rg_escape(p.first), rg_escape(p.second) };
}

rg_pair(rg_tokens_get_batch_with)(const rg_tokens *tokens, int64_t batch_size, int64_t block_size,
                                  rg_generator *g) {
    RG_AS("tokens_get_batch");
    RG_SCOPE();
    if (!rgi_may_do_once("tokens_get_batch")
        || !rgi_handle_given(tokens, "tokens_get_batch", RG_HANDLE_TOKENS))
        return no_windows;
    if (!block_fits(tokens, block_size, "tokens_get_batch"))
        return no_windows;
    rg_tensor *starts = rg_randint_dims(0, tokens->n - block_size, RG_DIMS(batch_size), RG_INT64,
                                        g);
    rg_pair p = rg_tokens_windows(tokens, starts, block_size);
    return (rg_pair){ rg_escape(p.first), rg_escape(p.second) };
}

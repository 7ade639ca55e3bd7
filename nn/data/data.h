/*
 * data.h: data to train on: tokens in files that may be larger than memory, tables of numbers,
 * lines of text, and batches in the order of torch.utils.data.
 *
 *     rg_data_loader *loader =
 *         rg_data_loader_new(RG_LIST(x, y), .batch_size = 32, .shuffle = true);
 *     for (;;) {
 *         RG_SCOPE();
 *         rg_list batch = rg_data_loader_next(loader);
 *         if (batch.n <= 0)
 *             break;
 *         ...
 *     }
 *     rg_data_loader_free(loader);
 *
 * To shuffle and batch other data, give the loader a tensor of indices: rg_arange(lines.n) for
 * lines of text, or the first tokens' indices for windows of tokens.
 *
 * Only one thread at a time may use a loader, since each batch changes its position. Several
 * threads may read from one file of tokens at once.
 */
#pragma once

#include "../../autograd/ops/ops.h"
#include "../../tensor/files/files.h"
#include "../models/batches.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- tokens ---------------------------------------------------------------------------
 * A file of tokens can be larger than memory, since only the requested windows of it are read. */

typedef struct rg_tokens rg_tokens;
typedef struct RG_OPTIONS rg_tokens_options {
    RG_BY_NAME;
    /* The dtype in the file: "uint16", "uint32" or another integer dtype of torch. If the path ends
     * with ".npy", the file's NumPy header names the dtype, and another dtype here is refused. Any
     * other file has no header and must be little-endian; there NULL means "uint16". */
    const char *dtype RG_DEFAULT(NULL);
} rg_tokens_options;
/* Opens a file of tokens. Close it with rg_tokens_close. Returns NULL on failure. */
rg_tokens *rg_tokens_open_with(const char *path, rg_tokens_options o);
#define rg_tokens_open(path, ...) \
    rg_tokens_open_with(path, RG_KEYWORDS(rg_tokens_options, (.dtype = NULL), __VA_ARGS__))
/* Closes the file. A later call with `tokens` fails with RG_RELEASED, as long as the memory of
 * `tokens` hasn't been reused. */
void rg_tokens_close(rg_tokens *tokens);
/* Returns the number of tokens in the file. Returns -1 on failure. */
int64_t rg_tokens_count(const rg_tokens *tokens);
/* Reads windows of the file. `starts` is an int64 vector. Returns two tensors with a row for each
 * element i of `starts`. A row of the first tensor has the tokens from i to i + block_size - 1. A
 * row of the second tensor has the tokens from i + 1 to i + block_size. On failure both are
 * NULL. */
rg_pair rg_tokens_windows(const rg_tokens *tokens, rg_tensor *starts, int64_t block_size);
/* Reads batch_size random windows of the file, as rg_get_batch reads windows of a tensor, and draws
 * the same random numbers. To continue an interrupted training with the windows that would have
 * followed, save and restore the state of the generator. */
rg_pair rg_tokens_get_batch_with(const rg_tokens *tokens, int64_t batch_size, int64_t block_size,
                                 rg_generator *g);
#define rg_tokens_get_batch(tokens, batch_size, block_size) \
    rg_tokens_get_batch_with(tokens, batch_size, block_size, rg_default_generator())

/* ---- tables and lines ----------------------------------------------------------------- */

typedef struct RG_OPTIONS rg_csv_options {
    RG_BY_NAME;
    rg_flag header RG_DEFAULT(false); /* Set to skip the first line, which names the columns. */
    char delimiter RG_DEFAULT(',');
    /* A floating point dtype, or an integer dtype if the file has integers only. */
    RG_ONE_OF(rg_dtype) dtype RG_DEFAULT(RG_FLOAT32);
} rg_csv_options;
/* Reads the numbers of a CSV file into a tensor (rows, columns). Cells can be in double quotes.
 * Empty lines are skipped. A cell that isn't a number is an error; the error message tells its line
 * and column. With an integer dtype, a cell that isn't written as an integer, such as 5.0, is an
 * error as well. */
rg_tensor *rg_load_csv_with(const char *path, rg_csv_options o);
#define rg_load_csv(path, ...) \
    rg_load_csv_with(          \
        path, RG_KEYWORDS(rg_csv_options, (.delimiter = ',', .dtype = RG_FLOAT32), __VA_ARGS__))
/* Returns the lines of a text file without their line ends. The scope owns them. On failure .n is
 * -1. */
rg_names rg_load_lines(const char *path);

/* ---- batches in the order of torch's DataLoader --------------------------------------- */

typedef struct rg_data_loader rg_data_loader;
typedef struct RG_OPTIONS rg_data_loader_options {
    RG_BY_NAME;
    int64_t batch_size RG_DEFAULT(1);
    rg_flag shuffle RG_DEFAULT(false);
    rg_flag drop_last RG_DEFAULT(false);
    /* The source of random numbers. It must exist as long as the loader. NULL means the default
     * generator, whose state isn't part of the loader's state_dict. */
    rg_generator *generator RG_DEFAULT(NULL);
} rg_data_loader_options;
/* Makes a loader, as DataLoader(TensorDataset(*tensors), ..) does. Free it with
 * rg_data_loader_free. Item i consists of x[i] of each tensor x. Batches are in torch's order, and
 * the same random numbers are drawn. Returns NULL on failure. */
rg_data_loader *rg_data_loader_new_with(rg_list tensors, rg_data_loader_options o);
#define rg_data_loader_new(tensors, ...) \
    rg_data_loader_new_with(tensors,     \
                            RG_KEYWORDS(rg_data_loader_options, (.batch_size = 1), __VA_ARGS__))
void rg_data_loader_free(rg_data_loader *l);
/* Returns the number of batches in an epoch. Returns -1 on failure. */
int64_t rg_data_loader_len(const rg_data_loader *l);
/* Returns the next batch: for each tensor of the loader, a tensor with the items of the batch. The
 * scope owns them. After the last batch of an epoch, one call returns an empty list, and the next
 * call begins a new epoch. On failure .n is -1. */
rg_list rg_data_loader_next(rg_data_loader *l);
/* Returns the loader's state: the order of the current epoch, the position in it and, if the loader
 * has a generator of its own, the generator's state. rg_training saves and loads it if .loader = l.
 * The caller's scope owns the tensors. Their shapes never change, so that loaded values can be
 * copied into them:
 *
 *     rg_named_list state = rg_data_loader_state_dict(l);
 *     rg_load_checkpoint("run.safetensors", (rg_training){ .tensors = state });
 *     rg_data_loader_load_state_dict(l, state);
 */
rg_named_list rg_data_loader_state_dict(rg_data_loader *l);
/* Restores a state that rg_data_loader_state_dict returned. On failure returns false, and the
 * loader stays as it was. */
bool rg_data_loader_load_state_dict(rg_data_loader *l, rg_named_list dict);

/* Shuffles the indices from 0 to n - 1, and splits them into parts. `lengths` are the lengths of
 * the parts, whose sum must be n, or fractions, whose sum must be 1. Each part is an int64 vector
 * of indices (torch's Subset.indices). The scope owns the parts. On failure .n is -1. */
rg_list rg_random_split_with(int64_t n, int parts, const double *lengths, rg_generator *g);
#define rg_random_split(n, parts, ...) \
    rg_random_split_with(n, parts, __VA_ARGS__, rg_default_generator())

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_tokens_windows(tokens, starts, block_size) \
    rg_tokens_windows(tokens, starts, RG_WHOLE(block_size))
#define rg_tokens_get_batch_with(tokens, batch_size, block_size, g) \
    rg_tokens_get_batch_with(tokens, RG_WHOLE(batch_size), RG_WHOLE(block_size), g)
#define rg_random_split_with(n, parts, ...) \
    rg_random_split_with(RG_WHOLE(n), RG_INT(parts), __VA_ARGS__)

RG_PUBLIC_END

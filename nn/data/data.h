/*
 * data.h: data to train on: tokens in files that are larger than memory, tables, lines of text, and
 * batches in torch.utils.data's order.
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
 */
#pragma once

#include "../../autograd/ops/ops.h"
#include "../../tensor/files/files.h"
#include "../models/batches.h"

RG_PUBLIC_BEGIN

/* ---- tokens ---------------------------------------------------------------------------
 * Only the requested windows of the file are read; the file is never held in memory. */

typedef struct rg_tokens rg_tokens;
typedef struct RG_OPTIONS rg_tokens_options {
    RG_BY_NAME;
    /* The file's dtype: "uint16", "uint32" or another integer of torch's, lowest byte first. NULL
     * stands for "uint16" or, if the path ends with ".npy", for the dtype in NumPy's header. */
    const char *dtype RG_DEFAULT(NULL);
} rg_tokens_options;
/* Returns tokens to be closed with rg_tokens_close, or NULL. */
rg_tokens *rg_tokens_open_with(const char *path, rg_tokens_options o);
#define rg_tokens_open(path, ...) \
    rg_tokens_open_with(path, RG_KEYWORDS(rg_tokens_options, (.dtype = NULL), __VA_ARGS__))
/* Closes the file. A later use of `tokens` is an error (RG_RELEASED) as long as the allocator
 * hasn't reused the memory. */
void rg_tokens_close(rg_tokens *tokens);
/* Returns the number of tokens, or -1. */
int64_t rg_tokens_count(const rg_tokens *tokens);
/* Returns two tensors of one row for each element of `starts` (int64): the block_size tokens from
 * that index on, and the block_size tokens from the next index on. */
rg_pair rg_tokens_windows(const rg_tokens *tokens, rg_tensor *starts, int64_t block_size);
/* Returns random windows: rg_get_batch for a file, with the same draws. A program that saves the
 * generator's state can resume there. */
rg_pair rg_tokens_get_batch_with(const rg_tokens *tokens, int64_t batch_size, int64_t block_size,
                                 rg_generator *g);
#define rg_tokens_get_batch(tokens, batch_size, block_size) \
    rg_tokens_get_batch_with(tokens, batch_size, block_size, rg_default_generator())

/* ---- tables and lines ----------------------------------------------------------------- */

typedef struct RG_OPTIONS rg_csv_options {
    RG_BY_NAME;
    bool header RG_DEFAULT(false); /* Skip the first line, which names the columns. */
    char delimiter RG_DEFAULT(',');
    /* A floating dtype, or an integer one for a file of integers. */
    RG_ONE_OF(rg_dtype) dtype RG_DEFAULT(RG_FLOAT32);
} rg_csv_options;
/* Returns the numbers of a CSV file as (rows, columns). A cell may stand in double quotes, and
 * empty lines are skipped. Any other cell that isn't a number (or, with an integer dtype, isn't an
 * integer: 5.0 isn't) is an error that gives its line and column. */
rg_tensor *rg_load_csv_with(const char *path, rg_csv_options o);
#define rg_load_csv(path, ...) \
    rg_load_csv_with(          \
        path, RG_KEYWORDS(rg_csv_options, (.delimiter = ',', .dtype = RG_FLOAT32), __VA_ARGS__))
/* Returns a text's lines without their line ends. The scope owns them. A list with .n == -1 means
 * failure. */
rg_names rg_load_lines(const char *path);

/* ---- batches -------------------------------------------------------------------------- */

typedef struct rg_data_loader rg_data_loader;
typedef struct RG_OPTIONS rg_data_loader_options {
    RG_BY_NAME;
    int64_t batch_size RG_DEFAULT(1);
    bool shuffle RG_DEFAULT(false);
    bool drop_last RG_DEFAULT(false);
    /* Must outlive the loader. NULL stands for the default generator, whose state the loader
     * doesn't save. */
    rg_generator *generator RG_DEFAULT(NULL);
} rg_data_loader_options;
/* Returns DataLoader(TensorDataset(*tensors), ..), to be freed with rg_data_loader_free. Item i is
 * x[i] of each tensor x. Batches come in torch's order, after the same random draws. */
rg_data_loader *rg_data_loader_new_with(rg_list tensors, rg_data_loader_options o);
#define rg_data_loader_new(tensors, ...) \
    rg_data_loader_new_with(tensors,     \
                            RG_KEYWORDS(rg_data_loader_options, (.batch_size = 1), __VA_ARGS__))
void rg_data_loader_free(rg_data_loader *l);
/* Returns the number of batches of an epoch, or -1. */
int64_t rg_data_loader_len(const rg_data_loader *l);
/* Returns the next batch, which has one tensor for each of the loader's. After an epoch's last
 * batch, one call returns an empty list, and the next call begins a new epoch. A list with .n == -1
 * means failure. */
rg_list rg_data_loader_next(rg_data_loader *l);
/* Returns the loader's state for a checkpoint: the order of the current epoch, the position in it,
 * and the state of the loader's own generator, if it has one. rg_training saves it with .loader =
 * l. The caller owns the tensors, whose shapes never change:
 *
 *     rg_named_list state = rg_data_loader_state_dict(l);
 *     rg_load_checkpoint("run.safetensors", (rg_training){ .tensors = state });
 *     rg_data_loader_load_state_dict(l, state);
 */
rg_named_list rg_data_loader_state_dict(rg_data_loader *l);
/* Restores the state. Returns false on failure, and then changes nothing. */
bool rg_data_loader_load_state_dict(rg_data_loader *l, rg_named_list dict);

/* Shuffles the indices 0 to n - 1, and splits them into parts of the given lengths, whose sum is n,
 * or of the given fractions, whose sum is 1. The parts are torch's Subset.indices. */
rg_list rg_random_split_with(int64_t n, int parts, const double *lengths, rg_generator *g);
#define rg_random_split(n, parts, lengths) \
    rg_random_split_with(n, parts, lengths, rg_default_generator())

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_tokens_windows(tokens, starts, block_size) \
    rg_tokens_windows(tokens, starts, RG_WHOLE(block_size))
#define rg_tokens_get_batch_with(tokens, batch_size, block_size, g) \
    rg_tokens_get_batch_with(tokens, RG_WHOLE(batch_size), RG_WHOLE(block_size), g)
#define rg_random_split_with(n, parts, ...) \
    rg_random_split_with(RG_WHOLE(n), RG_WHOLE(parts), __VA_ARGS__)

RG_PUBLIC_END

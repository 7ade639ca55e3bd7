/*
 * data.h: what is trained on: tokens in files that are larger than memory, tables and lines of
 * text, and batches in torch.utils.data's order.
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
 * What isn't a list of tensors is shuffled and cut through the indices of its items: those of lines
 * are rg_arange(lines.n), and those of windows of tokens are the places where they begin.
 */
#pragma once

#include "../../autograd/ops/ops.h"
#include "../../tensor/files/files.h"
#include "../models/batches.h"

RG_PUBLIC_BEGIN

/* ---- tokens ---------------------------------------------------------------------------
 * The file is read where it is asked for, and never held in memory. */

typedef struct rg_tokens rg_tokens;
typedef struct RG_OPTIONS rg_tokens_options {
    RG_BY_NAME;
    /* The file has integers of this type and nothing else, lowest byte first: "uint16", "uint32" or
     * another that torch has. NULL stands for uint16, or, where the path ends with ".npy", for what
     * NumPy's header says. */
    const char *dtype RG_DEFAULT(NULL);
} rg_tokens_options;
/* Returns tokens to be closed with rg_tokens_close, or NULL. */
rg_tokens *rg_tokens_open_with(const char *path, rg_tokens_options o);
#define rg_tokens_open(path, ...) \
    rg_tokens_open_with(path, RG_KEYWORDS(rg_tokens_options, (.dtype = NULL), __VA_ARGS__))
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 */
void rg_tokens_close(rg_tokens *tokens);
/* Returns how many there are, or -1. */
int64_t rg_tokens_count(const rg_tokens *tokens);
/* Returns the windows of block_size tokens that begin where the int64 tensor `starts` says, one a
 * row, and the windows that lie one token further on. */
rg_pair rg_tokens_windows(const rg_tokens *tokens, rg_tensor *starts, int64_t block_size);
/* Does what rg_get_batch does, with the same draws. Who keeps the generator's state can go on from
 * there. */
rg_pair rg_tokens_get_batch_with(const rg_tokens *tokens, int64_t batch_size, int64_t block_size,
                                 rg_generator *g);
#define rg_tokens_get_batch(tokens, batch_size, block_size) \
    rg_tokens_get_batch_with(tokens, batch_size, block_size, rg_default_generator())

/* ---- tables and lines ----------------------------------------------------------------- */

typedef struct RG_OPTIONS rg_csv_options {
    RG_BY_NAME;
    bool header RG_DEFAULT(false); /* The first line has the columns' names, which are skipped. */
    char delimiter RG_DEFAULT(',');
    /* It may be RG_FLOAT64, or RG_INT64 for integers alone, too. */
    rg_dtype dtype RG_DEFAULT(RG_FLOAT32);
} rg_csv_options;
/* Returns the numbers of a CSV file as (rows, columns). A cell may stand in double quotes; empty
 * lines are skipped; all else that is no number (or, with RG_INT64, no integer: 5.0 is none) fails,
 * with its line and column. */
rg_tensor *rg_load_csv_with(const char *path, rg_csv_options o);
#define rg_load_csv(path, ...) \
    rg_load_csv_with(          \
        path, RG_KEYWORDS(rg_csv_options, (.delimiter = ',', .dtype = RG_FLOAT32), __VA_ARGS__))
/* Returns a text's lines, without what ends them. The scope owns them. A list with .n == -1 means
 * failure. */
rg_names rg_load_lines(const char *path);

/* ---- batches -------------------------------------------------------------------------- */

typedef struct rg_data_loader rg_data_loader;
typedef struct RG_OPTIONS rg_data_loader_options {
    RG_BY_NAME;
    int64_t batch_size RG_DEFAULT(1);
    bool shuffle RG_DEFAULT(false);
    bool drop_last RG_DEFAULT(false);
    /* It must live as long as the loader. NULL stands for the default one, whose state isn't a part
     * of the loader's. */
    rg_generator *generator RG_DEFAULT(NULL);
} rg_data_loader_options;
/* Returns DataLoader(TensorDataset(*tensors), ..), to be released with rg_data_loader_free: item i
 * is x[i] of each tensor x. Its batches come in torch's order, after the same draws. */
rg_data_loader *rg_data_loader_new_with(rg_list tensors, rg_data_loader_options o);
#define rg_data_loader_new(tensors, ...) \
    rg_data_loader_new_with(tensors,     \
                            RG_KEYWORDS(rg_data_loader_options, (.batch_size = 1), __VA_ARGS__))
void rg_data_loader_free(rg_data_loader *l);
/* Returns how many batches an epoch has, or -1. */
int64_t rg_data_loader_len(const rg_data_loader *l);
/* Returns the next batch, one tensor for each of the loader's. At an epoch's end it returns a list
 * of none, once, and the next call begins the next epoch. A list with .n == -1 means failure. */
rg_list rg_data_loader_next(rg_data_loader *l);
/* Returns what a checkpoint has to keep: the order of the epoch that is under way, how far it is,
 * and the generator, if the loader has one of its own. An rg_training keeps it with .loader = l.
 * The tensors are the caller's own, of the same shapes at any time:
 *
 *     rg_named_list state = rg_data_loader_state_dict(l);
 *     rg_load_checkpoint("run.safetensors", (rg_training){ .tensors = state });
 *     rg_data_loader_load_state_dict(l, state);
 */
rg_named_list rg_data_loader_state_dict(rg_data_loader *l);
/* Makes the loader go on where that one was. Returns false, and changes nothing, where that fails.
 */
bool rg_data_loader_load_state_dict(rg_data_loader *l, rg_named_list dict);

/* Shuffles the indices from 0 to n - 1, and returns them in parts of these lengths, which add up to
 * n; or which are fractions and add up to 1. The parts are torch's Subset.indices. */
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

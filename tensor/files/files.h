/*
 * files.h: tensors in files: safetensors, NumPy's .npy and .npz, and what torch.save writes.
 *
 * What is read is believed in nothing: a file that is cut short, crafted or of another kind fails
 * with RG_IO_ERROR and a sentence that names the file, the tensor and what is wrong. Types that
 * regard lacks become the one that holds all their values: float16, bfloat16 and the float8s
 * float32, and the other integers int64. A file is written beside its place, synced and renamed, so
 * that whoever opens it meets the old file or the new one. A save that is killed may leave what it
 * wrote, as "model.safetensors.4711-0.new": the next save to the same path takes it away, and so
 * may whoever finds it.
 */
#pragma once

#include "../tensor.h"

RG_PUBLIC_BEGIN

/* ---- how much memory a load may take ------------------------------------------------------
 * A small file can ask for much: a megabyte of zeros that NumPy deflated stands for a billion
 * elements. Every function that loads a file, here and in nn/, takes no more memory at any moment,
 * with what it returns, than 9 times the bytes of the files that it reads and 1 GB (1 << 30 bytes)
 * more. Where a file needs more, the load fails with RG_IO_ERROR, and says how much it needs. */

/* Sets the limit for all threads, in bytes, instead of that; 0 sets what stands above, and
 * INT64_MAX is as good as no limit. A load that is under way keeps its own. Returns false, and
 * changes nothing, where bytes is negative. */
bool rg_set_load_limit(int64_t bytes);
/* Returns the bytes that were set, or 0. */
int64_t rg_get_load_limit(void);

/* ---- safetensors ----------------------------------------------------------------------
 * A file of named tensors, as safetensors' Python has them:
 *
 *     rg_save_file(rg_state_dict(model), "model.safetensors");
 *     rg_load_state_dict(model, rg_load_file("model.safetensors"), true);
 *
 * In nn/save.h there are two functions that save and load a module, and write what it ties once. */

/* Texts about a file, by name. A list with .n == -1 means failure. */
typedef struct rg_metadata_pair {
    const char *key, *value;
} rg_metadata_pair;
typedef struct rg_metadata {
    int n;
    const rg_metadata_pair *v;
} rg_metadata;

typedef struct RG_OPTIONS rg_save_file_options {
    RG_BY_NAME;
    rg_metadata metadata RG_DEFAULT({}); /* .metadata = { 1, pairs } */
} rg_save_file_options;
/* Writes the tensors, each one whole, even where two of them share memory. Returns false, and
 * leaves the file that was there, where that fails. A name is UTF-8, and may come once. */
bool rg_save_file_with(rg_named_list tensors, const char *path, rg_save_file_options o);
#define rg_save_file(tensors, path, ...) \
    rg_save_file_with(tensors, path,     \
                      RG_KEYWORDS(rg_save_file_options, (.metadata = { 0 }), __VA_ARGS__))
/* Returns all tensors of a file, in the order in which they lie there. */
rg_named_list rg_load_file(const char *path);

/* A file that is open gives one tensor at a time; only its header is held in memory. If the file is
 * replaced meanwhile, what was opened is read; if it is cut short, reading fails. */
typedef struct rg_safe_file rg_safe_file;
typedef struct rg_names {
    int n;
    const char *const *v;
} rg_names;
/* Returns a file to be closed with rg_safe_close, or NULL. Threads may read from it at once. */
rg_safe_file *rg_safe_open(const char *path);
/* Returns the tensors' names, sorted, which the scope owns. A list with .n == -1 means failure. */
rg_names rg_safe_keys(const rg_safe_file *f);
rg_tensor *rg_safe_get_tensor(const rg_safe_file *f, const char *name);
/* The scope owns the texts. */
rg_metadata rg_safe_metadata(const rg_safe_file *f);
/* NULL is left alone. A use after this is noticed (RG_RELEASED) only while the memory isn't in use
 * for something else. */
void rg_safe_close(rg_safe_file *f);

/* ---- NumPy's .npy and .npz ------------------------------------------------------------ */

/* Returns the array of a .npy, of version 1.0, 2.0 or 3.0. One in Fortran's order gives a tensor
 * whose first stride is 1, as torch.from_numpy does. Where the file has more bytes than the array
 * takes, the call fails. */
rg_tensor *rg_load_npy(const char *path);
/* Writes just what np.save writes. Returns false, and leaves the file that was there, where that
 * fails. */
bool rg_save_npy(rg_tensor *t, const char *path);
/* Returns all arrays of an .npz, stored or deflated: what is in "x.npy" has the name "x". */
rg_named_list rg_load_npz(const char *path);
/* Writes what np.load opens, not deflated. A name is UTF-8, and may come once. Returns false, and
 * leaves the file that was there, where that fails. */
bool rg_save_npz(rg_named_list list, const char *path);

/* ---- what torch.save writes ------------------------------------------------------------- */

/* Returns what is in a file of torch.save's, by name: a state_dict, a checkpoint, or a tensor, the
 * name of which is "". A dict, list or tuple in another gives names with dots: model.fc.weight,
 * optimizer.state.0.exp_avg, optimizer.param_groups.0.lr. What would come twice under one name is
 * an error. Numbers are tensors of no dims: an int is an int64, a float a float64. What is neither
 * a tensor nor a number (None, a text, a dtype) has RG_NONE for a tensor; a dict or list without
 * anything in it has no entry. An int that int64 can't hold is an entry like others, but each
 * function that is given its tensor fails with the entry's name. Tensors share memory where they
 * did in torch, if their elements are of one type there; none requires a gradient.
 *
 * A file that torch.load(f, weights_only=True) refuses is refused here: nothing that it says is
 * ever run. So are files of PyTorch before 1.6, and files with values that regard can't hold, as
 * sparse, quantized and complex tensors; the error says what to save instead. */
rg_named_list rg_torch_load(const char *path);
/* Writes a list as an OrderedDict that torch.load(f, weights_only=True) opens, or the tensor alone
 * if the one name is "". Tensors that share memory share it in the file and in torch. RG_NONE is
 * written as None. An optimizer's state is a dict of dicts to torch: rg_torch_save_checkpoint in
 * nn/save/checkpoint.h writes it. Returns false where it fails, and leaves a file that was there
 * as it was. */
bool rg_torch_save(rg_named_list list, const char *path);
/* Returns the entries whose names begin with the prefix and a dot, and takes these away from their
 * names, which stay a part of the list's:
 *
 *     rg_load_state_dict(model, rg_named_below(rg_torch_load("checkpoint.pt"), "model"), true)
 *
 * There may be none. A list that failed gives one that failed. */
rg_named_list rg_named_below(rg_named_list list, const char *prefix);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_set_load_limit(bytes) rg_set_load_limit(RG_WHOLE(bytes))

RG_PUBLIC_END

/*
 * files.h: tensors in files: safetensors, NumPy's .npy and .npz, and files of torch.save.
 *
 * Readers check everything. If a file is truncated, malicious or of another format, they fail with
 * RG_IO_ERROR and a message that names the file, the tensor and the fault. Elements of a type that
 * regard doesn't have are converted: the float8 types become float32, and the other integer types
 * become int64.
 *
 * A save writes a new file in the same folder, syncs it, and renames it to the given path, so that
 * a reader finds either the old file or the new one. If the process is killed while it saves, its
 * new file, such as "model.safetensors.4711-0.new", stays there. The next save to the same path
 * removes it; a user may remove it as well.
 *
 * The process must be allowed to write to the folder and to the old file, or the save fails with
 * RG_IO_ERROR: a file that is made read-only is kept. (root may write to every file.) The new file
 * has the permissions of the old one, and belongs to the user who saves. If the path is a symbolic
 * link, the file that it points to is replaced, and the link stays. If the old file has another
 * name (a hard link), that name keeps the old file.
 */
#pragma once

#include "../tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- the memory that loading a file may allocate ----------------------------------------------
 * A small file may contain a large array: NumPy compresses a billion zeros to a megabyte. Therefore
 * loading is limited. At any moment, a function that loads files, here or in nn/, may hold memory
 * of at most 9 times the size of the files that it reads, plus 1 GB (1 << 30 bytes); its result
 * counts as well. If a file needs more, loading fails with RG_IO_ERROR, and the message says how
 * much it needs. */

/* Sets the limit in bytes, for all threads. 0 restores the default limit, and INT64_MAX means that
 * there is no limit. Loading that is in progress keeps its limit. If `bytes` is negative, changes
 * nothing and returns false. */
bool rg_set_load_limit(int64_t bytes);
/* Returns the limit that the program has set, or 0 for the default limit. */
int64_t rg_get_load_limit(void);

/* ---- safetensors ----------------------------------------------------------------------
 * A file of named tensors, as in Python's safetensors:
 *
 *     rg_save_file(rg_state_dict(model), "model.safetensors");
 *     rg_load_state_dict(model, rg_load_file("model.safetensors"), true);
 *
 * rg_module_save and rg_module_load, in nn/save/save.h, save and load a module. Its tied weights
 * are saved only once. */

/* The metadata of a file: strings, each with a key. A list with .n == -1 means failure. */
typedef struct rg_metadata_pair {
    const char *key, *value;
} rg_metadata_pair;
typedef struct rg_metadata {
    int n;
    const rg_metadata_pair *v;
} rg_metadata;

typedef struct RG_OPTIONS rg_save_file_options {
    RG_BY_NAME;
    rg_metadata metadata RG_DEFAULT({}); /* Strings to store in the file. An array of n pairs is
                                          * given as { n, pairs }. */
    /* The most bytes of data that a file may have; 0 means any number. If the tensors have more,
     * the path must end with ".safetensors". For model.safetensors the files are then
     * model-00001-of-00003.safetensors and so on, and model.safetensors.index.json, which lists
     * them and is written last. A tensor that has more bytes gets a file of its own. If such a save
     * fails, some of the files may have been replaced already. Files of an earlier save into
     * another number of files stay in the folder: remove them, or load the path of the last one. */
    int64_t max_shard_size RG_DEFAULT(0);
} rg_save_file_options;
/* Writes the tensors to a file. Each is written as a whole, even if some of them share memory.
 * Names must be UTF-8, and must differ. Returns false on failure; the file that was there before is
 * then unchanged. */
bool rg_save_file_with(rg_named_list tensors, const char *path, rg_save_file_options o);
#define rg_save_file(tensors, path, ...) \
    rg_save_file_with(tensors, path,     \
                      RG_KEYWORDS(rg_save_file_options, (.metadata = { 0 }), __VA_ARGS__))
/* Returns all tensors of a file, in the order in which they are stored. If the path ends with
 * ".index.json", such as model.safetensors.index.json, returns the tensors of all files that the
 * index lists; they must lie in its folder. On failure .n is -1. */
rg_named_list rg_load_file(const char *path);

/* An open file, from which tensors are read one at a time; only the file's header is held in
 * memory. If the file is replaced while it is open, the old file is still read. If the file is
 * truncated, reading fails. */
typedef struct rg_safe_file rg_safe_file;
typedef struct rg_names {
    int n;
    const char *const *v;
} rg_names;
/* Opens a file, or all files that an index lists, as rg_load_file does. Their tensors are then read
 * as if they were in one file. Returns NULL on failure. The program closes the file by
 * rg_safe_close. Several threads may read from an open file at the same time. */
rg_safe_file *rg_safe_open(const char *path);
/* Returns the names of the tensors in sorted order. The innermost scope owns the list. A list with
 * .n == -1 means failure. */
rg_names rg_safe_keys(const rg_safe_file *f);
rg_tensor *rg_safe_get_tensor(const rg_safe_file *f, const char *name);
/* Returns the file's metadata; if an index lists several files, those of the first. The innermost
 * scope owns the strings. A list with .n == -1 means failure. */
rg_metadata rg_safe_metadata(const rg_safe_file *f);
/* Closes the file. Does nothing for NULL. A function that is given the closed file fails with
 * RG_RELEASED, unless the file's memory is already used for something else. */
void rg_safe_close(rg_safe_file *f);

/* ---- NumPy's .npy and .npz ------------------------------------------------------------ */

/* Returns the array in a .npy file of version 1.0, 2.0 or 3.0. An array in Fortran's order becomes
 * a tensor whose first dim has stride 1, as with torch.from_numpy. It is an error if the file has
 * more bytes than the array needs. */
rg_tensor *rg_load_npy(const char *path);
/* Writes the same bytes as np.save. Fails for a bfloat16 tensor, since NumPy doesn't have this
 * dtype. Returns false on failure; the file that was there before is then unchanged. */
bool rg_save_npy(rg_tensor *t, const char *path);
/* Returns all arrays in a .npz file, compressed (deflated) or not. The array in "x.npy" gets the
 * name "x". On failure .n is -1. */
rg_named_list rg_load_npz(const char *path);
/* Writes an uncompressed .npz file for np.load. Names must be UTF-8, and must differ. Returns false
 * on failure; the file that was there before is then unchanged. */
bool rg_save_npz(rg_named_list list, const char *path);

/* ---- PyTorch's files ------------------------------------------------------------- */

/* Returns the values in a file of torch.save as a list of named tensors. The file may have a
 * state_dict, a checkpoint, or a single tensor, whose name is then "". Values in nested dicts,
 * lists and tuples have names with dots: model.fc.weight, optimizer.state.0.exp_avg,
 * optimizer.param_groups.0.lr. It is an error if two values have the same name.
 *
 * A number becomes a 0-d tensor: an int has the dtype int64, a float has float64, and a bool has
 * bool. Any other value that isn't a tensor, such as None, a string or a dtype, becomes RG_NONE. An
 * empty dict, list or tuple has no entry. An int that int64 can't hold has an entry as well, but
 * every function that is given its tensor fails, with the entry's name in the message. Tensors that
 * share memory in torch, and have the same dtype in torch, share memory here as well. No tensor
 * requires a gradient.
 *
 * Files that torch.load(f, weights_only=True) refuses are refused here as well; code in a file is
 * never run. Also refused are files of PyTorch before 1.6, and files with values that regard can't
 * hold, such as sparse, quantized and complex tensors; the message says what to save instead. */
rg_named_list rg_torch_load(const char *path);
/* Writes a list as an OrderedDict for torch.load(f, weights_only=True). If the list has a single
 * entry, whose name is "", writes just its tensor. Tensors that share memory share it in the file
 * and in torch as well. RG_NONE is written as None. (Torch expects an optimizer's state as a dict
 * of dicts; rg_torch_save_checkpoint in nn/save/checkpoint.h writes that.) Returns false on
 * failure; the file that was there before is then unchanged. */
bool rg_torch_save(rg_named_list list, const char *path);
/* Returns the entries with names that begin with the prefix and a dot, and removes the prefix and
 * the dot from the names. The new names are parts of the old strings, and live as long as the old
 * strings do:
 *
 *     rg_load_state_dict(model, rg_named_below(rg_torch_load("checkpoint.pt"), "model"), true)
 *
 * The result may be empty. If `list` is the result of a failure (.n == -1), the function fails as
 * well. */
rg_named_list rg_named_below(rg_named_list list, const char *prefix);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_set_load_limit(bytes) rg_set_load_limit(RG_WHOLE(bytes))

RG_PUBLIC_END

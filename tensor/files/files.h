/*
 * files.h: tensors in files: safetensors, NumPy's .npy and .npz, and what torch.save writes.
 *
 * Readers check everything: a file that is cut short, crafted or of another kind fails with
 * RG_IO_ERROR and a sentence that names the file, the tensor and the mistake. Elements of a type
 * that regard lacks are converted: float16, bfloat16 and the float8 types become float32, the other
 * integers int64. A save writes a new file in the same folder, syncs it and renames it, so that a
 * reader opens either the old file or the new one. A save that is killed may leave its new file,
 * "model.safetensors.4711-0.new", which the next save to the same path removes; a user may remove
 * it, too.
 */
#pragma once

#include "../tensor.h"

RG_PUBLIC_BEGIN

/* ---- the memory that a load may take ------------------------------------------------------------
 * A small file may hold a large array: NumPy deflates a billion zeros to a megabyte. Every function
 * that loads a file, here and in nn/, takes at most 9 times the bytes of the files that it reads
 * plus 1 GB (1 << 30 bytes) of memory at any moment, its result included. If a file needs more, the
 * load fails with RG_IO_ERROR, and says how much it needs. */

/* Sets another limit, in bytes, for all threads; 0 sets the default limit again, and INT64_MAX
 * means no limit. Loads that have begun keep the previous limit. Returns false, and changes
 * nothing, if bytes is negative. */
bool rg_set_load_limit(int64_t bytes);
/* Returns the limit that was set, or 0 for the default. */
int64_t rg_get_load_limit(void);

/* ---- safetensors ----------------------------------------------------------------------
 * A file of named tensors, as safetensors' Python has them:
 *
 *     rg_save_file(rg_state_dict(model), "model.safetensors");
 *     rg_load_state_dict(model, rg_load_file("model.safetensors"), true);
 *
 * The two functions of nn/save/save.h save and load a module, and write tied weights once. */

/* Texts about a file, with their keys. A list with .n == -1 means failure. */
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
/* Writes the tensors, each as a whole, even if two of them share memory. Returns false on failure,
 * and then the previous file is still there. Names are UTF-8, and must differ. */
bool rg_save_file_with(rg_named_list tensors, const char *path, rg_save_file_options o);
#define rg_save_file(tensors, path, ...) \
    rg_save_file_with(tensors, path,     \
                      RG_KEYWORDS(rg_save_file_options, (.metadata = { 0 }), __VA_ARGS__))
/* Returns all tensors of a file, in the order in which they lie in it. */
rg_named_list rg_load_file(const char *path);

/* An open file returns one tensor at a time; only its header is held in memory. If the file is
 * replaced while it is open, the old file is read; if it is cut short, reading fails. */
typedef struct rg_safe_file rg_safe_file;
typedef struct rg_names {
    int n;
    const char *const *v;
} rg_names;
/* Returns an open file, which rg_safe_close closes, or NULL. Several threads may read from it at
 * once. */
rg_safe_file *rg_safe_open(const char *path);
/* Returns the sorted names of the tensors. The scope owns the list; .n == -1 means failure. */
rg_names rg_safe_keys(const rg_safe_file *f);
rg_tensor *rg_safe_get_tensor(const rg_safe_file *f, const char *name);
/* The scope owns the texts. */
rg_metadata rg_safe_metadata(const rg_safe_file *f);
/* NULL is left alone. A use after this is noticed (RG_RELEASED) only while the memory isn't in use
 * for something else. */
void rg_safe_close(rg_safe_file *f);

/* ---- NumPy's .npy and .npz ------------------------------------------------------------ */

/* Returns the array of a .npy file of version 1.0, 2.0 or 3.0. An array in Fortran's order becomes
 * a tensor whose first stride is 1, as with torch.from_numpy. A file with more bytes than the array
 * is an error. */
rg_tensor *rg_load_npy(const char *path);
/* Writes the same bytes as np.save. Returns false on failure, and then the previous file is still
 * there. */
bool rg_save_npy(rg_tensor *t, const char *path);
/* Returns all arrays of a .npz file, stored or deflated: the array in "x.npy" has the name "x". */
rg_named_list rg_load_npz(const char *path);
/* Writes a .npz file for np.load, not deflated. Names are UTF-8, and must differ. Returns false on
 * failure, and then the previous file is still there. */
bool rg_save_npz(rg_named_list list, const char *path);

/* ---- PyTorch's files ------------------------------------------------------------- */

/* Returns the values in a file of torch.save by name: a state_dict, a checkpoint, or a single
 * tensor, whose name is "". The names of values in nested dicts, lists and tuples have dots:
 * model.fc.weight, optimizer.state.0.exp_avg, optimizer.param_groups.0.lr. Two values of one name
 * are an error. A number becomes a 0-d tensor: an int an int64, a float a float64. Any other value
 * that isn't a tensor (None, a text, a dtype) becomes RG_NONE; an empty dict or list has no entry.
 * An int that int64 can't hold has an entry, too, but every function that is given its tensor fails
 * with the entry's name. Tensors that shared memory in torch share it here if they have one dtype
 * there; none requires a gradient.
 *
 * A file that torch.load(f, weights_only=True) refuses is refused here, too: no code in it is ever
 * run. Files of PyTorch before 1.6 are refused, and files with values that regard can't hold, such
 * as sparse, quantized and complex tensors; the error says what to save instead. */
rg_named_list rg_torch_load(const char *path);
/* Writes a list as an OrderedDict for torch.load(f, weights_only=True), or, if its only name is "",
 * as a single tensor. Tensors that share memory share it in the file and in torch. RG_NONE is
 * written as None. (Torch expects an optimizer's state as a dict of dicts: rg_torch_save_checkpoint
 * in nn/save/checkpoint.h writes it.) Returns false on failure, and then the previous file is still
 * there. */
bool rg_torch_save(rg_named_list list, const char *path);
/* Returns the entries whose names begin with the prefix and a dot, under their names without these.
 * The new names are parts of the old ones, and live as long:
 *
 *     rg_load_state_dict(model, rg_named_below(rg_torch_load("checkpoint.pt"), "model"), true)
 *
 * The result may be empty. If the list is a failure (.n == -1), so is the result. */
rg_named_list rg_named_below(rg_named_list list, const char *prefix);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_set_load_limit(bytes) rg_set_load_limit(RG_WHOLE(bytes))

RG_PUBLIC_END

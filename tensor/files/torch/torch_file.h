/*
 * torch_file.h: declarations that the readers of torch's archives share. torch_read.c reads the
 * members of an archive, torch_tensor.c makes tensors, and torch_entries.c gives them names.
 */
#pragma once

#include "tensor/files/files.h"
#include "pickle.h"
#include "tensor/files/zip.h"
#include "tensor/map.h"
#include "tensor/text/text.h"

/* A storage, which is a member of the archive. as[type] is NULL until the storage's bytes are read
 * as elements of that type. Then as[type] is a tensor of one dim with these elements, and the
 * file's tensors of that type share the memory of as[type]. */
typedef struct {
    uint8_t global; /* The row of the storage's class in the table of globals (see pickle.h). */
    int64_t numel;
    const rg_zip_member *member;
    rg_tensor *as[RG_FOREIGN_COUNT];
} rg_torch_storage;

/* The reader of an archive. `made` has an entry for each value of the pickle: the tensor that was
 * made from the value, or NULL if none was made yet. */
typedef struct {
    const rg_file *file;
    const rg_zip *zip;
    const char *prefix; /* A string that begins with the name of the folder that has all members.
                         * The name takes prefix_n bytes, which include the slash. */
    size_t prefix_n;
    bool swapped; /* Set if the bytes of an element are in the opposite order to the machine's. */
    rg_pickle pickle;
    rg_map keys; /* A map from the key by which the pickle names a storage to the storage's index in
                  * `storages`. */
    rg_torch_storage *storages;
    size_t n_storages, storage_room;
    rg_tensor **made;
    size_t made_room;
} rg_torch_reader;

/* Frees everything that the reader holds, except the file and the zip archive. */
void rgi_torch_reader_free(rg_torch_reader *r);
/* Returns the tensor for a value that is a tensor or a storage, or NULL on failure. The reader owns
 * the tensor. `name` is the name of the entry, for error messages. */
rg_tensor *rgi_torch_tensor(rg_torch_reader *r, uint32_t value, const char *name);
/* Returns the pickle's value as a list of named tensors, which the innermost scope owns. A list
 * with .n == -1 means failure. */
rg_named_list rgi_torch_entries(rg_torch_reader *r);

/*
 * torch_file.h: declarations that the readers of torch's archives share. torch_read.c reads the
 * archive's members, torch_tensor.c makes tensors, and torch_entries.c names them.
 */
#pragma once

#include "tensor/files/files.h"
#include "pickle.h"
#include "tensor/files/zip.h"
#include "tensor/map.h"
#include "tensor/text/text.h"

/* A storage, which is a member of the archive. When its elements have been read in a type, a tensor
 * of one dim holds them, and tensors share it. */
typedef struct {
    uint8_t global; /* The storage's type in the pickle. */
    int64_t numel;
    const rg_zip_member *member;
    rg_tensor *as[RG_FOREIGN_COUNT];
} rg_torch_storage;

/* The reader. `made` has a tensor, or NULL, for each value of the pickle. */
typedef struct {
    const rg_file *file;
    const rg_zip *zip;
    const char *prefix; /* The folder of the members: n bytes with which their names begin. */
    size_t prefix_n;
    bool swapped; /* Set if the bytes of elements are in the other order than the machine's. */
    rg_pickle pickle;
    rg_map keys; /* The indices of storages by key. */
    rg_torch_storage *storages;
    size_t n_storages, storage_room;
    rg_tensor **made;
    size_t made_room;
} rg_torch_reader;

/* Releases everything that the reader holds, except the file. */
void rgi_torch_reader_free(rg_torch_reader *r);
/* Returns the tensor of a value that is a tensor or a storage, or NULL. The reader owns it. `name`
 * is the name of its entry. */
rg_tensor *rgi_torch_tensor(rg_torch_reader *r, uint32_t value, const char *name);
/* Returns the entries of the pickle's value. */
rg_named_list rgi_torch_entries(rg_torch_reader *r);

/*
 * torch_file.h: what the files that read torch's archives share: where a storage's elements are,
 * and how the pickle's values become entries. torch_read.c knows the archive's members,
 * torch_tensor.c makes tensors, and torch_entries.c names them.
 */
#pragma once

#include "tensor/files/files.h"
#include "pickle.h"
#include "tensor/files/zip.h"
#include "tensor/map.h"
#include "tensor/text/text.h"

/* A storage is a member of the archive. Once its elements are read as those of a type, a tensor of
 * one dim holds them; tensors share it. */
typedef struct {
    uint8_t global; /* The type that the pickle gives it. */
    int64_t numel;
    const rg_zip_member *member;
    rg_tensor *as[RG_FOREIGN_COUNT];
} rg_torch_storage;

/* `made` has a tensor, or NULL, for each value of the pickle. */
typedef struct {
    const rg_file *file;
    const rg_zip *zip;
    const char *prefix; /* The members' names begin with n bytes of this. */
    size_t prefix_n;
    bool swapped; /* The bytes of elements are in the other order than the machine's. */
    rg_pickle pickle;
    rg_map keys; /* Storages' places by key. */
    rg_torch_storage *storages;
    size_t n_storages, storage_room;
    rg_tensor **made;
    size_t made_room;
} rg_torch_reader;

/* Releases what the reader holds, but for the file. */
void rgi_torch_reader_free(rg_torch_reader *r);
/* Returns the tensor of a value that is a tensor or a storage, or NULL. The reader owns it. `name`
 * is its entry's. */
rg_tensor *rgi_torch_tensor(rg_torch_reader *r, uint32_t value, const char *name);
/* Returns the entries of the value that the pickle stands for. */
rg_named_list rgi_torch_entries(rg_torch_reader *r);

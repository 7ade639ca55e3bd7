/*
 * handle.h: the kinds of handles (see rg_handle in tensor.h), and the checks that a pointer is a
 * handle of the expected kind. To add a kind, add a row here; tests/nn/test_handles.c then fails
 * until it has an example of the kind. Handles are released by rgi_free_handle in memory.h.
 */
#pragma once

#include "error.h"

#include <stdatomic.h>

/* Each row has the kind's name in capitals, the article and the name for error messages, and how a
 * program releases such a handle, for the error message about a released one. */
/* clang-format would indent each row further than the one before. */
/* clang-format off */
#define RG_KINDS_OF_FILES_(row)                                     \
    row(SAFE_FILE, "a ", "file", "by rg_safe_close")                \
    row(TOKENS, "", "tokens", "by rg_tokens_close")                 \
    row(REPORT, "a ", "report", "by rg_report_end")                 \
    row(SEAL, "a ", "seal", "by rg_seal_end")
#define RG_HANDLE_KINDS_(row)                                       \
    RG_KINDS_OF_FILES_(row)                                         \
    row(GENERATOR, "a ", "generator", "by rg_generator_free")       \
    row(REPLAY, "a ", "recorded step", "by rg_replay_free")         \
    row(REPLAYS, "", "recorded steps", "by rg_replays_free")        \
    row(MODULE, "a ", "module", "by rg_module_free")                \
    row(OPTIM, "an ", "optimizer", "by rg_optim_free")              \
    row(SCHEDULE, "a ", "schedule", "with its optimizer")           \
    row(DATA_LOADER, "a ", "data loader", "by rg_data_loader_free") \
    row(VOCABULARY, "a ", "vocabulary", "by rg_vocabulary_free")    \
    row(TOKENIZER, "a ", "tokenizer", "by rg_tokenizer_free")
/* clang-format on */

#define RG_HANDLE_KIND_ENUM_(kind, article, name, released) RG_HANDLE_##kind,
/* The values of rg_handle.kind, which are unlikely to occur elsewhere in memory. None may be equal
 * to a state of a tensor, which has the same offset: one read tells handles and tensors apart. */
typedef enum rg_handle_kind {
    RG_HANDLE_BEFORE_FIRST = 0x484e4400,
    RG_HANDLE_KINDS_(RG_HANDLE_KIND_ENUM_) RG_HANDLE_BEHIND_LAST
} rg_handle_kind;

/* Initialises the header of a handle. */
#define RG_NEW_HANDLE(kind_) \
    { .kind = RG_HANDLE_##kind_ }

/* Returns whether `it` is a handle of this kind and hasn't been released. */
static inline bool rgi_is_handle(const void *it, rg_handle_kind kind) {
    const rg_handle *h = it;
    return h && h->kind == kind && !h->released;
}

/* Fails with a message that says why `it` isn't a handle of this kind, or that it was released. If
 * `it` is NULL and the thread has an error already, that error stays. Always returns false. */
bool rgi_refuse_handle(const void *it, const char *op, rg_handle_kind kind) __attribute__((cold));

/* Returns whether `it` is a handle of this kind and hasn't been released. Fails if not. */
static inline bool rgi_handle_given(const void *it, const char *op, rg_handle_kind kind) {
    return RG_LIKELY(rgi_is_handle(it, kind)) || rgi_refuse_handle(it, op, kind);
}

/* Counts how often a parameter, buffer or child of a module has been replaced by another value, in
 * all modules. An optimizer compares the count, since it may still have the old parameter. */
extern atomic_uint rgi_replacements;

/* Returns a string such as "a tensor" or "an optimizer", for error messages about a wrong
 * pointer. */
const char *rgi_name_of_pointer(const void *it);

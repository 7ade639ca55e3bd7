/*
 * handle.h: the kinds of handles (see rg_handle in tensor.h), and the checks that a pointer is a
 * handle of the expected kind. A new kind is a row here; tests/nn/test_handles.c asks for an
 * example of it. rgi_free_handle, in memory.h, releases handles.
 */
#pragma once

#include "error.h"

/* A row: the kind's name in capitals, its article and its name in sentences, and the function that
 * releases it. */
#define RG_HANDLE_KINDS_(row)                                                                    \
    row(GENERATOR, "a ", "generator", "by rg_generator_free")                                    \
        row(SAFE_FILE, "a ", "file", "by rg_safe_close") row(REPLAY, "a ", "recorded step",      \
                                                             "by rg_replay_free")                \
            row(REPLAYS, "", "recorded steps", "by rg_replays_free")                             \
                row(MODULE, "a ", "module", "by rg_module_free")                                 \
                    row(OPTIM, "an ", "optimizer", "by rg_optim_free")                           \
                        row(SCHEDULE, "a ", "schedule", "with its optimizer")                    \
                            row(TOKENS, "", "tokens", "by rg_tokens_close")                      \
                                row(DATA_LOADER, "a ", "data loader", "by rg_data_loader_free")  \
                                    row(VOCABULARY, "a ", "vocabulary", "by rg_vocabulary_free") \
                                        row(TOKENIZER, "a ", "tokenizer", "by rg_tokenizer_free")

#define RG_HANDLE_KIND_ENUM_(kind, article, name, released) RG_HANDLE_##kind,
/* The values of rg_handle.kind: numbers that are unlikely to be elsewhere in memory. None of them
 * is a state of a tensor, which lies at the same offset. */
typedef enum rg_handle_kind {
    RG_HANDLE_BEFORE_FIRST = 0x484e4400,
    RG_HANDLE_KINDS_(RG_HANDLE_KIND_ENUM_) RG_HANDLE_BEHIND_LAST
} rg_handle_kind;

/* Initialises the header of a handle. */
#define RG_NEW_HANDLE(kind_) \
    { .kind = RG_HANDLE_##kind_ }

/* Returns whether `it` is a handle of that kind that wasn't released. */
static inline bool rgi_is_handle(const void *it, rg_handle_kind kind) {
    const rg_handle *h = it;
    return h && h->kind == kind && !h->released;
}

/* Fails with a sentence that says why `it` isn't such a handle. If `it` is NULL and there is an
 * error already, that error stays. Returns false. */
bool rgi_refuse_handle(const void *it, const char *op, rg_handle_kind kind) __attribute__((cold));

/* Returns whether `it` is a handle of that kind that wasn't released; otherwise fails. */
static inline bool rgi_handle_given(const void *it, const char *op, rg_handle_kind kind) {
    return RG_LIKELY(rgi_is_handle(it, kind)) || rgi_refuse_handle(it, op, kind);
}

/* Returns text such as "a tensor" or "an optimizer", for sentences about a wrong pointer. */
const char *rgi_name_of_pointer(const void *it);

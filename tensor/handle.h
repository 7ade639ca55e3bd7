/*
 * handle.h: the kinds of handles (tensor.h), and the checks that a pointer is a handle of the kind
 * that a function expects. A new kind is a row here; tests/nn/test_handles.c asks for an example of
 * it. Handles are released with rgi_free_handle, in memory.h.
 */
#pragma once

#include "error.h"

/* A row is the kind's name in capitals, its article and its name in sentences, and what releases
 * it. */
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
/* Nothing else in memory is likely to look like one of these numbers; a tensor's state, which lies
 * in the same place, is none of them. */
typedef enum rg_handle_kind {
    RG_HANDLE_BEFORE_FIRST = 0x484e4400,
    RG_HANDLE_KINDS_(RG_HANDLE_KIND_ENUM_) RG_HANDLE_BEHIND_LAST
} rg_handle_kind;

/* Begins a handle, as the initial value of its header. */
#define RG_NEW_HANDLE(kind_) \
    { .kind = RG_HANDLE_##kind_ }

/* Returns whether it is a handle of that kind that wasn't released. */
static inline bool rgi_is_handle(const void *it, rg_handle_kind kind) {
    const rg_handle *h = it;
    return h && h->kind == kind && !h->released;
}

/* Fails with the sentence that says why it is no handle of that kind. An error that stands already
 * stays where `it` is NULL. */
bool rgi_refuse_handle(const void *it, const char *op, rg_handle_kind kind) __attribute__((cold));

/* Returns whether it is a handle of that kind that wasn't released; else fails. */
static inline bool rgi_handle_given(const void *it, const char *op, rg_handle_kind kind) {
    return RG_LIKELY(rgi_is_handle(it, kind)) || rgi_refuse_handle(it, op, kind);
}

/* Returns "a tensor", "an optimizer" and so on, for sentences about a pointer that was given in
 * another one's place. */
const char *rgi_name_of_pointer(const void *it);

/*
 * handle.c: fails with an error message if the pointer that a function gets isn't a handle of the
 * kind that the function expects.
 */
#include "handle.h"

#include "structs.h"

_Static_assert(offsetof(rg_handle, kind) == offsetof(rg_tensor, state),
               "one look tells tensors and handles apart");
_Static_assert(offsetof(rg_handle, kind) >= offsetof(rg_free_block, keeps_state)
                   && sizeof(rg_handle) <= offsetof(rg_free_block, batch),
               "a free block keeps what a handle's header says");

atomic_uint rgi_replacements;

typedef struct {
    const char *article_and_name, *name, *released;
} handle_words;

#define WORDS(kind, article, name, released) { article name, name, released },
static const handle_words words[] = { RG_HANDLE_KINDS_(WORDS) };

static const handle_words *words_of(uint32_t kind) {
    const bool known = kind > RG_HANDLE_BEFORE_FIRST && kind < RG_HANDLE_BEHIND_LAST;
    return known ? &words[kind - RG_HANDLE_BEFORE_FIRST - 1] : NULL;
}

const char *rgi_name_of_pointer(const void *it) {
    if (!it)
        return "NULL";
    if (it == RG_NONE)
        return "RG_NONE";
    if (rgi_is_tensor(it))
        return "a tensor";
    const handle_words *w = words_of(((const rg_handle *)it)->kind);
    return w ? w->article_and_name : "another pointer";
}

bool rgi_refuse_handle(const void *it, const char *op, rg_handle_kind kind) {
    const handle_words *w = words_of(kind);
    if (!rgi_given(it, op, w->article_and_name))
        return false;
    RG_FAIL_AS_IF(RG_RELEASED, ((const rg_handle *)it)->kind == kind, op, "%s released %s", w->name,
                  w->released);
    return rgi_fail(RG_TYPE_ERROR, op, "expected %s but got %s", w->article_and_name,
                    rgi_name_of_pointer(it));
}

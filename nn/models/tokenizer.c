/*
 * tokenizer.c: frees a tokenizer, and looks up tokens by their ids and by their strings.
 */
#include "tokenizer_struct.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/text/text.h"

/* ---- making and freeing --------------------------------------------------------------- */

static void free_added(rg_added_tokens *a) {
    for (size_t i = 0; i < a->n; i++)
        rgi_rename(&a->v[i].text, NULL);
    rgi_free(a->v, a->room * sizeof *a->v, RG_MEM_OTHER);
}

static void free_steps(rg_tokenizer *t) {
    for (size_t i = 0; i < t->n_norms; i++)
        rgi_norm_free(&t->norms[i]);
    for (size_t i = 0; i < t->n_pres; i++)
        rgi_regex_free(&t->pres[i].regex);
    for (size_t i = 0; i < t->n_decoders; i++) {
        rgi_rename(&t->decoders[i].text, NULL);
        rgi_regex_free(&t->decoders[i].regex);
    }
    rgi_free(t->norms, t->norms_room * sizeof *t->norms, RG_MEM_OTHER);
    rgi_free(t->pres, t->pres_room * sizeof *t->pres, RG_MEM_OTHER);
    rgi_free(t->decoders, t->decoders_room * sizeof *t->decoders, RG_MEM_OTHER);
}

static void free_template(rg_template *template) {
    rgi_free(template->v, template->room * sizeof *template->v, RG_MEM_OTHER);
}

void rgi_tokenizer_drop(rg_tokenizer *t) {
    rgi_map_free(&t->names);
    rgi_merges_free(&t->merges);
    rgi_unicode_free(&t->unicode);
    free_added(&t->plain);
    free_added(&t->normalized);
    free_steps(t);
    free_template(&t->single);
    free_template(&t->pair);
    rgi_rename(&t->prefix, NULL);
    rgi_rename(&t->suffix, NULL);
    rgi_free(t->tokens, t->room * sizeof *t->tokens, RG_MEM_OTHER);
    rgi_free(t->template_ids, t->template_ids_room * sizeof *t->template_ids, RG_MEM_OTHER);
    rgi_free(t->scores, t->scores_room * sizeof *t->scores, RG_MEM_OTHER);
    rgi_free(t->sorted, t->sorted_room * sizeof *t->sorted, RG_MEM_OTHER);
    rgi_free_handle(&t->handle, sizeof *t);
}

void rg_tokenizer_free(rg_tokenizer *t) {
    if (t && rgi_handle_given(t, "tokenizer_free", RG_HANDLE_TOKENIZER))
        rgi_tokenizer_drop(t);
}

/* ---- looking up tokens by id and by string -------------------------------------------- */

int64_t rg_tokenizer_size(const rg_tokenizer *t) {
    const bool given = rgi_handle_given(t, "tokenizer_size", RG_HANDLE_TOKENIZER);
    return given ? (int64_t)t->n : rgi_failed_count();
}

int64_t rg_tokenizer_id(const rg_tokenizer *t, const char *token) {
    if (!rgi_handle_given(t, "tokenizer_id", RG_HANDLE_TOKENIZER)
        || !rgi_given(token, "tokenizer_id", "a token"))
        return rgi_failed_count();
    int64_t id = rgi_map_name(&t->names, token);
    if (id >= 0)
        return id;
    rg_fail(RG_INDEX_ERROR, "tokenizer_id", "KeyError: '%s' is none of the %zu tokens", token,
            t->n);
    return rgi_failed_count();
}

bool rgi_is_token(const rg_tokenizer *t, int64_t id, const char *op) {
    RG_FAIL_INDEX_IF(id < 0 || (uint64_t)id >= t->n, op, "index %lld is none of %zu tokens",
                     (long long)id, t->n);
    return true;
}

const char *(rg_tokenizer_token)(const rg_tokenizer *t, int64_t id) {
    if (!rgi_handle_given(t, "tokenizer_token", RG_HANDLE_TOKENIZER)
        || !rgi_is_token(t, id, "tokenizer_token"))
        return NULL;
    return t->tokens[id].text;
}

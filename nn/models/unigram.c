/*
 * unigram.c: makes tokens of a word by the model Unigram: of all ways to cut the word into tokens,
 * the one whose scores have the largest sum. Sums are added in the order of Hugging Face's
 * tokenizers, and of equal ones the first that is found counts.
 */
#include "tokenizer_model.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <stdlib.h>
#include <string.h>

static int by_token_text(const void *a, const void *b) {
    const rg_token *const *x = a, *const *y = b;
    return strcmp((*x)->text, (*y)->text);
}

bool rgi_unigram_sort(rg_tokenizer *t) {
    RG_SCOPE();
    const rg_token **sorted = rgi_scope_alloc(t->n * sizeof *sorted);
    if (!sorted || !rgi_grow((void **)&t->sorted, &t->sorted_room, t->n, sizeof *t->sorted))
        return false;
    for (size_t i = 0; i < t->n; i++)
        if (t->tokens[i].model)
            sorted[t->n_sorted++] = &t->tokens[i];
    qsort(sorted, t->n_sorted, sizeof *sorted, by_token_text);
    for (size_t i = 0; i < t->n_sorted; i++)
        t->sorted[i] = (uint32_t)(sorted[i] - t->tokens);
    return true;
}

/* Returns the index of the first of the sorted tokens from `low` to `high` whose byte at offset
 * `at` is at least `byte`. The tokens have the same bytes before this offset. */
static size_t first_from(const rg_tokenizer *t, size_t low, size_t high, size_t at, unsigned byte) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((unsigned char)t->tokens[t->sorted[middle]].text[at] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Notes a way to the offset `to`, whose last token `id` begins at `from`, unless a way with a score
 * of at least `score` is known. */
static void offer(rg_unigram_node *nodes, size_t from, size_t to, uint32_t id, double score) {
    if (!nodes[to].found || score > nodes[to].score)
        nodes[to] = (rg_unigram_node){ score, from, 0, id, true };
}

/* Offers all tokens with which the word continues at offset `from`. Returns whether one of them is
 * the single character of `wide` bytes there. */
static bool offer_tokens(const rg_tokenizer *t, rg_unigram_node *nodes, const rg_piece *word,
                         size_t from, size_t wide) {
    size_t low = 0, high = t->n_sorted;
    bool single = false;
    for (size_t to = from; to < word->n; to++) {
        unsigned byte = (unsigned char)word->v[to];
        if (byte == 0)
            break;
        low = first_from(t, low, high, to - from, byte);
        high = first_from(t, low, high, to - from, byte + 1);
        if (low == high)
            break;
        uint32_t id = t->sorted[low];
        if (t->tokens[id].bytes != to + 1 - from)
            continue;
        offer(nodes, from, to + 1, id, t->scores[id] + nodes[from].score);
        single = single || to + 1 - from == wide;
    }
    return single;
}

/* Finds the best way to each offset of the word. */
static bool find_ways(const rg_tokenizer *t, rg_unigram_node *nodes, const rg_piece *word) {
    static const double unknown_penalty = 10;
    for (size_t at = 0, wide; at < word->n; at += wide) {
        uint32_t code;
        wide = rgi_utf8_read(word->v + at, word->v + word->n, &code);
        if (offer_tokens(t, nodes, word, at, wide))
            continue;
        RG_FAIL_VALUE_IF(t->unknown < 0, "tokenizer_encode",
                         "the character \"%.*s\" isn't in the vocabulary, nor is a token for such "
                         "characters",
                         (int)wide, word->v + at);
        offer(nodes, at, at + wide, (uint32_t)t->unknown,
              t->least_score - unknown_penalty + nodes[at].score);
    }
    return true;
}

/* Follows the best way back from the end of the word, and sets in the node at the beginning of each
 * token the token's end. Adjacent unknown tokens become one. */
static void turn_way(const rg_tokenizer *t, rg_unigram_node *nodes, size_t n) {
    bool unknown = false;
    for (size_t end = n, from; end > 0; end = from) {
        from = nodes[end].from;
        bool now = t->unknown >= 0 && nodes[end].id == (uint32_t)t->unknown;
        nodes[from].to = now && unknown ? nodes[end].to : end;
        unknown = now;
    }
}

/* Appends the token of a part of the word. If it has none, appends those of its bytes, or the
 * unknown token. */
static bool add_unigram(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids,
                        const rg_piece *word, size_t from, size_t to) {
    int64_t id = rgi_model_token(t, room, NULL, word->v + from, to - from, NULL);
    if (id == -2)
        return false;
    int as_bytes = id < 0 ? rgi_model_bytes(t, ids, word, from, to) : 0;
    if (as_bytes)
        return as_bytes > 0;
    return rgi_ids_add(ids, id < 0 ? t->unknown : id, word, from, to);
}

bool rgi_unigram_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids,
                      const rg_piece *word) {
    if (!rgi_grow((void **)&room->nodes, &room->nodes_room, word->n + 1, sizeof *room->nodes))
        return false;
    for (size_t i = 0; i <= word->n; i++)
        room->nodes[i] = (rg_unigram_node){ 0 };
    if (!find_ways(t, room->nodes, word))
        return false;
    turn_way(t, room->nodes, word->n);
    for (size_t from = 0; from < word->n; from = room->nodes[from].to)
        if (!add_unigram(t, room, ids, word, from, room->nodes[from].to))
            return false;
    return true;
}

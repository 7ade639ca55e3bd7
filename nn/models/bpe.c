/*
 * bpe.c: keeps the table of merges, and merges the tokens of a word. As long as a merge is
 * possible, the merge with the lowest rank is made. If it is possible at several places in the
 * word, it is made at the leftmost.
 */
#include "bpe.h"
#include "tensor/error.h"

#include <stdlib.h>

/* ---- the table of merges -------------------------------------------------------------- */

bool rgi_merges_add(rg_merges *m, uint32_t left, uint32_t right, uint32_t made) {
    if (!rgi_grow((void **)&m->v, &m->room, m->n + 1, sizeof *m->v))
        return false;
    m->v[m->n] = (rg_merge){ left, right, (uint32_t)m->n, made };
    m->n++;
    return true;
}

static int by_pair_and_rank(const void *a, const void *b) {
    const rg_merge *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right < y->right ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

bool rgi_merges_ready(rg_merges *m, size_t tokens) {
    if (!rgi_grow((void **)&m->first, &m->first_room, tokens + 1, sizeof *m->first))
        return false;
    if (m->n > 1)
        qsort(m->v, m->n, sizeof *m->v, by_pair_and_rank);
    size_t kept = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (kept && m->v[kept - 1].left == m->v[i].left && m->v[kept - 1].right == m->v[i].right)
            kept--;
        m->v[kept++] = m->v[i];
    }
    m->n = kept;
    size_t at = 0;
    for (size_t left = 0; left <= tokens; left++) {
        while (at < m->n && m->v[at].left < left)
            at++;
        m->first[left] = (uint32_t)at;
    }
    return true;
}

void rgi_merges_free(rg_merges *m) {
    rgi_free(m->v, m->room * sizeof *m->v, RG_MEM_OTHER);
    rgi_free(m->first, m->first_room * sizeof *m->first, RG_MEM_OTHER);
}

/* Returns the merge of this pair of tokens. Returns NULL if there is none. */
static const rg_merge *find_merge(const rg_merges *m, uint32_t left, uint32_t right) {
    size_t low = m->first[left], high = m->first[left + 1];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->v[middle].right == right)
            return &m->v[middle];
        if (m->v[middle].right < right)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- merging the tokens of a word ----------------------------------------------------- */

/* A word is a linked list of symbols, each of which stands for a token. `before` and `behind` are
 * the indices of a symbol's neighbours in the list. They are NO_SYMBOL where there is no neighbour:
 * `before` in the first symbol, and `behind` in the last one. */
enum { NO_SYMBOL = UINT32_MAX };

typedef struct rg_bpe_symbol {
    uint32_t token, before, behind, bytes;
    bool gone; /* The symbol was merged into the one before it. */
} bpe_symbol;

/* A possible merge: the token of the symbol at index `at` and the token of the next symbol become
 * `made`. If one of the two symbols has changed since the merge was pushed onto the heap, the merge
 * may be impossible now (see still_due). */
typedef struct rg_bpe_due {
    uint32_t rank, at, made;
} bpe_due;

bool rgi_bpe_add(rg_bpe *w, uint32_t token, size_t bytes) {
    RG_FAIL_IF(w->n >= INT32_MAX, "tokenizer_encode", "a word is longer than 2147483647 bytes");
    if (w->n == w->room && !rgi_grow((void **)&w->symbols, &w->room, w->n + 1, sizeof *w->symbols))
        return false;
    uint32_t at = (uint32_t)w->n;
    uint32_t before = at ? at - 1 : NO_SYMBOL;
    w->symbols[at] = (bpe_symbol){ token, before, NO_SYMBOL, (uint32_t)bytes, false };
    if (at > 0)
        w->symbols[at - 1].behind = at;
    w->n++;
    return true;
}

static bool comes_before(bpe_due a, bpe_due b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

/* Pushes the merge of two adjacent symbols onto the heap, if the table m has a merge of their
 * tokens. `left` and `right` are the symbols' indices. If one of these is NO_SYMBOL, does nothing.
 * Returns false if memory runs out. */
static bool push_pair(rg_bpe *w, const rg_merges *m, uint32_t left, uint32_t right) {
    if (left == NO_SYMBOL || right == NO_SYMBOL)
        return true;
    const rg_merge *merge = find_merge(m, w->symbols[left].token, w->symbols[right].token);
    if (!merge)
        return true;
    if (w->due == w->due_room
        && !rgi_grow((void **)&w->heap, &w->due_room, w->due + 1, sizeof *w->heap))
        return false;
    bpe_due new = { merge->rank, left, merge->made };
    size_t at = w->due++;
    for (size_t above; at > 0; at = above) {
        above = (at - 1) / 2;
        if (!comes_before(new, w->heap[above]))
            break;
        w->heap[at] = w->heap[above];
    }
    w->heap[at] = new;
    return true;
}

/* Returns the first merge of the heap (see comes_before), and removes it from the heap. The heap
 * must not be empty. */
static bpe_due pop_due(rg_bpe *w) {
    bpe_due first = w->heap[0], last = w->heap[--w->due];
    size_t at = 0;
    for (size_t below; (below = 2 * at + 1) < w->due; at = below) {
        if (below + 1 < w->due && comes_before(w->heap[below + 1], w->heap[below]))
            below++;
        if (!comes_before(w->heap[below], last))
            break;
        w->heap[at] = w->heap[below];
    }
    w->heap[at] = last;
    return first;
}

/* Returns whether a merge that was popped from the heap is still possible. The symbol at due.at
 * must still be in the list, and the merge of its token and the next symbol's token must make
 * due.made. */
static bool still_due(const rg_bpe *w, const rg_merges *m, bpe_due due) {
    const bpe_symbol *left = &w->symbols[due.at];
    if (left->gone || left->behind == NO_SYMBOL)
        return false;
    const rg_merge *merge = find_merge(m, left->token, w->symbols[left->behind].token);
    return merge && merge->made == due.made;
}

bool rgi_bpe_merge(rg_bpe *w, const rg_merges *m) {
    for (uint32_t i = 1; i < w->n; i++)
        if (!push_pair(w, m, i - 1, i))
            return false;
    while (w->due > 0) {
        bpe_due due = pop_due(w);
        if (!still_due(w, m, due))
            continue;
        bpe_symbol *left = &w->symbols[due.at], *right = &w->symbols[left->behind];
        left->token = due.made;
        left->bytes += right->bytes;
        left->behind = right->behind;
        right->gone = true;
        if (left->behind != NO_SYMBOL)
            w->symbols[left->behind].before = due.at;
        if (!push_pair(w, m, left->before, due.at) || !push_pair(w, m, due.at, left->behind))
            return false;
    }
    return true;
}

bool rgi_bpe_next(const rg_bpe *w, uint32_t *at, int64_t *token, size_t *bytes) {
    if (w->n == 0 || *at == NO_SYMBOL)
        return false;
    *token = w->symbols[*at].token;
    *bytes = w->symbols[*at].bytes;
    *at = w->symbols[*at].behind;
    return true;
}

void rgi_bpe_free(rg_bpe *w) {
    rgi_free(w->symbols, w->room * sizeof *w->symbols, RG_MEM_OTHER);
    rgi_free(w->heap, w->due_room * sizeof *w->heap, RG_MEM_OTHER);
}

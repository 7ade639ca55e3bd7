/*
 * aligned.c: texts whose bytes have ranges of the original text that they stand for.
 */
#include "aligned.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <string.h>

rg_piece rgi_piece_part(const rg_piece *p, size_t from, size_t to) {
    return (rg_piece){ p->v + from, to - from, p->span ? p->span + from : NULL, p->at + from };
}

rg_byte_range rgi_piece_span(const rg_piece *p, size_t from, size_t to) {
    if (p->span)
        return (rg_byte_range){ p->span[from].from, p->span[to - 1].to };
    /* A byte of the original stands for its whole character. */
    while (from > 0 && from < p->n && (p->v[from] & 0xC0) == 0x80)
        from--;
    while (to > from && to < p->n && (p->v[to] & 0xC0) == 0x80)
        to++;
    return (rg_byte_range){ (uint32_t)(p->at + from), (uint32_t)(p->at + to) };
}

static bool append_bytes(rg_aligned *a, const char *bytes, size_t n) {
    if (!rgi_grow((void **)&a->v, &a->room, a->n + n + 1, 1))
        return false;
    memcpy(a->v + a->n, bytes, n);
    return !a->aligned || rgi_grow((void **)&a->span, &a->span_room, a->n + n, sizeof *a->span);
}

static bool append_bytes_as(rg_aligned *a, const char *bytes, size_t n, const rg_piece *p,
                            size_t at) {
    if (!append_bytes(a, bytes, n))
        return false;
    rg_byte_range span = a->aligned ? rgi_piece_span(p, at, at + 1) : (rg_byte_range){ 0 };
    for (size_t i = 0; a->aligned && i < n; i++)
        a->span[a->n + i] = span;
    a->n += n;
    return true;
}

bool rgi_aligned_put(rg_aligned *a, uint32_t code, const rg_piece *p, size_t at) {
    char bytes[4];
    return append_bytes_as(a, bytes, rgi_utf8_write(bytes, code), p, at);
}

bool rgi_aligned_text(rg_aligned *a, const char *text, const rg_piece *p, size_t at) {
    return append_bytes_as(a, text, strlen(text), p, at);
}

bool rgi_aligned_copy(rg_aligned *a, const rg_piece *p, size_t from, size_t to) {
    if (!append_bytes(a, p->v + from, to - from))
        return false;
    for (size_t i = from; a->aligned && i < to; i++)
        a->span[a->n + i - from] = rgi_piece_span(p, i, i + 1);
    a->n += to - from;
    return true;
}

rg_piece rgi_aligned_piece(const rg_aligned *a) {
    return (rg_piece){ a->n ? a->v : "", a->n, a->aligned ? a->span : NULL, 0 };
}

void rgi_aligned_free(rg_aligned *a) {
    rgi_free(a->v, a->room, RG_MEM_OTHER);
    rgi_free(a->span, a->span_room * sizeof *a->span, RG_MEM_OTHER);
}

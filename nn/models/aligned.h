/*
 * aligned.h: a text that was made from another, the original, by the normalizer and the
 * pre-tokenizer. If a caller asks for the offsets of tokens, each byte of the text has the range of
 * bytes of the original that it stands for. Private.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of bytes of the original. */
typedef struct {
    uint32_t from, to;
} rg_byte_range;

/* A part of a text: n bytes of UTF-8. If `span` isn't NULL, it has the span of each byte. Otherwise
 * the part is a part of the original, in which it begins at offset `at`. */
typedef struct {
    const char *v;
    size_t n;
    const rg_byte_range *span;
    size_t at;
} rg_piece;

/* A text that grows. `span` is used only if `aligned` is true. The struct begins as { 0 }, and is
 * used again for the next text. */
typedef struct {
    char *v;
    rg_byte_range *span;
    size_t n, room, span_room;
    bool aligned;
} rg_aligned;

/* Returns the part of a piece that begins at offset `from` and ends before `to`. */
rg_piece rgi_piece_part(const rg_piece *p, size_t from, size_t to);
/* Returns the range of the original for which the bytes of a piece from `from` to `to` stand, which
 * are one or more. */
rg_byte_range rgi_piece_span(const rg_piece *p, size_t from, size_t to);

/* Appends a character that stands for what the byte at offset `at` of the piece stands for. Returns
 * false if memory runs out. */
bool rgi_aligned_put(rg_aligned *a, uint32_t code, const rg_piece *p, size_t at);
/* Appends a string in the same way, which all stands for that byte's range. */
bool rgi_aligned_text(rg_aligned *a, const char *text, const rg_piece *p, size_t at);
/* Appends the bytes of the piece from `from` to `to`. Returns false if memory runs out. */
bool rgi_aligned_copy(rg_aligned *a, const rg_piece *p, size_t from, size_t to);
/* Returns the whole text as a piece. */
rg_piece rgi_aligned_piece(const rg_aligned *a);
void rgi_aligned_free(rg_aligned *a);
